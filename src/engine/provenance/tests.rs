//! Where each value comes from, as one line for each form in which a manifest can state it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::engine::{self, ImageRule, LookUp, Provenance, Reading, Sources};
use crate::workload::pod::Pod;

/// ConfigMaps by name.
struct Maps(BTreeMap<&'static str, BTreeMap<String, String>>);

impl Sources for Maps {
    fn config_map(&self, _namespace: &str, name: &str) -> LookUp<'_> {
        self.0.get(name).map_or(LookUp::Missing, LookUp::Found)
    }
}

const VLLM_FILE: &str = "\
# what every model gets
model: org/model-7b
gpu_memory_utilization: 0.4
max-model-len: 4096
max_num_seqs: 8
tensor-parallel-size: 1
tensor-parallel-size: 2
";

const TRT_FILE: &str = "\
max_seq_len: 512
kv_cache_config:
  # of what is free
  free_gpu_memory_fraction: 0.5
";

const SCRIPT_FILE: &str = "\
#!/bin/sh
exec vllm serve org/model-7b \\
  --max-model-len 2048 \\
  --gpu-memory-utilization 0.6
";

fn maps() -> Maps {
    let map = |entries: &[(&str, &str)]| {
        let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        entries.iter().map(entry).collect()
    };
    Maps(BTreeMap::from([
        (
            "files",
            map(&[
                ("f.yaml", VLLM_FILE),
                ("t.yaml", TRT_FILE),
                ("run.sh", SCRIPT_FILE),
                ("k.yaml", "vllm:\n  gpu-memory-utilization: 0.7\n"),
            ]),
        ),
        ("settings", map(&[("share", "0.5"), ("LEN", "1024")])),
    ]))
}

fn readings(container: &Value, rules: &[ImageRule]) -> Vec<Reading> {
    let mut container = container.clone();
    container["name"] = json!("server");
    container["volumeMounts"] = json!([{"name": "files", "mountPath": "/files"}]);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "llm", "labels": {"share": "0.2"}},
        "spec": {"containers": [container], "volumes": [{"name": "files", "configMap": {"name": "files"}}]},
    }))
    .unwrap();
    let placed = engine::containers(&pod).next().unwrap();
    let readings = engine::explain(&pod, placed, &maps(), rules);
    readings.iter().for_each(agrees);
    readings
}

/// Values that are told are those of the reading, each once.
fn agrees(reading: &Reading) {
    let told = |field: &str| {
        let mut all = reading.provenance.iter().filter(|one| one.field == field);
        let one = all.next();
        assert_eq!(all.next(), None, "{field} of {reading:#?}");
        one.map(|one| one.value.clone())
    };
    assert_eq!(told("memory"), Some(reading.memory.value.clone()), "{reading:#?}");
    for (field, value) in [
        ("model", &reading.model),
        ("quantization", &reading.quantization),
        ("dtype", &reading.dtype),
        ("kv-cache-dtype", &reading.kv_cache_dtype),
    ] {
        // Types that are `auto` without being written have no value to tell.
        if let Some(Some(told)) = told(field) {
            assert_eq!(Some(told), *value, "{field} of {reading:#?}");
        } else if value.as_deref().is_some_and(|value| value != "auto") {
            panic!("{field} is not told: {reading:#?}");
        }
    }
    let sizes = reading.parallelism;
    for (field, size) in [
        ("tensor-parallel-size", sizes.tensor),
        ("pipeline-parallel-size", sizes.pipeline),
        ("data-parallel-size", sizes.data),
    ] {
        if let Some(Some(value)) = told(field) {
            assert_eq!(value, size.to_string(), "{field} of {reading:#?}");
        }
    }
}

/// `value | from | path below the container | detail`.
fn line(one: &Provenance) -> String {
    let value = one.value.as_deref().unwrap_or("-");
    let path = one.path.as_ref().map_or("-", |path| path.as_str());
    let path = path.strip_prefix("spec.containers[0].").unwrap_or(path);
    format!("{value} | {} | {path} | {}", one.from.as_str(), one.detail)
}

fn told(container: &Value, rules: &[ImageRule], field: &str) -> String {
    let readings = readings(container, rules);
    assert_eq!(readings.len(), 1, "{container}");
    let found = readings[0].provenance.iter().find(|one| one.field == field);
    found.map_or_else(|| "nothing".to_owned(), line)
}

fn check(cases: &[(Value, &str, &str)]) {
    let mut wrong = Vec::new();
    for (container, field, expected) in cases {
        let found = told(container, &[], field);
        if found != *expected {
            wrong.push(format!(
                "{field} of {container}\n    is {found}\n  not {expected}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// vLLM 0.11.0 with these arguments.
fn vllm(args: &Value) -> Value {
    json!({"image": "vllm/vllm-openai:v0.11.0", "args": args})
}

fn script(text: &str) -> Value {
    json!({"image": "vllm/vllm-openai:v0.11.0", "command": ["bash", "-c", text]})
}

fn sglang(args: &Value) -> Value {
    json!({"image": "lmsysorg/sglang:v0.5.3.post3", "command": ["python3", "-m", "sglang.launch_server"],
           "args": args})
}

fn with_env(mut container: Value, env: Value) -> Value {
    container["env"] = env;
    container
}

#[test]
fn words_of_the_container() {
    let line = json!([
        "--model",
        "a/b",
        "--max-model-len=8192",
        "--dtype",
        "half",
        "--enforce-eager",
        "-tp",
        "2"
    ]);
    check(&[
        (vllm(&line), "model", "a/b | flag | args[1] | --model a/b"),
        (
            vllm(&line),
            "max-model-len",
            "8192 | flag | args[2] | --max-model-len=8192",
        ),
        (vllm(&line), "dtype", "half | flag | args[4] | --dtype half"),
        (vllm(&line), "eager", "on | flag | args[5] | --enforce-eager"),
        (vllm(&line), "tensor-parallel-size", "2 | flag | args[7] | -tp 2"),
    ]);
}

#[test]
fn variables_that_words_take_in() {
    let args = json!([
        "--model",
        "a/b",
        "--gpu-memory-utilization",
        "$(SHARE)",
        "--max-model-len=$(LEN)"
    ]);
    let env = json!([
        {"name": "SHARE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "share"}}},
        {"name": "LEN", "value": "4096"},
    ]);
    let container = with_env(vllm(&args), env);
    let mut from_map = vllm(&json!(["a/b", "--max-model-len=$(LEN)"]));
    from_map["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    let field = with_env(
        vllm(&json!(["--gpu-memory-utilization=$(SHARE)"])),
        json!([{"name": "SHARE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['share']"}}}]),
    );
    let secret = with_env(
        vllm(&json!(["--gpu-memory-utilization=$(SHARE)"])),
        json!([{"name": "SHARE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
    );
    check(&[
        (
            container.clone(),
            "memory",
            "0.5 | flag | args[3] | --gpu-memory-utilization 0.5, through $(SHARE) \
             (spec.containers[0].env[0], ConfigMap llm/settings key share)",
        ),
        (
            container,
            "max-model-len",
            "4096 | flag | args[4] | --max-model-len=4096, through $(LEN) (spec.containers[0].env[1])",
        ),
        (
            from_map,
            "max-model-len",
            "1024 | flag | args[1] | --max-model-len=1024, through $(LEN) \
             (spec.containers[0].envFrom[0], ConfigMap llm/settings key LEN)",
        ),
        (
            field,
            "memory",
            "0.2 | flag | args[0] | --gpu-memory-utilization=0.2, through $(SHARE) \
             (spec.containers[0].env[0], the field metadata.labels['share'])",
        ),
        (
            secret,
            "memory",
            "- | unresolved | args[0] | Secret llm/s is never read",
        ),
    ]);
}

#[test]
fn scripts() {
    let lines = script("set -e\nvllm serve a/b \\\n  --max-model-len 2048 --gpu-memory-utilization $SHARE\n");
    let env = json!([{"name": "SHARE", "value": "0.3"}]);
    let assigned = script("LEN=2048\nexec vllm serve a/b --max-model-len ${LEN}");
    let words = with_env(
        script("exec vllm serve a/b $EXTRA"),
        json!([{"name": "EXTRA", "value": "--max-model-len 512 --dtype half"}]),
    );
    let mut behind = script("exec vllm serve \"$@\"");
    behind["args"] = json!(["--", "a/b", "--max-model-len=64"]);
    let file = json!({"image": "vllm/vllm-openai:v0.11.0", "command": ["sh", "/files/run.sh"]});
    check(&[
        (
            lines.clone(),
            "max-model-len",
            "2048 | script | command[2] | line 3 of the script: --max-model-len 2048",
        ),
        (
            lines.clone(),
            "model",
            "a/b | script | command[2] | line 2 of the script: a/b",
        ),
        (
            with_env(lines, env),
            "memory",
            "0.3 | script | command[2] | line 3 of the script: --gpu-memory-utilization 0.3, through $SHARE \
             (spec.containers[0].env[0])",
        ),
        (
            assigned,
            "max-model-len",
            "2048 | script | command[2] | line 2 of the script: --max-model-len 2048, through ${LEN} of the script",
        ),
        (
            words,
            "max-model-len",
            "512 | env | env[0] | EXTRA, from which the script takes --max-model-len 512",
        ),
        (
            behind,
            "max-model-len",
            "64 | flag | args[2] | --max-model-len=64",
        ),
        (
            file.clone(),
            "memory",
            "0.6 | script | command[1] | line 4 of /files/run.sh (ConfigMap llm/files key run.sh): \
             --gpu-memory-utilization 0.6",
        ),
        (
            file,
            "max-model-len",
            "2048 | script | command[1] | line 3 of /files/run.sh (ConfigMap llm/files key run.sh): \
             --max-model-len 2048",
        ),
    ]);
}

#[test]
fn words_that_may_change_a_value_are_told_beside_it() {
    let container = with_env(
        script("exec vllm serve a/b --dtype half $MORE"),
        json!([{"name": "MORE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
    );
    let doubt = "${MORE} may set it: Secret llm/s is never read";
    for (field, expected) in [
        (
            "dtype",
            format!("half | script | command[2] | line 1 of the script: --dtype half; {doubt}"),
        ),
        (
            "quantization",
            format!("- | model | - | the model's own; {doubt}"),
        ),
        ("memory", format!("- | unresolved | - | {doubt}")),
        (
            "model",
            "a/b | script | command[2] | line 1 of the script: a/b".to_owned(),
        ),
    ] {
        assert_eq!(told(&container, &[], field), expected);
    }
}

#[test]
fn words_that_the_parser_moves_and_gathers() {
    let mut newer = vllm(&json!([
        "--dtype=half",
        "--model",
        "a/b",
        "--speculative-config.method=ngram"
    ]));
    newer["image"] = json!("vllm/vllm-openai:v0.20.0");
    check(&[
        (newer.clone(), "model", "a/b | flag | args[2] | --model a/b"),
        (
            newer,
            "draft",
            "{\"method\":\"ngram\"} | flag | args[3] | --speculative-config.method=ngram",
        ),
        (
            vllm(&json!(["a/b", "--max-model-len 64"])),
            "max-model-len",
            "64 | flag | args[1] | --max-model-len 64",
        ),
        (
            sglang(&json!(["--model-path=a/b", "--tp", "2", "--disable-cuda-graph"])),
            "tensor-parallel-size",
            "2 | flag | args[2] | --tp 2",
        ),
        (
            sglang(&json!(["--model-path=a/b", "--mem-fraction-static", "0.6"])),
            "memory",
            "0.6 | flag | args[2] | --mem-fraction-static 0.6",
        ),
    ]);
}

#[test]
fn a_model_of_triton_has_its_own_file() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "llm"},
        "spec": {
            "containers": [{"name": "server", "image": "nvcr.io/nvidia/tritonserver:25.08-vllm-python-py3",
                "command": ["tritonserver", "--model-repository=/models"],
                "volumeMounts": [{"name": "models", "mountPath": "/models"}]}],
            "volumes": [{"name": "models", "configMap": {"name": "triton", "items": [
                {"key": "config.pbtxt", "path": "chat/config.pbtxt"},
                {"key": "model.json", "path": "chat/1/model.json"}]}}],
        },
    }))
    .unwrap();
    let files = BTreeMap::from([
        ("config.pbtxt".to_owned(), "backend: \"vllm\"\n".to_owned()),
        (
            "model.json".to_owned(),
            "{\"model\": \"a/b\", \"gpu_memory_utilization\": 0.5}".to_owned(),
        ),
    ]);
    let placed = engine::containers(&pod).next().unwrap();
    let readings = engine::explain(&pod, placed, &Maps(BTreeMap::from([("triton", files)])), &[]);
    let memory = readings[0]
        .provenance
        .iter()
        .find(|one| one.field == "memory")
        .unwrap();
    assert_eq!(
        line(memory),
        "0.5 | config-file | - | the model chat, model.json: --gpu-memory-utilization=0.5"
    );
}

#[test]
fn files_of_config() {
    let args = json!(["a/b", "--config", "/files/f.yaml", "--max-num-seqs", "16"]);
    let own = script(
        "cat > /tmp/v.yaml <<EOF\ndtype: half\nmax-model-len: 128\nEOF\nvllm serve a/b --config /tmp/v.yaml",
    );
    let kaito = json!({
        "image": "mcr.microsoft.com/aks/kaito/kaito-base:0.0.3",
        "command": ["python3", "/workspace/vllm/inference_api.py", "--kaito-config-file=/files/k.yaml"],
    });
    let sglang_file = sglang(&json!(["--model-path", "a/b", "--config", "/files/f.yaml"]));
    let missing = vllm(&json!(["a/b", "--config", "/etc/other.yaml"]));
    let trt = json!({"image": "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
        "command": ["trtllm-serve", "a/b", "--extra_llm_api_options", "/files/t.yaml", "--max_seq_len=1024"]});
    check(&[
        (
            vllm(&args),
            "memory",
            "0.4 | config-file | args[2] | line 3 of /files/f.yaml (ConfigMap llm/files key f.yaml)",
        ),
        (
            vllm(&args),
            "tensor-parallel-size",
            "2 | config-file | args[2] | line 7 of /files/f.yaml (ConfigMap llm/files key f.yaml)",
        ),
        (
            vllm(&args),
            "max-num-seqs",
            "16 | flag | args[4] | --max-num-seqs 16",
        ),
        (
            own,
            "max-model-len",
            "128 | config-file | command[2] | line 2 of /tmp/v.yaml, which the script writes",
        ),
        (
            kaito,
            "memory",
            "0.7 | config-file | - | line 2 of /files/k.yaml (ConfigMap llm/files key k.yaml)",
        ),
        (
            sglang_file,
            "tensor-parallel-size",
            "2 | config-file | args[3] | line 7 of /files/f.yaml (ConfigMap llm/files key f.yaml)",
        ),
        (
            missing,
            "memory",
            "- | unresolved | args[2] | the file /etc/other.yaml of --config: it is not in a volume",
        ),
        (
            trt.clone(),
            "memory",
            "0.5 | config-file | command[3] | line 4 of /files/t.yaml (ConfigMap llm/files key t.yaml)",
        ),
        (
            trt,
            "max-model-len",
            "512 | config-file | command[3] | line 1 of /files/t.yaml (ConfigMap llm/files key t.yaml)",
        ),
    ]);
}

#[test]
fn variables_that_images_read() {
    let runpod = json!({"image": "runpod/worker-v1-vllm:v2.7.0", "env": [
        {"name": "MODEL_NAME", "value": "a/b"},
        {"name": "VLLM_EXTRA_ARGS", "value": "--max-num-seqs 4"},
    ]});
    let sagemaker = json!({"image": "lmsysorg/sglang:v0.5.3.post3-sagemaker", "env": [
        {"name": "SM_SGLANG_CONTEXT_LENGTH", "value": "2048"},
    ]});
    let tgi = json!({"image": "ghcr.io/huggingface/text-generation-inference:3.3.4", "args": ["--num-shard=2"],
        "env": [{"name": "MODEL_ID", "value": "a/b"}, {"name": "CUDA_MEMORY_FRACTION", "value": "0.5"}]});
    let tei = json!({"image": "ghcr.io/huggingface/text-embeddings-inference:1.8",
        "args": ["--model-id", "a/b"], "env": [{"name": "MAX_BATCH_TOKENS", "value": "4096"}]});
    let llama = json!({"image": "ghcr.io/ggml-org/llama.cpp:server-cuda", "args": ["-m", "/m.gguf", "-c", "512"],
        "env": [{"name": "LLAMA_ARG_N_GPU_LAYERS", "value": "99"}]});
    let nim = json!({"image": "nvcr.io/nim/meta/model-7b:2.0.1", "env": [
        {"name": "NIM_MAX_MODEL_LEN", "value": "4096"}, {"name": "NIM_GPU_MEM_FRACTION", "value": "0.4"}]});
    let hugging_face = json!({"image": "kserve/huggingfaceserver:v0.15.0", "args": ["--max_model_len=64"]});
    check(&[
        (
            runpod.clone(),
            "model",
            "a/b | env | env[0] | MODEL_NAME, which runpod-worker-vllm makes --model",
        ),
        (
            runpod,
            "max-num-seqs",
            "4 | env | env[1] | VLLM_EXTRA_ARGS, which runpod-worker-vllm makes --max-num-seqs",
        ),
        (
            sagemaker.clone(),
            "max-model-len",
            "2048 | env | env[0] | SM_SGLANG_CONTEXT_LENGTH, which the image's start script makes --context-length",
        ),
        (
            sagemaker,
            "model",
            "/opt/ml/model | default | - | the image's start script puts in --model-path /opt/ml/model",
        ),
        (tgi.clone(), "memory", "0.5 | env | env[1] | CUDA_MEMORY_FRACTION"),
        (tgi.clone(), "model", "a/b | env | env[0] | MODEL_ID"),
        (tgi, "tensor-parallel-size", "2 | flag | args[0] | --num-shard=2"),
        (
            tei,
            "max-num-batched-tokens",
            "4096 | env | env[0] | MAX_BATCH_TOKENS",
        ),
        (
            llama.clone(),
            "gpu-layers",
            "99 | env | env[0] | LLAMA_ARG_N_GPU_LAYERS",
        ),
        (llama, "max-model-len", "512 | flag | args[3] | -c 512"),
        (
            nim.clone(),
            "model",
            "meta/model-7b | image | image | the image of one model",
        ),
        (
            nim.clone(),
            "max-model-len",
            "4096 | env | env[0] | NIM_MAX_MODEL_LEN, which the image makes --max-model-len",
        ),
        (
            nim,
            "memory",
            "0.4 | env | env[1] | NIM_GPU_MEM_FRACTION, which the image makes --gpu-memory-utilization",
        ),
        (
            hugging_face.clone(),
            "max-model-len",
            "64 | flag | args[0] | --max_model_len=64",
        ),
        (
            hugging_face,
            "model",
            "/mnt/models | default | - | huggingfaceserver puts in --model=/mnt/models",
        ),
    ]);
}

#[test]
fn defaults_name_their_releases() {
    let bare = json!(["a/b"]);
    let mut unknown = vllm(&bare);
    unknown["image"] = json!("vllm/vllm-openai:latest");
    let mut between = vllm(&bare);
    between["image"] = json!("vllm/vllm-openai:v0.11.1");
    let sglang = sglang(&json!(["--model-path", "a/b"]));
    let lmdeploy = json!({"image": "openmmlab/lmdeploy:v0.10.0",
        "command": ["lmdeploy", "serve", "api_server", "a/b"]});
    check(&[
        (vllm(&bare), "memory", "0.9 | default | - | default of 0.11.0"),
        (vllm(&bare), "dtype", "auto | default | - | default of 0.11.0"),
        (vllm(&bare), "max-model-len", "- | model | - | the model's own"),
        (
            vllm(&json!([])),
            "model",
            "Qwen/Qwen3-0.6B | default | - | default of 0.11.0",
        ),
        (vllm(&bare), "max-num-seqs", "nothing"),
        (
            unknown.clone(),
            "memory",
            "0.92 | default | - | the larger default of all releases, since the image names none",
        ),
        (
            unknown,
            "tensor-parallel-size",
            "1 | default | - | default of every release from 0.6.3.post1 on, since the image names none",
        ),
        (
            between,
            "dtype",
            "auto | default | - | default of 0.11.1, read as 0.11.2",
        ),
        (
            sglang.clone(),
            "memory",
            "- | engine-auto | - | SGLang works it out from the device's memory",
        ),
        (
            sglang,
            "kv-cache-dtype",
            "auto | default | - | default of 0.5.3.post3",
        ),
        (
            lmdeploy.clone(),
            "memory",
            "0.8 | default | - | default of 0.10.0",
        ),
        (lmdeploy, "model", "a/b | flag | command[3] | a/b"),
    ]);
}

#[test]
fn what_a_policy_says_of_an_image() {
    let rule = ImageRule {
        images: vec!["registry.example/own".to_owned()],
        engine: Some("vllm".to_owned()),
        version: Some("0.11.0".to_owned()),
        entrypoint: ["vllm", "serve", "--max-model-len=512"]
            .map(str::to_owned)
            .to_vec(),
        variables: BTreeMap::from([("SHARE".to_owned(), "--gpu-memory-utilization".to_owned())]),
    };
    let container = json!({"image": "registry.example/own:1", "args": ["--model=a/b"],
        "env": [{"name": "SHARE", "value": "0.3"}]});
    for (field, expected) in [
        (
            "memory",
            "0.3 | env | env[0] | SHARE, which the policy's rule for the image makes --gpu-memory-utilization",
        ),
        (
            "max-model-len",
            "512 | policy | - | the policy's entrypoint for the image: --max-model-len=512",
        ),
        (
            "dtype",
            "auto | default | - | default of 0.11.0, the release that the policy states",
        ),
        ("model", "a/b | flag | args[0] | --model=a/b"),
    ] {
        assert_eq!(told(&container, std::slice::from_ref(&rule), field), expected);
    }
}

#[test]
fn a_review_pays_nothing_for_it() {
    let pod: Pod = serde_json::from_value(json!({"spec": {"containers": [vllm(&json!(["a/b"]))]}})).unwrap();
    let placed = engine::containers(&pod).next().unwrap();
    let asked = engine::explain(&pod, placed, &maps(), &[]);
    let mut read = engine::read(&pod, placed, &maps(), &[]);
    assert!(read.iter().all(|reading| reading.provenance.capacity() == 0));
    // Nothing else of the reading hangs on whether it is asked.
    for (reading, asked) in read.iter_mut().zip(&asked) {
        assert!(!asked.provenance.is_empty());
        reading.provenance.clone_from(&asked.provenance);
    }
    assert_eq!(read, asked);
}
