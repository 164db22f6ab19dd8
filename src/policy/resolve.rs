//! From a document to a [`Policy`]: what the document leaves out comes from the built-in default.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::spec::{
    Access, Codes, Device, EngineRule, GpuSharingPolicy, LabelSelector, LookUp, MessageSpec, MigProfiles,
    OtherSharing, OtherSharingRule, Overhead, Tenants, ToolkitLimit, Trust, Unknown, VllmOverhead,
};
use super::value::{CodeName, MibCount};
use super::{
    AccessPolicy, AccessRule, AllowedProfiles, DefaultFraction, DevicePolicy, Enforcement, Exempt,
    Expression, Matches, Messages, MissingFacts, Mode, MpsMemoryLimit, MpsRules, Overheads, OwnModels,
    OwnProducts, PerSlot, Policy, Reserve, Selector, SharingSystem, Tenancy, ThreadPercentage, UnknownRule,
    UnknownRules,
};
use crate::engine::ImageRule;
use crate::finding::{Code, Severity};
use crate::mig::ProfileName;
use crate::units::{Mib, Share};
use crate::workload::pod::Requirement;

/// What the built-in default itself is read over: nothing may be promised. A test sees to it that the built-in default
/// leaves none of this standing.
pub(crate) fn blank() -> Policy {
    Policy {
        name: String::new(),
        priority: 0,
        matches: Matches::default(),
        mode: Mode::Enforce,
        severities: BTreeMap::new(),
        device: DevicePolicy {
            budget: Share::ZERO,
            reserve: Reserve {
                fraction: Share::WHOLE,
                at_least: Mib::ZERO,
                mig: Mib::ZERO,
            },
            per_slot: PerSlot::FairShare,
            evidence: Vec::new(),
            tenants: Tenancy::SameNamespace,
            products: OwnProducts::default(),
            plugin_config: None,
            mig_config: None,
        },
        enforcement: Enforcement::Gated,
        missing_facts: MissingFacts::Deny,
        growth: Vec::new(),
        overheads: Overheads {
            vllm_before_0_7: Mib::ZERO,
            vllm_before_0_20: Mib::ZERO,
            vllm_since_0_20: Mib::ZERO,
            vllm_eager_before_0_20: Mib::ZERO,
            vllm_unknown_version: Mib::ZERO,
            vllm_tp2: Mib::ZERO,
            vllm_tp4: Mib::ZERO,
            vllm_tp8: Mib::ZERO,
            sglang: Mib::ZERO,
            other: Mib::ZERO,
        },
        unknown: UnknownRules {
            exclusive: UnknownRule::Deny,
            time_sliced: UnknownRule::Deny,
            mps: UnknownRule::Deny,
            mig: UnknownRule::Deny,
        },
        access: AccessPolicy {
            visible_devices: AccessRule::Ignore,
            privileged: AccessRule::Deny,
            device_paths: AccessRule::Deny,
            runtime_classes: vec!["*".to_owned()],
            exempt: Exempt::default(),
        },
        toolkit_limit: true,
        trusted_systems: [SharingSystem::Hami, SharingSystem::Kai, SharingSystem::Volcano].into(),
        trusted_namespaces: BTreeSet::from([String::new()]),
        default_fraction: DefaultFraction::FairShare,
        mig_profiles: AllowedProfiles::Only(Vec::new()),
        mps: MpsRules {
            memory_limit: MpsMemoryLimit::None,
            thread_percentage: ThreadPercentage::None,
            replaces: true,
        },
        read_config_maps: false,
        engines: Vec::new(),
        models: OwnModels::default(),
        messages: Messages {
            other_namespaces: true,
            contact: None,
            link: None,
        },
    }
}

/// The policy that a checked document makes over `base`.
pub(crate) fn resolve(document: GpuSharingPolicy, base: &Policy) -> Policy {
    let mut policy = Policy {
        priority: 0,
        matches: Matches::default(),
        ..base.clone()
    };
    policy.name = document
        .metadata
        .and_then(|metadata| metadata.name)
        .unwrap_or_default();
    let Some(spec) = document.spec else { return policy };
    if let Some(matches) = spec.matches {
        policy.matches = Matches {
            namespaces: matches.namespaces.map(selector),
            pods: matches.pods.map(selector),
            // A selector that asks for nothing needs no node to be known.
            nodes: matches.nodes.map(selector).filter(|nodes| !nodes.is_empty()),
            // A text that is no expression was complained about.
            expression: matches
                .expression
                .and_then(|source| Expression::compile(&source).ok())
                .map(Arc::new),
        };
    }
    set(&mut policy.priority, spec.priority);
    set(&mut policy.mode, spec.mode);
    if let Some(codes) = spec.codes {
        set_severities(&mut policy.severities, codes);
    }
    if let Some(device) = spec.device {
        set_device(&mut policy.device, device);
    }
    set(&mut policy.enforcement, spec.enforcement);
    if let Some(placement) = spec.placement {
        set(
            &mut policy.growth,
            placement
                .growth
                .map(|growth| growth.into_iter().map(selector).collect()),
        );
        set(&mut policy.missing_facts, placement.missing_facts);
    }
    if let Some(overhead) = spec.overhead {
        set_overheads(&mut policy.overheads, overhead);
    }
    if let Some(unknown) = spec.unknown {
        set_unknown(&mut policy.unknown, unknown);
    }
    if let Some(access) = spec.access {
        set_access(&mut policy.access, access);
    }
    set(
        &mut policy.default_fraction,
        spec.defaults.and_then(|defaults| defaults.gpu_memory_utilization),
    );
    let profiles = spec.mig.and_then(|mig| mig.profiles);
    set(&mut policy.mig_profiles, profiles.map(allowed_profiles));
    if let Some(mps) = spec.mps {
        set(&mut policy.mps.memory_limit, mps.memory_limit);
        set(&mut policy.mps.thread_percentage, mps.thread_percentage);
        set(&mut policy.mps.replaces, mps.r#override);
    }
    let toolkit = spec.memory_limit.and_then(|limit| limit.toolkit);
    set(
        &mut policy.toolkit_limit,
        toolkit.map(|toolkit| toolkit == ToolkitLimit::Footprint),
    );
    if let Some(others) = spec.other_sharing {
        set_trusted_systems(&mut policy.trusted_systems, &others);
    }
    let trust = spec.declarations.and_then(|declarations| declarations.trust);
    set(
        &mut policy.trusted_namespaces,
        trust.map(|trust| match trust {
            Trust::Never => BTreeSet::new(),
            Trust::Namespaces(names) => names.into_iter().collect(),
        }),
    );
    let config_maps = spec.sources.and_then(|sources| sources.config_maps);
    set(
        &mut policy.read_config_maps,
        config_maps.map(|look_up| look_up == LookUp::Get),
    );
    set(
        &mut policy.engines,
        spec.engines
            .map(|engines| engines.into_iter().map(image_rule).collect()),
    );
    set(&mut policy.models, spec.models.map(OwnModels::of));
    if let Some(messages) = spec.messages {
        set_messages(&mut policy.messages, messages);
    }
    policy
}

fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

fn set_mib(field: &mut Mib, given: Option<MibCount>) {
    set(field, given.map(|count| count.0));
}

pub(crate) fn selector(written: LabelSelector) -> Selector {
    let requirement = |entry: super::spec::LabelRequirement| Requirement {
        key: entry.key.unwrap_or_default(),
        operator: entry
            .operator
            .map(|operator| operator.as_str().to_owned())
            .unwrap_or_default(),
        values: entry.values.unwrap_or_default(),
    };
    Selector {
        labels: written.match_labels.unwrap_or_default(),
        expressions: written
            .match_expressions
            .unwrap_or_default()
            .into_iter()
            .map(requirement)
            .collect(),
    }
}

fn set_severities(severities: &mut BTreeMap<Code, Severity>, codes: Codes) {
    let lists = [
        (codes.error, Severity::Error),
        (codes.warning, Severity::Warning),
        (codes.info, Severity::Info),
    ];
    for (list, severity) in lists {
        for CodeName(code) in list.unwrap_or_default() {
            severities.insert(code, severity);
        }
    }
}

fn set_device(into: &mut DevicePolicy, device: Device) {
    set(&mut into.budget, device.budget.map(|budget| budget.0.share()));
    if let Some(reserve) = device.reserve {
        set(
            &mut into.reserve.fraction,
            reserve.fraction.map(|fraction| fraction.0),
        );
        set_mib(&mut into.reserve.at_least, reserve.at_least);
        set_mib(&mut into.reserve.mig, reserve.mig);
    }
    set(&mut into.per_slot, device.per_slot);
    set(&mut into.evidence, device.evidence);
    let tenants = device.tenants.map(|tenants| match tenants {
        Tenants::Any => Tenancy::Any,
        Tenants::SameNamespace => Tenancy::SameNamespace,
        Tenants::Sets(sets) => Tenancy::Sets(sets),
    });
    set(&mut into.tenants, tenants);
    set(&mut into.products, device.products.map(OwnProducts::of));
    // A text that is no name was complained about.
    let name = |text: String| text.parse().ok();
    into.plugin_config = device.plugin_config.and_then(name).or(into.plugin_config.take());
    into.mig_config = device.mig_config.and_then(name).or(into.mig_config.take());
}

fn set_access(into: &mut AccessPolicy, access: Access) {
    set(&mut into.visible_devices, access.visible_devices);
    set(&mut into.privileged, access.privileged);
    set(&mut into.device_paths, access.device_paths);
    set(&mut into.runtime_classes, access.runtime_classes);
    if let Some(exempt) = access.exempt {
        into.exempt = Exempt {
            images: exempt.images.unwrap_or_default(),
            pods: exempt.pods.map(selector),
        };
    }
}

fn set_overheads(into: &mut Overheads, overhead: Overhead) {
    let VllmOverhead {
        before_0_7,
        before_0_20,
        since_0_20,
        eager_before_0_20,
        unknown_version,
        tp2,
        tp4,
        tp8,
    } = overhead.vllm.unwrap_or_default();
    set_mib(&mut into.vllm_before_0_7, before_0_7);
    set_mib(&mut into.vllm_before_0_20, before_0_20);
    set_mib(&mut into.vllm_since_0_20, since_0_20);
    set_mib(&mut into.vllm_eager_before_0_20, eager_before_0_20);
    set_mib(&mut into.vllm_unknown_version, unknown_version);
    set_mib(&mut into.vllm_tp2, tp2);
    set_mib(&mut into.vllm_tp4, tp4);
    set_mib(&mut into.vllm_tp8, tp8);
    set_mib(&mut into.sglang, overhead.sglang);
    set_mib(&mut into.other, overhead.other);
}

fn set_unknown(into: &mut UnknownRules, unknown: Unknown) {
    set(&mut into.exclusive, unknown.exclusive);
    set(&mut into.time_sliced, unknown.time_sliced);
    set(&mut into.mps, unknown.mps);
    set(&mut into.mig, unknown.mig);
}

/// Every name was checked with the document.
fn allowed_profiles(profiles: MigProfiles) -> AllowedProfiles {
    match profiles {
        MigProfiles::Any => AllowedProfiles::Any,
        MigProfiles::Only(names) => {
            let names = names.iter();
            AllowedProfiles::Only(names.filter_map(|name| ProfileName::parse(name)).collect())
        }
    }
}

fn set_trusted_systems(into: &mut BTreeSet<SharingSystem>, others: &OtherSharing) {
    for (system, rule) in [
        (SharingSystem::Hami, others.hami),
        (SharingSystem::Kai, others.kai),
        (SharingSystem::Volcano, others.volcano),
    ] {
        match rule {
            Some(OtherSharingRule::Trust) => into.insert(system),
            Some(OtherSharingRule::Ignore) => into.remove(&system),
            None => continue,
        };
    }
}

fn image_rule(rule: EngineRule) -> ImageRule {
    ImageRule {
        images: rule.images.unwrap_or_default(),
        engine: rule.engine,
        version: rule.version,
        entrypoint: rule.entrypoint.unwrap_or_default(),
        variables: rule.variables.unwrap_or_default(),
    }
}

fn set_messages(into: &mut Messages, messages: MessageSpec) {
    set(&mut into.other_namespaces, messages.other_namespaces);
    into.contact = messages.contact.or(into.contact.take());
    into.link = messages.link.or(into.link.take());
}
