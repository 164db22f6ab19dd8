//! Options of a command line that an engine's own parser has read: where each value stands, or whose default it is.

use super::word::{self, Outside};
use super::{Origin, Place, Provenance, file};
use crate::engine::argparse::Setting;
use crate::engine::argparse::table::Spellings;
use crate::engine::argparse::value::Value;
use crate::engine::line::LineView;
use crate::engine::reader::Context;
use crate::engine::{Reading, Unresolved, Version};
use crate::finding::shortened;

/// Longest text of a word in a detail, in characters.
const LONGEST_WORD: usize = 120;

/// What it means that an option is not written and has no default of its own.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Unset {
    /// The model's files say it.
    Model,
    /// The engine works it out at its start, from what is said here.
    Engine(&'static str),
}

/// The option tables of an engine.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Tables<'t> {
    /// The releases, oldest first.
    pub(in crate::engine) releases: &'static [Version],
    /// The spellings of the release at a position.
    pub(in crate::engine) at: &'t dyn Fn(usize) -> Option<&'static Spellings>,
}

/// Gathers where the values of a command line come from.
pub(in crate::engine) struct Gathered<'g, 'l, 'w> {
    pub(in crate::engine) context: &'g Context<'g>,
    pub(in crate::engine) line: &'g LineView<'l, 'w>,
    pub(in crate::engine) outside: Outside<'g>,
    pub(in crate::engine) tables: Tables<'g>,
    pub(in crate::engine) version: Option<Version>,
    pub(in crate::engine) list: Vec<Provenance>,
}

impl Gathered<'_, '_, '_> {
    /// The value of an option where it is written; says whether it is.
    pub(in crate::engine) fn written(&mut self, field: &'static str, option: &str) -> bool {
        let Some(setting) = self.line.parsed.last(option) else {
            return false;
        };
        let one = self.of_setting(field, setting, false);
        self.list.push(one);
        true
    }

    /// The first of several options that is written.
    pub(in crate::engine) fn first_written(&mut self, field: &'static str, options: &[&str]) {
        for option in options {
            if self.written(field, option) {
                return;
            }
        }
    }

    /// The value of an option, or its default; `unset` says what it means where that is none.
    pub(in crate::engine) fn always(&mut self, field: &'static str, option: &str, unset: Unset) {
        if self.written(field, option) {
            return;
        }
        let (value, mut detail) = self.default(option);
        let mut own = "the model's own".to_owned();
        if let Some(doubt) = self.doubt(None) {
            detail.push_str(&doubt);
            own.push_str(&doubt);
        }
        let one = match (value, unset) {
            (Some(value), _) => Place::nowhere(Origin::Default, detail).of(field, Some(value)),
            (None, Unset::Model) => Place::nowhere(Origin::Model, own).of(field, None),
            (None, Unset::Engine(how)) => Place::nowhere(Origin::EngineAuto, how).of(field, None),
        };
        self.list.push(one);
    }

    /// The model: the positional word where `positional` says that it counts, else the option.
    pub(in crate::engine) fn model(&mut self, option: &str, positional: bool, reading: &Reading) {
        let parsed = self.line.parsed;
        if let Some(setting) = parsed.positional.as_ref().filter(|_| positional) {
            let one = self.of_setting("model", setting, true);
            self.list.push(one);
        } else if self.written("model", option) {
        } else if let Some(unresolved) = noted(reading, "model") {
            self.list.push(self.unresolved("model", unresolved));
        } else if let Some(model) = &reading.model {
            let (_, detail) = self.default(option);
            self.list
                .push(Place::nowhere(Origin::Default, detail).of("model", Some(model)));
        }
    }

    /// The amount of memory, as the reading has it.
    pub(in crate::engine) fn memory(&mut self, option: &str, unset: Unset, reading: &Reading) {
        let name = option.trim_start_matches('-');
        if let Some(unresolved) = noted(reading, name) {
            let one = self.unresolved("memory", unresolved);
            self.list.push(one);
            return;
        }
        if self.written("memory", option) {
            return;
        }
        self.always("memory", option, unset);
        // Of an unknown release the reading has the larger of the defaults.
        let larger = self.differs(option);
        if let Some(one) = self.list.last_mut()
            && one.from == Origin::Default
        {
            if larger {
                "the larger default of all releases, since the image names none".clone_into(&mut one.detail);
            }
            one.value.clone_from(&reading.memory.value);
        }
    }

    /// What may set an option behind the one at `order`, or at all, in words.
    fn doubt(&self, order: Option<usize>) -> Option<String> {
        let parsed = self.line.parsed;
        let behind = parsed
            .open
            .is_some_and(|open| order.is_none_or(|order| open > order));
        let by_file = order.is_none() && parsed.unread_config.is_some();
        (behind || by_file).then(|| format!("; {}", self.line.open_reason()))
    }

    /// Whether releases that the image could hold have different defaults.
    fn differs(&self, option: &str) -> bool {
        let mut defaults = self.defaults(option).map(|(_, default)| default);
        let first = defaults.next();
        self.version.is_none() && defaults.any(|default| Some(default) != first)
    }

    fn defaults<'o>(&'o self, option: &'o str) -> impl Iterator<Item = (Version, Option<&'static str>)> + 'o {
        let releases = self.tables.releases.iter().enumerate();
        releases.filter_map(move |(position, version)| {
            let named = (self.tables.at)(position)?.named(option)?;
            Some((*version, named.default))
        })
    }

    /// The default of an option, and the releases that have it, in words.
    fn default(&self, option: &str) -> (Option<&'static str>, String) {
        let parsed = self.line.parsed;
        let default = parsed.default(option);
        let release = parsed.release;
        let detail = match self.version {
            Some(version) => {
                let read_as = if version == release {
                    String::new()
                } else {
                    format!(", read as {release}")
                };
                let stated = if self.context.version().is_some() {
                    ", the release that the policy states"
                } else {
                    ""
                };
                format!("default of {version}{read_as}{stated}")
            }
            None if self.differs(option) => {
                format!("default of {release}, the newest release that takes the line; the image names none")
            }
            None => match self.defaults(option).next() {
                Some((first, _)) => {
                    format!("default of every release from {first} on, since the image names none")
                }
                None => "default, since the image names no release".to_owned(),
            },
        };
        (default, detail)
    }

    fn unresolved(&self, field: &'static str, unresolved: &Unresolved) -> Provenance {
        let option = self.line.parsed.settings.iter().rev();
        let setting = option
            .clone()
            .find(|setting| setting.option.trim_start_matches('-') == unresolved.field);
        let file = self.line.parsed.unread_config.as_ref().and_then(|(file, _)| {
            let word = self.line.words.iter().find(|word| word.text == *file)?;
            Some(word.item.path(&self.context.path))
        });
        Place {
            from: Origin::Unresolved,
            path: setting
                .map(|setting| self.line.path_of(self.context, setting))
                .or(file),
            detail: unresolved.reason.clone(),
        }
        .of(field, None)
    }

    fn of_setting(&self, field: &'static str, setting: &Setting<'_>, positional: bool) -> Provenance {
        let mut place = self.place(setting, positional);
        // Nothing that comes behind it changes a positional model.
        if let Some(doubt) = self.doubt(Some(setting.order)).filter(|_| !positional) {
            place.detail.push_str(&doubt);
        }
        match setting.value {
            Value::Unresolved => place.of(field, None),
            Value::Flag => place.of(field, Some(if setting.negated { "off" } else { "on" })),
            _ => place.of(field, Some(&setting.text)),
        }
    }

    fn place(&self, setting: &Setting<'_>, positional: bool) -> Place {
        let Some(word) = self.line.words.get(setting.place.word) else {
            return Place::nowhere(Origin::Image, setting.option);
        };
        if setting.place.config {
            return self.in_file(setting, &word.text);
        }
        let written = shortened(&self.as_written(setting, positional), LONGEST_WORD);
        let mut place = word::place(self.context, word, &written, self.outside);
        if setting.value == Value::Unresolved {
            place.from = Origin::Unresolved;
            if let Some(reason) = &word.reason {
                place.detail = format!("{}: {reason}", place.detail);
            }
        }
        place
    }

    /// The option as it stands there: `--dtype half`, `--dtype=half`, or the word that it was made from.
    fn as_written(&self, setting: &Setting<'_>, positional: bool) -> String {
        let words = self.line.words;
        let Some(word) = words.get(setting.place.word) else {
            return String::new();
        };
        if word.text != setting.text || setting.value == Value::Flag {
            return word.text.clone().into_owned();
        }
        let before = setting.place.word.checked_sub(1).and_then(|at| words.get(at));
        // Releases from 0.12 on move the value of `--model` to the front.
        if positional && before.is_none_or(|before| before.text != "--model") {
            return word.text.clone().into_owned();
        }
        let option = before
            .map(|before| &*before.text)
            .filter(|text| text.starts_with('-'))
            .unwrap_or(setting.option);
        format!("{option} {}", setting.text)
    }

    fn in_file(&self, setting: &Setting<'_>, path: &str) -> Place {
        let position = self.tables.releases.binary_search(&self.line.parsed.release);
        let spellings = position.ok().and_then(|position| (self.tables.at)(position));
        let is_meant = |key: &str| {
            let name = format!("--{}", key.replace('_', "-"));
            let Some(spellings) = spellings else {
                return name == setting.option;
            };
            match spellings.exact(&name) {
                Some(spelling) => spelling.option.name == setting.option,
                None => {
                    spellings
                        .starting_with(&name)
                        .all(|spelling| spelling.option.name == setting.option)
                        && setting.option.starts_with(&name)
                }
            }
        };
        let described = file::described(self.context, path);
        let body = self.context.file(path).unwrap_or_default();
        let detail = match file::line_of(body, &is_meant, None) {
            Some(line) => format!("line {line} of {described}"),
            None => described,
        };
        Place {
            from: Origin::ConfigFile,
            path: Some(self.line.path_of(self.context, setting)),
            detail,
        }
    }
}

/// Why the reading does not know a field.
fn noted<'r>(reading: &'r Reading, field: &str) -> Option<&'r Unresolved> {
    reading.unresolved.iter().find(|known| known.field == field)
}
