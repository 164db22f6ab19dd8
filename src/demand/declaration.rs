//! `vramgate.io/gpu-memory.<container>`: what a container takes of each of its devices, as whoever wrote the pod declares it.
//! In namespaces that the pod's policy trusts (`spec.declarations`) it counts before all that is read of the invocation;
//! elsewhere it counts for nothing and is told (VG108). Once a pod is created, a declaration that counts is never lowered (VG111).

use std::collections::{BTreeMap, BTreeSet};

use super::Amount;
use crate::engine::{self, MemoryKind, MemoryRequest, MemorySource, Placed};
use crate::finding::{Code, FieldPath, Finding, short};
use crate::policy::PolicySet;
use crate::quantity::Quantity;
use crate::units::{Fraction, Mib};
use crate::workload::pod::Pod;
use crate::workload::slots::names_any;

/// The annotation's name; the container's stands behind it.
pub(crate) const NAME: &str = "vramgate.io/gpu-memory.";
/// Largest amount that is taken for one of a device, in MiB: far above any.
const MOST_MIB: u64 = 1 << 24;
/// The label of a namespace that the API server sets to its name, so that nobody can give it to another one.
const NAMESPACE: &str = "kubernetes.io/metadata.name";

/// What a declaration that counts says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declaration<'p> {
    /// The amount on each device of the container.
    pub(crate) amount: Amount,
    /// The annotation.
    pub(crate) path: FieldPath,
    /// Its value as written.
    text: &'p str,
}

impl Declaration<'_> {
    /// The same in the terms of an invocation.
    pub(crate) fn memory(&self) -> MemoryRequest {
        let (kind, fraction, absolute) = match &self.amount {
            Amount::OfTotal { fraction, .. } => (MemoryKind::OfTotal, Some(fraction.clone()), None),
            Amount::Absolute(mib) => (MemoryKind::Absolute, None, Some(*mib)),
            Amount::Estimated { .. } | Amount::Unknown { .. } | Amount::Uncapped { .. } => {
                (MemoryKind::Unknown, None, None)
            }
        };
        MemoryRequest {
            kind,
            value: Some(self.text.to_owned()),
            source: MemorySource::Annotation,
            fraction,
            absolute,
            path: self.path.clone(),
        }
    }
}

/// The declarations of a pod.
#[derive(Default)]
pub(crate) struct Declarations<'p> {
    /// Container and value.
    pub(crate) written: BTreeMap<&'p str, &'p str>,
    /// Whether they count.
    trusted: bool,
    /// Namespace and policy of the pod; empty where it declares nothing.
    namespace: String,
    policy: String,
}

impl<'p> Declarations<'p> {
    /// Reads them. Who is trusted is asked before any node is considered, as invocations are read.
    pub(crate) fn of(
        pod: &'p Pod,
        namespace_labels: &BTreeMap<String, String>,
        policies: &PolicySet,
    ) -> Self {
        let behind = pod.metadata.annotations.range(NAME.to_owned()..);
        let written: BTreeMap<&str, &str> = behind
            .map_while(|(key, value)| Some((key.strip_prefix(NAME)?, value.as_str())))
            .collect();
        if written.is_empty() {
            return Self::default();
        }
        let policy = policies.for_pod(namespace_labels, pod, None);
        let namespace = namespace_labels.get(NAMESPACE).cloned().unwrap_or_default();
        Self {
            written,
            trusted: policy.trusted_namespaces.contains(&namespace),
            namespace,
            policy: policy.name.clone(),
        }
    }

    /// What is declared of a container that asks for a GPU: the amount, or why it counts for nothing.
    pub(crate) fn of_container(&self, container: &str) -> Option<Result<Declaration<'p>, Finding>> {
        let (name, text) = self.written.get_key_value(container)?;
        let (path, what) = (at(name), format!("annotation {NAME}{}", short(name)));
        if !self.trusted {
            let text = format!(
                "{what} counts for nothing: policy {} trusts no declarations of namespace {}; what is read of the invocation counts",
                short(&self.policy),
                short(&self.namespace)
            );
            let finding = Finding::new(Code::Vg108, path, text).detail(format!(
                "where they are to count, a policy says so: declarations: {{trust: [{}]}}",
                self.namespace
            ));
            return Some(Err(finding));
        }
        if let Some(amount) = amount(text) {
            return Some(Ok(Declaration { amount, path, text }));
        }
        let text = format!(
            "{what} has no effect: {:?} is no quantity such as 30Gi (1Mi or more) and no fraction such as 0.30 (above 0, at \
             most 1); write one, or leave it out",
            short(text)
        );
        Some(Err(Finding::new(Code::Vg108, path, text)))
    }

    /// Those that are about no container which asks for a GPU. Of a name that no container has, the reading of the invocations
    /// tells, where a regular container asks for slots.
    pub(crate) fn without_device(&self, pod: &Pod) -> Vec<Finding> {
        if self.written.is_empty() {
            return Vec::new();
        }
        let (asking, others): (Vec<_>, Vec<_>) = engine::containers(pod).partition(|placed| asks(*placed));
        let told_elsewhere = pod.spec.containers.iter().any(names_any);
        let asking: BTreeSet<&str> = asking
            .iter()
            .map(|placed| placed.container.name.as_str())
            .collect();
        let others: BTreeSet<&str> = others
            .iter()
            .map(|placed| placed.container.name.as_str())
            .collect();
        let rest = self.written.keys().filter(|name| !asking.contains(*name));
        let findings = rest.filter_map(|name| {
            let why = match (others.contains(name), told_elsewhere) {
                (true, _) => format!("container {} asks for no GPU", short(name)),
                (false, true) => return None,
                (false, false) => "no container has that name".to_owned(),
            };
            let text = format!("annotation {NAME}{} counts for nothing: {why}", short(name));
            Some(Finding::new(Code::Vg108, at(name), text))
        });
        findings.collect()
    }
}

/// Whether a container asks for a GPU, by slots or by claims.
pub(crate) fn asks(placed: Placed<'_>) -> bool {
    names_any(placed.container) || !placed.container.resources.claims.is_empty()
}

/// Where the declaration of a container stands below its pod.
pub(crate) fn at(name: &str) -> FieldPath {
    FieldPath::new("metadata.annotations").key(&format!("{NAME}{name}"))
}

/// A decimal above 0 and at most 1 is a fraction; anything else is a quantity of bytes, rounded up to MiB.
fn amount(text: &str) -> Option<Amount> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_decimal && let Ok(fraction) = Fraction::parse(text) {
        return Some(Amount::OfTotal {
            fraction,
            by_default: false,
        });
    }
    let quantity = Quantity::parse(text).ok()?;
    // Less than a MiB is a number whose unit was forgotten.
    let whole = quantity.mib_down().is_some_and(|mib| mib > Mib::ZERO);
    let mib = quantity.mib_up().filter(|mib| whole && mib.get() <= MOST_MIB)?;
    Some(Amount::Absolute(mib))
}

#[cfg(test)]
mod tests;
