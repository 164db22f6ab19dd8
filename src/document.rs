//! The versioned documents that the command line prints with `-o json`. Their fields are a promise to tools: nothing
//! else in the crate is serialised for a user.
//!
//! ```
//! use vramgate::document::{Document, Kind};
//!
//! let empty: Document<()> = Document::new(Kind::CheckResult, Vec::new());
//! assert_eq!(
//!     serde_json::to_string(&empty)?,
//!     r#"{"apiVersion":"vramgate.io/v1alpha1","kind":"CheckResult","items":[]}"#
//! );
//! # Ok::<(), serde_json::Error>(())
//! ```

use serde::Serialize;

mod advice;
mod change;
mod check;
mod devices;
mod explanation;
mod fit;
mod mig;
mod plan;

pub use advice::{AdviceDocument, AdviceRejected, AdviceServed, WriteError, yaml};
pub use change::{
    Asked, ChangeKind, ChangeSummary, ContainerChange, DeviceChange, ObjectChange, TakenOfDevice,
};
pub use check::{CheckResult, Checked, Decision, PlacedFinding, Position};
pub use devices::{DeviceHolder, DeviceRow};
pub use explanation::{Explained, ExplainedContainer, GpuRequest, Integer, ModelFacts, SlotCount};
pub use fit::{FitDevice, FitDocument, FitEngine, FitModel, FitPart, Range, Sizes};
pub use mig::{MigInstance, MigLayout, MigParted, MigPartedEntry, MigPlan};
pub use plan::{PlanDocument, PlannedChange, PlannedDevice};

/// Group and version of every document.
pub const API_VERSION: &str = "vramgate.io/v1alpha1";

/// What a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kind {
    /// What containers start and what that will take; items are [`Explained`].
    Explanation,
    /// Verdicts; items are [`Checked`].
    CheckResult,
    /// Devices and who shares them; items are [`DeviceRow`].
    DeviceList,
    /// Whether a model fits a device; see [`FitDocument`].
    Fit,
    /// How GPUs are cut into MIG slices; see [`MigPlan`].
    MigPlan,
    /// Whether and how GPUs are to be shared; see [`AdviceDocument`].
    Advice,
    /// What is wrong with policies; items are [`crate::lint::Remark`].
    PolicyLint,
    /// What came of suites; items are cases.
    PolicyTestResult,
    /// Which policy applies, and why.
    PolicyExplanation,
    /// Whose verdict changes between two sets of policies.
    PolicyDiff,
    /// What brings a cluster back within its budgets; see [`PlanDocument`].
    Plan,
    /// How well the answers agree with start-up logs; see [`crate::fit::score::Score`].
    FitScore,
}

/// A list with its version and kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<T> {
    api_version: &'static str,
    kind: Kind,
    /// The items, in the order of the input.
    pub items: Vec<T>,
}

impl<T> Document<T> {
    /// A document of this kind.
    #[must_use]
    pub fn new(kind: Kind, items: Vec<T>) -> Self {
        Self {
            api_version: API_VERSION,
            kind,
            items,
        }
    }
}
