//! Follows a command line to the programs that it starts: through wrappers, shells and their scripts.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use super::environment::Found;
use super::prefix::{self, base_name};
use super::reason::brief;
use super::shell::{self, Kind, Piece, Token};
use super::{Certainty, Command, Environment, Item, Word};

mod arithmetic;
mod branch;
mod expand;
mod field;
mod list;
mod written;

pub(super) use written::Text as WrittenText;

/// Scripts within scripts that are followed.
const DEEPEST: u8 = 8;
/// Programs that a script may start; one beyond is not read.
const MOST: usize = 10_000;
/// Bytes of scripts and of the words that they become, all in all: a variable that doubles itself ends here.
const MOST_BYTES: usize = 1 << 22;
/// Bytes of one word that Linux hands to a program (`MAX_ARG_STRLEN` without the NUL): a longer one is never executed.
const LONGEST_WORD: usize = (128 << 10) - 1;

/// Bytes of a path that Linux takes (`PATH_MAX`).
const LONGEST_PATH: usize = 4096;

/// Texts of one variable that are told apart.
const MOST_TEXTS: usize = 8;

pub(super) struct Runner<'a, 'e> {
    environment: &'e Environment<'a>,
    files: &'e Files<'a>,
    variables: HashMap<String, Variable<'a>>,
    positional: VecDeque<Word<'a>>,
    depth: u8,
    budget: usize,
    bytes: usize,
    pub(super) commands: Vec<Command<'a>>,
    pub(super) opaque: Option<String>,
    pub(super) script: bool,
    /// Files that the script wrote, the last text of each.
    pub(super) written: BTreeMap<String, written::Text>,
    /// The folder that the script changed to.
    folder: Option<String>,
    functions: HashMap<String, Rc<[Token]>>,
    /// Whether the script replaced itself or ended.
    ended: bool,
    /// What the last command wrote to the pipe.
    piped: Option<written::Text>,
}

/// Looks up a file of the container.
pub(super) type Files<'a> = dyn Fn(&str) -> Result<&'a str, String> + 'a;

#[derive(Clone)]
enum Variable<'a> {
    Text(Rc<String>),
    Array(Rc<Vec<Word<'a>>>),
    Unknown(String),
    /// Nothing, or one word with this beginning, which names an option.
    Option {
        name: String,
        reason: String,
    },
    /// One of these texts.
    Either {
        texts: Rc<Vec<String>>,
        reason: String,
    },
    Unset,
}

/// Where a script stands, so that its words keep their place.
#[derive(Clone, Copy)]
struct Site {
    item: Item,
    /// Whether bytes of the script are those of the item as submitted.
    aligned: bool,
}

impl Site {
    /// A text that is not the item as submitted.
    const ELSEWHERE: Self = Self {
        item: Item::Elsewhere,
        aligned: false,
    };
}

/// Whether the script goes on.
enum Next {
    On,
    Stop,
}

impl<'a, 'e> Runner<'a, 'e> {
    pub(super) fn new(environment: &'e Environment<'a>, files: &'e Files<'a>) -> Self {
        Self {
            environment,
            files,
            variables: HashMap::new(),
            positional: VecDeque::new(),
            depth: 0,
            budget: MOST,
            bytes: MOST_BYTES,
            commands: Vec::new(),
            opaque: None,
            script: false,
            written: BTreeMap::new(),
            folder: None,
            functions: HashMap::new(),
            ended: false,
            piped: None,
        }
    }

    fn give_up(&mut self, reason: &str) {
        if self.opaque.is_none() {
            self.opaque = Some(reason.to_owned());
        }
    }

    /// Follows one command line.
    pub(super) fn start(&mut self, words: Vec<Word<'a>>, end: Option<(Item, usize)>) {
        self.start_with(words, end, Vec::new(), false);
    }

    fn start_with(
        &mut self,
        mut words: Vec<Word<'a>>,
        end: Option<(Item, usize)>,
        mut variables: Vec<(String, Option<String>)>,
        conditional: bool,
    ) {
        prefix::strip(&mut words, &mut variables);
        let Some(first) = words.first() else { return };
        let shell = first.certainty == Certainty::Known
            && matches!(
                base_name(&first.text),
                "sh" | "bash" | "ash" | "dash" | "zsh" | "ksh"
            );
        if shell && let Some(at) = script_index(&words) {
            self.script = true;
            if self.depth >= DEEPEST {
                self.give_up("scripts are nested too deeply");
                return;
            }
            let script = words[at].clone();
            let outer = std::mem::replace(&mut self.positional, words.split_off(at + 1).into());
            self.depth += 1;
            self.run(&script);
            self.ended = false;
            self.depth -= 1;
            self.positional = outer;
            return;
        }
        if let Some((at, text)) = self.script_file(&words, shell) {
            self.script = true;
            if self.depth >= DEEPEST {
                self.give_up("scripts are nested too deeply");
                return;
            }
            let outer = std::mem::replace(&mut self.positional, words.split_off(at).into());
            self.depth += 1;
            self.run_text(&text, Site::ELSEWHERE);
            self.ended = false;
            self.depth -= 1;
            self.positional = outer;
            return;
        }
        self.go_run(&mut words);
        self.commands.push(Command {
            words,
            variables,
            end,
            conditional,
            refused: None,
        });
    }

    /// `go run . serve`: the program has the name of the folder that holds it.
    fn go_run(&self, words: &mut Vec<Word<'a>>) {
        let is = |index: usize, text: &str| words.get(index).is_some_and(|word| word.text == text);
        if is(0, "go")
            && is(1, "run")
            && is(2, ".")
            && let Some(folder) = &self.folder
        {
            let name = base_name(folder.trim_end_matches('/')).to_owned();
            words.drain(..2);
            words[0].text = Cow::Owned(name);
            words[0].span = None;
        }
    }

    /// The text of a script that is executed as a file, where the file is known; with the index of its name.
    fn script_file(&self, words: &[Word<'a>], shell: bool) -> Option<(usize, Cow<'a, str>)> {
        let at = if shell {
            words
                .iter()
                .skip(1)
                .position(|word| !word.text.starts_with('-'))?
                + 1
        } else {
            0
        };
        let word = words.get(at)?;
        let path = self.absolute(&word.text);
        let known = word.certainty == Certainty::Known && path.starts_with('/');
        if !known && !self.written.contains_key(&path) {
            return None;
        }
        let text = self.file(&word.text).ok()?;
        let first = text.lines().next().unwrap_or_default();
        let script = shell || first.starts_with("#!") && first.contains("sh");
        script.then_some((at, text))
    }

    fn run(&mut self, script: &Word<'a>) {
        if script.certainty == Certainty::Many || script.certainty == Certainty::From(0) {
            let reason = script
                .reason
                .clone()
                .unwrap_or(Cow::Borrowed("its text is not known"));
            self.give_up(&format!("the script: {reason}"));
            return;
        }
        if script.text.len() > LONGEST_WORD {
            self.give_up("the script is longer than the 131071 bytes that Linux hands to a program");
            return;
        }
        let aligned = script
            .span
            .as_ref()
            .is_some_and(|span| span.start == 0 && span.len() == script.text.len());
        self.run_text(
            &script.text,
            Site {
                item: script.item,
                aligned,
            },
        );
    }

    /// Takes `bytes` off what may still be read; false where that is used up.
    fn spend(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.bytes == 0 {
            self.give_up("the script is too long");
        }
        self.bytes > 0
    }

    fn run_text(&mut self, text: &str, site: Site) {
        if !self.spend(text.len()) {
            return;
        }
        let (tokens, unread) = shell::lex(text);
        self.tokens(&tokens, site);
        if let Some(reason) = unread {
            self.give_up(&format!("the script: {reason}"));
        }
    }

    fn set(&mut self, name: &str, value: Variable<'a>) {
        match self.variables.get_mut(name) {
            Some(slot) => *slot = value,
            None => {
                self.variables.insert(name.to_owned(), value);
            }
        }
    }

    /// Adds to the text of a variable of the script itself where it is; false where that is none.
    fn extend(&mut self, name: &str, more: &str) -> bool {
        let Some(Variable::Text(text)) = self.variables.get_mut(name) else {
            return false;
        };
        Rc::make_mut(text).push_str(more);
        true
    }

    fn assign(&mut self, name: &str, append: bool, fields: Word<'a>, conditional: bool) {
        let known = fields.certainty == Certainty::Known;
        if append && known && !conditional && self.extend(name, &fields.text) {
            return;
        }
        let option = option_of(&fields).map(str::to_owned);
        let value = if known {
            Variable::Text(Rc::new(fields.text.into_owned()))
        } else {
            Variable::Unknown(
                fields
                    .reason
                    .map_or_else(|| format!("{} is not known", brief(name)), Cow::into_owned),
            )
        };
        let before = self.look_up(name);
        let value = match (append, value) {
            (true, Variable::Text(more)) => match &before {
                Variable::Text(text) => {
                    // A copy of what may be long.
                    self.spend(text.len());
                    Variable::Text(Rc::new(format!("{text}{more}")))
                }
                Variable::Unset => Variable::Text(more),
                other => other.clone(),
            },
            (_, value) => value,
        };
        let same = match (&value, &before) {
            (Variable::Text(a), Variable::Text(b)) => a == b,
            _ => false,
        };
        if conditional && !same {
            let reason = format!("{} is set under a condition", brief(name));
            let value = match (option, &before) {
                (Some(option), Variable::Option { name, .. }) if *name == option => Variable::Option {
                    name: name.clone(),
                    reason,
                },
                (Some(name), Variable::Unset) if !append => Variable::Option { name, reason },
                (Some(name), Variable::Text(text)) if !append && text.trim().is_empty() => {
                    Variable::Option { name, reason }
                }
                _ => either(&before, value, reason),
            };
            self.set(name, value);
        } else {
            self.set(name, value);
        }
    }

    fn assign_array(
        &mut self,
        name: &str,
        append: bool,
        items: &[Vec<Piece>],
        conditional: bool,
        site: Site,
    ) {
        let mut words = Vec::new();
        for item in items {
            self.fields(item, None, site, &mut words);
        }
        let before = match self.variables.get_mut(name) {
            Some(Variable::Array(before)) if append => Some(Rc::make_mut(before)),
            _ => None,
        };
        match before {
            Some(before) if conditional && !before.is_empty() => perhaps(words, name, before),
            Some(before) if !conditional => before.append(&mut words),
            _ if conditional => {
                // Whether the words are there is not known, and how many there are either.
                self.set(
                    name,
                    Variable::Unknown(format!("{} is set under a condition", brief(name))),
                );
            }
            _ => self.set(name, Variable::Array(Rc::new(words))),
        }
    }

    /// The value of a variable. A copy of a text that the script did not set itself counts as read once more.
    fn look_up(&mut self, name: &str) -> Variable<'a> {
        if let Some(value) = self.variables.get(name) {
            return value.clone();
        }
        let value = if let Ok(index) = name.parse::<usize>() {
            // `$0` is the first word after the script. Behind a word that may be any number of them no place is known.
            let reached = index.saturating_add(1).min(self.positional.len());
            self.spend(reached);
            let mut before = self.positional.iter().take(reached).skip(1);
            let many = before.find(|word| word.certainty == Certainty::Many);
            match many.or(self.positional.get(index)) {
                Some(word) if word.certainty == Certainty::Known => {
                    Variable::Text(Rc::new(word.text.clone().into_owned()))
                }
                Some(word) => Variable::Unknown(
                    word.reason
                        .clone()
                        .map_or_else(|| "not known".to_owned(), Cow::into_owned),
                ),
                None => Variable::Unset,
            }
        } else {
            match self.environment.find(name) {
                Found::Value(value) => Variable::Text(Rc::new(value.to_owned())),
                Found::Unknown(why) => Variable::Unknown(why.into_owned()),
                // KServe's own: no image sets it, and its script uses it as it is.
                Found::NotSet if name == "VLLM_ADDITIONAL_ARGS" => Variable::Text(Rc::default()),
                Found::NotSet => Variable::Unset,
            }
        };
        if let Variable::Text(text) = &value {
            self.spend(text.len());
        }
        value
    }

    fn simple(&mut self, command: &[Token], conditional: bool, site: Site) -> Next {
        let before = self.commands.len();
        let (command, mut streams) = self.streams(command, site);
        let command = command.as_slice();
        if streams.input.is_none() {
            streams.input = self.piped.take();
        }
        let unfilled = command.iter().find_map(placeholder).map(str::to_owned);
        let next = self.simple_command(command, streams, conditional, site);
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
                    let word = self.joined(value, site);
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
        let end = (site.aligned && site.item != Item::Elsewhere).then_some((site.item, last.span.end));
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
                    self.assign_array(name, *append, items, conditional, site);
                }
                Kind::Operator(_) | Kind::Into { .. } | Kind::HereDocument { .. } => {}
            }
            if words.len() > MOST {
                self.give_up("the script is too long");
                return Next::Stop;
            }
        }
        self.follow_files(&words, streams, conditional);
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
            "export" | "declare" | "local" | "readonly" | "typeset" => {
                for word in words.into_iter().skip(1) {
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
            "unset" => {
                for word in &words[1..] {
                    let value = if conditional {
                        Variable::Unknown(format!("{} is unset under a condition", brief(&word.text)))
                    } else {
                        Variable::Unset
                    };
                    self.set(&word.text, value);
                }
            }
            "set" => {
                if let Some(at) = words.iter().position(|word| word.text == "--") {
                    let zero = self.positional.front().cloned().unwrap_or(Word::literal("sh"));
                    self.positional = std::iter::once(zero).chain(words.drain(at + 1..)).collect();
                }
            }
            "shift" => {
                let count = words
                    .get(1)
                    .map_or(Some(1), |word| word.text.parse::<usize>().ok());
                match count {
                    Some(count) if !conditional => {
                        // More than there are is an error that shifts nothing.
                        if count < self.positional.len() {
                            self.positional.drain(1..=count);
                        }
                    }
                    _ => {
                        let reason = "shift moves them by a number that is not known";
                        let unknown = Word {
                            certainty: Certainty::Many,
                            reason: Some(Cow::Borrowed(reason)),
                            ..Word::literal("$@")
                        };
                        self.positional.truncate(1);
                        self.positional.push_back(unknown);
                    }
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
            "exit" => {
                self.ended |= !conditional;
                return if conditional { Next::On } else { Next::Stop };
            }
            "exec" => {
                self.start_with(words, end, overlay, conditional);
                self.ended |= !conditional;
                return if conditional { Next::On } else { Next::Stop };
            }
            _ if self.call(&words, site) => {}
            "cd" => {
                let folder = words.get(1).filter(|word| word.certainty == Certainty::Known);
                let folder = folder.map(|word| self.absolute(&word.text));
                let folder = folder.filter(|folder| folder.len() <= LONGEST_PATH);
                if folder != self.folder {
                    self.folder = folder.filter(|_| !conditional);
                }
            }
            "source" | "." | ":" | "true" | "false" | "wait" | "trap" | "ulimit" | "umask" | "]" | "]]" => {}
            _ => self.start_with(words, end, overlay, conditional),
        }
        Next::On
    }
}

/// `--option=` of a word that sets one option.
fn option_of<'w>(word: &'w Word<'_>) -> Option<&'w str> {
    let end = word.text.find('=')? + 1;
    let name = &word.text[..end];
    let known = match word.certainty {
        Certainty::Known => !word.text.contains([' ', '\t', '\n']),
        Certainty::From(at) => at >= end,
        Certainty::Many => false,
    };
    (known && name.starts_with("--") && !name.contains(char::is_whitespace)).then_some(name)
}

/// Words of an array that are there or not: an option keeps its name and loses its value, anything else may stand for
/// any words.
fn perhaps<'a>(added: Vec<Word<'a>>, array: &str, words: &mut Vec<Word<'a>>) {
    let reason = format!("{} is extended under a condition", brief(array));
    let mut added = added.into_iter().peekable();
    while let Some(mut word) = added.next() {
        let known = word.certainty == Certainty::Known;
        let alone = known && word.text.starts_with("--") && !word.text.contains('=');
        let name = if let Some(name) = option_of(&word) {
            Some(name.to_owned())
        } else if alone && added.peek().is_some_and(|next| !next.text.starts_with('-')) {
            added.next();
            Some(format!("{}=", word.text))
        } else {
            None
        };
        word.span = None;
        word.reason = Some(Cow::Owned(reason.clone()));
        match name {
            Some(name) => {
                word.certainty = Certainty::From(name.len());
                word.text = Cow::Owned(name);
            }
            None => word.certainty = Certainty::Many,
        }
        words.push(word);
    }
}

/// What a variable can hold after an assignment that is made or not.
fn either<'a>(before: &Variable<'_>, value: Variable<'a>, reason: String) -> Variable<'a> {
    let Variable::Text(new) = value else {
        return Variable::Unknown(reason);
    };
    let mut texts = match before {
        Variable::Text(old) => vec![old.to_string()],
        Variable::Either { texts, .. } if texts.len() < MOST_TEXTS => texts.to_vec(),
        _ => return Variable::Unknown(reason),
    };
    texts.push(new.to_string());
    let texts = Rc::new(texts);
    Variable::Either { texts, reason }
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

/// The text of a token without quotes and expansions.
fn bare_text(token: &Token) -> Option<&str> {
    match &token.kind {
        Kind::Word { pieces, bare: true } => match pieces.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// The index of the script of `sh -c SCRIPT`; `None` where the shell runs a file.
fn script_index(words: &[Word<'_>]) -> Option<usize> {
    let mut index = 1;
    let mut command = false;
    while let Some(word) = words.get(index) {
        let text = &*word.text;
        if text == "--" {
            index += 1;
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            index += if matches!(long, "rcfile" | "init-file") {
                2
            } else {
                1
            };
            continue;
        }
        let Some(letters) = text
            .strip_prefix(['-', '+'])
            .filter(|letters| !letters.is_empty())
        else {
            break;
        };
        command |= text.starts_with('-') && letters.contains('c');
        // `-o pipefail`, also within a group.
        index += if letters.contains(['o', 'O']) { 2 } else { 1 };
    }
    (command && index < words.len()).then_some(index)
}
