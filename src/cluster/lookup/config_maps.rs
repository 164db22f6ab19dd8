//! ConfigMaps that pods name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::{LookUpError, LookUps, described, namespaced};
use crate::engine::{LookUp, Sources};

/// Entries from which on outdated ones are thrown away.
const SWEEP_FROM: usize = 256;

type Data = Arc<BTreeMap<String, String>>;
type Key = (String, String);

/// The part of a ConfigMap that a reading uses.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    metadata: Identity,
    data: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Identity {
    resource_version: String,
}

/// A ConfigMap as it was read.
struct Entry {
    read: Instant,
    resource_version: String,
    data: Data,
}

/// What was read a moment ago. Only what was found is kept: a ConfigMap that is missing now may be applied with the
/// next document of the same file.
#[derive(Default)]
pub(super) struct ConfigMaps(Mutex<HashMap<Key, Arc<tokio::sync::Mutex<Option<Entry>>>>>);

impl ConfigMaps {
    /// The place of one ConfigMap. Who holds its lock asks the API server; the others wait for that answer.
    fn place(&self, key: &Key, ttl: Duration) -> Arc<tokio::sync::Mutex<Option<Entry>>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= SWEEP_FROM && !places.contains_key(key) {
            places.retain(|_, place| {
                let in_use = Arc::strong_count(place) > 1;
                in_use
                    || place
                        .try_lock()
                        .is_ok_and(|entry| entry.as_ref().is_some_and(|entry| entry.read.elapsed() < ttl))
            });
        }
        Arc::clone(places.entry(key.clone()).or_default())
    }
}

#[derive(Debug)]
enum Outcome {
    Found(Data),
    Missing,
    NotRead { reason: String, settled: bool },
}

impl Outcome {
    /// For a reason that may pass.
    fn not_read(error: &LookUpError) -> Self {
        Self::NotRead {
            reason: error.to_string(),
            settled: false,
        }
    }
}

/// ConfigMaps as they were fetched for one reading.
#[derive(Debug, Default)]
pub struct Fetched(BTreeMap<String, BTreeMap<String, Outcome>>);

impl Fetched {
    fn put(&mut self, (namespace, name): Key, outcome: Outcome) {
        self.0.entry(namespace).or_default().insert(name, outcome);
    }

    fn get(&self, namespace: &str, name: &str) -> Option<&Outcome> {
        self.0.get(namespace)?.get(name)
    }

    /// Whether asking again would be in vain: it was found, there is none, or the policy forbids it.
    pub(in crate::cluster) fn is_settled(&self, namespace: &str, name: &str) -> bool {
        match self.get(namespace, name) {
            Some(Outcome::Found(_) | Outcome::Missing) => true,
            Some(Outcome::NotRead { settled, .. }) => *settled,
            None => false,
        }
    }
}

impl Sources for Fetched {
    fn config_map(&self, namespace: &str, name: &str) -> LookUp<'_> {
        match self.get(namespace, name) {
            Some(Outcome::Found(data)) => LookUp::Found(data),
            Some(Outcome::Missing) => LookUp::Missing,
            Some(Outcome::NotRead { reason, .. }) => LookUp::NotRead(reason),
            None => LookUp::NotRead("it was not looked up"),
        }
    }
}

impl LookUps {
    /// The ConfigMaps of one namespace that a review needs, all within one deadline. What `allowed` (the policy's
    /// `sources.configMaps`) forbids, or what does not come in time, is not read, with the reason.
    pub async fn config_maps(&self, namespace: &str, names: &BTreeSet<String>, allowed: bool) -> Fetched {
        let wanted = names
            .iter()
            .map(|name| ((namespace.to_owned(), name.clone()), allowed))
            .collect();
        self.fetch(wanted, self.timing.look_up).await
    }

    /// ConfigMaps by namespace and name, with whether each may be read, all within one deadline.
    pub(in crate::cluster) async fn fetch(&self, wanted: BTreeMap<Key, bool>, within: Duration) -> Fetched {
        let mut fetched = Fetched::default();
        let deadline = Instant::now() + within;
        let mut asked = FuturesUnordered::new();
        for (key, allowed) in wanted {
            if allowed {
                asked.push(async move {
                    let outcome = timeout_at(deadline, self.config_map(&key)).await;
                    let outcome = outcome.unwrap_or_else(|_| {
                        self.metrics.looked_up("configmap", "timeout");
                        let what = described("configmap", &key.0, &key.1);
                        Outcome::not_read(&LookUpError::TimedOut { what, within })
                    });
                    (key, outcome)
                });
            } else {
                let reason = "the policy does not let ConfigMaps be read (sources.configMaps: never)";
                fetched.put(
                    key,
                    Outcome::NotRead {
                        reason: reason.to_owned(),
                        settled: true,
                    },
                );
            }
        }
        while let Some((key, outcome)) = asked.next().await {
            fetched.put(key, outcome);
        }
        fetched
    }

    async fn config_map(&self, key: &Key) -> Outcome {
        // Before the lock: who holds the lock must not wait for a place behind others. The semaphore is never closed.
        let _place = self.at_once.acquire().await;
        let ttl = self.timing.config_map_ttl;
        let place = self.config_maps.place(key, ttl);
        let mut entry = place.lock().await;
        if let Some(known) = entry.as_ref().filter(|known| known.read.elapsed() < ttl) {
            self.metrics.looked_up("configmap", "cached");
            return Outcome::Found(Arc::clone(&known.data));
        }
        let (namespace, name) = key;
        let path = namespaced("", "v1", namespace, "configmaps");
        // The answer tells the state of some time after the question.
        let read = Instant::now();
        match self.ask::<ConfigMap>(&path, "configmap", namespace, name).await {
            Ok(found) => {
                let resource_version = found.metadata.resource_version;
                let data = match entry.take() {
                    Some(known) if known.resource_version == resource_version => known.data,
                    _ => Arc::new(found.data.unwrap_or_default()),
                };
                *entry = Some(Entry {
                    read,
                    resource_version,
                    data: Arc::clone(&data),
                });
                Outcome::Found(data)
            }
            Err(LookUpError::NotFound { .. }) => {
                *entry = None;
                Outcome::Missing
            }
            Err(error) => Outcome::NotRead {
                reason: error.to_string(),
                settled: false,
            },
        }
    }
}
