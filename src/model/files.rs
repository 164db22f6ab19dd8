//! A model's files together: each tells a part, and what two of them tell must agree.
//!
//! `config.json` has the shape, an index or headers of `*.safetensors` have the exact sizes, and a GGUF file has both.
//! Reading files is the caller's; this room takes what was read.

use super::config_json::{Config, ConfigError, add_note};
use super::gguf::{Gguf, GgufError};
use super::safetensors::{Index, SafetensorsError, Tensors};
use super::{Dtype, Format, Model};

/// What a file is, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// `config.json` or another JSON object.
    Json,
    /// A `*.safetensors` file.
    Safetensors,
    /// A GGUF file.
    Gguf,
}

/// Tells files apart by their content. `first` are the first bytes, nine or more where the file has them; `None` for
/// anything else.
#[must_use]
pub fn detect(first: &[u8]) -> Option<FileKind> {
    if first.starts_with(&super::gguf::MAGIC) {
        return Some(FileKind::Gguf);
    }
    // A length below 16 MiB has zeros where JSON has text.
    let length: Option<[u8; 8]> = first.get(..8).and_then(|first| first.try_into().ok());
    if length.is_some_and(|length| u64::from_le_bytes(length) <= super::safetensors::MAX_HEADER_BYTES) {
        return Some(FileKind::Safetensors);
    }
    let text = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first);
    let begin = text.iter().find(|byte| !byte.is_ascii_whitespace());
    (begin == Some(&b'{')).then_some(FileKind::Json)
}

/// Why files give no entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// `config.json` alone is wrong or lacks something.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The tensors are wrong.
    #[error(transparent)]
    Tensors(#[from] SafetensorsError),
    /// The GGUF file is wrong.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// They do not belong together, or one is missing.
    #[error("{0}")]
    Together(String),
}

/// What was read of one model.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Its `config.json`.
    pub config: Option<Config>,
    /// Its index.
    pub index: Option<Index>,
    /// Headers of its `*.safetensors`, all together.
    pub tensors: Option<Tensors>,
    /// Its GGUF file, or the parts of it that were given.
    pub gguf: Vec<Gguf>,
}

impl Files {
    /// The entry that the files give together.
    ///
    /// # Errors
    /// Says which file is missing, or in what two of them differ.
    pub fn entry(self, id: &str) -> Result<Model, FilesError> {
        let has_others = self.config.is_some() || self.index.is_some() || self.tensors.is_some();
        if !self.gguf.is_empty() {
            if has_others {
                return Err(FilesError::Together(
                    "a GGUF file is complete by itself; give it alone, or the other files without it"
                        .to_owned(),
                ));
            }
            let parts = self.gguf.len();
            let mut model = whole(self.gguf)?.model(id)?;
            if parts > 1 {
                add_note(&mut model, &format!("split into {parts} files"));
            }
            return Ok(model);
        }
        let Some(config) = self.config else {
            return Err(without_config(self.index.as_ref(), self.tensors.as_ref()));
        };
        let torch_dtype = match (config.torch_dtype, &self.tensors) {
            (Ok(dtype), _) => dtype,
            (Err(error), Some(tensors)) => tensors.torch_dtype().ok_or(error)?,
            (Err(error), None) => return Err(error.into()),
        };
        let mut model = config.model;
        model.torch_dtype = torch_dtype;
        let mut sources = vec!["config.json"];
        if let Some(tensors) = &self.tensors {
            if let Some(difference) = tensors.shape().contradiction(&model) {
                return Err(FilesError::Together(format!(
                    "{difference}; give the files of one model, and all of its *.safetensors or the index instead"
                )));
            }
            if model.released.is_none() {
                model.released = tensors.format();
            }
        }
        let is_complete = match (&self.tensors, &self.index) {
            (Some(tensors), Some(index)) => index.missing(tensors).is_none(),
            (Some(_), None) => true,
            (None, _) => false,
        };
        match (self.tensors, self.index) {
            (Some(tensors), index) if is_complete => {
                sources.push("*.safetensors headers");
                if index.is_some() {
                    sources.push("index");
                }
                model.parameters = tensors.parameters(model.released)?;
                model.checkpoint_bytes = Some(tensors.bytes);
                agrees(model.parameters, config.parameters.ok(), "the tensors")?;
            }
            (Some(tensors), Some(index)) if index.total_bytes.is_none() => {
                return Err(FilesError::Together(format!(
                    "the tensor {:?} of the index is in none of the files; give all of them",
                    index.missing(&tensors).unwrap_or_default()
                )));
            }
            (_, Some(index)) => {
                sources.push("model.safetensors.index.json");
                model.checkpoint_bytes = index.total_bytes;
                model.parameters = by_index(&index, &model, config.parameters)?;
            }
            (_, None) => model.parameters = config.parameters?,
        }
        model.source = format!("{} of {id}", sources.join(", "));
        Ok(model)
    }
}

/// Parameters where only the sum of the bytes is known.
fn by_index(index: &Index, model: &Model, counted: Result<u64, ConfigError>) -> Result<u64, FilesError> {
    if let Some(total) = index.total_parameters
        && model.released.is_none()
    {
        agrees(total, counted.ok(), "the sizes of the index")?;
        return Ok(total);
    }
    let Some(bytes) = index
        .total_bytes
        .filter(|_| !model.released.is_some_and(Format::is_packed))
    else {
        return Ok(counted?);
    };
    let width = match model.torch_dtype {
        Dtype::Bfloat16 | Dtype::Float16 => 2,
        Dtype::Float32 => 4,
    };
    let total = bytes / width;
    agrees(total, counted.ok(), "the sizes of the index")?;
    Ok(total)
}

/// Whether a total can be that of the shape: a tenth for what the count leaves out.
fn agrees(total: u64, counted: Option<u64>, what: &str) -> Result<(), FilesError> {
    let Some(counted) = counted else { return Ok(()) };
    if u128::from(total.abs_diff(counted)) * 10 <= u128::from(counted.max(total)) {
        return Ok(());
    }
    Err(FilesError::Together(format!(
        "{what} tell of {total} parameters, and the shape in config.json of {counted}: files of different models, or one is \
         incomplete; give those of one model, all of them"
    )))
}

fn without_config(index: Option<&Index>, tensors: Option<&Tensors>) -> FilesError {
    let seen = match (tensors, index) {
        (Some(tensors), _) => {
            let shape = tensors.shape().in_words();
            let shape = if shape.is_empty() {
                String::new()
            } else {
                format!(" ({shape})")
            };
            format!(
                "{} tensors of {} bytes{shape} were read",
                tensors.len(),
                tensors.bytes
            )
        }
        (None, Some(index)) => format!(
            "an index of {} files and {} bytes was read",
            index.files.len(),
            index
                .total_bytes
                .map_or_else(|| "unknown".to_owned(), |bytes| bytes.to_string())
        ),
        (None, None) => {
            return FilesError::Together("nothing was given; give a model's config.json".to_owned());
        }
    };
    FilesError::Together(format!(
        "{seen}, but head_dim, num_attention_heads and max_position_embeddings stand in none; give the config.json beside \
         it as well, or the folder"
    ))
}

/// One file, or all parts of a split one.
fn whole(mut parts: Vec<Gguf>) -> Result<Gguf, FilesError> {
    let refuse = |problem: String| Err(FilesError::Together(problem));
    let split: Vec<Option<(u64, u64)>> = parts.iter().map(Gguf::split).collect();
    if let [None] = split.as_slice() {
        return Ok(parts.remove(0));
    }
    let count = split.iter().flatten().map(|(_, count)| *count).max().unwrap_or(0);
    if split.contains(&None) || split.iter().flatten().any(|(_, other)| *other != count) {
        return refuse(
            "these GGUF files are not the parts of one model; give one model at a time".to_owned(),
        );
    }
    let mut numbers: Vec<u64> = split.iter().flatten().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    let is_complete =
        numbers.len() as u64 == count && numbers.iter().zip(0..).all(|(number, nth)| *number == nth);
    if !is_complete {
        let given: Vec<String> = numbers
            .iter()
            .map(|number| number.saturating_add(1).to_string())
            .collect();
        return refuse(format!(
            "split.count: the model is split into {count} files, and part {} was given; give all of them, each once",
            given.join(", ")
        ));
    }
    parts.sort_by_key(Gguf::split);
    let mut parts = parts.into_iter();
    let Some(mut first) = parts.next() else {
        return refuse("nothing was given; give a GGUF file".to_owned());
    };
    for part in parts {
        first.add(&part)?;
    }
    Ok(first)
}
