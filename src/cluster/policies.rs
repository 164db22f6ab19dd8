//! What the leader says of policy objects in their status: whether each is accepted, what it is in conflict with, and how
//! many pods and nodes are under it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, Request, header};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{debug, warn};

use super::causes::Causes;
use super::freshness::{Freshness, Watched};
use super::leader::Leadership;
use super::timing::Timing;
use crate::policy::{Accepted, Report};

/// Where policies are served.
pub(super) const PATH: &str = "/apis/vramgate.io/v1alpha1/gpusharingpolicies";

/// Time between two looks: the most often that one policy's status is written.
const EVERY: Duration = Duration::from_secs(10);
/// Writes of one round; what is left is written in the next.
const MOST_WRITES: usize = 50;

/// Somebody who keeps the policy objects and brings them into force.
pub trait PolicyObjects: Send + Sync + 'static {
    /// These changed, and those are gone.
    fn change(&self, applied: Vec<Value>, gone: BTreeSet<String>);
    /// The names of those that are known.
    fn names(&self) -> BTreeSet<String>;
    /// What is to be said of each now. It may take a while, and is asked by the leader alone.
    fn sayings(&self) -> Vec<Saying>;
    /// A status was written.
    fn said(&self, _said: &Said) {}
}

/// What is to be said of one policy, and what its status says now.
#[derive(Clone, Debug)]
pub struct Saying {
    /// What became of it.
    pub report: Report,
    /// Pods under it.
    pub pods: u64,
    /// Nodes whose devices are under it.
    pub nodes: u64,
    /// Its status as the API server showed it last.
    pub status: Value,
}

/// A status that was written: the object's name, and the status.
#[derive(Clone, Debug)]
pub struct Said {
    /// Name of the policy.
    pub name: String,
    /// The status.
    pub status: Value,
}

/// See the module.
pub(super) struct PolicyReporter {
    pub(super) client: Client,
    pub(super) objects: Arc<dyn PolicyObjects>,
    pub(super) freshness: Arc<Freshness>,
    pub(super) leader: Leadership,
    pub(super) timing: Timing,
}

impl PolicyReporter {
    /// Goes on for good.
    pub(super) async fn run(mut self) {
        self.freshness.ready().await;
        let mut rounds = interval(EVERY);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut warned = false;
        loop {
            self.leader.gained().await;
            rounds.tick().await;
            if self.freshness.age_of(Watched::Policies) > self.timing.silence || !self.leader.is_leader() {
                continue;
            }
            let now = Timestamp::now().to_string();
            let due = self.objects.sayings();
            let due = due.iter().filter_map(|saying| {
                let status = status(saying, &now);
                (saying.status != status).then(|| (saying.report.name.clone(), status))
            });
            for (name, status) in due.take(MOST_WRITES) {
                match self.write(&name, &status).await {
                    Ok(()) => {
                        warned = false;
                        debug!(policy = name, "the status of the policy is written");
                        self.objects.said(&Said { name, status });
                    }
                    Err(problem) => {
                        if !std::mem::replace(&mut warned, true) {
                            warn!(policy = name, "the status of a policy is not written: {problem}");
                        }
                    }
                }
            }
        }
    }

    async fn write(&self, name: &str, status: &Value) -> Result<(), String> {
        let body = json!({"status": status});
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(format!("{PATH}/{name}/status?fieldManager=vramgate"))
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .body(body.to_string().into_bytes())
            .map_err(|error| error.to_string())?;
        let within = self.timing.housekeeping_timeout;
        match timeout(within, self.client.request_text(request)).await {
            Ok(Ok(_)) => Ok(()),
            // It is gone; the watch will tell of it.
            Ok(Err(kube::Error::Api(answer))) if answer.code == 404 => Ok(()),
            Ok(Err(kube::Error::Api(answer))) if answer.code == 403 => Err(format!(
                "vramgate may not write it ({}); grant its service account `patch` on gpusharingpolicies/status",
                answer.message
            )),
            Ok(Err(error)) => Err(Causes(&error).to_string()),
            Err(_) => Err(format!("no answer within {within:?}")),
        }
    }
}

/// The status that is to be there. A condition that stays as it is keeps the time since when it is so.
fn status(saying: &Saying, now: &str) -> Value {
    let report = &saying.report;
    let is_accepted = report.accepted == Accepted::InForce;
    let conflict = report.conflict();
    let condition = |kind: &str, holds: bool, reason: &str, message: &str| {
        let word = if holds { "True" } else { "False" };
        let before = saying.status["conditions"].as_array().into_iter().flatten();
        let since = before
            .filter(|before| before["type"] == kind && before["status"] == word)
            .find_map(|before| before["lastTransitionTime"].as_str());
        json!({
            "type": kind,
            "status": word,
            "reason": reason,
            "message": message,
            "observedGeneration": report.generation,
            "lastTransitionTime": since.unwrap_or(now),
        })
    };
    let (reason, message) = match &conflict {
        Some(message) => ("SamePriority", message.as_str()),
        None => (
            "None",
            "no policy of the same priority may apply to the same pods",
        ),
    };
    json!({
        "observedGeneration": report.generation,
        "matchedPods": saying.pods,
        "matchedNodes": saying.nodes,
        "conditions": [
            condition("Accepted", is_accepted, report.accepted.reason(), &report.message),
            condition("Conflicts", conflict.is_some(), reason, message),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saying(accepted: Accepted, conflicts: &[&str], status: Value) -> Saying {
        Saying {
            report: Report {
                name: "p".to_owned(),
                generation: 3,
                accepted,
                message: "why".to_owned(),
                conflicts: conflicts.iter().map(|name| (*name).to_owned()).collect(),
            },
            pods: 4,
            nodes: 2,
            status,
        }
    }

    #[test]
    fn a_condition_keeps_its_time_while_it_stays() {
        let first = status(&saying(Accepted::InForce, &[], Value::Null), "t1");
        assert_eq!(first["observedGeneration"], 3);
        assert_eq!(
            (&first["matchedPods"], &first["matchedNodes"]),
            (&json!(4), &json!(2))
        );
        assert_eq!(first["conditions"][0]["status"], "True");
        assert_eq!(first["conditions"][0]["reason"], "InForce");
        assert_eq!(first["conditions"][1]["status"], "False");
        assert_eq!(first["conditions"][1]["lastTransitionTime"], "t1");
        // Nothing new is nothing to write.
        let again = status(&saying(Accepted::InForce, &[], first.clone()), "t2");
        assert_eq!(first, again);
        let then = status(&saying(Accepted::FormerInForce, &["a"], first.clone()), "t3");
        assert_eq!(then["conditions"][0]["status"], "False");
        assert_eq!(then["conditions"][0]["reason"], "FormerInForce");
        assert_eq!(then["conditions"][0]["lastTransitionTime"], "t3");
        assert_eq!(then["conditions"][1]["status"], "True");
        assert!(
            then["conditions"][1]["message"]
                .as_str()
                .unwrap()
                .contains("nodes: a;")
        );
        let still = status(&saying(Accepted::Invalid, &["a"], then.clone()), "t4");
        assert_eq!(still["conditions"][0]["lastTransitionTime"], "t3");
        assert_ne!(then, still);
    }
}
