use super::*;

const HEAD: &str = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: test}\n";

/// The errors of a policy with this `spec`, which begins on line 5.
fn errors_of(spec: &str) -> String {
    let indented: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    match parse(&format!("{HEAD}spec:\n{indented}"), "p.yaml") {
        Ok(documents) => format!("no error: {documents:?}"),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn dump() {
    for spec in [
        "device: {bugdet: 0.9}",
        "device: {budget: 1.2}",
        "device:\n  budget: 90",
        "device: {budget: 90%}",
        "device: {budget: \"0,9\"}",
        "device: {budget: 0}",
        "device: {budget: -0.5}",
        "device: {budget: .nan}",
        "device: {budget: 1e309}",
        "device: {budget: 72Gi}",
        "device: {budget: 0.1234567}",
        "device: {budget: [0.9]}",
        "device: {reserve: {fraction: 1}}",
        "device: {reserve: {atLeastMiB: 512Mi}}",
        "device: {reserve: {atLeastMiB: 0.5}}",
        "device: {reserve: {atLeastMiB: -1}}",
        "device: {perSlot: fairshare}",
        "device: {evidence: []}",
        "device: {evidence: [seen]}",
        "device: {tenants: sameNamespaces}",
        "device: {tenants: [a, b]}",
        "budget: 0.9",
        "mode: deny",
        "mode: off",
        "codes: {error: [VG999, VG201], warning: [VG201]}",
        "codes: {error: [201]}",
        "codes: {errors: [VG201]}",
        "match: {namespaces: {matchLabels: {team: a}}}\ndevice: {budget: 0.8}",
        "match: {namespaces: {matchLabels: {gpu: true}}}",
        "match: {nodes: {matchExpressions: [{key: a, operator: in, values: [b]}]}}",
        "match: {nodes: {matchExpressions: [{key: a, operator: In}]}}",
        "match: {nodes: {matchExpressions: [{operator: Exists, values: [b]}]}}",
        "match: {nodes: {team: a}}",
        "unknown: {timeSliced: clientLimit}",
        "unknown: {timeSliced: assume}",
        "unknown: {timeSliced: {assume: 2}}",
        "unknown: {timeSliced: {admit: 2}}",
        "unknown: {timeSliced: allow}",
        "unknown: {timeSliced: }\nmode: 3",
        "defaults: {gpuMemoryUtilization: fair}",
        "defaults: {gpuMemoryUtilization: 1.5}",
        "defaults: {gpuMemoryUtilization: true}",
        "mps: {threadPercentage: 200}",
        "mps: {override: \"yes\"}",
        "engines: [{engine: vlm, version: 0.11}]",
        "engines: [{images: [a/*], variables: {A: gpu}}]",
        "engines: [3, {images: [a], engine: vlm}]",
        "overheadMiB: {vllm: {\"<0.8\": 3}}",
        "priority: high",
        "priority: 1.5",
        "messages: {link: example.com}",
        "[1]",
        "device:\n  bugdet: 0.9\n  perSlot: fair\nmode: foo\nunknown: {exclusive: warn, mps: {assume: 3}}",
        "placement: {growth: [{}], missingFacts: shared}",
        "placement: {growth: [{matchLabels: {}}]}",
        "mode: [",
        "mode: warn\nmode: enforce",
    ] {
        println!("--- {spec}\n{}", errors_of(spec));
    }
    for text in [
        "",
        "---\n---\n",
        "a: b",
        "kind: Pod",
        "- 1",
        "x",
        "apiVersion: vramgate.io/v1\nkind: GpuSharingPolicy\nmetadata: {name: 3}\nspec: 3",
    ] {
        println!(
            "--- {text:?}\n{:?}",
            parse(text, "p.yaml").map_err(|e| e.to_string())
        );
    }
}
