//! What the policy changes in a pod before it is judged: limits of MPS clients, and a fraction where there is none.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

use proptest::prelude::*;
use serde_json::{Value, json};
use vramgate::finding::{Code, Severity};
use vramgate::message;

mod kit;

use kit::{Cluster, H100, L40S, VLLM, finding, golden, gpu_node, has, mps_node, pod, pod_of, vllm};

const LIMIT: &str = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
const THREADS: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
const PRODUCT: &str = "NVIDIA-H100-80GB-HBM3";

/// One H100 with four slots under MPS.
fn mps() -> Cluster {
    with(&[mps_node("mps", PRODUCT, H100, 1, 4)])
}

fn with(nodes: &[Value]) -> Cluster {
    let mut cluster = Cluster::new();
    for node in nodes {
        cluster.node(node);
    }
    cluster
}

fn policy(spec: &str, nodes: &[Value]) -> Cluster {
    let mut cluster = Cluster::with_policy(&format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: test}}\nspec: {spec}\n"
    ));
    for node in nodes {
        cluster.node(node);
    }
    cluster
}

fn env<'v>(object: &'v Value, container: usize, name: &str) -> Option<&'v str> {
    let variables = object["spec"]["containers"][container]["env"].as_array()?;
    let mut found = variables.iter().filter(|variable| variable["name"] == name);
    let variable = found.next()?;
    assert!(found.next().is_none(), "{name} twice: {object:#}");
    variable["value"].as_str()
}

fn with_env(mut object: Value, variables: &[(&str, &str)]) -> Value {
    let list: Vec<Value> = variables
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    object["spec"]["containers"][0]["env"] = json!(list);
    object
}

/// Mutates, looks that a second pass changes nothing, and that the validating call then agrees with `check`.
fn settled(cluster: &mut Cluster, object: &Value) -> Value {
    let once = cluster.mutated(object);
    assert_eq!(cluster.patches(&once), [], "a second pass changes {once:#}");
    let stored = cluster.try_create(&once);
    let checked = cluster.check(object);
    assert_eq!(
        stored.admit, checked.admit,
        "{:#?}\n{:#?}",
        stored.findings, checked.findings
    );
    let codes = |verdict: &vramgate::decision::Verdict| -> Vec<Code> {
        verdict.findings.iter().map(|finding| finding.code).collect()
    };
    assert_eq!(codes(&stored), codes(&checked), "{once:#}");
    once
}

#[test]
fn m1_a_client_is_limited_to_its_footprint_and_its_part_of_the_threads() {
    let mut cluster = mps();
    let changed = settled(&mut cluster, &pod("a", "0.20"));
    assert_eq!(env(&changed, 0, LIMIT), Some("0=16952M"));
    assert_eq!(env(&changed, 0, THREADS), Some("25"));
    let verdict = cluster.create(&changed);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert_eq!(verdict.findings, []);
    // The daemon's limit is never exceeded: 0.242 comes to 20378 of 20389.
    let mut cluster = mps();
    let changed = settled(&mut cluster, &pod("a", "0.242"));
    assert_eq!(env(&changed, 0, LIMIT), Some("0=20378M"));
    // What is refused there is not touched.
    assert_eq!(cluster.mutated(&pod("a", "0.30")), pod("a", "0.30"));
}

#[test]
fn the_patch_is_small_and_says_what_it_set() {
    let patches = serde_json::to_value(mps().patches(&pod("a", "0.20"))).unwrap();
    let record = format!(r#"{{"server":{{"{THREADS}":"25","{LIMIT}":"0=16952M"}}}}"#);
    assert_eq!(
        patches,
        json!([
            {"op": "add", "path": "/spec/containers/0/env", "value": [
                {"name": LIMIT, "value": "0=16952M"}, {"name": THREADS, "value": "25"}]},
            {"op": "add", "path": "/metadata/annotations", "value": {"vramgate.io/mutated": record}},
        ])
    );
    let mut other = with_env(pod("a", "0.20"), &[("A", "b")]);
    other["metadata"]["annotations"] = json!({"team/a~b": "c"});
    let patches = serde_json::to_value(mps().patches(&other)).unwrap();
    assert_eq!(
        patches,
        json!([
            {"op": "add", "path": "/spec/containers/0/env/-", "value": {"name": LIMIT, "value": "0=16952M"}},
            {"op": "add", "path": "/spec/containers/0/env/-", "value": {"name": THREADS, "value": "25"}},
            {"op": "add", "path": "/metadata/annotations/vramgate.io~1mutated", "value": record},
        ])
    );
    settled(&mut mps(), &other);
}

#[test]
fn only_containers_that_use_a_device_are_touched_wherever_they_stand() {
    let mut object = pod("a", "0.20");
    let server = object["spec"]["containers"][0].clone();
    object["spec"]["containers"] = json!([{"name": "log", "image": "busybox", "env": null}, server]);
    let mut sidecar = vllm(VLLM, Some("0.10"));
    sidecar["name"] = json!("side");
    sidecar["restartPolicy"] = json!("Always");
    sidecar["env"] = json!(null);
    object["spec"]["initContainers"] = json!([
        {"name": "load", "image": "busybox", "command": ["true"]},
        sidecar,
    ]);
    let changed = settled(&mut mps(), &object);
    assert_eq!(changed["spec"]["containers"][0], object["spec"]["containers"][0]);
    assert_eq!(
        changed["spec"]["initContainers"][0],
        object["spec"]["initContainers"][0]
    );
    assert_eq!(env(&changed, 1, LIMIT), Some("0=16952M"));
    assert_eq!(changed["spec"]["initContainers"][1]["env"][0]["value"], "0=8796M");
    // A slot that is held by nobody who uses it, and pods that ask for none.
    let idle = pod_of(
        "idle",
        json!([{"name": "c", "image": "busybox", "command": ["sleep", "1"], "resources": {"limits": {"nvidia.com/gpu": "1"}}}]),
    );
    assert_eq!(mps().patches(&idle), []);
    assert_eq!(
        mps().patches(&pod_of("cpu", json!([{"name": "c", "image": "busybox"}]))),
        []
    );
}

#[test]
fn nodes_without_mps_change_nothing_and_nodes_of_several_sizes_are_all_served() {
    assert_eq!(
        with(&[gpu_node("t", PRODUCT, H100, 1, 4)]).patches(&pod("a", "0.20")),
        []
    );
    assert_eq!(
        with(&[gpu_node("w", PRODUCT, H100, 1, 1)]).patches(&pod("a", "0.20")),
        []
    );
    let mixed = [
        mps_node("large", PRODUCT, H100, 1, 4),
        mps_node("small", "NVIDIA-L40S", L40S, 1, 2),
        gpu_node("sliced", "NVIDIA-L40S", L40S, 1, 2),
    ];
    let changed = settled(&mut with(&mixed), &pod("a", "0.20"));
    // What it needs where it needs most, and the larger part of the threads: the daemons keep both below their own.
    assert_eq!(env(&changed, 0, LIMIT), Some("0=16952M"));
    assert_eq!(env(&changed, 0, THREADS), Some("50"));
    // Where nothing tells the need, what the smallest has for a slot.
    let open = pod_of("open", json!([ollama(&[("OLLAMA_MAX_LOADED_MODELS", "1")])]));
    let changed = settled(&mut with(&mixed[..2]), &open);
    assert_eq!(env(&changed, 0, LIMIT), Some("0=18350M"));
}

fn ollama(variables: &[(&str, &str)]) -> Value {
    let list: Vec<Value> = variables
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    json!({"name": "ollama", "image": "ollama/ollama:0.12.0", "env": list,
        "resources": {"limits": {"nvidia.com/gpu": "1"}}})
}

fn torch(arguments: &[&str]) -> Value {
    let mut command = vec!["torchrun"];
    command.extend(arguments);
    command.push("train.py");
    pod_of(
        "train",
        json!([{"name": "trainer", "image": "pytorch/pytorch:2.8.0", "command": command,
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]),
    )
}

#[test]
fn m4_the_limit_is_divided_among_the_processes_of_a_container() {
    let two = torch(&["--nproc_per_node=2"]);
    let mut cluster = mps();
    let changed = settled(&mut cluster, &two);
    assert_eq!(env(&changed, 0, LIMIT), Some("0=9175M"));
    let verdict = cluster.create(&changed);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    let found = finding(&verdict, Code::Vg405);
    assert_eq!(found.severity, Severity::Warning);
    golden("m4-several-processes", &message::headline(found));
    assert!(!has(&verdict, Code::Vg406));
    // Four such slots are the whole budget.
    for name in ["b", "c", "d"] {
        let mut other = changed.clone();
        other["metadata"]["name"] = json!(name);
        assert!(cluster.create(&other).admit, "{name}");
    }
    for (arguments, limit) in [
        (&["--nproc-per-node", "3"][..], "0=6116M"),
        (&["--nproc_per_node=gpu"], "0=18350M"),
        (&[], "0=18350M"),
    ] {
        let changed = settled(&mut mps(), &torch(arguments));
        assert_eq!(env(&changed, 0, LIMIT), Some(limit), "{arguments:?}");
    }
    // Each model that Ollama has loaded is a process, three for each device unless it is told otherwise.
    let changed = settled(&mut mps(), &pod_of("o", json!([ollama(&[])])));
    assert_eq!(env(&changed, 0, LIMIT), Some("0=6116M"));
    // Without a limit of their own, processes are counted with a slot's part each.
    let verdict = policy(
        "{mps: {memoryLimit: none}}",
        &[mps_node("mps", PRODUCT, H100, 1, 4)],
    )
    .create(&two);
    assert_eq!(verdict.placement[0].promised_fraction.ppm(), 450_000);
}

#[test]
fn vg405_proposes_a_limit_for_each_process_that_keeps_them_to_one_slot() {
    let spec = "{mps: {memoryLimit: none}}";
    let nodes = [mps_node("mps", PRODUCT, H100, 1, 4)];
    let two = torch(&["--nproc_per_node=2"]);
    let mut with_other = two.clone();
    with_other["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "b"}]);
    let own = with_env(two.clone(), &[(LIMIT, "0=18350M")]);
    for object in [&two, &with_other, &own] {
        let mut cluster = policy(spec, &nodes);
        let verdict = cluster.try_create(object);
        assert!(verdict.admit, "{:#?}", verdict.findings);
        let fixes = &finding(&verdict, Code::Vg405).fixes;
        assert_eq!(fixes.len(), 1);
        let changed = kit::apply(object, &fixes[0]);
        assert_eq!(env(&changed, 0, LIMIT), Some("0=10194M"));
        let again = cluster.create(&changed);
        assert!(again.admit, "{:#?}", again.findings);
        assert_eq!(finding(&again, Code::Vg405).fixes, []);
    }
    // What the policy divided needs nothing.
    let mut cluster = mps();
    let changed = settled(&mut cluster, &two);
    assert_eq!(finding(&cluster.try_create(&changed), Code::Vg405).fixes, []);
}

#[test]
fn m6_what_the_user_wrote_stays_unless_the_policy_overrides() {
    let own = with_env(pod("a", "0.20"), &[(LIMIT, "0=40000M"), (THREADS, "80")]);
    let mut cluster = mps();
    assert_eq!(cluster.patches(&own), []);
    let verdict = cluster.create(&own);
    assert!(verdict.admit);
    let told: Vec<String> = verdict
        .findings
        .iter()
        .map(|finding| {
            format!(
                "{} {} at {}",
                finding.severity.as_str(),
                message::headline(finding),
                finding.path
            )
        })
        .collect();
    golden("m6-above-the-daemons", &told.join("\n"));
    let mut cluster = policy("{mps: {override: true}}", &[mps_node("mps", PRODUCT, H100, 1, 4)]);
    let changed = settled(&mut cluster, &own);
    assert_eq!(env(&changed, 0, LIMIT), Some("0=16952M"));
    assert_eq!(env(&changed, 0, THREADS), Some("25"));
    assert_eq!(cluster.create(&changed).findings, []);
    // A lower one that would stop the engine is replaced as well.
    let low = with_env(pod("a", "0.20"), &[(LIMIT, "0=1G")]);
    let changed = settled(&mut cluster, &low);
    assert_eq!(env(&changed, 0, LIMIT), Some("0=16952M"));
    assert!(cluster.check(&low).admit);
    // One of two is the user's: the other is ours to set.
    let changed = settled(&mut mps(), &with_env(pod("a", "0.20"), &[(THREADS, "10")]));
    assert_eq!(
        (env(&changed, 0, LIMIT), env(&changed, 0, THREADS)),
        (Some("0=16952M"), Some("10"))
    );
    // What comes from elsewhere is the user's too.
    let mut from = pod("a", "0.20");
    from["spec"]["containers"][0]["env"] =
        json!([{"name": LIMIT, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    let changed = settled(&mut mps(), &from);
    assert_eq!(
        changed["spec"]["containers"][0]["env"][0],
        from["spec"]["containers"][0]["env"][0]
    );
    let mut cluster = policy("{mps: {override: true}}", &[mps_node("mps", PRODUCT, H100, 1, 4)]);
    assert_eq!(env(&settled(&mut cluster, &from), 0, LIMIT), Some("0=16952M"));
}

#[test]
fn a_lower_limit_of_the_users_is_respected_and_judged() {
    let low = with_env(pod("a", "0.20"), &[(LIMIT, "0=12G")]);
    let mut cluster = mps();
    let changed = settled(&mut cluster, &low);
    assert_eq!(env(&changed, 0, LIMIT), Some("0=12G"));
    let verdict = cluster.create(&low);
    assert!(!verdict.admit);
    golden("vg401-own-limit", &message::refusal(&verdict));
    let mut tried = 0;
    for fix in &finding(&verdict, Code::Vg401).fixes {
        let again = cluster.try_create(&kit::apply(&low, fix));
        assert!(again.admit, "{}: {:#?}", fix.title, again.findings);
        tried += 1;
    }
    assert_eq!(tried, 2);
    // It caps what is counted of an engine that nothing else bounds.
    let capped = pod_of(
        "o",
        json!([ollama(&[("OLLAMA_MAX_LOADED_MODELS", "1"), (LIMIT, "0=8000M")])]),
    );
    let verdict = mps().create(&capped);
    assert!(verdict.admit);
    assert_eq!(verdict.placement[0].promised.get(), 8000);
}

#[test]
fn our_own_values_follow_what_other_webhooks_change() {
    let mut cluster = mps();
    let mut changed = cluster.mutated(&pod("a", "0.20"));
    changed["spec"]["containers"][0]["args"][3] = json!("0.10");
    let again = settled(&mut cluster, &changed);
    assert_eq!(env(&again, 0, LIMIT), Some("0=8796M"));
    assert_eq!(
        again["spec"]["containers"][0]["env"].as_array().map(Vec::len),
        Some(2)
    );
    // Another webhook's change that needs more is followed as well.
    let mut more = cluster.mutated(&pod("a", "0.10"));
    more["spec"]["containers"][0]["args"][3] = json!("0.20");
    assert_eq!(env(&settled(&mut cluster, &more), 0, LIMIT), Some("0=16952M"));
    // A value that somebody else changed is theirs from then on.
    let mut theirs = cluster.mutated(&pod("a", "0.20"));
    theirs["spec"]["containers"][0]["env"][0]["value"] = json!("0=17000M");
    assert_eq!(env(&settled(&mut cluster, &theirs), 0, LIMIT), Some("0=17000M"));
}

#[test]
fn the_policy_says_what_is_set() {
    let nodes = [mps_node("mps", PRODUCT, H100, 1, 4)];
    for (spec, limit, threads) in [
        ("{mps: {memoryLimit: none, threadPercentage: none}}", None, None),
        ("{mps: {memoryLimit: none}}", None, Some("25")),
        ("{mps: {threadPercentage: 15}}", Some("0=16952M"), Some("15")),
        (
            "{mps: {memoryLimit: 18000, threadPercentage: none}}",
            Some("0=18000M"),
            None,
        ),
        (
            "{mps: {memoryLimit: 99999, threadPercentage: none}}",
            Some("0=20389M"),
            None,
        ),
    ] {
        let changed = settled(&mut policy(spec, &nodes), &pod("a", "0.20"));
        assert_eq!(
            (env(&changed, 0, LIMIT), env(&changed, 0, THREADS)),
            (limit, threads),
            "{spec}"
        );
    }
}

const FAIR: &str = "{defaults: {gpuMemoryUtilization: fairShare}}";

/// A container of vLLM's own image, by tag.
fn image(tag: &str) -> Value {
    json!({"name": "server", "image": format!("vllm/vllm-openai:{tag}"),
        "resources": {"limits": {"nvidia.com/gpu": "1"}}})
}

fn time_sliced(slots: u32) -> [Value; 1] {
    [gpu_node("n1", PRODUCT, H100, 1, slots)]
}

#[test]
fn s6_a_launch_without_a_fraction_gets_its_fair_share() {
    let mut container = image("latest");
    container["env"] = json!([{"name": "MODEL_NAME", "value": "Qwen/Qwen2.5-7B-Instruct"}]);
    let bare = pod_of("chat", json!([container]));
    let changed = settled(&mut policy(FAIR, &time_sliced(4)), &bare);
    assert_eq!(
        changed["spec"]["containers"][0]["args"],
        json!(["--gpu-memory-utilization=0.225"])
    );
    let two = [
        gpu_node("n1", PRODUCT, H100, 1, 4),
        gpu_node("n2", PRODUCT, H100, 1, 4),
    ];
    let deployment = kit::deployment("chat", 8, &container);
    let verdict = policy(FAIR, &two).create(&deployment);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert!(has(&verdict, Code::Vg103) && !has(&verdict, Code::Vg207));
    assert_eq!(verdict.patches, [], "the object itself is left as it is");
    let mut cluster = policy(FAIR, &two[..1]);
    let verdict = cluster.create(&deployment);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg201),
        "{:#?}",
        verdict.findings
    );
    assert!(kit::fixes_hold(&mut cluster, &deployment, &verdict) > 0);
    // Without the policy nothing is added.
    assert_eq!(with(&two).patches(&bare), []);
    assert!(!with(&two).create(&deployment).admit);
    // Eight pods as they are stored fill both nodes, and a ninth finds nothing.
    let mut cluster = policy(FAIR, &two);
    for index in 0..9 {
        let mut pod = changed.clone();
        pod["metadata"]["name"] = json!(format!("p{index}"));
        assert_eq!(cluster.create(&pod).admit, index < 8, "{index}");
    }
}

#[test]
fn the_fraction_is_that_of_the_node_with_least() {
    let nodes = [
        gpu_node("a", PRODUCT, H100, 1, 2),
        gpu_node("b", "NVIDIA-T4", 15_360, 1, 3),
    ];
    let bare = pod_of("chat", json!([image("v0.20.0")]));
    let mut cluster = policy(FAIR, &nodes);
    // (15360 - 512 - 3 x 640) / (3 x 15360) is less than a third of the budget.
    let changed = settled(&mut cluster, &bare);
    assert_eq!(
        changed["spec"]["containers"][0]["args"],
        json!(["--gpu-memory-utilization=0.280"])
    );
    let changed = settled(
        &mut policy("{defaults: {gpuMemoryUtilization: 0.2}}", &nodes),
        &bare,
    );
    assert_eq!(
        changed["spec"]["containers"][0]["args"],
        json!(["--gpu-memory-utilization=0.200"])
    );
    // Devices of its own are left to it whole.
    let mut nodes = nodes.to_vec();
    nodes.push(gpu_node("c", PRODUCT, H100, 1, 1));
    let changed = settled(&mut policy(FAIR, &nodes), &bare);
    assert_eq!(changed["spec"]["containers"], bare["spec"]["containers"]);
}

#[test]
fn the_fraction_is_written_in_the_form_of_the_launch() {
    let of = |command: Value, args: Value| {
        let mut container = image("v0.20.0");
        container["command"] = command;
        container["args"] = args;
        settled(
            &mut policy(FAIR, &time_sliced(4)),
            &pod_of("chat", json!([container])),
        )["spec"]["containers"][0]
            .clone()
    };
    let option = "--gpu-memory-utilization=0.225";
    let null = json!(null);
    assert_eq!(
        of(null.clone(), json!(["--model", "m"]))["args"],
        json!(["--model", "m", option])
    );
    assert_eq!(of(null.clone(), json!([]))["args"], json!([option]));
    let module = json!([
        "python3",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        "m"
    ]);
    let changed = of(module.clone(), null.clone());
    assert_eq!(changed["command"].as_array().unwrap().last().unwrap(), option);
    assert_eq!(changed["args"], null);
    let changed = of(json!(["vllm", "serve"]), json!(["m"]));
    assert_eq!(
        (&changed["command"], &changed["args"]),
        (&json!(["vllm", "serve"]), &json!(["m", option]))
    );
    let shell = |script: &str| of(json!(["sh", "-c"]), json!([script]))["args"][0].clone();
    assert_eq!(shell("vllm serve m"), format!("vllm serve m {option}"));
    assert_eq!(
        shell("pip list\nexec vllm serve m --port 8000\n"),
        format!("pip list\nexec vllm serve m --port 8000 {option}\n")
    );
    let changed = of(json!(["sh", "-c", "exec vllm serve \"$@\"", "--"]), json!(["m"]));
    assert_eq!(changed["command"][2], format!("exec vllm serve \"$@\" {option}"));
    assert_eq!(shell("vllm serve m\\\\"), format!("vllm serve m\\\\ {option}"));
    // Where something follows, or where it may not run, the text is left as it is.
    for script in [
        "vllm serve m; echo done",
        "vllm serve m | tee log",
        "vllm serve m &",
        "if [ -f /x ]; then vllm serve m; fi",
        "[ -f /x ] && vllm serve m",
        "vllm serve m # serves",
        "vllm serve -- m",
        "vllm serve m \\\n",
        // What came next would be escaped.
        "vllm serve m\\",
        "vllm serve m \\",
        "vllm serve m\\\\\\",
    ] {
        assert_eq!(shell(script), script);
    }
    assert_eq!(of(null, json!(["--", "m"]))["args"], json!(["--", "m"]));
}

#[test]
fn what_cannot_be_written_is_told() {
    let mut container = image("v0.20.0");
    container["command"] = json!(["sh", "-c", "vllm serve m --port 8000 | tee /log"]);
    let script = pod_of("chat", json!([container]));
    let mut cluster = policy(FAIR, &time_sliced(4));
    let verdict = cluster.create(&script);
    assert!(!verdict.admit);
    golden("vg207-text-to-write", &message::refusal(&verdict));
    assert_eq!(kit::fixes_hold(&mut cluster, &script, &verdict), 1);
    // A release in which the fraction bounds everybody on the device would not start beside others.
    let old = pod_of("chat", json!([image("v0.8.5")]));
    let mut cluster = policy(FAIR, &time_sliced(4));
    assert_eq!(cluster.patches(&old), []);
    let verdict = cluster.create(&old);
    let sentence = &finding(&verdict, Code::Vg207).details[0];
    assert!(sentence.contains("not in this release"), "{sentence}");
}

#[test]
fn a_fraction_of_ours_follows_the_nodes_and_a_users_stays() {
    let nodes = [
        gpu_node("a", PRODUCT, H100, 1, 2),
        gpu_node("b", PRODUCT, H100, 1, 4),
    ];
    let mut cluster = policy(FAIR, &nodes);
    let mut changed = cluster.mutated(&pod_of("chat", json!([image("v0.20.0")])));
    assert_eq!(
        changed["spec"]["containers"][0]["args"],
        json!(["--gpu-memory-utilization=0.225"])
    );
    // Another webhook binds the pod to the larger slots.
    changed["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "a"});
    let again = settled(&mut cluster, &changed);
    assert_eq!(
        again["spec"]["containers"][0]["args"],
        json!(["--gpu-memory-utilization=0.450"])
    );
    let users = pod("u", "0.225");
    assert_eq!(cluster.patches(&users), []);
    // An init container's and a second engine's slots are judged by themselves.
    let mut both = pod_of("both", json!([image("v0.20.0"), image("v0.20.0")]));
    both["spec"]["containers"][1]["name"] = json!("second");
    let changed = settled(&mut cluster, &both);
    for container in changed["spec"]["containers"].as_array().unwrap() {
        assert_eq!(container["args"], json!(["--gpu-memory-utilization=0.225"]));
    }
}

#[test]
fn a_default_fraction_and_the_limit_that_follows_from_it_come_together() {
    let mut cluster = policy(FAIR, &[mps_node("mps", PRODUCT, H100, 1, 4)]);
    let changed = settled(&mut cluster, &pod_of("chat", json!([image("v0.20.0")])));
    assert_eq!(
        changed["spec"]["containers"][0]["args"],
        json!(["--gpu-memory-utilization=0.225"])
    );
    assert_eq!(env(&changed, 0, LIMIT), Some("0=18991M"));
    assert!(cluster.create(&changed).admit);
}

#[test]
fn c14_half_of_a_card_is_less_than_thirty_gigabytes() {
    let mut cluster = with(&[mps_node("mps", "NVIDIA-L40S", L40S, 1, 2)]);
    let verdict = cluster.create(&pod("thirty", "0.622"));
    assert!(!verdict.admit);
    golden("c14-half-of-a-card", &message::refusal(&verdict));
    assert_eq!(
        kit::fixes_hold(&mut cluster, &pod("thirty", "0.622"), &verdict),
        1
    );
    assert!(cluster.create(&pod("eighteen", "0.373")).admit);
    // By time-slicing the two of 0.622 and 0.278 stand together.
    let mut cluster = with(&[gpu_node("sliced", "NVIDIA-L40S", L40S, 1, 2)]);
    assert!(cluster.create(&pod("thirty", "0.622")).admit);
    assert!(cluster.create(&pod("rest", "0.278")).admit);
}

#[test]
fn m5_a_volume_over_the_shared_memory_and_another_user_are_told() {
    let mut own = pod("a", "0.20");
    own["spec"]["volumes"] = json!([{"name": "shm", "emptyDir": {"medium": "Memory"}}]);
    own["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "shm", "mountPath": "/dev/shm/"}]);
    own["spec"]["securityContext"] = json!({"runAsUser": 1000});
    let mut cluster = mps();
    settled(&mut cluster, &own);
    let verdict = cluster.create(&own);
    assert!(verdict.admit);
    golden(
        "vg403-own-shm",
        &message::headline(finding(&verdict, Code::Vg403)),
    );
    let mut other = pod("b", "0.20");
    other["spec"]["securityContext"] = json!({"runAsUser": 1000});
    assert!(!has(&cluster.try_create(&other), Code::Vg404));
    other["spec"]["containers"][0]["securityContext"] = json!({"runAsUser": 1001});
    let verdict = cluster.try_create(&other);
    assert!(verdict.admit);
    golden(
        "vg404-other-user",
        &message::headline(finding(&verdict, Code::Vg404)),
    );
    // As the other's user it passes untold, and by policy that is what it takes.
    assert_eq!(fixes_end(&mut cluster, &other, &verdict, Code::Vg404), 1);
    let mut refusing = policy(
        "{codes: {error: [VG404]}}",
        &[mps_node("mps", PRODUCT, H100, 1, 4)],
    );
    refusing.create(&own);
    let refused = refusing.try_create(&other);
    assert!(!refused.admit);
    golden("vg404-refused", &message::refusal(&refused));
    assert_eq!(fixes_end(&mut refusing, &other, &refused, Code::Vg404), 1);
    // Two users beside each other in one pod, and one that only root would end.
    let mut pair = pod("pair", "0.10");
    let mut second = pair["spec"]["containers"][0].clone();
    second["name"] = json!("second");
    second["securityContext"] = json!({"allowPrivilegeEscalation": false, "runAsUser": 1002});
    pair["spec"]["containers"].as_array_mut().unwrap().push(second);
    pair["spec"]["securityContext"] = json!({"runAsUser": 1001});
    let told = cluster.try_create(&pair);
    assert_eq!(fixes_end(&mut cluster, &pair, &told, Code::Vg404), 1);
    let mut root = with(&[mps_node("mps", PRODUCT, H100, 1, 4)]);
    let mut as_root = own.clone();
    as_root["spec"]["securityContext"] = json!({"runAsUser": 0});
    root.create(&as_root);
    assert_eq!(finding(&root.try_create(&other), Code::Vg404).fixes, []);
    // Somebody of another namespace is not named, and a Deployment is told the same.
    other["metadata"]["namespace"] = json!("team-b");
    let verdict = cluster.try_create(&other);
    let text = &finding(&verdict, Code::Vg404).message;
    assert!(text.contains("a pod of another namespace"), "{text}");
    let template = kit::deployment("d", 1, &other["spec"]["containers"][0]);
    let verdict = cluster.try_create(&template);
    assert_eq!(fixes_end(&mut cluster, &template, &verdict, Code::Vg404), 1);
    // Without MPS neither matters, and a user that only the image tells is not known.
    let mut sliced = with(&time_sliced(4));
    assert!(sliced.create(&own).findings.is_empty());
    assert!(sliced.create(&other).findings.is_empty());
    assert!(!has(&cluster.try_create(&pod("c", "0.20")), Code::Vg404));
    // By policy the mount is refused; without it the pod passes.
    let mut strict = policy(
        "{codes: {error: [VG403, VG404]}}",
        &[mps_node("mps", PRODUCT, H100, 1, 4)],
    );
    let verdict = strict.create(&own);
    assert!(!verdict.admit);
    golden("vg403-refused", &message::refusal(&verdict));
    assert_eq!(kit::fixes_hold(&mut strict, &own, &verdict), 1);
}

/// Each change that a finding of this code proposes is admitted, and nothing of that code is said any more of what it
/// changed.
fn fixes_end(
    cluster: &mut Cluster,
    object: &Value,
    verdict: &vramgate::decision::Verdict,
    code: Code,
) -> usize {
    let mut ended = 0;
    for finding in verdict.findings.iter().filter(|finding| finding.code == code) {
        for fix in &finding.fixes {
            let changed = kit::apply(object, fix);
            let again = cluster.try_create(&changed);
            assert!(again.admit, "{}: {:#?}", fix.title, again.findings);
            let still = again.findings.iter().find(|other| {
                other.code == code && (other.path == finding.path && other.message == finding.message)
            });
            assert!(still.is_none(), "{}: {still:#?}", fix.title);
            ended += 1;
        }
    }
    ended
}

#[test]
fn vg406_tells_of_each_variable_without_effect() {
    let mut lines = Vec::new();
    let mut tell = |nodes: &[Value], variables: &[(&str, &str)]| {
        let object = with_env(pod("a", "0.20"), variables);
        let mut cluster = with(nodes);
        settled(&mut cluster, &object);
        let verdict = cluster.create(&object);
        assert!(verdict.admit, "{:#?}", verdict.findings);
        let found = verdict
            .findings
            .iter()
            .filter(|finding| finding.code == Code::Vg406);
        let before = lines.len();
        lines.extend(found.map(message::headline));
        let told = lines.len() - before;
        // Each has its way out, in a template as well.
        assert_eq!(fixes_end(&mut cluster, &object, &verdict, Code::Vg406), told);
        let template = kit::deployment("d", 1, &object["spec"]["containers"][0]);
        let verdict = cluster.try_create(&template);
        assert_eq!(fixes_end(&mut cluster, &template, &verdict, Code::Vg406), told);
        told
    };
    let mps = [mps_node("mps", PRODUCT, H100, 1, 4)];
    let mixed = [mps[0].clone(), mps_node("half", PRODUCT, H100, 1, 2)];
    assert_eq!(tell(&time_sliced(4), &[(LIMIT, "0=16952M"), (THREADS, "10")]), 2);
    assert_eq!(tell(&mps, &[(LIMIT, "half of it"), (THREADS, "most")]), 2);
    assert_eq!(tell(&mps, &[(LIMIT, "1=17000M")]), 1);
    assert_eq!(tell(&mps, &[(LIMIT, "0=20390M"), (THREADS, "26")]), 2);
    assert_eq!(tell(&mps, &[("CUDA_VISIBLE_DEVICES", "1")]), 1);
    assert_eq!(tell(&mps, &[("CUDA_VISIBLE_DEVICES", "")]), 1);
    // What has an effect is not told of, on one kind of node or on another.
    assert_eq!(tell(&mps, &[(LIMIT, "0=20389M"), (THREADS, "25")]), 0);
    assert_eq!(tell(&mixed, &[(LIMIT, "0=30000M"), (THREADS, "40")]), 0);
    assert_eq!(tell(&mps, &[(LIMIT, "GPU-0a1b2c3d=17000M")]), 0);
    assert_eq!(tell(&mps, &[("CUDA_VISIBLE_DEVICES", "0")]), 0);
    assert_eq!(tell(&mps, &[("CUDA_VISIBLE_DEVICES", "GPU-0a1b2c3d")]), 0);
    assert_eq!(tell(&time_sliced(4), &[("CUDA_VISIBLE_DEVICES", "1")]), 0);
    for line in &lines {
        assert!(line.len() < 256, "{line}");
    }
    golden("vg406-in-words", &lines.join("\n"));
}

/// Containers of every kind that matters here, by number.
fn any_container(kind: u8, index: usize) -> Value {
    let mut container = match kind {
        0 => vllm(VLLM, Some("0.10")),
        1 => vllm(VLLM, Some("0.25")),
        2 => vllm(VLLM, None),
        3 => image("latest"),
        4 => torch(&["--nproc_per_node=2"])["spec"]["containers"][0].clone(),
        5 => ollama(&[("OLLAMA_KEEP_ALIVE", "1h")]),
        6 => {
            json!({"image": "registry.example/team/tool:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}})
        }
        7 => json!({"image": "busybox", "command": ["sleep", "1"]}),
        8 => json!({"image": "vllm/vllm-openai:v0.11.0", "command": ["sh", "-c", "vllm serve m"],
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}),
        _ => json!({"image": "vllm/vllm-openai:v0.8.5", "command": ["sh", "-c", "vllm serve m && echo"],
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}),
    };
    container["name"] = json!(format!("c{index}"));
    container
}

const VALUES: [&str; 7] = ["0=9000M", "0=20000M", "1=5G", "GPU-1=4G", "nonsense", "25", "90"];
const POLICIES: [&str; 6] = [
    "{memoryLimit: {toolkit: footprint}, defaults: {gpuMemoryUtilization: fairShare}}",
    "{}",
    "{defaults: {gpuMemoryUtilization: fairShare}}",
    "{defaults: {gpuMemoryUtilization: 0.15}, mps: {override: true}}",
    "{mps: {memoryLimit: 12000, threadPercentage: 30}}",
    "{mps: {memoryLimit: none}, unknown: {mps: {assume: 0.2}}, codes: {error: [VG403, VG405, VG406]}}",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the pod, the nodes and the policy: patches apply, a second pass gives none, the stored pod is judged as
    /// `check` judged it, and nothing but our own fields has changed.
    #[test]
    fn patches_settle_and_touch_nothing_else(
        kinds in prop::collection::vec(0..10_u8, 1..4),
        inits in prop::collection::vec(0..10_u8, 0..2),
        nodes in prop::collection::vec((0..4_u8, 2..6_u32), 1..4),
        variables in prop::collection::vec((0..3_usize, 0..7_usize), 0..3),
        policy_at in 0..6_usize,
        shm in any::<bool>(),
    ) {
        let mut nodes: Vec<Value> = nodes
            .iter()
            .enumerate()
            .map(|(index, (kind, slots))| {
                let name = format!("n{index}");
                match kind {
                    0 => mps_node(&name, PRODUCT, H100, 1, *slots),
                    1 => mps_node(&name, "NVIDIA-L40S", L40S, 2, *slots),
                    2 => gpu_node(&name, "NVIDIA-L40S", L40S, 1, *slots),
                    _ => gpu_node(&name, PRODUCT, H100, 1, 1),
                }
            })
            .collect();
        for node in nodes.iter_mut().step_by(2) {
            node["metadata"]["labels"]["nvidia.com/cuda.driver-version.major"] = json!("615");
        }
        let containers: Vec<Value> =
            kinds.iter().enumerate().map(|(index, kind)| any_container(*kind, index)).collect();
        let mut object = pod_of("any", json!(containers));
        let inits: Vec<Value> =
            inits.iter().enumerate().map(|(index, kind)| any_container(*kind, 10 + index)).collect();
        if !inits.is_empty() {
            object["spec"]["initContainers"] = json!(inits);
        }
        let mut own: Vec<Value> = Vec::new();
        for (name, value) in variables {
            let name = [LIMIT, THREADS, "OTHER"][name];
            if own.iter().all(|variable| variable["name"] != name) {
                own.push(json!({"name": name, "value": VALUES[value]}));
            }
        }
        if !own.is_empty() {
            object["spec"]["containers"][0]["env"] = json!(own);
        }
        if shm {
            object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "s", "mountPath": "/dev/shm"}]);
        }
        let mut cluster = policy(POLICIES[policy_at], &nodes);
        let changed = settled(&mut cluster, &object);
        // With what is ours taken out again it is the object as it was.
        let record: Value = changed["metadata"]["annotations"]["vramgate.io/mutated"]
            .as_str()
            .map_or(json!({}), |text| serde_json::from_str(text).unwrap());
        let replaces = POLICIES[policy_at].contains("override");
        let before: Vec<&Value> = all_containers(&object).collect();
        let after: Vec<&Value> = all_containers(&changed).collect();
        prop_assert_eq!(before.len(), after.len());
        for (before, after) in before.into_iter().zip(after) {
            let ours = &record[before["name"].as_str().unwrap()];
            let kept = |container: &Value| -> Vec<Value> {
                let list = container["env"].as_array().cloned().unwrap_or_default();
                list.into_iter().filter(|variable| ours[variable["name"].as_str().unwrap()].is_null()).collect()
            };
            let users: Vec<Value> = before["env"].as_array().cloned().unwrap_or_default();
            if replaces {
                prop_assert_eq!(kept(after), kept(before));
            } else {
                prop_assert_eq!(kept(after), users);
            }
            let same_words = ours["--gpu-memory-utilization"].is_null();
            prop_assert!(!same_words || before["args"] == after["args"] && before["command"] == after["command"]);
            for field in ["image", "resources", "volumeMounts", "restartPolicy"] {
                prop_assert_eq!(&before[field], &after[field]);
            }
        }
    }
}

fn all_containers(object: &Value) -> impl Iterator<Item = &Value> {
    let list = |name: &str| object["spec"][name].as_array().into_iter().flatten();
    list("initContainers").chain(list("containers"))
}

#[test]
fn the_pages_show_these_texts_as_they_are() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    for (code, text) in [
        ("VG401", "m2-client-limit"),
        ("VG401", "vg401-own-limit"),
        ("VG403", "vg403-own-shm"),
        ("VG403", "vg403-refused"),
        ("VG404", "vg404-other-user"),
        ("VG405", "m4-several-processes"),
        ("VG207", "vg207-text-to-write"),
    ] {
        let text = read(&format!("tests/texts/{text}.txt"));
        assert!(
            read(&format!("docs/codes/{code}.md")).contains(text.trim_end()),
            "{code}"
        );
    }
    let lines = read("tests/texts/vg406-in-words.txt");
    let page = read("docs/codes/VG406.md");
    assert!(lines.lines().filter(|line| page.contains(line)).count() >= 4);
}

/// The nodes that a pod's required affinity leaves out, as label and values.
fn left_out(object: &Value) -> Vec<String> {
    let required =
        &object["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let expressions = terms
        .iter()
        .flat_map(|term| term["matchExpressions"].as_array().cloned().unwrap_or_default());
    expressions
        .map(|expression| {
            let values: Vec<&str> = expression["values"]
                .as_array()
                .unwrap()
                .iter()
                .map(|value| value.as_str().unwrap())
                .collect();
            format!(
                "{} {} {}",
                expression["key"].as_str().unwrap(),
                expression["operator"].as_str().unwrap(),
                values.join(",")
            )
        })
        .collect()
}

#[test]
fn c3_a_pod_at_the_default_fraction_goes_to_dedicated_nodes_only() {
    let four = [
        gpu_node("dedicated-1", PRODUCT, H100, 1, 1),
        gpu_node("dedicated-2", PRODUCT, H100, 1, 1),
        gpu_node("sliced-1", PRODUCT, H100, 1, 4),
        gpu_node("sliced-2", PRODUCT, H100, 1, 8),
    ];
    let strategy = "nvidia.com/gpu.sharing-strategy NotIn time-slicing";
    for policy_text in ["{}", FAIR] {
        let mut cluster = policy(policy_text, &four);
        assert_eq!(cluster.patches(&pod("small", "0.30")), []);
        let bare = pod_of("chat", json!([image("v0.20.0")]));
        let changed = settled(&mut cluster, &bare);
        assert_eq!(left_out(&changed), [strategy]);
        assert_eq!(changed["spec"]["containers"], bare["spec"]["containers"]);
        let verdict = cluster.create(&changed);
        assert!(
            verdict.admit && !has(&verdict, Code::Vg207),
            "{:#?}",
            verdict.findings
        );
        // The same for what makes pods, which stays as it is.
        let verdict = cluster.try_create(&kit::deployment("d", 2, &image("v0.20.0")));
        assert!(verdict.admit && verdict.patches.is_empty() && !has(&verdict, Code::Vg207));
    }
    // Nothing to tell apart, nobody else to go to, or a node of its own: nothing is added.
    assert_eq!(
        with(&four[..2]).patches(&pod_of("chat", json!([image("v0.20.0")]))),
        []
    );
    assert_eq!(
        with(&four[2..]).patches(&pod_of("chat", json!([image("v0.20.0")]))),
        []
    );
    let mut bound = pod_of("chat", json!([image("v0.20.0")]));
    bound["spec"]["nodeName"] = json!("sliced-1");
    assert_eq!(with(&four).patches(&bound), []);
}

#[test]
fn changes_are_tried_on_the_pod_as_it_was_submitted() {
    let nodes = [
        gpu_node("sliced", PRODUCT, H100, 1, 4),
        mps_node("mps", PRODUCT, H100, 1, 4),
    ];
    let mut cluster = with(&nodes);
    for name in ["a", "b", "c"] {
        cluster.running(&pod(name, "0.29"), "sliced");
    }
    // The limit of MPS refuses it, so it is kept to the node that is full; with less it may go to the other one as well.
    let late = pod("late", "0.30");
    assert_eq!(
        left_out(&cluster.mutated(&late)),
        ["nvidia.com/gpu.sharing-strategy NotIn mps"]
    );
    let verdict = cluster.check(&late);
    assert!(!verdict.admit && has(&verdict, Code::Vg201));
    let fixes = &finding(&verdict, Code::Vg201).fixes;
    assert_eq!(fixes.len(), 1, "{:#?}", verdict.findings);
    let changed = cluster.mutated(&kit::apply(&late, &fixes[0]));
    assert_eq!(left_out(&changed), [] as [&str; 0]);
    assert!(cluster.create(&changed).admit, "{changed:#}");
}

#[test]
fn what_tells_kinds_of_nodes_apart_is_the_first_label_that_does() {
    // Under MPS on both: by the number of clients, by the product, and by name where nothing else is left.
    let large = pod("large", "0.30");
    let out = |nodes: &[Value]| {
        let mut cluster = with(nodes);
        left_out(&settled(&mut cluster, &large))
    };
    let by_slots = [
        mps_node("a", PRODUCT, H100, 1, 2),
        mps_node("b", PRODUCT, H100, 1, 4),
    ];
    assert_eq!(out(&by_slots), ["nvidia.com/gpu.replicas NotIn 4"]);
    let by_product = [
        gpu_node("a", PRODUCT, H100, 1, 4),
        mps_node("b", "NVIDIA-L40S", L40S, 1, 4),
    ];
    assert_eq!(out(&by_product), ["nvidia.com/gpu.sharing-strategy NotIn mps"]);
    // 0.30 and 640 MiB beside it: a quarter less a little of either; the same labels on both but for the memory.
    let mut odd = mps_node("odd", PRODUCT, 20_000, 1, 3);
    odd["metadata"]["labels"]["nvidia.com/gpu.memory"] = json!("20000");
    let by_name = [mps_node("a", PRODUCT, H100, 1, 3), odd];
    let mut cluster = with(&by_name);
    let tight = pod("tight", "0.32");
    let changed = settled(&mut cluster, &tight);
    assert_eq!(left_out(&changed), ["kubernetes.io/hostname NotIn odd"]);
}

#[test]
fn each_alternative_of_the_users_affinity_is_narrowed() {
    let nodes = [
        gpu_node("whole", PRODUCT, H100, 1, 1),
        gpu_node("sliced", PRODUCT, H100, 1, 4),
    ];
    let strategy = "nvidia.com/gpu.sharing-strategy NotIn time-slicing";
    let with_affinity = |affinity: Value| {
        let mut object = pod_of("chat", json!([image("v0.20.0")]));
        object["spec"]["affinity"] = affinity;
        settled(&mut with(&nodes), &object)
    };
    let expression = json!({"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]});
    let required = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let changed = with_affinity(required(json!([
        {"matchExpressions": [expression]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["sliced"]}]},
        {},
    ])));
    let present = "nvidia.com/gpu.present In true";
    assert_eq!(left_out(&changed), [present, strategy, strategy]);
    let terms = &changed["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"];
    assert_eq!(terms[2], json!({}));
    let preferred = json!([{"weight": 1, "preference": {"matchExpressions": [expression]}}]);
    for (affinity, kept) in [
        (json!(null), "x"),
        (json!({}), "x"),
        (json!({"podAntiAffinity": {}}), "podAntiAffinity"),
        (json!({"nodeAffinity": null}), "x"),
        (
            json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}),
            "nodeAffinity",
        ),
    ] {
        let changed = with_affinity(affinity.clone());
        assert_eq!(left_out(&changed), [strategy], "{affinity}");
        assert!(kept == "x" || !changed["spec"]["affinity"][kept].is_null());
    }
}

#[test]
fn by_policy_the_container_toolkit_bounds_what_nothing_else_does() {
    const CONTAINER: &str = "NVIDIA_GPU_MEMORY_LIMIT";
    let driver = |name: &str, slots: u32, major: &str| {
        let mut node = gpu_node(name, PRODUCT, H100, 1, slots);
        node["metadata"]["labels"]["nvidia.com/cuda.driver-version.major"] = json!(major);
        node
    };
    let toolkit = "{memoryLimit: {toolkit: footprint}}";
    let open = pod_of("open", json!([ollama(&[])]));
    let new = [driver("new", 4, "615"), driver("finer", 5, "620")];
    let mut cluster = policy(toolkit, &new);
    let changed = settled(&mut cluster, &open);
    // What the smallest slot has; all processes of the container together.
    assert_eq!(env(&changed, 0, CONTAINER), Some("14680"));
    let verdict = cluster.create(&changed);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert_eq!(verdict.placement[0].promised.get(), 14_680);
    // Four slots of four are the budget.
    let mut cluster = policy(toolkit, &new[..1]);
    for index in 0..4 {
        let mut pod = cluster.mutated(&open);
        pod["metadata"]["name"] = json!(format!("p{index}"));
        assert!(cluster.create(&pod).admit, "{index}");
    }
    // Nothing is set without the policy, for older drivers, for MIG slices, or where a fraction of the total would change.
    let refused = |cluster: &mut Cluster| {
        assert_eq!(cluster.patches(&open), []);
        assert!(has(&cluster.create(&open), Code::Vg206));
    };
    refused(&mut with(&new));
    refused(&mut policy(toolkit, &[driver("old", 4, "580")]));
    refused(&mut policy(toolkit, &time_sliced(4)));
    assert_eq!(policy(toolkit, &new).patches(&pod("a", "0.20")), []);
    // A value that the user wrote counts, and stays.
    let own = pod_of("own", json!([ollama(&[(CONTAINER, "9000")])]));
    let mut cluster = policy(toolkit, &new);
    assert_eq!(cluster.patches(&own), []);
    assert_eq!(cluster.create(&own).placement[0].promised.get(), 9000);
    // Beside nodes whose driver cannot keep it, the pod is kept off those.
    let mut cluster = policy(toolkit, &[driver("new", 4, "615"), driver("old", 5, "580")]);
    let changed = settled(&mut cluster, &open);
    assert_eq!(left_out(&changed), ["nvidia.com/gpu.replicas NotIn 5"]);
}
