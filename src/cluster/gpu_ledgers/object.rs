//! The object as it goes over the line.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::record::{DeviceRecord, NodeRecord};
use crate::store::{Stored, Version};
use crate::units::Share;

/// The part of the status that is for the columns of kubectl. They can show single values only, so it is worked out from
/// the record at each write, and left out of what is read.
const SUMMARY: &str = "summary";

/// A `GpuLedger` as it was read.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct GpuLedger {
    /// Name of the object, which is that of its node.
    pub(in crate::cluster) node: String,
    /// Its record and version.
    pub(in crate::cluster) stored: Stored,
}

#[derive(Deserialize)]
struct Raw {
    metadata: Metadata,
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

impl<'de> Deserialize<'de> for GpuLedger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Raw { metadata, status } = Raw::deserialize(deserializer)?;
        // An object that was created and whose status is not written yet.
        let record = status.map_or_else(|| Ok(NodeRecord::default()), |status| record(status.get()));
        Ok(Self {
            node: metadata.name,
            stored: Stored {
                record: record.map_err(D::Error::custom)?,
                version: Version(metadata.resource_version),
            },
        })
    }
}

/// Reads a status; an error names the field.
fn record(status: &str) -> Result<NodeRecord, String> {
    // Thousands are read when a process starts, and to keep the path of each field costs more than to read it: it is
    // followed only where one cannot be read.
    let read = serde_json::from_str(status).or_else(|_| {
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(status))
            .map_err(|error| format!("status.{}: {}", error.path(), error.inner()))
    });
    read.map(|mut record: NodeRecord| {
        record.others.remove(SUMMARY);
        record
    })
}

/// The status that says this record.
pub(super) fn status(record: &NodeRecord) -> Result<Value, serde_json::Error> {
    let mut status = serde_json::to_value(record)?;
    status[SUMMARY] = summary(record);
    Ok(status)
}

fn summary(record: &NodeRecord) -> Value {
    let each = |text: fn(&DeviceRecord) -> String| {
        let texts: Vec<String> = record.devices.iter().map(text).collect();
        texts.join(", ")
    };
    json!({
        "devices": each(|device| format!("{} {}", device.devices, device.resource)),
        "budget": each(|device| Share::from_ppm(device.budget_ppm).decimals(2)),
        "promised": each(|device| Share::from_ppm(device.promised_ppm).decimals(2)),
        "holders": record.holders.len(),
        "reservations": record.reservations.len(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::{Entry, Others, Taken};

    /// A record in which each field is written.
    pub(in crate::cluster::gpu_ledgers) fn record() -> NodeRecord {
        let taken = |ppm| Taken {
            resource: "nvidia.com/gpu".to_owned(),
            slots: 1,
            shares_ppm: vec![ppm],
            everywhere_ppm: vec![1],
            tenant: Some("team".to_owned()),
            others: Others::new(),
        };
        let entry = |name: &str| Entry {
            uid: format!("uid-of-{name}"),
            namespace: "team".to_owned(),
            name: name.to_owned(),
            controller: Some("uid-of-controller".to_owned()),
            workload: Some(("Deployment".to_owned(), "chat".to_owned())),
            since: "2026-01-02T03:04:05Z".to_owned(),
            moves: 1,
            takes: vec![taken(300_000)],
            raised: vec![taken(400_000)],
            others: Others::new(),
        };
        NodeRecord {
            devices: vec![
                DeviceRecord {
                    resource: "nvidia.com/gpu".to_owned(),
                    devices: 2,
                    budget_ppm: 900_000,
                    promised_ppm: 845_500,
                    evidence: "any".to_owned(),
                    others: Others::new(),
                },
                DeviceRecord {
                    resource: "nvidia.com/mig-1g.10gb".to_owned(),
                    devices: 7,
                    budget_ppm: 850_000,
                    promised_ppm: 0,
                    evidence: "observed".to_owned(),
                    others: Others::new(),
                },
            ],
            holders: vec![entry("a"), entry("b")],
            reservations: vec![entry("c")],
            others: Others::new(),
        }
    }

    fn read(object: &Value) -> Result<GpuLedger, String> {
        serde_json::from_str(&object.to_string()).map_err(|error| error.to_string())
    }

    fn object(status: &Value) -> Value {
        json!({"metadata": {"name": "gpu-1", "resourceVersion": "42"}, "status": status})
    }

    #[test]
    fn what_was_written_is_read() {
        let ledger = read(&object(&status(&record()).unwrap())).unwrap();
        assert_eq!(
            (ledger.node.as_str(), ledger.stored.version.0.as_str()),
            ("gpu-1", "42")
        );
        assert_eq!(ledger.stored.record, record());
    }

    #[test]
    fn what_a_newer_release_wrote_is_kept() {
        let mut written = status(&record()).unwrap();
        written["era"] = 3.into();
        written["holders"][0]["takes"][0]["colour"] = json!({"of": ["it"]});
        let ledger = read(&object(&written)).unwrap();
        assert_eq!(status(&ledger.stored.record).unwrap(), written);
    }

    #[test]
    fn the_columns_say_it_in_short() {
        assert_eq!(
            summary(&record()),
            json!({"devices": "2 nvidia.com/gpu, 7 nvidia.com/mig-1g.10gb", "budget": "0.90, 0.85",
                "promised": "0.8455, 0.00", "holders": 2, "reservations": 1})
        );
    }

    #[test]
    fn an_object_without_status_is_an_empty_record() {
        let bare = json!({"metadata": {"name": "gpu-1", "resourceVersion": "7"}});
        assert_eq!(read(&bare).unwrap().stored.record, NodeRecord::default());
    }

    #[test]
    fn an_error_names_the_field() {
        let mut status = status(&record()).unwrap();
        status["reservations"][0]["takes"][0]["slots"] = "one".into();
        let error = read(&object(&status)).unwrap_err();
        assert!(
            error.starts_with("status.reservations[0].takes[0].slots: invalid type: string \"one\""),
            "{error}"
        );
        let error = read(&object(&json!({"holders": 3}))).unwrap_err();
        assert!(error.starts_with("status.holders: "), "{error}");
        let error = read(&object(&json!(["rubbish"]))).unwrap_err();
        assert!(error.starts_with("status"), "{error}");
    }
}
