//! Fields that hold one of some words, or else a value of another kind.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use crate::policy::{DefaultFraction, value};
use crate::units::Mib;

/// Largest limit that a policy may state, in MiB: far above any device.
const MOST_MIB: u64 = 1 << 24;

/// `spec.device.tenants`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenants {
    /// Everybody.
    Any,
    /// Pods of one namespace.
    SameNamespace,
    /// Pods of namespaces that stand in one set.
    Sets(Vec<Vec<String>>),
}

impl<'de> Deserialize<'de> for Tenants {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrList {
            words: &["any", "sameNamespace", "a list of lists of namespaces"],
            of_word: |word| match word {
                "any" => Some(Self::Any),
                "sameNamespace" => Some(Self::SameNamespace),
                _ => None,
            },
            of_list: Self::Sets,
            expecting: "any, sameNamespace or a list of lists of namespaces",
        })
    }
}

impl<'de> Deserialize<'de> for DefaultFraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrFraction;
        impl Visitor<'_> for WordOrFraction {
            type Value = DefaultFraction;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("none, fairShare or a fraction such as 0.225")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<DefaultFraction, E> {
                match text {
                    "none" => Ok(DefaultFraction::None),
                    "fairShare" => Ok(DefaultFraction::FairShare),
                    word if word.starts_with(|c: char| c.is_ascii_alphabetic()) => Err(
                        de::Error::unknown_variant(word, &["none", "fairShare", "a fraction such as 0.225"]),
                    ),
                    number => value::device_fraction_of(number)
                        .map(DefaultFraction::Value)
                        .map_err(E::custom),
                }
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<DefaultFraction, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<DefaultFraction, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<DefaultFraction, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(WordOrFraction)
    }
}

/// `spec.mps.memoryLimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpsMemoryLimit {
    /// Set none.
    None,
    /// Request and overhead, at most the daemon's limit.
    Footprint,
    /// This for each process, at most the daemon's limit.
    Fixed(Mib),
}

impl<'de> Deserialize<'de> for MpsMemoryLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrMib;
        impl Visitor<'_> for WordOrMib {
            type Value = MpsMemoryLimit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("footprint, none or a number of MiB such as 16384")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<MpsMemoryLimit, E> {
                match word {
                    "none" => Ok(MpsMemoryLimit::None),
                    "footprint" => Ok(MpsMemoryLimit::Footprint),
                    other => Err(de::Error::unknown_variant(
                        other,
                        &["footprint", "none", "a number of MiB such as 16384"],
                    )),
                }
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<MpsMemoryLimit, E> {
                match number {
                    1..=MOST_MIB => Ok(MpsMemoryLimit::Fixed(Mib::new(number))),
                    _ => Err(de::Error::invalid_value(de::Unexpected::Unsigned(number), &self)),
                }
            }
        }
        deserializer.deserialize_any(WordOrMib)
    }
}

/// `spec.mps.threadPercentage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPercentage {
    /// Set none.
    None,
    /// One slot's part.
    FairShare,
    /// This.
    Percent(u8),
}

impl<'de> Deserialize<'de> for ThreadPercentage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrPercent;
        impl Visitor<'_> for WordOrPercent {
            type Value = ThreadPercentage;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("none, fairShare or a percentage from 1 to 100")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<ThreadPercentage, E> {
                match word {
                    "none" => Ok(ThreadPercentage::None),
                    "fairShare" => Ok(ThreadPercentage::FairShare),
                    other => Err(de::Error::unknown_variant(
                        other,
                        &["none", "fairShare", "a percentage from 1 to 100"],
                    )),
                }
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<ThreadPercentage, E> {
                match u8::try_from(number) {
                    Ok(percent @ 1..=100) => Ok(ThreadPercentage::Percent(percent)),
                    _ => Err(de::Error::invalid_value(de::Unexpected::Unsigned(number), &self)),
                }
            }
        }
        deserializer.deserialize_any(WordOrPercent)
    }
}

/// `spec.mig.profiles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigProfiles {
    /// All.
    Any,
    /// These (`1g.10gb`).
    Only(Vec<String>),
}

impl<'de> Deserialize<'de> for MigProfiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrList {
            words: &["any", "a list of profiles such as [1g.10gb]"],
            of_word: |word| (word == "any").then_some(Self::Any),
            of_list: Self::Only,
            expecting: "any or a list of profiles such as [1g.10gb]",
        })
    }
}

/// `spec.declarations.trust`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nobody's.
    Never,
    /// Those of pods in these namespaces.
    Namespaces(Vec<String>),
}

impl<'de> Deserialize<'de> for Trust {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrList {
            words: &["never", "a list of namespaces"],
            of_word: |word| (word == "never").then_some(Self::Never),
            of_list: Self::Namespaces,
            expecting: "never or a list of namespaces",
        })
    }
}

/// Reads one of some words, or a list.
struct WordOrList<T, L> {
    /// What may be written, for whoever wrote something else.
    words: &'static [&'static str],
    of_word: fn(&str) -> Option<T>,
    of_list: fn(Vec<L>) -> T,
    expecting: &'static str,
}

impl<'de, T, L: Deserialize<'de>> Visitor<'de> for WordOrList<T, L> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<T, E> {
        (self.of_word)(word).ok_or_else(|| de::Error::unknown_variant(word, self.words))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<T, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok((self.of_list)(list))
    }
}
