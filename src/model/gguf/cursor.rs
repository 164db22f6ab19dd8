//! Reading forward in bytes that nobody vouches for.

use super::Value;

/// Why a GGUF header cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {problem}")]
pub struct GgufError {
    /// Where in the file.
    pub offset: u64,
    /// What is wrong there, and what to do.
    pub problem: String,
}

impl GgufError {
    pub(super) fn new(offset: u64, problem: impl Into<String>) -> Self {
        Self {
            offset,
            problem: problem.into(),
        }
    }
}

/// Lists in lists: no key of any model has one.
const MAX_DEPTH: u32 = 4;
/// Items that are kept of a list: one for each layer. The vocabulary is only counted.
const MAX_ITEMS: u64 = 10_000;
/// Longest key, as ggml has it.
const MAX_KEY: u64 = 65_535;

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Items of lists that may still be kept.
    items_left: u64,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            items_left: 10 * MAX_ITEMS,
        }
    }

    /// Bytes read so far.
    pub(super) const fn offset(&self) -> u64 {
        self.at as u64
    }

    const fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8], GgufError> {
        let taken = self
            .at
            .checked_add(length)
            .and_then(|end| Some((self.bytes.get(self.at..end)?, end)));
        let Some((taken, end)) = taken else {
            return Err(self.cut_off(&format!("{length} bytes"), what));
        };
        self.at = end;
        Ok(taken)
    }

    fn cut_off(&self, length: &str, what: &str) -> GgufError {
        GgufError::new(
            self.offset(),
            format!(
                "the header is cut off or lies: {what} ({length}) is expected, and {} bytes are left; download the file \
                 again",
                self.left()
            ),
        )
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufError> {
        let bytes = self.take(N, what)?;
        bytes
            .try_into()
            .map_err(|_| self.cut_off(&format!("{N} bytes"), what))
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A count of things that have at least so many bytes each.
    pub(super) fn count(&mut self, what: &str, most: u64, least_bytes: u64) -> Result<u64, GgufError> {
        let at = self.offset();
        let count = self.u64(what)?;
        let room = self.left() as u64 / least_bytes;
        if count > most.min(room) {
            return Err(GgufError::new(
                at,
                format!("{what} is {count}, and what follows has room for {room} (at most {most} are read)"),
            ));
        }
        Ok(count)
    }

    fn string(&mut self, what: &str, most: u64) -> Result<&'a [u8], GgufError> {
        let at = self.offset();
        let length = self.u64(what)?;
        if length > most {
            return Err(GgufError::new(
                at,
                format!("{what} has a length of {length}; at most {most} are possible"),
            ));
        }
        match usize::try_from(length) {
            Ok(short) if short <= self.left() => self.take(short, what),
            _ => Err(self.cut_off(&format!("{length} bytes"), what)),
        }
    }

    /// A key or a name.
    pub(super) fn text(&mut self, what: &str) -> Result<&'a str, GgufError> {
        let at = self.offset();
        let bytes = self.string(what, MAX_KEY)?;
        std::str::from_utf8(bytes).map_err(|_| GgufError::new(at, format!("{what} is not UTF-8")))
    }

    /// One value of a type (`gguf_metadata_value_type`).
    pub(super) fn value(&mut self, kind: u32, depth: u32) -> Result<Value, GgufError> {
        let what = "a value";
        Ok(match kind {
            0 => Value::Integer(u8::from_le_bytes(self.array(what)?).into()),
            1 => Value::Integer(i8::from_le_bytes(self.array(what)?).into()),
            2 => Value::Integer(u16::from_le_bytes(self.array(what)?).into()),
            3 => Value::Integer(i16::from_le_bytes(self.array(what)?).into()),
            4 => Value::Integer(self.u32(what)?.into()),
            5 => Value::Integer(i32::from_le_bytes(self.array(what)?).into()),
            7 => {
                let at = self.offset();
                match self.array::<1>(what)? {
                    [0] => Value::Bool(false),
                    [1] => Value::Bool(true),
                    [other] => return Err(GgufError::new(at, format!("{other} is no truth value"))),
                }
            }
            6 => {
                self.take(4, what)?;
                Value::Other
            }
            8 => {
                let at = self.offset();
                let bytes = self.string(what, u64::MAX)?;
                // Licences and chat templates are long; an entry needs names only.
                let short = bytes.get(..bytes.len().min(1024)).unwrap_or_default();
                match std::str::from_utf8(short) {
                    Ok(text) => Value::Text(text.to_owned()),
                    Err(_) if bytes.len() > 1024 => Value::Other,
                    Err(_) => return Err(GgufError::new(at, "a text is not UTF-8")),
                }
            }
            9 => self.list(depth)?,
            10 => Value::Integer(self.u64(what)?.into()),
            11 => Value::Integer(i64::from_le_bytes(self.array(what)?).into()),
            12 => {
                self.take(8, what)?;
                Value::Other
            }
            other => {
                let at = self.offset().saturating_sub(4);
                return Err(GgufError::new(
                    at,
                    format!("{other} is no type of a value (0 to 12)"),
                ));
            }
        })
    }

    fn list(&mut self, depth: u32) -> Result<Value, GgufError> {
        let at = self.offset();
        if depth >= MAX_DEPTH {
            return Err(GgufError::new(
                at,
                format!("lists are more than {MAX_DEPTH} deep"),
            ));
        }
        let kind = self.u32("the type of a list")?;
        let width: u64 = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => 12,
            other => {
                return Err(GgufError::new(
                    at,
                    format!("{other} is no type of a value (0 to 12)"),
                ));
            }
        };
        let length = self.count("the length of a list", u64::MAX, width)?;
        let is_short = length <= MAX_ITEMS.min(self.items_left);
        if kind == 8 || kind == 9 {
            for _ in 0..length {
                if kind == 8 {
                    self.string("a text of a list", u64::MAX)?;
                } else {
                    self.list(depth + 1)?;
                }
            }
            return Ok(Value::List { length, items: None });
        }
        if !is_short || matches!(kind, 6 | 12) {
            let bytes = usize::try_from(length.saturating_mul(width)).unwrap_or(usize::MAX);
            self.take(bytes, "a list")?;
            return Ok(Value::List { length, items: None });
        }
        self.items_left -= length;
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(match self.value(kind, depth)? {
                Value::Integer(number) => number,
                Value::Bool(flag) => i128::from(flag),
                _ => return Err(GgufError::new(at, "a list of numbers holds something else")),
            });
        }
        Ok(Value::List {
            length,
            items: Some(items),
        })
    }
}
