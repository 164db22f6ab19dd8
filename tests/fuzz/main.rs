//! Fuzz targets that run on stable Rust: command lines, scripts, and objects as they come from the API server or a file.
//!
//! As a test each runs for five seconds from a seed that it prints; `tests/long/run fuzz` runs them longer. An input that
//! ends in a panic, holds or allocates too much, or does not end is written to `target/tmp/fuzz`; `VRAMGATE_FUZZ_INPUT`
//! names a file to run again.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

mod engine;
mod targets;

use engine::{Target, campaign};

fn run(target: &Target<'_>) {
    if let Some(path) = std::env::var_os("VRAMGATE_FUZZ_INPUT") {
        let input = std::fs::read(&path).unwrap();
        println!("fuzz {}: shape {}", target.name, (target.run)(&input));
        return;
    }
    campaign(target);
}

#[test]
fn argv() {
    run(&targets::argv());
}

#[test]
fn shell() {
    run(&targets::shell());
}

#[test]
fn pod() {
    run(&targets::pod());
}
