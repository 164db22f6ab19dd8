//! A Node whose label `nvidia.com/mig.config` names a configuration of the MIG manager.

use std::collections::BTreeSet;

use super::geometry::{has_id, refusal, tell_all};
use super::{Surroundings, names};
use crate::configuration::{ConfigMap, NodeLabels};
use crate::device::catalogue::ProductLabel;
use crate::device::config::Document;
use crate::device::config::mig::{self, CONFIG_LABEL, MigConfig};
use crate::finding::{Code, FieldPath, Finding, Number, short};
use crate::policy::hint;

/// Names that are proposed where none is near.
const MOST_KNOWN: usize = 6;

/// The findings of a Node; `None` where the label is not there, or did not change.
pub(super) fn findings(
    now: &NodeLabels,
    before: Option<&NodeLabels>,
    maps: &[ConfigMap],
    around: &Surroundings,
) -> Option<Vec<Finding>> {
    let label = now.labels.get(CONFIG_LABEL);
    let old = before.and_then(|before| before.labels.get(CONFIG_LABEL));
    let changed = before.is_some() && label != old;
    if !changed && (label.is_none() || before.is_some()) {
        return None;
    }
    let path = FieldPath::new("metadata.labels").key(CONFIG_LABEL);
    let mut findings = Vec::new();
    if let Some(name) = label {
        findings.extend(of_name(name, now, maps, &path, around));
    }
    if changed {
        findings.extend(running(now, &path, around));
    }
    Some(findings)
}

/// VG603 where no ConfigMap has the name, VG601 where the node's GPU cannot be cut that way.
fn of_name(
    name: &str,
    node: &NodeLabels,
    maps: &[ConfigMap],
    path: &FieldPath,
    around: &Surroundings,
) -> Vec<Finding> {
    let readings: Vec<mig::Reading> = maps
        .iter()
        .flat_map(|map| map.data.values())
        .filter_map(|text| match Document::read(text) {
            Some(Document::Mig(reading)) => Some(reading),
            _ => None,
        })
        .collect();
    if readings.is_empty() {
        return Vec::new();
    }
    let known: Vec<&str> = readings
        .iter()
        .flat_map(|reading| reading.names.iter().map(String::as_str))
        .collect();
    if !known.contains(&name) {
        // A document that cannot be read may have it.
        let unreadable = readings
            .iter()
            .any(|reading| reading.names.is_empty() && !reading.faults.is_empty());
        if unreadable {
            return Vec::new();
        }
        let shown: BTreeSet<&str> = maps.iter().map(|map| map.name.as_str()).collect();
        let near = hint(name, &known);
        let near = if near.starts_with("; did") || known.len() <= MOST_KNOWN {
            near
        } else {
            format!("; it has {}", known[..MOST_KNOWN].join(", ")) + " and more"
        };
        return vec![Finding::new(
            Code::Vg603,
            path.clone(),
            format!(
                "{CONFIG_LABEL} is {:?}, which names nothing{near} (ConfigMap {})",
                short(name),
                names(&shown)
            ),
        )];
    }
    let configs = readings.iter().flat_map(|reading| &reading.configs);
    let config = configs.into_iter().find(|config| config.name == name);
    config
        .and_then(|config| of_config(config, node, path, around))
        .into_iter()
        .collect()
}

/// The first entry for the node's GPU that it cannot be cut by.
fn of_config(
    config: &MigConfig,
    node: &NodeLabels,
    path: &FieldPath,
    around: &Surroundings,
) -> Option<Finding> {
    let label = node.labels.get("nvidia.com/gpu.product")?;
    let policy = around.policies.for_device(&node.labels);
    let product = policy
        .device
        .products
        .catalogue()
        .product(ProductLabel::parse(label).base)?;
    let entries = config
        .entries
        .iter()
        .filter(|entry| entry.filter.is_empty() || entry.filter.iter().any(|id| has_id(product, *id)));
    let why = entries.into_iter().find_map(|entry| refusal(product, entry))?;
    let finding = Finding::new(
        Code::Vg601,
        path.clone(),
        format!("{CONFIG_LABEL} is {:?}: {}", short(&config.name), why.sentence),
    );
    Some(tell_all(finding, &why))
}

/// VG604: pods that use the GPUs which are to be cut anew.
fn running(node: &NodeLabels, path: &FieldPath, around: &Surroundings) -> Option<Finding> {
    let pods = &around.bound;
    if pods.is_empty() {
        return None;
    }
    let count = pods.len();
    let all: BTreeSet<&str> = pods.iter().map(String::as_str).collect();
    Some(
        Finding::new(
            Code::Vg604,
            path.clone(),
            format!(
                "{count} {} GPUs of {}: {}; drain the node first, for GPUs are cut only while idle",
                if count == 1 { "pod uses" } else { "pods use" },
                short(&node.name),
                names(&all)
            ),
        )
        .number("pods", Number::Count(u64::try_from(count).unwrap_or(u64::MAX)))
        .detail(
            "the MIG manager stops the GPU clients that it knows, and fails while a pod holds a device: nvidia.com/mig.config.state \
             then says failed, and labels and capacity are those of before",
        ),
    )
}
