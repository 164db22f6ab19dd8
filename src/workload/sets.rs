//! Objects of other schemas: several templates of one object, and where the fields of their pods stand.

use std::sync::Arc;

use serde_json::Value;

use super::controller::{Malformed, ReplicaPlan, Workload, WorkloadKind, controller_of};
use super::custom::CustomKind;
use super::pod::{Metadata, Pod};
use super::template::{self, Bases, Layout, Template};
use crate::finding::FieldPath;

/// Templates of one object that are judged; each costs a look at the nodes.
const MOST: usize = 64;

/// A further template of an object, and how many pods it makes.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSet {
    /// The template with the workload's namespace filled in.
    pub pod: Pod,
    /// Where it stands in the object.
    pub template: FieldPath,
    /// How many pods.
    pub replicas: ReplicaPlan,
    /// How it lies in the object.
    pub layout: Option<Arc<Layout>>,
}

impl From<Template> for PodSet {
    fn from(template: Template) -> Self {
        let surge = template.layout.surge.as_ref();
        Self {
            replicas: ReplicaPlan {
                desired: template.desired,
                surge: surge.map_or(0, |surge| surge.pods),
                unavailable: surge.map_or(0, |surge| surge.unavailable.min(template.desired)),
                overlap: 0,
                kept: 0,
                max: template.max,
                per_node: false,
            },
            pod: template.pod,
            template: template.path,
            layout: Some(Arc::new(template.layout)),
        }
    }
}

impl Workload {
    /// An object of another schema: each of its templates, or no pod at all where it has none.
    pub(super) fn of_custom(
        kind: &'static CustomKind,
        object: &Value,
        bases: &Bases,
    ) -> Result<Self, Malformed> {
        let metadata = match object.get("metadata").filter(|metadata| !metadata.is_null()) {
            Some(metadata) => serde_path_to_error::deserialize(metadata).map_err(|error| {
                let error = Malformed::from(error);
                let path = if error.path == "object" { "" } else { &error.path };
                Malformed {
                    path: FieldPath::new("metadata").field(path).to_string(),
                    ..error
                }
            })?,
            None => Metadata::default(),
        };
        let (mut reference, templates) = template::templates_on(object, bases)?;
        if templates.len() > MOST {
            return Err(Malformed {
                path: "spec".to_owned(),
                message: format!(
                    "holds {} pod templates; of one object at most {MOST} are judged together",
                    templates.len()
                ),
            });
        }
        if reference.name.is_empty() {
            reference.name.clone_from(&metadata.generate_name);
        }
        let mut sets = templates.into_iter().map(PodSet::from);
        let first = sets.next().unwrap_or_else(|| PodSet {
            pod: Pod::default(),
            template: FieldPath::new("spec"),
            replicas: ReplicaPlan {
                desired: 0,
                surge: 0,
                unavailable: 0,
                overlap: 0,
                kept: 0,
                max: None,
                per_node: false,
            },
            layout: None,
        });
        Ok(Self {
            object: reference,
            kind: WorkloadKind::Custom(kind),
            pod: first.pod,
            template: first.template,
            replicas: first.replicas,
            layout: first.layout,
            others: sets.collect(),
            controller: controller_of(&metadata).cloned(),
            deleting: metadata.deletion_timestamp.is_some(),
            uid: metadata.uid,
        })
    }

    /// The pods of its templates.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        std::iter::once(&self.pod).chain(self.others.iter().map(|set| &set.pod))
    }

    /// Each template as a workload of its own, with the same object.
    #[must_use]
    pub fn split(&self) -> Vec<Self> {
        let mut first = self.clone();
        let others = std::mem::take(&mut first.others);
        let further = others.into_iter().map(|set| Self {
            pod: set.pod,
            template: set.template,
            replicas: set.replicas,
            layout: set.layout,
            object: self.object.clone(),
            uid: self.uid.clone(),
            kind: self.kind,
            others: Vec::new(),
            controller: self.controller.clone(),
            deleting: self.deleting,
        });
        let further: Vec<Self> = further.collect();
        std::iter::once(first).chain(further).collect()
    }

    /// Puts its templates into a namespace.
    pub fn set_namespace(&mut self, namespace: &str) {
        namespace.clone_into(&mut self.object.namespace);
        namespace.clone_into(&mut self.pod.metadata.namespace);
        for set in &mut self.others {
            namespace.clone_into(&mut set.pod.metadata.namespace);
        }
    }

    /// Where a field of the pod stands in the object.
    #[must_use]
    pub fn located(&self, field: &FieldPath) -> FieldPath {
        match &self.layout {
            Some(layout) => layout.origin(field).path,
            None => self.template.field(field.as_str()),
        }
    }

    /// The JSON pointer in the object for one in the pod; `None` where the field stands in another object.
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<String> {
        match &self.layout {
            Some(layout) => layout.pointer(pointer),
            None => Some(format!("{}{pointer}", self.template.to_pointer())),
        }
    }

    /// Who adds to its pods what the object does not say; `None` where it says all.
    #[must_use]
    pub fn open(&self) -> Option<&str> {
        self.layout.as_deref().and_then(Layout::open)
    }
}
