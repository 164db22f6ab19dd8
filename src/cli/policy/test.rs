//! `vramgate policy test`: runs the cases of suites through the same decision as `check`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::cli::args::{PolicyTest, TestOutput};
use crate::cli::output::Paint;
use crate::cli::{Failure, Outcome, check, input, output};
use crate::decision::Verdict;
use crate::document::{Document, Kind};
use crate::manifest::{self, Limits};
use crate::policy::PolicySet;
use crate::policy::file;
use crate::snapshot::Snapshot;
use crate::suite::{self, Aspect, Case, Part, Suite};
use crate::workload::ObjectRef;

mod report;

/// Largest suite.
const MAX_SUITE_BYTES: u64 = 8 << 20;
/// Folders below folders.
const MAX_FOLDERS: usize = 32;

/// The verdicts of a case, or why there are none.
type Judged = Result<Vec<(ObjectRef, Verdict)>, Vec<String>>;

/// What came of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// What was expected.
    Passed,
    /// Something else.
    Failed,
    /// Something else, which was written into the suite.
    Updated,
    /// It could not be run.
    Unusable,
}

/// One expectation that is not met.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Deviation {
    /// Line of its block.
    line: usize,
    /// The word of the block.
    block: &'static str,
    expected: String,
    actual: String,
}

/// A case, and what came of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ran {
    file: String,
    line: usize,
    case: String,
    status: Status,
    /// One line for each object.
    verdicts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deviations: Vec<Deviation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<String>,
}

/// Runs the suites.
pub(super) fn run(args: &PolicyTest) -> Result<Outcome, Failure> {
    let files = suites(&args.files)?;
    let mut ran = Vec::new();
    let mut unreadable = Vec::new();
    for (file, is_named) in &files {
        match run_suite(file, *is_named, args.update) {
            Ok(cases) => ran.extend(cases),
            Err(failure) => unreadable.push(failure),
        }
    }
    if ran.is_empty() && unreadable.is_empty() {
        unreadable.push(Failure::new(
            "no suite: a suite is a Markdown file with a ```yaml manifest block",
        ));
    }
    let failed = ran.iter().any(|case| case.status == Status::Failed);
    for case in ran.iter().filter(|case| case.status == Status::Unusable) {
        let errors = case.errors.iter();
        unreadable.extend(errors.map(|error| Failure::new(format!("{} ({})", error, case.case))));
    }
    if !ran.is_empty() {
        match args.output {
            TestOutput::Text => output::print(&report::text(&ran, Paint::for_stdout()))?,
            TestOutput::Json => output::print_json(&Document::new(Kind::PolicyTestResult, ran))?,
            TestOutput::Junit => output::print(&report::junit(&ran))?,
        }
    }
    match (unreadable.is_empty(), failed) {
        (false, _) => Err(Failure::joined(unreadable)),
        (true, true) => Ok(Outcome::Refused),
        (true, false) => Ok(Outcome::Passed),
    }
}

/// The files, and whether somebody named each.
fn suites(files: &[PathBuf]) -> Result<Vec<(PathBuf, bool)>, Failure> {
    let mut found = Vec::new();
    for file in files {
        let metadata = fs::metadata(file).map_err(|error| input::unreadable(file, &error))?;
        if metadata.is_dir() {
            below(file, 0, &mut found)?;
        } else {
            found.push((file.clone(), true));
        }
    }
    Ok(found)
}

fn below(folder: &Path, depth: usize, found: &mut Vec<(PathBuf, bool)>) -> Result<(), Failure> {
    if depth > MAX_FOLDERS {
        return Err(Failure::new(format!(
            "{}: more than {MAX_FOLDERS} folders deep; does a link lead back?",
            folder.display()
        )));
    }
    let entries = fs::read_dir(folder).map_err(|error| input::unreadable(folder, &error))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| input::unreadable(folder, &error))?;
    paths.sort();
    for path in paths {
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden {
            continue;
        }
        if path.is_dir() {
            below(&path, depth + 1, found)?;
        } else if path.is_file()
            && path
                .extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("md"))
        {
            found.push((path, false));
        }
    }
    Ok(())
}

/// `./a.md` is the file that everybody calls `a.md`.
fn shown(path: &Path) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    path.display().to_string()
}

fn run_suite(path: &Path, is_named: bool, update: bool) -> Result<Vec<Ran>, Failure> {
    let name = shown(path);
    let bytes = input::read_file(path, MAX_SUITE_BYTES)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(format!("{name}: is not UTF-8; save the file as UTF-8")))?;
    let suite = suite::read(&text).map_err(|errors| {
        let errors = errors.iter().map(|error| Failure::new(format!("{name}:{error}")));
        Failure::joined(errors.collect())
    })?;
    if suite.cases.is_empty() && is_named {
        return Err(Failure::new(format!(
            "{name}: has no case; a case is a section with a ```yaml manifest block"
        )));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let results: Vec<Judged> = suite
        .cases
        .iter()
        .map(|case| judge(case, &name, folder))
        .collect();
    let mut ran: Vec<Ran> = suite
        .cases
        .iter()
        .zip(&results)
        .map(|(case, result)| compare(case, result, &name))
        .collect();
    if update {
        write(path, &text, &suite, &results)?;
        for case in ran.iter_mut().filter(|case| case.status == Status::Failed) {
            case.status = Status::Updated;
        }
    }
    Ok(ran)
}

fn write(path: &Path, text: &str, suite: &Suite, results: &[Judged]) -> Result<(), Failure> {
    let new = suite::updated(text, suite, &|case, aspect| {
        let index = suite.cases.iter().position(|other| other.line == case.line)?;
        let items = results.get(index)?.as_ref().ok()?;
        Some(suite::outcome(aspect, items))
    });
    if new == text {
        return Ok(());
    }
    fs::write(path, new).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn compare(case: &Case, result: &Judged, file: &str) -> Ran {
    let mut ran = Ran {
        file: file.to_owned(),
        line: case.line,
        case: case.name.clone(),
        status: Status::Passed,
        verdicts: Vec::new(),
        deviations: Vec::new(),
        errors: Vec::new(),
    };
    let items = match result {
        Ok(items) => items,
        Err(errors) => {
            ran.status = Status::Unusable;
            ran.errors.clone_from(errors);
            return ran;
        }
    };
    ran.verdicts = items
        .iter()
        .map(|(object, verdict)| suite::in_one_line(object, verdict))
        .collect();
    for (aspect, block) in &case.expected {
        let actual = suite::outcome(*aspect, items);
        if !suite::agrees(block, &actual) {
            ran.deviations.push(Deviation {
                line: block.line,
                block: aspect.as_str(),
                expected: block.content.clone(),
                actual,
            });
        }
    }
    if case.expected.is_empty() {
        ran.deviations.push(Deviation {
            line: case.line,
            block: Aspect::Verdict.as_str(),
            expected: String::new(),
            actual: suite::outcome(Aspect::Verdict, items),
        });
    }
    if !ran.deviations.is_empty() {
        ran.status = Status::Failed;
    }
    ran
}

/// Applies the manifests of a case to its cluster under its policies.
fn judge(case: &Case, suite: &str, folder: &Path) -> Judged {
    let told = |failure: Failure| vec![failure.to_string()];
    let mut snapshot = Snapshot::default();
    for part in &case.cluster {
        let (text, source) = text_of(part, suite, folder).map_err(told)?;
        manifest::read(&text, &source, Limits::SNAPSHOT, &mut |object| {
            snapshot.add(&object)
        })
        .map_err(|error| vec![error.to_string()])?;
    }
    if snapshot.has_no_nodes() {
        return Err(vec![format!(
            "{suite}:{}: the cluster of the case has no Node, so there is nothing to judge against",
            case.line
        )]);
    }
    let policies = policies(case, suite, folder, &snapshot).map_err(told)?;
    let mut objects = Vec::new();
    for block in &case.manifests {
        let text = block.in_its_place();
        manifest::read(text.as_bytes(), suite, Limits::INPUT, &mut |object| {
            objects.push(object);
            Ok(())
        })
        .map_err(|error| vec![error.to_string()])?;
    }
    let mut failures = Vec::new();
    let items = check::apply_all(objects, snapshot, policies, &mut failures);
    if failures.is_empty() {
        Ok(items)
    } else {
        Err(failures.iter().map(ToString::to_string).collect())
    }
}

/// The text of a block or file, and how errors call it.
fn text_of(part: &Part, suite: &str, folder: &Path) -> Result<(Vec<u8>, String), Failure> {
    match part {
        Part::Block(block) => Ok((block.in_its_place().into_bytes(), suite.to_owned())),
        Part::File(file, line) => {
            let path = folder.join(file);
            let bytes = input::read_file(&path, input::MAX_INPUT_BYTES)
                .map_err(|failure| Failure::new(format!("{suite}:{line}: {failure}")))?;
            Ok((bytes, shown(&path)))
        }
    }
}

/// The policies that the case names, else those beside the suite; with those of the cluster.
fn policies(case: &Case, suite: &str, folder: &Path, snapshot: &Snapshot) -> Result<Arc<PolicySet>, Failure> {
    let mut documents = Vec::new();
    for part in &case.policies {
        let (text, source) = text_of(part, suite, folder)?;
        documents.extend(parse(text, &source)?);
    }
    if case.policies.is_empty() {
        for path in beside(folder)? {
            let bytes = input::read_file(&path, input::MAX_INPUT_BYTES)?;
            documents.extend(parse(bytes, &shown(&path))?);
        }
    }
    for object in snapshot.policies() {
        documents.push(file::from_value(&object.value, &object.origin.to_string())?);
    }
    Ok(Arc::new(PolicySet::from_documents(documents)?))
}

fn parse(bytes: Vec<u8>, source: &str) -> Result<Vec<file::Document>, Failure> {
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(format!("{source}: is not UTF-8; save the file as UTF-8")))?;
    Ok(file::parse(&text, source)?)
}

/// The policy files in a folder itself, as `--policy-dir` would take them.
fn beside(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let entries = fs::read_dir(folder).map_err(|error| input::unreadable(folder, &error))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| input::unreadable(folder, &error))?;
    paths.retain(|path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        path.is_file()
            && extension.is_some_and(|extension| {
                ["yaml", "yml", "json"].contains(&extension.to_ascii_lowercase().as_str())
            })
    });
    paths.sort();
    Ok(paths)
}
