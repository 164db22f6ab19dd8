//! Printing. A reader that has gone away (`vramgate top | head`) is no error.

use std::env;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::Failure;
use crate::message::is_unprintable;

/// Prints text to standard output.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    finish(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Characters of a line of standard output: what `COLUMNS` says, else the terminal's own, else 80.
pub(super) fn width() -> usize {
    let told = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let own = || {
        terminal_size::terminal_size_of(io::stdout())
            .map(|(terminal_size::Width(columns), _)| usize::from(columns))
    };
    told.or_else(own).unwrap_or(80)
}

/// Prints a document as JSON.
pub(super) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(document)
        .map_err(|error| Failure::new(format!("the result cannot be written as JSON: {error}")))?;
    text.push('\n');
    print(&text)
}

/// Says something on standard error that is no result.
pub(super) fn note(text: &str) {
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints an error.
pub(super) fn error(failure: &Failure) {
    let text = failure.to_string();
    for line in text.lines() {
        note(&format!("error: {}", clean(line)));
    }
}

fn finish(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::new(format!("standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Colours, only where a person looks at a terminal and did not ask to be spared (`NO_COLOR`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint(bool);

impl Paint {
    /// No colours.
    pub(super) const PLAIN: Self = Self(false);

    /// For standard output.
    pub(super) fn for_stdout() -> Self {
        Self(io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    /// Whether colours are for standard error.
    pub(super) fn for_stderr() -> bool {
        io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
    }

    pub(super) fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Text from a manifest made safe for a terminal: control characters would move the cursor or hide what follows, and
/// marks of writing direction would show the rest of the line in another order.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|letter| {
            if is_unprintable(letter) {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect()
}
