//! Pod templates within objects of other kinds: custom resources whose operators make pods.
//!
//! Wherever an object holds a list `containers`, it holds the specification of a pod; that finds the templates of kinds
//! that nobody wrote down here. A few operators add to what stands in the object, or have no template at all: those are
//! in modules of their own, and what they add is marked as theirs ([`Made`](super::pod::Made)).

use serde_json::{Map, Value};

use super::controller::{Malformed, ObjectRef};
use super::custom::CustomKind;
use super::pod::{Metadata, Pod};
use crate::finding::FieldPath;

mod bases;
mod count;
mod dynamo;
pub(crate) mod groups;
mod kserve;
mod layout;
mod merge;
mod operators;
mod ray;
mod rollouts;

pub use bases::Bases;
pub use kserve::MODEL_FIELDS;
pub use layout::{Layout, Origin, Scale, Surge};

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
    /// Where its fields stand, and what the object says beside it.
    pub layout: Layout,
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
    let known = CustomKind::of(group, &reference.kind);
    let (root, body) = body(object, group, &reference.kind);
    if let Some(spec) = body.filter(|_| !PATTERNS.contains(&group)) {
        if known.is_some() && !spec.is_object() && !spec.is_null() {
            return Err(count::wrong(&root, spec, "an object"));
        }
        let special = match (group, reference.kind.as_str()) {
            ("nvidia.com", "DynamoGraphDeployment") => dynamo::graph(spec)?,
            ("nvidia.com", "DynamoComponentDeployment") => vec![dynamo::alone(spec)?],
            (_, "VLLMRuntime" | "NIMService" | "NIMPipeline" | "InferenceSet" | "Workspace" | "Model") => {
                operators::templates(&reference, object)?
            }
            ("serving.kserve.io", "LLMInferenceService") => kserve::llm::templates(&reference, spec, bases)?,
            ("serving.kserve.io", "InferenceService") => kserve::predictor(&reference, object, spec, bases)?,
            _ => Vec::new(),
        };
        if special.is_empty() {
            let walk = Walk {
                strict: known.is_some(),
                found: &mut found,
            };
            walk.all(spec, root)?;
        } else {
            found = special;
        }
        match (group, reference.kind.as_str()) {
            ("leaderworkerset.x-k8s.io", "LeaderWorkerSet") => groups::leader_worker_set(spec, &mut found)?,
            ("jobset.x-k8s.io", "JobSet") => groups::job_set(spec, &mut found)?,
            ("ray.io", "RayCluster" | "RayService" | "RayJob") => {
                ray::replicas(&reference.kind, spec, &mut found)?;
                ray::complete(object, spec, &mut found);
            }
            ("argoproj.io", "Rollout") => rollouts::rollout(spec, &mut found)?,
            ("serving.knative.dev", "Service") => rollouts::knative(spec, &mut found)?,
            ("serving.kserve.io", "InferenceService") => groups::predictor(spec, &mut found)?,
            _ => {}
        }
        if let Some(known) = known
            && !known.reads(&reference.api_version)
        {
            for template in &mut found {
                template.layout.opened_by(&format!(
                    "{} is a version that is not known",
                    reference.api_version
                ));
            }
        }
    }
    if group == "serving.kserve.io" && matches!(&*reference.kind, "ServingRuntime" | "ClusterServingRuntime")
    {
        for container in found
            .iter_mut()
            .flat_map(|template| &mut template.pod.spec.containers)
        {
            container.actions_of = Some(format!("{} {}", reference.kind, reference.name));
        }
    }
    for template in &mut found {
        template.pod.metadata.namespace.clone_from(&reference.namespace);
        // A controller gives each pod a name of its own.
        template.pod.metadata.name.clear();
        let list = FieldPath::new("spec").field("containers");
        for (index, container) in template.pod.spec.containers.iter().enumerate() {
            if let Some(made) = &container.made {
                template.layout.put_made(&list.index(index), made);
            }
        }
    }
    Ok((reference, found))
}

/// What of an object says which pods it makes, and where that stands: its `spec`, but a workspace of KAITO has its fields
/// beside the metadata.
fn body<'v>(object: &'v Value, group: &str, kind: &str) -> (FieldPath, Option<&'v Value>) {
    let fields: &[&str] = match (group, kind) {
        ("kaito.sh", "Workspace") => &["spec", "inference", "tuning"],
        _ => &["spec"],
    };
    let found = fields.iter().find_map(|field| Some((*field, object.get(field)?)));
    let (field, value) = found.unzip();
    (FieldPath::new(field.unwrap_or("spec")), value)
}

/// Where the walk is.
struct Place {
    path: FieldPath,
    replicas: u32,
    max: Option<u32>,
    depth: usize,
}

/// The search for lists of containers.
struct Walk<'f> {
    /// Whether the kind is known: then what stands in `containers` is meant as such, and numbers are numbers.
    strict: bool,
    found: &'f mut Vec<Template>,
}

impl Walk<'_> {
    fn all(mut self, spec: &Value, root: FieldPath) -> Result<(), Malformed> {
        let from = Place {
            path: root,
            replicas: 1,
            max: None,
            depth: 0,
        };
        self.walk(spec, &from)
    }

    fn number(
        &self,
        map: &Map<String, Value>,
        path: &FieldPath,
        name: &str,
    ) -> Result<Option<u32>, Malformed> {
        match count::in_map(map, path, name) {
            Err(_) if !self.strict => Ok(None),
            read => read,
        }
    }

    /// Pods of each of what stands around; one where nothing is said.
    fn own(&self, map: &Map<String, Value>, path: &FieldPath) -> Result<u32, Malformed> {
        let number = |name: &str| self.number(map, path, name);
        if let Some(replicas) = number("replicas")? {
            return Ok(replicas);
        }
        let completions = number("completions")?;
        Ok(match number("parallelism")? {
            Some(parallelism) => parallelism.min(completions.unwrap_or(u32::MAX)),
            None => number("minReplicas")?.unwrap_or(1),
        })
    }

    fn holds_pods(&self, list: &Value) -> bool {
        if self.strict {
            !list.is_null()
        } else {
            is_containers(list)
        }
    }

    fn walk(&mut self, value: &Value, place: &Place) -> Result<(), Malformed> {
        if place.depth > DEEPEST {
            return Ok(());
        }
        match value {
            Value::Object(map) => self.object(map, place),
            Value::Array(items) => {
                for (index, inner) in items.iter().enumerate() {
                    let below = Place {
                        path: place.path.index(index),
                        replicas: place.replicas,
                        max: place.max,
                        depth: place.depth + 1,
                    };
                    self.walk(inner, &below)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn object(&mut self, map: &Map<String, Value>, place: &Place) -> Result<(), Malformed> {
        let before = self.found.len();
        let replicas = place.replicas.saturating_mul(self.own(map, &place.path)?);
        let max = self.number(map, &place.path, "maxReplicas")?.or(place.max);
        let here = map.get("containers").is_some_and(|list| self.holds_pods(list));
        if here {
            let spec = Value::Object(map.clone());
            let mut template = template_at(&spec, None, &place.path, true, replicas)?;
            template.max = max;
            self.found.push(template);
        }
        let with_template = map
            .get("spec")
            .filter(|spec| spec.get("containers").is_some_and(|list| self.holds_pods(list)))
            .filter(|_| place.depth > 0);
        if let Some(spec) = with_template {
            let mut template = template_at(spec, map.get("metadata"), &place.path, false, replicas)?;
            template.max = max;
            self.found.push(template);
        }
        for (name, inner) in map {
            let seen = here && matches!(name.as_str(), "containers" | "initContainers" | "volumes")
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
            self.walk(inner, &below)?;
        }
        // Kinds that are known count by their own schema.
        if let Some(inside) = self.found.get_mut(before..).filter(|_| !self.strict) {
            groups::complete(map, &place.path, inside);
        }
        Ok(())
    }
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

/// The pod of a specification that stands at `path` itself (`bare`), or in the field `spec` there.
fn template_at(
    spec: &Value,
    metadata: Option<&Value>,
    path: &FieldPath,
    bare: bool,
    desired: u32,
) -> Result<Template, Malformed> {
    let at = |error: serde_path_to_error::Error<serde_json::Error>, field: &FieldPath| {
        let mut malformed = Malformed::from(error);
        malformed.path = if malformed.path == "object" {
            field.to_string()
        } else {
            field.field(&malformed.path).to_string()
        };
        malformed
    };
    let spec_path = if bare { path.clone() } else { path.field("spec") };
    let spec = serde_path_to_error::deserialize(spec).map_err(|error| at(error, &spec_path))?;
    let metadata = match metadata.filter(|metadata| !metadata.is_null()) {
        Some(metadata) => {
            serde_path_to_error::deserialize(metadata).map_err(|error| at(error, &path.field("metadata")))?
        }
        None => Metadata::default(),
    };
    let layout = if bare {
        Layout::bare(path)
    } else {
        Layout::whole(path)
    };
    Ok(Template {
        path: path.clone(),
        pod: Pod {
            metadata,
            spec,
            ..Pod::default()
        },
        desired,
        max: None,
        layout,
    })
}
