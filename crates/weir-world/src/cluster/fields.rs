//! How is a field of an untyped object read or written?
//!
//! Paths are JSON pointers (`/metadata/name`). Reading never fails: what is absent is empty.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Returns the value at `pointer`.
///
/// As `Value::pointer`, which allocates for every part of the path; this is the hot path of a
/// simulation.
pub fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut place = object;
    for part in pointer.split('/').skip(1) {
        place = match place {
            Value::Object(map) if part.contains('~') => map.get(&unescaped(part))?,
            Value::Object(map) => map.get(part)?,
            Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(place)
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Returns the text at `pointer`, or "" when there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or("")
}

/// Returns the integer at `pointer`.
pub fn number(object: &Value, pointer: &str) -> Option<i64> {
    at(object, pointer).and_then(Value::as_i64)
}

/// Returns whether `pointer` holds `true`.
pub fn flag(object: &Value, pointer: &str) -> bool {
    at(object, pointer)
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

/// Returns the list at `pointer`, empty when there is none.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns the time at `pointer`.
pub fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// Returns `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// Returns `metadata.namespace`, "" for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// Returns `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Returns the value of a label, or "" when it is not set.
pub fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    entry(object, "/metadata/labels", key).unwrap_or("")
}

/// Returns the value of an annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    entry(object, "/metadata/annotations", key)
}

fn entry<'a>(object: &'a Value, pointer: &str, key: &str) -> Option<&'a str> {
    at(object, pointer)?.get(key)?.as_str()
}

/// Returns whether the object has a deletion timestamp.
pub fn is_deleting(object: &Value) -> bool {
    at(object, "/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

/// Returns the owner reference whose `controller` is true.
pub fn controller(object: &Value) -> Option<&Value> {
    list(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| flag(owner, "/controller"))
}

/// Returns the status ("True", "False", "Unknown") of a condition, or "" when it is absent.
pub fn condition<'a>(object: &'a Value, condition_type: &str) -> &'a str {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == condition_type)
        .map_or("", |condition| text(condition, "/status"))
}

/// Returns whether the object's `Ready` condition is true.
pub fn is_ready(object: &Value) -> bool {
    condition(object, "Ready") == "True"
}

/// Writes `value` at `pointer`, making the maps on the way.
pub fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for part in pointer.split('/').skip(1) {
        place = match part.contains('~') {
            true => child(place, &unescaped(part)),
            false => child(place, part),
        };
    }
    *place = value;
}

/// Writes `metadata.labels[key]`.
pub fn set_label(object: &mut Value, key: &str, value: &str) {
    *child(child(child(object, "metadata"), "labels"), key) = json!(value);
}

/// Writes `metadata.annotations[key]`.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    *child(child(child(object, "metadata"), "annotations"), key) = json!(value);
}

fn child<'a>(place: &'a mut Value, key: &str) -> &'a mut Value {
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    match place {
        Value::Object(map) => map.entry(key).or_insert(Value::Null),
        _ => unreachable!("the line above made it a map"),
    }
}

/// Takes the field at `pointer` away; nothing happens when it is absent.
pub fn remove(object: &mut Value, pointer: &str) {
    if let Some((parent, last)) = pointer.rsplit_once('/')
        && let Some(Value::Object(map)) = object.pointer_mut(parent)
    {
        map.remove(&unescaped(last));
    }
}

/// Sets a condition; `lastTransitionTime` moves only when the status changes.
pub fn set_condition(object: &mut Value, fresh: Condition<'_>, now: Timestamp) {
    let Condition {
        condition_type,
        status,
        reason,
        message,
    } = fresh;
    let place = child(child(object, "status"), "conditions");
    if !place.is_array() {
        *place = json!([]);
    }
    let Value::Array(conditions) = place else {
        unreachable!("the line above made it a list")
    };
    let written = json!({"type": condition_type, "status": status, "reason": reason,
        "message": message, "lastTransitionTime": stamp(now)});
    match conditions
        .iter_mut()
        .find(|one| text(one, "/type") == condition_type)
    {
        Some(old) if text(old, "/status") == status => {
            let since = old["lastTransitionTime"].clone();
            *old = written;
            old["lastTransitionTime"] = since;
        }
        Some(old) => *old = written,
        None => conditions.push(written),
    }
}

/// A condition to be written with [`set_condition`].
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a> {
    /// The condition's type, such as `Ready`.
    pub condition_type: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// A word for machines.
    pub reason: &'a str,
    /// A sentence for people.
    pub message: &'a str,
}

/// Adds a finalizer unless it is there.
pub fn add_finalizer(object: &mut Value, finalizer: &str) {
    if has_finalizer(object, finalizer) {
        return;
    }
    let place = child(child(object, "metadata"), "finalizers");
    match place {
        Value::Array(all) => all.push(json!(finalizer)),
        other => *other = json!([finalizer]),
    }
}

/// Takes a finalizer away.
pub fn remove_finalizer(object: &mut Value, finalizer: &str) {
    if let Some(Value::Array(all)) = object.pointer_mut("/metadata/finalizers") {
        all.retain(|one| one.as_str() != Some(finalizer));
    }
}

/// Returns whether the object has this finalizer.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    list(object, "/metadata/finalizers")
        .iter()
        .any(|one| one.as_str() == Some(finalizer))
}

/// Returns a time the way Kubernetes writes it: RFC 3339 with whole seconds.
pub fn stamp(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).map_or_else(|_| at.to_string(), |at| at.to_string())
}
