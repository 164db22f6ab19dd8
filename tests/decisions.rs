//! What the decision promises beside the scenarios: changes of objects, devices of their own, policies, texts, sizes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{
    Cluster, H100, L40S, VLLM, deployment, finding, fixes_hold, golden, gpu_node, has, pod, pod_of, vllm,
};
use serde_json::{Value, json};
use vramgate::decision::{Operation, Question, Verdict};
use vramgate::finding::{Code, Number, Severity};
use vramgate::message;
use vramgate::units::Mib;
use vramgate::workload::Workload;

fn with_spec(spec: &str) -> Cluster {
    Cluster::with_policy(&format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: p}}\nspec: {spec}\n"
    ))
}

fn shared(cluster: &mut Cluster, name: &str) {
    cluster.gpu_node(name, "NVIDIA-H100-80GB-HBM3", H100, 1, 8);
}

fn h100() -> Cluster {
    let mut cluster = Cluster::new();
    shared(&mut cluster, "gpu-1");
    cluster
}

fn whole(cluster: &mut Cluster, name: &str, memory: u32) {
    cluster.gpu_node(name, "NVIDIA-H100-80GB-HBM3", memory, 1, 1);
}

/// A pod as a controller makes it, of the workload of that kind and name.
fn owned(name: &str, fraction: &str, kind: &str, owner: &str, hash: &str) -> Value {
    let mut pod = pod(name, fraction);
    pod["metadata"]["labels"] = json!({"pod-template-hash": hash});
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": kind, "name": owner, "uid": format!("{owner}-uid"), "controller": true}]);
    pod
}

fn running_deployment(cluster: &mut Cluster, count: usize, fraction: &str) {
    for index in 0..count {
        cluster.running(
            &owned(
                &format!("chat-abc-{index}"),
                fraction,
                "ReplicaSet",
                "chat-abc",
                "abc",
            ),
            "gpu-1",
        );
    }
}

fn at(deployment: &Value, fraction: &str) -> Value {
    let mut changed = deployment.clone();
    changed["spec"]["template"]["spec"]["containers"][0]["args"][3] = json!(fraction);
    changed
}

// Ranks of each engine against the slots.

#[test]
fn ranks_of_every_engine_are_counted_against_the_slots() {
    let file = |command: &[&str]| json!({"image": "registry.example/server:1", "command": command});
    let variables = |image: &str, pairs: &[(&str, &str)]| {
        let env: Vec<Value> = pairs
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        json!({"image": image, "env": env})
    };
    let engines = |ranks: &str| {
        vec![
            file(&[
                "text-generation-launcher",
                "--model-id",
                "m",
                "--num-shard",
                ranks,
            ]),
            file(&["trtllm-serve", "m", "--tp_size", ranks]),
            file(&[
                "python3",
                "-m",
                "dynamo.trtllm",
                "--model-path",
                "m",
                "--tensor-parallel-size",
                ranks,
            ]),
            file(&["lmdeploy", "serve", "api_server", "m", "--tp", ranks]),
            file(&[
                "python3",
                "launch_triton_server.py",
                "--model_repo=/m",
                "--world_size",
                ranks,
            ]),
            file(&["mpirun", "-n", ranks, "tritonserver", "--model-repository=/m"]),
            file(&["torchrun", "--nproc_per_node", ranks, "train.py"]),
            variables("nvcr.io/nim/org/m:1.3.3", &[("NIM_TENSOR_PARALLEL_SIZE", ranks)]),
            variables(
                "nvcr.io/nim/org/m:2.0.1",
                &[
                    ("NIM_TENSOR_PARALLEL_SIZE", ranks),
                    ("NIM_GPU_MEM_FRACTION", "0.3"),
                ],
            ),
            variables(
                "deepjavalibrary/djl-serving:0.33.0-lmi",
                &[("HF_MODEL_ID", "m"), ("OPTION_TENSOR_PARALLEL_DEGREE", ranks)],
            ),
        ]
    };
    let verdict = |cluster: &mut Cluster, container: &Value| {
        let mut container = container.clone();
        container["name"] = json!("server");
        container["resources"] = json!({"limits": {"nvidia.com/gpu": 2}});
        cluster.create(&pod_of("p", json!([container])))
    };
    for container in engines("4") {
        let mut cluster = Cluster::new();
        cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 4, 1);
        let verdict = verdict(&mut cluster, &container);
        assert!(!verdict.admit, "{container}");
        let finding = finding(&verdict, Code::Vg105);
        assert!(
            finding.message.contains("needs 4 devices"),
            "{container}: {}",
            finding.message
        );
    }
    for container in engines("2") {
        let verdict = verdict(&mut h100(), &container);
        assert!(
            !verdict.admit && has(&verdict, Code::Vg205),
            "{container}: {:#?}",
            verdict.findings
        );
    }
}

#[test]
fn processes_of_one_launcher_need_a_device_each_unless_mps_lets_them_share_one() {
    let train = |command: &[&str], variables: Value| {
        pod_of(
            "train",
            json!([{"name": "trainer", "image": "pytorch/pytorch:2.8.0", "command": command, "env": variables,
                "resources": {"limits": {"nvidia.com/gpu": "1"}}}]),
        )
    };
    let four = train(&["torchrun", "--nproc_per_node=4", "train.py"], json!([]));
    let by_variable = train(
        &["torchrun", "train.py"],
        json!([{"name": "PET_NPROC_PER_NODE", "value": "4"}]),
    );
    for object in [&four, &by_variable] {
        let mut cluster = Cluster::new();
        whole(&mut cluster, "gpu-1", H100);
        cluster.gpu_node("gpu-4", "NVIDIA-H100-80GB-HBM3", H100, 4, 1);
        let verdict = cluster.create(object);
        assert!(!verdict.admit, "{:#?}", verdict.findings);
        let found = finding(&verdict, Code::Vg105);
        assert!(found.message.contains("needs 4 devices"), "{}", found.message);
        assert_eq!(fixes_hold(&mut cluster, object, &verdict), 1);
        // Two time-sliced slots may be one device; of one slot four processes are three too many.
        let verdict = h100().create(object);
        assert!(
            !verdict.admit && has(&verdict, Code::Vg105),
            "{:#?}",
            verdict.findings
        );
        // Clients of MPS stand on one device together (VG405).
        let mut clients = Cluster::new();
        clients.node(&kit::mps_node("mps", "NVIDIA-H100-80GB-HBM3", H100, 1, 4));
        let verdict = clients.create(object);
        assert!(
            verdict.admit && has(&verdict, Code::Vg405),
            "{:#?}",
            verdict.findings
        );
    }
    // One for each device, and numbers of all machines together, are no such statement.
    for command in [
        &["torchrun", "--nproc_per_node=1", "train.py"][..],
        &["torchrun", "--nproc_per_node=gpu", "train.py"],
        &["torchrun", "--nnodes=4", "train.py"],
        &[
            "accelerate",
            "launch",
            "--num_processes",
            "4",
            "--config_file",
            "c.yaml",
            "train.py",
        ],
    ] {
        let mut cluster = Cluster::new();
        whole(&mut cluster, "gpu-1", H100);
        let verdict = cluster.create(&train(command, json!([])));
        assert!(
            verdict.admit && !has(&verdict, Code::Vg105),
            "{command:?}: {:#?}",
            verdict.findings
        );
    }
}

// What an UPDATE may be refused for.

#[test]
fn a_device_of_which_nothing_is_usable_is_told_in_words() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("small", "NVIDIA-H100-80GB-HBM3", 400, 1, 4);
    let mut object = pod("a", "0.20");
    object["spec"]["containers"][0]["args"][1] = json!("somebody/unheard-of");
    let verdict = cluster.create(&object);
    assert!(!verdict.admit);
    let text = message::refusal(&verdict);
    assert!(
        text.contains("80 MiB (more than all of it with overhead)"),
        "{text}"
    );
    assert!(!text.contains("18446744073709"), "{text}");
}

#[test]
fn an_update_that_makes_the_amount_unreadable_is_refused() {
    let mut cluster = h100();
    let three = deployment("chat", 3, &vllm(VLLM, Some("0.30")));
    running_deployment(&mut cluster, 3, "0.30");
    let verdict = cluster.update(&three, &at(&three, "0,3"));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg101),
        "{:#?}",
        verdict.findings
    );
    let verdict = cluster.update(&at(&three, "0,4"), &at(&three, "0,3"));
    assert!(
        verdict.admit && has(&verdict, Code::Vg101),
        "it was unreadable before"
    );
    assert!(!verdict.would_deny, "no mode let it through");
}

#[test]
fn an_update_to_a_resource_that_no_node_offers_is_refused() {
    let mut cluster = h100();
    let before = deployment("chat", 1, &vllm(VLLM, Some("0.30")));
    let mut after = before.clone();
    after["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"limits": {"nvidia.com/mig-1g.10gb": 1}});
    let verdict = cluster.update(&before, &after);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg302),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn an_update_that_reaches_a_full_node_is_refused_and_one_down_to_nothing_never() {
    let mut cluster = h100();
    shared(&mut cluster, "gpu-2");
    for index in 0..3 {
        cluster.running(&pod(&format!("p{index}"), "0.30"), "gpu-2");
    }
    let mut here = deployment("chat", 2, &vllm(VLLM, Some("0.30")));
    here["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "gpu-1"});
    let mut there = here.clone();
    there["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "gpu-2"});
    assert!(!cluster.update(&here, &there).admit);
    let mut none = there.clone();
    none["spec"]["replicas"] = json!(0);
    assert!(cluster.update(&here, &none).admit, "no pods, no demand");
}

#[test]
fn more_surge_is_more_at_the_peak() {
    let mut cluster = h100();
    running_deployment(&mut cluster, 4, "0.20");
    let mut before = deployment("chat", 4, &vllm(VLLM, Some("0.20")));
    before["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let mut after = before.clone();
    after["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let verdict = cluster.update(&before, &after);
    assert!(verdict.admit);
    let mut rolled = after.clone();
    rolled["spec"]["template"]["spec"]["containers"][0]["image"] = json!("vllm/vllm-openai:v0.20.1");
    assert!(has(&cluster.update(&before, &rolled), Code::Vg203));
    let mut recreated = rolled.clone();
    recreated["spec"]["strategy"] = json!({"type": "Recreate"});
    assert!(!has(&cluster.update(&before, &recreated), Code::Vg203));
}

#[test]
fn a_rollout_counts_each_pod_at_the_larger_footprint() {
    let mut cluster = h100();
    running_deployment(&mut cluster, 3, "0.30");
    let three = deployment("chat", 3, &vllm(VLLM, Some("0.30")));
    let verdict = cluster.update(&three, &at(&three, "0.10"));
    assert!(verdict.admit);
    let found = finding(&verdict, Code::Vg203);
    assert!(
        found.message.contains("4 pods at 0.30, 1.20 above 0.90"),
        "{}",
        found.message
    );
    assert!(
        !has(&cluster.try_create(&at(&three, "0.10")), Code::Vg203),
        "no old pods"
    );
}

#[test]
fn the_numbers_of_an_update_leave_the_object_itself_out() {
    let mut cluster = h100();
    let other = cluster.running(&pod("other", "0.50"), "gpu-1");
    let old = cluster.running(&pod("mine", "0.30"), "gpu-1");
    assert_eq!(other["spec"]["nodeName"], "gpu-1");
    let mut new = old.clone();
    new["spec"]["containers"][0]["args"][3] = json!("0.60");
    let verdict = cluster.update(&old, &new);
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg201);
    assert_eq!(found.holders.len(), 1, "{:#?}", found.holders);
    assert_eq!(found.numbers["promisedMiB"], Number::Memory(Mib::new(40_780)));
    assert!(
        found
            .message
            .contains("has promised 0.50 of its budget 0.90 to 1 holder;"),
        "{}",
        found.message
    );
    new["spec"]["containers"][0]["args"][3] = json!("0.40");
    let verdict = cluster.update(&old, &new);
    assert_eq!(verdict.placement[0].promised, Mib::new(40_780 + 32_624));
}

#[test]
fn a_second_create_of_a_name_ends_the_first_ones_reservation() {
    let mut cluster = h100();
    assert!(cluster.create(&pod("p", "0.50")).admit);
    let mut again = pod("p", "0.50");
    again["metadata"]["uid"] = json!("another");
    assert!(cluster.create(&again).admit, "the first was not stored");
    assert!(!cluster.create(&pod("q", "0.50")).admit);
}

#[test]
fn own_pods_are_taken_out_through_every_owner() {
    for (kind, owner, hash, workload) in [
        ("ReplicaSet", "mine-abc", "abc", "Deployment"),
        ("Job", "mine-29742060", "", "CronJob"),
        ("StatefulSet", "mine", "", "StatefulSet"),
        ("ReplicaSet", "mine", "", "ReplicaSet"),
        ("ReplicationController", "mine", "", "ReplicationController"),
        ("Job", "mine", "", "Job"),
        ("DaemonSet", "mine", "", "DaemonSet"),
    ] {
        let mut cluster = h100();
        cluster.running(&owned("p", "0.60", kind, owner, hash), "gpu-1");
        let template = json!({"spec": {"containers": [vllm(VLLM, Some("0.60"))]}});
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": workload, "metadata": {"name": "mine", "namespace": "team-a"},
            "spec": {"template": template},
        });
        match workload {
            "Job" => object["apiVersion"] = json!("batch/v1"),
            "ReplicationController" => object["apiVersion"] = json!("v1"),
            "CronJob" => {
                object["apiVersion"] = json!("batch/v1");
                object["spec"] =
                    json!({"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}});
            }
            _ => {}
        }
        let verdict = cluster.try_create(&object);
        assert!(
            verdict.admit && verdict.judged,
            "{workload}: {:#?}",
            verdict.findings
        );
        object["metadata"]["name"] = json!("other");
        assert!(
            !cluster.try_create(&object).admit,
            "{workload}: those pods are not its own"
        );
        object["metadata"]["uid"] = json!(format!("{owner}-uid"));
        assert!(cluster.try_create(&object).admit, "{workload}: owned by its uid");
    }
}

#[test]
fn what_is_owned_or_deleted_is_not_judged_even_unreadable() {
    let mut cluster = h100();
    let mut bad = deployment("chat", 9, &vllm(VLLM, Some("0.30")));
    bad["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"limits": {"nvidia.com/gpu": "half"}});
    assert!(!cluster.try_create(&bad).admit);
    let mut deleting = bad.clone();
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(cluster.update(&bad, &deleting).admit);
    let mut set = bad.clone();
    set["kind"] = json!("ReplicaSet");
    set["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat", "uid": "u", "controller": true}]);
    let verdict = cluster.try_create(&set);
    assert!(verdict.admit && !verdict.judged);
}

#[test]
fn a_change_of_scale_is_never_refused() {
    let (few, many) = (scaled(1_000), scaled(2_147_483_647));
    assert!(many <= 2 * few, "{few} bytes allocated, then {many}");
}

/// What it allocates in all, in bytes, to judge a scale beyond the room of a node.
fn scaled(replicas: u32) -> u64 {
    let mut cluster = h100();
    let before = deployment("chat", 1, &vllm(VLLM, Some("0.30")));
    let mut after = before.clone();
    after["spec"]["replicas"] = json!(replicas);
    let read = |object: &Value| Workload::read(object).unwrap().unwrap();
    let question = Question {
        operation: Operation::Update,
        workload: read(&after),
        old: Some(read(&before)),
        namespace_labels: cluster.ledger.namespace_labels("team-a"),
        by_node: false,
        scale_only: true,
        dry_run: true,
    };
    let cost = allocation_counter::measure(|| {
        let verdict = cluster.carry_out(question);
        assert!(verdict.admit && !verdict.would_deny);
        assert_eq!(finding(&verdict, Code::Vg201).severity, Severity::Warning);
    });
    cost.bytes_total
}

#[test]
fn jobs_count_what_runs_at_once() {
    let mut cluster = h100();
    let job = |parallelism: u32, completions: Value, suspend: bool| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "team-a"}, "spec": {
            "parallelism": parallelism, "completions": completions, "suspend": suspend,
            "template": {"spec": {"containers": [vllm(VLLM, Some("0.30"))]}},
        }})
    };
    assert!(
        cluster.try_create(&job(9, json!(3), false)).admit,
        "three are left to do"
    );
    assert!(!cluster.try_create(&job(4, json!(null), false)).admit);
    let verdict = cluster.try_create(&job(4, json!(8), false));
    assert_eq!(fixes_hold(&mut cluster, &job(4, json!(8), false), &verdict), 2);
    assert!(cluster.try_create(&job(9, json!(9), true)).admit, "suspended");
    assert!(
        !cluster
            .update(&job(9, json!(9), true), &job(9, json!(9), false))
            .admit,
        "resumed"
    );
}

#[test]
fn a_daemon_set_with_surge_has_two_pods_on_a_node() {
    let mut cluster = h100();
    cluster.gpu_node("whole", "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
    let mut daemons = deployment("daemons", 1, &vllm(VLLM, Some("0.50")));
    daemons["kind"] = json!("DaemonSet");
    daemons["spec"].as_object_mut().unwrap().remove("replicas");
    assert!(!has(&cluster.try_create(&daemons), Code::Vg203));
    daemons["spec"]["updateStrategy"] = json!({"rollingUpdate": {"maxSurge": 1}});
    let verdict = cluster.try_create(&daemons);
    assert!(verdict.admit);
    golden("vg203-daemon-set", &message::report(&verdict, ""));
    // Whole devices beside the shared one: each node gets its pod, so the full one counts.
    for index in 0..3 {
        cluster.running(&pod(&format!("p{index}"), "0.30"), "gpu-1");
    }
    let verdict = cluster.try_create(&daemons);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg201),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn a_rollout_over_several_devices_is_told_by_what_fits() {
    let mut cluster = h100();
    shared(&mut cluster, "gpu-2");
    let verdict = cluster.try_create(&deployment("chat", 8, &vllm(VLLM, Some("0.20"))));
    assert!(verdict.admit);
    golden("vg203-two-nodes", &message::report(&verdict, ""));
}

// Devices that nobody shares.

#[test]
fn request_and_overhead_above_a_whole_device_is_a_warning() {
    // 0.9 x 24564 = 22108, and 2560 outside of it: 24668 of 24564.
    let mut cluster = Cluster::new();
    cluster.gpu_node("card", "NVIDIA-GeForce-RTX-4090", 24_564, 1, 1);
    let object = |fraction: &str| pod_of("p", json!([vllm("vllm/vllm-openai:v0.6.3", Some(fraction))]));
    let verdict = cluster.try_create(&object("0.9"));
    assert!(verdict.admit, "{:#?}", verdict.findings);
    let found = finding(&verdict, Code::Vg201);
    assert_eq!(found.severity, Severity::Warning);
    golden("vg201-whole-device", &message::report(&verdict, ""));
    assert_eq!(
        found.numbers["largestFraction"],
        Number::Share(vramgate::units::Share::from_ppm(895_000))
    );
    assert!(!has(&cluster.try_create(&object("0.895")), Code::Vg201));
    assert!(!has(
        &cluster.try_create(&pod_of("p", json!([vllm(VLLM, None)]))),
        Code::Vg201
    ));
}

#[test]
fn the_policy_decides_what_becomes_of_unknown_amounts_on_devices_of_their_own() {
    let trainer = json!({
        "name": "train", "image": "registry.example/team/trainer:1.2", "command": ["python", "train.py"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    });
    let uncapped = json!({"name": "o", "image": "ollama/ollama:0.12.0", "resources": {"limits": {"nvidia.com/gpu": "1"}}});
    for (rule, severity) in [
        ("admit", None),
        ("deny", Some(Severity::Error)),
        ("warn", Some(Severity::Warning)),
        ("{assume: \"0.5\"}", Some(Severity::Info)),
    ] {
        let mut cluster = with_spec(&format!("{{unknown: {{exclusive: {rule}}}}}"));
        whole(&mut cluster, "whole", H100);
        for (container, codes) in [
            (&trainer, [Code::Vg106, Code::Vg206]),
            (&uncapped, [Code::Vg106, Code::Vg206]),
        ] {
            let verdict = cluster.try_create(&pod_of("p", json!([container])));
            let found = verdict
                .findings
                .iter()
                .find(|finding| codes.contains(&finding.code));
            assert_eq!(
                found.map(|finding| finding.severity),
                severity,
                "{rule}: {:#?}",
                verdict.findings
            );
            assert_eq!(verdict.admit, rule != "deny");
        }
    }
    let mut cluster = with_spec("{unknown: {exclusive: deny}}");
    whole(&mut cluster, "whole", H100);
    let verdict = cluster.try_create(&pod_of("p", json!([trainer])));
    golden("vg106-on-a-whole-device", &message::refusal(&verdict));
}

// Nodes of several kinds.

#[test]
fn a_pod_that_could_go_to_a_full_shared_device_needs_a_place() {
    let mut cluster = h100();
    whole(&mut cluster, "whole", H100);
    assert!(cluster.create(&pod("a", "0.90")).admit, "to the whole one");
    let taken = cluster.running(&pod("whole-taken", "0.90"), "whole");
    assert_eq!(taken["spec"]["nodeName"], "whole");
    for index in 0..2 {
        cluster.running(&pod(&format!("p{index}"), "0.45"), "gpu-1");
    }
    let verdict = cluster.create(&pod("b", "0.30"));
    assert!(
        !verdict.admit,
        "a free slot and no memory: the scheduler would bind it there"
    );
    golden("vg201-shared-beside-whole", &message::refusal(&verdict));
    let mut waits = pod("c", "0.30");
    waits["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "whole"});
    assert!(
        cluster.create(&waits).admit,
        "whole devices are the scheduler's to count"
    );
}

#[test]
fn what_no_node_offers_waits_where_an_autoscaler_may_add_nodes() {
    let mut cluster = with_spec("{placement: {growth: [{matchLabels: {pool: big}}]}}");
    whole(&mut cluster, "small", H100);
    let many = |resource: &str, slots: u32| {
        let mut object = pod("p", "0.5");
        object["spec"]["containers"][0]["resources"] = json!({"limits": {resource: slots}});
        object["spec"]["containers"][0]["args"]
            .as_array_mut()
            .unwrap()
            .extend([json!("-tp"), json!(slots.to_string())]);
        object
    };
    let verdict = cluster.try_create(&many("nvidia.com/gpu", 8));
    assert!(
        verdict.admit && has(&verdict, Code::Vg703),
        "{:#?}",
        verdict.findings
    );
    assert!(cluster.try_create(&many("nvidia.com/mig-1g.10gb", 1)).admit);
}

#[test]
fn resources_of_different_nodes_are_told_as_such() {
    let mut cluster = h100();
    let mut node = gpu_node("slices", "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
    node["status"]["capacity"] = json!({"nvidia.com/mig-1g.10gb": "7"});
    node["status"]["allocatable"] = json!({"nvidia.com/mig-1g.10gb": "7"});
    cluster.node(&node);
    let mut second = vllm(VLLM, Some("0.30"));
    second["name"] = json!("second");
    second["resources"] = json!({"limits": {"nvidia.com/mig-1g.10gb": 1}});
    let verdict = cluster.try_create(&pod_of("p", json!([vllm(VLLM, Some("0.30")), second])));
    assert!(!verdict.admit);
    golden("vg302-on-different-nodes", &message::refusal(&verdict));
}

#[test]
fn slots_of_init_containers_and_containers_are_not_added() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("whole", "NVIDIA-H100-80GB-HBM3", H100, 4, 1);
    let ask = |name: &str, slots: u32| {
        json!({"name": name, "image": "registry.example/team/trainer:1", "command": ["python", "t.py"],
               "resources": {"limits": {"nvidia.com/gpu": slots}}})
    };
    let mut object = pod_of("p", json!([ask("main", 4)]));
    object["spec"]["initContainers"] = json!([ask("warm-up", 4)]);
    assert!(cluster.try_create(&object).admit);
    object["spec"]["initContainers"] = json!([ask("warm-up", 6)]);
    let verdict = cluster.try_create(&object);
    assert_eq!(finding(&verdict, Code::Vg703).numbers["slots"], Number::Count(6));
    object["spec"]["initContainers"][0]["restartPolicy"] = json!("Always");
    let verdict = cluster.try_create(&object);
    assert_eq!(
        finding(&verdict, Code::Vg703).numbers["slots"],
        Number::Count(10),
        "a sidecar stays"
    );
}

// Policies.

#[test]
fn a_mode_that_lets_errors_pass_tells_them_first() {
    for mode in ["warn", "shadow"] {
        let mut cluster = with_spec(&format!("{{mode: {mode}}}"));
        cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
        let mut container = vllm("vllm/vllm-openai:latest", None);
        container["env"] =
            json!([{"name": "MODEL_NAME", "value": "m"}, {"name": "GPU_MEMORY_UTILIZATION", "value": "0.2"}]);
        let verdict = cluster.create(&pod_of("p", json!([container])));
        assert!(verdict.admit && verdict.would_deny, "{mode}");
        let warnings = message::warnings(&verdict);
        assert!(
            warnings[0].starts_with("VG201") || warnings[0].starts_with("VG207"),
            "{warnings:#?}"
        );
        assert_eq!(warnings.len(), 3);
        assert_eq!(cluster.ledger.reserved(), 1, "it is counted all the same");
    }
}

#[test]
fn a_pod_is_refused_only_where_no_kind_of_node_lets_it_through() {
    let mut cluster = with_spec("{match: {nodes: {matchLabels: {pool: trial}}}, mode: warn}");
    shared(&mut cluster, "gpu-1");
    let mut trial = gpu_node("gpu-2", "NVIDIA-L40S", L40S, 1, 4);
    trial["metadata"]["labels"]["pool"] = json!("trial");
    cluster.node(&trial);
    for (node, count) in [("gpu-1", 3), ("gpu-2", 3)] {
        for index in 0..count {
            cluster.running(&pod(&format!("{node}-{index}"), "0.30"), node);
        }
    }
    let verdict = cluster.create(&pod("p", "0.30"));
    assert!(verdict.admit && verdict.would_deny, "{:#?}", verdict.findings);
}

#[test]
fn a_policys_own_image_is_read_by_its_variables() {
    let container = json!({
        "name": "server", "image": "vllm/vllm-openai:v0.20.0",
        "env": [
            {"name": "MODEL_NAME", "value": "Qwen/Qwen2.5-7B-Instruct-AWQ"},
            {"name": "GPU_MEMORY_UTILIZATION", "value": "0.35"},
            {"name": "MAX_MODEL_LEN", "value": "8192"},
        ],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    });
    let object = pod_of("p", json!([container]));
    let plain = h100().try_create(&object);
    assert_eq!(
        plain
            .findings
            .iter()
            .filter(|finding| finding.code == Code::Vg103)
            .count(),
        3
    );
    assert!(!plain.admit && has(&plain, Code::Vg207));
    let mut cluster = with_spec(
        "{engines: [{images: [\"vllm/vllm-openai\"], engine: vllm, variables: {MODEL_NAME: --model, \
         GPU_MEMORY_UTILIZATION: --gpu-memory-utilization, MAX_MODEL_LEN: --max-model-len}}]}",
    );
    shared(&mut cluster, "gpu-1");
    let verdict = cluster.try_create(&object);
    assert!(
        verdict.admit && !has(&verdict, Code::Vg103),
        "{:#?}",
        verdict.findings
    );
    assert_eq!(verdict.placement[0].promised, Mib::new(28_546));
}

// Texts.

#[test]
fn other_namespaces_are_never_named_unless_the_policy_says_so() {
    for (spec, named) in [("{}", false), ("{messages: {otherNamespaces: true}}", true)] {
        let mut cluster = with_spec(spec);
        shared(&mut cluster, "gpu-1");
        let mut theirs = pod("their-pod", "0.80");
        theirs["metadata"]["namespace"] = json!("their-team");
        theirs["spec"]["containers"][0]["name"] = json!("their-container");
        cluster.running(&theirs, "gpu-1");
        for object in [pod("p", "0.30"), deployment("d", 2, &vllm(VLLM, Some("0.30")))] {
            let verdict = cluster.try_create(&object);
            assert!(!verdict.admit);
            let all = format!(
                "{}{}",
                message::refusal(&verdict),
                serde_json::to_string(&verdict.findings).unwrap()
            );
            assert_eq!(all.contains("their"), named, "{all}");
            assert!(all.contains("a pod of another namespace") != named, "{all}");
        }
    }
}

#[test]
fn first_lines_are_complete_whatever_the_names() {
    let long = "c".repeat(63);
    let node = format!("node-{}.example.internal", "n".repeat(200));
    let mut cluster = Cluster::new();
    cluster.gpu_node(
        &node,
        "NVIDIA-H100-80GB-HBM3-OF-A-VERY-LONG-NAME-BY-SOME-VENDOR-00",
        H100,
        1,
        4,
    );
    let mut mps = gpu_node("mps", "NVIDIA-L40S", L40S, 1, 4);
    mps["metadata"]["labels"]["nvidia.com/gpu.sharing-strategy"] = json!("mps");
    cluster.node(&mps);
    let check = |verdict: &Verdict| {
        for finding in &verdict.findings {
            let line = message::headline(finding);
            assert!(line.len() < 256 && !line.ends_with('…'), "{}: {line}", line.len());
        }
    };
    let mut containers = Vec::new();
    for (image, fraction) in [
        (VLLM, Some("0.30")),
        (VLLM, None),
        (
            "vllm/vllm-openai",
            Some("1.23456789012345678901234567890123456789012345678901234567890"),
        ),
    ] {
        containers.push(vllm(image, fraction));
    }
    let mut secret = vllm(
        VLLM,
        Some("$(A_LONG_NAME_OF_A_VARIABLE_THAT_COMES_FROM_A_SECRET)"),
    );
    secret["env"] = json!([{"name": "A_LONG_NAME_OF_A_VARIABLE_THAT_COMES_FROM_A_SECRET", "valueFrom": {"secretKeyRef": {
        "name": "s".repeat(253), "key": "k".repeat(253)}}}]);
    containers.push(secret);
    let long_image = format!("registry.example/{}/trainer", "i".repeat(180));
    containers.push(
        json!({"image": long_image, "command": ["/opt/app/bin/".to_owned() + &"x".repeat(200)],
        "resources": {"limits": {"nvidia.com/gpu": "1"}}}),
    );
    containers
        .push(json!({"image": "ollama/ollama:0.12.0", "resources": {"limits": {"nvidia.com/gpu": "1"}}}));
    for mut container in containers {
        container["name"] = json!(long);
        for slots in [1, 2, 900_000_000] {
            container["resources"]["limits"]["nvidia.com/gpu"] = json!(slots);
            check(&cluster.try_create(&pod_of("p", json!([container]))));
            check(&cluster.try_create(&deployment("d", 2_000_000_000, &container)));
        }
        container["args"] = json!(["--tensor-parallel-size", "2000000000"]);
        check(&cluster.try_create(&pod_of("p", json!([container]))));
    }
    for index in 0..4 {
        let mut object = pod(&format!("p{index}"), "0.20");
        object["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        object["spec"]["containers"][0]["name"] = json!(long);
        check(&cluster.create(&object));
    }
    let mut object = pod("more", "0.01");
    object["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    check(&cluster.create(&object));
}

// Sizes.

#[test]
fn ten_thousand_replicas_on_a_thousand_nodes_are_judged_at_once() {
    let (small, large) = (judged_on(250), judged_on(1_000));
    for (small, large) in small.into_iter().zip(large) {
        assert!(large <= 6 * small, "{small} bytes allocated, then {large}");
    }
}

/// What it allocates in all, in bytes, to refuse ten replicas a node, to admit two, and to judge one more pod beside 40.
fn judged_on(nodes: u32) -> [u64; 3] {
    let mut cluster = Cluster::new();
    for index in 0..nodes {
        cluster.gpu_node(&format!("n{index:04}"), "NVIDIA-L40S", L40S, 1, 8);
    }
    for index in 0..nodes / 2 {
        cluster.running(&pod(&format!("p{index}"), "0.10"), &format!("n{index:04}"));
    }
    let object = deployment("many", 10 * nodes, &vllm(VLLM, Some("0.30")));
    let refused = allocation_counter::measure(|| {
        let verdict = cluster.try_create(&object);
        assert!(!verdict.admit);
        assert_eq!(
            finding(&verdict, Code::Vg201).numbers["replicasThatFit"],
            Number::Count(u64::from(nodes / 2 * 5))
        );
    });
    let object = deployment("few", 2 * nodes, &vllm(VLLM, Some("0.30")));
    let admitted = allocation_counter::measure(|| {
        let verdict = cluster.try_create(&object);
        assert!(verdict.admit, "{:#?}", verdict.findings);
    });
    for index in 0..40 {
        let _ = cluster.create(&pod(&format!("waiting-{index}"), "0.85"));
    }
    let object = pod("one-more", "0.89");
    let one_more = allocation_counter::measure(|| drop(cluster.try_create(&object)));
    [refused, admitted, one_more].map(|cost| cost.bytes_total)
}

#[test]
fn sizes_beyond_any_device_do_not_overflow() {
    let mut cluster = Cluster::new();
    let mut node = gpu_node("huge", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    node["metadata"]["labels"]["nvidia.com/gpu.memory"] = json!((1_u64 << 40).to_string());
    cluster.node(&node);
    for fraction in ["0.30", "0.000001", "0.9999999"] {
        let verdict = cluster.create(&deployment("d", 2_147_483_647, &vllm(VLLM, Some(fraction))));
        assert!(verdict.judged);
    }
    assert!(cluster.create(&pod("p", "0.30")).admit);
    let verdict = cluster.create(&pod("q", "0.70"));
    assert!(!verdict.admit && fixes_hold(&mut cluster, &pod("q", "0.70"), &verdict) == 1);
}

#[test]
fn each_other_code_in_words() {
    let mut slices = gpu_node("slices", "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
    for list in ["capacity", "allocatable"] {
        slices["status"][list] = json!({"nvidia.com/mig-1g.10gb": "7"});
    }
    let mut nameless = gpu_node("nameless", "Some-Card", H100, 1, 4);
    nameless["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("nvidia.com/gpu.memory");
    let mut cluster = h100();
    cluster.node(&slices);
    cluster.node(&nameless);
    cluster.gpu_node("whole", "NVIDIA-L40S", L40S, 8, 1);
    let on = |node: &str, slots: u32, more: &[&str]| {
        let mut container = vllm(VLLM, Some("0.30"));
        let resource = if node == "slices" {
            "nvidia.com/mig-1g.10gb"
        } else {
            "nvidia.com/gpu"
        };
        container["resources"] = json!({"limits": {resource: slots}});
        let args = container["args"].as_array_mut().unwrap();
        args.extend(more.iter().map(|word| json!(word)));
        let mut object = pod_of("p", json!([container]));
        object["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        object
    };
    let mut variable = on("gpu-1", 1, &[]);
    variable["spec"]["containers"][0]["env"] = json!([{"name": "GPU_MEMORY_UTILIZATION", "value": "0.2"}]);
    let mut floating = on("gpu-1", 1, &[]);
    floating["spec"]["containers"][0]["image"] = json!("vllm/vllm-openai:latest");
    let mut anywhere = pod_of("p", json!([vllm(VLLM, None)]));
    anywhere["spec"]["containers"][0]["args"] = json!(["--model", "m"]);
    for (code, object) in [
        (Code::Vg103, variable),
        (Code::Vg109, floating),
        (Code::Vg213, on("whole", 4, &["-tp", "2"])),
        (Code::Vg303, on("slices", 2, &["-tp", "2"])),
        (Code::Vg305, on("slices", 2, &[])),
        (Code::Vg704, on("nameless", 1, &[])),
        (Code::Vg207, anywhere),
    ] {
        let verdict = cluster.try_create(&object);
        let found = finding(&verdict, code);
        let name = format!("{}-in-words", code.as_str().to_lowercase());
        golden(&name, &message::report(&verdict, ""));
        if found.severity == Severity::Error {
            fixes_hold(&mut cluster, &object, &verdict);
        }
    }
    // What a shared device has left of a size that is not known is told in fractions alone.
    for index in 0..3 {
        cluster.running(&pod(&format!("n{index}"), "0.30"), "nameless");
    }
    let verdict = cluster.try_create(&on("nameless", 1, &[]));
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg201);
    assert!(
        !found.message.contains("MiB") && !found.numbers.contains_key("requestMiB"),
        "{}",
        found.message
    );
}

#[test]
fn proposals_cost_no_joint_search_each() {
    let mut cluster = Cluster::new();
    for index in 0..4 {
        cluster.gpu_node(&format!("n{index}"), "NVIDIA-L40S", L40S, 1, 8);
    }
    for index in 0..16 {
        let fraction = format!("0.{}", 151 + index * 7 % 80);
        let _ = cluster.create(&pod(&format!("w{index}"), &fraction));
    }
    let object = pod("one-more", "0.80");
    let verdict = cluster.try_create(&object);
    assert!(!verdict.admit);
    fixes_hold(&mut cluster, &object, &verdict);
}

#[test]
fn a_place_that_no_record_holds_is_told_with_the_reason() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("n1", "NVIDIA-L40S", L40S, 1, 4);
    let text = |cluster: &mut Cluster, why: &str| {
        let prepared = cluster.prepared(&pod("p", "0.30"));
        let verdict = vramgate::decision::unrecorded(&prepared, &cluster.ledger, "n1", why);
        assert!(!verdict.admit && verdict.reservation.is_none());
        message::refusal(&verdict)
    };
    golden(
        "vg902-not-recorded",
        &text(&mut cluster, "the store did not answer in time"),
    );
    let long = text(
        &mut cluster,
        &"the API server said something very long; ".repeat(20),
    );
    assert!(
        long.lines()
            .next()
            .is_some_and(|line| line.len() < 256 && line.ends_with("try again")),
        "{long}"
    );
}

#[test]
fn a_namespace_cannot_fill_the_ledger_with_pods_that_are_never_stored() {
    let mut cluster = Cluster::new();
    for index in 0..130 {
        cluster.gpu_node(&format!("n{index}"), "NVIDIA-L40S", L40S, 1, 8);
    }
    for index in 0..1_000 {
        assert!(cluster.create(&pod(&format!("p{index}"), "0.10")).admit);
    }
    let verdict = cluster.create(&pod("one-more", "0.10"));
    assert!(!verdict.admit);
    assert!(has(&verdict, Code::Vg902));
    golden("vg902-pods-never-seen", &message::refusal(&verdict));
    let mut elsewhere = pod("elsewhere", "0.10");
    elsewhere["metadata"]["namespace"] = json!("team-b");
    assert!(cluster.create(&elsewhere).admit, "other namespaces go on");
    // Once one is seen there is room for one more.
    let mut seen = pod("p0", "0.10");
    seen["metadata"]["uid"] = json!("uid-1");
    cluster.see(&seen);
    assert!(cluster.create(&pod("one-more", "0.10")).admit);
}

/// A node whose count of slots cannot be read may have some: the refusal says what cannot be read.
#[test]
fn what_cannot_be_read_of_a_node_is_told_where_nobody_offers_it() {
    let mut cluster = Cluster::new();
    let mut node = gpu_node("odd", "NVIDIA-L40S", 46_068, 1, 4);
    node["status"]["capacity"] = json!({});
    node["status"]["allocatable"]["nvidia.com/gpu"] = json!("four");
    cluster.node(&node);
    let verdict = cluster.create(&pod("a", "0.30"));
    let found = finding(&verdict, Code::Vg302);
    let text = message::headline(found);
    assert!(
        text.contains(
            "node odd: status.allocatable[nvidia.com/gpu] is \"four\", which is not a count of slots"
        ),
        "{text}"
    );
    assert!(text.len() < 256, "{text}");
    // Where the capacity can be read it is used, and the reason told where the pod passes (VG704).
    node["status"]["capacity"]["nvidia.com/gpu"] = json!("4");
    cluster.node(&node);
    let verdict = cluster.create(&pod("b", "0.30"));
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert!(
        finding(&verdict, Code::Vg704).message.contains("\"four\""),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn a_pod_comes_under_notice_where_its_sources_of_variables_hint_at_devices() {
    let may = |source: Value, class: Option<&str>| {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"runtimeClassName": class, "containers": [
            {"name": "c", "image": "registry.example/app:1", "envFrom": [source]}]}});
        vramgate::demand::access::may_reach(&serde_json::from_value(pod).unwrap(), |_| false)
    };
    let map = |name: &str| json!({"configMapRef": {"name": name}});
    let prefixed = |prefix: &str, name: &str| json!({"prefix": prefix, "configMapRef": {"name": name}});
    for (source, class, noticed) in [
        (map("gpu-settings"), None, true),
        (map("team-nvidia"), None, true),
        (json!({"secretRef": {"name": "cuda"}}), None, true),
        (map("settings"), None, false),
        (map("settings"), Some("nvidia"), true),
        (map("settings"), Some("gvisor"), false),
        (prefixed("NVIDIA_", "settings"), None, true),
        (prefixed("NVIDIA_VISIBLE_DEVICES", "settings"), None, true),
        (prefixed("APP_", "gpu-settings"), Some("nvidia"), false),
        (json!({}), None, false),
    ] {
        assert_eq!(may(source.clone(), class), noticed, "{source} {class:?}");
    }
}
