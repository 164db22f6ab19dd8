//! Names of MIG profiles: `1g.10gb+me` in `nvidia-smi`, `nvidia.com/mig-1g.10gb.me` as a resource.

use std::fmt;

use crate::units::Mib;

/// What the resources of MIG devices begin with.
const RESOURCE: &str = "nvidia.com/mig-";
/// What the device plugin appends to a shared resource that it renames.
const SHARED: &str = ".shared";

/// What an instance has besides compute and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// No attribute: the media engines that the size brings.
    Plain,
    /// `+me`: media extensions (the one OFA engine of the GPU).
    Media,
    /// `+me.all`: every media engine of the GPU.
    AllMedia,
    /// `+gfx`: graphics.
    Graphics,
    /// `-me`: no media engine at all.
    NoMedia,
}

impl Attribute {
    /// As `nvidia-smi` writes it behind the size.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Media => "+me",
            Self::AllMedia => "+me.all",
            Self::Graphics => "+gfx",
            Self::NoMedia => "-me",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" => Self::Plain,
            "+me" | ".me" => Self::Media,
            "+me.all" | ".me.all" => Self::AllMedia,
            "+gfx" | ".gfx" => Self::Graphics,
            "-me" => Self::NoMedia,
            _ => return None,
        })
    }
}

/// A profile's name, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName {
    /// Compute slices of a compute instance inside (`1c.3g.20gb`); `None` for the GPU instance itself.
    pub compute: Option<u32>,
    /// Compute slices.
    pub slices: u32,
    /// The size in the name. It overstates the memory: an H200's `1g.18gb` has 16384 MiB.
    pub gigabytes: u32,
    /// What stands behind the size.
    pub attribute: Attribute,
}

impl ProfileName {
    /// Reads a name with `+` or `.` before its attribute. `None` where it has not the form of a profile's name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (compute, rest) = match text.split_once("c.") {
            Some((compute, rest)) => (Some(number(compute)?), rest),
            None => (None, text),
        };
        let (slices, rest) = rest.split_once("g.")?;
        let (gigabytes, attribute) = rest.split_once("gb")?;
        Some(Self {
            compute,
            slices: number(slices)?,
            gigabytes: number(gigabytes)?,
            attribute: Attribute::parse(attribute)?,
        })
    }

    /// Reads the name of an extended resource (`nvidia.com/mig-1g.10gb.me`, `nvidia.com/mig-1g.10gb.shared`).
    #[must_use]
    pub fn of_resource(resource: &str) -> Option<Self> {
        let name = resource.strip_prefix(RESOURCE)?;
        Self::parse(name.strip_suffix(SHARED).unwrap_or(name))
    }

    /// The extended resource of its devices under the MIG strategy `mixed`, where `+` is a point. The device plugin offers
    /// none for a compute instance that is smaller than its GPU instance.
    ///
    /// Source: NVIDIA k8s-device-plugin, `internal/rm` and `internal/lm` (resource names of MIG devices).
    #[must_use]
    pub fn resource(self) -> Option<String> {
        self.compute
            .is_none()
            .then(|| format!("{RESOURCE}{}", self.to_string().replace('+', ".")))
    }

    /// The GPU instance that a compute instance lies in.
    #[must_use]
    pub const fn gpu_instance(self) -> Self {
        Self {
            compute: None,
            ..self
        }
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(compute) = self.compute {
            write!(f, "{compute}c.")?;
        }
        let attribute = self.attribute.as_str();
        write!(f, "{}g.{}gb{attribute}", self.slices, self.gigabytes)
    }
}

/// The size in the name of an instance of `slice` on a GPU of `total`, both as `nvidia-smi` tells them:
/// `round(ceil(8 x slice / total) / 8 x ceil(total GiB))`, halves rounded up. `None` where the total is zero.
///
/// Source: NVIDIA go-nvlib, `pkg/nvlib/device/mig_profile.go`; it gives every name in the catalogue.
#[must_use]
pub fn gigabytes(slice: Mib, total: Mib) -> Option<u32> {
    if total == Mib::ZERO {
        return None;
    }
    let eighths = slice.times(8).get().div_ceil(total.get());
    u32::try_from(of_eighths(eighths, total)).ok()
}

/// So many eighths of a total, in the gigabytes of names.
pub(super) const fn of_eighths(eighths: u64, total: Mib) -> u64 {
    let gibibytes = total.get().div_ceil(1024);
    (eighths.saturating_mul(gibibytes).saturating_add(4)) / 8
}

/// A number without sign or leading zero.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain)
}
