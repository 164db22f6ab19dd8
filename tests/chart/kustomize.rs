//! The kustomize base is the chart's output with an authority of its own: it needs nothing else in the cluster, and its
//! registrations follow the policies that somebody puts into the ConfigMap.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::generated::{files_are_current, is_current};
use crate::helm::{render_as, sources};

const HEADER: &str = "# Generated from charts/vramgate by its tests: change the chart, not this file.\n";

/// Without what says that Helm manages it.
fn plain(mut object: Value) -> Value {
    let metadata = &mut object["metadata"];
    drop_labels(&mut metadata["labels"]);
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.remove("helm.sh/resource-policy");
        if annotations.is_empty() {
            metadata.as_object_mut().unwrap().remove("annotations");
        }
    }
    if object["kind"] == "Deployment" {
        drop_labels(&mut object["spec"]["template"]["metadata"]["labels"]);
    }
    object
}

fn drop_labels(labels: &mut Value) {
    if let Some(labels) = labels.as_object_mut() {
        labels.remove("helm.sh/chart");
        labels.remove("app.kubernetes.io/managed-by");
    }
}

#[test]
fn the_base_is_current() {
    files_are_current();
    let folder = sources().join("install/kustomize");
    let rendered = render_as(
        &json!({"image": {"repository": "vramgate"}, "certificates": {"mode": "builtIn"}}),
        &["--no-hooks", "--namespace", "vramgate"],
    );
    let mut text = HEADER.to_owned();
    for object in rendered.0 {
        let body = serde_saphyr::to_string(&plain(object)).unwrap();
        write!(text, "---\n{}\n", body.trim_end()).unwrap();
    }
    is_current(&folder.join("vramgate.yaml"), &text);
    let kustomization = std::fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
    assert!(kustomization.contains("- vramgate.yaml"));
}
