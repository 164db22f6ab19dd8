//! Why a policy applies, or does not.

use std::collections::BTreeMap;

use crate::finding::Code;
use crate::policy::{Matches, Policy, Selector};
use crate::workload::pod::Requirement;

type Labels = BTreeMap<String, String>;

/// What of `match` fails for a pod.
pub(super) fn of_pod(matches: &Matches, namespace: &Labels, pod: &Labels, node: Option<&Labels>) -> String {
    let parts = [
        ("namespaces", &matches.namespaces, Some(namespace)),
        ("pods", &matches.pods, Some(pod)),
        ("nodes", &matches.nodes, node),
    ];
    for (part, selector, labels) in parts {
        let Some(selector) = selector else { continue };
        let Some(labels) = labels else {
            return format!("match.{part} needs a node, and none is known yet");
        };
        if let Some(unmet) = unmet(selector, labels) {
            return format!("match.{part}: {unmet}");
        }
    }
    if matches.expression.is_some() {
        "match.expression does not hold".to_owned()
    } else {
        "a policy of higher precedence applies".to_owned()
    }
}

/// What fails for the devices of a node.
pub(super) fn of_device(matches: &Matches, node: &Labels) -> String {
    if !matches.by_nodes_alone() {
        return "it matches by more than nodes, and a device has one policy, whoever's pods are on it"
            .to_owned();
    }
    let unmet = matches.nodes.as_ref().and_then(|nodes| unmet(nodes, node));
    match unmet {
        Some(unmet) => format!("match.nodes: {unmet}"),
        None => "a policy of higher precedence applies".to_owned(),
    }
}

/// What of `match` there is, where all of it holds.
pub(super) fn matching(matches: &Matches) -> String {
    let parts = [
        ("namespaces", &matches.namespaces),
        ("pods", &matches.pods),
        ("nodes", &matches.nodes),
    ];
    let mut said: Vec<String> = parts
        .into_iter()
        .filter_map(|(part, selector)| Some((part, selector.as_ref()?)))
        .map(|(part, selector)| format!("match.{part} ({})", written(selector)))
        .collect();
    if matches.expression.is_some() {
        said.push("match.expression".to_owned());
    }
    if said.is_empty() {
        "it matches everything".to_owned()
    } else {
        format!("{} holds", said.join(" and "))
    }
}

/// As kubectl writes a selector.
fn written(selector: &Selector) -> String {
    let labels = selector
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.expressions.iter().map(demand);
    let all: Vec<String> = labels.chain(expressions).collect();
    if all.is_empty() {
        "everything".to_owned()
    } else {
        all.join(", ")
    }
}

fn demand(requirement: &Requirement) -> String {
    let (key, values) = (&requirement.key, requirement.values.join(", "));
    match requirement.operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} not in ({values})"),
        "DoesNotExist" => format!("!{key}"),
        _ => key.clone(),
    }
}

/// The first demand that labels do not meet.
fn unmet(selector: &Selector, labels: &Labels) -> Option<String> {
    let found = |key: &str| match labels.get(key) {
        Some(value) => format!("the label {key} is {value:?}"),
        None => format!("there is no label {key}"),
    };
    for (key, value) in &selector.labels {
        if labels.get(key) != Some(value) {
            return Some(format!("{}, and {value:?} is asked for", found(key)));
        }
    }
    for requirement in &selector.expressions {
        let one = Selector {
            labels: BTreeMap::new(),
            expressions: vec![requirement.clone()],
        };
        if !one.matches(labels) {
            return Some(format!(
                "{}, and asked for is {}",
                found(&requirement.key),
                demand(requirement)
            ));
        }
    }
    None
}

/// A list of codes of the built-in default without those that the policy has moved to another one.
pub(super) fn codes_left(list: &str, severity: &str, policy: &Policy) -> String {
    let codes = list.trim_matches(['[', ']']).split(", ");
    let left: Vec<&str> = codes
        .filter(|text| {
            let code = text.parse::<Code>();
            code.is_ok_and(|code| policy.severity(code).as_str() == severity)
        })
        .collect();
    format!("[{}]", left.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn the_demand_that_fails_is_named_with_what_is_there() {
        let matches = Matches {
            namespaces: Some(Selector {
                labels: labels(&[("team", "a")]),
                expressions: Vec::new(),
            }),
            nodes: Some(Selector {
                labels: BTreeMap::new(),
                expressions: vec![Requirement {
                    key: "pool".to_owned(),
                    operator: "In".to_owned(),
                    values: vec!["x".to_owned(), "y".to_owned()],
                }],
            }),
            ..Matches::default()
        };
        let none = Labels::new();
        assert_eq!(
            of_pod(&matches, &none, &none, None),
            "match.namespaces: there is no label team, and \"a\" is asked for"
        );
        let team = labels(&[("team", "a")]);
        assert_eq!(
            of_pod(&matches, &team, &none, None),
            "match.nodes needs a node, and none is known yet"
        );
        assert_eq!(
            of_pod(&matches, &team, &none, Some(&labels(&[("pool", "z")]))),
            "match.nodes: the label pool is \"z\", and asked for is pool in (x, y)"
        );
        assert_eq!(
            matching(&matches),
            "match.namespaces (team=a) and match.nodes (pool in (x, y)) holds"
        );
        assert!(of_device(&matches, &none).starts_with("it matches by more than nodes"));
    }
}
