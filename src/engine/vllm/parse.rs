//! vLLM's command line, read as the release's own parser reads it.
//!
//! vLLM rewrites the words first (`--config`, underscores, `-O3`, dotted keys; `rewrite`) and gives the result to
//! Python's argparse ([`crate::engine::argparse`]).

use std::ops::{Deref, DerefMut};

use super::options::{self, Entrypoint};
use super::rewrite;
use super::value::{self, Value};
use crate::engine::Version;
use crate::engine::argparse::parser::{self, Rules};
use crate::engine::argparse::yaml::Files;
use crate::engine::argparse::{self, Arg};
use crate::invocation::Word;

mod together;
mod typed;

pub use crate::engine::argparse::{ConfigFile, ParseError, Place, Setting};

/// What a command line of vLLM sets.
#[derive(Clone, Debug)]
pub struct Parsed<'a> {
    /// How the server is started.
    pub entrypoint: Entrypoint,
    line: argparse::Parsed<'a>,
}

impl<'a> Deref for Parsed<'a> {
    type Target = argparse::Parsed<'a>;

    fn deref(&self) -> &Self::Target {
        &self.line
    }
}

impl DerefMut for Parsed<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.line
    }
}

impl Parsed<'_> {
    /// The same with places in a list of words that begins `by` words earlier.
    pub(super) fn shifted(mut self, by: usize) -> Self {
        self.shift(by);
        self
    }

    /// The model: the positional word first, as the server applies it, then `--model`, then the release's default.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        match &self.positional {
            Some(Setting {
                value: Value::Unresolved,
                ..
            }) => None,
            Some(setting) if self.entrypoint == Entrypoint::Serve => Some(&setting.text),
            _ => self.text("--model").or_else(|| {
                // `serve` of 0.9.0.1 has no such option, but the engine behind it has the default.
                (self.last("--model").is_none()).then_some("facebook/opt-125m")
            }),
        }
    }
}

/// Reads a command line as the release at `position` of [`options::releases`] does.
///
/// `words` are those after `vllm` (so the first one is `serve`) or after the module. `config` looks up the file that
/// `--config` names.
#[must_use]
pub fn parse<'a>(
    position: usize,
    entrypoint: Entrypoint,
    words: &'a [Word<'a>],
    config: &ConfigFile<'_>,
) -> Parsed<'a> {
    parse_with(position, entrypoint, words, &Files::new(config))
}

/// [`parse`] with a file that several releases read.
pub(super) fn parse_with<'a>(
    position: usize,
    entrypoint: Entrypoint,
    words: &'a [Word<'a>],
    config: &Files<'_, '_>,
) -> Parsed<'a> {
    let versions = options::releases();
    let position = position.min(versions.len().saturating_sub(1));
    let version = versions.get(position).copied().unwrap_or(Version::new(0, 0, 0));
    let spellings = options::release(position, entrypoint);
    let mut parsed = Parsed {
        entrypoint,
        line: argparse::Parsed::new(version, spellings, words.len()),
    };
    let Some(spellings) = spellings else {
        return parsed;
    };
    let args = rewrite::rewrite(version, words, config, &mut parsed);
    let serve = entrypoint == Entrypoint::Serve;
    let rules = Rules {
        spellings,
        subcommand: serve.then_some("serve"),
        positional: serve || version >= Version::new(0, 10, 0),
        help_takes_value: version >= Version::new(0, 11, 0),
        read: &|option, text| value::read(option, version, text),
        missing: &|line| {
            let needed = serve && version < Version::new(0, 8, 0);
            (needed && line.positional.is_none() && line.open.is_none()).then_some(ParseError::MissingModel(
                "this release needs the model as a positional argument",
            ))
        },
    };
    parser::parse(&rules, &mut parsed.line, &args);
    if serve {
        check_serve(version, &args, &mut parsed);
    }
    parsed
}

/// What the server itself checks once argparse has read the words of `serve`.
fn check_serve(version: Version, args: &[Arg<'_>], parsed: &mut Parsed<'_>) {
    // The default written out is not told from none at all.
    let default = parsed.default("--model");
    if version < Version::new(0, 8, 0)
        && parsed
            .last("--model")
            .is_some_and(|setting| setting.value == Value::Text && Some(&*setting.text) != default)
    {
        parsed.fail(|| ParseError::MissingModel("this release refuses --model with serve"));
    }
    let named = parsed.last("--served-model-name").is_some();
    // It looks at the first word only, so a model behind an option does not count.
    let leads = args.get(1).is_some_and(|arg| !arg.text.starts_with('-'));
    let has_model = leads || parsed.last("--model").is_some();
    if version >= Version::new(0, 19, 0) && named && !has_model && parsed.open.is_none() {
        parsed.fail(|| ParseError::MissingModel("--served-model-name needs a model before it"));
    }
    if version < Version::new(0, 15, 0) {
        return;
    }
    let set = |option| {
        parsed
            .last(option)
            .is_some_and(|setting| matches!(setting.value, Value::Int(_)))
    };
    let servers = matches!(parsed.int("--api-server-count"), Some(count) if count > 0);
    if set("--data-parallel-rank") && set("--data-parallel-start-rank")
        || parsed.flag("--headless") && set("--api-server-count") && servers
    {
        parsed.fail(|| ParseError::Other("options that exclude each other"));
    }
}
