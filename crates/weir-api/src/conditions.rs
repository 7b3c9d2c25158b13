//! In which two forms does an object of ours carry its conditions?
//!
//! `status.conditions` holds the older Cluster API form ([`V1Beta1Condition`]: with a severity, and
//! no reason when true), because that is what the v1beta1 schema has there.
//! `status.v1beta2.conditions` holds the form of `metav1.Condition` ([`Condition`]), which is where
//! Cluster API's transition plan puts it until the older form goes.
//!
//! Who reads which, in Cluster API at `ae7ff047`:
//!
//! * `UnstructuredGetAll` (util/conditions/getter.go) looks at `status.v1beta2.conditions` first
//!   and takes it whole if it is a list, **an empty one too**; only without it does it look at
//!   `status.conditions` and converts as well as it can. Machine `InfrastructureReady` comes from
//!   here, out of our `Ready`. So the list must hold `Ready` from its first write on.
//! * The MachinePool reconciler mirrors `Ready` out of `status.conditions` only
//!   (core/reconcilers/machinepool/machinepool_controller_phases.go, by the deprecated v1beta1
//!   getter). So `Ready` has to be in both.
//! * `initialization.provisioned` against `ready` is a matter of the contract label of the CRD for
//!   Machines, and always `ready` for MachinePools: we set both.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::schema;

/// One statement about the object, in the older form of Cluster API.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct V1Beta1Condition {
    /// What the statement is about, in CamelCase, such as Ready.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 256))]
    pub type_: String,
    /// Whether it holds: True, False or Unknown.
    pub status: String,
    /// How bad it is that the status is False: Error, Warning or Info. Empty when it is True.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub severity: Option<String>,
    /// Since when the status is what it is.
    #[schemars(schema_with = "schema::date_time")]
    pub last_transition_time: Time,
    /// Why the status is what it is, as one CamelCase word for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub reason: Option<String>,
    /// Why the status is what it is, as a sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub message: Option<String>,
}

/// What the v1beta2 contract of Cluster API wants in a v1beta1 status.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct V1Beta2Status {
    /// Statements about the object, one per type, in the form that all of Kubernetes uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
