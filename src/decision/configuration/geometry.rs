//! Whether GPUs exist that the entries of a MIG configuration can be carried out on.
//!
//! An entry is invalid where no product that its device filter matches can hold it. Files as they are shipped list
//! configurations for every product there is, so an entry without a filter that some other product could hold is none of
//! the cluster's business, unless the whole document was meant for a product that the cluster does not have.

use std::collections::BTreeMap;

use super::{Surroundings, finding};
use crate::device::catalogue::{Catalogue, Product};
use crate::device::config::mig::{DeviceId, MigConfig, MigEntry, Reading};
use crate::finding::{Code, Finding, Number, Severity, short, shortened};
use crate::mig::{Geometry, Impossible};

/// Findings of one document.
const MOST: usize = 20;
/// Different sets of profiles of one document that are placed. Files as they are shipped have some 80.
const MOST_SETS: usize = 500;
/// Longest list of profiles in a message, in characters.
const LONGEST_LIST: usize = 60;
/// Longest reason in a message, in characters; the whole of it stands below.
const LONGEST_REASON: usize = 110;

/// The products of the catalogue, and which of them the cluster has.
pub(super) struct Products<'a> {
    /// By id.
    known: BTreeMap<&'a str, Known<'a>>,
    /// Whether the cluster has a GPU that no catalogue knows.
    has_unknown: bool,
    /// Whether the cluster has any GPU.
    has_any: bool,
}

struct Known<'a> {
    product: &'a Product,
    /// `None` where it has no MIG.
    geometry: Option<Geometry>,
    in_cluster: bool,
}

impl<'a> Products<'a> {
    pub(super) fn of(around: &'a Surroundings) -> Self {
        let mut products = Self {
            known: BTreeMap::new(),
            has_unknown: false,
            has_any: false,
        };
        // The policies' own products win over those of the catalogue.
        let own = around
            .policies
            .iter()
            .map(|policy| policy.device.products.catalogue());
        for catalogue in own.chain([Catalogue::embedded()]) {
            for product in catalogue.products() {
                products.known.entry(&product.id).or_insert_with(|| Known {
                    product,
                    geometry: Geometry::of(product),
                    in_cluster: false,
                });
            }
        }
        for node in &around.nodes {
            for label in &node.products {
                let product = node.policy.device.products.catalogue().product(label);
                products.has_any = true;
                match product.and_then(|product| products.known.get_mut(product.id.as_str())) {
                    Some(known) => known.in_cluster = true,
                    None => products.has_unknown = true,
                }
            }
        }
        products
    }

    /// Those that a filter matches; `None` where it names an id that no product is known by.
    fn matching(&self, filter: &[DeviceId]) -> Option<Vec<&Known<'a>>> {
        if filter.is_empty() {
            return Some(self.known.values().collect());
        }
        let mut matching: Vec<&Known<'a>> = Vec::new();
        for id in filter {
            let mut found = false;
            for known in self.known.values().filter(|known| has_id(known.product, *id)) {
                found = true;
                matching.push(known);
            }
            if !found {
                return None;
            }
        }
        Some(matching)
    }
}

pub(super) fn has_id(product: &Product, id: DeviceId) -> bool {
    let ids = product.mig.iter().flat_map(|mig| &mig.device_ids);
    ids.into_iter().any(|known| id.is(known))
}

/// What is asked of each GPU, as a sentence names it.
fn asked(entry: &MigEntry) -> String {
    let parts: Vec<String> = entry
        .profiles
        .iter()
        .map(|(name, count)| format!("{count} x {name}"))
        .collect();
    shortened(&parts.join(" + "), LONGEST_LIST)
}

fn places(geometry: &Geometry, entry: &MigEntry) -> Result<(), Impossible> {
    let asked = entry.profiles.iter().map(|(name, count)| (name.as_str(), *count));
    geometry.place(asked).map(|_| ())
}

/// Why a product cannot be cut as an entry says: the first reason in a sentence, and all of them.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) sentence: String,
    pub(super) reasons: Vec<String>,
    /// What the product can be cut as instead, as `mig-devices` writes it: most of what was asked.
    pub(super) instead: Option<String>,
}

/// Why a product cannot be cut as an entry says; `None` where it can.
pub(super) fn refusal(product: &Product, entry: &MigEntry) -> Option<Refusal> {
    if !entry.enabled || entry.profiles.is_empty() {
        return None;
    }
    let (reasons, instead): (Vec<String>, _) = match Geometry::of(product) {
        None => (vec!["it has no MIG".to_owned()], None),
        Some(geometry) => {
            let impossible = places(&geometry, entry).err()?;
            let reasons = impossible.reasons.iter().map(ToString::to_string).collect();
            (reasons, alternative(&geometry, entry))
        }
    };
    let first = reasons.first().map(String::as_str).unwrap_or_default();
    Some(Refusal {
        sentence: format!(
            "{} cannot be cut as {}: {}",
            short(&product.id),
            asked(entry),
            shortened(first, LONGEST_REASON)
        ),
        reasons,
        instead,
    })
}

/// One profile smaller, else some instances less.
fn alternative(geometry: &Geometry, entry: &MigEntry) -> Option<String> {
    let asked = || entry.profiles.iter().map(|(name, count)| (name.as_str(), *count));
    let layout = geometry
        .with_one_smaller(asked())
        .or_else(|| geometry.without_some(asked()))?;
    let counts: Vec<String> = layout
        .counts()
        .iter()
        .map(|(name, count)| format!("{name}: {count}"))
        .collect();
    Some(format!("{{{}}}", counts.join(", ")))
}

/// What decides what an entry comes to: its filter and its profiles.
type Set<'e> = (&'e [DeviceId], &'e [(String, u32)]);

/// What an entry comes to.
enum Outcome<'p> {
    /// Nothing to say: some GPU of the cluster can hold it, or it is for others.
    Fine,
    /// Only these products, none of them in the cluster, can hold it.
    Foreign(Vec<&'p str>),
    /// No GPU can.
    Impossible(Refusal),
}

/// The findings of a document.
pub(super) fn findings(key: &str, reading: &Reading, products: &Products<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut foreign: Vec<(&MigConfig, &MigEntry, Vec<&str>)> = Vec::new();
    let mut fitting = false;
    let cutting = reading
        .configs
        .iter()
        .flat_map(|config| config.entries.iter().map(move |entry| (config, entry)))
        .filter(|(_, entry)| entry.enabled && !entry.profiles.is_empty());
    let mut sets: BTreeMap<Set<'_>, Outcome<'_>> = BTreeMap::new();
    for (config, entry) in cutting {
        let set = (entry.filter.as_slice(), entry.profiles.as_slice());
        if sets.len() >= MOST_SETS && !sets.contains_key(&set) {
            let why = Refusal {
                sentence: format!(
                    "more than {MOST_SETS} different sets of profiles; it and what follows is not judged"
                ),
                reasons: Vec::new(),
                instead: None,
            };
            findings.push(invalid(key, config, entry, &why).with_severity(Severity::Warning));
            break;
        }
        match sets.entry(set).or_insert_with(|| outcome(entry, products)) {
            Outcome::Fine => fitting = true,
            Outcome::Foreign(capable) => foreign.push((config, entry, capable.clone())),
            Outcome::Impossible(why) => {
                findings.push(invalid(key, config, entry, why));
            }
        }
    }
    if !fitting && !products.has_unknown {
        findings.extend(meant_for_others(key, &foreign, products));
    }
    findings.truncate(MOST);
    findings
}

fn invalid(key: &str, config: &MigConfig, entry: &MigEntry, why: &Refusal) -> Finding {
    let finding = finding(
        Code::Vg601,
        key,
        entry.line,
        &entry.field,
        &format!("configuration {:?}: {}", short(&config.name), why.sentence),
    );
    tell_all(finding, why)
}

/// Further reasons below the first.
pub(super) fn tell_all(finding: Finding, why: &Refusal) -> Finding {
    let rest = why.reasons.iter().skip(1);
    let finding = rest.fold(finding, |finding, reason| {
        finding.detail(format!("also: {reason}"))
    });
    match &why.instead {
        Some(instead) => finding
            .number("instead", Number::Text(instead.clone()))
            .detail(format!("one GPU can have mig-devices: {instead}")),
        None => finding,
    }
}

fn outcome<'p>(entry: &MigEntry, products: &'p Products<'_>) -> Outcome<'p> {
    // A product that is newer than the catalogue.
    let Some(matching) = products.matching(&entry.filter) else {
        return Outcome::Fine;
    };
    let capable: Vec<&Known<'_>> = matching
        .iter()
        .copied()
        .filter(|known| {
            known
                .geometry
                .as_ref()
                .is_some_and(|geometry| places(geometry, entry).is_ok())
        })
        .collect();
    let here: Vec<&Known<'_>> = matching
        .iter()
        .copied()
        .filter(|known| known.in_cluster)
        .collect();
    if capable.is_empty() {
        // Without a filter it may be for a GPU that no catalogue knows.
        if entry.filter.is_empty() && products.has_unknown {
            return Outcome::Fine;
        }
        return Outcome::Impossible(reason(entry, &here, &matching));
    }
    if !products.has_any || capable.iter().any(|known| known.in_cluster) || here.is_empty() {
        return Outcome::Fine;
    }
    if entry.filter.is_empty() {
        return Outcome::Foreign(capable.iter().map(|known| known.product.id.as_str()).collect());
    }
    Outcome::Impossible(reason(entry, &here, &matching))
}

/// Why, told of a product of the cluster, else of the one that comes nearest: it knows most of the profiles, and can have most
/// instances of them.
fn reason(entry: &MigEntry, here: &[&Known<'_>], matching: &[&Known<'_>]) -> Refusal {
    let nearness = |known: &&&Known<'_>| {
        let profiles = || {
            let names = entry.profiles.iter();
            names.filter_map(|(name, _)| known.geometry.as_ref()?.profile(name))
        };
        let most: u32 = profiles().map(|profile| profile.max_count).sum();
        (known.geometry.is_some(), profiles().count(), most)
    };
    // Of equals the first.
    let nearest = |among: &[&Known<'_>]| {
        let nearest = among.iter().rev().max_by_key(nearness)?;
        refusal(nearest.product, entry)
    };
    nearest(here)
        .or_else(|| nearest(matching))
        .unwrap_or_else(|| no_gpu(entry))
}

fn no_gpu(entry: &MigEntry) -> Refusal {
    Refusal {
        sentence: format!("no GPU can be cut as {}", asked(entry)),
        reasons: Vec::new(),
        instead: None,
    }
}

/// A document of which no entry fits the cluster. Where one product could hold all of it, it was meant for that one;
/// otherwise it is a list for many.
fn meant_for_others(
    key: &str,
    foreign: &[(&MigConfig, &MigEntry, Vec<&str>)],
    products: &Products<'_>,
) -> Vec<Finding> {
    let Some((config, entry, capable)) = foreign.first() else {
        return Vec::new();
    };
    let meant = capable
        .iter()
        .find(|id| foreign.iter().all(|(_, _, others)| others.contains(id)));
    let here: Vec<&Known<'_>> = products.known.values().filter(|known| known.in_cluster).collect();
    if meant.is_some() {
        let all = foreign.iter();
        return all
            .map(|(config, entry, _)| invalid(key, config, entry, &reason_here(entry, &here)))
            .collect();
    }
    let mut why = reason_here(entry, &here);
    why.sentence
        .push_str("; nor does any other configuration here fit a GPU of the cluster");
    vec![invalid(key, config, entry, &why).with_severity(Severity::Warning)]
}

/// Why the GPUs of the cluster cannot hold an entry.
fn reason_here(entry: &MigEntry, here: &[&Known<'_>]) -> Refusal {
    here.iter()
        .find_map(|known| refusal(known.product, entry))
        .unwrap_or_else(|| no_gpu(entry))
}
