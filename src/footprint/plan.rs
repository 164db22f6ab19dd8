//! Everything that an estimate depends on, settled: the model, its format, the engine's options and the device.

use std::borrow::Cow;

use super::device::Device;
use super::interval::Interval;
use super::shape::Parts;
use super::{Unknown, vllm};
use crate::engine::{Engine, MemoryKind, MemorySource, Reading, Releases, Serving, Version};
use crate::model::name::publisher;
use crate::model::{Dtype, Format, Model};
use crate::units::Fraction;

/// Tokens of a block where nothing else is said.
const BLOCK: u64 = 16;
/// More ranks or stages than any engine starts.
const MOST_RANKS: u32 = 4_096;
/// Longer contexts, batches and sequence counts than this are no sizes.
const MOST_TOKENS: u64 = 1 << 40;

/// The longest context that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// What the model declares.
    Declared,
    /// So many tokens.
    Tokens(u64),
    /// Whatever fits.
    Auto,
}

/// Type of an element of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheType {
    /// The model's own; some checkpoints declare 8 bits.
    Auto,
    /// 32 bits.
    Float32,
    /// 16 bits.
    Float16,
    /// 8 bits.
    Fp8,
    /// GGML's 8 bits with a scale for each 32.
    Q8_0,
    /// GGML's 5 bits with scale and offset.
    Q5,
    /// GGML's 4 bits with a scale for each 32.
    Q4,
    /// FP4 with a scale for each 16.
    Nvfp4,
    /// About 3 bits with their scales.
    ThreeBit,
}

impl CacheType {
    /// Reads an engine's own name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.trim().to_ascii_lowercase();
        Some(match name.as_str() {
            "auto" | "" => Self::Auto,
            "float32" | "fp32" | "f32" => Self::Float32,
            "bfloat16" | "bf16" | "float16" | "fp16" | "half" | "f16" => Self::Float16,
            "q8_0" => Self::Q8_0,
            "q5_0" | "q5_1" => Self::Q5,
            "q4_0" | "q4_1" | "iq4_nl" | "int4" => Self::Q4,
            "nvfp4" | "fp4" | "fp4_e2m1" => Self::Nvfp4,
            "int8" | "int8_per_token_head" => Self::Fp8,
            _ if name.starts_with("fp8") => Self::Fp8,
            _ if name.starts_with("turboquant_3bit") => Self::ThreeBit,
            _ if name.starts_with("turboquant_4bit") => Self::Q4,
            _ => return None,
        })
    }

    /// Size of an element in sixteenths of a byte, scales included.
    pub(super) const fn sixteenths(self) -> u64 {
        match self {
            Self::Float32 => 64,
            Self::Auto | Self::Float16 => 32,
            Self::Fp8 => 16,
            Self::Q8_0 => 17,
            Self::Q5 => 12,
            Self::Q4 | Self::Nvfp4 => 9,
            Self::ThreeBit => 7,
        }
    }
}

/// What is to be estimated.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The model.
    pub model: &'a Model,
    /// Format of its weights.
    pub format: Format,
    /// Who published these weights, where the name tells.
    pub publisher: Option<Cow<'a, str>>,
    /// The engine.
    pub engine: Engine,
    /// Its release, as far as it is known.
    pub releases: Releases,
    /// The device of each rank.
    pub device: Device,
    /// Tensor parallel size.
    pub tensor: u32,
    /// Pipeline parallel size.
    pub pipeline: u32,
    /// Data parallel size over all pods: replicas of the attention that share the experts.
    pub data: u32,
    /// Devices that the engine's processes use.
    pub devices: u32,
    /// The part of the device that the engine may use, in the engine's own sense; `None` where it has no such option.
    pub fraction: Option<Fraction>,
    /// Whether that is the release's default: where several releases are possible, it is the largest of theirs.
    pub fraction_is_default: bool,
    /// The longest context.
    pub length: Length,
    /// Tokens of context that the model's configuration declares under the name in use.
    pub positions: u64,
    /// Type of unpacked weights and activations where the invocation chooses it.
    pub dtype: Option<Dtype>,
    /// Type of the cache.
    pub cache_type: CacheType,
    /// Whether CUDA graphs are off.
    pub eager: bool,
    /// Whether the engine leaves layers in host memory by itself where not all fit (llama.cpp, unless the invocation says
    /// how many are on the device).
    pub adapts: bool,
    /// What else the invocation says.
    pub serving: Serving,
    /// The draft model, where its facts are known.
    pub draft: Option<&'a Model>,
}

impl<'a> Plan<'a> {
    /// Settles what a reading says, with the model's facts, for one device.
    pub fn of(reading: &Reading, model: &'a Model, format: Format, device: Device) -> Result<Self, Unknown> {
        // Whatever cannot be read could be anything.
        let mut gaps = reading.unresolved.iter().chain(&reading.serving.undecided);
        if let Some(gap) = gaps.find(|gap| decides(&gap.field)) {
            return Err(Unknown::new(format!(
                "{} cannot be resolved: {}",
                gap.field, gap.reason
            )));
        }
        if reading.serving.open {
            return Err(Unknown::new(
                "words or a file that cannot be read may set any of its options",
            ));
        }
        if let Some(option) = reading.serving.overrides.first() {
            return Err(Unknown::new(format!(
                "{option} changes the model in a way that is not read"
            )));
        }
        let length = match reading.max_model_len {
            None => Length::Declared,
            Some(-1) => Length::Auto,
            Some(length) => match u64::try_from(length) {
                Ok(length) if length > 0 && length <= MOST_TOKENS => Length::Tokens(length),
                _ => return Err(Unknown::new(format!("a context of {length} tokens is none"))),
            },
        };
        let cache_type = reading.kv_cache_dtype.as_deref().unwrap_or("auto");
        let cache_type = CacheType::parse(cache_type)
            .ok_or_else(|| Unknown::new(format!("the KV cache type {cache_type:?} is not known here")))?;
        let dtype = match reading.dtype.as_deref().unwrap_or("auto") {
            "auto" => None,
            "float32" | "float" | "fp32" => Some(Dtype::Float32),
            "float16" | "half" | "fp16" => Some(Dtype::Float16),
            "bfloat16" | "bf16" => Some(Dtype::Bfloat16),
            other => return Err(Unknown::new(format!("the type {other:?} is not known here"))),
        };
        let parallelism = &reading.parallelism;
        for size in [parallelism.tensor, parallelism.pipeline, parallelism.data] {
            if size == 0 || size > MOST_RANKS {
                return Err(Unknown::new(format!("a parallel size of {size} is none")));
            }
        }
        Ok(Self {
            model,
            format,
            publisher: reading
                .model
                .as_deref()
                .and_then(publisher)
                .map(|publisher| Cow::Owned(publisher.to_owned())),
            engine: reading.engine,
            releases: Releases::from(reading.version),
            device,
            tensor: parallelism.tensor,
            pipeline: parallelism.pipeline,
            data: parallelism.data.max(1),
            devices: parallelism.devices.max(1),
            fraction: fraction(reading),
            fraction_is_default: reading.memory.source == MemorySource::Default,
            length,
            positions: model.max_position_embeddings,
            dtype,
            cache_type,
            eager: reading.eager,
            adapts: reading.memory.kind == MemoryKind::Uncapped && reading.serving.gpu_layers.is_none(),
            serving: reading.serving.clone(),
            draft: None,
        })
    }

    /// The plan of a draft model beside this one: unpacked weights, over the same ranks.
    pub(super) fn of_draft(&self, draft: &'a Model) -> Self {
        let mut plan = self.clone();
        plan.model = draft;
        plan.format = draft.released.unwrap_or(Format::Float16);
        plan.publisher = None;
        plan.draft = None;
        plan.serving.draft = None;
        plan.serving.adapters = None;
        plan.serving.cpu_offload_bytes = None;
        plan
    }

    /// The smallest fraction with which the engine may start: defaults differ by release.
    pub(super) fn least_fraction(&self) -> Option<Fraction> {
        let fraction = self.fraction.clone()?;
        if self.fraction_is_default && self.engine == Engine::Vllm {
            return Some(vllm::least_default_fraction(self, fraction));
        }
        Some(fraction)
    }

    /// Ranks that share one copy of the model: tensor times pipeline.
    pub(super) fn ranks(&self) -> u64 {
        u64::from(self.tensor.max(1)).saturating_mul(u64::from(self.pipeline.max(1)))
    }

    pub(super) fn tensor(&self) -> u64 {
        u64::from(self.tensor.max(1))
    }

    /// Tokens of one block of the cache.
    pub(super) fn block(&self) -> u64 {
        self.serving
            .block_size
            .filter(|block| (1..=1 << 20).contains(block))
            .unwrap_or(BLOCK)
    }

    /// The longest context in tokens that one request can have.
    pub(super) fn longest(&self) -> u64 {
        match self.length {
            Length::Tokens(length) => length,
            Length::Declared | Length::Auto => self.positions,
        }
    }

    /// Whether the release is certainly older than this one.
    pub(super) fn is_before(&self, release: Version) -> bool {
        self.releases.last.is_some_and(|last| last < release)
    }

    /// Whether the release is certainly this one or a newer one.
    pub(super) fn is_from(&self, release: Version) -> bool {
        self.releases.first.is_some_and(|first| first >= release)
    }

    /// Tokens of one forward pass.
    pub(super) fn batch_tokens(&self) -> Interval {
        vllm::batch_tokens(self)
    }

    /// Whether a draft head with layers of its own runs beside the model.
    pub(super) fn has_draft_layer(&self) -> bool {
        self.serving.draft.as_ref().is_some_and(|draft| {
            let method = draft.method.as_deref().unwrap_or("").to_ascii_lowercase();
            let unnamed = method.is_empty() && draft.model.is_none();
            // llama.cpp has several kinds of `ngram-…`.
            let looked_up = method.starts_with("ngram") || matches!(&*method, "suffix" | "[ngram]");
            !unnamed && (!looked_up || draft.model.is_some() && self.engine == Engine::LlamaCpp)
        })
    }

    /// Whether local layers certainly keep all tokens.
    pub(super) fn keeps_all(&self) -> bool {
        self.serving.full_length_cache || self.engine == Engine::Vllm && vllm::is_legacy(self) == Some(true)
    }

    /// Whether local layers may keep all tokens: chunked ones do by default, and releases before 0.11 were not settled.
    pub(super) fn may_keep_all(&self) -> bool {
        self.keeps_all()
            || self.engine != Engine::Vllm
            || self.model.attention_chunk_size.is_some()
            || !self.is_from(Version::new(0, 11, 0))
    }

    /// Sizes of the weight files in this format, in bytes: the least and the most that is known of them. `None` where
    /// the shape says it better.
    pub(super) fn checkpoint(&self, parts: &Parts) -> Option<(u64, u64)> {
        // What is loaded of these is padded, and the folder holds other formats as well.
        if self.format == Format::Mxfp4 {
            return None;
        }
        let publisher = self.publisher.as_deref();
        let of_format = || {
            self.model
                .variants
                .iter()
                .filter(|variant| variant.format == self.format)
                .filter_map(|variant| Some((variant.publisher.as_deref(), variant.checkpoint_bytes?)))
        };
        let same = |by: Option<&str>| {
            by.zip(publisher)
                .is_some_and(|(by, publisher)| by.eq_ignore_ascii_case(publisher))
        };
        let of_publisher = || of_format().filter(|(by, _)| same(*by)).map(|(_, bytes)| bytes);
        if let (Some(least), Some(most)) = (of_publisher().min(), of_publisher().max()) {
            return Some((least, most));
        }
        if parts.explained && !self.keeps_some_plain(parts) {
            return None;
        }
        if self.model.released == Some(self.format) {
            return self.model.checkpoint_bytes.map(|bytes| (bytes, bytes));
        }
        // One publisher's size says little of another's where publishers differ in what they pack.
        if publisher.is_some() && of_format().all(|(by, _)| by.is_some()) {
            return None;
        }
        let range = |least: Option<u64>, most: Option<u64>| least.zip(most);
        let own = || of_format().map(|(_, bytes)| bytes);
        range(own().min(), own().max()).or_else(|| {
            // Four-bit integers of another kind leave the same parts at 16 bits as often as not.
            let like = || {
                let variants = self.model.variants.iter();
                variants
                    .filter(|variant| {
                        variant.format.is_four_bit_integer() && self.format.is_four_bit_integer()
                    })
                    .filter_map(|variant| variant.checkpoint_bytes)
            };
            range(like().min(), like().max())
        })
    }

    /// Whether publishers of this format leave different parts of such a model at 16 bits.
    pub(super) fn keeps_some_plain(&self, parts: &Parts) -> bool {
        let four_bit_latent = self.model.latent.is_some() && self.format == Format::Nvfp4;
        self.format.is_packed()
            && !self.format.is_gguf()
            && (self.model.tower || self.model.recurrent.is_some() || !parts.explained || four_bit_latent)
    }
}

/// The part of the device in the engine's own sense. Of fractions of what is left after the weights a reading has the
/// text alone, since no amount of the device follows from them without the model.
fn fraction(reading: &Reading) -> Option<Fraction> {
    let memory = &reading.memory;
    if memory.fraction.is_none() && memory.kind == MemoryKind::OfFreeAfterWeights {
        return memory
            .value
            .as_deref()
            .and_then(|text| Fraction::parse(text).ok());
    }
    memory.fraction.clone()
}

/// Whether an estimate hangs on a field that could not be read.
fn decides(field: &str) -> bool {
    const HARMLESS: [&str; 6] = [
        "gpu-memory-utilization",
        "argv",
        "data-parallel-size",
        "served-model-name",
        "port",
        "host",
    ];
    !HARMLESS.contains(&field)
}
