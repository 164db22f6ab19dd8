//! Entries of `spec.models` that cannot be meant.

use std::collections::BTreeMap;

use super::{at, below, key};
use crate::model;
use crate::policy::error::Complaints;
use crate::policy::spec::ModelEntry;
use crate::policy::tree::Step;

/// Complains about every entry.
pub(super) fn check(models: &[ModelEntry], complaints: &mut Complaints<'_>) {
    let path = |index| below(&at("spec.models"), Step::Item(index));
    for (index, model) in models.iter().enumerate() {
        if model.is_whole() {
            whole(model, &path(index), complaints);
        } else {
            short(model, &path(index), complaints);
        }
    }
    // Two entries that say different things of one model.
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, model) in models.iter().enumerate() {
        let names = model.names.iter().flatten();
        for name in model.id.iter().chain(names) {
            let before = *seen.entry(name.to_ascii_lowercase()).or_insert(index);
            if before != index {
                complaints.add(
                    &path(index),
                    format!("{name:?} is the name of spec.models[{before}] too: a model has one entry"),
                );
            }
        }
    }
}

fn short(model: &ModelEntry, path: &[Step], complaints: &mut Complaints<'_>) {
    let whole = model.belongs_to_whole();
    if let Some(field) = whole.first() {
        complaints.add_missing(
            path,
            format!(
                "has {field} and no id: a whole entry, as vramgate model add prints it, has an id; a short one has \
                 names, weightsMiB, kvBytesPerToken, attentionHeads and maxModelLen"
            ),
        );
        return;
    }
    let names = model.names.as_deref().unwrap_or_default();
    if names.is_empty() {
        complaints.add_missing(path, "has no names: name the model as it is loaded");
    }
    for (index, name) in names.iter().enumerate() {
        if name.trim().is_empty() || name.chars().all(|letter| letter == '*') {
            complaints.add(
                &below(&key(path, "names"), Step::Item(index)),
                format!("{name:?} would be every model: write more of the name"),
            );
        }
    }
    match &model.weights {
        None => complaints.add_missing(
            path,
            "has no weightsMiB: give the size of the weights, or a whole entry as vramgate model add prints it",
        ),
        Some(weights) if weights.0.get() == 0 => {
            complaints.add(&key(path, "weightsMiB"), "is 0: a model has weights");
        }
        Some(_) => {}
    }
    let sizes = [
        ("kvBytesPerToken", model.kv_bytes_per_token),
        ("attentionHeads", model.attention_heads.map(u64::from)),
        ("maxModelLen", model.max_model_len),
    ];
    for (name, size) in sizes {
        if size == Some(0) {
            complaints.add(&key(path, name), "is 0: leave it out where it is not known");
        }
    }
}

fn whole(entry: &ModelEntry, path: &[Step], complaints: &mut Complaints<'_>) {
    let of_short = [
        ("weightsMiB", "checkpointBytes", entry.weights.is_some()),
        (
            "attentionHeads",
            "numAttentionHeads",
            entry.attention_heads.is_some(),
        ),
        (
            "maxModelLen",
            "maxPositionEmbeddings",
            entry.max_model_len.is_some(),
        ),
    ];
    for (name, instead, given) in of_short {
        if given {
            complaints.add(
                &key(path, name),
                format!("stands beside id and belongs to the short form: write {instead}, or leave id out"),
            );
        }
    }
    let lacks = entry.lacks();
    if !lacks.is_empty() {
        complaints.add_missing(
            path,
            format!(
                "has an id and lacks {}: vramgate model add prints a whole entry; a short one has no id",
                lacks.join(", ")
            ),
        );
    }
    if entry.id.as_deref().is_some_and(|id| id.trim().is_empty()) {
        complaints.add(&key(path, "id"), "is empty: give the model a short name");
    }
    if let (Some(heads), Some(groups)) = (entry.num_attention_heads, entry.num_key_value_heads)
        && heads > 0
        && groups > 0
        && !heads.is_multiple_of(groups)
    {
        complaints.add(
            &key(path, "numKeyValueHeads"),
            format!("{groups} does not divide the {heads} attention heads: copy both from config.json"),
        );
    }
    // What is wrong with sizes by themselves; one at a time, as `vramgate fit --models` tells it.
    if let Some(read) = entry.clone().whole()
        && let Err(error) = model::check(&read)
    {
        let field = error
            .field()
            .split('.')
            .fold(path.to_vec(), |path: Vec<Step>, part| key(&path, part));
        complaints.add(&field, error.told());
    }
}
