//! Pod CREATE with `dryRun=All` through a real kube-apiserver, which asks one webhook or another by namespace.
//!
//! etcd and kube-apiserver run alone; nothing is stored. The pods go to one namespace for each webhook, and to one
//! that no webhook watches, which shows what the API server itself takes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::client::{Connection, Endpoint, Expected, Request};
use crate::measure::{self, Report, Row, Target};
use crate::process::{self, Server};
use crate::review::{self, Kind};
use crate::tls::{self, Identity};
use crate::{Options, Outcome, direct};

/// Known to this run's API server alone, which listens on loopback and ends with the bench.
const TOKEN: &str = "bench";
const CREATED: Expected = Expected {
    status: 201,
    text: r#""kind":"Pod""#,
};

/// Where the binaries are: `KUBEBUILDER_ASSETS`, or what `tests/controlplane/build` made.
fn binary(name: &str) -> Outcome<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/controlplane/bin");
    let given = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let places = given.into_iter().chain([built]);
    places
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("{name} is missing: run tests/controlplane/build {name}").into())
}

struct ControlPlane {
    endpoint: Endpoint,
    // In the order of their end: the API server first.
    _apiserver: Server,
    _etcd: Server,
}

impl ControlPlane {
    async fn start(folder: &Path) -> Outcome<Self> {
        let (etcd, apiserver) = (binary("etcd")?, binary("kube-apiserver")?);
        let (clients, peers) = (process::free_address()?, process::free_address()?);
        let (clients_url, peers_url) = (format!("http://{clients}"), format!("http://{peers}"));
        let mut command = Command::new(etcd);
        command
            .arg("--data-dir")
            .arg(folder.join("etcd"))
            .arg("--unsafe-no-fsync");
        command.args([
            "--listen-client-urls",
            &clients_url,
            "--advertise-client-urls",
            &clients_url,
        ]);
        command.args([
            "--listen-peer-urls",
            &peers_url,
            "--initial-advertise-peer-urls",
            &peers_url,
        ]);
        command
            .arg("--initial-cluster")
            .arg(format!("default={peers_url}"));
        let mut etcd = Server::start("etcd", &mut command, folder)?;
        etcd.ready(async || process::answers(clients, "/health").await)
            .await?;

        let address = process::free_address()?;
        let key = folder.join("service-accounts.key");
        let public_key = folder.join("service-accounts.pub");
        let pair = rcgen::KeyPair::generate()?;
        std::fs::write(&key, pair.serialize_pem())?;
        std::fs::write(&public_key, pair.public_key_pem())?;
        let tokens = folder.join("tokens.csv");
        std::fs::write(&tokens, format!("{TOKEN},bench,bench,system:masters\n"))?;
        let certificates = folder.join("apiserver");
        let mut command = Command::new(apiserver);
        // To a Service the API server speaks HTTP/1.1; to a loopback URL it would choose HTTP/2.
        command.env("DISABLE_HTTP2", "1");
        command
            .arg("--etcd-servers")
            .arg(&clients_url)
            .arg("--cert-dir")
            .arg(&certificates);
        command.arg("--bind-address").arg(address.ip().to_string());
        command.arg("--advertise-address").arg(address.ip().to_string());
        command.arg("--secure-port").arg(address.port().to_string());
        command
            .arg("--token-auth-file")
            .arg(&tokens)
            .args(["--authorization-mode", "RBAC"]);
        command.args(["--service-cluster-ip-range", "10.96.0.0/24"]);
        command.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
        command.arg("--service-account-key-file").arg(&public_key);
        command.arg("--service-account-signing-key-file").arg(&key);
        // No controller manager runs that would make each namespace's service account.
        command.args(["--disable-admission-plugins", "ServiceAccount"]);
        let mut apiserver = Server::start("kube-apiserver", &mut command, folder)?;
        let certificate = certificates.join("apiserver.crt");
        let ready = async || {
            let Ok(pem) = std::fs::read_to_string(&certificate) else {
                return false;
            };
            let Ok(tls) = tls::client(&pem) else { return false };
            let endpoint = Endpoint { address, tls };
            matches!(
                call(&endpoint, "GET", "/readyz", &Value::Null).await,
                Ok((200, _))
            )
        };
        apiserver.ready(ready).await?;
        let tls = tls::client(&std::fs::read_to_string(&certificate)?)?;
        Ok(Self {
            endpoint: Endpoint { address, tls },
            _apiserver: apiserver,
            _etcd: etcd,
        })
    }

    async fn create(&self, path: &str, object: &Value) -> Outcome<()> {
        match call(&self.endpoint, "POST", path, object).await? {
            (201, _) => Ok(()),
            (status, answer) => Err(format!("POST {path}: {status} {answer}").into()),
        }
    }
}

fn message(method: &str, host: SocketAddr, path: &str, body: &Value) -> Outcome<Vec<u8>> {
    let body = if body.is_null() {
        Vec::new()
    } else {
        serde_json::to_vec(body)?
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\nAccept: application/json\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

async fn call(endpoint: &Endpoint, method: &str, path: &str, body: &Value) -> Outcome<(u16, String)> {
    let bytes = message(method, endpoint.address, path, body)?;
    let mut connection = Connection::open(endpoint).await?;
    let (status, answer) = connection.exchange(&bytes).await?;
    Ok((status, String::from_utf8_lossy(answer).into_owned()))
}

/// The same registration for each webhook: asked about pods that want a GPU, in its own namespace.
fn registration(kind: &str, name: &str, address: SocketAddr, pem: &str) -> Outcome<Value> {
    let path = if kind == "MutatingWebhookConfiguration" {
        "mutate"
    } else {
        "validate"
    };
    let bundle = data_of(pem).ok_or("a certificate that is not PEM")?;
    let wants_gpu = "object.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && \
                     c.resources.limits.exists(r, r.startsWith('nvidia.com/')))";
    let mut webhook = json!({
        "name": webhook_name(name, path),
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": format!("https://{address}/{path}"), "caBundle": bundle},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                   "scope": "Namespaced"}],
        "matchConditions": [{"name": "wants-gpu", "expression": wants_gpu}],
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 3,
        // A bench must not count creations that passed because the webhook failed.
        "failurePolicy": "Fail",
    });
    if path == "mutate" {
        webhook["reinvocationPolicy"] = json!("IfNeeded");
    }
    Ok(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [webhook],
    }))
}

/// `caBundle`: the PEM text in base64.
fn data_of(pem: &str) -> Option<String> {
    use base64::Engine as _;
    pem.contains("BEGIN CERTIFICATE")
        .then(|| base64::engine::general_purpose::STANDARD.encode(pem))
}

async fn register(plane: &ControlPlane, name: &str, webhook: SocketAddr, pem: &str) -> Outcome<()> {
    for (kind, resource) in [
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        (
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
        ),
    ] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}");
        plane
            .create(&path, &registration(kind, name, webhook, pem)?)
            .await?;
    }
    Ok(())
}

fn requests(plane: &ControlPlane, namespace: &str, concurrency: u16) -> Outcome<Vec<Request>> {
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    (0..concurrency)
        .map(|worker| {
            let pod = review::pod(
                Kind::SharedDryRun,
                namespace,
                &format!("chat-completions-{worker:05}"),
            );
            Ok(Request {
                bytes: message("POST", plane.endpoint.address, &path, &pod)?,
                uids: Vec::new(),
            })
        })
        .collect()
}

/// The webhook's name in its registration, by the path that it is asked on.
fn webhook_name(name: &str, path: &str) -> String {
    format!("{name}.{path}.bench.vramgate.io")
}

/// Creates pods until the API server's own metrics say that it asks every webhook on both paths: it learns of
/// registrations with a delay, and creations that pass unasked must not be measured.
async fn wait_until_asked(plane: &ControlPlane, names: &[&str]) -> Outcome<()> {
    for _ in 0..100 {
        for name in names {
            let path = format!("/api/v1/namespaces/{name}/pods?dryRun=All");
            plane
                .create(&path, &review::pod(Kind::SharedDryRun, name, "probe"))
                .await?;
        }
        let (_, metrics) = call(&plane.endpoint, "GET", "/metrics", &Value::Null).await?;
        let asked = |webhook: String| {
            metrics.lines().any(|line| {
                line.starts_with("apiserver_admission_webhook_request_total{") && line.contains(&webhook)
            })
        };
        let mut webhooks = names
            .iter()
            .flat_map(|name| ["mutate", "validate"].map(|path| webhook_name(name, path)));
        if webhooks.all(|webhook| asked(format!("name=\"{webhook}\""))) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("kube-apiserver does not ask every webhook: see apiserver_admission_webhook_request_total".into())
}

/// Measures and prints.
pub(crate) async fn run(options: &Options) -> Outcome<()> {
    let folder = direct::scratch()?;
    let identity = Identity::create(&folder)?;
    let plane = ControlPlane::start(&folder).await?;
    let webhooks = direct::start_webhooks(options, &identity, &folder).await?;

    let client: Arc<ClientConfig> = Arc::clone(&plane.endpoint.tls);
    let endpoint = Endpoint {
        address: plane.endpoint.address,
        tls: client,
    };
    let mut targets = Vec::new();
    for webhook in &webhooks {
        targets.push(Target {
            row: webhook.row.clone(),
            endpoint: endpoint.clone(),
            pid: Some(webhook.server.pid()),
        });
        register(&plane, &webhook.row.name, webhook.address, &identity.pem).await?;
    }
    targets.push(Target {
        row: Row {
            name: "no-webhook".to_owned(),
            nodes: None,
        },
        endpoint,
        pid: None,
    });
    for target in &targets {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": target.row.name}});
        plane.create("/api/v1/namespaces", &namespace).await?;
    }
    let names: Vec<_> = webhooks.iter().map(|webhook| webhook.row.name.as_str()).collect();
    wait_until_asked(&plane, &names).await?;

    let rows: Vec<_> = targets.iter().map(|target| target.row.clone()).collect();
    let mut report = Report::begin(
        "apiserver",
        options,
        "Pod CREATE with dryRun=All through kube-apiserver, which asks the namespace's webhook twice (mutate, validate).",
    );
    for concurrency in options.concurrencies([1, 16]) {
        let of_targets = targets
            .iter()
            .map(|target| requests(&plane, &target.row.name, concurrency));
        let of_targets = of_targets.collect::<Outcome<Vec<_>>>()?;
        let figures = measure::compare(&targets, &of_targets, CREATED, options).await?;
        let title = format!("Pod CREATE, concurrency {concurrency}");
        report.case(&title, &json!({"concurrency": concurrency}), &rows, &figures);
    }
    report.finish(options, &direct::target_folder())
}
