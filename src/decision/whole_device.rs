//! What others hold on the device that an engine would start on, for engines whose fraction counts it (VG208).

use std::sync::Arc;

use super::budget::{self, Own};
use super::survey::Survey;
use crate::demand::weigh::whole_device;
use crate::demand::{Claim, Demand, Standing};
use crate::device::Pool;
use crate::finding::{Code, FieldPath, Finding};
use crate::ledger::Ledger;
use crate::ledger::devices::{DeviceView, HolderView};
use crate::ledger::room::may_meet;
use crate::units::Mib;

/// What is known of the nodes that the pods would stand on.
pub(super) struct Beside<'a> {
    survey: &'a Survey<'a>,
    ledger: &'a Ledger,
    own: &'a Own,
    template: &'a FieldPath,
}

impl<'a> Beside<'a> {
    /// `own` are pods that are not counted; `template` is where the pod lies in the object.
    pub(super) fn of(
        survey: &'a Survey<'a>,
        ledger: &'a Ledger,
        own: &'a Own,
        template: &'a FieldPath,
    ) -> Self {
        Self {
            survey,
            ledger,
            own,
            template,
        }
    }

    /// Puts the numbers of the fullest of `places` (nodes with so many of the pods) into the findings that the demand has
    /// in any case. Where nobody else is there, they stay as they are.
    pub(super) fn tell(&self, demand: &Demand, places: &[(Arc<str>, u32)], findings: &mut Vec<Finding>) {
        if !findings.iter().any(|finding| finding.code == Code::Vg208) {
            return;
        }
        for claim in &demand.claims {
            let Some((node, pool, others)) = self.fullest(claim, places) else {
                continue;
            };
            for (part, fraction) in whole_device::engines(claim, pool) {
                let path = self.template.field(part.path.as_str());
                let is_told = |finding: &Finding| finding.code == Code::Vg208 && finding.path == path;
                let Some(usual) = findings.iter().find(|finding| is_told(finding)) else {
                    continue;
                };
                let told = whole_device::beside(usual, (claim, part, fraction), (node, pool), others);
                if let Some(told) = told {
                    findings.retain(|finding| !is_told(finding));
                    findings.push(Finding { path, ..told });
                }
            }
        }
    }

    /// The node on which most may be held beside the claim, its pool, and how much that is.
    fn fullest<'p>(
        &'p self,
        claim: &Claim,
        places: &'p [(Arc<str>, u32)],
    ) -> Option<(&'p str, &'p Pool, Mib)> {
        let mut fullest: Option<(&str, &Pool, Mib)> = None;
        for (node, pods) in places {
            let Some(entry) = self.ledger.nodes.get(node) else {
                continue;
            };
            let kinds = &self.survey.accepting;
            let Some(kind) = kinds.iter().find(|kind| kind.index == entry.class) else {
                continue;
            };
            let views = self.ledger.devices_of(node);
            let pools = entry.node.pools.iter().zip(&kind.weighed.standings).zip(&views);
            for ((pool, standing), view) in pools {
                if pool.resource != claim.resource || !pool.sharing.is_shared() {
                    continue;
                }
                let held = self.held(claim, pool, &standing.times(*pods), view);
                if held > fullest.map_or(Mib::ZERO, |(_, _, most)| most) {
                    fullest = Some((node, pool, held));
                }
            }
        }
        fullest
    }

    /// The most that may be held on one device beside one rank of the claim, overheads included.
    fn held(&self, claim: &Claim, pool: &Pool, standing: &Standing, view: &DeviceView) -> Mib {
        let itself = standing
            .holds
            .iter()
            .position(|hold| hold.container == claim.container && hold.rank == 0);
        let with_it = standing.holds.iter().enumerate();
        let mut held: Vec<Mib> = with_it
            .filter(|(index, _)| Some(*index) != itself)
            .map(|(_, hold)| hold.request.plus(hold.overhead))
            .collect();
        let (others, _) = budget::others(view, pool, self.own);
        let takes = |holder: &HolderView| holder.request.plus(holder.overhead);
        let (everywhere, on_one): (Vec<&HolderView>, Vec<&HolderView>) =
            others.iter().partition(|holder| holder.everywhere);
        held.extend(on_one.into_iter().map(takes));
        held.sort_unstable_by(|a, b| b.cmp(a));
        let meeting = held.into_iter().take(may_meet(pool).saturating_sub(1));
        meeting.chain(everywhere.into_iter().map(takes)).sum()
    }
}
