//! JUnit's XML: one test case for each object, for the test reports of CI systems.

use std::fmt::Write as _;

use super::fails::Fails;
use super::places::Item;
use super::text;
use crate::cli::Failure;
use crate::cli::output::Paint;
use crate::cli::xml::escaped;
use crate::message;

/// The report. An object that is denied, or that `--fail-on` counts, has failed.
pub(super) fn render(items: &[Item], failures: &[Failure], fails: &Fails) -> String {
    let failed = |item: &&Item| !item.judged.verdict.admit || fails.by(&item.judged.verdict);
    let lines: Vec<&str> = failures.iter().flat_map(|failure| failure.0.lines()).collect();
    let (tests, errors) = (items.len() + lines.len(), lines.len());
    let failing = items.iter().filter(failed).count();
    let counts =
        format!("name=\"vramgate check\" tests=\"{tests}\" failures=\"{failing}\" errors=\"{errors}\"");
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite {counts} skipped=\"0\">\n"
    );
    for line in lines {
        let _ = writeln!(
            out,
            "    <testcase name=\"readable input\" classname=\"input\">\n      <error type=\"unusable input\" message=\"{}\"/>\n    \
             </testcase>",
            escaped(line)
        );
    }
    for item in items {
        let position = &item.position;
        let _ = write!(
            out,
            "    <testcase name=\"{}\" classname=\"{}\" file=\"{}\" line=\"{}\"",
            escaped(&text::name(&item.judged.object)),
            escaped(&position.file),
            escaped(position.template.as_ref().unwrap_or(&position.file)),
            position.line,
        );
        let report = text::object(item, Paint::PLAIN);
        if failed(&item) {
            // The worst stands first.
            let worst = item.judged.verdict.findings.first();
            let code = worst.map_or("denied", |finding| finding.code.as_str());
            let message = worst.map_or_else(String::new, message::headline);
            let _ = writeln!(
                out,
                ">\n      <failure type=\"{code}\" message=\"{}\">{}</failure>\n    </testcase>",
                escaped(&message),
                escaped(&report)
            );
        } else if item.judged.verdict.findings.is_empty() {
            out.push_str("/>\n");
        } else {
            let _ = writeln!(
                out,
                ">\n      <system-out>{}</system-out>\n    </testcase>",
                escaped(&report)
            );
        }
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_markup_or_forbidden() {
        assert_eq!(
            escaped("<a b=\"c\">&'\u{1b}\r\u{fffe}"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&apos;\u{fffd}\u{fffd}\u{fffd}"
        );
    }
}
