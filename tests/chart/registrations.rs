//! The registrations of the chart are those of `vramgate webhook-config`, under every kind of policy.

use std::process::Command;

use serde_json::{Value, json};
use vramgate::manifest::{Limits, objects};
use vramgate::server::certs;

use crate::helm::{NAMESPACE, Rendered, Scratch, refusal, render};

const POLICIES: [&str; 6] = [
    "[]",
    r#"[{"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "a"},
         "spec": {"mode": "shadow"}}]"#,
    r#"[{"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "a"},
         "spec": {"access": {"runtimeClasses": ["nvidia", "nvidia-cdi"]}}}]"#,
    r#"[{"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "a"},
         "spec": {"access": {"privileged": "warn"}}}]"#,
    r#"[{"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "a"},
         "spec": {"device": {"pluginConfig": "nvidia/plugin", "migConfig": "nvidia/mig"}}}]"#,
    r#"[{"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "a"},
         "spec": {"access": {"privileged": "ignore", "runtimeClasses": ["z", "b"]}}},
        {"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "b"},
         "spec": {"access": {"privileged": "deny", "runtimeClasses": ["b"]},
                  "device": {"pluginConfig": "nvidia/plugin"}}}]"#,
];

/// What the command prints for the same.
fn of_the_command(policies: &Value, target: [&str; 2], exempt: &[&str], ca: &str) -> Vec<Value> {
    let scratch = Scratch::new();
    let ca = scratch.write("ca.crt", ca);
    let folder = scratch.0.join("policies");
    std::fs::create_dir(&folder).unwrap();
    for policy in policies.as_array().unwrap() {
        let name = policy["metadata"]["name"].as_str().unwrap();
        std::fs::write(folder.join(format!("{name}.json")), policy.to_string()).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramgate"));
    command
        .args(["webhook-config", "--ca"])
        .arg(ca)
        .args(target)
        .arg("--policy-dir")
        .arg(folder);
    for namespace in exempt {
        command.args(["--exempt-namespace", namespace]);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found = objects(&output.stdout, "webhook-config", Limits::INPUT).unwrap();
    found.into_iter().map(|object| object.value).collect()
}

/// The same of the chart, without the labels that Helm's users expect.
fn of_the_chart(rendered: &Rendered) -> Vec<Value> {
    ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
        .map(|kind| {
            let mut object = rendered.get(kind, "vramgate").clone();
            assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/name"], "vramgate");
            object["metadata"]["labels"] = json!({"app.kubernetes.io/name": "vramgate"});
            object
        })
        .to_vec()
}

#[test]
fn they_are_those_of_the_command_under_every_kind_of_policy() {
    let ca = certs::make(&["vramgate.gpu.svc".to_owned()], 30).unwrap().ca_pem;
    let service = format!("{NAMESPACE}/vramgate");
    for (number, policies) in POLICIES.iter().enumerate() {
        let policies: Value = serde_json::from_str(policies).unwrap();
        let by_url = number % 2 == 1;
        let exempt: &[&str] = match number % 3 {
            0 => &["kube-system"],
            1 => &[],
            _ => &["kube-system", "agents"],
        };
        let url = "https://webhook.example:8443/gpu";
        let target = if by_url {
            ["--url", url]
        } else {
            ["--service", &service]
        };
        let rendered = render(&json!({
            "policies": policies,
            "webhook": {"exemptNamespaces": exempt, "url": if by_url { url } else { "" }},
            "certificates": {"mode": "provided", "provided": {"caBundle": ca, "secretName": "tls"}},
        }));
        assert_eq!(
            of_the_chart(&rendered),
            of_the_command(&policies, target, exempt, &ca),
            "under {policies}"
        );
    }
}

#[test]
fn cert_manager_fills_the_authority_in() {
    let rendered = render(&json!({}));
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let object = rendered.get(kind, "vramgate");
        assert_eq!(
            object["metadata"]["annotations"]["cert-manager.io/inject-ca-from"],
            format!("{NAMESPACE}/vramgate")
        );
        for entry in object["webhooks"].as_array().unwrap() {
            assert!(entry["clientConfig"].get("caBundle").is_none());
        }
    }
    let certificate = rendered.get("Certificate", "vramgate");
    assert_eq!(certificate["spec"]["secretName"], "vramgate-tls");
    assert_eq!(
        rendered.at(
            "Deployment/vramgate",
            "/spec/template/spec/volumes/1/secret/secretName"
        ),
        "vramgate-tls"
    );
}

#[test]
fn names_that_could_end_a_string_of_an_expression_are_refused() {
    let policy = |spec: Value| {
        json!({"policies": [{"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy",
            "metadata": {"name": "a"}, "spec": spec}]})
    };
    for (spec, word) in [
        (
            json!({"access": {"runtimeClasses": ["a'] || true || ['"]}}),
            "RuntimeClass",
        ),
        (json!({"device": {"pluginConfig": "a'/b"}}), "NAMESPACE/NAME"),
        (json!({"device": {"migConfig": "plain"}}), "NAMESPACE/NAME"),
    ] {
        let text = refusal(&policy(spec.clone())).unwrap_or_else(|| panic!("{spec} is taken"));
        assert!(text.contains(word), "{text}");
    }
}

/// One of them would be lost without a word.
#[test]
fn two_policies_of_one_name_are_refused() {
    let policy = json!({"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy",
        "metadata": {"name": "a"}, "spec": {"mode": "shadow"}});
    let text = refusal(&json!({"policies": [policy, policy]})).expect("two of one name");
    assert!(text.contains("two are named \"a\""), "{text}");
}

/// Nobody answers before a replica is ready, so the entries come from the leader, not from the chart.
#[test]
fn with_an_authority_of_its_own_the_leader_fills_the_registrations_in() {
    let rendered = render(&json!({
        "certificates": {"mode": "builtIn"},
        "webhook": {"failurePolicy": "Ignore", "exemptNamespaces": ["a", "b"]},
    }));
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        assert!(rendered.get(kind, "vramgate").is_object());
        assert_eq!(rendered.get(kind, "vramgate").get("webhooks"), None);
    }
    let secret = rendered.get("Secret", "vramgate-own-ca");
    assert!(secret.is_object() && secret.get("data").is_none());
    let pod = rendered.at("Deployment/vramgate", "/spec/template/spec");
    let arguments: Vec<&str> = pod["containers"][0]["args"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for argument in [
        "--own-ca=vramgate-own-ca",
        "--keep-registrations=gpu/vramgate",
        "--exempt-namespace=a",
        "--exempt-namespace=b",
        "--failure-policy=ignore",
    ] {
        assert!(arguments.contains(&argument), "{arguments:?}");
    }
    assert!(!pod.to_string().contains("tls"), "{pod}");
    assert_eq!(rendered.get("Certificate", "vramgate"), &Value::Null);
}
