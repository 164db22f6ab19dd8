//! How many pods a workload makes, in the steady state and during a rollout, read from its `spec`.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use super::Malformed;
use super::controller::ReplicaPlan;
use super::null::as_absent;
use super::pod::Pod;

/// A number of pods: `0` to 2^31 - 1, as the API's `int32` fields that must not be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count(u32);

impl Count {
    pub(super) const fn get(self) -> u32 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WholeNumber;
        impl Visitor<'_> for WholeNumber {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 to 2147483647, without quotes")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Count, E> {
                match u32::try_from(number) {
                    Ok(count) if i32::try_from(count).is_ok() => Ok(Count(count)),
                    _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Count, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }
        }
        deserializer.deserialize_any(WholeNumber)
    }
}

/// A number of pods, or a part of the desired ones (`25%`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountOrPercent {
    Count(u32),
    Percent(u32),
}

impl CountOrPercent {
    pub(super) fn of(self, desired: u32, round_up: bool) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let hundredths = u64::from(desired) * u64::from(percent);
                let pods = if round_up {
                    hundredths.div_ceil(100)
                } else {
                    hundredths / 100
                };
                u32::try_from(pods).unwrap_or(u32::MAX)
            }
        }
    }

    const fn is_zero(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

impl<'de> Deserialize<'de> for CountOrPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WholeOrPercent;
        impl Visitor<'_> for WholeOrPercent {
            type Value = CountOrPercent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number such as 1 or a percentage such as \"25%\"")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<CountOrPercent, E> {
                match u32::try_from(number) {
                    Ok(count) if i32::try_from(count).is_ok() => Ok(CountOrPercent::Count(count)),
                    _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<CountOrPercent, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<CountOrPercent, E> {
                text.strip_suffix('%')
                    .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                    .and_then(|digits| digits.parse().ok())
                    .map(CountOrPercent::Percent)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(WholeOrPercent)
    }
}

/// `strategy` of a Deployment, `updateStrategy` of a DaemonSet.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Strategy {
    #[serde(rename = "type")]
    kind: Option<StrategyKind>,
    #[serde(deserialize_with = "as_absent")]
    rolling_update: RollingUpdate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum StrategyKind {
    RollingUpdate,
    Recreate,
    OnDelete,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdate {
    max_surge: Option<CountOrPercent>,
    max_unavailable: Option<CountOrPercent>,
}

/// What a `spec` tells about its pods.
pub(super) trait PodMaker: for<'de> Deserialize<'de> {
    /// How many it makes.
    fn plan(&self) -> ReplicaPlan;
    /// Its template; `None` where it has none.
    fn into_template(self) -> Option<Pod>;
}

/// A plan for `desired` pods of which `unavailable` may be missing during a rollout.
const fn plan(desired: u32, surge: u32, unavailable: u32) -> ReplicaPlan {
    ReplicaPlan {
        desired,
        surge,
        unavailable,
        overlap: 0,
        kept: 0,
        max: None,
        per_node: false,
    }
}

/// `spec` of a Deployment.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeploymentSpec {
    replicas: Option<Count>,
    #[serde(deserialize_with = "as_absent")]
    strategy: Strategy,
    template: Option<Pod>,
}

impl PodMaker for DeploymentSpec {
    fn plan(&self) -> ReplicaPlan {
        let desired = self.replicas.map_or(1, |count| count.0);
        if self.strategy.kind == Some(StrategyKind::Recreate) {
            return plan(desired, 0, desired);
        }
        let quarter = CountOrPercent::Percent(25);
        let limits = &self.strategy.rolling_update;
        let surge = limits.max_surge.unwrap_or(quarter).of(desired, true);
        let unavailable = limits
            .max_unavailable
            .unwrap_or(quarter)
            .of(desired, false)
            .min(desired);
        // Without either no rollout could take a step: the Deployment controller then takes one pod away first.
        let unavailable = if surge == 0 && unavailable == 0 {
            1
        } else {
            unavailable
        };
        plan(desired, surge, unavailable)
    }

    fn into_template(self) -> Option<Pod> {
        self.template
    }
}

/// `spec` of a StatefulSet, ReplicaSet or ReplicationController: they replace a pod after it is gone.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReplicatedSpec {
    replicas: Option<Count>,
    #[serde(rename = "updateStrategy", deserialize_with = "as_absent")]
    update_strategy: ReplicatedStrategy,
    template: Option<Pod>,
}

/// `updateStrategy` of a StatefulSet; the others have none.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReplicatedStrategy {
    #[serde(deserialize_with = "as_absent")]
    rolling_update: Partitioned,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Partitioned {
    partition: Option<Count>,
    max_unavailable: Option<CountOrPercent>,
}

impl PodMaker for ReplicatedSpec {
    fn plan(&self) -> ReplicaPlan {
        let desired = self.replicas.map_or(1, |count| count.0);
        let limits = &self.update_strategy.rolling_update;
        let kept = limits.partition.map_or(0, |partition| partition.0.min(desired));
        // A percentage rounds up and is one at least (kubernetes `pkg/controller/statefulset/stateful_set_utils.go`).
        let unavailable = limits
            .max_unavailable
            .map_or(1, |limit| limit.of(desired, true).max(1));
        ReplicaPlan {
            kept,
            ..plan(desired, 0, unavailable)
        }
    }

    fn into_template(self) -> Option<Pod> {
        self.template
    }
}

/// `spec` of a DaemonSet.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DaemonSetSpec {
    #[serde(deserialize_with = "as_absent")]
    update_strategy: Strategy,
    template: Option<Pod>,
}

impl PodMaker for DaemonSetSpec {
    /// One pod on each node. What a rollout adds is told per node as well: one where `maxSurge` is above zero, however
    /// many nodes may surge at once.
    fn plan(&self) -> ReplicaPlan {
        let strategy = &self.update_strategy;
        let surges = strategy.kind != Some(StrategyKind::OnDelete)
            && strategy
                .rolling_update
                .max_surge
                .is_some_and(|surge| !surge.is_zero());
        ReplicaPlan {
            per_node: true,
            ..plan(1, u32::from(surges), u32::from(!surges))
        }
    }

    fn into_template(self) -> Option<Pod> {
        self.template
    }
}

/// `spec` of a Job.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct JobSpec {
    parallelism: Option<Count>,
    completions: Option<Count>,
    #[serde(deserialize_with = "as_absent")]
    suspend: bool,
    template: Option<Pod>,
}

impl PodMaker for JobSpec {
    fn plan(&self) -> ReplicaPlan {
        if self.suspend {
            return plan(0, 0, 0);
        }
        let parallel = self.parallelism.map_or(1, |count| count.0);
        let desired = self
            .completions
            .map_or(parallel, |completions| parallel.min(completions.0));
        plan(desired, 0, 0)
    }

    fn into_template(self) -> Option<Pod> {
        self.template
    }
}

/// `spec` of a CronJob.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CronJobSpec {
    #[serde(deserialize_with = "as_absent")]
    suspend: bool,
    concurrency_policy: Option<ConcurrencyPolicy>,
    #[serde(deserialize_with = "as_absent")]
    job_template: JobTemplate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum ConcurrencyPolicy {
    #[default]
    Allow,
    Forbid,
    Replace,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobTemplate {
    #[serde(deserialize_with = "as_absent")]
    spec: JobSpec,
}

impl PodMaker for CronJobSpec {
    /// The pods of one Job. Under `Allow` (the default) a run that begins before the last one has ended has as many again
    /// beside them. Under `Replace` the earlier Job's pods are deleted first, and are counted while they terminate. Under
    /// `Forbid` there is never a second Job.
    fn plan(&self) -> ReplicaPlan {
        if self.suspend {
            return plan(0, 0, 0);
        }
        let run = self.job_template.spec.plan();
        let overlap = match self.concurrency_policy.unwrap_or_default() {
            ConcurrencyPolicy::Allow => run.desired,
            ConcurrencyPolicy::Forbid | ConcurrencyPolicy::Replace => 0,
        };
        ReplicaPlan { overlap, ..run }
    }

    fn into_template(self) -> Option<Pod> {
        self.job_template.spec.template
    }
}

/// Says that an object has no pod template.
pub(super) fn without_template(path: &str) -> Malformed {
    Malformed {
        path: path.to_owned(),
        message: "is missing: write the template of the pods that the object makes".to_owned(),
    }
}
