//! Objects of dynamic resource allocation, and PriorityClasses. They are few and small, so they are kept as they were decoded.

use std::sync::{Arc, Mutex};

use serde::de::DeserializeOwned;

use super::Known;
use crate::cluster::facts::Facts;
use crate::cluster::lock;
use crate::cluster::projection::Decoded;
use crate::cluster::watch::{Change, Fold};
use crate::dra::objects::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use crate::workload::pod::Metadata;
use crate::workload::priority::PriorityClass;

/// One of these kinds.
pub(in crate::cluster) trait Resource: DeserializeOwned + Send + Sync + 'static {
    fn metadata(&self) -> &Metadata;
    fn set<F: Facts>(self, facts: &mut F);
    fn remove<F: Facts>(facts: &mut F, namespace: &str, name: &str);
}

impl Resource for ResourceSlice {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn set<F: Facts>(self, facts: &mut F) {
        facts.set_resource_slice(&self);
    }

    fn remove<F: Facts>(facts: &mut F, _: &str, name: &str) {
        facts.remove_resource_slice(name);
    }
}

impl Resource for DeviceClass {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn set<F: Facts>(self, facts: &mut F) {
        facts.set_device_class(self);
    }

    fn remove<F: Facts>(facts: &mut F, _: &str, name: &str) {
        facts.remove_device_class(name);
    }
}

impl Resource for ResourceClaim {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn set<F: Facts>(self, facts: &mut F) {
        facts.set_resource_claim(self);
    }

    fn remove<F: Facts>(facts: &mut F, namespace: &str, name: &str) {
        facts.remove_resource_claim(namespace, name);
    }
}

impl Resource for ResourceClaimTemplate {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn set<F: Facts>(self, facts: &mut F) {
        facts.set_claim_template(self);
    }

    fn remove<F: Facts>(facts: &mut F, namespace: &str, name: &str) {
        facts.remove_claim_template(namespace, name);
    }
}

impl Resource for PriorityClass {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn set<F: Facts>(self, facts: &mut F) {
        facts.set_priority_class(self);
    }

    fn remove<F: Facts>(facts: &mut F, _: &str, name: &str) {
        facts.remove_priority_class(name);
    }
}

/// See the module.
pub(in crate::cluster) struct ResourceFold<F, R> {
    facts: Arc<Mutex<F>>,
    /// By `NAMESPACE/NAME`.
    known: Known<()>,
    kind: std::marker::PhantomData<fn() -> R>,
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

impl<F: Facts, R: Resource> ResourceFold<F, R> {
    pub(in crate::cluster) fn new(facts: Arc<Mutex<F>>) -> Self {
        Self {
            facts,
            known: Known::default(),
            kind: std::marker::PhantomData,
        }
    }

    fn apply(&mut self, object: Decoded<R>) {
        match object {
            Decoded::Whole(object) => {
                let metadata = object.metadata();
                self.known.set(&key(&metadata.namespace, &metadata.name), ());
                object.set(&mut *lock(&self.facts));
            }
            // What was known of it stays.
            Decoded::Unreadable(unreadable) => {
                let key = key(unreadable.metadata("namespace"), unreadable.metadata("name"));
                self.known.touch(&key);
            }
        }
    }

    fn gone(&mut self, namespace: &str, name: &str) {
        if self.known.remove(&key(namespace, name)) {
            R::remove(&mut *lock(&self.facts), namespace, name);
        }
    }
}

impl<F: Facts, R: Resource> Fold for ResourceFold<F, R> {
    type Object = R;

    fn begin(&mut self) {
        self.known.begin();
    }

    async fn listed(&mut self, items: Vec<Decoded<R>>) {
        for item in items {
            self.apply(item);
        }
    }

    async fn complete(&mut self) {
        for gone in self.known.complete() {
            let (namespace, name) = gone.split_once('/').unwrap_or(("", &gone));
            R::remove(&mut *lock(&self.facts), namespace, name);
        }
    }

    async fn changed(&mut self, changes: Vec<Change<R>>) {
        for change in changes {
            match change {
                Change::Applied(object) => self.apply(object),
                Change::Deleted(Decoded::Whole(object)) => {
                    let metadata = object.metadata();
                    self.gone(&metadata.namespace, &metadata.name);
                }
                Change::Deleted(Decoded::Unreadable(unreadable)) => {
                    self.gone(unreadable.metadata("namespace"), unreadable.metadata("name"));
                }
            }
        }
    }
}
