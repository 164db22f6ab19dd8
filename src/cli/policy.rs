//! `vramgate policy …`: for those who write policies.

use super::args::{Policy, PolicyCommand};
use super::{Failure, Outcome, output};
use crate::policy::schema;

mod lint;

/// Runs a command below `policy`.
pub(super) fn run(args: &Policy) -> Result<Outcome, Failure> {
    match &args.command {
        PolicyCommand::Lint(args) => lint::run(args),
        PolicyCommand::Schema => output::print_json(&schema::json_schema()).map(|()| Outcome::Passed),
    }
}
