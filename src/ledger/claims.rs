//! Devices by dynamic resource claims: what the cluster says of them, and who uses which claim.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use super::devices::{DeviceView, HolderView};
use super::{Holder, Ledger};
use crate::demand::Use;
use crate::demand::weigh::Rules;
use crate::demand::weigh::by_claim::{on_each, weighed};
use crate::device::{GpuNode, Sharing};
use crate::dra::objects::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use crate::dra::resolve::Source;
use crate::dra::{DRIVER, Placed};
use crate::policy::Evidence;
use crate::units::{Mib, Share};

/// Namespace and name of a claim.
pub(super) type Name = (Arc<str>, Arc<str>);

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

    /// The devices of ResourceSlices, with those who use the claims that they are allocated to.
    pub(super) fn claimed_devices(&self) -> Vec<DeviceView> {
        let mut users: BTreeMap<(&str, &str), Vec<(&Holder, &Use)>> = BTreeMap::new();
        for holder in self.holders().filter(|holder| !holder.claims.is_empty()) {
            for claim in &holder.claims {
                let used = holder.demand.uses.iter().filter(|used| uses(holder, used, claim));
                let used: Vec<&Use> = used.collect();
                for device in self.dra.allocated(&holder.namespace, claim) {
                    let list = users.entry(device).or_default();
                    list.extend(used.iter().map(|used| (holder, *used)));
                }
            }
        }
        let devices = self.dra.devices();
        devices
            .map(|((pool, name), placed)| {
                let users = users.get(&(&**pool, &**name)).map(Vec::as_slice);
                self.claimed_device(pool, name, placed, users.unwrap_or_default())
            })
            .collect()
    }

    fn claimed_device(
        &self,
        pool: &Arc<str>,
        name: &Arc<str>,
        placed: &Placed,
        users: &[(&Holder, &Use)],
    ) -> DeviceView {
        let node = if placed.node.is_empty() {
            pool
        } else {
            &placed.node
        };
        let labels = self.nodes.get(node).map(|entry| entry.node.labels.clone());
        let device = self.policies().for_device(&labels.unwrap_or_default());
        let count = u32::try_from(users.len()).unwrap_or(u32::MAX);
        let sharing = match NonZeroU32::new(count) {
            Some(count) if count.get() > 1 => Sharing::TimeSliced(count),
            _ => Sharing::Exclusive,
        };
        let holders: Vec<HolderView> = users
            .iter()
            .map(|(holder, used)| {
                let labels = self.namespace_labels(&holder.namespace);
                let pod = self.policies().for_pod(&labels, &holder.labels, None);
                let rules = Rules {
                    pod: &pod,
                    device: &device.device,
                    namespace: &holder.namespace,
                };
                let slots = used.claim.ranks().max(1);
                let each = on_each(&weighed(used, &placed.kind, slots, sharing, rules), slots);
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
        let budget = if sharing.is_shared() {
            device.device.budget
        } else {
            Share::WHOLE
        };
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
            promised: holders.iter().map(|holder| holder.request).sum(),
            promised_share: holders.iter().map(|holder| holder.share).sum(),
            evidence: Evidence::Observed,
            holders,
            seen: BTreeMap::from([(name.clone(), count)]),
            meeting: usize::MAX,
        }
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

/// Whether a container of a holder uses a claim, which it may know under the name of its template.
fn uses(holder: &Holder, used: &Use, claim: &Arc<str>) -> bool {
    used.refs.iter().any(|of| match &of.source {
        Source::Named(name) => name == claim,
        Source::Template(_) => holder.made.get(&of.entry) == Some(claim),
        Source::Nothing => false,
    })
}
