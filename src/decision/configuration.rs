//! The verdict on what configures GPUs: ConfigMaps of the device plugin and of the MIG manager, and a Node's label that
//! names one. Nothing is reserved, and an UPDATE is not held up by what was wrong before.

use std::collections::{BTreeMap, BTreeSet};

use super::{Operation, Verdict};
use crate::configuration::{ConfigMap, Configuration};
use crate::device::config::{Document, Fault, mig, plugin};
use crate::finding::{Code, FieldPath, Finding, Number, Severity, short, shortened};
use crate::policy::{ConfigMapName, Policy, PolicyRef};

mod geometry;
mod node;
mod plugin_map;
mod surroundings;

use geometry::Products;
pub use surroundings::Surroundings;

/// Longest name of a field in a message, in characters.
const LONGEST_FIELD: usize = 72;

/// One object to be judged.
#[derive(Clone, Debug)]
pub struct ConfigurationQuestion {
    /// What is being done.
    pub operation: Operation,
    /// The object as it will be.
    pub object: Configuration,
    /// The object as it was (on UPDATE).
    pub old: Option<Configuration>,
    /// Labels of a ConfigMap's namespace.
    pub namespace_labels: BTreeMap<String, String>,
    /// ConfigMaps of the MIG manager, against which the label of a Node is judged. Empty where none could be read, and then
    /// nothing is said of the name.
    pub mig: Vec<ConfigMap>,
}

/// Judges it. Changes nothing.
#[must_use]
pub fn judge_configuration(question: &ConfigurationQuestion, around: &Surroundings) -> Verdict {
    let policies = &around.policies;
    let (policy, findings) = match &question.object {
        Configuration::ConfigMap(map) => {
            let policy = policies.for_pod(&question.namespace_labels, &BTreeMap::new(), None);
            let Some(findings) = of_config_map(map, around) else {
                return Verdict::not_ours();
            };
            let before = match &question.old {
                Some(Configuration::ConfigMap(old)) => of_config_map(old, around).unwrap_or_default(),
                _ => Vec::new(),
            };
            (policy, kept_as_warnings(findings, &before))
        }
        Configuration::Node(now) => {
            let before = match &question.old {
                Some(Configuration::Node(old)) => Some(old),
                _ => None,
            };
            let policy = policies.for_device(&now.labels);
            let Some(findings) = node::findings(now, before, &question.mig, around) else {
                return Verdict::not_ours();
            };
            (policy, findings)
        }
    };
    conclude(&policy, findings)
}

fn conclude(policy: &PolicyRef, findings: Vec<Finding>) -> Verdict {
    let mut verdict = Verdict::of(policy);
    verdict.findings = findings
        .into_iter()
        .map(|finding| under(policy, finding))
        .collect();
    verdict.conclude(policy.mode, true, false)
}

/// The severity that the policy gives, at most the one with which the finding was raised where that is a milder one.
fn under(policy: &Policy, finding: Finding) -> Finding {
    let severity = policy.severity(finding.code);
    if finding.severity < finding.code.default_severity() {
        let milder = finding.severity.min(severity);
        return finding.with_severity(milder);
    }
    finding.with_severity(severity)
}

/// What was wrong before is no reason to hold up a change.
fn kept_as_warnings(findings: Vec<Finding>, before: &[Finding]) -> Vec<Finding> {
    let same = |one: &Finding, other: &Finding| {
        one.code == other.code && one.path == other.path && one.numbers.get(WHAT) == other.numbers.get(WHAT)
    };
    findings
        .into_iter()
        .map(|finding| {
            if before.iter().any(|old| same(old, &finding)) {
                let milder = finding.severity.min(Severity::Warning);
                finding
                    .with_severity(milder)
                    .detail("it was so before this change, which is let through")
            } else {
                finding
            }
        })
        .collect()
}

/// Name of the number that holds a fault without its line, by which it is known again.
const WHAT: &str = "fault";

/// The findings of a ConfigMap; `None` where it configures no GPUs.
fn of_config_map(map: &ConfigMap, around: &Surroundings) -> Option<Vec<Finding>> {
    let mut ours = false;
    let mut findings = Vec::new();
    let named = Named::of(map, around);
    let mut products = None;
    let mut has_mig = false;
    for (key, text) in &map.data {
        let document = match Document::read(text) {
            None if named.plugin => Some(Document::Plugin(plugin::read(text))),
            None if named.mig && key == MIG_KEY => Some(Document::Mig(mig::read(text))),
            document => document,
        };
        has_mig |= matches!(document, Some(Document::Mig(_)));
        match document {
            Some(Document::Mig(reading)) => {
                ours = true;
                let products = products.get_or_insert_with(|| Products::of(around));
                let faults = reading.faults.iter();
                findings.extend(faults.map(|fault| of_fault(Code::Vg601, key, fault)));
                findings.extend(geometry::findings(key, &reading, products));
            }
            Some(Document::Plugin(reading)) => {
                ours = true;
                let faults = reading.faults.iter();
                findings.extend(faults.map(|fault| of_fault(Code::Vg602, key, fault)));
                findings.extend(plugin_map::on_nodes(map, key, &reading, around));
            }
            None => {}
        }
    }
    if named.mig && !has_mig {
        ours = true;
        let message = format!(
            "a policy names ConfigMap {} as that of the MIG manager, which reads its key {MIG_KEY}; it has none: write a \
             mig-parted document there",
            short(&map.name)
        );
        findings.push(
            Finding::new(Code::Vg601, FieldPath::new("data"), message)
                .number(WHAT, Number::Text(format!("no {MIG_KEY}"))),
        );
    }
    ours.then_some(findings)
}

/// The key that the MIG manager reads, as the GPU Operator starts it.
const MIG_KEY: &str = "config.yaml";

/// What policies name a ConfigMap as.
struct Named {
    /// That of the device plugin.
    plugin: bool,
    /// That of the MIG manager.
    mig: bool,
}

impl Named {
    fn of(map: &ConfigMap, around: &Surroundings) -> Self {
        let is = |name: Option<&ConfigMapName>| {
            name.is_some_and(|name| name.namespace == map.namespace && name.name == map.name)
        };
        let mut policies = around.policies.iter();
        let plugin = policies.any(|policy| is(policy.device.plugin_config.as_ref()));
        let mut policies = around.policies.iter();
        let mig = policies.any(|policy| is(policy.device.mig_config.as_ref()));
        Self { plugin, mig }
    }
}

fn of_fault(code: Code, key: &str, fault: &Fault) -> Finding {
    let field = if fault.field.is_empty() {
        String::new()
    } else {
        format!("{} ", shortened(&fault.field, LONGEST_FIELD))
    };
    finding(
        code,
        key,
        fault.line,
        &fault.field,
        &format!("{field}{}", fault.message),
    )
    .with_severity(if fault.refused {
        code.default_severity()
    } else {
        Severity::Warning
    })
}

/// A finding about one field of the document under a key.
fn finding(code: Code, key: &str, line: Option<u64>, field: &str, message: &str) -> Finding {
    let place = match line {
        Some(line) => format!("{}, line {line}: ", short(key)),
        None => format!("{}: ", short(key)),
    };
    let path = FieldPath::new("data").key(key);
    let finding = Finding::new(code, path, format!("{place}{message}"))
        .number(WHAT, Number::Text(format!("{field}: {message}")));
    match line {
        Some(line) => finding.number("line", Number::Count(line)),
        None => finding,
    }
}

/// A few names, and how many more there are.
fn names(all: &BTreeSet<&str>) -> String {
    const MOST: usize = 3;
    let shown: Vec<&str> = all.iter().copied().take(MOST).collect();
    let shown = shown.join(", ");
    if all.len() > MOST {
        format!("{shown} and {} more", all.len() - MOST)
    } else {
        shown
    }
}
