//! What a change of manifests does to an object and to the memory of its containers.

use std::fmt;

use serde::Serialize;

use crate::engine::{Engine, MemoryKind, MemorySource};
use crate::units::{Mib, Share};
use crate::workload::ObjectRef;

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It was not there.
    New,
    /// It was there and said something else.
    Changed,
    /// It was there as it is.
    Unchanged,
}

impl ChangeKind {
    /// The word in text and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        }
    }
}

/// The change of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// What becomes of it.
    pub kind: ChangeKind,
    /// The containers whose memory or engine changes.
    pub containers: Vec<ContainerChange>,
    /// The ConfigMaps by which it changes although the object itself stays as it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<String>,
    /// What is to be done first, where it is refused now and would be admitted then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
}

/// What an invocation asks for, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// The engine.
    pub engine: Engine,
    /// Its release, where image or policy tell.
    pub version: Option<String>,
    /// Of which kind the request is.
    pub kind: MemoryKind,
    /// Its text as written, or the release's default.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: MemorySource,
}

/// What one rank takes of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TakenOfDevice {
    /// What is asked for.
    #[serde(rename = "requestMiB")]
    pub request: Mib,
    /// What the process takes outside of it.
    #[serde(rename = "overheadMiB")]
    pub overhead: Mib,
    /// Both as a part of the device.
    pub share: Share,
}

/// What a container takes of one kind of device, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceChange {
    /// The product, or the resource where no product is known.
    pub device: String,
    /// Before; absent where it took none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<TakenOfDevice>,
    /// After; absent where it takes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<TakenOfDevice>,
}

impl DeviceChange {
    /// Whether it takes a larger part than before.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => new.share > old.share,
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }
}

/// One container whose memory or engine changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContainerChange {
    /// Its name.
    pub container: String,
    /// Before; absent for a new container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Asked>,
    /// After; absent for one that is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Asked>,
    /// By kind of device of the cluster.
    pub devices: Vec<DeviceChange>,
}

impl fmt::Display for ContainerChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "container {}: ", self.container)?;
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => between(f, old, new)?,
            (None, Some(new)) => write!(f, "new, {}", release(new))?,
            (Some(old), None) => write!(f, "gone, it was {}", release(old))?,
            (None, None) => {}
        }
        for device in &self.devices {
            write!(f, "; on {}: ", device.device)?;
            match (&device.old, &device.new) {
                (Some(old), Some(new)) => {
                    let (request, overhead) = (
                        arrow(&old.request.get(), &new.request.get()),
                        arrow(&old.overhead.get(), &new.overhead.get()),
                    );
                    let share = arrow(&old.share, &new.share);
                    write!(f, "{request} MiB and {overhead} MiB overhead, share {share}")?;
                }
                (None, Some(new)) => write!(f, "share {}", new.share)?,
                (Some(old), None) => write!(f, "share {} no longer", old.share)?,
                (None, None) => {}
            }
        }
        Ok(())
    }
}

fn between(f: &mut fmt::Formatter<'_>, old: &Asked, new: &Asked) -> fmt::Result {
    let (before, after) = (release(old), release(new));
    if old.engine == new.engine && before != after {
        let version = |asked: &Asked| {
            asked
                .version
                .clone()
                .unwrap_or_else(|| "unknown release".to_owned())
        };
        write!(f, "{} {} -> {}", old.engine, version(old), version(new))?;
    } else {
        write!(f, "{}", arrow(&before, &after))?;
    }
    if (&old.value, old.source, old.kind) == (&new.value, new.source, new.kind) {
        return Ok(());
    }
    if (old.source, old.kind) == (new.source, new.kind) {
        let phrase = phrase(new);
        return write!(f, "; {phrase} {} -> {}", value(old), value(new));
    }
    write!(
        f,
        "; {} {} -> {} {}",
        phrase(old),
        value(old),
        phrase(new),
        value(new)
    )
}

fn release(asked: &Asked) -> String {
    match &asked.version {
        Some(version) => format!("{} {version}", asked.engine),
        None => asked.engine.to_string(),
    }
}

fn phrase(asked: &Asked) -> String {
    let what = match asked.kind {
        MemoryKind::OfTotal | MemoryKind::OfFree | MemoryKind::OfFreeAfterWeights => "memory fraction",
        _ => "memory",
    };
    match asked.source {
        MemorySource::Default => format!("its default {what}"),
        MemorySource::Flag => format!("{what} by its flag"),
        MemorySource::Env => format!("{what} by a variable"),
        _ => what.to_owned(),
    }
}

fn value(asked: &Asked) -> &str {
    asked.value.as_deref().unwrap_or("unknown")
}

fn arrow<T: fmt::Display + PartialEq>(old: &T, new: &T) -> String {
    if old == new {
        new.to_string()
    } else {
        format!("{old} -> {new}")
    }
}

/// How many objects a change touches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChangeSummary {
    /// Objects that were not there.
    pub new: usize,
    /// Objects that say something else.
    pub changed: usize,
    /// Objects that stay as they are.
    pub unchanged: usize,
    /// Objects that make pods and are no longer there.
    pub removed: Vec<ObjectRef>,
}
