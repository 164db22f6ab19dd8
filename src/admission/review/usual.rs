//! The usual review, the creation of a pod, in one pass over its bytes.
//!
//! The API server writes `request.kind` before `request.object`, so that the object can be decoded where it stands
//! instead of being skipped first and read afterwards, and the skipping is most of what decoding costs. Whatever is not
//! usual (another kind or order of fields, an escape in a name, an error of any sort) is no result here, and the general
//! way reads the body from its beginning: it alone knows what to say of errors.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::workload::Workload;
use crate::workload::pod::{Metadata, Pod, PodSpec, PodStatus};

/// Reads the body; `None` where it is not usual.
pub(super) fn read(body: &[u8]) -> Option<Usual<'_>> {
    // One check of the whole text instead of one for each string.
    let text = std::str::from_utf8(body).ok()?;
    serde_json::from_str(text).ok()
}

/// A review of the creation of a pod.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usual<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    #[serde(borrow)]
    pub(super) request: Request<'a>,
}

/// Its request, with the names that an answer and the decision use.
pub(super) struct Request<'a> {
    pub(super) uid: &'a str,
    pub(super) kind: Kind<'a>,
    pub(super) resource: Resource<'a>,
    pub(super) sub_resource: &'a str,
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) dry_run: bool,
    pub(super) user: User<'a>,
    pub(super) workload: Box<Workload>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_field_names, reason = "the API's names")]
pub(super) struct Kind<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
}

#[derive(Default, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_field_names, reason = "the API's names")]
pub(super) struct Resource<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) resource: &'a str,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct User<'a> {
    pub(super) username: &'a str,
    #[serde(borrow)]
    pub(super) groups: Vec<&'a str>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Uid,
    Kind,
    Resource,
    SubResource,
    Name,
    Namespace,
    Operation,
    UserInfo,
    Object,
    OldObject,
    DryRun,
    #[serde(other)]
    Other,
}

/// A pod with the version and kind that it states.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata,
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

impl<'de: 'a, 'a> Deserialize<'de> for Request<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RequestVisitor)
    }
}

struct RequestVisitor;

impl<'de> Visitor<'de> for RequestVisitor {
    type Value = Request<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request to create a pod")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Request<'de>, A::Error> {
        let mut uid = None;
        let mut kind: Option<Kind<'de>> = None;
        let mut resource = None;
        let mut sub_resource = None;
        let mut name = None;
        let mut namespace = None;
        let mut creates = None;
        let mut user = None;
        let mut dry_run = None;
        let mut workload = None;
        while let Some(field) = map.next_key()? {
            match field {
                Field::Uid => once(&mut uid, map.next_value()?)?,
                Field::Kind => once(&mut kind, map.next_value()?)?,
                Field::Resource => once(&mut resource, map.next_value()?)?,
                Field::SubResource => once(&mut sub_resource, map.next_value()?)?,
                Field::Name => once(&mut name, map.next_value()?)?,
                Field::Namespace => once(&mut namespace, map.next_value()?)?,
                Field::Operation => once(&mut creates, map.next_value::<&str>()? == "CREATE")?,
                Field::UserInfo => once(&mut user, map.next_value()?)?,
                Field::DryRun => once(&mut dry_run, map.next_value()?)?,
                // Of a creation it is null and says nothing.
                Field::OldObject => map.next_value::<()>()?,
                Field::Object => {
                    let pod = kind
                        .as_ref()
                        .is_some_and(|kind| (kind.group, kind.kind) == ("", "Pod"));
                    if !pod || creates == Some(false) {
                        return Err(unusual());
                    }
                    once(&mut workload, map.next_value::<Document<'de>>()?.workload()?)?;
                }
                Field::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match (uid, kind, workload, creates) {
            (Some(uid), Some(kind), Some(workload), Some(true)) => Ok(Request {
                uid,
                kind,
                resource: resource.unwrap_or_default(),
                sub_resource: sub_resource.unwrap_or_default(),
                name: name.unwrap_or_default(),
                namespace: namespace.unwrap_or_default(),
                dry_run: dry_run.unwrap_or_default(),
                user: user.unwrap_or_default(),
                workload,
            }),
            _ => Err(unusual()),
        }
    }
}

impl Document<'_> {
    fn workload<E: de::Error>(self) -> Result<Box<Workload>, E> {
        if (self.api_version, self.kind) != ("v1", "Pod") {
            return Err(unusual());
        }
        Ok(Box::new(Workload::of_pod(Pod {
            metadata: self.metadata,
            spec: self.spec,
            status: self.status,
        })))
    }
}

fn once<T, E: de::Error>(place: &mut Option<T>, value: T) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(unusual()),
    }
}

/// Nobody reads it: the general way finds out what is wrong.
fn unusual<E: de::Error>() -> E {
    E::custom("not usual")
}
