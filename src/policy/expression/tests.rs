//! What expressions say, what they may not say, and that they end.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::*;
use crate::device::{DeviceKind, Pool, Sharing};
use crate::units::Mib;
use crate::workload::pod::Pod;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn namespace() -> Labels {
    labels(&[("kubernetes.io/metadata.name", "team-a"), ("tier", "gold")])
}

fn pod() -> Pod {
    serde_json::from_value(serde_json::json!({
        "metadata": {"labels": {"team": "search", "app.kubernetes.io/name": "llm"}},
        "spec": {
            "priorityClassName": "high",
            "containers": [
                {"name": "proxy", "image": "registry.example.com/proxy:1"},
                {"name": "server", "image": "vllm/vllm-openai:v0.11.0",
                 "resources": {"limits": {"nvidia.com/gpu.shared": "2"}}},
                {"name": "judge", "image": "ollama/ollama:0.12.0",
                 "resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}},
            ],
        },
    }))
    .unwrap()
}

fn pool(resource: &str, sharing: Sharing, device: DeviceKind) -> Pool {
    Pool {
        resource: Arc::from(resource),
        device,
        product: Arc::from("NVIDIA-H100-80GB-HBM3"),
        total: Some(Mib::new(81559)),
        sharing,
        bounds_containers: false,
        devices: 2,
        slots: 8,
        usable_slots: 8,
        allocation: None,
    }
}

fn pools() -> Vec<Pool> {
    let four = NonZeroU32::new(4).unwrap();
    vec![
        pool(
            "nvidia.com/gpu.shared",
            Sharing::TimeSliced(four),
            DeviceKind::Gpu,
        ),
        pool(
            "nvidia.com/mig-1g.10gb",
            Sharing::Exclusive,
            DeviceKind::Mig(Arc::from("1g.10gb")),
        ),
    ]
}

fn node_labels() -> Labels {
    labels(&[("example.com/pool", "blue"), ("zone", "a")])
}

fn asked(source: &str, with_node: bool) -> Outcome {
    let expression = Expression::compile(source).unwrap_or_else(|wrong| panic!("{source}: {wrong}"));
    let (labels, pools, pod) = (node_labels(), pools(), pod());
    let node = with_node.then(|| NodeView::new(&labels, &pools));
    expression.of(&namespace(), PodView::from(&pod), node)
}

fn holds(source: &str) -> bool {
    match asked(source, true) {
        Outcome::Yes => true,
        Outcome::No => false,
        Outcome::Failed(why) => panic!("{source} fails: {why}"),
    }
}

#[test]
fn each_variable_is_seen() {
    for source in [
        "pod.namespace == 'team-a'",
        "pod.namespaceLabels.tier == 'gold' && pod.namespaceLabels['tier'] == \"gold\"",
        "pod.labels.team == 'search'",
        "pod.labels['app.kubernetes.io/name'] == 'llm'",
        "'team' in pod.labels && !('owner' in pod.labels)",
        "pod.priorityClass == 'high'",
        "has(pod.priorityClass) && !has(pod.runtimeClass)",
        "has(pod.labels.team) && !has(pod.labels.owner)",
        "container.name == 'server'",
        "container.image.startsWith('vllm/')",
        "container.image.contains('ollama')",
        "container.image.endsWith(':v0.11.0')",
        "request.resource == 'nvidia.com/gpu.shared' && request.count == 2",
        "!request.byClaim",
        "gpu.product == 'NVIDIA-H100-80GB-HBM3'",
        "gpu.memoryMiB >= 80000",
        "gpu.sharing == 'timeSliced' && gpu.slotsPerDevice == 4",
        "gpu.sharing == 'exclusive' && gpu.migProfile == '1g.10gb'",
        "has(gpu.migProfile)",
        "gpu.devices == 2",
        "node.labels['example.com/pool'] == 'blue'",
        "node.labels.zone in ['a', 'b']",
        "'zone' in node.labels",
        "has(node.labels.zone)",
    ] {
        assert!(holds(source), "{source}");
    }
}

/// Of the two containers that ask for a GPU one is enough, and each is asked with its own request and its own device.
#[test]
fn an_expression_holds_where_it_holds_for_one_container() {
    assert!(holds("container.name == 'judge' && request.count == 1"));
    assert!(!holds("container.name == 'judge' && request.count == 2"));
    assert!(!holds("container.name == 'proxy'"));
    assert!(!holds("container.name == 'server' && has(gpu.migProfile)"));
    let nobody = Pod::default();
    let expression = Expression::compile("container.image == 'x' || true").unwrap();
    assert_eq!(expression.of(&namespace(), (&nobody).into(), None), Outcome::No);
}

#[test]
fn what_asks_for_a_node_holds_only_where_one_is_given() {
    for source in [
        "node.labels.zone == 'a'",
        "gpu.devices == 2",
        "true || gpu.devices == 2",
    ] {
        assert_eq!(asked(source, false), Outcome::No, "{source}");
        assert_eq!(asked(source, true), Outcome::Yes, "{source}");
        assert!(Expression::compile(source).unwrap().needs_node());
    }
    assert_eq!(asked("container.name == 'server'", false), Outcome::Yes);
}

#[test]
fn operators_are_those_of_cel() {
    for source in [
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "10 - 3 - 2 == 5",
        "7 / 2 == 3 && 7 % 2 == 1 && -7 / 2 == -3 && -7 % 2 == -1",
        "-9223372036854775808 < 0",
        "0x1F == 31",
        "'a' + 'b' == 'ab' && 'a' < 'b'",
        "!!true && !false",
        "true ? 1 == 1 : 1 == 2",
        "false || true && true",
        "1 < 2 == true",
        "size('häß') == 3 && 'abc'.size() == 3 && size([1, 2]) == 2",
        "[1, 2, 3][1] == 2",
        "3 in [1, 2, 3] && !(4 in [])",
        "int('12') == 12 && string(12) == '12' && string(true) == 'true'",
        "'ABC'.lowerAscii() == 'abc' && 'abc'.upperAscii() == 'ABC'",
        "[1, 2].all(n, n > 0) && [1, 2].exists(n, n == 2) && [1, 2].exists_one(n, n == 1)",
        "pod.labels.exists(key, key.startsWith('app.'))",
        "[].all(n, n == 1) && ![].exists(n, n == 1)",
        r#"'\x41\101\u0041\U00000041' == 'AAAA' && r'\n' == '\\n' && """a"b""" == 'a"b'"#,
        "true // a comment\n && true",
        // What decides counts, on whichever side it stands.
        "pod.labels.owner == 'x' || true",
        "true || pod.labels.owner == 'x'",
        "!(pod.labels.owner == 'x' && false)",
        "['a', 'team'].exists(key, pod.labels[key] == 'search')",
        "!['a', 'team'].all(key, pod.labels[key] == 'other')",
    ] {
        assert!(holds(source), "{source}");
    }
}

#[test]
fn what_fails_says_why() {
    for (source, why) in [
        (
            "pod.labels.owner == 'x'",
            "pod.labels has no \"owner\"; ask \"owner\" in pod.labels first",
        ),
        (
            "pod.runtimeClass == 'nvidia'",
            "pod.runtimeClass is absent; ask has(pod.runtimeClass) first",
        ),
        (
            "node.labels['no'] == 'x'",
            "node.labels has no \"no\"; ask \"no\" in node.labels first",
        ),
        ("size(pod.labels) / 0 == 1", "a number is divided by 0"),
        ("size(pod.labels) % 0 == 1", "a number is divided by 0"),
        ("9223372036854775807 + 1 > 0", "a number goes beyond 64 bits"),
        ("-9223372036854775808 / -1 > 0", "a number goes beyond 64 bits"),
        ("-(-9223372036854775808) > 0", "a number goes beyond 64 bits"),
        ("[1][5] == 1", "a list has no item 5"),
        ("[1][-1] == 1", "a list has no item -1"),
        (
            "int('many') == 1",
            "Error executing function 'int': string parse err…",
        ),
        (
            "[1].exists_one(n, int('x') == n)",
            "Error executing function 'int': string parse err…",
        ),
    ] {
        assert_eq!(asked(source, true), Outcome::Failed(why.to_owned()), "{source}");
    }
    // One container decides although the other fails.
    assert_eq!(
        asked("container.name == 'judge' || pod.labels.owner == 'x'", true),
        Outcome::Yes
    );
    // Nothing is known but labels.
    let labels = labels(&[("team", "search")]);
    let of = |source: &str| {
        let expression = Expression::compile(source).unwrap();
        expression.of(&namespace(), PodView::labelled(&labels), None)
    };
    assert_eq!(of("pod.labels.team == 'search'"), Outcome::Yes);
    let unknown = Outcome::Failed("the pod is known by its labels alone".to_owned());
    assert_eq!(of("container.name == 'x'"), unknown);
    assert_eq!(of("has(pod.priorityClass)"), unknown);
}

#[test]
#[allow(clippy::too_many_lines, reason = "one table")]
fn what_is_wrong_is_found_when_it_is_read() {
    for (source, line, column, message) in [
        (
            "pods.labels.team == 'x'",
            1,
            1,
            "pods is no variable; did you mean pod?",
        ),
        (
            "pod.label.team == 'x'",
            1,
            5,
            "pod has no field label; did you mean labels?",
        ),
        (
            "true &&\n  gpu.memoryMb > 1",
            2,
            7,
            "gpu has no field memoryMb; did you mean memoryMiB?",
        ),
        (
            "request.userInfo.username == 'x'",
            1,
            9,
            "request has no field userInfo; request is what the container asks for (resource, count, byClaim): a policy \
             means the same for a pod that is created and for one that runs",
        ),
        (
            "object.spec.x == 1",
            1,
            1,
            "object is no variable; an expression sees a few facts, not the object: pod, container, request, gpu, node",
        ),
        (
            "pod.name == 'x'",
            1,
            5,
            "pod has no field name; known are namespace, namespaceLabels, labels, priorityClass, runtimeClass",
        ),
        (
            "gpu.memoryMiB > '80Gi'",
            1,
            1,
            "> compares two numbers or two texts, and these are a whole number and a text",
        ),
        (
            "gpu.memoryMiB == '80'",
            1,
            1,
            "a whole number is compared with a text",
        ),
        (
            "gpu.memoryMiB",
            1,
            1,
            "the expression gives a whole number, and a condition is meant",
        ),
        (
            "pod.labels == pod.labels",
            1,
            1,
            "a map of labels is compared with a map of labels",
        ),
        (
            "pod.labels.team = 'x'",
            1,
            17,
            "is no expression of CEL: token recognition error at: '= '",
        ),
        (
            "true & true",
            1,
            6,
            "is no expression of CEL: token recognition error at: '& '",
        ),
        (
            "true true",
            1,
            6,
            "is no expression of CEL: extraneous input 'true' expecting <EOF>",
        ),
        (
            "true &&",
            1,
            8,
            "is no expression of CEL: mismatched input '<EOF>'",
        ),
        ("(true", 1, 6, "is no expression of CEL: missing ')' at '<EOF>'"),
        (
            "'a",
            1,
            1,
            "is no expression of CEL: token recognition error at: ''a'",
        ),
        (
            "'a\n' == 'a'",
            1,
            1,
            "is no expression of CEL: token recognition error at: ''a",
        ),
        (
            "'\\q' == ''",
            1,
            1,
            "is no expression of CEL: token recognition error at: ''\\q'",
        ),
        (
            "0.5 < 1",
            1,
            1,
            "a fraction is written here; an expression sees texts, whole numbers, conditions and lists",
        ),
        (
            "1u == 1",
            1,
            1,
            "an unsigned number is written here; an expression sees texts, whole numbers, conditions and lists",
        ),
        (
            "9223372036854775808 > 1",
            1,
            1,
            "is no expression of CEL: invalid int literal",
        ),
        (
            "null == null",
            1,
            1,
            "null is written here; an expression sees texts, whole numbers, conditions and lists",
        ),
        (
            "{'a': 1}.a == 1",
            1,
            1,
            "maps cannot be written here; compare single values",
        ),
        (
            "container.image.matches('(a+)+$')",
            1,
            17,
            "matches is not known here: regular expressions are not evaluated; write startsWith, endsWith or contains",
        ),
        (
            "container.image.startswith('x')",
            1,
            17,
            "startswith is no method; did you mean startsWith?",
        ),
        (
            "container.image.startsWith()",
            1,
            17,
            "startsWith takes 1 arguments, and 0 stand here",
        ),
        (
            "container.image.startsWith(1)",
            1,
            28,
            "the argument is a whole number, and a text is meant",
        ),
        (
            "sizes('a') == 1",
            1,
            1,
            "sizes is no function; did you mean size?",
        ),
        (
            "has(pod.labels)",
            1,
            5,
            "pod.labels is always there; leave out has()",
        ),
        (
            "has(pod)",
            1,
            5,
            "is no expression of CEL: invalid argument to has() macro",
        ),
        (
            "node.labels[pod.namespace] == 'x'",
            1,
            13,
            "the key of a node's label has to be a constant text, such as node.labels[\"example.com/pool\"]",
        ),
        (
            "node.labels.exists(k, k == 'x')",
            1,
            1,
            "the labels of a node are asked by constant keys, such as \"example.com/pool\" in node.labels",
        ),
        ("1 in ['a']", 1, 1, "is a whole number, and the list holds texts"),
        (
            "[1, 'a'].exists(x, true)",
            1,
            5,
            "is a text in a list of which another item is a whole number",
        ),
        (
            "[1].exists(pod, true)",
            1,
            5,
            "pod is a variable already; choose another name",
        ),
        (
            "[1].map(x, x) == [1]",
            1,
            5,
            "map and filter are not known here; write exists, all or exists_one",
        ),
        (
            "['a'].filter(1) == ['a']",
            1,
            7,
            "filter is not known here; write exists, all or exists_one",
        ),
        (
            "",
            1,
            1,
            "the expression is empty; leave it out to match everything",
        ),
        (
            "é",
            1,
            1,
            "is no expression of CEL: token recognition error at: 'é'",
        ),
    ] {
        let wrong = Expression::compile(source).unwrap_err();
        let told = format!("{message} (line {line}, column {column} of the expression)");
        assert_eq!(wrong.to_string(), told, "{source}");
        assert_eq!(wrong.place(), (line, column));
    }
}

#[test]
fn large_and_deep_expressions_are_refused_and_never_overflow_the_stack() {
    for (source, message) in [
        (
            format!("'{}' == ''", "x".repeat(LONGEST)),
            "the expression is 4104 bytes long, and 4096 are allowed",
        ),
        (
            vec!["true"; 300].join("||"),
            "the expression has more than 512 parts",
        ),
        (
            format!("[{}].size() == 1", vec!["1"; 600].join(",")),
            "the expression has more than 512 parts",
        ),
        (
            vec!["1"; 2000].join("+"),
            "the expression is nested more than 32 levels deep",
        ),
        (
            "(".repeat(4000),
            "the expression is nested more than 32 levels deep",
        ),
        (
            "[".repeat(4000),
            "the expression is nested more than 32 levels deep",
        ),
        (
            "size(".repeat(800),
            "the expression is nested more than 32 levels deep",
        ),
        (
            "true?true:".repeat(400) + "true",
            "the expression is nested more than 32 levels deep",
        ),
        (
            "[1].exists(a,".repeat(100),
            "the expression is nested more than 32 levels deep",
        ),
    ] {
        let wrong = Expression::compile(&source).unwrap_err().to_string();
        assert!(wrong.starts_with(message), "{wrong}");
    }
    let longest = vec!["true"; 256].join("&&");
    assert!(holds(&longest));
}

/// Macros within macros over the longest lists end at the bound, and the end is a failure: it is not outvoted.
#[test]
fn nested_macros_end_at_the_bound() {
    let list = format!("[{}]", vec!["1"; 100].join(","));
    let nested = format!("{list}.all(a, {list}.all(b, {list}.all(c, a == b && b == c)))");
    let why = "it can take more than 20000 steps";
    assert_eq!(asked(&nested, true), Outcome::Failed(why.to_owned()));
    let outvoted = format!("true && ({nested} || true)");
    assert_eq!(asked(&outvoted, true), Outcome::Failed(why.to_owned()));
    // Long texts cost by their length.
    let long = "x".repeat(3000);
    let texts = format!(
        "[{}].all(a, '{long}'.contains('y') || true)",
        vec!["1"; 250].join(",")
    );
    assert_eq!(asked(&texts, true), Outcome::Failed(why.to_owned()));
}

/// Any text gives an expression or an error, and any expression an outcome.
#[test]
fn any_text_ends() {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};

    const WORDS: [&str; 44] = [
        "pod",
        "container",
        "request",
        "gpu",
        "node",
        ".labels",
        ".namespace",
        ".image",
        ".count",
        ".memoryMiB",
        "['a']",
        ".a",
        "==",
        "!=",
        "<",
        ">=",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "&&",
        "||",
        "?",
        ":",
        "in",
        "(",
        ")",
        "[",
        "]",
        ",",
        "'a'",
        "\"b\"",
        "1",
        "0",
        "9223372036854775807",
        "true",
        "false",
        ".size()",
        ".exists(k,",
        ".all(k,",
        "k",
        "has(",
    ];
    let mut runner = TestRunner::new(Config {
        cases: 3_000,
        failure_persistence: None,
        ..Config::default()
    });
    let words = proptest::collection::vec(proptest::sample::select(&WORDS[..]), 0..24);
    let text = prop_oneof![words.prop_map(|words| words.join(" ")), any::<String>()];
    let (labels, pools, pod, namespace) = (node_labels(), pools(), pod(), namespace());
    runner
        .run(&text, |text| {
            if let Ok(expression) = Expression::compile(&text) {
                let outcome = expression.of(&namespace, (&pod).into(), Some(NodeView::new(&labels, &pools)));
                prop_assert!(
                    outcome != Outcome::Failed("values of different types meet".to_owned()),
                    "{}",
                    text
                );
            }
            Ok(())
        })
        .unwrap();
    let _: BTreeMap<String, String> = labels;
}
