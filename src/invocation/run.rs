//! Follows a command line to the programs that it starts: through wrappers, shells and their scripts.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use super::prefix::{self, Handed, base_name};
use super::shell::{self, Kind, Piece, Token};
use super::{Certainty, Command, Environment, Item, Word};

mod arithmetic;
mod branch;
mod case;
mod change;
mod command;
mod expand;
mod export;
mod field;
mod fork;
mod list;
mod parameters;
mod pattern;
mod repeat;
mod substitute;
mod variable;
mod written;
mod xargs;

use export::Export;
use variable::Variable;
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

pub(super) struct Runner<'a, 'e> {
    environment: &'e Environment<'a>,
    files: &'e Files<'a>,
    variables: BTreeMap<String, Variable<'a>>,
    /// Which of them programs get, where that is not what the container says.
    exports: BTreeMap<String, Export>,
    /// `set -a`.
    exports_all: bool,
    /// What the functions that run have for themselves.
    locals: Vec<Vec<export::Local<'a>>>,
    /// Whether the command whose words are read is perhaps not executed.
    perhaps: bool,
    /// `shopt -s lastpipe`.
    last_pipe: bool,
    /// Whether `env -i` hides the container's environment.
    cleared: bool,
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
    /// Whether what runs now is one of several ways, so that its programs are perhaps not started.
    doubtful: bool,
    /// Whether it runs nobody knows how often.
    repeats: bool,
    /// Loops that are followed round by round, and whether one of them is left under a condition.
    loops: u32,
    loop_in_doubt: bool,
    /// What the last command wrote to the pipe.
    piped: Option<written::Text>,
    /// Brackets that the command at hand stands in: what ends there ends a shell of its own.
    subshells: u32,
    /// The here-document or here-string that `read` reads.
    here: Option<String>,
}

/// Looks up a file of the container.
pub(super) type Files<'a> = dyn Fn(&str) -> Result<&'a str, String> + 'a;

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
    /// Behind the loop.
    Break,
    /// With the next round of the loop.
    Continue,
}

impl<'a, 'e> Runner<'a, 'e> {
    pub(super) fn new(environment: &'e Environment<'a>, files: &'e Files<'a>) -> Self {
        Self {
            environment,
            files,
            variables: BTreeMap::new(),
            exports: BTreeMap::new(),
            exports_all: false,
            locals: Vec::new(),
            perhaps: false,
            last_pipe: false,
            cleared: false,
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
            doubtful: false,
            repeats: false,
            loops: 0,
            loop_in_doubt: false,
            piped: None,
            subshells: 0,
            here: None,
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
        variables: Vec<(String, Option<String>)>,
        conditional: bool,
    ) {
        let mut handed = Handed {
            variables,
            ..Handed::default()
        };
        let before = prefix::strip(&mut words, &mut handed);
        // `ray symmetric-run … -- PROGRAM`: this node joins a group before the program starts.
        if let Some(at) = before.iter().position(|word| base_name(&word.text) == "ray") {
            self.commands.push(Command {
                words: before[at..].to_vec(),
                conditional: conditional || self.doubtful,
                ..Command::default()
            });
        }
        let Some(first) = words.first() else { return };
        let shell = first.certainty == Certainty::Known
            && matches!(
                base_name(&first.text),
                "sh" | "bash" | "ash" | "dash" | "zsh" | "ksh" | "su"
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
            self.in_child(handed, |runner| runner.run(&script));
            self.ended = false;
            self.depth -= 1;
            self.positional = outer;
            return;
        }
        let shell = shell && base_name(&words[0].text) != "su";
        if let Some((at, text)) = self.script_file(&words, shell) {
            self.script = true;
            if self.depth >= DEEPEST {
                self.give_up("scripts are nested too deeply");
                return;
            }
            let outer = std::mem::replace(&mut self.positional, words.split_off(at).into());
            self.depth += 1;
            self.in_child(handed, |runner| runner.run_text(&text, Site::ELSEWHERE));
            self.ended = false;
            self.depth -= 1;
            self.positional = outer;
            return;
        }
        self.go_run(&mut words);
        let variables = self.handed(&words, handed);
        self.commands.push(Command {
            words,
            variables,
            end,
            conditional: conditional || self.doubtful,
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
        let loops = std::mem::take(&mut self.loops);
        self.tokens(&tokens, site);
        self.loops = loops;
        if let Some(reason) = unread {
            self.give_up(&format!("the script: {reason}"));
        }
    }
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
    // `su USER -c SCRIPT`: the user may stand before the options.
    if words.first().is_some_and(|first| base_name(&first.text) == "su") {
        let at = words
            .iter()
            .position(|word| matches!(&*word.text, "-c" | "--command"))?;
        return (at + 1 < words.len()).then_some(at + 1);
    }
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
