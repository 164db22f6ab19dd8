//! The JSON Schema of a policy, for editors and for checks of files, and the definition of the custom resource, both made
//! from the types that read a document.
//!
//! Where the API server's schema can say less than a JSON Schema (one type for each value), `value` and
//! `choice` say under `IN_CLUSTER` what stands there instead.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::spec::GpuSharingPolicy;

mod definition;
mod types;

pub use definition::{DEFINITION_NAME, definition};

/// Where the schema of a policy is kept, for an editor's settings.
pub const ID: &str = "https://vramgate.io/schema/gpusharingpolicy.json";

/// The key under which a value's schema for the API server stands while a schema is made.
pub(super) const IN_CLUSTER: &str = "x-in-cluster";

/// The JSON Schema (draft 2020-12) of a policy document.
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = generated();
    clean(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("$id".to_owned(), json!(ID));
        root.insert("title".to_owned(), json!("GpuSharingPolicy"));
    }
    if let Some(spec) = schema
        .pointer_mut("/properties/spec")
        .and_then(Value::as_object_mut)
    {
        spec.insert("not".to_owned(), device_beside_pods());
    }
    schema
}

/// With every type in its place and [`IN_CLUSTER`] in it.
fn generated() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = SchemaGenerator::new(settings)
        .into_root_schema_for::<GpuSharingPolicy>()
        .to_value();
    with_units(&mut schema);
    schema
}

/// Says after the description of each amount that it is one.
fn with_units(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let is_amount = fields
                .get(IN_CLUSTER)
                .is_some_and(|instead| instead["type"] == "integer");
            if let (true, Some(Value::String(description))) = (is_amount, fields.get_mut("description")) {
                description.push_str(" In MiB (2^20 bytes), a whole number without unit.");
            }
            fields.values_mut().for_each(with_units);
        }
        Value::Array(items) => items.iter_mut().for_each(with_units),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A device has one policy, whoever's pods are on it (VG903).
fn device_beside_pods() -> Value {
    let given = |field: &str| json!({"required": [field], "properties": {field: {"not": {"type": "null"}}}});
    json!({
        "required": ["device", "match"],
        "properties": {
            "device": {"type": "object"},
            "match": {"type": "object", "anyOf": [given("namespaces"), given("pods"), given("expression")]},
        },
    })
}

/// Takes out what is no part of the document: notes for the definition, and Rust's defaults, which are none of the policy.
fn clean(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove(IN_CLUSTER);
            // The name of a property stands below `properties`, where it is kept.
            if fields.get("default").is_some_and(|value| !is_schema(value)) {
                fields.remove("default");
            }
            if fields
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|format| format.starts_with("uint"))
            {
                fields.remove("format");
            }
            fields.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_schema(value: &Value) -> bool {
    value.get("type").is_some() || value.get("anyOf").is_some()
}

#[cfg(test)]
mod tests;
