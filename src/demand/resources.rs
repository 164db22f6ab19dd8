//! VG108 for resource names that are nearly one of NVIDIA's device plugin. No node offers such a name, so the pod waits for
//! ever, or is refused by the API server, and nothing of it is counted.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::device::catalogue::Catalogue;
use crate::engine::{Placed, near};
use crate::finding::{Code, Finding, short};

/// The domain of NVIDIA's device plugin.
const DOMAIN: &str = "nvidia.com";
/// What it offers besides MIG profiles.
const WHOLE: [&str; 2] = ["gpu", "gpu.shared"];
/// Names of the same domain that others give, a letter away from these: KubeVirt's and Kata's devices, DPUs.
const OTHERS: [&str; 3] = ["vgpu", "pgpu", "dpu"];
/// Bytes of a name that are compared.
const LONGEST: usize = 64;
/// Findings of one container.
const MOST: usize = 4;

/// The findings of one container.
pub(crate) fn findings(placed: Placed<'_>) -> Vec<Finding> {
    let resources = &placed.container.resources;
    let limits = resources.limits.keys().map(|name| ("limits", name));
    let requests = resources
        .requests
        .keys()
        .filter(|name| !resources.limits.contains_key(*name))
        .map(|name| ("requests", name));
    limits
        .chain(requests)
        .filter_map(|(list, name)| {
            let meant = meant(name)?;
            let path = placed.path().field("resources").field(list).key(name);
            let message = format!(
                "container {} asks {}, which NVIDIA's device plugin does not offer under that name; write {meant}",
                short(&placed.container.name),
                short(name),
            );
            Some(Finding::new(Code::Vg108, path, message))
        })
        .take(MOST)
        .collect()
}

/// The resource that a misspelt name was meant to be; `None` where it is one, or looks like none.
pub(crate) fn meant(name: &str) -> Option<String> {
    // Nearly all names are one of these.
    let usual = matches!(name, "cpu" | "memory" | "ephemeral-storage" | "nvidia.com/gpu");
    if usual || name.len() > LONGEST {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let slot = match lower.split_once('/') {
        Some((DOMAIN, rest)) => slot(rest)?,
        Some((domain, rest)) if is_nearly_the_domain(domain) => slot(rest)?,
        Some(_) => return None,
        None => bare(&lower)?,
    };
    let meant = format!("{DOMAIN}/{slot}");
    (meant != name).then_some(meant)
}

fn is_nearly_the_domain(domain: &str) -> bool {
    domain == "nvidia" || near::nearest(std::iter::once(DOMAIN), domain, 2).is_some()
}

/// A name without a domain, which Kubernetes keeps for its own resources.
fn bare(name: &str) -> Option<&'static str> {
    let rest = ["nvidia.com", "nvidia"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name)
        .trim_start_matches(['.', '-', '_']);
    match rest {
        "gpu" | "gpus" => Some("gpu"),
        _ if rest.starts_with("mig") => slot(rest),
        _ => None,
    }
}

/// The slot that `rest` is, or nearly is.
fn slot(rest: &str) -> Option<&'static str> {
    let known = || WHOLE.into_iter().chain(profiles().iter().map(String::as_str));
    if let Some(exact) = known().find(|known| *known == rest) {
        return Some(exact);
    }
    if OTHERS.contains(&rest) || is_profile(rest) {
        return None;
    }
    if !rest.starts_with("mig") {
        return near::nearest(WHOLE.into_iter(), rest, 1);
    }
    let same = profiles().iter().find(|known| squeezed(known) == squeezed(rest));
    same.map(String::as_str)
        .or_else(|| near::nearest(profiles().iter().map(String::as_str), rest, 1))
}

/// Whether a name has the form of a profile: products that are not in the catalogue have others.
fn is_profile(rest: &str) -> bool {
    let form = || {
        let rest = rest.strip_prefix("mig-")?;
        let (slices, rest) = rest.split_once("g.")?;
        let (memory, suffix) = rest.split_once("gb")?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let ends = suffix.is_empty() || suffix.starts_with(['.', '-', '_']);
        Some(digits(slices) && digits(memory) && ends)
    };
    form().unwrap_or(false)
}

/// A name without what is easily forgotten or confused.
fn squeezed(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// `mig-1g.10gb` and so on, in order.
fn profiles() -> &'static BTreeSet<String> {
    static PROFILES: OnceLock<BTreeSet<String>> = OnceLock::new();
    PROFILES.get_or_init(|| {
        Catalogue::embedded()
            .products()
            .iter()
            .flat_map(|product| product.mig.iter().flat_map(|mig| &mig.profiles))
            .map(|profile| {
                let name = profile.resource_name();
                name.rsplit('/').next().unwrap_or_default().to_owned()
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_are_found() {
        for (name, expected) in [
            ("nvidia.com/gpus", "nvidia.com/gpu"),
            ("nvidia.com/GPU", "nvidia.com/gpu"),
            ("nvidia.com/gpu-shared", "nvidia.com/gpu.shared"),
            ("nvida.com/gpu", "nvidia.com/gpu"),
            ("nvidia.con/gpus", "nvidia.com/gpu"),
            ("Nvidia.com/gpu", "nvidia.com/gpu"),
            ("nvidia/gpu", "nvidia.com/gpu"),
            ("gpu", "nvidia.com/gpu"),
            ("GPUs", "nvidia.com/gpu"),
            ("nvidia-gpu", "nvidia.com/gpu"),
            ("nvidia.com/mig-1g10gb", "nvidia.com/mig-1g.10gb"),
            ("nvidia.com/mig-1g-10gb", "nvidia.com/mig-1g.10gb"),
            ("nvidia.com/mig-1g.10g", "nvidia.com/mig-1g.10gb"),
            ("nvidia.com/MIG-3g.40GB", "nvidia.com/mig-3g.40gb"),
            ("nvidia.com/mig1g.5gb", "nvidia.com/mig-1g.5gb"),
            ("nvida.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb"),
        ] {
            assert_eq!(meant(name).as_deref(), Some(expected), "{name}");
        }
    }

    #[test]
    fn names_of_others_and_right_ones_are_left_alone() {
        let long = format!("nvidia.com/{}", "g".repeat(5000));
        for name in [
            "nvidia.com/gpu",
            "nvidia.com/gpu.shared",
            "nvidia.com/mig-1g.10gb",
            "nvidia.com/mig-1g.10gb.me",
            "nvidia.com/mig-1g.10gb.shared",
            "nvidia.com/mig-5g.123gb",
            "nvidia.com/gpumem",
            "nvidia.com/gpucores",
            "nvidia.com/gpumem-percentage",
            "nvidia.com/priority",
            "nvidia.com/vgpu",
            "nvidia.com/pgpu",
            "nvidia.com/hostdev",
            "nvidia.com/rdma_shared_device_a",
            "nvidia.com/GA102GL_A10",
            "amd.com/gpu",
            "intel.com/gpu",
            "gpu.intel.com/i915",
            "gpu.intel.com/xe",
            "google.com/tpu",
            "cloud.google.com/gpu",
            "habana.ai/gaudi",
            "aliyun.com/gpu-mem",
            "aliyun.com/gpu-count",
            "volcano.sh/vgpu-number",
            "tencent.com/vcuda-core",
            "rdma/hca_shared_devices_a",
            "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
            "vramgate.io/gpu-ppm",
            "cpu",
            "memory",
            "hugepages-2Mi",
            "storage",
            "",
            "/",
            "nvidia.com/",
            long.as_str(),
        ] {
            assert_eq!(meant(name), None, "{name}");
        }
    }
}
