//! vLLM.

use serde_json::json;

use super::{line, reading, variables, words};

/// `vllm serve m …` of a release.
fn read(release: &str, args: &str) -> String {
    line(&reading(
        &json!({"image": format!("vllm/vllm-openai:v{release}"), "command": ["vllm", "serve", "m"], "args": words(args)}),
        "",
    ))
}

fn check(cases: &[(&str, &str, &str)]) {
    for (release, args, expected) in cases {
        assert_eq!(read(release, args), *expected, "{release}: {args}");
    }
}

#[test]
fn sizes_are_read_in_every_spelling() {
    check(&[
        ("0.33.0", "", ""),
        ("0.33.0", "--max-num-seqs 64", "seqs=64"),
        ("0.33.0", "--max-num-seqs=64", "seqs=64"),
        ("0.33.0", "--max_num_seqs 64", "seqs=64"),
        ("0.25.1", "--max-num-se 64", "seqs=64"),
        // Scheduled tokens are beside it since 0.28.
        ("0.33.0", "--max-num-s 64", ""),
        ("0.33.0", "--max-num-seqs 8 --max_num_seqs=16", "seqs=16"),
        ("0.33.0", "--max-num-batched-tokens 8k", "tokens=8000"),
        ("0.33.0", "--max-num-batched-tokens=8K", "tokens=8192"),
        ("0.6.3.post1", "--max-num-batched-tokens 4096", "tokens=4096"),
        // Suffixes only from 0.9.1 on.
        (
            "0.8.5.post1",
            "--max-num-batched-tokens 8k",
            "?max-num-batched-tokens",
        ),
        ("0.33.0", "--block-size 32", "block=32"),
        ("0.9.2", "--block-size 48", "?block-size"),
        ("0.33.0", "--block-size 48", "block=48"),
        ("0.33.0", "--kv-cache-memory-bytes 10G", "kv=10737418240"),
        ("0.33.0", "--kv-cache-memory 2g", "kv=2000000000"),
        ("0.33.0", "--num-gpu-blocks-override=512", "blocks=512"),
        ("0.6.3.post1", "--num_gpu_blocks_override 512", "blocks=512"),
        (
            "0.33.0",
            "--num-gpu-blocks-override 0",
            "?num-gpu-blocks-override",
        ),
        ("0.33.0", "--kv-cache-memory-bytes 1.5g", "kv=1500000000"),
        (
            "0.33.0",
            "--kv-cache-memory-bytes 10GiB",
            "?kv-cache-memory-bytes",
        ),
        // Python takes zero for "not set".
        ("0.33.0", "--kv-cache-memory-bytes 0", ""),
        ("0.33.0", "--kv-cache-memory-bytes None", ""),
        ("0.33.0", "--kv-cache-memory-bytes=-1", "?kv-cache-memory-bytes"),
        ("0.33.0", "--cpu-offload-gb 10", "offload=10737418240"),
        ("0.33.0", "--cpu-offload-gb 0.5", "offload=536870912"),
        ("0.33.0", "--cpu-offload-gb 0.1", "offload=107374182"),
        ("0.33.0", "--cpu-offload-gb=1e1", "offload=10737418240"),
        ("0.33.0", "--cpu-offload-gb 0", "offload=0"),
        ("0.33.0", "--cpu-offload-gb=-1", "?cpu-offload-gb"),
        ("0.33.0", "--cpu-offload-gb nan", "?cpu-offload-gb"),
        ("0.33.0", "--cpu-offload-gb much", "?cpu-offload-gb"),
        ("0.33.0", "--max-num-seqs 0", "?max-num-seqs"),
        ("0.33.0", "--max-num-seqs many", "?max-num-seqs"),
        ("0.10.2", "--max-num-seqs=-3", "?max-num-seqs"),
    ]);
}

#[test]
fn switches_have_negations_by_release() {
    check(&[
        ("0.33.0", "--enable-expert-parallel", "ep=yes"),
        ("0.33.0", "-ep", "ep=yes"),
        (
            "0.33.0",
            "--enable-expert-parallel --no-enable-expert-parallel",
            "",
        ),
        ("0.33.0", "--enable-expert-parallel --disable-expert-parallel", ""),
        ("0.33.0", "--enable-chunked-prefill", "chunked=true"),
        ("0.33.0", "--no-enable-chunked-prefill", "chunked=false"),
        ("0.33.0", "--disable-chunked-prefill", "chunked=false"),
        ("0.7.3", "--enable-chunked-prefill", "chunked=true"),
        ("0.7.3", "--enable-chunked-prefill False", "chunked=false"),
        ("0.7.3", "--enable-chunked-prefill=true", "chunked=true"),
        (
            "0.7.3",
            "--enable-chunked-prefill=maybe",
            "?enable-chunked-prefill",
        ),
        ("0.33.0", "--language-model-only", "text=yes"),
        ("0.33.0", "--disable-hybrid-kv-cache-manager", "full=yes"),
        ("0.33.0", "--no-disable-hybrid-kv-cache-manager", ""),
        ("0.33.0", "--enable-hybrid-kv-cache-manager", ""),
        ("0.33.0", "--load-format gguf", "format=gguf"),
        ("0.33.0", "--load-format auto", ""),
        ("0.33.0", "--load-format bitsandbytes", "format=bitsandbytes"),
    ]);
}

#[test]
fn adapters_have_their_defaults_and_need_their_flag() {
    check(&[
        ("0.33.0", "--enable-lora", "lora=1x16"),
        ("0.6.3.post1", "--enable-lora", "lora=1x16"),
        (
            "0.33.0",
            "--enable-lora --max-loras 4 --max-lora-rank=64",
            "lora=4x64",
        ),
        ("0.33.0", "--enable_lora --max_loras 4", "lora=4x16"),
        ("0.33.0", "--max-loras 4 --max-lora-rank 64", ""),
        ("0.33.0", "--enable-lora --no-enable-lora", ""),
        ("0.33.0", "--enable-lora --max-loras 0", "?max-loras"),
        ("0.33.0", "--enable-lora --max-loras x", "?max-loras"),
    ]);
}

#[test]
fn drafts_stand_in_json_in_dotted_keys_and_in_single_options() {
    check(&[
        (
            "0.11.0",
            r#"--speculative-config|{"method": "eagle3", "model": "a/b", "num_speculative_tokens": 3}"#,
            "draft=eagle3/a/b/3",
        ),
        (
            "0.11.0",
            r#"--speculative_config={"method":"mtp","num_speculative_tokens":1}"#,
            "draft=mtp/-/1",
        ),
        (
            "0.19.1",
            r#"-sc={"method":"ngram","num_speculative_tokens":5}"#,
            "draft=ngram/-/5",
        ),
        (
            "0.11.0",
            "--speculative-config.method eagle --speculative-config.model x --speculative-config.num_speculative_tokens 2",
            "draft=eagle/x/2",
        ),
        // Without types until 0.9.1.
        (
            "0.9.1",
            "--speculative-config.model x --speculative-config.num_speculative_tokens 2",
            "draft=-/x/2",
        ),
        ("0.23.0", "--spec-method mtp --spec-tokens 2", "draft=mtp/-/2"),
        ("0.23.0", "--spec-model a/b", "draft=-/a/b/-"),
        (
            "0.7.3",
            "--speculative-model a/b --num-speculative-tokens 4",
            "draft=-/a/b/4",
        ),
        (
            "0.7.3",
            "--speculative-model [ngram] --num-speculative-tokens 4",
            "draft=ngram/-/4",
        ),
        ("0.7.3", "--num-speculative-tokens 4", ""),
        ("0.11.0", "--speculative-config None", ""),
        ("0.11.0", "--speculative-config=[1]", "?speculative-config"),
        ("0.11.0", "--speculative-config nothing", "?speculative-config"),
        (
            "0.11.0",
            r#"--speculative-config={"model":"x","num_speculative_tokens":"some"}"#,
            "draft=-/x/- ?speculative-config",
        ),
    ]);
}

#[test]
fn limits_of_zero_exclude_inputs() {
    check(&[
        (
            "0.33.0",
            r#"--limit-mm-per-prompt={"image":0,"video":0}"#,
            "text=yes no=image+video",
        ),
        (
            "0.33.0",
            r#"--limit-mm-per-prompt={"image":0,"video":1}"#,
            "no=image",
        ),
        (
            "0.33.0",
            r#"--limit-mm-per-prompt={"video":{"count":0,"num_frames":8}}"#,
            "text=yes no=video",
        ),
        (
            "0.33.0",
            r#"--limit-mm-per-prompt={"video":{"num_frames":8}}"#,
            "",
        ),
        (
            "0.33.0",
            r#"--limit-mm-per-prompt={"video":{"count":"x"}}"#,
            "?limit-mm-per-prompt",
        ),
        ("0.33.0", "--limit-mm-per-prompt={}", ""),
        (
            "0.11.0",
            "--limit-mm-per-prompt.image 0 --limit-mm-per-prompt.video 0",
            "text=yes no=image+video",
        ),
        (
            "0.7.3",
            "--limit-mm-per-prompt image=0,video=0",
            "text=yes no=image+video",
        ),
        ("0.7.3", "--limit-mm-per-prompt image=2,video=0", "no=video"),
        ("0.7.3", "--limit-mm-per-prompt image", "?limit-mm-per-prompt"),
        ("0.33.0", "--limit-mm-per-prompt 7", "?limit-mm-per-prompt"),
    ]);
}

#[test]
fn a_connector_turns_the_hybrid_manager_off_up_to_0_21() {
    const CONNECTOR: &str = r#"--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}"#;
    let kept = format!("{CONNECTOR}|--no-disable-hybrid-kv-cache-manager");
    let off = format!("{CONNECTOR}|--disable-hybrid-kv-cache-manager");
    check(&[
        ("0.10.2", CONNECTOR, "full=yes"),
        ("0.10.2", &kept, "full=yes"),
        ("0.11.2", CONNECTOR, "full=yes"),
        ("0.11.2", &kept, ""),
        ("0.21.0", CONNECTOR, "full=yes"),
        ("0.25.1", CONNECTOR, "?kv-transfer-config"),
        ("0.25.1", &kept, ""),
        ("0.25.1", &off, "full=yes"),
        // Its type reads the text as JSON of an object, and refuses this.
        ("0.25.1", "--kv-transfer-config null", "?kv-transfer-config"),
        ("0.25.1", "--kv-transfer-config None", ""),
    ]);
}

#[test]
fn what_changes_the_model_is_named() {
    check(&[
        (
            "0.33.0",
            r#"--hf-overrides={"num_hidden_layers":2}"#,
            "over=--hf-overrides",
        ),
        (
            "0.33.0",
            "--hf_overrides.num_hidden_layers 2",
            "over=--hf-overrides",
        ),
        ("0.33.0", "--hf-overrides {}", ""),
        ("0.33.0", "--hf-config-path /c", "over=--hf-config-path"),
        ("0.33.0", "--mm-encoder-only", "over=--mm-encoder-only"),
        ("0.33.0", "--offload-group-size 4", "over=--offload-group-size"),
        ("0.33.0", "--offload-group-size 0", ""),
        ("0.33.0", "--model-impl transformers", ""),
    ]);
}

#[test]
fn the_file_of_config_is_read_and_the_command_line_wins() {
    let file = "max-num-seqs: 32\nmax_num_batched_tokens: 8k\nenable-lora: true\nmax-loras: 2\n\
                no-enable-chunked-prefill: true\nspeculative-config:\n  method: mtp\n  num_speculative_tokens: 1\n\
                limit-mm-per-prompt: {image: 0}\nkv-cache-memory-bytes: 4G\n";
    let read = |args: &str| {
        line(&reading(
            &json!({"image": "vllm/vllm-openai:v0.25.1", "command": ["vllm", "serve", "m"], "args": words(args)}),
            file,
        ))
    };
    assert_eq!(
        read("--config /files/f.yaml"),
        "seqs=32 tokens=8000 kv=4294967296 chunked=false lora=2x16 draft=mtp/-/1 text=yes no=image"
    );
    assert_eq!(
        read("--config /files/f.yaml --max-num-seqs 7 --no-enable-lora --kv-cache-memory 1g"),
        "seqs=7 tokens=8000 kv=1000000000 chunked=false draft=mtp/-/1 text=yes no=image"
    );
    assert_eq!(read("--config=/files/f.yaml"), "");
    // What the file holds is not known, nor whether it sets any of them.
    assert_eq!(
        read("--config /elsewhere/f.yaml --max-num-seqs 7"),
        "seqs=7 open=yes ?gpu-memory-utilization"
    );
}

#[test]
fn variables_reach_options_and_the_profiler() {
    let read = |env: &[(&str, &str)], args: &str| {
        line(&reading(
            &json!({"image": "vllm/vllm-openai:v0.25.1", "command": ["vllm", "serve", "m"], "args": words(args),
                   "env": variables(env)}),
            "",
        ))
    };
    let graphs = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS";
    for (env, args, expected) in [
        (&[(graphs, "1")][..], "", "graphs=true"),
        (&[(graphs, "0")], "--max-num-seqs 2", "seqs=2 graphs=false"),
        (
            &[(graphs, "yes")],
            "",
            "?VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
        ),
        (
            &[(graphs, "secret:k")],
            "",
            "?VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
        ),
        (&[("N", "12")], "--max-num-seqs=$(N)", "seqs=12"),
        (&[("N", "secret:n")], "--max-num-seqs=$(N)", "?max-num-seqs"),
        (
            &[("N", "secret:n")],
            "--max-num-seqs $(N) --block-size 32",
            "block=32 ?max-num-seqs",
        ),
        (&[("N", "secret:n")], "--cpu-offload-gb=$(N)", "?cpu-offload-gb"),
        (
            &[("N", "secret:n")],
            "--speculative-config=$(N)",
            "?speculative-config",
        ),
        (
            &[("N", "secret:n")],
            "--speculative-config.model $(N)",
            "?speculative-config",
        ),
        (
            &[("N", "secret:n")],
            "--limit-mm-per-prompt=$(N)",
            "?limit-mm-per-prompt",
        ),
        (&[("N", "secret:n")], "--load-format=$(N)", "?load-format"),
        (
            &[("N", "secret:n")],
            "--enable-lora --max-loras=$(N)",
            "?max-loras",
        ),
        (&[("N", "secret:n")], "--hf-overrides=$(N)", "?hf-overrides"),
        (
            &[("N", "secret:n")],
            "--kv-cache-memory-bytes=$(N)",
            "?kv-cache-memory-bytes",
        ),
    ] {
        assert_eq!(read(env, args), expected, "{env:?} {args}");
    }
}

#[test]
fn a_script_that_decides_on_an_option_leaves_it_open_and_the_fraction_known() {
    let script = "EXTRA=; if [ -f /x ]; then EXTRA=--enable-lora; fi\n\
                  exec vllm serve m --gpu-memory-utilization 0.4 $EXTRA";
    let reading = reading(
        &json!({"image": "vllm/vllm-openai:v0.25.1", "command": ["bash", "-c", script]}),
        "",
    );
    assert_eq!(reading.memory.value.as_deref(), Some("0.4"));
    assert_eq!(line(&reading), "?enable-lora");
}
