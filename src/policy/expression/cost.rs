//! What an evaluation can cost at most. The `cel` crate has no budget of its own, so an expression is evaluated only where
//! its worst case on the pod at hand is within ours.

use super::parse::{Is, Node};

/// Bytes of text that cost one step.
const BYTES_PER_STEP: u64 = 32;

/// How large what an expression sees is on one pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The longest text, in bytes.
    pub(super) text: u64,
    /// The keys of the largest map of labels.
    pub(super) keys: u64,
}

/// The most that a part can take and give.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    steps: u64,
    /// Bytes of its text, or of the longest one in it.
    text: u64,
    /// Items of its list, or keys of its map.
    items: u64,
}

/// Steps of an evaluation at most: parts that are evaluated, and 32 bytes of text each.
pub(super) fn steps(node: &Node, sizes: Sizes) -> u64 {
    let mut costs = Costs {
        sizes,
        variables: Vec::new(),
    };
    costs.of(node).steps
}

struct Costs<'a> {
    sizes: Sizes,
    variables: Vec<(&'a str, u64)>,
}

impl<'a> Costs<'a> {
    fn of(&mut self, node: &'a Node) -> Cost {
        match &node.is {
            Is::Bool(_) | Is::Int(_) => Cost {
                steps: 1,
                ..Cost::default()
            },
            Is::Text(text) => Cost {
                steps: 1,
                text: text.len() as u64,
                items: 0,
            },
            Is::Name(name) => {
                let variable = self.variables.iter().rev().find(|(known, _)| known == name);
                Cost {
                    steps: 1,
                    text: variable.map_or(self.sizes.text, |(_, text)| *text),
                    items: self.sizes.keys,
                }
            }
            Is::Field(of, ..) | Is::Has(of, _) => {
                let of = self.of(of);
                Cost {
                    steps: of.steps.saturating_add(1),
                    text: self.sizes.text,
                    items: self.sizes.keys,
                }
            }
            Is::At(of, key) => {
                let (of, key) = (self.of(of), self.of(key));
                Cost {
                    steps: read(of).saturating_add(read(key)),
                    text: of.text.max(self.sizes.text),
                    items: self.sizes.keys,
                }
            }
            Is::List(items) => {
                let mut list = Cost {
                    steps: 1,
                    text: 0,
                    items: items.len() as u64,
                };
                for item in items {
                    let item = self.of(item);
                    list.steps = list.steps.saturating_add(read(item));
                    list.text = list.text.max(item.text);
                }
                list
            }
            Is::Call(target, _, arguments) => {
                let mut call = Cost {
                    steps: 1,
                    text: 20,
                    items: 0,
                };
                for part in target.iter().map(AsRef::as_ref).chain(arguments) {
                    let part = self.of(part);
                    call.steps = call.steps.saturating_add(read(part));
                    call.text = call.text.max(part.text);
                }
                call
            }
            Is::Macro(_, over, variable, body) => {
                let over = self.of(over);
                self.variables.push((variable, over.text));
                let body = self.of(body);
                self.variables.pop();
                Cost {
                    steps: over.steps.saturating_add(over.items.saturating_mul(read(body))),
                    ..Cost::default()
                }
            }
            Is::Not(of) | Is::Minus(of) => Cost {
                steps: self.of(of).steps.saturating_add(1),
                ..Cost::default()
            },
            Is::Binary(operator, left, right) => {
                let (left, right) = (self.of(left), self.of(right));
                let looked_at = if *operator == "in" { right.items.max(1) } else { 1 };
                let compared = left.text.min(right.text) / BYTES_PER_STEP + 1;
                Cost {
                    steps: left
                        .steps
                        .saturating_add(right.steps)
                        .saturating_add(compared.saturating_mul(looked_at)),
                    text: left.text.saturating_add(right.text),
                    items: 0,
                }
            }
            Is::Choice(condition, one, other) => {
                let (condition, one, other) = (self.of(condition), self.of(one), self.of(other));
                Cost {
                    steps: condition
                        .steps
                        .saturating_add(one.steps)
                        .saturating_add(other.steps),
                    text: one.text.max(other.text),
                    items: one.items.max(other.items),
                }
            }
        }
    }
}

/// The steps of a part whose text is read as a whole.
const fn read(of: Cost) -> u64 {
    of.steps
        .saturating_add(of.text / BYTES_PER_STEP)
        .saturating_add(1)
}
