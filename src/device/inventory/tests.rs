use std::num::NonZeroU32;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::device::Sharing;
use crate::units::Mib;

fn node(labels: &Value, capacity: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": { "name": "node-1", "labels": labels, "annotations": { "a": "b" } },
        "status": { "capacity": capacity, "allocatable": capacity },
    }))
    .unwrap()
}

fn read_node(labels: &Value, capacity: &Value) -> GpuNode {
    read(
        &node(labels, capacity),
        MissingFacts::Exclusive,
        Catalogue::embedded(),
    )
    .unwrap()
}

fn slices(slots: u32) -> NonZeroU32 {
    NonZeroU32::new(slots).unwrap()
}

/// Resource, total, sharing, devices and slots of each pool.
fn pools(node: &GpuNode) -> Vec<(&str, Option<u64>, Sharing, u32, u32)> {
    node.pools
        .iter()
        .map(|pool| {
            (
                &*pool.resource,
                pool.total.map(Mib::get),
                pool.sharing,
                pool.devices,
                pool.slots,
            )
        })
        .collect()
}

fn messages(node: &GpuNode) -> String {
    let messages: Vec<&str> = node.notes.iter().map(|note| note.message.as_str()).collect();
    messages.join(
        "
",
    )
}

fn labels(product: &str, memory: &str, count: &str, replicas: &str, strategy: &str) -> Value {
    json!({
        "nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory, "nvidia.com/gpu.count": count,
        "nvidia.com/gpu.replicas": replicas, "nvidia.com/gpu.sharing-strategy": strategy,
    })
}

#[test]
fn whole_gpus() {
    let read = read_node(
        &labels("NVIDIA-H100-80GB-HBM3", "81559", "8", "1", "none"),
        &json!({ "nvidia.com/gpu": "8", "cpu": "96", "nvidia.com/gpu.shared": "0", "amd.com/gpu": "1" }),
    );
    assert_eq!(
        pools(&read),
        [("nvidia.com/gpu", Some(81_559), Sharing::Exclusive, 8, 8)]
    );
    assert_eq!(read.pools[0].device, DeviceKind::Gpu);
    assert_eq!(&*read.pools[0].product, "NVIDIA-H100-80GB-HBM3");
    assert_eq!(read.notes, []);
    assert!(read.ready && !read.cordoned);
}

#[test]
fn time_slices_share_the_whole_total() {
    let read = read_node(
        &labels("NVIDIA-H100-80GB-HBM3-SHARED", "81559", "2", "4", "time-slicing"),
        &json!({ "nvidia.com/gpu": "8" }),
    );
    assert_eq!(
        pools(&read),
        [(
            "nvidia.com/gpu",
            Some(81_559),
            Sharing::TimeSliced(slices(4)),
            2,
            8
        )]
    );
    assert_eq!(&*read.pools[0].product, "NVIDIA-H100-80GB-HBM3");
    assert_eq!(read.notes, []);
}

#[test]
fn renamed_slots_have_no_suffix_in_the_product() {
    let read = read_node(
        &labels("NVIDIA-L40S", "46068", "4", "4", "time-slicing"),
        &json!({ "nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "16" }),
    );
    assert_eq!(
        pools(&read),
        [(
            "nvidia.com/gpu.shared",
            Some(46_068),
            Sharing::TimeSliced(slices(4)),
            4,
            16
        )]
    );
    assert_eq!(read.notes, []);
}

#[test]
fn mps_clients() {
    let read = read_node(
        &labels("NVIDIA-L40S-SHARED", "46068", "1", "3", "mps"),
        &json!({ "nvidia.com/gpu": 3 }),
    );
    assert_eq!(
        pools(&read),
        [("nvidia.com/gpu", Some(46_068), Sharing::Mps(slices(3)), 1, 3)]
    );
    let many = read_node(
        &labels("Tesla-V100-SXM2-16GB-SHARED", "16160", "1", "20", "mps"),
        &json!({ "nvidia.com/gpu": 20 }),
    );
    assert!(
        messages(&many).contains("above the 16 MPS clients"),
        "{}",
        messages(&many)
    );
}

#[test]
fn mixed_mig_has_a_pool_per_profile_beside_whole_gpus() {
    let mut node_labels = labels("NVIDIA-H100-80GB-HBM3", "81559", "2", "1", "none");
    for (name, value) in [
        ("mig.strategy", "mixed"),
        ("mig-1g.10gb.memory", "9984"),
        ("mig-1g.10gb.count", "4"),
        ("mig-1g.10gb.replicas", "2"),
        ("mig-1g.10gb.sharing-strategy", "time-slicing"),
        ("mig-1g.10gb.product", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED"),
        ("mig-3g.40gb.count", "1"),
        ("mig-3g.40gb.replicas", "1"),
        ("mig-3g.40gb.sharing-strategy", "none"),
    ] {
        node_labels[format!("nvidia.com/{name}")] = json!(value);
    }
    let read = read_node(
        &node_labels,
        &json!({ "nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "8", "nvidia.com/mig-3g.40gb": "1" }),
    );
    assert_eq!(
        pools(&read),
        [
            ("nvidia.com/gpu", Some(81_559), Sharing::Exclusive, 1, 1),
            (
                "nvidia.com/mig-1g.10gb",
                Some(9_984),
                Sharing::TimeSliced(slices(2)),
                4,
                8
            ),
            ("nvidia.com/mig-3g.40gb", Some(40_448), Sharing::Exclusive, 1, 1),
        ]
    );
    assert_eq!(read.pools[1].device, DeviceKind::Mig(Arc::from("1g.10gb")));
    // Only the total of 3g.40gb is not on a label.
    assert_eq!(read.notes.len(), 1);
    assert!(
        messages(&read).contains("nvidia.com/mig-3g.40gb.memory is missing"),
        "{}",
        messages(&read)
    );
}

#[test]
fn single_mig_describes_the_slice_under_the_name_of_the_gpu() {
    let read = read_node(
        &labels(
            "NVIDIA-H200-MIG-1g.18gb-SHARED",
            "16384",
            "7",
            "2",
            "time-slicing",
        ),
        &json!({ "nvidia.com/gpu": "14" }),
    );
    assert_eq!(
        pools(&read),
        [(
            "nvidia.com/gpu",
            Some(16_384),
            Sharing::TimeSliced(slices(2)),
            7,
            14
        )]
    );
    assert_eq!(read.pools[0].device, DeviceKind::Mig(Arc::from("1g.18gb")));
    assert_eq!(&*read.pools[0].product, "NVIDIA-H200");
    assert_eq!(read.notes, []);

    let without_memory = json!({
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "nvidia.com/gpu.replicas": "1",
    });
    assert_eq!(
        read_node(&without_memory, &json!({ "nvidia.com/gpu": "7" })).pools[0].total,
        Some(Mib::new(9_728))
    );
}

#[test]
fn more_memory_than_any_device_has_is_no_memory() {
    for memory in ["16777217", "18446744073709551615"] {
        let gpu = |product: &str| {
            read_node(
                &labels(product, memory, "1", "1", "none"),
                &json!({ "nvidia.com/gpu": "1" }),
            )
        };
        let known = gpu("NVIDIA-L40S");
        assert_eq!(known.pools[0].total, Some(Mib::new(46_068)), "{memory}");
        let notes = messages(&known);
        assert!(
            notes.contains("gpu.memory is") && notes.contains("more than"),
            "{notes}"
        );
        assert!(
            notes.contains("cannot be true: NVIDIA-L40S is taken to have 46068 MiB"),
            "{notes}"
        );
        let unknown = gpu("NVIDIA-New");
        assert_eq!(unknown.pools[0].total, None, "{memory}");
        let notes = messages(&unknown);
        assert!(notes.contains("is unknown; write the MiB"), "{notes}");
    }
    // What is much and not impossible is the label's.
    let large = read_node(
        &labels("NVIDIA-New", "16777216", "1", "1", "none"),
        &json!({ "nvidia.com/gpu": "1" }),
    );
    assert_eq!(
        (large.pools[0].total, large.notes.len()),
        (Some(Mib::new(1 << 24)), 0)
    );
}

#[test]
fn profiles_that_differ_under_the_single_strategy_have_no_total() {
    let product = "NVIDIA-H100-80GB-HBM3-MIG-INVALID";
    let offering_nothing = node(
        &labels(product, "0", "0", "0", ""),
        &json!({ "nvidia.com/gpu": "0" }),
    );
    assert_eq!(
        read(&offering_nothing, MissingFacts::Exclusive, Catalogue::embedded()),
        None
    );
    let contradictory = read_node(
        &labels(product, "0", "0", "0", ""),
        &json!({ "nvidia.com/gpu": "2" }),
    );
    assert_eq!(contradictory.pools[0].total, None);
    assert!(
        messages(&contradictory)
            .contains("ends with -MIG-INVALID: the GPUs of the node are cut in different ways"),
        "{}",
        messages(&contradictory)
    );
    assert!(
        messages(&contradictory).contains("gpu.replicas is 0"),
        "{}",
        messages(&contradictory)
    );
}

/// A node with H100s whose slices are offered by profile.
fn mixed(gpus: &str, strategy: &str, slices: &[(&str, &str)]) -> GpuNode {
    let mut node_labels = labels("NVIDIA-H100-80GB-HBM3", "81559", gpus, "0", "none");
    node_labels["nvidia.com/mig.strategy"] = json!(strategy);
    let mut capacity = json!({});
    for (profile, count) in slices {
        for (field, value) in [
            ("memory", "9984"),
            ("count", count),
            ("replicas", "1"),
            ("sharing-strategy", "none"),
        ] {
            node_labels[format!("nvidia.com/mig-{profile}.{field}")] = json!(value);
        }
        capacity[format!("nvidia.com/mig-{profile}")] = json!(count);
    }
    read_node(&node_labels, &capacity)
}

#[test]
fn slices_that_cannot_be_so_are_told() {
    for (gpus, strategy, slices, text) in [
        ("1", "mixed", vec![("1g.10gb", "7")], ""),
        ("1", "mixed", vec![("1g.10gb", "6"), ("1g.10gb.me", "1")], ""),
        ("2", "mixed", vec![("1g.10gb", "14")], ""),
        (
            "1",
            "mixed",
            vec![("1g.10gb", "7"), ("1g.10gb.me", "1")],
            "capacity offers 7 x 1g.10gb + 1 x 1g.10gb.me and label nvidia.com/gpu.count is 1: that is more than 1 x NVIDIA-H100",
        ),
        (
            "2",
            "mixed",
            vec![("1g.10gb", "15")],
            "label nvidia.com/gpu.count is 2",
        ),
        (
            "1",
            "single",
            vec![("1g.10gb", "7")],
            "label nvidia.com/mig.strategy is single, under which no resource has that name",
        ),
        (
            "1",
            "none",
            vec![("1g.10gb", "7")],
            "label nvidia.com/mig.strategy is none, under which",
        ),
        (
            "1",
            "mixed",
            vec![("1g.9gb", "7")],
            "NVIDIA-H100-80GB-HBM3 has no MIG profile 1g.9gb, as far as the catalogue knows; the nearest are 1g.10gb",
        ),
    ] {
        let read = mixed(gpus, strategy, &slices);
        let notes = messages(&read);
        if text.is_empty() {
            assert_eq!(read.notes, [], "{slices:?}");
        } else {
            assert!(notes.contains(text), "{slices:?}: {notes}");
            assert_eq!(read.notes.len(), 1, "{notes}");
        }
        // What the node says is used all the same.
        assert_eq!(read.pools.len(), slices.len());
    }
}

#[test]
fn media_slices_are_a_resource_of_their_own() {
    let read = mixed("1", "mixed", &[("1g.10gb", "6"), ("1g.10gb.me", "1")]);
    assert_eq!(read.pools[1].device, DeviceKind::Mig(Arc::from("1g.10gb.me")));
    assert_eq!(read.pools[1].total, Some(Mib::new(9_984)));
    let unlabelled = read_node(
        &json!({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/mig-1g.10gb.me.replicas": "1"}),
        &json!({"nvidia.com/mig-1g.10gb.me": "1"}),
    );
    assert_eq!(unlabelled.pools[0].total, Some(Mib::new(9_856)));
}

#[test]
fn products_written_by_hand_are_recognised_and_read_as_whole_gpus() {
    for (product, total) in [
        ("A100-SXM4-80GB", 81_920),
        ("H100-SXM5-80GB", 81_559),
        ("l40s-48gb", 46_068),
    ] {
        let read = read_node(
            &json!({ "nvidia.com/gpu.product": product }),
            &json!({ "nvidia.com/gpu": "4" }),
        );
        assert_eq!(
            pools(&read),
            [("nvidia.com/gpu", Some(total), Sharing::Exclusive, 4, 4)]
        );
        assert_eq!(&*read.pools[0].product, product);
        let notes = messages(&read);
        assert!(
            notes.contains("nvidia.com/gpu.sharing-strategy and nvidia.com/gpu.replicas are missing"),
            "{notes}"
        );
        assert!(notes.contains("nvidia.com/gpu.memory is missing"), "{notes}");
    }
}

#[test]
fn a_policy_can_refuse_resources_without_sharing_facts() {
    let plain = node(
        &json!({ "nvidia.com/gpu.product": "NVIDIA-L40S" }),
        &json!({ "nvidia.com/gpu": "4" }),
    );
    let read = read(&plain, MissingFacts::Deny, Catalogue::embedded()).unwrap();
    assert_eq!(read.pools, []);
    assert!(
        messages(&read).contains("the policy uses no nvidia.com/gpu without them"),
        "{}",
        messages(&read)
    );
}

#[test]
fn a_node_without_any_label_has_devices_of_unknown_memory() {
    let read = read_node(&json!(null), &json!({ "nvidia.com/gpu": "1" }));
    assert_eq!(pools(&read), [("nvidia.com/gpu", None, Sharing::Exclusive, 1, 1)]);
    assert_eq!(&*read.pools[0].product, "unknown");
    assert!(
        messages(&read).contains("the memory of its devices is unknown"),
        "{}",
        messages(&read)
    );
    // The label alone is enough for a product that nobody knows.
    let new = read_node(
        &labels("NVIDIA-Next-200GB", "200000", "1", "2", "time-slicing"),
        &json!({ "nvidia.com/gpu": "2" }),
    );
    assert_eq!(
        pools(&new),
        [(
            "nvidia.com/gpu",
            Some(200_000),
            Sharing::TimeSliced(slices(2)),
            1,
            2
        )]
    );
    assert_eq!(new.notes, []);
}

#[allow(clippy::too_many_lines, reason = "one table of contradictions")]
#[test]
fn contradictions_are_read_as_what_promises_less_and_noted() {
    let h100 = "NVIDIA-H100-80GB-HBM3";
    let time_sliced = |slots| Sharing::TimeSliced(slices(slots));
    for (facts, capacity, sharing, devices, words) in [
        (
            labels(h100, "81559", "2", "4", "time-slicing"),
            10,
            time_sliced(4),
            2,
            "capacity 10 of nvidia.com/gpu is not",
        ),
        (
            labels(h100, "81559", "1", "4", "time-slicing"),
            3,
            time_sliced(4),
            1,
            "not a multiple",
        ),
        (
            labels(h100, "81559", "2", "4", "none"),
            8,
            time_sliced(4),
            2,
            "read as time-slicing",
        ),
        (
            labels(h100, "81559", "2", "1", "time-slicing"),
            8,
            time_sliced(4),
            2,
            "4 on each of 2 devices",
        ),
        (
            labels(h100, "81559", "", "", "time-slicing"),
            8,
            time_sliced(8),
            1,
            "8 on each of 1 devices",
        ),
        (
            labels(&format!("{h100}-SHARED"), "81559", "2", "", ""),
            8,
            time_sliced(4),
            2,
            "4 on each of 2",
        ),
        (
            labels(h100, "81559", "2", "", ""),
            8,
            time_sliced(4),
            2,
            "4 on each of 2",
        ),
        (
            labels(h100, "81559", "4", "1", "none"),
            8,
            Sharing::Exclusive,
            8,
            "a second product",
        ),
        (
            labels(h100, "81559", "8", "1", "none"),
            4,
            Sharing::Exclusive,
            4,
            "only 4 devices",
        ),
        (
            labels(h100, "20389", "8", "1", "none"),
            8,
            Sharing::Exclusive,
            8,
            "gpu.memory is 20389, but",
        ),
        (
            labels(h100, "81559", "8", "1", "some"),
            8,
            Sharing::Exclusive,
            8,
            "gpu.sharing-strategy is \"some\"",
        ),
        (
            labels(h100, "80GB", "8", "1", "none"),
            8,
            Sharing::Exclusive,
            8,
            "gpu.memory is \"80GB\"",
        ),
        (
            labels(h100, "81559", "x", "-1", "none"),
            8,
            Sharing::Exclusive,
            8,
            "gpu.replicas is \"-1\"",
        ),
        (
            labels(h100, "99999999999999999999", "8", "1", "none"),
            8,
            Sharing::Exclusive,
            8,
            "not a whole number",
        ),
        (
            labels(h100, "81559", "1", "4294967296", "mps"),
            4,
            Sharing::Mps(slices(4)),
            1,
            "gpu.replicas is 4294967296",
        ),
        (
            labels("NVIDIA-H200-MIG-1g.18gb", "16384", "7", "2", "mps"),
            14,
            time_sliced(2),
            7,
            "the device plugin refuses on MIG",
        ),
    ] {
        let read = read_node(&facts, &json!({ "nvidia.com/gpu": capacity }));
        let notes = messages(&read);
        assert_eq!(
            (read.pools[0].sharing, read.pools[0].devices),
            (sharing, devices),
            "{facts}\n{notes}"
        );
        assert!(notes.contains(words), "{words}: {notes}");
    }
}

#[test]
fn unhealthy_devices_and_odd_counts() {
    let with = |capacity: Value, allocatable: Value| {
        let mut node = node(&labels("NVIDIA-L40S", "46068", "8", "1", "none"), &json!({}));
        node.status.capacity = serde_json::from_value(capacity).unwrap();
        node.status.allocatable = serde_json::from_value(allocatable).unwrap();
        let read = read(&node, MissingFacts::Exclusive, Catalogue::embedded()).unwrap();
        let found = read.pools.first().map(|pool| (pool.slots, pool.usable_slots));
        (found, messages(&read))
    };
    let gpus = |count: Value| json!({ "nvidia.com/gpu": count });
    assert_eq!(
        with(gpus(json!(8)), gpus(json!("7"))),
        (Some((8, 7)), String::new())
    );
    assert_eq!(with(gpus(json!(8)), gpus(json!(0))).0, Some((8, 0)));
    assert_eq!(with(gpus(json!(8)), json!({})).0, Some((8, 8)));
    assert_eq!(with(json!({}), gpus(json!(8))).0, Some((8, 8)));
    let (found, notes) = with(gpus(json!(8)), gpus(json!(9)));
    assert_eq!(found, Some((8, 8)));
    assert!(notes.contains("more than the capacity 8"), "{notes}");
    let (found, notes) = with(gpus(json!("many")), gpus(json!("-8")));
    assert_eq!(found, None);
    assert!(
        notes.contains("status.capacity[nvidia.com/gpu] is \"many\""),
        "{notes}"
    );
}

#[test]
fn nodes_that_are_not_ready_cordoned_or_under_repartition() {
    let mut node = node(
        &labels("NVIDIA-L40S", "46068", "8", "1", "none"),
        &json!({ "nvidia.com/gpu": 8 }),
    );
    node.spec.unschedulable = true;
    node.metadata
        .labels
        .insert(MIG_STATE.to_owned(), "pending".to_owned());
    node.status.conditions = vec![NodeCondition {
        kind: "Ready".to_owned(),
        status: "Unknown".to_owned(),
    }];
    let read = read(&node, MissingFacts::Exclusive, Catalogue::embedded()).unwrap();
    assert!(read.cordoned && !read.ready);
    assert!(
        messages(&read).contains("nvidia.com/mig.config.state is \"pending\""),
        "{}",
        messages(&read)
    );
}

#[test]
fn both_names_at_once_are_noted() {
    let read = read_node(
        &labels("NVIDIA-L40S", "46068", "1", "2", "time-slicing"),
        &json!({ "nvidia.com/gpu": 2, "nvidia.com/gpu.shared": 2 }),
    );
    assert_eq!(read.pools.len(), 2);
    assert!(messages(&read).contains("at once"), "{}", messages(&read));
}

#[test]
fn nodes_without_gpus_are_not_kept() {
    for capacity in [
        json!({ "cpu": "4" }),
        json!({ "nvidia.com/gpu": "0" }),
        json!({ "nvidia.com/gpumem": "4000" }),
    ] {
        assert_eq!(
            read(
                &node(&json!({}), &capacity),
                MissingFacts::Exclusive,
                Catalogue::embedded()
            ),
            None
        );
    }
}

proptest! {
    #[test]
    fn no_label_makes_more_of_a_node_than_its_capacity(
        product in "(NVIDIA-L40S|A100-SXM4-80GB|New)(-MIG-(1g.10gb|INVALID))?(-SHARED)?|\\PC{0,12}",
        memory in "[0-9]{0,6}|\\PC{0,12}",
        count in "[0-9]{0,3}|\\PC{0,12}",
        replicas in "[0-9]{0,3}|\\PC{0,12}",
        strategy in "none|time-slicing|mps||\\PC{0,12}",
        resource in "nvidia.com/(gpu|mig-1g.10gb)(.shared)?",
        capacity in "[0-9]{1,3}|\\PC{0,12}",
    ) {
        let read = read(
            &node(&labels(&product, &memory, &count, &replicas, &strategy), &json!({ resource: capacity })),
            MissingFacts::Exclusive,
            Catalogue::embedded(),
        );
        for pool in read.iter().flat_map(|read| &read.pools) {
            let slots = u64::from(pool.slots);
            let each = u64::from(pool.sharing.slots_per_device());
            prop_assert!(pool.devices >= 1 && pool.usable_slots <= pool.slots);
            prop_assert!(pool.devices == 1 || u64::from(pool.devices) * each <= slots, "{pool:?}");
            prop_assert!(pool.total != Some(Mib::ZERO));
        }
    }
}

#[test]
fn numbers_that_no_node_has_are_read_in_bounds() {
    for (capacity, replicas, devices, slots) in [
        ("1000", "1", 1_000, 1),
        ("48000", "48", 1_000, 48),
        ("4", "4294967295", 1, 4_294_967_295),
        ("4294967295", "1", 4_294_967_295, 1),
    ] {
        let strategy = if replicas == "1" { "none" } else { "time-slicing" };
        let labels = json!({
            "nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068",
            "nvidia.com/gpu.replicas": replicas, "nvidia.com/gpu.sharing-strategy": strategy,
        });
        let read = read_node(&labels, &json!({"nvidia.com/gpu": capacity}));
        let pool = &read.pools[0];
        assert_eq!((pool.devices, pool.sharing.slots_per_device()), (devices, slots));
    }
    // A profile that no product has is one by its label.
    let labels = json!({"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/mig-9g.99gb.memory": "99000"});
    let read = read_node(&labels, &json!({"nvidia.com/mig-9g.99gb": "2"}));
    assert_eq!(read.pools[0].total, Some(Mib::new(99_000)));
}
