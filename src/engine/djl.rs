//! DJL Serving (the LMI containers): `serving.properties` and variables choose an engine inside and give it its options.
//!
//! Sources: deepjavalibrary/djl-serving `serving/docs/lmi/deployment_guide/configurations.md` (the file overrides the
//! environment), `wlm/src/main/java/ai/djl/serving/wlm/LmiConfigRecommender.java` (back end and degree of tensor
//! parallelism that are not stated), `engines/python/setup/djl_python/properties_manager/` (names of options).

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Reading, Resolvable, Unresolved};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

mod backend;
mod properties;
mod provenance;
mod settings;

use settings::Settings;

/// The entrypoint of its images.
const ENTRYPOINT: &str = "dockerd-entrypoint.sh";

/// The reader of DJL Serving.
pub(super) struct Djl;

impl Reader for Djl {
    fn engine(&self) -> Engine {
        Engine::Vllm
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        is_image(image).then(|| vec![Cow::Borrowed(ENTRYPOINT)])
    }

    fn runs(&self, program: Program<'_>, _words: &[Word<'_>]) -> bool {
        matches!(program, Program::Binary(ENTRYPOINT | "djl-serving"))
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let mut readings = self.read_all(context, command, first).into_iter();
        readings
            .next()
            .unwrap_or_else(|| unknown(context, command, "it serves no model".to_owned()))
    }

    fn read_all(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Vec<Reading> {
        let words = command.words.get(first..).unwrap_or_default();
        let models = settings::of(context, command, words);
        // Docker's own image has an entrypoint of the same name.
        if !is_image(&context.image) && models.iter().all(Settings::is_empty) {
            return vec![if context.asks() {
                unknown(context, command, format!("{ENTRYPOINT} of another image"))
            } else {
                let mut none = context.blank(Engine::None, MemoryKind::None);
                none.parallelism.devices = 0;
                context.finish(command, none)
            }];
        }
        let readings = models
            .iter()
            .flat_map(|settings| backend::readings(context, command, settings));
        readings.collect()
    }
}

fn is_image(image: &Image<'_>) -> bool {
    image.name().starts_with("djl-")
}

/// Something runs, and what it takes cannot be read.
fn unknown(context: &Context<'_>, command: &Command<'_>, reason: String) -> Reading {
    let mut reading = context.blank(Engine::Unknown, MemoryKind::Unknown);
    reading.memory.source = MemorySource::Unresolved;
    reading.resolvable = Resolvable::None;
    reading.parallelism.devices = context.slots().unwrap_or(1);
    reading.unresolved.push(Unresolved {
        field: "argv".to_owned(),
        reason,
        decides_memory: true,
    });
    reading.findings.extend(context.floating_image());
    context.finish(command, reading)
}
