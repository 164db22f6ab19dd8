//! One reading of a whole cluster, for commands that answer once and end.

use hyper::http::Request;
use kube::Client;
use kube::api::ListParams;
use kube::core::Request as Calls;
use serde_json::Value;

use super::causes::Causes;

/// What is read, as path, `apiVersion` and `kind` of the items (a list leaves them out). Context comes before pods.
const LISTS: [(&str, &str, &str); 11] = [
    ("/api/v1/namespaces", "v1", "Namespace"),
    ("/api/v1/nodes", "v1", "Node"),
    ("/api/v1/configmaps", "v1", "ConfigMap"),
    ("/apis/apps/v1/deployments", "apps/v1", "Deployment"),
    ("/apis/apps/v1/statefulsets", "apps/v1", "StatefulSet"),
    ("/apis/apps/v1/replicasets", "apps/v1", "ReplicaSet"),
    ("/apis/apps/v1/daemonsets", "apps/v1", "DaemonSet"),
    ("/api/v1/replicationcontrollers", "v1", "ReplicationController"),
    ("/apis/batch/v1/jobs", "batch/v1", "Job"),
    ("/apis/batch/v1/cronjobs", "batch/v1", "CronJob"),
    ("/api/v1/pods", "v1", "Pod"),
];
/// Objects in one answer of the API server.
const PAGE: u32 = 500;

/// Reads every object that a decision could look at, and gives them one by one. The error says what could not be read.
pub async fn read_objects(
    client: &Client,
    take: &mut (dyn FnMut(Value) -> Result<(), String> + Send),
) -> Result<(), String> {
    for (path, api_version, kind) in LISTS {
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let call: Request<Vec<u8>> = Calls::new(path)
                .list(&params)
                .map_err(|error| format!("{path}: {error}"))?;
            let text = client
                .request_text(call)
                .await
                .map_err(|error| format!("{path} cannot be listed: {}", Causes(&error)))?;
            let mut page: Value =
                serde_json::from_str(&text).map_err(|error| format!("{path}: the answer is no list: {error}"))?;
            if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
                for mut item in items {
                    item["apiVersion"] = Value::from(api_version);
                    item["kind"] = Value::from(kind);
                    take(item)?;
                }
            }
            match page.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(next) if !next.is_empty() => params = params.continue_token(next),
                _ => break,
            }
        }
    }
    Ok(())
}
