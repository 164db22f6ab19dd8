//! The `autoscaling/v1` Scale that stands in the reviews of scale sub-resources.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::workload::Malformed;

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaleObject {
    spec: Option<ScaleSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaleSpec {
    replicas: Option<i64>,
}

/// `spec.replicas` of an `autoscaling/v1` Scale; absent means 0 there.
pub(super) fn replicas(raw: &RawValue) -> Result<u32, Malformed> {
    let malformed = |message: String| Malformed {
        path: "spec.replicas".to_owned(),
        message,
    };
    let scale: ScaleObject = serde_json::from_str(raw.get()).map_err(|error| {
        malformed(format!(
            "cannot be read as an integer from 0 to {}: {error}",
            i32::MAX
        ))
    })?;
    let replicas = scale.spec.unwrap_or_default().replicas.unwrap_or(0);
    u32::try_from(replicas).map_err(|_| {
        malformed(format!(
            "{replicas} is not a number of pods: write an integer from 0 to {}",
            i32::MAX
        ))
    })
}
