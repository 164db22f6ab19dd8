//! Where the values of a reading of NIM come from: the image, its variables, its profile.

use super::{in_profile, model_of_image};
use crate::engine::plain::Options;
use crate::engine::provenance::plain::{self, Entry, Otherwise};
use crate::engine::provenance::{Origin, Place, replace};
use crate::engine::reader::Context;
use crate::engine::{MemorySource, Provenance, Reading};
use crate::invocation::Command;

/// Sizes that the name of a profile holds as well, with the letters before each.
const SIZES: [(&str, &str, &str); 2] = [
    ("tensor-parallel-size", "NIM_TENSOR_PARALLEL_SIZE", "tp"),
    ("pipeline-parallel-size", "NIM_PIPELINE_PARALLEL_SIZE", "pp"),
];

/// Adds to what the engine inside says what the image decides around it.
pub(super) fn add(context: &Context<'_>, command: &Command<'_>, reading: &mut Reading) {
    let list = &mut reading.provenance;
    let model = match model_of_image(context) {
        Some(name) => {
            let place = Place {
                from: Origin::Image,
                path: Some(context.path.field("image")),
                detail: "the image of one model".to_owned(),
            };
            Some(place.of("model", Some(name)))
        }
        None => ["NIM_MODEL_NAME", "NIM_MODEL_PATH"]
            .into_iter()
            .find_map(|name| context.provenance_of_variable(command, "model", name)),
    };
    if let Some(mut model) = model {
        // As the reading has it, without the scheme.
        model.value = model.value.and(reading.model.clone());
        replace(list, model);
    }
    if reading.memory.source == MemorySource::Unresolved {
        let reason = reading
            .unresolved
            .iter()
            .find(|unresolved| unresolved.decides_memory)
            .map_or("the image decides it", |unresolved| unresolved.reason.as_str());
        replace(
            list,
            Place::nowhere(Origin::Unresolved, reason).of("memory", None),
        );
    }
    for (field, variable, letters) in SIZES {
        let is_written = list
            .iter()
            .any(|known| known.field == field && !known.from.is_default());
        if is_written {
            continue;
        }
        let stated = context.provenance_of_variable(command, field, variable);
        let by_profile = || {
            let size = in_profile(context, command, letters)?;
            let mut one = context.provenance_of_variable(command, field, "NIM_MODEL_PROFILE")?;
            one.value = Some(size.to_string());
            Some(one)
        };
        let one = stated.or_else(by_profile).unwrap_or_else(|| {
            Place::nowhere(Origin::Default, "without a variable or a profile that says it")
                .of(field, Some("1"))
        });
        replace(list, one);
    }
    for field in ["dtype", "kv-cache-dtype"] {
        if list.iter().all(|known| known.field != field) {
            let profile = "the image chooses it by a profile";
            list.push(Place::nowhere(Origin::EngineAuto, profile).of(field, None));
        }
    }
    if list.iter().all(|known| known.field != "max-model-len") {
        list.extend(context.provenance_of_variable(command, "max-model-len", "NIM_MAX_MODEL_LEN"));
    }
}

/// The values of an image with SGLang.
pub(super) fn sglang(options: Options<'_>) -> Vec<Provenance> {
    const ENTRIES: [Entry; 2] = [
        Entry::new("memory", &["--mem-fraction-static"], &[], Otherwise::Nothing),
        Entry::new(
            "tensor-parallel-size",
            &["--tp-size", "--tp", "--tensor-parallel-size"],
            &[],
            Otherwise::Nothing,
        ),
    ];
    plain::of(options, &ENTRIES)
}
