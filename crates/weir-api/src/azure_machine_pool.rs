//! What can a user say about a machine pool in Azure, and what do we say back?
//!
//! Field names, types, defaults and enums are those of CAPZ's v1beta1; the descriptions are ours.
//! The doc comments of the types are what `kubectl explain` prints, so they talk to users.
//!
//! Read [`crate::azure_machine_pool_machine`] for the instances.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::conditions::{V1Beta1Condition, V1Beta2Status};
use crate::contract::INFRASTRUCTURE_GROUP;
use crate::resource::resource;
use crate::schema;

mod template;

pub use template::*;

resource! {
    /// A pool of like virtual machines in Azure, kept as one Virtual Machine Scale Set.
    AzureMachinePool(AzureMachinePoolSpec, AzureMachinePoolStatus),
    INFRASTRUCTURE_GROUP, "v1beta1", "azuremachinepools"
}

/// What is wanted of the pool: what its machines are like and how they are replaced.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = template::pool_rules()))]
pub struct AzureMachinePoolSpec {
    /// Azure region of the scale set, such as westeurope.
    pub location: String,
    /// What each machine of the pool is like. A change makes the machines be replaced.
    pub template: AzureMachinePoolMachineTemplate,
    /// Tags for the scale set and its machines, on top of the cluster's. Where both have the same
    /// key, the value given here wins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_tags: BTreeMap<String, String>,
    /// Identifies the scale set in Azure. Set by the controller.
    #[serde(
        rename = "providerID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_id: Option<String>,
    /// Identifies every machine of the pool, each as its Node has it. Set by the controller.
    #[serde(
        rename = "providerIDList",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub provider_id_list: Vec<String>,
    /// Managed identity that the machines get. With SystemAssigned, Azure makes one for the scale
    /// set; with UserAssigned, those in userAssignedIdentities are used.
    #[serde(default)]
    pub identity: VmIdentity,
    /// Role to give to the identity that Azure makes; only with identity SystemAssigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_assigned_identity_role: Option<SystemAssignedIdentityRole>,
    /// Identities that exist already; only with identity UserAssigned, which needs at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_assigned_identities: Vec<UserAssignedIdentity>,
    /// Deprecated: use systemAssignedIdentityRole.name. Name (a GUID) of the role assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_assignment_name: Option<String>,
    /// How machines are replaced when what is wanted of them changes.
    #[serde(default)]
    pub strategy: DeploymentStrategy,
    /// How Azure runs the scale set. It can't be changed for a scale set that exists.
    #[serde(default)]
    pub orchestration_mode: OrchestrationMode,
    /// Number of fault domains (racks) to spread the machines over; which numbers are possible
    /// depends on the region and on zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_fault_domain_count: Option<i32>,
    /// Whether Azure must keep the zones strictly even, and rather fail to make a machine than
    /// leave them uneven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_balance: Option<bool>,
}

/// Which managed identity the machines get.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum VmIdentity {
    /// None.
    #[default]
    None,
    /// One that Azure makes.
    SystemAssigned,
    /// Those that the user names.
    UserAssigned,
}

/// How Azure runs a scale set.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum OrchestrationMode {
    /// Machines are full virtual machines, which Azure groups.
    Flexible,
    /// Machines are instances of the scale set, numbered by Azure.
    #[default]
    Uniform,
}

/// A role, and where it applies.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemAssignedIdentityRole {
    /// Name of the role assignment, a GUID. Made up if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// ARM ID of what the role is for. The subscription if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// ARM ID of the role definition. Contributor if absent.
    #[serde(
        rename = "definitionID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub definition_id: Option<String>,
}

/// A managed identity that exists already.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct UserAssignedIdentity {
    /// ARM ID of the identity; a leading azure:// is allowed.
    #[serde(rename = "providerID")]
    pub provider_id: String,
}

/// How machines are replaced when what is wanted of them changes.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentStrategy {
    /// The way; there is one only.
    #[serde(rename = "type", default)]
    pub type_: DeploymentStrategyType,
    /// The limits to keep, and the order. Absent means the defaults of its fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

impl DeploymentStrategy {
    /// Returns the limits, which are the defaults if the user gave none.
    pub fn limits(&self) -> RollingUpdate {
        self.rolling_update.clone().unwrap_or_default()
    }
}

impl Default for DeploymentStrategy {
    fn default() -> Self {
        let rolling_update = Some(RollingUpdate::default());
        Self {
            type_: DeploymentStrategyType::RollingUpdate,
            rolling_update,
        }
    }
}

/// The way machines are replaced.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DeploymentStrategyType {
    /// Some at a time.
    #[default]
    RollingUpdate,
}

/// How many machines may be missing or too many at a time, and which go first.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = template::rolling_update_rules()))]
pub struct RollingUpdate {
    /// How many of the wanted machines may be unavailable during a rollout: a number, or a
    /// percentage such as 20%, which is rounded down. Can't be 0 when maxSurge is 0.
    #[serde(default = "RollingUpdate::max_unavailable_default")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_unavailable: IntOrString,
    /// How many machines there may be above the wanted number during a rollout: a number, or a
    /// percentage such as 20%, which is rounded up. Can't be 0 when maxUnavailable is 0.
    #[serde(default = "RollingUpdate::max_surge_default")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_surge: IntOrString,
    /// Which machines go first when some have to.
    #[serde(default)]
    pub delete_policy: DeletePolicy,
}

impl RollingUpdate {
    fn max_unavailable_default() -> IntOrString {
        IntOrString::Int(0)
    }

    fn max_surge_default() -> IntOrString {
        IntOrString::Int(1)
    }
}

impl Default for RollingUpdate {
    fn default() -> Self {
        Self {
            max_unavailable: Self::max_unavailable_default(),
            max_surge: Self::max_surge_default(),
            delete_policy: DeletePolicy::default(),
        }
    }
}

/// Which machines go first when some have to.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DeletePolicy {
    /// Any.
    Random,
    /// The one made last.
    Newest,
    /// The one made first.
    #[default]
    Oldest,
}

/// What was last seen of the pool. Set by the controller, and made anew if lost.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AzureMachinePoolStatus {
    /// Whether the scale set exists. Once true, it stays so; conditions tell how the pool is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// How many machines there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How many machines were wanted when the pool last was as wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reconciled_replicas: Option<i32>,
    /// The machines, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceStatus>,
    /// The image that new machines are made from, also when the spec leaves it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Kubernetes version that new machines are made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What Azure says about the scale set, such as Succeeded or Updating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_state: Option<String>,
    /// Unused: errors are in conditions. Kept so that older objects can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Unused: errors are in conditions. Kept so that older objects can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// Statements about the pool, in the older form of Cluster API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,
    /// Unused: what is going on is read from Azure. Kept so that older objects can be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub long_running_operation_states: Vec<LongRunningOperation>,
    /// The kind of the objects that stand for the machines: AzureMachinePoolMachine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_machine_kind: Option<String>,
    /// How far the first set-up of the pool is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// The metadata.generation that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Statements about the pool, in the form that all of Kubernetes uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<V1Beta2Status>,
}

/// One machine of the pool, in short.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// Kubernetes version of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What Azure says about the machine, such as Succeeded or Creating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_state: Option<String>,
    /// Identifies the machine, as its Node has it.
    #[serde(
        rename = "providerID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_id: Option<String>,
    /// Identifies the machine within the scale set.
    #[serde(
        rename = "instanceID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub instance_id: Option<String>,
    /// Name of the machine in Azure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_name: Option<String>,
    /// Whether the machine is as the scale set says new ones are to be.
    pub latest_model_applied: bool,
}

/// An operation of Azure that went on when a status was written.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LongRunningOperation {
    /// Kind of the operation, such as PUT or DELETE.
    #[serde(rename = "type")]
    pub type_: String,
    /// Resource group of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<String>,
    /// Which part of the controller started it.
    pub service_name: String,
    /// Name of the resource.
    pub name: String,
    /// What was needed to ask about it again, base64-encoded.
    pub data: String,
}

/// How far the first set-up of an object is, for the v1beta2 contract of Cluster API.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialization {
    /// Whether what the object stands for exists in Azure. Once true, it stays so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}
