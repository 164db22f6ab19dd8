//! Image references: name, tag, digest, and the patterns of a policy.

use super::Version;

/// An image reference in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image<'a> {
    /// Registry and repository, as written.
    pub(crate) repository: &'a str,
    /// The tag.
    pub(crate) tag: Option<&'a str>,
    /// Whether a digest fixes the content.
    pub(crate) digest: bool,
}

impl<'a> Image<'a> {
    pub(crate) fn parse(reference: &'a str) -> Self {
        let (name, digest) = match reference.split_once('@') {
            Some((name, _)) => (name, true),
            None => (reference, false),
        };
        // A colon before the last slash belongs to the registry's port.
        let slash = name.rfind('/').map_or(0, |at| at + 1);
        match name[slash..].split_once(':') {
            Some((last, tag)) => Self {
                repository: &name[..slash + last.len()],
                tag: Some(tag),
                digest,
            },
            None => Self {
                repository: name,
                tag: None,
                digest,
            },
        }
    }

    /// The last part of the repository (`vllm-openai`).
    pub(crate) fn name(&self) -> &'a str {
        self.repository.rsplit('/').next().unwrap_or(self.repository)
    }

    /// The release that the tag names.
    pub(crate) fn version(&self) -> Option<Version> {
        Version::parse(self.tag?)
    }

    /// Whether the reference means other content tomorrow: no digest, and no tag or `latest`.
    pub(crate) fn floats(&self) -> bool {
        !self.digest && self.tag.is_none_or(|tag| tag == "latest")
    }
}

/// Whether a policy's pattern means this image. `*` stands for any text; a pattern without tag and digest means all of
/// them.
pub(crate) fn matches(pattern: &str, reference: &str) -> bool {
    let image = Image::parse(pattern);
    let text = if image.tag.is_some() || image.digest {
        reference
    } else {
        Image::parse(reference).repository
    };
    wildcard(pattern, text)
}

/// Whether a text is what a pattern says; `*` stands for any text.
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(previous) = last.replace(part) {
            match rest.find(previous) {
                Some(at) => rest = &rest[at + previous.len()..],
                None => return false,
            }
        }
    }
    match last {
        None => rest.is_empty(),
        Some(last) => rest.len() >= last.len() && rest.ends_with(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_split() {
        let image = Image::parse("registry:5000/vllm/vllm-openai:v0.11.0-x86_64");
        assert_eq!(
            (image.repository, image.name()),
            ("registry:5000/vllm/vllm-openai", "vllm-openai")
        );
        assert_eq!(image.version(), Some(Version::new(0, 11, 0)));
        assert!(Image::parse("a/b").floats() && Image::parse("a/b:latest").floats());
        assert!(!Image::parse("a/b@sha256:00").floats());
    }

    #[test]
    fn patterns_match_with_and_without_tags() {
        assert!(matches("registry.example/*", "registry.example/llm/server:1"));
        assert!(matches("*/vllm-openai", "vllm/vllm-openai:v0.6.3"));
        assert!(matches("*server*:2.*", "a/my-server-x:2.1"));
        assert!(!matches("*/vllm-openai", "vllm/vllm-openai-rocm:v1"));
        assert!(!matches("a*ab", "ab"));
    }
}
