//! Which pods are worth being decoded: those in whose text stands a word by which a pod can count at all.
//!
//! Of most clusters that is a small part, and looking for a few words costs a tenth of reading the fields they stand in.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use aho_corasick::packed::Searcher;

use super::access::{ENGINE_IMAGES, VARIABLE};
use crate::dra::IMPLICIT;
use crate::workload::slots::OWN_DOMAIN;
use crate::workload::text::Cut;

/// Beside the words of other rooms: NVIDIA's resources and annotations, the fields of claims and runtime classes, what may set a
/// variable or run an engine unasked, whatever [`super::access`] takes for device files or their directory, however its path is
/// written, and the words of other sharing systems.
const WORDS: [&str; 18] = [
    "nvidia.com/",
    "/nvidia",
    "/dev\"",
    "/dev/\"",
    "/dev//",
    "/dev/./",
    "/dev/.\"",
    "\"path\":\"dev\"",
    "\"path\":\"dev/",
    "\"privileged\":true",
    "\"envFrom\"",
    "\"resourceClaims\"",
    "\"runtimeClassName\"",
    "gpu-memory",
    "gpu-fraction",
    "hami.io/",
    "volcano.sh/",
    IMPLICIT,
];

/// The words as a machine with vector instructions looks for them, and as any other does.
enum Sieve {
    Packed(Searcher),
    Automaton(AhoCorasick),
}

static SIEVE: LazyLock<Option<Sieve>> = LazyLock::new(|| {
    let words = WORDS.iter().chain(&ENGINE_IMAGES);
    let words: Vec<&str> = words.chain([&OWN_DOMAIN, &VARIABLE]).copied().collect();
    let packed = Searcher::new(&words).map(Sieve::Packed);
    packed.or_else(|| AhoCorasick::new(&words).ok().map(Sieve::Automaton))
});

/// Whether a pod of this text may be one that counts ([`crate::workload::asks_for_gpu`], [`super::access::may_reach`],
/// `other_systems::speaks`). `true` of many that do not.
#[must_use]
pub fn may_count(text: &Cut<'_>) -> bool {
    let Some(sieve) = &*SIEVE else { return true };
    let names = |piece: &str| match sieve {
        Sieve::Packed(searcher) => searcher.find(piece).is_some(),
        Sieve::Automaton(automaton) => automaton.is_match(piece),
    };
    text.hides() || text.pieces().into_iter().any(names)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::demand::access::may_reach;
    use crate::demand::other_systems::{speaks, words};
    use crate::workload::asks_for_gpu;
    use crate::workload::pod::Pod;

    fn pod(metadata: &Value, container: &Value, rest: &Value) -> Value {
        let mut spec = json!({"nodeName": "n", "containers": [container]});
        for (field, value) in rest.as_object().unwrap() {
            spec[field] = value.clone();
        }
        json!({"metadata": metadata, "spec": spec})
    }

    fn counts(value: &Value) -> bool {
        let pod: Pod = serde_json::from_value(value.clone()).unwrap();
        asks_for_gpu(&pod) || may_reach(&pod, |_| true) || speaks(&pod)
    }

    #[test]
    fn whatever_counts_passes() {
        let none = json!({});
        let device = |path: &str| json!({"volumes": [{"name": "v", "hostPath": {"path": path}}]});
        let mounts = json!({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/x"}]});
        let resource = |name: &str| json!({"name": "c", "resources": {"limits": {name: "1"}}});
        let mut pods = vec![
            pod(&json!({"annotations": {"vramgate.io/model": "x"}}), &none, &none),
            pod(&none, &none, &json!({"resourceClaims": [{"name": "c"}]})),
            pod(&none, &none, &json!({"runtimeClassName": "nvidia"})),
            pod(
                &none,
                &json!({"env": [{"name": VARIABLE, "value": "all"}]}),
                &none,
            ),
            pod(
                &none,
                &json!({"image": "ollama/ollama:0.5", "securityContext": {"privileged": true}}),
                &none,
            ),
            pod(
                &none,
                &json!({"image": "ollama/ollama:0.5", "envFrom": [{"configMapRef": {"name": "c"}}]}),
                &none,
            ),
            pod(
                &none,
                &json!({"image": "a:1", "envFrom": [{"secretRef": {"name": "cuda"}}]}),
                &none,
            ),
        ];
        let mounted = |path: &str| {
            pod(
                &none,
                &json!({"volumeMounts": [{"name": "v", "mountPath": path}]}),
                &none,
            )
        };
        pods.extend(
            [
                "/var/run/nvidia-container-devices/0",
                "/var/./run//nvidia-container-devices/all",
                "var/run/nvidia-container-devices",
            ]
            .map(mounted),
        );
        pods.extend(
            [
                "/dev",
                "/dev/",
                "/dev//",
                "/dev///",
                "/dev/.",
                "/dev/./",
                "//dev/./.",
                "/./dev",
                "dev",
                "dev/",
                "dev/.",
                "./dev",
                "dev/nvidia0",
                "/dev//nvidia0",
                "//./dev/./nvidia0",
                "/dev/nvidia0",
                "/dev/nvidiactl/",
            ]
            .map(|path| pod(&none, &mounts, &device(path))),
        );
        pods.extend(
            ENGINE_IMAGES.map(|image| pod(&none, &json!({"image": format!("r.io/{image}x:1")}), &none)),
        );
        let resources = [
            "nvidia.com/gpu",
            "nvidia.com/gpu.shared",
            "nvidia.com/mig-1g.10gb",
            "vramgate.io/gpu-ppm",
        ];
        pods.extend(resources.map(|name| pod(&none, &resource(name), &none)));
        pods.push(pod(&none, &resource(&format!("{IMPLICIT}gpu.nvidia.com")), &none));
        for (name, is_resource) in words("c") {
            pods.push(if is_resource {
                pod(&none, &resource(&name), &none)
            } else {
                pod(&json!({"annotations": {name: "1"}}), &json!({"name": "c"}), &none)
            });
        }
        for pod in pods {
            let text = pod.to_string();
            assert!(counts(&pod), "the case is none: {text}");
            assert!(may_count(&Cut::of(&text)), "{text}");
        }
    }

    #[test]
    fn a_hidden_word_passes() {
        let text = r#"{"metadata":{},"spec":{"containers":[{"image":"\u0076llm"}]}}"#;
        let pod: Pod = serde_json::from_str(text).unwrap();
        assert!(may_reach(&pod, |_| false) && may_count(&Cut::of(text)));
    }

    #[test]
    fn an_everyday_pod_is_left_out() {
        let everyday = pod(
            &json!({"labels": {"app": "web"}}),
            &json!({"image": "web:1", "resources": {"limits": {"cpu": "1"}}, "terminationMessagePath": "/dev/termination-log",
                    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}),
            &json!({"volumes": [{"name": "logs", "hostPath": {"path": "/var/log"}}], "nodeName": "gpu-17"}),
        );
        assert!(!counts(&everyday) && !may_count(&Cut::of(&everyday.to_string())));
    }
}
