//! Whose memory a fraction of the total means.

/// What an engine compares its fraction with when it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meaning {
    /// What this instance takes, whoever else is on the device; also where it is not certain.
    #[default]
    Instance,
    /// All that is taken of the device, by others as well: vLLM up to 0.3.0 and 0.6.4, its V1 core before 0.9.1, and
    /// TGI.
    WholeDevice,
    /// The same, except on devices before Ampere, where the release falls back to its V0 core.
    WholeDeviceFromAmpere,
}

impl Meaning {
    /// Whether what others hold counts on such a device.
    #[must_use]
    pub const fn counts_others(self, before_ampere: bool) -> bool {
        match self {
            Self::Instance => false,
            Self::WholeDevice => true,
            Self::WholeDeviceFromAmpere => !before_ampere,
        }
    }
}
