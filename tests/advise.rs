//! `vramgate advise`, end to end: what it prints is applied to a cluster, and everything that it was asked about is admitted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use std::process::Command;

use kit::{Cluster, golden, gpu_node, mig_node, pod_of};
use serde_json::{Value, json};
use vramgate::mig::Geometry;
use vramgate::policy::file;

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .arg("advise")
        .args(arguments)
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn document(arguments: &[&str], exit: i32) -> Value {
    let mut with_json = arguments.to_vec();
    let at = arguments
        .iter()
        .position(|word| *word == "--")
        .unwrap_or(arguments.len());
    with_json.splice(at..at, ["-o", "json"]);
    let (code, out, err) = run(&with_json);
    assert_eq!(code, exit, "{out}{err}");
    serde_json::from_str(&out).unwrap()
}

fn object<'d>(document: &'d Value, name: &str) -> &'d Value {
    let objects = document["apply"].as_array().unwrap();
    let found = objects.iter().find(|object| object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {document:#}"))
}

/// The value of a ConfigMap, which is YAML.
fn held(document: &Value, name: &str, key: &str) -> Value {
    let text = object(document, name)["data"][key].as_str().unwrap();
    serde_saphyr::from_str(text).unwrap()
}

/// A container of no known engine whose amount is a fraction: vLLM with a model that nobody knows.
fn process(fraction: &str, resource: &str) -> Value {
    json!([{"name": "server", "image": "vllm/vllm-openai:v0.20.0",
        "args": ["example-org/model", "--gpu-memory-utilization", fraction],
        "resources": {"limits": {resource: "1"}}}])
}

#[test]
fn slots_that_are_advised_take_all_processes() {
    for (product, label, memory, gpus, way) in [
        ("l40s", "NVIDIA-L40S", 46_068, 1, "mps"),
        ("l40s", "NVIDIA-L40S", 46_068, 2, "mps"),
        ("rtx-4090", "NVIDIA-GeForce-RTX-4090", 24_564, 1, "time-slicing"),
    ] {
        let workload = if way == "mps" { "inference" } else { "interactive" };
        let count = gpus * 4;
        let gpus_text = gpus.to_string();
        let needs = format!("5000={count}");
        let advice = document(
            &[
                "--product",
                product,
                "--gpus",
                &gpus_text,
                "--workload",
                workload,
                "--memory",
                &needs,
                "--engine-version",
                "0.20.0",
            ],
            0,
        );
        assert_eq!(
            (&advice["way"], &advice["replicas"]),
            (&json!(way), &json!(4)),
            "{advice:#}"
        );

        // The policy is one of ours, and has no notice.
        let policy = object(&advice, "advised");
        let text = serde_saphyr::to_string(policy).unwrap();
        let parsed = file::parse(&text, "advised").unwrap_or_else(|errors| panic!("{errors}"));
        assert!(parsed[0].notices.is_empty(), "{:?}", parsed[0].notices);

        // The configuration makes such a node.
        let config = held(&advice, "device-plugin-configs", "advised");
        let mode = if way == "mps" { "mps" } else { "timeSlicing" };
        let resources = &config["sharing"][mode]["resources"];
        assert_eq!(resources[0]["name"], "nvidia.com/gpu");
        let replicas = u32::try_from(resources[0]["replicas"].as_u64().unwrap()).unwrap();
        let mut node = gpu_node("gpu-1", label, memory, gpus, replicas);
        node["metadata"]["labels"]["nvidia.com/gpu.sharing-strategy"] = json!(way);
        for (key, value) in advice["nodeLabels"].as_object().unwrap() {
            node["metadata"]["labels"][key] = value.clone();
        }
        let mut cluster = Cluster::with_policy(&text);
        cluster.node(&node);
        // Each at the fraction that is advised, whatever device it lands on; and no slot is left.
        let fraction = advice["fraction"].as_str().unwrap();
        for index in 0..count {
            let name = format!("p{index}");
            let pod = pod_of(&name, process(fraction, "nvidia.com/gpu"));
            let verdict = cluster.create(&pod);
            assert!(verdict.admit, "{product} {name}: {:#?}", verdict.findings);
        }
        assert!(cluster.ledger.over_budget().is_empty());
        assert!(
            !cluster
                .create(&pod_of("more", process("0.050", "nvidia.com/gpu")))
                .admit
        );
    }
}

#[test]
fn a_layout_that_is_advised_is_valid_and_takes_all_processes() {
    let advice = document(
        &[
            "--product",
            "h100-80gb-sxm",
            "--isolation",
            "required",
            "--memory",
            "9000=4",
            "--memory",
            "30000=1",
        ],
        0,
    );
    assert_eq!(advice["way"], "mig");
    let parted = held(&advice, "mig-configs", "config.yaml");
    let entries = parted["mig-configs"]["advised"].as_array().unwrap();
    let catalogue = vramgate::device::catalogue::Catalogue::embedded();
    let geometry = Geometry::of(catalogue.product("h100-80gb-sxm").unwrap()).unwrap();
    let [entry] = entries.as_slice() else {
        panic!("{parted:#}")
    };
    let counts: Vec<(String, u32)> = entry["mig-devices"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, count)| (name.clone(), u32::try_from(count.as_u64().unwrap()).unwrap()))
        .collect();
    let asked = counts.iter().map(|(name, count)| (name.as_str(), *count));
    assert!(geometry.place(asked).is_ok());
    assert_eq!(advice["nodeLabels"]["nvidia.com/mig.config"], "advised");
    assert_eq!(
        held(&advice, "device-plugin-configs", "advised")["flags"]["migStrategy"],
        "mixed"
    );

    let slices: Vec<(&str, u32, u32)> = counts
        .iter()
        .map(|(name, count)| {
            let memory = geometry.profile(name).unwrap().memory.unwrap();
            (name.as_str(), u32::try_from(memory.get()).unwrap(), *count)
        })
        .collect();
    let mut cluster = Cluster::new();
    cluster.node(&mig_node("gpu-1", &slices));
    let mut pods = 0;
    for served in advice["served"].as_array().unwrap() {
        for _ in 0..served["count"].as_u64().unwrap() {
            pods += 1;
            let pod = pod_of(
                &format!("p{pods}"),
                process("0.90", served["resource"].as_str().unwrap()),
            );
            let verdict = cluster.create(&pod);
            assert!(verdict.admit, "{:#?}", verdict.findings);
            let row = &verdict.placement[0];
            cluster.running(&pod, &row.node.clone());
        }
    }
    assert_eq!(pods, 5);
}

#[test]
fn a_fraction_in_the_arguments_is_what_each_takes() {
    let ask = |fraction: &str, exit: i32| {
        let arguments = [
            "--product",
            "l40s",
            "--models",
            "Qwen/Qwen3-0.6B=4",
            "--engine-version",
            "0.20.0",
            "--",
            "--max-model-len",
            "4096",
            "--gpu-memory-utilization",
            fraction,
        ];
        document(&arguments, exit)
    };
    // 0.9 x (9214 + 640) / (46068 - 692) = 0.195447 is below the fraction.
    assert_eq!(ask("0.20", 0)["served"][0]["share"], "0.20");
    // Four of one half are more than a GPU, however little the model needs.
    let advice = ask("0.5", 1);
    assert_eq!(
        (&advice["way"], &advice["gpus"]),
        (&json!("whole"), &json!(4)),
        "{advice:#}"
    );
}

#[test]
fn what_is_to_be_applied_changes_no_node_without_the_label() {
    for (product, way) in [("l40s", "mps"), ("h100-80gb-sxm", "mig")] {
        let isolation = if way == "mig" { "required" } else { "none" };
        let arguments = [
            "--product",
            product,
            "--isolation",
            isolation,
            "--memory",
            "9000=4",
        ];
        let advice = document(&arguments, 0);
        assert_eq!(advice["way"], way);
        // The plugin may take a single key for every node; one that is called so comes before that.
        assert_eq!(
            held(&advice, "device-plugin-configs", "default"),
            json!({"version": "v1"})
        );
        let notes = advice["notes"].to_string();
        assert!(
            notes.contains("devicePlugin.config.name is device-plugin-configs"),
            "{notes}"
        );
        // What vramgate says of the objects that it advises itself.
        let mut cluster = Cluster::new();
        cluster.node(&gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", 81_559, 1, 1));
        for object in advice["apply"].as_array().unwrap() {
            if object["kind"] == "ConfigMap" {
                let verdict = cluster.configure(object, None, &[]);
                assert!(
                    verdict.admit && verdict.findings.is_empty(),
                    "{:#?}",
                    verdict.findings
                );
            }
        }
        if way == "mig" {
            let parted = held(&advice, "mig-configs", "config.yaml");
            assert_eq!(
                parted["mig-configs"]["all-disabled"],
                json!([{"devices": "all", "mig-enabled": false}])
            );
            assert!(notes.contains("mig.strategy is mixed"), "{notes}");
        }
    }
}

#[test]
fn what_cannot_be_isolated_is_whole_gpus() {
    let advice = document(
        &["--product", "t4", "--isolation", "required", "--memory", "3000=2"],
        1,
    );
    assert_eq!((&advice["way"], &advice["gpus"]), (&json!("whole"), &json!(2)));
    assert!(
        advice["rejected"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("t4 has no MIG")
    );
    assert_eq!(advice["apply"], json!([]));
    let advice = document(
        &[
            "--product",
            "t4",
            "--gpus",
            "2",
            "--isolation",
            "required",
            "--memory",
            "3000=2",
        ],
        0,
    );
    assert_eq!(
        (&advice["way"], &advice["suffices"]),
        (&json!("whole"), &json!(true))
    );
}

/// What `-o yaml` prints, as `kubectl apply` reads it.
fn applied(arguments: &[&str], exit: i32) -> Vec<Value> {
    let mut with_yaml = arguments.to_vec();
    with_yaml.extend(["-o", "yaml"]);
    let (code, out, err) = run(&with_yaml);
    assert_eq!(code, exit, "{arguments:?}: {out}{err}");
    let documents = out.split("---\n").skip(1);
    documents
        .map(|text| serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}")))
        .collect()
}

/// The objects that are printed pass the judges of such objects on a node that has them: device plugin's and MIG manager's
/// ConfigMaps (VG601, VG602), the labels (VG603), the policy. The branch of the decision that they are of.
fn judged(product: &str, label: &str, memory: u32, arguments: &[&str], exit: i32) -> String {
    let mut all = vec!["--product", product];
    all.extend(arguments);
    let advice = document(&all, exit);
    let objects = applied(&all, exit);
    assert_eq!(json!(objects), advice["apply"], "{all:?}");
    let gpus: u32 = u32::try_from(advice["gpus"].as_u64().unwrap()).unwrap();
    let replicas = advice["replicas"]
        .as_u64()
        .map_or(1, |count| u32::try_from(count).unwrap());

    let naming = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: naming}\nspec: {device: {\
                  pluginConfig: gpu-operator/device-plugin-configs, migConfig: gpu-operator/mig-configs}}\n";
    let mut cluster = Cluster::with_policy(naming);
    let mut node = gpu_node("gpu-1", label, memory, gpus, replicas);
    let bare = node.clone();
    for (key, value) in advice["nodeLabels"].as_object().unwrap() {
        node["metadata"]["labels"][key] = value.clone();
    }
    let is_mig = advice["way"] == "mig";
    node["metadata"]["labels"]["nvidia.com/mig.capable"] = json!(is_mig.to_string());
    cluster.node(&node);
    let maps: Vec<Value> = objects
        .iter()
        .filter(|object| object["kind"] == "ConfigMap")
        .cloned()
        .collect();
    let mut kinds: Vec<&str> = Vec::new();
    for object in &objects {
        kinds.push(object["metadata"]["name"].as_str().unwrap());
        if object["kind"] == "ConfigMap" {
            let verdict = cluster.configure(object, None, &[]);
            assert!(
                verdict.judged && verdict.admit,
                "{all:?}: {:#?}",
                verdict.findings
            );
            assert_eq!(verdict.findings, [], "{all:?}\n{object:#}");
        } else {
            let text = serde_saphyr::to_string(object).unwrap();
            let parsed =
                file::parse(&text, "advised").unwrap_or_else(|errors| panic!("{all:?}: {errors}\n{text}"));
            assert!(parsed[0].notices.is_empty(), "{:?}", parsed[0].notices);
            Cluster::with_policy(&text);
        }
    }
    let verdict = cluster.configure(&node, Some(&bare), &maps);
    assert_eq!(verdict.findings, [], "{all:?}");
    let way = advice["way"].as_str().unwrap();
    let expected: &[&str] = match way {
        "mig" => &["mig-configs", "device-plugin-configs"],
        "whole" => &[],
        _ => &["device-plugin-configs", "advised"],
    };
    assert_eq!(kinds, expected, "{all:?}");
    let policy = objects.iter().find(|object| object["kind"] != "ConfigMap");
    let more = match policy {
        Some(policy) => policy["spec"]["device"]["perSlot"].as_str().unwrap().to_owned(),
        None => format!(
            "{} {}",
            advice["suffices"],
            if gpus > 1 { "several" } else { "one" }
        ),
    };
    format!("{way} {more}")
}

#[test]
fn what_is_printed_passes_its_judges_in_every_branch() {
    let l40s = ("l40s", "NVIDIA-L40S", 46_068);
    let card = ("rtx-4090", "NVIDIA-GeForce-RTX-4090", 24_564);
    let h100 = ("h100-80gb-sxm", "NVIDIA-H100-80GB-HBM3", 81_559);
    let mut seen = std::collections::BTreeSet::new();
    for ((product, label, memory), arguments, exit) in [
        (l40s, &["--memory", "8000=4"][..], 0),
        (l40s, &["--memory", "22000=1", "--memory", "3000=1"], 0),
        (l40s, &["--gpus", "2", "--memory", "5000=8"], 0),
        (card, &["--workload", "interactive", "--memory", "4000=4"], 0),
        (
            card,
            &[
                "--workload",
                "interactive",
                "--memory",
                "12000=1",
                "--memory",
                "4000=2",
            ],
            0,
        ),
        (card, &["--workload", "batch", "--memory", "4000=4"], 0),
        (
            h100,
            &[
                "--isolation",
                "required",
                "--memory",
                "9000=4",
                "--memory",
                "30000=1",
            ],
            0,
        ),
        (
            h100,
            &["--gpus", "2", "--isolation", "required", "--memory", "9000=10"],
            0,
        ),
        (h100, &["--tenants", "untrusted", "--memory", "9000=7"], 0),
        (h100, &["--workload", "batch", "--memory", "60000=1"], 0),
        (l40s, &["--isolation", "required", "--memory", "3000=2"], 1),
        (
            l40s,
            &["--gpus", "2", "--isolation", "required", "--memory", "3000=2"],
            0,
        ),
        (l40s, &["--memory", "40000=2"], 1),
    ] {
        seen.insert(judged(product, label, memory, arguments, exit));
    }
    let branches: Vec<&str> = seen.iter().map(String::as_str).collect();
    assert_eq!(
        branches,
        [
            "mig true one",
            "mig true several",
            "mps fairShare",
            "mps none",
            "time-slicing fairShare",
            "time-slicing none",
            "whole false several",
            "whole true one",
            "whole true several",
        ]
    );
}

#[test]
fn a_layout_of_every_product_passes_the_mig_managers_judge() {
    let catalogue = vramgate::device::catalogue::Catalogue::embedded();
    let mut cut = 0;
    for product in catalogue.products() {
        let (Some(_), Some(label)) = (Geometry::of(product), product.products.first()) else {
            continue;
        };
        let memory = u32::try_from(product.lowest_memory().get()).unwrap();
        let each = (memory / 16).to_string();
        let needs = format!("{each}=2");
        let branch = judged(
            &product.id,
            label,
            memory,
            &["--isolation", "required", "--memory", &needs],
            0,
        );
        assert_eq!(branch, "mig true one", "{}", product.id);
        cut += 1;
    }
    assert!(cut > 5, "{cut}");
}

#[test]
fn models_are_estimated() {
    let advice = document(
        &[
            "--product",
            "h100-80gb-sxm",
            "--models",
            "Qwen/Qwen3-8B=3",
            "--",
            "--max-model-len",
            "8192",
        ],
        0,
    );
    assert_eq!(advice["way"], "mps", "{advice:#}");
    let isolated = document(
        &[
            "--product",
            "h100-80gb-sxm",
            "--tenants",
            "untrusted",
            "--models",
            "Qwen/Qwen3-8B=2",
            "--",
            "--max-model-len",
            "8192",
        ],
        0,
    );
    assert_eq!(isolated["way"], "mig", "{isolated:#}");
}

#[test]
fn texts() {
    let text = |name: &str, arguments: &[&str], exit: i32| {
        let (code, out, err) = run(arguments);
        assert_eq!(code, exit, "{out}{err}");
        golden(name, &out);
    };
    text("advise-mps", &["--product", "l40s", "--memory", "10000=4"], 0);
    text(
        "advise-time-slicing",
        &[
            "--product",
            "rtx-4090",
            "--workload",
            "interactive",
            "--memory",
            "5000=4",
            "-o",
            "yaml",
        ],
        0,
    );
    text(
        "advise-mig",
        &[
            "--product",
            "h100-80gb-sxm",
            "--isolation",
            "required",
            "--memory",
            "9000=4",
            "--memory",
            "30000=1",
            "-o",
            "yaml",
        ],
        0,
    );
    text(
        "advise-whole",
        &["--product", "t4", "--isolation", "required", "--memory", "3000=2"],
        1,
    );
}

#[test]
fn unusable_input_says_what_to_write() {
    for (arguments, words) in [
        (&["--product", "l40s"][..], &["--models", "--memory"][..]),
        (&["--product", "l40s", "--memory", "0=1"], &["MIB=COUNT"]),
        (&["--product", "l40s", "--memory=-3"], &["--memory"]),
        (&["--product", "l40s", "--memory", "8000=0"], &["whole number"]),
        (
            &["--product", "l40s", "--memory", "8000=99999999999"],
            &["whole number"],
        ),
        (&["--product", "46068", "--memory", "8000"], &["--product"]),
        (
            &["--product", "nothing-of-the-kind", "--memory", "8000"],
            &["--product"],
        ),
        (
            &["--product", "l40s", "--memory", "8000", "--name", "no name"],
            &["--name"],
        ),
        (
            &[
                "--product",
                "l40s",
                "--models",
                "Qwen/Qwen3-8B",
                "--engine",
                "vlm",
            ],
            &["--engine"],
        ),
        (
            &[
                "--product",
                "l40s",
                "--memory",
                "8000",
                "--",
                "--max-model-len",
                "1",
            ],
            &["ENGINE ARGS"],
        ),
        (
            &["--product", "l40s", "--isolation", "perhaps", "--memory", "8000"],
            &["required"],
        ),
    ] {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        for word in words {
            assert!(err.contains(word), "{arguments:?}: {err}");
        }
    }
}
