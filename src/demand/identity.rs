//! Whether what a pod takes can depend on which replica of its template it is.

use super::Demand;
use crate::engine;
use crate::workload::Malformed;
use crate::workload::pod::Pod;

/// The fields of itself that a container can be told ([`crate::invocation`] reads no others) and that differ from replica to
/// replica.
const OWN: [&str; 2] = ["metadata.name", "spec.nodeName"];

/// Whether it can. A container that is told its name or its node and uses the variable in a text of its own can do anything
/// with it; where it does not, another reading under other names shows whether its engine knows the variable.
pub(crate) fn matters(
    pod: &Pod,
    demand: &Demand,
    read: impl FnOnce(&Pod) -> Result<Demand, Malformed>,
) -> bool {
    let mut variables = Vec::new();
    for placed in engine::containers(pod) {
        for variable in &placed.container.env {
            let from = variable.value_from.as_ref();
            let field = from.and_then(|from| from.field_ref.as_ref());
            if field.is_some_and(|field| OWN.contains(&field.field_path.as_str())) {
                variables.push(variable.name.as_str());
            }
        }
    }
    if variables.is_empty() {
        return false;
    }
    let uses = |text: &String| variables.iter().any(|name| text.contains(name));
    let is_used = engine::containers(pod).any(|placed| {
        let container = placed.container;
        let words = container.command.iter().chain(&container.args).flatten();
        let values = container
            .env
            .iter()
            .filter_map(|variable| variable.value.as_ref());
        words.chain(values).any(uses)
    });
    if is_used {
        return true;
    }
    let mut other = pod.clone();
    other.metadata.name.push_str("-other");
    if let Some(node) = &mut other.spec.node_name {
        node.push_str("-other");
    }
    !read(&other).is_ok_and(|read| read == *demand)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::engine::NoSources;
    use crate::policy::PolicySet;

    fn does(args: &Value, env: &Value) -> bool {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "llm-0", "namespace": "a"},
            "spec": {"nodeName": "n-1", "containers": [{
                "name": "c", "image": "vllm/vllm-openai:v0.11.0", "args": args, "env": env,
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }]},
        }))
        .unwrap();
        let policies = PolicySet::built_in();
        let read = |pod: &Pod| Demand::read_amounts(pod, &BTreeMap::new(), &policies, &NoSources);
        matters(&pod, &read(&pod).unwrap(), read)
    }

    #[test]
    fn a_variable_that_is_used_or_that_the_engine_reads_matters() {
        let told = |name: &str, field: &str| json!([{"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}]);
        let plain = json!(["--model", "m"]);
        assert!(!does(&plain, &json!([])));
        assert!(!does(&plain, &told("NODE_NAME", "spec.nodeName")));
        assert!(!does(&plain, &told("IP", "status.podIP")));
        assert!(!does(&json!(["--model", "$(IP)"]), &told("IP", "status.podIP")));
        assert!(does(&json!(["--model", "$(POD)"]), &told("POD", "metadata.name")));
        assert!(does(
            &json!(["--gpu-memory-utilization", "$(POD)"]),
            &told("POD", "metadata.name")
        ));
        assert!(does(&plain, &told("CUDA_VISIBLE_DEVICES", "metadata.name")));
    }
}
