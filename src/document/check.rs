//! The items of a `CheckResult`.

use json_patch::PatchOperation;
use serde::Serialize;

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

/// The verdict on one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The object.
    pub object: ObjectRef,
    /// Whether it may pass.
    pub verdict: Decision,
    /// Every reason, worst first.
    pub findings: Vec<Finding>,
    /// Changes that the policy makes to the object.
    pub patches: Vec<PatchOperation>,
    /// Where it stands.
    pub placement: Vec<PlacementRow>,
}

impl Checked {
    /// The item of an object that was judged.
    #[must_use]
    pub fn new(object: ObjectRef, verdict: Verdict) -> Self {
        Self {
            object,
            verdict: if verdict.admit {
                Decision::Admit
            } else {
                Decision::Deny
            },
            findings: verdict.findings,
            patches: verdict.patches,
            placement: verdict.placement,
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
