//! Where a pod can stand.

pub mod candidates;
pub mod newcomer;
