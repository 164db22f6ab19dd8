//! Policies beside each other: those that never apply, pairs of which only the name decides, fields that go back to their
//! default because policies are not merged.

use super::{Looking, Remark, Rule};
use crate::finding::Severity;
use crate::policy::tree::{Step, path_text};
use crate::policy::written::{self, Written};

/// Policies that are compared with each other, the first in order of precedence: a pair is some microseconds of work.
const MOST_COMPARED: usize = 1_000;
/// Fields that are named as going back to their default.
const MOST_NAMED: usize = 3;
/// A policy that says no more than so much is taken for one that its author thinks is merged.
const LITTLE: usize = 4;

/// Everything about the set. `policies` in order of precedence.
pub(super) fn remarks(policies: &[Looking<'_>], remarks: &mut Vec<Remark>) {
    let mut alive = Vec::new();
    for policy in policies.iter().take(MOST_COMPARED) {
        match policy.reach.impossible() {
            Some((part, label)) => remarks.push(never(policy, part, label)),
            None => alive.push(policy),
        }
    }
    for (place, policy) in alive.iter().enumerate() {
        let before = &alive[..place];
        let covering = before.iter().find(|first| first.reach.covers(&policy.reach));
        if let Some(first) = covering {
            remarks.push(unreachable(policy, first));
        }
        let equals = before.iter().filter(|first| {
            first.policy().priority == policy.policy().priority
                && first.reach.meets(&policy.reach)
                && !first.reach.covers(&policy.reach)
        });
        for first in equals {
            remarks.push(by_name(policy, first));
        }
        remarks.extend(resets(policy, &alive[place + 1..]));
    }
}

fn never(policy: &Looking<'_>, part: &str, label: &str) -> Remark {
    let what = part.trim_end_matches('s');
    let path = ["spec", "match", part].map(|key| Step::Key(key.to_owned()));
    policy.remark(
        &path,
        Severity::Warning,
        Rule::NeverMatches,
        format!("no {what} can match: what is asked of the label {label} excludes itself, so the policy never applies"),
    )
}

fn unreachable(policy: &Looking<'_>, first: &Looking<'_>) -> Remark {
    let (own, other) = (policy.policy(), first.policy());
    let why = if own.priority == other.priority {
        format!(
            "has the same priority ({}) and comes first by name",
            other.priority
        )
    } else {
        format!("has priority {}, above {}", other.priority, own.priority)
    };
    let never = if first.reach.covers_devices(&policy.reach) {
        "it never applies"
    } else {
        "it applies to devices, and never to a pod"
    };
    policy.at_name(
        Rule::Unreachable,
        format!(
            "{never}: {} matches everything that it matches and {why}; give this one a higher priority, or let the other match less",
            first.place()
        ),
    )
}

fn by_name(policy: &Looking<'_>, first: &Looking<'_>) -> Remark {
    policy.at_name(
        Rule::Overlap,
        format!(
            "it and {} can match the same pod and have the same priority ({}): the other one applies, because its name comes \
             first; give the one that is meant a higher priority",
            first.place(),
            policy.policy().priority
        ),
    )
}

/// A policy that says little, and by that takes away what others say.
fn resets(policy: &Looking<'_>, lower: &[&Looking<'_>]) -> Option<Remark> {
    let says_little = |one: &Written| {
        ["spec.mode", "spec.codes", "spec.messages"]
            .iter()
            .any(|part| one.field.starts_with(part))
    };
    if policy.written.is_empty() || policy.written.len() > LITTLE || !policy.written.iter().all(says_little) {
        return None;
    }
    let mut lost = Vec::new();
    for other in lower.iter().filter(|other| policy.reach.meets(&other.reach)) {
        let gone = other.written.iter().filter(|one| {
            let of_device = one.field.starts_with("spec.device.");
            // A policy that does not speak for devices leaves them to the others.
            let reset = !of_device || (policy.reach.of_devices && other.reach.of_devices);
            let default = written::built_in()
                .iter()
                .find(|default| default.field == one.field);
            reset
                && !one.field.starts_with("spec.codes")
                && !one.field.starts_with("spec.messages")
                && default.is_some_and(|default| default.normal() != one.normal())
                && policy.written.iter().all(|own| own.field != one.field)
        });
        lost.extend(gone.map(|one| (*other, one)));
    }
    if lost.is_empty() {
        return None;
    }
    let named: Vec<String> = lost
        .iter()
        .take(MOST_NAMED)
        .map(|(other, one)| format!("{} {} of {}", one.field, one.value, other.policy().name))
        .collect();
    let more = match lost.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let field = policy.written.first().map_or("", |one| one.field.as_str());
    Some(policy.at_name(
        Rule::Resets,
        format!(
            "policies are not merged: where it applies, what it leaves out goes back to the built-in default, also {}{more}; \
             repeat here what is to stay, or set {field} in those policies",
            named.join(", ")
        ),
    ))
}

/// The text of a path below `spec.match`.
pub(super) fn match_path(part: &str, rest: &[Step]) -> (Vec<Step>, String) {
    let mut path: Vec<Step> = ["spec", "match", part]
        .map(|key| Step::Key(key.to_owned()))
        .into();
    path.extend_from_slice(rest);
    let text = path_text(&path);
    (path, text)
}
