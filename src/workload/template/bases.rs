//! Objects of the same input that others build on: KServe's serving runtimes and base configurations.

use serde_json::Value;

/// What other objects name or are matched with.
#[derive(Clone, Debug, Default)]
pub struct Bases {
    runtimes: Vec<Base>,
    configurations: Vec<Base>,
}

#[derive(Clone, Debug)]
struct Base {
    /// `None` for one of the whole cluster.
    namespace: Option<String>,
    name: String,
    spec: Value,
}

/// A serving runtime.
pub(super) struct Runtime<'b> {
    pub(super) kind: &'static str,
    pub(super) name: &'b str,
    pub(super) spec: &'b Value,
}

impl<'b> Runtime<'b> {
    fn of(base: &'b Base) -> Self {
        Self {
            kind: match base.namespace {
                Some(_) => "ServingRuntime",
                None => "ClusterServingRuntime",
            },
            name: &base.name,
            spec: &base.spec,
        }
    }
}

impl Bases {
    /// Keeps an object that others build on; every other one is left alone.
    pub fn add(&mut self, object: &Value) {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let group = text("/apiVersion").split('/').next().unwrap_or_default();
        let Some(spec) = object.get("spec").filter(|_| group == "serving.kserve.io") else {
            return;
        };
        let namespaced = Some(match text("/metadata/namespace") {
            "" => "default".to_owned(),
            namespace => namespace.to_owned(),
        });
        let (list, namespace) = match text("/kind") {
            "ServingRuntime" => (&mut self.runtimes, namespaced),
            "ClusterServingRuntime" => (&mut self.runtimes, None),
            // Those of the controller's own namespace serve every other one.
            "LLMInferenceServiceConfig" => (&mut self.configurations, namespaced),
            _ => return,
        };
        list.push(Base {
            namespace,
            name: text("/metadata/name").to_owned(),
            spec: spec.clone(),
        });
    }

    /// The runtime of this name: the namespace's own, else the cluster's.
    pub(super) fn runtime(&self, namespace: &str, name: &str) -> Option<Runtime<'_>> {
        let of = |wanted: Option<&str>| {
            self.runtimes
                .iter()
                .find(|base| base.namespace.as_deref() == wanted && base.name == name)
        };
        of(Some(namespace)).or_else(|| of(None)).map(Runtime::of)
    }

    /// The runtime that is chosen for a model's format: of those that may be, the one of the highest priority, the
    /// namespace's own first.
    pub(super) fn runtime_for(
        &self,
        namespace: &str,
        format: &str,
        version: Option<&str>,
    ) -> Option<Runtime<'_>> {
        let of = |wanted: Option<&str>| {
            let candidates = self.runtimes.iter().filter(|base| {
                base.namespace.as_deref() == wanted && base.spec.get("disabled") != Some(&Value::Bool(true))
            });
            let rated = candidates.filter_map(|base| Some((priority(&base.spec, format, version)?, base)));
            // Of equal ones the first.
            rated.fold(None::<(u64, &Base)>, |best, next| match best {
                Some(best) if best.0 >= next.0 => Some(best),
                _ => Some(next),
            })
        };
        of(Some(namespace))
            .or_else(|| of(None))
            .map(|(_, base)| Runtime::of(base))
    }

    /// The base configuration of this name, in the namespace or in the controller's.
    pub(super) fn configuration(&self, namespace: &str, name: &str) -> Option<&Value> {
        let named = || self.configurations.iter().filter(|base| base.name == name);
        let own = named().find(|base| base.namespace.as_deref() == Some(namespace));
        own.or_else(|| named().next()).map(|base| &base.spec)
    }
}

/// How much a runtime wants models of a format; `None` where it is not chosen by itself.
fn priority(spec: &Value, format: &str, version: Option<&str>) -> Option<u64> {
    let formats = spec.get("supportedModelFormats").and_then(Value::as_array)?;
    let fits = |supported: &&Value| {
        let text = |name: &str| supported.get(name).and_then(Value::as_str);
        let versions = version.is_none_or(|version| text("version").is_none_or(|own| own == version));
        text("name") == Some(format) && supported.get("autoSelect") == Some(&Value::Bool(true)) && versions
    };
    let of = |supported: &Value| supported.get("priority").and_then(Value::as_u64).unwrap_or(0);
    formats.iter().filter(fits).map(of).max()
}
