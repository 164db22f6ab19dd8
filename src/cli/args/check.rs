//! The flags of `vramgate check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ClusterArgs;
use crate::finding::Code;
use crate::policy::nearest;

/// What `check --help` says behind its flags.
const EXIT_CODES: &str = "\
Exit codes: 0 admitted; 1 something is denied, or --fail-on counts it; 2 input that cannot be used,
whatever --fail-on says (verdicts on the rest are printed).

--fail-on takes a level and codes, several by commas or by repeating it:
  error    a denial (the default)
  warning  also a warning; and VG102 and VG106 (memory unknown) even as information
  never    not even a denial
  VG103    also this code, whatever it weighs; `never,VG103` counts nothing else

The output of `helm template` and `kubectl kustomize` is read from `-`. Paths are those of the
working directory: run it where the repository begins, so that annotations find their file.";

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(in super::super) struct Check {
    /// Manifests: files, folders (every *.yaml, *.yml and *.json below them, in order of name) or `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(in super::super) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(in super::super) cluster: ClusterArgs,
    /// Judge the change from OLD (a file, a folder or `-`) to FILE: what stands in both is an UPDATE, and what is the same is not
    /// told. Repeat it for several
    #[arg(long, value_name = "OLD")]
    pub(in super::super) against: Vec<PathBuf>,
    /// With --against: judge and tell what is the same, too
    #[arg(long, requires = "against")]
    pub(in super::super) all: bool,
    /// What gives exit code 1: error, warning, never, or codes
    #[arg(
        long,
        value_name = "LEVEL|CODE",
        value_delimiter = ',',
        default_value = "error",
        value_parser = fail_on
    )]
    pub(in super::super) fail_on: Vec<FailOn>,
    /// text, json, sarif (code scanning), junit (test reports) or github (annotations of a pull request)
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_default_value = false
    )]
    pub(in super::super) output: CheckOutput,
}

/// What the verdicts are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in super::super) enum CheckOutput {
    /// For people.
    Text,
    /// A versioned document.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit's XML, for test reports.
    Junit,
    /// Workflow commands of GitHub Actions.
    Github,
}

/// The level from which a verdict makes `check` exit with 1. Ordered: the later the more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Level {
    /// Nothing does.
    Never,
    /// A denial.
    Error,
    /// A warning too, and what is unknown.
    Warning,
}

/// One word of `--fail-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum FailOn {
    /// A level.
    Level(Level),
    /// A code, beside the level.
    Code(Code),
}

fn fail_on(text: &str) -> Result<FailOn, String> {
    let level = match text {
        "never" => Level::Never,
        "error" => Level::Error,
        "warning" => Level::Warning,
        _ => {
            let code = text.to_ascii_uppercase().parse::<Code>();
            return code.map(FailOn::Code).map_err(|_| {
                let known = ["error", "warning", "never"].into_iter();
                let known: Vec<&str> = known.chain(Code::ALL.iter().map(|code| code.as_str())).collect();
                match nearest(text, &known) {
                    Some(near) => format!("did you mean {near}?"),
                    None => "use error, warning, never, or a code such as VG103".to_owned(),
                }
            });
        }
    };
    Ok(FailOn::Level(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_codes_are_read_and_errors_have_a_suggestion() {
        assert_eq!(fail_on("warning"), Ok(FailOn::Level(Level::Warning)));
        assert_eq!(fail_on("VG103"), Ok(FailOn::Code(Code::Vg103)));
        assert_eq!(fail_on("vg103"), Ok(FailOn::Code(Code::Vg103)));
        assert_eq!(fail_on("warnings"), Err("did you mean warning?".to_owned()));
        assert!(fail_on("VG910").unwrap_err().starts_with("did you mean VG"));
        assert!(fail_on("info").unwrap_err().contains("error, warning, never"));
    }
}
