//! Hands in what is vramgate's own while pods come and go: records that are edited to nonsense, their definition and the
//! Lease deleted, and names that are used again as fast as the API server takes them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::http::Method;
use serde_json::{Value, json};

use crate::api::{eventually, with_grace};
use crate::cluster::progress;
use crate::manifests::{GpuNode, Pod};
use crate::replicas::{LEDGERS, PLACES_PER_NODE, Replicas, create_until_full, wait_ledger_equals_pods};
use crate::scenario::Scenario;
use crate::trouble::under_load;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/vramgate/leases/vramgate";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpuledgers.vramgate.io";

/// What somebody may write into a record. The definition refuses some of it.
fn nonsense() -> Vec<Value> {
    let entry = |uid: &str, shares: Value, slots: Value| {
        json!({"uid": uid, "namespace": "nowhere", "name": "nobody", "since": "yesterday",
            "takes": [{"resource": "nvidia.com/gpu", "slots": slots, "sharesPpm": shares}]})
    };
    vec![
        json!({"status": {"holders": [], "reservations": []}}),
        json!({"status": {"devices": [], "holders": null, "reservations": null}}),
        json!({"status": {"reservations": [entry("ghost", json!([900_000]), json!(1))]}}),
        json!({"status": {"reservations": [entry("", json!([1_u64 << 62, 1_u64 << 62]), json!(4_000_000))]}}),
        json!({"status": {"holders": [entry("twice", json!([1]), json!(1)), entry("twice", json!([899_999]), json!(1))]}}),
        json!({"status": {"holders": [entry("many", Value::from(vec![1; 5_000]), json!(1))]}}),
        json!({"status": {"reservations": [entry("less", json!([-5]), json!(-1))]}}),
        json!({"status": {"reservations": [{"uid": 7}], "devices": "none"}}),
        json!({"status": {"devices": [{"resource": "nvidia.com/gpu", "devices": 1, "budgetPpm": 9_000_000, "promisedPpm": 0}]}}),
        json!({"status": null}),
        json!({"metadata": {"ownerReferences": null, "labels": {"a": "b"}}, "status": {"mood": "bad"}}),
    ]
}

#[test]
fn sabotage_of_records_definition_and_lease_loses_nothing() {
    let s = Scenario::alone("sabotage");
    let nodes = ["sabotage-n1", "sabotage-n2", "sabotage-n3"];
    for node in nodes {
        s.node(GpuNode::l40s(node).slots(8));
    }
    let places = nodes.len() * PLACES_PER_NODE;
    let replicas = Replicas::start(s.cluster);
    let definitions = replicas.with(0, |replica| replica.definitions()).unwrap();

    under_load(&s, places, 60, |goes_on, seen| {
        goes_on("at first");
        for (number, change) in nonsense().into_iter().enumerate() {
            let node = nodes[number % nodes.len()];
            for path in [format!("{LEDGERS}/{node}/status"), format!("{LEDGERS}/{node}")] {
                let answer = s.api().merge(&path, &change);
                assert!(answer.status < 500, "{}", answer.text());
            }
        }
        goes_on("after records were edited");
        for node in nodes {
            s.api().delete(&format!("{LEDGERS}/{node}"), 0);
        }
        goes_on("after records were deleted");
        let answer = s.api().delete(LEASE, 0);
        assert!(answer.is_success(), "{}", answer.text());
        eventually("the Lease is there again", 30, || {
            s.api().get(LEASE).body["spec"]["holderIdentity"]
                .as_str()
                .map(drop)
        });
        // A clock that is years ahead, of somebody who does not run.
        let ahead = json!({"spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 1,
            "renewTime": "2199-01-01T00:00:00.000000Z", "acquireTime": "2199-01-01T00:00:00.000000Z"}});
        let answer = s.api().merge(LEASE, &ahead);
        assert!(answer.is_success(), "{}", answer.text());
        eventually("one of the replicas leads again", 45, || {
            (replicas.leaders().len() == 1 && s.api().get(LEASE).body["spec"]["holderIdentity"] != "nobody")
                .then_some(())
        });
        progress(&format!("sabotage: the Lease: {}", seen.sentence()));
        let answer = s.api().delete(DEFINITION, 0);
        assert!(answer.is_success(), "{}", answer.text());
        eventually("the definition is gone", 30, || {
            (s.api().get(DEFINITION).status == 404).then_some(())
        });
        std::thread::sleep(Duration::from_secs(1));
        s.cluster
            .kubectl(&["apply", "-f", "-"], Some(&definitions))
            .unwrap();
        goes_on("after the definition was deleted");
    });
    wait_ledger_equals_pods(&s, &nodes);
    s.clear_pods();
    wait_ledger_equals_pods(&s, &nodes);

    // The same names again and again, from three sides.
    let began = Instant::now();
    let replaced = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for side in 0..3 {
            let (s, replaced) = (&s, &replaced);
            scope.spawn(move || {
                let pods = format!("/api/v1/namespaces/{}/pods", s.name);
                let name = format!("again-{side}");
                let body = s.placed(&Pod::vllm(&name, "0.28").on_node("sabotage-n1"));
                while began.elapsed() < Duration::from_secs(5) {
                    let answer = s.api().try_change(&Method::POST, &pods, &body);
                    if answer.is_some_and(|answer| answer.is_success()) {
                        replaced.fetch_add(1, Ordering::SeqCst);
                    }
                    s.api()
                        .try_change(&Method::DELETE, &format!("{pods}/{name}"), &with_grace(0));
                }
            });
        }
    });
    progress(&format!(
        "sabotage: three names were used {} times in 5 s",
        replaced.load(Ordering::SeqCst)
    ));
    s.clear_pods();
    wait_ledger_equals_pods(&s, &nodes);
    let pods: Vec<Pod> = (0..places + 3)
        .map(|number| Pod::vllm(&format!("last-{number}"), "0.28"))
        .collect();
    create_until_full(&s, &pods, places);
    wait_ledger_equals_pods(&s, &nodes);
    drop(replicas);
}
