//! What holds of every engine: from its arguments to an answer, and with every model of the catalogue.

use super::estimate::{Estimate, estimate};
use super::inverse::{self, Surely};
use super::{Answer, Class, Device, Length, Plan};
use crate::engine::{Engine, read_arguments};
use crate::model::{Catalogue, Format};
use crate::units::{Fraction, Mib};

const ENGINES: [Engine; 7] = [
    Engine::Vllm,
    Engine::Sglang,
    Engine::LlamaCpp,
    Engine::Tgi,
    Engine::Tei,
    Engine::TensorRtLlm,
    Engine::Lmdeploy,
];

/// The formats that engines load: the usual one, and the one that llama.cpp has.
fn format_of(engine: Engine) -> Format {
    if engine == Engine::LlamaCpp {
        Format::GgufQ4K
    } else {
        Format::Float16
    }
}

fn planned(engine: Engine, id: &str, mib: u64, arguments: &str) -> Plan<'static> {
    let model = Catalogue::embedded().get(id).unwrap();
    let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
    let reading = read_arguments(engine, None, Some(id), &arguments).unwrap();
    let device = Device::exactly(Mib::new(mib), Class::default());
    Plan::of(&reading, model, format_of(engine), device).unwrap()
}

fn answer(engine: Engine, id: &str, mib: u64, arguments: &str) -> Answer {
    estimate(&planned(engine, id, mib, arguments)).unwrap().answer
}

#[test]
fn arguments_lead_to_answers() {
    for (engine, id, mib, arguments, expected) in [
        (
            Engine::Sglang,
            "llama-3.1-8b",
            81_559,
            "--mem-fraction-static 0.85",
            Answer::Fits,
        ),
        (Engine::Sglang, "llama-3.1-8b", 81_559, "", Answer::Fits),
        (
            Engine::Sglang,
            "llama-3.1-8b",
            24_564,
            "--context-length 131072",
            Answer::Doubtful,
        ),
        (Engine::Sglang, "llama-3.1-70b", 81_559, "", Answer::DoesNotFit),
        (Engine::Sglang, "llama-3.1-70b", 81_559, "--tp 4", Answer::Fits),
        // What is not stated is fitted to the device; what is stated is not.
        (Engine::LlamaCpp, "llama-3.1-8b", 24_564, "", Answer::Doubtful),
        (
            Engine::LlamaCpp,
            "llama-3.1-8b",
            6_144,
            "-c 32768",
            Answer::Doubtful,
        ),
        (
            Engine::LlamaCpp,
            "llama-3.1-8b",
            6_144,
            "-ngl 99 -c 32768",
            Answer::DoesNotFit,
        ),
        (
            Engine::LlamaCpp,
            "llama-3.1-8b",
            24_564,
            "-ngl 99 -c 32768 -fa on",
            Answer::Fits,
        ),
        (
            Engine::LlamaCpp,
            "llama-3.1-8b",
            8_192,
            "-ngl 99 -c 32768 -fa on -ctk q4_0 -ctv q4_0",
            Answer::Fits,
        ),
        (
            Engine::LlamaCpp,
            "llama-3.1-8b",
            6_144,
            "-ngl 0 -c 32768 -fa on",
            Answer::Fits,
        ),
        (
            Engine::Tgi,
            "llama-3.1-8b",
            81_559,
            "--max-total-tokens 8192",
            Answer::Fits,
        ),
        (
            Engine::Tgi,
            "llama-3.1-8b",
            81_559,
            "--max-total-tokens 8192 --cuda-memory-fraction 0.1",
            Answer::DoesNotFit,
        ),
        (Engine::Tei, "bge-m3", 9_728, "", Answer::Fits),
        (Engine::Tei, "bge-large-en-v1.5", 9_728, "", Answer::Fits),
        (
            Engine::TensorRtLlm,
            "llama-3.1-8b",
            81_559,
            "--max_seq_len 8192",
            Answer::Fits,
        ),
        (
            Engine::TensorRtLlm,
            "llama-3.1-70b",
            81_559,
            "--max_seq_len 8192",
            Answer::DoesNotFit,
        ),
        (
            Engine::Lmdeploy,
            "llama-3.1-8b",
            81_559,
            "--session-len 8192 --cache-max-entry-count 0.5 --quant-policy 4",
            Answer::Fits,
        ),
        (Engine::Lmdeploy, "llama-3.1-8b", 12_288, "", Answer::DoesNotFit),
    ] {
        assert_eq!(
            answer(engine, id, mib, arguments),
            expected,
            "{engine} {id} {mib} {arguments}: {:?}",
            estimate(&planned(engine, id, mib, arguments))
        );
    }
}

/// Every model of the catalogue on every engine that answers for it.
fn every(mib: u64, length: Length, mut see: impl FnMut(&str, &Plan<'_>, &Estimate)) {
    for engine in ENGINES {
        for model in Catalogue::embedded().iter() {
            let mut plan = super::example::plan(model, format_of(engine), engine, mib);
            plan.fraction = Some(Fraction::parse("0.85").unwrap());
            plan.length = length;
            // Some defaults grow with the device.
            plan.serving.max_num_batched_tokens = Some(2_048);
            plan.serving.max_num_seqs = Some(64);
            if let Ok(estimate) = estimate(&plan) {
                see(&format!("{engine} {}", model.id), &plan, &estimate);
            }
        }
    }
}

#[test]
fn bounds_keep_their_order_for_every_model() {
    let mut seen = 0;
    for mib in [1, 4_864, 24_564, 81_559, 183_359] {
        every(mib, Length::Declared, |name, _, estimate| {
            seen += 1;
            let pool = estimate.pool;
            assert!(
                pool.lower <= pool.expected && pool.expected <= pool.upper,
                "{name}: {pool:?}"
            );
            let (least, usual, most) = estimate.tokens;
            assert!(least <= usual && usual <= most, "{name}");
            let sum = estimate.parts.iter().map(|part| part.bytes.upper()).sum::<u64>();
            assert_eq!(sum, estimate.used().upper(), "{name}");
        });
    }
    assert!(seen > 4 * Catalogue::embedded().len() * 5, "{seen}");
}

#[test]
fn a_larger_device_never_turns_fits_into_not() {
    let sizes = [4_864, 9_728, 24_564, 48_538, 81_559, 143_771, 294_896, 1 << 20];
    for length in [Length::Tokens(2_048), Length::Declared] {
        let mut before = std::collections::BTreeMap::new();
        for mib in sizes {
            every(mib, length, |name, _, estimate| {
                let rank = match estimate.answer {
                    Answer::DoesNotFit => 0,
                    Answer::Doubtful => 1,
                    Answer::Fits => 2,
                };
                let least = before.insert(name.to_owned(), rank).unwrap_or(0);
                assert!(rank >= least, "{name} on {mib} MiB");
            });
        }
        assert!(before.values().any(|rank| *rank == 2));
    }
}

#[test]
fn a_longer_context_never_needs_less() {
    every(81_559, Length::Tokens(1_024), |name, plan, estimate| {
        let mut before = estimate.need;
        for tokens in [1_025, 2_048, 5_000, 40_960, 1 << 20, 1 << 40] {
            let mut longer = plan.clone();
            longer.length = Length::Tokens(tokens);
            let need = super::estimate::estimate(&longer).unwrap().need;
            assert!(
                need.lower() >= before.lower() && need.upper() >= before.upper(),
                "{name} at {tokens}: {before:?}, {need:?}"
            );
            before = need;
        }
    });
}

#[test]
fn the_smallest_fraction_fits_and_the_next_below_does_not() {
    let mut found = 0;
    for engine in [Engine::Sglang, Engine::Tgi, Engine::TensorRtLlm, Engine::Lmdeploy] {
        let model = Catalogue::embedded().get("llama-3.1-8b").unwrap();
        let mut plan = super::example::plan(model, Format::Float16, engine, 81_559);
        plan.length = Length::Tokens(8_192);
        plan.serving.max_num_batched_tokens = Some(2_048);
        for surely in [Surely::Fits, Surely::MayFit] {
            let fraction = inverse::smallest_fraction(&plan, surely).unwrap();
            let at = |ppm: u32| {
                let mut changed = plan.clone();
                changed.fraction = Some(Fraction::from_ppm(ppm).unwrap());
                estimate(&changed).unwrap().answer
            };
            let below = at(fraction.ppm().saturating_sub(1_000).max(1));
            match surely {
                Surely::Fits => assert!(
                    at(fraction.ppm()) == Answer::Fits && below != Answer::Fits,
                    "{engine}"
                ),
                Surely::MayFit => assert!(at(fraction.ppm()) != Answer::DoesNotFit, "{engine}"),
            }
            found += 1;
        }
    }
    assert_eq!(found, 8);
    for engine in [Engine::LlamaCpp, Engine::Tei] {
        let model = Catalogue::embedded().get("bge-m3").unwrap();
        let plan = super::example::plan(model, format_of(engine), engine, 81_559);
        assert_eq!(inverse::smallest_fraction(&plan, Surely::MayFit), None);
    }
}

#[test]
fn a_stated_pool_must_be_had_whole() {
    let at = |bytes: u64| {
        let mut plan = planned(Engine::Vllm, "llama-3.1-8b", 24_564, "--max-model-len 2048");
        plan.serving.kv_cache_bytes = Some(bytes);
        estimate(&plan).unwrap().answer
    };
    assert_eq!(at(1 << 30), Answer::Fits);
    assert_eq!(at(20 << 30), Answer::DoesNotFit);
}
