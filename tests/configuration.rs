//! What configures GPUs: documents of the device plugin and of the MIG manager, the labels that name them, the plugin's own
//! flags, and agents that ask for a slot.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, H100, finding, golden, gpu_node, has, mig_node, pod, pod_of};
use serde_json::{Value, json};
use vramgate::configuration::Configuration;
use vramgate::decision::Verdict;
use vramgate::device::catalogue::Catalogue;
use vramgate::device::config::plugin::PluginConfigMap;
use vramgate::device::inventory::{Context, read_in};
use vramgate::device::{AllocationPolicy, GpuNode, Sharing};
use vramgate::finding::{Code, Number, Severity};
use vramgate::message;
use vramgate::policy::MissingFacts;

/// What judging one text of a megabyte may allocate in all, in bytes; half of it is seen.
const MOST_ALLOCATED: u64 = 64 << 20;
const MIG_LABEL: &str = "nvidia.com/mig.config";
const PLUGIN_LABEL: &str = "nvidia.com/device-plugin.config";

fn config_map(name: &str, values: &[(&str, &str)]) -> Value {
    let mut map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "gpu-operator"}, "data": {},
    });
    for (key, value) in values {
        map["data"][*key] = json!(value);
    }
    map
}

/// A MIG manager's ConfigMap: each configuration cuts every GPU as its list says.
fn mig_map(configs: &[(&str, &str)]) -> Value {
    let mut text =
        "version: v1\nmig-configs:\n  all-disabled:\n  - devices: all\n    mig-enabled: false\n".to_owned();
    for (name, profiles) in configs {
        let entry =
            format!("  {name}:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {{{profiles}}}\n");
        text.push_str(&entry);
    }
    config_map("custom-mig-config", &[("config.yaml", &text)])
}

fn labelled(mut node: Value, label: &str, value: &str) -> Value {
    node["metadata"]["labels"][label] = json!(value);
    node
}

fn h100(name: &str) -> Value {
    gpu_node(name, "NVIDIA-H100-80GB-HBM3", H100, 1, 1)
}

fn with(nodes: &[Value]) -> Cluster {
    let mut cluster = Cluster::new();
    for node in nodes {
        cluster.node(node);
    }
    cluster
}

fn headlines(verdict: &Verdict) -> String {
    verdict
        .findings
        .iter()
        .map(|finding| {
            let line = message::headline(finding);
            assert!(line.len() < 256 && !line.ends_with('…'), "{line}");
            format!("{} {line}\n", finding.severity.as_str())
        })
        .collect::<Vec<_>>()
        .concat()
}

#[test]
fn g8_valid_geometries_are_admitted() {
    let a100 = gpu_node("a", "NVIDIA-A100-SXM4-80GB", 81_920, 1, 1);
    let cluster = with(&[h100("h"), a100]);
    let map = mig_map(&[
        ("a", "1g.10gb: 3, 4g.40gb: 1"),
        ("b", "3g.40gb: 2"),
        ("c", "1g.10gb: 7"),
        ("d", "2g.20gb: 3"),
        ("e", "4g.40gb: 1, 1g.10gb: 2"),
    ]);
    let verdict = cluster.configure(&map, None, &[]);
    assert!(verdict.judged && verdict.admit, "{:#?}", verdict.findings);
    assert!(verdict.findings.is_empty(), "{:#?}", verdict.findings);
}

#[test]
fn g9_impossible_geometries_are_refused_with_the_reason() {
    let mut text = String::new();
    for nodes in [vec![], vec![h100("h")]] {
        let cluster = with(&nodes);
        for profiles in [
            "4g.40gb: 1, 3g.40gb: 1, 1g.10gb: 1",
            "4g.40gb: 2",
            "1g.10gb: 8",
            "1g.11gb: 1",
        ] {
            let verdict = cluster.configure(
                &mig_map(&[("split", profiles), ("right", "1g.10gb: 7")]),
                None,
                &[],
            );
            assert!(!verdict.admit, "{profiles}");
            assert_eq!(verdict.findings.len(), 1, "{:#?}", verdict.findings);
            assert_eq!(verdict.findings[0].path.as_str(), "data[config.yaml]");
            text.push_str(&headlines(&verdict));
            // What is proposed instead is admitted.
            let Some(Number::Text(instead)) = verdict.findings[0].numbers.get("instead") else {
                assert!(profiles.contains("1g.11gb"), "{:#?}", verdict.findings);
                continue;
            };
            let instead = instead.trim_matches(['{', '}']);
            assert!(
                cluster
                    .configure(&mig_map(&[("split", instead)]), None, &[])
                    .findings
                    .is_empty()
            );
        }
    }
    golden("vg601-impossible", &text);
    let verdict = with(&[h100("h")]).configure(
        &mig_map(&[("split", "4g.40gb: 1, 3g.40gb: 1, 1g.10gb: 1")]),
        None,
        &[],
    );
    golden("vg601-denial", &message::refusal(&verdict));
    // What was wrong before holds up nothing that changes beside it.
    let cluster = with(&[h100("h")]);
    let before = mig_map(&[("split", "1g.10gb: 8")]);
    let after = mig_map(&[("split", "1g.10gb: 8"), ("new", "1g.10gb: 7")]);
    let verdict = cluster.configure(&after, Some(&before), &[]);
    assert!(verdict.admit);
    assert_eq!(finding(&verdict, Code::Vg601).severity, Severity::Warning);
    let worse = mig_map(&[("split", "1g.10gb: 9")]);
    assert!(!cluster.configure(&worse, Some(&before), &[]).admit);
}

#[test]
fn a_product_without_mig_is_not_cut() {
    for (product, memory) in [
        ("NVIDIA-GeForce-RTX-5090", 32_607),
        ("NVIDIA-L40S", 46_068),
        ("NVIDIA-GeForce-RTX-4090", 24_564),
    ] {
        let node = gpu_node("n", product, memory, 1, 1);
        let cluster = with(std::slice::from_ref(&node));
        let map = mig_map(&[("all-1g.10gb", "1g.10gb: 7")]);
        let verdict = cluster.configure(&map, None, &[]);
        assert!(!verdict.admit);
        assert!(
            finding(&verdict, Code::Vg601).message.contains("has no MIG"),
            "{:#?}",
            verdict.findings
        );
        let now = labelled(node.clone(), MIG_LABEL, "all-1g.10gb");
        let verdict = cluster.configure(&now, Some(&node), &[map]);
        assert!(!verdict.admit);
        assert_eq!(
            finding(&verdict, Code::Vg601).path.as_str(),
            "metadata.labels[nvidia.com/mig.config]"
        );
    }
}

#[test]
fn lists_for_every_product_pass_on_any_cluster() {
    let shipped = mig_map(&[
        ("all-1g.5gb", "1g.5gb: 7"),
        ("all-1g.10gb", "1g.10gb: 7"),
        ("all-1g.6gb", "1g.6gb: 4"),
        ("all-2g.48gb.gfx", "2g.48gb+gfx: 2"),
    ]);
    let filtered = config_map(
        "default-mig-parted-config",
        &[(
            "config.yaml",
            "version: v1\nmig-configs:\n  all-balanced:\n  - device-filter: \"0x20B710DE\"\n    devices: all\n    mig-enabled: true\n    \
         mig-devices: {1g.6gb: 2, 2g.12gb: 1}\n  - device-filter: [\"0x233010DE\"]\n    devices: all\n    mig-enabled: true\n    \
         mig-devices: {1g.10gb: 2, 2g.20gb: 1, 3g.40gb: 1}\n  - device-filter: [\"0xFFFF10DE\"]\n    devices: all\n    \
         mig-enabled: true\n    mig-devices: {1g.99gb: 2}\n",
        )],
    );
    for nodes in [
        vec![],
        vec![h100("h")],
        vec![gpu_node("x", "NVIDIA-Z999", 99_000, 1, 1)],
    ] {
        let cluster = with(&nodes);
        for map in [&shipped, &filtered] {
            let verdict = cluster.configure(map, None, &[]);
            assert!(
                verdict.admit && verdict.findings.is_empty(),
                "{:#?}",
                verdict.findings
            );
        }
    }
    // Where none of it can be used it is remarked on.
    let cluster = with(&[gpu_node("l", "NVIDIA-L40S", 46_068, 1, 1)]);
    let verdict = cluster.configure(&shipped, None, &[]);
    assert!(verdict.admit);
    assert_eq!(verdict.findings.len(), 1);
    // An entry that filters the cluster's own product means that one.
    let cluster = with(&[h100("h")]);
    let wrong = filtered["data"]["config.yaml"]
        .as_str()
        .unwrap()
        .replace("2g.20gb: 1, 3g.40gb: 1", "2g.10gb: 1");
    let verdict = cluster.configure(&config_map("m", &[("config.yaml", &wrong)]), None, &[]);
    assert!(!verdict.admit, "{:#?}", verdict.findings);
}

#[test]
fn g10_a_label_that_names_nothing_is_told() {
    let node = h100("gpu-1");
    let cluster = with(std::slice::from_ref(&node));
    let map = config_map(
        "custom-mig-config",
        &[(
            "config.yaml",
            "version: v1\nmig-configs:\n  all-1g.10gb:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {1g.10gb: 7}\n  by-device:\n  \
         - devices: [0]\n    mig-enabled: false\n  - devices: [1, 2]\n    mig-enabled: true\n    mig-devices: {3g.40gb: 2}\n",
        )],
    );
    assert!(cluster.configure(&map, None, &[]).admit);
    let right = labelled(node.clone(), MIG_LABEL, "by-device");
    let verdict = cluster.configure(&right, Some(&node), std::slice::from_ref(&map));
    assert!(
        verdict.judged && verdict.findings.is_empty(),
        "{:#?}",
        verdict.findings
    );
    let mut text = String::new();
    for name in ["all-1g.12gb", "everything"] {
        let wrong = labelled(node.clone(), MIG_LABEL, name);
        for old in [None, Some(&node)] {
            let verdict = cluster.configure(&wrong, old, std::slice::from_ref(&map));
            assert!(verdict.admit);
            assert_eq!(finding(&verdict, Code::Vg603).severity, Severity::Warning);
            text.push_str(&headlines(&verdict));
        }
        // Without the ConfigMap nobody knows its names; without a change nobody asks.
        assert!(cluster.configure(&wrong, Some(&node), &[]).findings.is_empty());
        assert!(
            !cluster
                .configure(&wrong, Some(&wrong), std::slice::from_ref(&map))
                .judged
        );
        let broken = config_map("m", &[("config.yaml", "version: v1\nmig-configs: [\n")]);
        assert!(
            cluster
                .configure(&wrong, Some(&node), &[broken])
                .findings
                .is_empty()
        );
    }
    golden("vg603-names-nothing", &text);
}

#[test]
fn g11_a_repartition_under_running_pods_names_them() {
    let node = h100("gpu-1");
    let mut cluster = with(&[node.clone(), h100("gpu-2")]);
    let now = labelled(node.clone(), MIG_LABEL, "all-1g.10gb");
    assert!(
        cluster.configure(&now, Some(&node), &[]).findings.is_empty(),
        "nothing runs there"
    );
    let mut text = String::new();
    for name in ["chat", "embed", "rank", "train"] {
        cluster.running(&pod(name, "0.10"), "gpu-1");
        let verdict = cluster.configure(&now, Some(&node), &[]);
        assert!(verdict.admit);
        let found = finding(&verdict, Code::Vg604);
        assert_eq!(found.severity, Severity::Warning);
        text.push_str(&headlines(&verdict));
    }
    golden("vg604-running-pods", &text);
    let gone = cluster.configure(&node, Some(&now), &[]);
    assert!(
        has(&gone, Code::Vg604),
        "taking the label away is a change as well"
    );
    let other = labelled(h100("gpu-2"), MIG_LABEL, "all-1g.10gb");
    assert!(
        cluster
            .configure(&other, Some(&h100("gpu-2")), &[])
            .findings
            .is_empty()
    );
}

#[test]
fn c2_four_gpus_of_one_node_cannot_be_treated_differently() {
    let text = "version: v1\nflags:\n  migStrategy: mixed\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      \
                devices: [\"0\", \"1\"]\n      replicas: 2\n    - name: nvidia.com/gpu\n      devices: [\"3\"]\n      rename: \
                nvidia.com/gpu-small\n      replicas: 4\n";
    let verdict = with(&[h100("n")]).configure(&config_map("plugin", &[("four", text)]), None, &[]);
    assert!(verdict.admit, "the plugin starts with it");
    assert!(verdict.findings.iter().all(|finding| finding.code == Code::Vg602));
    golden("vg602-without-effect", &headlines(&verdict));
}

#[test]
fn refused_configurations_of_the_device_plugin_are_denied() {
    let cluster = with(&[h100("n")]);
    let shared = |mode: &str, rest: &str| {
        format!(
            "version: v1\nsharing:\n  {mode}:\n    resources:\n    - name: nvidia.com/gpu\n      {rest}\n"
        )
    };
    let mut text = String::new();
    for document in [
        shared("timeSlicing", "replicas: 1"),
        shared("timeSlicing", "replicas: many"),
        shared("mps", "replicas: 60"),
        "version: v1\nsharing:\n  timeSlicing:\n    resources: []\n".to_owned(),
        "version: v1\nflags:\n  migStrategy: any\nsharing:\n  timeSlicing: {resources: [{name: gpu, replicas: 2}]}\n".to_owned(),
        "version: v1\nsharing:\n  timeSlicing:\n  - name: nvidia.com/gpu\n".to_owned(),
        "version: v1\nsharing:\n  timeSlicing: {resources: [\n".to_owned(),
        "version: v1\nsharing:\n  timeSlicing: {}\n  timeSlicing: {}\n".to_owned(),
    ] {
        let verdict = cluster.configure(&config_map("plugin", &[("any", &document)]), None, &[]);
        assert!(!verdict.admit, "{document}");
        text.push_str(&headlines(&verdict));
    }
    golden("vg602-refused", &text);
    let whole = message::refusal(&cluster.configure(
        &config_map("plugin", &[("any", &shared("timeSlicing", "replicas: 1"))]),
        None,
        &[],
    ));
    golden("vg602-denial", &whole);
    // The remedies of the texts.
    for document in [
        shared("timeSlicing", "replicas: 2"),
        shared("mps", "replicas: 48"),
        "version: v1\nflags:\n  migStrategy: mixed\n".to_owned(),
    ] {
        let verdict = cluster.configure(&config_map("plugin", &[("any", &document)]), None, &[]);
        assert!(
            verdict.judged && verdict.admit && verdict.findings.is_empty(),
            "{:#?}",
            verdict.findings
        );
    }
}

#[test]
fn g15_mps_is_refused_where_mig_is_on() {
    let mps =
        "version: v1\nsharing:\n  mps:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 20\n";
    let map = config_map("plugin", &[("mps", mps), ("other", "version: v1\n")]);
    let cut = labelled(mig_node("gpu-1", &[("1g.10gb", 9_984, 7)]), PLUGIN_LABEL, "mps");
    let old = labelled(
        gpu_node("gpu-2", "Tesla-V100-SXM2-16GB", 16_384, 1, 1),
        PLUGIN_LABEL,
        "mps",
    );
    let verdict = with(&[cut.clone(), old]).configure(&map, None, &[]);
    assert!(!verdict.admit);
    golden("vg602-mps", &headlines(&verdict));
    let elsewhere = labelled(cut, PLUGIN_LABEL, "other");
    assert!(
        with(&[elsewhere, h100("n")])
            .configure(&map, None, &[])
            .findings
            .is_empty()
    );
}

#[test]
fn what_configures_no_gpus_is_not_ours() {
    let cluster = with(&[h100("n")]);
    for text in [
        "",
        "sharing: yes",
        "sharing:\n  enabled: true\n",
        "# mig-configs: none",
        "[sharing: x",
    ] {
        assert!(
            !cluster
                .configure(&config_map("m", &[("k", text)]), None, &[])
                .judged,
            "{text}"
        );
    }
    let binary = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "binaryData": {"k": "AA=="}});
    assert!(!cluster.configure(&binary, None, &[]).judged);
    // Where a policy names the ConfigMap, its values are read whatever they look like.
    let cluster = Cluster::with_policy(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: p}\nspec: {device: {pluginConfig: \
         gpu-operator/plugin}}\n",
    );
    let verdict = cluster.configure(&config_map("plugin", &[("k", "version: v3")]), None, &[]);
    assert!(!verdict.admit && has(&verdict, Code::Vg602));
    // A policy can make them warnings.
    let cluster = Cluster::with_policy(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: p}\nspec: {codes: {warning: [VG601, VG602]}}\n",
    );
    let verdict = cluster.configure(&mig_map(&[("a", "1g.10gb: 8")]), None, &[]);
    assert!(verdict.admit && has(&verdict, Code::Vg601));
}

#[test]
fn what_a_policy_names_as_the_mig_managers_is_judged_whatever_it_holds() {
    let cluster = Cluster::with_policy(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: p}\nspec: {device: {migConfig: \
         gpu-operator/mig}}\n",
    );
    let lines = |values: &[(&str, &str)]| {
        let verdict = cluster.configure(&config_map("mig", values), None, &[]);
        assert!(verdict.judged && !verdict.admit, "{values:?}");
        assert!(verdict.findings.iter().all(|finding| finding.code == Code::Vg601));
        headlines(&verdict)
    };
    for (text, words) in [
        ("all-1g.10gb", "not a map"),
        ("- a\n- b\n", "not a map"),
        ("42", "not a map"),
        ("", "is empty"),
        ("a: [\n", "config.yaml"),
        ("settings: 1\n", "version"),
    ] {
        let told = lines(&[("config.yaml", text)]);
        assert!(told.contains(words), "{text:?}: {told}");
    }
    let told = lines(&[("config.yml", "x: 1")]);
    assert!(told.contains("reads its key config.yaml; it has none"), "{told}");
    assert!(lines(&[]).contains("it has none"));
    // Another key beside a good one is the user's, and so is a ConfigMap of another name.
    let mut good = mig_map(&[("a", "1g.10gb: 1")]);
    good["metadata"]["name"] = json!("mig");
    good["data"]["notes"] = json!("for people");
    let verdict = cluster.configure(&good, None, &[]);
    assert!(verdict.judged && verdict.admit, "{:#?}", verdict.findings);
    assert!(
        !cluster
            .configure(&config_map("other", &[("config.yaml", "settings: 1")]), None, &[])
            .judged
    );
}

#[test]
fn a_key_that_stands_twice_is_refused_in_either_document() {
    let cluster = with(&[h100("n")]);
    let twice = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 2, replicas: 4}\n";
    let verdict = cluster.configure(&config_map("m", &[("k", twice)]), None, &[]);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg602),
        "{:#?}",
        verdict.findings
    );
    assert!(
        headlines(&verdict).contains("replicas"),
        "{}",
        headlines(&verdict)
    );
    let mut map = mig_map(&[("a", "1g.10gb: 1"), ("a", "1g.10gb: 2")]);
    map["metadata"]["name"] = json!("m");
    let verdict = cluster.configure(&map, None, &[]);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg601),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn hostile_documents_cost_little() {
    let cluster = with(&[h100("n")]);
    let sets: Vec<String> = (1..2_400)
        .map(|n| format!("  c{n}:\n  - {{devices: all, mig-enabled: true, mig-devices: {{1g.10gb: {n}}}}}\n"))
        .collect();
    let many = format!("version: v1\nmig-configs:\n{}", sets.concat());
    let huge_counts = "version: v1\nmig-configs:\n  a:\n  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 4294967295, 2g.20gb: 4294967295}}\n";
    let bomb = format!(
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\n\
         e: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\nmig-configs:\n  a: *f\n{}",
        "# padding\n".repeat(10)
    );
    let long = format!(
        "version: v1\nsharing:\n  timeSlicing: {{x: {}}}\n",
        "y".repeat(1 << 20)
    );
    let wide = format!(
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n{}",
        "    - {}\n".repeat(60_000)
    );
    for (what, text) in [
        ("many", many),
        ("counts", huge_counts.to_owned()),
        ("bomb", bomb),
        ("long", long),
        ("wide", wide),
    ] {
        let mut verdict = None;
        let cost = allocation_counter::measure(|| {
            verdict = Some(cluster.configure(&config_map("m", &[("k", &text)]), None, &[]));
        });
        let verdict = verdict.unwrap();
        assert!(!verdict.findings.is_empty(), "{what}");
        assert!(verdict.findings.len() <= 21, "{what}: {}", verdict.findings.len());
        // Within a small multiple of the text: what grows with a number in it, or with its square, is far above.
        println!("{what}: {} bytes allocated for {}", cost.bytes_total, text.len());
        assert!(
            cost.bytes_total < MOST_ALLOCATED,
            "{what}: {} bytes allocated",
            cost.bytes_total
        );
    }
}

/// A DaemonSet of the device plugin with one container.
fn plugin_daemon(container: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "plugin"}},
            "template": {"metadata": {"labels": {"app": "plugin"}}, "spec": {"containers": [container]}},
        },
    })
}

#[test]
fn c2_flags_of_the_device_plugin_with_values_that_do_not_exist_are_refused() {
    let mut cluster = with(&[h100("n")]);
    let container = |args: Value, env: Value| json!({"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", "args": args, "env": env});
    let mut text = String::new();
    for (args, env, path) in [
        (json!(["--mig-strategy=dedicated"]), json!([]), "args[0]"),
        (
            json!(["--device-list-strategy", "envvar,volumes"]),
            json!([]),
            "args[1]",
        ),
        (json!(["--pass-device-specs=on"]), json!([]), "args[0]"),
        (
            json!([]),
            json!([{"name": "MIG_STRATEGY", "value": "multiple"}]),
            "env[0].value",
        ),
        (
            json!([]),
            json!([{"name": "DEVICE_ID_STRATEGY", "value": "name"}]),
            "env[0].value",
        ),
    ] {
        let verdict = cluster.try_create(&plugin_daemon(&container(args, env)));
        assert!(!verdict.admit);
        let found = finding(&verdict, Code::Vg602);
        assert_eq!(
            found.path.as_str(),
            format!("spec.template.spec.containers[0].{path}")
        );
        text.push_str(&headlines(&verdict));
    }
    golden("vg602-flags", &text);
    let fine = [
        container(
            json!(["--mig-strategy=mixed", "--fail-on-init-error=false"]),
            json!([]),
        ),
        container(
            json!(["--mig-strategy=$(STRATEGY)"]),
            json!([{"name": "STRATEGY", "value": "any"}]),
        ),
        container(
            json!([]),
            json!([{"name": "MIG_STRATEGY", "value": ""}, {"name": "DEVICE_LIST_STRATEGY", "value": "envvar,cdi-cri"}]),
        ),
        json!({"name": "gfd", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", "command": ["gpu-feature-discovery"], "args": ["--mig-strategy=x"]}),
        json!({"name": "mine", "image": "example.com/plugin:1", "args": ["--mig-strategy=x"]}),
    ];
    for container in fine {
        let verdict = cluster.try_create(&plugin_daemon(&container));
        assert!(
            verdict.admit && verdict.findings.is_empty(),
            "{:#?}",
            verdict.findings
        );
    }
}

#[test]
fn c9_agents_that_ask_for_a_slot_are_told_of_it_and_never_held_up() {
    let slot = |image: &str| {
        pod_of(
            "agent",
            json!([{"name": "agent", "image": image, "resources": {"limits": {"nvidia.com/gpu": "1"}}}]),
        )
    };
    let mut text = String::new();
    for image in [
        "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04",
        "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v26.7.0",
        "registry.example.com/ops/gpu-health-monitor:1.4",
        "registry.k8s.io/node-problem-detector/node-problem-detector:v0.8.20",
    ] {
        for slots in [1, 4] {
            let mut cluster = Cluster::new();
            cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, slots);
            let verdict = cluster.create(&slot(image));
            assert!(verdict.admit, "{image}: {:#?}", verdict.findings);
            assert!(
                has(&verdict, Code::Vg210) && !has(&verdict, Code::Vg106),
                "{:#?}",
                verdict.findings
            );
            if slots == 4 {
                text.push_str(&headlines(&verdict));
                let device = &cluster.ledger.devices()[0];
                assert!(device.promised_share.ppm() > 0, "it is counted");
            }
        }
        // Also where nothing is left to promise.
        let mut full = Cluster::new();
        full.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
        assert!(full.create(&pod("large", "0.90")).admit);
        let verdict = full.create(&slot(image));
        assert!(verdict.admit, "{:#?}", verdict.findings);
        assert_eq!(finding(&verdict, Code::Vg201).severity, Severity::Warning);
    }
    golden("vg210-agents", &text);
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    // Nothing else passes under its name: another image, an engine in the agent's image, an agent beside a workload.
    assert!(
        !cluster
            .create(&slot("example.com/dcgm-exporter-and-more:1"))
            .admit
    );
    let engine = json!([{
        "name": "agent", "image": "example.com/dcgm-exporter:1", "command": ["vllm", "serve", "Qwen/Qwen3-0.6B"],
        "args": ["--gpu-memory-utilization=0.95"], "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }]);
    assert!(!cluster.create(&pod_of("engine", engine)).admit);
    let beside = json!([
        {"name": "agent", "image": "x/dcgm-exporter:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
        {"name": "job", "image": "example.com/job:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
    ]);
    assert!(!cluster.create(&pod_of("beside", beside)).admit);
}

fn read(node: &Value, map: &Value) -> GpuNode {
    let Some(Configuration::ConfigMap(map)) = Configuration::read("ConfigMap", map).unwrap() else {
        panic!("no ConfigMap");
    };
    let plugin = PluginConfigMap::read(&map);
    let node = serde_json::from_value(node.clone()).unwrap();
    let context = Context {
        missing: MissingFacts::Exclusive,
        catalogue: Catalogue::embedded(),
        plugin: Some(&plugin),
    };
    read_in(&node, context).unwrap()
}

#[test]
fn nodes_are_read_beside_their_configuration() {
    let sliced = |count: u32, rest: &str| {
        format!(
            "version: v1\n{rest}\nsharing:\n  timeSlicing:\n    resources:\n    - {{name: nvidia.com/gpu, replicas: {count}}}\n"
        )
    };
    let map = config_map(
        "plugin",
        &[
            ("four", &sliced(4, "")),
            (
                "packed",
                &sliced(4, "flags: {plugin: {sharedDevicesAllocationPolicy: packed}}"),
            ),
            ("eight", &sliced(8, "")),
            ("single", &sliced(4, "flags: {migStrategy: single}")),
            ("broken", &sliced(1, "")),
            ("none", "version: v1"),
        ],
    );
    let node = gpu_node("gpu-1", "NVIDIA-L40S", 46_068, 2, 4);
    let under = |key: &str| read(&labelled(node.clone(), PLUGIN_LABEL, key), &map);
    // Agreement: the plugin's way of choosing devices is known.
    assert_eq!(under("four").notes, []);
    assert_eq!(
        under("four").pools[0].allocation,
        Some(AllocationPolicy::Distributed)
    );
    assert_eq!(
        under("packed").pools[0].allocation,
        Some(AllocationPolicy::Packed)
    );
    assert_eq!(read(&node, &map).pools[0].allocation, None);
    // Contradiction: what the node shows is used, and both are shown.
    let mut text = String::new();
    for key in ["eight", "none", "single", "broken", "absent"] {
        let read = under(key);
        assert_eq!(read.pools[0].sharing.slots_per_device(), 4, "{key}");
        assert_eq!(read.notes.len(), 1, "{key}: {:#?}", read.notes);
        let allocation = read.pools[0].allocation;
        assert_eq!(allocation.is_some(), key == "single", "{key}");
        text.push_str(&read.notes[0].message);
        text.push('\n');
    }
    // Labels say nothing of sharing: the configuration does, where capacity agrees.
    let bare = |capacity: u32, key: &str| {
        let mut node = labelled(node.clone(), PLUGIN_LABEL, key);
        let labels = node["metadata"]["labels"].as_object_mut().unwrap();
        for label in ["count", "replicas", "sharing-strategy"] {
            labels.remove(&format!("nvidia.com/gpu.{label}"));
        }
        labels["nvidia.com/gpu.product"] = json!("NVIDIA-L40S");
        for list in ["capacity", "allocatable"] {
            node["status"][list]["nvidia.com/gpu"] = json!(capacity.to_string());
        }
        read(&node, &map)
    };
    let told = bare(8, "four");
    assert_eq!(
        (told.pools[0].devices, told.pools[0].sharing.slots_per_device()),
        (2, 4)
    );
    text.push_str(&told.notes[0].message);
    text.push('\n');
    let odd = bare(6, "four");
    assert_eq!(odd.pools[0].sharing, Sharing::Exclusive);
    assert!(
        odd.notes
            .iter()
            .any(|note| note.message.contains("time-slicing with 4 slots")),
        "{:#?}",
        odd.notes
    );
    assert_eq!(bare(3, "none").pools[0].sharing, Sharing::Exclusive);
    golden("vg704-configuration", &text);
}

#[test]
fn a_policy_extends_the_catalogue() {
    let policy = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: p}\nspec:\n  device:\n    products:\n    - product: \
                  NVIDIA-Z100-64GB\n      aliases: [Z100]\n      memoryMiB: 65000\n      mig:\n        computeSlices: 2\n        \
                  memorySlices: 2\n        maxInstances: 2\n        profiles:\n        - {name: 1g.32gb, memoryMiB: 32000, observed: \
                  true, computeSlices: 1, maxCount: 2, starts: [0, 1], size: 1}\n";
    let cluster = Cluster::with_policy(policy);
    let catalogue = |cluster: &Cluster| {
        cluster
            .ledger
            .policies()
            .for_device(&std::collections::BTreeMap::new())
            .device
            .products
            .clone()
    };
    let products = catalogue(&cluster);
    let known = products.catalogue().product("z100").unwrap();
    assert_eq!(known.lowest_memory().get(), 65_000);
    assert!(products.catalogue().product("NVIDIA-L40S").is_some());
    assert!(
        cluster
            .configure(&mig_map(&[("a", "1g.32gb: 2")]), None, &[])
            .admit
    );
    assert!(
        !cluster
            .configure(&mig_map(&[("a", "1g.32gb: 3")]), None, &[])
            .admit
    );
    assert!(
        !Cluster::new()
            .configure(&mig_map(&[("a", "1g.32gb: 2")]), None, &[])
            .admit
    );
    for (entry, told) in [
        ("{product: A}", "memoryMiB"),
        ("{memoryMiB: 4}", "product"),
        ("{product: A, memoryMiB: 0}", "is 0"),
        (
            "{product: A, memoryMiB: 4, aliases: [B]}, {product: b, memoryMiB: 4}",
            "too",
        ),
        ("{product: A, memoryMiB: 4, colour: red}", "colour"),
        (
            "{product: A, memoryMiB: 4, mig: {computeSlices: 1, memorySlices: 1, maxInstances: 1, profiles: [{name: 1g.1gb, memoryMiB: 2, \
             observed: true, computeSlices: 1, maxCount: 1, starts: [1], size: 1}]}}",
            "starts and size",
        ),
    ] {
        let text = format!(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: p}}\nspec: {{device: {{products: [{entry}]}}}}\n"
        );
        let errors = vramgate::policy::file::parse(&text, "p.yaml")
            .unwrap_err()
            .to_string();
        assert!(
            errors.contains(told) && errors.contains("spec.device.products"),
            "{errors}"
        );
    }
    for name in ["plugin", "a/b/c", "/x", "A/b", "a/"] {
        let text = format!(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: p}}\nspec: {{device: {{pluginConfig: {name}}}}}\n"
        );
        assert!(vramgate::policy::file::parse(&text, "p.yaml").is_err(), "{name}");
    }
}

#[test]
fn the_pages_show_these_texts() {
    let read = |path: String| {
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
    };
    for (code, names) in [
        ("VG210", &["vg210-agents"][..]),
        ("VG601", &["vg601-impossible", "vg601-denial"]),
        (
            "VG602",
            &[
                "vg602-refused",
                "vg602-without-effect",
                "vg602-mps",
                "vg602-flags",
                "vg602-denial",
            ],
        ),
        ("VG603", &["vg603-names-nothing"]),
        ("VG604", &["vg604-running-pods"]),
    ] {
        let page = read(format!("docs/codes/{code}.md"));
        for name in names {
            let text = read(format!("tests/texts/{name}.txt"));
            let first = text.lines().next().unwrap();
            assert!(page.contains(first), "docs/codes/{code}.md lacks {first}");
        }
    }
}
