//! vramgate decides at admission whether a pod's GPU memory fits the devices that it can land on.
//!
//! ```text
//! AdmissionReview -> workload -> invocation -> engine -> device, placement -> decision -> response
//! watch -> cluster -> ledger
//! ```
//!
//! Without the features `server` and `cli` the crate is the pure core: it knows no clock, socket, file or cluster.

pub mod decision;
pub mod device;
pub mod engine;
pub mod finding;
pub mod invocation;
pub mod ledger;
pub mod policy;
pub mod units;
pub mod workload;
