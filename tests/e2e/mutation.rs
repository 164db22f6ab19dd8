//! What the mutating call changes, as the API server stores it.

use serde_json::{Value, json};

use crate::api::eventually;
use crate::manifests::{self, GpuNode, Pod};
use crate::scenario::Scenario;

const LIMIT: &str = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
const THREADS: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

/// The value of a variable of the pod's first container, which has it once.
#[track_caller]
fn env<'v>(pod: &'v Value, name: &str) -> Option<&'v str> {
    let list = pod["spec"]["containers"][0]["env"].as_array()?;
    let found: Vec<&Value> = list.iter().filter(|variable| variable["name"] == name).collect();
    assert!(found.len() < 2, "{name} twice in {pod:#}");
    found.first()?["value"].as_str()
}

fn stored(s: &Scenario, name: &str) -> Value {
    let pod = s.list().into_iter().find(|pod| pod["metadata"]["name"] == name);
    pod.unwrap_or_else(|| panic!("{name} is not stored"))
}

#[test]
fn m01_the_stored_pod_has_its_limits() {
    let s = Scenario::new("m01");
    s.node(GpuNode::h100("m01-n1").mps(4));
    let tried = s.dry_run(&Pod::vllm("a", "0.20")).admitted("a dry run");
    assert_eq!(env(&tried.body, LIMIT), Some("0=16952M"));
    s.create(&Pod::vllm("a", "0.20")).admitted("a");
    let pod = stored(&s, "a");
    assert_eq!(
        (env(&pod, LIMIT), env(&pod, THREADS)),
        (Some("0=16952M"), Some("25"))
    );
    let record = pod["metadata"]["annotations"]["vramgate.io/mutated"]
        .as_str()
        .unwrap();
    assert!(record.contains("0=16952M"), "{record}");
    // The stored pod submitted once more comes out as it went in.
    let mut again = pod.clone();
    again["metadata"] = json!({"name": "again", "annotations": pod["metadata"]["annotations"]});
    again["spec"].as_object_mut().unwrap().remove("nodeName");
    let answer = s.api().post("/api/v1/namespaces/m01/pods?dryRun=All", &again);
    let answer = answer.admitted("the same once more");
    assert_eq!(answer.body["spec"]["containers"], pod["spec"]["containers"]);
    assert_eq!(
        answer.body["metadata"]["annotations"],
        pod["metadata"]["annotations"]
    );
    s.wait_running(1, 20);
}

#[test]
fn m01_another_mutation_is_followed_when_the_api_server_calls_again() {
    let s = Scenario::new("m01-again");
    s.node(GpuNode::h100("m01-again-n1").mps(4));
    let group = "/apis/admissionregistration.k8s.io/v1";
    let changes = "has(object.metadata.annotations) && 'vramgate.io/mutated' in object.metadata.annotations \
                   && object.spec.containers[0].args[2] == '0.20'";
    let patch = format!(
        "{changes} ? [JSONPatch{{op: 'replace', path: '/spec/containers/0/args/2', value: '0.10'}}] : []"
    );
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "e2e-lowers"},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "m01-again"}},
                "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            },
            "failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "e2e-lowers"}, "spec": {"policyName": "e2e-lowers"},
    });
    s.api()
        .post(&format!("{group}/mutatingadmissionpolicies"), &policy)
        .admitted("a policy of the API server");
    s.api()
        .post(&format!("{group}/mutatingadmissionpolicybindings"), &binding)
        .admitted("its binding");
    // The policy acts once the API server has read it: then our first values are those of 0.20, and our second those of
    // what it made.
    let body = eventually("the other mutation acts", 30, || {
        let body = s.dry_run(&Pod::vllm("a", "0.20")).body;
        (body["spec"]["containers"][0]["args"][2] == "0.10").then_some(body)
    });
    assert_eq!(env(&body, LIMIT), Some("0=8796M"), "{body:#}");
    s.create(&Pod::vllm("a", "0.20")).admitted("a");
    let pod = stored(&s, "a");
    assert_eq!(
        (env(&pod, LIMIT), env(&pod, THREADS)),
        (Some("0=8796M"), Some("25"))
    );
    let record = pod["metadata"]["annotations"]["vramgate.io/mutated"]
        .as_str()
        .unwrap();
    assert!(!record.contains("16952"), "{record}");
    for kind in ["mutatingadmissionpolicybindings", "mutatingadmissionpolicies"] {
        s.api().delete(&format!("{group}/{kind}/e2e-lowers"), 0);
    }
}

#[test]
fn m02_m03_what_no_client_may_have_is_refused() {
    let s = Scenario::new("m02");
    s.node(GpuNode::h100("m02-n1").mps(4));
    s.create(&Pod::vllm("large", "0.30")).denied(
        "more than a client may have",
        &["VG401", "24468", "20389", "0.242", "0.225"],
    );
    s.create(&Pod::vllm("two", "0.20").asks("nvidia.com/gpu", 2))
        .denied("two slots", &["VG402"]);
    s.create(&Pod::vllm("fits", "0.242"))
        .admitted("the largest that starts");
}

#[test]
fn m04_the_limit_is_that_of_each_process() {
    let s = Scenario::new("m04");
    s.node(GpuNode::h100("m04-n1").mps(4));
    let job = |name: &str| {
        Pod::with_image(name, "pytorch/pytorch:2.8.0").command(&[
            "python3",
            "-m",
            "torch.distributed.run",
            "--nproc_per_node=2",
            "train.py",
        ])
    };
    let answer = s.create(&job("a"));
    assert!(
        answer.warnings.iter().any(|text| text.contains("VG405")),
        "{:?}",
        answer.warnings
    );
    answer.admitted("a job of two processes");
    assert_eq!(env(&stored(&s, "a"), LIMIT), Some("0=9175M"));
    for name in ["b", "c", "d"] {
        s.create(&job(name)).admitted(name);
    }
    s.wait_running(4, 20);
}

#[test]
fn m05_what_keeps_clients_from_their_daemon_is_told() {
    let s = Scenario::new("m05");
    s.node(GpuNode::h100("m05-n1").mps(4));
    let told = |pod: &Pod, code: &str| {
        let answer = s.create(pod);
        assert!(
            answer.warnings.iter().any(|text| text.contains(code)),
            "{code}: {:?}",
            answer.warnings
        );
        answer.admitted(code);
    };
    told(&Pod::vllm("a", "0.20").own_shm().user(1000), "VG403");
    told(&Pod::vllm("b", "0.20").user(1001), "VG404");
}

#[test]
fn m06_what_the_user_wrote_stays() {
    let own = |name: &str| Pod::vllm(name, "0.20").env(LIMIT, "0=40000M").env(THREADS, "80");
    let s = Scenario::new("m06");
    s.node(GpuNode::h100("m06-n1").mps(4));
    let answer = s.create(&own("a"));
    let told = answer
        .warnings
        .iter()
        .filter(|text| text.contains("VG406"))
        .count();
    assert_eq!(told, 2, "{:?}", answer.warnings);
    answer.admitted("a");
    let pod = stored(&s, "a");
    assert_eq!(
        (env(&pod, LIMIT), env(&pod, THREADS)),
        (Some("0=40000M"), Some("80"))
    );
}

#[test]
fn m06_the_policy_may_replace_it() {
    let s = Scenario::new("m06-override");
    s.node(GpuNode::h100("m06-override-n1").mps(4));
    s.create(&Pod::vllm("a", "0.20").env(LIMIT, "0=40000M").env(THREADS, "80"))
        .admitted("a");
    let pod = stored(&s, "a");
    assert_eq!(
        (env(&pod, LIMIT), env(&pod, THREADS)),
        (Some("0=16952M"), Some("25"))
    );
}

#[test]
fn s06_with_its_fair_share_eight_replicas_run_on_two_nodes() {
    let s = Scenario::new("s06-fair");
    s.node(GpuNode::h100("s06-fair-n1").slots(4));
    let pod = Pod::with_image("chat", "vllm/vllm-openai:latest")
        .env("MODEL_NAME", "Qwen/Qwen2.5-7B-Instruct")
        .on(s.name);
    let deployment = manifests::deployment("chat", 8, &pod);
    s.create_workload(&deployment, "")
        .denied("eight on one node", &["VG201"])
        .says("the variable that nobody reads", "VG103");
    s.node(GpuNode::h100("s06-fair-n2").slots(4));
    s.create_workload(&deployment, "").admitted("eight on two nodes");
    s.wait_running(8, 30);
    for pod in s.list() {
        assert_eq!(
            pod["spec"]["containers"][0]["args"],
            json!(["--gpu-memory-utilization=0.225"])
        );
    }
    // The object is as its author wrote it.
    let kept = s.api().get(&s.deployment("chat")).body;
    assert_eq!(
        kept["spec"]["template"]["spec"]["containers"][0]["args"],
        Value::Null
    );
    s.wait_top("s06-fair-n1", "0.90");
}

#[test]
fn c03_a_default_fraction_is_kept_off_shared_nodes() {
    let s = Scenario::new("c03");
    for (name, slots) in [("c03-n1", 1), ("c03-n2", 4), ("c03-n3", 4)] {
        let node = GpuNode::h100(name);
        s.node(if slots > 1 { node.slots(slots) } else { node });
    }
    let whole = |name: &str| Pod::with_image(name, "vllm/vllm-openai:v0.20.0");
    s.create(&whole("a")).admitted("a").without_warning("a", "VG207");
    s.wait_running(1, 20);
    assert_eq!(stored(&s, "a")["spec"]["nodeName"], "c03-n1");
    // The second waits for a device of its own, while shared slots are free.
    s.create(&whole("b")).admitted("b");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(s.running(), 1);
    s.create(&Pod::vllm("c", "0.30")).admitted("c");
    s.wait_running(2, 20);
}
