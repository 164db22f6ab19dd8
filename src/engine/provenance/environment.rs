//! Variables of the container: where each is set, and which ones a text takes in.

use std::fmt::Write as _;

use super::{Origin, Place};
use crate::engine::reader::Context;
use crate::finding::FieldPath;
use crate::invocation::VariableOrigin;
use crate::invocation::environment::namespace;

/// Variables that are told of one text; more would hide what they are told for.
const MOST: usize = 3;

/// The place of the variable at `index` of the environment; what reads it is said by `reader`.
pub(super) fn place(context: &Context<'_>, index: usize, reader: &str) -> Place {
    let Some((name, path, source)) = described(context, index) else {
        return Place::nowhere(Origin::Env, reader);
    };
    let mut detail = name;
    if let Some(source) = source {
        let _ = write!(detail, " of {source}");
    }
    if !reader.is_empty() {
        let _ = write!(detail, ", {reader}");
    }
    Place {
        from: Origin::Env,
        path: Some(path),
        detail,
    }
}

/// Name, field and outer source (a ConfigMap and its key, a field of the pod, other variables) of a variable.
fn described(context: &Context<'_>, index: usize) -> Option<(String, FieldPath, Option<String>)> {
    let variable = context.invocation.environment.variables().get(index)?;
    let container = context.placed.container;
    let namespace = namespace(context.pod);
    let name = variable.name.clone().into_owned();
    let (path, source) = match variable.origin {
        VariableOrigin::Env(at) => {
            let written = container.env.get(at)?;
            let from = written.value_from.as_ref();
            let map = from
                .and_then(|from| from.config_map_key_ref.as_ref())
                .map(|key| format!("ConfigMap {namespace}/{} key {}", key.name, key.key));
            let secret = from
                .and_then(|from| from.secret_key_ref.as_ref())
                .map(|key| format!("Secret {namespace}/{}", key.name));
            let field = from
                .and_then(|from| from.field_ref.as_ref())
                .map(|field| format!("the field {}", field.field_path));
            let others = written
                .value
                .as_deref()
                .and_then(|text| through(context, text, false));
            let resource = from
                .and_then(|from| from.resource_field_ref.as_ref())
                .map(|reference| format!("the resource {}", reference.resource));
            let source = map.or(secret).or(field).or(resource).or(others);
            (context.path.field("env").index(at), source)
        }
        VariableOrigin::EnvFrom(at) => {
            let from = container.env_from.get(at)?;
            let key = name.strip_prefix(&*from.prefix).unwrap_or(&name);
            let source = from
                .config_map_ref
                .as_ref()
                .map(|map| format!("ConfigMap {namespace}/{} key {key}", map.name));
            (context.path.field("envFrom").index(at), source)
        }
    };
    Some((name, path, source))
}

/// The variables that a text of the container takes in, in words: `$(LEN) (spec.containers[0].env[0])`; `shell` says
/// whether a shell reads the text as well.
pub(super) fn through(context: &Context<'_>, text: &str, shell: bool) -> Option<String> {
    let environment = &context.invocation.environment;
    let mut told: Vec<String> = Vec::new();
    for (form, name) in references(text, shell) {
        let shown = form.shown(name);
        if told.len() == MOST {
            break;
        }
        let again = |known: &String| {
            known
                .strip_prefix(&shown)
                .is_some_and(|rest| rest.starts_with(' '))
        };
        if told.iter().any(again) {
            continue;
        }
        // `$(…)` that is no variable is a command to a shell, and plain text to the kubelet.
        match environment.position(name) {
            Some(_) if form != Form::Kubelet && sets(context, name) => {
                told.push(format!("{shown} that the script sets"));
            }
            Some(index) => {
                // A variable that holds itself through others was expanded by the kubelet in order, so this ends.
                let source = described_flat(context, index);
                told.push(format!("{shown} ({source})"));
            }
            None if form != Form::Kubelet => told.push(format!("{shown} of the script")),
            None => {}
        }
    }
    (!told.is_empty()).then(|| told.join(" and "))
}

/// Field and ConfigMap of a variable, without the variables that it takes in itself.
fn described_flat(context: &Context<'_>, index: usize) -> String {
    let environment = &context.invocation.environment;
    let is_plain = environment
        .variables()
        .get(index)
        .is_some_and(|variable| match variable.origin {
            VariableOrigin::Env(at) => {
                let written = context.placed.container.env.get(at);
                written.is_some_and(|written| written.value_from.is_none())
            }
            VariableOrigin::EnvFrom(_) => false,
        });
    if is_plain {
        return match environment.variables().get(index).map(|variable| variable.origin) {
            Some(VariableOrigin::Env(at)) => context.path.field("env").index(at).to_string(),
            Some(VariableOrigin::EnvFrom(at)) => context.path.field("envFrom").index(at).to_string(),
            None => String::new(),
        };
    }
    match described(context, index) {
        Some((_, path, Some(source))) => format!("{path}, {source}"),
        Some((_, path, None)) => path.to_string(),
        None => String::new(),
    }
}

/// Whether a script of the container assigns the variable.
fn sets(context: &Context<'_>, name: &str) -> bool {
    let container = context.placed.container;
    let items = container.command.iter().chain(&container.args).flatten();
    let assigns = |text: &String| {
        text.match_indices(name).any(|(at, _)| {
            let rest = text.get(at + name.len()..).unwrap_or_default();
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            let begins = before.is_none_or(|c| c.is_whitespace() || matches!(c, ';' | '&' | '('));
            // `${NAME:=value}` assigns as well.
            let in_braces = before == Some('{') && (rest.starts_with(":=") || rest.starts_with('='));
            begins && (rest.starts_with('=') || rest.starts_with("+=")) || in_braces
        })
    };
    items.into_iter().any(assigns)
}

/// How a text names a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `$(NAME)`.
    Kubelet,
    /// `${NAME…}`.
    Braces,
    /// `$NAME`.
    Plain,
}

impl Form {
    fn shown(self, name: &str) -> String {
        match self {
            Self::Kubelet => format!("$({name})"),
            Self::Braces => format!("${{{name}}}"),
            Self::Plain => format!("${name}"),
        }
    }
}

/// The variables that a text names, in order. `$$` names none to the kubelet.
fn references(text: &str, shell: bool) -> Vec<(Form, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let behind = rest.get(at + 1..).unwrap_or_default();
        if let Some(body) = behind.strip_prefix('$') {
            rest = body;
            continue;
        }
        if let Some(name) = behind.strip_prefix('(').and_then(name_in_brackets) {
            found.push((Form::Kubelet, name));
        } else if let Some(body) = behind.strip_prefix('{').filter(|_| shell) {
            let name = leading_name(body);
            if !name.is_empty() {
                found.push((Form::Braces, name));
            }
        } else if shell {
            let name = leading_name(behind);
            if !name.is_empty() {
                found.push((Form::Plain, name));
            }
        }
        rest = behind;
    }
    found
}

fn leading_name(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    text.get(..end)
        .filter(|name| !name.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or_default()
}

/// The name before the closing bracket; nothing behind the name is looked at, however long the text is.
fn name_in_brackets(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.'))?;
    let (name, rest) = text.split_at_checked(end)?;
    (end > 0 && rest.starts_with(')')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{Form, references};

    #[test]
    fn references_are_found_as_their_reader_sees_them() {
        let kubelet = [(Form::Kubelet, "A"), (Form::Kubelet, "B-c.d")];
        assert_eq!(references("x$(A)-$$(C)$(B-c.d)$(", false), kubelet);
        assert_eq!(references("$(nproc --all) ${A} $B", false), []);
        let shell = [(Form::Braces, "A"), (Form::Plain, "B"), (Form::Kubelet, "C")];
        assert_eq!(references("${A:-1}$B/$1$(C)", true), shell);
    }

    #[test]
    fn long_texts_without_an_end_are_read_in_one_pass() {
        assert_eq!(references(&"$(".repeat(1 << 20), true), []);
    }
}
