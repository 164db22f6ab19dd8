//! One specification laid over another, as operators do it: Kubernetes' strategic merge.

use serde_json::{Map, Value};

/// `over` on top of `base`: maps are merged, lists of named things by their names, every other value is replaced.
pub(super) fn merged(base: &Value, over: &Value) -> Value {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            let mut out = base.clone();
            for (name, value) in over {
                match out.get(name) {
                    _ if value.is_null() => {
                        out.remove(name);
                    }
                    Some(before) => {
                        let value = merged(before, value);
                        out.insert(name.clone(), value);
                    }
                    None => {
                        out.insert(name.clone(), value.clone());
                    }
                }
            }
            Value::Object(out)
        }
        (Value::Array(base), Value::Array(over)) => by_name(base, over),
        _ => over.clone(),
    }
}

/// Items of the same name are merged, others follow.
fn by_name(base: &[Value], over: &[Value]) -> Value {
    let key = ["name", "mountPath"].into_iter().find(|key| {
        base.iter()
            .chain(over)
            .all(|item| item.get(*key).is_some_and(Value::is_string))
    });
    let Some(key) = key.filter(|_| !over.is_empty()) else {
        return Value::Array(over.to_vec());
    };
    let mut places: Map<String, Value> = Map::new();
    let mut out: Vec<Value> = Vec::with_capacity(base.len() + over.len());
    for item in base.iter().chain(over) {
        let name = item.get(key).and_then(Value::as_str).unwrap_or_default();
        let place = places.get(name).and_then(Value::as_u64);
        let known = place.and_then(|place| out.get_mut(usize::try_from(place).ok()?));
        if let Some(before) = known {
            *before = merged(before, item);
        } else {
            places.insert(name.to_owned(), Value::from(out.len()));
            out.push(item.clone());
        }
    }
    Value::Array(out)
}

/// Puts values in place of `{{.Name}}` and the like in every text; other actions of a template stay as they are.
pub(super) fn fill(value: &mut Value, look_up: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::String(text) if text.contains("{{") => *text = filled(text, look_up),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, look_up)),
        Value::Object(map) => map.values_mut().for_each(|item| fill(item, look_up)),
        _ => {}
    }
}

fn filled(text: &str, look_up: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = rest.find("}}") else { break };
        let path = rest[2..end].trim().trim_matches('-').trim();
        match path.strip_prefix('.').and_then(look_up) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&rest[..end + 2]),
        }
        rest = &rest[end + 2..];
    }
    out.push_str(rest);
    out
}

/// Whether a text holds an action that was not filled in.
pub(super) fn is_open(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Array(items) => items.iter().any(is_open),
        Value::Object(map) => map.values().any(is_open),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn named_things_are_merged_and_lists_replaced() {
        let base = json!({"a": 1, "env": [{"name": "A", "value": "1"}, {"name": "B"}], "args": ["x"], "gone": 1,
            "resources": {"limits": {"cpu": 1}}});
        let over = json!({"env": [{"name": "A", "value": "2"}, {"name": "C"}], "args": ["y"], "gone": null,
            "resources": {"limits": {"nvidia.com/gpu": 2}}});
        assert_eq!(
            merged(&base, &over),
            json!({"a": 1, "env": [{"name": "A", "value": "2"}, {"name": "B"}, {"name": "C"}], "args": ["y"],
                "resources": {"limits": {"cpu": 1, "nvidia.com/gpu": 2}}})
        );
        assert_eq!(merged(&json!([{"name": "a"}]), &json!([])), json!([]));
    }

    #[test]
    fn places_are_filled_and_other_actions_stay() {
        let mut value =
            json!({"args": ["--m={{.Name}}-{{ .Labels.a }}", "{{- if .X }}y{{ end }}", "{{.Name"]});
        fill(&mut value, &|path| (path == "Name").then(|| "n".to_owned()));
        assert_eq!(
            value,
            json!({"args": ["--m=n-{{ .Labels.a }}", "{{- if .X }}y{{ end }}", "{{.Name"]})
        );
        assert!(is_open(&value));
    }
}
