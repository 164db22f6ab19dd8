//! VG302: what no node offers, what is nearest to it, and which nodes could be cut so that they offer it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Candidate, MOST_NAMED, Survey, matching};
use crate::demand::weigh::{Rules, fit};
use crate::demand::{Claim, Demand, resources};
use crate::device::catalogue::{Catalogue, ProductLabel};
use crate::device::{DeviceKind, Pool};
use crate::finding::{Code, FieldPath, Finding, short};
use crate::footprint::Answer;
use crate::ledger::Ledger;
use crate::ledger::nodes::Class;
use crate::mig::{Geometry, ProfileName};
use crate::units::Mib;
use crate::workload::pod::PodSpec;

/// Node label of the MIG strategy.
const STRATEGY: &str = "nvidia.com/mig.strategy";
/// Nodes of one kind that are looked at for running pods.
const MOST_LOOKED_AT: usize = 64;

/// What a kind of node can be cut into; `None` where it has no MIG, as far as catalogue and labels tell.
pub(super) fn geometry(class: &Class) -> Option<Geometry> {
    let label = |name: &str| class.labels.get(name).map(|value| value.trim());
    let product = class.pools.first().map_or("", |pool| &*pool.product);
    if let Some(known) = Catalogue::embedded().product(product) {
        return Geometry::of(known);
    }
    let has_slices = class
        .pools
        .iter()
        .any(|pool| matches!(pool.device, DeviceKind::Mig(_)));
    if !has_slices && label("nvidia.com/mig.capable") != Some("true") {
        return None;
    }
    // Under the strategy `single` this label is the slice's.
    let of_whole = ProductLabel::parse(label("nvidia.com/gpu.product").unwrap_or_default())
        .mig
        .is_none();
    let total = label("nvidia.com/gpu.memory")
        .filter(|_| of_whole)?
        .parse()
        .ok()?;
    (total > 0).then(|| Geometry::derived(product, Mib::new(total)))
}

/// What the cluster says about a profile that no node offers.
struct Search<'a> {
    ledger: &'a Ledger,
    spec: &'a PodSpec,
    wanted: ProfileName,
    /// Kinds whose product has the profile.
    having: Vec<(usize, &'a Class, Geometry)>,
    /// Products with MIG that lack it, with the nearest that they have.
    lacking: BTreeMap<Arc<str>, String>,
    /// Products without MIG.
    without: BTreeSet<Arc<str>>,
    /// Kinds that offer the same slices under another name.
    alike: Vec<(&'a Class, &'a Pool)>,
}

impl<'a> Search<'a> {
    fn of(ledger: &'a Ledger, spec: &'a PodSpec, wanted: ProfileName) -> Self {
        let mut search = Self {
            ledger,
            spec,
            wanted,
            having: Vec::new(),
            lacking: BTreeMap::new(),
            without: BTreeSet::new(),
            alike: Vec::new(),
        };
        let name = wanted.to_string();
        for (index, class) in ledger.nodes.classes() {
            let Some(product) = class.pools.first().map(|pool| pool.product.clone()) else {
                continue;
            };
            let Some(geometry) = geometry(class) else {
                search.without.insert(product);
                continue;
            };
            let is_wanted = |pool: &&Pool| match &pool.device {
                DeviceKind::Mig(profile) => {
                    geometry
                        .profile(profile)
                        .is_some_and(|profile| profile.name == wanted)
                        || ProfileName::parse(profile) == Some(wanted)
                }
                DeviceKind::Gpu => false,
            };
            if let Some(pool) = class.pools.iter().find(is_wanted) {
                search.alike.push((class, pool));
            }
            if geometry.profile(&name).is_some() {
                search.having.push((index, class, geometry));
            } else {
                let nearest = geometry.nearest(&name).into_iter().map(|profile| {
                    let memory = profile
                        .memory
                        .map_or_else(String::new, |memory| format!(" ({memory})"));
                    format!("{}{memory}", profile.name)
                });
                let nearest = nearest.collect::<Vec<_>>().join(", ");
                search.lacking.insert(product, nearest);
            }
        }
        search
    }

    /// The end of the first line, behind what is not offered, and what stands below it.
    fn text(&self) -> (String, Vec<String>) {
        if let Some((class, pool)) = self.alike.first() {
            let node = class.members.first().map_or_else(String::new, |name| short(name));
            let text = format!("; node {node} offers such slices as {}", pool.resource);
            return (text, Vec::new());
        }
        if !self.having.is_empty() {
            return self.repartition();
        }
        if let Some((product, nearest)) = self.lacking.first_key_value() {
            let text = format!(
                ": {} has no such profile; the nearest are {nearest}",
                short(product)
            );
            let others = self.lacking.iter().skip(1).take(MOST_NAMED);
            let mut details: Vec<String> = others
                .map(|(product, nearest)| format!("the nearest of {} are {nearest}", short(product)))
                .collect();
            details.extend(self.products_with_it());
            return (text, details);
        }
        let named: Vec<String> = self
            .without
            .iter()
            .take(MOST_NAMED)
            .map(|name| short(name))
            .collect();
        let text = match named.as_slice() {
            [] => String::new(),
            [only] => format!(": {only} has no MIG"),
            several => format!(": {} have no MIG", several.join(", ")),
        };
        (text, Vec::new())
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
            let mut names = matching(self.ledger, *index, class, self.spec);
            if names.is_empty() {
                continue;
            }
            // Among many nodes of a kind the first few need not be the idle ones.
            let more = class
                .members
                .iter()
                .take(MOST_LOOKED_AT)
                .filter(|name| !names.contains(name));
            let more: Vec<Arc<str>> = more
                .filter(|name| self.pods(name) == 0)
                .filter(|name| super::may_stand(self.ledger, *index, name, self.spec))
                .take(MOST_NAMED)
                .cloned()
                .collect();
            names.extend(more);
            for name in names {
                if self.pods(&name) == 0 {
                    idle.push((name, at));
                } else {
                    busy.push((name, at));
                }
            }
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
        let details = shown
            .iter()
            .take(MOST_NAMED)
            .filter_map(|(name, at)| self.way(name, *at));
        (text, details.collect())
    }

    fn pods(&self, node: &str) -> usize {
        self.ledger.bound_to(node).count()
    }

    /// What a node is cut into, and what it could be.
    fn way(&self, node: &Arc<str>, at: usize) -> Option<String> {
        let (_, class, geometry) = self.having.get(at)?;
        let name = self.wanted.to_string();
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
        let most = geometry.profile(&name)?.max_count;
        let mut ways = vec![format!("{most} x {name}")];
        let beside = geometry.beside(&name, slices.iter().map(|(name, count)| (name.as_str(), *count)));
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

impl Survey<'_> {
    /// The findings of a kind of node. Where a model does not fit its slice, the text says which slices of the cluster
    /// hold it; to weigh a demand on one kind does not tell what the others offer.
    pub(super) fn findings_of<'k>(&self, kind: &'k Candidate<'_>, demand: &Demand) -> Cow<'k, [Finding]> {
        let findings = &kind.weighed.findings;
        if !findings.iter().any(|finding| finding.code == Code::Vg301) {
            return Cow::Borrowed(findings);
        }
        let rules = Rules {
            pod: &kind.policy,
            device: &kind.class.device_policy.device,
        };
        let mut anew = kind.class.pools.iter().flat_map(|pool| {
            let claims = demand
                .claims
                .iter()
                .filter(|claim| claim.resource == pool.resource);
            claims.flat_map(|claim| fit::findings(claim, pool, rules, Some(&self.slices_that_hold(claim))).0)
        });
        let told = findings.iter().map(|finding| match finding.code {
            Code::Vg301 => anew
                .by_ref()
                .find(|other| other.code == Code::Vg301)
                .unwrap_or_else(|| finding.clone()),
            _ => finding.clone(),
        });
        Cow::Owned(told.collect())
    }

    /// The MIG profiles that some node offers and that surely hold what a container loads, the smallest first.
    fn slices_that_hold(&self, claim: &Claim) -> Vec<String> {
        let mut holding: BTreeSet<(Mib, String)> = BTreeSet::new();
        for (_, class) in self.ledger.nodes.classes() {
            for pool in &class.pools {
                let (DeviceKind::Mig(profile), Some(total)) = (&pool.device, pool.total) else {
                    continue;
                };
                let there = fit::judge(claim, pool);
                if !there.is_empty() && there.iter().all(|judged| judged.answer == Answer::Fits) {
                    holding.insert((total, profile.to_string()));
                }
            }
        }
        let mut names: Vec<String> = Vec::new();
        for (_, name) in holding {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Why no node offers what is asked.
    ///
    /// What a DeviceClass offers as an extended resource needs no node's capacity: whoever reads DeviceClasses has to
    /// take such resources out before this is asked.
    pub(super) fn not_offered(&self, demand: &Demand, spec: &PodSpec) -> Finding {
        let most = self.most();
        let missing = demand
            .claims
            .iter()
            .find(|claim| !most.contains_key(&*claim.resource));
        let Some(claim) = missing else {
            let first = demand.claims.first();
            let path = first.map_or_else(FieldPath::default, |claim| claim.slots_path.clone());
            let all = demand.resources().collect::<Vec<_>>().join(", ");
            let text = format!("no single node offers all that the pod asks for: {all}");
            return self.growing(Finding::new(Code::Vg302, path, text));
        };
        let (text, details) = self.missing_text(claim, &most, spec);
        let mut finding = Finding::new(Code::Vg302, claim.slots_path.clone(), text);
        finding.details = details;
        self.growing(finding)
    }

    fn missing_text(
        &self,
        claim: &Claim,
        most: &BTreeMap<&str, u32>,
        spec: &PodSpec,
    ) -> (String, Vec<String>) {
        let resource = short(&claim.resource);
        let names: Vec<&str> = most.keys().copied().take(MOST_NAMED).collect();
        let more = if most.len() > MOST_NAMED { " and more" } else { "" };
        let offers = format!("the cluster offers {}{more}", names.join(", "));
        if names.is_empty() {
            let text = format!("no node offers {resource}; no node of the cluster offers GPUs");
            return (text, Vec::new());
        }
        let plain = || (format!("no node offers {resource}; {offers}"), Vec::new());
        if !claim.resource.starts_with("nvidia.com/mig") {
            return plain();
        }
        let Some(wanted) = ProfileName::of_resource(&claim.resource) else {
            return match resources::meant(&claim.resource) {
                Some(meant) => (
                    format!(
                        "no node offers {resource}, which is no MIG profile's resource; is {meant} meant?"
                    ),
                    vec![offers],
                ),
                None => plain(),
            };
        };
        if let Some(instance) = wanted.compute.and_then(|_| wanted.gpu_instance().resource()) {
            let text = format!(
                "no node offers {resource}: compute instances have no resource of their own; ask for {instance}"
            );
            return (text, vec![offers]);
        }
        let (end, mut details) = Search::of(self.ledger, spec, wanted).text();
        let text = format!("no node offers {resource}{end}");
        let with_offers = format!("{text}; {offers}");
        // Of products without MIG there is nothing else to say.
        if details.is_empty() && end.ends_with("no MIG") && with_offers.len() <= LONGEST_LINE {
            return (with_offers, details);
        }
        details.push(offers);
        (text, details)
    }
}

/// Longest names of nodes in it, all together.
const LONGEST_NAMES: usize = 96;
/// Longest first line, in bytes, without its code.
const LONGEST_LINE: usize = 240;
