//! Objects that the scenarios create, said in the words of the scenarios.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::{Api, eventually};

/// The label by which nodes and pods of one scenario find each other.
pub const SCENARIO: &str = "e2e/scenario";

/// A node with GPUs, as GPU Feature Discovery labels it and the device plugin offers it.
#[derive(Clone)]
pub struct GpuNode {
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
    unschedulable: bool,
    conditions: Value,
}

impl GpuNode {
    /// A node without any GPU.
    pub fn bare(name: &str) -> Self {
        let labels = [
            ("kubernetes.io/hostname", name),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
        ];
        let resources = [("cpu", "64"), ("memory", "512Gi"), ("pods", "110")];
        let owned = |pairs: [(&str, &str); 3]| {
            pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into()
        };
        Self {
            name: name.to_owned(),
            labels: owned(labels),
            annotations: [("kwok.x-k8s.io/node".to_owned(), "fake".to_owned())].into(),
            capacity: owned(resources),
            allocatable: owned(resources),
            unschedulable: false,
            conditions: Value::Null,
        }
    }

    fn with_gpu(name: &str, product: &str, memory: u32) -> Self {
        Self::bare(name)
            .label("nvidia.com/gpu.present", "true")
            .label("nvidia.com/gpu.product", product)
            .label("nvidia.com/gpu.memory", &memory.to_string())
            .label("nvidia.com/gpu.count", "1")
            .label("nvidia.com/gpu.replicas", "1")
            .label("nvidia.com/gpu.sharing-strategy", "none")
            .label("nvidia.com/mig.capable", "false")
            .resource("nvidia.com/gpu", 1)
    }

    pub fn h100(name: &str) -> Self {
        Self::with_gpu(name, "NVIDIA-H100-80GB-HBM3", 81_559)
    }

    pub fn l40s(name: &str) -> Self {
        Self::with_gpu(name, "NVIDIA-L40S", 46_068)
    }

    /// Whether the node has any of a resource.
    pub fn offers(&self, resource: &str) -> bool {
        self.capacity.get(resource).is_some_and(|count| count != "0")
    }

    /// Several whole GPUs.
    pub fn gpus(self, count: u32) -> Self {
        self.label("nvidia.com/gpu.count", &count.to_string())
            .resource("nvidia.com/gpu", count)
    }

    /// Each GPU time-sliced into `replicas` slots; the resource keeps its name, as is usual.
    pub fn slots(self, replicas: u32) -> Self {
        let count: u32 = self.labels["nvidia.com/gpu.count"].parse().unwrap();
        let product = format!("{}-SHARED", self.labels["nvidia.com/gpu.product"]);
        self.label("nvidia.com/gpu.product", &product)
            .label("nvidia.com/gpu.replicas", &replicas.to_string())
            .label("nvidia.com/gpu.sharing-strategy", "time-slicing")
            .resource("nvidia.com/gpu", count * replicas)
    }

    /// Each GPU with `replicas` clients of MPS.
    pub fn mps(self, replicas: u32) -> Self {
        self.slots(replicas)
            .label("nvidia.com/gpu.sharing-strategy", "mps")
    }

    /// Its GPU cut into instances of one profile under the strategy `mixed`, each with `replicas` slots.
    pub fn mig(self, profile: &str, memory: u32, instances: u32, replicas: u32) -> Self {
        let resource = format!("nvidia.com/mig-{profile}");
        let product = format!("{}-MIG-{profile}", self.labels["nvidia.com/gpu.product"]);
        let (product, strategy) = if replicas > 1 {
            (format!("{product}-SHARED"), "time-slicing")
        } else {
            (product, "none")
        };
        let own = |name: &str| format!("{resource}.{name}");
        self.label("nvidia.com/mig.capable", "true")
            .label("nvidia.com/mig.strategy", "mixed")
            .label("nvidia.com/gpu.replicas", "0")
            .label(&own("product"), &product)
            .label(&own("memory"), &memory.to_string())
            .label(&own("count"), &instances.to_string())
            .label(&own("replicas"), &replicas.to_string())
            .label(&own("sharing-strategy"), strategy)
            .resource("nvidia.com/gpu", 0)
            .resource(&resource, instances * replicas)
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Without what discovery tells of how many devices there are and how they are shared.
    pub fn without_sharing_labels(mut self) -> Self {
        for key in ["count", "replicas", "sharing-strategy"] {
            self.labels.remove(&format!("nvidia.com/gpu.{key}"));
        }
        self
    }

    /// Capacity and allocatable of an extended resource.
    pub fn resource(mut self, name: &str, count: u32) -> Self {
        self.capacity.insert(name.to_owned(), count.to_string());
        self.allocatable(name, count)
    }

    /// Allocatable alone: less than the capacity where devices are unhealthy.
    pub fn allocatable(mut self, name: &str, count: u32) -> Self {
        self.allocatable.insert(name.to_owned(), count.to_string());
        self
    }

    pub fn cordoned(mut self) -> Self {
        self.unschedulable = true;
        self
    }

    /// A node whose kubelet does not report: nobody plays it, and it says so itself.
    pub fn not_ready(mut self) -> Self {
        self.annotations.clear();
        self.conditions = json!([{"type": "Ready", "status": "False", "reason": "KubeletNotReady",
            "message": "container runtime is down", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        self
    }

    /// Whether somebody will make it Ready.
    pub fn becomes_ready(&self) -> bool {
        !self.annotations.is_empty()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn to_json(&self) -> Value {
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.name, "labels": self.labels, "annotations": self.annotations},
            "spec": {"unschedulable": self.unschedulable},
            "status": {"capacity": self.capacity, "allocatable": self.allocatable},
        });
        if !self.conditions.is_null() {
            node["status"]["conditions"] = self.conditions.clone();
        }
        node
    }
}

/// A pod, or the template of one.
#[derive(Clone)]
pub struct Pod(Value);

impl Pod {
    fn with_container(name: &str, container: Value) -> Self {
        Self(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        }))
    }

    /// vLLM 0.20.0 with a fraction, on one slot of `nvidia.com/gpu`. The model is one that nobody knows: some of these pods
    /// are far smaller than any real one.
    pub fn vllm(name: &str, fraction: &str) -> Self {
        let container = json!({
            "name": "vllm", "image": "vllm/vllm-openai:v0.20.0",
            "args": ["example-org/chat", "--gpu-memory-utilization", fraction],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        });
        Self::with_container(name, container)
    }

    /// Any image, on one slot of `nvidia.com/gpu`.
    pub fn with_image(name: &str, image: &str) -> Self {
        let container = json!({"name": "main", "image": image,
            "resources": {"limits": {"nvidia.com/gpu": "1"}}});
        Self::with_container(name, container)
    }

    pub fn without_gpu(name: &str) -> Self {
        Self::with_container(
            name,
            json!({"name": "web", "image": "registry.k8s.io/pause:3.10"}),
        )
    }

    pub fn image(mut self, image: &str) -> Self {
        self.0["spec"]["containers"][0]["image"] = json!(image);
        self
    }

    pub fn args(mut self, args: &[&str]) -> Self {
        self.0["spec"]["containers"][0]["args"] = json!(args);
        self
    }

    /// Replaces the command of the first container.
    pub fn command(mut self, command: &[&str]) -> Self {
        self.0["spec"]["containers"][0]["command"] = json!(command);
        self
    }

    /// The user that the pod runs as.
    pub fn user(mut self, user: u32) -> Self {
        self.0["spec"]["securityContext"] = json!({"runAsUser": user});
        self
    }

    /// A volume in memory at `/dev/shm`.
    pub fn own_shm(mut self) -> Self {
        self.0["spec"]["volumes"] = json!([{"name": "shm", "emptyDir": {"medium": "Memory"}}]);
        self.0["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "shm", "mountPath": "/dev/shm"}]);
        self
    }

    /// Replaces the resources of the first container.
    pub fn asks(mut self, resource: &str, count: u32) -> Self {
        self.0["spec"]["containers"][0]["resources"] = json!({"limits": {resource: count.to_string()}});
        self
    }

    /// Takes the resources of the first container away.
    pub fn asks_nothing(mut self) -> Self {
        self.0["spec"]["containers"][0]
            .as_object_mut()
            .unwrap()
            .remove("resources");
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        let entry = json!({"name": name, "value": value});
        let env = &mut self.0["spec"]["containers"][0]["env"];
        match env.as_array_mut() {
            Some(entries) => entries.push(entry),
            None => *env = json!([entry]),
        }
        self
    }

    /// Adds the first container of another pod under a name of its own.
    pub fn beside(mut self, other: &Self, container: &str) -> Self {
        let mut added = other.0["spec"]["containers"][0].clone();
        added["name"] = json!(container);
        self.0["spec"]["containers"].as_array_mut().unwrap().push(added);
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    /// Stays Terminating for a while when it is deleted.
    pub fn terminates_slowly(self) -> Self {
        let mut pod = self.label("e2e/terminates-slowly", "yes");
        pod.0["spec"]["terminationGracePeriodSeconds"] = json!(30);
        pod
    }

    /// Onto the nodes of a scenario.
    pub fn on(mut self, scenario: &str) -> Self {
        self.0["spec"]["nodeSelector"][SCENARIO] = json!(scenario);
        self
    }

    /// Onto one node by its host name label.
    pub fn on_node(mut self, node: &str) -> Self {
        self.0["spec"]["nodeSelector"]["kubernetes.io/hostname"] = json!(node);
        self
    }

    /// Past the scheduler.
    pub fn bound_to(mut self, node: &str) -> Self {
        self.0["spec"]["nodeName"] = json!(node);
        self
    }

    pub fn priority(mut self, class: &str) -> Self {
        self.0["spec"]["priorityClassName"] = json!(class);
        self
    }

    /// Writes an amount of the counted resource by hand.
    pub fn carrying(mut self, amount: &str) -> Self {
        self.0["spec"]["containers"][0]["resources"]["limits"]["vramgate.io/gpu-ppm"] = json!(amount);
        self
    }

    pub fn named(mut self, name: &str) -> Self {
        self.0["metadata"]["name"] = json!(name);
        self
    }

    /// As a kubelet shows a static pod to the API server.
    pub fn mirror(mut self, node: &str, node_uid: &str) -> Self {
        self.0["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "6f1d", "kubernetes.io/config.hash": "6f1d",
            "kubernetes.io/config.source": "file"});
        self.0["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": true}]);
        self.0["spec"]["enableServiceLinks"] = json!(true);
        self.bound_to(node)
    }

    pub fn to_json(&self) -> Value {
        self.0.clone()
    }

    /// As the template of a workload whose pods are selected by `app`.
    fn template(&self, app: &str) -> Value {
        let mut template = self.0.clone();
        template["metadata"]["labels"]["app"] = json!(app);
        json!({"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]})
    }
}

/// A Deployment with the default strategy.
pub fn deployment(name: &str, replicas: u32, pod: &Pod) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pod.template(name)},
    })
}

pub fn replica_set(name: &str, replicas: u32, pod: &Pod) -> Value {
    let mut set = deployment(name, replicas, pod);
    set["kind"] = json!("ReplicaSet");
    set
}

pub fn stateful_set(name: &str, replicas: u32, pod: &Pod) -> Value {
    let mut set = deployment(name, replicas, pod);
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!(name);
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    set
}

pub fn daemon_set(name: &str, pod: &Pod) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": pod.template(name)},
    })
}

pub fn job(name: &str, pod: &Pod) -> Value {
    let mut template = pod.template(name);
    template["spec"]["restartPolicy"] = json!("Never");
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}})
}

/// Creates a namespace and waits for its service account, without which no pod is accepted.
pub fn namespace(api: &Api, name: &str) {
    api.post(
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
    )
    .admitted("a namespace");
    eventually("the namespace's service account", 30, || {
        api.is_ok(&format!("/api/v1/namespaces/{name}/serviceaccounts/default"))
            .then_some(())
    });
}

/// Whether a node is Ready and no taint of its start is left.
pub fn is_ready(node: &Value) -> bool {
    let ready = node["status"]["conditions"].as_array().is_some_and(|all| {
        all.iter()
            .any(|one| one["type"] == "Ready" && one["status"] == "True")
    });
    let not_ready = node["spec"]["taints"].as_array().is_some_and(|all| {
        all.iter().any(|taint| {
            taint["key"]
                .as_str()
                .is_some_and(|key| key == "node.kubernetes.io/not-ready")
        })
    });
    ready && !not_ready
}
