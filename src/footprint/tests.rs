use proptest::prelude::*;

use super::interval::GIB;
use super::inverse::{self, Surely};
use super::shape::{Parts, loaded};
use super::*;
use crate::engine::{Engine, Releases, read_arguments};
use crate::model::name::{Found, find};
use crate::model::{Catalogue, Confidence, Dtype, Experts, Format, Kind, Latent, Model, Recurrent};
use crate::units::{Fraction, Mib};

fn model(name: &str) -> &'static Model {
    match find(Catalogue::embedded(), name) {
        Found::Known { model, .. } => model,
        Found::Unknown { reason, nearest } => panic!("{name}: {reason}, {nearest:?}"),
    }
}

/// A plan from a model, a release, a device in MiB and vLLM's arguments.
fn plan_on(name: &str, release: &str, device: Device, arguments: &str) -> Plan<'static> {
    let Found::Known {
        model,
        format,
        positions,
        ..
    } = find(Catalogue::embedded(), name)
    else {
        panic!("{name} is not known");
    };
    let releases = Releases::parse(release).unwrap();
    let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
    let reading = read_arguments(Engine::Vllm, releases.known(), Some(name), &arguments).unwrap();
    let mut plan = Plan::of(&reading, model, format.unwrap_or(Format::Float16), device).unwrap();
    plan.releases = releases;
    plan.positions = positions;
    plan
}

fn h100(mib: u64) -> Device {
    Device::exactly(Mib::new(mib), Class::of("H100", Some("hopper")))
}

fn plan(name: &str, release: &str, arguments: &str) -> Plan<'static> {
    plan_on(name, release, h100(81_080), arguments)
}

/// Hundredths of a GiB, rounded.
fn centi(bytes: u64) -> u64 {
    (bytes * 100 + GIB / 2) / GIB
}

#[test]
fn need_is_what_start_up_messages_print() {
    // "… GiB KV cache is needed, which is larger than the available KV cache memory": what vLLM said it needs.
    for (name, release, arguments, needed) in [
        ("Qwen/Qwen3-30B-A3B", "0.10.0", "--max-model-len 262144", 2_400),
        ("Qwen/Qwen3-8B", "0.10.0", "--max-model-len 40960", 563),
        (
            "Qwen/Qwen2.5-32B-Instruct",
            "0.10.0",
            "--max-model-len 32768",
            800,
        ),
        (
            "mistralai/Devstral-Small-2-24B",
            "0.20.0",
            "--max-model-len 393216",
            6_000,
        ),
        (
            "mistralai/Mistral-Small-4-119B-2603",
            "0.20.0",
            "--max-model-len 1048576",
            2_250,
        ),
        (
            "meta-llama/Llama-3.3-70B-Instruct",
            "0.10.0",
            "--max-model-len 131072 -tp 8",
            500,
        ),
    ] {
        let estimate = estimate(&plan(name, release, arguments)).unwrap();
        assert_eq!(centi(estimate.need.expected()), needed, "{name}");
        assert_eq!(estimate.need.lower(), estimate.need.upper(), "{name}");
    }
    // Chunked layers were counted in full, because the hybrid manager is off for them by default.
    let scout = plan(
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        "0.10.0",
        "--max-model-len 1048576 -tp 8",
    );
    assert_eq!(centi(estimate(&scout).unwrap().need.upper()), 2_400);
}

#[test]
fn rows_of_the_cache_follow_heads_and_types() {
    let row = |name: &str, arguments: &str| estimate(&plan(name, "0.11.0", arguments)).unwrap().row_bytes;
    // Logged bytes of a token on one device.
    assert_eq!(row("deepseek-ai/DeepSeek-V3", "-tp 8"), 70_272);
    assert_eq!(row("deepseek-ai/DeepSeek-V3", "-tp 16"), 70_272);
    assert_eq!(row("Qwen/Qwen2.5-7B-Instruct", ""), 57_344);
    assert_eq!(row("Qwen/Qwen2.5-7B-Instruct", "-tp 4"), 14_336);
    // More ranks than heads: each keeps one, and the cache no longer shrinks.
    assert_eq!(row("Qwen/Qwen2.5-7B-Instruct", "-tp 8"), 14_336);
    assert_eq!(row("Qwen/Qwen2.5-7B-Instruct", "--kv-cache-dtype fp8"), 28_672);
    assert_eq!(row("meta-llama/Llama-3.1-70B-Instruct", "-pp 2"), 163_840);
}

#[test]
fn layers_of_other_kinds_need_their_own_length() {
    let need = |release: &str, arguments: &str| {
        estimate(&plan("google/gemma-3-27b-it", release, arguments))
            .unwrap()
            .need
    };
    let hybrid = need("0.11.0", "--max-model-len 131072");
    // Ten layers in full, 52 of them a window and a batch long.
    let full = 10 * 2 * 16 * 128 * 2 * 131_072;
    assert!(hybrid.lower() > full && hybrid.lower() < full + full / 2);
    // "Add 8 padding layers": 62 in groups of ten are 70.
    let window = 1_023 + 8_192 + 1;
    let padded = full + 60 * 2 * 16 * 128 * 2 * (window + 16);
    assert!(hybrid.expected().abs_diff(padded) < padded / 100, "{hybrid:?}");
    // The old core, and the manager switched off, keep everything.
    let all = 62 * 2 * 16 * 128 * 2 * 131_072;
    assert_eq!(need("0.7.0 (V0)", "--max-model-len 131072").lower(), all);
    let off = need(
        "0.11.0",
        "--max-model-len 131072 --disable-hybrid-kv-cache-manager",
    );
    assert_eq!(off.lower(), all);
}

#[test]
fn weights_are_those_of_the_logs() {
    // Measured GiB of weights for each device, in hundredths, and how far the expectation may be off, in thousandths.
    for (name, arguments, measured, thousandths) in [
        ("meta-llama/Llama-3.1-8B-Instruct", "", 1_499, 5),
        ("meta-llama/Llama-2-7b-hf", "", 1_255, 5),
        ("Qwen/Qwen3-32B", "-tp 2", 3_059, 5),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "", 6_772, 5),
        (
            "neuralmagic/Meta-Llama-3.1-70B-Instruct-quantized.w8a8",
            "",
            6_772,
            5,
        ),
        ("meta-llama/Meta-Llama-3.1-405B-Instruct-FP8", "-tp 8", 5_775, 10),
        ("MiniMaxAI/MiniMax-M2.5", "-tp 4", 5_375, 5),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "-tp 4", 5_519, 5),
        ("deepseek-ai/DeepSeek-R1", "-tp 8", 7_974, 10),
        ("openai/gpt-oss-20b", "", 1_372, 20),
        ("openai/gpt-oss-120b", "", 6_438, 20),
        ("Qwen/Qwen3-8B-AWQ", "", 571, 10),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "", 527, 20),
        ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "", 4_476, 5),
        ("facebook/opt-125m", "", 24, 45),
        ("google/gemma-4-26B-A4B-it", "", 4_850, 10),
    ] {
        let weights = estimate(&plan(name, "0.11.0", arguments))
            .unwrap()
            .part("weights")
            .unwrap();
        let off = centi(weights.expected()).abs_diff(measured);
        assert!(off * 1_000 <= measured * thousandths, "{name}: {weights:?}");
    }
}

#[test]
fn the_peak_of_old_releases_is_that_of_the_sampler() {
    for (name, arguments, measured) in [
        ("meta-llama/Llama-3.1-8B-Instruct", "", 476),
        ("Qwen/Qwen3-32B", "", 564),
        ("Qwen/Qwen3-32B", "-tp 2", 564),
        ("openai/gpt-oss-20b", "", 738),
        (
            "Qwen/Qwen2.5-7B-Instruct",
            "--max-num-seqs 256 --max-num-batched-tokens 2048",
            140,
        ),
    ] {
        let peak = estimate(&plan(name, "0.11.0", arguments))
            .unwrap()
            .part("activation")
            .unwrap();
        assert!(
            centi(peak.expected()).abs_diff(measured) * 100 <= measured * 3,
            "{name}: {peak:?}"
        );
        assert!(peak.lower() < peak.expected() && peak.expected() < peak.upper());
    }
    // Without chunks the whole context is one pass: 4.35 GiB were measured.
    let v100 = Device::exactly(Mib::new(32_502), Class::of("V100 32GB", None));
    let plan = plan_on(
        "Qwen/Qwen2.5-7B-Instruct",
        "0.8.5 (V0)",
        v100,
        "--max-model-len 32768 --dtype float16",
    );
    let peak = estimate(&plan).unwrap().part("activation").unwrap();
    assert!(centi(peak.lower()) < 460 && centi(peak.upper()) > 435, "{peak:?}");
}

#[test]
fn a_stated_cache_replaces_the_fraction() {
    let stated = plan(
        "Qwen/Qwen3-8B",
        "0.20.0",
        "--max-model-len 8192 --kv-cache-memory-bytes 2G --gpu-memory-utilization 0.1",
    );
    let found = estimate(&stated).unwrap();
    assert_eq!(found.answer, Answer::Fits);
    assert_eq!(found.pool.expected, i128::from(2 * GIB));
    let short = plan(
        "Qwen/Qwen3-8B",
        "0.20.0",
        "--max-model-len 40960 --kv-cache-memory-bytes 2G",
    );
    assert_eq!(estimate(&short).unwrap().answer, Answer::DoesNotFit);
    // More than the device has is not there, whatever was stated.
    let large = plan("Qwen/Qwen3-8B", "0.20.0", "--kv-cache-memory-bytes 90G");
    assert!(estimate(&large).unwrap().pool.upper < i128::from(66 * GIB));
}

#[test]
fn offload_adapters_and_drafts_move_the_weights() {
    let used = |arguments: &str| {
        estimate(&plan("meta-llama/Llama-3.1-8B-Instruct", "0.20.0", arguments))
            .unwrap()
            .used()
            .expected()
    };
    let plain = used("");
    assert_eq!(plain - used("--cpu-offload-gb 4"), 4 * GIB);
    let adapters = used("--enable-lora --max-loras 4 --max-lora-rank 64") - plain;
    // 32 layers of seven matrices: about 2.6 million parameters for each unit of rank and adapter.
    assert!((GIB / 2..3 * GIB / 2).contains(&adapters), "{adapters}");
    let head = used("--speculative-config {\"method\":\"eagle3\",\"num_speculative_tokens\":2}");
    assert!(head > plain);
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let reading = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        read_arguments(Engine::Vllm, None, Some("Qwen/Qwen3-8B"), &arguments).unwrap()
    };
    let known = model("Qwen/Qwen3-8B");
    let refused = |arguments: &[&str]| {
        Plan::of(&reading(arguments), known, Format::Float16, h100(81_080))
            .and_then(|plan| estimate(&plan))
            .unwrap_err()
            .to_string()
    };
    assert!(refused(&["--hf-overrides", "{\"num_hidden_layers\": 4}"]).contains("--hf-overrides"));
    assert!(refused(&["--kv-cache-dtype", "fp7"]).contains("fp7"));
    assert!(refused(&["--gpu-memory-utilization", "1.5"]).contains("fraction"));
}

#[test]
fn inverse_answers_are_the_borders_of_the_forward_one() {
    let plan = plan(
        "Qwen/Qwen3-8B",
        "0.20.0",
        "--max-model-len 16384 --max-num-seqs 64",
    );
    for surely in [Surely::Fits, Surely::MayFit] {
        let smallest = inverse::smallest_fraction(&plan, surely).unwrap();
        let answer = |ppm: u32| {
            let mut plan = plan.clone();
            plan.fraction = Fraction::from_ppm(ppm);
            estimate(&plan).unwrap().answer
        };
        let fits = |ppm: u32| match surely {
            Surely::Fits => answer(ppm) == Answer::Fits,
            Surely::MayFit => answer(ppm) != Answer::DoesNotFit,
        };
        assert!(
            fits(smallest.ppm()) && !fits(smallest.ppm() - 1_000),
            "{surely:?}"
        );
        let longest = inverse::longest(&plan, surely).unwrap();
        assert_eq!(longest, 40_960, "{surely:?}: all that the model declares");
    }
    let tight = plan_on(
        "Qwen/Qwen3-8B",
        "0.20.0",
        h100(24_000),
        "--max-model-len 40960 --max-num-seqs 64",
    );
    let longest = inverse::longest(&tight, Surely::Fits).unwrap();
    let answer = |length: u64| {
        let mut plan = tight.clone();
        plan.length = Length::Tokens(length);
        estimate(&plan).unwrap().answer
    };
    assert!(longest.is_multiple_of(16) && longest < 40_960);
    assert_eq!(answer(longest), Answer::Fits);
    assert_ne!(answer(longest + 16), Answer::Fits);
    assert_eq!(
        inverse::smallest_fraction(&plan_on("Qwen/Qwen3-8B", "0.20.0", h100(8_000), ""), Surely::Fits),
        None
    );
}

#[test]
fn the_smallest_slice_and_the_smallest_gpu_are_named() {
    let catalogue = crate::device::catalogue::Catalogue::embedded();
    let h100 = catalogue.product("NVIDIA-H100-80GB-HBM3").unwrap();
    let plan = plan(
        "Llama-2-13b-chat-hf-FP8",
        "0.20.0",
        "--max-model-len 2048 --max-num-seqs 16",
    );
    let profile = inverse::smallest_profile(&plan, h100, Surely::Fits).unwrap();
    assert_eq!(profile.name, "1g.20gb");
    let product = inverse::smallest_product(&plan, catalogue.products(), Surely::Fits).unwrap();
    assert!(product.lowest_memory() < Mib::new(25_000) && product.lowest_memory() > Mib::new(14_000));
}

fn models() -> impl Strategy<Value = Model> {
    let size = || prop_oneof![0_u32..300, Just(u32::MAX), any::<u32>()];
    let some = |strategy: BoxedStrategy<u32>| proptest::option::of(strategy);
    let shape = (
        size(),
        size(),
        size(),
        size(),
        some(size().boxed()),
        some(size().boxed()),
    );
    let other = (
        some(size().boxed()),
        some(size().boxed()),
        some(size().boxed()),
        some(size().boxed()),
        some(size().boxed()),
        any::<u64>(),
    );
    let kinds = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<u64>(),
        size(),
    );
    (shape, other, kinds).prop_map(|(shape, other, kinds)| Model {
        id: "any".to_owned(),
        names: Vec::new(),
        kind: if kinds.0 { Kind::Decoder } else { Kind::Encoder },
        architecture: kinds.1.then(|| "NemotronHForCausalLM".to_owned()),
        parameters: other.5,
        draft_parameters: kinds.2.then_some(other.5),
        num_hidden_layers: shape.0,
        hidden_size: shape.1,
        num_attention_heads: shape.2,
        num_key_value_heads: shape.3,
        head_dim: shape.4,
        intermediate_size: shape.5,
        vocab_size: other.0,
        max_position_embeddings: kinds.4,
        torch_dtype: Dtype::Bfloat16,
        tie_word_embeddings: Some(kinds.2),
        experts: kinds.2.then_some(Experts {
            count: kinds.5,
            active: kinds.5,
            shared: kinds.5,
            intermediate_size: kinds.5,
            first_dense: kinds.5,
            every: 0,
        }),
        latent: kinds.3.then_some(Latent {
            kv_lora_rank: kinds.5,
            qk_rope_head_dim: kinds.5,
            qk_nope_head_dim: None,
            v_head_dim: Some(kinds.5),
            indexer: true,
        }),
        full_attention_layers: other.1,
        attention_layers: other.2,
        sliding_window: other.3,
        attention_chunk_size: None,
        global_head_dim: other.4,
        num_global_key_value_heads: other.4,
        num_kv_shared_layers: other.4,
        recurrent: kinds.2.then_some(Recurrent {
            layers: kinds.5,
            state_bytes: Some(other.5),
        }),
        tower: kinds.2,
        released: None,
        checkpoint_bytes: None,
        variants: Vec::new(),
        kv_bytes_per_token: kinds.1.then_some(other.5),
        publications: std::collections::BTreeMap::new(),
        source: String::new(),
        confidence: Confidence::Unverified,
        note: None,
    })
}

proptest! {
    #[test]
    fn any_shape_has_an_estimate(
        model in models(),
        format in proptest::sample::select(&Format::ALL[..]),
        total in any::<u64>(),
        tensor in 1_u32..4_096,
        pipeline in 1_u32..4_096,
        length in proptest::option::of(1_u64..1 << 40),
    ) {
        let mut plan = plan("Qwen/Qwen3-8B", "0.20.0", "--max-num-seqs 1099511627776 --max-num-batched-tokens 1099511627776");
        plan.model = &model;
        plan.positions = model.max_position_embeddings;
        plan.format = format;
        plan.device = Device::exactly(Mib::new(total), Class::default());
        plan.tensor = tensor;
        plan.pipeline = pipeline;
        plan.length = length.map_or(Length::Declared, Length::Tokens);
        let estimate = estimate(&plan).unwrap();
        for part in &estimate.parts {
            prop_assert!(part.bytes.lower() <= part.bytes.expected() && part.bytes.expected() <= part.bytes.upper());
        }
        prop_assert!(estimate.pool.lower <= estimate.pool.expected && estimate.pool.expected <= estimate.pool.upper);
    }

    #[test]
    fn more_room_never_makes_it_worse(
        index in 0_usize..1_000,
        format in proptest::sample::select(&Format::ALL[..]),
        total in 4_000_u64..200_000,
        more in 0_u64..100_000,
        ppm in 1_u32..=1_000,
        length in 1_u64..1 << 20,
        longer in 0_u64..1 << 20,
        release in proptest::sample::select(&["0.7.3 (V0)", "0.8.5", "0.11.0", "0.19.0", "0.21.0", "0.27.1", "2025-08"][..]),
    ) {
        let rank = |answer: Answer| match answer {
            Answer::DoesNotFit => 0,
            Answer::Doubtful => 1,
            Answer::Fits => 2,
        };
        let catalogue = Catalogue::embedded();
        let model = catalogue.iter().nth(index % catalogue.len()).unwrap();
        let mut plan = plan("Qwen/Qwen3-8B", release, "");
        plan.model = model;
        plan.positions = model.max_position_embeddings;
        plan.format = format;
        plan.fraction = Fraction::from_ppm(ppm * 1_000);
        plan.length = Length::Tokens(length);
        plan.serving.max_num_seqs = Some(64);
        plan.serving.max_num_batched_tokens = Some(2_048);
        let class = Class::of("L40S", Some("ada-lovelace"));
        let on = |total: u64| Device::exactly(Mib::new(total), class);
        plan.device = on(total);
        let small = estimate(&plan).unwrap();
        plan.device = on(total + more);
        let large = estimate(&plan).unwrap();
        // Releases with a peak that is certain from 20 GiB on know more there, never less; the fit itself is monotone.
        if (total < 20 * 1_024) == (total + more < 20 * 1_024) {
            prop_assert!(rank(large.answer) >= rank(small.answer), "{} {:?} {:?}", model.id, small, large);
        }
        plan.length = Length::Tokens(length + longer);
        let long = estimate(&plan).unwrap();
        prop_assert!(long.need.lower() >= large.need.lower() && long.need.upper() >= large.need.upper());
        prop_assert!(rank(long.answer) <= rank(large.answer), "{} {:?} {:?}", model.id, large, long);
    }

    #[test]
    fn more_ranks_never_hold_more(
        index in 0_usize..1_000,
        format in proptest::sample::select(&Format::ALL[..]),
        power in 0_u32..5,
    ) {
        let catalogue = Catalogue::embedded();
        let model = catalogue.iter().nth(index % catalogue.len()).unwrap();
        let mut plan = plan("Qwen/Qwen3-8B", "0.20.0", "");
        plan.model = model;
        plan.format = format;
        plan.tensor = 1 << power;
        let few = estimate(&plan).unwrap();
        plan.tensor = 2 << power;
        let many = estimate(&plan).unwrap();
        let weights = |estimate: &Estimate| estimate.part("weights").unwrap();
        // A percent for buffers of several ranks.
        prop_assert!(weights(&many).lower() <= weights(&few).lower() + weights(&few).lower() / 50, "{}", model.id);
        prop_assert!(many.need.lower() <= few.need.lower());
        prop_assert!(many.row_bytes <= few.row_bytes);
    }
}

/// The layer for drafts that a checkpoint has beside the model is not loaded, and not a rest that every rank holds whole:
/// GLM-4.5-Air in 8 bits on two ranks was taken for 57.1 GiB each instead of 50.5.
#[test]
fn what_the_shape_of_a_large_text_model_does_not_explain_is_small() {
    let mut looked_at = 0;
    let mut unexplained = Vec::new();
    for model in Catalogue::embedded().iter() {
        let parts = Parts::of(model);
        let plain = !model.tower && model.recurrent.is_none() && parts.explained;
        if !plain || loaded(model) < 20_000_000_000 {
            continue;
        }
        looked_at += 1;
        if parts.rest > loaded(model) / 100 {
            unexplained.push(format!("{}: {} of {}", model.id, parts.rest, loaded(model)));
        }
    }
    assert_eq!(unexplained, Vec::<String>::new());
    assert!(looked_at > 20, "{looked_at}");
}
