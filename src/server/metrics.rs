//! What is counted. Labels are enums, so that no caller can make a series of its own; the only names among them are
//! bounded in number (`would_deny`).

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelValueEncoder, prometheus_text,
    text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::decision::Verdict;
use crate::finding::{Code, Severity};
use crate::workload::WorkloadKind;

mod would_deny;

use would_deny::WouldDeny;

/// Upper bounds of the duration histogram in seconds: from a tenth of our own budget to past the registered timeout.
const SECONDS: [f64; 14] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.3, 1.0, 2.5, 5.0,
];

/// Declares an enum whose variants are the values of a label.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
                encoder.write_str(match self { $(Self::$variant => $text,)+ })
            }
        }
    };
}

label! {
    /// Which path was asked.
    Endpoint {
        /// `/mutate`
        Mutate = "mutate",
        /// `/validate`
        Validate = "validate",
    }
}

label! {
    /// What was answered.
    Outcome {
        /// Judged and admitted.
        Admit = "admit",
        /// Judged and denied.
        Deny = "deny",
        /// Admitted because of the policy's mode only.
        WouldDeny = "would-deny",
        /// Nothing of ours: admitted.
        NotOurs = "not-ours",
        /// The object cannot be read: denied as invalid.
        Malformed = "malformed",
        /// The inventory is not ready.
        NotReady = "not-ready",
        /// Our own deadline passed.
        Deadline = "deadline",
        /// A fault of ours.
        Failure = "failure",
    }
}

label! {
    /// Kind of the object, without those that nobody registers.
    Kind {
        /// A pod.
        Pod = "Pod",
        /// A Deployment.
        Deployment = "Deployment",
        /// A StatefulSet.
        StatefulSet = "StatefulSet",
        /// A ReplicaSet.
        ReplicaSet = "ReplicaSet",
        /// A ReplicationController.
        ReplicationController = "ReplicationController",
        /// A DaemonSet.
        DaemonSet = "DaemonSet",
        /// A Job.
        Job = "Job",
        /// A CronJob.
        CronJob = "CronJob",
        /// A kind with pod templates in a schema of its own.
        Custom = "custom",
        /// A scale sub-resource.
        Scale = "Scale",
        /// Anything else.
        Other = "other",
    }
}

impl From<Option<WorkloadKind>> for Kind {
    fn from(kind: Option<WorkloadKind>) -> Self {
        match kind {
            Some(WorkloadKind::Pod) => Self::Pod,
            Some(WorkloadKind::Deployment) => Self::Deployment,
            Some(WorkloadKind::StatefulSet) => Self::StatefulSet,
            Some(WorkloadKind::ReplicaSet) => Self::ReplicaSet,
            Some(WorkloadKind::ReplicationController) => Self::ReplicationController,
            Some(WorkloadKind::DaemonSet) => Self::DaemonSet,
            Some(WorkloadKind::Job) => Self::Job,
            Some(WorkloadKind::CronJob) => Self::CronJob,
            Some(WorkloadKind::Custom(_)) => Self::Custom,
            None => Self::Other,
        }
    }
}

label! {
    /// Why a request got no review.
    Refusal {
        /// 400
        BadRequest = "bad-request",
        /// 404
        NotFound = "not-found",
        /// 405
        Method = "method",
        /// 408
        Timeout = "timeout",
        /// 413
        TooLarge = "too-large",
        /// 415
        MediaType = "media-type",
        /// 500
        Failure = "failure",
    }
}

label! {
    /// Why a connection ended before its first request.
    Dropped {
        /// The handshake failed.
        Handshake = "handshake",
        /// The handshake took too long.
        HandshakeTimeout = "handshake-timeout",
        /// The headers took too long.
        HeaderTimeout = "header-timeout",
    }
}

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.write_str(self.as_str())
    }
}

impl EncodeLabelValue for Severity {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReviewLabels {
    endpoint: Endpoint,
    kind: Kind,
    verdict: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FindingLabels {
    code: Code,
    severity: Severity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    endpoint: Endpoint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: Refusal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DroppedLabels {
    reason: Dropped,
}

/// A text format of Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus 0.0.4.
    Plain,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format for an `Accept` header.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Plain
        }
    }

    /// The `Content-Type` of the format.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Every metric of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    reviews: Family<ReviewLabels, Counter>,
    findings: Family<FindingLabels, Counter>,
    durations: Family<EndpointLabels, Histogram, fn() -> Histogram>,
    refused: Family<RefusalLabels, Counter>,
    dropped: Family<DroppedLabels, Counter>,
    would_deny: WouldDeny,
    abandoned: Counter,
    faults: Counter,
    reload_failures: Counter,
    connections: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("vramgate")),
            reviews: Family::default(),
            findings: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            refused: Family::default(),
            dropped: Family::default(),
            would_deny: WouldDeny::default(),
            abandoned: Counter::default(),
            faults: Counter::default(),
            reload_failures: Counter::default(),
            connections: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    // The encoder appends `_total` to counters and a full stop to the help.
    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register("reviews", "Reviews answered", self.reviews.clone());
        registry.register("findings", "Findings in answers", self.findings.clone());
        registry.register(
            "review_duration_seconds",
            "Time from the end of the body to the answer",
            self.durations.clone(),
        );
        registry.register(
            "http_refused",
            "Requests refused before a review was read",
            self.refused.clone(),
        );
        registry.register(
            "connections_dropped",
            "Connections dropped before a request was complete",
            self.dropped.clone(),
        );
        registry.register(
            "would_deny",
            "Reasons of reviews that were admitted only because the policy's mode is warn or shadow, by namespace and code",
            self.would_deny.family(),
        );
        registry.register(
            "answers_abandoned",
            "Answers that no caller took; their reservations were given back",
            self.abandoned.clone(),
        );
        registry.register(
            "faults",
            "Faults of the program itself that were caught",
            self.faults.clone(),
        );
        registry.register(
            "certificate_reload_failures",
            "Polls at which the certificate files could not be used; the last good one is served",
            self.reload_failures.clone(),
        );
        registry.register("connections", "Open connections", self.connections.clone());
    }

    /// Lets another room register what it counts. Names are without the prefix.
    pub fn with_registry(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds a gauge that is read at each scrape; `None` leaves the sample out. The name is without the prefix.
    pub fn gauge(
        &self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) {
        self.collect(name, help, None, move || {
            read().map(|value| (String::new(), value)).into_iter().collect()
        });
    }

    /// Adds a gauge by one label, read at each scrape. The closure bounds the number of series: give it only what
    /// is out of order (`node` over its budget), never every object.
    pub fn gauge_by(
        &self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        read: impl Fn() -> BTreeMap<String, f64> + Send + Sync + 'static,
    ) {
        self.collect(name, help, Some(label), read);
    }

    /// Adds a counter that others keep, read at each scrape.
    pub fn counter(
        &self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> u64 + Send + Sync + 'static,
    ) {
        let collector = CountedElsewhere {
            name,
            help,
            read: Box::new(read),
        };
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(collector));
    }

    fn collect(
        &self,
        name: &'static str,
        help: &'static str,
        label: Option<&'static str>,
        read: impl Fn() -> BTreeMap<String, f64> + Send + Sync + 'static,
    ) {
        let collector = ReadAtScrape {
            name,
            help,
            label,
            read: Box::new(read),
        };
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(collector));
    }

    /// The text of `/metrics`.
    pub fn encode(&self, format: Format) -> Result<String, fmt::Error> {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = String::new();
        match format {
            Format::Plain => prometheus_text::encode(&mut page, &registry)?,
            Format::OpenMetrics => text::encode(&mut page, &registry)?,
        }
        Ok(page)
    }

    pub(crate) fn reviewed(&self, endpoint: Endpoint, kind: Kind, verdict: Outcome, took: Duration) {
        self.reviews
            .get_or_create(&ReviewLabels {
                endpoint,
                kind,
                verdict,
            })
            .inc();
        self.durations
            .get_or_create(&EndpointLabels { endpoint })
            .observe(took.as_secs_f64());
    }

    pub(crate) fn found(&self, code: Code, severity: Severity) {
        self.findings
            .get_or_create(&FindingLabels { code, severity })
            .inc();
    }

    /// Counts what would have been denied under `mode: enforce`; nothing of any other verdict.
    pub(crate) fn would_deny(&self, namespace: &str, verdict: &Verdict) {
        if verdict.would_deny {
            self.would_deny.count(namespace, &verdict.denied_by);
        }
    }

    pub(crate) fn refused(&self, reason: Refusal) {
        self.refused.get_or_create(&RefusalLabels { reason }).inc();
    }

    pub(crate) fn dropped(&self, reason: Dropped) {
        self.dropped.get_or_create(&DroppedLabels { reason }).inc();
    }

    pub(crate) fn abandoned(&self) {
        self.abandoned.inc();
    }

    pub(crate) fn fault(&self) {
        self.faults.inc();
    }

    pub(crate) fn reload_failed(&self) {
        self.reload_failures.inc();
    }

    pub(crate) fn connections(&self) -> &Gauge {
        &self.connections
    }
}

/// A counter that somebody else keeps.
struct CountedElsewhere {
    name: &'static str,
    help: &'static str,
    read: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for CountedElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedElsewhere")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Collector for CountedElsewhere {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let metric = encoder.encode_descriptor(self.name, self.help, None, MetricType::Counter)?;
        ConstCounter::new((self.read)()).encode(metric)
    }
}

/// A gauge that has no state of its own.
struct ReadAtScrape {
    name: &'static str,
    help: &'static str,
    label: Option<&'static str>,
    read: Box<dyn Fn() -> BTreeMap<String, f64> + Send + Sync>,
}

impl fmt::Debug for ReadAtScrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAtScrape")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Collector for ReadAtScrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let samples = (self.read)();
        let mut metric = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        for (value_of_label, value) in samples {
            match self.label {
                Some(label) => {
                    let labels = [(label, value_of_label)];
                    ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
                }
                None => metric.encode_gauge(&value)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(metrics: &Metrics) -> String {
        metrics.encode(Format::Plain).unwrap()
    }

    #[test]
    fn counts_by_closed_labels() {
        let metrics = Metrics::new();
        metrics.reviewed(
            Endpoint::Validate,
            Kind::Pod,
            Outcome::WouldDeny,
            Duration::from_micros(120),
        );
        metrics.found(Code::Vg201, Severity::Error);
        metrics.refused(Refusal::TooLarge);
        let page = page(&metrics);
        for line in [
            "vramgate_reviews_total{endpoint=\"validate\",kind=\"Pod\",verdict=\"would-deny\"} 1",
            "vramgate_findings_total{code=\"VG201\",severity=\"error\"} 1",
            "vramgate_http_refused_total{reason=\"too-large\"} 1",
            "vramgate_review_duration_seconds_bucket{endpoint=\"validate\",le=\"0.0001\"} 0",
            "vramgate_review_duration_seconds_bucket{endpoint=\"validate\",le=\"0.00025\"} 1",
        ] {
            assert!(page.contains(line), "{line}\nis not in\n{page}");
        }
    }

    #[test]
    fn gauges_are_read_at_the_scrape() {
        let metrics = Metrics::new();
        metrics.gauge("reservations", "Reservations", || Some(3.0));
        metrics.counter("ledger_writes", "Writes", || 7);
        metrics.gauge("cache_age_seconds", "Age of the cache", || None);
        metrics.gauge_by("node_over_budget_mib", "MiB above the budget", "node", || {
            BTreeMap::from([("gpu-1".to_owned(), 512.0)])
        });
        for format in [Format::Plain, Format::OpenMetrics] {
            let page = metrics.encode(format).unwrap();
            assert!(page.contains("vramgate_reservations 3"), "{page}");
            assert!(page.contains("\nvramgate_ledger_writes_total 7"), "{page}");
            assert!(
                page.contains("vramgate_node_over_budget_mib{node=\"gpu-1\"} 512"),
                "{page}"
            );
            assert!(!page.contains("vramgate_cache_age_seconds 0"), "{page}");
        }
    }
}
