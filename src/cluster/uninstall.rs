//! Taking vramgate out of a cluster: its registrations, then the process itself. What it wrote on nodes is taken away by
//! [`super::advertise::remove_from_all`], after both: a replica that runs would write it again.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::core::Selector;
use kube::{Client, Error};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tracing::info;

use super::causes::Causes;

/// Pause between two looks at the pods.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Pods that are named in an error.
const NAMED: usize = 5;

/// Deletes both registrations of this name, and says how many there were. That one is not there is no error.
///
/// # Errors
///
/// Where the API server refuses.
pub async fn remove_registrations(client: &Client, name: &str) -> Result<usize, String> {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let how = DeleteParams::default();
    // The mutating one first: without it a pod that carries its share already is still judged rightly.
    let answers = [
        (
            "MutatingWebhookConfiguration",
            mutating.delete(name, &how).await.map(drop),
        ),
        (
            "ValidatingWebhookConfiguration",
            validating.delete(name, &how).await.map(drop),
        ),
    ];
    let mut removed = 0;
    for (kind, answer) in answers {
        match answer {
            Ok(()) => {
                info!(kind, name, "deleted");
                removed += 1;
            }
            Err(error) if is_missing(&error) => {}
            Err(error) => {
                return Err(format!("the {kind} {name} cannot be deleted: {}", Causes(&error)));
            }
        }
    }
    Ok(removed)
}

/// Scales a Deployment to zero, and waits at most `wait` until the last of its pods has ended. `false` where there is no
/// such Deployment.
///
/// # Errors
///
/// Where the API server refuses, or pods are left after that time.
pub async fn end_deployment(
    client: &Client,
    namespace: &str,
    name: &str,
    wait: Duration,
) -> Result<bool, String> {
    let shown = format!("the Deployment {namespace}/{name}");
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = deployments.get_opt(name).await;
    let found = found.map_err(|error| format!("{shown} cannot be read: {}", Causes(&error)))?;
    let Some(selector) = found.map(|deployment| deployment.spec.selector) else {
        return Ok(false);
    };
    let selector =
        Selector::try_from(selector).map_err(|error| format!("{shown} has no usable selector: {error}"))?;
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    match deployments
        .patch_scale(name, &PatchParams::default(), &none)
        .await
    {
        Ok(_) => info!(namespace, name, "scaled to zero"),
        Err(error) if is_missing(&error) => return Ok(false),
        Err(error) => return Err(format!("{shown} cannot be scaled to zero: {}", Causes(&error))),
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let of_it = ListParams::default().labels_from(&selector);
    let began = Instant::now();
    loop {
        let list = pods
            .list(&of_it)
            .await
            .map_err(|error| format!("the pods of {shown} cannot be listed: {}", Causes(&error)))?;
        let running: Vec<String> = list
            .items
            .into_iter()
            .filter(|pod| !has_ended(pod))
            .filter_map(|pod| pod.metadata.name)
            .collect();
        if running.is_empty() {
            return Ok(true);
        }
        if began.elapsed() >= wait {
            let names = running
                .iter()
                .take(NAMED)
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(format!(
                "{} pods of {shown} still run after {} s ({names}): they would write the resource again; end them, and \
                 run this once more",
                running.len(),
                wait.as_secs(),
            ));
        }
        sleep(LOOK_EVERY).await;
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404)
}
