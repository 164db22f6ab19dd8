//! What it costs to read a container: a typical vLLM pod, a long start script, and lines of 1 to 1,000 arguments.
//!
//! ```text
//! cargo bench --bench reading
//! ```
//!
//! One thread, an object that is decoded already. Each figure is the median of rounds; the fastest one stands beside it,
//! since what else the machine does only adds.
#![allow(
    clippy::print_stdout,
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    reason = "a bench prints, and its figures are measurements"
)]

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vramgate::engine::{self, Engine, NoSources, Reading};
use vramgate::workload::pod::Pod;

/// The binary's own allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rounds of one figure, after one to warm up.
const ROUNDS: usize = 15;
/// Time of one round.
const ROUND: Duration = Duration::from_millis(120);

const MICROSECONDS: f64 = 1e6;

fn pod(container: &Value) -> Result<Pod, serde_json::Error> {
    let mut container = container.clone();
    container["name"] = json!("server");
    container["resources"] = json!({"limits": {"nvidia.com/gpu": 2}});
    serde_json::from_value(json!({
        "metadata": {"name": "chat", "namespace": "assistant"},
        "spec": {"containers": [container]},
    }))
}

/// In the form of most manifests.
fn typical() -> Value {
    json!({
        "image": "vllm/vllm-openai:v0.11.0",
        "args": [
            "--model=Qwen/Qwen2.5-7B-Instruct", "--served-model-name=chat", "--port=8000",
            "--gpu-memory-utilization=0.45", "--max-model-len=8192", "--max-num-seqs", "64",
            "--tensor-parallel-size", "$(TP)", "--dtype=auto", "--enable-prefix-caching",
            "--enable-auto-tool-choice", "--tool-call-parser=hermes", "--trust-remote-code",
        ],
        "env": [
            {"name": "TP", "value": "2"},
            {"name": "HF_HOME", "value": "/cache"},
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
            {"name": "VLLM_LOGGING_LEVEL", "value": "INFO"},
        ],
    })
}

fn script() -> Value {
    json!({
        "image": "vllm/vllm-openai:v0.11.0",
        "command": ["/bin/bash", "-c"],
        "args": [include_str!("start.sh")],
    })
}

/// `count` arguments of a line that the release takes.
fn arguments(count: usize) -> Value {
    let options = [
        "--max-num-seqs=64",
        "--gpu-memory-utilization=0.45",
        "--max_model_len=8192",
        "--enable-prefix-caching",
        "--kv-cache-dtype=auto",
    ];
    let args: Vec<&str> = options.into_iter().cycle().take(count).collect();
    json!({"image": "vllm/vllm-openai:v0.11.0", "command": ["vllm", "serve", "m"], "args": args})
}

fn read(pod: &Pod) -> Option<Reading> {
    let placed = engine::containers(pod).next()?;
    engine::read(pod, placed, &NoSources, &[]).into_iter().next()
}

/// Microseconds of one reading: the median of the rounds and the fastest.
fn measure(container: &Value) -> Result<(f64, f64), Box<dyn Error>> {
    let pod = pod(container)?;
    let reading = read(&pod).ok_or("no reading")?;
    if reading.engine != Engine::Vllm {
        return Err(format!("read as {}: {:?}", reading.engine, reading.unresolved).into());
    }
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..=ROUNDS {
        let begin = Instant::now();
        let mut count = 0_u32;
        while begin.elapsed() < ROUND {
            black_box(read(black_box(&pod)));
            count += 1;
        }
        rounds.push(begin.elapsed().as_secs_f64() * MICROSECONDS / f64::from(count));
    }
    rounds.remove(0);
    rounds.sort_by(f64::total_cmp);
    Ok((rounds[ROUNDS / 2], rounds[0]))
}

fn main() -> Result<(), Box<dyn Error>> {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("Nothing measured: run `cargo bench --bench reading`.");
        return Ok(());
    }
    println!("| what is read | us, median | us, fastest | bar |\n| --- | --- | --- | --- |");
    let (median, fastest) = measure(&typical())?;
    println!("| a vLLM pod of 14 arguments | {median:.1} | {fastest:.1} | 20 |");
    let (median, fastest) = measure(&script())?;
    let lines = include_str!("start.sh").lines().count();
    println!("| a start script of {lines} lines | {median:.1} | {fastest:.1} | 300 |");
    println!("\n| arguments | us, median | us, fastest | ns for each |\n| --- | --- | --- | --- |");
    for count in [1, 3, 10, 30, 100, 300, 1000] {
        let (median, fastest) = measure(&arguments(count))?;
        println!(
            "| {count} | {median:.1} | {fastest:.1} | {:.0} |",
            fastest * 1000.0 / count as f64
        );
    }
    Ok(())
}
