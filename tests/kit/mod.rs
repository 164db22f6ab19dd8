//! A cluster for tests: nodes and pods as manifests, and the decision as the webhook runs it.

#![allow(dead_code, unreachable_pub, reason = "each test target uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test ends at the first surprise"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use json_patch::PatchOperation;
use serde_json::{Value, json};
use vramgate::configuration::Configuration;
use vramgate::decision::{
    AutoscalerQuestion, ConfigurationQuestion, Operation, Question, Surroundings, Verdict, judge,
    judge_autoscaler, judge_configuration, judge_mutated, mutate, prepare,
};
use vramgate::device::catalogue::Catalogue;
use vramgate::device::inventory;
use vramgate::engine::{LookUp, Sources};
use vramgate::finding::{Code, Finding, Fix};
use vramgate::ledger::{Ledger, Moment};
use vramgate::policy::{MissingFacts, PolicySet, file};
use vramgate::workload::{Autoscaler, Workload};

pub mod dra;

/// Total of an H100 80GB by its label, in MiB.
pub const H100: u32 = 81_559;
/// Total of an L40S by its label, in MiB.
pub const L40S: u32 = 46_068;

/// The share in millionths that a fraction takes of a device with so many MiB, worked out anew: the larger of itself and of
/// what it takes with its overhead.
pub fn share(total: u32, thousandths: u64) -> u64 {
    let total = u64::from(total);
    let request = (total * thousandths).div_ceil(1_000);
    let reserve = (total * 15).div_ceil(1_000).max(512);
    let with_overhead = (900_000 * (request + 640)).div_ceil(total - reserve);
    with_overhead.max(thousandths * 1_000)
}

/// ConfigMaps by namespace and name.
#[derive(Default)]
pub struct Maps(pub BTreeMap<(String, String), BTreeMap<String, String>>);

/// Nodes are read by their labels and the embedded catalogue.
fn facts() -> inventory::Context<'static> {
    inventory::Context {
        missing: MissingFacts::Exclusive,
        catalogue: Catalogue::embedded(),
        plugin: None,
    }
}

impl Sources for Maps {
    fn config_map(&self, namespace: &str, name: &str) -> LookUp<'_> {
        match self.0.get(&(namespace.to_owned(), name.to_owned())) {
            Some(data) => LookUp::Found(data),
            None => LookUp::Missing,
        }
    }
}

pub struct Cluster {
    pub ledger: Ledger,
    pub maps: Maps,
    next_uid: u32,
    now: u64,
}

impl Cluster {
    pub fn new() -> Self {
        Self::with_policies(PolicySet::built_in())
    }

    /// With policy documents as a file holds them.
    pub fn with_policy(text: &str) -> Self {
        let documents = file::parse(text, "test").unwrap_or_else(|errors| panic!("{errors}"));
        Self::with_policies(PolicySet::from_documents(documents).unwrap_or_else(|errors| panic!("{errors}")))
    }

    fn with_policies(policies: PolicySet) -> Self {
        Self {
            ledger: Ledger::new(Arc::new(policies)),
            maps: Maps::default(),
            next_uid: 0,
            now: 0,
        }
    }

    pub fn node(&mut self, node: &Value) {
        let node = serde_json::from_value(node.clone()).expect("node");
        if let Some(read) = inventory::read_or_bare(&node, facts()) {
            self.ledger.set_node(read);
        }
    }

    /// An object of dynamic resource allocation.
    pub fn resource(&mut self, object: &Value) {
        let kind = object["kind"].as_str().expect("kind");
        match kind {
            "ResourceSlice" => self.ledger.set_resource_slice(&read(object)),
            "DeviceClass" => self.ledger.set_device_class(read(object)),
            "ResourceClaim" => self.ledger.set_resource_claim(read(object)),
            "ResourceClaimTemplate" => self.ledger.set_claim_template(read(object)),
            other => panic!("{other} is no such kind"),
        }
    }

    /// A node with `devices` GPUs of a product, each with `slots` time-sliced slots (1: not shared).
    pub fn gpu_node(&mut self, name: &str, product: &str, memory: u32, devices: u32, slots: u32) {
        self.node(&gpu_node(name, product, memory, devices, slots));
    }

    fn question(
        &mut self,
        operation: Operation,
        object: &Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Question {
        let mut object = object.clone();
        if object["metadata"]["uid"].is_null() {
            self.next_uid += 1;
            object["metadata"]["uid"] = json!(format!("uid-{}", self.next_uid));
        }
        let read = |value: &Value| {
            Workload::read(value)
                .unwrap_or_else(|e| panic!("{e}"))
                .expect("a workload")
        };
        let workload = read(&object);
        let namespace_labels = self.ledger.namespace_labels(&workload.object.namespace);
        let old = old.map(read);
        Question {
            operation,
            workload,
            old,
            namespace_labels,
            by_node: false,
            scale_only: false,
            dry_run,
        }
    }

    /// Asks about a CREATE without carrying it out.
    pub fn try_create(&mut self, object: &Value) -> Verdict {
        let question = self.question(Operation::Create, object, None, true);
        let prepared = prepare(question, self.ledger.policies(), &self.maps);
        judge(&prepared, &self.ledger)
    }

    /// A CREATE as it is read before it is judged.
    pub fn prepared(&mut self, object: &Value) -> vramgate::decision::Prepared {
        let question = self.question(Operation::Create, object, None, false);
        prepare(question, self.ledger.policies(), &self.maps)
    }

    /// What the mutating call answers to a CREATE.
    pub fn patches(&mut self, object: &Value) -> Vec<PatchOperation> {
        let question = self.question(Operation::Create, object, None, true);
        let prepared = prepare(question, self.ledger.policies(), &self.maps);
        mutate(&prepared, &self.ledger)
    }

    /// The object as the mutating call leaves it, with the patches put through the form that is sent.
    pub fn mutated(&mut self, object: &Value) -> Value {
        let sent = serde_json::to_vec(&self.patches(object)).expect("patches");
        let patch: json_patch::Patch = serde_json::from_slice(&sent).expect("patches");
        let mut object = object.clone();
        json_patch::patch(&mut object, &patch).unwrap_or_else(|error| panic!("{error}"));
        object
    }

    /// A CREATE as `check` judges it: mutated first.
    pub fn check(&mut self, object: &Value) -> Verdict {
        let question = self.question(Operation::Create, object, None, true);
        let prepared = prepare(question, self.ledger.policies(), &self.maps);
        judge_mutated(&prepared, &self.ledger)
    }

    /// A CREATE as the webhook carries it out: an admitted pod is reserved.
    pub fn create(&mut self, object: &Value) -> Verdict {
        let question = self.question(Operation::Create, object, None, false);
        self.carry_out(question)
    }

    /// An UPDATE.
    pub fn update(&mut self, old: &Value, new: &Value) -> Verdict {
        let question = self.question(Operation::Update, new, Some(old), false);
        self.carry_out(question)
    }

    pub fn carry_out(&mut self, question: Question) -> Verdict {
        let prepared = prepare(question, self.ledger.policies(), &self.maps);
        let verdict = judge(&prepared, &self.ledger);
        self.now += 1;
        if let Some(reservation) = verdict.reservation.clone() {
            self.ledger.commit(reservation, Moment(self.now));
        }
        verdict
    }

    /// The verdict on what configures GPUs, against these ConfigMaps of the MIG manager.
    pub fn configure(&self, object: &Value, old: Option<&Value>, mig: &[Value]) -> Verdict {
        let read = |value: &Value| {
            Configuration::read(value["kind"].as_str().expect("kind"), value)
                .unwrap_or_else(|error| panic!("{error}"))
                .expect("a ConfigMap or a Node")
        };
        let maps = mig.iter().map(|map| match read(map) {
            Configuration::ConfigMap(map) => map,
            Configuration::Node(_) => panic!("a ConfigMap is wanted"),
        });
        let question = ConfigurationQuestion {
            operation: if old.is_some() {
                Operation::Update
            } else {
                Operation::Create
            },
            object: read(object),
            old: old.map(read),
            namespace_labels: BTreeMap::new(),
            mig: maps.collect(),
        };
        judge_configuration(&question, &Surroundings::of(&question, &self.ledger))
    }

    /// The verdict on an autoscaler whose target is this object.
    pub fn autoscale(&mut self, autoscaler: &Value, target: &Value) -> Verdict {
        let autoscaler = Autoscaler::read(autoscaler)
            .unwrap_or_else(|error| panic!("{error}"))
            .expect("an autoscaler");
        let target = Workload::read(target)
            .unwrap_or_else(|error| panic!("{error}"))
            .expect("a workload");
        let question = AutoscalerQuestion {
            autoscaler: autoscaler.clone(),
            old: None,
        };
        match question.of_its_own().or_else(|| question.at_the_maximum(&target)) {
            Some(at_the_maximum) => judge_autoscaler(&autoscaler, at_the_maximum, &self.ledger, &self.maps),
            None => Verdict::not_ours(),
        }
    }

    /// The API server shows a pod.
    pub fn see(&mut self, pod: &Value) {
        let pod = serde_json::from_value(pod.clone()).expect("pod");
        self.ledger.set_pod(&pod, &self.maps);
    }

    /// A pod that runs on a node, whoever admitted it.
    pub fn running(&mut self, pod: &Value, node: &str) -> Value {
        let mut pod = pod.clone();
        if pod["metadata"]["uid"].is_null() {
            self.next_uid += 1;
            pod["metadata"]["uid"] = json!(format!("uid-{}", self.next_uid));
        }
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = json!({"phase": "Running"});
        self.see(&pod);
        pod
    }
}

fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).expect("an object")
}

pub fn gpu_node(name: &str, product: &str, memory: u32, devices: u32, slots: u32) -> Value {
    let (strategy, label) = if slots > 1 {
        ("time-slicing", format!("{product}-SHARED"))
    } else {
        ("none", product.to_owned())
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": label,
            "nvidia.com/gpu.memory": memory.to_string(),
            "nvidia.com/gpu.count": devices.to_string(),
            "nvidia.com/gpu.replicas": slots.to_string(),
            "nvidia.com/gpu.sharing-strategy": strategy,
            "nvidia.com/mig.capable": "false",
        }},
        "status": {
            "capacity": {"nvidia.com/gpu": (devices * slots).to_string()},
            "allocatable": {"nvidia.com/gpu": (devices * slots).to_string()},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// A node whose devices are under MPS.
pub fn mps_node(name: &str, product: &str, memory: u32, devices: u32, slots: u32) -> Value {
    let mut node = gpu_node(name, product, memory, devices, slots);
    node["metadata"]["labels"]["nvidia.com/gpu.sharing-strategy"] = json!("mps");
    node
}

/// A node whose H100 is cut into MIG slices under the strategy `mixed`: profile, memory by label, slices.
pub fn mig_node(name: &str, slices: &[(&str, u32, u32)]) -> Value {
    let mut node = gpu_node(name, "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
    for (key, value) in [
        ("mig.strategy", "mixed"),
        ("mig.capable", "true"),
        ("gpu.replicas", "0"),
    ] {
        node["metadata"]["labels"][format!("nvidia.com/{key}")] = json!(value);
    }
    for list in ["capacity", "allocatable"] {
        node["status"][list]["nvidia.com/gpu"] = json!("0");
    }
    for (profile, memory, count) in slices {
        let resource = format!("nvidia.com/mig-{profile}");
        let labels = &mut node["metadata"]["labels"];
        labels[format!("{resource}.count")] = json!(count.to_string());
        labels[format!("{resource}.replicas")] = json!("1");
        labels[format!("{resource}.memory")] = json!(memory.to_string());
        labels[format!("{resource}.sharing-strategy")] = json!("none");
        labels[format!("{resource}.product")] = json!(format!("NVIDIA-H100-80GB-HBM3-MIG-{profile}"));
        for list in ["capacity", "allocatable"] {
            node["status"][list][&resource] = json!(count.to_string());
        }
    }
    node
}

/// A pod that serves with vLLM's own image: arguments, resource, slots.
pub fn serving(args: &[&str], resource: &str, count: u32) -> Value {
    pod_of(
        "chat",
        json!([{
            "name": "server", "image": VLLM, "args": args,
            "resources": {"limits": {resource: count.to_string()}},
        }]),
    )
}

/// A vLLM container with a fraction (none: the engine's default).
pub fn vllm(image: &str, fraction: Option<&str>) -> Value {
    let mut args = vec!["--model".to_owned(), "Qwen/Qwen3-0.6B".to_owned()];
    if let Some(fraction) = fraction {
        args.push("--gpu-memory-utilization".to_owned());
        args.push(fraction.to_owned());
    }
    // With what the model declares and the engine profiles by default, small fractions would not do.
    args.extend(["--max-model-len", "4096", "--max-num-seqs", "64"].map(str::to_owned));
    json!({
        "name": "server", "image": image,
        "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"], "args": args,
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    })
}

/// A release whose process takes 640 MiB outside its fraction.
pub const VLLM: &str = "vllm/vllm-openai:v0.20.0";

pub fn pod_of(name: &str, containers: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team-a"}, "spec": {"containers": containers}})
}

pub fn pod(name: &str, fraction: &str) -> Value {
    pod_of(name, json!([vllm(VLLM, Some(fraction))]))
}

pub fn deployment(name: &str, replicas: u32, container: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    })
}

/// The finding with a code; panics with all findings where there is none.
pub fn finding(verdict: &Verdict, code: Code) -> &Finding {
    verdict
        .findings
        .iter()
        .find(|finding| finding.code == code)
        .unwrap_or_else(|| panic!("no {code} in {:#?}", verdict.findings))
}

pub fn has(verdict: &Verdict, code: Code) -> bool {
    verdict.findings.iter().any(|finding| finding.code == code)
}

/// Applies a fix to the object as it was submitted.
pub fn apply(object: &Value, fix: &Fix) -> Value {
    let mut changed = object.clone();
    json_patch::patch(&mut changed, &fix.patch).unwrap_or_else(|error| panic!("{}: {error}", fix.title));
    changed
}

/// Every fix of a refusal, applied, is admitted.
pub fn fixes_hold(cluster: &mut Cluster, object: &Value, verdict: &Verdict) -> usize {
    let mut held = 0;
    for fix in verdict.findings.iter().flat_map(|finding| &finding.fixes) {
        if fix.patch.is_empty() {
            continue;
        }
        let changed = apply(object, fix);
        let again = cluster.try_create(&changed);
        assert!(
            again.admit,
            "{} does not help: {:#?}\n{changed:#}",
            fix.title, again.findings
        );
        held += 1;
    }
    held
}

/// Compares a text with the one in `tests/texts/`; writes it there when `UPDATE_TEXTS` is set.
pub fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/texts")
        .join(format!("{name}.txt"));
    let text = format!("{}\n", text.trim_end());
    if std::env::var_os("UPDATE_TEXTS").is_some() {
        std::fs::write(&path, &text).expect("write the text");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text, expected,
        "tests/texts/{name}.txt differs; run with UPDATE_TEXTS=1 and look at the change"
    );
}
