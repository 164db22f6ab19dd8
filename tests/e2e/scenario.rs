//! One scenario: a namespace and nodes of its own, and what a test does in them.

use std::sync::{RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{Answer, Api, eventually};
use crate::cluster::{Cluster, progress, shared};
use crate::manifests::{self, GpuNode, Pod, SCENARIO};

/// How long it may take until a node advertises its number: the leader writes it, and after a kill another leads once the
/// Lease of the one before has ended (15 s, and two tries; `docs/replicas.md`).
pub const ADVERTISED_WITHIN: Duration = Duration::from_secs(30);

/// Holds vramgate up, or holds everybody else off.
#[expect(dead_code, reason = "the guards are held for their lifetime only")]
enum Hold {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

pub struct Scenario {
    pub name: &'static str,
    pub cluster: &'static Cluster,
    nodes: std::sync::Mutex<Vec<String>>,
    started: Instant,
    hold: Hold,
}

impl Scenario {
    /// A scenario that runs beside others.
    pub fn new(name: &'static str) -> Self {
        let cluster = shared();
        Self::begin(name, cluster, Hold::Shared(cluster.calm()))
    }

    /// A scenario that stops vramgate or takes its registrations away.
    pub fn alone(name: &'static str) -> Self {
        let cluster = shared();
        Self::begin(name, cluster, Hold::Alone(cluster.alone()))
    }

    fn begin(name: &'static str, cluster: &'static Cluster, hold: Hold) -> Self {
        if let Err(error) = &cluster.coming_up.registered {
            panic!("vramgate could not be registered: {error}");
        }
        cluster.with_vramgate(|vramgate| {
            // A scenario that failed while vramgate was down must not fail the others.
            if !vramgate.is_running() {
                vramgate.start();
            }
        });
        progress(&format!("{name} starts"));
        manifests::namespace(&cluster.admin, name);
        Self {
            name,
            cluster,
            nodes: std::sync::Mutex::default(),
            started: Instant::now(),
            hold,
        }
    }

    pub fn api(&self) -> &Api {
        &self.cluster.admin
    }

    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.name)
    }

    fn pod_path(&self, name: &str) -> String {
        format!("{}/{name}", self.pods())
    }

    /// Adds a node, waits until it is Ready, until vramgate knows it, and until pods on it are counted by the scheduler.
    pub fn node(&self, node: GpuNode) {
        self.unknown_node(&node);
        if !node.becomes_ready() {
            return;
        }
        let name = node.name();
        let probe = Pod::vllm("probe", "0.01").on_node(name).to_json();
        let mut last = String::new();
        let deadline = Instant::now() + ADVERTISED_WITHIN;
        loop {
            let answer = self.api().post(&format!("{}?dryRun=All", self.pods()), &probe);
            // A pod that no known node matches is admitted and waits, so success alone proves nothing.
            let counted = !node.offers("nvidia.com/gpu") || counted(&answer.body).is_some();
            if answer.is_success() && counted && self.is_known(&node) {
                return;
            }
            if Instant::now() > deadline {
                break;
            }
            last = answer.text();
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("vramgate does not know node {name}: {last}");
    }

    /// Whether vramgate judges by this node: more ranks than it could ever give are remarked on.
    fn is_known(&self, node: &GpuNode) -> bool {
        if !node.offers("nvidia.com/gpu") {
            return true;
        }
        let wide = Pod::vllm("probe", "0.01")
            .args(&["example-org/chat", "--tensor-parallel-size=64"])
            .on_node(node.name());
        let answer = self
            .api()
            .post(&format!("{}?dryRun=All", self.pods()), &wide.to_json());
        let words = answer.warnings.iter().cloned().chain([answer.text()]);
        words
            .into_iter()
            .any(|text| text.contains("VG105") || text.contains("VG703"))
    }

    /// Adds a node and waits until it is Ready, if anybody makes it so.
    pub fn unknown_node(&self, node: &GpuNode) {
        let name = node.name().to_owned();
        self.nodes.lock().unwrap().push(name.clone());
        self.api()
            .post(
                "/api/v1/nodes",
                &node.clone().label(SCENARIO, self.name).to_json(),
            )
            .admitted("a node");
        if node.becomes_ready() {
            eventually("the node is Ready", 30, || {
                manifests::is_ready(&self.api().get(&format!("/api/v1/nodes/{name}")).body).then_some(())
            });
        }
    }

    /// The pod as it is sent: on this scenario's nodes.
    pub fn placed(&self, pod: &Pod) -> Value {
        pod.clone().on(self.name).to_json()
    }

    pub fn create(&self, pod: &Pod) -> Answer {
        self.api().post(&self.pods(), &self.placed(pod))
    }

    pub fn dry_run(&self, pod: &Pod) -> Answer {
        self.api()
            .post(&format!("{}?dryRun=All", self.pods()), &self.placed(pod))
    }

    /// Creates all pods at once; answers in their order.
    pub fn create_at_once(&self, pods: &[Pod]) -> Vec<Result<Answer, String>> {
        let bodies: Vec<Value> = pods.iter().map(|pod| self.placed(pod)).collect();
        self.api().post_at_once(&self.pods(), &bodies)
    }

    /// Creates as the kubelet of `node`.
    pub fn create_as_node(&self, node: &str, pod: &Pod) -> Answer {
        self.api().post_as(
            &format!("system:node:{node}"),
            "system:nodes",
            &self.pods(),
            &pod.to_json(),
        )
    }

    /// Creates a workload of group `apps` or `batch`, with `?dryRun=All` or nothing in `query`.
    pub fn create_workload(&self, workload: &Value, query: &str) -> Answer {
        self.api()
            .post(&format!("{}{query}", self.workloads(workload)), workload)
    }

    fn workloads(&self, workload: &Value) -> String {
        let group = workload["apiVersion"].as_str().unwrap();
        let plural = format!("{}s", workload["kind"].as_str().unwrap().to_lowercase());
        format!("/apis/{group}/namespaces/{}/{plural}", self.name)
    }

    pub fn deployment(&self, name: &str) -> String {
        format!("/apis/apps/v1/namespaces/{}/deployments/{name}", self.name)
    }

    /// Creates, asking again for a while: for places that become free as the watch is read.
    #[track_caller]
    pub fn create_eventually(&self, pod: &Pod, seconds: u64) {
        let name = pod.to_json()["metadata"]["name"].clone();
        let mut last = String::new();
        let deadline = Instant::now() + Duration::from_secs(seconds);
        loop {
            let answer = self.create(pod);
            if answer.is_success() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{name} is still refused after {seconds} s: {last}"
            );
            last = answer.text();
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Deletes a pod with the grace period of its own.
    pub fn delete(&self, name: &str, grace: u32) {
        let answer = self.api().delete(&self.pod_path(name), grace);
        assert!(answer.is_success(), "{name} can be deleted: {}", answer.text());
    }

    pub fn exists(&self, name: &str) -> bool {
        self.api().get(&self.pod_path(name)).status == 200
    }

    #[track_caller]
    pub fn wait_gone(&self, name: &str, seconds: u64) {
        eventually(&format!("{name} is gone"), seconds, || {
            (!self.exists(name)).then_some(())
        });
    }

    /// Deletes all pods and waits until none is left and vramgate has seen it: `node` can hold a whole budget again.
    pub fn clear(&self, node: &str) {
        self.api().delete(&self.pods(), 0);
        eventually("no pod is left", 20, || self.list().is_empty().then_some(()));
        let whole = Pod::vllm("whole-budget", "0.90").on_node(node);
        eventually("the budget is free again", 20, || {
            self.dry_run(&whole).is_success().then_some(())
        });
    }

    /// Deletes all pods and waits until none is left.
    pub fn clear_pods(&self) {
        self.api().delete(&self.pods(), 0);
        eventually("no pod is left", 20, || self.list().is_empty().then_some(()));
    }

    /// The pod's containers have ended, and well.
    pub fn finish(&self, name: &str) {
        let done = r#"{"status": {"phase": "Succeeded"}}"#;
        let text = self.kubectl(&["patch", "pod", name, "--subresource=status", "-p", done], None);
        assert!(text.contains("patched"), "{text}");
    }

    /// Changes the pod's status, as a kubelet does, again and again.
    pub fn touch(&self, name: &str, times: usize) {
        for number in 0..times {
            let change = json!({"status": {"message": number.to_string()}});
            self.api()
                .patch(&format!("{}/status", self.pod_path(name)), &change)
                .admitted("a status");
        }
    }

    /// A node of this scenario that was deleted comes back; waits until vramgate knows it.
    pub fn node_again(&self, node: &GpuNode) {
        let name = node.name();
        eventually("the node is gone", 20, || {
            (self.api().get(&format!("/api/v1/nodes/{name}")).status == 404).then_some(())
        });
        self.node_once_more(node);
        eventually("vramgate knows the node", 15, || {
            let text = self.dry_run(&Pod::vllm("probe", "0.90").on_node(name)).text();
            (!text.contains("VG302") && !text.contains("VG703")).then_some(())
        });
    }

    fn node_once_more(&self, node: &GpuNode) {
        self.api()
            .post(
                "/api/v1/nodes",
                &node.clone().label(SCENARIO, self.name).to_json(),
            )
            .admitted("a node");
    }

    /// The device plugin offers another number of slots, and its labels say so.
    pub fn offer(&self, node: &str, slots: u32, labels: &[&str]) {
        let mut arguments = vec!["label", "node", node, "--overwrite"];
        arguments.extend(labels);
        self.kubectl(&arguments, None);
        let slots = slots.to_string();
        let change = json!({"status": {"capacity": {"nvidia.com/gpu": slots}, "allocatable": {"nvidia.com/gpu": slots}}});
        self.api()
            .patch(&format!("/api/v1/nodes/{node}/status"), &change)
            .admitted("a node's status");
    }

    /// Only so many slots are healthy.
    pub fn allocatable(&self, node: &str, slots: u32) {
        let change = json!({"status": {"allocatable": {"nvidia.com/gpu": slots.to_string()}}});
        self.api()
            .patch(&format!("/api/v1/nodes/{node}/status"), &change)
            .admitted("a node's status");
    }

    pub fn list(&self) -> Vec<Value> {
        self.api().get(&self.pods()).body["items"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// How many pods there are, once the API server says so.
    #[track_caller]
    pub fn count_stored(&self) -> usize {
        eventually("the API server lists pods", 30, || {
            let answer = self.api().get_ok(&self.pods())?;
            Some(answer.body["items"].as_array()?.len())
        })
    }

    /// Pods that are Running and not being deleted.
    pub fn running(&self) -> usize {
        let lives = |pod: &&Value| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        };
        self.list().iter().filter(lives).count()
    }

    #[track_caller]
    pub fn wait_running(&self, count: usize, seconds: u64) {
        let mut last = 0;
        let deadline = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < deadline {
            last = self.running();
            if last == count {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{count} pods should run in {}, and {last} do", self.name);
    }

    /// kubectl in this scenario's namespace, both streams, whatever its end.
    pub fn kubectl(&self, arguments: &[&str], input: Option<&Value>) -> String {
        let mut all = vec!["--namespace", self.name];
        all.extend(arguments);
        self.cluster
            .kubectl_all(&all, input.map(ToString::to_string).as_deref())
    }

    /// Waits until what kubectl prints holds all words.
    #[track_caller]
    pub fn wait_shown(&self, arguments: &[&str], words: &[&str], seconds: u64) -> String {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        loop {
            let text = self.kubectl(arguments, None);
            if words.iter().all(|word| text.contains(word)) {
                return text;
            }
            assert!(
                Instant::now() < deadline,
                "kubectl {arguments:?} never shows {words:?}:\n{text}"
            );
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Waits for the event of a controller that could not create a pod, as a developer lists it.
    #[track_caller]
    pub fn wait_not_created(&self, words: &[&str], seconds: u64) -> String {
        self.wait_shown(
            &["get", "events", "--field-selector=reason=FailedCreate"],
            words,
            seconds,
        )
    }

    /// Warning events about a node that speak of its budget.
    pub fn budget_events(&self, node: &str) -> Vec<Value> {
        let all = self.api().get("/api/v1/events").body["items"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let about = |event: &Value| {
            event["type"] == "Warning"
                && event["involvedObject"]["kind"] == "Node"
                && event["involvedObject"]["name"] == node
                && event["message"]
                    .as_str()
                    .is_some_and(|message| message.contains("budget"))
        };
        all.into_iter().filter(about).collect()
    }

    /// The value of the metric that counts what is above its budget.
    pub fn over_budget(&self) -> u64 {
        let text = self.cluster.with_vramgate(|vramgate| vramgate.metrics());
        let line = text.lines().find(|line| line.starts_with("vramgate_over_budget"));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.unwrap_or_else(|| panic!("no metric vramgate_over_budget:\n{text}"))
    }

    /// What `vramgate top` needs of a cluster, got as its documentation says.
    pub fn snapshot(&self) -> String {
        let kinds = "nodes,namespaces,configmaps,deployments,replicasets,pods,resourceslices,deviceclasses,resourceclaims";
        self.cluster
            .kubectl(&["get", kinds, "--all-namespaces", "-o", "yaml"], None)
            .unwrap()
    }

    /// The rows of a node in `vramgate top`.
    pub fn rows(&self, node: &str) -> Vec<Value> {
        let snapshot = self.snapshot();
        self.cluster
            .with_vramgate(|vramgate| vramgate.top(&snapshot, node))
    }

    /// Sum of promises on the one device of `node`, as `vramgate top` shows it, once it is what was expected.
    #[track_caller]
    pub fn wait_top(&self, node: &str, promised: &str) -> Value {
        let mut last = Vec::new();
        for _ in 0..20 {
            let snapshot = self.snapshot();
            last = self
                .cluster
                .with_vramgate(|vramgate| vramgate.top(&snapshot, node));
            if let [device] = last.as_slice()
                && same_fraction(&device["promisedFraction"], promised)
            {
                return device.clone();
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("top should show {promised} promised on {node}: {}", json!(last));
    }
}

/// What the first container of a pod carries of the resource by which the scheduler counts memory.
pub fn counted(pod: &Value) -> Option<u64> {
    amount(&pod["spec"]["containers"][0]["resources"]["requests"])
}

/// What a node advertises of it.
pub fn advertised(node: &Value) -> Option<u64> {
    let status = &node["status"];
    amount(&status["capacity"]).filter(|number| amount(&status["allocatable"]) == Some(*number))
}

fn amount(list: &Value) -> Option<u64> {
    let text = list["vramgate.io/gpu-ppm"].as_str()?;
    Some(vramgate::counted::read(text).expect("a whole number").ppm())
}

/// Whether a JSON fraction, text or number, is the decimal `expected`, trailing zeros aside.
pub fn same_fraction(value: &Value, expected: &str) -> bool {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let plain = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    plain(&text) == plain(expected)
}

impl Drop for Scenario {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        let seconds = self.started.elapsed().as_secs_f32();
        progress(&format!(
            "{} {} after {seconds:.1} s",
            self.name,
            if failed { "FAILED" } else { "passed" }
        ));
        if failed {
            progress(&self.cluster.tails());
            if matches!(self.hold, Hold::Alone(_)) {
                self.cluster.register_again();
            }
        }
        // The namespace first: while it ends, no controller can put pods back.
        self.api().delete(&format!("/api/v1/namespaces/{}", self.name), 0);
        self.api().delete(&self.pods(), 0);
        for node in self
            .nodes
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .iter()
        {
            self.api().delete(&format!("/api/v1/nodes/{node}"), 0);
        }
    }
}
