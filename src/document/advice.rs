//! The documents of `vramgate advise`: its own, and those to apply.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{API_VERSION, Kind};
use crate::advise::{Advice, Way};
use crate::mig::Geometry;
use crate::units::Share;

/// Whether and how GPUs are to be shared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdviceDocument {
    api_version: &'static str,
    kind: Kind,
    /// The product.
    pub product: String,
    /// `whole`, `mig`, `mps` or `time-slicing`.
    pub way: &'static str,
    /// Whether the GPUs suffice.
    pub suffices: bool,
    /// GPUs that it takes.
    pub gpus: u32,
    /// Slots of each GPU; `null` where none is shared.
    pub replicas: Option<u32>,
    /// The fraction of a GPU that each of its slots may take where all take the same.
    pub fraction: Option<Share>,
    /// Why.
    pub reasons: Vec<String>,
    /// Ways that were looked at before, and why each is out.
    pub rejected: Vec<AdviceRejected>,
    /// What to know about it.
    pub notes: Vec<String>,
    /// Who asks for what.
    pub served: Vec<AdviceServed>,
    /// Labels of the nodes.
    pub node_labels: BTreeMap<&'static str, String>,
    /// Objects to apply.
    pub apply: Vec<Value>,
}

/// A way that is out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdviceRejected {
    way: &'static str,
    reason: String,
}

/// What a kind of process asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdviceServed {
    /// What it is called.
    pub name: String,
    /// How many.
    pub count: u32,
    /// The extended resource.
    pub resource: String,
    /// How many of it.
    pub slots: u32,
    /// Its part of a shared device.
    pub share: Option<Share>,
}

/// Name of the ConfigMap of the device plugin.
const PLUGIN_CONFIGS: &str = "device-plugin-configs";
/// Name of the ConfigMap of the MIG manager.
const MIG_CONFIGS: &str = "mig-configs";

/// What makes the GPU Operator's programs read the objects: values of its chart, which are fields of its `ClusterPolicy`. A flag
/// or variable of the device plugin wins over its file, and the operator sets the MIG strategy by a variable.
fn read_by(way: Way) -> Option<String> {
    match way {
        Way::Whole => None,
        Way::Mps | Way::TimeSlicing => Some(format!(
            "the GPU Operator's device plugin reads it where devicePlugin.config.name is {PLUGIN_CONFIGS}"
        )),
        Way::Mig => Some(format!(
            "the GPU Operator reads them where devicePlugin.config.name is {PLUGIN_CONFIGS}, migManager.config.name is \
             {MIG_CONFIGS} and mig.strategy is mixed"
        )),
    }
}

/// A document that cannot be written.
pub type WriteError = serde_saphyr::ser_error::Error;

impl AdviceDocument {
    /// The document of an answer. `name` is that of the configuration, which the nodes' labels then say; `namespace` is where
    /// device plugin and MIG manager read theirs.
    pub fn new(
        product: &str,
        geometry: Option<&Geometry>,
        advice: &Advice,
        name: &str,
        namespace: &str,
    ) -> Result<Self, WriteError> {
        let (node_labels, apply) = to_apply(geometry, advice, name, namespace)?;
        let slots = advice.slots.as_ref();
        let rejected = advice.rejected.iter().map(|(way, reason)| AdviceRejected {
            way: way.as_str(),
            reason: reason.clone(),
        });
        let served = advice.served.iter().map(|served| AdviceServed {
            name: served.name.clone(),
            count: served.count,
            resource: served.resource.clone(),
            slots: served.slots,
            share: served.share,
        });
        Ok(Self {
            api_version: API_VERSION,
            kind: Kind::Advice,
            product: product.to_owned(),
            way: advice.way.as_str(),
            suffices: advice.suffices,
            gpus: advice.gpus,
            replicas: slots.map(|slots| slots.replicas),
            fraction: slots.map(|slots| slots.fraction),
            reasons: advice.reasons.clone(),
            rejected: rejected.collect(),
            notes: advice.notes.iter().cloned().chain(read_by(advice.way)).collect(),
            served: served.collect(),
            node_labels,
            apply,
        })
    }
}

/// Labels of the nodes, and the objects that these name.
fn to_apply(
    geometry: Option<&Geometry>,
    advice: &Advice,
    name: &str,
    namespace: &str,
) -> Result<(BTreeMap<&'static str, String>, Vec<Value>), WriteError> {
    let mut labels = BTreeMap::new();
    let mut objects = Vec::new();
    let plugin = |config: &Value| -> Result<Value, WriteError> {
        let mut texts = BTreeMap::from([(name, yaml(config)?)]);
        // With a single key, the plugin's own chart takes it for every node without the label (fallback `single`).
        texts.entry("default").or_insert(yaml(&json!({"version": "v1"}))?);
        Ok(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": PLUGIN_CONFIGS, "namespace": namespace},
            "data": texts,
        }))
    };
    match (advice.way, &advice.slots, &advice.layouts, geometry) {
        (Way::Mps | Way::TimeSlicing, Some(slots), ..) => {
            let mut sharing = json!({"resources": [{"name": "nvidia.com/gpu", "replicas": slots.replicas}]});
            // More than one slot gives no larger part of a GPU, so asking for two is refused.
            sharing["failRequestsGreaterThanOne"] = json!(true);
            let mode = if advice.way == Way::Mps {
                "mps"
            } else {
                "timeSlicing"
            };
            let config =
                json!({"version": "v1", "flags": {"migStrategy": "none"}, "sharing": {mode: sharing}});
            objects.push(plugin(&config)?);
            labels.insert("nvidia.com/device-plugin.config", name.to_owned());
            let per_slot = if slots.fair { "fairShare" } else { "none" };
            objects.push(json!({
                "apiVersion": crate::policy::spec::API_VERSION, "kind": crate::policy::spec::KIND,
                "metadata": {"name": name},
                "spec": {
                    "match": {"nodes": {"matchLabels": {"nvidia.com/device-plugin.config": name}}},
                    "device": {"perSlot": per_slot},
                },
            }));
        }
        (Way::Mig, _, Some(spread), Some(geometry)) => {
            let parted = super::MigParted::new(name, geometry, spread, false).with_all_disabled();
            objects.push(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": MIG_CONFIGS, "namespace": namespace},
                "data": {"config.yaml": yaml(&parted)?},
            }));
            objects.push(plugin(
                &json!({"version": "v1", "flags": {"migStrategy": "mixed"}}),
            )?);
            labels.insert("nvidia.com/mig.config", name.to_owned());
            labels.insert("nvidia.com/device-plugin.config", name.to_owned());
        }
        _ => {}
    }
    Ok((labels, objects))
}

/// A document as YAML.
pub fn yaml(document: &impl Serialize) -> Result<String, WriteError> {
    serde_saphyr::to_string(document).map(|text| format!("{}\n", text.trim_end()))
}
