//! From words to a tree. The grammar is that of the `cel` crate; its tree becomes the smaller one of what an expression of a
//! policy may say, with the place of each part.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};
use cel::parser::Parser;
use cel::{ParseErrors, common::types};

use super::{DEEPEST, MOST_NODES, Wrong};
use crate::finding::short;

/// An expression and where it begins in the source, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) is: Is,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Is {
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<Node>),
    Name(String),
    /// `of.field`, and where the field begins.
    Field(Box<Node>, String, usize),
    /// `has(of.field)`.
    Has(Box<Node>, String),
    /// `of[key]`.
    At(Box<Node>, Box<Node>),
    /// `name(…)` or `target.name(…)`.
    Call(Option<Box<Node>>, String, Vec<Node>),
    /// `of.exists(variable, body)` and its like.
    Macro(Quantifier, Box<Node>, String, Box<Node>),
    Not(Box<Node>),
    Minus(Box<Node>),
    Binary(&'static str, Box<Node>, Box<Node>),
    /// `condition ? one : other`.
    Choice(Box<Node>, Box<Node>, Box<Node>),
}

impl Node {
    /// What it is made of.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Self> {
        let (single, many): (Vec<&Self>, &[Self]) = match &self.is {
            Is::Bool(_) | Is::Int(_) | Is::Text(_) | Is::Name(_) => (Vec::new(), &[]),
            Is::List(items) => (Vec::new(), items),
            Is::Field(of, ..) | Is::Has(of, _) | Is::Not(of) | Is::Minus(of) => (vec![of], &[]),
            Is::At(one, other) | Is::Macro(_, one, _, other) | Is::Binary(_, one, other) => {
                (vec![one, other], &[])
            }
            Is::Call(target, _, arguments) => (target.iter().map(AsRef::as_ref).collect(), arguments),
            Is::Choice(condition, one, other) => (vec![condition, one, other], &[]),
        };
        single.into_iter().chain(many)
    }
}

/// A macro over the items of a list or the keys of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

/// Operators between two values, as the `cel` crate calls them and as they are written.
const BINARY: [(&str, &str); 14] = [
    (operators::LOGICAL_AND, "&&"),
    (operators::LOGICAL_OR, "||"),
    (operators::IN, "in"),
    (operators::EQUALS, "=="),
    (operators::NOT_EQUALS, "!="),
    (operators::LESS, "<"),
    (operators::LESS_EQUALS, "<="),
    (operators::GREATER, ">"),
    (operators::GREATER_EQUALS, ">="),
    (operators::ADD, "+"),
    (operators::SUBSTRACT, "-"),
    (operators::MULTIPLY, "*"),
    (operators::DIVIDE, "/"),
    (operators::MODULO, "%"),
];

/// Stack of the thread that reads a source. The parser calls itself for each part within a part, so a chain of operators
/// as long as an expression may be needs more than a thread has by default; what is not used costs nothing.
const STACK: usize = 128 << 20;

/// Reads a source: what the `cel` crate evaluates, and what is checked before it may.
pub(super) fn parse(source: &str) -> Result<(IdedExpr, Node), Wrong> {
    bounded(source)?;
    std::thread::scope(|scope| {
        let read = std::thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, || read(source));
        let read = read.map_err(|error| Wrong::at(0, format!("cannot be read now: {error}")))?;
        read.join()
            .unwrap_or_else(|_| Err(Wrong::at(0, "is no expression of CEL")))
    })
}

fn read(source: &str) -> Result<(IdedExpr, Node), Wrong> {
    let parser = Parser::default()
        .max_recursion_depth(4 * DEEPEST)
        .error_recovery_limit(1);
    let (program, places) = parser
        .parse_with_source_info(source)
        .map_err(|errors| first(&errors, source))?;
    let mut reader = Reader {
        source,
        places: &places,
        nodes: 0,
        depth: 0,
    };
    let node = reader.node(&program)?;
    Ok((program, node))
}

/// Refuses brackets within brackets before the parser meets them. Those within texts count as well where a text holds
/// quotation marks: no condition over labels needs so many.
fn bounded(source: &str) -> Result<(), Wrong> {
    let mut depth = 0_u16;
    let mut quote = None;
    let mut escaped = false;
    for (at, sign) in source.char_indices() {
        match (quote, sign) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) => {
                if sign == open {
                    quote = None;
                }
            }
            (None, '\'' | '"') => quote = Some(sign),
            (None, '(' | '[' | '{' | '?') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
        if depth > DEEPEST {
            return Err(Wrong::at(
                at,
                format!("the expression is nested more than {DEEPEST} levels deep"),
            ));
        }
    }
    Ok(())
}

/// The first of what the parser tells, at its place.
fn first(errors: &ParseErrors, source: &str) -> Wrong {
    let Some(error) = errors.errors.first() else {
        return Wrong::at(0, "is no expression of CEL");
    };
    let (line, column) = (
        usize::try_from(error.pos.0).unwrap_or(1).max(1),
        usize::try_from(error.pos.1).unwrap_or(1).max(1),
    );
    let before: usize = source.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let within = source.get(before..).unwrap_or_default();
    let at = within
        .char_indices()
        .nth(column - 1)
        .map_or(within.len(), |(at, _)| at);
    let told = error.msg.strip_prefix("Syntax error: ").unwrap_or(&error.msg);
    let told = told.split(" expecting {").next().unwrap_or(told);
    let told = told.lines().next().unwrap_or(told).trim_end();
    Wrong::at(before + at, format!("is no expression of CEL: {}", short(told)))
}

struct Reader<'a> {
    source: &'a str,
    places: &'a SourceInfo,
    nodes: usize,
    depth: u16,
}

impl Reader<'_> {
    /// Where a part begins, in bytes. Of a call the parser notes the bracket; its name stands before it.
    fn at(&self, id: u64) -> usize {
        let at = self.noted(id);
        let before = self.source.get(..at).unwrap_or_default();
        if !self.source.get(at..).unwrap_or_default().starts_with('(') {
            return at;
        }
        before
            .trim_end_matches(|sign: char| sign.is_ascii_alphanumeric() || sign == '_')
            .len()
    }

    fn noted(&self, id: u64) -> usize {
        let characters = self.places.offset_for(id).map_or(0, |(start, _)| start);
        let mut starts = self.source.char_indices().map(|(at, _)| at);
        usize::try_from(characters)
            .ok()
            .and_then(|characters| starts.nth(characters))
            .unwrap_or(self.source.len())
    }

    fn node(&mut self, expr: &IdedExpr) -> Result<Node, Wrong> {
        let at = self.at(expr.id);
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(Wrong::at(
                0,
                format!("the expression has more than {MOST_NODES} parts"),
            ));
        }
        if self.depth >= DEEPEST {
            return Err(Wrong::at(
                at,
                format!("the expression is nested more than {DEEPEST} levels deep"),
            ));
        }
        self.depth += 1;
        let node = self.inner(at, expr);
        self.depth -= 1;
        node
    }

    /// Where the name of a field stands: the parser notes the dot before it.
    fn field_at(&self, dot: usize, field: &str) -> usize {
        let behind = self.source.get(dot..).unwrap_or_default();
        behind.find(field).map_or(dot, |found| dot + found)
    }

    fn boxed(&mut self, expr: &IdedExpr) -> Result<Box<Node>, Wrong> {
        self.node(expr).map(Box::new)
    }

    fn all(&mut self, exprs: &[IdedExpr]) -> Result<Vec<Node>, Wrong> {
        exprs.iter().map(|expr| self.node(expr)).collect()
    }

    fn inner(&mut self, at: usize, expr: &IdedExpr) -> Result<Node, Wrong> {
        let is = match &expr.expr {
            Expr::Literal(literal) => literal_of(at, literal)?,
            Expr::List(list) if list.optional_indices.is_empty() => Is::List(self.all(&list.elements)?),
            Expr::Ident(name) => Is::Name(name.clone()),
            Expr::Select(select) => {
                let of = self.boxed(&select.operand)?;
                let (begin, field) = (of.at, self.field_at(at, &select.field));
                let is = if select.test {
                    Is::Has(of, select.field.clone())
                } else {
                    Is::Field(of, select.field.clone(), field)
                };
                return Ok(Node { at: begin, is });
            }
            Expr::Call(call) => return self.call(at, call),
            Expr::Comprehension(comprehension) => return self.quantified(at, comprehension),
            Expr::Map(_) | Expr::Struct(_) => {
                return Err(Wrong::at(
                    at,
                    "maps cannot be written here; compare single values",
                ));
            }
            Expr::List(_) | Expr::Unspecified => {
                return Err(Wrong::at(at, "is nothing that an expression of a policy can say"));
            }
        };
        Ok(Node { at, is })
    }

    fn call(&mut self, at: usize, call: &CallExpr) -> Result<Node, Wrong> {
        let is = match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_NOT, [of]) => Is::Not(self.boxed(of)?),
            (operators::NEGATE, [of]) => Is::Minus(self.boxed(of)?),
            (operators::INDEX, [of, key]) => {
                let (of, key) = (self.boxed(of)?, self.boxed(key)?);
                return Ok(Node {
                    at: of.at,
                    is: Is::At(of, key),
                });
            }
            (operators::CONDITIONAL, [condition, one, other]) => {
                Is::Choice(self.boxed(condition)?, self.boxed(one)?, self.boxed(other)?)
            }
            (name, [left, right]) if BINARY.iter().any(|(known, _)| *known == name) => {
                let written = BINARY.iter().find(|(known, _)| *known == name);
                let (left, right) = (self.boxed(left)?, self.boxed(right)?);
                return Ok(Node {
                    at: left.at,
                    is: Is::Binary(written.map_or("", |(_, written)| written), left, right),
                });
            }
            (operators::OPT_INDEX | operators::OPT_SELECT, _) => {
                return Err(Wrong::at(
                    at,
                    "optional values are not known here; ask has() first",
                ));
            }
            (name, arguments) => {
                let target = match &call.target {
                    Some(target) => Some(self.boxed(target)?),
                    None => None,
                };
                Is::Call(target, name.to_owned(), self.all(arguments)?)
            }
        };
        Ok(Node { at, is })
    }

    /// The macros of CEL arrive as the loops that they stand for.
    fn quantified(&mut self, at: usize, of: &ComprehensionExpr) -> Result<Node, Wrong> {
        let found = match (&of.accu_init.expr, &of.loop_step.expr) {
            (Expr::Literal(LiteralValue::Boolean(_)), Expr::Call(step)) => match step.args.as_slice() {
                [_, body] if step.func_name == operators::LOGICAL_AND => Some((Quantifier::All, body)),
                [_, body] if step.func_name == operators::LOGICAL_OR => Some((Quantifier::Exists, body)),
                _ => None,
            },
            (Expr::Literal(LiteralValue::Int(_)), Expr::Call(step)) => {
                step.args.first().map(|body| (Quantifier::ExistsOne, body))
            }
            _ => None,
        };
        let Some((quantifier, body)) = found.filter(|_| of.iter_var2.is_none()) else {
            return Err(Wrong::at(
                at,
                "map and filter are not known here; write exists, all or exists_one",
            ));
        };
        let (over, body) = (self.boxed(&of.iter_range)?, self.boxed(body)?);
        Ok(Node {
            at,
            is: Is::Macro(quantifier, over, of.iter_var.clone(), body),
        })
    }
}

fn literal_of(at: usize, literal: &LiteralValue) -> Result<Is, Wrong> {
    let what = match literal {
        LiteralValue::Boolean(value) => return Ok(Is::Bool(*types::CelBool::inner(value))),
        LiteralValue::Int(value) => return Ok(Is::Int(*value.inner())),
        LiteralValue::String(value) => return Ok(Is::Text(value.inner().to_owned())),
        LiteralValue::Double(_) => "a fraction",
        LiteralValue::UInt(_) => "an unsigned number",
        LiteralValue::Bytes(_) => "a string of bytes",
        LiteralValue::Null => "null",
    };
    Err(Wrong::at(
        at,
        format!("{what} is written here; an expression sees texts, whole numbers, conditions and lists"),
    ))
}
