//! Files that a script writes before it starts the engine: here-documents, `echo`, `tee`, `cp`, `sed -i`.

use std::borrow::Cow;

use super::super::prefix::base_name;
use super::super::reason::brief;
use super::super::shell::{Kind, Token};
use super::super::{Certainty, Word};
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
            "cat" => match (operands.as_slice(), &streams.input) {
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
            "printf" => match operands.as_slice() {
                [format] if !format.text.contains('%') => {
                    text_of(format).map(|text| text.replace("\\n", "\n"))
                }
                [format, value] if matches!(&*format.text, "%s" | "%s\\n") => text_of(value),
                _ => Err("printf puts it together".to_owned()),
            },
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
