//! Every object is one that the API server's own types know, to the last field.

use k8s_openapi::api::admissionregistration::v1 as admission;
use k8s_openapi::api::{apps, batch, core, flowcontrol, networking, policy, rbac};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::helm::{Rendered, render};
use crate::values::everything;

fn is_a<T: Serialize + DeserializeOwned>(object: &Value) {
    let typed: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    let back = serde_json::to_value(typed).unwrap();
    // A field that the type does not know is gone now.
    if let Some(at) = lost(object, &back, "") {
        panic!(
            "{} {}: {at} is no field",
            object["kind"], object["metadata"]["name"]
        );
    }
}

/// The first field of `object` that `back` lacks. Empty lists and objects may be left out.
fn lost(object: &Value, back: &Value, at: &str) -> Option<String> {
    match object {
        Value::Object(members) => members.iter().find_map(|(key, value)| {
            let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty)
                || value.as_array().is_some_and(Vec::is_empty)
                || value.is_null();
            match back.get(key) {
                None if is_empty => None,
                None => Some(format!("{at}.{key}")),
                Some(there) => lost(value, there, &format!("{at}.{key}")),
            }
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(number, item)| lost(item, back.get(number)?, &format!("{at}[{number}]"))),
        _ => None,
    }
}

fn check(rendered: &Rendered) {
    for object in &rendered.0 {
        match object["kind"].as_str().unwrap() {
            "MutatingWebhookConfiguration" => is_a::<admission::MutatingWebhookConfiguration>(object),
            "ValidatingWebhookConfiguration" => is_a::<admission::ValidatingWebhookConfiguration>(object),
            "Deployment" => is_a::<apps::v1::Deployment>(object),
            "Job" => is_a::<batch::v1::Job>(object),
            "ConfigMap" => is_a::<core::v1::ConfigMap>(object),
            "Pod" => is_a::<core::v1::Pod>(object),
            "Service" => is_a::<core::v1::Service>(object),
            "Secret" => is_a::<core::v1::Secret>(object),
            "ServiceAccount" => is_a::<core::v1::ServiceAccount>(object),
            "FlowSchema" => is_a::<flowcontrol::v1::FlowSchema>(object),
            "NetworkPolicy" => is_a::<networking::v1::NetworkPolicy>(object),
            "PodDisruptionBudget" => is_a::<policy::v1::PodDisruptionBudget>(object),
            "ClusterRole" => is_a::<rbac::v1::ClusterRole>(object),
            "ClusterRoleBinding" => is_a::<rbac::v1::ClusterRoleBinding>(object),
            "Role" => is_a::<rbac::v1::Role>(object),
            "RoleBinding" => is_a::<rbac::v1::RoleBinding>(object),
            "CustomResourceDefinition" => is_a::<CustomResourceDefinition>(object),
            // Of cert-manager and the Prometheus Operator, whose types are not at hand.
            "Certificate" | "Issuer" => assert_eq!(object["apiVersion"], "cert-manager.io/v1"),
            "PodMonitor" | "ServiceMonitor" => assert_eq!(object["apiVersion"], "monitoring.coreos.com/v1"),
            other => panic!("{other} is not expected"),
        }
    }
}

#[test]
fn every_object_is_of_its_type() {
    check(&render(&json!({})));
    check(&render(&everything()));
    check(&render(&json!({"certificates": {"mode": "builtIn"}})));
    check(&render(&json!({
        "webhook": {"url": "https://webhook.example"},
        "certificates": {"mode": "provided", "provided": {"caBundle": crate::values::BUNDLE}},
    })));
}

/// The pods pass the standard of restricted pods (kubernetes.io/docs/concepts/security/pod-security-standards).
#[test]
fn every_pod_is_restricted() {
    let mut pods = 0;
    for object in render(&json!({})).0 {
        let spec = match object["kind"].as_str().unwrap() {
            "Deployment" | "Job" => &object["spec"]["template"]["spec"],
            "Pod" => &object["spec"],
            _ => continue,
        };
        pods += 1;
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        assert_eq!(
            spec["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        assert!(spec.get("hostNetwork").is_none());
        for container in spec["containers"].as_array().unwrap() {
            let own = &container["securityContext"];
            assert_eq!(own["allowPrivilegeEscalation"], false);
            assert_eq!(own["readOnlyRootFilesystem"], true);
            assert_eq!(own["capabilities"], json!({"drop": ["ALL"]}));
            for amount in ["cpu", "memory"] {
                assert!(container["resources"]["requests"][amount].is_string(), "{amount}");
            }
        }
    }
    assert_eq!(pods, 3);
}

/// The Job that waits for the end of the replicas' pods must not be one of those.
#[test]
fn the_removal_is_not_among_the_pods_that_it_waits_for() {
    let rendered = render(&json!({}));
    let selector = rendered.at("Deployment/vramgate", "/spec/selector/matchLabels");
    let labels = rendered.at("Job/vramgate-uninstall", "/spec/template/metadata/labels");
    let is_selected = selector
        .as_object()
        .unwrap()
        .iter()
        .all(|(key, value)| labels[key] == *value);
    assert!(!is_selected, "{labels} is selected by {selector}");
    let pod = rendered.at("Deployment/vramgate", "/spec/template/metadata/labels");
    for (key, value) in selector.as_object().unwrap() {
        assert_eq!(pod[key], *value);
    }
}
