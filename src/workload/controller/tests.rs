#![allow(
    clippy::needless_pass_by_value,
    reason = "JSON literals read better without borrows"
)]

use serde_json::json;

use super::*;

/// Both ways of reading must agree.
fn read(object: &Value) -> Result<Option<Workload>, Malformed> {
    let from_value = Workload::read(object);
    let from_text = Workload::from_json(&object.to_string());
    assert_eq!(from_value, from_text);
    from_value
}

fn workload(object: &Value) -> Workload {
    read(object).unwrap().unwrap()
}

fn plan(object: &Value) -> (u32, u32, u32) {
    let replicas = workload(object).replicas;
    (replicas.desired, replicas.surge, replicas.unavailable)
}

fn object(api_version: &str, kind: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["template"] =
        json!({ "spec": { "containers": [{ "name": "main", "image": "registry.example/llm:1" }] } });
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "chat" }, "spec": spec })
}

fn deployment(spec: &Value) -> Value {
    object("apps/v1", "Deployment", spec)
}

#[test]
fn a_pod_is_one_pod_in_its_namespace() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "chat-7d9f6c-", "uid": "u-1", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }],
            "ownerReferences": [
                { "kind": "Other", "name": "other", "controller": null },
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-7d9f6c", "controller": true },
            ],
        },
        "spec": { "containers": [{ "name": "main" }] },
    });
    let read = workload(&pod);
    assert_eq!(
        read.object,
        ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: "default".to_owned(),
            name: "chat-7d9f6c-".to_owned(),
        }
    );
    assert_eq!(read.uid, "u-1");
    assert_eq!(read.pod.metadata.namespace, "default");
    assert_eq!(read.pod.spec.containers.len(), 1);
    assert_eq!(read.template.as_str(), "");
    assert_eq!(
        read.controller.map(|owner| owner.name).as_deref(),
        Some("chat-7d9f6c")
    );
    assert!(read.deleting);
    assert_eq!(plan(&pod), (1, 0, 0));
}

#[test]
fn a_template_gets_the_namespace_of_its_workload() {
    let mut object = deployment(&json!({ "replicas": 2 }));
    object["metadata"]["namespace"] = json!("team-a");
    let read = workload(&object);
    assert_eq!(read.object.namespace, "team-a");
    assert_eq!(read.pod.metadata.namespace, "team-a");
    assert_eq!(read.template.as_str(), "spec.template");
    assert_eq!(read.kind, WorkloadKind::Deployment);
    assert_eq!(read.controller, None);
}

#[test]
fn deployments_surge_up_and_go_down_as_their_controller_does() {
    let rolling = |replicas: u32, surge: Value, unavailable: Value| {
        let limits = json!({ "maxSurge": surge, "maxUnavailable": unavailable });
        let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": limits });
        plan(&deployment(
            &json!({ "replicas": replicas, "strategy": strategy }),
        ))
    };
    let null = Value::Null;
    assert_eq!(plan(&deployment(&json!({}))), (1, 1, 0));
    assert_eq!(
        plan(&deployment(&json!({ "replicas": null, "strategy": null }))),
        (1, 1, 0)
    );
    assert_eq!(plan(&deployment(&json!({ "replicas": 4 }))), (4, 1, 1));
    assert_eq!(plan(&deployment(&json!({ "replicas": 10 }))), (10, 3, 2));
    assert_eq!(plan(&deployment(&json!({ "replicas": 0 }))), (0, 0, 1));
    assert_eq!(rolling(10, json!("30%"), null.clone()), (10, 3, 2));
    assert_eq!(rolling(3, json!(0), json!("10%")), (3, 0, 1));
    assert_eq!(rolling(3, json!("0%"), json!(0)), (3, 0, 1));
    assert_eq!(rolling(3, json!(2), json!(7)), (3, 2, 3));
    assert_eq!(rolling(2, json!("150%"), json!(0)), (2, 3, 0));
    assert_eq!(
        plan(&deployment(
            &json!({ "replicas": 3, "strategy": { "type": "Recreate" } })
        )),
        (3, 0, 3)
    );
}

#[test]
fn other_controllers_replace_a_pod_after_it_is_gone() {
    for (api_version, kind) in [
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "ReplicaSet"),
        ("v1", "ReplicationController"),
    ] {
        assert_eq!(
            plan(&object(api_version, kind, &json!({ "replicas": 3 }))),
            (3, 0, 1),
            "{kind}"
        );
        assert_eq!(plan(&object(api_version, kind, &json!({}))), (1, 0, 1), "{kind}");
    }
}

#[test]
fn daemon_sets_make_a_pod_per_node() {
    let with = |strategy: Value| {
        let read = workload(&object(
            "apps/v1",
            "DaemonSet",
            &json!({ "updateStrategy": strategy }),
        ));
        assert!(read.replicas.per_node);
        (
            read.replicas.desired,
            read.replicas.surge,
            read.replicas.unavailable,
        )
    };
    assert_eq!(with(json!(null)), (1, 0, 1));
    assert_eq!(
        with(json!({ "rollingUpdate": { "maxSurge": "10%", "maxUnavailable": 0 } })),
        (1, 1, 0)
    );
    assert_eq!(
        with(json!({ "type": "OnDelete", "rollingUpdate": { "maxSurge": 1 } })),
        (1, 0, 1)
    );
}

#[test]
fn jobs_run_as_many_pods_as_they_still_need() {
    let job = |spec: &Value| plan(&object("batch/v1", "Job", spec)).0;
    assert_eq!(job(&json!({})), 1);
    assert_eq!(job(&json!({ "parallelism": 4 })), 4);
    assert_eq!(job(&json!({ "parallelism": 4, "completions": 2 })), 2);
    assert_eq!(job(&json!({ "completions": 5 })), 1);
    assert_eq!(job(&json!({ "parallelism": 0 })), 0);
    assert_eq!(job(&json!({ "parallelism": 4, "suspend": true })), 0);
}

#[test]
fn cron_jobs_count_as_one_job() {
    let cron = |policy: Value, suspend: bool| {
        json!({
            "kind": "CronJob", "apiVersion": "batch/v1", "metadata": { "name": "nightly" },
            "spec": { "suspend": suspend, "concurrencyPolicy": policy, "jobTemplate": { "spec": {
                "parallelism": 2, "template": { "spec": { "containers": [] } },
            } } },
        })
    };
    assert_eq!(plan(&cron(json!("Forbid"), false)), (2, 0, 0));
    assert_eq!(plan(&cron(json!(null), false)), (2, 0, 0));
    assert_eq!(plan(&cron(json!("Allow"), true)), (0, 0, 0));
    assert_eq!(
        workload(&cron(json!("Replace"), false)).template.as_str(),
        "spec.jobTemplate.spec.template"
    );
    let error = read(&cron(json!("Never"), false)).unwrap_err();
    assert_eq!(error.path, "spec.concurrencyPolicy");
    assert!(
        error.message.contains("Never") && error.message.contains("Forbid"),
        "{error}"
    );
}

#[test]
fn other_kinds_and_groups_are_not_ours() {
    for (api_version, kind) in [
        ("v1", "ConfigMap"),
        ("v1", "List"),
        ("example.com/v1", "Deployment"),
        ("metrics.k8s.io/v1beta1", "Pod"),
        ("serving.example.org/v1", "Service"),
        ("apps/v1", "Pod"),
    ] {
        assert_eq!(
            read(&json!({ "apiVersion": api_version, "kind": kind, "spec": [1] })),
            Ok(None),
            "{kind}"
        );
    }
}

#[test]
fn versions_that_are_not_read_are_named() {
    for (api_version, kind, wanted) in [
        ("apps/v1beta1", "Deployment", "apps/v1"),
        ("extensions/v1beta1", "DaemonSet", "apps/v1"),
        ("batch/v1beta1", "CronJob", "batch/v1"),
        ("v2", "Pod", "write v1"),
    ] {
        let error = read(&object(api_version, kind, &json!({}))).unwrap_err();
        assert_eq!(error.path, "apiVersion");
        assert!(
            error.message.contains(api_version) && error.message.contains(wanted),
            "{error}"
        );
    }
}

#[test]
fn what_cannot_be_read_names_field_and_value() {
    let container = |fields: Value| {
        let mut object = deployment(&json!({}));
        object["spec"]["template"]["spec"]["containers"][0] = fields;
        object
    };
    let strategy = |limits: Value| deployment(&json!({ "strategy": { "rollingUpdate": limits } }));
    for (object, path, words) in [
        (json!({ "apiVersion": "v1" }), "kind", "is missing"),
        (json!({ "kind": "Pod" }), "apiVersion", "v1"),
        (
            json!({ "kind": "Deployment", "apiVersion": "apps/v1", "spec": {} }),
            "spec.template",
            "is missing",
        ),
        (
            json!({ "kind": "Deployment", "apiVersion": "apps/v1" }),
            "spec.template",
            "is missing",
        ),
        (
            deployment(&json!({ "replicas": -1 })),
            "spec.replicas",
            "`-1`, expected a whole number",
        ),
        (
            deployment(&json!({ "replicas": "3" })),
            "spec.replicas",
            "\"3\", expected a whole number",
        ),
        (
            deployment(&json!({ "replicas": 2.5 })),
            "spec.replicas",
            "`2.5`, expected a whole number",
        ),
        (
            deployment(&json!({ "replicas": 4_000_000_000_u32 })),
            "spec.replicas",
            "4000000000",
        ),
        (
            strategy(json!({ "maxSurge": "abc" })),
            "spec.strategy.rollingUpdate.maxSurge",
            "\"abc\"",
        ),
        (
            strategy(json!({ "maxSurge": "1" })),
            "spec.strategy.rollingUpdate.maxSurge",
            "25%",
        ),
        (
            strategy(json!({ "maxSurge": "-5%" })),
            "spec.strategy.rollingUpdate.maxSurge",
            "-5%",
        ),
        (
            strategy(json!({ "maxUnavailable": -1 })),
            "spec.strategy.rollingUpdate.maxUnavailable",
            "`-1`",
        ),
        (
            deployment(&json!({ "strategy": { "type": "Rolling" } })),
            "spec.strategy.type",
            "Rolling",
        ),
        (
            object("batch/v1", "Job", &json!({ "parallelism": -2 })),
            "spec.parallelism",
            "`-2`",
        ),
        (
            container(json!({ "name": "main", "env": "X=1" })),
            "spec.template.spec.containers[0].env",
            "\"X=1\", expected a sequence",
        ),
        (
            container(json!({ "args": ["serve", 8000] })),
            "spec.template.spec.containers[0].args[1]",
            "`8000`, expected a string",
        ),
        (
            container(json!({ "resources": { "limits": { "nvidia.com/gpu": [1] } } })),
            "spec.template.spec.containers[0].resources.limits.nvidia.com/gpu",
            "expected a resource quantity",
        ),
    ] {
        let error = read(&object).unwrap_err();
        assert_eq!(error.path, path, "{error}");
        assert!(error.message.contains(words), "{error}");
        assert!(!error.message.contains(" column "), "{error}");
    }
}

#[test]
fn texts_that_are_no_object_are_refused() {
    for text in [
        "",
        "null",
        "[]",
        "7",
        "\"Pod\"",
        "{",
        "{\"kind\": 5}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"spec\":{",
    ] {
        assert!(Workload::from_json(text).is_err(), "{text}");
    }
    for value in [json!(null), json!([]), json!(7), json!({ "kind": 5 })] {
        assert!(Workload::read(&value).is_err(), "{value}");
    }
    let deep = format!(
        "{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"spec\":{}",
        "[".repeat(100_000)
    );
    assert!(Workload::from_json(&deep).is_err());
}

#[test]
fn kind_and_version_are_found_wherever_they_stand() {
    let text = r#"{"metadata":{"name":"a","kind":"X"},"spec":null,"kind":"\u0050od","apiVersion":"v1"}"#;
    assert_eq!(
        Workload::from_json(text)
            .unwrap()
            .map(|read| read.object.name)
            .as_deref(),
        Some("a")
    );
}
