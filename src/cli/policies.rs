//! The policies in force: files of `--policy-dir` and policy objects of the cluster or the input.

use std::path::Path;
use std::sync::Arc;

use super::{Failure, input};
use crate::policy::PolicySet;
use crate::policy::file::{self, Document};
use crate::snapshot::Snapshot;

/// Every policy in force, before the built-in default.
pub(super) fn load(folder: Option<&Path>, snapshot: &Snapshot) -> Result<Arc<PolicySet>, Failure> {
    let mut documents = from_folder(folder)?;
    for object in snapshot.policies() {
        documents.push(file::from_value(&object.value, &object.origin.to_string())?);
    }
    Ok(Arc::new(PolicySet::from_documents(documents)?))
}

pub(super) fn from_folder(folder: Option<&Path>) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    let Some(folder) = folder else {
        return Ok(documents);
    };
    if !folder.is_dir() {
        return Err(Failure::new(format!(
            "--policy-dir {}: is not a folder",
            folder.display()
        )));
    }
    if input::is_empty(folder)? {
        return Ok(documents);
    }
    input::each(&[folder.to_owned()], input::MAX_INPUT_BYTES, &mut |source| {
        let text = String::from_utf8(source.bytes)
            .map_err(|_| Failure::new(format!("{}: is not UTF-8; save the file as UTF-8", source.name)))?;
        documents.extend(file::parse(&text, &source.name)?);
        Ok(())
    })?;
    Ok(documents)
}

/// The content of a policy folder, to see whether it has changed.
pub(super) fn content(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut files = Vec::new();
    if input::is_empty(folder)? {
        return Ok(files);
    }
    input::each(&[folder.to_owned()], input::MAX_INPUT_BYTES, &mut |source| {
        files.push((source.name, source.bytes));
        Ok(())
    })?;
    Ok(files)
}
