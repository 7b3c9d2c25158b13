//! As whom a pool's cluster talks to Azure, and whether it may.
//!
//! A credential is made once per identity and secret, and shared by all pools that use it, so that
//! a hundred pools cost one token.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, ResourceExt};
use sha2::{Digest, Sha256};
use weir_api::azure::{AllowedNamespaces, AzureCluster, AzureClusterIdentity, identity_type};
use weir_azure::{
    Arm, Credential, CredentialError, Endpoint, EndpointError, Identity, Meter, UserAssigned, Wire,
};

use crate::context::lock;

/// Where Kubernetes mounts a federated service account token unless told otherwise.
const TOKEN_FILE: &str = "/var/run/secrets/azure/tokens/azure-identity-token";

/// The way to Azure.
#[derive(Clone)]
pub enum AzureAccess {
    /// One client for everybody: the simulation, where nobody asks who is there.
    Shared(Arm),
    /// A client for each identity.
    ByIdentity(Arc<Identities>),
}

/// Clients by identity.
pub struct Identities {
    wire: Wire,
    endpoint: Option<Endpoint>,
    subscription: Option<String>,
    meter: Option<Meter>,
    arms: Mutex<BTreeMap<String, Arm>>,
}

/// Why a pool may not, or cannot, talk to Azure.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The cluster names no identity.
    #[error("AzureCluster {cluster} has no spec.identityRef: name an AzureClusterIdentity there")]
    NoIdentity {
        /// The cluster.
        cluster: String,
    },
    /// The identity could not be read.
    #[error("failed to read AzureClusterIdentity {identity}")]
    ReadIdentity {
        /// The identity.
        identity: String,
        /// Why.
        source: kube::Error,
    },
    /// The identity is not for this namespace.
    #[error(
        "AzureClusterIdentity {identity} does not allow namespace {namespace}: \
         add it to spec.allowedNamespaces"
    )]
    NotAllowed {
        /// The identity.
        identity: String,
        /// The namespace that asked.
        namespace: String,
    },
    /// The namespace could not be read to see whether the identity's selector matches.
    #[error("failed to read namespace {namespace}")]
    ReadNamespace {
        /// The namespace.
        namespace: String,
        /// Why.
        source: kube::Error,
    },
    /// The secret of the identity could not be read.
    #[error("failed to read secret {secret}, which AzureClusterIdentity {identity} names")]
    ReadSecret {
        /// The identity.
        identity: String,
        /// The secret.
        secret: String,
        /// Why.
        source: kube::Error,
    },
    /// The secret of the identity is not complete.
    #[error("secret {secret} has no key clientSecret, which AzureClusterIdentity {identity} needs")]
    NoClientSecret {
        /// The identity.
        identity: String,
        /// The secret.
        secret: String,
    },
    /// The kind of identity is one we cannot use.
    #[error(
        "AzureClusterIdentity {identity} has type {kind}, which Weir cannot use: \
         use WorkloadIdentity, ServicePrincipal or UserAssignedMSI"
    )]
    Kind {
        /// The identity.
        identity: String,
        /// Its type.
        kind: String,
    },
    /// The cloud is not known.
    #[error("AzureCluster {cluster} names a cloud that is not known")]
    Cloud {
        /// The cluster.
        cluster: String,
        /// Why.
        source: EndpointError,
    },
    /// The identity is complete and no credential can be made of it.
    #[error("AzureClusterIdentity {identity} cannot be used")]
    Credential {
        /// The identity.
        identity: String,
        /// Why.
        source: CredentialError,
    },
}

impl AzureAccess {
    /// Makes a way to Azure with a client for each identity.
    ///
    /// Without an endpoint, each cluster's own `azureEnvironment` decides.
    #[must_use]
    pub fn by_identity(
        wire: Wire,
        endpoint: Option<Endpoint>,
        subscription: Option<String>,
        meter: Option<Meter>,
    ) -> AzureAccess {
        let arms = Mutex::default();
        AzureAccess::ByIdentity(Arc::new(Identities {
            wire,
            endpoint,
            subscription,
            meter,
            arms,
        }))
    }

    /// Returns the subscription of clusters that name none.
    #[must_use]
    pub fn default_subscription(&self) -> Option<&str> {
        match self {
            AzureAccess::Shared(_) => None,
            AzureAccess::ByIdentity(identities) => identities.subscription.as_deref(),
        }
    }

    /// Returns the client that a cluster's pools use.
    ///
    /// # Errors
    /// When the cluster may not use its identity, nothing of the identity's secret is read.
    pub async fn arm(
        &self,
        kube: &kube::Client,
        cluster: &AzureCluster,
    ) -> Result<Arm, AccessError> {
        match self {
            AzureAccess::Shared(arm) => Ok(arm.clone()),
            AzureAccess::ByIdentity(identities) => identities.arm(kube, cluster).await,
        }
    }
}

impl Identities {
    async fn arm(&self, kube: &kube::Client, cluster: &AzureCluster) -> Result<Arm, AccessError> {
        let found = find_identity(kube, cluster).await?;
        may_use(kube, &found, cluster).await?;
        let identity = credentials(kube, &found).await?;
        let endpoint = match &self.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => cloud(cluster)?,
        };
        let fingerprint = fingerprint(&found, &endpoint, &identity);
        if let Some(arm) = lock(&self.arms).get(&fingerprint) {
            return Ok(arm.clone());
        }
        let credential = Credential::new(&self.wire, &endpoint, identity).map_err(|source| {
            AccessError::Credential {
                identity: found.name_any(),
                source,
            }
        })?;
        let mut arm = Arm::new(self.wire.clone(), endpoint, credential);
        if let Some(meter) = &self.meter {
            arm = arm.with_meter(meter.clone());
        }
        lock(&self.arms).insert(fingerprint, arm.clone());
        Ok(arm)
    }
}

async fn find_identity(
    kube: &kube::Client,
    cluster: &AzureCluster,
) -> Result<AzureClusterIdentity, AccessError> {
    let reference = cluster.spec.identity_ref.as_ref();
    let name = reference.and_then(|reference| reference.name.clone());
    let Some(name) = name else {
        return Err(AccessError::NoIdentity {
            cluster: cluster.name_any(),
        });
    };
    let namespace = reference
        .and_then(|reference| reference.namespace.clone())
        .or_else(|| cluster.namespace())
        .unwrap_or_default();
    let api: Api<AzureClusterIdentity> = Api::namespaced(kube.clone(), &namespace);
    api.get(&name)
        .await
        .map_err(|source| AccessError::ReadIdentity {
            identity: format!("{namespace}/{name}"),
            source,
        })
}

/// Whether the cluster's namespace is among those that the identity is for.
///
/// An absent `allowedNamespaces` allows nobody, the identity's own namespace included; an empty one
/// allows everybody. These are CAPZ's rules.
async fn may_use(
    kube: &kube::Client,
    identity: &AzureClusterIdentity,
    cluster: &AzureCluster,
) -> Result<(), AccessError> {
    let namespace = cluster.namespace().unwrap_or_default();
    let name = format!(
        "{}/{}",
        identity.namespace().unwrap_or_default(),
        identity.name_any()
    );
    let refused = || AccessError::NotAllowed {
        identity: name.clone(),
        namespace: namespace.clone(),
    };
    let Some(AllowedNamespaces { list, selector }) = &identity.spec.allowed_namespaces else {
        return Err(refused());
    };
    if list.is_none() && selector.is_none() {
        return Ok(());
    }
    if list.as_ref().is_some_and(|list| list.contains(&namespace)) {
        return Ok(());
    }
    let Some(selector) = selector else {
        return Err(refused());
    };
    let api: Api<Namespace> = Api::all(kube.clone());
    let found = api
        .get(&namespace)
        .await
        .map_err(|source| AccessError::ReadNamespace {
            namespace: namespace.clone(),
            source,
        })?;
    let selector = kube::core::Selector::try_from(selector.clone()).map_err(|_| refused())?;
    use kube::core::SelectorExt as _;
    if selector.matches(found.labels()) {
        Ok(())
    } else {
        Err(refused())
    }
}

async fn credentials(
    kube: &kube::Client,
    identity: &AzureClusterIdentity,
) -> Result<Identity, AccessError> {
    let spec = &identity.spec;
    let tenant = spec.tenant_id.clone();
    let client = spec.client_id.clone();
    match spec.type_.as_str() {
        identity_type::SERVICE_PRINCIPAL | identity_type::MANUAL_SERVICE_PRINCIPAL => {
            let secret = client_secret(kube, identity).await?;
            Ok(Identity::ClientSecret {
                tenant,
                client,
                secret: secret.into(),
            })
        }
        identity_type::WORKLOAD_IDENTITY => {
            let token_file = std::env::var_os("AZURE_FEDERATED_TOKEN_FILE")
                .map_or_else(|| PathBuf::from(TOKEN_FILE), PathBuf::from);
            Ok(Identity::WorkloadIdentity {
                tenant,
                client,
                token_file,
            })
        }
        identity_type::USER_ASSIGNED_MSI => Ok(Identity::ManagedIdentity {
            user_assigned: (!client.is_empty()).then_some(UserAssigned::Client(client)),
        }),
        kind => Err(AccessError::Kind {
            identity: identity.name_any(),
            kind: kind.to_owned(),
        }),
    }
}

async fn client_secret(
    kube: &kube::Client,
    identity: &AzureClusterIdentity,
) -> Result<String, AccessError> {
    let reference = identity.spec.client_secret.clone().unwrap_or_default();
    let name = reference.name.unwrap_or_default();
    let namespace = reference
        .namespace
        .or_else(|| identity.namespace())
        .unwrap_or_default();
    let shown = format!("{namespace}/{name}");
    let api: Api<Secret> = Api::namespaced(kube.clone(), &namespace);
    let secret = api
        .get(&name)
        .await
        .map_err(|source| AccessError::ReadSecret {
            identity: identity.name_any(),
            secret: shown.clone(),
            source,
        })?;
    let bytes = secret
        .data
        .as_ref()
        .and_then(|data| data.get("clientSecret"));
    bytes
        .and_then(|bytes| String::from_utf8(bytes.0.clone()).ok())
        .map(|text| text.trim().to_owned())
        .ok_or_else(|| AccessError::NoClientSecret {
            identity: identity.name_any(),
            secret: shown,
        })
}

fn cloud(cluster: &AzureCluster) -> Result<Endpoint, AccessError> {
    match cluster.spec.azure_environment.as_deref() {
        None | Some("") => Ok(Endpoint::public()),
        Some(name) => Endpoint::named(name).map_err(|source| AccessError::Cloud {
            cluster: cluster.name_any(),
            source,
        }),
    }
}

/// Tells identities apart, a changed secret included, without keeping the secret.
fn fingerprint(found: &AzureClusterIdentity, endpoint: &Endpoint, identity: &Identity) -> String {
    let mut hash = Sha256::new();
    hash.update(endpoint.resource_manager());
    hash.update(endpoint.authority());
    hash.update(&found.spec.type_);
    hash.update(&found.spec.tenant_id);
    hash.update(&found.spec.client_id);
    if let Identity::ClientSecret { secret, .. } = identity {
        hash.update(secret.expose());
    }
    format!("{:x}", hash.finalize())
}
