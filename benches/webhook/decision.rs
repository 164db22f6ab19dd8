//! The decision alone, in this process: what an already decoded pod costs, without sockets, TLS or JSON.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use vramgate::decision::{self, Operation, Question};
use vramgate::device::catalogue::Catalogue;
use vramgate::device::inventory;
use vramgate::engine::NoSources;
use vramgate::ledger::{Ledger, Moment};
use vramgate::policy::PolicySet;
use vramgate::workload::Workload;
use vramgate::workload::pod::{Node, Pod};

use crate::large::{self, Size, Templates};
use crate::measure::{Figures, Report, Row};
use crate::review::{self, Kind};
use crate::{Options, Outcome, cluster};

fn set_node(ledger: &mut Ledger, node: &Node) -> Outcome<()> {
    let missing = ledger.policies().for_device(&node.metadata.labels).missing_facts;
    let read = inventory::read(node, missing, Catalogue::embedded());
    ledger.set_node(read.ok_or("a node without GPUs")?);
    Ok(())
}

fn ledger(nodes: usize) -> Outcome<Ledger> {
    let mut ledger = Ledger::new(Arc::new(PolicySet::built_in()));
    for item in cluster::objects(nodes) {
        if item["kind"] == "Node" {
            set_node(&mut ledger, &Node::deserialize(&item)?)?;
        } else {
            ledger.set_pod(&Pod::deserialize(&item)?, &NoSources);
        }
    }
    Ok(ledger)
}

fn question(kind: Kind, number: u64) -> Outcome<Question> {
    let mut pod = review::pod(kind, "assistant", &format!("chat-completions-{}", number % 32));
    pod["metadata"]["uid"] = json!(format!("eeeeeeee-0000-4000-8000-{number:012}"));
    let workload = Workload::read(&pod).map_err(|error| format!("{error:?}"))?;
    Ok(Question {
        operation: Operation::Create,
        workload: workload.ok_or("the pod is not read as a workload")?,
        old: None,
        namespace_labels: [("kubernetes.io/metadata.name".to_owned(), "assistant".to_owned())].into(),
        by_node: false,
        scale_only: false,
        dry_run: kind == Kind::SharedDryRun,
    })
}

/// Decides for the length of a round; the time of each decision, the reservation included.
fn round(ledger: &mut Ledger, kind: Kind, length: Duration, next: &mut u64) -> Outcome<Figures> {
    let policies = Arc::clone(ledger.policies());
    let mut times = Vec::new();
    let mut spent = Duration::ZERO;
    while spent < length {
        *next += 1;
        let question = question(kind, *next)?;
        let before = Instant::now();
        let prepared = decision::prepare(question, &policies, &NoSources);
        let verdict = decision::judge(&prepared, ledger);
        let (admit, findings) = (verdict.admit, verdict.findings);
        if let Some(reservation) = verdict.reservation {
            ledger.commit(reservation, Moment(*next));
        }
        let took = before.elapsed();
        if !admit {
            let texts = findings
                .iter()
                .map(|finding| format!("{} {}", finding.code, finding.message));
            let texts = texts.collect::<Vec<_>>().join("; ");
            return Err(format!("{} is refused: {texts}", kind.name()).into());
        }
        times.push(took);
        spent += took;
    }
    Ok(Figures::of_one_thread(times, spent))
}

/// Decides in turn against each of the ledgers.
fn compare(options: &Options, ledgers: &mut [Ledger], rows: &[Row], report: &mut Report) -> Outcome<()> {
    let mut next = 0;
    for &kind in &options.review {
        let mut figures = vec![Vec::new(); ledgers.len()];
        for run in 0..=options.rounds {
            for (ledger, figures) in ledgers.iter_mut().zip(&mut figures) {
                let of_round = round(ledger, kind, options.round(), &mut next)?;
                if run > 0 {
                    figures.push(of_round);
                }
            }
        }
        let title = format!("{}, the decision alone", kind.name());
        report.case(&title, &json!({"decision": kind.name()}), rows, &figures);
    }
    Ok(())
}

fn row(nodes: usize) -> Row {
    Row {
        name: format!("{nodes} nodes"),
        nodes: Some(nodes),
    }
}

/// A large cluster as it is counted.
pub(crate) fn watched(size: Size, templates: &Templates) -> Outcome<Ledger> {
    let mut ledger = Ledger::new(Arc::new(PolicySet::built_in()));
    let mut text = String::new();
    for number in 0..size.nodes {
        text.clear();
        templates.node(number, &mut text);
        set_node(&mut ledger, &serde_json::from_str(&text)?)?;
    }
    for number in (0..size.pods).filter(|number| large::holds(*number)) {
        text.clear();
        templates.pod(number, size, 1, &mut text);
        ledger.set_pod(&serde_json::from_str(&text)?, &NoSources);
    }
    Ok(ledger)
}

/// The decision alone against clusters of these sizes, as an API server lists them.
pub(crate) fn at_sizes(options: &Options, sizes: &[Size], report: &mut Report) -> Outcome<()> {
    let templates = Templates::default();
    let mut ledgers = Vec::new();
    let mut rows = Vec::new();
    for &size in sizes {
        ledgers.push(watched(size, &templates)?);
        rows.push(row(usize::try_from(size.nodes)?));
    }
    compare(options, &mut ledgers, &rows, report)
}

/// Measures and prints.
pub(crate) fn run(options: &Options, target_folder: &Path) -> Outcome<()> {
    let mut ledgers = Vec::new();
    for &nodes in &options.nodes {
        ledgers.push(ledger(nodes)?);
    }
    let rows: Vec<_> = options.nodes.iter().map(|&nodes| row(nodes)).collect();
    let mut report = Report::begin(
        "decision",
        options,
        "The decision alone, in one thread, for a decoded pod: no sockets, no TLS, no JSON.",
    );
    compare(options, &mut ledgers, &rows, &mut report)?;
    report.finish(options, target_folder)
}
