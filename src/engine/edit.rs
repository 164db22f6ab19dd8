//! How another value of an option would be written into the container.

use super::OptionEdit;
use super::line::LineView;
use super::reader::Context;
use crate::invocation::{Command, Item, Word};

/// The smallest edit that gives `option` another value: in the word that holds it, else appended, where the last one
/// wins.
pub(super) fn option(
    context: &Context<'_>,
    command: &Command<'_>,
    line: &LineView<'_, '_>,
    option: &str,
) -> Option<OptionEdit> {
    if line.split {
        return None;
    }
    if let Some(setting) = line.parsed.last(option)
        && !setting.place.config
        && line.variable(setting.place.word).is_none()
        && line.parsed.open.is_none()
        && let Some(word) = line.words.get(setting.place.word)
        && let Some(span) = &word.span
        && let Some(pointer) = word.item.pointer()
    {
        let item = text_of(context, word.item)?;
        let flag = word.text.get(..setting.place.offset)?;
        return Some(OptionEdit {
            pointer,
            add: false,
            before: format!("{}{flag}", item.get(..span.start)?),
            after: item.get(span.end..)?.to_owned(),
            sure: !command.conditional,
        });
    }
    // Behind this word nothing is an option.
    if line.words.iter().any(|word| word.text == "--") {
        return None;
    }
    append(context, command, option)
}

/// The same of an option that is looked for among words as they stand, its last value winning.
pub(super) fn plain(
    context: &Context<'_>,
    command: &Command<'_>,
    words: &[Word<'_>],
    option: &str,
) -> Option<OptionEdit> {
    let flag = format!("{option}=");
    let is_it = |word: &Word<'_>| word.text == option || word.text.starts_with(&flag);
    let Some(at) = words.iter().rposition(is_it) else {
        return append(context, command, option);
    };
    let named = words.get(at)?;
    let (word, before) = if named.text == option {
        (words.get(at.checked_add(1)?)?, "")
    } else {
        (named, flag.as_str())
    };
    let (span, pointer) = (word.span.as_ref()?, word.item.pointer()?);
    let item = text_of(context, word.item)?;
    Some(OptionEdit {
        pointer,
        add: false,
        before: format!("{}{before}", item.get(..span.start)?),
        after: item.get(span.end..)?.to_owned(),
        sure: !command.conditional,
    })
}

fn append(context: &Context<'_>, command: &Command<'_>, option: &str) -> Option<OptionEdit> {
    let before = format!("{option}=");
    if let Some((item, at)) = command.end {
        let text = text_of(context, item)?;
        let script = text.get(..at)?;
        if ends_escaping(script) {
            return None;
        }
        return Some(OptionEdit {
            pointer: item.pointer()?,
            add: false,
            before: format!("{script} {before}"),
            after: text.get(at..)?.to_owned(),
            sure: !command.conditional && text.get(at..)?.trim().is_empty(),
        });
    }
    if context.invocation.script {
        return None;
    }
    let container = context.placed.container;
    let holds = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|words| !words.is_empty());
    let pointer = match (holds(&container.args), holds(&container.command)) {
        (true, _) => "/args/-",
        (false, true) => "/command/-",
        // The image's own entrypoint runs, so the list is made anew.
        (false, false) => "/args",
    };
    Some(OptionEdit {
        pointer: pointer.to_owned(),
        add: true,
        before,
        after: String::new(),
        sure: !command.conditional,
    })
}

/// Whether a script ends in a backslash that escapes nothing: with anything behind it, that would be escaped. A word whose
/// last backslash is quoted ends in the quote.
fn ends_escaping(script: &str) -> bool {
    let backslashes = script.bytes().rev().take_while(|byte| *byte == b'\\').count();
    !backslashes.is_multiple_of(2)
}

fn text_of<'c>(context: &Context<'c>, item: Item) -> Option<&'c str> {
    let container = context.placed.container;
    let (list, index) = match item {
        Item::Command(index) => (&container.command, index),
        Item::Args(index) => (&container.args, index),
        Item::Variable(_) | Item::Made(..) | Item::Elsewhere => return None,
    };
    list.as_ref()?.get(index).map(String::as_str)
}
