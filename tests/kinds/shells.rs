//! What start scripts do beside starting the engine.

use serde_json::json;

use super::{Maps, lines, pod, read};

fn script(text: &str, parameters: &[&str]) -> Vec<String> {
    let command: Vec<&str> = ["bash", "-c", text]
        .into_iter()
        .chain(parameters.iter().copied())
        .collect();
    let container = json!({"image": "vllm/vllm-openai:v0.11.2", "command": command,
        "env": [{"name": "EXTRA", "value": "--gpu-memory-utilization 0.4 --enforce-eager"}, {"name": "U", "value": "0.4"}],
        "volumeMounts": [{"name": "files", "mountPath": "/files"}]});
    let mut pod = pod(&container);
    pod.spec.volumes =
        serde_json::from_value(json!([{"name": "files", "configMap": {"name": "files"}}])).unwrap();
    let maps = Maps::default().with(
        "files",
        &[
            ("env", "# comment\nMODEL=m\nexport F=\"0.4\"\n"),
            ("args", "--gpu-memory-utilization 0.4\n--enforce-eager\n"),
            (
                "template.yaml",
                "gpu-memory-utilization: ${U}\nserved-model-name: $NOBODY\n",
            ),
        ],
    );
    lines(&read(&pod, &maps))
}

const FOUND: &str = "vllm m 0.4 flag 1/1/1=1 yes";
const SERVE: &str = "vllm serve m --gpu-memory-utilization 0.4";

#[test]
fn what_stands_beside_the_engine_changes_nothing() {
    for text in [
        format!("command -v vllm >/dev/null || pip install vllm\n{SERVE}"),
        format!("vllm --version && vllm serve --help; {SERVE}"),
        format!("exec > /log 2>&1\n{SERVE}"),
        format!("exec > >(tee -a /log) 2>&1\n{SERVE}"),
        format!("{SERVE} > >(tee /log) 2>&1"),
        format!("test -d /models || {{ echo missing; exit 1; }}\n{SERVE}"),
        format!("[ -f /a ] && {{ echo there; exit 0; }}\n{SERVE}"),
        format!("test -d /models || (echo missing; exit 1)\n{SERVE}"),
        format!("{{ {SERVE}; }} 2>&1 | tee /log"),
        format!("({SERVE})"),
        format!("su app -c '{SERVE}'"),
        format!("su -s /bin/bash - app --command '{SERVE}'"),
        SERVE.replace("vllm", "python3 /usr/local/bin/vllm"),
        format!("while true; do {SERVE}; sleep 5; done"),
        format!("{SERVE} &\nPID=$!\ntrap 'kill $PID' TERM\nwait $PID"),
        format!("vllm bench serve --model m & {SERVE}"),
    ] {
        assert_eq!(script(&text, &[]), [FOUND], "{text}");
    }
}

#[test]
fn groups_run_where_a_single_command_would() {
    for (text, expected) in [
        (
            "U=0.4; true || { U=0.9; exit; }; vllm serve m --gpu-memory-utilization $U",
            FOUND,
        ),
        (
            "false || { U=0.4; }; vllm serve m --gpu-memory-utilization $U",
            FOUND,
        ),
        (
            "U=0.4; [ -n \"$U\" ] || { U=0.9; }; vllm serve m --gpu-memory-utilization $U",
            FOUND,
        ),
        (
            "true && { exit 1; }; vllm serve m",
            "unknown - - unresolved 1/1/1=2 unknown",
        ),
        (
            "grep -q x /f && { U=0.9; }; vllm serve m --gpu-memory-utilization $U",
            "vllm m - unresolved 1/1/1=1 yes",
        ),
        (
            "{ { false; } || { U=0.4; }; } && vllm serve m --gpu-memory-utilization $U",
            FOUND,
        ),
    ] {
        assert_eq!(script(text, &[]), [expected], "{text}");
    }
    for text in ["}", "{", "{ { {", "} } }; )", "( ( (", "a && }", "{ ) } ("] {
        let _ = script(&format!("{text}\n{SERVE}"), &[]);
    }
}

#[test]
fn words_come_from_files_texts_and_slices() {
    for text in [
        ". /files/env; vllm serve $MODEL --gpu-memory-utilization $F",
        "set -a; source /files/env; set +a; vllm serve $MODEL --gpu-memory-utilization $F",
        "vllm serve m $(cat /files/args)",
        "vllm serve m $(</files/args)",
        "vllm serve m `cat /files/args`",
        "vllm serve $(basename /models/m) --gpu-memory-utilization \"$(echo $U)\"",
        "read -r -a MORE <<< \"$EXTRA\"; vllm serve m \"${MORE[@]}\"",
        "IFS=' ' read -ra MORE <<< \"$EXTRA\"; vllm serve m \"${MORE[@]}\"",
        "IFS=, read -r M F <<< m,0.4; vllm serve $M --gpu-memory-utilization $F",
        "mapfile -t MORE <<< \"--gpu-memory-utilization=0.4\"; vllm serve m \"${MORE[@]}\"",
        "printf -v F '%s' 0.4; vllm serve m --gpu-memory-utilization $F",
        "A=(echo vllm serve m --gpu-memory-utilization 0.4 --seed 1); \"${A[@]:1:5}\"",
        "eval vllm serve m $EXTRA",
    ] {
        assert_eq!(script(text, &[]), [FOUND], "{text}");
    }
    let parameters = ["name", "first", "m", "--gpu-memory-utilization", "0.4"];
    assert_eq!(script("exec vllm serve \"${@:2}\"", &parameters), [FOUND]);
    assert_eq!(
        script(
            "envsubst < /files/template.yaml > /c.yaml; vllm serve m --config /c.yaml",
            &[]
        ),
        ["vllm m 0.4 config-file 1/1/1=1 yes"]
    );
    // What hangs on the run stays open.
    for text in [
        "vllm serve m $(cat /elsewhere)",
        "vllm serve m $(cat /files/args | head -1)",
        "read -r MORE; vllm serve m $MORE",
        "echo \"$EXTRA\" | read -ra MORE; vllm serve m \"${MORE[@]}\"",
    ] {
        let read = script(text, &[]);
        assert_eq!(read, ["vllm m - unresolved 1/1/1=1 unknown"], "{text}");
    }
}

#[test]
fn questions_in_several_parts_are_answered() {
    for (question, expected) in [
        ("[[ -n \"$U\" && \"$U\" != none ]]", FOUND),
        ("[[ -z \"$U\" || \"$U\" == 0.4 ]]", FOUND),
        ("[[ -z \"$U\" && -f /x || \"$U\" == 0.* ]]", FOUND),
        ("[ -n \"$U\" -a \"$U\" != none ]", FOUND),
        ("[ \"$U\" = none -o \"$U\" = 0.4 ]", FOUND),
        (
            "[[ -n \"$U\" && \"$U\" == none ]]",
            "vllm m 0.9 default 1/1/1=1 yes",
        ),
        ("[[ -z \"$U\" || -f /x ]]", "vllm m - unresolved 1/1/1=1 unknown"),
        (
            "[[ ( -n \"$U\" ) && -n \"$U\" ]]",
            "vllm m - unresolved 1/1/1=1 unknown",
        ),
        ("[ -f /x -a -n \"$U\" ]", "vllm m - unresolved 1/1/1=1 unknown"),
    ] {
        let text = format!(
            "A=; if {question}; then A=\"--gpu-memory-utilization $U --seed 1\"; fi; vllm serve m $A"
        );
        assert_eq!(script(&text, &[]), [expected], "{question}");
    }
}

#[test]
fn several_words_in_quotes_are_one_argument() {
    assert_eq!(
        script("vllm serve m \"$EXTRA\"", &[]),
        ["vllm m 0.4 flag 1/1/1=1 no"]
    );
    let container = json!({"image": "vllm/vllm-openai:v0.11.2", "args": ["m", "$(EXTRA)"],
        "env": [{"name": "EXTRA", "value": "--gpu-memory-utilization 0.4 --enforce-eager"}]});
    let readings = read(&pod(&container), &Maps::default());
    assert_eq!(lines(&readings), ["vllm m 0.4 flag 1/1/1=1 no"]);
    let finding = &readings[0].findings[0];
    assert_eq!(
        (finding.code.as_str(), finding.path.as_str()),
        ("VG104", "spec.containers[0].args[1]")
    );
    assert!(finding.message.contains("is one argument"), "{}", finding.message);
}
