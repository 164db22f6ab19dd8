//! The cluster that a command is about: snapshots, the embedded example, or a live API server.

use std::path::PathBuf;

use super::args::ClusterArgs;
use super::{Failure, input};
use crate::manifest::{self, Limits, ManifestError, Object};
use crate::snapshot::Snapshot;

mod live;

/// The example cluster that needs no Kubernetes.
const EXAMPLE: &[u8] = include_bytes!("../../examples/cluster.yaml");
const EXAMPLE_NAME: &str = "examples/cluster.yaml (built in)";

/// Reads the cluster that `check` and `top` are asked about.
pub(super) fn of(args: &ClusterArgs) -> Result<Snapshot, Failure> {
    if args.cluster_state.is_empty() {
        return live::snapshot(args.kubeconfig.as_deref());
    }
    from_files(&args.cluster_state)
}

/// Reads snapshots from files, as one cluster.
pub(super) fn from_files(files: &[PathBuf]) -> Result<Snapshot, Failure> {
    let mut snapshot = Snapshot::default();
    input::each(files, input::MAX_SNAPSHOT_BYTES, &mut |source| {
        manifest::read(&source.bytes, &source.name, Limits::SNAPSHOT, &mut |object| {
            snapshot.add(&object)
        })?;
        Ok(())
    })?;
    if snapshot.has_no_nodes() {
        return Err(Failure::new(
            "the cluster state holds no Node, so there is nothing to judge against; \
             write it with: kubectl get nodes,namespaces,configmaps,deployments,replicasets,pods -A -o yaml",
        ));
    }
    Ok(snapshot)
}

/// The embedded example cluster.
pub(super) fn example() -> Result<Snapshot, Failure> {
    let mut snapshot = Snapshot::default();
    manifest::read(EXAMPLE, EXAMPLE_NAME, Limits::SNAPSHOT, &mut |object| {
        snapshot.add(&object)
    })?;
    Ok(snapshot)
}

/// Reads every object of the input files, in order.
pub(super) fn input(files: &[PathBuf]) -> Result<Vec<Object>, Failure> {
    let mut objects = Vec::new();
    input::each(files, input::MAX_INPUT_BYTES, &mut |source| {
        objects.extend(manifest::objects(&source.bytes, &source.name, Limits::INPUT)?);
        Ok(())
    })?;
    Ok(objects)
}

/// Takes the context out of the input and into the snapshot, wherever it stands; the rest keeps its order.
pub(super) fn take_context(
    objects: Vec<Object>,
    snapshot: &mut Snapshot,
) -> Result<Vec<Object>, ManifestError> {
    let mut rest = Vec::new();
    for object in objects {
        if !snapshot.add_context(&object)? {
            rest.push(object);
        }
    }
    Ok(rest)
}
