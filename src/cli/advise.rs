//! `vramgate advise`: whether and how GPUs are to be shared, and what to apply for it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::args::{Advise, AdviseOutput, AdviseOwners, AdviseWorkload, Required};
use super::fit::{Several, engine, kept, releases};
use super::mig::{geometry, is_label_value, number, product};
use super::output::clean;
use super::{Failure, Outcome, output};
use crate::advise::{self, Advice, Hardware, Isolation, Need, Owners, Request, Workload};
use crate::document::{AdviceDocument, yaml};
use crate::engine::{Engine, MemoryKind, MemorySource, Releases};
use crate::fit::Named;
use crate::message::cut;
use crate::policy::{Overheads, PolicySet};
use crate::units::{Fraction, Mib};

/// Runs the command.
pub(super) fn run(args: &Advise) -> Result<Outcome, Failure> {
    let mut failures = Vec::new();
    let named = kept(product(&args.product), &mut failures);
    for (flag, name) in [("--name", &args.name), ("--namespace", &args.namespace)] {
        if let Err(failure) = is_label_value(flag, name) {
            failures.push(failure);
        }
    }
    let mut needs = Vec::new();
    for text in &args.memory {
        needs.extend(kept(memory(text), &mut failures));
    }
    let (Some(named), true) = (named, failures.is_empty()) else {
        return Err(Failure::joined(failures));
    };
    needs.extend(models(args, &named)?);
    if needs.is_empty() {
        return Err(Failure::new(
            "nothing to serve: give --models ID[=COUNT] or --memory MIB[=COUNT]",
        ));
    }
    let geometry = geometry(&named).filter(|_| {
        // Of a product that the catalogue lacks it is not known whether it has MIG at all.
        named.product.is_some()
    });
    let title = named.title();
    let policy = PolicySet::built_in().for_device(&BTreeMap::new());
    let engine = engine(&args.engine)?;
    let releases = releases(args.engine_version.as_deref(), Some(engine), &mut Vec::new())?;
    let advice = advise::advise(&Request {
        hardware: Hardware {
            product: &title,
            total: named.device.total,
            geometry: geometry.as_ref(),
            mps_clients: named.product.as_ref().map(|product| product.mps_max_replicas),
            consumer: named.product.as_ref().is_some_and(|product| {
                let mut labels = product.products.iter();
                labels.any(|label| label.contains("GeForce"))
            }),
            count: args.gpus,
        },
        isolation: match args.isolation {
            Required::Required => Isolation::Required,
            Required::None => Isolation::None,
        },
        owners: match args.tenants {
            AdviseOwners::Trusted => Owners::Trusted,
            AdviseOwners::Untrusted => Owners::Untrusted,
        },
        workload: match args.workload {
            AdviseWorkload::Inference => Workload::Inference,
            AdviseWorkload::Batch => Workload::Batch,
            AdviseWorkload::Interactive => Workload::Interactive,
        },
        needs: &needs,
        overhead: overhead(&policy.overheads, engine, releases, 1),
        device: &policy.device,
    });
    let unwritable = |error| Failure::new(format!("the advice cannot be written as YAML: {error}"));
    let document = AdviceDocument::new(&title, geometry.as_ref(), &advice, &args.name, &args.namespace)
        .map_err(unwritable)?;
    match args.output {
        AdviseOutput::Json => output::print_json(&document)?,
        AdviseOutput::Text => output::print(&text(&title, &advice, &document))?,
        AdviseOutput::Yaml => {
            let mut out = String::new();
            for line in text(&title, &advice, &document).lines() {
                let _ = writeln!(out, "# {line}");
            }
            for object in &document.apply {
                let _ = write!(out, "---\n{}", yaml(object).map_err(unwritable)?);
            }
            output::print(&out)?;
        }
    }
    Ok(if advice.suffices {
        Outcome::Passed
    } else {
        Outcome::Refused
    })
}

/// The answer for people.
fn text(product: &str, advice: &Advice, document: &AdviceDocument) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}: {}", clean(product), advice.way);
    for reason in &advice.reasons {
        let _ = writeln!(text, "  because {}", clean(reason));
    }
    for (way, why) in &advice.rejected {
        let _ = writeln!(text, "  not {way}: {}", clean(why));
    }
    for served in &advice.served {
        let of_slot = served
            .share
            .map_or_else(String::new, |share| format!(", {share} of a GPU"));
        let _ = writeln!(
            text,
            "  {} x {}: each asks for {} of {}{of_slot}",
            served.count,
            clean(&served.name),
            served.slots,
            served.resource
        );
    }
    if let Some(slots) = &advice.slots {
        let _ = writeln!(
            text,
            "  {} slots of each GPU; where all take the same, the fraction of each is at most {}, with {} outside of it",
            slots.replicas, slots.fraction, slots.overhead
        );
    }
    for note in &document.notes {
        let _ = writeln!(text, "  note: {}", clean(note));
    }
    for (label, value) in &document.node_labels {
        let _ = writeln!(text, "  kubectl label node NODE {label}={value}");
    }
    text
}

/// `MIB[=COUNT]`: all that one process takes of a GPU.
fn memory(text: &str) -> Result<Need, Failure> {
    let shown = cut(text, 60);
    let (amount, count) = match text.rsplit_once('=') {
        Some((amount, count)) => (amount, number(&shown, count)?),
        None => (text, 1),
    };
    let amount = amount.trim();
    let digits = amount.strip_suffix("MiB").unwrap_or(amount).trim_end();
    let mib = digits
        .parse::<u64>()
        .ok()
        .filter(|mib| (1..=1 << 24).contains(mib) && digits.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(mib) = mib else {
        return Err(Failure::new(format!(
            "--memory: {shown:?} is no amount in MiB; write MIB=COUNT such as 8000=4"
        )));
    };
    Ok(Need {
        name: Mib::new(mib).to_string(),
        request: Mib::new(mib),
        stated: None,
        overhead: Mib::ZERO,
        profile: None,
        ranks: 1,
        count,
    })
}

/// What an engine takes outside of its fraction: of its release, where one is named, else of an unknown one.
fn overhead(overheads: &Overheads, engine: Engine, releases: Releases, ranks: u32) -> Mib {
    let known = releases.first.filter(|first| releases.last == Some(*first));
    overheads.of(engine, known, false, ranks)
}

/// What each model takes of such a GPU: the fraction that its arguments say; else the least with which one request of its longest
/// context surely fits.
fn models(args: &Advise, named: &Named) -> Result<Vec<Need>, Failure> {
    let policy = PolicySet::built_in().for_device(&BTreeMap::new());
    let several = Several {
        flag: "--models",
        models: &args.models,
        engine: &args.engine,
        engine_version: args.engine_version.as_deref(),
        arguments: &args.arguments,
        device: named,
    };
    several.each(|asked| {
        let fitting = &asked.fitting;
        let Some(figures) = &fitting.figures else {
            return Err(Failure::new(format!("{}: {}", asked.place, fitting.reason)));
        };
        let total = named.device.total;
        let overhead = overhead(&policy.overheads, asked.engine, fitting.releases, fitting.ranks);
        let stated = (fitting.reading.memory.kind == MemoryKind::OfTotal
            && fitting.reading.memory.source != MemorySource::Default)
            .then_some(fitting.reading.memory.fraction.as_ref())
            .flatten();
        let (request, overhead) = if let Some(stated) = stated {
            // Whatever the model needs, this is what the engine takes.
            if figures
                .smallest_fraction
                .as_ref()
                .is_none_or(|least| least.share() > stated.share())
            {
                output::note(&format!(
                    "note: {}: {}; a process takes the {} of a GPU that its arguments say",
                    clean(&cut(asked.model, 60)),
                    clean(&fitting.reason),
                    stated.text()
                ));
            }
            (stated.of(total), overhead)
        } else if let Some(fraction) = &figures.smallest_fraction {
            (fraction.of(total), overhead)
        } else {
            let estimate = &figures.estimate;
            (estimate.used().upper_mib(), estimate.outside.upper_mib())
        };
        Ok(Need {
            name: cut(asked.model, 60),
            request,
            stated: stated.map(Fraction::share),
            overhead,
            profile: figures.smallest_profile.clone(),
            ranks: fitting.ranks,
            count: asked.count,
        })
    })
}
