//! Whether the management cluster has what a controller needs, said in one line if it has not.

use kube::api::ListParams;
use kube::{Api, Resource};
use weir_api::capi::{Cluster, Machine, MachinePool};
use weir_api::{AzureMachinePool, AzureMachinePoolMachine};

use crate::pool::line;

/// The controller could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The API server gave no answer.
    #[error(
        "cannot reach the management cluster: {}; check --kubeconfig and the network", line(.0)
    )]
    Unreachable(kube::Error),
    /// A CRD is missing.
    #[error("the cluster does not know the kind {kind} ({group}): {hint}")]
    MissingKind {
        /// The kind.
        kind: String,
        /// Its group and version.
        group: String,
        /// What to install.
        hint: &'static str,
    },
    /// The controller may not read a kind.
    #[error("not allowed to list {kind}: apply the RBAC rules of deploy/")]
    Forbidden {
        /// The kind.
        kind: String,
    },
    /// A kind could not be listed.
    #[error("failed to list {kind}: {}", line(.source))]
    List {
        /// The kind.
        kind: String,
        /// Why.
        source: kube::Error,
    },
}

const OURS: &str = "install Weir's CRDs with kubectl apply -f deploy/crds";
const CORE: &str = "install Cluster API core (clusterctl init) with the MachinePool feature";

/// Checks that the API server answers and serves every kind that is watched.
pub(super) async fn check(
    client: &kube::Client,
    namespace: Option<&str>,
) -> Result<(), StartError> {
    client
        .apiserver_version()
        .await
        .map_err(StartError::Unreachable)?;
    listable::<AzureMachinePool>(client, namespace, OURS).await?;
    listable::<AzureMachinePoolMachine>(client, namespace, OURS).await?;
    listable::<Cluster>(client, namespace, CORE).await?;
    listable::<MachinePool>(client, namespace, CORE).await?;
    listable::<Machine>(client, namespace, CORE).await
}

async fn listable<K>(
    client: &kube::Client,
    namespace: Option<&str>,
    hint: &'static str,
) -> Result<(), StartError>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let kind = K::kind(&()).into_owned();
    let api: Api<K> = super::feed::scoped(client, namespace);
    match api.list(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Err(StartError::MissingKind {
            kind,
            group: K::api_version(&()).into_owned(),
            hint,
        }),
        Err(kube::Error::Api(status)) if status.is_forbidden() => {
            Err(StartError::Forbidden { kind })
        }
        Err(source) => Err(StartError::List { kind, source }),
    }
}
