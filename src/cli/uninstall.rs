//! `vramgate uninstall-node-resources`: nodes advertise no GPU memory any more.

use std::fmt::Write as _;

use super::args::UninstallNodeResources;
use super::{Failure, output, state};
use crate::cluster::advertise::{Removal, remove_from_all};
use crate::cluster::connect;
use crate::counted::RESOURCE;

/// Takes the resource off every node, and says of how many.
pub(super) fn run(args: &UninstallNodeResources) -> Result<(), Failure> {
    let path = args.kubeconfig.clone().or_else(state::users_kubeconfig);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("the runtime does not start: {error}")))?;
    let removal = runtime.block_on(async {
        let client = connect(path.as_deref())
            .await
            .map_err(|error| Failure::new(error.to_string()))?;
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
