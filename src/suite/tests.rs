use proptest::prelude::*;

use super::*;

const SUITE: &str = "\
# Development

What the policy is for.

Policy: [development.yaml](development.yaml)

```yaml cluster
kind: Node
```

```yaml
an: example to read
```

## Pods without a fraction

Cluster: [holders](holders.yaml)

### get one

```yaml manifest
kind: Pod
```

```verdict
admit Pod a/b
```

```text
whole
```

### are denied

```yaml policy
kind: GpuSharingPolicy
```

```yaml manifest
kind: Pod
```
";

fn errors(text: &str) -> Vec<String> {
    let errors = read(text).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn sections_hand_cluster_and_policies_down() {
    let suite = read(SUITE).unwrap();
    let [first, second] = suite.cases.as_slice() else {
        panic!("{suite:?}")
    };
    assert_eq!(first.name, "Pods without a fraction / get one");
    assert_eq!(first.cluster.len(), 2);
    assert_eq!(first.cluster[1], Part::File("holders.yaml".to_owned(), 17));
    assert_eq!(first.policies, [Part::File("development.yaml".to_owned(), 5)]);
    assert_eq!(first.expected.len(), 2);
    assert!(
        matches!(second.policies.as_slice(), [Part::Block(_)]),
        "{second:?}"
    );
    assert!(second.expected.is_empty());
    let block = &first.manifests[0];
    assert_eq!(block.in_its_place().lines().nth(block.line), Some("kind: Pod"));
}

#[test]
fn what_cannot_be_meant_is_told_by_its_line() {
    let case = "## a\n```yaml cluster\n```\n```yaml manifest\n```\n";
    assert_eq!(
        errors("```yaml manifest\n"),
        ["1: the block that begins here is not closed"]
    );
    assert!(errors("## a\n```yaml manifest\n```\n")[0].starts_with("1: the case has no cluster"));
    assert!(errors("## a\n\n```verdict\n```\n")[0].starts_with("3: a verdict block in a section without"));
    assert!(errors(&format!("{case}```yaml manifets\n```\n"))[0].ends_with("did you mean manifest?"));
    assert!(errors(&format!("{case}```text\n```\n```text\n```\n"))[0].contains("a second text block"));
    assert!(errors(&format!("{case}### b\n```yaml manifest\n```\n"))[0].contains("a case below \"a\""));
    assert_eq!(
        read("Only prose.\n\n```text\nand an example\n```\n")
            .unwrap()
            .cases,
        []
    );
}

#[test]
fn expectations_are_rewritten_in_their_place_and_nothing_else_is() {
    let suite = read(SUITE).unwrap();
    let new = updated(SUITE, &suite, &|case, aspect| {
        Some(match aspect {
            Aspect::Verdict => format!("deny {}\n", case.name),
            _ => "whole\n".to_owned(),
        })
    });
    let expected = SUITE.replace("admit Pod a/b", "deny Pods without a fraction / get one")
        + "\n```verdict\ndeny Pods without a fraction / are denied\n```\n";
    assert_eq!(new, expected);
    let again = read(&new).unwrap();
    assert_eq!(updated(&new, &again, &|_, _| None), new);
}

proptest! {
    /// Whatever a text holds, reading it ends, and nothing is rewritten where nothing came of it.
    #[test]
    fn any_text_is_read_or_refused(parts in proptest::collection::vec(
        prop::sample::select(vec![
            "# a\n", "## b\n", "```yaml manifest\n", "```yaml cluster\n", "```verdict\n", "```text\n", "```\n", "````md\n", "````\n",
            "  ```patch\n", "   ```\n", "kind: Pod\n", "Cluster: [a](b)\n", "Policy: [a](b\n", "é\u{2028}\n", "\t~~~\n", "no line break",
        ]),
        0..24,
    )) {
        let text = parts.concat();
        if let Ok(suite) = read(&text) {
            prop_assert_eq!(updated(&text, &suite, &|_, _| None), text.clone());
            let rewritten = updated(&text, &suite, &|_, _| Some("new\n".to_owned()));
            let again = read(&rewritten);
            prop_assert!(again.is_ok(), "{:?}", again);
            prop_assert_eq!(again.map(|again| again.cases.len()), Ok(suite.cases.len()));
        }
    }
}
