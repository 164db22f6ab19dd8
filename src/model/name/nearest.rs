//! Known names that look like an unknown one.

use super::index::{Index, Target};
use crate::model::Catalogue;

/// Bytes of a key that are compared.
const LONGEST: usize = 48;

/// How many are told.
const TOLD: usize = 3;

/// Words of a key among which a known name is sought.
const WORDS: usize = 12;

/// The known names nearest to the words of an unknown one, best first: one that stands within it (a fine-tune names its
/// base), those that it begins, those of the same family at a short distance; of other families only where a slip of the
/// pen explains the difference. Work is bounded by the size of the catalogue.
pub(super) fn nearest(catalogue: &Catalogue, key: &str) -> Vec<String> {
    let index = catalogue.index();
    let key = cut(key);
    let Some(first) = key.split('-').next().filter(|first| !first.is_empty()) else {
        return Vec::new();
    };
    let mut best: Vec<Target> = within(index, key).into_iter().collect();
    let begun = format!("{key}-");
    best.extend(
        index
            .beginning(&begun)
            .filter_map(|(_, targets)| targets.first())
            .take(TOLD),
    );
    if best.len() < TOLD {
        let family = format!("{first}-");
        let mut near = rank(index, &family, key, key.len().div_ceil(3));
        if near.is_empty() && best.is_empty() {
            near = rank(index, "", key, if key.len() < 6 { 1 } else { 2 });
        }
        near.sort_unstable_by_key(|(distance, length, target)| {
            (*distance, *length, target.model, target.name)
        });
        best.extend(near.into_iter().map(|(_, _, target)| target));
    }
    let mut told: Vec<String> = Vec::with_capacity(TOLD);
    let mut models: Vec<usize> = Vec::with_capacity(TOLD);
    for target in best {
        if told.len() < TOLD && !models.contains(&target.model) {
            models.push(target.model);
            told.extend(
                catalogue
                    .at(target.model)
                    .map(|model| target.text(model).to_owned()),
            );
        }
    }
    told
}

/// The longest known name of two words or more that stands within a key.
fn within(index: &Index, key: &str) -> Option<Target> {
    let ends = |from: usize| {
        key.match_indices('-')
            .map(|(at, _)| at)
            .chain([key.len()])
            .filter(move |end| *end > from)
    };
    let starts = [0]
        .into_iter()
        .chain(key.match_indices('-').map(|(at, _)| at.saturating_add(1)));
    let mut best: Option<(usize, Target)> = None;
    for start in starts.take(WORDS) {
        for end in ends(start).take(WORDS) {
            let Some(part) = key.get(start..end).filter(|part| part.contains('-')) else {
                continue;
            };
            if best.is_none_or(|(length, _)| part.len() > length)
                && let Some(target) = index.full(part).first()
            {
                best = Some((part.len(), *target));
            }
        }
    }
    best.map(|(_, target)| target)
}

/// Distance, length of the key, where it leads.
type Near = (usize, usize, Target);

fn rank(index: &Index, start: &str, key: &str, most: usize) -> Vec<Near> {
    let letters = letters(key);
    index
        .beginning(start)
        .filter_map(|(known, targets)| {
            let known = cut(known);
            let target = targets.first()?;
            // Each letter that only one of them has costs an edit; one edit changes at most two.
            let differing = usize::try_from((letters ^ self::letters(known)).count_ones()).ok()?;
            if differing > most.saturating_mul(2) || known.len().abs_diff(key.len()) > most {
                return None;
            }
            let distance = distance(key.as_bytes(), known.as_bytes());
            (distance <= most).then_some((distance, known.len(), *target))
        })
        .collect()
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default()
}

/// Which letters and digits occur.
fn letters(text: &str) -> u64 {
    text.bytes().fold(0, |set, byte| {
        set | match byte {
            b'a'..=b'z' => 1 << (byte - b'a'),
            b'0'..=b'9' => 1 << (byte - b'0' + 26),
            _ => 0,
        }
    })
}

/// Edits that make one text of the other (Levenshtein); both are at most [`LONGEST`] long.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: [usize; LONGEST + 1] = std::array::from_fn(|at| at);
    for (at, left) in one.iter().enumerate() {
        let mut diagonal = at;
        let mut before = at + 1;
        if let Some(first) = row.first_mut() {
            *first = before;
        }
        for (right, cell) in other.iter().zip(row.iter_mut().skip(1)) {
            let changed = diagonal + usize::from(left != right);
            diagonal = *cell;
            before = changed.min(*cell + 1).min(before + 1);
            *cell = before;
        }
    }
    row.get(other.len()).copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (one, other, expected) in [
            ("", "", 0),
            ("llama", "llama", 0),
            ("lama", "llama", 1),
            ("qwen3", "qwen2", 1),
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "", 3),
        ] {
            assert_eq!(
                distance(one.as_bytes(), other.as_bytes()),
                expected,
                "{one} {other}"
            );
        }
    }

    #[test]
    fn the_nearest_are_of_the_same_family_or_a_slip_away() {
        let near = |key: &str| nearest(Catalogue::embedded(), key);
        assert_eq!(
            near("llama-3.1-9b").first().map(String::as_str),
            Some("llama-3.1-8b")
        );
        assert_eq!(
            near("lama-3.1-8b").first().map(String::as_str),
            Some("llama-3.1-8b")
        );
        assert_eq!(
            near("hermes-3-llama-3.1-8b").first().map(String::as_str),
            Some("llama-3.1-8b")
        );
        assert_eq!(near("gpt-oss"), ["gpt-oss-120b", "gpt-oss-20b"]);
        assert_eq!(near("completely-different-name"), [""; 0]);
        assert_eq!(near(""), [""; 0]);
        assert!(near(&"llama-3.1-8b".repeat(2000)).len() <= TOLD);
        assert!(near(&"é".repeat(2000)).is_empty());
    }
}
