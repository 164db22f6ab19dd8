use serde_json::json;

use super::*;

fn read_all(text: &str) -> Vec<Object> {
    objects(text.as_bytes(), "in.yaml", Limits::INPUT).unwrap()
}

fn error_of(text: &str) -> String {
    objects(text.as_bytes(), "in.yaml", Limits::INPUT)
        .unwrap_err()
        .to_string()
}

fn places(text: &str) -> Vec<(String, String)> {
    read_all(text)
        .iter()
        .map(|object| (object.origin.to_string(), object.name().to_owned()))
        .collect()
}

#[test]
fn documents_keep_their_order_and_lines_and_empty_ones_are_skipped() {
    let text = "# head\n---\n\n---\n# only a comment\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n--- # next\n\n\
                kind: Pod\napiVersion: v1\nmetadata: {name: b}\n...\n---\n~\n--- {apiVersion: v1, kind: Pod, metadata: {name: c}}\n";
    assert_eq!(
        places(text),
        [("in.yaml:7", "a"), ("in.yaml:12", "b"), ("in.yaml:18", "c")]
            .map(|(p, n)| (p.to_owned(), n.to_owned()))
    );
}

#[test]
fn directives_and_windows_line_ends_are_understood() {
    let text = "%YAML 1.2\r\n---\r\napiVersion: v1\r\nkind: Pod\r\nmetadata:\r\n  name: a\r\n---\r\napiVersion: v1\r\nkind: Pod\r\n";
    assert_eq!(places(text).len(), 2);
    assert_eq!(places(text)[0].1, "a");
}

#[test]
fn lists_of_any_nesting_are_opened_in_order() {
    let text = "apiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n\
                - apiVersion: v1\n  kind: List\n  items:\n  - {apiVersion: v1, kind: Pod, metadata: {name: b}}\n  - null\n\
                - {apiVersion: apps/v1, kind: Deployment, metadata: {name: c}}\nkind: List\nmetadata: {resourceVersion: ''}\n";
    let names: Vec<_> = places(text).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(places(text)[1].0, "in.yaml:1 (items[1].items[0])");
    assert!(read_all("apiVersion: v1\nkind: List\nitems: []\n").is_empty());
    assert!(read_all("apiVersion: v1\nkind: PodList\nitems:\n").is_empty());
}

#[test]
fn items_of_a_typed_list_take_its_type_wherever_it_stands() {
    for text in [
        r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}"#,
        r#"{"items":[{"metadata":{"name":"a"}}],"apiVersion":"v1","kind":"PodList"}"#,
    ] {
        let objects = read_all(text);
        assert_eq!(
            (objects[0].kind(), objects[0].api_version(), objects[0].name()),
            ("Pod", "v1", "a")
        );
    }
    let untyped = r#"{"kind":"List","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}"#;
    assert!(
        error_of(untyped).starts_with("in.yaml:1 (items[0]): the object \"a\" has no apiVersion and no kind")
    );
}

#[test]
fn json_may_hold_several_objects_and_counts_lines() {
    let text = "\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}\n\n{\"apiVersion\":\"v1\",\n\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\"}}\n";
    let lines: Vec<_> = read_all(text).iter().map(|object| object.origin.line).collect();
    assert_eq!(lines, [2, 4]);
    let broken = "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}\n{\"apiVersion\":\"v1\",\n\"kind\":}\n";
    assert_eq!(error_of(broken), "in.yaml:3:8: expected value");
}

#[test]
fn a_yaml_flow_mapping_at_the_top_is_not_taken_for_broken_json() {
    assert_eq!(
        read_all("{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\nkind: Pod\napiVersion: v1\n").len(),
        2
    );
}

#[test]
fn an_object_without_its_type_is_an_error_that_names_place_and_field() {
    assert_eq!(
        error_of("apiVersion: v1\nkind: Pod\n---\nkind: Pod\nmetadata: {name: x}\n"),
        "in.yaml:4: the object \"x\" has no apiVersion; an API object names both, as in \"apiVersion: v1\" and \"kind: Pod\""
    );
    assert!(error_of("apiVersion: v1\nkind: ''\n").starts_with("in.yaml:1: the object has no kind;"));
    assert!(error_of("apiVersion: v1\nkind: 7\n").starts_with("in.yaml:1: the object has no kind;"));
    for text in ["just text\n", "- a\n- b\n", "7\n"] {
        assert!(
            error_of(text).contains("expected an API object"),
            "{}",
            error_of(text)
        );
    }
}

#[test]
fn duplicate_fields_are_errors_at_any_depth() {
    for text in [
        "apiVersion: v1\nkind: Pod\nkind: Pod\n",
        "apiVersion: v1\nkind: Pod\nspec:\n  a: 1\n  a: 2\n",
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"a\":1,\"a\":2}}",
        "apiVersion: v1\nkind: List\nitems: []\nitems: []\n",
    ] {
        assert!(error_of(text).contains("duplicate"), "{}", error_of(text));
    }
}

#[test]
fn scalars_are_read_as_kubectl_reads_them() {
    let text = "apiVersion: v1\nkind: Pod\nspec: {octal: 0755, exponent: 1e3, whole: 3.0, part: 0.30, hex: 0x1F, yes: yes, \
                quoted: '0755', time: 12:30, big: 18446744073709551615, none: ~, text: \"1e3\", mode: 0o644}\n";
    assert_eq!(
        read_all(text)[0].value["spec"],
        json!({"octal": 493, "exponent": 1000, "whole": 3, "part": 0.3, "hex": 31, "true": true, "quoted": "0755",
               "time": "12:30", "big": u64::MAX, "none": null, "text": "1e3", "mode": 420})
    );
}

#[test]
fn keys_that_are_no_strings_become_text_and_mappings_as_keys_are_refused() {
    let objects = read_all("apiVersion: v1\nkind: ConfigMap\ndata: {1: a, true: b, 0.5: c}\n");
    assert_eq!(
        objects[0].value["data"],
        json!({"1": "a", "true": "b", "0.5": "c"})
    );
    assert!(objects_fail(
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  ? {a: b}\n  : c\n"
    ));
    assert!(objects_fail(
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  ? [a]\n  : c\n"
    ));
}

fn objects_fail(text: &str) -> bool {
    objects(text.as_bytes(), "in.yaml", Limits::INPUT).is_err()
}

#[test]
fn anchors_and_merge_keys_are_expanded_and_bombs_are_not() {
    let text = "apiVersion: v1\nkind: Pod\nbase: &b {a: 1, b: 2}\nspec: {<<: *b, b: 3}\nagain: *b\n";
    let value = &read_all(text)[0].value;
    assert_eq!(
        (&value["spec"], &value["again"]),
        (&json!({"a": 1, "b": 3}), &json!({"a": 1, "b": 2}))
    );
    let mut bomb = String::from("apiVersion: v1\nkind: Pod\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let previous = level - 1;
        let aliases = vec![format!("*a{previous}"); 10].join(", ");
        bomb = format!("{bomb}a{level}: &a{level} [{aliases}]\n");
    }
    assert!(
        error_of(&bomb).contains("aliases repeat more than"),
        "{}",
        error_of(&bomb)
    );
}

#[test]
fn broken_text_is_an_error_with_its_line_in_the_file() {
    let text = "apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\nspec:\n  a: [1, 2\n---\napiVersion: v1\nkind: Pod\n";
    let error = error_of(text);
    let line: usize = error.split(':').nth(1).unwrap().parse().unwrap();
    assert!((6..=8).contains(&line), "{error}");
    assert!(!error.contains('\n'), "{error}");
    assert!(error_of("apiVersion: v1\nkind: Pod\nspec:\n\ta: 1\n").starts_with("in.yaml:4"));
}

#[test]
fn nesting_is_limited_in_both_syntaxes() {
    for depth in [150, 100_000] {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","spec":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        );
        assert!(
            error_of(&json).contains("64 levels"),
            "{depth}: {}",
            error_of(&json)
        );
        let yaml = format!(
            "apiVersion: v1\nkind: Pod\nspec: {}{}\n",
            "[".repeat(depth),
            "]".repeat(depth)
        );
        assert!(objects_fail(&yaml));
    }
    let mut block = String::from("apiVersion: v1\nkind: Pod\nspec:\n");
    for level in 1..150 {
        block = format!("{block}{}a:\n", " ".repeat(level));
    }
    assert!(error_of(&block).contains("64 levels"), "{}", error_of(&block));
}

#[test]
fn more_objects_than_the_limit_are_an_error_that_says_so() {
    let pod = "---\napiVersion: v1\nkind: Pod\n";
    assert_eq!(read_all(&pod.repeat(10_000)).len(), 10_000);
    assert_eq!(
        error_of(&pod.repeat(10_001)),
        "in.yaml:30002: more than 10000 documents; an input file may hold 10000: split it"
    );
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_line() {
    assert!(
        objects(b"apiVersion: v1\nkind: \xff\n", "in.yaml", Limits::INPUT)
            .unwrap_err()
            .to_string()
            .starts_with("in.yaml:2: the text is not UTF-8")
    );
    assert!(error_of("apiVersion: v1\nkind: P\0d\n").starts_with("in.yaml:2: the text holds a NUL byte"));
    assert_eq!(
        objects(
            b"\xef\xbb\xbfapiVersion: v1\nkind: Pod\n",
            "in.yaml",
            Limits::INPUT
        )
        .unwrap()
        .len(),
        1
    );
    assert!(objects(b"", "in.yaml", Limits::INPUT).unwrap().is_empty());
}

#[test]
fn numbers_that_json_cannot_hold_are_errors() {
    for text in [
        "apiVersion: v1\nkind: Pod\nspec: {a: .nan}\n",
        "apiVersion: v1\nkind: Pod\nspec: {a: .inf}\n",
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"a\":1e309}}",
    ] {
        assert!(objects_fail(text), "{text}");
    }
}

#[test]
fn block_scalars_are_kept_verbatim() {
    let text = "apiVersion: v1\nkind: ConfigMap\ndata:\n  run.sh: |\n    #!/bin/sh\n    --- not a marker\n    exec vllm serve  x\n\n  folded: >-\n    a\n    b\n";
    assert_eq!(
        read_all(text)[0].value["data"],
        json!({"run.sh": "#!/bin/sh\n--- not a marker\nexec vllm serve  x\n", "folded": "a b"})
    );
}

#[test]
fn an_error_of_the_sink_ends_the_reading() {
    let text =
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n- {apiVersion: v1, kind: Pod}\n";
    let mut seen = 0;
    let result = read(text.as_bytes(), "in.yaml", Limits::INPUT, &mut |object| {
        seen += 1;
        Err(object.error("no"))
    });
    assert_eq!(
        (seen, result.unwrap_err().to_string()),
        (1, "in.yaml:1 (items[0]): no".to_owned())
    );
}
