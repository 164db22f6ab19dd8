//! The situations that vramgate exists for, decided by the core. The numbers are worked out by hand in the comments.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{
    Cluster, H100, L40S, VLLM, apply, deployment, finding, fixes_hold, golden, gpu_node, has, mig_node, pod,
    pod_of, serving, vllm,
};
use serde_json::{Value, json};
use vramgate::finding::{Code, Number, Severity};
use vramgate::message;
use vramgate::policy::Evidence;
use vramgate::units::{Mib, Share};

fn h100(slots: u32) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, slots);
    cluster
}

#[test]
fn s1_four_pods_at_a_fifth_share_one_device() {
    let mut cluster = h100(4);
    for index in 0..4 {
        let verdict = cluster.create(&pod(&format!("p{index}"), "0.20"));
        assert!(verdict.admit, "{:#?}", verdict.findings);
        let row = &verdict.placement[0];
        assert_eq!(row.promised, Mib::new(16_312 * (index + 1)));
        assert_eq!(row.budget, Mib::new(73_403));
    }
    let device = &cluster.ledger.devices()[0];
    assert_eq!(
        (device.promised, device.promised_share),
        (Mib::new(65_248), Share::from_ppm(800_000))
    );
}

#[test]
fn s2_the_fourth_pod_at_three_tenths_is_refused() {
    let mut cluster = h100(4);
    for index in 0..3 {
        assert!(
            cluster.create(&pod(&format!("p{index}"), "0.30")).admit,
            "0.90 is not above 0.90"
        );
    }
    let fourth = pod("p3", "0.30");
    let verdict = cluster.create(&fourth);
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg201);
    assert_eq!(found.numbers["requestMiB"], Number::Memory(Mib::new(24_468)));
    assert_eq!(found.numbers["leftFraction"], Number::Share(Share::ZERO));
    assert_eq!(found.holders.len(), 3);
    assert!(found.fixes.is_empty(), "nothing is left to promise");
    let text = message::refusal(&verdict);
    assert!(text.lines().next().unwrap().len() < 256);
    golden("s2-fourth-pod", &text);
}

#[test]
fn s2_an_old_release_takes_more_outside_its_fraction() {
    // 0.9 x (24468 + 2560) / (81559 - 1224) = 0.30280; three of them are above 0.90.
    let mut cluster = h100(4);
    let old = |name: &str| pod_of(name, json!([vllm("vllm/vllm-openai:v0.6.3.post1", Some("0.30"))]));
    assert!(cluster.create(&old("a")).admit);
    assert!(cluster.create(&old("b")).admit);
    let verdict = cluster.create(&old("c"));
    assert!(!verdict.admit);
    let fixed = fixes_hold(&mut cluster, &old("c"), &verdict);
    assert_eq!(fixed, 1, "a little less fits");
    golden("s2-old-release", &message::refusal(&verdict));
}

#[test]
fn s3_a_deployment_beyond_the_device_is_refused_when_applied() {
    let mut cluster = h100(4);
    let four = deployment("chat", 4, &vllm(VLLM, Some("0.30")));
    let verdict = cluster.create(&four);
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg201);
    assert_eq!(
        found.numbers["neededFraction"],
        Number::Share(Share::from_ppm(1_200_000))
    );
    let titles: Vec<&str> = found.fixes.iter().map(|fix| fix.title.as_str()).collect();
    assert!(titles.contains(&"lower replicas to 3"), "{titles:?}");
    assert!(
        titles.iter().any(|title| title.ends_with("to 0.225")),
        "{titles:?}"
    );
    assert_eq!(fixes_hold(&mut cluster, &four, &verdict), 2);
    golden("s3-deployment", &message::refusal(&verdict));
}

#[test]
fn s4_a_rollout_beyond_the_budget_is_told_before_it_stalls() {
    let mut cluster = h100(8);
    let four = deployment("chat", 4, &vllm(VLLM, Some("0.20")));
    let verdict = cluster.create(&four);
    assert!(verdict.admit);
    let found = finding(&verdict, Code::Vg203);
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.message.contains("goes on one by one"), "{}", found.message);
    let titles: Vec<&str> = found.fixes.iter().map(|fix| fix.title.as_str()).collect();
    assert!(titles.contains(&"set maxSurge to 0"));
    assert!(
        titles.iter().any(|title| title.ends_with("to 0.180")),
        "{titles:?}"
    );
    for fix in &found.fixes {
        assert!(
            !has(&cluster.try_create(&apply(&four, fix)), Code::Vg203),
            "{}",
            fix.title
        );
    }
    golden("s4-rollout", &message::report(&verdict, ""));

    let mut stalls = four.clone();
    stalls["spec"]["strategy"] = json!({"rollingUpdate": {"maxUnavailable": 0}});
    assert!(
        finding(&cluster.create(&stalls), Code::Vg203)
            .message
            .contains("stall")
    );

    // With four slots the extra pod finds no slot and waits: that is no matter of memory.
    assert!(!has(&h100(4).create(&four), Code::Vg203));

    // The same when the image is changed while the four pods run.
    for index in 0..4 {
        cluster.running(
            &owned_by_deployment(&format!("chat-abc-{index}"), "chat", "0.20"),
            "gpu-1",
        );
    }
    let mut next = four.clone();
    next["spec"]["template"]["spec"]["containers"][0]["image"] = json!("vllm/vllm-openai:v0.21.0");
    let verdict = cluster.update(&four, &next);
    assert!(
        verdict.admit && has(&verdict, Code::Vg203),
        "{:#?}",
        verdict.findings
    );
}

fn owned_by_deployment(name: &str, deployment: &str, fraction: &str) -> Value {
    let mut pod = pod(name, fraction);
    pod["metadata"]["labels"] = json!({"pod-template-hash": "abc", "app": deployment});
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{deployment}-abc"), "uid": "rs-1", "controller": true,
    }]);
    pod
}

#[test]
fn s5_a_terminating_pod_holds_its_memory() {
    let mut cluster = h100(4);
    let running: Vec<Value> = (0..3)
        .map(|index| cluster.running(&pod(&format!("p{index}"), "0.30"), "gpu-1"))
        .collect();
    let mut leaving = running[0].clone();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.see(&leaving);
    assert!(!cluster.try_create(&pod("next", "0.30")).admit);
    cluster
        .ledger
        .remove_pod(running[0]["metadata"]["uid"].as_str().unwrap());
    assert!(cluster.create(&pod("next", "0.30")).admit);
}

#[test]
fn s6_the_default_fraction_on_a_shared_slot_is_refused() {
    let mut cluster = h100(4);
    let container = json!({
        "name": "server", "image": "vllm/vllm-openai:latest",
        "env": [{"name": "MODEL_NAME", "value": "Qwen/Qwen2.5-7B-Instruct"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    });
    let eight = deployment("chat", 8, &container);
    let verdict = cluster.create(&eight);
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg207);
    assert_eq!(
        found.numbers["defaultFraction"],
        Number::Share(Share::from_ppm(920_000))
    );
    assert!(has(&verdict, Code::Vg103), "{:#?}", verdict.findings);
    golden("s6-default-fraction", &message::refusal(&verdict));
    let one = pod_of("one", json!([container]));
    let verdict = cluster.create(&one);
    assert!(has(&verdict, Code::Vg207));
    assert_eq!(fixes_hold(&mut cluster, &one, &verdict), 1);
}

#[test]
fn s7_two_shared_slots_may_be_one_device() {
    let mut cluster = h100(4);
    let mut container = vllm(VLLM, Some("0.40"));
    container["args"]
        .as_array_mut()
        .unwrap()
        .extend([json!("--tensor-parallel-size"), json!("2")]);
    container["resources"]["limits"]["nvidia.com/gpu"] = json!(2);
    let verdict = cluster.create(&pod_of("tp2", json!([container])));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg205),
        "{:#?}",
        verdict.findings
    );
    golden("s7-ranks-over-shared-slots", &message::refusal(&verdict));
}

#[test]
fn s8_two_pods_share_a_consumer_card() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("home", "NVIDIA-GeForce-RTX-5090", 32_607, 1, 2);
    assert!(cluster.create(&pod("a", "0.45")).admit);
    assert!(cluster.create(&pod("b", "0.45")).admit);
    let mut on_mig = pod("c", "0.45");
    on_mig["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/mig-1g.10gb": "1"}});
    let verdict = cluster.create(&on_mig);
    assert!(!verdict.admit && has(&verdict, Code::Vg302));
    golden("s8-no-such-profile", &message::refusal(&verdict));
}

#[test]
fn s9_the_sum_is_on_the_slice() {
    let slice = |name: &str, fraction: &str| {
        let mut pod = pod(name, fraction);
        pod["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/mig-1g.10gb": "1"}});
        pod
    };
    let mut cluster = Cluster::new();
    let mut node = gpu_node("mig-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
    let labels = node["metadata"]["labels"].as_object_mut().unwrap();
    for (key, value) in [
        ("nvidia.com/mig.strategy", "mixed"),
        ("nvidia.com/mig.capable", "true"),
        ("nvidia.com/gpu.replicas", "0"),
        ("nvidia.com/mig-1g.10gb.count", "1"),
        ("nvidia.com/mig-1g.10gb.replicas", "2"),
        ("nvidia.com/mig-1g.10gb.sharing-strategy", "time-slicing"),
        ("nvidia.com/mig-1g.10gb.memory", "9984"),
        (
            "nvidia.com/mig-1g.10gb.product",
            "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED",
        ),
    ] {
        labels.insert(key.to_owned(), json!(value));
    }
    for list in ["capacity", "allocatable"] {
        node["status"][list] = json!({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "2"});
    }
    cluster.node(&node);
    assert!(cluster.try_create(&slice("a", "0.40")).admit);
    // 2 x (4493 + 640) = 10266 > 9984 - 256, though 0.45 + 0.45 is not above 0.90.
    assert!(cluster.create(&slice("a", "0.45")).admit);
    let verdict = cluster.create(&slice("b", "0.45"));
    assert!(!verdict.admit);
    golden("s9-overheads-on-a-slice", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &slice("b", "0.45"), &verdict), 1);
}

#[test]
fn s10_two_containers_of_a_pod_may_share_a_device() {
    let two = || {
        let mut second = vllm(VLLM, Some("0.5"));
        second["name"] = json!("second");
        pod_of("pair", json!([vllm(VLLM, Some("0.5")), second]))
    };
    assert!(!h100(4).create(&two()).admit);
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-2", "NVIDIA-H100-80GB-HBM3", H100, 2, 4);
    let verdict = cluster.create(&two());
    assert!(!verdict.admit, "both slots may be one device");
    golden("s10-two-containers", &message::refusal(&verdict));
}

#[test]
fn s11_an_image_changed_in_place_that_raises_the_default_is_judged() {
    let mut cluster = Cluster::with_policy(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: lenient}\nspec:\n  codes: {warning: [VG207]}\n",
    );
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    let old = cluster.running(
        &pod_of("p", json!([vllm("vllm/vllm-openai:v0.19.0", None)])),
        "gpu-1",
    );
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = json!("vllm/vllm-openai:v0.20.0");
    let verdict = cluster.update(&old, &new);
    assert!(!verdict.admit, "0.92 is above 0.90");
    let mut same = old.clone();
    same["metadata"]["labels"] = json!({"touched": "yes"});
    assert!(
        cluster.update(&old, &same).admit,
        "what asks for no more is never denied"
    );
}

#[test]
fn s13_any_three_holders_of_the_node_may_meet() {
    let two = || {
        let mut cluster = Cluster::new();
        cluster.gpu_node("l40s", "NVIDIA-L40S", L40S, 2, 3);
        cluster
    };
    let mut cluster = two();
    for index in 0..6 {
        assert!(cluster.create(&pod(&format!("p{index}"), "0.30")).admit);
    }
    let verdict = cluster.create(&pod("p6", "0.30"));
    assert!(!verdict.admit && has(&verdict, Code::Vg201) != has(&verdict, Code::Vg209));
    let mut cluster = two();
    assert!(cluster.create(&pod("a", "0.30")).admit);
    assert!(cluster.create(&pod("b", "0.30")).admit);
    let verdict = cluster.create(&pod("c", "0.45"));
    assert!(!verdict.admit);
    golden("s13-any-evidence", &message::refusal(&verdict));
    assert_eq!(
        fixes_hold(&mut cluster, &pod("c", "0.45"), &verdict),
        1,
        "0.30 fits any way"
    );
}

/// Its container was given this slot.
fn shown(pod: &Value, slot: &str) -> Value {
    let mut pod = pod.clone();
    pod["status"]["containerStatuses"] = json!([{"name": "server", "allocatedResourcesStatus": [
        {"name": "nvidia.com/gpu", "resources": [{"resourceID": slot, "health": "Healthy"}]},
    ]}]);
    pod
}

#[test]
fn grades_change_as_status_appears() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("l40s", "NVIDIA-L40S", L40S, 2, 3);
    let a = cluster.running(&pod("a", "0.30"), "l40s");
    let b = cluster.running(&pod("b", "0.35"), "l40s");
    assert!(
        !cluster.try_create(&pod("c", "0.45")).admit,
        "a and b may stand together"
    );
    cluster.see(&shown(&a, "GPU-1::0"));
    let verdict = cluster.try_create(&pod("c", "0.45"));
    assert!(!verdict.admit, "b may stand beside a");
    golden("vg201-partly-observed", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &pod("c", "0.45"), &verdict), 1);
    cluster.see(&shown(&b, "GPU-2::1"));
    let rows = cluster.ledger.devices();
    let of = |row: &vramgate::ledger::devices::DeviceView| {
        (
            row.id.as_deref().map(str::to_owned),
            row.promised_share.ppm(),
            row.slots,
            row.slots_taken,
        )
    };
    assert_eq!(
        rows.iter().map(of).collect::<Vec<_>>(),
        [
            (Some("GPU-1".to_owned()), 300_000, 3, 1),
            (Some("GPU-2".to_owned()), 350_000, 3, 1)
        ]
    );
    let verdict = cluster.try_create(&pod("c", "0.45"));
    assert!(verdict.admit, "{:?}", verdict.findings);
    let row = &verdict.placement[0];
    assert_eq!(
        (row.evidence, row.promised_fraction.ppm()),
        (Evidence::Observed, 800_000)
    );
    let verdict = cluster.try_create(&pod("c", "0.56"));
    golden("vg201-observed", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &pod("c", "0.56"), &verdict), 1);
    // One that is admitted and does not run yet may get either device.
    assert!(cluster.create(&pod("c", "0.45")).admit);
    assert_eq!(cluster.ledger.devices()[0].evidence, Evidence::Any);
    assert!(!cluster.try_create(&pod("d", "0.20")).admit);
    // What is not told any more is not known any more.
    cluster.see(&b);
    assert!(!cluster.try_create(&pod("e", "0.05")).admit);
}

#[test]
fn what_the_status_tells_in_part_is_not_used() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("l40s", "NVIDIA-L40S", L40S, 2, 3);
    let a = cluster.running(&pod("a", "0.45"), "l40s");
    let b = cluster.running(&pod("b", "0.40"), "l40s");
    cluster.see(&shown(&b, "GPU-2::1"));
    for status in [
        json!(null),
        json!([]),
        json!([{"resourceID": ""}]),
        json!([{"resourceID": null}]),
        json!([{"resourceID": "GPU-1::0"}, {"resourceID": "GPU-1::1"}]),
    ] {
        let mut pod = shown(&a, "");
        pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0]["resources"] = status.clone();
        cluster.see(&pod);
        assert_eq!(cluster.ledger.devices()[0].evidence, Evidence::Any, "{status}");
        assert_eq!(
            cluster.ledger.devices()[0].promised_share.ppm(),
            850_000,
            "{status}"
        );
    }
    // Two slots are never one and the same.
    let mut two = cluster.running(&pod("two", "0.05"), "l40s");
    two["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!("2");
    for (slots, devices) in [(["GPU-1::0", "GPU-1::0"], 0), (["GPU-1::0", "GPU-1::1"], 1)] {
        let mut pod = shown(&two, "");
        pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0]["resources"] =
            json!(slots.map(|id| json!({"resourceID": id})));
        cluster.see(&pod);
        let holders = &cluster.ledger.devices()[0].holders;
        let holder = holders.iter().find(|holder| &*holder.name == "two").unwrap();
        assert_eq!(holder.devices.len(), devices, "{slots:?}");
    }
    cluster
        .ledger
        .remove_pod(two["metadata"]["uid"].as_str().unwrap());
    // Neither is what a sidecar or an init container has: the kubelet hands their devices on.
    let mut with_init = pod("i", "0.05");
    with_init["spec"]["initContainers"] = with_init["spec"]["containers"].clone();
    with_init["spec"]["initContainers"][0]["name"] = json!("warm-up");
    let running = cluster.running(&with_init, "l40s");
    cluster.see(&shown(&running, "GPU-2::2"));
    let holders = &cluster.ledger.devices()[0].holders;
    assert!(
        holders
            .iter()
            .any(|holder| &*holder.name == "i" && holder.devices.is_empty())
    );
}

#[test]
fn a_policy_says_which_evidence_counts() {
    let with = |evidence: &str| {
        let mut cluster = Cluster::with_policy(&format!(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: e}}\nspec:\n  device: {{evidence: [{evidence}]}}\n",
        ));
        cluster.gpu_node("l40s", "NVIDIA-L40S", L40S, 2, 3);
        for (name, fraction, slot) in [("a", "0.30", "GPU-1::0"), ("b", "0.35", "GPU-2::0")] {
            let pod = cluster.running(&pod(name, fraction), "l40s");
            cluster.see(&shown(&pod, slot));
        }
        cluster
    };
    assert!(with("observed, any").try_create(&pod("c", "0.45")).admit);
    assert!(with("observed").try_create(&pod("c", "0.45")).admit);
    assert!(
        !with("any").try_create(&pod("c", "0.45")).admit,
        "what was seen is not used"
    );
    // Without `any`, what is not known counts on every device, whatever the number of slots.
    let mut cluster = with("observed");
    assert!(cluster.create(&pod("c", "0.20")).admit);
    assert!(cluster.create(&pod("d", "0.20")).admit);
    assert!(!cluster.create(&pod("e", "0.20")).admit, "0.35 + 3 x 0.20");
}

#[test]
fn fair_share_per_slot_makes_every_placement_safe() {
    let mut cluster = Cluster::with_policy(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: fair}\nspec:\n  device: {perSlot: fairShare}\n",
    );
    cluster.gpu_node("l40s", "NVIDIA-L40S", L40S, 2, 3);
    let verdict = cluster.create(&pod("a", "0.31"));
    assert!(!verdict.admit && has(&verdict, Code::Vg202));
    golden("vg202-fair-share", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &pod("a", "0.31"), &verdict), 1);
}

#[test]
fn c1_tensor_parallel_wants_as_many_whole_devices() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("whole", "NVIDIA-H100-80GB-HBM3", H100, 8, 1);
    let mut container = vllm(VLLM, Some("0.90"));
    container["args"]
        .as_array_mut()
        .unwrap()
        .extend([json!("-tp"), json!("2")]);
    let short = pod_of("tp2", json!([container]));
    let verdict = cluster.create(&short);
    assert!(!verdict.admit && has(&verdict, Code::Vg105));
    golden("c1-more-ranks-than-devices", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &short, &verdict), 1);
    container["resources"]["limits"]["nvidia.com/gpu"] = json!(2);
    assert!(cluster.create(&pod_of("tp2", json!([container]))).admit);
}

const SMALL_SLICE: &str = "nvidia.com/mig-1g.10gb";
const LLAMA_70B: [&str; 4] = [
    "--model",
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
    "--max-model-len",
    "4096",
];

/// Seven slices of 9984 MiB.
fn small_slices() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node(&mig_node("sliced", &[("1g.10gb", 9_984, 7)]));
    cluster
}

#[test]
fn g1_one_request_of_4096_tokens_is_doubtful_on_a_small_slice_and_one_of_2048_fits() {
    let args = |length: &'static str| {
        let model = [
            "--model",
            "meta-llama/Llama-2-7b-chat-hf",
            "--quantization",
            "fp8",
        ];
        [&model[..], &["--max-num-seqs", "16", "--max-model-len", length]].concat()
    };
    let verdict = small_slices().create(&serving(&args("2048"), SMALL_SLICE, 1));
    assert!(
        verdict.admit && verdict.findings.is_empty(),
        "{:#?}",
        verdict.findings
    );

    let verdict = small_slices().create(&serving(&args("4096"), SMALL_SLICE, 1));
    assert!(verdict.admit && !verdict.would_deny);
    let found = finding(&verdict, Code::Vg301);
    assert_eq!(found.severity, Severity::Warning);
    // 32 layers x 32 heads x 128 x 2 x 2 bytes x 4096 tokens are 2 GiB.
    assert_eq!(found.numbers["needMiB"], Number::Memory(Mib::new(2_048)));
    // ceil(0.92 x 9984).
    assert_eq!(found.numbers["budgetMiB"], Number::Memory(Mib::new(9_186)));
    golden("g1-doubtful", &message::report(&verdict, ""));
    let warning = &message::warnings(&verdict)[0];
    assert!(warning.contains("may not start"), "{warning}");
}

#[test]
fn g2_a_packed_model_leaves_room_on_a_small_slice() {
    let verdict = small_slices().create(&serving(
        &["--model", "TheBloke/Llama-2-7B-Chat-AWQ", "--max-num-seqs", "16"],
        SMALL_SLICE,
        1,
    ));
    assert!(
        verdict.admit && verdict.findings.is_empty(),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn g3_a_model_that_is_too_large_is_refused_with_the_slices_that_hold_it() {
    let object = serving(
        &[
            "--model",
            "meta-llama/Llama-2-13b-chat-hf",
            "--quantization",
            "fp8",
        ],
        SMALL_SLICE,
        1,
    );
    let verdict = small_slices().create(&object);
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg301);
    assert!(
        found
            .message
            .ends_with("mig-1g.20gb or mig-2g.20gb holds it, and no node offers that"),
        "{}",
        found.message
    );
    assert!(found.fixes.is_empty(), "no node offers a larger slice");
    golden("g3-too-large-for-the-slice", &message::refusal(&verdict));

    let mut cluster = small_slices();
    cluster.node(&mig_node(
        "larger",
        &[("2g.20gb", 20_096, 3), ("3g.40gb", 40_448, 1)],
    ));
    let verdict = cluster.try_create(&object);
    golden("g3-offered-elsewhere", &message::refusal(&verdict));
    assert_eq!(
        finding(&verdict, Code::Vg301).fixes[0].title,
        "ask for nvidia.com/mig-2g.20gb instead of nvidia.com/mig-1g.10gb in container server"
    );
    assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 1);
}

#[test]
fn g4_a_large_model_hangs_on_the_sequences_that_are_profiled() {
    let nodes = || {
        let mut cluster = Cluster::new();
        cluster.node(&mig_node("one-slice", &[("7g.80gb", 81_152, 1)]));
        cluster.gpu_node("whole", "NVIDIA-H100-80GB-HBM3", H100, 2, 1);
        cluster
    };
    let few = [&LLAMA_70B[..], &["--max-num-seqs", "256"]].concat();
    let two = [&LLAMA_70B[..], &["--tensor-parallel-size", "2"]].concat();
    for (args, resource, count, code) in [
        (&few[..], "nvidia.com/mig-7g.80gb", 1, None),
        (&few[..], "nvidia.com/gpu", 1, None),
        (&LLAMA_70B[..], "nvidia.com/mig-7g.80gb", 1, Some(Code::Vg301)),
        (&LLAMA_70B[..], "nvidia.com/gpu", 1, Some(Code::Vg701)),
        (&two[..], "nvidia.com/gpu", 2, None),
    ] {
        let verdict = nodes().create(&serving(args, resource, count));
        assert!(verdict.admit, "{args:?} {resource}: {:#?}", verdict.findings);
        let codes: Vec<Code> = verdict.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, code.into_iter().collect::<Vec<_>>(), "{args:?} {resource}");
        if let (Some(code), "nvidia.com/gpu") = (code, resource) {
            assert_eq!(finding(&verdict, code).severity, Severity::Warning);
            golden("g4-doubtful-on-one-device", &message::report(&verdict, ""));
        }
    }
}

#[test]
fn g5_variables_that_nobody_reads_set_nothing_until_a_policy_says_who_reads_them() {
    let container = json!({
        "name": "server", "image": VLLM,
        "env": [
            {"name": "MODEL_NAME", "value": "Qwen/Qwen2.5-72B-Instruct-AWQ"},
            {"name": "GPU_MEMORY_UTILIZATION", "value": "0.95"},
            {"name": "MAX_MODEL_LEN", "value": "8192"},
        ],
        "resources": {"limits": {"nvidia.com/mig-3g.40gb": "1"}},
    });
    let object = pod_of("chat", json!([container]));
    let node = mig_node("sliced", &[("3g.40gb", 40_448, 2)]);
    let mut cluster = Cluster::new();
    cluster.node(&node);
    let verdict = cluster.create(&object);
    let unread = verdict.findings.iter().filter(|found| found.code == Code::Vg103);
    assert_eq!(unread.count(), 3);
    assert!(
        verdict.admit && !has(&verdict, Code::Vg301),
        "{:#?}",
        verdict.findings
    );

    let mut cluster = Cluster::with_policy(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: own-images}\nspec:\n  engines:\n  \
         - images: [vllm/vllm-openai]\n    engine: vllm\n    variables: {MODEL_NAME: --model, GPU_MEMORY_UTILIZATION: \
         --gpu-memory-utilization, MAX_MODEL_LEN: --max-model-len}\n",
    );
    cluster.node(&node);
    let verdict = cluster.create(&object);
    assert!(!verdict.admit && !has(&verdict, Code::Vg103));
    let found = finding(&verdict, Code::Vg301);
    // ceil(0.95 x 40448), rounded down as a budget; the published files have 38.8 GiB, of which two percent are in doubt.
    assert_eq!(found.numbers["budgetMiB"], Number::Memory(Mib::new(38_426)));
    let Number::Memory(weights) = found.numbers["weightsMiB"] else {
        panic!("{:?}", found.numbers);
    };
    assert!((38_500..39_740).contains(&weights.get()), "{weights}");
    golden("g5-variables-of-an-own-image", &message::refusal(&verdict));
}

#[test]
fn g6_embeddings_fit_a_small_slice() {
    for model in ["BAAI/bge-large-zh-v1.5", "BAAI/bge-m3", "BAAI/bge-reranker-v2-m3"] {
        let container = json!({
            "name": "embedder", "image": "ghcr.io/huggingface/text-embeddings-inference:1.8",
            "args": ["--model-id", model], "env": [{"name": "GPU_MEMORY_UTILIZATION", "value": "0.5"}],
            "resources": {"limits": {SMALL_SLICE: "1"}},
        });
        let verdict = small_slices().create(&pod_of("embedder", json!([container])));
        assert!(verdict.admit, "{model}: {:#?}", verdict.findings);
        assert!(has(&verdict, Code::Vg103), "{model}: {:#?}", verdict.findings);
        assert!(!has(&verdict, Code::Vg301), "{model}: {:#?}", verdict.findings);
    }
}

const LARGE_SLICE: &str = "nvidia.com/mig-3g.40gb";
const SMALL_MODEL: [&str; 4] = ["--model", "Qwen/Qwen3-0.6B", "--max-model-len", "4096"];

#[test]
fn g7_a_profile_that_no_node_offers_names_the_nodes_that_could_be_cut_so() {
    let object = serving(&SMALL_MODEL, LARGE_SLICE, 1);
    let mut cluster = small_slices();
    let verdict = cluster.create(&object);
    assert!(!verdict.admit);
    golden("g7-idle-node", &message::refusal(&verdict));
    assert!(fixes_hold(&mut cluster, &object, &verdict) > 0);

    let small = serving(&SMALL_MODEL, SMALL_SLICE, 1);
    for name in ["a", "b"] {
        let mut pod = small.clone();
        pod["metadata"]["name"] = json!(name);
        cluster.running(&pod, "sliced");
    }
    let verdict = cluster.create(&object);
    golden("g7-busy-node", &message::refusal(&verdict));
    assert!(fixes_hold(&mut cluster, &object, &verdict) > 0);
}

#[test]
fn g12_slices_do_not_add_up() {
    let mut cluster = small_slices();
    cluster.node(&mig_node("larger", &[("2g.20gb", 20_096, 3)]));
    cluster.gpu_node("whole", "NVIDIA-H100-80GB-HBM3", H100, 4, 1);
    let ranks = serving(&[&SMALL_MODEL[..], &["-tp", "2"]].concat(), SMALL_SLICE, 2);
    let verdict = cluster.try_create(&ranks);
    assert!(!verdict.admit && has(&verdict, Code::Vg303));
    golden("g12-ranks-over-slices", &message::report(&verdict, ""));
    assert_eq!(
        fixes_hold(&mut cluster, &ranks, &verdict),
        2,
        "{:#?}",
        verdict.findings
    );

    let several = serving(&SMALL_MODEL, SMALL_SLICE, 2);
    let verdict = cluster.try_create(&several);
    assert!(!verdict.admit && has(&verdict, Code::Vg305));
    assert_eq!(fixes_hold(&mut cluster, &several, &verdict), 1);

    let mut mixed = serving(&SMALL_MODEL, SMALL_SLICE, 1);
    mixed["spec"]["containers"][0]["resources"]["limits"][LARGE_SLICE] = json!("1");
    cluster.node(&mig_node(
        "both",
        &[("1g.10gb", 9_984, 4), ("3g.40gb", 40_448, 1)],
    ));
    let verdict = cluster.try_create(&mixed);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg305),
        "{:#?}",
        verdict.findings
    );
    golden("g12-slices-of-two-profiles", &message::report(&verdict, ""));
    assert_eq!(fixes_hold(&mut cluster, &mixed, &verdict), 1);
}

#[test]
fn g13_each_kind_of_workload_has_its_profile() {
    let policy = |name: &str, workload: &str, profile: &str| {
        format!(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: {name}}}\nspec:\n  match:\n    \
             namespaces: {{matchLabels: {{kubernetes.io/metadata.name: team-a}}}}\n    pods: {{matchLabels: {{workload: \
             {workload}}}}}\n  mig: {{profiles: [{profile}]}}\n"
        )
    };
    let policies = [
        policy("large", "llm-inference", "3g.40gb"),
        policy("light", "light-inference", "1g.10gb"),
    ];
    let mut cluster = Cluster::with_policy(&policies.join("---\n"));
    cluster.node(&mig_node(
        "sliced",
        &[("1g.10gb", 9_984, 4), ("3g.40gb", 40_448, 1)],
    ));
    let of = |workload: &str, resource: &str| {
        let mut pod = serving(&SMALL_MODEL, resource, 1);
        pod["metadata"]["labels"] = json!({"workload": workload});
        pod
    };
    for (workload, resource, allowed) in [
        ("llm-inference", LARGE_SLICE, true),
        ("llm-inference", SMALL_SLICE, false),
        ("light-inference", SMALL_SLICE, true),
        ("light-inference", LARGE_SLICE, false),
        ("batch", LARGE_SLICE, true),
    ] {
        let object = of(workload, resource);
        let verdict = cluster.try_create(&object);
        assert_eq!(
            verdict.admit, allowed,
            "{workload} {resource}: {:#?}",
            verdict.findings
        );
        assert_eq!(has(&verdict, Code::Vg306), !allowed);
        assert_eq!(fixes_hold(&mut cluster, &object, &verdict), usize::from(!allowed));
    }
    let mut elsewhere = of("light-inference", LARGE_SLICE);
    elsewhere["metadata"]["namespace"] = json!("team-b");
    assert!(cluster.try_create(&elsewhere).admit);
    let verdict = cluster.try_create(&of("light-inference", LARGE_SLICE));
    golden("g13-profile-not-allowed", &message::report(&verdict, ""));
}

#[test]
fn g14_the_real_names_of_a_product_are_told() {
    let mut cluster = Cluster::new();
    let mut node = gpu_node("h200-1", "NVIDIA-H200", 143_771, 8, 1);
    node["metadata"]["labels"]["nvidia.com/mig.capable"] = json!("true");
    cluster.node(&node);
    let verdict = cluster.create(&serving(&SMALL_MODEL, "nvidia.com/mig-1g.20gb", 1));
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg302);
    for name in ["1g.18gb (16384 MiB)", "2g.35gb", "3g.71gb"] {
        assert!(found.message.contains(name), "{}", found.message);
    }
    golden("g14-real-names", &message::refusal(&verdict));
}

#[test]
fn c1_a_large_model_over_two_whole_devices_is_admitted_and_on_one_short_of_devices() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("whole", "NVIDIA-H100-80GB-HBM3", H100, 8, 1);
    let args = [&LLAMA_70B[..], &["-tp", "2"]].concat();
    let verdict = cluster.try_create(&serving(&args, "nvidia.com/gpu", 2));
    assert!(
        verdict.admit && verdict.findings.is_empty(),
        "{:#?}",
        verdict.findings
    );
    let short = serving(&args, "nvidia.com/gpu", 1);
    let verdict = cluster.try_create(&short);
    let codes: Vec<Code> = verdict.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::Vg105], "what does not start is not estimated");
    assert_eq!(fixes_hold(&mut cluster, &short, &verdict), 1);
}

#[test]
fn c8_a_pod_for_one_node_is_judged_there_and_a_daemon_set_on_each() {
    let mut cluster = h100(4);
    cluster.gpu_node("gpu-2", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    for index in 0..3 {
        cluster.running(&pod(&format!("p{index}"), "0.30"), "gpu-1");
    }
    let mut here = pod("here", "0.30");
    here["spec"]["nodeName"] = json!("gpu-1");
    assert!(!cluster.create(&here).admit);
    here["spec"]["nodeName"] = json!("gpu-2");
    assert!(cluster.create(&here).admit);

    let mut daemons = deployment("daemons", 1, &vllm(VLLM, Some("0.30")));
    daemons["kind"] = json!("DaemonSet");
    daemons["spec"].as_object_mut().unwrap().remove("replicas");
    let verdict = cluster.create(&daemons);
    assert!(!verdict.admit, "gpu-1 is full");
    golden("c8-daemon-set", &message::refusal(&verdict));
    daemons["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "gpu-2"});
    assert!(cluster.create(&daemons).admit);
}

#[test]
fn c8_a_mirror_pod_is_counted_and_not_denied_if_a_node_made_it() {
    let mut cluster = h100(4);
    for index in 0..3 {
        cluster.running(&pod(&format!("p{index}"), "0.30"), "gpu-1");
    }
    let mut mirror = pod("static-gpu-1", "0.30");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    mirror["spec"]["nodeName"] = json!("gpu-1");
    assert!(
        !cluster.try_create(&mirror).admit,
        "the annotation alone proves nothing"
    );
    let workload = vramgate::workload::Workload::read(&mirror).unwrap().unwrap();
    let question = vramgate::decision::Question {
        operation: vramgate::decision::Operation::Create,
        namespace_labels: cluster.ledger.namespace_labels("team-a"),
        workload,
        old: None,
        by_node: true,
        scale_only: false,
        dry_run: false,
    };
    assert!(cluster.carry_out(question).admit);
}

#[test]
fn c10_hand_written_labels_are_whole_devices_with_a_remark() {
    let mut cluster = Cluster::new();
    let mut node = gpu_node("old", "A100-SXM4-80GB", H100, 4, 1);
    node["metadata"]["labels"] = json!({"nvidia.com/gpu.product": "A100-SXM4-80GB"});
    cluster.node(&node);
    let verdict = cluster.create(&pod("p", "0.90"));
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert_eq!(
        verdict.placement[0].budget,
        Mib::new(81_920),
        "an A100 80GB by its alias"
    );
}

#[test]
fn c11_what_only_a_cordoned_node_could_take_waits() {
    let mut cluster = Cluster::new();
    let mut node = gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    node["spec"] = json!({"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]});
    cluster.node(&node);
    assert!(cluster.create(&pod("a", "0.30")).admit);
    assert!(
        cluster
            .create(&pod("b", "0.70"))
            .findings
            .iter()
            .any(|f| f.code == Code::Vg201)
    );
}

#[test]
fn c13_a_dry_run_leaves_nothing() {
    let mut cluster = h100(4);
    for index in 0..2 {
        assert!(cluster.create(&pod(&format!("p{index}"), "0.30")).admit);
    }
    for _ in 0..5 {
        assert!(cluster.try_create(&pod("p2", "0.30")).admit);
    }
    assert!(cluster.create(&pod("p2", "0.30")).admit);
    assert!(!cluster.try_create(&pod("p3", "0.30")).admit);
}

#[test]
fn c15_other_vendors_are_not_ours() {
    let mut cluster = h100(4);
    for resource in [
        "amd.com/gpu",
        "google.com/tpu",
        "aws.amazon.com/neuron",
        "gpu.intel.com/i915",
    ] {
        let mut object = pod("p", "0.99");
        object["spec"]["containers"][0]["resources"] = json!({"limits": {resource: "1"}});
        let verdict = cluster.create(&object);
        assert!(verdict.admit && !verdict.judged && verdict.findings.is_empty());
    }
}

#[test]
fn c16_ordinary_jobs_on_whole_devices_pass() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("whole", "NVIDIA-H100-80GB-HBM3", H100, 8, 1);
    let trainer = |count: u32| {
        json!({
            "name": "train", "image": "registry.example/team/trainer:1.2", "command": ["python", "train.py"],
            "resources": {"limits": {"nvidia.com/gpu": count}},
        })
    };
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [trainer(4)]}}},
    });
    for object in [job, pod_of("train", json!([trainer(8)]))] {
        let verdict = cluster.create(&object);
        assert!(verdict.admit, "{:#?}", verdict.findings);
        assert!(!has(&verdict, Code::Vg106));
    }
    let verdict = cluster.create(&pod_of("train", json!([trainer(9)])));
    assert!(!verdict.admit && has(&verdict, Code::Vg703));
    golden("vg703-no-node-is-large-enough", &message::refusal(&verdict));
    assert!(
        !h100(4).create(&pod_of("train", json!([trainer(1)]))).admit,
        "unknown on a shared device"
    );
}

#[test]
fn c18_an_update_that_asks_for_no_more_is_never_denied() {
    let mut cluster = h100(4);
    let four = deployment("chat", 4, &vllm(VLLM, Some("0.30")));
    for index in 0..4 {
        cluster.running(
            &owned_by_deployment(&format!("chat-abc-{index}"), "chat", "0.30"),
            "gpu-1",
        );
    }
    let mut back = four.clone();
    back["spec"]["template"]["spec"]["containers"][0]["image"] = json!("vllm/vllm-openai:v0.21.0");
    let verdict = cluster.update(&four, &back);
    assert!(
        verdict.admit && has(&verdict, Code::Vg201),
        "{:#?}",
        verdict.findings
    );
    golden("c18-rollback", &message::report(&verdict, ""));
    let mut fewer = four.clone();
    fewer["spec"]["replicas"] = json!(2);
    assert!(cluster.update(&four, &fewer).admit);
    let mut more = four.clone();
    more["spec"]["replicas"] = json!(5);
    assert!(!cluster.update(&four, &more).admit);
}

#[test]
fn unreadable_fractions_are_refused_with_field_and_value() {
    let mut cluster = h100(4);
    for (index, text) in ["0", "nan", "-0.5", "", "1e309", "0,3", "1.5"]
        .into_iter()
        .enumerate()
    {
        let mut container = vllm(VLLM, None);
        container["args"] = json!([format!("--gpu-memory-utilization={text}")]);
        let object = pod_of("bad", json!([container]));
        let verdict = cluster.create(&object);
        assert!(!verdict.admit, "{text:?}");
        let found = finding(&verdict, Code::Vg101);
        assert!(
            found.path.as_str().starts_with("spec.containers[0].args["),
            "{} {text:?}",
            found.path
        );
        golden(&format!("vg101-{index}"), &message::refusal(&verdict));
        assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 1, "{text:?}");
    }
}

#[test]
fn an_unresolved_value_is_refused_on_a_shared_device_alone() {
    let mut container = vllm(VLLM, Some("$(SHARE)"));
    container["env"] =
        json!([{"name": "SHARE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "share"}}}]);
    let object = pod_of("p", json!([container]));
    let mut shared = h100(4);
    let verdict = shared.create(&object);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg102),
        "{:#?}",
        verdict.findings
    );
    golden("vg102-unresolved", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut shared, &object, &verdict), 1);
    let mut whole = Cluster::new();
    whole.gpu_node("whole", "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
    assert!(whole.create(&object).admit);
}

#[test]
fn a_slot_that_is_not_free_is_refused_under_admission() {
    let mut cluster = h100(4);
    for index in 0..4 {
        assert!(cluster.create(&pod(&format!("p{index}"), "0.10")).admit);
    }
    let verdict = cluster.create(&pod("p4", "0.10"));
    assert!(!verdict.admit && has(&verdict, Code::Vg209));
    golden("vg209-no-free-slot", &message::refusal(&verdict));
}

#[test]
fn an_engine_that_nothing_bounds_is_refused_on_a_shared_device() {
    let container = json!({
        "name": "ollama", "image": "ollama/ollama:0.12.0", "resources": {"limits": {"nvidia.com/gpu": "1"}},
    });
    let verdict = h100(4).create(&pod_of("p", json!([container])));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg206),
        "{:#?}",
        verdict.findings
    );
    golden("vg206-uncapped", &message::refusal(&verdict));
    let container = json!({
        "name": "job", "image": "registry.example/team/tool:1", "resources": {"limits": {"nvidia.com/gpu": "1"}},
    });
    let verdict = h100(4).create(&pod_of("p", json!([container])));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg106),
        "{:#?}",
        verdict.findings
    );
    golden("vg106-unknown-engine", &message::refusal(&verdict));
}

#[test]
fn m2_m3_the_client_limit_of_mps_is_known() {
    let mut node = gpu_node("mps", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    node["metadata"]["labels"]["nvidia.com/gpu.sharing-strategy"] = json!("mps");
    let mut cluster = Cluster::new();
    cluster.node(&node);
    assert!(cluster.try_create(&pod("a", "0.20")).admit);
    let verdict = cluster.create(&pod("a", "0.30"));
    assert!(!verdict.admit && has(&verdict, Code::Vg401));
    golden("m2-client-limit", &message::refusal(&verdict));
    assert_eq!(
        finding(&verdict, Code::Vg401).fixes[0].title,
        "lower the memory fraction of container server to 0.242"
    );
    assert_eq!(fixes_hold(&mut cluster, &pod("a", "0.30"), &verdict), 1);
    let mut two = pod("b", "0.20");
    two["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!(2);
    let verdict = cluster.create(&two);
    assert!(!verdict.admit && has(&verdict, Code::Vg402));
    golden("m3-two-slots", &message::refusal(&verdict));
}

#[test]
fn nodes_that_would_refuse_are_named_while_others_take_the_pod() {
    let mut cluster = h100(4);
    cluster.gpu_node("whole", "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
    let verdict = cluster.create(&pod_of("p", json!([vllm(VLLM, None)])));
    assert!(verdict.admit);
    let found = finding(&verdict, Code::Vg207);
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.message.contains("gpu-1"), "{}", found.message);
}

#[test]
fn tentative_places_move_when_that_helps() {
    // a may stand on either node and first takes the one with least room; b may stand on one only.
    let mut cluster = Cluster::new();
    cluster.gpu_node("n1", "NVIDIA-L40S", L40S, 1, 8);
    cluster.gpu_node("n2", "NVIDIA-L40S", L40S, 1, 8);
    let a = cluster.create(&pod("a", "0.60"));
    let first = a.placement[0].node.clone();
    let mut b = pod("b", "0.60");
    b["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": first});
    let verdict = cluster.create(&b);
    assert!(
        verdict.admit,
        "a moves to the other node: {:#?}",
        verdict.findings
    );
    assert!(!cluster.create(&pod("c", "0.60")).admit);
}

#[test]
fn the_number_admitted_is_exact_however_the_scheduler_packs() {
    // Five nodes take three pods of 0.28 each. The scheduler puts six on the first node and nothing on the last two.
    let mut cluster = Cluster::new();
    for index in 0..5 {
        cluster.gpu_node(&format!("n{index}"), "NVIDIA-L40S", L40S, 1, 8);
    }
    let order = [
        "n0", "n0", "n0", "n0", "n0", "n0", "n1", "n1", "n1", "n1", "n1", "n1", "n2", "n2", "n2",
    ];
    let mut admitted = 0;
    for index in 0..17 {
        let mut object = pod(&format!("p{index}"), "0.28");
        object["metadata"]["uid"] = json!(format!("bare-{index}"));
        if cluster.create(&object).admit {
            cluster.running(&object, order[admitted.min(14)]);
            admitted += 1;
        }
    }
    assert_eq!(admitted, 15);
    assert_eq!(
        cluster.ledger.over_budget().len(),
        2,
        "n0 and n1 are shown for what they are"
    );
}

/// vLLM 0.8.5 with its V1 core, whose fraction means the whole GPU.
const WHOLE_DEVICE: &str = "vllm/vllm-openai:v0.8.5";

#[test]
fn a_fraction_that_means_the_whole_device_must_cover_what_others_hold() {
    let mut cluster = h100(4);
    let old = |name: &str, fraction: &str| pod_of(name, json!([vllm(WHOLE_DEVICE, Some(fraction))]));
    // Alone it starts; that it is on a shared device is told all the same.
    let first = cluster.create(&old("a", "0.30"));
    assert!(first.admit, "{:#?}", first.findings);
    let told = finding(&first, Code::Vg208);
    assert_eq!(told.severity, Severity::Warning);
    assert!(!told.numbers.contains_key("othersMiB"), "{told:#?}");
    let mut text = message::report(&first, "");
    // Beside it, 24468 MiB and 1664 MiB overhead are gone before the second begins to count its 24468 MiB.
    let second = cluster.create(&old("b", "0.30"));
    assert!(second.admit, "{:#?}", second.findings);
    let told = finding(&second, Code::Vg208);
    assert_eq!(told.numbers["othersMiB"], Number::Memory(Mib::new(26_132)));
    assert_eq!(told.numbers["leftMiB"], Number::Memory(Mib::ZERO));
    text.push('\n');
    text.push_str(&message::report(&second, ""));
    assert!(message::headline(told).len() < 256);
    golden("vg208-whole-device", &text);
    // Counted in full, as ever: nothing is taken off for what the others hold.
    let device = &cluster.ledger.devices()[0];
    assert_eq!(device.promised, Mib::new(2 * 24_468));
    assert!(device.promised_share >= Share::from_ppm(600_000));
}

#[test]
fn a_fraction_of_the_whole_device_that_covers_the_others_is_a_remark() {
    let mut cluster = h100(4);
    assert!(cluster.create(&pod("a", "0.20")).admit);
    let verdict = cluster.create(&pod_of("b", json!([vllm(WHOLE_DEVICE, Some("0.60"))])));
    // 48935 MiB less (16312 + 640) MiB leave 31983 MiB for a model of less than one.
    let told = finding(&verdict, Code::Vg208);
    assert_eq!(told.severity, Severity::Info, "{told:#?}");
    assert_eq!(told.numbers["leftMiB"], Number::Memory(Mib::new(31_983)));
    // Between its own need and the others a fraction is too small, and the one that covers both is told.
    let mut cluster = h100(4);
    assert!(cluster.create(&pod("a", "0.30")).admit);
    let verdict = cluster.create(&pod_of("b", json!([vllm(WHOLE_DEVICE, Some("0.31"))])));
    let told = finding(&verdict, Code::Vg208);
    assert_eq!(told.severity, Severity::Warning);
    let Number::Share(least) = told.numbers["leastFraction"] else {
        panic!("{told:#?}");
    };
    assert!(
        least > Share::from_ppm(310_000) && least < Share::from_ppm(400_000),
        "{least}"
    );
}

#[test]
fn replicas_of_a_whole_device_release_are_each_others_co_holders() {
    let mut cluster = h100(4);
    let verdict = cluster.create(&deployment("chat", 2, &vllm(WHOLE_DEVICE, Some("0.30"))));
    assert!(verdict.admit, "{:#?}", verdict.findings);
    let told = finding(&verdict, Code::Vg208);
    assert_eq!(told.numbers["othersMiB"], Number::Memory(Mib::new(26_132)));
    assert!(told.path.as_str().starts_with("spec.template.spec.containers[0]"));
}

#[test]
fn only_releases_that_count_the_whole_device_for_certain_are_told() {
    let told = |image: &str, change: &dyn Fn(&mut Value), node: Value| {
        let mut cluster = Cluster::new();
        cluster.node(&node);
        let mut container = vllm(image, Some("0.30"));
        change(&mut container);
        has(&cluster.create(&pod_of("a", json!([container]))), Code::Vg208)
    };
    let shared = || gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    for (release, expected) in [
        ("v0.6.3.post1", false),
        ("v0.6.4", true),
        ("v0.6.4.post1", true),
        ("v0.6.6", false),
        ("v0.7.3", false),
        ("v0.8.0", true),
        ("v0.8.5.post1", true),
        ("v0.9.0.1", true),
        ("v0.9.1", false),
        ("v0.20.0", false),
        ("latest", false),
    ] {
        let image = format!("vllm/vllm-openai:{release}");
        assert_eq!(told(&image, &|_| (), shared()), expected, "{release}");
        let alone = gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
        assert!(!told(&image, &|_| (), alone), "{release} on its own device");
    }
    let core = |value: &'static str| {
        move |container: &mut Value| container["env"] = json!([{"name": "VLLM_USE_V1", "value": value}])
    };
    assert!(!told(WHOLE_DEVICE, &core("0"), shared()));
    assert!(told("vllm/vllm-openai:v0.7.3", &core("1"), shared()));
    assert!(!told("vllm/vllm-openai:v0.9.1", &core("1"), shared()));
    let with = |words: &'static [&'static str]| {
        move |container: &mut Value| {
            let args = container["args"].as_array_mut().unwrap();
            args.extend(words.iter().map(|word| json!(word)));
        }
    };
    // These run in V0, or may.
    assert!(!told(WHOLE_DEVICE, &with(&["--task", "embed"]), shared()));
    assert!(!told(WHOLE_DEVICE, &with(&["--kv-cache-dtype", "fp8"]), shared()));
    assert!(told(WHOLE_DEVICE, &with(&["--dtype", "bfloat16"]), shared()));
    // So does every model before Ampere.
    let old = || gpu_node("gpu-1", "Tesla-V100-SXM2-32GB", 32_768, 1, 4);
    assert!(!told(WHOLE_DEVICE, &|_| (), old()));
    assert!(told("vllm/vllm-openai:v0.6.4", &|_| (), old()));
}

#[test]
fn the_policy_decides_what_a_fraction_of_the_whole_device_weighs() {
    let mut cluster = Cluster::with_policy(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: strict}\nspec: {codes: {error: [VG208]}}\n",
    );
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    let verdict = cluster.create(&pod_of("a", json!([vllm(WHOLE_DEVICE, Some("0.30"))])));
    assert!(!verdict.admit);
    golden("vg208-refused", &message::refusal(&verdict));
}

#[test]
fn a_misspelt_resource_is_told_though_nothing_is_asked() {
    let mut cluster = h100(4);
    let mut text = String::new();
    for name in ["nvidia.com/gpus", "nvida.com/gpu", "gpu", "nvidia.com/mig-1g10gb"] {
        let verdict = cluster.create(&serving(&["--model", "Qwen/Qwen3-0.6B"], name, 1));
        let told = finding(&verdict, Code::Vg108);
        assert_eq!(told.severity, Severity::Warning);
        let field = format!("spec.containers[0].resources.limits[{name}]");
        assert_eq!(told.path.as_str(), field);
        // The one that begins like a MIG profile is asked for, and no node offers it.
        assert_eq!(verdict.admit, !name.contains("mig"), "{:#?}", verdict.findings);
        assert!(verdict.reservation.is_none());
        text.push_str(&message::report(&verdict, ""));
    }
    golden("vg108-resource-names", &text);
    for name in ["amd.com/gpu", "nvidia.com/gpumem", "google.com/tpu"] {
        let verdict = cluster.create(&serving(&["--model", "Qwen/Qwen3-0.6B"], name, 1));
        assert!(!verdict.judged, "{name}: {:#?}", verdict.findings);
    }
    // An engine that has no use without a GPU and asks for none is told so, and refused for nothing.
    let verdict = cluster.create(&serving(&["--model", "Qwen/Qwen3-0.6B"], "cpu", 1));
    assert!(verdict.admit && has(&verdict, Code::Vg504));
    let template = serving(&["--model", "m"], "nvidia.com/gpus", 1)["spec"]["containers"][0].clone();
    let verdict = cluster.create(&deployment("chat", 2, &template));
    let path = "spec.template.spec.containers[0].resources.limits[nvidia.com/gpus]";
    assert_eq!(finding(&verdict, Code::Vg108).path.as_str(), path);
}

#[test]
fn sizes_that_are_no_number_of_ranks_are_told() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 8, 1);
    let mut text = String::new();
    for (image, option, size) in [
        ("vllm/vllm-openai:v0.11.0", "--tensor-parallel-size", "0"),
        ("vllm/vllm-openai:v0.11.0", "--tensor-parallel-size", "-1"),
        ("vllm/vllm-openai:v0.21.0", "--tensor-parallel-size", "0"),
        (
            "vllm/vllm-openai:v0.20.0",
            "--tensor-parallel-size",
            "99999999999999999999",
        ),
        ("vllm/vllm-openai:v0.20.0", "--data-parallel-size", "4294967296"),
        ("lmsysorg/sglang:v0.5.3", "--tp-size", "0"),
        ("lmsysorg/sglang:v0.5.3", "--tp-size", "99999999999"),
    ] {
        let (program, model) = if image.starts_with("vllm") {
            (
                json!(["python3", "-m", "vllm.entrypoints.openai.api_server"]),
                "--model",
            )
        } else {
            (json!(["python3", "-m", "sglang.launch_server"]), "--model-path")
        };
        let container = json!({
            "name": "server", "image": image, "command": program,
            "args": [model, "Qwen/Qwen3-0.6B", format!("{option}={size}")],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        });
        let verdict = cluster.try_create(&pod_of("sizes", json!([container])));
        let told = finding(&verdict, Code::Vg107);
        assert!(told.message.contains(size), "{told:#?}");
        for finding in &verdict.findings {
            assert!(!finding.message.contains("4294967295"), "{finding:#?}");
            text.push_str(&message::headline(finding));
            text.push('\n');
        }
    }
    golden("vg107-parallel-sizes", &text);
}

#[test]
fn the_pages_show_these_texts_as_they_are() {
    let read = |path: String| {
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
    };
    for (code, name) in [
        ("VG107", "vg107-parallel-sizes"),
        ("VG108", "vg108-resource-names"),
        ("VG208", "vg208-whole-device"),
        ("VG208", "vg208-refused"),
        ("VG301", "g3-too-large-for-the-slice"),
        ("VG302", "g7-idle-node"),
        ("VG302", "g14-real-names"),
        ("VG303", "g12-ranks-over-slices"),
        ("VG305", "g12-slices-of-two-profiles"),
        ("VG306", "g13-profile-not-allowed"),
    ] {
        let text = read(format!("tests/texts/{name}.txt"));
        let page = read(format!("docs/codes/{code}.md"));
        assert!(page.contains(&text), "docs/codes/{code}.md lacks\n{text}");
    }
}

#[test]
fn a_front_end_without_engines_of_its_own_is_no_odd_size() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
    let told = |cluster: &mut Cluster, words: &[&str]| {
        let args = [&["--model", "Qwen/Qwen3-0.6B"], words].concat();
        has(
            &cluster.try_create(&serving(&args, "nvidia.com/gpu", 1)),
            Code::Vg107,
        )
    };
    let front = ["--data-parallel-size", "2", "--data-parallel-size-local", "0"];
    assert!(!told(&mut cluster, &front));
    assert!(!told(&mut cluster, &["-tp", "1"]));
    assert!(told(&mut cluster, &["-tp", "0"]));
    // Of an unknown release it is told once, as the newest one has it.
    let mut untagged = serving(&["--model", "Qwen/Qwen3-0.6B", "-tp", "0"], "nvidia.com/gpu", 1);
    untagged["spec"]["containers"][0]["image"] = json!("vllm/vllm-openai");
    let verdict = cluster.try_create(&untagged);
    let about = |finding: &&vramgate::finding::Finding| finding.code == Code::Vg107;
    assert_eq!(
        verdict.findings.iter().filter(about).count(),
        1,
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn a_misspelt_resource_is_told_again_only_where_it_changes() {
    let mut cluster = h100(4);
    let old = deployment(
        "chat",
        1,
        &serving(&["--model", "m"], "nvidia.com/gpus", 1)["spec"]["containers"][0],
    );
    let mut same = old.clone();
    same["spec"]["replicas"] = json!(3);
    assert!(!cluster.update(&old, &same).judged);
    let new = deployment(
        "chat",
        1,
        &serving(&["--model", "m"], "nvidia.com/GPU", 1)["spec"]["containers"][0],
    );
    let verdict = cluster.update(&old, &new);
    assert!(
        verdict.admit && has(&verdict, Code::Vg108),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn c12_what_sees_devices_without_asking_is_told_and_never_counted_as_zero() {
    let unasked = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut container = vllm(VLLM, Some("0.30"));
        container.as_object_mut().unwrap().remove("resources");
        let mut object = pod_of(name, json!([container]));
        change(&mut object["spec"]);
        object
    };
    let variable = unasked("variable", &|spec| {
        spec["containers"][0]["env"] = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    });
    let mut cluster = h100(4);
    let verdict = cluster.create(&variable);
    assert!(!verdict.admit);
    assert_eq!(finding(&verdict, Code::Vg501).severity, Severity::Error);
    assert_eq!(fixes_hold(&mut cluster, &variable, &verdict), 2);

    let mut cluster = Cluster::with_policy(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: lenient}\n\
         spec: {access: {visibleDevices: warn, privileged: warn, runtimeClasses: [nvidia]}}\n",
    );
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    let privileged = unasked("privileged", &|spec| {
        spec["containers"][0]["securityContext"] = json!({"privileged": true});
    });
    let class = unasked("class", &|spec| spec["runtimeClassName"] = json!("nvidia"));
    for (object, code) in [
        (&variable, Code::Vg501),
        (&privileged, Code::Vg502),
        (&class, Code::Vg503),
    ] {
        let verdict = cluster.create(object);
        assert!(verdict.admit, "{:#?}", verdict.findings);
        assert_eq!(finding(&verdict, code).severity, Severity::Warning);
    }
    // Three of 0.30 fill the device without a slot, so a pod that asks finds nothing left.
    let device = &cluster.ledger.devices()[0];
    assert_eq!(
        (device.slots_taken, device.promised_share),
        (0, Share::from_ppm(900_000))
    );
    assert!(has(&cluster.create(&pod("asks", "0.10")), Code::Vg201));
}

#[test]
fn m7_teams_that_are_to_be_kept_apart_do_not_share_an_mps_device() {
    let mut cluster = Cluster::with_policy(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: trusted}\n\
         spec: {device: {tenants: [[team-a, team-b]]}}\n",
    );
    let mut node = gpu_node("gpu-1", "NVIDIA-L40S", L40S, 1, 4);
    node["metadata"]["labels"]["nvidia.com/gpu.sharing-strategy"] = json!("mps");
    cluster.node(&node);
    let of = |namespace: &str, name: &str| {
        let mut object = pod(name, "0.20");
        object["metadata"]["namespace"] = json!(namespace);
        object
    };
    assert!(cluster.create(&of("team-a", "first")).admit);
    assert!(cluster.create(&of("team-b", "second")).admit, "both are trusted");
    let verdict = cluster.create(&of("team-c", "third"));
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg211);
    assert!(
        !found.message.contains("team-"),
        "names stay hidden: {}",
        found.message
    );
    assert!(found.details.iter().any(|detail| detail.contains("faults")));
}
