//! Which version of each node's record the facts hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::Version;

/// The newest version of each record that was folded, by its own write, a read or the watch. A watch tells of a version
/// after the answer to the write that made it, and may still be telling of older ones: none of them takes back what is
/// known. Asked under the lock of the facts, so that versions are folded in their order. Clones are one.
///
/// Versions of one resource are compared as the numbers that they are; the API server promises that for every resource
/// that it stores: <https://www.kubernetes.dev/resources/keps/5504/> (stable since 1.35, true long before).
#[derive(Clone, Debug, Default)]
pub struct Folded(Arc<Mutex<BTreeMap<Box<str>, Newest>>>);

#[derive(Clone, Debug)]
struct Newest {
    order: u64,
    /// Nothing where the object is gone. Its last version stays, so that an older one does not bring it back.
    version: Option<Version>,
}

/// The number of a version. One that is none is older than every number, so that it never hides a later one.
fn order(version: &Version) -> u64 {
    version.0.parse().unwrap_or(0)
}

impl Folded {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Newest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this version of a node's record is newer than what was folded; it is to be folded then, under the same
    /// lock.
    #[must_use]
    pub fn advance(&self, node: &str, version: &Version) -> bool {
        self.put(node, order(version), Some(version.clone()))
    }

    /// The same of an object that was deleted, whose last version this was.
    #[must_use]
    pub fn end(&self, node: &str, version: &Version) -> bool {
        self.put(node, order(version), None)
    }

    fn put(&self, node: &str, order: u64, version: Option<Version>) -> bool {
        let mut newest = self.lock();
        match newest.get_mut(node) {
            Some(known) if known.order > order || known.order == order && version.is_some() => false,
            Some(known) => {
                *known = Newest { order, version };
                true
            }
            None => {
                newest.insert(node.into(), Newest { order, version });
                true
            }
        }
    }

    /// The version of a node's record that the facts hold; nothing where it has none.
    #[must_use]
    pub fn version(&self, node: &str) -> Option<Version> {
        self.lock().get(node)?.version.clone()
    }

    /// The versions before a list begins.
    pub(in crate::cluster) fn snapshot(&self) -> BTreeMap<Box<str>, u64> {
        let newest = self.lock();
        let there = newest.iter().filter(|(_, newest)| newest.version.is_some());
        there.map(|(node, newest)| (node.clone(), newest.order)).collect()
    }

    /// A list that began at `order` does not hold the object: gone, unless it was written meanwhile.
    #[must_use]
    pub(in crate::cluster) fn not_listed(&self, node: &str, order: u64) -> bool {
        self.put(node, order, None)
    }

    /// Forgets objects that are gone, so that the names of nodes that come and go do not pile up. An older event that a
    /// repeated watch still tells brings one back until the same watch tells of its end.
    pub(in crate::cluster) fn forget_gone(&self) {
        self.lock().retain(|_, newest| newest.version.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u32) -> Version {
        Version(number.to_string())
    }

    #[test]
    fn an_older_version_never_takes_back_a_newer_one() {
        let folded = Folded::default();
        assert!(folded.advance("a", &version(9)));
        // As text, 10 is before 9.
        assert!(folded.advance("a", &version(10)));
        assert!(!folded.advance("a", &version(9)) && !folded.advance("a", &version(10)));
        assert_eq!(folded.version("a"), Some(version(10)));
        assert!(folded.advance("b", &version(3)));
    }

    #[test]
    fn what_is_gone_is_not_brought_back_by_an_older_event() {
        let folded = Folded::default();
        assert!(folded.advance("a", &version(5)));
        assert!(!folded.end("a", &version(4)));
        assert!(folded.end("a", &version(7)));
        assert_eq!(folded.version("a"), None);
        assert!(!folded.advance("a", &version(6)));
        assert!(folded.advance("a", &version(8)), "made again");
    }

    #[test]
    fn a_list_does_not_remove_what_was_written_while_it_was_read() {
        let folded = Folded::default();
        assert!(folded.advance("kept", &version(1)) && folded.advance("gone", &version(2)));
        let before = folded.snapshot();
        assert!(folded.advance("kept", &version(3)) && folded.advance("new", &version(4)));
        assert!(!folded.not_listed("kept", before["kept"]));
        assert!(folded.not_listed("gone", before["gone"]));
        assert!(!before.contains_key("new"));
        folded.forget_gone();
        assert_eq!(folded.snapshot().len(), 2);
    }

    #[test]
    fn a_version_that_is_no_number_hides_none() {
        let folded = Folded::default();
        assert!(folded.advance("a", &Version("rubbish".to_owned())));
        assert!(folded.advance("a", &version(1)));
    }
}
