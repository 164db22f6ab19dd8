//! The answer in one sentence, with its numbers.

use super::figures::Figures;
use crate::engine::{Reading, Releases, Version};
use crate::finding::Code;
use crate::footprint::{Answer, Estimate, Interval};
use crate::units::Mib;

/// Fewer devices than ranks.
pub(super) fn too_few(ranks: u32, devices: u32) -> String {
    format!(
        "{}: the engine's ranks need {ranks} devices and the container gets {devices}, so it stops at start; give \
         {ranks}, or lower the parallel size",
        Code::Vg105
    )
}

/// Why the figures answer as they do.
pub(super) fn reason(figures: &Figures, reading: &Reading) -> String {
    let estimate = &figures.estimate;
    let need = range(estimate.need);
    let length = estimate.asked;
    let lower = floor_mib(estimate.pool.lower);
    let upper = floor_mib(estimate.pool.upper);
    if let Some(text) = stated_pool(estimate, lower, upper) {
        return text;
    }
    let caches = estimate.need.upper() > 0;
    let before = if caches { " before any KV cache" } else { "" };
    match estimate.answer {
        Answer::Fits if caches => format!(
            "one request of {length} tokens needs {need} MiB of KV cache, and at least {lower} MiB are left for it"
        ),
        Answer::Fits => format!("nothing is cached between tokens, and at least {lower} MiB are left"),
        Answer::DoesNotFit if upper < 0 => format!(
            "weights and what else the engine holds take at least {} MiB, and it may use {} MiB: {} MiB are missing{before}",
            estimate.used().lower_mib().get(),
            estimate.budget_mib().get(),
            upper.unsigned_abs()
        ),
        Answer::DoesNotFit => format!(
            "one request of {length} tokens needs at least {} MiB of KV cache, and at most {upper} MiB are left for it",
            estimate.need.lower_mib().get()
        ),
        Answer::Doubtful if !caches && estimate.pool.lower < 0 => format!(
            "nothing is cached between tokens, and by the estimates of weights and activations {lower} to {upper} MiB are left"
        ),
        Answer::Doubtful if estimate.pool.lower < i128::from(estimate.need.upper()) => format!(
            "one request of {length} tokens needs {need} MiB of KV cache, and {lower} to {upper} MiB are left for it"
        ),
        Answer::Doubtful => beside(figures, reading),
    }
}

/// A pool of a stated size that is not there, or perhaps not.
fn stated_pool(estimate: &Estimate, lower: i64, upper: i64) -> Option<String> {
    let stated = estimate.stated_pool?;
    let size = Mib::from_bytes_up(stated).get();
    if estimate.pool.upper < i128::from(stated) {
        return Some(format!(
            "the arguments state a KV cache of {size} MiB, and beside everything else at most {upper} MiB are left for it"
        ));
    }
    (estimate.pool.lower < i128::from(stated)).then(|| {
        format!(
            "the arguments state a KV cache of {size} MiB, and beside everything else {lower} to {upper} MiB are left \
             for it"
        )
    })
}

/// The pool is large enough, and something else is not sure.
fn beside(figures: &Figures, reading: &Reading) -> String {
    let estimate = &figures.estimate;
    let draft = reading.serving.draft.as_ref();
    if let Some(model) = draft.and_then(|draft| draft.model.as_deref()) {
        let model = crate::message::cut(model, 60);
        return format!(
            "the pool holds one request, unless the draft model {model:?} takes more than is known of it"
        );
    }
    format!(
        "the pool holds one request, but the budget of {} MiB leaves little of the device for the {} MiB that the \
         process takes outside of it",
        estimate.budget_mib().get(),
        range(estimate.outside)
    )
}

/// Releases as one writes them: `0.11.0`, `0.11.x`, `0.11.x to 0.12.x`, `0.21.0 or newer`; `None` where none is known.
#[must_use]
pub(crate) fn releases(releases: &Releases) -> Option<String> {
    let newest = |version: Version| match version.0 {
        [major, minor, u16::MAX, _] => format!("{major}.{minor}.x"),
        _ => version.to_string(),
    };
    let text = match (releases.first, releases.last) {
        (Some(first), Some(last)) if first == last => first.to_string(),
        (Some(first), Some(last)) if first.0[..2] == last.0[..2] && first.0[2..] == [0, 0] => newest(last),
        (Some(first), Some(last)) => format!("{first} to {}", newest(last)),
        (Some(first), None) => format!("{first} or newer"),
        (None, Some(last)) => format!("{} or older", newest(last)),
        (None, None) => return None,
    };
    Some(match releases.legacy {
        Some(true) => format!("{text} (V0)"),
        Some(false) => format!("{text} (V1)"),
        None => text,
    })
}

/// `5` or `5 to 9`, in MiB, rounded up.
pub(super) fn range(interval: Interval) -> String {
    let (lower, upper) = (interval.lower_mib().get(), interval.upper_mib().get());
    if lower == upper {
        lower.to_string()
    } else {
        format!("{lower} to {upper}")
    }
}

/// Bytes in MiB, rounded down, below zero too.
#[must_use]
pub(crate) fn floor_mib(bytes: i128) -> i64 {
    let mib = bytes.div_euclid(1 << 20);
    i64::try_from(mib).unwrap_or(if mib < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_told_as_they_are_written() {
        for (text, told) in [
            ("0.11.0", Some("0.11.0")),
            ("0.11", Some("0.11.x")),
            ("0.7.x (V0)", Some("0.7.x (V0)")),
            ("0.11-0.12", Some("0.11.0 to 0.12.x")),
            ("0.21+", Some("0.21.0 or newer")),
            ("2025-08", None),
        ] {
            let read = Releases::parse(text).unwrap();
            assert_eq!(releases(&read).as_deref(), told, "{text}");
        }
    }

    #[test]
    fn bytes_round_down_below_zero_too() {
        assert_eq!(floor_mib(3 << 19), 1);
        assert_eq!(floor_mib(-1), -1);
        assert_eq!(floor_mib(i128::MIN), i64::MIN);
    }
}
