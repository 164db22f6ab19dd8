//! Kinds that replace their pods step by step: Argo's Rollout and Knative's Service.

use serde_json::Value;

use super::super::controller::Malformed;
use super::{Scale, Surge, Template, count};
use crate::finding::{FieldPath, shortened};

/// Rollout: as a Deployment in a canary rollout, and with a second set of pods in a blue-green one.
///
/// Source: `types.go` and `defaults.go` of argo-rollouts (one replica; `maxSurge` and `maxUnavailable` 25%; the preview
/// has as many pods as the stable set unless `previewReplicaCount` says otherwise).
pub(super) fn rollout(spec: &Value, found: &mut [Template]) -> Result<(), Malformed> {
    let own = FieldPath::new("spec");
    let desired = count::field(spec, &own, "replicas")?.unwrap_or(1);
    let at = own.field("strategy");
    let strategy = count::map(spec, &own, "strategy")?.unwrap_or(&Value::Null);
    let blue_green = count::map(strategy, &at, "blueGreen")?;
    let canary_at = at.field("canary");
    let canary = count::map(strategy, &at, "canary")?;
    let surge = if let Some(blue_green) = blue_green {
        let preview = count::field(blue_green, &at.field("blueGreen"), "previewReplicaCount")?;
        Surge {
            pods: preview.unwrap_or(desired),
            unavailable: 0,
            path: at.field("blueGreen"),
            without: Vec::new(),
        }
    } else {
        let limits = canary.unwrap_or(&Value::Null);
        let of = |name: &str, up: bool| -> Result<u32, Malformed> {
            let read = count::or_percent(limits, &canary_at, name, desired, up)?;
            let quarter = if up { desired.div_ceil(4) } else { desired / 4 };
            Ok(read.unwrap_or(quarter))
        };
        let (surge, unavailable) = (of("maxSurge", true)?, of("maxUnavailable", false)?.min(desired));
        let without = [("maxSurge", 0), ("maxUnavailable", unavailable.max(1))];
        Surge {
            pods: surge,
            unavailable,
            path: canary_at.clone(),
            // A strategy that is not written has no place for them.
            without: canary
                .into_iter()
                .flat_map(|_| without)
                .map(|(name, value)| (canary_at.field(name).to_pointer(), value.into()))
                .collect(),
        }
    };
    for template in found.iter_mut().filter(|t| t.path.as_str() == "spec.template") {
        template.desired = desired;
        template.layout.scale = Some(Scale {
            path: own.field("replicas"),
            name: "replicas",
            now: desired,
            least: 0,
            pods: 1,
        });
        template.layout.surge = (surge.pods > 0 && desired > 0).then(|| surge.clone());
    }
    Ok(())
}

/// Annotations of a revision, the newer spelling first.
const LEAST: [&str; 2] = [
    "autoscaling.knative.dev/min-scale",
    "autoscaling.knative.dev/minScale",
];
const MOST: [&str; 2] = [
    "autoscaling.knative.dev/max-scale",
    "autoscaling.knative.dev/maxScale",
];
const FIRST: [&str; 2] = [
    "autoscaling.knative.dev/initial-scale",
    "autoscaling.knative.dev/initialScale",
];

/// Knative Service: a new revision starts with its initial scale (one where nothing is said), at least with the least, and
/// beside the pods of the one before, which end when it is ready.
///
/// Sources: knative.dev/docs `serving/autoscaling/scale-bounds`; `pkg/apis/autoscaling/register.go` of knative/serving.
/// A single container needs no name there: it is called `user-container`.
pub(super) fn knative(spec: &Value, found: &mut [Template]) -> Result<(), Malformed> {
    let at = FieldPath::new("spec").field("template");
    let annotations = spec.pointer("/template/metadata/annotations");
    let number = |names: &[&str; 2]| -> Result<Option<u32>, Malformed> {
        for name in names {
            let Some(value) = annotations.and_then(|all| all.get(*name)) else {
                continue;
            };
            let text = value.as_str().unwrap_or_default();
            return text.parse().map(Some).map_err(|_| Malformed {
                path: at.field("metadata").field("annotations").key(name).to_string(),
                message: format!(
                    "{} is not a number of pods: write a whole number in quotes, such as \"1\"",
                    shortened(&value.to_string(), 80)
                ),
            });
        }
        Ok(None)
    };
    let least = number(&LEAST)?.unwrap_or(0);
    let desired = number(&FIRST)?.unwrap_or(1).max(least);
    let max = number(&MOST)?.filter(|max| *max > 0);
    for template in found.iter_mut().filter(|template| template.path == at) {
        template.desired = desired;
        template.max = max;
        template.layout.surge = (desired > 0).then(|| Surge {
            pods: desired,
            unavailable: 0,
            path: at.clone(),
            without: Vec::new(),
        });
        for container in &mut template.pod.spec.containers {
            if container.name.is_empty() {
                "user-container".clone_into(&mut container.name);
            }
        }
    }
    Ok(())
}
