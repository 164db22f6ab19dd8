//! The cluster that a command is about: snapshots, the embedded example, or a live API server.

use std::path::PathBuf;

use super::args::ClusterArgs;
use super::{Failure, input};
use crate::configuration::Configuration;
use crate::manifest::{self, Limits, Object, Origin};
use crate::snapshot::{self, Snapshot};
use crate::workload::Autoscaler;

mod live;

pub(super) use live::on_cluster;

/// The example cluster that needs no Kubernetes.
const EXAMPLE: &[u8] = include_bytes!("../../examples/cluster.yaml");
const EXAMPLE_NAME: &str = "examples/cluster.yaml (built in)";

/// Reads the cluster that `check` and `top` are asked about.
pub(super) fn of(args: &ClusterArgs) -> Result<Snapshot, Failure> {
    let snapshot = of_any(args)?;
    has_nodes(&snapshot)?;
    Ok(snapshot)
}

/// The same, where it may have no node.
pub(super) fn of_any(args: &ClusterArgs) -> Result<Snapshot, Failure> {
    if args.cluster_state.is_empty() {
        return live::snapshot(args.kubeconfig.as_deref());
    }
    read(&args.cluster_state)
}

/// Reads snapshots from files, as one cluster.
pub(super) fn from_files(files: &[PathBuf]) -> Result<Snapshot, Failure> {
    let snapshot = read(files)?;
    has_nodes(&snapshot)?;
    Ok(snapshot)
}

/// An error for a cluster without a node: there is nothing that pods could be judged against.
pub(super) fn has_nodes(snapshot: &Snapshot) -> Result<(), Failure> {
    if snapshot.has_no_nodes() {
        return Err(Failure::new(
            "the cluster state holds no Node, so there is nothing to judge against; \
             write it with: kubectl get nodes,namespaces,configmaps,deployments,replicasets,pods -A -o yaml",
        ));
    }
    Ok(())
}

fn read(files: &[PathBuf]) -> Result<Snapshot, Failure> {
    let mut snapshot = Snapshot::default();
    input::each(files, input::MAX_SNAPSHOT_BYTES, &mut |source| {
        manifest::read(&source.bytes, &source.name, Limits::SNAPSHOT, &mut |object| {
            snapshot.add(&object)
        })?;
        Ok(())
    })?;
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

/// Reads every object of the input files, in order. What cannot be read goes to `failures`, and the rest is still read.
pub(super) fn input(files: &[PathBuf], failures: &mut Vec<Failure>) -> Vec<Object> {
    input_with(files, failures, &mut |_| {})
}

/// The same, and hands each text on once its objects are read.
pub(super) fn input_with(
    files: &[PathBuf],
    failures: &mut Vec<Failure>,
    keep: &mut dyn FnMut(input::Source),
) -> Vec<Object> {
    let mut objects = Vec::new();
    for file in files {
        let read = input::each(
            std::slice::from_ref(file),
            input::MAX_INPUT_BYTES,
            &mut |source| {
                let errors = manifest::read_all(&source.bytes, &source.name, Limits::INPUT, &mut |object| {
                    objects.push(object);
                    Ok(())
                });
                failures.extend(errors.into_iter().map(Failure::from));
                keep(source);
                Ok(())
            },
        );
        failures.extend(read.err());
    }
    objects
}

/// An object of the input that is to be judged.
pub(super) enum Applied {
    /// One that can configure GPUs, with what the cluster had under its name.
    Configuration(Configuration, Option<Configuration>, Origin),
    /// One that scales another, judged once all others are applied.
    Autoscaler(Autoscaler, Origin),
    /// Any other.
    Object(Object),
}

impl Applied {
    /// What is more than context.
    pub(super) fn into_object(self) -> Option<Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Configuration(..) | Self::Autoscaler(..) => None,
        }
    }
}

/// Takes the context out of the input and into the snapshot, wherever it stands; the rest keeps its order, and so does what
/// is judged although it is context.
pub(super) fn take_context(
    objects: Vec<Object>,
    snapshot: &mut Snapshot,
    failures: &mut Vec<Failure>,
) -> Vec<Applied> {
    let mut rest = Vec::new();
    for object in objects {
        let configuration = snapshot::read_configuration(&object).ok().flatten();
        let old = configuration
            .as_ref()
            .and_then(|configuration| snapshot.configuration(configuration));
        match (snapshot.add_context(&object), configuration) {
            (Ok(true), Some(configuration)) => {
                rest.push(Applied::Configuration(configuration, old, object.origin));
            }
            (Ok(true), None) => {}
            (Ok(false), _) => match Autoscaler::read(&object.value) {
                Ok(Some(autoscaler)) => rest.push(Applied::Autoscaler(autoscaler, object.origin)),
                Ok(None) => rest.push(Applied::Object(object)),
                Err(malformed) => {
                    let (kind, name) = (object.kind(), object.name());
                    failures.push(object.error(format!("{kind} {name:?}: {malformed}")).into());
                }
            },
            (Err(error), _) => failures.push(error.into()),
        }
    }
    rest
}
