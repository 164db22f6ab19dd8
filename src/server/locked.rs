//! The one door to a ledger behind its lock.

use std::sync::{Mutex, MutexGuard};

use crate::ledger::Ledger;

/// The ledger, whatever happened to whoever held it last. A panic while the lock was held leaves a ledger that the watch
/// mends (each fact is set whole); refusing every pod from then on would not be mended by anything.
pub fn locked(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(|poisoned| {
        tracing::error!("the ledger's lock was held by a task that panicked; going on with its content");
        ledger.clear_poison();
        poisoned.into_inner()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::policy::PolicySet;

    #[test]
    #[allow(clippy::panic, reason = "that is what is tested")]
    fn a_panic_under_the_lock_is_told_once_and_ends_nothing() {
        let ledger = Arc::new(Mutex::new(Ledger::new(Arc::new(PolicySet::built_in()))));
        let held = Arc::clone(&ledger);
        let panicked = std::thread::spawn(move || {
            let _held = locked(&held);
            panic!("while the lock is held");
        });
        assert!(panicked.join().is_err() && ledger.is_poisoned());
        assert_eq!(locked(&ledger).reserved(), 0);
        assert!(!ledger.is_poisoned());
    }
}
