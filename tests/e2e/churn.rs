//! Pods and nodes that come and go quickly: what is admitted always has a place, and a place that is free is found.

use std::time::Duration;

use serde_json::json;

use crate::api::eventually;
use crate::cluster::progress;
use crate::manifests::{self, GpuNode, Pod};
use crate::scenario::Scenario;

#[test]
fn churn_a_controller_scaled_up_in_a_moment_stays_within_the_budget() {
    let s = Scenario::new("churn-scale");
    let node = "churn-scale-n1";
    s.node(GpuNode::h100(node).slots(20));
    // Four of 0.22 fit.
    for round in 0..4 {
        let name = format!("chat{round}");
        let set = if round % 2 == 0 {
            manifests::replica_set(&name, 1, &Pod::vllm(&name, "0.22").on(s.name))
        } else {
            manifests::stateful_set(&name, 1, &Pod::vllm(&name, "0.22").on(s.name))
        };
        let object = format!("{}/{name}", set["kind"].as_str().unwrap().to_lowercase());
        s.create_workload(&set, "").admitted("one replica");
        for replicas in [2, 3, 12] {
            s.kubectl(&["scale", &object, &format!("--replicas={replicas}")], None);
        }
        s.wait_running(4, 20);
        for replicas in [1, 12, 2, 12] {
            s.kubectl(&["scale", &object, &format!("--replicas={replicas}")], None);
            std::thread::sleep(Duration::from_millis(150));
            let all = s.list().len();
            assert!(all <= 4, "{all} pods of 0.22 in round {round}");
        }
        s.kubectl(&["delete", &object, "--cascade=background"], None);
        s.clear(node);
    }
}

#[test]
fn churn_a_job_with_parallelism_fills_what_is_there_and_gives_it_back() {
    let s = Scenario::new("churn-job");
    let node = "churn-job-n1";
    s.node(GpuNode::h100(node).slots(20));
    let mut job = manifests::job("batch", &Pod::vllm("batch", "0.30").on(s.name));
    job["spec"]["parallelism"] = json!(3);
    job["spec"]["completions"] = json!(3);
    s.create_workload(&job, "").admitted("three at once");
    s.wait_running(3, 20);
    s.create(&Pod::vllm("more", "0.30"))
        .denied("a fourth", &["VG201"]);
    // They finish: what has ended holds nothing, though its object stays.
    for pod in s.list() {
        s.finish(pod["metadata"]["name"].as_str().unwrap());
    }
    for name in ["more", "again", "once-more"] {
        s.create_eventually(&Pod::vllm(name, "0.30"), 10);
    }
    assert_eq!(s.list().len(), 6);
}

#[test]
fn churn_a_pod_is_replaced_under_its_name_at_once() {
    let s = Scenario::new("churn-name");
    s.node(GpuNode::h100("churn-name-n1").slots(10));
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    for round in 0..30 {
        let name = ["a", "b", "c"][round % 3];
        s.delete(name, 0);
        s.create(&Pod::vllm(name, "0.30"))
            .admitted(&format!("{name} again in round {round}"));
        let fourth = s.create(&Pod::vllm("d", "0.30"));
        if !fourth.is_success() {
            fourth.denied("a fourth", &["VG201"]);
            continue;
        }
        // kwok ends pods by name, and at times takes the new pod for the one that it was told of. Then a place was free;
        // beside three pods there is none.
        let pods = s.list();
        assert!(
            pods.len() <= 3,
            "a fourth was admitted beside three in round {round}"
        );
        s.delete("d", 0);
        for name in ["a", "b", "c"] {
            if !pods.iter().any(|pod| pod["metadata"]["name"] == name) {
                s.create_eventually(&Pod::vllm(name, "0.30"), 10);
            }
        }
    }
    // The name is taken: the API server's own answer, and nothing is lost by asking.
    let answer = s.create(&Pod::vllm("a", "0.30"));
    assert_eq!(answer.status, 409, "{}", answer.text());
    s.wait_running(3, 20);
}

#[test]
fn churn_a_storm_of_generated_names_and_sizes() {
    let s = Scenario::new("churn-storm");
    let nodes = ["churn-storm-n1", "churn-storm-n2", "churn-storm-n3"];
    for node in nodes {
        s.node(GpuNode::h100(node).slots(20));
    }
    for round in 0..3 {
        let sizes: Vec<u64> = (0..36)
            .map(|number| [450, 300, 220, 150, 100, 90][number % 6])
            .collect();
        let pods: Vec<_> = sizes
            .iter()
            .map(|size| {
                let mut pod = s.placed(&Pod::vllm("", &format!("0.{size:03}")));
                pod["metadata"] = json!({"generateName": "storm-", "labels": {"size": size.to_string()}});
                pod
            })
            .collect();
        let answers = s
            .api()
            .post_at_once(&format!("/api/v1/namespaces/{}/pods", s.name), &pods);
        let mut admitted: Vec<u64> = answers
            .iter()
            .zip(&sizes)
            .filter(|(answer, _)| answer.as_ref().is_ok_and(crate::api::Answer::is_success))
            .map(|(_, size)| *size)
            .collect();
        admitted.sort_unstable_by(|a, b| b.cmp(a));
        let sum: u64 = admitted.iter().sum();
        progress(&format!(
            "churn-storm: {} of 36 admitted, {sum} of 2700",
            admitted.len()
        ));
        assert!(fits(&admitted, &mut [900; 3]), "no placement holds {admitted:?}");
        assert!(sum > 2_500, "room is left for small ones: {admitted:?}");
        assert_eq!(s.list().len(), admitted.len());
        // A placement of all exists; the scheduler takes one after the other and may not find it. Then the last ones wait, and
        // no device is above its budget.
        let waiting = eventually("each pod runs, or waits for room", 60, || {
            let waits = |pod: &&serde_json::Value| {
                let conditions = pod["status"]["conditions"].as_array();
                conditions.is_some_and(|all| all.iter().any(|one| one["reason"] == "Unschedulable"))
            };
            let waiting = s.list().iter().filter(waits).count();
            (s.running() + waiting == admitted.len()).then_some(waiting)
        });
        progress(&format!("churn-storm: {waiting} wait"));
        assert!(waiting <= 3, "{waiting} of {} wait", admitted.len());
        // Where they went is told as it is.
        for node in nodes {
            let here: u64 = s
                .list()
                .iter()
                .filter(|pod| pod["spec"]["nodeName"] == node)
                .map(|pod| {
                    pod["metadata"]["labels"]["size"]
                        .as_str()
                        .unwrap()
                        .parse::<u64>()
                        .unwrap()
                })
                .sum();
            assert!(here <= 900, "{here} on {node}");
            if waiting > 0 {
                // Those that wait are shown where they would have to stand.
                continue;
            }
            s.wait_top(node, &format!("{}.{:03}", here / 1000, here % 1000));
        }
        s.api().delete(&format!("/api/v1/namespaces/{}/pods", s.name), 0);
        for node in nodes {
            s.clear(node);
        }
        progress(&format!("churn-storm: round {round} done"));
    }
}

/// Whether sizes, largest first, can stand on devices with so much room.
fn fits(sizes: &[u64], rooms: &mut [u64; 3]) -> bool {
    let Some((first, rest)) = sizes.split_first() else {
        return true;
    };
    for index in 0..rooms.len() {
        if rooms[index] >= *first && !rooms[..index].contains(&rooms[index]) {
            rooms[index] -= first;
            if fits(rest, rooms) {
                return true;
            }
            rooms[index] += first;
        }
    }
    false
}

#[test]
fn churn_pods_that_wait_are_counted_when_their_node_returns() {
    let s = Scenario::new("churn-node");
    let node = GpuNode::h100("churn-node-n1").slots(8).cordoned();
    s.node(node.clone());
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    for _ in 0..3 {
        s.api().delete("/api/v1/nodes/churn-node-n1", 0);
        s.node_again(&node);
        s.create(&Pod::vllm("d", "0.30"))
            .denied("a fourth beside three that wait", &["VG201"]);
    }
    s.kubectl(&["uncordon", "churn-node-n1"], None);
    s.wait_running(3, 30);
    s.wait_top("churn-node-n1", "0.90");
}

#[test]
fn churn_a_node_changes_what_it_offers() {
    let s = Scenario::new("churn-label");
    let node = "churn-label-n1";
    s.node(GpuNode::h100(node).slots(4));
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.22").on_node(node)).admitted(name);
    }
    s.wait_running(3, 20);
    let say = |what: &str, pod: &Pod, code: Option<&str>| {
        eventually(what, 10, || {
            let answer = s.dry_run(&pod.clone().on_node(node));
            match code {
                None => answer.is_success().then_some(()),
                Some(code) => answer.text().contains(code).then_some(()),
            }
        });
    };
    let [small, large] = [Pod::vllm("small", "0.22"), Pod::vllm("large", "0.30")];
    say("0.88 of 0.90", &small, None);
    say("0.96 of 0.90", &large, Some("VG201"));
    // Eight slots instead of four: the memory is the same.
    s.offer(node, 8, &["nvidia.com/gpu.replicas=8"]);
    say("still 0.88 of 0.90", &small, None);
    say("still 0.96 of 0.90", &large, Some("VG201"));
    // A device fails, and its slots with it: a pod waits until it comes back, one that never fits is refused as before.
    s.allocatable(node, 0);
    say("0.96 of 0.90 without a slot", &large, Some("VG201"));
    say("a pod that waits for a slot", &small, None);
    s.allocatable(node, 8);
    say("a slot again", &small, None);
    // The label of the memory goes: the catalogue knows the product.
    s.kubectl(&["label", "node", node, "nvidia.com/gpu.memory-"], None);
    say("0.96 of 0.90 by the catalogue", &large, Some("VG201"));
    // Shared no more: the device is taken, and the pod waits.
    s.offer(
        node,
        1,
        &[
            "nvidia.com/gpu.replicas=1",
            "nvidia.com/gpu.sharing-strategy=none",
            "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3",
        ],
    );
    say("a whole device", &large, None);
    s.offer(
        node,
        4,
        &[
            "nvidia.com/gpu.replicas=4",
            "nvidia.com/gpu.sharing-strategy=time-slicing",
            "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3-SHARED",
        ],
    );
    say("0.96 of 0.90 as in the beginning", &large, Some("VG201"));
    say("0.88 of 0.90 as in the beginning", &small, None);
}

#[test]
fn s11_an_image_changed_in_place_is_judged_when_it_takes_more() {
    let s = Scenario::new("s11");
    s.node(GpuNode::h100("s11-n1").slots(4));
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    s.wait_running(3, 20);
    let image = |name: &str, tag: &str| {
        s.kubectl(
            &[
                "set",
                "image",
                &format!("pod/{name}"),
                &format!("vllm=vllm/vllm-openai:{tag}"),
            ],
            None,
        )
    };
    // The overhead of an old release does not fit beside two others.
    let text = image("a", "v0.6.6");
    assert!(
        text.contains("VG201") && text.contains("denied the request"),
        "{text}"
    );
    assert!(image("a", "v0.20.1").contains("image updated"), "the same amount");
    s.delete("b", 0);
    s.wait_gone("b", 10);
    eventually("the change fits now", 10, || {
        image("a", "v0.6.6").contains("image updated").then_some(())
    });
    s.create(&Pod::vllm("b", "0.30"))
        .denied("beside an old release", &["VG201"]);
    assert!(
        image("a", "v0.20.0").contains("image updated"),
        "less is never refused"
    );
    // An ephemeral container without a GPU changes nothing.
    let ephemeral = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox:1.37",
        "targetContainerName": "vllm"}]}});
    let text = s.kubectl(
        &[
            "patch",
            "pod",
            "c",
            "--subresource=ephemeralcontainers",
            "-p",
            &ephemeral.to_string(),
        ],
        None,
    );
    assert!(text.contains("patched"), "{text}");
}

#[test]
fn churn_status_updates_do_not_disturb() {
    let s = Scenario::new("churn-status");
    let node = "churn-status-n1";
    s.node(GpuNode::h100(node).slots(10));
    for name in ["a", "b"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    s.wait_running(2, 20);
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            scope.spawn(|| s.touch(name, 100));
        }
        for round in 0..20 {
            let answers = s.create_at_once(&[Pod::vllm("c", "0.30"), Pod::vllm("d", "0.30")]);
            let admitted = answers
                .iter()
                .flatten()
                .filter(|answer| answer.is_success())
                .count();
            assert_eq!(admitted, 1, "round {round}");
            s.api()
                .delete(&format!("/api/v1/namespaces/{}/pods/c", s.name), 0);
            s.api()
                .delete(&format!("/api/v1/namespaces/{}/pods/d", s.name), 0);
            eventually("the third place is free again", 10, || {
                s.dry_run(&Pod::vllm("probe", "0.30")).is_success().then_some(())
            });
        }
    });
}

#[test]
fn churn_a_rollout_on_a_full_device_goes_on_within_the_budget() {
    let s = Scenario::new("churn-roll");
    let node = "churn-roll-n1";
    s.node(GpuNode::h100(node).slots(10));
    let pod = Pod::vllm("chat", "0.30").on(s.name);
    s.create_workload(&manifests::deployment("chat", 3, &pod), "")
        .admitted("three of 0.30");
    s.wait_running(3, 20);
    // The second change comes while the first is on its way, then it is taken back.
    for tag in ["v0.20.1", "v0.20.2", "v0.20.0"] {
        s.kubectl(
            &[
                "set",
                "image",
                "deployment/chat",
                &format!("vllm=vllm/vllm-openai:{tag}"),
            ],
            None,
        );
        std::thread::sleep(Duration::from_millis(400));
    }
    eventually("the rollout ends", 60, || {
        let all = s.list();
        assert!(all.len() <= 3, "{} pods of 0.30", all.len());
        let new = all.iter().filter(|pod| {
            pod["spec"]["containers"][0]["image"] == "vllm/vllm-openai:v0.20.0"
                && pod["status"]["phase"] == "Running"
        });
        (new.count() == 3).then_some(())
    });
    let status = s.kubectl(&["rollout", "status", "deployment/chat", "--timeout=20s"], None);
    assert!(status.contains("successfully rolled out"), "{status}");
    s.wait_top(node, "0.90");
}
