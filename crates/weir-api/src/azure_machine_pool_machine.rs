//! What do we say about a single machine of a pool?
//!
//! One [`AzureMachinePoolMachine`] stands for one instance of a scale set. Core Cluster API makes a
//! Machine for each, copies from here what the Machine has to say about its infrastructure, and
//! deletes it when the Machine's node has been drained.

use k8s_openapi::api::core::v1::ObjectReference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::azure_machine_pool::{Initialization, LongRunningOperation};
use crate::conditions::{V1Beta1Condition, V1Beta2Status};
use crate::contract::INFRASTRUCTURE_GROUP;
use crate::resource::resource;
use crate::schema;

resource! {
    /// One machine of an [`crate::AzureMachinePool`]. Made and kept by the controller, never by a
    /// user.
    AzureMachinePoolMachine(AzureMachinePoolMachineSpec, AzureMachinePoolMachineStatus),
    INFRASTRUCTURE_GROUP, "v1beta1", "azuremachinepoolmachines"
}

/// Which machine this object stands for. Set by the controller; don't change it.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AzureMachinePoolMachineSpec {
    /// Identifies the machine, as its Node has it.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Identifies the machine within its scale set.
    #[serde(
        rename = "instanceID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub instance_id: Option<String>,
}

/// What was last seen of the machine. Set by the controller, and made anew if lost.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AzureMachinePoolMachineStatus {
    /// The machine's Node, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object_reference")]
    pub node_ref: Option<ObjectReference>,
    /// Kubernetes version that the Node reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What Azure says about the machine, such as Succeeded or Creating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_state: Option<String>,
    /// Name of the machine in Azure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_name: Option<String>,
    /// Unused: errors are in conditions. Kept so that older objects can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Unused: errors are in conditions. Kept so that older objects can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// Statements about the machine, in the older form of Cluster API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,
    /// Unused: what is going on is read from Azure. Kept so that older objects can be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub long_running_operation_states: Vec<LongRunningOperation>,
    /// Whether the machine is as the scale set says new ones are to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_model_applied: Option<bool>,
    /// Whether the machine exists in Azure. Once true, it stays so; conditions tell how it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// How far the first set-up of the machine is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// Names and addresses under which the machine can be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// The zone that the machine is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Whether Azure may take the machine away, as it may a Spot machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,
    /// The metadata.generation that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Statements about the machine, in the form that all of Kubernetes uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<V1Beta2Status>,
}

/// A name or an address under which a machine can be reached.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineAddress {
    /// What kind of name or address it is.
    #[serde(rename = "type")]
    pub type_: MachineAddressType,
    /// The name or address.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// What kind of name or address it is.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
pub enum MachineAddressType {
    /// The machine's own name.
    Hostname,
    /// An address for everywhere.
    #[serde(rename = "ExternalIP")]
    ExternalIp,
    /// An address within the network.
    #[serde(rename = "InternalIP")]
    InternalIp,
    /// A DNS name for everywhere.
    #[serde(rename = "ExternalDNS")]
    ExternalDns,
    /// A DNS name within the network.
    #[serde(rename = "InternalDNS")]
    InternalDns,
}
