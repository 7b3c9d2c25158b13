//! Who owns which field, and what does a server-side apply change?
//!
//! Ownership is kept per leaf. Lists are maps, sets or atoms by the name of the field: a small
//! table stands in for the list types of schemas. `managedFields` is not shown on objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListShape {
    /// Items are objects told apart by these fields.
    Keyed(&'static [&'static str]),
    /// Items are scalars, each at most once.
    Set,
    /// The list has one owner and is replaced as a whole.
    Atomic,
}

/// Returns the shape of the list in a field of this name.
pub fn list_shape(field: &str) -> ListShape {
    match field {
        "conditions" => ListShape::Keyed(&["type"]),
        "ownerReferences" => ListShape::Keyed(&["uid"]),
        "taints" => ListShape::Keyed(&["key", "effect"]),
        "containers" | "initContainers" | "env" | "volumes" => ListShape::Keyed(&["name"]),
        "finalizers" => ListShape::Set,
        _ => ListShape::Atomic,
    }
}

/// Returns what tells this item apart, or `None` when it lacks one of the keys.
pub fn item_key(item: &Value, keys: &[&str]) -> Option<Vec<String>> {
    keys.iter()
        .map(|key| item.get(key)?.as_str().map(str::to_owned))
        .collect()
}

/// One step from an object to one of its leaves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    Item(Vec<String>),
    Member(String),
}

type Path = Vec<Step>;

/// How a manager wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// In any other way.
    Update,
}

/// Which part of the object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The object itself.
    Main,
    /// Its status subresource.
    Status,
}

/// One writer of fields: its name, the way it wrote, and the part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Writer {
    /// Field manager.
    pub name: String,
    /// How it wrote.
    pub operation: Operation,
    /// Through which part.
    pub part: Part,
}

/// Which writer owns which leaves of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    owned: BTreeMap<Writer, BTreeSet<Path>>,
}

/// An apply that would overwrite somebody else's field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflict {
    /// Who owns the field.
    pub owner: String,
    /// The field, with dots.
    pub field: String,
}

/// Whether an apply takes fields from their owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// It does.
    Yes,
    /// It is refused instead.
    No,
}

impl Ownership {
    /// Records a write that was not an apply: who changed a field owns it alone.
    pub fn update(&mut self, writer: Writer, old: &Value, new: &Value) {
        let before = leaves(old);
        let after = leaves(new);
        let is_new = |(path, value): &(&Path, &&Value)| before.get(*path) != Some(*value);
        let changed: BTreeSet<Path> = after
            .iter()
            .filter(is_new)
            .map(|(path, _)| path.clone())
            .collect();
        for paths in self.owned.values_mut() {
            paths.retain(|path| after.contains_key(path) && !changed.contains(path));
        }
        self.owned.entry(writer).or_default().extend(changed);
        self.owned.retain(|_, paths| !paths.is_empty());
    }

    /// Returns the object after an apply of `wanted`, and records the ownership.
    ///
    /// # Errors
    /// Lists the fields that others own with different values, unless forced.
    pub fn apply(
        &mut self,
        writer: Writer,
        live: &Value,
        wanted: &Value,
        force: Force,
    ) -> Result<Value, Vec<FieldConflict>> {
        let wanted_leaves = leaves(wanted);
        let live_leaves = leaves(live);
        let differs = |path: &Path| live_leaves.get(path) != wanted_leaves.get(path);
        let conflicts = self.conflicts(&writer, &wanted_leaves, &live_leaves);
        if force == Force::No && !conflicts.is_empty() {
            return Err(conflicts);
        }
        let mut merged = merge(live, wanted, "");
        let mine: BTreeSet<Path> = wanted_leaves.keys().cloned().collect();
        let before = self.owned.remove(&writer).unwrap_or_default();
        for path in before.difference(&mine) {
            let is_shared = self
                .owned
                .values()
                .flatten()
                .any(|other| other.starts_with(path));
            if !is_shared {
                remove_path(&mut merged, path);
            }
        }
        for paths in self.owned.values_mut() {
            paths.retain(|path| !mine.contains(path) || !differs(path));
        }
        self.owned.insert(writer, mine);
        self.owned.retain(|_, paths| !paths.is_empty());
        Ok(merged)
    }

    fn conflicts(
        &self,
        writer: &Writer,
        wanted: &BTreeMap<Path, &Value>,
        live: &BTreeMap<Path, &Value>,
    ) -> Vec<FieldConflict> {
        let others = self.owned.iter().filter(|(other, _)| *other != writer);
        let mut conflicts = Vec::new();
        for (other, paths) in others {
            for path in paths {
                let Some(value) = wanted.get(path) else {
                    continue;
                };
                if live.get(path).is_some_and(|old| old != value) {
                    let owner = other.name.clone();
                    conflicts.push(FieldConflict {
                        owner,
                        field: dotted(path),
                    });
                }
            }
        }
        conflicts
    }
}

fn dotted(path: &Path) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) => text.extend([".", name]),
            Step::Item(keys) => text.extend(["[", &keys.join(","), "]"]),
            Step::Member(value) => text.extend(["[=", value, "]"]),
        }
    }
    text
}

/// Fields the server writes itself; nobody owns them.
const SYSTEM_FIELDS: [&str; 10] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
];

/// Stands for the existence of a list item.
static ITEM: Value = Value::Bool(true);

fn leaves(object: &Value) -> BTreeMap<Path, &Value> {
    let mut found = BTreeMap::new();
    let mut path = Vec::new();
    for (key, value) in object.as_object().into_iter().flatten() {
        if key == "apiVersion" || key == "kind" {
            continue;
        }
        path.push(Step::Field(key.clone()));
        match value {
            Value::Object(map) if key == "metadata" => {
                for (key, value) in map {
                    if !SYSTEM_FIELDS.contains(&key.as_str()) {
                        path.push(Step::Field(key.clone()));
                        collect(value, key, &mut path, &mut found);
                        path.pop();
                    }
                }
            }
            _ => collect(value, key, &mut path, &mut found),
        }
        path.pop();
    }
    found
}

fn collect<'a>(
    value: &'a Value,
    field: &str,
    path: &mut Path,
    found: &mut BTreeMap<Path, &'a Value>,
) {
    match value {
        Value::Null => {}
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                path.push(Step::Field(key.clone()));
                collect(value, key, path, found);
                path.pop();
            }
        }
        Value::Array(items) => match list_shape(field) {
            ListShape::Keyed(keys) if items.iter().all(|item| item_key(item, keys).is_some()) => {
                for item in items {
                    path.push(Step::Item(item_key(item, keys).unwrap_or_default()));
                    found.insert(path.clone(), &ITEM);
                    collect(item, "", path, found);
                    path.pop();
                }
            }
            ListShape::Set if items.iter().all(Value::is_string) => {
                for item in items {
                    path.push(Step::Member(item.as_str().unwrap_or("").to_owned()));
                    found.insert(path.clone(), item);
                    path.pop();
                }
            }
            _ => drop(found.insert(path.clone(), value)),
        },
        _ => drop(found.insert(path.clone(), value)),
    }
}

fn merge(live: &Value, wanted: &Value, field: &str) -> Value {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let mut merged: Map<String, Value> = live.clone();
            for (key, value) in wanted.iter().filter(|(_, value)| !value.is_null()) {
                let old = merged.get(key).unwrap_or(&Value::Null);
                let fresh = merge(old, value, key);
                merged.insert(key.clone(), fresh);
            }
            Value::Object(merged)
        }
        (Value::Array(live), Value::Array(wanted)) => merge_list(live, wanted, field),
        (Value::Null, Value::Object(_)) => merge(&Value::Object(Map::new()), wanted, field),
        _ => wanted.clone(),
    }
}

fn merge_list(live: &[Value], wanted: &[Value], field: &str) -> Value {
    let mut merged = live.to_vec();
    match list_shape(field) {
        ListShape::Atomic => return Value::Array(wanted.to_vec()),
        ListShape::Set => {
            for item in wanted {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
        }
        ListShape::Keyed(keys) => {
            for item in wanted {
                let key = item_key(item, keys);
                match merged.iter_mut().find(|old| item_key(old, keys) == key) {
                    Some(old) => *old = merge(old, item, ""),
                    None => merged.push(item.clone()),
                }
            }
        }
    }
    Value::Array(merged)
}

/// Takes a leaf away, and the maps and lists below the top level that it leaves empty.
fn remove_path(object: &mut Value, path: &[Step]) {
    remove_step(object, path, "", 0);
}

fn remove_step(place: &mut Value, path: &[Step], field: &str, depth: usize) {
    let Some((step, rest)) = path.split_first() else {
        return;
    };
    match (step, place) {
        (Step::Field(name), Value::Object(map)) => {
            if rest.is_empty() {
                map.remove(name);
                return;
            }
            let Some(child) = map.get_mut(name) else {
                return;
            };
            remove_step(child, rest, name, depth + 1);
            let is_empty = child.as_object().is_some_and(Map::is_empty)
                || child.as_array().is_some_and(Vec::is_empty);
            if is_empty && depth > 0 {
                map.remove(name);
            }
        }
        (Step::Item(key), Value::Array(items)) => {
            let ListShape::Keyed(keys) = list_shape(field) else {
                return;
            };
            let is_it = |item: &Value| item_key(item, keys).as_ref() == Some(key);
            if rest.is_empty() {
                items.retain(|item| !is_it(item));
            } else if let Some(item) = items.iter_mut().find(|item| is_it(item)) {
                remove_step(item, rest, "", depth + 1);
            }
        }
        (Step::Member(value), Value::Array(items)) => {
            items.retain(|item| item.as_str() != Some(value));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn writer(name: &str) -> Writer {
        Writer {
            name: name.into(),
            operation: Operation::Apply,
            part: Part::Main,
        }
    }

    #[test]
    fn a_field_no_longer_applied_is_removed_unless_somebody_else_owns_it() {
        let mut owners = Ownership::default();
        let both = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
        let one = json!({"metadata": {"labels": {"a": "1"}}});
        let live = owners
            .apply(writer("x"), &json!({}), &both, Force::No)
            .unwrap();
        assert_eq!(live, both);
        let live = owners.apply(writer("y"), &live, &both, Force::No).unwrap();
        let live = owners.apply(writer("x"), &live, &one, Force::No).unwrap();
        assert_eq!(live, both, "y still applies b");
        let live = owners.apply(writer("y"), &live, &one, Force::No).unwrap();
        assert_eq!(live, one);
    }

    #[test]
    fn another_value_for_an_owned_field_conflicts_until_forced() {
        let mut owners = Ownership::default();
        let three = json!({"spec": {"replicas": 3}});
        let four = json!({"spec": {"replicas": 4}});
        let live = owners
            .apply(writer("x"), &json!({}), &three, Force::No)
            .unwrap();
        let refused = owners
            .apply(writer("y"), &live, &four, Force::No)
            .unwrap_err();
        assert_eq!(refused[0].field, ".spec.replicas");
        assert_eq!(refused[0].owner, "x");
        let live = owners.apply(writer("y"), &live, &four, Force::Yes).unwrap();
        assert_eq!(live, four);
        let live = owners
            .apply(writer("x"), &live, &json!({"spec": {}}), Force::No)
            .unwrap();
        assert_eq!(
            live, four,
            "x lost the field to y, so dropping it removes nothing"
        );
    }

    #[test]
    fn keyed_lists_merge_and_drop_by_item() {
        let mut owners = Ownership::default();
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let paused = json!({"status": {"conditions": [{"type": "Paused", "status": "False"}]}});
        let live = owners
            .apply(writer("x"), &json!({}), &ready, Force::No)
            .unwrap();
        let live = owners
            .apply(writer("y"), &live, &paused, Force::No)
            .unwrap();
        assert_eq!(
            live["status"]["conditions"].as_array().map(Vec::len),
            Some(2)
        );
        let none = json!({"status": {}});
        let live = owners.apply(writer("x"), &live, &none, Force::No).unwrap();
        assert_eq!(live, paused);
    }
}
