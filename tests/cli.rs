//! The binary as a user meets it: exit codes, shapes of the documents, and input that cannot be used.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: chat, namespace: llm}
spec:
  containers:
  - name: server
    image: vllm/vllm-openai:v0.20.0
    args: [--model, example-org/chat-7b, --gpu-memory-utilization, \"0.30\"]
    resources: {limits: {nvidia.com/gpu: 1}}
";

const IDLE: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: web, image: nginx}]
";

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("vramgate-cli-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn vramgate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramgate"));
    command
        .args(args)
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    vramgate(args).output().unwrap()
}

fn run_with_input(args: &[&str], input: &[u8]) -> Output {
    let mut child = vramgate(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("ended by itself")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no JSON: {}\n{}", stdout(output), stderr(output)))
}

fn cluster() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/cluster.yaml")
        .display()
        .to_string()
}

/// The command fails with 2 and one error line that holds each text.
#[track_caller]
fn unusable(args: &[&str], texts: &[&str]) {
    let output = run(args);
    let error = stderr(&output);
    assert_eq!(code(&output), 2, "{error}");
    assert_eq!(stdout(&output), "");
    assert!(error.starts_with("error: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    for text in texts {
        assert!(error.contains(text), "{text:?} is not in: {error}");
    }
}

#[test]
fn every_command_has_help_and_the_version_is_printed() {
    for command in [
        "serve",
        "check",
        "explain",
        "top",
        "certs",
        "webhook-config",
        "crds",
    ] {
        let output = run(&[command, "--help"]);
        assert_eq!(code(&output), 0);
        assert!(stdout(&output).contains("Usage: vramgate"), "{command}");
    }
    assert_eq!(
        stdout(&run(&["--version"])),
        format!("vramgate {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(code(&run(&[])), 2);
    assert_eq!(code(&run(&["frobnicate"])), 2);
}

#[test]
fn explain_prints_its_document_in_the_order_of_the_input() {
    let folder = Folder::new();
    let first = folder.write("a.yaml", format!("{POD}---\n{IDLE}"));
    let second = folder.write(
        "b.json",
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"embed"},"spec":{"replicas":3,
            "template":{"spec":{"containers":[{"name":"main","image":"x:1"},{"name":"side","image":"y:1"}]}}}}"#,
    );
    let output = run(&["explain", "-o", "json", &second, &first]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    assert_eq!(
        (&document["apiVersion"], &document["kind"]),
        (&"vramgate.io/v1alpha1".into(), &"Explanation".into())
    );
    let names: Vec<_> = document["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["object"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["embed", "chat", "web"]);
    let embed = &document["items"][0];
    assert_eq!(embed["object"]["apiVersion"], "apps/v1");
    assert_eq!(embed["object"]["namespace"], "default");
    assert_eq!(embed["replicas"]["desired"], 3);
    assert!(embed["replicas"]["max"].is_null() && embed["replicas"]["surge"].is_u64());
    assert_eq!(embed["containers"].as_array().unwrap().len(), 2);
    let server = &document["items"][1]["containers"][0];
    assert_eq!(
        server["gpu"],
        serde_json::json!([{"resource": "nvidia.com/gpu", "count": 1}])
    );
    let fields = [
        "name",
        "role",
        "engine",
        "version",
        "command",
        "model",
        "starts",
        "resolvable",
        "memory",
        "parallelism",
        "provenance",
        "gpu",
        "maxModelLen",
        "quantization",
        "dtype",
        "kvCacheDtype",
        "unresolved",
        "findings",
    ];
    let mut found: Vec<_> = server.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = fields.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(document["items"][2]["containers"][0]["engine"], "none");
}

#[test]
fn misspelt_gpu_resources_are_told_by_explain_and_check() {
    let folder = Folder::new();
    let misspelt = folder.write("a.yaml", POD.replace("nvidia.com/gpu", "nvida.com/gpu"));
    let output = run(&["explain", "-o", "json", &misspelt]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    let findings = &document["items"][0]["containers"][0]["findings"];
    let told = findings
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["code"] == "VG108");
    let told = told.unwrap_or_else(|| panic!("{findings:#}"));
    assert!(
        told["message"]
            .as_str()
            .unwrap()
            .ends_with("write nvidia.com/gpu")
    );

    let output = run(&["check", "--cluster-state", &cluster(), &misspelt]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("VG108"), "{}", stdout(&output));
}

#[test]
fn explain_in_text_names_object_and_container() {
    let folder = Folder::new();
    let output = run(&["explain", &folder.write("a.yaml", POD)]);
    let text = stdout(&output);
    assert_eq!(code(&output), 0);
    assert!(text.starts_with("Pod llm/chat (1 pod)\n"), "{text}");
    assert!(
        text.contains("CONTAINER") && text.contains("1 nvidia.com/gpu"),
        "{text}"
    );
    assert!(
        !text.contains('\u{1b}'),
        "no colours without a terminal: {text:?}"
    );
}

#[test]
fn what_is_none_of_our_business_is_left_out() {
    let folder = Folder::new();
    let other =
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\napiVersion: x.example/v2\nkind: Widget\n";
    let file = folder.write("a.yaml", format!("{other}---\n{IDLE}"));
    let output = run(&["check", "--cluster-state", &cluster(), "-o", "json", &file]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    assert_eq!(document["kind"], "CheckResult");
    assert_eq!(document["items"], serde_json::json!([]));
    let output = run(&["check", "--cluster-state", &cluster(), &file]);
    assert_eq!(stdout(&output), "No object asks for a GPU; nothing was judged.\n");
}

#[test]
fn folders_are_read_recursively_in_order_and_other_files_are_not() {
    let folder = Folder::new();
    for (file, name) in [("b/z.yml", "second"), ("c.json", "third"), ("a.yaml", "first")] {
        let pod = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[]}}}}"#
        );
        folder.write(file, pod);
    }
    folder.write("notes.txt", "not: [a manifest");
    folder.write("b/README.md", "# {");
    let output = run(&["explain", "-o", "json", &folder.0.display().to_string()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    let names: Vec<_> = document["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["object"]["name"].clone())
        .collect();
    assert_eq!(names, ["first", "second", "third"]);
    let empty = Folder::new();
    unusable(
        &["explain", &empty.0.display().to_string()],
        &["no *.yaml, *.yml or *.json"],
    );
}

#[test]
fn standard_input_is_a_file_like_any_other_but_only_once() {
    let output = run_with_input(&["explain", "-", "-o", "json"], POD.as_bytes());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&output)["items"][0]["object"]["name"], "chat");
    let output = run_with_input(&["explain", "-", "-o", "json"], b"");
    assert_eq!(json(&output)["items"], serde_json::json!([]));
    let output = run_with_input(&["explain", "-"], b"apiVersion: v1\nkind: [\n");
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).starts_with("error: -:"), "{}", stderr(&output));
    unusable(&["explain", "-", "-"], &["only once"]);
}

#[test]
fn unusable_files_name_file_line_and_reason() {
    let folder = Folder::new();
    unusable(
        &["explain", "/no/such/file.yaml"],
        &["/no/such/file.yaml: does not exist; check the path"],
    );
    let cases: [(&str, Vec<u8>, &str); 10] = [
        ("broken.yaml", b"a: b\nc: [1,\n  b\n".to_vec(), "broken.yaml:"),
        (
            "tab.yaml",
            b"apiVersion: v1\nkind: Pod\nspec:\n\tx: 1\n".to_vec(),
            "tab.yaml:4",
        ),
        (
            "broken.json",
            b"{\"apiVersion\":\"v1\",\n\"kind\":}".to_vec(),
            "broken.json:2:8: expected value",
        ),
        (
            "cut.json",
            b"{\"apiVersion\":\"v1\",\"kind\":\"Pod\"".to_vec(),
            "cut.json:1:",
        ),
        (
            "untyped.yaml",
            b"a: b\n".to_vec(),
            "untyped.yaml:1: the object has no apiVersion and no kind",
        ),
        (
            "twice.yaml",
            b"apiVersion: v1\nkind: Pod\nkind: Pod\n".to_vec(),
            "duplicate",
        ),
        (
            "nul.yaml",
            b"apiVersion: v1\nkind: \0\n".to_vec(),
            "nul.yaml:2: the text holds a NUL byte",
        ),
        (
            "latin.yaml",
            b"apiVersion: v1\n# caf\xe9\nkind: Pod\n".to_vec(),
            "latin.yaml:2: the text is not UTF-8",
        ),
        (
            "deep.json",
            format!(
                "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"x\":{}",
                "[".repeat(200_000)
            )
            .into(),
            "deep.json",
        ),
        (
            "deep.yaml",
            format!("apiVersion: v1\nkind: Pod\nx: {}", "[".repeat(200_000)).into_bytes(),
            "deep.yaml",
        ),
    ];
    for (name, content, expected) in cases {
        let file = folder.write(name, content);
        unusable(&["explain", &file], &[expected]);
        unusable(&["check", "--cluster-state", &cluster(), &file], &[expected]);
        unusable(&["top", "--cluster-state", &file], &[expected]);
    }
}

#[test]
fn a_pod_that_the_api_server_would_refuse_is_unusable_input() {
    let folder = Folder::new();
    let file = folder.write("a.yaml", POD.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: half"));
    unusable(
        &["check", "--cluster-state", &cluster(), &file],
        &["a.yaml:1", "\"chat\"", "nvidia.com/gpu", "half"],
    );
    let file = folder.write(
        "b.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: 7}\n",
    );
    unusable(
        &["check", "--cluster-state", &cluster(), &file],
        &["b.yaml:1", "spec.containers"],
    );
}

#[test]
fn an_input_file_holds_ten_thousand_documents_and_no_more() {
    let folder = Folder::new();
    let document = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
    let full = folder.write("full.yaml", document.repeat(10_000));
    assert_eq!(code(&run(&["explain", &full])), 0);
    let over = folder.write("over.yaml", document.repeat(10_001));
    unusable(
        &["explain", &over],
        &["over.yaml:40002", "more than 10000 documents"],
    );
}

#[test]
fn a_cluster_is_needed_to_judge() {
    let folder = Folder::new();
    let file = folder.write("a.yaml", POD);
    unusable(
        &["top", "--cluster-state", &file],
        &["holds no Node", "kubectl get nodes"],
    );
    unusable(
        &["check", "--cluster-state", "/no/such", &file],
        &["/no/such: does not exist"],
    );
}

#[test]
fn what_configures_gpus_is_judged_without_a_node() {
    let folder = Folder::new();
    let empty = folder.write(
        "empty.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: gpu-operator}\n",
    );
    let map = |name: &str, profile: &str| {
        folder.write(
            name,
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: mig, namespace: gpu-operator}}\ndata:\n  config.yaml: |\n    \
                 version: v1\n    mig-configs: {{a: [{{devices: all, mig-enabled: true, mig-devices: {{{profile}}}}}]}}\n"
            ),
        )
    };
    let right = map("right.yaml", "1g.5gb: 7");
    assert_eq!(code(&run(&["check", "--cluster-state", &empty, &right])), 0);
    let wrong = map("wrong.yaml", "1g.5gb: 8");
    assert_eq!(code(&run(&["check", "--cluster-state", &empty, &wrong])), 1);
    let pod = folder.write("pod.yaml", POD);
    unusable(&["check", "--cluster-state", &empty, &pod], &["holds no Node"]);
    // Nodes of the input are context like those of the cluster.
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: gpu-1}\nstatus: {allocatable: {nvidia.com/gpu: \"1\"}, \
                capacity: {nvidia.com/gpu: \"1\"}}\n---\n";
    let both = folder.write("both.yaml", format!("{POD}\n---\n{node}"));
    assert_eq!(code(&run(&["check", "--cluster-state", &empty, &both])), 0);
}

#[test]
fn flags_that_cannot_be_read_are_refused() {
    let folder = Folder::new();
    let file = folder.write("a.yaml", POD);
    for format in ["yaml", "SARIF", ""] {
        let output = run(&["check", "-o", format, &file]);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains("[possible values: text, json, sarif, junit, github]"));
    }
    for args in [
        ["--listen", "nowhere"],
        ["--reservation-ttl", "65"],
        ["--tls-cert", "x"],
    ] {
        assert_eq!(code(&run(&[&["serve"], &args[..]].concat())), 2, "{args:?}");
    }
}

#[test]
fn a_ledger_in_the_cluster_needs_a_cluster_and_says_what_to_give() {
    let texts = [
        "--ledger cluster keeps reservations in a cluster, and there is none here",
        "give --kubeconfig FILE, run in a pod, or leave --ledger out",
    ];
    let listen = ["--listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0"];
    let state = ["--cluster-state", &cluster()];
    for cluster in [&[][..], &state] {
        unusable(
            &[&["serve", "--ledger", "cluster"], cluster, &listen].concat(),
            &texts,
        );
        let output = vramgate(&[&["serve"], cluster, &listen].concat())
            .env("VRAMGATE_LEDGER", "cluster")
            .output()
            .unwrap();
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        for text in texts {
            assert!(stderr(&output).contains(text), "{}", stderr(&output));
        }
    }
    // A kind that there is not names those that there are.
    let unknown = vramgate(&["serve"])
        .env("VRAMGATE_LEDGER", "disk")
        .output()
        .unwrap();
    for output in [run(&["serve", "--ledger", "disk"]), unknown] {
        assert_eq!(code(&output), 2);
        for text in ["disk", "memory", "cluster"] {
            assert!(stderr(&output).contains(text), "{text}: {}", stderr(&output));
        }
    }
}

#[test]
fn top_lists_devices_in_both_formats() {
    let output = run(&["top", "--cluster-state", &cluster(), "-o", "json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    assert_eq!(document["kind"], "DeviceList");
    let shared = &document["items"][0];
    assert_eq!(shared["node"], "gpu-node-1");
    assert_eq!(shared["device"], "nvidia.com/gpu[0]");
    assert_eq!(shared["sharing"], "time-slicing");
    assert_eq!(
        (&shared["slots"], &shared["totalMiB"], &shared["budgetMiB"]),
        (&4.into(), &81_559.into(), &73_403.into())
    );
    assert_eq!(
        (&shared["promisedMiB"], &shared["promisedFraction"]),
        (&0.into(), &"0.00".into())
    );
    assert_eq!(shared["holders"], serde_json::json!([]));
    let whole = &document["items"][1];
    assert_eq!(
        (&whole["node"], &whole["sharing"]),
        (&"gpu-node-2".into(), &"none".into())
    );
    let text = stdout(&run(&["top", "--cluster-state", &cluster()]));
    assert!(text.lines().next().unwrap().starts_with("NODE"), "{text}");
    assert!(
        text.contains("gpu-node-1") && text.contains("0/4") && text.contains("73403"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn snapshots_from_several_files_are_one_cluster() {
    let folder = Folder::new();
    let bound = POD.replace("spec:\n", "spec:\n  nodeName: gpu-node-1\n");
    let pods = folder.write("pods.yaml", bound);
    let output = run(&[
        "top",
        "--cluster-state",
        &cluster(),
        "--cluster-state",
        &pods,
        "--holders",
        "-o",
        "json",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let holder = &json(&output)["items"][0]["holders"][0];
    assert_eq!(
        (&holder["namespace"], &holder["name"], &holder["container"]),
        (&"llm".into(), &"chat".into(), &"server".into())
    );
    assert_eq!(holder["rank"], 0);
}

#[test]
fn certificates_are_written_once_and_the_registrations_name_them() {
    let folder = Folder::new();
    let out = folder.0.join("certs").display().to_string();
    let args = [
        "certs",
        "--out",
        &out,
        "--host",
        "localhost",
        "--host",
        "127.0.0.1",
    ];
    let output = run(&args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for file in ["ca.crt", "tls.crt", "tls.key"] {
        assert!(folder.0.join("certs").join(file).is_file(), "{file}");
    }
    unusable(&args, &["exists already", "--force"]);
    assert_eq!(code(&run(&[&args[..], &["--force"]].concat())), 0);

    let ca = format!("{out}/ca.crt");
    let output = run(&[
        "webhook-config",
        "--url",
        "https://127.0.0.1:8443",
        "--ca",
        &ca,
        "-o",
        "json",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let list = json(&output);
    let kinds: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["kind"].clone())
        .collect();
    assert_eq!(
        kinds,
        ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    );
    assert_eq!(
        list["items"][0]["webhooks"][0]["clientConfig"]["url"],
        "https://127.0.0.1:8443/mutate"
    );
    let text = stdout(&run(&[
        "webhook-config",
        "--service",
        "vramgate-system/vramgate",
        "--ca",
        &ca,
    ]));
    assert!(
        text.starts_with("---\n") && text.contains("kind: ValidatingWebhookConfiguration"),
        "{text}"
    );

    unusable(
        &["webhook-config", "--url", "http://x", "--ca", &ca],
        &["https://"],
    );
    unusable(
        &["webhook-config", "--service", "vramgate", "--ca", &ca],
        &["NAMESPACE/NAME"],
    );
    unusable(
        &[
            "webhook-config",
            "--url",
            "https://x",
            "--ca",
            &format!("{out}/tls.key"),
        ],
        &["holds a private key"],
    );
    unusable(
        &["webhook-config", "--url", "https://x", "--ca", "/no/such"],
        &["does not exist"],
    );
    assert_eq!(code(&run(&["webhook-config", "--ca", &ca])), 2);
}

#[test]
fn crds_prints_the_definitions() {
    let text = stdout(&run(&["crds"]));
    assert!(
        text.starts_with("apiVersion: apiextensions.k8s.io/v1\n")
            && text.contains("name: gpuledgers.vramgate.io"),
        "{text}"
    );
    let list: Value = serde_json::from_str(&stdout(&run(&["crds", "-o", "json"]))).unwrap();
    assert_eq!(list["items"][0]["metadata"]["name"], "gpuledgers.vramgate.io");
    assert_eq!(list["items"][0]["spec"]["scope"], "Cluster");
    assert_eq!(
        list["items"][1]["metadata"]["name"],
        "gpusharingpolicies.vramgate.io"
    );
    let kept = fs::read_to_string("docs/schema/gpusharingpolicy.crd.yaml").unwrap();
    assert!(text.ends_with(&format!("\n---\n{kept}")), "{text}");
    let schema: Value = serde_json::from_str(&stdout(&run(&["policy", "schema"]))).unwrap();
    let kept = fs::read_to_string("docs/schema/gpusharingpolicy.json").unwrap();
    assert_eq!(schema, serde_json::from_str::<Value>(&kept).unwrap());
    unusable(
        &[
            "serve",
            "--ledger",
            "cluster",
            "--cluster-state",
            "examples/cluster.yaml",
        ],
        &["--ledger cluster", "--kubeconfig"],
    );
    assert_eq!(code(&run(&["serve", "--ledger", "shared"])), 2);
}

#[test]
fn policy_files_are_read_and_their_errors_stand_where_they_are() {
    let folder = Folder::new();
    let file = folder.write("a.yaml", IDLE);
    let policies = folder.0.join("policies").display().to_string();
    folder.write("policies/team.yaml", "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: team}\nspec: {mode: warm}\n");
    let output = run(&[
        "check",
        "--cluster-state",
        &cluster(),
        "--policy-dir",
        &policies,
        &file,
    ]);
    assert_eq!(code(&output), 2);
    let error = stderr(&output);
    assert!(error.contains("team.yaml:4") && error.contains("mode"), "{error}");
    unusable(
        &["explain", "--policy-dir", "/no/such", &file],
        &["is not a folder"],
    );
}

/// Answers GETs as an API server would that has one GPU node and one pod, in pages of one, and forbids ConfigMaps.
/// It serves dynamic resource allocation in one version. Gives its kubeconfig.
fn api_server(version: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(&mut stream.unwrap(), version);
        }
    });
    kubeconfig_of(address)
}

fn kubeconfig_of(address: std::net::SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    )
}

/// The objects of dynamic resource allocation in a version; none of another.
fn resources(path: &str, version: &str) -> Option<String> {
    let plural = path.strip_prefix(&format!("/apis/resource.k8s.io/{version}/"))?;
    let old = version == "v1beta1";
    let device = r#""attributes":{"type":{"string":"gpu"},"productName":{"string":"NVIDIA L40S"}},"capacity":{"memory":{"value":"46068Mi"}}"#;
    let device = if old {
        format!(r#"{{"name":"gpu-0","basic":{{{device}}}}}"#)
    } else {
        format!(r#"{{"name":"gpu-0",{device}}}"#)
    };
    let request = if old {
        r#"{"name":"gpu","deviceClassName":"gpu.nvidia.com"}"#
    } else {
        r#"{"name":"gpu","exactly":{"deviceClassName":"gpu.nvidia.com"}}"#
    };
    let spec = format!(r#"{{"devices":{{"requests":[{request}]}}}}"#);
    let (kind, item) = match plural {
        "resourceslices" => (
            "ResourceSliceList",
            format!(
                r#"{{"metadata":{{"name":"dra-live"}},"spec":{{"driver":"gpu.nvidia.com","nodeName":"cpu-live",
                "pool":{{"name":"cpu-live","generation":1}},"devices":[{device}]}}}}"#
            ),
        ),
        "deviceclasses" => (
            "DeviceClassList",
            r#"{"metadata":{"name":"gpu.nvidia.com"},"spec":{"selectors":[{"cel":{"expression":"device.driver == 'gpu.nvidia.com'"}}]}}"#
                .to_owned(),
        ),
        "resourceclaims" => (
            "ResourceClaimList",
            format!(
                r#"{{"metadata":{{"name":"shared","namespace":"llm"}},"spec":{spec},"status":{{"allocation":{{"devices":{{"results":[
                {{"request":"gpu","driver":"gpu.nvidia.com","pool":"cpu-live","device":"gpu-0"}}]}}}}}}}}"#
            ),
        ),
        _ => (
            "ResourceClaimTemplateList",
            format!(r#"{{"metadata":{{"name":"one","namespace":"llm"}},"spec":{{"spec":{spec}}}}}"#),
        ),
    };
    Some(format!(
        r#"{{"kind":"{kind}","apiVersion":"resource.k8s.io/{version}","metadata":{{}},"items":[{item}]}}"#
    ))
}

fn answer(stream: &mut std::net::TcpStream, version: &str) {
    use std::io::Read as _;
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
        request.push(byte[0]);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let target = request.split(' ').nth(1).unwrap_or_default();
    let node = r#"{"metadata":{"name":"gpu-live","labels":{"nvidia.com/gpu.product":"NVIDIA-L40S-SHARED","nvidia.com/gpu.memory":"46068",
        "nvidia.com/gpu.count":"1","nvidia.com/gpu.replicas":"2","nvidia.com/gpu.sharing-strategy":"time-slicing"}},
        "status":{"capacity":{"nvidia.com/gpu":"2"},"allocatable":{"nvidia.com/gpu":"2"},"conditions":[{"type":"Ready","status":"True"}]}}"#;
    let list = |kind: &str, next: &str, items: &str| {
        format!(
            r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{{"continue":"{next}"}},"items":[{items}]}}"#
        )
    };
    let (status, body) = match target.split('?').next().unwrap_or_default() {
        "/api/v1/nodes" if target.contains("continue=more") => ("200 OK", list("NodeList", "", node)),
        "/api/v1/nodes" => ("200 OK", list("NodeList", "more", r#"{"metadata":{"name":"cpu-live"}}"#)),
        "/api/v1/configmaps" => (
            "403 Forbidden",
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"configmaps is forbidden","reason":"Forbidden","code":403}"#
                .to_owned(),
        ),
        "/apis/vramgate.io/v1alpha1/gpusharingpolicies" => ("404 Not Found", "404 page not found".to_owned()),
        path if path.starts_with("/apis/resource.k8s.io/") => resources(path, version).map_or_else(
            || ("404 Not Found", "404 page not found".to_owned()),
            |list| ("200 OK", list),
        ),
        _ => ("200 OK", list("List", "", "")),
    };
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
}

#[test]
fn a_live_cluster_is_read_page_by_page_and_what_is_missing_is_said() {
    let folder = Folder::new();
    let kubeconfig = folder.write("kubeconfig", api_server("none"));
    let output = run(&["top", "--kubeconfig", &kubeconfig, "-o", "json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&output)["items"][0]["node"], "gpu-live");
    assert_eq!(json(&output)["items"].as_array().unwrap().len(), 1);
    assert_eq!(
        stderr(&output),
        "note: /api/v1/configmaps: configmaps is forbidden; values from ConfigMaps are unknown\n"
    );
    let pod = folder.write("a.yaml", POD);
    let output = vramgate(&["check", &pod, "-o", "json"])
        .env("KUBECONFIG", &kubeconfig)
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&output)["items"][0]["placement"][0]["node"], "gpu-live");
}

#[test]
fn claims_of_a_live_cluster_are_read_in_whichever_version_it_serves() {
    let folder = Folder::new();
    for version in ["v1", "v1beta2", "v1beta1"] {
        let kubeconfig = folder.write("kubeconfig", api_server(version));
        let output = run(&["top", "--kubeconfig", &kubeconfig, "-o", "json"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let rows = json(&output)["items"].clone();
        let row = rows.as_array().unwrap().iter();
        let row = row.clone().find(|row| row["device"] == "gpu.nvidia.com[gpu-0]");
        assert_eq!(
            row.unwrap_or_else(|| panic!("{version}: {rows}"))["totalMiB"],
            46_068
        );
        for (entry, codes) in [
            ("resourceClaimName: shared", &["VG101"][..]),
            ("resourceClaimTemplateName: one", &["VG101"]),
            ("resourceClaimName: none", &["VG101", "VG704"]),
        ] {
            let pod = format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: chat, namespace: llm}}\nspec:\n  resourceClaims: [{{name: gpu, {entry}}}]\n  \
                 containers:\n  - name: server\n    image: vllm/vllm-openai:v0.11.0\n    args: [--model, example-org/chat, \
                 --gpu-memory-utilization, '1.5']\n    resources: {{claims: [{{name: gpu}}]}}\n"
            );
            let pod = folder.write("claim.yaml", pod);
            let output = run(&["check", "--kubeconfig", &kubeconfig, &pod, "-o", "json"]);
            let findings = json(&output)["items"][0]["findings"].clone();
            let found: Vec<&str> = findings
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|one| one["code"].as_str())
                .collect();
            assert_eq!(found, codes, "{version} {entry}: {findings}");
        }
    }
}

#[test]
fn a_cluster_that_cannot_be_reached_is_an_error_with_a_way_out() {
    let folder = Folder::new();
    // A port that was ours a moment ago and on which nobody listens now.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let text = kubeconfig_of(nobody);
    let kubeconfig = folder.write("kubeconfig", text);
    let output = run(&["top", "--kubeconfig", &kubeconfig]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("--cluster-state FILE"),
        "{}",
        stderr(&output)
    );
    let output = run(&["top", "--kubeconfig", "/no/such/kubeconfig"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("/no/such/kubeconfig"),
        "{}",
        stderr(&output)
    );
}

/// A running webhook, stopped at the end of the test.
struct Webhook {
    process: std::process::Child,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStderr>>,
}

impl Webhook {
    fn start(args: &[&str]) -> Self {
        use std::io::BufRead as _;
        let args = [
            &[
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--status-listen",
                "127.0.0.1:0",
            ],
            args,
        ]
        .concat();
        let mut process = vramgate(&args)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(process.stderr.take().unwrap()).lines();
        Self { process, lines }
    }

    /// The next line that holds a text.
    fn line(&mut self, text: &str) -> String {
        self.lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.contains(text))
            .unwrap()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    use std::io::Read as _;
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn without_a_cluster_the_webhook_says_so_loudly_and_answers_for_the_example() {
    let mut webhook = Webhook::start(&[]);
    webhook.line("NO CLUSTER");
    let listening = webhook.line("listening on https://");
    let status = listening
        .split("http://")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    assert!(get(status, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(get(status, "/").contains("gpu-node-1"));
    assert!(get(status, "/metrics").contains("vramgate_"));
}

#[test]
fn policies_are_read_again_when_their_files_change_and_errors_leave_them_in_force() {
    let folder = Folder::new();
    let policy = |budget: &str| {
        format!(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: all}}\nspec: {{device: {{budget: '{budget}'}}}}\n"
        )
    };
    folder.write("policies/all.yaml", policy("0.80"));
    let policies = folder.0.join("policies").display().to_string();
    let mut webhook = Webhook::start(&["--cluster-state", &cluster(), "--policy-dir", &policies]);
    let listening = webhook.line("listening on https://");
    let status = listening
        .split("http://")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    assert!(get(status, "/").contains("0.80"));
    folder.write("policies/all.yaml", policy("a lot"));
    webhook.line("not reloaded");
    assert!(get(status, "/").contains("0.80"));
    folder.write("policies/all.yaml", policy("0.70"));
    webhook.line("policies reloaded");
    assert!(get(status, "/").contains("0.70"));
}

/// Time that a command may take on hostile input, on a busy machine and unoptimised: far more than it needs, far less
/// than for ever.
const BOUND: Duration = Duration::from_mins(1);

/// The command ends within [`BOUND`].
#[track_caller]
fn run_bounded(args: &[&str]) -> Output {
    let mut child = vramgate(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > BOUND {
            child.kill().unwrap();
            panic!("{args:?} did not end within {BOUND:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn what_cannot_be_read_takes_no_other_object_along() {
    let folder = Folder::new();
    let third = POD.replace("name: chat", "name: third");
    let broken = [
        (
            "count",
            POD.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: lots"),
            "lots",
        ),
        (
            "kindless",
            "kind: Pod\nmetadata: {name: x}\n".to_owned(),
            "no apiVersion",
        ),
        ("syntax", "spec: [\n".to_owned(), ":11:"),
        ("scalar", "hello\n".to_owned(), "hello"),
        (
            "shape",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: 7}\n".to_owned(),
            "spec.containers",
        ),
        (
            "context",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 7}\n".to_owned(),
            "data.a",
        ),
        ("nameless", POD.replace("name: chat, ", ""), "generateName"),
        (
            "custom",
            "apiVersion: example.org/v1\nkind: Server\nmetadata: {name: x}\n\
             spec: {containers: [{name: a, image: b, args: 7}]}\n"
                .to_owned(),
            "args",
        ),
    ];
    for (name, middle, expected) in broken {
        let file = folder.write(&format!("{name}.yaml"), format!("{POD}---\n{middle}---\n{third}"));
        for command in ["check", "explain"] {
            if (command, name) == ("explain", "count") {
                // What the API server refuses is explained as such.
                continue;
            }
            if (command, name) == ("check", "custom") {
                // Only what is explained is read of kinds with a schema of their own.
                continue;
            }
            let state = cluster();
            let mut args = vec![command, "-o", "json", "/no/such.yaml", &file];
            if command == "check" {
                args.extend(["--cluster-state", &state]);
            }
            let output = run(&args);
            assert_eq!(code(&output), 2, "{name}");
            let document = json(&output);
            let names: Vec<&str> = document["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["object"]["name"].as_str().unwrap())
                .collect();
            assert_eq!(names, ["chat", "third"], "{command} {name}");
            let errors = stderr(&output);
            assert_eq!(errors.lines().count(), 2, "{errors}");
            assert!(
                errors.starts_with("error: /no/such.yaml: does not exist"),
                "{errors}"
            );
            assert!(errors.contains(&format!("{name}.yaml:1")), "{errors}");
            assert!(errors.contains(expected), "{errors}");
        }
    }
}

#[test]
fn an_unreadable_item_of_a_list_takes_no_other_along() {
    let folder = Folder::new();
    let pod = |name: &str, count: &str| {
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{{\"containers\":[{{\"name\":\"c\",\
             \"image\":\"vllm/vllm-openai:v0.20.0\",\"args\":[\"--gpu-memory-utilization=0.30\"],\
             \"resources\":{{\"limits\":{{\"nvidia.com/gpu\":{count}}}}}}}]}}}}"
        )
    };
    let list = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{},{{\"kind\":\"Pod\"}},{},{}]}}",
        pod("a", "1"),
        pod("b", "-1"),
        pod("c", "1")
    );
    let file = folder.write("list.json", list);
    let output = run(&["check", "--cluster-state", &cluster(), "-o", "json", &file]);
    assert_eq!(code(&output), 2);
    assert_eq!(json(&output)["items"].as_array().unwrap().len(), 2);
    let errors = stderr(&output);
    assert!(
        errors.contains("(items[1]): the object has no apiVersion"),
        "{errors}"
    );
    assert!(errors.contains("(items[2]): Pod \"b\""), "{errors}");
}

#[test]
fn parallel_sizes_beyond_all_devices_are_answered_at_once() {
    let folder = Folder::new();
    for (name, sizes, slots) in [
        ("tensor", "--tensor-parallel-size, \"99999999999999999999\"", "1"),
        (
            "product",
            "--tensor-parallel-size, \"4294967295\", --data-parallel-size, \"4294967295\"",
            "1",
        ),
        ("slots", "--tensor-parallel-size, \"2000000000\"", "2000000000"),
    ] {
        let text = POD
            .replace("[--model", &format!("[{sizes}, --model"))
            .replace("nvidia.com/gpu: 1", &format!("nvidia.com/gpu: {slots}"));
        let file = folder.write(&format!("{name}.yaml"), text);
        let output = run_bounded(&["check", "--cluster-state", &cluster(), &file]);
        assert_eq!(code(&output), 1, "{name}: {}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn a_script_with_thousands_of_engines_is_not_followed() {
    let folder = Folder::new();
    let script = "vllm serve m --gpu-memory-utilization 0.3 && ".repeat(2_500) + "true";
    let text = POD.replace(
        "args: [--model, example-org/chat-7b, --gpu-memory-utilization, \"0.30\"]",
        "",
    ) + &format!("    command: [sh, -c, {script:?}]\n");
    let file = folder.write("many.yaml", text);
    let output = run_bounded(&["check", "--cluster-state", &cluster(), &file]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("VG106") && text.contains("more than 16 engines"),
        "{text}"
    );
}

#[test]
fn a_mounted_config_map_of_policies_is_read_once() {
    let folder = Folder::new();
    let policy = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: half}\n\
                  spec: {device: {budget: \"0.25\"}}\n";
    folder.write("mount/..2030_01_01/half.yaml", policy);
    let mount = folder.0.join("mount");
    std::os::unix::fs::symlink("..2030_01_01", mount.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/half.yaml", mount.join("half.yaml")).unwrap();
    let file = folder.write("pod.yaml", POD);
    let mount = mount.display().to_string();
    let output = run(&[
        "check",
        "--cluster-state",
        &cluster(),
        "--policy-dir",
        &mount,
        &file,
    ]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stdout(&output).contains("0.25"), "{}", stdout(&output));
}

#[test]
fn a_pipe_in_a_folder_is_an_error_and_no_wait() {
    let folder = Folder::new();
    let file = folder.write("in/a.yaml", POD);
    let made = Command::new("mkfifo")
        .arg(Path::new(&file).with_file_name("b.yaml"))
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: there is no mkfifo");
        return;
    }
    let input = folder.0.join("in").display().to_string();
    let output = run_bounded(&["check", "--cluster-state", &cluster(), &input]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("b.yaml: is no regular file"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn no_control_character_of_the_input_reaches_the_terminal() {
    let folder = Folder::new();
    let odd = "a\\e[31mX\\nY\\r\\u202e";
    let named = POD
        .replace(
            "name: chat, namespace: llm",
            &format!("name: \"{odd}\", namespace: \"{odd}\""),
        )
        .replace("name: server", &format!("name: \"{odd}\""))
        .replace("example-org/chat-7b", &format!("\"{odd}\""))
        .replace("\"0.30\"", &format!("\"1.3{odd}\""));
    let broken = named.replace("nvidia.com/gpu: 1", &format!("nvidia.com/gpu: \"{odd}\""));
    let odd_path = folder.write("odd\u{1b}[31m.yaml", "kind: Pod\n");
    let files = [
        folder.write("named.yaml", named),
        folder.write("broken.yaml", broken),
        odd_path,
    ];
    let state = cluster();
    for file in &files {
        for args in [
            vec!["check", "--cluster-state", &state, file],
            vec!["explain", file],
        ] {
            let output = run(&args);
            let text = stdout(&output) + &stderr(&output);
            let odd = text
                .chars()
                .find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
            assert_eq!(odd, None, "{args:?}: {text:?}");
        }
    }
}

#[test]
fn yaml_errors_speak_of_the_file_and_not_of_a_library() {
    let folder = Folder::new();
    let head = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n";
    let mut bomb = String::new();
    for (before, name) in "abcdefgh".chars().zip("bcdefghi".chars()) {
        let aliases = vec![format!("*{before}"); 10].join(",");
        writeln!(bomb, "{name}: &{name} [{aliases}]").unwrap();
    }
    for (name, text, expected) in [
        (
            "alias",
            format!("{head}a: &a [x,x]\n{bomb}"),
            "aliases repeat more than",
        ),
        (
            "self",
            format!("{head}spec: &a {{x: *a}}\n"),
            "within its own anchor",
        ),
        ("twice", format!("{head}kind: Pod\n"), "duplicate field \"kind\""),
        (
            "infinite",
            format!("{head}spec: {{x: .inf}}\n"),
            "\".inf\" is not a finite number",
        ),
    ] {
        let file = folder.write(&format!("{name}.yaml"), text);
        unusable(&["explain", &file], &[&format!("{name}.yaml:"), expected]);
    }
}

#[test]
fn yaml_may_follow_json_in_one_file() {
    let folder = Folder::new();
    let first = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}\n";
    let file = folder.write("mixed.yaml", format!("{first}---\n{POD}"));
    let output = run(&["check", "--cluster-state", &cluster(), "-o", "json", &file]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&output)["items"][0]["object"]["name"], "chat");
}
