//! `vramgate explain`: what each container starts, and how much GPU memory that takes.

use std::collections::BTreeMap;

use comfy_table::Table;

use super::args::{Explain, Output};
use super::output::clean;
use super::state::Applied;
use super::{Failure, input, output, page, policies, state};
use crate::demand::Demand;
use crate::document::{Document, Explained, ExplainedContainer, Kind, SlotCount};
use crate::engine::{Engine, MemoryKind, MemorySource, Resolvable, Starts};
use crate::finding::Code;
use crate::manifest::Object;
use crate::policy::{PolicySet, nearest};
use crate::snapshot::Snapshot;
use crate::workload::pod::Pod;
use crate::workload::template::{self, Bases};
use crate::workload::{Autoscaler, WorkloadKind};

mod provenance;

/// Explains the input.
pub(super) fn run(args: &Explain) -> Result<(), Failure> {
    if let Some(code) = &args.code {
        return explain_code(code);
    }
    input::once(&args.files)?;
    let mut failures = Vec::new();
    let objects = state::input(&args.files, &mut failures);
    let mut snapshot = Snapshot::default();
    let applied = state::take_context(objects, &mut snapshot, &mut failures);
    let autoscalers: Vec<Autoscaler> = applied
        .iter()
        .filter_map(|applied| match applied {
            Applied::Autoscaler(autoscaler, _) => Some(autoscaler.clone()),
            Applied::Object(_) | Applied::Configuration(..) => None,
        })
        .collect();
    let objects: Vec<Object> = applied.into_iter().filter_map(Applied::into_object).collect();
    let policies = match policies::load(args.policy_dir.as_deref(), &snapshot) {
        Ok(policies) => policies,
        Err(failure) => {
            failures.push(failure);
            return Err(Failure::joined(failures));
        }
    };
    let mut items = Vec::new();
    for object in &objects {
        let mut workload = match snapshot.read(object) {
            Ok(Some(workload)) if !matches!(workload.kind, WorkloadKind::Custom(_)) => workload,
            Ok(_) => {
                match of_other_kind(object, snapshot.bases(), &snapshot, &policies) {
                    Ok(explained) => items.extend(explained),
                    Err(failure) => failures.push(failure),
                }
                continue;
            }
            Err(error) => {
                failures.push(error.into());
                continue;
            }
        };
        let maxima = autoscalers
            .iter()
            .filter(|autoscaler| autoscaler.scales(&workload));
        workload.replicas.max = maxima.map(|autoscaler| autoscaler.max).max();
        let namespace_labels = snapshot.namespace_labels(&workload.object.namespace);
        let mut explained = Explained::new(&workload, &snapshot, &namespace_labels, &policies);
        tell_access(
            &mut explained,
            &workload.pod,
            &namespace_labels,
            &policies,
            &snapshot,
        );
        items.push(explained);
    }
    if items.is_empty() && !failures.is_empty() {
        return Err(Failure::joined(failures));
    }
    match args.output {
        Output::Json => output::print_json(&Document::new(Kind::Explanation, items))?,
        Output::Text => output::print(&text(&items))?,
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(Failure::joined(failures))
    }
}

/// Prints the page of a code, or every code.
fn explain_code(text: &str) -> Result<(), Failure> {
    if text == "list" {
        return output::print(&page::list());
    }
    let written = text.to_ascii_uppercase();
    let digits = written.trim_start_matches("VG");
    if let Ok(code) = format!("VG{digits}").parse::<Code>() {
        return output::print(&page::plain(code.page(), output::width()));
    }
    let known: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let near = nearest(&written, &known);
    let near = near.map_or_else(|| ".".to_owned(), |near| format!("; did you mean {near}?"));
    Err(Failure::new(format!(
        "--code {}: is no finding code{near} `vramgate explain --code list` prints all of them",
        clean(text)
    )))
}

/// An object of a kind that holds pod templates in a schema of its own.
fn of_other_kind(
    object: &Object,
    bases: &Bases,
    snapshot: &Snapshot,
    policies: &PolicySet,
) -> Result<Vec<Explained>, Failure> {
    let (reference, templates) = template::templates_on(&object.value, bases).map_err(|malformed| {
        let name = object.name();
        object.error(format!("{} {name:?}: {malformed}", object.kind()))
    })?;
    let namespace_labels = snapshot.namespace_labels(&reference.namespace);
    let explained = templates
        .iter()
        .map(|template| Explained::of_template(&reference, template, snapshot, &namespace_labels, policies));
    Ok(explained.collect())
}

/// Adds what `check` says of containers that reach GPUs without asking for one. Templates of other kinds are left alone: their
/// operators may add the request.
fn tell_access(
    explained: &mut Explained,
    pod: &Pod,
    namespace_labels: &BTreeMap<String, String>,
    policies: &PolicySet,
    snapshot: &Snapshot,
) {
    // A quantity that cannot be read is told by the reading itself.
    let Ok(demand) = Demand::read(pod, namespace_labels, policies, snapshot) else {
        return;
    };
    for access in demand.access {
        let mut containers = explained.containers.iter_mut();
        if let Some(container) = containers.find(|container| container.name == access.claim.container) {
            container.findings.extend(access.findings);
        }
    }
}

fn text(items: &[Explained]) -> String {
    let mut text = String::new();
    for item in items {
        let object = &item.object;
        text.push_str(&clean(&format!(
            "{} {}/{}",
            object.kind, object.namespace, object.name
        )));
        if let Some(template) = &item.template {
            text.push(' ');
            text.push_str(&clean(template));
        }
        text.push_str(" (");
        text.push_str(&item.pods());
        text.push_str(")\n");
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header([
            "CONTAINER",
            "ENGINE",
            "MODEL",
            "MEMORY",
            "FROM",
            "GPUS",
            "STARTS",
            "READ",
        ]);
        for container in &item.containers {
            table.add_row(row(container));
        }
        for line in table.lines() {
            text.push_str("  ");
            text.push_str(line.trim());
            text.push('\n');
        }
        for container in &item.containers {
            notes(&mut text, container);
            provenance::put(&mut text, container);
        }
    }
    if items.is_empty() {
        text.push_str("No object of the input makes pods.\n");
    }
    text
}

fn row(container: &ExplainedContainer) -> [String; 8] {
    let engine = match &container.version {
        Some(version) => format!("{} {version}", container.engine),
        None => container.engine.to_string(),
    };
    let memory = match (container.memory_kind(), container.memory_value()) {
        (MemoryKind::None, _) => "-".to_owned(),
        (kind, None) => kind_word(kind).to_owned(),
        (kind, Some(value)) => format!("{value} {}", kind_word(kind)),
    };
    let gpus: Vec<String> = container
        .gpu
        .iter()
        .map(|request| match &request.count {
            SlotCount::Whole(count) => format!("{count} {}", request.resource),
            SlotCount::Unusable(text) => format!("{text:?} {}", request.resource),
        })
        .collect();
    let source = if container.engine == Engine::None {
        "-"
    } else {
        source_word(container.memory_source())
    };
    [
        container.name.clone(),
        engine,
        container.model.clone().unwrap_or_else(|| "-".to_owned()),
        memory,
        source.to_owned(),
        if gpus.is_empty() {
            "-".to_owned()
        } else {
            gpus.join(", ")
        },
        starts_word(container.starts).to_owned(),
        resolvable_word(container.resolvable).to_owned(),
    ]
    .map(|cell| clean(&cell))
}

fn notes(text: &mut String, container: &ExplainedContainer) {
    if let Some(facts) = &container.model_facts {
        let doubt = if facts.certain { "" } else { " (not certain)" };
        text.push_str(&clean(&format!(
            "    {}: the model is {}, found {}{doubt}",
            container.name, facts.id, facts.found
        )));
        text.push('\n');
    }
    if !container.depends_on.is_empty() {
        text.push_str(&clean(&format!(
            "    {}: values depend on {}, which can change until the pod starts",
            container.name,
            container.depends_on.join(" and on ")
        )));
        text.push('\n');
    }
    for unresolved in &container.unresolved {
        text.push_str(&clean(&format!(
            "    {}: {}: {}",
            container.name, unresolved.field, unresolved.reason
        )));
        text.push('\n');
    }
    for finding in &container.findings {
        let severity = finding.severity.as_str();
        text.push_str(&clean(&format!(
            "    {severity} {}: {} ({})",
            finding.code, finding.message, finding.path
        )));
        text.push('\n');
    }
}

const fn kind_word(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::OfTotal => "of the total",
        MemoryKind::OfFree => "of what is free at start",
        MemoryKind::OfFreeAfterWeights => "of what is free after the weights",
        MemoryKind::UntilLeft => "until this is left",
        MemoryKind::Absolute => "exactly",
        MemoryKind::Estimated => "estimated",
        MemoryKind::Uncapped => "without a limit",
        MemoryKind::Unknown => "unknown",
        MemoryKind::None => "none",
    }
}

const fn source_word(source: MemorySource) -> &'static str {
    match source {
        MemorySource::Flag => "flag",
        MemorySource::Env => "env",
        MemorySource::ConfigFile => "config file",
        MemorySource::Default => "default",
        MemorySource::EngineAuto => "engine",
        MemorySource::Annotation => "annotation",
        MemorySource::Policy => "policy",
        MemorySource::Estimate => "estimate",
        MemorySource::Unresolved => "unresolved",
    }
}

const fn starts_word(starts: Starts) -> &'static str {
    match starts {
        Starts::Yes => "yes",
        Starts::No => "no",
        Starts::Unknown => "unknown",
    }
}

const fn resolvable_word(resolvable: Resolvable) -> &'static str {
    match resolvable {
        Resolvable::Full => "full",
        Resolvable::Partial => "partial",
        Resolvable::None => "none",
    }
}
