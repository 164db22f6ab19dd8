//! Where the values of a reading of DJL Serving come from: a line of the file, a variable, or what it chooses itself.

use super::settings::{Setting, Settings, Source};
use crate::engine::provenance::{Origin, Place, file, replace};
use crate::engine::reader::Context;
use crate::engine::{Engine, Reading};

/// The fields of a reading with the options that stand for each, the one that wins first.
const FIELDS: [(&str, &[&str]); 11] = [
    ("model", &["model_id"]),
    (
        "memory",
        &[
            "gpu_memory_utilization",
            "free_gpu_memory_fraction",
            "kv_cache_free_gpu_mem_fraction",
        ],
    ),
    ("tensor-parallel-size", &["tensor_parallel_degree"]),
    ("pipeline-parallel-size", &["pipeline_parallel_degree"]),
    ("max-model-len", &["max_model_len", "max_seq_len"]),
    ("quantization", &["quantize", "quantization"]),
    ("dtype", &["dtype"]),
    ("kv-cache-dtype", &["kv_cache_dtype"]),
    ("max-num-seqs", &["max_rolling_batch_size", "max_num_seqs"]),
    (
        "max-num-batched-tokens",
        &[
            "max_rolling_batch_prefill_tokens",
            "max_num_batched_tokens",
            "max_num_tokens",
        ],
    ),
    ("eager", &["enforce_eager"]),
];

/// Says of each value that an option of DJL states where that stands.
pub(super) fn add(context: &Context<'_>, settings: &Settings, reading: &mut Reading) {
    if !context.explains {
        return;
    }
    let told = |field: &str| reading.provenance.iter().any(|known| known.field == field);
    let of_vllm = reading.engine == Engine::Vllm;
    let mut found = Vec::new();
    for (field, names) in FIELDS {
        // What the engine inside does not take is none of its values.
        if of_vllm && !told(field) {
            continue;
        }
        let stated = names
            .iter()
            .find_map(|name| Some((*name, settings.options.get(*name)?)));
        if let Some((name, setting)) = stated {
            let mut place = place(context, settings, name, setting);
            if let Err(reason) = &setting.value {
                place.from = Origin::Unresolved;
                place.detail = format!("{}: {reason}", place.detail);
            }
            found.push(place.of(field, setting.value.as_deref().ok()));
        } else if field == "tensor-parallel-size" {
            let place = Place::nowhere(Origin::EngineAuto, "every device of the container");
            found.push(place.of(field, Some(&reading.parallelism.tensor.to_string())));
        }
    }
    for one in found {
        replace(&mut reading.provenance, one);
    }
}

fn place(context: &Context<'_>, settings: &Settings, name: &str, setting: &Setting) -> Place {
    match setting.source {
        Source::Variable(index) => {
            let variable = context.invocation.environment.variables().get(index);
            Place {
                from: Origin::Env,
                path: Some(context.path_of_variable(index)),
                detail: variable.map_or_else(String::new, |variable| variable.name.to_string()),
            }
        }
        Source::Script => Place::nowhere(Origin::Script, format!("a variable of the script for {name}")),
        Source::File => {
            let path = settings.file.as_deref().unwrap_or_default();
            let described = file::described(context, path);
            let line = context.file(path).ok().and_then(|text| line_of(text, name));
            Place::nowhere(
                Origin::ConfigFile,
                match line {
                    Some(line) => format!("line {line} of {described}"),
                    None => described,
                },
            )
        }
    }
}

/// The number of the last line that holds an option.
fn line_of(text: &str, name: &str) -> Option<usize> {
    let mut found = None;
    for (index, line) in text.lines().enumerate() {
        let key = line.trim_start();
        let key = key
            .split(|c: char| c == '=' || c == ':' || c.is_whitespace())
            .next()
            .unwrap_or_default();
        if key
            .strip_prefix("option.")
            .is_some_and(|key| key.eq_ignore_ascii_case(name))
        {
            found = Some(index + 1);
        }
    }
    found
}
