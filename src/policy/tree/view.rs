//! A look at one value of a tree, for readers that check it by hand.

use std::ops::Range;

use super::{Position, Shape, Tree};

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum View<'t> {
    Null,
    Bool(bool),
    /// In decimal digits, or as the parser's float.
    Number(&'t str),
    Text(&'t str),
    List(&'t [Tree]),
    Map(Entries<'t>),
}

/// The entries of a map, in the order of the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entries<'t>(&'t [super::Entry]);

impl<'t> Entries<'t> {
    /// Key, place of the key, value.
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'t str, Option<Position>, &'t Tree)> {
        self.0
            .iter()
            .map(|entry| (entry.key.as_str(), entry.at, &entry.value))
    }
}

impl Tree {
    /// The bytes of the text in which the value is written; of one that an alias repeats, those at its anchor.
    pub(crate) fn bytes(&self) -> Option<Range<usize>> {
        self.bytes.map(|(start, end)| start..end)
    }

    /// What the value is.
    pub(crate) fn view(&self) -> View<'_> {
        match &self.shape {
            Shape::Null | Shape::Removed => View::Null,
            Shape::Bool(value) => View::Bool(*value),
            Shape::Number(text) => View::Number(text),
            Shape::Text(text) => View::Text(text),
            Shape::List(items) => View::List(items),
            Shape::Map(entries) => View::Map(Entries(entries)),
        }
    }
}
