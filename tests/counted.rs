//! The level `counted`: what pods carry of `vramgate.io/gpu-ppm`, what nodes advertise, and what follows from both.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

use proptest::prelude::*;
use serde_json::{Value, json};
use vramgate::counted;
use vramgate::finding::{Code, Severity};
use vramgate::message;
use vramgate::units::Share;

mod kit;

use kit::{
    Cluster, H100, L40S, VLLM, deployment, finding, fixes_hold, golden, gpu_node, has, mig_node, pod, pod_of,
    vllm,
};

const PPM: &str = "vramgate.io/gpu-ppm";
const H100_NAME: &str = "NVIDIA-H100-80GB-HBM3";

/// The node with a number in its status, as the leader writes it.
fn advertising(mut node: Value, number: u64) -> Value {
    for list in ["capacity", "allocatable"] {
        node["status"][list][PPM] = json!(number.to_string());
    }
    node
}

fn shared(name: &str) -> Value {
    advertising(gpu_node(name, H100_NAME, H100, 1, 8), 900_000)
}

fn with(nodes: &[Value]) -> Cluster {
    let mut cluster = Cluster::new();
    for node in nodes {
        cluster.node(node);
    }
    cluster
}

fn under(spec: &str, nodes: &[Value]) -> Cluster {
    let mut cluster = Cluster::with_policy(&format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: test}}\nspec: {spec}\n"
    ));
    for node in nodes {
        cluster.node(node);
    }
    cluster
}

fn carrying(mut object: Value, value: &str) -> Value {
    object["spec"]["containers"][0]["resources"]["limits"][PPM] = json!(value);
    object["spec"]["containers"][0]["resources"]["requests"][PPM] = json!(value);
    object
}

/// What each regular container carries; limits and requests say the same.
#[track_caller]
fn carried(object: &Value) -> Vec<Option<u64>> {
    let containers = object["spec"]["containers"].as_array().unwrap();
    containers
        .iter()
        .map(|container| {
            let resources = &container["resources"];
            assert_eq!(
                resources["limits"][PPM], resources["requests"][PPM],
                "{container:#}"
            );
            let text = resources["limits"][PPM].as_str()?;
            Some(counted::read(text).unwrap().ppm())
        })
        .collect()
}

/// Mutates, looks that a second pass changes nothing and that the validating call does not refuse it for its share.
#[track_caller]
fn settled(cluster: &mut Cluster, object: &Value) -> Value {
    let once = cluster.mutated(object);
    assert_eq!(cluster.patches(&once), [], "a second pass changes {once:#}");
    let verdict = cluster.try_create(&once);
    assert!(!has(&verdict, Code::Vg214), "{:#?}", verdict.findings);
    once
}

/// What the node is to advertise.
fn number(cluster: &Cluster, node: &str) -> Option<u64> {
    let (all, next) = cluster.ledger.advertisements(None, 100);
    assert_eq!(next, None);
    let found = all.into_iter().find(|one| &*one.node == node);
    found
        .unwrap_or_else(|| panic!("{node} is not known"))
        .wanted
        .map(Share::ppm)
}

#[test]
fn three_pods_of_three_tenths_carry_the_budget_exactly() {
    let mut cluster = with(&[shared("a")]);
    let mut sum = 0;
    for name in ["one", "two", "three"] {
        let stored = settled(&mut cluster, &pod(name, "0.30"));
        let [Some(share)] = carried(&stored)[..] else {
            panic!("{stored:#}")
        };
        sum += share;
        assert!(cluster.create(&stored).admit);
    }
    assert_eq!(sum, 900_000);
    assert_eq!(number(&cluster, "a"), Some(900_000));
    let fourth = cluster.mutated(&pod("four", "0.30"));
    assert_eq!(carried(&fourth), [Some(300_000)]);
    assert!(has(&cluster.try_create(&fourth), Code::Vg201));
}

#[test]
fn what_the_author_wrote_of_it_says_nothing() {
    let mut cluster = with(&[shared("a")]);
    for value in ["1", "899999", "0", "300001"] {
        let stored = settled(&mut cluster, &carrying(pod("p", "0.30"), value));
        assert_eq!(carried(&stored), [Some(300_000)], "{value}");
    }
    // As the API server writes it back.
    assert_eq!(cluster.patches(&carrying(pod("p", "0.30"), "300k")), []);
}

#[test]
fn each_container_carries_its_own_part() {
    let mut cluster = with(&[shared("a")]);
    let mut two = pod_of("two", json!([vllm(VLLM, Some("0.30")), vllm(VLLM, Some("0.40"))]));
    two["spec"]["containers"][1]["name"] = json!("second");
    two["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "proxy", "image": "envoy:1"}));
    let mut before = vllm(VLLM, Some("0.50"));
    before["name"] = json!("before");
    let mut sidecar = vllm(VLLM, Some("0.20"));
    sidecar["name"] = json!("sidecar");
    sidecar["restartPolicy"] = json!("Always");
    two["spec"]["initContainers"] = json!([before, sidecar]);
    let stored = settled(&mut cluster, &two);
    assert_eq!(carried(&stored), [Some(300_000), Some(400_000), None]);
    let init = &stored["spec"]["initContainers"];
    assert_eq!(init[0]["resources"]["limits"][PPM], "500000");
    assert_eq!(init[1]["resources"]["requests"][PPM], "200000");
}

#[test]
fn among_kinds_of_nodes_the_largest_share_is_carried_and_counted_everywhere() {
    // 2,560 MiB beside its fraction weigh more on the smaller card.
    let old = pod_of("old", json!([vllm("vllm/vllm-openai:v0.6.6", Some("0.30"))]));
    let l40s = advertising(gpu_node("l40s", "NVIDIA-L40S", L40S, 1, 8), 900_000);
    let mut alone = with(std::slice::from_ref(&l40s));
    let on_l40s = carried(&settled(&mut alone, &old))[0].unwrap();
    let mut alone = with(&[shared("h100")]);
    let on_h100 = carried(&settled(&mut alone, &old))[0].unwrap();
    assert!(on_l40s > on_h100 && on_h100 >= 300_000, "{on_l40s} {on_h100}");

    let mut both = with(&[shared("h100"), l40s]);
    let stored = settled(&mut both, &old);
    assert_eq!(carried(&stored), [Some(on_l40s)]);
    // The scheduler finds as many places on each as the number says, and admission no more.
    let places = 2 * (900_000 / on_l40s);
    let mut admitted = 0;
    for index in 0..10 {
        let mut object = stored.clone();
        object["metadata"]["name"] = json!(format!("old-{index}"));
        admitted += u64::from(both.create(&object).admit);
    }
    assert_eq!(admitted, places);
    // So it is told of a Deployment.
    let mut both = with(&[
        shared("h100"),
        advertising(gpu_node("l40s", "NVIDIA-L40S", L40S, 1, 8), 900_000),
    ]);
    let container = vllm("vllm/vllm-openai:v0.6.6", Some("0.30"));
    let fits = |cluster: &mut Cluster, replicas: u64| {
        let object = deployment("chat", u32::try_from(replicas).unwrap(), &container);
        cluster.try_create(&object).admit
    };
    assert!(fits(&mut both, places));
    assert!(!fits(&mut both, places + 1));
}

#[test]
fn whole_devices_are_a_million_each_where_none_is_shared() {
    let whole = || advertising(gpu_node("whole", H100_NAME, H100, 4, 1), 4_000_000);
    let mut cluster = with(&[whole()]);
    let mut two = pod("p", "0.30");
    two["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!("2");
    assert_eq!(carried(&settled(&mut cluster, &two)), [Some(2_000_000)]);
    assert_eq!(number(&cluster, "whole"), Some(4_000_000));
    // Beside a shared node it takes what it takes there, and may go to either.
    let mut cluster = with(&[whole(), shared("a")]);
    assert_eq!(
        carried(&settled(&mut cluster, &pod("p", "0.30"))),
        [Some(300_000)]
    );
}

#[test]
fn slices_that_nobody_shares_carry_nothing() {
    let mut node = mig_node("mig", &[("1g.10gb", 9_984, 7)]);
    node = advertising(node, 7_000_000);
    let mut cluster = with(&[node]);
    let slice = kit::serving(
        &["--model", "Qwen/Qwen3-0.6B", "--max-model-len", "2048"],
        "nvidia.com/mig-1g.10gb",
        1,
    );
    assert_eq!(cluster.patches(&slice), []);
    assert_eq!(
        carried(&settled(&mut cluster, &carrying(slice.clone(), "5"))),
        [None]
    );
    let verdict = cluster.try_create(&carrying(slice.clone(), "5"));
    assert!(!verdict.admit);
    assert_eq!(fixes_hold(&mut cluster, &carrying(slice, "5"), &verdict), 1);
}

#[test]
fn a_pod_without_a_gpu_may_not_keep_others_off() {
    let mut cluster = with(&[shared("a")]);
    let plain = pod_of(
        "web",
        json!([{"name": "web", "image": "nginx:1", "resources": {"limits": {}}}]),
    );
    let greedy = carrying(plain.clone(), "900000");
    assert_eq!(carried(&cluster.mutated(&greedy)), [None]);
    let verdict = cluster.try_create(&greedy);
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    golden("vg214-without-a-gpu", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &greedy, &verdict), 1);
    assert_eq!(cluster.patches(&plain), []);
    assert!(cluster.try_create(&plain).admit);
}

#[test]
fn nothing_is_carried_before_a_node_advertises_or_where_the_level_is_another() {
    let bare = gpu_node("a", H100_NAME, H100, 1, 8);
    let mut silent = with(std::slice::from_ref(&bare));
    assert_eq!(silent.patches(&pod("p", "0.30")), []);
    assert_eq!(
        carried(&settled(&mut silent, &carrying(pod("p", "0.30"), "1"))),
        [None]
    );
    assert!(silent.try_create(&carrying(pod("p", "0.30"), "1")).admit);
    assert_eq!(number(&silent, "a"), Some(900_000), "it is to advertise");
    // One node that does is enough: others follow within seconds.
    let mut some = with(&[bare, shared("b")]);
    assert_eq!(carried(&settled(&mut some, &pod("p", "0.30"))), [Some(300_000)]);
    for spec in [
        "{enforcement: admission}",
        "{enforcement: gated}",
        "{mode: shadow}",
        "{mode: warn}",
        "{codes: {warning: [VG201]}}",
    ] {
        let mut cluster = under(spec, &[shared("a")]);
        assert_eq!(cluster.patches(&pod("p", "0.30")), [], "{spec}");
        assert_eq!(
            carried(&settled(&mut cluster, &carrying(pod("p", "0.30"), "1"))),
            [None]
        );
        assert!(
            cluster.try_create(&carrying(pod("p", "0.30"), "1")).admit,
            "{spec}"
        );
        assert_eq!(number(&cluster, "a"), None, "{spec}");
    }
}

#[test]
fn a_pod_that_may_go_to_nodes_of_another_level_is_not_bound_to_those_that_count() {
    let spec = "{match: {nodes: {matchLabels: {kubernetes.io/hostname: a}}}, enforcement: admission}";
    let mut cluster = under(spec, &[gpu_node("a", H100_NAME, H100, 1, 8), shared("b")]);
    assert_eq!(cluster.patches(&pod("p", "0.30")), []);
    assert!(cluster.try_create(&pod("p", "0.30")).admit);
    assert_eq!(
        (number(&cluster, "a"), number(&cluster, "b")),
        (None, Some(900_000))
    );
    let mut bound = pod("p", "0.30");
    bound["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "b"});
    assert_eq!(carried(&settled(&mut cluster, &bound)), [Some(300_000)]);
    // A namespace of its own level does not keep nodes from advertising for the others.
    let spec =
        "{match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: team-a}}}, enforcement: admission}";
    let mut cluster = under(spec, &[shared("b")]);
    assert_eq!(cluster.patches(&pod("p", "0.30")), []);
    assert_eq!(number(&cluster, "b"), Some(900_000));
}

#[test]
fn a_pod_that_no_node_matches_yet_is_counted_when_one_does() {
    let mut elsewhere = pod("p", "0.30");
    elsewhere["spec"]["nodeSelector"] = json!({"pool": "comes-later"});
    let mut cluster = with(&[shared("a")]);
    let stored = settled(&mut cluster, &elsewhere);
    assert_eq!(carried(&stored), [Some(300_000)]);
    assert!(cluster.try_create(&stored).admit);
    // A node that an autoscaler adds is of a kind that nobody knows, and advertises nothing when it is thought of.
    let spec = "{placement: {growth: [{matchLabels: {pool: comes-later}}]}}";
    let mut growing = under(spec, &[shared("a")]);
    assert_eq!(carried(&settled(&mut growing, &elsewhere)), [None]);
}

#[test]
fn agents_are_never_held_up() {
    let mut cluster = with(&[shared("a")]);
    let agent = pod_of(
        "exporter",
        json!([{"name": "dcgm", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.0",
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]),
    );
    assert_eq!(cluster.patches(&agent), []);
    assert!(cluster.try_create(&agent).admit);
}

#[test]
fn a_pod_that_does_not_carry_its_share_is_refused_and_told_how() {
    let mut cluster = with(&[shared("a")]);
    for (name, object) in [
        ("vg214-too-little", carrying(pod("p", "0.30"), "100000")),
        ("vg214-nothing", pod("p", "0.30")),
    ] {
        let verdict = cluster.try_create(&object);
        assert!(!verdict.admit);
        golden(name, &message::refusal(&verdict));
        assert_eq!(
            fixes_hold(&mut cluster, &object, &verdict),
            1,
            "{:#?}",
            verdict.findings
        );
    }
    for value in ["300001", "900000", "500m"] {
        let object = carrying(pod("p", "0.30"), value);
        let verdict = cluster.try_create(&object);
        assert!(has(&verdict, Code::Vg214), "{value}");
        assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 1);
    }
    // Where it would find no room either, carrying it is no remedy.
    for name in ["one", "two", "three"] {
        cluster.running(&carrying(pod(name, "0.30"), "300000"), "a");
    }
    let verdict = cluster.try_create(&carrying(pod("p", "0.30"), "100000"));
    assert!(!verdict.admit);
    assert!(finding(&verdict, Code::Vg214).fixes.is_empty());
    // A mirror pod runs already.
    let policy = under("{codes: {warning: [VG214]}}", &[shared("a")]).try_create(&pod("p", "0.30"));
    assert!(policy.admit && has(&policy, Code::Vg214));
}

#[test]
fn a_fraction_that_is_proposed_to_a_counted_pod_passes_with_its_new_share() {
    let mut cluster = with(&[shared("a")]);
    for name in ["one", "two"] {
        cluster.running(&carrying(pod(name, "0.30"), "300000"), "a");
    }
    let submitted = pod("p", "0.40");
    let stored = cluster.mutated(&submitted);
    let verdict = cluster.try_create(&stored);
    let fix = &finding(&verdict, Code::Vg201).fixes[0];
    let changed = cluster.mutated(&kit::apply(&submitted, fix));
    assert_eq!(carried(&changed), [Some(300_000)]);
    assert!(cluster.try_create(&changed).admit);
}

#[test]
fn without_a_free_slot_a_counted_pod_waits() {
    let mut cluster = with(&[advertising(gpu_node("a", H100_NAME, H100, 1, 2), 900_000)]);
    for name in ["one", "two"] {
        cluster.running(&carrying(pod(name, "0.20"), "200000"), "a");
    }
    let stored = cluster.mutated(&pod("three", "0.20"));
    let verdict = cluster.create(&stored);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    let told = finding(&verdict, Code::Vg209);
    assert_eq!(told.severity, Severity::Info);
    assert!(told.message.contains("waits"), "{}", told.message);
    // A Deployment's other pods wait as well.
    let verdict = cluster.try_create(&deployment("chat", 2, &vllm(VLLM, Some("0.20"))));
    assert!(verdict.admit);
    assert!(
        finding(&verdict, Code::Vg209)
            .message
            .contains("the others wait for one")
    );
    // Where admission alone keeps the promise it is refused.
    let mut cluster = under(
        "{enforcement: admission}",
        &[gpu_node("a", H100_NAME, H100, 1, 2)],
    );
    for name in ["one", "two"] {
        cluster.running(&pod(name, "0.20"), "a");
    }
    assert!(!cluster.try_create(&pod("three", "0.20")).admit);
}

fn of_priority(mut object: Value, priority: i32) -> Value {
    object["spec"]["priority"] = json!(priority);
    object
}

#[test]
fn a_pod_of_a_higher_priority_is_admitted_and_those_in_its_way_are_named() {
    let mut cluster = with(&[shared("a")]);
    let low = |name: &str, priority| of_priority(carrying(pod(name, "0.30"), "300000"), priority);
    cluster.running(&low("important", 500), "a");
    cluster.running(&low("cheap", 0), "a");
    cluster.running(&low("middle", 100), "a");
    let critical = of_priority(cluster.mutated(&pod("critical", "0.30")), 1_000);
    let verdict = cluster.create(&critical);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    let told = finding(&verdict, Code::Vg201);
    assert_eq!(told.severity, Severity::Warning);
    assert!(told.message.contains("cheap on a"), "{}", told.message);
    assert!(
        !told.message.contains("middle"),
        "the cheapest is enough: {}",
        told.message
    );
    let warnings = message::warnings(&verdict);
    assert!(warnings.iter().any(|text| text.contains("cheap")), "{warnings:?}");
    golden("c7-preemption", &message::report(&verdict, ""));
    assert!(verdict.placement.is_empty() && verdict.reservation.is_none());

    // Of equal priority, one that may not preempt, and what the scheduler cannot count: refused as ever.
    assert!(!cluster.try_create(&of_priority(critical.clone(), 0)).admit);
    let mut never = critical.clone();
    never["spec"]["preemptionPolicy"] = json!("Never");
    assert!(!cluster.try_create(&never).admit);
    let mut older = with(&[shared("a")]);
    for name in ["one", "two", "three"] {
        older.running(&of_priority(pod(name, "0.30"), 0), "a");
    }
    assert!(
        !older.try_create(&critical).admit,
        "they free nothing that the scheduler counts"
    );
    let mut admission = under(
        "{enforcement: admission}",
        &[gpu_node("a", H100_NAME, H100, 1, 8)],
    );
    for name in ["one", "two", "three"] {
        admission.running(&of_priority(pod(name, "0.30"), 0), "a");
    }
    assert!(
        !admission
            .try_create(&of_priority(pod("critical", "0.30"), 1_000))
            .admit
    );
}

#[test]
fn a_workload_that_names_a_priority_class_is_left_to_its_pods_where_others_could_go() {
    let mut cluster = with(&[shared("a")]);
    for name in ["one", "two", "three"] {
        cluster.running(&of_priority(carrying(pod(name, "0.30"), "300000"), 10), "a");
    }
    let mut object = deployment("chat", 3, &vllm(VLLM, Some("0.30")));
    assert!(!cluster.try_create(&object).admit);
    object["spec"]["template"]["spec"]["priorityClassName"] = json!("high");
    let verdict = cluster.try_create(&object);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert_eq!(finding(&verdict, Code::Vg201).severity, Severity::Warning);
    // Its own pods are too many, whoever goes; and those of a higher priority stay.
    object["spec"]["replicas"] = json!(4);
    assert!(!cluster.try_create(&object).admit);
    object["spec"]["replicas"] = json!(1);
    object["spec"]["template"]["spec"]["priority"] = json!(10);
    assert!(!cluster.try_create(&object).admit);
    object["spec"]["template"]["spec"]["priority"] = json!(11);
    assert!(cluster.try_create(&object).admit);
}

#[test]
fn a_class_that_is_known_says_whether_the_pods_of_a_workload_could_make_others_go() {
    let class = |name: &str, value: i32, default: bool, policy: Option<&str>| {
        let object = json!({"metadata": {"name": name}, "value": value, "globalDefault": default, "preemptionPolicy": policy});
        serde_json::from_value::<vramgate::workload::priority::PriorityClass>(object).unwrap()
    };
    let mut cluster = with(&[shared("a")]);
    for name in ["one", "two", "three"] {
        cluster.running(&of_priority(carrying(pod(name, "0.30"), "300000"), 100), "a");
    }
    for (name, value, policy) in [
        ("low", 10, None),
        ("equal", 100, None),
        ("high", 101, None),
        ("calm", 1_000, Some("Never")),
    ] {
        cluster
            .ledger
            .set_priority_class(class(name, value, false, policy));
    }
    let naming = |name: Option<&str>| {
        let mut object = deployment("chat", 3, &vllm(VLLM, Some("0.30")));
        object["spec"]["template"]["spec"]["priorityClassName"] = json!(name);
        object
    };
    for (name, passes) in [
        (Some("low"), false),
        (Some("equal"), false),
        (Some("high"), true),
        (Some("calm"), false),
        (Some("system-node-critical"), true),
        // Nobody knows its number yet.
        (Some("unheard-of"), true),
        (None, false),
    ] {
        let verdict = cluster.try_create(&naming(name));
        assert_eq!(verdict.admit, passes, "{name:?}: {:#?}", verdict.findings);
    }
    cluster.ledger.set_priority_class(class("usual", 500, true, None));
    assert!(cluster.try_create(&naming(None)).admit);
    cluster.ledger.remove_priority_class("usual");
    cluster.ledger.remove_priority_class("low");
    assert!(!cluster.try_create(&naming(None)).admit);
    assert!(cluster.try_create(&naming(Some("low"))).admit);
}

#[test]
fn holders_that_carry_nothing_are_taken_off_what_their_node_advertises() {
    // C19: three pods are older than the installation, on one of two nodes.
    let mut cluster = with(&[
        gpu_node("a", H100_NAME, H100, 1, 8),
        gpu_node("b", H100_NAME, H100, 1, 8),
    ]);
    for name in ["one", "two", "three"] {
        cluster.running(&pod(name, "0.30"), "a");
    }
    assert_eq!(
        (number(&cluster, "a"), number(&cluster, "b")),
        (Some(0), Some(900_000))
    );
    // As the scheduler fills the other one, the number stays.
    for name in ["four", "five"] {
        cluster.running(&carrying(pod(name, "0.30"), "300000"), "b");
    }
    assert_eq!(number(&cluster, "b"), Some(900_000));
    // An image that takes more than its pod carries counts for the rest; what carries more for nothing.
    cluster.running(&carrying(pod("six", "0.25"), "100000"), "b");
    assert_eq!(number(&cluster, "b"), Some(750_000));
    // What reaches the device without asking.
    let mut reaching = pod("seven", "0.10");
    reaching["spec"]["containers"][0]["resources"] = json!({});
    reaching["spec"]["containers"][0]["env"] = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    let reaching = cluster.running(&reaching, "b");
    assert_eq!(
        number(&cluster, "b"),
        Some(700_000),
        "never below what its own pods carry"
    );
    cluster
        .ledger
        .remove_pod(reaching["metadata"]["uid"].as_str().unwrap());
    assert_eq!(number(&cluster, "b"), Some(750_000));
}

#[test]
fn a_number_follows_devices_policy_and_the_kubelet() {
    let mut cluster = with(&[gpu_node("a", H100_NAME, H100, 1, 8)]);
    let is_right = |cluster: &Cluster| {
        let (all, _) = cluster.ledger.advertisements(None, 10);
        all.iter()
            .all(vramgate::ledger::advertised::Advertisement::is_right)
    };
    assert!(!is_right(&cluster));
    cluster.node(&shared("a"));
    assert!(is_right(&cluster));
    // A kubelet that starts again sets it to zero; one of the two lists alone is not enough.
    cluster.node(&advertising(gpu_node("a", H100_NAME, H100, 1, 8), 0));
    assert!(!is_right(&cluster));
    let mut half = shared("a");
    half["status"]["allocatable"].as_object_mut().unwrap().remove(PPM);
    cluster.node(&half);
    assert!(!is_right(&cluster));
    // Another device, and none.
    cluster.node(&advertising(gpu_node("a", H100_NAME, H100, 2, 8), 900_000));
    assert_eq!(number(&cluster, "a"), Some(1_800_000));
    let mut none = shared("a");
    none["metadata"]["labels"] = json!({});
    for list in ["capacity", "allocatable"] {
        none["status"][list]["nvidia.com/gpu"] = json!("0");
    }
    cluster.node(&none);
    assert_eq!(number(&cluster, "a"), None);
    assert!(!is_right(&cluster), "what is left over is taken away");
}

#[test]
fn advertisements_come_page_by_page() {
    let names: Vec<String> = (0..25).map(|index| format!("node-{index:02}")).collect();
    let nodes: Vec<Value> = names
        .iter()
        .map(|name| gpu_node(name, H100_NAME, H100, 1, 8))
        .collect();
    let cluster = with(&nodes);
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let (page, next) = cluster.ledger.advertisements(after.as_deref(), 10);
        seen.extend(page.iter().map(|one| one.node.to_string()));
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, names);
}

#[test]
fn an_admission_says_which_grade_it_has() {
    let promise = |nodes: &[Value]| {
        let mut cluster = with(nodes);
        let stored = cluster.mutated(&pod("p", "0.30"));
        cluster.try_create(&stored).promise
    };
    assert!(promise(&[shared("a")]).contains("exact, because"));
    let two = advertising(gpu_node("b", H100_NAME, H100, 2, 8), 1_800_000);
    assert!(promise(&[shared("a"), two]).contains("a bound elsewhere"));
    assert!(promise(&[gpu_node("a", H100_NAME, H100, 1, 8)]).contains("not in effect"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever stands on a node already, what admission lets through the scheduler can place there: what pods carry is
    /// never more than the number, and the shares never more than the budget.
    #[test]
    fn what_is_admitted_fits_what_the_node_advertises(
        old in prop::collection::vec((1_u32..40, any::<bool>()), 0..4),
        new in prop::collection::vec(1_u32..60, 1..8),
        release in prop::sample::select(vec!["v0.20.0", "v0.11.0", "v0.6.6"]),
    ) {
        let mut cluster = with(&[shared("a"), advertising(gpu_node("l", "NVIDIA-L40S", L40S, 1, 8), 900_000)]);
        let image = format!("vllm/vllm-openai:{release}");
        let of = |name: String, hundredths: u32| {
            pod_of(&name, json!([vllm(&image, Some(&format!("0.{hundredths:02}")))]))
        };
        for (index, (hundredths, first)) in old.iter().enumerate() {
            let mut object = of(format!("old-{index}"), *hundredths);
            let node = if *first { "a" } else { "l" };
            object["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
            let stored = cluster.mutated(&object);
            if cluster.try_create(&stored).admit {
                cluster.running(&object, node);
            }
        }
        let mut sums = std::collections::BTreeMap::from([("a", 0), ("l", 0)]);
        for (index, hundredths) in new.iter().enumerate() {
            let mut object = of(format!("new-{index}"), *hundredths);
            // The pod that runs is the one that was admitted.
            object["metadata"]["uid"] = json!(format!("new-{index}"));
            let stored = cluster.mutated(&object);
            let verdict = cluster.create(&stored);
            if !verdict.admit { continue }
            let share = carried(&stored)[0].unwrap();
            // The scheduler takes a node that has room by its own count; there is one.
            let free = |node: &str, sums: &std::collections::BTreeMap<&str, u64>| {
                number(&cluster, node).unwrap().saturating_sub(sums[node])
            };
            let node = ["a", "l"].into_iter().find(|node| free(node, &sums) >= share);
            prop_assert!(node.is_some(), "{share} finds no place: {sums:?} of {:?}, {:?}",
                number(&cluster, "a"), number(&cluster, "l"));
            let node = node.unwrap();
            *sums.get_mut(node).unwrap() += share;
            cluster.running(&stored, node);
        }
        for row in cluster.ledger.devices() {
            prop_assert!(row.promised_share.ppm() <= 900_000, "{row:?}");
        }
    }
}

#[test]
fn the_pages_show_the_texts_as_they_are() {
    let read = |path: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    for (page, text) in [
        ("VG214", "vg214-too-little"),
        ("VG201", "c7-preemption"),
        ("VG201", "vg201-growth"),
    ] {
        let text = read(&format!("tests/texts/{text}.txt"));
        let first = text.lines().next().unwrap().trim_start_matches("warning ");
        let page = read(&format!("docs/codes/{page}.md"));
        assert!(page.contains(first), "{first}");
    }
}

/// Three pods hold the whole budget of each node.
fn filled(cluster: &mut Cluster, nodes: &[&str]) {
    for node in nodes {
        for number in 0..3 {
            cluster.running(
                &carrying(pod(&format!("{node}-{number}"), "0.30"), "300000"),
                node,
            );
        }
    }
}

fn labelled(mut node: Value, labels: &[(&str, &str)]) -> Value {
    for (key, value) in labels {
        node["metadata"]["labels"][*key] = json!(value);
    }
    node
}

fn selecting(mut object: Value, labels: &Value) -> Value {
    object["spec"]["nodeSelector"] = labels.clone();
    object
}

const GROWS: &str = "{placement: {growth: [{matchLabels: {pool: big}}]}}";

#[test]
fn a_pod_for_which_every_device_is_full_waits_for_a_node_that_an_autoscaler_adds() {
    let mut cluster = under(GROWS, &[labelled(shared("a"), &[("pool", "big")])]);
    filled(&mut cluster, &["a"]);
    let waiting = settled(&mut cluster, &pod("waits", "0.30"));
    assert_eq!(carried(&waiting), [Some(300_000)], "the scheduler holds it back");
    let verdict = cluster.create(&waiting);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert_eq!(finding(&verdict, Code::Vg201).severity, Severity::Warning);
    golden("vg201-growth", &message::report(&verdict, ""));
    let warnings = message::warnings(&verdict);
    assert!(
        warnings.iter().any(|text| text.contains("pool=big")),
        "{warnings:?}"
    );
    assert!(verdict.placement.is_empty() && verdict.reservation.is_none());
    // It holds nothing meanwhile, and the node that comes takes it.
    let mut seen = waiting.clone();
    seen["metadata"]["uid"] = json!("uid-of-waits");
    cluster.see(&seen);
    cluster.node(&labelled(shared("b"), &[("pool", "big")]));
    let verdict = cluster.try_create(&carrying(pod("beside", "0.90"), "900000"));
    assert!(
        verdict.admit && finding(&verdict, Code::Vg201).severity == Severity::Warning,
        "the place on the new node is the first one's: {:#?}",
        verdict.findings
    );
    let small = cluster.try_create(&carrying(pod("small", "0.60"), "600000"));
    assert_eq!(&*small.placement[0].node, "b");
}

#[test]
fn who_could_not_stand_on_a_node_of_the_pool_is_refused_as_ever() {
    let big = labelled(
        shared("a"),
        &[("pool", "big"), ("zone", "z1"), ("kubernetes.io/hostname", "a")],
    );
    let mut tainted = labelled(shared("t"), &[("pool", "big")]);
    tainted["spec"]["taints"] = json!([{"key": "team", "value": "other", "effect": "NoSchedule"}]);
    let other = labelled(shared("b"), &[("zone", "z2"), ("kubernetes.io/hostname", "b")]);
    let cases: [(&str, Vec<Value>, Value, bool); 6] = [
        (
            "like the node that is there",
            vec![big.clone()],
            json!({"zone": "z1"}),
            true,
        ),
        (
            "another name",
            vec![big.clone()],
            json!({"kubernetes.io/hostname": "a"}),
            false,
        ),
        (
            "another zone",
            vec![big.clone(), other.clone()],
            json!({"zone": "z2"}),
            false,
        ),
        (
            "an empty pool of any zone",
            vec![other.clone()],
            json!({"zone": "z2"}),
            true,
        ),
        (
            "an empty pool of other labels",
            vec![labelled(other.clone(), &[("pool", "small")])],
            json!({"pool": "small"}),
            false,
        ),
        (
            "an empty pool, and a node that is there",
            vec![other.clone()],
            json!({"kubernetes.io/hostname": "b"}),
            false,
        ),
    ];
    for (what, nodes, selector, waits) in cases {
        let names: Vec<&str> = nodes
            .iter()
            .map(|node| node["metadata"]["name"].as_str().unwrap())
            .collect();
        let mut cluster = under(GROWS, &nodes);
        filled(&mut cluster, &names);
        let stored = settled(&mut cluster, &selecting(pod("p", "0.30"), &selector));
        let verdict = cluster.try_create(&stored);
        assert_eq!(verdict.admit, waits, "{what}: {:#?}", verdict.findings);
        if !waits {
            assert!(
                message::refusal(&verdict).contains("none of them would take the pod"),
                "{what}"
            );
        }
    }
    // A taint of the pool's nodes that it does not tolerate.
    let mut cluster = under(GROWS, &[tainted, other.clone()]);
    filled(&mut cluster, &["b"]);
    let stored = settled(&mut cluster, &pod("p", "0.30"));
    assert!(!cluster.try_create(&stored).admit);
    let mut tolerates = stored.clone();
    tolerates["spec"]["tolerations"] = json!([{"key": "team", "operator": "Exists"}]);
    filled(&mut cluster, &["t"]);
    let verdict = cluster.try_create(&tolerates);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    // It is larger than the budget of an empty node.
    let mut cluster = under(GROWS, std::slice::from_ref(&big));
    let large = settled(&mut cluster, &pod("large", "0.95"));
    let verdict = cluster.try_create(&large);
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    // It names its node, or is there already and asks for more.
    let mut cluster = under(GROWS, &[big]);
    filled(&mut cluster, &["a"]);
    let mut named = carrying(pod("named", "0.30"), "300000");
    named["spec"]["nodeName"] = json!("a");
    assert!(!cluster.try_create(&named).admit);
    let old = carrying(pod("a-0", "0.30"), "300000");
    let mut new = old.clone();
    new["spec"]["containers"][0]["args"] = json!(["--model", "m", "--gpu-memory-utilization", "0.40"]);
    assert!(!cluster.update(&old, &new).admit);
}

#[test]
fn without_a_scheduler_that_counts_no_pod_waits_for_growth_and_the_text_says_why() {
    let spec = "{enforcement: admission, placement: {growth: [{matchLabels: {pool: big}}]}}";
    let mut cluster = under(
        spec,
        &[labelled(gpu_node("a", H100_NAME, H100, 1, 8), &[("pool", "big")])],
    );
    for name in ["one", "two", "three"] {
        cluster.running(&pod(name, "0.30"), "a");
    }
    let verdict = cluster.try_create(&pod("p", "0.30"));
    assert!(!verdict.admit);
    golden("vg201-growth-not-counted", &message::refusal(&verdict));
    // Nor before its node advertises.
    let mut cluster = under(
        GROWS,
        &[labelled(gpu_node("a", H100_NAME, H100, 1, 8), &[("pool", "big")])],
    );
    for name in ["one", "two", "three"] {
        cluster.running(&pod(name, "0.30"), "a");
    }
    let verdict = cluster.try_create(&pod("p", "0.30"));
    assert!(
        !verdict.admit && message::refusal(&verdict).contains("advertises"),
        "{}",
        message::refusal(&verdict)
    );
}

#[test]
fn of_nodes_with_several_devices_the_scheduler_counts_too_little_to_hold_a_pod_back() {
    let two = |name: &str, pool: &str| {
        labelled(
            advertising(gpu_node(name, H100_NAME, H100, 2, 4), 1_800_000),
            &[("pool", pool)],
        )
    };
    let one = labelled(shared("one"), &[("pool", "small")]);
    for nodes in [
        vec![two("two", "big")],
        vec![two("two", "other")],
        vec![two("two", "big"), one],
    ] {
        let mut cluster = under(GROWS, &nodes);
        // The sum leaves 0.60, and no device does.
        for name in ["a", "b"] {
            cluster.running(&carrying(pod(name, "0.60"), "600000"), "two");
        }
        if nodes.len() > 1 {
            filled(&mut cluster, &["one"]);
        }
        let stored = settled(&mut cluster, &pod("p", "0.60"));
        let text = message::refusal(&cluster.try_create(&stored));
        assert!(text.contains("no single device has room"), "{text}");
    }
}

#[test]
fn pods_of_a_workload_wait_for_growth_alike() {
    let mut cluster = under(GROWS, &[labelled(shared("a"), &[("pool", "big")])]);
    let five = deployment("chat", 5, &vllm(VLLM, Some("0.30")));
    let verdict = cluster.try_create(&five);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    golden("vg201-growth-deployment", &message::report(&verdict, ""));
    for (index, fix) in finding(&verdict, Code::Vg201).fixes.iter().enumerate() {
        let again = cluster.try_create(&kit::apply(&five, fix));
        assert!(
            again.admit && !has(&again, Code::Vg201),
            "fix {index}: {:#?}",
            again.findings
        );
    }
    // A rollout's extra pod as well.
    let three = deployment("chat", 3, &vllm(VLLM, Some("0.30")));
    let verdict = cluster.try_create(&three);
    let peak = finding(&verdict, Code::Vg203);
    assert!(
        peak.message
            .ends_with("the extra pods wait until an autoscaler adds nodes"),
        "{}",
        peak.message
    );
    // A DaemonSet's pods go to the nodes that are there.
    let mut daemon = five.clone();
    daemon["kind"] = json!("DaemonSet");
    daemon["spec"].as_object_mut().unwrap().remove("replicas");
    filled(&mut cluster, &["a"]);
    assert!(!cluster.try_create(&daemon).admit);
}

#[test]
fn the_maximum_of_an_autoscaler_may_need_nodes_that_another_adds() {
    let mut cluster = under(GROWS, &[labelled(shared("a"), &[("pool", "big")])]);
    let chat = deployment("chat", 2, &vllm(VLLM, Some("0.30")));
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat", "namespace": "team-a"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
            "minReplicas": 1, "maxReplicas": 5,
        },
    });
    let verdict = cluster.autoscale(&autoscaler, &chat);
    let told = finding(&verdict, Code::Vg204);
    assert_eq!(
        told.numbers["replicasThatFit"],
        vramgate::finding::Number::Count(3)
    );
    let waits = "pods above that number wait until an autoscaler adds nodes of placement.growth (pool=big)";
    assert!(told.details.iter().any(|text| text == waits), "{told:#?}");
}
