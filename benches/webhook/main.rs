//! What a review costs, against a webhook that does nothing.
//!
//! ```text
//! cargo bench --bench webhook                  straight to the webhooks, over HTTPS and keep-alive HTTP/1.1
//! cargo bench --bench webhook -- apiserver     Pod CREATE with dryRun=All through a real kube-apiserver
//! cargo bench --bench webhook -- decision      the decision alone, in one thread, for a decoded pod
//! cargo bench --bench webhook -- watch         10,000 nodes and 100,000 pods watched: start, memory, events, reviews
//! cargo bench --bench webhook -- fit           one look-up of a model, and one estimate
//! ```
//!
//! All servers run at once and take turns in short rounds, so that whatever else the machine does falls on each of
//! them alike. What counts is the ratio within a round, and of those the median.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    reason = "a bench prints, and its figures are measurements"
)]

mod api_server;
mod apiserver;
mod client;
mod cluster;
mod decision;
mod direct;
mod do_nothing;
mod fit;
mod floor;
mod large;
mod measure;
mod process;
mod records;
mod review;
mod tls;
mod watch;

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(
    name = "webhook",
    about = "What a review costs, against a webhook that does nothing"
)]
struct Arguments {
    #[command(subcommand)]
    mode: Option<Mode>,
    #[command(flatten)]
    options: Options,
    /// Given by `cargo bench`; without it the executable was started by `cargo test` and measures nothing.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Mode {
    /// Reviews straight to the webhooks (the default).
    Direct,
    /// Pod CREATE with dryRun=All through a real kube-apiserver.
    Apiserver,
    /// The decision alone, in this process.
    Decision,
    /// A process that watches a large cluster: start, memory, events, reviews.
    Watch(watch::Watch),
    /// One look-up of a model by its name, and one estimate of its memory.
    Fit,
    /// Serves the API of a large cluster.
    #[command(hide = true)]
    ApiServer {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        tls_cert: PathBuf,
        #[arg(long)]
        tls_key: PathBuf,
        #[command(flatten)]
        size: large::Size,
    },
    /// Receives what a watch of a cluster begins with.
    #[command(hide = true)]
    Floor {
        #[arg(long)]
        kubeconfig: PathBuf,
        #[arg(long)]
        what: floor::What,
    },
    /// Serves the webhook that does nothing.
    #[command(hide = true)]
    DoNothing {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        tls_cert: PathBuf,
        #[arg(long)]
        tls_key: PathBuf,
    },
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds that count; one more goes before them to warm up.
    #[arg(long, global = true, default_value_t = 7, env = "VRAMGATE_BENCH_ROUNDS",
          value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
    /// Milliseconds of one round of one server.
    #[arg(long, global = true, default_value_t = 1000, env = "VRAMGATE_BENCH_MILLISECONDS",
          value_parser = clap::value_parser!(u64).range(50..=20_000))]
    pub(crate) milliseconds: u64,
    /// Sizes of the cluster that vramgate counts; one server for each.
    #[arg(long, global = true, default_values_t = [10, 1000], value_delimiter = ',')]
    pub(crate) nodes: Vec<usize>,
    /// Requests at the same time, each on a connection of its own (default: 1 and 32, through kube-apiserver 1 and 16).
    #[arg(long, global = true, value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) concurrency: Vec<u16>,
    /// Reviews to send straight to the webhooks, or pods to decide.
    #[arg(long, global = true, value_delimiter = ',',
          default_values = ["shared-dry-run", "whole-gpu", "shared-reserving"])]
    pub(crate) review: Vec<review::Kind>,
    /// What is measured against the webhook that does nothing.
    #[arg(long, global = true, default_value = "vramgate")]
    pub(crate) webhook: Webhook,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Webhook {
    /// The binary of this package.
    Vramgate,
    /// The webhook that does nothing once more: the ratios then show the noise of the method.
    DoNothing,
}

impl Options {
    /// One round, as short as may be.
    fn shortest(mut self) -> Self {
        self.rounds = 1;
        self.milliseconds = 50;
        self.concurrency = vec![1];
        self
    }

    pub(crate) fn round(&self) -> Duration {
        Duration::from_millis(self.milliseconds)
    }

    pub(crate) fn concurrencies(&self, default: [u16; 2]) -> Vec<u16> {
        if self.concurrency.is_empty() {
            default.to_vec()
        } else {
            self.concurrency.clone()
        }
    }
}

/// The arguments of `cargo bench`, or of a process that this one started; `None` where `cargo test` gave them, whose
/// arguments are names of tests.
fn arguments() -> Option<Arguments> {
    let given: Vec<_> = std::env::args().skip(1).collect();
    let is_child = |name: &String| ["do-nothing", "api-server", "floor"].contains(&name.as_str());
    let is_meant = given.iter().any(|argument| argument == "--bench") || given.first().is_some_and(is_child);
    is_meant.then(Arguments::parse)
}

/// The name of the run among the tests, by which it can be chosen.
const TEST: &str = "a_watched_cluster_can_be_measured";

/// Runs what keeps the measurement one that can be made, where the arguments of `cargo test` choose it.
fn test() -> Outcome<()> {
    let given: Vec<_> = std::env::args().skip(1).collect();
    let mut names = given
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .peekable();
    if given.iter().any(|argument| argument == "--list") {
        println!("{TEST}: test");
        return Ok(());
    }
    if names.peek().is_some() && !names.any(|name| TEST.contains(name.as_str())) {
        return Ok(());
    }
    let Arguments { options, .. } = Arguments::parse_from(["webhook"]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(watch::run(&options.shortest(), &watch::Watch::IN_TESTS))
}

fn run() -> Outcome<()> {
    tls::install_provider();
    let Some(Arguments { mode, options, .. }) = arguments() else {
        return test();
    };
    if let Some(Mode::DoNothing {
        listen,
        tls_cert,
        tls_key,
    }) = mode
    {
        // The same runtime as the product's: as many workers as there are cores.
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(do_nothing::serve(listen, &tls_cert, &tls_key));
    }
    if let Some(Mode::ApiServer {
        listen,
        tls_cert,
        tls_key,
        size,
    }) = mode
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(api_server::serve(listen, &tls_cert, &tls_key, size));
    }
    if let Some(Mode::Floor { kubeconfig, what }) = mode {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(floor::run(&kubeconfig, what));
    }
    if let Some(Mode::Decision) = mode {
        return decision::run(&options, &direct::target_folder());
    }
    if let Some(Mode::Fit) = mode {
        return fit::run(&options);
    }
    // One thread: the load generator must leave the machine to what it measures.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match mode {
            Some(Mode::Watch(what)) => watch::run(&options, &what).await,
            Some(Mode::Apiserver) => apiserver::run(&options).await,
            _ => direct::run(&options).await,
        }
    })
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("webhook bench: {error}");
            ExitCode::FAILURE
        }
    }
}
