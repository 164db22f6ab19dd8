//! Whether the watches are complete, and how old what they told is.

use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{gpu_ledgers, policies};

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
    /// All namespaces, for their labels.
    Namespaces,
    /// All nodes.
    Nodes,
    /// All pods of all namespaces and phases.
    Pods,
    /// Devices that DRA drivers publish.
    ResourceSlices,
    /// Classes of such devices.
    DeviceClasses,
    /// Claims to such devices.
    ResourceClaims,
    /// What claims are made from.
    ClaimTemplates,
    /// The device plugin's ConfigMaps that policies name, and no others.
    PluginConfigs,
    /// What gives pods their priority.
    PriorityClasses,
    /// Records of nodes that replicas share.
    GpuLedgers,
    /// Policies.
    Policies,
}

impl Watched {
    /// Each of them.
    pub const ALL: [Self; 11] = [
        Self::Namespaces,
        Self::Nodes,
        Self::Pods,
        Self::ResourceSlices,
        Self::DeviceClasses,
        Self::ResourceClaims,
        Self::ClaimTemplates,
        Self::PluginConfigs,
        Self::PriorityClasses,
        Self::GpuLedgers,
        Self::Policies,
    ];

    /// The word in logs and metrics: the plural of the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Nodes => "nodes",
            Self::Pods => "pods",
            Self::ResourceSlices => "resourceslices",
            Self::DeviceClasses => "deviceclasses",
            Self::ResourceClaims => "resourceclaims",
            Self::ClaimTemplates => "resourceclaimtemplates",
            Self::PluginConfigs => "configmaps",
            Self::PriorityClasses => "priorityclasses",
            Self::GpuLedgers => "gpuledgers",
            Self::Policies => "gpusharingpolicies",
        }
    }

    /// Where it is served: the versions that can be read, newest first.
    pub(crate) const fn paths(self) -> &'static [&'static str] {
        match self {
            Self::Namespaces => &["/api/v1/namespaces"],
            Self::Nodes => &["/api/v1/nodes"],
            Self::Pods => &["/api/v1/pods"],
            Self::ResourceSlices => &[
                "/apis/resource.k8s.io/v1/resourceslices",
                "/apis/resource.k8s.io/v1beta2/resourceslices",
                "/apis/resource.k8s.io/v1beta1/resourceslices",
            ],
            Self::DeviceClasses => &[
                "/apis/resource.k8s.io/v1/deviceclasses",
                "/apis/resource.k8s.io/v1beta2/deviceclasses",
                "/apis/resource.k8s.io/v1beta1/deviceclasses",
            ],
            Self::ResourceClaims => &[
                "/apis/resource.k8s.io/v1/resourceclaims",
                "/apis/resource.k8s.io/v1beta2/resourceclaims",
                "/apis/resource.k8s.io/v1beta1/resourceclaims",
            ],
            Self::ClaimTemplates => &[
                "/apis/resource.k8s.io/v1/resourceclaimtemplates",
                "/apis/resource.k8s.io/v1beta2/resourceclaimtemplates",
                "/apis/resource.k8s.io/v1beta1/resourceclaimtemplates",
            ],
            Self::PriorityClasses => &["/apis/scheduling.k8s.io/v1/priorityclasses"],
            Self::GpuLedgers => &[gpu_ledgers::PATH],
            Self::Policies => &[policies::PATH],
            // Each has a path of its own.
            Self::PluginConfigs => &[],
        }
    }

    /// Whether a cluster may do without it: dynamic resource allocation is newer than what else is watched, a role that was
    /// granted before may not name it, and ConfigMaps are followed only where a policy names one. Records are read only
    /// where replicas share them, and then nothing is answered without.
    pub(super) const fn is_optional(self) -> bool {
        !matches!(
            self,
            Self::Namespaces | Self::Nodes | Self::Pods | Self::GpuLedgers
        )
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a list is not there, by what is watched.
type Troubles = [Option<String>; Watched::ALL.len()];

/// See the module. Cheap to read.
#[derive(Debug)]
pub struct Freshness {
    started: Instant,
    complete: watch::Sender<u16>,
    heard: [AtomicU64; Watched::ALL.len()],
    /// What the cluster does without.
    absent: AtomicU16,
    /// By what is to be listed again.
    refresh: [watch::Sender<u64>; Watched::ALL.len()],
    /// Why the first list is not there, as far as it was tried.
    trouble: Mutex<Troubles>,
}

impl Default for Freshness {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            complete: watch::Sender::new(0),
            heard: std::array::from_fn(|_| AtomicU64::new(0)),
            absent: AtomicU16::new(0),
            refresh: std::array::from_fn(|_| watch::Sender::new(0)),
            trouble: Mutex::default(),
        }
    }
}

impl Freshness {
    /// Whether every list was complete once. It stays so: during a later disconnect the facts grow old
    /// ([`Freshness::age`]), but they are there.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.waiting_for().is_empty()
    }

    /// Lists that are not complete yet.
    #[must_use]
    pub fn waiting_for(&self) -> Vec<Watched> {
        let complete = *self.complete.borrow();
        Watched::ALL
            .into_iter()
            .filter(|watched| complete & watched.bit() == 0)
            .collect()
    }

    /// What is missing and why, in words; nothing once every list was complete.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let trouble = self.trouble();
        let reason = |watched: Watched| match &trouble[watched as usize] {
            Some(why) => format!("{watched} cannot be listed ({why})"),
            None => format!("{watched} are not listed yet"),
        };
        self.waiting_for().into_iter().map(reason).collect()
    }

    fn trouble(&self) -> MutexGuard<'_, Troubles> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A list or watch did not go on.
    pub(super) fn failed(&self, watched: Watched, why: String) {
        self.trouble()[watched as usize] = Some(why);
    }

    /// Returns once every list is complete.
    pub async fn ready(&self) {
        self.wait_for(&Watched::ALL).await;
    }

    /// Returns once these lists are complete.
    pub(super) async fn wait_for(&self, wanted: &[Watched]) {
        let mut complete = self.complete.subscribe();
        let all = wanted.iter().fold(0, |bits, watched| bits | watched.bit());
        // The sender is part of `self`, so it cannot be gone.
        let _ = complete.wait_for(|bits| bits & all == all).await;
    }

    /// Time since this watch last told something, a bookmark included, or was connected; zero for what the cluster does
    /// without.
    #[must_use]
    pub fn age_of(&self, watched: Watched) -> Duration {
        if self.absent.load(Ordering::Relaxed) & watched.bit() != 0 {
            return Duration::ZERO;
        }
        let heard = Duration::from_millis(self.heard[watched as usize].load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(heard)
    }

    /// The age of the oldest watch.
    #[must_use]
    pub fn age(&self) -> Duration {
        Watched::ALL
            .into_iter()
            .map(|watched| self.age_of(watched))
            .max()
            .unwrap_or_default()
    }

    /// A handle that has everything read once more.
    #[must_use]
    pub fn refresh(&self) -> Refresh {
        Refresh(self.refresh.to_vec())
    }

    /// A handle that has nodes read once more, and nothing else.
    #[must_use]
    pub fn refresh_nodes(&self) -> Refresh {
        let nodes = self.refresh.get(Watched::Nodes as usize);
        Refresh(nodes.into_iter().cloned().collect())
    }

    pub(super) fn refreshes(&self, watched: Watched) -> watch::Receiver<u64> {
        self.refresh[watched as usize].subscribe()
    }

    pub(super) fn heard(&self, watched: Watched) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard[watched as usize].store(now, Ordering::Relaxed);
    }

    /// Whether the list was complete once.
    pub(super) fn is_complete(&self, watched: Watched) -> bool {
        *self.complete.borrow() & watched.bit() != 0
    }

    /// The cluster does without this: nothing is waited for.
    pub(super) fn does_without(&self, watched: Watched) {
        self.completed(watched);
        self.absent.fetch_or(watched.bit(), Ordering::Relaxed);
    }

    /// It is waited for after all.
    pub(super) fn needs(&self, watched: Watched) {
        self.absent.fetch_and(!watched.bit(), Ordering::Relaxed);
        self.complete.send_modify(|bits| *bits &= !watched.bit());
    }

    pub(super) fn completed(&self, watched: Watched) {
        self.heard(watched);
        self.absent.fetch_and(!watched.bit(), Ordering::Relaxed);
        self.complete.send_modify(|bits| *bits |= watched.bit());
    }
}

/// Has objects listed and read again, for instance after other policies came into force.
#[derive(Clone, Debug)]
pub struct Refresh(Vec<watch::Sender<u64>>);

impl Refresh {
    /// Does it. Facts stay in force until the new ones are there.
    pub fn request(&self) {
        for asked in &self.0 {
            asked.send_modify(|round| *round = round.wrapping_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ready_only_when_every_list_is_complete() {
        let freshness = Freshness::default();
        assert_eq!(freshness.waiting_for(), Watched::ALL);
        freshness.does_without(Watched::GpuLedgers);
        freshness.completed(Watched::Nodes);
        freshness.failed(Watched::Pods, "forbidden".to_owned());
        assert_eq!(
            freshness.reasons(),
            [
                "namespaces are not listed yet",
                "pods cannot be listed (forbidden)",
                "resourceslices are not listed yet",
                "deviceclasses are not listed yet",
                "resourceclaims are not listed yet",
                "resourceclaimtemplates are not listed yet",
                "configmaps are not listed yet",
                "priorityclasses are not listed yet",
                "gpusharingpolicies are not listed yet"
            ]
        );
        freshness.completed(Watched::Pods);
        for optional in Watched::ALL.into_iter().filter(|watched| watched.is_optional()) {
            freshness.does_without(optional);
        }
        assert_eq!(freshness.waiting_for(), [Watched::Namespaces]);
        assert!(!freshness.is_ready());
        freshness.wait_for(&[Watched::Nodes, Watched::Pods]).await;
        freshness.completed(Watched::Namespaces);
        freshness.ready().await;
        assert!(freshness.is_ready() && freshness.reasons().is_empty());
    }

    #[tokio::test]
    async fn what_reads_nodes_again_leaves_the_rest_alone() {
        let freshness = Freshness::default();
        let mut nodes = freshness.refreshes(Watched::Nodes);
        let mut pods = freshness.refreshes(Watched::Pods);
        freshness.refresh_nodes().request();
        assert!(nodes.has_changed().unwrap() && !pods.has_changed().unwrap());
        nodes.mark_unchanged();
        freshness.refresh().request();
        assert!(nodes.has_changed().unwrap() && pods.has_changed().unwrap());
        pods.mark_unchanged();
    }

    #[tokio::test]
    async fn age_is_that_of_the_oldest_watch() {
        let freshness = Freshness::default();
        tokio::time::sleep(Duration::from_millis(30)).await;
        freshness.heard(Watched::Nodes);
        freshness.heard(Watched::Pods);
        assert!(freshness.age_of(Watched::Nodes) < Duration::from_millis(25));
        assert!(freshness.age() >= Duration::from_millis(30));
    }
}
