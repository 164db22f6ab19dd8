//! `vramgate uninstall-node-resources`: nodes advertise no GPU memory any more.

use std::fmt::Write as _;

use super::args::UninstallNodeResources;
use super::{Failure, output, state};
use crate::cluster::advertise::{Removal, remove_from_all};
use crate::cluster::uninstall::{end_deployment, remove_registrations};
use crate::counted::RESOURCE;
use crate::server::registration::{NAME, Target};

/// Takes the resource off every node, and says of how many.
pub(super) fn run(args: &UninstallNodeResources) -> Result<(), Failure> {
    let deployment = args.deployment.as_deref().map(deployment).transpose()?;
    let removal = state::on_cluster(args.kubeconfig.as_deref(), async |client| {
        if args.registrations {
            let removed = remove_registrations(&client, NAME).await.map_err(Failure::new)?;
            output::print(&format!("{removed} registrations deleted\n"))?;
        }
        if let Some((namespace, name)) = &deployment {
            let ended = end_deployment(&client, namespace, name, args.wait).await;
            let words = if ended.map_err(Failure::new)? {
                "has no pods any more"
            } else {
                "is not there"
            };
            output::print(&format!("Deployment {namespace}/{name} {words}\n"))?;
        }
        remove_from_all(client).await.map_err(Failure::new)
    })?;
    output::print(&report(&removal))?;
    if removal.failed.is_empty() {
        return Ok(());
    }
    let failures = removal
        .failed
        .iter()
        .map(|(node, why)| Failure::new(format!("node {node} still advertises {RESOURCE}: {why}")));
    Err(Failure::joined(failures.collect()))
}

/// Namespace and name of `--deployment`.
fn deployment(text: &str) -> Result<(String, String), Failure> {
    match Target::service(text) {
        Ok(Target::Service { namespace, name }) => Ok((namespace, name)),
        _ => Err(Failure::new(format!(
            "--deployment: {text:?} is not a Deployment: write NAMESPACE/NAME"
        ))),
    }
}

fn report(removal: &Removal) -> String {
    let mut text = String::new();
    for node in &removal.removed {
        let _ = writeln!(text, "{node}: {RESOURCE} removed");
    }
    let _ = writeln!(
        text,
        "{} of {} nodes advertised {RESOURCE}; removed from {}",
        removal.removed.len() + removal.failed.len(),
        removal.nodes,
        removal.removed.len()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_has_a_namespace_and_a_name() {
        assert_eq!(
            deployment("gpu/vramgate").unwrap(),
            ("gpu".to_owned(), "vramgate".to_owned())
        );
        for text in ["vramgate", "gpu/", "a/b/c"] {
            assert!(
                deployment(text)
                    .unwrap_err()
                    .to_string()
                    .contains("NAMESPACE/NAME")
            );
        }
    }

    #[test]
    fn the_report_names_each_node_and_counts() {
        let removal = Removal {
            nodes: 3,
            removed: vec!["a".to_owned()],
            failed: vec![("b".to_owned(), "no".to_owned())],
        };
        assert_eq!(
            report(&removal),
            "a: vramgate.io/gpu-ppm removed\n2 of 3 nodes advertised vramgate.io/gpu-ppm; removed from 1\n"
        );
    }
}
