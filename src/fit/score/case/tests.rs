use super::*;

const CASE: &str = "
cases:
- id: a
  engine: vllm
  model: Qwen/Qwen3-8B
  quantisation: none
  gpu: {product: L4, total_gib: 22.03, count: 1}
  args: {max_model_len: 4096, gpu_memory_utilization: 0.92, enforce_eager: true, speculative: mtp3}
  measured: {weights_gib: 15.27, cuda_graph_gib: -0.9}
  outcome: ok
";

fn error(from: &str, to: &str) -> String {
    assert!(CASE.contains(from));
    read(&CASE.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn a_case_is_written_as_a_command_line() {
    let cases = read(CASE).unwrap();
    assert_eq!(cases[0].device(), ("L4=22559".to_owned(), true));
    assert_eq!(
        cases[0].arguments(Engine::Vllm).unwrap(),
        [
            "--enforce-eager",
            "--gpu-memory-utilization",
            "0.92",
            "--max-model-len",
            "4096",
            "--speculative-config",
            r#"{"method":"mtp","num_speculative_tokens":3}"#,
        ]
    );
    assert!(
        cases[0]
            .arguments(Engine::Sglang)
            .unwrap_err()
            .contains("args.enforce_eager")
    );
}

#[test]
fn what_cannot_be_used_is_named() {
    assert!(error("outcome: ok", "outcome: fine").contains("cases[0] (a): outcome: \"fine\""));
    assert!(error("total_gib: 22.03", "total_gib: -1").contains("gpu.total_gib"));
    assert!(error("total_gib: 22.03", "total_gib: .nan").contains("gpu.total_gib"));
    assert!(error("weights_gib: 15.27", "weights_gib: .inf").contains("measured.weights_gib"));
    assert!(error("  quantisation: none\n", "").contains("quantisation"));
    assert!(error("  engine: vllm\n", "  engine: vllm\n  engin: x\n").contains("engin"));
    assert!(read("").is_err());
    assert!(read("cases: 5").is_err());
}

#[test]
fn outcomes_tell_lack_of_memory_from_other_failures() {
    let of = |text: &str| {
        let case = CASE.replace("outcome: ok", &format!("outcome: {text}"));
        read(&case).unwrap()[0].outcome().unwrap()
    };
    assert_eq!(of("ok"), Outcome::Ran);
    assert_eq!(of("ok_but_oom_at_runtime"), Outcome::Failed);
    assert_eq!(of("fail_no_kv_memory"), Outcome::Failed);
    assert_eq!(of("fail_cuda_oom_profiling"), Outcome::Failed);
    assert_eq!(of("fail_warmup_crash"), Outcome::OtherFailure);
    assert_eq!(of("fail_unspecified"), Outcome::OtherFailure);
}

#[test]
fn methods_of_drafting_cannot_write_into_their_configuration() {
    for text in ["", "3", "m\",\"x\":\"y", "mtp99999999999"] {
        assert!(speculative(&Value::String(text.to_owned())).is_err(), "{text:?}");
    }
}
