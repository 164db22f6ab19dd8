//! The stable codes of findings. A code is never reused for another meaning; each has a page in `docs/codes/`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Severity;

macro_rules! codes {
    ($($variant:ident $text:literal $severity:ident $title:literal;)+) => {
        /// A stable reason code, `VG###`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $title] $variant,)+
        }

        impl Code {
            /// Every code, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code as it is printed.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// What the code is about, in one phrase.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }

            /// Its page of `docs/codes/`, in Markdown.
            #[must_use]
            pub const fn page(self) -> &'static str {
                match self { $(Self::$variant => include_str!(concat!("../../docs/codes/", $text, ".md")),)+ }
            }

            /// The severity under the built-in policy.
            #[must_use]
            pub const fn default_severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)+ }
            }
        }
    };
}

codes! {
    Vg101 "VG101" Error   "memory fraction out of range";
    Vg102 "VG102" Error   "a value that decides the memory cannot be resolved";
    Vg103 "VG103" Warning "environment variable that the engine does not read";
    Vg104 "VG104" Warning "several words in one argument";
    Vg105 "VG105" Error   "more ranks than devices";
    Vg106 "VG106" Error   "unknown engine on a shared device";
    Vg107 "VG107" Warning "option that this version of the engine refuses";
    Vg108 "VG108" Warning "near-miss annotation, resource or option";
    Vg109 "VG109" Warning "image without a tag or digest";
    Vg110 "VG110" Warning "tensor parallel size does not divide the attention heads";
    Vg111 "VG111" Error   "declared memory lowered after creation";
    Vg201 "VG201" Error   "device budget exceeded";
    Vg202 "VG202" Error   "slot above its fair share";
    Vg203 "VG203" Warning "rollout exceeds the device budget";
    Vg204 "VG204" Warning "autoscaler maximum exceeds the device budget";
    Vg205 "VG205" Error   "ranks over shared slots";
    Vg206 "VG206" Error   "uncapped engine on a shared device";
    Vg207 "VG207" Error   "the engine's whole-GPU default on a shared slot";
    Vg208 "VG208" Warning "the fraction means the whole GPU in this version";
    Vg209 "VG209" Error   "no free slot";
    Vg210 "VG210" Warning "an agent takes a slot";
    Vg211 "VG211" Error   "tenants may not share a device";
    Vg212 "VG212" Warning "co-tenants start together";
    Vg213 "VG213" Warning "more slots than the engine uses";
    Vg214 "VG214" Error   "the pod does not carry its share";
    Vg301 "VG301" Error   "model does not fit the MIG slice";
    Vg302 "VG302" Error   "no node offers the MIG profile or resource";
    Vg303 "VG303" Error   "ranks over MIG slices";
    Vg304 "VG304" Error   "impossible MIG geometry";
    Vg305 "VG305" Error   "several MIG slices in one container";
    Vg306 "VG306" Error   "MIG profile not allowed by policy";
    Vg401 "VG401" Error   "request above the MPS client limit";
    Vg402 "VG402" Error   "more than one MPS slot";
    Vg403 "VG403" Warning "own /dev/shm volume under MPS";
    Vg404 "VG404" Warning "different runAsUser under MPS";
    Vg405 "VG405" Warning "several client processes under one MPS limit";
    Vg406 "VG406" Warning "MPS variable without effect";
    Vg501 "VG501" Error   "visible-devices variable without a GPU request";
    Vg502 "VG502" Warning "privileged container or GPU device path";
    Vg503 "VG503" Warning "runtime class that shows every device";
    Vg504 "VG504" Warning "engine without a GPU request";
    Vg601 "VG601" Error   "MIG configuration invalid for the product";
    Vg602 "VG602" Error   "device-plugin configuration invalid or without effect";
    Vg603 "VG603" Warning "nvidia.com/mig.config names nothing";
    Vg604 "VG604" Warning "repartition under running pods";
    Vg701 "VG701" Error   "model does not fit the device";
    Vg702 "VG702" Error   "no KV cache left for one sequence";
    Vg703 "VG703" Error   "no node is large enough";
    Vg704 "VG704" Warning "node facts missing or contradictory";
    Vg901 "VG901" Error   "inventory not ready";
    Vg902 "VG902" Error   "ledger conflict";
    Vg903 "VG903" Error   "policy error";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str() == text)
            .ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

/// A text that is no finding code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a finding code; codes look like VG201 and stand in docs/codes/")]
pub struct UnknownCode(String);

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
