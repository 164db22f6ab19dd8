//! Whether the process can answer reviews rightly, by named conditions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Named conditions that must all hold. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Condition to the reason why it does not hold; `None` where it does.
    conditions: Mutex<BTreeMap<&'static str, Option<String>>>,
    holds: AtomicBool,
    draining: AtomicBool,
}

impl Readiness {
    /// Waits for these conditions (`"cluster cache synced"`, `"policies loaded"`, `"certificate loaded"` …).
    #[must_use]
    pub fn awaiting(conditions: &[&'static str]) -> Self {
        let conditions: BTreeMap<_, _> = conditions
            .iter()
            .map(|condition| (*condition, Some("not yet".to_owned())))
            .collect();
        let holds = AtomicBool::new(conditions.is_empty());
        Self(Arc::new(Inner {
            conditions: Mutex::new(conditions),
            holds,
            draining: AtomicBool::new(false),
        }))
    }

    /// The condition holds.
    pub fn met(&self, condition: &'static str) {
        self.change(condition, None);
    }

    /// The condition does not hold, for this reason.
    pub fn unmet(&self, condition: &'static str, reason: impl Into<String>) {
        self.change(condition, Some(reason.into()));
    }

    /// Not ready from now on, because the process is about to end. Reviews that still come are answered.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
    }

    /// Whether every condition holds: whether a review can be judged. Stays true while draining.
    #[must_use]
    pub fn can_judge(&self) -> bool {
        self.0.holds.load(Ordering::Acquire)
    }

    /// Whether new requests should be sent here.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.can_judge() && !self.0.draining.load(Ordering::Acquire)
    }

    /// Why not, one line each: `cluster cache synced: not yet`.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let conditions = self.lock();
        let unmet = conditions
            .iter()
            .filter_map(|(name, why)| why.as_ref().map(|why| format!("{name}: {why}")));
        let mut reasons: Vec<String> = unmet.collect();
        if self.0.draining.load(Ordering::Acquire) {
            reasons.push("shutting down".to_owned());
        }
        reasons
    }

    fn change(&self, condition: &'static str, reason: Option<String>) {
        let mut conditions = self.lock();
        conditions.insert(condition, reason);
        let holds = conditions.values().all(Option::is_none);
        self.0.holds.store(holds, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<String>>> {
        self.0.conditions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_only_when_every_condition_holds() {
        let readiness = Readiness::awaiting(&["cluster cache synced", "policies loaded"]);
        assert!(!readiness.is_ready());
        readiness.met("policies loaded");
        assert_eq!(readiness.reasons(), ["cluster cache synced: not yet"]);
        readiness.met("cluster cache synced");
        assert!(readiness.is_ready() && readiness.reasons().is_empty());
        readiness.unmet("policies loaded", "rules.yaml line 3: unknown field");
        assert!(!readiness.is_ready());
    }

    #[test]
    fn draining_takes_readiness_but_not_judgement() {
        let readiness = Readiness::awaiting(&[]);
        readiness.drain();
        assert!(!readiness.is_ready() && readiness.can_judge());
        assert_eq!(readiness.reasons(), ["shutting down"]);
    }
}
