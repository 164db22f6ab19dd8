//! Tells devices above their budget as Events on the node: once when it begins, again now and then while it lasts, and
//! once when it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::causes::Causes;
use super::facts::OverBudget;
use super::metrics::Metrics;
use super::timing::Timing;

/// Events of cluster-scoped objects live here.
const NAMESPACE: &str = "default";
/// The API server refuses a longer note.
const LONGEST_NOTE: usize = 1024;
/// Pause after an Event that could not be written.
const AFTER_FAILURE: Duration = Duration::from_mins(1);

type Key = (String, String);

/// What is to be told now.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Telling {
    Above(Key, String),
    Within(Key),
}

/// When each device group was last told, and when it is next.
#[derive(Debug, Default)]
struct Course(BTreeMap<Key, Instant>);

impl Course {
    fn next(&mut self, now: Instant, repeat: Duration, over: &[OverBudget]) -> Vec<Telling> {
        let key = |entry: &OverBudget| (entry.node.clone(), entry.resource.clone());
        let current: BTreeMap<Key, &OverBudget> = over.iter().map(|entry| (key(entry), entry)).collect();
        let ended: Vec<Key> = self
            .0
            .keys()
            .filter(|key| !current.contains_key(*key))
            .cloned()
            .collect();
        let mut tellings = Vec::new();
        for key in ended {
            self.0.remove(&key);
            tellings.push(Telling::Within(key));
        }
        for (key, entry) in current {
            let due = self.0.entry(key.clone()).or_insert(now);
            if *due <= now {
                *due = now + repeat;
                tellings.push(Telling::Above(key, entry.sentence.clone()));
            }
        }
        tellings
    }

    /// The Event was not written: it is told again soon (what ended is not).
    fn failed(&mut self, now: Instant, telling: &Telling) {
        if let Telling::Above(key, _) = telling
            && let Some(due) = self.0.get_mut(key)
        {
            *due = now + AFTER_FAILURE;
        }
    }
}

/// See the module.
pub(super) struct Reporter {
    events: Api<Event>,
    metrics: Metrics,
    timing: Timing,
    instance: String,
    course: Course,
}

impl Reporter {
    pub(super) fn new(client: Client, metrics: Metrics, timing: Timing) -> Self {
        let events = Api::namespaced(client, NAMESPACE);
        Self {
            events,
            metrics,
            timing,
            instance: instance(),
            course: Course::default(),
        }
    }

    /// Tells what there is to tell.
    pub(super) async fn report(&mut self, over: &[OverBudget]) {
        self.metrics.over_budget(over.len());
        let now = Instant::now();
        for telling in self.course.next(now, self.timing.over_budget_repeat, over) {
            match &telling {
                Telling::Above((node, resource), sentence) => warn!(node, resource, "{sentence}"),
                Telling::Within((node, resource)) => info!(node, resource, "within budget again"),
            }
            let event = event(&telling, &self.instance, Timestamp::now());
            let within = self.timing.housekeeping_timeout;
            let parameters = PostParams::default();
            let written = timeout(within, self.events.create(&parameters, &event)).await;
            let problem = match written {
                Ok(Ok(_)) => continue,
                Ok(Err(Error::Api(status))) if status.code == 403 => {
                    "vramgate may not write it; grant its service account `create` on events of events.k8s.io"
                        .to_owned()
                }
                Ok(Err(error)) => Causes(&error).to_string(),
                Err(_) => format!("no answer within {within:?}"),
            };
            self.metrics.event_failed();
            self.course.failed(now, &telling);
            warn!("an Event could not be written: {problem}");
        }
    }
}

fn event(telling: &Telling, instance: &str, now: Timestamp) -> Event {
    let ((node, _), severity, reason, text) = match telling {
        Telling::Above(key, sentence) => (key, "Warning", "GPUMemoryOverBudget", sentence.clone()),
        Telling::Within(key) => {
            let text = format!(
                "The devices of {} are within their GPU memory budget again.",
                key.1
            );
            (key, "Normal", "GPUMemoryWithinBudget", text)
        }
    };
    // A node's name can be as long as an Event's may be; the suffix makes the name unique.
    let prefix = cut(node, 200).trim_end_matches(['.', '-']);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}.{:x}", now.as_nanosecond())),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        type_: Some(severity.to_owned()),
        reason: Some(reason.to_owned()),
        action: Some("CountGPUMemory".to_owned()),
        note: Some(cut(&text, LONGEST_NOTE).to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.clone()),
            // The convention of the kubelet's own Events, which `kubectl describe node` looks for.
            uid: Some(node.clone()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some("vramgate.io/webhook".to_owned()),
        reporting_instance: Some(instance.to_owned()),
        ..Event::default()
    }
}

/// Who reports: a pod's host name is its own name.
pub(super) fn instance() -> String {
    let name = std::env::var("HOSTNAME").unwrap_or_else(|_| "vramgate".to_owned());
    cut(&name, 128).to_owned()
}

/// The longest beginning that has at most so many bytes.
pub(super) fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Mib;

    fn over(node: &str, sentence: &str) -> OverBudget {
        OverBudget {
            node: node.to_owned(),
            resource: "nvidia.com/gpu".to_owned(),
            promised: Mib::new(90_000),
            budget: Mib::new(73_403),
            sentence: sentence.to_owned(),
        }
    }

    fn key(node: &str) -> Key {
        (node.to_owned(), "nvidia.com/gpu".to_owned())
    }

    #[test]
    fn told_when_it_begins_now_and_then_and_when_it_ends() {
        let (start, minute, repeat) = (Instant::now(), Duration::from_mins(1), Duration::from_mins(10));
        let mut course = Course::default();
        let above = |text: &str| Telling::Above(key("a"), text.to_owned());
        assert_eq!(course.next(start, repeat, &[]), []);
        assert_eq!(course.next(start, repeat, &[over("a", "1")]), [above("1")]);
        assert_eq!(course.next(start + minute * 9, repeat, &[over("a", "2")]), []);
        assert_eq!(
            course.next(start + minute * 10, repeat, &[over("a", "3")]),
            [above("3")]
        );
        assert_eq!(
            course.next(start + minute * 11, repeat, &[over("b", "4")]),
            [
                Telling::Within(key("a")),
                Telling::Above(key("b"), "4".to_owned())
            ]
        );
        assert_eq!(
            course.next(start + minute * 12, repeat, &[]),
            [Telling::Within(key("b"))]
        );
        assert_eq!(course.next(start + minute * 13, repeat, &[]), []);
    }

    #[test]
    fn what_could_not_be_written_is_told_again_soon() {
        let (start, repeat) = (Instant::now(), Duration::from_mins(10));
        let mut course = Course::default();
        let first = course.next(start, repeat, &[over("a", "1")]);
        course.failed(start, &first[0]);
        assert_eq!(
            course.next(start + Duration::from_secs(5), repeat, &[over("a", "1")]),
            []
        );
        assert_eq!(
            course.next(start + AFTER_FAILURE, repeat, &[over("a", "1")]),
            first
        );
    }

    #[test]
    fn the_event_keeps_to_the_limits_of_the_api() {
        let long = "é".repeat(1000);
        let node = "n-".repeat(126);
        let event = event(&Telling::Above(key(&node), long), "me", Timestamp::UNIX_EPOCH);
        assert_eq!(event.note.unwrap().len(), 1024);
        let name = event.metadata.name.unwrap();
        assert!(name.len() <= 253 && !name.contains("-."), "{name}");
        assert_eq!(event.regarding.unwrap().name.unwrap(), node);
    }
}
