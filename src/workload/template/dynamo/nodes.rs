//! An engine that spans nodes: what the operator adds to its command line.

use std::collections::BTreeMap;

use super::BY;
use crate::finding::FieldPath;
use crate::workload::pod::{Container, Made};
use crate::workload::template::{Origin, count};

/// A module and whether the operator tells it the nodes whatever its sizes are.
const MODULES: [(&str, bool); 2] = [("dynamo.vllm", false), ("dynamo.sglang", true)];

/// Completes a container whose replica has a pod on each of several nodes, and which stands at `at` of the object. Where the
/// operator writes nothing into the line, MPI or Ray spreads the ranks over the pods.
///
/// Source: `backend_vllm.go`, `backend_sglang.go` and `backend_trtllm.go` in `deploy/operator/internal/dynamo` of
/// ai-dynamo/dynamo.
pub(super) fn spread(container: &mut Container, nodes: u32, at: &FieldPath) {
    if nodes <= 1 {
        return;
    }
    let devices = count::devices(container);
    let mut made = match &container.made {
        Some(made) => made.clone(),
        None => written(container, at),
    };
    let is_told = made.commands.first_mut().and_then(|words| {
        MODULES.into_iter().find_map(|(module, always)| {
            let flags = flags(words, nodes, devices, always)?;
            insert(words, module, &flags)
        })
    });
    match is_told {
        Some((place, added)) => {
            made.origins = std::mem::take(&mut made.origins)
                .into_iter()
                .map(|((command, word), origin)| {
                    let moved = if command == 0 && word >= place { added } else { 0 };
                    ((command, word + moved), origin)
                })
                .collect();
            BY.clone_into(&mut made.by);
            container.made = Some(made);
        }
        None => container.spread_over = nodes,
    }
}

/// The line as it is written.
fn written(container: &Container, at: &FieldPath) -> Made {
    let fields = [("command", &container.command), ("args", &container.args)];
    let mut words = Vec::new();
    let mut origins = BTreeMap::new();
    for (field, list) in fields {
        for (index, word) in list.iter().flatten().enumerate() {
            origins.insert((0, words.len()), Origin::own(at.field(field).index(index)));
            words.push(word.clone());
        }
    }
    Made {
        commands: vec![words],
        behind_entrypoint: container.command.as_deref().unwrap_or_default().is_empty(),
        origins,
        ..Made::default()
    }
}

/// Options for an engine whose ranks do not fit the devices of one node: those of a node of many where its ranks are one
/// group, and the replicas of this node where they are several.
fn flags(words: &[String], nodes: u32, devices: u32, always: bool) -> Option<String> {
    let spread = format!("--nnodes {nodes} --node-rank 0");
    if always {
        return Some(spread);
    }
    let written: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
    // The operator knows the long names only.
    let size = |name: &str| {
        let value = written.iter().enumerate().find_map(|(index, word)| {
            let rest = word.strip_prefix(name)?;
            match rest.strip_prefix('=') {
                Some(value) => Some(value),
                None if rest.is_empty() => written.get(index + 1).copied(),
                None => None,
            }
        });
        let size = value.and_then(|value| value.parse::<u32>().ok());
        size.unwrap_or(1).max(1)
    };
    let ranks = size("--tensor-parallel-size").saturating_mul(size("--pipeline-parallel-size"));
    if ranks > devices {
        return Some(format!("--distributed-executor-backend mp {spread}"));
    }
    let replicas = size("--data-parallel-size");
    (ranks.saturating_mul(replicas) > devices)
        .then(|| format!("--data-parallel-size-local {}", devices / ranks))
}

/// Puts options behind the module of a command line or of a script: where they begin, and how many words are new; `None`
/// where it starts another one.
fn insert(words: &mut Vec<String>, module: &str, flags: &str) -> Option<(usize, usize)> {
    if let Some(at) = words.iter().position(|word| word == module) {
        let before = words.len();
        words.splice(at + 1..=at, flags.split(' ').map(str::to_owned));
        return Some((at + 1, words.len() - before));
    }
    let (word, at) = words.iter_mut().find_map(|word| {
        let at = word.find(module)? + module.len();
        let rest = word.get(at..)?;
        (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some((word, at))
    })?;
    word.insert_str(at, &format!(" {flags}"));
    Some((0, 0))
}
