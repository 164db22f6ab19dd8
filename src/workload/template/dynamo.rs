//! NVIDIA Dynamo: a graph of services, each with a main container and its resources in the operator's shorthand.

use serde_json::{Map, Value, json};

use super::super::controller::Malformed;
use super::super::pod::Made;
use super::{Layout, Origin, Template, count, template_at};
use crate::finding::FieldPath;

mod nodes;

/// Who adds to the pods of every template.
const OPENED: &str = "the Dynamo operator adds to its pods";

/// What is told of whoever makes the command line.
const BY: &str = "the Dynamo operator makes the command line";

/// The templates of a graph.
pub(super) fn graph(spec: &Value) -> Result<Vec<Template>, Malformed> {
    let own = FieldPath::new("spec");
    let mut found = Vec::new();
    let list = own.field("components");
    let graph = Variables::of(spec, &own, "env")?;
    for (index, part) in count::list(spec, &own, "components")?.iter().enumerate() {
        found.extend(component(part, &list.index(index), &graph)?);
    }
    let graph = Variables::of(spec, &own, "envs")?;
    let services = count::map(spec, &own, "services")?.and_then(Value::as_object);
    for (name, part) in services.into_iter().flatten() {
        found.push(service(part, &own.field("services").field(name), &graph)?);
    }
    Ok(found)
}

/// The template of a service or component that is an object of its own.
pub(super) fn alone(spec: &Value) -> Result<Template, Malformed> {
    let own = FieldPath::new("spec");
    let graph = Variables {
        path: own.clone(),
        list: &[],
    };
    match component(spec, &own, &graph)? {
        Some(template) => Ok(template),
        None => service(spec, &own, &graph),
    }
}

/// A service of `v1alpha1`: what its pods add to the operator's stands in `extraPodSpec`, the main container apart.
fn service(service: &Value, path: &FieldPath, graph: &Variables<'_>) -> Result<Template, Malformed> {
    if !service.is_object() {
        return Err(count::wrong(path, service, "an object"));
    }
    let pod_at = path.field("extraPodSpec");
    let pod = count::map(service, path, "extraPodSpec")?.cloned();
    let mut pod = pod.unwrap_or_else(|| json!({}));
    let main_at = pod_at.field("mainContainer");
    let main = count::map(&pod, &pod_at, "mainContainer")?.cloned();
    let mut main = main
        .and_then(|main| main.as_object().cloned())
        .unwrap_or_default();
    main.insert("name".to_owned(), json!("mainContainer"));
    resources(service, &mut main);
    let outer = [graph, &Variables::of(service, path, "envs")?];
    let variables = environment(&outer, &main_at, &mut main)?;
    let folder = main.get("workingDir").and_then(Value::as_str);
    let folder = folder.unwrap_or_default().to_owned();
    let list = count::list(&pod, &pod_at, "containers")?.to_vec();
    let at = FieldPath::new("spec").field("containers").index(list.len());
    pod["containers"] = list.into_iter().chain([Value::Object(main)]).collect();
    let mut template = template_at(&pod, None, &pod_at, true, pods(service, path)?)?;
    template.path = path.clone();
    template.layout.put(at.clone(), Origin::own(main_at.clone()));
    put_variables(&mut template.layout, &at, variables);
    template.layout.opened_by(OPENED);
    if let Some(main) = template.pod.spec.containers.last_mut() {
        let command = main.command.as_deref().unwrap_or_default();
        let args = main.args.as_deref().unwrap_or_default();
        if command.is_empty() && args.is_empty() {
            let is_frontend = service.get("componentType").and_then(Value::as_str) == Some("frontend");
            main.made = is_frontend.then(frontend);
        } else if command.is_empty() {
            let line = args.join(" ");
            let launched = launcher(&line, &folder);
            main.made = Some(Made {
                doubtful: launched.is_some(),
                commands: vec![vec![
                    "/bin/sh".to_owned(),
                    "-c".to_owned(),
                    launched.unwrap_or(line),
                ]],
                by: BY.to_owned(),
                origins: [((0, 2), Origin::own(main_at.field("args")))].into(),
                ..Made::default()
            });
        }
        nodes::spread(main, nodes(service, path)?, &main_at);
    }
    Ok(template)
}

/// A component: from `v1beta1` on each holds the template of its pods, whose container `main` the operator completes.
fn component(
    component: &Value,
    path: &FieldPath,
    graph: &Variables<'_>,
) -> Result<Option<Template>, Malformed> {
    if !component.is_object() {
        return Err(count::wrong(path, component, "an object"));
    }
    let template_path = path.field("podTemplate");
    let Some(written) = count::map(component, path, "podTemplate")? else {
        return Ok(None);
    };
    let pod_at = template_path.field("spec");
    let pod = count::map(written, &template_path, "spec")?.cloned();
    let mut pod = pod.unwrap_or_else(|| json!({}));
    let outer = [graph, &Variables::of(component, path, "env")?];
    let mut layout = Layout::whole(&template_path);
    let mut list = count::list(&pod, &pod_at, "containers")?.to_vec();
    for (index, container) in list.iter_mut().enumerate() {
        let Some(main) = container.as_object_mut() else {
            continue;
        };
        if main.get("name").and_then(Value::as_str) == Some("main") {
            let main_at = pod_at.field("containers").index(index);
            let variables = environment(&outer, &main_at, main)?;
            let at = FieldPath::new("spec").field("containers").index(index);
            put_variables(&mut layout, &at, variables);
        }
    }
    pod["containers"] = Value::Array(list);
    let desired = pods(component, path)?;
    let mut template = template_at(&pod, written.get("metadata"), &template_path, false, desired)?;
    template.layout = layout;
    template.layout.opened_by(OPENED);
    let is_frontend = component.get("type").and_then(Value::as_str) == Some("frontend");
    let nodes = nodes(component, path)?;
    for (index, main) in template.pod.spec.containers.iter_mut().enumerate() {
        if main.name != "main" {
            continue;
        }
        if is_frontend && main.command.is_none() && main.args.is_none() {
            main.made = Some(frontend());
        }
        nodes::spread(main, nodes, &pod_at.field("containers").index(index));
    }
    Ok(Some(template))
}

/// What the operator gives a front end without a command.
fn frontend() -> Made {
    let words = ["python3", "-m", "dynamo.frontend"];
    Made {
        commands: vec![words.into_iter().map(str::to_owned).collect()],
        by: BY.to_owned(),
        ..Made::default()
    }
}

/// Nodes over which the ranks of a service are spread, a pod on each; zero where nothing says so.
fn nodes(service: &Value, path: &FieldPath) -> Result<u32, Malformed> {
    match count::map(service, path, "multinode")? {
        Some(multinode) => {
            let nodes = count::field(multinode, &path.field("multinode"), "nodeCount")?;
            Ok(nodes.unwrap_or(0))
        }
        None => Ok(0),
    }
}

/// Pods of a service in the steady state.
fn pods(service: &Value, path: &FieldPath) -> Result<u32, Malformed> {
    let replicas = count::field(service, path, "replicas")?.unwrap_or(1);
    Ok(replicas.saturating_mul(nodes(service, path)?.max(1)))
}

/// Variables of a list, and where that stands.
struct Variables<'v> {
    path: FieldPath,
    list: &'v [Value],
}

impl<'v> Variables<'v> {
    fn of(value: &'v Value, at: &FieldPath, name: &str) -> Result<Self, Malformed> {
        Ok(Self {
            path: at.field(name),
            list: count::list(value, at, name)?,
        })
    }
}

/// Puts the variables around a container, the outermost first, before its own of the same name; where each one stands
/// then.
fn environment(
    outer: &[&Variables<'_>],
    main_at: &FieldPath,
    main: &mut Map<String, Value>,
) -> Result<Vec<FieldPath>, Malformed> {
    if outer.iter().all(|variables| variables.list.is_empty()) {
        return Ok(Vec::new());
    }
    let all = {
        let written = main.get("env").filter(|own| !own.is_null());
        let own = match written {
            None => &[][..],
            Some(Value::Array(list)) => list,
            Some(other) => return Err(count::wrong(&main_at.field("env"), other, "a list")),
        };
        let own = Variables {
            path: main_at.field("env"),
            list: own,
        };
        let all = outer.iter().copied().chain([&own]);
        all.flat_map(|variables| {
            let items = variables.list.iter().enumerate();
            items.map(|(index, variable)| (variable.clone(), variables.path.index(index)))
        })
        .collect::<Vec<_>>()
    };
    let (values, paths): (Vec<Value>, Vec<FieldPath>) = all.into_iter().unzip();
    main.insert("env".to_owned(), Value::Array(values));
    Ok(paths)
}

/// Says where the variables of the container at `at` stand.
fn put_variables(layout: &mut Layout, at: &FieldPath, paths: Vec<FieldPath>) {
    for (index, path) in paths.into_iter().enumerate() {
        layout.put(at.field("env").index(index), Origin::own(path));
    }
}

/// `python3 components/main.py` in the folder of a back end is that back end's module.
fn launcher(line: &str, folder: &str) -> Option<String> {
    let backend = folder.rsplit_once("backends/")?.1.trim_end_matches('/');
    let module = ["vllm", "sglang", "trtllm"]
        .into_iter()
        .find(|module| *module == backend)?;
    let (before, after) = line.split_once("components/main.py")?;
    before
        .trim_start()
        .starts_with("python")
        .then(|| format!("{before}-m dynamo.{module}{after}"))
}

/// `gpu: "1"` of a service means the NVIDIA resource of its main container.
fn resources(service: &Value, main: &mut Map<String, Value>) {
    for part in ["limits", "requests"] {
        let Some(count) = service
            .get("resources")
            .and_then(|resources| resources.get(part)?.get("gpu"))
        else {
            continue;
        };
        let resources = main.entry("resources").or_insert_with(|| json!({}));
        // A request without a limit is completed by the operator.
        for part in ["limits", part] {
            if let Some(list) = resources.as_object_mut() {
                let list = list.entry(part).or_insert_with(|| json!({}));
                if let Some(list) = list.as_object_mut() {
                    list.entry("nvidia.com/gpu").or_insert_with(|| count.clone());
                }
            }
        }
    }
}
