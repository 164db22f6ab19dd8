//! NVIDIA NIM: the image starts its engine by itself, from variables and a profile.

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Parallelism, Reading, Resolvable, Unresolved};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

/// The reader of NIM containers.
pub(super) struct Nim;

impl Reader for Nim {
    fn engine(&self) -> Engine {
        Engine::Nim
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        image
            .repository
            .split('/')
            .any(|part| part == "nim")
            .then(Vec::new)
    }

    fn runs(&self, _program: Program<'_>, _words: &[Word<'_>]) -> bool {
        false
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, _first: usize) -> Reading {
        let mut reading = context.blank(Engine::Nim, MemoryKind::Unknown);
        let variable = |name| context.variable(command, name).and_then(Result::ok);
        reading.version = reading.version.or_else(|| context.image.version());
        reading.resolvable = Resolvable::Partial;
        reading.memory.source = MemorySource::Unresolved;
        let fraction = [
            "NIM_GPU_MEM_FRACTION",
            "NIM_KVCACHE_PERCENT",
            "NIM_KV_CACHE_PERCENT",
        ]
        .into_iter()
        .find_map(variable);
        reading.unresolved.push(Unresolved {
            field: "argv".to_owned(),
            reason: match &fraction {
                Some(value) => format!("the image decides what a share of {value} means"),
                None => "the image chooses its engine and options by a profile".to_owned(),
            },
            decides_memory: true,
        });
        // The image of one model holds it whatever the variables say; the generic ones take any.
        let (_, name) = context.image.repository.split_once("nim/").unwrap_or_default();
        let generic = name.is_empty()
            || ["llm-nim", "llm", "multi-llm", "vllm", "sglang", "trtllm"].contains(&context.image.name());
        let named = || {
            let model = variable("NIM_MODEL_NAME").or_else(|| variable("NIM_MODEL_PATH"));
            model.map(|model| model.strip_prefix("hf://").unwrap_or(&model).to_owned())
        };
        reading.model = if generic { named() } else { Some(name.to_owned()) };
        reading.max_model_len = variable("NIM_MAX_MODEL_LEN").and_then(|text| text.parse().ok());
        let tensor = variable("NIM_TENSOR_PARALLEL_SIZE")
            .and_then(|text| text.parse().ok())
            .unwrap_or(1);
        reading.parallelism = Parallelism {
            tensor,
            devices: tensor,
            ..Parallelism::default()
        };
        reading.dtype = Some("auto".to_owned());
        reading.kv_cache_dtype = Some("auto".to_owned());
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}
