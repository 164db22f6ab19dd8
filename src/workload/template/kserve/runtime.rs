//! An InferenceService joined with the serving runtime that its input holds, as KServe's controller joins them: the
//! model's container is laid over the runtime's, and its arguments follow the runtime's.

use serde_json::{Map, Value, json};

use super::super::super::controller::{Malformed, ObjectRef};
use super::super::super::pod::Made;
use super::super::{Bases, Template, merge, template_at};
use crate::finding::FieldPath;

/// The container that serves the model.
const SERVER: &str = "kserve-container";

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
    model: &Value,
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
    let Some((name, runtime)) = found else {
        return Ok(Vec::new());
    };
    let service = Service { reference, object };
    let mut server = model.clone();
    server["name"] = json!(SERVER);
    let own = std::iter::once(&server).chain(
        predictor
            .get("containers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten(),
    );
    let own: Vec<Value> = own.cloned().collect();
    let path = FieldPath::new("spec").field("predictor");
    let number = |name: &str| count(predictor.get(name));
    let desired = number("minReplicas").unwrap_or(1);
    let group = Group::of(runtime, predictor);
    let by = format!("the serving runtime {name} makes the command line");
    let mut pod = Joined::new(runtime, predictor, &own);
    pod.server_image(model.get("runtimeVersion").and_then(Value::as_str));
    if let Some(group) = &group {
        group.complete(&mut pod);
    }
    let mut templates = vec![pod.template(&service, &path, (desired, number("maxReplicas")), &by)?];
    if let Some(group) = &group {
        let own = predictor
            .pointer("/workerSpec/containers")
            .and_then(Value::as_array);
        let empty = json!({});
        let of = |spec: &Value| spec.get("workerSpec").cloned().unwrap_or_else(|| empty.clone());
        let (base, over) = (of(runtime), of(predictor));
        let mut pod = Joined::new(&base, &over, own.map_or(&[], Vec::as_slice));
        group.complete(&mut pod);
        if !pod.containers.is_empty() {
            let desired = desired.saturating_mul(group.pipeline.saturating_sub(1));
            templates.push(pod.template(&service, &path.field("workerSpec"), (desired, None), &by)?);
        }
    }
    Ok(templates)
}

fn count(value: Option<&Value>) -> Option<u32> {
    value?
        .as_u64()
        .map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// Sizes of a predictor over several pods. KServe hands them on by variables, and gives every pod a device for each
/// tensor-parallel rank.
struct Group {
    tensor: u32,
    pipeline: u32,
}

impl Group {
    fn of(runtime: &Value, predictor: &Value) -> Option<Self> {
        let own = predictor.get("workerSpec")?;
        let base = runtime.get("workerSpec");
        let size = |name: &str| {
            let of_base = || count(base.and_then(|base| base.get(name)));
            count(own.get(name)).or_else(of_base).unwrap_or(1)
        };
        Some(Self {
            tensor: size("tensorParallelSize"),
            pipeline: size("pipelineParallelSize"),
        })
    }

    fn complete(&self, pod: &mut Joined) {
        let Some(container) = pod.containers.first_mut().and_then(Value::as_object_mut) else {
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

/// A pod of runtime and service.
struct Joined {
    spec: Map<String, Value>,
    /// The server first.
    containers: Vec<Value>,
}

impl Joined {
    fn new(runtime: &Value, own: &Value, own_containers: &[Value]) -> Self {
        let without = |spec: &Value| {
            let mut spec = spec.as_object().cloned().unwrap_or_default();
            for name in ["containers", "workerSpec", "model"] {
                spec.remove(name);
            }
            Value::Object(spec)
        };
        let spec = merge::merged(&without(runtime), &without(own));
        let base = runtime
            .get("containers")
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        let mut containers: Vec<Value> = Vec::with_capacity(base.len() + own_containers.len());
        for container in base.iter().chain(own_containers) {
            let name = container.get("name");
            match containers.iter_mut().find(|known| known.get("name") == name) {
                Some(known) => *known = with_arguments(known, container),
                None => containers.push(container.clone()),
            }
        }
        Self {
            spec: spec.as_object().cloned().unwrap_or_default(),
            containers,
        }
    }

    /// `runtimeVersion` takes the place of the image's tag.
    fn server_image(&mut self, version: Option<&str>) {
        let server = self
            .containers
            .iter_mut()
            .find(|container| container.get("name").and_then(Value::as_str) == Some(SERVER));
        let image = server.and_then(|server| server.get_mut("image"));
        if let (Some(Value::String(image)), Some(version)) = (image, version) {
            let name = match image.rsplit_once(':') {
                Some((name, tag)) if !tag.contains('/') => name.to_owned(),
                _ => image.clone(),
            };
            *image = format!("{name}:{version}");
        }
    }

    fn template(
        mut self,
        service: &Service<'_>,
        path: &FieldPath,
        (desired, max): (u32, Option<u32>),
        by: &str,
    ) -> Result<Template, Malformed> {
        let mut made = Vec::with_capacity(self.containers.len());
        for container in &mut self.containers {
            merge::fill(container, &|path| service.look_up(path));
            let mut words = |field: &str| -> Vec<String> {
                let list = container
                    .as_object_mut()
                    .and_then(|container| container.remove(field));
                let items = list.as_ref().and_then(Value::as_array).into_iter().flatten();
                items.filter_map(Value::as_str).map(str::to_owned).collect()
            };
            let command = words("command");
            let args = words("args");
            let open = command.iter().chain(&args).any(|word| word.contains("{{"));
            made.push(Made {
                behind_entrypoint: command.is_empty(),
                commands: vec![command.into_iter().chain(args).collect()],
                by: by.to_owned(),
                doubtful: open,
            });
        }
        self.spec
            .insert("containers".to_owned(), Value::Array(self.containers));
        let mut template = template_at(&Value::Object(self.spec), None, path, desired, max)?;
        for (container, made) in template.pod.spec.containers.iter_mut().zip(made) {
            container.made = Some(made);
        }
        Ok(template)
    }
}

/// A container laid over the runtime's: arguments follow instead of replacing.
fn with_arguments(base: &Value, over: &Value) -> Value {
    let mut out = merge::merged(base, over);
    let args = |container: &Value| {
        container
            .get("args")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let all: Vec<Value> = args(base).into_iter().chain(args(over)).collect();
    if let Some(fields) = out.as_object_mut().filter(|_| !all.is_empty()) {
        fields.insert("args".to_owned(), Value::Array(all));
    }
    out
}
