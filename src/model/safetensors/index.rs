//! `model.safetensors.index.json`: which tensor lies in which file, and how large all are together.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{MAX_INDEX_BYTES, SafetensorsError, Tensors, Unique};

/// What `model.safetensors.index.json` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Bytes of all tensors, where the index says them.
    pub total_bytes: Option<u64>,
    /// Parameters, where the index says them (newer files).
    pub total_parameters: Option<u64>,
    /// The files, in order of name.
    pub files: BTreeSet<String>,
    /// The tensors' names.
    names: BTreeSet<String>,
}

/// Reads the text of a `model.safetensors.index.json`.
///
/// # Errors
/// Says what is wrong with it: no JSON, no `weight_map`, a name that is a path.
pub fn parse_index(text: &str) -> Result<Index, SafetensorsError> {
    #[derive(Default, Deserialize)]
    struct Metadata {
        // Old writers put a float there: `1.6e10`.
        #[serde(default)]
        total_size: Option<serde_json::Number>,
        #[serde(default)]
        total_parameters: Option<serde_json::Number>,
    }
    #[derive(Deserialize)]
    struct Whole {
        #[serde(default)]
        metadata: Option<Metadata>,
        weight_map: Unique<String>,
    }
    if text.len() > MAX_INDEX_BYTES {
        return Err(SafetensorsError::new(format!(
            "is {} bytes long; an index has at most {MAX_INDEX_BYTES}",
            text.len()
        )));
    }
    let whole: Whole = serde_json::from_str(text)
        .map_err(|error| SafetensorsError::new(format!("is no readable index: {error}")))?;
    let number = |name: &str, number: Option<serde_json::Number>| match number {
        None => Ok(None),
        Some(number) => {
            let text = number.to_string();
            let whole = text
                .strip_suffix(".0")
                .unwrap_or(&text)
                .parse()
                .ok()
                .filter(|number: &u64| *number > 0);
            whole.map(Some).ok_or_else(|| {
                SafetensorsError::new(format!(
                    "metadata.{name}: {text} is no whole number above zero; correct it"
                ))
            })
        }
    };
    let metadata = whole.metadata.unwrap_or_default();
    let Unique(weight_map) = whole.weight_map;
    if weight_map.is_empty() {
        return Err(SafetensorsError::new(
            "weight_map: is empty; give the index of a model",
        ));
    }
    let mut files = BTreeSet::new();
    let mut names = BTreeSet::new();
    for (name, file) in weight_map {
        if file.is_empty() || file.len() > 255 || file.contains(['/', '\\', '\0']) || file.starts_with('.') {
            return Err(SafetensorsError::new(format!(
                "weight_map.{name:?}: {:?} is no name of a file beside the index",
                file.chars().take(60).collect::<String>()
            )));
        }
        files.insert(file);
        names.insert(name);
    }
    Ok(Index {
        total_bytes: number("total_size", metadata.total_size)?,
        total_parameters: number("total_parameters", metadata.total_parameters)?,
        files,
        names,
    })
}

impl Index {
    /// A tensor that the index lists and the files lack.
    #[must_use]
    pub fn missing(&self, tensors: &Tensors) -> Option<&str> {
        self.names
            .iter()
            .find(|name| !tensors.contains(name))
            .map(String::as_str)
    }
}
