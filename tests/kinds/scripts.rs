//! Scripts whose way is decided by `case`, loops and parameters.

use serde_json::json;
use vramgate::engine::Reading;

use super::{Maps, line, lines, pod, read};

fn readings(script: &str, parameters: &[&str]) -> Vec<Reading> {
    let mut args = vec![script, "sh"];
    args.extend(parameters);
    let container = json!({
        "image": "vllm/vllm-openai:v0.11.0",
        "command": ["bash", "-c"],
        "args": args,
        "env": [
            {"name": "SIZE", "value": "large"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
    });
    read(&pod(&container), &Maps::default())
}

fn one(script: &str, parameters: &[&str]) -> String {
    let readings = readings(script, parameters);
    assert_eq!(readings.len(), 1, "{script}: {:?}", lines(&readings));
    line(&readings[0])
}

#[test]
fn a_known_word_chooses_its_way() {
    for (script, expected) in [
        (
            "case $SIZE in small) U=0.2;; large) U=0.6;; *) U=0.9;; esac; vllm serve m --gpu-memory-utilization $U",
            "vllm m 0.6 flag 1/1/1=1 yes",
        ),
        (
            "case \"$SIZE\" in\n  (s* | lar?e)\n    U=0.3\n    ;;\n  *)\n    exit 1\nesac\nexec vllm serve m --gpu-memory-utilization=$U",
            "vllm m 0.3 flag 1/1/1=1 yes",
        ),
        (
            "case $SIZE in [!a-k]*) exec vllm serve m --gpu-memory-utilization 0.4;; esac; exec vllm serve other",
            "vllm m 0.4 flag 1/1/1=1 yes",
        ),
        (
            "case x$SIZE in xnone) exec vllm serve other;; esac; exec vllm serve m --gpu-memory-utilization 0.4",
            "vllm m 0.4 flag 1/1/1=1 yes",
        ),
        (
            "case $SIZE in large) case 2 in 1) U=0.1;; 2) U=0.25;; esac;; *) U=0.9;; esac; vllm serve m --gpu-memory-utilization $U",
            "vllm m 0.25 flag 1/1/1=1 yes",
        ),
        (
            "if [ $SIZE = large ]; then case $SIZE in large) U=0.5 ;; esac; fi; vllm serve m --gpu-memory-utilization $U",
            "vllm m 0.5 flag 1/1/1=1 yes",
        ),
    ] {
        assert_eq!(one(script, &[]), expected, "{script}");
    }
}

#[test]
fn an_unknown_word_leaves_what_its_ways_have_alike() {
    for (script, expected) in [
        // Alike on every way.
        (
            "case $SECRET in a) U=0.3; N=1;; *) U=0.3; N=2;; esac; vllm serve m --gpu-memory-utilization $U",
            "vllm m 0.3 flag 1/1/1=1 yes",
        ),
        // Set before, and on no way otherwise.
        (
            "U=0.3; case $SECRET in a) N=1;; b) U=0.3;; esac; vllm serve m --gpu-memory-utilization $U",
            "vllm m 0.3 flag 1/1/1=1 yes",
        ),
        // A way that ends leaves nothing.
        (
            "case $SECRET in a) U=0.3;; *) echo usage; exit 1;; esac; vllm serve m --gpu-memory-utilization $U",
            "vllm m 0.3 flag 1/1/1=1 yes",
        ),
        (
            "case $SECRET in a) U=0.3;; *) U=0.5;; esac; vllm serve m --gpu-memory-utilization \"$U\"",
            "vllm m - unresolved 1/1/1=1 yes",
        ),
        // Not exhaustive: what was before may stay.
        (
            "U=0.2; case $SECRET in a) U=0.3;; esac; vllm serve m --gpu-memory-utilization \"$U\"",
            "vllm m - unresolved 1/1/1=1 yes",
        ),
        // Ways that go on into the next are not told apart.
        (
            "U=0.2; case $SIZE in large) U=0.3;& b) U=0.4;; esac; vllm serve m --gpu-memory-utilization \"$U\"",
            "vllm m - unresolved 1/1/1=1 yes",
        ),
        // The word itself is one of two.
        (
            "M=a; [ -f /x ] && M=b; case $M in a|b) U=0.3;; *) U=0.9;; esac; vllm serve m --gpu-memory-utilization $U",
            "vllm m 0.3 flag 1/1/1=1 yes",
        ),
    ] {
        assert_eq!(one(script, &[]), expected, "{script}");
    }
    let both = readings(
        "case $SECRET in a) exec vllm serve a --gpu-memory-utilization 0.3;; *) exec vllm serve b --gpu-memory-utilization 0.5;; esac",
        &[],
    );
    assert_eq!(
        lines(&both),
        [
            "vllm a 0.3 flag 1/1/1=1 unknown",
            "vllm b 0.5 flag 1/1/1=1 unknown"
        ]
    );
    // An array that one way makes longer keeps what it had.
    let script = "A=(serve m --gpu-memory-utilization 0.3); case $SECRET in a) A+=(--max-model-len 5);; esac; vllm \"${A[@]}\"";
    let reading = &readings(script, &[])[0];
    assert_eq!(line(reading), "vllm m 0.3 flag 1/1/1=1 yes");
    assert_eq!(reading.max_model_len, None);
    assert_eq!(reading.unresolved[0].field, "max-model-len");
}

#[test]
fn parameters_are_gone_through() {
    let script = "while [[ $# -gt 0 ]]; do case \"$1\" in\n--model) MODEL=$2; shift 2;;\n--share=*) U=${1#*=}; shift;;\n\
                  --tp*) T=\"${1##*-}\"; shift;;\n--) shift; break;;\n*) echo unknown; exit 1;;\nesac; done\n\
                  exec vllm serve $MODEL --gpu-memory-utilization $U -tp $T \"$@\"";
    assert_eq!(
        one(
            script,
            &[
                "--share=0.35",
                "--model",
                "m",
                "--tp-2",
                "--",
                "--max-num-seqs",
                "4"
            ]
        ),
        "vllm m 0.35 flag 2/1/1=2 yes"
    );
    let script = "for a in \"$@\"; do case $a in u=*) U=${a#u=};; m=*) M=${a#m=};; esac; done; vllm serve $M --gpu-memory-utilization $U";
    assert_eq!(one(script, &["m=q", "u=0.2"]), "vllm q 0.2 flag 1/1/1=1 yes");
    let script =
        "serve() { vllm serve $1 --gpu-memory-utilization ${2:-0.5}; }; for m; do serve $m 0.$#; done";
    let both = readings(script, &["a", "b"]);
    assert_eq!(
        lines(&both),
        ["vllm a 0.2 flag 1/1/1=1 yes", "vllm b 0.2 flag 1/1/1=1 yes"]
    );
    // What a loop over options that are not known sets is not known, and says why.
    let script = "while getopts u:m: o; do case $o in u) U=$OPTARG;; m) M=$OPTARG;; esac; done; vllm serve m --gpu-memory-utilization \"$U\"";
    let reading = &readings(script, &["-u", "0.3"])[0];
    assert_eq!(line(reading), "vllm m - unresolved 1/1/1=1 yes");
    assert!(
        reading.unresolved[0].reason.contains('U'),
        "{:?}",
        reading.unresolved
    );
}

#[test]
fn loops_with_known_answers_are_followed() {
    for (script, expected) in [
        (
            "i=0; while [ $i -lt 2 ]; do vllm serve m$i --gpu-memory-utilization 0.$((i+3)) & i=$((i+1)); done; wait",
            &["vllm m0 0.3 flag 1/1/1=1 yes", "vllm m1 0.4 flag 1/1/1=1 yes"][..],
        ),
        (
            "for ((i=1; i<=2; i++)); do vllm serve m$i --gpu-memory-utilization 0.$i & done; wait",
            &["vllm m1 0.1 flag 1/1/1=1 yes", "vllm m2 0.2 flag 1/1/1=1 yes"][..],
        ),
        (
            "N=2; for i in $(seq 1 $N); do vllm serve m$i --gpu-memory-utilization 0.3 & done; wait",
            &["vllm m1 0.3 flag 1/1/1=1 yes", "vllm m2 0.3 flag 1/1/1=1 yes"][..],
        ),
        (
            "for i in {3..2}; do vllm serve m$i --gpu-memory-utilization 0.3 & done",
            &["vllm m3 0.3 flag 1/1/1=1 yes", "vllm m2 0.3 flag 1/1/1=1 yes"][..],
        ),
        (
            "while true; do vllm serve m --gpu-memory-utilization 0.3; sleep 5; done",
            &["vllm m 0.3 flag 1/1/1=1 yes"][..],
        ),
        (
            "for m in a b c; do [ $m = b ] && continue; [ $m = c ] && break; vllm serve $m --gpu-memory-utilization 0.3 & done",
            &["vllm a 0.3 flag 1/1/1=1 yes"][..],
        ),
        (
            "OK=; until [ -n \"$OK\" ]; do OK=1; U=0.4; done; vllm serve m --gpu-memory-utilization $U",
            &["vllm m 0.4 flag 1/1/1=1 yes"][..],
        ),
        // Nobody knows how often: what it sets is not known.
        (
            "U=0.1; while curl -s x | grep y; do U=0.4; done; vllm serve m --gpu-memory-utilization \"$U\"",
            &["vllm m - unresolved 1/1/1=1 yes"][..],
        ),
        // It may grow more than once.
        (
            "A=; while read x; do A=\"$A --gpu-memory-utilization 0.4\"; done; vllm serve m --gpu-memory-utilization 0.3 $A",
            &["vllm m - unresolved 1/1/1=1 unknown"][..],
        ),
        // Left under a condition: the engines behind it may not start.
        (
            "for m in a b; do [ -f /$m ] && break; done; vllm serve m --gpu-memory-utilization 0.2",
            &["vllm m 0.2 flag 1/1/1=1 yes"][..],
        ),
        (
            "while :; do i=$((i)); done; vllm serve m --gpu-memory-utilization 0.2",
            &["vllm m 0.2 flag 1/1/1=1 yes"][..],
        ),
    ] {
        assert_eq!(lines(&readings(script, &[])), expected, "{script}");
    }
}

#[test]
fn changes_of_values_are_followed() {
    for (script, expected) in [
        (
            "A=TRUE; [[ ${A,,} == true ]] && U=0.3 || U=0.5; vllm serve m --gpu-memory-utilization $U",
            "0.3",
        ),
        ("A=30%; vllm serve m --gpu-memory-utilization 0.${A%\\%}", "0.30"),
        (
            "A=u/0.4/x; A=${A#*/}; vllm serve m --gpu-memory-utilization ${A%%/*}",
            "0.4",
        ),
        ("A=0,25; vllm serve m --gpu-memory-utilization ${A/,/.}", "0.25"),
        (
            "[[ $SIZE == lar* ]] && U=0.3 || U=0.5; vllm serve m --gpu-memory-utilization $U",
            "0.3",
        ),
        (
            "[[ $SIZE == \"lar*\" ]] && U=0.3 || U=0.5; vllm serve m --gpu-memory-utilization $U",
            "0.5",
        ),
        (
            "i=2; ((i++)); (( i += 1 )); if ((i == 4)); then U=0.$i; fi; vllm serve m --gpu-memory-utilization $U",
            "0.4",
        ),
        ("let i=1+2; vllm serve m --gpu-memory-utilization 0.$i", "0.3"),
    ] {
        let reading = &readings(script, &[])[0];
        assert_eq!(
            reading.memory.value.as_deref(),
            Some(expected),
            "{script}: {:?}",
            reading.unresolved
        );
    }
}

#[test]
fn a_function_that_is_perhaps_called_leaves_its_changes_open() {
    let script =
        "set_share() { U=0.6; }; U=0.3; [ -f /x ] && set_share; vllm serve m --gpu-memory-utilization \"$U\"";
    assert_eq!(one(script, &[]), "vllm m - unresolved 1/1/1=1 yes");
    let script = "main() { exec vllm serve m --gpu-memory-utilization 0.3; }; if [ -f /x ]; then main; fi";
    assert_eq!(one(script, &[]), "vllm m 0.3 flag 1/1/1=1 unknown");
}

#[test]
fn statements_that_multiply_are_read_within_bounds() {
    let nested = (0..40).fold("vllm serve m".to_owned(), |inner, _| {
        format!("for i in {{1..100}}; do {inner}; done")
    });
    let cases = "case $SECRET in a) A=$A$A;; *) B=$B$B;; esac\n".repeat(20_000);
    let variables: String = (0..5_000).map(|n| format!("V{n}=x\n")).collect();
    let unclosed = "case $SIZE in large) ".repeat(10_000);
    let whiles = (0..8).fold(":".to_owned(), |inner, _| {
        format!("while [ 1 = 1 ]; do {inner}; done")
    });
    for script in [
        nested,
        "(".repeat(120_000),
        format!("P='{}b'; T='{}'; ", "*a".repeat(30), "a".repeat(500)) + &"X=${T##$P}\n".repeat(9_000),
        format!("T='{}'\n", "a".repeat(4000))
            + &format!("case $T in {}b) A=1;; esac\n", "*a".repeat(120)).repeat(400),
        format!("{}a{}", "(".repeat(60_000), ") ".repeat(30_000)),
        "((é".repeat(30_000),
        format!("A=aaaaaaaa; B=b; {cases}vllm serve m"),
        format!("{variables}{cases}"),
        unclosed,
        whiles,
        format!(
            "P='{}'; T='{}'; echo ${{T##$P}}\n",
            "*a".repeat(120),
            "a".repeat(4000)
        )
        .repeat(50),
    ] {
        let script = &script[..script.len().min(120_000)];
        let cost = allocation_counter::measure(|| drop(readings(script, &[])));
        let beginning: String = script.chars().take(40).collect();
        println!("{} bytes allocated for {beginning}", cost.bytes_total);
        // At most 75 MiB are seen.
        assert!(
            cost.bytes_total < 256 << 20,
            "{} bytes allocated for {beginning}",
            cost.bytes_total
        );
    }
}
