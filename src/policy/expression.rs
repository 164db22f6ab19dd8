//! `match.expression`: a condition in CEL over a few facts, checked when the policy is read and bounded when it is asked.
//!
//! The `cel` crate parses and evaluates it. What may be said is the part of [CEL](https://github.com/google/cel-spec) in which a condition over labels, texts
//! and whole numbers can be written. Every name and type is checked at load; what can still fail is a label that is not
//! there, a field that is absent, arithmetic, and the bound on steps.
//!
//! An expression that asks for `container`, `request` or `gpu` is asked of each container that asks for a GPU, and holds
//! where it holds for one. One that asks for `gpu` or `node` holds only where a node is given. One that fails is taken to
//! hold, and the failure is told (VG903): whether the policy was meant is not known, and unknown is not "no".

use std::collections::BTreeMap;
use std::fmt;

mod cost;
mod evaluate;
mod facts;
mod parse;
mod types;

pub(crate) use facts::PodFacts;
pub use facts::{NodeView, PodView};

use super::Policy;
use crate::finding::{Code, FieldPath, Finding, short};

use evaluate::{Fault, Scene, evaluate};
use parse::Node;
use types::Reads;

/// Longest expression, in bytes.
pub const LONGEST: usize = 4096;
/// Most parts of an expression: values, operators, calls.
pub(crate) const MOST_NODES: usize = 512;
/// Brackets within brackets.
pub(crate) const DEEPEST: u16 = 32;
/// Steps of one evaluation: parts that are evaluated, and 32 bytes of text each.
pub(crate) const MOST_STEPS: u64 = 20_000;
/// Containers that ask for a GPU of which one expression is asked.
const MOST_ASKS: usize = 128;

type Labels = BTreeMap<String, String>;

/// A checked expression. Two are the same where they are written alike.
#[derive(Clone, Debug)]
pub struct Expression {
    source: String,
    /// What is evaluated.
    program: cel::IdedExpr,
    /// The same, as it was checked.
    shape: Node,
    reads: Reads,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Expression {}

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    at: usize,
    message: String,
    /// Line and column of the expression, from one, once the source is known.
    place: (usize, usize),
}

impl Wrong {
    fn at(at: usize, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
            place: (1, 1),
        }
    }

    fn placed(mut self, source: &str) -> Self {
        let before = source.get(..self.at).unwrap_or(source);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        self.place = (line, column);
        self
    }

    /// Line and column within the expression, from one.
    #[must_use]
    pub const fn place(&self) -> (usize, usize) {
        self.place
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.place;
        write!(
            f,
            "{} (line {line}, column {column} of the expression)",
            self.message
        )
    }
}

impl std::error::Error for Wrong {}

/// What an expression says of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It does not hold.
    No,
    /// It holds.
    Yes,
    /// It cannot be told, for this reason in words.
    Failed(String),
}

/// What is told where a policy applies to a pod only because its expression fails there.
pub(crate) fn failure(policy: &Policy, why: &str) -> Finding {
    let name = short(&policy.name);
    Finding::new(
        Code::Vg903,
        FieldPath::new("metadata"),
        format!("the expression of policy {name} fails for this pod, so the policy applies: {why}"),
    )
    .detail(format!(
        "Whether policy {name} is meant for this pod cannot be told, and what cannot be told is not taken for no. Correct \
         its spec.match.expression, or write what it asks for into the pod."
    ))
}

impl Expression {
    /// Reads and checks an expression.
    ///
    /// # Errors
    ///
    /// What is wrong with it, with line and column: it is too long, too large, too deep, no CEL, asks for what is not
    /// there, or is no condition.
    pub fn compile(source: &str) -> Result<Self, Wrong> {
        if source.len() > LONGEST {
            return Err(Wrong::at(
                0,
                format!(
                    "the expression is {} bytes long, and {LONGEST} are allowed",
                    source.len()
                ),
            ));
        }
        if source.trim().is_empty() {
            return Err(Wrong::at(
                0,
                "the expression is empty; leave it out to match everything",
            ));
        }
        let read = parse::parse(source).and_then(|(program, shape)| {
            let reads = types::check(&shape)?;
            Ok((program, shape, reads))
        });
        let (program, shape, reads) = read.map_err(|wrong| wrong.placed(source))?;
        Ok(Self {
            source: source.to_owned(),
            program,
            shape,
            reads,
        })
    }

    /// As it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it can hold only where a node is given.
    #[must_use]
    pub const fn needs_node(&self) -> bool {
        self.reads.node
    }

    /// Whether it asks for more of a pod than its labels and its namespace.
    pub(crate) const fn needs_facts(&self) -> bool {
        self.reads.facts
    }

    /// The labels of nodes that it asks for.
    pub(crate) fn node_labels(&self) -> impl Iterator<Item = &str> {
        self.reads.node_labels.iter().map(String::as_str)
    }

    /// What it says of a pod, on a kind of node where one is given.
    pub(crate) fn of(&self, namespace: &Labels, pod: PodView<'_>, node: Option<NodeView<'_>>) -> Outcome {
        if self.reads.node && node.is_none() {
            return Outcome::No;
        }
        let facts = self.reads.facts.then(|| pod.facts()).flatten();
        let mut scene = Scene {
            namespace,
            labels: pod.labels,
            facts: facts.as_deref(),
            ask: None,
            node,
            pool: None,
        };
        if self.reads.facts && facts.is_none() {
            return Self::told(Err(Fault::NotKnown));
        }
        let evaluate = |scene| evaluate(&self.program, &self.shape, &self.reads.objects, scene);
        let Some(facts) = facts.as_deref().filter(|_| self.reads.asks) else {
            return Self::told(evaluate(scene));
        };
        if facts.asks.len() > MOST_ASKS {
            return Outcome::Failed(format!(
                "more than {MOST_ASKS} containers ask for a GPU: {}",
                facts.asks.len()
            ));
        }
        let mut failed = Outcome::No;
        for ask in &facts.asks {
            scene.ask = Some(ask);
            if self.reads.gpu {
                let resource = ask.slots.as_ref().map(|(resource, _)| resource);
                let pools = node.map(|node| node.pools).unwrap_or_default();
                scene.pool = pools.iter().find(|pool| Some(&pool.resource) == resource);
                if scene.pool.is_none() {
                    continue;
                }
            }
            match Self::told(evaluate(scene)) {
                Outcome::Yes => return Outcome::Yes,
                Outcome::No => {}
                outcome @ Outcome::Failed(_) => failed = outcome,
            }
        }
        failed
    }

    fn told(result: Result<bool, Fault>) -> Outcome {
        match result {
            Ok(true) => Outcome::Yes,
            Ok(false) => Outcome::No,
            Err(fault) => Outcome::Failed(fault.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
