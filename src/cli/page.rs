//! The page of a finding's code, for a terminal.

use std::fmt::Write as _;

use crate::finding::Code;

/// Narrowest and widest lines of running text.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=100;

/// Every code with its title and severity.
pub(super) fn list() -> String {
    let lines = Code::ALL.iter().map(|code| {
        let severity = code.default_severity().as_str();
        format!("{code}  {severity:<7}  {}\n", code.title())
    });
    lines.collect()
}

/// A page as plain text: running text is broken to `width` characters, what is set off stays as it is.
pub(super) fn plain(page: &str, width: usize) -> String {
    let width = width.clamp(*WIDTHS.start(), *WIDTHS.end());
    let mut text = Text::new(width);
    let mut in_fence = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            text.flush();
            in_fence = !in_fence;
            continue;
        }
        if in_fence {
            text.verbatim("    ", line);
            continue;
        }
        let trimmed = line.trim();
        let item = trimmed.starts_with("- ") || numbered(trimmed);
        if trimmed.is_empty() {
            text.flush();
            text.verbatim("", "");
        } else if let Some(heading) = trimmed.strip_prefix("# ") {
            text.flush();
            text.verbatim("", &inline(heading));
        } else if trimmed.starts_with('#') {
            text.flush();
            text.verbatim("", &inline(trimmed.trim_start_matches('#')).trim().to_uppercase());
        } else if trimmed.starts_with('|') {
            text.flush();
            let rule = trimmed
                .chars()
                .all(|letter| matches!(letter, '|' | '-' | ' ' | ':'));
            if !rule {
                text.verbatim("", &inline(trimmed));
            }
        } else if trimmed.starts_with("<!--") {
            text.flush();
        } else {
            if item {
                text.flush();
                let marker = trimmed.split(' ').next().unwrap_or_default().len() + 1;
                text.hang = " ".repeat(marker);
            }
            text.words(trimmed);
        }
    }
    text.finish()
}

/// The first paragraph of what a code means.
pub(super) fn meaning(page: &str) -> Option<String> {
    let (_, behind) = page.split_once("## What it means")?;
    let paragraph = behind.trim_start().split("\n\n").next()?;
    let joined: Vec<&str> = paragraph.split_whitespace().collect();
    Some(inline(&joined.join(" ")))
}

/// A page whose links lead nowhere outside their folder: the words of those alone.
pub(super) fn without_links(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, label, target, behind)) = next_link(rest) {
        out.push_str(before);
        if target.contains("://") {
            let _ = write!(out, "[{label}]({target})");
        } else {
            out.push_str(label);
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// What stands before the next link, its words, its target, what follows.
fn next_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let middle = text.find("](")?;
    let (before, label) = text.get(..middle)?.rsplit_once('[')?;
    let (target, behind) = text.get(middle + 2..)?.split_once(')')?;
    Some((before, label, target, behind))
}

fn numbered(line: &str) -> bool {
    let digits = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    digits.len() < line.len() && digits.starts_with(". ")
}

/// Running text without its marks; a link to somewhere else keeps its address.
fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, label, target, behind)) = next_link(rest) {
        out.push_str(before);
        out.push_str(label);
        if target.contains("://") && target != label {
            let _ = write!(out, " ({target})");
        }
        rest = behind;
    }
    out.push_str(rest);
    out.replace("**", "").replace('`', "")
}

/// Text that is being set.
struct Text {
    out: String,
    width: usize,
    /// Words of the paragraph at hand.
    words: String,
    /// What its further lines begin with.
    hang: String,
}

impl Text {
    fn new(width: usize) -> Self {
        Self {
            out: String::new(),
            width,
            words: String::new(),
            hang: String::new(),
        }
    }

    fn words(&mut self, line: &str) {
        if !self.words.is_empty() {
            self.words.push(' ');
        }
        self.words.push_str(line);
    }

    fn verbatim(&mut self, indent: &str, line: &str) {
        self.out.push_str(format!("{indent}{line}").trim_end());
        self.out.push('\n');
    }

    fn flush(&mut self) {
        let words = inline(&std::mem::take(&mut self.words));
        let hang = std::mem::take(&mut self.hang);
        let mut line = String::new();
        for word in words.split_whitespace() {
            let length = line.chars().count() + 1 + word.chars().count();
            if !line.trim().is_empty() && length > self.width {
                self.verbatim("", &line);
                line.clone_from(&hang);
            } else if !line.trim().is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            self.verbatim("", &line);
        }
    }

    fn finish(mut self) -> String {
        self.flush();
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_and_lines_are_broken() {
        let page = "# VG000: a `title`\n\n**Severity:** `error` by default, see [the policy](../policy.md#codes).\n\n## Example\n\n```text\n\
                    VG000: stays as **it** is, however long the line becomes\n```\n\n- an item that is\n  longer than a line of the text\n\n| a | b |\n| --- | --- |\n| 1 | [x](https://x.example/) |\n";
        assert_eq!(
            plain(page, 1),
            "VG000: a title\n\nSeverity: error by default, see the\npolicy.\n\nEXAMPLE\n\n    VG000: stays as **it** is, however long the line becomes\n\n\
             - an item that is longer than a line of\n  the text\n\n| a | b |\n| 1 | x (https://x.example/) |\n"
        );
    }

    #[test]
    fn every_page_can_be_shown() {
        for code in Code::ALL {
            for width in [40, 80, 1000] {
                let text = plain(code.page(), width);
                assert!(text.starts_with(&format!("{code}: {}\n", code.title())), "{text}");
                assert!(!text.contains("](") && !text.contains("```"), "{code}");
            }
            assert!(meaning(code.page()).is_some_and(|text| text.len() > 40), "{code}");
            assert!(!without_links(code.page()).contains("](VG"), "{code}");
        }
        assert_eq!(list().lines().count(), Code::ALL.len());
    }
}
