//! vramgate decides at admission whether a pod's GPU memory fits the devices that it can land on.
//!
//! ```text
//! AdmissionReview -> workload -> invocation -> engine -> device, placement -> decision -> response
//! watch -> cluster -> ledger
//! ```
//!
//! Without the features `server` and `cli` the crate is the pure core: it knows no clock, socket, file or cluster.

pub mod admission;
pub mod advise;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "server")]
pub mod cluster;
pub mod configuration;
pub mod counted;
pub mod decision;
pub mod demand;
pub mod device;
pub mod document;
pub mod dra;
pub mod engine;
pub mod finding;
pub mod fit;
pub mod footprint;
pub mod guard;
pub mod invocation;
pub mod ledger;
pub mod lint;
pub mod manifest;
pub mod message;
pub mod mig;
pub mod model;
pub mod placement;
pub mod plan;
pub mod policy;
pub mod quantity;
pub mod record;
#[cfg(feature = "server")]
pub mod server;
pub mod snapshot;
#[cfg(feature = "server")]
pub mod store;
pub mod suite;
pub mod units;
pub mod workload;
