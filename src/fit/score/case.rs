//! Logs as they are written down: `tests/data/fit-cases.yaml` describes each field.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::engine::Engine;

/// More cases than any collection has.
const MOST_CASES: usize = 100_000;

/// One start of an engine, with its arguments and what its log told.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// The engine.
    pub engine: String,
    /// Its release, as people write it.
    #[serde(default)]
    pub engine_version: Option<String>,
    /// The model as the log or its teller calls it.
    pub model: String,
    /// Entry of the catalogue with its shape, where the text alone does not tell.
    #[serde(default)]
    pub facts: Option<String>,
    /// Format of the weights; `none` where they are not packed, `unknown` where that is not known.
    pub quantisation: String,
    /// The devices.
    pub gpu: Gpu,
    /// Arguments of the engine, by name.
    #[serde(default)]
    pub args: BTreeMap<String, Value>,
    /// What the log told, by name: GiB unless the name says MiB, of each device.
    #[serde(default)]
    pub measured: BTreeMap<String, f64>,
    /// `ok…`, or `fail_…` and the cause.
    pub outcome: String,
    /// Where the log stands.
    #[serde(default)]
    pub source: Option<String>,
    /// What the fields cannot say.
    #[serde(default)]
    pub note: Option<String>,
}

/// The devices of a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// The product as people write it; `unknown` where it is not told.
    pub product: String,
    /// What the driver showed to the engine, in GiB; absent where it was not printed.
    #[serde(default)]
    pub total_gib: Option<f64>,
    /// How many.
    #[serde(default)]
    pub count: Option<u32>,
}

/// What a file must be.
const FORM: &str = "give a file of start-up logs: a list below `cases:`, each with the fields that tests/data/fit-cases.yaml explains";

/// Why a file holds no cases.
#[derive(Debug, Error)]
pub enum CaseError {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// A case cannot be used.
    #[error("cases[{index}] ({id}): {problem}")]
    Unusable {
        /// Its place.
        index: usize,
        /// Its name.
        id: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// What became of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// The engine served.
    Ran,
    /// It lacked memory, at start or later.
    Failed,
    /// It stopped for another reason, or for one that was not told.
    OtherFailure,
}

/// Reads the cases of a file.
///
/// # Errors
///
/// [`CaseError`] for text that is no list of cases below `cases`, and for a case without a usable outcome or with sizes
/// that are none.
pub fn read(text: &str) -> Result<Vec<Case>, CaseError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        cases: Vec<Case>,
    }
    let File { cases } =
        serde_saphyr::from_str(text).map_err(|error| CaseError::Unreadable(format!("{error}\n{FORM}")))?;
    if cases.len() > MOST_CASES {
        return Err(CaseError::Unreadable(format!(
            "has more than {MOST_CASES} cases; split it"
        )));
    }
    for (index, case) in cases.iter().enumerate() {
        let fail = |problem: String| {
            Err(CaseError::Unusable {
                index,
                id: crate::message::cut(&crate::message::one_line(&case.id), 60),
                problem,
            })
        };
        if case.outcome().is_none() {
            let outcome = crate::message::cut(&case.outcome, 40);
            return fail(format!(
                "outcome: {outcome:?} begins neither with ok nor with fail_; write what became of the start"
            ));
        }
        let usable = |size: f64| size.is_finite() && (0.0..1e12).contains(&size);
        if case
            .gpu
            .total_gib
            .is_some_and(|total| !usable(total) || total < 0.01)
        {
            return fail(
                "gpu.total_gib: is no size in GiB; leave it out where it was not printed".to_owned(),
            );
        }
        // Some logs print sizes below zero: graphs by bad bookkeeping, a pool where that much is missing.
        for (name, size) in &case.measured {
            let below = !matches!(name.as_str(), "weights_gib" | "kv_tokens");
            if !usable(if below { size.abs() } else { *size }) {
                let name = crate::message::cut(name, 40);
                return fail(format!(
                    "measured.{name}: is no size; leave it out where it was not printed"
                ));
            }
        }
    }
    Ok(cases)
}

impl Case {
    pub(super) fn outcome(&self) -> Option<Outcome> {
        /// Failures whose cause is told and is not memory, or is not told.
        const OTHER: [&str; 3] = ["fail_warmup_crash", "fail_cuda_error", "fail_unspecified"];
        let outcome = self.outcome.as_str();
        if OTHER.contains(&outcome) {
            Some(Outcome::OtherFailure)
        } else if outcome.starts_with("fail_") || outcome.contains("oom") {
            Some(Outcome::Failed)
        } else if outcome.starts_with("ok") {
            Some(Outcome::Ran)
        } else {
            None
        }
    }

    /// The device as the command line takes it. Where no total was printed it is a stand-in, and `false`: weights do not
    /// hang on it.
    pub(super) fn device(&self) -> (String, bool) {
        let product = self.gpu.product.replace(['=', '@'], " ");
        match self.gpu.total_gib {
            Some(total) => (format!("{product}={:.0}", total * 1024.0), true),
            None => (format!("{product}=81920"), false),
        }
    }

    /// The command line of the engine. The error names the argument that cannot be written.
    pub(super) fn arguments(&self, engine: Engine) -> Result<Vec<String>, String> {
        let mut arguments = Vec::new();
        for (name, value) in &self.args {
            if name == "speculative" {
                arguments.extend(speculative(value)?);
                continue;
            }
            let Some(option) = option(engine, name) else {
                return Err(format!("args.{name} is not known of {engine}"));
            };
            let text = match value {
                Value::Bool(true) if engine != Engine::LlamaCpp => {
                    arguments.push(option.to_owned());
                    continue;
                }
                Value::Bool(false) if engine != Engine::LlamaCpp => continue,
                Value::Bool(true) => "on".to_owned(),
                Value::Bool(false) => "off".to_owned(),
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => return Err(format!("args.{name} is neither text nor number")),
            };
            arguments.push(option.to_owned());
            arguments.push(text.clone());
            // llama.cpp has two types of cache where the others have one.
            if engine == Engine::LlamaCpp && name == "kv_cache_dtype" {
                arguments.push("--cache-type-v".to_owned());
                arguments.push(text);
            }
        }
        Ok(arguments)
    }
}

/// How an engine calls an argument.
fn option(engine: Engine, name: &str) -> Option<&'static str> {
    Some(match (engine, name) {
        (Engine::Vllm, "gpu_memory_utilization") => "--gpu-memory-utilization",
        (Engine::Vllm, "max_model_len") => "--max-model-len",
        (Engine::Vllm, "tp") => "--tensor-parallel-size",
        (Engine::Vllm, "pp") => "--pipeline-parallel-size",
        (Engine::Vllm, "dp") => "--data-parallel-size",
        (Engine::Vllm, "max_num_seqs") => "--max-num-seqs",
        (Engine::Vllm, "max_num_batched_tokens") => "--max-num-batched-tokens",
        (Engine::Vllm, "block_size") => "--block-size",
        (Engine::Vllm, "enforce_eager") => "--enforce-eager",
        (Engine::Vllm, "enable_lora") => "--enable-lora",
        (Engine::Vllm, "max_lora_rank") => "--max-lora-rank",
        (Engine::Vllm, "max_loras") => "--max-loras",
        (Engine::Vllm, "enable_expert_parallel") => "--enable-expert-parallel",
        (Engine::Vllm, "cpu_offload_gb") => "--cpu-offload-gb",
        (Engine::Sglang, "mem_fraction_static") => "--mem-fraction-static",
        (Engine::Sglang, "max_model_len") => "--context-length",
        (Engine::Sglang, "tp") => "--tp-size",
        (Engine::Vllm | Engine::Sglang, "dtype") => "--dtype",
        (Engine::Vllm | Engine::Sglang, "kv_cache_dtype") => "--kv-cache-dtype",
        (Engine::Sglang, "disable_cuda_graph") => "--disable-cuda-graph",
        (Engine::Sglang, "max_num_seqs") => "--max-running-requests",
        (Engine::LlamaCpp, "n_ctx" | "max_model_len") => "--ctx-size",
        (Engine::LlamaCpp, "n_ubatch") => "--ubatch-size",
        (Engine::LlamaCpp, "n_gpu_layers") => "--gpu-layers",
        (Engine::LlamaCpp, "flash_attn") => "--flash-attn",
        (Engine::LlamaCpp, "kv_cache_dtype") => "--cache-type-k",
        _ => return None,
    })
}

/// `mtp3` is the method `mtp` with three tokens at once.
fn speculative(value: &Value) -> Result<[String; 2], String> {
    let text = value.as_str().unwrap_or_default();
    let method = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let tokens = text.get(method.len()..).unwrap_or_default();
    let is_method = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if method.is_empty() || !method.chars().all(is_method) {
        return Err("args.speculative is no method with its number of tokens, as in mtp3".to_owned());
    }
    let tokens: u32 = if tokens.is_empty() {
        1
    } else {
        tokens
            .parse()
            .map_err(|_| "args.speculative has too many tokens".to_owned())?
    };
    let config = format!(r#"{{"method":"{method}","num_speculative_tokens":{tokens}}}"#);
    Ok(["--speculative-config".to_owned(), config])
}

#[cfg(test)]
mod tests;
