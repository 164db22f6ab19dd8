//! The part of the policies that the API server can judge by itself: ValidatingAdmissionPolicies, so that a base rule stands
//! while nobody answers for vramgate.
//!
//! The API server sees the pod and its namespace, and neither nodes nor other pods. So only what is refused on every node is
//! exported, under the policy that applies whatever the node; where it hangs on the node which policy applies, the mildest of
//! them counts. Each condition is narrower than the rule that it stands for, never wider: what the webhook admits is not
//! refused here. There is one exception, which `docs/policy.md` names: a pod that no node could take now is left Pending by the
//! webhook, and refused here if it could be admitted nowhere.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::finding::{Code, Severity};
use crate::policy::{Mode, Policy, PolicyRef, PolicySet};

mod cel;
mod rules;

/// What becomes of a pod that a rule means. Ordered: the later the harder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    /// Nothing.
    None,
    /// A word in the audit log.
    Audit,
    /// A warning.
    Warn,
    /// It is refused.
    Deny,
}

impl Action {
    const WITH_OBJECTS: [Self; 3] = [Self::Deny, Self::Warn, Self::Audit];

    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Audit => "Audit",
            Self::Warn => "Warn",
            Self::Deny => "Deny",
        }
    }

    /// What a policy does with a finding of this severity.
    fn of(policy: &Policy, severity: Severity) -> Self {
        match (severity, policy.mode) {
            (Severity::Error, Mode::Enforce) => Self::Deny,
            (Severity::Error, Mode::Shadow) => Self::Audit,
            (Severity::Error, Mode::Warn) | (Severity::Warning, _) => Self::Warn,
            (Severity::Info, _) => Self::None,
        }
    }

    fn of_code(policy: &Policy, code: Code) -> Self {
        Self::of(policy, policy.severity(code))
    }
}

/// A condition that a pod must not meet.
struct Rule {
    action: Action,
    /// CEL, true where the pod is meant.
    meant: String,
    message: String,
}

/// What the API server is to be given.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// A policy and its binding, again and again.
    pub objects: Vec<Value>,
    /// What of the policies is not in it, in words.
    pub left_out: Vec<String>,
}

/// A policy with all that may apply in its place.
struct Under<'a> {
    policy: &'a PolicyRef,
    /// Those of higher precedence that surely apply wherever their selectors match.
    above: Vec<&'a PolicyRef>,
    /// Those that may apply in its place, by the node or by an expression; itself too.
    instead: Vec<&'a PolicyRef>,
}

/// The base rules of the policies in force, for every namespace but `exempt`: those that the webhook's registrations leave out
/// as well.
#[must_use]
pub fn export(policies: &PolicySet, exempt: &[String]) -> Guard {
    let all: Vec<&PolicyRef> = policies.iter().collect();
    let mut guard = Guard::default();
    for (index, policy) in all.iter().enumerate() {
        let matches = &policy.matches;
        let unexportable = if matches.expression.is_some() {
            Some("match.expression is vramgate's to evaluate")
        } else if matches.nodes.is_some() {
            Some("match.nodes: the API server does not know the node when a pod is created")
        } else {
            None
        };
        if let Some(why) = unexportable {
            guard.left_out.push(format!("policy {}: {why}", policy.name));
            continue;
        }
        let (above, by_node): (Vec<&PolicyRef>, Vec<&PolicyRef>) = all[..index]
            .iter()
            .partition(|other| other.matches.nodes.is_none() && other.matches.expression.is_none());
        let under = Under {
            policy,
            above,
            instead: by_node.into_iter().chain([*policy]).collect(),
        };
        let mut rules = rules::of_requests(&under, policies);
        rules.extend(rules::of_access(&under));
        for action in Action::WITH_OBJECTS {
            let rules: Vec<&Rule> = rules.iter().filter(|rule| rule.action == action).collect();
            if !rules.is_empty() {
                guard.objects.extend(objects(&under, action, &rules, exempt));
            }
        }
    }
    guard
}

impl Under<'_> {
    /// The policies that can apply before any node is considered, as access is judged.
    fn without_node(&self) -> impl Iterator<Item = &PolicyRef> {
        let all = self.instead.iter().copied();
        all.filter(|policy| policy.matches.nodes.is_none())
    }
}

/// The policy and its binding for the rules of one action.
fn objects(under: &Under<'_>, action: Action, rules: &[&Rule], exempt: &[String]) -> [Value; 2] {
    let policy = under.policy;
    let name = format!("vramgate-{}-{}", policy.name, action.as_str().to_lowercase());
    let labels = json!({"app.kubernetes.io/name": "vramgate", "app.kubernetes.io/component": "base-rules"});
    let mut constraints = json!({
        "matchPolicy": "Equivalent",
        "resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "Namespaced",
        }],
    });
    let selectors = [
        ("namespaceSelector", &policy.matches.namespaces),
        ("objectSelector", &policy.matches.pods),
    ];
    for (field, selector) in selectors {
        if let Some(selector) = selector.as_ref().filter(|selector| !selector.is_empty()) {
            constraints[field] = cel::selector_object(selector);
        }
    }
    if !exempt.is_empty() {
        let others = json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt});
        let selector = &mut constraints["namespaceSelector"];
        match selector["matchExpressions"].as_array_mut() {
            Some(expressions) => expressions.push(others),
            None => selector["matchExpressions"] = json!([others]),
        }
    }
    let validations: Vec<Value> = rules
        .iter()
        .map(|rule| {
            json!({
                "expression": format!("variables.elsewhere || !({})", rule.meant),
                "message": rule.message,
                "reason": "Forbidden",
            })
        })
        .collect();
    let instead: BTreeSet<&str> = under.above.iter().map(|policy| policy.name.as_str()).collect();
    let rule = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {
                "vramgate.io/policy": policy.name,
                "vramgate.io/after": instead.into_iter().collect::<Vec<_>>().join(","),
            },
        },
        "spec": {
            // An expression that fails says nothing about the pod.
            "failurePolicy": "Ignore",
            "matchConstraints": constraints,
            "variables": cel::variables(under),
            "validations": validations,
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": labels},
        "spec": {"policyName": name, "validationActions": [action.as_str()]},
    });
    [rule, binding]
}

#[cfg(test)]
mod tests;
