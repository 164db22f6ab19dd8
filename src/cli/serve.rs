//! `vramgate serve`: the webhook over a live cluster, a snapshot, or the example cluster that is built in.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing_subscriber::EnvFilter;

use super::args::{Ledger as LedgerKind, Serve};
use super::output::Paint;
use super::{Failure, output, policies, state, top};
use crate::device::catalogue::Catalogue as Products;
use crate::document::DeviceRow;
use crate::ledger::{Ledger, Totals};
use crate::model::Catalogue as Models;
use crate::server::backend::Clock;
use crate::server::recorder::Tally;
use crate::server::{
    Backend, BoundServer, Certificates, LedgerDecider, Metrics, Readiness, Recorder, Server, Settings,
    StatusPage, locked, termination,
};
use crate::snapshot::Snapshot;
use crate::units::Share;

mod live;
mod live_policies;
mod look_ups;
mod own_ca;
mod plugin_configs;
mod reload;
mod replicas;

pub(super) use own_ca::OwnCa;

/// Days for which a certificate of our own making is valid. It lives as long as the process.
const SELF_SIGNED_DAYS: u32 = 365;

/// Serves until it is told to stop.
pub(super) fn run(args: &Serve) -> Result<(), Failure> {
    let filter = match env::var("VRAMGATE_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text).map_err(|error| {
            Failure::new(format!(
                "VRAMGATE_LOG {text:?}: {error}; write a level (error, warn, info, debug, trace) or TARGET=LEVEL"
            ))
        })?,
        Ok(_) | Err(env::VarError::NotPresent) => EnvFilter::new("info"),
        Err(error) => return Err(Failure::new(format!("VRAMGATE_LOG: {error}"))),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Colours in a file or a log collector are noise.
        .with_ansi(Paint::for_stderr())
        .init();
    // Parsing them takes milliseconds, which the first review should not wait for.
    let _ = (Models::embedded(), Products::embedded());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("the runtime does not start: {error}")))?;
    if args.kubeconfig.is_some() || (args.cluster_state.is_empty() && is_in_cluster()) {
        return runtime.block_on(live::serve(args));
    }
    if args.ledger == Some(LedgerKind::Cluster) {
        return Err(Failure::new(
            "--ledger cluster keeps reservations in a cluster, and there is none here; give --kubeconfig FILE, run in a pod, \
             or leave --ledger out",
        ));
    }
    if args.own_ca.secret.is_some() {
        return Err(Failure::new(
            "--own-ca keeps a certificate authority in a cluster, and there is none here; give --tls-cert and --tls-key",
        ));
    }
    let snapshot = if args.cluster_state.is_empty() {
        output::note(
            "NO CLUSTER: neither --kubeconfig nor --cluster-state is given and this process runs in no cluster; \
             answering for the example cluster that is built in (node gpu-node-1: one H100, 4 slots)",
        );
        state::example()?
    } else {
        state::from_files(&args.cluster_state)?
    };
    runtime.block_on(from_snapshot(args, snapshot))
}

/// Whether the kubelet started this process: it sets this variable in every container.
fn is_in_cluster() -> bool {
    env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

async fn from_snapshot(args: &Serve, snapshot: Snapshot) -> Result<(), Failure> {
    let snapshot = Arc::new(snapshot);
    let seen = args.policy_dir.as_deref().map(reload::content);
    let policies = policies::load(args.policy_dir.as_deref(), &snapshot)?;
    let mut ledger = Ledger::new(policies);
    snapshot.fill(&mut ledger);
    let ledger = Arc::new(Mutex::new(ledger));
    let decider = Arc::new(LedgerDecider::new(Arc::clone(&ledger), Clock::start()));
    let backend = Backend::new(
        decider,
        Arc::new(look_ups::SnapshotLookUps::new(Arc::clone(&snapshot))),
    );
    let metrics = Arc::new(Metrics::new());
    let certificates = Arc::new(certificates(args)?);
    let readiness = Readiness::awaiting(&[]);
    let bound = bind(args, backend, readiness, metrics, &ledger, certificates).await?;
    if let (Some(folder), Some(seen)) = (args.policy_dir.clone(), seen) {
        let put = Box::new(move |folder: &Path| {
            let set = policies::load(Some(folder), &snapshot)?;
            let mut ledger = locked(&ledger);
            ledger.set_policies(set);
            // Policies decide how nodes and invocations are read.
            snapshot.fill(&mut ledger);
            Ok(())
        });
        tokio::spawn(reload::Reload { folder, seen, put }.follow());
    }
    bound.run(termination()).await;
    Ok(())
}

/// Takes the ports and says which they are.
async fn bind(
    args: &Serve,
    backend: Backend,
    readiness: Readiness,
    metrics: Arc<Metrics>,
    ledger: &Arc<Mutex<Ledger>>,
    certificates: Arc<Certificates>,
) -> Result<BoundServer, Failure> {
    gauges(&metrics, ledger);
    let server = Server {
        settings: Settings {
            listen: args.listen,
            status_listen: args.status_listen,
            ..Settings::default()
        },
        backend: Arc::new(backend),
        certificates,
        readiness,
        metrics,
        page: page(Arc::clone(ledger)),
    };
    let bound = server
        .bind()
        .await
        .map_err(|error| Failure::new(error.to_string()))?;
    if let (Ok(reviews), Ok(status)) = (bound.address(), bound.status_address()) {
        output::note(&format!(
            "listening on https://{reviews} (/mutate, /validate) and http://{status} (status)"
        ));
    }
    Ok(bound)
}

/// What is read from the ledger at each scrape. Only nodes above their budget are named, so the series stay few.
fn gauges(metrics: &Metrics, ledger: &Arc<Mutex<Ledger>>) {
    let over = Arc::clone(ledger);
    metrics.gauge_by(
        "node_over_budget_ratio",
        "Promised share of the fullest device of a node above its budget, as a part of that budget",
        "node",
        move || {
            let over = locked(&over).over_budget();
            let mut fullest = BTreeMap::new();
            for device in over {
                let ratio = fullest.entry(device.node.to_string()).or_insert(0.0_f64);
                *ratio = ratio.max(device.times_budget());
            }
            fullest
        },
    );
    let by_grade = Arc::clone(ledger);
    metrics.gauge_by(
        "shared_pools",
        "Pools of shared devices by how it is known who stands on which device",
        "evidence",
        move || {
            let grades = locked(&by_grade).grades();
            let counted = grades.into_iter().filter_map(|(grade, count)| {
                let count = u32::try_from(count).ok()?;
                Some((grade.as_str().to_owned(), f64::from(count)))
            });
            counted.collect()
        },
    );
    of_all(metrics, ledger);
    let reserved = Arc::clone(ledger);
    metrics.gauge(
        "reservations",
        "Admitted pods that have not been seen yet",
        move || {
            let count = locked(&reserved).reserved();
            u32::try_from(count).ok().map(f64::from)
        },
    );
}

/// Sums over all shared devices, by extended resource.
fn of_all(metrics: &Metrics, ledger: &Arc<Mutex<Ledger>>) {
    type Part = fn(&Totals) -> Share;
    let parts: [(&'static str, &'static str, Part); 3] = [
        (
            "shared_devices",
            "Shared devices, by extended resource",
            |totals| Share::WHOLE.times(totals.devices),
        ),
        (
            "budget_devices",
            "What may be promised of all shared devices together, in devices",
            |totals| totals.budget,
        ),
        (
            "promised_devices",
            "What is promised of all shared devices together, in devices",
            |totals| totals.promised,
        ),
    ];
    for (name, help, part) in parts {
        let counted = Arc::clone(ledger);
        metrics.gauge_by(name, help, "resource", move || {
            let totals = locked(&counted).totals();
            totals
                .iter()
                .map(|(resource, totals)| (resource.to_string(), part(totals).as_devices()))
                .collect()
        });
    }
}

/// What became of the reservations that were to be recorded.
fn tallies(metrics: &Metrics, recorder: &Arc<Recorder>) {
    type Part = fn(&Tally) -> &AtomicU64;
    let parts: [(&'static str, &'static str, Part); 6] = [
        (
            "ledger_reservations_recorded",
            "Reservations that were brought into a record",
            |tally| &tally.recorded,
        ),
        (
            "ledger_reservations_withdrawn",
            "Reservations that gave way to those of another replica; their pods were judged again",
            |tally| &tally.withdrawn,
        ),
        (
            "ledger_reservations_failed",
            "Reservations that could not be recorded; their pods were refused with VG902",
            |tally| &tally.failed,
        ),
        (
            "ledger_writes",
            "Writes of records that were carried out",
            |tally| &tally.writes,
        ),
        (
            "ledger_writes_reservations",
            "Reservations that those writes added; divided by the writes, the size of a batch",
            |tally| &tally.added,
        ),
        (
            "ledger_conflicts",
            "Writes of records that found another version and were made again",
            |tally| &tally.conflicts,
        ),
    ];
    for (name, help, part) in parts {
        let recorder = Arc::clone(recorder);
        metrics.counter(name, help, move || part(recorder.tally()).load(Ordering::Relaxed));
    }
    let tally = recorder.tally();
    metrics.with_registry(|registry| {
        registry.register(
            "ledger_batch_size",
            "Reservations that one write added to a record",
            tally.batches.clone(),
        );
        registry.register(
            "ledger_turns",
            "Turns to write a record that a reservation waited for until it was recorded",
            tally.turns.clone(),
        );
    });
}

fn certificates(args: &Serve) -> Result<Certificates, Failure> {
    if let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) {
        return Certificates::from_files(cert.clone(), key.clone())
            .map_err(|error| Failure::new(format!("--tls-cert, --tls-key: {error}")));
    }
    let mut hosts: Vec<String> = crate::server::certs::DEFAULT_HOSTS.map(str::to_owned).to_vec();
    if !args.listen.ip().is_unspecified() && !args.listen.ip().is_loopback() {
        hosts.push(args.listen.ip().to_string());
    }
    let (certificates, _authority) = Certificates::self_signed(&hosts, SELF_SIGNED_DAYS)
        .map_err(|error| Failure::new(error.to_string()))?;
    if args.own_ca.secret.is_some() {
        // Until our own authority has signed one; this replica is not ready before.
        return Ok(certificates);
    }
    output::note("no --tls-cert: serving a self-signed certificate, for development only");
    Ok(certificates)
}

/// The page for people: what `vramgate top` prints.
fn page(ledger: Arc<Mutex<Ledger>>) -> StatusPage {
    Arc::new(move || {
        let views = locked(&ledger).devices();
        let rows: Vec<DeviceRow> = views.into_iter().map(DeviceRow::from).collect();
        let text = escape(&top::text(&rows, false, Paint::PLAIN));
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>vramgate</title>\
             <h1>GPU memory promised</h1><pre>{text}</pre><p><a href=\"/metrics\">metrics</a> \
             <a href=\"/readyz\">readiness</a></html>\n"
        )
    })
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
