//! The suites beside the example policies, run by the command that their readers run; and the example policies themselves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn vramgate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no JSON: {}{}", text(&output.stdout), text(&output.stderr)))
}

/// The example policies.
fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_suite_says_what_the_decision_says() {
    let output = vramgate(&["policy", "test", "policies"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

#[test]
fn every_example_has_a_suite_that_admits_and_refuses_with_texts() {
    let result = json(&vramgate(&["policy", "test", "policies", "-o", "json"]));
    let cases = result["items"].as_array().unwrap();
    for example in examples() {
        let name = example.file_stem().unwrap().to_str().unwrap();
        let suite = format!("policies/{name}.md");
        let verdicts: Vec<&str> = cases
            .iter()
            .filter(|case| case["file"] == suite.as_str())
            .flat_map(|case| case["verdicts"].as_array().unwrap())
            .map(|verdict| verdict.as_str().unwrap())
            .collect();
        let told = |word: &str| verdicts.iter().any(|verdict| verdict.starts_with(word));
        assert!(told("admit ") && told("deny "), "{suite}: {verdicts:?}");
        let markdown = fs::read_to_string(example.with_extension("md")).unwrap();
        assert!(markdown.contains("```text\n"), "{suite} shows no text");
    }
    assert_eq!(examples().len(), 5);
}

/// Each by itself: as a set, the shadow comes before all others, and its lint says so.
#[test]
fn examples_are_clean_alone_and_told_of_each_other() {
    for example in examples() {
        let example = example.display().to_string();
        let output = vramgate(&["policy", "lint", &example, "--fail-on", "warning"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        assert!(text(&output.stdout).ends_with("1 file: 0 errors, 0 warnings\n"));
    }
    let all = json(&vramgate(&["policy", "lint", "policies", "-o", "json"]));
    let rules: Vec<&str> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|remark| remark["severity"] == "warning")
        .map(|remark| remark["rule"].as_str().unwrap())
        .collect();
    assert_eq!(
        rules,
        [
            "unreachable",
            "unreachable",
            "unreachable",
            "unreachable",
            "resets"
        ]
    );
    let without: Vec<String> = examples()
        .iter()
        .filter(|path| !path.ends_with("shadow-rollout.yaml"))
        .map(|path| path.display().to_string())
        .collect();
    let mut args = vec!["policy", "lint", "--fail-on", "warning"];
    args.extend(without.iter().map(String::as_str));
    let output = vramgate(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

/// The page about suites shows a whole one.
#[test]
fn the_suite_of_the_documentation_passes() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/policy-suites.md")).unwrap();
    let (_, behind) = page.split_once("````markdown\n").unwrap();
    let (suite, _) = behind.split_once("\n````\n").unwrap();
    let folder = std::env::temp_dir().join(format!("vramgate-suite-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("shown.md");
    fs::write(&file, suite).unwrap();
    let output = vramgate(&["policy", "test", &file.display().to_string()]);
    let _ = fs::remove_dir_all(&folder);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    assert!(text(&output.stdout).ends_with("1 passed, 0 failed\n"));
}
