//! Where each value of a reading comes from, for whoever asks why.
//!
//! It is worked out only for an explanation ([`super::explain`]): a review of a pod pays nothing for it.

use serde::{Serialize, Serializer};

use super::{MemoryKind, MemoryRequest, MemorySource, Reading, Unresolved};
use crate::finding::{FieldPath, shortened};

mod environment;
pub(super) mod file;
pub(super) mod line;
pub(super) mod plain;
pub(super) mod word;

/// Longest value that is told whole, in characters; a line of JSON can be longer than a page.
const LONGEST_VALUE: usize = 200;

/// Where one value of a reading comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The value by the name that it has for every engine (`max-model-len`, `memory`, `tensor-parallel-size`, …).
    pub field: &'static str,
    /// The value as written, `on` for a flag; `None` where nothing is written and the default is no value either.
    pub value: Option<String>,
    /// The kind of place.
    pub from: Origin,
    /// The field below the pod that holds the value, or the word that names its file; `None` where no field does.
    pub path: Option<FieldPath>,
    /// Kind and name of another object that the field belongs to (`ServingRuntime vllm`).
    pub object: Option<String>,
    /// The place in words: the option as written, the line of a file, the releases that have the default.
    pub detail: String,
}

/// The kind of place that a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A word of `command` or `args`, also where it holds a variable that the kubelet puts in.
    Flag,
    /// An environment variable that the engine, its image or a wrapper reads.
    Env,
    /// A file that an option names.
    ConfigFile,
    /// A command line in a shell script.
    Script,
    /// The default of one or more releases.
    Default,
    /// An annotation of the pod.
    Annotation,
    /// What the policy says of the image.
    Policy,
    /// What the model's own files say.
    Model,
    /// The engine works it out when it starts.
    EngineAuto,
    /// What an operator makes of an object.
    Operator,
    /// The image itself: its entrypoint, or what it is called.
    Image,
    /// It stands somewhere, and cannot be read.
    Unresolved,
}

impl Origin {
    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Env => "env",
            Self::ConfigFile => "config-file",
            Self::Script => "script",
            Self::Default => "default",
            Self::Annotation => "annotation",
            Self::Policy => "policy",
            Self::Model => "model",
            Self::EngineAuto => "engine-auto",
            Self::Operator => "operator",
            Self::Image => "image",
            Self::Unresolved => "unresolved",
        }
    }

    /// Whether nobody wrote the value.
    #[must_use]
    pub const fn is_default(self) -> bool {
        matches!(self, Self::Default | Self::Model | Self::EngineAuto)
    }
}

/// The entry of one value in JSON, which stands in a map by its field.
impl Serialize for Provenance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut entry = serializer.serialize_struct("Provenance", 5)?;
        entry.serialize_field("value", &self.value)?;
        entry.serialize_field("from", &self.from)?;
        entry.serialize_field("path", &self.path)?;
        match &self.object {
            Some(object) => entry.serialize_field("object", object)?,
            None => entry.skip_field("object")?,
        }
        entry.serialize_field("detail", &self.detail)?;
        entry.end()
    }
}

/// A place without the value that it holds.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) from: Origin,
    pub(super) path: Option<FieldPath>,
    pub(super) detail: String,
}

impl Place {
    /// A place that is no field.
    pub(super) fn nowhere(from: Origin, detail: impl Into<String>) -> Self {
        Self {
            from,
            path: None,
            detail: detail.into(),
        }
    }

    /// The provenance of `field`, which has this `value` there.
    pub(super) fn of(self, field: &'static str, value: Option<&str>) -> Provenance {
        Provenance {
            field,
            value: value.map(|value| shortened(value, LONGEST_VALUE)),
            from: self.from,
            path: self.path,
            object: None,
            detail: self.detail,
        }
    }
}

/// Puts `one` in the place of what was said of the same field.
pub(super) fn replace(list: &mut Vec<Provenance>, one: Provenance) {
    match list.iter_mut().find(|known| known.field == one.field) {
        Some(known) => *known = one,
        None => list.push(one),
    }
}

impl Reading {
    /// Puts what the pod declares of the container's memory in the place of what its invocation says.
    pub(crate) fn declare(&mut self, memory: MemoryRequest) {
        let place = Place {
            from: Origin::Annotation,
            path: Some(memory.path.clone()),
            detail: "declared by annotation, for each device of the container".to_owned(),
        };
        replace(&mut self.provenance, place.of("memory", memory.value.as_deref()));
        self.memory = memory;
    }
}

/// Adds what follows from the reading itself to what its reader has said.
pub(super) fn complete(reading: &mut Reading) {
    memory(reading);
    let is_auto = |value: &Option<String>| value.as_deref() == Some("auto");
    let types = [
        ("dtype", is_auto(&reading.dtype)),
        ("kv-cache-dtype", is_auto(&reading.kv_cache_dtype)),
    ];
    for (field, is_auto) in types {
        if is_auto && reading.provenance.iter().all(|known| known.field != field) {
            let place = Place::nowhere(Origin::EngineAuto, format!("{} works it out", reading.engine));
            reading.provenance.push(place.of(field, Some("auto")));
        }
    }
}

/// Where the memory comes from, as far as the source in the reading tells.
fn memory(reading: &mut Reading) {
    let none = reading.memory.kind == MemoryKind::None;
    if none || reading.provenance.iter().any(|known| known.field == "memory") {
        return;
    }
    let memory = &reading.memory;
    let (from, detail) = match memory.source {
        MemorySource::Flag => (Origin::Flag, "an option of the command line".to_owned()),
        MemorySource::Env => (Origin::Env, "a variable of the container".to_owned()),
        MemorySource::ConfigFile => (Origin::ConfigFile, "a file of the model".to_owned()),
        MemorySource::Default => (Origin::Default, format!("default of {}", reading.engine)),
        MemorySource::EngineAuto => (Origin::EngineAuto, format!("{} works it out", reading.engine)),
        MemorySource::Estimate => (Origin::EngineAuto, "estimated from model and options".to_owned()),
        MemorySource::Policy => (Origin::Policy, "the policy's rule".to_owned()),
        // Declarations are not part of an invocation.
        MemorySource::Annotation => return,
        MemorySource::Unresolved => {
            let decides = |unresolved: &&Unresolved| unresolved.decides_memory;
            let reason = reading.unresolved.iter().find(decides);
            let reason = reason.map_or("it cannot be read", |unresolved| unresolved.reason.as_str());
            (Origin::Unresolved, reason.to_owned())
        }
    };
    let is_written = matches!(from, Origin::Flag | Origin::Env);
    let place = Place {
        from,
        path: is_written.then(|| memory.path.clone()),
        detail,
    };
    let one = place.of("memory", memory.value.as_deref());
    reading.provenance.push(one);
}

#[cfg(test)]
mod tests;
