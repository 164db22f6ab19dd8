//! `vramgate policy explain`: which policy applies to each pod and node, why, and where each value comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use crate::cli::args::{Output, PolicyExplain};
use crate::cli::state::Applied;
use crate::cli::{Failure, input, output, state};
use crate::configuration::{Configuration, NodeLabels};
use crate::device::Pool;
use crate::document::{API_VERSION, Kind};
use crate::policy::file::{self, Document};
use crate::policy::written::{self, Written};
use crate::policy::{NodeView, Policy, PolicySet, Signature};
use crate::snapshot::Snapshot;
use crate::workload::{ObjectRef, Workload};

mod reason;
mod text;
mod values;

type Labels = BTreeMap<String, String>;

/// A policy with where it and its values stand.
struct Known {
    policy: Policy,
    place: Place,
    written: Vec<Written>,
}

/// Where a policy stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Place {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

/// What was looked at before a policy was found, in order of precedence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Considered {
    policy: String,
    priority: i64,
    #[serde(flatten)]
    place: Place,
    applies: bool,
    /// What of `match` fails, or what holds.
    reason: String,
}

/// The policy on some nodes, all of which the policies see alike.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct There {
    /// Empty where no node is known yet.
    nodes: Vec<String>,
    /// The policy of the pod; absent for a node by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    considered: Vec<Considered>,
    /// The policy of the devices; absent where no node is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_policy: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    considered_for_devices: Vec<Considered>,
}

/// An object and the policies that it meets.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    object: ObjectRef,
    places: Vec<There>,
}

/// A value of a policy that applies.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Effective {
    field: String,
    value: String,
    /// `FILE:LINE`, or `built-in default`.
    origin: String,
}

/// A policy that applies somewhere.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InUse {
    policy: String,
    /// Whether it speaks for devices: else `spec.device` comes from another.
    devices: bool,
    values: Vec<Effective>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    api_version: &'static str,
    kind: Kind,
    items: Vec<Explained>,
    policies: Vec<InUse>,
}

/// Explains the input.
pub(super) fn run(args: &PolicyExplain) -> Result<(), Failure> {
    input::once(&[args.files.as_slice(), &args.cluster_state].concat())?;
    let mut failures = Vec::new();
    let mut snapshot = match args.cluster_state.as_slice() {
        [] => Snapshot::default(),
        files => state::from_files(files)?,
    };
    let objects = state::input(&args.files, &mut failures);
    let applied = state::take_context(objects, &mut snapshot, &mut failures);
    let known = known(args, &snapshot)?;
    let set = PolicySet::new(known.iter().map(|one| one.policy.clone()).collect());
    let nodes = groups(&known, &set, &snapshot);
    let mut items = Vec::new();
    for object in applied {
        match object {
            Applied::Configuration(Configuration::Node(node), ..) => items.push(of_node(&node, &known, &set)),
            Applied::Object(object) => match snapshot.read(&object) {
                Ok(Some(workload)) => items.push(of_pods(&workload, &known, &set, &snapshot, &nodes)),
                Ok(None) => {}
                Err(error) => failures.push(error.into()),
            },
            Applied::Configuration(..) | Applied::Autoscaler(..) => {}
        }
    }
    if items.is_empty() && failures.is_empty() {
        failures.push(Failure::new("no object of the input makes pods or is a Node"));
    }
    let explanation = Explanation {
        api_version: API_VERSION,
        kind: Kind::PolicyExplanation,
        policies: values::in_use(&items, &known),
        items,
    };
    if !explanation.items.is_empty() {
        match args.output {
            Output::Text => output::print(&text::render(&explanation, args.all))?,
            Output::Json => output::print_json(&explanation)?,
        }
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(Failure::joined(failures))
    }
}

/// Every policy in order of precedence, without the built-in default.
fn known(args: &PolicyExplain, snapshot: &Snapshot) -> Result<Vec<Known>, Failure> {
    let mut looked = Vec::new();
    if let Some(folder) = &args.policy_dir {
        if !folder.is_dir() {
            return Err(Failure::new(format!(
                "--policy-dir {}: is not a folder",
                folder.display()
            )));
        }
        if !input::is_empty(folder)? {
            for source in super::lint::sources(std::slice::from_ref(folder))? {
                looked.extend(file::look(&source.text, &source.name)?);
            }
        }
    }
    for object in snapshot.policies() {
        looked.push(file::look_at_value(&object.value, &object.origin.to_string()));
    }
    let mut known = Vec::new();
    let mut documents: Vec<Document> = Vec::new();
    for one in looked {
        let document = one.read?;
        documents.push(document.clone());
        known.push(Known {
            place: Place {
                file: document.source.to_string(),
                line: document.name_at.map(|(line, _)| line),
            },
            written: written::written(&one.tree),
            policy: document.policy,
        });
    }
    PolicySet::from_documents(documents)?;
    known.sort_by(|a, b| {
        let (a, b) = (&a.policy, &b.policy);
        b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name))
    });
    Ok(known)
}

/// What policies see of a node's labels.
type Seen = (Vec<Option<String>>, Signature);

/// Nodes that no policy tells apart.
struct Group {
    names: Vec<String>,
    labels: Labels,
    pools: Vec<Pool>,
}

impl Group {
    fn view(&self) -> NodeView<'_> {
        NodeView::new(&self.labels, &self.pools)
    }
}

fn groups(known: &[Known], set: &PolicySet, snapshot: &Snapshot) -> Vec<Group> {
    let mut groups: Vec<(Seen, Group)> = Vec::new();
    let asks_devices = set.iter().any(|policy| policy.matches.expression.is_some());
    // Every label that a policy asks for, not only whether it matches: reasons name the values.
    let keys: BTreeSet<&str> = known
        .iter()
        .filter_map(|one| one.policy.matches.nodes.as_ref())
        .flat_map(|nodes| {
            let expressions = nodes.expressions.iter().map(|one| one.key.as_str());
            nodes.labels.keys().map(String::as_str).chain(expressions)
        })
        .collect();
    for node in snapshot.gpu_nodes(set) {
        let labels = node.labels.to_map();
        let values = keys.iter().map(|key| labels.get(*key).cloned()).collect();
        let seen = (values, set.node_signature(&labels));
        let is_alike =
            |(key, group): &(Seen, Group)| *key == seen && (!asks_devices || group.pools == node.pools);
        if let Some((_, group)) = groups.iter_mut().find(|group| is_alike(group)) {
            group.names.push(node.metadata.name.to_string());
            continue;
        }
        let group = Group {
            names: vec![node.metadata.name.to_string()],
            labels,
            pools: node.pools,
        };
        groups.push((seen, group));
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn of_node(node: &NodeLabels, known: &[Known], set: &PolicySet) -> Explained {
    Explained {
        object: ObjectRef {
            api_version: "v1".into(),
            kind: "Node".into(),
            namespace: String::new(),
            name: node.name.clone(),
        },
        places: vec![There {
            nodes: vec![node.name.clone()],
            policy: None,
            considered: Vec::new(),
            device_policy: Some(set.for_device(&node.labels).name.clone()),
            considered_for_devices: for_devices(known, set, &node.labels),
        }],
    }
}

fn of_pods(
    workload: &Workload,
    known: &[Known],
    set: &PolicySet,
    snapshot: &Snapshot,
    groups: &[Group],
) -> Explained {
    let namespace = snapshot.namespace_labels(&workload.object.namespace);
    let there = |nodes: Vec<String>, group: Option<&Group>| {
        let pod = &workload.pod.metadata.labels;
        let labels = group.map(|group| &group.labels);
        let policy = set.for_pod(&namespace, &workload.pod, group.map(Group::view));
        There {
            nodes,
            considered: for_pod(known, &policy, &namespace, pod, labels),
            policy: Some(policy.name.clone()),
            device_policy: labels.map(|labels| set.for_device(labels).name.clone()),
            considered_for_devices: labels
                .map(|labels| for_devices(known, set, labels))
                .unwrap_or_default(),
        }
    };
    let mut places = vec![there(Vec::new(), None)];
    let bound = workload.pod.spec.node_name.as_deref();
    for group in groups {
        let names = group
            .names
            .iter()
            .filter(|name| bound.is_none_or(|bound| bound == *name));
        let names: Vec<String> = names.cloned().collect();
        if names.is_empty() {
            continue;
        }
        let new = there(names, Some(group));
        let alike = |old: &&mut There| {
            !old.nodes.is_empty()
                && old.policy == new.policy
                && old.considered == new.considered
                && old.device_policy == new.device_policy
                && old.considered_for_devices == new.considered_for_devices
        };
        match places.iter_mut().find(alike) {
            Some(old) => old.nodes.extend(new.nodes),
            None => places.push(new),
        }
    }
    for there in &mut places {
        there.nodes.sort_unstable();
    }
    Explained {
        object: workload.object.clone(),
        places,
    }
}

/// The policies before the one that applies, each with what of it fails, and that one itself.
fn for_pod(
    known: &[Known],
    found: &Arc<Policy>,
    namespace: &Labels,
    pod: &Labels,
    node: Option<&Labels>,
) -> Vec<Considered> {
    let mut considered = Vec::new();
    for one in known {
        let applies = one.policy.name == found.name;
        let reason = if applies {
            reason::matching(&one.policy.matches)
        } else {
            reason::of_pod(&one.policy.matches, namespace, pod, node)
        };
        considered.push(one.considered(applies, reason));
        if applies {
            return considered;
        }
    }
    considered
}

fn for_devices(known: &[Known], set: &PolicySet, node: &Labels) -> Vec<Considered> {
    let found = set.for_device(node);
    let mut considered = Vec::new();
    for one in known {
        let applies = one.policy.name == found.name;
        let matches = &one.policy.matches;
        let reason = if applies {
            reason::matching(matches)
        } else {
            reason::of_device(matches, node)
        };
        considered.push(one.considered(applies, reason));
        if applies {
            return considered;
        }
    }
    considered
}

impl Known {
    fn considered(&self, applies: bool, reason: String) -> Considered {
        Considered {
            policy: self.policy.name.clone(),
            priority: self.policy.priority,
            place: self.place.clone(),
            applies,
            reason,
        }
    }
}
