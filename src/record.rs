//! The written form of the ledger: what the status of a `GpuLedger` says of one node.
//!
//! Every replica of the webhook reads and writes these. A pod that was admitted stands in the record of at least one node
//! until it is known to be gone, and whoever adds to a node writes over exactly the version that he has counted. So two
//! replicas cannot both give the last place of a node away, whatever either has not seen yet.

use serde::{Deserialize, Serialize};

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
    /// What it takes of each resource here.
    pub takes: Vec<Taken>,
}

/// What a pod takes of one resource of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taken {
    /// The extended resource.
    pub resource: String,
    /// Slots.
    pub slots: u32,
    /// Shares of a device, one for each hold, in millionths.
    pub shares_ppm: Vec<u64>,
}
