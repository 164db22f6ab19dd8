//! What answers a review: the ledger behind its lock, and the look-ups that come before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use json_patch::PatchOperation;

use super::Settings;
use super::locked::locked;
use super::metrics::Metrics;
use super::recorder::{Recorder, Settled};
use crate::admission::Scale;
use crate::configuration::NodeLabels;
use crate::decision::{
    AutoscalerQuestion, ConfigurationQuestion, Operation, Prepared, Question, Surroundings, Verdict, judge,
    judge_autoscaler, judge_configuration, mutate, prepare, unrecorded,
};
use crate::engine::{self, LookUp, NoSources, Sources};
use crate::ledger::{Ledger, Moment, Stale};
use crate::policy::{ConfigMapName, PolicySet};
use crate::workload::pod::OwnerReference;
use crate::workload::{Autoscaler, Malformed, Workload, WorkloadKind, controller_of};

mod configuration;
mod listener;

pub use listener::DenialListener;

/// Milliseconds after our answer in which a pod that is not in the store may still be on its way there.
const ON_ITS_WAY: u64 = 100;
/// Reservations of one controller that are checked for one review.
const MOST_CHECKED: usize = 8;

/// What can be asked of the cluster before a decision.
pub trait LookUps: Send + Sync + 'static {
    /// The ConfigMaps of these names, within 300 ms. `allowed` is the policy's `sources.configMaps`. What is not
    /// found, not allowed or not there in time is in the result as such.
    fn config_maps<'a>(
        &'a self,
        namespace: &'a str,
        names: &'a BTreeSet<String>,
        allowed: bool,
    ) -> BoxFuture<'a, Box<dyn Sources + Send + Sync>>;

    /// Labels of a namespace; empty where it is not known.
    fn namespace_labels<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, BTreeMap<String, String>>;

    /// The workload whose scale is changed, or that an autoscaler scales; `None` where it is not known, and then nothing is
    /// said about the change.
    fn workload<'a>(
        &'a self,
        _kind: WorkloadKind,
        _namespace: &'a str,
        _name: &'a str,
    ) -> BoxFuture<'a, Option<Workload>> {
        Box::pin(std::future::ready(None))
    }

    /// How many pods a controller wants at once, as it was known at `asked`'s time; `None` where that cannot be told.
    fn owner_wants<'a>(
        &'a self,
        _namespace: &'a str,
        _owner: &'a OwnerReference,
        _asked: Asked,
    ) -> BoxFuture<'a, Option<u32>> {
        Box::pin(std::future::ready(None))
    }

    /// Whether the API server has no such pod: none of that name, or one with another UID. `false` where that cannot be
    /// told.
    fn is_missing<'a>(&'a self, _pod: &'a Stale) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// How new an answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// One of a moment ago will do.
    Lately,
    /// Asked of the API server now.
    Now,
}

/// No cluster: every ConfigMap is unread and no namespace has labels.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLookUps;

impl LookUps for NoLookUps {
    fn config_maps<'a>(
        &'a self,
        _: &'a str,
        _: &'a BTreeSet<String>,
        _: bool,
    ) -> BoxFuture<'a, Box<dyn Sources + Send + Sync>> {
        Box::pin(std::future::ready(Box::new(NoSources) as _))
    }

    fn namespace_labels<'a>(&'a self, _: &'a str) -> BoxFuture<'a, BTreeMap<String, String>> {
        Box::pin(std::future::ready(BTreeMap::new()))
    }
}

/// A verdict, carried out.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// UID of the reservation that was made for it.
    pub reserved: Option<String>,
}

/// ConfigMaps (of the pod's namespace) that could tell what an object takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedConfigMaps {
    /// Their names.
    pub names: BTreeSet<String>,
    /// Whether the policy lets them be read.
    pub allowed: bool,
}

/// Decides and reserves. What takes time before the decision was looked up; what takes time after it is the record that
/// replicas share.
pub trait Decider: Send + Sync + 'static {
    /// What to look up before the decision.
    fn config_maps(&self, question: &Question) -> NamedConfigMaps;

    /// Whether the object asks for a GPU at all, or cannot be read.
    fn concerns_gpus(&self, question: Question) -> bool;

    /// Judges and, where the verdict admits and the question is no dry run, reserves in the same hold. Where replicas
    /// share a ledger, waits until its record holds the reservation, at most `until` then. Whoever drops this in between
    /// gives the reservation back.
    fn decide<'a>(
        &'a self,
        question: Question,
        sources: &'a (dyn Sources + Sync),
        until: tokio::time::Instant,
    ) -> BoxFuture<'a, Decision>;

    /// What the policy changes in a pod that is created.
    fn mutate(&self, _question: Question, _sources: &dyn Sources) -> Vec<PatchOperation> {
        Vec::new()
    }

    /// ConfigMaps that the MIG manager can read for a node; empty where nobody knows.
    fn mig_config_maps(&self, _node: &NodeLabels) -> Vec<ConfigMapName> {
        Vec::new()
    }

    /// Judges what configures GPUs. Nothing is reserved.
    fn decide_configuration(&self, _question: &ConfigurationQuestion) -> Verdict {
        Verdict::not_ours()
    }

    /// Judges an autoscaler by the question about its target at the maximum. Nothing is reserved.
    fn decide_autoscaler(
        &self,
        _autoscaler: &Autoscaler,
        _target: Question,
        _sources: &dyn Sources,
    ) -> Verdict {
        Verdict::not_ours()
    }

    /// Gives a reservation back.
    fn release(&self, uid: &str);

    /// Whether a controller has reservations whose pods have not been seen.
    fn has_waiting(&self, _controller_uid: &str) -> bool {
        false
    }

    /// Reservations beyond what a controller wants that creates one more pod: their pods were probably never stored (a
    /// quota refused them after us). The oldest, without those that may be on their way to the store.
    fn surplus(&self, _controller_uid: &str, _wants: u32) -> Vec<Stale> {
        Vec::new()
    }
}

/// A clock that only goes forward, from the start of the process.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at zero now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Milliseconds since the start.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment(u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

/// Times that one pod is judged because another replica took its place in between.
const MOST_JUDGED: u32 = 8;

/// The core's decision over a ledger that others fill.
pub struct LedgerDecider {
    ledger: Arc<Mutex<Ledger>>,
    /// The ledger's policies as they were last seen, so that reading an object needs no lock. The lock's holder checks
    /// that they are still in force.
    policies: ArcSwap<PolicySet>,
    clock: Clock,
    /// Where replicas share a ledger.
    recorder: Option<Arc<Recorder>>,
    /// See [`LedgerDecider::answered_elsewhere_within`].
    answered_elsewhere: Duration,
}

/// What came of judging once.
struct Judged {
    decision: Decision,
    prepared: Prepared,
}

impl LedgerDecider {
    /// Over this ledger; `clock` is the one that its filler uses.
    #[must_use]
    pub fn new(ledger: Arc<Mutex<Ledger>>, clock: Clock) -> Self {
        let policies = Arc::clone(locked(&ledger).policies());
        Self {
            ledger,
            policies: ArcSwap::new(policies),
            clock,
            recorder: None,
            answered_elsewhere: Settings::default().deadline * 2,
        }
    }

    /// The same in one of several replicas, whose reservations this recorder brings into the records that they share. It is
    /// over the same ledger.
    #[must_use]
    pub fn with_recorder(self, recorder: Arc<Recorder>) -> Self {
        Self {
            recorder: Some(recorder),
            ..self
        }
    }

    /// Another replica has answered this long after its reservation stood in a record: the whole of a review, and what the
    /// store may take before it says that it wrote. Twice the deadline of a review unless told.
    #[must_use]
    pub fn answered_elsewhere_within(self, time: Duration) -> Self {
        Self {
            answered_elsewhere: time,
            ..self
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        locked(&self.ledger)
    }

    /// What an object takes, read before the ledger is locked, and the ledger with the policies that it was read by.
    fn prepared(&self, question: Question, sources: &dyn Sources) -> (Prepared, MutexGuard<'_, Ledger>) {
        let policies = self.policies.load_full();
        let mut prepared = prepare(question, &policies, sources);
        let ledger = self.lock();
        if !Arc::ptr_eq(&policies, ledger.policies()) {
            // They were reloaded in between: judged by one set, whole.
            let policies = Arc::clone(ledger.policies());
            self.policies.store(Arc::clone(&policies));
            prepared = prepare(prepared.question().clone(), &policies, sources);
        }
        (prepared, ledger)
    }

    /// Judges and reserves, in one hold.
    fn judge_once(&self, question: Question, sources: &dyn Sources) -> Judged {
        let dry_run = question.dry_run;
        let (prepared, mut ledger) = self.prepared(question, sources);
        let mut verdict = judge(&prepared, &ledger);
        let reservation = if verdict.admit && !dry_run {
            verdict.reservation.take()
        } else {
            None
        };
        let mut reserved = None;
        if let Some(reservation) = reservation {
            if reservation.uid.is_empty() {
                // Reservations are kept by UID: two pods without one would be counted as one.
                verdict.admit = false;
                verdict.malformed = Some(Malformed {
                    path: "metadata.uid".to_owned(),
                    message:
                        "is missing; the API server gives each pod its UID before it asks for validation"
                            .to_owned(),
                });
            } else {
                let uid = reservation.uid.clone();
                ledger.commit(reservation, self.clock.now());
                if self.recorder.is_some() {
                    ledger.await_record(&uid);
                }
                reserved = Some(uid);
            }
        }
        drop(ledger);
        Judged {
            decision: Decision { verdict, reserved },
            prepared,
        }
    }

    /// Waits until a record holds what was reserved. If another replica was faster, the pod is judged again: it may have
    /// another place, or be refused for want of one.
    async fn settle(
        &self,
        recorder: &Recorder,
        mut judged: Judged,
        sources: &(dyn Sources + Sync),
        until: tokio::time::Instant,
    ) -> Decision {
        for _ in 0..MOST_JUDGED {
            let Some(uid) = judged.decision.reserved.clone() else {
                return judged.decision;
            };
            match recorder.settle(&uid, until).await {
                Settled::Recorded => return judged.decision,
                Settled::Withdrawn => {
                    judged = self.judge_once(judged.prepared.question().clone(), sources);
                }
                Settled::Failed { node, reason } => return self.unrecorded(&judged.prepared, &node, &reason),
            }
        }
        if let Some(uid) = &judged.decision.reserved {
            let mut ledger = self.lock();
            ledger.release(uid);
            ledger.end_await(uid);
        }
        self.unrecorded(
            &judged.prepared,
            "",
            "other replicas took each place that was found",
        )
    }

    fn unrecorded(&self, prepared: &Prepared, node: &str, reason: &str) -> Decision {
        Decision {
            verdict: unrecorded(prepared, &self.lock(), node, reason),
            reserved: None,
        }
    }
}

impl Decider for LedgerDecider {
    fn config_maps(&self, question: &Question) -> NamedConfigMaps {
        let old = question.old.iter().flat_map(Workload::pods);
        let names: BTreeSet<String> = question
            .workload
            .pods()
            .chain(old)
            .flat_map(engine::config_maps)
            .collect();
        if names.is_empty() {
            return NamedConfigMaps::default();
        }
        let policies = self.policies.load();
        let policy = policies.for_pod(&question.namespace_labels, &question.workload.pod, None);
        NamedConfigMaps {
            names,
            allowed: policy.read_config_maps,
        }
    }

    fn concerns_gpus(&self, question: Question) -> bool {
        let policies = self.policies.load();
        !question.workload.deleting && prepare(question, &policies, &NoSources).concerns_gpus()
    }

    fn mutate(&self, question: Question, sources: &dyn Sources) -> Vec<PatchOperation> {
        let (prepared, ledger) = self.prepared(question, sources);
        mutate(&prepared, &ledger)
    }

    fn decide<'a>(
        &'a self,
        question: Question,
        sources: &'a (dyn Sources + Sync),
        until: tokio::time::Instant,
    ) -> BoxFuture<'a, Decision> {
        let judged = self.judge_once(question, sources);
        match &self.recorder {
            Some(recorder) if judged.decision.reserved.is_some() => {
                Box::pin(self.settle(recorder, judged, sources, until))
            }
            _ => Box::pin(std::future::ready(judged.decision)),
        }
    }

    fn mig_config_maps(&self, node: &NodeLabels) -> Vec<ConfigMapName> {
        let policies = self.policies.load();
        policies
            .for_device(&node.labels)
            .device
            .mig_config_maps(&node.name)
    }

    fn decide_configuration(&self, question: &ConfigurationQuestion) -> Verdict {
        let around = Surroundings::of(question, &self.lock());
        judge_configuration(question, &around)
    }

    fn decide_autoscaler(&self, autoscaler: &Autoscaler, target: Question, sources: &dyn Sources) -> Verdict {
        judge_autoscaler(autoscaler, target, &self.lock(), sources)
    }

    fn release(&self, uid: &str) {
        self.lock().release(uid);
    }

    fn has_waiting(&self, controller_uid: &str) -> bool {
        self.lock().has_waiting(controller_uid)
    }

    fn surplus(&self, controller_uid: &str, wants: u32) -> Vec<Stale> {
        let now = self.clock.now().0;
        let before = Moment(now.saturating_sub(ON_ITS_WAY));
        let elsewhere = u64::try_from(self.answered_elsewhere.as_millis()).unwrap_or(u64::MAX);
        let foreign_before = Moment(now.saturating_sub(elsewhere.saturating_add(ON_ITS_WAY)));
        self.lock().surplus(controller_uid, wants, before, foreign_before)
    }
}

/// A reservation whose answer has not been taken yet. Dropping it gives the reservation back.
pub(super) struct Reserved {
    decider: Arc<dyn Decider>,
    metrics: Arc<Metrics>,
    uid: Option<String>,
}

impl Reserved {
    pub(super) fn new(decider: Arc<dyn Decider>, metrics: Arc<Metrics>, uid: String) -> Self {
        Self {
            decider,
            metrics,
            uid: Some(uid),
        }
    }

    /// The answer is on its way: the reservation stands.
    pub(super) fn keep(mut self) {
        self.uid = None;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(uid) = self.uid.take() {
            tracing::info!(
                uid,
                "the caller went away before the answer: reservation given back"
            );
            self.metrics.abandoned();
            self.decider.release(&uid);
        }
    }
}

/// The decision and the look-ups that it needs.
#[derive(Clone)]
pub struct Backend {
    decider: Arc<dyn Decider>,
    look_ups: Arc<dyn LookUps>,
    listener: Option<Arc<dyn DenialListener>>,
}

impl Backend {
    /// Of these two.
    #[must_use]
    pub fn new(decider: Arc<dyn Decider>, look_ups: Arc<dyn LookUps>) -> Self {
        Self {
            decider,
            look_ups,
            listener: None,
        }
    }

    /// The same, which tells somebody of denied pods.
    #[must_use]
    pub fn with_listener(self, listener: Arc<dyn DenialListener>) -> Self {
        Self {
            listener: Some(listener),
            ..self
        }
    }

    pub(super) fn decider(&self) -> &Arc<dyn Decider> {
        &self.decider
    }

    /// Adds the labels of the namespace to a question.
    pub(super) async fn label(&self, question: &mut Question, time: Duration) {
        let namespace = question.workload.object.namespace.clone();
        let look_up = self.look_ups.namespace_labels(&namespace);
        let Ok(labels) = tokio::time::timeout(time, look_up).await else {
            tracing::warn!(
                namespace,
                "labels of the namespace took too long; policies match it by name alone"
            );
            return;
        };
        // Its own name is in the question already, and the request is right about it.
        for (key, value) in labels {
            question.namespace_labels.entry(key).or_insert(value);
        }
    }

    /// Ends reservations of the pod's controller that it can no longer mean. Only asked where some have waited long.
    pub(super) async fn trim(&self, question: &Question, time: Duration) {
        let pod = &question.workload;
        let Some(owner) = controller_of(&pod.pod.metadata).filter(|_| pod.kind == WorkloadKind::Pod) else {
            return;
        };
        if question.dry_run
            || question.operation != Operation::Create
            || !self.decider.has_waiting(&owner.uid)
        {
            return;
        }
        // In time or not at all: what is kept too long only waits.
        let _ = tokio::time::timeout(time, self.end_surplus(&pod.object.namespace, owner)).await;
    }

    async fn end_surplus(&self, namespace: &str, owner: &OwnerReference) -> Option<()> {
        let wants = self.look_ups.owner_wants(namespace, owner, Asked::Lately).await?;
        if self.decider.surplus(&owner.uid, wants).is_empty() {
            return None;
        }
        // It may have been scaled up since, and its pods may exist without having been seen.
        let wants = self.look_ups.owner_wants(namespace, owner, Asked::Now).await?;
        let surplus = self.decider.surplus(&owner.uid, wants);
        let checks = surplus
            .into_iter()
            .take(MOST_CHECKED)
            .map(async |stale| self.look_ups.is_missing(&stale).await.then_some(stale));
        for stale in futures::future::join_all(checks).await.into_iter().flatten() {
            tracing::info!(
                namespace = stale.namespace,
                name = stale.name,
                "its controller wants no more pods than were seen and reserved, and it does not exist: its \
                 reservation ends"
            );
            self.decider.release(&stale.uid);
        }
        Some(())
    }

    /// The ConfigMaps that the question needs.
    pub(super) async fn sources(
        &self,
        question: &Question,
        time: Duration,
    ) -> Box<dyn Sources + Send + Sync> {
        let NamedConfigMaps { names, allowed } = self.decider.config_maps(question);
        if names.is_empty() {
            return Box::new(NoSources);
        }
        let look_up = self
            .look_ups
            .config_maps(&question.workload.object.namespace, &names, allowed);
        tokio::time::timeout(time, look_up)
            .await
            .unwrap_or_else(|_| Box::new(TooLate))
    }

    /// The question that a change of scale poses; `None` where the workload is not known.
    pub(super) async fn scaled(&self, scale: &Scale, time: Duration) -> Option<Question> {
        let look_up = self.look_ups.workload(scale.kind, &scale.namespace, &scale.name);
        let mut workload = tokio::time::timeout(time, look_up).await.ok().flatten()?;
        let mut old = workload.clone();
        if let Some(replicas) = scale.old_replicas {
            old.replicas.desired = replicas;
        }
        workload.replicas.desired = scale.replicas;
        let name = ("kubernetes.io/metadata.name".to_owned(), scale.namespace.clone());
        Some(Question {
            operation: Operation::Update,
            workload,
            old: Some(old),
            namespace_labels: BTreeMap::from([name]),
            by_node: false,
            scale_only: true,
            dry_run: true,
        })
    }
}

impl Backend {
    /// The question about the target of an autoscaler at its maximum; `None` where the target is not known, or is none of
    /// ours.
    pub(super) async fn autoscaled(&self, question: &AutoscalerQuestion, time: Duration) -> Option<Question> {
        if let Some(own) = question.of_its_own() {
            return Some(own);
        }
        let Autoscaler { object, target, .. } = &question.autoscaler;
        let kind = question.autoscaler.target_kind()?;
        let look_up = self.look_ups.workload(kind, &object.namespace, &target.name);
        let workload = tokio::time::timeout(time, look_up).await.ok().flatten()?;
        question.at_the_maximum(&workload)
    }
}

/// The look-up of ConfigMaps did not end in time.
struct TooLate;

impl Sources for TooLate {
    fn config_map(&self, _: &str, _: &str) -> LookUp<'_> {
        LookUp::NotRead("the look-up took longer than its time limit")
    }
}
