//! Rounds in turn, medians of ratios, and how they are printed.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{Endpoint, Expected, Request, Worker};
use crate::process::processor_time;
use crate::{Options, Outcome};

/// What a line of a table is about.
#[derive(Clone)]
pub(crate) struct Row {
    /// As printed.
    pub(crate) name: String,
    /// Size of the cluster that it counts; none where it counts nothing.
    pub(crate) nodes: Option<usize>,
}

/// One of the servers that are compared.
pub(crate) struct Target {
    /// How it is printed.
    pub(crate) row: Row,
    /// Where requests go.
    pub(crate) endpoint: Endpoint,
    /// The webhook's process, where there is one.
    pub(crate) pid: Option<u32>,
}

/// What one round of one target gave.
#[derive(Clone, Copy, Default)]
pub(crate) struct Figures {
    per_second: f64,
    p50: f64,
    p99: f64,
    /// Microseconds of the webhook's processor time for each review.
    processor: Option<f64>,
}

impl Figures {
    /// Of work in this thread: the time that it took is processor time.
    pub(crate) fn of_one_thread(mut times: Vec<Duration>, spent: Duration) -> Self {
        times.sort_unstable();
        let count = times.len() as f64;
        Self {
            per_second: count / spent.as_secs_f64(),
            p50: quantile(&times, 50),
            p99: quantile(&times, 99),
            processor: Some(spent.as_secs_f64() * MICROSECONDS / count),
        }
    }
}

const MICROSECONDS: f64 = 1e6;

fn quantile(sorted: &[Duration], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get(last * percent / 100)
        .map_or(f64::NAN, |value| value.as_secs_f64() * MICROSECONDS)
}

async fn round(
    target: &Target,
    requests: &[Request],
    expected: Expected,
    run: u32,
    length: Duration,
) -> Outcome<Figures> {
    let mut workers = Vec::with_capacity(requests.len());
    for (request, number) in requests.iter().zip(0..) {
        workers.push(Worker::start(&target.endpoint, request.clone(), expected, number, run).await?);
    }
    let processor_before = target.pid.map(processor_time).transpose()?;
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for worker in workers {
        tasks.spawn(worker.work(started + length));
    }
    let mut latencies = Vec::new();
    while let Some(done) = tasks.join_next().await {
        latencies.append(&mut done??);
    }
    let elapsed = started.elapsed().as_secs_f64();
    let processor_after = target.pid.map(processor_time).transpose()?;
    latencies.sort_unstable();
    let reviews = latencies.len() as f64;
    let processor = processor_before
        .zip(processor_after)
        .map(|(before, after)| after.saturating_sub(before).as_secs_f64() * MICROSECONDS / reviews);
    Ok(Figures {
        per_second: reviews / elapsed,
        p50: quantile(&latencies, 50),
        p99: quantile(&latencies, 99),
        processor,
    })
}

/// Lets the targets take turns; for each target its rounds in order. The one that begins changes from round to round.
/// `requests` gives each target its own requests, one for each connection.
pub(crate) async fn compare(
    targets: &[Target],
    requests: &[Vec<Request>],
    expected: Expected,
    options: &Options,
) -> Outcome<Vec<Vec<Figures>>> {
    let mut figures = vec![Vec::new(); targets.len()];
    for run in 0..=options.rounds {
        for turn in 0..targets.len() {
            let at = (turn + usize::try_from(run)?) % targets.len();
            let target = &targets[at];
            let of_round = round(target, &requests[at], expected, run, options.round())
                .await
                .map_err(|error| format!("{}: {error}", target.row.name))?;
            if run > 0 {
                figures[at].push(of_round);
            }
        }
    }
    Ok(figures)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[length / 2],
        length => f64::midpoint(values[length / 2 - 1], values[length / 2]),
    }
}

fn medians(rounds: &[Figures]) -> Figures {
    let processor: Vec<_> = rounds.iter().filter_map(|round| round.processor).collect();
    Figures {
        per_second: median(rounds.iter().map(|round| round.per_second)),
        p50: median(rounds.iter().map(|round| round.p50)),
        p99: median(rounds.iter().map(|round| round.p99)),
        processor: (!processor.is_empty()).then(|| median(processor.into_iter())),
    }
}

/// Medians of the ratios within each round.
fn ratios(rounds: &[Figures], base: &[Figures]) -> Figures {
    let each: Vec<_> = rounds
        .iter()
        .zip(base)
        .map(|(round, base)| Figures {
            per_second: round.per_second / base.per_second,
            p50: round.p50 / base.p50,
            p99: round.p99 / base.p99,
            processor: round
                .processor
                .zip(base.processor)
                .map(|(round, base)| round / base),
        })
        .collect();
    medians(&each)
}

fn as_json(figures: &Figures) -> Value {
    json!({
        "perSecond": figures.per_second,
        "p50": figures.p50,
        "p99": figures.p99,
        "processor": figures.processor,
    })
}

/// Prints as it goes and keeps all for the file.
pub(crate) struct Report {
    mode: &'static str,
    cases: Vec<Value>,
}

impl Report {
    pub(crate) fn begin(mode: &'static str, options: &Options, about: &str) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let ways = if mode == "decision" {
            "CPU us each is the mean."
        } else {
            "The load generator runs on the same cores as the servers, in one thread, so rates and latencies hold its\n\
             own cost; CPU is the webhook's alone."
        };
        println!(
            "{about}\n{cores} cores. {} rounds of {} ms for each row, in turn, after one to warm up. {ways}\nFigures are \
             medians of the rounds; x is the median of the ratios to the first row in the same round.\n",
            options.rounds, options.milliseconds,
        );
        Self {
            mode,
            cases: Vec::new(),
        }
    }

    /// One table.
    pub(crate) fn case(&mut self, title: &str, labels: &Value, about: &[Row], figures: &[Vec<Figures>]) {
        println!("{title}");
        println!(
            "  {:<24} {:>10} {:>6} {:>9} {:>6} {:>9} {:>6} {:>11} {:>6}",
            "", "per second", "x", "p50 us", "x", "p99 us", "x", "CPU us each", "x"
        );
        let mut rows = Vec::new();
        for (row, rounds) in about.iter().zip(figures) {
            let middle = medians(rounds);
            let ratio = ratios(rounds, &figures[0]);
            let processor = middle
                .processor
                .map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
            let times = ratio
                .processor
                .map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
            println!(
                "  {:<24} {:>10.0} {:>6.2} {:>9.1} {:>6.2} {:>9.1} {:>6.2} {processor:>11} {times:>6}",
                row.name, middle.per_second, ratio.per_second, middle.p50, ratio.p50, middle.p99, ratio.p99
            );
            rows.push(json!({
                "webhook": row.name,
                "medians": as_json(&middle),
                "ratios": as_json(&ratio),
                "rounds": rounds.iter().map(as_json).collect::<Vec<_>>(),
            }));
        }
        // What the size of the cluster costs is a ratio between two rows of the product's own.
        let mut sized: Vec<_> = about
            .iter()
            .zip(figures)
            .filter(|(row, _)| row.nodes.is_some())
            .collect();
        sized.sort_by_key(|(row, _)| row.nodes);
        if let [(small, of_small), .., (large, of_large)] = sized[..] {
            let ratio = ratios(of_large, of_small);
            println!(
                "  {} against {}: per second x {:.2}, p50 x {:.2}, CPU x {}",
                large.name,
                small.name,
                ratio.per_second,
                ratio.p50,
                ratio
                    .processor
                    .map_or_else(|| "-".to_owned(), |value| format!("{value:.2}")),
            );
            rows.push(json!({"webhook": large.name, "against": small.name, "ratios": as_json(&ratio)}));
        }
        println!();
        self.cases.push(json!({"case": labels, "rows": rows}));
    }

    /// Writes everything to a file beside the build.
    pub(crate) fn finish(self, options: &Options, target_folder: &Path) -> Outcome<()> {
        let path = target_folder.join(format!("bench-{}.json", self.mode));
        let report = json!({
            "mode": self.mode,
            "rounds": options.rounds,
            "milliseconds": options.milliseconds,
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "loadGenerator": if self.mode == "decision" { "none" } else { "one thread on the same cores as the servers" },
            "units": {"perSecond": "answers in a second", "p50": "us", "p99": "us", "processor": "us of CPU for each answer, of the webhook's process"},
            "cases": self.cases,
        });
        std::fs::write(&path, serde_json::to_vec_pretty(&report)?)?;
        println!("Every round as JSON: {}", path.display());
        Ok(())
    }
}
