//! Why a geometry does not exist.

use std::error::Error;
use std::fmt;

use super::name::ProfileName;

/// Why a set of profiles does not fit one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// Every reason that was found; at least one.
    pub reasons: Vec<Reason>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The product has no such profile.
    UnknownProfile {
        /// As it was written.
        name: String,
        /// The product.
        product: String,
        /// The nearest that it has.
        nearest: Vec<ProfileName>,
    },
    /// A compute instance was named; geometries are made of GPU instances.
    ComputeInstance {
        /// Its name.
        name: ProfileName,
    },
    /// More instances of one profile than a GPU can have.
    TooMany {
        /// The profile.
        name: ProfileName,
        /// How many are asked.
        asked: u32,
        /// How many a GPU can have.
        most: u32,
    },
    /// Several profiles with media extensions; a GPU has them once.
    OneMedia {
        /// The profiles.
        names: Vec<ProfileName>,
    },
    /// A profile takes all media engines, and another wants some.
    AllMediaTaken {
        /// The one with all.
        all: ProfileName,
        /// One that wants some.
        other: ProfileName,
    },
    /// More compute slices than the GPU has.
    Compute {
        /// Their sum.
        asked: u64,
        /// What the GPU has.
        has: u32,
    },
    /// More units of memory than the GPU has.
    Memory {
        /// Their sum.
        asked: u64,
        /// What the GPU has.
        has: u32,
    },
    /// More instances than a GPU can have.
    Instances {
        /// Their number.
        asked: u64,
        /// The most.
        most: u32,
    },
    /// Every sum is in order, and yet the instances overlap wherever they begin.
    NoPlacement {
        /// Units of the GPU.
        units: u32,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownProfile {
                name,
                product,
                nearest,
            } => write!(
                f,
                "{product} has no profile {}; the nearest are {}",
                crate::finding::short(name),
                list(nearest)
            ),
            Self::ComputeInstance { name } => write!(
                f,
                "{name} is a compute instance inside {}: a geometry is made of GPU instances",
                name.gpu_instance()
            ),
            Self::TooMany { name, asked, most } => {
                write!(f, "{asked} x {name}, and one GPU has at most {most}")
            }
            Self::OneMedia { names } => write!(
                f,
                "{} want the media extensions, which one GPU has once",
                list(names)
            ),
            Self::AllMediaTaken { all, other } => write!(
                f,
                "{all} takes every media engine, and {other} needs some (its -me variant needs none)"
            ),
            Self::Compute { asked, has } => {
                write!(f, "the compute slices add up to {asked}, and the GPU has {has}")
            }
            Self::Memory { asked, has } => {
                write!(f, "the memory slices add up to {asked}, and the GPU has {has}")
            }
            Self::Instances { asked, most } => {
                write!(f, "{asked} instances, and one GPU has at most {most}")
            }
            Self::NoPlacement { units } => write!(
                f,
                "the sums are in order, but wherever the instances begin within the {units} memory slices, two overlap"
            ),
        }
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, reason) in self.reasons.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            reason.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for Impossible {}

fn list(names: &[ProfileName]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.join(", ")
}
