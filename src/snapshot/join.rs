//! Objects that were admitted become part of the cluster: a pod holds memory, a workload's pods do.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Key, Snapshot};
use crate::decision::{self, MadePod, Operation, Question};
use crate::ledger::Ledger;
use crate::workload::pod::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, OwnerReference, Pod, Requirement,
};
use crate::workload::{Workload, WorkloadKind};

impl Snapshot {
    /// Gives the pods of an object the priority of their class, as the API server does.
    pub fn prioritize(&self, workload: &mut Workload) {
        self.priorities.fill(&mut workload.pod.spec);
    }

    /// What an object of the input is in this cluster: an UPDATE keeps the identity of the object that exists, and a
    /// pod its node, which no manifest repeats.
    pub fn adopt(&self, workload: &mut Workload) {
        let Some(old) = self.existing(workload) else {
            Self::identify(workload);
            return;
        };
        workload.uid.clone_from(&old.uid);
        if workload.kind == WorkloadKind::Pod {
            workload.pod.metadata.uid.clone_from(&old.uid);
            if workload.pod.spec.node_name.is_none() {
                workload.pod.spec.node_name.clone_from(&old.pod.spec.node_name);
            }
            if workload.pod.status.phase.is_empty() {
                workload.pod.status.clone_from(&old.pod.status);
            }
        }
    }

    /// Takes another wording of an object that is here; its pods stay what they are.
    pub fn restate(&mut self, workload: Workload) {
        if workload.kind != WorkloadKind::Pod {
            self.workloads.insert(Key::of(&workload), Arc::new(workload));
        }
    }

    /// Takes an object out, and its pods with it.
    pub fn withdraw(&mut self, workload: &Workload, ledger: &mut Ledger) {
        let owned = self.owned(workload).map(|pod| (Key::of(pod), pod.uid.clone()));
        let itself = (Key::of(workload), workload.uid.clone());
        let gone: Vec<(Key, String)> = owned.chain([itself]).collect();
        for (key, uid) in gone {
            self.workloads.remove(&key);
            ledger.remove_pod(&uid);
        }
    }

    /// Lets an admitted object join: its pods hold what they will take, in place of those that it had.
    pub fn join(&mut self, workload: Workload, ledger: &mut Ledger) {
        let replaced: Vec<(Key, String)> = self
            .owned(&workload)
            .map(|pod| (Key::of(pod), pod.uid.clone()))
            .collect();
        for (key, uid) in replaced {
            self.workloads.remove(&key);
            ledger.remove_pod(&uid);
        }
        if workload.kind == WorkloadKind::Pod {
            ledger.set_pod(&workload.pod, self);
        } else {
            for Alike { pods, kind } in self.pods_of(&workload, ledger) {
                let made = pods.first().and_then(|pod| self.made(pod, ledger));
                for mut pod in pods {
                    match &made {
                        Some(made) => {
                            // One on a single node is narrowed to no fewer.
                            if let (Some(affinity), None) = (&made.affinity, kind) {
                                pod.spec.affinity = Some(affinity.clone());
                            }
                            ledger.set_pod_with(&pod, made.demand.clone());
                        }
                        None => ledger.set_pod(&pod, self),
                    }
                    let pod = Workload::of_pod(pod);
                    self.workloads.insert(Key::of(&pod), Arc::new(pod));
                }
            }
        }
        self.workloads.insert(Key::of(&workload), Arc::new(workload));
    }

    /// What the policy makes of a pod when its controller creates it; `None` where it changes nothing.
    fn made(&self, pod: &Pod, ledger: &Ledger) -> Option<MadePod> {
        let namespace_labels = self.namespace_labels(&pod.metadata.namespace);
        let policies = ledger.policies();
        let policy = policies.for_pod(&namespace_labels, pod, None);
        let question = Question {
            operation: Operation::Create,
            workload: Workload::of_pod(pod.clone()),
            old: None,
            namespace_labels,
            by_node: false,
            scale_only: false,
            dry_run: true,
        };
        let prepared = decision::prepare(question, policies, self.sources(policy.read_config_maps));
        decision::made(&prepared, ledger)
    }

    /// The pods that the controller of a workload would make. More than there are slots cannot start, so they hold
    /// nothing and are left out.
    fn pods_of(&self, workload: &Workload, ledger: &Ledger) -> Vec<Alike> {
        let nodes = self.gpu_nodes(ledger.policies());
        if workload.replicas.per_node {
            let mut kinds: BTreeMap<Option<usize>, Vec<Pod>> = BTreeMap::new();
            for node in nodes {
                let kind = ledger.nodes.get(node.name()).map(|entry| entry.class);
                let pod = on_node(replica(workload, node.name()), node.name());
                kinds.entry(kind).or_default().push(pod);
            }
            return kinds
                .into_iter()
                .map(|(kind, pods)| Alike { pods, kind })
                .collect();
        }
        let slots: u64 = nodes
            .flat_map(|node| node.pools)
            .map(|pool| u64::from(pool.slots))
            .sum();
        let sets = workload.split();
        let several = sets.len() > 1;
        let alike = sets.iter().enumerate().map(|(index, set)| {
            let pods = (0..u64::from(set.replicas.desired).min(slots)).map(|ordinal| {
                let suffix = if several {
                    format!("{index}-{ordinal}")
                } else {
                    ordinal.to_string()
                };
                replica(set, &suffix)
            });
            Alike {
                pods: pods.collect(),
                kind: None,
            }
        });
        alike.collect()
    }
}

/// Pods that the policy changes alike: those of one template, or of a DaemonSet on nodes of one kind.
struct Alike {
    pods: Vec<Pod>,
    /// The kind of node to which each of them is kept.
    kind: Option<usize>,
}

/// One pod of a workload.
fn replica(workload: &Workload, suffix: &str) -> Pod {
    let object = &workload.object;
    let mut pod = workload.pod.clone();
    pod.metadata.name = format!("{}-{suffix}", object.name);
    pod.metadata.namespace.clone_from(&object.namespace);
    pod.metadata.uid = format!("{}/{}/{}/{suffix}", object.kind, object.namespace, object.name);
    pod.metadata.owner_references = vec![OwnerReference {
        api_version: object.api_version.clone(),
        kind: object.kind.clone(),
        name: object.name.clone(),
        uid: workload.uid.clone(),
        controller: true,
    }];
    pod
}

/// The same pod kept to one node, the way the DaemonSet controller does it: by a term on the node's name in each
/// alternative of the affinity.
fn on_node(mut pod: Pod, node: &str) -> Pod {
    let name = Requirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: vec![node.to_owned()],
    };
    let affinity = pod.spec.affinity.get_or_insert_with(Affinity::default);
    let required = affinity
        .node_affinity
        .get_or_insert_with(NodeAffinity::default)
        .required_during_scheduling_ignored_during_execution
        .get_or_insert_with(|| NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm::default()],
        });
    for term in &mut required.node_selector_terms {
        term.match_fields = vec![name.clone()];
    }
    pod
}
