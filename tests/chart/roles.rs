//! The rights of the chart are those that `docs/rbac.md` gives reasons for, and no more.

use serde_json::{Value, json};
use vramgate::manifest::{Limits, objects};

use crate::generated::documented_roles;
use crate::helm::{NAMESPACE, Rendered, render};

fn rules(rendered: &Rendered, kind: &str, name: &str) -> Value {
    rendered.get(kind, name)["rules"].clone()
}

fn naming(map: &str) -> Value {
    json!([{"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "a"},
        "spec": {"device": {"pluginConfig": map}}}])
}

#[test]
fn they_are_the_documented_ones() {
    let values = json!({"policies": naming("nvidia/device-plugin-configs")});
    are_documented(&render(&values), 1, "vramgate");
    let mut values = values;
    values["certificates"]["mode"] = "builtIn".into();
    let rendered = render(&values);
    are_documented(&rendered, 1, "vramgate");
    are_documented(&rendered, 2, "vramgate-own-ca");
    assert_eq!(render(&json!({})).get("Role", "vramgate-own-ca"), &Value::Null);
}

/// That the roles of that name are those of a block of the page.
fn are_documented(rendered: &Rendered, block: usize, name: &str) {
    let documented = objects(documented_roles(block).as_bytes(), "docs/rbac.md", Limits::INPUT).unwrap();
    assert_eq!(documented.len(), 2);
    for role in documented.iter().map(|object| &object.value) {
        let kind = role["kind"].as_str().unwrap();
        assert_eq!(rules(rendered, kind, name), role["rules"], "{kind}");
        let binding = rendered.get(&format!("{kind}Binding"), name);
        assert_eq!(binding["roleRef"]["kind"], kind);
        assert_eq!(
            binding["subjects"],
            json!([{"kind": "ServiceAccount", "name": "vramgate", "namespace": NAMESPACE}])
        );
    }
}

#[test]
fn only_config_maps_that_policies_name_can_be_watched() {
    let watched = |rendered: &Rendered| {
        let rules = rules(rendered, "ClusterRole", "vramgate");
        rules
            .as_array()
            .unwrap()
            .iter()
            .find(|rule| {
                rule["verbs"] == json!(["list", "watch"]) && rule["resources"] == json!(["configmaps"])
            })
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(watched(&render(&json!({}))), Value::Null);
    let rendered = render(&json!({"policies": naming("nvidia/plugin")}));
    assert_eq!(watched(&rendered)["resourceNames"], json!(["plugin"]));
}

/// No rule of any role reaches Secrets, or everything.
#[test]
fn nothing_reads_secrets_and_nothing_is_granted_by_a_star() {
    // Of Secrets only the own one, by its name.
    let own = render(&json!({"certificates": {"mode": "builtIn"}}));
    assert_eq!(
        rules(&own, "Role", "vramgate-own-ca")[0]["resourceNames"],
        json!(["vramgate-own-ca"])
    );
    for values in [
        json!({}),
        json!({"policies": naming("a/b"), "rbac": {"configMaps": false}}),
    ] {
        for object in render(&values).0 {
            if !["Role", "ClusterRole"].iter().any(|kind| object["kind"] == *kind) {
                continue;
            }
            for rule in object["rules"].as_array().unwrap() {
                let text = rule.to_string();
                assert!(!text.contains('*') && !text.contains("secrets"), "{text}");
            }
        }
    }
}

/// Rights to delete registrations and to end the replicas exist while the release is being removed, and not before.
#[test]
fn rights_of_the_removal_are_hooks() {
    let rendered = render(&json!({}));
    let mut hooks = 0;
    for object in &rendered.0 {
        if object["metadata"]["name"] != "vramgate-uninstall" {
            continue;
        }
        hooks += 1;
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/hook"], "pre-delete");
        assert_eq!(
            annotations["helm.sh/hook-delete-policy"],
            "before-hook-creation,hook-succeeded"
        );
    }
    assert_eq!(hooks, 6);
    let own = rules(&rendered, "ClusterRole", "vramgate").to_string();
    assert!(!own.contains("admissionregistration"), "{own}");
}
