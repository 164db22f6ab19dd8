//! Variables of a container as RFC 6902 operations.

use json_patch::PatchOperation;
use serde_json::json;

use crate::decision::fixes::operation;
use crate::workload::pod::Container;

/// A variable that is to have a value.
pub(super) struct Variable {
    pub(super) name: &'static str,
    pub(super) value: String,
    /// Its place in `env`, where it stands there.
    pub(super) at: Option<usize>,
}

/// The operations that give a container these variables. What is replaced is replaced whole, since a variable has a value
/// or a source of one and never both; what is new comes last, so that no index moves. An `env` that is absent, null or
/// empty is made.
pub(super) fn operations(
    container: &Container,
    pointer: &str,
    variables: &[Variable],
) -> Vec<PatchOperation> {
    let entry = |variable: &Variable| json!({"name": variable.name, "value": variable.value});
    if container.env.is_empty() {
        let list: Vec<_> = variables.iter().map(entry).collect();
        return operation("add", &format!("{pointer}/env"), &list.into())
            .into_iter()
            .collect();
    }
    let write = |variable: &Variable| match variable.at {
        Some(index) => operation("replace", &format!("{pointer}/env/{index}"), &entry(variable)),
        None => operation("add", &format!("{pointer}/env/-"), &entry(variable)),
    };
    variables.iter().filter_map(write).collect()
}

/// A key as a token of a JSON pointer (RFC 6901).
pub(super) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped_in_the_order_that_can_be_undone() {
        assert_eq!(escaped("vramgate.io/mutated"), "vramgate.io~1mutated");
        assert_eq!(escaped("a~1/b"), "a~01~1b");
    }
}
