//! Pod templates within objects of other kinds: custom resources whose operators make pods.
//!
//! Wherever an object holds a list `containers`, it holds the specification of a pod; that finds the templates of kinds
//! that nobody wrote down here. A few operators add to what stands in the object, or have no template at all: those are
//! in modules of their own, and what they add is marked as theirs ([`Made`](super::pod::Made)).

use serde_json::{Map, Value};

use super::controller::{Malformed, ObjectRef};
use super::pod::Pod;
use crate::finding::FieldPath;

mod bases;
mod dynamo;
pub(crate) mod groups;
mod kserve;
mod merge;
mod operators;
mod ray;

pub use bases::Bases;

/// A pod template of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Where it stands in the object (`spec.workerGroupSpecs[0].template`).
    pub path: FieldPath,
    /// The pod that is made from it, with the object's namespace.
    pub pod: Pod,
    /// Pods in the steady state.
    pub desired: u32,
    /// Most pods, where the object says.
    pub max: Option<u32>,
}

/// Levels of an object that are searched for templates.
const DEEPEST: usize = 12;

/// API groups whose objects hold patterns of pods and make none.
const PATTERNS: [&str; 5] = [
    "kyverno.io",
    "templates.gatekeeper.sh",
    "mutations.gatekeeper.sh",
    "apiextensions.k8s.io",
    "admissionregistration.k8s.io",
];

/// The templates of an object of a kind that [`Workload`](super::Workload) does not read; none where it makes no pods.
///
/// What stands in `containers` but cannot be read as such is an error that names the field.
pub fn templates(object: &Value) -> Result<(ObjectRef, Vec<Template>), Malformed> {
    templates_on(object, &Bases::default())
}

/// As [`templates`], with the objects that `object` may build on.
pub fn templates_on(object: &Value, bases: &Bases) -> Result<(ObjectRef, Vec<Template>), Malformed> {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let namespace = text("/metadata/namespace");
    let reference = ObjectRef {
        api_version: text("/apiVersion").to_owned(),
        kind: text("/kind").to_owned(),
        namespace: if namespace.is_empty() {
            "default"
        } else {
            namespace
        }
        .to_owned(),
        name: text("/metadata/name").to_owned(),
    };
    let group = reference.api_version.split('/').next().unwrap_or_default();
    let mut found = Vec::new();
    if let Some(spec) = object.get("spec").filter(|_| !PATTERNS.contains(&group)) {
        let special = match (group, reference.kind.as_str()) {
            ("nvidia.com", "DynamoGraphDeployment") => dynamo::templates(spec)?,
            (_, "VLLMRuntime" | "NIMService" | "InferenceSet" | "Workspace" | "Model") => {
                operators::templates(&reference, object)?
            }
            ("serving.kserve.io", "LLMInferenceService") => kserve::llm::templates(&reference, spec, bases)?,
            ("serving.kserve.io", "InferenceService") => kserve::predictor(&reference, object, spec, bases)?,
            _ => Vec::new(),
        };
        if special.is_empty() {
            let from = Place {
                path: FieldPath::new("spec"),
                replicas: 1,
                max: None,
                depth: 0,
            };
            walk(spec, &from, &mut found)?;
        } else {
            found = special;
        }
        match reference.kind.as_str() {
            "RayCluster" | "RayService" | "RayJob" => ray::complete(spec, &mut found),
            "DynamoGraphDeployment" | "DynamoComponentDeployment" => dynamo::over_nodes(spec, &mut found),
            _ => {}
        }
    }
    for template in &mut found {
        template.pod.metadata.namespace.clone_from(&reference.namespace);
    }
    Ok((reference, found))
}

/// Where the walk is.
struct Place {
    path: FieldPath,
    replicas: u32,
    max: Option<u32>,
    depth: usize,
}

fn number(map: &Map<String, Value>, names: &[&str]) -> Option<u32> {
    names
        .iter()
        .find_map(|name| map.get(*name))
        .and_then(Value::as_u64)
        .map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn walk(value: &Value, place: &Place, found: &mut Vec<Template>) -> Result<(), Malformed> {
    if place.depth > DEEPEST {
        return Ok(());
    }
    match value {
        Value::Object(map) => {
            let before = found.len();
            let own = number(map, &["replicas", "parallelism", "minReplicas"]).unwrap_or(1);
            let replicas = place.replicas.saturating_mul(own);
            let max = number(map, &["maxReplicas"]).or(place.max);
            let holds_pods = map.get("containers").is_some_and(is_containers);
            if holds_pods {
                found.push(template_at(value, None, &place.path, replicas, max)?);
            }
            let with_template = map
                .get("spec")
                .filter(|spec| spec.get("containers").is_some_and(is_containers))
                .filter(|_| place.depth > 0);
            if let Some(spec) = with_template {
                found.push(template_at(
                    spec,
                    map.get("metadata"),
                    &place.path,
                    replicas,
                    max,
                )?);
            }
            for (name, inner) in map {
                let seen = holds_pods && matches!(name.as_str(), "containers" | "initContainers" | "volumes")
                    || with_template.is_some() && name == "spec";
                if seen || matches!(name.as_str(), "status" | "metadata") {
                    continue;
                }
                let below = Place {
                    path: place.path.field(name),
                    replicas,
                    max,
                    depth: place.depth + 1,
                };
                walk(inner, &below, found)?;
            }
            groups::complete(map, place.path.as_str(), &mut found[before..]);
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                let below = Place {
                    path: place.path.index(index),
                    replicas: place.replicas,
                    max: place.max,
                    depth: place.depth + 1,
                };
                walk(inner, &below, found)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// A list of containers: each has a name, which Knative gives where it is left out, and says what it runs.
fn is_containers(list: &Value) -> bool {
    let is = |container: &Value| {
        let named = container.get("name").map_or_else(
            || container.get("image").is_some_and(Value::is_string),
            Value::is_string,
        );
        named
            && ["image", "command", "args", "env", "envFrom", "resources"]
                .iter()
                .any(|field| container.get(field).is_some())
    };
    list.as_array()
        .is_some_and(|list| !list.is_empty() && list.iter().all(is))
}

/// The pod of a specification at `path`.
fn template_at(
    spec: &Value,
    metadata: Option<&Value>,
    path: &FieldPath,
    desired: u32,
    max: Option<u32>,
) -> Result<Template, Malformed> {
    let spec = serde_path_to_error::deserialize(spec).map_err(|error| {
        let mut malformed = Malformed::from(error);
        malformed.path = path.field("spec").field(&malformed.path).to_string();
        malformed
    })?;
    // Metadata of a template is free of anything that must be read.
    let metadata = metadata
        .and_then(|metadata| serde_json::from_value(metadata.clone()).ok())
        .unwrap_or_default();
    Ok(Template {
        path: path.clone(),
        pod: Pod {
            metadata,
            spec,
            ..Pod::default()
        },
        desired,
        max,
    })
}
