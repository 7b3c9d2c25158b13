//! What does an object look like after a patch?
//!
//! Merge (RFC 7386), JSON (RFC 6902) and strategic-merge patches; apply is in `apply.rs`.

use serde_json::{Map, Value};

use super::apply::{ListShape, item_key, list_shape};
use super::fields;

/// Returns `target` after an RFC 7386 merge patch.
pub fn merge(target: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else {
        return patch.clone();
    };
    let mut merged = target.as_object().cloned().unwrap_or_default();
    for (key, change) in changes {
        if change.is_null() {
            merged.remove(key);
        } else {
            let old = merged.get(key).unwrap_or(&Value::Null);
            let fresh = merge(old, change);
            merged.insert(key.clone(), fresh);
        }
    }
    Value::Object(merged)
}

/// Returns `target` after a strategic merge patch.
///
/// Lists whose keys are known (see [`list_shape`]) are merged by key, sets are united, all other
/// lists are replaced. Of the directives, `$patch: delete` and `$deleteFromPrimitiveList` count.
pub fn strategic(target: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else {
        return patch.clone();
    };
    let mut merged = target.as_object().cloned().unwrap_or_default();
    for (key, change) in changes {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            delete_members(&mut merged, list, change);
        } else if key.starts_with('$') {
            continue;
        } else if change.is_null() {
            merged.remove(key);
        } else {
            let old = merged.get(key).cloned().unwrap_or(Value::Null);
            let fresh = match change {
                Value::Array(items) => strategic_list(key, &old, items),
                _ => strategic(&old, change),
            };
            merged.insert(key.clone(), fresh);
        }
    }
    Value::Object(merged)
}

fn delete_members(map: &mut Map<String, Value>, list: &str, gone: &Value) {
    if let (Some(Value::Array(items)), Some(gone)) = (map.get_mut(list), gone.as_array()) {
        items.retain(|item| !gone.contains(item));
    }
}

fn strategic_list(field: &str, old: &Value, changes: &[Value]) -> Value {
    let old = old.as_array().cloned().unwrap_or_default();
    match list_shape(field) {
        ListShape::Atomic => Value::Array(changes.to_vec()),
        ListShape::Set => {
            let mut merged = old;
            for change in changes {
                if !merged.contains(change) {
                    merged.push(change.clone());
                }
            }
            Value::Array(merged)
        }
        ListShape::Keyed(keys) => {
            let mut merged = old;
            for change in changes {
                let key = item_key(change, keys);
                let place = merged.iter().position(|item| item_key(item, keys) == key);
                let is_delete = fields::text(change, "/$patch") == "delete";
                match (place, is_delete) {
                    (Some(place), true) => drop(merged.remove(place)),
                    (None, true) => {}
                    (Some(place), false) => merged[place] = strategic(&merged[place], change),
                    (None, false) => merged.push(change.clone()),
                }
            }
            Value::Array(merged)
        }
    }
}

/// Returns `target` after an RFC 6902 patch.
///
/// # Errors
/// Says which operation could not be done; a failed `test` is one of these.
pub fn json(target: &Value, operations: &[Value]) -> Result<Value, String> {
    let mut result = target.clone();
    for operation in operations {
        let path = fields::text(operation, "/path");
        let value = operation.get("value").cloned().unwrap_or(Value::Null);
        match fields::text(operation, "/op") {
            "add" => add(&mut result, path, value)?,
            "remove" => drop(take(&mut result, path)?),
            "replace" => {
                let place = result.pointer_mut(path).ok_or_else(|| missing(path))?;
                *place = value;
            }
            "test" if result.pointer(path).unwrap_or(&Value::Null) == &value => {}
            "test" => return Err(format!("testing value {path} failed")),
            "move" => {
                let moved = take(&mut result, fields::text(operation, "/from"))?;
                add(&mut result, path, moved)?;
            }
            "copy" => {
                let from = fields::text(operation, "/from");
                let copied = result.pointer(from).cloned().ok_or_else(|| missing(from))?;
                add(&mut result, path, copied)?;
            }
            other => return Err(format!("unexpected kind: {other}")),
        }
    }
    Ok(result)
}

fn missing(path: &str) -> String {
    format!("unable to find path {path}")
}

fn split(path: &str) -> Result<(&str, String), String> {
    let (parent, last) = path.rsplit_once('/').ok_or_else(|| missing(path))?;
    Ok((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let (parent, last) = split(path)?;
    match target.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.insert(last, value)),
        Some(Value::Array(items)) if last == "-" => items.push(value),
        Some(Value::Array(items)) => {
            let index = last.parse().map_err(|_| missing(path))?;
            if index > items.len() {
                return Err(missing(path));
            }
            items.insert(index, value);
        }
        _ => return Err(missing(path)),
    }
    Ok(())
}

fn take(target: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, last) = split(path)?;
    let taken = match target.pointer_mut(parent) {
        Some(Value::Object(map)) => map.remove(&last),
        Some(Value::Array(items)) => {
            let index = last
                .parse::<usize>()
                .ok()
                .filter(|index| *index < items.len());
            index.map(|index| items.remove(index))
        }
        _ => None,
    };
    taken.ok_or_else(|| missing(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merge_patch_removes_on_null_and_replaces_lists() {
        let target = json!({"a": 1, "b": {"c": 2, "d": 3}, "l": [1, 2]});
        let patch = json!({"a": null, "b": {"c": 5}, "l": [9]});
        assert_eq!(
            merge(&target, &patch),
            json!({"b": {"c": 5, "d": 3}, "l": [9]})
        );
    }

    #[test]
    fn strategic_patch_merges_lists_with_known_keys() {
        let target = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}]}});
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let expected = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False"}, {"type": "Disk", "status": "False"}]}});
        assert_eq!(strategic(&target, &patch), expected);
    }

    #[test]
    fn json_patch_runs_in_order_and_stops_at_a_failed_test() {
        let target = json!({"metadata": {"labels": {"a/b": "1"}}, "l": [1]});
        let patch = [
            json!({"op": "test", "path": "/metadata/labels/a~1b", "value": "1"}),
            json!({"op": "remove", "path": "/metadata/labels/a~1b"}),
            json!({"op": "add", "path": "/l/-", "value": 2}),
        ];
        let expected = json!({"metadata": {"labels": {}}, "l": [1, 2]});
        assert_eq!(json(&target, &patch), Ok(expected));
        let failing = [json!({"op": "test", "path": "/l/0", "value": 7})];
        assert!(json(&target, &failing).is_err());
    }
}
