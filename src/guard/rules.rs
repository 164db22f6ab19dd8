//! What can be said of a pod by itself.

use std::collections::BTreeSet;

use super::cel::quoted;
use super::{Action, Rule, Under};
use crate::demand::access::{ENGINE_IMAGES, NO_DEVICE, VARIABLE, by_rule};
use crate::device::catalogue::Catalogue;
use crate::finding::Code;
use crate::mig::ProfileName;
use crate::policy::{AccessPolicy, AccessRule, AllowedProfiles, Policy, PolicySet};

/// Names of MIG resources.
const MIG: &str = "'^nvidia[.]com/mig-[1-9][0-9]*g[.][1-9][0-9]*gb([.][a-z.]+)?$'";

/// The mildest of what several policies do.
fn mildest<'a>(policies: impl Iterator<Item = &'a Policy>, of: impl Fn(&Policy) -> Action) -> Action {
    policies.map(of).min().unwrap_or(Action::None)
}

/// Rules about what containers ask for.
pub(super) fn of_requests(under: &Under<'_>, policies: &PolicySet) -> Vec<Rule> {
    let instead = || under.instead.iter().map(|policy| &***policy);
    // Nodes that are yet to come are not known, and the webhook lets a pod wait for them.
    let waits = policies.iter().any(|policy| !policy.growth.is_empty());
    let capped = |action: Action| if waits { action.min(Action::Warn) } else { action };
    let amount = |key: &str| format!("string(c.resources.limits[{key}])");
    let asks = |key: &str, least: u32| {
        format!(
            "{key}.matches({MIG}) && isQuantity({amount}) && quantity({amount}).isGreaterThan(quantity('{least}'))",
            amount = amount(key)
        )
    };
    let mut rules = Vec::new();
    let several = capped(mildest(instead(), |policy| {
        Action::of_code(policy, Code::Vg303).min(Action::of_code(policy, Code::Vg305))
    }));
    rules.push(Rule {
        action: several,
        meant: format!(
            "variables.workers.exists(c, has(c.resources) && has(c.resources.limits) && \
             (c.resources.limits.exists(k, {}) || c.resources.limits.filter(k, {}).size() > 1))",
            asks("k", 1),
            asks("k", 0)
        ),
        message: format!(
            "VG305: a container asks for several MIG slices and CUDA shows a process one of them only; ask for one, or for a \
             larger profile ({})",
            told(under)
        ),
    });
    if let Some((allowed, resources)) = allowed(under) {
        let resources: Vec<String> = resources.iter().map(|name| quoted(name)).collect();
        rules.push(Rule {
            action: capped(mildest(instead(), |policy| Action::of_code(policy, Code::Vg306))),
            meant: format!(
                "variables.workers.exists(c, has(c.resources) && has(c.resources.limits) && \
                 c.resources.limits.exists(k, {} && !(k in [{}])))",
                asks("k", 0),
                resources.join(", ")
            ),
            message: format!(
                "VG306: a container asks for a MIG profile that is not allowed; allowed are {} ({})",
                allowed.join(", "),
                told(under)
            ),
        });
    }
    rules
}

/// Who says so.
fn told(under: &Under<'_>) -> String {
    format!("policy {}", under.policy.name)
}

/// The profiles that some policy allows, and every resource of which that is said; `None` where one allows all.
fn allowed(under: &Under<'_>) -> Option<(Vec<String>, BTreeSet<String>)> {
    let mut names: BTreeSet<ProfileName> = BTreeSet::new();
    for policy in &under.instead {
        match &policy.mig_profiles {
            AllowedProfiles::Any => return None,
            AllowedProfiles::Only(profiles) => names.extend(profiles.iter().copied()),
        }
    }
    let mut all: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
    // Some drivers give a profile of a product another name.
    for product in Catalogue::embedded().products() {
        let Some(mig) = &product.mig else { continue };
        let meant = |text: &str| product.profile(text).map(|profile| profile.name.as_str());
        for name in &names {
            let name = name.to_string();
            let Some(meant_name) = meant(&name) else { continue };
            let own = mig.profiles.iter().map(|profile| profile.name.as_str());
            let others = own.chain(mig.aliases.keys().map(String::as_str));
            all.extend(
                others
                    .filter(|other| meant(other) == Some(meant_name))
                    .map(str::to_owned),
            );
        }
    }
    let mut resources = BTreeSet::new();
    for name in &all {
        let resource = format!("nvidia.com/mig-{}", name.replace('+', "."));
        resources.insert(format!("{resource}.shared"));
        resources.insert(resource);
    }
    Some((names.iter().map(ToString::to_string).collect(), resources))
}

/// Rules about containers that reach devices without asking for one.
pub(super) fn of_access(under: &Under<'_>) -> Vec<Rule> {
    let mildest = |rule: fn(&AccessPolicy) -> AccessRule, code: Code| {
        mildest(under.without_node().map(|policy| &**policy), |policy| {
            by_rule(rule(&policy.access), code, policy)
                .map_or(Action::None, |severity| Action::of(policy, severity))
        })
    };
    let exists = |condition: &str| format!("variables.strangers.exists(c, {condition})");
    let shows = shows();
    let mut rules = Vec::new();

    let variable = mildest(|access| access.visible_devices, Code::Vg501);
    let own_images = under.without_node().any(|policy| !policy.engines.is_empty());
    if variable == Action::Deny && !own_images {
        rules.push(Rule {
            action: Action::Deny,
            meant: exists(&format!("{shows} && {}", is_plain_vllm())),
            message: format!(
                "VG501: a container runs vLLM, asks for no GPU and sets {VARIABLE}: it sees GPUs of its node that were promised \
                 to others; ask for a GPU, or set void ({})",
                told(under)
            ),
        });
    }
    rules.push(Rule {
        action: variable.min(Action::Warn),
        meant: exists(&shows),
        message: format!(
            "VG501: a container asks for no GPU and sets {VARIABLE}: it sees GPUs of its node that were promised to others; ask \
             for a GPU, or set void ({})",
            told(under)
        ),
    });

    let device_volume = device_volume();
    // The webhook looks at a privileged container only where something hints at a GPU.
    let hints = format!(
        "({shows} || {device_volume} || (has(c.image) && c.image.matches({})))",
        quoted(&ENGINE_IMAGES.join("|").replace('.', "[.]"))
    );
    rules.push(Rule {
        action: mildest(|access| access.privileged, Code::Vg502),
        meant: exists(&format!(
            "has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged && {hints}"
        )),
        message: format!(
            "VG502: a container asks for no GPU and is privileged: it can open every GPU of its node; ask for a GPU, or keep it \
             off GPU nodes ({})",
            told(under)
        ),
    });
    rules.push(Rule {
        action: mildest(|access| access.device_paths, Code::Vg502),
        meant: exists(&device_volume),
        message: format!(
            "VG502: a container asks for no GPU and mounts GPU devices of its node; ask for a GPU, or mount none of its files ({})",
            told(under)
        ),
    });
    rules.extend(of_runtime_classes(under));
    rules
}

fn of_runtime_classes(under: &Under<'_>) -> Option<Rule> {
    let mut classes: Option<BTreeSet<&str>> = None;
    for policy in under.without_node() {
        let own: BTreeSet<&str> = policy.access.runtime_classes.iter().map(String::as_str).collect();
        classes = Some(match classes {
            Some(before) => before.intersection(&own).copied().collect(),
            None => own,
        });
    }
    let classes = classes.filter(|classes| !classes.is_empty())?;
    let names: Vec<String> = classes.iter().map(|class| quoted(class)).collect();
    let action = mildest(under.without_node().map(|policy| &**policy), |policy| {
        Action::of_code(policy, Code::Vg503)
    });
    Some(Rule {
        action,
        // Nothing that could set the variable to `void`.
        meant: format!(
            "has(object.spec.runtimeClassName) && object.spec.runtimeClassName in [{}] && variables.strangers.exists(c, \
             !(has(c.env) && c.env.exists(e, e.name == {})) && !has(c.envFrom))",
            names.join(", "),
            quoted(VARIABLE)
        ),
        message: format!(
            "VG503: a container asks for no GPU and its pod's runtime class shows it every GPU of its node; ask for a GPU, or use \
             another runtime class ({})",
            told(under)
        ),
    })
}

/// Whether container `c` is shown devices by the variable, written out.
fn shows() -> String {
    let variable = quoted(VARIABLE);
    let none: Vec<String> = NO_DEVICE.iter().map(|value| quoted(value)).collect();
    format!(
        "(has(c.env) && c.env.filter(e, e.name == {variable}).size() == 1 && c.env.exists(e, e.name == {variable} && \
         has(e.value) && !e.value.contains('$') && !(e.value.trim() in [{}])))",
        none.join(", ")
    )
}

/// Whether container `c` mounts device files of the node.
fn device_volume() -> String {
    "(has(c.volumeMounts) && has(object.spec.volumes) && object.spec.volumes.exists(v, has(v.hostPath) && \
     size(v.hostPath.path) <= 4096 && v.hostPath.path.matches('^/+dev/*$|^/+dev/+nvidia') && \
     c.volumeMounts.exists(m, m.name == v.name)))"
        .to_owned()
}

/// Whether container `c` starts vLLM and nothing else can be meant: its image, no words but a model and options.
fn is_plain_vllm() -> String {
    format!(
        "has(c.image) && c.image.matches('^(docker[.]io/)?vllm/vllm-openai(:|@|$)') && !has(c.command) && !has(c.envFrom) && \
         c.env.all(e, e.name == {}) && has(c.args) && c.args.exists(a, a == '--model' || a.startsWith('--model=')) && \
         c.args.all(a, !a.startsWith('-h') && !a.startsWith('--h') && !a.startsWith('-v') && !a.startsWith('--v') && \
         !a.contains('cpu') && !a.contains('$'))",
        quoted(VARIABLE)
    )
}
