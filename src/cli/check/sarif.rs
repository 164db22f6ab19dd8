//! SARIF 2.1.0, the format of code scanning: findings as results, codes as rules with their pages as help.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::places::{Item, file_of, lines_hold};
use super::text;
use crate::cli::{Failure, page};
use crate::document::Position;
use crate::finding::{Code, Finding, Severity};
use crate::message;

/// Width to which the help of a rule is broken.
const HELP_WIDTH: usize = 100;

/// The log of one run.
pub(super) fn document(items: &[Item], failures: &[Failure], exit_code: u8) -> Value {
    let findings = || items.iter().flat_map(|item| &item.judged.verdict.findings);
    let codes: BTreeSet<Code> = findings().map(|finding| finding.code).collect();
    let codes: Vec<Code> = codes.into_iter().collect();
    let rules: Vec<Value> = codes.iter().map(|code| rule(*code, items)).collect();
    let mut seen = BTreeMap::new();
    let mut results = Vec::new();
    for item in items {
        for (finding, position) in item.judged.verdict.findings.iter().zip(&item.places) {
            let rule = codes.binary_search(&finding.code).unwrap_or_default();
            results.push(result(item, finding, position, rule, &mut seen));
        }
    }
    let notes: Vec<Value> = failures
        .iter()
        .flat_map(|failure| failure.0.lines())
        .map(|line| json!({"level": "error", "message": {"text": line}}))
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "vramgate",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": failures.is_empty(),
                "exitCode": exit_code,
                "toolExecutionNotifications": notes,
            }],
            "results": results,
        }],
    })
}

fn rule(code: Code, items: &[Item]) -> Value {
    let text = page::plain(code.page(), HELP_WIDTH);
    let mut rule = json!({
        "id": code.as_str(),
        "name": name(code.title()),
        "shortDescription": {"text": code.title()},
        "fullDescription": {"text": page::meaning(code.page()).unwrap_or_else(|| code.title().to_owned())},
        "defaultConfiguration": {"level": level(code.default_severity())},
        "help": {"text": text, "markdown": page::without_links(code.page())},
        "properties": {"tags": ["kubernetes", "gpu"], "problem.severity": problem(code.default_severity())},
    });
    // Where the pages stand, the policy knows; without it the help itself has to do.
    let verdicts = items.iter().map(|item| &item.judged.verdict);
    let mut links = verdicts.filter_map(|verdict| verdict.messages.link.as_deref());
    let link = links.next();
    let uri = link.map(|link| link.replace("{code}", code.as_str()));
    if let (Some(uri), Value::Object(rule)) = (uri.filter(|uri| uri.contains("://")), &mut rule) {
        rule.insert("helpUri".to_owned(), uri.into());
    }
    rule
}

fn result(
    item: &Item,
    finding: &Finding,
    position: &Position,
    rule: usize,
    seen: &mut BTreeMap<String, u32>,
) -> Value {
    let judged = &item.judged;
    let object = text::name(&judged.object);
    let mut message = format!("{object}: {}", message::whole(finding, &judged.verdict));
    let mut location = json!({
        "logicalLocations": [{
            "name": finding.path.as_str(),
            "fullyQualifiedName": format!("{object} {}", finding.path),
            "kind": "member",
        }],
    });
    if let (Some(file), Value::Object(location)) = (file_of(position), &mut location) {
        location.insert("physicalLocation".to_owned(), physical(file, position));
    }
    if !lines_hold(position) {
        let _ = write!(message, "\n  at {position} ({})", finding.path);
    }
    // Lines move and numbers change: a finding stays the same as long as code, object and field do.
    let print = format!(
        "{} {} {object} {}",
        finding.code, judged.object.api_version, finding.path
    );
    let repeated = seen.entry(print.clone()).or_default();
    let fingerprint = format!("{:016x}:{repeated}", fnv(&print));
    *repeated += 1;
    let mut properties = Map::new();
    properties.insert(
        "verdict".to_owned(),
        if judged.verdict.admit { "admit" } else { "deny" }.into(),
    );
    properties.insert("numbers".to_owned(), json!(finding.numbers));
    properties.insert("fixes".to_owned(), json!(finding.fixes));
    json!({
        "ruleId": finding.code.as_str(),
        "ruleIndex": rule,
        "level": level(finding.severity),
        "message": {"text": message},
        "locations": [location],
        "partialFingerprints": {"vramgateFinding/v1": fingerprint},
        "properties": properties,
    })
}

fn physical(file: &str, position: &Position) -> Value {
    let artifact = if file.starts_with('/') {
        json!({"uri": format!("file://{}", encoded(file))})
    } else {
        json!({"uri": encoded(file), "uriBaseId": "%SRCROOT%"})
    };
    if !lines_hold(position) {
        return json!({"artifactLocation": artifact});
    }
    let mut region = json!({"startLine": position.line});
    if let Value::Object(region) = &mut region {
        let rest = [
            ("startColumn", position.column),
            ("endLine", position.end_line),
            ("endColumn", position.end_column),
        ];
        for (name, number) in rest {
            if let Some(number) = number {
                region.insert(name.to_owned(), number.into());
            }
        }
    }
    json!({"artifactLocation": artifact, "region": region})
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

const fn problem(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "recommendation",
    }
}

/// `DeviceBudgetExceeded`: names of rules are one word.
fn name(title: &str) -> String {
    let mut name = String::new();
    for word in title.split(|letter: char| !letter.is_ascii_alphanumeric()) {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

/// A path as a relative reference of RFC 3986.
fn encoded(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// FNV-1a of 64 bits: the same in every release, which the standard library's hashes do not promise.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_paths_and_prints_are_what_the_format_wants() {
        assert_eq!(name("own /dev/shm volume under MPS"), "OwnDevShmVolumeUnderMPS");
        assert_eq!(encoded("a b/ü%.yaml"), "a%20b/%C3%BC%25.yaml");
        // The test vectors of the algorithm's authors.
        assert_eq!(fnv(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv("foobar"), 0x8594_4171_f739_67e8);
    }
}
