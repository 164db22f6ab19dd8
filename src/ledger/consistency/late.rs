//! What is told late: a record of a pod that was seen first, and records where the scheduler crowds a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::{Run, node, pod, set_node};
use crate::decision::Operation;
use crate::ledger::{Awaited, Extent, Moment, Next};
use crate::record::{Entry, NodeRecord, Taken};

const HALF: u64 = 500;
const HALF_PPM: u64 = 550_000;

fn entry(uid: &str, controller: Option<&str>, ppm: u64) -> Entry {
    Entry {
        uid: uid.to_owned(),
        namespace: "team".to_owned(),
        name: format!("p-{uid}"),
        controller: controller.map(str::to_owned),
        takes: vec![Taken {
            resource: "nvidia.com/gpu".to_owned(),
            slots: 1,
            shares_ppm: vec![ppm],
            ..Taken::default()
        }],
        ..Entry::default()
    }
}

impl Run {
    /// Two nodes with one device each, in one of several replicas.
    fn shared() -> Self {
        let mut run = Self::new();
        run.ledger.remove_node("n2");
        run.ledger.share_records();
        run
    }

    fn put_record(&mut self, node: &str, reservations: Vec<Entry>) {
        self.version += 1;
        let record = NodeRecord {
            reservations,
            ..NodeRecord::default()
        };
        let version = self.version.to_string();
        self.ledger
            .set_record(node, &record, &version, Moment(self.version));
        self.ledger.assert_consistent();
    }

    fn see_on(&mut self, uid: u64, node: Option<&str>) {
        let mut pod = pod(&format!("p{uid}"), uid, HALF, None);
        if let Some(node) = node {
            pod["spec"]["nodeName"] = json!(node);
        }
        self.see(&pod);
        self.ledger.assert_consistent();
    }

    fn at(&self, uid: &str) -> Option<String> {
        self.ledger.place_of(uid).map(|node| node.to_string())
    }

    fn admits(&mut self, uid: u64) -> bool {
        self.review(Operation::Create, &pod(&format!("p{uid}"), uid, HALF, None), None)
    }
}

/// Two pods were admitted, one for each node, and the scheduler puts both on n0.
#[test]
fn a_record_that_comes_after_its_pod_was_seen_elsewhere_keeps_the_place() {
    let orders: [&dyn Fn(&mut Run); 3] = [
        &|run| {
            run.put_record("n1", vec![entry("u2", None, HALF_PPM)]);
            run.see_on(2, Some("n0"));
        },
        &|run| {
            run.see_on(2, Some("n0"));
            run.put_record("n1", vec![entry("u2", None, HALF_PPM)]);
        },
        // Seen once more, by what its kubelet tells.
        &|run| {
            run.see_on(2, Some("n0"));
            run.see_on(2, Some("n0"));
            run.put_record("n1", vec![entry("u2", None, HALF_PPM)]);
            run.see_on(2, Some("n0"));
        },
    ];
    for (order, late) in orders.iter().enumerate() {
        let mut run = Run::shared();
        run.put_record("n0", vec![entry("u1", None, HALF_PPM)]);
        run.see_on(1, Some("n0"));
        late(&mut run);
        assert_eq!(run.at("u1").as_deref(), Some("n0"), "order {order}");
        assert_eq!(run.at("u2").as_deref(), Some("n1"), "order {order}");
        assert!(!run.admits(3), "order {order}: both nodes are promised");
    }
}

/// The same where it was seen before the scheduler had put it anywhere.
#[test]
fn a_record_that_comes_after_its_pod_was_seen_unbound_keeps_the_place() {
    let mut run = Run::shared();
    run.put_record("n0", vec![entry("u1", None, HALF_PPM)]);
    run.see_on(1, Some("n0"));
    run.see_on(2, None);
    run.put_record("n1", vec![entry("u2", None, HALF_PPM)]);
    run.see_on(2, Some("n0"));
    assert_eq!(run.at("u2").as_deref(), Some("n1"));
    assert!(!run.admits(3), "both nodes are promised");
}

/// What nobody admitted stays where it is, whatever is kept in mind for a record that may come.
#[test]
fn a_pod_that_no_record_has_elsewhere_stays_on_its_node() {
    let mut run = Run::shared();
    run.see_on(1, Some("n0"));
    run.see_on(2, Some("n0"));
    run.put_record(
        "n0",
        vec![entry("u1", None, HALF_PPM), entry("u2", None, HALF_PPM)],
    );
    assert_eq!(run.at("u1").as_deref(), Some("n0"));
    assert_eq!(run.at("u2").as_deref(), Some("n0"));
    assert!(run.ledger.is_over("n0"));
}

/// Where a reservation of another replica may stand nobody knows: it stays where its record says, however crowded that is.
#[test]
fn a_reservation_of_another_replica_never_moves() {
    let mut run = Run::shared();
    run.put_record("n0", vec![entry("foreign", None, HALF_PPM)]);
    assert!(run.admits(1));
    run.see_on(1, Some("n0"));
    run.see_on(2, Some("n0"));
    assert_eq!(run.at("foreign").as_deref(), Some("n0"));
    assert!(run.ledger.is_over("n0"), "u2 was not admitted and cannot go");
    set_node(&mut run.ledger, &node("n2", 0));
    run.ledger.settle("n0");
    run.ledger.assert_consistent();
    assert_eq!(run.at("foreign").as_deref(), Some("n0"));
    assert_eq!(run.at("u1").as_deref(), Some("n1"), "what may move did");
}

/// A record that has no room for what is to be added leaves out who is gone all the same.
#[test]
fn a_crowded_record_does_not_keep_who_is_gone() {
    let mut run = Run::shared();
    run.put_record("n0", vec![entry("u1", None, HALF_PPM), entry("u9", None, 1_000)]);
    run.put_record("n1", vec![entry("u2", None, HALF_PPM)]);
    run.see_on(1, Some("n0"));
    // It is counted on n0 as if it had been moved there, for which n0 has no room.
    run.see_on(2, Some("n1"));
    run.ledger.remove_pod("u9");
    let n0: Arc<str> = Arc::from("n0");
    let uid: Arc<str> = Arc::from("u2");
    run.ledger.account(&uid, "n0");
    let draft = run
        .ledger
        .draft("n0", Extent::Exact, "now")
        .expect("it has a record");
    assert!(draft.is_crowded && draft.changed, "{draft:?}");
    let next = run.ledger.next_write(&n0, Extent::Exact, "now");
    let Next::Write(to, draft) = next else {
        panic!("{next:?}")
    };
    assert_eq!(to, n0);
    let left: Vec<&str> = draft.record.entries().map(|entry| entry.uid.as_str()).collect();
    assert_eq!(left, ["u1"]);
    run.ledger.set_record("n0", &draft.record, "99", Moment(99));
    run.ledger.account(&uid, "n0");
    let next = run.ledger.next_write(&n0, Extent::Exact, "now");
    assert!(matches!(next, Next::Stuck), "{next:?}");
    // A review adds nothing there either.
    let next = run.ledger.next_write(&n0, Extent::Additions, "now");
    assert!(matches!(next, Next::Stuck), "{next:?}");
}

/// Another replica may not have told its caller yet that a pod is admitted, while this one saw the record.
#[test]
fn a_reservation_of_another_replica_is_surplus_later() {
    let mut run = Run::shared();
    run.put_record("n0", vec![entry("u1", Some("rs"), HALF_PPM)]);
    let surplus = |run: &Run, foreign_before| {
        let ended = run
            .ledger
            .surplus("rs", 1, Moment(u64::MAX), Moment(foreign_before));
        ended.len()
    };
    assert_eq!(surplus(&run, 1), 0);
    assert_eq!(surplus(&run, 2), 1);
    // Its age is since it was seen first, not since its record was written last.
    let also = entry("u2", Some("other"), 1_000);
    run.put_record("n0", vec![entry("u1", Some("rs"), HALF_PPM), also]);
    assert_eq!(surplus(&run, 2), 1);
}

/// Each of two pods is bound where the other one has its place. Their records change places as well, and at each step each
/// stands in a record of a node that it can have for itself.
#[test]
fn pods_in_each_others_place_change_records() {
    let mut run = Run::shared();
    run.put_record("n0", vec![entry("u1", None, HALF_PPM)]);
    run.put_record("n1", vec![entry("u2", None, HALF_PPM)]);
    run.see_on(1, Some("n1"));
    assert_eq!(run.at("u1").as_deref(), Some("n0"), "n1 is taken");
    run.see_on(2, Some("n0"));
    assert_eq!(run.at("u1").as_deref(), Some("n1"));
    assert_eq!(run.at("u2").as_deref(), Some("n0"));
    let mut stored: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::from([
        (Arc::from("n0"), vec!["u1".to_owned()]),
        (Arc::from("n1"), vec!["u2".to_owned()]),
    ]);
    for round in 0.. {
        assert!(round < 10, "it ends: {stored:?}");
        let nodes: Vec<Arc<str>> = stored.keys().cloned().collect();
        let next = nodes
            .iter()
            .map(|node| run.ledger.next_write(node, Extent::Exact, "now"));
        let Some((to, draft)) = next.into_iter().find_map(|next| match next {
            Next::Write(to, draft) => Some((to, draft)),
            Next::Nothing | Next::Stuck => None,
        }) else {
            break;
        };
        let uids = draft.record.entries().map(|entry| entry.uid.clone());
        stored.insert(to.clone(), uids.collect());
        run.version += 1;
        let version = run.version.to_string();
        run.ledger
            .set_record(&to, &draft.record, &version, Moment(run.version));
        run.ledger.assert_consistent();
        let has = |node: &str, uid: &str| stored[node].iter().any(|other| other == uid);
        let stands = |a: &str, b: &str| has("n0", a) && has("n1", b);
        assert!(stands("u1", "u2") || stands("u2", "u1"), "{stored:?}");
        assert!(!run.admits(9), "both nodes are promised");
    }
    assert_eq!(stored["n0"], ["u2"]);
    assert_eq!(stored["n1"], ["u1"]);
}

/// A pod was bound to a node of which another replica had promised the room, and its own place was given to a newer one
/// before that was known.
#[test]
fn who_was_bound_to_a_promised_node_has_his_place_back_before_a_newer_pod() {
    let mut run = Run::shared();
    run.put_record("n0", vec![entry("u1", None, HALF_PPM)]);
    run.see_on(1, Some("n1"));
    assert_eq!(run.at("u1").as_deref(), Some("n1"));
    assert!(run.admits(3));
    run.ledger.await_record("u3");
    assert_eq!(run.at("u3").as_deref(), Some("n0"));
    run.put_record("n1", vec![entry("u2", None, HALF_PPM)]);
    let withdrawn = run.ledger.withdraw("n1");
    run.ledger.assert_consistent();
    assert_eq!(run.at("u1").as_deref(), Some("n0"));
    assert_eq!(withdrawn, [Arc::<str>::from("u3")]);
    assert_eq!(run.ledger.awaited("u3"), Awaited::Withdrawn);
}

/// While somebody is too much in a record, who came into it stays in the one that held him, and nobody gets his room.
#[test]
fn who_moved_into_a_record_that_is_too_full_keeps_his_old_place() {
    let mut run = Run::shared();
    run.put_record("n0", vec![entry("u1", None, HALF_PPM)]);
    let moved = Entry {
        moves: 1,
        ..entry("u1", None, HALF_PPM)
    };
    run.put_record("n1", vec![entry("u2", None, HALF_PPM), moved.clone()]);
    run.admits(3);
    let draft = |run: &Run| run.ledger.draft("n0", Extent::Exact, "now").unwrap();
    let uids = |run: &Run| -> Vec<String> {
        let record = draft(run).record;
        record.entries().map(|entry| entry.uid.clone()).collect()
    };
    assert!(uids(&run).contains(&"u1".to_owned()), "{:?}", uids(&run));
    assert!(draft(&run).is_crowded, "{:?}", draft(&run));
    // u2 is gone, and u1 has the room for itself.
    run.put_record("n1", vec![moved]);
    assert_eq!(uids(&run), ["u3"]);
    assert!(!draft(&run).is_crowded);
}
