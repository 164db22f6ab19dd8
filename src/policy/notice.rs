//! What a policy says that has no effect in this release. Nothing is dropped in silence.

use std::fmt;
use std::sync::Arc;

use super::check::at;
use super::spec::{GpuSharingPolicy, LookUp, OtherSharingRule, Spec, Trust};
use super::tree::Tree;
use super::{Enforcement, Expression};

/// A field of a policy that was accepted and does not do all that it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Name of the file or object.
    pub source: Arc<str>,
    /// Line, from one; absent where the policy did not come as text.
    pub line: Option<u64>,
    /// The field.
    pub field: String,
    /// What about it.
    pub message: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}: {}", self.field, self.message)
    }
}

/// Every notice about a document. What says the same as the built-in default gives none.
pub(crate) fn notices(document: &GpuSharingPolicy, source: &Arc<str>, tree: &Tree) -> Vec<Notice> {
    let mut fields = Vec::new();
    if let Some(spec) = &document.spec {
        matches(spec, &mut fields);
        others(spec, &mut fields);
    }
    let mut notices: Vec<Notice> = fields
        .into_iter()
        .map(|(field, message)| Notice {
            source: Arc::clone(source),
            line: tree.find(&at(field)).map(|at| at.line),
            field: field.to_owned(),
            message,
        })
        .collect();
    notices.sort_by_key(|notice| notice.line);
    notices
}

type Fields = Vec<(&'static str, String)>;

fn later(field: &'static str, differs: bool, fields: &mut Fields) {
    if differs {
        fields.push((field, "accepted, without effect yet".to_owned()));
    }
}

fn later_because(field: &'static str, differs: bool, why: &str, fields: &mut Fields) {
    if differs {
        fields.push((field, format!("accepted, without effect yet: {why}")));
    }
}

fn matches(spec: &Spec, fields: &mut Fields) {
    let Some(matches) = &spec.matches else { return };
    let by_expression = matches
        .expression
        .as_deref()
        .and_then(|source| Expression::compile(source).ok())
        .is_some_and(|expression| expression.needs_node());
    if matches.nodes.is_some() || by_expression {
        let beside = if by_expression {
            "an expression that asks for node or gpu"
        } else {
            "match.nodes"
        };
        let why =
            &format!("without effect beside {beside}: invocations are read before any node is considered");
        if spec.engines.as_ref().is_some_and(|engines| !engines.is_empty()) {
            fields.push(("spec.engines", why.clone()));
        }
        if spec.models.as_ref().is_some_and(|models| !models.is_empty()) {
            fields.push(("spec.models", why.clone()));
        }
        if spec.access.is_some() {
            fields.push(("spec.access", why.clone()));
        }
        let trusted = spec.other_sharing.as_ref().is_some_and(|others| {
            [others.hami, others.kai, others.volcano].contains(&Some(OtherSharingRule::Trust))
        });
        if trusted {
            fields.push(("spec.otherSharing", why.clone()));
        }
        let trust = spec
            .declarations
            .as_ref()
            .and_then(|declarations| declarations.trust.as_ref());
        if trust.is_some_and(|trust| *trust != Trust::Never) {
            fields.push(("spec.declarations.trust", why.clone()));
        }
        if spec
            .sources
            .as_ref()
            .is_some_and(|sources| sources.config_maps == Some(LookUp::Never))
        {
            fields.push(("spec.sources.configMaps", why.clone()));
        }
    }
}

fn others(spec: &Spec, fields: &mut Fields) {
    let enforced = matches!(spec.enforcement, Some(Enforcement::Binding | Enforcement::Gated));
    later_because(
        "spec.enforcement",
        enforced,
        "the level acts as admission",
        fields,
    );
    let secrets = spec.sources.as_ref().and_then(|sources| sources.secrets);
    later("spec.sources.secrets", secrets == Some(LookUp::Get), fields);
}
