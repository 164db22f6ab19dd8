//! The labels that speak of one resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::device::FactNote;

/// Labels of one resource, and where to note what is wrong with them.
pub(super) struct Facts<'a> {
    /// All labels of the node.
    pub(super) labels: &'a BTreeMap<String, String>,
    /// The resource (`nvidia.com/gpu.shared`).
    pub(super) resource: Arc<str>,
    /// What its labels begin with (`nvidia.com/gpu`).
    prefix: String,
    notes: &'a mut Vec<FactNote>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(
        labels: &'a BTreeMap<String, String>,
        resource: Arc<str>,
        notes: &'a mut Vec<FactNote>,
    ) -> Self {
        let prefix = resource.strip_suffix(".shared").unwrap_or(&resource).to_owned();
        Self {
            labels,
            resource,
            prefix,
            notes,
        }
    }

    /// The MIG profile that the resource's name tells (`1g.10gb`); `None` for whole GPUs.
    pub(super) fn profile(&self) -> Option<&str> {
        self.prefix.strip_prefix("nvidia.com/mig-")
    }

    /// Whether the resource's own name says that it is shared.
    pub(super) fn is_renamed(&self) -> bool {
        self.resource.len() > self.prefix.len()
    }

    /// The name of a label (`nvidia.com/gpu.memory` of `memory`).
    pub(super) fn label(&self, field: &str) -> String {
        format!("{}.{field}", self.prefix)
    }

    /// The value of a label; `None` where it is missing or empty.
    pub(super) fn text(&self, field: &str) -> Option<&'a str> {
        self.labels
            .get(&self.label(field))
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
    }

    /// The number in a label. One that is no number is noted and counts as missing.
    pub(super) fn number(&mut self, field: &str) -> Option<u64> {
        let value = self.text(field)?;
        let number = value
            .parse()
            .ok()
            .filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()));
        if number.is_none() {
            self.note(format!(
                "label {} is {value:?}, which is not a whole number; it counts as missing",
                self.label(field)
            ));
        }
        number
    }

    /// Something that an administrator should know.
    pub(super) fn note(&mut self, message: String) {
        self.notes.push(FactNote {
            resource: Arc::clone(&self.resource),
            message,
        });
    }
}
