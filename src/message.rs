//! A verdict in words: for the API server's answer, for warnings, for people at a terminal.
//!
//! The first line of a refusal is complete by itself and below 256 characters, because a ReplicaSet's event and many
//! tools keep no more.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::decision::Verdict;
use crate::finding::{Finding, Fix, HolderRef, Severity};

/// Longest first line, in bytes.
const FIRST_LINE: usize = 255;
/// Longest warning, in characters (kubectl prints each on a line of its own).
const WARNING: usize = 120;
/// Most warnings in one answer.
const WARNINGS: usize = 3;
/// Most holders that are listed.
const HOLDERS: usize = 8;

/// The text of a refusal: the worst finding first, each with its numbers, holders, fixes and link.
#[must_use]
pub fn refusal(verdict: &Verdict) -> String {
    let mut text = String::new();
    if let Some(malformed) = &verdict.malformed {
        return first_line(&format!("the object cannot be read: {malformed}"));
    }
    let errors = verdict
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    for (index, finding) in errors.enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text.push_str(&headline(finding));
        body(finding, verdict, &mut text);
    }
    if !verdict.promise.is_empty() {
        let _ = write!(text, "\n{}", verdict.promise);
    }
    if let Some(contact) = &verdict.messages.contact {
        let _ = write!(text, "\ncontact: {contact}");
    }
    text
}

/// `VG201: …`, complete and short.
#[must_use]
pub fn headline(finding: &Finding) -> String {
    first_line(&format!("{}: {}", finding.code, finding.message))
}

/// Warnings for the caller: errors that were let through first, then warnings.
#[must_use]
pub fn warnings(verdict: &Verdict) -> Vec<String> {
    verdict
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Warning)
        .take(WARNINGS)
        .map(|finding| cut(&headline(finding), WARNING))
        .collect()
}

/// Everything about a verdict's findings, for people at a terminal. Lines are indented by `indent`.
#[must_use]
pub fn report(verdict: &Verdict, indent: &str) -> String {
    report_at(verdict, indent, &|_| None)
}

/// The same, with the place of each finding in a file in front of its field, where `place` knows it.
#[must_use]
pub fn report_at(verdict: &Verdict, indent: &str, place: &dyn Fn(usize) -> Option<String>) -> String {
    let mut text = String::new();
    if let Some(malformed) = &verdict.malformed {
        let _ = writeln!(text, "{indent}error: the object cannot be read: {malformed}");
    }
    for (index, finding) in verdict.findings.iter().enumerate() {
        let _ = writeln!(
            text,
            "{indent}{} {}",
            finding.severity.as_str(),
            headline(finding)
        );
        let path = finding.path.as_str();
        let _ = match place(index) {
            Some(place) if path.is_empty() => writeln!(text, "{indent}  at {place}"),
            Some(place) => writeln!(text, "{indent}  at {place} ({path})"),
            None if path.is_empty() => Ok(()),
            None => writeln!(text, "{indent}  at {path}"),
        };
        let mut rest = String::new();
        body(finding, verdict, &mut rest);
        for line in rest.lines().filter(|line| !line.is_empty()) {
            let _ = writeln!(text, "{indent}{line}");
        }
    }
    text
}

/// One finding whole, without its place: the first line, arithmetic, holders, fixes, link.
#[must_use]
pub fn whole(finding: &Finding, verdict: &Verdict) -> String {
    let mut text = headline(finding);
    body(finding, verdict, &mut text);
    text
}

/// What to do comes first: an Event keeps 1024 characters, and whoever reads it wants to act.
fn body(finding: &Finding, verdict: &Verdict, text: &mut String) {
    for fix in &finding.fixes {
        let _ = write!(text, "\n  fix: {}", one_line(&fix_line(fix)));
    }
    for detail in &finding.details {
        let _ = write!(text, "\n  {}", one_line(detail));
    }
    if !finding.holders.is_empty() {
        text.push_str("\n  held by:");
        for holder in finding.holders.iter().take(HOLDERS) {
            let _ = write!(text, "\n    {}", one_line(&holder_line(holder)));
        }
        if finding.holders.len() > HOLDERS {
            let _ = write!(text, "\n    and {} more", finding.holders.len() - HOLDERS);
        }
    }
    let _ = write!(text, "\n  see: {}", link(finding, verdict));
}

fn holder_line(holder: &HolderRef) -> String {
    let who = match (&holder.namespace, &holder.name, &holder.container) {
        (Some(namespace), Some(name), Some(container)) => format!("{namespace}/{name} ({container})"),
        _ => "a pod of another namespace".to_owned(),
    };
    match holder.request {
        Some(request) => format!("{who} {request} = {}", holder.share),
        None => format!("{who} {} of the device, whose size is not known", holder.share),
    }
}

fn fix_line(fix: &Fix) -> String {
    match serde_json::to_string(&fix.patch) {
        Ok(patch) if !fix.patch.is_empty() => format!("{}  {patch}", fix.title),
        _ => fix.title.clone(),
    }
}

fn link(finding: &Finding, verdict: &Verdict) -> String {
    match &verdict.messages.link {
        Some(link) => link.replace("{code}", finding.code.as_str()),
        None => format!("docs/codes/{}.md", finding.code),
    }
}

/// Text that may hold words of an object, on one line: a line break in a name would begin a line that seems to be ours,
/// and other control characters would reach somebody's terminal.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    let shown = |letter: char| match letter {
        '\n' | '\r' | '\t' => ' ',
        other if is_unprintable(other) => '\u{fffd}',
        other => other,
    };
    if text.chars().any(|letter| shown(letter) != letter) {
        Cow::Owned(text.chars().map(shown).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Control characters, and the marks that change the direction of what follows.
pub(crate) fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// One line, cut where it would be too long for a tool that keeps 255 bytes.
pub(crate) fn first_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in one_line(text).split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.len() <= FIRST_LINE {
        return line;
    }
    let mut end = FIRST_LINE - '…'.len_utf8();
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.truncate(end);
    line.push('…');
    line
}

/// At most `most` characters; what is cut ends in `…`.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_an_object_cannot_begin_a_line_or_reach_a_terminal() {
        let mut finding = Finding::new(
            crate::finding::Code::Vg201,
            crate::finding::FieldPath::new("spec"),
            "container a\u{1b}[2J\nfix: none\u{202e} asks".to_owned(),
        )
        .detail("b\nVG999: c\u{7}".to_owned())
        .with_severity(Severity::Error);
        finding.fixes.push(Fix {
            title: "set d\re".to_owned(),
            patch: Vec::new(),
        });
        let verdict = Verdict {
            findings: vec![finding],
            ..Verdict::default()
        };
        assert_eq!(
            refusal(&verdict),
            "VG201: container a\u{fffd}[2J fix: none\u{fffd} asks\n  fix: set d e\n  b VG999: c\u{fffd}\n  \
             see: docs/codes/VG201.md"
        );
    }

    #[test]
    fn first_lines_are_one_line_below_256_bytes_and_whole_characters() {
        let line = first_line(&"long\nname… ".repeat(80));
        assert!(line.len() < 256, "{}", line.len());
        assert!(line.ends_with('…') && !line.contains('\n'));
        assert_eq!(first_line(" a\n b "), "a b");
    }
}
