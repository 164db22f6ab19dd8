//! The items of a `CheckResult`.

use std::fmt;

use json_patch::PatchOperation;
use serde::Serialize;

use super::{ChangeSummary, Document, ObjectChange};
use crate::decision::{PlacementRow, Verdict};
use crate::finding::Finding;
use crate::workload::ObjectRef;

/// Whether an object may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It may.
    Admit,
    /// It may not.
    Deny,
}

/// A place in the input. Lines and columns count from one, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// The file as it was named, below the working directory where it lies there; `-` for standard input.
    pub file: String,
    /// Line.
    pub line: usize,
    /// Column; absent where only the line is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// Line of the last character.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_line: Option<usize>,
    /// Column behind the last character.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_column: Option<usize>,
    /// The template that Helm says it made the document of. Line and column are those of what it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        match &self.template {
            Some(template) => write!(f, " of {template}"),
            None => Ok(()),
        }
    }
}

/// A finding and where what it is about stands in the input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacedFinding {
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// The argument at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
}

/// The verdict on one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The object.
    pub object: ObjectRef,
    /// Where the object begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Whether it may pass.
    pub verdict: Decision,
    /// Every reason, worst first.
    pub findings: Vec<PlacedFinding>,
    /// Changes that the policy makes to the object.
    pub patches: Vec<PatchOperation>,
    /// Where it stands.
    pub placement: Vec<PlacementRow>,
    /// What it was before; absent where there is nothing to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<ObjectChange>,
}

/// Verdicts on a whole input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckResult {
    /// One for each object that was judged, in the order of the input.
    #[serde(flatten)]
    pub document: Document<Checked>,
    /// What the input changes; absent where there is nothing to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangeSummary>,
}

impl Checked {
    /// The item of an object that was judged.
    #[must_use]
    pub fn new(object: ObjectRef, verdict: Verdict) -> Self {
        let places = vec![None; verdict.findings.len()];
        Self::at(object, verdict, None, places)
    }

    /// The same, with where the object stands and what each of its findings is about.
    #[must_use]
    pub fn at(
        object: ObjectRef,
        verdict: Verdict,
        position: Option<Position>,
        places: Vec<Option<Position>>,
    ) -> Self {
        let findings = verdict.findings.into_iter().zip(places);
        Self {
            object,
            position,
            verdict: if verdict.admit {
                Decision::Admit
            } else {
                Decision::Deny
            },
            findings: findings
                .map(|(finding, position)| PlacedFinding { finding, position })
                .collect(),
            patches: verdict.patches,
            placement: verdict.placement,
            change: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::{Document, Kind};
    use crate::finding::{Code, FieldPath, Fix, HolderRef, Number};
    use crate::policy::Evidence;
    use crate::units::{Mib, Share};

    #[test]
    fn a_denial_serialises_to_the_letter() {
        let patch: json_patch::Patch = serde_json::from_value(
            json!([{"op": "replace", "path": "/spec/containers/0/args/1", "value": "0.10"}]),
        )
        .unwrap();
        let mut finding = Finding::new(
            Code::Vg201,
            FieldPath::new("spec.containers[0].args[1]"),
            "no room for 24468 MiB",
        )
        .number("requestMiB", Number::Memory(Mib::new(24_468)))
        .number("promisedFraction", Number::Share(Share::from_ppm(900_000)))
        .fix(Fix {
            title: "ask for 0.10".into(),
            patch: patch.0,
        });
        finding.holders.push(HolderRef {
            namespace: Some("llm".into()),
            name: Some("chat-a".into()),
            container: Some("server".into()),
            request: Some(Mib::new(24_468)),
            share: Share::from_ppm(300_000),
        });
        let verdict = Verdict {
            admit: false,
            judged: true,
            findings: vec![finding],
            placement: vec![PlacementRow {
                node: "gpu-node-1".into(),
                device: None,
                evidence: Evidence::Any,
                promised: Mib::new(97_872),
                budget: Mib::new(73_403),
                promised_fraction: Share::from_ppm(1_200_000),
                budget_fraction: Share::from_ppm(900_000),
            }],
            ..Verdict::default()
        };
        let object = ObjectRef {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "llm".into(),
            name: "chat-d".into(),
        };
        let document = Document::new(Kind::CheckResult, vec![Checked::new(object, verdict)]);
        assert_eq!(
            serde_json::to_value(document).unwrap(),
            json!({
                "apiVersion": "vramgate.io/v1alpha1",
                "kind": "CheckResult",
                "items": [{
                    "object": {"apiVersion": "v1", "kind": "Pod", "namespace": "llm", "name": "chat-d"},
                    "verdict": "deny",
                    "findings": [{
                        "code": "VG201",
                        "severity": "error",
                        "path": "spec.containers[0].args[1]",
                        "message": "no room for 24468 MiB",
                        "numbers": {"requestMiB": 24468, "promisedFraction": "0.90"},
                        "holders": [{"namespace": "llm", "name": "chat-a", "container": "server",
                                     "requestMiB": 24468, "share": "0.30"}],
                        "fixes": [{"title": "ask for 0.10", "patch": [
                            {"op": "replace", "path": "/spec/containers/0/args/1", "value": "0.10"}]}],
                    }],
                    "patches": [],
                    "placement": [{"node": "gpu-node-1", "device": null, "evidence": "any",
                                   "promisedMiB": 97872, "budgetMiB": 73403,
                                   "promisedFraction": "1.20", "budgetFraction": "0.90"}],
                }],
            })
        );
    }

    #[test]
    fn the_word_follows_the_verdict() {
        let verdict = Verdict {
            admit: true,
            ..Verdict::default()
        };
        let item = Checked::new(ObjectRef::default(), verdict);
        assert_eq!(item.verdict, Decision::Admit);
        assert_eq!(serde_json::to_value(&item).unwrap()["verdict"], "admit");
    }
}
