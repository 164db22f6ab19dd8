//! The ways into the catalogue, built once with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::words::Words;
use crate::model::Model;

/// A name that leads to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The entry's position in the catalogue.
    pub(super) model: usize,
    /// Which of its published names; `None` is its id.
    pub(super) name: Option<usize>,
}

impl Target {
    /// The text that leads here.
    pub(super) fn text(self, model: &Model) -> &str {
        self.name
            .and_then(|name| model.names.get(name))
            .map_or(&model.id, |name| name)
    }
}

/// Ways into a catalogue. Keys are in lower case; [`Words`] tells what the others are.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct Index {
    /// How many entries stand before those of the binary.
    own: usize,
    ids: BTreeMap<String, Target>,
    names: BTreeMap<String, Target>,
    /// Names without publisher.
    tails: BTreeMap<String, Vec<Target>>,
    /// By [`Words::full`].
    full: BTreeMap<String, Vec<Target>>,
    /// By [`Words::family`].
    families: BTreeMap<String, Vec<Target>>,
    /// By [`Words::whatever_release`], ids only.
    releases: BTreeMap<String, Vec<Target>>,
    publishers: BTreeSet<String>,
}

impl Index {
    pub(in crate::model) fn of(models: &[Arc<Model>], own: usize) -> Self {
        let mut index = Self {
            own,
            ..Self::default()
        };
        for (position, model) in models.iter().enumerate() {
            let target = Target {
                model: position,
                name: None,
            };
            index.ids.entry(model.id.to_ascii_lowercase()).or_insert(target);
            let words = Words::of(&model.id);
            index.words(&words, target);
            push(&mut index.releases, words.whatever_release(), target);
            for (name, text) in model.names.iter().enumerate() {
                let target = Target {
                    model: position,
                    name: Some(name),
                };
                index.name(text, target);
            }
        }
        index
    }

    fn name(&mut self, text: &str, target: Target) {
        self.names.entry(text.to_ascii_lowercase()).or_insert(target);
        let tail = match text.rsplit_once('/') {
            Some((publisher, tail)) => {
                self.publishers.insert(publisher.to_ascii_lowercase());
                tail
            }
            None => text,
        };
        push(&mut self.tails, tail.to_ascii_lowercase(), target);
        self.words(&Words::of(tail), target);
    }

    fn words(&mut self, words: &Words, target: Target) {
        push(&mut self.full, words.full(), target);
        push(&mut self.families, words.family(), target);
    }

    pub(in crate::model) fn id(&self, id: &str) -> Option<usize> {
        self.ids.get(&id.to_ascii_lowercase()).map(|target| target.model)
    }

    /// By id or by whole name, in lower case.
    pub(super) fn exact(&self, text: &str) -> Option<Target> {
        self.names.get(text).or_else(|| self.ids.get(text)).copied()
    }

    /// By a name without publisher, in lower case.
    pub(super) fn tail(&self, text: &str) -> &[Target] {
        found(&self.tails, text)
    }

    pub(super) fn full(&self, key: &str) -> &[Target] {
        found(&self.full, key)
    }

    pub(super) fn family(&self, key: &str) -> &[Target] {
        found(&self.families, key)
    }

    pub(super) fn release(&self, key: &str) -> &[Target] {
        found(&self.releases, key)
    }

    /// Keys of [`Words::full`] that begin so, in their order.
    pub(super) fn beginning<'i>(&'i self, start: &'i str) -> impl Iterator<Item = (&'i str, &'i [Target])> {
        self.full
            .range::<str, _>((std::ops::Bound::Included(start), std::ops::Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(start))
            .map(|(key, targets)| (key.as_str(), targets.as_slice()))
    }

    /// Whether a publisher of known models has this name, in lower case.
    pub(super) fn is_publisher(&self, name: &str) -> bool {
        self.publishers.contains(name)
    }

    /// Whether an entry is a policy's, not the binary's.
    pub(super) const fn is_own(&self, target: Target) -> bool {
        target.model < self.own
    }
}

fn push(map: &mut BTreeMap<String, Vec<Target>>, key: String, target: Target) {
    if !key.is_empty() {
        map.entry(key).or_default().push(target);
    }
}

fn found<'m>(map: &'m BTreeMap<String, Vec<Target>>, key: &str) -> &'m [Target] {
    map.get(key).map_or(&[], Vec::as_slice)
}
