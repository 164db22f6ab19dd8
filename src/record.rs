//! The written form of the ledger: what the status of a `GpuLedger` says of one node.
//!
//! Every replica of the webhook reads and writes these. A pod that was admitted stands in the record of at least one node
//! until it is known to be gone, and whoever adds to a node writes over exactly the version that he has counted. So two
//! replicas cannot both give the last place of a node away, whatever either has not seen yet (`docs/ledger.md`).
//!
//! Fields that this release does not know are kept as they are and written back: a newer replica may need them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Fields that a newer release wrote.
pub type Others = BTreeMap<String, Value>;

/// The status of a `GpuLedger`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeRecord {
    /// What the node offers, for people who read it.
    pub devices: Vec<DeviceRecord>,
    /// Pods that were seen.
    pub holders: Vec<Entry>,
    /// Pods that were admitted and not seen yet.
    pub reservations: Vec<Entry>,
    /// See [`Others`].
    #[serde(flatten)]
    pub others: Others,
}

impl NodeRecord {
    /// Pods that were seen and pods that were not.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.holders.iter().chain(&self.reservations)
    }
}

/// Devices of one resource of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceRecord {
    /// The extended resource.
    pub resource: String,
    /// How many devices there are.
    pub devices: u32,
    /// What may be promised of each, in millionths of it.
    pub budget_ppm: u64,
    /// What is promised of the fullest of them, in millionths of it.
    pub promised_ppm: u64,
    /// How it is known which holder stands on which device: `any`, `spread` or `observed`.
    pub evidence: String,
    /// See [`Others`].
    #[serde(flatten)]
    pub others: Others,
}

/// A pod in the record of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Entry {
    /// UID of the pod.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// UID of its managing controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Top workload, as kind and name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<(String, String)>,
    /// When it was admitted, RFC 3339. For people: nothing is decided by it, since clocks differ.
    pub since: String,
    /// How often its place was moved from one node to another. Where the records of several nodes have it, the one with
    /// the most moves holds it (of equal ones the node that comes last by name), and only the others may be taken out.
    #[serde(skip_serializing_if = "is_zero")]
    pub moves: u32,
    /// What it takes of each resource here.
    pub takes: Vec<Taken>,
    /// What an UPDATE that was admitted makes of that, until the pod is seen so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub raised: Vec<Taken>,
    /// See [`Others`].
    #[serde(flatten)]
    pub others: Others,
}

/// What a pod takes of one resource of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taken {
    /// The extended resource.
    pub resource: String,
    /// Slots.
    pub slots: u32,
    /// Shares of a device, one for each hold, in millionths, largest first.
    pub shares_ppm: Vec<u64>,
    /// The same for containers that asked for no device and reach each of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub everywhere_ppm: Vec<u64>,
    /// Whose pod it is, where the policy of the devices keeps tenants apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// See [`Others`].
    #[serde(flatten)]
    pub others: Others,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(moves: &u32) -> bool {
    *moves == 0
}
