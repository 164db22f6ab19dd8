//! The words of a name: which of them decide, and which are set aside.
//!
//! `Meta-Llama-3.1-8B-Instruct-FP8` decides by `llama-3.1-8b` and is first looked up as `llama-3.1-8b-instruct`.
//! Work is linear in the text's length, which the caller bounds.

use super::marks::{Marks, Unclear};
use super::vocabulary::{Class, class, is_dated, is_number, is_part, is_size};
use crate::model::Format;

/// A name, read word by word.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    list: Vec<(String, Class)>,
    marks: Marks,
    /// Whether a tag stands behind it: `llama3.1:8b`.
    tagged: bool,
}

impl Words {
    /// Reads a name without publisher. Upper and lower case are alike; blanks, commas, brackets and colons part words as
    /// `-` does.
    pub(super) fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let mut words = Self {
            tagged: name.contains(':'),
            ..Self::default()
        };
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
        let what = class(word);
        let letters = word.bytes().take_while(u8::is_ascii_alphabetic).count();
        if what == Class::Name
            && letters >= 2
            && let (Some(family), Some(release)) = (word.get(..letters), word.get(letters..))
            && release.starts_with(|first: char| first.is_ascii_digit())
        {
            self.push(family, Class::Name);
            self.push(release, class(release));
        } else {
            self.push(word, what);
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
        for at in 1..self.list.len() {
            if let Some([(first, one), (of, two), (last, three)]) = self.list.get_mut(at - 1..=at + 1)
                && of == "of"
                && is_part(first)
                && is_part(last)
            {
                (*one, *two, *three) = (Class::Part, Class::Part, Class::Part);
            }
        }
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

    /// Whether they have a tag and tell no format. Registries with tags, such as Ollama's, serve most models packed where
    /// the tag tells none, so that the size is not certain.
    pub(super) const fn is_tag_without_format(&self) -> bool {
        self.tagged && !self.marks.any()
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
            ("Qwen3-8B-00001-of-00004.safetensors", "qwen-3-8b", "qwen-3-8b"),
            ("Qwen3-8B-12345", "qwen-3-8b-12345", "qwen-3-8b-12345"),
            ("Llama-of-00001", "llama-of-00001", "llama-of-00001"),
            ("Meta", "meta", "meta"),
            ("", "", ""),
        ] {
            let words = Words::of(name);
            assert_eq!(words.full(), full, "{name}");
            assert_eq!(words.family(), family, "{name}");
        }
    }
}
