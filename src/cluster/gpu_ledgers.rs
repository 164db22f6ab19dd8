//! `GpuLedger`: the custom resource that replicas share. One object for each node with shared devices, named as the node
//! and owned by it, so that the garbage collector removes it with the node. It has no spec: nobody orders anything by it.
//!
//! ```text
//! server's recorder --write over a version--> store --PUT /status--> API server
//! ledger <-- fold <-- watch <--------------------------------------'
//! ```

mod definition;
mod object;
mod store;

pub use definition::{DEFINITION, DEFINITION_NAME};
pub use store::KubernetesStore;

pub(super) use object::GpuLedger;

/// Where the objects are served.
pub(super) const PATH: &str = "/apis/vramgate.io/v1alpha1/gpuledgers";

/// What a missing definition asks for.
pub(super) const DEFINE: &str = "install it with `vramgate crds | kubectl apply -f -`";
