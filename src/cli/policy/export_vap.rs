//! `vramgate policy export-vap`: base rules that the API server holds by itself.

use serde_json::json;

use crate::cli::args::{Output, PolicyExportVap};
use crate::cli::{Failure, input, output};
use crate::guard;
use crate::policy::PolicySet;
use crate::policy::file::{self, Document};

/// Prints the objects.
pub(super) fn run(args: &PolicyExportVap) -> Result<(), Failure> {
    let mut documents: Vec<Document> = Vec::new();
    for path in &args.files {
        if path.is_dir() && input::is_empty(path)? {
            continue;
        }
        for source in super::lint::sources(std::slice::from_ref(path))? {
            documents.extend(file::parse(&source.text, &source.name)?);
        }
    }
    let exported = guard::export(&PolicySet::from_documents(documents)?, &args.exempt_namespaces);
    for line in &exported.left_out {
        output::note(&format!("note: not exported: {}", output::clean(line)));
    }
    if args.output == Output::Json {
        return output::print_json(&json!({"apiVersion": "v1", "kind": "List", "items": exported.objects}));
    }
    let mut text = String::new();
    for object in &exported.objects {
        let body = serde_saphyr::to_string(object)
            .map_err(|error| Failure::new(format!("the object cannot be written as YAML: {error}")))?;
        text.push_str("---\n");
        text.push_str(body.trim_end());
        text.push('\n');
    }
    output::print(&text)
}
