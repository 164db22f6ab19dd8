//! What came of suites, for people and for tools.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::{Ran, Status};
use crate::cli::output::{Paint, clean};
use crate::cli::xml::escaped;
use crate::suite::difference;

/// A line for each case, what differs below those that failed, and the sum.
pub(super) fn text(cases: &[Ran], paint: Paint) -> String {
    let mut text = String::new();
    for case in cases {
        // Writing to a string cannot fail.
        let _ = one(&mut text, case, paint);
    }
    let of = |status| cases.iter().filter(|case| case.status == status).count();
    let counts = [
        (of(Status::Passed), "passed"),
        (of(Status::Failed), "failed"),
        (of(Status::Updated), "updated"),
        (of(Status::Unusable), "unusable"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .enumerate()
        .filter(|(index, (count, _))| *index < 2 || *count > 0)
        .map(|(_, (count, word))| format!("{count} {word}"))
        .collect();
    let _ = writeln!(text, "{}", counts.join(", "));
    if of(Status::Failed) > 0 {
        text.push_str(
            "If the new answers are right, write them into the suites: vramgate policy test --update\n",
        );
    }
    text
}

fn one(text: &mut String, case: &Ran, paint: Paint) -> fmt::Result {
    let word = match case.status {
        Status::Passed => paint.good("ok      "),
        Status::Failed => paint.bad("FAILED  "),
        Status::Updated => "updated ".to_owned(),
        Status::Unusable => paint.bad("unusable"),
    };
    writeln!(
        text,
        "{word} {}:{} {}",
        clean(&case.file),
        case.line,
        clean(&case.case)
    )?;
    for deviation in &case.deviations {
        let what = if deviation.expected.is_empty() {
            "the case expects nothing yet".to_owned()
        } else {
            format!("{} (- expected, + actual)", deviation.block)
        };
        writeln!(text, "  {}:{}: {what}", clean(&case.file), deviation.line)?;
        for line in difference(&deviation.expected, &deviation.actual).lines() {
            writeln!(text, "    {}", clean(line))?;
        }
    }
    for error in &case.errors {
        writeln!(text, "  {}", clean(error))?;
    }
    Ok(())
}

/// As JUnit writes it: a suite for each file, a test case for each case.
pub(super) fn junit(cases: &[Ran]) -> String {
    let mut files: BTreeMap<&str, Vec<&Ran>> = BTreeMap::new();
    for case in cases {
        files.entry(&case.file).or_default().push(case);
    }
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = suites(&mut text, cases, &files);
    text
}

fn suites(text: &mut String, cases: &[Ran], files: &BTreeMap<&str, Vec<&Ran>>) -> fmt::Result {
    let all: Vec<&Ran> = cases.iter().collect();
    writeln!(
        text,
        "<testsuites name=\"vramgate policy test\" {}>",
        counts(&all)
    )?;
    for (file, cases) in files {
        writeln!(text, "  <testsuite name=\"{}\" {}>", escaped(file), counts(cases))?;
        for case in cases {
            let name = escaped(&case.case);
            let (file, line) = (escaped(file), case.line);
            write!(
                text,
                "    <testcase name=\"{name}\" classname=\"{file}\" file=\"{file}\" line=\"{line}\""
            )?;
            let (element, body) = match case.status {
                Status::Passed | Status::Updated => {
                    text.push_str("/>\n");
                    continue;
                }
                Status::Failed => ("failure", differences(case)),
                Status::Unusable => ("error", case.errors.join("\n")),
            };
            let message = escaped(body.lines().next().unwrap_or_default());
            let body = escaped(&body);
            writeln!(
                text,
                ">\n      <{element} message=\"{message}\">{body}</{element}>\n    </testcase>"
            )?;
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    Ok(())
}

fn counts(cases: &[&Ran]) -> String {
    let of = |status| cases.iter().filter(|case| case.status == status).count();
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
        cases.len(),
        of(Status::Failed),
        of(Status::Unusable)
    )
}

fn differences(case: &Ran) -> String {
    let mut text = String::new();
    for deviation in &case.deviations {
        let _ = writeln!(
            text,
            "{}:{}: {} differs (- expected, + actual)",
            case.file, deviation.line, deviation.block
        );
        text.push_str(&difference(&deviation.expected, &deviation.actual));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Deviation;
    use super::*;

    fn case(status: Status) -> Ran {
        Ran {
            file: "a.md".to_owned(),
            line: 3,
            case: "one & <two>".to_owned(),
            status,
            verdicts: Vec::new(),
            deviations: Vec::new(),
            errors: Vec::new(),
        }
    }

    #[test]
    fn failures_show_what_differs_and_xml_stays_xml() {
        let failed = Ran {
            deviations: vec![Deviation {
                line: 9,
                block: "verdict",
                expected: "admit Pod a/b\n".to_owned(),
                actual: "deny Pod a/b: VG201\n".to_owned(),
            }],
            ..case(Status::Failed)
        };
        let text = text(&[case(Status::Passed), failed.clone()], Paint::PLAIN);
        assert_eq!(
            text,
            "ok       a.md:3 one & <two>\nFAILED   a.md:3 one & <two>\n  a.md:9: verdict (- expected, + actual)\n    \
             - admit Pod a/b\n    + deny Pod a/b: VG201\n1 passed, 1 failed\n\
             If the new answers are right, write them into the suites: vramgate policy test --update\n"
        );
        let xml = junit(&[case(Status::Passed), failed]);
        assert!(xml.contains("tests=\"2\" failures=\"1\" errors=\"0\""), "{xml}");
        assert!(xml.contains("name=\"one &amp; &lt;two&gt;\""), "{xml}");
        assert!(xml.contains("+ deny Pod a/b: VG201"), "{xml}");
    }
}
