//! VG302: what no node offers, what is nearest to it, and which nodes could be cut so that they offer it.

use std::collections::BTreeMap;

use super::{MOST_NAMED, Survey};
use crate::demand::{Claim, Demand, resources};
use crate::finding::{Code, FieldPath, Finding, Severity, short};
use crate::mig::ProfileName;
use crate::workload::pod::PodSpec;

mod repartition;

use repartition::Search;

impl Survey<'_> {
    /// Why no node offers what is asked.
    ///
    /// What a DeviceClass offers as an extended resource needs no node's capacity.
    pub(super) fn not_offered(&self, demand: &Demand, spec: &PodSpec) -> Finding {
        let most = self.most();
        let missing = demand
            .claims
            .iter()
            .find(|claim| !most.contains_key(&*claim.resource));
        let Some(claim) = missing else {
            let first = demand.claims.first();
            let path = first.map_or_else(FieldPath::default, |claim| claim.slots_path.clone());
            let all = demand.resources().collect::<Vec<_>>().join(", ");
            let text = format!("no single node offers all that the pod asks for: {all}");
            return self.growing(Finding::new(Code::Vg302, path, text));
        };
        if self.ledger.dra.backs(&claim.resource) {
            return backed_by_class(claim);
        }
        let (mut text, mut details) = self.missing_text(claim, &most, spec);
        let unread = self.unread(&claim.resource);
        if let Some(first) = unread.first() {
            let told = format!("no node is known to offer {}; {first}", short(&claim.resource));
            if told.len() <= LONGEST_LINE {
                details.insert(0, std::mem::replace(&mut text, told));
                details.extend(unread.into_iter().skip(1));
            } else {
                details.extend(unread);
            }
        }
        let mut finding = Finding::new(Code::Vg302, claim.slots_path.clone(), text);
        finding.details = details;
        self.growing(finding)
    }

    /// What of nodes could not be read that may offer the resource.
    fn unread(&self, resource: &str) -> Vec<String> {
        let all = self.ledger.nodes.noted();
        let without = all.filter(|(_, entry)| entry.node.pool(resource).is_none());
        let told = without.flat_map(|(name, entry)| {
            let of_resource = entry.node.notes.iter().filter(|note| *note.resource == *resource);
            of_resource.map(move |note| format!("node {}: {}", short(name), note.message))
        });
        told.take(MOST_NAMED).collect()
    }

    fn missing_text(
        &self,
        claim: &Claim,
        most: &BTreeMap<&str, u32>,
        spec: &PodSpec,
    ) -> (String, Vec<String>) {
        let resource = short(&claim.resource);
        let names: Vec<&str> = most.keys().copied().take(MOST_NAMED).collect();
        let more = if most.len() > MOST_NAMED { " and more" } else { "" };
        let offers = format!("the cluster offers {}{more}", names.join(", "));
        if names.is_empty() {
            let text = format!("no node offers {resource}; no node of the cluster offers GPUs");
            return (text, Vec::new());
        }
        let plain = || (format!("no node offers {resource}; {offers}"), Vec::new());
        if !claim.resource.starts_with("nvidia.com/mig") {
            return plain();
        }
        let Some(wanted) = ProfileName::of_resource(&claim.resource) else {
            return match resources::meant(&claim.resource) {
                Some(meant) => (
                    format!(
                        "no node offers {resource}, which is no MIG profile's resource; is {meant} meant?"
                    ),
                    vec![offers],
                ),
                None => plain(),
            };
        };
        if let Some(instance) = wanted.compute.and_then(|_| wanted.gpu_instance().resource()) {
            let text = format!(
                "no node offers {resource}: compute instances have no resource of their own; ask for {instance}"
            );
            return (text, vec![offers]);
        }
        let (end, mut details) = Search::of(self.ledger, spec, wanted).text();
        let text = format!("no node offers {resource}{end}");
        let with_offers = format!("{text}; {offers}");
        // Of products without MIG there is nothing else to say.
        if details.is_empty() && end.starts_with(':') && with_offers.len() <= LONGEST_LINE {
            return (with_offers, details);
        }
        details.push(offers);
        (text, details)
    }
}

/// A class stands for the resource, so that no capacity has to show it; there is only nothing of it now.
fn backed_by_class(claim: &Claim) -> Finding {
    let finding = Finding::new(
        Code::Vg209,
        claim.slots_path.clone(),
        format!(
            "{} stands for a DeviceClass, and no ResourceSlice has a device of it now: it would stay Pending",
            claim.resource
        ),
    );
    finding.with_severity(Severity::Info)
}

/// Longest names of nodes in it, all together.
const LONGEST_NAMES: usize = 96;
/// Longest first line, in bytes, without its code.
const LONGEST_LINE: usize = 240;
