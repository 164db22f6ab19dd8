//! Who may be beside whom on a device: containers that reach GPUs without asking (VG501 to VG504), and tenants (VG211).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, H100, VLLM, deployment, finding, fixes_hold, golden, has, pod, pod_of, vllm};
use serde_json::{Value, json};
use vramgate::finding::{Code, Severity};
use vramgate::message;
use vramgate::units::Share;

const ACCESS: [Code; 4] = [Code::Vg501, Code::Vg502, Code::Vg503, Code::Vg504];

fn policy(spec: &str) -> Cluster {
    let text = format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: here}}\nspec: {{{spec}}}\n"
    );
    Cluster::with_policy(&text)
}

fn with_h100(mut cluster: Cluster, slots: u32) -> Cluster {
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, slots);
    cluster
}

/// A container that serves with vLLM and asks for no GPU.
fn unasked(fraction: &str) -> Value {
    let mut container = vllm(VLLM, Some(fraction));
    container.as_object_mut().unwrap().remove("resources");
    container
}

fn sees(fraction: &str, value: &str) -> Value {
    let mut container = unasked(fraction);
    container["env"] = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]);
    container
}

fn one(name: &str, container: Value) -> Value {
    pod_of(name, json!([container]))
}

fn promised(cluster: &Cluster) -> u64 {
    cluster.ledger.devices()[0].promised_share.ppm()
}

#[test]
fn every_way_to_a_device_has_its_code() {
    let codes = |cluster: &mut Cluster, object: &Value| -> Vec<(Code, Severity)> {
        let verdict = cluster.try_create(object);
        let found = verdict.findings.iter().filter(|f| ACCESS.contains(&f.code));
        found.map(|f| (f.code, f.severity)).collect()
    };
    let mut cluster = with_h100(Cluster::new(), 4);
    for value in ["all", "0", "0,1", "GPU-8b7d", "$(WHICH)"] {
        let found = codes(&mut cluster, &one("a", sees("0.20", value)));
        assert_eq!(found, [(Code::Vg501, Severity::Error)], "{value}");
    }
    for value in ["void", "none", ""] {
        // An engine without a device does not start; it takes nothing.
        let found = codes(&mut cluster, &one("a", sees("0.20", value)));
        assert_eq!(found, [(Code::Vg504, Severity::Warning)], "{value}");
        assert!(cluster.create(&one("idle", sees("0.20", value))).admit);
        assert_eq!(promised(&cluster), 0, "{value}");
    }
    assert_eq!(
        codes(&mut cluster, &one("a", unasked("0.20"))),
        [(Code::Vg504, Severity::Warning)]
    );
    let mut chooses = unasked("0.20");
    chooses["image"] = json!("registry.example/tools:1");
    chooses["command"] = json!(["sleep", "infinity"]);
    chooses["args"] = json!([]);
    chooses["env"] = json!([{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]);
    assert_eq!(
        codes(&mut cluster, &one("a", chooses)),
        [],
        "it only chooses among what is visible"
    );
    let mut asks = vllm(VLLM, Some("0.20"));
    asks["env"] = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    assert_eq!(
        codes(&mut cluster, &one("a", asks)),
        [],
        "the device plugin overwrites it"
    );
    for path in [
        "/dev",
        "/dev/",
        "//dev",
        "/dev/nvidia0",
        "/dev/./nvidia0",
        "/dev/nvidia-caps",
    ] {
        let mut mounts = unasked("0.20");
        mounts["volumeMounts"] = json!([{"name": "d", "mountPath": "/x"}]);
        let mut object = one("a", mounts);
        object["spec"]["volumes"] = json!([{"name": "d", "hostPath": {"path": path}}]);
        let found = codes(&mut cluster, &object);
        assert_eq!(found, [(Code::Vg502, Severity::Warning)], "{path}");
    }
    let mut named = unasked("0.20");
    named["volumeMounts"] =
        json!([{"name": "d", "mountPath": "//var/run/nvidia-container-devices/GPU-8b7d"}]);
    assert_eq!(
        codes(&mut cluster, &one("a", named)),
        [(Code::Vg502, Severity::Warning)]
    );
    let mut privileged = unasked("0.20");
    privileged["securityContext"] = json!({"privileged": true});
    assert_eq!(
        codes(&mut cluster, &one("a", privileged.clone())),
        [],
        "ignored by default"
    );
    let mut strict = with_h100(policy("access: {privileged: deny, runtimeClasses: [nvidia]}"), 4);
    assert_eq!(
        codes(&mut strict, &one("a", privileged)),
        [(Code::Vg502, Severity::Error)]
    );
    let mut class = one("a", unasked("0.20"));
    class["spec"]["runtimeClassName"] = json!("nvidia");
    assert_eq!(codes(&mut strict, &class), [(Code::Vg503, Severity::Warning)]);
    assert_eq!(
        codes(&mut cluster, &class),
        [(Code::Vg504, Severity::Warning)],
        "no policy names it"
    );
}

#[test]
fn the_policy_decides_what_becomes_of_it() {
    let object = one("a", sees("0.20", "all"));
    for (spec, admitted, told) in [
        ("access: {visibleDevices: warn}", true, Some(Severity::Warning)),
        ("access: {visibleDevices: ignore}", true, None),
        ("codes: {warning: [VG501]}", true, Some(Severity::Warning)),
        ("mode: warn", true, Some(Severity::Warning)),
        ("access: {exempt: {images: [vllm/*]}}", true, None),
        (
            "access: {exempt: {images: [other/*]}}",
            false,
            Some(Severity::Error),
        ),
        (
            "access: {exempt: {pods: {matchLabels: {role: launcher}}}}",
            false,
            Some(Severity::Error),
        ),
    ] {
        let mut cluster = with_h100(policy(spec), 4);
        let verdict = cluster.create(&object);
        let found = verdict.findings.iter().find(|f| f.code == Code::Vg501);
        assert_eq!(
            (verdict.admit, found.map(|f| f.severity)),
            (admitted, told),
            "{spec}"
        );
        // Whoever is exempt is vouched for; everybody else who is let in counts, told or not.
        let counts = admitted && !spec.contains("exempt");
        assert_eq!(promised(&cluster), if counts { 200_000 } else { 0 }, "{spec}");
    }
    let mut cluster = with_h100(
        policy("access: {exempt: {pods: {matchLabels: {role: launcher}}}}"),
        4,
    );
    let mut launcher = object;
    launcher["metadata"]["labels"] = json!({"role": "launcher"});
    assert!(cluster.create(&launcher).findings.is_empty());
}

#[test]
fn a_variable_from_a_config_map_is_read() {
    let mut cluster = with_h100(Cluster::new(), 4);
    let data = [("NVIDIA_VISIBLE_DEVICES".to_owned(), "all".to_owned())];
    cluster
        .maps
        .0
        .insert(("team-a".to_owned(), "settings".to_owned()), data.into());
    let mut from = unasked("0.20");
    from["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    let object = one("a", from.clone());
    let verdict = cluster.try_create(&object);
    assert_eq!(
        finding(&verdict, Code::Vg501).path.as_str(),
        "spec.containers[0].envFrom[0]"
    );
    assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 2);
    from["env"] = json!([{"name": "NVIDIA_VISIBLE_DEVICES",
        "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "NVIDIA_VISIBLE_DEVICES"}}}]);
    let object = one("a", from.clone());
    let verdict = cluster.try_create(&object);
    assert_eq!(
        finding(&verdict, Code::Vg501).path.as_str(),
        "spec.containers[0].env[0]"
    );
    assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 2);
    // Never read, and so not known to be none.
    from["env"][0]["valueFrom"] = json!({"secretKeyRef": {"name": "s", "key": "k"}});
    let verdict = cluster.try_create(&one("a", from));
    assert!(finding(&verdict, Code::Vg501).message.contains("cannot be read"));
}

#[test]
fn it_counts_on_every_device_of_its_node() {
    let mut cluster = policy("access: {visibleDevices: warn}");
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 2, 2);
    assert!(cluster.create(&one("a", sees("0.30", "all"))).admit);
    let device = &cluster.ledger.devices()[0];
    assert_eq!(
        (device.slots_taken, device.promised_share),
        (0, Share::from_ppm(300_000))
    );
    // Any two of the others may meet beside it: 0.30 + 2 x 0.30.
    for index in 0..4 {
        assert!(cluster.create(&pod(&format!("p{index}"), "0.30")).admit);
    }
    assert_eq!(promised(&cluster), 900_000);
    let mut cluster = policy("access: {visibleDevices: warn}");
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 2, 2);
    assert!(cluster.create(&one("a", sees("0.30", "0"))).admit);
    assert!(cluster.create(&pod("p0", "0.31")).admit);
    assert!(
        !cluster.create(&pod("p1", "0.31")).admit,
        "nothing tells which device is 0"
    );
    // A second one of the kind counts on each device as well, without a slot.
    assert!(cluster.create(&one("b", sees("0.29", "1"))).admit);
    assert!(!cluster.create(&one("c", sees("0.05", "1"))).admit);
}

#[test]
fn what_runs_already_is_counted_whoever_admitted_it() {
    let mut cluster = with_h100(Cluster::new(), 4);
    let running = cluster.running(&one("a", sees("0.50", "all")), "gpu-1");
    assert_eq!(promised(&cluster), 500_000);
    let verdict = cluster.create(&pod("p", "0.50"));
    let found = finding(&verdict, Code::Vg201);
    assert_eq!(found.holders.len(), 1);
    assert!(fixes_hold(&mut cluster, &pod("p", "0.50"), &verdict) > 0);
    cluster
        .ledger
        .remove_pod(running["metadata"]["uid"].as_str().unwrap());
    assert!(cluster.create(&pod("p", "0.50")).admit);
}

#[test]
fn a_program_that_is_not_known_is_guessed_and_refused_for_nothing() {
    let program = |image: &str, command: &[&str]| {
        json!({"name": "x", "image": image, "command": command,
               "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]})
    };
    let mut cluster = with_h100(Cluster::new(), 4);
    let verdict = cluster.create(&one("a", program("registry.example/app:1", &["./serve"])));
    assert!(verdict.admit);
    assert_eq!(finding(&verdict, Code::Vg501).severity, Severity::Warning);
    assert_eq!(promised(&cluster), 225_000, "budget / slots");
    // Where it finds no room it is told so, and let through.
    cluster.running(&pod("p", "0.60"), "gpu-1");
    let verdict = cluster.create(&one("b", program("registry.example/app:1", &["./serve"])));
    assert!(verdict.admit);
    assert_eq!(finding(&verdict, Code::Vg201).severity, Severity::Warning);
    // The policy may say an amount.
    let mut cluster = with_h100(policy("unknown: {timeSliced: {assume: \"0.50\"}}"), 4);
    assert!(
        cluster
            .create(&one("a", program("registry.example/app:1", &["./serve"])))
            .admit
    );
    assert!(promised(&cluster) >= 500_000);
    // Commands of a shell take nothing, and NVIDIA's own agents only look.
    let mut cluster = with_h100(Cluster::new(), 4);
    assert!(
        cluster
            .create(&one("a", program("busybox:1", &["sleep", "1d"])))
            .admit
    );
    let agent = program("nvcr.io/nvidia/k8s/dcgm-exporter:4", &["dcgm-exporter"]);
    assert!(cluster.create(&one("b", agent)).admit);
    let mut privileged = program("registry.example/cni:1", &["./agent"]);
    privileged["env"] = json!([]);
    privileged["securityContext"] = json!({"privileged": true});
    assert!(cluster.create(&one("c", privileged)).findings.is_empty());
    assert_eq!(promised(&cluster), 0);
}

#[test]
fn engines_that_run_on_the_cpu_are_not_told() {
    let mut cluster = with_h100(Cluster::new(), 4);
    for container in [
        json!({"name": "x", "image": "ollama/ollama:0.5.0"}),
        json!({"name": "x", "image": "ghcr.io/ggml-org/llama.cpp:server", "args": ["-m", "/m.gguf"]}),
        json!({"name": "x", "image": "registry.example/vllm-router:1", "command": ["vllm-router"]}),
        json!({"name": "x", "image": VLLM, "command": ["sleep", "1d"]}),
        json!({"name": "x", "image": "registry.example/vllm-neuron:1", "args": ["vllm", "serve", "m"],
               "resources": {"limits": {"aws.amazon.com/neuron": "1"}}}),
    ] {
        let verdict = cluster.try_create(&one("a", container.clone()));
        assert!(!verdict.judged, "{container}: {:#?}", verdict.findings);
    }
}

#[test]
fn objects_that_make_such_pods_are_told_when_applied() {
    let mut cluster = with_h100(policy("access: {visibleDevices: warn}"), 4);
    let verdict = cluster.create(&deployment("chat", 3, &sees("0.30", "all")));
    assert!(verdict.admit);
    let found = finding(&verdict, Code::Vg501);
    assert_eq!(found.path.as_str(), "spec.template.spec.containers[0].env[0]");
    let four = deployment("chat", 4, &sees("0.30", "all"));
    let verdict = cluster.create(&four);
    assert!(!verdict.admit);
    assert!(fixes_hold(&mut cluster, &four, &verdict) > 0);
    let mut strict = with_h100(Cluster::new(), 4);
    let object = deployment("chat", 1, &sees("0.30", "all"));
    let verdict = strict.create(&object);
    assert!(!verdict.admit);
    assert_eq!(fixes_hold(&mut strict, &object, &verdict), 2);
    // Nothing that was so before is refused because of it.
    let mut labelled = object.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert!(strict.update(&object, &labelled).admit);
}

#[test]
fn without_a_node_that_has_gpus_there_is_no_memory_to_count() {
    let mut cluster = policy("access: {visibleDevices: warn}");
    let verdict = cluster.create(&one("a", sees("0.30", "all")));
    assert!(verdict.admit && has(&verdict, Code::Vg501) && verdict.findings.len() == 1);
    // A pod that stays off the GPU nodes takes nothing of theirs.
    let mut cluster = with_h100(cluster, 4);
    let mut elsewhere = one("b", sees("0.30", "all"));
    elsewhere["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "cpu-1"});
    assert!(cluster.create(&elsewhere).admit);
    let of_b = |cluster: &Cluster| {
        let devices = cluster.ledger.devices();
        devices[0]
            .holders
            .iter()
            .filter(|holder| &*holder.name == "b")
            .count()
    };
    assert_eq!(of_b(&cluster), 0);
    cluster.running(&elsewhere, "cpu-1");
    assert_eq!(of_b(&cluster), 0);
}

#[test]
fn explain_says_the_same() {
    let file = std::env::temp_dir().join(format!("vramgate-neighbours-{}.json", std::process::id()));
    std::fs::write(&file, one("a", sees("0.30", "all")).to_string()).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(["explain", "-o", "json"])
        .arg(&file)
        .output()
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    let explanation: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = &explanation["items"][0]["containers"][0]["findings"];
    let codes: Vec<&str> = findings
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["VG501"], "{explanation:#}");
}

#[test]
fn the_cost_of_thousands_of_such_containers_grows_with_them_and_not_faster() {
    // The largest object that an API server takes has room for so many.
    let (few, many) = (created_with(2_000), created_with(8_000));
    assert!(many <= 6 * few, "{few} bytes allocated, then {many}");
}

/// What it allocates in all, in bytes, to refuse a pod of so many containers, each with a device path.
fn created_with(count: usize) -> u64 {
    let mut cluster = with_h100(policy("access: {visibleDevices: warn, devicePaths: warn}"), 4);
    let containers: Vec<Value> = (0..count)
        .map(|index| {
            let fraction = format!("0.{:05}", index + 1);
            let mut container = sees(&fraction, "all");
            container["name"] = json!(format!("c{index}"));
            container["volumeMounts"] = json!([{"name": format!("v{index}"), "mountPath": "/x"}]);
            if index % 2 == 0 {
                container["image"] = json!("registry.example/app:1");
                container["command"] = json!(["./serve"]);
            }
            container
        })
        .collect();
    let volumes: Vec<Value> = (0..count)
        .map(|index| json!({"name": format!("v{index}"), "hostPath": {"path": "/dev/nvidia0"}}))
        .collect();
    let mut object = pod_of("many", json!(containers));
    object["spec"]["volumes"] = json!(volumes);
    let cost = allocation_counter::measure(|| assert!(!cluster.create(&object).admit));
    cost.bytes_total
}

fn tenants(rule: &str) -> Cluster {
    policy(&format!("device: {{tenants: {rule}}}"))
}

fn of(namespace: &str, name: &str, fraction: &str) -> Value {
    let mut object = pod(name, fraction);
    object["metadata"]["namespace"] = json!(namespace);
    object
}

#[test]
fn tenants_are_kept_apart_on_shared_devices() {
    let mut cluster = with_h100(tenants("sameNamespace"), 4);
    assert!(cluster.create(&of("team-a", "a", "0.20")).admit);
    assert!(cluster.create(&of("team-a", "b", "0.20")).admit);
    let verdict = cluster.create(&of("team-b", "c", "0.20"));
    assert!(!verdict.admit);
    assert!(
        !finding(&verdict, Code::Vg211).message.contains("team-a"),
        "names are hidden"
    );
    // Another node is free of them.
    cluster.gpu_node("gpu-2", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    let verdict = cluster.create(&of("team-b", "c", "0.20"));
    assert!(verdict.admit);
    assert_eq!(verdict.placement[0].node, "gpu-2");
    assert!(!cluster.create(&of("team-c", "d", "0.20")).admit);
    // Devices of their own isolate them.
    cluster.gpu_node("gpu-3", "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
    assert!(cluster.create(&of("team-c", "d", "0.20")).admit);
}

#[test]
fn sets_of_tenants_may_share_and_everybody_else_is_alone() {
    let mut cluster = with_h100(tenants("[[team-a, team-b], [team-c]]"), 4);
    assert!(cluster.create(&of("team-a", "a", "0.20")).admit);
    assert!(cluster.create(&of("team-b", "b", "0.20")).admit);
    for other in ["team-c", "team-d"] {
        let verdict = cluster.create(&of(other, "c", "0.20"));
        assert_eq!(finding(&verdict, Code::Vg211).severity, Severity::Error);
    }
    // What the text proposes: both namespaces in one set.
    let mut cluster = with_h100(tenants("[[team-a, team-b, team-c]]"), 4);
    assert!(cluster.create(&of("team-a", "a", "0.20")).admit);
    assert!(cluster.create(&of("team-c", "b", "0.20")).admit);
}

#[test]
fn a_foreign_holder_closes_a_node_of_several_devices() {
    let mut cluster = tenants("sameNamespace");
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 2, 4);
    assert!(cluster.create(&of("team-a", "a", "0.20")).admit);
    let verdict = cluster.create(&of("team-b", "b", "0.20"));
    assert!(has(&verdict, Code::Vg211));
    // One that only reaches the devices is a tenant as well.
    let mut cluster = with_h100(tenants("sameNamespace"), 4);
    cluster.running(&one("a", sees("0.10", "all")), "gpu-1");
    assert!(has(&cluster.create(&of("team-b", "b", "0.20")), Code::Vg211));
}

#[test]
fn a_foreign_holder_that_was_seen_closes_its_device() {
    let mut cluster = tenants("sameNamespace");
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 2, 2);
    let seen = |cluster: &mut Cluster, name: &str, slot: u32| {
        let mut object = cluster.running(&of("team-a", name, "0.20"), "gpu-1");
        object["status"]["containerStatuses"] = json!([{"name": "server", "allocatedResourcesStatus": [
            {"name": "nvidia.com/gpu", "resources": [{"resourceID": format!("GPU-0::{slot}"), "health": "Healthy"}]},
        ]}]);
        cluster.see(&object);
    };
    seen(&mut cluster, "a", 0);
    let verdict = cluster.create(&of("team-b", "b", "0.20"));
    let found = finding(&verdict, Code::Vg211);
    assert!(
        found
            .details
            .iter()
            .any(|detail| detail.starts_with("the device of each holder is known")),
        "{found:?}"
    );
    // Without a free slot its device is none that the other can get.
    seen(&mut cluster, "c", 1);
    assert!(!cluster.create(&one("r", sees("0.10", "all"))).admit);
    assert!(cluster.create(&of("team-b", "b", "0.20")).admit);
    // Of the new pod nothing tells yet where it stands.
    assert!(has(&cluster.create(&of("team-c", "d", "0.20")), Code::Vg211));
}

#[test]
fn tentative_places_move_so_that_tenants_can_be_kept_apart() {
    let mut cluster = tenants("sameNamespace");
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    cluster.gpu_node("gpu-2", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    // Both of team-a could stand on either; the selector of the other team leaves it one.
    assert!(cluster.create(&of("team-a", "a", "0.20")).admit);
    let place = cluster
        .ledger
        .devices()
        .iter()
        .position(|d| !d.holders.is_empty())
        .unwrap();
    let mut fixed = of("team-b", "b", "0.20");
    let taken = if place == 0 { "gpu-1" } else { "gpu-2" };
    fixed["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": taken});
    assert!(cluster.create(&fixed).admit, "team-a's pod moves");
    let both = cluster.ledger.devices();
    assert!(both.iter().all(|device| device.holders.len() == 1));
}

#[test]
fn a_deployment_of_another_tenant_is_told_how_many_find_a_device() {
    let mut cluster = with_h100(tenants("sameNamespace"), 4);
    cluster.running(&of("team-b", "b", "0.20"), "gpu-1");
    let verdict = cluster.create(&deployment("chat", 2, &vllm(VLLM, Some("0.20"))));
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg211);
    assert!(
        found.details.iter().any(|d| d.contains("0 of 2 pods")),
        "{found:#?}"
    );
}

#[test]
fn texts() {
    let mut cluster = with_h100(policy("access: {privileged: warn, runtimeClasses: [nvidia]}"), 4);
    let mut tell = |name: &str, object: &Value| {
        let verdict = cluster.try_create(object);
        let text = if verdict.admit {
            message::report(&verdict, "")
        } else {
            message::refusal(&verdict)
        };
        assert!(text.lines().next().unwrap().chars().count() < 256, "{text}");
        golden(name, &text);
    };
    tell("vg501-visible-devices", &one("chat", sees("0.30", "all")));
    let mut mounts = unasked("0.30");
    mounts["volumeMounts"] = json!([{"name": "gpu", "mountPath": "/dev/nvidia0"}]);
    let mut object = one("chat", mounts);
    object["spec"]["volumes"] = json!([{"name": "gpu", "hostPath": {"path": "/dev/nvidia0"}}]);
    tell("vg502-device-path", &object);
    let mut privileged = unasked("0.30");
    privileged["securityContext"] = json!({"privileged": true});
    tell("vg502-privileged", &one("chat", privileged));
    let mut class = one("chat", unasked("0.30"));
    class["spec"]["runtimeClassName"] = json!("nvidia");
    tell("vg503-runtime-class", &class);
    tell("vg504-engine", &one("chat", unasked("0.30")));
    let mut cluster = with_h100(
        policy("device: {tenants: sameNamespace}, messages: {otherNamespaces: true}"),
        4,
    );
    cluster.running(&of("team-b", "b", "0.20"), "gpu-1");
    let verdict = cluster.create(&of("team-a", "chat", "0.20"));
    golden("vg211-tenants", &message::refusal(&verdict));
}

#[test]
fn the_pages_show_the_first_lines() {
    let read = |path: String| {
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
    };
    for (code, name) in [
        ("VG211", "vg211-tenants"),
        ("VG501", "vg501-visible-devices"),
        ("VG502", "vg502-device-path"),
        ("VG503", "vg503-runtime-class"),
        ("VG504", "vg504-engine"),
    ] {
        let text = read(format!("tests/texts/{name}.txt"));
        let first = text.lines().next().unwrap();
        let page = read(format!("docs/codes/{code}.md"));
        assert!(page.contains(first), "docs/codes/{code}.md lacks\n{first}");
    }
}

/// Whoever counts where a pod is judged has to be seen where a running one is read, or the ledger forgets it.
#[test]
fn an_engine_that_counts_in_a_verdict_counts_in_the_ledger() {
    let from = json!([{"configMapRef": {"name": "devices"}}]);
    let engines = [
        json!({"name": "server", "image": VLLM, "args": ["org/model", "--gpu-memory-utilization", "0.30"]}),
        json!({"name": "server", "image": "ollama/ollama:0.9.0"}),
        json!({"name": "server", "image": "ghcr.io/ggml-org/llama.cpp:server-cuda", "args": ["-m", "/m.gguf", "-ngl", "99"]}),
        json!({"name": "server", "image": "registry.example/train:1", "command": ["torchrun", "train.py"]}),
    ];
    for engine in engines {
        for (way, value) in [
            ("securityContext", json!({"privileged": true})),
            ("envFrom", from.clone()),
        ] {
            let mut container = engine.clone();
            container[way] = value;
            let mut cluster = with_h100(policy("access: {visibleDevices: warn}"), 4);
            cluster.maps.0.insert(
                ("team-a".to_owned(), "devices".to_owned()),
                [("NVIDIA_VISIBLE_DEVICES".to_owned(), "all".to_owned())].into(),
            );
            let object = one("server", container);
            let verdict = cluster.check(&object);
            assert!(verdict.admit && !verdict.placement.is_empty(), "{way} {object:#}");
            assert_eq!(promised(&cluster), 0);
            let pod = serde_json::from_value(object.clone()).unwrap();
            assert!(
                vramgate::demand::access::may_reach(&pod, |_| false),
                "{way} {object:#}"
            );
            cluster.running(&object, "gpu-1");
            assert!(promised(&cluster) > 0, "{way} {object:#}");
        }
    }
    // Agents of the node are privileged as well, and most containers read ConfigMaps.
    for mut container in [
        json!({"name": "agent", "image": "registry.example/cni:1"}),
        json!({"name": "agent", "image": "registry.example/tools:1", "command": ["sh", "-c", "sleep 5"]}),
    ] {
        container["securityContext"] = json!({"privileged": true});
        container["envFrom"] = from.clone();
        let pod = serde_json::from_value(one("agent", container)).unwrap();
        assert!(!vramgate::demand::access::may_reach(&pod, |_| false));
    }
}

#[test]
fn an_engine_is_not_shut_out_where_the_policy_refuses_one_without_a_gpu() {
    let mut cluster = with_h100(policy("codes: {error: [VG504]}"), 4);
    let object = one("a", sees("0.20", "all"));
    let verdict = cluster.try_create(&object);
    assert!(!verdict.admit && has(&verdict, Code::Vg501));
    // To ask for a GPU is what remains.
    assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 1);
}
