//! Look-ups for a question about what configures GPUs.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Backend;
use crate::configuration::{ConfigMap, Configuration};
use crate::decision::ConfigurationQuestion;
use crate::engine::LookUp;

impl Backend {
    /// Looks up what a question about configuration needs: labels of a ConfigMap's namespace, the MIG manager's ConfigMaps
    /// of a node. What cannot be read in time is not judged by.
    pub(in crate::server) async fn complete(&self, question: &mut ConfigurationQuestion, time: Duration) {
        match &question.object {
            Configuration::ConfigMap(map) => {
                let look_up = self.look_ups.namespace_labels(&map.namespace);
                let mut labels = tokio::time::timeout(time, look_up).await.unwrap_or_default();
                labels.insert("kubernetes.io/metadata.name".to_owned(), map.namespace.clone());
                question.namespace_labels = labels;
            }
            Configuration::Node(node) => {
                let maps = self.decider.mig_config_maps(node);
                // They are of one namespace, the policy's.
                let wanted: BTreeSet<String> = maps.iter().map(|map| map.name.clone()).collect();
                let Some(namespace) = maps.first().map(|map| map.namespace.clone()) else {
                    return;
                };
                let look_up = self.look_ups.config_maps(&namespace, &wanted, true);
                let Ok(found) = tokio::time::timeout(time, look_up).await else {
                    return;
                };
                let read = wanted.into_iter().filter_map(|name| {
                    let LookUp::Found(data) = found.config_map(&namespace, &name) else {
                        return None;
                    };
                    let data = data.clone();
                    Some(ConfigMap {
                        namespace: namespace.clone(),
                        name,
                        data,
                        binary: BTreeSet::new(),
                    })
                });
                question.mig = read.collect();
            }
        }
    }
}
