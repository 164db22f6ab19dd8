//! Reviews as kube-apiserver sends them for a vLLM pod: about 12 kB, a third of it managed fields.

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::client::{Request, find};

const REVIEW_UID: &str = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa";
const POD_UID: &str = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb";

/// What the reviewed pod asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A fifth of a time-sliced GPU, as a dry run: counted, nothing kept.
    SharedDryRun,
    /// A whole GPU: nothing to keep, the scheduler counts those.
    WholeGpu,
    /// A fifth of a time-sliced GPU, which is reserved. Every connection creates the same pod again and again, so
    /// each reservation takes the place of the one before.
    SharedReserving,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SharedDryRun => "shared-dry-run",
            Self::WholeGpu => "whole-gpu",
            Self::SharedReserving => "shared-reserving",
        }
    }

    fn is_shared(self) -> bool {
        self != Self::WholeGpu
    }
}

fn model_fetcher() -> Value {
    json!({
        "name": "fetch-model",
        "image": "registry.example.com/tools/model-fetch:2.4.1",
        "args": ["--from", "s3://models/llama-3.1-8b-instruct", "--to", "/models/llama-3.1-8b-instruct"],
        "env": [
            {"name": "AWS_REGION", "value": "eu-central-1"},
            {"name": "AWS_ACCESS_KEY_ID",
             "valueFrom": {"secretKeyRef": {"name": "model-bucket", "key": "access-key"}}},
            {"name": "AWS_SECRET_ACCESS_KEY",
             "valueFrom": {"secretKeyRef": {"name": "model-bucket", "key": "secret-key"}}},
        ],
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "4Gi"}},
        "volumeMounts": [{"name": "models", "mountPath": "/models"}],
    })
}

fn engine(resource: &str, fraction: &str) -> Value {
    json!({
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": [
            "--model", "/models/llama-3.1-8b-instruct",
            "--served-model-name", "llama-3.1-8b-instruct",
            "--host", "0.0.0.0",
            "--port", "8000",
            "--gpu-memory-utilization", fraction,
            "--max-model-len", "8192",
            "--max-num-seqs", "64",
            "--enable-prefix-caching",
            "--quantization", "fp8",
            "--disable-log-requests",
        ],
        "env": [
            {"name": "HF_HUB_OFFLINE", "value": "1"},
            {"name": "VLLM_LOGGING_LEVEL", "value": "INFO"},
            {"name": "VLLM_WORKER_MULTIPROC_METHOD", "value": "spawn"},
            {"name": "VLLM_NO_USAGE_STATS", "value": "1"},
            {"name": "TRANSFORMERS_OFFLINE", "value": "1"},
            {"name": "OMP_NUM_THREADS", "value": "4"},
            {"name": "OTEL_SERVICE_NAME", "value": "chat-completions"},
            {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector.telemetry.svc:4317"},
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            {"name": "VLLM_API_KEY",
             "valueFrom": {"secretKeyRef": {"name": "chat-completions", "key": "api-key"}}},
        ],
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": "4", "memory": "24Gi", resource: "1"},
            "limits": {"memory": "32Gi", resource: "1"},
        },
        "startupProbe": {
            "httpGet": {"path": "/health", "port": "http", "scheme": "HTTP"},
            "periodSeconds": 5, "timeoutSeconds": 2, "successThreshold": 1, "failureThreshold": 120,
        },
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": "http", "scheme": "HTTP"},
            "periodSeconds": 5, "timeoutSeconds": 2, "successThreshold": 1, "failureThreshold": 3,
        },
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": "http", "scheme": "HTTP"},
            "periodSeconds": 20, "timeoutSeconds": 5, "successThreshold": 1, "failureThreshold": 6,
        },
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sleep", "15"]}}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 2000,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "models", "mountPath": "/models", "readOnly": true},
            {"name": "cache", "mountPath": "/home/vllm/.cache"},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "chat-template", "mountPath": "/etc/vllm/templates", "readOnly": true},
        ],
    })
}

fn access_log() -> Value {
    json!({
        "name": "access-log",
        "image": "registry.example.com/tools/access-log:1.9.0",
        "args": ["--upstream", "http://127.0.0.1:8000", "--listen", "0.0.0.0:8080", "--format", "json"],
        "ports": [{"name": "proxy", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "env": [
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "REDACT_HEADERS", "value": "authorization,cookie,x-api-key"},
        ],
        "readinessProbe": {
            "tcpSocket": {"port": "proxy"},
            "periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3,
        },
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
            "runAsUser": 2001, "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "logs", "mountPath": "/var/log/access"}],
    })
}

/// The pod as it is created, before the API server's defaults; `name` is its own.
pub(crate) fn pod(kind: Kind, namespace: &str, name: &str) -> Value {
    let (resource, fraction) = if kind.is_shared() {
        ("nvidia.com/gpu.shared", "0.20")
    } else {
        ("nvidia.com/gpu", "0.92")
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/name": "chat-completions",
                "app.kubernetes.io/component": "engine",
                "app.kubernetes.io/part-of": "assistant",
                "app.kubernetes.io/managed-by": "Helm",
                "pod-template-hash": "6c9f8b7d54",
            },
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "8000",
                "prometheus.io/path": "/metrics",
                "checksum/config": "0d4f5c7f6c1b0a2e9d8c7b6a594837261504f3e2d1c0b9a8f7e6d5c4b3a29180",
            },
        },
        "spec": {
            "serviceAccountName": "default",
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 60,
            "securityContext": {"fsGroup": 2000, "seccompProfile": {"type": "RuntimeDefault"}},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "nodeSelector": {"kubernetes.io/arch": "amd64"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "nvidia.com/gpu.family", "operator": "In", "values": ["hopper", "ada-lovelace"]}]},
            ]}}},
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "chat-completions"}},
            }],
            "initContainers": [model_fetcher()],
            "containers": [engine(resource, fraction), access_log()],
            "volumes": [
                {"name": "models", "emptyDir": {"sizeLimit": "40Gi"}},
                {"name": "cache", "emptyDir": {}},
                {"name": "logs", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "chat-template", "configMap": {"name": "chat-templates", "defaultMode": 420,
                 "items": [{"key": "llama-3.1.jinja", "path": "llama-3.1.jinja"}]}},
                {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
            ],
        },
    })
}

/// The key by which server-side apply tells the items of a list apart; `None` where the list is one value.
fn list_key(field: &str) -> Option<&'static str> {
    match field {
        "containers" | "initContainers" | "env" | "volumes" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "ports" => Some("containerPort"),
        _ => None,
    }
}

/// Field names of a value, in the form of `managedFields`.
fn managed(field: &str, value: &Value) -> Value {
    match (value, list_key(field)) {
        (Value::Object(fields), _) => {
            let names = fields
                .iter()
                .map(|(name, value)| (format!("f:{name}"), managed(name, value)));
            let mut all: Map<String, Value> = names.collect();
            all.insert(".".to_owned(), json!({}));
            Value::Object(all)
        }
        (Value::Array(items), Some(key)) => {
            let items = items.iter().map(|item| {
                let name = Value::Object([(key.to_owned(), item[key].clone())].into_iter().collect());
                (format!("k:{name}"), managed("", item))
            });
            Value::Object(items.collect())
        }
        _ => json!({}),
    }
}

/// What the API server adds to a pod before it asks the validating webhooks.
fn complete(mut pod: Value) -> Value {
    let metadata = &pod["metadata"];
    let fields = json!({
        "f:metadata": {
            "f:annotations": managed("", &metadata["annotations"]),
            "f:labels": managed("", &metadata["labels"]),
        },
        "f:spec": managed("", &pod["spec"]),
    });
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            container["imagePullPolicy"] = json!("IfNotPresent");
            container["terminationMessagePath"] = json!("/dev/termination-log");
            container["terminationMessagePolicy"] = json!("File");
        }
    }
    pod["metadata"]["uid"] = json!(POD_UID);
    pod["metadata"]["creationTimestamp"] = json!("2026-01-05T09:30:00Z");
    pod["metadata"]["managedFields"] = json!([{
        "manager": "helm",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": "2026-01-05T09:30:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }]);
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
        ("enableServiceLinks", json!(true)),
        ("serviceAccount", json!("default")),
        ("priority", json!(0)),
    ] {
        pod["spec"][field] = value;
    }
    if let Some(tolerations) = pod["spec"]["tolerations"].as_array_mut() {
        for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
    pod["status"] = json!({"phase": "Pending", "qosClass": "Burstable"});
    pod
}

/// The review of the pod's creation.
fn review(kind: Kind, name: &str) -> Value {
    let namespace = "assistant";
    let kind_of_object = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": REVIEW_UID,
            "kind": kind_of_object,
            "resource": resource,
            "requestKind": kind_of_object,
            "requestResource": resource,
            "name": name,
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:assistant:deployer",
                "uid": "5f0f1d5e-6c2d-4a53-9c0a-0f6f1e6f4b11",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:assistant", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/credential-id": ["JTI=7a1f5f7e-0a4e-4f0a-8c53-2d7f8c1f0b6d"]},
            },
            "object": complete(pod(kind, namespace, name)),
            "oldObject": null,
            "dryRun": kind == Kind::SharedDryRun,
            "options": {
                "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1",
                "fieldManager": "helm", "fieldValidation": "Strict",
            },
        },
    })
}

/// The request of one connection, straight to a webhook.
pub(crate) fn request(kind: Kind, host: &str, worker: u32) -> Outcome<Request> {
    let body = serde_json::to_vec(&review(kind, &format!("chat-completions-6c9f8b7d54-{worker:05}")))?;
    let head = format!(
        "POST /validate?timeout=3s HTTP/1.1\r\nHost: {host}\r\nUser-Agent: kube-apiserver-admission\r\n\
         Accept: application/json, */*\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&body);
    let uid = |text: &str| find(&bytes, text.as_bytes()).ok_or("a review without its UID");
    let uids = vec![uid(REVIEW_UID)?, uid(POD_UID)?];
    Ok(Request { bytes, uids })
}
