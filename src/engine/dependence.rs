//! Which objects beside the pod a reading hangs on: what stands in them can change until the pod starts, however well it
//! is known now.
//!
//! Whether a `ConfigMap` counts is asked of the reading itself: the container is read again as if the object had not been
//! looked up, and what comes out the same does not hang on it.

use std::collections::BTreeSet;

use super::read::{Read, config_maps_of, read_once};
use super::reader::Context;
use super::{Engine, ImageRule, LookUp, Placed, Reading, Resolvable, Sources, Unresolved};
use crate::finding::shortened;
use crate::invocation::environment::namespace;
use crate::invocation::{Certainty, Command};
use crate::workload::pod::Pod;

/// ConfigMaps that are asked for one by one; those beyond are asked for together, so that the cost is bounded.
const MOST: usize = 16;

/// What an engine's program gets, word for word.
pub(super) type Line = Vec<(String, Certainty)>;

/// The words of a command.
pub(super) fn line(command: &Command<'_>) -> Line {
    let words = command.words.iter();
    words
        .map(|word| (word.text.clone().into_owned(), word.certainty))
        .collect()
}

/// Sources in which some ConfigMaps have not been looked up.
struct Without<'s> {
    sources: &'s dyn Sources,
    hidden: BTreeSet<&'s str>,
}

impl Sources for Without<'_> {
    fn config_map(&self, namespace: &str, name: &str) -> LookUp<'_> {
        if self.hidden.contains(name) {
            LookUp::NotRead("it can change until the pod starts")
        } else {
            self.sources.config_map(namespace, name)
        }
    }
}

/// Adds to each reading what it hangs on, and makes it partial where there is anything.
pub(super) fn note(
    read: &mut Read,
    pod: &Pod,
    placed: Placed<'_>,
    sources: &dyn Sources,
    rules: &[ImageRule],
) {
    let maps = config_maps_that_count(read, pod, placed, sources, rules);
    let service = placed
        .container
        .actions_of
        .as_ref()
        .filter(|_| read.lines.iter().flatten().any(|(text, _)| text.contains("{{")));
    let service = service.map(|runtime| format!("the InferenceService for which {runtime} is filled in"));
    for reading in &mut read.readings {
        if matches!(reading.engine, Engine::None | Engine::Unknown) {
            continue;
        }
        reading.depends_on.extend(maps.iter().cloned());
        reading.depends_on.extend(service.clone());
        if !reading.depends_on.is_empty() && reading.resolvable == Resolvable::Full {
            reading.resolvable = Resolvable::Partial;
        }
    }
}

fn config_maps_that_count(
    read: &Read,
    pod: &Pod,
    placed: Placed<'_>,
    sources: &dyn Sources,
    rules: &[ImageRule],
) -> Vec<String> {
    let names = config_maps_of(pod, placed.container);
    if names.is_empty() {
        return Vec::new();
    }
    let namespace = namespace(pod);
    let counts = |hidden: BTreeSet<&str>| {
        let without = Without { sources, hidden };
        let other = read_once(pod, placed, &without, rules, false);
        !same(read, &other)
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    if counts(names.iter().copied().collect()) {
        let (some, rest) = names.split_at(names.len().min(MOST));
        let alone = some.iter().filter(|name| counts(BTreeSet::from([**name])));
        found.extend(alone.map(|name| format!("ConfigMap {namespace}/{name}")));
        if !rest.is_empty() && counts(rest.iter().copied().collect()) {
            found.push(format!("{} other ConfigMaps", rest.len()));
        }
        // Each can stand in for the other.
        if found.is_empty() {
            found.extend(some.iter().map(|name| format!("ConfigMap {namespace}/{name}")));
        }
    }
    // An engine that is told by variables would read those of an object that appears later.
    if read.asks {
        let absent = placed.container.env_from.iter().filter_map(|from| {
            let map = from.config_map_ref.as_ref().filter(|map| map.optional)?;
            let is_absent = matches!(sources.config_map(namespace, &map.name), LookUp::Missing);
            is_absent.then(|| format!("ConfigMap {namespace}/{}", map.name))
        });
        for name in absent.take(MOST) {
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

/// Whether two reads of a container say the same, apart from what is told about it.
fn same(one: &Read, other: &Read) -> bool {
    let values = |reading: &Reading| Reading {
        findings: Vec::new(),
        fraction_edit: None,
        length_edit: None,
        tensor_edit: None,
        provenance: Vec::new(),
        ..reading.clone()
    };
    let (mine, others) = (one.readings.iter(), other.readings.iter());
    one.lines == other.lines && mine.map(values).eq(others.map(values))
}

/// A model whose name is filled in for each InferenceService is not known.
pub(super) fn without_actions(context: &Context<'_>, reading: &mut Reading) {
    let Some(runtime) = &context.placed.container.actions_of else {
        return;
    };
    if let Some(model) = reading.model.take_if(|model| model.contains("{{")) {
        reading.unresolved.push(Unresolved {
            field: "model".to_owned(),
            reason: format!(
                "{} of {runtime} is filled in for each InferenceService",
                shortened(&model, 60)
            ),
            decides_memory: false,
        });
        if reading.resolvable == Resolvable::Full {
            reading.resolvable = Resolvable::Partial;
        }
    }
}

/// Nothing that decides the memory could be read: not the model, and nobody wrote how much or how many ranks.
pub(super) fn is_blind(context: &Context<'_>, reading: &Reading) -> bool {
    use super::MemorySource::{ConfigFile, Env, Flag, Policy};
    let sizes = reading.parallelism;
    let written = matches!(reading.memory.source, ConfigFile | Env | Flag | Policy)
        || reading.max_model_len.is_some()
        || [sizes.tensor, sizes.pipeline, sizes.data] != [1; 3]
        || context.rule.is_some();
    !written && reading.model.is_none() && reading.unresolved.iter().any(|known| known.field == "model")
}
