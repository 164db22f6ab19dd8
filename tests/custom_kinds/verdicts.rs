//! Kinds whose objects say all of their pods.

use serde_json::{Value, json};

use super::{check, fixes_hold, judged, leader_worker_set, lines, node, object, server, template};

/// An object that fits the one device, and one that does not: the code, the path, and the titles of fixes that hold.
fn fits_and_does_not(fitting: &Value, refused: &Value, path: &str, titles: &[&str]) {
    let item = judged(fitting);
    assert_eq!(item["verdict"], "admit", "{item:#}");
    assert!(!item["placement"].as_array().unwrap().is_empty(), "{item:#}");
    let item = judged(refused);
    let lines = lines(&item);
    assert_eq!(
        lines[..2],
        ["deny".to_owned(), format!("VG201 error {path}")],
        "{item:#}"
    );
    let held = fixes_hold(&[node("gpu-a", 1)], refused, &item);
    assert_eq!(held, titles, "{item:#}");
}

#[test]
fn a_leader_and_its_workers_must_find_places_at_once() {
    fits_and_does_not(
        &leader_worker_set(1, 3, "0.3", "0.3"),
        &leader_worker_set(1, 3, "0.3", "0.4"),
        "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].args[1]",
        &["lower the memory fraction of container server to 0.300"],
    );
    // Each part alone has room.
    let leader_only = leader_worker_set(1, 1, "0.6", "0.6");
    assert_eq!(judged(&leader_only)["verdict"], "admit");
    let both = judged(&leader_worker_set(1, 2, "0.6", "0.6"));
    assert_eq!(both["verdict"], "deny");
    assert_eq!(
        both["findings"][0]["message"],
        "1 pod at 0.60 of a shared nvidia.com/gpu device needs 0.60 beside 1 other pod of the object; it does not fit \
         (budget 0.90 of each device)"
    );
    // Fewer groups, each with all of its pods.
    let groups = leader_worker_set(3, 2, "0.1", "0.1");
    let item = judged(&groups);
    // Six pods and four slots: they wait for slots, which is no matter of memory.
    assert_eq!(item["verdict"], "admit", "{item:#}");
    let state = [node("gpu-a", 1), node("gpu-b", 1)];
    let groups = leader_worker_set(3, 2, "0.4", "0.4");
    let items = check(&state, std::slice::from_ref(&groups));
    assert_eq!(items[0]["verdict"], "deny");
    let titles = fixes_hold(&state, &groups, &items[0]);
    assert_eq!(
        titles,
        [
            "lower replicas to 2",
            "lower the memory fractions of container server to 0.300 each"
        ]
    );
}

/// The whole text as a developer reads it.
#[test]
fn the_text_counts_the_other_templates() {
    let object = leader_worker_set(1, 3, "0.4", "0.4");
    let output = super::run(
        &["check", "--cluster-state", "state.json", "input.json"],
        &[("state.json", &[node("gpu-a", 1)]), ("input.json", &[object])],
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let name = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/texts/vg201-several-templates.txt"
    );
    if std::env::var_os("UPDATE_TEXTS").is_some() {
        std::fs::write(name, &text).unwrap();
    }
    let expected = std::fs::read_to_string(name).unwrap_or_default();
    assert_eq!(
        text, expected,
        "{name} differs; run with UPDATE_TEXTS=1 and look at the change"
    );
    let page = include_str!("../../docs/codes/VG201.md");
    let first = text.lines().find(|line| line.contains("VG201: ")).unwrap();
    let first = first.trim_start().trim_start_matches("error ");
    assert!(first.len() < 256 && page.contains(first), "{first}");
}

#[test]
fn templates_are_placed_in_an_order_in_which_they_fit() {
    // The leader may stand anywhere, its workers on one node only; taken first, it would stand in their way.
    let mut group = leader_worker_set(1, 3, "0.45", "0.45");
    group["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["nodeSelector"] =
        json!({"kubernetes.io/hostname": "gpu-a"});
    let items = check(&[node("gpu-a", 1), node("gpu-b", 1)], &[group]);
    assert_eq!(items[0]["verdict"], "admit", "{items:#?}");
}

#[test]
fn a_group_without_a_leader_template_is_all_workers() {
    let group = |size: u32| {
        object(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            json!({"leaderWorkerTemplate": {"size": size, "workerTemplate": template("0.45")}}),
        )
    };
    fits_and_does_not(
        &group(2),
        &group(3),
        "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].args[1]",
        &["lower the memory fraction of container server to 0.300"],
    );
    // A group that is added in a rolling update.
    let mut rolled = group(2);
    rolled["spec"]["rolloutStrategy"] = json!({"rollingUpdateConfiguration": {"maxSurge": 1}});
    let item = judged(&rolled);
    assert_eq!(
        lines(&item),
        [
            "admit",
            "VG203 warning spec.rolloutStrategy.rollingUpdateConfiguration"
        ],
        "{item:#}"
    );
    let titles = fixes_hold(&[node("gpu-a", 1)], &rolled, &item);
    assert_eq!(titles[0], "set maxSurge to 0");
}

#[test]
fn jobs_of_a_set_run_at_once() {
    let set = |replicas: u32, parallelism: u32| {
        let job =
            json!({"parallelism": parallelism, "completions": parallelism, "template": template("0.3")});
        object(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            json!({"replicatedJobs": [
                {"name": "driver", "template": {"spec": {"template": {"spec": {"containers": [
                    {"name": "driver", "image": "registry.example/driver:1"}]}}}}},
                {"name": "workers", "replicas": replicas, "template": {"spec": job}}]}),
        )
    };
    fits_and_does_not(
        &set(1, 3),
        &set(2, 2),
        "spec.replicatedJobs[1].template.spec.template.spec.containers[0].args[1]",
        &[
            "lower replicas to 1",
            "lower the memory fraction of container server to 0.225",
        ],
    );
    let mut suspended = set(9, 2);
    suspended["spec"]["suspend"] = json!(true);
    assert_eq!(judged(&suspended)["verdict"], "admit");
}

fn ray_cluster(replicas: u32, hosts: u32) -> Value {
    json!({
        "headGroupSpec": {"template": {"spec": {"containers": [{"name": "head", "image": "rayproject/ray:2.52.0"}]}}},
        "workerGroupSpecs": [{"groupName": "gpu", "replicas": replicas, "minReplicas": 0, "maxReplicas": 8,
            "numOfHosts": hosts, "template": {"spec": {"containers": [{
                "name": "worker", "image": "rayproject/ray-llm:2.52.0",
                "args": ["vllm serve example-org/chat-7b --gpu-memory-utilization 0.4"],
                "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}}]})
}

#[test]
fn worker_groups_of_a_ray_cluster_are_counted_with_their_hosts() {
    let of = |replicas, hosts| object("ray.io/v1", "RayCluster", ray_cluster(replicas, hosts));
    fits_and_does_not(
        &of(1, 2),
        &of(2, 2),
        "spec.workerGroupSpecs[0].template.spec.containers[0].args",
        &["lower replicas to 1"],
    );
    let job = |replicas| {
        object(
            "ray.io/v1",
            "RayJob",
            json!({"rayClusterSpec": ray_cluster(replicas, 1)}),
        )
    };
    fits_and_does_not(
        &job(2),
        &job(3),
        "spec.rayClusterSpec.workerGroupSpecs[0].template.spec.containers[0].args",
        &["lower replicas to 2"],
    );
    let mut suspended = of(9, 1);
    suspended["spec"]["suspend"] = json!(true);
    assert_eq!(judged(&suspended)["verdict"], "admit");
    let mut bounded = of(9, 1);
    bounded["spec"]["workerGroupSpecs"][0]["maxReplicas"] = json!(2);
    assert_eq!(judged(&bounded)["verdict"], "admit");
    bounded["spec"]["workerGroupSpecs"][0]["minReplicas"] = json!(3);
    bounded["spec"]["workerGroupSpecs"][0]["maxReplicas"] = json!(4);
    bounded["spec"]["workerGroupSpecs"][0]["replicas"] = json!(0);
    assert_eq!(judged(&bounded)["verdict"], "deny");
}

#[test]
fn a_ray_service_is_changed_beside_its_old_cluster() {
    let serve = "applications:\n- import_path: ray.serve.llm:build_openai_app\n  args:\n    llm_configs:\n    - \
                 model_loading_config: {model_id: q, model_source: example-org/chat-7b}\n      engine_kwargs: \
                 {gpu_memory_utilization: 0.4}\n";
    let service = |replicas: u32, strategy: &str| {
        let mut cluster = ray_cluster(replicas, 1);
        cluster["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
            .as_object_mut()
            .unwrap()
            .remove("args");
        object(
            "ray.io/v1",
            "RayService",
            json!({"serveConfigV2": serve, "upgradeStrategy": {"type": strategy}, "rayClusterConfig": cluster}),
        )
    };
    fits_and_does_not(
        &service(2, "None"),
        &service(3, "None"),
        "spec.serveConfigV2",
        &["lower replicas to 2"],
    );
    assert_eq!(lines(&judged(&service(2, "None"))), ["admit"]);
    let item = judged(&service(2, "NewCluster"));
    assert_eq!(
        lines(&item),
        ["admit", "VG203 warning spec.upgradeStrategy"],
        "{item:#}"
    );
    assert_eq!(lines(&judged(&service(1, "NewCluster"))), ["admit"]);
}

#[test]
fn a_rollout_is_judged_as_a_deployment() {
    let rollout = |replicas: u32, strategy: Value| {
        object(
            "argoproj.io/v1alpha1",
            "Rollout",
            json!({"replicas": replicas, "strategy": strategy, "template": template("0.3")}),
        )
    };
    let still = json!({"canary": {"maxSurge": 0, "maxUnavailable": 1}});
    fits_and_does_not(
        &rollout(3, still.clone()),
        &rollout(4, still),
        "spec.template.spec.containers[0].args[1]",
        &[
            "lower replicas to 3",
            "lower the memory fraction of container server to 0.225",
        ],
    );
    let canary = rollout(
        3,
        json!({"canary": {"maxSurge": "30%", "steps": [{"setWeight": 20}]}}),
    );
    let item = judged(&canary);
    assert_eq!(
        lines(&item),
        ["admit", "VG203 warning spec.strategy.canary"],
        "{item:#}"
    );
    let titles = fixes_hold(&[node("gpu-a", 1)], &canary, &item);
    assert_eq!(titles[0], "set maxSurge to 0");
    let item = judged(&rollout(2, json!({"blueGreen": {"activeService": "a"}})));
    assert_eq!(
        lines(&item),
        ["admit", "VG203 warning spec.strategy.blueGreen"],
        "{item:#}"
    );
    // A template of somebody else.
    let borrowed = object(
        "argoproj.io/v1alpha1",
        "Rollout",
        json!({"replicas": 9, "workloadRef": {"kind": "Deployment", "name": "chat"}}),
    );
    assert!(check(&[node("gpu-a", 1)], &[borrowed]).is_empty());
}

#[test]
fn a_knative_service_starts_with_its_scale() {
    let service = |least: Value| {
        let mut container = server("0.4");
        container.as_object_mut().unwrap().remove("name");
        object(
            "serving.knative.dev/v1",
            "Service",
            json!({"template": {"metadata": {"annotations": {"autoscaling.knative.dev/min-scale": least}},
                "spec": {"containers": [container]}}}),
        )
    };
    fits_and_does_not(
        &service(json!("2")),
        &service(json!("3")),
        "spec.template.spec.containers[0].args[1]",
        &["lower the memory fraction of container user-container to 0.300"],
    );
    let item = judged(&service(json!("2")));
    assert_eq!(lines(&item), ["admit", "VG203 warning spec.template"], "{item:#}");
    assert_eq!(lines(&judged(&service(json!("0")))), ["admit"]);
}

#[test]
fn a_predictor_with_containers_says_all() {
    let service = |replicas: u32| {
        object(
            "serving.kserve.io/v1beta1",
            "InferenceService",
            json!({"predictor": {"minReplicas": replicas, "maxReplicas": 9, "containers": [server("0.4")]}}),
        )
    };
    fits_and_does_not(
        &service(2),
        &service(3),
        "spec.predictor.containers[0].args[1]",
        &[
            "lower minReplicas to 2",
            "lower the memory fraction of container server to 0.300",
        ],
    );
}

#[test]
fn errors_of_several_templates_are_answered_at_once() {
    let item = judged(&leader_worker_set(1, 2, "1.5", "2"));
    let lines = lines(&item);
    assert_eq!(lines.len(), 3, "{item:#}");
    assert_eq!(
        lines[1],
        "VG101 error spec.leaderWorkerTemplate.leaderTemplate.spec.containers[0].args[1]"
    );
    assert_eq!(
        lines[2],
        "VG101 error spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].args[1]"
    );
    let held = fixes_hold(&[node("gpu-a", 1)], &leader_worker_set(1, 2, "1.5", "2"), &item);
    assert_eq!(held.len(), 1, "{item:#}");
}
