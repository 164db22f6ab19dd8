//! What kind of text stands where a model's name is expected: a name, or something that only the cluster can read.

use super::Reason;

/// A text that may name a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'t> {
    /// `unsloth` of `unsloth/Qwen3-8B`.
    pub(super) publisher: Option<&'t str>,
    /// The name.
    pub(super) name: &'t str,
    /// Whether it is the last part of a path.
    pub(super) path: bool,
}

/// Longest text that is read as a name, in bytes. A repository's name has at most 96 characters.
const LONGEST: usize = 200;

/// First parts of paths that are no publishers.
const DIRECTORIES: [&str; 16] = [
    "models",
    "model",
    "mnt",
    "data",
    "opt",
    "workspace",
    "checkpoints",
    "weights",
    "local",
    "cache",
    "pvc",
    "tmp",
    "home",
    "root",
    "srv",
    "app",
];

/// Checks what can be told before the catalogue is asked.
pub(super) fn check(text: &str) -> Result<(), Reason> {
    if text.is_empty() {
        Err(Reason::Empty)
    } else if text.len() > LONGEST {
        Err(Reason::TooLong)
    } else if text.chars().any(char::is_control) {
        Err(Reason::Control)
    } else if text.contains(['$', '{', '}', '<', '>', '%']) {
        Err(Reason::Variable)
    } else {
        Ok(())
    }
}

/// Parts a text. URLs and paths yield the name in their last part beside the reason why they are none.
pub(super) fn place(text: &str) -> (Place<'_>, Option<Reason>) {
    if let Some((_, rest)) = text.split_once("://") {
        return (last(rest), Some(Reason::Url));
    }
    let text = ["hf.co/", "huggingface.co/"]
        .into_iter()
        .find_map(|hub| text.strip_prefix(hub))
        .unwrap_or(text);
    let parts = text.split('/').count();
    let first = text.split('/').next().unwrap_or_default();
    let local = text.starts_with(['/', '.', '~', '\\'])
        || text.contains('\\')
        || text.ends_with('/')
        || parts > 2
        || (parts == 2 && DIRECTORIES.iter().any(|name| first.eq_ignore_ascii_case(name)));
    if local {
        return (last(text), Some(Reason::Path));
    }
    let place = match text.split_once('/') {
        Some((publisher, name)) if is_publisher(publisher) => Place {
            publisher: Some(publisher),
            name,
            path: false,
        },
        _ => Place {
            publisher: None,
            name: text,
            path: false,
        },
    };
    (place, None)
}

fn is_publisher(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// The last part of a path; a folder of the hub's cache stands for its repository.
fn last(path: &str) -> Place<'_> {
    let cached = path
        .split('/')
        .find_map(|part| part.strip_prefix("models--")?.split_once("--"));
    let (publisher, name) = cached.map_or_else(
        || {
            let mut parts = path.rsplit(['/', '\\']).filter(|part| !part.is_empty());
            let name = parts.next().unwrap_or_default();
            (parts.next(), name)
        },
        |(publisher, name)| (Some(publisher), name),
    );
    Place {
        publisher,
        name,
        path: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_paths_and_urls_are_told_apart() {
        for (text, publisher, name, reason) in [
            ("Qwen/Qwen3-8B", Some("Qwen"), "Qwen3-8B", None),
            ("Qwen3-8B", None, "Qwen3-8B", None),
            (
                "hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M",
                Some("unsloth"),
                "Qwen3-8B-GGUF:Q4_K_M",
                None,
            ),
            (
                "/models/Qwen/Qwen3-8B",
                Some("Qwen"),
                "Qwen3-8B",
                Some(Reason::Path),
            ),
            (
                "/models/Qwen3-8B/",
                Some("models"),
                "Qwen3-8B",
                Some(Reason::Path),
            ),
            ("models/Qwen3-8B", Some("models"), "Qwen3-8B", Some(Reason::Path)),
            ("./x", Some("."), "x", Some(Reason::Path)),
            ("C:\\models\\x", Some("models"), "x", Some(Reason::Path)),
            (
                "s3://bucket/Qwen3-8B",
                Some("bucket"),
                "Qwen3-8B",
                Some(Reason::Url),
            ),
            ("/", None, "", Some(Reason::Path)),
            (
                "/cache/hub/models--Qwen--Qwen3-8B/snapshots/0123",
                Some("Qwen"),
                "Qwen3-8B",
                Some(Reason::Path),
            ),
        ] {
            let (found, why) = place(text);
            assert_eq!(
                (found.publisher, found.name, why),
                (publisher, name, reason),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_name_has_its_reason() {
        for (text, reason) in [
            ("", Reason::Empty),
            ("$(MODEL)", Reason::Variable),
            ("${MODEL}", Reason::Variable),
            ("{{ .Values.model }}", Reason::Variable),
            ("<model>", Reason::Variable),
            ("a\nb", Reason::Control),
            ("a\0", Reason::Control),
            (&"x".repeat(10_000), Reason::TooLong),
        ] {
            assert_eq!(check(text), Err(reason));
        }
        assert_eq!(check("Qwen/Qwen3-8B"), Ok(()));
    }
}
