//! What single words mean in names of models, whatever stands beside them.

/// What a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
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

/// What a word is by itself.
pub(super) fn class(word: &str) -> Class {
    if ROLES.contains(&word) {
        Class::Role
    } else if PROSE.contains(&word) || is_ranks(word) {
        Class::Prose
    } else if ADAPTER.contains(&word) {
        Class::Adapter
    } else if word.ends_with("forcausallm") || word.ends_with("forconditionalgeneration") {
        Class::Architecture
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
pub(super) fn is_dated(word: &str) -> bool {
    match word.strip_prefix('v') {
        Some(version) => is_number(version),
        None => matches!(word.len(), 4 | 6 | 8) && word.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// `3`, `2.5`.
pub(super) fn is_number(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// `00003` of `00001-of-00003`.
pub(super) fn is_part(word: &str) -> bool {
    word.len() == 5 && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// `8b`, `0.5b`, `8x7b`, `e4b`, `135m`.
pub(super) fn is_size(word: &str) -> bool {
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
