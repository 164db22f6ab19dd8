//! A small set of changes that brings a cluster back within its budgets.
//!
//! Devices are taken in order of how far they are above their budget. For each, one object is looked for whose change is
//! enough: one that can go elsewhere as it is, else the one that loses least by a smaller fraction. Where no single one is
//! enough, all that can be lowered on the device are brought down to one fraction, and where that is not enough either,
//! the largest that can go elsewhere does. Every change is tried on the ledger before it is proposed, and at the end each
//! changed object is judged as if it were created: what is proposed is admitted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use json_patch::PatchOperation;

use crate::decision::relief::{self, Moved};
use crate::decision::{Operation, Prepared, Question, prepare};
use crate::demand::Demand;
use crate::ledger::Ledger;
use crate::ledger::devices::DeviceView;
use crate::snapshot::Snapshot;
use crate::units::{Fraction, Share};
use crate::workload::{ObjectRef, Workload, WorkloadKind};

mod conclusion;
mod owners;

use owners::{Owner, Owners};

/// Fractions are proposed in steps of a thousandth.
const STEP_PPM: u64 = 1_000;
/// A smaller part of a device is no use to any engine.
const LEAST_USEFUL: Share = Share::from_ppm(20_000);
/// Pods of an object that is sent elsewhere: to move more is no small change.
const MOST_MOVED: usize = 64;
/// Pods that are put into the ledger in all, so that a plan for a cluster of any size ends in a minute.
const MOST_PUT: usize = 1_000_000;
/// Why devices are left after that.
const ENDED: &str = "the plan has grown too large: make these changes, and plan again";
/// Holders of one device that are told where nothing helps.
const MOST_NAMED: usize = 3;

/// Which changes may be proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Smaller fractions.
    pub fractions: bool,
    /// Other nodes.
    pub placement: bool,
}

/// A device that is above its budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Above {
    /// Its node.
    pub node: Arc<str>,
    /// The resource that offers it.
    pub resource: Arc<str>,
    /// What bound pods take of it.
    pub taken: Share,
    /// What may be promised.
    pub budget: Share,
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The object.
    pub object: ObjectRef,
    /// Its kind, for tools that name it otherwise.
    pub kind: WorkloadKind,
    /// What is changed, in words.
    pub title: String,
    /// How many of its pods stand in the cluster.
    pub pods: usize,
    /// Whether the object can only be changed by making it anew: a bare pod.
    pub anew: bool,
    /// The object that makes it, which the snapshot does not have: there the change belongs.
    pub made_by: Option<String>,
    /// The change.
    pub patch: Vec<PatchOperation>,
}

/// A device that stays above its budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// The device as it is after the changes.
    pub device: Above,
    /// Why nothing helps.
    pub why: String,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The devices that are above their budget now.
    pub above: Vec<Above>,
    /// What to change, in the order in which it was found.
    pub changes: Vec<Change>,
    /// What is left.
    pub remaining: Vec<Remaining>,
}

type Device = (Arc<str>, Arc<str>);

/// Works out a plan for a cluster; `ledger` is filled from the snapshot.
#[must_use]
pub fn plan(snapshot: &Snapshot, ledger: Ledger, allowed: Allowed) -> Plan {
    let mut views = ledger.over_budget();
    views.sort_by(|a, b| {
        let excess = |view: &DeviceView| view.bound_share.less(view.budget_share);
        (excess(b), &a.node, &a.resource).cmp(&(excess(a), &b.node, &b.resource))
    });
    let above: Vec<Above> = views.iter().map(Above::of).collect();
    let by_claim: BTreeSet<Device> = views
        .iter()
        .filter(|view| !is_of_slots(&ledger, view))
        .map(|view| (view.node.clone(), view.resource.clone()))
        .collect();
    let mut course = Course {
        owners: Owners::of(snapshot),
        snapshot,
        ledger,
        allowed,
        lowered: BTreeMap::new(),
        moved: BTreeMap::new(),
        order: Vec::new(),
        demands: BTreeMap::new(),
        puts: 0,
    };
    let mut reasons: BTreeMap<Device, String> = BTreeMap::new();
    for device in &above {
        let key = (device.node.clone(), device.resource.clone());
        if by_claim.contains(&key) {
            let why = "its pods get it by a resource claim, of which no change is planned".to_owned();
            reasons.insert(key, why);
        } else if let Err(why) = course.relieve(&key) {
            reasons.insert(key, why);
        }
    }
    course.conclude(above, &reasons)
}

fn is_of_slots(ledger: &Ledger, view: &DeviceView) -> bool {
    let views = ledger.devices_of(&view.node);
    views
        .iter()
        .any(|other| other.resource == view.resource && other.is_over())
}

impl Above {
    fn of(view: &DeviceView) -> Self {
        Self {
            node: view.node.clone(),
            resource: view.resource.clone(),
            taken: view.bound_share,
            budget: view.budget_share,
        }
    }
}

/// The changes so far, and the cluster with them.
struct Course<'s> {
    snapshot: &'s Snapshot,
    owners: Owners<'s>,
    ledger: Ledger,
    allowed: Allowed,
    /// The fraction to which an owner's are brought down.
    lowered: BTreeMap<usize, u32>,
    /// Where an owner goes.
    moved: BTreeMap<usize, Moved>,
    order: Vec<usize>,
    /// What pods take as they are written, by UID, of those that were looked at.
    demands: BTreeMap<String, Arc<Demand>>,
    /// Pods that were put into the ledger.
    puts: usize,
}

/// An owner on the device that is being relieved.
struct Candidate {
    owner: usize,
    /// Thousandths of the largest fraction that it has now.
    most: u32,
    /// Thousandths of the least with which its models may start.
    least: u32,
}

impl Course<'_> {
    fn view(&self, (node, resource): &Device) -> Option<DeviceView> {
        let views = self.ledger.devices_of(node);
        views.into_iter().find(|view| view.resource == *resource)
    }

    fn is_over(&self, device: &Device) -> bool {
        self.view(device).is_some_and(|view| view.is_over())
    }

    /// Brings one device within its budget, or says why that cannot be.
    fn relieve(&mut self, device: &Device) -> Result<(), String> {
        loop {
            let Some(view) = self.view(device).filter(DeviceView::is_over) else {
                return Ok(());
            };
            if self.puts > MOST_PUT {
                return Err(ENDED.to_owned());
            }
            let owners = self.owners_on(&view);
            if self.allowed.placement && self.move_one(device, &owners, true) {
                return Ok(());
            }
            let candidates: Vec<Candidate> = if self.allowed.fractions {
                owners.iter().filter_map(|owner| self.candidate(*owner)).collect()
            } else {
                Vec::new()
            };
            if self.lower_one(device, &candidates) || self.lower_all(device, &candidates) {
                return Ok(());
            }
            // One fewer stands there; those that are left may be enough.
            if !self.allowed.placement || !self.move_one(device, &owners, false) {
                return Err(self.why(&view, &owners));
            }
        }
    }

    /// The owners of pods that are bound there, largest holders first.
    fn owners_on(&self, view: &DeviceView) -> Vec<usize> {
        let mut owners: Vec<usize> = Vec::new();
        for holder in view.holders.iter().filter(|holder| holder.bound) {
            if let Some(owner) = self.owners.of_pod(&holder.namespace, &holder.name)
                && !owners.contains(&owner)
            {
                owners.push(owner);
            }
        }
        owners
    }

    /// An object as it is now, read for a decision.
    fn prepared(&self, owner: &Owner<'_>) -> Prepared {
        self.read(owner.workload.clone())
    }

    fn read(&self, workload: Workload) -> Prepared {
        let policies = self.ledger.policies();
        let namespace_labels = self.snapshot.namespace_labels(&workload.object.namespace);
        let may_read = policies
            .for_pod(&namespace_labels, &workload.pod, None)
            .read_config_maps;
        let question = Question {
            operation: Operation::Create,
            workload,
            old: None,
            namespace_labels,
            by_node: false,
            scale_only: false,
            dry_run: true,
        };
        prepare(question, policies, self.snapshot.sources(may_read))
    }

    fn candidate(&self, at: usize) -> Option<Candidate> {
        let owner = self.owners.get(at)?;
        let prepared = self.prepared(owner);
        if owner.workload.deleting || owner.workload.open().is_some() {
            return None;
        }
        let most = relief::largest_fraction(&prepared)?;
        let least = relief::least_fraction(&prepared, &self.ledger).max(LEAST_USEFUL);
        let most = self.lowered.get(&at).copied().unwrap_or(thousandths_up(most));
        let least = thousandths_up(least);
        (least < most).then_some(Candidate {
            owner: at,
            most: most.saturating_sub(1),
            least,
        })
    }

    /// Brings the one owner down whose loss is least.
    fn lower_one(&mut self, device: &Device, candidates: &[Candidate]) -> bool {
        let mut best: Option<(u64, usize, u32)> = None;
        for candidate in candidates {
            let there = [candidate];
            let Some(fraction) = self.largest(device, &there, candidate.least, candidate.most) else {
                continue;
            };
            let pods = self
                .owners
                .get(candidate.owner)
                .map_or(0, |owner| owner.pods.len());
            let step = u64::from(candidate.most + 1 - fraction);
            let loss = step.saturating_mul(u64::try_from(pods).unwrap_or(u64::MAX));
            if best.is_none_or(|(least, _, _)| loss < least) {
                best = Some((loss, candidate.owner, fraction));
            }
        }
        let Some((_, owner, fraction)) = best else {
            return false;
        };
        self.lower(owner, fraction);
        true
    }

    /// Brings all of them down to one fraction, as far as the models of each allow.
    fn lower_all(&mut self, device: &Device, candidates: &[Candidate]) -> bool {
        let all: Vec<&Candidate> = candidates.iter().collect();
        let least = candidates.iter().map(|candidate| candidate.least).min();
        let most = candidates.iter().map(|candidate| candidate.most).max();
        let (Some(least), Some(most)) = (least, most) else {
            return false;
        };
        let Some(fraction) = self.largest(device, &all, least, most) else {
            return false;
        };
        for candidate in candidates.iter().filter(|candidate| candidate.most >= fraction) {
            self.lower(candidate.owner, fraction.max(candidate.least));
        }
        true
    }

    /// The largest fraction with which the device is within its budget when the candidates take no more.
    fn largest(&mut self, device: &Device, candidates: &[&Candidate], least: u32, most: u32) -> Option<u32> {
        let mut fits = |fraction: u32| {
            for candidate in candidates {
                let own = fraction.clamp(candidate.least, candidate.most.max(candidate.least));
                self.try_on(&device.0, candidate.owner, Some(own));
            }
            !self.is_over(device)
        };
        let found = fits(least).then(|| {
            let (mut low, mut high) = (least, most);
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                if fits(middle) {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            low
        });
        for candidate in candidates {
            let now = self.lowered.get(&candidate.owner).copied();
            self.try_on(&device.0, candidate.owner, now);
        }
        found
    }

    /// Puts an owner's pods of one node into the ledger with a fraction.
    fn try_on(&mut self, node: &str, at: usize, fraction: Option<u32>) {
        let Some(owner) = self.owners.get(at) else { return };
        let is_there = |pod: &&Arc<Workload>| pod.pod.spec.node_name.as_deref() == Some(node);
        let pods: Vec<Arc<Workload>> = owner.pods.iter().filter(is_there).cloned().collect();
        self.put(&pods, fraction);
    }

    fn put(&mut self, pods: &[Arc<Workload>], fraction: Option<u32>) {
        for pod in pods {
            let Some(demand) = self.demand_of(pod) else {
                continue;
            };
            self.puts = self.puts.saturating_add(1);
            let changed = match fraction.and_then(at) {
                Some(most) => relief::lowered_demand(&demand, &most),
                None => demand,
            };
            self.ledger.set_pod_with(&pod.pod, changed);
        }
    }

    fn demand_of(&mut self, pod: &Workload) -> Option<Arc<Demand>> {
        if let Some(known) = self.demands.get(&pod.uid) {
            return Some(known.clone());
        }
        let prepared = self.read(pod.clone());
        let demand = Arc::clone(relief::demands(&prepared).first()?);
        self.demands.insert(pod.uid.clone(), demand.clone());
        Some(demand)
    }

    fn lower(&mut self, at: usize, fraction: u32) {
        self.lowered.insert(at, fraction);
        if !self.order.contains(&at) {
            self.order.push(at);
        }
        let Some(owner) = self.owners.get(at) else { return };
        let pods = owner.pods.clone();
        self.put(&pods, Some(fraction));
    }

    /// Sends an owner elsewhere as it is; with `enough`, one whose going is enough.
    fn move_one(&mut self, device: &Device, owners: &[usize], enough: bool) -> bool {
        // The smallest first where one is enough, else the largest.
        let order: Vec<usize> = if enough {
            owners.iter().rev().copied().collect()
        } else {
            owners.to_vec()
        };
        for at in order {
            if self.moved.contains_key(&at) || self.lowered.contains_key(&at) {
                continue;
            }
            let Some(owner) = self.owners.get(at) else {
                continue;
            };
            // Where it may stand is decided by its node, by its own name, or it is going already.
            if owner.workload.deleting || owner.has_claims() || owner.pods.len() > MOST_MOVED {
                continue;
            }
            let mut prepared = self.prepared(owner);
            if owner.workload.kind == WorkloadKind::Pod {
                prepared = self.read(unbound(owner.workload));
            }
            let pods = owner.pods.clone();
            for pod in &pods {
                self.ledger.remove_pod(&pod.uid);
            }
            let avoid: BTreeSet<Arc<str>> = pods
                .iter()
                .filter_map(|pod| pod.pod.spec.node_name.as_deref().map(Arc::from))
                .chain([device.0.clone()])
                .collect();
            let moved = if enough && self.is_over(device) {
                None
            } else {
                relief::another_place(&prepared, &self.ledger, &avoid)
            };
            let Some(moved) = moved else {
                self.put(&pods, None);
                continue;
            };
            let nodes = moved.places.iter().flat_map(|(node, pods)| {
                std::iter::repeat_n(node, usize::try_from(*pods).unwrap_or(usize::MAX))
            });
            let there: Vec<Arc<Workload>> = pods
                .iter()
                .zip(nodes)
                .map(|(pod, node)| Arc::new(bound_to(pod, node)))
                .collect();
            self.put(&there, None);
            self.owners.stand(at, there);
            self.moved.insert(at, moved);
            self.order.push(at);
            return true;
        }
        false
    }
}

/// The pod as it would be made anew.
fn unbound(pod: &Workload) -> Workload {
    let mut pod = pod.clone();
    pod.pod.spec.node_name = None;
    pod
}

fn bound_to(pod: &Workload, node: &Arc<str>) -> Workload {
    let mut pod = pod.clone();
    pod.pod.spec.node_name = Some(node.to_string());
    pod
}

/// A fraction of so many thousandths.
fn at(thousandths: u32) -> Option<Fraction> {
    Fraction::from_ppm(thousandths.checked_mul(u32::try_from(STEP_PPM).ok()?)?)
}

fn thousandths_up(share: Share) -> u32 {
    u32::try_from(share.ppm().div_ceil(STEP_PPM)).unwrap_or(u32::MAX)
}
