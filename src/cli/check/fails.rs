//! What makes `check` exit with 1.

use std::collections::BTreeSet;

use crate::cli::Failure;
use crate::cli::args::{FailOn, Level};
use crate::decision::Verdict;
use crate::finding::{Code, Severity};

/// What `--fail-on` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fails {
    level: Level,
    codes: BTreeSet<Code>,
}

impl Fails {
    /// From the words of the flag; two levels contradict each other.
    pub(super) fn on(words: &[FailOn]) -> Result<Self, Failure> {
        let mut levels = BTreeSet::new();
        let mut codes = BTreeSet::new();
        for word in words {
            match word {
                FailOn::Level(level) => {
                    levels.insert(*level);
                }
                FailOn::Code(code) => {
                    codes.insert(*code);
                }
            }
        }
        if levels.len() > 1 {
            return Err(Failure::new(
                "--fail-on names more than one level; give one of error, warning and never, beside codes",
            ));
        }
        Ok(Self {
            level: levels.pop_first().unwrap_or(Level::Error),
            codes,
        })
    }

    /// Whether a verdict does.
    pub(super) fn by(&self, verdict: &Verdict) -> bool {
        let findings = &verdict.findings;
        let by_level = match self.level {
            Level::Never => false,
            Level::Error => !verdict.admit,
            Level::Warning => {
                !verdict.admit
                    || findings.iter().any(|finding| {
                        // What is unknown on a device of its own is information, and yet nothing was checked.
                        finding.severity >= Severity::Warning
                            || matches!(finding.code, Code::Vg102 | Code::Vg106)
                    })
            }
        };
        by_level || findings.iter().any(|finding| self.codes.contains(&finding.code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{FieldPath, Finding};

    fn verdict(admit: bool, code: Code, severity: Severity) -> Verdict {
        let finding = Finding::new(code, FieldPath::default(), "x").with_severity(severity);
        Verdict {
            admit,
            findings: vec![finding],
            ..Verdict::default()
        }
    }

    #[test]
    fn each_level_counts_what_it_says() {
        let denied = verdict(false, Code::Vg201, Severity::Error);
        let warned = verdict(true, Code::Vg103, Severity::Warning);
        let unknown = verdict(true, Code::Vg106, Severity::Info);
        let told = verdict(true, Code::Vg208, Severity::Info);
        let of = |words: &[FailOn]| {
            let fails = Fails::on(words).unwrap();
            [&denied, &warned, &unknown, &told].map(|verdict| fails.by(verdict))
        };
        assert_eq!(of(&[FailOn::Level(Level::Error)]), [true, false, false, false]);
        assert_eq!(of(&[FailOn::Level(Level::Warning)]), [true, true, true, false]);
        assert_eq!(of(&[FailOn::Level(Level::Never)]), [false; 4]);
        let codes = [FailOn::Code(Code::Vg103), FailOn::Code(Code::Vg208)];
        assert_eq!(of(&codes), [true, true, false, true]);
        let alone = [FailOn::Level(Level::Never), FailOn::Code(Code::Vg103)];
        assert_eq!(of(&alone), [false, true, false, false]);
        let two = [FailOn::Level(Level::Never), FailOn::Level(Level::Warning)];
        assert!(Fails::on(&two).is_err());
    }
}
