//! Nodes that an autoscaler can add, of the pools that `placement.growth` names: whether one of them would take a pod for
//! which every device is full now.
//!
//! Only where kube-scheduler counts the memory of each device can a pod wait for such a node: elsewhere it would be bound to a
//! node where a slot is free and memory is not. Of nodes with several devices it counts the sum alone.

use super::{Candidate, Survey};
use crate::decision::{Operation, Question, counted};
use crate::finding::{Code, Finding, Number, Severity, short};
use crate::ledger::Ledger;
use crate::placement::newcomer;
use crate::policy::{NodeView, Selector};
use crate::workload::WorkloadKind;
use crate::workload::pod::PodSpec;

/// Under which the pool stands among the numbers of a finding.
pub(in crate::decision) const POOL: &str = "growthPool";

/// Nodes of each kind that are looked at for an example of a pool.
const MOST_TRIED: usize = 512;

/// What the pools come to for a pod that finds no room.
pub(in crate::decision) enum Growth {
    /// There are none, or the pod cannot go to another node than it says.
    Nowhere,
    /// A node of this pool would take it.
    In {
        /// The pool in words.
        pool: String,
        /// Whether nodes of the pool are known.
        is_known: bool,
    },
    /// They are of no use to it, for this reason.
    Useless(String),
}

impl Survey<'_> {
    /// Whether a pod of this question could wait for a node that an autoscaler adds.
    pub(in crate::decision) fn growth(&self, question: &Question, spec: &PodSpec, ledger: &Ledger) -> Growth {
        let workload = &question.workload;
        let is_placed = workload.kind == WorkloadKind::Pod && question.operation == Operation::Update;
        let names_its_node = spec.node_name.as_deref().is_some_and(|name| !name.is_empty());
        if is_placed || names_its_node || workload.replicas.per_node {
            return Growth::Nowhere;
        }
        let mut pools: Vec<&Selector> = self.base.growth.iter().collect();
        for kind in &self.accepting {
            let others = kind.policy.growth.iter();
            pools.extend(others.filter(|pool| !self.base.growth.contains(pool)));
        }
        pools.dedup();
        if pools.is_empty() {
            return Growth::Nowhere;
        }
        let pools = pools.into_iter();
        let would_take: Vec<Taken<'_>> = pools
            .filter_map(|pool| self.would_take(pool, question, spec, ledger))
            .collect();
        if would_take.is_empty() {
            return Growth::Useless(
                "the policy names pools that an autoscaler can add (placement.growth), and none of them would take the pod: \
                 its node selector, affinity or tolerations keep it off, or a node there is too small for it even when empty"
                    .to_owned(),
            );
        }
        let counted: Vec<Taken<'_>> = would_take.into_iter().filter(|taken| taken.counts).collect();
        if counted.is_empty() {
            return Growth::Useless(
                "the policy names pools that an autoscaler can add (placement.growth), but a pod can wait for a node of them \
                 only under enforcement counted: kube-scheduler does not count memory there, and would bind it where a slot \
                 is free and memory is not"
                    .to_owned(),
            );
        }
        if !counted::is_live(self, ledger) {
            return Growth::Useless(
                "the policy names pools that an autoscaler can add (placement.growth), but kube-scheduler does not count this \
                 pod's memory: no node that could take it advertises vramgate.io/gpu-ppm yet, or not every one is under a \
                 policy that enforces it"
                    .to_owned(),
            );
        }
        let taken = counted.into_iter().find(|taken| taken.is_exact);
        let Some(taken) = taken.filter(|_| counted::is_exact(self)) else {
            return Growth::Useless(
                "the policy names pools that an autoscaler can add (placement.growth), but nodes that could take the pod have \
                 several devices, of which kube-scheduler counts the sum alone: while it waited it could be bound where no \
                 single device has room"
                    .to_owned(),
            );
        };
        Growth::In {
            pool: in_words(taken.pool),
            is_known: taken.is_known,
        }
    }

    /// What a node of the pool would be to the pod; `None` where it would not take it. A pool without nodes is taken to be of
    /// a kind that is known elsewhere.
    fn would_take<'p>(
        &self,
        pool: &'p Selector,
        question: &Question,
        spec: &PodSpec,
        ledger: &Ledger,
    ) -> Option<Taken<'p>> {
        let mut taken: Option<Taken<'p>> = None;
        let mut has_nodes = false;
        for (index, class) in ledger.nodes.classes() {
            let entries = class.members.iter().filter_map(|name| ledger.nodes.get(name));
            let mut examples = entries
                .filter(|entry| pool.matches(&entry.node.labels))
                .take(MOST_TRIED)
                .peekable();
            if examples.peek().is_none() {
                continue;
            }
            has_nodes = true;
            let kinds = self.accepting.iter().chain(&self.elsewhere);
            let Some(kind) = kinds.into_iter().find(|kind| kind.index == index) else {
                continue;
            };
            if holds_when_empty(kind) && examples.any(|entry| newcomer::like(&entry.node, spec)) {
                let (counts, is_exact) = (kind.policy.counts(), counted::is_exact_on(kind));
                if taken
                    .as_ref()
                    .is_none_or(|best| (counts, is_exact) > (best.counts, best.is_exact))
                {
                    taken = Some(Taken {
                        pool,
                        is_known: true,
                        counts,
                        is_exact,
                    });
                }
            }
        }
        if has_nodes {
            return taken;
        }
        let exists = |name: &str| ledger.nodes.get(name).is_some();
        if !newcomer::labelled(pool, spec, &exists) || !self.accepting.iter().any(holds_when_empty) {
            return None;
        }
        let policies = ledger.policies();
        // Of nodes that do not exist nothing is known but the labels by which the pool is selected.
        let node = NodeView::new(&pool.labels, &[]);
        let policy = policies.for_pod(&question.namespace_labels, &question.workload.pod, Some(node));
        Some(Taken {
            pool,
            is_known: false,
            counts: policy.counts(),
            // As those that are known.
            is_exact: true,
        })
    }
}

/// A pool whose nodes would take the pod.
struct Taken<'p> {
    pool: &'p Selector,
    /// By nodes that it has.
    is_known: bool,
    /// Whether the policy there has kube-scheduler count memory.
    counts: bool,
    /// Whether what it counts is the sum of one device.
    is_exact: bool,
}

/// Whether a node of this kind with nobody on it holds the pod, and the policy there lets it.
fn holds_when_empty(kind: &Candidate<'_>) -> bool {
    !kind.weighed.refused() && kind.class.holds_when_empty(&kind.weighed.standings)
}

/// The refusal for want of room as the remark of a pod that waits for a node of the pool.
pub(in crate::decision) fn waits(mut refusal: Finding, pool: &str, is_known: bool) -> Finding {
    let now = std::mem::take(&mut refusal.message);
    refusal.message = format!(
        "no room on the nodes that are there; the pod waits until an autoscaler adds one of placement.growth ({pool})"
    );
    refusal.details.insert(0, now);
    remarked(refusal, pool, is_known)
}

/// What is added to a refusal, of a pod or of some of an object's pods, that passes for this reason.
pub(in crate::decision) fn remarked(mut refusal: Finding, pool: &str, is_known: bool) -> Finding {
    refusal.code = Code::Vg201;
    let severity = refusal.severity.min(Severity::Warning);
    let refusal = refusal
        .detail("kube-scheduler counts the share, so that nothing is put above a budget meanwhile")
        .number(POOL, Number::Text(pool.to_owned()))
        .with_severity(severity);
    if is_known {
        return refusal;
    }
    refusal.detail("no node of that pool is known yet: whether one can hold the pod is seen when it comes")
}

/// A selector as somebody reads it.
fn in_words(pool: &Selector) -> String {
    let labels = pool.labels.iter().map(|(key, value)| format!("{key}={value}"));
    let expressions = pool.expressions.iter().map(|wanted| {
        let values = wanted.values.join(", ");
        match wanted.operator.as_str() {
            "In" => format!("{} in ({values})", wanted.key),
            "NotIn" => format!("{} notin ({values})", wanted.key),
            "DoesNotExist" => format!("!{}", wanted.key),
            _ => wanted.key.clone(),
        }
    });
    let all: Vec<String> = labels.chain(expressions).collect();
    short(&all.join(","))
}
