//! The command lines of `docs/ci.md` work: each is run by a shell, with what a job finds beside it.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MANIFEST: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: assistants}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
      - name: server
        image: vllm/vllm-openai:v0.20.0
        args: [--model, Qwen/Qwen3-0.6B, --max-model-len, \"4096\", --gpu-memory-utilization, \"0.30\"]
        resources: {limits: {nvidia.com/gpu: 1}}
";

/// What is no part of vramgate is played: a renderer prints the manifest, git does nothing.
const TOOLS: [&str; 6] = ["helm", "kubectl", "argocd", "flux", "kustomize", "git"];

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn folder() -> Folder {
    let path = std::env::temp_dir().join(format!("vramgate-ci-{}", std::process::id()));
    let write = |name: &str, text: &str| {
        let file = path.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write("rendered.yaml", MANIFEST);
    write("deploy/chat.yaml", &MANIFEST.replace("0.30", "0.50"));
    write("base/deploy/chat.yaml", MANIFEST);
    write("policies/.keep", "");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::copy(root.join("examples/cluster.yaml"), path.join("cluster.yaml")).unwrap();
    for tool in TOOLS {
        let text = match tool {
            "git" => "#!/bin/sh\n",
            // The page's first command writes the snapshot itself.
            "kubectl" => "#!/bin/sh\ncase $1 in get) cat saved.yaml ;; *) cat rendered.yaml ;; esac\n",
            _ => "#!/bin/sh\ncat rendered.yaml\n",
        };
        write(&format!("bin/{tool}"), text);
        fs::set_permissions(path.join("bin").join(tool), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::copy(path.join("cluster.yaml"), path.join("saved.yaml")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_vramgate"), path.join("bin/vramgate")).unwrap();
    Folder(path)
}

/// The commands of the page's blocks, in order, without what YAML puts in front of them.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut in_block = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
            continue;
        }
        let line = line.trim().trim_start_matches("- ").trim_start_matches("run: ");
        let first = line.split(' ').next().unwrap_or_default();
        if in_block && (first == "vramgate" || TOOLS.contains(&first)) {
            commands.push(line.to_owned());
        }
    }
    commands
}

fn run(command: &str, folder: &Path) -> Output {
    let path = format!("{}:/usr/bin:/bin", folder.join("bin").display());
    Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .env_clear()
        .env("PATH", path)
        .env("GITHUB_BASE_REF", "main")
        .env("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")
        .output()
        .unwrap()
}

#[test]
fn every_command_line_of_the_page_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/ci.md")).unwrap();
    let folder = folder();
    let commands = commands(&page);
    assert!(
        commands
            .iter()
            .filter(|command| command.contains("vramgate "))
            .count()
            >= 9,
        "{commands:#?}"
    );
    for command in &commands {
        let output = run(command, &folder.0);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{command}\n{error}");
        assert_eq!(error, "", "{command}");
    }
    let sarif = fs::read_to_string(folder.0.join("vramgate.sarif")).unwrap();
    assert!(sarif.contains("\"version\": \"2.1.0\""), "{sarif}");
    let junit = fs::read_to_string(folder.0.join("vramgate.xml")).unwrap();
    assert!(junit.contains("Deployment assistants/chat"), "{junit}");
    // The same jobs stop what does not fit.
    let file = folder.0.join("deploy/chat.yaml");
    fs::write(&file, MANIFEST.replace("0.30", "0.95")).unwrap();
    fs::write(folder.0.join("rendered.yaml"), MANIFEST.replace("0.30", "0.95")).unwrap();
    for command in commands
        .iter()
        .filter(|command| command.contains("vramgate check"))
    {
        let never = command.contains("--fail-on never");
        let expected = i32::from(!never);
        assert_eq!(run(command, &folder.0).status.code(), Some(expected), "{command}");
    }
    let told = run(
        commands
            .iter()
            .find(|command| command.ends_with("-o github"))
            .unwrap(),
        &folder.0,
    );
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.contains("::error file=deploy/chat.yaml,line=14,endLine=14,col=93,"),
        "{told}"
    );
}
