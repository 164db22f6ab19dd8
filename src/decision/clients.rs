//! Clients of MPS beside each other, and variables that bound none of them: what the kinds of nodes that take a pod, or
//! the node that it would stand on, say together (VG404, VG406).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::Question;
use super::budget::Own;
use super::fixes::operation;
use super::survey::{Candidate, Survey};
use crate::demand::client::{Setting, shows_none};
use crate::demand::weigh::{mps, under};
use crate::demand::{Claim, Demand};
use crate::device::{Pool, Sharing};
use crate::engine;
use crate::engine::limits::{PINNED_LIMIT, Place, THREAD_PERCENTAGE, VISIBLE_DEVICES};
use crate::finding::{Code, FieldPath, Finding, Fix, Number, short, shortened};
use crate::ledger::{Holder, Ledger};
use crate::policy::{Messages, Policy};

/// Longest value of a variable that a sentence carries, in characters.
const LONGEST_VALUE: usize = 24;
/// Holders of one node that are looked at: more than the clients of any device.
const MOST_LOOKED_AT: usize = 1_024;

/// VG406: variables that have no effect on any kind of node that takes the pod. Ours are not told of.
pub(super) fn without_effect(demand: &Demand, accepting: &[Candidate<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(policy) = accepting.first().map(|kind| &kind.policy) else {
        return findings;
    };
    for claim in demand.claims.iter().filter(|claim| !claim.parts.is_empty()) {
        let pools: Vec<&Pool> = accepting.iter().filter_map(|kind| asked(kind, claim)).collect();
        let clients: Vec<&Pool> = pools
            .iter()
            .copied()
            .filter(|pool| matches!(pool.sharing, Sharing::Mps(_)))
            .collect();
        let told = [
            limit(claim, &clients),
            percentage(claim, &clients),
            visible(claim, &clients),
        ];
        findings.extend(told.into_iter().flatten().map(|finding| under(policy, finding)));
    }
    findings
}

fn asked<'k>(kind: &'k Candidate<'_>, claim: &Claim) -> Option<&'k Pool> {
    kind.class.pools.get(kind.class.pool_index(&claim.resource)?)
}

fn at<T>(claim: &Claim, setting: &Setting<T>) -> FieldPath {
    match setting.place {
        Place::Env(index) => claim.path.field("env").index(index),
        Place::EnvFrom(index) => claim.path.field("envFrom").index(index),
        Place::Script => claim.path.clone(),
    }
}

/// Of a container with a variable, one sentence.
fn told<T>(claim: &Claim, name: &str, setting: &Setting<T>, sentence: &str) -> Finding {
    let message = format!("{name} of container {} {sentence}", short(&claim.container));
    Finding::new(Code::Vg406, at(claim, setting), message)
}

fn without_mps<T>(claim: &Claim, name: &str, setting: &Setting<T>) -> Finding {
    let sentence = format!(
        "has no effect: no node that takes it shares {} by MPS; take it out, unless the pod starts a daemon of its own",
        claim.resource
    );
    told(claim, name, setting, &sentence)
}

fn unreadable<T>(claim: &Claim, name: &str, setting: &Setting<T>, form: &str) -> Option<Finding> {
    let text = setting.text.as_deref().ok().filter(|_| setting.value.is_none())?;
    let sentence = format!(
        "is {:?}, which has no effect: {form}",
        shortened(text, LONGEST_VALUE)
    );
    Some(told(claim, name, setting, &sentence))
}

fn limit(claim: &Claim, clients: &[&Pool]) -> Option<Finding> {
    let setting = claim.client.limit().filter(|setting| !setting.ours)?;
    if clients.is_empty() {
        return Some(without_mps(claim, PINNED_LIMIT, setting));
    }
    let form = "write DEVICE=NUMBER with M or G for each device, as in 0=16952M";
    let Some(value) = &setting.value else {
        return unreadable(claim, PINNED_LIMIT, setting, form);
    };
    if value.misses(claim.slots) {
        let sentence = format!(
            "has no effect: it names no device that the container sees, which are numbered from 0 ({} of {})",
            claim.slots, claim.resource
        );
        return Some(told(claim, PINNED_LIMIT, setting, &sentence));
    }
    let own = value.first()?;
    let daemons = clients.iter().map(|pool| mps::daemon_limit(pool));
    let highest = daemons.max().flatten()?;
    let is_known = clients.iter().all(|pool| pool.total.is_some());
    (is_known && own > highest).then(|| {
        let sentence = format!(
            "allows {own} and has no effect: the MPS daemon lets each client of {} have {highest}, and the smaller counts",
            claim.resource
        );
        told(claim, PINNED_LIMIT, setting, &sentence)
            .number("limitMiB", Number::Memory(own))
            .number("clientLimitMiB", Number::Memory(highest))
    })
}

fn percentage(claim: &Claim, clients: &[&Pool]) -> Option<Finding> {
    let setting = claim.client.percentage().filter(|setting| !setting.ours)?;
    if clients.is_empty() {
        return Some(without_mps(claim, THREAD_PERCENTAGE, setting));
    }
    let Some(own) = setting.value else {
        return unreadable(claim, THREAD_PERCENTAGE, setting, "write a number from 1 to 100");
    };
    let highest = clients
        .iter()
        .filter_map(|pool| mps::daemon_percentage(pool))
        .max()?;
    (own > highest).then(|| {
        let sentence = format!(
            "is {} and has no effect: the MPS daemon gives each client of {} {} percent of the threads, and the smaller \
             counts",
            setting.text.as_deref().map_or("unknown", str::trim),
            claim.resource,
            highest.ppm() / 10_000
        );
        told(claim, THREAD_PERCENTAGE, setting, &sentence)
    })
}

fn visible(claim: &Claim, clients: &[&Pool]) -> Option<Finding> {
    let setting = claim.client.visible().filter(|_| !clients.is_empty())?;
    let text = setting.text.as_deref().ok()?;
    shows_none(text, claim.slots).then(|| {
        let sentence = format!(
            "is {:?}, which shows CUDA no device: clients of MPS see theirs numbered from 0 ({} of {}); take it out",
            shortened(text, LONGEST_VALUE),
            claim.slots,
            claim.resource
        );
        told(claim, VISIBLE_DEVICES, setting, &sentence)
    })
}

/// What is asked about the users of a node's clients.
pub(super) struct Users<'a> {
    pub(super) survey: &'a Survey<'a>,
    pub(super) ledger: &'a Ledger,
    /// Pods that the judged object replaces or owns.
    pub(super) own: &'a Own,
    /// Of the object whose pods they stand beside.
    pub(super) question: &'a Question,
    pub(super) messages: &'a Messages,
}

/// A container beside another user.
struct Differing<'d> {
    claim: &'d Claim,
    user: i64,
    other: i64,
    /// The other's name, as far as it may be told.
    whose: String,
}

impl Users<'_> {
    /// VG404: containers that run as another user than another client that may stand on the same device of `places`. The
    /// first of them for each container; users that only an image tells are not known. One user for all is proposed where
    /// that ends it.
    pub(super) fn findings(&self, demand: &Demand, places: &[Arc<str>], policy: &Policy) -> Vec<Finding> {
        let differing = self.differing(demand, places);
        let one_user = self.one_user(demand, &differing, places);
        let told = differing.into_iter().map(|Differing { claim, user, other, whose }| {
            let message = format!(
                "container {} runs as user {user} and {whose} as user {other} on {}: one MPS server serves one user at a \
                 time, so each waits until the other has none; run both as one user",
                short(&claim.container),
                claim.resource
            );
            let path = claim.path.field("securityContext").field("runAsUser");
            under(policy, Finding::new(Code::Vg404, path, message))
        });
        let mut findings: Vec<Finding> = told.collect();
        if let Some(first) = findings.first_mut() {
            first.fixes.extend(one_user);
        }
        findings
    }

    /// Containers with another user beside them, each with the first of those.
    fn differing<'d>(&self, demand: &'d Demand, places: &[Arc<str>]) -> Vec<Differing<'d>> {
        let mut found: Vec<Differing<'d>> = Vec::new();
        for claim in &demand.claims {
            let Some(user) = claim.client.user.filter(|_| !claim.parts.is_empty()) else {
                continue;
            };
            if found.iter().any(|known| known.claim.pointer == claim.pointer) {
                continue;
            }
            let other = places
                .iter()
                .find_map(|node| self.other(demand, claim, user, node));
            if let Some((other, whose)) = other {
                found.push(Differing {
                    claim,
                    user,
                    other,
                    whose,
                });
            }
        }
        found
    }

    /// The user of a client beside it for every container that has another, where then none differs. Root is proposed to
    /// nobody: what forbids it is not known here.
    fn one_user(&self, demand: &Demand, differing: &[Differing<'_>], places: &[Arc<str>]) -> Option<Fix> {
        let workload = &self.question.workload;
        // What others add to the pods could make a change useless.
        if workload.open().is_some() {
            return None;
        }
        let as_user = |user: i64| {
            let mut changed = demand.clone();
            for claim in &mut changed.claims {
                if differing
                    .iter()
                    .any(|differing| differing.claim.pointer == claim.pointer)
                {
                    claim.client.user = Some(user);
                }
            }
            changed
        };
        let others = |differing: &[Differing<'_>]| -> BTreeSet<i64> {
            differing.iter().map(|differing| differing.other).collect()
        };
        let mut candidates = others(differing);
        // Beside each other in one pod they hide who stands beside them: as one user they would meet him.
        if let Some(&one) = candidates.first() {
            candidates.extend(others(&self.differing(&as_user(one), places)));
        }
        let user = candidates
            .into_iter()
            .find(|&user| user > 0 && self.differing(&as_user(user), places).is_empty())?;
        let mut patch = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        for Differing { claim, .. } in differing.iter().filter(|differing| differing.user != user) {
            let container = engine::containers(&workload.pod)
                .find(|placed| placed.pointer() == claim.pointer)?
                .container;
            let context = format!("{}/securityContext", claim.pointer);
            patch.push(if container.security_context.is_some() {
                let pointer = workload.pointer(&format!("{context}/runAsUser"))?;
                operation("add", &pointer, &json!(user))?
            } else {
                let pointer = workload.pointer(&context)?;
                operation("add", &pointer, &json!({"runAsUser": user}))?
            });
            names.push(&claim.container);
        }
        (!patch.is_empty()).then(|| Fix {
            title: format!("run container {} as user {user}", names.join(", ")),
            patch,
        })
    }

    /// Another user on the devices of a node, and whose.
    fn other(&self, demand: &Demand, claim: &Claim, user: i64, node: &Arc<str>) -> Option<(i64, String)> {
        let entry = self.ledger.nodes.get(node)?;
        let pool = entry.node.pool(&claim.resource)?;
        let accepts = self.survey.accepting.iter().any(|kind| kind.index == entry.class);
        if !accepts || !matches!(pool.sharing, Sharing::Mps(_)) {
            return None;
        }
        let differs = |other: &Claim| {
            let theirs = other.client.user.filter(|theirs| *theirs != user);
            theirs.filter(|_| other.resource == claim.resource && !other.parts.is_empty())
        };
        let beside = demand
            .claims
            .iter()
            .find_map(|other| Some((differs(other)?, other)));
        if let Some((theirs, other)) = beside {
            return Some((theirs, format!("container {}", short(&other.container))));
        }
        let holders = entry.accounted.iter().take(MOST_LOOKED_AT);
        holders
            .filter_map(|uid| self.ledger.holder(uid))
            .filter(|holder| {
                !self
                    .own
                    .contains(&(holder.namespace.clone(), holder.name.clone()))
            })
            .find_map(|holder| {
                let theirs = holder.demand.claims.iter().find_map(differs)?;
                Some((theirs, self.whose(holder)))
            })
    }

    fn whose(&self, holder: &Holder) -> String {
        if *holder.namespace == *self.question.workload.object.namespace || self.messages.other_namespaces {
            format!("pod {}", short(&holder.name))
        } else {
            "a pod of another namespace".to_owned()
        }
    }
}
