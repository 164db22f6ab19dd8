use super::super::Answer;
use super::super::device::{Class, Device};
use super::super::estimate::{Estimate, estimate};
use super::super::example::{llama_8b, llama_70b, plan, qwen_30b_a3b, qwen_32b, qwen_235b};
use super::super::interval::GIB;
use super::super::plan::{Length, Plan};
use super::*;
use crate::engine::Engine;
use crate::model::{Format, Model, Recurrent};
use crate::units::{Fraction, Mib};

/// Hundredths of a GiB as a log prints them.
const fn gib(hundredths: u64) -> i128 {
    (hundredths * (GIB / 100)) as i128
}

fn start(model: &Model, format: Format, mib: u64, tensor: u32, fraction: Option<&str>) -> Estimate {
    estimate(&planned(model, format, mib, tensor, fraction)).unwrap()
}

fn planned<'a>(model: &'a Model, format: Format, mib: u64, tensor: u32, fraction: Option<&str>) -> Plan<'a> {
    let mut plan = plan(model, format, Engine::Sglang, mib);
    plan.tensor = tensor;
    plan.devices = tensor;
    plan.fraction = fraction.map(|text| Fraction::parse(text).unwrap());
    plan
}

fn holds(estimate: &Estimate, pool: i128) {
    assert!(
        estimate.pool.lower <= pool && pool <= estimate.pool.upper,
        "{pool}: {:?}",
        estimate.pool
    );
}

fn within(estimated: u64, logged: u64, hundredths: u64) {
    assert!(
        estimated.abs_diff(logged) * 100 <= logged * hundredths,
        "{estimated}, {logged}"
    );
}

#[test]
fn the_pool_of_a_stated_fraction_is_as_logged() {
    // Llama 3.1 8B on a device of 47.4 GiB at 0.85: 204,824 tokens.
    let estimate = start(&llama_8b(), Format::Float16, 48_538, 1, Some("0.85"));
    assert_eq!(estimate.row_bytes, 131_072);
    within(estimate.tokens.1, 204_824, 1);
    holds(&estimate, 204_824 * 131_072);
    // Qwen3 30B-A3B at 0.911 of 287.18 GiB free: 204.63 GiB, before a patch under test took its own part of that.
    let estimate = start(&qwen_30b_a3b(), Format::Float16, 294_482, 1, Some("0.911"));
    assert_eq!(estimate.row_bytes * 1_669_816, 164_149_592_064);
    holds(&estimate, gib(20_463));
    within(u64::try_from(estimate.pool.expected).unwrap() >> 20, 209_541, 1);
    // Qwen3 235B-A22B in 8 bits over four H100 at 0.93: 367,404 tokens in 16.46 GiB.
    let estimate = start(&qwen_235b(), Format::Fp8, 80_998, 4, Some("0.93"));
    assert_eq!(i128::from(estimate.row_bytes) * 367_404 / gib(1), 1_646);
    holds(&estimate, gib(1_646));
}

#[test]
fn the_pool_of_the_engine_s_own_fraction_lies_within() {
    // QwQ 32B over four devices with 21.63 GiB free each: 46,611 tokens in 2.84 GiB.
    let estimate = start(&qwen_32b(), Format::Float16, 23_378, 4, None);
    assert_eq!(i128::from(estimate.row_bytes) * 46_611 / gib(1), 284);
    holds(&estimate, gib(284));
    // A 70B model over eight devices of the 141 GB class: 2,795,207 tokens in 106.62 GiB.
    let estimate = start(&llama_70b(), Format::Float16, 143_155, 8, None);
    assert_eq!(i128::from(estimate.row_bytes) * 2_795_207 / gib(1), 10_662);
    holds(&estimate, gib(10_662));
    within(estimate.tokens.1, 2_795_207, 2);
}

#[test]
fn weights_and_rows_of_logged_models_come_out() {
    let catalogue = crate::model::Catalogue::embedded();
    // DeepSeek-V3 in FP4 over four B200: 94.51 GiB on each.
    let model = catalogue.get("deepseek-v3").unwrap();
    let estimate = start(model, Format::Nvfp4, 182_000, 4, None);
    let weights = estimate.part("weights").unwrap();
    let logged = u64::try_from(gib(9_451)).unwrap();
    assert!(
        weights.lower() <= logged && logged <= weights.upper(),
        "{weights:?}"
    );
    // 2,243,474 tokens of 57,344 bytes: keys and values of 59.91 GiB each.
    let model = catalogue.get("qwen2.5-7b").unwrap();
    let estimate = start(model, Format::Float16, 182_000, 1, None);
    assert_eq!(i128::from(estimate.row_bytes) * 2_243_474 / gib(1), 11_981);
}

#[test]
fn the_engine_s_own_fraction_is_as_logged() {
    let model = llama_8b();
    let usual = |mib: u64, tensor: u32| {
        fraction::of_engine(&planned(&model, Format::Float16, mib, tensor, None)).unwrap()
    };
    // (1.52 + 5.42 + 4.88) / 15.33 GiB.
    assert_eq!(usual(16_311, 1).1, 771_000);
    assert_eq!(usual(294_896, 1).1, 911_000);
    // sgl-project/sglang#29092 has 0.828 of an H100, which has 81,559 MiB, with what later releases keep beside this.
    let (low, usual_fraction, high) = usual(81_559, 1);
    assert!(low <= 828_000 && 828_000 <= high, "{low} {usual_fraction} {high}");
    // By ranks in old releases.
    for (tensor, ppm) in [
        (1, 880_000),
        (2, 870_000),
        (4, 850_000),
        (8, 810_000),
        (16, 790_000),
    ] {
        let (low, _, high) = usual(81_559, tensor);
        assert!(low <= ppm && ppm <= high, "{tensor}: {low} to {high}");
    }
    // Nothing is left of a device of 2 GiB by the newest rule, but by that of old releases there is.
    let (low, newest, high) = usual(2_048, 1);
    assert_eq!((low, newest, high), (0, 0, 880_000));
}

#[test]
fn states_share_the_pool_with_tokens() {
    // A log has 5.42 GiB of tokens beside 4.88 of states.
    let mut model = llama_8b();
    model.recurrent = Some(Recurrent {
        layers: 10,
        state_bytes: Some(1 << 20),
    });
    model.full_attention_layers = Some(6);
    let estimate = start(&model, Format::Float16, 48_538, 1, Some("0.85"));
    let tokens = 6 * 4_096 * 131_072;
    assert_eq!(estimate.need.lower(), tokens);
    assert_eq!(estimate.need.expected(), (tokens * 19_u64).div_ceil(10));
    assert_eq!(gib(488) * 1_000 / gib(542), 900);
}

#[test]
fn only_weights_that_leave_nothing_do_not_fit() {
    let model = llama_8b();
    let at = |mib: u64, tokens: u64| {
        let mut plan = planned(&model, Format::Float16, mib, 1, Some("0.9"));
        plan.length = Length::Tokens(tokens);
        estimate(&plan).unwrap()
    };
    assert_eq!(at(81_920, 32_768).answer, Answer::Fits);
    let small = at(24_576, 131_072);
    assert_eq!(small.answer, Answer::Doubtful);
    assert!(
        small
            .notes
            .iter()
            .any(|note| note.contains("refuses longer requests"))
    );
    assert_eq!(at(15_360, 1_024).answer, Answer::DoesNotFit);
}

#[test]
fn a_fraction_that_leaves_no_room_for_activations_is_doubtful() {
    let at = |fraction| {
        let model = llama_8b();
        let mut plan = planned(&model, Format::Float16, 24_576, 1, Some(fraction));
        plan.length = Length::Tokens(2_048);
        estimate(&plan).unwrap().answer
    };
    assert_eq!(at("0.85"), Answer::Fits);
    assert_eq!(at("0.99"), Answer::Doubtful);
}

#[test]
fn stated_tokens_bound_the_pool() {
    let model = llama_8b();
    let mut plan = planned(&model, Format::Float16, 81_920, 1, Some("0.85"));
    plan.length = Length::Tokens(32_768);
    plan.serving.max_total_tokens = Some(16_384);
    let estimate = estimate(&plan).unwrap();
    assert_eq!(estimate.tokens, (16_384, 16_384, 16_384));
    assert_eq!(estimate.answer, Answer::Doubtful);
}

#[test]
fn replicas_of_the_attention_span_both_readings() {
    let model = qwen_235b();
    let mut plan = planned(&model, Format::Fp8, 81_559, 8, Some("0.85"));
    let one = estimate(&plan).unwrap();
    plan.data = 8;
    let several = estimate(&plan).unwrap();
    let (one, several) = (one.used(), several.used());
    assert!(several.lower() <= one.lower() && several.upper() > one.upper());
}

#[test]
fn a_larger_device_or_a_shorter_context_never_fits_less() {
    let model = llama_8b();
    for tokens in [1_024, 8_192, 131_072] {
        let mut fitted = false;
        for mib in (8_192..262_144).step_by(4_096) {
            let at = |tokens| {
                let mut plan = planned(&model, Format::Float16, mib, 1, Some("0.85"));
                // By itself it takes larger chunks on larger devices.
                plan.serving.max_num_batched_tokens = Some(2_048);
                plan.length = Length::Tokens(tokens);
                estimate(&plan).unwrap()
            };
            let (one, longer) = (at(tokens), at(tokens + 1));
            assert!(one.answer == Answer::Fits || !fitted, "{mib} MiB, {tokens}");
            fitted = one.answer == Answer::Fits;
            assert!(longer.need.lower() >= one.need.lower() && longer.need.upper() >= one.need.upper());
        }
        assert!(fitted, "{tokens}");
    }
}

#[test]
fn an_instance_may_be_measured_as_its_gpu() {
    let model = llama_8b();
    let mut plan = planned(&model, Format::Float16, 19_968, 1, None);
    let whole = fraction::of_engine(&plan).unwrap();
    plan.device = Device::exactly(
        Mib::new(19_968),
        Class {
            mig: true,
            ..Class::default()
        },
    );
    let instance = fraction::of_engine(&plan).unwrap();
    assert!(instance.2 > whole.2 && instance.0 == whole.0);
}
