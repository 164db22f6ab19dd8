//! What others hold on the device that an engine would start on, for engines whose fraction counts it (VG208).

use std::sync::Arc;

use super::budget::{self, Own};
use super::survey::Survey;
use crate::demand::weigh::whole_device;
use crate::demand::{Claim, Demand, Standing};
use crate::device::Pool;
use crate::finding::{Code, Finding};
use crate::ledger::Ledger;
use crate::ledger::devices::{DeviceView, Meets};
use crate::units::Mib;
use crate::workload::Workload;

/// What is known of the nodes that the pods would stand on.
pub(super) struct Beside<'a> {
    survey: &'a Survey<'a>,
    ledger: &'a Ledger,
    own: &'a Own,
    workload: &'a Workload,
}

impl<'a> Beside<'a> {
    /// `own` are pods that are not counted; `workload` knows where the pod's fields lie in the object.
    pub(super) fn of(
        survey: &'a Survey<'a>,
        ledger: &'a Ledger,
        own: &'a Own,
        workload: &'a Workload,
    ) -> Self {
        Self {
            survey,
            ledger,
            own,
            workload,
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
                let path = self.workload.located(&part.path);
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
                let held = self.held(claim, &standing.times(*pods), view);
                if held > fullest.map_or(Mib::ZERO, |(_, _, most)| most) {
                    fullest = Some((node, pool, held));
                }
            }
        }
        fullest
    }

    /// The most that may be held on one device beside one rank of the claim, overheads included.
    fn held(&self, claim: &Claim, standing: &Standing, view: &DeviceView) -> Mib {
        let itself = standing
            .holds
            .iter()
            .position(|hold| hold.container == claim.container && hold.rank == 0);
        let meets = |weight: Mib, devices, everywhere| Meets {
            weight: weight.get(),
            amount: weight,
            devices,
            everywhere,
        };
        let with_it = standing.holds.iter().enumerate();
        let with_it = with_it
            .filter(|(index, _)| Some(*index) != itself)
            .map(|(_, hold)| meets(hold.request.plus(hold.overhead), &[], false));
        let reaching = standing.everywhere.iter();
        let reaching = reaching.map(|hold| meets(hold.request.plus(hold.overhead), &[], true));
        let (others, _) = budget::others(view, self.own);
        let others = others.iter().map(|holder| {
            let held = holder.request.plus(holder.overhead);
            meets(held, &holder.devices, holder.everywhere)
        });
        view.meeting(with_it.chain(reaching).chain(others).collect(), 1)
    }
}
