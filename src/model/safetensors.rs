//! Headers of `*.safetensors` files and their index: how many parameters and bytes a checkpoint has, exactly.
//!
//! Source: the format's README (huggingface/safetensors): eight bytes of length, then JSON that maps names to type, shape
//! and place. Lengths are compared with what is there before anything is kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

mod index;
mod packed;

pub use index::{Index, parse_index};
pub use packed::Shape;

use super::Dtype;

/// Longest header, as the reference implementation has it.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Longest `model.safetensors.index.json`. That of DeepSeek-V3 has 9 MiB.
pub const MAX_INDEX_BYTES: usize = 64 << 20;
const MAX_TENSORS: usize = 1_000_000;
const MAX_DIMENSIONS: usize = 16;

/// Why a header or an index cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SafetensorsError(String);

impl SafetensorsError {
    fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}

/// Tensors of one file or of several that make up one checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tensors {
    by_name: BTreeMap<String, Tensor>,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Bytes by type, as the format names it: `BF16`.
    pub bytes_by_dtype: BTreeMap<String, u64>,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    #[serde(deserialize_with = "shape")]
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// A shape of few dimensions: a list is not read on beyond that.
fn shape<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    struct Shape;
    impl<'de> Visitor<'de> for Shape {
        type Value = Vec<u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of whole numbers")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Vec<u64>, A::Error> {
            let mut shape = Vec::new();
            while let Some(size) = items.next_element()? {
                if shape.len() == MAX_DIMENSIONS {
                    return Err(serde::de::Error::custom(format_args!(
                        "a shape has more than {MAX_DIMENSIONS} dimensions"
                    )));
                }
                shape.push(size);
            }
            Ok(shape)
        }
    }
    deserializer.deserialize_seq(Shape)
}

/// Names and what stands for them; a name that stands twice is an error.
struct Unique<T>(BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Unique<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Names<T> {
            type Value = Unique<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Unique<T>, A::Error> {
                use serde::de::Error as _;
                let mut map = BTreeMap::new();
                let mut has_metadata = false;
                while let Some(name) = entries.next_key::<String>()? {
                    if name == "__metadata__" && !has_metadata {
                        has_metadata = true;
                        entries.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    if map.contains_key(&name) || name == "__metadata__" {
                        return Err(A::Error::custom(format_args!("the tensor {name:?} stands twice")));
                    }
                    if map.len() == MAX_TENSORS {
                        return Err(A::Error::custom(format_args!("more than {MAX_TENSORS} tensors")));
                    }
                    let value = entries
                        .next_value()
                        .map_err(|error| A::Error::custom(format_args!("{name:?}: {error}")))?;
                    map.insert(name, value);
                }
                Ok(Unique(map))
            }
        }
        deserializer.deserialize_map(Names(std::marker::PhantomData))
    }
}

/// Bits of one element of a type (`Dtype` of the format's reference implementation).
fn bits(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "F4" => 4,
        "F6_E2M3" | "F6_E3M2" => 6,
        "BOOL" | "U8" | "I8" | "F8_E4M3" | "F8_E5M2" | "F8_E8M0" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => 8,
        "U16" | "I16" | "F16" | "BF16" => 16,
        "U32" | "I32" | "F32" => 32,
        "U64" | "I64" | "F64" | "C64" => 64,
        _ => return None,
    })
}

/// The length of the JSON behind the first eight bytes of a file, once it is seen to be possible.
///
/// # Errors
/// Says so where the length is larger than any header, or than the file.
pub fn header_length(first: [u8; 8], file_bytes: Option<u64>) -> Result<u64, SafetensorsError> {
    let length = u64::from_le_bytes(first);
    if length > MAX_HEADER_BYTES {
        return Err(SafetensorsError::new(format!(
            "byte 0: the header has a length of {length}; at most {MAX_HEADER_BYTES} are possible, so this is no \
             safetensors file"
        )));
    }
    if let Some(file_bytes) = file_bytes
        && length.saturating_add(8) > file_bytes
    {
        return Err(SafetensorsError::new(format!(
            "byte 0: the header has a length of {length}, and the file has {file_bytes} bytes; download it again"
        )));
    }
    Ok(length)
}

/// Reads the header at the front of a file. `file_bytes` is the size of the whole file where it is known: it must then
/// be that of header and tensors.
///
/// # Errors
/// Names the tensor, and what of it is wrong.
pub fn parse(bytes: &[u8], file_bytes: Option<u64>) -> Result<Tensors, SafetensorsError> {
    let first = bytes.get(..8).and_then(|first| first.try_into().ok()).ok_or_else(|| {
        SafetensorsError::new(format!(
            "byte 0: 8 bytes with the length of the header are expected, and {} are left; download the file again",
            bytes.len()
        ))
    })?;
    let length = header_length(first, file_bytes)?;
    let rest = bytes.get(8..).unwrap_or_default();
    let header = usize::try_from(length)
        .ok()
        .and_then(|length| rest.get(..length))
        .ok_or_else(|| {
            SafetensorsError::new(format!(
                "byte 8: a header of {length} bytes is expected, and {} are left; download the file again",
                rest.len()
            ))
        })?;
    let text = std::str::from_utf8(header).map_err(|error| {
        SafetensorsError::new(format!(
            "byte {}: the header is not UTF-8",
            error.valid_up_to().saturating_add(8)
        ))
    })?;
    let Unique(entries) = serde_json::from_str::<Unique<Entry>>(text)
        .map_err(|error| SafetensorsError::new(format!("the header cannot be read: {error}")))?;
    let tensors = check(entries)?;
    if let Some(file_bytes) = file_bytes {
        let expected = length.saturating_add(8).saturating_add(tensors.bytes);
        if expected != file_bytes {
            return Err(SafetensorsError::new(format!(
                "header and tensors make {expected} bytes, and the file has {file_bytes}; download it again"
            )));
        }
    }
    Ok(tensors)
}

/// Sizes against places: tensors lie one behind the other and leave no gap.
fn check(entries: BTreeMap<String, Entry>) -> Result<Tensors, SafetensorsError> {
    let mut places: Vec<(u64, u64, &str)> = Vec::with_capacity(entries.len());
    for (name, entry) in &entries {
        let refuse = |problem: String| SafetensorsError::new(format!("{name:?}: {problem}"));
        let Some(width) = bits(&entry.dtype) else {
            return Err(refuse(format!(
                "the type {:?} is not known; write the entry by hand",
                entry.dtype
            )));
        };
        let elements = entry
            .shape
            .iter()
            .try_fold(1_u64, |product, size| product.checked_mul(*size));
        let stored = elements
            .and_then(|elements| elements.checked_mul(width))
            .map(|bits| bits.div_ceil(8));
        let (begin, end) = entry.data_offsets;
        let there = end.checked_sub(begin);
        if stored.is_none() || stored != there {
            return Err(refuse(format!(
                "shape {:?} of {} does not have the size of data_offsets [{begin}, {end}]",
                entry.shape, entry.dtype
            )));
        }
        places.push((begin, end, name));
    }
    places.sort_unstable();
    let mut next = 0;
    for (begin, end, name) in places {
        if begin != next {
            return Err(SafetensorsError::new(format!(
                "{name:?}: begins at {begin} of the data, but the tensor before it ends at {next}"
            )));
        }
        next = end;
    }
    let mut tensors = Tensors {
        bytes: next,
        ..Tensors::default()
    };
    for (name, entry) in entries {
        let bytes = entry.data_offsets.1 - entry.data_offsets.0;
        *tensors.bytes_by_dtype.entry(entry.dtype.clone()).or_insert(0) += bytes;
        tensors.by_name.insert(
            name,
            Tensor {
                dtype: entry.dtype,
                shape: entry.shape,
                bytes,
            },
        );
    }
    Ok(tensors)
}

impl Tensors {
    /// Adds the tensors of another file of the same checkpoint.
    ///
    /// # Errors
    /// Names a tensor that both files have.
    pub fn add(&mut self, other: Self) -> Result<(), SafetensorsError> {
        for (name, tensor) in other.by_name {
            let sum = self.bytes.checked_add(tensor.bytes);
            self.bytes =
                sum.ok_or_else(|| SafetensorsError::new("the files together are larger than any"))?;
            *self.bytes_by_dtype.entry(tensor.dtype.clone()).or_insert(0) += tensor.bytes;
            if self.by_name.contains_key(&name) {
                return Err(SafetensorsError::new(format!(
                    "the tensor {name:?} is in another file as well; give the files of one model, each once"
                )));
            }
            self.by_name.insert(name, tensor);
        }
        Ok(())
    }

    /// Whether a tensor is among them.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The 16- or 32-bit type that most bytes have, where any have.
    #[must_use]
    pub fn torch_dtype(&self) -> Option<Dtype> {
        let of = |name: &str| self.bytes_by_dtype.get(name).copied().unwrap_or(0);
        let types = [
            (of("BF16"), Dtype::Bfloat16),
            (of("F16"), Dtype::Float16),
            (of("F32"), Dtype::Float32),
        ];
        let most = types.into_iter().max_by_key(|(bytes, _)| *bytes)?;
        Some(most.1).filter(|_| most.0 > 0)
    }
}

#[cfg(test)]
mod tests;
