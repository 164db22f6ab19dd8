//! What vLLM does to the words before argparse sees them: `--model` of `serve` moved to the front, the file of
//! `--config` put in, underscores made dashes, `-O3`, dotted keys gathered into JSON. Each by release.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::config_file;
use super::options::Entrypoint;
use super::parse::{ParseError, Parsed};
use crate::engine::Version;
use crate::engine::argparse::Arg;
use crate::engine::argparse::yaml::{Files, Unreadable};
use crate::invocation::{Certainty, Word};

pub(super) fn rewrite<'a>(
    version: Version,
    words: &'a [Word<'a>],
    config: &Files<'_, '_>,
    parsed: &mut Parsed<'a>,
) -> Vec<Arg<'a>> {
    let mut args = Arg::of(words);
    if parsed.entrypoint == Entrypoint::Serve && args.first().is_some_and(|arg| arg.text == "serve") {
        move_model(version, &mut args, parsed);
    }
    if args.iter().any(|arg| arg.text == "--config") {
        args = pull_config(version, args, config, parsed);
    }
    for arg in &mut args {
        dashes(version, arg);
    }
    optimization_level(version, &mut args);
    dotted_keys(version, &mut args, parsed);
    args
}

/// `serve --model M`: refused from 0.8 to 0.11.0, moved to the front since 0.11.1. (Until 0.7 the parser itself refuses it.)
fn move_model(version: Version, args: &mut Vec<Arg<'_>>, parsed: &mut Parsed<'_>) {
    if version < Version::new(0, 8, 0) {
        return;
    }
    let separate = args.iter().position(|arg| arg.text == "--model");
    if version < Version::new(0, 11, 1) {
        if separate.is_none() {
            return;
        }
        parsed.fail(|| ParseError::MissingModel("this release refuses --model with serve"));
    }
    let Some(at) = args
        .iter()
        .position(|arg| arg.text == "--model" || arg.text.starts_with("--model="))
    else {
        return;
    };
    if args[at].text == "--model" {
        if at + 1 >= args.len() {
            parsed.fail(|| ParseError::MissingValue("--model".to_owned()));
            return;
        }
        args.remove(at);
        let model = args.remove(at);
        args.insert(1, model);
    } else {
        let mut model = args.remove(at);
        model.text = Cow::Owned(model.text["--model=".len()..].to_owned());
        model.certainty = match model.certainty {
            Certainty::From(unknown) => Certainty::From(unknown.saturating_sub("--model=".len())),
            certainty => certainty,
        };
        model.aligned = false;
        args.insert(1, model);
    }
}

/// `--config FILE`; `--config=FILE` is no such word, and is never read.
fn pull_config<'a>(
    version: Version,
    args: Vec<Arg<'a>>,
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
        return args;
    };
    let lines = match read_config(version, &file, config, parsed) {
        Ok(lines) => lines,
        Err(reason) => {
            parsed.unread_config = Some((file.text.clone(), reason));
            Vec::new()
        }
    };
    let mut from_file = lines.into_iter().map(|text| Arg {
        text: Cow::Owned(text),
        certainty: Certainty::Known,
        word: file.word,
        config: true,
        aligned: false,
    });
    let no_subcommand = args[0].text.starts_with('-');
    let serve = args[0].text == "serve";
    let old = version < Version::new(0, 8, 0);
    let model_in_cli = args.len() > 1 && !args[1].text.starts_with('-');
    // How many leading words stand before those of the file.
    let before = if no_subcommand && version >= Version::new(0, 10, 0) {
        0
    } else if !serve {
        1
    } else if old {
        if index == 1 {
            parsed.fail(|| ParseError::MissingModel("no model before --config"));
        }
        2
    } else {
        let unread = parsed.unread_config.is_some();
        let mut in_file = from_file.clone();
        if !model_in_cli && !unread && !in_file.any(|arg| arg.text == "--model") {
            parsed
                .fail(|| ParseError::MissingModel("no model on the command line or in the file of --config"));
        }
        if model_in_cli { 2 } else { 1 }
    };
    let mut out = Vec::with_capacity(args.len() + 8);
    out.extend(args.iter().take(before).cloned());
    // Whether the module entrypoint of old releases read `--config` as the first of its words at all is the parser's
    // own business: it stands before the file's words then, as there.
    out.extend(&mut from_file);
    for (at, arg) in args.iter().enumerate().skip(before) {
        if at != index && at != index + 1 {
            out.push(arg.clone());
        }
    }
    out
}

fn read_config(
    version: Version,
    file: &Arg<'_>,
    config: &Files<'_, '_>,
    parsed: &mut Parsed<'_>,
) -> Result<Vec<String>, String> {
    if file.certainty != Certainty::Known {
        return Err("the name of the file is not known".to_owned());
    }
    let yaml = std::path::Path::new(&*file.text)
        .extension()
        .is_some_and(|kind| kind == "yaml" || kind == "yml");
    if !yaml {
        parsed.fail(|| ParseError::Other("the file of --config is neither .yaml nor .yml"));
        return Ok(Vec::new());
    }
    match &*config.entries(&file.text)? {
        Ok(Some(entries)) => Ok(config_file::words(entries, version, parsed.entrypoint)),
        Err(Unreadable::Yaml) => {
            parsed.fail(|| ParseError::Other("the file of --config is not valid YAML"));
            Ok(Vec::new())
        }
        Ok(None) | Err(Unreadable::NotAMapping) => {
            parsed.fail(|| ParseError::Other("the file of --config is not a mapping"));
            Ok(Vec::new())
        }
    }
}

/// Underscores are dashes up to the first `.` or `=` (until 0.8 in the whole name).
fn dashes(version: Version, arg: &mut Arg<'_>) {
    if !arg.text.starts_with("--") || !arg.text.contains('_') {
        return;
    }
    let mut end = arg.text.find('=').unwrap_or(arg.text.len());
    if version >= Version::new(0, 9, 0) {
        end = arg.text[..end].find('.').unwrap_or(end);
    }
    if let Certainty::From(unknown) = arg.certainty {
        end = end.min(unknown);
    }
    if arg.text[..end].contains('_') {
        let text = format!("{}{}", arg.text[..end].replace('_', "-"), &arg.text[end..]);
        arg.text = Cow::Owned(text);
    }
}

/// `-O3`, `-O=3`, `-O 3`: `-O.level` from 0.9.2 to 0.11, `--optimization-level` since 0.12; plain argparse before.
fn optimization_level(version: Version, args: &mut [Arg<'_>]) {
    if version < Version::new(0, 9, 2) {
        return;
    }
    let name = if version < Version::new(0, 12, 0) {
        "-O.level"
    } else {
        "--optimization-level"
    };
    for index in 0..args.len() {
        let text = &*args[index].text;
        let Some(level) = text.strip_prefix("-O") else {
            continue;
        };
        if level.is_empty() {
            let next = args.get(index + 1).map_or("", |next| &*next.text);
            if matches!(next, "0" | "1" | "2" | "3") {
                args[index].text = Cow::Borrowed(name);
                args[index].aligned = false;
            }
        } else if level.starts_with('.') && version < Version::new(0, 13, 0) {
            // A key of the compilation configuration, which has another letter since 0.12.
            if version >= Version::new(0, 12, 0) {
                args[index].text = Cow::Owned(format!("-cc{level}"));
                args[index].aligned = false;
            }
        } else {
            let level = level.strip_prefix('=').unwrap_or(level);
            args[index].text = Cow::Owned(format!("{name}={level}"));
            args[index].aligned = false;
        }
    }
}

/// Levels of a dotted option that are followed; options of vLLM have three. What is deeper is not known: values of any
/// depth would overflow the stack of whatever prints or drops them.
const MOST_LEVELS: usize = 64;

/// `--speculative-config.model x`: gathered into one JSON value for each option, placed last.
fn dotted_keys<'a>(version: Version, args: &mut Vec<Arg<'a>>, parsed: &mut Parsed<'a>) {
    if version < Version::new(0, 9, 0) {
        return;
    }
    let typed = version >= Version::new(0, 9, 2);
    let begins = if typed { "-" } else { "--" };
    let is_dotted = |text: &str| {
        text.starts_with(begins) && text.split_once('=').map_or(text, |(name, _)| name).contains('.')
    };
    if !args.iter().any(|arg| is_dotted(&arg.text)) {
        return;
    }
    let mut kept = Vec::with_capacity(args.len());
    let mut gathered: Vec<(String, Map<String, Value>, Certainty, usize)> = Vec::new();
    let mut slots: HashMap<String, usize> = HashMap::new();
    let mut index = 0;
    while let Some(arg) = args.get(index) {
        index += 1;
        if arg.certainty == Certainty::Many || arg.certainty == Certainty::From(0) || !is_dotted(&arg.text) {
            kept.push(arg.clone());
            continue;
        }
        let (name, text, certainty) = if let Some((name, text)) = arg.text.split_once('=') {
            (name, text, arg.certainty)
        } else {
            let Some(next) = args.get(index) else {
                parsed.fail(|| ParseError::Other("a dotted option without a value crashes the parser"));
                continue;
            };
            index += 1;
            (&*arg.text, &*next.text, next.certainty)
        };
        let appends = typed && name.ends_with('+');
        let name = if appends { &name[..name.len() - 1] } else { name };
        let mut keys = name.split('.');
        let option = keys.next().unwrap_or_default();
        let value = |text: &str| {
            let json = typed.then(|| serde_json::from_str(text).ok()).flatten();
            json.unwrap_or_else(|| Value::String(text.to_owned()))
        };
        let value = if appends {
            Value::Array(text.split(',').map(value).collect())
        } else {
            value(text)
        };
        let slot = *slots.entry(option.to_owned()).or_insert_with(|| {
            gathered.push((option.to_owned(), Map::new(), Certainty::Known, arg.word));
            gathered.len() - 1
        });
        let (_, map, known, _) = &mut gathered[slot];
        let levels: Vec<&str> = keys.by_ref().take(MOST_LEVELS).collect();
        let too_deep = keys.next().is_some();
        if !too_deep {
            put(map, &levels, value);
        }
        if too_deep || certainty != Certainty::Known {
            *known = Certainty::From(0);
        }
    }
    for (option, map, certainty, word) in gathered {
        let derived = |text: String, certainty| Arg {
            text: Cow::Owned(text),
            certainty,
            word,
            config: false,
            aligned: false,
        };
        kept.push(derived(option, Certainty::Known));
        kept.push(derived(Value::Object(map).to_string(), certainty));
    }
    *args = kept;
}

fn put(map: &mut Map<String, Value>, keys: &[&str], value: Value) {
    let Some((key, rest)) = keys.split_first() else {
        return;
    };
    if !rest.is_empty() {
        let inner = map
            .entry((*key).to_owned())
            .or_insert_with(|| Value::Object(Map::new()));
        if !inner.is_object() {
            *inner = Value::Object(Map::new());
        }
        if let Value::Object(inner) = inner {
            put(inner, rest, value);
        }
    } else if let (Some(Value::Array(list)), Value::Array(more)) = (map.get_mut(*key), &value) {
        list.extend(more.iter().cloned());
    } else {
        map.insert((*key).to_owned(), value);
    }
}
