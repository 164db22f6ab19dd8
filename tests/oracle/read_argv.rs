//! Reads command lines of vLLM or SGLang from the standard input as vramgate does, and prints what it makes of them: the other
//! side of `release.py`.
//!
//! Each line is an object `{"engine", "release", "argv", "files", "names"}`; each answer is `{"error", "values"}`, the values of
//! the options in `names` as `{"set", "text", "int", "flag", "all"}`.
#![allow(clippy::print_stdout, reason = "a program of the tests")]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::BufRead;

use serde::Deserialize;
use serde_json::{Value, json};
use vramgate::engine::Version;
use vramgate::engine::argparse::value::Value as Read;
use vramgate::engine::argparse::{ParseError, Parsed};
use vramgate::engine::{sglang, vllm};
use vramgate::invocation::Word;

#[derive(Deserialize)]
struct Line {
    engine: String,
    release: String,
    argv: Vec<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    names: Vec<String>,
}

fn error_name(error: &ParseError) -> &'static str {
    match error {
        ParseError::Ambiguous(_) => "ambiguous-option",
        ParseError::Unrecognized(_) => "unrecognized-arguments",
        ParseError::InvalidValue { .. } | ParseError::FlagTakesNoValue(_) => "invalid-value",
        ParseError::MissingValue(_) => "missing-value",
        ParseError::MissingModel(_) => "missing-model",
        ParseError::Other(_) => "other",
    }
}

/// What `name` is: set to what, or its default.
fn value_of(parsed: &Parsed<'_>, name: &str) -> Value {
    let Some(last) = parsed.last(name) else {
        return json!({"set": false, "text": parsed.default(name)});
    };
    let all = parsed
        .settings
        .iter()
        .filter(|setting| setting.option == last.option && setting.order == last.order);
    let int = match last.value {
        Read::Int(int) => Some(int.to_string()),
        _ => None,
    };
    json!({
        "set": true,
        "text": parsed.text(name),
        "int": int,
        "flag": (last.value == Read::Flag).then_some(!last.negated),
        "unset": last.value == Read::Unset,
        "all": all.map(|setting| &*setting.text).collect::<Vec<_>>(),
    })
}

fn answer(line: &Line) -> Result<Value, Box<dyn Error>> {
    let release = Version::parse(&line.release).ok_or("release: not a version")?;
    let releases = match &*line.engine {
        "vllm" => vllm::options::releases(),
        "sglang" => sglang::options::releases(),
        other => return Err(format!("engine: {other} is neither vllm nor sglang").into()),
    };
    let position = releases
        .iter()
        .position(|known| *known == release)
        .ok_or_else(|| format!("release: {release} has no options of its own here; see options.tsv"))?;
    let words: Vec<Word<'_>> = line.argv.iter().map(|text| Word::literal(text)).collect();
    let file = |path: &str| {
        let text = line.files.get(path);
        text.map(String::as_str)
            .ok_or_else(|| "there is no such file".to_owned())
    };
    if line.engine == "sglang" {
        let parsed = sglang::parse::parse(position, sglang::options::Entrypoint::LaunchServer, &words, &file);
        let mut answer = told(line, &parsed);
        // The table has one name for all releases, which the release may have as an alias.
        for name in &line.names {
            if let Some(option) = sglang::options::option(position, name)
                && let Some(value) = answer.pointer_mut(&format!("/values/{name}"))
            {
                *value = value_of(&parsed, option.name);
            }
        }
        return Ok(answer);
    }
    let parsed = vllm::parse::parse(position, vllm::options::Entrypoint::Serve, &words, &file);
    if let Some(why) = parsed.refused_together() {
        return Ok(json!({"error": "after", "message": why}));
    }
    let mut answer = told(line, &parsed);
    if let Some(model) = answer.pointer_mut("/values/--model") {
        *model = json!({"set": true, "text": parsed.model()});
    }
    Ok(answer)
}

fn told(line: &Line, parsed: &Parsed<'_>) -> Value {
    if let Some(error) = &parsed.error {
        return json!({"error": error_name(error), "message": format!("{error:?}")});
    }
    let values = line
        .names
        .iter()
        .map(|name| (name.clone(), value_of(parsed, name)));
    json!({"error": null, "values": values.collect::<serde_json::Map<_, _>>()})
}

fn main() -> Result<(), Box<dyn Error>> {
    for line in std::io::stdin().lock().lines() {
        println!("{}", answer(&serde_json::from_str(&line?)?)?);
    }
    Ok(())
}
