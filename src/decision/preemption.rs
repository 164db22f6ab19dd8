//! A pod for which every device is full, and which kube-scheduler makes room for: it ends pods of a lower priority.
//!
//! Only where the scheduler counts memory itself: it ends those whose going frees what the pod carries. As it does, all of a
//! lower priority are thought away, and then put back where there is room, the most important first
//! (`pkg/scheduler/framework/plugins/defaultpreemption` of Kubernetes). Disruption budgets are not looked at.

use std::cmp::Reverse;
use std::sync::Arc;

use super::budget::Own;
use super::survey::{Candidate, Survey};
use super::{Operation, Question, counted};
use crate::demand::Demand;
use crate::finding::{Code, FieldPath, Finding, Number, Severity, short};
use crate::ledger::search::Overlay;
use crate::ledger::{Holder, Ledger, constraints};
use crate::placement::candidates::{Fit, node_matches};
use crate::workload::pod::PodSpec;

/// Nodes that are tried; a cluster with more names the best of these.
const MOST_TRIED: usize = 512;
/// Pods that are named in the sentence.
const MOST_NAMED: usize = 2;
/// Pods that are listed below it.
const MOST_LISTED: usize = 8;

/// Who has to go from a node.
struct Victims<'l> {
    node: Arc<str>,
    /// The most important first.
    pods: Vec<&'l Holder>,
}

impl Victims<'_> {
    /// What makes one choice worse than another: whom it costs, and how many.
    fn cost(&self) -> (Option<i32>, usize) {
        (self.pods.first().map(|pod| pod.priority), self.pods.len())
    }
}

/// The remark that takes the place of the refusal; `None` where no pod of a lower priority makes room.
pub(super) fn of(
    question: &Question,
    demand: &Demand,
    survey: &Survey<'_>,
    ledger: &Ledger,
    overlay: &Overlay<'_>,
    own: &Own,
) -> Option<Finding> {
    let pod = &question.workload.pod;
    let never = pod.spec.preemption_policy.as_deref() == Some("Never");
    if question.operation != Operation::Create || never || !counted::is_live(survey, ledger) {
        return None;
    }
    let priority = pod.spec.priority?;
    let spec = constraints(pod);
    let kinds = survey.accepting.iter().filter(|kind| kind.weighed.shared);
    let nodes = kinds.flat_map(|kind| kind.class.members.iter().map(move |node| (kind, node)));
    let choices = nodes
        .take(MOST_TRIED)
        .filter_map(|(kind, node)| on_node(kind, node, (priority, &spec), (ledger, overlay, own)));
    let best = choices.min_by_key(|victims| (victims.cost(), victims.node.clone()))?;
    Some(told(question, demand, survey, &best))
}

/// The cluster without the pods that those of a template could have ended, where the scheduler counts them all; `None` where
/// they can end none. A class whose number is not known may be above any.
pub(super) fn without_lower<'l>(
    question: &Question,
    survey: &Survey<'_>,
    ledger: &'l Ledger,
    overlay: &Overlay<'l>,
    own: &Own,
) -> Option<Overlay<'l>> {
    let spec = &question.workload.pod.spec;
    let (priority, preemption_policy) = ledger.priorities().of(spec);
    let never = preemption_policy == Some("Never");
    let is_named = spec
        .priority_class_name
        .as_deref()
        .is_some_and(|name| !name.is_empty());
    if never || !(is_named || priority.is_some()) || !counted::is_live(survey, ledger) {
        return None;
    }
    let is_lower = |holder: &Holder| priority.is_none_or(|priority| holder.priority < priority);
    let kinds = survey.accepting.iter().filter(|kind| kind.weighed.shared);
    let nodes = kinds.flat_map(|kind| &kind.class.members).take(MOST_TRIED);
    let mut without = overlay.clone();
    let mut any = false;
    for entry in nodes.filter_map(|node| ledger.nodes.get(node)) {
        for holder in entry.accounted.iter().filter_map(|uid| ledger.holder(uid)) {
            if is_lower(holder) && may_go(holder, own, ledger) {
                without.without(holder);
                any = true;
            }
        }
    }
    any.then_some(without)
}

/// Whether a pod of a lower priority makes room by going. Who waits for its node has no device yet, and goes behind; who
/// carries nothing frees nothing that the scheduler counts, but where nodes are only taken as advertising so are pods.
fn may_go(holder: &Holder, own: &Own, ledger: &Ledger) -> bool {
    let is_own = own.contains(&(holder.namespace.clone(), holder.name.clone()));
    let is_counted = ledger.assumes_advertised() || !holder.demand.carried.is_empty();
    !is_own && (holder.node.is_none() || is_counted)
}

fn on_node<'l>(
    kind: &Candidate<'_>,
    node: &Arc<str>,
    (priority, spec): (i32, &PodSpec),
    (ledger, overlay, own): (&'l Ledger, &Overlay<'_>, &Own),
) -> Option<Victims<'l>> {
    let entry = ledger.nodes.get(node).filter(|entry| entry.class == kind.index)?;
    if !matches!(node_matches(spec, &entry.node), Fit::Now) {
        return None;
    }
    let standings = &kind.weighed.standings;
    let goes = |holder: &&Holder| holder.priority < priority && may_go(holder, own, ledger);
    let accounted = entry.accounted.iter().filter_map(|uid| ledger.holder(uid));
    let mut lower: Vec<&Holder> = accounted.filter(goes).collect();
    lower.sort_by_key(|holder| (Reverse(holder.priority), holder.order));
    let mut without = overlay.clone();
    for holder in &lower {
        without.without(holder);
    }
    if !without.fits(node, entry, standings).all() {
        return None;
    }
    let mut pods = Vec::new();
    for holder in lower {
        without.add(node, &holder.standings);
        if !without.fits(node, entry, standings).all() {
            without.remove(node, &holder.standings);
            pods.push(holder);
        }
    }
    Some(Victims {
        node: node.clone(),
        pods,
    })
}

fn told(question: &Question, demand: &Demand, survey: &Survey<'_>, victims: &Victims<'_>) -> Finding {
    let messages = &survey.policy().messages;
    let namespace = &question.workload.object.namespace;
    let named: Vec<String> = victims
        .pods
        .iter()
        .filter_map(|pod| {
            if *pod.namespace == **namespace {
                Some(short(&pod.name))
            } else {
                messages
                    .other_namespaces
                    .then(|| format!("{}/{}", short(&pod.namespace), short(&pod.name)))
            }
        })
        .collect();
    let others = victims.pods.len() - named.len().min(MOST_NAMED);
    let first = named
        .iter()
        .take(MOST_NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let who = match (first.is_empty(), others) {
        (true, 1) => "1 pod of another namespace".to_owned(),
        (true, _) => format!("{others} pods of other namespaces"),
        (false, 0) => first,
        (false, _) => format!("{first} and {others} more"),
    };
    let path = demand
        .claims
        .first()
        .map_or_else(FieldPath::default, |claim| claim.slots_path.clone());
    let mut finding = Finding::new(
        Code::Vg201,
        path,
        format!(
            "no room now; of lower priority and to be preempted: {who} on {}; the pod waits until kube-scheduler has \
             done so",
            short(&victims.node)
        ),
    )
    .number("node", Number::Text(victims.node.to_string()))
    .number(
        "preempted",
        Number::Count(u64::try_from(victims.pods.len()).unwrap_or(u64::MAX)),
    )
    .with_severity(Severity::Warning);
    for name in named.iter().take(MOST_LISTED) {
        finding = finding.detail(format!("of lower priority: {name}"));
    }
    finding.detail("kube-scheduler chooses the node and the pods; disruption budgets may lead it to others")
}
