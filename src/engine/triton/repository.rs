//! The model repository of Triton, as far as ConfigMaps or the container's own script hold it.
//!
//! Layout: `REPOSITORY/MODEL/config.pbtxt` and `REPOSITORY/MODEL/VERSION/FILE` (triton-inference-server/server
//! `docs/user_guide/model_repository.md`).

use std::collections::{BTreeMap, BTreeSet};

use super::pbtxt::Message;
use crate::engine::reader::Context;

/// Models that are read; one beyond makes the repository unknown.
const MOST_MODELS: usize = 64;

/// One model.
pub(super) struct Model<'c> {
    pub(super) name: String,
    /// What `config.pbtxt` says; empty where there is none.
    pub(super) config: Message,
    /// Its other files by their path below the model.
    pub(super) files: BTreeMap<String, &'c str>,
}

/// What is known of the repositories.
pub(super) struct Repository<'c> {
    pub(super) models: Vec<Model<'c>>,
    /// Why there may be other models, or why one of these is not known.
    pub(super) unread: Option<String>,
}

/// Reads the repositories in `folders`; of the models only those that `wanted` names, where it names any.
pub(super) fn read<'c>(
    context: &Context<'c>,
    folders: &[String],
    wanted: Option<&[String]>,
) -> Repository<'c> {
    let mut repository = Repository {
        models: Vec::new(),
        unread: None,
    };
    let wants = |name: &str| wanted.is_none_or(|names| names.iter().any(|wanted| wanted == name));
    let mut seen = BTreeSet::new();
    for folder in folders {
        let listing = context.listing(folder);
        let mut models: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for path in &listing.paths {
            if let Some((model, file)) = path.split_once('/') {
                models.entry(model).or_default().push(file);
            }
        }
        let missing = wanted
            .into_iter()
            .flatten()
            .any(|name| !models.contains_key(name.as_str()));
        // A model that is asked for by name is all that matters, where it is there.
        if let Some(reason) = listing.unread
            && (wanted.is_none() || missing)
        {
            repository.unread.get_or_insert(reason);
        }
        for (name, files) in models {
            if !wants(name) || !seen.insert(name.to_owned()) {
                continue;
            }
            if repository.models.len() == MOST_MODELS {
                repository.unread = Some(format!("it holds more than {MOST_MODELS} models"));
                return repository;
            }
            match model(context, folder, name, &files) {
                Ok(model) => repository.models.push(model),
                Err(reason) => {
                    repository.unread.get_or_insert(reason);
                }
            }
        }
    }
    repository
}

fn model<'c>(context: &Context<'c>, folder: &str, name: &str, files: &[&str]) -> Result<Model<'c>, String> {
    let mut model = Model {
        name: name.to_owned(),
        config: Message::default(),
        files: BTreeMap::new(),
    };
    for file in files {
        let path = format!("{}/{name}/{file}", folder.trim_end_matches('/'));
        let text = context
            .file(&path)
            .map_err(|reason| format!("the file {path}: {reason}"))?;
        if *file == "config.pbtxt" {
            model.config = Message::parse(text)
                .ok_or_else(|| format!("the file {path} is no text form of a model's configuration"))?;
        } else {
            model.files.insert((*file).to_owned(), text);
        }
    }
    Ok(model)
}

impl Model<'_> {
    /// The text of a file of the newest version: that with the highest number.
    pub(super) fn versioned(&self, file: &str) -> Option<&str> {
        let versions = self.files.iter().filter_map(|(path, text)| {
            let (version, name) = path.split_once('/')?;
            let version: u64 = version.parse().ok()?;
            (name == file).then_some((version, *text))
        });
        versions.max_by_key(|(version, _)| *version).map(|(_, text)| text)
    }

    /// The value of a parameter of the configuration.
    pub(super) fn parameter(&self, key: &str) -> Option<&str> {
        let parameter = self
            .config
            .messages("parameters")
            .filter(|parameter| parameter.text("key") == Some(key))
            .last()?;
        parameter.messages("value").last()?.text("string_value")
    }

    /// The back end's name: stated, or that of the platform, or of the files.
    pub(super) fn backend(&self) -> String {
        let stated = self.config.text("backend").filter(|backend| !backend.is_empty());
        if let Some(backend) = stated {
            return backend.to_owned();
        }
        let platform = self.config.text("platform").unwrap_or_default();
        let by_platform = match platform.split('_').next().unwrap_or_default() {
            "tensorrt" => "tensorrt",
            "onnxruntime" => "onnxruntime",
            "pytorch" => "pytorch",
            "tensorflow" => "tensorflow",
            _ => platform,
        };
        if !by_platform.is_empty() {
            return by_platform.to_owned();
        }
        let has = |file: &str| self.versioned(file).is_some();
        if has("model.py") {
            "python".to_owned()
        } else {
            String::new()
        }
    }

    /// Instances: how many, and whether every one of them is on the CPU.
    pub(super) fn instances(&self) -> Result<Instances, String> {
        let mut instances = Instances {
            count: 0,
            only_cpu: true,
            devices: Some(BTreeSet::new()),
        };
        for group in self.config.messages("instance_group") {
            let count = match group.text("count") {
                None => 1,
                Some(text) => text
                    .parse::<u32>()
                    .map_err(|_| format!("the count {text:.40} of instances of the model {}", self.name))?,
            };
            // A count is one for each device that is named.
            let named: BTreeSet<String> = group.texts("gpus").map(str::to_owned).collect();
            let devices = u32::try_from(named.len()).unwrap_or(u32::MAX);
            if group.text("kind") != Some("KIND_CPU") {
                match (&mut instances.devices, named.is_empty()) {
                    (Some(all), false) => all.extend(named),
                    (all, _) => *all = None,
                }
            }
            instances.count = instances
                .count
                .saturating_add(count.saturating_mul(devices.max(1)));
            instances.only_cpu &= group.text("kind") == Some("KIND_CPU");
        }
        if instances.count == 0 {
            // One, where the back end likes.
            instances = Instances {
                count: 1,
                only_cpu: false,
                devices: None,
            };
        }
        Ok(instances)
    }
}

/// Instances of one model.
pub(super) struct Instances {
    pub(super) count: u32,
    pub(super) only_cpu: bool,
    /// The devices that are named; `None` where a group leaves them to the server, which takes each.
    pub(super) devices: Option<BTreeSet<String>>,
}
