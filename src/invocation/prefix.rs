//! What stands before a program: `exec`, `env A=b`, `numactl -N 0`, `tini --`, `nice -n 5`, `uv run` …

use super::{Certainty, Word};

/// A program that starts another one: which of its short options take a word, and how many words of its own follow
/// the options.
struct Wrapper {
    name: &'static str,
    valued: &'static str,
    own_words: usize,
}

const fn wrapper(name: &'static str, valued: &'static str, own_words: usize) -> Wrapper {
    Wrapper {
        name,
        valued,
        own_words,
    }
}

const WRAPPERS: [Wrapper; 28] = [
    wrapper("mpirun", "nxHc", 0),
    wrapper("mpiexec", "nxHc", 0),
    wrapper("exec", "a", 0),
    wrapper("command", "", 0),
    wrapper("builtin", "", 0),
    wrapper("nohup", "", 0),
    wrapper("time", "of", 0),
    wrapper("setsid", "", 0),
    wrapper("stdbuf", "ioe", 0),
    wrapper("nice", "n", 0),
    wrapper("ionice", "cn", 0),
    wrapper("numactl", "NmCpibPw", 0),
    wrapper("taskset", "", 1),
    wrapper("timeout", "sk", 1),
    wrapper("gosu", "", 1),
    wrapper("su-exec", "", 1),
    wrapper("sudo", "ugCh", 0),
    wrapper("tini", "pe", 0),
    wrapper("dumb-init", "r", 0),
    wrapper("catatonit", "", 0),
    wrapper("nvidia_entrypoint.sh", "", 0),
    wrapper("docker-entrypoint.sh", "", 0),
    wrapper("ramalama-serve-core", "", 0),
    wrapper("uv", "p", 1),
    wrapper("poetry", "", 1),
    wrapper("pipenv", "", 1),
    wrapper("conda", "", 1),
    wrapper("nsys", "otsc", 1),
];

/// The last part of a program's path.
#[must_use]
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Takes off what stands before the program, and gives the variables that it sets.
pub(crate) fn strip(words: &mut Vec<Word<'_>>, variables: &mut Vec<(String, Option<String>)>) {
    // Each round passes at least one word; taking them off one by one would move all the others each time.
    let mut start = 0;
    while let Some(first) = words.get(start) {
        if first.certainty != Certainty::Known {
            break;
        }
        let name = base_name(&first.text);
        let rest = &words[start..];
        let length = if name == "env" {
            env(rest, variables)
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
    words.drain(..start);
}

fn length_of(wrapper: &Wrapper, words: &[Word<'_>]) -> usize {
    let mut index = 1;
    let mut own = wrapper.own_words;
    while let Some(word) = words.get(index) {
        let text = &*word.text;
        if text == "--" {
            return index + 1;
        }
        if matches!(text, "-mca" | "--mca") {
            index += 3;
        } else if text.starts_with('-') && text.len() > 1 {
            let takes_next = match text.strip_prefix("--") {
                Some(long) => {
                    // `--cpunodebind 0`, `--signal TERM`, `--name env`; most are written with `=`.
                    [
                        "cpunodebind",
                        "membind",
                        "physcpubind",
                        "signal",
                        "name",
                        "with",
                        "extra",
                        "hostfile",
                        "host",
                        "map-by",
                    ]
                    .contains(&long)
                }
                None => text == "-np" || text.len() == 2 && wrapper.valued.contains(&text[1..]),
            };
            index += if takes_next { 2 } else { 1 };
        } else if own > 0 {
            own -= 1;
            index += 1;
        } else {
            return index;
        }
    }
    index
}

/// `env [-i] [-u NAME] [NAME=VALUE …] program`.
fn env(words: &[Word<'_>], variables: &mut Vec<(String, Option<String>)>) -> usize {
    let mut index = 1;
    while let Some(word) = words.get(index) {
        let text = &*word.text;
        match text {
            "-u" | "--unset" | "-C" | "--chdir" => index += 2,
            _ if text.starts_with('-') => index += 1,
            _ => match text.split_once('=') {
                Some((name, value)) => {
                    let known = word.certainty == Certainty::Known;
                    variables.push((name.to_owned(), known.then(|| value.to_owned())));
                    index += 1;
                }
                None => break,
            },
        }
    }
    index
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
        let mut variables = Vec::new();
        strip(&mut words, &mut variables);
        (
            words.iter().map(|w| &*w.text).collect::<Vec<_>>().join(" "),
            variables,
        )
    }

    #[test]
    fn wrappers_are_taken_off() {
        for line in [
            "exec vllm serve m",
            "numactl -N 0 -m 0 vllm serve m",
            "numactl --cpunodebind=0 vllm serve m",
            "/usr/bin/tini -g -- vllm serve m",
            "nice -n 5 timeout -k 5 1h vllm serve m",
            "env -u X nohup vllm serve m",
            "uv run vllm serve m",
            "mpirun --allow-run-as-root --mca btl self -np 8 -x A vllm serve m",
        ] {
            assert_eq!(stripped(line).0, "vllm serve m", "{line}");
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
