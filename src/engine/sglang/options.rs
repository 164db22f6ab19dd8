//! The options of each release: `options.tsv`.

use std::sync::OnceLock;

use crate::engine::Version;
use crate::engine::argparse::table::{Spellings, Table};

pub use crate::engine::argparse::table::{Arity, Kind, OptionInfo};

/// How the server is started. Both ways have the same options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrypoint {
    /// `sglang serve …`: the words after `sglang`, `serve` included.
    Serve,
    /// `python -m sglang.launch_server …`: the words after the module.
    LaunchServer,
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

/// The spellings of the release at `position` in [`releases`].
pub(super) fn release(position: usize) -> Option<&'static Spellings> {
    table().spellings(position, 0, "")
}

/// The option that the release at `position` in [`releases`] has under this name or alias.
#[must_use]
pub fn option(position: usize, name: &str) -> Option<&'static OptionInfo> {
    release(position)?.named(name)
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
        assert_eq!(releases().len(), 8);
        assert!(releases().is_sorted());
    }

    #[test]
    fn an_option_keeps_its_name_through_the_releases() {
        let names = |spelling: &str| -> Vec<&str> {
            (0..releases().len())
                .filter_map(|position| option(position, spelling))
                .map(|option| option.name)
                .collect()
        };
        assert_eq!(names("--tensor-parallel-size"), ["--tp-size"; 8]);
        assert_eq!(names("--pipeline-parallel-size"), ["--pp-size"; 7]);
        assert_eq!(names("--mem_fraction_static"), [""; 0]);
    }
}
