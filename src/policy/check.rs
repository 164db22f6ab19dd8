//! What the types of a policy document cannot say: names, fields that exclude each other, texts with a form.

use std::collections::BTreeMap;

use super::error::{Complaints, hint};
use super::spec::{
    API_VERSION, Access, Codes, EngineRule, GpuSharingPolicy, KIND, LabelOperator, LabelSelector, Match,
    MigProfiles, Spec, Tenants,
};
use super::tree::Step;
use super::{ConfigMapName, Expression, UnknownRule};
use crate::engine::Engine;
use crate::mig::ProfileName;

mod models;
mod products;

/// Name of the policy that is always there.
pub(crate) const BUILT_IN_NAME: &str = "built-in-default";

/// Every engine that a rule can name.
const ENGINES: [Engine; 16] = [
    Engine::Vllm,
    Engine::Sglang,
    Engine::Tgi,
    Engine::Tei,
    Engine::Triton,
    Engine::TensorRtLlm,
    Engine::LlamaCpp,
    Engine::Ollama,
    Engine::Lmdeploy,
    Engine::Nim,
    Engine::RayWorker,
    Engine::Jax,
    Engine::Tensorflow,
    Engine::Pytorch,
    Engine::Unknown,
    Engine::None,
];

/// The steps of a dotted path without lists.
pub(crate) fn at(dotted: &str) -> Vec<Step> {
    dotted.split('.').map(|key| Step::Key(key.to_owned())).collect()
}

fn below(path: &[Step], step: Step) -> Vec<Step> {
    let mut path = path.to_vec();
    path.push(step);
    path
}

fn key(path: &[Step], name: &str) -> Vec<Step> {
    below(path, Step::Key(name.to_owned()))
}

/// Complains about everything in the document that cannot be meant.
pub(crate) fn check(document: &GpuSharingPolicy, is_built_in: bool, complaints: &mut Complaints<'_>) {
    match document.api_version.as_deref() {
        Some(API_VERSION) => {}
        Some(other) => complaints.add(&at("apiVersion"), format!("{other:?} is not {API_VERSION}")),
        None => complaints.add_missing(
            &at("apiVersion"),
            format!("is missing: it has to be {API_VERSION}"),
        ),
    }
    if document.kind.is_none() {
        complaints.add_missing(&at("kind"), format!("is missing: it has to be {KIND}"));
    }
    let name = document
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.name.as_deref());
    match name {
        None => complaints.add_missing(&at("metadata.name"), "is missing: every policy has a name"),
        Some(BUILT_IN_NAME) if !is_built_in => complaints.add(
            &at("metadata.name"),
            format!("{BUILT_IN_NAME:?} is always there and cannot be replaced: choose another"),
        ),
        Some(name) if !is_object_name(name) => complaints.add(
            &at("metadata.name"),
            format!("{name:?} is no object name: lower-case letters, digits, - and ., at most 253 of them"),
        ),
        Some(_) => {}
    }
    match &document.spec {
        None => complaints.add_missing(&at("spec"), "is missing: a policy without it would say nothing"),
        Some(spec) => check_spec(spec, complaints),
    }
}

fn is_object_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253 && name.chars().all(inner) && name.starts_with(edge) && name.ends_with(edge)
}

fn check_spec(spec: &Spec, complaints: &mut Complaints<'_>) {
    if let Some(matches) = &spec.matches {
        check_match(matches, spec.device.is_some(), complaints);
    }
    if let Some(codes) = &spec.codes {
        check_codes(codes, complaints);
    }
    if spec
        .device
        .as_ref()
        .and_then(|device| device.evidence.as_ref())
        .is_some_and(Vec::is_empty)
    {
        complaints.add_missing(
            &at("spec.device.evidence"),
            "is empty: then nothing would ever count; leave it out, or name any",
        );
    }
    if let Some(device) = &spec.device {
        products::check(device.products.as_deref().unwrap_or_default(), complaints);
        let names = [
            ("pluginConfig", &device.plugin_config),
            ("migConfig", &device.mig_config),
        ];
        for (field, name) in names {
            if let Some(Err(wrong)) = name.as_ref().map(|name| name.parse::<ConfigMapName>()) {
                complaints.add(&key(&at("spec.device"), field), wrong);
            }
        }
    }
    if let Some(unknown) = &spec.unknown {
        let rules = [
            ("exclusive", &unknown.exclusive),
            ("timeSliced", &unknown.time_sliced),
            ("mig", &unknown.mig),
        ];
        for (name, rule) in rules {
            if rule.as_ref() == Some(&UnknownRule::ClientLimit) {
                complaints.add(
                    &key(&at("spec.unknown"), name),
                    "clientLimit exists only under mps; known here are admit, deny, warn and {assume: \"0.90\"}",
                );
            }
        }
    }
    for (index, growth) in spec
        .placement
        .iter()
        .flat_map(|placement| placement.growth.iter().flatten())
        .enumerate()
    {
        let path = below(&at("spec.placement.growth"), Step::Item(index));
        check_selector(growth, &path, complaints);
        if growth.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
            && growth.match_expressions.as_ref().is_none_or(Vec::is_empty)
        {
            complaints.add_missing(
                &path,
                "selects every node: name the labels of the nodes that an autoscaler can add",
            );
        }
    }
    for (index, rule) in spec.engines.iter().flatten().enumerate() {
        check_engine(rule, &below(&at("spec.engines"), Step::Item(index)), complaints);
    }
    if let Some(access) = &spec.access {
        check_access(access, complaints);
    }
    if let Some(Tenants::Sets(sets)) = spec.device.as_ref().and_then(|device| device.tenants.as_ref()) {
        check_tenants(sets, complaints);
    }
    if let Some(MigProfiles::Only(profiles)) = spec.mig.as_ref().and_then(|mig| mig.profiles.as_ref()) {
        check_profiles(profiles, complaints);
    }
    models::check(spec.models.as_deref().unwrap_or_default(), complaints);
    if let Some(link) = spec
        .messages
        .as_ref()
        .and_then(|messages| messages.link.as_deref())
        && !link.starts_with("https://")
        && !link.starts_with("http://")
    {
        complaints.add(
            &at("spec.messages.link"),
            format!("{link:?} is no address: it starts with https://"),
        );
    }
}

fn check_profiles(profiles: &[String], complaints: &mut Complaints<'_>) {
    let path = at("spec.mig.profiles");
    if profiles.is_empty() {
        complaints.add_missing(
            &path,
            "is empty: name the profiles that pods may ask for, or write any",
        );
    }
    for (index, name) in profiles.iter().enumerate() {
        let path = below(&path, Step::Item(index));
        match ProfileName::parse(name) {
            Some(read) if read.compute.is_some() => complaints.add(
                &path,
                format!(
                    "{read} is a compute instance, for which there is no resource; write {}",
                    read.gpu_instance()
                ),
            ),
            Some(_) => {}
            None => {
                let bare = name.strip_prefix("nvidia.com/").unwrap_or(name);
                let meant = bare.strip_prefix("mig-").and_then(ProfileName::parse);
                let hint = meant.map_or_else(String::new, |meant| format!("; write {meant}"));
                complaints.add(
                    &path,
                    format!("{name:?} is no name of a MIG profile such as 1g.10gb or 1g.10gb+me{hint}"),
                );
            }
        }
    }
}

fn check_match(matches: &Match, has_device: bool, complaints: &mut Complaints<'_>) {
    let selectors = [
        ("namespaces", &matches.namespaces),
        ("pods", &matches.pods),
        ("nodes", &matches.nodes),
    ];
    for (name, selector) in selectors {
        if let Some(selector) = selector {
            check_selector(selector, &key(&at("spec.match"), name), complaints);
        }
    }
    if let Some(Err(wrong)) = matches.expression.as_deref().map(Expression::compile) {
        complaints.add(&at("spec.match.expression"), wrong.to_string());
    }
    let beside: Vec<&str> = [
        ("namespaces", matches.namespaces.is_some()),
        ("pods", matches.pods.is_some()),
        ("expression", matches.expression.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, given)| given.then_some(name))
    .collect();
    if has_device && !beside.is_empty() {
        complaints.add(
            &at("spec.device"),
            format!(
                "stands beside match.{}, but a device has one policy, whoever's pods are on it (VG903): \
                 move it to a policy that matches by nodes alone",
                beside.join(" and match.")
            ),
        );
    }
}

fn check_selector(selector: &LabelSelector, path: &[Step], complaints: &mut Complaints<'_>) {
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let path = below(&key(path, "matchExpressions"), Step::Item(index));
        if requirement.key.as_ref().is_none_or(String::is_empty) {
            complaints.add_missing(&path, "has no key: name the label");
        }
        let values = requirement.values.as_ref().map_or(0, Vec::len);
        match requirement.operator {
            None => complaints.add_missing(&path, "has no operator: In, NotIn, Exists or DoesNotExist"),
            Some(operator @ (LabelOperator::In | LabelOperator::NotIn)) if values == 0 => {
                complaints.add_missing(&path, format!("{} needs values", operator.as_str()));
            }
            Some(operator @ (LabelOperator::Exists | LabelOperator::DoesNotExist)) if values > 0 => {
                complaints.add(
                    &key(&path, "values"),
                    format!("{} takes no values", operator.as_str()),
                );
            }
            Some(_) => {}
        }
    }
}

fn check_codes(codes: &Codes, complaints: &mut Complaints<'_>) {
    let mut seen = BTreeMap::new();
    let lists = [
        ("error", &codes.error),
        ("warning", &codes.warning),
        ("info", &codes.info),
    ];
    for (name, list) in lists {
        for (index, code) in list.iter().flatten().enumerate() {
            if let Some(before) = seen.insert(code.0, name) {
                let path = below(&key(&at("spec.codes"), name), Step::Item(index));
                complaints.add(
                    &path,
                    format!("{} stands in {before} already: a code has one severity", code.0),
                );
            }
        }
    }
}

fn check_access(access: &Access, complaints: &mut Complaints<'_>) {
    let path = at("spec.access.exempt");
    let exempt = access.exempt.clone().unwrap_or_default();
    for (index, image) in exempt.images.iter().flatten().enumerate() {
        let path = below(&key(&path, "images"), Step::Item(index));
        check_image_pattern(image, &path, complaints);
        if image.chars().all(|c| c == '*') {
            complaints.add(
                &path,
                "means every image: set the rules themselves to ignore instead",
            );
        }
    }
    if let Some(pods) = &exempt.pods {
        let path = key(&path, "pods");
        check_selector(pods, &path, complaints);
        if pods.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
            && pods.match_expressions.as_ref().is_none_or(Vec::is_empty)
        {
            complaints.add_missing(
                &path,
                "selects every pod: name the labels of the pods that are exempt",
            );
        }
    }
    for (index, class) in access.runtime_classes.iter().flatten().enumerate() {
        if !is_object_name(class) {
            let path = below(&at("spec.access.runtimeClasses"), Step::Item(index));
            complaints.add(&path, format!("{class:?} is no name of a runtime class"));
        }
    }
}

/// A namespace in two sets would join two tenants that are to be kept apart.
fn check_tenants(sets: &[Vec<String>], complaints: &mut Complaints<'_>) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (set, names) in sets.iter().enumerate() {
        for (index, name) in names.iter().enumerate() {
            let path = || {
                below(
                    &below(&at("spec.device.tenants"), Step::Item(set)),
                    Step::Item(index),
                )
            };
            if !is_object_name(name) {
                complaints.add(&path(), format!("{name:?} is no name of a namespace"));
            }
            match seen.insert(name, set) {
                Some(before) if before != set => complaints.add(
                    &path(),
                    format!("{name:?} stands in set {before} already: a namespace belongs to one set"),
                ),
                _ => {}
            }
        }
    }
}

fn check_image_pattern(image: &str, path: &[Step], complaints: &mut Complaints<'_>) {
    if image.is_empty() || image.contains(char::is_whitespace) {
        complaints.add(path, format!("{image:?} is no pattern of an image reference"));
    }
}

fn check_engine(rule: &EngineRule, path: &[Step], complaints: &mut Complaints<'_>) {
    let images = rule.images.as_deref().unwrap_or_default();
    if images.is_empty() {
        complaints.add_missing(
            path,
            "has no images: name patterns such as registry.example.com/llm/*",
        );
    }
    for (index, image) in images.iter().enumerate() {
        check_image_pattern(image, &below(&key(path, "images"), Step::Item(index)), complaints);
    }
    if let Some(engine) = rule.engine.as_deref() {
        let known: Vec<&str> = ENGINES.iter().map(|engine| engine.as_str()).collect();
        if !known.contains(&engine) {
            complaints.add(
                &key(path, "engine"),
                format!("{engine:?} is no engine{}", hint(engine, &known)),
            );
        }
    }
    if let Some(version) = rule.version.as_deref()
        && !is_release(version)
    {
        complaints.add(
            &key(path, "version"),
            format!("{version:?} is no release such as 0.11.0"),
        );
    }
    for (variable, option) in rule.variables.iter().flatten() {
        let path = key(&key(path, "variables"), variable);
        if variable.is_empty() || variable.contains(['=', ' ']) {
            complaints.add(&path, format!("{variable:?} is no name of a variable"));
        }
        if !option.starts_with('-') || option.contains(['=', ' ']) {
            complaints.add(
                &path,
                format!("{option:?} is no option such as --gpu-memory-utilization"),
            );
        }
    }
}

/// `0.11.0`, `0.6.3.post1`: up to three numbers and a post-release.
fn is_release(version: &str) -> bool {
    let (release, post) = match version.split_once(".post") {
        Some((release, post)) => (release, Some(post)),
        None => (version, None),
    };
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok();
    release.split('.').count() <= 3 && release.split('.').all(number) && post.is_none_or(number)
}
