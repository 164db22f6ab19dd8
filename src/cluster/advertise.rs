//! Nodes advertise their GPU memory as `vramgate.io/gpu-ppm` in their status, where kube-scheduler counts it.
//!
//! Every round compares what each node is to advertise with what its status says, and patches those that differ: a node
//! that is new or whose kubelet set the number to zero, one whose devices, policy or holders changed, and one that has no
//! devices any more. The kubelet leaves extended resources that it does not manage as they are, and copies them from
//! capacity to allocatable; both are written, so that nothing waits for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, Error};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tracing::{debug, info, warn};

use super::causes::Causes;
use super::facts::Facts;
use super::freshness::Freshness;
use super::leader::Leadership;
use super::lock;
use super::metrics::Metrics;
use super::timing::Timing;
use crate::counted::RESOURCE;
use crate::device::Advertised;
use crate::ledger::advertised::Advertisement;
use crate::units::Share;

/// Nodes that are looked at in one hold of the lock.
const AT_A_TIME: usize = 100;
/// Writes of one round; what is left is written in the next.
const MOST_WRITES: usize = 250;
/// Writes in flight at once.
const AT_ONCE: usize = 8;
/// Longest pause before a node is tried again.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Nodes of one page of a list.
const PAGE: u32 = 500;

/// See the module.
pub(super) struct Advertiser<F> {
    pub(super) client: Client,
    pub(super) facts: Arc<Mutex<F>>,
    pub(super) freshness: Arc<Freshness>,
    pub(super) leader: Leadership,
    pub(super) metrics: Metrics,
    pub(super) timing: Timing,
}

impl<F: Facts> Advertiser<F> {
    /// Goes on for good.
    pub(super) async fn run(mut self) {
        // Before every list is complete, holders that carry nothing would be taken for none.
        self.freshness.ready().await;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut course = Course::default();
        let mut rounds = interval(self.timing.advertise);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if !self.leader.is_leader() {
                // Another replica tells how many are wrong.
                self.metrics.not_advertising(0);
                self.leader.gained().await;
            }
            rounds.tick().await;
            if !self.leader.is_leader() {
                continue;
            }
            let due = self.due(&mut course).await;
            self.write(&nodes, due, &mut course).await;
        }
    }

    /// What is to be written now.
    async fn due(&self, course: &mut Course) -> Vec<Advertisement> {
        let mut wrong = Vec::new();
        let mut after: Option<Arc<str>> = None;
        loop {
            let (page, next) = lock(&self.facts).advertisements(after.as_deref(), AT_A_TIME);
            wrong.extend(page.into_iter().filter(|node| !node.is_right()));
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
            // Reviews wait for the same lock.
            tokio::task::yield_now().await;
        }
        self.metrics.not_advertising(wrong.len());
        course.due(Instant::now(), wrong)
    }

    async fn write(&self, nodes: &Api<Node>, due: Vec<Advertisement>, course: &mut Course) {
        let within = self.timing.housekeeping_timeout;
        let writes = stream::iter(due).map(async |node| {
            let written = timeout(within, patch(nodes, &node.node, node.wanted)).await;
            (node, written)
        });
        let mut writes = std::pin::pin!(writes.buffer_unordered(AT_ONCE));
        while let Some((node, written)) = writes.next().await {
            let now = Instant::now();
            let problem = match written {
                Ok(Ok(())) => {
                    let ppm = node.wanted.map(Share::ppm);
                    debug!(node = &*node.node, ppm, "the node advertises its GPU memory");
                    self.metrics
                        .advertised(if ppm.is_some() { "written" } else { "removed" });
                    course.written(now + self.timing.advertise_again, &node);
                    continue;
                }
                // It is gone; the watch will tell of it.
                Ok(Err(Error::Api(status))) if status.code == 404 => continue,
                Ok(Err(Error::Api(status))) if status.code == 403 => {
                    self.metrics.advertised("forbidden");
                    format!(
                        "vramgate may not write it ({}); grant its service account `patch` on nodes/status, or say \
                         `enforcement: admission` in the policy",
                        status.message
                    )
                }
                Ok(Err(error)) => {
                    self.metrics.advertised("failed");
                    Causes(&error).to_string()
                }
                Err(_) => {
                    self.metrics.advertised("failed");
                    format!("no answer within {within:?}")
                }
            };
            if course.failed(now, self.timing.first_retry, &node) {
                warn!(
                    node = &*node.node,
                    "the node does not advertise its GPU memory, so kube-scheduler does not count it there: {problem}"
                );
            }
        }
    }
}

/// Writes a number to a node, or takes it away.
async fn patch(nodes: &Api<Node>, name: &str, wanted: Option<Share>) -> Result<(), Error> {
    let body = body(wanted);
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&body))
        .await
        .map(|_| ())
}

/// A merge patch of the status (RFC 7396), in which null takes a member away.
fn body(wanted: Option<Share>) -> Value {
    let amount = wanted.map(|share| share.ppm().to_string());
    json!({"status": {"capacity": {RESOURCE: amount}, "allocatable": {RESOURCE: amount}}})
}

/// What was tried on nodes whose status is not right, and when it is tried again.
#[derive(Debug, Default)]
struct Course(BTreeMap<Arc<str>, Tried>);

#[derive(Debug)]
struct Tried {
    wanted: Option<Share>,
    /// What the status said then.
    shown: Advertised,
    failures: u32,
    again: Instant,
}

impl Course {
    /// Those of the wrong nodes that are written now. What was written is given time to show in the watch, unless another
    /// number is wanted meanwhile or the status says something new; what failed waits longer each time.
    fn due(&mut self, now: Instant, wrong: Vec<Advertisement>) -> Vec<Advertisement> {
        let mut due = Vec::new();
        let mut still = BTreeMap::new();
        for node in wrong {
            let tried = self.0.remove(&node.node);
            let waits = tried.as_ref().is_some_and(|tried| {
                let is_same = tried.wanted == node.wanted && tried.shown == node.shown;
                now < tried.again && (tried.failures > 0 || is_same)
            });
            if let Some(tried) = tried {
                still.insert(node.node.clone(), tried);
            }
            if !waits && due.len() < MOST_WRITES {
                due.push(node);
            }
        }
        // Nodes that are right, or gone, begin anew.
        self.0 = still;
        due
    }

    fn written(&mut self, again: Instant, node: &Advertisement) {
        let tried = Tried {
            wanted: node.wanted,
            shown: node.shown,
            failures: 0,
            again,
        };
        self.0.insert(node.node.clone(), tried);
    }

    /// Notes a failure; whether it is to be told, which is the first and then each at the longest pause.
    fn failed(&mut self, now: Instant, first: Duration, node: &Advertisement) -> bool {
        let tried = self.0.entry(node.node.clone()).or_insert(Tried {
            wanted: node.wanted,
            shown: node.shown,
            failures: 0,
            again: now,
        });
        let factor = 1_u32.checked_shl(tried.failures).unwrap_or(u32::MAX);
        let pause = first.saturating_mul(factor).min(LONGEST_PAUSE);
        tried.failures = tried.failures.saturating_add(1);
        tried.wanted = node.wanted;
        tried.again = now + pause;
        tried.failures == 1 || pause == LONGEST_PAUSE
    }
}

/// What became of the nodes that advertised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Those whose status says nothing of the resource any more.
    pub removed: Vec<String>,
    /// Those that could not be changed, each with the reason.
    pub failed: Vec<(String, String)>,
}

/// Takes the resource off every node of a cluster.
///
/// # Errors
///
/// Where the nodes cannot be listed.
pub async fn remove_from_all(client: Client) -> Result<Removal, String> {
    let nodes: Api<Node> = Api::all(client);
    let mut removal = Removal::default();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = nodes
            .list(&page)
            .await
            .map_err(|error| format!("the nodes cannot be listed: {}", Causes(&error)))?;
        for node in list.items {
            removal.nodes += 1;
            let name = node.metadata.name.unwrap_or_default();
            let status = node.status.unwrap_or_default();
            let lists = [status.capacity, status.allocatable];
            if !lists
                .into_iter()
                .flatten()
                .any(|list| list.contains_key(RESOURCE))
            {
                continue;
            }
            match patch(&nodes, &name, None).await {
                Ok(()) => {
                    info!(node = name, "advertises no GPU memory any more");
                    removal.removed.push(name);
                }
                Err(Error::Api(status)) if status.code == 404 => {}
                Err(error) => removal.failed.push((name, Causes(&error).to_string())),
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(removal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, wanted: Option<u64>) -> Advertisement {
        Advertisement {
            node: Arc::from(name),
            wanted: wanted.map(Share::from_ppm),
            shown: Advertised::default(),
        }
    }

    fn names(due: &[Advertisement]) -> Vec<&str> {
        due.iter().map(|node| &*node.node).collect()
    }

    #[test]
    fn the_patch_sets_both_lists_or_takes_the_member_away() {
        assert_eq!(
            body(Some(Share::from_ppm(900_000))),
            json!({"status": {
                "capacity": {"vramgate.io/gpu-ppm": "900000"}, "allocatable": {"vramgate.io/gpu-ppm": "900000"},
            }})
        );
        assert_eq!(
            body(None),
            json!({"status": {"capacity": {"vramgate.io/gpu-ppm": null}, "allocatable": {"vramgate.io/gpu-ppm": null}}})
        );
    }

    #[test]
    fn what_was_written_is_given_time_to_show_unless_another_number_is_wanted() {
        let (mut course, now) = (Course::default(), Instant::now());
        assert_eq!(names(&course.due(now, vec![node("a", Some(1))])), ["a"]);
        course.written(now + Duration::from_secs(10), &node("a", Some(1)));
        assert!(course.due(now, vec![node("a", Some(1))]).is_empty());
        assert_eq!(names(&course.due(now, vec![node("a", Some(2))])), ["a"]);
        // A kubelet's reset that comes before any round has seen the number.
        let mut reset = node("a", Some(1));
        reset.shown.capacity = Some(Share::ZERO);
        assert_eq!(names(&course.due(now, vec![reset])), ["a"]);
        let later = now + Duration::from_secs(10);
        assert_eq!(names(&course.due(later, vec![node("a", Some(1))])), ["a"]);
        // Right in between, so that a reset is answered at once.
        course.written(later + Duration::from_secs(10), &node("a", Some(1)));
        assert!(course.due(later, Vec::new()).is_empty());
        assert_eq!(names(&course.due(later, vec![node("a", Some(1))])), ["a"]);
    }

    #[test]
    fn a_node_that_cannot_be_written_is_tried_ever_more_rarely() {
        let (mut course, mut now) = (Course::default(), Instant::now());
        let first = Duration::from_millis(500);
        let (mut tries, mut told) = (0, 0);
        let end = now + Duration::from_mins(10);
        while now < end {
            for node in course.due(now, vec![node("a", Some(1))]) {
                tries += 1;
                told += u32::from(course.failed(now, first, &node));
            }
            now += Duration::from_secs(1);
        }
        assert!((14..=18).contains(&tries), "{tries}");
        assert!((8..=11).contains(&told), "{told}");
    }

    #[test]
    fn a_round_has_an_end() {
        let mut course = Course::default();
        let many = (0..1_000)
            .map(|index| node(&index.to_string(), Some(1)))
            .collect();
        assert_eq!(course.due(Instant::now(), many).len(), MOST_WRITES);
    }
}
