//! `vramgate crds`: the custom resource definitions, ready for `kubectl apply -f -`.

use super::args::{Crds, Output};
use super::{Failure, output};
use crate::cluster::{DEFINITION, DEFINITION_NAME};
use crate::manifest::{Limits, objects};
use crate::policy::schema;

/// Prints them.
pub(super) fn run(args: &Crds) -> Result<(), Failure> {
    match args.output {
        Output::Text => {
            let policies = serde_saphyr::to_string(&schema::definition())
                .map_err(|error| Failure::new(format!("{}: {error}", schema::DEFINITION_NAME)))?;
            output::print(&format!("{DEFINITION}---\n{policies}"))
        }
        Output::Json => {
            let mut definitions: Vec<_> = objects(DEFINITION.as_bytes(), DEFINITION_NAME, Limits::INPUT)?
                .into_iter()
                .map(|object| object.value)
                .collect();
            definitions.push(schema::definition());
            output::print_json(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": definitions}))
        }
    }
}
