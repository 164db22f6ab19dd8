//! The file of `--config`: a flat YAML mapping whose keys become options before all words of the command line.

use std::borrow::Cow;

use crate::engine::Version;
use crate::engine::argparse::table::{Arity, Spellings};
use crate::engine::argparse::yaml::{Files, Node, Unreadable};
use crate::engine::argparse::{Arg, ParseError, Parsed};
use crate::invocation::Certainty;

/// From here on (the first release that was read after 0.5.7) the file knows the options: those that are more than a
/// stored value or a plain flag are refused, and only plain flags are set by `true` alone.
const KNOWS_OPTIONS: Version = Version([0, 5, 10, 1]);
/// The first release that was read which writes a mapping as JSON rather than as Python does.
const JSON_MAPPINGS: Version = Version::new(0, 5, 23);

/// `--config FILE`; `--config=FILE` is no such word, and is never read.
pub(super) fn put<'a>(
    version: Version,
    spellings: &Spellings,
    mut args: Vec<Arg<'a>>,
    config: &Files<'_, '_>,
    parsed: &mut Parsed<'a>,
) -> Vec<Arg<'a>> {
    if args.iter().filter(|arg| arg.text == "--config").count() > 1 {
        parsed.fail(|| ParseError::Other("two --config words"));
    }
    let Some(index) = args.iter().position(|arg| arg.text == "--config") else {
        return args;
    };
    let Some(file) = args.get(index + 1).cloned() else {
        parsed.fail(|| ParseError::MissingValue("--config".to_owned()));
        args.truncate(index);
        return args;
    };
    let words = match read(version, spellings, &file, config) {
        Ok(words) => words,
        Err(Problem::Refused(reason)) => {
            parsed.fail(|| ParseError::Other(reason));
            Vec::new()
        }
        Err(Problem::Unread(reason)) => {
            parsed.unread_config = Some((file.text.clone(), reason));
            Vec::new()
        }
    };
    args.drain(index..=index + 1);
    let from_file = words.into_iter().map(|text| Arg {
        text: Cow::Owned(text),
        certainty: Certainty::Known,
        word: file.word,
        config: true,
        aligned: false,
    });
    from_file.chain(args).collect()
}

enum Problem {
    /// The process ends with it.
    Refused(&'static str),
    /// Its content is not known here.
    Unread(String),
}

fn read(
    version: Version,
    spellings: &Spellings,
    file: &Arg<'_>,
    config: &Files<'_, '_>,
) -> Result<Vec<String>, Problem> {
    if file.certainty != Certainty::Known {
        return Err(Problem::Unread("the name of the file is not known".to_owned()));
    }
    let yaml = std::path::Path::new(&*file.text)
        .extension()
        .is_some_and(|kind| kind.eq_ignore_ascii_case("yaml") || kind.eq_ignore_ascii_case("yml"));
    if !yaml {
        return Err(Problem::Refused("the file of --config is neither .yaml nor .yml"));
    }
    let loaded = config.entries(&file.text).map_err(Problem::Unread)?;
    let entries = loaded.as_ref().as_ref().map_err(|problem| {
        Problem::Refused(match problem {
            Unreadable::Yaml => "the file of --config is not valid YAML",
            Unreadable::NotAMapping => "the file of --config is not a mapping",
        })
    })?;
    let mut words = Vec::new();
    for (key, node) in entries.iter().flatten() {
        let name = format!("--{}", key.replace('_', "-"));
        let option = spellings.named(&name).filter(|option| option.name == name);
        let argv_only = version >= KNOWS_OPTIONS && option.is_some_and(|option| option.only == "argv");
        if argv_only {
            return Err(Problem::Refused(
                "the file of --config holds an option that it may not hold",
            ));
        }
        let flag = version < KNOWS_OPTIONS || option.is_some_and(|option| option.arity == Arity::Flag);
        let key = format!("--{key}");
        match node {
            Node::Map(_) if version >= JSON_MAPPINGS => words.extend([key, node.json().to_string()]),
            node => add(&mut words, key, node, flag),
        }
    }
    Ok(words)
}

/// The words of one entry. `false` says nothing of a flag: the command line may still set it.
fn add(words: &mut Vec<String>, key: String, node: &Node, flag: bool) {
    match node {
        Node::Bool(true) if flag => words.push(key),
        Node::Bool(false) if flag => {}
        Node::Bool(value) => words.extend([key, value.to_string()]),
        Node::List(list) if list.is_empty() => {}
        Node::List(list) => {
            words.push(key);
            words.extend(list.iter().map(Node::text));
        }
        other => words.extend([key, other.text()]),
    }
}
