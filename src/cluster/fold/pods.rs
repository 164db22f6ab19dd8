//! Pods to their footprints. Pods that do not count are dropped right after decoding.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;
use tracing::debug;

use super::Known;
use super::templates::{Seen, Templates};
use crate::cluster::facts::{Facts, Reader};
use crate::cluster::lock;
use crate::cluster::lookup::{Fetched, LookUps};
use crate::cluster::metrics::Metrics;
use crate::cluster::projection::{self, Decoded, Line, Page, salvage};
use crate::cluster::timing::Timing;
use crate::cluster::watch::{Change, Fold};

/// Pods that may wait at once for a ConfigMap; what is above stays unknown until it changes or is listed again.
const MOST_WAITING: usize = 10_000;
/// Waiting pods that are read again in one go.
const REREAD_AT_ONCE: usize = 64;
/// Longest pause between two attempts for a waiting pod.
const LONGEST_REREAD: Duration = Duration::from_mins(5);

/// See the module.
pub(in crate::cluster) struct PodFold<F> {
    facts: Arc<Mutex<F>>,
    reader: Arc<dyn Reader>,
    look_ups: LookUps,
    metrics: Metrics,
    timing: Timing,
    /// By UID. For a pod of which all that it names was looked up: a hash of what the facts took from it, so that a mere
    /// change of its conditions costs nothing, here or at the API server.
    known: Known<Option<u64>>,
    templates: Templates,
    waiting: BTreeMap<String, Waiting>,
    listed_once: bool,
}

/// A pod whose ConfigMaps could not be read.
struct Waiting {
    seen: Box<Seen>,
    due: Instant,
    pause: Duration,
}

/// What becomes of a pod.
enum Step {
    Set(Box<Seen>),
    Remove,
}

impl<F: Facts> PodFold<F> {
    pub(in crate::cluster) fn new(
        facts: Arc<Mutex<F>>,
        reader: Arc<dyn Reader>,
        look_ups: LookUps,
        metrics: Metrics,
        timing: Timing,
    ) -> Self {
        Self {
            facts,
            reader,
            look_ups,
            metrics,
            timing,
            known: Known::default(),
            templates: Templates::default(),
            waiting: BTreeMap::new(),
            listed_once: false,
        }
    }

    fn read(&mut self, object: Decoded<Seen>, steps: &mut BTreeMap<String, Step>) {
        let seen = match object {
            Decoded::Whole(seen) => seen,
            // What was known of it is better than what is left of it.
            Decoded::Unreadable(unreadable) if self.known.contains(unreadable.metadata("uid")) => {
                self.known.touch(unreadable.metadata("uid"));
                return;
            }
            Decoded::Unreadable(unreadable) => match salvage(&unreadable) {
                Some(pod) => Seen::from(pod),
                None => return,
            },
        };
        let uid = seen.pod.metadata.uid.clone();
        if uid.is_empty() {
            return;
        }
        if self.reader.counts(&seen.pod) {
            match self.known.get(&uid) {
                Some(Some(hash)) if *hash == self.fingerprint(&seen) && !steps.contains_key(&uid) => {
                    self.known.touch(&uid);
                }
                _ => {
                    self.known.set(&uid, None);
                    steps.insert(uid, Step::Set(Box::new(seen)));
                }
            }
        } else {
            self.gone(&uid, steps);
        }
    }

    fn fingerprint(&self, seen: &Seen) -> u64 {
        let labels = self.look_ups.known_labels(&seen.pod.metadata.namespace);
        self.templates.fingerprint(seen, &labels)
    }

    fn gone(&mut self, uid: &str, steps: &mut BTreeMap<String, Step>) {
        self.waiting.remove(uid);
        if self.known.remove(uid) {
            steps.insert(uid.to_owned(), Step::Remove);
        }
    }

    /// Carries the steps out, a batch in one hold of the lock. Each pod has one step, so their order is free.
    async fn carry_out(&mut self, steps: BTreeMap<String, Step>) {
        let (batch, look_up) = if self.listed_once {
            (self.timing.batch, self.timing.look_up)
        } else {
            (self.timing.first_batch, self.timing.listing_look_up)
        };
        let mut plain = Vec::new();
        let mut naming = Vec::new();
        for (uid, step) in steps {
            match step {
                Step::Set(seen) if !seen.pod.has_ended() => {
                    let names = self.reader.config_maps(&seen.pod);
                    if names.is_empty() {
                        // Of a whole list it would cost more than it spares.
                        if self.listed_once {
                            let hash = self.fingerprint(&seen);
                            self.known.set(&uid, Some(hash));
                        }
                        plain.push((uid, Step::Set(seen)));
                    } else {
                        naming.push((uid, seen, names));
                    }
                }
                step => plain.push((uid, step)),
            }
        }
        // Pods without look-ups do not wait for those with.
        let nothing = Fetched::default();
        let mut plain = plain.into_iter();
        while !plain.as_slice().is_empty() {
            {
                let mut facts = lock(&self.facts);
                for (uid, step) in plain.by_ref().take(batch.max(1)) {
                    self.waiting.remove(&uid);
                    match step {
                        Step::Set(seen) => match seen.template {
                            Some(template) => facts.set_replica(&seen.pod, template),
                            None => facts.set_pod(&seen.pod, &nothing),
                        },
                        Step::Remove => facts.remove_pod(&uid),
                    }
                }
            }
            // Reviews that wait for the lock get their turn.
            yield_now().await;
        }
        let mut naming = naming.into_iter();
        while !naming.as_slice().is_empty() {
            let chunk: Vec<_> = naming.by_ref().take(batch.max(1)).collect();
            self.set_naming(chunk, look_up).await;
        }
        self.metrics.waiting_for_config_maps(self.waiting.len());
    }

    async fn set_naming(&mut self, chunk: Vec<(String, Box<Seen>, BTreeSet<String>)>, look_up: Duration) {
        let mut wanted = BTreeMap::new();
        for (_, seen, names) in &chunk {
            let namespace = &seen.pod.metadata.namespace;
            let allowed = self
                .reader
                .may_read_config_maps(&seen.pod, &self.look_ups.known_labels(namespace));
            for name in names {
                // One pod that may read it is enough.
                *wanted.entry((namespace.clone(), name.clone())).or_insert(false) |= allowed;
            }
        }
        let fetched = self.look_ups.fetch(wanted, look_up).await;
        {
            let mut facts = lock(&self.facts);
            for (_, seen, _) in &chunk {
                facts.set_pod(&seen.pod, &fetched);
            }
        }
        for (uid, seen, names) in chunk {
            let namespace = &seen.pod.metadata.namespace;
            if names.iter().all(|name| fetched.is_settled(namespace, name)) {
                self.waiting.remove(&uid);
                let hash = self.fingerprint(&seen);
                self.known.set(&uid, Some(hash));
            } else if self.waiting.len() < MOST_WAITING || self.waiting.contains_key(&uid) {
                let pause = self
                    .waiting
                    .get(&uid)
                    .map_or(self.timing.first_reread, |waiting| waiting.pause * 2);
                let pause = pause.min(LONGEST_REREAD);
                debug!(
                    namespace,
                    name = seen.pod.metadata.name,
                    ?pause,
                    "a ConfigMap of the pod could not be read"
                );
                self.waiting.insert(
                    uid,
                    Waiting {
                        seen,
                        due: Instant::now() + pause,
                        pause,
                    },
                );
            }
        }
    }
}

impl<F: Facts> Fold for PodFold<F> {
    type Object = Seen;

    fn page(&mut self, text: &str) -> Result<Page<Seen>, serde_json::Error> {
        let Self {
            reader, templates, ..
        } = self;
        // One that is passed over and was counted before is not named by this list, and so it ends with it.
        let by_text = projection::page_by_text(text, |cut| {
            if reader.may_count(cut) {
                templates.read(cut).map(Some)
            } else {
                Some(None)
            }
        });
        by_text.map_or_else(|| projection::page(text), Ok)
    }

    fn line(&mut self, bytes: &[u8]) -> Result<Line<Seen>, serde_json::Error> {
        let line = std::str::from_utf8(bytes).ok().and_then(projection::applied);
        let read = line.and_then(|cut| {
            let version = cut.metadata("resourceVersion")?.to_owned();
            if self.reader.may_count(&cut) {
                let seen = self.templates.read(&cut)?;
                return Some(Line::Applied(Decoded::Whole(seen), version));
            }
            let uid = cut.metadata("uid")?;
            (!self.known.contains(uid)).then_some(Line::Passed(version))
        });
        read.map_or_else(|| projection::line(bytes), Ok)
    }

    fn begin(&mut self) {
        self.known.begin();
        // A new list may be there because pods are to be read by other policies.
        self.known.set_all(|| None);
        lock(&self.facts).relisted_pods();
    }

    async fn listed(&mut self, items: Vec<Decoded<Seen>>) {
        let mut steps = BTreeMap::new();
        for item in items {
            self.read(item, &mut steps);
        }
        self.carry_out(steps).await;
    }

    async fn complete(&mut self) {
        let gone = self.known.complete();
        for uid in &gone {
            self.waiting.remove(&**uid);
        }
        self.carry_out(gone.into_iter().map(|uid| (uid.into(), Step::Remove)).collect())
            .await;
        lock(&self.facts).relisted_pods();
        self.listed_once = true;
        self.templates.forget();
    }

    async fn changed(&mut self, changes: Vec<Change<Seen>>) {
        let mut steps = BTreeMap::new();
        for change in changes {
            match change {
                Change::Applied(object) => self.read(object, &mut steps),
                Change::Deleted(Decoded::Whole(seen)) => self.gone(&seen.pod.metadata.uid, &mut steps),
                Change::Deleted(Decoded::Unreadable(unreadable)) => {
                    self.gone(unreadable.metadata("uid"), &mut steps);
                }
            }
        }
        self.carry_out(steps).await;
    }

    fn due(&self) -> Option<Instant> {
        self.waiting.values().map(|waiting| waiting.due).min()
    }

    async fn resume(&mut self) {
        let now = Instant::now();
        let due = self
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.due <= now)
            .take(REREAD_AT_ONCE);
        let chunk: Vec<_> = due
            .map(|(uid, waiting)| {
                (
                    uid.clone(),
                    waiting.seen.clone(),
                    self.reader.config_maps(&waiting.seen.pod),
                )
            })
            .collect();
        self.set_naming(chunk, self.timing.look_up).await;
        self.metrics.waiting_for_config_maps(self.waiting.len());
    }
}
