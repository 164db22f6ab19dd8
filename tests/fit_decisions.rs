//! Whether a model fits the device that its pod gets: the verdict, its words, and the changes that it proposes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use std::path::PathBuf;
use std::process::Command;

use kit::{
    Cluster, H100, apply, deployment, finding, fixes_hold, golden, gpu_node, has, mig_node, pod_of, serving,
};
use serde_json::{Value, json};
use vramgate::decision::Verdict;
use vramgate::finding::{Code, Number, Severity};
use vramgate::message;

const GPU: &str = "nvidia.com/gpu";
const SMALL_SLICE: &str = "nvidia.com/mig-1g.10gb";
const LARGE: [&str; 4] = [
    "--model",
    "meta-llama/Llama-3.3-70B-Instruct",
    "--max-model-len",
    "8192",
];

fn whole(devices: u32) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.gpu_node("whole", "NVIDIA-H100-80GB-HBM3", H100, devices, 1);
    cluster
}

fn shared() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.gpu_node("shared", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    cluster
}

fn sliced() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node(&mig_node("sliced", &[("1g.10gb", 9_984, 7)]));
    cluster
}

fn with_spec(spec: &str) -> Cluster {
    let mut cluster = Cluster::with_policy(&format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: own}}\nspec:\n{spec}"
    ));
    cluster.node(&mig_node("sliced", &[("1g.10gb", 9_984, 7)]));
    cluster
}

fn titles(verdict: &Verdict) -> Vec<&str> {
    let fixes = verdict.findings.iter().flat_map(|finding| &finding.fixes);
    fixes.map(|fix| fix.title.as_str()).collect()
}

fn codes(verdict: &Verdict) -> Vec<(Code, Severity)> {
    let findings = verdict.findings.iter();
    findings.map(|finding| (finding.code, finding.severity)).collect()
}

#[test]
fn a_context_that_finds_no_room_is_refused_and_a_shorter_one_proposed() {
    // 16 GiB of weights in 24 GiB; 131072 tokens of 128 KiB take 16 GiB.
    let args = [
        "--model",
        "meta-llama/Llama-3.1-8B-Instruct",
        "--gpu-memory-utilization=0.30",
        "--max-num-seqs=64",
    ];
    let object = serving(&args, GPU, 1);
    let mut cluster = shared();
    let verdict = cluster.create(&object);
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg702);
    assert_eq!(found.numbers["maxModelLen"], Number::Count(131_072));
    assert_eq!(
        found.numbers["needMiB"],
        Number::Memory(vramgate::units::Mib::new(16_384))
    );
    let Number::Count(longest) = found.numbers["longestContext"] else {
        panic!("{:?}", found.numbers);
    };
    assert!(
        longest.is_multiple_of(1_024) && (40_000..65_000).contains(&longest),
        "{longest}"
    );
    golden("vg702-context", &message::refusal(&verdict));
    let expected = format!("shorten the context of container server to {longest} tokens");
    assert!(
        titles(&verdict).contains(&expected.as_str()),
        "{:?}",
        titles(&verdict)
    );
    assert_eq!(
        fixes_hold(&mut cluster, &object, &verdict),
        2,
        "and a larger fraction"
    );
    let changed = apply(&object, &found.fixes[1]);
    assert_eq!(
        changed["spec"]["containers"][0]["args"][4],
        format!("--max-model-len={longest}"),
        "appended where nothing is written"
    );
    let written = serving(&[&args[..], &["--max-model-len", "131072"]].concat(), GPU, 1);
    let verdict = cluster.create(&written);
    let changed = apply(&written, &finding(&verdict, Code::Vg702).fixes[1]);
    assert_eq!(changed["spec"]["containers"][0]["args"][5], longest.to_string());
}

#[test]
fn a_larger_fraction_is_proposed_where_the_device_has_room_for_it() {
    let object = serving(
        &[
            "--model",
            "Qwen/Qwen3-8B",
            "--max-model-len=8192",
            "--gpu-memory-utilization=0.15",
        ],
        GPU,
        1,
    );
    let raise = |verdict: &Verdict| {
        titles(verdict)
            .iter()
            .any(|title| title.starts_with("raise the memory fraction of container server to 0.290"))
    };
    let mut cluster = whole(1);
    let verdict = cluster.create(&object);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg701) && raise(&verdict),
        "{:#?}",
        verdict.findings
    );
    golden("vg701-fraction", &message::refusal(&verdict));
    assert!(fixes_hold(&mut cluster, &object, &verdict) >= 1);
    let mut cluster = shared();
    assert!(raise(&cluster.try_create(&object)), "the device is free");
    let mut held = serving(&["--model", "m", "--gpu-memory-utilization=0.65"], GPU, 1);
    held["metadata"]["name"] = json!("held");
    assert!(cluster.create(&held).admit);
    let verdict = cluster.try_create(&object);
    assert!(!raise(&verdict), "the budget has no room: {:?}", titles(&verdict));
}

#[test]
fn more_devices_and_the_parallel_size_are_proposed_together() {
    let object = serving(&LARGE, GPU, 1);
    let mut cluster = whole(8);
    let verdict = cluster.create(&object);
    assert!(!verdict.admit);
    golden("vg701-more-devices", &message::refusal(&verdict));
    assert_eq!(
        titles(&verdict),
        ["ask for 4 of nvidia.com/gpu in container server and set its tensor parallel size to 4"]
    );
    assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 1);
    let changed = apply(&object, &finding(&verdict, Code::Vg701).fixes[0]);
    assert_eq!(changed["spec"]["containers"][0]["resources"]["limits"][GPU], "4");
    // With two devices to a node, only what may do is left, and says so.
    let verdict = whole(2).create(&object);
    assert!(
        titles(&verdict)
            .iter()
            .all(|title| title.ends_with("may start or not"))
    );
}

#[test]
fn a_model_whose_name_is_not_certain_is_never_refused() {
    let verdict = sliced().create(&serving(
        &["--model", "/models/meta-llama/Llama-2-13b-chat-hf"],
        SMALL_SLICE,
        1,
    ));
    assert!(verdict.admit && !verdict.would_deny);
    assert_eq!(codes(&verdict), [(Code::Vg301, Severity::Warning)]);
    golden("vg301-by-a-path", &message::report(&verdict, ""));
    for unknown in [
        "/models/ours",
        "example-org/ours-13b",
        "s3://bucket/llama-2-13b",
        "$(MODEL)",
    ] {
        let verdict = sliced().create(&serving(&["--model", unknown], SMALL_SLICE, 1));
        assert!(
            verdict.admit && verdict.findings.is_empty(),
            "{unknown}: {:#?}",
            verdict.findings
        );
    }
}

#[test]
fn an_annotation_says_which_model_it_is() {
    let mut object = serving(&["--model", "/models/ours"], SMALL_SLICE, 1);
    object["metadata"]["annotations"] = json!({"vramgate.io/model.server": "llama-2-13b"});
    let verdict = sliced().create(&object);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg301),
        "{:#?}",
        verdict.findings
    );
    object["metadata"]["annotations"] = json!({"vramgate.io/model": "meta-llama/Llama-2-13b-chat-hf"});
    assert!(!sliced().create(&object).admit);
    // The amounts are as ever: the annotation decides nothing else.
    object["metadata"]["annotations"] = json!({"vramgate.io/model": "Qwen/Qwen3-0.6B"});
    object["spec"]["containers"][0]["args"] = json!(["--model", "/models/ours", "--max-model-len", "4096"]);
    assert!(sliced().create(&object).findings.is_empty());

    for (name, key, model) in [
        (
            "vg108-annotation-of-no-model",
            "vramgate.io/model.server",
            "llama-2-13",
        ),
        (
            "vg108-annotation-of-no-container",
            "vramgate.io/model.sever",
            "llama-2-13b",
        ),
    ] {
        object["metadata"]["annotations"] = json!({key: model});
        let verdict = sliced().create(&object);
        assert!(verdict.admit);
        assert_eq!(codes(&verdict), [(Code::Vg108, Severity::Warning)]);
        golden(name, &message::report(&verdict, ""));
    }
    for hostile in ["", "\u{7}", "x".repeat(10_000).as_str(), "${A}", "../../etc"] {
        object["metadata"]["annotations"] = json!({"vramgate.io/model": hostile});
        let verdict = sliced().create(&object);
        let found = finding(&verdict, Code::Vg108);
        assert!(found.message.len() < 256, "{}", found.message);
    }
}

#[test]
fn a_pod_with_several_engines_needs_an_annotation_for_each() {
    let mut object = serving(&["--model", "/models/ours"], SMALL_SLICE, 1);
    let mut second = object["spec"]["containers"][0].clone();
    second["name"] = json!("second");
    object["spec"]["containers"].as_array_mut().unwrap().push(second);
    object["metadata"]["annotations"] = json!({"vramgate.io/model": "llama-2-13b"});
    let verdict = sliced().create(&object);
    assert_eq!(
        codes(&verdict),
        [(Code::Vg108, Severity::Warning)],
        "{:#?}",
        verdict.findings
    );
    object["metadata"]["annotations"]["vramgate.io/model.second"] = json!("qwen3-0.6b");
    let verdict = sliced().create(&object);
    assert!(
        has(&verdict, Code::Vg301) && !has(&verdict, Code::Vg108),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn a_config_map_at_the_models_path_holds_its_shape() {
    let config = include_str!("data/models/llama-2-7b.json");
    let mut object = serving(
        &[
            "--model",
            "/models/ours",
            "--quantization",
            "fp8",
            "--max-num-seqs=16",
        ],
        SMALL_SLICE,
        1,
    );
    object["spec"]["volumes"] = json!([{"name": "model", "configMap": {"name": "shape"}}]);
    object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "model", "mountPath": "/models/ours"}]);
    let mut cluster = sliced();
    assert!(
        cluster.create(&object).findings.is_empty(),
        "there is no such ConfigMap"
    );
    let key = ("team-a".to_owned(), "shape".to_owned());
    cluster.maps.0.insert(
        key.clone(),
        [("config.json".to_owned(), config.to_owned())].into(),
    );
    let verdict = cluster.create(&object);
    let found = finding(&verdict, Code::Vg301);
    assert!(
        found
            .details
            .iter()
            .any(|detail| detail.contains("by /models/ours/config.json from a ConfigMap")),
        "{found:#?}"
    );
    for broken in ["", "{", "[]", "{\"hidden_size\": -1}"] {
        let data = [("config.json".to_owned(), broken.to_owned())].into();
        cluster.maps.0.insert(key.clone(), data);
        assert!(cluster.create(&object).findings.is_empty(), "{broken}");
    }
}

#[test]
fn a_policy_states_its_own_models() {
    let object = |model: &str| serving(&["--model", model, "--max-model-len", "4096"], SMALL_SLICE, 1);
    // By weights alone: too large is told and never refused; small enough is told nothing.
    let mut cluster = with_spec(
        "  models: [{names: [team/*-13b], weightsMiB: 26000}, {names: [team/small], weightsMiB: 900}]\n",
    );
    let verdict = cluster.create(&object("Team/Chat-13B"));
    assert!(verdict.admit);
    assert_eq!(codes(&verdict), [(Code::Vg301, Severity::Warning)]);
    golden("vg301-stated-by-the-policy", &message::report(&verdict, ""));
    assert!(cluster.create(&object("team/small")).findings.is_empty());
    assert!(cluster.create(&object("team/other")).findings.is_empty());
    // With its cache: 4096 tokens of 2 MiB are 8 GiB, which 0.92 of 9984 MiB have not beside 2000 MiB of weights.
    let mut cluster = with_spec(
        "  models: [{names: [team/long], weightsMiB: 2000, kvBytesPerToken: 2097152, maxModelLen: 32768}]\n",
    );
    let verdict = cluster.create(&object("team/long"));
    let found = finding(&verdict, Code::Vg301);
    assert_eq!(
        found.numbers["needMiB"],
        Number::Memory(vramgate::units::Mib::new(8_192))
    );

    // A whole entry is as good as the catalogue's, and wins over it.
    let whole = "  models:\n  - id: ours-13b\n    names: [team/ours-13b, Qwen/Qwen3-0.6B]\n    parameters: 13015864320\n    \
                 numHiddenLayers: 40\n    hiddenSize: 5120\n    numAttentionHeads: 40\n    numKeyValueHeads: 40\n    \
                 intermediateSize: 13824\n    vocabSize: 32000\n    maxPositionEmbeddings: 4096\n    torchDtype: float16\n    \
                 tieWordEmbeddings: false\n    source: ours\n    confidence: verified\n";
    let mut cluster = with_spec(whole);
    for model in ["team/ours-13b", "ours-13b", "Qwen/Qwen3-0.6B"] {
        let verdict = cluster.create(&object(model));
        assert_eq!(codes(&verdict), [(Code::Vg301, Severity::Error)], "{model}");
    }
}

#[test]
fn severities_follow_the_policy() {
    let object = serving(&["--model", "meta-llama/Llama-2-13b-chat-hf"], SMALL_SLICE, 1);
    let verdict = with_spec("  codes: {warning: [VG301]}\n").create(&object);
    assert_eq!(codes(&verdict), [(Code::Vg301, Severity::Warning)]);
    let verdict = with_spec("  codes: {info: [VG301]}\n").create(&object);
    assert_eq!(codes(&verdict), [(Code::Vg301, Severity::Info)]);
    let verdict = with_spec("  mode: shadow\n").create(&object);
    assert!(verdict.admit && verdict.would_deny);
    assert_eq!(codes(&verdict), [(Code::Vg301, Severity::Warning)]);
}

#[test]
fn kinds_on_which_it_does_not_fit_are_named_while_others_take_it() {
    let mut cluster = whole(1);
    cluster.gpu_node("small", "NVIDIA-L40S", kit::L40S, 1, 1);
    let verdict = cluster.create(&serving(
        &[
            "--model",
            "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
            "--max-model-len=4096",
            "--max-num-seqs=64",
        ],
        GPU,
        1,
    ));
    assert!(verdict.admit);
    let found = finding(&verdict, Code::Vg701);
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.message.starts_with("refused on small"), "{}", found.message);
}

#[test]
fn ranks_that_do_not_start_are_not_estimated() {
    for (args, resource, count, code) in [
        (&["-tp", "2", "--gpu-memory-utilization=0.8"], GPU, 1, Code::Vg105),
        (
            &["-tp", "2", "--gpu-memory-utilization=0.8"],
            SMALL_SLICE,
            2,
            Code::Vg303,
        ),
    ] {
        let object = serving(&[&LARGE[..], &args[..]].concat(), resource, count);
        let mut cluster = whole(4);
        cluster.node(&mig_node("sliced", &[("1g.10gb", 9_984, 7)]));
        assert_eq!(codes(&cluster.create(&object)), [(code, Severity::Error)]);
    }
    let object = serving(
        &[&LARGE[..], &["-tp", "2", "--gpu-memory-utilization=0.2"]].concat(),
        GPU,
        2,
    );
    assert_eq!(codes(&shared().create(&object)), [(Code::Vg205, Severity::Error)]);
}

#[test]
fn an_update_is_refused_for_a_larger_model_and_never_for_a_smaller_fraction() {
    let container = |model: &str, fraction: &str| {
        let object = serving(
            &[
                "--model",
                model,
                "--gpu-memory-utilization",
                fraction,
                "--max-model-len=4096",
                "--max-num-seqs=64",
            ],
            GPU,
            1,
        );
        object["spec"]["containers"][0].clone()
    };
    let small = deployment("chat", 1, &container("Qwen/Qwen3-0.6B", "0.20"));
    let large = deployment("chat", 1, &container("Qwen/Qwen3-32B", "0.20"));
    let verdict = shared().update(&small, &large);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg701),
        "the model wants more than the one before"
    );
    // What does not fit may be there already, and going back is never refused.
    assert!(shared().update(&large, &small).admit);
    assert!(shared().update(&large, &large).admit);
    let mut labelled = large.clone();
    labelled["spec"]["template"]["metadata"]["labels"]["touched"] = json!("yes");
    assert!(shared().update(&large, &labelled).admit);
    // Less of the device is less, whatever becomes of the pods that follow.
    let less = deployment("chat", 1, &container("Qwen/Qwen3-0.6B", "0.01"));
    let verdict = shared().update(&small, &less);
    assert!(
        verdict.admit && has(&verdict, Code::Vg701),
        "{:#?}",
        verdict.findings
    );
    let mut deleting = large.clone();
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(shared().update(&small, &deleting).admit);
    // A pod whose image is changed in place keeps its model.
    let old = serving(
        &["--model", "Qwen/Qwen3-32B", "--gpu-memory-utilization", "0.20"],
        GPU,
        1,
    );
    let mut cluster = shared();
    let old = cluster.running(&old, "shared");
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = json!("vllm/vllm-openai:v0.21.0");
    assert!(cluster.update(&old, &new).admit);
}

#[test]
fn several_containers_are_judged_each() {
    let mut object = serving(&["--model", "meta-llama/Llama-2-13b-chat-hf"], SMALL_SLICE, 1);
    let mut second = object["spec"]["containers"][0].clone();
    second["name"] = json!("second");
    object["spec"]["containers"].as_array_mut().unwrap().push(second);
    let verdict = sliced().create(&object);
    let paths: Vec<&str> = verdict
        .findings
        .iter()
        .map(|finding| finding.path.as_str())
        .collect();
    assert_eq!(paths, ["spec.containers[0].args", "spec.containers[1].args"]);
}

/// The binary against one snapshot; the exit code and what it prints.
fn check(node: &Value, object: &Value, more: &[&str]) -> (i32, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fit-{}", more.len()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, value: &Value| {
        let path = folder.join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path
    };
    let state = write(
        "nodes.json",
        &json!({"apiVersion": "v1", "kind": "List", "items": [node]}),
    );
    let pod = write("pod.json", object);
    let output = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .arg("check")
        .arg(pod)
        .arg("--cluster-state")
        .arg(state)
        .args(more)
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[test]
fn check_ends_with_the_code_of_the_answer() {
    let node = mig_node("sliced", &[("1g.10gb", 9_984, 7)]);
    let llama = |size: &str, length: &str| {
        let model = format!("meta-llama/Llama-2-{size}-chat-hf");
        serving(
            &[
                "--model",
                &model,
                "--quantization=fp8",
                "--max-num-seqs=16",
                "--max-model-len",
                length,
            ],
            SMALL_SLICE,
            1,
        )
    };
    let (code, _) = check(&node, &llama("7b", "2048"), &["--fail-on", "warning"]);
    assert_eq!(code, 0);
    let (code, text) = check(&node, &llama("7b", "4096"), &[]);
    assert_eq!(code, 0);
    assert!(text.contains("VG301") && text.contains("may not start"), "{text}");
    let (code, _) = check(&node, &llama("7b", "4096"), &["--fail-on", "warning"]);
    assert_eq!(code, 1);
    let (code, text) = check(&node, &llama("13b", "4096"), &["-o", "json"]);
    assert_eq!(code, 1);
    let document: Value = serde_json::from_str(&text).unwrap();
    let found = &document["items"][0]["findings"][0];
    assert_eq!(
        (&found["code"], &found["severity"]),
        (&json!("VG301"), &json!("error"))
    );
    assert!(found["numbers"]["weightsMiB"].as_u64().unwrap() > 12_000);
}

#[test]
fn the_pages_of_the_codes_show_the_texts_as_they_are() {
    let read =
        |path: &str| std::fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    for (code, texts) in [
        ("VG301", &["g3-too-large-for-the-slice", "g1-doubtful"][..]),
        (
            "VG701",
            &[
                "vg701-more-devices",
                "vg701-fraction",
                "g4-doubtful-on-one-device",
            ],
        ),
        ("VG702", &["vg702-context"]),
    ] {
        let page = read(&format!("docs/codes/{code}.md"));
        for text in texts {
            let text = read(&format!("tests/texts/{text}.txt"));
            assert!(page.contains(&text), "docs/codes/{code}.md lacks\n{text}");
        }
    }
}

#[test]
fn a_device_of_unknown_size_and_a_pod_without_a_device_are_not_estimated() {
    let mut node = gpu_node("odd", "Contoso-9000", 0, 1, 1);
    node["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("nvidia.com/gpu.memory");
    let mut cluster = Cluster::new();
    cluster.node(&node);
    let verdict = cluster.create(&serving(&LARGE, GPU, 1));
    assert!(!has(&verdict, Code::Vg701), "{:#?}", verdict.findings);
    let mut object = serving(&LARGE, GPU, 1);
    object["spec"]["containers"][0]["resources"] = json!({});
    let codes =
        |verdict: &Verdict| -> Vec<Code> { verdict.findings.iter().map(|finding| finding.code).collect() };
    assert_eq!(codes(&whole(1).create(&object)), [Code::Vg504]);
    let both = pod_of("both", json!([serving(&LARGE, GPU, 1)["spec"]["containers"][0]]));
    assert!(has(&whole(1).create(&both), Code::Vg701));
}

#[test]
fn a_tensor_parallel_size_must_divide_the_heads() {
    let object = |tensor: &str, model: &str| {
        serving(&["--model", model, "--max-model-len=4096", "-tp", tensor], GPU, 8)
    };
    let mut cluster = whole(8);
    let verdict = cluster.create(&object("6", "meta-llama/Llama-2-13b-chat-hf"));
    assert!(verdict.admit);
    let found = finding(&verdict, Code::Vg110);
    assert_eq!(
        found.message,
        "container server: tensor parallel 6 does not divide the 40 attention heads of llama-2-13b; 5 and 8 do"
    );
    assert_eq!(found.severity, Severity::Warning);
    let silent = |tensor: &str, model: &str| !has(&whole(8).create(&object(tensor, model)), Code::Vg110);
    assert!(silent("8", "meta-llama/Llama-2-13b-chat-hf"));
    assert!(silent("1", "meta-llama/Llama-2-13b-chat-hf"));
    // Nobody knows the heads of these.
    assert!(silent("6", "example-org/chat"));
    assert!(silent("6", "/models/Llama-2-13b-chat-hf"));
}

#[test]
fn engines_that_state_everything_may_share_a_device() {
    let tei = |model: &str| {
        pod_of(
            "embed",
            json!([{
                "name": "server",
                "image": "ghcr.io/huggingface/text-embeddings-inference:89-1.8",
                "args": ["--model-id", model],
                "resources": {"limits": {GPU: "1"}},
            }]),
        )
    };
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-1", "NVIDIA-L4", 23_034, 1, 4);
    // Three and a half GiB at most for each: five would be more than 0.90 of an L4.
    let verdict = cluster.create(&tei("BAAI/bge-m3"));
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert!(!has(&verdict, Code::Vg206));
    let row = &verdict.placement[0];
    assert!(row.promised > vramgate::units::Mib::new(1_100), "{row:?}");
    assert!(row.promised < vramgate::units::Mib::new(6_000), "{row:?}");
    // What nobody knows has no bound.
    let verdict = cluster.create(&tei("example-org/embedder"));
    assert!(!verdict.admit && has(&verdict, Code::Vg206));
}
