//! Whose pods stand in a cluster: the object in which a change has to be made.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::snapshot::Snapshot;
use crate::workload::owner::workload_owner;
use crate::workload::{Workload, WorkloadKind};

/// An object with its pods.
pub(super) struct Owner<'s> {
    pub(super) workload: &'s Workload,
    pub(super) pods: Vec<Arc<Workload>>,
    /// Of a pod: the object that makes it, where the snapshot lacks that.
    pub(super) made_by: Option<String>,
}

impl Owner<'_> {
    /// Whether devices come to it by dynamic resource claims too, which no other node need have.
    pub(super) fn has_claims(&self) -> bool {
        !self.workload.pod.spec.resource_claims.is_empty()
    }
}

/// Every owner, in the order of namespace and name of the first of its pods.
pub(super) struct Owners<'s> {
    owners: Vec<Owner<'s>>,
    by_pod: BTreeMap<(&'s str, &'s str), usize>,
}

impl<'s> Owners<'s> {
    pub(super) fn of(snapshot: &'s Snapshot) -> Self {
        let mut owners: Vec<Owner<'s>> = Vec::new();
        let mut known: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
        let mut by_pod = BTreeMap::new();
        for pod in snapshot.pods() {
            let object = &pod.object;
            let told = workload_owner(&pod.pod.metadata);
            let controller = pod
                .controller
                .as_ref()
                .map(|by| (by.kind.as_str(), by.name.as_str()));
            let found = told
                .into_iter()
                .chain(controller)
                .find_map(|(kind, name)| snapshot.named(&object.namespace, kind, name));
            let found = found.map(|owner| above(snapshot, owner));
            let made_by = match (found, told) {
                (None, Some((kind, name))) => Some(format!("{kind} {}/{name}", object.namespace)),
                _ => None,
            };
            let workload: &'s Workload = found.unwrap_or(pod);
            let key = (
                workload.object.namespace.as_str(),
                workload.object.kind.as_str(),
                workload.object.name.as_str(),
            );
            let index = *known.entry(key).or_insert_with(|| {
                owners.push(Owner {
                    workload,
                    pods: Vec::new(),
                    made_by,
                });
                owners.len() - 1
            });
            if let Some(owner) = owners.get_mut(index) {
                owner.pods.push(pod.clone());
            }
            by_pod.insert((object.namespace.as_str(), object.name.as_str()), index);
        }
        Self { owners, by_pod }
    }

    pub(super) fn get(&self, index: usize) -> Option<&Owner<'s>> {
        self.owners.get(index)
    }

    pub(super) fn of_pod(&self, namespace: &str, name: &str) -> Option<usize> {
        self.by_pod.get(&(namespace, name)).copied()
    }

    /// Its pods stand elsewhere now.
    pub(super) fn stand(&mut self, index: usize, pods: Vec<Arc<Workload>>) {
        if let Some(owner) = self.owners.get_mut(index) {
            owner.pods = pods;
        }
    }
}

/// The object that an object belongs to, itself included: a ReplicaSet's Deployment, a Job's CronJob.
fn above<'s>(snapshot: &'s Snapshot, owner: &'s Workload) -> &'s Workload {
    let mut top = owner;
    // Owners are two deep in Kubernetes itself, and somewhat deeper with operators.
    for _ in 0..8 {
        let Some(by) = &top.controller else { break };
        let named = snapshot.named(&top.object.namespace, &by.kind, &by.name);
        match named.filter(|next| next.kind != WorkloadKind::Pod) {
            Some(next) => top = next,
            None => break,
        }
    }
    top
}
