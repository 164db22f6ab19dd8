//! The options of each release: `options.tsv`.

use std::sync::OnceLock;

use crate::engine::Version;
use crate::engine::argparse::table::{Spellings, Table};

pub use crate::engine::argparse::table::{Arity, Kind, OptionInfo};

/// How a server is started: each has options that the other lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrypoint {
    /// `vllm serve …`: the words after `vllm`, `serve` included.
    Serve,
    /// `python -m vllm.entrypoints.openai.api_server …`: the words after the module.
    ApiServer,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::read(include_str!("options.tsv")))
}

/// The releases whose options are known exactly, oldest first.
#[must_use]
pub fn releases() -> &'static [Version] {
    &table().versions
}

/// The index of the release at `position` in [`releases`].
pub(super) fn release(position: usize, entrypoint: Entrypoint) -> Option<&'static Spellings> {
    match entrypoint {
        Entrypoint::Serve => table().spellings(position, 0, "api_server"),
        Entrypoint::ApiServer => table().spellings(position, 1, "serve"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = include_str!("options.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .count();
        assert_eq!(table().options.len(), lines - 1);
        assert_eq!(releases().len(), 24);
        assert!(releases().is_sorted());
    }

    #[test]
    fn prefixes_are_found_in_the_release_at_hand() {
        let newest = release(releases().len() - 1, Entrypoint::Serve).unwrap();
        assert_eq!(
            newest
                .starting_with("--gpu-mem")
                .map(|s| s.text)
                .collect::<Vec<_>>(),
            ["--gpu-memory-utilization"]
        );
        assert!(newest.exact("--swap-space").is_none());
        assert!(
            release(0, Entrypoint::Serve)
                .unwrap()
                .exact("--swap-space")
                .is_some()
        );
    }
}
