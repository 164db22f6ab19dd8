//! Changed copies of valid files, for tests by hand.

/// Calls `accepts` with so many changed copies, half of the changes within the first `front` bytes; gives how many it
/// accepted. The sequence is always the same.
pub(super) fn mutate(valid: &[u8], front: usize, count: u32, accepts: &mut dyn FnMut(&[u8]) -> bool) -> u32 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap()
    };
    let mut accepted = 0;
    for _ in 0..count {
        let mut bytes = valid.to_vec();
        for _ in 0..=next(4) {
            let range = if next(2) == 0 { front } else { bytes.len() };
            let at = next(range).min(bytes.len() - 1);
            match next(8) {
                0 | 1 => bytes[at] = u8::try_from(next(256)).unwrap(),
                2 => bytes[at] ^= 1 << next(8),
                3 => bytes.truncate(at.max(1)),
                4 => bytes.iter_mut().skip(at).take(8).for_each(|byte| *byte = 0xff),
                // Digits for digits: what stays readable goes further in.
                5 | 6 => {
                    let digit = b'0' + u8::try_from(next(10)).unwrap();
                    if let Some(byte) = bytes.iter_mut().skip(at).find(|byte| byte.is_ascii_digit()) {
                        *byte = digit;
                    }
                }
                _ => {
                    let other = next(bytes.len());
                    bytes.swap(at, other);
                }
            }
        }
        accepted += u32::from(accepts(&bytes));
    }
    accepted
}
