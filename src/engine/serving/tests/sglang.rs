//! SGLang.

use serde_json::json;

use super::{line, reading, variables, words};

fn read(release: &str, args: &str, env: &[(&str, &str)], file: &str) -> String {
    line(&reading(
        &json!({"image": format!("lmsysorg/sglang:v{release}"), "args": words(args), "env": variables(env),
               "command": ["python3", "-m", "sglang.launch_server", "--model-path", "m"]}),
        file,
    ))
}

#[test]
fn options_are_read_by_release() {
    for (release, args, expected) in [
        ("0.5.23", "", ""),
        ("0.5.23", "--max-running-requests 32", "seqs=32"),
        ("0.5.23", "--max-running=32", "seqs=32"),
        (
            "0.5.23",
            "--chunked-prefill-size 4096",
            "tokens=4096 chunked=true",
        ),
        ("0.5.23", "--chunked-prefill-size -1", "chunked=false"),
        ("0.5.23", "--page-size 64", "block=64"),
        ("0.5.23", "--max-total-tokens 100k", "total=100000"),
        ("0.5.3.post3", "--max-total-tokens 100k", "?max-total-tokens"),
        ("0.5.3.post3", "--max-total-tokens 4096", "total=4096"),
        ("0.5.23", "--cpu-offload-gb 2", "offload=2147483648"),
        ("0.5.23", "--cpu-offload-gb 2.5", "?cpu-offload-gb"),
        ("0.5.23", "--ep 4", "ep=yes"),
        ("0.5.23", "--ep-size 1", ""),
        ("0.4.6.post5", "--enable-ep-moe", "ep=yes"),
        ("0.5.23", "--moe-a2a-backend deepep", "ep=yes"),
        ("0.5.23", "--enable-lora --max-lora-rank 32", "lora=8x32"),
        (
            "0.5.23",
            "--enable-lora --max-lora-rank 32 --max-loras-per-batch 2",
            "lora=2x32",
        ),
        ("0.5.23", "--lora-paths a=b --max-lora-rank 8", "lora=8x8"),
        ("0.5.23", "--lora-paths a=b", "?max-lora-rank"),
        ("0.5.23", "--max-lora-rank 8", ""),
        (
            "0.5.23",
            "--speculative-algorithm EAGLE3 --speculative-draft-model-path a/b --speculative-num-draft-tokens 4",
            "draft=EAGLE3/a/b/4",
        ),
        (
            "0.5.23",
            "--speculative-algo NEXTN --speculative-draft-model a/b",
            "draft=NEXTN/a/b/-",
        ),
        ("0.5.23", "--speculative-draft-model-path a/b", ""),
        ("0.5.23", "--load-format gguf", "format=gguf"),
        ("0.5.23", "--load-format auto", ""),
        ("0.5.23", "--load-format magic", "?load-format"),
        (
            "0.5.23",
            r#"--json-model-override-args={"num_hidden_layers":2}"#,
            "over=--json-model-override-args",
        ),
        ("0.5.23", "--json-model-override-args {}", ""),
        ("0.5.23", "--disable-hybrid-swa-memory", "full=yes"),
        ("0.5.23", "--language-only", "text=yes"),
        ("0.5.23", "--encoder-only", "over=--encoder-only"),
        ("0.5.23", "--max-running-requests x", "?max-running-requests"),
        ("0.5.23", "--max-running-requests 0", "?max-running-requests"),
        (
            "0.5.23",
            "--max-running-requests 1 --max-running-requests 2",
            "seqs=2",
        ),
    ] {
        assert_eq!(read(release, args, &[], ""), expected, "{release}: {args}");
    }
}

#[test]
fn variables_and_the_file_are_followed() {
    let secret = &[("N", "secret:n")];
    for (args, expected) in [
        ("--max-running-requests=$(N)", "?max-running-requests"),
        (
            "--speculative-algorithm=$(N)",
            "draft=-/-/- ?speculative-algorithm",
        ),
        ("--page-size $(N)", "?page-size"),
    ] {
        assert_eq!(read("0.5.23", args, secret, ""), expected, "{args}");
    }
    let file = "max-running-requests: 16\npage-size: 32\n";
    assert_eq!(
        read("0.5.23", "--config /files/f.yaml", &[], file),
        "seqs=16 block=32"
    );
    assert_eq!(
        read("0.5.23", "--config /files/f.yaml --page-size 1", &[], file),
        "seqs=16 block=1"
    );
    let own = json!({"image": "lmsysorg/sglang:v0.5.23-sagemaker",
                     "env": variables(&[("SM_SGLANG_PAGE_SIZE", "64"), ("SM_SGLANG_MAX_RUNNING_REQUESTS", "8")])});
    assert_eq!(line(&reading(&own, "")), "seqs=8 block=64");
}
