//! One request: body, review, look-ups, decision, answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;

use super::Settings;
use super::backend::{Backend, Reserved};
use super::body::{self, AnswerBody, BodyLimits};
use super::metrics::{Endpoint, Kind, Metrics, Outcome, Refusal};
use super::readiness::Readiness;
use crate::admission::{Answer, Asked, Review};
use crate::decision::{ConfigurationQuestion, Question, Verdict};
use crate::finding::{Code, Severity};
use crate::workload::{Malformed, ObjectRef, WorkloadKind};

mod autoscaler;

/// What every request shares.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) backend: Arc<Backend>,
    pub(super) readiness: Readiness,
    pub(super) metrics: Arc<Metrics>,
    pub(super) settings: Arc<Settings>,
}

/// What is left of a review's time when a reservation that no record holds yet is given up, to say so.
const TO_ANSWER: std::time::Duration = std::time::Duration::from_millis(100);

/// An answer and what is counted of it.
struct Reply {
    bytes: Vec<u8>,
    outcome: Outcome,
    reserved: Option<Reserved>,
}

/// A request that gets no review.
struct Refused {
    status: StatusCode,
    reason: Refusal,
    message: String,
}

pub(super) async fn mutate(State(shared): State<Shared>, request: Request) -> Response {
    caught(&shared, Endpoint::Mutate, request).await
}

pub(super) async fn validate(State(shared): State<Shared>, request: Request) -> Response {
    caught(&shared, Endpoint::Validate, request).await
}

pub(super) async fn wrong_method(State(shared): State<Shared>, request: Request) -> Response {
    let message = format!(
        "{} is not accepted here: POST an AdmissionReview",
        request.method()
    );
    let method = request.method().clone();
    let mut response = refuse_read(
        &shared,
        request,
        StatusCode::METHOD_NOT_ALLOWED,
        Refusal::Method,
        message,
    )
    .await;
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static("POST"));
    if method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    response
}

pub(super) async fn not_found(State(shared): State<Shared>, request: Request) -> Response {
    let message = "there are POST /mutate and POST /validate".to_owned();
    refuse_read(
        &shared,
        request,
        StatusCode::NOT_FOUND,
        Refusal::NotFound,
        message,
    )
    .await
}

/// Refuses after the body was read, which the caller is still sending.
async fn refuse_read(
    shared: &Shared,
    request: Request,
    status: StatusCode,
    reason: Refusal,
    message: String,
) -> Response {
    // Whatever became of the body, the answer is the same.
    let _ = body::read(request.into_body(), shared.body_limits()).await;
    shared.refuse(&Refused {
        status,
        reason,
        message,
    })
}

/// The last net: a panic outside the decision ends one request and not the process.
async fn caught(shared: &Shared, endpoint: Endpoint, request: Request) -> Response {
    let answered = AssertUnwindSafe(respond(shared, endpoint, request))
        .catch_unwind()
        .await;
    match answered {
        Ok(Ok(response)) => response,
        Ok(Err(refused)) => shared.refuse(&refused),
        Err(_) => {
            shared.metrics.fault();
            tracing::error!("a request made the program panic; it goes on");
            shared.refuse(&Refused {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                reason: Refusal::Failure,
                message: "a fault of vramgate itself, which is in its log".to_owned(),
            })
        }
    }
}

async fn respond(shared: &Shared, endpoint: Endpoint, request: Request) -> Result<Response, Refused> {
    let deadline = tokio::time::Instant::now() + shared.settings.deadline;
    let (parts, body) = request.into_parts();
    let body = body::read(body, shared.body_limits()).await.map_err(|error| {
        let (status, reason) = error.status();
        Refused {
            status,
            reason,
            message: error.to_string(),
        }
    })?;
    let started = Instant::now();
    check_media_type(parts.headers.get(header::CONTENT_TYPE))?;
    let bad = |message: String| Refused {
        status: StatusCode::BAD_REQUEST,
        reason: Refusal::BadRequest,
        message,
    };
    if body.is_empty() {
        return Err(bad(
            "the body is empty: POST an AdmissionReview as JSON".to_owned()
        ));
    }
    let mut review = Review::decode(&body).map_err(|error| bad(error.to_string()))?;

    let kind = if &*review.sub_resource == "scale" || review.is_autoscaler() {
        Kind::Scale
    } else {
        review.workload_kind().into()
    };
    let reply = match endpoint {
        Endpoint::Mutate => {
            let work = AssertUnwindSafe(tokio::time::timeout_at(deadline, mutate_pod(shared, &mut review)))
                .catch_unwind();
            // Nothing is ever refused here: what goes wrong leaves the object as it is, to be judged so.
            match work.await {
                Ok(Ok(reply)) => reply,
                Ok(Err(_)) => admit(&review, Outcome::Deadline),
                Err(_) => {
                    shared.metrics.fault();
                    tracing::error!(uid = &*review.uid, "the mutation panicked; the process goes on");
                    admit(&review, Outcome::Failure)
                }
            }
        }
        Endpoint::Validate => {
            let work = AssertUnwindSafe(tokio::time::timeout_at(
                deadline,
                decide(shared, &mut review, deadline),
            ))
            .catch_unwind();
            match work.await {
                Ok(Ok(reply)) => reply,
                Ok(Err(_)) => late(&review),
                Err(_) => failed(shared, &review)?,
            }
        }
    };
    shared
        .metrics
        .reviewed(endpoint, kind, reply.outcome, started.elapsed());
    let answer = Body::new(AnswerBody::new(reply.bytes, reply.reserved));
    Ok((
        [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))],
        answer,
    )
        .into_response())
}

/// Look-ups, then the changes that the policy makes.
async fn mutate_pod(shared: &Shared, review: &mut Review<'_>) -> Reply {
    let time = shared.settings.look_up_timeout;
    let backend = &shared.backend;
    let mut question = match review.question(std::collections::BTreeMap::new()) {
        Ok(Asked::Workload(question)) => *question,
        // An object that cannot be read is the validating call's to refuse.
        Ok(Asked::Scale(_) | Asked::Autoscaler(_) | Asked::Configuration(_) | Asked::NotOurs) | Err(_) => {
            return admit(review, Outcome::NotOurs);
        }
    };
    if !shared.readiness.can_judge() {
        return admit(review, Outcome::NotReady);
    }
    backend.label(&mut question, time).await;
    let sources = backend.sources(&question, time).await;
    let patches = backend.decider().mutate(question, sources.as_ref());
    let outcome = if patches.is_empty() {
        Outcome::NotOurs
    } else {
        Outcome::Admit
    };
    Reply {
        bytes: Answer::admit_with_patches(&review.uid, &patches).encode(),
        outcome,
        reserved: None,
    }
}

/// Look-ups, then the decision. No lock is held at an `await`.
async fn decide(shared: &Shared, review: &mut Review<'_>, deadline: tokio::time::Instant) -> Reply {
    let time = shared.settings.look_up_timeout;
    let backend = &shared.backend;
    // Labels are added below: most reviews that are not ours need none.
    let mut question = match review.question(std::collections::BTreeMap::new()) {
        Ok(Asked::NotOurs) => return admit(review, Outcome::NotOurs),
        Ok(Asked::Workload(question)) => *question,
        Ok(Asked::Configuration(question)) => return configure(shared, review, *question).await,
        Ok(Asked::Autoscaler(question)) => return autoscaler::reply(shared, review, *question).await,
        Ok(Asked::Scale(scale)) => match backend.scaled(&scale, time).await {
            Some(question) => question,
            None => return admit(review, Outcome::NotOurs),
        },
        Err(malformed)
            if review.is_autoscaler() || matches!(review.workload_kind(), Some(WorkloadKind::Custom(_))) =>
        {
            return let_through_unread(review, &malformed);
        }
        Err(malformed) => {
            let object = review.object_ref();
            tracing::info!(uid = &*review.uid, ?object, %malformed, "denied: the object cannot be read");
            let bytes = Answer::malformed(&review.uid, &object, &malformed).encode();
            return Reply {
                bytes,
                outcome: Outcome::Malformed,
                reserved: None,
            };
        }
    };
    backend.label(&mut question, time).await;
    if !shared.readiness.can_judge() {
        return not_ready(shared, review, question);
    }
    backend.trim(&question, time).await;
    let sources = backend.sources(&question, time).await;
    let object = question.workload.object.clone();
    let maker = backend.maker(&question);
    let until = deadline.checked_sub(TO_ANSWER).unwrap_or(deadline);
    let decision = backend.decider().decide(question, sources.as_ref(), until).await;
    let reserved = decision
        .reserved
        .map(|uid| Reserved::new(Arc::clone(backend.decider()), Arc::clone(&shared.metrics), uid));
    let verdict = decision.verdict;
    if let (true, Some(malformed)) = (verdict.admit, &verdict.malformed) {
        return let_through_unread(review, malformed);
    }
    for finding in &verdict.findings {
        shared.metrics.found(finding.code, finding.severity);
    }
    if !verdict.admit || verdict.would_deny {
        log(review, &object, &verdict);
        shared.metrics.would_deny(&object.namespace, &verdict);
        backend.tell_denied(&object.namespace, maker.as_ref(), &verdict);
    }
    Reply {
        bytes: Answer::of(&review.uid, &object, &verdict).encode(),
        outcome: outcome(&verdict),
        reserved,
    }
}

/// The verdict on what configures GPUs. Before the caches are filled it passes: nobody waits for it.
async fn configure(shared: &Shared, review: &Review<'_>, mut question: ConfigurationQuestion) -> Reply {
    if !shared.readiness.can_judge() {
        return admit(review, Outcome::NotReady);
    }
    let backend = &shared.backend;
    backend
        .complete(&mut question, shared.settings.look_up_timeout)
        .await;
    let verdict = backend.decider().decide_configuration(&question);
    let object = question.object.object();
    for finding in &verdict.findings {
        shared.metrics.found(finding.code, finding.severity);
    }
    if !verdict.admit || verdict.would_deny {
        log(review, &object, &verdict);
        shared.metrics.would_deny(&object.namespace, &verdict);
    }
    Reply {
        bytes: Answer::of(&review.uid, &object, &verdict).encode(),
        outcome: outcome(&verdict),
        reserved: None,
    }
}

/// Another release of its operator may read an object of another schema otherwise, and its pods come here themselves.
fn let_through_unread(review: &Review<'_>, malformed: &Malformed) -> Reply {
    tracing::info!(uid = &*review.uid, %malformed, "let through: the object cannot be read");
    let warning = format!("not judged, only its pods will be: {malformed}");
    Reply {
        bytes: Answer::admit_with_warning(&review.uid, &warning).encode(),
        outcome: Outcome::Malformed,
        reserved: None,
    }
}

const fn outcome(verdict: &Verdict) -> Outcome {
    match (verdict.judged, verdict.admit, verdict.would_deny) {
        (_, false, _) if verdict.malformed.is_some() => Outcome::Malformed,
        (_, false, _) => Outcome::Deny,
        (false, true, _) => Outcome::NotOurs,
        (true, true, true) => Outcome::WouldDeny,
        (true, true, false) => Outcome::Admit,
    }
}

/// Before the caches are filled nothing can be summed. Pods that would be judged are held, for their controllers try
/// again; everything else passes.
fn not_ready(shared: &Shared, review: &Review<'_>, question: Question) -> Reply {
    if !shared.backend.decider().concerns_gpus(question) {
        return admit(review, Outcome::NotOurs);
    }
    let reasons = shared.readiness.reasons().join("; ");
    let message = format!("GPU memory cannot be counted yet ({reasons}); try again in a few seconds");
    shared.metrics.found(Code::Vg901, Severity::Error);
    unjudged(review, Outcome::NotReady, &message)
}

/// A decided answer is better than the API server's own timeout, whose text says nothing.
fn late(review: &Review<'_>) -> Reply {
    tracing::warn!(uid = &*review.uid, "own deadline passed");
    unjudged(
        review,
        Outcome::Deadline,
        "GPU memory could not be counted in time; try again",
    )
}

/// Only pods are held: a workload review is advice, and its pods come here themselves.
fn unjudged(review: &Review<'_>, outcome: Outcome, message: &str) -> Reply {
    let object = review.object_ref();
    if review.workload_kind() == Some(WorkloadKind::Pod) {
        let bytes = Answer::refuse(&review.uid, &object, Code::Vg901, message).encode();
        return Reply {
            bytes,
            outcome,
            reserved: None,
        };
    }
    let warning = format!("{}: {message}", Code::Vg901);
    Reply {
        bytes: Answer::admit_with_warning(&review.uid, &warning).encode(),
        outcome,
        reserved: None,
    }
}

/// The decision panicked. A pod is denied with the API's code for a fault of the server; for anything else the
/// registration's `failurePolicy: Ignore` decides.
fn failed(shared: &Shared, review: &Review<'_>) -> Result<Reply, Refused> {
    shared.metrics.fault();
    let object = review.object_ref();
    tracing::error!(
        uid = &*review.uid,
        ?object,
        "the decision panicked; the process goes on"
    );
    let message = "vramgate failed on this object; this is a fault of vramgate, which is in its log";
    if review.workload_kind() != Some(WorkloadKind::Pod) {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        return Err(Refused {
            status,
            reason: Refusal::Failure,
            message: message.to_owned(),
        });
    }
    let bytes = Answer::fault(&review.uid, &object, message).encode();
    Ok(Reply {
        bytes,
        outcome: Outcome::Failure,
        reserved: None,
    })
}

fn admit(review: &Review<'_>, outcome: Outcome) -> Reply {
    Reply {
        bytes: Answer::admit(&review.uid).encode(),
        outcome,
        reserved: None,
    }
}

fn log(review: &Review<'_>, object: &ObjectRef, verdict: &Verdict) {
    let codes: Vec<&str> = verdict
        .findings
        .iter()
        .map(|finding| finding.code.as_str())
        .collect();
    tracing::info!(
        uid = &*review.uid,
        kind = object.kind,
        namespace = object.namespace,
        name = object.name,
        codes = codes.join(","),
        policy = verdict.policy,
        dry_run = review.dry_run,
        "{}",
        if verdict.admit {
            "would be denied"
        } else {
            "denied"
        },
    );
}

/// `application/json`, with or without parameters.
fn check_media_type(value: Option<&HeaderValue>) -> Result<(), Refused> {
    let text = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let shown: String = text.chars().take(80).collect();
    Err(Refused {
        status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
        reason: Refusal::MediaType,
        message: format!("Content-Type {shown:?} is not accepted: send application/json"),
    })
}

impl Shared {
    fn body_limits(&self) -> BodyLimits {
        let Settings {
            body_limit,
            drain_limit,
            body_timeout,
            ..
        } = *self.settings;
        BodyLimits {
            keep: body_limit,
            drain: drain_limit.max(body_limit),
            time: body_timeout,
        }
    }

    fn refuse(&self, refused: &Refused) -> Response {
        self.metrics.refused(refused.reason);
        (refused.status, format!("{}\n", refused.message)).into_response()
    }
}
