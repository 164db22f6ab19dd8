//! Changes of objects that stand in the cluster already: smaller fractions, other nodes. What [`crate::plan`] puts together.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use json_patch::PatchOperation;

use super::made::Made;
use super::survey::Survey;
use super::workload::places_for;
use super::{Prepared, Question, fixes};
use crate::demand::{Amount, Demand, Part};
use crate::finding::Fix;
use crate::ledger::{Ledger, constraints};
use crate::units::{Fraction, Share};

/// An object with its fractions brought down.
pub(crate) struct Lowered {
    /// As it would be.
    pub(crate) prepared: Prepared,
    /// What is written for that.
    pub(crate) patch: Vec<PatchOperation>,
}

/// Nodes with a number of pods.
pub(crate) type Places = Vec<(Arc<str>, u32)>;

/// An object on other nodes.
pub(crate) struct Moved {
    /// As it would be.
    pub(crate) prepared: Prepared,
    /// What is written for that, and in words.
    pub(crate) fix: Fix,
    /// Nodes with the number of its pods there.
    pub(crate) places: Places,
}

/// What an object takes, all of its templates.
pub(crate) fn demands(prepared: &Prepared) -> Vec<&Arc<Demand>> {
    let sets = prepared.sets.iter();
    let of_sets: Vec<&Arc<Demand>> = sets.filter_map(|set| set.demand.as_ref().ok()).collect();
    if prepared.sets.is_empty() {
        prepared.demand.as_ref().ok().into_iter().collect()
    } else {
        of_sets
    }
}

/// The largest fraction of an object that a change of it could lower; `None` where there is none.
pub(crate) fn largest_fraction(prepared: &Prepared) -> Option<Share> {
    let parts = demands(prepared)
        .into_iter()
        .flat_map(|demand| &demand.claims)
        .flat_map(|claim| &claim.parts);
    let fraction = |part: &Part| match &part.amount {
        Amount::OfTotal { fraction, .. } if part.edit.is_some() => Some(fraction.share()),
        _ => None,
    };
    parts.filter_map(fraction).max()
}

/// The least fraction with which its models may fit on some node that it may go to.
pub(crate) fn least_fraction(prepared: &Prepared, ledger: &Ledger) -> Share {
    let of = |set: &Prepared| -> Option<Share> {
        let demand = set.demand.as_ref().ok()?;
        let pod = &set.question.workload.pod;
        let survey = Survey::of(
            ledger,
            demand,
            &constraints(pod),
            &set.question.namespace_labels,
            pod,
        );
        Some(fixes::least_fraction(demand, &survey))
    };
    let sets: Vec<&Prepared> = if prepared.sets.is_empty() {
        vec![prepared]
    } else {
        prepared.sets.iter().collect()
    };
    sets.into_iter().filter_map(of).max().unwrap_or(Share::ZERO)
}

/// The object with no fraction above `most`; `None` where nothing would be written, or where it cannot be.
pub(crate) fn lowered(prepared: &Prepared, most: &Fraction) -> Option<Lowered> {
    if prepared.sets.is_empty() {
        let demand = prepared.demand.as_ref().ok()?;
        let (demand, patch) = fixes::with_fraction(&prepared.question, demand, most)?;
        return Some(Lowered {
            prepared: Prepared {
                demand: Ok(demand),
                ..prepared.clone()
            },
            patch,
        });
    }
    let mut changed = prepared.clone();
    let mut patch = Vec::new();
    for set in &mut changed.sets {
        if let Some(one) = lowered(set, most) {
            *set = one.prepared;
            patch.extend(one.patch);
        }
    }
    (!patch.is_empty()).then_some(Lowered {
        prepared: changed,
        patch,
    })
}

/// A pod's demand with no fraction above `most`; as it is where nothing can be lowered.
pub(crate) fn lowered_demand(demand: &Arc<Demand>, most: &Fraction) -> Arc<Demand> {
    fixes::capped_demand(demand, most).unwrap_or_else(|| demand.clone())
}

/// Other nodes on which all pods of an object find a place; its own ones are out of the ledger. Nodes of `avoid` are those
/// that it is to leave.
pub(crate) fn another_place(
    prepared: &Prepared,
    ledger: &Ledger,
    avoid: &BTreeSet<Arc<str>>,
) -> Option<Moved> {
    let question = &prepared.question;
    let replicas = &question.workload.replicas;
    if !prepared.sets.is_empty() || replicas.per_node || question.workload.open().is_some() {
        return None;
    }
    let demand = prepared.demand.as_ref().ok()?;
    let found: RefCell<Option<(Question, Places)>> = RefCell::default();
    let takes = |changed: &Question| {
        let made = Made::of(changed, demand, ledger);
        let pod = &made.question().workload.pod;
        let spec = constraints(pod);
        let survey = Survey::of(ledger, made.demand(), &spec, &changed.namespace_labels, pod);
        if fixes::refused(made.demand(), &survey) || survey.doubts_fit() {
            return false;
        }
        let places = places_for(&survey.ask(spec.clone()), ledger, &spec, replicas.desired.max(1));
        let Some(places) = places.filter(|places| places.iter().all(|(node, _)| !avoid.contains(node)))
        else {
            return false;
        };
        found.replace(Some((changed.clone(), places)));
        true
    };
    let fix = fixes::any_pool(question, demand, ledger, avoid, &takes)?;
    let (question, places) = found.into_inner()?;
    Some(Moved {
        prepared: Prepared {
            question,
            ..prepared.clone()
        },
        fix,
        places,
    })
}
