//! What the schema refuses, and that it is closed everywhere.

use serde_json::{Value, json};

use crate::helm::{chart, lint, nested, notes, refusal, refusal_of};
use crate::values::{BUNDLE, everything};

/// A value and a word of its refusal.
fn wrong() -> Vec<(Value, &'static str)> {
    let policy = |kind: &str, more: Value| {
        let mut policy = json!({"apiVersion": "vramgate.io/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": {}});
        crate::helm::merge(&mut policy, &more);
        json!({ "policies": [policy] })
    };
    vec![
        (json!({"replica": 2}), "replica"),
        (json!({"image": {"repo": "x"}}), "repo"),
        (json!({"replicas": "2"}), "replicas"),
        (json!({"replicas": 0}), "replicas"),
        (json!({"replicas": 1.5}), "replicas"),
        (json!({"image": {"repository": "a b"}}), "repository"),
        (json!({"image": {"digest": "sha256:12"}}), "digest"),
        (json!({"image": {"pullPolicy": "Sometimes"}}), "pullPolicy"),
        (json!({"image": {"pullSecrets": ["plain"]}}), "pullSecrets"),
        (json!({"reservationTtl": "65"}), "reservationTtl"),
        (json!({"webhook": {"url": "http://x"}}), "url"),
        (json!({"webhook": {"url": "https://x?y"}}), "url"),
        (json!({"webhook": {"failurePolicy": "fail"}}), "failurePolicy"),
        (
            json!({"webhook": {"exemptNamespaces": ["Kube"]}}),
            "exemptNamespaces",
        ),
        (
            json!({"webhook": {"exemptNamespaces": ["a", "a"]}}),
            "exemptNamespaces",
        ),
        (json!({"certificates": {"mode": "own"}}), "mode"),
        (json!({"certificates": {"mode": "provided"}}), "caBundle"),
        (
            json!({"certificates": {"mode": "provided", "provided": {"caBundle": BUNDLE}}}),
            "secretName",
        ),
        (
            json!({"certificates": {"mode": "provided", "provided": {"caBundle": "TUlJ", "secretName": "x"}}}),
            "caBundle",
        ),
        (
            json!({"certificates": {"mode": "provided", "provided": {"secretName": "x", "caBundle":
                "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nAA\n-----END PRIVATE KEY-----"}}}),
            "caBundle",
        ),
        (
            json!({"webhook": {"url": "https://x"}, "certificates": {"mode": "builtIn"}}),
            "certificates.mode: provided",
        ),
        (
            json!({"webhook": {"url": "https://x"}}),
            "certificates.mode: provided",
        ),
        (
            json!({"certificates": {"certManager": {"issuerRef": {"kind": "ClusterIssuer"}}}}),
            "name",
        ),
        (
            json!({"certificates": {"certManager": {"duration": "90d"}}}),
            "duration",
        ),
        (policy("Policy", json!({})), "kind"),
        (
            json!({"policies": [{"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "a"}}]}),
            "spec",
        ),
        (policy("GpuSharingPolicy", json!({"status": {}})), "status"),
        (
            policy("GpuSharingPolicy", json!({"metadata": {"name": ""}})),
            "name",
        ),
        (json!({"listenAddress": "::"}), "listenAddress"),
        (json!({"ports": {"webhook": 70000}}), "webhook"),
        (
            json!({"terminationGracePeriodSeconds": 10}),
            "terminationGracePeriodSeconds",
        ),
        (json!({"topologySpread": "Never"}), "topologySpread"),
        (
            json!({"podDisruptionBudget": {"maxUnavailable": 0}}),
            "maxUnavailable",
        ),
        (
            json!({"networkPolicy": {"apiServerCidrs": ["10.0.0.1"]}}),
            "apiServerCidrs",
        ),
        (json!({"networkPolicy": {"apiServerPorts": []}}), "apiServerPorts"),
        (json!({"flowSchema": {"precedence": 20000}}), "precedence"),
        (json!({"monitor": {"kind": "both"}}), "kind"),
        (json!({"uninstall": {"deadlineSeconds": 60}}), "deadlineSeconds"),
        (json!({"nodeSelector": {"a": 1}}), "nodeSelector"),
        (json!({"resources": {"claims": []}}), "claims"),
    ]
}

#[test]
fn wrong_and_unknown_values_are_refused_by_their_name() {
    for (values, word) in wrong() {
        let text = refusal(&values).unwrap_or_else(|| panic!("{values} is taken"));
        assert!(text.contains(word), "{values}: {text}");
    }
    let text = refusal_of(&json!({})).expect("no image is named");
    assert!(
        text.contains("image.repository") && text.contains("Dockerfile"),
        "{text}"
    );
}

#[test]
fn what_helm_itself_passes_is_taken() {
    assert_eq!(refusal(&nested("global.imageRegistry", json!("x"))), None);
}

/// Objects are closed, or free where Kubernetes' own types or names of labels stand in them.
#[test]
fn the_schema_is_closed() {
    fn walk(schema: &Value, at: &str) {
        if let Some(members) = schema["properties"].as_object() {
            assert_eq!(schema["additionalProperties"], false, "{at} is open");
            for (name, member) in members {
                walk(member, &format!("{at}.{name}"));
            }
        }
        if schema["type"] == "array" {
            walk(&schema["items"], &format!("{at}[]"));
        }
    }
    let text = std::fs::read_to_string(chart().join("values.schema.json")).unwrap();
    walk(&serde_json::from_str(&text).unwrap(), "values");
}

#[test]
fn helm_lint_has_nothing_to_say() {
    for values in [json!({}), everything()] {
        let (passed, text) = lint(&values);
        assert!(passed && !text.contains("[WARNING]"), "{text}");
    }
}

#[test]
fn the_notes_say_what_is_next() {
    let text = notes(&json!({}), false);
    assert!(
        text.contains("helm -n gpu test vramgate") && text.contains("are refused"),
        "{text}"
    );
    assert!(!text.contains("Upgrading"), "{text}");
    let text = notes(&json!({}), true);
    assert!(text.contains("Upgrading"), "{text}");
    let text = notes(&json!({"webhook": {"failurePolicy": "Ignore"}}), false);
    assert!(text.contains("not counted"), "{text}");
    let text = notes(&json!({"certificates": {"mode": "builtIn"}}), false);
    assert!(text.contains("until the leader"), "{text}");
    let text = notes(&json!({"registrations": {"enabled": false}}), false);
    assert!(text.contains("no pod is judged"), "{text}");
}
