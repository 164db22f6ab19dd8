//! A command line without a manifest: what `vramgate fit --engine vllm -- ARGUMENTS` is given.

use thiserror::Error;

use super::{Engine, ImageRule, NoSources, Reading, Version, containers, read};
use crate::workload::pod::{Container, Pod};

/// Why no reading is made of a command line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArgumentsError {
    /// What the engine takes does not stand in its arguments.
    #[error(
        "engine: {0} is not read from its arguments; give one of vllm, sglang, tgi, tei, trtllm, llama.cpp and lmdeploy"
    )]
    Engine(Engine),
    /// No command of the engine came of it.
    #[error("arguments: they start nothing of {0}; give the options that follow its server's command")]
    Nothing(Engine),
}

/// The server's command of an engine, and how its arguments name a model.
struct Server {
    words: &'static [&'static str],
    /// The option that names the model; `None` where it is a word of its own behind the command.
    model: Option<&'static str>,
    /// Options in the arguments that name one.
    names: &'static [&'static str],
}

/// Servers as the readers know them. The first words of [`Server::words`] are the program.
fn server(engine: Engine) -> Option<Server> {
    let (words, model, names): (&[&str], _, &[&str]) = match engine {
        Engine::Vllm => (&["vllm", "serve"], None, &["--model"]),
        Engine::Sglang => (
            &["python3", "-m", "sglang.launch_server"],
            Some("--model-path"),
            &["--model-path", "--model"],
        ),
        Engine::Tgi => (&["text-generation-launcher"], Some("--model-id"), &["--model-id"]),
        Engine::Tei => (&["text-embeddings-router"], Some("--model-id"), &["--model-id"]),
        Engine::TensorRtLlm => (&["trtllm-serve", "serve"], None, &["--model", "--model-path"]),
        Engine::LlamaCpp => (
            &["llama-server"],
            Some("--model"),
            &["--model", "-m", "-hf", "-hfr", "--hf-repo"],
        ),
        Engine::Lmdeploy => (&["lmdeploy", "serve", "api_server"], None, &[]),
        _ => return None,
    };
    Some(Server { words, model, names })
}

/// Reads `arguments` as `engine` does in the release `version`; of an unknown one the newest, as for an image without a
/// tag.
///
/// `arguments` are what follows the command of the server (`vllm serve`, `python3 -m sglang.launch_server`,
/// `text-generation-launcher`, `text-embeddings-router`, `trtllm-serve`, `llama-server`, `lmdeploy serve api_server`).
/// `model` is put in where they name none; where they do, it is theirs that the engine reads.
///
/// It is the reading of a container with that command and these `args`, so the two cannot differ. Paths of findings are
/// those of that container: `spec.containers[0].args[3]` is the fourth argument. Files are not looked up.
///
/// # Errors
///
/// [`ArgumentsError`] for an engine whose arguments say nothing of memory, and for arguments that start no server.
pub fn read_arguments(
    engine: Engine,
    version: Option<Version>,
    model: Option<&str>,
    arguments: &[String],
) -> Result<Reading, ArgumentsError> {
    let server = server(engine).ok_or(ArgumentsError::Engine(engine))?;
    let mut command: Vec<String> = server.words.iter().map(|word| (*word).to_owned()).collect();
    if let Some(model) = model.filter(|_| !names_model(&server, arguments)) {
        command.extend(server.model.map(str::to_owned));
        command.push(model.to_owned());
    }
    // A digest keeps the image from counting as one that can change.
    let image = "arguments@sha256:0";
    let rule = ImageRule {
        images: vec![image.to_owned()],
        engine: Some(engine.as_str().to_owned()),
        version: version.map(|version| version.to_string()),
        ..ImageRule::default()
    };
    let mut pod = Pod::default();
    pod.spec.containers.push(Container {
        name: "arguments".to_owned(),
        image: image.to_owned(),
        command: Some(command),
        args: Some(arguments.to_vec()),
        ..Container::default()
    });
    let placed = containers(&pod).next().ok_or(ArgumentsError::Nothing(engine))?;
    let readings = read(&pod, placed, &NoSources, &[rule]);
    let mut of_engine = readings.into_iter().filter(|reading| reading.engine == engine);
    of_engine.next().ok_or(ArgumentsError::Nothing(engine))
}

/// Whether the arguments of an engine name the model that it loads. `false` for engines that [`read_arguments`] refuses.
#[must_use]
pub fn arguments_name_model(engine: Engine, arguments: &[String]) -> bool {
    server(engine).is_some_and(|server| names_model(&server, arguments))
}

fn names_model(server: &Server, arguments: &[String]) -> bool {
    let leads = server.model.is_none()
        && arguments
            .first()
            .is_some_and(|argument| !argument.starts_with('-'));
    leads
        || arguments.iter().any(|argument| {
            let name = argument.split('=').next().unwrap_or_default();
            server.names.contains(&name)
        })
}

#[cfg(test)]
mod tests;
