//! Single fields of one policy: those that say what holds anyway, amounts that look like another unit, severities of findings
//! that the same policy never makes, labels that nothing can carry.

use super::set::match_path;
use super::{Looking, Remark, Rule};
use crate::finding::{Code, Severity};
use crate::policy::tree::{Step, View};
use crate::policy::written::{self, Written};
use crate::policy::{AccessRule, AllowedProfiles, DefaultFraction, Selector, nearest};

/// Everything about the fields of one policy.
pub(super) fn remarks(policy: &Looking<'_>, remarks: &mut Vec<Remark>) {
    for one in &policy.written {
        defaults(policy, one, remarks);
        units(policy, one, remarks);
    }
    codes(policy, remarks);
    fractions(policy, remarks);
    let matches = &policy.policy().matches;
    let parts = [
        ("namespaces", &matches.namespaces),
        ("pods", &matches.pods),
        ("nodes", &matches.nodes),
    ];
    for (part, selector) in parts {
        if let Some(selector) = selector {
            labels(policy, part, selector, remarks);
        }
    }
}

fn defaults(policy: &Looking<'_>, one: &Written, remarks: &mut Vec<Remark>) {
    let default = written::built_in()
        .iter()
        .find(|default| default.field == one.field);
    if default.is_some_and(|default| default.normal() == one.normal()) {
        remarks.push(policy.about(
            one,
            Severity::Info,
            Rule::SameAsDefault,
            format!(
                "{} is what holds without it; it may stay for the reader",
                one.value
            ),
        ));
    }
}

/// Below this an amount in MiB is taken for one in GiB: no device, reserve, overhead or limit is as small.
const SMALL_MIB: u64 = 200;
/// From this on it is taken for one in KiB or bytes: 16 TiB.
const LARGE_MIB: u64 = 1 << 24;

fn units(policy: &Looking<'_>, one: &Written, remarks: &mut Vec<Remark>) {
    let is_mib = one.field.ends_with("MiB")
        || one.field.contains("overheadMiB")
        || one.field == "spec.mps.memoryLimit";
    if is_mib && let Ok(amount) = one.value.parse::<u64>() {
        let message = if (1..SMALL_MIB).contains(&amount) {
            format!(
                "{amount} is {amount} MiB; write {} if GiB are meant",
                amount * 1024
            )
        } else if amount >= LARGE_MIB {
            format!("{amount} MiB are more than any device has: the field counts MiB, not KiB or bytes")
        } else {
            return;
        };
        remarks.push(policy.about(one, Severity::Warning, Rule::Unit, message));
    }
    for (list, fields) in [
        ("spec.device.products", &["memoryMiB"][..]),
        ("spec.models", &["weightsMiB"][..]),
    ] {
        if one.field == list {
            entries(policy, list, fields, remarks);
        }
    }
}

/// Amounts in the entries of a list.
fn entries(policy: &Looking<'_>, list: &str, fields: &[&str], remarks: &mut Vec<Remark>) {
    let mut path: Vec<Step> = list.split('.').map(|key| Step::Key(key.to_owned())).collect();
    let Some(View::List(items)) = policy.tree.get(&path).map(crate::policy::tree::Tree::view) else {
        return;
    };
    for (index, item) in items.iter().enumerate() {
        let View::Map(entries) = item.view() else { continue };
        for (key, _, value) in entries.iter().filter(|(key, ..)| fields.contains(key)) {
            let amount = match value.view() {
                View::Number(text) | View::Text(text) => text.parse::<u64>().ok(),
                _ => None,
            };
            // A model of 200 MiB exists; one of less than 40 MiB would be no language model.
            let least = if key == "weightsMiB" { 40 } else { 2_048 };
            if let Some(amount) = amount.filter(|amount| (1..least).contains(amount)) {
                path.extend([Step::Item(index), Step::Key(key.to_owned())]);
                remarks.push(policy.remark(
                    &path,
                    Severity::Warning,
                    Rule::Unit,
                    format!(
                        "{amount} is {amount} MiB; write {} if GiB are meant",
                        amount * 1024
                    ),
                ));
                path.truncate(path.len() - 2);
            }
        }
    }
}

/// Severities that change nothing.
fn codes(policy: &Looking<'_>, remarks: &mut Vec<Remark>) {
    let said = policy.policy();
    for (name, severity) in [
        ("error", Severity::Error),
        ("warning", Severity::Warning),
        ("info", Severity::Info),
    ] {
        let path = ["spec", "codes", name].map(|key| Step::Key(key.to_owned()));
        let Some(View::List(items)) = policy.tree.get(&path).map(crate::policy::tree::Tree::view) else {
            continue;
        };
        for (index, item) in items.iter().enumerate() {
            let View::Text(text) = item.view() else { continue };
            let Ok(code) = text.parse::<Code>() else { continue };
            let mut path = path.to_vec();
            path.push(Step::Item(index));
            let ignored = |rule: AccessRule, field: &str| {
                (rule == AccessRule::Ignore).then(|| format!("access.{field} is ignore"))
            };
            let why = match code {
                Code::Vg306 if said.mig_profiles == AllowedProfiles::Any => {
                    Some("mig.profiles is any".to_owned())
                }
                Code::Vg501 => ignored(said.access.visible_devices, "visibleDevices"),
                Code::Vg502 => ignored(said.access.privileged, "privileged")
                    .filter(|_| said.access.device_paths == AccessRule::Ignore)
                    .map(|_| "access.privileged and access.devicePaths are ignore".to_owned()),
                Code::Vg503 if said.access.runtime_classes.is_empty() => {
                    Some("access.runtimeClasses is empty".to_owned())
                }
                Code::Vg901 | Code::Vg902 => {
                    Some("it is about vramgate itself, and no policy changes what becomes of it".to_owned())
                }
                Code::Vg601 | Code::Vg602 | Code::Vg603 | Code::Vg604 if !policy.reach.of_devices => {
                    Some("it is about devices, whose policy matches by nodes alone".to_owned())
                }
                _ => None,
            };
            if let Some(why) = why {
                remarks.push(policy.remark(
                    &path,
                    Severity::Warning,
                    Rule::NoEffect,
                    format!("{code} as {name} has no effect: {why}"),
                ));
            } else if code.default_severity() == severity && !matches!(code, Code::Vg102 | Code::Vg106) {
                remarks.push(policy.remark(
                    &path,
                    Severity::Info,
                    Rule::SameAsDefault,
                    format!(
                        "{code} is {} without it; it may stay for the reader",
                        with_article(name)
                    ),
                ));
            }
        }
    }
}

fn with_article(severity: &str) -> String {
    match severity {
        "error" => "an error".to_owned(),
        "info" => "information".to_owned(),
        other => format!("a {other}"),
    }
}

/// Fractions that belie each other.
fn fractions(policy: &Looking<'_>, remarks: &mut Vec<Remark>) {
    let said = policy.policy();
    let find = |field: &str| policy.written.iter().find(|one| one.field == field);
    if let DefaultFraction::Value(fraction) = &said.default_fraction
        && policy.reach.of_devices
        && fraction.share() > said.device.budget
        && let Some(one) = find("spec.defaults.gpuMemoryUtilization")
    {
        remarks.push(policy.about(
            one,
            Severity::Warning,
            Rule::Contradiction,
            format!(
                "{} is above the budget of the device ({}): each pod that it is added to is refused; write less, or fairShare",
                one.value, said.device.budget
            ),
        ));
    }
    let half = crate::units::Share::from_ppm(500_000);
    if said.device.reserve.fraction >= half
        && let Some(one) = find("spec.device.reserve.fraction")
    {
        remarks.push(policy.about(
            one,
            Severity::Warning,
            Rule::Unit,
            format!(
                "{} of each device is kept back and never promised; the part that may be promised is spec.device.budget",
                one.value
            ),
        ));
    }
    let tenth = crate::units::Share::from_ppm(100_000);
    if said.device.budget < tenth
        && let Some(one) = find("spec.device.budget")
    {
        remarks.push(policy.about(
            one,
            Severity::Warning,
            Rule::Unit,
            format!(
                "only {} of each device may be promised; what is kept back is spec.device.reserve.fraction",
                one.value
            ),
        ));
    }
}

/// Labels of nodes whose values are known.
const KNOWN: [(&str, &[&str]); 3] = [
    (
        "nvidia.com/gpu.sharing-strategy",
        &["none", "time-slicing", "mps"],
    ),
    ("nvidia.com/mig.strategy", &["none", "single", "mixed"]),
    ("nvidia.com/mig.capable", &["true", "false"]),
];

fn labels(policy: &Looking<'_>, part: &str, selector: &Selector, remarks: &mut Vec<Remark>) {
    let mut tell = |rest: &[Step], message: String| {
        let (path, _) = match_path(part, rest);
        remarks.push(policy.remark(&path, Severity::Warning, Rule::NeverMatches, message));
    };
    let check = |key: &str, value: &str| -> Option<String> {
        if !is_label_value(value) {
            return Some(format!(
                "{value:?} is no value of a label (letters, digits, -, _ and ., at most 63), so nothing can have it"
            ));
        }
        let (_, known) = KNOWN.iter().find(|(label, _)| part == "nodes" && *label == key)?;
        if known.contains(&value) {
            return None;
        }
        let hint = nearest(value, known).map_or_else(
            || format!("; its values are {}", known.join(", ")),
            |near| format!("; did you mean {near}?"),
        );
        Some(format!("{value:?} is no value of {key}{hint}"))
    };
    for (key, value) in &selector.labels {
        let rest = ["matchLabels", key].map(|key| Step::Key(key.to_owned()));
        if part != "namespaces" && key == "kubernetes.io/metadata.name" {
            tell(
                &rest,
                "is a label of namespaces: it belongs to match.namespaces".to_owned(),
            );
        } else if let Some(message) = check(key, value) {
            tell(&rest, message);
        }
    }
    for (index, requirement) in selector.expressions.iter().enumerate() {
        // What is excluded need not exist.
        if requirement.operator != "In" {
            continue;
        }
        for (place, value) in requirement.values.iter().enumerate() {
            if let Some(message) = check(&requirement.key, value) {
                let rest = [
                    Step::Key("matchExpressions".to_owned()),
                    Step::Item(index),
                    Step::Key("values".to_owned()),
                    Step::Item(place),
                ];
                tell(&rest, message);
            }
        }
    }
}

fn is_label_value(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && edge(bytes.first().copied())
        && edge(bytes.last().copied())
}
