//! Scenarios.
use crate::cluster::shared;

#[test]
fn control_plane() {
    let cluster = shared();
    eprintln!("{:?} {} {}", cluster.coming_up.registered, cluster.coming_up.ready_nodes, cluster.coming_up.gpu_pod);
    let text = cluster.kubectl_all(&["get", "nodes,pods", "-A"], None);
    eprintln!("{text}");
}
