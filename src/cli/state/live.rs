//! A live cluster, read once.

use std::env;
use std::path::{Path, PathBuf};

use kube::Client;
use kube::api::{ListParams, Request};
use serde::Deserialize;

use crate::cli::{Failure, output};
use crate::cluster::{Watched, connect};
use crate::manifest::{self, Limits};
use crate::snapshot::Snapshot;

/// Objects that are asked for at a time: the API server's own tools take as many.
const PAGE: u32 = 500;

/// What is read. Without nodes and pods there is nothing to judge against; what else is missing is said.
const LISTS: [(&str, Need); 12] = [
    ("/api/v1/nodes", Need::Must),
    ("/api/v1/pods", Need::Must),
    (
        "/api/v1/namespaces",
        Need::Should("policies match namespaces by name alone"),
    ),
    (
        "/api/v1/configmaps",
        Need::Should("values from ConfigMaps are unknown"),
    ),
    (
        "/apis/apps/v1/deployments",
        Need::Should("Deployments of the input count as new"),
    ),
    (
        "/apis/apps/v1/statefulsets",
        Need::Should("StatefulSets of the input count as new"),
    ),
    (
        "/apis/apps/v1/replicasets",
        Need::Should("ReplicaSets of the input count as new"),
    ),
    (
        "/apis/apps/v1/daemonsets",
        Need::Should("DaemonSets of the input count as new"),
    ),
    (
        "/apis/batch/v1/jobs",
        Need::Should("Jobs of the input count as new"),
    ),
    (
        "/apis/batch/v1/cronjobs",
        Need::Should("CronJobs of the input count as new"),
    ),
    (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        Need::Should("priorities of pods that name a class are not known"),
    ),
    ("/apis/vramgate.io/v1alpha1/gpusharingpolicies", Need::May),
];

/// Dynamic resource allocation, under the first version that is served; absent in clusters that know none.
const RESOURCES: [Watched; 4] = [
    Watched::ResourceSlices,
    Watched::DeviceClasses,
    Watched::ResourceClaims,
    Watched::ClaimTemplates,
];

#[derive(Clone, Copy)]
enum Need {
    Must,
    /// What it means to go without.
    Should(&'static str),
    /// Absent where its definition is not installed.
    May,
}

/// Does something on the cluster of a kubeconfig file, of the user's own one, or the one that this process runs in.
pub(in crate::cli) fn on_cluster<T>(
    kubeconfig: Option<&Path>,
    work: impl AsyncFnOnce(Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let path = kubeconfig.map(Path::to_owned).or_else(users_kubeconfig);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("the runtime does not start: {error}")))?;
    runtime.block_on(async {
        let client = connect(path.as_deref())
            .await
            .map_err(|error| Failure::new(error.to_string()))?;
        work(client).await
    })
}

/// Reads a cluster; see [`on_cluster`].
pub(super) fn snapshot(kubeconfig: Option<&Path>) -> Result<Snapshot, Failure> {
    on_cluster(kubeconfig, async |client| {
        let mut snapshot = Snapshot::default();
        for (list, need) in LISTS {
            match (read(&client, list, &mut snapshot).await?, need) {
                (None, _) | (Some(_), Need::May) => {}
                (Some(why), Need::Must) => {
                    return Err(Failure::new(format!(
                        "{list}: {why}; give --kubeconfig with the right to list it, or --cluster-state FILE"
                    )));
                }
                (Some(why), Need::Should(meaning)) => {
                    output::note(&format!("note: {list}: {why}; {meaning}"));
                }
            }
        }
        for resource in RESOURCES {
            for list in resource.paths() {
                if read(&client, list, &mut snapshot).await?.is_none() {
                    break;
                }
            }
        }
        Ok(snapshot)
    })
}

/// `$KUBECONFIG` or `~/.kube/config`, as kubectl looks for it; `None` where there is neither.
fn users_kubeconfig() -> Option<PathBuf> {
    let named = env::var_os("KUBECONFIG").filter(|text| !text.is_empty());
    if let Some(named) = named {
        return env::split_paths(&named)
            .find(|path| path.exists())
            .or_else(|| env::split_paths(&named).next());
    }
    let path = PathBuf::from(env::var_os("HOME")?).join(".kube/config");
    path.exists().then_some(path)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Page {
    metadata: PageMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMetadata {
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Reads every page of a list. The answer is why it could not be had, where the API server says so.
async fn read(client: &Client, list: &str, snapshot: &mut Snapshot) -> Result<Option<String>, Failure> {
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let request = Request::new(list)
            .list(&parameters)
            .map_err(|error| Failure::new(format!("{list}: {error}")))?;
        let text = match client.request_text(request).await {
            Ok(text) => text,
            Err(kube::Error::Api(status)) => return Ok(Some(status.message.clone())),
            Err(error) => {
                return Err(Failure::new(format!(
                    "{list}: {error}; check that the API server can be reached, or give --cluster-state FILE"
                )));
            }
        };
        manifest::read(text.as_bytes(), list, Limits::SNAPSHOT, &mut |object| {
            snapshot.add(&object)
        })?;
        let page: Page = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("{list}: not a list: {error}")))?;
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(None),
        }
    }
}
