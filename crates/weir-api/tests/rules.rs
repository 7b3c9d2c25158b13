//! Does each CEL rule of our definition have examples, and do the examples have rules?
//!
//! Whether a rule turns an object away only an API server can say; what it said stands in
//! `rules.yaml`, which the end-to-end suite can send to one again. Here the two are held together:
//! no rule without a pool that it refuses, no message that isn't a rule's, and each pool, refused
//! or not, is one that our types can read.

mod schema;

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Deserialize)]
struct Example {
    name: String,
    spec: Value,
    refused: Option<String>,
}

fn examples() -> Vec<Example> {
    serde_yaml::from_str(include_str!("rules.yaml")).expect("a list of examples")
}

#[test]
fn each_rule_has_an_example_that_it_refuses() {
    let mut messages = BTreeSet::new();
    collect_messages(
        schema::schema(&schema::definition("azuremachinepools")),
        &mut messages,
    );
    let refused = examples().into_iter().filter_map(|example| example.refused);
    assert_eq!(refused.collect::<BTreeSet<_>>(), messages);
}

#[test]
fn each_example_can_be_read() {
    for Example {
        name, spec: over, ..
    } in examples()
    {
        let mut spec = json!({ "location": "l", "template": { "vmSize": "s", "osDisk": {} } });
        lay_over(&mut spec, over);
        let read: Result<weir_api::AzureMachinePoolSpec, _> = serde_json::from_value(spec);
        assert!(read.is_ok(), "{name}: {read:?}");
    }
}

fn collect_messages(schema: &Value, messages: &mut BTreeSet<String>) {
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let message = rule["message"].as_str().expect("each rule has a message");
        assert!(
            messages.insert(message.to_owned()),
            "two rules say {message:?}"
        );
    }
    for below in schema["properties"].as_object().into_iter().flatten() {
        collect_messages(below.1, messages);
    }
    for word in ["items", "additionalProperties"] {
        if schema[word].is_object() {
            collect_messages(&schema[word], messages);
        }
    }
}

fn lay_over(value: &mut Value, over: Value) {
    match (value, over) {
        (Value::Object(object), Value::Object(over)) => {
            for (name, over) in over {
                lay_over(object.entry(name).or_insert(Value::Null), over);
            }
        }
        (value, over) => *value = over,
    }
}
