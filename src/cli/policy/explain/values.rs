//! The values of the policies that apply, with the origin of each.

use std::collections::BTreeSet;

use super::{Effective, Explained, InUse, Known, reason};
use crate::policy::written::{self, Written};

/// The values of every policy that applies somewhere.
pub(super) fn in_use(items: &[Explained], known: &[Known]) -> Vec<InUse> {
    let places = || items.iter().flat_map(|item| &item.places);
    let names: BTreeSet<&str> = places()
        .flat_map(|there| there.policy.iter().chain(&there.device_policy))
        .map(String::as_str)
        .collect();
    let mut in_use = Vec::new();
    for one in known
        .iter()
        .filter(|one| names.contains(one.policy.name.as_str()))
    {
        in_use.push(InUse {
            policy: one.policy.name.clone(),
            devices: one.policy.matches.by_nodes_alone(),
            values: values(one),
        });
    }
    if let Some(name) = names
        .iter()
        .find(|name| !known.iter().any(|one| one.policy.name == **name))
    {
        let values = written::built_in().iter().map(of_default).collect();
        in_use.push(InUse {
            policy: (*name).to_owned(),
            devices: true,
            values,
        });
    }
    in_use
}

fn of_default(one: &Written) -> Effective {
    Effective {
        field: one.field.clone(),
        value: one.value.clone(),
        origin: BUILT_IN.to_owned(),
    }
}

/// As the origin of a value.
pub(super) const BUILT_IN: &str = "built-in default";

/// What the policy says, then what it leaves out.
fn values(one: &Known) -> Vec<Effective> {
    let speaks = one.policy.matches.by_nodes_alone();
    let own = one.written.iter().map(|value| Effective {
        field: value.field.clone(),
        value: value.value.clone(),
        origin: match value.at {
            Some((line, _)) => format!("{}:{line}", one.place.file),
            None => one.place.file.clone(),
        },
    });
    let mut values: Vec<Effective> = own.collect();
    for default in written::built_in() {
        let is_said = one.written.iter().any(|value| value.field == default.field);
        let of_device = default.field.starts_with("spec.device.");
        if is_said || (of_device && !speaks) {
            continue;
        }
        let mut value = of_default(default);
        // A code that the policy lists has left the list of the default.
        if let Some(list) = default.field.strip_prefix("spec.codes.") {
            value.value = reason::codes_left(&default.value, list, &one.policy);
        }
        values.push(value);
    }
    values
}
