//! Reading ends, in time and memory that grow with the input and not faster, whatever a container is made of.
//!
//! What is counted is what the reading allocates, on its own thread: the sum is the measure of copying, the peak that of
//! memory. An input four times as long may cost little more than four times as much. Work that allocates nothing is
//! caught by a guard on time, which is far above what any of these takes, and far below a square of the input.
//!
//! `VRAMGATE_BOUNDS` names a part of the labels of the cases to run.

#![allow(
    clippy::too_many_lines,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::mpsc;
use std::time::Duration;

use allocation_counter::AllocationInfo;
use serde_json::json;
use vramgate::engine::{self, LookUp, Sources};
use vramgate::workload::pod::Pod;

/// The shorter input, in bytes; the longer one is four times that.
const SHORT: usize = 48 << 10;
/// The longest input, tried by `tests/long/run bounds`.
const MIB: usize = 1 << 20;
/// How much more the longer input may allocate; four times is linear.
const MOST_GROWTH: u64 = 6;
/// What a reading may allocate whatever the input: tables of options are read once per process.
const SLACK: u64 = 8 << 20;
/// How many bytes may be held at once for each byte of the input. A token of one byte is a word with its frame.
const MOST_PEAK: u64 = 700;
/// What a reading may allocate all in all, one after another: where what it may read is used up, its sum grows no more,
/// and no growth tells of it.
const MOST_TOTAL: u64 = 2 << 30;
/// What none of these takes, on any machine, without a square.
const GUARD: Duration = Duration::from_mins(2);

/// A container, and the files that are mounted at `/config`.
#[derive(Clone, Default)]
struct Input {
    image: &'static str,
    command: Vec<String>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    files: BTreeMap<String, String>,
}

struct Maps(BTreeMap<String, String>);

impl Sources for Maps {
    fn config_map(&self, _namespace: &str, _name: &str) -> LookUp<'_> {
        LookUp::Found(&self.0)
    }
}

impl Input {
    fn pod(&self) -> Pod {
        let env: Vec<_> = self
            .env
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {
                "containers": [{
                    "name": "c",
                    "image": if self.image.is_empty() { "vllm/vllm-openai:v0.11.0" } else { self.image },
                    "command": self.command,
                    "args": self.args,
                    "env": env,
                    "resources": {"limits": {"nvidia.com/gpu": 1}},
                    "volumeMounts": [{"name": "config", "mountPath": "/config"}],
                }],
                "volumes": [{"name": "config", "configMap": {"name": "files"}}],
            },
        }))
        .unwrap()
    }

    fn read(self) -> AllocationInfo {
        let pod = self.pod();
        let maps = Maps(self.files);
        allocation_counter::measure(|| {
            let placed = engine::containers(&pod).next().unwrap();
            let readings = engine::read(&pod, placed, &maps, &[]);
            assert!(!readings.is_empty());
        })
    }
}

/// A script in a file, which may be longer than a word of a command line.
fn script(text: String) -> Input {
    Input {
        command: vec!["bash".to_owned(), "/config/start.sh".to_owned()],
        files: BTreeMap::from([("start.sh".to_owned(), text)]),
        ..Input::default()
    }
}

fn words(args: Vec<String>) -> Input {
    Input {
        command: vec!["vllm".to_owned(), "serve".to_owned(), "m".to_owned()],
        args,
        ..Input::default()
    }
}

fn config(text: String) -> Input {
    Input {
        files: BTreeMap::from([("engine.yaml".to_owned(), text)]),
        ..words(vec!["--config".to_owned(), "/config/engine.yaml".to_owned()])
    }
}

/// `unit` until `bytes` are there, with `before` and `after` around it.
fn repeat(before: &str, unit: &str, after: &str, bytes: usize) -> String {
    format!("{before}{}{after}", unit.repeat(bytes / unit.len()))
}

/// Texts that `unit` makes of numbers, until `bytes` are there.
fn numbered(before: &str, unit: impl Fn(&mut String, usize), after: &str, bytes: usize) -> String {
    let mut text = before.to_owned();
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        unit(&mut text, number);
    }
    text + after
}

/// Half of the bytes for a text, half for a unit that uses it.
fn halves(first: (&str, &str, &str), second: (&str, &str), bytes: usize) -> String {
    let (before, unit, between) = first;
    let first = repeat(before, unit, between, bytes / 2);
    first + &repeat("", second.0, second.1, bytes / 2)
}

/// Runs `read` on a thread of its own, with the stack of a thread of the server.
fn guarded(label: &str, input: Input) -> AllocationInfo {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new()
        .name(label.to_owned())
        .stack_size(2 << 20)
        .spawn(move || {
            let _ = sender.send(input.read());
        })
        .unwrap();
    match receiver.recv_timeout(GUARD) {
        Ok(info) => {
            thread.join().unwrap();
            info
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{label}: not read within {GUARD:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{label}: reading panicked"),
    }
}

fn check(cases: &[(&str, &dyn Fn(usize) -> Input)]) {
    let only = std::env::var("VRAMGATE_BOUNDS").unwrap_or_default();
    let all = std::env::var_os("VRAMGATE_BOUNDS_MIB").is_some();
    let mut wrong = Vec::new();
    for (label, input) in cases.iter().filter(|(label, _)| label.contains(&only)) {
        let begin = std::time::Instant::now();
        let short = guarded(label, input(SHORT));
        let long = guarded(label, input(4 * SHORT));
        println!(
            "{label}: allocated {} KiB, {} KiB; peak {} KiB ({:?})",
            short.bytes_total >> 10,
            long.bytes_total >> 10,
            long.bytes_max >> 10,
            begin.elapsed(),
        );
        if long.bytes_total > MOST_GROWTH * short.bytes_total + SLACK {
            wrong.push(format!(
                "{label}: {} bytes allocated for {SHORT}, {} for four times as many",
                short.bytes_total, long.bytes_total
            ));
        }
        if long.bytes_total.max(short.bytes_total) > MOST_TOTAL {
            wrong.push(format!(
                "{label}: {} bytes allocated",
                long.bytes_total.max(short.bytes_total)
            ));
        }
        let mut held = vec![(4 * SHORT, long.bytes_max)];
        if all {
            held.push((MIB, guarded(label, input(MIB)).bytes_max));
        }
        for (length, held) in held {
            if held > MOST_PEAK * length as u64 + SLACK {
                wrong.push(format!("{label}: {held} bytes held for {length}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn scripts_of_nested_and_unclosed_forms() {
    check(&[
        ("$( $( …", &|n| script(repeat("echo ", "$(", "", n))),
        ("$( … )", &|n| {
            script(format!("echo {}{}", "$(".repeat(n / 3), ")".repeat(n / 3)))
        }),
        ("$(( ( …", &|n| script(repeat("echo $((", "(", "", n))),
        ("$(case $(case …", &|n| {
            script(repeat("echo ", "$(case x in a) ", "", n))
        }),
        ("$(case …)", &|n| {
            script(repeat("", "echo $(case x in a) b;; esac)\n", "", n))
        }),
        ("case case", &|n| script(repeat("echo $(", "case ", ")", n))),
        ("{{{,", &|n| script(repeat("echo ", "{", ",}", n))),
        ("{a,{a,", &|n| script(repeat("echo ", "{a,", "", n))),
        ("{a,b}{a,b}", &|n| script(repeat("echo ", "{a,b}", "", n))),
        ("(A=x) (A=x)", &|n| {
            script(halves(("A=", "x", "\n"), ("(A=y)\n", ""), n))
        }),
        ("A=x & A=x &", &|n| {
            script(halves(("A=", "x", "\n"), ("A=y &\n", ""), n))
        }),
        ("f() (f() (", &|n| script(repeat("", "f() (\n", "", n))),
        ("sh -c sh -c", &|n| {
            script(halves(("export A=", "x", "\n"), ("sh -c 'B=1'\n", ""), n))
        }),
        ("trap trap", &|n| script(repeat("", "trap 'A=1 B' EXIT\n", "", n))),
        ("echo | bash", &|n| script(repeat("", "echo A=1 | bash\n", "", n))),
        ("echo | xargs", &|n| {
            script(repeat("echo ", "x ", "| xargs vllm serve m", n))
        }),
        ("xargs -I x", &|n| {
            script(repeat("xargs -I x vllm serve ", "x", "", n))
        }),
        ("\"$*\"", &|n| {
            script(halves(("set -- ", "x ", "\n"), ("echo \"$*\"\n", ""), n))
        }),
        ("IFS", &|n| {
            script(halves(("IFS=,; A=", ",", "\n"), ("echo $A\n", ""), n))
        }),
        ("env -S env -S", &|n| {
            script(repeat("", "env -S ", "vllm serve m", n))
        }),
        ("$((1+1+…))", &|n| script(repeat("echo $((1", "+1", "))", n))),
        ("$((-----1))", &|n| script(repeat("echo $((", "-", "1))", n))),
        ("${A:-${A:-…", &|n| script(repeat("echo ", "${A:-", "", n))),
        ("${A:-…}}}", &|n| {
            script(format!("echo {}x{}", "${A:-".repeat(n / 6), "}".repeat(n / 6)))
        }),
        ("\"${A:-\"${A:-…", &|n| {
            script(repeat("echo ", "\"${A:-", "", n))
        }),
        ("\"$(\"$(…", &|n| script(repeat("echo ", "\"$(", "", n))),
        ("'…", &|n| script(repeat("echo '", "x", "", n))),
        ("\"\"\"\"", &|n| script(repeat("echo ", "\"\"", "", n))),
        ("''a''a", &|n| script(repeat("echo ", "''a", "", n))),
        ("``", &|n| script(repeat("echo ", "``", "", n))),
        ("\\", &|n| script(repeat("echo ", "\\", "", n))),
        ("\\ newline", &|n| script(repeat("echo ", "\\\n", "", n))),
        ("$'", &|n| script(repeat("echo ", "$'x'", "", n))),
        ("#", &|n| script(repeat("", "#\n", "", n))),
        ("<<E <<E", &|n| script(repeat("cat ", "<<E ", "\nx\nE\n", n))),
        ("cat <<E per line", &|n| {
            script(repeat("", "cat <<E\nx\nE\n", "", n))
        }),
        ("<<E never closed", &|n| script(repeat("", "cat <<E\n", "", n))),
        ("<<< x", &|n| script(repeat("cat ", "<<<x ", "", n))),
        ("here-document of $A", &|n| {
            script(repeat("cat >/f <<E\n", "$A", "\nE\n", n))
        }),
        ("> f > f", &|n| script(repeat("echo ", ">f ", "", n))),
        ("2>&1 2>&1", &|n| script(repeat("echo ", "2>&1 ", "", n))),
        ("<<<<<", &|n| script(repeat("echo ", "<", "", n))),
        ("<a> <a>", &|n| script(repeat("echo ", "<a> ", "", n))),
        ("<aaaa", &|n| script(repeat("echo <", "a", "> x", n))),
        ("((((", &|n| script("(".repeat(n))),
        ("))))", &|n| script(")".repeat(n))),
        ("A=(((", &|n| script(repeat("A=", "(", "", n))),
        ("A=(x x", &|n| script(repeat("A=(", "x ", "", n))),
        (";;;;", &|n| script(";".repeat(n))),
        ("a|a|a", &|n| script(repeat("a", "|a", "", n))),
        ("a&&a", &|n| script(repeat("a", "&&a", "", n))),
        ("! ! !", &|n| script(repeat("", "! ", "[ x ]", n))),
        ("digits", &|n| script("1".repeat(n))),
        ("é", &|n| script(repeat("echo ", "é", "", n))),
        ("NUL", &|n| script("\0".repeat(n))),
    ]);
}

#[test]
fn scripts_of_many_names_words_and_files() {
    check(&[
        ("words", &|n| script(repeat("vllm serve ", "a ", "", n))),
        ("one word", &|n| script(repeat("vllm serve ", "a", "", n))),
        ("words of several pieces", &|n| {
            script(repeat("A='x y'\nvllm serve ", "$A", "", n))
        }),
        ("array in one word", &|n| {
            script(repeat("A=(x y)\nvllm serve ", "${A[@]}", "", n))
        }),
        ("first of a long array", &|n| {
            script(halves(("A=(", "x ", ")\necho "), ("$A ", "\n"), n))
        }),
        ("long unknown reason", &|n| {
            script(halves(("A=$(", "x", ")\necho "), ("$A ", "\n"), n))
        }),
        ("long name that is not set", &|n| {
            script(halves(("A=$", "x", "\necho "), ("$A ", "\n"), n))
        }),
        ("either of long texts", &|n| {
            script(halves(
                ("A=", "x", "\nif x; then A=y; fi\necho "),
                ("$A ", "\n"),
                n,
            ))
        }),
        ("long text in sums", &|n| {
            script(halves(("A=1", " ", "\necho $((1"), ("+A", "))\n"), n))
        }),
        ("text tested often", &|n| {
            script(halves(("A=", "x", "\necho "), ("${A:+y}", "\n"), n))
        }),
        ("argument tested often", &|n| {
            script(halves(("set -- ", "x", "\necho "), ("${1:+y}", "\n"), n))
        }),
        ("variable tested often", &|n| Input {
            env: vec![("A".to_owned(), "x".repeat(n / 2))],
            ..script(repeat("echo ", "${A:+y}", "\n", n / 2))
        }),
        ("unused default", &|n| {
            script(halves(
                ("A=1\nfor i in 1 2 3 4 5 6 7 8; do echo ${A:-", "x", "}; done\n"),
                ("echo;", "\n"),
                n,
            ))
        }),
        ("many variables in a line", &|n| {
            script(numbered(
                "",
                |text, i| write!(text, "A{i}=1 ").unwrap(),
                "\nvllm serve m",
                n,
            ))
        }),
        ("many variables in lines", &|n| {
            script(numbered(
                "",
                |text, i| writeln!(text, "A{i}=1").unwrap(),
                "\nvllm serve m",
                n,
            ))
        }),
        ("many variables in a case", &|n| {
            script(numbered(
                "case x in\n",
                |text, i| writeln!(text, "A{i}=1").unwrap(),
                "\nesac\n",
                n,
            ))
        }),
        ("many functions", &|n| {
            script(numbered(
                "",
                |text, i| writeln!(text, "f{i}(){{ }}").unwrap(),
                "\nf1\n",
                n,
            ))
        }),
        ("functions without an end", &|n| {
            script(repeat("", "function f\n", "", n))
        }),
        ("export", &|n| {
            script(numbered(
                "",
                |out, index| writeln!(out, "export A{index}=x").unwrap(),
                "vllm serve m\n",
                n,
            ))
        }),
        ("exported and run", &|n| {
            script(numbered(
                "",
                |out, index| write!(out, "export A{index}=x\nrun\n").unwrap(),
                "",
                n,
            ))
        }),
        ("set and run", &|n| {
            script(numbered(
                "",
                |out, index| write!(out, "A{index}=x\nrun\n").unwrap(),
                "",
                n,
            ))
        }),
        ("local", &|n| {
            script(numbered(
                "f() {\n",
                |out, index| writeln!(out, "local A{index}=x").unwrap(),
                "}\nf\n",
                n,
            ))
        }),
        ("A+=x", &|n| script(halves(("A=", "x", "\n"), ("A+=x\n", ""), n))),
        ("A+=(x)", &|n| {
            script(halves(("A=(", "x ", ")\n"), ("A+=(x)\n", ""), n))
        }),
        ("A+=(x) perhaps", &|n| {
            script(halves(
                ("A=(", "x ", ")\nif x; then\n"),
                ("A+=(--x)\n", "fi\n"),
                n,
            ))
        }),
        ("A=\"$A$A\"", &|n| {
            script(repeat("A=x\n", "A=$A$A\n", "vllm serve $A", n))
        }),
        ("shift", &|n| {
            script(halves(("set -- ", "x ", "\n"), ("shift\n", ""), n))
        }),
        ("shift arguments", &|n| {
            let mut input = script(repeat("", "shift\n", "", n / 2));
            input.command.extend(std::iter::repeat_n("x".to_owned(), n / 8));
            input
        }),
        ("$@$@", &|n| {
            script(halves(("set -- ", "x ", "\necho "), ("$@", "\n"), n))
        }),
        ("placeholder in a call", &|n| {
            script(format!(
                "f(){{\n{}}}\nf <{}>\n",
                "a\n".repeat(n / 8),
                "a".repeat(n / 2)
            ))
        }),
        ("sed that multiplies", &|n| {
            script(halves(
                ("printf x > /f\necho ", "a", " > /f\nsed -i s/a/"),
                ("b", "/g /f\n"),
                n,
            ))
        }),
        ("echo >> f", &|n| script(repeat("", "echo x >> /f\n", "", n))),
        ("cat f >> f", &|n| {
            script(repeat("echo x > /f\n", "cat /f >> /f\n", "", n))
        }),
        ("tee", &|n| {
            script(numbered(
                "echo x | tee ",
                |text, i| write!(text, "/f{i} ").unwrap(),
                "\n",
                n,
            ))
        }),
        ("cd", &|n| script(repeat("", "cd a\n", "cat > f\n", n))),
        ("files in a deep folder", &|n| {
            script(halves(("cd /", "a", "\n"), ("echo > f$((1))\n", ""), n))
        }),
        ("exec exec", &|n| Input {
            command: std::iter::repeat_n("nohup".to_owned(), n / 6).collect(),
            args: vec!["vllm".to_owned(), "serve".to_owned(), "m".to_owned()],
            ..Input::default()
        }),
        ("env a=b", &|n| {
            let mut input = words(Vec::new());
            input.command = std::iter::once("env".to_owned())
                .chain(std::iter::repeat_n("a=b".to_owned(), n / 4))
                .chain(["vllm".to_owned(), "serve".to_owned(), "m".to_owned()])
                .collect();
            input
        }),
    ]);
}

#[test]
fn scripts_that_run_parts_again_and_again() {
    check(&[
        ("functions that call each other", &|n| {
            script(repeat("f(){ g; g; }\ng(){ f; f; }\n", "f\n", "", n))
        }),
        ("a long function called often", &|n| {
            script(halves(("f(){\n", "[ a ]\n", "}\n"), ("f\n", ""), n))
        }),
        ("a function that defines a long one", &|n| {
            script(halves(("f(){\ng(){\n'", "x", "'\n}\n}\n"), ("f\n", ""), n))
        }),
        ("eval eval", &|n| script(repeat("", "eval ", "x", n))),
        ("eval of eval", &|n| {
            script(repeat("A='eval $A; eval $A'\n", "eval \"$A\"\n", "", n))
        }),
        ("sh -c sh -c", &|n| script(repeat("", "sh -c ", "x", n))),
        ("for in for", &|n| {
            script(repeat("", "for i in 1 2 3 4; do\n", "vllm serve m\n", n))
        }),
        ("loops of questions", &|n| {
            let head = "for a in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do\n";
            script(format!(
                "{}{}{}",
                head.repeat(4),
                "[ a ]\n".repeat(n / 6),
                "done\n".repeat(4)
            ))
        }),
        ("loops one after another", &|n| {
            script(repeat("", "for i in a b; do vllm serve $i; done\n", "", n))
        }),
        ("if in if", &|n| {
            script(repeat("", "if x; then\n", "vllm serve m\n", n))
        }),
        ("case in case", &|n| script(repeat("", "case x in a)\n", "", n))),
        ("[[ without an end", &|n| script(repeat("", "[[ a && ", "", n))),
        ("many engines", &|n| script(repeat("", "vllm serve m\n", "", n))),
    ]);
}

#[test]
fn scripts_of_ways_that_are_perhaps_taken() {
    check(&[
        ("a variable for each way", &|n| {
            script(numbered(
                "case $X in\n",
                |text, i| writeln!(text, "{i}) A{i}=1;;").unwrap(),
                "esac\nvllm serve m\n",
                n,
            ))
        }),
        ("ways that set what the container has", &|n| Input {
            env: vec![("A".to_owned(), "x".repeat(n / 2))],
            ..script(repeat("case $X in\n", "a) A=1;;\n", "esac\n", n / 2))
        }),
        ("ways that extend a long text", &|n| {
            script(halves(
                ("A=", "x", "\ncase $X in\n"),
                ("a) A+=x;;\n", "esac\nvllm serve $A\n"),
                n,
            ))
        }),
        ("ways that extend a long array", &|n| {
            script(halves(
                ("A=(", "x ", ")\ncase $X in\n"),
                ("a) A+=(x);;\n", "esac\nvllm serve $A\n"),
                n,
            ))
        }),
        ("ways that set parameters", &|n| {
            script(halves(
                ("set -- ", "x ", "\ncase $X in\n"),
                ("a) shift;;\n", "esac\n"),
                n,
            ))
        }),
        ("many patterns", &|n| {
            script(repeat("case $X in\n", "a|", "a) b;;\nesac\n", n))
        }),
        ("patterns of a long text", &|n| {
            script(halves(("A=", "a", "\ncase $A in\n"), ("*a*b) ;;\n", "esac\n"), n))
        }),
        ("a long pattern", &|n| {
            script(halves(("A=", "a", "\ncase $A in\n"), ("*a", "b) ;;\nesac\n"), n))
        }),
        ("patterns of four thousand bytes", &|n| {
            let head = format!("A={}\n", "a".repeat(4096));
            let way = format!("case $A in {}b) ;; esac\n", "*a".repeat(120));
            script(repeat(&head, &way, "", n))
        }),
        ("questions of four thousand bytes", &|n| {
            let head = format!("A={}\n", "a".repeat(4096));
            let way = format!("[[ $A == {}b ]]\n", "*a".repeat(120));
            script(repeat(&head, &way, "", n))
        }),
        ("a pattern of nothing, in a loop", &|n| {
            script(repeat(
                "A=\nfor i in 1 2 3 4 5 6 7 8; do for j in 1 2 3 4 5 6 7 8; do case x in\n",
                "$A",
                ") ;; esac; done; done\n",
                n,
            ))
        }),
        ("a case that does not run, in a function", &|n| {
            script(halves(
                ("f(){\nif [ a = b ]; then case x in\n", "a) ;;\n", "esac; fi\n}\n"),
                ("f\n", ""),
                n,
            ))
        }),
        ("cases after one another", &|n| {
            script(repeat("", "case $X in a) A=1;; b) A=2;; esac\n", "", n))
        }),
        ("cases within ways", &|n| {
            let text = |depth: usize| {
                let open = "case $X in a) A=1;; b)\n".repeat(depth);
                format!("{open}vllm serve m\n{}", "esac\n".repeat(depth))
            };
            script(repeat("", &text(6), "", n))
        }),
        ("cases that are not closed, in ways", &|n| {
            script(repeat("case $X in a)\n", "case $X in a) b;;\n", "", n))
        }),
        ("functions that are perhaps called", &|n| {
            script(halves(
                ("f(){ A=1; }\nset -- ", "x ", "\n"),
                ("[ $X ] && f\n", ""),
                n,
            ))
        }),
        ("many variables and perhaps a function", &|n| {
            let text = numbered(
                "f(){ A1=2; }\n",
                |text, i| writeln!(text, "A{i}=1").unwrap(),
                "",
                n / 2,
            );
            script(text + &repeat("", "[ $X ] && f\n", "", n / 2))
        }),
        ("one of two long texts, again and again", &|n| {
            script(halves(("A=", "x", "\n"), ("[ $X ] && A=y\n", ""), n))
        }),
        ("a long text, perhaps appended to", &|n| {
            script(halves(("A=", "x", "\n"), ("[ $X ] && A+=y\n", ""), n))
        }),
        ("one of long texts, appended to", &|n| {
            script(halves(("A=", "x", "\n[ $X ] && A=y\n"), ("A+=y\n", ""), n))
        }),
        ("a long option that is perhaps set", &|n| {
            script(halves(
                ("[ $X ] && A=--", "x", "=$Y\necho "),
                ("\"${A:+y}\"", "\n"),
                n,
            ))
        }),
        ("a number that is perhaps added to", &|n| {
            script(halves(("A=1", " ", "\n"), ("[ $X ] && ((A++))\n", ""), n))
        }),
    ]);
}

#[test]
fn scripts_that_change_values() {
    let pieces = |value: &str, piece: &str, n: usize| {
        let perhaps = format!("[ $X ] && A={value}y\n");
        script(repeat(&format!("A={value}\n{perhaps}echo "), piece, "\n", n))
    };
    check(&[
        ("${A//a/…}", &|n| {
            let head = format!("A={}\nB={}\necho ", "a".repeat(4096), "b".repeat(4096));
            script(repeat(&head, "${A//a/$B} ", "\n", n))
        }),
        ("\"${A//a/…}\" of one of several", &|n| {
            let head = format!(
                "A={0}\n[ $X ] && A={0}a\nB={1}\necho ",
                "a".repeat(4000),
                "b".repeat(4096)
            );
            script(repeat(&head, "\"${A//a/$B}\" ", "\n", n))
        }),
        ("${A/a/b}", &|n| pieces("aaaa", "\"${A/a/b}\"", n)),
        ("${A##*a} where it is long", &|n| {
            pieces(&"a".repeat(510), "\"${A##*a*a*a*a*b}\"", n)
        }),
        ("${A%%*a} of a longer one", &|n| {
            script(halves(("A=", "a", "\necho "), ("${A%%*a}", "\n"), n))
        }),
        ("${A^^}", &|n| {
            script(halves(("A=", "a", "\necho "), ("\"${A^^}\"", "\n"), n))
        }),
        ("${A^^} of one of several", &|n| {
            script(halves(
                ("A=", "a", "\n[ $X ] && A=b\necho "),
                ("\"${A^^}\"", "\n"),
                n,
            ))
        }),
        ("${A#${A#…", &|n| script(repeat("A=a\necho ", "${A#", "", n))),
        ("${A#…}}}", &|n| {
            script(format!(
                "A=a\necho {}x{}",
                "${A#".repeat(n / 5),
                "}".repeat(n / 5)
            ))
        }),
        ("${A/${A/…}}}", &|n| {
            script(format!(
                "A=a\necho {}x{}",
                "${A/".repeat(n / 5),
                "}".repeat(n / 5)
            ))
        }),
        ("a long pattern to take off", &|n| {
            script(repeat("A=a\necho ${A#", "*", "}\n", n))
        }),
        ("$#", &|n| {
            script(halves(("set -- ", "x ", "\necho "), ("$#", "\n"), n))
        }),
        ("${99999}", &|n| {
            script(halves(("set -- ", "x ", "\necho "), ("${99999:-}", "\n"), n))
        }),
        ("read", &|n| {
            script(numbered(
                "read ",
                |text, i| write!(text, "A{i} ").unwrap(),
                "\n",
                n,
            ))
        }),
        ("read of a long name", &|n| {
            script(halves(("read ", "x", "\n"), ("read A\n", ""), n))
        }),
        ("let", &|n| script(repeat("let ", "A=1,", "A=1\n", n))),
        ("let of comparisons", &|n| script(repeat("let ", "1<", "1\n", n))),
        ("((A++))", &|n| script(repeat("", "((A++))\n", "", n))),
        ("((A=A+1))", &|n| script(repeat("A=1\n", "((A=A+1))\n", "", n))),
        ("(( without an end", &|n| script(repeat("", "((A\n", "", n))),
    ]);
}

#[test]
fn scripts_that_go_round_by_round() {
    check(&[
        ("while shift", &|n| {
            script(repeat(
                "set -- ",
                "x ",
                "\nwhile [ $# -gt 0 ]; do shift; done\nvllm serve m\n",
                n,
            ))
        }),
        ("while case shift", &|n| {
            script(repeat(
                "set -- ",
                "--a b ",
                "\nwhile [ $# -gt 0 ]; do case $1 in --a) A=$2; shift 2;; *) shift;; esac; done\n",
                n,
            ))
        }),
        ("while while", &|n| script(repeat("", "while ", "", n))),
        ("while do", &|n| {
            script(repeat("", "while [ $I ]; do\n", "vllm serve m\n", n))
        }),
        ("while true, closed", &|n| {
            let depth = n / 24;
            script(format!(
                "{}vllm serve m\n{}",
                "while true; do\n".repeat(depth),
                "done\n".repeat(depth)
            ))
        }),
        ("rounds that come to nothing", &|n| {
            let head = "for i in 1 2 3 4 5 6 7 8; do [ $i = 8 ] && [ $X ] && break\n";
            script(format!(
                "{}{}{}",
                head.repeat(6),
                "[ a ]\n".repeat(n / 6),
                "done\n".repeat(6)
            ))
        }),
        ("rounds that come to nothing, one after another", &|n| {
            script(repeat(
                "",
                "for i in 1 2 3 4; do A=$i; [ $i = 4 ] && [ $X ] && break; done\n",
                "",
                n,
            ))
        }),
        ("rounds that come to nothing beside many variables", &|n| {
            let text = numbered("", |text, i| writeln!(text, "A{i}=1").unwrap(), "", n / 2);
            script(text + &repeat("", "for i in 1; do [ $X ] && break; done\n", "", n / 2))
        }),
        ("counted", &|n| {
            script(repeat(
                "for ((i = 0; i < 100; i++)); do\n",
                "[ a ]\n",
                "done\nvllm serve m\n",
                n,
            ))
        }),
        ("counted within counted", &|n| {
            let head = "for ((i = 0; i < 100; i++)); do\n";
            script(format!(
                "{}{}{}",
                head.repeat(4),
                "[ a ]\n".repeat(n / 6),
                "done\n".repeat(4)
            ))
        }),
        ("seq", &|n| {
            script(repeat(
                "for i in $(seq 100); do\n",
                "A=$A$i\n",
                "done\nvllm serve $A\n",
                n,
            ))
        }),
        ("seq after seq", &|n| {
            script(repeat("", "for i in $(seq 100); do vllm serve $i; done\n", "", n))
        }),
        ("a doubling loop", &|n| {
            script(repeat(
                "A=x\nfor i in $(seq 100); do A=$A$A; done\n",
                "echo $A\n",
                "",
                n,
            ))
        }),
        ("an array that grows in rounds", &|n| {
            script(halves(
                ("A=(", "x ", ")\nfor i in $(seq 100); do\n"),
                ("A+=($i)\n", "done\nvllm serve ${A[@]}\n"),
                n,
            ))
        }),
        ("functions in rounds", &|n| {
            script(repeat("for i in $(seq 100); do\n", "f(){ x; }\nf\n", "done\n", n))
        }),
        ("here-documents in rounds", &|n| {
            script(repeat(
                "for i in $(seq 100); do\ncat > /f <<E\n",
                "$A",
                "\nE\ndone\n",
                n,
            ))
        }),
        ("if in if, with programs", &|n| {
            script(repeat("", "if [ $X ]; then x\n", "", n))
        }),
    ]);
}

#[test]
fn command_lines() {
    check(&[
        ("100,000 words", &|n| words(vec!["x".to_owned(); n / 10])),
        ("100,000 options", &|n| {
            words(vec!["--max-num-seqs=1".to_owned(); n / 10])
        }),
        ("prefixes of every option", &|n| {
            words(vec!["--=x".to_owned(); n / 10])
        }),
        ("words that are refused, of an unknown release", &|n| Input {
            image: "vllm/vllm-openai:latest",
            ..words((0..n / 10).map(|i| format!("--nothing{i}")).collect())
        }),
        ("one word", &|n| words(vec!["x".repeat(n)])),
        ("one option", &|n| words(vec![repeat("--", "x", "=1", n)])),
        ("one value", &|n| {
            words(vec![repeat("--gpu-memory-utilization=0.", "1", "", n)])
        }),
        ("one integer", &|n| {
            words(vec![repeat("--max-model-len=", "1", "", n)])
        }),
        ("several words in one", &|n| {
            words(vec![repeat("", "--max-num-seqs 1 ", "", n)])
        }),
        ("dotted keys", &|n| {
            words(
                (0..n / 10)
                    .map(|i| format!("--compilation-config.a{i}=1"))
                    .collect(),
            )
        }),
        ("dotted levels", &|n| {
            words(vec![repeat("--compilation-config", ".a", "=1", n)])
        }),
        ("dotted lists", &|n| {
            words(vec!["--compilation-config.a+=1,2".to_owned(); n / 10])
        }),
        ("list of values", &|n| {
            let mut args = vec!["--served-model-name".to_owned()];
            args.extend(std::iter::repeat_n("x".to_owned(), n / 10));
            words(args)
        }),
        ("deep JSON", &|n| {
            words(vec![
                repeat("--speculative-config=", "[", "", n),
                repeat("--compilation-config=", "{\"a\":", "", n),
                repeat("--hf-overrides=", "[", "", n),
            ])
        }),
        ("deep JSON that closes", &|n| {
            words(vec![format!(
                "--hf-overrides={}{}",
                "[".repeat(n / 2),
                "]".repeat(n / 2)
            )])
        }),
        ("wide JSON", &|n| {
            words(vec![numbered(
                "--compilation-config={\"a\":1",
                |text, i| write!(text, ",\"k{i}\":1").unwrap(),
                "}",
                n,
            )])
        }),
        ("-O", &|n| words(vec!["-O".to_owned(); n / 10])),
        ("--config --config", &|n| {
            words(vec!["--config".to_owned(); n / 10])
        }),
        ("sglang", &|n| Input {
            image: "lmsysorg/sglang:v0.5.5",
            command: ["python3", "-m", "sglang.launch_server"]
                .map(str::to_owned)
                .to_vec(),
            args: (0..n / 10).map(|i| format!("--nothing{i}")).collect(),
            ..Input::default()
        }),
        ("tgi", &|n| Input {
            image: "ghcr.io/huggingface/text-generation-inference:3.0",
            args: vec!["--model-id=x".to_owned(); n / 10],
            ..Input::default()
        }),
        ("llama.cpp", &|n| Input {
            image: "ghcr.io/ggml-org/llama.cpp:server-cuda",
            args: vec!["-ngl".to_owned(); n / 10],
            ..Input::default()
        }),
        ("wrapper of KServe", &|n| Input {
            image: "kserve/huggingfaceserver:latest",
            args: vec!["--max_model_len=1".to_owned(); n / 10],
            ..Input::default()
        }),
    ]);
}

#[test]
fn variables_of_the_container() {
    let expanding = |value: &str, n: usize| Input {
        env: vec![("A".to_owned(), value.to_owned())],
        ..words(vec![repeat("", "$(A)", "", n)])
    };
    check(&[
        ("$(A)$(A)", &|n| expanding("x", n)),
        ("long $(A)$(A)", &|n| expanding(&"x".repeat(n / 2), n / 2)),
        ("$($($(", &|n| words(vec![repeat("", "$(", ")", n)])),
        ("$$$$", &|n| words(vec!["$".repeat(n)])),
        ("each doubles", &|n| Input {
            env: (0..n / 40)
                .map(|i| (format!("A{i}"), format!("$(A{0})$(A{0})x", i.saturating_sub(1))))
                .collect(),
            ..words(vec!["$(A30)".to_owned()])
        }),
        ("many", &|n| Input {
            env: (0..n / 20).map(|i| (format!("A{i}"), "1".to_owned())).collect(),
            ..words((0..n / 20).map(|i| format!("$(A{i})")).collect())
        }),
        ("unread names, in use", &|n| Input {
            env: (0..n / 20).map(|_| ("MODEL".to_owned(), String::new())).collect(),
            ..words(vec![repeat("--x=", "y", "MODEL", n / 2)])
        }),
    ]);
}

#[test]
fn files_of_config() {
    check(&[
        ("many keys", &|n| {
            config(numbered("", |text, i| writeln!(text, "k{i}: 1").unwrap(), "", n))
        }),
        ("one key again and again", &|n| {
            config(repeat("", "max-num-seqs: 1\n", "", n))
        }),
        ("long value", &|n| config(repeat("a: ", "x", "\n", n))),
        ("long list", &|n| config(repeat("a: [1", ",1", "]\n", n))),
        ("deep list", &|n| {
            config(format!("a: {}{}", "[".repeat(n / 2), "]".repeat(n / 2)))
        }),
        ("deep list without an end", &|n| config(repeat("a: ", "[", "", n))),
        ("deep map", &|n| config(repeat("a: ", "{a: ", "", n))),
        ("deep blocks", &|n| {
            config(numbered(
                "",
                |text, i| writeln!(text, "{}a:", " ".repeat(i)).unwrap(),
                "",
                n,
            ))
        }),
        ("keys in keys", &|n| {
            config(format!("{}a{}", "{".repeat(n / 4), ": b}".repeat(n / 5)))
        }),
        ("anchors that double", &|n| {
            let mut text = String::from("a0: &a0 [x, x]\n");
            for i in 1..64 {
                writeln!(text, "a{i}: &a{i} [*a{0}, *a{0}]", i - 1).unwrap();
            }
            config(text + &repeat("", "# \n", "", n))
        }),
        ("one anchor often", &|n| {
            config(halves(("a: &a ", "x", "\nb: ["), ("*a,", "*a]\n"), n))
        }),
        ("merge keys", &|n| {
            config(halves(("a: &a {x: '", "y", "'}\n"), ("b: {<<: *a}\n", ""), n))
        }),
        ("unknown release", &|n| Input {
            image: "vllm/vllm-openai:latest",
            ..config(numbered("", |text, i| writeln!(text, "k{i}: 1").unwrap(), "", n))
        }),
        ("trtllm", &|n| Input {
            image: "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
            command: [
                "trtllm-serve",
                "serve",
                "m",
                "--extra_llm_api_options",
                "/config/engine.yaml",
            ]
            .map(str::to_owned)
            .to_vec(),
            files: BTreeMap::from([(
                "engine.yaml".to_owned(),
                format!("a: {}{}", "[".repeat(n / 2), "]".repeat(n / 2)),
            )]),
            ..Input::default()
        }),
        ("binary", &|n| config("\u{0}\u{1}\u{fffd}".repeat(n / 5))),
    ]);
}
