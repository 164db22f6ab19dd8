//! The words of a name: which of them decide, and which are set aside.
//!
//! `Meta-Llama-3.1-8B-Instruct-FP8` decides by `llama-3.1-8b` and is first looked up as `llama-3.1-8b-instruct`.
//! Work is linear in the text's length, which the caller bounds.

use super::marks::{Marks, Unclear};
use crate::model::Format;

/// What a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Decides: family, release, size, what makes it another model.
    Name,
    /// A role or a date, which does not change the shape.
    Role,
    /// A date or a release of the weights; decides unless a size stands beside it.
    Dated,
    /// Tells of the format only.
    Format,
    /// Belongs to the sentence, not to the name.
    Prose,
    /// Tells that it is an adapter, or has one.
    Adapter,
    /// The class that loads it: tells of no model.
    Architecture,
    /// Numbering of parts of a file.
    Part,
}

/// A name, read word by word.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    list: Vec<(String, Class)>,
    marks: Marks,
}

/// Roles: the same shape, trained otherwise.
const ROLES: [&str; 11] = [
    "instruct", "chat", "it", "base", "hf", "pt", "thinking", "think", "latest", "inst", "model",
];

/// Words of people who describe a model.
const PROSE: [&str; 26] = [
    "class",
    "fine",
    "tune",
    "tuned",
    "tuning",
    "finetune",
    "finetuned",
    "with",
    "or",
    "so",
    "by",
    "its",
    "size",
    "about",
    "roughly",
    "approximately",
    "like",
    "hybrid",
    "architecture",
    "arch",
    "and",
    "a",
    "an",
    "the",
    "some",
    "variant",
];

const ADAPTER: [&str; 5] = ["lora", "qlora", "adapter", "peft", "loras"];

impl Words {
    /// Reads a name without publisher. Upper and lower case are alike; blanks, commas, brackets and colons part words as
    /// `-` does.
    pub(super) fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let mut words = Self::default();
        for piece in name.split(['-', ' ', ',', '(', ')', ':', '@', ';', '\t']) {
            words.piece(piece);
        }
        words.settle();
        words
    }

    /// Takes what stands between separators: `8b.q4_k_m`, `internlm2_5`, `quantized.w8a8`.
    fn piece(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        if Marks::is_mark(piece) {
            self.mark(piece);
            return;
        }
        if let Some((before, after)) = piece.rsplit_once('.')
            && (Marks::is_mark(after) || matches!(after, "i1" | "safetensors"))
        {
            self.piece(before);
            self.piece_or_word(after);
            return;
        }
        let underscores = piece.match_indices('_').map(|(at, _)| at);
        for at in underscores {
            if let (Some(before), Some(after)) = (piece.get(..at), piece.get(at + 1..))
                && Marks::is_mark(after)
            {
                self.piece(before);
                self.mark(after);
                return;
            }
        }
        self.parts(piece);
    }

    fn piece_or_word(&mut self, piece: &str) {
        if Marks::is_mark(piece) {
            self.mark(piece);
        } else if Marks::is_qualifier(piece) {
            self.push(piece, Class::Name);
        } else {
            self.push(piece, Class::Part);
        }
    }

    /// Splits at `_`, except between digits, where it stands for a point: `internlm2_5`, `Llama-3_3`.
    fn parts(&mut self, piece: &str) {
        let bytes = piece.as_bytes();
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        let mut word = String::with_capacity(piece.len());
        for (at, character) in piece.char_indices() {
            match character {
                '_' if digit(at.checked_sub(1)) && digit(at.checked_add(1)) => word.push('.'),
                '_' => {
                    self.word(&word);
                    word.clear();
                }
                _ => word.push(character),
            }
        }
        self.word(&word);
    }

    /// Takes one word; a family and its release written together are two.
    fn word(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        if Marks::is_mark(word) {
            self.mark(word);
            return;
        }
        if matches!(word, "bit" | "bits") {
            self.bits();
            return;
        }
        if word == "round" && self.list.last().is_some_and(|(last, _)| last == "auto") {
            self.list.pop();
            self.mark("autoround");
            return;
        }
        let class = class(word);
        let letters = word.bytes().take_while(u8::is_ascii_alphabetic).count();
        if class == Class::Name
            && letters >= 2
            && let (Some(family), Some(release)) = (word.get(..letters), word.get(letters..))
            && release.starts_with(|first: char| first.is_ascii_digit())
        {
            self.push(family, Class::Name);
            self.push(release, self::class(release));
        } else {
            self.push(word, class);
        }
    }

    /// `4 bit`: the number before belongs to it. `GGUF 4-5 bit` tells no format beyond the word before.
    fn bits(&mut self) {
        let digit = |at: Option<&(String, Class)>| {
            at.map(|(word, _)| word.clone())
                .filter(|word| word.len() == 1 && word.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let Some(most) = digit(self.list.last()) else {
            self.push("bit", Class::Prose);
            return;
        };
        self.list.pop();
        let marked = |at: &(String, Class)| at.1 == Class::Format;
        let before = self.list.len().checked_sub(2).and_then(|at| self.list.get(at));
        let least = digit(self.list.last()).filter(|_| before.is_some_and(marked));
        if let Some(least) = least {
            self.list.pop();
            self.push(&format!("{least}-{most} bit"), Class::Prose);
            return;
        }
        let word = format!("{most}bit");
        if Marks::is_mark(&word) {
            self.mark(&word);
        } else {
            self.push(&word, Class::Name);
        }
    }

    fn mark(&mut self, word: &str) {
        self.marks.take(word);
        self.push(word, Class::Format);
    }

    fn push(&mut self, word: &str, class: Class) {
        self.list.push((word.to_owned(), class));
    }

    /// What a word is may hang on the others.
    fn settle(&mut self) {
        let sized = self.list.iter().any(|(word, _)| is_size(word));
        let marked = self.marks.any();
        let many = self.list.len() > 1;
        for (at, (word, class)) in self.list.iter_mut().enumerate() {
            match class {
                Class::Dated => *class = if sized { Class::Role } else { Class::Name },
                // Families whose publisher stands in their own name.
                Class::Name if at == 0 && many && matches!(word.as_str(), "meta" | "nvidia") => {
                    *class = Class::Part;
                }
                Class::Name if marked && Marks::is_qualifier(word) => *class = Class::Format,
                _ => {}
            }
        }
    }

    fn joined(&self, keep: impl Fn(&str, Class) -> bool) -> String {
        let mut key = String::new();
        for (word, class) in &self.list {
            if keep(word, *class) {
                if !key.is_empty() {
                    key.push('-');
                }
                key.push_str(word);
            }
        }
        key
    }

    /// What decides, with roles and dates.
    pub(super) fn full(&self) -> String {
        self.joined(|_, class| matches!(class, Class::Name | Class::Role))
    }

    /// What decides, without roles and dates.
    pub(super) fn family(&self) -> String {
        self.joined(|_, class| class == Class::Name)
    }

    /// What decides, without releases: `llama-70b`. `None` where the words tell a release.
    pub(super) fn without_release(&self) -> Option<String> {
        let release = |word: &str| is_number(word);
        (!self.decisive().any(release)).then(|| self.family())
    }

    /// What decides, releases left out.
    pub(super) fn whatever_release(&self) -> String {
        self.joined(|word, class| class == Class::Name && !is_number(word))
    }

    fn decisive(&self) -> impl Iterator<Item = &str> {
        self.list
            .iter()
            .filter(|(_, class)| *class == Class::Name)
            .map(|(word, _)| word.as_str())
    }

    /// Dates and releases of weights that were set aside.
    pub(super) fn dates(&self) -> impl Iterator<Item = &str> {
        self.list
            .iter()
            .filter(|(word, class)| *class == Class::Role && is_dated(word))
            .map(|(word, _)| word.as_str())
    }

    /// Words that do not stand in `key`, in their order.
    pub(super) fn set_aside(&self, roles_too: bool) -> Vec<String> {
        self.list
            .iter()
            .filter(|(_, class)| match class {
                Class::Name => false,
                Class::Role => roles_too,
                _ => true,
            })
            .map(|(word, _)| word.clone())
            .collect()
    }

    /// Whether words of a sentence stand among them.
    pub(super) fn is_prose(&self) -> bool {
        self.has(Class::Prose) || self.is_adapter()
    }

    /// Whether they tell of an adapter.
    pub(super) fn is_adapter(&self) -> bool {
        self.has(Class::Adapter)
    }

    /// Whether they name only the class that loads a model.
    pub(super) fn is_architecture(&self) -> bool {
        self.has(Class::Architecture) && self.decisive().next().is_none()
    }

    fn has(&self, wanted: Class) -> bool {
        self.list.iter().any(|(_, class)| *class == wanted)
    }

    pub(super) fn format(&self) -> Result<Option<Format>, Unclear> {
        self.marks.format()
    }
}

fn class(word: &str) -> Class {
    if ROLES.contains(&word) {
        Class::Role
    } else if PROSE.contains(&word) || is_ranks(word) {
        Class::Prose
    } else if ADAPTER.contains(&word) {
        Class::Adapter
    } else if word.ends_with("forcausallm") || word.ends_with("forconditionalgeneration") {
        Class::Architecture
    } else if word == "of" || (word.len() == 5 && word.bytes().all(|byte| byte.is_ascii_digit())) {
        Class::Part
    } else if is_dated(word) {
        Class::Dated
    } else {
        Class::Name
    }
}

/// `tp2`, `pp4`: how a run was split.
fn is_ranks(word: &str) -> bool {
    word.strip_prefix("tp")
        .or_else(|| word.strip_prefix("pp"))
        .is_some_and(|rest| {
            !rest.is_empty() && rest.len() <= 2 && rest.bytes().all(|byte| byte.is_ascii_digit())
        })
}

/// `2507`, `20250101`, `v0.3`, `v1`.
fn is_dated(word: &str) -> bool {
    match word.strip_prefix('v') {
        Some(version) => is_number(version),
        None => matches!(word.len(), 4 | 6 | 8) && word.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// `3`, `2.5`.
fn is_number(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// `8b`, `0.5b`, `8x7b`, `e4b`, `135m`.
fn is_size(word: &str) -> bool {
    let Some(number) = word.strip_suffix(['b', 'm']) else {
        return false;
    };
    let number = number.strip_prefix('e').unwrap_or(number);
    match number.split_once('x') {
        Some((experts, size)) => is_number(experts) && is_number(size),
        None => is_number(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_decide_are_told_from_the_others() {
        for (name, full, family) in [
            ("Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct", "llama-3.1-8b"),
            (
                "Meta-Llama-3.1-8B-Instruct-FP8",
                "llama-3.1-8b-instruct",
                "llama-3.1-8b",
            ),
            (
                "llama3.1:8b-instruct-q4_K_M",
                "llama-3.1-8b-instruct",
                "llama-3.1-8b",
            ),
            (
                "Llama-3_3-Nemotron-Super-49B-v1_5",
                "llama-3.3-nemotron-super-49b-v1.5",
                "llama-3.3-nemotron-super-49b",
            ),
            ("internlm2_5-7b-chat", "internlm-2.5-7b-chat", "internlm-2.5-7b"),
            ("open_llama 7B Q5_0 GGUF", "open-llama-7b", "open-llama-7b"),
            (
                "Qwen3-30B-A3B-Instruct-2507",
                "qwen-3-30b-a3b-instruct-2507",
                "qwen-3-30b-a3b",
            ),
            ("DeepSeek-V3-0324", "deepseek-v3-0324", "deepseek-v3-0324"),
            (
                "Mistral-7B-Instruct-v0.3",
                "mistral-7b-instruct-v0.3",
                "mistral-7b",
            ),
            ("whisper-large-v3", "whisper-large-v3", "whisper-large-v3"),
            ("Qwen2.5 7B class, NF4", "qwen-2.5-7b", "qwen-2.5-7b"),
            ("Qwen3-30B-A3B GGUF (4-5 bit)", "qwen-3-30b-a3b", "qwen-3-30b-a3b"),
            (
                "Llama-3.2-3B-Instruct-Q8_0.gguf",
                "llama-3.2-3b-instruct",
                "llama-3.2-3b",
            ),
            ("Qwen3-8B.i1-Q4_K_M.gguf", "qwen-3-8b", "qwen-3-8b"),
            (
                "DeepSeek-R1-Q4_K_M-00001-of-00011.gguf",
                "deepseek-r1",
                "deepseek-r1",
            ),
            ("Meta", "meta", "meta"),
            ("", "", ""),
        ] {
            let words = Words::of(name);
            assert_eq!(words.full(), full, "{name}");
            assert_eq!(words.family(), family, "{name}");
        }
    }

    #[test]
    fn sizes_dates_and_numbers_have_their_forms() {
        for size in ["8b", "0.5b", "8x7b", "e4b", "135m"] {
            assert!(is_size(size), "{size}");
        }
        for other in ["b", "a3b", "8", "xb", "8xb", "4k", "mini", ""] {
            assert!(!is_size(other), "{other}");
        }
        for date in ["2507", "0731", "v0.3", "v1", "20250101"] {
            assert!(is_dated(date), "{date}");
        }
        for other in ["250", "v", "vl", "3.1", "25071"] {
            assert!(!is_dated(other), "{other}");
        }
    }
}
