//! Services that build on runtimes and base configurations of the same input.

use serde_json::{Value, json};
use vramgate::engine;
use vramgate::workload::template::{self, Bases, Template};

use super::{Maps, line, read};

fn templates(bases: &[&Value], object: &Value) -> Vec<Template> {
    let mut known = Bases::default();
    for base in bases {
        known.add(base);
    }
    template::templates_on(object, &known).unwrap().1
}

/// `path xPODS: image: reading` of each template.
fn read_all(bases: &[&Value], object: &Value) -> Vec<String> {
    templates(bases, object)
        .iter()
        .map(|template| {
            let readings = read(&template.pod, &Maps::default());
            let texts: Vec<String> = readings.iter().map(line).collect();
            let image = &template.pod.spec.containers[0].image;
            format!(
                "{} x{}: {image}: {}",
                template.path,
                template.desired,
                texts.join(" + ")
            )
        })
        .collect()
}

fn runtime(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "team"}, "spec": spec})
}

fn service(predictor: Value) -> Value {
    json!({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": "team", "labels": {"size": "big"}},
        "spec": {"predictor": predictor}})
}

fn gpus(count: u32) -> Value {
    json!({"limits": {"nvidia.com/gpu": count.to_string()}})
}

fn vllm_runtime(kind: &str, name: &str, fraction: &str, priority: u32) -> Value {
    runtime(
        kind,
        name,
        json!({
            "supportedModelFormats": [
                {"name": "vLLM", "autoSelect": true, "priority": priority},
                {"name": "other", "version": "2", "autoSelect": true},
                {"name": "manual"},
            ],
            "containers": [{
                "name": "kserve-container",
                "image": "registry.example/vllm/vllm-openai:v0.11.0",
                "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
                "args": ["--model=/mnt/models", "--served-model-name={{.Name}}", format!("--gpu-memory-utilization={fraction}")],
                "env": [{"name": "A", "value": "runtime"}],
                "resources": {"limits": {"cpu": "2"}},
            }],
        }),
    )
}

#[test]
fn a_service_is_joined_with_its_runtime() {
    let own = vllm_runtime("ServingRuntime", "vllm", "0.5", 1);
    let cluster = vllm_runtime("ClusterServingRuntime", "vllm", "0.7", 9);
    let model = json!({"modelFormat": {"name": "vLLM"}, "runtime": "vllm", "storageUri": "pvc://m",
        "resources": gpus(2), "args": ["--max-model-len=4096", "-tp", "$(TP)"],
        "env": [{"name": "A", "value": "service"}, {"name": "TP", "value": "2"}]});
    let object = service(json!({"minReplicas": 2, "maxReplicas": 5, "model": model}));
    let found = templates(&[&cluster, &own], &object);
    let [template] = found.as_slice() else {
        panic!("{found:#?}")
    };
    assert_eq!((template.desired, template.max), (2, Some(5)));
    let container = &template.pod.spec.containers[0];
    assert_eq!(container.name, "kserve-container");
    let variables: Vec<_> = container
        .env
        .iter()
        .map(|v| (&*v.name, v.value.as_deref()))
        .collect();
    assert_eq!(variables, [("A", Some("service")), ("TP", Some("2"))]);
    let words = container.made.as_ref().unwrap().commands[0].join(" ");
    assert_eq!(
        words,
        "python3 -m vllm.entrypoints.openai.api_server --model=/mnt/models --served-model-name=chat \
         --gpu-memory-utilization=0.5 --max-model-len=4096 -tp $(TP)"
    );
    let placed = engine::containers(&template.pod).next().unwrap();
    let readings = engine::read(&template.pod, placed, &Maps::default(), &[]);
    assert_eq!(line(&readings[0]), "vllm /mnt/models 0.5 flag 2/1/1=2 yes");
    assert_eq!(readings[0].max_model_len, Some(4096));
    // What stands in another object is not edited in this one.
    assert_eq!(readings[0].fraction_edit, None);
    // The namespace's own runtime comes first; without it the cluster's is taken.
    assert_eq!(
        read_all(&[&cluster], &object),
        [
            "spec.predictor x2: registry.example/vllm/vllm-openai:v0.11.0: vllm /mnt/models 0.7 flag 2/1/1=2 yes"
        ]
    );
    // Without any the runtime's name has to do.
    assert_eq!(
        read_all(&[], &object),
        ["spec.predictor x2: : vllm /mnt/models 0.92 default 2/1/1=2 yes"]
    );
}

#[test]
fn a_runtime_is_chosen_by_the_model_format() {
    let low = vllm_runtime("ClusterServingRuntime", "low", "0.2", 1);
    let high = vllm_runtime("ClusterServingRuntime", "high", "0.3", 2);
    let mut off = vllm_runtime("ClusterServingRuntime", "off", "0.4", 3);
    off["spec"]["disabled"] = json!(true);
    let bases = [&low, &high, &off];
    let of = |format: Value| {
        let object = service(json!({"model": {"modelFormat": format, "resources": gpus(1)}}));
        let found = templates(&bases, &object);
        let made = found
            .first()
            .and_then(|template| template.pod.spec.containers[0].made.clone());
        made.map(|made| made.by).unwrap_or_default()
    };
    assert_eq!(
        of(json!({"name": "vLLM"})),
        "the serving runtime high makes the command line"
    );
    assert_eq!(
        of(json!({"name": "other", "version": "2"})),
        "the serving runtime low makes the command line"
    );
    for format in [
        json!({"name": "other", "version": "1"}),
        json!({"name": "manual"}),
    ] {
        assert_eq!(
            of(format),
            "the serving runtime that serves the model's format makes the command line"
        );
    }
}

#[test]
fn arguments_alone_follow_the_entrypoint_of_the_image() {
    let huggingface = runtime(
        "ClusterServingRuntime",
        "hf",
        json!({
            "supportedModelFormats": [{"name": "huggingface", "autoSelect": true}],
            "containers": [{"name": "kserve-container", "image": "kserve/huggingfaceserver:v0.15.0",
                "args": ["--model_name={{.Name}}", "--size={{.Labels.size}}"]}],
        }),
    );
    // The format as a field of its own, as older services write it; the version of the service replaces the tag.
    let object = service(json!({"huggingface": {
        "runtimeVersion": "v0.16.0-gpu", "resources": gpus(1),
        "args": ["--model_id=org/m", "--gpu-memory-utilization=0.6"]}}));
    assert_eq!(
        read_all(&[&huggingface], &object),
        ["spec.predictor x1: kserve/huggingfaceserver:v0.16.0-gpu: vllm org/m 0.6 flag 1/1/1=1 yes"]
    );
    let unknown = runtime(
        "ServingRuntime",
        "own",
        json!({
            "containers": [{"name": "kserve-container", "image": "registry.example/own:1", "args": ["--x"]}],
        }),
    );
    let object =
        service(json!({"model": {"modelFormat": {"name": "z"}, "runtime": "own", "resources": gpus(1)}}));
    let found = templates(&[&unknown], &object);
    let readings = read(&found[0].pod, &Maps::default());
    assert_eq!(line(&readings[0]), "unknown - - unresolved 1/1/1=1 yes");
    assert_eq!(
        readings[0].unresolved[0].reason,
        "the image's entrypoint is not known"
    );
}

#[test]
fn a_predictor_over_several_pods_has_a_head_and_workers() {
    let several = runtime(
        "ServingRuntime",
        "group",
        json!({
            "containers": [{"name": "kserve-container", "image": "kserve/huggingfaceserver:v0.15.0", "command": ["bash", "-c"],
                "args": ["ray start --head\npython3 -m huggingfaceserver --model_dir=/mnt/models --tensor-parallel-size=${TENSOR_PARALLEL_SIZE} \
                          --pipeline-parallel-size=${PIPELINE_PARALLEL_SIZE} $0 $@", "--model_name={{.Name}}"]}],
            "workerSpec": {"pipelineParallelSize": 2, "containers": [{"name": "worker-container", "image": "kserve/huggingfaceserver:v0.15.0",
                "command": ["bash", "-c"], "args": ["ray start --address=head:6379 --block"]}]},
        }),
    );
    let object = service(json!({
        "model": {"modelFormat": {"name": "huggingface"}, "runtime": "group", "args": ["--gpu-memory-utilization=0.4"]},
        "workerSpec": {"tensorParallelSize": 2, "pipelineParallelSize": 3},
    }));
    assert_eq!(
        read_all(&[&several], &object),
        [
            "spec.predictor x1: kserve/huggingfaceserver:v0.15.0: vllm /mnt/models 0.4 flag 2/3/1=2 yes",
            "spec.predictor.workerSpec x2: kserve/huggingfaceserver:v0.15.0: ray-worker - - unresolved 1/1/1=2 yes",
        ]
    );
}

fn llm(spec: Value) -> Value {
    json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "LLMInferenceService",
        "metadata": {"name": "chat", "namespace": "team"}, "spec": spec})
}

#[test]
fn parts_of_an_llm_service_are_templates_of_their_own() {
    let main = |fraction: &str, count: u32| {
        json!({"containers": [{"name": "main", "image": "vllm/vllm-openai:v0.11.0", "resources": gpus(count),
            "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": format!("--gpu-memory-utilization {fraction}")}]}]})
    };
    let object = llm(json!({
        "model": {"uri": "hf://org/m", "name": "m"}, "replicas": 2,
        "parallelism": {"data": 4, "dataLocal": 2, "tensor": 1},
        "template": main("0.5", 2), "worker": main("0.5", 2),
        "prefill": {"replicas": 3, "parallelism": {"tensor": 2}, "template": main("0.7", 2)},
    }));
    assert_eq!(
        read_all(&[], &object),
        [
            "spec.template x2: vllm/vllm-openai:v0.11.0: vllm org/m 0.5 flag 1/1/4=2 yes",
            "spec.worker x2: vllm/vllm-openai:v0.11.0: vllm org/m 0.5 flag 1/1/4=2 yes",
            "spec.prefill.template x3: vllm/vllm-openai:v0.11.0: vllm org/m 0.7 flag 2/1/1=2 yes",
        ]
    );
    // Nothing but a model: the controller's own configuration makes the pods.
    let object = llm(json!({"model": {"uri": "hf://org/m"}}));
    assert_eq!(
        read_all(&[], &object),
        ["spec.template x1: : vllm org/m 0.92 default 1/1/1=1 yes"]
    );
    assert!(read_all(&[], &llm(json!({"model": {"uri": "hf://org/$(m)"}}))).is_empty());
}

#[test]
fn base_configurations_of_the_input_are_laid_under_a_service() {
    let config = |name: &str, spec: Value| {
        json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "LLMInferenceServiceConfig",
            "metadata": {"name": name, "namespace": "kserve"}, "spec": spec})
    };
    let command = config(
        "own-template",
        json!({"replicas": 4, "template": {"containers": [{
        "name": "main", "image": "vllm/vllm-openai:v0.12.0", "resources": gpus(2),
        "command": ["vllm", "serve", "{{ .Spec.Model.Name }}", "--tensor-parallel-size", "{{ .Spec.Parallelism.Tensor }}"],
        "args": ["--gpu-memory-utilization", "0.4"]}]}}),
    );
    let sizes = config("sizes", json!({"parallelism": {"tensor": 2}}));
    let object = llm(
        json!({"model": {"uri": "hf://org/m", "name": "short"}, "replicas": 1,
        "baseRefs": [{"name": "own-template"}, {"name": "sizes"}, {"name": "absent"}]}),
    );
    assert_eq!(
        read_all(&[&command, &sizes], &object),
        ["spec.template x1: vllm/vllm-openai:v0.12.0: vllm short 0.4 flag 2/1/1=2 yes"]
    );
    // Own arguments replace those of the configuration; actions that are not filled in leave its command out.
    let mut open = command.clone();
    open["spec"]["template"]["containers"][0]["command"] = json!(["vllm", "serve", "{{ if .X }}a{{ end }}"]);
    let mut object = object;
    object["spec"]["template"] =
        json!({"containers": [{"name": "main", "args": ["--gpu-memory-utilization", "0.3"]}]});
    assert_eq!(
        read_all(&[&open, &sizes], &object),
        ["spec.template x1: vllm/vllm-openai:v0.12.0: vllm org/m 0.3 flag 2/1/1=2 yes"]
    );
}

/// The same by the command: a runtime may stand behind the service that builds on it.
#[cfg(feature = "cli")]
#[test]
fn explain_joins_objects_of_its_input() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    let object = service(json!({"model": {"modelFormat": {"name": "vLLM"}, "resources": gpus(1)}}));
    let input = json!({"apiVersion": "v1", "kind": "List",
        "items": [object, vllm_runtime("ServingRuntime", "vllm", "0.45", 1)]});
    let mut child = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(["explain", "-", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.to_string().as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let container = &document["items"][0]["containers"][0];
    assert_eq!(container["memory"]["value"], "0.45", "{document:#}");
}
