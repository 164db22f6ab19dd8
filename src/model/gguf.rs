//! The header of a GGUF file: its metadata and the list of its tensors.
//!
//! Source of the layout: ggml's `docs/gguf.md` and `gguf.cpp`. Counts and lengths of the file are never trusted: each is
//! compared with the bytes that are left before anything is kept.

use std::collections::{BTreeMap, BTreeSet};

mod cursor;
mod entry;
mod types;

use cursor::Cursor;
pub use cursor::GgufError;
pub use types::TensorType;

use super::Format;

/// Most bytes of a header that are read: the vocabulary is in it, some 10 MiB in the largest.
pub const MAX_HEADER_BYTES: u64 = 64 << 20;
/// First bytes of every such file.
pub const MAGIC: [u8; 4] = *b"GGUF";
const MAX_KEYS: u64 = 65_536;
const MAX_TENSORS: u64 = 200_000;
/// `GGML_MAX_DIMS`
const MAX_DIMENSIONS: u32 = 4;

/// What the header of one GGUF file tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gguf {
    /// Metadata by key.
    values: BTreeMap<String, Value>,
    /// Elements of all tensors.
    pub parameters: u64,
    /// Bytes of all tensors, without padding.
    pub tensor_bytes: u64,
    /// Bytes by type of tensor.
    pub bytes_by_type: BTreeMap<TensorType, u64>,
    /// Whether it has an output layer beside the embedding.
    has_output: bool,
    /// Tensors of this file.
    tensors: u64,
}

/// A value of the metadata, as far as an entry can need it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    /// A whole number; signed ones as they are.
    Integer(i128),
    Bool(bool),
    Text(String),
    /// A list: its length, and its items where these are numbers or flags and not many.
    List {
        length: u64,
        items: Option<Vec<i128>>,
    },
    /// A float: nothing that an entry needs.
    Other,
}

/// Reads the header at the front of a file. `file_bytes` is the size of the whole file where it is known: tensors must
/// then lie inside it.
///
/// # Errors
/// Says at which offset what was expected: a file cut off, a length beyond the end, a type that is not known.
pub fn parse(bytes: &[u8], file_bytes: Option<u64>) -> Result<Gguf, GgufError> {
    let mut cursor = Cursor::new(bytes);
    if cursor.take(4, "the magic GGUF")? != MAGIC {
        return Err(GgufError::new(0, "is no GGUF file: its first bytes are not GGUF"));
    }
    let version = cursor.u32("the version")?;
    match version {
        2 | 3 => {}
        1 => {
            return Err(GgufError::new(
                4,
                "is of GGUF version 1; convert it again with a current llama.cpp",
            ));
        }
        _ if (1..=3).contains(&version.swap_bytes()) => {
            return Err(GgufError::new(
                4,
                "is a big-endian GGUF file; convert it with `gguf_convert_endian.py FILE little`",
            ));
        }
        _ => {
            return Err(GgufError::new(
                4,
                format!("is of GGUF version {version}; 2 and 3 are read"),
            ));
        }
    }
    let tensors = cursor.count("the number of tensors", MAX_TENSORS, 24)?;
    let keys = cursor.count("the number of keys", MAX_KEYS, 13)?;
    let mut values = BTreeMap::new();
    for _ in 0..keys {
        let at = cursor.offset();
        let key = cursor.text("a key")?;
        let kind = cursor.u32("the type of a value")?;
        let value = cursor.value(kind, 0)?;
        if values.insert(key.to_owned(), value).is_some() {
            return Err(GgufError::new(at, format!("the key {key:?} stands twice")));
        }
    }
    let alignment = alignment(&values)?;
    let mut gguf = Gguf {
        values,
        parameters: 0,
        tensor_bytes: 0,
        bytes_by_type: BTreeMap::new(),
        has_output: false,
        tensors,
    };
    let data_bytes = read_tensors(&mut cursor, &mut gguf, tensors, alignment)?;
    if let Some(file_bytes) = file_bytes {
        let begin = cursor.offset().next_multiple_of(alignment);
        // The last tensor needs no padding behind it.
        if tensors > 0 && begin.saturating_add(data_bytes) > file_bytes {
            return Err(GgufError::new(
                cursor.offset(),
                format!(
                    "the file is cut off: its tensors end at byte {}, and it has {file_bytes}; download it again",
                    begin.saturating_add(data_bytes)
                ),
            ));
        }
    }
    Ok(gguf)
}

fn alignment(values: &BTreeMap<String, Value>) -> Result<u64, GgufError> {
    match values.get("general.alignment") {
        None => Ok(32),
        Some(Value::Integer(number)) if (1..=65_536).contains(number) => {
            Ok(u64::try_from(*number).unwrap_or(32))
        }
        Some(_) => Err(GgufError::new(
            0,
            "general.alignment: is no whole number from 1 to 65536",
        )),
    }
}

/// Reads the list of tensors; gives the end of the last one in the data.
fn read_tensors(
    cursor: &mut Cursor<'_>,
    gguf: &mut Gguf,
    count: u64,
    alignment: u64,
) -> Result<u64, GgufError> {
    let mut names = BTreeSet::new();
    let mut next = 0_u64;
    let mut end = 0_u64;
    for _ in 0..count {
        let at = cursor.offset();
        let name = cursor.text("the name of a tensor")?;
        if !names.insert(name) {
            return Err(GgufError::new(at, format!("the tensor {name:?} stands twice")));
        }
        let at = cursor.offset();
        let dimensions = cursor.u32("the number of dimensions")?;
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(GgufError::new(
                at,
                format!(
                    "the tensor {name:?} has {dimensions} dimensions; 1 to {MAX_DIMENSIONS} are possible"
                ),
            ));
        }
        let mut elements = 1_u64;
        let mut row = 0_u64;
        for dimension in 0..dimensions {
            let at = cursor.offset();
            let size = cursor.u64("a dimension")?;
            if dimension == 0 {
                row = size;
            }
            elements = match elements.checked_mul(size) {
                Some(0) | None => {
                    return Err(GgufError::new(
                        at,
                        format!("the dimension {size} of the tensor {name:?} cannot be"),
                    ));
                }
                Some(product) => product,
            };
        }
        let at = cursor.offset();
        let number = cursor.u32("the type of a tensor")?;
        let Some(kind) = TensorType::from_number(number) else {
            return Err(GgufError::new(
                at,
                format!(
                    "the tensor {name:?} is of type {number}, which this release does not know; write the entry by hand"
                ),
            ));
        };
        let Some(bytes) = kind.bytes(row, elements) else {
            return Err(GgufError::new(
                at,
                format!(
                    "the tensor {name:?} has rows of {row} elements, which are no blocks of {}",
                    kind.name()
                ),
            ));
        };
        let at = cursor.offset();
        let offset = cursor.u64("the offset of a tensor")?;
        if offset != next {
            return Err(GgufError::new(
                at,
                format!(
                    "the tensor {name:?} begins at {offset} of the data, but the one before it ends at {next}"
                ),
            ));
        }
        let sums = offset.checked_add(bytes).and_then(|after| {
            Some((
                after,
                after.checked_next_multiple_of(alignment)?,
                gguf.parameters.checked_add(elements)?,
            ))
        });
        let Some((after, padded, parameters)) = sums else {
            return Err(GgufError::new(
                at,
                format!("the tensor {name:?} makes the file larger than any can be"),
            ));
        };
        (end, next, gguf.parameters) = (after, padded, parameters);
        // The sum of what lies one behind the other is no larger than its end.
        gguf.tensor_bytes += bytes;
        *gguf.bytes_by_type.entry(kind).or_insert(0) += bytes;
        gguf.has_output |= name == "output.weight";
    }
    Ok(end)
}

impl Gguf {
    /// Which of how many parts of a split file this is, counted from zero; `None` where it is whole.
    #[must_use]
    pub fn split(&self) -> Option<(u64, u64)> {
        let number = |key: &str| match self.values.get(key) {
            Some(Value::Integer(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let count = number("split.count").filter(|count| *count > 1)?;
        Some((number("split.no")?, count))
    }

    /// The format of most of its weights.
    #[must_use]
    pub fn format(&self) -> Format {
        let by_bytes = self.bytes_by_type.iter().max_by_key(|(_, bytes)| **bytes);
        by_bytes.map_or(Format::Gguf, |(kind, _)| kind.format())
    }

    /// Adds another part of the same split file.
    ///
    /// # Errors
    /// Says so where the sums are larger than any file.
    pub fn add(&mut self, part: &Self) -> Result<(), GgufError> {
        let sums = self
            .parameters
            .checked_add(part.parameters)
            .zip(self.tensor_bytes.checked_add(part.tensor_bytes));
        let Some((parameters, tensor_bytes)) = sums else {
            return Err(GgufError::new(0, "the parts together are larger than any file"));
        };
        (self.parameters, self.tensor_bytes) = (parameters, tensor_bytes);
        for (kind, bytes) in &part.bytes_by_type {
            *self.bytes_by_type.entry(*kind).or_insert(0) += bytes;
        }
        self.has_output |= part.has_output;
        self.tensors = self.tensors.saturating_add(part.tensors);
        for (key, value) in &part.values {
            self.values.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
