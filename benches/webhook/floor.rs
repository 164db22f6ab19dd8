//! The least that a watch of a cluster can cost: its lists received by the same client, and each byte of them looked at once.

use std::path::Path;
use std::pin::pin;

use futures::AsyncReadExt;
use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;
use serde::de::IgnoredAny;
use vramgate::cluster::{self, Timing};

use crate::{Outcome, process, records};

/// What is done with each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum What {
    /// Nothing.
    Receive,
    /// A parser of JSON goes over all of it and keeps nothing.
    Skip,
}

#[derive(Deserialize)]
struct Page {
    metadata: Metadata,
    #[serde(rename = "items")]
    _items: IgnoredAny,
}

#[derive(Deserialize)]
struct Metadata {
    r#continue: Option<String>,
}

/// Reads the lists that vramgate reads, and prints the bytes, and the milliseconds of CPU of this process.
pub(crate) async fn run(kubeconfig: &Path, what: What) -> Outcome<()> {
    let client = cluster::connect(Some(kubeconfig)).await?;
    let mut bytes = 0;
    let mut buffer = Vec::new();
    for path in [
        "/api/v1/nodes",
        "/api/v1/namespaces",
        "/api/v1/pods",
        records::PATH,
    ] {
        let mut parameters = ListParams::default().limit(Timing::default().page);
        loop {
            buffer.clear();
            let call = Request::new(path).list(&parameters)?;
            pin!(client.request_stream(call).await?)
                .read_to_end(&mut buffer)
                .await?;
            bytes += buffer.len();
            let next = match what {
                What::Skip => serde_json::from_slice::<Page>(&buffer)?.metadata.r#continue,
                // The metadata stands first, before a `"` that ends the token.
                What::Receive => {
                    let head = std::str::from_utf8(buffer.get(..200).unwrap_or(&buffer))?;
                    let token = head.split_once(r#""continue":""#);
                    token.and_then(|(_, rest)| Some(rest.split_once('"')?.0.to_owned()))
                }
            };
            match next {
                Some(token) => parameters = parameters.continue_token(&token),
                None => break,
            }
        }
    }
    let spent = process::processor_time(std::process::id())?;
    println!("{bytes} {}", spent.as_millis());
    Ok(())
}
