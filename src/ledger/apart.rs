//! A map whose values stand apart from its keys.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// See the module. A leaf of a B-tree has room for eleven entries, and a good part of it stays empty: all of it where a map
/// has one entry, half of it where keys come in order. Of values as large as these, tens of thousands of them, that is
/// megabytes.
#[derive(Clone, Debug)]
pub(super) struct Apart<V>(BTreeMap<Arc<str>, Box<V>>);

impl<V> Default for Apart<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V> Apart<V> {
    pub(super) fn get(&self, key: &str) -> Option<&V> {
        self.0.get(key).map(|value| &**value)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        self.0.get_mut(key).map(|value| &mut **value)
    }

    pub(super) fn get_key_value(&self, key: &str) -> Option<(&Arc<str>, &V)> {
        self.0.get_key_value(key).map(|(key, value)| (key, &**value))
    }

    pub(super) fn contains_key(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn insert(&mut self, key: Arc<str>, value: V) -> Option<V> {
        self.0.insert(key, Box::new(value)).map(|value| *value)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<V> {
        self.0.remove(key).map(|value| *value)
    }

    pub(super) fn remove_entry(&mut self, key: &str) -> Option<(Arc<str>, V)> {
        self.0.remove_entry(key).map(|(key, value)| (key, *value))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.values().map(|value| &**value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &V)> {
        self.0.iter().map(|(key, value)| (key, &**value))
    }

    /// The entries behind a key, in order; all where there is none.
    pub(super) fn behind(&self, key: Option<&str>) -> impl Iterator<Item = (&Arc<str>, &V)> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.0.range::<str, _>((from, Bound::Unbounded));
        behind.map(|(key, value)| (key, &**value))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (key, &mut **value))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_the_order_of_their_keys() {
        let mut map = Apart::default();
        for key in ["c", "a", "b"] {
            assert_eq!(map.insert(Arc::from(key), key.len()), None);
        }
        let behind = |key: Option<&str>| map.behind(key).map(|(key, _)| &**key).collect::<String>();
        assert_eq!(
            [
                behind(None),
                behind(Some("a")),
                behind(Some("bb")),
                behind(Some("c"))
            ],
            ["abc", "bc", "c", ""]
        );
        assert_eq!(map.remove("b"), Some(1));
        assert!(!map.contains_key("b") && map.get("a") == Some(&1) && !map.is_empty());
    }
}
