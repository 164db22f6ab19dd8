//! What the API server is told: which requests come here, and what happens when nobody answers.
//!
//! Nothing but pods that ask for a GPU can be held up; those that reach one without asking come here as well, and pass
//! where nobody answers. The conditions are CEL that the API server runs itself: what
//! they leave out costs nothing and cannot be held. Every field that may be absent is asked for with `has()` first, since
//! an error would refuse the request under `Fail` and let it pass unseen under `Ignore`.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::policy::{AccessRule, ConfigMapName, PolicySet};
use crate::workload::CustomKind;

mod conditions;
mod custom;

/// Name of both configurations.
pub const NAME: &str = "vramgate";

/// Where the API server finds the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By URL; `/mutate` and `/validate` are appended.
    Url(String),
    /// By Service, port 443.
    Service {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
    },
}

/// A target that the API server would refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Not a base URL.
    #[error("{0:?} is not a base URL: write https://HOST[:PORT][/PATH], without user, query or fragment")]
    Url(String),
    /// Not a Service.
    #[error("{0:?} is not a Service: write NAMESPACE/NAME")]
    Service(String),
}

impl Target {
    /// A base URL.
    pub fn url(base: &str) -> Result<Self, TargetError> {
        let rest = base
            .strip_prefix("https://")
            .ok_or_else(|| TargetError::Url(base.to_owned()))?;
        let host = rest.split('/').next().unwrap_or_default();
        let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '@' | '?' | '#' | '"' | '\\');
        // What follows the last colon is a port, except within the brackets of an IPv6 address.
        let port = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let no_port = port.is_some_and(|(_, port)| !port.parse::<u16>().is_ok_and(|port| port > 0));
        if host.is_empty() || host.starts_with(':') || no_port || rest.contains(bad) {
            return Err(TargetError::Url(base.to_owned()));
        }
        Ok(Self::Url(base.trim_end_matches('/').to_owned()))
    }

    /// A Service as `NAMESPACE/NAME`.
    pub fn service(text: &str) -> Result<Self, TargetError> {
        let label = |text: &str| {
            let inner = text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            inner && (1..=63).contains(&text.len()) && !text.starts_with('-') && !text.ends_with('-')
        };
        match text.split_once('/') {
            Some((namespace, name)) if label(namespace) && label(name) => Ok(Self::Service {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(TargetError::Service(text.to_owned())),
        }
    }

    /// The names or addresses that the API server looks for in the webhook's certificate.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        match self {
            Self::Service { namespace, name } => vec![
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}.svc.cluster.local"),
            ],
            Self::Url(base) => {
                let rest = base.strip_prefix("https://").unwrap_or(base);
                let authority = rest.split('/').next().unwrap_or_default();
                let host = match authority.rsplit_once(':') {
                    Some((host, port)) if !port.ends_with(']') => host,
                    _ => authority,
                };
                vec![host.trim_start_matches('[').trim_end_matches(']').to_owned()]
            }
        }
    }

    fn client_config(&self, path: &str, ca_pem: Option<&str>) -> Value {
        let mut config = match self {
            Self::Url(base) => json!({ "url": format!("{base}{path}") }),
            Self::Service { namespace, name } => {
                json!({ "service": { "namespace": namespace, "name": name, "path": path, "port": 443 } })
            }
        };
        if let Some(pem) = ca_pem {
            config["caBundle"] = STANDARD.encode(pem).into();
        }
        config
    }
}

/// What the policies add to what comes here: pods that ask for no GPU, ConfigMaps of any content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Runtime classes that show every device.
    pub runtime_classes: Vec<String>,
    /// Whether a privileged container is told of at all. Nearly every agent of a node is privileged.
    pub privileged: bool,
    /// ConfigMaps that are named as the device plugin's or the MIG manager's.
    pub config_maps: Vec<ConfigMapName>,
}

impl Gate {
    /// What any of the policies in force wants to see.
    #[must_use]
    pub fn of(policies: &PolicySet) -> Self {
        let mut runtime_classes: Vec<String> = policies.runtime_classes().map(str::to_owned).collect();
        runtime_classes.sort_unstable();
        runtime_classes.dedup();
        let privileged = policies
            .iter()
            .any(|policy| policy.access.privileged != AccessRule::Ignore);
        let named = policies.iter().flat_map(|policy| {
            let device = &policy.device;
            device.plugin_config.iter().chain(&device.mig_config)
        });
        let config_maps: BTreeSet<ConfigMapName> = named.cloned().collect();
        Self {
            runtime_classes,
            privileged,
            config_maps: config_maps.into_iter().collect(),
        }
    }
}

/// What happens when nobody answers.
#[derive(Clone, Copy)]
enum Unanswered {
    Fail,
    Ignore,
}

/// One entry of a configuration.
struct Entry<'a> {
    /// First part of the name: `pods` of `pods.vramgate.io`.
    name: &'a str,
    path: &'a str,
    rules: Vec<Value>,
    unanswered: Unanswered,
    seconds: u8,
    side_effects: &'a str,
    conditions: Vec<Value>,
}

impl Entry<'_> {
    fn into_value(self, target: &Target, ca_pem: Option<&str>) -> Value {
        json!({
            "name": format!("{}.vramgate.io", self.name),
            "clientConfig": target.client_config(self.path, ca_pem),
            "rules": self.rules,
            "failurePolicy": match self.unanswered { Unanswered::Fail => "Fail", Unanswered::Ignore => "Ignore" },
            "matchPolicy": "Equivalent",
            "matchConditions": self.conditions,
            "sideEffects": self.side_effects,
            "timeoutSeconds": self.seconds,
            "admissionReviewVersions": ["v1"],
        })
    }
}

/// Entries about what all nodes offer, which is nobody's namespace: they come here from exempt ones, too.
const OF_ALL: [&str; 2] = ["configuration.vramgate.io", "device-plugin.vramgate.io"];

/// Both configurations: `MutatingWebhookConfiguration` and `ValidatingWebhookConfiguration`. Without `ca_pem` there is
/// no `caBundle` (something else fills it in). What stands in the namespaces `exempt` does not come here. They are told by
/// the label `kubernetes.io/metadata.name`, which the API server sets to the name: nobody can give it to another one.
#[must_use]
pub fn webhook_config(target: &Target, ca_pem: Option<&str>, gate: &Gate, exempt: &[String]) -> Vec<Value> {
    let mut mutate = Entry {
        name: "mutate",
        path: "/mutate",
        rules: vec![rule("", &["pods"], &["CREATE"])],
        unanswered: Unanswered::Ignore,
        seconds: 2,
        side_effects: "None",
        conditions: vec![condition("asks-for-a-gpu", &conditions::pod_asks())],
    }
    .into_value(target, ca_pem);
    mutate["reinvocationPolicy"] = "IfNeeded".into();

    let mut validating = vec![
        pods().into_value(target, ca_pem),
        access(gate).into_value(target, ca_pem),
    ];
    validating.extend(
        KINDS
            .iter()
            .map(|kind| workload(kind, gate).into_value(target, ca_pem)),
    );
    validating.extend(CustomKind::ALL.iter().map(|kind| of_custom(kind, target, ca_pem)));
    validating.push(scale().into_value(target, ca_pem));
    validating.push(autoscalers().into_value(target, ca_pem));
    validating.push(gpu_configuration(gate).into_value(target, ca_pem));
    validating.push(device_plugin().into_value(target, ca_pem));
    if !exempt.is_empty() {
        let selector = json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt},
        ]});
        let of_pods = |entry: &&mut Value| !OF_ALL.iter().any(|name| entry["name"] == **name);
        for entry in validating.iter_mut().filter(of_pods) {
            entry["namespaceSelector"] = selector.clone();
        }
        mutate["namespaceSelector"] = selector;
    }
    vec![
        configuration("MutatingWebhookConfiguration", &[mutate]),
        configuration("ValidatingWebhookConfiguration", &validating),
    ]
}

/// Group, resource and the path of the pod template of each kind that makes pods.
const KINDS: [(&str, &str, &str); 7] = [
    ("apps", "deployments", "spec.template"),
    ("apps", "statefulsets", "spec.template"),
    ("apps", "replicasets", "spec.template"),
    ("", "replicationcontrollers", "spec.template"),
    ("apps", "daemonsets", "spec.template"),
    ("batch", "jobs", "spec.template"),
    ("batch", "cronjobs", "spec.jobTemplate.spec.template"),
];

fn pods() -> Entry<'static> {
    Entry {
        name: "pods",
        path: "/validate",
        rules: vec![
            rule("", &["pods"], &["CREATE", "UPDATE"]),
            rule("", &["pods/ephemeralcontainers"], &["UPDATE"]),
        ],
        unanswered: Unanswered::Fail,
        seconds: 3,
        side_effects: "NoneOnDryRun",
        conditions: vec![condition(
            "asks-for-a-gpu-and-changes-it",
            &conditions::pod_matters(),
        )],
    }
}

/// Pods that reach a GPU without asking for one. Nothing is held up when nobody answers.
fn access(gate: &Gate) -> Entry<'static> {
    Entry {
        name: "access",
        path: "/validate",
        rules: vec![rule("", &["pods"], &["CREATE", "UPDATE"])],
        unanswered: Unanswered::Ignore,
        seconds: 2,
        side_effects: "NoneOnDryRun",
        conditions: vec![
            condition(
                "is-new-or-has-other-images",
                &conditions::is_new_or_has_other_images(),
            ),
            condition("asks-for-no-gpu", &conditions::asks_not()),
            condition("reaches-one", &conditions::reaches(gate)),
        ],
    }
}

/// Objects of a kind that makes pods: those that no controller made, when they come or change what they make, and only
/// where `matters` says so.
fn of_kind(name: &str, rule: Value, matters: Value) -> Entry<'_> {
    Entry {
        name,
        path: "/validate",
        rules: vec![rule],
        unanswered: Unanswered::Ignore,
        seconds: 2,
        side_effects: "None",
        conditions: vec![
            condition("is-not-made-by-a-controller", &conditions::without_controller()),
            condition(
                "changes-its-spec-and-stays",
                &conditions::changes_spec_and_stays(),
            ),
            matters,
        ],
    }
}

fn workload(
    &(group, resource, template): &(&'static str, &'static str, &'static str),
    gate: &Gate,
) -> Entry<'static> {
    let matters = conditions::template_matters(template, gate);
    of_kind(
        resource,
        rule(group, &[resource], &["CREATE", "UPDATE"]),
        condition("asks-for-a-gpu-or-reaches-one", &matters),
    )
}

/// The entry of a kind of another API group. Its name holds the group: `services` alone would say little.
fn of_custom(kind: &CustomKind, target: &Target, ca_pem: Option<&str>) -> Value {
    let mut rule = rule(kind.group, &[kind.plural], &["CREATE", "UPDATE"]);
    rule["apiVersions"] = kind.versions.into();
    let asks = condition("asks-for-a-gpu", &conditions::any_asks(custom::spots(kind)));
    of_kind(&format!("{}.{}", kind.plural, kind.group), rule, asks).into_value(target, ca_pem)
}

fn scale() -> Entry<'static> {
    Entry {
        name: "scale",
        path: "/validate",
        rules: vec![
            rule(
                "apps",
                &["deployments/scale", "statefulsets/scale", "replicasets/scale"],
                &["UPDATE"],
            ),
            rule("", &["replicationcontrollers/scale"], &["UPDATE"]),
        ],
        unanswered: Unanswered::Ignore,
        seconds: 2,
        side_effects: "None",
        conditions: vec![condition("scales-up", &conditions::scales_up())],
    }
}

/// What scales others. Whether its target asks for a GPU is not written in it, so each one comes here when its
/// specification changes, which is seldom.
fn autoscalers() -> Entry<'static> {
    let mut horizontal = rule(
        "autoscaling",
        &["horizontalpodautoscalers"],
        &["CREATE", "UPDATE"],
    );
    horizontal["apiVersions"] = json!(["v1", "v2"]);
    let mut of_keda = rule("keda.sh", &["scaledjobs", "scaledobjects"], &["CREATE", "UPDATE"]);
    of_keda["apiVersions"] = json!(["v1alpha1"]);
    Entry {
        name: "autoscalers",
        path: "/validate",
        rules: vec![horizontal, of_keda],
        unanswered: Unanswered::Ignore,
        seconds: 2,
        side_effects: "None",
        conditions: vec![
            condition("is-not-made-by-a-controller", &conditions::without_controller()),
            condition(
                "changes-its-spec-and-stays",
                &conditions::changes_spec_and_stays(),
            ),
        ],
    }
}

/// What configures GPUs. Every ConfigMap and every update of a Node is asked of the condition, and nearly none passes it.
fn gpu_configuration(gate: &Gate) -> Entry<'static> {
    let mut of_nodes = rule("", &["nodes"], &["UPDATE"]);
    of_nodes["scope"] = "Cluster".into();
    Entry {
        name: "configuration",
        path: "/validate",
        rules: vec![rule("", &["configmaps"], &["CREATE", "UPDATE"]), of_nodes],
        unanswered: Unanswered::Ignore,
        seconds: 2,
        side_effects: "None",
        conditions: vec![condition("configures-gpus", &conditions::configures_gpus(gate))],
    }
}

/// The DaemonSet of NVIDIA's device plugin asks for no GPU, and its flags decide what every node offers.
fn device_plugin() -> Entry<'static> {
    of_kind(
        "device-plugin",
        rule("apps", &["daemonsets"], &["CREATE", "UPDATE"]),
        condition("runs-the-device-plugin", &conditions::runs_device_plugin()),
    )
}

fn rule(group: &str, resources: &[&str], operations: &[&str]) -> Value {
    let version = "v1";
    json!({
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": resources,
        "operations": operations,
        "scope": "Namespaced",
    })
}

fn condition(name: &str, expression: &str) -> Value {
    json!({ "name": name, "expression": expression })
}

fn configuration(kind: &str, webhooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": { "name": NAME, "labels": { "app.kubernetes.io/name": NAME } },
        "webhooks": webhooks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Value> {
        let target = Target::url("https://127.0.0.1:8443/").unwrap();
        let gate = Gate {
            runtime_classes: vec!["nvidia".to_owned()],
            privileged: true,
            config_maps: Vec::new(),
        };
        let both = webhook_config(&target, Some("PEM"), &gate, &[]);
        both.iter()
            .flat_map(|config| config["webhooks"].as_array().unwrap().clone())
            .collect()
    }

    #[test]
    fn only_pods_can_be_held_up() {
        for entry in entries() {
            let held = entry["failurePolicy"] == "Fail";
            assert_eq!(held, entry["name"] == "pods.vramgate.io", "{entry}");
            assert!(entry["timeoutSeconds"].as_u64().unwrap() <= 3);
            assert_eq!(entry["matchPolicy"], "Equivalent");
            assert!(!entry["matchConditions"].as_array().unwrap().is_empty());
            for rule in entry["rules"].as_array().unwrap() {
                let of_cluster = rule["resources"] == json!(["nodes"]);
                assert_eq!(rule["scope"], if of_cluster { "Cluster" } else { "Namespaced" });
                assert!(!rule.to_string().contains('*'), "{rule}");
            }
        }
    }

    #[test]
    fn policies_widen_the_gate_for_pods_that_ask_for_nothing() {
        let of = |text: &str| {
            let documents = crate::policy::file::parse(text, "p").unwrap();
            let gate = Gate::of(&PolicySet::from_documents(documents).unwrap());
            access(&gate).conditions[2]["expression"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let narrow = access(&Gate::of(&PolicySet::built_in())).conditions[2].to_string();
        assert!(
            !narrow.contains("privileged") && !narrow.contains("runtimeClassName in"),
            "{narrow}"
        );
        let wide = of(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: a}\n\
             spec: {access: {privileged: warn, runtimeClasses: [nvidia, nvidia-cdi]}}\n",
        );
        assert!(wide.contains("c.securityContext.privileged"), "{wide}");
        assert!(wide.contains("in ['nvidia', 'nvidia-cdi']"), "{wide}");
        let documents = crate::policy::file::parse(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: a}\nspec: {device: {pluginConfig: \
             gpu/plugin, migConfig: gpu/mig}}\n",
            "p",
        );
        let gate = Gate::of(&PolicySet::from_documents(documents.unwrap()).unwrap());
        let named = gpu_configuration(&gate).conditions[0].to_string();
        for name in ["'gpu/mig'", "'gpu/plugin'"] {
            assert!(named.contains(name), "{named}");
        }
    }

    #[test]
    fn every_kind_has_its_entry() {
        let names: Vec<String> = entries()
            .iter()
            .map(|entry| entry["name"].as_str().unwrap().replace(".vramgate.io", ""))
            .collect();
        assert_eq!(
            names,
            [
                "mutate",
                "pods",
                "access",
                "deployments",
                "statefulsets",
                "replicasets",
                "replicationcontrollers",
                "daemonsets",
                "jobs",
                "cronjobs",
                "leaderworkersets.leaderworkerset.x-k8s.io",
                "jobsets.jobset.x-k8s.io",
                "rayclusters.ray.io",
                "rayservices.ray.io",
                "rayjobs.ray.io",
                "inferenceservices.serving.kserve.io",
                "llminferenceservices.serving.kserve.io",
                "rollouts.argoproj.io",
                "services.serving.knative.dev",
                "nimservices.apps.nvidia.com",
                "models.kubeai.org",
                "dynamographdeployments.nvidia.com",
                "vllmruntimes.production-stack.vllm.ai",
                "scale",
                "autoscalers",
                "configuration",
                "device-plugin"
            ]
        );
    }

    #[test]
    fn targets_become_what_the_api_server_reads() {
        let entry = &entries()[0];
        assert_eq!(
            entry["clientConfig"],
            json!({"url": "https://127.0.0.1:8443/mutate", "caBundle": "UEVN"})
        );
        let target = Target::service("gpu/vramgate").unwrap();
        let config = &webhook_config(&target, None, &Gate::default(), &[])[1];
        assert_eq!(
            config["webhooks"][0]["clientConfig"],
            json!({"service": {"namespace": "gpu", "name": "vramgate", "path": "/validate", "port": 443}})
        );
    }

    #[test]
    fn a_target_says_for_whom_its_certificate_is() {
        let of = |text: &str| Target::url(text).unwrap().hosts();
        assert_eq!(of("https://webhook.example:8443/gpu"), ["webhook.example"]);
        assert_eq!(of("https://127.0.0.1"), ["127.0.0.1"]);
        assert_eq!(of("https://[::1]:8443"), ["::1"]);
        assert_eq!(of("https://[::1]"), ["::1"]);
        let service = Target::service("gpu/vramgate").unwrap();
        assert_eq!(service.hosts()[0], "vramgate.gpu.svc");
    }

    #[test]
    fn exempt_namespaces_are_told_by_their_name_and_keep_what_configures_gpus() {
        let target = Target::url("https://127.0.0.1:8443").unwrap();
        let exempt = ["kube-system".to_owned(), "gpu-agents".to_owned()];
        let mut without = Vec::new();
        for entry in webhook_config(&target, None, &Gate::default(), &exempt)
            .iter()
            .flat_map(|config| config["webhooks"].as_array().unwrap())
        {
            if entry.get("namespaceSelector").is_none() {
                without.push(entry["name"].as_str().unwrap().to_owned());
                continue;
            }
            assert_eq!(
                entry["namespaceSelector"]["matchExpressions"],
                json!([{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt}])
            );
        }
        assert_eq!(without, OF_ALL);
        for entry in entries() {
            assert!(entry.get("namespaceSelector").is_none(), "{entry}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for text in [
            "",
            "http://x",
            "https://",
            "https://:8443",
            "https://a:99999",
            "https://a:x",
            "https://a@b",
            "https://a?b",
            "https://a#b",
            "https:// a",
        ] {
            assert!(Target::url(text).is_err(), "{text}");
        }
        for text in ["", "vramgate", "a/", "/b", "A/b", "a/b/c", "-a/b"] {
            assert!(Target::service(text).is_err(), "{text}");
        }
    }
}
