//! Files that a script writes before it starts the engine: here-documents, `echo`, `tee`, `cp`, `sed -i`.

use std::borrow::Cow;

use super::super::prefix::base_name;
use super::super::reason::brief;
use super::super::shell::{Kind, Token};
use super::super::{Certainty, Word};
use super::variable::Variable;
use super::{Runner, Site};

/// The text of a file that the script wrote, or why it is not known.
pub(in crate::invocation) type Text = Result<String, String>;

/// What a simple command reads from and writes to.
#[derive(Default)]
pub(super) struct Streams {
    /// The text of a here-document or of the command before the pipe.
    pub(super) input: Option<Text>,
    /// File of the output, and whether it is appended to.
    pub(super) into: Option<(String, bool)>,
}

fn text_of(word: &Word<'_>) -> Text {
    if word.certainty == Certainty::Known {
        Ok(word.text.clone().into_owned())
    } else {
        let reason = word.reason.as_deref().unwrap_or("its text is not known");
        Err(reason.to_owned())
    }
}

impl<'a> Runner<'a, '_> {
    /// Takes the redirections out of a command.
    pub(super) fn streams(&mut self, command: &[Token], site: Site) -> (Vec<Token>, Streams) {
        let mut streams = Streams::default();
        let mut rest = Vec::with_capacity(command.len());
        for token in command {
            match &token.kind {
                Kind::Into { append, target } => {
                    let target = self.joined(target, site);
                    streams.into = Some((self.absolute(&target.text), *append));
                }
                Kind::From { source } => {
                    let source = self.joined(source, site);
                    let text = text_of(&source).and_then(|path| self.file(&path).map(Cow::into_owned));
                    let bytes = text.as_ref().map_or(0, String::len);
                    streams.input = self.spend(bytes).then_some(text);
                }
                Kind::HereDocument { body, .. } => {
                    let body = self.joined(body, site);
                    streams.input = Some(text_of(&body));
                }
                _ => rest.push(token.clone()),
            }
        }
        (rest, streams)
    }

    /// A path as the script's files are called: from the folder that it changed to, where that is known.
    pub(super) fn absolute(&self, path: &str) -> String {
        let path = path.strip_prefix("./").unwrap_or(path);
        match &self.folder {
            Some(folder) if !path.starts_with(['/', '$', '~']) => {
                format!("{}/{path}", folder.trim_end_matches('/'))
            }
            _ => path.to_owned(),
        }
    }

    /// The text of a file: what the script wrote, else what is mounted.
    pub(super) fn file(&self, path: &str) -> Result<Cow<'a, str>, String> {
        let path = self.absolute(path);
        match self.written.get(&path) {
            Some(text) => text.clone().map(Cow::Owned),
            None => (self.files)(&path).map(Cow::Borrowed),
        }
    }

    fn write(&mut self, path: String, append: bool, text: Text, conditional: bool) {
        let text = match text {
            _ if conditional => Err(format!("{} is written under a condition", brief(&path))),
            Ok(more) if append => self
                .file(&path)
                .map(|before| before.into_owned() + &more)
                .or(Ok(more)),
            other => other,
        };
        let bytes = path.len() + text.as_ref().map_or(0, String::len);
        if !self.spend(bytes) {
            return;
        }
        self.written.insert(path, text);
    }

    /// What a command does to files and to the pipe behind it.
    pub(super) fn follow_files(&mut self, words: &[Word<'a>], streams: Streams, conditional: bool) {
        if self.bytes == 0 {
            return;
        }
        let name = words
            .first()
            .map(|word| base_name(&word.text))
            .unwrap_or_default()
            .to_owned();
        let operands: Vec<&Word<'a>> = words
            .iter()
            .skip(1)
            .filter(|word| !word.text.starts_with('-'))
            .collect();
        let output: Text = match &*name {
            "cat" | "echo" | "printf" | "envsubst" => self.output(&name, words, streams.input.as_ref()),
            "tee" => {
                let append = words.iter().any(|word| matches!(&*word.text, "-a" | "--append"));
                let text = streams
                    .input
                    .clone()
                    .unwrap_or_else(|| Err("it is written when the script runs".to_owned()));
                for file in operands {
                    let path = self.absolute(&file.text);
                    self.write(path, append, text.clone(), conditional);
                }
                text
            }
            "cp" | "mv" => {
                if let [from, to] = operands.as_slice() {
                    let text = self.file(&from.text).map(Cow::into_owned);
                    let mut path = self.absolute(&to.text);
                    if path.ends_with('/') {
                        path.push_str(base_name(&from.text));
                    }
                    // What is not known stays so under its new name.
                    self.write(path, false, text, conditional);
                }
                Ok(String::new())
            }
            "sed" => return self.sed(words, conditional),
            _ => Err(format!("{} writes it when the script runs", brief(&name))),
        };
        if let Some((path, append)) = streams.into {
            self.write(path, append, output, conditional);
        } else {
            let bytes = output.as_ref().map_or(0, String::len);
            self.piped = self.spend(bytes).then_some(output);
        }
    }

    /// What a command that only prints writes to its standard output.
    pub(super) fn output(&mut self, name: &str, words: &[Word<'a>], input: Option<&Text>) -> Text {
        let operands: Vec<&Word<'a>> = words
            .iter()
            .skip(1)
            .filter(|word| !word.text.starts_with('-'))
            .collect();
        match name {
            "cat" => match (operands.as_slice(), input) {
                ([], Some(input)) => input.clone(),
                ([file], _) => self.file(&file.text).map(Cow::into_owned),
                _ => Err("several files are joined".to_owned()),
            },
            "echo" => {
                let texts: Vec<&str> = words
                    .iter()
                    .skip(1)
                    .map(|word| &*word.text)
                    .skip_while(|text| matches!(*text, "-e" | "-n" | "-ne" | "-en"))
                    .collect();
                let escapes = words.get(1).is_some_and(|word| word.text.contains('e'));
                let unknown = words.iter().find(|word| word.certainty != Certainty::Known);
                let text = texts.join(" ");
                let text = if escapes && words[1].text.starts_with('-') {
                    text.replace("\\n", "\n")
                } else {
                    text
                };
                unknown.map_or(Ok(text + "\n"), text_of)
            }
            "printf" => printed(words.get(1..).unwrap_or_default()),
            "envsubst" => match (operands.as_slice(), input) {
                ([], Some(Ok(text))) => self.environment_in(text),
                ([], Some(Err(reason))) => Err(reason.clone()),
                _ => Err("envsubst writes it when the script runs".to_owned()),
            },
            _ => Err(format!("{} writes it when the script runs", brief(name))),
        }
    }

    /// `envsubst`: `$NAME` and `${NAME}` are replaced by variables of the environment; what is not set is nothing.
    fn environment_in(&mut self, text: &str) -> Text {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (name, after) = match rest.strip_prefix('{') {
                Some(inner) => inner.split_once('}').unwrap_or(("", rest)),
                None => rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len())),
            };
            let named =
                name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_name);
            if !named {
                out.push('$');
                continue;
            }
            match self.look_up(name) {
                Variable::Text(value) => out.push_str(&value),
                Variable::Unset => {}
                Variable::Unknown(reason)
                | Variable::Option { reason, .. }
                | Variable::Either { reason, .. } => return Err(reason),
                Variable::Array(_) => return Err(format!("{} is an array", brief(name))),
            }
            if out.len() > self.bytes {
                return Err("its text is too long".to_owned());
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// `sed -i 's/text/other/' FILE` with plain text; every other edit leaves the file's text unknown.
    fn sed(&mut self, words: &[Word<'a>], conditional: bool) {
        if !words.iter().any(|word| word.text.starts_with("-i")) {
            return;
        }
        let mut plain = words
            .iter()
            .skip(1)
            .filter(|word| word.text.is_empty() || !word.text.starts_with('-'));
        let Some(edit) = plain.next() else { return };
        for file in plain {
            let Ok(before) = self.file(&file.text) else {
                continue;
            };
            let edited = text_of(edit).and_then(|edit| {
                substituted(&before, &edit, self.bytes)
                    .ok_or_else(|| format!("sed edits {} in a way that is not followed", brief(&file.text)))
            });
            let path = self.absolute(&file.text);
            self.write(path, false, edited, conditional);
        }
    }
}

/// What `printf` makes of a format and its values: `%s` and `%d`, each once.
pub(super) fn printed(words: &[Word<'_>]) -> Text {
    let words = match words {
        [first, rest @ ..] if first.text == "--" => rest,
        words => words,
    };
    let Some((format, values)) = words.split_first() else {
        return Err("printf has no format".to_owned());
    };
    let format = text_of(format)?.replace("\\n", "\n");
    let mut values = values.iter();
    let mut parts = format.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some(rest) = part.strip_prefix(['s', 'd']) else {
            return Err("printf puts it together".to_owned());
        };
        if let Some(value) = values.next() {
            out.push_str(&text_of(value)?);
        }
        out.push_str(rest);
    }
    // A format that is used again for further values, and other escapes.
    if values.next().is_some() || out.contains('\\') {
        return Err("printf puts it together".to_owned());
    }
    Ok(out)
}

/// The effect of `s/a/b/` where `a` is plain text, perhaps after `^`; `None` too where it is longer than `most` bytes.
fn substituted(text: &str, edit: &str, most: usize) -> Option<String> {
    let body = edit.trim().strip_prefix('s')?;
    let mark = body
        .chars()
        .next()
        .filter(|mark| mark.is_ascii_punctuation() && *mark != '\\')?;
    let mut parts = body[1..].split(mark);
    let (from, to, flags) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !(flags.is_empty() || flags == "g") {
        return None;
    }
    let start = from.starts_with('^');
    let from = from.trim_start_matches('^');
    let plain = !from.is_empty() && !from.contains(['\\', '.', '*', '[', ']', '$', '^']);
    if !plain || to.contains(['\\', '&']) {
        return None;
    }
    let found = text.matches(from).count();
    if text.len().saturating_add(found.saturating_mul(to.len())) > most {
        return None;
    }
    let lines = text.split('\n').map(|line| {
        if start {
            line.strip_prefix(from)
                .map_or_else(|| line.to_owned(), |rest| format!("{to}{rest}"))
        } else if flags == "g" {
            line.replace(from, to)
        } else {
            line.replacen(from, to, 1)
        }
    });
    Some(lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::substituted;

    #[test]
    fn plain_substitutions_are_followed_and_others_are_not() {
        assert_eq!(
            substituted("a b\nb b", "s/b/c/", 100).as_deref(),
            Some("a c\nc b")
        );
        assert_eq!(
            substituted("a b\nb b", "s|b|c|g", 100).as_deref(),
            Some("a c\nc c")
        );
        assert_eq!(substituted("  x\n y", "s/^  //", 100).as_deref(), Some("x\n y"));
        assert_eq!(substituted("a a", "s/a/bbb/g", 5), None);
        for edit in ["s/a.*/b/", "s/a/&x/", "1d", "s/a/b/e", "s/a", "y/a/b/"] {
            assert_eq!(substituted("a", edit, 100), None, "{edit}");
        }
    }
}
