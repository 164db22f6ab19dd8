//! What the replicas of the webhook have written into a large cluster: the records of its nodes, as custom resources.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use vramgate::ledger::{Ledger, Moment};
use vramgate::server::Recorder;
use vramgate::store::MemoryStore;

use crate::Outcome;

/// Where they are served.
pub(crate) const PATH: &str = "/apis/vramgate.io/v1alpha1/gpuledgers";
pub(crate) const API_VERSION: &str = "vramgate.io/v1alpha1";

/// A record as it is stored.
struct Stored {
    version: u64,
    status: Value,
}

/// See the module.
pub(crate) struct Records {
    stored: Mutex<BTreeMap<String, Stored>>,
    pub(crate) events: broadcast::Sender<Bytes>,
}

/// Why a write is not carried out.
pub(crate) enum Refusal {
    Missing,
    Conflict,
    Unreadable(String),
}

impl Records {
    /// The records that a leader makes of what is counted.
    pub(crate) async fn of(ledger: Ledger) -> Outcome<Self> {
        let store = Arc::new(MemoryStore::new());
        let writer = Recorder::new(
            Arc::new(Mutex::new(ledger)),
            Arc::clone(&store) as _,
            Arc::new(|| Moment(0)),
        );
        let round = writer.keep_records().await;
        if round.left > 0 {
            return Err(format!("{} records could not be made", round.left).into());
        }
        let mut stored = BTreeMap::new();
        for (index, (node, record)) in store.records().into_iter().enumerate() {
            let version = 3_000_000 + u64::try_from(index)?;
            let status = serde_json::to_value(&record.record)?;
            stored.insert(node, Stored { version, status });
        }
        Ok(Self {
            stored: Mutex::new(stored),
            events: broadcast::Sender::new(1024),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Stored>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.lock().len()).unwrap_or(u32::MAX)
    }

    /// Writes the items `first` to `end` of a list.
    pub(crate) fn list(&self, first: u32, end: u32, out: &mut String) {
        let stored = self.lock();
        let items = stored.iter().skip(first as usize).take((end - first) as usize);
        for (index, (node, stored)) in items.enumerate() {
            if index > 0 {
                out.push(',');
            }
            let _ = write!(out, "{}", object(node, stored));
        }
    }

    /// One of them.
    pub(crate) fn read(&self, node: &str) -> Option<Value> {
        self.lock().get(node).map(|stored| object(node, stored))
    }

    /// Writes a status over the version that the object says, and tells the watches.
    pub(crate) fn write(&self, node: &str, body: &[u8], version: u64) -> Result<Value, Refusal> {
        let mut body: Value =
            serde_json::from_slice(body).map_err(|error| Refusal::Unreadable(error.to_string()))?;
        let mut stored = self.lock();
        let known = stored.get_mut(node).ok_or(Refusal::Missing)?;
        let told = body["metadata"]["resourceVersion"].as_str();
        if told != Some(known.version.to_string().as_str()) {
            return Err(Refusal::Conflict);
        }
        known.version = version;
        known.status = body["status"].take();
        let written = object(node, known);
        drop(stored);
        let event = json!({"type": "MODIFIED", "object": written});
        // Nobody may be watching yet.
        let _ = self.events.send(Bytes::from(format!("{event}\n")));
        Ok(written)
    }
}

fn object(node: &str, stored: &Stored) -> Value {
    let number = node.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    json!({
        "apiVersion": API_VERSION, "kind": "GpuLedger",
        "metadata": {
            "name": node, "uid": format!("bbbbbbbb-0000-4000-8000-{number:0>12}"), "generation": 1,
            "resourceVersion": stored.version.to_string(), "creationTimestamp": "2026-01-07T10:02:13Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node,
                                 "uid": format!("cccccccc-0000-4000-8000-{number:0>12}")}],
            "managedFields": [{"manager": "vramgate", "operation": "Update", "apiVersion": API_VERSION,
                               "time": "2026-01-07T10:02:13Z", "fieldsType": "FieldsV1", "subresource": "status",
                               "fieldsV1": {"f:status": {".": {}, "f:devices": {}, "f:holders": {}, "f:reservations": {}}}}],
        },
        "status": stored.status,
    })
}
