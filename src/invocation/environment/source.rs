//! `valueFrom`: keys of other objects, fields of the pod, resources of a container.

use std::borrow::Cow;

use crate::engine::{LookUp, Sources};
use crate::quantity::Quantity;
use crate::workload::pod::{Container, EnvVarSource, Pod, QuantityText, ResourceFieldRef};

/// The value; `Err(None)`: the variable is not set at all.
pub(super) fn value<'a>(
    pod: &'a Pod,
    container: &Container,
    namespace: &str,
    source: &'a EnvVarSource,
    sources: &'a dyn Sources,
) -> Result<Cow<'a, str>, Option<String>> {
    if let Some(reason) = &source.unread {
        return Err(Some(reason.clone()));
    }
    if let Some(key) = &source.config_map_key_ref {
        return match sources.config_map(namespace, &key.name) {
            LookUp::Found(data) => match data.get(&key.key) {
                Some(value) => Ok(Cow::Borrowed(value)),
                None if key.optional => Err(None),
                None => Err(Some(format!(
                    "ConfigMap {namespace}/{} has no key {}",
                    key.name, key.key
                ))),
            },
            LookUp::Missing if key.optional => Err(None),
            LookUp::Missing => Err(Some(format!("ConfigMap {namespace}/{} does not exist", key.name))),
            LookUp::NotRead(why) => Err(Some(format!(
                "ConfigMap {namespace}/{} was not read: {why}",
                key.name
            ))),
        };
    }
    if let Some(key) = &source.secret_key_ref {
        return Err(Some(format!("Secret {namespace}/{} is never read", key.name)));
    }
    if let Some(field) = &source.field_ref {
        let metadata = &pod.metadata;
        let entry = |map: &'a std::collections::BTreeMap<String, String>, prefix: &str| {
            let key = field.field_path.strip_prefix(prefix)?.strip_suffix("']")?;
            map.get(key).map(|value| Cow::Borrowed(value.as_str()))
        };
        return match field.field_path.as_str() {
            "metadata.name" if !metadata.name.is_empty() => Ok(Cow::Borrowed(&metadata.name)),
            "metadata.namespace" if !metadata.namespace.is_empty() => Ok(Cow::Borrowed(&metadata.namespace)),
            "spec.nodeName"
                if let Some(node) = pod.spec.node_name.as_deref().filter(|node| !node.is_empty()) =>
            {
                Ok(Cow::Borrowed(node))
            }
            path => entry(&metadata.labels, "metadata.labels['")
                .or_else(|| entry(&metadata.annotations, "metadata.annotations['"))
                .ok_or_else(|| Some(format!("the field {path} is not known before the pod runs"))),
        };
    }
    if let Some(reference) = &source.resource_field_ref {
        return resource(pod, container, reference).map(Cow::Owned).map_err(Some);
    }
    Err(Some(
        "the source of the value is of a kind that is not read".to_owned(),
    ))
}

/// A resource of a container in units of the divisor, rounded up: of `cpu` both count in thousandths, of the others in
/// ones. A divisor of zero is one.
///
/// Without a limit the kubelet puts in what the node has, and a `LimitRange` may set one before. Requests that are not
/// written are set from the limits by the API server.
///
/// Source: `ExtractContainerResourceValue` in `pkg/api/v1/resource/helpers.go` of kubernetes/kubernetes.
fn resource(pod: &Pod, container: &Container, reference: &ResourceFieldRef) -> Result<String, String> {
    let field = &reference.resource;
    let (list, name) = field
        .split_once('.')
        .filter(|(list, name)| {
            let known =
                matches!(*name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
            known && matches!(*list, "limits" | "requests")
        })
        .ok_or_else(|| format!("the resource field {field} is none that a variable can have"))?;
    let named = reference
        .container_name
        .as_deref()
        .filter(|name| !name.is_empty());
    let of = match named {
        Some(other) if other != container.name => {
            let mut all = pod.spec.init_containers.iter().chain(&pod.spec.containers);
            all.find(|container| container.name == other)
                .ok_or_else(|| format!("the pod has no container {other}, whose {field} is asked for"))?
        }
        _ => container,
    };
    let limit = of.resources.limits.get(name);
    let written = match list {
        "limits" => limit,
        _ => of.resources.requests.get(name).or(limit),
    };
    // To the kubelet a limit of zero is none.
    let is_zero = |text: &&QuantityText| Quantity::parse(&text.0).is_ok_and(Quantity::is_zero);
    let written = written.filter(|text| list == "requests" || !is_zero(text));
    let written =
        written.ok_or_else(|| format!("{field} is not set, so the node or a LimitRange decides it"))?;
    let divisor = reference.divisor.as_ref().filter(|text| !text.0.is_empty());
    let in_units = |text: &QuantityText| {
        let quantity = Quantity::parse(&text.0).map_err(|error| format!("{field}: {error}"))?;
        let units = if name == "cpu" {
            quantity.thousandths_up()
        } else {
            quantity.ones_up()
        };
        units.ok_or_else(|| format!("{field}: {} is below zero", text.0))
    };
    let amount = in_units(written)?;
    let unit = match divisor {
        Some(divisor) => in_units(divisor)?,
        None => 0,
    };
    let one = if name == "cpu" { 1000 } else { 1 };
    let unit = if unit == 0 { one } else { unit };
    Ok(amount.div_ceil(unit).to_string())
}

#[cfg(test)]
mod tests;
