use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::demand::Demand;
use crate::engine::NoSources;
use crate::finding::Severity;
use crate::policy::file;

fn policies(trust: &str) -> PolicySet {
    let text = format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: p}}\nspec:\n  \
         declarations: {{trust: {trust}}}\n"
    );
    PolicySet::from_documents(file::parse(&text, "test").unwrap()).unwrap()
}

fn of(namespace: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(NAMESPACE.to_owned(), namespace.to_owned())])
}

/// A pod with a container on a slot, one by a claim, and one without a GPU.
fn pod(annotations: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "trusted-by-its-own-word", "annotations": annotations},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
            "containers": [
                {"name": "server", "image": "vllm/vllm-openai:v0.11.0", "args": ["--model=m", "--gpu-memory-utilization=0.8"],
                 "resources": {"limits": {"nvidia.com/gpu": 1}}},
                {"name": "claimer", "image": "someone/unknown:1", "resources": {"claims": [{"name": "gpu"}]}},
                {"name": "proxy", "image": "envoyproxy/envoy:v1.30"},
            ],
        },
    }))
    .unwrap()
}

fn words(amount: &Amount) -> String {
    match amount {
        Amount::Absolute(mib) => format!("{} MiB", mib.get()),
        Amount::OfTotal { fraction, .. } => format!("{} of it", fraction.ppm()),
        other => format!("{other:?}"),
    }
}

/// The amounts of the slot and of the claim, and what is told, in words.
fn read(annotations: &Value, namespace: &str, trust: &str) -> (String, String, Vec<String>) {
    let pod = pod(annotations);
    let demand = Demand::read(&pod, &of(namespace), &policies(trust), &NoSources).unwrap();
    let told = demand.findings.iter().chain(&demand.uses[0].findings);
    let told = told.filter(|finding| finding.path.as_str().contains("annotations"));
    (
        words(&demand.claims[0].parts[0].amount),
        words(&demand.uses[0].claim.parts[0].amount),
        told.map(|finding| {
            assert_eq!((finding.code, finding.severity), (Code::Vg108, Severity::Warning));
            format!("{} @ {}", finding.message, finding.path)
        })
        .collect(),
    )
}

#[test]
fn a_trusted_declaration_is_the_amount() {
    let declared = json!({"vramgate.io/gpu-memory.server": "30Gi", "vramgate.io/gpu-memory.claimer": "0.25"});
    let (slot, claim, told) = read(&declared, "team-a", "[team-a, team-b]");
    assert_eq!((slot.as_str(), claim.as_str()), ("30720 MiB", "250000 of it"));
    assert!(told.is_empty(), "{told:?}");
    // The container without one is read as ever.
    let (slot, _, told) = read(
        &json!({"vramgate.io/gpu-memory.claimer": "1Gi"}),
        "team-a",
        "[team-a]",
    );
    assert_eq!((slot.as_str(), told.len()), ("800000 of it", 0));
}

#[test]
fn who_is_not_trusted_is_told_and_counts_for_nothing() {
    let declared = json!({"vramgate.io/gpu-memory.server": "1Gi"});
    // What the pod says of its own namespace proves nothing.
    for (namespace, trust) in [
        ("team-b", "[team-a]"),
        ("team-a", "never"),
        ("team-a", "[]"),
        ("team-b", "[trusted-by-its-own-word]"),
    ] {
        let (slot, _, told) = read(&declared, namespace, trust);
        assert_eq!(slot, "800000 of it", "{namespace} {trust}");
        assert_eq!(
            told,
            [format!(
                "annotation vramgate.io/gpu-memory.server counts for nothing: policy p trusts no declarations of namespace \
                 {namespace}; what is read of the invocation counts @ metadata.annotations[vramgate.io/gpu-memory.server]"
            )]
        );
    }
}

#[test]
fn what_is_no_amount_is_told_and_counts_for_nothing() {
    for bad in [
        "", "30 GiB", "30GB", "30", "1.5", "0", "0.0", "-1Gi", "50%", "NaN", "1e400", "0x1Gi", "9999Ti",
        "100m", "1048575", " 0.5", ".", "0..5",
    ] {
        let (slot, _, told) = read(&json!({"vramgate.io/gpu-memory.server": bad}), "a", "[a]");
        assert_eq!(slot, "800000 of it", "{bad}");
        assert!(
            told.len() == 1 && told[0].contains("has no effect") && told[0].contains(&format!("{bad:?}")),
            "{bad}: {told:?}"
        );
    }
    for (good, expected) in [
        ("30Gi", "30720 MiB"),
        ("1.5Gi", "1536 MiB"),
        ("8G", "7630 MiB"),
        ("8e9", "7630 MiB"),
        ("1048576", "1 MiB"),
        ("1048577", "2 MiB"),
        ("0.30", "300000 of it"),
        ("1", "1000000 of it"),
        ("1.0", "1000000 of it"),
        (".5", "500000 of it"),
        ("0.3333333", "333334 of it"),
    ] {
        let (slot, _, told) = read(&json!({"vramgate.io/gpu-memory.server": good}), "a", "[a]");
        assert_eq!((slot.as_str(), told.len()), (expected, 0), "{good}");
    }
}

#[test]
fn a_container_without_a_gpu_is_told() {
    let (_, _, told) = read(&json!({"vramgate.io/gpu-memory.proxy": "1Gi"}), "a", "[a]");
    assert_eq!(
        told,
        [
            "annotation vramgate.io/gpu-memory.proxy counts for nothing: container proxy asks for no GPU @ \
          metadata.annotations[vramgate.io/gpu-memory.proxy]"
        ]
    );
    // Of names that no container has, once, whoever tells it.
    let (_, _, told) = read(&json!({"vramgate.io/gpu-memory.nobody": "1Gi"}), "a", "[a]");
    assert_eq!(told.len(), 1, "{told:?}");
    let mut without = pod(&json!({"vramgate.io/gpu-memory.nobody": "1Gi"}));
    without.spec.containers.remove(0);
    let demand = Demand::read(&without, &of("a"), &policies("[a]"), &NoSources).unwrap();
    let found: Vec<&str> = demand
        .findings
        .iter()
        .map(|finding| finding.message.as_str())
        .collect();
    assert_eq!(
        found,
        ["annotation vramgate.io/gpu-memory.nobody counts for nothing: no container has that name"]
    );
}

#[test]
fn a_declaration_counts_where_nothing_is_read_to_use_a_device() {
    let mut pod = pod(&json!({"vramgate.io/gpu-memory.server": "4Gi"}));
    pod.spec.containers[0].args = Some(vec!["--model=m".to_owned(), "--device=cpu".to_owned()]);
    let amount = |trust: &str| {
        let demand = Demand::read_amounts(&pod, &of("a"), &policies(trust), &NoSources).unwrap();
        demand.claims[0].parts.first().map(|part| words(&part.amount))
    };
    assert_eq!(amount("[a]").as_deref(), Some("4096 MiB"));
    assert_ne!(amount("never").as_deref(), Some("4096 MiB"));
}

proptest! {
    #[test]
    fn no_amount_is_zero_or_beyond_a_device(
        text in prop_oneof![any::<String>(), "-?[0-9]{0,30}(\\.[0-9]{0,9})?(Gi|Mi|k|m|e[0-9]{1,9}|E)?"],
    ) {
        match amount(&text) {
            None => {}
            Some(Amount::Absolute(mib)) => prop_assert!((1..=MOST_MIB).contains(&mib.get())),
            Some(Amount::OfTotal { fraction, by_default }) => {
                prop_assert!(!by_default && (1..=1_000_000).contains(&fraction.ppm()));
            }
            Some(other) => prop_assert!(false, "{other:?}"),
        }
    }
}
