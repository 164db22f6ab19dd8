//! The one field of an X.509 certificate that is watched: when it stops being valid.
//!
//! A walk over DER lengths to `tbsCertificate.validity.notAfter` (RFC 5280, section 4.1). Anything unexpected is `None`.

/// Seconds since 1970 at which the certificate stops being valid.
pub(super) fn not_after(certificate: &[u8]) -> Option<u64> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let (SEQUENCE, signed, _) = element(certificate)? else {
        return None;
    };
    let (SEQUENCE, mut fields, _) = element(signed)? else {
        return None;
    };
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    // serialNumber, signature, issuer
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (SEQUENCE, validity, _) = element(fields)? else {
        return None;
    };
    let (tag, text, _) = element(element(validity)?.2)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

/// The first element: tag, content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (
                digits
                    .iter()
                    .fold(0usize, |sum, digit| sum << 8 | usize::from(*digit)),
                rest,
            )
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `UTCTime` (`YYMMDDHHMMSSZ`, 1950 to 2049) or `GeneralizedTime` (`YYYYMMDDHHMMSSZ`).
fn time(tag: u8, text: &str) -> Option<u64> {
    let digits = text.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, digits.len()) {
        (0x17, 12) => {
            let year: i32 = digits[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (0x18, 14) => (digits[..4].parse().ok()?, &digits[4..]),
        _ => return None,
    };
    let two = |at: usize| rest.get(at..at + 2)?.parse::<u8>().ok();
    let month = time::Month::try_from(two(0)?).ok()?;
    let date = time::Date::from_calendar_date(year, month, two(2)?).ok()?;
    let moment = date.with_hms(two(4)?, two(6)?, two(8)?).ok()?.assume_utc();
    u64::try_from(moment.unix_timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_time_are_read() {
        assert_eq!(time(0x17, "700101000000Z"), Some(0));
        assert_eq!(time(0x18, "20380119031407Z"), Some(2_147_483_647));
        for (tag, text) in [
            (0x17, "700101000000"),
            (0x17, "701301000000Z"),
            (0x18, "99991231235959"),
            (0x16, "x"),
        ] {
            assert_eq!(time(tag, text), None, "{text}");
        }
    }

    #[test]
    fn garbage_is_no_date() {
        assert_eq!(not_after(&[]), None);
        assert_eq!(not_after(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(not_after(&[0x30; 64]), None);
    }
}
