//! The text form of protocol buffers, as far as `config.pbtxt` uses it.
//!
//! Source: <https://protobuf.dev/reference/protobuf/textformat-spec/>; names of fields from
//! triton-inference-server/common `protobuf/model_config.proto`.

/// Levels of messages that are read.
const DEEPEST: u8 = 16;
/// Fields of one file that are read.
const MOST: usize = 10_000;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A number, a name of an enumeration, or a text without its quotes.
    Scalar(String),
    Message(Message),
}

/// Fields in order; a list is as many fields of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message(Vec<(String, Value)>);

impl Message {
    /// Reads a whole file; `None` where it is not of that form.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader {
            rest: text,
            depth: 0,
            fields: 0,
        };
        let message = reader.fields(None)?;
        Some(message)
    }

    /// The last scalar of a name, which is the one that counts.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let mut values = self.0.iter().rev().filter(|(known, _)| known == name);
        values.find_map(|(_, value)| match value {
            Value::Scalar(text) => Some(text.as_str()),
            Value::Message(_) => None,
        })
    }

    /// The scalars of a name.
    pub(super) fn texts<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m str> {
        self.0
            .iter()
            .filter(move |(known, _)| known == name)
            .filter_map(|(_, value)| match value {
                Value::Scalar(text) => Some(text.as_str()),
                Value::Message(_) => None,
            })
    }

    /// The messages of a name.
    pub(super) fn messages<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Message> {
        self.0
            .iter()
            .filter(move |(known, _)| known == name)
            .filter_map(|(_, value)| match value {
                Value::Message(message) => Some(message),
                Value::Scalar(_) => None,
            })
    }
}

struct Reader<'t> {
    rest: &'t str,
    depth: u8,
    fields: usize,
}

impl Reader<'_> {
    /// Takes blanks, comments and the separators that may stand between fields.
    fn blanks(&mut self, separators: bool) {
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.starts_with('#') {
                let line = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = &self.rest[line..];
            } else if separators && self.rest.starts_with([',', ';']) {
                self.rest = &self.rest[1..];
            } else {
                return;
            }
        }
    }

    fn take(&mut self, mark: char) -> bool {
        self.blanks(false);
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> Option<String> {
        self.blanks(false);
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "_.+-".contains(c)))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }

    fn fields(&mut self, end: Option<char>) -> Option<Message> {
        let mut message = Message::default();
        loop {
            self.blanks(true);
            match end {
                None if self.rest.is_empty() => return Some(message),
                Some(end) if self.take(end) => return Some(message),
                _ => {}
            }
            let name = if self.take('[') {
                let name = self.word()?;
                self.take(']').then_some(name)?
            } else {
                self.word()?
            };
            let colon = self.take(':');
            self.values(&name, colon, &mut message)?;
        }
    }

    fn values(&mut self, name: &str, colon: bool, into: &mut Message) -> Option<()> {
        if !self.take('[') {
            let value = self.value(colon)?;
            into.0.push((name.to_owned(), value));
            return Some(());
        }
        loop {
            self.blanks(true);
            if self.take(']') {
                return Some(());
            }
            let value = self.value(true)?;
            into.0.push((name.to_owned(), value));
        }
    }

    fn value(&mut self, scalar: bool) -> Option<Value> {
        self.fields += 1;
        if self.fields > MOST {
            return None;
        }
        for (open, close) in [('{', '}'), ('<', '>')] {
            if self.take(open) {
                self.depth += 1;
                let message = if self.depth > DEEPEST {
                    None
                } else {
                    self.fields(Some(close))
                };
                self.depth = self.depth.saturating_sub(1);
                return message.map(Value::Message);
            }
        }
        if !scalar {
            return None;
        }
        let mut text: Option<String> = None;
        // Texts beside each other are one.
        while let Some(mark) = self.rest.chars().next().filter(|mark| matches!(mark, '"' | '\'')) {
            let more = self.quoted(mark)?;
            text.get_or_insert_default().push_str(&more);
            self.blanks(false);
        }
        if let Some(text) = text {
            return Some(Value::Scalar(text));
        }
        // A template that nobody filled in: `${count}`.
        if self.rest.starts_with("${") {
            let end = self.rest.find('}')? + 1;
            let (text, rest) = self.rest.split_at(end);
            let value = Value::Scalar(text.to_owned());
            self.rest = rest;
            return Some(value);
        }
        self.word().map(Value::Scalar)
    }

    fn quoted(&mut self, mark: char) -> Option<String> {
        let mut text = String::new();
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((at, c)) = letters.next() {
            match c {
                '\\' => match letters.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    other => text.push(other),
                },
                _ if c == mark => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Some(text);
                }
                _ => text.push(c),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_fields_are_read() {
        let text = "# a comment\nname: \"m\" backend: 'vl' \"lm\";\ninstance_group [\n  { count: 2, kind: KIND_GPU gpus: [ 0, 1 ] },\n  \
                    { kind: KIND_CPU }\n]\nparameters: { key: \"a\" value: { string_value: \"0.5\" } }\nparameters { key: \"b\", \
                    value < string_value: \"x\\\"y\" > }\nmax_batch_size: ${size}\nempty: []\n";
        let message = Message::parse(text).unwrap();
        assert_eq!(message.text("backend"), Some("vllm"));
        assert_eq!(message.text("max_batch_size"), Some("${size}"));
        let groups: Vec<&Message> = message.messages("instance_group").collect();
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].texts("gpus").collect::<Vec<_>>(), ["0", "1"]);
        let values: Vec<_> = message
            .messages("parameters")
            .map(|parameter| {
                (
                    parameter.text("key"),
                    parameter.messages("value").next().unwrap().text("string_value"),
                )
            })
            .collect();
        assert_eq!(values, [(Some("a"), Some("0.5")), (Some("b"), Some("x\"y"))]);
    }

    #[test]
    fn what_is_not_of_that_form_is_nothing_and_never_a_panic() {
        let deep = "a {".repeat(1000);
        let long = "a: 1 ".repeat(20_000);
        for text in [
            "{", "a", "a:", "a: \"x", "a [1", "é: 1", "a { b: 1", "a: \"\\", "a ]", &deep, &long,
        ] {
            assert_eq!(Message::parse(text), None, "{text:.20}");
        }
        assert_eq!(Message::parse(""), Some(Message::default()));
    }
}
