//! From a word of a command line to the place that it was written at.

use super::{Origin, Place, environment, file};
use crate::engine::reader::Context;
use crate::invocation::{Item, MADE, Word};

/// What put in the words that stand in no field of the container.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Outside<'o> {
    /// The image, a policy or a script; which one the container tells.
    Unsaid,
    /// The section `vllm` of the file of this path, which a wrapper reads.
    File(&'o str),
    /// A file of options, all of them, by its name in words.
    Options(&'o str),
    /// A program around the engine, which makes options of variables and puts in the word `adds` by itself.
    Program { name: &'o str, adds: &'o str },
}

/// The name under which an operator's model is known among its options.
pub(crate) const MODEL: &str = "model";

/// Variables that are looked for in a script.
const MOST_HOLDERS: usize = 8;

/// Paths that are looked at to find the script that holds a word.
const MOST_PATHS: usize = 32;

/// The place of a word; `written` is what stands there (`--max-model-len 8192`), for the words of the explanation.
pub(in crate::engine) fn place(
    context: &Context<'_>,
    word: &Word<'_>,
    written: &str,
    outside: Outside<'_>,
) -> Place {
    let container = context.placed.container;
    let item = match word.item {
        Item::Command(index) => container.command.as_ref().and_then(|words| words.get(index)),
        Item::Args(index) => container.args.as_ref().and_then(|words| words.get(index)),
        Item::Variable(index) => {
            return environment::place(context, index, &reader(context, index, written, outside));
        }
        Item::Made(command, place) => return in_made(context, word, (command, place), written),
        Item::Elsewhere => None,
    };
    match item {
        Some(item) => in_item(context, word, item, written),
        None => elsewhere(context, word, written, outside),
    }
}

/// What reads a variable and what it makes of it, in words.
fn reader(context: &Context<'_>, index: usize, written: &str, outside: Outside<'_>) -> String {
    let variable = context.invocation.environment.variables().get(index);
    let by_policy = variable.is_some_and(|variable| {
        let rule = context
            .rule
            .is_some_and(|rule| rule.variables.contains_key(&*variable.name));
        rule && !matches!(outside, Outside::Program { .. })
    });
    let option = written.split(['=', ' ']).next().unwrap_or_default();
    match outside {
        _ if by_policy => format!("which the policy's rule for the image makes {option}"),
        Outside::Program { name, .. } => format!("which {name} makes {option}"),
        Outside::File(_) | Outside::Options(_) | Outside::Unsaid => {
            format!("which the image makes {option}")
        }
    }
}

/// A word of a command line that an operator makes.
fn in_made(context: &Context<'_>, word: &Word<'_>, (command, place): (usize, usize), written: &str) -> Place {
    let Some(made) = &context.placed.container.made else {
        return Place::nowhere(Origin::Operator, written);
    };
    let text = made.commands.get(command).and_then(|words| words.get(place));
    // In a line of the operator's own each option comes from a field of its own.
    let is_line = text.is_some_and(|text| text.contains(char::is_whitespace));
    let option = written.split(['=', ' ']).next().unwrap_or_default();
    let option = if option.starts_with('-') { option } else { MODEL };
    let named = made.options.iter().find(|(name, _)| is_line && *name == option);
    let path = match named {
        Some((name, _)) => context.path.field(MADE).key(name),
        None => word.item.path(&context.path),
    };
    Place {
        from: Origin::Operator,
        path: Some(path),
        detail: format!("{}: {written}", made.by),
    }
}

fn in_item(context: &Context<'_>, word: &Word<'_>, item: &str, written: &str) -> Place {
    let path = Some(word.item.path(&context.path));
    let whole = word.span.as_ref().is_some_and(|span| *span == (0..item.len()));
    let blank = item.contains(char::is_whitespace);
    let in_script = !whole && blank && context.invocation.script;
    if !in_script {
        // A wrapper may have changed the word; what stands in the field is told.
        let as_it_stands = word.span.is_none() && item.starts_with("--") && !blank && !item.contains("$(");
        let mut detail = if as_it_stands { item } else { written }.to_owned();
        if let Some(variables) = environment::through(context, item, false) {
            detail.push_str(", through ");
            detail.push_str(&variables);
        }
        return Place {
            from: Origin::Flag,
            path,
            detail,
        };
    }
    let (line, raw) = match &word.span {
        Some(span) => {
            let before = item.get(..span.start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            (Some(line), item.get(span.clone()).unwrap_or_default())
        }
        None => value_in(item, written),
    };
    let mut detail = match line {
        Some(line) => format!("line {line} of the script: {written}"),
        None => format!("the script: {written}"),
    };
    if let Some(variables) = environment::through(context, raw, true) {
        detail.push_str(", through ");
        detail.push_str(&variables);
    }
    Place {
        from: Origin::Script,
        path,
        detail,
    }
}

/// The line of a script that holds an option whose value the kubelet has put in, and the value as it is written there.
fn value_in<'i>(item: &'i str, written: &str) -> (Option<usize>, &'i str) {
    let option = written.split(['=', ' ']).next().unwrap_or_default();
    let found = file::only_line_with(item, option).filter(|_| option.starts_with('-'));
    let Some(line) = found else {
        return (file::only_line_with(item, written), "");
    };
    let behind = item.split_once(option).map_or("", |(_, behind)| behind);
    let value = behind.trim_start_matches(['=', ' ', '"', '\'']);
    (Some(line), value.split_whitespace().next().unwrap_or_default())
}

fn elsewhere(context: &Context<'_>, word: &Word<'_>, written: &str, outside: Outside<'_>) -> Place {
    if let Outside::Options(file) = outside {
        return Place::nowhere(Origin::ConfigFile, format!("{file}: {written}"));
    }
    if let Some(made) = &context.placed.container.made {
        return Place::nowhere(Origin::Operator, format!("{}: {written}", made.by));
    }
    let by_policy = context
        .rule
        .is_some_and(|rule| rule.entrypoint.iter().any(|text| *text == word.text));
    if by_policy {
        let detail = format!("the policy's entrypoint for the image: {written}");
        return Place::nowhere(Origin::Policy, detail);
    }
    match outside {
        Outside::Program { name, adds } if word.text == adds => {
            return Place::nowhere(Origin::Default, format!("{name} puts in {written}"));
        }
        Outside::File(path) => {
            let key = word
                .text
                .trim_start_matches('-')
                .split('=')
                .next()
                .unwrap_or_default();
            let body = context.file(path).unwrap_or_default();
            if let Some(line) = file::line_of(body, &|section| section == "vllm", Some(key)) {
                let described = file::described(context, path);
                return Place::nowhere(Origin::ConfigFile, format!("line {line} of {described}"));
            }
        }
        Outside::Program { .. } | Outside::Options(_) | Outside::Unsaid => {}
    }
    if context.invocation.script {
        return in_script(context, word, written);
    }
    Place {
        from: Origin::Image,
        path: Some(context.path.field("image")),
        detail: format!("the image's entrypoint: {written}"),
    }
}

/// A word that a script makes, and that stands in no item as it is: a variable was split, or the script is a file.
fn in_script(context: &Context<'_>, word: &Word<'_>, written: &str) -> Place {
    let container = context.placed.container;
    let commands = container.command.iter().flatten().enumerate();
    let args = container.args.iter().flatten().enumerate();
    let items = commands
        .map(|(index, text)| (Item::Command(index), text))
        .chain(args.map(|(index, text)| (Item::Args(index), text)));
    let environment = context.invocation.environment.variables().iter().enumerate();
    // Variables of the container that hold the words among several.
    let holders: Vec<(usize, [String; 2])> = environment
        .filter(|(_, variable)| {
            let value = variable
                .value
                .as_ref()
                .ok()
                .filter(|value| value.contains(&*word.text));
            value.is_some_and(|value| {
                let words: Vec<&str> = value.split_whitespace().collect();
                words.join(" ").contains(written)
            })
        })
        .map(|(index, variable)| {
            (
                index,
                [format!("${}", variable.name), format!("${{{}", variable.name)],
            )
        })
        .take(MOST_HOLDERS)
        .collect();
    let mut paths = 0;
    for (item, text) in items {
        let path = Some(item.path(&context.path));
        let named = |forms: &[String; 2]| forms.iter().any(|form| text.contains(form.as_str()));
        if let Some((index, _)) = holders.iter().find(|(_, forms)| named(forms)) {
            return environment::place(context, *index, &format!("from which the script takes {written}"));
        }
        if text.contains(&*word.text) && text.contains(char::is_whitespace) && !word.text.is_empty() {
            let detail = match file::only_line_with(text, &word.text) {
                Some(line) => format!("line {line} of the script: {written}"),
                None => format!("the script: {written}"),
            };
            return Place {
                from: Origin::Script,
                path,
                detail,
            };
        }
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '&');
        for name in text.split(ends).filter(|name| name.starts_with('/')) {
            paths += 1;
            if paths > MOST_PATHS {
                break;
            }
            let Ok(body) = context.file(name) else { continue };
            if !body.contains(&*word.text) {
                continue;
            }
            let described = file::described(context, name);
            let line = file::only_line_with(body, written).or_else(|| file::only_line_with(body, &word.text));
            let detail = match line {
                Some(line) => format!("line {line} of {described}: {written}"),
                None => format!("{described}: {written}"),
            };
            return Place {
                from: Origin::Script,
                path,
                detail,
            };
        }
    }
    Place::nowhere(Origin::Script, format!("the script makes {written}"))
}
