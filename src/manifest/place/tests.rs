use super::*;
use crate::manifest::{Limits as Reading, Object, objects};

fn read(text: &str) -> (Vec<Object>, Texts) {
    let objects = objects(text.as_bytes(), "in", Reading::INPUT).unwrap_or_else(|error| panic!("{error}"));
    let mut texts = Texts::default();
    texts.keep("in", text.as_bytes().to_vec());
    (objects, texts)
}

/// `line:column..line:column` of a field of the first object.
fn at(text: &str, path: &str) -> String {
    let (objects, mut texts) = read(text);
    show(texts.place(&objects[0].origin, &FieldPath::new(path)))
}

fn show(place: Place) -> String {
    let column = place
        .column
        .map_or_else(String::new, |column| format!(":{column}"));
    let end = place
        .end
        .map_or_else(String::new, |(line, column)| format!("..{line}:{column}"));
    format!("{}{column}{end}", place.line)
}

/// The place of a word in the text of a field.
fn word_at(text: &str, path: &str, word: &str) -> String {
    let (objects, mut texts) = read(text);
    let path = FieldPath::new(path);
    let value = objects[0]
        .value
        .pointer(&path.to_pointer())
        .unwrap()
        .as_str()
        .unwrap();
    let begin = value.find(word).unwrap();
    let path = path.with_range(begin..begin + word.len());
    show(texts.place(&objects[0].origin, &path))
}

const POD: &str = "\
# Who reads this?
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {x/y: \"1\"}}
spec:
  containers:
  - name: server
    args:
    - --model
    - \"0.30\"   # a third
    env: [{name: A, value: ü}, {name: B, value: 3}]
";

#[test]
fn values_have_their_place_and_maps_and_lists_that_of_their_key() {
    for (path, place) in [
        ("spec.containers[0].args[0]", "9:7..9:14"),
        ("spec.containers[0].args[1]", "10:7..10:13"),
        ("spec.containers[0].args", "8:5"),
        ("spec.containers[0]", "7:5"),
        ("spec.containers[0].env[1]", "11:32"),
        ("spec.containers[0].env[1].value", "11:49..11:50"),
        ("metadata.labels[x/y]", "4:35..4:38"),
        ("metadata.name", "4:18..4:19"),
        ("", "2:1"),
    ] {
        assert_eq!(at(POD, path), place, "{path}");
    }
}

#[test]
fn what_is_not_there_has_the_place_of_what_it_would_stand_in() {
    for (path, place) in [
        ("spec.containers[0].command[1]", "7:5"),
        ("spec.containers[0].args[9]", "8:5"),
        ("spec.initContainers[0]", "5:1"),
        ("spec.containers[x]", "6:3"),
    ] {
        assert_eq!(at(POD, path), place, "{path}");
    }
}

#[test]
fn documents_and_lists_count_from_the_beginning_of_the_file() {
    let text = format!(
        "\u{feff}---\r\n# nothing\r\n---\r\n{}--- # two\r\napiVersion: v1\r\nkind: List\r\nitems:\r\n- apiVersion: v1\r\n  kind: Pod\r\n  \
         metadata:\r\n    name: b\r\n",
        POD.replace('\n', "\r\n")
    );
    let (objects, mut texts) = read(&text);
    let mut place =
        |index: usize, path: &str| show(texts.place(&objects[index].origin, &FieldPath::new(path)));
    assert_eq!(place(0, "spec.containers[0].args[1]"), "13:7..13:13");
    assert_eq!(place(1, "metadata.name"), "22:11..22:12");
    assert_eq!(place(1, ""), "19:3");
    assert_eq!(place(0, "metadata.name"), "7:18..7:19");
}

#[test]
fn json_has_places_too_several_on_a_line_and_with_tabs() {
    let text = "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}{\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\",\n\t\
                \"metadata\": {\n\t\t\"name\": \"\\ud83d\\ude00b\"}}\n";
    let (objects, mut texts) = read(text);
    let mut place =
        |index: usize, path: &str| show(texts.place(&objects[index].origin, &FieldPath::new(path)));
    assert_eq!(place(0, "metadata.name"), "1:58..1:61");
    assert_eq!(place(1, "kind"), "2:10..2:15");
    assert_eq!(place(1, "metadata.name"), "4:11..4:26");
    assert_eq!(place(1, "apiVersion"), "1:78..1:82");
}

#[test]
fn words_of_a_script_have_their_line() {
    let literal = "\
apiVersion: v1
kind: Pod
args:
- |
  set -e
  exec vllm serve m \\
    --gpu-memory-utilization 0.95 --port 80
";
    assert_eq!(word_at(literal, "args[0]", "0.95"), "7:30..7:34");
    let folded = literal.replace("- |", "- >-");
    assert_eq!(word_at(&folded, "args[0]", "0.95"), "7:30..7:34");
    assert_eq!(word_at(&folded, "args[0]", "set"), "5:3..5:6");
    let quoted =
        "apiVersion: v1\nkind: Pod\nargs: [\"vllm serve m\n    --gpu-memory-utilization \\\n    0.95\"]\n";
    assert_eq!(word_at(quoted, "args[0]", "0.95"), "5:5..5:9");
    // Escapes hide the word: the whole text is what can be named.
    let escaped = "apiVersion: v1\nkind: Pod\nargs: [\"vllm --x 0\\x2e95 y\"]\n";
    assert_eq!(word_at(escaped, "args[0]", "0.95"), "3:8..3:28");
}

#[test]
fn a_word_that_stands_twice_is_told_apart() {
    let text = "apiVersion: v1\nkind: Pod\nargs:\n- |\n  echo 0.5\n  run 0.5\n";
    let (objects, mut texts) = read(text);
    let path = FieldPath::new("args[0]").with_range(13..16);
    assert_eq!(show(texts.place(&objects[0].origin, &path)), "6:7..6:10");
}

#[test]
fn a_line_of_a_document_in_a_field_has_its_place() {
    let text =
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  a.yaml: |\n    x: 1\n    y:\n    - x: 1\n  b.yaml: {}\n";
    let (objects, mut texts) = read(text);
    let mut line =
        |line| show(texts.place_of_line(&objects[0].origin, &FieldPath::new("data[a.yaml]"), line));
    assert_eq!(line(1), "5:5..5:9");
    assert_eq!(line(3), "7:5..7:11");
    // A line that is not there: the whole text.
    assert_eq!(line(9), "5:5..7:11");
}

#[test]
fn places_on_a_line_of_many_characters_are_the_same_as_on_short_ones() {
    let pod = |number: usize| {
        format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"\u{fc}{number}\"}}}}"
        )
    };
    let pods: Vec<String> = (0..1_500).map(pod).collect();
    let list = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{}]}}",
        pods.join(", ")
    );
    for text in [list, pods.concat()] {
        let (objects, mut texts) = read(&text);
        for (number, object) in objects.iter().enumerate() {
            let place = texts.place(&object.origin, &FieldPath::new("metadata.name"));
            let name = format!("\"\u{fc}{number}\"");
            let before = text.split(&name).next().unwrap();
            // Characters before it, each two bytes long where it is an umlaut.
            let column = before.len() - number + 1;
            let end = (1, column + name.chars().count());
            assert_eq!(
                (place.line, place.column, place.end),
                (1, Some(column), Some(end)),
                "{number}"
            );
        }
    }
}

#[test]
fn anchors_and_merged_fields_have_a_place() {
    let text = "\
apiVersion: v1
kind: Pod
x: &x {a: 1, b: 2}
spec:
  <<: *x
  b: 3
  args: [&f 0.30, *f]
";
    assert_eq!(at(text, "spec.b"), "6:6..6:7");
    assert_eq!(at(text, "spec.args[1]"), "7:19");
    assert!(
        at(text, "spec.a").starts_with("3:") || at(text, "spec.a").starts_with("5:"),
        "{}",
        at(text, "spec.a")
    );
}

#[test]
fn helm_names_the_template() {
    let text = "---\n# Source: chat/templates/pod.yaml\napiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\n# Source: no\n";
    let (objects, texts) = read(text);
    assert_eq!(
        texts.template(&objects[0].origin),
        Some("chat/templates/pod.yaml")
    );
    assert_eq!(texts.template(&objects[1].origin), None);
}
