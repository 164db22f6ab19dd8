//! The container toolkit's memory limit, by the policy's `spec.memoryLimit.toolkit`, for engines that nothing else bounds.
//!
//! Nodes whose driver is older do not read it; those refuse the pod, or another policy admits it there.

use super::environment::{Variable, Way};
use super::{Made, container_at};
use crate::decision::survey::Survey;
use crate::demand::Demand;
use crate::demand::client::Setting;
use crate::demand::weigh::toolkit;
use crate::engine::Role;
use crate::engine::limits::CONTAINER_LIMIT;
use crate::units::Mib;
use crate::workload::pod::Pod;

/// Sets the limit of every container that it can bound on some kind of node: one slot's part of the budget, of the kind
/// with least. Says whether the demand changed.
pub(super) fn set(made: &mut Made, submitted: &Demand, survey: &Survey<'_>, pod: &Pod) -> bool {
    let mut changed = false;
    for (claim, as_submitted) in made.demand.claims.iter_mut().zip(&submitted.claims) {
        if claim.role == Role::Ephemeral {
            continue;
        }
        let mut least: Option<Mib> = None;
        for kind in survey.accepting.iter().chain(&survey.refusing) {
            let pool = kind
                .class
                .pool_index(&claim.resource)
                .and_then(|index| kind.class.pools.get(index));
            let Some(pool) = pool.filter(|pool| toolkit::applies(claim, pool, &kind.policy)) else {
                continue;
            };
            let slot = toolkit::slot(pool, kind.class.device_policy.device.budget);
            least = least.into_iter().chain(slot).min();
        }
        let (Some(limit), Some(container)) = (least, container_at(pod, &claim.pointer)) else {
            continue;
        };
        let value = limit.get().to_string();
        let way = Way::of(as_submitted.client.container_limit(), &value, false);
        let place = way.place(container.env.len());
        match way {
            Way::Keep => continue,
            Way::IsThere(_) => {}
            Way::Set(at) => made.variables.push((
                claim.pointer.clone(),
                Variable {
                    name: CONTAINER_LIMIT,
                    value: value.clone(),
                    at,
                },
            )),
        }
        made.record.note(&claim.container, CONTAINER_LIMIT, &value);
        claim.client.set_container_limit(Setting {
            text: Ok(value),
            value: Some(limit),
            place,
            ours: true,
        });
        changed = true;
    }
    changed
}
