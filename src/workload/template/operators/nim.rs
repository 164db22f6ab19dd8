//! NIM Operator: a service whose image starts by itself with the variables of the object, and pipelines of such services.

use serde_json::{Value, json};

use super::super::super::controller::{Malformed, ObjectRef};
use super::super::{Template, count};
use super::{Container, at, number, template, text, word};
use crate::finding::FieldPath;

/// Several services in one object, of which some may be switched off.
pub(super) fn pipeline(reference: &ObjectRef, object: &Value) -> Result<Vec<Template>, Malformed> {
    let mut found = Vec::new();
    let own = FieldPath::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let list = own.field("services");
    for (index, one) in count::list(spec, &own, "services")?.iter().enumerate() {
        let path = list.index(index);
        if one.get("enabled") == Some(&Value::Bool(false)) {
            continue;
        }
        let name = count::text(one, &path, "name")?.unwrap_or_default();
        let path = path.field("spec");
        if let Some(made) = service(name, object, &path)? {
            found.push(template(reference, made, &path)?);
        }
    }
    Ok(found)
}

/// The container of the service whose specification stands at `path`. Over several nodes each stage of the pipeline has a
/// pod.
pub(super) fn service(name: &str, object: &Value, path: &FieldPath) -> Result<Option<Container>, Malformed> {
    let field = |below: &str| path.field(below);
    let Some(repository) = text(object, field("image.repository").as_str())? else {
        return Ok(None);
    };
    let tag = word(object, field("image.tag").as_str())?;
    let mut resources = match at(object, field("resources").as_str()) {
        (_, None) => json!({}),
        (_, Some(resources @ Value::Object(_))) => resources.clone(),
        (path, Some(other)) => return Err(count::wrong(&path, other, "an object")),
    };
    if at(object, field("draResources").as_str()).1.is_some() {
        resources["claims"] = json!([{"name": "gpu"}]);
    }
    let mut from: Vec<(String, FieldPath)> = ["image", "resources", "env"]
        .map(|name| (name.to_owned(), field(name)))
        .into();
    let mut env = match at(object, field("env").as_str()) {
        (_, None) => Vec::new(),
        (_, Some(Value::Array(variables))) => variables.clone(),
        (path, Some(other)) => return Err(count::wrong(&path, other, "a list")),
    };
    let sizes = field("multiNode.parallelism");
    let mut pods = 0;
    if at(object, sizes.as_str()).1.is_some() {
        let (tensor_at, pipeline_at) = (sizes.field("tp"), sizes.field("pp"));
        let tensor = number(object, tensor_at.as_str())?;
        let pipeline = number(object, pipeline_at.as_str())?;
        pods = pipeline.unwrap_or(1);
        // Without a size of its own a stage takes every device of its pod.
        let devices_at = field("resources.limits").key("nvidia.com/gpu");
        let devices = word(object, devices_at.as_str())?;
        let tensor = match tensor {
            Some(tensor) => Some((tensor.to_string(), tensor_at)),
            None => devices.map(|devices| (devices, devices_at)),
        };
        let pipeline = pipeline.map(|pipeline| (pipeline.to_string(), pipeline_at));
        for (variable, size) in [
            ("NIM_TENSOR_PARALLEL_SIZE", tensor),
            ("NIM_PIPELINE_PARALLEL_SIZE", pipeline),
        ] {
            if let Some((size, origin)) = size {
                from.push((format!("env[{}]", env.len()), origin));
                env.push(json!({"name": variable, "value": size}));
            }
        }
    }
    // An autoscaler starts from its least.
    let scaled = at(object, field("scale.enabled").as_str()).1 == Some(&Value::Bool(true));
    let least = number(object, field("scale.hpa.minReplicas").as_str())?.filter(|_| scaled);
    let replicas = number(object, field("replicas").as_str())?.or(least).unwrap_or(1);
    Ok(Some(Container {
        name: format!("{name}-ctr"),
        image: tag.map_or_else(|| repository.to_owned(), |tag| format!("{repository}:{tag}")),
        resources,
        env: Value::Array(env),
        desired: replicas.saturating_mul(pods.max(1)),
        max: number(object, field("scale.hpa.maxReplicas").as_str())?,
        from,
        spread_over: pods,
        ..Container::default()
    }))
}
