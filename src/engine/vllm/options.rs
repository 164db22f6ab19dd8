//! The option table: which options each release has, in which spellings, and what their values are.
//!
//! The facts stand in `options.tsv`; they are read once per process, and the index of a release once per release.

use std::sync::OnceLock;

use crate::engine::Version;

/// How a server is started: each has options that the other lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrypoint {
    /// `vllm serve …`: the words after `vllm`, `serve` included.
    Serve,
    /// `python -m vllm.entrypoints.openai.api_server …`: the words after the module.
    ApiServer,
}

/// How many words an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// None; `=value` is an error.
    Flag,
    /// Exactly one.
    Value,
    /// One where the next word is no option, else none.
    OptionalValue,
    /// One or more, up to the next option.
    List,
    /// Ends the process: it prints help.
    Help,
}

/// What the text of a value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `int()`.
    Int,
    /// `float()`.
    Float,
    /// An integer with an optional suffix: `4k`, `1G`.
    HumanInt,
    /// The same, or `auto`.
    HumanIntOrAuto,
    /// `a=1,b=2`.
    KeyValues,
    /// JSON.
    Json,
}

/// One phase of an option: the releases in which nothing about it changed.
#[derive(Debug)]
pub struct OptionInfo {
    /// The full name, `--gpu-memory-utilization`.
    pub name: &'static str,
    /// How many words it takes.
    pub arity: Arity,
    /// What its value is.
    pub kind: Kind,
    /// Whether `""` and `None` mean "not set".
    pub optional: bool,
    /// The default as text, where the table has one; `null` is Python's `None`.
    pub default: Option<&'static str>,
    /// The allowed values, separated by commas; empty where all are.
    pub choices: &'static str,
    aliases: &'static str,
    negated: &'static str,
    only: &'static str,
    since: usize,
    until: usize,
}

impl OptionInfo {
    /// Whether the parser refuses `value` because it is not among the choices.
    #[must_use]
    pub fn refuses(&self, value: &str) -> bool {
        !self.choices.is_empty() && !self.choices.split(',').any(|choice| choice == value)
    }
}

/// A way to write an option in one release.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spelling {
    pub(super) text: &'static str,
    pub(super) option: &'static OptionInfo,
    pub(super) negated: bool,
}

/// The spellings of one release and entrypoint, sorted.
#[derive(Debug)]
pub(super) struct Release {
    spellings: Vec<Spelling>,
}

impl Release {
    /// The spelling that is exactly `text`.
    pub(super) fn exact(&self, text: &str) -> Option<Spelling> {
        let at = self
            .spellings
            .binary_search_by(|spelling| spelling.text.cmp(text))
            .ok()?;
        self.spellings.get(at).copied()
    }

    /// The spellings that begin with `prefix`.
    pub(super) fn starting_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = Spelling> + 'a {
        let from = self.spellings.partition_point(|spelling| spelling.text < prefix);
        self.spellings[from..]
            .iter()
            .copied()
            .take_while(move |spelling| spelling.text.starts_with(prefix))
    }

    /// The option of this name.
    pub(super) fn named(&self, name: &str) -> Option<&'static OptionInfo> {
        self.exact(name).map(|spelling| spelling.option)
    }
}

static HELP: OptionInfo = OptionInfo {
    name: "--help",
    arity: Arity::Help,
    kind: Kind::Text,
    optional: false,
    default: None,
    choices: "",
    aliases: "-h",
    negated: "",
    only: "",
    since: 0,
    until: usize::MAX,
};

struct Table {
    versions: Vec<Version>,
    options: Vec<OptionInfo>,
    releases: Vec<[OnceLock<Release>; 2]>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| read(include_str!("options.tsv")))
}

/// The releases whose options are known exactly, oldest first.
#[must_use]
pub fn releases() -> &'static [Version] {
    &table().versions
}

/// The index of the release at `position` in [`releases`].
pub(super) fn release(position: usize, entrypoint: Entrypoint) -> Option<&'static Release> {
    let table = table();
    let side = usize::from(entrypoint == Entrypoint::ApiServer);
    let cell = table.releases.get(position)?.get(side)?;
    Some(cell.get_or_init(|| {
        let other = if entrypoint == Entrypoint::Serve {
            "api_server"
        } else {
            "serve"
        };
        let mut spellings = Vec::with_capacity(400);
        let present = table
            .options
            .iter()
            .filter(|option| option.since <= position && position <= option.until && option.only != other);
        for option in present.chain([&HELP]) {
            let mut add = |text: &'static str, negated| {
                if !text.is_empty() {
                    spellings.push(Spelling {
                        text,
                        option,
                        negated,
                    });
                }
            };
            add(option.name, false);
            option.aliases.split(',').for_each(|text| add(text, false));
            option.negated.split(',').for_each(|text| add(text, true));
        }
        spellings.sort_unstable_by_key(|spelling| spelling.text);
        Release { spellings }
    }))
}

fn read(text: &'static str) -> Table {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let versions: Vec<&'static str> = lines
        .next()
        .and_then(|line| line.split_once('\t'))
        .map_or(Vec::new(), |(_, list)| list.split(',').collect());
    let position = |text: &str| versions.iter().position(|version| *version == text);
    let options = lines
        .filter_map(|line| {
            let mut column = line.split('\t');
            let mut next = || column.next().unwrap_or_default();
            let (name, aliases, negated, arity, kind) = (next(), next(), next(), next(), next());
            let (default, choices, only, since, until) = (next(), next(), next(), next(), next());
            let (arity, json) = match arity {
                "flag" | "flag-negatable" => (Arity::Flag, false),
                "json" => (Arity::Value, true),
                "optional-value" => (Arity::OptionalValue, false),
                "list" => (Arity::List, false),
                _ => (Arity::Value, false),
            };
            let (optional, kind) = match kind.strip_prefix("optional-") {
                Some(kind) => (true, kind),
                None => (false, kind),
            };
            let kind = match kind {
                "int" => Kind::Int,
                "float" => Kind::Float,
                "human-int" => Kind::HumanInt,
                "human-int-or-auto" => Kind::HumanIntOrAuto,
                "key-values" => Kind::KeyValues,
                "json-or-str" | "str" => Kind::Text,
                _ if json => Kind::Json,
                _ => Kind::Text,
            };
            Some(OptionInfo {
                name,
                arity,
                kind,
                optional,
                default: (!default.is_empty()).then_some(default),
                choices,
                aliases,
                negated,
                only,
                since: position(since)?,
                until: position(until).unwrap_or(usize::MAX),
            })
        })
        .collect();
    let releases = versions
        .iter()
        .map(|_| [OnceLock::new(), OnceLock::new()])
        .collect();
    let versions = versions.iter().filter_map(|text| Version::parse(text)).collect();
    Table {
        versions,
        options,
        releases,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = include_str!("options.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .count();
        assert_eq!(table().options.len(), lines - 1);
        assert_eq!(releases().len(), 24);
        assert!(releases().is_sorted());
    }

    #[test]
    fn prefixes_are_found_in_the_release_at_hand() {
        let newest = release(releases().len() - 1, Entrypoint::Serve).unwrap();
        assert_eq!(
            newest
                .starting_with("--gpu-mem")
                .map(|s| s.text)
                .collect::<Vec<_>>(),
            ["--gpu-memory-utilization"]
        );
        assert!(newest.exact("--swap-space").is_none());
        assert!(
            release(0, Entrypoint::Serve)
                .unwrap()
                .exact("--swap-space")
                .is_some()
        );
    }
}
