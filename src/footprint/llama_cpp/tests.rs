use super::super::Answer;
use super::super::estimate::{Estimate, estimate};
use super::super::example::{
    bge_small, command_r, llama_8b, open_llama_7b, plan, qwen_30b_a3b, qwen_half_b, trilm,
};
use super::super::plan::{CacheType, Length, Plan};
use super::*;
use crate::engine::Engine;
use crate::model::{Format, Latent, Model};

const MIB: u64 = 1 << 20;

fn planned(model: &Model, mib: u64, length: u64) -> Plan<'_> {
    let mut plan = plan(model, Format::GgufQ4K, Engine::LlamaCpp, mib);
    plan.length = Length::Tokens(length);
    plan.serving.flash_attention = Some(true);
    plan.serving.text_only = true;
    plan
}

fn at(model: &Model, mib: u64, length: u64) -> Estimate {
    estimate(&planned(model, mib, length)).unwrap()
}

#[test]
fn logged_caches_come_out_exactly() {
    for (model, length, mib) in [
        (qwen_30b_a3b(), 32_768, 3_072),
        // 2048 were asked for in that log, and 512 cells printed.
        (qwen_half_b(), 512, 6),
        (bge_small(), 512, 9),
        (command_r(), 4_096, 5_120),
        (trilm(), 512, 180),
        (open_llama_7b(), 512, 256),
    ] {
        let estimate = at(&model, 49_152, length);
        assert_eq!(estimate.need.expected(), mib * MIB, "{}", model.id);
        assert_eq!(estimate.need.upper(), mib * MIB, "{}", model.id);
    }
    // What encoders cache they do not need, and newer builds do not allocate.
    assert_eq!(at(&bge_small(), 49_152, 512).need.lower(), 0);
}

#[test]
fn types_of_keys_and_values_count_by_themselves() {
    let model = llama_8b();
    let cache = |keys: &str, values: Option<&str>| {
        let mut plan = planned(&model, 49_152, 8_192);
        plan.cache_type = CacheType::parse(keys).unwrap();
        plan.serving.value_cache_dtype = values.map(str::to_owned);
        estimate(&plan).unwrap().need
    };
    let whole = 1_024 * MIB;
    assert_eq!(cache("f16", None), Interval::exactly(whole));
    // 8.5 of 16 bits.
    assert_eq!(cache("q8_0", None), Interval::exactly(whole * 17 / 32));
    assert_eq!(cache("q8_0", Some("f16")), Interval::exactly(whole * 49 / 64));
    assert_eq!(cache("f16", Some("q8_0")), Interval::exactly(whole * 49 / 64));
    let four = cache("q4_0", None);
    assert_eq!((four.lower(), four.upper()), (whole * 9 / 32, whole * 10 / 32));
    let mut plan = planned(&model, 49_152, 8_192);
    plan.serving.value_cache_dtype = Some("q9".to_owned());
    assert!(estimate(&plan).unwrap_err().reason().contains("q9"));
}

#[test]
fn the_sum_of_what_is_stated_decides() {
    // 4.6 GiB of weights, 1 of cache, 0.6 of compute and context.
    assert_eq!(at(&llama_8b(), 12_288, 8_192).answer, Answer::Fits);
    assert_eq!(at(&llama_8b(), 5_120, 8_192).answer, Answer::DoesNotFit);
    assert_eq!(at(&llama_8b(), 12_288, 131_072).answer, Answer::DoesNotFit);
    let model = llama_8b();
    let mut plan = planned(&model, 5_120, 8_192);
    plan.serving.gpu_layers = Some(16);
    assert_eq!(estimate(&plan).unwrap().answer, Answer::Fits);
    plan.serving.gpu_layers = Some(0);
    let none = estimate(&plan).unwrap();
    assert_eq!(
        (none.need, none.part("weights")),
        (Interval::ZERO, Some(Interval::ZERO))
    );
}

#[test]
fn what_is_not_stated_adapts() {
    let model = llama_8b();
    let mut plan = planned(&model, 5_120, 131_072);
    plan.adapts = true;
    let small = estimate(&plan).unwrap();
    assert_eq!(small.answer, Answer::Doubtful);
    assert!(!small.notes.is_empty());
    // A context that is not stated may be short, and one that is stated as that of the training is not.
    plan.length = Length::Declared;
    let unstated = estimate(&plan).unwrap().need;
    assert_eq!((unstated.lower(), unstated.expected()), (64 * MIB, 16_384 * MIB));
    plan.serving.trained_context = true;
    assert_eq!(estimate(&plan).unwrap().need.lower(), 16_384 * MIB);
}

#[test]
fn slots_share_the_context() {
    let model = llama_8b();
    let mut plan = planned(&model, 49_152, 8_192);
    let one = estimate(&plan).unwrap().need;
    plan.serving.max_num_seqs = Some(8);
    assert_eq!(estimate(&plan).unwrap().need, one);
    // Each slot's part is rounded up.
    plan.serving.max_num_seqs = Some(7);
    let seven = estimate(&plan).unwrap().need;
    assert_eq!(seven.expected(), one.expected());
    assert_eq!(seven.upper(), one.upper() / 32 * 35);
}

#[test]
fn local_layers_keep_a_window_or_everything() {
    let mut model = llama_8b();
    model.sliding_window = Some(1_024);
    model.full_attention_layers = Some(8);
    let mut plan = planned(&model, 49_152, 65_536);
    plan.serving.max_num_seqs = Some(1);
    let row = 4_096;
    let need = estimate(&plan).unwrap().need;
    assert_eq!(need.lower(), row * (8 * 65_536 + 24 * 1_024));
    assert_eq!(need.expected(), row * (8 * 65_536 + 24 * 1_536));
    assert_eq!(need.upper(), row * 32 * 65_536);
    plan.serving.full_length_cache = true;
    assert_eq!(estimate(&plan).unwrap().need, Interval::exactly(need.upper()));
}

#[test]
fn latent_rows_are_kept_once_or_twice() {
    let mut model = llama_8b();
    model.latent = Some(Latent {
        kv_lora_rank: 512,
        qk_rope_head_dim: 64,
        qk_nope_head_dim: Some(128),
        v_head_dim: Some(128),
        indexer: false,
    });
    let need = at(&model, 49_152, 4_096).need;
    assert_eq!(need.lower(), 32 * 576 * 2 * 4_096);
    assert_eq!(need.upper(), 32 * (576 + 512) * 2 * 4_096);
}

#[test]
fn files_that_are_no_gguf_are_not_known() {
    let model = llama_8b();
    let mut plan = planned(&model, 49_152, 8_192);
    plan.format = Format::Float16;
    assert!(estimate(&plan).unwrap_err().reason().contains("GGUF"));
}

#[test]
fn a_draft_leaves_a_doubt() {
    let model = llama_8b();
    let mut plan = planned(&model, 49_152, 8_192);
    assert_eq!(estimate(&plan).unwrap().answer, Answer::Fits);
    plan.serving.draft = Some(crate::engine::Draft {
        method: None,
        model: Some("draft.gguf".to_owned()),
        tokens: None,
    });
    assert_eq!(estimate(&plan).unwrap().answer, Answer::Doubtful);
}

#[test]
fn a_larger_device_fewer_layers_or_a_shorter_context_never_fit_less() {
    let model = llama_8b();
    for length in [512, 8_192, 131_072] {
        for layers in [1, 16, 32, 33] {
            let mut fitted = false;
            let mut refused = true;
            for mib in (512..65_536).step_by(1_024) {
                let at = |length, layers| {
                    let mut plan = planned(&model, mib, length);
                    plan.serving.gpu_layers = Some(layers);
                    estimate(&plan).unwrap()
                };
                let one = at(length, layers);
                assert!(one.answer == Answer::Fits || !fitted, "{mib} MiB");
                assert!(one.answer != Answer::DoesNotFit || refused, "{mib} MiB");
                fitted = one.answer == Answer::Fits;
                refused = one.answer == Answer::DoesNotFit;
                for more in [at(length + 1, layers), at(length, layers + 1)] {
                    assert!(more.need.lower() >= one.need.lower() && more.need.upper() >= one.need.upper());
                    assert!(more.used().upper() >= one.used().upper());
                }
            }
            assert!(fitted, "{length}, {layers}");
        }
    }
}

#[test]
fn devices_divide_what_one_cannot_hold() {
    let model = command_r();
    let one = at(&model, 22_528, 4_096);
    assert_eq!(one.answer, Answer::DoesNotFit);
    let mut plan = planned(&model, 22_528, 4_096);
    plan.devices = 2;
    let two = estimate(&plan).unwrap();
    assert_eq!(two.answer, Answer::Fits);
    assert!(two.need.lower() * 2 <= one.need.lower() && two.need.upper() * 2 > one.need.upper());
}
