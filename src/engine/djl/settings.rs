//! Options of each model: those of the container's variables, and over them those of the model's `serving.properties`.

use std::collections::BTreeMap;

use super::properties;
use crate::engine::reader::Context;
use crate::invocation::{Certainty, Command, Word};

/// Where the images look for models.
const STORE: &str = "/opt/ml/model";

/// The file of a model's options.
const FILE: &str = "serving.properties";

/// Models of one server that are read.
const MOST_MODELS: usize = 16;

/// Variables without the prefix of the others, the one that wins last.
const OWN: [(&str, &str); 5] = [
    ("HF_MODEL_ID", "model_id"),
    ("TENSOR_PARALLEL_DEGREE", "tensor_parallel_degree"),
    ("PIPELINE_PARALLEL_DEGREE", "pipeline_parallel_degree"),
    ("SERVING_ENGINE", "engine"),
    ("SERVING_MAX_WORKERS", "maxworkers"),
];

/// Where an option stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The file.
    File,
    /// The variable at this place of the environment.
    Variable(usize),
    /// A variable of the script.
    Script,
}

/// One option.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// Its text, or why it is not known.
    pub(super) value: Result<String, String>,
    pub(super) source: Source,
}

/// The options of one model by their names in small letters, without `option.`.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) options: BTreeMap<String, Setting>,
    /// The path of the file, where there is one.
    pub(super) file: Option<String>,
    /// Why there may be a file that is not known.
    pub(super) unread: Option<String>,
}

impl Settings {
    pub(super) fn is_empty(&self) -> bool {
        self.options.is_empty()
    }

    /// The text of an option that is known.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.options.get(name)?.value.as_deref().ok()
    }

    /// Why an option that stands there is not known.
    pub(super) fn reason(&self, name: &str) -> Option<&str> {
        self.options.get(name)?.value.as_ref().err().map(String::as_str)
    }
}

/// The options of every model that the server loads when it starts; at least one entry.
pub(super) fn of(context: &Context<'_>, command: &Command<'_>, words: &[Word<'_>]) -> Vec<Settings> {
    let common = by_variables(context, command);
    let folder = folder(context, command, words);
    let folder = folder.as_deref().unwrap_or(STORE);
    let listing = context.listing(folder);
    let files: Vec<&String> = listing
        .paths
        .iter()
        .filter(|path| *path == FILE || path.strip_suffix(FILE).is_some_and(|rest| rest.ends_with('/')))
        .take(MOST_MODELS)
        .collect();
    let unread = listing.unread.filter(|_| listing.mounted);
    if files.is_empty() {
        let unread = unread.map(|reason| format!("{folder}/{FILE} may say otherwise: {reason}"));
        return vec![Settings {
            options: common,
            file: None,
            unread,
        }];
    }
    let one = |file: &String| {
        let path = format!("{}/{file}", folder.trim_end_matches('/'));
        let mut settings = Settings {
            options: common.clone(),
            file: Some(path.clone()),
            unread: None,
        };
        match context.file(&path) {
            Ok(text) => {
                for (name, value) in properties::parse(text) {
                    settings.options.insert(
                        short(&name),
                        Setting {
                            value: filled(value),
                            source: Source::File,
                        },
                    );
                }
            }
            Err(reason) => settings.unread = Some(format!("the file {path}: {reason}")),
        }
        settings
    };
    files.into_iter().map(one).collect()
}

fn by_variables(context: &Context<'_>, command: &Command<'_>) -> BTreeMap<String, Setting> {
    let mut options = BTreeMap::new();
    let mut add = |name: &str, option: &str| {
        let Some(value) = context.variable(command, name) else {
            return;
        };
        let of_script = command.variables.iter().any(|(known, _)| known == name);
        let source = match context.invocation.environment.position(name) {
            Some(index) if !of_script => Source::Variable(index),
            _ => Source::Script,
        };
        options.insert(option.to_owned(), Setting { value, source });
    };
    for (name, option) in OWN {
        add(name, option);
    }
    let of_container = context.invocation.environment.variables().iter();
    let of_container = of_container.map(|variable| &*variable.name);
    let of_script = command.variables.iter().map(|(name, _)| name.as_str());
    for name in of_container.chain(of_script) {
        if let Some(option) = name.strip_prefix("OPTION_") {
            add(name, &option.to_ascii_lowercase());
        }
    }
    options
}

fn short(name: &str) -> String {
    name.strip_prefix("option.").unwrap_or(name).to_ascii_lowercase()
}

/// A place of a template that nobody filled in is no value.
fn filled(value: String) -> Result<String, String> {
    if value.contains("{{") {
        return Err(format!("its place in {FILE} is not filled in"));
    }
    Ok(value)
}

/// The folder of the model that is named: `-m NAME::ENGINE=FOLDER`, or the same in a variable.
fn folder(context: &Context<'_>, command: &Command<'_>, words: &[Word<'_>]) -> Option<String> {
    let of = |text: &str| {
        let (_, folder) = text.rsplit_once('=')?;
        folder.starts_with('/').then(|| folder.to_owned())
    };
    let named = words
        .windows(2)
        .find(|pair| matches!(&*pair[0].text, "-m" | "--models") && pair[1].certainty == Certainty::Known);
    let named = named.and_then(|pair| of(&pair[1].text));
    named.or_else(|| of(&context.variable(command, "SERVING_LOAD_MODELS")?.ok()?))
}
