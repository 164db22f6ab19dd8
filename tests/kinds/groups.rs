//! Groups of pods: LeaderWorkerSet and the kinds that build on it, roles, nodes of one engine.

use serde_json::{Value, json};
use vramgate::workload::{Workload, template};

use super::{Maps, lines, read};

/// `path desired: readings` of each template.
fn templates(api: &str, spec: Value) -> Vec<String> {
    let (version, kind) = api.split_once(' ').unwrap();
    let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    let (_, templates) = template::templates(&object).unwrap();
    templates
        .iter()
        .map(|template| {
            let read = lines(&read(&template.pod, &Maps::default()));
            format!("{} x{}: {}", template.path, template.desired, read.join(" + "))
        })
        .collect()
}

fn pod_of(image: &str, script: &str, gpus: u32) -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": image, "command": ["bash", "-c", script],
        "env": [{"name": "LOCAL", "value": "4"}],
        "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}})
}

const VLLM: &str = "vllm/vllm-openai:v0.18.1";
const SGLANG: &str = "lmsysorg/sglang:v0.5.6";

#[test]
fn the_size_of_the_group_is_known_from_its_object() {
    let line = "exec vllm serve m -tp 8 -pp $(LWS_GROUP_SIZE) --nnodes $LWS_GROUP_SIZE \
                --node-rank $LWS_WORKER_INDEX --master-addr $LWS_LEADER_ADDRESS";
    let worker = format!("{line} --headless");
    let spec = json!({"replicas": 3, "leaderWorkerTemplate": {"size": 2,
        "leaderTemplate": pod_of(VLLM, line, 8), "workerTemplate": pod_of(VLLM, &worker, 8)}});
    assert_eq!(
        templates("leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", spec),
        [
            "spec.leaderWorkerTemplate.leaderTemplate x3: vllm m 0.9 default 8/2/1=8 yes",
            "spec.leaderWorkerTemplate.workerTemplate x3: vllm m 0.9 default 8/2/1=8 yes",
        ]
    );
    // Replicas over the pods of a group, some of them in each.
    let wide = "RANK=$(( ${LWS_WORKER_INDEX:-0} * LOCAL ))\nexec vllm serve m --data-parallel-hybrid-lb \
                -dp $((LWS_GROUP_SIZE * LOCAL)) -dpl $LOCAL --data-parallel-start-rank $RANK --api-server-count 4";
    let spec = json!({"leaderWorkerTemplate": {"size": 4, "workerTemplate": pod_of(VLLM, wide, 4)}});
    assert_eq!(
        templates("leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", spec),
        ["spec.leaderWorkerTemplate.workerTemplate x4: vllm m 0.9 default 1/1/16=4 yes"]
    );
}

#[test]
fn the_controller_replaces_variables_of_its_names() {
    let line = "exec vllm serve m -pp $LWS_GROUP_SIZE --nnodes $LWS_GROUP_SIZE --node-rank $LWS_WORKER_INDEX";
    let mut pod = pod_of(VLLM, line, 8);
    pod["spec"]["containers"][0]["env"] =
        json!([{"name": "LWS_GROUP_SIZE", "value": "7"}, {"name": "LWS_WORKER_INDEX", "value": "1"}]);
    let spec = json!({"leaderWorkerTemplate": {"size": 2, "leaderTemplate": pod, "workerTemplate": pod_of(VLLM, line, 8)}});
    let read = templates("leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", spec);
    assert_eq!(
        read[0],
        "spec.leaderWorkerTemplate.leaderTemplate x1: vllm m 0.9 default 1/2/1=1 yes"
    );
}

#[test]
fn the_name_in_a_template_is_not_the_name_of_its_pods() {
    let mut pod = pod_of(VLLM, "exec vllm serve \"$NAME\"", 1);
    pod["metadata"] = json!({"name": "written"});
    pod["spec"]["containers"][0]["env"] =
        json!([{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    let spec = json!({"leaderWorkerTemplate": {"size": 1, "workerTemplate": pod}});
    assert_eq!(
        templates("leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", spec),
        ["spec.leaderWorkerTemplate.workerTemplate x1: vllm - 0.9 default 1/1/1=1 yes"]
    );
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {}, "template": pod}});
    let workload = Workload::read(&deployment).unwrap().unwrap();
    assert_eq!(
        lines(&read(&workload.pod, &Maps::default())),
        ["vllm - 0.9 default 1/1/1=1 yes"]
    );
}

#[test]
fn kinds_that_hold_groups_make_all_of_their_pods() {
    let line = "python3 -m sglang.launch_server --model-path m --tp 8 --pp-size 2 --nnodes ${LWS_GROUP_SIZE:-1} \
                --node-rank ${LWS_WORKER_INDEX:-0} --mem-fraction-static 0.7";
    let group = json!({"size": 2, "workerTemplate": pod_of(SGLANG, line, 8)});
    let roles = json!({"roles": [{"name": "p", "spec": {"replicas": 2, "leaderWorkerTemplate": group}}]});
    assert_eq!(
        templates("disaggregatedset.x-k8s.io/v1 DisaggregatedSet", roles),
        ["spec.roles[0].spec.leaderWorkerTemplate.workerTemplate x4: sglang m 0.7 flag 8/2/1=8 yes"]
    );
    let roles = json!({"roles": [{"name": "d", "replicas": 3, "leaderWorkerSet": {"size": 2},
        "template": pod_of(SGLANG, line, 8)}]});
    assert_eq!(
        templates("workloads.x-k8s.io/v1alpha1 RoleBasedGroup", roles),
        ["spec.roles[0].template x6: sglang m 0.7 flag 8/2/1=8 yes"]
    );
    let serve = "vllm serve m";
    let roles = json!({"replicas": 2, "template": {"spec": {"roles": [{"name": "d", "replicas": 1, "podGroupSize": 3,
        "template": pod_of(VLLM, serve, 1)}]}}});
    assert_eq!(
        templates("orchestration.aibrix.ai/v1alpha1 StormService", roles),
        ["spec.template.spec.roles[0].template x6: vllm m 0.9 default 1/1/1=1 yes"]
    );
    let leader = "bash /opt/multi-node-serving.sh leader --ray_cluster_size=3; vllm serve m -tp 8 -pp 3";
    let worker = "bash /opt/multi-node-serving.sh worker --ray_address=x";
    let roles = json!({"replicas": 1, "template": {"roles": [{"name": "d", "replicas": 2,
        "entryTemplate": pod_of(VLLM, leader, 8), "workerReplicas": 2, "workerTemplate": pod_of(VLLM, worker, 8)}]}});
    assert_eq!(
        templates("workload.serving.volcano.sh/v1alpha1 ModelServing", roles),
        [
            "spec.template.roles[0].entryTemplate x2: vllm m 0.9 default 8/3/1=8 yes",
            "spec.template.roles[0].workerTemplate x4: ray-worker - - unresolved 1/1/1=8 yes",
        ]
    );
    let service = json!({"template": {"spec": {"containers": [{"image": VLLM, "args": ["m"]}]}}});
    assert_eq!(
        templates("serving.knative.dev/v1 Service", service),
        ["spec.template x1: vllm m 0.9 default 1/1/1=1 yes"]
    );
}

#[test]
fn scripts_that_start_ray_by_role_are_known() {
    for (script, expected) in [
        (
            "/opt/ray_init.sh leader --ray_cluster_size=2; vllm serve m --tensor-parallel-size 2",
            "vllm m 0.9 default 2/1/1=1 yes",
        ),
        (
            "/opt/ray_init.sh worker --ray_address=$LEADER",
            "ray-worker - - unresolved 1/1/1=1 yes",
        ),
        (
            "bash /opt/init-ray.sh worker",
            "ray-worker - - unresolved 1/1/1=1 yes",
        ),
        (
            "ray symmetric-run --address $LEADER:6379 --min-nodes 2 -- vllm serve m -tp 2",
            "vllm m 0.9 default 2/1/1=1 yes",
        ),
        ("/opt/array.sh worker", "unknown - - unresolved 1/1/1=1 unknown"),
    ] {
        let object = json!({"template": pod_of(VLLM, script, 1)});
        let read = templates("example.org/v1 Fleet", object);
        assert_eq!(read, [format!("spec.template x1: {expected}")], "{script}");
    }
}

#[test]
fn an_engine_of_dynamo_spans_nodes() {
    let service = |command: Value, args: Value| {
        json!({"services": {"d": {"componentType": "worker", "replicas": 2, "multinode": {"nodeCount": 2},
            "resources": {"limits": {"gpu": "8"}},
            "extraPodSpec": {"mainContainer": {"image": "registry.example/runtime:1", "command": command, "args": args}}}}})
    };
    let exec = |module: &str| json!(["python3", "-m", module]);
    for (spec, expected) in [
        // Replicas of this node.
        (
            service(
                json!(["bash", "-c"]),
                json!([
                    "exec python3 -m dynamo.vllm \\\n --model m --data-parallel-size 16 --data-parallel-hybrid-lb"
                ]),
            ),
            "vllm m 0.92 default 1/1/16=8 yes",
        ),
        // Ranks of one group over both.
        (
            service(
                exec("dynamo.vllm"),
                json!(["--model=m", "--tensor-parallel-size", "16"]),
            ),
            "vllm m 0.92 default 16/1/1=8 yes",
        ),
        // The operator does not see a size behind an equals sign, and leaves all ranks to each pod.
        (
            service(
                exec("dynamo.vllm"),
                json!(["--model=m", "--tensor-parallel-size=16"]),
            ),
            "vllm m 0.92 default 16/1/1=16 unknown",
        ),
        (
            service(
                exec("dynamo.sglang"),
                json!(["--model-path", "m", "--tp", "16", "--mem-fraction-static=0.8"]),
            ),
            "sglang m 0.8 flag 16/1/1=8 yes",
        ),
    ] {
        let read = templates("nvidia.com/v1alpha1 DynamoGraphDeployment", spec);
        assert_eq!(read, [format!("spec.services.d x4: {expected}")]);
    }
    let container = json!({"name": "main", "image": "registry.example/runtime:1", "command": exec("dynamo.vllm"),
        "args": ["--model", "m", "--tensor-parallel-size", "16"], "resources": {"limits": {"nvidia.com/gpu": "8"}}});
    let spec = json!({"components": [{"name": "d", "replicas": 1, "multinode": {"nodeCount": 2},
        "podTemplate": {"spec": {"containers": [container]}}}]});
    assert_eq!(
        templates("nvidia.com/v1beta1 DynamoGraphDeployment", spec),
        ["spec.components[0].podTemplate x2: vllm m 0.92 default 16/1/1=8 yes"]
    );
}
