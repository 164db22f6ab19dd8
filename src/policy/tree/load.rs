//! From YAML text to trees, within limits.

use serde_saphyr::budget::{Budget, BudgetBreach};
use serde_saphyr::{Error, NonFiniteFloatPolicy, options};

use super::{Position, Tree};

/// What a text may hold. The parser's own limits on aliases stay: they keep a small text from growing into a large tree.
pub(crate) struct Limits {
    /// Documents of the text.
    pub(crate) documents: usize,
    /// Values of all documents, those that aliases repeat included.
    pub(crate) nodes: usize,
    /// Levels of nesting; `None` leaves it to the parser.
    pub(crate) depth: Option<usize>,
    /// Events that aliases may add; `None` leaves it to the parser.
    pub(crate) repeated: Option<usize>,
}

/// Why a text gives no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// What is wrong, without its place.
    pub(crate) message: String,
    /// Where the parser gave up, where it says so.
    pub(crate) at: Option<Position>,
    /// Whether it is only larger than [`Limits::nodes`].
    pub(crate) too_large: bool,
}

/// The documents of a text; an empty text has none.
pub(crate) fn load(text: &str, limits: &Limits) -> Result<Vec<Tree>, Unreadable> {
    let mut budget = Budget::default();
    budget.max_documents = limits.documents;
    budget.max_nodes = limits.nodes;
    budget.max_events = limits.nodes.saturating_mul(3);
    if let Some(depth) = limits.depth {
        budget.max_depth = depth;
    }
    let mut options = options! {
        budget: Some(budget),
        with_snippet: false,
        emit_comments: false,
        // `off` and `yes` are words, and `.nan` is told to whoever wrote it, with the name of the field.
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
    };
    if let Some(repeated) = limits.repeated {
        options.alias_limits = serde_saphyr::alias_limits! { max_total_replayed_events: repeated };
    }
    serde_saphyr::from_multiple_with_options::<Tree>(text, options).map_err(|error| {
        let at = error.location().filter(|location| location.line() > 0);
        let at = at.map(|location| Position {
            line: location.line(),
            column: location.column(),
        });
        let too_large = matches!(
            error.without_snippet(),
            Error::Budget {
                breach: BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. },
                ..
            }
        );
        let message = error.without_snippet().to_string();
        // The place is told apart from the message, and the parser's options are not the reader's.
        let message = message.split(" at line ").next().unwrap_or_default();
        let message = message
            .split(", set DuplicateKeyPolicy")
            .next()
            .unwrap_or_default();
        Unreadable {
            message: message.to_owned(),
            at,
            too_large,
        }
    })
}
