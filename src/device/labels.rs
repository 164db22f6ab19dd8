//! Labels of nodes, of which thousands are alike.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Something that has labels, by which a selector chooses.
pub trait LabelSet {
    /// The value of a label.
    fn value(&self, key: &str) -> Option<&str>;
}

impl LabelSet for BTreeMap<String, String> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// The labels of one node. Nodes that are kept together share the list of keys and the texts of values (a node of a cluster
/// with feature discovery has some sixty labels, of which four are its own).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// In order.
    pub(crate) keys: Arc<[Arc<str>]>,
    /// One for each key.
    pub(crate) values: Box<[Arc<str>]>,
}

impl Labels {
    /// The value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.text(key).map(AsRef::as_ref)
    }

    /// The same, to be kept elsewhere without a copy.
    pub(crate) fn text(&self, key: &str) -> Option<&Arc<str>> {
        let at = self.keys.binary_search_by(|known| (**known).cmp(key)).ok()?;
        self.values.get(at)
    }

    /// All of them, in order of the key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys
            .iter()
            .zip(&self.values)
            .map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    /// The same as a map.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }
}

impl LabelSet for Labels {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

impl From<&BTreeMap<String, String>> for Labels {
    fn from(labels: &BTreeMap<String, String>) -> Self {
        Self {
            keys: labels.keys().map(|key| Arc::from(key.as_str())).collect(),
            values: labels.values().map(|value| Arc::from(value.as_str())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_the_map() {
        let map: BTreeMap<String, String> = [("b", "2"), ("a", "1"), ("c", "")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let labels = Labels::from(&map);
        assert_eq!(labels.to_map(), map);
        for key in ["a", "b", "c", "d", ""] {
            assert_eq!(labels.get(key), map.value(key), "{key}");
        }
    }
}
