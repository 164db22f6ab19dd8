//! Images that are told their options by variables: NIM from 2.0 on, DJL and SageMaker.

use serde_json::{Value, json};

use super::{Maps, line, name, pod, read};

fn one(container: &Value) -> String {
    let readings = read(&pod(container), &Maps::default());
    assert_eq!(readings.len(), 1, "{container}");
    format!("{} [{}]", line(&readings[0]), name(&readings[0].memory.kind))
}

fn env(pairs: &[(&str, &str)]) -> Value {
    let variable = |(name, value): &(&str, &str)| match value.strip_prefix("secret:") {
        Some(key) => json!({"name": name, "valueFrom": {"secretKeyRef": {"name": "s", "key": key}}}),
        None => json!({"name": name, "value": value}),
    };
    pairs.iter().map(variable).collect()
}

#[test]
fn nim_2_takes_words_from_three_places() {
    let image = "nvcr.io/nim/meta/llama-3.1-8b-instruct:2.0.9";
    let model = "nim meta/llama-3.1-8b-instruct";
    for (args, variables, expected) in [
        (
            &[][..],
            &[("NIM_GPU_MEM_FRACTION", "0.5")][..],
            format!("{model} 0.5 env 1/1/1=1 yes [of-total]"),
        ),
        // The passed words win over the variable, whole or cut short, quoted or not.
        (
            &[],
            &[
                ("NIM_GPU_MEM_FRACTION", "0.5"),
                (
                    "NIM_PASSTHROUGH_ARGS",
                    "--gpu-memory-util '0.4' --served-model-name \"a b\" -tp 2",
                ),
            ],
            format!("{model} 0.4 env 2/1/1=2 yes [of-total]"),
        ),
        // Words of the container win over both.
        (
            &["nim-serve", "--gpu-memory-utilization", "0.3"],
            &[("NIM_PASSTHROUGH_ARGS", "--gpu-memory-utilization 0.4")],
            format!("{model} 0.3 env 1/1/1=1 yes [of-total]"),
        ),
        (
            &[],
            &[
                ("NIM_MODEL_PROFILE", "vllm-bf16-tp2-pp1"),
                ("NIM_GPU_MEM_FRACTION", "0.5"),
            ],
            format!("{model} 0.5 env 2/1/1=2 yes [of-total]"),
        ),
        // Nothing stated: the profile decides, and no default of vLLM.
        (
            &[],
            &[("NIM_MAX_MODEL_LEN", "4096")],
            format!("{model} - unresolved 1/1/1=1 yes [unknown]"),
        ),
        (
            &[],
            &[("NIM_KV_CACHE_PERCENT", "0.5")],
            format!("{model} - unresolved 1/1/1=1 yes [unknown]"),
        ),
        // Not known: it may set anything.
        (
            &[],
            &[
                ("NIM_GPU_MEM_FRACTION", "0.5"),
                ("NIM_PASSTHROUGH_ARGS", "secret:a"),
            ],
            format!("{model} - unresolved 1/1/1=1 unknown [of-total]"),
        ),
        (
            &[],
            &[("NIM_GPU_MEM_FRACTION", "secret:a")],
            format!("{model} - unresolved 1/1/1=1 yes [of-total]"),
        ),
        (
            &[],
            &[("NIM_PASSTHROUGH_ARGS", "--mem-fraction-static 0.4 --tp-size 2")],
            format!("{model} 0.4 env 2/1/1=2 yes [of-free]"),
        ),
    ] {
        let mut container = json!({"image": image, "env": env(variables)});
        if !args.is_empty() {
            container["args"] = json!(args);
        }
        assert_eq!(one(&container), expected, "{args:?} {variables:?}");
    }
    let container = json!({"image": image, "command": ["sh", "-c", "export X=1; exec nim-serve --gpu-memory-utilization=0.25"]});
    assert_eq!(
        one(&container),
        format!("{model} 0.25 env 1/1/1=1 yes [of-total]")
    );
    let readings = read(
        &pod(
            &json!({"image": image, "env": env(&[("NIM_MAX_MODEL_LEN", "4096"), ("NIM_MAX_NUM_SEQS", "8")])}),
        ),
        &Maps::default(),
    );
    assert_eq!(
        (readings[0].max_model_len, readings[0].serving.max_num_seqs),
        (Some(4096), Some(8))
    );
    // Before 2.0 the same variables mean something else.
    let container = json!({"image": "nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.3",
        "env": env(&[("NIM_GPU_MEM_FRACTION", "0.5"), ("NIM_PASSTHROUGH_ARGS", "--gpu-memory-utilization 0.4")])});
    assert_eq!(
        one(&container),
        format!("{model} - unresolved 1/1/1=1 yes [unknown]")
    );
}

#[test]
fn djl_hands_every_option_of_vllm_on() {
    for (variables, expected) in [
        (
            &[
                ("HF_MODEL_ID", "org/m"),
                ("OPTION_GPU_MEMORY_UTILIZATION", "0.6"),
                ("OPTION_TENSOR_PARALLEL_DEGREE", "max"),
                ("OPTION_ROLLING_BATCH", "vllm"),
                ("OPTION_DTYPE", "fp16"),
            ][..],
            "vllm org/m 0.6 env 2/1/1=2 yes [of-total]",
        ),
        (
            &[
                ("OPTION_MODEL_ID", "org/n"),
                ("OPTION_MAX_NUM_SEQS", "4"),
                ("OPTION_ENABLE_STREAMING", "false"),
                ("OPTION_PAGED_ATTENTION", "false"),
            ],
            "vllm org/n 0.92 default 2/1/1=2 yes [of-total]",
        ),
        (
            &[
                ("HF_MODEL_ID", "org/m"),
                ("OPTION_GPU_MEMORY_UTILIZATION", "secret:u"),
            ],
            "vllm org/m - unresolved 2/1/1=2 yes [of-total]",
        ),
    ] {
        let container = json!({"image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.31.0-lmi13.0.0-cu124",
            "env": env(variables)});
        assert_eq!(one(&container), expected, "{variables:?}");
    }
    let container = json!({"image": "deepjavalibrary/djl-serving:0.33.0-lmi", "env": env(&[("HF_MODEL_ID", "m"),
        ("OPTION_ENABLE_LORA", "true"), ("OPTION_MAX_LORA_RANK", "64"), ("OPTION_MAX_ROLLING_BATCH_PREFILL_TOKENS", "4096"), ("OPTION_DTYPE", "bf16")])});
    let readings = read(&pod(&container), &Maps::default());
    let serving = &readings[0].serving;
    assert_eq!(serving.adapters.map(|adapters| adapters.rank), Some(64));
    assert_eq!(serving.max_num_batched_tokens, Some(4096));
    assert_eq!(readings[0].dtype.as_deref(), Some("bfloat16"));
}
