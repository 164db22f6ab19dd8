//! `vramgate model add`: an entry of the catalogue from a model's own files.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::args::{Model as ModelArgs, ModelAdd, ModelCommand, Output};
use super::{Failure, input, output};
use crate::model::config_json::{self, Config};
use crate::model::files::{FileKind, Files, detect};
use crate::model::{Model, gguf, safetensors};

/// Files of one model: 235 B in pieces of 4 GB have some 120.
const MAX_FILES: usize = 2000;
/// Longest id, and longest name.
const MAX_NAME: usize = 200;

/// Runs a command below `model`.
pub(super) fn run(args: &ModelArgs) -> Result<(), Failure> {
    match &args.command {
        ModelCommand::Add(args) => add(args),
    }
}

fn add(args: &ModelAdd) -> Result<(), Failure> {
    input::once(&args.files)?;
    for name in &args.names {
        usable("--name", name)?;
    }
    let paths = paths(&args.files)?;
    let id = id(args, &paths)?;
    let mut reading = Reading {
        files: Files::default(),
        id: &id,
        names: Vec::new(),
    };
    for path in &paths {
        reading.file(path)?;
    }
    let names = reading.names.join(", ");
    let mut model = reading
        .files
        .entry(&id)
        .map_err(|error| Failure::new(format!("{names}: {error}")))?;
    model.names.clone_from(&args.names);
    print(&model, args.output)
}

fn print(model: &Model, format: Output) -> Result<(), Failure> {
    match format {
        Output::Json => output::print_json(model),
        Output::Text => {
            let body = serde_saphyr::to_string(&[model])
                .map_err(|error| Failure::new(format!("the entry cannot be written as YAML: {error}")))?;
            output::print(&format!("{}\n", body.trim_end()))
        }
    }
}

/// An id or a name: one line of printable text.
fn usable(flag: &str, text: &str) -> Result<(), Failure> {
    let is_usable = !text.trim().is_empty()
        && text.len() <= MAX_NAME
        && !text
            .chars()
            .any(|letter| letter.is_whitespace() || crate::message::is_unprintable(letter));
    if is_usable {
        return Ok(());
    }
    let short: String = text.chars().take(60).collect();
    Err(Failure::new(format!(
        "{flag}: {short:?} cannot be a name; write 1 to {MAX_NAME} bytes without blanks"
    )))
}

/// The id that is asked for, or the one that the files' place tells.
fn id(args: &ModelAdd, paths: &[PathBuf]) -> Result<String, Failure> {
    if let Some(id) = &args.id {
        usable("--id", id)?;
        return Ok(id.clone());
    }
    let last = |text: &str| text.rsplit('/').next().unwrap_or(text).to_ascii_lowercase();
    if let Some(name) = args.names.first() {
        return Ok(last(name));
    }
    let place = paths
        .first()
        .filter(|path| path.as_os_str() != "-")
        .and_then(|path| {
            let is_gguf = path
                .extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
            if is_gguf {
                return path.file_stem().map(ToOwned::to_owned);
            }
            let whole = fs::canonicalize(path).ok()?;
            whole.parent()?.file_name().map(ToOwned::to_owned)
        });
    let place = place
        .and_then(|place| place.into_string().ok())
        .map(|place| last(&place));
    match place {
        Some(place) if usable("--id", &place).is_ok() => Ok(place),
        _ => Err(Failure::new(
            "--id: nothing tells how the entry is to be called; give --id ID or --name NAME",
        )),
    }
}

/// Every file to be read; a folder stands for the files of one model in it.
fn paths(files: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for file in files {
        if file.as_os_str() != "-" && file.is_dir() {
            paths.extend(of_folder(file)?);
        } else {
            if file.as_os_str() != "-" && !file.exists() {
                return Err(Failure::new(format!(
                    "{}: does not exist; check the path",
                    file.display()
                )));
            }
            paths.push(file.clone());
        }
    }
    if paths.len() > MAX_FILES {
        return Err(Failure::new(format!(
            "{} files; a model has at most {MAX_FILES}",
            paths.len()
        )));
    }
    Ok(paths)
}

/// `config.json`, the index and what it lists; or GGUF files.
fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let shown = folder.display();
    let refuse = |problem: &str| Failure::new(format!("{shown}: {problem}"));
    let entries = fs::read_dir(folder).map_err(|error| refuse(&format!("{error}; check its permissions")))?;
    let mut names = BTreeSet::new();
    for entry in entries.take(100_000) {
        let entry = entry.map_err(|error| refuse(&error.to_string()))?;
        // A name that is no text is none of a model's.
        if let Ok(name) = entry.file_name().into_string() {
            names.insert(name);
        }
    }
    let with_end = |end: &str| {
        names
            .iter()
            .filter(|name| name.ends_with(end))
            .cloned()
            .collect::<Vec<_>>()
    };
    if names.contains("config.json") {
        let mut chosen = vec!["config.json".to_owned()];
        let index = "model.safetensors.index.json";
        if names.contains(index) {
            chosen.push(index.to_owned());
            // Only what the index lists: the same weights may lie beside them in another layout.
            let text = text(&folder.join(index), safetensors::MAX_INDEX_BYTES as u64)?;
            let listed = safetensors::parse_index(&text)
                .map_err(|error| refuse(&format!("{index}: {error}")))?
                .files;
            if listed.iter().all(|name| names.contains(name)) {
                chosen.extend(listed);
            }
        } else if names.contains("model.safetensors") {
            chosen.push("model.safetensors".to_owned());
        } else {
            chosen.extend(with_end(".safetensors"));
        }
        return Ok(chosen.iter().map(|name| folder.join(name)).collect());
    }
    let gguf = with_end(".gguf");
    if gguf.is_empty() {
        let remedy = if names.contains("adapter_config.json") {
            "is a folder of an adapter; give that of its base model"
        } else {
            "has neither config.json nor a *.gguf; give a model's folder"
        };
        return Err(refuse(remedy));
    }
    Ok(gguf.iter().map(|name| folder.join(name)).collect())
}

/// The text of a small file.
fn text(path: &Path, most_bytes: u64) -> Result<String, Failure> {
    let bytes = input::read_file(path, most_bytes)?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::new(format!("{}: is not UTF-8; download it again", path.display())))
}

/// Files of one model, as they are read.
struct Reading<'a> {
    files: Files,
    id: &'a str,
    names: Vec<String>,
}

impl Reading<'_> {
    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let shown = path.display().to_string();
        self.names.push(shown.clone());
        if path.as_os_str() == "-" {
            return self.read(&shown, io::stdin().lock(), None);
        }
        let unreadable = |error: io::Error| {
            let remedy = if error.kind() == io::ErrorKind::NotFound {
                "check the path"
            } else {
                "check its permissions"
            };
            Failure::new(format!("{shown}: {error}; {remedy}"))
        };
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        // A pipe has no size.
        let file_bytes = metadata.is_file().then_some(metadata.len());
        self.read(&shown, file, file_bytes)
    }

    fn read(&mut self, shown: &str, mut reader: impl Read, file_bytes: Option<u64>) -> Result<(), Failure> {
        let refuse = |problem: &dyn std::fmt::Display| Failure::new(format!("{shown}: {problem}"));
        let mut bytes = Vec::new();
        more(&mut reader, &mut bytes, 64, shown)?;
        match detect(&bytes) {
            Some(FileKind::Gguf) => {
                more(&mut reader, &mut bytes, gguf::MAX_HEADER_BYTES, shown)?;
                let parsed = gguf::parse(&bytes, file_bytes).map_err(|error| refuse(&error))?;
                self.files.gguf.push(parsed);
            }
            Some(FileKind::Safetensors) => {
                let first = bytes.get(..8).and_then(|first| first.try_into().ok());
                let first = first.ok_or_else(|| refuse(&"is cut off; download it again"))?;
                let length = safetensors::header_length(first, file_bytes).map_err(|error| refuse(&error))?;
                more(&mut reader, &mut bytes, length + 8, shown)?;
                let parsed = safetensors::parse(&bytes, file_bytes).map_err(|error| refuse(&error))?;
                match &mut self.files.tensors {
                    None => self.files.tensors = Some(parsed),
                    Some(tensors) => tensors.add(parsed).map_err(|error| refuse(&error))?,
                }
            }
            Some(FileKind::Json) => {
                more(
                    &mut reader,
                    &mut bytes,
                    safetensors::MAX_INDEX_BYTES as u64 + 1,
                    shown,
                )?;
                let text =
                    String::from_utf8(bytes).map_err(|_| refuse(&"is not UTF-8; download it again"))?;
                self.json(shown, text.trim_start_matches('\u{feff}'))?;
            }
            None => {
                return Err(refuse(
                    &"is neither a config.json, nor an index, a *.safetensors or a GGUF file; give one of these",
                ));
            }
        }
        Ok(())
    }

    fn json(&mut self, shown: &str, text: &str) -> Result<(), Failure> {
        let refuse = |problem: &dyn std::fmt::Display| Failure::new(format!("{shown}: {problem}"));
        let twice = || {
            Failure::new(format!(
                "{shown}: a second file of its kind; give the files of one model"
            ))
        };
        // A config.json is far smaller than what an index may be; no field of one is called so.
        if text.contains("\"weight_map\"") {
            let index = safetensors::parse_index(text).map_err(|error| refuse(&error))?;
            return if self.files.index.replace(index).is_some() {
                Err(twice())
            } else {
                Ok(())
            };
        }
        if text.len() > config_json::MAX_BYTES {
            return Err(refuse(&format_args!(
                "is larger than {} MiB, which no config.json is",
                config_json::MAX_BYTES >> 20
            )));
        }
        let config = Config::parse(text, self.id).map_err(|error| refuse(&error))?;
        if self.files.config.replace(config).is_some() {
            Err(twice())
        } else {
            Ok(())
        }
    }
}

/// Reads on until so many bytes are there, or the file ends.
fn more(reader: &mut impl Read, bytes: &mut Vec<u8>, until: u64, shown: &str) -> Result<(), Failure> {
    let missing = until.saturating_sub(bytes.len() as u64);
    reader
        .take(missing)
        .read_to_end(bytes)
        .map_err(|error| Failure::new(format!("{shown}: {error}; check the file")))?;
    Ok(())
}
