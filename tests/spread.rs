//! Evidence of the grade `spread`: what the configuration of the device plugin tells of where holders stand.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, L40S, finding, golden, gpu_node, pod, pod_of, vllm};
use serde_json::{Value, json};
use vramgate::configuration::Configuration;
use vramgate::device::catalogue::Catalogue;
use vramgate::device::config::plugin::PluginConfigMap;
use vramgate::device::inventory::{Context, read_in};
use vramgate::finding::Code;
use vramgate::ledger::Moment;
use vramgate::message;
use vramgate::policy::{Evidence, MissingFacts};
use vramgate::record::{Entry, NodeRecord, Taken};
use vramgate::units::Share;

/// Two L40S with three slots each, as S13 has them, and the plugin's flags.
fn set(cluster: &mut Cluster, slots: u32, flags: &str, usable: Option<u32>) {
    let mut node = gpu_node("gpu-1", "NVIDIA-L40S", L40S, 2, slots);
    node["metadata"]["labels"]["nvidia.com/device-plugin.config"] = json!("shared");
    if let Some(usable) = usable {
        node["status"]["allocatable"]["nvidia.com/gpu"] = json!(usable.to_string());
    }
    let text = format!(
        "version: v1\n{flags}sharing:\n  timeSlicing:\n    resources:\n    - {{name: nvidia.com/gpu, replicas: {slots}}}\n"
    );
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plugin", "namespace": "gpu-operator"},
        "data": {"shared": text},
    });
    let Some(Configuration::ConfigMap(map)) = Configuration::read("ConfigMap", &map).unwrap() else {
        panic!("a ConfigMap");
    };
    let plugin = PluginConfigMap::recognized(&map).unwrap();
    let context = Context {
        missing: MissingFacts::Exclusive,
        catalogue: Catalogue::embedded(),
        plugin: Some(&plugin),
    };
    let node = serde_json::from_value(node).unwrap();
    cluster.ledger.set_node(read_in(&node, context).unwrap());
}

fn node(slots: u32, flags: &str) -> Cluster {
    let mut cluster = Cluster::new();
    set(&mut cluster, slots, flags, None);
    cluster
}

fn with_uid(name: &str, fraction: &str) -> Value {
    let mut object = pod(name, fraction);
    object["metadata"]["uid"] = json!(format!("uid-{name}"));
    object
}

/// Admits pods of these fractions and lets them run.
fn run(cluster: &mut Cluster, fractions: &[&str]) {
    for (index, fraction) in fractions.iter().enumerate() {
        let object = with_uid(&format!("p{index}"), fraction);
        assert!(cluster.create(&object).admit, "{index}: {fraction}");
        cluster.running(&object, "gpu-1");
    }
}

const PACKED: &str = "flags: {plugin: {sharedDevicesAllocationPolicy: packed}}\n";

#[test]
fn s13_a_plugin_that_spreads_lets_the_third_holder_in() {
    // Nothing says how the plugin chooses: all three may meet. 0.30 + 0.30 + 0.45.
    let mut unknown = Cluster::new();
    unknown.gpu_node("gpu-1", "NVIDIA-L40S", L40S, 2, 3);
    for (mut cluster, admitted) in [(unknown, false), (node(3, PACKED), false), (node(3, ""), true)] {
        run(&mut cluster, &["0.30", "0.30"]);
        let verdict = cluster.create(&with_uid("p2", "0.45"));
        assert_eq!(verdict.admit, admitted, "{:#?}", verdict.findings);
        if !admitted {
            assert!(
                verdict.findings[0]
                    .details
                    .iter()
                    .any(|text| text.starts_with("evidence any"))
            );
            continue;
        }
        let row = &verdict.placement[0];
        assert_eq!(row.evidence, Evidence::Spread);
        // Two of three are on one device at most.
        assert!(row.promised_fraction >= Share::from_ppm(750_000));
        assert!(
            row.promised_fraction < Share::from_ppm(900_000),
            "{}",
            row.promised_fraction
        );
        assert_eq!(cluster.ledger.devices()[0].evidence, Evidence::Spread);
        // A fourth beside them fits by twos as well, a fifth may be a third on one device.
        assert!(cluster.create(&with_uid("p3", "0.30")).admit);
        let fifth = cluster.create(&with_uid("p4", "0.20"));
        assert!(!fifth.admit);
        golden("s13-spread", &message::refusal(&fifth));
    }
}

#[test]
fn the_grade_falls_where_something_was_not_watched_and_rises_when_the_node_is_empty() {
    let grade = |cluster: &Cluster| cluster.ledger.devices()[0].evidence;
    // Pods that ran when vramgate came.
    let mut cluster = node(3, "");
    for name in ["a", "b"] {
        cluster.running(&with_uid(name, "0.20"), "gpu-1");
    }
    assert_eq!(grade(&cluster), Evidence::Any);
    cluster.ledger.remove_pod("uid-a");
    assert_eq!(grade(&cluster), Evidence::Any);
    cluster.ledger.remove_pod("uid-b");
    run(&mut cluster, &["0.20", "0.20"]);
    assert_eq!(grade(&cluster), Evidence::Spread);
    // A heartbeat or label changes nothing, another configuration does.
    set(&mut cluster, 3, "", None);
    assert_eq!(grade(&cluster), Evidence::Spread);
    set(&mut cluster, 3, PACKED, None);
    assert_eq!(grade(&cluster), Evidence::Any);
    set(&mut cluster, 3, "", None);
    assert_eq!(
        grade(&cluster),
        Evidence::Any,
        "what came under another rule is still there"
    );
    // The cluster's pods are read anew: some may have come and gone.
    let mut cluster = node(3, "");
    run(&mut cluster, &["0.20", "0.20"]);
    cluster.ledger.end_histories();
    assert_eq!(grade(&cluster), Evidence::Any);
    // A device that is not healthy takes no slot.
    let mut cluster = node(3, "");
    run(&mut cluster, &["0.20"]);
    set(&mut cluster, 3, "", Some(3));
    assert_eq!(grade(&cluster), Evidence::Any);
    assert_eq!(cluster.ledger.grades()[&Evidence::Any], 1);
}

#[test]
fn what_has_left_counts_and_several_containers_are_several_holders() {
    let mut cluster = node(4, "");
    run(&mut cluster, &["0.40", "0.10", "0.40", "0.10"]);
    for name in ["uid-p1", "uid-p3"] {
        cluster.ledger.remove_pod(name);
    }
    // Both that stay may be on one device: four were there, two on each.
    let device = &cluster.ledger.devices()[0];
    assert!(
        device.promised_share >= Share::from_ppm(800_000),
        "{}",
        device.promised_share
    );
    let of = |containers: u32, fraction: &str| {
        let containers = (0..containers).map(|number| {
            let mut container = vllm(kit::VLLM, Some(fraction));
            container["name"] = json!(format!("c{number}"));
            container
        });
        pod_of("several", json!(containers.collect::<Vec<_>>()))
    };
    // With two more there are two on each still, with three a device can have three.
    assert!(cluster.try_create(&of(2, "0.30")).admit);
    let refused = cluster.try_create(&of(3, "0.30"));
    assert!(
        finding(&refused, Code::Vg201)
            .details
            .iter()
            .any(|text| text.starts_with("evidence spread"))
    );
    // On an empty node two containers come to two devices.
    let mut empty = node(4, "");
    assert!(empty.try_create(&of(2, "0.80")).admit);
    // One container with two slots gets two devices, whichever are free: nothing is told beyond the slots.
    let mut wide = vllm(kit::VLLM, Some("0.20"));
    wide["resources"]["limits"]["nvidia.com/gpu"] = json!("2");
    let verdict = empty.try_create(&pod_of("wide", json!([wide])));
    assert!(
        verdict.placement.iter().all(|row| row.evidence == Evidence::Any),
        "{:#?}",
        verdict.placement
    );
}

/// One that starts beside pods that run learns of them by the records of other replicas, or its own of before, and then from the
/// list of pods. When they came, and who has left since, nobody has watched.
#[test]
fn what_a_record_tells_before_pods_are_listed_was_not_watched() {
    let fractions = ["0.30", "0.30", "0.45"];
    let held = |(index, ppm)| Entry {
        uid: format!("uid-p{index}"),
        namespace: "team-a".to_owned(),
        name: format!("p{index}"),
        takes: vec![Taken {
            resource: "nvidia.com/gpu".to_owned(),
            slots: 1,
            shares_ppm: vec![ppm],
            ..Taken::default()
        }],
        ..Entry::default()
    };
    let record = NodeRecord {
        holders: [300_000, 300_000, 450_000]
            .into_iter()
            .enumerate()
            .map(held)
            .collect(),
        ..NodeRecord::default()
    };

    let mut cluster = node(3, "");
    cluster.ledger.set_record("gpu-1", &record, "7", Moment(0));
    cluster.ledger.end_histories();
    for (index, fraction) in fractions.iter().enumerate() {
        cluster.running(&with_uid(&format!("p{index}"), fraction), "gpu-1");
    }
    cluster.ledger.end_histories();
    assert_eq!(cluster.ledger.devices()[0].evidence, Evidence::Any);
    assert!(!cluster.create(&with_uid("p3", "0.10")).admit);
    // One whose reading takes longer than the list is told by its record alone until then.
    let mut cluster = node(3, "");
    cluster.ledger.set_record("gpu-1", &record, "7", Moment(0));
    cluster.ledger.end_histories();
    cluster.running(&with_uid("p0", "0.30"), "gpu-1");
    cluster.ledger.end_histories();
    assert_eq!(cluster.ledger.devices()[0].evidence, Evidence::Any);
    // When the node has been empty it is told again.
    for (index, fraction) in fractions.iter().enumerate().skip(1) {
        cluster.running(&with_uid(&format!("p{index}"), fraction), "gpu-1");
    }
    for index in 0..3 {
        cluster.ledger.remove_pod(&format!("uid-p{index}"));
    }
    run(&mut cluster, &fractions);
    assert_eq!(cluster.ledger.devices()[0].evidence, Evidence::Spread);
}
