//! `vramgate check -o …`: each format whole, with the line and column of the argument at fault; what input is taken; exit
//! codes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

mod kit;

use kit::golden;

/// Two servers on a shared GPU, one of them started by a script, and a pod that a variable does not help.
const MANIFESTS: &str = "\
# Two servers of one team.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat
  namespace: assistants
spec:
  replicas: 1
  selector: {matchLabels: {app: chat}}
  template:
    metadata:
      labels: {app: chat}
    spec:
      containers:
      - name: server
        image: vllm/vllm-openai:v0.20.0
        command: [sh, -c]
        args:
        - |
          set -e
          echo \"starting\"
          exec vllm serve Qwen/Qwen3-0.6B \\
            --max-model-len 4096 \\
            --gpu-memory-utilization 0.95
        resources:
          limits:
            nvidia.com/gpu: 1
---
apiVersion: v1
kind: Pod
metadata: {name: embed, namespace: research}
spec:
  nodeSelector: {node-role: dedicated-gpu}
  tolerations: [{key: example.com/dedicated, operator: Exists}]
  containers:
  - name: server
    image: vllm/vllm-openai:v0.20.0
    args: [--model, Qwen/Qwen3-0.6B, --max-model-len, \"4096\"]
    env:
    - name: GPU_MEMORY_UTILIZATION
      value: \"0.20\"
    resources: {limits: {nvidia.com/gpu: 1}}
";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("vramgate-formats-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn check(&self, args: &[&str]) -> Output {
        self.check_with_input(args, b"")
    }

    /// In this folder, against the example cluster.
    fn check_with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let cluster = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/cluster.yaml");
        let mut child = Command::new(env!("CARGO_BIN_EXE_vramgate"))
            .current_dir(&self.0)
            .arg("check")
            .arg("--cluster-state")
            .arg(cluster)
            .args(args)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("deploy/chat.yaml", MANIFESTS);
    folder
}

/// The findings of a document of `-o json` as `code file:line:column`.
fn places(document: &Value) -> Vec<String> {
    let items = document["items"].as_array().unwrap().iter();
    let findings = items.flat_map(|item| item["findings"].as_array().unwrap());
    findings
        .map(|finding| {
            let position = &finding["position"];
            let file = position["file"].as_str().unwrap();
            let column = position["column"]
                .as_u64()
                .map_or_else(String::new, |column| format!(":{column}"));
            format!(
                "{} {file}:{}{column}",
                finding["code"].as_str().unwrap(),
                position["line"]
            )
        })
        .collect()
}

#[test]
fn text_names_file_line_and_column() {
    let folder = folder("text");
    let output = folder.check(&["deploy"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    golden("check-text", &stdout(&output));
    assert!(stdout(&output).contains("deploy/chat.yaml:24:38 (spec.template.spec.containers[0].args[0])"));
}

#[test]
fn json_has_the_position_of_each_finding_and_object() {
    let folder = folder("json");
    let document = json(&folder.check(&["-o", "json", "./deploy/chat.yaml"]));
    let first = &document["items"][0];
    assert_eq!(
        first["position"],
        serde_json::json!({"file": "deploy/chat.yaml", "line": 2, "column": 1})
    );
    assert_eq!(
        first["findings"][0]["position"],
        serde_json::json!({"file": "deploy/chat.yaml", "line": 24, "column": 38, "endLine": 24, "endColumn": 42})
    );
    assert!(
        places(&document).contains(&"VG103 deploy/chat.yaml:40:7".to_owned()),
        "{:?}",
        places(&document)
    );
    // A path from the root is told from the working directory, too.
    let absolute = folder.0.join("deploy");
    let document = json(&folder.check(&["-o", "json", absolute.to_str().unwrap()]));
    assert_eq!(document["items"][0]["position"]["file"], "deploy/chat.yaml");
}

#[test]
fn sarif_is_what_the_standard_wants() {
    let folder = folder("sarif");
    let output = folder.check(&["-o", "sarif", "deploy"]);
    assert_eq!(code(&output), 1);
    let mut log = json(&output);
    is_sarif(&log);
    let run = &mut log["runs"][0];
    assert_eq!(run["invocations"][0]["exitCode"], 1);
    // The pages have their own tests.
    for rule in run["tool"]["driver"]["rules"].as_array_mut().unwrap() {
        assert!(rule["help"]["markdown"].as_str().unwrap().starts_with("# VG"));
        rule["help"] = "…".into();
    }
    for version in ["version", "semanticVersion"] {
        assert_eq!(run["tool"]["driver"][version], env!("CARGO_PKG_VERSION"));
        run["tool"]["driver"][version] = "…".into();
    }
    golden("check-sarif", &serde_json::to_string_pretty(&log).unwrap());
}

/// What the schema of SARIF 2.1.0 requires of the objects in use, and what code scanning reads besides.
fn is_sarif(log: &Value) {
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().ends_with("sarif-2.1.0.json"));
    for run in log["runs"].as_array().unwrap() {
        let driver = &run["tool"]["driver"];
        assert!(driver["name"].is_string());
        assert_eq!(run["columnKind"], "unicodeCodePoints");
        let rules = driver["rules"].as_array().unwrap();
        let ids: BTreeSet<&str> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), rules.len());
        let level = |value: &Value| {
            let level = value.as_str().unwrap();
            assert!(["none", "note", "warning", "error"].contains(&level), "{level}");
        };
        for rule in rules {
            for text in ["shortDescription", "fullDescription", "help"] {
                assert!(!rule[text]["text"].as_str().unwrap().is_empty(), "{rule}");
            }
            level(&rule["defaultConfiguration"]["level"]);
            assert!(rule["helpUri"].is_null() || rule["helpUri"].as_str().unwrap().contains("://"));
        }
        for invocation in run["invocations"].as_array().unwrap() {
            assert!(invocation["executionSuccessful"].is_boolean());
            for note in invocation["toolExecutionNotifications"].as_array().unwrap() {
                assert!(note["message"]["text"].is_string());
                level(&note["level"]);
            }
        }
        let mut prints = BTreeSet::new();
        for result in run["results"].as_array().unwrap() {
            assert!(!result["message"]["text"].as_str().unwrap().is_empty());
            level(&result["level"]);
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(result["ruleId"], rules[index]["id"]);
            let print = result["partialFingerprints"]["vramgateFinding/v1"]
                .as_str()
                .unwrap();
            assert!(prints.insert(print.to_owned()), "{print} stands twice");
            for location in result["locations"].as_array().unwrap() {
                let physical = &location["physicalLocation"];
                if physical.is_null() {
                    continue;
                }
                let uri = physical["artifactLocation"]["uri"].as_str().unwrap();
                assert!(uri.is_ascii() && !uri.contains(' '), "{uri}");
                let region = &physical["region"];
                if region.is_null() {
                    continue;
                }
                for (name, number) in region.as_object().unwrap() {
                    assert!(
                        number.as_u64().is_some_and(|number| number >= 1),
                        "{name}: {number}"
                    );
                }
                let at = |line: &str, column: &str| (region[line].as_u64(), region[column].as_u64());
                if region["endLine"].is_u64() {
                    assert!(
                        at("startLine", "startColumn") < at("endLine", "endColumn"),
                        "{region}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_fingerprint_of_a_finding_stays_when_lines_move() {
    let folder = folder("prints");
    let prints = |folder: &Folder| -> Vec<Value> {
        let log = json(&folder.check(&["-o", "sarif", "deploy"]));
        let results = log["runs"][0]["results"].as_array().unwrap().clone();
        results
            .iter()
            .map(|result| result["partialFingerprints"].clone())
            .collect()
    };
    let before = prints(&folder);
    folder.write(
        "deploy/chat.yaml",
        MANIFESTS.replace("# Two servers of one team.\n", "# One\n# more\n\n"),
    );
    assert_eq!(before, prints(&folder));
    folder.write(
        "deploy/chat.yaml",
        MANIFESTS.replace("name: embed", "name: embed-2"),
    );
    assert_ne!(before, prints(&folder));
}

#[test]
fn junit_has_a_case_for_each_object() {
    let folder = folder("junit");
    let output = folder.check(&["-o", "junit", "deploy"]);
    assert_eq!(code(&output), 1);
    golden("check-junit", &stdout(&output));
    is_well_formed(&stdout(&output));
    let strict = folder.check(&["-o", "junit", "--fail-on", "warning", "deploy"]);
    assert!(stdout(&strict).contains("failures=\"2\""), "{}", stdout(&strict));
}

/// Every element is closed in its order, attributes are quoted and never repeated, no markup stands in text.
fn is_well_formed(xml: &str) {
    let body = xml
        .strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
        .unwrap();
    let mut open: Vec<String> = Vec::new();
    let mut rest = body.trim_end();
    while let Some(begin) = rest.find('<') {
        let text = &rest[..begin];
        assert!(open.is_empty() == text.is_empty() || !open.is_empty(), "{text}");
        assert!(!text.contains('>'), "{text}");
        for entity in text.split('&').skip(1) {
            let name = entity.split(';').next().unwrap();
            assert!(["amp", "lt", "gt", "quot", "apos"].contains(&name), "&{name}");
        }
        let end = begin + rest[begin..].find('>').unwrap();
        let tag = &rest[begin + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let (name, attributes) = tag
            .trim_end_matches('/')
            .split_once(' ')
            .unwrap_or((tag.trim_end_matches('/'), ""));
        let mut names = BTreeSet::new();
        let mut attributes = attributes.trim();
        while !attributes.is_empty() {
            let (name, value) = attributes.split_once("=\"").unwrap();
            let (_, behind) = value.split_once('"').unwrap();
            assert!(names.insert(name.to_owned()), "{name} stands twice");
            attributes = behind.trim();
        }
        if !tag.ends_with('/') {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty() && rest.is_empty(), "{open:?} {rest}");
}

#[test]
fn github_gets_annotations() {
    let folder = folder("github");
    let output = folder.check(&["-o", "github", "deploy"]);
    assert_eq!(code(&output), 1);
    golden("check-github", &stdout(&output));
    for line in stdout(&output).lines().filter(|line| line.starts_with("::")) {
        assert!(
            line.starts_with("::error file=deploy/chat.yaml,line=") || line.starts_with("::warning file=")
        );
    }
}

#[test]
fn names_of_objects_and_files_are_no_markup() {
    let folder = Folder::new("hostile");
    let hostile = MANIFESTS
        .replace("name: embed,", "name: \"a\\n::error::<b>&'\\u0007\\\"\",")
        .replace("name: GPU_MEMORY_UTILIZATION", "name: GPU_MEMORY_UTILIZATION # <");
    folder.write("a b,c:é.yaml", hostile);
    let github = stdout(&folder.check(&["-o", "github", "."]));
    assert!(github.contains("file=a b%2Cc%3Aé.yaml,"), "{github}");
    for line in github.lines() {
        assert!(!line.starts_with("::error::"), "{github}");
    }
    let junit = stdout(&folder.check(&["-o", "junit", "."]));
    is_well_formed(&junit);
    assert!(junit.contains("&lt;b&gt;&amp;&apos;\u{fffd}&quot;"), "{junit}");
    let sarif = json(&folder.check(&["-o", "sarif", "."]));
    is_sarif(&sarif);
    assert!(sarif.to_string().contains("a%20b%2Cc%3A%C3%A9.yaml"));
}

#[test]
fn unusable_input_is_told_in_each_format_beside_the_verdicts() {
    let folder = folder("unusable");
    folder.write(
        "deploy/broken.yaml",
        "apiVersion: v1\nkind: Pod\n\tmetadata: {}\n",
    );
    for format in ["sarif", "junit", "github", "json", "text"] {
        let output = folder.check(&["-o", format, "deploy"]);
        assert_eq!(code(&output), 2, "{format}");
        assert!(
            stderr(&output).starts_with("error: deploy/broken.yaml:2:"),
            "{}",
            stderr(&output)
        );
        let text = stdout(&output);
        assert!(text.contains("VG201") || text.contains("VG2"), "{format}: {text}");
        match format {
            "sarif" => {
                let log = json(&output);
                is_sarif(&log);
                assert_eq!(log["runs"][0]["invocations"][0]["executionSuccessful"], false);
            }
            "junit" => {
                is_well_formed(&text);
                assert!(
                    text.contains("errors=\"1\"") && text.contains("<error type="),
                    "{text}"
                );
            }
            "github" => assert!(
                text.starts_with("::error file=deploy/broken.yaml,line=2,col="),
                "{text}"
            ),
            _ => {}
        }
    }
    // Where nothing else is there, a report that a later step reads is still one.
    let output = folder.check(&["-o", "sarif", "missing.yaml"]);
    assert_eq!(code(&output), 2);
    is_sarif(&json(&output));
    is_well_formed(&stdout(&folder.check(&["-o", "junit", "missing.yaml"])));
}

#[test]
fn what_helm_prints_is_told_by_template_and_line() {
    let folder = Folder::new("helm");
    let rendered = format!(
        "---\n# Source: chat/templates/chat.yaml\n{}",
        MANIFESTS.replace("---\n", "---\n# Source: chat/templates/embed.yaml\n")
    );
    let document = json(&folder.check_with_input(&["-o", "json", "-"], rendered.as_bytes()));
    let position = &document["items"][0]["findings"][0]["position"];
    assert_eq!(
        (&position["file"], &position["line"], &position["template"]),
        (&"-".into(), &26.into(), &"chat/templates/chat.yaml".into())
    );
    let github = stdout(&folder.check_with_input(&["-o", "github", "-"], rendered.as_bytes()));
    assert!(
        github.starts_with("::error file=chat/templates/chat.yaml,title="),
        "{github}"
    );
    assert!(
        github.contains("at -:26:38 of chat/templates/chat.yaml"),
        "{github}"
    );
    assert!(
        github.contains("::warning file=chat/templates/embed.yaml,title=VG103"),
        "{github}"
    );
    let sarif = json(&folder.check_with_input(&["-o", "sarif", "-"], rendered.as_bytes()));
    is_sarif(&sarif);
    let physical = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(physical["artifactLocation"]["uri"], "chat/templates/chat.yaml");
    assert!(physical["region"].is_null());
    // Kustomize names none.
    let text = stdout(&folder.check_with_input(&["-"], MANIFESTS.as_bytes()));
    assert!(text.contains("at -:24:38 (spec.template"), "{text}");
    // A file that holds such output is a file all the same.
    folder.write("rendered.yaml", &rendered);
    let github = stdout(&folder.check(&["-o", "github", "rendered.yaml"]));
    assert!(
        github.starts_with("::error file=rendered.yaml,line=26,"),
        "{github}"
    );
}

/// Every form in which kubectl takes the same two objects gives the same verdicts, and places in its own lines.
#[test]
fn input_is_taken_as_kubectl_takes_it() {
    let folder = Folder::new("forms");
    let told = |name: &str, text: &str| -> (Vec<String>, Vec<String>) {
        let output = folder.check_with_input(&["-o", "json", "-"], text.as_bytes());
        assert_eq!(code(&output), 1, "{name}: {}", stderr(&output));
        let document = json(&output);
        let verdicts = document["items"].as_array().unwrap().iter();
        let verdicts = verdicts.map(|item| format!("{} {}", item["object"]["name"], item["verdict"]));
        (verdicts.collect(), places(&document))
    };
    let (verdicts, plain) = told("plain", MANIFESTS);
    assert_eq!(verdicts, ["\"chat\" \"deny\"", "\"embed\" \"admit\""]);
    let same =
        |name: &str, text: &str| assert_eq!(told(name, text), (verdicts.clone(), plain.clone()), "{name}");
    same("CRLF", &MANIFESTS.replace('\n', "\r\n"));
    same("byte order mark", &format!("\u{feff}{MANIFESTS}"));
    same(
        "comment behind the marker",
        &MANIFESTS.replace("---\n", "--- # the second\n"),
    );
    same(
        "tabs behind values",
        &MANIFESTS.replace("kind: Pod\n", "kind: Pod\t \n"),
    );
    same("no line break at the end", MANIFESTS.trim_end());
    same(
        "empty documents behind",
        &format!("{MANIFESTS}---\n---\n# nothing\n---\n\n"),
    );
    let (moved, _) = told(
        "empty documents before",
        &format!("---\n# nothing\n---\n\n---\n{MANIFESTS}"),
    );
    assert_eq!(moved, verdicts);
    let anchored = MANIFESTS
        .replace("  replicas: 1\n", "  replicas: &one 1\n")
        .replace(
            "            nvidia.com/gpu: 1\n",
            "            nvidia.com/gpu: *one\n",
        );
    same("anchors", &anchored);

    // A list, as `kubectl get -o yaml` prints it, and as JSON.
    let objects: Vec<Value> = MANIFESTS
        .split("---\n")
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    for text in [serde_json::to_string_pretty(&list).unwrap(), list.to_string()] {
        let (of_list, places) = told("list", &text);
        assert_eq!((of_list, places.len()), (verdicts.clone(), plain.len()));
        for place in places {
            let mut numbers = place.rsplit(':').map(|number| number.parse::<usize>().unwrap());
            let (column, line) = (numbers.next().unwrap(), place.rsplit(':').nth(1).unwrap());
            let line: usize = line.parse().unwrap();
            assert!(
                text.lines().nth(line - 1).unwrap().chars().count() >= column,
                "{place}"
            );
        }
    }
    // Objects one after the other, as `kubectl get -o json` of single ones gives them.
    let stream: Vec<String> = objects
        .iter()
        .map(|object| serde_json::to_string_pretty(object).unwrap())
        .collect();
    let (of_stream, places) = told("stream", &stream.join("\n"));
    assert_eq!((of_stream, places.len()), (verdicts.clone(), plain.len()));
}

#[test]
fn merge_keys_are_resolved_and_the_place_is_that_of_the_field() {
    let folder = Folder::new("merge");
    let text = MANIFESTS.replace(
        "        resources:\n          limits:\n            nvidia.com/gpu: 1\n",
        "        <<: &rest\n          resources:\n            limits:\n              nvidia.com/gpu: 1\n",
    );
    let document = json(&folder.check_with_input(&["-o", "json", "-"], text.as_bytes()));
    assert_eq!(document["items"][0]["verdict"], "deny");
    assert!(
        places(&document)[0].ends_with("-:24:38"),
        "{:?}",
        places(&document)
    );
}

#[test]
fn exit_codes_follow_the_level_and_the_codes() {
    let folder = folder("exit");
    let denied = |args: &[&str]| code(&folder.check(&[&["deploy"], args].concat()));
    assert_eq!(denied(&[]), 1);
    assert_eq!(denied(&["--fail-on", "error"]), 1);
    assert_eq!(denied(&["--fail-on", "never"]), 0);
    assert_eq!(denied(&["--fail-on", "never,VG103"]), 1);
    assert_eq!(denied(&["--fail-on", "never", "--fail-on", "VG404"]), 0);
    assert_eq!(denied(&["--fail-on", "never,warning"]), 2);
    assert_eq!(denied(&["--fail-on", "nothing"]), 2);
    // The second document alone: a warning.
    let (_, embed) = MANIFESTS.split_once("---\n").unwrap();
    folder.write("embed.yaml", embed);
    let warned = |args: &[&str]| code(&folder.check(&[&["embed.yaml"], args].concat()));
    assert_eq!(warned(&[]), 0);
    assert_eq!(warned(&["--fail-on", "warning"]), 1);
    assert_eq!(warned(&["--fail-on", "VG103"]), 1);
    assert_eq!(warned(&["--fail-on", "VG201"]), 0);
    // Unusable input is 2 whatever is asked.
    folder.write("broken.yaml", "kind: [");
    assert_eq!(code(&folder.check(&["broken.yaml", "--fail-on", "never"])), 2);
}

/// Places are looked up where there is a finding, each document once: what they add is less than the verdicts themselves cost.
#[test]
fn many_documents_with_findings_are_placed_in_no_time() {
    const DOCUMENTS: usize = 1_000;
    let folder = Folder::new("many");
    let (_, embed) = MANIFESTS.split_once("---\n").unwrap();
    let many = |document: &str| -> String {
        let numbered = (0..DOCUMENTS).map(|number| {
            format!(
                "---\n{}",
                document.replace("name: embed", &format!("name: embed-{number}"))
            )
        });
        numbered.collect()
    };
    let timed = |text: &str| {
        let begin = Instant::now();
        let document = json(&folder.check_with_input(&["-o", "json", "-"], text.as_bytes()));
        (document, begin.elapsed())
    };
    let (_, without) = timed(&many(&embed.replace("GPU_MEMORY_UTILIZATION", "ANYTHING")));
    let (document, with) = timed(&many(embed));
    assert!(
        with < without * 4 + Duration::from_secs(5),
        "{with:?} with findings, {without:?} without"
    );
    let last = &document["items"][DOCUMENTS - 1];
    let lines = embed.lines().count() + 1;
    let findings = last["findings"].as_array().unwrap();
    let found = findings
        .iter()
        .find(|finding| finding["code"] == "VG103")
        .unwrap();
    let line = u64::try_from((DOCUMENTS - 1) * lines + 13).unwrap();
    assert_eq!(found["position"]["line"].as_u64(), Some(line), "{found}");
}
