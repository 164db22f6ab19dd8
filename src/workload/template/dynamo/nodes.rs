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
/// ai-dynamo/dynamo. By an annotation, and in pods of old operators, vLLM's ranks are spread by Ray instead; the devices of
/// a pod are the same.
pub(super) fn spread(container: &mut Container, nodes: u32, at: &FieldPath) {
    if nodes <= 1 {
        return;
    }
    let devices = count::devices(container);
    let mut made = match &container.made {
        Some(made) => made.clone(),
        None => written(container, at),
    };
    let args = match &container.made {
        Some(made) => made.commands.concat(),
        None => container.args.clone().unwrap_or_default(),
    };
    let words = made.commands.first_mut();
    let module = MODULES.into_iter().find(|(module, _)| {
        words
            .as_ref()
            .is_some_and(|words| starts(words, module).is_some())
    });
    let is_told = match (words, module) {
        (Some(words), Some((module, always))) => match flags(&args, nodes, devices, always) {
            Some(flags) => insert(words, module, &flags),
            // It fits one node, or the operator does not see its size: nothing spreads it.
            None => return,
        },
        _ => None,
    };
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
fn flags(args: &[String], nodes: u32, devices: u32, always: bool) -> Option<String> {
    let spread = format!("--nnodes {nodes} --node-rank 0");
    if always {
        return Some(spread);
    }
    if devices == 0 {
        return None;
    }
    let written: Vec<&str> = args.iter().flat_map(|word| word.split_whitespace()).collect();
    // The operator knows the long names only, in the arguments alone, with the value as the next word.
    let size = |name: &str| {
        let size = written.windows(2).find_map(|pair| match pair {
            [option, value] if *option == name => value.parse::<u32>().ok(),
            _ => None,
        });
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

/// The word that a module stands in, and the byte behind it; in a command line the word is the module.
fn starts(words: &[String], module: &str) -> Option<(usize, usize)> {
    if let Some(place) = words.iter().position(|word| word == module) {
        return Some((place, module.len()));
    }
    words.iter().enumerate().find_map(|(place, word)| {
        let at = word.find(module)? + module.len();
        let rest = word.get(at..)?;
        (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some((place, at))
    })
}

/// Puts options behind the module of a command line or of a script: where they begin, and how many words are new; `None`
/// where it starts another one.
fn insert(words: &mut Vec<String>, module: &str, flags: &str) -> Option<(usize, usize)> {
    let (place, at) = starts(words, module)?;
    let word = words.get_mut(place)?;
    if word == module {
        let before = words.len();
        words.splice(place + 1..=place, flags.split(' ').map(str::to_owned));
        return Some((place + 1, words.len() - before));
    }
    word.insert_str(at, &format!(" {flags}"));
    Some((0, 0))
}
