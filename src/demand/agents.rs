//! VG210: agents that watch or check GPUs and ask for one. They are told of it, counted with one CUDA context, and never held
//! up. The table is data: `agents.yaml`.

use std::sync::OnceLock;

use serde::Deserialize;

use super::{Amount, Part};
use crate::engine::{Engine, Image, Placed, Reading, wildcard};
use crate::finding::{Code, Finding, short};
use crate::policy::spec::MibCount;
use crate::workload::slots::SlotRequest;

const EMBEDDED: &str = include_str!("agents.yaml");

/// A known agent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Agent {
    /// Last parts of image repositories.
    images: Vec<String>,
    does: String,
    instead: String,
    #[serde(rename = "memoryMiB")]
    memory: MibCount,
    #[expect(dead_code, reason = "for those who read the table")]
    source: String,
}

fn agents() -> &'static [Agent] {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document {
        agents: Vec<Agent>,
    }
    static AGENTS: OnceLock<Vec<Agent>> = OnceLock::new();
    AGENTS.get_or_init(|| {
        serde_saphyr::from_str(EMBEDDED)
            .map(|Document { agents }| agents)
            // A test proves that the embedded text can be read.
            .unwrap_or_default()
    })
}

/// The agent that a container is: by its image, where no inference engine was read from it and no policy says what it is.
pub(super) fn of(placed: Placed<'_>, readings: &[Reading]) -> Option<&'static Agent> {
    let unknown = readings.iter().all(|reading| reading.engine == Engine::Unknown);
    if !unknown {
        return None;
    }
    let name = Image::parse(&placed.container.image).name();
    agents()
        .iter()
        .find(|agent| agent.images.iter().any(|pattern| wildcard(pattern, name)))
}

/// Patterns of the last parts of their images' repositories; `*` stands for any text.
pub(super) fn images() -> impl Iterator<Item = &'static str> {
    agents()
        .iter()
        .flat_map(|agent| &agent.images)
        .map(String::as_str)
}

impl Agent {
    /// Counts it with what it is known to take.
    pub(super) fn count(&self, parts: &mut [Part]) {
        for part in parts {
            part.amount = Amount::Absolute(self.memory.0);
        }
    }

    /// VG210.
    pub(super) fn finding(&self, placed: Placed<'_>, slot: &SlotRequest) -> Finding {
        let image = Image::parse(&placed.container.image).name();
        Finding::new(
            Code::Vg210,
            slot.path.clone(),
            format!(
                "{} takes a slot of {}; it needs none to {}",
                short(image),
                slot.resource,
                self.does
            ),
        )
        .detail(self.instead.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table_is_read() {
        assert!(agents().len() >= 6);
        for agent in agents() {
            assert!(!agent.images.is_empty() && agent.memory.0 > crate::units::Mib::ZERO);
            assert!(agent.does.len() < 40 && !agent.instead.ends_with('.'));
        }
    }
}
