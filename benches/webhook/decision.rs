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

use crate::measure::{Figures, Report, Row};
use crate::review::{self, Kind};
use crate::{Options, Outcome, cluster};

fn ledger(nodes: usize) -> Outcome<Ledger> {
    let policies = Arc::new(PolicySet::built_in());
    let mut ledger = Ledger::new(Arc::clone(&policies));
    for item in cluster::objects(nodes) {
        if item["kind"] == "Node" {
            let node = Node::deserialize(&item)?;
            let missing = policies.for_device(&node.metadata.labels).missing_facts;
            ledger.set_node(
                inventory::read(&node, missing, Catalogue::embedded()).ok_or("a node without GPUs")?,
            );
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

/// Measures and prints.
pub(crate) fn run(options: &Options, target_folder: &Path) -> Outcome<()> {
    let mut ledgers = Vec::new();
    for &nodes in &options.nodes {
        ledgers.push(ledger(nodes)?);
    }
    let rows: Vec<_> = options
        .nodes
        .iter()
        .map(|&nodes| Row {
            name: format!("{nodes} nodes"),
            nodes: Some(nodes),
        })
        .collect();
    let mut report = Report::begin(
        "decision",
        options,
        "The decision alone, in one thread, for a decoded pod: no sockets, no TLS, no JSON.",
    );
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
        report.case(kind.name(), &json!({"review": kind.name()}), &rows, &figures);
    }
    report.finish(options, target_folder)
}
