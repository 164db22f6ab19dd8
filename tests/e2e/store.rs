//! The records that replicas share, kept by the API server itself: what every store must do, over the real one.

#[path = "../store/suite.rs"]
mod suite;

use std::sync::{Arc, Mutex};

use serde_json::json;
use vramgate::cluster::{Cluster, Reader, Timing, connect};
use vramgate::device::GpuNode;
use vramgate::ledger::{Ledger, Moment};
use vramgate::workload::pod::Node;

use crate::scenario::Scenario;
use crate::vramgate::Vramgate;

/// Nothing is followed here, so nothing is read.
struct ReadsNothing;

impl Reader for ReadsNothing {
    fn node(&self, _: &Node) -> Option<GpuNode> {
        None
    }
}

#[test]
fn the_api_server_is_a_store() {
    let s = Scenario::alone("store");
    // Housekeeping would put the records in order while they are looked at.
    s.cluster.with_vramgate(Vramgate::kill);
    for name in suite::NODES {
        s.bare_node(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
    }
    // With the rights that `docs/rbac.md` gives.
    let kubeconfig = s.cluster.directory.join("vramgate.kubeconfig");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(async {
        let client = connect(Some(&kubeconfig)).await.expect("the kubeconfig is sound");
        let ledger = Arc::new(Mutex::new(Ledger::new(Arc::default())));
        let clock = Arc::new(|| Moment(0));
        let mut cluster = Cluster::new(client, ledger, Arc::new(ReadsNothing), clock, Timing::default());
        suite::run(Arc::new(cluster.share_records())).await;
    });
    s.cluster.with_vramgate(Vramgate::start);
}
