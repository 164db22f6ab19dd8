//! What llama.cpp's options say about serving, beside the context.
//!
//! Sources: ggml-org/llama.cpp `tools/server/README.md` and `common/arg.cpp` (options, variables, defaults).

use crate::engine::plain::{self, Options};
use crate::engine::reader::Flag;
use crate::engine::{Draft, Reading, Serving};

/// Tokens of a physical batch that is not stated.
const PHYSICAL_BATCH: u64 = 512;
/// The type of keys and values that are not stated.
const CACHE_TYPE: &str = "f16";

/// Options that leave a part of the model or of its cache in host memory, with the variable of each.
const OVERRIDES: [(&str, &[&str], &str); 4] = [
    ("--n-cpu-moe", &["-ncmoe", "--n-cpu-moe"], "LLAMA_ARG_N_CPU_MOE"),
    ("--cpu-moe", &["-cmoe", "--cpu-moe"], "LLAMA_ARG_CPU_MOE"),
    (
        "--override-tensor",
        &["-ot", "--override-tensor"],
        "LLAMA_ARG_OVERRIDE_TENSOR",
    ),
    (
        "--no-kv-offload",
        &["-nkvo", "--no-kv-offload"],
        "LLAMA_ARG_NO_KV_OFFLOAD",
    ),
];

/// `layers` and `length` are the texts of `--gpu-layers` and `--ctx-size`; `keys` is the type of the cached keys.
pub(super) fn of(
    options: Options<'_>,
    reading: &mut Reading,
    layers: Option<&str>,
    length: Option<&str>,
    keys: Option<&str>,
) -> Serving {
    let mut serving = Serving {
        gpu_layers: layers.and_then(|text| gpu_layers(reading, text)),
        trained_context: length.is_some_and(|text| text.trim().parse() == Ok(0_i64)),
        ..Serving::default()
    };
    // -1 lets the engine choose.
    serving.max_num_seqs = options
        .integer(
            reading,
            &["--parallel", "-np", "--n-parallel"],
            "LLAMA_ARG_N_PARALLEL",
        )
        .and_then(|slots| u64::try_from(slots).ok())
        .filter(|slots| *slots > 0);
    serving.max_num_batched_tokens = physical_batch(options, reading);
    serving.value_cache_dtype = options
        .text(reading, &["--cache-type-v", "-ctv"], "LLAMA_ARG_CACHE_TYPE_V")
        .or_else(|| {
            let stated = reading
                .unresolved
                .iter()
                .any(|known| known.field == "cache-type-v");
            (!stated).then(|| CACHE_TYPE.to_owned())
        })
        .filter(|values| values != keys.unwrap_or(CACHE_TYPE));
    serving.flash_attention = flash_attention(options, reading);
    serving.draft = draft(options, reading);
    serving.text_only = !has_projector(options, reading);
    serving.full_length_cache = options.switch(reading, &["--swa-full"], "LLAMA_ARG_SWA_FULL");
    serving.overrides = OVERRIDES
        .into_iter()
        .filter(|(_, names, variable)| is_set(options, reading, names, variable))
        .map(|(option, ..)| option)
        .collect();
    serving
}

/// A number of layers. `all`, `auto` and the numbers below zero that stand for them name none.
fn gpu_layers(reading: &mut Reading, text: &str) -> Option<u64> {
    let text = text.trim();
    if text == "all" || text == "auto" || text.parse::<i64>().is_ok_and(|layers| layers < 0) {
        return None;
    }
    plain::number(reading, "gpu-layers", text)
}

/// The physical batch is never larger than the logical one (`llama_context`: `n_ubatch = min(n_batch, n_ubatch)`, zero
/// meaning all of it).
fn physical_batch(options: Options<'_>, reading: &mut Reading) -> Option<u64> {
    let logical = options.count(reading, &["--batch-size", "-b", "--n_batch"], "LLAMA_ARG_BATCH");
    let physical = options.number(
        reading,
        &["--ubatch-size", "-ub", "--n_ubatch"],
        "LLAMA_ARG_UBATCH",
    );
    let unread = reading
        .unresolved
        .iter()
        .any(|known| ["batch-size", "ubatch-size"].contains(&&*known.field));
    match (logical, physical) {
        (Some(logical), Some(0)) => Some(logical),
        (Some(logical), Some(physical)) => Some(logical.min(physical)),
        (None, Some(physical)) => Some(physical).filter(|physical| *physical > 0),
        (Some(logical), None) if !unread => Some(logical.min(PHYSICAL_BATCH)),
        (Some(_) | None, None) => None,
    }
}

/// A flag in old releases, `on`, `off` or `auto` behind it in new ones.
fn flash_attention(options: Options<'_>, reading: &mut Reading) -> Option<bool> {
    let names = ["-fa", "--flash-attn"];
    if let Some(flag) = Flag::last(options.words, &names)
        && (!flag.text.starts_with('-') || flag.text == "-1")
    {
        let value = reading.option(options.words, &names)?;
        return chosen(reading, &value);
    }
    if options.has(&names) {
        return Some(true);
    }
    let value = options.text(reading, &names, "LLAMA_ARG_FLASH_ATTN")?;
    chosen(reading, &value)
}

fn chosen(reading: &mut Reading, value: &str) -> Option<bool> {
    let choice = plain::means_yes(value);
    if choice.is_none() && !matches!(value.trim(), "auto" | "-1") {
        plain::note(
            reading,
            "flash-attn",
            "its value is none of on, off and auto".to_owned(),
        );
    }
    choice
}

fn draft(options: Options<'_>, reading: &mut Reading) -> Option<Draft> {
    let file = ["--model-draft", "-md", "--spec-draft-model"];
    let repository = ["--hf-repo-draft", "-hfd", "-hfrd", "--spec-draft-hf"];
    let model = options
        .text(reading, &file, "LLAMA_ARG_MODEL_DRAFT")
        .or_else(|| options.text(reading, &repository, "LLAMA_ARG_HFD_REPO"));
    let method = options.text(reading, &["--spec-type"], "LLAMA_ARG_SPEC_TYPE");
    let method = method.filter(|method| method != "none");
    let stated = model.is_some() || method.is_some() || options.has(&file) || options.has(&repository);
    if !stated {
        return None;
    }
    let tokens = ["--draft-max", "--draft", "--draft-n", "--spec-draft-n-max"];
    Some(Draft {
        method,
        model,
        tokens: options
            .number(reading, &tokens, "LLAMA_ARG_DRAFT_MAX")
            .or_else(|| options.number(reading, &[], "LLAMA_ARG_SPEC_DRAFT_N_MAX")),
    })
}

/// Whether a projector for images or sound lies on the device: a file that is named, or the one beside the model in a
/// repository.
fn has_projector(options: Options<'_>, reading: &mut Reading) -> bool {
    let set = |reading: &mut Reading, names: &[&str], variable: &str| {
        options.text(reading, names, variable).is_some() || options.has(names)
    };
    let named = set(reading, &["--mmproj", "-mm"], "LLAMA_ARG_MMPROJ")
        || set(reading, &["--mmproj-url", "-mmu"], "LLAMA_ARG_MMPROJ_URL");
    let in_repository = set(reading, &["--hf-repo", "-hf", "-hfr"], "LLAMA_ARG_HF_REPO");
    let off = options.switch(
        reading,
        &["--no-mmproj", "--no-mmproj-auto"],
        "LLAMA_ARG_NO_MMPROJ",
    );
    let on_host = options.switch(reading, &["--no-mmproj-offload"], "LLAMA_ARG_NO_MMPROJ_OFFLOAD");
    (named || in_repository && !off) && !on_host
}

/// Whether an option or its variable stands there, with a value that is neither zero nor off.
fn is_set(options: Options<'_>, reading: &mut Reading, names: &[&str], variable: &str) -> bool {
    // Newer releases have the opposite variable.
    if variable == "LLAMA_ARG_NO_KV_OFFLOAD"
        && let Some(text) = options.text(reading, &[], "LLAMA_ARG_KV_OFFLOAD")
        && plain::means_yes(&text) == Some(false)
    {
        return true;
    }
    let takes_value = names.iter().any(|name| matches!(*name, "-ncmoe" | "-ot"));
    if !takes_value {
        return options.switch(reading, names, variable);
    }
    match options.text(reading, names, variable) {
        Some(text) => !matches!(text.trim(), "" | "0"),
        // It stands there, and how much stays in host memory is not known.
        None => options.has(names),
    }
}
