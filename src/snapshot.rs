//! A cluster read from objects instead of a live API server: nodes, namespaces, ConfigMaps, workloads and pods.
//!
//! The command line and the webhook's `--cluster-state` fill a ledger from it, and `check` lets admitted objects join
//! it, so that the next object of the input meets them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::configuration::{ConfigMap, Configuration, NodeLabels};
use crate::demand::access::may_reach;
use crate::demand::other_systems::speaks;
use crate::device::config::Document;
use crate::device::config::plugin::{CONFIG_LABEL, PluginConfigMap};
use crate::device::{GpuNode, inventory};
use crate::dra::objects::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use crate::engine::{LookUp, Sources, containers};
use crate::ledger::Ledger;
use crate::manifest::{ManifestError, Object};
use crate::policy::{ConfigMapName, PolicySet};
use crate::workload::owner::workload_owner;
use crate::workload::pod::{Metadata, Node, Pod};
use crate::workload::priority::{Priorities, PriorityClass};
use crate::workload::template::Bases;
use crate::workload::{Workload, WorkloadKind, asks_for_gpu};

mod join;

/// Pods that a snapshot may hold, those without a GPU included.
pub const MAX_PODS: usize = 100_000;

/// Namespace, kind and name: what makes two objects the same one. Ordered so that the pods of a namespace lie together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    namespace: String,
    kind: String,
    name: String,
}

impl Key {
    fn of(workload: &Workload) -> Self {
        let object = &workload.object;
        Self {
            namespace: object.namespace.clone(),
            kind: object.kind.clone(),
            name: object.name.clone(),
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    nodes: BTreeMap<String, Arc<Node>>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    config_maps: BTreeMap<(String, String), ConfigMap>,
    /// Those of the config maps that hold configurations of the device plugin.
    plugin_configs: BTreeMap<(String, String), Arc<PluginConfigMap>>,
    workloads: BTreeMap<Key, Arc<Workload>>,
    policies: Vec<Object>,
    slices: BTreeMap<String, ResourceSlice>,
    device_classes: BTreeMap<String, DeviceClass>,
    claims: BTreeMap<(String, String), ResourceClaim>,
    claim_templates: BTreeMap<(String, String), ResourceClaimTemplate>,
    priorities: Priorities,
    bases: Bases,
    pods_seen: usize,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Named {
    metadata: Metadata,
}

impl Snapshot {
    /// Takes an object that others are judged against: a node, a namespace, a ConfigMap or a policy. `false` for any
    /// other kind, which is left alone; of those that others build on a copy is kept.
    pub fn add_context(&mut self, object: &Object) -> Result<bool, ManifestError> {
        match (object.api_version(), object.kind()) {
            ("v1", "Node") => {
                let node: Node = decode(object)?;
                named(object, &node.metadata)?;
                self.nodes.insert(node.metadata.name.clone(), Arc::new(node));
            }
            ("v1", "Namespace") => {
                let Named { metadata } = decode(object)?;
                named(object, &metadata)?;
                self.namespaces.insert(metadata.name, metadata.labels);
            }
            ("v1", "ConfigMap") => {
                if let Some(Configuration::ConfigMap(map)) = read_configuration(object)? {
                    let key = (map.namespace.clone(), map.name.clone());
                    match PluginConfigMap::recognized(&map) {
                        Some(read) => self.plugin_configs.insert(key.clone(), Arc::new(read)),
                        None => self.plugin_configs.remove(&key),
                    };
                    self.config_maps.insert(key, map);
                }
            }
            (version, "GpuSharingPolicy") if version.starts_with("vramgate.io/") => {
                self.policies.push(object.clone());
            }
            (version, kind) if version.starts_with("resource.k8s.io/") => {
                return self.add_resource(object, kind);
            }
            ("scheduling.k8s.io/v1", "PriorityClass") => {
                let class: PriorityClass = decode(object)?;
                named(object, &class.metadata)?;
                self.priorities.set(class);
            }
            // Read by what judges them; here they are known and stand in nobody's way.
            ("v1", "ResourceQuota") | ("node.k8s.io/v1", "RuntimeClass") => {}
            _ => {
                self.bases.add(&object.value);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes an object of dynamic resource allocation.
    fn add_resource(&mut self, object: &Object, kind: &str) -> Result<bool, ManifestError> {
        let key = |metadata: &Metadata| {
            named(object, metadata)?;
            Ok((or_default(metadata.namespace.clone()), metadata.name.clone()))
        };
        match kind {
            "ResourceSlice" => {
                let slice: ResourceSlice = decode(object)?;
                named(object, &slice.metadata)?;
                self.slices.insert(slice.metadata.name.clone(), slice);
            }
            "DeviceClass" => {
                let class: DeviceClass = decode(object)?;
                named(object, &class.metadata)?;
                self.device_classes.insert(class.metadata.name.clone(), class);
            }
            "ResourceClaim" => {
                let claim: ResourceClaim = decode(object)?;
                self.claims.insert(key(&claim.metadata)?, claim);
            }
            "ResourceClaimTemplate" => {
                let template: ResourceClaimTemplate = decode(object)?;
                self.claim_templates.insert(key(&template.metadata)?, template);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes any object of a cluster. Kinds that play no part are left out.
    pub fn add(&mut self, object: &Object) -> Result<(), ManifestError> {
        if self.add_context(object)? {
            return Ok(());
        }
        if (object.api_version(), object.kind()) == ("v1", "Pod") {
            self.pods_seen += 1;
            if self.pods_seen > MAX_PODS {
                return Err(object.error(format!(
                    "more than {MAX_PODS} pods; a snapshot may hold {MAX_PODS}: leave out namespaces without GPU pods"
                )));
            }
        }
        let Some(mut workload) = self.read(object)? else {
            return Ok(());
        };
        // Pods without a GPU hold nothing, and a large cluster has many.
        if workload.kind != WorkloadKind::Pod
            || asks_for_gpu(&workload.pod)
            || may_reach(&workload.pod, |_| true)
            || takes_variables(&workload.pod)
            || speaks(&workload.pod)
        {
            Self::identify(&mut workload);
            self.workloads.insert(Key::of(&workload), Arc::new(workload));
        }
        Ok(())
    }

    /// Reads an object of one of the kinds that make pods, on what others are built on here; `None` for any other.
    pub fn read(&self, object: &Object) -> Result<Option<Workload>, ManifestError> {
        let workload = Workload::read_on(&object.value, &self.bases).map_err(|malformed| {
            let name = object.name();
            object.error(format!("{} {name:?}: {malformed}", object.kind()))
        })?;
        // Two objects without a name would be taken for one, and one of them would not be counted.
        match workload {
            Some(workload) if workload.object.name.is_empty() => Err(object.error(format!(
                "the {} has neither metadata.name nor metadata.generateName: give it one",
                object.kind()
            ))),
            workload => Ok(workload),
        }
    }

    /// The objects that others build on.
    #[must_use]
    pub const fn bases(&self) -> &Bases {
        &self.bases
    }

    /// Gives a pod without an identity one of its own: the ledger knows pods by UID.
    fn identify(workload: &mut Workload) {
        if workload.uid.is_empty() {
            let object = &workload.object;
            workload.uid = format!("{}/{}/{}", object.kind, object.namespace, object.name);
            if workload.kind == WorkloadKind::Pod {
                workload.pod.metadata.uid.clone_from(&workload.uid);
            }
        }
    }

    /// The object that stands in the cluster under the same kind, namespace and name.
    #[must_use]
    pub fn existing(&self, workload: &Workload) -> Option<&Workload> {
        self.workloads.get(&Key::of(workload)).map(AsRef::as_ref)
    }

    /// The object of this kind, namespace and name.
    #[must_use]
    pub fn workload(&self, kind: WorkloadKind, namespace: &str, name: &str) -> Option<&Workload> {
        let key = Key {
            namespace: namespace.to_owned(),
            kind: kind.as_str().to_owned(),
            name: name.to_owned(),
        };
        self.workloads.get(&key).map(AsRef::as_ref)
    }

    /// The object of this kind, as objects name each other.
    pub(crate) fn named(&self, namespace: &str, kind: &str, name: &str) -> Option<&Workload> {
        let key = Key {
            namespace: namespace.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        self.workloads.get(&key).map(AsRef::as_ref)
    }

    /// The pods that may take memory of a GPU, in the order of namespace and name.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<Workload>> {
        let pods = self.workloads.values();
        pods.filter(|workload| workload.kind == WorkloadKind::Pod)
    }

    /// Labels of a namespace, with the one that every namespace has.
    #[must_use]
    pub fn namespace_labels(&self, namespace: &str) -> BTreeMap<String, String> {
        let mut labels = self.namespaces.get(namespace).cloned().unwrap_or_default();
        labels.insert("kubernetes.io/metadata.name".to_owned(), namespace.to_owned());
        labels
    }

    /// The policy objects, in the order in which they were read.
    #[must_use]
    pub fn policies(&self) -> &[Object] {
        &self.policies
    }

    /// Every node, in order of name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().map(AsRef::as_ref)
    }

    /// Everything that makes pods, and the pods that have or may have to do with a GPU, in order of namespace, kind and name.
    pub fn workloads(&self) -> impl Iterator<Item = &Workload> {
        self.workloads.values().map(AsRef::as_ref)
    }

    /// The nodes that offer a GPU, as the policies read them, those included that only ResourceSlices give one.
    pub fn gpu_nodes<'a>(&'a self, policies: &'a PolicySet) -> impl Iterator<Item = GpuNode> + 'a {
        let published: BTreeSet<&str> = self
            .slices
            .values()
            .filter_map(|slice| slice.spec.node_name.as_deref())
            .collect();
        self.nodes.values().filter_map(move |node| {
            let policy = policies.for_device(&node.metadata.labels);
            let plugin = self.plugin_config(&node.metadata.labels, policy.device.plugin_config.as_ref());
            let read = inventory::read_in(
                node,
                inventory::Context {
                    missing: policy.missing_facts,
                    catalogue: policy.device.products.catalogue(),
                    plugin: plugin.as_deref(),
                },
            );
            let is_published = published.contains(node.metadata.name.as_str());
            read.or_else(|| is_published.then(|| inventory::bare(node)))
        })
    }

    /// The device plugin's ConfigMap of a node: the one that the policy names, else the only one with the key that the
    /// node's label names.
    fn plugin_config(
        &self,
        labels: &BTreeMap<String, String>,
        named: Option<&ConfigMapName>,
    ) -> Option<Cow<'_, PluginConfigMap>> {
        if let Some(ConfigMapName { namespace, name }) = named {
            let key = (namespace.clone(), name.clone());
            let read = self.plugin_configs.get(&key).map(|read| Cow::Borrowed(&**read));
            // One that holds nothing of the plugin's is still the one that it reads.
            return read.or_else(|| Some(Cow::Owned(PluginConfigMap::read(self.config_maps.get(&key)?))));
        }
        let key = labels.get(CONFIG_LABEL)?;
        let mut having = self.plugin_configs.values().filter(|map| map.has(key));
        match (having.next(), having.next()) {
            (Some(only), None) => Some(Cow::Borrowed(&**only)),
            _ => None,
        }
    }

    /// A node or ConfigMap of the cluster, as a verdict on it needs it.
    #[must_use]
    pub fn configuration(&self, of: &Configuration) -> Option<Configuration> {
        Some(match of {
            Configuration::ConfigMap(map) => {
                let key = (map.namespace.clone(), map.name.clone());
                Configuration::ConfigMap(self.config_maps.get(&key)?.clone())
            }
            Configuration::Node(node) => {
                let known = self.nodes.get(&node.name)?;
                Configuration::Node(NodeLabels {
                    name: node.name.clone(),
                    labels: known.metadata.labels.clone(),
                })
            }
        })
    }

    /// The ConfigMaps against which the MIG label of a node is judged: the one that the policy names and the node's own,
    /// where they are there, else every one that holds such a document.
    #[must_use]
    pub fn mig_config_maps(&self, node: &NodeLabels, policies: &PolicySet) -> Vec<ConfigMap> {
        let policy = policies.for_device(&node.labels);
        let named = policy.device.mig_config_maps(&node.name);
        let found: Vec<ConfigMap> = named
            .into_iter()
            .filter_map(|map| self.config_maps.get(&(map.namespace, map.name)).cloned())
            .collect();
        if !found.is_empty() {
            return found;
        }
        let is_mig = |text: &String| matches!(Document::read(text), Some(Document::Mig(_)));
        let holds = |map: &&ConfigMap| map.data.values().any(is_mig);
        self.config_maps.values().filter(holds).cloned().collect()
    }

    /// Whether there is no node at all: then nothing can be judged.
    #[must_use]
    pub fn has_no_nodes(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What can be looked up, where the policy allows it.
    #[must_use]
    pub fn sources(&self, allowed: bool) -> &dyn Sources {
        if allowed { self } else { &NotAllowed }
    }

    /// Puts nodes and pods into a ledger, pods in the order of namespace and name.
    pub fn fill(&self, ledger: &mut Ledger) {
        for (name, labels) in &self.namespaces {
            ledger.set_namespace(name, labels.clone());
        }
        for slice in self.slices.values() {
            ledger.set_resource_slice(slice);
        }
        for class in self.device_classes.values() {
            ledger.set_device_class(class.clone());
        }
        for claim in self.claims.values() {
            ledger.set_resource_claim(claim.clone());
        }
        for class in self.priorities.iter() {
            ledger.set_priority_class(class.clone());
        }
        for template in self.claim_templates.values() {
            ledger.set_claim_template(template.clone());
        }
        let policies = Arc::clone(ledger.policies());
        for node in self.gpu_nodes(&policies) {
            ledger.set_node(node);
        }
        for workload in self
            .workloads
            .values()
            .filter(|workload| workload.kind == WorkloadKind::Pod)
        {
            self.put_back(workload, ledger);
        }
    }

    /// Puts a pod of this cluster into a ledger that has all but some of them.
    pub fn put_back(&self, workload: &Workload, ledger: &mut Ledger) {
        let names_class = workload.pod.spec.priority_class_name.is_some();
        if names_class && workload.pod.spec.priority.is_none() {
            let mut filled = workload.pod.clone();
            self.priorities.fill(&mut filled.spec);
            ledger.set_pod(&filled, self);
        } else {
            ledger.set_pod(&workload.pod, self);
        }
    }

    /// The pods that a workload owns, through a ReplicaSet or Job as well.
    pub(crate) fn owned<'a>(&'a self, owner: &'a Workload) -> impl Iterator<Item = &'a Arc<Workload>> {
        let (namespace, kind, name) = (&owner.object.namespace, &owner.object.kind, &owner.object.name);
        let first = Key {
            namespace: namespace.clone(),
            kind: "Pod".to_owned(),
            name: String::new(),
        };
        self.workloads
            .range(first..)
            .take_while(move |(key, _)| key.namespace == *namespace && key.kind == "Pod")
            .map(|(_, pod)| pod)
            .filter(move |pod| {
                let direct = pod
                    .controller
                    .as_ref()
                    .is_some_and(|by| by.kind == *kind && by.name == *name);
                direct || workload_owner(&pod.pod.metadata) == Some((kind, name))
            })
    }
}

impl Sources for Snapshot {
    fn config_map(&self, namespace: &str, name: &str) -> LookUp<'_> {
        // A file need not hold every ConfigMap of the cluster, so what it lacks is unknown and not absent.
        self.config_maps
            .get(&(namespace.to_owned(), name.to_owned()))
            .map_or(
                LookUp::NotRead("it stands neither in the input nor in the cluster state"),
                |map| LookUp::Found(&map.data),
            )
    }
}

/// No look-up is allowed.
struct NotAllowed;

impl Sources for NotAllowed {
    fn config_map(&self, _: &str, _: &str) -> LookUp<'_> {
        LookUp::NotRead("the policy does not let ConfigMaps be read (sources.configMaps)")
    }
}

/// Reads an object that can configure GPUs; `None` for any other kind.
pub fn read_configuration(object: &Object) -> Result<Option<Configuration>, ManifestError> {
    if object.api_version() != "v1" {
        return Ok(None);
    }
    let read = Configuration::read(object.kind(), &object.value).map_err(|malformed| {
        let (kind, name) = (object.kind(), object.name());
        object.error(format!(
            "{kind} {name:?}: {}: {}",
            malformed.path, malformed.message
        ))
    })?;
    match read {
        Some(read) if read.object().name.is_empty() => {
            Err(object.error(format!("the {} has no metadata.name", object.kind())))
        }
        read => Ok(read),
    }
}

fn decode<T: DeserializeOwned>(object: &Object) -> Result<T, ManifestError> {
    serde_path_to_error::deserialize(&object.value).map_err(|error| {
        let (kind, name) = (object.kind(), object.name());
        object.error(format!("{kind} {name:?}: {}: {}", error.path(), error.inner()))
    })
}

fn named(object: &Object, metadata: &Metadata) -> Result<(), ManifestError> {
    if metadata.name.is_empty() {
        return Err(object.error(format!("the {} has no metadata.name", object.kind())));
    }
    Ok(())
}

/// Whether a container takes all variables of a ConfigMap: here they can be looked up, and may show it devices.
fn takes_variables(pod: &Pod) -> bool {
    containers(pod).any(|placed| {
        let mut sources = placed.container.env_from.iter();
        sources.any(|source| source.config_map_ref.is_some())
    })
}

/// Files written by hand leave the namespace out.
fn or_default(namespace: String) -> String {
    if namespace.is_empty() {
        "default".to_owned()
    } else {
        namespace
    }
}

#[cfg(test)]
mod tests;
