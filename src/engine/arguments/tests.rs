use super::*;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn read_line(engine: Engine, version: Option<Version>, model: Option<&str>, line: &str) -> Reading {
    read_arguments(engine, version, model, &words(line)).unwrap()
}

#[test]
fn every_server_is_read_with_a_model_from_outside_or_its_own() {
    for (engine, own, options, sizes) in [
        (
            Engine::Vllm,
            "own/m --max-num-seqs 3",
            "--max-num-seqs 3",
            Some(3),
        ),
        (
            Engine::Sglang,
            "--model-path own/m --max-running-requests 3",
            "--max-running-requests 3",
            Some(3),
        ),
        (
            Engine::Tgi,
            "--model-id=own/m --num-shard 1",
            "--num-shard 1",
            None,
        ),
        (
            Engine::Tei,
            "--model-id own/m --max-batch-requests 3",
            "--max-batch-requests 3",
            Some(3),
        ),
        (
            Engine::TensorRtLlm,
            "own/m --max_batch_size 3",
            "--max_batch_size 3",
            Some(3),
        ),
        (Engine::LlamaCpp, "-m own/m -np 3", "-np 3", Some(3)),
        (
            Engine::Lmdeploy,
            "own/m --max-batch-size 3",
            "--max-batch-size 3",
            Some(3),
        ),
    ] {
        let reading = read_line(engine, None, Some("given/m"), options);
        assert_eq!(reading.engine, engine);
        assert_eq!(reading.model.as_deref(), Some("given/m"), "{engine}");
        assert_eq!(reading.serving.max_num_seqs, sizes, "{engine}");
        for given in [None, Some("given/m")] {
            let reading = read_line(engine, None, given, own);
            assert_eq!(reading.model.as_deref(), Some("own/m"), "{engine} {given:?}");
            assert_eq!(reading.serving.max_num_seqs, sizes, "{engine}");
            assert!(reading.findings.is_empty(), "{engine}: {:?}", reading.findings);
        }
    }
}

#[test]
fn a_release_decides_as_the_tag_of_an_image_does() {
    let default = |version| {
        read_line(Engine::Vllm, version, Some("m"), "")
            .memory
            .value
            .unwrap()
    };
    assert_eq!(default(Some(Version::new(0, 19, 1))), "0.9");
    assert_eq!(default(Some(Version::new(0, 20, 0))), "0.92");
    assert_eq!(default(None), "0.92");
    let post = Version([0, 6, 3, 1]);
    let reading = read_line(Engine::Vllm, Some(post), Some("m"), "--swap-space 4");
    assert_eq!(reading.version, Some(post));
    assert_eq!(reading.starts, crate::engine::Starts::Yes);
    let reading = read_line(
        Engine::Vllm,
        Some(Version::new(0, 33, 0)),
        Some("m"),
        "--swap-space 4",
    );
    assert_eq!(reading.starts, crate::engine::Starts::No);
    let codes: Vec<&str> = reading
        .findings
        .iter()
        .map(|finding| finding.code.as_str())
        .collect();
    assert_eq!(codes, ["VG107"]);
    assert_eq!(reading.findings[0].path.to_string(), "spec.containers[0].args[0]");
}

#[test]
fn it_is_what_a_container_says() {
    for line in [
        "m --gpu-mem 0.3 -tp 2 --max-num-seqs 8 --enable-lora",
        "m --gpu-memory-utilization 1.5",
        "--model m --kv_cache_memory_bytes=4G",
        "--nonsense",
    ] {
        let arguments = words(line);
        let pod: Pod = serde_json::from_value(serde_json::json!({"spec": {"containers": [{
            "name": "x", "image": "vllm/vllm-openai:v0.25.1", "command": ["vllm", "serve"], "args": arguments,
        }]}}))
        .unwrap();
        let of_pod = read(&pod, containers(&pod).next().unwrap(), &NoSources, &[]);
        let version = Some(Version::new(0, 25, 1));
        let of_line = read_arguments(Engine::Vllm, version, None, &arguments).unwrap();
        assert_eq!(of_pod, [of_line], "{line}");
    }
}

#[test]
fn engines_without_arguments_are_an_error() {
    for engine in [
        Engine::Triton,
        Engine::Ollama,
        Engine::Nim,
        Engine::RayWorker,
        Engine::Jax,
        Engine::Unknown,
        Engine::None,
    ] {
        let error = read_arguments(engine, None, Some("m"), &[]).unwrap_err();
        assert_eq!(error, ArgumentsError::Engine(engine));
        assert!(error.to_string().contains(engine.as_str()));
    }
}

mod never_panics {
    use proptest::prelude::*;

    use super::super::*;
    use crate::engine::Releases;

    /// Words that the readers look at closely.
    const WORDS: [&str; 24] = [
        "m",
        "--max-num-seqs",
        "--cpu-offload-gb=1e",
        "--cpu-offload-gb",
        "1e999",
        "-0.",
        "--limit-mm-per-prompt",
        "{\"image\":{\"count\":0}}",
        "{\"image\":",
        "image=0,=",
        "--speculative-config",
        "--speculative-config.a.b+",
        "{\"model\":1,\"num_speculative_tokens\":-1}",
        "--kv-cache-memory-bytes=170141183460469231731687303715884105728",
        "--enable-lora",
        "--max-loras=-1",
        "--config",
        "-ngl",
        "-99999999999999999999",
        "-fa",
        "-ot",
        "--cuda-graphs=,",
        "$(X)",
        "é=",
    ];

    proptest! {
        #[test]
        fn arguments(
            engine in prop::sample::select(&[Engine::Vllm, Engine::Sglang, Engine::Tgi, Engine::Tei,
                Engine::TensorRtLlm, Engine::LlamaCpp, Engine::Lmdeploy][..]),
            minor in 0_u16..40,
            words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..12),
        ) {
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            let reading = read_arguments(engine, Some(Version::new(0, minor, 0)), Some("m"), &words);
            prop_assert!(reading.is_ok_and(|reading| reading.engine == engine));
        }

        #[test]
        fn releases(text in "[0-9.x+~/>=v-]{0,12}( ?\\(V[01]\\))?|\\PC{0,20}") {
            if let Ok(releases) = Releases::parse(&text)
                && let (Some(first), Some(last)) = (releases.first, releases.last)
            {
                prop_assert!(first <= last, "{text}");
            }
        }
    }
}
