//! Several engines of one container on devices that nobody else uses: what they take together.

use super::{Rules, overhead_of, under};
use crate::demand::{Amount, Claim, Part};
use crate::device::Pool;
use crate::finding::{Code, Finding, Number, Severity, short};
use crate::units::{Mib, Share};

/// VG201 as a warning, where two of the engines surely meet on a device that does not hold both: they have more ranks than
/// the container has devices. With fewer, each may be given devices of its own by variables that are not read here.
pub(super) fn meeting(claim: &Claim, pool: &Pool, rules: Rules<'_>) -> Option<Finding> {
    let total = pool.total?;
    if pool.sharing.is_shared() || claim.parts.len() < 2 {
        return None;
    }
    let ranks: u32 = claim
        .parts
        .iter()
        .fold(0, |sum, part| sum.saturating_add(part.ranks));
    if ranks <= claim.slots {
        return None;
    }
    let mut taken: Vec<(Mib, Mib, &Part)> = claim
        .parts
        .iter()
        .map(|part| match &part.amount {
            Amount::OfTotal { fraction, .. } => Some((fraction.of(total), overhead_of(part, rules), part)),
            Amount::Absolute(memory) => Some((*memory, Mib::ZERO, part)),
            Amount::Estimated { .. } | Amount::Unknown { .. } | Amount::Uncapped { .. } => None,
        })
        .collect::<Option<_>>()?;
    // Which of them meet is open, so those that take least are looked at.
    taken.sort_by_key(|(request, overhead, _)| request.plus(*overhead));
    let [(first, of_first, _), (second, of_second, part), ..] = taken.as_slice() else {
        return None;
    };
    let (request, overhead) = (first.plus(*second), of_first.plus(*of_second));
    if request.plus(overhead) <= total {
        return None;
    }
    let finding = Finding::new(
        Code::Vg201,
        part.path.clone(),
        format!(
            "container {}: its {} engines have {ranks} ranks on {} of {}, so two meet on one and ask {} of it: {request} and \
             {overhead} overhead of {total}",
            short(&claim.container),
            claim.parts.len(),
            claim.slots,
            pool.resource,
            Share::ratio_up(request, total)
        ),
    )
    .detail("a whole device is not shared with other pods, so this refuses nothing; the engine that starts last stops")
    .detail(format!(
        "their fractions may come to {} together, overheads aside: lower them, or give each engine devices of its own",
        Share::ratio_down(total.less(overhead), total).to_thousandths_down()
    ))
    .number("requestMiB", Number::Memory(request))
    .number("overheadMiB", Number::Memory(overhead))
    .number("totalMiB", Number::Memory(total));
    let finding = under(rules.pod, finding);
    let severity = finding.severity.min(Severity::Warning);
    Some(finding.with_severity(severity))
}
