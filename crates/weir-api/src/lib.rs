//! What do the objects look like that Weir owns, reads and shares with others?
//!
//! Two kinds are ours: [`AzureMachinePool`], written by users, and [`AzureMachinePoolMachine`],
//! written by Weir alone. They have the group, version and fields of the provider that Weir stands
//! in for (cluster-api-provider-azure, "CAPZ"), so that its objects keep working; what we add is
//! listed, and tested, in `tests/capz.rs`.
//!
//! [`capi`] and [`azure`] hold the parts that we read of objects of others. [`contract`] names the
//! labels, annotations, finalizers and conditions that Cluster API and Weir agree on, and
//! [`provider_id`] the form in which an Azure machine is named on a Node.
//!
//! Nothing here talks to a server or decides anything. Read [`azure_machine_pool`] next.

pub mod azure;
pub mod azure_machine_pool;
pub mod azure_machine_pool_machine;
pub mod capi;
pub mod conditions;
pub mod contract;
pub mod crd;
pub mod provider_id;
mod resource;
mod schema;

pub use azure_machine_pool::*;
pub use azure_machine_pool_machine::*;
pub use conditions::{Condition, V1Beta1Condition, V1Beta2Status};
pub use crd::{crd_yaml, crds};

pub use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
