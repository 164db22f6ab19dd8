//! `vramgate probe`: whether the API server asks vramgate.

use std::time::{Duration, Instant};

use super::args::Probe;
use super::{Failure, output, state};
use crate::cluster::probe::{Probed, probe};

/// Pause between two tries.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Tries until vramgate has remarked on the pod, or the time is up.
pub(super) fn run(args: &Probe) -> Result<(), Failure> {
    state::on_cluster(args.kubeconfig.as_deref(), async |client| {
        let namespace = args
            .namespace
            .clone()
            .unwrap_or_else(|| client.default_namespace().to_owned());
        let began = Instant::now();
        loop {
            let why = match probe(&client, &namespace).await {
                Ok(Probed::Asked(remark)) => {
                    return output::print(&format!("the API server asks vramgate, which says: {remark}\n"));
                }
                Ok(Probed::Silent) => format!(
                    "nobody remarked on a pod that vramgate remarks on, in namespace {namespace}: look whether the \
                     registrations are there, whether they exempt that namespace, and whether policies silence VG108 and VG214"
                ),
                Ok(Probed::Refused(message)) => format!("vramgate was not asked: {message}"),
                Err(error) => error,
            };
            if began.elapsed() >= args.wait {
                return Err(Failure::new(why));
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    })
}
