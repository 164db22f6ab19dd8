//! The wire of `admission.k8s.io/v1`: bytes to a question that the core can judge, and a verdict to bytes.
//!
//! Pure: no clock, no socket. [`review`] decodes only the fields in use and leaves the object as it came until it is
//! known to be ours; [`response`] writes what the API server and `kubectl` print.

pub mod response;
pub mod review;

pub use response::Answer;
pub use review::{Asked, DecodeError, Review, Scale};
