//! The API server reads an explicit `null` as an absent field; so do we.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the type's empty value, which is what an absent field means in the Kubernetes API.
pub(crate) fn as_absent<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
