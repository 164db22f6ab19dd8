//! Counters of the cluster room.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::freshness::{Freshness, Watched};

type ByWatch = Family<[(&'static str, &'static str); 1], Counter>;
type ByPair = Family<[(&'static str, &'static str); 2], Counter>;

/// Counters; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    lists: ByWatch,
    events: ByPair,
    failures: ByPair,
    unreadable: ByWatch,
    look_ups: ByPair,
    reservations_released: Counter,
    reservation_checks_failed: Counter,
    pods_waiting_for_config_maps: Gauge,
    over_budget: Gauge,
    events_failed: Counter,
    denial_events: ByWatch,
    record_calls: ByPair,
    record_durations: Durations,
    advertisements: ByWatch,
    not_advertising: Gauge,
}

/// Upper bounds in seconds, up to the deadline of a call.
const SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.0];

type Histograms = Family<[(&'static str, &'static str); 1], Histogram, fn() -> Histogram>;

#[derive(Clone, Debug)]
struct Durations(Histograms);

impl Default for Durations {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(SECONDS)))
    }
}

impl Metrics {
    /// Registers every counter, with the age of the watches.
    pub fn register(&self, registry: &mut Registry, freshness: Arc<Freshness>) {
        registry.register(
            "lists",
            "Complete lists read from the API server",
            self.lists.clone(),
        );
        registry.register("watch_events", "Events of the watches", self.events.clone());
        registry.register(
            "watch_failures",
            "Lists and watches that failed, by reason",
            self.failures.clone(),
        );
        registry.register(
            "unreadable_objects",
            "Objects of the watches that could not be decoded",
            self.unreadable.clone(),
        );
        registry.register(
            "look_ups",
            "Look-ups at the API server, by kind and result",
            self.look_ups.clone(),
        );
        registry.register(
            "reservations_released",
            "Reservations given back because their pod does not exist",
            self.reservations_released.clone(),
        );
        registry.register(
            "reservation_checks_failed",
            "Old reservations whose pod could not be looked up; they are kept",
            self.reservation_checks_failed.clone(),
        );
        registry.register(
            "pods_waiting_for_config_maps",
            "Pods counted as unknown because a ConfigMap could not be read yet",
            self.pods_waiting_for_config_maps.clone(),
        );
        registry.register(
            "over_budget",
            "Nodes' resources with a device above its budget",
            self.over_budget.clone(),
        );
        registry.register(
            "events_failed",
            "Kubernetes Events that could not be written",
            self.events_failed.clone(),
        );
        registry.register(
            "denial_events",
            "Events on what makes denied pods, by result: written, failed, limited (told often enough) or dropped (too many wait)",
            self.denial_events.clone(),
        );
        registry.register(
            "ledger_calls",
            "Reads and writes of the records that replicas share, by result",
            self.record_calls.clone(),
        );
        registry.register(
            "ledger_call_duration_seconds",
            "How long they took",
            self.record_durations.0.clone(),
        );
        registry.register(
            "node_advertisements",
            "Writes of vramgate.io/gpu-ppm to the status of nodes, by result",
            self.advertisements.clone(),
        );
        registry.register(
            "nodes_not_advertising",
            "Nodes whose status does not say what it should of vramgate.io/gpu-ppm",
            self.not_advertising.clone(),
        );
        registry.register_collector(Box::new(Ages(freshness)));
    }

    pub(super) fn listed(&self, watched: Watched) {
        self.lists.get_or_create(&[("watch", watched.as_str())]).inc();
    }

    pub(super) fn event(&self, watched: Watched, kind: &'static str) {
        self.events
            .get_or_create(&[("watch", watched.as_str()), ("type", kind)])
            .inc();
    }

    pub(super) fn failed(&self, watched: Watched, reason: &'static str) {
        self.failures
            .get_or_create(&[("watch", watched.as_str()), ("reason", reason)])
            .inc();
    }

    pub(super) fn unreadable(&self, watched: Watched) {
        self.unreadable
            .get_or_create(&[("watch", watched.as_str())])
            .inc();
    }

    pub(super) fn looked_up(&self, kind: &'static str, result: &'static str) {
        self.look_ups
            .get_or_create(&[("kind", kind), ("result", result)])
            .inc();
    }

    pub(super) fn stored(&self, call: &'static str, result: &'static str, took: Duration) {
        self.record_calls
            .get_or_create(&[("call", call), ("result", result)])
            .inc();
        self.record_durations
            .0
            .get_or_create(&[("call", call)])
            .observe(took.as_secs_f64());
    }

    pub(super) fn reservation_released(&self) {
        self.reservations_released.inc();
    }

    pub(super) fn reservation_check_failed(&self) {
        self.reservation_checks_failed.inc();
    }

    pub(super) fn waiting_for_config_maps(&self, pods: usize) {
        self.pods_waiting_for_config_maps
            .set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    pub(super) fn over_budget(&self, entries: usize) {
        self.over_budget.set(i64::try_from(entries).unwrap_or(i64::MAX));
    }

    pub(super) fn advertised(&self, result: &'static str) {
        self.advertisements.get_or_create(&[("result", result)]).inc();
    }

    pub(super) fn not_advertising(&self, nodes: usize) {
        self.not_advertising.set(i64::try_from(nodes).unwrap_or(i64::MAX));
    }

    pub(super) fn denial_event(&self, result: &'static str) {
        self.denial_events.get_or_create(&[("result", result)]).inc();
    }

    pub(super) fn event_failed(&self) {
        self.events_failed.inc();
    }
}

/// The age of each watch, worked out when it is asked for.
#[derive(Debug)]
struct Ages(Arc<Freshness>);

impl Collector for Ages {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let help = "Seconds since a watch last told something or was connected";
        let mut metric = encoder.encode_descriptor("cache_age_seconds", help, None, MetricType::Gauge)?;
        for watched in Watched::ALL {
            let seconds = Duration::as_secs_f64(&self.0.age_of(watched));
            let labels = [("watch", watched.as_str())];
            let labelled = metric.encode_family(&labels)?;
            ConstGauge::new(seconds).encode(labelled)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_printed() {
        let metrics = Metrics::default();
        let mut registry = Registry::with_prefix("vramgate");
        metrics.register(&mut registry, Arc::new(Freshness::default()));
        metrics.failed(Watched::Pods, "gone");
        metrics
            .look_ups
            .get_or_create(&[("kind", "configmap"), ("result", "found")])
            .inc_by(3);
        metrics.over_budget(2);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "vramgate_watch_failures_total{watch=\"pods\",reason=\"gone\"} 1",
            "vramgate_look_ups_total{kind=\"configmap\",result=\"found\"} 3",
            "vramgate_over_budget 2",
            "vramgate_cache_age_seconds{watch=\"nodes\"} ",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
