//! The objects that a pool needs around it, as a user and Cluster API core would make them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_controllers::Key;
use weir_world::cluster::kinds::resource;
use weir_world::cluster::server::Reach;
use weir_world::cluster::{Reply, Side, Target};
use weir_world::world::{Endpoint, World};

/// The subscription of every simulated pool.
pub const SUBSCRIPTION: &str = "22222222-2222-2222-2222-222222222222";

/// The namespace of every simulated pool.
pub const NAMESPACE: &str = "default";

pub(crate) const MACHINE_POOLS: &str = resource::MACHINE_POOLS;

const PAUSED: &str = "cluster.x-k8s.io/paused";

const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";

/// A pool as its user asks for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
    /// How long a node must be Ready before its instance counts.
    pub min_ready_seconds: u32,
    /// VM size.
    pub size: String,
    /// Whether somebody else sets the count in Azure.
    pub autoscaled: bool,
}

impl Default for PoolSpec {
    fn default() -> PoolSpec {
        PoolSpec::new("pool", 3)
    }
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
            min_ready_seconds: 0,
            size: "Standard_D4s_v5".to_owned(),
            autoscaled: false,
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
    let managed_by = match spec.autoscaled {
        true => json!({"cluster.x-k8s.io/replicas-managed-by": "azure"}),
        false => json!({}),
    };
    let machine_pool = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
        "metadata": {"name": spec.name, "namespace": NAMESPACE, "annotations": managed_by},
        "spec": {
            "clusterName": spec.cluster,
            "replicas": spec.replicas,
            "failureDomains": spec.zones,
            "template": {"spec": {
                "clusterName": spec.cluster,
                "version": spec.version,
                "minReadySeconds": spec.min_ready_seconds,
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
                "vmSize": spec.size,
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
    let patch = json!({"spec": {"template": {"spec": {"version": version}}}});
    change(world, MACHINE_POOLS, pool, &patch);
}

/// Asks for another count, as a user or an autoscaler does.
pub fn set_replicas(world: &mut World, pool: &str, replicas: u32) {
    let patch = json!({"spec": {"replicas": replicas}});
    change(world, MACHINE_POOLS, pool, &patch);
}

/// Asks for another VM size.
pub fn set_size(world: &mut World, pool: &str, size: &str) {
    let patch = json!({"spec": {"template": {"vmSize": size}}});
    change(world, resource::AZURE_POOLS, pool, &patch);
}

/// Asks for other tags in Azure, which roll nothing.
pub fn set_tag(world: &mut World, pool: &str, value: &str) {
    let patch = json!({"spec": {"additionalTags": {"stage": value}}});
    change(world, resource::AZURE_POOLS, pool, &patch);
}

/// Changes how many may be missing and how many too many.
pub fn set_limits(world: &mut World, pool: &str, max_surge: &str, max_unavailable: &str) {
    let patch = json!({"spec": {"strategy": {"rollingUpdate": {
        "maxSurge": int_or_string(max_surge),
        "maxUnavailable": int_or_string(max_unavailable),
    }}}});
    change(world, resource::AZURE_POOLS, pool, &patch);
}

/// Asks Azure for another count, as an autoscaler of Azure's own does. Says whether it was let in.
pub fn set_capacity(world: &mut World, cluster: &str, pool: &str, capacity: u32) -> bool {
    let uri = format!(
        "https://management.azure.sim/subscriptions/{SUBSCRIPTION}/resourceGroups/{cluster}\
         /providers/Microsoft.Compute/virtualMachineScaleSets/{pool}?api-version=2024-07-01"
    );
    let body = json!({"sku": {"capacity": capacity}}).to_string();
    let request = http::Request::patch(uri).body(body.into());
    let request = request.expect("names of simulated pools are parts of a path");
    match world.handle(Endpoint::Azure, &request) {
        Reply::Response(answer) => answer.status().is_success(),
        Reply::Watch(_) => false,
    }
}

/// Pauses a pool, or lets it go on.
pub fn set_paused(world: &mut World, pool: &str, paused: bool) {
    let mark = if paused { json!("") } else { Value::Null };
    let patch = json!({"metadata": {"annotations": {PAUSED: mark}}});
    change(world, resource::AZURE_POOLS, pool, &patch);
}

/// Marks a Machine as the one to go first, as the cluster autoscaler does.
pub fn mark_machine(world: &mut World, machine: &str) {
    let patch = json!({"metadata": {"annotations": {DELETE_MACHINE: ""}}});
    change(world, resource::MACHINES, machine, &patch);
}

fn change(world: &mut World, resource: &str, name: &str, patch: &Value) {
    let target = Target::new(resource, NAMESPACE, name);
    // Gone already: whoever asks for a change hears so and shrugs.
    let _gone = world
        .patch(Side::Management, &target, Reach::Main, patch)
        .err();
}

/// Lets a budget allow evictions that it refused so far.
pub fn relax_budget(world: &mut World, name: &str) {
    set_budget(world, name, "0");
}

/// Changes how many pods a budget keeps.
pub fn set_budget(world: &mut World, name: &str, min_available: &str) {
    let target = Target::new("poddisruptionbudgets.policy", NAMESPACE, name);
    let patch = json!({"spec": {"minAvailable": int_or_string(min_available)}});
    world
        .patch(Side::Workload, &target, Reach::Main, &patch)
        .expect("the budget is there");
}
