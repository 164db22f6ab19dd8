//! Names of models, as they stand on command lines, in logs and in the notes of people, and what is found for each.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

use proptest::prelude::*;
use vramgate::model::name::{Found, Reason, find};
use vramgate::model::{Catalogue, Format};

const KNOWN: &str = include_str!("models/known.tsv");
const UNKNOWN: &str = include_str!("models/unknown.tsv");

fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
}

#[test]
fn known_names_lead_to_their_entries() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for row in rows(KNOWN) {
        let [text, id, format, way, certain, positions] = row[..] else {
            panic!("{row:?}");
        };
        count += 1;
        let found = match find(Catalogue::embedded(), text) {
            Found::Known {
                model,
                format,
                positions,
                how,
            } => {
                assert!(!how.to_string().is_empty());
                assert!(how.to_string().contains(&how.name));
                [
                    model.id.clone(),
                    format.map_or("-", Format::as_str).to_owned(),
                    format!("{:?}", how.way),
                    (if how.is_certain() { "certain" } else { "likely" }).to_owned(),
                    positions.to_string(),
                ]
            }
            unknown @ Found::Unknown { .. } => {
                wrong.push(format!("{text}: {unknown:?}"));
                continue;
            }
        };
        if found != [id, format, way, certain, positions] {
            wrong.push(format!("{text}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 150, "{count}");
}

#[test]
fn unknown_names_have_a_reason_and_the_nearest_names() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for row in rows(UNKNOWN) {
        let (text, reason) = (row[0], row[1]);
        let expected = row.get(2).copied().unwrap_or_default();
        count += 1;
        match find(Catalogue::embedded(), text) {
            Found::Unknown {
                reason: found,
                nearest,
            } => {
                if (format!("{found:?}").as_str(), nearest.join(" ").as_str()) != (reason, expected) {
                    wrong.push(format!("{text}: {found:?} {nearest:?}"));
                }
                for name in nearest {
                    let known = find(Catalogue::embedded(), &name);
                    assert!(
                        matches!(known, Found::Known { .. }),
                        "{name} is told and not known"
                    );
                }
            }
            known @ Found::Known { .. } => wrong.push(format!("{text}: {known:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 60, "{count}");
}

#[test]
fn ways_are_told_in_words() {
    for (text, words) in [
        ("llama-3.1-8b", "by the id llama-3.1-8b"),
        ("qwen/qwen3-8b", "by the published name Qwen/Qwen3-8B"),
        (
            "unsloth/Llama-3.1-8B-Instruct",
            "as a copy of meta-llama/Llama-3.1-8B-Instruct, setting aside unsloth/",
        ),
        (
            "Llama-3.1-8B-Instruct",
            "by the name of meta-llama/Llama-3.1-8B-Instruct",
        ),
        (
            "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
            "by the conventions of names, as meta-llama/Llama-3.3-70B-Instruct, setting aside redhatai/, fp8, dynamic",
        ),
        (
            "Phi-4-mini fine-tune",
            "by the conventions of names, as phi-4-mini, setting aside fine, tune, from a description",
        ),
        (
            "Llama-3.1-8B-Instruct-lora",
            "by the conventions of names, as meta-llama/Llama-3.1-8B-Instruct, setting aside lora, of which this may be an \
             adapter",
        ),
        (
            "/models/Qwen3-8B",
            "by the name of Qwen/Qwen3-8B, by the last part of a path",
        ),
        (
            "DeepSeek-V3/R1",
            "as deepseek-v3, which has both names, setting aside deepseek-v3/",
        ),
        (
            "MiniMax-M2.x",
            "as minimax-m2, whose releases known have one shape",
        ),
        (
            "Qwen 27B class",
            "by family and size, as qwen3.5-27b and all releases known have one shape, setting aside class, from a \
             description",
        ),
    ] {
        match find(Catalogue::embedded(), text) {
            Found::Known { how, .. } => assert_eq!(how.to_string(), words),
            unknown @ Found::Unknown { .. } => panic!("{text}: {unknown:?}"),
        }
    }
}

#[test]
fn hostile_texts_are_unknown() {
    let long = "llama-3.1-8b".repeat(1000);
    let separators = "-".repeat(200);
    let underscores = "_".repeat(199);
    let words = "a-".repeat(100);
    let marks = "q4_".repeat(66);
    for (text, reason) in [
        ("", Reason::Empty),
        (" \t\n", Reason::Empty),
        (long.as_str(), Reason::TooLong),
        (separators.as_str(), Reason::NotKnown),
        (underscores.as_str(), Reason::NotKnown),
        (words.as_str(), Reason::NotKnown),
        (marks.as_str(), Reason::NotKnown),
        ("Qwen/Qwen3-8B\0", Reason::Control),
        ("Qwen/Qwen3\n-8B", Reason::Control),
        ("\u{1b}[31mQwen3-8B", Reason::Control),
    ] {
        match find(Catalogue::embedded(), text) {
            Found::Unknown { reason: found, .. } => assert_eq!(found, reason, "{text:?}"),
            known @ Found::Known { .. } => panic!("{text:?}: {known:?}"),
        }
    }
}

#[test]
fn no_entry_of_another_size_or_family_is_guessed() {
    let catalogue = Catalogue::embedded();
    for model in catalogue.iter() {
        for word in ["omni", "vl2", "math2", "distilled", "9999b", "merged", "x"] {
            let text = format!("{}-{word}", model.id);
            assert!(
                matches!(find(catalogue, &text), Found::Unknown { .. }),
                "{text} was found: {:?}",
                find(catalogue, &text)
            );
        }
    }
}

#[test]
fn another_size_is_another_model() {
    let catalogue = Catalogue::embedded();
    let is_size = |word: &str| {
        word.strip_suffix('b').is_some_and(|size| {
            !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    };
    let mut tried = 0;
    for model in catalogue.iter() {
        let words: Vec<&str> = model.id.split('-').collect();
        let Some(at) = words.iter().position(|word| is_size(word)) else {
            continue;
        };
        for size in [
            "0.5b", "1b", "3b", "7b", "8b", "9b", "14b", "27b", "30b", "32b", "70b", "72b", "120b",
        ] {
            if words[at] == size {
                continue;
            }
            let mut other = words.clone();
            other[at] = size;
            tried += 1;
            if let Found::Known {
                model: found, how, ..
            } = find(catalogue, &other.join("-"))
            {
                assert!(
                    found.id.split('-').any(|word| word == size),
                    "{} is {} {how}",
                    other.join("-"),
                    found.id
                );
            }
        }
    }
    assert!(tried > 1000, "{tried}");
}

proptest! {
    #[test]
    fn any_text_has_an_answer(text in ".{0,300}") {
        let found = find(Catalogue::embedded(), &text);
        if let Found::Unknown { nearest, .. } = found {
            prop_assert!(nearest.len() <= 6);
        }
    }

    #[test]
    fn texts_like_names_have_an_answer(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "Qwen", "llama", "3.1", "8B", "7b", "Instruct", "AWQ", "q4_k_m", "_", "/", "-", " ", ".gguf", ".x", "bit",
                "4", "5", "fp8", "models--", "--", "class", "(", ")", "é", "2507", "v0.3", "meta", "@", ":", "//", "auto",
                "round",
            ]),
            0..24,
        )
    ) {
        let text = words.concat();
        if let Found::Known { model, positions, how, .. } = find(Catalogue::embedded(), &text) {
            prop_assert!(positions > 0);
            prop_assert!(!how.name.is_empty() && !model.id.is_empty());
        }
        // What is found does not hang on upper or lower case.
        let same = |found: Found<'static>| match found {
            Found::Known { model, format, positions, .. } => Some((model.id.as_str(), format, positions)),
            Found::Unknown { .. } => None,
        };
        prop_assert_eq!(
            same(find(Catalogue::embedded(), &text)),
            same(find(Catalogue::embedded(), &text.to_ascii_lowercase()))
        );
    }
}

/// `cargo test --release --test model_names -- --ignored --nocapture`: what a look-up takes.
#[test]
#[ignore = "a measurement"]
fn look_ups_take_microseconds() {
    let start = std::time::Instant::now();
    let catalogue = Catalogue::embedded();
    println!("{:?} to read the catalogue", start.elapsed());
    let fine_tune = format!("acme/Llama-3.1-8B-{}", "word-".repeat(36));
    for text in [
        "meta-llama/Llama-3.1-8B-Instruct",
        "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
        "Qwen3.6-27B AutoRound INT4",
        "/models/Qwen2.5-7B-Instruct-AWQ",
        "acme/Llama-3.1-8B-Instruct-finance",
        "acme/my-own-model",
        "qwen-3-80b",
        fine_tune.as_str(),
        &"x".repeat(10_000),
    ] {
        let start = std::time::Instant::now();
        for _ in 0..10_000 {
            std::hint::black_box(find(catalogue, std::hint::black_box(text)));
        }
        println!("{:?} for {:.60}", start.elapsed() / 10_000, text);
    }
}

#[test]
fn a_repository_names_its_publisher_and_a_path_does_not() {
    use vramgate::model::name::publisher;
    for (text, by) in [
        ("unsloth/Qwen3.8-27B-NVFP4", Some("unsloth")),
        (" nvidia/Llama-3.1-8B-Instruct-FP8 ", Some("nvidia")),
        ("Qwen3-8B", None),
        ("/Qwen3-8B", None),
        ("./Qwen3-8B", None),
        ("models/Qwen3-8B", None),
        ("a/b/c", None),
        ("$(PUBLISHER)/Qwen3-8B", None),
        ("https://huggingface.co/Qwen/Qwen3-8B", None),
        ("", None),
    ] {
        assert_eq!(publisher(text), by, "{text:?}");
    }
}
