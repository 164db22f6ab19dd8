//! What a pod is to carry of the resource by which kube-scheduler counts memory, and what becomes of one that carries
//! something else.

use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::PatchOperation;
use serde_json::json;

use super::Question;
use super::fixes::operation;
use super::survey::{Candidate, Survey};
use crate::counted::{self, Carried, RESOURCE};
use crate::demand::Demand;
use crate::demand::weigh::under;
use crate::engine::{self, Placed};
use crate::finding::{Code, Finding, Fix, Number, Severity, short};
use crate::ledger::Ledger;
use crate::policy::{Enforcement, Policy};
use crate::units::Share;
use crate::workload::pod::{Container, Pod, QuantityText};

/// Whether kube-scheduler counts a pod's memory: every node that takes it is under a policy that says so, and one of them
/// advertises already. Until one does, a pod that carried the resource would wait for nobody knows what; a pod that
/// carries none is taken off what its node advertises.
pub(super) fn is_live(survey: &Survey<'_>, ledger: &Ledger) -> bool {
    let kinds = survey.countable();
    !kinds.is_empty()
        && kinds.iter().all(|kind| kind.policy.counts())
        && kinds
            .iter()
            .flat_map(|kind| &kind.names)
            .any(|node| ledger.advertises(node))
}

/// Whether any node that could take the demand may be counted by the scheduler; looks at no place.
pub(super) fn is_possible(question: &Question, pod: &Pod, demand: &Demand, ledger: &Ledger) -> bool {
    let policies = ledger.policies();
    ledger.nodes.classes().any(|(_, class)| {
        let offers = demand
            .resources()
            .all(|resource| class.pool_index(resource).is_some());
        let labels = &pod.metadata.labels;
        offers
            && policies
                .for_pod(&question.namespace_labels, labels, Some(&class.labels))
                .counts()
    })
}

/// What each container that asks for slots is to carry; `None` where that is left open: kube-scheduler does not count the
/// pod, or is not to hold it up (agents).
pub(super) fn wanted(demand: &Demand, survey: &Survey<'_>, ledger: &Ledger) -> Option<Vec<Carried>> {
    if demand.only_agents || !is_live(survey, ledger) {
        return None;
    }
    let mut wanted: Vec<Carried> = Vec::new();
    for (index, claim) in demand
        .claims
        .iter()
        .enumerate()
        .filter(|(_, claim)| claim.slots > 0)
    {
        let taken = |kind: &Candidate<'_>| kind.weighed.taken.get(index).copied();
        let share = counted::share(survey.countable().iter().filter_map(taken));
        // The claims of a container stand together.
        match wanted.last_mut().filter(|one| one.pointer == claim.pointer) {
            Some(one) => one.share = one.share.map(|before| before.plus(share)),
            None => wanted.push(Carried {
                container: claim.container.clone(),
                role: claim.role,
                path: claim.path.clone(),
                pointer: claim.pointer.clone(),
                share: Some(share),
            }),
        }
    }
    wanted.retain(|one| one.share != Some(Share::ZERO));
    Some(wanted)
}

/// The operations that make the containers of a pod carry what is wanted, and nothing else.
pub(super) fn operations(pod: &Pod, wanted: &[Carried]) -> Vec<PatchOperation> {
    let wanted = by_pointer(wanted);
    let set = |placed: Placed<'_>| {
        let pointer = placed.pointer();
        let share = wanted.get(pointer.as_str()).and_then(|one| one.share);
        of_container(placed.container, &pointer, share)
    };
    engine::containers(pod).flat_map(set).collect()
}

fn by_pointer(list: &[Carried]) -> BTreeMap<&str, &Carried> {
    list.iter().map(|one| (one.pointer.as_str(), one)).collect()
}

fn of_container(container: &Container, pointer: &str, share: Option<Share>) -> Vec<PatchOperation> {
    let resources = &container.resources;
    let key = RESOURCE.replace('~', "~0").replace('/', "~1");
    let lists = [("limits", &resources.limits), ("requests", &resources.requests)];
    let one = |(list, amounts): (&str, &BTreeMap<String, QuantityText>)| {
        let at = format!("{pointer}/resources/{list}");
        let now = amounts.get(RESOURCE);
        let Some(share) = share else {
            now?;
            return serde_json::from_value(json!({"op": "remove", "path": format!("{at}/{key}")})).ok();
        };
        if now.is_some_and(|text| counted::read(&text.0) == Some(share)) {
            return None;
        }
        let text = json!(share.ppm().to_string());
        if amounts.is_empty() {
            operation("add", &at, &json!({ RESOURCE: text }))
        } else {
            operation("add", &format!("{at}/{key}"), &text)
        }
    };
    lists.into_iter().filter_map(one).collect()
}

/// The refusal of a pod that does not carry its share. Mutation sets it, so this is told where mutation was bypassed, or
/// where the nodes changed between its call and ours.
pub(super) fn mismatch(demand: &Demand, survey: &Survey<'_>, ledger: &Ledger) -> Option<Finding> {
    let wanted = wanted(demand, survey, ledger)?;
    let policy = survey.policy();
    let (should_carry, does_carry) = (by_pointer(&wanted), by_pointer(&demand.carried));
    let mut all = wanted.iter().chain(&demand.carried);
    let wrong = all.find(|one| {
        let (should, does) = (should_carry.get(&*one.pointer), does_carry.get(&*one.pointer));
        match (should, does) {
            (Some(should), Some(does)) => should.share != does.share,
            (None, Some(does)) => does.share != Some(Share::ZERO),
            (Some(_), None) => true,
            (None, None) => false,
        }
    })?;
    let should = should_carry.get(&*wrong.pointer).and_then(|one| one.share);
    let does = does_carry.get(&*wrong.pointer).copied();
    Some(refusal(policy, wrong, should, does))
}

/// The refusal of a pod that asks for no slot and carries a share: it would keep others off a device.
pub(super) fn without_slots(question: &Question, demand: &Demand, policy: &Policy) -> Option<Finding> {
    let carried = demand.carried.iter().find(|one| one.share != Some(Share::ZERO))?;
    if !policy.counts() {
        return None;
    }
    Some(refusal(policy, carried, None, Some(carried)).fix(fix(question, &[])))
}

fn refusal(policy: &Policy, wrong: &Carried, should: Option<Share>, does: Option<&Carried>) -> Finding {
    let container = short(&wrong.container);
    let text = match (should, does.map(|does| does.share)) {
        (Some(should), None) => format!(
            "container {container} carries no {RESOURCE} and takes {}: the mutating call did not set it; submit the pod \
             again, or write the value",
            should.ppm()
        ),
        (Some(should), Some(Some(does))) => format!(
            "container {container} carries {} of {RESOURCE} and takes {}: leave it out, it is set when the pod is created",
            does.ppm(),
            should.ppm()
        ),
        (Some(should), Some(None)) => format!(
            "container {container} carries an amount of {RESOURCE} that is no whole number, and takes {}: leave it out, it \
             is set when the pod is created",
            should.ppm()
        ),
        (None, _) => format!(
            "container {container} carries {RESOURCE} and takes no part of a GPU that is counted so: leave it out"
        ),
    };
    let mut finding = Finding::new(
        Code::Vg214,
        wrong.path.field("resources").field("limits").key(RESOURCE),
        text,
    )
    .detail(
        "kube-scheduler counts GPU memory by this resource, so a pod that carries less than it takes lets others onto a \
         device that is full, and one that carries more keeps them off",
    );
    if let Some(should) = should {
        finding = finding.number("sharePpm", Number::Count(should.ppm()));
    }
    if let Some(does) = does.and_then(|does| does.share) {
        finding = finding.number("carriedPpm", Number::Count(does.ppm()));
    }
    under(policy, finding)
}

/// The change that makes a pod carry its share, where that is all that speaks against it.
pub(super) fn proposal(
    question: &Question,
    demand: &Demand,
    survey: &Survey<'_>,
    ledger: &Ledger,
    findings: &[Finding],
) -> Option<Fix> {
    let mut errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .peekable();
    errors.peek()?;
    if !errors.all(|finding| finding.code == Code::Vg214) {
        return None;
    }
    Some(fix(question, &wanted(demand, survey, ledger)?))
}

fn fix(question: &Question, wanted: &[Carried]) -> Fix {
    let title = match wanted {
        [] => format!("carry no {RESOURCE}"),
        [one] => format!("carry {} of {RESOURCE}", one.share.unwrap_or(Share::ZERO).ppm()),
        several => format!(
            "carry in {} containers what each takes of {RESOURCE}",
            several.len()
        ),
    };
    Fix {
        title,
        patch: operations(&question.workload.pod, wanted),
    }
}

/// A demand as its pod will carry it once mutation has set its share: what is tried as a proposal comes back through
/// mutation.
pub(super) fn renewed<'a>(
    demand: &Arc<Demand>,
    ledger: &'a Ledger,
    survey_of: &dyn Fn(&Demand) -> Survey<'a>,
) -> (Arc<Demand>, Survey<'a>) {
    let mut renewed = demand.clone();
    if !renewed.carried.is_empty() {
        Arc::make_mut(&mut renewed).carried.clear();
    }
    let survey = survey_of(&renewed);
    match wanted(&renewed, &survey, ledger) {
        Some(wanted) if !wanted.is_empty() => {
            Arc::make_mut(&mut renewed).carried = wanted;
            let survey = survey_of(&renewed);
            (renewed, survey)
        }
        _ => (renewed, survey),
    }
}

/// What an admission promises, in one sentence.
pub(super) fn promise(survey: &Survey<'_>, ledger: &Ledger) -> &'static str {
    match survey.policy().enforcement {
        Enforcement::Admission => {
            "enforcement admission: all admitted pods can be placed together; kube-scheduler is not bound to that \
             placement"
        }
        Enforcement::Binding | Enforcement::Gated => {
            "enforcement acts as admission in this release: all admitted pods can be placed together; kube-scheduler \
             is not bound to that placement"
        }
        Enforcement::Counted if !is_live(survey, ledger) => {
            "enforcement counted, not in effect for this pod: no node that could take it advertises vramgate.io/gpu-ppm, or \
             not every one is under a policy that enforces it; all admitted pods can be placed together, and kube-scheduler \
             is not bound to that placement"
        }
        Enforcement::Counted if is_exact(survey) => {
            "enforcement counted: kube-scheduler counts the share as well; exact, because each node that could take the pod \
             has one shared device"
        }
        Enforcement::Counted => {
            "enforcement counted: kube-scheduler counts the share as well, by the sum of each node: exact where a node has \
             one shared device and a bound elsewhere, where perSlot: fairShare makes every placement safe"
        }
    }
}

/// Whether each node that shares its devices with the pod has no other device: the sum of the node is then that of the
/// device.
fn is_exact(survey: &Survey<'_>) -> bool {
    let mut shared = survey.accepting.iter().filter(|kind| kind.weighed.shared);
    shared.all(|kind| matches!(kind.class.pools.as_slice(), [only] if only.devices == 1))
}
