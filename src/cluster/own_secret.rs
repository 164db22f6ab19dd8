//! What of the cluster belongs to a certificate authority of our own: its Secret, and the registrations that trust it.
//!
//! Both objects are made by who installs vramgate. Here they are only filled in, so no right to make Secrets or
//! registrations is needed: `get` and `update` of those that are named.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use serde_json::Value;
use tokio::time::timeout;

use super::causes::Causes;

/// How long a call may take.
const WITHIN: Duration = Duration::from_secs(5);

/// A Secret as it was read.
pub struct Held {
    secret: Secret,
    /// Its data.
    pub data: BTreeMap<String, Vec<u8>>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held")
            .field("keys", &self.data.keys())
            .finish_non_exhaustive()
    }
}

/// Reads the Secret of this name in the client's own namespace.
///
/// # Errors
///
/// Where it is not there, or cannot be read.
pub async fn read_secret(client: &Client, name: &str) -> Result<Held, String> {
    let namespace = client.default_namespace();
    let api: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = match timeout(WITHIN, api.get(name)).await {
        Ok(Ok(secret)) => secret,
        Ok(Err(Error::Api(status))) if status.code == 404 => {
            return Err(format!(
                "Secret {namespace}/{name} is not there; create it, empty (kubectl create secret generic {name})"
            ));
        }
        Ok(Err(error)) => {
            return Err(format!(
                "Secret {namespace}/{name} cannot be read: {}",
                Causes(&error)
            ));
        }
        Err(_) => return Err(format!("Secret {namespace}/{name} is not answered in time")),
    };
    let data = secret.data.iter().flatten();
    Ok(Held {
        data: data.map(|(key, bytes)| (key.clone(), bytes.0.clone())).collect(),
        secret,
    })
}

/// Writes the Secret's data, unless somebody else has changed it since: then `false`.
///
/// # Errors
///
/// Where it cannot be written.
pub async fn write_secret(
    client: &Client,
    held: &Held,
    data: BTreeMap<String, Vec<u8>>,
) -> Result<bool, String> {
    let namespace = client.default_namespace();
    let name = held.secret.metadata.name.as_deref().unwrap_or_default();
    let mut secret = held.secret.clone();
    secret.data = Some(
        data.into_iter()
            .map(|(key, bytes)| (key, ByteString(bytes)))
            .collect(),
    );
    let api: Api<Secret> = Api::default_namespaced(client.clone());
    match timeout(WITHIN, api.replace(name, &PostParams::default(), &secret)).await {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(Error::Api(status))) if status.code == 409 => Ok(false),
        Ok(Err(error)) => Err(format!(
            "Secret {namespace}/{name} cannot be written: {}",
            Causes(&error)
        )),
        Err(_) => Err(format!("Secret {namespace}/{name} is not answered in time")),
    }
}

/// Brings the entries of the registrations of this name to what they should be. Each of `wanted` is a whole configuration;
/// only its `webhooks` are written. `true` where something was written.
///
/// # Errors
///
/// Where one of them is not there, or cannot be read or written.
pub async fn keep_registrations(client: &Client, wanted: &[Value]) -> Result<bool, String> {
    let mut changed = false;
    for registration in wanted {
        changed |= keep(client, registration).await?;
    }
    Ok(changed)
}

async fn keep(client: &Client, wanted: &Value) -> Result<bool, String> {
    let kind = wanted["kind"].as_str().unwrap_or_default();
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!(
        "/apis/admissionregistration.k8s.io/v1/{}s/{name}",
        kind.to_lowercase()
    );
    let request = |method: &str, body: Vec<u8>| {
        axum::http::Request::builder()
            .method(method)
            .uri(path.as_str())
            .header("content-type", "application/json")
            .body(body)
            .map_err(|error| format!("{kind} {name} makes no request: {error}"))
    };
    let mut live: Value = match timeout(WITHIN, client.request(request("GET", Vec::new())?)).await {
        Ok(Ok(live)) => live,
        Ok(Err(Error::Api(status))) if status.code == 404 => {
            return Err(format!("the {kind} {name} is not there; the chart makes it"));
        }
        Ok(Err(error)) => return Err(format!("the {kind} {name} cannot be read: {}", Causes(&error))),
        Err(_) => return Err(format!("the {kind} {name} is not answered in time")),
    };
    if holds(&live["webhooks"], &wanted["webhooks"]) {
        return Ok(false);
    }
    live["webhooks"] = wanted["webhooks"].clone();
    match timeout(
        WITHIN,
        client.request::<Value>(request("PUT", live.to_string().into_bytes())?),
    )
    .await
    {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(error)) => Err(format!("the {kind} {name} cannot be written: {}", Causes(&error))),
        Err(_) => Err(format!("the {kind} {name} is not answered in time")),
    }
}

/// Whether `live` says all of `wanted`. What the API server fills in beside it is no difference; an empty object or list must
/// be empty.
fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            (!wanted.is_empty() || live.is_empty())
                && wanted
                    .iter()
                    .all(|(key, value)| live.get(key).is_some_and(|there| holds(there, value)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| holds(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_api_server_fills_in_is_no_difference_and_everything_else_is() {
        let wanted = json!([{"name": "a", "clientConfig": {"caBundle": "QQ=="}, "namespaceSelector": {}}]);
        let mut live = wanted.clone();
        live[0]["objectSelector"] = json!({});
        live[0]["clientConfig"]["service"] = json!({"port": 443});
        assert!(holds(&live, &wanted));
        for (pointer, value) in [
            ("/0/clientConfig/caBundle", json!("Qg==")),
            ("/0/namespaceSelector", json!({"matchLabels": {"a": "b"}})),
            ("/0/name", json!("b")),
        ] {
            let mut other = live.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            assert!(!holds(&other, &wanted), "{pointer}");
        }
        assert!(!holds(&Value::Null, &wanted));
        assert!(!holds(&json!([]), &wanted));
        let mut more = live.clone();
        more.as_array_mut().unwrap().push(live[0].clone());
        assert!(!holds(&more, &wanted));
    }
}
