//! What a script hands on to what it starts, and what a shell below it keeps to itself: each expectation is what bash
//! does with the script.

use serde_json::json;
use vramgate::engine::Reading;

use super::{Maps, line, lines, pod, read};

fn readings(script: &str) -> Vec<Reading> {
    let container = json!({
        "image": "vllm/vllm-openai:v0.11.0",
        "command": ["bash", "-c"],
        "args": [script, "sh", "0.81", "0.82"],
        "env": [
            {"name": "E", "value": "0.77"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
    });
    read(&pod(&container), &Maps::default())
}

/// The fractions of all engines that start; `?` for one that is not known.
fn fractions(script: &str) -> Vec<String> {
    readings(script)
        .iter()
        .map(|reading| {
            assert_eq!(reading.engine.to_string(), "vllm", "{script}: {}", line(reading));
            reading.memory.value.clone().unwrap_or("?".to_owned())
        })
        .collect()
}

const S: &str = "vllm serve m --gpu-memory-utilization";

#[test]
fn a_shell_gets_what_is_exported() {
    for (script, expected) in [
        (format!("U=0.3; export U; bash -c '{S} $U'"), "0.3"),
        (format!("export U; U=0.3; bash -c '{S} $U'"), "0.3"),
        (
            format!("export U=0.3; export -n U; bash -c '{S} ${{U:-0.4}}'"),
            "0.4",
        ),
        (format!("declare -x U=0.3; bash -c '{S} ${{U:-0.4}}'"), "0.3"),
        (format!("U=0.3; bash -c '{S} ${{U:-0.4}}'"), "0.4"),
        (format!("U=0.3; bash -c \"{S} $U\""), "0.3"),
        (
            format!("set -a; U=0.3; set +a; V=0.4; bash -c '{S} ${{V:-$U}}'"),
            "0.3",
        ),
        (format!("set -o allexport; U=0.3; bash -c '{S} $U'"), "0.3"),
        // What the container sets is exported, whoever sets it later.
        (format!("E=0.3; bash -c '{S} $E'"), "0.3"),
        (format!("unset E; E=0.3; bash -c '{S} ${{E:-0.4}}'"), "0.4"),
        (format!("unset E; bash -c '{S} ${{E:-0.4}}'"), "0.4"),
        (format!("U=0.3; U=0.5 bash -c '{S} $U'"), "0.5"),
        (format!("U=0.3; env U=0.5 sh -c '{S} $U'"), "0.5"),
        (format!("export U=0.3; env -u U sh -c '{S} ${{U:-0.5}}'"), "0.5"),
        (
            format!("export U=0.3; env --unset=U V=0.6 sh -c '{S} ${{U:-$V}}'"),
            "0.6",
        ),
        (format!("export U=0.3; env -i sh -c '{S} ${{U:-0.5}}'"), "0.5"),
        (format!("env -i V=0.5 sh -c '{S} ${{E:-$V}}'"), "0.5"),
        (format!("env -i sh -c 'U=0.2 sh -c \"{S} ${{E:-\\$U}}\"'"), "0.2"),
        (format!("export U=0.3; bash -c 'U=0.5'; {S} $U"), "0.3"),
        (format!("U=0.3; bash -c 'U=0.5; cd /x; set -- a'; {S} $U"), "0.3"),
        (
            format!("cat > /s.sh <<'X'\n{S} ${{U:-0.4}}\nX\nU=0.3\nbash /s.sh"),
            "0.4",
        ),
        (
            format!("cat > /s.sh <<'X'\n{S} ${{U:-0.4}}\nX\nU=0.3 bash /s.sh"),
            "0.3",
        ),
        // Exported under a condition: nobody knows.
        (
            format!("U=0.3; [ $SECRET ] && export U; bash -c '{S} ${{U:-0.4}}'"),
            "?",
        ),
    ] {
        assert_eq!(fractions(&script), [expected], "{script}");
    }
}

#[test]
fn what_brackets_pipes_and_functions_set_ends_with_them() {
    for (script, expected) in [
        (format!("U=0.3; (U=0.5); {S} $U"), "0.3"),
        (format!("U=0.3; (U=0.5; (U=0.6); {S} $U)"), "0.5"),
        (format!("U=0.3; (set -- 0.5; exit 1); {S} $1"), "0.81"),
        (format!("U=0.3; f() (\nU=$1\n)\nf 0.5; {S} $U"), "0.3"),
        (format!("U=0.3; f() (\nU=$1\n{S} $U\n)\nf 0.5"), "0.5"),
        (format!("U=0.3; true | U=0.5; {S} $U"), "0.3"),
        (format!("U=0.3; U=0.5 & wait; {S} $U"), "0.3"),
        (format!("U=0.3; echo 0.5 | read U; {S} $U"), "0.3"),
        (format!("f() {{ local U=0.5; }}; U=0.3; f; {S} $U"), "0.3"),
        (
            format!("f() {{ declare U=0.5; g; }}; g() {{ {S} $U; }}; U=0.3; f"),
            "0.5",
        ),
        (format!("f() {{ declare -g U=0.5; }}; U=0.3; f; {S} $U"), "0.5"),
        (format!("f() {{ local U; U=0.5; }}; U=0.3; f; {S} $U"), "0.3"),
        (
            format!("f() {{ local A=(0.5 0.6); }}; A=(0.3); f; {S} ${{A[@]}}"),
            "0.3",
        ),
        (format!("f() {{ U=0.5; }}; U=0.3; f; {S} $U"), "0.5"),
    ] {
        assert_eq!(fractions(&script), [expected], "{script}");
    }
    let both = format!("exec {S} 0.3 & exec {S} 0.4");
    assert_eq!(fractions(&both), ["0.3", "0.4"]);
}

#[test]
fn programs_that_read_their_words_start_them() {
    for (script, expected) in [
        (format!("echo 0.3 | xargs {S}"), "0.3"),
        (format!("xargs {S} <<< 0.3"), "0.3"),
        (format!("echo 0.3 | xargs -r -t {S}"), "0.3"),
        (format!("cat /unknown | xargs {S}"), "?"),
        (format!("cat /unknown | xargs -I{{}} {S} {{}}"), "?"),
        (format!("cat /unknown | xargs -I @ sh -c '{S} @'"), "?"),
        (format!("cat /unknown | xargs -n 1 {S} 0.3 --port"), "0.3"),
        (format!("parallel -j 2 {S} 0.3 --port ::: 1 2"), "0.3"),
        (format!("find / -name x -exec {S} 0.3 \\;"), "0.3"),
        (format!("trap 'exec {S} 0.3' USR1; wait"), "0.3"),
        (format!("env -S '{S} 0.3'"), "0.3"),
        (format!("env --split-string='{S} 0.3'"), "0.3"),
        (format!("env -iS '{S} 0.3'"), "0.3"),
        (format!("uv tool run {S} 0.3"), "0.3"),
        (format!("uv tool run --from vllm==0.11 {S} 0.3"), "0.3"),
        (format!("numactl --membind 0 --cpunodebind 0 {S} 0.3"), "0.3"),
        (format!("cat <<'X' | bash\n{S} 0.3\nX"), "0.3"),
        (format!("bash -s <<< '{S} 0.3'"), "0.3"),
        (format!("echo '{S} 0.3' | sh -e"), "0.3"),
        (format!("U=0.5; bash <<'X'\n{S} ${{U:-0.3}}\nX"), "0.3"),
        (format!("eval \"$(echo U=0.3)\"; {S} $U"), "0.3"),
    ] {
        assert_eq!(fractions(&script), [expected], "{script}");
    }
}

#[test]
fn words_are_split_and_joined_as_ifs_says() {
    for (script, expected) in [
        (
            "IFS=,; X=serve,m,--gpu-memory-utilization,0.3; vllm $X".to_owned(),
            "0.3",
        ),
        (
            "IFS=' ,'; X='serve , m,--gpu-memory-utilization 0.3'; vllm $X".to_owned(),
            "0.3",
        ),
        (
            format!("IFS=,; X=a; unset IFS; X='0.3 --enforce-eager'; {S} $X"),
            "0.3",
        ),
        (
            "set -- vllm serve m --gpu-memory-utilization 0.3; exec bash -c \"$*\"".to_owned(),
            "0.3",
        ),
        (
            "A=(vllm serve m --gpu-memory-utilization 0.3); exec bash -c \"${A[*]}\"".to_owned(),
            "0.3",
        ),
        (
            "A=(vllm serve m --gpu-memory-utilization 0.3); exec \"${A[@]}\"".to_owned(),
            "0.3",
        ),
        (format!("{S} 0.$((010))"), "0.8"),
        (format!("{S} 0.$((0x3))"), "0.3"),
        (format!("{S} 0.$((08))"), "?"),
        (format!("N=010; {S} 0.$((N))"), "0.8"),
        // Braces make several words in bash and none in sh.
        (format!("{S}={{0.3,0.4}}"), "?"),
        (format!("{S} 0.{{3..4}}"), "?"),
        (format!("{S} 0.3 --x '{{\"a\":1,\"b\":2}}'"), "0.3"),
        (format!("{S} 0.3 --x \"{{a,b}}\""), "0.3"),
        (format!("{S} ${{U:-0.3}}"), "0.3"),
    ] {
        assert_eq!(fractions(&script), [expected], "{script}");
    }
}

#[test]
fn what_runs_elsewhere_sets_nothing_here() {
    for (script, expected) in [
        (
            format!("U=0.3; V=$(case $U in 0.1) echo 1;; 0.3) U=0.9;; esac; echo $U); {S} $U"),
            "0.3",
        ),
        (
            format!("U=0.3; V=$(\ncase $U in\n0.1*|x) U=0.7\n;;\n(*) U=0.8\n;;\nesac\necho 1)\n{S} $U"),
            "0.3",
        ),
        (
            format!("U=0.3; V=$(if x; then case $U in *) U=0.9;; esac; fi); {S} $U"),
            "0.3",
        ),
        (format!("U=0.3; V=$(echo case); {S} $U"), "0.3"),
        (format!("U=0.3; V=$(echo in case of a; echo esac); {S} $U"), "0.3"),
        (format!("[ $SECRET = x ] && V=${{U:=0.3}}; {S} $U"), "?"),
        (format!("U=0.3; source <(echo U=0.4); {S} $U"), "0.4"),
        (format!("U=0.3; source /venv/bin/activate; {S} $U"), "0.3"),
        (format!("source <(echo {S} 0.3)"), "0.3"),
        (
            format!("shopt -s lastpipe; U=0.3; echo 0.4 | read U; {S} $U"),
            "?",
        ),
    ] {
        assert_eq!(fractions(&script), [expected], "{script}");
    }
}

#[test]
fn an_engine_reads_the_variables_that_the_script_exports() {
    let tgi = |script: &str| {
        let container = json!({
            "image": "ghcr.io/huggingface/text-generation-inference:3.0.0",
            "command": ["bash", "-c", script],
            "env": [{"name": "CUDA_MEMORY_FRACTION", "value": "0.5"}],
        });
        lines(&read(&pod(&container), &Maps::default()))
    };
    for (script, model, fraction) in [
        (
            "export CUDA_MEMORY_FRACTION=0.4 MODEL_ID=m; exec text-generation-launcher",
            "m",
            "0.4",
        ),
        (
            "CUDA_MEMORY_FRACTION=0.4; MODEL_ID=m; exec text-generation-launcher",
            "-",
            "0.4",
        ),
        ("MODEL_ID=m text-generation-launcher", "m", "0.5"),
        (
            "export MODEL_ID=m; MODEL_ID=n text-generation-launcher",
            "n",
            "0.5",
        ),
        (
            "unset CUDA_MEMORY_FRACTION; text-generation-launcher --model-id m",
            "m",
            "-",
        ),
        (
            "env -u CUDA_MEMORY_FRACTION text-generation-launcher --model-id m",
            "m",
            "-",
        ),
        (
            "export CUDA_MEMORY_FRACTION=$(x); text-generation-launcher --model-id m",
            "m",
            "-",
        ),
        (
            "(export CUDA_MEMORY_FRACTION=0.4); text-generation-launcher --model-id m",
            "m",
            "0.5",
        ),
    ] {
        let lines = tgi(script);
        assert_eq!(lines.len(), 1, "{script}");
        let start = format!("tgi {model} {fraction} ");
        assert!(lines[0].starts_with(&start), "{script}: {lines:?}");
    }
}
