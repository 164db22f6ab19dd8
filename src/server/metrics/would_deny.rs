//! What a policy that does not enforce would have denied, by namespace and code.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::finding::Code;

/// Namespaces that are counted by their name; further ones are counted together, so that the series stay few.
const NAMED: usize = 200;
/// What the others are counted as. No namespace can be called so.
const OTHERS: &str = "(others)";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Labels {
    namespace: String,
    code: Code,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct WouldDeny {
    family: Family<Labels, Counter>,
    named: Arc<Mutex<BTreeSet<String>>>,
}

impl WouldDeny {
    pub(super) fn family(&self) -> Family<Labels, Counter> {
        self.family.clone()
    }

    /// Counts a review under each of its codes.
    pub(super) fn count(&self, namespace: &str, codes: &[Code]) {
        let namespace = self.label(namespace);
        for code in codes {
            let labels = Labels {
                namespace: namespace.clone(),
                code: *code,
            };
            self.family.get_or_create(&labels).inc();
        }
    }

    fn label(&self, namespace: &str) -> String {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.contains(namespace) {
            return namespace.to_owned();
        }
        if named.len() >= NAMED {
            return OTHERS.to_owned();
        }
        named.insert(namespace.to_owned());
        namespace.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_beyond_a_number_are_counted_together() {
        let counted = WouldDeny::default();
        for index in 0..NAMED + 50 {
            counted.count(&format!("team-{index}"), &[Code::Vg201, Code::Vg207]);
        }
        counted.count("team-0", &[Code::Vg201]);
        let of = |namespace: &str, code| {
            let labels = Labels {
                namespace: namespace.to_owned(),
                code,
            };
            counted.family.get_or_create(&labels).get()
        };
        assert_eq!((of("team-0", Code::Vg201), of("team-0", Code::Vg207)), (2, 1));
        assert_eq!((of(OTHERS, Code::Vg201), of("team-249", Code::Vg201)), (50, 0));
        assert_eq!(counted.named.lock().unwrap().len(), NAMED);
    }
}
