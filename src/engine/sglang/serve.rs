//! What `sglang serve` does to the words before the server's own parser sees them.

use std::borrow::Cow;

use crate::engine::Version;
use crate::engine::argparse::{Arg, ParseError, Parsed};
use crate::invocation::Certainty;

/// The first release that was read in which the program has `serve`.
const PROGRAM: Version = Version([0, 5, 6, 2]);
/// The first that was read with `--model-type`.
const MODEL_TYPE: Version = Version([0, 5, 10, 1]);
/// The first that was read which finds a model under `--model` as well.
const SHORT_MODEL: Version = Version([0, 5, 15, 1]);
/// The first that was read which takes the model as the first word.
const POSITIONAL: Version = Version::new(0, 5, 23);

/// Takes off `serve` and what the program itself reads, and notes what it refuses. `serve MODEL` becomes
/// `--model-path MODEL`, also where the release refuses it, so that what was meant is read.
pub(super) fn dispatch<'a>(version: Version, args: Vec<Arg<'a>>, parsed: &mut Parsed<'a>) -> Vec<Arg<'a>> {
    if version < PROGRAM {
        parsed.fail(|| ParseError::Other("this release has no sglang serve"));
    }
    let Some(mut args) = after_subcommand(args, parsed) else {
        return Vec::new();
    };
    if version >= MODEL_TYPE {
        take_model_type(&mut args, parsed);
    }
    if args.iter().any(|arg| arg.text == "-h" || arg.text == "--help") {
        parsed.fail(|| ParseError::Other("it prints help or the version"));
    }
    let leads = args
        .first()
        .is_some_and(|arg| !arg.text.starts_with('-') && arg.certainty != Certainty::Many);
    let found = leads && version >= POSITIONAL
        || names_model(version, &args)
        || args.iter().any(|arg| arg.certainty == Certainty::Many);
    if !found {
        let reason = if leads {
            "this release wants it behind --model-path"
        } else {
            "--model-path must be spelled out on the command line"
        };
        parsed.fail(|| ParseError::MissingModel(reason));
    }
    if leads {
        let option = Arg {
            text: Cow::Borrowed("--model-path"),
            certainty: Certainty::Known,
            word: args[0].word,
            config: false,
            aligned: false,
        };
        args.insert(0, option);
    }
    args
}

/// The words of `serve`: those before it that the program does not know as well, in order.
fn after_subcommand<'a>(args: Vec<Arg<'a>>, parsed: &mut Parsed<'a>) -> Option<Vec<Arg<'a>>> {
    let mut rest = Vec::with_capacity(args.len() + 1);
    let mut args = args.into_iter().enumerate();
    for (index, arg) in args.by_ref() {
        if arg.certainty == Certainty::Many {
            parsed.open = Some(index);
            return None;
        }
        let text = &*arg.text;
        if text == "serve" {
            rest.extend(args.map(|(_, arg)| arg));
            return Some(rest);
        }
        if text.len() < 2 || !text.starts_with('-') {
            parsed.fail(|| ParseError::Other("unknown subcommand"));
            return None;
        }
        if text == "-h" || text.len() > 2 && "--help".starts_with(text) {
            parsed.fail(|| ParseError::Other("it prints help or the version"));
            return None;
        }
        rest.push(arg);
    }
    parsed.fail(|| ParseError::Other("no subcommand"));
    None
}

/// `--model-type VALUE` and `--model-type=VALUE`, wherever they stand; the last one counts.
fn take_model_type(args: &mut Vec<Arg<'_>>, parsed: &mut Parsed<'_>) {
    let mut last = None;
    let mut kept = Vec::with_capacity(args.len());
    let mut rest = std::mem::take(args).into_iter();
    while let Some(arg) = rest.next() {
        if arg.text == "--model-type" {
            match rest.next() {
                Some(value) => last = Some((value.text.clone().into_owned(), value.certainty)),
                None => parsed.fail(|| ParseError::MissingValue("--model-type".to_owned())),
            }
        } else if let Some(value) = arg.text.strip_prefix("--model-type=") {
            last = Some((value.to_owned(), arg.certainty));
        } else {
            kept.push(arg);
        }
    }
    *args = kept;
    if let Some((value, Certainty::Known)) = last
        && !["auto", "llm", "diffusion"].contains(&&*value)
    {
        parsed.fail(|| ParseError::Other("its --model-type is none of auto, llm and diffusion"));
    }
}

/// Whether the model is found: by whole words, not by prefixes, and not in the file of `--config`.
fn names_model(version: Version, args: &[Arg<'_>]) -> bool {
    let is_name = |text: &str| text == "--model-path" || text == "--model" && version >= SHORT_MODEL;
    args.iter()
        .enumerate()
        .any(|(index, arg)| match arg.text.split_once('=') {
            Some((name, _)) => is_name(name),
            None => is_name(&arg.text) && index + 1 < args.len(),
        })
}
