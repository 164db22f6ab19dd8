//! The document of `plan`.

use json_patch::PatchOperation;
use serde::Serialize;

use crate::plan::{Above, Change, Plan, Remaining};
use crate::units::Share;
use crate::workload::ObjectRef;

/// What brings a cluster back within its budgets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanDocument {
    api_version: &'static str,
    kind: super::Kind,
    /// Devices that are above their budget now.
    pub above: Vec<PlannedDevice>,
    /// What to change.
    pub changes: Vec<PlannedChange>,
    /// Devices that stay above their budget.
    pub remaining: Vec<PlannedDevice>,
}

/// A device that is above its budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedDevice {
    /// Node.
    pub node: String,
    /// The resource that offers it.
    pub resource: String,
    /// Sum of the shares of its bound holders.
    pub taken_fraction: Share,
    /// What may be promised.
    pub budget_fraction: Share,
    /// Why it stays so; left out where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedChange {
    /// The object.
    pub object: ObjectRef,
    /// What is changed, in words.
    pub title: String,
    /// Its pods in the cluster.
    pub pods: usize,
    /// Whether it has to be made anew: a pod.
    pub anew: bool,
    /// The object that makes it, where that is not in the snapshot: the change belongs there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    /// RFC 6902.
    pub patch: Vec<PatchOperation>,
}

impl PlannedDevice {
    fn of(device: &Above, why: Option<String>) -> Self {
        Self {
            node: device.node.to_string(),
            resource: device.resource.to_string(),
            taken_fraction: device.taken,
            budget_fraction: device.budget,
            why,
        }
    }
}

impl From<&Plan> for PlanDocument {
    fn from(plan: &Plan) -> Self {
        let change = |change: &Change| PlannedChange {
            object: change.object.clone(),
            title: change.title.clone(),
            pods: change.pods,
            anew: change.anew,
            made_by: change.made_by.clone(),
            patch: change.patch.clone(),
        };
        let remaining = |left: &Remaining| PlannedDevice::of(&left.device, Some(left.why.clone()));
        Self {
            api_version: super::API_VERSION,
            kind: super::Kind::Plan,
            above: plan
                .above
                .iter()
                .map(|device| PlannedDevice::of(device, None))
                .collect(),
            changes: plan.changes.iter().map(change).collect(),
            remaining: plan.remaining.iter().map(remaining).collect(),
        }
    }
}
