//! Denied pods as Events on what makes them: whoever looks at a Deployment that stays short of pods finds the reason there.
//!
//! Nothing waits for an Event: a full queue drops it, and a reason that is told again and again is told seldom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::causes::Causes;
use super::lookup::LookUps;
use super::metrics::Metrics;
use super::over_budget::{cut, instance};
use super::timing::Timing;
use super::{DENIED, lock};
use crate::finding::Code;
use crate::workload::pod::OwnerReference;

/// Events that wait to be written.
const WAITING: usize = 256;
/// Owners and reasons that are remembered.
const REMEMBERED: usize = 4_096;
/// Events of one reason at one owner that may follow each other at once, and the time in which another one is earned.
const AT_ONCE: u32 = 3;
const EARNED_EVERY: Duration = Duration::from_mins(5);
/// Owners of owners that are looked up: a pod's ReplicaSet belongs to a Deployment, a Job to a CronJob.
const LEVELS: usize = 2;
/// The API server refuses a longer note.
const LONGEST_NOTE: usize = 1_024;

/// A pod that was denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Its namespace.
    pub namespace: String,
    /// What makes it.
    pub owner: OwnerReference,
    /// The first reason.
    pub code: Code,
    /// What is said of it.
    pub text: String,
}

/// When something was told, and what is left to be told at once.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    since: Instant,
}

/// How often each reason is told at each owner.
#[derive(Debug, Default)]
struct Course {
    buckets: BTreeMap<(String, Code), Bucket>,
    /// The same by age, so that the oldest is forgotten first.
    by_age: BTreeSet<(Instant, String, Code)>,
}

impl Course {
    /// Whether this may be told now.
    fn allows(&mut self, now: Instant, owner: &str, code: Code) -> bool {
        let key = (owner.to_owned(), code);
        let mut bucket = self.buckets.get(&key).copied().unwrap_or(Bucket {
            left: AT_ONCE,
            since: now,
        });
        self.by_age.remove(&(bucket.since, key.0.clone(), code));
        let earned = now.saturating_duration_since(bucket.since).as_secs() / EARNED_EVERY.as_secs();
        if earned > 0 {
            bucket.left = AT_ONCE.min(
                bucket
                    .left
                    .saturating_add(u32::try_from(earned).unwrap_or(AT_ONCE)),
            );
            bucket.since = now;
        }
        let allowed = bucket.left > 0;
        bucket.left = bucket.left.saturating_sub(1);
        if self.buckets.len() >= REMEMBERED
            && !self.buckets.contains_key(&key)
            && let Some((_, oldest, code)) = self.by_age.pop_first()
        {
            self.buckets.remove(&(oldest, code));
        }
        self.by_age.insert((bucket.since, key.0.clone(), code));
        self.buckets.insert(key, bucket);
        allowed
    }
}

/// Where denials are told.
#[derive(Debug)]
pub struct Denials {
    course: Mutex<Course>,
    queue: mpsc::Sender<Denied>,
    metrics: Metrics,
}

impl Denials {
    /// With the task that writes what is told.
    pub(super) fn new(client: Client, look_ups: LookUps, metrics: Metrics, timing: Timing) -> (Self, Writer) {
        let (queue, waiting) = mpsc::channel(WAITING);
        let writer = Writer {
            client,
            look_ups,
            metrics: metrics.clone(),
            timing,
            instance: instance(),
            waiting,
        };
        let denials = Self {
            course: Mutex::default(),
            queue,
            metrics,
        };
        (denials, writer)
    }

    /// Whether a reason may be told at an owner now; what is asked counts as told.
    pub fn is_due(&self, owner: &OwnerReference, code: Code) -> bool {
        let due = lock(&self.course).allows(Instant::now(), &owner.uid, code);
        if !due {
            self.metrics.denial_event("limited");
        }
        due
    }

    /// Tells it once there is time.
    pub fn tell(&self, denied: Denied) {
        if self.queue.try_send(denied).is_err() {
            self.metrics.denial_event("dropped");
        }
    }
}

/// The task that writes them.
pub(super) struct Writer {
    client: Client,
    look_ups: LookUps,
    metrics: Metrics,
    timing: Timing,
    instance: String,
    waiting: mpsc::Receiver<Denied>,
}

impl Writer {
    /// Goes on for good: without anybody who tells it waits.
    pub(super) async fn run(mut self) {
        while let Some(denied) = self.waiting.recv().await {
            let top = self.top(&denied).await;
            let event = event(&denied, &top, &self.instance, Timestamp::now());
            let events: Api<Event> = Api::namespaced(self.client.clone(), &denied.namespace);
            let within = self.timing.housekeeping_timeout;
            let parameters = PostParams::default();
            let written = timeout(within, events.create(&parameters, &event)).await;
            let problem = match written {
                Ok(Ok(_)) => {
                    self.metrics.denial_event("written");
                    continue;
                }
                Ok(Err(Error::Api(status))) if status.code == 403 => {
                    "vramgate may not write it; grant its service account `create` on events of events.k8s.io"
                        .to_owned()
                }
                Ok(Err(error)) => Causes(&error).to_string(),
                Err(_) => format!("no answer within {within:?}"),
            };
            self.metrics.denial_event("failed");
            warn!(
                namespace = denied.namespace,
                "an Event on a denied pod's owner could not be written: {problem}"
            );
        }
        std::future::pending::<()>().await;
    }

    /// The object that somebody wrote, as far as it can be told: where it cannot, the pod's own owner.
    async fn top(&self, denied: &Denied) -> OwnerReference {
        let mut top = denied.owner.clone();
        for _ in 0..LEVELS {
            let within = self.timing.housekeeping_timeout;
            match self.look_ups.owner_of(&denied.namespace, &top, within).await {
                Some(above) => top = above,
                None => break,
            }
        }
        top
    }
}

fn reference(namespace: &str, owner: &OwnerReference) -> ObjectReference {
    ObjectReference {
        api_version: Some(owner.api_version.clone()),
        kind: Some(owner.kind.clone()),
        namespace: Some(namespace.to_owned()),
        name: Some(owner.name.clone()),
        uid: Some(owner.uid.clone()),
        ..ObjectReference::default()
    }
}

fn event(denied: &Denied, top: &OwnerReference, instance: &str, now: Timestamp) -> Event {
    let prefix = cut(&top.name, 200).trim_end_matches(['.', '-']);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}.{:x}", now.as_nanosecond())),
            namespace: Some(denied.namespace.clone()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        type_: Some("Warning".to_owned()),
        reason: Some(DENIED.to_owned()),
        action: Some("CreatePod".to_owned()),
        note: Some(note(&denied.text)),
        regarding: Some(reference(&denied.namespace, top)),
        related: (*top != denied.owner).then(|| reference(&denied.namespace, &denied.owner)),
        reporting_controller: Some("vramgate.io/webhook".to_owned()),
        reporting_instance: Some(instance.to_owned()),
        ..Event::default()
    }
}

/// As many whole lines as an Event holds, the first one in any case.
fn note(text: &str) -> String {
    let mut note = String::new();
    for line in text.lines() {
        let gap = usize::from(!note.is_empty());
        if note.len() + gap + line.len() > LONGEST_NOTE {
            break;
        }
        if gap > 0 {
            note.push('\n');
        }
        note.push_str(line);
    }
    if note.is_empty() {
        cut(text, LONGEST_NOTE).to_owned()
    } else {
        note
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "chat-5d".to_owned(),
            uid: uid.to_owned(),
            controller: true,
        }
    }

    #[test]
    fn a_reason_is_told_a_few_times_and_then_seldom() {
        let (start, mut course) = (Instant::now(), Course::default());
        let mut told =
            |after: u64, owner: &str, code| course.allows(start + Duration::from_secs(after), owner, code);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|at| told(at, "a", Code::Vg201)),
            [true, true, true, false, false]
        );
        assert!(
            told(4, "a", Code::Vg207) && told(4, "b", Code::Vg201),
            "others are told"
        );
        assert!(!told(299, "a", Code::Vg201));
        assert_eq!([300, 301].map(|at| told(at, "a", Code::Vg201)), [true, false]);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_is_forgotten() {
        let (start, mut course) = (Instant::now(), Course::default());
        for index in 0..u64::try_from(REMEMBERED).unwrap() * 2 {
            let now = start + Duration::from_millis(index);
            assert!(course.allows(now, &format!("owner-{index}"), Code::Vg201));
        }
        assert_eq!(course.buckets.len(), REMEMBERED);
        assert_eq!(course.by_age.len(), REMEMBERED);
    }

    #[test]
    fn an_event_holds_whole_lines_within_what_the_api_takes() {
        let denied = Denied {
            namespace: "team-a".to_owned(),
            owner: owner("uid"),
            code: Code::Vg201,
            text: format!("VG201: first\n  fix: second\n{}\nlast", "x".repeat(2_000)),
        };
        let top = OwnerReference {
            kind: "Deployment".to_owned(),
            name: "n-".repeat(126),
            ..owner("top")
        };
        let event = event(&denied, &top, "me", Timestamp::UNIX_EPOCH);
        assert_eq!(event.note.as_deref(), Some("VG201: first\n  fix: second"));
        assert!(
            event
                .metadata
                .name
                .is_some_and(|name| name.len() <= 253 && !name.contains("-."))
        );
        assert_eq!(
            event.related.and_then(|related| related.name).as_deref(),
            Some("chat-5d")
        );
        assert_eq!(note(&"é".repeat(1_000)).len(), 1_024);
    }
}
