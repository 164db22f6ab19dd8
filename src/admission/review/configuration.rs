//! Reviews of ConfigMaps and Nodes.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{Asked, Object, Review};
use crate::configuration::Configuration;
use crate::decision::{ConfigurationQuestion, Operation};
use crate::workload::Malformed;

impl Review<'_> {
    /// A ConfigMap or a Node; whether it configures GPUs is for the decision to say.
    pub(super) fn configuration(&self, operation: Operation) -> Result<Asked, Malformed> {
        let (true, true, Some(Object::Text(object))) = (
            self.kind.group.is_empty(),
            self.sub_resource.is_empty(),
            &self.object,
        ) else {
            return Ok(Asked::NotOurs);
        };
        let read = |text: &RawValue| {
            let read = Configuration::from_json(&self.kind.kind, text.get())?;
            Ok::<_, Malformed>(read.map(|read| self.named(read)))
        };
        let Some(now) = read(object)? else {
            return Ok(Asked::NotOurs);
        };
        let old = match (operation, self.old_object) {
            (Operation::Update, Some(old)) => read(old)?,
            (Operation::Update, None) | (Operation::Create, _) => None,
        };
        Ok(Asked::Configuration(Box::new(ConfigurationQuestion {
            operation,
            object: now,
            old,
            namespace_labels: BTreeMap::new(),
            mig: Vec::new(),
        })))
    }

    /// The request is right about namespace and name even where the object leaves them out.
    fn named(&self, mut read: Configuration) -> Configuration {
        match &mut read {
            Configuration::ConfigMap(map) => {
                if !self.namespace.is_empty() {
                    map.namespace = self.namespace.to_string();
                }
                if map.name.is_empty() {
                    map.name = self.name.to_string();
                }
            }
            Configuration::Node(node) => {
                if node.name.is_empty() {
                    node.name = self.name.to_string();
                }
            }
        }
        read
    }
}
