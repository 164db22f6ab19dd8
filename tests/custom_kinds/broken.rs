//! Objects with values of wrong types anywhere: nothing panics, and an error names the field and what it holds.

use proptest::prelude::*;
use serde_json::{Value, json};
use vramgate::workload::template::{self, Bases};
use vramgate::workload::{CustomKind, Workload};

use super::{leader_worker_set, object, run, server, template as pod_template};

/// An object of each kind with every field that is read.
fn whole() -> Vec<Value> {
    let ray = json!({"suspend": false, "enableInTreeAutoscaling": true,
        "headGroupSpec": {"template": pod_template("0.2")},
        "workerGroupSpecs": [{"replicas": 1, "minReplicas": 0, "maxReplicas": 2, "numOfHosts": 1, "suspend": false,
            "template": pod_template("0.2")}]});
    let main = json!({"containers": [{"name": "main", "image": "vllm/vllm-openai:v0.20.0", "args": ["--x"],
        "resources": {"limits": {"nvidia.com/gpu": 1}}}]});
    let mut group = leader_worker_set(1, 2, "0.2", "0.2");
    group["spec"]["rolloutStrategy"] =
        json!({"rollingUpdateConfiguration": {"maxSurge": "10%", "maxUnavailable": 1}});
    let model = json!({"modelFormat": {"name": "vLLM", "version": "1"}, "runtime": "vllm", "args": ["--x"],
        "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"nvidia.com/gpu": 1}}});
    let kinds = [
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            json!({"suspend": false, "replicatedJobs": [{"name": "a", "replicas": 1,
            "template": {"spec": {"parallelism": 1, "completions": 1, "suspend": false, "template": pod_template("0.2")}}}]}),
        ),
        ("ray.io/v1", "RayCluster", ray.clone()),
        (
            "ray.io/v1",
            "RayService",
            json!({"serveConfigV2": "applications: []", "rayClusterConfig": ray,
            "upgradeStrategy": {"type": "None"}}),
        ),
        (
            "ray.io/v1",
            "RayJob",
            json!({"suspend": false, "rayClusterSpec": ray}),
        ),
        (
            "serving.kserve.io/v1beta1",
            "InferenceService",
            json!({"predictor": {"minReplicas": 1, "maxReplicas": 2,
            "model": model, "workerSpec": {"tensorParallelSize": 1, "pipelineParallelSize": 2, "containers": [server("0.2")]}}}),
        ),
        (
            "serving.kserve.io/v1beta1",
            "InferenceService",
            json!({"predictor": {"containers": [server("0.2")]}}),
        ),
        (
            "serving.kserve.io/v1alpha2",
            "LLMInferenceService",
            json!({"model": {"uri": "hf://a/b", "name": "b"}, "replicas": 1,
            "parallelism": {"tensor": 1, "pipeline": 1, "data": 2, "dataLocal": 1}, "template": main, "worker": main,
            "baseRefs": [{"name": "x"}], "prefill": {"replicas": 1, "template": main}}),
        ),
        (
            "argoproj.io/v1alpha1",
            "Rollout",
            json!({"replicas": 1, "template": pod_template("0.2"),
            "strategy": {"canary": {"maxSurge": 1, "maxUnavailable": "25%"}}}),
        ),
        (
            "argoproj.io/v1alpha1",
            "Rollout",
            json!({"template": pod_template("0.2"),
            "strategy": {"blueGreen": {"previewReplicaCount": 1}}}),
        ),
        (
            "serving.knative.dev/v1",
            "Service",
            json!({"template": {"metadata": {"annotations": {
            "autoscaling.knative.dev/min-scale": "1"}}, "spec": {"containers": [server("0.2")]}}}),
        ),
        (
            "apps.nvidia.com/v1alpha1",
            "NIMService",
            json!({"image": {"repository": "a/b", "tag": "1"}, "replicas": 1,
            "resources": {"limits": {"nvidia.com/gpu": 1}}, "env": [{"name": "A", "value": "b"}],
            "scale": {"enabled": true, "hpa": {"minReplicas": 1, "maxReplicas": 2}}}),
        ),
        (
            "kubeai.org/v1",
            "Model",
            json!({"engine": "VLLM", "url": "hf://a/b", "image": "a", "args": ["--x"],
            "env": {"A": "b"}, "resourceProfile": "nvidia-gpu-l4:1", "replicas": 1, "minReplicas": 1, "maxReplicas": 2}),
        ),
        (
            "nvidia.com/v1alpha1",
            "DynamoGraphDeployment",
            json!({"services": {"W": {"replicas": 1, "componentType": "worker",
            "resources": {"limits": {"gpu": "1"}}, "envs": [{"name": "A", "value": "b"}],
            "extraPodSpec": {"mainContainer": {"image": "a", "args": ["x y"], "workingDir": "/w"}}}}}),
        ),
        (
            "production-stack.vllm.ai/v1alpha1",
            "VLLMRuntime",
            json!({"model": {"modelURL": "a/b", "maxModelLen": 1,
            "enableLoRA": true}, "vllmConfig": {"gpuMemoryUtilization": "0.5", "extraArgs": ["--x"]},
            "deploymentConfig": {"replicas": 1, "resources": {"gpu": "1"}, "image": {"name": "a", "registry": "b"}}}),
        ),
    ];
    let mut all: Vec<Value> = kinds
        .map(|(version, kind, spec)| object(version, kind, spec))
        .into();
    all.push(group);
    all
}

fn bases() -> Bases {
    let mut bases = Bases::default();
    bases.add(&json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterServingRuntime",
        "metadata": {"name": "vllm"}, "spec": {"containers": [{"name": "kserve-container", "image": "a", "args": ["--y={{.Name}}"],
            "env": [{"name": "A", "value": "{{if .X}}"}]}], "workerSpec": {"pipelineParallelSize": 2, "containers": []}}}));
    bases
}

/// JSON pointers of everything below a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let name = name.replace('~', "~0").replace('/', "~1");
                pointers(inner, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                pointers(inner, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_kind_is_here() {
    for kind in CustomKind::ALL {
        let version = kind.api_version();
        let group = version.split('/').next().unwrap();
        let is_here = |object: &Value| {
            object["kind"] == kind.kind && object["apiVersion"].as_str().unwrap().starts_with(group)
        };
        assert!(whole().iter().any(is_here), "{}", kind.kind);
    }
    for object in whole() {
        let workload = Workload::read_on(&object, &bases()).unwrap().unwrap();
        assert!(!workload.pod.spec.containers.is_empty(), "{object:#}");
        assert!(workload.pods().count() <= 4);
    }
}

/// Every value of every kind is replaced by one of every other type.
#[test]
fn a_value_of_a_wrong_type_is_an_error_that_names_it_or_is_not_read() {
    let bases = bases();
    let wrong = [
        json!(null),
        json!(true),
        json!(-1),
        json!(2.5),
        json!("astonishing"),
        json!(["astonishing"]),
        json!({"astonishing": 7}),
        json!(18_446_744_073_709_551_615_u64),
    ];
    let mut errors = 0;
    for object in whole() {
        let mut places = Vec::new();
        pointers(&object["spec"], "/spec", &mut places);
        for place in places {
            for value in &wrong {
                let mut broken = object.clone();
                *broken.pointer_mut(&place).unwrap() = value.clone();
                let Err(error) = Workload::read_on(&broken, &bases) else {
                    continue;
                };
                errors += 1;
                let name = place.rsplit('/').next().unwrap();
                // An item is named with its list.
                let last = if name.parse::<u32>().is_ok() {
                    format!("[{name}]")
                } else {
                    name.replace("~1", "/")
                };
                let names = error.path.contains(&last) || error.message.contains(&last);
                let near = place.trim_end_matches(name).trim_end_matches('/');
                let parent = near.rsplit('/').next().unwrap_or_default();
                assert!(names || error.path.contains(parent), "{place} = {value}: {error}");
                assert!(!error.message.is_empty() && error.message.len() < 400, "{error}");
            }
        }
    }
    assert!(errors > 500, "{errors}");
}

/// Numbers of pods are never taken for others.
#[test]
fn a_number_that_is_none_is_never_taken_for_one() {
    for (object, place, path) in [
        (
            leader_worker_set(1, 2, "0.2", "0.2"),
            "/spec/replicas",
            "spec.replicas",
        ),
        (
            leader_worker_set(1, 2, "0.2", "0.2"),
            "/spec/leaderWorkerTemplate/size",
            "spec.leaderWorkerTemplate.size",
        ),
    ] {
        for value in [json!("three"), json!(-1), json!(1.5), json!([1]), json!(true)] {
            let mut broken = object.clone();
            *broken.pointer_mut(place).unwrap() = value.clone();
            let error = Workload::read(&broken).unwrap_err();
            assert_eq!(error.path, path);
            assert!(error.message.contains(&value.to_string()), "{error}");
            assert!(error.message.contains("whole number"), "{error}");
        }
    }
}

/// The commands say it with file and object, and go on with the rest.
#[test]
fn the_commands_name_the_object_and_the_field() {
    let mut broken = leader_worker_set(1, 2, "0.2", "0.2");
    broken["spec"]["leaderWorkerTemplate"]["size"] = json!("two");
    let fine = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fine", "namespace": "llm"},
        "spec": {"containers": [server("0.2")]}});
    let state = [super::node("gpu-a", 1)];
    for arguments in [
        &["check", "--cluster-state", "state.json", "input.json"][..],
        &["explain", "input.json"],
    ] {
        let output = run(
            arguments,
            &[
                ("input.json", &[broken.clone(), fine.clone()]),
                ("state.json", &state),
            ],
        );
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(
            errors.contains(
                "LeaderWorkerSet \"big\": spec.leaderWorkerTemplate.size: \"two\" is not a whole number"
            ),
            "{errors}"
        );
        assert!(String::from_utf8_lossy(&output.stdout).contains("fine"));
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z{}. :/%-]{0,12}".prop_map(Value::from),
        Just(json!([server("0.5")])),
        Just(pod_template("0.5")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let name = prop::sample::select(vec![
            "spec",
            "template",
            "containers",
            "name",
            "image",
            "args",
            "env",
            "replicas",
            "model",
            "resources",
            "limits",
            "parallelism",
            "workerSpec",
            "predictor",
            "services",
            "metadata",
            "value",
            "gpu",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..5).prop_map(|fields| Value::Object(
                fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands anywhere, reading ends, and an error says where.
    #[test]
    fn nothing_panics(which in 0_usize..64, at in 0_usize..10_000, value in any_value()) {
        let all = whole();
        let mut object = all[which % all.len()].clone();
        let mut places = Vec::new();
        pointers(&object, "", &mut places);
        let place = &places[at % places.len()];
        *object.pointer_mut(place).unwrap() = value;
        let bases = bases();
        for error in [
            Workload::read_on(&object, &bases).err(),
            Workload::from_json(&object.to_string()).err(),
            template::templates_on(&object, &bases).err(),
        ].into_iter().flatten() {
            prop_assert!(!error.path.is_empty() && !error.message.is_empty());
        }
    }
}

/// An object of 1.5 MB, as etcd still takes it, costs no more than any other.
#[test]
fn an_object_with_too_many_templates_is_not_judged_and_ends_soon() {
    let groups = |count: usize| {
        let group = json!({"replicas": 1, "template": pod_template("0.05")});
        object(
            "ray.io/v1",
            "RayCluster",
            json!({"workerGroupSpecs": vec![group; count]}),
        )
    };
    let refused = |count: usize| {
        let object = groups(count);
        let cost = allocation_counter::measure(|| {
            let error = Workload::read(&object).unwrap_err();
            assert_eq!(error.path, "spec");
            assert!(
                error.message.contains(&format!("{count} pod templates")),
                "{error}"
            );
        });
        cost.bytes_total
    };
    // They are counted, and none is read.
    let (few, many) = (refused(1_250), refused(5_000));
    assert!(many <= 5 * few, "{few} bytes allocated, then {many}");
    let items = super::check(&[super::node("gpu-a", 1)], &[groups(64)]);
    assert_eq!(items[0]["verdict"], "deny");
    let (few, many) = (read_with_variables(10_000), read_with_variables(40_000));
    assert!(many <= 5 * few, "{few} bytes allocated, then {many}");
}

/// What it allocates in all, in bytes, to read a service on a runtime, both with so many variables.
fn read_with_variables(count: usize) -> u64 {
    let mut wide = json!({"containers": [server("0.2")]});
    wide["containers"][0]["env"] = (0..count)
        .map(|n| json!({"name": format!("V{n}"), "value": "x"}))
        .collect();
    let mut model = wide["containers"][0].clone();
    model["modelFormat"] = json!({"name": "vLLM"});
    let service = object(
        "serving.kserve.io/v1beta1",
        "InferenceService",
        json!({"predictor": {"model": model}}),
    );
    let mut bases = Bases::default();
    wide["supportedModelFormats"] = json!([{"name": "vLLM", "autoSelect": true}]);
    bases.add(
        &json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterServingRuntime",
        "metadata": {"name": "wide"}, "spec": wide}),
    );
    let cost = allocation_counter::measure(|| drop(Workload::read_on(&service, &bases).unwrap().unwrap()));
    cost.bytes_total
}
