//! The CEL conditions of the registrations. A condition that fails to evaluate would hold up pods that are none of our
//! business, so every optional field is reached by `?`.

/// Where a pod's metadata and specification stand in an object.
#[derive(Clone, Copy)]
pub(super) struct Template {
    metadata: &'static str,
    spec: &'static str,
}

/// A pod itself.
pub(super) const POD: Template = Template {
    metadata: "object.?metadata",
    spec: "object.?spec",
};
/// The template of most workloads.
pub(super) const TEMPLATE: Template = Template {
    metadata: "object.?spec.?template.?metadata",
    spec: "object.?spec.?template.?spec",
};
/// The template of a CronJob.
pub(super) const JOB_TEMPLATE: Template = Template {
    metadata: "object.?spec.?jobTemplate.?spec.?template.?metadata",
    spec: "object.?spec.?jobTemplate.?spec.?template.?spec",
};

/// A managing controller makes its objects by a template that was judged already.
pub(super) const HAS_NO_CONTROLLER: &str =
    "!object.?metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))";

/// Controllers write revisions and conditions into objects all the time.
pub(super) const CHANGES_ITS_SPEC: &str = "request.operation == 'CREATE' || object.?spec != oldObject.?spec";

/// Going down needs nobody's consent.
pub(super) const RAISES_THE_REPLICAS: &str =
    "object.?spec.?replicas.orValue(0) > oldObject.?spec.?replicas.orValue(0)";

/// A container asks for an NVIDIA resource or one of ours, the pod has a resource claim, or it carries a declaration.
pub(super) fn asks_for_gpu(template: Template) -> String {
    let Template { metadata, spec } = template;
    let resources = |field: &str| {
        format!(
            "c.?resources.?{field}.orValue({{}}).exists(k, k.startsWith('nvidia.com/') || k.startsWith('vramgate.io/'))"
        )
    };
    let containers = |field: &str| {
        format!(
            "{spec}.?{field}.orValue([]).exists(c, {} || {})",
            resources("limits"),
            resources("requests")
        )
    };
    [
        containers("containers"),
        containers("initContainers"),
        format!("{spec}.?resourceClaims.orValue([]).size() > 0"),
        format!("{metadata}.?annotations.orValue({{}}).exists(k, k.startsWith('vramgate.io/'))"),
    ]
    .join(" ||\n")
}

/// On UPDATE: another image, another declaration, another scheduling gate. Everything else about a pod's memory cannot
/// be changed.
pub(super) fn changes_what_it_takes() -> String {
    let images = |field: &str| {
        let of = |object: &str| format!("{object}.?spec.?{field}.orValue([]).map(c, c.?image.orValue(''))");
        format!("{} != {}", of("object"), of("oldObject"))
    };
    let annotations = |object: &str| format!("{object}.?metadata.?annotations.orValue({{}})");
    let (new, old) = (annotations("object"), annotations("oldObject"));
    [
        "request.operation == 'CREATE'".to_owned(),
        "request.?subResource.orValue('') == 'ephemeralcontainers'".to_owned(),
        images("containers"),
        images("initContainers"),
        format!("{new}.exists(k, k.startsWith('vramgate.io/') && {old}[?k].orValue('') != {new}[k])"),
        format!("{old}.exists(k, k.startsWith('vramgate.io/') && !(k in {new}))"),
        "object.?spec.?schedulingGates.orValue([]) != oldObject.?spec.?schedulingGates.orValue([])"
            .to_owned(),
    ]
    .join(" ||\n")
}
