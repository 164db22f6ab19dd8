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
