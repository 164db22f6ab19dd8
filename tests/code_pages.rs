//! Every page of `docs/codes/` has an example that is run here: its files, its command and all that the command prints.
//!
//! A fenced block ```` ```yaml NAME ```` is a file; one that is ```` ```console ```` is a command behind `$ ` and its output. They are
//! run beside the clusters of `docs/codes/examples`. `UPDATE_TEXTS=1` writes the output anew.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vramgate::finding::Code;

/// Codes that no command line raises, and why.
const NOT_RUN: [(Code, &str); 4] = [
    (Code::Vg212, "no check raises it in this release"),
    (
        Code::Vg214,
        "the webhook alone sees pods that nothing has changed: `check` gives them their share first",
    ),
    (
        Code::Vg901,
        "it is of a webhook whose watch has not read the cluster yet",
    ),
    (Code::Vg902, "it is of several webhooks that write one record"),
];

/// A part of a page.
enum Part {
    /// Anything else, with its line breaks.
    Text(String),
    File {
        name: String,
        text: String,
    },
    Console {
        command: String,
        output: String,
    },
}

fn parts(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut lines = page.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let info = line.trim_end().strip_prefix("```").unwrap_or_default();
        let is_file = info.starts_with("yaml ");
        if !is_file && info != "console" {
            text.push_str(line);
            continue;
        }
        parts.push(Part::Text(std::mem::take(&mut text)));
        let body: String = lines
            .by_ref()
            .take_while(|line| line.trim_end() != "```")
            .collect();
        if is_file {
            let name = info.trim_start_matches("yaml ").to_owned();
            parts.push(Part::File { name, text: body });
        } else {
            let (command, output) = body.split_once('\n').unwrap();
            let command = command
                .strip_prefix("$ ")
                .expect("a command behind `$ `")
                .to_owned();
            parts.push(Part::Console {
                command,
                output: output.to_owned(),
            });
        }
    }
    parts.push(Part::Text(text));
    parts
}

fn written(parts: &[Part]) -> String {
    let written = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::File { name, text } => format!("```yaml {name}\n{text}```\n"),
        Part::Console { command, output } => format!("```console\n$ {command}\n{output}```\n"),
    });
    written.collect()
}

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/codes")
}

/// What a command prints in a folder, errors behind the rest.
fn run(command: &str, folder: &Path) -> String {
    let mut words = command.split(' ');
    assert_eq!(words.next(), Some("vramgate"), "{command}");
    let output = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(words)
        .current_dir(folder)
        .env_remove("KUBECONFIG")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).unwrap()
}

#[test]
fn every_code_has_an_example_that_prints_what_its_page_shows() {
    let update = std::env::var_os("UPDATE_TEXTS").is_some();
    let mut wrong = Vec::new();
    for code in Code::ALL {
        let path = pages().join(format!("{code}.md"));
        let page = fs::read_to_string(&path).unwrap();
        let mut parts = parts(&page);
        assert_eq!(written(&parts), page, "{code}");
        let folder = std::env::temp_dir().join(format!("vramgate-pages-{}-{code}", std::process::id()));
        fs::create_dir_all(folder.join("examples")).unwrap();
        for entry in fs::read_dir(pages().join("examples")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.join("examples").join(entry.file_name())).unwrap();
        }
        for part in &parts {
            if let Part::File { name, text } = part {
                let file = folder.join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
        }
        let mut commands = 0;
        for part in &mut parts {
            let Part::Console { command, output } = part else {
                continue;
            };
            commands += 1;
            let printed = run(command, &folder);
            let raised = printed.contains(&format!("{code}: "));
            assert!(raised, "{code}: `{command}` does not raise it:\n{printed}");
            if *output != printed {
                wrong.push(format!("{code}: `{command}` prints\n{printed}"));
                *output = printed;
            }
        }
        let not_run = NOT_RUN.iter().any(|(known, _)| known == code);
        assert_eq!(
            commands == 0,
            not_run,
            "docs/codes/{code}.md has {commands} commands"
        );
        if update {
            fs::write(&path, written(&parts)).unwrap();
        }
        fs::remove_dir_all(&folder).unwrap();
    }
    assert!(
        update || wrong.is_empty(),
        "run with UPDATE_TEXTS=1 and look at the change\n{}",
        wrong.join("\n")
    );
}

/// `explain --code` prints the same pages.
#[test]
fn the_command_line_prints_each_page() {
    for code in Code::ALL {
        for written in [
            code.as_str().to_owned(),
            code.as_str().to_lowercase(),
            code.as_str()[2..].to_owned(),
        ] {
            let text = run(&format!("vramgate explain --code {written}"), &pages());
            assert!(text.starts_with(&format!("{code}: {}\n", code.title())), "{text}");
        }
    }
    let list = run("vramgate explain --code list", &pages());
    for code in Code::ALL {
        assert!(
            list.contains(&format!("{code}  ")) && list.contains(code.title()),
            "{list}"
        );
    }
    let unknown = run("vramgate explain --code VG210x", &pages());
    assert_eq!(
        unknown,
        "error: --code VG210x: is no finding code; did you mean VG210? `vramgate explain --code list` prints all of them\n"
    );
    assert!(run("vramgate explain --code", &pages()).contains("a value is required"));
    assert!(run("vramgate explain", &pages()).contains("<FILE>"));
}

/// Lines of running text are no longer than the terminal is wide.
#[test]
fn pages_are_broken_to_the_width_of_the_terminal() {
    let output = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(["explain", "--code", "VG201"])
        .env("COLUMNS", "60")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let running = text.lines().filter(|line| !line.starts_with("    "));
    for line in running {
        assert!(line.chars().count() <= 60, "{line}");
    }
}

/// A page leads to its neighbours: every code is led to by another page, and none leads to a code that is not there.
#[test]
fn pages_lead_to_each_other() {
    let mut led_to = std::collections::BTreeSet::new();
    for code in Code::ALL {
        let page = fs::read_to_string(pages().join(format!("{code}.md"))).unwrap();
        let (_, related) = page
            .split_once("## Related")
            .unwrap_or_else(|| panic!("{code} has no related pages"));
        let others: Vec<&str> = related
            .split("](VG")
            .skip(1)
            .map(|rest| rest.split(".md").next().unwrap())
            .collect();
        assert!(!others.is_empty(), "{code} leads nowhere");
        for other in others {
            let other: Code = format!("VG{other}").parse().unwrap();
            assert_ne!(other, *code, "{code} leads to itself");
            led_to.insert(other);
        }
    }
    let missing: Vec<&Code> = Code::ALL.iter().filter(|code| !led_to.contains(code)).collect();
    assert!(missing.is_empty(), "no page leads to {missing:?}");
}
