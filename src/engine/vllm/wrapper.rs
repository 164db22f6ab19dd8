//! Programs of other projects that start vLLM with options of their own: what they read, and what they add.

use std::borrow::Cow;

use super::Start;
use super::options::{self, Entrypoint};
use crate::engine::Unresolved;
use crate::engine::image::Image;
use crate::engine::near;
use crate::engine::reader::{Context, Flag};
use crate::finding::{Code, Finding};
use crate::invocation::{Certainty, Item, Word};

/// KServe's server for models of Hugging Face.
pub(super) const HUGGINGFACE: &str = "huggingfaceserver";
/// KAITO's start script.
pub(super) const KAITO: &str = "kaito";
/// `RunPod`'s worker, which has no command line of its own.
pub(super) const RUNPOD: &str = "runpod-worker-vllm";
/// The entrypoint of vLLM's stage for `SageMaker`.
pub(super) const SAGEMAKER: &str = "sagemaker-entrypoint.sh";
/// The program of NIM from 2.0 on, whose words are put together before.
pub(in crate::engine) const NIM: &str = "nim-serve";
/// DJL Serving, whose words are put together before.
pub(in crate::engine) const DJL: &str = "DJL-Serving";

/// FastChat's worker, which hands its command line to vLLM's `AsyncEngineArgs`
/// (`fastchat/serve/vllm_worker.py` of lm-sys/FastChat).
pub(super) const FASTCHAT: &str = "fastchat.serve.vllm_worker";

/// Images of these projects, and what they start.
pub(super) fn entrypoint(image: &Image<'_>) -> Option<&'static [&'static str]> {
    let name = image.name();
    let tag = image.tag.unwrap_or_default();
    if name.starts_with("huggingfaceserver") {
        Some(&["python3", "-m", HUGGINGFACE])
    } else if image.repository.contains("runpod/worker-") && name.contains("vllm") {
        Some(&[RUNPOD])
    } else if name.contains("vllm") && (name.contains("sagemaker") || tag.contains("sagemaker")) {
        Some(&[SAGEMAKER])
    } else {
        None
    }
}

/// Variables of the container that a wrapper turns into options, with the option of each.
pub(super) fn variables(start: Start, context: &Context<'_>) -> Vec<(String, String)> {
    let Start::Wrapper(wrapper) = start else {
        return Vec::new();
    };
    // They take any variable that is there when they start.
    if matches!(wrapper, SAGEMAKER | RUNPOD) {
        context.asks.set(true);
    }
    let names = context.invocation.environment.variables().iter();
    let pair = |name: &str| -> Option<String> {
        match wrapper {
            SAGEMAKER => name.strip_prefix("SM_VLLM_").map(dashed),
            RUNPOD => runpod(name),
            _ => None,
        }
    };
    names
        .filter_map(|variable| Some((variable.name.clone().into_owned(), pair(&variable.name)?)))
        .collect()
}

fn dashed(name: &str) -> String {
    format!("--{}", name.to_ascii_lowercase().replace('_', "-"))
}

/// Every option has a variable of its upper-case name; a few have another.
fn runpod(name: &str) -> Option<String> {
    match name {
        "MODEL_NAME" => return Some("--model".to_owned()),
        "TOKENIZER_NAME" => return Some("--tokenizer".to_owned()),
        "VLLM_CONFIG_FILE" => return Some("--config".to_owned()),
        "MODEL" | "HOST" | "PORT" | "API_KEY" | "CONFIG" | "HELP" => return None,
        _ => {}
    }
    known(name)
}

/// The option of vLLM whose upper-case name this is.
fn known(name: &str) -> Option<String> {
    let upper = name
        .bytes()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let option = dashed(name);
    let newest = options::releases().len().saturating_sub(1);
    let known = options::release(newest, Entrypoint::ApiServer)?
        .named(&option)
        .is_some();
    (upper && known).then_some(option)
}

/// The option of vLLM that has this name in Python, in small letters with underscores.
pub(in crate::engine) fn option_called(name: &str) -> Option<String> {
    known(&name.to_ascii_uppercase())
}

/// Whether an option of vLLM's module takes no value.
pub(in crate::engine) fn is_flag(option: &str) -> bool {
    super::reading::is_flag(option, Entrypoint::ApiServer)
}

/// The words that vLLM's parser gets in the end; `None` where it gets them as they are.
pub(super) fn words<'w>(start: Start, context: &Context<'w>, words: &[Word<'w>]) -> Option<Vec<Word<'w>>> {
    match start {
        Start::Wrapper(HUGGINGFACE) => Some(known_only(words)),
        Start::Wrapper(KAITO) => kaito(context, words),
        Start::Wrapper(FASTCHAT) => Some(fastchat(words)),
        Start::Wrapper(RUNPOD) => {
            let environment = &context.invocation.environment;
            let index = environment.position("VLLM_EXTRA_ARGS")?;
            let variable = environment.variables().get(index)?;
            let mut all = words.to_vec();
            let item = Item::Variable(index);
            match &variable.value {
                Ok(text) => all.extend(split(text).into_iter().map(|word| Word { item, ..word })),
                Err(reason) => all.push(Word {
                    certainty: Certainty::Many,
                    reason: Some(Cow::Owned(reason.clone())),
                    item,
                    ..Word::literal("VLLM_EXTRA_ARGS")
                }),
            }
            Some(all)
        }
        _ => None,
    }
}

fn owned<'w>(text: String) -> Word<'w> {
    Word {
        text: Cow::Owned(text),
        ..Word::literal("")
    }
}

/// Words as Python's `shlex` splits them, without its escapes.
pub(in crate::engine) fn split<'w>(text: &str) -> Vec<Word<'w>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(mark) if c == mark => quote = None,
            None if c == '\'' || c == '"' => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            None if c.is_whitespace() => words.extend(word.take().map(owned)),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.map(owned));
    words
}

/// Its parser knows the options of vLLM with dashes and its own with underscores, and drops every other word without
/// a word of warning. The model is what its own options say.
fn known_only<'w>(words: &[Word<'w>]) -> Vec<Word<'w>> {
    let mut kept = Vec::with_capacity(words.len());
    let mut model: Option<Word<'w>> = None;
    let mut has_id = false;
    let mut index = 0;
    while let Some(word) = words.get(index) {
        index += 1;
        let (name, value) = match word.text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (&*word.text, None),
        };
        let whole = match word.certainty {
            Certainty::Known => true,
            // The name is known, its value perhaps not.
            Certainty::From(at) => at > name.len(),
            Certainty::Many => false,
        };
        if !whole || !name.starts_with("--") || name.len() == 2 {
            kept.push(word.clone());
            continue;
        }
        let follows = words.get(index).filter(|next| !next.text.starts_with('-'));
        let own = match name {
            "--model_id" | "--model_dir" => "--model",
            "--max_model_len" | "--max_length" => "--max-model-len",
            "--model" => "",
            _ if name.contains('_') => "",
            _ => {
                kept.push(word.clone());
                continue;
            }
        };
        let mut meant = match (value, follows) {
            (Some(value), _) => Word {
                text: Cow::Owned(format!("{own}={value}")),
                ..word.clone()
            },
            (None, Some(next)) => {
                index += 1;
                Word {
                    text: Cow::Owned(format!("{own}={}", next.text)),
                    ..next.clone()
                }
            }
            (None, None) => continue,
        };
        if let (Certainty::From(at), Some(_)) = (meant.certainty, value) {
            meant.certainty = Certainty::From((at + own.len()).saturating_sub(name.len()));
        } else if let Certainty::From(at) = meant.certainty {
            meant.certainty = Certainty::From(at + own.len() + 1);
        }
        meant.span = None;
        if own == "--model" {
            // The identity wins over the folder.
            if name == "--model_id" || !has_id {
                has_id |= name == "--model_id";
                model = Some(meant);
            }
        } else if !own.is_empty() {
            kept.push(meant);
        }
    }
    let unknown = kept.iter().any(|word| word.certainty == Certainty::Many);
    match model {
        Some(model) => kept.insert(0, model),
        None if unknown => {}
        None => kept.insert(0, owned("--model=/mnt/models".to_owned())),
    }
    kept
}

/// Its own `--model-path` and, beyond one, `--num-gpus` take the place of vLLM's `--model` and `--tensor-parallel-size`,
/// wherever they stand.
fn fastchat<'w>(words: &[Word<'w>]) -> Vec<Word<'w>> {
    const OWN: [(&str, &str); 2] = [
        ("--model-path", "--model"),
        ("--num-gpus", "--tensor-parallel-size"),
    ];
    let mut kept = Vec::with_capacity(words.len());
    let mut last: [Vec<Word<'w>>; 2] = [Vec::new(), Vec::new()];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let name = word.text.split('=').next().unwrap_or_default();
        let Some(place) = OWN.iter().position(|(own, _)| *own == name) else {
            kept.push(word.clone());
            continue;
        };
        let option = OWN[place].1;
        last[place] = if let Some((_, value)) = word.text.split_once('=') {
            vec![Word {
                text: Cow::Owned(format!("{option}={value}")),
                certainty: match word.certainty {
                    Certainty::From(at) => Certainty::From((at + option.len()).saturating_sub(name.len())),
                    other => other,
                },
                span: None,
                ..word.clone()
            }]
        } else {
            let named = Word {
                text: Cow::Borrowed(option),
                span: None,
                ..word.clone()
            };
            std::iter::once(named).chain(words.next().cloned()).collect()
        };
    }
    let [model, ranks] = last;
    kept.extend(model);
    // One is its default, and leaves vLLM's own option as it is.
    let one = ranks.last().is_some_and(|word| {
        word.certainty == Certainty::Known && matches!(&*word.text, "1" | "--tensor-parallel-size=1")
    });
    if !one {
        kept.extend(ranks);
    }
    kept
}

/// Whether KServe's server is told to serve the model by Transformers, not by vLLM.
pub(super) fn serves_without_vllm(words: &[Word<'_>]) -> bool {
    Flag::last(words, &["--backend"]).is_some_and(|flag| flag.known && flag.text == "huggingface")
}

/// The model of KServe's server, where it is known.
pub(super) fn model_of(words: &[Word<'_>]) -> Option<String> {
    let words = known_only(words);
    let model = words.first().filter(|word| word.certainty == Certainty::Known)?;
    model.text.strip_prefix("--model=").map(str::to_owned)
}

/// Options of the wrapper itself.
const OWN: [&str; 4] = ["--model_id", "--model_dir", "--model_name", "--max_model_len"];

/// VG108: options that the parser drops because they are spelt with underscores, or misspelt.
pub(super) fn dropped(context: &Context<'_>, words: &[Word<'_>]) -> Vec<Finding> {
    let newest = options::releases().len().saturating_sub(1);
    let Some(release) = options::release(newest, Entrypoint::ApiServer) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for word in words {
        let name = word.text.split('=').next().unwrap_or_default();
        if OWN.contains(&name) || !name.starts_with("--") || findings.len() == 8 {
            continue;
        }
        let dashed = name.replace('_', "-");
        let known = release.starting_with(&dashed).next().is_some();
        let meant = if known {
            Some(dashed.as_str()).filter(|dashed| *dashed != name && release.named(dashed).is_some())
        } else if name.len() >= SURELY_MEANT {
            near::nearest(
                release.starting_with("--").map(|spelling| spelling.text),
                &dashed,
                2,
            )
        } else {
            None
        };
        if let Some(meant) = meant {
            let message = format!("{name} is dropped without a word by huggingfaceserver; write {meant}");
            findings.push(Finding::new(Code::Vg108, word.path(&context.path), message));
        }
    }
    findings
}

/// Letters from which on a name that is nearly one of vLLM's is not one of the wrapper's own.
const SURELY_MEANT: usize = 14;

/// The section `vllm` of its configuration file comes after the command line, and so wins.
fn kaito<'w>(context: &Context<'w>, words: &[Word<'w>]) -> Option<Vec<Word<'w>>> {
    // Without the file the command line is the best that is known; `unread_file` says so.
    let text = context.file(kaito_file(words)?).ok()?;
    let file: serde_json::Value = serde_saphyr::from_str(text).ok()?;
    let section = file.get("vllm").and_then(serde_json::Value::as_object);
    let mut all = words.to_vec();
    for (key, value) in section.into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        all.push(owned(format!("--{key}={value}")));
    }
    Some(all)
}

/// The file of `--kaito-config-file`.
pub(super) fn kaito_file<'v>(words: &'v [Word<'_>]) -> Option<&'v str> {
    const NAME: &str = "--kaito-config-file";
    words.iter().enumerate().find_map(|(index, word)| {
        let rest = word.text.strip_prefix(NAME)?;
        match rest.strip_prefix('=') {
            Some(path) => Some(path),
            None if rest.is_empty() => words.get(index + 1).map(|word| &*word.text),
            None => None,
        }
    })
}

/// A configuration file that may override the command line, and cannot be read.
pub(super) fn unread_file(context: &Context<'_>, words: &[Word<'_>]) -> Option<Unresolved> {
    let path = kaito_file(words)?;
    let reason = context.file(path).err()?;
    Some(Unresolved {
        field: "kaito-config-file".to_owned(),
        reason: format!("the file {path} may override the command line: {reason}"),
        decides_memory: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        let words: Vec<Word<'_>> = text.split(' ').map(Word::literal).collect();
        let kept = known_only(&words);
        kept.iter().map(|word| &*word.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn underscores_of_other_options_are_dropped() {
        assert_eq!(
            line("--model_name=x --model_id=a/b --gpu_memory_utilization=0.3 --max-num-seqs 4"),
            "--model=a/b --max-num-seqs 4"
        );
        assert_eq!(
            line("--gpu_memory_utilization 0.3 --gpu-memory-utilization 0.4 --max_model_len 512"),
            "--model=/mnt/models --gpu-memory-utilization 0.4 --max-model-len=512"
        );
        assert_eq!(line("--model_dir=/a --model_id x"), "--model=x");
    }

    #[test]
    fn extra_words_are_split_at_blanks_outside_quotes() {
        let words = split("--a 'b c' --d=\"e f\"  ''");
        let texts: Vec<&str> = words.iter().map(|word| &*word.text).collect();
        assert_eq!(texts, ["--a", "b c", "--d=e f", ""]);
    }
}
