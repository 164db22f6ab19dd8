//! FILE arguments: a path, a folder or `-`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Failure;

/// Largest input file. A manifest of 10,000 documents has some 30 MiB.
pub(super) const MAX_INPUT_BYTES: u64 = 256 << 20;
/// Largest snapshot file: 100,000 pods as `kubectl get -o yaml` prints them have about 1 GiB.
pub(super) const MAX_SNAPSHOT_BYTES: u64 = 4 << 30;

/// One text with the name that errors call it by.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Opens every FILE, in order. Each is handed on before the next is read, so that only one is held at a time.
pub(super) fn each(
    files: &[PathBuf],
    most_bytes: u64,
    take: &mut dyn FnMut(Source) -> Result<(), Failure>,
) -> Result<(), Failure> {
    once(files)?;
    for file in files {
        if is_standard_input(file) {
            let bytes = read_limited(io::stdin().lock(), "-", most_bytes)?;
            take(Source {
                name: "-".to_owned(),
                bytes,
            })?;
            continue;
        }
        let metadata = fs::metadata(file).map_err(|error| unreadable(file, &error))?;
        if !metadata.is_dir() {
            take(Source {
                name: file.display().to_string(),
                bytes: read_file(file, most_bytes)?,
            })?;
            continue;
        }
        let mut found = Vec::new();
        manifests_below(file, 0, &mut found)?;
        if found.is_empty() {
            return Err(Failure::new(format!(
                "{}: no *.yaml, *.yml or *.json below this folder",
                file.display()
            )));
        }
        for path in found {
            take(Source {
                name: path.display().to_string(),
                bytes: read_file(&path, most_bytes)?,
            })?;
        }
    }
    Ok(())
}

/// Standard input can be read by one only.
pub(super) fn once(files: &[PathBuf]) -> Result<(), Failure> {
    if files.iter().filter(|file| is_standard_input(file)).count() > 1 {
        return Err(Failure::new(
            "-: standard input can be read only once; give it once",
        ));
    }
    Ok(())
}

/// The bytes of one file.
pub(super) fn read_file(path: &Path, most_bytes: u64) -> Result<Vec<u8>, Failure> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    read_limited(file, &path.display().to_string(), most_bytes)
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn read_limited(reader: impl Read, name: &str, most_bytes: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = reader.take(most_bytes + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(format!("{name}: {error}; check the path and its permissions")))?;
    if bytes.len() as u64 > most_bytes {
        let most = most_bytes >> 20;
        return Err(Failure::new(format!(
            "{name}: larger than {most} MiB, which is the limit; split it"
        )));
    }
    Ok(bytes)
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::new(match error.kind() {
        io::ErrorKind::NotFound => format!("{path}: does not exist; check the path"),
        io::ErrorKind::PermissionDenied => format!("{path}: may not be read; check its permissions"),
        _ => format!("{path}: {error}"),
    })
}

/// Folders below folders: deep enough for any repository, and an end to links that lead in circles.
const MAX_FOLDERS: usize = 32;

/// Whether a folder holds no manifests: no policies is a valid set of policies, unlike no input.
pub(super) fn is_empty(folder: &Path) -> Result<bool, Failure> {
    let mut found = Vec::new();
    manifests_below(folder, 0, &mut found)?;
    Ok(found.is_empty())
}

/// Collects the manifests below a folder, sorted by path.
fn manifests_below(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if depth > MAX_FOLDERS {
        return Err(Failure::new(format!(
            "{}: more than {MAX_FOLDERS} folders deep; does a link lead back?",
            folder.display()
        )));
    }
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unreadable(folder, &error))?;
    paths.sort();
    for path in paths {
        // A mounted ConfigMap keeps its files a second and a third time, below `..data` and `..<time>`.
        if path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b".."))
        {
            continue;
        }
        let is_manifest = path
            .extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| {
                ["yaml", "yml", "json"].contains(&extension.to_ascii_lowercase().as_str())
            });
        if path.is_dir() {
            manifests_below(&path, depth + 1, found)?;
        } else if is_manifest {
            // Opening a pipe that nobody writes to would wait for ever. A path that the user names may be one.
            if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
                return Err(Failure::new(format!(
                    "{}: is no regular file; name it by itself if it is to be read, or take it out of the folder",
                    path.display()
                )));
            }
            found.push(path);
        }
    }
    Ok(())
}
