//! What does Weir read of the Azure objects that belong to somebody else?
//!
//! [`AzureCluster`] says where machines are put and [`AzureClusterIdentity`] as whom we talk to
//! Azure. Both are reconciled by another provider; we read them and never write them. As in
//! [`crate::capi`], unknown fields are ignored and what may be absent is optional.
//!
//! # Source
//! CAPZ `69ec3a40`, config/crd/bases, azureclusters and azureclusteridentities.

use k8s_openapi::api::core::v1::{ObjectReference, SecretReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::contract::INFRASTRUCTURE_GROUP;
use crate::resource::resource;

resource! {
    /// The network and the place of a cluster in Azure.
    AzureCluster(AzureClusterSpec, AzureClusterStatus),
    INFRASTRUCTURE_GROUP, "v1beta1", "azureclusters"
}

resource! {
    /// As whom to talk to Azure.
    AzureClusterIdentity(AzureClusterIdentitySpec, AzureClusterIdentityStatus),
    INFRASTRUCTURE_GROUP, "v1beta1", "azureclusteridentities"
}

/// Where a cluster is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AzureClusterSpec {
    /// Azure region, such as westeurope.
    pub location: String,
    /// Subscription; absent means the one of the controller's environment.
    #[serde(rename = "subscriptionID", skip_serializing_if = "Option::is_none")]
    pub subscription_id: Option<String>,
    /// Resource group; CAPZ's webhook makes it the cluster's name if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<String>,
    /// The [`AzureClusterIdentity`] to use. An absent namespace means the cluster's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<ObjectReference>,
    /// Which Azure cloud; absent means AzurePublicCloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure_environment: Option<String>,
    /// Tags for every resource of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_tags: Option<BTreeMap<String, String>>,
    /// The cluster's network.
    pub network_spec: NetworkSpec,
}

/// A cluster's network.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkSpec {
    /// The virtual network.
    pub vnet: Vnet,
    /// Its subnets; absent until set by a user or by CAPZ's webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Vec<Subnet>>,
}

/// A virtual network.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Vnet {
    /// Name of the network.
    pub name: String,
    /// Resource group of the network; absent means the cluster's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<String>,
}

/// A subnet of a cluster.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subnet {
    /// Name of the subnet.
    pub name: String,
    /// What it is for, see [`SUBNET_ROLE_NODE`].
    pub role: String,
    /// ARM ID of the subnet, once it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// The role of a subnet that worker nodes may be in.
pub const SUBNET_ROLE_NODE: &str = "node";

/// The role of a subnet that holds control plane and workers alike.
pub const SUBNET_ROLE_CLUSTER: &str = "cluster";

/// The identity kinds of [`AzureClusterIdentitySpec::type_`].
pub mod identity_type {
    /// Client secret, deprecated spelling of [`MANUAL_SERVICE_PRINCIPAL`].
    pub const SERVICE_PRINCIPAL: &str = "ServicePrincipal";
    /// Client secret.
    pub const MANUAL_SERVICE_PRINCIPAL: &str = "ManualServicePrincipal";
    /// Client certificate.
    pub const SERVICE_PRINCIPAL_CERTIFICATE: &str = "ServicePrincipalCertificate";
    /// Managed identity of the machine that the controller runs on.
    pub const USER_ASSIGNED_MSI: &str = "UserAssignedMSI";
    /// Federated token of the controller's service account.
    pub const WORKLOAD_IDENTITY: &str = "WorkloadIdentity";
    /// Credentials in a file, for first-party identities.
    pub const USER_ASSIGNED_IDENTITY_CREDENTIAL: &str = "UserAssignedIdentityCredential";
}

/// What was last seen of a cluster's Azure resources.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AzureClusterStatus {
    /// Whether the network is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The zones of the region, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domains: Option<BTreeMap<String, FailureDomain>>,
}

/// One zone.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureDomain {
    /// Whether control plane machines may be put there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
}

/// As whom to talk to Azure, and who may.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AzureClusterIdentitySpec {
    /// What kind of credential this is; one of [`identity_type`].
    #[serde(rename = "type")]
    pub type_: String,
    /// Tenant of the identity.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// Client ID of the identity.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// The Secret that holds the client secret, under the key `clientSecret`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SecretReference>,
    /// Path of the certificate, in the controller's file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_path: Option<String>,
    /// Namespaces whose clusters may use the identity; absent means none at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// Namespaces, by name or by label; one match is enough.
///
/// With both fields absent it means every namespace. An empty list and an empty selector match
/// none. (CAPZ `69ec3a40`, azure/scope/identity.go, `IsClusterNamespaceAllowed`.)
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedNamespaces {
    /// Names of namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<Vec<String>>,
    /// Labels of namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// What was last seen of an identity. We read nothing of it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct AzureClusterIdentityStatus {}
