//! VG301 with the slices of the cluster that hold the model.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{Candidate, Survey};
use crate::demand::weigh::{Rules, fit};
use crate::demand::{Claim, Demand};
use crate::device::DeviceKind;
use crate::finding::{Code, Finding};
use crate::footprint::Answer;
use crate::units::Mib;

impl Survey<'_> {
    /// The findings of a kind of node. Where a model does not fit its slice, the text says which slices of the cluster
    /// hold it; to weigh a demand on one kind does not tell what the others offer.
    pub(super) fn findings_of<'k>(&self, kind: &'k Candidate<'_>, demand: &Demand) -> Cow<'k, [Finding]> {
        let findings = &kind.weighed.findings;
        if !findings.iter().any(|finding| finding.code == Code::Vg301) {
            return Cow::Borrowed(findings);
        }
        let rules = Rules {
            pod: &kind.policy,
            device: &kind.class.device_policy.device,
            namespace: "",
        };
        let mut anew = kind.class.pools.iter().flat_map(|pool| {
            let claims = demand
                .claims
                .iter()
                .filter(|claim| claim.resource == pool.resource);
            claims.flat_map(|claim| fit::findings(claim, pool, rules, Some(&self.slices_that_hold(claim))).0)
        });
        let told = findings.iter().map(|finding| match finding.code {
            Code::Vg301 => anew
                .by_ref()
                .find(|other| other.code == Code::Vg301)
                .unwrap_or_else(|| finding.clone()),
            _ => finding.clone(),
        });
        Cow::Owned(told.collect())
    }

    /// The MIG profiles that some node offers and that surely hold what a container loads, the smallest first.
    fn slices_that_hold(&self, claim: &Claim) -> Vec<String> {
        let mut holding: BTreeSet<(Mib, String)> = BTreeSet::new();
        // Kinds of nodes are many, slices of one size few.
        let mut looked_at = BTreeSet::new();
        for (_, class) in self.ledger.nodes.classes() {
            for pool in &class.pools {
                let (DeviceKind::Mig(profile), Some(total)) = (&pool.device, pool.total) else {
                    continue;
                };
                if !looked_at.insert((profile, total)) {
                    continue;
                }
                let there = fit::judge(claim, pool);
                if !there.is_empty() && there.iter().all(|judged| judged.answer == Answer::Fits) {
                    holding.insert((total, profile.to_string()));
                }
            }
        }
        let mut names: Vec<String> = Vec::new();
        for (_, name) in holding {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}
