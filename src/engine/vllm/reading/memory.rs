//! Whether the start hangs on memory in a way that the manifest itself shows.

use crate::engine::image::Image;
use crate::engine::reader::Context;
use crate::engine::{MemoryKind, Reading, Role, Version};

/// Whether the fraction means the whole GPU and another server of the pod is on it, or a stated share of the device
/// looks too small for the weights.
pub(super) fn hangs_on_memory(context: &Context<'_>, reading: &Reading) -> bool {
    if reading.memory.kind != MemoryKind::OfTotal {
        return false;
    }
    shares_with_earlier(context, reading.version) || is_larger_than_share(context, reading)
}

/// In these releases the fraction bounds what all processes of the device hold together: the second to start sees the
/// first one's memory.
fn shares_with_earlier(context: &Context<'_>, version: Option<Version>) -> bool {
    let whole = version.is_some_and(|version| {
        let in_064 = (Version::new(0, 6, 4)..Version::new(0, 6, 6)).contains(&version);
        in_064 || (Version::new(0, 8, 0)..Version::new(0, 9, 1)).contains(&version)
    });
    // With a request of its own it has a device of its own.
    whole
        && context.placed.role == Role::Container
        && context.slots().is_none()
        && context
            .pod
            .spec
            .containers
            .iter()
            .take(context.placed.index)
            .any(|earlier| super::super::is_server_image(&Image::parse(&earlier.image)))
}

/// The share in MiB of `nvidia.com/gpumem`, against the parameters that the model's name states at two bytes each.
fn is_larger_than_share(context: &Context<'_>, reading: &Reading) -> bool {
    let resources = &context.placed.container.resources;
    let share = resources
        .limits
        .get("nvidia.com/gpumem")
        .and_then(|quantity| quantity.0.parse::<u64>().ok());
    let quantized = reading.quantization.is_some();
    let (Some(share), Some(model), false) = (share, &reading.model, quantized) else {
        return false;
    };
    let Some(millions) = millions_of_parameters(model) else {
        return false;
    };
    // Two bytes of a million parameters are 1.9 MiB; one and a half leave room for names that round up.
    let devices = u64::from(reading.parallelism.devices.max(1));
    millions.saturating_mul(3) / 2 > share.saturating_mul(devices)
}

/// `Mistral-7B-Instruct` has 7000. `None` where the name speaks of fewer bits, or of no size.
fn millions_of_parameters(model: &str) -> Option<u64> {
    let name = model.rsplit('/').next()?.to_ascii_lowercase();
    let parts = || name.split(['-', '_']);
    let few_bits = [
        "awq", "gptq", "fp8", "int4", "int8", "4bit", "8bit", "w4a16", "w8a8", "nvfp4", "mxfp4", "gguf",
        "oss",
    ];
    if parts().any(|part| few_bits.contains(&part)) {
        return None;
    }
    parts().find_map(|part| {
        let number = part.strip_suffix('b')?;
        let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
        let tenths = tenths.get(..1)?.parse::<u64>().ok()?;
        whole
            .parse::<u64>()
            .ok()?
            .checked_mul(1000)?
            .checked_add(tenths * 100)
    })
}

#[cfg(test)]
mod tests {
    use super::millions_of_parameters;

    #[test]
    fn sizes_are_read_from_names() {
        for (name, millions) in [
            ("a/Mistral-7B-v0.3", Some(7000)),
            ("a/Qwen2.5-1.5B-Instruct", Some(1500)),
            ("a/Llama-70B-AWQ", None),
            ("gpt2", None),
            ("a/b-", None),
            ("a/xb", None),
        ] {
            assert_eq!(millions_of_parameters(name), millions, "{name}");
        }
    }
}
