//! Finding a model by the name under which an engine is to load it.
//!
//! Names of repositories follow conventions: `publisher/Family-Release-Size-Role-Date-Format`. A name is looked up as it
//! stands, then without its publisher, then without the words that tell of the format, then without roles and dates.
//! Family, release and size always decide: `Llama-3-8B` is never `Llama-3.1-8B`, and a name with a word that is not
//! understood is unknown. How a model was found is part of the answer, and whether that is certain.

use std::fmt;

use super::{Catalogue, Format, Model};

mod index;
mod marks;
mod nearest;
mod place;
mod search;
mod vocabulary;
mod words;

pub(super) use index::Index;

/// What a text says of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<'c> {
    /// The model is known.
    Known {
        /// Its entry.
        model: &'c Model,
        /// The format of its weights, by the name or as it is released; `None` is that of `torchDtype`.
        format: Option<Format>,
        /// Longest context that its configuration declares under this name, in tokens.
        positions: u64,
        /// How it was found.
        how: How,
    },
    /// It is not.
    Unknown {
        /// Why.
        reason: Reason,
        /// Known names that it may stand for, best first; at most a few.
        nearest: Vec<String>,
    },
}

/// Why a text names no known model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no text.
    Empty,
    /// It is too long for a name.
    TooLong,
    /// It holds control characters.
    Control,
    /// It holds a variable or a placeholder.
    Variable,
    /// It is a URL.
    Url,
    /// It is a path whose last part is no known name.
    Path,
    /// It names the class that loads a model.
    Architecture,
    /// It names a format whose size is not known.
    Format,
    /// It names two formats.
    Formats,
    /// Several models of different shape have such names.
    Ambiguous,
    /// No model of this name is known.
    NotKnown,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "no model is named",
            Self::TooLong => "the name has more than 200 characters",
            Self::Control => "the name holds control characters",
            Self::Variable => "the name holds a variable or a placeholder, whose value is not known",
            Self::Url => "a URL does not tell which model lies there",
            Self::Path => "a path does not tell which model lies there",
            Self::Architecture => "this is the class that loads a model, not the model",
            Self::Format => "the name tells a format whose size is not known",
            Self::Formats => "the name tells two formats of weights",
            Self::Ambiguous => "several models of different shape have such names",
            Self::NotKnown => "no model of this name is known",
        })
    }
}

/// The way on which a model was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct How {
    /// The kind of way.
    pub way: Way,
    /// The id or published name at which it ends.
    pub name: String,
    /// What was set aside in the text, in lower case.
    pub set_aside: Vec<String>,
    /// Whether the text is a path, of which only the last part was read.
    pub path: bool,
    /// Whether the text tells of an adapter of the model.
    pub adapter: bool,
    /// Whether the text describes a model rather than naming it.
    pub described: bool,
}

/// Kinds of ways to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Its id in the catalogue.
    Id,
    /// A name under which it is published.
    Published,
    /// Such a name under another publisher, or none.
    Mirror,
    /// Such a name beside words that do not change its shape.
    Convention,
    /// Family and size without a release, of which all that are known have one shape.
    Release,
    /// A release with an open end (`M2.x`), of which all that are known have one shape.
    Pattern,
    /// Two names of one model (`V3/R1`).
    Alternatives,
}

impl How {
    /// Whether the text names this model and no other. It is not certain where a path, a description or an open release
    /// was read: then an estimate may warn and must not refuse.
    #[must_use]
    pub const fn is_certain(&self) -> bool {
        !self.path
            && !self.described
            && !self.adapter
            && matches!(self.way, Way::Id | Way::Published | Way::Mirror | Way::Convention)
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.way {
            Way::Id => write!(f, "by the id {}", self.name)?,
            Way::Published => write!(f, "by the published name {}", self.name)?,
            Way::Mirror if self.set_aside.is_empty() => write!(f, "by the name of {}", self.name)?,
            Way::Mirror => write!(f, "as a copy of {}", self.name)?,
            Way::Convention => write!(f, "by the conventions of names, as {}", self.name)?,
            Way::Release => write!(
                f,
                "by family and size, as {} and all releases known have one shape",
                self.name
            )?,
            Way::Pattern => write!(f, "as {}, whose releases known have one shape", self.name)?,
            Way::Alternatives => write!(f, "as {}, which has both names", self.name)?,
        }
        if !self.set_aside.is_empty() {
            write!(f, ", setting aside {}", self.set_aside.join(", "))?;
        }
        if self.adapter {
            f.write_str(", of which this may be an adapter")?;
        } else if self.described {
            f.write_str(", from a description")?;
        }
        if self.path {
            f.write_str(", by the last part of a path")?;
        }
        Ok(())
    }
}

/// Finds the model that a text names. Work is bounded whatever the text; nothing is read but the catalogue.
///
/// `--served-model-name` is not such a text: anyone may call a model anything.
#[must_use]
pub fn find<'c>(catalogue: &'c Catalogue, text: &str) -> Found<'c> {
    search::find(catalogue, text, true)
}

/// The same without names that an unknown one may stand for: what a review looks up costs a review.
#[must_use]
pub fn find_only<'c>(catalogue: &'c Catalogue, text: &str) -> Found<'c> {
    search::find(catalogue, text, false)
}

/// Who published a model, by the name under which it is loaded (`publisher/name`); `None` for a path, and for a text that
/// names nobody.
#[must_use]
pub fn publisher(text: &str) -> Option<&str> {
    let text = text.trim();
    place::check(text).ok()?;
    let (place, reason) = place::place(text);
    place.publisher.filter(|_| !place.path && reason.is_none())
}
