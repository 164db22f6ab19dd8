//! How a template lies in its object: where the fields of its pod stand, which fields make more or fewer pods, and what
//! is not in the object at all.

use super::super::pod::Made;
use crate::finding::FieldPath;
use crate::invocation::MADE;

/// Where a field of a pod, or a word that an operator puts into its command line, stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Kind and name of another object that holds it (`ServingRuntime vllm`); `None` for the object itself.
    pub object: Option<String>,
    /// The field of that object.
    pub path: FieldPath,
}

impl Origin {
    /// A field of the object itself.
    #[must_use]
    pub const fn own(path: FieldPath) -> Self {
        Self { object: None, path }
    }
}

/// A field of the object that says how many pods a template makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The field (`spec.replicas`).
    pub path: FieldPath,
    /// Its last name (`replicas`).
    pub name: &'static str,
    /// What it says now.
    pub now: u32,
    /// The least that it may say.
    pub least: u32,
    /// Pods of the template for each of it.
    pub pods: u32,
}

/// What a change of the template adds for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Surge {
    /// Pods that a rollout adds.
    pub pods: u32,
    /// Pods that it may take away first.
    pub unavailable: u32,
    /// The field that says so.
    pub path: FieldPath,
    /// JSON pointers and values with which it adds none; empty where nothing in the object says that.
    pub without: Vec<(String, serde_json::Value)>,
}

/// How a template lies in its object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// Fields of the pod, each with where it stands; the longest that is a beginning of a path counts.
    moved: Vec<(FieldPath, Origin)>,
    /// Who adds what to the pods that is not in the object; then nothing can be refused for what it says.
    open: Option<String>,
    /// The field that scales the template, where there is one.
    pub scale: Option<Scale>,
    /// What a rollout adds, where it adds anything.
    pub surge: Option<Surge>,
}

impl Layout {
    /// A template with `metadata` and `spec` at `path`.
    #[must_use]
    pub fn whole(path: &FieldPath) -> Self {
        Self::from(FieldPath::default(), path)
    }

    /// A pod's specification at `path` itself.
    #[must_use]
    pub fn bare(path: &FieldPath) -> Self {
        Self::from(FieldPath::new("spec"), path)
    }

    fn from(below: FieldPath, path: &FieldPath) -> Self {
        Self {
            moved: vec![(below, Origin::own(path.clone()))],
            ..Self::default()
        }
    }

    /// Says where a field of the pod stands.
    pub(super) fn put(&mut self, field: FieldPath, origin: Origin) {
        self.moved.push((field, origin));
    }

    /// Says where the words stand that an operator makes for the container at `at`.
    pub(super) fn put_made(&mut self, at: &FieldPath, made: &Made) {
        let field = at.field(MADE);
        // What is not told is the operator's own: the container has to do.
        let container = self.origin(at);
        self.put(field.clone(), container);
        for ((command, word), origin) in &made.origins {
            self.put(field.index(*command).index(*word), origin.clone());
        }
        for (option, origin) in &made.options {
            self.put(field.key(option), origin.clone());
        }
    }

    /// Where a field of the pod stands, unless the whole template stands at one path and the field below it as in a pod.
    #[must_use]
    pub fn elsewhere(&self, field: &FieldPath) -> Option<Origin> {
        let text = field.as_str();
        let parts = self.moved.iter().filter(|(below, _)| !below.as_str().is_empty());
        let is_part = parts
            .into_iter()
            .any(|(below, _)| behind(text, below.as_str()).is_some());
        is_part.then(|| self.origin(field))
    }

    /// Notes who adds to the pods; the first one counts.
    pub(super) fn opened_by(&mut self, who: &str) {
        if self.open.is_none() {
            self.open = Some(who.to_owned());
        }
    }

    /// Why the pods may be others than the object says; `None` where it says all.
    #[must_use]
    pub fn open(&self) -> Option<&str> {
        self.open.as_deref()
    }

    /// Where a field of the pod stands.
    #[must_use]
    pub fn origin(&self, field: &FieldPath) -> Origin {
        let text = field.as_str();
        let mut best: Option<(&str, &Origin)> = None;
        for (below, origin) in &self.moved {
            if let Some(rest) = behind(text, below.as_str())
                && best.is_none_or(|(known, _)| rest.len() < known.len())
            {
                best = Some((rest, origin));
            }
        }
        match best {
            Some((rest, origin)) => Origin {
                object: origin.object.clone(),
                path: joined(&origin.path, rest),
            },
            None => Origin::own(field.clone()),
        }
    }

    /// The JSON pointer in the object for one in the pod; `None` where that field stands in another object.
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<String> {
        let mut best: Option<(&str, &Origin)> = None;
        for (below, origin) in &self.moved {
            let below = below.to_pointer();
            if let Some(rest) = pointer.strip_prefix(below.as_str())
                && (rest.is_empty() || rest.starts_with('/'))
                && best.is_none_or(|(known, _)| rest.len() < known.len())
            {
                best = Some((rest, origin));
            }
        }
        let (rest, origin) = best.filter(|(_, origin)| origin.object.is_none())?;
        Some(format!("{}{rest}", origin.path.to_pointer()))
    }
}

/// What of a path stands behind a beginning of it.
fn behind<'p>(path: &'p str, beginning: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(beginning)?;
    (beginning.is_empty() || rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

fn joined(path: &FieldPath, rest: &str) -> FieldPath {
    if rest.starts_with('[') {
        FieldPath::new(format!("{path}{rest}"))
    } else {
        path.field(rest.trim_start_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_says_where_a_field_stands() {
        let mut layout = Layout::bare(&FieldPath::new("spec.roles[1].pod"));
        let image = FieldPath::new("spec.containers[0].args[1]");
        layout.put(
            image,
            Origin {
                object: Some("ServingRuntime vllm".to_owned()),
                path: FieldPath::new("spec.containers[0].args[1]"),
            },
        );
        let at = |path: &str| {
            let Origin { object, path } = layout.origin(&FieldPath::new(path));
            (object.is_some(), path.to_string())
        };
        assert_eq!(
            at("spec.containers[0].args[10]"),
            (false, "spec.roles[1].pod.containers[0].args[10]".to_owned())
        );
        assert_eq!(
            at("spec.containers[0].args[1]"),
            (true, "spec.containers[0].args[1]".to_owned())
        );
        assert_eq!(at("metadata.labels"), (false, "metadata.labels".to_owned()));
        assert_eq!(
            layout.pointer("/spec/containers/0/args/10").as_deref(),
            Some("/spec/roles/1/pod/containers/0/args/10")
        );
        assert_eq!(layout.pointer("/spec/containers/0/args/1"), None);
    }
}
