//! The paths of the HTTPS port.

use axum::Router;
use axum::routing::post;

use super::endpoint::{self, Shared};

pub(super) fn reviews(shared: Shared) -> Router {
    Router::new()
        .route("/mutate", post(endpoint::mutate).fallback(endpoint::wrong_method))
        .route(
            "/validate",
            post(endpoint::validate).fallback(endpoint::wrong_method),
        )
        .fallback(endpoint::not_found)
        .with_state(shared)
}
