//! Ways to start an engine, each with what is read from it, and with the edit of its fraction applied and read again.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vramgate::engine::{self, ImageRule, LookUp, NoSources, Reading, Sources};
use vramgate::workload::pod::Pod;

struct Maps(BTreeMap<String, BTreeMap<String, String>>);

impl Sources for Maps {
    fn config_map(&self, _namespace: &str, name: &str) -> LookUp<'_> {
        self.0.get(name).map_or(LookUp::Missing, LookUp::Found)
    }
}

fn maps() -> Maps {
    let settings = [
        ("fraction", "0.35"),
        ("tp", "2"),
        ("args", "--gpu-memory-utilization 0.25 --enforce-eager"),
    ];
    let files = [
        (
            "engine.yaml",
            "gpu-memory-utilization: 0.45\ntensor_parallel_size: 2\n",
        ),
        (
            "start.sh",
            "#!/bin/bash\nset -e\nexec vllm serve \"$1\" --gpu-memory-utilization 0.4\n",
        ),
    ];
    let own = |entries: &[(&str, &str)]| {
        entries
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    Maps(BTreeMap::from([
        ("settings".to_owned(), own(&settings)),
        ("files".to_owned(), own(&files)),
    ]))
}

fn pod(container: &Value) -> Pod {
    let mut container = container.clone();
    if container.get("resources").is_none() {
        container["resources"] = json!({"limits": {"nvidia.com/gpu": 1}});
    }
    container["name"] = json!("server");
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "config", "configMap": {"name": "files"}}],
        },
    }))
    .unwrap()
}

fn read_with(container: &Value, sources: &dyn Sources, rules: &[ImageRule]) -> Vec<Reading> {
    let pod = pod(container);
    let placed = engine::containers(&pod).next().unwrap();
    engine::read(&pod, placed, sources, rules)
}

fn read(container: &Value) -> Reading {
    let mut readings = read_with(container, &maps(), &[]);
    assert_eq!(readings.len(), 1, "{container}: {readings:#?}");
    readings.remove(0)
}

fn name<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

/// `engine model fraction source tp/pp/dp=devices starts codes`
fn line(reading: &Reading) -> String {
    let codes: Vec<&str> = reading
        .findings
        .iter()
        .map(|finding| finding.code.as_str())
        .collect();
    let p = reading.parallelism;
    format!(
        "{} {} {} {} {}/{}/{}={} {} {}",
        reading.engine,
        reading.model.as_deref().unwrap_or("-"),
        reading.memory.value.as_deref().unwrap_or("-"),
        name(&reading.memory.source),
        p.tensor,
        p.pipeline,
        p.data,
        p.devices,
        name(&reading.starts),
        codes.join(",")
    )
    .trim_end()
    .to_owned()
}

/// The container with the fraction that the reading's edit writes.
fn edited(container: &Value, reading: &Reading, fraction: &str) -> Option<Value> {
    let edit = reading.fraction_edit.as_ref()?;
    let mut container = container.clone();
    let value = json!(format!("{}{fraction}{}", edit.before, edit.after));
    if edit.add {
        let list = edit.pointer.strip_suffix("/-").unwrap();
        container
            .pointer_mut(list)
            .unwrap()
            .as_array_mut()
            .unwrap()
            .push(value);
    } else {
        *container.pointer_mut(&edit.pointer).unwrap() = value;
    }
    Some(container)
}

fn check(container: &Value, expected: &str) {
    let reading = read(container);
    assert_eq!(line(&reading), expected, "{container}\n{:#?}", reading.unresolved);
    let Some(changed) = edited(container, &reading, "0.123") else {
        return;
    };
    let again = read(&changed);
    assert_eq!(again.memory.value.as_deref(), Some("0.123"), "edited: {changed}");
    assert_eq!(name(&again.memory.source), "flag", "edited: {changed}");
    assert_eq!(again.model, reading.model, "edited: {changed}");
}

const IMAGE: &str = "vllm/vllm-openai:v0.11.0";

fn argv(command: &[&str], args: &[&str]) -> Value {
    let mut container = json!({"image": IMAGE});
    if !command.is_empty() {
        container["command"] = json!(command);
    }
    if !args.is_empty() {
        container["args"] = json!(args);
    }
    container
}

fn script(text: &str) -> Value {
    argv(&["/bin/sh", "-c"], &[text])
}

#[test]
fn argv_is_split_over_image_command_and_args() {
    check(
        &argv(&[], &["--model", "m", "--gpu-memory-utilization", "0.3"]),
        "vllm m 0.3 flag 1/1/1=1 yes",
    );
    check(
        &argv(&["vllm", "serve"], &["m", "--gpu-mem=.3", "-tp", "2"]),
        "vllm m .3 flag 2/1/1=2 unknown",
    );
    check(
        &argv(&["vllm", "serve", "m", "--gpu_memory_utilization", "0.3"], &[]),
        "vllm m 0.3 flag 1/1/1=1 yes",
    );
    check(
        &argv(
            &["python3", "-m", "vllm.entrypoints.openai.api_server"],
            &["--model=m"],
        ),
        "vllm m 0.9 default 1/1/1=1 yes",
    );
    check(
        &argv(&["/opt/venv/bin/vllm", "serve", "m"], &[]),
        "vllm m 0.9 default 1/1/1=1 yes",
    );
    check(
        &argv(&["tini", "--", "numactl", "-N", "0", "vllm", "serve", "m"], &[]),
        "vllm m 0.9 default 1/1/1=1 yes",
    );
    check(
        &argv(&["env", "A=b", "vllm"], &["serve", "m"]),
        "vllm m 0.9 default 1/1/1=1 yes",
    );
    // The last one wins.
    check(
        &argv(
            &["vllm", "serve"],
            &[
                "m",
                "--gpu-memory-utilization=0.9",
                "--gpu-memory-utilization",
                "0.2",
            ],
        ),
        "vllm m 0.2 flag 1/1/1=1 yes",
    );
}

#[test]
fn the_entrypoint_and_the_default_follow_the_tag() {
    for (image, args, expected) in [
        (
            "vllm/vllm-openai:v0.6.3.post1",
            &["--model=m"],
            "vllm m 0.9 default 1/1/1=1 yes",
        ),
        (
            "vllm/vllm-openai:v0.11.1",
            &["m"],
            "vllm m 0.9 default 1/1/1=1 yes",
        ),
        (
            "vllm/vllm-openai:v0.19.1-cu128",
            &["m"],
            "vllm m 0.9 default 1/1/1=1 yes",
        ),
        (
            "vllm/vllm-openai:v0.20.0-x86_64",
            &["m"],
            "vllm m 0.92 default 1/1/1=1 yes",
        ),
        (
            "vllm/vllm-openai:latest",
            &["--model=m"],
            "vllm m 0.92 default 1/1/1=1 yes VG109",
        ),
        (
            "vllm/vllm-openai",
            &["m"],
            "vllm m 0.92 default 1/1/1=1 yes VG109",
        ),
        (
            "vllm/vllm-openai@sha256:0000",
            &["m"],
            "vllm m 0.92 default 1/1/1=1 yes",
        ),
        (
            "registry:5000/mirror/vllm-openai:v0.11.0",
            &["--model=m"],
            "vllm m 0.9 default 1/1/1=1 yes",
        ),
    ] {
        check(&json!({"image": image, "args": args}), expected);
    }
    let reading = read(&json!({"image": "vllm/vllm-openai:latest", "args": ["m"]}));
    assert!(reading.findings[0].details[0].contains("0.92"), "{reading:#?}");
    // An unknown release is read as one that takes the line.
    let old =
        read(&json!({"image": "vllm/vllm-openai:latest", "args": ["--model", "m", "--swap-space", "4"]}));
    assert_eq!(line(&old), "vllm m 0.92 default 1/1/1=1 yes VG109");
}

#[test]
fn scripts_are_followed() {
    check(
        &script("vllm serve m --gpu-memory-utilization 0.3"),
        "vllm m 0.3 flag 1/1/1=1 yes",
    );
    check(
        &script("exec vllm serve m --gpu-memory-utilization=\"0.3\" --port 80"),
        "vllm m 0.3 flag 1/1/1=1 yes",
    );
    check(
        &script("pip install x && vllm serve m # --gpu-memory-utilization 0.1"),
        "vllm m 0.9 default 1/1/1=1 yes",
    );
    check(
        &script("set -eux; U=0.4\nvllm serve 'm' \\\n  --gpu-memory-utilization $U \\\n  --port 1\n"),
        "vllm m 0.4 flag 1/1/1=1 yes",
    );
    check(
        &script("export U=0.4; vllm serve m --gpu-memory-utilization ${X:-${U}}"),
        "vllm m 0.4 flag 1/1/1=1 yes",
    );
    check(
        &script("N=$((2 * (1 + 1)))\nvllm serve m -tp $N -pp $(( N / 4 ))"),
        "vllm m 0.9 default 4/1/1=4 unknown",
    );
    check(
        &script("ARGS=(--gpu-memory-utilization 0.3)\nARGS+=(--port 1)\nexec vllm serve m \"${ARGS[@]}\""),
        "vllm m 0.3 flag 1/1/1=1 yes",
    );
    check(
        &script("cat > /tmp/x <<EOF\nvllm serve no\nEOF\nvllm serve m > /log 2>&1"),
        "vllm m 0.9 default 1/1/1=1 yes",
    );
    check(
        &script("eval \"exec vllm serve m --gpu-memory-utilization 0.3 \\\n --port 1\""),
        "vllm m 0.3 flag 1/1/1=1 yes",
    );
    check(
        &script("CUDA_VISIBLE_DEVICES=0 vllm serve m | tee /log"),
        "vllm m 0.9 default 1/1/1=1 yes",
    );
    check(
        &argv(&["bash", "-euo", "pipefail", "-c", "vllm serve m"], &[]),
        "vllm m 0.9 default 1/1/1=1 yes",
    );
    check(
        &argv(&["bash", "-lc", "--"], &["vllm serve m"]),
        "vllm m 0.9 default 1/1/1=1 yes",
    );
    check(
        &script("if [ -d /m ]; then vllm serve m; fi"),
        "vllm m 0.9 default 1/1/1=1 unknown",
    );
    // What hangs on a question is not known.
    let asked = "nvidia-smi | grep -q H100 && U=0.9; vllm serve m --gpu-memory-utilization ${U:-0.3}";
    check(&script(asked), "vllm m - unresolved 1/1/1=1 yes");
    check(
        &script("timeout 1h bash -c 'vllm serve m'"),
        "vllm m 0.9 default 1/1/1=1 yes",
    );
}

#[test]
fn words_after_the_script_are_its_parameters() {
    let container = argv(
        &[
            "/bin/bash",
            "-c",
            "source x && exec vllm serve \"$0\" \"$@\"",
            "m",
        ],
        &["--gpu-memory-utilization", "0.3"],
    );
    check(&container, "vllm m 0.3 flag 1/1/1=1 yes");
    assert_eq!(
        read(&container).memory.path.as_str(),
        "spec.containers[0].args[1]"
    );
}

#[test]
fn parameters_are_shifted_by_as_many_as_it_says() {
    for (shift, expected) in [
        ("shift", "vllm a 0.9 default 1/1/1=1 yes"),
        ("shift 2", "vllm b 0.9 default 1/1/1=1 yes"),
        ("shift 0", "vllm x 0.9 default 1/1/1=1 yes"),
        // More than there are: nothing is shifted.
        ("shift 9", "vllm x 0.9 default 1/1/1=1 yes"),
        // Some are, or none.
        ("shift $N", "vllm - 0.9 default 1/1/1=1 yes"),
        // `$N` may be enough words for it.
        ("set -- a $N\nshift 3", "vllm - 0.9 default 1/1/1=1 yes"),
        ("set -- a $N\nshift 0", "vllm a 0.9 default 1/1/1=1 yes"),
        ("set -- a b $N\nshift 1", "vllm b 0.9 default 1/1/1=1 yes"),
    ] {
        let text = format!("{shift}\nvllm serve \"$1\"");
        check(&argv(&["sh", "-c"], &[&text, "name", "x", "a", "b"]), expected);
    }
}

#[test]
fn two_servers_in_one_script_are_two_readings() {
    let text =
        "vllm serve a --gpu-memory-utilization 0.3 &\nvllm serve b --gpu-memory-utilization 0.4 &\nwait";
    let readings = read_with(&script(text), &NoSources, &[]);
    assert_eq!(
        readings.iter().map(line).collect::<Vec<_>>(),
        ["vllm a 0.3 flag 1/1/1=1 yes", "vllm b 0.4 flag 1/1/1=1 yes"]
    );
}

#[test]
fn variables_come_from_the_container_and_from_config_maps() {
    let mut container = argv(
        &["vllm", "serve"],
        &["$(M)", "--gpu-memory-utilization=$(U)", "-tp=$(TP)"],
    );
    container["env"] = json!([
        {"name": "BASE", "value": "org"},
        {"name": "M", "value": "$(BASE)/m$$(BASE)"},
        {"name": "U", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "fraction"}}},
        {"name": "TP", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "tp"}}},
    ]);
    container["resources"] = json!({"limits": {"nvidia.com/gpu": "2"}});
    check(&container, "vllm org/m$(BASE) 0.35 flag 2/1/1=2 yes");

    let mut container = script("vllm serve m $args");
    container["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    check(&container, "vllm m 0.25 flag 1/1/1=1 yes");

    // A variable that is not set stays as it is written.
    check(
        &argv(&["vllm", "serve"], &["m", "--gpu-memory-utilization", "$(NONE)"]),
        "vllm m $(NONE) flag 1/1/1=1 no VG101",
    );
}

#[test]
fn what_cannot_be_read_is_unknown_and_says_why() {
    let secret = json!([{"name": "U", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "u"}}}]);
    let mut container = argv(&["vllm", "serve"], &["m", "--gpu-memory-utilization", "$(U)"]);
    container["env"] = secret.clone();
    check(&container, "vllm m - unresolved 1/1/1=1 yes");
    let reading = read(&container);
    assert!(reading.unresolved[0].decides_memory);
    assert_eq!(reading.unresolved[0].reason, "Secret team/keys is never read");
    assert_eq!(reading.memory.path.as_str(), "spec.containers[0].args[2]");

    let mut container = script("vllm serve m --gpu-memory-utilization $U");
    container["env"] = secret.clone();
    check(&container, "vllm m - unresolved 1/1/1=1 yes");
    // Any option may stand in it, so the default is not known to apply, but what comes after it is.
    let mut container = script("vllm serve m $U");
    container["env"] = secret.clone();
    assert_eq!(line(&read(&container)), "vllm m - unresolved 1/1/1=1 unknown");
    let mut container = script("vllm serve m $U --gpu-memory-utilization 0.3");
    container["env"] = secret;
    assert_eq!(line(&read(&container)), "vllm m 0.3 flag 1/1/1=1 unknown");

    let reading = read(&script("vllm serve m --gpu-memory-utilization $(cat /fraction)"));
    assert_eq!(line(&reading), "vllm m - unresolved 1/1/1=1 yes");
    assert!(
        reading.unresolved[0].reason.contains("$(cat /fraction)"),
        "{reading:#?}"
    );

    let container = argv(
        &["vllm", "serve"],
        &["m", "--tensor-parallel-size", "$(LWS_GROUP_SIZE)"],
    );
    assert!(read(&container).unresolved[0].reason.contains("LeaderWorkerSet"));

    for text in [
        "python3 /app/serve.py",
        "/start.sh",
        "case $X in a) exec vllm serve m",
    ] {
        let reading = read(&script(text));
        assert_eq!(line(&reading), "unknown - - unresolved 1/1/1=1 unknown", "{text}");
        assert!(reading.unresolved[0].decides_memory, "{text}");
    }
}

#[test]
fn a_config_file_is_read_from_its_config_map() {
    let mount = json!([{"name": "config", "mountPath": "/etc/engine"}]);
    let mut container = argv(
        &["vllm", "serve"],
        &["m", "--config", "/etc/engine/engine.yaml", "--port", "1"],
    );
    container["volumeMounts"] = mount.clone();
    check(&container, "vllm m 0.45 config-file 2/1/1=2 unknown");
    let pod = pod(&container);
    assert_eq!(
        engine::config_maps(&pod).into_iter().collect::<Vec<_>>(),
        ["files"]
    );
    // This spelling is never read by vLLM.
    let mut container = argv(&["vllm", "serve"], &["m", "--config=/etc/engine/engine.yaml"]);
    container["volumeMounts"] = mount;
    check(&container, "vllm m 0.9 default 1/1/1=1 yes");
    // A file from elsewhere is not known.
    let reading = read(&argv(
        &["vllm", "serve"],
        &["m", "--config", "/models/engine.yaml"],
    ));
    assert_eq!(line(&reading), "vllm m - unresolved 1/1/1=1 unknown");
}

#[test]
fn unusable_fractions_are_found() {
    for (text, starts) in [
        ("0,3", "no"),
        ("", "no"),
        ("abc", "no"),
        ("nan", "yes"),
        ("0", "yes"),
        ("1.5", "no"),
        ("1e309", "no"),
        ("90%", "no"),
    ] {
        let container = argv(&["vllm", "serve"], &["m", "--gpu-memory-utilization", text]);
        let reading = read(&container);
        assert_eq!(
            reading
                .findings
                .iter()
                .map(|f| f.code.as_str())
                .collect::<Vec<_>>(),
            ["VG101"],
            "{text}"
        );
        let finding = &reading.findings[0];
        assert_eq!(finding.path.as_str(), "spec.containers[0].args[2]");
        assert!(
            finding.message.contains(&format!("{text:?}")) && finding.message.len() < 256,
            "{}",
            finding.message
        );
        assert!(
            finding.message.contains("write a decimal fraction"),
            "{}",
            finding.message
        );
        assert_eq!(reading.memory.fraction, None);
        assert_eq!(reading.memory.value.as_deref(), Some(text));
        assert_eq!(name(&reading.starts), starts, "{text}");
        let changed = edited(&container, &reading, "0.3").unwrap();
        assert_eq!(line(&read(&changed)), "vllm m 0.3 flag 1/1/1=1 yes");
    }
    let reading = read(&argv(&["vllm", "serve"], &["m", "--gpu-memory-utilization"]));
    assert_eq!(reading.findings[0].code.as_str(), "VG101");
    assert!(reading.findings[0].message.contains("has no value"));
}

#[test]
fn variables_that_vllm_does_not_read_are_told_unless_a_policy_declares_them() {
    let mut container = argv(&[], &["--model", "m"]);
    container["env"] = json!([
        {"name": "GPU_MEMORY_UTILIZATION", "value": "0.30"},
        {"name": "MODEL_NAME", "value": "other"},
    ]);
    let reading = read(&container);
    assert_eq!(line(&reading), "vllm m 0.9 default 1/1/1=1 yes VG103,VG103");
    assert_eq!(reading.findings[0].path.as_str(), "spec.containers[0].env[0]");
    assert!(
        reading.findings[0].message.contains("the default 0.9"),
        "{}",
        reading.findings[0].message
    );
    assert!(reading.findings[1].message.contains("the model is m"));

    let rule = ImageRule {
        images: vec!["vllm/vllm-openai".to_owned()],
        variables: BTreeMap::from([
            (
                "GPU_MEMORY_UTILIZATION".to_owned(),
                "--gpu-memory-utilization".to_owned(),
            ),
            ("MODEL_NAME".to_owned(), "--model".to_owned()),
        ]),
        ..ImageRule::default()
    };
    let readings = read_with(&container, &NoSources, std::slice::from_ref(&rule));
    assert_eq!(line(&readings[0]), "vllm m 0.30 env 1/1/1=1 yes");
    assert_eq!(readings[0].memory.path.as_str(), "spec.containers[0].env[0]");
    // The command line wins.
    container["args"] = json!(["--model", "m", "--gpu-memory-utilization", "0.5"]);
    let readings = read_with(&container, &NoSources, &[rule]);
    assert_eq!(line(&readings[0]), "vllm m 0.5 flag 1/1/1=1 yes");
    // A variable that the command line uses has an effect.
    container["args"] = json!([
        "--model=$(MODEL_NAME)",
        "--gpu-memory-utilization=$(GPU_MEMORY_UTILIZATION)"
    ]);
    assert_eq!(line(&read(&container)), "vllm other 0.30 flag 1/1/1=1 yes");
}

#[test]
fn an_own_image_is_read_as_its_rule_says() {
    let rule = ImageRule {
        images: vec!["registry.example/team/*".to_owned()],
        engine: Some("vllm".to_owned()),
        version: Some("0.10.2".to_owned()),
        entrypoint: vec!["/start.sh".to_owned(), "vllm".to_owned(), "serve".to_owned()],
        variables: BTreeMap::new(),
    };
    let container = json!({"image": "registry.example/team/llm:7", "args": ["m"]});
    assert_eq!(line(&read(&container)), "unknown - - unresolved 1/1/1=1 unknown");
    let plain = ImageRule {
        entrypoint: vec!["vllm".to_owned(), "serve".to_owned()],
        ..rule.clone()
    };
    let readings = read_with(&container, &NoSources, &[plain]);
    assert_eq!(line(&readings[0]), "vllm m 0.9 default 1/1/1=1 yes");
    assert_eq!(readings[0].version.unwrap().to_string(), "0.10.2");
    let unsaid = ImageRule {
        entrypoint: Vec::new(),
        ..rule
    };
    assert_eq!(
        line(&read_with(&container, &NoSources, &[unsaid])[0]),
        "vllm m 0.9 default 1/1/1=1 yes"
    );
}

#[test]
fn a_split_item_leaves_variables_their_places() {
    let container = json!({
        "image": "sglang:0.5.10.post1-sagemaker",
        "env": [
            {"name": "SM_SGLANG_CHAT_TEMPLATE", "value": "--tp-size 2 --dp-size 1"},
            {"name": "SM_SGLANG_MEM_FRACTION_STATIC", "value": "0.5"},
        ],
    });
    let reading = read(&container);
    assert_eq!(reading.memory.value.as_deref(), Some("0.5"), "{reading:#?}");
    assert_eq!(name(&reading.memory.source), "env");
    assert_eq!(reading.memory.path.as_str(), "spec.containers[0].env[1]");
}

#[test]
fn a_misspelt_option_is_refused_and_spelt() {
    let codes = |args: &[&str]| -> Vec<String> {
        let reading = read(&argv(&[], args));
        let told = reading.findings.iter().map(|finding| {
            let meant = finding.message.rsplit(' ').next().unwrap_or_default();
            format!("{} {meant}", finding.code)
        });
        told.collect()
    };
    assert_eq!(
        codes(&["--model=m", "--max-model-length=4096"]),
        ["VG107 --max-model-len", "VG108 --max-model-len"]
    );
    // The parser names the first fault only.
    assert_eq!(
        codes(&[
            "--model=m",
            "--max-model-length=4096",
            "--gpu-memory-utilisation=0.3"
        ]),
        [
            "VG107 --max-model-len",
            "VG108 --max-model-len",
            "VG108 --gpu-memory-utilization"
        ]
    );
}

#[test]
fn options_that_a_server_refuses_together_do_not_start() {
    let reading = read(&argv(&[], &["--model=m", "--enable-auto-tool-choice"]));
    assert_eq!(name(&reading.starts), "no");
    assert_eq!(reading.findings[0].path.as_str(), "spec.containers[0].args[1]");
    let message = &reading.findings[0].message;
    assert!(
        message.ends_with("--enable-auto-tool-choice needs --tool-call-parser"),
        "{message}"
    );
}

#[test]
fn several_words_in_one_item_are_read_as_meant_and_do_not_start() {
    let container = argv(
        &[],
        &[
            "--model",
            "m",
            "--gpu-memory-utilization 0.3",
            "--max-model-len 4096",
        ],
    );
    let reading = read(&container);
    assert_eq!(line(&reading), "vllm m 0.3 flag 1/1/1=1 no VG104");
    assert_eq!(reading.findings[0].path.as_str(), "spec.containers[0].args[2]");
    let reading = read(&argv(&["vllm serve m --gpu-memory-utilization 0.3"], &[]));
    assert_eq!(line(&reading), "vllm m 0.3 flag 1/1/1=1 no VG104");
    // A value with spaces is one word.
    let reading = read(&argv(
        &[],
        &["--model=m", "--kv-transfer-config={\"kv_connector\": \"x\"}"],
    ));
    assert_eq!(line(&reading), "vllm m 0.9 default 1/1/1=1 yes");
}

#[test]
fn options_that_the_release_refuses_are_told() {
    for (args, part) in [
        (&["m", "--swap-spaces", "4"][..], "--swap-spaces"),
        (&["m", "--enforce-eager=true"], "takes no value"),
        (&["m", "--max", "4"], "prefix of several"),
        (&["m", "--dtype", "int3"], "is not one of its choices"),
        (&["--model", "m"], "refuses --model"),
    ] {
        let reading = read(&argv(&["vllm", "serve"], args));
        assert_eq!(name(&reading.starts), "no", "{args:?}");
        let finding = &reading.findings[0];
        assert_eq!(finding.code.as_str(), "VG107", "{args:?}");
        assert!(
            finding.message.contains(part) && finding.message.contains("0.11.0"),
            "{}",
            finding.message
        );
        assert!(
            finding.path.as_str().starts_with("spec.containers[0].args["),
            "{}",
            finding.path
        );
    }
    let newer = json!({"image": "vllm/vllm-openai:v0.30.0", "args": ["m", "--tensor-parallel-size", "0"]});
    assert_eq!(line(&read(&newer)), "vllm m 0.92 default 1/1/1=1 no VG107");
}

#[test]
fn clients_take_no_device() {
    for words in [
        &["vllm", "bench", "serve"][..],
        &["vllm", "chat"],
        &["vllm", "collect-env"],
        &["vllm", "launch", "render", "m"],
    ] {
        let reading = read(&argv(words, &[]));
        assert_eq!(reading.engine, engine::Engine::None, "{words:?}");
    }
    let batch = read(&argv(
        &["vllm", "run-batch"],
        &["-i", "x", "--model", "m", "--gpu-memory-utilization", "0.4"],
    ));
    assert_eq!(line(&batch), "vllm m 0.4 flag 1/1/1=1 yes");
    assert_eq!(batch.command.as_deref(), Some("run-batch"));
}

#[test]
fn devices_follow_the_parallel_sizes() {
    for (args, expected) in [
        (&["-tp", "2", "-pp", "2"][..], "2/2/1=4"),
        (&["-dp", "4"], "1/1/4=4"),
        (&["-dp", "4", "-dpl", "2"], "1/1/4=2"),
        (&["-dp", "4", "--data-parallel-rank", "1"], "1/1/4=1"),
        (&["-tp", "2", "-dp", "2"], "2/1/2=4"),
        (&["-dcp", "2", "-tp", "2"], "2/1/1=2"),
    ] {
        let mut container = argv(&["vllm", "serve", "m"], args);
        container["resources"] = json!({"limits": {"nvidia.com/gpu": 8}});
        let line = line(&read(&container));
        assert!(line.contains(expected), "{args:?}: {line}");
    }
    let container = json!({
        "image": "vllm/vllm-openai:v0.12.0",
        "args": ["m", "-tp", "8", "-pp", "2", "--nnodes", "2", "-pcp", "1"],
        "resources": {"limits": {"nvidia.com/gpu": 8}},
    });
    assert!(line(&read(&container)).contains("8/2/1=8"));
}

#[test]
fn other_engines_have_their_own_kinds() {
    for (container, expected) in [
        (
            json!({"image": "lmsysorg/sglang:v0.5.2", "command": ["python3", "-m", "sglang.launch_server"],
            "args": ["--model-path", "m", "--mem-fraction-static=0.4"]}),
            "sglang m 0.4 of-free",
        ),
        (
            json!({"image": "lmsysorg/sglang:v0.5.2", "command": ["sglang", "serve", "m"]}),
            "sglang m - of-free",
        ),
        (
            json!({"image": "ghcr.io/huggingface/text-generation-inference:3.0", "args": ["--model-id", "m"],
            "env": [{"name": "CUDA_MEMORY_FRACTION", "value": "0.5"}]}),
            "tgi m 0.5 until-left",
        ),
        (
            json!({"image": "ghcr.io/huggingface/text-embeddings-inference:1.8", "args": ["--model-id", "m"]}),
            "tei m - estimated",
        ),
        (
            json!({"image": "nvcr.io/nvidia/tritonserver:25.01-py3", "args": ["tritonserver", "--model-repository=/m"]}),
            "triton /m - unknown",
        ),
        (
            json!({"image": "x", "command": ["trtllm-serve", "m", "--free_gpu_memory_fraction", "0.7"]}),
            "trtllm m 0.7 of-free-after-weights",
        ),
        (
            json!({"image": "ghcr.io/ggml-org/llama.cpp:server-cuda", "args": ["-m", "m", "-ngl", "99", "-c", "4096"]}),
            "llama.cpp m - estimated",
        ),
        (
            json!({"image": "ghcr.io/ggml-org/llama.cpp:server-cuda", "args": ["-m", "m"]}),
            "llama.cpp m - uncapped",
        ),
        (json!({"image": "ollama/ollama:0.5"}), "ollama - - uncapped"),
        (
            json!({"image": "openmmlab/lmdeploy:v0.9", "command": ["lmdeploy", "serve", "api_server", "m"]}),
            "lmdeploy m 0.8 of-free-after-weights",
        ),
        (
            json!({"image": "nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.3"}),
            "nim meta/llama-3.1-8b-instruct - unknown",
        ),
        (
            json!({"image": "x", "command": ["torchrun", "train.py"]}),
            "pytorch - - uncapped",
        ),
        (json!({"image": "x", "command": ["sleep", "1d"]}), "none - - none"),
        (json!({"image": "x"}), "unknown - - unknown"),
        (json!({"image": "x", "resources": {}}), "none - - none"),
    ] {
        let reading = read(&container);
        let got = format!(
            "{} {} {} {}",
            reading.engine,
            reading.model.as_deref().unwrap_or("-"),
            reading.memory.value.as_deref().unwrap_or("-"),
            name(&reading.memory.kind)
        );
        assert_eq!(got, expected, "{container}");
    }
}

#[test]
fn a_script_of_a_config_map_is_followed() {
    for command in [
        &["/bin/bash", "/scripts/start.sh", "m"][..],
        &["/scripts/start.sh", "m"],
        &["sh", "-c", "/scripts/start.sh m"],
    ] {
        let mut container = argv(command, &[]);
        container["volumeMounts"] = json!([{"name": "config", "mountPath": "/scripts"}]);
        let reading = read(&container);
        assert_eq!(line(&reading), "vllm m 0.4 flag 1/1/1=1 yes", "{command:?}");
        assert_eq!(reading.fraction_edit, None, "{command:?}");
    }
}

#[test]
fn options_of_vllm_are_evident_without_a_known_image() {
    let reading =
        read(&json!({"image": "registry.example/llm:7", "args": ["m", "--gpu_memory_utilization=0.3"]}));
    assert_eq!(line(&reading), "vllm m 0.3 flag 1/1/1=1 unknown");
}

#[test]
fn text_that_doubles_itself_ends() {
    let mut container = argv(&["vllm", "serve"], &["m", "--served-model-name", "$(V60)"]);
    let mut env = vec![json!({"name": "V0", "value": "x".repeat(100)})];
    for n in 1..=60 {
        env.push(json!({"name": format!("V{n}"), "value": format!("$(V{0})$(V{0})", n - 1)}));
    }
    container["env"] = json!(env);
    assert_eq!(read(&container).model.as_deref(), Some("m"));

    let doubling = format!("A=xxxxxxxxxx\n{}vllm serve m $A", "A=$A$A\n".repeat(60));
    assert_eq!(
        read_with(&script(&doubling), &NoSources, &[])[0].engine.as_str(),
        "unknown"
    );
    let arrays = format!(
        "A=(x)\n{}vllm serve m \"${{A[@]}}\"",
        "A=(\"${A[@]}\" \"${A[@]}\")\n".repeat(60)
    );
    assert_eq!(
        read_with(&script(&arrays), &NoSources, &[])[0].engine.as_str(),
        "unknown"
    );
    let nested = format!("vllm serve m {}0.3{}", "${X:-".repeat(5000), "}".repeat(5000));
    read_with(&script(&nested), &NoSources, &[]);
    let evals = format!("X='{}'\n{}", "eval $X; ".repeat(200), "eval \"$X\"\n".repeat(200));
    read_with(&script(&evals), &NoSources, &[]);
    let shells = (0..40).fold("vllm serve m".to_owned(), |inner, _| {
        format!("sh -c {:?}", inner.replace('\\', ""))
    });
    read_with(&script(&shells), &NoSources, &[]);
    read_with(
        &script(&format!(
            "vllm serve m -tp $(({}1{}))",
            "(".repeat(9000),
            ")".repeat(9000)
        )),
        &NoSources,
        &[],
    );
}

mod any_input {
    use proptest::prelude::*;

    use super::*;

    const TOKENS: [&str; 44] = [
        "vllm",
        "serve",
        "m",
        "--gpu-memory-utilization",
        "=",
        "0.3",
        " ",
        "\n",
        ";",
        "&&",
        "||",
        "|",
        "&",
        "(",
        ")",
        "{",
        "}",
        "'",
        "\"",
        "\\",
        "$",
        "${",
        "$(",
        "$((",
        "`",
        "A",
        "A=",
        "A=(",
        "+=",
        "[@]",
        ":-",
        "<<EOF",
        "EOF",
        ">",
        "if",
        "fi",
        "case",
        "esac",
        "exec",
        "eval",
        "$@",
        "é",
        "--config",
        "-tp",
    ];

    proptest! {
        #[test]
        fn scripts_never_panic(tokens in prop::collection::vec(prop::sample::select(&TOKENS[..]), 0..40)) {
            let container = argv(&["bash", "-c", &tokens.concat()], &["a", "b c"]);
            let readings = read_with(&container, &maps(), &[]);
            prop_assert!(!readings.is_empty());
        }

        #[test]
        fn arguments_never_panic(args in prop::collection::vec("[-=._a-zé0-9 $(){}]{0,12}|--gpu-memory-utilization(=.{0,4})?", 0..8)) {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            for image in ["vllm/vllm-openai:v0.6.3", "vllm/vllm-openai:latest", "vllm/vllm-openai:v0.33.0"] {
                let readings = read_with(&json!({"image": image, "args": args}), &maps(), &[]);
                prop_assert_eq!(readings.len(), 1);
            }
        }

        /// What the edit writes is what is read afterwards, wherever the fraction stands.
        #[test]
        fn an_edit_takes_effect(
            before in prop::collection::vec(prop::sample::select(&["--port=1", "--enforce-eager", "--dtype=half"][..]), 0..3),
            flag in prop::sample::select(&["", "--gpu-mem 0.4", "--gpu_memory_utilization=\"0.4\"", "--gpu-memory-utilization $U"][..]),
            shell in any::<bool>(),
        ) {
            let words = before.join(" ");
            let container = if shell {
                script(&format!("U=0.4 && exec vllm serve m {words} {flag} --seed 1 > /log # end"))
            } else {
                let line = format!("m {words} {}", flag.replace(['"'], "").replace("$U", "0.4"));
                argv(&["vllm", "serve"], &line.split_whitespace().collect::<Vec<_>>())
            };
            let reading = read(&container);
            let changed = edited(&container, &reading, "0.21").unwrap();
            let again = read(&changed);
            prop_assert_eq!(again.memory.value.as_deref(), Some("0.21"), "{}", changed);
            prop_assert_eq!(again.starts, engine::Starts::Yes);
        }
    }
}

#[test]
fn parameters_behind_any_number_of_words_are_not_known() {
    let container = argv(
        &["sh", "-c", "shift $N; vllm serve m --max-num-seqs \"$3\""],
        &["name", "x", "a", "b"],
    );
    let reading = read(&container);
    assert_eq!(reading.unresolved.len(), 1, "{reading:#?}");
}
