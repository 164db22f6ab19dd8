use super::*;
use crate::policy::file;

fn guard(texts: &[&str]) -> Guard {
    let documents = texts
        .iter()
        .enumerate()
        .flat_map(|(index, spec)| {
            let text = format!(
                "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: p{index}}}\nspec: {spec}\n"
            );
            file::parse(&text, "test").unwrap()
        })
        .collect();
    export(&PolicySet::from_documents(documents).unwrap(), &[])
}

/// The rules of a policy under an action, as expression and message.
fn rules(guard: &Guard, name: &str) -> Vec<(String, String)> {
    let object = guard
        .objects
        .iter()
        .find(|object| object["metadata"]["name"] == name && object["kind"] == "ValidatingAdmissionPolicy");
    let validations = object.and_then(|object| object["spec"]["validations"].as_array());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    validations
        .into_iter()
        .flatten()
        .map(|one| (text(&one["expression"]), text(&one["message"])))
        .collect()
}

fn codes(guard: &Guard, name: &str) -> Vec<String> {
    let rules = rules(guard, name);
    rules
        .into_iter()
        .map(|(_, message)| message[..5].to_owned())
        .collect()
}

#[test]
fn the_built_in_default_is_exported_with_what_it_denies_and_what_it_tells() {
    let guard = guard(&[]);
    assert_eq!(
        codes(&guard, "vramgate-built-in-default-deny"),
        ["VG305", "VG501"]
    );
    assert_eq!(
        codes(&guard, "vramgate-built-in-default-warn"),
        ["VG501", "VG502"]
    );
    assert_eq!(guard.objects.len(), 4);
    assert_eq!(guard.objects[1]["spec"]["validationActions"], json!(["Deny"]));
    assert_eq!(guard.objects[0]["spec"]["failurePolicy"], "Ignore");
    assert!(guard.left_out.is_empty());
}

#[test]
fn selectors_bind_a_policy_and_keep_the_next_one_off() {
    let guard = guard(&[
        "{priority: 2, match: {namespaces: {matchLabels: {team: a}}, pods: {matchLabels: {app: x}}}, mig: {profiles: [1g.10gb]}}",
    ]);
    let object = &guard.objects[0];
    assert_eq!(object["metadata"]["name"], "vramgate-p0-deny");
    let constraints = &object["spec"]["matchConstraints"];
    assert_eq!(
        constraints["namespaceSelector"],
        json!({"matchLabels": {"team": "a"}})
    );
    assert_eq!(
        constraints["objectSelector"],
        json!({"matchLabels": {"app": "x"}})
    );
    assert_eq!(codes(&guard, "vramgate-p0-deny"), ["VG305", "VG306", "VG501"]);
    let default = guard
        .objects
        .iter()
        .find(|object| object["metadata"]["name"] == "vramgate-built-in-default-deny")
        .unwrap();
    let variables = default["spec"]["variables"].as_array().unwrap();
    let elsewhere = variables.iter().find(|one| one["name"] == "elsewhere").unwrap();
    let elsewhere = elsewhere["expression"].as_str().unwrap();
    assert!(
        elsewhere.contains("'team' in variables.namespaceLabels"),
        "{elsewhere}"
    );
    assert!(elsewhere.contains("'app' in variables.labels"), "{elsewhere}");
}

#[test]
fn what_may_apply_by_the_node_makes_rules_milder() {
    let strict = "{priority: 1, mig: {profiles: [1g.10gb]}, access: {privileged: deny}}";
    let by_node =
        |spec: &str| format!("{{priority: 2, match: {{nodes: {{matchLabels: {{pool: x}}}}}}, {spec}}}");
    let alone = guard(&[strict]);
    assert_eq!(
        codes(&alone, "vramgate-p0-deny"),
        ["VG305", "VG306", "VG501", "VG502"]
    );
    // Another policy on some nodes allows every profile there; access is judged before a node is known.
    let milder = by_node("mode: enforce");
    let beside = guard(&[strict, &milder]);
    assert_eq!(codes(&beside, "vramgate-p0-deny"), ["VG305", "VG501", "VG502"]);
    assert_eq!(beside.left_out.len(), 1);
    let shadow = by_node("mode: shadow");
    let beside = guard(&[strict, &shadow]);
    assert_eq!(codes(&beside, "vramgate-p0-deny"), ["VG501", "VG502"]);
    assert_eq!(codes(&beside, "vramgate-p0-audit"), ["VG305"]);
    // Both allow some: what neither allows is refused.
    let other = by_node("mig: {profiles: [2g.20gb]}");
    let beside = guard(&[strict, &other]);
    let (expression, _) = &rules(&beside, "vramgate-p0-deny")[1];
    assert!(
        expression.contains("'nvidia.com/mig-1g.10gb'")
            && expression.contains("'nvidia.com/mig-2g.20gb.shared'")
    );
}

#[test]
fn modes_and_severities_decide_what_becomes_of_a_pod() {
    let shadow = guard(&["{priority: 1, mode: shadow}"]);
    assert_eq!(codes(&shadow, "vramgate-p0-deny"), [] as [&str; 0]);
    assert_eq!(codes(&shadow, "vramgate-p0-audit"), ["VG305", "VG501"]);
    assert_eq!(codes(&shadow, "vramgate-p0-warn"), ["VG502"]);
    let warn = guard(&["{priority: 1, mode: warn, access: {runtimeClasses: [nvidia]}}"]);
    assert_eq!(
        codes(&warn, "vramgate-p0-warn"),
        ["VG305", "VG501", "VG502", "VG503"]
    );
    let growth = guard(&["{priority: 1, placement: {growth: [{matchLabels: {pool: x}}]}}"]);
    assert_eq!(codes(&growth, "vramgate-p0-deny"), ["VG501"]);
    let quiet = guard(&["{priority: 1, codes: {info: [VG303, VG305, VG501, VG502]}}"]);
    assert_eq!(codes(&quiet, "vramgate-p0-deny"), [] as [&str; 0]);
    assert_eq!(codes(&quiet, "vramgate-p0-warn"), [] as [&str; 0]);
}

#[test]
fn exempt_namespaces_stand_beside_the_selectors_of_the_policy() {
    let exported = export(&PolicySet::built_in(), &["kube-system".to_owned()]);
    let selector = &exported.objects[0]["spec"]["matchConstraints"]["namespaceSelector"];
    assert_eq!(
        *selector,
        json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]})
    );
}
