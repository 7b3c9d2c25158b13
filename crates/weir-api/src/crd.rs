//! What are the definitions of our kinds, as an API server wants them?
//!
//! The schemas come from the Rust types by way of schemars, whose output a pass of our own turns
//! into what controller-gen would have printed for Go types: no `nullable` on what is optional,
//! plain `enum`s, `int-or-string` spelt out. That isn't taste: the schema that CAPZ has is the one
//! that stored objects meet, and `nullable` changes what defaulting does.
//!
//! [`crds`] is the answer; `deploy/crds` holds it as YAML.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::contract::{INFRASTRUCTURE_GROUP, INFRASTRUCTURE_VERSION, PROVIDER_NAME, label};
use crate::{
    AzureMachinePoolMachineSpec, AzureMachinePoolMachineStatus, AzureMachinePoolSpec,
    AzureMachinePoolStatus,
};

/// Returns the definitions of our kinds, in the order of their names.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![azure_machine_pool_machines(), azure_machine_pools()]
}

/// Returns a definition as YAML, as it is kept in `deploy/crds`.
pub fn crd_yaml(crd: &CustomResourceDefinition) -> String {
    let body = serde_yaml::to_string(crd).expect("a definition has string keys only");
    format!("# Written by `cargo xtask crds` from crates/weir-api; change it there.\n---\n{body}")
}

/// Returns the name of the file in `deploy/crds` that holds a definition.
pub fn crd_file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

fn azure_machine_pools() -> CustomResourceDefinition {
    let kind = Kind {
        kind: "AzureMachinePool",
        short_name: "amp",
        description: "A pool of like virtual machines in Azure, kept as one Virtual Machine Scale \
                      Set. It is the infrastructure of a MachinePool, which says how many \
                      machines there are and with which Kubernetes version.",
        columns: &[
            (
                "Replicas",
                0,
                "string",
                ".status.replicas",
                "How many machines there are",
            ),
            (
                "Ready",
                0,
                "string",
                ".status.ready",
                "Whether the scale set exists",
            ),
            (
                "State",
                0,
                "string",
                ".status.provisioningState",
                "What Azure says of it",
            ),
            (
                "Cluster",
                1,
                "string",
                CLUSTER_NAME_PATH,
                "The cluster it belongs to",
            ),
            (
                "MachinePool",
                1,
                "string",
                MACHINE_POOL_PATH,
                "The MachinePool it belongs to",
            ),
            (
                "VMSS ID",
                1,
                "string",
                ".spec.providerID",
                "Identifies the scale set",
            ),
            (
                "VM Size",
                1,
                "string",
                ".spec.template.vmSize",
                "Size of the machines",
            ),
            (
                "Age",
                0,
                "date",
                ".metadata.creationTimestamp",
                "Since when it is wanted",
            ),
        ],
    };
    definition::<AzureMachinePoolSpec, AzureMachinePoolStatus>(&kind)
}

fn azure_machine_pool_machines() -> CustomResourceDefinition {
    let kind = Kind {
        kind: "AzureMachinePoolMachine",
        short_name: "ampm",
        description: "One machine of an AzureMachinePool. It is made, kept and removed by the \
                      controller, never by a user: to have more or fewer machines, change the \
                      replicas of the MachinePool; to have one replaced, delete its Machine.",
        columns: &[
            (
                "Version",
                0,
                "string",
                ".status.version",
                "Kubernetes version of its Node",
            ),
            (
                "Ready",
                0,
                "string",
                ".status.ready",
                "Whether the machine exists",
            ),
            (
                "State",
                0,
                "string",
                ".status.provisioningState",
                "What Azure says of it",
            ),
            (
                "Cluster",
                1,
                "string",
                CLUSTER_NAME_PATH,
                "The cluster it belongs to",
            ),
            (
                "VMSS VM ID",
                1,
                "string",
                ".spec.providerID",
                "Identifies the machine",
            ),
            (
                "Age",
                0,
                "date",
                ".metadata.creationTimestamp",
                "Since when it is known",
            ),
        ],
    };
    definition::<AzureMachinePoolMachineSpec, AzureMachinePoolMachineStatus>(&kind)
}

const CLUSTER_NAME_PATH: &str = r".metadata.labels.cluster\.x-k8s\.io/cluster-name";

const MACHINE_POOL_PATH: &str = r#".metadata.ownerReferences[?(@.kind=="MachinePool")].name"#;

/// What a definition says besides the schema. Columns are name, priority, type, path, description.
struct Kind {
    kind: &'static str,
    short_name: &'static str,
    description: &'static str,
    columns: &'static [(&'static str, i32, &'static str, &'static str, &'static str)],
}

fn definition<Spec: JsonSchema, Status: JsonSchema>(kind: &Kind) -> CustomResourceDefinition {
    let singular = kind.kind.to_lowercase();
    let plural = format!("{singular}s");
    let definition = json!({
        "metadata": {
            "name": format!("{plural}.{INFRASTRUCTURE_GROUP}"),
            "labels": {
                label::PROVIDER: PROVIDER_NAME,
                label::CONTRACT_V1BETA1: INFRASTRUCTURE_VERSION,
                label::CONTRACT_V1BETA2: INFRASTRUCTURE_VERSION,
            },
        },
        "spec": {
            "group": INFRASTRUCTURE_GROUP,
            "names": {
                "categories": ["cluster-api"],
                "kind": kind.kind,
                "listKind": format!("{}List", kind.kind),
                "plural": plural,
                "shortNames": [kind.short_name],
                "singular": singular,
            },
            "scope": "Namespaced",
            "versions": [{
                "name": INFRASTRUCTURE_VERSION,
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": kind.columns.iter().map(column).collect::<Vec<_>>(),
                "schema": { "openAPIV3Schema": root_schema::<Spec, Status>(kind.description) },
            }],
        },
    });
    serde_json::from_value(definition).expect("the literal above has the shape of a definition")
}

fn column(column: &(&str, i32, &str, &str, &str)) -> Value {
    let (name, priority, type_, path, description) = column;
    let mut column = json!({
        "name": name, "type": type_, "jsonPath": path, "description": description,
    });
    if *priority != 0 {
        column["priority"] = json!(priority);
    }
    column
}

fn root_schema<Spec: JsonSchema, Status: JsonSchema>(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": {
                "type": "string",
                "description": "Group and version of the schema that this object is written in.",
            },
            "kind": { "type": "string", "description": "Kind of this object." },
            "metadata": { "type": "object" },
            "spec": schema_of::<Spec>(),
            "status": schema_of::<Status>(),
        },
    })
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    normalise(&mut schema);
    schema
}

/// Turns a schema by schemars into one as controller-gen prints it, with all that is below it.
fn normalise(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(normalise);
    }
    for below in ["items", "additionalProperties"] {
        if let Some(schema) = object.get_mut(below) {
            normalise(schema);
        }
    }
    for combined in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(schemas)) = object.get_mut(combined) {
            schemas.iter_mut().for_each(normalise);
        }
    }
    for word in ["$schema", "components", "nullable", "title"] {
        object.remove(word);
    }
    merge_single_alternative(object);
    merge_enum_variants(object);
    if object.contains_key("x-kubernetes-int-or-string") {
        object.insert(
            "anyOf".into(),
            json!([{ "type": "integer" }, { "type": "string" }]),
        );
    }
    if let Some(Value::String(description)) = object.get_mut("description") {
        *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

/// Replaces an `anyOf` or `allOf` of one schema, apart from `null`, by that schema.
///
/// That is how schemars says "optional" of an enum, and "this schema, but with another
/// description" of a reference. What stands beside it goes before what is in it.
fn merge_single_alternative(object: &mut Map<String, Value>) {
    for combined in ["allOf", "anyOf"] {
        let Some(Value::Array(schemas)) = object.get(combined) else {
            continue;
        };
        let real = schemas
            .iter()
            .filter(|schema| !is_null_schema(schema))
            .collect::<Vec<_>>();
        let [Value::Object(only)] = real[..] else {
            continue;
        };
        let only = only.clone();
        object.remove(combined);
        for (word, value) in only {
            object.entry(word).or_insert(value);
        }
    }
}

fn is_null_schema(schema: &Value) -> bool {
    let is_type_null = schema["type"] == "null";
    is_type_null || schema["const"].is_null() && schema["enum"] == json!([null])
}

/// Replaces a `oneOf` of single texts, which is how schemars prints an enum with documented
/// variants, by an `enum`. Descriptions of variants have no place in a structural schema.
fn merge_enum_variants(object: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = object.get("oneOf") else {
        return;
    };
    let texts = variants
        .iter()
        .map(|variant| match (&variant["const"], &variant["enum"]) {
            (text @ Value::String(_), _) => Some(vec![text.clone()]),
            (_, Value::Array(texts)) => Some(texts.clone()),
            _ => None,
        })
        .collect::<Option<Vec<_>>>();
    if let Some(texts) = texts {
        object.remove("oneOf");
        object.insert("type".into(), json!("string"));
        object.insert("enum".into(), Value::Array(texts.concat()));
    }
}
