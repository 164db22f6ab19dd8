//! The CEL of the registrations.
//!
//! Loops go over containers and over the resource names of one container, or over annotations; none is deeper, so the
//! cost stays a small part of what the API server allows.

use super::Gate;
use crate::demand::access::{ENGINE_IMAGES, GPU_NAMES, NO_DEVICE, VARIABLE};

/// Whether a resource name is of a GPU, or nearly the name of one (VG108). A misspelt domain makes an extended resource
/// that no node offers, and the pod stays Pending; a name without any is refused by the API server where it checks pods
/// and pod templates. Domains of others (`amd.com/gpu`, `aliyun.com/gpu-mem`) do not match.
const RESOURCE: &str = "(k.startsWith('nvidia.com/') || k.startsWith('vramgate.io/') || \
                        k.startsWith('deviceclass.resource.kubernetes.io/') || \
                        k.matches('^(nv|ni|vn|mv|nb)[a-z-]*(\\\\.[a-z]*)?/(?i:gpus?|gpu.shared|mig-.*)$'))";

/// The same in objects of other schemas, in which nobody checks names without a domain before pods are made.
const UNCHECKED: &str = "(k.startsWith('nvidia.com/') || k.startsWith('vramgate.io/') || \
                         k.startsWith('deviceclass.resource.kubernetes.io/') || \
                         k.matches('^((nv|ni|vn|mv|nb)[a-z-]*(\\\\.[a-z]*)?/)?(?i:(nvidia[._-]?)?gpus?|gpu.shared|mig-.*)$'))";

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
/// the policies name, the image of an engine that has no use without a GPU, variables of a ConfigMap or Secret that is
/// about GPUs. What such an object holds, CEL cannot see.
pub(super) fn reaches(gate: &Gate) -> String {
    format!("has(object.spec) && ({})", spec_reaches("object.spec", gate))
}

/// Whether the template at `path` of the object asks for a GPU, or its pods reach one without.
pub(super) fn template_matters(path: &str, gate: &Gate) -> String {
    let template = format!("object.{path}");
    format!(
        "({} && ({} || (has({template}.spec) && ({}))))",
        present("object", path),
        asks_of(&template, RESOURCE),
        spec_reaches(&format!("{template}.spec"), gate)
    )
}

fn spec_reaches(spec: &str, gate: &Gate) -> String {
    let lists =
        ["containers", "initContainers"].map(|list| format!("(has({spec}.{list}) ? {spec}.{list} : [])"));
    let containers = lists.join(" + ");
    let mut ways = vec![format!(
        "({containers}).exists(c, {})",
        container_reaches(spec, gate)
    )];
    // No path that the kernel opens is longer, and the cost of the search has to stay small: an error lets a pod by.
    ways.push(format!(
        "(has({spec}.volumes) && {spec}.volumes.exists(v, has(v.hostPath) && \
         size(v.hostPath.path) <= 4096 && v.hostPath.path.matches('^[/.]*/dev[/.]*($|/nvidia)')))"
    ));
    if !gate.runtime_classes.is_empty() {
        let names: Vec<String> = gate.runtime_classes.iter().map(|name| quoted(name)).collect();
        ways.push(format!(
            "(has({spec}.runtimeClassName) && {spec}.runtimeClassName in [{}])",
            names.join(", ")
        ));
    }
    ways.join(" || ")
}

/// Whether container `c` of a pod's specification does.
fn container_reaches(spec: &str, gate: &Gate) -> String {
    let none: Vec<String> = NO_DEVICE.iter().map(|value| quoted(value)).collect();
    let privileged = if gate.privileged {
        " || (has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged)"
    } else {
        ""
    };
    format!(
        "{from} || \
         (has(c.env) && c.env.exists(e, e.name == {variable} && (has(e.valueFrom) || (has(e.value) && !(e.value in [{none}]))))) || \
         (has(c.volumeMounts) && c.volumeMounts.exists(m, size(m.mountPath) <= 4096 && m.mountPath.contains({mounts}))) || \
         (has(c.image) && {images}){privileged}",
        from = takes_variables(spec),
        variable = quoted(VARIABLE),
        none = none.join(", "),
        // However many slashes and dots stand before it.
        mounts = quoted("/nvidia-container-devices"),
        images = one_of("c.image", &ENGINE_IMAGES),
    )
}

/// Whether what container `c` says of `envFrom` hints at the visible-devices variable.
fn takes_variables(spec: &str) -> String {
    let about_gpus = |text: &str| one_of(text, &GPU_NAMES);
    let named = ["configMapRef", "secretRef"].map(|field| {
        let name = format!("f.{field}.name");
        format!("(has(f.{field}) && has({name}) && {})", about_gpus(&name))
    });
    format!(
        "(has(c.envFrom) && c.envFrom.exists(f, has(f.prefix) && f.prefix != '' ? {variable}.startsWith(f.prefix) : \
         ((has({spec}.runtimeClassName) && {class}) || {named})))",
        variable = quoted(VARIABLE),
        class = about_gpus(&format!("{spec}.runtimeClassName")),
        named = named.join(" || "),
    )
}

/// Whether a text has one of these parts, which are ASCII letters, digits, `-`, `/` and `.`.
fn one_of(text: &str, parts: &[&str]) -> String {
    format!("{text}.matches('{}')", parts.join("|").replace('.', "[.]"))
}

/// A CEL string. The names that come here hold no quote: policies with such ones are refused.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace(['\\', '\''], ""))
}

/// Whether the template at `path` below `object` is there and asks.
fn template_at(object: &str, path: &str, resource: &str) -> String {
    let template = format!("{object}.{path}");
    format!("({} && {})", present(object, path), asks_of(&template, resource))
}

/// Where an object of another schema says that its pods ask for GPUs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spot {
    /// A pod template.
    Template(&'static str),
    /// A pod template in each item of a list.
    Each(&'static str, &'static str),
    /// A pod's specification.
    Pod(&'static str),
    /// Something with a container's `resources`.
    Container(&'static str),
    /// The same in fields of these names.
    Named(&'static str, &'static [&'static str]),
    /// Something that is there only for GPUs.
    Present(&'static str),
    /// A text with this beginning.
    Begins(&'static str, &'static str),
    /// Dynamo's services: `gpu` in their resources, or a container of their own.
    Services(&'static str),
}

impl Spot {
    fn condition(self) -> String {
        match self {
            Self::Template(path) => template_at("object", path, UNCHECKED),
            Self::Each(list, path) => format!(
                "({} && object.{list}.exists(g, {}))",
                present("object", list),
                template_at("g", path, UNCHECKED)
            ),
            Self::Pod(path) => {
                let spec = format!("object.{path}");
                format!("({} && {})", present("object", path), spec_asks(&spec, UNCHECKED))
            }
            Self::Container(path) => {
                let container = format!("object.{path}");
                format!(
                    "({} && {})",
                    present("object", path),
                    resources_ask(&container, UNCHECKED)
                )
            }
            Self::Named(path, names) => {
                let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
                format!(
                    "({} && [{}].exists(f, f in object.{path} && {}))",
                    present("object", path),
                    names.join(", "),
                    resources_ask(&format!("object.{path}[f]"), UNCHECKED)
                )
            }
            Self::Present(path) => format!("({})", present("object", path)),
            Self::Begins(path, text) => {
                format!(
                    "({} && object.{path}.startsWith('{text}'))",
                    present("object", path)
                )
            }
            Self::Services(path) => {
                let service = format!("object.{path}[n]");
                let gpu = ["limits", "requests"].map(|side| {
                    format!("(has({service}.resources.{side}) && has({service}.resources.{side}.gpu))")
                });
                let main = "extraPodSpec.mainContainer";
                format!(
                    "({} && object.{path}.exists(n, (has({service}.resources) && ({})) || ({} && {})))",
                    present("object", path),
                    gpu.join(" || "),
                    present(&service, main),
                    resources_ask(&format!("{service}.{main}"), UNCHECKED)
                )
            }
        }
    }
}

/// Whether an object asks for a GPU at any of these spots.
pub(super) fn any_asks(spots: &[Spot]) -> String {
    let conditions: Vec<String> = spots.iter().map(|spot| spot.condition()).collect();
    conditions.join(" || ")
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

/// A ConfigMap with a value that names the sections of the device plugin's or the MIG manager's documents, and a Node whose
/// label for the MIG manager changes. An UPDATE of a ConfigMap whose values stay passes none of it.
///
/// A ConfigMap has at most 1 MiB, which the four searches read in less than the cost that the API server allows; one with more
/// than 1,000 keys is no such document.
///
/// One that a policy names comes whatever it holds.
pub(super) fn configures_gpus(gate: &Gate) -> String {
    const LABEL: &str = "nvidia.com/mig.config";
    let label = |object: &str| {
        format!(
            "(has({object}.metadata.labels) && '{LABEL}' in {object}.metadata.labels ? {object}.metadata.labels['{LABEL}'] : '')"
        )
    };
    let words = ["mig-configs:", "\"mig-configs\"", "sharing:", "\"sharing\""]
        .map(|word| format!("object.data[k].contains('{word}')"))
        .join(" || ");
    let maps: Vec<String> = gate
        .config_maps
        .iter()
        .map(|name| quoted(&name.to_string()))
        .collect();
    let named = if maps.is_empty() {
        String::new()
    } else {
        format!(
            "((request.namespace + '/' + (has(object.metadata.name) ? object.metadata.name : '')) in [{}] && (request.operation == 'CREATE' || \
             (has(object.data) ? object.data : {{}}) != (has(oldObject.data) ? oldObject.data : {{}}))) || ",
            maps.join(", ")
        )
    };
    format!(
        "request.resource.resource == 'nodes' ? {now} != {before} : ({named}\
         (has(object.data) && size(object.data) <= 1000 && \
         (request.operation == 'CREATE' || !has(oldObject.data) || object.data != oldObject.data) && \
         object.data.exists(k, {words})))",
        now = label("object"),
        before = label("oldObject"),
    )
}

/// Whether a container of the DaemonSet is of NVIDIA's device plugin.
pub(super) fn runs_device_plugin() -> String {
    format!(
        "{} && has(object.spec.template.spec) && has(object.spec.template.spec.containers) && \
         object.spec.template.spec.containers.exists(c, has(c.image) && c.image.contains('k8s-device-plugin'))",
        present("object", "spec.template")
    )
}

/// Whether the pod or template at `at` asks: a GPU resource, a claim, or a declaration.
fn asks(at: &str) -> String {
    asks_of(at, RESOURCE)
}

fn asks_of(at: &str, resource: &str) -> String {
    format!(
        "((has({at}.spec) && {of_spec}) || {declares})",
        of_spec = spec_asks(&format!("{at}.spec"), resource),
        declares = declares(at),
    )
}

/// Whether a pod's specification asks.
fn spec_asks(spec: &str, resource: &str) -> String {
    let containers = ["containers", "initContainers", "ephemeralContainers"]
        .map(|list| {
            format!(
                "(has({spec}.{list}) && {spec}.{list}.exists(c, {}))",
                resources_ask("c", resource)
            )
        })
        .join(" || ");
    format!("({containers} || (has({spec}.resourceClaims) && size({spec}.resourceClaims) > 0))")
}

/// Whether a container's resources do.
fn resources_ask(container: &str, resource: &str) -> String {
    let names = ["limits", "requests"]
        .map(|side| {
            format!(
                "(has({container}.resources.{side}) && {container}.resources.{side}.exists(k, {resource}))"
            )
        })
        .join(" || ");
    format!(
        "has({container}.resources) && ({names} || (has({container}.resources.claims) && \
         size({container}.resources.claims) > 0))"
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
                config_maps: Vec::new(),
            }),
            template_matters(
                "spec.jobTemplate.spec.template",
                &Gate {
                    runtime_classes: vec!["nvidia".to_owned()],
                    privileged: true,
                    config_maps: Vec::new(),
                },
            ),
            without_controller(),
            scales_up(),
        ] {
            let depth = text.chars().fold(0i32, |depth, c| match c {
                '(' => depth + 1,
                ')' => depth - 1,
                _ => depth,
            });
            assert_eq!(depth, 0, "{text}");
            assert!(text.len() < 5_120, "{}", text.len());
        }
    }
}
