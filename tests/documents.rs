//! The documents that stand beside the code say what the code does: example policies load, every finding code has its
//! page, every policy field is explained.

use std::fs;
use std::path::{Path, PathBuf};

use vramgate::finding::Code;
use vramgate::policy::{PolicySet, file};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn every_example_policy_loads_and_says_what_has_no_effect_yet() {
    let mut documents = Vec::new();
    for entry in fs::read_dir(repository("policies")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let read = file::parse(&fs::read_to_string(&path).unwrap(), &name)
            .unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(read.len(), 1, "{name}");
        let policy = &read[0];
        let notices: Vec<&str> = policy
            .notices
            .iter()
            .map(|notice| notice.field.as_str())
            .collect();
        assert!(notices.is_empty(), "{name}: {notices:?}");
        assert_eq!(
            format!("{}.yaml", policy.policy.name),
            name,
            "a file is named as its policy"
        );
        documents.extend(read);
    }
    let set = PolicySet::from_documents(documents).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        set.names().collect::<Vec<_>>(),
        [
            "shadow-rollout",
            "dedicated-tensor-parallel",
            "production-mps",
            "multi-tenant-mig",
            "development-time-slicing",
            "built-in-default",
        ]
    );
    let readme = fs::read_to_string(repository("policies/README.md")).unwrap();
    for name in set.names().filter(|name| *name != "built-in-default") {
        assert!(
            readme.contains(&format!("({name}.yaml)")),
            "policies/README.md does not name {name}.yaml"
        );
    }
}

#[test]
fn every_code_has_its_page_and_stands_in_the_index() {
    let index = fs::read_to_string(repository("docs/codes/README.md")).unwrap();
    for code in Code::ALL {
        let page = fs::read_to_string(repository(&format!("docs/codes/{code}.md")))
            .unwrap_or_else(|error| panic!("docs/codes/{code}.md: {error}"));
        assert_eq!(
            page.lines().next(),
            Some(format!("# {code}: {}", code.title()).as_str())
        );
        assert!(
            index.contains(&format!("[{code}]({code}.md)")),
            "docs/codes/README.md does not name {code}"
        );
        for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let found = target.is_empty() || repository("docs/codes").join(target).exists();
            assert!(
                found || target.starts_with("https://"),
                "docs/codes/{code}.md links to {target}, which does not exist"
            );
        }
        let severity = format!("`{}`", code.default_severity().as_str());
        let by_unknown = matches!(code, Code::Vg102 | Code::Vg106);
        let line = page
            .lines()
            .find(|line| line.starts_with("**Severity:**"))
            .unwrap_or_default();
        assert!(
            line.contains(&severity) || by_unknown && line.contains("spec.unknown"),
            "{code}: {line}"
        );
    }
    for entry in fs::read_dir(repository("docs/codes")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let code = name.trim_end_matches(".md");
        assert!(
            ["README.md", "examples"].contains(&name.as_str()) || code.parse::<Code>().is_ok(),
            "docs/codes/{name} is no code's page"
        );
    }
}

#[test]
fn every_field_of_the_built_in_default_is_explained() {
    let text = fs::read_to_string(repository("src/policy/built-in-default.yaml")).unwrap();
    let reference = fs::read_to_string(repository("docs/policy.md")).unwrap();
    let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let mut missing = Vec::new();
    let mut rest = vec![("spec".to_owned(), &value["spec"])];
    while let Some((path, value)) = rest.pop() {
        match value.as_object() {
            Some(map) if !map.is_empty() => {
                rest.extend(map.iter().map(|(key, value)| (format!("{path}.{key}"), value)));
            }
            _ if !reference.contains(&format!("`{}`", path.trim_start_matches("spec."))) => {
                missing.push(path);
            }
            _ => {}
        }
    }
    assert!(missing.is_empty(), "docs/policy.md does not explain {missing:?}");
}

#[test]
fn the_reference_shows_the_built_in_default_as_it_is() {
    let text = fs::read_to_string(repository("src/policy/built-in-default.yaml")).unwrap();
    let (_, text) = text.split_once('\n').unwrap();
    let reference = fs::read_to_string(repository("docs/policy.md")).unwrap();
    assert!(reference.contains(&format!("```yaml\n{text}```")));
}
