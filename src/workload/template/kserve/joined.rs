//! A pod of runtime and service, each of whose fields and words is known by the object that it comes from.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::super::controller::Malformed;
use super::super::super::pod::{EnvVarSource, Made};
use super::super::{Layout, Origin, Template, count, merge, template_at};
use crate::finding::{FieldPath, shortened};

/// The container that serves the model.
pub(super) const SERVER: &str = "kserve-container";

/// Who makes a command line: the object, and a sentence.
pub(super) struct By {
    pub(super) object: String,
    pub(super) text: String,
}

/// A container of runtime and service.
pub(super) struct Container {
    pub(super) value: Value,
    /// As the runtime has it, and its field there.
    base: Option<(Value, FieldPath)>,
    /// As the service has it, and its field there.
    own: Option<(Value, FieldPath)>,
}

impl Container {
    /// Where the field of one of the two stands: the service's own where it has it.
    fn origin(&self, by: &By, has: impl Fn(&Value) -> Option<FieldPath>) -> Option<Origin> {
        let below = |path: &FieldPath, field: &FieldPath| {
            let text = field.as_str();
            if text.starts_with('[') {
                FieldPath::new(format!("{path}{text}"))
            } else {
                path.field(text)
            }
        };
        if let Some((value, path)) = &self.own
            && let Some(field) = has(value)
        {
            return Some(Origin::own(below(path, &field)));
        }
        let (value, path) = self.base.as_ref()?;
        Some(Origin {
            object: Some(by.object.clone()),
            path: below(path, &has(value)?),
        })
    }

    /// Where the words of the command line stand: the command of one of the two, then the runtime's arguments and the
    /// service's.
    fn words(&self, by: &By, command: usize) -> BTreeMap<(usize, usize), Origin> {
        let mut origins = BTreeMap::new();
        let item = |field: &str, index: usize| {
            let path = FieldPath::new(field).index(index);
            let list = field.to_owned();
            move |value: &Value| value.get(&list).map(|_| path.clone())
        };
        for index in 0..command {
            if let Some(origin) = self.origin(by, item("command", index)) {
                origins.insert((0, index), origin);
            }
        }
        let of_base = number_of_args(self.base.as_ref());
        for index in 0..of_base {
            if let Some((_, path)) = &self.base {
                let origin = Origin {
                    object: Some(by.object.clone()),
                    path: path.field("args").index(index),
                };
                origins.insert((0, command + index), origin);
            }
        }
        for index in 0..number_of_args(self.own.as_ref()) {
            if let Some((_, path)) = &self.own {
                let origin = Origin::own(path.field("args").index(index));
                origins.insert((0, command + of_base + index), origin);
            }
        }
        origins
    }

    /// Says where the container's fields stand.
    fn locate(&self, at: &FieldPath, by: &By, layout: &mut Layout) {
        if let Some(origin) = self.origin(by, |_| Some(FieldPath::default())) {
            layout.put(at.clone(), origin);
        }
        for (name, value) in self.value.as_object().into_iter().flatten() {
            if let Some(origin) =
                self.origin(by, |value| value.get(name).map(|_| FieldPath::new(name.as_str())))
            {
                layout.put(at.field(name), origin);
            }
            if name != "env" {
                continue;
            }
            let own = self.own.as_ref().map(|(value, path)| (named(value), path, None));
            let base = self
                .base
                .as_ref()
                .map(|(value, path)| (named(value), path, Some(&by.object)));
            for (index, variable) in value.as_array().into_iter().flatten().enumerate() {
                let name = variable.get("name").and_then(Value::as_str).unwrap_or_default();
                let mut places = own.iter().chain(&base);
                let origin = places.find_map(|(names, path, object)| {
                    Some(Origin {
                        object: object.cloned(),
                        path: path.field("env").index(*names.get(name)?),
                    })
                });
                if let Some(origin) = origin {
                    layout.put(at.field("env").index(index), origin);
                }
            }
        }
    }
}

fn number_of_args(of: Option<&(Value, FieldPath)>) -> usize {
    let args = of.and_then(|(value, _)| value.get("args")?.as_array());
    args.map_or(0, Vec::len)
}

/// Places of a container's variables by their names.
fn named(container: &Value) -> BTreeMap<&str, usize> {
    let list = container.get("env").and_then(Value::as_array);
    let names = list.into_iter().flatten().enumerate();
    names
        .filter_map(|(index, variable)| Some((variable.get("name")?.as_str()?, index)))
        .collect()
}

/// A pod of runtime and service.
pub(super) struct Joined {
    spec: Map<String, Value>,
    /// The server first.
    pub(super) containers: Vec<Container>,
}

impl Joined {
    pub(super) fn new(
        (runtime, runtime_at): (&Value, &FieldPath),
        own: &Value,
        own_containers: &[(Value, FieldPath)],
    ) -> Self {
        let without = |spec: &Value| {
            let mut spec = spec.as_object().cloned().unwrap_or_default();
            for name in ["containers", "workerSpec", "model"] {
                spec.remove(name);
            }
            Value::Object(spec)
        };
        let spec = merge::merged(&without(runtime), &without(own));
        let base = runtime
            .get("containers")
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        let mut containers: Vec<Container> = Vec::with_capacity(base.len() + own_containers.len());
        let field = runtime_at.field("containers");
        for (index, container) in base.iter().enumerate() {
            containers.push(Container {
                value: container.clone(),
                base: Some((container.clone(), field.index(index))),
                own: None,
            });
        }
        for (container, path) in own_containers {
            let name = container.get("name");
            let told = Some((container.clone(), path.clone()));
            match containers
                .iter_mut()
                .find(|known| known.value.get("name") == name)
            {
                Some(known) => {
                    known.value = with_arguments(&known.value, container);
                    known.own = told;
                }
                None => containers.push(Container {
                    value: container.clone(),
                    base: None,
                    own: told,
                }),
            }
        }
        Self {
            spec: spec.as_object().cloned().unwrap_or_default(),
            containers,
        }
    }

    /// `runtimeVersion` takes the place of the image's tag.
    pub(super) fn server_image(&mut self, version: Option<&str>) {
        let server = self
            .containers
            .iter_mut()
            .map(|container| &mut container.value)
            .find(|container| container.get("name").and_then(Value::as_str) == Some(SERVER));
        let image = server.and_then(|server| server.get_mut("image"));
        if let (Some(Value::String(image)), Some(version)) = (image, version) {
            let name = match image.rsplit_once(':') {
                Some((name, tag)) if !tag.contains('/') => name.to_owned(),
                _ => image.clone(),
            };
            *image = format!("{name}:{version}");
        }
    }

    pub(super) fn template(
        mut self,
        look_up: &dyn Fn(&str) -> Option<String>,
        path: &FieldPath,
        (desired, max): (u32, Option<u32>),
        by: &By,
    ) -> Result<Template, Malformed> {
        let mut made = Vec::with_capacity(self.containers.len());
        let mut layout = Layout::bare(path);
        let list = FieldPath::new("spec").field("containers");
        for (index, container) in self.containers.iter_mut().enumerate() {
            container.locate(&list.index(index), by, &mut layout);
            merge::fill(&mut container.value, look_up);
            let command = take_words(&mut container.value, "command", container.own.as_ref())?;
            let args = take_words(&mut container.value, "args", container.own.as_ref())?;
            let open = command.iter().chain(&args).any(|word| word.contains("{{"));
            made.push(Made {
                origins: container.words(by, command.len()),
                behind_entrypoint: command.is_empty(),
                commands: vec![command.into_iter().chain(args).collect()],
                by: by.text.clone(),
                doubtful: open,
                template_of: by.object.clone(),
                ..Made::default()
            });
        }
        let containers = self.containers.into_iter().map(|container| container.value);
        self.spec
            .insert("containers".to_owned(), Value::Array(containers.collect()));
        let mut template =
            template_at(&Value::Object(self.spec), None, path, true, desired).map_err(|malformed| {
                let below = malformed.path.strip_prefix(path.as_str()).unwrap_or_default();
                let origin = layout.origin(&FieldPath::new(format!("spec{below}")));
                Malformed {
                    path: match origin.object {
                        Some(object) => format!("{} of {object}", origin.path),
                        None => origin.path.to_string(),
                    },
                    ..malformed
                }
            })?;
        template.max = max;
        template.layout = layout;
        for (container, made) in template.pod.spec.containers.iter_mut().zip(made) {
            container.made = Some(made);
            for variable in &mut container.env {
                let open = variable.value.take_if(|value| value.contains("{{"));
                if let Some(value) = open {
                    let value = shortened(&value, 60);
                    variable.value_from = Some(EnvVarSource {
                        unread: Some(format!(
                            "{value} of {} is a template that is not evaluated",
                            by.object
                        )),
                        ..EnvVarSource::default()
                    });
                }
            }
        }
        Ok(template)
    }
}

/// Takes a list of words out of a container.
fn take_words(
    container: &mut Value,
    field: &str,
    own: Option<&(Value, FieldPath)>,
) -> Result<Vec<String>, Malformed> {
    let place = || match own {
        Some((value, path)) if value.get(field).is_some() => path.field(field),
        _ => FieldPath::new(format!("{field} of a container of the serving runtime")),
    };
    let list = container
        .as_object_mut()
        .and_then(|container| container.remove(field));
    let items = match list {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(count::wrong(&place(), &other, "a list of texts")),
    };
    let word = |item: Value| match item {
        Value::String(text) => Ok(text),
        other => Err(count::wrong(&place(), &other, "a text")),
    };
    items.into_iter().map(word).collect()
}

/// A container laid over the runtime's: arguments follow instead of replacing.
fn with_arguments(base: &Value, over: &Value) -> Value {
    let mut out = merge::merged(base, over);
    let args = |container: &Value| {
        container
            .get("args")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let all: Vec<Value> = args(base).into_iter().chain(args(over)).collect();
    if let Some(fields) = out.as_object_mut().filter(|_| !all.is_empty()) {
        fields.insert("args".to_owned(), Value::Array(all));
    }
    out
}
