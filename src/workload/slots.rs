//! The GPU slots that a container asks for, by the API server's rules for extended resources.

use super::Malformed;
use super::pod::{Container, Pod, QuantityText};
use crate::device::is_slot_resource;
use crate::finding::FieldPath;
use crate::quantity::Quantity;

/// Labels, annotations and resources of vramgate itself.
pub(crate) const OWN_DOMAIN: &str = "vramgate.io/";

/// Slots of one resource that one container asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    /// The extended resource (`nvidia.com/gpu`).
    pub resource: String,
    /// How many; never zero.
    pub count: u32,
    /// Where it is written (`spec.containers[0].resources.limits[nvidia.com/gpu]`).
    pub path: FieldPath,
}

/// Whether the container's resources name one that is counted in slots; where not, [`slots`] are none.
#[must_use]
pub fn names_any(container: &Container) -> bool {
    let resources = &container.resources;
    resources
        .limits
        .keys()
        .chain(resources.requests.keys())
        .any(|name| is_slot_resource(name))
}

/// Reads what the container at `path` asks for; empty where it asks for no slot.
///
/// A count lies in `limits`; `requests`, where it is there too, must be equal. A request without a limit, a part of a
/// slot and a negative count are refused by the API server, so they are errors here, with what to write instead.
pub fn slots(container: &Container, path: &FieldPath) -> Result<Vec<SlotRequest>, Malformed> {
    let resources = &container.resources;
    let mut found = Vec::new();
    for (name, text) in resources.limits.iter().filter(|(name, _)| is_slot_resource(name)) {
        let field = || path.field("resources").field("limits").key(name);
        let count = count(text, &field)?;
        if let Some(request) = resources.requests.get(name) {
            let asked = || path.field("resources").field("requests").key(name);
            if self::count(request, &asked)? != count {
                return Err(Malformed {
                    path: asked().to_string(),
                    message: format!(
                        "{request:?} is not the limit {limit:?}: requests and limits of {name} must be equal; \
                         write {count} in both, or leave the request out",
                        request = request.0,
                        limit = text.0,
                    ),
                });
            }
        }
        if count > 0 {
            found.push(SlotRequest {
                resource: name.clone(),
                count,
                path: field(),
            });
        }
    }
    let unlimited = |name: &String| is_slot_resource(name) && !resources.limits.contains_key(name);
    if let Some((name, text)) = resources.requests.iter().find(|(name, _)| unlimited(name)) {
        return Err(Malformed {
            path: path.field("resources").field("limits").key(name).to_string(),
            message: format!(
                "is missing: {name} is requested ({:?}) without a limit, which the API server refuses; \
                 write the same count under limits",
                text.0
            ),
        });
    }
    Ok(found)
}

/// Whether a pod is ours to judge: a container asks for a slot, a claim is there, or something of `vramgate.io/` is
/// written in it. A count that cannot be read counts as asking, so that its error is reported.
#[must_use]
pub fn asks_for_gpu(pod: &Pod) -> bool {
    let spec = &pod.spec;
    let is_own = |name: &String| name.starts_with(OWN_DOMAIN);
    let asks = |(name, text): (&String, &QuantityText)| {
        is_own(name)
            || (is_slot_resource(name)
                && text.0 != "0"
                && !Quantity::parse(&text.0).is_ok_and(Quantity::is_zero))
    };
    let containers = spec
        .containers
        .iter()
        .chain(&spec.init_containers)
        .chain(&spec.ephemeral_containers);
    !spec.resource_claims.is_empty()
        || pod
            .metadata
            .annotations
            .range(OWN_DOMAIN.to_owned()..)
            .next()
            .is_some_and(|(name, _)| is_own(name))
        || containers
            .flat_map(|container| {
                container
                    .resources
                    .limits
                    .iter()
                    .chain(&container.resources.requests)
            })
            .any(asks)
}

fn count(text: &QuantityText, path: &dyn Fn() -> FieldPath) -> Result<u32, Malformed> {
    let text = text.0.as_str();
    let refuse = |message: String| {
        Err(Malformed {
            path: path().to_string(),
            message,
        })
    };
    let quantity = match Quantity::parse(text) {
        Ok(quantity) => quantity,
        Err(error) => {
            return refuse(format!(
                "{:?} is not a count: write a whole number such as 1",
                error.value
            ));
        }
    };
    if quantity.is_negative() {
        return refuse(format!(
            "{text:?} is below 0: write a whole number such as 1, or leave it out"
        ));
    }
    match quantity.whole().map(u32::try_from) {
        Some(Ok(count)) => Ok(count),
        Some(Err(_)) => refuse(format!(
            "{text:?} is more than any node offers: write a whole number such as 1"
        )),
        None => refuse(format!(
            "{text:?} is a part of a slot, which the API server refuses: write 1 (a part of a GPU is a slot of a \
             shared node or a MIG profile, not a fraction here)"
        )),
    }
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "JSON literals read better without borrows"
)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(resources: Value) -> Container {
        serde_json::from_value(json!({ "name": "main", "resources": resources })).unwrap()
    }

    fn read(resources: Value) -> Result<Vec<SlotRequest>, Malformed> {
        slots(&container(resources), &FieldPath::new("spec.containers[0]"))
    }

    #[test]
    fn limits_alone_are_enough_and_zero_is_nothing() {
        let found = read(json!({ "limits": {
            "cpu": "4", "nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": "0", "nvidia.com/gpumem": "4000",
            "amd.com/gpu": "1",
        }}))
        .unwrap();
        assert_eq!(
            found,
            [SlotRequest {
                resource: "nvidia.com/gpu".to_owned(),
                count: 2,
                path: FieldPath::new("spec.containers[0].resources.limits[nvidia.com/gpu]"),
            }]
        );
        assert_eq!(read(json!({})), Ok(vec![]));
        assert_eq!(read(json!(null)), Ok(vec![]));
    }

    #[test]
    fn equal_quantities_may_be_written_differently() {
        let found = read(json!({
            "limits": { "nvidia.com/gpu.shared": "1" }, "requests": { "nvidia.com/gpu.shared": "1000m" },
        }));
        assert_eq!(found.map(|found| found[0].count), Ok(1));
    }

    #[test]
    fn what_the_api_server_refuses_names_field_value_and_remedy() {
        let limit = "spec.containers[0].resources.limits[nvidia.com/gpu]";
        for (resources, path, words) in [
            (
                json!({ "limits": { "nvidia.com/gpu": "0.5" } }),
                limit,
                ["\"0.5\"", "write 1"],
            ),
            (
                json!({ "limits": { "nvidia.com/gpu": 0.5 } }),
                limit,
                ["\"0.5\"", "write 1"],
            ),
            (
                json!({ "limits": { "nvidia.com/gpu": "-1" } }),
                limit,
                ["\"-1\"", "below 0"],
            ),
            (
                json!({ "limits": { "nvidia.com/gpu": "one" } }),
                limit,
                ["\"one\"", "such as 1"],
            ),
            (
                json!({ "limits": { "nvidia.com/gpu": "5G" } }),
                limit,
                ["\"5G\"", "more than any node"],
            ),
            (
                json!({ "requests": { "nvidia.com/gpu": 1 } }),
                limit,
                ["without a limit", "under limits"],
            ),
            (
                json!({ "limits": { "nvidia.com/gpu": 2 }, "requests": { "nvidia.com/gpu": 1 } }),
                "spec.containers[0].resources.requests[nvidia.com/gpu]",
                ["\"1\"", "write 2 in both"],
            ),
        ] {
            let error = read(resources).unwrap_err();
            assert_eq!(error.path, path);
            for word in words {
                assert!(error.message.contains(word), "{error}");
            }
        }
    }

    #[test]
    fn a_pod_asks_by_slot_claim_or_own_name() {
        let with = |spec: Value, annotations: Value| {
            let pod = json!({ "metadata": { "annotations": annotations }, "spec": spec });
            asks_for_gpu(&serde_json::from_value(pod).unwrap())
        };
        let limits = |limits: Value| json!({ "containers": [{}, { "resources": { "limits": limits } }] });
        assert!(with(limits(json!({ "nvidia.com/gpu": 1 })), json!({})));
        assert!(with(limits(json!({ "nvidia.com/gpu": "one" })), json!({})));
        assert!(with(limits(json!({ "vramgate.io/gpu-ppm": 1 })), json!({})));
        assert!(with(
            json!({ "initContainers": [{ "resources": { "requests": { "nvidia.com/gpu": 1 } } }] }),
            json!({})
        ));
        assert!(with(json!({ "resourceClaims": [{ "name": "gpu" }] }), json!({})));
        assert!(with(
            json!({}),
            json!({ "a": "b", "vramgate.io/gpu-memory.main": "4Gi", "z": "" })
        ));

        assert!(!with(
            limits(json!({ "nvidia.com/gpu": "0", "cpu": 1 })),
            json!({})
        ));
        assert!(!with(limits(json!({ "nvidia.com/gpu": "0m" })), json!({})));
        assert!(!with(
            limits(json!({ "amd.com/gpu": 1, "google.com/tpu": 4 })),
            json!({ "vramgate.example": "" })
        ));
        assert!(!with(json!(null), json!(null)));
    }
}
