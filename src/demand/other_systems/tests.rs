use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::engine::containers;

fn pod(value: Value) -> Pod {
    serde_json::from_value(value).unwrap()
}

fn all() -> BTreeSet<SharingSystem> {
    [SharingSystem::Hami, SharingSystem::Kai, SharingSystem::Volcano].into()
}

fn with(annotations: &Value, limits: &Value) -> Pod {
    pod(json!({"metadata": {"name": "p", "annotations": annotations},
        "spec": {"nodeName": "n", "containers": [{"name": "a", "resources": {"limits": limits}}, {"name": "b"}]}}))
}

/// What the first container is bounded by, in words.
fn first(annotations: &Value, limits: &Value) -> String {
    let pod = with(annotations, limits);
    let declared = Declared::of(
        &pod,
        containers(&pod).next().unwrap(),
        &all(),
        &given(&pod, &all()),
    );
    match (declared.amount, declared.findings.first()) {
        (Some((Amount::Absolute(mib), _)), _) => mib.get().to_string(),
        (Some((Amount::OfTotal { fraction, .. }, _)), _) => fraction.share().to_string(),
        (Some((amount, _)), _) => format!("{amount:?}"),
        (None, Some(finding)) => finding.message.clone(),
        (None, None) => "nothing".to_owned(),
    }
}

#[test]
fn each_system_is_read_in_its_own_words() {
    let none = json!({});
    for (annotations, limits, expected) in [
        (
            json!({}),
            json!({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}),
            "3000",
        ),
        // Of two the one that the system itself takes.
        (
            json!({}),
            json!({"nvidia.com/gpumem": "4k", "nvidia.com/gpumem-percentage": 50}),
            "4000",
        ),
        (json!({}), json!({"nvidia.com/gpumem-percentage": "50"}), "0.50"),
        (json!({"gpu-memory": "2000"}), none.clone(), "2000"),
        (json!({"gpu-fraction": "0.5"}), none.clone(), "0.50"),
        (
            json!({"gpu-memory": "2000", "gpu-fraction-container-name": "b"}),
            none.clone(),
            "nothing",
        ),
        (
            json!({"nvidia.com/container.a.gpu-memory.request": "4Gi", "nvidia.com/container.a.gpu-memory.limit": "8Gi"}),
            none.clone(),
            "8192",
        ),
        (
            json!({"nvidia.com/container.b.gpu-memory.limit": "8Gi"}),
            none.clone(),
            "nothing",
        ),
        // Bytes round up.
        (
            json!({"nvidia.com/container.a.gpu-memory.request": "1048577"}),
            none.clone(),
            "2",
        ),
        (
            json!({}),
            json!({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": "1024"}),
            "1024",
        ),
        (json!({}), json!({"volcano.sh/gpu-memory": 512}), "512"),
        // What the scheduler gave counts before what was asked.
        (
            json!({"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,5000,30:;"}),
            json!({"nvidia.com/gpumem": 3000}),
            "5000",
        ),
        (
            json!({"volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,1126,0:GPU-2,NVIDIA,2000,0:"}),
            none.clone(),
            "2000",
        ),
        (json!({}), json!({"nvidia.com/gpucores": 30}), "nothing"),
    ] {
        assert_eq!(first(&annotations, &limits), expected, "{annotations} {limits}");
    }
}

#[test]
fn what_cannot_be_read_is_told_and_is_no_amount() {
    let none = json!({});
    for (annotations, limits) in [
        (json!({}), json!({"nvidia.com/gpumem": "4Gi"})),
        (json!({}), json!({"nvidia.com/gpumem": 0})),
        (json!({}), json!({"nvidia.com/gpumem-percentage": 101})),
        (json!({"gpu-memory": "4Gi"}), none.clone()),
        (json!({"gpu-memory": "-5"}), none.clone()),
        (json!({"gpu-fraction": "NaN"}), none.clone()),
        (json!({"gpu-fraction": "1.5"}), none.clone()),
        (
            json!({"nvidia.com/container.a.gpu-memory.limit": "8 GiB"}),
            none.clone(),
        ),
    ] {
        let text = first(&annotations, &limits);
        assert!(text.contains("has no effect"), "{annotations} {limits}: {text}");
    }
    // Allocations that are cut off, of other vendors, or of nothing.
    for text in [
        "GPU-1,NVIDIA",
        "GPU-1,NVIDIA,x,0:",
        "GPU-1,MLU,100,0:",
        "GPU-1,NVIDIA,0,0:",
        ";;;",
        "",
    ] {
        let annotations = json!({"hami.io/vgpu-devices-allocated": text});
        assert_eq!(first(&annotations, &json!({})), "nothing", "{text}");
    }
}

#[test]
fn who_is_not_trusted_is_told_for_information() {
    let pod = with(
        &json!({"gpu-memory": "2000"}),
        &json!({"nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}),
    );
    let kai = BTreeSet::from([SharingSystem::Kai]);
    let declared = Declared::of(&pod, containers(&pod).next().unwrap(), &kai, &[]);
    assert_eq!(
        declared.amount.map(|(amount, _)| amount),
        Some(Amount::Absolute(Mib::new(2000)))
    );
    let told: Vec<(Severity, &str)> = declared
        .findings
        .iter()
        .map(|finding| (finding.severity, finding.path.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (
                Severity::Info,
                "spec.containers[0].resources.limits[nvidia.com/gpumem]"
            ),
            (
                Severity::Info,
                "spec.containers[0].resources.limits[nvidia.com/gpucores]"
            ),
        ]
    );
}

#[test]
fn devices_are_those_of_their_container() {
    let text = "GPU-1,NVIDIA,3000,0:GPU-1,NVIDIA,2000,0:GPU-2,NVIDIA,1000,0:;GPU-3,NVIDIA,500,0:;";
    let pod = with(&json!({"hami.io/vgpu-devices-allocated": text}), &json!({}));
    let given = given(&pod, &all());
    let devices = |index: usize| -> Vec<(&str, u32)> {
        let devices = given[index].devices.iter();
        devices.map(|(id, count)| (&**id, *count)).collect()
    };
    assert_eq!((given[0].container, given[1].container), ("a", "b"));
    assert_eq!(devices(0), [("GPU-1", 2), ("GPU-2", 1)]);
    assert_eq!(devices(1), [("GPU-3", 1)]);
    assert_eq!(given[0].largest, Some(Mib::new(3000)));
    assert_eq!(given[0].together, Some(Mib::new(5000)));

    // An instance that was cut for the container has no device of the node's own.
    let text = "GPU-1[0-1],NVIDIA,3000,0:;";
    let pod = with(&json!({"hami.io/vgpu-devices-allocated": text}), &json!({}));
    let cut = super::given(&pod, &all());
    assert!(cut[0].devices.is_empty() && cut[0].largest == Some(Mib::new(3000)));
}

#[test]
fn only_a_bound_pod_was_given_anything() {
    let mut pod = with(
        &json!({"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,3000,0:;"}),
        &json!({}),
    );
    assert!(speaks(&pod) && beside_slots(&pod, &all()).len() == 2);
    assert!(beside_slots(&pod, &BTreeSet::new()).is_empty());
    pod.spec.node_name = Some(String::new());
    assert!(!speaks(&pod) && given(&pod, &all()).is_empty() && beside_slots(&pod, &all()).is_empty());
    pod.spec.node_name = None;
    assert!(!speaks(&pod) && beside_slots(&pod, &all()).is_empty());
}

#[test]
fn a_thousand_containers_cost_no_more_than_their_text() {
    // Four times the text may cost little more than four times as much.
    let (short, long) = (reading_of(1_250), reading_of(5_000));
    assert!(long <= 5 * short, "{short} bytes allocated, then {long}");
    let policy = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: p}\nspec:\n  \
                  otherSharing: {hami: trust}\n";
    let documents = crate::policy::file::parse(policy, "test").unwrap();
    let policies = PolicySet::from_documents(documents).unwrap();
    assert!(policies.trusts_any_system() && !PolicySet::built_in().trusts_any_system());
}

/// What it allocates in all, in bytes, to read so many containers with what each was given.
fn reading_of(count: usize) -> u64 {
    let sections = "GPU-1,NVIDIA,3000,0:GPU-2,NVIDIA,3000,0:;".repeat(count);
    let list: Vec<Value> = (0..count)
        .map(|index| json!({"name": format!("c{index}"), "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1}}}))
        .collect();
    let pod = pod(
        json!({"metadata": {"annotations": {"hami.io/vgpu-devices-allocated": sections}},
        "spec": {"nodeName": "n", "containers": list}}),
    );
    let cost = allocation_counter::measure(|| {
        let given = given(&pod, &all());
        for placed in containers(&pod) {
            let declared = Declared::of(&pod, placed, &all(), &given);
            assert_eq!(
                declared.amount.map(|(amount, _)| amount),
                Some(Amount::Absolute(Mib::new(3000)))
            );
        }
    });
    cost.bytes_total
}

proptest! {
    #[test]
    fn nothing_panics_and_no_amount_is_zero_or_beyond_a_device(
        text in prop_oneof![
            any::<String>(),
            "[GPUMIG0-9,:;.\\[\\]NVIDIA -]{0,80}",
            "(GPU-[0-9]{1,3},NVIDIA,[0-9]{1,22},[0-9]{1,3}:;?){0,6}",
            "-?[0-9]{0,30}(\\.[0-9]{0,9})?(Gi|Mi|k|m|e[0-9]{1,9}|E)?",
        ],
        word in 0..WORDS.len(),
        init in any::<bool>(),
    ) {
        let (annotation, limit) = match WORDS[word].1 {
            Place::Resource(name) => (None, Some(name.to_owned())),
            Place::Annotation(name) | Place::Devices(name) => (Some(name.to_owned()), None),
            Place::OfContainer(rest) => (Some(format!("{OF_CONTAINER}a{rest}")), None),
        };
        let of = |name: Option<String>| name.map_or_else(|| json!({}), |name| json!({name: text}));
        let mut pod = with(&of(annotation), &of(limit));
        if init {
            pod.spec.init_containers = pod.spec.containers.clone();
        }
        for claim in beside_slots(&pod, &all()) {
            prop_assert!(claim.slots == 0 && claim.ranks() > 0);
        }
        for placed in containers(&pod) {
            let declared = Declared::of(&pod, placed, &all(), &given(&pod, &all()));
            if let Some((Amount::Absolute(mib), _)) = declared.amount {
                prop_assert!((1..=MOST_MIB).contains(&mib.get()));
            }
            for finding in declared.findings {
                prop_assert!(finding.message.len() < 256, "{}", finding.message);
            }
        }
    }
}
