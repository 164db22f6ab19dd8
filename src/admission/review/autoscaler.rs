//! Reviews of objects that scale others.

use serde_json::value::RawValue;

use super::{Asked, Object, Review};
use crate::decision::{AutoscalerQuestion, Operation};
use crate::workload::{Autoscaler, Malformed};

impl Review<'_> {
    /// Whether the object is an autoscaler.
    #[must_use]
    pub fn is_autoscaler(&self) -> bool {
        Autoscaler::is_kind(&self.kind.group, &self.kind.kind)
    }

    pub(super) fn autoscaler(&self, operation: Operation) -> Result<Asked, Malformed> {
        let (true, Some(Object::Text(object))) = (self.sub_resource.is_empty(), &self.object) else {
            return Ok(Asked::NotOurs);
        };
        let reference = self.object_ref();
        let read = |text: &RawValue| {
            let read = Autoscaler::from_json(text.get(), &reference.api_version, &reference.kind)?;
            Ok::<_, Malformed>(read.map(|mut read| {
                // The request is right about these even where the object leaves them out.
                if !self.namespace.is_empty() {
                    read.object.namespace = self.namespace.to_string();
                }
                if read.object.name.is_empty() {
                    read.object.name = self.name.to_string();
                }
                read
            }))
        };
        let Some(autoscaler) = read(object)? else {
            return Ok(Asked::NotOurs);
        };
        let old = match (operation, self.old_object) {
            // What it was is of use only where it can be read.
            (Operation::Update, Some(old)) => read(old).ok().flatten(),
            (Operation::Update, None) | (Operation::Create, _) => None,
        };
        let question = AutoscalerQuestion { autoscaler, old };
        Ok(if question.is_open() {
            Asked::Autoscaler(Box::new(question))
        } else {
            Asked::NotOurs
        })
    }
}
