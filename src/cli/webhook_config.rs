//! `vramgate webhook-config`: both registrations, ready for `kubectl apply`.
//!
//! Nothing but the creation of GPU pods may ever wait for vramgate: only the entry `pods` has `failurePolicy: Fail`, and
//! its conditions let every other pod pass by.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::args::{Output, WebhookConfig};
use super::{Failure, input, output};

mod conditions;

/// Prints the registrations.
pub(super) fn run(args: &WebhookConfig) -> Result<(), Failure> {
    let ca = input::read_file(&args.ca, input::MAX_INPUT_BYTES)?;
    let shown = args.ca.display();
    let certificates = CertificateDer::pem_slice_iter(&ca)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::new(format!("--ca {shown}: {error}; give the PEM file ca.crt")))?;
    if certificates.is_empty() {
        return Err(Failure::new(format!(
            "--ca {shown}: holds no certificate; give the PEM file ca.crt"
        )));
    }
    let client = Client::new(args, &ca)?;
    let registrations = [mutating(&client), validating(&client)];
    match args.output {
        Output::Text => output::print(&yaml(&registrations)?),
        Output::Json => {
            output::print_json(&json!({"apiVersion": "v1", "kind": "List", "items": registrations}))
        }
    }
}

fn yaml(documents: &[Value]) -> Result<String, Failure> {
    let mut text = String::new();
    for document in documents {
        let body = serde_saphyr::to_string(document)
            .map_err(|error| Failure::new(format!("the registration cannot be written as YAML: {error}")))?;
        text.push_str("---\n");
        text.push_str(&body);
        if !body.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

/// Where the API server finds the webhook.
struct Client {
    address: Address,
    ca: String,
}

enum Address {
    Url(String),
    Service { namespace: String, name: String },
}

impl Client {
    fn new(args: &WebhookConfig, ca: &[u8]) -> Result<Self, Failure> {
        let address = match (&args.url, &args.service) {
            (Some(url), _) => Address::Url(base_url(url)?),
            (None, Some(service)) => service_of(service)?,
            (None, None) => return Err(Failure::new("give --url URL or --service NAMESPACE/NAME")),
        };
        Ok(Self {
            address,
            ca: BASE64.encode(ca),
        })
    }

    fn config(&self, path: &str) -> Value {
        match &self.address {
            Address::Url(base) => json!({"url": format!("{base}{path}"), "caBundle": self.ca}),
            Address::Service { namespace, name } => json!({
                "service": {"namespace": namespace, "name": name, "path": path, "port": 443}, "caBundle": self.ca,
            }),
        }
    }
}

/// The API server takes https without user, query and fragment.
fn base_url(url: &str) -> Result<String, Failure> {
    let refuse = |why: &str| {
        Err(Failure::new(format!(
            "--url {url:?}: {why}, as in https://gpu-webhook.example:8443"
        )))
    };
    let Some(rest) = url.strip_prefix("https://") else {
        return refuse("must begin with https://");
    };
    let host = rest.split('/').next().unwrap_or_default();
    if host.is_empty() {
        return refuse("names no host");
    }
    if rest.contains(['?', '#', '@']) || rest.contains(char::is_whitespace) {
        return refuse("must be host, port and path alone");
    }
    Ok(url.trim_end_matches('/').to_owned())
}

fn service_of(service: &str) -> Result<Address, Failure> {
    match service.split_once('/') {
        Some((namespace, name)) if is_label(namespace) && is_label(name) => Ok(Address::Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }),
        _ => Err(Failure::new(format!(
            "--service {service:?}: write NAMESPACE/NAME, as in vramgate-system/vramgate"
        ))),
    }
}

/// Whether a text is a DNS label, as names of namespaces and services are.
fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn mutating(client: &Client) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "vramgate"},
        "webhooks": [{
            "name": "mutate.vramgate.io",
            "admissionReviewVersions": ["v1"],
            "clientConfig": client.config("/mutate"),
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "None",
            "timeoutSeconds": 3,
            "rules": [rule("", &["CREATE"], &["pods"])],
            "matchConditions": [{"name": "asks-for-a-gpu", "expression": conditions::asks_for_gpu(conditions::POD)}],
        }],
    })
}

fn validating(client: &Client) -> Value {
    let mut webhooks = vec![pods(client)];
    webhooks.extend(WORKLOADS.iter().map(|workload| workload.entry(client)));
    webhooks.push(scale(client));
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "vramgate"},
        "webhooks": webhooks,
    })
}

fn pods(client: &Client) -> Value {
    json!({
        "name": "pods.vramgate.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client.config("/validate"),
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 3,
        "rules": [rule("", &["CREATE", "UPDATE"], &["pods"]), rule("", &["UPDATE"], &["pods/ephemeralcontainers"])],
        "matchConditions": [
            {"name": "asks-for-a-gpu", "expression": conditions::asks_for_gpu(conditions::POD)},
            {"name": "changes-what-it-takes", "expression": conditions::changes_what_it_takes()},
        ],
    })
}

/// A kind that makes pods, with the place of its template.
struct WorkloadRule {
    group: &'static str,
    resource: &'static str,
    template: conditions::Template,
}

const WORKLOADS: &[WorkloadRule] = &[
    WorkloadRule {
        group: "apps",
        resource: "deployments",
        template: conditions::TEMPLATE,
    },
    WorkloadRule {
        group: "apps",
        resource: "statefulsets",
        template: conditions::TEMPLATE,
    },
    WorkloadRule {
        group: "apps",
        resource: "replicasets",
        template: conditions::TEMPLATE,
    },
    WorkloadRule {
        group: "",
        resource: "replicationcontrollers",
        template: conditions::TEMPLATE,
    },
    WorkloadRule {
        group: "apps",
        resource: "daemonsets",
        template: conditions::TEMPLATE,
    },
    WorkloadRule {
        group: "batch",
        resource: "jobs",
        template: conditions::TEMPLATE,
    },
    WorkloadRule {
        group: "batch",
        resource: "cronjobs",
        template: conditions::JOB_TEMPLATE,
    },
];

impl WorkloadRule {
    fn entry(&self, client: &Client) -> Value {
        json!({
            "name": format!("{}.workloads.vramgate.io", self.resource),
            "admissionReviewVersions": ["v1"],
            "clientConfig": client.config("/validate"),
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": 2,
            "rules": [rule(self.group, &["CREATE", "UPDATE"], &[self.resource])],
            "matchConditions": [
                {"name": "asks-for-a-gpu", "expression": conditions::asks_for_gpu(self.template)},
                {"name": "has-no-controller", "expression": conditions::HAS_NO_CONTROLLER},
                {"name": "changes-its-spec", "expression": conditions::CHANGES_ITS_SPEC},
            ],
        })
    }
}

fn scale(client: &Client) -> Value {
    json!({
        "name": "scale.vramgate.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client.config("/validate"),
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 2,
        "rules": [
            rule("apps", &["UPDATE"], &["deployments/scale", "statefulsets/scale", "replicasets/scale"]),
            rule("", &["UPDATE"], &["replicationcontrollers/scale"]),
        ],
        "matchConditions": [{"name": "raises-the-replicas", "expression": conditions::RAISES_THE_REPLICAS}],
    })
}

fn rule(group: &str, operations: &[&str], resources: &[&str]) -> Value {
    json!({
        "apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": resources,
        "scope": "Namespaced",
    })
}

#[cfg(test)]
mod tests;
