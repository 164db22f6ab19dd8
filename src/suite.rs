//! Suites of policies: Markdown that reads as documentation, and whose blocks are cases.
//!
//! A heading makes a section. What a section says of the cluster and the policies holds for the sections below it, too. A
//! section with a manifest is a case: its manifests are applied in order, and what comes of it has to be what its `verdict`,
//! `text` and `patch` blocks say. `docs/policy-suites.md` is the description for users.

use std::ops::Range;

use crate::policy::nearest;

mod difference;
mod markdown;
mod outcome;

pub use difference::difference;
use markdown::{Fence, Piece};
pub use outcome::{in_one_line, outcome};

/// A suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suite {
    /// The cases, in order.
    pub cases: Vec<Case>,
}

/// A section with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Titles of its sections, from the outermost that is not the suite's own title.
    pub name: String,
    /// Line of its heading, from one.
    pub line: usize,
    /// The cluster, to be read in order.
    pub cluster: Vec<Part>,
    /// The policies; those of the suite's folder where it names none.
    pub policies: Vec<Part>,
    /// What is applied, in order.
    pub manifests: Vec<Block>,
    /// What is expected.
    pub expected: Vec<(Aspect, Block)>,
    /// Where the first expectation would go: indent, and place in the text.
    place: (usize, usize),
}

/// A text that stands in the suite, or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A block.
    Block(Block),
    /// A file, from the folder of the suite, with the line that names it.
    File(String, usize),
}

/// What is between two fences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Line of the opening fence, from one.
    pub line: usize,
    /// The text.
    pub content: String,
    range: Range<usize>,
    indent: usize,
}

impl Block {
    /// The text behind as many empty lines as stand before it in the suite: its errors then name lines of the suite.
    #[must_use]
    pub fn in_its_place(&self) -> String {
        let mut text = "\n".repeat(self.line);
        text.push_str(&self.content);
        text
    }
}

impl From<Fence> for Block {
    fn from(fence: Fence) -> Self {
        Self {
            line: fence.line,
            content: fence.content,
            range: fence.range,
            indent: fence.indent,
        }
    }
}

/// A kind of expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// One line for each object: admitted or denied, and the codes.
    Verdict,
    /// All that is said of each object.
    Text,
    /// The changes that the policy makes to each object.
    Patch,
}

impl Aspect {
    /// The word behind the fence.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::Text => "text",
            Self::Patch => "patch",
        }
    }
}

/// Something about a suite that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {message}")]
pub struct SuiteError {
    /// Line, from one.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl SuiteError {
    fn new(line: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
        }
    }
}

/// What a section says beside its cases.
#[derive(Clone, Debug, Default)]
struct Section {
    level: usize,
    title: String,
    line: usize,
    cluster: Vec<Part>,
    policies: Vec<Part>,
    manifests: Vec<Block>,
    expected: Vec<(Aspect, Block)>,
    place: (usize, usize),
}

/// Reads a suite. A text without a manifest has no case.
pub fn read(text: &str) -> Result<Suite, Vec<SuiteError>> {
    let pieces = markdown::pieces(text)
        .map_err(|line| vec![SuiteError::new(line, "the block that begins here is not closed")])?;
    let mut errors = Vec::new();
    let mut suite = Suite::default();
    let mut open = vec![Section::default()];
    for piece in pieces {
        match piece {
            Piece::Heading { level, title, line } => {
                while open.len() > 1 && open.last().is_some_and(|section| section.level >= level) {
                    close(&mut open, &mut suite, &mut errors);
                }
                open.push(Section {
                    level,
                    title,
                    line,
                    ..Section::default()
                });
            }
            Piece::Links { word, files, line } => {
                let Some(section) = open.last_mut() else { continue };
                let parts = files.into_iter().map(|file| Part::File(file, line));
                match word.as_str() {
                    "Cluster" => section.cluster.extend(parts),
                    _ => section.policies.extend(parts),
                }
            }
            Piece::Fence(fence) => {
                if let Some(section) = open.last_mut()
                    && let Err(error) = section.take(fence)
                {
                    errors.push(error);
                }
            }
        }
        // What stands below a section's own sections would be read as theirs.
        if let [.., above, section] = open.as_slice()
            && !above.manifests.is_empty()
            && !section.manifests.is_empty()
            && above.level < section.level
        {
            errors.push(SuiteError::new(
                section.line,
                format!(
                    "{:?} is a case below {:?}, which is one itself; give both headings the same level",
                    section.title, above.title
                ),
            ));
        }
    }
    while !open.is_empty() {
        close(&mut open, &mut suite, &mut errors);
    }
    suite.cases.sort_by_key(|case| case.line);
    errors.dedup();
    if errors.is_empty() { Ok(suite) } else { Err(errors) }
}

impl Section {
    fn take(&mut self, fence: Fence) -> Result<(), SuiteError> {
        let mut words = fence.info.split_whitespace();
        let (language, role) = (words.next().unwrap_or_default(), words.next());
        let expectation = match language {
            "verdict" => Some(Aspect::Verdict),
            "text" => Some(Aspect::Text),
            "patch" => Some(Aspect::Patch),
            _ => None,
        };
        if let Some(aspect) = expectation {
            // Plain text is documentation unless there is something to expect it of.
            if aspect == Aspect::Text && self.manifests.is_empty() {
                return Ok(());
            }
            if self.expected.iter().any(|(other, _)| *other == aspect) {
                return Err(SuiteError::new(
                    fence.line,
                    format!("a second {language} block in one section; a section is one case"),
                ));
            }
            self.expected.push((aspect, fence.into()));
            return Ok(());
        }
        if !["yaml", "yml", "json"].contains(&language) {
            return Ok(());
        }
        match role {
            // An example that is only to be read.
            None => {}
            Some("manifest") => {
                self.place = (fence.indent, fence.end);
                self.manifests.push(fence.into());
            }
            Some("cluster") => self.cluster.push(Part::Block(fence.into())),
            Some("policy") => self.policies.push(Part::Block(fence.into())),
            Some(other) => {
                let known = ["manifest", "cluster", "policy"];
                let hint = nearest(other, &known).map_or_else(
                    || format!("; known are {}", known.join(", ")),
                    |near| format!("; did you mean {near}?"),
                );
                return Err(SuiteError::new(
                    fence.line,
                    format!("{other:?} says not what the block is for{hint}"),
                ));
            }
        }
        Ok(())
    }
}

/// Ends the innermost section; a case is what has a manifest.
fn close(open: &mut Vec<Section>, suite: &mut Suite, errors: &mut Vec<SuiteError>) {
    let Some(section) = open.pop() else { return };
    if section.manifests.is_empty() {
        if let Some((aspect, block)) = section.expected.first() {
            errors.push(SuiteError::new(
                block.line,
                format!(
                    "a {} block in a section without a ```yaml manifest block",
                    aspect.as_str()
                ),
            ));
        }
        return;
    }
    let all = || open.iter().chain([&section]);
    let cluster: Vec<Part> = all().flat_map(|one| one.cluster.clone()).collect();
    if cluster.is_empty() {
        errors.push(SuiteError::new(
            section.line.max(1),
            "the case has no cluster: add a ```yaml cluster block, or a line `Cluster: [name](file.yaml)`, here or above",
        ));
    }
    // The innermost section that names policies names all of them.
    let own = open.iter().rev().map(|one| &one.policies);
    let policies = [&section.policies]
        .into_iter()
        .chain(own)
        .find(|policies| !policies.is_empty());
    // The title of the suite says nothing about one of its cases.
    let titles: Vec<&str> = all()
        .filter(|one| one.level > 1 && !one.title.is_empty())
        .map(|one| one.title.as_str())
        .collect();
    let name = if titles.is_empty() {
        section.title.clone()
    } else {
        titles.join(" / ")
    };
    suite.cases.push(Case {
        name,
        line: section.line.max(1),
        cluster,
        policies: policies.cloned().unwrap_or_default(),
        manifests: section.manifests,
        expected: section.expected,
        place: section.place,
    });
}

/// Whether a block says what came of it; spaces at the ends of lines mean nothing.
#[must_use]
pub fn agrees(block: &Block, actual: &str) -> bool {
    let lines = |text: &str| {
        let lines: Vec<String> = text
            .trim_end()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        lines
    };
    lines(&block.content) == lines(actual)
}

/// The suite with what came of each case in the place of what it expects: `actual` tells it. A case that expects nothing
/// yet gets a verdict block.
#[must_use]
pub fn updated(text: &str, suite: &Suite, actual: &dyn Fn(&Case, Aspect) -> Option<String>) -> String {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for case in &suite.cases {
        for (aspect, block) in &case.expected {
            if let Some(new) = actual(case, *aspect).filter(|new| !agrees(block, new)) {
                edits.push((block.range.clone(), indented(&new, block.indent)));
            }
        }
        if case.expected.is_empty()
            && let Some(new) = actual(case, Aspect::Verdict)
        {
            let (indent, at) = case.place;
            let block = format!("\n{}", indented(&format!("```verdict\n{new}```\n"), indent));
            edits.push((at..at, block));
        }
    }
    edits.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (range, new) in edits {
        out.push_str(&text[at..range.start]);
        if range.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}

fn indented(text: &str, by: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if !line.is_empty() {
            out.push_str(&" ".repeat(by));
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests;
