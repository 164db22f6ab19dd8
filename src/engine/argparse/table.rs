//! Option tables: which options each release has, in which spellings, and what their values are.
//!
//! A table is text of tab-separated columns. It is read once per process, and the index of a release once per release.

use std::sync::OnceLock;

use crate::engine::Version;

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
    /// Any number, up to the next option.
    OptionalList,
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
    /// `a=1,b=2`, or nothing.
    KeyValues,
    /// JSON.
    Json,
    /// JSON where the text stands in braces, else any text.
    JsonOrText,
    /// A JSON object.
    Object,
    /// `true` or `false`, in any case.
    Boolean,
    /// None: the release refuses the option wherever it stands, and keeps it for its message only.
    Gone,
    /// A JSON object where the text stands in braces, else `a=1,b=2`.
    ObjectOrKeyValues,
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
    /// The allowed values, separated by commas, or by `|` where one holds a comma; empty where all are.
    pub choices: &'static str,
    /// The only way in that has it (or the only place that may hold it), as the table names it; empty where all do.
    pub(crate) only: &'static str,
    aliases: &'static str,
    negated: &'static str,
    since: usize,
    until: usize,
}

impl OptionInfo {
    /// Whether the parser refuses the text `value` because it is not among the choices. `null` among them is Python's
    /// `None`, which no text is; the text stands there in quotes.
    #[must_use]
    pub fn refuses(&self, value: &str) -> bool {
        let value = if value == "null" { "\"null\"" } else { value };
        !self.choices.is_empty() && !self.has_choice(value)
    }

    /// Whether the parser refuses `None`, which `""` and `None` become where that means "not set".
    pub(crate) fn refuses_none(&self) -> bool {
        !self.choices.is_empty() && !self.has_choice("null")
    }

    fn has_choice(&self, value: &str) -> bool {
        let separator = if self.choices.contains('|') { '|' } else { ',' };
        self.choices.split(separator).any(|choice| choice == value)
    }
}

/// A way to write an option in one release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spelling {
    pub(crate) text: &'static str,
    pub(crate) option: &'static OptionInfo,
    pub(crate) negated: bool,
}

/// The spellings of one release, sorted.
#[derive(Debug)]
pub(crate) struct Spellings {
    spellings: Vec<Spelling>,
}

impl Spellings {
    fn of(options: impl Iterator<Item = &'static OptionInfo>) -> Self {
        let mut spellings = Vec::with_capacity(400);
        for option in options.chain([&HELP]) {
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
        Self { spellings }
    }

    /// The spelling that is exactly `text`.
    pub(crate) fn exact(&self, text: &str) -> Option<Spelling> {
        let at = self
            .spellings
            .binary_search_by(|spelling| spelling.text.cmp(text))
            .ok()?;
        self.spellings.get(at).copied()
    }

    /// The spellings that begin with `prefix`.
    pub(crate) fn starting_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = Spelling> + 'a {
        let from = self.spellings.partition_point(|spelling| spelling.text < prefix);
        self.spellings[from..]
            .iter()
            .copied()
            .take_while(move |spelling| spelling.text.starts_with(prefix))
    }

    /// The option of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&'static OptionInfo> {
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

/// The releases and options of one engine.
pub(crate) struct Table {
    pub(crate) versions: Vec<Version>,
    pub(crate) options: Vec<OptionInfo>,
    /// For each release the spellings of each way in.
    releases: Vec<[OnceLock<Spellings>; 2]>,
}

impl Table {
    /// The spellings of the release at `position`. There are two sides, each without the options that only `other` has.
    pub(crate) fn spellings(
        &'static self,
        position: usize,
        side: usize,
        other: &str,
    ) -> Option<&'static Spellings> {
        let cell = self.releases.get(position)?.get(side)?;
        Some(cell.get_or_init(|| {
            let present = self
                .options
                .iter()
                .filter(|option| option.since <= position && position <= option.until)
                .filter(|option| option.only.is_empty() || option.only != other);
            Spellings::of(present)
        }))
    }

    /// Reads a table: a line `versions`, then one line for each phase of an option.
    pub(crate) fn read(text: &'static str) -> Self {
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
                    "optional-list" => (Arity::OptionalList, false),
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
                    "json-or-str" => Kind::JsonOrText,
                    "json" => Kind::Json,
                    "gone" => Kind::Gone,
                    "boolean" => Kind::Boolean,
                    "object" => Kind::Object,
                    "object-or-key-values" => Kind::ObjectOrKeyValues,
                    "str" => Kind::Text,
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
        Self {
            versions,
            options,
            releases,
        }
    }
}
