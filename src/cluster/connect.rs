//! The client: where the API server is, and as whom we ask.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::header::USER_AGENT;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be read.
    #[error(
        "kubeconfig {}: {source}; give --kubeconfig the path of a readable file, or leave it out inside a pod",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not a usable kubeconfig.
    #[error(
        "kubeconfig {}: {reason}; compare `kubectl --kubeconfig {} config view --minify`",
        path.display(), path.display()
    )]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, without any of its text: it holds credentials.
        reason: String,
    },
    /// No file was given, and this is not a pod with a service account.
    #[error(
        "no cluster: {0}; give --kubeconfig FILE, run in a pod whose service account token is mounted, \
         or give --cluster-state FILE to answer from a snapshot"
    )]
    NotInCluster(#[source] Box<InClusterError>),
    /// TLS or authentication cannot be set up.
    #[error("{origin}: the client cannot be set up: {source}; check certificates and credentials there")]
    Client {
        /// Where the configuration came from.
        origin: String,
        /// Why.
        source: Box<kube::Error>,
    },
}

/// A client for the cluster of a kubeconfig file, or of the pod that this runs in. Asks nothing of the API server yet.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let (config, origin) = if let Some(path) = kubeconfig {
        (from_file(path).await?, format!("kubeconfig {}", path.display()))
    } else {
        let config = Config::incluster().map_err(|error| ConnectError::NotInCluster(Box::new(error)))?;
        (config, "service account of the pod".to_owned())
    };
    client(config).map_err(|error| ConnectError::Client {
        origin,
        source: Box::new(error),
    })
}

async fn from_file(path: &Path) -> Result<Config, ConnectError> {
    let broken = |error: KubeconfigError| {
        let text = error.to_string();
        // A parser's further lines show the place in the file, and with it the credentials around it.
        let reason = text.lines().next().unwrap_or_default().to_owned();
        ConnectError::Broken {
            path: path.to_owned(),
            reason,
        }
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::ReadConfig(source, _) => ConnectError::Unreadable {
            path: path.to_owned(),
            source,
        },
        other => broken(other),
    })?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(broken)
}

fn client(mut config: Config) -> Result<Client, kube::Error> {
    config.connect_timeout = Some(Duration::from_secs(5));
    // Each call has a deadline of its own, and a watch is silent for as long as nothing happens.
    config.read_timeout = None;
    // Failures are to be seen at once: every caller has its own answer to them.
    config.default_retry = false;
    let agent = concat!("vramgate/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
    Client::try_from(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn failure(text: Option<&str>) -> String {
        let path = std::env::temp_dir().join(format!("vramgate-kubeconfig-{}", std::process::id()));
        let path = text.map_or(path.with_extension("missing"), |text| {
            let hash = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), text);
            let path = path.with_extension(hash.to_string());
            std::fs::write(&path, text).unwrap();
            path
        });
        let message = connect(Some(&path))
            .await
            .err()
            .expect("a client must not come of this")
            .to_string();
        let _ = std::fs::remove_file(&path);
        assert!(
            message.contains(path.to_str().unwrap()),
            "{message} does not name the file"
        );
        message
    }

    #[tokio::test]
    async fn a_missing_file_is_named_with_the_remedy() {
        let message = failure(None).await;
        assert!(message.contains("--kubeconfig"), "{message}");
    }

    #[tokio::test]
    async fn a_broken_file_is_named_with_the_remedy() {
        for text in [
            "clusters: {",
            "apiVersion: v1\nkind: Config\n",
            "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: b\n  context: {cluster: c, user: u}\n",
            "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  context: {cluster: c, user: u}\n\
             clusters:\n- name: c\n  cluster: {server: \"https://127.0.0.1:1\", certificate-authority: no-such.crt}\n\
             users:\n- name: u\n  user: {}\n",
        ] {
            let message = failure(Some(text)).await;
            assert!(message.contains("kubectl --kubeconfig"), "{message}");
        }
    }
}
