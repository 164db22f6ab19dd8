//! Which nodes could be cut into a profile that no node offers, and what is nearest to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::LONGEST_NAMES;
use crate::decision::survey::{MOST_NAMED, matching, may_stand};
use crate::device::catalogue::{Catalogue, ProductLabel};
use crate::device::{DeviceKind, Pool};
use crate::finding::short;
use crate::ledger::Ledger;
use crate::ledger::nodes::Class;
use crate::mig::{Basis, Geometry, ProfileName};
use crate::units::Mib;
use crate::workload::pod::PodSpec;

/// Node label of the MIG strategy.
const STRATEGY: &str = "nvidia.com/mig.strategy";
/// Node label that says whether its GPUs can be cut.
const CAPABLE: &str = "nvidia.com/mig.capable";
/// Nodes of one kind that are looked at for running pods.
const MOST_LOOKED_AT: usize = 64;

/// Why a kind of node cannot be cut, as far as catalogue and labels tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Uncut {
    /// It has no MIG.
    NoMig,
    /// The label says so, of a product that has.
    SaidBy,
    /// Nothing tells.
    Unknown,
}

/// What a kind of node can be cut into. The label beats the catalogue, which stands in where it is missing.
fn geometry(class: &Class) -> Result<Geometry, Uncut> {
    let label = |name: &str| class.labels.get(name).map(|value| value.trim());
    let product = class.pools.first().map_or("", |pool| &*pool.product);
    let known = Catalogue::embedded().product(product);
    let has_slices = class
        .pools
        .iter()
        .any(|pool| matches!(pool.device, DeviceKind::Mig(_)));
    let capable = label(CAPABLE);
    match known.map(Geometry::of) {
        Some(None) => return Err(Uncut::NoMig),
        Some(Some(_)) if capable == Some("false") && !has_slices => return Err(Uncut::SaidBy),
        Some(Some(geometry)) => return Ok(geometry),
        None if has_slices || capable == Some("true") => {}
        None if capable == Some("false") => return Err(Uncut::NoMig),
        None => return Err(Uncut::Unknown),
    }
    // Under the strategy `single` these labels are the slice's.
    let of_slice = ProductLabel::parse(label("nvidia.com/gpu.product").unwrap_or_default())
        .mig
        .is_some();
    let total = label("nvidia.com/gpu.memory").and_then(|text| text.parse().ok());
    match total {
        Some(total) if total > 0 && !of_slice => Ok(Geometry::derived(product, Mib::new(total))),
        _ => Err(Uncut::Unknown),
    }
}

/// What the cluster says about a profile that no node offers.
pub(super) struct Search<'a> {
    ledger: &'a Ledger,
    spec: &'a PodSpec,
    /// The only nodes that it may stand on, where it names them.
    named: Option<BTreeSet<Arc<str>>>,
    wanted: ProfileName,
    /// Kinds whose product has the profile.
    having: Vec<(usize, &'a Class, Geometry)>,
    /// Kinds of products with MIG that lack it, one for each product.
    lacking: BTreeMap<Arc<str>, (usize, &'a Class, Geometry)>,
    /// Products that cannot be cut.
    without: BTreeMap<Arc<str>, Uncut>,
    /// Kinds that offer the same slices under another name.
    alike: Vec<(&'a Class, &'a Pool)>,
}

impl<'a> Search<'a> {
    pub(super) fn of(ledger: &'a Ledger, spec: &'a PodSpec, wanted: ProfileName) -> Self {
        let mut search = Self {
            ledger,
            spec,
            named: ledger.nodes.named(spec),
            wanted,
            having: Vec::new(),
            lacking: BTreeMap::new(),
            without: BTreeMap::new(),
            alike: Vec::new(),
        };
        let name = wanted.to_string();
        for (index, class) in ledger.nodes.classes() {
            let Some(product) = class.pools.first().map(|pool| pool.product.clone()) else {
                continue;
            };
            let geometry = match geometry(class) {
                Ok(geometry) => geometry,
                Err(why) => {
                    search.without.insert(product, why);
                    continue;
                }
            };
            // Some drivers give a profile another name, and the node has the one or the other.
            let canonical = |name: &str| {
                let known = geometry.profile(name).map(|profile| profile.name);
                known.or_else(|| ProfileName::parse(name))
            };
            let is_wanted = |pool: &&Pool| match &pool.device {
                DeviceKind::Mig(profile) => canonical(profile) == canonical(&name),
                DeviceKind::Gpu => false,
            };
            if let Some(pool) = class.pools.iter().find(is_wanted) {
                search.alike.push((class, pool));
            }
            if geometry.profile(&name).is_some() {
                search.having.push((index, class, geometry));
            } else {
                search.lacking.entry(product).or_insert((index, class, geometry));
            }
        }
        search
    }

    /// The end of the first line, behind what is not offered, and what stands below it.
    pub(super) fn text(&self) -> (String, Vec<String>) {
        if let Some((class, pool)) = self.alike.first() {
            let node = class.members.first().map_or_else(String::new, |name| short(name));
            let text = format!("; node {node} offers such slices as {}", pool.resource);
            return (text, Vec::new());
        }
        if !self.having.is_empty() {
            return self.repartition();
        }
        if !self.lacking.is_empty() {
            return self.nearest();
        }
        (self.no_mig(), Vec::new())
    }

    /// The nearest profiles of the products that lack it, and which nodes could be cut into them.
    fn nearest(&self) -> (String, Vec<String>) {
        let name = self.wanted.to_string();
        let mut text = String::new();
        let mut details = Vec::new();
        for (product, (index, class, geometry)) in self.lacking.iter().take(MOST_NAMED) {
            let nearest = geometry.nearest(&name);
            let listed: Vec<String> = nearest
                .iter()
                .map(|profile| {
                    let memory = profile
                        .memory
                        .map_or_else(String::new, |memory| format!(" ({memory})"));
                    format!("{}{memory}", profile.name)
                })
                .collect();
            let listed = listed.join(", ");
            let product = short(product);
            if text.is_empty() {
                text = format!(": {product} has no such profile; the nearest are {listed}");
            } else {
                details.push(format!("the nearest of {product} are {listed}"));
            }
            if geometry.basis == Basis::Derived {
                details.push(format!(
                    "{product} is not in the catalogue: the names of its profiles follow from its total"
                ));
            }
            let (idle, busy) = self.nodes(*index, class);
            let node = idle.first().or(busy.first());
            if let (Some(node), Some(profile)) = (node, nearest.first()) {
                details.extend(self.way(node, class, geometry, &profile.name.to_string()));
            }
        }
        details.extend(self.products_with_it());
        (text, details)
    }

    /// What keeps every product of the cluster from being cut.
    fn no_mig(&self) -> String {
        let named: Vec<String> = self
            .without
            .keys()
            .take(MOST_NAMED)
            .map(|name| short(name))
            .collect();
        let all = |why: Uncut| self.without.values().all(|other| *other == why);
        match (named.as_slice(), self.without.values().next()) {
            ([only], Some(Uncut::SaidBy)) => format!(": the label {CAPABLE} of {only} is false"),
            ([only], Some(Uncut::Unknown)) => {
                format!(": the catalogue lacks {only}, and no label says what it can be cut into")
            }
            ([only], _) => format!(": {only} has no MIG"),
            ([], _) => String::new(),
            (several, _) if all(Uncut::NoMig) => format!(": {} have no MIG", several.join(", ")),
            (_, _) => ": no product of the cluster has MIG, as far as catalogue and labels tell".to_owned(),
        }
    }

    /// Products of the catalogue that have the profile.
    fn products_with_it(&self) -> Option<String> {
        let name = self.wanted.to_string();
        let all = Catalogue::embedded().products().iter();
        let having: Vec<&str> = all
            .filter(|product| product.profile(&name).is_some())
            .map(|product| product.id.as_str())
            .take(MOST_NAMED)
            .collect();
        (!having.is_empty()).then(|| format!("{name} is a profile of {}", having.join(", ")))
    }

    /// Nodes that could be cut so: those on which no GPU pod runs, if there are any.
    fn repartition(&self) -> (String, Vec<String>) {
        let mut idle: Vec<(Arc<str>, usize)> = Vec::new();
        let mut busy: Vec<(Arc<str>, usize)> = Vec::new();
        for (at, (index, class, _)) in self.having.iter().enumerate() {
            let (without_pods, with_pods) = self.nodes(*index, class);
            idle.extend(without_pods.into_iter().map(|name| (name, at)));
            busy.extend(with_pods.into_iter().map(|name| (name, at)));
        }
        busy.sort_by_key(|(name, _)| self.pods(name));
        let named = |nodes: &[(Arc<str>, usize)]| -> String {
            let mut names: Vec<String> = nodes
                .iter()
                .take(MOST_NAMED)
                .map(|(name, _)| short(name))
                .collect();
            // The names of nodes can be long, and the line may not be.
            while names.len() > 1 && names.iter().map(String::len).sum::<usize>() > LONGEST_NAMES {
                names.pop();
            }
            let more = if nodes.len() > names.len() {
                " and others"
            } else {
                ""
            };
            let word = if nodes.len() == 1 { "node" } else { "nodes" };
            format!("{word} {}{more}", names.join(", "))
        };
        let (text, shown) = match (idle.is_empty(), busy.is_empty()) {
            (false, _) => (
                format!(
                    "; {} could be cut into such slices: no GPU pod runs there",
                    named(&idle)
                ),
                &idle,
            ),
            (true, false) => (
                format!(
                    "; {} could be cut into such slices when the GPU pods there are gone",
                    named(&busy)
                ),
                &busy,
            ),
            (true, true) => {
                let product = self.having.first().and_then(|(_, class, _)| class.pools.first());
                let product = product.map_or_else(String::new, |pool| short(&pool.product));
                return (
                    format!("; {product} has the profile, and the pod matches none of those nodes"),
                    Vec::new(),
                );
            }
        };
        let name = self.wanted.to_string();
        let details = shown.iter().take(MOST_NAMED).filter_map(|(node, at)| {
            let (_, class, geometry) = self.having.get(*at)?;
            self.way(node, class, geometry, &name)
        });
        (text, details.collect())
    }

    /// Some nodes of a kind on which the pod may stand: those where no GPU pod runs, and others.
    fn nodes(&self, index: usize, class: &Class) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        let mut names = matching(self.ledger, (index, class), self.spec, self.named.as_ref());
        if !names.is_empty() {
            // Among many nodes of a kind the first few need not be the idle ones.
            let others = class.members.iter().take(MOST_LOOKED_AT);
            let idle: Vec<Arc<str>> = others
                .filter(|name| !names.contains(name) && self.pods(name) == 0)
                .filter(|name| may_stand(self.ledger, index, name, self.spec))
                .take(MOST_NAMED)
                .cloned()
                .collect();
            names.extend(idle);
        }
        names.into_iter().partition(|name| self.pods(name) == 0)
    }

    fn pods(&self, node: &str) -> usize {
        self.ledger.bound_to(node).count()
    }

    /// What a node is cut into, and what it could be.
    fn way(&self, node: &Arc<str>, class: &Class, geometry: &Geometry, name: &str) -> Option<String> {
        let slices: Vec<(String, u32)> = class
            .pools
            .iter()
            .filter_map(|pool| match &pool.device {
                DeviceKind::Mig(profile) => Some((profile.to_string(), pool.devices)),
                DeviceKind::Gpu => None,
            })
            .collect();
        let now: Vec<String> = class
            .pools
            .iter()
            .map(|pool| match &pool.device {
                DeviceKind::Mig(profile) => format!("{} x {profile}", pool.devices),
                DeviceKind::Gpu => format!("{} whole {}", pool.devices, short(&pool.product)),
            })
            .collect();
        let most = geometry.profile(name)?.max_count;
        let mut ways = vec![geometry.place([(name, most)]).ok()?.to_string()];
        let beside = geometry.beside(name, slices.iter().map(|(name, count)| (name.as_str(), *count)));
        if let Some(layout) = beside.filter(|layout| layout.instances.len() > 1) {
            let way = layout.to_string();
            if !ways.contains(&way) && !slices.is_empty() {
                ways.insert(0, way);
            }
        }
        let pods = match self.pods(node) {
            0 => "no GPU pod runs there".to_owned(),
            1 => "1 GPU pod runs there and would have to go first".to_owned(),
            pods => format!("{pods} GPU pods run there and would have to go first"),
        };
        let strategy = class.labels.get(STRATEGY).map_or("", |value| value.trim());
        let strategy = if strategy == "mixed" {
            String::new()
        } else {
            let shown = if strategy.is_empty() { "not set" } else { strategy };
            format!("; its {STRATEGY} is {shown}, and only mixed offers nvidia.com/mig-… resources")
        };
        Some(format!(
            "node {} has {} ({pods}); one of its GPUs can be {}{strategy}",
            short(node),
            now.join(", "),
            ways.join(", or ")
        ))
    }
}
