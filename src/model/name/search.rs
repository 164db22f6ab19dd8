//! The ways, tried one after the other.

use super::index::Target;
use super::marks::Unclear;
use super::nearest::nearest;
use super::place::{self, Place};
use super::words::Words;
use super::{Found, How, Reason, Way};
use crate::model::{Catalogue, Model};

/// Most candidates that an ambiguous name lists.
const CANDIDATES: usize = 6;

/// The way to an entry.
struct Step {
    target: Target,
    way: Way,
    /// Whether words of role and date were set aside as well.
    roles_aside: bool,
}

enum Stop {
    /// Entries of different shape.
    Ambiguous(Vec<String>),
    /// One that only a description could mean.
    Vague(Vec<String>),
    /// None.
    Nothing,
}

/// `proposes`: whether near names of an unknown one are sought, which takes longer than everything else.
pub(super) fn find<'c>(catalogue: &'c Catalogue, text: &str, proposes: bool) -> Found<'c> {
    let text = text.trim();
    if let Err(reason) = place::check(text) {
        return unknown(reason, Vec::new());
    }
    if let Some(target) = catalogue.index().exact(&text.to_ascii_lowercase()) {
        let way = way_of(target);
        let tail = text.rsplit_once('/').map_or(text, |(_, tail)| tail);
        let step = Step {
            target,
            way,
            roles_aside: false,
        };
        return known(catalogue, &step, &Words::of(tail), Vec::new(), false);
    }
    let (place, reason) = place::place(text);
    match reason {
        None => named(catalogue, place, proposes),
        Some(reason) => match named(catalogue, place, proposes) {
            Found::Known { how, .. } if !how.is_certain_but_for_path() => unknown(reason, Vec::new()),
            found @ Found::Known { .. } if reason == Reason::Path => found,
            Found::Known { model, .. } => unknown(reason, vec![model.id.clone()]),
            Found::Unknown { reason: own, nearest } => match own {
                Reason::Format | Reason::Formats => unknown(own, nearest),
                _ => unknown(reason, nearest),
            },
        },
    }
}

impl How {
    fn is_certain_but_for_path(&self) -> bool {
        let mut named = self.clone();
        named.path = false;
        named.is_certain()
    }
}

/// Finds what a place names.
fn named<'c>(catalogue: &'c Catalogue, place: Place<'_>, proposes: bool) -> Found<'c> {
    let index = catalogue.index();
    let whole = place
        .publisher
        .map(|publisher| format!("{publisher}/{}", place.name).to_ascii_lowercase());
    if let Some(target) = whole.and_then(|whole| index.exact(&whole)) {
        let step = Step {
            target,
            way: way_of(target),
            roles_aside: false,
        };
        return known(catalogue, &step, &Words::of(place.name), Vec::new(), place.path);
    }
    // Mirrors write the publisher into the name: `bartowski/google_gemma-3-27b-it-GGUF`.
    let (inner, name) = match place.name.split_once('_') {
        Some((publisher, name)) if index.is_publisher(&publisher.to_ascii_lowercase()) => {
            (Some(publisher), name)
        }
        _ => (None, place.name),
    };
    let words = Words::of(name);
    let directories = place
        .path
        .then_some(())
        .and(place.publisher)
        .is_some_and(|publisher| !index.is_publisher(&publisher.to_ascii_lowercase()));
    let aside: Vec<String> = place
        .publisher
        .filter(|_| !directories)
        .into_iter()
        .chain(inner)
        .map(|publisher| format!("{}/", publisher.to_ascii_lowercase()))
        .collect();
    match steps(catalogue, &words, name, place) {
        Ok(step) => known(catalogue, &step, &words, aside, place.path),
        Err(Stop::Ambiguous(candidates)) => unknown(Reason::Ambiguous, candidates),
        Err(Stop::Vague(candidates)) => unknown(Reason::NotKnown, candidates),
        Err(Stop::Nothing) if words.is_architecture() => unknown(Reason::Architecture, Vec::new()),
        Err(Stop::Nothing) if !proposes => unknown(Reason::NotKnown, Vec::new()),
        Err(Stop::Nothing) => unknown(Reason::NotKnown, nearest(catalogue, &words.family())),
    }
}

const fn way_of(target: Target) -> Way {
    if target.name.is_some() {
        Way::Published
    } else {
        Way::Id
    }
}

fn steps(catalogue: &Catalogue, words: &Words, name: &str, place: Place<'_>) -> Result<Step, Stop> {
    let index = catalogue.index();
    let lower = name.to_ascii_lowercase();
    if place.publisher.is_none()
        && let Some(target) = index.exact(&lower)
    {
        return Ok(Step {
            target,
            way: way_of(target),
            roles_aside: false,
        });
    }
    if let Some(target) = index.tail(&lower).first() {
        return Ok(Step {
            target: *target,
            way: Way::Mirror,
            roles_aside: false,
        });
    }
    let step = |way, roles_aside| {
        move |target| Step {
            target,
            way,
            roles_aside,
        }
    };
    let full = words.full();
    let targets = index.full(&full);
    if !targets.is_empty() {
        return one(catalogue, targets, &full, words).map(step(Way::Convention, false));
    }
    let family = words.family();
    let targets = index.family(&family);
    if !targets.is_empty() {
        return one(catalogue, targets, &family, words).map(step(Way::Convention, true));
    }
    if let Some((start, end)) = family.split_once(".x") {
        return pattern(catalogue, start, end, words).map(step(Way::Pattern, true));
    }
    if let Some(target) = place
        .publisher
        .and_then(|publisher| alternatives(catalogue, publisher, &family))
    {
        return Ok(step(Way::Alternatives, true)(target));
    }
    let without = words.without_release().unwrap_or_default();
    let targets = index.release(&without);
    if targets.is_empty() {
        return Err(Stop::Nothing);
    }
    match one(catalogue, targets, &without, words) {
        Ok(target) if words.is_prose() => Ok(step(Way::Release, true)(target)),
        Ok(_) => Err(Stop::Vague(candidates(catalogue, targets.iter().copied()))),
        Err(other) => Err(other),
    }
}

/// The one target that is meant: a policy's before the binary's, an entry whose id this is before others, or any where all
/// have one shape.
fn one(catalogue: &Catalogue, targets: &[Target], key: &str, words: &Words) -> Result<Target, Stop> {
    let index = catalogue.index();
    let own: Vec<Target> = targets
        .iter()
        .copied()
        .filter(|target| index.is_own(*target))
        .collect();
    let targets = if own.is_empty() { targets } else { own.as_slice() };
    let entry = |target: &Target| catalogue.at(target.model);
    let first = targets.first().ok_or(Stop::Nothing)?;
    let chosen = if targets.iter().all(|target| target.model == first.model) {
        first.model
    } else if let Some(target) = targets.iter().find(|target| {
        target.name.is_none() && entry(target).is_some_and(|model| Words::of(&model.id).full() == key)
    }) {
        target.model
    } else {
        let model = entry(first).ok_or(Stop::Nothing)?;
        if !targets
            .iter()
            .all(|target| entry(target).is_some_and(|other| same_needs(model, other)))
        {
            return Err(Stop::Ambiguous(candidates(catalogue, targets.iter().copied())));
        }
        first.model
    };
    let of_chosen = || targets.iter().filter(|target| target.model == chosen);
    let dated = |target: &&Target| {
        entry(target).is_some_and(|model| {
            let name = target.text(model).to_ascii_lowercase();
            words.dates().all(|date| name.split('-').any(|word| word == date))
        })
    };
    let by_date = words.dates().next().and_then(|_| of_chosen().find(dated));
    let by_id = of_chosen().find(|target| target.name.is_none());
    by_date
        .or(by_id)
        .or_else(|| of_chosen().next())
        .copied()
        .ok_or(Stop::Nothing)
}

/// One shape, and released in one format.
fn same_needs(one: &Model, other: &Model) -> bool {
    std::ptr::eq(one, other) || one.has_shape_of(other)
}

fn candidates(catalogue: &Catalogue, targets: impl Iterator<Item = Target>) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for model in targets.filter_map(|target| catalogue.at(target.model)) {
        if ids.len() < CANDIDATES && !ids.contains(&model.id) {
            ids.push(model.id.clone());
        }
    }
    ids
}

/// `minimax-m2.x`: every release that begins so.
fn pattern(catalogue: &Catalogue, start: &str, end: &str, words: &Words) -> Result<Target, Stop> {
    let open = |middle: &str| {
        middle.strip_prefix('.').map_or(middle.is_empty(), |rest| {
            rest.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    if start.is_empty() {
        return Err(Stop::Nothing);
    }
    let targets: Vec<Target> = catalogue
        .index()
        .beginning(start)
        .filter(|(key, _)| {
            key.get(start.len()..)
                .and_then(|rest| rest.strip_suffix(end))
                .is_some_and(open)
        })
        .flat_map(|(_, targets)| targets.iter().copied())
        .collect();
    one(catalogue, &targets, start, words)
}

/// `DeepSeek-V3/R1`: what stands before the stroke is a name, and its last word may be exchanged for what stands behind.
fn alternatives(catalogue: &Catalogue, before: &str, after: &str) -> Option<Target> {
    let index = catalogue.index();
    let first = Words::of(before).family();
    let (stem, _) = first.rsplit_once('-')?;
    let targets = index.full(&first);
    let others = index.full(&format!("{stem}-{after}"));
    let target = targets.first()?;
    let mut all = targets.iter().chain(others);
    (!others.is_empty() && all.all(|other| other.model == target.model)).then_some(*target)
}

fn known<'c>(
    catalogue: &'c Catalogue,
    step: &Step,
    words: &Words,
    mut set_aside: Vec<String>,
    path: bool,
) -> Found<'c> {
    let Some(model) = catalogue.at(step.target.model) else {
        return unknown(Reason::NotKnown, Vec::new());
    };
    let name = step.target.text(model);
    let format = match words.format() {
        Ok(format) => format,
        Err(Unclear::Unsized) => return unknown(Reason::Format, vec![model.id.clone()]),
        Err(Unclear::Two) => return unknown(Reason::Formats, vec![model.id.clone()]),
    };
    let publication = step
        .target
        .name
        .and_then(|_| model.publications.get(name))
        .copied()
        .unwrap_or_default();
    let as_named = matches!(step.way, Way::Id | Way::Published | Way::Mirror);
    if !as_named {
        set_aside.extend(words.set_aside(step.roles_aside));
    }
    Found::Known {
        model,
        format: format.or(publication.released).or(model.released),
        positions: publication
            .max_position_embeddings
            .unwrap_or(model.max_position_embeddings),
        how: How {
            way: step.way,
            name: name.to_owned(),
            set_aside,
            path,
            adapter: !as_named && words.is_adapter(),
            described: !as_named && (words.is_prose() || words.is_tag_without_format()),
        },
    }
}

const fn unknown<'c>(reason: Reason, nearest: Vec<String>) -> Found<'c> {
    Found::Unknown { reason, nearest }
}
