//! Label sets as GPU Feature Discovery writes them, each with what stands behind it. Needs the folder `shared` beside
//! the repository, and is skipped without it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use vramgate::device::catalogue::Catalogue;
use vramgate::device::{DeviceKind, Sharing, inventory};
use vramgate::policy::MissingFacts;
use vramgate::units::Mib;
use vramgate::workload::pod::{Metadata, Node, NodeStatus, QuantityText};

#[derive(Deserialize)]
struct Samples {
    samples: Vec<Sample>,
}

#[derive(Deserialize)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    capacity: BTreeMap<String, String>,
    expect: Expect,
}

#[derive(Deserialize)]
struct Expect {
    units: Vec<Unit>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unit {
    resource: String,
    kind: String,
    #[serde(rename = "unitCount")]
    slots: u32,
    device_count: u32,
    replicas_per_device: u32,
    #[serde(rename = "memoryMiBPerDevice")]
    memory_per_device: u64,
    #[serde(rename = "daemonLimitMiBPerReplica")]
    daemon_limit: Option<u64>,
}

#[test]
fn every_sample_is_read_as_what_stands_behind_it() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/facts/gfd-label-samples.yaml");
    let Ok(text) = std::fs::read_to_string(&file) else {
        println!("skipped: ../shared/facts/gfd-label-samples.yaml is not there");
        return;
    };
    let Samples { samples } = serde_saphyr::from_str(&text).unwrap();
    assert!(samples.len() >= 12, "{} samples", samples.len());
    for sample in samples {
        let quantities: BTreeMap<String, QuantityText> = sample
            .capacity
            .into_iter()
            .map(|(name, count)| (name, QuantityText(count)))
            .collect();
        let node = Node {
            metadata: Metadata {
                labels: sample.labels,
                ..Metadata::default()
            },
            status: NodeStatus {
                capacity: quantities.clone(),
                allocatable: quantities,
                ..NodeStatus::default()
            },
            ..Node::default()
        };
        let read = inventory::read(&node, MissingFacts::Exclusive, Catalogue::embedded());
        let name = &sample.name;
        assert_eq!(read.is_none(), sample.expect.units.is_empty(), "{name}");
        let (pools, notes) = read.map_or_else(Default::default, |read| (read.pools, read.notes));
        assert_eq!(notes, [], "{name}");
        assert_eq!(pools.len(), sample.expect.units.len(), "{name}");
        for (pool, unit) in pools.iter().zip(&sample.expect.units) {
            assert_eq!(&*pool.resource, unit.resource, "{name}");
            assert_eq!(
                (pool.slots, pool.usable_slots),
                (unit.slots, unit.slots),
                "{name}"
            );
            assert_eq!(pool.devices, unit.device_count, "{name}");
            assert_eq!(
                pool.sharing.slots_per_device(),
                unit.replicas_per_device,
                "{name}"
            );
            assert_eq!(pool.sharing.is_shared(), unit.replicas_per_device > 1, "{name}");
            assert_eq!(pool.total, Some(Mib::new(unit.memory_per_device)), "{name}");
            assert_eq!(
                matches!(pool.device, DeviceKind::Mig(_)),
                unit.kind == "mig",
                "{name}"
            );
            let limit = match pool.sharing {
                Sharing::Mps(clients) => Some(unit.memory_per_device / u64::from(clients.get())),
                Sharing::Exclusive | Sharing::TimeSliced(_) => None,
            };
            assert_eq!(limit, unit.daemon_limit, "{name}");
        }
    }
}
