//! VG208: a fraction that means the whole device, on a device that is shared.
//!
//! Such a release subtracts all that is taken of the device, by others as well, from `fraction x total`; what is left must
//! hold its own need. The ledger counts the fraction in full, whatever the others hold: they may go first.

use super::{Rules, fit, under};
use crate::demand::{Amount, Claim, Part};
use crate::device::Pool;
use crate::engine::{Engine, Meaning};
use crate::finding::{Code, Finding, Number, Severity, short};
use crate::units::{Fraction, Mib, Share};

/// What to do, whoever else is there.
const RELEASE: &str = "use a release whose fraction means its own instance (vLLM 0.9.1 or later, or 0.7.3 with the core \
                       that it has by default), or a whole GPU";
/// What to do instead, where the policy leaves that open.
const SUM: &str = "or a fraction that covers its own need and all that others hold";
/// The same of an engine that has no other release.
const ENGINE: &str = "use a whole GPU";

const fn release_of(part: &Part) -> &'static str {
    match part.engine {
        Engine::Tgi => ENGINE,
        _ => RELEASE,
    }
}

/// Engines of a claim whose fraction counts what others hold on the devices of a pool.
pub(crate) fn engines<'c>(claim: &'c Claim, pool: &Pool) -> Vec<(&'c Part, &'c Fraction)> {
    let means_instance = |part: &Part| part.meaning == Meaning::Instance;
    if !pool.sharing.is_shared() || claim.parts.iter().all(means_instance) {
        return Vec::new();
    }
    let before_ampere = fit::device(pool).is_some_and(|device| device.class.before_ampere);
    let parts = claim.parts.iter();
    parts
        .filter(|part| part.meaning.counts_others(before_ampere))
        .filter_map(|part| match &part.amount {
            Amount::OfTotal { fraction, .. } => Some((part, fraction)),
            _ => None,
        })
        .collect()
}

/// The findings of a claim on a pool, whoever else is there.
pub(super) fn findings(claim: &Claim, pool: &Pool, rules: Rules<'_>) -> Vec<Finding> {
    let engines = engines(claim, pool).into_iter();
    engines
        .map(|(part, fraction)| {
            let message = format!(
                "{}: on shared {} it must cover what others hold as well as its own need",
                beginning(claim, part, &fraction.to_string()),
                pool.resource
            );
            let finding = Finding::new(Code::Vg208, part.path.clone(), message)
                .number("fraction", Number::Share(fraction.share()));
            let finding = under(rules.pod, finding);
            // A policy that makes it an error refuses it with any fraction.
            let is_open = finding.severity < Severity::Error;
            finding.detail(if is_open {
                format!("{}, {SUM}", release_of(part))
            } else {
                release_of(part).to_owned()
            })
        })
        .collect()
}

fn beginning(claim: &Claim, part: &Part, fraction: &str) -> String {
    let release = part
        .version
        .map(|version| format!(" {version}"))
        .unwrap_or_default();
    let name = match part.engine {
        Engine::Tgi => "TGI",
        _ => "vLLM",
    };
    format!(
        "container {}: in {name}{release} the fraction {fraction} means the whole GPU",
        short(&claim.container)
    )
}

/// The least that one of the engines wants of a device of the pool; `None` where its model is not known.
fn own_need(claim: &Claim, part: &Part, pool: &Pool) -> Option<Mib> {
    let judged = fit::judge(claim, pool);
    let judged = judged.iter().find(|judged| std::ptr::eq(judged.part, part));
    judged.map(fit::Judged::wants)
}

/// The same finding where it is known what `others` hold on a device of `node` when all of them start before it.
/// `usual` is the finding without that; `None` where the size of the device is not known.
pub(crate) fn beside(
    usual: &Finding,
    engine: (&Claim, &Part, &Fraction),
    (node, pool): (&str, &Pool),
    others: Mib,
) -> Option<Finding> {
    let (claim, part, fraction) = engine;
    let total = pool.total?;
    let request = fraction.of(total);
    let left = fraction.of_down(total).less(others);
    let need = own_need(claim, part, pool);
    let enough = need.is_some_and(|need| left >= need);
    let remains = match need {
        _ if left == Mib::ZERO => "nothing of it is left for its own need".to_owned(),
        Some(need) if enough => format!("{left} of it are left and it needs {need} or more"),
        Some(need) => format!("{left} of it are left and it needs at least {need}"),
        None => format!("{left} of it are left for its own need"),
    };
    let message = format!(
        "{}; others on {} hold up to {others}: {remains}",
        beginning(claim, part, &format!("{fraction} ({request})")),
        short(node),
    );
    let mut finding = Finding::new(Code::Vg208, part.path.clone(), message)
        .with_severity(usual.severity)
        .detail(format!(
"the others are taken to start before it, the worst order; all {request} of its fraction are counted nevertheless"
        ))
        .number("fraction", Number::Share(fraction.share()))
        .number("requestMiB", Number::Memory(request))
        .number("othersMiB", Number::Memory(others))
        .number("leftMiB", Number::Memory(left));
    if let Some(need) = need {
        let sum = need.plus(others);
        let least = Share::from_ppm(
            Share::ratio_up(sum, total)
                .ppm()
                .div_ceil(1_000)
                .saturating_mul(1_000),
        );
        finding = finding.number("needMiB", Number::Memory(need));
        if !enough && least <= Share::WHOLE {
            finding = finding
                .detail(format!(
                    "{others} of others and {need} of its own are {least} of {total}"
                ))
                .number("leastFraction", Number::Share(least));
        } else if !enough {
            finding = finding.detail(format!(
                "{others} of others and {need} of its own are more than {total}: no fraction covers both"
            ));
        }
    }
    if enough {
        let severity = finding.severity.min(Severity::Info);
        return Some(finding.with_severity(severity));
    }
    Some(finding.detail(format!("{}, {SUM}", release_of(part))))
}
