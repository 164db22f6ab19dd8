//! The CEL of device selectors, as far as it compares attributes and capacities.
//!
//! What cannot be evaluated (other functions, attributes that are not kept, syntax that is not understood) is unknown and
//! never decides: `false && unknown` is false, `true && unknown` is unknown. An attribute that a device lacks is an error
//! in CEL, and a device whose selector ends in an error is allocated to nobody (`DeviceMatches` of kube-scheduler).

use super::devices::{Attribute, DRIVER, Kind, is_kept};
use crate::quantity::Quantity;

/// Nested expressions that are followed.
const DEEPEST: usize = 48;
/// Longest expression; the API server takes 10 KiB.
const LONGEST: usize = 10 << 10;

/// What an expression says of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    /// It is not selected.
    No,
    /// That cannot be told.
    Unknown,
    /// It is selected.
    Yes,
}

/// Evaluates an expression on a device of a kind.
pub(crate) fn selects(expression: &str, kind: &Kind) -> Answer {
    if expression.len() > LONGEST {
        return Answer::Unknown;
    }
    let mut reader = Reader {
        rest: expression,
        kind,
        depth: 0,
    };
    let value = reader.either();
    reader.blanks();
    match value {
        Some(value) if reader.rest.is_empty() => match value {
            Value::Bool(true) => Answer::Yes,
            Value::Bool(false) | Value::Error => Answer::No,
            // Unknown; an expression of another type is refused by the API server.
            _ => Answer::Unknown,
        },
        _ => Answer::Unknown,
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Bool(bool),
    Int(i64),
    Text(String),
    Quantity(Quantity),
    List(Vec<Value>),
    Device,
    Attributes,
    Capacities,
    /// Attributes or capacities of NVIDIA's driver.
    AttributesOf,
    CapacitiesOf,
    /// Those of somebody else, of which a GPU has none.
    Nothing,
    Unknown,
    Error,
}

impl Value {
    fn not(self) -> Self {
        match self {
            Self::Bool(value) => Self::Bool(!value),
            Self::Error => Self::Error,
            _ => Self::Unknown,
        }
    }

    /// `&&`: what is false decides, whatever the other side is.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Bool(false), _) | (_, Self::Bool(false)) => Self::Bool(false),
            (Self::Bool(true), Self::Bool(true)) => Self::Bool(true),
            (Self::Error | Self::Bool(true), Self::Error) | (Self::Error, Self::Bool(true)) => Self::Error,
            _ => Self::Unknown,
        }
    }

    fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }
}

struct Reader<'a> {
    rest: &'a str,
    kind: &'a Kind,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes a mark, if it is the next thing.
    fn takes(&mut self, mark: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn either(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut value = self.all()?;
        while self.takes("||") {
            let other = self.all()?;
            value = value.or(other);
        }
        self.depth -= 1;
        Some(value)
    }

    fn all(&mut self) -> Option<Value> {
        let mut value = self.comparison()?;
        while self.takes("&&") {
            let other = self.comparison()?;
            value = value.and(other);
        }
        Some(value)
    }

    fn comparison(&mut self) -> Option<Value> {
        let left = self.unary()?;
        for operator in ["==", "!=", "<=", ">=", "<", ">"] {
            if self.takes(operator) {
                let right = self.unary()?;
                return Some(compared(&left, operator, &right));
            }
        }
        self.blanks();
        if self.rest.starts_with("in ") || self.rest.starts_with("in[") {
            self.takes("in");
            let right = self.unary()?;
            return Some(contained(&left, &right));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Value> {
        let mut negated = false;
        self.blanks();
        while self.rest.starts_with('!') && !self.rest.starts_with("!=") {
            self.takes("!");
            negated = !negated;
            self.blanks();
        }
        let value = self.postfix()?;
        Some(if negated { value.not() } else { value })
    }

    fn postfix(&mut self) -> Option<Value> {
        let mut value = self.primary()?;
        loop {
            if self.takes("[") {
                let key = self.either()?;
                self.takes("]").then_some(())?;
                value = self.at(&value, &key);
            } else if self.takes(".") {
                let name = self.word()?;
                if self.takes("(") {
                    let arguments = self.arguments(")")?;
                    value = method(&value, name, &arguments);
                } else {
                    value = self.at(&value, &Value::Text(name.to_owned()));
                }
            } else {
                return Some(value);
            }
        }
    }

    fn primary(&mut self) -> Option<Value> {
        self.blanks();
        if self.takes("(") {
            let value = self.either()?;
            return self.takes(")").then_some(value);
        }
        if self.takes("[") {
            return Some(Value::List(self.arguments("]")?));
        }
        match self.rest.chars().next()? {
            quote @ ('\'' | '"') => self.text(quote),
            '-' | '0'..='9' => self.number(),
            _ => {
                let name = self.word()?;
                if self.takes("(") {
                    // `has()` asks only whether its argument is there.
                    let arguments = self.arguments(")")?;
                    return Some(function(name, &arguments));
                }
                Some(match name {
                    "device" => Value::Device,
                    "true" => Value::Bool(true),
                    "false" => Value::Bool(false),
                    _ => Value::Unknown,
                })
            }
        }
    }

    fn arguments(&mut self, end: &str) -> Option<Vec<Value>> {
        let mut arguments = Vec::new();
        if self.takes(end) {
            return Some(arguments);
        }
        loop {
            arguments.push(self.either()?);
            if self.takes(end) {
                return Some(arguments);
            }
            self.takes(",").then_some(())?;
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        self.blanks();
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn number(&mut self) -> Option<Value> {
        let end = self
            .rest
            .char_indices()
            .find(|(at, c)| !(c.is_ascii_digit() || *at == 0 && *c == '-'))
            .map_or(self.rest.len(), |(at, _)| at);
        let (digits, rest) = self.rest.split_at_checked(end)?;
        // A floating-point number is nothing that an attribute can be.
        if rest.starts_with(['.', 'e', 'E', 'x', 'u']) {
            return None;
        }
        self.rest = rest;
        digits.parse().ok().map(Value::Int)
    }

    /// A literal without escapes; names of products and profiles need none.
    fn text(&mut self, quote: char) -> Option<Value> {
        let inner = self.rest.strip_prefix(quote)?;
        let end = inner.find(quote)?;
        let (text, rest) = inner.split_at_checked(end)?;
        self.rest = rest.strip_prefix(quote)?;
        (!text.contains('\\')).then(|| Value::Text(text.to_owned()))
    }

    /// A field of `value`.
    fn at(&self, value: &Value, key: &Value) -> Value {
        let Value::Text(key) = key else {
            return Value::Unknown;
        };
        match (value, key.as_str()) {
            (Value::Device, "driver") => Value::Text(DRIVER.to_owned()),
            (Value::Device, "attributes") => Value::Attributes,
            (Value::Device, "capacity") => Value::Capacities,
            (Value::Device, "allowMultipleAllocations") => Value::Bool(self.kind.multiple),
            (Value::Attributes, DRIVER) => Value::AttributesOf,
            (Value::Capacities, DRIVER) => Value::CapacitiesOf,
            // Attributes that drivers share.
            (Value::Attributes | Value::Capacities, "resource.kubernetes.io") => Value::Unknown,
            (Value::Attributes | Value::Capacities, _) => Value::Nothing,
            (Value::AttributesOf, name) => match self.kind.attributes.get(name) {
                Some(Attribute::Text(text)) => Value::Text(text.to_string()),
                Some(Attribute::Int(number)) => Value::Int(*number),
                Some(Attribute::Bool(value)) => Value::Bool(*value),
                None if is_kept(name) => Value::Error,
                Some(Attribute::Version(_)) | None => Value::Unknown,
            },
            (Value::CapacitiesOf, name) => match self.kind.capacities.get(name) {
                Some(text) => Quantity::parse(text).map_or(Value::Unknown, Value::Quantity),
                None => Value::Error,
            },
            (Value::Nothing | Value::Error, _) => Value::Error,
            _ => Value::Unknown,
        }
    }
}

fn compared(left: &Value, operator: &str, right: &Value) -> Value {
    let order = match (left, right) {
        (Value::Error, _) | (_, Value::Error) => return Value::Error,
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Quantity(a), Value::Quantity(b)) => a.cmp(b),
        _ => return Value::Unknown,
    };
    Value::Bool(match operator {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    })
}

fn contained(value: &Value, list: &Value) -> Value {
    match (value, list) {
        (Value::Error, _) | (_, Value::Error) => Value::Error,
        (Value::Text(_) | Value::Int(_), Value::List(items)) => items
            .iter()
            .map(|item| compared(value, "==", item))
            .fold(Value::Bool(false), Value::or),
        // Whether a domain or a name is there at all.
        (Value::Text(domain), Value::Attributes) if domain == DRIVER => Value::Bool(true),
        _ => Value::Unknown,
    }
}

fn method(value: &Value, name: &str, arguments: &[Value]) -> Value {
    if matches!(value, Value::Error) || arguments.contains(&Value::Error) {
        return Value::Error;
    }
    match (value, name, arguments) {
        (Value::Text(text), "startsWith", [Value::Text(part)]) => {
            Value::Bool(text.starts_with(part.as_str()))
        }
        (Value::Text(text), "endsWith", [Value::Text(part)]) => Value::Bool(text.ends_with(part.as_str())),
        (Value::Text(text), "contains", [Value::Text(part)]) => Value::Bool(text.contains(part.as_str())),
        (Value::Text(text), "lowerAscii", []) => Value::Text(text.to_ascii_lowercase()),
        (Value::Text(text), "upperAscii", []) => Value::Text(text.to_ascii_uppercase()),
        (Value::Quantity(one), "compareTo", [Value::Quantity(other)]) => Value::Int(match one.cmp(other) {
            std::cmp::Ordering::Less => -1,
            std::cmp::Ordering::Equal => 0,
            std::cmp::Ordering::Greater => 1,
        }),
        (Value::Quantity(one), "isGreaterThan", [Value::Quantity(other)]) => Value::Bool(one > other),
        (Value::Quantity(one), "isLessThan", [Value::Quantity(other)]) => Value::Bool(one < other),
        _ => Value::Unknown,
    }
}

fn function(name: &str, arguments: &[Value]) -> Value {
    match (name, arguments) {
        ("has", [Value::Error]) => Value::Bool(false),
        ("has", [Value::Unknown]) => Value::Unknown,
        ("has", [_]) => Value::Bool(true),
        ("quantity", [Value::Text(text)]) => Quantity::parse(text).map_or(Value::Unknown, Value::Quantity),
        _ => Value::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dra::devices::tests::{gpu, mig};

    #[test]
    fn comparisons_of_attributes_and_capacities() {
        let gpu = gpu("NVIDIA H100 80GB HBM3", "81559Mi");
        let mig = mig("NVIDIA H100 80GB HBM3", "1g.10gb", "9984Mi");
        for (expression, of_gpu, of_mig) in [
            ("device.driver == 'gpu.nvidia.com'", Answer::Yes, Answer::Yes),
            ("device.driver == \"nic.example.com\"", Answer::No, Answer::No),
            (
                "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
                Answer::Yes,
                Answer::No,
            ),
            (
                "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'",
                Answer::No,
                Answer::Yes,
            ),
            (
                "device.attributes[\"gpu.nvidia.com\"].type == \"mig\"\n && device.attributes[\"gpu.nvidia.com\"].profile in ['1g.10gb', '2g.20gb']",
                Answer::No,
                Answer::Yes,
            ),
            (
                "device.attributes['gpu.nvidia.com'].productName.lowerAscii().contains('h100')",
                Answer::Yes,
                Answer::Yes,
            ),
            (
                "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
                Answer::Yes,
                Answer::No,
            ),
            (
                "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('40Gi'))",
                Answer::Yes,
                Answer::No,
            ),
            (
                "!(device.attributes['gpu.nvidia.com'].type == 'mig')",
                Answer::Yes,
                Answer::No,
            ),
            (
                "has(device.attributes['gpu.nvidia.com'].profile)",
                Answer::No,
                Answer::Yes,
            ),
            (
                "device.attributes['nic.example.com'].speed == 100",
                Answer::No,
                Answer::No,
            ),
            (
                "device.attributes['nic.example.com'].speed == 100 || true",
                Answer::Yes,
                Answer::Yes,
            ),
            (
                "device.attributes['gpu.nvidia.com'].uuid == 'GPU-1'",
                Answer::Unknown,
                Answer::Unknown,
            ),
            (
                "device.attributes['gpu.nvidia.com'].uuid == 'GPU-1' && device.attributes['gpu.nvidia.com'].type == 'mig'",
                Answer::No,
                Answer::Unknown,
            ),
            (
                "device.attributes['gpu.nvidia.com'].productName.matches('^NVIDIA.*')",
                Answer::Unknown,
                Answer::Unknown,
            ),
            (
                "cel.bind(a, device.attributes, a['gpu.nvidia.com'].type == 'gpu')",
                Answer::Unknown,
                Answer::Unknown,
            ),
            (
                "device.driver == 'gpu.nvidia.com' ? true : false",
                Answer::Unknown,
                Answer::Unknown,
            ),
            ("", Answer::Unknown, Answer::Unknown),
            ("'a\\n' == 'a'", Answer::Unknown, Answer::Unknown),
            ("device.driver", Answer::Unknown, Answer::Unknown),
            ("1.5 < 2", Answer::Unknown, Answer::Unknown),
            ("\u{e9} == 1", Answer::Unknown, Answer::Unknown),
        ] {
            assert_eq!(selects(expression, &gpu), of_gpu, "{expression}");
            assert_eq!(selects(expression, &mig), of_mig, "{expression}");
        }
    }

    #[test]
    fn what_is_nested_or_long_ends() {
        let gpu = gpu("NVIDIA L40S", "46068Mi");
        for expression in [
            "(".repeat(5_000),
            "!".repeat(9_000),
            "[".repeat(9_000),
            "a(".repeat(4_000),
            "true||".repeat(1_500),
        ] {
            assert_eq!(selects(&expression, &gpu), Answer::Unknown);
        }
        assert_eq!(selects(&"x".repeat(LONGEST + 1), &gpu), Answer::Unknown);
        assert_eq!(selects(&format!("{}true", "!".repeat(9_000)), &gpu), Answer::Yes);
    }
}
