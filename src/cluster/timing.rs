//! Every duration and size that the cluster room goes by.

use std::time::Duration;

/// Durations and sizes; the default is for real clusters, tests make them shorter.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Pause after a first failure; it doubles with each further one.
    pub first_retry: Duration,
    /// Longest pause between two attempts.
    pub longest_retry: Duration,
    /// Pause before an API that the cluster does not serve is asked for again.
    pub absent_retry: Duration,
    /// How long a watch may say nothing before it is taken for dead. The API server sends a bookmark about once a
    /// minute, so this means that two were missed.
    pub silence: Duration,
    /// After how many seconds the API server is asked to end a watch by itself.
    pub watch_seconds: u32,
    /// Objects per page of a list.
    pub page: u32,
    /// How long one page, or the start of a watch, may take.
    pub page_timeout: Duration,
    /// Objects folded in one hold of the lock before the first list is complete.
    pub first_batch: usize,
    /// Objects folded in one hold of the lock afterwards, when reviews wait for it.
    pub batch: usize,
    /// All look-ups of one review together.
    pub look_up: Duration,
    /// ConfigMaps of one batch while listing, when nobody waits for a verdict yet.
    pub listing_look_up: Duration,
    /// How long a ConfigMap that was read counts as current.
    pub config_map_ttl: Duration,
    /// How long the number of pods that an owner wants counts as current.
    pub owner_ttl: Duration,
    /// How long one read or write of a node's record may take. A review that waits for it has 2.5 s in all.
    pub record: Duration,
    /// Pause between two rounds in which nodes' numbers are compared with what they advertise.
    pub advertise: Duration,
    /// Pause before a number is written once more that was written and is not shown yet.
    pub advertise_again: Duration,
    /// Pause between two rounds of housekeeping.
    pub housekeeping: Duration,
    /// Age from which a reservation is checked against the API server. The API server may store a pod up to its
    /// request timeout (60 s) after our answer.
    pub reservation_ttl: Duration,
    /// How long one check of a reservation, or one Event, may take.
    pub housekeeping_timeout: Duration,
    /// How often an over-budget device is told again while it lasts.
    pub over_budget_repeat: Duration,
    /// Pause before a pod whose ConfigMap could not be read is read again; it doubles up to five minutes.
    pub first_reread: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            first_retry: Duration::from_millis(500),
            longest_retry: Duration::from_secs(30),
            absent_retry: Duration::from_mins(5),
            silence: Duration::from_secs(150),
            watch_seconds: 290,
            page: 500,
            page_timeout: Duration::from_mins(1),
            first_batch: 500,
            batch: 50,
            look_up: Duration::from_millis(300),
            listing_look_up: Duration::from_secs(5),
            config_map_ttl: Duration::from_secs(1),
            owner_ttl: Duration::from_secs(1),
            record: Duration::from_secs(2),
            advertise: Duration::from_secs(1),
            advertise_again: Duration::from_secs(10),
            housekeeping: Duration::from_secs(5),
            reservation_ttl: Duration::from_secs(65),
            housekeeping_timeout: Duration::from_secs(5),
            over_budget_repeat: Duration::from_mins(10),
            first_reread: Duration::from_secs(2),
        }
    }
}
