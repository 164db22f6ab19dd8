//! Whether the model that a container loads fits the device that it gets: VG301 on a MIG slice, VG701 and VG702 elsewhere.
//!
//! Only what does not fit by the lower estimate is an error. What is doubtful, and what rests on a model that is not
//! certain, is a warning with the numbers.

use super::{Rules, under};
use crate::demand::{Claim, Load, Part};
use crate::device::catalogue::Catalogue;
use crate::device::{DeviceKind, Pool};
use crate::finding::{Code, Finding, Number, Severity};
use crate::footprint::{self, Answer, Class, Device, Estimate, Interval, Plan, estimate};
use crate::model::Confidence;
use crate::units::Mib;

pub(crate) mod remedy;
mod text;

/// The codes that are about a model and a device.
pub(crate) const CODES: [Code; 3] = [Code::Vg301, Code::Vg701, Code::Vg702];

/// What an estimate says of one engine on the devices of one pool.
pub(crate) struct Judged<'d> {
    pub(crate) claim: &'d Claim,
    pub(crate) part: &'d Part,
    pub(crate) load: &'d Load,
    pub(crate) pool: &'d Pool,
    pub(crate) plan: Plan<'d>,
    /// By the least that is known of the model.
    pub(crate) estimate: Estimate,
    /// By the most, where that is another.
    widest: Option<Estimate>,
    pub(crate) answer: Answer,
}

/// The device behind a slot of a pool, as an engine sees it; `None` where its memory is not known.
pub(crate) fn device(pool: &Pool) -> Option<Device> {
    let total = pool.total?;
    let is_mig = matches!(pool.device, DeviceKind::Mig(_));
    let product = Catalogue::embedded().product(&pool.product);
    // CUDA reports less than the label on whole GPUs; on a MIG instance the two agree.
    let hidden = product
        .filter(|_| !is_mig)
        .and_then(|product| Some(product.memory.less(product.cuda_total?)));
    Some(Device {
        total,
        least_total: total.less(hidden.unwrap_or(Mib::ZERO)),
        class: Class {
            mig: is_mig,
            ..Class::of(
                &pool.product,
                product.map(|product| product.architecture.as_str()),
            )
        },
    })
}

/// Every engine of a claim whose model is known with its plan on the devices of a pool, as far as it gets so many.
pub(crate) fn plans<'d>(claim: &'d Claim, pool: &Pool) -> Vec<(&'d Part, &'d Load, Plan<'d>)> {
    let loads = || {
        let parts = claim.parts.iter();
        parts.filter_map(|part| Some((part, part.load.as_deref()?)))
    };
    let ranks = claim.ranks();
    let is_mig = matches!(pool.device, DeviceKind::Mig(_));
    // Such ranks do not start whatever they load: VG105, VG205, VG303.
    let starts = ranks <= claim.slots && (ranks <= 1 || !is_mig && !pool.sharing.is_shared());
    if !starts || loads().next().is_none() {
        return Vec::new();
    }
    let Some(device) = device(pool) else {
        return Vec::new();
    };
    loads()
        .map(|(part, load)| (part, load, load.plan(&part.amount, device)))
        .collect()
}

/// Judges every engine of a claim whose model and fraction are known.
pub(crate) fn judge<'d>(claim: &'d Claim, pool: &'d Pool) -> Vec<Judged<'d>> {
    let plans = plans(claim, pool).into_iter();
    plans
        .filter_map(|(part, load, plan)| {
            let estimate = estimate(&plan).ok()?;
            let widest = match load.widest_plan(&part.amount, plan.device) {
                Some(plan) => Some(footprint::estimate(&plan).ok()?),
                None => None,
            };
            Some(Judged {
                answer: answer(load, &estimate, widest.as_ref()),
                claim,
                part,
                load,
                pool,
                plan,
                estimate,
                widest,
            })
        })
        .collect()
}

/// Whether it fits, between what the model takes at least and at most.
fn answer(load: &Load, least: &Estimate, most: Option<&Estimate>) -> Answer {
    if least.answer == Answer::DoesNotFit {
        return Answer::DoesNotFit;
    }
    let most = most.unwrap_or(least);
    // What is not known of cache or length is no reason to doubt. Neither is a pool that is large enough beside too little
    // for the process itself: that is told as VG201. An engine that adapts itself starts in any case.
    let is_enough = most.pool.lower >= i128::from(most.need.upper().max(load.stated_cache()));
    if !load.knows_cache() || is_enough || load.adapts() || most.answer == Answer::Fits {
        Answer::Fits
    } else {
        Answer::Doubtful
    }
}

impl Judged<'_> {
    /// The least that the engine wants of the device for one request of the longest context.
    pub(crate) fn wants(&self) -> Mib {
        let bytes = self
            .estimate
            .used()
            .lower()
            .saturating_add(self.estimate.need.lower());
        Mib::from_bytes_up(bytes)
    }

    /// What the cache must hold: one request of the longest context, or the size that is stated.
    fn asked(&self) -> Interval {
        self.estimate
            .need
            .or_more(Interval::exactly(self.load.stated_cache()))
    }

    /// Whether even by the lower estimate nothing is left for a cache.
    fn leaves_nothing(&self) -> bool {
        match self.answer {
            Answer::Doubtful => self.estimate.pool.expected <= 0,
            Answer::DoesNotFit | Answer::Fits => self.estimate.pool.upper <= 0,
        }
    }

    /// The estimate by the most that is known of the model.
    fn most(&self) -> &Estimate {
        self.widest.as_ref().unwrap_or(&self.estimate)
    }

    pub(crate) fn is_mig(&self) -> bool {
        matches!(self.pool.device, DeviceKind::Mig(_))
    }

    pub(crate) fn does_not_fit(&self) -> bool {
        self.answer == Answer::DoesNotFit
    }

    /// Whether it surely does not fit. Facts that were read nowhere may be wrong by more than the interval is wide.
    pub(crate) fn is_sure(&self) -> bool {
        let is_read = self.load.confidence() > Confidence::Unverified;
        self.does_not_fit() && self.load.way().is_certain() && is_read
    }

    fn code(&self) -> Code {
        if self.is_mig() {
            Code::Vg301
        } else if self.leaves_nothing() {
            Code::Vg701
        } else {
            Code::Vg702
        }
    }

    /// The finding, where it does not fit or may not.
    fn finding(&self, rules: Rules<'_>, offered: Option<&[String]>) -> Option<Finding> {
        if self.answer == Answer::Fits {
            return None;
        }
        let remedies = remedy::Remedies::of(self, offered);
        let mut finding = Finding::new(
            self.code(),
            self.part.path.clone(),
            text::sentence(self, &remedies),
        );
        for detail in text::details(self, &remedies) {
            finding = finding.detail(detail);
        }
        let estimate = &self.estimate;
        let pool = u64::try_from(estimate.pool.upper).unwrap_or(0);
        let weights = estimate.part("weights").unwrap_or_default();
        finding = finding
            .number("weightsMiB", Number::Memory(weights.lower_mib()))
            .number("budgetMiB", Number::Memory(estimate.budget_mib()))
            .number("kvPoolMiB", Number::Memory(Mib::from_bytes_down(pool)))
            .number("needMiB", Number::Memory(self.asked().lower_mib()))
            .number("maxModelLen", Number::Count(estimate.length));
        if let Some(length) = remedies.length {
            finding = finding.number("longestContext", Number::Count(length));
        }
        if let Some(fraction) = &remedies.fraction {
            finding = finding.number("smallestFraction", Number::Share(fraction.share()));
        }
        if let Some(tensor) = remedies.tensor {
            finding = finding.number("tensorParallel", Number::Count(u64::from(tensor)));
        }
        let finding = under(rules.pod, finding);
        let most = if self.is_sure() {
            Severity::Error
        } else {
            Severity::Warning
        };
        let severity = finding.severity.min(most);
        Some(finding.with_severity(severity))
    }
}

/// The findings of a claim on a pool, and the least that its engines want of a device (`None` where no model is known).
/// `offered` are the MIG profiles of the cluster that hold what the claim loads, the smallest first; `None` where nobody
/// looked.
pub(crate) fn findings(
    claim: &Claim,
    pool: &Pool,
    rules: Rules<'_>,
    offered: Option<&[String]>,
) -> (Vec<Finding>, Option<Mib>) {
    let judged = judge(claim, pool);
    let wants = judged.iter().map(Judged::wants).reduce(Mib::plus);
    let findings = judged.iter().filter_map(|judged| judged.finding(rules, offered));
    (findings.collect(), wants)
}
