//! Is our schema the one of CAPZ, plus what we meant to add and nothing else?
//!
//! CAPZ's side is a table of facts, `tools/capz-facts/*.tsv`, made by the script beside it. The
//! other side is our definition, taken apart in the same way. What differs has to be named here.

mod schema;

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What we have that CAPZ has not. All of it is in status, and optional.
const POOL_ADDITIONS: &[&str] = &[
    // The v1beta2 contract of Cluster API.
    ".status.initialization",
    ".status.initialization.provisioned",
    // Which generation the status is about: without it, a user can't tell an old status.
    ".status.observedGeneration",
    // Where the transition plan of Cluster API puts metav1 conditions.
    ".status.v1beta2",
    ".status.v1beta2.conditions",
    ".status.v1beta2.conditions[]",
    ".status.v1beta2.conditions[].lastTransitionTime",
    ".status.v1beta2.conditions[].message",
    ".status.v1beta2.conditions[].observedGeneration",
    ".status.v1beta2.conditions[].reason",
    ".status.v1beta2.conditions[].status",
    ".status.v1beta2.conditions[].type",
];

/// The same for machines, and the fields of the InfraMachine contract that core copies.
const MACHINE_ONLY_ADDITIONS: &[&str] = &[
    ".status.addresses",
    ".status.addresses[]",
    ".status.addresses[].address",
    ".status.addresses[].type",
    ".status.failureDomain",
    ".status.interruptible",
];

/// Where we have CEL rules, which CAPZ has in its webhook. `tests/rules.rs` says what they do.
const POOL_RULES: &[&str] = &[
    ".spec",
    ".spec.strategy.rollingUpdate",
    ".spec.template",
    ".spec.template.diagnostics.boot",
    ".spec.template.image",
    ".spec.template.osDisk",
    ".spec.template.terminateNotificationTimeout",
];

#[test]
fn pool_schema_is_that_of_capz_and_the_named_additions() {
    let theirs = table(include_str!(
        "../../../tools/capz-facts/azuremachinepools.tsv"
    ));
    let ours = facts(&schema::definition("azuremachinepools"));
    assert_same(theirs, ours, POOL_ADDITIONS.to_vec(), POOL_RULES);
}

#[test]
fn machine_schema_is_that_of_capz_and_the_named_additions() {
    let theirs = table(include_str!(
        "../../../tools/capz-facts/azuremachinepoolmachines.tsv"
    ));
    let ours = facts(&schema::definition("azuremachinepoolmachines"));
    assert_same(
        theirs,
        ours,
        [POOL_ADDITIONS, MACHINE_ONLY_ADDITIONS].concat(),
        &[],
    );
}

#[test]
fn definitions_carry_the_labels_of_both_contracts() {
    for crd in weir_api::crds() {
        let labels = crd.metadata.labels.unwrap_or_default();
        let expected = [
            ("cluster.x-k8s.io/provider", "infrastructure-azure"),
            ("cluster.x-k8s.io/v1beta1", "v1beta1"),
            ("cluster.x-k8s.io/v1beta2", "v1beta1"),
        ];
        assert!(
            labels
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .eq(expected),
            "{labels:?}"
        );
    }
}

#[test]
fn every_field_of_ours_has_a_description() {
    for plural in ["azuremachinepools", "azuremachinepoolmachines"] {
        let definition = schema::definition(plural);
        let mut missing = Vec::new();
        walk(
            "",
            schema::schema(&definition),
            false,
            &mut |path, node, _| {
                // Items and values are described by the list and the map that they are in.
                let is_entry = path.ends_with("[]") || path.ends_with("{}");
                if node["description"].is_null() && !is_entry && path != ".metadata" {
                    missing.push(path.to_owned());
                }
            },
        );
        assert_eq!(missing, Vec::<String>::new(), "{plural}");
    }
}

/// One row of the table: what the schema says at a path, as far as it has to be the same.
#[derive(Clone, Debug, Default, PartialEq)]
struct Fact {
    type_: String,
    format: String,
    default: Option<Value>,
    enum_: Vec<String>,
    required: bool,
    list_type: String,
    other: Value,
}

type Facts = BTreeMap<String, Fact>;

fn assert_same(theirs: Facts, mut ours: Facts, mut additions: Vec<&str>, rules: &[&str]) {
    let mut ruled = Vec::new();
    for (path, fact) in &mut ours {
        let Value::Object(other) = &mut fact.other else {
            continue;
        };
        if other.remove("x-kubernetes-validations").is_some() {
            ruled.push(path.clone());
        }
        if other.is_empty() {
            fact.other = Value::Null;
        }
    }
    assert_eq!(ruled, rules, "paths with CEL rules");

    for (path, theirs) in &theirs {
        assert_eq!(
            Some(theirs),
            ours.get(path),
            "{path}: left is CAPZ's, right is ours"
        );
    }
    let mut added = ours
        .keys()
        .filter(|path| !theirs.contains_key(*path))
        .collect::<Vec<_>>();
    added.sort();
    additions.sort();
    assert_eq!(added, additions, "paths that only we have");
    for path in added {
        assert!(path.starts_with(".status."), "{path} is not in status");
        let is_in_a_part_that_capz_has = theirs.contains_key(parent(path));
        assert!(
            !ours[path].required || !is_in_a_part_that_capz_has,
            "{path} is required"
        );
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('.').map_or(".", |(parent, _)| parent)
}

/// Reads a table as `refresh.py` writes it.
fn table(text: &str) -> Facts {
    let lines = text
        .lines()
        .skip_while(|line| line.starts_with('#'))
        .skip(1);
    lines
        .map(|line| {
            let cells = line.split('\t').collect::<Vec<_>>();
            let [
                path,
                type_,
                format,
                default,
                enum_,
                required,
                list_type,
                other,
            ] = cells[..]
            else {
                panic!("not eight cells: {line:?}")
            };
            let json = |cell: &str| serde_json::from_str(cell).expect("a cell of JSON");
            let fact = Fact {
                type_: type_.to_owned(),
                format: format.to_owned(),
                default: (!default.is_empty()).then(|| json(default)),
                enum_: enum_
                    .split(',')
                    .filter(|s| !s.is_empty())
                    .map(str::to_owned)
                    .collect(),
                required: required == "required",
                list_type: list_type.to_owned(),
                other: if other.is_empty() {
                    Value::Null
                } else {
                    json(other)
                },
            };
            (path.to_owned(), fact)
        })
        .collect()
}

/// Takes a definition of ours apart as `refresh.py` does with CAPZ's.
fn facts(definition: &Value) -> Facts {
    let spec = &definition["spec"];
    let version = &spec["versions"][0];
    let mut facts = Facts::new();
    let mut kind_fact = |name: String, other: Value| {
        facts.insert(
            format!("@{name}"),
            Fact {
                other,
                ..Fact::default()
            },
        );
    };
    kind_fact("group".into(), spec["group"].clone());
    kind_fact("scope".into(), spec["scope"].clone());
    kind_fact("names".into(), spec["names"].clone());
    kind_fact("subresources".into(), version["subresources"].clone());
    let [name, served, storage] = ["name", "served", "storage"].map(|word| &version[word]);
    kind_fact(
        "version".into(),
        json!({ "name": name, "served": served, "storage": storage }),
    );
    let columns = version["additionalPrinterColumns"]
        .as_array()
        .expect("a list of columns");
    for (index, column) in columns.iter().enumerate() {
        let mut column = column.clone();
        column
            .as_object_mut()
            .expect("a column")
            .remove("description");
        kind_fact(format!("column.{index}"), column);
    }
    walk(
        "",
        schema::schema(definition),
        false,
        &mut |path, node, required| {
            let path = if path.is_empty() { "." } else { path };
            facts.insert(path.to_owned(), fact(node, required));
        },
    );
    facts
}

fn fact(node: &Value, required: bool) -> Fact {
    let text = |word: &str| node[word].as_str().unwrap_or_default().to_owned();
    let mut other = node.as_object().expect("a schema is an object").clone();
    for elsewhere in [
        "type",
        "format",
        "default",
        "enum",
        "required",
        "x-kubernetes-list-type",
        "description",
        "properties",
        "items",
        "additionalProperties",
    ] {
        other.remove(elsewhere);
    }
    Fact {
        type_: text("type"),
        format: text("format"),
        default: node.get("default").cloned(),
        enum_: strings(&node["enum"]),
        required,
        list_type: text("x-kubernetes-list-type"),
        other: if other.is_empty() {
            Value::Null
        } else {
            Value::Object(other)
        },
    }
}

fn walk(path: &str, node: &Value, required: bool, visit: &mut impl FnMut(&str, &Value, bool)) {
    visit(path, node, required);
    let needed = strings(&node["required"]);
    for (name, below) in node["properties"].as_object().into_iter().flatten() {
        walk(
            &format!("{path}.{name}"),
            below,
            needed.contains(name),
            visit,
        );
    }
    for (word, sign) in [("items", "[]"), ("additionalProperties", "{}")] {
        if node[word].is_object() {
            walk(&format!("{path}{sign}"), &node[word], false, visit);
        }
    }
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
