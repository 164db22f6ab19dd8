//! The plain port: liveness, readiness, metrics, and a page for people.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

use super::metrics::{Format, Metrics};
use super::readiness::Readiness;

/// Makes the HTML of `/`.
pub type StatusPage = Arc<dyn Fn() -> String + Send + Sync>;

#[derive(Clone)]
struct Shared {
    readiness: Readiness,
    metrics: Arc<Metrics>,
    page: StatusPage,
}

pub(super) fn routes(readiness: Readiness, metrics: Arc<Metrics>, page: StatusPage) -> Router {
    Router::new()
        // Alive means: this answer. It hangs on nothing outside the process, or an API server's pause would restart it.
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics_text))
        .route(
            "/",
            get(async |State(shared): State<Shared>| Html((shared.page)())),
        )
        .fallback(async || {
            (
                StatusCode::NOT_FOUND,
                "there are /, /livez, /readyz and /metrics\n",
            )
        })
        .with_state(Shared {
            readiness,
            metrics,
            page,
        })
}

async fn ready(State(shared): State<Shared>) -> Response {
    if shared.readiness.is_ready() {
        return "ok\n".into_response();
    }
    let reasons = shared.readiness.reasons().join("\n");
    (
        StatusCode::SERVICE_UNAVAILABLE,
        format!("not ready:\n{reasons}\n"),
    )
        .into_response()
}

async fn metrics_text(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let accepts = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .unwrap_or_default();
    let format = Format::accepted(accepts);
    match shared.metrics.encode(format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("metrics: {error}\n")).into_response(),
    }
}
