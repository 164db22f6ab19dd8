//! placeholder
use super::Version;
/// Releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Releases {
    /// first
    pub first: Option<Version>,
    /// last
    pub last: Option<Version>,
    /// legacy
    pub legacy: Option<bool>,
}

impl From<Option<Version>> for Releases {
    fn from(version: Option<Version>) -> Self {
        Self {
            first: version,
            last: version,
            legacy: None,
        }
    }
}
