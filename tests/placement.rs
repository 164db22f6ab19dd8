//! Places for pods that are not bound yet, against a search through every way to place them: node selectors, required
//! affinity, taints, and nodes that a pod names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, L40S, deployment, finding, gpu_node, pod, vllm};
use proptest::prelude::*;
use serde_json::{Value, json};
use vramgate::finding::Code;

const SLOTS: u32 = 4;

/// Name, zone, value of the taint `team` of each node.
const NODES: [(&str, &str, Option<&str>); 4] = [
    ("n0", "a", None),
    ("n1", "a", Some("x")),
    ("n2", "b", None),
    ("n3", "b", Some("y")),
];

/// What a pod says of where it may stand.
#[derive(Clone, Debug)]
enum Where {
    Anywhere,
    Zone(&'static str),
    NotZone(&'static str),
    Named(usize),
    OneOf(usize, usize),
}

#[derive(Clone, Debug)]
struct Asked {
    thousandths: u64,
    place: Where,
    tolerates: Option<&'static str>,
}

impl Asked {
    fn object(&self, name: &str) -> Value {
        let mut object = pod(name, &format!("0.{:03}", self.thousandths));
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        let spec = &mut object["spec"];
        let required = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        match self.place {
            Where::Anywhere => {}
            Where::Zone(zone) => spec["nodeSelector"] = json!({"zone": zone}),
            Where::NotZone(zone) => {
                spec["affinity"] = required(
                    json!([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": [zone]}]}]),
                );
            }
            Where::Named(node) => spec["nodeName"] = json!(NODES[node].0),
            Where::OneOf(first, second) => {
                let field = |node: usize| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODES[node].0]}]});
                spec["affinity"] = required(json!([field(first), field(second)]));
            }
        }
        if let Some(team) = self.tolerates {
            spec["tolerations"] =
                json!([{"key": "team", "operator": "Equal", "value": team, "effect": "NoSchedule"}]);
        }
        object
    }

    /// Worked out apart from the code: where it may stand.
    fn may_stand(&self, node: usize) -> bool {
        let (_, zone, taint) = NODES[node];
        let tolerated = taint.is_none() || taint == self.tolerates;
        match self.place {
            Where::Anywhere => tolerated,
            Where::Zone(wanted) => tolerated && zone == wanted,
            Where::NotZone(refused) => tolerated && zone != refused,
            // Who names a node skips the scheduler, and its `NoSchedule` taints.
            Where::Named(wanted) => node == wanted,
            Where::OneOf(first, second) => tolerated && (node == first || node == second),
        }
    }

    /// The larger of the fraction and of what it takes with its overhead, in millionths.
    fn share(&self) -> u64 {
        let total = u64::from(L40S);
        let request = (total * self.thousandths).div_ceil(1_000);
        let reserve = (total * 15).div_ceil(1_000).max(512);
        (900_000 * (request + 640))
            .div_ceil(total - reserve)
            .max(self.thousandths * 1_000)
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    let place = prop_oneof![
        2 => Just(Where::Anywhere),
        2 => prop::sample::select(vec!["a", "b"]).prop_map(Where::Zone),
        1 => prop::sample::select(vec!["a", "b"]).prop_map(Where::NotZone),
        1 => (0..NODES.len()).prop_map(Where::Named),
        2 => (0..NODES.len(), 0..NODES.len()).prop_map(|(a, b)| Where::OneOf(a, b)),
    ];
    let tolerates = prop::option::of(prop::sample::select(vec!["x", "y"]));
    (150_u64..=880, place, tolerates).prop_map(|(thousandths, place, tolerates)| Asked {
        thousandths,
        place,
        tolerates,
    })
}

/// Whether all can stand together.
fn possible(pods: &[Asked], sums: [u64; 4], slots: [u32; 4]) -> bool {
    let Some((first, rest)) = pods.split_first() else {
        return true;
    };
    (0..NODES.len())
        .filter(|node| first.may_stand(*node))
        .any(|node| {
            let (mut sums, mut slots) = (sums, slots);
            sums[node] += first.share();
            slots[node] += 1;
            sums[node] <= 900_000 && slots[node] <= SLOTS && possible(rest, sums, slots)
        })
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    for (name, zone, taint) in NODES {
        let mut node = gpu_node(name, "NVIDIA-L40S", L40S, 1, SLOTS);
        node["metadata"]["labels"]["zone"] = json!(zone);
        if let Some(team) = taint {
            node["spec"]["taints"] = json!([{"key": "team", "value": team, "effect": "NoSchedule"}]);
        }
        cluster.node(&node);
    }
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever pods say of where they may stand, one is admitted exactly if all that were admitted can stand with it. One
    /// that no node matches waits, and holds nothing.
    #[test]
    fn constraints_are_kept_exactly(pods in prop::collection::vec(asked(), 1..=6)) {
        let mut cluster = cluster();
        let mut admitted: Vec<Asked> = Vec::new();
        for (index, asked) in pods.into_iter().enumerate() {
            let verdict = cluster.create(&asked.object(&format!("p{index}")));
            if (0..NODES.len()).all(|node| !asked.may_stand(node)) {
                prop_assert!(verdict.admit, "no node matches {asked:?}: it waits");
                continue;
            }
            let mut together = admitted.clone();
            together.push(asked.clone());
            let fits = possible(&together, [0; 4], [0; 4]);
            prop_assert_eq!(verdict.admit, fits, "{:?} beside {:?}: {:#?}", asked, admitted, verdict.findings);
            if verdict.admit {
                admitted = together;
            }
        }
    }
}

/// What the search does not know of is told with the verdict, whichever it is.
#[test]
fn what_is_not_modelled_is_told() {
    let with = |spec: Value| {
        let mut object = pod("p", "0.30");
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        object
    };
    let term =
        json!({"labelSelector": {"matchLabels": {"app": "chat"}}, "topologyKey": "kubernetes.io/hostname"});
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let beside = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
    let affinity = "places were sought without regard to the pod's (anti-)affinity to other pods";
    let mut cluster = cluster();
    for (spec, sentence) in [
        (json!({}), String::new()),
        (json!({"affinity": apart}), affinity.to_owned()),
        (json!({"affinity": beside}), affinity.to_owned()),
        (
            json!({"topologySpreadConstraints": spread}),
            "places were sought without regard to the pod's topology spread".to_owned(),
        ),
        (
            json!({"affinity": apart, "topologySpreadConstraints": spread}),
            format!("{affinity} and its topology spread"),
        ),
    ] {
        let verdict = cluster.try_create(&with(spec));
        assert!(verdict.admit);
        assert_eq!(verdict.unmodelled, sentence);
    }
    // A refusal says it among its reasons.
    let mut large = with(json!({"topologySpreadConstraints": spread}));
    large["spec"]["containers"][0] = vllm(kit::VLLM, Some("0.80"));
    for (node, ..) in NODES {
        cluster.running(&pod(&format!("on-{node}"), "0.50"), node);
    }
    let refused = cluster.try_create(&large);
    let found = finding(&refused, Code::Vg201);
    assert!(
        found
            .details
            .iter()
            .any(|detail| detail.contains("topology spread")),
        "{:#?}",
        found.details
    );
    // A template says it as its pods do.
    let mut chat = deployment("chat", 2, &vllm(kit::VLLM, Some("0.20")));
    chat["spec"]["template"]["spec"]["affinity"] = apart;
    let verdict = cluster.try_create(&chat);
    assert!(verdict.admit);
    assert_eq!(verdict.unmodelled, affinity);
}
