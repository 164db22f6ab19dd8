//! What comes of a plan: its changes, each judged among the others, and what is left with the reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use json_patch::PatchOperation;

use super::{Above, Change, Course, Device, LEAST_USEFUL, MOST_NAMED, Plan, Remaining, at, unbound};
use crate::decision::{Verdict, judge, relief};
use crate::demand::Amount;
use crate::finding::Severity;
use crate::ledger::devices::DeviceView;
use crate::message;
use crate::workload::WorkloadKind;

impl Course<'_> {
    /// Why a device stays above its budget.
    pub(super) fn why(&self, view: &DeviceView, owners: &[usize]) -> String {
        let mut reasons: Vec<String> = Vec::new();
        for at in owners {
            let Some(owner) = self.owners.get(*at) else {
                continue;
            };
            let prepared = self.prepared(owner);
            let object = &owner.workload.object;
            let name = format!("{} {}/{}", object.kind, object.namespace, object.name);
            let unknown = relief::demands(&prepared)
                .into_iter()
                .flat_map(|demand| &demand.claims)
                .flat_map(|claim| &claim.parts)
                .find_map(|part| match &part.amount {
                    Amount::Unknown { why, .. } | Amount::Uncapped { why } => Some(why.clone()),
                    Amount::OfTotal { .. } | Amount::Absolute(_) | Amount::Estimated { .. } => None,
                });
            reasons.push(match (unknown, relief::largest_fraction(&prepared)) {
                _ if owner.workload.deleting => {
                    format!("{name} is being deleted and holds its memory until it is gone")
                }
                (Some(why), _) => format!("{name}: {why}"),
                (None, None) => format!("{name} has no fraction in a field that could be lowered"),
                (None, Some(_)) => {
                    let least = relief::least_fraction(&prepared, &self.ledger).max(LEAST_USEFUL);
                    format!("{name} needs a fraction of at least {least}")
                }
            });
        }
        if owners.is_empty() {
            return "no object of the snapshot is known to hold it".to_owned();
        }
        if !self.allowed.fractions {
            reasons.clear();
        }
        let more = reasons.len().saturating_sub(MOST_NAMED);
        reasons.truncate(MOST_NAMED);
        let mut text = reasons.join("; ");
        if more > 0 {
            let _ = write!(text, "; and {more} more");
        }
        let mut sentences = vec![text];
        if self.allowed.placement {
            sentences.push("no other node has room for one of them as it is".to_owned());
        }
        sentences.retain(|sentence| !sentence.is_empty());
        format!(
            "{} ({} of its budget {} are taken)",
            sentences.join("; "),
            view.bound_share,
            view.budget_share
        )
    }

    /// The changes, each judged against the cluster with all of them.
    pub(super) fn conclude(mut self, above: Vec<Above>, reasons: &BTreeMap<Device, String>) -> Plan {
        let mut changes = Vec::new();
        let mut refused: BTreeMap<Device, String> = BTreeMap::new();
        for index in std::mem::take(&mut self.order) {
            let Some((change, verdict)) = self.change(index) else {
                continue;
            };
            if !verdict.admit {
                let Some(owner) = self.owners.get(index) else {
                    continue;
                };
                let errors = verdict.findings.iter();
                let first = errors
                    .filter(|finding| finding.severity == Severity::Error)
                    .map(message::headline)
                    .next()
                    .unwrap_or_default();
                let object = &owner.workload.object;
                for pod in &owner.pods {
                    let node: Arc<str> = Arc::from(pod.pod.spec.node_name.as_deref().unwrap_or_default());
                    for device in above.iter().filter(|device| device.node == node) {
                        refused.insert(
                            (device.node.clone(), device.resource.clone()),
                            format!(
                                "{} {}/{} would be refused: {first}",
                                object.kind, object.namespace, object.name
                            ),
                        );
                    }
                }
                continue;
            }
            changes.push(change);
        }
        let mut remaining: Vec<Remaining> = self
            .ledger
            .over_budget()
            .iter()
            .map(|view| {
                let key = (view.node.clone(), view.resource.clone());
                let why = reasons.get(&key).or_else(|| refused.get(&key)).cloned();
                Remaining {
                    device: Above::of(view),
                    why: why.unwrap_or_else(|| "another change brought it above".to_owned()),
                }
            })
            .collect();
        for device in &above {
            let key = (device.node.clone(), device.resource.clone());
            let is_told = remaining
                .iter()
                .any(|left| left.device.node == key.0 && left.device.resource == key.1);
            if let (Some(why), false) = (refused.get(&key), is_told) {
                remaining.push(Remaining {
                    device: device.clone(),
                    why: why.clone(),
                });
            }
        }
        Plan {
            above,
            changes,
            remaining,
        }
    }

    /// The change of one owner with the verdict on it.
    fn change(&mut self, index: usize) -> Option<(Change, Verdict)> {
        let owner = self.owners.get(index)?;
        let (prepared, title, mut patch) = if let Some(moved) = self.moved.get(&index) {
            (
                moved.prepared.clone(),
                moved.fix.title.clone(),
                moved.fix.patch.clone(),
            )
        } else {
            let fraction = at(*self.lowered.get(&index)?)?;
            let submitted = if owner.workload.kind == WorkloadKind::Pod {
                self.read(unbound(owner.workload))
            } else {
                self.prepared(owner)
            };
            let now = relief::largest_fraction(&submitted)?;
            let lowered = relief::lowered(&submitted, &fraction)?;
            let title = format!("lower its memory fraction from {now} to {}", fraction.text());
            (lowered.prepared, title, lowered.patch)
        };
        let anew = owner.workload.kind == WorkloadKind::Pod;
        if anew && owner.workload.pod.spec.node_name.is_some() {
            patch.extend(removal("/spec/nodeName"));
        }
        let change = Change {
            object: owner.workload.object.clone(),
            kind: owner.workload.kind,
            title,
            pods: owner.pods.len(),
            anew,
            made_by: owner.made_by.clone(),
            patch,
        };
        // Its own pods are replaced by those that are judged.
        let pods = owner.pods.clone();
        for pod in &pods {
            self.ledger.remove_pod(&pod.uid);
        }
        let verdict = judge(&prepared, &self.ledger);
        let fraction = self.lowered.get(&index).copied();
        self.put(&pods, fraction);
        Some((change, verdict))
    }
}

fn removal(path: &str) -> Option<PatchOperation> {
    serde_json::from_value(serde_json::json!({"op": "remove", "path": path})).ok()
}
