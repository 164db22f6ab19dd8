//! What an expression may say: every name, field and operator is checked when the policy is read.

use std::collections::BTreeSet;

use super::Wrong;
use super::parse::{Is, Node};
use crate::policy::error::hint;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    Int,
    Text,
    /// Labels.
    Map,
    /// The labels of a node, of which only constant keys may be asked.
    NodeLabels,
    List(Box<Type>),
    /// The item of an empty list.
    Any,
    Object(Object),
}

impl Type {
    fn told(&self) -> String {
        match self {
            Self::Bool => "a condition".to_owned(),
            Self::Int => "a whole number".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Map | Self::NodeLabels => "a map of labels".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Any => "an item of an empty list".to_owned(),
            Self::Object(object) => format!("the object {}", object.name()),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::List(one), Self::List(other)) => one.is_like(other),
            (one, other) => one == other,
        }
    }
}

/// A variable of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Pod,
    Container,
    Request,
    Gpu,
    Node,
}

impl Object {
    const ALL: [Self; 5] = [Self::Pod, Self::Container, Self::Request, Self::Gpu, Self::Node];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Request => "request",
            Self::Gpu => "gpu",
            Self::Node => "node",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|object| object.name() == name)
    }

    /// Every field with its type, and whether it can be absent.
    pub(super) fn fields(self) -> &'static [(&'static str, Type, bool)] {
        match self {
            Self::Pod => &[
                ("namespace", Type::Text, true),
                ("namespaceLabels", Type::Map, false),
                ("labels", Type::Map, false),
                ("priorityClass", Type::Text, true),
                ("runtimeClass", Type::Text, true),
            ],
            Self::Container => &[("name", Type::Text, false), ("image", Type::Text, false)],
            Self::Request => &[
                ("resource", Type::Text, true),
                ("count", Type::Int, true),
                ("byClaim", Type::Bool, false),
            ],
            Self::Gpu => &[
                ("product", Type::Text, false),
                ("memoryMiB", Type::Int, true),
                ("sharing", Type::Text, false),
                ("slotsPerDevice", Type::Int, false),
                ("devices", Type::Int, false),
                ("migProfile", Type::Text, true),
            ],
            Self::Node => &[("labels", Type::NodeLabels, false)],
        }
    }
}

/// What an expression asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reads {
    /// What it asks for by name.
    pub(super) objects: BTreeSet<Object>,
    /// Whether it asks for something that each container that asks for a GPU has of its own.
    pub(super) asks: bool,
    /// Whether it asks for more of a pod than its labels and its namespace.
    pub(super) facts: bool,
    /// Whether it asks for devices.
    pub(super) gpu: bool,
    /// Whether it asks for a node.
    pub(super) node: bool,
    /// The labels of nodes that it asks for.
    pub(super) node_labels: BTreeSet<String>,
}

const METHODS: [&str; 6] = [
    "startsWith",
    "endsWith",
    "contains",
    "lowerAscii",
    "upperAscii",
    "size",
];
const FUNCTIONS: [&str; 4] = ["has", "size", "int", "string"];

/// Checks that an expression is a condition over what it can see.
pub(super) fn check(node: &Node) -> Result<Reads, Wrong> {
    let mut checker = Checker {
        reads: Reads::default(),
        variables: Vec::new(),
    };
    let found = checker.of(node)?;
    if found != Type::Bool {
        return Err(Wrong::at(
            node.at,
            format!("the expression gives {}, and a condition is meant", found.told()),
        ));
    }
    Ok(checker.reads)
}

struct Checker {
    reads: Reads,
    /// Variables of the macros around, innermost last.
    variables: Vec<(String, Type)>,
}

impl Checker {
    fn of(&mut self, node: &Node) -> Result<Type, Wrong> {
        match &node.is {
            Is::Bool(_) => Ok(Type::Bool),
            Is::Int(_) => Ok(Type::Int),
            Is::Text(_) => Ok(Type::Text),
            Is::List(items) => self.list(items),
            Is::Name(name) => self.name(node.at, name),
            Is::Field(of, field, at) => self.field(*at, of, field, false),
            Is::Has(of, field) => self.field(node.at, of, field, true).map(|_| Type::Bool),
            Is::At(of, key) => self.at(of, key),
            Is::Call(target, name, arguments) => self.call(node.at, target.as_deref(), name, arguments),
            Is::Macro(_, over, variable, body) => self.quantified(node.at, over, variable, body),
            Is::Not(of) => self
                .demand(of, &Type::Bool, "! stands before")
                .map(|()| Type::Bool),
            Is::Minus(of) => self.demand(of, &Type::Int, "- stands before").map(|()| Type::Int),
            Is::Binary(operator, left, right) => self.binary(operator, left, right),
            Is::Choice(condition, one, other) => {
                self.demand(condition, &Type::Bool, "? stands behind")?;
                let (one, of_other) = (self.of(one)?, self.of(other)?);
                if !one.is_like(&of_other) {
                    return Err(Wrong::at(
                        other.at,
                        format!(
                            "? : gives {} or {}; both have to be alike",
                            one.told(),
                            of_other.told()
                        ),
                    ));
                }
                Ok(if one == Type::Any { of_other } else { one })
            }
        }
    }

    fn demand(&mut self, node: &Node, wanted: &Type, what: &str) -> Result<(), Wrong> {
        let found = self.of(node)?;
        if found.is_like(wanted) {
            return Ok(());
        }
        Err(Wrong::at(
            node.at,
            format!("{what} {}, and {} is meant", found.told(), wanted.told()),
        ))
    }

    fn list(&mut self, items: &[Node]) -> Result<Type, Wrong> {
        let mut of = Type::Any;
        for item in items {
            let found = self.of(item)?;
            if !found.is_like(&of) {
                return Err(Wrong::at(
                    item.at,
                    format!(
                        "is {} in a list of which another item is {}",
                        found.told(),
                        of.told()
                    ),
                ));
            }
            if matches!(found, Type::Object(_) | Type::Map | Type::NodeLabels) {
                return Err(Wrong::at(
                    item.at,
                    format!("{} cannot be an item of a list", found.told()),
                ));
            }
            if of == Type::Any {
                of = found;
            }
        }
        Ok(Type::List(Box::new(of)))
    }

    fn name(&mut self, at: usize, name: &str) -> Result<Type, Wrong> {
        if let Some((_, found)) = self.variables.iter().rev().find(|(known, _)| known == name) {
            return Ok(found.clone());
        }
        if let Some(object) = Object::named(name) {
            self.reads.objects.insert(object);
            match object {
                Object::Pod => {}
                Object::Container | Object::Request => {
                    self.reads.asks = true;
                    self.reads.facts = true;
                }
                Object::Gpu => {
                    self.reads.asks = true;
                    self.reads.gpu = true;
                    self.reads.facts = true;
                    self.reads.node = true;
                }
                Object::Node => self.reads.node = true,
            }
            return Ok(Type::Object(object));
        }
        let mut known: Vec<&str> = Object::ALL.iter().map(|object| object.name()).collect();
        known.extend(self.variables.iter().map(|(name, _)| name.as_str()));
        let hint = match name {
            "object" | "spec" | "metadata" => {
                "; an expression sees a few facts, not the object: pod, container, request, gpu, node"
                    .to_owned()
            }
            "namespace" | "namespaceObject" => "; write pod.namespace or pod.namespaceLabels".to_owned(),
            _ => hint(name, &known),
        };
        Err(Wrong::at(at, format!("{name} is no variable{hint}")))
    }

    fn field(&mut self, at: usize, of: &Node, field: &str, asked: bool) -> Result<Type, Wrong> {
        match self.of(of)? {
            Type::Object(object) => {
                let fields = object.fields();
                if let Some((_, found, can_be_absent)) = fields.iter().find(|(name, ..)| *name == field) {
                    if asked && !can_be_absent {
                        return Err(Wrong::at(
                            at,
                            format!("{}.{field} is always there; leave out has()", object.name()),
                        ));
                    }
                    let beside_labels = ["priorityClass", "runtimeClass"].contains(&field);
                    self.reads.facts |= object == Object::Pod && beside_labels;
                    return Ok(found.clone());
                }
                let known: Vec<&str> = fields.iter().map(|(name, ..)| *name).collect();
                let hint = match (object, field) {
                    (Object::Request, "userInfo" | "user" | "operation" | "kind" | "object" | "dryRun") => {
                        "; request is what the container asks for (resource, count, byClaim): a policy means the same \
                         for a pod that is created and for one that runs"
                            .to_owned()
                    }
                    (Object::Pod, "metadata" | "spec" | "annotations" | "name") | (Object::Node, "name") => {
                        format!("; known are {}", known.join(", "))
                    }
                    _ => hint(field, &known),
                };
                Err(Wrong::at(
                    at,
                    format!("{} has no field {field}{hint}", object.name()),
                ))
            }
            Type::Map => Ok(Type::Text),
            Type::NodeLabels => {
                self.reads.node_labels.insert(field.to_owned());
                Ok(Type::Text)
            }
            other => Err(Wrong::at(
                at,
                format!("{} has no fields, such as {field}", other.told()),
            )),
        }
    }

    fn at(&mut self, of: &Node, key: &Node) -> Result<Type, Wrong> {
        match self.of(of)? {
            Type::Map => self
                .demand(key, &Type::Text, "the key of a label is")
                .map(|()| Type::Text),
            Type::NodeLabels => self.node_label(key).map(|()| Type::Text),
            Type::List(item) => self
                .demand(key, &Type::Int, "the index of a list is")
                .map(|()| *item),
            other => Err(Wrong::at(of.at, format!("{} has no items", other.told()))),
        }
    }

    /// Nodes that differ in no label which a policy asks for are judged together, so it has to be known which.
    fn node_label(&mut self, key: &Node) -> Result<(), Wrong> {
        match &key.is {
            Is::Text(key) => {
                self.reads.node_labels.insert(key.clone());
                Ok(())
            }
            _ => Err(Wrong::at(
                key.at,
                "the key of a node's label has to be a constant text, such as node.labels[\"example.com/pool\"]",
            )),
        }
    }

    fn binary(&mut self, operator: &str, left: &Node, right: &Node) -> Result<Type, Wrong> {
        match operator {
            "&&" | "||" => {
                let what = format!("{operator} stands beside");
                self.demand(left, &Type::Bool, &what)?;
                self.demand(right, &Type::Bool, &what)?;
                Ok(Type::Bool)
            }
            "in" => {
                let item = self.of(left)?;
                match self.of(right)? {
                    Type::List(of) if of.is_like(&item) => Ok(Type::Bool),
                    Type::Map if item == Type::Text => Ok(Type::Bool),
                    Type::NodeLabels => self.node_label(left).map(|()| Type::Bool),
                    Type::List(of) => Err(Wrong::at(
                        left.at,
                        format!("is {}, and the list holds {}", item.told(), plural(&of)),
                    )),
                    Type::Map => Err(Wrong::at(
                        left.at,
                        format!("is {}, and a key is a text", item.told()),
                    )),
                    other => Err(Wrong::at(
                        right.at,
                        format!("in looks into a list or a map, and this is {}", other.told()),
                    )),
                }
            }
            "==" | "!=" => {
                let (one, other) = (self.of(left)?, self.of(right)?);
                let incomparable = |of: &Type| matches!(of, Type::Object(_) | Type::Map | Type::NodeLabels);
                if !one.is_like(&other) || incomparable(&one) {
                    return Err(Wrong::at(
                        left.at,
                        format!("{} is compared with {}", one.told(), other.told()),
                    ));
                }
                Ok(Type::Bool)
            }
            "<" | "<=" | ">" | ">=" => {
                let (one, other) = (self.of(left)?, self.of(right)?);
                let is_ordered = |of: &Type| matches!(of, Type::Int | Type::Text | Type::Any);
                if !one.is_like(&other) || !is_ordered(&one) {
                    return Err(Wrong::at(
                        left.at,
                        format!(
                            "{operator} compares two numbers or two texts, and these are {} and {}",
                            one.told(),
                            other.told()
                        ),
                    ));
                }
                Ok(Type::Bool)
            }
            _ => {
                let (one, other) = (self.of(left)?, self.of(right)?);
                match (&one, &other) {
                    (Type::Int, Type::Int) => Ok(Type::Int),
                    (Type::Text, Type::Text) if operator == "+" => Ok(Type::Text),
                    _ => Err(Wrong::at(
                        left.at,
                        format!("{operator} stands between {} and {}", one.told(), other.told()),
                    )),
                }
            }
        }
    }

    fn call(
        &mut self,
        at: usize,
        target: Option<&Node>,
        name: &str,
        arguments: &[Node],
    ) -> Result<Type, Wrong> {
        let Some(target) = target else {
            return self.function(at, name, arguments);
        };
        let of = self.of(target)?;
        let takes = match (name, &of) {
            ("startsWith" | "endsWith" | "contains", Type::Text) => 1,
            ("lowerAscii" | "upperAscii", Type::Text) | ("size", Type::Text | Type::Map | Type::List(_)) => 0,
            ("matches", _) => {
                return Err(Wrong::at(
                    at,
                    "matches is not known here: regular expressions are not evaluated; write startsWith, endsWith or contains",
                ));
            }
            (known, of) if METHODS.contains(&known) => {
                return Err(Wrong::at(at, format!("{known} cannot be asked of {}", of.told())));
            }
            ("filter" | "map", _) => {
                return Err(Wrong::at(
                    at,
                    format!("{name} is not known here; write exists, all or exists_one"),
                ));
            }
            _ => {
                return Err(Wrong::at(
                    at,
                    format!("{name} is no method{}", hint(name, &METHODS)),
                ));
            }
        };
        if arguments.len() != takes {
            return Err(Wrong::at(
                at,
                format!(
                    "{name} takes {takes} arguments, and {} stand here",
                    arguments.len()
                ),
            ));
        }
        for argument in arguments {
            self.demand(argument, &Type::Text, "the argument is")?;
        }
        Ok(match name {
            "size" => Type::Int,
            "lowerAscii" | "upperAscii" => Type::Text,
            _ => Type::Bool,
        })
    }

    fn function(&mut self, at: usize, name: &str, arguments: &[Node]) -> Result<Type, Wrong> {
        let [argument] = arguments else {
            let known = hint(name, &FUNCTIONS);
            return Err(Wrong::at(
                at,
                if FUNCTIONS.contains(&name) {
                    format!("{name} takes one argument, and {} stand here", arguments.len())
                } else {
                    format!("{name} is no function{known}")
                },
            ));
        };
        let of = self.of(argument)?;
        match (name, &of) {
            ("size", Type::Text | Type::Map | Type::List(_)) | ("int", Type::Text | Type::Int) => {
                Ok(Type::Int)
            }
            ("string", Type::Text | Type::Int | Type::Bool) => Ok(Type::Text),
            (known, of) if FUNCTIONS.contains(&known) => {
                Err(Wrong::at(at, format!("{known} cannot be asked of {}", of.told())))
            }
            _ => Err(Wrong::at(
                at,
                format!("{name} is no function{}", hint(name, &FUNCTIONS)),
            )),
        }
    }

    fn quantified(&mut self, at: usize, over: &Node, variable: &str, body: &Node) -> Result<Type, Wrong> {
        let item = match self.of(over)? {
            Type::List(item) => *item,
            Type::Map => Type::Text,
            Type::NodeLabels => {
                return Err(Wrong::at(
                    over.at,
                    "the labels of a node are asked by constant keys, such as \"example.com/pool\" in node.labels",
                ));
            }
            other => return Err(Wrong::at(at, format!("{} has no items", other.told()))),
        };
        if Object::named(variable).is_some() {
            return Err(Wrong::at(
                at,
                format!("{variable} is a variable already; choose another name"),
            ));
        }
        self.variables.push((variable.to_owned(), item));
        let found = self.demand(body, &Type::Bool, "the macro asks of each item");
        self.variables.pop();
        found.map(|()| Type::Bool)
    }
}

fn plural(of: &Type) -> &'static str {
    match of {
        Type::Bool => "conditions",
        Type::Int => "whole numbers",
        Type::Text => "texts",
        Type::Map | Type::NodeLabels | Type::List(_) | Type::Any | Type::Object(_) => "others",
    }
}
