//! Histories that once let too much in, or kept out what had a place.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, L40S, pod};
use serde_json::{Value, json};
use vramgate::ledger::Moment;

fn cluster(nodes: &[&str]) -> Cluster {
    let mut cluster = Cluster::new();
    for name in nodes {
        cluster.gpu_node(name, "NVIDIA-L40S", L40S, 1, 8);
    }
    cluster
}

fn with_uid(name: &str, fraction: &str, uid: &str) -> Value {
    let mut pod = pod(name, fraction);
    pod["metadata"]["uid"] = json!(uid);
    pod
}

fn admitted(cluster: &mut Cluster, name: &str, fraction: &str) -> Option<Value> {
    let pod = with_uid(name, fraction, &format!("uid-{name}"));
    cluster.create(&pod).admit.then_some(pod)
}

#[test]
fn pods_that_wait_count_again_when_their_node_comes_back() {
    let mut cluster = cluster(&["a"]);
    for name in ["p", "q", "r"] {
        let pod = admitted(&mut cluster, name, "0.30").unwrap();
        cluster.see(&pod);
    }
    cluster.ledger.remove_node("a");
    cluster.gpu_node("a", "NVIDIA-L40S", L40S, 1, 8);
    assert!(admitted(&mut cluster, "s", "0.30").is_none());
}

#[test]
fn pods_seen_before_their_nodes_count() {
    let mut cluster = cluster(&[]);
    for name in ["p", "q", "r"] {
        cluster.see(&with_uid(name, "0.30", name));
    }
    cluster.gpu_node("a", "NVIDIA-L40S", L40S, 1, 8);
    assert!(admitted(&mut cluster, "s", "0.30").is_none());
}

#[test]
fn a_pod_that_waits_moves_when_its_node_stops_sharing() {
    let mut cluster = cluster(&["a", "b"]);
    for name in ["p", "q", "r", "s"] {
        assert!(admitted(&mut cluster, name, "0.30").is_some());
    }
    let fuller = cluster
        .ledger
        .devices()
        .iter()
        .max_by_key(|device| device.promised_share.ppm())
        .map(|device| device.node.to_string())
        .unwrap();
    // One of the three stays on the whole device, the others join the fourth.
    cluster.gpu_node(&fuller, "NVIDIA-L40S", L40S, 1, 1);
    let devices = cluster.ledger.devices();
    assert_eq!(
        devices.iter().map(|device| device.holders.len()).sum::<usize>(),
        4
    );
    assert!(devices.iter().all(|device| device.slots_taken <= device.slots));
}

/// Both on one node by the scheduler's will; admission had a place for one of them on the other.
fn packed() -> Cluster {
    let mut cluster = cluster(&["a", "b"]);
    for name in ["p", "q"] {
        let pod = admitted(&mut cluster, name, "0.50").unwrap();
        cluster.running(&pod, "a");
    }
    assert!(admitted(&mut cluster, "r", "0.50").is_none());
    cluster
}

#[test]
fn what_the_scheduler_packed_counts_after_a_reload_of_policies() {
    let mut cluster = packed();
    let policies = cluster.ledger.policies().clone();
    cluster.ledger.set_policies(policies);
    assert!(admitted(&mut cluster, "r", "0.50").is_none());
}

#[test]
fn what_the_scheduler_packed_counts_on_its_node_when_the_other_is_gone() {
    let mut cluster = packed();
    cluster.ledger.remove_node("b");
    assert!(admitted(&mut cluster, "r", "0.35").is_none());
}

#[test]
fn a_pod_replaced_under_its_name_needs_no_second_place() {
    let mut cluster = cluster(&["a"]);
    for name in ["p", "q", "r"] {
        let pod = admitted(&mut cluster, name, "0.30").unwrap();
        cluster.running(&pod, "a");
    }
    // It can only be stored once the other is gone, which the watch has not told yet.
    let again = with_uid("p", "0.30", "uid-again");
    assert!(cluster.create(&again).admit);
    assert!(admitted(&mut cluster, "s", "0.30").is_none());
    // If it was not stored, because the other is there still, that one counts on.
    cluster.ledger.release("uid-again");
    assert!(admitted(&mut cluster, "s", "0.30").is_none());
    assert!(cluster.create(&again).admit);
    cluster.ledger.remove_pod("uid-p");
    cluster.see(&again);
    assert!(admitted(&mut cluster, "s", "0.30").is_none());
    assert!(cluster.ledger.over_budget().is_empty());
}

/// Taken out of the sums twice, it would take an equal share of another with it.
#[test]
fn what_is_taken_out_for_the_question_is_taken_out_once() {
    let mut cluster = cluster(&["a"]);
    for name in ["p", "q", "r"] {
        let pod = admitted(&mut cluster, name, "0.30").unwrap();
        if name != "p" {
            cluster.running(&pod, "a");
        }
    }
    // A pod that waits, replaced under its name by a larger one: 1.20 of 0.90.
    assert!(!cluster.create(&with_uid("p", "0.60", "uid-again")).admit);
    // The same as an UPDATE: 0.30 and 0.30 and what an old release takes beside 0.30.
    let old = with_uid("p", "0.30", "uid-p");
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = json!("vllm/vllm-openai:v0.6.6");
    assert!(!cluster.update(&old, &new).admit);
}

#[test]
fn an_update_that_was_not_stored_is_forgotten_in_time() {
    let mut cluster = cluster(&["a"]);
    let pod = admitted(&mut cluster, "p", "0.30").unwrap();
    let old = cluster.running(&pod, "a");
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = json!("vllm/vllm-openai:v0.6.6");
    assert!(cluster.update(&old, &new).admit);
    let held = |cluster: &Cluster| cluster.ledger.devices()[0].promised_share;
    let (raised, before) = (held(&cluster), 300_000);
    assert!(raised.ppm() > before);
    // Its status is told, and that is not yet the change.
    cluster.see(&old);
    assert_eq!(held(&cluster), raised);
    cluster.ledger.end_raises(Moment(1));
    assert_eq!(held(&cluster), raised);
    cluster.ledger.end_raises(Moment(100));
    assert_eq!(held(&cluster).ppm(), before);
    // What was stored stays.
    assert!(cluster.update(&old, &new).admit);
    cluster.see(&new);
    cluster.ledger.end_raises(Moment(100));
    assert_eq!(held(&cluster), raised);
}

#[test]
fn pods_of_one_prefix_are_as_many_as_they_are() {
    let mut cluster = cluster(&["a"]);
    let admitted = (0..5).filter(|_| {
        let mut pod = pod("", "0.30");
        pod["metadata"]["generateName"] = json!("chat-");
        cluster.create(&pod).admit
    });
    assert_eq!(admitted.count(), 3);
}

#[test]
fn asking_what_a_controller_can_no_longer_mean_ends_nothing() {
    let mut cluster = cluster(&["a", "b"]);
    for name in ["p", "q", "r"] {
        let mut pod = with_uid(name, "0.30", name);
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat",
            "uid": "owner", "controller": true}]);
        assert!(cluster.create(&pod).admit);
    }
    let uids = |wants, before| {
        let surplus = cluster
            .ledger
            .surplus("owner", wants, Moment(before), Moment(before));
        surplus.into_iter().map(|stale| stale.uid).collect::<Vec<_>>()
    };
    assert_eq!(uids(4, 100), [""; 0]);
    assert_eq!(uids(2, 100), ["p", "q"]);
    // The youngest may be on their way to the store.
    assert_eq!(uids(1, 2), ["p"]);
    assert_eq!(cluster.ledger.reserved(), 3);
}

/// Each is accounted where the other is bound, since a pod that was never stored had made its node look full. Alone neither
/// finds room at home.
#[test]
fn bound_pods_that_stand_in_each_others_way_change_places() {
    for nodes in [&["a", "b"][..], &["a", "b", "c"]] {
        let mut cluster = cluster(nodes);
        let names: Vec<String> = (0..nodes.len()).map(|index| format!("p{index}")).collect();
        let pods: Vec<Value> = names
            .iter()
            .map(|name| admitted(&mut cluster, name, "0.60").unwrap())
            .collect();
        let place = |cluster: &Cluster, name: &str| {
            let node = nodes.iter().find(|node| {
                let uid: std::sync::Arc<str> = format!("uid-{name}").as_str().into();
                cluster
                    .ledger
                    .place_of(&uid)
                    .is_some_and(|place| *place == ***node)
            });
            (*node.unwrap()).to_owned()
        };
        // The scheduler turns them round: each goes where admission had the next one in mind.
        let turned: Vec<String> = (0..names.len())
            .map(|index| place(&cluster, &names[(index + 1) % names.len()]))
            .collect();
        for (pod, node) in pods.iter().zip(&turned) {
            cluster.running(pod, node);
        }
        for (name, node) in names.iter().zip(&turned) {
            assert_eq!(
                &place(&cluster, name),
                node,
                "{name} is accounted where it is bound"
            );
        }
        assert!(cluster.ledger.over_budget().is_empty());
        assert!(admitted(&mut cluster, "more", "0.60").is_none());
        cluster.ledger.remove_pod("uid-p0");
        assert!(admitted(&mut cluster, "again", "0.60").is_some());
        assert!(admitted(&mut cluster, "more", "0.60").is_none());
    }
}

/// A pod that kube-scheduler holds back is nobody's burden: only who is bound can make a node run out of memory.
#[test]
fn who_waits_puts_no_node_above_its_budget() {
    let mut cluster = cluster(&["a", "b"]);
    let pods: Vec<Value> = [("p", "0.50"), ("q", "0.35"), ("r", "0.50"), ("s", "0.35")]
        .into_iter()
        .map(|(name, fraction)| admitted(&mut cluster, name, fraction).unwrap())
        .collect();
    // The two small ones together leave no node whole enough for one of the large ones.
    cluster.running(&pods[1], "a");
    cluster.running(&pods[3], "a");
    cluster.running(&pods[0], "b");
    cluster.see(&pods[2]);
    let devices = cluster.ledger.devices();
    let over = |device: &vramgate::ledger::devices::DeviceView| device.is_over();
    assert!(!devices.iter().any(over), "{devices:#?}");
    assert!(cluster.ledger.over_budget().is_empty());
    let waiting: Vec<_> = devices
        .iter()
        .flat_map(|device| &device.holders)
        .filter(|holder| !holder.bound)
        .map(|holder| &*holder.name)
        .collect();
    assert_eq!(waiting, ["r"], "who waits is shown as such");
    // What is promised still counts it: nobody else gets the room.
    assert!(admitted(&mut cluster, "t", "0.20").is_none());
    // Once it is bound there all the same, the node is told.
    cluster.running(&pods[2], "b");
    assert_eq!(cluster.ledger.over_budget().len(), 1);
    assert!(cluster.ledger.devices().iter().any(over));
}
