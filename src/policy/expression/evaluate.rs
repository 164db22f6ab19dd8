//! What an expression gives, by the rules of CEL: an error on one side of `&&` and `||` does not count where the other
//! side decides.

use std::borrow::Cow;
use std::fmt;

use super::facts::{Ask, NodeView, PodFacts, profile, sharing};
use super::parse::{Is, Node, Quantifier};
use super::types::Object;
use super::{Labels, MOST_STEPS};
use crate::device::Pool;

/// Bytes of text that cost one step.
const BYTES_PER_STEP: usize = 32;

/// Why an expression gives nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A map lacks a key.
    NoKey(&'static str, String),
    /// A field is absent.
    Absent(Object, &'static str),
    /// What it asks for is not known of the pod at all.
    NotKnown,
    /// A list has no such item.
    NoItem(i64),
    /// A number beyond 64 bits.
    Overflow,
    DivisionByZero,
    /// `int()` of a text that is none.
    NoNumber(String),
    /// It takes too long.
    Steps,
    /// Types that the check of the expression lets through no more.
    Types,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey(map, key) => write!(f, "{map} has no {key:?}; ask {key:?} in {map} first"),
            Self::Absent(object, field) => {
                let name = object.name();
                write!(f, "{name}.{field} is absent; ask has({name}.{field}) first")
            }
            Self::NotKnown => f.write_str("the pod is known by its labels alone"),
            Self::NoItem(index) => write!(f, "a list has no item {index}"),
            Self::Overflow => f.write_str("a number goes beyond 64 bits"),
            Self::DivisionByZero => f.write_str("a number is divided by 0"),
            Self::NoNumber(text) => write!(f, "{text:?} is no whole number"),
            Self::Steps => write!(f, "it takes more than {MOST_STEPS} steps"),
            Self::Types => f.write_str("values of different types meet"),
        }
    }
}

/// What is asked about: one container that asks for a GPU, on one kind of node.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) namespace: &'a Labels,
    pub(super) labels: &'a Labels,
    pub(super) facts: Option<&'a PodFacts>,
    pub(super) ask: Option<&'a Ask>,
    pub(super) node: Option<NodeView<'a>>,
    pub(super) pool: Option<&'a Pool>,
}

/// Evaluates a checked expression.
pub(super) fn evaluate(node: &Node, scene: Scene<'_>) -> Result<bool, Fault> {
    let mut run = Run {
        scene,
        steps: 0,
        variables: Vec::new(),
    };
    match run.of(node)? {
        Value::Bool(value) => Ok(value),
        _ => Err(Fault::Types),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Value<'a> {
    Bool(bool),
    Int(i64),
    Text(Cow<'a, str>),
    List(Vec<Value<'a>>),
    /// Labels, and what they are called.
    Map(&'static str, &'a Labels),
    Object(Object),
}

struct Run<'a> {
    scene: Scene<'a>,
    steps: usize,
    variables: Vec<(&'a str, Value<'a>)>,
}

impl<'a> Run<'a> {
    fn step(&mut self, steps: usize) -> Result<(), Fault> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MOST_STEPS {
            return Err(Fault::Steps);
        }
        Ok(())
    }

    fn of(&mut self, node: &'a Node) -> Result<Value<'a>, Fault> {
        self.step(1)?;
        match &node.is {
            Is::Bool(value) => Ok(Value::Bool(*value)),
            Is::Int(value) => Ok(Value::Int(*value)),
            Is::Text(text) => Ok(Value::Text(Cow::Borrowed(text))),
            Is::List(items) => {
                let items: Result<_, Fault> = items.iter().map(|item| self.of(item)).collect();
                items.map(Value::List)
            }
            Is::Name(name) => {
                let variable = self.variables.iter().rev().find(|(known, _)| known == name);
                match variable {
                    Some((_, value)) => Ok(value.clone()),
                    None => Object::named(name).map(Value::Object).ok_or(Fault::Types),
                }
            }
            Is::Field(of, field, _) => {
                let of = self.of(of)?;
                self.field(&of, field)
            }
            Is::Has(of, field) => {
                let of = self.of(of)?;
                match self.field(&of, field) {
                    Ok(_) => Ok(Value::Bool(true)),
                    Err(Fault::NoKey(..) | Fault::Absent(..)) => Ok(Value::Bool(false)),
                    Err(fault) => Err(fault),
                }
            }
            Is::At(of, key) => {
                let (of, key) = (self.of(of)?, self.of(key)?);
                match (of, key) {
                    (of @ Value::Map(..), Value::Text(key)) => self.field(&of, &key),
                    (Value::List(mut items), Value::Int(index)) => {
                        let position = usize::try_from(index).ok().filter(|index| *index < items.len());
                        position
                            .map(|index| items.swap_remove(index))
                            .ok_or(Fault::NoItem(index))
                    }
                    _ => Err(Fault::Types),
                }
            }
            Is::Call(target, name, arguments) => {
                let target = target.as_deref().map(|target| self.of(target)).transpose()?;
                let arguments: Result<Vec<_>, Fault> = arguments.iter().map(|node| self.of(node)).collect();
                self.call(target, name, arguments?)
            }
            Is::Macro(quantifier, over, variable, body) => self.quantified(*quantifier, over, variable, body),
            Is::Not(of) => match self.of(of)? {
                Value::Bool(value) => Ok(Value::Bool(!value)),
                _ => Err(Fault::Types),
            },
            Is::Minus(of) => match self.of(of)? {
                Value::Int(value) => value.checked_neg().map(Value::Int).ok_or(Fault::Overflow),
                _ => Err(Fault::Types),
            },
            Is::Binary(operator @ ("&&" | "||"), left, right) => self.joined(operator, left, right),
            Is::Binary(operator, left, right) => {
                let (left, right) = (self.of(left)?, self.of(right)?);
                self.binary(operator, left, right)
            }
            Is::Choice(condition, one, other) => match self.of(condition)? {
                Value::Bool(true) => self.of(one),
                Value::Bool(false) => self.of(other),
                _ => Err(Fault::Types),
            },
        }
    }

    /// What decides counts, on whichever side it stands.
    fn joined(&mut self, operator: &str, left: &'a Node, right: &'a Node) -> Result<Value<'a>, Fault> {
        let decides = operator == "||";
        let left = self.of(left);
        if left == Ok(Value::Bool(decides)) {
            return left;
        }
        match (left, self.of(right)) {
            (_, Ok(Value::Bool(value))) if value == decides => Ok(Value::Bool(value)),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            (Ok(Value::Bool(_)), Ok(Value::Bool(value))) => Ok(Value::Bool(value)),
            _ => Err(Fault::Types),
        }
    }

    fn field(&self, of: &Value<'a>, field: &str) -> Result<Value<'a>, Fault> {
        let object = match of {
            Value::Map(name, map) => {
                return match map.get(field) {
                    Some(value) => Ok(Value::Text(Cow::Borrowed(value))),
                    None => Err(Fault::NoKey(name, crate::finding::short(field))),
                };
            }
            Value::Object(object) => *object,
            _ => return Err(Fault::Types),
        };
        let scene = self.scene;
        let text = |text: &'a str| Value::Text(Cow::Borrowed(text));
        let facts = || scene.facts.ok_or(Fault::NotKnown);
        let ask = || scene.ask.ok_or(Fault::NotKnown);
        let pool = || scene.pool.ok_or(Fault::NotKnown);
        let found = match (object, field) {
            (Object::Pod, "namespace") => scene
                .namespace
                .get("kubernetes.io/metadata.name")
                .map(|name| text(name)),
            (Object::Pod, "namespaceLabels") => Some(Value::Map("pod.namespaceLabels", scene.namespace)),
            (Object::Pod, "labels") => Some(Value::Map("pod.labels", scene.labels)),
            (Object::Pod, "priorityClass") => facts()?.priority_class.as_deref().map(text),
            (Object::Pod, "runtimeClass") => facts()?.runtime_class.as_deref().map(text),
            (Object::Container, "name") => Some(text(&ask()?.container)),
            (Object::Container, "image") => Some(text(&ask()?.image)),
            (Object::Request, "resource") => ask()?.slots.as_ref().map(|(resource, _)| text(resource)),
            (Object::Request, "count") => ask()?
                .slots
                .as_ref()
                .map(|(_, count)| Value::Int(i64::from(*count))),
            (Object::Request, "byClaim") => Some(Value::Bool(ask()?.slots.is_none())),
            (Object::Gpu, "product") => Some(text(&pool()?.product)),
            (Object::Gpu, "memoryMiB") => {
                let total = pool()?.total.and_then(|total| i64::try_from(total.get()).ok());
                total.map(Value::Int)
            }
            (Object::Gpu, "sharing") => Some(text(sharing(pool()?))),
            (Object::Gpu, "slotsPerDevice") => {
                Some(Value::Int(i64::from(pool()?.sharing.slots_per_device())))
            }
            (Object::Gpu, "devices") => Some(Value::Int(i64::from(pool()?.devices))),
            (Object::Gpu, "migProfile") => profile(pool()?).map(text),
            (Object::Node, "labels") => scene.node.map(|node| Value::Map("node.labels", node.labels)),
            _ => return Err(Fault::Types),
        };
        let known = object.fields().iter().find(|(name, ..)| *name == field);
        found.ok_or_else(|| known.map_or(Fault::Types, |(name, ..)| Fault::Absent(object, name)))
    }

    fn binary(&mut self, operator: &str, left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, Fault> {
        match (operator, left, right) {
            ("in", Value::Text(key), Value::Map(_, map)) => Ok(Value::Bool(map.contains_key(&*key))),
            ("in", item, Value::List(items)) => {
                let cost = items.iter().map(cost).sum();
                self.step(cost)?;
                Ok(Value::Bool(items.contains(&item)))
            }
            ("==", left, right) => {
                self.step(cost(&left))?;
                Ok(Value::Bool(left == right))
            }
            ("!=", left, right) => {
                self.step(cost(&left))?;
                Ok(Value::Bool(left != right))
            }
            ("<" | "<=" | ">" | ">=", left, right) => {
                self.step(cost(&left))?;
                let order = match (&left, &right) {
                    (Value::Int(one), Value::Int(other)) => one.cmp(other),
                    (Value::Text(one), Value::Text(other)) => one.cmp(other),
                    _ => return Err(Fault::Types),
                };
                Ok(Value::Bool(match operator {
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    _ => order.is_ge(),
                }))
            }
            ("+", Value::Text(one), Value::Text(other)) => {
                self.step((one.len() + other.len()) / BYTES_PER_STEP)?;
                Ok(Value::Text(Cow::Owned(format!("{one}{other}"))))
            }
            ("+", Value::Int(one), Value::Int(other)) => number(one.checked_add(other)),
            ("-", Value::Int(one), Value::Int(other)) => number(one.checked_sub(other)),
            ("*", Value::Int(one), Value::Int(other)) => number(one.checked_mul(other)),
            ("/" | "%", Value::Int(_), Value::Int(0)) => Err(Fault::DivisionByZero),
            ("/", Value::Int(one), Value::Int(other)) => number(one.checked_div(other)),
            ("%", Value::Int(one), Value::Int(other)) => number(one.checked_rem(other)),
            _ => Err(Fault::Types),
        }
    }

    fn call(
        &mut self,
        target: Option<Value<'a>>,
        name: &str,
        arguments: Vec<Value<'a>>,
    ) -> Result<Value<'a>, Fault> {
        let mut values = target.into_iter().chain(arguments);
        let (Some(of), argument) = (values.next(), values.next()) else {
            return Err(Fault::Types);
        };
        self.step(cost(&of))?;
        match (name, of, argument) {
            ("startsWith", Value::Text(of), Some(Value::Text(part))) => {
                Ok(Value::Bool(of.starts_with(&*part)))
            }
            ("endsWith", Value::Text(of), Some(Value::Text(part))) => Ok(Value::Bool(of.ends_with(&*part))),
            ("contains", Value::Text(of), Some(Value::Text(part))) => Ok(Value::Bool(of.contains(&*part))),
            ("lowerAscii", Value::Text(of), None) => Ok(Value::Text(Cow::Owned(of.to_ascii_lowercase()))),
            ("upperAscii", Value::Text(of), None) => Ok(Value::Text(Cow::Owned(of.to_ascii_uppercase()))),
            ("size", Value::Text(of), None) => length(of.chars().count()),
            ("size", Value::List(of), None) => length(of.len()),
            ("size", Value::Map(_, of), None) => length(of.len()),
            ("int", Value::Text(of), None) => of
                .parse()
                .map(Value::Int)
                .map_err(|_| Fault::NoNumber(crate::finding::short(&of))),
            ("int", of @ Value::Int(_), None) | ("string", of @ Value::Text(_), None) => Ok(of),
            ("string", Value::Int(of), None) => Ok(Value::Text(Cow::Owned(of.to_string()))),
            ("string", Value::Bool(of), None) => Ok(Value::Text(Cow::Owned(of.to_string()))),
            _ => Err(Fault::Types),
        }
    }

    fn quantified(
        &mut self,
        quantifier: Quantifier,
        over: &'a Node,
        variable: &'a str,
        body: &'a Node,
    ) -> Result<Value<'a>, Fault> {
        let items: Vec<Value<'a>> = match self.of(over)? {
            Value::List(items) => items,
            Value::Map(_, map) => map.keys().map(|key| Value::Text(Cow::Borrowed(key))).collect(),
            _ => return Err(Fault::Types),
        };
        let mut fault = None;
        let mut held = 0_usize;
        for item in items {
            self.variables.push((variable, item));
            let holds = self.of(body);
            self.variables.pop();
            match (quantifier, holds) {
                // An end of the budget is never outvoted.
                (_, Err(Fault::Steps)) => return Err(Fault::Steps),
                (Quantifier::All, Ok(Value::Bool(false))) => return Ok(Value::Bool(false)),
                (Quantifier::Exists, Ok(Value::Bool(true))) => return Ok(Value::Bool(true)),
                (_, Ok(Value::Bool(holds))) => held += usize::from(holds),
                (Quantifier::ExistsOne, Err(fault)) => return Err(fault),
                (_, Err(of)) => fault = fault.or(Some(of)),
                (_, Ok(_)) => return Err(Fault::Types),
            }
        }
        match (fault, quantifier) {
            (Some(fault), _) => Err(fault),
            (None, Quantifier::All) => Ok(Value::Bool(true)),
            (None, Quantifier::Exists) => Ok(Value::Bool(false)),
            (None, Quantifier::ExistsOne) => Ok(Value::Bool(held == 1)),
        }
    }
}

fn number<'a>(value: Option<i64>) -> Result<Value<'a>, Fault> {
    value.map(Value::Int).ok_or(Fault::Overflow)
}

fn length<'a>(length: usize) -> Result<Value<'a>, Fault> {
    number(i64::try_from(length).ok())
}

/// Steps that looking at a value takes.
fn cost(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len() / BYTES_PER_STEP,
        Value::List(items) => items.iter().map(|item| 1 + cost(item)).sum(),
        Value::Bool(_) | Value::Int(_) | Value::Map(..) | Value::Object(_) => 0,
    }
}
