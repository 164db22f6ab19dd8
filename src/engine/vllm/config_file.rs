//! The file of `--config`: a flat YAML mapping whose keys become options.

use super::options::Entrypoint;
use crate::engine::Version;
use crate::engine::argparse::yaml::Node;

/// The words that the entries of a file add to the command line.
pub(super) fn words(entries: &[(String, Node)], version: Version, entrypoint: Entrypoint) -> Vec<String> {
    let mut words = Vec::with_capacity(2 * entries.len());
    for (key, node) in entries {
        let key = format!("--{key}");
        match node {
            Node::Bool(true) if version >= Version::new(0, 7, 0) => words.push(key),
            // Only the parser that loads the file knows its own flags, and with `serve` that is not the server's.
            Node::Bool(false) if version >= Version::new(0, 28, 0) && entrypoint == Entrypoint::ApiServer => {
                words.push(format!("--no-{}", &key[2..]));
            }
            Node::Bool(false) if version >= Version::new(0, 7, 0) => {}
            Node::List(list) if version >= Version::new(0, 10, 0) => {
                if !list.is_empty() {
                    words.push(key);
                    words.extend(list.iter().map(Node::text));
                }
            }
            Node::Map(_) if version >= Version::new(0, 14, 0) => {
                words.push(key);
                words.push(node.json().to_string());
            }
            other => {
                words.push(key);
                words.push(other.text());
            }
        }
    }
    words
}
