//! The shared control plane: started once, on loopback, in a fresh directory, gone when the tests end.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::api::{Api, eventually};
use crate::manifests::{self, GpuNode, Pod};
use crate::process::Running;
use crate::vramgate::Vramgate;

/// Programs that `tests/controlplane/build` makes.
const PROGRAMS: [&str; 6] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
];

/// The namespace of vramgate.
const NAMESPACE: &str = "apiVersion: v1
kind: Namespace
metadata: {name: vramgate}
---
";

/// Binds the roles that `docs/rbac.md` prints to the user of `vramgate serve`: what the documentation says is enough must
/// be enough.
const ROLE_BINDING: &str = "
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: vramgate, namespace: vramgate}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: vramgate}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: vramgate}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: vramgate}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: vramgate}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: vramgate}
";

/// A policy that matches nothing, since the scenarios are about the built-in default, and those of single scenarios.
const POLICY: &str = "
apiVersion: vramgate.io/v1alpha1
kind: GpuSharingPolicy
metadata: {name: nobody}
spec:
  match: {namespaces: {matchLabels: {e2e/nobody: here}}}
  mode: shadow
---
apiVersion: vramgate.io/v1alpha1
kind: GpuSharingPolicy
metadata: {name: fair-share}
spec:
  match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: s06-fair}}}
  defaults: {gpuMemoryUtilization: fairShare}
---
apiVersion: vramgate.io/v1alpha1
kind: GpuSharingPolicy
metadata: {name: override}
spec:
  match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: m06-override}}}
  mps: {override: true}
---
apiVersion: vramgate.io/v1alpha1
kind: GpuSharingPolicy
metadata: {name: plugin-config}
spec:
  match: {nodes: {matchLabels: {e2e/plugin-config: here}}}
  device: {pluginConfig: g16/device-plugin-configs}
---
apiVersion: vramgate.io/v1alpha1
kind: GpuSharingPolicy
metadata: {name: spread}
spec:
  match: {nodes: {matchLabels: {e2e/spread: here}}}
  device: {pluginConfig: spread/device-plugin-configs}
---
apiVersion: vramgate.io/v1alpha1
kind: GpuSharingPolicy
metadata: {name: growth}
spec:
  match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: growth}}}
  placement: {growth: [{matchLabels: {e2e/pool: growth}}]}
";

/// Runs whose logs are kept.
const RUNS_KEPT: usize = 5;

/// One line of progress, past the test harness's capture.
pub fn progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "e2e: {line}");
}

/// A free port of loopback below the ephemeral range, where outgoing connections cannot take it before its server does.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 110).unwrap() * 100;
    let _ = NEXT.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed);
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(port < 32_768, "no free port is left below 32768");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// How the cluster came up while the registered webhook did not answer.
pub struct ComingUp {
    /// Whether vramgate's registrations were there, with nobody behind them.
    pub registered: Result<(), String>,
    /// The fake nodes that were Ready when a Deployment without GPU had rolled out; none if it never did.
    pub ready_nodes: usize,
    /// The answer to a GPU pod.
    pub gpu_pod: String,
}

/// The control plane and vramgate beside it.
pub struct Cluster {
    pub directory: PathBuf,
    pub admin: Api,
    pub coming_up: ComingUp,
    programs: PathBuf,
    parts: Mutex<Vec<Running>>,
    apiserver: Command,
    etcd_port: u16,
    pub vramgate: Mutex<Option<Vramgate>>,
    /// Read: needs vramgate up. Write: takes it down.
    calm: RwLock<()>,
}

/// The cluster that all tests share.
pub fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Result<Cluster, String>> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| {
        std::panic::catch_unwind(Cluster::start)
            .map_err(|_| "the control plane did not start; the first failed test says why".to_owned())
    });
    cluster.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

fn kubeconfig(directory: &Path, user: &str, port: u16) -> PathBuf {
    let file = directory.join(format!("{user}.kubeconfig"));
    // A pod's service account is of its own namespace.
    let namespace = if user == "vramgate" { "vramgate" } else { "default" };
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority": directory.join("ca.crt"),
        }}],
        "users": [{"name": user, "user": {"token": format!("token-of-{user}")}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user, "namespace": namespace}}],
    });
    fs::write(&file, text.to_string()).unwrap();
    file
}

/// A fresh directory under `target/e2e`; of older ones only the newest are kept.
fn run_directory() -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the target directory")
        .join("e2e");
    fs::create_dir_all(&all).unwrap();
    let mut older: Vec<PathBuf> = fs::read_dir(&all)
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    older.sort();
    let surplus = older.len().saturating_sub(RUNS_KEPT - 1);
    for directory in &older[..surplus] {
        let _ = fs::remove_dir_all(directory);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let directory = all.join(format!("{now}-{}", std::process::id()));
    fs::create_dir_all(directory.join("policies")).unwrap();
    fs::write(directory.join("policies/nobody.yaml"), POLICY).unwrap();
    directory
}

impl Cluster {
    #[expect(
        clippy::too_many_lines,
        reason = "the start order of a control plane reads best in one piece"
    )]
    fn start() -> Self {
        let started = Instant::now();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
        let programs = sources.join("tests/controlplane/bin");
        let missing: Vec<&str> = PROGRAMS
            .into_iter()
            .filter(|program| !programs.join(program).is_file())
            .collect();
        assert!(
            missing.is_empty(),
            "missing {}: run tests/controlplane/build first",
            missing.join(", ")
        );

        let directory = run_directory();
        crate::certificates::write(&directory);
        let [etcd_port, peer_port, api_port] = [free_port(), free_port(), free_port()];
        let users = [
            ("admin", "admin", "system:masters"),
            ("controller-manager", "system:kube-controller-manager", ""),
            ("scheduler", "system:kube-scheduler", ""),
            ("kwok", "kwok", "system:masters"),
            ("vramgate", "vramgate", ""),
            ("nobody", "nobody", ""),
        ];
        let mut tokens = Vec::new();
        for (short, user, group) in users {
            writeln!(tokens, "token-of-{short},{user},{short},\"{group}\"").unwrap();
            kubeconfig(&directory, short, api_port);
        }
        fs::write(directory.join("tokens.csv"), tokens).unwrap();
        let at = |name: &str| directory.join(name).display().to_string();
        let log = |name: &str| directory.join(format!("{name}.log"));
        let program = |name: &str, arguments: &[String]| {
            let mut command = Command::new(programs.join(name));
            command.args(arguments);
            command
        };

        let data = directory.join("etcd-data");
        let etcd = program(
            "etcd",
            &[
                format!("--data-dir={}", data.display()),
                format!("--listen-client-urls=http://127.0.0.1:{etcd_port}"),
                format!("--advertise-client-urls=http://127.0.0.1:{etcd_port}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
                format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}"),
                format!("--initial-cluster=default=http://127.0.0.1:{peer_port}"),
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
            ],
        );
        let mut parts = vec![Running::start("etcd", &etcd, &log("etcd"), Some(&data))];

        let mut apiserver = program(
            "kube-apiserver",
            &[
                format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
                "--bind-address=127.0.0.1".to_owned(),
                "--advertise-address=127.0.0.1".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
                format!("--secure-port={api_port}"),
                format!("--tls-cert-file={}", at("apiserver.crt")),
                format!("--tls-private-key-file={}", at("apiserver.key")),
                format!("--cert-dir={}", at("apiserver-own")),
                format!("--token-auth-file={}", at("tokens.csv")),
                "--authorization-mode=Node,RBAC".to_owned(),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--service-account-key-file={}", at("service-accounts.pub")),
                format!(
                    "--service-account-signing-key-file={}",
                    at("service-accounts.key")
                ),
                "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
                "--allow-privileged=true".to_owned(),
            ],
        );
        // To a loopback URL the API server would speak HTTP/2 over one connection; to a Service it speaks HTTP/1.1.
        apiserver.env("DISABLE_HTTP2", "1");
        let mut first_apiserver = Running::start("kube-apiserver", &apiserver, &log("kube-apiserver"), None);
        let admin = Api::from_kubeconfig(&directory.join("admin.kubeconfig"));
        wait_for_apiserver(&admin, &mut first_apiserver);

        // The registrations come before everything else of the cluster, with nobody behind them, and the API server
        // starts once more beside them: a cluster must come up like this.
        let mut vramgate = Vramgate::prepare(&directory);
        kubectl(
            &programs,
            &directory,
            &["apply", "-f", "-"],
            Some(&documented_roles(sources)),
        )
        .expect("the roles are applied");
        let registered = vramgate
            .registrations()
            .and_then(|text| kubectl(&programs, &directory, &["apply", "-f", "-"], Some(&text)).map(|_| ()));
        first_apiserver.kill();
        let second_apiserver = Running::start("kube-apiserver", &apiserver, &log("kube-apiserver"), None);
        parts.push(second_apiserver);
        wait_for_apiserver(&admin, parts.last_mut().unwrap());
        // Not before: one that is killed right after can leave the next without the group in its discovery.
        let definitions = vramgate.definitions().expect("vramgate crds prints them");
        kubectl(&programs, &directory, &["apply", "-f", "-"], Some(&definitions))
            .expect("the definitions are applied");

        let controller_manager = program(
            "kube-controller-manager",
            &[
                format!("--kubeconfig={}", at("controller-manager.kubeconfig")),
                "--use-service-account-credentials=true".to_owned(),
                format!(
                    "--service-account-private-key-file={}",
                    at("service-accounts.key")
                ),
                format!("--root-ca-file={}", at("ca.crt")),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
                "--kube-api-qps=200".to_owned(),
                "--kube-api-burst=400".to_owned(),
            ],
        );
        let scheduler = program(
            "kube-scheduler",
            &[
                format!("--kubeconfig={}", at("scheduler.kubeconfig")),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
            ],
        );
        let own_stages = sources.join("tests/e2e/stages");
        let kwok = program(
            "kwok",
            &[
                format!("--kubeconfig={}", at("kwok.kubeconfig")),
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
                "--node-lease-duration-seconds=40".to_owned(),
                format!(
                    "--config={}",
                    programs.join("stages/node-initialize.yaml").display()
                ),
                format!("--config={}", programs.join("stages/pod-ready.yaml").display()),
                format!("--config={}", own_stages.join("pod-delete.yaml").display()),
            ],
        );
        for (name, command) in [
            ("kube-controller-manager", &controller_manager),
            ("kube-scheduler", &scheduler),
            ("kwok", &kwok),
        ] {
            parts.push(Running::start(name, command, &log(name), None));
        }
        progress(&format!(
            "control plane started in {:.1} s; logs in {}",
            started.elapsed().as_secs_f32(),
            directory.display()
        ));

        // A fault here belongs to the one test that asks for it.
        let came_up = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| come_up(&admin)));
        let (ready_nodes, gpu_pod) = came_up.unwrap_or_default();
        let coming_up = ComingUp {
            registered,
            ready_nodes,
            gpu_pod,
        };
        progress(&format!(
            "{} of 2 nodes and a Deployment came up without vramgate after {:.1} s",
            coming_up.ready_nodes,
            started.elapsed().as_secs_f32(),
        ));
        if coming_up.registered.is_ok() {
            vramgate.start();
            progress(&format!(
                "vramgate ready after {:.1} s",
                started.elapsed().as_secs_f32()
            ));
        }
        Self {
            directory,
            admin,
            coming_up,
            programs,
            parts: Mutex::new(parts),
            apiserver,
            etcd_port,
            vramgate: Mutex::new(Some(vramgate)),
            calm: RwLock::new(()),
        }
    }

    /// Has etcd forget all versions but the newest, over the JSON form of its API.
    pub fn compact_etcd(&self) {
        let newest = self.admin.get("/api/v1/nodes").body["metadata"]["resourceVersion"].clone();
        let body = json!({"revision": newest, "physical": true}).to_string();
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.etcd_port)).expect("etcd listens");
        write!(
            stream,
            "POST /v3/kv/compaction HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("etcd reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("etcd answers");
        assert!(
            answer.split(' ').nth(1) == Some("200"),
            "etcd is not compacted: {answer}"
        );
    }

    /// Kills the API server and starts it again after a while.
    pub fn restart_apiserver(&self, down: std::time::Duration) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts.iter_mut().find(|part| part.name() == "kube-apiserver");
        let part = part.expect("the API server runs");
        part.kill();
        std::thread::sleep(down);
        *part = Running::start(
            "kube-apiserver",
            &self.apiserver,
            &self.directory.join("kube-apiserver.log"),
            None,
        );
        wait_for_apiserver(&self.admin, part);
    }

    /// Runs kubectl as a developer would: standard output, or what it wrote to standard error on failure.
    pub fn kubectl(&self, arguments: &[&str], input: Option<&str>) -> Result<String, String> {
        kubectl(&self.programs, &self.directory, arguments, input)
    }

    /// Runs kubectl and gives both streams, whatever its end.
    pub fn kubectl_all(&self, arguments: &[&str], input: Option<&str>) -> String {
        let (_, output, errors) = run_kubectl(&self.programs, &self.directory, arguments, input);
        output + &errors
    }

    /// Where one of the programs that `tests/controlplane/build` makes stands.
    pub fn program(&self, name: &str) -> PathBuf {
        let path = self.programs.join(name);
        assert!(
            path.is_file(),
            "missing {name}: run tests/controlplane/build {name} first"
        );
        path
    }

    /// Gives the user of `vramgate serve` the documented rights, again.
    pub fn install_roles(&self) -> Result<String, String> {
        let roles = documented_roles(Path::new(env!("CARGO_MANIFEST_DIR")));
        self.kubectl(&["apply", "-f", "-"], Some(&roles))
    }

    /// Puts the registrations back, after a scenario that failed while they were away.
    pub fn register_again(&self) {
        let text = self.with_vramgate(|vramgate| vramgate.registrations());
        if let Err(error) = text.and_then(|text| self.kubectl(&["apply", "-f", "-"], Some(&text))) {
            progress(&format!("the registrations could not be put back: {error}"));
        }
    }

    /// Holds vramgate up.
    pub fn calm(&self) -> RwLockReadGuard<'_, ()> {
        self.calm.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other scenario needs vramgate, and keeps them waiting.
    pub fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.calm.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something to do with the vramgate process.
    pub fn with_vramgate<T>(&self, what: impl FnOnce(&mut Vramgate) -> T) -> T {
        let mut held = self.vramgate.lock().unwrap_or_else(PoisonError::into_inner);
        what(held.as_mut().expect("vramgate was prepared"))
    }

    /// The last lines of all logs.
    pub fn tails(&self) -> String {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text: String = parts
            .iter()
            .filter(|part| part.name() != "etcd")
            .map(|part| part.tail(5))
            .collect();
        text += &self.with_vramgate(|vramgate| vramgate.tail(30));
        text
    }
}

/// The YAML block of `docs/rbac.md`, and its bindings.
fn documented_roles(sources: &Path) -> String {
    let page = fs::read_to_string(sources.join("docs/rbac.md")).expect("docs/rbac.md is readable");
    let role = page
        .split("```yaml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    NAMESPACE.to_owned() + role.expect("docs/rbac.md has a YAML block") + ROLE_BINDING
}

fn wait_for_apiserver(admin: &Api, apiserver: &mut Running) {
    let deadline = Instant::now() + std::time::Duration::from_secs(30);
    while !admin.is_ok("/readyz") {
        assert!(
            Instant::now() < deadline,
            "kube-apiserver is not ready\n{}",
            apiserver.tail(30)
        );
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

fn run_kubectl(
    programs: &Path,
    directory: &Path,
    arguments: &[&str],
    input: Option<&str>,
) -> (bool, String, String) {
    let mut child = Command::new(programs.join("kubectl"))
        .arg(format!(
            "--kubeconfig={}",
            directory.join("admin.kubeconfig").display()
        ))
        .arg(format!(
            "--cache-dir={}",
            directory.join("kubectl-cache").display()
        ))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all(input.unwrap_or_default().as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("kubectl ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn kubectl(
    programs: &Path,
    directory: &Path,
    arguments: &[&str],
    input: Option<&str>,
) -> Result<String, String> {
    let (success, output, errors) = run_kubectl(programs, directory, arguments, input);
    if success { Ok(output) } else { Err(errors) }
}

/// Brings a namespace, nodes and a Deployment up while nobody answers behind vramgate's registrations.
fn come_up(admin: &Api) -> (usize, String) {
    let name = "coming-up";
    manifests::namespace(admin, name);
    for node in ["coming-up-gpu", "coming-up-second"] {
        admin
            .post(
                "/api/v1/nodes",
                &GpuNode::h100(node).slots(4).label("e2e/scenario", name).to_json(),
            )
            .admitted("a node");
    }
    let pod = Pod::without_gpu("web").on(name);
    admin
        .post(
            &format!("/apis/apps/v1/namespaces/{name}/deployments"),
            &manifests::deployment("web", 2, &pod),
        )
        .admitted("a Deployment without GPU");
    let nodes = ["coming-up-gpu", "coming-up-second"];
    let ready_nodes = eventually("nodes and a Deployment while the webhook is down", 60, || {
        let deployment = admin.get(&format!("/apis/apps/v1/namespaces/{name}/deployments/web"));
        let is_ready = |node: &&&str| manifests::is_ready(&admin.get(&format!("/api/v1/nodes/{node}")).body);
        let ready = nodes.iter().filter(is_ready).count();
        (deployment.body["status"]["readyReplicas"] == 2 && ready == nodes.len()).then_some(ready)
    });
    let gpu_pod = Pod::vllm("early", "0.30").on(name).to_json();
    let answer = admin.post(&format!("/api/v1/namespaces/{name}/pods"), &gpu_pod);
    let text = if answer.is_success() {
        "admitted".to_owned()
    } else {
        answer.text()
    };
    for node in nodes {
        admin.delete(&format!("/api/v1/nodes/{node}"), 0);
    }
    admin.delete(&format!("/api/v1/namespaces/{name}"), 0);
    (ready_nodes, text)
}
