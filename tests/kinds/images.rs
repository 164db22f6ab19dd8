//! Images whose entrypoint is not the server, or not the one that their name suggests.

use serde_json::{Value, json};
use vramgate::engine::Reading;

use super::{Maps, line, pod, read};

fn readings(image: &str, args: &[&str]) -> Vec<Reading> {
    let mut container = json!({"image": image, "resources": {"limits": {"nvidia.com/gpu": 2}}});
    if !args.is_empty() {
        container["args"] = json!(args);
    }
    read(&pod(&container), &Maps::default())
}

/// `line version resolvable`.
fn one(image: &str, args: &[&str]) -> String {
    let readings = readings(image, args);
    assert_eq!(readings.len(), 1, "{image} {args:?}: {readings:#?}");
    let reading = &readings[0];
    let version = reading
        .version
        .map_or("-".to_owned(), |version| version.to_string());
    let resolvable = serde_json::to_value(reading.resolvable).unwrap();
    format!(
        "{} {version} {}",
        line(reading),
        resolvable.as_str().unwrap_or_default()
    )
}

#[test]
fn images_that_run_their_arguments_are_told_from_servers() {
    let serve = &["vllm", "serve", "m", "--gpu-memory-utilization", "0.4"][..];
    let module = &["python3", "-m", "vllm.entrypoints.openai.api_server", "--model=m"][..];
    let shell = &["bash", "-c", "vllm serve m --gpu-memory-utilization 0.4"][..];
    for (image, args, expected) in [
        (
            "nvcr.io/nvidia/vllm:25.09-py3",
            serve,
            "vllm m 0.4 flag 1/1/1=1 yes - full",
        ),
        (
            "nvcr.io/nvidia/vllm:25.09-py3",
            shell,
            "vllm m 0.4 flag 1/1/1=1 yes - full",
        ),
        (
            "rocm/vllm:rocm6.4.1_vllm_0.10.1_20250909",
            serve,
            "vllm m 0.4 flag 1/1/1=1 unknown 0.10.1 full",
        ),
        (
            "rocm/vllm-dev:nightly",
            module,
            "vllm m 0.92 default 1/1/1=1 unknown - full",
        ),
        (
            "vllm/vllm-tpu:v0.11.0",
            shell,
            "vllm m 0.4 flag 1/1/1=1 unknown 0.11.0 full",
        ),
        (
            "registry.example/ai/vllm:0.8.4",
            module,
            "vllm m 0.9 default 1/1/1=1 yes 0.8.4 full",
        ),
        (
            "registry.example/ai/vllm:0.8.4",
            &["--model=m"],
            "vllm m 0.9 default 1/1/1=1 yes 0.8.4 full",
        ),
        (
            "lmsysorg/sglang:v0.5.6",
            &["python3", "-m", "sglang.launch_server", "--model-path=m"],
            "sglang m - engine-auto 1/1/1=1 yes 0.5.6 full",
        ),
        // Nothing says what an unknown image does with them; they are a command line all the same.
        (
            "registry.example/serving:1",
            module,
            "vllm m 0.92 default 1/1/1=1 yes - partial",
        ),
        // AWS keeps the module in every release.
        (
            "public.ecr.aws/deep-learning-containers/vllm:0.19.0-gpu-py312-ec2",
            &["--model=m"],
            "vllm m 0.9 default 1/1/1=1 yes 0.19.0 full",
        ),
        // LMCache's image has LMCache's number.
        (
            "lmcache/vllm-openai:v0.3.9",
            &["m", "--no-enable-prefix-caching"],
            "vllm m 0.92 default 1/1/1=1 yes - full",
        ),
        // Options alone are no program.
        (
            "nvcr.io/nvidia/vllm:25.09-py3",
            &["--model", "m", "--gpu-memory-utilization=0.4"],
            "vllm m 0.4 flag 1/1/1=1 no - partial",
        ),
        // To the project's own server a program is a model and a stray word.
        (
            "vllm/vllm-openai:v0.12.0",
            serve,
            "vllm vllm 0.4 flag 1/1/1=1 no 0.12.0 full",
        ),
        (
            "vllm/vllm-openai:v0.12.0",
            shell,
            "vllm bash 0.9 default 1/1/1=1 no 0.12.0 full",
        ),
    ] {
        assert_eq!(one(image, args), expected, "{image} {args:?}");
    }
    // A shell is no server.
    let nothing = readings("rocm/vllm:latest", &[]);
    assert_eq!(nothing[0].engine.as_str(), "none");
}

#[test]
fn images_of_aws_start_what_the_release_below_them_starts() {
    for (release, command) in [("0.9.2", "api-server"), ("0.19.0", "serve")] {
        let image = format!("account.example/vllm:{release}-gpu-py312-cu129-ubuntu22.04-ec2");
        let reading = &readings(&image, &["--model=m"])[0];
        assert_eq!(reading.command.as_deref(), Some(command), "{release}");
    }
    let env = json!([{"name": "SM_VLLM_MODEL", "value": "m"}]);
    let image = "account.example/vllm:0.19.0-gpu-py312-cu129-ubuntu22.04-sagemaker";
    let container: Value = json!({"image": image, "env": env});
    let readings = read(&pod(&container), &Maps::default());
    assert_eq!(line(&readings[0]), "vllm m 0.9 default 1/1/1=1 yes");
}

#[test]
fn a_connector_that_decides_later_leaves_the_invocation_known() {
    let config = r#"--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}"#;
    let args = ["m", config];
    assert_eq!(
        one("vllm/vllm-openai:v0.28.0", &args),
        "vllm m 0.92 default 1/1/1=1 yes 0.28.0 full"
    );
}
