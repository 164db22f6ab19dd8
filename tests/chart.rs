//! The Helm chart: what each value changes, what its schema refuses, and that registrations, roles and definitions in it are
//! those of the program and its documentation.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

#[path = "chart/generated.rs"]
mod generated;
#[path = "chart/helm.rs"]
mod helm;
#[path = "chart/kustomize.rs"]
mod kustomize;
#[path = "chart/objects.rs"]
mod objects;
#[path = "chart/registrations.rs"]
mod registrations;
#[path = "chart/roles.rs"]
mod roles;
#[path = "chart/schema.rs"]
mod schema;
#[path = "chart/values.rs"]
mod values;
