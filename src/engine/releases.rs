//! Releases of an engine as people write them: one, a range, or none that is known.

use thiserror::Error;

use super::Version;

/// The largest last part of a release, for "any of this minor one".
const LAST: u16 = u16::MAX;

/// The releases that a text can mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Releases {
    /// The oldest; `None` where nothing bounds it below.
    pub first: Option<Version>,
    /// The newest; `None` where nothing bounds it above.
    pub last: Option<Version>,
    /// Whether vLLM's old core (V0) runs; `None` where the text does not say.
    pub legacy: Option<bool>,
}

/// A text that names no release.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "release: {text:?} {problem}; write one such as 0.11.0, a range such as 0.7.x, 0.11-0.12 or 0.21+, or the month \
     2025-08 where it is not known, each with (V0) or (V1) behind it for vLLM's core"
)]
pub struct ReleasesError {
    /// The text, as far as it is shown.
    text: String,
    problem: &'static str,
}

impl Releases {
    /// Reads what people write for a release.
    ///
    /// | text | meaning |
    /// | --- | --- |
    /// | `0.7.3`, `v0.6.3.post1`, `0.20.1rc1`, `v0.11.0-cu128` | this one (a candidate has the options of its release) |
    /// | `0.20`, `0.7.x`, `0.27-ish`, `~0.27` | any of the minor release |
    /// | `0.11-0.12`, `0.9.x/0.10`, `0.10.2-0.11` | from the first to the last of the second |
    /// | `0.21+`, `>=0.21` | this one or a newer one |
    /// | `2025-08`, `2025-08-05`, `2024` | a date: not known |
    ///
    /// `(V0)` or `(V1)` behind it tells vLLM's core.
    ///
    /// # Errors
    ///
    /// [`ReleasesError`] for any other text, and for a range that ends before it begins.
    pub fn parse(text: &str) -> Result<Self, ReleasesError> {
        let fail = |problem| ReleasesError {
            text: text.chars().take(60).collect(),
            problem,
        };
        let (rest, legacy) = core(text.trim());
        let releases = |first, last| Self { first, last, legacy };
        if is_date(rest) {
            return Ok(releases(None, None));
        }
        let no_release = || fail("is no release");
        if let Some(from) = rest.strip_suffix('+').or_else(|| rest.strip_prefix(">=")) {
            let (first, _) = bounds(from.trim()).ok_or_else(no_release)?;
            return Ok(releases(Some(first), None));
        }
        let rest = rest.strip_prefix('~').unwrap_or(rest);
        if let Some(about) = rest.strip_suffix("-ish") {
            let (Version([major, minor, ..]), _) = bounds(about).ok_or_else(no_release)?;
            let last = Version([major, minor, LAST, LAST]);
            return Ok(releases(Some(Version::new(major, minor, 0)), Some(last)));
        }
        if let Some((from, to)) = halves(rest) {
            let (first, _) = bounds(from).ok_or_else(no_release)?;
            let (_, last) = bounds(to).ok_or_else(no_release)?;
            if last < first {
                return Err(fail("ends before it begins"));
            }
            return Ok(releases(Some(first), Some(last)));
        }
        let (first, last) = bounds(rest).ok_or_else(no_release)?;
        Ok(releases(Some(first), Some(last)))
    }

    /// The release where only those of one minor release are possible: the oldest of them.
    #[must_use]
    pub fn known(&self) -> Option<Version> {
        let (first, last) = (self.first?, self.last?);
        (first.0[..2] == last.0[..2]).then_some(first)
    }
}

impl From<Option<Version>> for Releases {
    /// Exactly this release, or none that is known.
    fn from(version: Option<Version>) -> Self {
        Self {
            first: version,
            last: version,
            legacy: None,
        }
    }
}

/// The text without `(V0)` or `(V1)`, and whether that is the old core.
fn core(text: &str) -> (&str, Option<bool>) {
    for (mark, legacy) in [("(V0)", true), ("(V1)", false)] {
        if let Some(rest) = text.strip_suffix(mark) {
            return (rest.trim_end(), Some(legacy));
        }
    }
    (text, None)
}

/// Whether a text is a year of this century, or a month or day of one.
fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let number = |part: Option<&str>, length: usize, most: u16| {
        part.is_none_or(|part| {
            part.len() == length
                && part
                    .parse::<u16>()
                    .is_ok_and(|number| (1..=most).contains(&number))
        })
    };
    let year = parts.next().unwrap_or_default();
    let (month, day) = (parts.next(), parts.next());
    year.starts_with("20")
        && number(Some(year), 4, 2099)
        && number(month, 2, 12)
        && number(day, 2, 31)
        && parts.next().is_none()
}

/// `0.11-0.12` and `0.9.x/0.10`; `None` where what stands behind the dash is the suffix of a build.
fn halves(text: &str) -> Option<(&str, &str)> {
    let (from, to) = text.split_once('/').or_else(|| text.split_once('-'))?;
    let (from, to) = (from.trim(), to.trim());
    let begins = to.strip_prefix('v').unwrap_or(to);
    begins
        .starts_with(|c: char| c.is_ascii_digit())
        .then_some((from, to))
}

/// The oldest and the newest release that one word means.
fn bounds(text: &str) -> Option<(Version, Version)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    // Only the suffix of a build may stand behind the numbers.
    let numbers = text.split(['-', '+', '_']).next().unwrap_or(text);
    let parts: Vec<&str> = numbers.split('.').take(6).collect();
    let minor = match parts.as_slice() {
        [major, minor] | [major, minor, "x" | "X" | "*"] => Some((major.parse().ok()?, minor.parse().ok()?)),
        [_, _, patch, rest @ ..]
            if is_patch(patch)
                && match rest {
                    [] => true,
                    [more] => is_patch(more) || more.strip_prefix("post").is_some_and(is_patch),
                    _ => false,
                } =>
        {
            None
        }
        _ => return None,
    };
    if let Some((major, minor)) = minor {
        return Some((Version::new(major, minor, 0), Version([major, minor, LAST, LAST])));
    }
    let version = Version::parse(numbers)?;
    Some((version, version))
}

/// Digits, with the mark of a candidate behind them or not (`1rc1`, `0b2`, `0.dev3` is none).
fn is_patch(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let mark = ["rc", "a", "b"].iter().find_map(|mark| digits.strip_prefix(mark));
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    digits.len() < text.len() && (digits.is_empty() || mark.is_some_and(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let one = |version: Option<Version>| {
            version.map_or("-".to_owned(), |Version([a, b, c, d])| match d {
                0 => format!("{a}.{b}.{c}"),
                d => format!("{a}.{b}.{c}.{d}"),
            })
        };
        match Releases::parse(text) {
            Ok(Releases { first, last, legacy }) => format!("{}..{} {legacy:?}", one(first), one(last)),
            Err(error) => error.problem.to_owned(),
        }
    }

    #[test]
    fn loose_texts_are_ranges() {
        for (text, expected) in [
            ("0.11.0", "0.11.0..0.11.0 None"),
            ("v0.6.3.post1", "0.6.3.1..0.6.3.1 None"),
            ("0.9.0.1", "0.9.0.1..0.9.0.1 None"),
            ("0.20.1rc1", "0.20.1..0.20.1 None"),
            ("v0.19.1-cu128-x86_64", "0.19.1..0.19.1 None"),
            ("0.20", "0.20.0..0.20.65535.65535 None"),
            ("0.7.x", "0.7.0..0.7.65535.65535 None"),
            ("0.7.x (V0)", "0.7.0..0.7.65535.65535 Some(true)"),
            ("0.10.2 (V1)", "0.10.2..0.10.2 Some(false)"),
            ("0.8-0.9 (V0)", "0.8.0..0.9.65535.65535 Some(true)"),
            ("0.11-0.12", "0.11.0..0.12.65535.65535 None"),
            ("0.11 - 0.12", "0.11.0..0.12.65535.65535 None"),
            ("0.9.x/0.10", "0.9.0..0.10.65535.65535 None"),
            ("0.10.2-0.11", "0.10.2..0.11.65535.65535 None"),
            ("v0.10.2-v0.11.0", "0.10.2..0.11.0 None"),
            ("0.27-ish", "0.27.0..0.27.65535.65535 None"),
            ("~0.27.1", "0.27.1..0.27.1 None"),
            ("0.21+", "0.21.0..- None"),
            (">=0.21.2", "0.21.2..- None"),
            ("2025-08", "-..- None"),
            ("2025-08-31", "-..- None"),
            ("2024", "-..- None"),
            ("1.0.0", "1.0.0..1.0.0 None"),
            ("0.12-0.11", "ends before it begins"),
            ("0.11.0-0.10.2", "ends before it begins"),
            ("", "is no release"),
            ("(V0)", "is no release"),
            ("latest", "is no release"),
            ("0", "is no release"),
            ("0.", "is no release"),
            ("0.x", "is no release"),
            ("0.7.y", "is no release"),
            ("0.7.3.4.5", "is no release"),
            ("0.7.3foo", "is no release"),
            ("0.99999.1", "is no release"),
            ("2025-13", "is no release"),
            ("ggml-ci 2025", "is no release"),
            ("llama-cpp-python 0.2.90", "is no release"),
            ("b4567", "is no release"),
            ("+", "is no release"),
            ("0.1\u{301}.2", "is no release"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_bad_text_is_told_with_the_forms_that_are_taken() {
        let long = "x".repeat(5000);
        let error = Releases::parse(&long).unwrap_err().to_string();
        assert!(error.len() < 400, "{error}");
        let error = Releases::parse("newest").unwrap_err().to_string();
        assert!(error.starts_with("release: \"newest\" is no release; write one such as 0.11.0"));
    }

    #[test]
    fn one_minor_release_is_known() {
        let known = |text: &str| Releases::parse(text).unwrap().known();
        assert_eq!(known("0.7.x"), Some(Version::new(0, 7, 0)));
        assert_eq!(known("0.11.2"), Some(Version::new(0, 11, 2)));
        assert_eq!(known("0.11-0.12"), None);
        assert_eq!(known("0.21+"), None);
        assert_eq!(known("2025-08"), None);
        let version = Version::new(0, 9, 1);
        assert_eq!(Releases::from(Some(version)).known(), Some(version));
        assert_eq!(Releases::from(None), Releases::default());
    }
}
