use super::*;
use crate::model::Format;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Asks about a model on a device with arguments of vLLM.
fn asked(model: &str, device: &str, releases: &str, arguments: &str) -> Fitting {
    let named = Named::parse(Products::embedded(), device).unwrap();
    ask(&Question {
        catalogue: Catalogue::embedded(),
        products: Products::embedded(),
        model: Some(model),
        quantization: None,
        device: &named,
        devices: None,
        engine: Engine::Vllm,
        releases: Releases::parse(releases).unwrap(),
        arguments: &words(arguments),
    })
    .unwrap()
}

#[test]
fn more_memory_a_shorter_context_and_fewer_bits_never_make_it_worse() {
    let rank = |fitting: &Fitting| match fitting.verdict {
        Verdict::DoesNotFit => 0,
        Verdict::Doubtful => 1,
        Verdict::Fits => 2,
        Verdict::Unknown => panic!("{}", fitting.reason),
    };
    for model in ["Qwen/Qwen3-8B", "google/gemma-3-27b-it", "openai/gpt-oss-20b"] {
        let mut last = 0;
        for total in (4_000..90_000).step_by(4_000) {
            // With sizes of its own, since from 70 GiB on the engine takes larger ones.
            let arguments = "--max-model-len 8192 --max-num-seqs 256 --max-num-batched-tokens 4096";
            let now = rank(&asked(model, &total.to_string(), "0.11.0", arguments));
            assert!(now >= last, "{model} on {total}");
            last = now;
        }
        assert_eq!(last, 2, "{model}");
        let mut last = 2;
        for length in [1_024, 4_096, 16_384, 65_536, 262_144] {
            let now = rank(&asked(
                model,
                "24000",
                "0.11.0",
                &format!("--max-model-len {length}"),
            ));
            assert!(now <= last, "{model} with {length}");
            last = now;
        }
    }
    assert_eq!(
        asked("Qwen/Qwen3-8B", "16000", "0.11.0", "").verdict,
        Verdict::DoesNotFit
    );
    assert_eq!(
        asked("Qwen/Qwen3-8B-AWQ", "16000", "0.11.0", "").verdict,
        Verdict::Fits
    );
}

#[test]
fn what_fits_in_an_unknown_release_is_refused_by_none_that_is_possible() {
    // The default fraction is 0.9 until 0.19 and 0.92 since.
    for model in [
        "Qwen/Qwen3-8B",
        "meta-llama/Llama-3.1-8B-Instruct",
        "google/gemma-3-4b-it",
    ] {
        for total in (14_000..30_000).step_by(250) {
            let total = total.to_string();
            let answer = |release: &str| asked(model, &total, release, "--max-model-len 8192").verdict;
            if answer("2026") == Verdict::Fits {
                for release in ["0.11.0", "0.19.0", "0.24.0"] {
                    assert_ne!(
                        answer(release),
                        Verdict::DoesNotFit,
                        "{model} on {total} with {release}"
                    );
                }
            }
            if answer("0.11+") == Verdict::Fits {
                assert_eq!(answer("0.19-0.20"), Verdict::Fits, "{model} on {total}");
            }
        }
    }
    let pool = |release: &str| {
        let figures = asked("Qwen/Qwen3-8B", "h100-80gb-sxm", release, "--max-model-len 8192").figures;
        figures.unwrap().estimate.pool
    };
    let (old, open, new) = (pool("0.19.0"), pool("0.19-0.20"), pool("0.20.0"));
    assert!(
        open.lower <= old.lower && open.upper >= new.upper,
        "{old:?} {open:?} {new:?}"
    );
    // A stated fraction is the same in every release.
    let stated = |release: &str| {
        let arguments = "--max-model-len 8192 --gpu-memory-utilization 0.92";
        asked("Qwen/Qwen3-8B", "h100-80gb-sxm", release, arguments)
            .figures
            .unwrap()
            .estimate
            .pool
    };
    assert!(stated("0.19-0.20").lower > open.lower);
}

#[test]
fn a_context_that_the_engine_chooses_needs_one_block() {
    let auto = asked("Qwen/Qwen3-8B", "l4", "0.14.0", "--max-model-len -1");
    assert_eq!(auto.verdict, Verdict::Fits, "{}", auto.reason);
    assert!(
        auto.reason.starts_with("one request of 16 tokens needs 3 MiB"),
        "{}",
        auto.reason
    );
    assert!(auto.notes.iter().any(|note| note.contains("what the pool holds")));
    // No request of the declared context fits, and it is not said that thousands do.
    assert_eq!(auto.figures.unwrap().sequences, (0, 0, 0));
}

#[test]
fn a_stated_pool_that_is_not_there_is_the_reason() {
    let arguments = "--max-model-len 8192 --kv-cache-memory-bytes 12G";
    let fitting = asked("Qwen/Qwen3-8B", "rtx-4090", "0.11.0", arguments);
    assert_eq!(fitting.verdict, Verdict::DoesNotFit);
    assert!(
        fitting
            .reason
            .starts_with("the arguments state a KV cache of 12288 MiB, and beside everything else at most"),
        "{}",
        fitting.reason
    );
}

#[test]
fn sizes_and_contexts_that_the_engine_refuses_of_the_model_are_told() {
    let told = |arguments: &str, part: &str| {
        let notes = asked("Qwen/Qwen3-8B", "h200", "0.11.0", arguments).notes;
        notes.iter().any(|note| note.contains(part))
    };
    assert!(told(
        "-tp 3",
        "32 attention heads cannot be divided by the tensor parallel size 3"
    ));
    assert!(!told("-tp 4", "cannot be divided"));
    assert!(told(
        "--max-model-len 40961",
        "declares a context of 40960 tokens and 40961 are asked for"
    ));
    assert!(!told("--max-model-len 40960", "declares a context"));
}

#[test]
fn a_packing_that_only_the_checkpoint_tells_is_unknown_not_sixteen_bits() {
    for method in ["compressed-tensors", "torchao", "quark", "moe_wna16"] {
        let arguments = format!("--quantization {method} --max-model-len 4096");
        let fitting = asked(
            "/models/Llama-3.1-70B-Instruct",
            "h100-80gb-sxm",
            "0.11.0",
            &arguments,
        );
        assert_eq!(fitting.verdict, Verdict::Unknown, "{method}: {}", fitting.reason);
        assert!(
            fitting.reason.contains("give its format with --quantization"),
            "{}",
            fitting.reason
        );
        // The name tells it.
        let named = asked(
            "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8",
            "h200",
            "0.11.0",
            &arguments,
        );
        assert_eq!(named.model.format, Some(Format::Fp8), "{method}");
        assert_eq!(named.verdict, Verdict::Fits, "{method}: {}", named.reason);
    }
}

#[test]
fn mxfp4_packs_all_of_a_model_without_experts() {
    let dense = asked(
        "amd/Llama-3.3-70B-Instruct-MXFP4",
        "h100-80gb-sxm",
        "0.24.0",
        "--max-model-len 4096",
    );
    assert_eq!(dense.model.format, Some(Format::Mxfp4));
    let gib = dense.figures.unwrap().weights().expected() >> 30;
    // 68.5 G parameters of layers at 4.25 bits, and 2.1 G of embedding and output at 16.
    assert!((36..40).contains(&gib), "{gib} GiB");
}

#[test]
fn ranks_in_a_pipeline_have_a_communicator_too() {
    let outside = |arguments: &str| {
        let fitting = asked("Qwen/Qwen3-8B", "l4", "0.24.0", arguments);
        fitting.figures.unwrap().estimate.outside
    };
    assert_eq!(outside("-pp 2"), outside("-tp 2"));
    assert_ne!(outside("-pp 2"), outside(""));
}

#[test]
fn a_release_is_read_as_the_newest_that_is_possible() {
    let read = |text: &str| version(&Releases::parse(text).unwrap()).map(|version| version.to_string());
    assert_eq!(read("0.11.2").as_deref(), Some("0.11.2"));
    assert_eq!(read("0.7.x (V0)").as_deref(), Some("0.7.0"));
    assert_eq!(read("0.11-0.12").as_deref(), Some("0.12.0"));
    assert_eq!(read("0.10.2-0.11.1").as_deref(), Some("0.11.1"));
    assert_eq!(read("0.21+"), None);
    assert_eq!(read("2025-08"), None);
    // Its default fraction is that of the newest as well.
    let fraction = |text: &str| asked("Qwen/Qwen3-8B", "24000", text, "").reading.memory.value;
    assert_eq!(fraction("0.19").as_deref(), Some("0.9"));
    assert_eq!(fraction("0.19-0.20").as_deref(), Some("0.92"));
    // Bounds still are those of every release that is possible.
    let fitting = asked("Qwen/Qwen3-8B", "24000", "0.19-0.22", "");
    let graphs = fitting.figures.unwrap().estimate.part("graphs").unwrap();
    assert_eq!(graphs.lower(), 0);
    assert!(graphs.upper() > 0);
}

#[test]
fn the_format_is_what_is_stated_then_the_name_then_the_arguments() {
    let format = |model: &str, arguments: &str| {
        let fitting = asked(model, "80000", "0.11.0", arguments);
        (fitting.model.format, fitting.notes)
    };
    assert_eq!(format("Qwen/Qwen3-8B", "").0, Some(Format::Float16));
    assert_eq!(format("Qwen/Qwen3-8B-AWQ", "").0, Some(Format::Awq4));
    assert_eq!(format("Qwen/Qwen3-8B", "--quantization fp8").0, Some(Format::Fp8));
    assert_eq!(
        format("Qwen/Qwen3-8B", "--load-format bitsandbytes").0,
        Some(Format::Bnb4)
    );
    assert_eq!(format("deepseek-ai/DeepSeek-V3", "").0, Some(Format::Fp8));
    assert_eq!(
        format(
            "RedHatAI/Qwen3-8B-quantized.w4a16",
            "--quantization compressed-tensors"
        )
        .0,
        Some(Format::W4a16)
    );
    let (told, notes) = format("Qwen/Qwen3-8B-AWQ", "--quantization fp8");
    assert_eq!(told, Some(Format::Awq4));
    assert!(
        notes[0].contains("although the arguments say \"fp8\""),
        "{notes:?}"
    );
    let fitting = asked("Qwen/Qwen3-8B", "80000", "0.6.0", "--quantization aqlm");
    assert_eq!(fitting.verdict, Verdict::Unknown);
    assert!(fitting.reason.contains("how many bits"), "{}", fitting.reason);
}

#[test]
fn a_context_of_its_own_belongs_to_a_published_name() {
    let length = |model: &str| {
        asked(model, "80000", "0.11.0", "")
            .figures
            .unwrap()
            .estimate
            .length
    };
    assert_eq!(length("meta-llama/Llama-2-7b-hf"), 4_096);
    assert_eq!(length("huggyllama/llama-7b"), 2_048);
}

#[test]
fn ranks_over_mig_instances_are_told() {
    let fitting = asked("Qwen/Qwen3-8B", "3g.40gb@a100-80gb", "0.11.0", "-tp 2");
    assert!(fitting.notes.iter().any(|note| note.starts_with("VG303: ")));
    assert_eq!(fitting.figures.unwrap().smallest_profile, None);
}
