//! The schemas are those that are kept, take what the reader takes, and refuse what it refuses.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::policy::file;

fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares with what is kept; `UPDATE_TEXTS=1` writes it.
fn kept(path: &str, text: &str) {
    let path = repository(path);
    if std::env::var_os("UPDATE_TEXTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let before = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        before == text,
        "{} is not what the types say; run with UPDATE_TEXTS=1 and look at the change",
        path.display()
    );
}

#[test]
fn the_json_schema_is_the_one_that_is_kept() {
    let text = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
    kept("docs/schema/gpusharingpolicy.json", &text);
}

#[test]
fn the_definition_is_the_one_that_is_kept() {
    let text = serde_saphyr::to_string(&definition()).unwrap();
    kept("docs/schema/gpusharingpolicy.crd.yaml", &text);
}

fn values(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

fn errors(validator: &jsonschema::Validator, document: &Value) -> Vec<String> {
    let errors = validator.iter_errors(document);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn examples_and_the_built_in_default_are_valid() {
    let validator = jsonschema::draft202012::new(&json_schema()).unwrap();
    let mut texts = vec![include_str!("../built-in-default.yaml").to_owned()];
    for entry in fs::read_dir(repository("policies")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            texts.push(fs::read_to_string(path).unwrap());
        }
    }
    assert!(texts.len() > 5);
    for document in texts.iter().flat_map(|text| values(text)) {
        assert_eq!(errors(&validator, &document), Vec::<String>::new(), "{document}");
    }
}

const HEAD: &str = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: p}\n";

/// Each is refused by the reader and by the schema.
#[test]
fn what_is_broken_is_refused_by_both() {
    let validator = jsonschema::draft202012::new(&json_schema()).unwrap();
    for spec in [
        "{bugdet: 1}",
        "{device: {bugdet: 1}}",
        "{device: {budget: 0}}",
        "{device: {budget: 1.5}}",
        "{device: {budget: \"0.1234567\"}}",
        "{device: {budget: \"1.000001\"}}",
        "{device: {budget: 90%}}",
        "{device: {budget: -0.5}}",
        "{device: {reserve: {fraction: 1}}}",
        "{device: {reserve: {atLeastMiB: 512Mi}}}",
        "{device: {reserve: {atLeastMiB: -1}}}",
        "{device: {evidence: []}}",
        "{device: {evidence: [seen]}}",
        "{device: {perSlot: half}}",
        "{device: {pluginConfig: no-namespace}}",
        "{device: {tenants: all}}",
        "{device: {tenants: [team-a]}}",
        "{device: {products: [{product: NVIDIA-X}]}}",
        "{device: {budget: 0.5}, match: {pods: {matchLabels: {a: b}}}}",
        "{device: {budget: 0.5}, match: {namespaces: {}}}",
        "{device: {budget: 0.5}, match: {expression: \"true\"}}",
        "{match: {expression: \"\"}}",
        "{match: {pods: {matchExpressions: [{key: a, operator: Is}]}}}",
        "{match: {pods: {matchExpressions: [{key: a}]}}}",
        "{match: {pods: [a]}}",
        "{mode: deny}",
        "{priority: high}",
        "{codes: {error: [VG999]}}",
        "{codes: {errors: [VG201]}}",
        "{enforcement: always}",
        "{unknown: {timeSliced: maybe}}",
        "{unknown: {timeSliced: {assume: 2}}}",
        "{unknown: {timeSliced: {guess: 0.5}}}",
        "{defaults: {gpuMemoryUtilization: fair}}",
        "{defaults: {gpuMemoryUtilization: 0}}",
        "{mps: {memoryLimit: all}}",
        "{mps: {memoryLimit: 0}}",
        "{mps: {threadPercentage: 101}}",
        "{mps: {override: 1}}",
        "{mig: {profiles: []}}",
        "{mig: {profiles: all}}",
        "{sources: {configMaps: list}}",
        "{declarations: {trust: everybody}}",
        "{engines: [{engine: vllm}]}",
        "{engines: [{images: []}]}",
        "{overheadMiB: {vllm: {\"<0.8\": 1}}}",
        "{overheadMiB: {other: 1.5}}",
        "{models: [{names: [a], weightsMiB: many}]}",
        "{messages: {link: example.com}}",
        "[]",
    ] {
        let text = format!("{HEAD}spec: {spec}\n");
        assert!(file::parse(&text, "p").is_err(), "the reader takes {spec}");
        let document = values(&text).remove(0);
        assert!(
            !errors(&validator, &document).is_empty(),
            "the schema takes {spec}"
        );
    }
    for text in [
        HEAD.to_owned(),
        "{}".to_owned(),
        format!("{HEAD}spec: {{}}\nspecs: {{}}\n"),
        format!("{HEAD}spec: {{}}\n").replace("v1alpha1", "v1"),
        format!("{HEAD}spec: {{}}\n").replace("GpuSharingPolicy", "Policy"),
        format!("{HEAD}spec: {{}}\n").replace("name: p", "name: P"),
        format!("{HEAD}spec: {{}}\n").replace("name: p", "labels: {}"),
    ] {
        assert!(
            file::parse(&text, "p").is_err_and(|errors| !errors.0.is_empty()),
            "{text}"
        );
        let document = values(&text).remove(0);
        assert!(!errors(&validator, &document).is_empty(), "{text}");
    }
}

/// Each is taken by the reader and by the schema.
#[test]
fn what_is_written_otherwise_is_taken_by_both() {
    let validator = jsonschema::draft202012::new(&json_schema()).unwrap();
    for spec in [
        "{}",
        "{device: {budget: 1}}",
        "{device: {budget: 0.9}}",
        "{device: {budget: \"1.0\"}}",
        "{device: {budget: \".5\"}}",
        "{device: {budget: \"0.900000000\"}}",
        "{device: {reserve: {fraction: 0}}}",
        "{device: {reserve: {fraction: \"0.0\"}}}",
        "{device: {tenants: [[a, b], [c]]}}",
        "{device: {pluginConfig: null}, match: null}",
        "{device: {budget: 0.5}, match: {nodes: {matchLabels: {a: b}}, pods: null}}",
        "{unknown: {timeSliced: {assume: 0.3}, mps: clientLimit}}",
        "{defaults: {gpuMemoryUtilization: \"0.225\"}}",
        "{mps: {memoryLimit: 4096, threadPercentage: 25}}",
        "{mig: {profiles: [1g.10gb, 1g.10gb+me]}}",
        "{declarations: {trust: [team-a]}}",
        "{models: [{names: [a/*], weightsMiB: 100}]}",
    ] {
        let text = format!("{HEAD}spec: {spec}\n");
        file::parse(&text, "p").unwrap_or_else(|errors| panic!("{errors}"));
        let document = values(&text).remove(0);
        assert_eq!(errors(&validator, &document), Vec::<String>::new(), "{spec}");
    }
}

/// What the API server demands of every schema of a definition.
fn is_structural(schema: &Value, at: &str) {
    let fields = schema.as_object().unwrap_or_else(|| panic!("{at} is no schema"));
    for (key, value) in fields {
        match key.as_str() {
            "properties" => {
                for (name, schema) in value.as_object().unwrap() {
                    is_structural(schema, &format!("{at}.{name}"));
                }
            }
            "items" | "additionalProperties" => is_structural(value, &format!("{at}.{key}")),
            "type" => assert!(value.is_string(), "{at} has several types"),
            "description" | "enum" | "pattern" | "required" | "minimum" | "maximum" | "minLength"
            | "maxLength" | "minItems" | "maxItems" | "maxProperties" | "format" => {}
            other => assert!(other.starts_with("x-kubernetes-"), "{at} has {other}"),
        }
    }
    let is_open = fields.contains_key("x-kubernetes-preserve-unknown-fields");
    let is_mixed = fields.contains_key("x-kubernetes-int-or-string");
    assert!(
        fields.contains_key("type") || is_open || is_mixed,
        "{at} has no type"
    );
    if fields.get("type") == Some(&json!("array")) {
        assert!(
            fields.contains_key("items") && fields.contains_key("maxItems"),
            "{at}"
        );
    }
}

#[test]
fn the_definition_is_structural_and_closed_and_has_its_rules() {
    let definition = definition();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    is_structural(schema, "");
    let text = schema.to_string();
    // Words beside lists, and words beside a map: the API server has no type for them.
    assert_eq!(text.matches("preserve-unknown-fields").count(), 7);
    assert_eq!(text.matches("\"rule\":").count(), 15);
    let spec = &schema["properties"]["spec"]["properties"];
    assert_eq!(spec["device"]["properties"]["budget"]["type"], "string");
    assert_eq!(spec["mode"]["enum"], json!(["enforce", "warn", "shadow"]));
    let wanted = json_schema();
    let fields = |schema: &Value| -> Vec<String> { schema.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(
        fields(spec),
        fields(&wanted["properties"]["spec"]["properties"]),
        "the definition has other fields than the document"
    );
}
