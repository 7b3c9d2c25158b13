//! How is an object of any kind written without a Rust type for it?

use anyhow::Context;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::{Client, ResourceExt};
use serde_json::Value;

/// Creates an object or makes the fields that are given be as given.
///
/// The object says what it is: `apiVersion`, `kind`, `metadata.name` and, unless it lies in none,
/// `metadata.namespace`.
///
/// # Errors
/// The object says too little, or the API server refuses it.
pub async fn apply(client: &Client, object: Value) -> anyhow::Result<DynamicObject> {
    let (api, name) = place(client, &object)?;
    api.patch(&name, &writer(), &Patch::Apply(&object))
        .await
        .with_context(|| format!("failed to apply {} {name}", object["kind"]))
}

/// Makes the fields of an object's status be as given.
///
/// # Errors
/// As for [`apply`]; the object has to exist.
pub async fn apply_status(client: &Client, object: Value) -> anyhow::Result<DynamicObject> {
    let (api, name) = place(client, &object)?;
    api.patch_status(&name, &writer(), &Patch::Apply(&object))
        .await
        .with_context(|| format!("failed to apply the status of {} {name}", object["kind"]))
}

/// Returns access to the objects of one kind.
///
/// An empty `namespace` stands for objects that lie in none.
pub fn object_api(
    client: &Client,
    api_version: &str,
    kind: &str,
    namespace: &str,
) -> Api<DynamicObject> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        "" => Api::all_with(client.clone(), &resource),
        _ => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

fn place(client: &Client, object: &Value) -> anyhow::Result<(Api<DynamicObject>, String)> {
    let object: DynamicObject =
        serde_json::from_value(object.clone()).context("not a Kubernetes object")?;
    let name = object
        .metadata
        .name
        .clone()
        .context("an object without a name")?;
    let TypeMeta { api_version, kind } = object.types.clone().context("an object of no kind")?;
    let namespace = object.namespace().unwrap_or_default();
    Ok((object_api(client, &api_version, &kind, &namespace), name))
}

fn writer() -> PatchParams {
    PatchParams::apply("weir-e2e").force()
}
