//! What is run on an input, and what to begin with.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use serde_json::json;
use vramgate::admission::review::Review;
use vramgate::engine::sglang;
use vramgate::engine::vllm::{options, parse};
use vramgate::engine::{self, LookUp, NoSources, Reading, Sources};
use vramgate::invocation::Word;
use vramgate::manifest;
use vramgate::workload::Workload;
use vramgate::workload::pod::Pod;

use crate::engine::Target;

struct Maps(BTreeMap<String, String>);

impl Sources for Maps {
    fn config_map(&self, _namespace: &str, name: &str) -> LookUp<'_> {
        if name == "files" {
            LookUp::Found(&self.0)
        } else {
            LookUp::Missing
        }
    }
}

/// A length by order of magnitude.
fn size(length: usize) -> u32 {
    usize::BITS - length.leading_zeros()
}

/// The shape of readings: what kinds of things came out, without the texts of the input.
fn shape_of(readings: &[Reading]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for reading in readings.iter().take(3) {
        reading.engine.hash(&mut hasher);
        format!("{:?} {:?}", reading.starts, reading.resolvable).hash(&mut hasher);
        format!("{:?}", reading.memory.source).hash(&mut hasher);
        reading.fraction_edit.is_some().hash(&mut hasher);
        reading.model.is_some().hash(&mut hasher);
        size(usize::try_from(reading.parallelism.devices).unwrap()).hash(&mut hasher);
        for finding in &reading.findings {
            finding.code.as_str().hash(&mut hasher);
        }
        for open in reading.unresolved.iter().take(4) {
            open.field.chars().take(24).collect::<String>().hash(&mut hasher);
            // The last words of a reason are ours.
            let end: String = open.reason.chars().rev().take(16).collect();
            end.hash(&mut hasher);
        }
    }
    readings.len().hash(&mut hasher);
    hasher.finish()
}

fn read(pod: &Pod, maps: &dyn Sources) -> u64 {
    let mut shape = 0_u64;
    for placed in engine::containers(pod) {
        let readings = engine::read(pod, placed, maps, &[]);
        assert!(!readings.is_empty(), "a container without a reading");
        // The same again: nothing is kept between two readings.
        for edit in readings
            .iter()
            .filter_map(|reading| reading.fraction_edit.as_ref())
        {
            assert!(edit.pointer.starts_with('/'), "{}", edit.pointer);
        }
        shape = shape.wrapping_mul(31).wrapping_add(shape_of(&readings));
    }
    shape
}

fn container(image: &str, command: &[String], args: &[String]) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "containers": [{
                "name": "c",
                "image": image,
                "command": command,
                "args": args,
                "env": [
                    {"name": "A", "value": "--max-num-seqs 8"},
                    {"name": "B", "value": "$(A) $(C)"},
                    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "volumeMounts": [{"name": "config", "mountPath": "/config"}],
            }],
            "volumes": [{"name": "config", "configMap": {"name": "files"}}],
        },
    }))
    .unwrap()
}

const IMAGES: [&str; 10] = [
    "vllm/vllm-openai:v0.11.0",
    "vllm/vllm-openai:latest",
    "vllm/vllm-openai:v0.8.5",
    "lmsysorg/sglang:v0.5.5",
    "ghcr.io/huggingface/text-generation-inference:3.0",
    "ghcr.io/huggingface/text-embeddings-inference:1.8",
    "ghcr.io/ggml-org/llama.cpp:server-cuda",
    "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
    "kserve/huggingfaceserver:latest",
    "python:3.12",
];

const OPTIONS: [&str; 40] = [
    "\n",
    "vllm\nserve\n",
    "serve\n",
    "--",
    "--gpu-memory-utilization",
    "--gpu_memory_utilization=",
    "=0.9",
    "\n0.5\n",
    "--tensor-parallel-size\n2",
    "-tp=",
    "--max-model-len\n",
    "4k",
    "--config\n/config/engine.yaml",
    "--speculative-config\n{\"method\": \"ngram\"}",
    "--compilation-config.level=3",
    "--compilation-config.a.b+=1,2",
    "-O3",
    "-O",
    "--model\n",
    "--served-model-name\na\nb",
    "--kv-cache-dtype\nfp8",
    "--no-enable-prefix-caching",
    "None",
    "1e-400",
    "nan",
    "1_000",
    "\u{FF15}",
    "$(A)",
    "$(S)",
    "$$(",
    "-h",
    "python3\n-m\nsglang.launch_server",
    "--mem-fraction-static\n0.8",
    "--model-id\n",
    "-ngl\n99",
    "env\nA=b",
    "exec\n",
    "--enforce-eager",
    "{\"a\":",
    "[[[[",
];

/// Words, one a line: first those of the release's own parsers, then those of a container.
pub(crate) fn argv() -> Target<'static> {
    let seeds = [
        "\0vllm\nserve\norg/model\n--gpu-memory-utilization\n0.9\n--tensor-parallel-size=2",
        "\u{1}--model\nm\n--max_model_len\n4k\n--speculative-config.model=x\n-O3",
        "\u{2}vllm\nserve\n--config\n/config/engine.yaml\n--enforce-eager",
        "\u{3}python3\n-m\nsglang.launch_server\n--model-path\nm\n--tp\n2\n--mem-fraction-static\n0.8",
        "\u{4}--model-id\nm\n--num-shard\n2\n--cuda-memory-fraction\n0.5",
        "\u{6}-m\n/models/x.gguf\n-ngl\n99\n-c\n4096",
        "\u{7}trtllm-serve\nserve\nm\n--extra_llm_api_options\n/config/engine.yaml",
        "\u{8}--model_id=m\n--max_model_len=4\n--backend=vllm",
    ];
    Target {
        name: "argv",
        seeds: seeds.map(|seed| seed.as_bytes().to_vec()).to_vec(),
        words: &OPTIONS,
        run: &|input| {
            let text = String::from_utf8_lossy(input);
            let first = usize::from(input.first().copied().unwrap_or_default());
            let mut texts = text.get(1..).unwrap_or_default().split('\n').map(str::to_owned);
            let file = |_: &str| Ok("gpu-memory-utilization: 0.5\nmodel: m\n");
            let all: Vec<String> = texts.by_ref().collect();
            let words: Vec<Word<'_>> = all.iter().map(|text| Word::literal(text)).collect();
            let mut hasher = DefaultHasher::new();
            for way in [options::Entrypoint::Serve, options::Entrypoint::ApiServer] {
                let from = usize::from(
                    way == options::Entrypoint::Serve && all.first().is_some_and(|w| w == "vllm"),
                );
                let position = first % options::releases().len();
                let parsed = parse::parse(position, way, &words[from..], &file);
                format!("{:?}", parsed.error.as_ref().map(std::mem::discriminant)).hash(&mut hasher);
                size(parsed.settings.len()).hash(&mut hasher);
                parsed.refused_by_config().len().hash(&mut hasher);
                for setting in parsed.settings.iter().take(6) {
                    setting.option.hash(&mut hasher);
                    format!("{:?}", std::mem::discriminant(&setting.value)).hash(&mut hasher);
                }
            }
            let position = first % sglang::options::releases().len();
            let parsed =
                sglang::parse::parse(position, sglang::options::Entrypoint::LaunchServer, &words, &file);
            format!("{:?}", parsed.error.as_ref().map(std::mem::discriminant)).hash(&mut hasher);
            size(parsed.settings.len()).hash(&mut hasher);
            // The container's own command is a half of them, or none.
            let cut = if first & 128 == 0 { 0 } else { all.len() / 2 };
            let (command, args) = all.split_at(cut);
            let files = BTreeMap::from([("engine.yaml".to_owned(), all.join("\n"))]);
            let pod = container(IMAGES[first % IMAGES.len()], command, args);
            read(&pod, &Maps(files)).hash(&mut hasher);
            hasher.finish()
        },
    }
}

const SHELL: [&str; 80] = [
    "\n",
    " ",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "(",
    ")",
    "{",
    "}",
    "if ",
    "; then ",
    "; else ",
    "; fi",
    "for i in ",
    "; do ",
    "; done",
    "while ",
    "case x in\n",
    ") ;;\n",
    "esac",
    "function f ",
    "f() { ",
    "f\n",
    "$(",
    "${A:-",
    "${A[@]}",
    "$A",
    "\"$@\"",
    "$1",
    "$((",
    "A+1))",
    "A=",
    "A+=",
    "A=(",
    "A+=(x)",
    "\"",
    "'",
    "`",
    "\\",
    "#",
    "cat <<EOF\n",
    "EOF\n",
    "<<-'E' ",
    "> /f ",
    ">> /f ",
    "2>&1 ",
    "<<< ",
    "eval ",
    "exec ",
    "sh -c ",
    "bash /config/start.sh ",
    "export ",
    "set -- ",
    "shift ",
    "sed -i 's/a/b/g' /f\n",
    "echo x | tee /f\n",
    "[ -n \"$A\" ] ",
    "${A#*=} ",
    "${A%%-*}",
    "${A//a/b}",
    "${A,,}",
    "$#",
    "((A++))\n",
    "((A < 3))\n",
    "for ((i = 0; i < 3; i++)); do ",
    "until ",
    "while [ $# -gt 0 ]; do ",
    "break\n",
    "continue\n",
    "case \"$1\" in\n",
    "--*|*=?) ",
    ";; ",
    "[[ $A == a* ]] && ",
    "$(seq 3)",
    "read A\n",
    "let A=A+1\n",
    "[ $X ] && ",
    "vllm serve m --gpu-memory-utilization 0.9 ",
];

/// A script: given to `sh -c`, and mounted as a file that it can call.
pub(crate) fn shell() -> Target<'static> {
    let seeds = [
        "exec vllm serve \"$MODEL\" --port ${PORT:-8000} $A 2>&1 | tee /log\n",
        "set -e\nif [ -n \"$A\" ]; then\n  ARGS=\"$A\"\nelse\n  ARGS=\nfi\nvllm serve m $ARGS\n",
        "cat <<EOF > /f.yaml\ngpu-memory-utilization: ${G:-0.4}\nEOF\nsed -i 's/0.4/0.5/' /f.yaml\nvllm serve m --config /f.yaml\n",
        "ARGS=(--max-num-seqs 4)\nARGS+=(--enforce-eager)\nexec python3 -m vllm.entrypoints.openai.api_server \"${ARGS[@]}\" \"$@\"\n",
        "run() { vllm serve \"$1\" --gpu-memory-utilization 0.$(( 2 + 3 )); }\nfor m in a b; do run $m & done\nwait\n",
        "case \"$A\" in\n  a) B=1 ;;\n  *) B=2 ;;\nesac\neval \"vllm serve m --max-num-seqs $B\"\n",
        "while [ $# -gt 0 ]; do case \"$1\" in\n--model=*) M=\"${1#*=}\"; shift;;\n--tp|-t) T=$2; shift 2;;\n*) break;;\nesac; done\nvllm serve \"$M\" \"$@\"\n",
        "for ((i = 0; i < 4; i++)); do [[ $i == 2 ]] && continue; A+=(--port $((8000 + i))); done\nvllm serve \"${M##*/}\" ${A[@]}\n",
        "I=0\nuntil [ $I -ge 3 ]; do I=$((I + 1)); [ $X ] && break; done\nfor j in $(seq $I) {1..3}; do vllm serve \"${Y//a/b}\" & done\n",
        "bash /config/start.sh a b\nsh -c 'sh -c \"vllm serve m\"'\n",
    ];
    Target {
        name: "shell",
        seeds: seeds.map(|seed| seed.as_bytes().to_vec()).to_vec(),
        words: &SHELL,
        run: &|input| {
            let text = String::from_utf8_lossy(input).into_owned();
            let files = BTreeMap::from([("start.sh".to_owned(), text.clone())]);
            let command = ["sh", "-c"].map(str::to_owned);
            let args = [text, "name".to_owned(), "one two".to_owned()];
            let maps = Maps(files);
            let first = read(&container(IMAGES[0], &command, &args), &maps);
            let command = ["bash", "/config/start.sh"].map(str::to_owned);
            first.wrapping_mul(31) ^ read(&container(IMAGES[1], &command, &args[1..]), &maps)
        },
    }
}

const JSON: [&str; 44] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "1",
    "-1",
    "1e999",
    "0.5",
    "\"\"",
    "\\u0000",
    "\n",
    "---\n",
    "\"kind\":\"Pod\"",
    "\"kind\":\"Deployment\"",
    "\"apiVersion\":\"v1\"",
    "\"apiVersion\":\"apps/v1\"",
    "\"spec\":{",
    "\"metadata\":{",
    "\"containers\":[{",
    "\"image\":\"vllm/vllm-openai:v0.11.0\"",
    "\"command\":[\"vllm\",\"serve\",\"m\"]",
    "\"args\":[\"--gpu-memory-utilization=0.5\"]",
    "\"env\":[{\"name\":\"A\",\"value\":\"$(B)\"}]",
    "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}",
    "\"nvidia.com/gpu.shared\":",
    "\"replicas\":2",
    "\"template\":{",
    "\"strategy\":{\"rollingUpdate\":{\"maxSurge\":\"25%\"}}",
    "\"nodeSelector\":{",
    "\"annotations\":{\"gpu-memory\":\"1000\"}",
    "\"resourceClaims\":[{",
    "\"ownerReferences\":[{",
    "apiVersion: v1\n",
    "kind: Pod\n",
    "  - ",
    "&a ",
    "*a",
    "<<: *a\n",
    "|\n  x\n",
];

/// An object: as an admission review, as JSON, and as a manifest.
pub(crate) fn pod() -> Target<'static> {
    static REVIEWS: [&[u8]; 2] = [
        include_bytes!("../../examples/reviews/chat-a.json"),
        include_bytes!("../../examples/reviews/chat-d.json"),
    ];
    static SEEDS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let seeds = SEEDS.get_or_init(|| {
        let pod = container(IMAGES[0], &[], &[]);
        assert_eq!(pod.spec.containers.len(), 1);
        let own = [
            &include_bytes!("../../examples/deployment.yaml")[..],
            &include_bytes!("../../examples/mistakes.yaml")[..],
            &include_bytes!("../../examples/pods.yaml")[..],
            br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"vllm/vllm-openai:v0.11.0","args":["--model=m","--gpu-memory-utilization=0.5"],"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}"#,
            br#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":2,"strategy":{"rollingUpdate":{"maxSurge":"25%"}},"template":{"spec":{"containers":[{"name":"c","image":"x","command":["sh","-c","vllm serve m"],"resources":{"requests":{"nvidia.com/gpu.shared":1}}}]}}}}"#,
            br#"{"metadata":{"name":"p","annotations":{"gpu-memory":"1000"}},"spec":{"initContainers":[{"name":"i","restartPolicy":"Always"}],"containers":[{"name":"c","env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],"envFrom":[{"configMapRef":{"name":"files"}}]}],"resourceClaims":[{"name":"g","resourceClaimTemplateName":"t"}]}}"#,
        ];
        REVIEWS.iter().copied().chain(own).map(<[u8]>::to_vec).collect()
    });
    Target {
        name: "pod",
        seeds: seeds.clone(),
        words: &JSON,
        run: &|input| {
            let mut hasher = DefaultHasher::new();
            match Review::decode(input) {
                Ok(mut review) => {
                    "review".hash(&mut hasher);
                    review.object_ref().name.is_empty().hash(&mut hasher);
                    format!("{:?}", review.workload_kind()).hash(&mut hasher);
                    match review.question(BTreeMap::new()) {
                        Ok(_) => "asked".hash(&mut hasher),
                        Err(malformed) => malformed.path.hash(&mut hasher),
                    }
                }
                Err(error) => format!("{:?}", std::mem::discriminant(&error)).hash(&mut hasher),
            }
            let text = String::from_utf8_lossy(input);
            match Workload::from_json(&text) {
                Ok(workload) => workload.is_some().hash(&mut hasher),
                Err(malformed) => malformed.path.hash(&mut hasher),
            }
            if let Ok(pod) = serde_json::from_str::<Pod>(&text) {
                read(&pod, &NoSources).hash(&mut hasher);
            }
            match manifest::objects(input, "input", manifest::Limits::INPUT) {
                Ok(objects) => {
                    size(objects.len()).hash(&mut hasher);
                    for object in objects.iter().take(8) {
                        object.kind().hash(&mut hasher);
                        if let Ok(pod) = serde_json::from_value::<Pod>(object.value.clone()) {
                            read(&pod, &NoSources).hash(&mut hasher);
                        }
                    }
                }
                Err(error) => {
                    let text = error.to_string();
                    let end: String = text.chars().rev().take(16).collect();
                    end.hash(&mut hasher);
                }
            }
            hasher.finish()
        },
    }
}
