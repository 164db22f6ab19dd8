//! What stands before a program: `exec`, `env A=b`, `numactl -N 0`, `tini --`, `nice -n 5`, `uv run` …

use super::{Certainty, Word};

mod wrappers;

use wrappers::{Behind, EVERY, WRAPPERS, Wrapper};

/// The last part of a program's path.
#[must_use]
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What stands before a program does to its environment.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    /// Variables that are set; `None` where the value is not known.
    pub(crate) variables: Vec<(String, Option<String>)>,
    /// Variables that are taken away: `env -u NAME`.
    pub(crate) removed: Vec<String>,
    /// Whether it gets no other variables than these: `env -i`.
    pub(crate) cleared: bool,
}

/// Takes off what stands before the program, which is returned, and gives what it does to the environment.
pub(crate) fn strip<'a>(words: &mut Vec<Word<'a>>, handed: &mut Handed) -> Vec<Word<'a>> {
    // Each round passes at least one word; taking them off one by one would move all the others each time.
    let mut start = 0;
    let mut splits = 8;
    while let Some(first) = words.get(start) {
        if first.certainty != Certainty::Known {
            break;
        }
        if base_name(&first.text) == "env" && splits > 0 {
            // Each moves all the words behind it.
            splits -= 1;
            split_string(words, start);
        }
        let name = base_name(&words[start].text);
        let rest = &words[start..];
        let length = if name == "env" {
            env(rest, handed)
        } else if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            length_of(wrapper, rest)
        } else {
            break;
        };
        if length >= rest.len() {
            break;
        }
        start += length;
    }
    words.drain(..start).collect()
}

/// Words of a wrapper's own, itself included; none where it starts no other program this time.
fn length_of(wrapper: &Wrapper, words: &[Word<'_>]) -> usize {
    let text = |index: usize| words.get(index).map(|word| &*word.text);
    // `command -v vllm` asks where it is.
    if wrapper.name == "command" && text(1).is_some_and(|option| option.starts_with('-') && option != "-p") {
        return words.len();
    }
    // `uv tool run` is `uvx`.
    let uvx = wrapper.name == "uv" && text(1) == Some("tool") && text(2) == Some("run");
    let (commands, mut own) = match wrapper.behind {
        _ if uvx => (None, 2),
        Behind::Words(own) => (None, own),
        Behind::Subcommand(names, own) => (Some(names), own),
        Behind::Dashes(names) => {
            let is_one = text(1).is_some_and(|name| names.contains(&name));
            let dashes = words.iter().position(|word| word.text == "--");
            return dashes.filter(|_| is_one).map_or(words.len(), |dashes| dashes + 1);
        }
    };
    let mut commands = commands;
    let mut index = 1;
    while let Some(text) = text(index) {
        if text == "--" && commands.is_none() {
            return index + 1;
        }
        if matches!(text, "-mca" | "--mca") {
            index += 3;
        } else if text.starts_with('-') && text.len() > 1 {
            index += if takes_next(wrapper, text) { 2 } else { 1 };
        } else if let Some(names) = commands.take() {
            if !names.contains(&text) {
                return words.len();
            }
            index += 1;
        } else if own > 0 {
            own -= 1;
            index += 1;
        } else {
            return index;
        }
    }
    index
}

/// Whether the word behind an option is its value.
fn takes_next(wrapper: &Wrapper, option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(long) if wrapper.long == EVERY => !long.contains('='),
        Some(long) => wrapper.long.contains(&long),
        None => option == "-np" || option.len() == 2 && wrapper.short.contains(&option[1..]),
    }
}

/// `env -S 'program words'`: the words of the text take the place of the option.
fn split_string(words: &mut Vec<Word<'_>>, start: usize) {
    let mut at = start + 1;
    while let Some(word) = words.get(at) {
        let text = &*word.text;
        let skip = match text {
            "-u" | "--unset" | "-C" | "--chdir" => 2,
            "--" => return,
            _ if text.contains('=') && !text.starts_with('-') => 1,
            _ if !text.starts_with('-') => return,
            _ => 1,
        };
        let long = text
            .strip_prefix("--split-string")
            .map(|rest| rest.strip_prefix('=').unwrap_or(rest));
        let short = text
            .strip_prefix('-')
            .filter(|letters| !letters.starts_with(['-', 'u', 'C']))
            .and_then(|letters| letters.split_once('S'));
        let Some((before, inline)) = long.map(|rest| ("", rest)).or(short) else {
            at += skip;
            continue;
        };
        let clears = before.contains('i');
        let next = inline.is_empty();
        let inline = inline.to_owned();
        let source = if next {
            words.get(at + 1).cloned()
        } else {
            Some(word.clone())
        };
        let Some(source) = source else { return };
        let text = if next {
            source.text.clone().into_owned()
        } else {
            inline
        };
        // Quotes, variables and escapes have a meaning of their own there.
        let known = source.certainty == Certainty::Known && !text.contains(['\'', '"', '\\', '$']);
        let mut parts: Vec<Word<'_>> = Vec::new();
        if clears {
            parts.push(Word::literal("-i"));
        }
        if known {
            parts.extend(text.split_whitespace().map(|part| Word {
                text: part.to_owned().into(),
                span: None,
                ..source.clone()
            }));
        } else {
            parts.push(Word {
                certainty: Certainty::Many,
                reason: Some("env splits it when it runs".into()),
                ..source
            });
        }
        words.splice(at..(at + 1 + usize::from(next)).min(words.len()), parts);
        return;
    }
}

/// `env [-i] [-u NAME] [NAME=VALUE …] program`.
fn env(words: &[Word<'_>], handed: &mut Handed) -> usize {
    let mut index = 1;
    while let Some(word) = words.get(index) {
        let text = &*word.text;
        match text {
            "-u" | "--unset" => {
                if let Some(name) = words.get(index + 1) {
                    handed.remove(&name.text);
                }
                index += 2;
            }
            "-C" | "--chdir" => index += 2,
            "-" | "-i" | "--ignore-environment" => {
                handed.clear();
                index += 1;
            }
            _ if text.starts_with('-') => {
                let name = text.strip_prefix("--unset=");
                let short = || text.strip_prefix("-u").filter(|name| !name.is_empty());
                if let Some(name) = name.or_else(short) {
                    handed.remove(name);
                }
                index += 1;
            }
            _ => match text.split_once('=') {
                Some((name, value)) => {
                    let known = word.certainty == Certainty::Known;
                    let value = known.then(|| value.to_owned());
                    handed.variables.push((name.to_owned(), value));
                    index += 1;
                }
                None => break,
            },
        }
    }
    index
}

impl Handed {
    fn remove(&mut self, name: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.removed.push(name.to_owned());
    }

    fn clear(&mut self) {
        self.variables.clear();
        self.cleared = true;
    }
}

/// What a command line runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program<'w> {
    /// A binary or script by its base name.
    Binary(&'w str),
    /// `python -m MODULE`.
    Module(&'w str),
    /// `python FILE`: the path.
    PythonFile(&'w str),
    /// Python without either (`-c`, interactive).
    PythonCode,
}

/// The program of a command line and the index of its first argument.
pub(crate) fn program<'w>(words: &'w [Word<'_>]) -> Option<(Program<'w>, usize)> {
    let first = words.first()?;
    if first.certainty != Certainty::Known {
        return None;
    }
    let name = base_name(&first.text);
    let is_python = name
        .strip_prefix("python")
        .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
    if !is_python {
        return Some((
            if std::path::Path::new(name)
                .extension()
                .is_some_and(|kind| kind == "py")
            {
                Program::PythonFile(&first.text)
            } else {
                Program::Binary(name)
            },
            1,
        ));
    }
    let mut index = 1;
    while let Some(word) = words.get(index) {
        let text = &*word.text;
        if text == "-m" {
            return words
                .get(index + 1)
                .map(|module| (Program::Module(&module.text), index + 2));
        }
        if let Some(module) = text.strip_prefix("-m").filter(|module| !module.is_empty()) {
            return Some((Program::Module(module), index + 1));
        }
        match text {
            "-c" | "-" => return Some((Program::PythonCode, index + 1)),
            "-W" | "-X" => index += 2,
            _ if text.starts_with('-') => {
                // `-um MODULE`
                if text.ends_with('m') && !text.starts_with("--") {
                    return words
                        .get(index + 1)
                        .map(|module| (Program::Module(&module.text), index + 2));
                }
                index += 1;
            }
            _ => return Some((Program::PythonFile(text), index + 1)),
        }
    }
    Some((Program::PythonCode, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(line: &str) -> (String, Vec<(String, Option<String>)>) {
        let mut words: Vec<Word<'_>> = line.split(' ').map(Word::literal).collect();
        let mut handed = Handed::default();
        strip(&mut words, &mut handed);
        (
            words.iter().map(|w| &*w.text).collect::<Vec<_>>().join(" "),
            handed.variables,
        )
    }

    #[test]
    fn wrappers_are_taken_off() {
        for line in [
            "exec vllm serve m",
            "numactl -N 0 -m 0 vllm serve m",
            "numactl --cpunodebind=0 vllm serve m",
            "/usr/bin/tini -g -- vllm serve m",
            "dumb-init --rewrite 15:2 -- vllm serve m",
            "dumb-init -v vllm serve m",
            "nice -n 5 timeout -k 5 1h vllm serve m",
            "env -u X nohup vllm serve m",
            "uv run vllm serve m",
            "mpirun --allow-run-as-root --mca btl self -np 8 -x A vllm serve m",
            "numactl -C 0-7 --localalloc vllm serve m",
            "timeout --signal TERM 1h vllm serve m",
            "chrt -f 10 prlimit --memlock=unlimited vllm serve m",
            "flock -n /run/lock vllm serve m",
            "setpriv --reuid 1000 --regid=1000 --clear-groups vllm serve m",
            "runuser -u app -- vllm serve m",
            "s6-setuidgid app vllm serve m",
            "uv run --no-sync --with a vllm serve m",
            "uvx --from a vllm serve m",
            "conda run --no-capture-output -n a vllm serve m",
            "micromamba run -n base vllm serve m",
            "pixi run -e gpu vllm serve m",
            "opentelemetry-instrument --traces_exporter otlp --service_name=a vllm serve m",
            "ddtrace-run vllm serve m",
            "newrelic-admin run-program vllm serve m",
            "strace -f -o /log vllm serve m",
            "perf record -o /a vllm serve m",
            "nsys profile -o a --trace cuda --force-overwrite true --delay=9 vllm serve m",
            "compute-sanitizer --tool memcheck vllm serve m",
            "py-spy record -o a -- vllm serve m",
            "vault-env doppler run --project a -- vllm serve m",
            "chamber exec prod -- vllm serve m",
            "ray symmetric-run --address a:1 --min-nodes 2 -- vllm serve m",
        ] {
            assert_eq!(stripped(line).0, "vllm serve m", "{line}");
        }
        for line in [
            "command -v vllm",
            "command -V vllm serve m",
            "ray start --head",
            "ray job submit -- vllm serve m",
            "uv pip install vllm",
            "conda activate vllm",
            "doppler secrets -- vllm serve m",
            "infisical run --command a",
        ] {
            assert_eq!(stripped(line).0, line);
        }
        let (rest, variables) = stripped("env A=b CUDA_VISIBLE_DEVICES=0 vllm serve m");
        assert_eq!(rest, "vllm serve m");
        assert_eq!(
            variables[1],
            ("CUDA_VISIBLE_DEVICES".to_owned(), Some("0".to_owned()))
        );
    }

    #[test]
    fn python_modules_are_found() {
        let words: Vec<Word<'_>> = "/opt/venv/bin/python3.12 -u -X dev -m a.b --x"
            .split(' ')
            .map(Word::literal)
            .collect();
        assert_eq!(program(&words), Some((Program::Module("a.b"), 6)));
    }
}
