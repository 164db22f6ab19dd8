//! `$( … )` whose command only prints what is known, and `read` of a text that is.

use std::borrow::Cow;
use std::rc::Rc;

use super::super::prefix::base_name;
use super::super::shell::{self, Kind, Piece};
use super::super::{Certainty, Word};
use super::variable::Variable;
use super::{DEEPEST, Runner, Site};

/// Bytes of a command whose output is worked out.
const LONGEST: usize = 1024;

impl<'a> Runner<'a, '_> {
    /// The text that stands in place of `$(cat FILE)`, `$(< FILE)`, `$(echo …)`, `$(printf …)`, `$(basename …)` and
    /// `$(dirname …)`; `None` where it hangs on the run.
    pub(super) fn substituted(&mut self, raw: &str) -> Option<String> {
        let inner = raw
            .strip_prefix("$(")
            .and_then(|rest| rest.strip_suffix(')'))
            .or_else(|| raw.strip_prefix('`')?.strip_suffix('`'))?;
        if inner.len() > LONGEST || self.depth >= DEEPEST || !self.spend(inner.len()) {
            return None;
        }
        let (inner, reads) = match inner.trim_start().strip_prefix('<') {
            Some(file) if !file.starts_with(['<', '(', '&']) => (file, true),
            _ => (inner, false),
        };
        let (tokens, None) = shell::lex(inner) else {
            return None;
        };
        self.depth += 1;
        let mut words = Vec::new();
        let plain = tokens.iter().enumerate().all(|(at, token)| {
            matches!(token.kind, Kind::Word { .. }) || at > 0 && matches!(token.kind, Kind::Assign { .. })
        });
        if plain {
            for token in &tokens {
                match &token.kind {
                    Kind::Word { pieces, .. } => self.fields(pieces, None, Site::ELSEWHERE, &mut words),
                    Kind::Assign { name, append, value } => {
                        let mut pieces =
                            vec![Piece::Text(format!("{name}{}=", if *append { "+" } else { "" }))];
                        pieces.extend(value.iter().cloned());
                        self.fields(&pieces, None, Site::ELSEWHERE, &mut words);
                    }
                    _ => {}
                }
            }
        }
        self.depth -= 1;
        if reads {
            words.insert(0, Word::literal("cat"));
        }
        if words.iter().any(|word| word.certainty != Certainty::Known) {
            return None;
        }
        let name = base_name(&words.first()?.text).to_owned();
        let text = match (&*name, words.get(1..)?) {
            ("cat", [_]) | ("echo" | "printf", _) => self.output(&name, &words, None).ok()?,
            ("basename", [path]) => base_name(path.text.trim_end_matches('/')).to_owned(),
            ("dirname", [path]) => match path.text.trim_end_matches('/').rsplit_once('/') {
                Some(("", _)) => "/".to_owned(),
                Some((folder, _)) => folder.to_owned(),
                None => ".".to_owned(),
            },
            _ => return None,
        };
        self.spend(text.len())
            .then(|| text.trim_end_matches('\n').to_owned())
    }

    /// `read -r A B <<< TEXT`, `read -ra ARRAY <<< TEXT`, `mapfile -t ARRAY <<< TEXT`; false where it is not followed.
    pub(super) fn fill(
        &mut self,
        words: &[Word<'a>],
        input: Option<&str>,
        overlay: &[(String, Option<String>)],
    ) -> bool {
        let Some((input, (command, rest))) = input.zip(words.split_first()) else {
            return false;
        };
        if words.iter().any(|word| word.certainty != Certainty::Known) {
            return false;
        }
        let is_read = command.text == "read";
        let (mut array, mut raw) = (!is_read, !is_read);
        let mut names = Vec::new();
        for word in rest {
            match &*word.text {
                "-r" => raw = true,
                "-a" => array = true,
                "-ra" | "-ar" => (raw, array) = (true, true),
                "-t" if !is_read => {}
                text if text.starts_with('-') => return false,
                text => names.push(text.to_owned()),
            }
        }
        let separators = match overlay.iter().rev().find(|(name, _)| name == "IFS") {
            Some((_, Some(separators))) => separators.clone(),
            Some((_, None)) => return false,
            None => " \t\n".to_owned(),
        };
        // Backslashes join lines and quote letters.
        if names.is_empty() || !raw && input.contains('\\') {
            return false;
        }
        let word = |text: &str| Word {
            text: Cow::Owned(text.to_owned()),
            ..Word::literal("")
        };
        let values: Vec<Word<'a>> = if is_read {
            let line = input.split('\n').next().unwrap_or_default();
            let blank = separators.chars().all(char::is_whitespace);
            let parts = line.split(|c| separators.contains(c));
            parts
                .filter(|part| !(blank && part.is_empty()))
                .map(word)
                .collect()
        } else {
            input.lines().map(word).collect()
        };
        match names.as_slice() {
            [name] if array => {
                self.set(name, Variable::Array(Rc::new(values)));
                true
            }
            [name] if separators.contains(' ') => {
                let line = input.split('\n').next().unwrap_or_default().trim();
                self.set(name, Variable::Text(Rc::new(line.to_owned())));
                true
            }
            names if !array && values.len() <= names.len() => {
                let texts = values.iter().map(|value| value.text.clone().into_owned());
                let texts = texts.chain(std::iter::repeat(String::new()));
                for (name, text) in names.iter().zip(texts) {
                    self.set(name, Variable::Text(Rc::new(text)));
                }
                true
            }
            _ => false,
        }
    }
}
