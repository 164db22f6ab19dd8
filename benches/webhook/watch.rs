//! A process that watches a large cluster, against one that watches a small one: start, memory, reviews, events.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Connection, Endpoint, Expected};
use crate::direct::{self, Running};
use crate::floor::What;
use crate::large::Size;
use crate::measure::{self, Report, Row, Target};
use crate::process::{self, Server};
use crate::tls::{self, Identity};
use crate::{Options, Outcome, decision, review};

const ADMITTED: Expected = Expected {
    status: 200,
    text: r#""allowed":true"#,
};

/// Kube-scheduler does not count.
const POLICY: &str = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: bench}\nspec: {enforcement: admission}\n";

/// Ten nodes with as many pods each: what the large cluster is compared with.
const SMALL: Size = Size { nodes: 10, pods: 100 };

/// What is measured, beside the options of every mode.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    size: Size,
    /// Changes of pods that the watch tells.
    #[arg(long, default_value_t = 20_000)]
    events: u32,
}

impl Watch {
    /// What runs among the tests, so that the measurement stays one that can be made.
    pub(crate) const IN_TESTS: Self = Self {
        size: Size {
            nodes: 100,
            pods: 1000,
        },
        events: 200,
    };
}

/// An API server and the vramgate that watches it.
struct Watched {
    webhook: Running,
    api: std::net::SocketAddr,
    _server: Server,
}

async fn start(size: Size, identity: &Identity, folder: &Path) -> Outcome<Watched> {
    let name = format!("vramgate-{}-nodes", size.nodes);
    let api = process::free_address()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("api-server").arg("--listen").arg(api.to_string());
    command.arg("--gpu-nodes").arg(size.nodes.to_string());
    command.arg("--pods").arg(size.pods.to_string());
    with_identity(&mut command, identity);
    let mut server = Server::start(&format!("api-server-{}", size.nodes), &mut command, folder)?;
    server.ready(async || process::listens(api).await).await?;

    let kubeconfig = folder.join(format!("kubeconfig-{}", size.nodes));
    let certificate = identity.certificate.display();
    let cluster =
        json!({"server": format!("https://{api}"), "certificate-authority": certificate.to_string()});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    for what in [What::Receive, What::Skip] {
        floor(size, &kubeconfig, what)?;
    }

    let (address, status) = (process::free_address()?, process::free_address()?);
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramgate"));
    command.arg("serve").arg("--listen").arg(address.to_string());
    command.arg("--status-listen").arg(status.to_string());
    command.arg("--kubeconfig").arg(&kubeconfig);
    // Reviews are sent as pods are submitted, without the share that mutation would have them carry.
    let policies = folder.join(format!("policies-{}", size.nodes));
    std::fs::create_dir_all(&policies)?;
    std::fs::write(policies.join("policy.yaml"), POLICY)?;
    command.arg("--policy-dir").arg(&policies);
    with_identity(&mut command, identity);
    let started = Instant::now();
    let mut webhook = Server::start(&name, &mut command, folder)?;
    webhook
        .ready(async || process::answers(status, "/readyz").await)
        .await?;
    let elapsed = started.elapsed().as_secs_f64();
    println!(
        "{name}, {} pods: ready after {elapsed:.2} s, with {:.2} s of CPU; {} MiB resident, {} MiB at most",
        size.pods,
        process::processor_time(webhook.pid())?.as_secs_f64(),
        process::memory(webhook.pid(), "VmRSS")?,
        process::memory(webhook.pid(), "VmHWM")?,
    );
    let last = format!("gpu-{:05}", size.nodes - 1);
    if !page(status).await?.contains(&last) {
        return Err(format!("{name} is ready and does not know the node {last}").into());
    }
    let row = Row {
        name,
        nodes: Some(usize::try_from(size.nodes)?),
    };
    Ok(Watched {
        webhook: Running {
            row,
            address,
            server: webhook,
        },
        api,
        _server: server,
    })
}

/// What it costs to receive the lists alone, with the same client.
fn floor(size: Size, kubeconfig: &Path, what: What) -> Outcome<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("floor").arg("--kubeconfig").arg(kubeconfig);
    command.arg("--what");
    let done = match what {
        What::Receive => {
            command.arg("receive");
            "received and dropped"
        }
        What::Skip => {
            command.arg("skip");
            "received and passed over by a parser of JSON"
        }
    };
    let output = command.output()?;
    let printed = String::from_utf8(output.stdout)?;
    let (bytes, milliseconds) = printed.trim().split_once(' ').ok_or_else(|| {
        let reason = String::from_utf8_lossy(&output.stderr);
        format!("the lists are not received: {reason}")
    })?;
    let (bytes, milliseconds): (f64, f64) = (bytes.parse()?, milliseconds.parse()?);
    println!(
        "the lists of {} nodes, {:.0} MB, {done}: {:.2} s of CPU",
        size.nodes,
        bytes / 1e6,
        milliseconds / 1e3,
    );
    Ok(())
}

fn with_identity(command: &mut Command, identity: &Identity) {
    command.arg("--tls-cert").arg(&identity.certificate);
    command.arg("--tls-key").arg(&identity.key);
}

/// The page for people, which names every device.
async fn page(status: std::net::SocketAddr) -> Outcome<String> {
    let mut stream = TcpStream::connect(status).await?;
    let request = format!("GET / HTTP/1.1\r\nHost: {status}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Lets the API server tell changes of pods, and says what each cost the webhook.
async fn tell(watched: &Watched, endpoint: &Endpoint, events: u32) -> Outcome<()> {
    let pid = watched.webhook.server.pid();
    // What the start left to be done is no part of it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = process::processor_time(pid)?;
    let mut connection = Connection::open(endpoint).await?;
    let request = format!(
        "POST /tell?events={events} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n",
        watched.api
    );
    let (status, _) = connection.exchange(request.as_bytes()).await?;
    if status != 200 {
        return Err(format!("the API server tells nothing: status {status}").into());
    }
    // The end is read when nothing more is done.
    let mut spent = process::processor_time(pid)?;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = process::processor_time(pid)?;
        if now.saturating_sub(spent) < Duration::from_millis(20) {
            break;
        }
        spent = now;
    }
    println!(
        "{}: {events} changes of pods, {:.1} us of CPU each; {} MiB resident, {} MiB at most",
        watched.webhook.row.name,
        spent.saturating_sub(before).as_secs_f64() * 1e6 / f64::from(events),
        process::memory(pid, "VmRSS")?,
        process::memory(pid, "VmHWM")?,
    );
    Ok(())
}

/// Measures and prints.
pub(crate) async fn run(options: &Options, watch: &Watch) -> Outcome<()> {
    let folder = direct::scratch()?;
    let identity = Identity::create(&folder)?;
    let client = tls::client(&identity.pem)?;
    let mut all = Vec::new();
    for size in [SMALL, watch.size] {
        let watched = start(size, &identity, &folder).await?;
        let endpoint = Endpoint {
            address: watched.api,
            tls: client.clone(),
        };
        tell(&watched, &endpoint, watch.events).await?;
        all.push(watched);
    }
    println!();
    let targets: Vec<_> = all
        .iter()
        .map(|watched| Target {
            row: watched.webhook.row.clone(),
            endpoint: Endpoint {
                address: watched.webhook.address,
                tls: client.clone(),
            },
            pid: Some(watched.webhook.server.pid()),
        })
        .collect();
    let rows: Vec<_> = targets.iter().map(|target| target.row.clone()).collect();
    let mut report = Report::begin(
        "watch",
        options,
        "Reviews of a process that watches a small and one that watches a large cluster.",
    );
    for &kind in &options.review {
        for concurrency in options.concurrencies([1, 32]) {
            let mut requests = Vec::new();
            for target in &targets {
                let host = target.endpoint.address.to_string();
                let each = (0..u32::from(concurrency)).map(|worker| review::request(kind, &host, worker));
                requests.push(each.collect::<Outcome<Vec<_>>>()?);
            }
            let figures = measure::compare(&targets, &requests, ADMITTED, options).await?;
            let name = kind.name();
            let labels = json!({"review": name, "concurrency": concurrency});
            report.case(
                &format!("{name}, concurrency {concurrency}"),
                &labels,
                &rows,
                &figures,
            );
        }
    }
    drop(all);
    decision::at_sizes(options, &[SMALL, watch.size], &mut report)?;
    report.finish(options, &direct::target_folder())
}
