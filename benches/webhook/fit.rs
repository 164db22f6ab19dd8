//! What whether a model fits costs a review: one look-up of its name, and one estimate for each kind of node.

use std::hint::black_box;
use std::time::{Duration, Instant};

use vramgate::device::catalogue::Catalogue as Products;
use vramgate::engine::{Engine, Version, read_arguments};
use vramgate::footprint::{Device, Plan, estimate};
use vramgate::model::name::{Found, find, find_only};
use vramgate::model::{Catalogue, Format};

use crate::{Options, Outcome};

const NAMES: [&str; 5] = [
    "meta-llama/Llama-3.1-8B-Instruct",
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
    "Qwen/Qwen2.5-72B-Instruct-AWQ",
    "example-org/chat-7b",
    "/models/ours",
];
const MODELS: [(&str, Format); 4] = [
    ("llama-3.1-8b", Format::Float16),
    ("qwen2.5-72b", Format::Awq4),
    ("gemma-3-27b", Format::Float16),
    ("deepseek-v3", Format::Fp8),
];

/// Prints the median over rounds of the mean time of one call.
fn measure(name: &str, options: &Options, mut work: impl FnMut()) {
    let length = options.round().min(Duration::from_millis(200));
    let mut means = Vec::new();
    for round in 0..=options.rounds {
        let begin = Instant::now();
        let mut calls = 0_u32;
        while begin.elapsed() < length {
            for _ in 0..64 {
                work();
            }
            calls += 64;
        }
        if round > 0 {
            means.push(begin.elapsed() / calls);
        }
    }
    means.sort_unstable();
    let median = means.get(means.len() / 2).copied().unwrap_or_default();
    println!("{name:<58} {:>9.2} us", median.as_secs_f64() * 1e6);
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let catalogue = Catalogue::embedded();
    for name in NAMES {
        measure(&format!("look-up of {name}"), options, || {
            black_box(find_only(catalogue, black_box(name)));
        });
    }
    let device = Products::embedded()
        .product("h100-80gb-sxm")
        .map(Device::of_product)
        .ok_or("no such product")?;
    let args: Vec<String> = ["--model", "m", "--max-model-len", "8192"]
        .map(str::to_owned)
        .into();
    let release = Some(Version::new(0, 20, 0));
    let reading = read_arguments(Engine::Vllm, release, None, &args).map_err(|error| error.to_string())?;
    for (id, format) in MODELS {
        let Found::Known { model, .. } = find(catalogue, id) else {
            return Err(format!("{id} is not in the catalogue").into());
        };
        let plan = Plan::of(&reading, model, format, device).map_err(|error| error.to_string())?;
        measure(&format!("estimate of {id} ({format})"), options, || {
            black_box(estimate(black_box(&plan)).is_ok());
        });
    }
    Ok(())
}
