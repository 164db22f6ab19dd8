//! A row for each value: set away from its default, it changes what it says, and nothing else is left without a row.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::helm::{Rendered, chart, merge, nested, render};

pub(crate) const BUNDLE: &str = "-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n";

/// What a row expects: at `pointer` of the object `KIND/NAME` stands `value`; null where there is nothing.
type Place = (&'static str, &'static str, Value);

struct Row {
    /// Path of the value.
    path: &'static str,
    set: Value,
    places: Vec<Place>,
}

fn row(path: &'static str, set: Value, places: Vec<Place>) -> Row {
    Row { path, set, places }
}

/// Values without which the row's own has no effect.
fn beside(path: &str) -> Value {
    match path {
        "certificates.provided.secretName" => nested(
            "certificates",
            json!({"mode": "provided", "provided": {"secretName": "other", "caBundle": BUNDLE}}),
        ),
        "certificates.provided.caBundle" => nested(
            "certificates",
            json!({"mode": "provided", "provided": {"secretName": "tls",
                "caBundle": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"}}),
        ),
        "certificates.mode" => nested(
            "certificates.provided",
            json!({"secretName": "tls", "caBundle": BUNDLE}),
        ),
        "webhook.url" => nested(
            "certificates",
            json!({"mode": "provided", "provided": {"secretName": "tls", "caBundle": BUNDLE}}),
        ),
        "certificates.certManager.issuerRef.kind" | "certificates.certManager.issuerRef.group" => {
            nested("certificates.certManager.issuerRef.name", json!("ca"))
        }
        "monitor.interval" | "monitor.labels" => nested("monitor.kind", json!("PodMonitor")),
        _ => json!({}),
    }
}

const DEPLOYMENT: &str = "Deployment/vramgate";
const POD: &str = "/spec/template/spec";
const CONTAINER: &str = "/spec/template/spec/containers/0";

fn in_pod(rest: &str) -> &'static str {
    Box::leak(format!("{POD}{rest}").into_boxed_str())
}

fn in_container(rest: &str) -> &'static str {
    Box::leak(format!("{CONTAINER}{rest}").into_boxed_str())
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn table() -> Vec<Row> {
    let image = |text: &str| {
        vec![
            (DEPLOYMENT, in_container("/image"), json!(text)),
            ("Job/vramgate-uninstall", in_container("/image"), json!(text)),
            ("Pod/vramgate-test", "/spec/containers/0/image", json!(text)),
        ]
    };
    let everywhere = |rest: &str, value: Value| {
        vec![
            (DEPLOYMENT, in_pod(rest), value.clone()),
            ("Job/vramgate-uninstall", in_pod(rest), value.clone()),
            (
                "Pod/vramgate-test",
                Box::leak(format!("/spec{rest}").into_boxed_str()) as &'static str,
                value,
            ),
        ]
    };
    let digest = format!("sha256:{}", "a".repeat(64));
    let version = env!("CARGO_PKG_VERSION");
    let policy = json!({"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "dev"},
        "spec": {"mode": "shadow"}});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]}}});
    let toleration = json!([{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}]);
    let peers =
        json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]);
    vec![
        row(
            "image.repository",
            json!("other.example/v"),
            image(&format!("other.example/v:{version}")),
        ),
        row("image.tag", json!("1.2"), image("registry.example/vramgate:1.2")),
        row(
            "image.digest",
            json!(digest),
            image(&format!("registry.example/vramgate@{digest}")),
        ),
        row(
            "image.pullPolicy",
            json!("Always"),
            vec![(DEPLOYMENT, in_container("/imagePullPolicy"), json!("Always"))],
        ),
        row(
            "image.pullSecrets",
            json!([{"name": "pull"}]),
            everywhere("/imagePullSecrets", json!([{"name": "pull"}])),
        ),
        row(
            "replicas",
            json!(3),
            vec![(DEPLOYMENT, "/spec/replicas", json!(3))],
        ),
        row(
            "log",
            json!("debug"),
            vec![(DEPLOYMENT, in_container("/env/0/value"), json!("debug"))],
        ),
        row(
            "reservationTtl",
            json!("2m"),
            vec![(DEPLOYMENT, in_container("/args/4"), json!("--reservation-ttl=2m"))],
        ),
        row(
            "policies",
            json!([policy]),
            vec![(
                "ConfigMap/vramgate-policies",
                "/data/dev.yaml",
                json!(
                    "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata:\n  name: dev\nspec:\n  mode: shadow\n"
                ),
            )],
        ),
        row(
            "webhook.url",
            json!("https://webhook.example:8443/"),
            vec![
                (
                    "ValidatingWebhookConfiguration/vramgate",
                    "/webhooks/0/clientConfig/url",
                    json!("https://webhook.example:8443/validate"),
                ),
                (DEPLOYMENT, "", Value::Null),
                ("Service/vramgate", "", Value::Null),
                ("PodDisruptionBudget/vramgate", "", Value::Null),
                ("NetworkPolicy/vramgate", "", Value::Null),
                ("ConfigMap/vramgate-policies", "", Value::Null),
                ("Role/vramgate-uninstall", "", Value::Null),
                (
                    "Job/vramgate-uninstall",
                    in_container("/args"),
                    json!(["uninstall-node-resources", "--registrations"]),
                ),
            ],
        ),
        row(
            "webhook.failurePolicy",
            json!("Ignore"),
            vec![(
                "ValidatingWebhookConfiguration/vramgate",
                "/webhooks/0/failurePolicy",
                json!("Ignore"),
            )],
        ),
        row(
            "webhook.exemptNamespaces",
            json!(["agents"]),
            vec![(
                "MutatingWebhookConfiguration/vramgate",
                "/webhooks/0/namespaceSelector/matchExpressions/0/values",
                json!(["agents"]),
            )],
        ),
        row(
            "registrations.enabled",
            json!(false),
            vec![
                ("MutatingWebhookConfiguration/vramgate", "", Value::Null),
                ("ValidatingWebhookConfiguration/vramgate", "", Value::Null),
            ],
        ),
        row(
            "certificates.mode",
            json!("provided"),
            vec![
                ("Certificate/vramgate", "", Value::Null),
                ("Issuer/vramgate-ca", "", Value::Null),
                (DEPLOYMENT, in_pod("/volumes/1/secret/secretName"), json!("tls")),
                (
                    "MutatingWebhookConfiguration/vramgate",
                    "/metadata/annotations",
                    Value::Null,
                ),
            ],
        ),
        row(
            "certificates.certManager.issuerRef.name",
            json!("internal"),
            vec![
                (
                    "Certificate/vramgate",
                    "/spec/issuerRef",
                    json!({"name": "internal"}),
                ),
                ("Certificate/vramgate-ca", "", Value::Null),
                ("Issuer/vramgate-ca", "", Value::Null),
                ("Issuer/vramgate-selfsigned", "", Value::Null),
            ],
        ),
        row(
            "certificates.certManager.issuerRef.kind",
            json!("ClusterIssuer"),
            vec![(
                "Certificate/vramgate",
                "/spec/issuerRef/kind",
                json!("ClusterIssuer"),
            )],
        ),
        row(
            "certificates.certManager.issuerRef.group",
            json!("pki.example"),
            vec![(
                "Certificate/vramgate",
                "/spec/issuerRef/group",
                json!("pki.example"),
            )],
        ),
        row(
            "certificates.certManager.duration",
            json!("48h"),
            vec![("Certificate/vramgate", "/spec/duration", json!("48h"))],
        ),
        row(
            "certificates.certManager.renewBefore",
            json!("24h"),
            vec![("Certificate/vramgate", "/spec/renewBefore", json!("24h"))],
        ),
        row(
            "certificates.certManager.caDuration",
            json!("9000h"),
            vec![("Certificate/vramgate-ca", "/spec/duration", json!("9000h"))],
        ),
        row(
            "certificates.certManager.caRenewBefore",
            json!("3000h"),
            vec![("Certificate/vramgate-ca", "/spec/renewBefore", json!("3000h"))],
        ),
        row(
            "certificates.provided.secretName",
            json!("mine"),
            vec![(DEPLOYMENT, in_pod("/volumes/1/secret/secretName"), json!("mine"))],
        ),
        row(
            "certificates.provided.caBundle",
            json!(BUNDLE),
            vec![(
                "ValidatingWebhookConfiguration/vramgate",
                "/webhooks/0/clientConfig/caBundle",
                json!("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tClRVbEoKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="),
            )],
        ),
        row(
            "serviceAccount.annotations",
            json!({"example.com/role": "r"}),
            vec![(
                "ServiceAccount/vramgate",
                "/metadata/annotations",
                json!({"example.com/role": "r"}),
            )],
        ),
        row(
            "rbac.configMaps",
            json!(false),
            vec![
                (
                    "ClusterRole/vramgate",
                    "/rules/2",
                    json!({"apiGroups": [""], "resources": ["replicationcontrollers"], "verbs": ["get"]}),
                ),
                (
                    "ClusterRole/vramgate",
                    "/rules/3",
                    json!({"apiGroups": [""], "resources": ["configmaps"],
                        "resourceNames": ["default-mig-parted-config"], "verbs": ["get"]}),
                ),
            ],
        ),
        row(
            "crds.install",
            json!(false),
            vec![("CustomResourceDefinition/gpuledgers.vramgate.io", "", Value::Null)],
        ),
        row(
            "crds.keep",
            json!(false),
            vec![(
                "CustomResourceDefinition/gpuledgers.vramgate.io",
                "/metadata/annotations/helm.sh~1resource-policy",
                Value::Null,
            )],
        ),
        row(
            "listenAddress",
            json!("[::]"),
            vec![
                (DEPLOYMENT, in_container("/args/1"), json!("--listen=[::]:8443")),
                (
                    DEPLOYMENT,
                    in_container("/args/2"),
                    json!("--status-listen=[::]:8080"),
                ),
            ],
        ),
        row(
            "ports.webhook",
            json!(9443),
            vec![
                (
                    DEPLOYMENT,
                    in_container("/args/1"),
                    json!("--listen=0.0.0.0:9443"),
                ),
                (DEPLOYMENT, in_container("/ports/0/containerPort"), json!(9443)),
            ],
        ),
        row(
            "ports.status",
            json!(9080),
            vec![
                (
                    DEPLOYMENT,
                    in_container("/args/2"),
                    json!("--status-listen=0.0.0.0:9080"),
                ),
                (DEPLOYMENT, in_container("/ports/1/containerPort"), json!(9080)),
                ("Service/vramgate", "/spec/ports/1/port", json!(9080)),
            ],
        ),
        row(
            "hostNetwork",
            json!(true),
            vec![
                (DEPLOYMENT, in_pod("/hostNetwork"), json!(true)),
                (DEPLOYMENT, in_pod("/dnsPolicy"), json!("ClusterFirstWithHostNet")),
                (
                    DEPLOYMENT,
                    "/spec/strategy/rollingUpdate",
                    json!({"maxUnavailable": 1, "maxSurge": 0}),
                ),
            ],
        ),
        row(
            "resources.requests",
            json!({"cpu": "1", "memory": "1Gi"}),
            vec![(
                DEPLOYMENT,
                in_container("/resources/requests"),
                json!({"cpu": "1", "memory": "1Gi"}),
            )],
        ),
        row(
            "resources.limits",
            json!({"memory": "2Gi"}),
            vec![(
                DEPLOYMENT,
                in_container("/resources/limits"),
                json!({"memory": "2Gi"}),
            )],
        ),
        row(
            "priorityClassName",
            json!("mine"),
            vec![(DEPLOYMENT, in_pod("/priorityClassName"), json!("mine"))],
        ),
        row(
            "topologySpread",
            json!("ScheduleAnyway"),
            vec![(
                DEPLOYMENT,
                in_pod("/topologySpreadConstraints/0/whenUnsatisfiable"),
                json!("ScheduleAnyway"),
            )],
        ),
        row(
            "nodeSelector",
            json!({"pool": "infra"}),
            everywhere("/nodeSelector", json!({"pool": "infra"})),
        ),
        row(
            "tolerations",
            toleration.clone(),
            everywhere("/tolerations", toleration),
        ),
        row(
            "affinity",
            affinity.clone(),
            vec![(DEPLOYMENT, in_pod("/affinity"), affinity)],
        ),
        row(
            "podAnnotations",
            json!({"a": "b"}),
            vec![(
                DEPLOYMENT,
                "/spec/template/metadata/annotations",
                json!({"a": "b"}),
            )],
        ),
        row(
            "podLabels",
            json!({"team": "infra"}),
            vec![(DEPLOYMENT, "/spec/template/metadata/labels/team", json!("infra"))],
        ),
        row(
            "terminationGracePeriodSeconds",
            json!(60),
            vec![(DEPLOYMENT, in_pod("/terminationGracePeriodSeconds"), json!(60))],
        ),
        row(
            "podDisruptionBudget.enabled",
            json!(false),
            vec![("PodDisruptionBudget/vramgate", "", Value::Null)],
        ),
        row(
            "podDisruptionBudget.maxUnavailable",
            json!("50%"),
            vec![(
                "PodDisruptionBudget/vramgate",
                "/spec/maxUnavailable",
                json!("50%"),
            )],
        ),
        row(
            "networkPolicy.enabled",
            json!(false),
            vec![("NetworkPolicy/vramgate", "", Value::Null)],
        ),
        row(
            "networkPolicy.apiServerCidrs",
            json!(["10.0.0.0/28"]),
            vec![(
                "NetworkPolicy/vramgate",
                "/spec/ingress/0/from",
                json!([{"ipBlock": {"cidr": "10.0.0.0/28"}}]),
            )],
        ),
        row(
            "networkPolicy.statusFrom",
            peers.clone(),
            vec![("NetworkPolicy/vramgate", "/spec/ingress/1/from", peers)],
        ),
        row(
            "networkPolicy.apiServerPorts",
            json!([16443]),
            vec![(
                "NetworkPolicy/vramgate",
                "/spec/egress/0/ports",
                json!([{"protocol": "TCP", "port": 16443}]),
            )],
        ),
        row(
            "flowSchema.enabled",
            json!(false),
            vec![("FlowSchema/vramgate", "", Value::Null)],
        ),
        row(
            "flowSchema.priorityLevel",
            json!("own"),
            vec![(
                "FlowSchema/vramgate",
                "/spec/priorityLevelConfiguration/name",
                json!("own"),
            )],
        ),
        row(
            "flowSchema.precedence",
            json!(500),
            vec![("FlowSchema/vramgate", "/spec/matchingPrecedence", json!(500))],
        ),
        row(
            "monitor.kind",
            json!("ServiceMonitor"),
            vec![(
                "ServiceMonitor/vramgate",
                "/spec/endpoints",
                json!([{"port": "status", "path": "/metrics", "interval": "30s"}]),
            )],
        ),
        row(
            "monitor.interval",
            json!("10s"),
            vec![(
                "PodMonitor/vramgate",
                "/spec/podMetricsEndpoints/0/interval",
                json!("10s"),
            )],
        ),
        row(
            "monitor.labels",
            json!({"release": "prometheus"}),
            vec![(
                "PodMonitor/vramgate",
                "/metadata/labels/release",
                json!("prometheus"),
            )],
        ),
        row(
            "uninstall.deadlineSeconds",
            json!(600),
            vec![(
                "Job/vramgate-uninstall",
                "/spec/activeDeadlineSeconds",
                json!(600),
            )],
        ),
    ]
}

/// All values away from their defaults at once, as far as they go together.
pub(crate) fn everything() -> Value {
    let mut all = json!({});
    for row in table() {
        let leaves_out = row.places.iter().any(|(_, pointer, _)| pointer.is_empty());
        let shuts_out = ["certificates.mode", "image.digest"];
        if !leaves_out && !shuts_out.contains(&row.path) {
            merge(&mut all, &beside(row.path));
            merge(&mut all, &nested(row.path, row.set));
        }
    }
    merge(&mut all, &nested("certificates.mode", json!("certManager")));
    all
}

#[test]
fn each_value_changes_what_it_says() {
    // Most rows stand beside nothing, and Helm takes a while.
    let mut rendered: BTreeMap<String, Rendered> = BTreeMap::new();
    for row in table() {
        let before = beside(row.path);
        let mut after = before.clone();
        merge(&mut after, &nested(row.path, row.set.clone()));
        let before = &*rendered
            .entry(before.to_string())
            .or_insert_with(|| render(&before));
        let after = render(&after);
        for (object, pointer, expected) in &row.places {
            assert_eq!(
                after.at(object, pointer),
                *expected,
                "{}: {object}{pointer}",
                row.path
            );
            assert_ne!(
                before.at(object, pointer),
                *expected,
                "{}: {object}{pointer} is so anyway",
                row.path
            );
        }
        assert!(!row.places.is_empty(), "{}", row.path);
    }
}

/// Every path of the schema that is no object with fields of its own.
pub(crate) fn leaves(schema: &Value, at: &str, into: &mut BTreeSet<String>) {
    let Some(members) = schema["properties"].as_object() else {
        into.insert(at.to_owned());
        return;
    };
    for (name, member) in members {
        let path = if at.is_empty() {
            name.clone()
        } else {
            format!("{at}.{name}")
        };
        leaves(member, &path, into);
    }
}

#[test]
fn no_value_is_without_a_row() {
    let text = std::fs::read_to_string(chart().join("values.schema.json")).unwrap();
    let mut all = BTreeSet::new();
    leaves(&serde_json::from_str(&text).unwrap(), "", &mut all);
    // Helm's own.
    assert!(all.remove("global"));
    let rows: BTreeSet<String> = table().iter().map(|row| row.path.to_owned()).collect();
    assert_eq!(rows, all);
}

/// A user who reads values.yaml sees each value with its default.
#[test]
fn every_value_has_its_default_in_values_yaml() {
    let text = std::fs::read_to_string(chart().join("values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    for row in table() {
        let pointer = format!("/{}", row.path.replace('.', "/"));
        // An issuer of one's own has no default.
        if !row.path.contains("issuerRef") {
            assert!(
                values.pointer(&pointer).is_some(),
                "values.yaml lacks {}",
                row.path
            );
        }
    }
}
