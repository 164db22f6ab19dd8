//! `vramgate mig plan`: how GPUs are cut into MIG slices.

use std::fmt::Write as _;

use super::args::{Mig, MigCommand, MigPlan as PlanArgs, PlanOutput};
use super::fit::{Asked, Several, kept};
use super::output::clean;
use super::{Failure, Outcome, output};
use crate::device::catalogue::Catalogue as Products;
use crate::document::{MigParted, MigPlan};
use crate::finding::Finding;
use crate::fit::Named;
use crate::message::cut;
use crate::mig::plan::{Wanted, plan};
use crate::mig::{Geometry, ProfileName};

mod text;

/// Instances of one profile, and copies of one model, that a plan may ask for.
const MOST: u32 = 10_000;

/// Runs a command below `mig`.
pub(super) fn run(args: &Mig) -> Result<Outcome, Failure> {
    match &args.command {
        MigCommand::Plan(args) => run_plan(args),
    }
}

/// A model of the plan and the slice that it gets.
struct Served {
    /// As it was written.
    model: String,
    count: u32,
    profile: String,
}

fn run_plan(args: &PlanArgs) -> Result<Outcome, Failure> {
    let mut failures = Vec::new();
    let product = kept(product(&args.product), &mut failures);
    let mut asked: Vec<(String, u32)> = Vec::new();
    for text in &args.profiles {
        asked.extend(kept(profile(text), &mut failures));
    }
    if let Err(failure) = is_label_value("--name", &args.name) {
        failures.push(failure);
    }
    let (Some(named), true) = (product, failures.is_empty()) else {
        return Err(Failure::joined(failures));
    };
    let geometry = geometry(&named);
    if let Some(profile) = geometry.as_ref().and_then(Geometry::nameless) {
        return Err(Failure::new(format!(
            "--product: {:?} has a total of {}, too small to be cut: an eighth of it is no gigabyte, by which profiles are \
             named ({profile}); write the MiB that nvidia-smi prints",
            cut(&args.product, 60),
            named.device.total
        )));
    }
    let title = named.title();
    let served = several(args, &named).each(|asked| slice(asked, &named))?;
    for model in &served {
        asked.push((model.profile.clone(), model.count));
    }
    let asked = summed(asked);
    let wanted = Wanted {
        asked: &asked,
        gpus: args.gpus,
        may_shrink: served.is_empty(),
    };
    let answer = plan(&title, geometry.as_ref(), wanted);
    match (args.output, &answer) {
        (PlanOutput::Json, _) => {
            let document = MigPlan::new(
                &title,
                geometry.as_ref(),
                &asked,
                answer.as_ref().map_err(|finding| &**finding),
            );
            output::print_json(&document)?;
        }
        (PlanOutput::Text, Ok(spread)) => {
            if let Some(geometry) = &geometry {
                output::print(&text::valid(&title, geometry, spread, &served))?;
            }
        }
        (PlanOutput::Text, Err(finding)) => output::print(&impossible(finding, &served))?,
        (PlanOutput::Yaml, Ok(spread)) => {
            if let Some(geometry) = &geometry {
                if args.device_filter && geometry.device_ids.is_empty() {
                    output::note(&format!(
                        "note: the PCI device ids of {} are not known, so the configuration has no device-filter",
                        clean(&title)
                    ));
                }
                let document = MigParted::new(&args.name, geometry, spread, args.device_filter);
                let text = serde_saphyr::to_string(&document).map_err(|error| {
                    Failure::new(format!("the configuration cannot be written as YAML: {error}"))
                })?;
                output::print(&format!("{}\n", text.trim_end()))?;
            }
        }
        // Standard output is for the MIG manager, and there is nothing for it.
        (PlanOutput::Yaml, Err(finding)) => output::note(impossible(finding, &served).trim_end()),
    }
    Ok(if answer.is_ok() {
        Outcome::Passed
    } else {
        Outcome::Refused
    })
}

fn impossible(finding: &Finding, served: &[Served]) -> String {
    let mut text = format!("{}: {}\n", finding.code, clean(&finding.message));
    for line in text::slices(served).iter().chain(&finding.details) {
        let _ = writeln!(text, "  {}", clean(line));
    }
    let _ = writeln!(text, "  see: docs/codes/{}.md", finding.code);
    text
}

pub(super) fn product(text: &str) -> Result<Named, Failure> {
    let named = Named::parse(Products::embedded(), text)
        .map_err(|error| Failure::new(format!("--product: {error}")))?;
    match (&named.name, &named.profile) {
        (None, _) => Err(Failure::new(format!(
            "--product: {:?} is a total without a product; write PRODUCT={text}",
            cut(text, 40)
        ))),
        (_, Some(profile)) => Err(Failure::new(format!(
            "--product: {:?} names the MIG profile {profile}; name the whole GPU, and the profile as PROFILE=COUNT",
            cut(text, 60)
        ))),
        (Some(_), None) => Ok(named),
    }
}

/// What the product can be cut into: by the catalogue, and else by its total.
pub(super) fn geometry(named: &Named) -> Option<Geometry> {
    match &named.product {
        Some(product) => Geometry::of(product),
        None => Some(Geometry::derived(&named.title(), named.device.total)),
    }
}

/// `PROFILE=COUNT`, or a profile alone for one.
fn profile(text: &str) -> Result<(String, u32), Failure> {
    let shown = cut(text, 60);
    let (name, count) = match text.rsplit_once('=') {
        Some((name, count)) => (name, number(&shown, count)?),
        None => (text, 1),
    };
    let name = name.trim();
    let bare = name.strip_prefix("nvidia.com/").unwrap_or(name);
    let bare = bare.strip_prefix("mig-").unwrap_or(bare);
    let Some(read) = ProfileName::parse(bare) else {
        return Err(Failure::new(format!(
            "{shown:?} names no MIG profile; write PROFILE=COUNT such as 1g.10gb=4 or 1g.10gb+me=1"
        )));
    };
    Ok((read.to_string(), count))
}

pub(super) fn number(shown: &str, count: &str) -> Result<u32, Failure> {
    let count = count.trim();
    let number = count
        .parse::<u32>()
        .ok()
        .filter(|_| count.bytes().all(|byte| byte.is_ascii_digit()));
    match number {
        Some(1..=MOST) => Ok(number.unwrap_or_default()),
        _ => Err(Failure::new(format!(
            "{shown:?} has the count {:?}; write a whole number from 1 to {MOST}",
            cut(count, 20)
        ))),
    }
}

/// Each profile once.
fn summed(asked: Vec<(String, u32)>) -> Vec<(String, u32)> {
    let mut sums: Vec<(String, u32)> = Vec::new();
    for (name, count) in asked {
        match sums.iter_mut().find(|(other, _)| *other == name) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => sums.push((name, count)),
        }
    }
    sums
}

/// The name of a configuration is the value of a node's label.
pub(super) fn is_label_value(flag: &str, name: &str) -> Result<(), Failure> {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let bytes = name.as_bytes();
    let good = bytes.len() <= 63
        && edge(bytes.first().copied())
        && edge(bytes.last().copied())
        && bytes.iter().all(|byte| inner(*byte));
    if good {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{flag}: {:?} cannot be the value of a label; use at most 63 letters, digits, -, _ and ., with a letter or digit \
         at both ends",
        cut(name, 70)
    )))
}

fn several<'a>(args: &'a PlanArgs, named: &'a Named) -> Several<'a> {
    Several {
        flag: "--model",
        models: &args.models,
        engine: &args.engine,
        engine_version: args.engine_version.as_deref(),
        arguments: &args.arguments,
        device: named,
    }
}

/// The smallest slice that surely holds a model.
fn slice(asked: &Asked<'_>, named: &Named) -> Result<Served, Failure> {
    let (place, fitting) = (&asked.place, &asked.fitting);
    let Some(figures) = &fitting.figures else {
        return Err(Failure::new(format!("{place}: {}", fitting.reason)));
    };
    if fitting.ranks > 1 {
        return Err(Failure::new(format!(
            "{place}: {} ranks cannot be spread over MIG slices, because CUDA shows a process one slice only (VG303); plan \
             whole GPUs for it",
            fitting.ranks
        )));
    }
    let Some(profile) = figures.smallest_profile.clone() else {
        return Err(Failure::new(format!(
            "{place}: no MIG slice of {} whose memory is known surely holds it with these arguments; see `vramgate fit` for \
             what would",
            named.title()
        )));
    };
    Ok(Served {
        model: cut(asked.model, 80),
        count: asked.count,
        profile,
    })
}
