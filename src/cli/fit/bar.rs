//! A picture of a device: which part of its memory goes where, one character for the same amount of it.

use std::fmt::Write as _;

use crate::fit::Figures;
use crate::units::Mib;

/// Characters of the bar.
const WIDTH: u64 = 64;

/// A part of the picture.
struct Segment {
    letter: char,
    name: &'static str,
    size: Mib,
}

/// The bar and its legend, by the expected sizes. Where more is wanted than the device has, the bar is that long and a
/// mark stands where the device ends.
pub(super) fn render(figures: &Figures, total: Mib, text: &mut String) {
    let segments = segments(figures);
    let whole = segments
        .iter()
        .fold(Mib::ZERO, |sum, segment| sum.plus(segment.size))
        .get();
    if whole == 0 {
        return;
    }
    text.push('[');
    let mut sum = 0_u64;
    let mut drawn = 0_u64;
    for segment in &segments {
        sum = sum.saturating_add(segment.size.get());
        // From the sum, so that what is rounded off one part is not lost.
        let end = cells(sum, whole);
        text.extend((drawn..end).map(|_| segment.letter));
        drawn = end;
    }
    text.push_str("]\n");
    // A MiB that rounding added is not worth a mark.
    let end = cells(total.get(), whole);
    if end < WIDTH {
        text.extend((0..end).map(|_| ' '));
        let _ = writeln!(text, "^ the device ends here, at {} MiB", total.get());
    }
    for segment in &segments {
        if segment.size > Mib::ZERO {
            let size = segment.size.get();
            let _ = writeln!(text, " {} {:<16}{size:>9} MiB", segment.letter, segment.name);
        }
    }
}

/// Characters that an amount fills, to the nearest.
fn cells(amount: u64, whole: u64) -> u64 {
    let (amount, whole) = (u128::from(amount), u128::from(whole.max(1)));
    let cells = (amount * u128::from(WIDTH) + whole / 2) / whole;
    u64::try_from(cells).unwrap_or(WIDTH).min(WIDTH)
}

fn segments(figures: &Figures) -> Vec<Segment> {
    let estimate = &figures.estimate;
    let weights = figures.weights().expected_mib();
    let activation = figures.activation().expected_mib();
    let used = estimate.used().expected_mib();
    // Below zero where nothing is left.
    let pool = Mib::from_bytes_down(u64::try_from(estimate.pool.expected).unwrap_or(0));
    let left = if estimate.need.upper() > 0 {
        "KV pool"
    } else {
        "left over"
    };
    let segment = |letter, name, size| Segment { letter, name, size };
    vec![
        segment('W', "weights", weights),
        segment('A', "activation", activation),
        segment('o', "other parts", used.less(weights).less(activation)),
        segment('k', left, pool),
        segment('x', "outside budget", estimate.outside.expected_mib()),
        segment('.', "free", figures.free),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_fill_the_bar_and_never_more() {
        assert_eq!(cells(0, 100), 0);
        assert_eq!(cells(100, 100), WIDTH);
        assert_eq!(cells(50, 100), WIDTH / 2);
        assert_eq!(cells(u64::MAX, u64::MAX), WIDTH);
        assert_eq!(cells(u64::MAX, 1), WIDTH);
        assert_eq!(cells(5, 0), WIDTH);
    }
}
