//! `vramgate.io/model` and `vramgate.io/model.<container>`: the model that a container loads, where its command line does
//! not tell. It decides whether the model fits, and nothing else.

use crate::engine;
use crate::finding::{Code, FieldPath, Finding, short};
use crate::model::name::{Found, find};
use crate::policy::OwnModels;
use crate::workload::pod::Pod;
use crate::workload::slots::names_any;

/// The annotation for a pod with one engine; a point and a container's name behind it are for one of several.
const NAME: &str = "vramgate.io/model";
/// Names that are proposed for one that is not known.
const MOST_NAMED: usize = 3;

/// The annotations of a pod.
#[derive(Default)]
pub(crate) struct Annotations<'p> {
    /// Key, container (none: the one with an engine), model.
    written: Vec<(&'p str, Option<&'p str>, &'p str)>,
}

impl<'p> Annotations<'p> {
    pub(crate) fn of(pod: &'p Pod) -> Self {
        let behind = pod.metadata.annotations.range(NAME.to_owned()..);
        let written = behind
            .take_while(|(key, _)| key.starts_with(NAME))
            .filter_map(|(key, value)| {
                let container = match key.get(NAME.len()..)? {
                    "" => None,
                    rest => Some(rest.strip_prefix('.')?),
                };
                Some((key.as_str(), container, value.trim()))
            });
        Self {
            written: written.collect(),
        }
    }

    /// What is written for a container: its own annotation, else that of the pod, where no other container asks for
    /// devices without an annotation of its own.
    pub(crate) fn model(&self, pod: &Pod, container: &str) -> Option<&'p str> {
        let of = |wanted: Option<&str>| {
            let mut entries = self.written.iter();
            entries
                .find(|(_, container, _)| *container == wanted)
                .map(|(_, _, model)| *model)
        };
        let is_alone = || {
            !engine::containers(pod).any(|placed| {
                let name = placed.container.name.as_str();
                name != container && names_any(placed.container) && of(Some(name)).is_none()
            })
        };
        of(Some(container)).or_else(|| of(None).filter(|_| is_alone()))
    }

    /// What is written and cannot be meant. `engines` counts the engines of each container that asks for devices.
    pub(crate) fn findings(&self, pod: &Pod, engines: &[(&str, usize)], models: &OwnModels) -> Vec<Finding> {
        self.written
            .iter()
            .filter_map(|(key, container, model)| {
                let text = self.fault(pod, engines, *container, model, models)?;
                let path = FieldPath::new("metadata.annotations").key(key);
                Some(Finding::new(Code::Vg108, path, format!("{} {text}", short(key))))
            })
            .collect()
    }

    fn fault(
        &self,
        pod: &Pod,
        engines: &[(&str, usize)],
        container: Option<&str>,
        model: &str,
        models: &OwnModels,
    ) -> Option<String> {
        if let Some(container) = container
            && !engine::containers(pod).any(|placed| placed.container.name == container)
        {
            let names: Vec<String> = engine::containers(pod)
                .take(MOST_NAMED)
                .map(|placed| short(&placed.container.name))
                .collect();
            return Some(format!(
                "names no container of the pod and has no effect; its containers are {}",
                names.join(", ")
            ));
        }
        // Those with an annotation of their own are not meant by that of the pod.
        let meant = engines.iter().filter(|(name, _)| match container {
            Some(container) => *name == container,
            None => !self.written.iter().any(|(_, own, _)| *own == Some(*name)),
        });
        if meant.map(|(_, count)| count).sum::<usize>() > 1 {
            return Some(format!(
                "stands for several engines and has no effect: write {NAME}.<container> for a container with one"
            ));
        }
        if models.stated(model).is_some() {
            return None;
        }
        let Found::Unknown { reason, nearest } = find(models.catalogue(), model) else {
            return None;
        };
        let nearest: Vec<String> = nearest.iter().take(MOST_NAMED).map(|name| short(name)).collect();
        Some(if nearest.is_empty() {
            format!(
                "has no effect: {:?}: {reason}; name an entry of the catalogue or the policy",
                short(model)
            )
        } else {
            format!(
                "has no effect: {:?}: {reason}; did you mean {}?",
                short(model),
                nearest.join(" or ")
            )
        })
    }
}
