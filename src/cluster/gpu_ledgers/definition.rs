//! The definition of the resource, as `vramgate crds` prints it.

/// The CustomResourceDefinition of `GpuLedger`, YAML.
pub const DEFINITION: &str = include_str!("definition.yaml");

/// Its name.
pub const DEFINITION_NAME: &str = "gpuledgers.vramgate.io";

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::cluster::gpu_ledgers::object;
    use crate::manifest::{Limits, objects};

    fn definition() -> Value {
        let mut all: Vec<Value> = objects(DEFINITION.as_bytes(), "definition.yaml", Limits::INPUT)
            .unwrap()
            .into_iter()
            .map(|object| object.value)
            .collect();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    /// Whether each field of `value` is one that `schema` knows, with its type.
    fn describe(value: &Value, schema: &Value, at: &str) {
        let kind = match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let at = format!("{at}.{name}");
                    let property = &schema["properties"][name];
                    assert!(property.is_object(), "the definition does not know {at}");
                    describe(value, property, &at);
                }
                "object"
            }
            Value::Array(items) => {
                for item in items {
                    describe(item, &schema["items"], &format!("{at}[]"));
                }
                "array"
            }
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            other => panic!("{at} is {other}"),
        };
        assert_eq!(schema["type"], kind, "{at}");
    }

    /// What the API server would prune, or refuse, must not be written.
    #[test]
    fn every_field_of_a_record_is_in_the_schema() {
        let definition = definition();
        assert_eq!(definition["metadata"]["name"], DEFINITION_NAME);
        let version = &definition["spec"]["versions"][0];
        let schema = &version["schema"]["openAPIV3Schema"]["properties"]["status"];
        describe(
            &object::status(&object::tests::record()).unwrap(),
            schema,
            "status",
        );
    }

    #[test]
    fn each_column_shows_a_field_that_is_written() {
        let definition = definition();
        let status = object::status(&object::tests::record()).unwrap();
        let columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
            .as_array()
            .unwrap();
        let names: Vec<&str> = columns
            .iter()
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["Devices", "Budget", "Promised", "Holders", "Reservations", "Age"]
        );
        for column in &columns[..5] {
            let path = column["jsonPath"].as_str().unwrap();
            let pointer = path.strip_prefix(".status").unwrap().replace('.', "/");
            assert!(status.pointer(&pointer).is_some(), "{path}");
        }
    }
}
