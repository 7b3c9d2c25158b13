//! Which objects have to be around a pool before Cluster API's core and a provider act on it?
//!
//! A Cluster that is up: its infrastructure is ready, its control plane initialized, and both by
//! assertion, because neither exists. Then a MachinePool and an AzureMachinePool; and, for tests
//! that stand for a part of the world, nodes and workloads.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::ByteString;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, KubernetesApi, define, is_true};
use crate::objects::{apply, apply_status, object_api};
use crate::wait::wait_until;

/// How many seconds the drain of a node may take in the pools that are made here.
pub const DRAIN_TIMEOUT: u32 = 300;

/// Version of the objects of Cluster API's core.
pub const CORE: &str = "cluster.x-k8s.io/v1beta2";

/// Version of the objects that an Azure provider owns.
pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta1";

/// Version of the stand-in for a control plane.
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1beta2";

/// Subscription of every fixture.
pub const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000001";

/// Tenant of every fixture.
pub const TENANT: &str = "00000000-0000-0000-0000-000000000002";

/// Client of every fixture's service principal.
pub const CLIENT: &str = "00000000-0000-0000-0000-000000000003";

/// Client secret of that service principal; it must never be seen in what a program prints.
pub const PASSWORD: &str = "not-a-real-password";

/// How long core may take until it sees that a cluster is up.
const UP_IN: Duration = Duration::from_secs(30);

/// The place where a test's objects lie.
#[derive(Clone, Debug)]
pub struct Place {
    /// Namespace in the management cluster.
    pub namespace: String,
    /// Name of the Cluster; also of its Azure resource group.
    pub cluster: String,
}

impl Place {
    /// Returns the place for one cluster.
    pub fn new(namespace: &str, cluster: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            cluster: cluster.to_owned(),
        }
    }

    /// Returns the beginning of an object in this place, to which a test adds `spec` or `status`.
    ///
    /// It carries the label by which Cluster API finds what belongs to a cluster.
    pub fn object(&self, api_version: &str, kind: &str, name: &str) -> Value {
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {"cluster.x-k8s.io/cluster-name": self.cluster},
            },
        })
    }

    fn with(&self, api_version: &str, kind: &str, name: &str, field: &str, value: Value) -> Value {
        let mut object = self.object(api_version, kind, name);
        object[field] = value;
        object
    }
}

/// Installs the kinds of an Azure provider and the stand-in for a control plane.
///
/// The kinds of pools are Weir's own; AzureCluster and AzureClusterIdentity, which Weir only reads,
/// take whatever they are given.
///
/// # Errors
/// A definition is refused.
pub async fn define_kinds(management: &KubernetesApi) -> anyhow::Result<()> {
    let mut definitions = vec![
        permissive_definition(INFRASTRUCTURE, "AzureCluster"),
        permissive_definition(INFRASTRUCTURE, "AzureClusterIdentity"),
        permissive_definition(CONTROL_PLANE, "StandInControlPlane"),
    ];
    for definition in weir_api::crds() {
        let mut definition = serde_json::to_value(definition).context("not an object")?;
        definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
        definition["kind"] = json!("CustomResourceDefinition");
        definitions.push(definition);
    }
    define(&management.client, definitions).await
}

/// Creates a Cluster that is up and whose nodes are those of the workload cluster.
///
/// # Errors
/// An object is refused, or core does not see it as up.
pub async fn create_cluster(control_plane: &ControlPlane, place: &Place) -> anyhow::Result<()> {
    let client = &control_plane.management.client;
    let Place { namespace, cluster } = place;
    let namespace_object =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    apply(client, namespace_object).await?;
    for object in identity(place) {
        apply(client, object).await?;
    }

    let kubeconfig = fs::read(&control_plane.workload.kubeconfig)
        .context("failed to read the kubeconfig of the workload cluster")?;
    let mut secret = place.with(
        "v1",
        "Secret",
        &format!("{cluster}-kubeconfig"),
        "data",
        json!({}),
    );
    secret["type"] = json!("cluster.x-k8s.io/secret");
    secret["data"]["value"] = serde_json::to_value(ByteString(kubeconfig))?;
    apply(client, secret).await?;

    apply(client, azure_cluster(place, &control_plane.workload.url)?).await?;
    let status = json!({"ready": true, "initialization": {"provisioned": true}});
    apply_status(
        client,
        place.with(INFRASTRUCTURE, "AzureCluster", cluster, "status", status),
    )
    .await?;
    apply(
        client,
        place.object(CONTROL_PLANE, "StandInControlPlane", cluster),
    )
    .await?;
    let status = json!({
        "initialization": {"controlPlaneInitialized": true},
        "externalManagedControlPlane": true,
    });
    let stand_in = place.with(
        CONTROL_PLANE,
        "StandInControlPlane",
        cluster,
        "status",
        status,
    );
    apply_status(client, stand_in).await?;

    apply(client, cluster_object(place)).await?;
    let clusters = object_api(client, CORE, "Cluster", namespace);
    wait_until(
        &format!("cluster {cluster} that is up"),
        UP_IN,
        async || {
            let found = clusters.get(cluster).await?;
            let is_up = found.data["status"]["initialization"]["infrastructureProvisioned"] == true
                && is_true(&found, "ControlPlaneInitialized")
                && is_true(&found, "RemoteConnectionProbe");
            Ok(is_up.then_some(()))
        },
    )
    .await
}

fn cluster_object(place: &Place) -> Value {
    let spec = json!({
        "infrastructureRef": {
            "apiGroup": group(INFRASTRUCTURE),
            "kind": "AzureCluster",
            "name": place.cluster,
        },
        "controlPlaneRef": {
            "apiGroup": group(CONTROL_PLANE),
            "kind": "StandInControlPlane",
            "name": place.cluster,
        },
    });
    place.with(CORE, "Cluster", &place.cluster, "spec", spec)
}

/// Returns an AzureCluster that somebody else is said to look after.
fn azure_cluster(place: &Place, api_server: &str) -> anyhow::Result<Value> {
    let uri: http::Uri = api_server
        .parse()
        .context("the API server has no address")?;
    let spec = json!({
        "subscriptionID": SUBSCRIPTION,
        "location": "westeurope",
        "resourceGroup": place.cluster,
        "azureEnvironment": "AzurePublicCloud",
        "controlPlaneEndpoint": {"host": uri.host(), "port": uri.port_u16()},
        "identityRef": {
            "apiVersion": INFRASTRUCTURE,
            "kind": "AzureClusterIdentity",
            "name": place.cluster,
            "namespace": place.namespace,
        },
        "networkSpec": {
            "vnet": {"name": format!("{}-vnet", place.cluster), "resourceGroup": place.cluster},
            "subnets": [{"name": "node-subnet", "role": "node"}],
        },
    });
    let mut object = place.with(INFRASTRUCTURE, "AzureCluster", &place.cluster, "spec", spec);
    object["metadata"]["annotations"] = json!({"cluster.x-k8s.io/managed-by": "weir-e2e"});
    Ok(object)
}

/// Returns a service principal and its password.
fn identity(place: &Place) -> [Value; 2] {
    let name = format!("{}-identity", place.cluster);
    let spec = json!({
        "type": "ServicePrincipal",
        "tenantID": TENANT,
        "clientID": CLIENT,
        "clientSecret": {"name": name, "namespace": place.namespace},
        "allowedNamespaces": {},
    });
    let password = json!({"clientSecret": PASSWORD});
    [
        place.with("v1", "Secret", &name, "stringData", password),
        place.with(
            INFRASTRUCTURE,
            "AzureClusterIdentity",
            &place.cluster,
            "spec",
            spec,
        ),
    ]
}

/// A MachinePool and its AzureMachinePool, which share a name.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Name of both, of the scale set, and the beginning of the name of its bootstrap secret.
    pub name: String,
    /// How many instances there should be.
    pub replicas: u32,
    /// Kubernetes version, for instance `v1.36.3`.
    pub version: String,
    /// Spec of the AzureMachinePool; [`azure_pool_spec`] makes a small one.
    pub azure_spec: Value,
}

/// Returns a small spec of an AzureMachinePool that replaces instances one at a time.
pub fn azure_pool_spec() -> Value {
    json!({
        "location": "westeurope",
        "template": {
            "vmSize": "Standard_D2s_v3",
            "sshPublicKey": "",
            "osDisk": {
                "osType": "Linux",
                "diskSizeGB": 30,
                "managedDisk": {"storageAccountType": "Premium_LRS"},
            },
        },
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0, "deletePolicy": "Oldest"},
        },
    })
}

/// Creates a pool, or changes it if it is there: bootstrap secret, AzureMachinePool, MachinePool.
///
/// # Errors
/// An object is refused.
pub async fn apply_pool(
    management: &KubernetesApi,
    place: &Place,
    pool: &Pool,
) -> anyhow::Result<()> {
    let client = &management.client;
    let Pool {
        name,
        replicas,
        version,
        azure_spec,
    } = pool;
    let bootstrap = format!("{name}-bootstrap");
    let data = json!({"value": "#cloud-config\n", "format": "cloud-config"});
    let mut secret = place.with("v1", "Secret", &bootstrap, "stringData", data);
    secret["type"] = json!("cluster.x-k8s.io/secret");
    apply(client, secret).await?;
    let azure = place.with(
        INFRASTRUCTURE,
        "AzureMachinePool",
        name,
        "spec",
        azure_spec.clone(),
    );
    apply(client, azure).await?;
    let spec = json!({
        "clusterName": place.cluster,
        "replicas": replicas,
        "template": {"spec": {
            "clusterName": place.cluster,
            "version": version,
            "bootstrap": {"dataSecretName": bootstrap},
            "deletion": {"nodeDrainTimeoutSeconds": DRAIN_TIMEOUT},
            "infrastructureRef": {
                "apiGroup": group(INFRASTRUCTURE),
                "kind": "AzureMachinePool",
                "name": name,
            },
        }},
    });
    apply(client, place.with(CORE, "MachinePool", name, "spec", spec)).await?;
    Ok(())
}

/// Has core check the health of a pool's Machines.
///
/// # Errors
/// The object is refused.
pub async fn check_health(
    management: &KubernetesApi,
    place: &Place,
    pool: &Pool,
) -> anyhow::Result<()> {
    let spec = json!({
        "clusterName": place.cluster,
        "selector": {"matchLabels": {"cluster.x-k8s.io/pool-name": pool.name}},
        "checks": {"unhealthyNodeConditions": [
            {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300},
        ]},
    });
    let check = place.with(CORE, "MachineHealthCheck", &pool.name, "spec", spec);
    apply(&management.client, check).await?;
    Ok(())
}

/// Creates a Node as a kubelet that has just joined would; it is ready soon after.
///
/// # Errors
/// The API server refuses it.
pub async fn join_node(
    workload: &KubernetesApi,
    name: &str,
    provider_id: &str,
    kubelet_version: &str,
) -> anyhow::Result<DynamicObject> {
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"providerID": provider_id},
    });
    apply(&workload.client, node).await?;
    let status = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"nodeInfo": {
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": "containerd://2.1.0",
            "kernelVersion": "6.8.0",
            "kubeProxyVersion": "",
            "kubeletVersion": kubelet_version,
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": "Linux",
            "systemUUID": "",
        }},
    });
    apply_status(&workload.client, status).await
}

/// Creates a Deployment that spreads over nodes, and a budget that keeps `available` pods of it.
///
/// # Errors
/// The API server refuses one.
pub async fn deploy_with_budget(
    workload: &KubernetesApi,
    name: &str,
    replicas: u32,
    available: u32,
) -> anyhow::Result<()> {
    let labels = json!({"app": name});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [{"name": "app", "image": "registry.invalid/app:1"}],
                    "topologySpreadConstraints": [{
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchLabels": labels},
                    }],
                },
            },
        },
    });
    apply(&workload.client, deployment).await?;
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": available, "selector": {"matchLabels": labels}},
    });
    apply(&workload.client, budget).await?;
    Ok(())
}

/// Returns a definition whose objects may hold anything, with the label of its contract.
fn permissive_definition(api_version: &str, kind: &str) -> Value {
    let group = group(api_version);
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let singular = kind.to_lowercase();
    let plural = match singular.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{singular}s"),
    };
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "labels": {format!("cluster.x-k8s.io/{version}"): version},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": anything, "status": anything},
                }},
            }],
        },
    })
}

fn group(api_version: &str) -> &str {
    api_version.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_named_as_the_contract_asks() {
        for (kind, name) in [
            (
                "AzureCluster",
                "azureclusters.infrastructure.cluster.x-k8s.io",
            ),
            (
                "AzureClusterIdentity",
                "azureclusteridentities.infrastructure.cluster.x-k8s.io",
            ),
        ] {
            let definition = permissive_definition(INFRASTRUCTURE, kind);
            assert_eq!(definition["metadata"]["name"], name);
            assert_eq!(
                definition["metadata"]["labels"]["cluster.x-k8s.io/v1beta1"],
                "v1beta1"
            );
        }
    }
}
