//! A simple command: its assignments, its words, and what the shell's own commands do.

use std::borrow::Cow;

use super::super::reason::brief;
use super::super::shell::{Kind, Piece, Token};
use super::super::{Certainty, Item, Word};
use super::export::Export;
use super::{DEEPEST, LONGEST_PATH, MOST, Next, Runner, Site, Variable, bare_text, written, xargs};

impl<'a> Runner<'a, '_> {
    pub(super) fn simple(&mut self, command: &[Token], conditional: bool, site: Site) -> Next {
        let before = self.commands.len();
        let (command, mut streams) = self.streams(command, site);
        let command = command.as_slice();
        let reads = command
            .iter()
            .find_map(bare_text)
            .is_some_and(|name| matches!(name, "read" | "mapfile" | "readarray" | "." | "source"));
        self.here = match &streams.input {
            Some(Ok(text)) if reads && self.spend(text.len()) => Some(text.clone()),
            _ => None,
        };
        if streams.input.is_none() {
            streams.input = self.piped.take();
        }
        let unfilled = command.iter().find_map(placeholder).map(str::to_owned);
        let outer = std::mem::replace(&mut self.perhaps, conditional);
        let next = self.simple_command(command, streams, conditional, site);
        self.perhaps = outer;
        if let Some(name) = unfilled {
            for command in &mut self.commands[before..] {
                command.refused = Some(format!("the placeholder {} is not filled in", brief(&name)));
            }
        }
        next
    }

    fn simple_command(
        &mut self,
        command: &[Token],
        streams: written::Streams,
        conditional: bool,
        site: Site,
    ) -> Next {
        let assignments = command
            .iter()
            .take_while(|token| matches!(token.kind, Kind::Assign { .. } | Kind::AssignArray { .. }))
            .count();
        let (assignments, command) = command.split_at(assignments);
        let mut overlay = Vec::new();
        for token in assignments {
            match &token.kind {
                Kind::Assign { name, append, value } => {
                    let mut word = self.joined(value, site);
                    if self.repeats && (*append || value.iter().any(|piece| names(piece, name))) {
                        word.certainty = Certainty::From(0);
                        word.reason = Some(Cow::Owned(format!("{} grows in a loop", brief(name))));
                    }
                    if command.is_empty() {
                        self.assign(name, *append, word, conditional);
                    } else {
                        let known = word.certainty == Certainty::Known;
                        overlay.push((name.clone(), known.then(|| word.text.into_owned())));
                    }
                }
                Kind::AssignArray { name, append, items } => {
                    self.assign_array(name, *append, items, conditional, site);
                }
                _ => {}
            }
        }
        let Some(last) = command.last() else {
            return Next::On;
        };
        let declares = command
            .first()
            .and_then(bare_text)
            .is_some_and(|name| matches!(name, "local" | "declare" | "typeset"));
        let end = (site.aligned && !site.item.is_elsewhere()).then_some((site.item, last.span.end));
        let mut words = Vec::with_capacity(command.len());
        for token in command {
            match &token.kind {
                Kind::Word { pieces, .. } => self.fields(pieces, Some(token), site, &mut words),
                Kind::Assign { name, append, value } => {
                    let mut pieces = vec![Piece::Text(format!("{name}{}=", if *append { "+" } else { "" }))];
                    pieces.extend(value.iter().cloned());
                    self.fields(&pieces, Some(token), site, &mut words);
                }
                Kind::AssignArray { name, append, items } => {
                    if declares {
                        self.localise(name);
                    }
                    self.assign_array(name, *append, items, conditional, site);
                }
                Kind::Operator(_) | Kind::Into { .. } | Kind::From { .. } | Kind::HereDocument { .. } => {}
            }
            if words.len() > MOST {
                self.give_up("the script is too long");
                return Next::Stop;
            }
        }
        let input = if xargs::adds(&words) || xargs::is_shell(&words) {
            streams.input.clone()
        } else {
            None
        };
        self.follow_files(&words, streams, conditional || self.doubtful);
        if xargs::adds(&words) {
            xargs::added(&mut words, input);
        } else if let Some(input) = input {
            xargs::reads_script(&mut words, &input);
        }
        self.builtin(words, overlay, conditional, end, site)
    }

    fn builtin(
        &mut self,
        mut words: Vec<Word<'a>>,
        overlay: Vec<(String, Option<String>)>,
        conditional: bool,
        end: Option<(Item, usize)>,
        site: Site,
    ) -> Next {
        let Some(first) = words.first() else {
            return Next::On;
        };
        let name = first.text.clone();
        match &*name {
            "export" | "declare" | "local" | "readonly" | "typeset" => self.declare(words, conditional),
            "unset" => {
                for word in &words[1..] {
                    let value = if conditional {
                        Variable::Unknown(format!("{} is unset under a condition", brief(&word.text)))
                    } else {
                        Variable::Unset
                    };
                    self.set(&word.text, value);
                    self.mark(&word.text, Export::No, conditional);
                }
            }
            "set" => {
                self.set_options(&words);
                if let Some(at) = words.iter().position(|word| word.text == "--") {
                    let zero = self.positional.front().cloned().unwrap_or(Word::literal("sh"));
                    self.parameters(
                        std::iter::once(zero).chain(words.drain(at + 1..)).collect(),
                        conditional,
                    );
                }
            }
            "shift" => {
                let count = words.get(1).map_or(Some(1), |word| word.text.parse().ok());
                self.shift(count, conditional);
            }
            "let" => {
                for word in &words[1..] {
                    self.calculate(&word.text, conditional);
                }
            }
            "read" | "getopts" | "mapfile" | "readarray" => {
                let input = self.here.take();
                if conditional || !self.fill(&words, input.as_deref(), &overlay) {
                    self.filled(&words);
                }
            }
            "eval" => {
                let text = words[1..]
                    .iter()
                    .map(|word| &*word.text)
                    .collect::<Vec<_>>()
                    .join(" ");
                if self.depth >= DEEPEST {
                    self.give_up("scripts are nested too deeply");
                    return Next::Stop;
                }
                self.depth += 1;
                self.run_text(&text, Site::ELSEWHERE);
                self.depth -= 1;
            }
            "return" => return if conditional { Next::On } else { Next::Stop },
            // The rest of the brackets is passed as well, which hardly ever holds anything.
            "exit" if self.subshells > 0 => {}
            "exit" => {
                self.ended |= !conditional;
                return if conditional { Next::On } else { Next::Stop };
            }
            // Redirections alone: the script goes on.
            "exec" if words.len() == 1 => {}
            "exec" => {
                self.start_with(words, end, overlay, conditional);
                if self.subshells > 0 {
                    return Next::On;
                }
                self.ended |= !conditional;
                return if conditional { Next::On } else { Next::Stop };
            }
            _ if self.call(&words, conditional, site) => {}
            "cd" => {
                let folder = words.get(1).filter(|word| word.certainty == Certainty::Known);
                let folder = folder.map(|word| self.absolute(&word.text));
                let folder = folder.filter(|folder| folder.len() <= LONGEST_PATH);
                if folder != self.folder {
                    self.folder = folder.filter(|_| !conditional);
                }
            }
            "source" | "." => self.source(&words, conditional),
            "printf" if words.get(1).is_some_and(|word| word.text == "-v") => {
                self.print_into(&words, conditional);
            }
            "trap" => self.trap(&words),
            "shopt" => self.shell_options(&words),
            ":" | "true" | "false" | "wait" | "ulimit" | "umask" | "]" | "]]" => {}
            _ => self.start_with(words, end, overlay, conditional),
        }
        Next::On
    }
}

impl<'a> Runner<'a, '_> {
    /// `set -a` and `set -o allexport`: what is set from now on is exported.
    fn set_options(&mut self, words: &[Word<'a>]) {
        let mut words = words.iter().skip(1).map(|word| &*word.text).peekable();
        while let Some(word) = words.next() {
            let on = word.starts_with('-');
            let Some(letters) = word.strip_prefix(['-', '+']).filter(|_| word != "--") else {
                return;
            };
            let long = letters.ends_with('o').then(|| words.next()).flatten();
            if letters.contains('a') || long == Some("allexport") {
                self.exports_all = on;
            }
        }
    }

    /// `export`, `declare`, `local`, `readonly` and `typeset`.
    fn declare(&mut self, words: Vec<Word<'a>>, conditional: bool) {
        let own = matches!(&*words[0].text, "local" | "declare" | "typeset");
        let letters = |letter| {
            words.iter().skip(1).any(|word| {
                word.text
                    .strip_prefix('-')
                    .is_some_and(|letters| letters.contains(letter))
            })
        };
        let export = match &*words[0].text {
            "export" if letters('n') => Some(Export::No),
            "export" if letters('f') => None,
            "export" => Some(Export::Yes),
            _ => letters('x').then_some(Export::Yes),
        };
        let own = own && !letters('g');
        for word in words.into_iter().skip(1) {
            let name = word.text.split('=').next().unwrap_or_default();
            let name = name.strip_suffix('+').unwrap_or(name);
            if own && !name.starts_with('-') && !self.locals.is_empty() {
                self.localise(name);
                if !word.text.contains('=') {
                    self.set(name, Variable::Unset);
                }
            }
            if let Some(export) = export.filter(|_| !name.starts_with('-')) {
                self.mark(name, export, conditional);
            }
            let Some((name, _)) = word.text.split_once('=') else {
                continue;
            };
            let name = name.to_owned();
            let start = name.len() + 1;
            let value = Word {
                text: Cow::Owned(word.text[start..].to_owned()),
                ..word
            };
            self.assign(&name, false, value, conditional);
        }
    }

    /// `shopt`.
    fn shell_options(&mut self, words: &[Word<'a>]) {
        let last = words.iter().any(|word| word.text == "lastpipe");
        let on = words.iter().any(|word| word.text == "-s");
        if last {
            self.last_pipe = on;
        }
    }

    /// `trap HANDLER SIGNAL`: what the handler starts is perhaps started, and nothing else of it counts.
    fn trap(&mut self, words: &[Word<'a>]) {
        let handler = words.get(1).filter(|word| word.text != "--").or(words.get(2));
        let Some(handler) = handler.filter(|word| word.certainty == Certainty::Known) else {
            return;
        };
        if handler.text.starts_with('-') || !handler.text.contains(' ') || self.depth >= DEEPEST {
            return;
        }
        let text = handler.text.clone();
        self.depth += 1;
        self.apart(|runner| {
            runner.one_of([()], true, |runner, ()| {
                runner.run_text(&text, Site::ELSEWHERE);
                Next::On
            })
        });
        self.depth -= 1;
    }

    /// `printf -v NAME FORMAT …`.
    fn print_into(&mut self, words: &[Word<'a>], conditional: bool) {
        let Some((name, rest)) = words.get(2..).and_then(<[Word<'_>]>::split_first) else {
            return;
        };
        let word = match written::printed(rest) {
            Ok(text) => Word {
                text: Cow::Owned(text),
                ..Word::literal("")
            },
            Err(reason) => Word {
                certainty: Certainty::From(0),
                reason: Some(Cow::Owned(reason)),
                ..Word::literal("")
            },
        };
        self.assign(&name.text, false, word, conditional);
    }

    /// `. FILE`: what a known file sets is set; of any other nothing is known to be. What the script itself put together
    /// and is not known may be anything.
    fn source(&mut self, words: &[Word<'a>], conditional: bool) {
        let Some(file) = words.get(1) else { return };
        let printed = file.text.strip_prefix('<').filter(|rest| rest.starts_with('('));
        let text = if matches!(&*file.text, "/dev/stdin" | "/proc/self/fd/0") {
            self.here.take().map(Cow::Owned)
        } else if let Some(printed) = printed {
            self.substituted(&format!("${printed}")).map(Cow::Owned)
        } else if file.certainty != Certainty::Known {
            return;
        } else {
            match self.file(&file.text) {
                Ok(text) => Some(text),
                Err(_) if self.written.contains_key(&self.absolute(&file.text)) => None,
                Err(_) => return,
            }
        };
        let Some(text) = text else {
            self.give_up(&format!(
                "{} is executed, and its text is not known",
                brief(&file.text)
            ));
            return;
        };
        if self.depth >= DEEPEST {
            self.give_up("scripts are nested too deeply");
            return;
        }
        let text = text.into_owned();
        let doubtful = self.doubtful;
        self.doubtful |= conditional;
        self.depth += 1;
        self.run_text(&text, Site::ELSEWHERE);
        self.depth -= 1;
        self.doubtful = doubtful;
    }
}

/// Whether a part of a value is that of the variable `name`.
fn names(piece: &Piece, name: &str) -> bool {
    match piece {
        Piece::Variable { name: used, .. } | Piece::Changed { name: used, .. } => used == name,
        Piece::Arithmetic(text) => text.contains(name),
        _ => false,
    }
}

/// The name of a place that nobody filled in.
fn placeholder(token: &Token) -> Option<&str> {
    let Kind::Word { pieces, .. } = &token.kind else {
        return None;
    };
    pieces.iter().find_map(|piece| match piece {
        Piece::Unreadable { raw, .. } if raw.starts_with('<') => Some(raw.as_str()),
        _ => None,
    })
}
