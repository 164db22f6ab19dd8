//! The definition of the custom resource: the schema in the form that the API server takes, with the rules that it can
//! check by itself.

use serde_json::{Map, Value, json};

use super::{IN_CLUSTER, generated};
use crate::policy::spec::{API_VERSION, KIND};

/// The definition's name.
pub const DEFINITION_NAME: &str = "gpusharingpolicies.vramgate.io";

/// Most items of a list, most keys of a map and most characters of a text, where the schema names no other number: the API
/// server wants to know what its rules cost at most.
const MOST_ITEMS: u32 = 256;
const MOST_KEYS: u32 = 64;
const MOST_CHARACTERS: u32 = 1024;

/// The CustomResourceDefinition of `GpuSharingPolicy`.
#[must_use]
pub fn definition() -> Value {
    let column = |name: &str, kind: &str, path: &str, description: &str| json!({"name": name, "type": kind, "jsonPath": path, "description": description});
    let accepted = ".status.conditions[?(@.type==\"Accepted\")].status";
    let (group, version) = API_VERSION.split_once('/').unwrap_or_default();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION_NAME},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": format!("{KIND}List"),
                "plural": "gpusharingpolicies",
                "singular": "gpusharingpolicy",
                "shortNames": ["gsp"],
                "categories": ["vramgate"],
            },
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Priority", "integer", ".spec.priority", "Higher wins; 0 where it is left out."),
                    column("Mode", "string", ".spec.mode", "What becomes of errors."),
                    column("Accepted", "string", accepted, "Whether it is in force."),
                    column("Pods", "integer", ".status.matchedPods", "Pods with GPU memory that are under it."),
                    column("Nodes", "integer", ".status.matchedNodes", "GPU nodes whose devices are under it."),
                    column("Age", "date", ".metadata.creationTimestamp", "Since it was made."),
                ],
                "schema": {"openAPIV3Schema": schema()},
            }],
        },
    })
}

fn schema() -> Value {
    let mut schema = generated();
    let spec = schema.pointer_mut("/properties/spec").map(Value::take);
    let mut spec = structural(&spec.unwrap_or_default());
    rules(&mut spec);
    json!({
        "description": "What may be promised of shared GPUs, and what becomes of findings.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status(),
        },
        "x-kubernetes-validations": [{
            "rule": "self.metadata.name != 'built-in-default'",
            "message": "built-in-default is always there and cannot be replaced: choose another name",
        }],
    })
}

/// What is said of a policy, written by the leader through `/status`.
fn status() -> Value {
    let text = |most: u32, description: &str| json!({"type": "string", "maxLength": most, "description": description});
    let count = |description: &str| json!({"type": "integer", "format": "int64", "minimum": 0, "description": description});
    json!({
        "type": "object",
        "description": "What became of the policy; written by vramgate.",
        "properties": {
            "observedGeneration": count("The generation that the rest is about."),
            "matchedPods": count("Pods with GPU memory that are under the policy."),
            "matchedNodes": count("GPU nodes whose devices are under the policy."),
            "conditions": {
                "type": "array",
                "maxItems": 8,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
                    "properties": {
                        "type": text(64, "Accepted or Conflicts."),
                        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                        "reason": text(64, "Why, in one word."),
                        "message": text(4096, "Why, in words."),
                        "observedGeneration": count("The generation that it is about."),
                        "lastTransitionTime": {"type": "string", "format": "date-time"},
                    },
                },
            },
        },
    })
}

/// A schema in the form that the API server takes: one type for each value, no `null`, no references, closed by being
/// listed. What is optional may still be written as `null`; the API server drops it.
fn structural(schema: &Value) -> Value {
    let Some(fields) = schema.as_object() else {
        return json!({"x-kubernetes-preserve-unknown-fields": true});
    };
    let description = fields.get("description").map(described);
    let mut made = match (fields.get(IN_CLUSTER), alternatives(fields)) {
        (Some(Value::Object(instead)), _) => instead.clone(),
        (_, Some(words)) => {
            Map::from_iter([("type".to_owned(), json!("string")), ("enum".to_owned(), words)])
        }
        (_, None) => match only_one(fields) {
            Some(one) => structural(one).as_object().cloned().unwrap_or_default(),
            None => plain(fields),
        },
    };
    if let Some(description) = description {
        made.insert("description".to_owned(), description);
    }
    Value::Object(made)
}

/// Comments are written for lines of a file.
fn described(text: &Value) -> Value {
    let words = text.as_str().unwrap_or_default().split_whitespace();
    json!(words.collect::<Vec<_>>().join(" "))
}

/// The words of a schema that allows nothing else.
fn alternatives(fields: &Map<String, Value>) -> Option<Value> {
    let words: Vec<&Value> = match (fields.get("enum"), fields.get("oneOf")) {
        (Some(Value::Array(words)), _) => words.iter().filter(|word| !word.is_null()).collect(),
        (_, Some(Value::Array(cases))) => {
            let of_case = |case: &'_ Value| -> Option<Vec<Value>> {
                match (case.get("const"), case.get("enum")) {
                    (Some(word), _) => Some(vec![word.clone()]),
                    (_, Some(Value::Array(words))) => Some(words.clone()),
                    _ => None,
                }
            };
            let words: Option<Vec<Vec<Value>>> = cases.iter().map(of_case).collect();
            return Some(Value::Array(words?.concat()));
        }
        _ => return None,
    };
    words.iter().all(|word| word.is_string()).then(|| json!(words))
}

/// The other one where a value is that or `null`.
fn only_one(fields: &Map<String, Value>) -> Option<&Value> {
    let cases = fields.get("anyOf")?.as_array()?;
    let mut others = cases
        .iter()
        .filter(|case| case.get("type") != Some(&json!("null")));
    let one = others.next()?;
    others.next().is_none().then_some(one)
}

fn plain(fields: &Map<String, Value>) -> Map<String, Value> {
    let kind = match fields.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().find(|kind| *kind != "null").cloned(),
        other => other.cloned(),
    };
    let mut made = Map::new();
    for (key, value) in fields {
        match key.as_str() {
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minimum" | "maximum" | "pattern"
            | "required" => {
                made.insert(key.clone(), value.clone());
            }
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let properties: Map<String, Value> = properties
                    .map(|(name, schema)| (name.clone(), structural(schema)))
                    .collect();
                made.insert(key.clone(), Value::Object(properties));
            }
            "items" => {
                made.insert(key.clone(), structural(value));
            }
            "additionalProperties" if value.is_object() => {
                made.insert(key.clone(), structural(value));
                made.insert("maxProperties".to_owned(), json!(MOST_KEYS));
            }
            _ => {}
        }
    }
    let bound = match kind.as_ref().and_then(Value::as_str) {
        Some("array") => Some(("maxItems", MOST_ITEMS)),
        Some("string") => Some(("maxLength", MOST_CHARACTERS)),
        _ => None,
    };
    if let Some((key, most)) = bound {
        made.entry(key).or_insert(json!(most));
    }
    if kind == Some(json!("integer")) {
        made.insert("format".to_owned(), json!("int64"));
    }
    if let Some(kind) = kind {
        made.insert("type".to_owned(), kind);
    }
    made
}

/// Puts the rules that are about several fields at once.
fn rules(spec: &mut Value) {
    let selects = "has(self.matchLabels) && size(self.matchLabels) > 0 \
                   || has(self.matchExpressions) && size(self.matchExpressions) > 0";
    let apart = |one: &str, other: &str| {
        (
            "/properties/codes",
            format!(
                "!has(self.{one}) || !has(self.{other}) || !self.{one}.exists(code, code in self.{other})"
            ),
            format!("a code has one severity, and one stands in {one} and in {other}"),
        )
    };
    let rule = |at: &'static str, rule: &str, message: &str| (at, rule.to_owned(), message.to_owned());
    let all = [
        rule(
            "",
            "!has(self.device) || !has(self.match) || !(has(self.match.namespaces) || has(self.match.pods) \
             || has(self.match.expression))",
            "device stands beside match.namespaces, match.pods or match.expression, but a device has one policy, whoever's \
             pods are on it: move it to a policy that matches by nodes alone (VG903)",
        ),
        apart("error", "warning"),
        apart("error", "info"),
        apart("warning", "info"),
        rule(
            "/properties/placement/properties/growth/items",
            selects,
            "selects every node: name the labels of the nodes that an autoscaler can add",
        ),
        rule(
            "/properties/access/properties/exempt/properties/pods",
            selects,
            "selects every pod: name the labels of the pods that are exempt",
        ),
        rule(
            "/properties/models/items",
            "has(self.id) ? !has(self.weightsMiB) && !has(self.maxModelLen) && !has(self.attentionHeads) \
             : has(self.names) && has(self.weightsMiB) && !has(self.parameters)",
            "an entry with id has the fields that vramgate model add prints; one without has names, weightsMiB and no others \
             but kvBytesPerToken, maxModelLen and attentionHeads",
        ),
    ];
    for (at, rule, message) in all {
        add(spec, at, &rule, &message);
    }
    let operators = "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 \
                     : !has(self.values) || size(self.values) == 0";
    for selector in [
        "/properties/match/properties/namespaces",
        "/properties/match/properties/pods",
        "/properties/match/properties/nodes",
        "/properties/placement/properties/growth/items",
        "/properties/access/properties/exempt/properties/pods",
    ] {
        let at = format!("{selector}/properties/matchExpressions/items");
        add(
            spec,
            &at,
            operators,
            "In and NotIn need values, Exists and DoesNotExist take none",
        );
    }
}

fn add(spec: &mut Value, at: &str, rule: &str, message: &str) {
    let Some(fields) = spec.pointer_mut(at).and_then(Value::as_object_mut) else {
        // A test compares the definition with the one that is kept, where a rule that went missing shows.
        return;
    };
    let rules = fields
        .entry("x-kubernetes-validations")
        .or_insert_with(|| json!([]));
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json!({"rule": rule, "message": message}));
    }
}
