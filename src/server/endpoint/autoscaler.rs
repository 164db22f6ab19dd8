//! The answer to the review of an object that scales another. Nobody waits for it: what cannot be told passes.

use super::{Reply, Shared, admit, outcome};
use crate::admission::{Answer, Review};
use crate::decision::AutoscalerQuestion;
use crate::server::metrics::Outcome;

pub(super) async fn reply(shared: &Shared, review: &Review<'_>, question: AutoscalerQuestion) -> Reply {
    if !shared.readiness.can_judge() {
        return admit(review, Outcome::NotReady);
    }
    let time = shared.settings.look_up_timeout;
    let backend = &shared.backend;
    let Some(mut target) = backend.autoscaled(&question, time).await else {
        return admit(review, Outcome::NotOurs);
    };
    backend.label(&mut target, time).await;
    let sources = backend.sources(&target, time).await;
    let autoscaler = &question.autoscaler;
    let verdict = backend
        .decider()
        .decide_autoscaler(autoscaler, target, sources.as_ref());
    for finding in &verdict.findings {
        shared.metrics.found(finding.code, finding.severity);
    }
    Reply {
        bytes: Answer::of(&review.uid, &autoscaler.object, &verdict).encode(),
        outcome: outcome(&verdict),
        reserved: None,
    }
}
