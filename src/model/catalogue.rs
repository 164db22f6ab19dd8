//! The catalogue of models: what is known of them without their files.

use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use super::Model;
use super::name::Index;

/// The catalogue that is part of the binary.
const EMBEDDED: &str = include_str!("catalogue.yaml");

/// Known models, by id and by name.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// Those of policies before those of the binary.
    models: Vec<Arc<Model>>,
    index: Index,
}

impl Catalogue {
    /// The catalogue that is part of the binary, read at the first call.
    #[must_use]
    pub fn embedded() -> &'static Self {
        static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
        // A test proves that the embedded text can be read, so the empty catalogue never comes to pass.
        CATALOGUE.get_or_init(|| Self::parse(EMBEDDED).unwrap_or_default())
    }

    fn parse(text: &str) -> Result<Self, serde_saphyr::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Document {
            models: Vec<Model>,
        }
        let Document { models } = serde_saphyr::from_str(text)?;
        Ok(Self::of(models.into_iter().map(Arc::new).collect(), 0))
    }

    fn of(models: Vec<Arc<Model>>, own: usize) -> Self {
        let index = Index::of(&models, own);
        Self { models, index }
    }

    /// With entries of one's own. They win: an entry of the same id is replaced, and a name that both claim is theirs. Of
    /// two own entries with one id or name, the first wins.
    #[must_use]
    pub fn extended(&self, own: impl IntoIterator<Item = Model>) -> Self {
        let mut models: Vec<Arc<Model>> = own.into_iter().map(Arc::new).collect();
        let count = models.len();
        let same = |one: &Model, other: &Model| one.id.eq_ignore_ascii_case(&other.id);
        let rest: Vec<Arc<Model>> = self
            .models
            .iter()
            .filter(|model| !models.iter().any(|own| same(own, model)))
            .cloned()
            .collect();
        models.extend(rest);
        Self::of(models, count)
    }

    /// The entry of this id; upper and lower case are alike.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Model> {
        self.index.id(id).and_then(|position| self.at(position))
    }

    /// The entry of this id, to be kept.
    pub(crate) fn shared(&self, id: &str) -> Option<&Arc<Model>> {
        self.index.id(id).and_then(|position| self.models.get(position))
    }

    /// Every entry, own ones first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Model> {
        self.models.iter().map(Arc::as_ref)
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.models.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    pub(super) fn at(&self, position: usize) -> Option<&Model> {
        self.models.get(position).map(Arc::as_ref)
    }

    pub(super) const fn index(&self) -> &Index {
        &self.index
    }
}

#[cfg(test)]
mod tests;
