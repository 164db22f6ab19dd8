//! What is told of MIG slices that no node offers or that the policy does not allow.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, H100, deployment, finding, fixes_hold, golden, gpu_node, has, mig_node, serving};
use serde_json::{Value, json};
use vramgate::decision::Verdict;
use vramgate::finding::{Code, Severity};
use vramgate::message;

const MODEL: [&str; 4] = ["--model", "Qwen/Qwen3-0.6B", "--max-model-len", "4096"];
const H100_LABEL: &str = "NVIDIA-H100-80GB-HBM3";

fn asking(resource: &str) -> Value {
    serving(&MODEL, resource, 1)
}

fn labelled(mut node: Value, labels: &[(&str, &str)]) -> Value {
    for (key, value) in labels {
        node["metadata"]["labels"][*key] = json!(value);
    }
    node
}

fn not_offered(cluster: &mut Cluster, object: &Value) -> Verdict {
    let verdict = cluster.try_create(object);
    assert!(!verdict.admit, "{object:#}");
    let found = finding(&verdict, Code::Vg302);
    let line = message::headline(found);
    assert!(line.len() < 256 && !line.ends_with('…'), "{line}");
    verdict
}

#[test]
fn the_same_slices_under_another_name_are_told() {
    let mut cluster = Cluster::new();
    cluster.node(&labelled(
        gpu_node("single", &format!("{H100_LABEL}-MIG-1g.10gb"), 9_984, 7, 1),
        &[
            ("nvidia.com/mig.strategy", "single"),
            ("nvidia.com/mig.capable", "true"),
        ],
    ));
    let object = asking("nvidia.com/mig-1g.10gb");
    let verdict = not_offered(&mut cluster, &object);
    golden("vg302-single-strategy", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 1);
    // What the same node could be cut into, but not under that name while its strategy is `single`.
    let verdict = not_offered(&mut cluster, &asking("nvidia.com/mig-3g.40gb"));
    let found = finding(&verdict, Code::Vg302);
    assert!(
        found.details[0].contains("nvidia.com/mig.strategy is single"),
        "{:?}",
        found.details
    );
}

#[test]
fn an_old_name_of_a_profile_is_the_same_slice() {
    let mut cluster = Cluster::new();
    cluster.node(&labelled(
        mig_node("sliced", &[("3g.40gb", 40_192, 2)]),
        &[("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB")],
    ));
    let object = asking("nvidia.com/mig-3g.39gb");
    let verdict = not_offered(&mut cluster, &object);
    assert!(
        finding(&verdict, Code::Vg302)
            .message
            .ends_with("node sliced offers such slices as nvidia.com/mig-3g.40gb"),
        "{:#?}",
        verdict.findings
    );
    assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 1);
}

#[test]
fn a_compute_instance_has_no_resource() {
    let mut cluster = Cluster::new();
    cluster.node(&mig_node("sliced", &[("3g.40gb", 40_448, 2)]));
    let object = asking("nvidia.com/mig-1c.3g.40gb");
    let verdict = not_offered(&mut cluster, &object);
    golden("vg302-compute-instance", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 1);
}

#[test]
fn an_unknown_product_has_the_names_of_the_formula() {
    let mut cluster = Cluster::new();
    cluster.node(&labelled(
        gpu_node("new", "NVIDIA-X1", 295_000, 2, 1),
        &[
            ("nvidia.com/mig.capable", "true"),
            ("nvidia.com/mig.strategy", "mixed"),
        ],
    ));
    let verdict = not_offered(&mut cluster, &asking("nvidia.com/mig-1g.35gb"));
    golden("vg302-unknown-product", &message::refusal(&verdict));
    let verdict = not_offered(&mut cluster, &asking("nvidia.com/mig-3g.145gb"));
    assert!(
        finding(&verdict, Code::Vg302)
            .message
            .contains("node new could be cut into such slices"),
        "{:#?}",
        verdict.findings
    );
    // Without the label nothing is known of it.
    let mut cluster = Cluster::new();
    cluster.gpu_node("new", "NVIDIA-X1", 295_000, 2, 1);
    let verdict = not_offered(&mut cluster, &asking("nvidia.com/mig-1g.35gb"));
    assert!(
        finding(&verdict, Code::Vg302)
            .message
            .contains("NVIDIA-X1 has no MIG")
    );
}

#[test]
fn only_nodes_on_which_the_pod_may_stand_are_proposed() {
    let mut cluster = Cluster::new();
    for zone in ["a", "b"] {
        cluster.node(&labelled(
            mig_node(&format!("sliced-{zone}"), &[("1g.10gb", 9_984, 7)]),
            &[("zone", zone)],
        ));
    }
    let mut object = asking("nvidia.com/mig-2g.20gb");
    object["spec"]["nodeSelector"] = json!({"zone": "b"});
    let verdict = not_offered(&mut cluster, &object);
    let text = message::refusal(&verdict);
    assert!(text.contains("sliced-b") && !text.contains("sliced-a"), "{text}");
    object["spec"]["nodeSelector"] = json!({"zone": "c"});
    let verdict = not_offered(&mut cluster, &object);
    assert!(
        finding(&verdict, Code::Vg302)
            .message
            .ends_with("the pod matches none of those nodes"),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn idle_nodes_come_before_busy_ones_and_media_slices_count() {
    let mut cluster = Cluster::new();
    for name in ["busy", "idle"] {
        cluster.node(&mig_node(
            name,
            &[("1g.10gb.me", 9_984, 1), ("1g.10gb", 9_984, 6)],
        ));
    }
    cluster.running(&asking("nvidia.com/mig-1g.10gb"), "busy");
    let verdict = not_offered(&mut cluster, &asking("nvidia.com/mig-4g.40gb"));
    golden("vg302-idle-before-busy", &message::refusal(&verdict));
}

#[test]
fn what_an_autoscaler_may_add_makes_it_a_warning() {
    let mut cluster = Cluster::with_policy(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: p}\nspec: {placement: {growth: \
         [{matchLabels: {pool: big}}]}}\n",
    );
    cluster.node(&mig_node("sliced", &[("1g.10gb", 9_984, 7)]));
    let verdict = cluster.try_create(&asking("nvidia.com/mig-3g.40gb"));
    assert!(verdict.admit);
    assert_eq!(finding(&verdict, Code::Vg302).severity, Severity::Warning);
}

#[test]
fn first_lines_are_short_whatever_the_names() {
    let mut cluster = Cluster::new();
    for letter in ["a", "b", "c", "d"] {
        let name = letter.repeat(200);
        cluster.node(&mig_node(&name, &[("1g.10gb", 9_984, 7)]));
    }
    not_offered(&mut cluster, &asking("nvidia.com/mig-3g.40gb"));
    not_offered(
        &mut cluster,
        &asking(&format!("nvidia.com/mig-{}", "x".repeat(50))),
    );
    let mut cluster = Cluster::new();
    for index in 0..5 {
        let product = format!("{}-{index}", "P".repeat(60));
        cluster.gpu_node(&format!("n{index}"), &product, 10_000, 1, 1);
    }
    not_offered(
        &mut cluster,
        &asking("nvidia.com/mig-4294967295g.4294967295gb.me.all"),
    );
}

#[test]
fn the_cost_of_a_large_cluster_grows_with_its_nodes_and_not_faster() {
    let (small, large) = (searched(750), searched(3_000));
    assert!(large <= 6 * small, "{small} bytes allocated, then {large}");
}

/// What it allocates in all, in bytes, to refuse a profile on so many nodes.
fn searched(nodes: usize) -> u64 {
    let mut cluster = Cluster::new();
    for index in 0..nodes {
        let node = mig_node(&format!("n{index}"), &[("1g.10gb", 9_984, 7)]);
        cluster.node(&labelled(node, &[("rack", &format!("r{}", index % 300))]));
    }
    let mut object = asking("nvidia.com/mig-3g.40gb");
    object["spec"]["nodeSelector"] = json!({"rack": "r7"});
    let cost = allocation_counter::measure(|| {
        let verdict = not_offered(&mut cluster, &object);
        assert!(finding(&verdict, Code::Vg302).message.contains("could be cut"));
    });
    cost.bytes_total
}

fn only(profiles: &str) -> Cluster {
    Cluster::with_policy(&format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: slices}}\nspec: {{mig: {{profiles: \
         {profiles}}}}}\n"
    ))
}

#[test]
fn an_allowed_profile_is_meant_by_any_of_its_names() {
    for (profiles, slice, allowed) in [
        ("[3g.40gb]", "3g.40gb", true),
        ("[3g.39gb]", "3g.40gb", true),
        ("[3g.40gb]", "3g.39gb", true),
        ("[1g.10gb+me]", "1g.10gb.me", true),
        ("[1g.10gb]", "1g.10gb.me", false),
        ("[1g.10gb.me]", "1g.10gb", false),
        ("any", "3g.40gb", true),
    ] {
        let mut cluster = only(profiles);
        let mut node = mig_node("sliced", &[(slice, 40_192, 1)]);
        node["metadata"]["labels"]["nvidia.com/gpu.product"] = json!("NVIDIA-A100-SXM4-80GB");
        cluster.node(&node);
        let verdict = cluster.try_create(&asking(&format!("nvidia.com/mig-{slice}")));
        assert_eq!(
            verdict.admit, allowed,
            "{profiles} {slice}: {:#?}",
            verdict.findings
        );
        assert_eq!(has(&verdict, Code::Vg306), !allowed);
    }
}

#[test]
fn whole_gpus_are_not_meant_and_slices_under_the_gpus_name_are() {
    let mut cluster = only("[3g.40gb]");
    cluster.gpu_node("whole", H100_LABEL, H100, 1, 1);
    assert!(cluster.try_create(&asking("nvidia.com/gpu")).admit);
    let mut cluster = only("[3g.40gb]");
    cluster.node(&labelled(
        gpu_node("single", &format!("{H100_LABEL}-MIG-1g.10gb"), 9_984, 7, 1),
        &[("nvidia.com/mig.strategy", "single")],
    ));
    let verdict = cluster.try_create(&asking("nvidia.com/gpu"));
    assert!(!verdict.admit);
    golden("vg306-single-strategy", &message::report(&verdict, ""));
}

#[test]
fn templates_are_held_to_their_profile_as_well() {
    let mut cluster = only("[2g.20gb]");
    cluster.node(&mig_node(
        "sliced",
        &[("1g.10gb", 9_984, 3), ("2g.20gb", 20_096, 2)],
    ));
    let container = &asking("nvidia.com/mig-1g.10gb")["spec"]["containers"][0];
    let object = deployment("chat", 2, container);
    let verdict = cluster.try_create(&object);
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg306);
    assert_eq!(
        found.path.as_str(),
        "spec.template.spec.containers[0].resources.limits[nvidia.com/mig-1g.10gb]"
    );
    assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 1);
}

#[test]
fn the_slices_that_hold_a_model_are_those_that_a_node_offers() {
    let args = [
        "--model",
        "meta-llama/Llama-2-13b-chat-hf",
        "--quantization",
        "fp8",
    ];
    let mut cluster = Cluster::new();
    cluster.node(&mig_node("small", &[("1g.10gb", 9_984, 7)]));
    cluster.node(&mig_node("larger", &[("3g.40gb", 40_448, 2)]));
    let object = serving(&args, "nvidia.com/mig-1g.10gb", 1);
    let verdict = cluster.try_create(&object);
    golden("vg301-larger-than-the-smallest", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &object, &verdict), 1);
}
