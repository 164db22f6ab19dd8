//! Rendering: Helm as it is, with values in a file.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use vramgate::manifest::{Limits, objects};

/// The release's namespace.
pub(crate) const NAMESPACE: &str = "gpu";
/// The oldest release of Kubernetes that the chart says it is for.
const OLDEST: &str = "1.30.0";

pub(crate) fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn chart() -> PathBuf {
    sources().join("charts/vramgate")
}

/// A file or folder of this test alone, removed at its end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("vramgate-chart-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn helm(arguments: &[&str], values: &Value) -> Output {
    let program = sources().join("tests/controlplane/bin/helm");
    assert!(program.is_file(), "run tests/controlplane/build helm first");
    let scratch = Scratch::new();
    let file = scratch.write("values.json", &values.to_string());
    Command::new(program)
        .args(arguments)
        .arg("--values")
        .arg(file)
        .args(["--kube-version", OLDEST])
        // Nothing of the user's own Helm.
        .env_clear()
        .env("HOME", &scratch.0)
        .output()
        .expect("helm starts")
}

/// What no release can do without.
pub(crate) fn needed() -> Value {
    json!({"image": {"repository": "registry.example/vramgate"}})
}

/// Everything that `values`, beside what is needed, makes of the chart: objects, hooks among them.
pub(crate) fn render(values: &Value) -> Rendered {
    render_as(values, &[])
}

const fn template(folder: &str) -> [&str; 5] {
    ["template", "vramgate", folder, "--namespace", NAMESPACE]
}

pub(crate) fn render_as(values: &Value, options: &[&str]) -> Rendered {
    let mut all = needed();
    merge(&mut all, values);
    let folder = chart();
    let mut arguments = template(folder.to_str().unwrap()).to_vec();
    arguments.extend(options);
    let output = helm(&arguments, &all);
    assert!(
        output.status.success(),
        "{all} is not rendered: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let objects = objects(&output.stdout, "helm template", Limits::INPUT).expect("what Helm prints is YAML");
    Rendered(objects.into_iter().map(|object| object.value).collect())
}

/// Why these values are refused; `None` where they are not.
pub(crate) fn refusal(values: &Value) -> Option<String> {
    let mut all = needed();
    merge(&mut all, values);
    refusal_of(&all)
}

/// The same of exactly these values.
pub(crate) fn refusal_of(values: &Value) -> Option<String> {
    let folder = chart();
    let output = helm(&["template", "vramgate", folder.to_str().unwrap()], values);
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// `helm lint`, with warnings as errors.
pub(crate) fn lint(values: &Value) -> (bool, String) {
    let mut all = needed();
    merge(&mut all, values);
    let output = helm(&["lint", "--strict", chart().to_str().unwrap()], &all);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (
        output.status.success(),
        text + &String::from_utf8_lossy(&output.stderr),
    )
}

/// What `helm install` tells its user, by a dry run without a cluster.
pub(crate) fn notes(values: &Value, is_upgrade: bool) -> String {
    let mut all = needed();
    merge(&mut all, values);
    let folder = chart();
    // `helm template` leaves the notes out unless a debugging show-only asks for them, so they are rendered as an object.
    let scratch = Scratch::new();
    let copy = scratch.0.join("vramgate");
    copy_folder(&folder, &copy);
    let text = std::fs::read_to_string(copy.join("templates/NOTES.txt")).unwrap();
    let wrapped = format!(
        "{{{{- define \"notes\" }}}}{text}{{{{ end }}}}\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: notes}}\ndata:\n  \
         text: {{{{ include \"notes\" . | quote }}}}\n"
    );
    std::fs::write(copy.join("templates/notes.yaml"), wrapped).unwrap();
    let mut arguments = template(copy.to_str().unwrap()).to_vec();
    arguments.extend(["--show-only", "templates/notes.yaml"]);
    if is_upgrade {
        arguments.push("--is-upgrade");
    }
    let output = helm(&arguments, &all);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found = objects(&output.stdout, "notes", Limits::INPUT).unwrap();
    found[0].value["data"]["text"].as_str().unwrap().to_owned()
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Objects of the chart.
pub(crate) struct Rendered(pub(crate) Vec<Value>);

impl Rendered {
    /// The object, or null.
    pub(crate) fn get(&self, kind: &str, name: &str) -> &Value {
        let mut found = self
            .0
            .iter()
            .filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        let object = found.next().unwrap_or(&Value::Null);
        assert!(found.next().is_none(), "{kind} {name} is there twice");
        object
    }

    /// A value in an object named as `KIND/NAME`; null where either is missing.
    pub(crate) fn at(&self, object: &str, pointer: &str) -> Value {
        let (kind, name) = object.split_once('/').expect("KIND/NAME");
        self.get(kind, name).pointer(pointer).cloned().unwrap_or_default()
    }
}

/// Puts `more` over `into`, object by object.
pub(crate) fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

/// `a.b.c` and a value as nested objects.
pub(crate) fn nested(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |inner, key| json!({ key: inner }))
}
