//! The keys that the JSON of an option may have, by release: `keys.tsv`.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::options;
use crate::engine::Version;

/// For each option, the keys of each release; empty where it takes any.
type Keys = HashMap<&'static str, Vec<Vec<&'static str>>>;

fn table() -> &'static Keys {
    static TABLE: OnceLock<Keys> = OnceLock::new();
    TABLE.get_or_init(|| {
        let releases = options::releases();
        let mut keys = Keys::new();
        for line in include_str!("keys.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            let mut column = line.split('\t');
            let mut next = || column.next().unwrap_or_default();
            let (option, key, since, until) = (next(), next(), next(), next());
            let position = |text: &str| {
                releases
                    .iter()
                    .position(|release| Version::parse(text) == Some(*release))
            };
            let Some(since) = position(since) else {
                continue;
            };
            let until = position(until).unwrap_or(releases.len() - 1);
            let phases = keys
                .entry(option)
                .or_insert_with(|| vec![Vec::new(); releases.len()]);
            for phase in &mut phases[since..=until] {
                phase.push(key);
            }
        }
        keys
    })
}

/// The keys that `option` takes in the release `version`; `None` where it takes any.
pub(super) fn of(option: &str, version: Version) -> Option<&'static [&'static str]> {
    let position = options::releases().binary_search(&version).ok()?;
    let keys = table().get(option)?.get(position)?;
    (!keys.is_empty()).then_some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_and_go_with_the_releases() {
        let has = |option, key, version| of(option, version).map(|keys| keys.contains(&key));
        let compilation = "--compilation-config";
        assert_eq!(has(compilation, "level", Version::new(0, 8, 5)), None);
        assert_eq!(has(compilation, "level", Version::new(0, 16, 0)), Some(true));
        assert_eq!(has(compilation, "level", Version::new(0, 33, 0)), Some(false));
        assert_eq!(
            has(compilation, "cudagraph_mode", Version::new(0, 33, 0)),
            Some(true)
        );
        assert_eq!(
            has("--speculative-config", "method", Version::new(0, 33, 0)),
            None
        );
    }

    #[test]
    fn every_line_names_an_option_and_releases_that_are_known() {
        for line in include_str!("keys.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            let columns: Vec<&str> = line.split('\t').collect();
            assert_eq!(columns.len(), 4, "{line}");
            for version in columns[2..].iter().filter(|text| !text.is_empty()) {
                let version = Version::parse(version);
                assert!(
                    options::releases().iter().any(|known| Some(*known) == version),
                    "{line}"
                );
            }
        }
    }
}
