//! NVIDIA NIM: the image starts its engine by itself, from variables and a profile.

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Parallelism, Reading, Resolvable, Unresolved, Version};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};
use crate::units::Fraction;

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
        let variable = |name: &str| context.variable(command, name).and_then(Result::ok);
        reading.version = reading.version.or_else(|| context.image.version());
        reading.resolvable = Resolvable::Partial;
        reading.memory.source = MemorySource::Unresolved;
        // From 2.0 the engine is vLLM, and gets these words after its own.
        let passed = variable("NIM_PASSTHROUGH_ARGS").unwrap_or_default();
        let passed: Vec<Word<'_>> = passed
            .split_whitespace()
            .map(|text| Word {
                text: Cow::Owned(text.to_owned()),
                ..Word::literal("")
            })
            .collect();
        let is_vllm = reading
            .version
            .is_some_and(|version| version >= Version::new(2, 0, 0));
        let in_words = reading.option(&passed, &["--gpu-memory-utilization"]);
        let in_variable = in_words.or_else(|| variable("NIM_GPU_MEM_FRACTION"));
        let share = [
            "NIM_GPU_MEM_FRACTION",
            "NIM_KVCACHE_PERCENT",
            "NIM_KV_CACHE_PERCENT",
        ]
        .into_iter()
        .find_map(variable);
        match in_variable {
            Some(text) if is_vllm => {
                reading.memory.kind = MemoryKind::OfTotal;
                reading.memory.source = MemorySource::Env;
                reading.memory.fraction = Fraction::parse(&text).ok();
                reading.memory.value = Some(text);
                reading.memory.path = context.path.field("env");
                reading.unresolved.push(Unresolved {
                    field: "argv".to_owned(),
                    reason: "the image chooses its other options by a profile".to_owned(),
                    decides_memory: false,
                });
            }
            _ => reading.unresolved.push(Unresolved {
                field: "argv".to_owned(),
                reason: match &share {
                    Some(value) => format!("the image decides what a share of {value} means"),
                    None => "the image chooses its engine and options by a profile".to_owned(),
                },
                decides_memory: true,
            }),
        }
        // The image of one model holds it whatever the variables say; the generic ones take any.
        let (_, name) = context.image.repository.split_once("nim/").unwrap_or_default();
        let generic = name.is_empty()
            || ["llm-nim", "llm", "multi-llm", "vllm", "sglang", "trtllm"].contains(&context.image.name());
        let named = || {
            let model = variable("NIM_MODEL_NAME").or_else(|| variable("NIM_MODEL_PATH"));
            model.map(|model| model.strip_prefix("hf://").unwrap_or(&model).to_owned())
        };
        reading.model = if generic { named() } else { Some(name.to_owned()) };
        reading.max_model_len = variable("NIM_MAX_MODEL_LEN")
            .or_else(|| reading.option(&passed, &["--max-model-len"]))
            .and_then(|text| text.parse().ok());
        let profile = variable("NIM_MODEL_PROFILE");
        let in_profile = |letters: &str| {
            let mut parts = profile.as_deref()?.split(['-', '_', ':']);
            parts.find_map(|part| part.strip_prefix(letters)?.parse::<u32>().ok())
        };
        let size = |reading: &mut Reading, name: &str, option: &str, letters: &str| {
            let stated = variable(name).and_then(|text| text.parse::<u32>().ok());
            let stated = stated.or_else(|| reading.count(&passed, &[option]));
            stated.or_else(|| in_profile(letters)).unwrap_or(1).max(1)
        };
        let tensor = size(
            &mut reading,
            "NIM_TENSOR_PARALLEL_SIZE",
            "--tensor-parallel-size",
            "tp",
        );
        let pipeline = size(
            &mut reading,
            "NIM_PIPELINE_PARALLEL_SIZE",
            "--pipeline-parallel-size",
            "pp",
        );
        reading.parallelism = Parallelism {
            tensor,
            pipeline,
            devices: tensor.saturating_mul(pipeline),
            ..Parallelism::default()
        };
        reading.dtype = Some("auto".to_owned());
        reading.kv_cache_dtype = Some("auto".to_owned());
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}
