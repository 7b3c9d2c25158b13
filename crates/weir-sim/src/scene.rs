//! The objects that a pool needs around it, as a user and Cluster API core would make them.

use serde_json::{Value, json};
use weir_controllers::Key;
use weir_world::cluster::server::Reach;
use weir_world::cluster::{Side, Target};
use weir_world::world::World;

/// The subscription of every simulated pool.
pub const SUBSCRIPTION: &str = "22222222-2222-2222-2222-222222222222";

/// The namespace of every simulated pool.
pub const NAMESPACE: &str = "default";

/// A pool as its user asks for it.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Its name, and that of its MachinePool.
    pub name: String,
    /// Its cluster.
    pub cluster: String,
    /// How many instances.
    pub replicas: u32,
    /// Kubernetes version, with the v.
    pub version: String,
    /// `maxSurge`, a number or a percentage.
    pub max_surge: String,
    /// `maxUnavailable`, a number or a percentage.
    pub max_unavailable: String,
    /// `deletePolicy`.
    pub delete_policy: String,
    /// How long a drain may take, if not for ever.
    pub drain_timeout_seconds: Option<u32>,
    /// Availability zones, if any.
    pub zones: Vec<String>,
}

impl PoolSpec {
    /// Returns a pool with the API's defaults.
    #[must_use]
    pub fn new(name: &str, replicas: u32) -> PoolSpec {
        PoolSpec {
            name: name.to_owned(),
            cluster: "cluster".to_owned(),
            replicas,
            version: "v1.33.0".to_owned(),
            max_surge: "1".to_owned(),
            max_unavailable: "0".to_owned(),
            delete_policy: "Oldest".to_owned(),
            drain_timeout_seconds: None,
            zones: Vec::new(),
        }
    }

    /// Returns the key of the pool.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            namespace: NAMESPACE.to_owned(),
            name: self.name.clone(),
        }
    }

    /// Returns the key of its cluster.
    #[must_use]
    pub fn cluster_key(&self) -> Key {
        Key {
            namespace: NAMESPACE.to_owned(),
            name: self.cluster.clone(),
        }
    }
}

/// Makes a cluster that is ready for pools.
pub fn add_cluster(world: &mut World, name: &str) {
    let objects = [
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io",
                "kind": "AzureCluster", "name": name,
            }},
            "status": {"initialization": {
                "infrastructureProvisioned": true, "controlPlaneInitialized": true,
            }},
        }),
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureCluster",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "location": "westeurope", "subscriptionID": SUBSCRIPTION, "resourceGroup": name,
                "networkSpec": {
                    "vnet": {"name": "vnet", "resourceGroup": name},
                    "subnets": [{"name": "node-subnet", "role": "node"}],
                },
            },
            "status": {"ready": true},
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": format!("{name}-bootstrap"), "namespace": NAMESPACE},
            // "#cloud-config\n"
            "data": {"value": "I2Nsb3VkLWNvbmZpZwo=", "format": "Y2xvdWQtY29uZmln"},
        }),
    ];
    for object in objects {
        world
            .create(Side::Management, object)
            .expect("a fresh world has no such object");
    }
}

/// Makes a MachinePool and its AzureMachinePool.
pub fn add_pool(world: &mut World, spec: &PoolSpec) {
    let deletion = spec
        .drain_timeout_seconds
        .map(|s| json!({"nodeDrainTimeoutSeconds": s}));
    let machine_pool = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
        "metadata": {"name": spec.name, "namespace": NAMESPACE},
        "spec": {
            "clusterName": spec.cluster,
            "replicas": spec.replicas,
            "failureDomains": spec.zones,
            "template": {"spec": {
                "clusterName": spec.cluster,
                "version": spec.version,
                "bootstrap": {"dataSecretName": format!("{}-bootstrap", spec.cluster)},
                "deletion": deletion.unwrap_or_else(|| json!({})),
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io",
                    "kind": "AzureMachinePool", "name": spec.name,
                },
            }},
        },
    });
    let pool = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureMachinePool",
        "metadata": {"name": spec.name, "namespace": NAMESPACE},
        "spec": {
            "location": "westeurope",
            "template": {
                "vmSize": "Standard_D4s_v5",
                // base64 of "ssh-ed25519 AAAA sim"
                "sshPublicKey": "c3NoLWVkMjU1MTkgQUFBQSBzaW0=",
                "osDisk": {"osType": "Linux", "diskSizeGB": 64},
            },
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {
                "maxSurge": int_or_string(&spec.max_surge),
                "maxUnavailable": int_or_string(&spec.max_unavailable),
                "deletePolicy": spec.delete_policy,
            }},
        },
    });
    for object in [machine_pool, pool] {
        world
            .create(Side::Management, object)
            .expect("a fresh world has no such object");
    }
}

fn int_or_string(text: &str) -> Value {
    text.parse::<i64>()
        .map_or_else(|_| json!(text), |number| json!(number))
}

/// Asks for another Kubernetes version, as a user does.
pub fn set_version(world: &mut World, pool: &str, version: &str) {
    change(
        world,
        pool,
        &json!({"spec": {"template": {"spec": {"version": version}}}}),
    );
}

/// Asks for another count, as a user or an autoscaler does.
pub fn set_replicas(world: &mut World, pool: &str, replicas: u32) {
    change(world, pool, &json!({"spec": {"replicas": replicas}}));
}

fn change(world: &mut World, pool: &str, patch: &Value) {
    let target = Target::new("machinepools.cluster.x-k8s.io", NAMESPACE, pool);
    world
        .patch(Side::Management, &target, Reach::Main, patch)
        .expect("the MachinePool is there");
}

/// Lets a budget allow evictions that it refused so far.
pub fn relax_budget(world: &mut World, name: &str) {
    let target = Target::new("poddisruptionbudgets.policy", NAMESPACE, name);
    let patch = json!({"spec": {"minAvailable": 0}});
    world
        .patch(Side::Workload, &target, Reach::Main, &patch)
        .expect("the budget is there");
}
