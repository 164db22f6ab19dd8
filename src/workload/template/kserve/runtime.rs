//! An InferenceService joined with the serving runtime that its input holds, as KServe's controller joins them: the
//! model's container is laid over the runtime's, and its arguments follow the runtime's.

use serde_json::{Value, json};

use super::super::super::controller::{Malformed, ObjectRef};
use super::super::{Bases, Template, count, merge};
use super::joined::{By, Joined, SERVER};
use crate::finding::FieldPath;

/// Names of an InferenceService in a runtime's template: `{{.Name}}`.
struct Service<'o> {
    reference: &'o ObjectRef,
    object: &'o Value,
}

impl Service<'_> {
    fn look_up(&self, path: &str) -> Option<String> {
        let metadata = |field: &str, key: &str| {
            let value = self.object.get("metadata")?.get(field)?.get(key)?;
            value.as_str().map(str::to_owned)
        };
        match path {
            "Name" | "ObjectMeta.Name" => Some(self.reference.name.clone()),
            "Namespace" | "ObjectMeta.Namespace" => Some(self.reference.namespace.clone()),
            _ => match path.split_once('.')? {
                ("Labels", key) => metadata("labels", key),
                ("Annotations", key) => metadata("annotations", key),
                _ => None,
            },
        }
    }
}

/// The templates of a predictor whose runtime is known; none where it is not.
pub(super) fn joined(
    reference: &ObjectRef,
    object: &Value,
    predictor: &Value,
    (model, model_at): (&Value, &FieldPath),
    bases: &Bases,
) -> Result<Vec<Template>, Malformed> {
    let namespace = &reference.namespace;
    let found = if let Some(name) = model.get("runtime").and_then(Value::as_str) {
        bases.runtime(namespace, name)
    } else {
        let of_format = |field: &str| model.pointer(&format!("/modelFormat/{field}"))?.as_str();
        let format = of_format("name").unwrap_or_default();
        bases.runtime_for(namespace, format, of_format("version"))
    };
    let Some(found) = found else {
        return Ok(Vec::new());
    };
    let runtime = found.spec;
    let service = Service { reference, object };
    let look_up = |path: &str| service.look_up(path);
    let mut server = model.clone();
    server["name"] = json!(SERVER);
    let path = FieldPath::new("spec").field("predictor");
    let mut own = vec![(server, model_at.clone())];
    own.extend(containers_of(predictor, &path)?);
    let desired = count::field(predictor, &path, "minReplicas")?.unwrap_or(1);
    let max = count::field(predictor, &path, "maxReplicas")?;
    let group = Group::of(runtime, predictor, &path)?;
    let by = By {
        object: format!("{} {}", found.kind, found.name),
        text: format!("the serving runtime {} makes the command line", found.name),
    };
    let top = FieldPath::new("spec");
    let mut pod = Joined::new((runtime, &top), predictor, &own);
    pod.server_image(model.get("runtimeVersion").and_then(Value::as_str));
    if let Some(group) = &group {
        group.complete(&mut pod);
    }
    let mut templates = vec![pod.template(&look_up, &path, (desired, max), &by)?];
    if let Some(group) = &group {
        let at = path.field("workerSpec");
        let own = containers_of(predictor.get("workerSpec").unwrap_or(&Value::Null), &at)?;
        let empty = json!({});
        let of = |spec: &Value| spec.get("workerSpec").cloned().unwrap_or_else(|| empty.clone());
        let (base, over) = (of(runtime), of(predictor));
        let mut pod = Joined::new((&base, &top.field("workerSpec")), &over, &own);
        group.complete(&mut pod);
        if !pod.containers.is_empty() {
            let desired = desired.saturating_mul(group.pipeline.saturating_sub(1));
            templates.push(pod.template(&look_up, &at, (desired, None), &by)?);
        }
    }
    Ok(templates)
}

/// The containers of a part of the service, each with its field.
fn containers_of(part: &Value, at: &FieldPath) -> Result<Vec<(Value, FieldPath)>, Malformed> {
    let field = at.field("containers");
    let items = count::list(part, at, "containers")?.iter().enumerate();
    Ok(items
        .map(|(index, container)| (container.clone(), field.index(index)))
        .collect())
}

/// Sizes of a predictor over several pods. KServe hands them on by variables, and gives every pod a device for each
/// tensor-parallel rank.
struct Group {
    tensor: u32,
    pipeline: u32,
}

impl Group {
    fn of(runtime: &Value, predictor: &Value, path: &FieldPath) -> Result<Option<Self>, Malformed> {
        let Some(own) = count::map(predictor, path, "workerSpec")? else {
            return Ok(None);
        };
        let base = runtime.get("workerSpec").unwrap_or(&Value::Null);
        let at = path.field("workerSpec");
        let size = |name: &str| -> Result<u32, Malformed> {
            match count::field(own, &at, name)? {
                Some(size) => Ok(size),
                None => Ok(count::field(base, &FieldPath::new("spec.workerSpec"), name)?.unwrap_or(1)),
            }
        };
        Ok(Some(Self {
            tensor: size("tensorParallelSize")?,
            pipeline: size("pipelineParallelSize")?,
        }))
    }

    fn complete(&self, pod: &mut Joined) {
        let first = pod.containers.first_mut().map(|container| &mut container.value);
        let Some(container) = first.and_then(Value::as_object_mut) else {
            return;
        };
        let env = json!([
            {"name": "TENSOR_PARALLEL_SIZE", "value": self.tensor.to_string()},
            {"name": "PIPELINE_PARALLEL_SIZE", "value": self.pipeline.to_string()},
        ]);
        let before = container.get("env").cloned().unwrap_or_else(|| json!([]));
        container.insert("env".to_owned(), merge::merged(&before, &env));
        let gpu = json!({"limits": {"nvidia.com/gpu": self.tensor.to_string()}});
        let resources = container.get("resources").cloned().unwrap_or_else(|| json!({}));
        let has_devices = resources
            .get("limits")
            .and_then(Value::as_object)
            .is_some_and(|limits| {
                limits
                    .keys()
                    .any(|name| name.contains("gpu") || name.contains("mig-"))
            });
        if !has_devices {
            container.insert("resources".to_owned(), merge::merged(&resources, &gpu));
        }
    }
}
