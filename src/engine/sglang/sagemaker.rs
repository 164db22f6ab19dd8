//! The image for SageMaker, whose start script makes options out of variables: `SM_SGLANG_TP_SIZE=2` is `--tp-size 2`.

use std::borrow::Cow;

use crate::engine::image::Image;
use crate::engine::reader::Context;
use crate::invocation::environment::Found;
use crate::invocation::{Certainty, Item, Variable, Word};

const PREFIX: &str = "SM_SGLANG_";
/// Chooses the server, and is no option of it.
pub(super) const SERVER: &str = "SM_SGLANG_ENGINE";
/// Where the platform puts the model.
pub(super) const MODEL: &str = "/opt/ml/model";

/// Whether the image starts that script.
pub(super) fn is_image(image: &Image<'_>) -> bool {
    image.name() == "sglang" && image.tag.is_some_and(|tag| tag.contains("sagemaker"))
}

/// The words that the script gives to the server. Arguments of the container are not among them: the script does not look
/// at them.
pub(super) fn words<'w>(context: &Context<'w>) -> Vec<Word<'w>> {
    let environment = &context.invocation.environment;
    let variables = environment.variables();
    let mut words = Vec::new();
    for (index, variable) in variables.iter().enumerate() {
        let counts = || environment.position(&variable.name) == Some(index);
        let Some(option) = option_of(&variable.name).filter(|_| counts()) else {
            continue;
        };
        for mut word in words_of(option, variable) {
            word.item = Item::Variable(index);
            words.push(word);
        }
    }
    if let Found::Unknown(reason) = environment.find("SM_SGLANG_MEM_FRACTION_STATIC")
        && !variables
            .iter()
            .any(|variable| variable.name == "SM_SGLANG_MEM_FRACTION_STATIC")
    {
        words.push(Word {
            text: Cow::Borrowed("a variable"),
            certainty: Certainty::Many,
            reason: Some(Cow::Owned(reason.into_owned())),
            ..Word::literal("")
        });
    }
    if !words.iter().any(|word| word.text == "--model-path") {
        words.extend(["--model-path", MODEL].map(Word::literal));
    }
    words
}

fn option_of(name: &str) -> Option<String> {
    let rest = name.strip_prefix(PREFIX).filter(|_| name != SERVER)?;
    Some(format!("--{}", rest.to_ascii_lowercase().replace('_', "-")))
}

fn words_of<'w>(option: String, variable: &Variable<'_>) -> Vec<Word<'w>> {
    let word = |text: String, certainty, reason| Word {
        text: Cow::Owned(text),
        certainty,
        reason,
        ..Word::literal("")
    };
    let name = word(option, Certainty::Known, None);
    match &variable.value {
        Ok(value) if value.eq_ignore_ascii_case("false") => Vec::new(),
        Ok(value) if value.is_empty() || value.eq_ignore_ascii_case("true") => vec![name],
        Ok(value) => vec![name, word(value.clone().into_owned(), Certainty::Known, None)],
        Err(reason) => {
            let value = word(
                String::new(),
                Certainty::From(0),
                Some(Cow::Owned(reason.clone())),
            );
            vec![name, value]
        }
    }
}
