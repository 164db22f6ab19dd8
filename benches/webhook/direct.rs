//! Straight to the webhooks, over HTTPS and keep-alive HTTP/1.1, which is what kube-apiserver speaks to a Service.

use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use crate::client::{Endpoint, Expected};
use crate::measure::{self, Report, Row, Target};
use crate::process::{self, Server};
use crate::tls::{self, Identity};
use crate::{Options, Outcome, Webhook, cluster, review};

const ADMITTED: Expected = Expected {
    status: 200,
    text: r#""allowed":true"#,
};

/// A running webhook. It ends with this value.
pub(crate) struct Running {
    pub(crate) row: Row,
    pub(crate) address: SocketAddr,
    pub(crate) server: Server,
}

/// Where the build is, and the figures go.
pub(crate) fn target_folder() -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    scratch.parent().unwrap_or(scratch).to_owned()
}

/// An empty folder for this run, beside the build.
pub(crate) fn scratch() -> Outcome<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("webhook-bench");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

async fn start_do_nothing(
    name: &str,
    nodes: Option<usize>,
    identity: &Identity,
    folder: &Path,
) -> Outcome<Running> {
    let address = process::free_address()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("do-nothing").arg("--listen").arg(address.to_string());
    command
        .arg("--tls-cert")
        .arg(&identity.certificate)
        .arg("--tls-key")
        .arg(&identity.key);
    let mut server = Server::start(name, &mut command, folder)?;
    server.ready(async || process::listens(address).await).await?;
    Ok(Running {
        row: Row {
            name: name.to_owned(),
            nodes,
        },
        address,
        server,
    })
}

async fn start_vramgate(nodes: usize, identity: &Identity, folder: &Path) -> Outcome<Running> {
    let name = format!("vramgate-{nodes}-nodes");
    let state = folder.join(format!("cluster-{nodes}.json"));
    cluster::write(nodes, BufWriter::new(File::create(&state)?))?;
    let (address, status) = (process::free_address()?, process::free_address()?);
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramgate"));
    command.arg("serve").arg("--listen").arg(address.to_string());
    command.arg("--status-listen").arg(status.to_string());
    command.arg("--cluster-state").arg(&state);
    command
        .arg("--tls-cert")
        .arg(&identity.certificate)
        .arg("--tls-key")
        .arg(&identity.key);
    let started = Instant::now();
    let mut server = Server::start(&name, &mut command, folder)?;
    server
        .ready(async || process::answers(status, "/readyz").await)
        .await?;
    println!(
        "{name}: ready after {:.1} s, with {:.1} s of CPU; {} MiB resident, {} MiB at most",
        started.elapsed().as_secs_f64(),
        process::processor_time(server.pid())?.as_secs_f64(),
        process::memory(server.pid(), "VmRSS")?,
        process::memory(server.pid(), "VmHWM")?,
    );
    Ok(Running {
        row: Row {
            name,
            nodes: Some(nodes),
        },
        address,
        server,
    })
}

/// The webhook that does nothing, and vramgate once for each size of cluster.
pub(crate) async fn start_webhooks(
    options: &Options,
    identity: &Identity,
    folder: &Path,
) -> Outcome<Vec<Running>> {
    let mut webhooks = vec![start_do_nothing("do-nothing", None, identity, folder).await?];
    for &nodes in &options.nodes {
        webhooks.push(match options.webhook {
            Webhook::Vramgate => start_vramgate(nodes, identity, folder).await?,
            Webhook::DoNothing => {
                start_do_nothing(
                    &format!("do-nothing-again-{nodes}"),
                    Some(nodes),
                    identity,
                    folder,
                )
                .await?
            }
        });
    }
    Ok(webhooks)
}

/// Measures and prints.
pub(crate) async fn run(options: &Options) -> Outcome<()> {
    let folder = scratch()?;
    let identity = Identity::create(&folder)?;
    let webhooks = start_webhooks(options, &identity, &folder).await?;
    let client = tls::client(&identity.pem)?;
    let targets: Vec<_> = webhooks
        .iter()
        .map(|webhook| Target {
            row: webhook.row.clone(),
            endpoint: Endpoint {
                address: webhook.address,
                tls: client.clone(),
            },
            pid: Some(webhook.server.pid()),
        })
        .collect();

    let rows: Vec<_> = targets.iter().map(|target| target.row.clone()).collect();
    let mut report = Report::begin(
        "direct",
        options,
        "Reviews straight to the webhooks: HTTPS, keep-alive HTTP/1.1.",
    );
    for &kind in &options.review {
        for concurrency in options.concurrencies([1, 32]) {
            let mut requests = Vec::new();
            for target in &targets {
                let host = target.endpoint.address.to_string();
                let of_target =
                    (0..u32::from(concurrency)).map(|worker| review::request(kind, &host, worker));
                requests.push(of_target.collect::<Outcome<Vec<_>>>()?);
            }
            let bytes = requests[0][0].bytes.len();
            let figures = measure::compare(&targets, &requests, ADMITTED, options).await?;
            let name = kind.name();
            let title = format!("{name}, {bytes} bytes, concurrency {concurrency}");
            let labels = json!({"review": name, "bytes": bytes, "concurrency": concurrency});
            report.case(&title, &labels, &rows, &figures);
        }
    }
    report.finish(options, &target_folder())
}
