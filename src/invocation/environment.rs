//! A container's environment variables, and Kubernetes' own expansion of `$(VAR)`.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use super::reason::{brief, brief_owned};
use super::{Certainty, Item, Word};
use crate::engine::{LookUp, Sources};
use crate::workload::pod::{Container, Pod};
use crate::workload::template::groups;

mod source;

/// Bytes of values that are put in place of names for one container, all in all; each step could double them. What is
/// searched for a name counts too.
const MOST: usize = 1 << 22;

/// Variables that are looked through one by one; beyond them an index is kept. Real containers stay below.
const FEW: usize = 64;

/// Where a variable is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `env[n]`.
    Env(usize),
    /// `envFrom[n]`.
    EnvFrom(usize),
}

/// One variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its value, or why that is not known.
    pub value: Result<Cow<'a, str>, String>,
    /// Where it is set.
    pub origin: Origin,
}

/// The variables in order: a later one of the same name wins.
#[derive(Clone, Debug, Default)]
pub struct Environment<'a> {
    variables: Vec<Variable<'a>>,
    /// The last place of each name behind the first [`FEW`].
    index: HashMap<Cow<'a, str>, usize>,
    /// Sources that could not be read as a whole, so that any variable may come from them.
    unread: Vec<String>,
    /// What the LeaderWorkerSet controller tells the pod of its group: the size, and its own place.
    group: [Option<&'a str>; 2],
    spent: Cell<usize>,
}

/// The variables of a container.
pub(crate) fn read<'a>(pod: &'a Pod, container: &'a Container, sources: &'a dyn Sources) -> Environment<'a> {
    Environment::read(pod, container, sources)
}

/// The outcome of a look-up by name.
pub(crate) enum Found<'e> {
    Value(&'e str),
    Unknown(Cow<'e, str>),
    NotSet,
}

impl<'a> Environment<'a> {
    pub(super) fn read(pod: &'a Pod, container: &'a Container, sources: &'a dyn Sources) -> Self {
        let namespace = namespace(pod);
        let metadata = &pod.metadata;
        let size = metadata.annotations.get(groups::GROUP_SIZE);
        let index = metadata.labels.get(groups::WORKER_INDEX);
        let mut environment = Self {
            variables: Vec::with_capacity(container.env.len()),
            group: [size, index].map(|text| text.map(String::as_str)),
            ..Self::default()
        };
        for (index, from) in container.env_from.iter().enumerate() {
            if let Some(map) = &from.config_map_ref {
                match sources.config_map(namespace, &map.name) {
                    LookUp::Found(data) => {
                        let variable = |(key, value): (&String, &'a String)| Variable {
                            name: Cow::Owned(format!("{}{key}", from.prefix)),
                            value: Ok(Cow::Borrowed(value.as_str())),
                            origin: Origin::EnvFrom(index),
                        };
                        data.iter()
                            .map(variable)
                            .for_each(|variable| environment.push(variable));
                    }
                    LookUp::Missing if map.optional => {}
                    LookUp::Missing => {
                        environment.unread.push(brief_owned(format!(
                            "ConfigMap {namespace}/{} does not exist",
                            map.name
                        )));
                    }
                    LookUp::NotRead(why) => {
                        environment.unread.push(brief_owned(format!(
                            "ConfigMap {namespace}/{} was not read: {why}",
                            map.name
                        )));
                    }
                }
            }
            if let Some(secret) = &from.secret_ref {
                environment.unread.push(brief_owned(format!(
                    "Secret {namespace}/{} is never read",
                    secret.name
                )));
            }
        }
        let told = environment.group[0].is_some();
        for (index, variable) in container.env.iter().enumerate() {
            if told && LWS.contains(&&*variable.name) {
                continue;
            }
            let value = match (&variable.value, &variable.value_from) {
                (_, Some(source)) => source::value(pod, container, namespace, source, sources),
                (Some(text), None)
                    if let Some(runtime) = container.actions_of.as_ref().filter(|_| text.contains("{{")) =>
                {
                    Err(Some(format!(
                        "the action in {} of {runtime} is not evaluated",
                        variable.name
                    )))
                }
                (Some(text), None) => match environment.expand(text) {
                    (text, None) => Ok(text),
                    (_, Some((_, reason))) => Err(Some(reason.into_owned())),
                },
                (None, None) => Ok(Cow::Borrowed("")),
            };
            // A key that is optional and missing leaves the variable unset.
            let value = match value {
                Ok(value) => Ok(value),
                Err(Some(why)) => Err(brief_owned(why)),
                Err(None) => continue,
            };
            environment.push(Variable {
                name: Cow::Borrowed(variable.name.as_str()),
                value,
                origin: Origin::Env(index),
            });
        }
        environment
    }

    /// All variables, in the order in which they are set.
    #[must_use]
    pub fn variables(&self) -> &[Variable<'a>] {
        &self.variables
    }

    /// The variable of this name that counts.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Variable<'a>> {
        self.position(name).and_then(|at| self.variables.get(at))
    }

    /// Where the variable of this name that counts stands among [`Self::variables`].
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        if let Some(at) = self.index.get(name) {
            return Some(*at);
        }
        let few = self.variables.len().min(FEW);
        self.variables[..few]
            .iter()
            .rposition(|variable| variable.name == name)
    }

    fn push(&mut self, variable: Variable<'a>) {
        if self.variables.len() >= FEW {
            self.index.insert(variable.name.clone(), self.variables.len());
        }
        self.variables.push(variable);
    }

    pub(crate) fn find(&self, name: &str) -> Found<'_> {
        match self.get(name) {
            Some(Variable { value: Ok(value), .. }) => Found::Value(value),
            Some(Variable { value: Err(why), .. }) => Found::Unknown(Cow::Borrowed(why)),
            None if let Some(value) = self.of_group(name) => Found::Value(value),
            None => match (self.unread.first(), injected(name)) {
                (_, Some(by)) => Found::Unknown(Cow::Owned(format!("{} is set by {by}", brief(name)))),
                (Some(source), None) => Found::Unknown(Cow::Owned(format!(
                    "{} may come from a source that was not read: {source}",
                    brief(name)
                ))),
                (None, None) => Found::NotSet,
            },
        }
    }

    /// A variable that the LeaderWorkerSet controller sets, where its value is known.
    fn of_group(&self, name: &str) -> Option<&'a str> {
        let [size, index] = self.group;
        match name {
            "LWS_GROUP_SIZE" => size,
            "LWS_WORKER_INDEX" => index,
            _ => None,
        }
    }

    /// An item of command or args as a word.
    pub(super) fn word(&self, text: &'a str, item: Item) -> Word<'a> {
        let (expanded, unknown) = self.expand(text);
        let (certainty, reason) = match unknown {
            None => (Certainty::Known, None),
            Some((at, reason)) => (Certainty::From(at), Some(reason)),
        };
        Word {
            text: expanded,
            certainty,
            item,
            span: Some(0..text.len()),
            reason,
            alternatives: Vec::new(),
            is_part: false,
        }
    }

    /// `$(VAR)` replaced as the kubelet does: `$$` is `$`, a variable that is not set stays as it is written. With
    /// the first byte that depends on something unreadable, and why.
    fn expand(&self, text: &'a str) -> (Cow<'a, str>, Option<(usize, Cow<'a, str>)>) {
        let Some(first) = text.find('$') else {
            return (Cow::Borrowed(text), None);
        };
        let mut out = String::with_capacity(text.len() + 16);
        out.push_str(&text[..first]);
        let mut unknown = None;
        let mut rest = &text[first..];
        let mut changed = false;
        // Behind the last bracket nothing is searched for: many that are never closed would be as many searches.
        let last_close = text.rfind(')').unwrap_or(0);
        while let Some(dollar) = rest.find('$') {
            out.push_str(&rest[..dollar]);
            rest = &rest[dollar..];
            if rest.starts_with("$$") {
                out.push('$');
                rest = &rest[2..];
                changed = true;
            } else if let Some((name, after)) = rest
                .strip_prefix("$(")
                .filter(|body| text.len() - body.len() <= last_close)
                .and_then(|body| body.split_once(')'))
            {
                let spent = self.spent.get() + self.variables.len().min(FEW) / 8;
                self.spent.set(spent);
                match self.find(name) {
                    Found::Value(value) if spent + value.len() <= MOST => {
                        self.spent.set(spent + value.len());
                        out.push_str(value);
                        changed = true;
                    }
                    Found::Value(_) => {
                        unknown.get_or_insert((
                            out.len(),
                            Cow::Owned(format!("{} expands to too long a text", brief(name))),
                        ));
                    }
                    Found::Unknown(why) => {
                        unknown.get_or_insert((out.len(), Cow::Owned(why.into_owned())));
                        out.push_str(&rest[..name.len() + 3]);
                    }
                    Found::NotSet => out.push_str(&rest[..name.len() + 3]),
                }
                rest = after;
            } else {
                out.push('$');
                rest = &rest[1..];
            }
        }
        out.push_str(rest);
        (
            if changed {
                Cow::Owned(out)
            } else {
                Cow::Borrowed(text)
            },
            unknown,
        )
    }
}

/// The namespace in which a pod's references are looked up.
pub(crate) fn namespace(pod: &Pod) -> &str {
    if pod.metadata.namespace.is_empty() {
        "default"
    } else {
        &pod.metadata.namespace
    }
}

/// Variables that the LeaderWorkerSet controller sets in every container of a group's pod; one of that name in the
/// container is dropped (`AddLWSVariables` in `pkg/utils/pod/pod_utils.go` of kubernetes-sigs/lws).
const LWS: [&str; 3] = ["LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"];

/// Who adds a variable that the container itself does not have.
fn injected(name: &str) -> Option<&'static str> {
    if name.starts_with("LWS_") {
        Some("the LeaderWorkerSet controller")
    } else if name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT") {
        Some("the kubelet, from the namespace's Services")
    } else if name.starts_with("JOB_COMPLETION_INDEX") {
        Some("the Job controller")
    } else {
        None
    }
}
