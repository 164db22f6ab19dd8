//! `vramgate plan`: what to change in a cluster that is over its budgets already.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};

use super::args::ClusterArgs;
use super::output::{Paint, clean};
use super::{Failure, Outcome, output, policies, state};
use crate::document::PlanDocument;
use crate::ledger::Ledger;
use crate::plan::{self, Allowed, Change, Plan};
use crate::workload::WorkloadKind;

const EXAMPLES: &str = "\
Examples:
  vramgate plan --cluster-state cluster.yaml
  vramgate plan -o patch > relieve.sh
  vramgate plan --only fractions -o json

Exit codes: 0 nothing is above its budget once the changes are made, 1 something stays above (the reason is told),
2 unusable input.";

/// What `plan` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// A versioned document.
    Json,
    /// Lines of kubectl, one for each object.
    Patch,
}

/// Which changes are proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    /// Smaller memory fractions.
    Fractions,
    /// Other nodes.
    Placement,
}

/// The arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Propose only changes of this sort; both by default
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// text, json or patch
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    output: Format,
}

/// Works out a plan and prints it.
pub(super) fn run(args: &Arguments) -> Result<Outcome, Failure> {
    let snapshot = state::of(&args.cluster)?;
    let policies = policies::load(args.cluster.policy_dir.as_deref(), &snapshot)?;
    let mut ledger = Ledger::new(policies);
    snapshot.fill(&mut ledger);
    let allowed = Allowed {
        fractions: args.only != Some(Only::Placement),
        placement: args.only != Some(Only::Fractions),
    };
    let plan = plan::plan(&snapshot, ledger, allowed);
    match args.output {
        Format::Text => output::print(&text(&plan, Paint::for_stdout()))?,
        Format::Json => output::print_json(&PlanDocument::from(&plan))?,
        Format::Patch => output::print(&patches(&plan))?,
    }
    Ok(if plan.remaining.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Refused
    })
}

fn text(plan: &Plan, paint: Paint) -> String {
    if plan.above.is_empty() {
        return "No device is above its budget; nothing is to be changed.\n".to_owned();
    }
    let mut text = String::new();
    let plural = if plan.above.len() == 1 { "" } else { "s" };
    let _ = writeln!(text, "{} device{plural} above budget:", plan.above.len());
    for device in &plan.above {
        let line = format!(
            "  {} {}: {} of {}",
            device.node, device.resource, device.taken, device.budget
        );
        let _ = writeln!(text, "{}", clean(&line));
    }
    if !plan.changes.is_empty() {
        let plural = if plan.changes.len() == 1 { "" } else { "s" };
        let _ = writeln!(text, "\n{} change{plural}:", plan.changes.len());
    }
    for change in &plan.changes {
        let object = &change.object;
        let plural = if change.pods == 1 { "" } else { "s" };
        let line = format!(
            "  {} {}/{} ({} pod{plural}): {}",
            object.kind, object.namespace, object.name, change.pods, change.title
        );
        let _ = writeln!(text, "{}", clean(&line));
        if let Some(maker) = &change.made_by {
            let line = format!("    it is made by {maker}, which the snapshot lacks: make the change there");
            let _ = writeln!(text, "{}", clean(&line));
        } else if change.anew {
            let _ = writeln!(text, "    a pod cannot be changed so: this makes it anew");
        }
        let _ = writeln!(text, "    {}", clean(&command(change)));
    }
    if plan.remaining.is_empty() {
        let _ = writeln!(
            text,
            "\n{}",
            paint.good("With these every device is within its budget.")
        );
    } else {
        let _ = writeln!(text, "\n{}", paint.bad("Still above budget:"));
        for left in &plan.remaining {
            let line = format!("  {} {}: {}", left.device.node, left.device.resource, left.why);
            let _ = writeln!(text, "{}", clean(&line));
        }
    }
    text
}

fn patches(plan: &Plan) -> String {
    let mut text = String::new();
    for change in &plan.changes {
        let object = &change.object;
        let line = format!(
            "# {} {}/{}: {}",
            object.kind, object.namespace, object.name, change.title
        );
        let _ = writeln!(text, "{}", clean(&line));
        if let Some(maker) = &change.made_by {
            let _ = writeln!(
                text,
                "# {}",
                clean(&format!("made by {maker}: make the change there"))
            );
            let _ = writeln!(text, "# {}", clean(&command(change)));
        } else {
            let _ = writeln!(text, "{}", clean(&command(change)));
        }
    }
    for left in &plan.remaining {
        let line = format!(
            "# still above budget: {} {}: {}",
            left.device.node, left.device.resource, left.why
        );
        let _ = writeln!(text, "{}", clean(&line));
    }
    text
}

/// The line of kubectl that makes a change.
fn command(change: &Change) -> String {
    let object = &change.object;
    let patch = serde_json::to_string(&change.patch).unwrap_or_default();
    let (namespace, name, patch) = (quoted(&object.namespace), quoted(&object.name), quoted(&patch));
    if change.anew {
        return format!(
            "kubectl get pod {name} -n {namespace} -o yaml | kubectl patch --local -f - --type=json -p {patch} -o yaml | \
             kubectl replace --force -f -"
        );
    }
    let kind = object.kind.to_lowercase();
    // A kind of another group is found by its group too.
    let kind = match (change.kind, object.api_version.split_once('/')) {
        (WorkloadKind::Custom(_), Some((group, _))) => format!("{kind}.{group}"),
        _ => kind,
    };
    format!(
        "kubectl patch {} {name} -n {namespace} --type=json -p {patch}",
        quoted(&kind)
    )
}

/// A word of a shell, in quotes where it needs them.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-._/:".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_kubectl_as_they_are() {
        assert_eq!(quoted("team-a"), "team-a");
        assert_eq!(quoted(r#"[{"a":"it's"}]"#), r#"'[{"a":"it'\''s"}]'"#);
        assert_eq!(quoted("$(x)"), "'$(x)'");
        assert_eq!(quoted(""), "''");
    }
}
