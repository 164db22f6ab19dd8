//! What configures the GPUs of a node: documents of the device plugin and of the MIG manager, which stand as values in
//! ConfigMaps.
//!
//! Each is read the way its program reads it. What the program refuses is a [`Fault`] with `refused`; what it accepts and
//! ignores is one without. Sources: `NVIDIA/k8s-device-plugin` v0.20.0 (`api/config/v1`, `cmd/nvidia-device-plugin`) and
//! `NVIDIA/mig-parted` v0.15.0 (`api/spec/v1`).

mod document;
pub mod mig;
pub mod plugin;

pub use document::{Fault, MAX_BYTES};

/// A value of a ConfigMap that configures GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// Of the MIG manager.
    Mig(mig::Reading),
    /// Of the device plugin.
    Plugin(plugin::Reading),
}

impl Document {
    /// Reads a value; `None` where it is meant for neither program.
    ///
    /// A document of the MIG manager has `mig-configs`; one of the device plugin shares by time-slicing or MPS, or sets flags
    /// that only the plugin has. Of a text that is no YAML the words decide.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        // Most values of most ConfigMaps have none of these words.
        if !["mig-configs", "sharing", "flags"]
            .iter()
            .any(|word| text.contains(word))
        {
            return None;
        }
        match document::read(text) {
            Ok(None) => None,
            Ok(Some(tree)) => {
                let root = document::At::root(&tree);
                if mig::is_meant(&root) {
                    Some(Self::Mig(mig::of(&root)))
                } else if plugin::is_meant(&root) {
                    Some(Self::Plugin(plugin::of(&root)))
                } else {
                    None
                }
            }
            Err(fault) => {
                let text = text.replace('"', "");
                // As a key: at the begin of a line, or behind a bracket, a comma or another key.
                let is_key = |key: &str| {
                    text.match_indices(key).any(|(at, _)| {
                        let before = text[..at].trim_end_matches([' ', '\t']);
                        before.is_empty() || before.ends_with(['\n', '\r', '{', ',', ':'])
                    })
                };
                if is_key("mig-configs:") {
                    Some(Self::Mig(mig::Reading::unreadable(fault)))
                } else if is_key("sharing:") && (is_key("timeSlicing:") || is_key("mps:")) {
                    Some(Self::Plugin(plugin::Reading::unreadable(fault)))
                } else {
                    None
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_is_taken_for_it() {
        let kind = |text: &str| {
            Document::read(text).map(|document| match document {
                Document::Mig(_) => "mig",
                Document::Plugin(_) => "plugin",
            })
        };
        for (text, expected) in [
            ("version: v1\nmig-configs: {}\n", Some("mig")),
            ("version: v1\nmig-configs:\n  a: [\n", Some("mig")),
            ("{\"version\": \"v1\", \"mig-configs\": {}}", Some("mig")),
            ("version: v1\nsharing:\n  timeSlicing: {}\n", Some("plugin")),
            (
                "{\"version\": \"v1\", \"sharing\": {\"mps\": {}}}",
                Some("plugin"),
            ),
            ("sharing: {time-slicing: {}}", Some("plugin")),
            ("flags: {migStrategy: none}", Some("plugin")),
            ("version: v1\nsharing:\n  timeSlicing: [\n", Some("plugin")),
            ("", None),
            ("version: v1", None),
            ("sharing: enabled", None),
            ("version: v1\nsharing: {enabled: true}", None),
            ("# sharing: of memory\nflags: {verbose: true}", None),
            ("# mig-configs: see below\nx: 1", None),
            ("flags: [migStrategy]", None),
            ("sharing: [", None),
            ("an essay on sharing\n: [", None),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_yaml_is_known_by_its_keys() {
        let kind = |text: &str| {
            Document::read(text).map(|document| match document {
                Document::Mig(reading) => ("mig", !reading.faults.is_empty()),
                Document::Plugin(reading) => ("plugin", !reading.faults.is_empty()),
            })
        };
        let shared = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}";
        for (text, expected) in [
            // A key that is there twice.
            (
                format!("version: v1\nversion: v1\n{shared}"),
                Some(("plugin", true)),
            ),
            (format!("{{version: v1, {shared}"), Some(("plugin", true))),
            (
                "{\"sharing\": {\"mps\": {\"resources\": [}".to_owned(),
                Some(("plugin", true)),
            ),
            (
                "{version: v1, mig-configs: {a: [}".to_owned(),
                Some(("mig", true)),
            ),
            // Nothing is named.
            ("version: v1\nmig-configs:".to_owned(), Some(("mig", true))),
            ("a: {\nfile-sharing: {comps: 1".to_owned(), None),
            ("a: {\n# on sharing: read mps: first".to_owned(), None),
        ] {
            assert_eq!(kind(&text), expected, "{text}");
        }
    }
}
