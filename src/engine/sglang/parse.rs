//! SGLang's command line, read as the release's own parser reads it.
//!
//! `sglang serve` looks for the model first (`serve`); both ways then put in the file of `--config` (`config_file`) and
//! give the words to Python's argparse ([`crate::engine::argparse`]).

use super::options::{self, Entrypoint};
use super::{config_file, serve, value};
use crate::engine::Version;
use crate::engine::argparse::parser::{self, Rules};
use crate::engine::argparse::yaml::Files;
use crate::engine::argparse::{Arg, ConfigFile};
use crate::invocation::Word;

pub use crate::engine::argparse::{ParseError, Parsed, Place, Setting};

/// Reads a command line as the release at `position` of [`options::releases`] does.
///
/// `words` are those after `sglang` (so the first one is `serve`) or after the module. `config` looks up the file that
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
    let spellings = options::release(position);
    let mut parsed = Parsed::new(version, spellings, words.len());
    let Some(spellings) = spellings else {
        return parsed;
    };
    let mut args = Arg::of(words);
    if entrypoint == Entrypoint::Serve {
        args = serve::dispatch(version, args, &mut parsed);
    }
    if spellings.exact("--config").is_some() && args.iter().any(|arg| arg.text == "--config") {
        args = config_file::put(version, spellings, args, config, &mut parsed);
    }
    let rules = Rules {
        spellings,
        subcommand: None,
        positional: false,
        help_takes_value: false,
        read: &value::read,
        missing: &|line| {
            let missing =
                line.last("--model-path").is_none() && line.open.is_none() && line.unread_config.is_none();
            missing.then_some(ParseError::MissingModel("--model-path is required"))
        },
    };
    parser::parse(&rules, &mut parsed, &args);
    parsed
}
