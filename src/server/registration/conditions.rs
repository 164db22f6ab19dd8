//! The CEL of the registrations.
//!
//! Loops go over containers and over the resource names of one container, or over annotations; none is deeper, so the
//! cost stays a small part of what the API server allows.

use super::Gate;
use crate::demand::access::{AS_MOUNTS, ENGINE_IMAGES, NO_DEVICE, VARIABLE};

/// Whether a resource name is of a GPU.
const RESOURCE: &str = "(k.startsWith('nvidia.com/') || k.startsWith('vramgate.io/'))";

/// Whether a pod asks for a GPU.
pub(super) fn pod_asks() -> String {
    asks("object")
}

/// A pod that asks for a GPU, when it is created; later only where an image, a declaration or a scheduling gate
/// changes. Ephemeral containers always count as a change. Mirror pods are pods.
pub(super) fn pod_matters() -> String {
    let images = ["containers", "initContainers", "ephemeralContainers"]
        .map(|list| format!("{} != {}", images("object", list), images("oldObject", list)))
        .join(" || ");
    let gates = format!("{} != {}", gates("object"), gates("oldObject"));
    format!(
        "({asks} && (request.operation == 'CREATE' || {images} || {gates})) || \
         (request.operation == 'UPDATE' && ({changed} || {dropped}))",
        asks = asks("object"),
        changed = declaration_differs("object", "oldObject"),
        dropped = declaration_differs("oldObject", "object"),
    )
}

/// Pods that ask come to the entry of their own.
pub(super) fn asks_not() -> String {
    format!("!{}", asks("object"))
}

/// A pod when it is created; later only where an image changes.
pub(super) fn is_new_or_has_other_images() -> String {
    let images = ["containers", "initContainers"]
        .map(|list| format!("{} != {}", images("object", list), images("oldObject", list)))
        .join(" || ");
    format!("request.operation == 'CREATE' || {images}")
}

/// Whether a pod reaches a GPU though it asks for none: a visible-devices variable, a device path, a runtime class that
/// the policies name, the image of an engine that has no use without a GPU.
pub(super) fn reaches(gate: &Gate) -> String {
    let mut ways: Vec<String> = ["containers", "initContainers"]
        .map(|list| container_reaches(list, gate))
        .to_vec();
    ways.push(
        "(has(object.spec.volumes) && object.spec.volumes.exists(v, has(v.hostPath) && \
         (v.hostPath.path == '/dev' || v.hostPath.path == '/dev/' || v.hostPath.path.startsWith('/dev/nvidia'))))"
            .to_owned(),
    );
    if !gate.runtime_classes.is_empty() {
        let names: Vec<String> = gate.runtime_classes.iter().map(|name| quoted(name)).collect();
        ways.push(format!(
            "(has(object.spec.runtimeClassName) && object.spec.runtimeClassName in [{}])",
            names.join(", ")
        ));
    }
    format!("has(object.spec) && ({})", ways.join(" || "))
}

fn container_reaches(list: &str, gate: &Gate) -> String {
    let none: Vec<String> = NO_DEVICE.iter().map(|value| quoted(value)).collect();
    let images: Vec<String> = ENGINE_IMAGES
        .iter()
        .map(|name| format!("c.image.contains({})", quoted(name)))
        .collect();
    let privileged = if gate.privileged {
        " || (has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged)"
    } else {
        ""
    };
    format!(
        "(has(object.spec.{list}) && object.spec.{list}.exists(c, \
         (has(c.env) && c.env.exists(e, e.name == {variable} && (has(e.valueFrom) || (has(e.value) && !(e.value in [{none}]))))) || \
         (has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath.startsWith({mounts}))) || \
         (has(c.image) && ({images})){privileged}))",
        variable = quoted(VARIABLE),
        none = none.join(", "),
        mounts = quoted(AS_MOUNTS),
        images = images.join(" || "),
    )
}

/// A CEL string. The names that come here hold no quote: policies with such ones are refused.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace(['\\', '\''], ""))
}

/// Whether the template at `path` of the object asks for a GPU.
pub(super) fn template_asks(path: &str) -> String {
    let template = format!("object.{path}");
    format!("{} && {}", present("object", path), asks(&template))
}

/// What a controller makes is judged where it is made from.
pub(super) fn without_controller() -> String {
    "!(has(object.metadata.ownerReferences) && \
     object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller))"
        .to_owned()
}

/// A change of labels, annotations or finalizers takes no memory, and an object on its way out is let go.
pub(super) fn changes_spec_and_stays() -> String {
    "!has(object.metadata.deletionTimestamp) && \
     (request.operation == 'CREATE' || !has(oldObject.spec) || !has(object.spec) || object.spec != oldObject.spec)"
        .to_owned()
}

/// More pods than before. Scaling down is nobody's question.
pub(super) fn scales_up() -> String {
    let replicas = |object: &str| {
        format!("(has({object}.spec) && has({object}.spec.replicas) ? {object}.spec.replicas : 0)")
    };
    format!("{} > {}", replicas("object"), replicas("oldObject"))
}

/// Whether the pod or template at `at` asks: a GPU resource, a claim, or a declaration.
fn asks(at: &str) -> String {
    let containers = ["containers", "initContainers", "ephemeralContainers"]
        .map(|list| container_asks(at, list))
        .join(" || ");
    format!(
        "((has({at}.spec) && ({containers} || \
         (has({at}.spec.resourceClaims) && size({at}.spec.resourceClaims) > 0))) || {declares})",
        declares = declares(at),
    )
}

fn container_asks(at: &str, list: &str) -> String {
    let names = ["limits", "requests"]
        .map(|side| format!("(has(c.resources.{side}) && c.resources.{side}.exists(k, {RESOURCE}))"))
        .join(" || ");
    format!(
        "(has({at}.spec.{list}) && {at}.spec.{list}.exists(c, has(c.resources) && \
         ({names} || (has(c.resources.claims) && size(c.resources.claims) > 0))))"
    )
}

fn declares(at: &str) -> String {
    format!(
        "(has({at}.metadata) && has({at}.metadata.annotations) && \
         {at}.metadata.annotations.exists(k, k.startsWith('vramgate.io/')))"
    )
}

/// Whether `one` has a declaration that `other` lacks or has with another value.
fn declaration_differs(one: &str, other: &str) -> String {
    let (here, there) = (
        format!("{one}.metadata.annotations"),
        format!("{other}.metadata.annotations"),
    );
    format!(
        "(has({here}) && {here}.exists(k, k.startsWith('vramgate.io/') && \
         !(has({there}) && k in {there} && {there}[k] == {here}[k])))"
    )
}

fn images(object: &str, list: &str) -> String {
    format!("(has({object}.spec.{list}) ? {object}.spec.{list}.map(c, has(c.image) ? c.image : '') : [])")
}

fn gates(object: &str) -> String {
    format!("(has({object}.spec.schedulingGates) ? {object}.spec.schedulingGates.map(g, g.name) : [])")
}

/// That every step of `path` is there: `has(object.spec) && has(object.spec.template)`.
fn present(object: &str, path: &str) -> String {
    let mut at = object.to_owned();
    let steps = path.split('.').map(|step| {
        at = format!("{at}.{step}");
        format!("has({at})")
    });
    steps.collect::<Vec<_>>().join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_a_path_is_asked_for() {
        assert_eq!(
            present("object", "spec.jobTemplate.spec"),
            "has(object.spec) && has(object.spec.jobTemplate) && has(object.spec.jobTemplate.spec)"
        );
    }

    #[test]
    fn parentheses_balance() {
        for text in [
            pod_asks(),
            pod_matters(),
            asks_not(),
            is_new_or_has_other_images(),
            reaches(&Gate {
                runtime_classes: vec!["nvidia".to_owned()],
                privileged: true,
            }),
            template_asks("spec.template"),
            without_controller(),
            scales_up(),
        ] {
            let depth = text.chars().fold(0i32, |depth, c| match c {
                '(' => depth + 1,
                ')' => depth - 1,
                _ => depth,
            });
            assert_eq!(depth, 0, "{text}");
            assert!(text.len() < 4_096, "{}", text.len());
        }
    }
}
