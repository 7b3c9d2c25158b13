//! What is the schema of the fields whose Rust type doesn't say it?
//!
//! Each function answers for one shape, as controller-gen would print it. The lengths and patterns
//! of conditions and of Kubernetes quantities are those of apimachinery.

use schemars::{Schema, SchemaGenerator, json_schema};

/// A point in time, as RFC 3339 text.
pub(crate) fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// An integer of no stated size; Go's `int` gives this.
pub(crate) fn integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

/// A count, or a percentage such as "20%".
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-int-or-string": true })
}

/// A Kubernetes quantity: a number, or text such as "0.5".
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    let number = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))";
    let suffix = format!(r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{number}))?");
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "pattern": format!(r"^(\+|-)?{number}{suffix}$"),
    })
}

/// A list of `metav1.Condition`, keyed by type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One statement about the object.",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "description": "What the statement is about, in CamelCase, such as Ready.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": CONDITION_TYPE_PATTERN,
                },
                "status": {
                    "description": "Whether it holds.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "description": "The metadata.generation that the statement was made about.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "lastTransitionTime": {
                    "description": "Since when the status is what it is.",
                    "type": "string",
                    "format": "date-time",
                },
                "reason": {
                    "description": "Why the status is what it is, as one word for programs.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "description": "Why the status is what it is, for people. May be empty.",
                    "type": "string",
                    "maxLength": 32768,
                },
            },
        },
    })
}

/// A qualified name with an optional DNS prefix.
const CONDITION_TYPE_PATTERN: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
);

/// A reference to any object, as Kubernetes has always had it.
pub(crate) fn object_reference(_: &mut SchemaGenerator) -> Schema {
    let text = |description: &str| {
        let description = description.to_owned();
        json_schema!({ "type": "string", "description": description })
    };
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "apiVersion": text("Group and version of the object."),
            "fieldPath": text("The part of the object that is meant, if not all of it."),
            "kind": text("Kind of the object."),
            "name": text("Name of the object."),
            "namespace": text("Namespace of the object; empty for a Node."),
            "resourceVersion": text("The version of the object that is meant, if it matters."),
            "uid": text("The UID of the object."),
        },
    })
}
