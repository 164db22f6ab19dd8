//! From bytes of a list or a watch to narrow objects. One object that does not decode costs only itself.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::workload::pod::{Container, Metadata, Pod, PodSpec, PodStatus, Resources};
use crate::workload::text::{self, Cut};

/// An object, or what is left of one that does not decode.
#[derive(Debug)]
pub(super) enum Decoded<T> {
    Whole(T),
    Unreadable(Unreadable),
}

/// An object that is valid JSON but not of its type.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) object: Value,
    pub(super) reason: String,
}

impl Unreadable {
    /// A text field of the metadata; empty where it cannot be read either.
    pub(super) fn metadata(&self, field: &str) -> &str {
        text(&self.object["metadata"][field])
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// One page of a list.
pub(super) struct Page<T> {
    pub(super) items: Vec<Decoded<T>>,
    pub(super) resource_version: String,
    pub(super) next: Option<String>,
    /// Further objects, which were passed over undecoded.
    pub(super) passed: usize,
}

#[derive(Deserialize)]
struct RawPage<T> {
    #[serde(default)]
    metadata: ListMetadata,
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: Option<String>,
    r#continue: Option<String>,
}

/// Decodes a page. In the common case in one pass over its text; object by object only where one does not decode.
pub(super) fn page<T: DeserializeOwned>(text: &str) -> Result<Page<T>, serde_json::Error> {
    let (metadata, items) = if let Ok(page) = serde_json::from_str::<RawPage<T>>(text) {
        (
            page.metadata,
            page.items
                .unwrap_or_default()
                .into_iter()
                .map(Decoded::Whole)
                .collect(),
        )
    } else {
        let page: RawPage<&RawValue> = serde_json::from_str(text)?;
        let items = page.items.unwrap_or_default();
        (
            page.metadata,
            items.into_iter().map(object).collect::<Result<_, _>>()?,
        )
    };
    Ok(Page {
        items,
        resource_version: metadata.resource_version.unwrap_or_default(),
        next: metadata.r#continue.filter(|token| !token.is_empty()),
        passed: 0,
    })
}

/// Decodes a page whose text an API server wrote, item by item. `read` gives what an item is, `Ok(None)` where it is passed
/// over; `None` where the page, or an item, is to be read the general way, all of it.
pub(super) fn page_by_text<T>(
    text: &str,
    mut read: impl FnMut(&Cut<'_>) -> Option<Option<T>>,
) -> Option<Page<T>> {
    let (head, texts) = text::list(text)?;
    let page: RawPage<IgnoredAny> = serde_json::from_str(&head).ok()?;
    let mut items = Vec::new();
    let mut passed = 0;
    for text in texts {
        match read(&Cut::of(text))? {
            Some(item) => items.push(Decoded::Whole(item)),
            None => passed += 1,
        }
    }
    Some(Page {
        items,
        resource_version: page.metadata.resource_version.unwrap_or_default(),
        next: page.metadata.r#continue.filter(|token| !token.is_empty()),
        passed,
    })
}

fn object<T: DeserializeOwned>(raw: &RawValue) -> Result<Decoded<T>, serde_json::Error> {
    match serde_json::from_str(raw.get()) {
        Ok(object) => Ok(Decoded::Whole(object)),
        Err(error) => {
            let object = serde_json::from_str(raw.get())?;
            Ok(Decoded::Unreadable(Unreadable {
                object,
                reason: error.to_string(),
            }))
        }
    }
}

/// One line of a watch.
#[derive(Debug)]
pub(super) enum Line<T> {
    Applied(Decoded<T>, String),
    Deleted(Decoded<T>, String),
    /// An object that plays no part here, and did not before.
    Passed(String),
    Bookmark(String),
    Error {
        code: u16,
        message: String,
    },
    Other(String),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The only part of an object that a watch itself needs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Versioned {
    metadata: Version,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Version {
    resource_version: Option<String>,
}

/// The part of a `Status` that says why a watch ends.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    message: Option<String>,
    reason: Option<String>,
}

/// The object of a line that tells of one that is there, without its managed fields; `None` where the line tells something
/// else, or is not one that an API server writes.
pub(super) fn applied(line: &str) -> Option<Cut<'_>> {
    let rest = line.trim_ascii_end().strip_prefix(r#"{"type":""#)?;
    let rest = rest
        .strip_prefix("ADDED")
        .or_else(|| rest.strip_prefix("MODIFIED"))?;
    Some(Cut::of(rest.strip_prefix(r#"","object":"#)?.strip_suffix('}')?))
}

/// Decodes a line of a watch. An error means that the line is no event at all, so something was lost.
pub(super) fn line<T: DeserializeOwned>(bytes: &[u8]) -> Result<Line<T>, serde_json::Error> {
    let envelope: Envelope = serde_json::from_slice(bytes)?;
    let raw = envelope.object;
    let version = || {
        let versioned: Versioned = serde_json::from_str(raw.get()).unwrap_or_default();
        versioned.metadata.resource_version.unwrap_or_default()
    };
    Ok(match &*envelope.kind {
        "ADDED" | "MODIFIED" => Line::Applied(object(raw)?, version()),
        "DELETED" => Line::Deleted(object(raw)?, version()),
        "BOOKMARK" => Line::Bookmark(version()),
        "ERROR" => {
            let status: Status = serde_json::from_str(raw.get()).unwrap_or_default();
            let expired = matches!(status.reason.as_deref(), Some("Expired" | "Gone"));
            let code = if expired { 410 } else { status.code };
            Line::Error {
                code,
                message: status.message.unwrap_or_default(),
            }
        }
        other => Line::Other(other.to_owned()),
    })
}

/// What can be read of a pod that does not decode: who it is, where it stands, and what its containers ask for. What a
/// container runs stays unreadable where the container itself does, so that its amount is unknown and not zero.
pub(super) fn salvage(unreadable: &Unreadable) -> Option<Pod> {
    let object = &unreadable.object;
    let metadata = read(&object["metadata"]).unwrap_or_else(|| Metadata {
        name: unreadable.metadata("name").to_owned(),
        namespace: unreadable.metadata("namespace").to_owned(),
        uid: unreadable.metadata("uid").to_owned(),
        deletion_timestamp: object["metadata"]["deletionTimestamp"]
            .as_str()
            .map(str::to_owned),
        ..Metadata::default()
    });
    if metadata.uid.is_empty() {
        return None;
    }
    let spec = &object["spec"];
    let spec = read(spec).unwrap_or_else(|| PodSpec {
        containers: salvage_containers(&spec["containers"]),
        init_containers: salvage_containers(&spec["initContainers"]),
        ephemeral_containers: salvage_containers(&spec["ephemeralContainers"]),
        node_name: spec["nodeName"].as_str().map(str::to_owned),
        node_selector: read(&spec["nodeSelector"]).unwrap_or_default(),
        affinity: read(&spec["affinity"]).unwrap_or_default(),
        tolerations: read(&spec["tolerations"]).unwrap_or_default(),
        resource_claims: read(&spec["resourceClaims"]).unwrap_or_default(),
        ..PodSpec::default()
    });
    let status = PodStatus {
        phase: text(&object["status"]["phase"]).to_owned(),
        resource_claim_statuses: read(&object["status"]["resourceClaimStatuses"]).unwrap_or_default(),
        extended_resource_claim_status: read(&object["status"]["extendedResourceClaimStatus"]),
        container_statuses: read(&object["status"]["containerStatuses"]).unwrap_or_default(),
    };
    Some(Pod {
        metadata,
        spec,
        status,
    })
}

fn salvage_containers(list: &Value) -> Vec<Container> {
    let containers = list.as_array().map(Vec::as_slice).unwrap_or_default();
    containers
        .iter()
        .map(|container| {
            read(container).unwrap_or_else(|| Container {
                name: text(&container["name"]).to_owned(),
                resources: salvage_resources(&container["resources"]),
                restart_policy: container["restartPolicy"].as_str().map(str::to_owned),
                ..Container::default()
            })
        })
        .collect()
}

fn salvage_resources(resources: &Value) -> Resources {
    let amounts = |list: &Value| {
        let entries = list.as_object().into_iter().flatten();
        entries
            .filter_map(|(name, amount)| Some((name.clone(), read(amount)?)))
            .collect()
    };
    Resources {
        limits: amounts(&resources["limits"]),
        requests: amounts(&resources["requests"]),
        claims: read(&resources["claims"]).unwrap_or_default(),
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = r#"{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"more"},"items":[
        {"metadata":{"name":"good","uid":"1"}},
        {"metadata":{"name":"bad","uid":"2"},"spec":{"containers":[{"name":"c","command":"text",
            "resources":{"limits":{"nvidia.com/gpu":"1","cpu":[]}}}],"nodeName":"n"}},
        {"metadata":{"name":"also-good","uid":"3"}}]}"#;

    #[test]
    fn one_bad_object_costs_only_itself() {
        let page: Page<Pod> = page(MIXED).unwrap();
        assert_eq!(
            (page.resource_version.as_str(), page.next.as_deref()),
            ("7", Some("more"))
        );
        let [
            Decoded::Whole(first),
            Decoded::Unreadable(second),
            Decoded::Whole(third),
        ] = &page.items[..]
        else {
            panic!("{:?}", page.items);
        };
        assert_eq!(
            (first.metadata.name.as_str(), third.metadata.name.as_str()),
            ("good", "also-good")
        );
        assert!(second.reason.contains("expected a sequence"), "{}", second.reason);
    }

    #[test]
    fn what_a_bad_pod_asks_for_is_still_read() {
        let page: Page<Pod> = page(MIXED).unwrap();
        let Decoded::Unreadable(unreadable) = &page.items[1] else {
            panic!()
        };
        let pod = salvage(unreadable).unwrap();
        assert_eq!(
            (pod.metadata.uid.as_str(), pod.spec.node_name.as_deref()),
            ("2", Some("n"))
        );
        assert_eq!(pod.spec.containers[0].resources.limits["nvidia.com/gpu"].0, "1");
        assert_eq!(pod.spec.containers[0].command, None);
    }

    #[test]
    fn nothing_is_salvaged_without_identity() {
        let unreadable = Unreadable {
            object: serde_json::json!({"metadata": []}),
            reason: String::new(),
        };
        assert_eq!(salvage(&unreadable), None);
        let unreadable = Unreadable {
            object: serde_json::json!("text"),
            reason: String::new(),
        };
        assert_eq!(salvage(&unreadable), None);
    }

    #[test]
    fn an_empty_list_may_be_null() {
        let page: Page<Pod> =
            page(r#"{"metadata":{"resourceVersion":"1","continue":""},"items":null}"#).unwrap();
        assert!(page.items.is_empty() && page.next.is_none());
    }

    #[test]
    fn lines_of_a_watch() {
        let read = |text: &str| line::<Pod>(text.as_bytes());
        let bookmark = read(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#).unwrap();
        assert!(matches!(bookmark, Line::Bookmark(version) if version == "9"));
        // Members in the other order, which no API server writes but JSON allows.
        let applied =
            read(r#"{"object":{"metadata":{"uid":"u","resourceVersion":"10"}},"type":"ADDED"}"#).unwrap();
        assert!(
            matches!(applied, Line::Applied(Decoded::Whole(pod), version) if pod.metadata.uid == "u" && version == "10")
        );
        let gone =
            read(r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#).unwrap();
        assert!(matches!(gone, Line::Error { code: 410, .. }));
        let expired = read(r#"{"type":"ERROR","object":{"kind":"Status","reason":"Expired"}}"#).unwrap();
        assert!(matches!(expired, Line::Error { code: 410, .. }));
        assert!(matches!(
            read(r#"{"type":"NEW","object":{}}"#).unwrap(),
            Line::Other(_)
        ));
        assert!(read(r#"{"type":"ADDED""#).is_err());
        let bad = read(
            r#"{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"11"},"spec":{"containers":3}}}"#,
        );
        assert!(matches!(bad.unwrap(), Line::Applied(Decoded::Unreadable(_), version) if version == "11"));
    }
}
