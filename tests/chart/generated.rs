//! Files of the chart that are generated: `UPDATE_TEXTS=1 cargo test --test chart` writes them anew.

use std::process::Command;

use serde_json::Value;
use vramgate::policy::ConfigMapName;
use vramgate::server::registration::{Gate, Target, webhook_config};

use crate::helm::{chart, sources};

/// Compares a file of the chart with what it should be, or writes it.
pub(crate) fn is_current(path: &std::path::Path, text: &str) {
    if std::env::var_os("UPDATE_TEXTS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        return;
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        found,
        text,
        "{} is not current; run with UPDATE_TEXTS=1 and look at the change",
        path.display()
    );
}

/// A YAML block of `docs/rbac.md`: the first is what every installation needs, the second what an authority of its own needs.
pub(crate) fn documented_roles(number: usize) -> String {
    let page = std::fs::read_to_string(sources().join("docs/rbac.md")).unwrap();
    let block = page
        .split("```yaml\n")
        .nth(number)
        .and_then(|rest| rest.split("```").next());
    block.expect("docs/rbac.md has a YAML block").to_owned()
}

pub(crate) fn definitions() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .arg("crds")
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// One file for every set of policies: what stands in it only under some of them is marked.
pub(crate) fn marked_registrations() -> String {
    let target = Target::service("release/vramgate").unwrap();
    let exempt = ["exempt".to_owned()];
    let of = |gate: &Gate| Value::Array(webhook_config(&target, None, gate, &exempt));
    let class = Gate {
        runtime_classes: vec!["classes".to_owned()],
        ..Gate::default()
    };
    let privileged = Gate {
        privileged: true,
        ..Gate::default()
    };
    let map = ConfigMapName {
        namespace: "maps".to_owned(),
        name: "maps".to_owned(),
    };
    let maps = Gate {
        config_maps: vec![map.clone()],
        ..Gate::default()
    };
    let all = Gate {
        runtime_classes: class.runtime_classes.clone(),
        privileged: true,
        config_maps: vec![map],
    };
    let none = of(&Gate::default());
    let each = [
        ("classes", "'classes'", of(&class)),
        ("privileged", "", of(&privileged)),
        ("maps", "'maps/maps'", of(&maps)),
    ];
    let mut marked = of(&all);
    mark(&mut marked, "", &none, &each);
    let document = serde_json::json!({ "items": marked });
    serde_json::to_string_pretty(&document).unwrap() + "\n"
}

type Option3 = [(&'static str, &'static str, Value); 3];

fn mark(value: &mut Value, at: &str, none: &Value, each: &Option3) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let key = key.replace('~', "~0").replace('/', "~1");
                mark(member, &format!("{at}/{key}"), none, each);
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter_mut().enumerate() {
                mark(item, &format!("{at}/{number}"), none, each);
            }
        }
        Value::String(text) => {
            let before = none.pointer(at).and_then(Value::as_str).expect("the same shape");
            for (name, list, with) in each {
                let with = with.pointer(at).and_then(Value::as_str).expect("the same shape");
                let Some(part) = inserted(before, with) else {
                    continue;
                };
                assert_eq!(text.matches(part).count(), 1, "{at}: {part}");
                let marked = if list.is_empty() {
                    part.to_owned()
                } else {
                    assert_eq!(part.matches(list).count(), 1, "{at}: {part}");
                    part.replace(list, &format!("@{name}@"))
                };
                *text = text.replace(part, &format!("<<{name}|{marked}|{name}>>"));
            }
        }
        _ => {}
    }
}

/// What `with` has more than `without`, in one place.
fn inserted<'a>(without: &str, with: &'a str) -> Option<&'a str> {
    if without == with {
        return None;
    }
    let start = without
        .bytes()
        .zip(with.bytes())
        .take_while(|(one, other)| one == other)
        .count();
    let end = start + with.len() - without.len();
    assert_eq!(&with[end..], &without[start..], "more than one place differs");
    Some(&with[start..end])
}

#[test]
fn the_files_of_the_chart_are_current() {
    files_are_current();
}

/// Called by whoever renders what they hold, so that one run with `UPDATE_TEXTS` writes everything.
pub(crate) fn files_are_current() {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _held = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let files = chart().join("files");
    is_current(&files.join("registrations.json"), &marked_registrations());
    is_current(&files.join("crds.yaml"), &definitions());
    is_current(&files.join("roles.yaml"), &documented_roles(1));
    is_current(&files.join("roles-own-ca.yaml"), &documented_roles(2));
}

#[test]
fn the_versions_are_those_of_the_program() {
    let text = std::fs::read_to_string(chart().join("Chart.yaml")).unwrap();
    for line in [
        format!("version: {}", env!("CARGO_PKG_VERSION")),
        format!("appVersion: \"{}\"", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(text.lines().any(|found| found == line), "Chart.yaml lacks {line}");
    }
    let docker = std::fs::read_to_string(sources().join("Dockerfile")).unwrap();
    let rust = env!("CARGO_PKG_RUST_VERSION");
    assert!(
        docker.contains(&format!("FROM rust:{rust}-alpine")),
        "the Dockerfile builds with Rust {rust}"
    );
    assert!(
        docker.contains("USER 65532:65532"),
        "the user of the chart's pods"
    );
}
