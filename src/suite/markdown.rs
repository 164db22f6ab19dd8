//! The few parts of Markdown that a suite is made of: headings, fenced blocks, and lines that link files.

use std::ops::Range;

/// A part of the text, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// `## Title`.
    Heading {
        level: usize,
        title: String,
        line: usize,
    },
    /// A fenced block.
    Fence(Fence),
    /// `Cluster: [text](file.yaml), [text](other.yaml)`.
    Links {
        word: String,
        files: Vec<String>,
        line: usize,
    },
}

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    /// What stands behind the opening fence.
    pub(super) info: String,
    /// Line of the opening fence, from one.
    pub(super) line: usize,
    /// What is between the fences, with its last line break.
    pub(super) content: String,
    /// Where that stands in the text, in bytes.
    pub(super) range: Range<usize>,
    /// Where the line of the closing fence ends.
    pub(super) end: usize,
    /// Spaces before the opening fence: as many are taken off each line.
    pub(super) indent: usize,
}

/// The parts of a text, or the line of a fence that nothing closes.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece>, usize> {
    let mut pieces = Vec::new();
    let mut open: Option<(Fence, char, usize)> = None;
    let mut at = 0;
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let (start, line) = (at, raw.trim_end_matches(['\n', '\r']));
        at += raw.len();
        if let Some((fence, mark, length)) = &mut open {
            if closes(line, *mark, *length) {
                fence.range.end = start;
                fence.end = at;
                if let Some((fence, ..)) = open.take() {
                    pieces.push(Piece::Fence(fence));
                }
                continue;
            }
            let spaces = line.len() - line.trim_start_matches(' ').len();
            fence.content.push_str(&line[spaces.min(fence.indent)..]);
            fence.content.push('\n');
            continue;
        }
        let spaces = line.len() - line.trim_start_matches(' ').len();
        let body = &line[spaces..];
        // Deeper is code of its own; within a list item a fence may be as deep.
        if let Some((mark, length)) = opens(body) {
            let fence = Fence {
                info: body[length..].trim().to_owned(),
                line: index + 1,
                content: String::new(),
                range: at..at,
                end: at,
                indent: spaces,
            };
            open = Some((fence, mark, length));
        } else if spaces <= 3 {
            pieces.extend(heading(body, index + 1).or_else(|| links(body, index + 1)));
        }
    }
    match open {
        Some((fence, ..)) => Err(fence.line),
        None => Ok(pieces),
    }
}

fn run_of(body: &str, mark: char) -> usize {
    body.len() - body.trim_start_matches(mark).len()
}

fn opens(body: &str) -> Option<(char, usize)> {
    let mark = body.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = run_of(body, mark);
    let inline = mark == '`' && body[length..].contains('`');
    (length >= 3 && !inline).then_some((mark, length))
}

fn closes(line: &str, mark: char, length: usize) -> bool {
    let body = line.trim();
    let run = run_of(body, mark);
    run >= length && run == body.len()
}

fn heading(body: &str, line: usize) -> Option<Piece> {
    let level = run_of(body, '#');
    let title = body[level..].strip_prefix([' ', '\t'])?;
    (1..=6).contains(&level).then(|| Piece::Heading {
        level,
        title: title.trim().trim_end_matches('#').trim_end().to_owned(),
        line,
    })
}

/// A line that begins with one of the words and holds nothing but links behind it.
fn links(body: &str, line: usize) -> Option<Piece> {
    let (word, rest) = body.split_once(':')?;
    if !["Cluster", "Policy", "Policies"].contains(&word) {
        return None;
    }
    let mut files = Vec::new();
    let mut rest = rest.trim();
    while let Some(behind) = rest.strip_prefix('[') {
        let (_, target) = behind.split_once("](")?;
        let (file, behind) = target.split_once(')')?;
        files.push(file.trim().to_owned());
        rest = behind
            .trim_start_matches([',', ' ', '.'])
            .trim_start_matches("and ")
            .trim();
    }
    (rest.is_empty() && !files.is_empty()).then(|| Piece::Links {
        word: word.to_owned(),
        files,
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_headings_and_links_are_found_and_prose_is_not() {
        let text = "\
# A title #

Cluster: [two nodes](a.yaml), [holders](b.yaml)
Cluster: is a word as well, with [a link](c.yaml).

````yaml manifest
```
# no heading
````

1. In a list:

   ~~~text
   one
     two
   ~~~

#hashtag and `` `code` ``
";
        let pieces = pieces(text).unwrap();
        assert_eq!(pieces.len(), 4, "{pieces:?}");
        assert_eq!(
            pieces[0],
            Piece::Heading {
                level: 1,
                title: "A title".to_owned(),
                line: 1
            }
        );
        assert_eq!(
            pieces[1],
            Piece::Links {
                word: "Cluster".to_owned(),
                files: vec!["a.yaml".to_owned(), "b.yaml".to_owned()],
                line: 3
            }
        );
        let Piece::Fence(yaml) = &pieces[2] else {
            panic!("{pieces:?}")
        };
        assert_eq!((yaml.info.as_str(), yaml.line), ("yaml manifest", 6));
        assert_eq!(yaml.content, "```\n# no heading\n");
        assert_eq!(&text[yaml.range.clone()], "```\n# no heading\n");
        let Piece::Fence(list) = &pieces[3] else {
            panic!("{pieces:?}")
        };
        assert_eq!(list.content, "one\n  two\n");
        assert_eq!(&text[list.range.clone()], "   one\n     two\n");
    }

    #[test]
    fn an_open_fence_is_told_by_its_line() {
        assert_eq!(pieces("a\n\n```yaml\nb\n"), Err(3));
    }
}
