//! Whether a release's fraction means this instance or the whole device.
//!
//! | releases | core | the fraction bounds |
//! | --- | --- | --- |
//! | up to 0.3.0 | V0 | the whole device |
//! | 0.3.1 to 0.6.3 | V0 | this instance (vllm-project/vllm#2863) |
//! | 0.6.4 | V0 | the whole device |
//! | 0.6.6 to 0.7.3 | V0 unless asked | this instance; V1 the whole device |
//! | 0.8.0 to 0.9.0 | V1 by default | the whole device; V0 this instance |
//! | from 0.9.1 | | this instance (vllm-project/vllm#18974) |
//!
//! Read in the sources of these releases; vllm-project/vllm#14376 and #10643 are what users saw of it.

use super::super::parse::Parsed;
use crate::engine::argparse::value::python_int;
use crate::engine::reader::Context;
use crate::engine::{Meaning, Version};
use crate::invocation::Command;

/// The first release that left out what others held when it started.
const LEFT_OUT: Version = Version::new(0, 3, 1);
/// The later release whose V0 core counted the whole device.
const GLOBAL: Version = Version::new(0, 6, 4);
/// The first one after it.
const AFTER_GLOBAL: Version = Version::new(0, 6, 5);
/// The first release with the V1 core by default.
const NEW_CORE: Version = Version::new(0, 8, 0);
/// The first release whose V1 core counts this instance alone.
const PER_INSTANCE: Version = Version::new(0, 9, 1);

/// Options with which one of the releases with both cores falls back to V0, or may: whether it does hangs on their
/// value, on the release, or on the model. Read in the choice of the core that the releases make.
const MAY_FALL_BACK: [&str; 23] = [
    "--collect-detailed-traces",
    "--device",
    "--disable-async-output-proc",
    "--dtype",
    "--enable-prompt-adapter",
    "--guided-decoding-backend",
    "--kv-cache-dtype",
    "--kv-transfer-config",
    "--load-format",
    "--logits-processor-pattern",
    "--max-long-partial-prefills",
    "--max-num-partial-prefills",
    "--model-impl",
    "--num-scheduler-steps",
    "--otlp-traces-endpoint",
    "--preemption-mode",
    "--quantization",
    "--scheduler-delay-factor",
    "--scheduling-policy",
    "--speculative-config",
    "--speculative-model",
    "--task",
    "--pipeline-parallel-size",
];

/// Values of these options with which V1 runs in all of those releases.
const HARMLESS: [(&str, &[&str]); 6] = [
    ("--dtype", &["auto", "bfloat16", "float16", "half"]),
    ("--kv-cache-dtype", &["auto"]),
    ("--load-format", &["auto", "safetensors"]),
    ("--pipeline-parallel-size", &["1"]),
    (
        "--quantization",
        &[
            "awq",
            "awq_marlin",
            "compressed-tensors",
            "fp8",
            "gptq",
            "gptq_marlin",
        ],
    ),
    ("--task", &["auto", "generate"]),
];

/// The meaning; [`Meaning::Instance`] wherever another one is not certain.
pub(super) fn of(
    context: &Context<'_>,
    command: &Command<'_>,
    parsed: &Parsed<'_>,
    version: Option<Version>,
) -> Meaning {
    let Some(version) = version else {
        return Meaning::Instance;
    };
    if version < LEFT_OUT || (GLOBAL..AFTER_GLOBAL).contains(&version) {
        return Meaning::WholeDevice;
    }
    if !(AFTER_GLOBAL..PER_INSTANCE).contains(&version) {
        return Meaning::Instance;
    }
    match context.variable(command, "VLLM_USE_V1") {
        // Whoever asks for it gets it, or an engine that does not start.
        Some(Ok(value)) if python_int(&value).is_some_and(|on| on != 0) => Meaning::WholeDevice,
        None if version >= NEW_CORE && !may_fall_back(context, command, parsed) => {
            Meaning::WholeDeviceFromAmpere
        }
        Some(_) | None => Meaning::Instance,
    }
}

/// Whether anything that is written, or cannot be read, may let the release choose V0.
fn may_fall_back(context: &Context<'_>, command: &Command<'_>, parsed: &Parsed<'_>) -> bool {
    if parsed.open.is_some() || parsed.unread_config.is_some() {
        return true;
    }
    if context.variable(command, "VLLM_ATTENTION_BACKEND").is_some() {
        return true;
    }
    MAY_FALL_BACK.iter().any(|option| {
        parsed.last(option).is_some_and(|setting| {
            let harmless = HARMLESS.iter().find(|(known, _)| known == option);
            !harmless.is_some_and(|(_, values)| values.contains(&setting.text.trim()))
        })
    })
}
