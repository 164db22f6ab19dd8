//! The items of a `DeviceList`.

use serde::Serialize;

use crate::ledger::devices::{DeviceView, HolderView};
use crate::policy::Evidence;
use crate::units::{Mib, Share};

/// One device, or the devices of a node's pool where it is open which of them its holders stand on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRow {
    /// Node.
    pub node: String,
    /// The extended resource that offers it (`nvidia.com/gpu`).
    pub resource: String,
    /// Device (`nvidia.com/gpu[0]`, or by its identity `nvidia.com/gpu[GPU-…]` where holders were seen on it); `None` where
    /// the row stands for several.
    pub device: Option<String>,
    /// Product as the node's label names it.
    pub product: String,
    /// `none`, `time-slicing` or `mps`.
    pub sharing: &'static str,
    /// Slots that pods can ask for, on all devices of the row.
    pub slots: u32,
    /// Slots that holders have.
    pub used_slots: u32,
    /// Memory of one device; `None` where neither label nor catalogue tells.
    #[serde(rename = "totalMiB")]
    pub total: Option<Mib>,
    /// What may be promised of one device; `None` where its total is not known.
    #[serde(rename = "budgetMiB")]
    pub budget: Option<Mib>,
    /// What is promised of the fullest device that the evidence allows, without overhead.
    #[serde(rename = "promisedMiB")]
    pub promised: Mib,
    /// Budget as a part of the device.
    pub budget_fraction: Share,
    /// Sum of shares on the fullest device that the evidence allows.
    pub promised_fraction: Share,
    /// The same of pods that are bound alone.
    #[serde(skip)]
    pub bound_fraction: Share,
    /// How it is known who stands on the device.
    pub evidence: Evidence,
    /// Who holds memory of it.
    pub holders: Vec<DeviceHolder>,
}

impl DeviceRow {
    /// Whether those who are bound take more than the budget allows. Who waits takes nothing yet.
    #[must_use]
    pub fn is_over_budget(&self) -> bool {
        self.bound_fraction > self.budget_fraction
    }
}

/// One rank of a container that holds memory of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceHolder {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Name of the container.
    pub container: String,
    /// Rank within the container, from 0.
    pub rank: u32,
    /// What it asked for.
    #[serde(rename = "requestMiB")]
    pub request: Mib,
    /// What it takes on top.
    #[serde(rename = "overheadMiB")]
    pub overhead: Mib,
    /// The part of the device that it holds.
    pub share: Share,
    /// Whether its pod is not bound yet, so that it takes nothing so far; left out where it is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// The devices on which it was seen (`GPU-…`); left out where nothing tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
}

impl From<DeviceView> for DeviceRow {
    fn from(view: DeviceView) -> Self {
        Self {
            device: match (&view.id, view.device) {
                (Some(id), _) => Some(format!("{}[{id}]", view.resource)),
                (None, Some(index)) => Some(format!("{}[{index}]", view.resource)),
                (None, None) => None,
            },
            node: view.node.to_string(),
            resource: view.resource.to_string(),
            product: view.product.to_string(),
            sharing: view.sharing.as_str(),
            slots: view.slots,
            used_slots: view.slots_taken,
            budget: view.total.map(|_| view.budget),
            total: view.total,
            promised: view.promised,
            budget_fraction: view.budget_share,
            promised_fraction: view.promised_share,
            bound_fraction: view.bound_share,
            evidence: view.evidence,
            holders: view.holders.into_iter().map(DeviceHolder::from).collect(),
        }
    }
}

impl From<HolderView> for DeviceHolder {
    fn from(view: HolderView) -> Self {
        Self {
            namespace: view.namespace.to_string(),
            name: view.name.to_string(),
            container: view.container,
            rank: view.rank,
            request: view.request,
            overhead: view.overhead,
            share: view.share,
            waiting: !view.bound,
            devices: view.devices.iter().map(ToString::to_string).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row() -> DeviceRow {
        DeviceRow {
            node: "gpu-node-1".into(),
            resource: "nvidia.com/gpu".into(),
            device: Some("nvidia.com/gpu[0]".into()),
            product: "NVIDIA-H100-80GB-HBM3".into(),
            sharing: "time-slicing",
            slots: 4,
            used_slots: 1,
            total: Some(Mib::new(81_559)),
            budget: Some(Mib::new(73_403)),
            promised: Mib::new(24_468),
            budget_fraction: Share::from_ppm(900_000),
            promised_fraction: Share::from_ppm(300_000),
            bound_fraction: Share::from_ppm(300_000),
            evidence: Evidence::Observed,
            holders: vec![DeviceHolder {
                namespace: "llm".into(),
                name: "chat-a".into(),
                container: "server".into(),
                rank: 0,
                request: Mib::new(24_468),
                overhead: Mib::new(640),
                share: Share::from_ppm(300_000),
                waiting: false,
                devices: Vec::new(),
            }],
        }
    }

    #[test]
    fn a_row_serialises_to_the_letter() {
        assert_eq!(
            serde_json::to_value(row()).unwrap(),
            json!({
                "node": "gpu-node-1", "resource": "nvidia.com/gpu", "device": "nvidia.com/gpu[0]",
                "product": "NVIDIA-H100-80GB-HBM3", "sharing": "time-slicing", "slots": 4, "usedSlots": 1,
                "totalMiB": 81559, "budgetMiB": 73403, "promisedMiB": 24468,
                "budgetFraction": "0.90", "promisedFraction": "0.30", "evidence": "observed",
                "holders": [{"namespace": "llm", "name": "chat-a", "container": "server", "rank": 0,
                             "requestMiB": 24468, "overheadMiB": 640, "share": "0.30"}],
            })
        );
    }

    #[test]
    fn exactly_the_budget_is_not_over_it() {
        let mut row = row();
        row.bound_fraction = row.budget_fraction;
        assert!(!row.is_over_budget());
        // Who waits takes nothing yet.
        row.promised_fraction = Share::from_ppm(900_001);
        assert!(!row.is_over_budget());
        row.bound_fraction = Share::from_ppm(900_001);
        assert!(row.is_over_budget());
    }
}
