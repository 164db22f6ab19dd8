//! The loop of a fuzz target: takes an input from what was kept, changes it, runs it, keeps it where it is read in a new
//! way.
//!
//! There is no coverage to go by on stable Rust. What stands in for it is the *shape* of the result (kinds of errors,
//! numbers of words by order of magnitude, reasons), which each target gives as a number.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An input that takes longer is kept for a look; a debug build on a busy machine takes seconds for a MiB.
const WORTH_A_LOOK: Duration = Duration::from_secs(10);
/// Bytes of the longest input.
const LONGEST: usize = 1 << 20;
/// Most inputs are kept below this, since short ones find as much in less time.
const USUAL: usize = 4 << 10;
/// Inputs that are kept.
const MOST_KEPT: usize = 4096;
/// What one run may hold at once, and allocate in all: the budget of a script times what a token of one byte costs.
const MOST_HELD: u64 = 1 << 30;
const MOST_ALLOCATED: u64 = 4 << 30;
/// No run takes so long, not even on a machine that is busy with other things.
const LONGEST_RUN: Duration = Duration::from_mins(5);

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    /// A part of `0..length`, short ones more often.
    fn part(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let most = (length - start).min(1 << self.below(12));
        start..start + self.below(most + 1)
    }
}

/// One target.
pub(crate) struct Target<'t> {
    pub(crate) name: &'t str,
    /// Inputs to begin with.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// Words that mean something to what is read.
    pub(crate) words: &'t [&'t str],
    /// Runs one input; the shape of its result.
    pub(crate) run: &'t dyn Fn(&[u8]) -> u64,
}

fn change(random: &mut Random, kept: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut input = kept[random.below(kept.len())].clone();
    for _ in 0..=random.below(6) {
        let part = random.part(input.len());
        match random.below(9) {
            0 | 1 => {
                let word = words[random.below(words.len())].as_bytes();
                input.splice(part.start..part.start, word.iter().copied());
            }
            2 => {
                let word = words[random.below(words.len())].as_bytes();
                input.splice(part, word.iter().copied());
            }
            3 => {
                input.drain(part);
            }
            4 => {
                let most = if random.below(50) == 0 { 16 } else { 5 };
                let times = 1 << random.below(most);
                let unit = input[part.clone()].to_vec();
                let times = times.min(LONGEST / unit.len().max(1));
                input.splice(part.end..part.end, unit.repeat(times));
            }
            5 => {
                let other = &kept[random.below(kept.len())];
                let from = random.part(other.len());
                input.splice(part, other[from].iter().copied());
            }
            6 => {
                if let Some(byte) = input.get_mut(part.start) {
                    *byte ^= 1 << random.below(8);
                }
            }
            7 => {
                let byte = b"\"'`$(){}<>|&;\\ \n\t#=:-,[]/*?!0a\0\xff"[random.below(32)];
                input.insert(part.start, byte);
            }
            _ => {
                let moved: Vec<u8> = input.drain(part).collect();
                let at = random.below(input.len() + 1);
                input.splice(at..at, moved);
            }
        }
    }
    input.truncate(LONGEST);
    input
}

/// Where an input is written that ends a campaign.
fn keep(name: &str, input: &[u8]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let path = folder.join(format!("{name}-{}", input.len()));
    if std::fs::create_dir_all(&folder).is_err() || std::fs::write(&path, input).is_err() {
        println!("fuzz {name}: the input cannot be written to {}", path.display());
    }
    path
}

/// When the run at hand began, and its input.
type Running = Arc<Mutex<Option<(Instant, Vec<u8>)>>>;

/// Ends the process where one run does not end.
fn watch(name: String, running: Running) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let running = running.lock().unwrap();
            if let Some((begin, input)) = &*running
                && begin.elapsed() > LONGEST_RUN
            {
                let path = keep(&name, input);
                println!("fuzz {name}: not read within {LONGEST_RUN:?}: {}", path.display());
                std::process::exit(101);
            }
            if running.is_none() {
                return;
            }
        }
    });
}

/// Runs a target for `VRAMGATE_FUZZ_SECONDS` (5) from `VRAMGATE_FUZZ_SEED` (the clock).
pub(crate) fn campaign(target: &Target<'_>) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seconds = number("VRAMGATE_FUZZ_SECONDS").unwrap_or(5);
    let seed = number("VRAMGATE_FUZZ_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap().as_secs()
    });
    println!("fuzz {}: VRAMGATE_FUZZ_SEED={seed} for {seconds} s", target.name);
    let mut random = Random::new(seed);
    let mut kept = target.seeds.clone();
    let mut shapes: HashSet<u64> = HashSet::new();
    let running: Running = Arc::new(Mutex::new(Some((Instant::now(), Vec::new()))));
    watch(target.name.to_owned(), Arc::clone(&running));
    let begin = Instant::now();
    let mut last_line = begin;
    let (mut runs, mut held, mut allocated) = (0_u64, 0, 0);
    let mut slowest = (Duration::ZERO, Vec::new());
    while begin.elapsed() < Duration::from_secs(seconds) {
        let input = match usize::try_from(runs).ok().and_then(|run| target.seeds.get(run)) {
            Some(seed) => seed.clone(),
            None => change(&mut random, &kept, target.words),
        };
        let started = Instant::now();
        *running.lock().unwrap() = Some((started, input.clone()));
        let mut shape = None;
        let costs = allocation_counter::measure(|| {
            shape = catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).ok();
        });
        let took = started.elapsed();
        if took > slowest.0 {
            slowest = (took, input.clone());
        }
        held = held.max(costs.bytes_max);
        allocated = allocated.max(costs.bytes_total);
        runs += 1;
        let fault = match shape {
            None => Some("it panics".to_owned()),
            Some(_) if costs.bytes_max > MOST_HELD => Some(format!("it holds {} bytes", costs.bytes_max)),
            Some(_) if costs.bytes_total > MOST_ALLOCATED => {
                Some(format!("it allocates {} bytes", costs.bytes_total))
            }
            Some(shape) => {
                if shapes.insert(shape) && input.len() <= USUAL {
                    if kept.len() < MOST_KEPT {
                        kept.push(input.clone());
                    } else {
                        let at = random.below(MOST_KEPT);
                        kept[at].clone_from(&input);
                    }
                }
                None
            }
        };
        if let Some(fault) = fault {
            let path = keep(target.name, &input);
            panic!(
                "fuzz {}: {fault}: {} (seed {seed}, run {runs})",
                target.name,
                path.display()
            );
        }
        if last_line.elapsed() > Duration::from_mins(1) {
            last_line = Instant::now();
            println!("fuzz {}: {runs} runs, {} shapes", target.name, shapes.len());
        }
    }
    *running.lock().unwrap() = None;
    println!(
        "fuzz {}: {runs} runs, {} shapes, {} inputs kept; at most {} KiB held, {} KiB allocated, {} ms (for {} bytes)",
        target.name,
        shapes.len(),
        kept.len(),
        held >> 10,
        allocated >> 10,
        slowest.0.as_millis(),
        slowest.1.len(),
    );
    // Work is bounded in bytes, which nothing disturbs; time is for a reader to judge.
    if slowest.0 > WORTH_A_LOOK {
        println!(
            "fuzz {}: the slowest input: {}",
            target.name,
            keep(target.name, &slowest.1).display()
        );
    }
    assert!(runs > 0, "fuzz {}: nothing was run", target.name);
}
