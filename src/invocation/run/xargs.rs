//! `xargs`, `parallel` and `find -exec`, whose program gets words that they read or find, and shells that read their
//! script.

use std::borrow::Cow;

use super::super::prefix::base_name;
use super::super::{Certainty, Word};
use super::written::Text;

/// Letters of options that take the next word.
const XARGS: &str = "EILPadns";
const PARALLEL: &str = "CEILNPSadjns";

/// What stands for the words that are not known; a shell that gets it does not know them either.
const PLACE: &str = "$(xargs)";
const REASON: &str = "it is read when the script runs";

/// Whether the program adds words to those of its command line.
pub(super) fn adds(words: &[Word<'_>]) -> bool {
    words
        .first()
        .is_some_and(|word| matches!(base_name(&word.text), "xargs" | "parallel" | "find"))
}

/// `find … -exec PROGRAM … ;`: the program, once or more often, or never.
fn found(words: &mut Vec<Word<'_>>) {
    let starts = |word: &Word<'_>| matches!(&*word.text, "-exec" | "-execdir" | "-ok" | "-okdir");
    let Some(at) = words.iter().position(starts) else {
        return;
    };
    words.drain(..=at);
    let end = words.iter().position(|word| matches!(&*word.text, ";" | "+"));
    words.truncate(end.unwrap_or(words.len()));
    placed(words, "{}");
}

/// Puts what is not known in place of `place`.
fn placed(words: &mut [Word<'_>], place: &str) {
    for word in words.iter_mut() {
        let Some(at) = word.text.find(place) else { continue };
        word.text = Cow::Owned(word.text.replace(place, PLACE));
        word.span = None;
        if !matches!(word.certainty, Certainty::From(before) if before < at) {
            word.certainty = Certainty::From(at);
            word.reason = Some(Cow::Borrowed(REASON));
        }
    }
}

/// Puts the program that is started, with the words that `input` adds, in place of `words`.
pub(super) fn added(words: &mut Vec<Word<'_>>, input: Option<Text>) {
    if words.first().is_some_and(|word| base_name(&word.text) == "find") {
        found(words);
        return;
    }
    let is_xargs = words.first().is_some_and(|word| base_name(&word.text) == "xargs");
    let takes = if is_xargs { XARGS } else { PARALLEL };
    let mut place = (!is_xargs).then(|| "{}".to_owned());
    // Whether all words of the input come behind one another in one command line.
    let mut plain = is_xargs;
    let mut index = 1;
    while let Some(word) = words.get(index) {
        let text = &*word.text;
        if text == "--" {
            index += 1;
            break;
        }
        let Some(option) = text.strip_prefix('-').filter(|option| !option.is_empty()) else {
            break;
        };
        index += 1;
        if let Some(long) = option.strip_prefix('-') {
            plain &= matches!(long, "no-run-if-empty" | "verbose") || long.starts_with("max-procs=");
            if let Some(("replace", with)) = long.split_once('=') {
                place = Some(with.to_owned());
            } else if long == "replace" {
                place = Some("{}".to_owned());
            }
            continue;
        }
        let (letter, value) = option.split_at(option.chars().next().map_or(0, char::len_utf8));
        let value = if takes.contains(letter) && value.is_empty() {
            let next = words.get(index).map(|word| word.text.clone().into_owned());
            index += 1;
            next.unwrap_or_default()
        } else {
            value.to_owned()
        };
        plain &= matches!(letter, "r" | "t" | "x" | "P");
        match letter {
            "i" if value.is_empty() => place = Some("{}".to_owned()),
            "i" | "I" => place = Some(value),
            _ => {}
        }
    }
    words.drain(..index.min(words.len()));
    if !is_xargs && let Some(at) = words.iter().position(|word| word.text.starts_with(":::")) {
        words.truncate(at);
    }
    if words.is_empty() {
        words.push(Word::literal("echo"));
    }
    let place = place.filter(|place| !place.is_empty());
    if let Some(place) = place
        && (is_xargs || words.iter().any(|word| word.text.contains(&*place)))
    {
        placed(words, &place);
        return;
    }
    match input {
        // Quotes and backslashes have a meaning for it.
        Some(Ok(text)) if plain && !text.contains(['\'', '"', '\\']) => {
            words.extend(text.split_whitespace().map(|part| Word {
                text: Cow::Owned(part.to_owned()),
                ..Word::literal("")
            }));
        }
        _ => words.push(Word {
            certainty: Certainty::Many,
            reason: Some(Cow::Borrowed(REASON)),
            ..Word::literal(PLACE)
        }),
    }
}

/// Whether the program is a shell.
pub(super) fn is_shell(words: &[Word<'_>]) -> bool {
    words.first().is_some_and(|word| {
        matches!(
            base_name(&word.text),
            "sh" | "bash" | "ash" | "dash" | "zsh" | "ksh"
        )
    })
}

/// A shell that reads its script from its input, as one that gets it with `-c`.
pub(super) fn reads_script(words: &mut Vec<Word<'_>>, input: &Text) {
    let Ok(text) = input else { return };
    // `-s` alone: with words behind it they are its parameters, which are left out here.
    let plain = |word: &Word<'_>| {
        matches!(
            &*word.text,
            "-s" | "-e" | "-x" | "-u" | "-l" | "-ex" | "-eu" | "-es" | "-" | "--login"
        )
    };
    if !is_shell(words) || !words[1..].iter().all(plain) {
        return;
    }
    words.truncate(1);
    words.push(Word::literal("-c"));
    words.push(Word {
        text: Cow::Owned(text.clone()),
        ..Word::literal("")
    });
}
