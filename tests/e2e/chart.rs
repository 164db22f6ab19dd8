//! The chart on the real API server: every object of it is accepted, what it installs is enough for a webhook to serve with,
//! `helm test` finds it out, and its removal leaves nothing behind.
//!
//! No kubelet runs the pods of hooks here. What such a pod would run is run in its place, with a token of its service account,
//! so that its rights are known to suffice.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::api::eventually;
use crate::cluster::progress;
use crate::manifests::{GpuNode, Pod};
use crate::scenario::{Scenario, advertised};
use crate::vramgate::Vramgate;

pub const HOME: &str = "vramgate";

/// Puts the cluster's own installation back, however the scenario ends.
pub struct Restored<'a>(pub &'a Scenario);

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        let cluster = self.0.cluster;
        let _ = helm(
            self.0,
            &["uninstall", "vramgate", "--no-hooks", "--ignore-not-found"],
        )
        .output();
        cluster.with_vramgate(|vramgate| {
            if vramgate.is_running() {
                vramgate.kill();
            }
        });
        if let Err(error) = cluster.install_roles() {
            progress(&format!("the roles could not be put back: {error}"));
        }
        let definitions = cluster.with_vramgate(|vramgate| vramgate.definitions());
        let applied = definitions.and_then(|text| cluster.kubectl(&["apply", "-f", "-"], Some(&text)));
        if let Err(error) = applied {
            progress(&format!("the definitions could not be put back: {error}"));
        }
        cluster.register_again();
        if !std::thread::panicking() {
            cluster.with_vramgate(Vramgate::start);
        }
    }
}

/// Helm as the cluster's administrator, in the namespace of the release.
pub fn helm(s: &Scenario, arguments: &[&str]) -> Command {
    let mut command = Command::new(s.cluster.program("helm"));
    command
        .args(arguments)
        .args(["--namespace", HOME, "--kubeconfig"])
        .arg(s.cluster.directory.join("admin.kubeconfig"))
        .env_clear()
        .env("HOME", s.cluster.directory.join("helm"));
    command
}

#[track_caller]
pub fn run(mut command: Command) -> String {
    let output = command.output().expect("helm starts");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// Installs the chart with these values. Definitions that were applied by hand are taken over.
#[track_caller]
pub fn install(s: &Scenario, chart: &str, values: &str) -> String {
    let arguments = ["install", "vramgate", chart, "--values", values];
    run(helm(s, &[&arguments[..], &["--take-ownership"]].concat()))
}

/// The chart, but for the version that it asks for: the API server of the tests is built without one, and says 0.0.0.
pub fn chart(s: &Scenario) -> String {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let (path, to) = {
                let entry = entry.unwrap();
                (entry.path(), to.join(entry.file_name()))
            };
            if path.is_dir() {
                copy(&path, &to);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.split_inclusive('\n');
            let kept: String = lines.filter(|line| !line.starts_with("kubeVersion:")).collect();
            std::fs::write(to, kept).unwrap();
        }
    }
    let to = s.cluster.directory.join("chart");
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/vramgate"),
        &to,
    );
    to.display().to_string()
}

/// Values in a file of the run's folder.
pub fn values(s: &Scenario, name: &str, values: &Value) -> String {
    let path = s.cluster.directory.join(name);
    std::fs::write(&path, values.to_string()).unwrap();
    path.display().to_string()
}

/// A kubeconfig by which `account` is known: a token of its own, as a pod has one.
pub fn kubeconfig_of(s: &Scenario, account: &str) -> std::path::PathBuf {
    let path = format!("/api/v1/namespaces/{HOME}/serviceaccounts/{account}/token");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let answer = s.api().post(&path, &request).admitted("a token");
    let text = std::fs::read_to_string(s.cluster.directory.join("vramgate.kubeconfig")).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    kubeconfig["users"][0]["user"]["token"] = answer.body["status"]["token"].clone();
    let file = s.cluster.directory.join(format!("{account}-account.kubeconfig"));
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    file
}

/// Runs what the pod of a hook would run, while Helm waits for it, and ends the pod as a kubelet would. The command's output.
fn in_place_of(s: &Scenario, selector: &str, helm: &mut Child) -> String {
    let path = format!("/api/v1/namespaces/{HOME}/pods?labelSelector={selector}");
    let pod = eventually("the hook's pod is there", 60, || {
        if let Some(status) = helm.try_wait().unwrap() {
            panic!("helm ended before its hook ran: {status}");
        }
        let items = s.api().get(&path).body["items"].as_array().cloned()?;
        items.into_iter().next()
    });
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap();
    let kubeconfig = kubeconfig_of(s, account).display().to_string();
    let own = pod["spec"]["containers"][0]["args"].as_array().unwrap();
    let mut arguments: Vec<&str> = own.iter().map(|argument| argument.as_str().unwrap()).collect();
    arguments.extend(["--kubeconfig", &kubeconfig]);
    let output = s.cluster.with_vramgate(|vramgate| vramgate.run(&arguments));
    let phase = if output.is_ok() { "Succeeded" } else { "Failed" };
    let name = pod["metadata"]["name"].as_str().unwrap();
    let done = json!({"status": {"phase": phase}});
    s.api()
        .patch(&format!("/api/v1/namespaces/{HOME}/pods/{name}/status"), &done)
        .admitted("the end of the hook's pod");
    output.unwrap()
}

#[track_caller]
fn ended(helm: Child) -> String {
    let output = helm.wait_with_output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text
}

fn start(mut command: Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("helm starts")
}

fn is_there(s: &Scenario, path: &str) -> bool {
    s.api().get(path).status == 200
}

const REGISTRATIONS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vramgate",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/vramgate",
];
const CLUSTER_ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/vramgate";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpuledgers.vramgate.io";

/// Takes away what the cluster's own installation is.
pub fn clear(s: &Scenario) {
    s.cluster.with_vramgate(Vramgate::kill);
    for (kind, name) in [
        ("mutatingwebhookconfiguration", "vramgate"),
        ("validatingwebhookconfiguration", "vramgate"),
        ("clusterrole", "vramgate"),
        ("clusterrolebinding", "vramgate"),
    ] {
        s.kubectl(&["delete", kind, name], None);
    }
    s.kubectl(
        &["delete", "role,rolebinding", "vramgate", "--namespace", HOME],
        None,
    );
}

/// Every object of the chart, with a certificate of one's own, and of the kustomize base.
fn all_are_accepted(s: &Scenario, chart: &str, provided: &Value) {
    let file = values(s, "chart-provided.json", provided);
    // The pod of `helm test` is not accepted before its service account is there; it is created for good further down.
    let rendered = run(helm(
        s,
        &[
            "template",
            "vramgate",
            chart,
            "--values",
            &file,
            "--kube-version",
            "1.36.0",
            "--skip-tests",
        ],
    ));
    let text = s.cluster.kubectl(
        &[
            "apply",
            "--server-side",
            "--dry-run=server",
            "--force-conflicts",
            "-f",
            "-",
        ],
        Some(&rendered),
    );
    let text = text.unwrap_or_else(|error| panic!("the chart is not accepted: {error}"));
    for object in [
        "deployment.apps/vramgate",
        "job.batch/vramgate-uninstall",
        "flowschema",
        "networkpolicy",
        "poddisruptionbudget",
    ] {
        assert!(text.contains(object), "{object} is not among: {text}");
    }
    let base = format!("{}/install/kustomize", env!("CARGO_MANIFEST_DIR"));
    let built = s.cluster.kubectl(&["kustomize", &base], None).unwrap();
    let applied = s.cluster.kubectl(
        &[
            "apply",
            "--server-side",
            "--dry-run=server",
            "--force-conflicts",
            "-f",
            "-",
        ],
        Some(&built),
    );
    applied.unwrap_or_else(|error| panic!("the kustomize base is not accepted: {error}"));
}

#[test]
fn the_chart_installs_serves_tests_itself_and_leaves_nothing() {
    let s = Scenario::alone("chart");
    s.node(GpuNode::h100("chart-n1").slots(8));
    let restored = Restored(&s);
    clear(&s);

    let authority = std::fs::read_to_string(s.cluster.directory.join("certs/ca.crt")).unwrap();
    let port = s.cluster.with_vramgate(|vramgate| vramgate.port());
    let mut by_url = json!({
        "image": {"repository": "registry.example/vramgate"},
        "certificates": {"mode": "provided", "provided": {"caBundle": authority}},
        "webhook": {"url": format!("https://127.0.0.1:{port}")},
        // As in the run's own policies: the right to watch the ConfigMap follows from it.
        "policies": [{"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "plugin-config"},
            "spec": {"match": {"nodes": {"matchLabels": {"e2e/plugin-config": "here"}}},
                "device": {"pluginConfig": "g16/device-plugin-configs"}}}],
    });
    let mut inside = by_url.clone();
    inside["webhook"]["url"] = "".into();
    inside["certificates"]["provided"]["secretName"] = "vramgate-tls".into();
    let chart = chart(&s);
    all_are_accepted(&s, &chart, &inside);

    // A webhook outside of the cluster, with the rights of the chart's service account and no others. The definition was
    // applied by hand, and is taken over.
    let file = values(&s, "chart-url.json", &by_url);
    let text = install(&s, &chart, &file);
    assert!(text.contains("which you run"), "the notes are printed: {text}");
    let account = kubeconfig_of(&s, "vramgate");
    s.cluster.with_vramgate(|vramgate| vramgate.launch(&account, &[]));
    eventually("vramgate is ready with the chart's rights", 60, || {
        let (status, _) = s.cluster.with_vramgate(|vramgate| vramgate.readiness())?;
        (status == 200).then_some(())
    });
    let forbidden = |text: &str| {
        text.lines()
            .any(|line| line.contains("forbidden") && !line.ends_with(" 0") && !line.starts_with('#'))
    };
    for name in ["a", "b", "c"] {
        s.create_eventually(&Pod::vllm(name, "0.30"), 30);
    }
    s.create(&Pod::vllm("d", "0.30"))
        .denied("a fourth, through the chart's registrations", &["VG201"]);
    eventually("the node advertises", 30, || {
        let node = s.api().get("/api/v1/nodes/chart-n1").body;
        (advertised(&node) == Some(900_000)).then_some(())
    });
    let metrics = s.cluster.with_vramgate(|vramgate| vramgate.metrics());
    assert!(!forbidden(&metrics), "{metrics}");
    // The exempt namespace is nobody's to ask about.
    let exempt = Pod::vllm("exempt", "0.90").on_node("chart-n1").to_json();
    let answer = s
        .api()
        .post("/api/v1/namespaces/kube-system/pods?dryRun=All", &exempt);
    assert!(
        answer.is_success() && answer.warnings.is_empty(),
        "{}",
        answer.text()
    );

    // `helm test`.
    let mut asking = start(helm(&s, &["test", "vramgate"]));
    let text = in_place_of(&s, "app.kubernetes.io/name=vramgate-test", &mut asking);
    assert!(
        text.contains("the API server asks vramgate") && text.contains("VG"),
        "{text}"
    );
    ended(asking);

    // An upgrade, by which the webhook is asked in fewer namespaces.
    by_url["webhook"]["exemptNamespaces"] = json!(["kube-system", "chart"]);
    let file = values(&s, "chart-url.json", &by_url);
    let text = run(helm(&s, &["upgrade", "vramgate", &chart, "--values", &file]));
    assert!(text.contains("Upgrading"), "{text}");
    s.create_eventually(&Pod::vllm("not-judged", "0.30"), 30);

    // Removal: whoever runs the webhook outside ends it first.
    s.cluster.with_vramgate(Vramgate::kill);
    let mut removal = start(helm(&s, &["uninstall", "vramgate"]));
    let text = in_place_of(&s, "app.kubernetes.io/name=vramgate-uninstall", &mut removal);
    assert!(
        text.contains("2 registrations deleted") && text.contains("chart-n1: vramgate.io/gpu-ppm removed"),
        "{text}"
    );
    ended(removal);
    nothing_is_left(&s);

    replicas_are_ended_first(&s, &chart, inside);
    drop(restored);
}

/// The removal of replicas in the cluster; kwok plays their kubelet. They have no registrations, since nobody answers.
fn replicas_are_ended_first(s: &Scenario, chart: &str, mut inside: Value) {
    inside["registrations"] = json!({"enabled": false});
    inside["replicas"] = 3.into();
    let file = values(s, "chart-inside.json", &inside);
    install(s, chart, &file);
    let deployment = format!("/apis/apps/v1/namespaces/{HOME}/deployments/vramgate");
    eventually("the replicas run", 60, || {
        (s.api().get(&deployment).body["status"]["readyReplicas"] == 3).then_some(())
    });
    s.api()
        .patch(
            "/api/v1/nodes/chart-n1/status",
            &json!({"status": {"capacity": {"vramgate.io/gpu-ppm": "900000"}}}),
        )
        .admitted("a number on a node");
    let mut removal = start(helm(s, &["uninstall", "vramgate"]));
    let text = in_place_of(s, "app.kubernetes.io/name=vramgate-uninstall", &mut removal);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "0 registrations deleted", "{text}");
    assert_eq!(
        lines[1], "Deployment vramgate/vramgate has no pods any more",
        "{text}"
    );
    assert!(text.contains("chart-n1: vramgate.io/gpu-ppm removed"), "{text}");
    ended(removal);
    nothing_is_left(s);
}

fn nothing_is_left(s: &Scenario) {
    for path in REGISTRATIONS {
        assert!(!is_there(s, path), "{path} is left");
    }
    let nodes = s.api().get("/api/v1/nodes").body["items"]
        .as_array()
        .cloned()
        .unwrap();
    for node in nodes {
        assert!(
            !node["status"].to_string().contains("vramgate.io/gpu-ppm"),
            "{}",
            node["metadata"]["name"]
        );
    }
    for path in [CLUSTER_ROLE.to_owned(), format!("{CLUSTER_ROLE}-uninstall")] {
        assert!(!is_there(s, &path), "{path} is left");
    }
    assert!(is_there(s, DEFINITION), "the definition stays");
    let left = s.cluster.kubectl(
        &[
            "get",
            "all,configmaps,networkpolicies,pdb,roles,rolebindings",
            "-n",
            HOME,
            "-l",
            "app.kubernetes.io/instance=vramgate",
            "-o",
            "name",
        ],
        None,
    );
    let left = left.unwrap();
    // Pods of the Deployment may still be on their way out.
    let stays: Vec<&str> = left
        .lines()
        .filter(|line| !line.starts_with("pod/") && !line.starts_with("replicaset"))
        .collect();
    assert!(stays.is_empty(), "{stays:?}");
}
