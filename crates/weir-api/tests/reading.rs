//! Can objects of others be read, with all that we need of them and whatever else they hold?

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use weir_api::azure::{AzureCluster, AzureClusterIdentity};
use weir_api::capi::{Cluster, Machine, MachinePool};

/// Every field that our types have, under the name that the API gives it.
fn samples() -> impl Iterator<Item = (&'static str, Value)> {
    samples_of_core().into_iter().chain(samples_of_azure())
}

fn samples_of_core() -> [(&'static str, Value); 3] {
    let reference = |kind: &str| json!({ "apiGroup": "g.io", "kind": kind, "name": "n" });
    let condition = json!({
        "type": "Deleting", "status": "True", "reason": "DrainingNode", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 2,
    });
    let deletion = json!({
        "nodeDrainTimeoutSeconds": 600,
        "nodeVolumeDetachTimeoutSeconds": 0,
        "nodeDeletionTimeoutSeconds": 10,
    });
    let machine_spec = json!({
        "clusterName": "c",
        "bootstrap": { "configRef": reference("KubeadmConfig"), "dataSecretName": "s" },
        "infrastructureRef": reference("AzureMachinePool"),
        "version": "v1.36.1",
        "providerID": "azure:///x",
        "minReadySeconds": 30,
        "deletion": deletion,
    });
    let initialization =
        json!({ "infrastructureProvisioned": true, "bootstrapDataSecretCreated": true });
    let cluster = json!({
        "spec": { "paused": true, "infrastructureRef": reference("AzureCluster") },
        "status": { "initialization": {
            "infrastructureProvisioned": true, "controlPlaneInitialized": false,
        } },
    });
    let pool = json!({
        "spec": {
            "clusterName": "c",
            "replicas": 3,
            "template": {
                "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" } },
                "spec": machine_spec,
            },
            "providerIDList": ["azure:///x"],
            "failureDomains": ["1", "2"],
        },
        "status": {
            "conditions": [condition],
            "initialization": initialization,
            "nodeRefs": [{ "kind": "Node", "name": "n", "uid": "u" }],
            "replicas": 3,
            "phase": "Running",
        },
    });
    let machine = json!({
        "spec": machine_spec,
        "status": {
            "conditions": [condition],
            "initialization": initialization,
            "nodeRef": { "name": "n" },
            "deletion": {
                "nodeDrainStartTime": "2026-01-02T03:04:05Z",
                "waitForNodeVolumeDetachStartTime": "2026-01-02T03:04:06Z",
                "waitForPreDrainHookStartTime": "2026-01-02T03:04:07Z",
                "waitForPreTerminateHookStartTime": "2026-01-02T03:04:08Z",
            },
            "phase": "Deleting",
        },
    });
    [
        ("Cluster", cluster),
        ("MachinePool", pool),
        ("Machine", machine),
    ]
}

fn samples_of_azure() -> [(&'static str, Value); 2] {
    let azure_cluster = json!({
        "spec": {
            "location": "westeurope",
            "subscriptionID": "s",
            "resourceGroup": "rg",
            "identityRef": { "kind": "AzureClusterIdentity", "name": "n", "namespace": "ns" },
            "azureEnvironment": "AzurePublicCloud",
            "additionalTags": { "a": "b" },
            "networkSpec": {
                "vnet": { "name": "v", "resourceGroup": "rg2" },
                "subnets": [{ "name": "s", "role": "node", "id": "/subscriptions/s" }],
            },
        },
        "status": { "ready": true, "failureDomains": { "1": { "controlPlane": true } } },
    });
    let identity = json!({
        "spec": {
            "type": "ServicePrincipal",
            "tenantID": "t",
            "clientID": "c",
            "clientSecret": { "name": "n", "namespace": "ns" },
            "certPath": "/certificate",
            "allowedNamespaces": {
                "list": ["a"], "selector": { "matchLabels": { "a": "b" } },
            },
        },
        "status": {},
    });
    [
        ("AzureCluster", azure_cluster),
        ("AzureClusterIdentity", identity),
    ]
}

#[test]
fn all_that_is_read_is_read_and_the_rest_is_ignored() {
    for (kind, sample) in samples() {
        match kind {
            "Cluster" => assert_read::<Cluster>(kind, sample),
            "MachinePool" => assert_read::<MachinePool>(kind, sample),
            "Machine" => assert_read::<Machine>(kind, sample),
            "AzureCluster" => assert_read::<AzureCluster>(kind, sample),
            "AzureClusterIdentity" => assert_read::<AzureClusterIdentity>(kind, sample),
            other => panic!("{other} has no type"),
        }
    }
}

#[test]
fn objects_with_nothing_in_them_can_be_read() {
    let read: (
        Cluster,
        MachinePool,
        Machine,
        AzureCluster,
        AzureClusterIdentity,
    ) = serde_json::from_value(json!([{}, {}, {}, {}, {}])).expect("all fields have defaults");
    assert_eq!(read.0.api_version, "cluster.x-k8s.io/v1beta2");
    assert_eq!(
        read.3.api_version,
        "infrastructure.cluster.x-k8s.io/v1beta1"
    );
    assert_eq!(read.1.spec.replicas, None);
}

fn assert_read<T: DeserializeOwned + Serialize>(kind: &str, mut sample: Value) {
    sample["metadata"] = json!({ "name": "n", "namespace": "ns" });
    let mut with_more = sample.clone();
    add_unknown_fields(&mut with_more);
    let read: T = serde_json::from_value(with_more).expect(kind);
    let mut written = serde_json::to_value(read).expect("an object is JSON");
    assert_eq!(written["kind"], kind);
    for word in ["kind", "apiVersion"] {
        written.as_object_mut().expect("an object").remove(word);
    }
    assert_eq!(written, sample, "{kind}");
}

/// Adds a field to every object in it, but for maps, where any key is known.
fn add_unknown_fields(value: &mut Value) {
    match value {
        Value::Object(object) => {
            let maps = ["labels", "annotations", "additionalTags", "matchLabels"];
            for (name, below) in object.iter_mut() {
                if name == "failureDomains" && below.is_object() {
                    below
                        .as_object_mut()
                        .into_iter()
                        .flatten()
                        .for_each(|domain| {
                            add_unknown_fields(domain.1);
                        });
                } else if !maps.contains(&name.as_str()) {
                    add_unknown_fields(below);
                }
            }
            object.insert("fieldOfTheFuture".into(), json!({ "a": [1] }));
        }
        Value::Array(items) => items.iter_mut().for_each(add_unknown_fields),
        _ => {}
    }
}
