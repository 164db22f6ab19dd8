//! Pauses between attempts: they double, have an upper end, and differ between replicas.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Pauses after consecutive failures.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// Failures since the last success.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The pause after one more failure: between half of the doubled pause and all of it.
    pub(super) fn failed(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let full = self.first.saturating_mul(factor).min(self.longest);
        let half = full / 2;
        half + half.saturating_mul(random_thousandths()) / 1000
    }
}

/// A number below 1,000. The standard library seeds each hasher at random, which is random enough to spread attempts.
fn random_thousandths() -> u32 {
    let hash = RandomState::new().hash_one(0_u8);
    u32::try_from(hash % 1000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_again_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for full in [100, 200, 400, 800, 1000, 1000] {
            let pause = backoff.failed();
            assert!(
                pause >= Duration::from_millis(full / 2) && pause <= Duration::from_millis(full),
                "{pause:?}"
            );
        }
        for _ in 0..100 {
            assert!(backoff.failed() <= Duration::from_secs(1));
        }
        assert_eq!(backoff.failures(), 106);
        backoff.succeeded();
        assert!(backoff.failed() <= Duration::from_millis(100));
    }

    #[test]
    fn two_replicas_do_not_pause_alike() {
        let pause = || Backoff::new(Duration::from_secs(1000), Duration::from_secs(1000)).failed();
        let first = pause();
        assert!((0..20).any(|_| pause() != first));
    }
}
