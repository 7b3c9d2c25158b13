//! Do the files in `deploy/crds`, the schemas and the Rust types say the same?

mod schema;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use weir_api::{AzureMachinePool, AzureMachinePoolMachine};

/// `UPDATE_EXPECT=1 cargo test -p weir-api` writes the files anew.
#[test]
fn files_in_deploy_are_what_the_types_say() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let expected = weir_api::crds()
        .iter()
        .map(|crd| (weir_api::crd::crd_file_name(crd), weir_api::crd_yaml(crd)))
        .collect::<BTreeMap<_, _>>();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        for (name, text) in &expected {
            std::fs::write(directory.join(name), text).unwrap();
        }
    }
    let there = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect::<BTreeSet<_>>();
    assert_eq!(
        there,
        expected.keys().cloned().collect(),
        "files in deploy/crds"
    );
    for (name, text) in &expected {
        let found = std::fs::read_to_string(directory.join(name)).unwrap();
        let line = found
            .lines()
            .zip(text.lines())
            .position(|(found, made)| found != made);
        assert!(
            found == *text,
            "{name} is stale, from line {line:?}: run with UPDATE_EXPECT=1"
        );
    }
}

/// A field that the schema has and a type has not would be lost, without an error, each time an
/// object is read and written back.
#[test]
fn nothing_that_the_schema_allows_is_lost_in_the_types() {
    for round in 0..6 {
        assert_round_trip::<AzureMachinePool>("azuremachinepools", round);
        assert_round_trip::<AzureMachinePoolMachine>("azuremachinepoolmachines", round);
    }
}

/// The server fills in what the schema says; objects made in a program, or read from a file, get
/// what the types say.
#[test]
fn defaults_of_the_schema_are_those_of_the_types() {
    let minimal = json!({ "location": "westeurope", "template": { "vmSize": "s", "osDisk": {} } });
    let with = |path: &str, value: Value| {
        let mut spec = minimal.clone();
        *spec.pointer_mut(path).expect("a part of the minimal spec") = value;
        spec
    };
    let strategy = |value: Value| {
        let mut spec = minimal.clone();
        spec["strategy"] = value;
        spec
    };
    let image = json!({ "publisher": "p", "offer": "o", "sku": "s", "version": "v" });
    let template = json!({
        "vmSize": "s",
        "osDisk": { "osType": "Windows" },
        "image": { "marketplace": image },
    });
    let rows = [
        ("nothing but what must be", minimal.clone()),
        ("empty strategy", strategy(json!({}))),
        ("empty limits", strategy(json!({ "rollingUpdate": {} }))),
        (
            "one limit",
            strategy(json!({ "rollingUpdate": { "maxSurge": "20%" } })),
        ),
        ("a disk and an image", with("/template", template)),
    ];
    let definition = schema::definition("azuremachinepools");
    let spec_schema = &schema::schema(&definition)["properties"]["spec"];
    for (name, spec) in rows {
        let mut by_schema = spec.clone();
        fill_in_defaults(&mut by_schema, spec_schema);
        assert_ne!(by_schema, spec, "{name}: the schema fills in something");
        let by_type: weir_api::AzureMachinePoolSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(serde_json::to_value(by_type).unwrap(), by_schema, "{name}");
    }
    let pool = AzureMachinePool::default();
    let read: AzureMachinePool = serde_json::from_value(json!({ "spec": minimal })).unwrap();
    assert_eq!(pool.spec.strategy, read.spec.strategy);
    assert_eq!(
        pool.spec.strategy.limits(),
        weir_api::RollingUpdate::default()
    );
}

/// One object that can't be read makes a whole list unreadable, so what the schema lets through
/// has to be readable.
#[test]
fn an_object_without_spec_or_status_can_be_read() {
    let object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "AzureMachinePool",
        "metadata": { "name": "empty" },
    });
    let pool: AzureMachinePool = serde_json::from_value(object).unwrap();
    assert_eq!(pool, AzureMachinePool::new("empty", Default::default()));
    let machine: AzureMachinePoolMachine = serde_json::from_value(json!({})).unwrap();
    assert_eq!(machine, AzureMachinePoolMachine::default());
    assert_eq!(
        machine.api_version,
        "infrastructure.cluster.x-k8s.io/v1beta1"
    );
}

#[test]
fn protected_settings_are_not_printed() {
    let object = json!({
        "location": "l",
        "template": {
            "vmSize": "s",
            "osDisk": {},
            "vmExtensions": [{
                "name": "n", "publisher": "p", "version": "1",
                "protectedSettings": { "storageAccountKey": "hunter2" },
            }],
        },
    });
    let spec: weir_api::AzureMachinePoolSpec = serde_json::from_value(object).unwrap();
    let printed = format!("{spec:?} {spec:#?}");
    assert!(
        printed.contains("storageAccountKey") && !printed.contains("hunter2"),
        "{printed}"
    );
}

fn assert_round_trip<T: DeserializeOwned + Serialize>(plural: &str, round: usize) {
    let definition = schema::definition(plural);
    let mut object = sample("", schema::schema(&definition), round);
    object["metadata"] = json!({ "name": "sample", "namespace": "default" });
    let read: T = serde_json::from_value(object.clone())
        .unwrap_or_else(|error| panic!("{plural}, round {round}: {error}"));
    assert_eq!(
        serde_json::to_value(read).expect("an object is JSON"),
        object,
        "{plural}, round {round}"
    );
}

/// Makes a value in which every property of the schema is there, with a text of its own.
///
/// Rounds go through the values of enums, through true and false, and through integer and text.
fn sample(path: &str, schema: &Value, round: usize) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        return values[round % values.len()].clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if round.is_multiple_of(2) {
            json!(7)
        } else {
            json!("25%")
        };
    }
    match schema["type"].as_str().expect("a type") {
        "object" => {
            let mut object = Map::new();
            for (name, below) in schema["properties"].as_object().into_iter().flatten() {
                object.insert(
                    name.clone(),
                    sample(&format!("{path}.{name}"), below, round),
                );
            }
            if schema["additionalProperties"].is_object() {
                let below = sample(
                    &format!("{path}{{}}"),
                    &schema["additionalProperties"],
                    round,
                );
                object.insert("key".into(), below);
            }
            Value::Object(object)
        }
        "array" => json!([sample(&format!("{path}[]"), &schema["items"], round)]),
        "boolean" => json!(round.is_multiple_of(2)),
        "integer" => json!(40 + round),
        "string" if schema["format"] == "date-time" => json!("2026-01-02T03:04:05Z"),
        "string" => json!(path),
        other => panic!("{path} is of type {other}"),
    }
}

/// Does what an API server does before it looks whether an object is valid.
fn fill_in_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(object) => {
            for (name, below) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(default) = below.get("default") {
                    object
                        .entry(name.clone())
                        .or_insert_with(|| default.clone());
                }
                if let Some(value) = object.get_mut(name) {
                    fill_in_defaults(value, below);
                }
            }
        }
        Value::Array(items) => {
            items
                .iter_mut()
                .for_each(|item| fill_in_defaults(item, &schema["items"]));
        }
        _ => {}
    }
}
