//! The command line: reads files, asks the core, prints.
//!
//! Exit codes are a promise: 0 admitted, 1 denied (or a warning under `--fail-on warning`), 2 input that cannot be
//! used. For `fit`: 0 fits, doubtful or unknown, 1 does not fit, 2 input that cannot be used; for
//! `mig plan`: 0 valid, 1 impossible, 2 input that cannot be used. Each error is printed once, in one line where it can be, with what to do about it.

use std::fmt;
use std::process::ExitCode;

use clap::Parser;

mod advise;
mod args;
mod certs;
mod check;
mod crds;
mod explain;
mod fit;
mod input;
mod mig;
mod model;
mod output;
mod page;
mod plan;
mod policies;
mod policy;
mod probe;
mod serve;
mod state;
mod top;
mod uninstall;
mod webhook_config;
mod xml;

/// Why a command could not do its work: one line for each thing that is wrong.
#[derive(Debug)]
struct Failure(String);

impl Failure {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// All of them in one.
    fn joined(failures: Vec<Self>) -> Self {
        let lines: Vec<String> = failures.into_iter().map(|failure| failure.0).collect();
        Self(lines.join("\n"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<crate::manifest::ManifestError> for Failure {
    fn from(error: crate::manifest::ManifestError) -> Self {
        Self(error.to_string())
    }
}

impl From<crate::policy::PolicyErrors> for Failure {
    fn from(errors: crate::policy::PolicyErrors) -> Self {
        // Each is a finding about a policy, and has its code and page as any other.
        let lines: Vec<String> = errors
            .0
            .iter()
            .map(|error| format!("{}: {error}", crate::finding::Code::Vg903))
            .collect();
        Self(lines.join("\n"))
    }
}

/// What a command that judges found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything may pass.
    Passed,
    /// Something may not.
    Refused,
}

/// Runs the command line of this process.
#[must_use]
pub fn run() -> ExitCode {
    let result = match args::Cli::parse().command {
        args::Command::Serve(args) => serve::run(&args).map(|()| Outcome::Passed),
        args::Command::Check(args) => check::run(&args),
        args::Command::Explain(args) => explain::run(&args).map(|()| Outcome::Passed),
        args::Command::Fit(args) => fit::run(&args),
        args::Command::Top(args) => top::run(&args).map(|()| Outcome::Passed),
        args::Command::Plan(args) => plan::run(&args),
        args::Command::Certs(args) => certs::run(&args).map(|()| Outcome::Passed),
        args::Command::Mig(args) => mig::run(&args),
        args::Command::Advise(args) => advise::run(&args),
        args::Command::Model(args) => model::run(&args).map(|()| Outcome::Passed),
        args::Command::Policy(args) => policy::run(&args),
        args::Command::Crds(args) => crds::run(&args).map(|()| Outcome::Passed),
        args::Command::Probe(args) => probe::run(&args).map(|()| Outcome::Passed),
        args::Command::UninstallNodeResources(args) => uninstall::run(&args).map(|()| Outcome::Passed),
        args::Command::WebhookConfig(args) => webhook_config::run(&args).map(|()| Outcome::Passed),
    };
    match result {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::Refused) => ExitCode::from(1),
        Err(failure) => {
            output::error(&failure);
            ExitCode::from(2)
        }
    }
}
