//! `vramgate policy …`: for those who write policies.

use super::args::{Policy, PolicyCommand};
use super::{Failure, Outcome, output};
use crate::policy::schema;

mod diff;
mod explain;
mod export_vap;
mod lint;
mod test;

/// Runs a command below `policy`.
pub(super) fn run(args: &Policy) -> Result<Outcome, Failure> {
    match &args.command {
        PolicyCommand::Lint(args) => lint::run(args),
        PolicyCommand::Test(args) => test::run(args),
        PolicyCommand::Explain(args) => explain::run(args).map(|()| Outcome::Passed),
        PolicyCommand::Diff(args) => diff::run(args),
        PolicyCommand::ExportVap(args) => export_vap::run(args).map(|()| Outcome::Passed),
        PolicyCommand::Schema => output::print_json(&schema::json_schema()).map(|()| Outcome::Passed),
    }
}
