//! The words of the expressions.

use serde_json::{Value, json};

use super::Under;
use crate::demand::agent_images;
use crate::policy::{Matches, Selector};

/// The variables that expressions share.
pub(super) fn variables(under: &Under<'_>) -> Value {
    let variable = |name: &str, expression: String| json!({"name": name, "expression": expression});
    json!([
        variable("labels", map("object.metadata.labels")),
        variable("namespaceLabels", map("namespaceObject.metadata.labels")),
        variable("containers", containers()),
        variable(
            "workers",
            format!("variables.containers.filter(c, !({}))", is_agent())
        ),
        variable("elsewhere", elsewhere(under)),
        variable("strangers", strangers(under)),
    ])
}

fn map(field: &str) -> String {
    format!("(has({field}) ? {field} : {{}})")
}

fn containers() -> String {
    let list = "object.spec.initContainers";
    format!("object.spec.containers + (has({list}) ? {list} : [])")
}

/// Whether a policy of higher precedence applies, or the pod is one that nothing holds up: a kubelet shows it, or all of its
/// containers that ask for a device are agents.
fn elsewhere(under: &Under<'_>) -> String {
    let gpu = "c.resources.limits.exists(k, (k.startsWith('nvidia.com/gpu') || k.startsWith('nvidia.com/mig-')) && \
               string(c.resources.limits[k]) != '0')";
    let mut ways = vec![
        "(has(object.metadata.annotations) && 'kubernetes.io/config.mirror' in object.metadata.annotations)"
            .to_owned(),
        format!(
            "(variables.containers.exists(c, {agent} && {asks}) && \
             !variables.workers.exists(c, has(c.resources) && has(c.resources.limits) && {gpu}))",
            agent = is_agent(),
            asks = asks(),
        ),
    ];
    ways.extend(under.above.iter().map(|policy| matches(&policy.matches)));
    ways.join(" || ")
}

fn matches(matches: &Matches) -> String {
    let parts = [
        ("variables.namespaceLabels", &matches.namespaces),
        ("variables.labels", &matches.pods),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(labels, selector)| Some(selects(labels, selector.as_ref()?)))
        .collect();
    if parts.is_empty() {
        "true".to_owned()
    } else {
        format!("({})", parts.join(" && "))
    }
}

/// Whether labels meet a selector.
pub(super) fn selects(labels: &str, selector: &Selector) -> String {
    let is = |key: &str, values: &[&str]| {
        let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        let key = quoted(key);
        format!(
            "({key} in {labels} && {labels}[{key}] in [{}])",
            values.join(", ")
        )
    };
    let mut parts: Vec<String> = selector
        .labels
        .iter()
        .map(|(key, value)| is(key, &[value]))
        .collect();
    for one in &selector.expressions {
        let values: Vec<&str> = one.values.iter().map(String::as_str).collect();
        parts.push(match one.operator.as_str() {
            "In" => is(&one.key, &values),
            "NotIn" => format!("!{}", is(&one.key, &values)),
            "DoesNotExist" => format!("!({} in {labels})", quoted(&one.key)),
            _ => format!("{} in {labels}", quoted(&one.key)),
        });
    }
    if parts.is_empty() {
        "true".to_owned()
    } else {
        format!("({})", parts.join(" && "))
    }
}

/// A selector as an API object has it.
pub(super) fn selector_object(selector: &Selector) -> Value {
    let expressions: Vec<Value> = selector
        .expressions
        .iter()
        .map(|one| {
            let mut entry = json!({"key": one.key, "operator": one.operator});
            if !one.values.is_empty() {
                entry["values"] = json!(one.values);
            }
            entry
        })
        .collect();
    let mut object = json!({});
    if !selector.labels.is_empty() {
        object["matchLabels"] = json!(selector.labels);
    }
    if !expressions.is_empty() {
        object["matchExpressions"] = json!(expressions);
    }
    object
}

/// Whether the image of `c` may be an agent's, which nothing holds up.
fn is_agent() -> String {
    let names: Vec<String> = agent_images().map(pattern).collect();
    format!(
        "has(c.image) && c.image.matches({})",
        quoted(&format!("(^|/)({})", names.join("|")))
    )
}

/// Whether `c` asks for anything that may be a device.
fn asks() -> String {
    let sides = ["limits", "requests"].map(|side| {
        format!(
            "(has(c.resources.{side}) && c.resources.{side}.exists(k, !(k in ['cpu', 'memory', 'ephemeral-storage']) && \
             !k.startsWith('hugepages-')))"
        )
    });
    format!(
        "(has(c.resources) && ({} || has(c.resources.claims)))",
        sides.join(" || ")
    )
}

/// The containers that ask for no device at all, and that no policy exempts.
fn strangers(under: &Under<'_>) -> String {
    let mut kept = vec![format!("!{}", asks())];
    for policy in under.without_node() {
        let exempt = &policy.access.exempt;
        for image in &exempt.images {
            // Wider than the pattern: whoever may be exempt is.
            let plain = image
                .trim_start_matches("docker.io/")
                .trim_start_matches("library/");
            kept.push(format!(
                "!(has(c.image) && c.image.matches({}))",
                quoted(&pattern(plain))
            ));
        }
        if let Some(pods) = &exempt.pods {
            kept.push(format!("!{}", selects("variables.labels", pods)));
        }
    }
    format!("variables.containers.filter(c, {})", kept.join(" && "))
}

/// A pattern in which `*` stands for any text, as a regular expression.
fn pattern(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '*' => out.push_str(".*"),
            letter if letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '/' | ':' | '@') => {
                out.push(letter);
            }
            // In a class of its own no letter but these two means anything else.
            '^' | '\\' => out.push('.'),
            letter => {
                out.push('[');
                out.push(letter);
                out.push(']');
            }
        }
    }
    out
}

/// A CEL string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::pod::Requirement;

    #[test]
    fn selectors_ask_for_a_label_before_they_read_it() {
        let mut selector = Selector::default();
        selector.labels.insert("a".to_owned(), "it's".to_owned());
        selector.expressions.push(Requirement {
            key: "b".to_owned(),
            operator: "NotIn".to_owned(),
            values: vec!["x".to_owned()],
        });
        assert_eq!(
            selects("l", &selector),
            "(('a' in l && l['a'] in ['it\\'s']) && !('b' in l && l['b'] in ['x']))"
        );
        assert_eq!(selects("l", &Selector::default()), "true");
    }

    #[test]
    fn patterns_mean_no_more_than_text() {
        assert_eq!(pattern("a.b/*-c+d"), "a[.]b/.*-c[+]d");
    }
}
