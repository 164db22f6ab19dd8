//! The shell's patterns (`*`, `?`, `[a-z]`) as `case` and `${NAME#pattern}` use them.

/// Bytes of a pattern that is matched.
const LONGEST_PATTERN: usize = 256;
/// Bytes of a text that is matched against one.
const LONGEST_TEXT: usize = 4096;
/// The same where every part of a text is tried.
const LONGEST_TRIMMED_BY: usize = 64;
/// The same where every part of a text is tried.
const LONGEST_TRIMMED: usize = 512;

/// What a match costs of the bytes that may be read: it takes up to as many steps as both lengths multiplied.
pub(super) fn cost(pattern: &str, text: &str) -> usize {
    pattern.len().saturating_mul(text.len()) / 64
}

/// Whether `text` is as `pattern` says; `None` where that is not worked out: classes by name, extended patterns, and
/// what is too long.
pub(super) fn matches(pattern: &str, text: &str) -> Option<bool> {
    if pattern.len() > LONGEST_PATTERN || text.len() > LONGEST_TEXT {
        return None;
    }
    let pattern = parts(pattern)?;
    let text: Vec<char> = text.chars().collect();
    Some(fits(&pattern, &text))
}

/// `text` without what `pattern` fits at its beginning (or end): the shortest such part, or the longest.
pub(super) fn without(pattern: &str, text: &str, at_end: bool, longest: bool) -> Option<String> {
    if pattern.len() > LONGEST_TRIMMED_BY || text.len() > LONGEST_TRIMMED {
        return None;
    }
    let pattern = parts(pattern)?;
    let text: Vec<char> = text.chars().collect();
    let length = text.len();
    let fits_with = |size: &usize| {
        let part = if at_end {
            &text[length - size..]
        } else {
            &text[..*size]
        };
        fits(&pattern, part)
    };
    let found = if longest {
        (0..=length).rev().find(fits_with)
    } else {
        (0..=length).find(fits_with)
    };
    let size = found.unwrap_or(0);
    let rest = if at_end {
        &text[..length - size]
    } else {
        &text[size..]
    };
    Some(rest.iter().collect())
}

/// Whether anything in it is more than text.
pub(super) fn is_plain(pattern: &str) -> bool {
    !pattern.contains(['*', '?', '[', '\\'])
}

enum Part {
    Any,
    One,
    Exactly(char),
    Among {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
}

fn parts(pattern: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        // `@(a|b)`, `+(a)` …
        if matches!(c, '@' | '+' | '!' | '?' | '*') && rest.peek() == Some(&'(') {
            return None;
        }
        parts.push(match c {
            '*' => Part::Any,
            '?' => Part::One,
            '\\' => Part::Exactly(rest.next()?),
            '[' => {
                let negated = rest.next_if(|c| matches!(c, '!' | '^')).is_some();
                let mut ranges = Vec::new();
                loop {
                    let from = rest.next()?;
                    if from == ']' && !ranges.is_empty() {
                        break;
                    }
                    if from == '[' && matches!(rest.peek(), Some(':' | '.' | '=')) {
                        return None;
                    }
                    let mut to = from;
                    if rest.peek() == Some(&'-') {
                        rest.next();
                        match rest.peek() {
                            Some(']') => ranges.push(('-', '-')),
                            _ => to = rest.next()?,
                        }
                    }
                    ranges.push((from, to));
                }
                Part::Among { ranges, negated }
            }
            c => Part::Exactly(c),
        });
    }
    Some(parts)
}

/// One star is remembered at a time: a later one that fits leaves nothing for an earlier one to do better.
fn fits(pattern: &[Part], text: &[char]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        let one = match pattern.get(at) {
            Some(Part::Any) => {
                star = Some((at, read));
                at += 1;
                continue;
            }
            Some(Part::One) => true,
            Some(Part::Exactly(c)) => *c == text[read],
            Some(Part::Among { ranges, negated }) => {
                let inside = ranges
                    .iter()
                    .any(|(from, to)| (*from..=*to).contains(&text[read]));
                inside != *negated
            }
            None => false,
        };
        if one {
            at += 1;
            read += 1;
        } else if let Some((before, from)) = star {
            star = Some((before, from + 1));
            at = before + 1;
            read = from + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|part| matches!(part, Part::Any))
}

#[cfg(test)]
mod tests {
    use super::{matches, without};

    #[test]
    fn patterns_fit_as_the_shell_says() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("*-fp8*", "qwen-fp8-dynamic", true),
            ("?b", "ab", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[a-]", "-", true),
            ("*a*b*c", "xaybzc", true),
            ("*a*b*c", "xaybz", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
        ] {
            assert_eq!(matches(pattern, text), Some(fits), "{pattern} {text}");
        }
        for pattern in ["[[:alpha:]]", "@(a|b)", "[a", "a\\"] {
            assert_eq!(matches(pattern, "a"), None, "{pattern}");
        }
        assert_eq!(matches(&"*a".repeat(200), "a"), None);
    }

    #[test]
    fn beginnings_and_ends_are_taken_off() {
        for (pattern, text, at_end, longest, rest) in [
            ("*=", "--a=b=c", false, false, "b=c"),
            ("*=", "--a=b=c", false, true, "c"),
            (".*", "a.b.c", true, false, "a.b"),
            (".*", "a.b.c", true, true, "a"),
            ("x", "abc", false, false, "abc"),
            ("--", "--tp", false, false, "tp"),
        ] {
            assert_eq!(without(pattern, text, at_end, longest).as_deref(), Some(rest));
        }
    }
}
