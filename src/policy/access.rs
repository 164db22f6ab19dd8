//! What a policy says of containers that reach GPUs without asking for one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AccessRule, Selector};
use crate::engine::image;

/// `spec.access`, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPolicy {
    /// A visible-devices variable without a request (VG501).
    pub visible_devices: AccessRule,
    /// A privileged container (VG502).
    pub privileged: AccessRule,
    /// A path of a GPU device (VG502).
    pub device_paths: AccessRule,
    /// Runtime classes that show every device (VG503).
    pub runtime_classes: Vec<String>,
    /// Who may do so, and is not counted.
    pub exempt: Exempt,
}

/// Launchers and agents that reach GPUs and are neither told nor counted: whoever writes them here vouches for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exempt {
    /// Patterns of image references; `*` stands for any text.
    pub images: Vec<String>,
    /// Labels of pods.
    pub pods: Option<Selector>,
}

impl Exempt {
    /// Whether a container of this image, in a pod of these labels, is exempt.
    #[must_use]
    pub fn covers(&self, image: &str, pod_labels: &BTreeMap<String, String>) -> bool {
        self.images.iter().any(|pattern| image::matches(pattern, image))
            || self.pods.as_ref().is_some_and(|pods| pods.matches(pod_labels))
    }
}

/// Who may share a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tenancy {
    /// Everybody.
    #[default]
    Any,
    /// Pods of one namespace.
    SameNamespace,
    /// Pods of the namespaces of one set. A namespace that stands in none is a tenant of its own; none stands in two.
    Sets(Vec<Vec<String>>),
}

impl Tenancy {
    /// The tenant that a namespace belongs to: the first namespace of its set, or itself. Absent where everybody may
    /// share with everybody.
    #[must_use]
    pub fn tenant(&self, namespace: &str) -> Option<Arc<str>> {
        match self {
            Self::Any => None,
            Self::SameNamespace => Some(Arc::from(namespace)),
            Self::Sets(sets) => {
                let set = sets.iter().find(|set| set.iter().any(|name| name == namespace));
                let first = set.and_then(|set| set.first());
                Some(Arc::from(first.map_or(namespace, String::as_str)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_outside_every_set_is_a_tenant_of_its_own() {
        let sets = Tenancy::Sets(vec![vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]]);
        let tenant = |namespace: &str| sets.tenant(namespace).unwrap();
        assert_eq!(tenant("a"), tenant("b"));
        assert_ne!(tenant("a"), tenant("c"));
        assert_eq!(&*tenant("d"), "d");
        assert_eq!(Tenancy::Any.tenant("a"), None);
        assert_eq!(Tenancy::SameNamespace.tenant("a").as_deref(), Some("a"));
    }

    #[test]
    fn launchers_are_exempt_by_image_or_label() {
        let exempt = Exempt {
            images: vec!["*/launcher".to_owned()],
            pods: Some(Selector {
                labels: BTreeMap::from([("role".to_owned(), "launcher".to_owned())]),
                expressions: Vec::new(),
            }),
        };
        let none = BTreeMap::new();
        assert!(exempt.covers("registry.example/launcher:1", &none));
        assert!(!exempt.covers("registry.example/server:1", &none));
        let labels = BTreeMap::from([("role".to_owned(), "launcher".to_owned())]);
        assert!(exempt.covers("registry.example/server:1", &labels));
        assert!(!Exempt::default().covers("registry.example/server:1", &labels));
    }
}
