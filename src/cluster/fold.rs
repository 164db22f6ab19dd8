//! Folds watched objects into the facts and forgets them.

mod config_maps;
mod namespaces;
mod nodes;
mod pods;
mod policies;
mod records;
mod resources;
mod templates;

use std::collections::HashMap;

pub(super) use config_maps::ConfigMapFold;
pub(super) use namespaces::{Namespace, NamespaceFold, Namespaces, complete_labels};
pub(super) use nodes::NodeFold;
pub(super) use pods::PodFold;
pub(super) use policies::PolicyFold;
pub(super) use records::RecordFold;
pub(super) use resources::{Resource, ResourceFold};

/// Which objects the facts hold, so that those which a later list does not name can be taken out.
#[derive(Debug, Default)]
struct Known<V> {
    entries: HashMap<Box<str>, (u32, V)>,
    round: u32,
}

impl<V> Known<V> {
    /// A new list starts.
    fn begin(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    fn contains(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    fn get(&self, key: &str) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// The object is there, with this value.
    fn set(&mut self, key: &str, value: V) {
        let entry = (self.round, value);
        match self.entries.get_mut(key) {
            Some(known) => *known = entry,
            None => {
                self.entries.insert(key.into(), entry);
            }
        }
    }

    /// Replaces what is kept beside each object.
    fn set_all(&mut self, value: impl Fn() -> V) {
        self.entries.values_mut().for_each(|(_, kept)| *kept = value());
    }

    /// The object is still there, as it was.
    fn touch(&mut self, key: &str) {
        if let Some((round, _)) = self.entries.get_mut(key) {
            *round = self.round;
        }
    }

    /// Whether the object was there.
    fn remove(&mut self, key: &str) -> bool {
        self.entries.remove(key).is_some()
    }

    /// Forgets and returns what the list of this round did not name.
    fn complete(&mut self) -> Vec<Box<str>> {
        let round = self.round;
        let mut gone: Vec<_> = self
            .entries
            .extract_if(|_, (seen, _)| *seen != round)
            .map(|(key, _)| key)
            .collect();
        gone.sort_unstable();
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_list_does_not_name_is_gone() {
        let mut known = Known::default();
        known.begin();
        for key in ["a", "b", "c"] {
            known.set(key, ());
        }
        assert!(known.complete().is_empty());
        assert!(known.remove("c") && !known.remove("c"));
        known.set("d", ());
        known.begin();
        known.touch("b");
        known.touch("never-seen");
        known.set("e", ());
        assert_eq!(known.complete(), ["a".into(), "d".into()] as [Box<str>; 2]);
        assert!(known.contains("b") && known.contains("e") && !known.contains("never-seen"));
    }
}
