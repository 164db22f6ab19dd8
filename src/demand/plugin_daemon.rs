//! VG602 for the device plugin's own flags and environment variables: a value that it refuses keeps every GPU of a node from
//! being offered.
//!
//! Source: `NVIDIA/k8s-device-plugin` v0.20.0, `cmd/nvidia-device-plugin/main.go` (flags, variables, `validateFlags`). Values
//! that come from elsewhere (`valueFrom`, `$(VAR)`) are not judged.

use crate::device::config::plugin::Word;
use crate::engine::{Image, Placed};
use crate::finding::{Code, FieldPath, Finding, short};

/// Last part of the image's repository.
const IMAGE: &str = "k8s-device-plugin";
/// The program, which is the image's entrypoint too. The image holds others, with other flags.
const PROGRAM: &str = "nvidia-device-plugin";

/// Flags and variables whose values are words.
const WORDS: [(&str, &str, Word); 5] = [
    ("mig-strategy", "MIG_STRATEGY", Word::MigStrategy),
    (
        "device-list-strategy",
        "DEVICE_LIST_STRATEGY",
        Word::DeviceListStrategy,
    ),
    ("device-id-strategy", "DEVICE_ID_STRATEGY", Word::DeviceIdStrategy),
    (
        "device-discovery-strategy",
        "DEVICE_DISCOVERY_STRATEGY",
        Word::DeviceDiscoveryStrategy,
    ),
    (
        "shared-devices-allocation-policy",
        "SHARED_DEVICES_ALLOCATION_POLICY",
        Word::SharedDevicesAllocationPolicy,
    ),
];

/// Flags and variables that are switches.
const SWITCHES: [(&str, &str); 6] = [
    ("fail-on-init-error", "FAIL_ON_INIT_ERROR"),
    ("pass-device-specs", "PASS_DEVICE_SPECS"),
    ("gdrcopy-enabled", "GDRCOPY_ENABLED"),
    ("gds-enabled", "GDS_ENABLED"),
    ("mofed-enabled", "MOFED_ENABLED"),
    ("imex-required", "IMEX_REQUIRED"),
];

/// What Go reads as a truth value (`strconv.ParseBool`).
const TRUTHS: [&str; 12] = [
    "1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False",
];

/// The findings of one container.
pub(super) fn findings(placed: Placed<'_>) -> Vec<Finding> {
    let container = placed.container;
    if Image::parse(&container.image).name() != IMAGE {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut tell = |path: FieldPath, what: &str, wrong: String| {
        let message = format!("container {}: {what} {wrong}", short(&container.name));
        findings.push(Finding::new(Code::Vg602, path, message));
    };
    for (index, variable) in container.env.iter().enumerate() {
        let Some(value) = variable.value.as_deref().filter(|value| is_literal(value)) else {
            continue;
        };
        let wrong = WORDS
            .iter()
            .find(|(_, name, _)| *name == variable.name)
            .and_then(|(_, _, word)| word_wrong(*word, value))
            .or_else(|| {
                SWITCHES
                    .iter()
                    .find(|(_, name)| *name == variable.name)
                    .and_then(|_| switch_wrong(value))
            });
        // An empty variable is one that is not set.
        if let Some(wrong) = wrong.filter(|_| !value.is_empty()) {
            let path = placed.path().field("env").index(index).field("value");
            tell(path, &variable.name, wrong);
        }
    }
    let command = container.command.as_deref().unwrap_or_default();
    let args = container.args.as_deref().unwrap_or_default();
    let starts = command
        .first()
        .is_none_or(|program| program.rsplit('/').next() == Some(PROGRAM));
    if !starts {
        return findings;
    }
    let rest = command.iter().enumerate().skip(1).map(|at| ("command", at));
    let words: Vec<(&str, usize, &str)> = rest
        .chain(args.iter().enumerate().map(|at| ("args", at)))
        .map(|(list, (index, word))| (list, index, word.as_str()))
        .collect();
    for (at, (list, index, word)) in words.iter().enumerate() {
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            continue;
        };
        let (name, written) = match flag.split_once('=') {
            Some((name, value)) => (name, Some((*list, *index, value))),
            None => (flag, None),
        };
        if let Some((_, _, word)) = WORDS.iter().find(|(known, _, _)| *known == name) {
            let value = written.or_else(|| words.get(at + 1).copied());
            if let Some((list, index, value)) = value.filter(|(_, _, value)| is_literal(value))
                && let Some(wrong) = word_wrong(*word, value)
            {
                tell(
                    placed.path().field(list).index(index),
                    &format!("--{name}"),
                    wrong,
                );
            }
        } else if SWITCHES.iter().any(|(known, _)| *known == name)
            && let Some((list, index, value)) = written.filter(|(_, _, value)| is_literal(value))
            && let Some(wrong) = switch_wrong(value)
        {
            tell(
                placed.path().field(list).index(index),
                &format!("--{name}"),
                wrong,
            );
        }
    }
    findings
}

fn is_literal(value: &str) -> bool {
    !value.contains("$(")
}

/// The list strategy takes several words, with commas between them.
fn word_wrong(word: Word, value: &str) -> Option<String> {
    if word == Word::DeviceListStrategy {
        return value.split(',').find_map(|part| word.wrong(part.trim()));
    }
    word.wrong(value)
}

fn switch_wrong(value: &str) -> Option<String> {
    (!TRUTHS.contains(&value)).then(|| {
        let shown = crate::finding::shortened(value, 40);
        format!("is {shown:?}, which the plugin refuses: write true or false")
    })
}
