//! Shapes in which manifests start engines: scripts that write files, ask questions and call functions, wrappers of
//! other projects, and kinds whose operators make the pods.

#![allow(clippy::unwrap_used, clippy::panic, clippy::format_collect, reason = "a test")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vramgate::engine::{self, LookUp, Reading, Sources};
use vramgate::workload::pod::Pod;
use vramgate::workload::template;

/// What one reading may allocate in all, in bytes, as `tests/bounds.rs` has it.
const MOST_ALLOCATED: u64 = 2 << 30;

struct Maps(BTreeMap<String, BTreeMap<String, String>>);

impl Sources for Maps {
    fn config_map(&self, _namespace: &str, name: &str) -> LookUp<'_> {
        self.0.get(name).map_or(LookUp::Missing, LookUp::Found)
    }
}

fn maps() -> Maps {
    let files = [
        (
            "start.sh",
            "#!/bin/bash\nuntil python3 wait.py; do sleep 1; done\nARGS=(vllm serve m --port 1)\n\
             ARGS+=(--gpu-memory-utilization 0.35)\nif [[ -n \"$EXTRA\" ]]; then ARGS+=(--max-model-len \"$EXTRA\"); fi\n\
             exec \"${ARGS[@]}\"\n",
        ),
        (
            "kaito.yaml",
            "vllm:\n  gpu-memory-utilization: 0.55\n  max-model-len: 2048\n",
        ),
        (
            "trt.yaml",
            "tensor_parallel_size: 2\nmax_seq_len: 4096\nkv_cache_config:\n  free_gpu_memory_fraction: 0.4\n  dtype: fp8\n",
        ),
    ];
    let files = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    Maps(BTreeMap::from([("files".to_owned(), files)]))
}

fn pod(container: Value) -> Pod {
    let mut container = container;
    if container.get("resources").is_none() {
        container["resources"] = json!({"limits": {"nvidia.com/gpu": 2}});
    }
    container["name"] = json!("server");
    container["volumeMounts"] = json!([{"name": "files", "mountPath": "/files"}]);
    serde_json::from_value(json!({"spec": {
        "containers": [container],
        "volumes": [{"name": "files", "configMap": {"name": "files"}}],
    }}))
    .unwrap()
}

fn read(pod: &Pod) -> Vec<Reading> {
    read_with(pod, &maps())
}

fn read_with(pod: &Pod, maps: &Maps) -> Vec<Reading> {
    engine::containers(pod)
        .flat_map(|placed| engine::read(pod, placed, maps, &[]))
        .collect()
}

/// `engine model value source tensor/pipeline/data=devices length starts`.
fn line(reading: &Reading) -> String {
    let sizes = reading.parallelism;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "{} {} {} {} {}/{}/{}={} {} {}",
        reading.engine,
        reading.model.as_deref().unwrap_or("-"),
        reading.memory.value.as_deref().unwrap_or("-"),
        text(&serde_json::to_value(reading.memory.source).unwrap()),
        sizes.tensor,
        sizes.pipeline,
        sizes.data,
        sizes.devices,
        reading
            .max_model_len
            .map_or("-".to_owned(), |length| length.to_string()),
        text(&serde_json::to_value(reading.starts).unwrap()),
    )
}

fn one(container: Value) -> String {
    let readings = read(&pod(container));
    readings.iter().map(line).collect::<Vec<_>>().join(" + ")
}

fn script(text: &str) -> String {
    one(json!({"image": "vllm/vllm-openai:v0.11.2", "command": ["bash", "-c", text]}))
}

#[test]
fn files_that_a_script_writes_are_read() {
    for (text, expected) in [
        (
            "cat > /tmp/c.yaml <<EOF\ngpu-memory-utilization: 0.3\nEOF\nvllm serve m --config /tmp/c.yaml",
            "vllm m 0.3 config-file 1/1/1=1 - yes",
        ),
        (
            "cat <<EOF | tee /tmp/c.yaml\ngpu-memory-utilization: @@\nEOF\nF=0.25\nsed -i \"s/@@/$F/\" /tmp/c.yaml\n\
             vllm serve m --config /tmp/c.yaml",
            "vllm m 0.25 config-file 1/1/1=1 - yes",
        ),
        (
            "echo 'gpu-memory-utilization: 0.2' > c.yaml; echo 'max-model-len: 7' >> c.yaml; vllm serve m --config c.yaml",
            "vllm m 0.2 config-file 1/1/1=1 7 yes",
        ),
        (
            "printf 'exec vllm serve m --gpu-memory-utilization 0.15' > /run.sh && chmod +x /run.sh && bash /run.sh",
            "vllm m 0.15 flag 1/1/1=1 - yes",
        ),
        (
            "cp /files/start.sh $HOME/start.sh && $HOME/start.sh &\necho started",
            "vllm m 0.35 flag 1/1/1=1 - yes",
        ),
        // What another program writes is not known.
        (
            "python3 make.py > /tmp/c.yaml; vllm serve m --config /tmp/c.yaml",
            "vllm m - unresolved 1/1/1=1 - unknown",
        ),
        (
            "echo 'gpu-memory-utilization: 0.2' > /c.yaml; sed -i 's/0.*/0.9/' /c.yaml; vllm serve m --config /c.yaml",
            "vllm m - unresolved 1/1/1=1 - unknown",
        ),
    ] {
        assert_eq!(script(text), expected, "{text}");
    }
}

#[test]
fn a_file_that_a_script_writes_for_sglang_is_read() {
    let text = "echo 'mem-fraction-static: 0.4' > c.yaml; echo 'tp-size: 2' >> c.yaml\n\
                python3 -m sglang.launch_server --model-path m --config c.yaml";
    let container = json!({"image": "lmsysorg/sglang:v0.5.10", "command": ["bash", "-c", text]});
    assert_eq!(one(container), "sglang m 0.4 config-file 2/1/1=2 - yes");
}

#[test]
fn branches_are_taken_where_their_question_is_answered() {
    let start = "vllm serve m --gpu-memory-utilization";
    for (text, expected) in [
        (
            format!("A=x\nif [ \"$A\" = x ]; then F=0.3; else F=0.9; fi\n{start} $F"),
            "0.3 flag",
        ),
        (
            format!(
                "A=y; if [[ $A == x ]]; then F=0.3; elif [ $A = y ]; then F=0.4; else F=0.5; fi; {start} $F"
            ),
            "0.4 flag",
        ),
        (format!("F=0.2; [ -z \"\" ] && F=0.6; {start} $F"), "0.6 flag"),
        (format!("F=0.2; [ -z \"\" ] || F=0.6; {start} $F"), "0.2 flag"),
        (
            format!("F=0.2; if [ 2 -gt 3 ]; then F=0.6; fi; {start} $F"),
            "0.2 flag",
        ),
        (
            format!("F=0.2; if ! [ a = b ]; then F=0.7; fi; {start} $F"),
            "0.7 flag",
        ),
        // The answers to these come when it runs.
        (
            format!("F=0.2; if [ -f /x ]; then F=0.6; fi; {start} $F"),
            "- unresolved",
        ),
        (
            format!("F=0.2; if [[ -n \"$U\" && -f /x ]]; then F=0.6; fi; {start} $F"),
            "- unresolved",
        ),
        (
            format!("F=0.2; if nvidia-smi; then F=0.6; fi; {start} $F"),
            "- unresolved",
        ),
        (format!("case $U in a) F=0.1;; esac; {start} $F"), "- unresolved"),
    ] {
        assert_eq!(
            script(&text),
            format!("vllm m {expected} 1/1/1=1 - yes"),
            "{text}"
        );
    }
}

#[test]
fn an_option_that_is_set_under_a_condition_leaves_the_others_known() {
    let text = "A=''\nif [ -n \"$U\" ]; then A=\"--max-model-len=$U\"; fi\nvllm serve m --gpu-memory-utilization 0.3 $A";
    assert_eq!(script(text), "vllm m 0.3 flag 1/1/1=1 - yes");
    let text = "A=(vllm serve m --gpu-memory-utilization 0.3)\nif [ -n \"$U\" ]; then A+=(--max-model-len 9); fi\n\"${A[@]}\"";
    assert_eq!(script(text), "vllm m 0.3 flag 1/1/1=1 - yes");
    let text = "A=(vllm serve m)\nif [ -n \"$U\" ]; then A+=(--gpu-memory-utilization 0.3); fi\n\"${A[@]}\"";
    assert_eq!(script(text), "vllm m - unresolved 1/1/1=1 - yes");
}

#[test]
fn one_of_several_texts_matters_only_where_it_sets_what_is_read() {
    let text = |a: &str, b: &str| {
        format!("L='{a}'\nif grep -q x /f; then L='{b}'; fi\nvllm serve m --gpu-memory-utilization 0.3 $L")
    };
    assert_eq!(
        script(&text("--disable-uvicorn-access-log", "--seed 3")),
        "vllm m 0.3 flag 1/1/1=1 - yes"
    );
    for other in [
        "--gpu-memory-utilization 0.9",
        "--gpu-mem 0.9",
        "--config /f",
        "stray",
    ] {
        assert_eq!(
            script(&text("--disable-uvicorn-access-log", other)),
            "vllm m - unresolved 1/1/1=1 - unknown",
            "{other}"
        );
    }
}

#[test]
fn loops_over_known_words_start_an_engine_for_each() {
    let text = "for i in 0 1; do vllm serve m$i --gpu-memory-utilization 0.4 & done; wait";
    assert_eq!(
        script(text),
        "vllm m0 0.4 flag 1/1/1=1 - yes + vllm m1 0.4 flag 1/1/1=1 - yes"
    );
    let text = "for i in $(ls /models); do vllm serve m --gpu-memory-utilization 0.4; done";
    assert_eq!(script(text), "vllm m 0.4 flag 1/1/1=1 - unknown");
}

#[test]
fn functions_are_followed_and_an_end_is_an_end() {
    for text in [
        "run() {\n  vllm serve \"$1\" --gpu-memory-utilization $2\n}\nrun m 0.3",
        "function run {\n exec vllm serve $1 --gpu-memory-utilization $2\n}\nrun m 0.3\nvllm serve other",
        "eval \"exec vllm serve m --gpu-memory-utilization 0.3\"; vllm serve other",
    ] {
        assert_eq!(script(text), "vllm m 0.3 flag 1/1/1=1 - yes", "{text}");
    }
    // A function that calls itself ends, and an endless chain of them is too long.
    let _ = script("f() { f; }; f");
    let _ = script("f() { g; g; }; g() { f; f; }; f");
}

#[test]
fn a_place_that_nobody_filled_in_does_not_start() {
    assert_eq!(
        script("vllm serve \\\n --model <model-path> \\\n --port 8000 --gpu-memory-utilization 0.3"),
        "vllm - 0.3 flag 1/1/1=1 - no"
    );
}

#[test]
fn wrappers_report_the_engine_inside() {
    let env = |pairs: &[(&str, &str)]| -> Value {
        let one = |(name, value): &(&str, &str)| json!({"name": name, "value": value});
        pairs.iter().map(one).collect()
    };
    for (container, expected) in [
        (
            json!({"image": "kserve/huggingfaceserver:v0.15.0-gpu",
                   "args": ["--model_name=x", "--model_id=a/b", "--gpu_memory_utilization=0.3", "--max_model_len", "512"]}),
            "vllm a/b 0.92 default 1/1/1=1 512 yes",
        ),
        (
            json!({"image": "kserve/huggingfaceserver:v0.15.0-gpu",
                   "args": ["--model_dir=/m", "--gpu-memory-utilization", "0.3", "--tensor-parallel-size=2"]}),
            "vllm /m 0.3 flag 2/1/1=2 - yes",
        ),
        (
            json!({"image": "runpod/worker-v1-vllm:v2.7.0", "env": env(&[
                ("MODEL_NAME", "a/b"), ("GPU_MEMORY_UTILIZATION", "0.6"), ("TENSOR_PARALLEL_SIZE", "2"),
                ("VLLM_EXTRA_ARGS", "--max-model-len 64 --gpu-memory-utilization=0.5")])}),
            "vllm a/b 0.5 flag 2/1/1=2 64 yes",
        ),
        (
            json!({"image": "registry.example/vllm-sagemaker:0.11", "env": env(&[
                ("SM_VLLM_MODEL", "a/b"), ("SM_VLLM_GPU_MEMORY_UTILIZATION", "0.7"), ("SM_VLLM_ENFORCE_EAGER", "true")])}),
            "vllm a/b 0.7 env 1/1/1=1 - yes",
        ),
        (
            json!({"image": "deepjavalibrary/djl-serving:0.33.0-lmi", "env": env(&[
                ("HF_MODEL_ID", "a/b"), ("OPTION_GPU_MEMORY_UTILIZATION", "0.4"), ("OPTION_TENSOR_PARALLEL_DEGREE", "max")])}),
            "vllm a/b 0.4 env 2/1/1=2 - yes",
        ),
        (
            json!({"image": "registry.example/base", "command": ["/bin/sh", "-c",
                "python3 /workspace/vllm/inference_api.py --model=m --gpu-memory-utilization=0.84 --kaito-config-file=/files/kaito.yaml"]}),
            "vllm m 0.55 flag 1/1/1=1 2048 yes",
        ),
        (
            json!({"image": "registry.example/base",
                   "command": ["python3", "/workspace/vllm/inference_api.py", "--model=m"]}),
            "vllm m - engine-auto 1/1/1=1 - yes",
        ),
    ] {
        assert_eq!(one(container.clone()), expected, "{container}");
    }
}

#[test]
fn other_engines_are_read_with_their_own_rules() {
    let env = |pairs: &[(&str, &str)]| -> Value {
        let one = |(name, value): &(&str, &str)| json!({"name": name, "value": value});
        pairs.iter().map(one).collect()
    };
    for (container, expected) in [
        (
            json!({"image": "nvcr.io/nvidia/tensorrt-llm/release:1.0", "command": ["trtllm-serve"],
                   "args": ["m", "--tp_size", "1", "--free_gpu_memory_fraction=0.9", "--extra_llm_api_options", "/files/trt.yaml"]}),
            "trtllm m 0.4 config-file 2/1/1=2 4096 yes",
        ),
        (
            json!({"image": "ghcr.io/huggingface/text-generation-inference:3.3.4",
                   "args": ["--model-id m --num-shard 2"], "env": env(&[("CUDA_MEMORY_FRACTION", "0.5")])}),
            "tgi m 0.5 env 2/1/1=2 - yes",
        ),
        (
            json!({"image": "ghcr.io/huggingface/text-generation-inference:3.3.4",
                   "env": env(&[("MODEL_ID", "m"), ("SHARDED", "false")])}),
            "tgi m 1.0 default 1/1/1=1 - yes",
        ),
        (
            json!({"image": "ghcr.io/ggml-org/llama.cpp:full-cuda", "args": ["--server", "-m", "/m.gguf", "-c", "4096", "-ngl", "99"]}),
            "llama.cpp /m.gguf - estimate 1/1/1=2 4096 yes",
        ),
        (
            json!({"image": "registry.example/train:1", "command": ["python", "train.py"],
                   "env": env(&[("XLA_PYTHON_CLIENT_MEM_FRACTION", ".25")])}),
            "jax - .25 env 1/1/1=2 - yes",
        ),
        (
            json!({"image": "registry.example/train:1", "command": ["python", "train.py"],
                   "env": env(&[("XLA_PYTHON_CLIENT_MEM_FRACTION", ".25"), ("XLA_CLIENT_MEM_FRACTION", ".5")])}),
            "jax - .5 env 1/1/1=2 - no",
        ),
        (
            json!({"image": "registry.example/train:1", "command": ["python", "train.py"],
                   "env": env(&[("XLA_PYTHON_CLIENT_PREALLOCATE", "false")])}),
            "jax - - engine-auto 1/1/1=2 - yes",
        ),
        (
            json!({"image": "tensorflow/tensorflow:2.19.0-gpu", "command": ["python", "train.py"]}),
            "tensorflow - - engine-auto 1/1/1=2 - yes",
        ),
        (
            json!({"image": "registry.example/train:1", "command": ["python", "train.py"],
                   "env": env(&[("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,per_process_memory_fraction:0.3")])}),
            "pytorch - 0.3 env 1/1/1=2 - yes",
        ),
        (
            json!({"image": "nvcr.io/nim/meta/llama-3.1-8b-instruct:2.0.1",
                   "env": env(&[("NIM_PASSTHROUGH_ARGS", "--gpu-memory-utilization 0.4 --tensor-parallel-size 2")])}),
            "nim meta/llama-3.1-8b-instruct 0.4 env 2/1/1=2 - yes",
        ),
        (
            json!({"image": "registry.example/base:1", "command": ["python3", "launch_triton_server.py"],
                   "args": ["--world_size=2", "--model_repo=/models"]}),
            "triton /models - unresolved 1/1/1=2 - yes",
        ),
        (
            json!({"image": "registry.example/tools:1", "command": ["sh", "-c", "cd /src; cd ollama; go run . serve"]}),
            "ollama - - engine-auto 1/1/1=1 - unknown",
        ),
    ] {
        assert_eq!(one(container.clone()), expected, "{container}");
    }
}

#[test]
fn devices_that_are_not_there_leave_the_start_open() {
    let visible = json!({"image": "vllm/vllm-openai:v0.11.2", "args": ["m", "--tensor-parallel-size", "2"],
        "env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]});
    assert_eq!(one(visible), "vllm m 0.9 default 2/1/1=2 - unknown");
    let requests = json!({"image": "vllm/vllm-openai:v0.11.2", "args": ["m"],
        "resources": {"requests": {"nvidia.com/gpu": 1}}});
    assert_eq!(one(requests), "vllm m 0.9 default 1/1/1=1 - unknown");
    let other = json!({"image": "registry.example/vllm-gaudi:1.22.0", "args": ["m"]});
    assert!(one(other).ends_with("unknown"));
    let share = json!({"image": "vllm/vllm-openai:v0.11.2", "args": ["a/x-13b"],
        "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000}}});
    assert_eq!(one(share), "vllm a/x-13b 0.9 default 1/1/1=1 - unknown");
}

/// `path desired: reading` of each template.
fn templates(object: &Value) -> Vec<String> {
    let (_, templates) = template::templates(object).unwrap();
    templates
        .iter()
        .map(|template| {
            let readings = read(&template.pod);
            let lines: Vec<String> = readings.iter().map(line).collect();
            format!("{} x{}: {}", template.path, template.desired, lines.join(" + "))
        })
        .collect()
}

#[test]
fn templates_are_found_wherever_containers_stand() {
    let container = json!({"name": "s", "image": "vllm/vllm-openai:v0.11.2", "args": ["m"],
        "resources": {"limits": {"nvidia.com/gpu": 1}}});
    let spec = json!({"containers": [container]});
    let vllm = "vllm m 0.9 default 1/1/1=1 - yes";
    for (kind, object, expected) in [
        (
            "jobset.x-k8s.io/v1alpha2 JobSet",
            json!({"replicatedJobs": [{"name": "a", "replicas": 2,
                "template": {"spec": {"parallelism": 3, "template": {"spec": spec}}}}]}),
            format!("spec.replicatedJobs[0].template.spec.template x6: {vllm}"),
        ),
        (
            "argoproj.io/v1alpha1 Rollout",
            json!({"replicas": 4, "template": {"spec": spec}}),
            format!("spec.template x4: {vllm}"),
        ),
        (
            "serving.knative.dev/v1 Service",
            json!({"template": {"spec": spec}}),
            format!("spec.template x1: {vllm}"),
        ),
        (
            "serving.kserve.io/v1alpha1 ServingRuntime",
            spec.clone(),
            format!("spec x1: {vllm}"),
        ),
        (
            "example.org/v1 Fleet",
            json!({"roles": [{"replicas": 2, "podSpec": spec}]}),
            format!("spec.roles[0].podSpec x2: {vllm}"),
        ),
    ] {
        let (version, kind) = kind.split_once(' ').unwrap();
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": object});
        assert_eq!(templates(&object), [expected], "{kind}");
    }
    let pattern = json!({"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "x"},
        "spec": {"rules": [{"validate": {"pattern": {"spec": spec}}}]}});
    assert!(templates(&pattern).is_empty());
    let broken = json!({"apiVersion": "example.org/v1", "kind": "Fleet", "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "a", "image": "b", "args": "c"}]}});
    let error = template::templates(&broken).unwrap_err();
    assert!(error.path.contains("containers[0].args"), "{error}");
}

#[test]
fn a_group_has_one_leader() {
    let container = json!([{"name": "s", "image": "vllm/vllm-openai:v0.11.2", "args": ["m"]}]);
    let object = json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": "x"}, "spec": {"replicas": 3, "leaderWorkerTemplate": {"size": 4,
            "leaderTemplate": {"spec": {"containers": container}},
            "workerTemplate": {"spec": {"containers": container}}}}});
    let desired: Vec<u32> = template::templates(&object)
        .unwrap()
        .1
        .iter()
        .map(|template| template.desired)
        .collect();
    assert_eq!(desired, [3, 9]);
}

#[test]
fn what_an_operator_makes_is_read_from_its_object() {
    let gpu = json!({"limits": {"nvidia.com/gpu": "2"}});
    let ray = json!({"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "x"}, "spec": {
        "serveConfigV2": "applications:\n- import_path: ray.serve.llm:build_openai_app\n  args:\n    llm_configs:\n    - \
            model_loading_config: {model_id: q, model_source: a/b}\n      engine_kwargs: {tensor_parallel_size: 2, \
            gpu_memory_utilization: 0.6, max_model_len: 128, enforce_eager: true}\n",
        "rayClusterConfig": {
            "headGroupSpec": {"template": {"spec": {"containers": [{"name": "head", "image": "rayproject/ray-llm:2.52.0"}]}}},
            "workerGroupSpecs": [{"replicas": 2, "template": {"spec": {"containers": [
                {"name": "w", "image": "rayproject/ray-llm:2.52.0", "resources": gpu}]}}}]}}});
    assert_eq!(
        templates(&ray),
        [
            "spec.rayClusterConfig.headGroupSpec.template x1: none - - default 1/1/1=0 - yes",
            "spec.rayClusterConfig.workerGroupSpecs[0].template x2: vllm a/b 0.6 flag 2/1/1=2 128 yes",
        ]
    );
    let llm = json!({"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "metadata": {"name": "x"},
        "spec": {"model": {"uri": "hf://a/b", "name": "b"}, "replicas": 2, "parallelism": {"tensor": 2},
            "template": {"containers": [{"name": "main", "resources": gpu, "args": ["--max-model-len=64"],
                "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--gpu-memory-utilization 0.5"}]}]}}});
    assert_eq!(
        templates(&llm),
        ["spec.template x2: vllm a/b 0.5 flag 2/1/1=2 64 yes"]
    );
    let predictor = json!({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "x"},
        "spec": {"predictor": {"minReplicas": 2, "model": {"modelFormat": {"name": "huggingface"}, "resources": gpu,
            "args": ["--model_id=a/b", "--gpu-memory-utilization=0.3"]}}}});
    assert_eq!(
        templates(&predictor),
        ["spec.predictor x2: vllm a/b 0.3 flag 1/1/1=1 - yes"]
    );
    let runtime = json!({"apiVersion": "production-stack.vllm.ai/v1alpha1", "kind": "VLLMRuntime", "metadata": {"name": "x"},
        "spec": {"model": {"modelURL": "a/b", "maxModelLen": 32}, "vllmConfig": {"gpuMemoryUtilization": "0.7"},
            "deploymentConfig": {"replicas": 3, "resources": {"gpu": "1"}, "image": {"name": "lmcache/vllm-openai:latest"}}}});
    assert_eq!(templates(&runtime), ["spec x3: vllm a/b 0.7 flag 1/1/1=1 32 yes"]);
    let model = json!({"apiVersion": "kubeai.org/v1", "kind": "Model", "metadata": {"name": "x"},
        "spec": {"engine": "VLLM", "url": "hf://a/b", "args": ["--gpu-memory-utilization=0.8"],
            "resourceProfile": "nvidia-gpu-l4:2", "minReplicas": 1, "maxReplicas": 3}});
    assert_eq!(templates(&model), ["spec x1: vllm a/b 0.8 flag 1/1/1=1 - yes"]);
    let graph = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": {"name": "x"},
        "spec": {"services": {"Worker": {"replicas": 2, "resources": {"limits": {"gpu": "1"}}, "extraPodSpec": {"mainContainer": {
            "image": "registry.example/runtime:1", "workingDir": "/workspace/components/backends/vllm",
            "args": ["python3 components/main.py --model m --gpu-memory-utilization 0.45 2>&1 | tee /log"]}}}}}});
    assert_eq!(
        templates(&graph),
        ["spec.services.Worker x2: vllm m 0.45 flag 1/1/1=1 - unknown"]
    );
    // Nothing of what an operator makes can be changed in the template.
    let (_, made) = template::templates(&runtime).unwrap();
    assert!(read(&made[0].pod)[0].fraction_edit.is_none());
}

#[test]
fn long_scripts_are_read_within_bounds() {
    let big = "x".repeat(200_000);
    for text in [
        "for a in b; do ".repeat(60_000),
        "[[ a && ".repeat(100_000),
        format!("echo {big} > f; {}", "cat f; ".repeat(50_000)),
        format!("echo {big} > f; {}", "cat f >> f; ".repeat(1_000)),
        format!("echo {big} > f; {}", "sed -i s/x/xx/g f; ".repeat(1_000)),
        "if [ a = b ]; then ".repeat(40_000),
        format!(
            "{} f0",
            (0..2_000)
                .map(|n| format!("f{n}() {{ f{}; f{}; }}; ", n + 1, n + 1))
                .collect::<String>()
        ),
        "cat <<E > f\n".repeat(60_000),
        (0..30_000)
            .map(|n| format!("echo a > /f{n}\n"))
            .collect::<String>(),
        "for a in 1 2 3 4 5 6 7 8; do ".repeat(8) + ":" + &"; done".repeat(8),
    ] {
        let beginning: String = text.chars().take(40).collect();
        let as_word = allocation_counter::measure(|| drop(script(&text)));
        // A file may be longer than what is handed to a program as a word.
        let files = BTreeMap::from([("long.sh".to_owned(), text)]);
        let maps = Maps(BTreeMap::from([("files".to_owned(), files)]));
        let container = json!({"image": "registry.example/base", "command": ["bash", "/files/long.sh"]});
        let pod = pod(container);
        let as_file = allocation_counter::measure(|| drop(read_with(&pod, &maps)));
        let most = as_word.bytes_total.max(as_file.bytes_total);
        println!("{most} bytes allocated for {beginning}");
        assert!(most < MOST_ALLOCATED, "{most} bytes allocated for {beginning}");
    }
}

#[test]
fn of_many_variables_the_last_of_a_name_counts() {
    for (image, prefix, model, fraction, engine) in [
        (
            "registry.example/vllm-sagemaker:0.11",
            "SM_VLLM_",
            "MODEL",
            "GPU_MEMORY_UTILIZATION",
            "vllm",
        ),
        (
            "lmsysorg/sglang:v0.5.10-sagemaker",
            "SM_SGLANG_",
            "MODEL_PATH",
            "MEM_FRACTION_STATIC",
            "sglang",
        ),
    ] {
        for (others, name) in [(200, "OTHER_"), (20_000, prefix)] {
            let set = |name: &str, value: &str| json!({"name": format!("{prefix}{name}"), "value": value});
            let mut env = vec![set(fraction, "0.1"), set(model, "m")];
            env.extend((0..others).map(|n| json!({"name": format!("{name}X{n}"), "value": "1"})));
            env.push(set(fraction, "0.7"));
            let readings = read(&pod(json!({"image": image, "env": env})));
            let reading = readings.first().unwrap();
            assert_eq!(reading.memory.value.as_deref(), Some("0.7"), "{image}");
            if others == 200 {
                assert_eq!(line(reading), format!("{engine} m 0.7 env 1/1/1=1 - yes"));
                let last = reading.memory.path.to_string();
                assert!(last.ends_with("env[202]"), "{last}");
            }
        }
    }
}
