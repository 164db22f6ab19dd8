//! The product's main job on a real control plane: kube-apiserver asks, vramgate counts, the pod that does not fit is
//! refused before it exists.
//!
//! All scenarios share one cluster (etcd, kube-apiserver, kube-controller-manager, kube-scheduler; kwok plays the
//! kubelets) and one `vramgate serve`. Each has a namespace and nodes of its own, so they do not disturb each other;
//! those that stop vramgate or take its registrations away have the cluster to themselves while they do.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    clippy::needless_pass_by_value,
    clippy::missing_panics_doc
)]

mod access;
mod api;
mod autoscalers;
mod balancer;
mod base_rules;
mod certificates;
mod chart;
mod churn;
mod claims;
mod cluster;
mod configuration;
mod control_plane;
mod counted;
mod custom_kinds;
mod denials;
mod manifests;
mod mig;
mod mutation;
mod operations;
mod outage;
mod own_ca;
mod placement;
mod policies;
mod process;
mod races;
mod replicas;
mod sabotage;
mod scenario;
mod spread;
mod store;
mod time_slicing;
mod trouble;
mod vramgate;
