//! From words to a tree: the grammar of CEL, as far as an expression of a policy may use it.

use super::lex::{Token, Word, words};
use super::{DEEPEST, MOST_NODES, Wrong};

/// Names that CEL keeps for itself; fields may have them.
const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "var",
    "void",
    "while",
];

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

/// A macro over the items of a list or the keys of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

/// Reads a source.
pub(super) fn parse(source: &str) -> Result<Node, Wrong> {
    let mut parser = Parser {
        words: words(source)?,
        next: 0,
        nodes: 0,
        depth: 0,
    };
    let node = parser.choice()?;
    match parser.peek() {
        Token::End => Ok(node),
        other => Err(Wrong::at(
            parser.at(),
            format!(
                "{} stands behind the end of the expression; is an operator missing?",
                told(other)
            ),
        )),
    }
}

fn told(token: &Token) -> String {
    match token {
        Token::Name(name) => name.clone(),
        Token::Int(number) => number.to_string(),
        Token::Text(_) => "a text".to_owned(),
        Token::Mark(mark) => (*mark).to_owned(),
        Token::End => "the end".to_owned(),
    }
}

struct Parser {
    words: Vec<Word>,
    next: usize,
    nodes: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.words.get(self.next).map_or(&Token::End, |word| &word.token)
    }

    fn at(&self) -> usize {
        self.words
            .get(self.next)
            .or(self.words.last())
            .map_or(0, |word| word.at)
    }

    fn takes(&mut self, mark: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Mark(next) if *next == mark);
        self.next += usize::from(is_next);
        is_next
    }

    fn takes_any(&mut self, marks: &[&'static str]) -> Option<&'static str> {
        marks.iter().copied().find(|mark| self.takes(mark))
    }

    fn expect(&mut self, mark: &str, behind: &str) -> Result<(), Wrong> {
        if self.takes(mark) {
            return Ok(());
        }
        Err(Wrong::at(
            self.at(),
            format!(
                "{} stands where {mark} belongs, behind {behind}",
                told(self.peek())
            ),
        ))
    }

    fn node(&mut self, at: usize, is: Is) -> Result<Node, Wrong> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(Wrong::at(
                at,
                format!("the expression has more than {MOST_NODES} parts; split it over several policies"),
            ));
        }
        Ok(Node { at, is })
    }

    fn deeper(&mut self) -> Result<(), Wrong> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Wrong::at(
                self.at(),
                format!("the expression is nested more than {DEEPEST} levels deep"),
            ));
        }
        Ok(())
    }

    fn choice(&mut self) -> Result<Node, Wrong> {
        self.deeper()?;
        let at = self.at();
        let condition = self.either()?;
        let node = if self.takes("?") {
            let one = self.either()?;
            self.expect(":", "the first value of ? :")?;
            let other = self.choice()?;
            self.node(
                at,
                Is::Choice(Box::new(condition), Box::new(one), Box::new(other)),
            )?
        } else {
            condition
        };
        self.depth -= 1;
        Ok(node)
    }

    fn either(&mut self) -> Result<Node, Wrong> {
        let mut left = self.both()?;
        while self.takes("||") {
            let right = self.both()?;
            left = self.node(left.at, Is::Binary("||", Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Node, Wrong> {
        let mut left = self.relation()?;
        while self.takes("&&") {
            let right = self.relation()?;
            left = self.node(left.at, Is::Binary("&&", Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn relation(&mut self) -> Result<Node, Wrong> {
        let mut left = self.sum()?;
        loop {
            let operator = match self.takes_any(&["==", "!=", "<=", ">=", "<", ">"]) {
                Some(operator) => operator,
                None if *self.peek() == Token::Name("in".to_owned()) => {
                    self.next += 1;
                    "in"
                }
                None => return Ok(left),
            };
            let right = self.sum()?;
            left = self.node(left.at, Is::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn sum(&mut self) -> Result<Node, Wrong> {
        let mut left = self.product()?;
        while let Some(operator) = self.takes_any(&["+", "-"]) {
            let right = self.product()?;
            left = self.node(left.at, Is::Binary(operator, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Node, Wrong> {
        let mut left = self.unary()?;
        while let Some(operator) = self.takes_any(&["*", "/", "%"]) {
            let right = self.unary()?;
            left = self.node(left.at, Is::Binary(operator, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    /// `!` or `-`, any number of one of them.
    fn unary(&mut self) -> Result<Node, Wrong> {
        let at = self.at();
        if let (true, Some(Token::Int(number))) = (
            *self.peek() == Token::Mark("-"),
            self.words.get(self.next + 1).map(|word| &word.token),
        ) {
            let negative = i64::try_from(-i128::from(*number))
                .map_err(|_| Wrong::at(at, format!("-{number} is below every whole number of 64 bits")))?;
            self.next += 2;
            let number = self.node(at, Is::Int(negative))?;
            return self.behind(number);
        }
        let Some(mark) = self.takes_any(&["!", "-"]) else {
            return self.member();
        };
        let mut times = 1_usize;
        while self.takes(mark) {
            times += 1;
        }
        let mut node = self.member()?;
        for _ in 0..times {
            let of = Box::new(node);
            node = self.node(at, if mark == "!" { Is::Not(of) } else { Is::Minus(of) })?;
        }
        Ok(node)
    }

    fn member(&mut self) -> Result<Node, Wrong> {
        let node = self.primary()?;
        self.behind(node)
    }

    /// Fields, methods and indices behind a value.
    fn behind(&mut self, mut node: Node) -> Result<Node, Wrong> {
        loop {
            if self.takes("[") {
                let key = self.choice()?;
                self.expect("]", "the key")?;
                node = self.node(node.at, Is::At(Box::new(node), Box::new(key)))?;
            } else if self.takes(".") {
                let at = self.at();
                let Token::Name(name) = self.peek().clone() else {
                    return Err(Wrong::at(
                        at,
                        format!("{} stands where a field belongs", told(self.peek())),
                    ));
                };
                self.next += 1;
                node = if self.takes("(") {
                    self.method(node, name, at)?
                } else {
                    self.node(node.at, Is::Field(Box::new(node), name, at))?
                };
            } else {
                return Ok(node);
            }
        }
    }

    fn method(&mut self, target: Node, name: String, at: usize) -> Result<Node, Wrong> {
        let quantifier = match name.as_str() {
            "all" => Some(Quantifier::All),
            "exists" => Some(Quantifier::Exists),
            "exists_one" => Some(Quantifier::ExistsOne),
            _ => None,
        };
        let arguments = self.arguments(")", &name)?;
        let Some(quantifier) = quantifier else {
            return self.node(at, Is::Call(Some(Box::new(target)), name, arguments));
        };
        let mut arguments = arguments.into_iter();
        match (arguments.next(), arguments.next(), arguments.next()) {
            (
                Some(Node {
                    is: Is::Name(variable),
                    ..
                }),
                Some(body),
                None,
            ) => self.node(
                at,
                Is::Macro(quantifier, Box::new(target), variable, Box::new(body)),
            ),
            _ => Err(Wrong::at(
                at,
                format!("{name} takes a variable and a condition, such as {name}(key, key == \"team\")"),
            )),
        }
    }

    fn primary(&mut self) -> Result<Node, Wrong> {
        let at = self.at();
        let token = self.peek().clone();
        self.next += 1;
        match token {
            Token::Int(number) => {
                let number = i64::try_from(number)
                    .map_err(|_| Wrong::at(at, format!("{number} is above every whole number of 64 bits")))?;
                self.node(at, Is::Int(number))
            }
            Token::Text(text) => self.node(at, Is::Text(text)),
            Token::Mark("(") => {
                let node = self.choice()?;
                self.expect(")", "the expression in brackets")?;
                Ok(node)
            }
            Token::Mark("[") => {
                let items = self.arguments("]", "the list")?;
                self.node(at, Is::List(items))
            }
            Token::Mark("{") => Err(Wrong::at(
                at,
                "maps cannot be written here; compare single values",
            )),
            Token::Name(name) if name == "true" || name == "false" => self.node(at, Is::Bool(name == "true")),
            Token::Name(name) if RESERVED.contains(&name.as_str()) => Err(Wrong::at(
                at,
                format!("{name} is a word that CEL keeps for itself"),
            )),
            Token::Name(name) if name != "in" => {
                if !self.takes("(") {
                    return self.node(at, Is::Name(name));
                }
                let arguments = self.arguments(")", &name)?;
                if name != "has" {
                    return self.node(at, Is::Call(None, name, arguments));
                }
                let mut arguments = arguments.into_iter();
                match (arguments.next().map(|argument| argument.is), arguments.next()) {
                    (Some(Is::Field(of, field, _)), None) => self.node(at, Is::Has(of, field)),
                    _ => Err(Wrong::at(
                        at,
                        "has takes one field, such as has(gpu.migProfile); of a key write \"key\" in pod.labels",
                    )),
                }
            }
            other => Err(Wrong::at(
                at,
                format!("{} stands where a value belongs", told(&other)),
            )),
        }
    }

    fn arguments(&mut self, end: &str, behind: &str) -> Result<Vec<Node>, Wrong> {
        let mut arguments = Vec::new();
        loop {
            // CEL takes a comma behind the last item of a list, and none behind the last argument.
            if (arguments.is_empty() || end == "]") && self.takes(end) {
                return Ok(arguments);
            }
            arguments.push(self.choice()?);
            if self.takes(end) {
                return Ok(arguments);
            }
            self.expect(",", behind)?;
        }
    }
}
