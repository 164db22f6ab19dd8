//! `vramgate crds`: the custom resource definitions, ready for `kubectl apply -f -`.

use super::args::{Crds, Output};
use super::{Failure, output};
use crate::cluster::{DEFINITION, DEFINITION_NAME};
use crate::manifest::{Limits, objects};

/// Prints them.
pub(super) fn run(args: &Crds) -> Result<(), Failure> {
    match args.output {
        Output::Text => output::print(DEFINITION),
        Output::Json => {
            let definitions: Vec<_> = objects(DEFINITION.as_bytes(), DEFINITION_NAME, Limits::INPUT)?
                .into_iter()
                .map(|object| object.value)
                .collect();
            output::print_json(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": definitions}))
        }
    }
}
