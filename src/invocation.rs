//! What a container will execute: image entrypoint, command, arguments and environment, after all expansion.

use std::borrow::Cow;

/// How much of a word is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// All of it.
    Known,
    /// It is one word, but from this byte on its text depends on something unreadable.
    From(usize),
    /// It stands for any number of words.
    Many,
}

/// One word of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// Its text; what is unreadable stands in it as it was written.
    pub text: Cow<'a, str>,
    /// How much of the text is known.
    pub certainty: Certainty,
}

impl<'a> Word<'a> {
    /// A word that stands as it is.
    #[must_use]
    pub const fn literal(text: &'a str) -> Self {
        Self { text: Cow::Borrowed(text), certainty: Certainty::Known }
    }
}
