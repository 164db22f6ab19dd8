//! Devices by dynamic resource claims: what the cluster says of them, and who uses which claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::devices::{DeviceView, HolderView};
use super::{Holder, Ledger};
use crate::demand::weigh::Rules;
use crate::demand::weigh::by_claim::{OnEach, held, sharing, takes_by_access, together};
use crate::demand::{ClaimRef, Use};
use crate::device::{GpuNode, Labels, Sharing};
use crate::dra::devices::Kind;
use crate::dra::objects::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use crate::dra::resolve::{Source, Terms};
use crate::dra::{DRIVER, Key, Placed};
use crate::engine::Role;
use crate::policy::{DevicePolicy, Evidence, PolicyRef};
use crate::units::{Mib, Share};

/// A container of a holder that uses a claim.
#[derive(Clone)]
pub(crate) struct Claimant<'l> {
    pub(crate) holder: &'l Holder,
    pub(crate) used: &'l Use,
    /// The claim, by namespace and name.
    pub(crate) claim: Key,
    /// What the claim says of its devices.
    pub(crate) terms: Terms,
}

impl Ledger {
    /// A ResourceSlice appeared or changed.
    pub fn set_resource_slice(&mut self, slice: &ResourceSlice) {
        let touched = self.dra.set_slice(slice);
        self.slices_changed(touched);
    }

    /// A ResourceSlice is gone.
    pub fn remove_resource_slice(&mut self, name: &str) {
        let touched = self.dra.remove_slice(name);
        self.slices_changed(touched);
    }

    /// A DeviceClass appeared or changed.
    pub fn set_device_class(&mut self, class: DeviceClass) {
        let touched = self.dra.set_class(class);
        self.slices_changed(touched);
    }

    /// A DeviceClass is gone.
    pub fn remove_device_class(&mut self, name: &str) {
        let touched = self.dra.remove_class(name);
        self.slices_changed(touched);
    }

    /// A ResourceClaim appeared or changed.
    pub fn set_resource_claim(&mut self, claim: ResourceClaim) {
        self.dra.set_claim(claim);
    }

    /// A ResourceClaim is gone.
    pub fn remove_resource_claim(&mut self, namespace: &str, name: &str) {
        self.dra.remove_claim(namespace, name);
    }

    /// A ResourceClaimTemplate appeared or changed.
    pub fn set_claim_template(&mut self, template: ResourceClaimTemplate) {
        self.dra.set_template(template);
    }

    /// A ResourceClaimTemplate is gone.
    pub fn remove_claim_template(&mut self, namespace: &str, name: &str) {
        self.dra.remove_template(namespace, name);
    }

    /// Who uses a claim.
    pub(crate) fn claimants(&self, namespace: &str, claim: &str) -> impl Iterator<Item = &Holder> {
        let uids = self.claimants.get(&(Arc::from(namespace), Arc::from(claim)));
        uids.into_iter().flatten().filter_map(|uid| self.holder(uid))
    }

    /// Everybody who uses a device by a claim that it is allocated to, each container once.
    pub(crate) fn on_device(&self, device: &Key) -> Vec<Claimant<'_>> {
        let mut there: Vec<Claimant<'_>> = Vec::new();
        for claim in self.dra.claims_on(device) {
            let (namespace, name) = claim;
            for holder in self.claimants(namespace, name) {
                for used in holder.uses() {
                    let is_known = there.iter().any(|other| std::ptr::eq(other.used, used));
                    let terms = || self.terms_on(&holder.made, used, claim, device);
                    if let (false, Some(terms)) = (is_known, terms()) {
                        there.push(Claimant {
                            holder,
                            used,
                            claim: claim.clone(),
                            terms,
                        });
                    }
                }
            }
        }
        there
    }

    /// Under which terms a container has a device by a claim; `None` where it has not. `made` are the claims that were made
    /// for its pod.
    pub(crate) fn terms_on(
        &self,
        made: &BTreeMap<Arc<str>, Arc<str>>,
        used: &Use,
        claim: &Key,
        device: &Key,
    ) -> Option<Terms> {
        let (_, name) = claim;
        let mut refs = used.refs.iter().filter(|of| means(of, made, name));
        let (terms, admin) = refs.find_map(|of| self.dra.terms_on(claim, of.request.as_deref(), device))?;
        (!admin || takes_by_access(used)).then_some(terms)
    }

    /// The policy of the devices of a node.
    pub(crate) fn device_policy(&self, node: &str) -> PolicyRef {
        let unlabelled = Labels::default();
        let labels = self.nodes.get(node).map(|entry| &entry.node.labels);
        self.policies().for_device(labels.unwrap_or(&unlabelled))
    }

    /// The devices of ResourceSlices, with those who use the claims that they are allocated to.
    pub(super) fn claimed_devices(&self) -> Vec<DeviceView> {
        let devices = self.dra.devices();
        devices
            .map(|(of, placed)| self.claimed_device(of, placed, &self.on_device(of)))
            .collect()
    }

    /// Of the devices that are shared by claim the fullest of each node that is above its budget.
    pub(super) fn claimed_over_budget(&self) -> Vec<DeviceView> {
        let mut worst: BTreeMap<Arc<str>, DeviceView> = BTreeMap::new();
        for of in self.dra.allocated() {
            let users = self.on_device(of);
            if users.len() < 2 {
                continue;
            }
            // A device that no slice has any more is as large as before; how large, nobody knows.
            let unknown = Placed {
                node: Arc::from(""),
                kind: Arc::new(Kind::unknown()),
            };
            let view = self.claimed_device(of, self.dra.device(of).unwrap_or(&unknown), &users);
            let is_worst = worst
                .get(&view.node)
                .is_none_or(|other| other.promised_share < view.promised_share);
            if view.is_over() && is_worst {
                worst.insert(view.node.clone(), view);
            }
        }
        worst.into_values().collect()
    }

    fn claimed_device(&self, of: &Key, placed: &Placed, users: &[Claimant<'_>]) -> DeviceView {
        let (pool, name) = of;
        let node = if placed.node.is_empty() {
            pool
        } else {
            &placed.node
        };
        let device = self.device_policy(node);
        let count = u32::try_from(users.len()).unwrap_or(u32::MAX);
        let mps = users.iter().map(|user| user.terms.mps);
        let mps = mps.max_by_key(|mps| mps.most).unwrap_or_default();
        let sharing = sharing(&placed.kind, None, mps, count);
        let each = users
            .iter()
            .map(|user| self.held_by_claim(user, &placed.kind, sharing, &device.device));
        let held: Vec<OnEach> = each.collect();
        let mut holders: Vec<HolderView> = users
            .iter()
            .zip(&held)
            .map(|(user, each)| {
                let (holder, used) = (user.holder, user.used);
                HolderView {
                    namespace: holder.namespace.clone(),
                    name: holder.name.clone(),
                    container: used.claim.container.clone(),
                    rank: 0,
                    request: each.request,
                    overhead: each.overhead,
                    share: each.share,
                    everywhere: false,
                    bound: holder.node.is_some(),
                    devices: vec![name.clone()],
                }
            })
            .collect();
        holders.sort_by(|a, b| b.share.cmp(&a.share).then_with(|| a.name.cmp(&b.name)));
        let budget = if sharing.is_shared() {
            device.device.budget
        } else {
            Share::WHOLE
        };
        let sums = at_the_same_time(users, &held);
        DeviceView {
            node: node.clone(),
            resource: Arc::from(DRIVER),
            device: None,
            id: Some(name.clone()),
            devices: 1,
            product: placed.kind.product.clone(),
            sharing,
            slots: count.max(1),
            slots_taken: count,
            total: placed.kind.total,
            budget: placed.kind.total.map_or(Mib::ZERO, |total| budget.of_down(total)),
            budget_share: budget,
            promised: sums.request,
            promised_share: sums.share,
            // Only a claim that is allocated has users here.
            bound_share: sums.share,
            evidence: Evidence::Observed,
            holders,
            seen: BTreeMap::from([(name.clone(), count)]),
            meeting: usize::MAX,
        }
    }

    /// What somebody who is there has of a device of a kind.
    pub(crate) fn held_by_claim(
        &self,
        of: &Claimant<'_>,
        kind: &Kind,
        sharing: Sharing,
        device: &DevicePolicy,
    ) -> OnEach {
        let labels = self.namespace_labels(&of.holder.namespace);
        let pod = self.policies().for_pod(&labels, of.holder.view(), None);
        let rules = Rules {
            pod: &pod,
            device,
            namespace: "",
        };
        let now = held(of.used, kind, of.terms, sharing, rules);
        // What it was admitted with counts as well, and what an UPDATE makes of it.
        let raise = of.holder.raise.as_ref().map(|(demand, _)| demand);
        let others = of.holder.recorded.iter().chain(raise);
        let others = others.filter(|other| !Arc::ptr_eq(other, &of.holder.demand));
        let container = &of.used.claim.container;
        if of.holder.is_granted(of.used) {
            let slots = others.flat_map(|demand| &demand.claims);
            let same = slots
                .filter(|slots| slots.container == *container && slots.resource == of.used.claim.resource);
            return same.fold(now, |most, slots| {
                let other = Use {
                    claim: slots.clone(),
                    ..of.used.clone()
                };
                most.or_more(held(&other, kind, of.terms, sharing, rules))
            });
        }
        let same = others.flat_map(|demand| &demand.uses);
        let same = same.filter(|used| used.claim.container == *container);
        same.map(|used| held(used, kind, of.terms, sharing, rules))
            .fold(now, OnEach::or_more)
    }

    /// A node with the devices of its ResourceSlices; the name of one that has none at all.
    pub(super) fn with_slices(&mut self, mut node: GpuNode) -> Result<GpuNode, Arc<str>> {
        let name: Arc<str> = Arc::from(node.name());
        let mut notes = Vec::new();
        let published = self.dra.pools(&name, &mut notes);
        if published.is_empty() && !(node.pools.is_empty() && node.notes.is_empty()) {
            self.bare.remove(&name);
            return Ok(node);
        }
        self.bare.insert(name.clone(), node.clone());
        for pool in published {
            if node.pool(&pool.resource).is_none() {
                node.notes.extend(
                    notes
                        .iter()
                        .filter(|note| note.resource == pool.resource)
                        .cloned(),
                );
                node.pools.push(pool);
            }
        }
        if node.pools.is_empty() && node.notes.is_empty() {
            return Err(name);
        }
        Ok(node)
    }

    /// Reads nodes again whose devices in ResourceSlices may be others now.
    fn slices_changed(&mut self, nodes: BTreeSet<Arc<str>>) {
        for name in nodes {
            let base = self.bare.get(&name).cloned();
            let Some(base) = base.or_else(|| self.nodes.get(&name).map(|entry| entry.node.clone())) else {
                continue;
            };
            self.set_node(base);
        }
    }
}

/// What all of them have at the same time, of what each has: of a pod the init containers run before the others.
pub(crate) fn at_the_same_time(users: &[Claimant<'_>], held: &[OnEach]) -> OnEach {
    let mut pods: BTreeMap<&Arc<str>, Vec<(Role, OnEach)>> = BTreeMap::new();
    for (user, each) in users.iter().zip(held) {
        let pod = pods.entry(&user.holder.uid).or_default();
        pod.push((user.used.claim.role, *each));
    }
    let pods = pods.into_values().map(|each| together(each.into_iter()));
    pods.fold(OnEach::default(), OnEach::plus)
}

/// Whether a container's entry means a claim, which it may know under the name of its template.
pub(crate) fn means(of: &ClaimRef, made: &BTreeMap<Arc<str>, Arc<str>>, claim: &Arc<str>) -> bool {
    match &of.source {
        Source::Named(name) => name == claim,
        Source::Template(_) => made.get(&of.entry) == Some(claim),
        Source::Nothing => false,
    }
}
