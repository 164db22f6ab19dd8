//! Programs of the engines' projects, parallel forms, and places that values come from.

use serde_json::{Value, json};

use super::{Maps, lines, pod, read};

fn of(image: &str, words: &[&str]) -> Vec<String> {
    let container = json!({"image": image, "command": words, "resources": {"limits": {"nvidia.com/gpu": 8}}});
    let readings = read(&pod(&container), &Maps::default());
    let command = |at: usize| readings[at].command.clone().unwrap_or_default();
    lines(&readings)
        .iter()
        .enumerate()
        .map(|(at, line)| format!("{}: {line}", command(at)))
        .collect()
}

#[test]
fn every_program_of_vllm_is_told() {
    for (line, expected) in [
        (
            "vllm bench throughput --model m -tp 2 --input-len 9",
            "bench throughput: vllm m 0.92 default 2/1/1=2 yes",
        ),
        (
            "vllm bench latency --model m --gpu-memory-utilization 0.4",
            "bench latency: vllm m 0.4 flag 1/1/1=1 yes",
        ),
        (
            "python3 benchmarks/benchmark_throughput.py --model m",
            "bench throughput: vllm m 0.92 default 1/1/1=1 yes",
        ),
        (
            "vllm bench serve --model m",
            "bench serve: none - - default 1/1/1=0 yes",
        ),
        (
            "python3 benchmarks/benchmark_serving.py --model m",
            "bench serve: none - - default 1/1/1=0 yes",
        ),
        (
            "vllm run-batch -i a -o b --model m",
            "run-batch: vllm m 0.92 default 1/1/1=1 yes",
        ),
        (
            "python3 -m vllm.entrypoints.openai.run_batch -i a -o b --model m",
            "run-batch: vllm m 0.92 default 1/1/1=1 yes",
        ),
        (
            "vllm preload --model m --gpu-memory-utilization 0.4",
            "preload: vllm m 0.4 flag 1/1/1=1 yes",
        ),
        (
            "vllm launch render m",
            "launch render: none - - default 1/1/1=0 yes",
        ),
        (
            "vllm-rs serve m --gpu-memory-utilization 0.4",
            "serve: vllm m 0.4 flag 1/1/1=1 yes",
        ),
        (
            "lmcache_vllm serve m --gpu-memory-utilization 0.4",
            "serve: vllm m 0.4 flag 1/1/1=1 yes",
        ),
        ("vllm --version", "--version: none - - default 1/1/1=0 yes"),
        ("vllm serve --help", "serve --help: none - - default 1/1/1=0 yes"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(of("vllm/vllm-openai:v0.33.0", &words), [expected], "{line}");
    }
    for (line, expected) in [
        (
            "sglang.bench_offline_throughput --model-path m --tp 2",
            "bench-offline-throughput: sglang m - engine-auto 2/1/1=2 yes",
        ),
        (
            "sglang.bench_one_batch --model-path m --batch-size 4",
            "bench-one-batch: sglang m - engine-auto 1/1/1=1 yes",
        ),
        (
            "sglang.bench_serving --backend sglang",
            "bench-serving: none - - default 1/1/1=0 yes",
        ),
        (
            "sglang_router.launch_router --worker-urls a",
            "router: none - - default 1/1/1=0 yes",
        ),
    ] {
        let words: Vec<&str> = ["python3", "-m"].into_iter().chain(line.split(' ')).collect();
        assert_eq!(of("lmsysorg/sglang:v0.5.6", &words), [expected], "{line}");
    }
}

#[test]
fn ranks_of_this_container_are_counted() {
    for (line, expected) in [
        (
            "-dp 16 -dpl 8 --data-parallel-hybrid-lb --data-parallel-start-rank 8",
            "1/1/16=8 yes",
        ),
        (
            "-dp 8 --data-parallel-external-lb --data-parallel-rank 3",
            "1/1/8=1 yes",
        ),
        (
            "--headless -dp 4 -dpl 2 -dpr 2 --data-parallel-address a --data-parallel-rpc-port 1",
            "1/1/4=2 yes",
        ),
        (
            "-tp 8 -pp 2 --nnodes 2 --node-rank 1 --master-addr a --headless",
            "8/2/1=8 yes",
        ),
        ("-tp 2 -pcp 2", "2/1/1=4 yes"),
        ("-dp 4 -dpl 0", "1/1/4=0 yes"),
        ("-tp 2 --api-server-count 4", "2/1/1=2 yes"),
        ("--enable-sleep-mode", "1/1/1=1 yes"),
        ("--load-format ipc_cache", "1/1/1=1 yes"),
        // The check at the start is for the fraction all the same.
        ("--kv-cache-memory-bytes 4G", "1/1/1=1 yes"),
    ] {
        let words: Vec<&str> = ["vllm", "serve", "m"]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        let read = of("vllm/vllm-openai:v0.33.0", &words);
        assert_eq!(read, [format!("serve: vllm m 0.92 default {expected}")], "{line}");
    }
}

#[test]
fn sizes_that_hang_on_the_run_may_use_every_device() {
    for words in [
        ["bash", "-c", "vllm serve m -tp $(nvidia-smi -L | wc -l)"],
        [
            "bash",
            "-c",
            "python3 -m sglang.launch_server --model-path m --tp $(nvidia-smi -L | wc -l)",
        ],
    ] {
        let read = of("registry.example/serving:1", &words);
        assert!(read[0].contains("1/1/1=8"), "{read:?}");
    }
}

#[test]
fn huggingfaceserver_may_serve_without_vllm() {
    let image = "kserve/huggingfaceserver:v0.15.0-gpu";
    for (args, expected) in [
        (
            &["--model_id=a/b", "--backend=huggingface"][..],
            "pytorch a/b - engine-auto 1/1/1=2 yes",
        ),
        (
            &["--model_id=a/b", "--backend", "vllm"],
            "vllm a/b 0.92 default 1/1/1=1 yes",
        ),
        (&["--model_id=a/b"], "vllm a/b 0.92 default 1/1/1=1 yes"),
    ] {
        let readings = read(&pod(&json!({"image": image, "args": args})), &Maps::default());
        assert_eq!(lines(&readings), [expected], "{args:?}");
    }
}

fn with_file(volume: Value, mount: Value, path: &str) -> Vec<String> {
    let container = json!({"image": "vllm/vllm-openai:v0.11.2", "command": ["vllm", "serve", "m", "--config", path],
        "volumeMounts": [mount]});
    let mut pod = pod(&container);
    pod.spec.volumes = serde_json::from_value(json!([volume])).unwrap();
    let maps = Maps::default()
        .with(
            "one",
            &[("c.yaml", "gpu-memory-utilization: 0.3\n"), ("other", "x")],
        )
        .with("two", &[("c.yaml", "gpu-memory-utilization: 0.4\n")]);
    lines(&read(&pod, &maps))
}

#[test]
fn files_are_found_in_every_form_of_volume() {
    let map = |name: &str, items: Value| match items {
        Value::Null => json!({"name": name}),
        items => json!({"name": name, "items": items}),
    };
    let item = json!([{"key": "c.yaml", "path": "deep/c.yaml"}]);
    let projected = |sources: Value| json!({"name": "v", "projected": {"sources": sources}});
    for (volume, mount, path, expected) in [
        (
            json!({"name": "v", "configMap": map("one", Value::Null)}),
            json!({"name": "v", "mountPath": "/a.yaml", "subPath": "c.yaml"}),
            "/a.yaml",
            "0.3 config-file 1/1/1=1 yes",
        ),
        (
            json!({"name": "v", "configMap": map("one", item.clone())}),
            json!({"name": "v", "mountPath": "/a"}),
            "/a/deep/c.yaml",
            "0.3 config-file 1/1/1=1 yes",
        ),
        (
            projected(json!([{"configMap": map("one", item.clone())}, {"secret": {"name": "s"}}])),
            json!({"name": "v", "mountPath": "/a"}),
            "/a/deep/c.yaml",
            "0.3 config-file 1/1/1=1 yes",
        ),
        // The later of two sources is written last.
        (
            projected(
                json!([{"configMap": map("one", Value::Null)}, {"configMap": map("two", Value::Null)}]),
            ),
            json!({"name": "v", "mountPath": "/a"}),
            "/a/c.yaml",
            "0.4 config-file 1/1/1=1 yes",
        ),
        (
            projected(json!([{"configMap": map("two", item)}, {"configMap": map("one", Value::Null)}])),
            json!({"name": "v", "mountPath": "/a"}),
            "/a/deep/c.yaml",
            "0.4 config-file 1/1/1=1 yes",
        ),
        (
            projected(json!([{"secret": {"name": "s"}}])),
            json!({"name": "v", "mountPath": "/a"}),
            "/a/c.yaml",
            "- unresolved 1/1/1=1 unknown",
        ),
        (
            json!({"name": "v", "configMap": {"name": "none", "optional": true}}),
            json!({"name": "v", "mountPath": "/a"}),
            "/a/c.yaml",
            "- unresolved 1/1/1=1 unknown",
        ),
    ] {
        assert_eq!(
            with_file(volume.clone(), mount, path),
            [format!("vllm m {expected}")],
            "{volume}"
        );
    }
}
