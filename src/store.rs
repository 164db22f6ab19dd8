//! Where the records of nodes are kept: in the memory of this process, or as custom resources that all replicas share.

use futures::future::BoxFuture;

use crate::record::NodeRecord;

pub mod memory;

pub use memory::MemoryStore;

/// The version of a stored record. Compared for equality only, except by who watches one store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub String);

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The record.
    pub record: NodeRecord,
    /// Its version.
    pub version: Version,
}

/// Why a write did not take place, or is not known to have.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The stored version is another one; nothing was written.
    #[error("the record of node {node} was changed meanwhile")]
    Conflict {
        /// The node.
        node: String,
    },
    /// Nothing was written.
    #[error("the record of node {node} cannot be written: {reason}")]
    Refused {
        /// The node.
        node: String,
        /// Why, in words, with a remedy.
        reason: String,
    },
    /// It may have been written, or may be later.
    #[error("no answer to the write of the record of node {node}: {reason}")]
    Unknown {
        /// The node.
        node: String,
        /// What happened, in words.
        reason: String,
    },
}

/// A record could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the record of node {node} cannot be read: {reason}")]
pub struct ReadError {
    /// The node.
    pub node: String,
    /// Why, in words, with a remedy.
    pub reason: String,
}

/// Records of nodes by compare-and-swap.
pub trait Store: Send + Sync + 'static {
    /// The record of a node as it is now; `None` where there is none.
    fn read<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Option<Stored>, ReadError>>;

    /// Writes a record over the version `over`, or the first one of the node where that is `None`.
    fn write<'a>(
        &'a self,
        node: &'a str,
        record: &'a NodeRecord,
        over: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Stored, WriteError>>;

    /// Takes a node's record away if it has still this version.
    fn remove<'a>(&'a self, node: &'a str, over: &'a Version) -> BoxFuture<'a, Result<(), WriteError>>;
}
