//! The items of an `Explanation`.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::demand::declaration::{self, Declarations};
use crate::demand::load::{self, Annotations};
use crate::demand::resources;
use crate::device::is_slot_resource;
use crate::engine::{
    self, Engine, ExactSizes, MemoryKind, MemoryRequest, MemorySource, Parallelism, Placed, Provenance,
    Reading, Resolvable, Role, Sources, Starts, Unresolved,
};
use crate::finding::Finding;
use crate::policy::PolicySet;
use crate::workload::pod::{Container, Pod};
use crate::workload::template::{Layout, Template};
use crate::workload::{ObjectRef, ReplicaPlan, Workload};

/// What the containers of one object start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explained {
    /// The object.
    pub object: ObjectRef,
    /// Where the pod template stands in an object of a kind of its own, which may hold several: an item for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    replicas: Replicas,
    /// One entry for each engine of each container, in the order of the manifest.
    pub containers: Vec<ExplainedContainer>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Replicas {
    desired: u32,
    surge: u32,
    max: Option<u32>,
}

impl From<ReplicaPlan> for Replicas {
    fn from(plan: ReplicaPlan) -> Self {
        Self {
            desired: plan.desired,
            surge: plan.surge,
            max: plan.max,
        }
    }
}

impl Explained {
    /// Reads every container of a workload.
    #[must_use]
    pub fn new(
        workload: &Workload,
        sources: &dyn Sources,
        namespace_labels: &BTreeMap<String, String>,
        policies: &PolicySet,
    ) -> Self {
        Self {
            object: workload.object.clone(),
            template: None,
            replicas: workload.replicas.into(),
            containers: read(&workload.pod, sources, namespace_labels, policies),
        }
    }

    /// Reads every container of one template of an object of another kind.
    #[must_use]
    pub fn of_template(
        object: &ObjectRef,
        template: &Template,
        sources: &dyn Sources,
        namespace_labels: &BTreeMap<String, String>,
        policies: &PolicySet,
    ) -> Self {
        let mut containers = read(&template.pod, sources, namespace_labels, policies);
        for container in &mut containers {
            container.relocate(&template.layout);
        }
        Self {
            object: object.clone(),
            template: Some(template.path.to_string()),
            replicas: Replicas {
                desired: template.desired,
                surge: template.layout.surge.as_ref().map_or(0, |surge| surge.pods),
                max: template.max,
            },
            containers,
        }
    }

    /// How many pods the object makes, in words: `4 pods, 1 more in a rollout`.
    #[must_use]
    pub fn pods(&self) -> String {
        let Replicas { desired, surge, max } = self.replicas;
        let mut parts = vec![format!("{desired} pod{}", if desired == 1 { "" } else { "s" })];
        if surge > 0 {
            parts.push(format!("{surge} more in a rollout"));
        }
        if let Some(max) = max {
            parts.push(format!("at most {max} by an autoscaler"));
        }
        parts.join(", ")
    }
}

/// Reads every container of a pod.
fn read(
    pod: &Pod,
    sources: &dyn Sources,
    namespace_labels: &BTreeMap<String, String>,
    policies: &PolicySet,
) -> Vec<ExplainedContainer> {
    let mut containers: Vec<ExplainedContainer> = Vec::new();
    let annotations = Annotations::of(pod);
    let rules = policies.engine_rules(namespace_labels, pod);
    let models = policies.models(namespace_labels, pod);
    let declarations = Declarations::of(pod, namespace_labels, policies);
    for placed in engine::containers(pod) {
        let mut readings = engine::explain(pod, placed, sources, rules);
        if declaration::asks(placed) {
            match declarations.of_container(&placed.container.name) {
                None => {}
                Some(Ok(declared)) => readings
                    .iter_mut()
                    .for_each(|reading| reading.declare(declared.memory())),
                Some(Err(finding)) => {
                    if let Some(reading) = readings.first_mut() {
                        reading.findings.push(finding);
                    }
                }
            }
        }
        if readings.is_empty() {
            containers.push(ExplainedContainer::without_engine(placed));
        }
        let annotated = annotations
            .model(pod, &placed.container.name)
            .filter(|_| readings.len() == 1);
        containers.extend(readings.into_iter().map(|reading| {
            let known = load::known(&reading, pod, placed, sources, models, annotated);
            ExplainedContainer {
                model_facts: known.map(|known| ModelFacts {
                    certain: known.way.is_certain(),
                    found: known.way.to_string(),
                    id: known.name,
                }),
                ..ExplainedContainer::new(placed, reading)
            }
        }));
    }
    // Told at the container that an annotation names, else at the first one.
    for finding in declarations.without_device(pod) {
        let is_named = |container: &&mut ExplainedContainer| finding.path == declaration::at(&container.name);
        let at = match containers.iter_mut().find(is_named) {
            None => containers.first_mut(),
            named => named,
        };
        if let Some(container) = at {
            container.findings.push(finding);
        }
    }
    containers
}

/// How one container starts one engine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedContainer {
    /// Name of the container.
    pub name: String,
    /// Its role in the pod.
    pub role: Role,
    /// The engine.
    pub engine: Engine,
    /// Its release, where image or policy tell.
    pub version: Option<String>,
    /// The subcommand or server module.
    pub command: Option<String>,
    /// The model as written, or the release's default.
    pub model: Option<String>,
    /// What is known of that model; absent where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_facts: Option<ModelFacts>,
    /// Whether the release accepts the command line.
    pub starts: Starts,
    /// How much could be read from the pod alone: `full`; `partial` where a value is not known, or stands in what
    /// `dependsOn` names; `none` where neither the model nor an amount is known.
    pub resolvable: Resolvable,
    memory: Memory,
    parallelism: ParallelSizes,
    /// Slots that it asks for.
    pub gpu: Vec<GpuRequest>,
    /// Longest context in tokens.
    pub max_model_len: Option<Integer>,
    /// Quantisation as written.
    pub quantization: Option<String>,
    /// Type of weights and activations.
    pub dtype: Option<String>,
    /// Type of the KV cache.
    pub kv_cache_dtype: Option<String>,
    /// Where each value comes from, by the value's name; in JSON a map, absent where nothing is read.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "by_field")]
    pub provenance: Vec<Provenance>,
    /// Objects outside the pod that decide a value or a word of the command line, in words, and can change until the pod
    /// starts; absent in JSON where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// What could not be read, and why.
    pub unresolved: Vec<Unresolved>,
    /// What to tell about the invocation by itself; paths are below the pod.
    pub findings: Vec<Finding>,
}

/// A map in the order of the list.
fn by_field<S: Serializer>(list: &[Provenance], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(list.iter().map(|one| (one.field, one)))
}

/// The model whose facts an estimate would take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelFacts {
    /// Its id in the catalogue, or its name in the policy.
    pub id: String,
    /// How it was found, in words.
    pub found: String,
    /// Whether it is this model and no other.
    pub certain: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Memory {
    kind: MemoryKind,
    value: Option<String>,
    source: MemorySource,
}

impl From<MemoryRequest> for Memory {
    fn from(request: MemoryRequest) -> Self {
        Self {
            kind: request.kind,
            value: request.value,
            source: request.source,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ParallelSizes {
    tensor: Integer,
    pipeline: Integer,
    data: Integer,
    data_local: Integer,
    devices: Integer,
}

impl ParallelSizes {
    /// As they are written; the devices that the reading settled on in the end.
    fn of(bounded: Parallelism, exact: Option<ExactSizes>) -> Self {
        let size = |bounded: u32, exact: Option<i128>| Integer(exact.unwrap_or(i128::from(bounded)));
        let devices = exact.map(|sizes| sizes.devices);
        Self {
            tensor: size(bounded.tensor, exact.map(|sizes| sizes.tensor)),
            pipeline: size(bounded.pipeline, exact.map(|sizes| sizes.pipeline)),
            data: size(bounded.data, exact.map(|sizes| sizes.data)),
            data_local: size(bounded.data_local, exact.map(|sizes| sizes.data_local)),
            devices: size(bounded.devices, devices.filter(|_| bounded.devices == u32::MAX)),
        }
    }
}

/// Slots of one resource that a container asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuRequest {
    /// The extended resource.
    pub resource: String,
    /// How many slots.
    pub count: SlotCount,
}

/// A number of slots, or the text that stands in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SlotCount {
    /// A whole number.
    Whole(u64),
    /// A quantity that the API server refuses for an extended resource, as written.
    Unusable(String),
}

/// An integer as the engine reads it. Beyond 64 bits JSON readers lose digits, so there it is a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer(pub i128);

impl Serialize for Integer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match i64::try_from(self.0) {
            Ok(small) => serializer.serialize_i64(small),
            Err(_) => serializer.collect_str(&self.0),
        }
    }
}

impl ExplainedContainer {
    /// Says where in the object, or in which other one, fields stand that do not lie in its template as in a pod.
    fn relocate(&mut self, layout: &Layout) {
        for one in &mut self.provenance {
            if let Some(origin) = one.path.as_ref().and_then(|path| layout.elsewhere(path)) {
                one.path = Some(origin.path);
                one.object = origin.object;
            }
        }
        for finding in &mut self.findings {
            if let Some(origin) = layout.elsewhere(&finding.path) {
                finding.path = origin.path;
                if let Some(object) = origin.object {
                    finding.details.push(format!("the field stands in {object}"));
                }
            }
        }
    }

    fn new(placed: Placed<'_>, reading: Reading) -> Self {
        Self {
            name: placed.container.name.clone(),
            role: placed.role,
            engine: reading.engine,
            version: reading.version.map(|version| version.to_string()),
            command: reading.command,
            model: reading.model,
            model_facts: None,
            starts: reading.starts,
            resolvable: reading.resolvable,
            memory: reading.memory.into(),
            parallelism: ParallelSizes::of(reading.parallelism, reading.exact_sizes),
            gpu: GpuRequest::of(placed.container),
            max_model_len: reading.max_model_len.map(Integer),
            quantization: reading.quantization,
            dtype: reading.dtype,
            kv_cache_dtype: reading.kv_cache_dtype,
            provenance: reading.provenance,
            depends_on: reading.depends_on,
            unresolved: reading.unresolved,
            findings: resources::findings(placed)
                .into_iter()
                .chain(reading.findings)
                .collect(),
        }
    }

    fn without_engine(placed: Placed<'_>) -> Self {
        let gpu = GpuRequest::of(placed.container);
        let asks = !gpu.is_empty();
        Self {
            name: placed.container.name.clone(),
            role: placed.role,
            engine: if asks { Engine::Unknown } else { Engine::None },
            version: None,
            command: None,
            model: None,
            model_facts: None,
            starts: Starts::Unknown,
            resolvable: if asks { Resolvable::None } else { Resolvable::Full },
            memory: Memory {
                kind: if asks {
                    MemoryKind::Unknown
                } else {
                    MemoryKind::None
                },
                value: None,
                source: if asks {
                    MemorySource::Unresolved
                } else {
                    MemorySource::Default
                },
            },
            parallelism: ParallelSizes::of(Parallelism::default(), None),
            gpu,
            max_model_len: None,
            quantization: None,
            dtype: None,
            kv_cache_dtype: None,
            provenance: Vec::new(),
            depends_on: Vec::new(),
            unresolved: Vec::new(),
            findings: resources::findings(placed),
        }
    }

    /// The kind of amount that the engine takes.
    #[must_use]
    pub fn memory_kind(&self) -> MemoryKind {
        self.memory.kind
    }

    /// The amount as written, or the release's default.
    #[must_use]
    pub fn memory_value(&self) -> Option<&str> {
        self.memory.value.as_deref()
    }

    /// Where the amount comes from.
    #[must_use]
    pub fn memory_source(&self) -> MemorySource {
        self.memory.source
    }

    /// Devices that the container's processes use.
    #[must_use]
    pub fn devices(&self) -> u32 {
        u32::try_from(self.parallelism.devices.0).unwrap_or(u32::MAX)
    }
}

impl GpuRequest {
    /// The slots that a container asks for. Limits decide, as the API server sets the requests of an extended resource
    /// from them; a resource that stands in the requests alone is shown as well, though the API server refuses it.
    #[must_use]
    pub fn of(container: &Container) -> Vec<Self> {
        let resources = &container.resources;
        let only_requested = resources
            .requests
            .iter()
            .filter(|(name, _)| !resources.limits.contains_key(*name));
        resources
            .limits
            .iter()
            .chain(only_requested)
            .filter(|(name, _)| is_slot_resource(name))
            .map(|(name, quantity)| Self {
                resource: name.clone(),
                count: slot_count(&quantity.0),
            })
            .collect()
    }
}

fn slot_count(text: &str) -> SlotCount {
    text.parse()
        .map_or_else(|_| SlotCount::Unusable(text.to_owned()), SlotCount::Whole)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::{Serving, Version};
    use crate::finding::FieldPath;
    use crate::units::Fraction;

    fn container(value: serde_json::Value) -> Container {
        serde_json::from_value(value).unwrap()
    }

    fn reading() -> Reading {
        Reading {
            engine: Engine::Vllm,
            version: Some(Version::new(0, 11, 0)),
            command: Some("serve".into()),
            model: Some("org/model-7b".into()),
            starts: Starts::Yes,
            resolvable: Resolvable::Full,
            memory: MemoryRequest {
                kind: MemoryKind::OfTotal,
                value: Some("0.30".into()),
                source: MemorySource::Flag,
                fraction: Fraction::parse("0.30").ok(),
                absolute: None,
                path: FieldPath::new("spec.containers[0].args[1]"),
            },
            parallelism: Parallelism::default(),
            exact_sizes: None,
            max_model_len: Some(8192),
            quantization: None,
            dtype: Some("auto".into()),
            kv_cache_dtype: Some("auto".into()),
            meaning: engine::Meaning::default(),
            eager: false,
            processes: None,
            apart: 0,
            limits: Vec::new(),
            serving: Serving::default(),
            unresolved: vec![Unresolved {
                field: "gpu-memory-utilization".into(),
                reason: "ConfigMap \"settings\" is not in the input".into(),
                decides_memory: true,
            }],
            findings: Vec::new(),
            fraction_edit: None,
            length_edit: None,
            tensor_edit: None,
            provenance: Vec::new(),
            depends_on: Vec::new(),
        }
    }

    #[test]
    fn a_container_serialises_to_the_letter() {
        let container = container(json!({
            "name": "server", "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "8Gi", "nvidia.com/gpumem": 3}},
        }));
        let placed = Placed {
            container: &container,
            role: Role::Container,
            index: 0,
        };
        assert_eq!(
            serde_json::to_value(ExplainedContainer::new(placed, reading())).unwrap(),
            json!({
                "name": "server", "role": "container", "engine": "vllm", "version": "0.11.0", "command": "serve",
                "model": "org/model-7b", "starts": "yes", "resolvable": "full",
                "memory": {"kind": "of-total", "value": "0.30", "source": "flag"},
                "parallelism": {"tensor": 1, "pipeline": 1, "data": 1, "dataLocal": 1, "devices": 1},
                "gpu": [{"resource": "nvidia.com/gpu", "count": 1}],
                "maxModelLen": 8192, "quantization": null, "dtype": "auto", "kvCacheDtype": "auto",
                "unresolved": [{"field": "gpu-memory-utilization",
                                "reason": "ConfigMap \"settings\" is not in the input"}],
                "findings": [],
            })
        );
    }

    #[test]
    fn integers_beyond_64_bits_are_strings() {
        for (tokens, expected) in [
            (-1, json!(-1)),
            (8192, json!(8192)),
            (i128::from(i64::MAX), json!(i64::MAX)),
            (i128::from(u64::MAX) + 1, json!("18446744073709551616")),
        ] {
            assert_eq!(serde_json::to_value(Integer(tokens)).unwrap(), expected);
        }
    }

    #[test]
    fn parallel_sizes_are_told_as_they_are_written() {
        let mut pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap();
        pod.spec.containers = vec![container(json!({
            "name": "server", "image": "vllm/vllm-openai:v0.20.0",
            "args": ["m", "--tensor-parallel-size", "4294967297", "--data-parallel-size=99999999999999999999"],
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        }))];
        let placed = engine::containers(&pod).next().unwrap();
        let reading = engine::read(&pod, placed, &engine::NoSources, &[]).remove(0);
        assert_eq!(reading.parallelism.devices, u32::MAX);
        let told = serde_json::to_value(ExplainedContainer::new(placed, reading)).unwrap();
        assert_eq!(
            told["parallelism"],
            json!({"tensor": 4_294_967_297_u64, "pipeline": 1, "data": "99999999999999999999",
                   "dataLocal": "99999999999999999999", "devices": "429496729699999999995705032703"})
        );
    }

    #[test]
    fn limits_decide_and_unusable_quantities_are_shown_as_written() {
        let both = container(json!({"resources": {
            "limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "half"}}}));
        assert_eq!(
            serde_json::to_value(GpuRequest::of(&both)).unwrap(),
            json!([{"resource": "nvidia.com/gpu", "count": 2}, {"resource": "nvidia.com/mig-1g.10gb", "count": "half"}])
        );
    }

    #[test]
    fn a_container_that_asks_for_a_gpu_without_a_known_engine_is_unknown_not_none() {
        let asks = container(json!({"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}));
        let idle = container(json!({"name": "b"}));
        let engine_of = |container: &Container| {
            ExplainedContainer::without_engine(Placed {
                container,
                role: Role::Container,
                index: 0,
            })
            .engine
        };
        assert_eq!(engine_of(&asks), Engine::Unknown);
        assert_eq!(engine_of(&idle), Engine::None);
    }
}
