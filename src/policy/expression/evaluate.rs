//! What an expression gives. The `cel` crate evaluates it over maps of what is known of a pod; what fails is told in the
//! words of this documentation.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, IdedExpr, Value};

use super::cost::{self, Sizes};
use super::facts::{Ask, NodeView, PodFacts, profile, sharing};
use super::parse::{Is, Node};
use super::types::Object;
use super::{Labels, MOST_STEPS};
use crate::device::Pool;
use crate::finding::short;

/// Why an expression gives nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A map of labels lacks a key.
    NoKey(String, String),
    /// A field is absent.
    Absent(String),
    /// What it asks for is not known of the pod at all.
    NotKnown,
    /// A number beyond 64 bits.
    Overflow,
    DivisionByZero,
    /// It may take too long.
    Steps,
    /// What else the evaluation tells.
    Other(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey(map, key) => write!(f, "{map} has no {key:?}; ask {key:?} in {map} first"),
            Self::Absent(field) => write!(f, "{field} is absent; ask has({field}) first"),
            Self::NotKnown => f.write_str("the pod is known by its labels alone"),
            Self::Overflow => f.write_str("a number goes beyond 64 bits"),
            Self::DivisionByZero => f.write_str("a number is divided by 0"),
            Self::Steps => write!(f, "it can take more than {MOST_STEPS} steps"),
            Self::Other(told) => f.write_str(told),
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

/// The functions of CEL, with those for texts that the API server knows as well.
static FUNCTIONS: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // Declared twice by a later release of the crate, the functions would be there all the same.
    let _ = env.add_extension(cel::extensions::strings);
    Arc::new(env)
});

/// Evaluates a checked expression that asks for these objects.
pub(super) fn evaluate(
    program: &IdedExpr,
    shape: &Node,
    objects: &BTreeSet<Object>,
    scene: Scene<'_>,
) -> Result<bool, Fault> {
    if cost::steps(shape, scene.sizes()) > MOST_STEPS {
        return Err(Fault::Steps);
    }
    let mut context = Context::with_env(Arc::clone(&FUNCTIONS));
    for object in objects {
        context.add_variable_from_value(object.name(), scene.value(*object));
    }
    match Value::resolve(program, &context) {
        Ok(Value::Bool(value)) => Ok(value),
        Ok(_) => Err(Fault::Other("it gives no condition".to_owned())),
        Err(error) => Err(scene.fault(shape, &error)),
    }
}

impl Scene<'_> {
    fn sizes(&self) -> Sizes {
        let maps = [
            Some(self.namespace),
            Some(self.labels),
            self.node.map(|node| node.labels),
        ];
        let maps = || maps.iter().flatten();
        let entries = || maps().flat_map(|map| map.iter());
        let labels = entries().flat_map(|(key, value)| [key.len(), value.len()]);
        let facts = self.facts.iter().flat_map(|facts| {
            [&facts.priority_class, &facts.runtime_class]
                .into_iter()
                .flatten()
                .map(|text| text.len())
        });
        let ask = self.ask.iter().flat_map(|ask| {
            let resource = ask.slots.as_ref().map_or(0, |(resource, _)| resource.len());
            [ask.container.len(), ask.image.len(), resource]
        });
        let product = self.pool.iter().map(|pool| pool.product.len());
        let longest = labels.chain(facts).chain(ask).chain(product).max();
        Sizes {
            text: longest.unwrap_or_default() as u64,
            keys: maps().map(|map| map.len()).max().unwrap_or_default() as u64,
        }
    }

    /// What an expression sees of an object: a field that is absent is left out.
    fn value(&self, object: Object) -> Value {
        let text = |text: &str| Value::from(text.to_owned());
        let whole = |number: u32| Value::from(i64::from(number));
        let mut fields: HashMap<String, Value> = HashMap::new();
        let mut put = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(field.to_owned(), value);
            }
        };
        match object {
            Object::Pod => {
                put(
                    "namespace",
                    self.namespace
                        .get("kubernetes.io/metadata.name")
                        .map(|name| text(name)),
                );
                put("namespaceLabels", Some(map(self.namespace)));
                put("labels", Some(map(self.labels)));
                let facts = self.facts;
                put(
                    "priorityClass",
                    facts.and_then(|facts| facts.priority_class.as_deref().map(text)),
                );
                put(
                    "runtimeClass",
                    facts.and_then(|facts| facts.runtime_class.as_deref().map(text)),
                );
            }
            Object::Container => {
                put("name", self.ask.map(|ask| text(&ask.container)));
                put("image", self.ask.map(|ask| text(&ask.image)));
            }
            Object::Request => {
                let slots = self.ask.and_then(|ask| ask.slots.as_ref());
                put("resource", slots.map(|(resource, _)| text(resource)));
                put("count", slots.map(|(_, count)| whole(*count)));
                put("byClaim", self.ask.map(|ask| Value::Bool(ask.slots.is_none())));
            }
            Object::Gpu => {
                let pool = self.pool;
                put("product", pool.map(|pool| text(&pool.product)));
                let total = pool.and_then(|pool| i64::try_from(pool.total?.get()).ok());
                put("memoryMiB", total.map(Value::from));
                put("sharing", pool.map(|pool| text(sharing(pool))));
                put(
                    "slotsPerDevice",
                    pool.map(|pool| whole(pool.sharing.slots_per_device())),
                );
                put("devices", pool.map(|pool| whole(pool.devices)));
                put("migProfile", pool.and_then(profile).map(text));
            }
            Object::Node => put("labels", self.node.map(|node| map(node.labels))),
        }
        Value::from(fields)
    }

    /// What the evaluation tells, in words that name what to ask first.
    fn fault(&self, shape: &Node, error: &ExecutionError) -> Fault {
        match error {
            ExecutionError::NoSuchKey(key) => self
                .missing(shape, key)
                .unwrap_or_else(|| Fault::NoKey("the map".to_owned(), short(key))),
            ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => Fault::DivisionByZero,
            ExecutionError::Overflow(..) => Fault::Overflow,
            ExecutionError::IndexOutOfBounds(Value::Int(index)) => {
                Fault::Other(format!("a list has no item {index}"))
            }
            other => Fault::Other(short(&other.to_string())),
        }
    }

    /// The first access by this key to a map or an object that lacks it.
    fn missing(&self, node: &Node, key: &str) -> Option<Fault> {
        match &node.is {
            Is::Field(of, field, _) if field == key => {
                if let Some(found) = self.missing(of, key) {
                    return Some(found);
                }
                match &of.is {
                    Is::Name(object) => Some(Fault::Absent(format!("{object}.{field}"))),
                    _ => self.lacks(of, key),
                }
            }
            Is::At(of, by) => {
                let within = self.missing(of, key).or_else(|| self.missing(by, key));
                within.or_else(|| match &by.is {
                    Is::Text(text) if text != key => None,
                    _ => self.lacks(of, key),
                })
            }
            _ => node.parts().find_map(|part| self.missing(part, key)),
        }
    }

    /// That a map of labels, by its name, lacks a key.
    fn lacks(&self, map: &Node, key: &str) -> Option<Fault> {
        let Is::Field(object, field, _) = &map.is else {
            return None;
        };
        let Is::Name(object) = &object.is else {
            return None;
        };
        let labels = match (object.as_str(), field.as_str()) {
            ("pod", "labels") => Some(self.labels),
            ("pod", "namespaceLabels") => Some(self.namespace),
            ("node", "labels") => self.node.map(|node| node.labels),
            _ => None,
        }?;
        (!labels.contains_key(key)).then(|| Fault::NoKey(format!("{object}.{field}"), short(key)))
    }
}

fn map(labels: &Labels) -> Value {
    let labels: HashMap<String, Value> = labels
        .iter()
        .map(|(key, value)| (key.clone(), Value::from(value.clone())))
        .collect();
    Value::from(labels)
}
