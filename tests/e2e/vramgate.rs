//! The `vramgate` process beside the control plane: certificates, registrations, start, kill, start again.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::free_port;
use crate::process::Running;

/// The program under test; `VRAMGATE_E2E_PROGRAM` names another build of it.
fn program() -> PathBuf {
    std::env::var_os("VRAMGATE_E2E_PROGRAM")
        .map_or_else(|| env!("CARGO_BIN_EXE_vramgate").into(), PathBuf::from)
}

/// How long a start may take until `/readyz` says yes.
const READY_WITHIN: Duration = Duration::from_secs(20);

pub struct Vramgate {
    directory: PathBuf,
    name: &'static str,
    port: u16,
    status_port: u16,
    running: Option<Running>,
}

impl Vramgate {
    /// Chooses ports; starts nothing.
    pub fn prepare(directory: &Path) -> Self {
        Self::replica(directory, "vramgate")
    }

    /// The same with a log of its own.
    pub fn replica(directory: &Path, name: &'static str) -> Self {
        Self {
            directory: directory.to_owned(),
            name,
            port: free_port(),
            status_port: free_port(),
            running: None,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn status_port(&self) -> u16 {
        self.status_port
    }

    /// The custom resource definitions, as they are to be applied.
    pub fn definitions(&self) -> Result<String, String> {
        self.run(&["crds"])
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).current_dir(&self.directory);
        command
    }

    /// Takes the counted resource off all nodes of a cluster.
    pub fn uninstall_node_resources(&self) -> Result<String, String> {
        let kubeconfig = self.directory.join("vramgate.kubeconfig");
        self.run(&[
            "uninstall-node-resources",
            "--kubeconfig",
            &kubeconfig.display().to_string(),
        ])
    }

    /// Runs a subcommand to its end: standard output, or both streams on failure.
    pub fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self
            .command(arguments)
            .output()
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && !text.is_empty() {
            return Ok(text);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "vramgate {}: {}\n{text}{errors}",
            arguments.join(" "),
            output.status
        ))
    }

    /// Makes certificates and prints the registrations for this process.
    pub fn registrations(&self) -> Result<String, String> {
        let _ = self.run(&["certs", "--out", "certs", "--host", "127.0.0.1"]);
        for file in ["ca.crt", "tls.crt", "tls.key"] {
            let path = self.directory.join("certs").join(file);
            fs::metadata(&path).map_err(|error| format!("vramgate certs wrote no {file}: {error}"))?;
        }
        let url = format!("https://127.0.0.1:{}", self.port);
        self.run(&["webhook-config", "--url", &url, "--ca", "certs/ca.crt"])
    }

    /// Starts `vramgate serve` and waits until it is ready.
    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    /// The same with further options.
    pub fn start_with(&mut self, options: &[&str]) {
        self.start_as(&self.directory.join("vramgate.kubeconfig"), options);
    }

    /// The same with another way to the API server.
    pub fn start_as(&mut self, kubeconfig: &Path, options: &[&str]) {
        self.launch(kubeconfig, options);
        let running = self.running.as_ref().expect("it was started");
        let deadline = Instant::now() + READY_WITHIN;
        while http_get(self.status_port, "/readyz").is_none_or(|(status, _)| status != 200) {
            assert!(
                Instant::now() < deadline,
                "vramgate is not ready\n{}",
                running.tail(40)
            );
            std::thread::sleep(Duration::from_millis(25));
        }
    }

    /// The answer of `/readyz`, once there is one.
    pub fn readiness(&self) -> Option<(u16, String)> {
        http_get(self.status_port, "/readyz")
    }

    /// SIGTERM; the process is left to end by itself.
    pub fn terminate(&self) {
        self.running.as_ref().expect("vramgate runs").terminate();
    }

    /// Starts `vramgate serve` and waits for nothing.
    pub fn launch(&mut self, kubeconfig: &Path, options: &[&str]) {
        let at = |path: &str| self.directory.join(path).display().to_string();
        let (cert, key) = (at("certs/tls.crt"), at("certs/tls.key"));
        let mut all = vec!["--tls-cert", &cert, "--tls-key", &key];
        all.extend(options);
        self.launch_without_certificate(kubeconfig, &all);
    }

    /// The same without the certificate that `vramgate certs` made.
    pub fn launch_without_certificate(&mut self, kubeconfig: &Path, options: &[&str]) {
        assert!(self.running.is_none(), "vramgate runs already");
        let mut command = self.command(&[
            "serve",
            "--listen",
            &format!("127.0.0.1:{}", self.port),
            "--status-listen",
            &format!("127.0.0.1:{}", self.status_port),
        ]);
        command.arg("--policy-dir").arg(self.directory.join("policies"));
        command.arg("--kubeconfig").arg(kubeconfig).args(options);
        let log = std::env::var("VRAMGATE_LOG").unwrap_or_else(|_| "info".to_owned());
        command.env("VRAMGATE_LOG", log).env("RUST_BACKTRACE", "1");
        let log = self.directory.join(format!("{}.log", self.name));
        self.running = Some(Running::start(self.name, &command, &log, None));
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.running.take().expect("vramgate runs").kill();
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The Prometheus text of the status port.
    pub fn metrics(&self) -> String {
        http_get(self.status_port, "/metrics")
            .expect("the status port answers")
            .1
    }

    /// The same where it may not run.
    pub fn try_metrics(&self) -> Option<String> {
        http_get(self.status_port, "/metrics").map(|(_, text)| text)
    }

    /// The page of the status port, once there is one.
    pub fn page(&self) -> Option<String> {
        http_get(self.status_port, "/").map(|(_, text)| text)
    }

    /// The devices of `node` as `vramgate top` shows them from a snapshot.
    pub fn top(&self, snapshot: &str, node: &str) -> Vec<Value> {
        let text = self.top_of(snapshot, &["-o", "json"]);
        let list: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("top: {error}:\n{text}"));
        assert_eq!(list["kind"], "DeviceList", "{text}");
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().filter(|item| item["node"] == node).collect()
    }

    /// `vramgate top` as a person reads it.
    pub fn top_table(&self, snapshot: &str) -> String {
        self.top_of(snapshot, &[])
    }

    fn top_of(&self, snapshot: &str, options: &[&str]) -> String {
        fs::write(self.directory.join("snapshot.yaml"), snapshot).expect("the snapshot can be written");
        let arguments = [
            &[
                "top",
                "--cluster-state",
                "snapshot.yaml",
                "--policy-dir",
                "policies",
            ],
            options,
        ]
        .concat();
        self.run(&arguments).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn tail(&self, lines: usize) -> String {
        self.running.as_ref().map_or_else(
            || "--- vramgate is not running\n".to_owned(),
            |log| log.tail(lines),
        )
    }
}

/// Pod reviews that the process behind a status port has answered; nothing while there is none.
pub fn pod_reviews(status_port: u16) -> Option<u64> {
    let (_, text) = http_get(status_port, "/metrics")?;
    let counted = |line: &&str| line.starts_with("vramgate_reviews_total{endpoint=\"validate\",kind=\"Pod\"");
    let counts = text.lines().filter(counted);
    Some(
        counts
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum(),
    )
}

/// GET over plain HTTP on loopback: status and body; nothing while nobody listens.
fn http_get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Some((status, body.to_owned()))
}
