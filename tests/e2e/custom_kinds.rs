//! Kinds of other API groups, as far as the API server knows them: minimal definitions without a schema.

use serde_json::{Value, json};

use crate::api::eventually;
use crate::manifests::{GpuNode, Pod};
use crate::scenario::Scenario;

/// Group, version, kind, plural.
const KINDS: [(&str, &str, &str, &str); 13] = [
    (
        "leaderworkerset.x-k8s.io",
        "v1",
        "LeaderWorkerSet",
        "leaderworkersets",
    ),
    ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    ("ray.io", "v1", "RayCluster", "rayclusters"),
    ("ray.io", "v1", "RayService", "rayservices"),
    ("ray.io", "v1", "RayJob", "rayjobs"),
    (
        "serving.kserve.io",
        "v1beta1",
        "InferenceService",
        "inferenceservices",
    ),
    (
        "serving.kserve.io",
        "v1alpha2",
        "LLMInferenceService",
        "llminferenceservices",
    ),
    ("argoproj.io", "v1alpha1", "Rollout", "rollouts"),
    ("serving.knative.dev", "v1", "Service", "services"),
    ("apps.nvidia.com", "v1alpha1", "NIMService", "nimservices"),
    ("kubeai.org", "v1", "Model", "models"),
    (
        "nvidia.com",
        "v1alpha1",
        "DynamoGraphDeployment",
        "dynamographdeployments",
    ),
    (
        "production-stack.vllm.ai",
        "v1alpha1",
        "VLLMRuntime",
        "vllmruntimes",
    ),
];

fn install(s: &Scenario) {
    for (group, version, kind, plural) in KINDS {
        let open =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"),
                "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
            "spec": {"group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                "versions": [{"name": version, "served": true, "storage": true, "schema": open}]}});
        s.api()
            .post(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                &definition,
            )
            .admitted(kind);
    }
    for (group, version, kind, plural) in KINDS {
        eventually(&format!("{kind} is served"), 30, || {
            let path = format!("/apis/{group}/{version}/namespaces/{}/{plural}", s.name);
            s.api().is_ok(&path).then_some(())
        });
    }
}

fn of(kind: &str, name: &str, spec: Option<Value>) -> Value {
    let (group, version, ..) = KINDS.into_iter().find(|(_, _, known, _)| *known == kind).unwrap();
    let mut object =
        json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": {"name": name}});
    if let Some(spec) = spec {
        object["spec"] = spec;
    }
    object
}

/// Reviews of such objects that came to vramgate.
fn reviews(s: &Scenario) -> u64 {
    let metrics = s.cluster.with_vramgate(|vramgate| vramgate.metrics());
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("vramgate_reviews_total") && line.contains("kind=\"custom\""));
    lines
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum()
}

/// Lines of the API server's metrics about conditions of ours that failed.
fn failed_conditions(s: &Scenario) -> Vec<String> {
    let metrics = s.kubectl(&["get", "--raw", "/metrics"], None);
    assert!(
        metrics.contains("apiserver_admission"),
        "the API server tells its metrics"
    );
    let ours = metrics
        .lines()
        .filter(|line| line.contains("match_condition_evaluation_errors") && line.contains("vramgate.io"));
    ours.map(str::to_owned).collect()
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "one cluster with all the definitions serves every kind"
)]
fn s20_kinds_of_other_groups_are_judged_when_they_are_applied() {
    let s = Scenario::new("s20");
    install(&s);
    s.node(GpuNode::h100("s20-n1").slots(4));
    let pod = |fraction: &str| Pod::vllm("x", fraction).on(s.name).to_json()["spec"].clone();
    let template = |fraction: &str| json!({"spec": pod(fraction)});
    let group = |name: &str, size: u32, fraction: &str| {
        of(
            "LeaderWorkerSet",
            name,
            Some(json!({"replicas": 1, "leaderWorkerTemplate": {"size": size,
                "leaderTemplate": template(fraction), "workerTemplate": template(fraction)}})),
        )
    };
    let before = reviews(&s);
    let text = s.kubectl(&["apply", "-f", "-"], Some(&group("large", 3, "0.40")));
    for word in [
        "VG201",
        "leaderworkersets.leaderworkerset.x-k8s.io.vramgate.io",
        "lower the memory fractions",
    ] {
        assert!(text.contains(word), "kubectl apply does not show {word}:\n{text}");
    }
    s.create_workload(&group("large", 3, "0.40"), "").denied(
        "a group of three",
        &[
            "VG201",
            "2 pods at 0.40",
            "beside 1 other pod of the object",
            "1 of them fit",
        ],
    );
    s.create_workload(&group("small", 3, "0.30"), "")
        .admitted("a smaller group");
    // Later changes: no more than before, and more.
    let path = format!(
        "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets/small",
        s.name
    );
    let change = |change: &str| {
        s.kubectl(
            &[
                "patch",
                "leaderworkersets.leaderworkerset.x-k8s.io",
                "small",
                "--type=merge",
                "-p",
                change,
            ],
            None,
        )
    };
    let text = change(r#"{"spec": {"replicas": 2}}"#);
    assert!(text.contains("VG201"), "{text}");
    let text = change(r#"{"spec": {"startupPolicy": "LeaderReady"}}"#);
    assert!(text.contains("patched") && !text.contains("VG2"), "{text}");
    assert_eq!(s.api().get(&path).body["spec"]["replicas"], 1);

    // The conditions find what asks for a GPU, wherever it stands.
    let gpu = json!({"limits": {"nvidia.com/gpu": "1"}});
    let image = "vllm/vllm-openai:v0.20.0";
    let ray = json!({"workerGroupSpecs": [{"replicas": 1, "template": template("0.10")}]});
    let head = json!({"headGroupSpec": {"template": template("0.10")}});
    let asking = [
        (
            "JobSet",
            json!({"replicatedJobs": [{"name": "cpu", "template": {}}, {"name": "a",
            "template": {"spec": {"template": template("0.10")}}}]}),
        ),
        ("RayCluster", ray.clone()),
        ("RayService", json!({"rayClusterConfig": head})),
        ("RayJob", json!({"rayClusterSpec": ray})),
        (
            "InferenceService",
            json!({"predictor": {"model": {"modelFormat": {"name": "x"}, "resources": gpu}}}),
        ),
        (
            "InferenceService",
            json!({"predictor": {"triton": {"resources": gpu}}}),
        ),
        ("InferenceService", json!({"predictor": pod("0.10")})),
        (
            "LLMInferenceService",
            json!({"model": {"uri": "hf://a/b"}, "prefill": {"template": {"containers": [
            {"name": "main", "image": image, "resources": gpu}]}}}),
        ),
        ("Rollout", json!({"template": template("0.10")})),
        ("Service", json!({"template": template("0.10")})),
        (
            "NIMService",
            json!({"image": {"repository": "a/b"}, "resources": gpu}),
        ),
        (
            "Model",
            json!({"engine": "VLLM", "url": "hf://a/b", "resourceProfile": "nvidia-gpu-l4:1"}),
        ),
        (
            "DynamoGraphDeployment",
            json!({"services": {"Frontend": {}, "W": {"resources": {"limits": {"gpu": "1"}}}}}),
        ),
        (
            "DynamoGraphDeployment",
            json!({"services": {"W": {"extraPodSpec": {"mainContainer": {"resources": gpu}}}}}),
        ),
        (
            "VLLMRuntime",
            json!({"model": {"modelURL": "a/b"}, "deploymentConfig": {"resources": {"gpu": "1"}}}),
        ),
        // A resource name that nobody checks before the pods are made.
        (
            "Rollout",
            json!({"template": {"spec": {"containers": [{"name": "a", "image": image,
            "resources": {"limits": {"gpu": "1"}}}]}}}),
        ),
    ];
    assert!(reviews(&s) > before);
    for (number, (kind, spec)) in asking.into_iter().enumerate() {
        let before = reviews(&s);
        let object = of(kind, &format!("asks-{number}"), Some(spec));
        let answer = s.create_workload(&object, "?dryRun=All");
        assert!(
            answer.is_success() || answer.status == 403,
            "{object:#} {}",
            answer.text()
        );
        assert_eq!(reviews(&s), before + 1, "{object:#}");
    }

    // Objects without a GPU, or with hardly a field, cost nothing and break nothing.
    let before = reviews(&s);
    for (_, _, kind, _) in KINDS {
        let cpu = json!({"containers": [{"name": "a", "image": "b", "resources": {"limits": {"amd.com/gpu": "1"}}}]});
        let bare = [
            None,
            Some(json!({})),
            Some(
                json!({"template": {"spec": cpu}, "predictor": {"model": {}}, "services": {"a": {}},
                "replicatedJobs": [{}], "workerGroupSpecs": [{}], "headGroupSpec": {},
                "rayClusterConfig": {"workerGroupSpecs": []}, "rayClusterSpec": {}, "leaderWorkerTemplate": {},
                "deploymentConfig": {"resources": {}}, "resources": {}, "prefill": {}, "worker": {}}),
            ),
        ];
        for (number, spec) in bare.into_iter().enumerate() {
            let object = of(kind, &format!("bare-{}-{number}", kind.to_lowercase()), spec);
            s.create_workload(&object, "").admitted(kind);
        }
    }
    assert_eq!(reviews(&s), before);
    assert_eq!(failed_conditions(&s), Vec::<String>::new());
}

#[test]
fn s21_names_that_are_nearly_a_resource_are_told() {
    let s = Scenario::new("s21");
    s.node(GpuNode::h100("s21-n1").slots(4));
    for (name, resource) in [
        ("no-top-level", "nvidia/gpu"),
        ("plural", "nvidia.com/gpus"),
        ("upper-case", "nvidia.com/GPU"),
        ("letters", "nvdia.com/gpu"),
        ("typo", "nividia.com/gpu"),
    ] {
        s.create(&Pod::vllm(name, "0.30").asks(resource, 1))
            .admitted(name)
            .says(name, "VG108");
    }
    // Others have devices as well, and the API server keeps names without a domain for itself.
    for (name, resource) in [
        ("amd", "amd.com/gpu"),
        ("share", "aliyun.com/gpu-mem"),
        ("nos", "nos.nebuly.com/gpu"),
    ] {
        s.create(&Pod::vllm(name, "0.30").asks(resource, 1))
            .admitted(name)
            .without_warning(name, "VG");
    }
    for resource in ["gpu", "nvidia-gpu", "NVIDIA.com/gpu"] {
        let answer = s.create(&Pod::vllm("refused", "0.30").asks(resource, 1));
        assert_eq!(answer.status, 422, "{resource}: {}", answer.text());
    }
}
