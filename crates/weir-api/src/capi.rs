//! What does Weir read of the objects of core Cluster API?
//!
//! Three kinds of `cluster.x-k8s.io/v1beta2`, and of them only the fields that we use: unknown
//! fields are ignored, and all that the API has as optional is optional here. So these types are
//! for reading, and for patches that name single fields; **writing one back whole would drop what
//! it doesn't know**.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::contract::CAPI_GROUP;
use crate::resource::resource;

resource! {
    /// A cluster, as core Cluster API knows it.
    Cluster(ClusterSpec, ClusterStatus), CAPI_GROUP, "v1beta2", "clusters"
}

resource! {
    /// A set of like machines that the infrastructure provider makes and replaces.
    MachinePool(MachinePoolSpec, MachinePoolStatus), CAPI_GROUP, "v1beta2", "machinepools"
}

resource! {
    /// One machine; core makes one for each [`crate::AzureMachinePoolMachine`].
    Machine(MachineSpec, MachineStatus), CAPI_GROUP, "v1beta2", "machines"
}

/// A reference whose version is left to the contract labels of the kind's CRD.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContractReference {
    /// API group, without a version.
    pub api_group: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object, in the namespace of the object that refers to it.
    pub name: String,
}

/// What is wanted of a cluster.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    /// Whether all that belongs to the cluster is to be left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The provider's object for the cluster, such as an AzureCluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ContractReference>,
}

/// What was last seen of a cluster.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// How far the first set-up of the cluster is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ClusterInitialization>,
}

/// How far the first set-up of a cluster is. Neither value goes back to false.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInitialization {
    /// Whether the cluster's infrastructure (network, load balancer) exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// Whether the control plane answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

/// What is wanted of a machine pool.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinePoolSpec {
    /// Name of the cluster that the pool belongs to.
    pub cluster_name: String,
    /// How many machines are wanted; core's webhook makes it 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// What each machine is to be like.
    pub template: MachineTemplate,
    /// Provider IDs of the instances, copied by core from our pool.
    #[serde(rename = "providerIDList", skip_serializing_if = "Vec::is_empty")]
    pub provider_id_list: Vec<String>,
    /// Zones to spread over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<String>,
}

/// What each machine of a pool is to be like.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct MachineTemplate {
    /// Labels and annotations for the machines.
    pub metadata: TemplateMetadata,
    /// The rest.
    pub spec: MachineSpec,
}

/// Labels and annotations that are passed on to machines.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct TemplateMetadata {
    /// Labels, by key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations, by key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What is wanted of a machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// Name of the cluster that the machine belongs to.
    pub cluster_name: String,
    /// Where the data comes from that makes a machine a node.
    pub bootstrap: Bootstrap,
    /// The provider's object for the machine, or for the pool in a pool's template.
    pub infrastructure_ref: ContractReference,
    /// Kubernetes version. In a pool's template it is the wanted one; on a Machine of a pool it is
    /// what the kubelet reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Name of the machine at the cloud provider, as its Node has it.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// How long, in seconds, a node has to be ready until it counts as available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// How long each phase of a deletion may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<MachineDeletion>,
}

/// Where the data comes from that makes a machine a node.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bootstrap {
    /// The bootstrap provider's object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<ContractReference>,
    /// Name of the Secret with the data; core fills it in when it is there. It is present and
    /// empty on the Machine of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
}

/// How long each phase of a deletion may take, in seconds.
///
/// Zero means without limit, in all three.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeletion {
    /// For evicting pods. Absent means without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_timeout_seconds: Option<i32>,
    /// For volumes to be detached. Absent means without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_volume_detach_timeout_seconds: Option<i32>,
    /// For deleting the Node object. Absent means 10 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_deletion_timeout_seconds: Option<i32>,
}

/// What was last seen of a machine pool.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinePoolStatus {
    /// Statements about the pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How far the first set-up of the pool is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<MachineInitialization>,
    /// Nodes of the pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_refs: Vec<ObjectReference>,
    /// How many instances there are, copied by core from our pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// One word for where the pool is; for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// How far the first set-up of a machine, or of a pool, is.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineInitialization {
    /// Whether the provider said once that its part exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// Whether the Secret with the bootstrap data exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_data_secret_created: Option<bool>,
}

/// What was last seen of a machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineStatus {
    /// Statements about the machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How far the first set-up of the machine is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<MachineInitialization>,
    /// The machine's Node, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<NodeReference>,
    /// When the phases of a deletion began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<MachineDeletionStatus>,
    /// One word for where the machine is; for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// Names a Node of the workload cluster.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct NodeReference {
    /// Name of the Node.
    pub name: String,
}

/// When the phases of a machine's deletion began; absent for those that didn't yet.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeletionStatus {
    /// When draining began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_start_time: Option<Time>,
    /// When waiting for volumes began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_node_volume_detach_start_time: Option<Time>,
    /// When waiting for pre-drain hooks began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_pre_drain_hook_start_time: Option<Time>,
    /// When waiting for pre-terminate hooks began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_pre_terminate_hook_start_time: Option<Time>,
}
