//! A server with a stand-in for the decision.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use vramgate::decision::{Question, Verdict};
use vramgate::engine::{NoSources, Sources};
use vramgate::finding::{Code, FieldPath, Finding};
use vramgate::server::{
    Backend, Certificates, Decider, Decision, LookUps, Metrics, NamedConfigMaps, Readiness, Server, Settings,
};

use crate::client::Trust;

/// Answers by the pod's name: `full` is denied, `panics` panics, `slow` needs a ConfigMap that never comes, `plain` asks
/// for no GPU, anything else is admitted and reserved.
#[derive(Default)]
pub(crate) struct ByName {
    pub(crate) decided: AtomicUsize,
    pub(crate) reserved: Mutex<Vec<String>>,
    pub(crate) released: Mutex<Vec<String>>,
}

impl Decider for ByName {
    fn config_maps(&self, question: &Question) -> NamedConfigMaps {
        let slow = question.workload.object.name == "slow";
        let names = if slow {
            BTreeSet::from(["never".to_owned()])
        } else {
            BTreeSet::new()
        };
        NamedConfigMaps { names, allowed: true }
    }

    fn concerns_gpus(&self, question: Question) -> bool {
        question.workload.object.name != "plain"
    }

    fn decide<'a>(
        &'a self,
        question: Question,
        _: &'a (dyn Sources + Sync),
        _: tokio::time::Instant,
    ) -> BoxFuture<'a, Decision> {
        let name = question.workload.object.name.clone();
        if name == "panics" {
            self.decided.fetch_add(1, Ordering::SeqCst);
            return Box::pin(async { panic!("the test wants a panic") });
        }
        Box::pin(std::future::ready(self.answer(&question)))
    }

    fn release(&self, uid: &str) {
        self.released.lock().unwrap().push(uid.to_owned());
    }
}

impl ByName {
    fn answer(&self, question: &Question) -> Decision {
        self.decided.fetch_add(1, Ordering::SeqCst);
        let name = question.workload.object.name.as_str();
        if name == "full" {
            let path = FieldPath::new("spec.containers[0].args[1]");
            let findings = vec![Finding::new(Code::Vg201, path, "device budget exceeded on gpu-1")];
            return Decision {
                verdict: Verdict {
                    judged: true,
                    findings,
                    ..Verdict::default()
                },
                reserved: None,
            };
        }
        let verdict = Verdict {
            admit: true,
            judged: name != "plain",
            ..Verdict::default()
        };
        let reserved = (!question.dry_run).then(|| question.workload.uid.clone());
        self.reserved.lock().unwrap().extend(reserved.clone());
        Decision { verdict, reserved }
    }
}

struct NeverConfigMaps;

impl LookUps for NeverConfigMaps {
    fn config_maps<'a>(
        &'a self,
        _: &'a str,
        names: &'a BTreeSet<String>,
        _: bool,
    ) -> BoxFuture<'a, Box<dyn Sources + Send + Sync>> {
        Box::pin(async move {
            if names.contains("never") {
                std::future::pending::<()>().await;
            }
            Box::new(NoSources) as _
        })
    }

    fn namespace_labels<'a>(&'a self, _: &'a str) -> BoxFuture<'a, BTreeMap<String, String>> {
        Box::pin(std::future::ready(BTreeMap::from([(
            "team".to_owned(),
            "a".to_owned(),
        )])))
    }
}

/// A running server. Dropping it stops it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) status: SocketAddr,
    pub(crate) trust: Trust,
    pub(crate) decider: Arc<ByName>,
    pub(crate) readiness: Readiness,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) async fn start(change: impl FnOnce(&mut Settings)) -> Self {
        let (certificates, ca_pem) = Certificates::self_signed(&[], 1).unwrap();
        Self::start_with(certificates, &ca_pem, change).await
    }

    pub(crate) async fn start_with(
        certificates: Certificates,
        ca_pem: &str,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = loopback();
        change(&mut settings);
        let decider = Arc::new(ByName::default());
        let mut running = Self::serve(settings, decider.clone(), certificates, ca_pem).await;
        running.decider = decider;
        running
    }

    /// A server over any decision; the stand-in beside it is not asked.
    pub(crate) async fn over(decider: Arc<dyn Decider>) -> Self {
        let (certificates, ca_pem) = Certificates::self_signed(&[], 1).unwrap();
        Self::serve(loopback(), decider, certificates, &ca_pem).await
    }

    async fn serve(
        settings: Settings,
        decider: Arc<dyn Decider>,
        certificates: Certificates,
        ca_pem: &str,
    ) -> Self {
        let readiness = Readiness::awaiting(&[]);
        let server = Server {
            settings,
            backend: Arc::new(Backend::new(decider, Arc::new(NeverConfigMaps))),
            certificates: Arc::new(certificates),
            readiness: readiness.clone(),
            metrics: Arc::new(Metrics::new()),
            page: Arc::new(|| "<p>devices</p>".to_owned()),
        };
        let bound = server.bind().await.unwrap();
        let (address, status) = (bound.address().unwrap(), bound.status_address().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(bound.run(async move {
            let _ = stopped.await;
        }));
        Self {
            address,
            status,
            trust: Trust::of(ca_pem),
            decider: Arc::default(),
            readiness,
            stop: Some(stop),
            task: Some(task),
        }
    }

    /// Asks it to stop; the task ends when it has drained.
    pub(crate) fn stop(&mut self) -> JoinHandle<()> {
        let _ = self.stop.take().unwrap().send(());
        self.task.take().unwrap()
    }

    pub(crate) fn released(&self) -> Vec<String> {
        self.decider.released.lock().unwrap().clone()
    }
}

fn loopback() -> Settings {
    Settings {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        status_listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        lame_duck: Duration::ZERO,
        ..Settings::default()
    }
}

/// A review of a pod of this name; its UID is `uid-NAME`.
pub(crate) fn pod_review(name: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": format!("review-{name}"),
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "name": name,
            "namespace": "team-a",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "object": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "team-a", "uid": format!("uid-{name}")},
                "spec": {"containers": [{
                    "name": "engine",
                    "image": "vllm/vllm-openai:v0.11.0",
                    "args": ["--gpu-memory-utilization", "0.3"],
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                }]},
            },
            "oldObject": null,
            "dryRun": false,
        },
    })
}

/// A review of a Deployment of this name.
pub(crate) fn deployment_review(name: &str) -> Value {
    let mut review = pod_review(name);
    let pod = review["request"]["object"].take();
    review["request"]["kind"] = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    review["request"]["resource"] = json!({"group": "apps", "version": "v1", "resource": "deployments"});
    review["request"]["object"] = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": pod["metadata"],
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]},
        },
    });
    review
}
