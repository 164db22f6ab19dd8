//! Pods by the text of their template: of the replicas of a workload the specification is decoded once.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use serde::Deserialize;

use crate::workload::pod::{Pod, PodSpec};
use crate::workload::text::Cut;

/// Specifications that are kept while a list is read; with more than that they begin anew.
const MOST_KEPT: usize = 1024;

/// A pod, and what tells its template where that is known: pods of the same number differ in nothing but their identity,
/// node and status. The hash has a key of its own in each process, so nobody can choose two templates that share one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(in crate::cluster) struct Seen {
    pub(in crate::cluster) pod: Pod,
    #[serde(skip)]
    pub(in crate::cluster) template: Option<u64>,
}

impl From<Pod> for Seen {
    fn from(pod: Pod) -> Self {
        Self { pod, template: None }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Templates {
    hash: RandomState,
    kept: HashMap<u64, PodSpec>,
}

impl Templates {
    /// Reads a pod; `None` where its text is not one that an API server writes, or does not decode.
    pub(super) fn read(&mut self, cut: &Cut<'_>) -> Option<Seen> {
        let (rest, text) = cut.specification()?;
        let mut pod: Pod = serde_json::from_str(&rest).ok()?;
        let mut hasher = self.hash.build_hasher();
        text.write_template(&mut hasher);
        let key = hasher.finish();
        pod.spec = if let Some(kept) = self.kept.get(&key) {
            let mut spec = kept.clone();
            spec.node_name = text.node().map(str::to_owned);
            spec
        } else {
            let spec: PodSpec = serde_json::from_str(text.text()).ok()?;
            if self.kept.len() >= MOST_KEPT {
                self.kept.clear();
            }
            self.kept.insert(key, spec.clone());
            spec
        };
        let metadata = &pod.metadata;
        (&metadata.namespace, &metadata.labels, &metadata.annotations).hash(&mut hasher);
        Some(Seen {
            pod,
            template: Some(hasher.finish()),
        })
    }

    /// Forgets the specifications: a list is complete, and what comes now comes one by one.
    pub(super) fn forget(&mut self) {
        self.kept = HashMap::new();
    }

    /// A hash of all that can be read of a pod. The narrow type has no fields that change without meaning something here.
    pub(super) fn fingerprint(&self, seen: &Seen, namespace: &BTreeMap<String, String>) -> u64 {
        let mut into = Into(self.hash.build_hasher());
        // Which policy is the pod's can hang on them.
        namespace.hash(&mut into.0);
        // Writing to a hasher does not fail.
        let _ = match seen.template {
            // The template stands for most of it.
            Some(template) => {
                let Pod {
                    metadata,
                    spec,
                    status,
                } = &seen.pod;
                let node = &spec.node_name;
                std::fmt::Write::write_fmt(
                    &mut into,
                    format_args!("{template} {node:?} {metadata:?} {status:?}"),
                )
            }
            None => std::fmt::Write::write_fmt(&mut into, format_args!("{:?}", seen.pod)),
        };
        into.0.finish()
    }
}

struct Into<H>(H);

impl<H: Hasher> std::fmt::Write for Into<H> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, node: &str, token: &str, image: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"a","uid":"{name}","labels":{{"app":"x"}},"managedFields":[{{"fieldsV1":{{}}}}]}},"spec":{{"volumes":[{{"name":"kube-api-access-{token}"}}],"containers":[{{"name":"c","image":"{image}"}}],"nodeName":"{node}"}},"status":{{"phase":"Running"}}}}"#
        )
    }

    #[test]
    fn what_is_read_by_template_is_what_is_read_by_itself() {
        let mut templates = Templates::default();
        let mut read = |name: &str, node: &str, token: &str, image: &str| {
            let text = text(name, node, token, image);
            let seen = templates.read(&Cut::of(&text)).unwrap();
            let mut alone: Pod = serde_json::from_str(&text).unwrap();
            // The name of the token's volume is that of the first pod, in volume and mounts alike.
            alone.spec.volumes.clone_from(&seen.pod.spec.volumes);
            assert_eq!(seen.pod, alone);
            seen.template
        };
        let first = read("p-1", "n-1", "abcde", "i:1");
        assert_eq!(read("p-2", "n-2", "fghij", "i:1"), first);
        assert_ne!(read("p-3", "n-1", "abcde", "i:2"), first);
    }

    #[test]
    fn another_order_and_broken_objects_are_not_read() {
        let mut templates = Templates::default();
        for other in [
            r#"{"spec":{},"metadata":{"name":"a"},"status":{}}"#,
            r#"{"metadata":{"managedFields":[{}]},"spec":{"containers":3},"status":{}}"#,
        ] {
            assert!(templates.read(&Cut::of(other)).is_none(), "{other}");
        }
    }

    #[test]
    fn a_fingerprint_tells_status_and_node() {
        let mut templates = Templates::default();
        let mut of = |text: &str| {
            let seen = templates.read(&Cut::of(text)).unwrap();
            templates.fingerprint(&seen, &BTreeMap::new())
        };
        let one = text("p-1", "n-1", "abcde", "i:1");
        assert_eq!(of(&one), of(&one));
        assert_ne!(of(&one), of(&one.replace("n-1", "n-2")));
        assert_ne!(of(&one), of(&one.replace("Running", "Failed")));
    }
}
