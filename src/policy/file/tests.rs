use super::*;
use crate::model::Catalogue;

const HEAD: &str = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: test}\n";

/// The errors of a policy with this `spec`, which begins on line 5.
fn errors_of(spec: &str) -> String {
    let indented = format!("\n{spec}").replace('\n', "\n  ");
    match parse(&format!("{HEAD}spec:{indented}\n"), "p.yaml") {
        Ok(documents) => format!("no error: {documents:?}"),
        Err(errors) => errors.to_string(),
    }
}

/// What stands in a `spec`, and the errors that it gives, each after the name of the file. Line 5 is the first of it.
const BAD_SPECS: &[(&str, &[&str])] = &[
    (
        "device: {bugdet: 0.9}",
        &["5:12: spec.device.bugdet: is no field of spec.device; did you mean budget?"],
    ),
    (
        "device: {budget: 1.2}",
        &["5:20: spec.device.budget: 1.2 is above 1: it is a fraction of the device, such as 0.90"],
    ),
    (
        "device:\n  budget: 90",
        &["6:13: spec.device.budget: 90 is above 1: it is a fraction of the device; 90 percent is 0.90"],
    ),
    (
        "device: {budget: 90%}",
        &[r#"5:20: spec.device.budget: "90%" is a percentage: write 0.90"#],
    ),
    (
        r#"device: {budget: "0,9"}"#,
        &[r#"5:20: spec.device.budget: "0,9" has a comma: write 0.9"#],
    ),
    (
        "device: {budget: 0}",
        &["5:20: spec.device.budget: 0 is not above 0: it is a fraction of the device, such as 0.90"],
    ),
    (
        "device: {budget: -0.5}",
        &["5:20: spec.device.budget: -0.5 is below 0"],
    ),
    (
        "device: {budget: .nan}",
        &[
            r#"5:20: spec.device.budget: ".nan" is not a decimal fraction with at most six places, such as 0.90"#,
        ],
    ),
    (
        "device: {budget: 1e309}",
        &[
            r#"5:20: spec.device.budget: "1e309" is not a decimal fraction with at most six places, such as 0.90"#,
        ],
    ),
    (
        "device: {budget: 72Gi}",
        &[
            r#"5:20: spec.device.budget: "72Gi" is an amount of memory, and a fraction of the device is meant, such as 0.90"#,
        ],
    ),
    (
        "device: {budget: 0.1234567}",
        &[
            r#"5:20: spec.device.budget: "0.1234567" is not a decimal fraction with at most six places, such as 0.90"#,
        ],
    ),
    (
        "device: {budget: [0.9]}",
        &["5:12: spec.device.budget: is a list, not a fraction of the device such as 0.90"],
    ),
    (
        "device: {reserve: {fraction: 1}}",
        &["5:32: spec.device.reserve.fraction: 1 keeps the whole device back: it has to be below 1"],
    ),
    (
        "device: {reserve: {atLeastMiB: 512Mi}}",
        &[r#"5:34: spec.device.reserve.atLeastMiB: "512Mi" has a unit: the field counts MiB, write 512"#],
    ),
    (
        "device: {reserve: {atLeastMiB: 0.5}}",
        &[r#"5:34: spec.device.reserve.atLeastMiB: "0.5" is not a whole number of MiB, such as 512"#],
    ),
    (
        "device: {reserve: {atLeastMiB: -1}}",
        &[r#"5:34: spec.device.reserve.atLeastMiB: "-1" is not a whole number of MiB, such as 512"#],
    ),
    (
        "device: {perSlot: fairshare}",
        &[r#"5:21: spec.device.perSlot: "fairshare" is not known; did you mean fairShare?"#],
    ),
    (
        "device: {evidence: []}",
        &["5:12: spec.device.evidence: is empty: then nothing would ever count; leave it out, or name any"],
    ),
    (
        "device: {evidence: [seen]}",
        &[r#"5:23: spec.device.evidence[0]: "seen" is not known; known are any, spread, observed"#],
    ),
    (
        "device: {tenants: sameNamespaces}",
        &[r#"5:21: spec.device.tenants: "sameNamespaces" is not known; did you mean sameNamespace?"#],
    ),
    (
        "device: {tenants: [a, b]}",
        &[
            r#"5:22: spec.device.tenants[0]: is "a", not a list"#,
            r#"5:25: spec.device.tenants[1]: is "b", not a list"#,
        ],
    ),
    (
        "device: {tenants: [[a, b], [b, C]]}",
        &[
            r#"5:31: spec.device.tenants[1][0]: "b" stands in set 0 already: a namespace belongs to one set"#,
            r#"5:34: spec.device.tenants[1][1]: "C" is no name of a namespace"#,
        ],
    ),
    (
        "access: {exempt: {images: [\"*\", \"a b\"]}}",
        &[
            "5:30: spec.access.exempt.images[0]: means every image: set the rules themselves to ignore instead",
            r#"5:35: spec.access.exempt.images[1]: "a b" is no pattern of an image reference"#,
        ],
    ),
    (
        "access: {exempt: {pods: {}}}",
        &["5:21: spec.access.exempt.pods: selects every pod: name the labels of the pods that are exempt"],
    ),
    (
        "access: {runtimeClasses: [\"it's\"]}",
        &[r#"5:29: spec.access.runtimeClasses[0]: "it's" is no name of a runtime class"#],
    ),
    (
        "budget: 0.9",
        &["5:3: spec.budget: is no field of spec; it belongs to spec.device"],
    ),
    (
        "mode: deny",
        &[r#"5:9: spec.mode: "deny" is not known; known are enforce, warn, shadow"#],
    ),
    (
        "mode: off",
        &[r#"5:9: spec.mode: "off" is not known; known are enforce, warn, shadow"#],
    ),
    (
        "codes: {error: [VG999, VG201], warning: [VG201]}",
        &[
            r#"5:19: spec.codes.error[0]: "VG999" is no finding code; the codes stand in docs/codes/README.md"#,
            "5:44: spec.codes.warning[0]: VG201 stands in error already: a code has one severity",
        ],
    ),
    (
        "codes: {error: [201]}",
        &["5:19: spec.codes.error[0]: is the number 201, not a text: put it in quotes"],
    ),
    (
        "codes: {errors: [VG201]}",
        &["5:11: spec.codes.errors: is no field of spec.codes; did you mean error?"],
    ),
    (
        "match: {namespaces: {matchLabels: {team: a}}}\ndevice: {budget: 0.8}",
        &[
            "6:3: spec.device: stands beside match.namespaces, but a device has one policy, whoever's pods are on it (VG903): move it to a policy that matches by nodes alone",
        ],
    ),
    (
        "match: {namespaces: {matchLabels: {gpu: true}}}",
        &["5:43: spec.match.namespaces.matchLabels.gpu: is true, not a text (put it in quotes)"],
    ),
    (
        "match: {nodes: {matchExpressions: [{key: a, operator: in, values: [b]}]}}",
        &[r#"5:57: spec.match.nodes.matchExpressions[0].operator: "in" is not known; did you mean In?"#],
    ),
    (
        "match: {nodes: {matchExpressions: [{key: a, operator: In}]}}",
        &["5:38: spec.match.nodes.matchExpressions[0]: In needs values"],
    ),
    (
        "match: {nodes: {matchExpressions: [{operator: Exists, values: [b]}]}}",
        &[
            "5:38: spec.match.nodes.matchExpressions[0]: has no key: name the label",
            "5:57: spec.match.nodes.matchExpressions[0].values: Exists takes no values",
        ],
    ),
    (
        "match: {nodes: {team: a}}",
        &[
            "5:19: spec.match.nodes.team: is no field of spec.match.nodes; known are matchLabels, matchExpressions",
        ],
    ),
    (
        "unknown: {timeSliced: clientLimit}",
        &[
            r#"5:25: spec.unknown.timeSliced: clientLimit exists only under mps; known here are admit, deny, warn and {assume: "0.90"}"#,
        ],
    ),
    (
        "unknown: {timeSliced: assume}",
        &["5:25: spec.unknown.timeSliced: lacks its value: write it as a map with one entry"],
    ),
    (
        "unknown: {timeSliced: {assume: 2}}",
        &["5:34: spec.unknown.timeSliced.assume: 2 is above 1: it is a fraction of the device, such as 0.90"],
    ),
    (
        "unknown: {timeSliced: {admit: 2}}",
        &["5:13: spec.unknown.timeSliced: carries a value, and admit stands alone"],
    ),
    (
        "unknown: {timeSliced: allow}",
        &[
            r#"5:25: spec.unknown.timeSliced: "allow" is not known; known are admit, deny, warn, clientLimit, assume"#,
        ],
    ),
    (
        "unknown: {timeSliced: }\nmode: 3",
        &[r#"6:9: spec.mode: "3" is not known; known are enforce, warn, shadow"#],
    ),
    (
        "defaults: {gpuMemoryUtilization: fair}",
        &[
            r#"5:36: spec.defaults.gpuMemoryUtilization: "fair" is not known; known are none, fairShare, a fraction such as 0.225"#,
        ],
    ),
    (
        "defaults: {gpuMemoryUtilization: 1.5}",
        &[
            "5:36: spec.defaults.gpuMemoryUtilization: 1.5 is above 1: it is a fraction of the device, such as 0.90",
        ],
    ),
    (
        "defaults: {gpuMemoryUtilization: true}",
        &[
            "5:36: spec.defaults.gpuMemoryUtilization: is true, not none, fairShare or a fraction such as 0.225",
        ],
    ),
    (
        "mps: {threadPercentage: 200}",
        &["5:27: spec.mps.threadPercentage: is 200, not none, fairShare or a percentage from 1 to 100"],
    ),
    (
        "mps: {memoryLimit: half}",
        &[
            r#"5:22: spec.mps.memoryLimit: "half" is not known; known are footprint, none, a number of MiB such as 16384"#,
        ],
    ),
    (
        "mps: {memoryLimit: 0}",
        &["5:22: spec.mps.memoryLimit: is 0, not footprint, none or a number of MiB such as 16384"],
    ),
    (
        "otherSharing: {hami: yes, kia: trust}",
        &[
            r#"5:24: spec.otherSharing.hami: "yes" is not known; known are ignore, trust"#,
            "5:29: spec.otherSharing.kia: is no field of spec.otherSharing; did you mean kai?",
        ],
    ),
    (
        r#"mps: {override: "yes"}"#,
        &[r#"5:19: spec.mps.override: is "yes", not true or false"#],
    ),
    (
        "engines: [{engine: vlm, version: 0.11}]",
        &[
            r#"5:22: spec.engines[0].engine: "vlm" is no engine; did you mean vllm?"#,
            "5:36: spec.engines[0].version: is the number 0.11, not a text: put it in quotes",
        ],
    ),
    (
        "engines: [{images: [a/*], variables: {A: gpu}}]",
        &[r#"5:44: spec.engines[0].variables.A: "gpu" is no option such as --gpu-memory-utilization"#],
    ),
    (
        "engines: [3, {images: [a], engine: vlm}]",
        &[
            r#"5:3: spec.engines: "vlm" is no engine; did you mean vllm?"#,
            "5:13: spec.engines[0]: is 3, not a map",
        ],
    ),
    (
        "models: [{names: [m]}]",
        &[
            "5:12: spec.models[0]: has no weightsMiB: give the size of the weights, or a whole entry as vramgate model add prints it",
        ],
    ),
    (
        r#"models: [{names: ["*"], weightsMiB: 0, kvBytesPerToken: 0}]"#,
        &[
            r#"5:21: spec.models[0].names[0]: "*" would be every model: write more of the name"#,
            "5:39: spec.models[0].weightsMiB: is 0: a model has weights",
            "5:59: spec.models[0].kvBytesPerToken: is 0: leave it out where it is not known",
        ],
    ),
    (
        "models: [{weightsMiB: 3Gi, names: [m], weightMiB: 3}]",
        &[
            "5:25: spec.models[0].weightsMiB: \"3Gi\" has a unit: the field counts MiB, write 3072",
            "5:42: spec.models[0].weightMiB: is no field of spec.models[0]; did you mean weightsMiB?",
        ],
    ),
    (
        "models: [{names: [m], weightsMiB: 3}, {names: [M], weightsMiB: 4}]",
        &[r#"5:41: spec.models[1]: "M" is the name of spec.models[0] too: a model has one entry"#],
    ),
    (
        "models: [{id: m, weightsMiB: 3}]",
        &[
            "5:12: spec.models[0]: has an id and lacks parameters, numHiddenLayers, hiddenSize, numAttentionHeads, numKeyValueHeads, maxPositionEmbeddings, torchDtype: vramgate model add prints a whole entry; a short one has no id",
            "5:32: spec.models[0].weightsMiB: stands beside id and belongs to the short form: write checkpointBytes, or leave id out",
        ],
    ),
    (
        "models: [{id: m, parameters: 9, numHiddenLayers: 2, hiddenSize: 8, numAttentionHeads: 3, numKeyValueHeads: 2, maxPositionEmbeddings: 0, torchDtype: float16, fullAttentionLayers: 3}]",
        &[
            "5:110: spec.models[0].numKeyValueHeads: 2 does not divide the 3 attention heads: copy both from config.json",
            "5:136: spec.models[0].maxPositionEmbeddings: is 0; write the model's own number, as `vramgate model add` prints it",
        ],
    ),
    (
        "models: [{names: [m], parameters: 9}]",
        &[
            "5:12: spec.models[0]: has parameters and no id: a whole entry, as vramgate model add prints it, has an id; a short one has names, weightsMiB, kvBytesPerToken, attentionHeads and maxModelLen",
        ],
    ),
    (
        r#"overheadMiB: {vllm: {"<0.8": 3}}"#,
        &[r#"5:24: spec.overheadMiB.vllm["<0.8"]: is no field of spec.overheadMiB.vllm; did you mean <0.7?"#],
    ),
    (
        "priority: high",
        &[r#"5:13: spec.priority: is "high", not a whole number"#],
    ),
    (
        "priority: 1.5",
        &[r#"5:13: spec.priority: is "1.5", not a whole number"#],
    ),
    (
        "messages: {link: example.com}",
        &[r#"5:20: spec.messages.link: "example.com" is no address: it starts with https://"#],
    ),
    ("[1]", &["4:1: spec: is a list, not a map"]),
    (
        "device:\n  bugdet: 0.9\n  perSlot: fair\nmode: foo\nunknown: {exclusive: warn, mps: {assume: 3}}",
        &[
            "6:5: spec.device.bugdet: is no field of spec.device; did you mean budget?",
            r#"7:14: spec.device.perSlot: "fair" is not known; known are none, fairShare"#,
            r#"8:9: spec.mode: "foo" is not known; known are enforce, warn, shadow"#,
            "9:44: spec.unknown.mps.assume: 3 is above 1: it is a fraction of the device, such as 0.90",
        ],
    ),
    (
        "placement: {growth: [{}], missingFacts: shared}",
        &[
            "5:24: spec.placement.growth[0]: selects every node: name the labels of the nodes that an autoscaler can add",
            r#"5:43: spec.placement.missingFacts: "shared" is not known; known are exclusive, deny"#,
        ],
    ),
    (
        "placement: {growth: [{matchLabels: {}}]}",
        &[
            "5:24: spec.placement.growth[0]: selects every node: name the labels of the nodes that an autoscaler can add",
        ],
    ),
    ("mode: [", &["5:9: is no readable YAML: unclosed bracket '['"]),
    (
        "mode: warn\nmode: enforce",
        &["6:3: is no readable YAML: duplicate mapping key: mode"],
    ),
];

#[test]
fn every_error_of_a_spec_is_told_with_its_place_and_what_would_be_right() {
    for (spec, expected) in BAD_SPECS {
        let expected: Vec<String> = expected.iter().map(|error| format!("p.yaml:{error}")).collect();
        assert_eq!(errors_of(spec), expected.join("\n"), "{spec}");
    }
}

fn whole(text: &str) -> String {
    parse(text, "p.yaml").map_or_else(
        |errors| errors.to_string(),
        |documents| format!("{} documents", documents.len()),
    )
}

#[test]
fn texts_that_are_no_policy_say_so() {
    for (text, expected) in [
        ("", "0 documents"),
        ("---\n---\n# nothing\n", "0 documents"),
        (
            "kind: ConfigMap\n",
            "p.yaml:1:7: kind: \"ConfigMap\" is not GpuSharingPolicy: a policy file holds nothing else",
        ),
        ("- 1\n", "p.yaml:1:1: is a list, not a map"),
        ("just words\n", "p.yaml:1:1: is \"just words\", not a map"),
        (
            "kind: GpuSharingPolicy\n",
            "p.yaml:1:1: apiVersion: is missing: it has to be vramgate.io/v1alpha1\n\
             p.yaml:1:1: metadata.name: is missing: every policy has a name\n\
             p.yaml:1:1: spec: is missing: a policy without it would say nothing",
        ),
        (
            "apiVersion: vramgate.io/v1\nkind: GpuSharingPolicy\nmetadata: {name: 3}\nspec: 3\n",
            "p.yaml:1:13: apiVersion: \"vramgate.io/v1\" is not vramgate.io/v1alpha1\n\
             p.yaml:3:18: metadata.name: is the number 3, not a text: put it in quotes\n\
             p.yaml:4:7: spec: is 3, not a map",
        ),
        (
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: Team_A}\nspec: {}\n",
            "p.yaml:3:18: metadata.name: \"Team_A\" is no object name: lower-case letters, digits, - and ., at most 253 of them",
        ),
        (
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: built-in-default}\nspec: {}\n",
            "p.yaml:3:18: metadata.name: \"built-in-default\" is always there and cannot be replaced: choose another",
        ),
        (
            "a: *x\n",
            "p.yaml:1:4: is no readable YAML: alias references unknown anchor",
        ),
    ] {
        assert_eq!(whole(text), expected, "{text:?}");
    }
}

#[test]
fn errors_of_all_documents_of_a_file_come_together() {
    let bad = format!("{HEAD}spec: {{mode: no}}\n---\n{HEAD}spec: {{mode: yes}}\n");
    assert_eq!(
        whole(&bad),
        "p.yaml:4:14: spec.mode: \"no\" is not known; known are enforce, warn, shadow\n\
         p.yaml:9:14: spec.mode: \"yes\" is not known; known are enforce, warn, shadow"
    );
    let twice = format!("{HEAD}spec: {{}}\n---\n{HEAD}spec: {{}}\n");
    assert_eq!(
        whole(&twice),
        "p.yaml:8:18: metadata.name: \"test\" is the name of another policy too, at p.yaml:1; names are unique"
    );
    let first = parse(&format!("{HEAD}spec: {{}}\n"), "a.yaml").unwrap();
    let second = parse(&format!("{HEAD}spec: {{}}\n"), "b.yaml").unwrap();
    let errors = PolicySet::from_documents([first, second].concat()).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "b.yaml:3:18: metadata.name: \"test\" is the name of another policy too, at a.yaml:1; names are unique"
    );
}

#[test]
fn limits_are_ours_and_say_so() {
    let long = " ".repeat(MAX_BYTES + 1);
    assert_eq!(
        whole(&long),
        "p.yaml: is 8388609 bytes long; a policy file has at most 8388608"
    );
    let nested = format!("{HEAD}spec: {}", "[".repeat(10_000));
    assert!(whole(&nested).starts_with("p.yaml:4:"), "{}", whole(&nested));
    let policy = |index| HEAD.replace("test", &format!("p{index}")) + "spec: {}\n";
    let many: Vec<String> = (0..1_500).map(policy).collect();
    let many = many.join("---\n");
    assert_eq!(whole(&many), "1500 documents");
}

#[test]
fn profiles_that_pods_may_ask_for_are_names_of_profiles() {
    let of = |profiles: &str| whole(&format!("{HEAD}spec: {{mig: {{profiles: {profiles}}}}}\n"));
    assert_eq!(of("any"), "1 documents");
    assert_eq!(of("[1g.10gb, 1g.10gb+me, 1g.24gb-me, 1g.10gb.me]"), "1 documents");
    for (profiles, text) in [
        (
            "[]",
            "spec.mig.profiles: is empty: name the profiles that pods may ask for, or write any",
        ),
        (
            "[1g10gb]",
            "spec.mig.profiles[0]: \"1g10gb\" is no name of a MIG profile such as 1g.10gb or 1g.10gb+me",
        ),
        (
            "[1g.10gb, mig-1g.10gb]",
            "spec.mig.profiles[1]: \"mig-1g.10gb\" is no name of a MIG profile such as 1g.10gb or 1g.10gb+me; write 1g.10gb",
        ),
        (
            "[1c.3g.40gb]",
            "spec.mig.profiles[0]: 1c.3g.40gb is a compute instance, for which there is no resource; write 3g.40gb",
        ),
    ] {
        assert!(of(profiles).ends_with(text), "{profiles}: {}", of(profiles));
    }
}

#[test]
fn notices_name_what_has_no_effect_and_nothing_else() {
    let text = format!(
        "{HEAD}spec:
  match:
    nodes: {{matchLabels: {{pool: a}}}}
  device: {{budget: 0.8, tenants: sameNamespace, evidence: [spread]}}
  enforcement: gated
  mps: {{memoryLimit: none, threadPercentage: 50, override: true}}
  mig: {{profiles: [1g.10gb]}}
  sources: {{configMaps: never, secrets: get}}
  access: {{visibleDevices: warn, privileged: deny, devicePaths: deny, runtimeClasses: [nvidia]}}
  declarations: {{trust: [ml]}}
  engines: [{{images: [a/*], engine: vllm}}]
  models: [{{names: [m], weightsMiB: 3}}]
  defaults: {{gpuMemoryUtilization: fairShare}}
  otherSharing: {{hami: ignore, kai: trust}}
"
    );
    let documents = parse(&text, "p.yaml").unwrap();
    let notices: Vec<String> = documents[0].notices.iter().map(ToString::to_string).collect();
    assert_eq!(
        notices,
        [
            "p.yaml:8: spec.enforcement: accepted, without effect yet: the level acts as admission",
            "p.yaml:11: spec.sources.configMaps: without effect beside match.nodes: invocations are read before any node is considered",
            "p.yaml:11: spec.sources.secrets: accepted, without effect yet",
            "p.yaml:12: spec.access: without effect beside match.nodes: invocations are read before any node is considered",
            "p.yaml:13: spec.declarations.trust: without effect beside match.nodes: invocations are read before any node is considered",
            "p.yaml:14: spec.engines: without effect beside match.nodes: invocations are read before any node is considered",
            "p.yaml:15: spec.models: without effect beside match.nodes: invocations are read before any node is considered",
            "p.yaml:17: spec.otherSharing: without effect beside match.nodes: invocations are read before any node is considered",
        ]
    );
    let by_node = format!(
        "{HEAD}spec: {{match: {{expression: \"gpu.devices == 1\"}}, sources: {{configMaps: never}}}}\n"
    );
    let documents = parse(&by_node, "p.yaml").unwrap();
    assert_eq!(
        documents[0].notices[0].message,
        "without effect beside an expression that asks for node or gpu: invocations are read before any node is considered"
    );
    let plain = format!("{HEAD}spec: {{match: {{expression: \"true\"}}, sources: {{configMaps: never}}}}\n");
    assert_eq!(parse(&plain, "p.yaml").unwrap()[0].notices, []);
}

#[test]
fn an_expression_is_checked_with_the_file() {
    let text = format!(
        "{HEAD}spec:\n  match:\n    expression: |\n      true &&\n        pod.label.team == 'x'\n  priority: 1\n"
    );
    let errors = parse(&text, "p.yaml").unwrap_err();
    let line = HEAD.matches('\n').count() + 4;
    assert_eq!(
        errors.to_string(),
        format!(
            "p.yaml:{line}:7: spec.match.expression: pod has no field label; did you mean labels? (line 2, column 7 of the \
             expression)"
        )
    );
    let beside = format!("{HEAD}spec: {{match: {{expression: \"true\"}}, device: {{budget: 0.5}}}}\n");
    let errors = parse(&beside, "p.yaml").unwrap_err();
    assert!(
        errors.to_string().contains("stands beside match.expression"),
        "{errors}"
    );
}

#[test]
fn the_built_in_default_written_as_a_file_says_nothing_new() {
    let text = include_str!("../built-in-default.yaml").replace("name: built-in-default", "name: mine");
    let documents = parse(&text, "p.yaml").unwrap();
    assert_eq!(documents[0].notices, []);
    let mine = Policy {
        name: BUILT_IN_NAME.to_owned(),
        ..documents[0].policy.clone()
    };
    assert_eq!(mine, built_in());
    let empty = parse(&format!("{HEAD}spec: {{}}\n"), "p.yaml").unwrap();
    let empty = Policy {
        name: BUILT_IN_NAME.to_owned(),
        priority: -1000,
        ..empty[0].policy.clone()
    };
    assert_eq!(empty, built_in());
}

#[test]
fn a_policy_of_the_api_server_is_read_like_a_file() {
    let object = serde_json::json!({
        "apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy",
        "metadata": {"name": "live", "uid": "u", "resourceVersion": "7", "generation": 2, "managedFields": []},
        "spec": {"device": {"budget": 0.85}, "unknown": {"timeSliced": {"assume": "0.50"}}},
        "status": {"conditions": []}
    });
    let document = from_value(&object, "gpusharingpolicies/live").unwrap();
    assert_eq!(document.policy.device.budget.ppm(), 850_000);
    assert_eq!(document.line, None);
    let errors = from_value(
        &serde_json::json!({"kind": "GpuSharingPolicy", "spec": {"modes": 1}}),
        "x",
    )
    .unwrap_err();
    assert_eq!(
        errors.to_string().lines().next(),
        Some("x: spec.modes: is no field of spec; did you mean mode?")
    );
}

#[test]
fn numbers_keep_the_digits_in_which_they_were_written() {
    for (written, ppm) in [
        ("0.90", 900_000),
        ("\"0.90\"", 900_000),
        ("0.333333", 333_333),
        ("1", 1_000_000),
        (".5", 500_000),
    ] {
        let documents = parse(
            &format!("{HEAD}spec: {{device: {{budget: {written}}}}}\n"),
            "p.yaml",
        )
        .unwrap();
        assert_eq!(documents[0].policy.device.budget.ppm(), ppm, "{written}");
    }
    let text = format!(
        "{HEAD}spec: {{defaults: {{gpuMemoryUtilization: 0.20}}, unknown: {{mps: {{assume: 0.70}}}}}}\n"
    );
    let policy = parse(&text, "p.yaml").unwrap().swap_remove(0).policy;
    assert!(
        matches!(&policy.default_fraction, crate::policy::DefaultFraction::Value(f) if f.text() == "0.20")
    );
    assert!(matches!(&policy.unknown.mps, crate::policy::UnknownRule::Assume(f) if f.text() == "0.70"));
}

#[test]
fn every_entry_of_the_catalogue_is_one_of_a_policy() {
    // `vramgate model add` prints the same document.
    for model in Catalogue::embedded().iter() {
        let value = serde_json::json!({
            "apiVersion": "vramgate.io/v1alpha1", "kind": "GpuSharingPolicy", "metadata": {"name": "own"},
            "spec": {"models": [model]},
        });
        let document = from_value(&value, "p").unwrap_or_else(|errors| panic!("{}: {errors}", model.id));
        let read = document.policy.models;
        assert_eq!(read.catalogue().get(&model.id), Some(model));
        assert!(document.notices.is_empty(), "{}", model.id);
    }
}
