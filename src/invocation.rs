//! What a container will execute: image entrypoint, command, arguments and environment, after all expansion.
//!
//! Kubernetes expands `$(VAR)` first (`environment`); a shell then reads its script (`shell`); what stands before
//! the program itself (`exec`, `env`, `numactl` …) is taken off (`prefix`). Each word keeps its place in the
//! container, so that a change can be written back to where the value came from.

use std::borrow::Cow;
use std::ops::Range;

use crate::engine::{Placed, Sources};
use crate::finding::FieldPath;
use crate::workload::pod::Pod;

pub(crate) mod environment;
pub(crate) mod files;
pub(crate) mod prefix;
pub(crate) mod reason;
mod run;
mod shell;

pub use environment::{Environment, Origin as VariableOrigin, Variable};

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

/// An item of the container's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// `command[n]`.
    Command(usize),
    /// `args[n]`.
    Args(usize),
    /// The variable at this place of [`Environment::variables`], which the image makes a word of.
    Variable(usize),
    /// The word at the second place of the command at the first, of those that an operator makes
    /// ([`Made::commands`](crate::workload::pod::Made::commands)).
    Made(usize, usize),
    /// Not in the container: the image, a policy, a file.
    Elsewhere,
}

impl Item {
    /// The path below the container's own.
    #[must_use]
    pub fn path(self, container: &FieldPath) -> FieldPath {
        match self {
            Self::Command(index) => container.field("command").index(index),
            Self::Args(index) => container.field("args").index(index),
            Self::Made(command, word) => container.field(MADE).index(command).index(word),
            Self::Variable(_) | Self::Elsewhere => container.clone(),
        }
    }

    /// The JSON pointer below the container.
    #[must_use]
    pub fn pointer(self) -> Option<String> {
        match self {
            Self::Command(index) => Some(format!("/command/{index}")),
            Self::Args(index) => Some(format!("/args/{index}")),
            Self::Variable(_) | Self::Made(..) | Self::Elsewhere => None,
        }
    }

    /// Whether it is no item of the container itself.
    #[must_use]
    pub const fn is_elsewhere(self) -> bool {
        matches!(self, Self::Made(..) | Self::Elsewhere)
    }
}

/// The field below a container under which the words that an operator makes are known; where they stand in the object is
/// said by the [layout](crate::workload::template::Layout) of the template.
pub(crate) const MADE: &str = "made";

/// One word of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// Its text; what is unreadable stands in it as it was written.
    pub text: Cow<'a, str>,
    /// How much of the text is known.
    pub certainty: Certainty,
    /// The item that it stands in.
    pub item: Item,
    /// Where the item's text would have to change to change this word, in bytes of the item as submitted; `None` where
    /// it cannot be changed there.
    pub span: Option<Range<usize>>,
    /// Why it is not fully known.
    pub reason: Option<Cow<'a, str>>,
    /// For [`Certainty::Many`]: the texts that it can stand for, where all of them are known.
    pub alternatives: Vec<String>,
    /// Whether it is one of several words of what is one argument, split where they were meant.
    pub is_part: bool,
}

impl<'a> Word<'a> {
    /// A word that stands as it is, without a place.
    #[must_use]
    pub const fn literal(text: &'a str) -> Self {
        Self {
            text: Cow::Borrowed(text),
            certainty: Certainty::Known,
            item: Item::Elsewhere,
            span: None,
            reason: None,
            alternatives: Vec::new(),
            is_part: false,
        }
    }

    /// Where the word stands below a container.
    #[must_use]
    pub fn path(&self, container: &FieldPath) -> FieldPath {
        let path = self.item.path(container);
        match (self.item, &self.span) {
            (Item::Command(_) | Item::Args(_), Some(span)) => path.with_range(span.clone()),
            _ => path,
        }
    }
}

/// One program that is started, without what stands before it.
#[derive(Clone, Debug, Default)]
pub struct Command<'a> {
    /// Program and arguments.
    pub words: Vec<Word<'a>>,
    /// Variables that the script or an `env` sets for it; `None` where the value is not known.
    pub variables: Vec<(String, Option<String>)>,
    /// In a script: the item, and the byte of its text after the program's last word.
    pub end: Option<(Item, usize)>,
    /// Whether it runs only under a condition that cannot be judged.
    pub conditional: bool,
    /// Why the shell does not get as far as starting it.
    pub refused: Option<String>,
}

/// All that a container executes.
#[derive(Clone, Debug, Default)]
pub struct Invocation<'a> {
    /// The programs in order.
    pub commands: Vec<Command<'a>>,
    /// The environment.
    pub environment: Environment<'a>,
    /// Why (a part of) it cannot be read.
    pub opaque: Option<String>,
    /// Whether a shell runs it (then words cannot be appended to `args`).
    pub script: bool,
    /// Files that the script writes before, with their last text or why that is not known.
    written: std::collections::BTreeMap<String, run::WrittenText>,
}

impl Invocation<'_> {
    /// The text of a file of the container: what the script wrote, else what a ConfigMap holds.
    pub(crate) fn file<'s>(
        &'s self,
        pod: &Pod,
        container: &crate::workload::pod::Container,
        sources: &'s dyn Sources,
        path: &str,
    ) -> Result<&'s str, String> {
        let name = path.strip_prefix("./").unwrap_or(path);
        match self.written.get(name) {
            Some(text) => text.as_deref().map_err(Clone::clone),
            None => files::read(pod, container, sources, path),
        }
    }

    /// Whether the script writes a file of this name.
    pub(crate) fn writes(&self, path: &str) -> bool {
        self.written.contains_key(path.strip_prefix("./").unwrap_or(path))
    }

    /// The files below a folder of the container: what ConfigMaps hold and what the script wrote.
    pub(crate) fn listing(
        &self,
        pod: &Pod,
        container: &crate::workload::pod::Container,
        sources: &dyn Sources,
        folder: &str,
    ) -> files::Listing {
        let mut listing = files::below(pod, container, sources, folder);
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let mut written = self
            .written
            .keys()
            .filter_map(|path| path.strip_prefix(&prefix))
            .peekable();
        // What a script puts into a folder of the image is all that is in it.
        if !listing.mounted && listing.paths.is_empty() && written.peek().is_some() {
            listing.unread = None;
        }
        listing.paths.extend(written.map(str::to_owned));
        listing
    }
}

/// Reads what `placed` executes; `entrypoint` is the image's own where it is known.
#[must_use]
pub fn read<'a>(
    pod: &'a Pod,
    placed: Placed<'a>,
    sources: &'a dyn Sources,
    entrypoint: Option<Vec<Cow<'a, str>>>,
) -> Invocation<'a> {
    let container = placed.container;
    let environment = Environment::read(pod, container, sources);
    let command = container.command.as_deref().unwrap_or_default();
    let args = container.args.as_deref().unwrap_or_default();
    let files = |path: &str| files::read(pod, container, sources, path);
    if let Some(made) = &container.made {
        return of_operator(made, environment, &files, entrypoint.as_deref());
    }
    let mut words = Vec::with_capacity(command.len() + args.len() + 4);
    let mut opaque = None;
    if command.is_empty() {
        match entrypoint {
            Some(entrypoint) => {
                let literal = |text| Word {
                    text,
                    ..Word::literal("")
                };
                words.extend(entrypoint.into_iter().map(literal));
            }
            None => opaque = Some("the image's entrypoint is not known".to_owned()),
        }
    }
    let known = |word: Word<'a>| match &container.actions_of {
        Some(runtime) if !names_only(&word.text) => unfilled(word, runtime),
        _ => word,
    };
    for (index, text) in command.iter().enumerate() {
        words.push(known(environment.word(text, Item::Command(index))));
    }
    for (index, text) in args.iter().enumerate() {
        words.push(known(environment.word(text, Item::Args(index))));
    }
    let mut runner = run::Runner::new(&environment, &files);
    runner.start(words, None);
    let run::Runner {
        commands,
        opaque: unreadable,
        script,
        written,
        ..
    } = runner;
    Invocation {
        commands,
        opaque: opaque.or(unreadable),
        script,
        written,
        environment,
    }
}

/// A word with an action of a template that only its controller evaluates is unknown from there on.
fn unfilled<'a>(word: Word<'a>, template_of: &str) -> Word<'a> {
    let Some(at) = word.text.find("{{").filter(|_| !template_of.is_empty()) else {
        return word;
    };
    if matches!(word.certainty, Certainty::From(before) if before <= at) {
        return word;
    }
    let action = word.text.get(at..).unwrap_or_default();
    let end = action.find("}}").map_or(action.len(), |end| end + 2);
    let action = crate::finding::shortened(action.get(..end).unwrap_or_default(), LONGEST_ACTION);
    Word {
        certainty: Certainty::From(at),
        reason: Some(Cow::Owned(format!(
            "the action {action} of {template_of} is not evaluated"
        ))),
        ..word
    }
}

/// Whether all actions of a template stand for names of an object: these are one word whatever the object is, and no number
/// that an option could take.
fn names_only(text: &str) -> bool {
    const NAMES: [&str; 4] = [".Name", ".Namespace", ".ObjectMeta.Name", ".ObjectMeta.Namespace"];
    let mut actions = text.split("{{").skip(1);
    actions.all(|rest| {
        let action = rest.split_once("}}").map(|(action, _)| action.trim());
        action.is_some_and(|action| NAMES.contains(&action))
    })
}

/// Characters of an action that are told.
const LONGEST_ACTION: usize = 60;

/// What an operator makes of a container; nothing of it stands in the pod.
fn of_operator<'a>(
    made: &'a crate::workload::pod::Made,
    environment: Environment<'a>,
    files: &run::Files<'a>,
    entrypoint: Option<&[Cow<'a, str>]>,
) -> Invocation<'a> {
    let mut runner = run::Runner::new(&environment, files);
    let mut unknown = None;
    for (index, command) in made.commands.iter().enumerate() {
        let mut words = Vec::with_capacity(command.len() + 4);
        if made.behind_entrypoint && index == 0 {
            match entrypoint {
                Some(entrypoint) => words.extend(entrypoint.iter().map(|text| Word {
                    text: text.clone(),
                    ..Word::literal("")
                })),
                None => unknown = Some("the image's entrypoint is not known".to_owned()),
            }
        }
        words.extend(command.iter().enumerate().map(|(place, text)| {
            let word = Word {
                span: None,
                ..environment.word(text, Item::Made(index, place))
            };
            unfilled(word, &made.template_of)
        }));
        runner.start(words, None);
    }
    let run::Runner {
        commands,
        opaque,
        written,
        script,
        ..
    } = runner;
    Invocation {
        opaque: unknown
            .or(opaque)
            .or_else(|| made.commands.is_empty().then(|| made.by.clone())),
        commands,
        script,
        written,
        environment,
    }
}
