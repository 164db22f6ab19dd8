//! The webhook over real TLS on loopback: what the API server and what anybody else may send.
//!
//! The decision is a stand-in that answers by the pod's name, so that these tests are about the wire alone.
#![cfg(feature = "server")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

mod bad_input;
mod budget;
mod client;
mod connections;
mod fake;
#[path = "../kit/mod.rs"]
mod kit;
mod lifecycle;
mod reviews;
