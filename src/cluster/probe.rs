//! Whether the API server asks vramgate: a pod that it must remark on, sent as a dry run, comes back with a code.
//!
//! Everything between is tried at once: the registrations, the way from the API server to a replica, the certificate that
//! the API server trusts, and the verdict.

use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::causes::Causes;
use crate::counted::RESOURCE;

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// vramgate was asked; its first remark.
    Asked(String),
    /// The pod would have been made, and nobody remarked on it.
    Silent,
    /// Somebody else refused it, or the API server could not reach the webhook: the message.
    Refused(String),
}

/// Longest answer that is read, in bytes; the pod has less than 4 KiB.
const MOST_BYTES: usize = 1 << 20;

/// Sends the pod to `namespace` once.
///
/// # Errors
///
/// Where the API server does not answer.
pub async fn probe(client: &Client, namespace: &str) -> Result<Probed, String> {
    let request = axum::http::Request::builder()
        .method("POST")
        .uri(format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"))
        .header("content-type", "application/json")
        .body(Body::from(pod().to_string().into_bytes()))
        .map_err(|error| format!("{namespace:?} makes no request: {error}"))?;
    let response = client
        .send(request)
        .await
        .map_err(|error| format!("the API server does not answer: {}", Causes(&error)))?;
    let warnings: Vec<String> = response
        .headers()
        .get_all("warning")
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect();
    let is_success = response.status().is_success();
    let body = http_body_util::Limited::new(response.into_body(), MOST_BYTES)
        .collect()
        .await
        .map_err(|error| format!("the API server's answer breaks off: {error}"))?
        .to_bytes();
    let message = if is_success {
        String::new()
    } else {
        message_of(&body)
    };
    Ok(read(is_success, &message, &warnings))
}

fn message_of(body: &[u8]) -> String {
    let status: Value = serde_json::from_slice(body).unwrap_or_else(|_| {
        // Not JSON: a proxy's page. Its text is all there is.
        json!({"message": String::from_utf8_lossy(body)})
    });
    status["message"]
        .as_str()
        .unwrap_or("no reason is given")
        .to_owned()
}

fn read(is_success: bool, message: &str, warnings: &[String]) -> Probed {
    let remark = warnings
        .iter()
        .map(String::as_str)
        .chain([message])
        .find_map(own_words);
    match remark {
        Some(words) => Probed::Asked(words),
        None if is_success => Probed::Silent,
        None => Probed::Refused(message.to_owned()),
    }
}

/// A remark of vramgate's in a text: from its code on, the first line.
fn own_words(text: &str) -> Option<String> {
    let is_code = |at: &usize| {
        let code = text.as_bytes().get(*at + 2..*at + 5);
        code.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
    };
    let at = text.match_indices("VG").map(|(at, _)| at).find(is_code)?;
    let line = text[at..].lines().next()?;
    Some(line.trim_end_matches('"').to_owned())
}

/// Carries the counted resource without a GPU (VG214 under `counted`), and a GPU whose domain is misspelt (VG108 under any
/// policy that does not silence it). It passes the standard of restricted pods, so that nothing else refuses it.
fn pod() -> Value {
    let container = |name: &str, resource: &str| {
        json!({
            "name": name, "image": "vramgate.invalid/probe",
            "resources": {"limits": {resource: "1"}, "requests": {resource: "1"}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "vramgate-probe", "labels": {"app.kubernetes.io/component": "probe"}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container("counted", RESOURCE), container("misspelt", "nvida.com/gpu")],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_and_a_warning_are_remarks_and_other_answers_are_not() {
        let denied =
            "admission webhook \"pods.vramgate.io\" denied the request: VG214: container counted …\n  more";
        assert_eq!(
            read(false, denied, &[]),
            Probed::Asked("VG214: container counted …".to_owned())
        );
        let warnings = ["299 - \"VG108: container misspelt …\"".to_owned()];
        assert_eq!(
            read(true, "", &warnings),
            Probed::Asked("VG108: container misspelt …".to_owned())
        );
        assert_eq!(read(true, "", &[]), Probed::Silent);
        for text in [
            "failed calling webhook \"pods.vramgate.io\": no endpoints available for service \"VG\"",
            "pods \"vramgate-probe\" is forbidden: User \"x\" cannot create resource \"pods\"",
        ] {
            assert_eq!(read(false, text, &[]), Probed::Refused(text.to_owned()));
        }
        assert_eq!(message_of(b"<html>"), "<html>");
    }
}
