//! Engines whose parsers are not modelled.

use serde_json::json;

use super::{line, reading, variables, words};
use crate::engine::Reading;

fn read(image: &str, command: &[&str], args: &str, env: &[(&str, &str)], file: &str) -> Reading {
    reading(
        &json!({"image": image, "command": command, "args": words(args), "env": variables(env)}),
        file,
    )
}

#[test]
fn llama_cpp() {
    for (args, env, expected) in [
        ("", &[][..], "text=yes"),
        ("-ngl 20", &[], "layers=20 text=yes"),
        ("--gpu-layers all", &[], "text=yes"),
        ("-ngl auto", &[], "text=yes"),
        ("-ngl -1", &[], "text=yes"),
        ("-ngl few", &[], "text=yes ?gpu-layers"),
        ("", &[("LLAMA_ARG_N_GPU_LAYERS", "7")], "layers=7 text=yes"),
        ("-ngl 3", &[("LLAMA_ARG_N_GPU_LAYERS", "7")], "layers=3 text=yes"),
        (
            "",
            &[("LLAMA_ARG_N_GPU_LAYERS", "secret:n")],
            "text=yes ?gpu-layers",
        ),
        ("-ub 1024 -b 4096", &[], "tokens=1024 text=yes"),
        ("-ub 1024 -b 256", &[], "tokens=256 text=yes"),
        ("-b 256", &[], "tokens=256 text=yes"),
        ("-b 4096", &[], "tokens=512 text=yes"),
        ("-ub 0 -b 4096", &[], "tokens=4096 text=yes"),
        ("", &[("LLAMA_ARG_UBATCH", "128")], "tokens=128 text=yes"),
        ("-b x", &[], "text=yes ?batch-size"),
        ("-np 4", &[], "seqs=4 text=yes"),
        ("--parallel -1", &[], "text=yes"),
        ("", &[("LLAMA_ARG_N_PARALLEL", "2")], "seqs=2 text=yes"),
        ("-np two", &[], "text=yes ?parallel"),
        ("-ctk q8_0 -ctv q8_0", &[], "text=yes"),
        ("-ctk q8_0 -ctv q4_0", &[], "text=yes values=q4_0"),
        ("-ctk q8_0", &[], "text=yes values=f16"),
        ("-ctv q8_0", &[], "text=yes values=q8_0"),
        ("-ctk f16 -ctv f16", &[], "text=yes"),
        (
            "",
            &[("LLAMA_ARG_CACHE_TYPE_V", "secret:t")],
            "text=yes ?cache-type-v",
        ),
        ("-fa on", &[], "text=yes flash=true"),
        ("-fa off", &[], "text=yes flash=false"),
        ("-fa auto", &[], "text=yes"),
        ("-fa -np 2", &[], "seqs=2 text=yes flash=true"),
        ("-np 2 -fa", &[], "seqs=2 text=yes flash=true"),
        ("-fa perhaps", &[], "text=yes ?flash-attn"),
        ("", &[("LLAMA_ARG_FLASH_ATTN", "1")], "text=yes flash=true"),
        ("-c 0", &[], "text=yes trained=yes"),
        ("-c 4096", &[], "text=yes"),
        ("", &[("LLAMA_ARG_CTX_SIZE", "0")], "text=yes trained=yes"),
        ("--n-cpu-moe 12", &[], "text=yes over=--n-cpu-moe"),
        ("--n-cpu-moe 0", &[], "text=yes"),
        ("-cmoe", &[], "text=yes over=--cpu-moe"),
        ("-ot exps=CPU", &[], "text=yes over=--override-tensor"),
        ("", &[("LLAMA_ARG_N_CPU_MOE", "4")], "text=yes over=--n-cpu-moe"),
        ("-nkvo", &[], "text=yes over=--no-kv-offload"),
        (
            "",
            &[("LLAMA_ARG_KV_OFFLOAD", "0")],
            "text=yes over=--no-kv-offload",
        ),
        ("-md /d.gguf --draft-max 8", &[], "draft=-//d.gguf/8 text=yes"),
        (
            "--spec-type draft-mtp",
            &[("LLAMA_ARG_SPEC_DRAFT_N_MAX", "3")],
            "draft=draft-mtp/-/3 text=yes",
        ),
        (
            "--spec-type draft-mtp",
            &[("LLAMA_ARG_SPEC_DRAFT_N_MAX", "x")],
            "draft=draft-mtp/-/- text=yes ?LLAMA_ARG_SPEC_DRAFT_N_MAX",
        ),
        ("-hfd a/b", &[], "draft=-/a/b/- text=yes"),
        (
            "",
            &[("LLAMA_ARG_MODEL_DRAFT", "/d.gguf")],
            "draft=-//d.gguf/- text=yes",
        ),
        ("--mmproj /p.gguf", &[], ""),
        ("--mmproj /p.gguf --no-mmproj-offload", &[], "text=yes"),
        ("-hf a/b", &[], ""),
        ("-hf a/b --no-mmproj", &[], "text=yes"),
        ("--swa-full", &[], "text=yes full=yes"),
    ] {
        let reading = read(
            "ghcr.io/ggml-org/llama.cpp:server-cuda",
            &["llama-server"],
            args,
            env,
            "",
        );
        assert_eq!(line(&reading), expected, "{args} {env:?}");
    }
}

#[test]
fn text_generation_inference() {
    for (args, env, expected, eager) in [
        ("", &[][..], "", false),
        ("--max-batch-prefill-tokens 4096", &[], "tokens=4096", false),
        ("", &[("MAX_BATCH_PREFILL_TOKENS", "2048")], "tokens=2048", false),
        (
            "--max-batch-prefill-tokens 1",
            &[("MAX_BATCH_PREFILL_TOKENS", "2048")],
            "tokens=1",
            false,
        ),
        ("--max-batch-total-tokens 90000", &[], "total=90000", false),
        ("--cuda-graphs 0", &[], "", true),
        ("--cuda-graphs 1,2,4", &[], "", false),
        ("", &[("CUDA_GRAPHS", "0")], "", true),
        ("--speculate 3", &[], "draft=-/-/3", false),
        ("--speculate 0", &[], "", false),
        ("--lora-adapters a/b,c/d", &[], "?lora-adapters", false),
        (
            "--max-batch-prefill-tokens many",
            &[],
            "?max-batch-prefill-tokens",
            false,
        ),
        (
            "",
            &[("MAX_BATCH_PREFILL_TOKENS", "secret:n")],
            "?max-batch-prefill-tokens",
            false,
        ),
    ] {
        let image = "ghcr.io/huggingface/text-generation-inference:3.0.0";
        let reading = read(image, &["text-generation-launcher"], args, env, "");
        assert_eq!(line(&reading), expected, "{args} {env:?}");
        assert_eq!(reading.eager, eager, "{args} {env:?}");
    }
}

#[test]
fn text_embeddings_inference() {
    for (args, env, expected) in [
        ("", &[][..], ""),
        ("--max-batch-tokens 16384", &[], "tokens=16384"),
        (
            "--max-batch-tokens=16384 --max-batch-requests 8",
            &[],
            "seqs=8 tokens=16384",
        ),
        ("", &[("MAX_BATCH_TOKENS", "512")], "tokens=512"),
        ("--max-client-batch-size 8", &[], ""),
        ("--max-batch-tokens lots", &[], "?max-batch-tokens"),
        ("--max-batch-tokens 0", &[], "?max-batch-tokens"),
    ] {
        let image = "ghcr.io/huggingface/text-embeddings-inference:1.9";
        let reading = read(image, &["text-embeddings-router"], args, env, "");
        assert_eq!(line(&reading), expected, "{args} {env:?}");
    }
}

#[test]
fn tensorrt_llm_and_its_file_which_wins() {
    let file = "max_batch_size: 16\nmax_num_tokens: 2048\nmoe_expert_parallel_size: 2\nenable_chunked_prefill: true\n\
                kv_cache_config:\n  max_tokens: 100000\n  tokens_per_block: 64\n\
                speculative_config:\n  decoding_type: Eagle\n  max_draft_len: 3\n  speculative_model_dir: /e\n\
                lora_config:\n  max_loras: 2\n  max_lora_rank: 8\n";
    for (args, expected) in [
        ("", ""),
        ("--max_batch_size 8 --max_num_tokens 4096", "seqs=8 tokens=4096"),
        ("--ep_size 4", "ep=yes"),
        ("--ep_size 1", ""),
        ("--enable_chunked_prefill", "chunked=true"),
        ("--max_batch_size none", "?max_batch_size"),
        (
            "--max_batch_size 8 --config /files/f.yaml",
            "seqs=16 tokens=2048 total=100000 block=64 ep=yes chunked=true lora=2x8 draft=Eagle//e/3",
        ),
        (
            "--max_batch_size 8 --config /elsewhere/f.yaml",
            "seqs=8 open=yes ?kv_cache_config.free_gpu_memory_fraction",
        ),
    ] {
        let reading = read(
            "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
            &["trtllm-serve", "m"],
            args,
            &[],
            file,
        );
        assert_eq!(line(&reading), expected, "{args}");
    }
    let broken = "max_batch_size: [1\n";
    let reading = read(
        "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
        &["trtllm-serve", "m"],
        "--config /files/f.yaml",
        &[],
        broken,
    );
    assert_eq!(line(&reading), "open=yes ?config");
    let file = "lora_config: {lora_dir: [a]}\nmax_batch_size: [1]\n";
    let reading = read(
        "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
        &["trtllm-serve", "m"],
        "--config /files/f.yaml",
        &[],
        file,
    );
    assert_eq!(
        line(&reading),
        "?max_batch_size,lora_config/max_loras,lora_config/max_lora_rank"
    );
}

#[test]
fn lmdeploy() {
    for (args, expected) in [
        ("", ""),
        ("--max-batch-size 64", "seqs=64"),
        ("--cache-block-seq-len 128", "block=128"),
        ("--max-prefill-token-num 4096", "tokens=4096"),
        ("--ep 8", "ep=yes"),
        ("--adapters a=b", "?adapters"),
        ("--quant-policy 8", ""),
        ("--quant-policy 5", "?quant-policy"),
        ("--max-batch-size big", "?max-batch-size"),
    ] {
        let command = ["lmdeploy", "serve", "api_server", "m"];
        let reading = read("openmmlab/lmdeploy:v0.9.0", &command, args, &[], "");
        assert_eq!(line(&reading), expected, "{args}");
    }
}
