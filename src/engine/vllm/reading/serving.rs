//! What vLLM's options say about serving, beside the fraction.
//!
//! Sources: vllm-project/vllm `vllm/engine/arg_utils.py`, `vllm/config/`, by release as in `options.tsv`.

use serde_json::Value as Json;

use crate::engine::argparse::value::{Value, python_int};
use crate::engine::line::LineView;
use crate::engine::reader::Context;
use crate::engine::serving::Written;
use crate::engine::{Adapters, Draft, Serving, Unresolved, Version};
use crate::invocation::Command;

/// Options that are read here and nowhere else: a script that decides on them changes no amount that a review counts.
pub(super) const READ: [&str; 24] = [
    "--block-size",
    "--cpu-offload-gb",
    "--disable-hybrid-kv-cache-manager",
    "--enable-chunked-prefill",
    "--enable-expert-parallel",
    "--enable-lora",
    "--hf-config-path",
    "--hf-overrides",
    "--kv-cache-memory-bytes",
    "--kv-transfer-config",
    "--language-model-only",
    "--limit-mm-per-prompt",
    "--load-format",
    "--max-lora-rank",
    "--max-loras",
    "--max-num-batched-tokens",
    "--max-num-seqs",
    "--mm-encoder-only",
    "--num-speculative-tokens",
    "--offload-group-size",
    "--spec-method",
    "--spec-model",
    "--spec-tokens",
    "--speculative-config",
];

/// Whether the CUDA graphs are estimated within the budget.
const ESTIMATES_GRAPHS: &str = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS";

pub(super) fn of(
    context: &Context<'_>,
    command: &Command<'_>,
    line: &LineView<'_, '_>,
    version: Option<Version>,
    unresolved: &mut Vec<Unresolved>,
) -> Serving {
    let mut written = Written::new(line, unresolved);
    let estimates_graphs = estimates_graphs(context, command, &mut written);
    let mut serving = Serving {
        estimates_graphs,
        open: written.open(),
        ..Serving::default()
    };
    if line.parsed.settings.is_empty() {
        return serving;
    }
    serving.max_num_seqs = written.count("--max-num-seqs");
    serving.max_num_batched_tokens = written.count("--max-num-batched-tokens");
    serving.block_size = written.count("--block-size");
    // Zero is false in Python, and means what its absence means.
    serving.kv_cache_bytes = written
        .number("--kv-cache-memory-bytes")
        .filter(|bytes| *bytes > 0);
    serving.kv_cache_blocks = written.count("--num-gpu-blocks-override");
    serving.cpu_offload_bytes = written.gibibytes("--cpu-offload-gb");
    serving.expert_parallel = written.flag("--enable-expert-parallel");
    serving.chunked_prefill = chunked_prefill(&mut written);
    serving.adapters = adapters(line, &mut written);
    serving.draft = draft(&mut written);
    serving.excluded_inputs = excluded_inputs(&mut written, &mut serving.text_only);
    serving.text_only |= written.flag("--language-model-only");
    serving.full_length_cache = full_length_cache(&mut written, version, &mut serving.undecided);
    serving.load_format = written
        .text("--load-format")
        .filter(|format| !format.eq_ignore_ascii_case("auto"))
        .map(str::to_owned);
    serving.overrides = overrides(&mut written);
    serving
}

/// `bool(int(…))` of the variable.
fn estimates_graphs(
    context: &Context<'_>,
    command: &Command<'_>,
    written: &mut Written<'_, '_, '_>,
) -> Option<bool> {
    match context.variable(command, ESTIMATES_GRAPHS)? {
        Ok(text) => {
            let int = python_int(&text);
            if int.is_none() {
                written.note(ESTIMATES_GRAPHS, "its value is neither 0 nor 1");
            }
            int.map(|int| int != 0)
        }
        Err(reason) => {
            written.note(ESTIMATES_GRAPHS, &reason);
            None
        }
    }
}

/// A flag with a negation; until 0.7 one that takes `true` or `false` as well.
fn chunked_prefill(written: &mut Written<'_, '_, '_>) -> Option<bool> {
    const OPTION: &str = "--enable-chunked-prefill";
    let setting = written.setting(OPTION)?;
    if setting.value == Value::Flag {
        return Some(!setting.negated);
    }
    if setting.text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if setting.text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        written.note(OPTION, "its value is neither true nor false");
        None
    }
}

/// The adapters that have room on the device; the defaults are one of rank 16 in every release.
fn adapters(line: &LineView<'_, '_>, written: &mut Written<'_, '_, '_>) -> Option<Adapters> {
    if !written.flag("--enable-lora") {
        return None;
    }
    let mut size = |option: &str| {
        if written.has(option) {
            return written.count(option);
        }
        line.parsed.int(option).and_then(|int| u64::try_from(int).ok())
    };
    let (count, rank) = (size("--max-loras"), size("--max-lora-rank"));
    Some(Adapters {
        count: count?,
        rank: rank?,
    })
}

/// The object of `--speculative-config` (dotted keys stand in it by now), the short options since 0.23, and the single
/// ones until 0.7.
fn draft(written: &mut Written<'_, '_, '_>) -> Option<Draft> {
    const CONFIG: &str = "--speculative-config";
    let mut draft = None;
    if let Some(text) = written.text(CONFIG) {
        match serde_json::from_str(text) {
            Ok(Json::Object(config)) => {
                let word = |key: &str| config.get(key).and_then(Json::as_str).map(str::to_owned);
                let tokens = config
                    .get("num_speculative_tokens")
                    .filter(|value| !value.is_null());
                let number = tokens.and_then(number_of);
                if tokens.is_some() && number.is_none() {
                    written.note(CONFIG, "its num_speculative_tokens is no number");
                }
                draft = Some(Draft {
                    method: word("method"),
                    model: word("model"),
                    tokens: number,
                });
            }
            Ok(Json::Null) => {}
            Ok(_) | Err(_) => written.note(CONFIG, "its value is no JSON object"),
        }
    }
    for (method, model, tokens) in [
        ("--spec-method", "--spec-model", "--spec-tokens"),
        ("", "--speculative-model", "--num-speculative-tokens"),
    ] {
        let method = written.text(method).map(str::to_owned);
        let model = written.text(model).map(str::to_owned);
        let number = written.count(tokens);
        // The number alone starts nothing in old releases.
        if method.is_none() && model.is_none() && (number.is_none() || tokens != "--spec-tokens") {
            continue;
        }
        let before = draft.take();
        let (mut kind, mut name, mut count) = (method, model, number);
        if let Some(before) = before {
            kind = kind.or(before.method);
            name = name.or(before.model);
            count = count.or(before.tokens);
        }
        draft = Some(Draft {
            method: kind,
            model: name,
            tokens: count,
        });
    }
    let mut draft = draft?;
    // In the place of a model it names the method, which has no weights.
    if matches!(draft.model.as_deref(), Some("ngram" | "[ngram]")) {
        draft.model = None;
        draft.method.get_or_insert_with(|| "ngram".to_owned());
    }
    Some(draft)
}

/// A number, or its text: dotted keys of 0.9.0 and 0.9.1 have no types.
fn number_of(value: &Json) -> Option<u64> {
    match value {
        Json::Number(number) => number.as_u64(),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Kinds of input whose limit is zero; `all` becomes true where every kind that is listed is among them.
fn excluded_inputs(written: &mut Written<'_, '_, '_>, all: &mut bool) -> Vec<String> {
    const OPTION: &str = "--limit-mm-per-prompt";
    let Some(text) = written.text(OPTION) else {
        return Vec::new();
    };
    let Some(limits) = limits(text) else {
        written.note(
            OPTION,
            "its value is neither a JSON object nor a list such as image=0,video=0",
        );
        return Vec::new();
    };
    *all = !limits.is_empty() && limits.iter().all(|(_, limit)| *limit == 0);
    let mut none: Vec<String> = limits
        .into_iter()
        .filter(|(_, limit)| *limit == 0)
        .map(|(kind, _)| kind)
        .collect();
    none.sort_unstable();
    none.dedup();
    none
}

/// The limit of a kind whose options state none (`BaseDummyOptions.count`).
const NOT_STATED: i64 = 999;

/// `{"image": 0, "video": {"count": 0}}` or `image=0,video=0`.
fn limits(text: &str) -> Option<Vec<(String, i128)>> {
    if text.trim_start().starts_with('{') {
        let Json::Object(object) = serde_json::from_str(text).ok()? else {
            return None;
        };
        let limit = |value: &Json| match value {
            Json::Object(options) => options.get("count").map_or(Some(NOT_STATED), Json::as_i64),
            Json::String(text) => text.trim().parse().ok(),
            value => value.as_i64(),
        };
        return object
            .iter()
            .map(|(kind, value)| Some((kind.clone(), i128::from(limit(value)?))))
            .collect();
    }
    text.split(',')
        .map(|pair| {
            let (kind, limit) = pair.split_once('=')?;
            Some((kind.trim().to_owned(), python_int(limit)?))
        })
        .collect()
}

/// Until here every connector turns the hybrid manager off; later those do that do not subclass `SupportsHMA`.
const CONNECTOR_DECIDES: Version = Version::new(0, 22, 0);
/// Until here one cannot keep it on beside a connector.
const KEEPS_MANAGER: Version = Version::new(0, 11, 1);

/// Whether the hybrid manager is off: by its option, or by a connector (`vllm/config/vllm.py`: "Turning off hybrid kv
/// cache manager because `--kv-transfer-config` is set").
fn full_length_cache(
    written: &mut Written<'_, '_, '_>,
    version: Option<Version>,
    undecided: &mut Vec<Unresolved>,
) -> bool {
    const CONNECTOR: &str = "--kv-transfer-config";
    let stated = written.choice("--disable-hybrid-kv-cache-manager");
    if stated == Some(true) {
        return true;
    }
    let connects = written.text(CONNECTOR).is_some_and(|text| text.trim() != "null");
    if !connects {
        return false;
    }
    match version {
        Some(version) if version < KEEPS_MANAGER => true,
        Some(version) if version < CONNECTOR_DECIDES => stated.is_none(),
        _ if stated == Some(false) => false,
        _ => {
            undecided.push(Unresolved {
                field: CONNECTOR.trim_start_matches('-').to_owned(),
                reason: "the connector decides whether every layer's cache is kept at full length; state \
                         --disable-hybrid-kv-cache-manager or its negation"
                    .to_owned(),
                decides_memory: false,
            });
            false
        }
    }
}

/// What changes the model, or how much of it lies on the device, in a way that is not read.
fn overrides(written: &mut Written<'_, '_, '_>) -> Vec<&'static str> {
    let mut found = Vec::new();
    for option in ["--hf-overrides", "--hf-config-path"] {
        let empty = matches!(written.text(option).map(str::trim), None | Some("{}" | "null"));
        if !empty {
            found.push(option);
        }
    }
    if written.flag("--mm-encoder-only") {
        found.push("--mm-encoder-only");
    }
    // Of each group of layers some stay in host memory.
    if written
        .number("--offload-group-size")
        .is_some_and(|layers| layers > 0)
    {
        found.push("--offload-group-size");
    }
    found
}
