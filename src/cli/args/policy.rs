//! The commands below `policy`, for those who write policies.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{FailOn, Output, output};

#[derive(Debug, Args)]
pub(in crate::cli) struct Policy {
    #[command(subcommand)]
    pub(in crate::cli) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PolicyCommand {
    /// Tell everything that is wrong with policies, and what in them cannot be meant. Exit 0 nothing, 1 errors, 2 files that
    /// cannot be read
    Lint(PolicyLint),
    /// Print the JSON Schema of a policy, for editors and checks of files
    Schema,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PolicyLint {
    /// Policies: files, folders (every *.yaml, *.yml and *.json below them) or `-` for standard input. All of them together
    /// are one set, as in --policy-dir
    #[arg(value_name = "FILE", required = true)]
    pub(in crate::cli) files: Vec<PathBuf>,
    /// Level from which exit code is 1
    #[arg(long, value_enum, default_value = "error")]
    pub(in crate::cli) fail_on: FailOn,
    /// Objects of a cluster: tells policies that match none of its nodes or pods. Repeat it for several
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) cluster_state: Vec<PathBuf>,
    /// text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output)]
    pub(in crate::cli) output: Output,
}
