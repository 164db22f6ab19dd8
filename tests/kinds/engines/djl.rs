//! DJL Serving: variables and `serving.properties`, which engine they choose, how often it is started.

use serde_json::{Value, json};
use vramgate::engine;

use super::{Maps, all, check, env, gpus, whole};

const LMI: &str = "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.31.0-lmi13.0.0-cu124";
const TRT: &str = "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.30.0-tensorrtllm0.12.0-cu125";

fn with_file(image: &str, text: &str, variables: &[(&str, &str)], count: u32) -> Vec<String> {
    let pod = serde_json::from_value(json!({"spec": {
        "containers": [{"name": "server", "image": image, "env": env(variables), "resources": gpus(count),
            "volumeMounts": [{"name": "p", "mountPath": "/opt/ml/model"}]}],
        "volumes": [{"name": "p", "configMap": {"name": "props"}}]}}))
    .unwrap();
    let maps = Maps::default().with("props", &[("serving.properties", text)]);
    super::read(&pod, &maps).iter().map(whole).collect()
}

#[test]
fn the_file_says_the_options_of_vllm() {
    let text = "engine=Python\noption.model_id=org/m\noption.rolling_batch = vllm\noption.tensor_parallel_degree=max\n\
        option.gpu_memory_utilization=0.7\noption.max_model_len: 8192\noption.dtype=fp16\noption.quantize=awq\noption.output_formatter=json\n";
    assert_eq!(
        with_file(LMI, text, &[], 2),
        ["vllm org/m of-total 0.7 config-file 2/1/1=2 len=8192 q=awq dt=float16"]
    );
}

#[test]
fn the_file_wins_over_variables() {
    let variables = [
        ("HF_MODEL_ID", "org/v"),
        ("OPTION_GPU_MEMORY_UTILIZATION", "0.3"),
        ("OPTION_MAX_MODEL_LEN", "512"),
    ];
    let text = "option.model_id=org/m\noption.gpu_memory_utilization=0.7\n";
    assert_eq!(
        with_file(LMI, text, &variables, 1),
        ["vllm org/m of-total 0.7 config-file 1/1/1=1 len=512"]
    );
    let text = "option.rolling_batch=vllm\n";
    assert_eq!(
        with_file(LMI, text, &variables, 1),
        ["vllm org/v of-total 0.3 env 1/1/1=1 len=512"]
    );
}

#[test]
fn without_a_degree_the_model_lies_on_every_device_and_with_one_it_is_loaded_as_often_as_fits() {
    let one = "vllm m of-total 0.92 default 1/1/1=1";
    assert_eq!(
        with_file(LMI, "option.model_id=m\n", &[], 4),
        ["vllm m of-total 0.92 default 4/1/1=4"]
    );
    let degree = "option.model_id=m\noption.tensor_parallel_degree=1\n";
    assert_eq!(with_file(LMI, degree, &[], 3), [one, one, one]);
    let most = format!("{degree}maxWorkers=2\n");
    assert_eq!(with_file(LMI, &most, &[], 3), [one, one]);
    let stages = "option.model_id=m\noption.tensor_parallel_degree=2\noption.pipeline_parallel_degree=2\n";
    assert_eq!(
        with_file(LMI, stages, &[], 4),
        ["vllm m of-total 0.92 default 2/2/1=4"]
    );
    let many = "option.model_id=m\noption.tensor_parallel_degree=4\n";
    assert_eq!(
        with_file(LMI, many, &[], 2),
        ["vllm m of-total 0.92 default 4/1/1=4 starts=unknown"]
    );
    check(
        json!({"image": LMI, "env": env(&[("HF_MODEL_ID", "m"), ("TENSOR_PARALLEL_DEGREE", "2")])}),
        "vllm m of-total 0.92 default 2/1/1=2",
    );
}

#[test]
fn rolling_batch_handler_engine_and_image_choose_what_runs() {
    let vllm = "vllm m of-total 0.92 default 1/1/1=1";
    let pytorch = "pytorch m uncapped - engine-auto 1/1/1=1";
    let unknown = "unknown - unknown - unresolved 1/1/1=1";
    for (image, more, expected) in [
        (LMI, "option.rolling_batch=lmi-dist\nengine=MPI", vllm),
        (LMI, "option.rolling_batch=auto", vllm),
        (LMI, "option.rolling_batch=disable\noption.async_mode=true", vllm),
        (
            LMI,
            "option.entryPoint=djl_python.lmi_vllm.vllm_async_service\noption.rolling_batch=disable",
            vllm,
        ),
        (LMI, "option.rolling_batch=disable", pytorch),
        (LMI, "option.rolling_batch=scheduler", pytorch),
        (LMI, "engine=DeepSpeed", pytorch),
        (LMI, "option.entryPoint=djl_python.stable_diffusion", pytorch),
        (LMI, "engine=OnnxRuntime", unknown),
        (LMI, "option.entryPoint=model.py", unknown),
        (LMI, "option.rolling_batch=tnx", unknown),
        (LMI, "option.rolling_batch={{batch}}", unknown),
        (LMI, "option.tensor_parallel_degree=many", unknown),
        ("deepjavalibrary/djl-serving:0.27.0-pytorch-gpu", "", unknown),
        (
            "deepjavalibrary/djl-serving:0.27.0-pytorch-gpu",
            "option.rolling_batch=vllm",
            vllm,
        ),
        (
            LMI,
            "option.rolling_batch=trtllm",
            "trtllm m of-free-after-weights 0.95 default 1/1/1=1",
        ),
        (
            TRT,
            "option.max_seq_len=4096\noption.dtype=bf16",
            "trtllm m of-free-after-weights 0.95 default 1/1/1=1 len=4096 dt=bf16",
        ),
        (
            TRT,
            "option.kv_cache_free_gpu_mem_fraction=0.5",
            "trtllm m of-free-after-weights 0.5 config-file 1/1/1=1",
        ),
    ] {
        let text = format!("option.model_id=m\n{more}\n");
        assert_eq!(with_file(image, &text, &[], 1), [expected], "{more}");
    }
}

#[test]
fn a_script_may_write_the_file_and_a_variable_may_name_the_folder() {
    let script = "cat > /opt/ml/model/serving.properties <<EOF\noption.model_id=$MODEL\noption.tensor_parallel_degree=2\nEOF\n\
        /usr/local/bin/dockerd-entrypoint.sh serve";
    check(
        json!({"image": LMI, "command": ["/bin/bash", "-c", script], "env": env(&[("MODEL", "org/m")])}),
        "vllm org/m of-total 0.92 default 2/1/1=2",
    );
    let pod = serde_json::from_value(json!({"spec": {
        "containers": [{"name": "server", "image": LMI, "env": env(&[("SERVING_LOAD_MODELS", "test::Python=/models/a")]),
            "resources": gpus(1), "volumeMounts": [{"name": "p", "mountPath": "/models/a"}]}],
        "volumes": [{"name": "p", "configMap": {"name": "props"}}]}}))
    .unwrap();
    let maps = Maps::default().with("props", &[("serving.properties", "option.model_id=org/a\n")]);
    let readings = super::read(&pod, &maps);
    assert_eq!(whole(&readings[0]), "vllm org/a of-total 0.92 default 1/1/1=1");
}

#[test]
fn what_cannot_be_read_is_unknown_or_noted() {
    let container = |variables: &[(&str, &str)]| -> Value {
        json!({"image": LMI, "env": env(variables), "resources": gpus(1), "volumeMounts": [{"name": "p", "mountPath": "/opt/ml/model"}]})
    };
    let mut pod = super::pod(&container(&[]));
    pod.spec.volumes =
        serde_json::from_value(json!([{"name": "p", "persistentVolumeClaim": {"claimName": "c"}}])).unwrap();
    let reading = &super::read(&pod, &Maps::default())[0];
    assert_eq!(whole(reading), "unknown - unknown - unresolved 1/1/1=1");
    assert_eq!(
        reading.unresolved[0].reason,
        "/opt/ml/model/serving.properties may say otherwise: the volume p is no ConfigMap"
    );
    let volumes = pod.spec.volumes.clone();
    let mut pod = super::pod(&container(&[("HF_MODEL_ID", "org/m")]));
    pod.spec.volumes = volumes;
    let reading = &super::read(&pod, &Maps::default())[0];
    assert_eq!(whole(reading), "vllm org/m of-total 0.92 default 1/1/1=1");
    assert_eq!(reading.unresolved[0].field, "serving.properties");
}

#[test]
fn each_value_is_told_with_its_line_or_variable() {
    let pod = serde_json::from_value(json!({"spec": {
        "containers": [{"name": "server", "image": LMI, "env": env(&[("OPTION_MAX_MODEL_LEN", "512")]), "resources": gpus(1),
            "volumeMounts": [{"name": "p", "mountPath": "/opt/ml/model"}]}],
        "volumes": [{"name": "p", "configMap": {"name": "props"}}]}}))
    .unwrap();
    let text = "# of the team\noption.model_id=org/m\noption.gpu_memory_utilization=0.7\n";
    let maps = Maps::default().with("props", &[("serving.properties", text)]);
    let placed = engine::containers(&pod).next().unwrap();
    let readings = engine::explain(&pod, placed, &maps, &[]);
    let told = |field: &str| {
        let one = readings[0]
            .provenance
            .iter()
            .find(|one| one.field == field)
            .unwrap();
        format!("{} {}", one.from.as_str(), one.detail)
    };
    let file = "of /opt/ml/model/serving.properties (ConfigMap default/props key serving.properties)";
    assert_eq!(told("model"), format!("config-file line 2 {file}"));
    assert_eq!(told("memory"), format!("config-file line 3 {file}"));
    assert_eq!(told("max-model-len"), "env OPTION_MAX_MODEL_LEN");
    assert_eq!(
        told("tensor-parallel-size"),
        "engine-auto every device of the container"
    );
}

#[test]
fn another_image_with_an_entrypoint_of_that_name_is_none_of_it() {
    let docker = json!({"image": "docker:27-dind", "command": ["dockerd-entrypoint.sh"], "resources": {}});
    assert_eq!(all(&docker), ["none - none - default 1/1/1=0"]);
}
