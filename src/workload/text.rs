//! The text of objects as an API server writes them, taken apart without being parsed.
//!
//! A list of a large cluster is a gigabyte of JSON, of which managed fields are a third and pods without a GPU two thirds.
//! Both are found by what stands between them. That is sound in any JSON: a quotation mark within a string always has a
//! backslash before it, so a sequence such as `},{"metadata":{` is never part of a string. Where an object stands in
//! another order than the API server's own, nothing is cut, and a cut in a wrong place leaves text that does not parse; the
//! caller then reads the whole. Escapes other than those of every day are told, since a word can hide behind one.

use memchr::memmem;

const ITEMS: &str = r#""items":["#;
const ITEM: &str = r#"{"metadata":{"#;
const BETWEEN: &str = r#"},{"metadata":{"#;
const MANAGED: &str = r#""managedFields":["#;
const SPEC: &str = r#""spec":{"#;
const STATUS: &str = r#","status":{"#;
const NODE: &str = r#""nodeName":""#;
/// What the API server names the volume of a pod's own token; five letters follow that are new in each pod.
const TOKEN: &str = r#""kube-api-access-"#;
const TOKEN_LETTERS: usize = 5;

/// A list: its own fields as an object of its own, and the text of each item.
#[must_use]
pub fn list(text: &str) -> Option<(String, impl Iterator<Item = &str>)> {
    let text = text.trim_ascii_end();
    let at = memmem::find(text.as_bytes(), ITEMS.as_bytes())? + ITEMS.len();
    let (head, rest) = text.split_at_checked(at)?;
    let items = rest.strip_suffix("]}")?;
    if !(items.is_empty() || items.starts_with(ITEM) && items.ends_with('}')) {
        return None;
    }
    let mut rest = (!items.is_empty()).then_some(items);
    let finder = memmem::Finder::new(BETWEEN);
    let items = std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = finder.find(text.as_bytes()) else {
            return rest.take();
        };
        let (item, others) = text.split_at_checked(end + 1)?;
        rest = others.strip_prefix(',');
        Some(item)
    });
    Some((format!("{head}]}}"), items))
}

/// The text of one object, without its managed fields where they stand at the end of its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut<'t> {
    /// All before the first of its managed fields.
    head: &'t str,
    /// All after the last of them.
    tail: &'t str,
}

impl<'t> Cut<'t> {
    /// Cuts an object.
    #[must_use]
    pub fn of(text: &'t str) -> Self {
        Self::managed(text).unwrap_or(Self { head: text, tail: "" })
    }

    fn managed(text: &'t str) -> Option<Self> {
        let from = memmem::find(text.as_bytes(), MANAGED.as_bytes())? + MANAGED.len();
        let (head, rest) = text.split_at_checked(from)?;
        // The names of fields below have a prefix (`f:spec`), so this is the object's own.
        let spec = memmem::find(rest.as_bytes(), SPEC.as_bytes())?;
        let end = rest.get(..spec)?.strip_suffix("]},")?.len();
        let (managed, tail) = rest.split_at_checked(end)?;
        // They hold objects alone: after a list something else than managed fields would begin.
        memmem::find(managed.as_bytes(), br#"],""#)
            .is_none()
            .then_some(Self { head, tail })
    }

    /// The pieces of the text.
    #[must_use]
    pub const fn pieces(&self) -> [&'t str; 2] {
        [self.head, self.tail]
    }

    /// The text in one piece.
    #[must_use]
    pub fn joined(&self) -> String {
        [self.head, self.tail].concat()
    }

    /// Whether a character is written as an escape that could hide a word.
    #[must_use]
    pub fn hides(&self) -> bool {
        let hides = |piece: &str| {
            let bytes = piece.as_bytes();
            memchr::memchr_iter(b'\\', bytes).any(|at| matches!(bytes.get(at + 1), Some(b'u' | b'/')))
        };
        self.pieces().into_iter().any(hides)
    }

    /// The value of a field of the metadata that is a plain text; `None` where the text does not tell it for certain.
    #[must_use]
    pub fn metadata(&self, field: &str) -> Option<&'t str> {
        if self.tail.is_empty() {
            return None;
        }
        only(self.head, &format!(r#""{field}":""#)).map(|(_, value)| value)
    }

    /// The object without its specification, and that; `None` where it is not known where the one ends.
    #[must_use]
    pub fn specification(&self) -> Option<(String, Specification<'t>)> {
        let rest = self.tail.strip_prefix(r#"]},"spec":"#)?;
        let end = memmem::find(rest.as_bytes(), STATUS.as_bytes())?;
        let (text, status) = rest.split_at_checked(end)?;
        let spec = Specification::of(text)?;
        Some(([self.head, "]}", status].concat(), spec))
    }
}

/// A text field that stands exactly once: where its value begins, and the value.
fn only<'t>(text: &'t str, field: &str) -> Option<(usize, &'t str)> {
    let mut found = memmem::find_iter(text.as_bytes(), field.as_bytes());
    let at = found.next()? + field.len();
    if found.next().is_some() {
        return None;
    }
    let value = text.get(at..)?.split('"').next()?;
    (!value.contains('\\')).then_some((at, value))
}

/// The specification of a pod, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Specification<'t> {
    text: &'t str,
    /// The node that it is bound to, and where its name begins.
    node: Option<(usize, &'t str)>,
    /// The name of the volume with its token, quotation mark first.
    token: Option<&'t str>,
}

impl<'t> Specification<'t> {
    fn of(text: &'t str) -> Option<Self> {
        let node = match only(text, NODE) {
            Some(node) => Some(node),
            None if memmem::find(text.as_bytes(), NODE.as_bytes()).is_none() => None,
            None => return None,
        };
        let token = memmem::find(text.as_bytes(), TOKEN.as_bytes())
            .and_then(|at| text.get(at..at + TOKEN.len() + TOKEN_LETTERS));
        Some(Self { text, node, token })
    }

    /// The text.
    #[must_use]
    pub const fn text(&self) -> &'t str {
        self.text
    }

    /// The node that the pod is bound to; `None` where it is to none.
    #[must_use]
    pub fn node(&self) -> Option<&'t str> {
        self.node.map(|(_, name)| name)
    }

    /// Tells what the pods of one template have in common: all of it but the name of the node and of the token's volume.
    pub fn write_template(&self, into: &mut impl std::hash::Hasher) {
        let (before, after) = match self.node {
            Some((at, name)) => (
                self.text.get(..at).unwrap_or_default(),
                self.text.get(at + name.len()..).unwrap_or_default(),
            ),
            None => (self.text, ""),
        };
        into.write_u8(u8::from(self.node.is_some()));
        for part in [before, after] {
            match self.token {
                Some(token) => {
                    for piece in part.split(token) {
                        into.write(piece.as_bytes());
                        into.write_u8(0xff);
                    }
                }
                None => into.write(part.as_bytes()),
            }
            into.write_u8(0xfe);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hasher};

    use super::*;

    const POD: &str = r#"{"metadata":{"name":"a","uid":"1","managedFields":[{"fieldsV1":{"f:spec":{"f:x":{},"v:\"],\"":{}}}}]},"spec":{"containers":[],"nodeName":"n-1","volumes":[{"name":"kube-api-access-abcde"}]},"status":{"phase":"Running"}}"#;

    #[test]
    fn a_list_is_taken_apart() {
        let text =
            format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"7"}},"items":[{POD},{POD}]}}"#);
        let (head, items) = list(&format!("{text}\n"))
            .map(|(head, items)| (head, items.map(str::to_owned).collect::<Vec<_>>()))
            .unwrap();
        assert_eq!(
            head,
            r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}"#
        );
        assert_eq!(items, [POD, POD]);
        let (_, items) = list(r#"{"metadata":{},"items":[]}"#).unwrap();
        assert_eq!(items.count(), 0);
        for other in [
            r#"{"metadata":{},"items":null}"#,
            r#"{"items":[{"kind":"Pod"}]}"#,
            r#"{"items":[1]"#,
            "",
        ] {
            assert!(list(other).is_none(), "{other}");
        }
    }

    #[test]
    fn managed_fields_are_cut_and_nothing_else() {
        let cut = Cut::of(POD);
        let text = cut.joined();
        assert!(
            !text.contains("f:spec") && text.contains(r#""managedFields":[]},"spec":{"containers""#),
            "{text}"
        );
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut whole: serde_json::Value = serde_json::from_str(POD).unwrap();
        whole["metadata"]["managedFields"] = serde_json::json!([]);
        assert_eq!(value, whole);
        // Another order, where what follows them is more than the specification: all is kept.
        for other in [
            r#"{"metadata":{"managedFields":[{}],"ownerReferences":[{"uid":"1"}]},"spec":{}}"#,
            r#"{"metadata":{"managedFields":[{}],"name":"a"},"spec":{"x":[{}]},"spec":{}}"#,
            r#"{"spec":{},"metadata":{"managedFields":[{}]}}"#,
            r#"{"metadata":{}}"#,
        ] {
            assert_eq!(Cut::of(other).joined(), other);
        }
    }

    #[test]
    fn fields_of_the_metadata_are_found_where_they_are_certain() {
        assert_eq!(Cut::of(POD).metadata("uid"), Some("1"));
        assert_eq!(Cut::of(POD).metadata("generateName"), None);
        assert_eq!(
            Cut::of(&POD.replace(r#""uid""#, r#""labels":{"uid":"2"},"uid""#)).metadata("uid"),
            None
        );
    }

    #[test]
    fn escapes_that_can_hide_a_word_are_told() {
        assert!(!Cut::of(POD).hides());
        assert!(!Cut::of(&POD.replace("\"a\"", r#""a\n\"\\b""#)).hides());
        for escape in [r"\u006evidia", r"\/dev"] {
            assert!(Cut::of(&POD.replace("\"a\"", &format!("\"{escape}\""))).hides());
        }
    }

    #[test]
    fn pods_of_one_template_differ_in_node_and_token_alone() {
        let hash = |text: &str| {
            let (rest, spec) = Cut::of(text).specification().unwrap();
            let rest: serde_json::Value = serde_json::from_str(&rest).unwrap();
            assert_eq!(
                (&rest["metadata"]["name"], &rest["status"]["phase"]),
                (&"a".into(), &"Running".into())
            );
            let mut hasher = DefaultHasher::new();
            spec.write_template(&mut hasher);
            (hasher.finish(), spec.node().map(str::to_owned))
        };
        let (first, node) = hash(POD);
        assert_eq!(node.as_deref(), Some("n-1"));
        let (other, node) = hash(&POD.replace("n-1", "n-22").replace("abcde", "fghij"));
        assert_eq!((first, node.as_deref()), (other, Some("n-22")));
        assert_ne!(
            first,
            hash(&POD.replace("\"containers\":[]", "\"containers\":[{}]")).0
        );
        assert_ne!(first, hash(&POD.replace("\"nodeName\":\"n-1\",", "")).0);
    }
}
