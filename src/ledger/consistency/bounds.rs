//! No change of the ledger asks on and on.

use serde_json::{Value, json};

use super::super::search::steps;
use super::{NODES, Run, node, pod, set_node};
use crate::decision::Operation;

impl Run {
    /// A cluster of these nodes alone, by shape.
    fn of(shapes: &[(&str, usize)]) -> Self {
        let mut run = Self::new();
        for name in NODES {
            run.ledger.remove_node(name);
        }
        for (name, shape) in shapes {
            set_node(&mut run.ledger, &node(name, *shape));
        }
        run
    }

    /// A pod that was admitted here, or was there before, is bound and got a slot of a device.
    fn on_device(&mut self, uid: u64, fraction: u64, admitted: bool, node: &str, device: Option<usize>) {
        let mut pod = pod(&format!("p{uid}"), uid, fraction, None);
        if admitted {
            assert!(self.review(Operation::Create, &pod, None), "p{uid} is admitted");
        }
        pod["spec"]["nodeName"] = json!(node);
        let slots: Vec<Value> = device
            .map(|device| json!({"resourceID": format!("GPU-{device}::{uid}")}))
            .into_iter()
            .collect();
        pod["status"] = json!({"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [
            {"name": "nvidia.com/gpu", "resources": slots},
        ]}]});
        self.see(&pod);
    }

    fn place(&self, uid: &str) -> Option<&str> {
        self.ledger.holder(uid)?.place.as_deref()
    }
}

/// Device 0 of n0 is above its budget by pods that nothing can move; the pod on device 1 was taken away for that and fetched
/// back again without end.
#[test]
fn a_pod_beside_a_device_that_is_too_full_stays_on_its_own() {
    let mut run = Run::of(&[("n0", 3), ("n1", 0)]);
    let ((), asked) = steps::within(1_000, || {
        run.on_device(1, 500, false, "n0", Some(0));
        run.on_device(2, 500, false, "n0", Some(0));
        assert!(run.ledger.is_over("n0"));
        run.on_device(3, 200, true, "n0", Some(1));
    });
    run.ledger.assert_consistent();
    assert_eq!(run.place("u3"), Some("n0"), "after {asked} questions");
    assert!(run.ledger.is_over("n0"));
}

/// The same where nothing tells its device yet, but the full one has no slot left for it.
#[test]
fn a_pod_that_cannot_be_on_the_device_that_is_too_full_stays() {
    let mut run = Run::of(&[("n0", 3), ("n1", 0)]);
    steps::within(1_000, || {
        for uid in 1..=3 {
            run.on_device(uid, 400, false, "n0", Some(0));
        }
        assert!(run.ledger.is_over("n0"));
        run.on_device(4, 200, true, "n0", None);
    });
    run.ledger.assert_consistent();
    assert_eq!(run.place("u4"), Some("n0"));
}

/// What is on the device that is too full, and may be moved in thought, still is.
#[test]
fn a_pod_on_the_device_that_is_too_full_is_counted_elsewhere() {
    let mut run = Run::of(&[("n0", 3), ("n1", 0)]);
    steps::within(1_000, || {
        run.on_device(1, 500, false, "n0", Some(0));
        run.on_device(2, 500, true, "n0", Some(0));
    });
    run.ledger.assert_consistent();
    assert_eq!(run.place("u2"), Some("n1"));
    assert!(!run.ledger.is_over("n0"));
}

/// Nodes that the pods may not stand on are many, those that they may stand on are few and nearly full: each step of the joint
/// search looks at all of them.
#[test]
fn a_joint_search_among_many_nodes_that_do_not_match_ends() {
    let mut run = Run::of(&[]);
    for index in 0..300 {
        set_node(&mut run.ledger, &node(&format!("m{index}"), 0));
    }
    for index in 0..4 {
        let mut node = node(&format!("m{index}"), 0);
        node["metadata"]["labels"]["pool"] = json!("small");
        set_node(&mut run.ledger, &node);
    }
    let (mut admitted, mut most) = (0, 0);
    for uid in 0..16 {
        let mut pod = pod(&format!("p{uid}"), uid, 171 + 13 * (uid * 7 % 16), None);
        pod["spec"]["nodeSelector"] = json!({"pool": "small"});
        // The bound of one search, and what else a review asks.
        let (admit, asked) = steps::within(420_000, || run.review(Operation::Create, &pod, None));
        admitted += u32::from(admit);
        most = most.max(asked);
    }
    run.ledger.assert_consistent();
    assert!(most > 400_000, "the bound is reached: {most}");
    assert!((8..16).contains(&admitted), "{admitted}");
}
