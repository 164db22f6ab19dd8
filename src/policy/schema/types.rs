//! Schemas of values that are read by hand.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::IN_CLUSTER;
use crate::finding::Code;
use crate::policy::spec::{
    CodeName, DeviceFraction, MibCount, MigProfiles, MpsMemoryLimit, ReserveFraction, Tenants,
    ThreadPercentage, Trust,
};
use crate::policy::{DefaultFraction, UnknownRule};

/// Above 0, at most 1, at most six places that count.
const DEVICE_FRACTION: &str = r"^(0*1(\.0*)?|0*\.[0-9]{0,5}[1-9]0*)$";
/// From 0, below 1.
const RESERVE_FRACTION: &str = r"^(0+(\.0*)?|0*\.[0-9]{1,6}0*)$";
/// A namespace's name.
const NAMESPACE: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";

macro_rules! by_hand {
    ($kind:ty, $name:literal, $schema:expr) => {
        impl JsonSchema for $kind {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let schema: Schema = $schema;
                schema
            }
        }
    };
}

/// A decimal as text or number; in a cluster as text, because a number there would be a float.
fn fraction(pattern: &str) -> Schema {
    let (least_key, most_key) = if pattern == RESERVE_FRACTION {
        ("minimum", "exclusiveMaximum")
    } else {
        ("exclusiveMinimum", "maximum")
    };
    json_schema!({
        "anyOf": [
            {"type": "string", "pattern": pattern},
            {"type": "number", least_key: 0, most_key: 1},
        ],
        IN_CLUSTER: {"type": "string", "pattern": pattern, "maxLength": 16},
    })
}

/// What no schema of the API server can say; the webhook checks it.
fn open() -> Value {
    json!({"x-kubernetes-preserve-unknown-fields": true})
}

by_hand!(DeviceFraction, "DeviceFraction", fraction(DEVICE_FRACTION));
by_hand!(ReserveFraction, "ReserveFraction", fraction(RESERVE_FRACTION));
by_hand!(
    MibCount,
    "MibCount",
    json_schema!({
        "type": "integer",
        "minimum": 0,
        IN_CLUSTER: {"type": "integer", "format": "int64", "minimum": 0},
    })
);
by_hand!(CodeName, "CodeName", {
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    json_schema!({"type": "string", "enum": codes})
});
by_hand!(
    DefaultFraction,
    "DefaultFraction",
    json_schema!({
        "anyOf": [
            {"type": "string", "enum": ["none", "fairShare"]},
            {"type": "string", "pattern": DEVICE_FRACTION},
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        ],
        IN_CLUSTER: {
            "type": "string",
            "pattern": format!("^(none|fairShare)$|{DEVICE_FRACTION}"),
            "maxLength": 16,
        },
    })
);
by_hand!(
    UnknownRule,
    "UnknownRule",
    json_schema!({
        "anyOf": [
            {"type": "string", "enum": ["admit", "deny", "warn", "clientLimit"]},
            {
                "type": "object",
                "required": ["assume"],
                "additionalProperties": false,
                "properties": {"assume": {
                    "anyOf": [
                        {"type": "string", "pattern": DEVICE_FRACTION},
                        {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                    ],
                    "description": "The fraction of the device that is counted.",
                }},
            },
        ],
        IN_CLUSTER: open(),
    })
);
by_hand!(
    Tenants,
    "Tenants",
    json_schema!({
        "anyOf": [
            {"type": "string", "enum": ["any", "sameNamespace"]},
            {"type": "array", "items": {"type": "array", "items": {"type": "string", "pattern": NAMESPACE}}},
        ],
        IN_CLUSTER: open(),
    })
);
by_hand!(
    MigProfiles,
    "MigProfiles",
    json_schema!({
        "anyOf": [
            {"type": "string", "enum": ["any"]},
            {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": r"^[0-9]+g\.[0-9]+gb"}},
        ],
        IN_CLUSTER: open(),
    })
);
by_hand!(
    Trust,
    "Trust",
    json_schema!({
        "anyOf": [
            {"type": "string", "enum": ["never"]},
            {"type": "array", "items": {"type": "string", "pattern": NAMESPACE}},
        ],
        IN_CLUSTER: open(),
    })
);
by_hand!(
    MpsMemoryLimit,
    "MpsMemoryLimit",
    json_schema!({
        "anyOf": [
            {"type": "string", "enum": ["footprint", "none"]},
            {"type": "integer", "minimum": 1, "maximum": 16_777_216},
        ],
        IN_CLUSTER: {
            "x-kubernetes-int-or-string": true,
            "x-kubernetes-validations": [{
                "rule": "type(self) == string ? self in ['footprint', 'none'] : self >= 1 && self <= 16777216",
                "message": "write footprint, none or a number of MiB such as 16384",
            }],
        },
    })
);
by_hand!(
    ThreadPercentage,
    "ThreadPercentage",
    json_schema!({
        "anyOf": [
            {"type": "string", "enum": ["none", "fairShare"]},
            {"type": "integer", "minimum": 1, "maximum": 100},
        ],
        IN_CLUSTER: {
            "x-kubernetes-int-or-string": true,
            "x-kubernetes-validations": [{
                "rule": "type(self) == string ? self in ['none', 'fairShare'] : self >= 1 && self <= 100",
                "message": "write none, fairShare or a percentage from 1 to 100",
            }],
        },
    })
);
