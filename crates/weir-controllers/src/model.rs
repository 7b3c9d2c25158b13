//! What scale set does a pool ask for?
//!
//! [`wanted`] is a pure function from the pool, its MachinePool, its cluster and its bootstrap data
//! to the body of a scale set, without the capacity, and to the [`Revision`] that says what a new
//! instance would be like. Nothing here reads Azure or decides when to write: `pool/observe.rs`
//! calls it, and the planner in `weir-core` compares revisions.
//!
//! `revision.rs` has the one list of fields that makes instances old; `change.rs` makes the bodies
//! of updates; the other files fill one part of the body each.
//!
//! # Source
//! Names, defaults and omissions are those of CAPZ `69ec3a40`, azure/services/scalesets/spec.go,
//! unless a comment says otherwise, so that a pool made there is taken over as it is.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::ResourceExt;
use weir_api::azure::AzureCluster;
use weir_api::capi::MachinePool;
use weir_api::contract::tag;
use weir_api::{AzureMachinePool, Image, OrchestrationMode, VmIdentity};
use weir_azure::vmss::{
    AdditionalCapabilities, ManagedIdentity, ScaleSetProperties, Sku, UpgradePolicy,
    VirtualMachineProfile,
};
use weir_azure::{ScaleSet, ScaleSetId, Secret};
use weir_core::observed::Revision;

use crate::marks;

mod bootstrap;
mod change;
mod error;
mod image;
mod machine;
mod name;
mod network;
mod revision;
mod size;
mod storage;
#[cfg(test)]
mod tests;

pub use change::{Mark, body, capacity_patch, settings_patch};
pub use error::ModelError;
pub use revision::differences;
pub use size::fit_to_size;

/// The tag that carries the revision: on the scale set that of its model, and on an instance, which
/// has its tags from the scale set, that of the model it was made from.
pub const REVISION_TAG: &str = "weir_revision";

/// The tag by which the cloud provider for Azure knows what belongs to its cluster.
const CLOUD_PROVIDER_TAG_PREFIX: &str = "kubernetes.io_cluster_";

/// The most bytes that Azure takes as custom data, before base64.
///
/// # Source
/// `VirtualMachineScaleSetOSProfile.customData`, api-version 2024-11-01.
const CUSTOM_DATA_BYTES_MAX: usize = 65_535;

/// All that a scale set model is made from.
pub struct Ingredients<'a> {
    /// The pool.
    pub pool: &'a AzureMachinePool,
    /// Its owner, which says version and zones.
    pub machine_pool: &'a MachinePool,
    /// Name of the Cluster, which may differ from that of the AzureCluster.
    pub cluster_name: &'a str,
    /// Where the cluster is. A cluster without a subscription is refused here: put the
    /// controller's own into `spec.subscriptionID` first.
    pub azure_cluster: &'a AzureCluster,
    /// What makes a machine a node.
    pub bootstrap: &'a BootstrapData,
}

/// What makes a machine a node, as the bootstrap provider left it in a Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapData {
    /// Name of the Secret. A different name means that machines are to be different.
    pub secret_name: String,
    /// The data. It holds a join token at least, so it is never printed.
    pub data: Vec<u8>,
    /// The format, such as cloud-config or ignition. Azure hands the data on as it is.
    pub format: Option<String>,
}

impl fmt::Debug for BootstrapData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            secret_name,
            data: _,
            format,
        } = self;
        f.debug_struct("BootstrapData")
            .field("secret_name", secret_name)
            .field("format", format)
            .finish_non_exhaustive()
    }
}

/// What is wanted of Azure, but for the capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The scale set, with our tags and without a capacity.
    pub scale_set: ScaleSet,
    /// What an instance made from it is like.
    pub revision: Revision,
}

/// Returns the scale set that a pool asks for.
///
/// Equal ingredients give equal results. Where the spec leaves open what the machine size decides,
/// so does the result; [`fit_to_size`] fills that in.
///
/// # Errors
/// Each error names the field and what to write into it.
pub fn wanted(ingredients: &Ingredients<'_>) -> Result<Wanted, ModelError> {
    let Ingredients {
        pool,
        machine_pool,
        cluster_name,
        azure_cluster,
        bootstrap,
    } = ingredients;
    let spec = &pool.spec;
    let image = image(pool, machine_pool)?;
    let mut scale_set = ScaleSet {
        location: Some(location(pool, azure_cluster)),
        tags: Some(tags(pool, azure_cluster, cluster_name)?),
        sku: Some(Sku {
            name: Some(spec.template.vm_size.clone()),
            tier: Some("Standard".to_owned()),
            capacity: None,
        }),
        plan: image::plan(&image),
        identity: identity(pool)?,
        zones: zones(machine_pool),
        properties: Some(properties(pool, machine_pool)?),
        ..ScaleSet::default()
    };
    let profile = VirtualMachineProfile {
        os_profile: Some(machine::os_profile(
            pool,
            custom_data(bootstrap)?,
            bootstrap,
        )?),
        storage_profile: Some(storage::storage_profile(pool, &image)?),
        network_profile: Some(network::network_profile(pool, azure_cluster)?),
        security_profile: machine::security_profile(pool),
        diagnostics_profile: Some(machine::diagnostics_profile(pool)),
        extension_profile: machine::extension_profile(pool, azure_cluster),
        scheduled_events_profile: machine::scheduled_events_profile(pool)?,
        ..machine::spot(pool)?
    };
    if let Some(properties) = &mut scale_set.properties {
        properties.virtual_machine_profile = Some(profile);
    }
    let version = machine_pool.spec.template.spec.version.as_deref();
    let revision = revision::revision(&scale_set, version, &identity_of(pool, bootstrap)?);
    let tags = scale_set.tags.get_or_insert_default();
    tags.insert(REVISION_TAG.to_owned(), revision.0.clone());
    Ok(Wanted {
        scale_set,
        revision,
    })
}

/// Returns the image that new machines are made from, also when the spec leaves it open.
///
/// # Errors
/// If the spec names no image and none is published for the wanted Kubernetes version, and if it
/// names more than one.
pub fn image(pool: &AzureMachinePool, machine_pool: &MachinePool) -> Result<Image, ModelError> {
    image::image(pool, machine_pool)
}

/// Returns how the scale set of a pool is named in Azure, whether it exists or not.
///
/// # Errors
/// If neither the cluster nor the caller says the subscription, or if Azure takes no such name.
pub fn scale_set_id(
    pool: &AzureMachinePool,
    azure_cluster: &AzureCluster,
    default_subscription: Option<&str>,
) -> Result<ScaleSetId, ModelError> {
    let of_cluster = azure_cluster.spec.subscription_id.as_deref();
    let subscription = of_cluster
        .filter(|id| !id.is_empty())
        .or(default_subscription);
    let subscription = subscription.ok_or_else(|| ModelError::NoSubscription {
        cluster: azure_cluster.name_any(),
    })?;
    let name = name::scale_set_name(pool)?;
    Ok(ScaleSetId::new(
        subscription,
        resource_group(azure_cluster),
        name,
    ))
}

/// Returns the revision that tags tell, if they do.
///
/// Azure keeps the case of tag names and finds them in any.
pub fn revision_of_tags(tags: &BTreeMap<String, String>) -> Option<Revision> {
    let mut tags = tags.iter();
    let (_, value) = tags.find(|(name, _)| name.eq_ignore_ascii_case(REVISION_TAG))?;
    (!value.is_empty()).then(|| Revision(value.clone()))
}

/// Returns the cluster's resource group; CAPZ's webhook fills it in as the cluster's name.
fn resource_group(azure_cluster: &AzureCluster) -> String {
    let of_cluster = azure_cluster.spec.resource_group.clone();
    of_cluster
        .filter(|group| !group.is_empty())
        .unwrap_or_else(|| azure_cluster.name_any())
}

fn location(pool: &AzureMachinePool, azure_cluster: &AzureCluster) -> String {
    match pool.spec.location.as_str() {
        "" => azure_cluster.spec.location.clone(),
        location => location.to_owned(),
    }
}

/// Our own tags win over a user's: the cluster, role and name tags are how others find the set.
fn tags(
    pool: &AzureMachinePool,
    azure_cluster: &AzureCluster,
    cluster_name: &str,
) -> Result<BTreeMap<String, String>, ModelError> {
    let mut tags = azure_cluster
        .spec
        .additional_tags
        .clone()
        .unwrap_or_default();
    tags.extend(pool.spec.additional_tags.clone());
    let owned = tag::OWNED.to_owned();
    tags.insert(
        format!("{CLOUD_PROVIDER_TAG_PREFIX}{cluster_name}"),
        owned.clone(),
    );
    tags.insert(format!("{}{cluster_name}", tag::CLUSTER_PREFIX), owned);
    tags.insert(tag::ROLE.to_owned(), "node".to_owned());
    tags.insert("Name".to_owned(), name::scale_set_name(pool)?);
    Ok(tags)
}

/// Returns the identities; the type is one word even if there are several (C78).
fn identity(pool: &AzureMachinePool) -> Result<Option<ManagedIdentity>, ModelError> {
    let identities = &pool.spec.user_assigned_identities;
    match pool.spec.identity {
        VmIdentity::None => Ok(None),
        VmIdentity::SystemAssigned => Ok(Some(ManagedIdentity {
            kind: Some("SystemAssigned".to_owned()),
            user_assigned_identities: None,
        })),
        VmIdentity::UserAssigned if identities.is_empty() => Err(ModelError::NoIdentities),
        VmIdentity::UserAssigned => {
            let keys = identities
                .iter()
                .map(|identity| arm_id(&identity.provider_id));
            Ok(Some(ManagedIdentity {
                kind: Some("UserAssigned".to_owned()),
                user_assigned_identities: Some(
                    keys.map(|key| (key, serde_json::json!({}))).collect(),
                ),
            }))
        }
    }
}

/// Returns an ARM ID without the prefix that CAPZ allows before it.
fn arm_id(text: &str) -> String {
    text.strip_prefix(weir_api::provider_id::PREFIX)
        .unwrap_or(text)
        .to_owned()
}

/// Returns the zones, sorted. None is left out: an empty list counts as a change in Azure.
fn zones(machine_pool: &MachinePool) -> Option<Vec<String>> {
    let mut zones = machine_pool.spec.failure_domains.clone();
    zones.sort();
    zones.dedup();
    (!zones.is_empty()).then_some(zones)
}

fn properties(
    pool: &AzureMachinePool,
    machine_pool: &MachinePool,
) -> Result<ScaleSetProperties, ModelError> {
    let spec = &pool.spec;
    let fault_domains = match spec.platform_fault_domain_count {
        Some(count) => Some(error::count(
            "spec.platformFaultDomainCount",
            count.into(),
            1,
            1_000,
        )?),
        None => None,
    };
    let common = ScaleSetProperties {
        single_placement_group: Some(false),
        platform_fault_domain_count: fault_domains,
        // Azure refuses the setting unless there is more than one zone.
        zone_balance: spec
            .zone_balance
            .filter(|_| zones(machine_pool).iter().flatten().count() > 1),
        additional_capabilities: additional_capabilities(pool),
        ..ScaleSetProperties::default()
    };
    Ok(match spec.orchestration_mode {
        OrchestrationMode::Uniform => ScaleSetProperties {
            orchestration_mode: Some("Uniform".to_owned()),
            // Instances that Azure drops again would join the cluster first.
            overprovision: Some(false),
            // Any other mode makes Azure restart nodes without a drain.
            upgrade_policy: Some(UpgradePolicy {
                mode: Some("Manual".to_owned()),
            }),
            ..common
        },
        OrchestrationMode::Flexible => ScaleSetProperties {
            orchestration_mode: Some("Flexible".to_owned()),
            // Azure refuses a Flexible set that doesn't say it (C76).
            platform_fault_domain_count: fault_domains.or(Some(1)),
            ..common
        },
    })
}

/// Ultra disks have to be allowed before one can be attached, so a data disk that is one does it.
fn additional_capabilities(pool: &AzureMachinePool) -> Option<AdditionalCapabilities> {
    let template = &pool.spec.template;
    let stated = template
        .additional_capabilities
        .as_ref()
        .and_then(|c| c.ultra_ssd_enabled);
    let implied = template
        .data_disks
        .iter()
        .any(storage::is_ultra)
        .then_some(true);
    let ultra_ssd_enabled = stated.or(implied);
    ultra_ssd_enabled?;
    Some(AdditionalCapabilities {
        ultra_ssd_enabled,
        ..AdditionalCapabilities::default()
    })
}

/// Returns what of the bootstrap data makes an instance old when it changes.
fn identity_of(pool: &AzureMachinePool, bootstrap: &BootstrapData) -> Result<String, ModelError> {
    let policy = pool.annotations().get(marks::ROLL_ON_BOOTSTRAP);
    match policy.map_or("Reference", String::as_str) {
        "Reference" => Ok(bootstrap.secret_name.clone()),
        "Content" => Ok(
            bootstrap::meaning(&bootstrap.data).unwrap_or_else(|| bootstrap.secret_name.clone())
        ),
        "Never" => Ok(String::new()),
        other => Err(ModelError::RollOnBootstrap {
            value: other.to_owned(),
        }),
    }
}

/// Returns the bootstrap data as Azure wants it. What is no bootstrap data makes no node, and what
/// is too long is refused by Azure only after the instances were ordered (C86).
fn custom_data(bootstrap: &BootstrapData) -> Result<Secret, ModelError> {
    let secret = || bootstrap.secret_name.clone();
    match bootstrap.data.len() {
        0 => Err(ModelError::BootstrapEmpty { secret: secret() }),
        bytes if bytes > CUSTOM_DATA_BYTES_MAX => Err(ModelError::BootstrapTooLarge {
            secret: secret(),
            bytes,
            bytes_max: CUSTOM_DATA_BYTES_MAX,
        }),
        _ => Ok(Secret::new(BASE64.encode(&bootstrap.data))),
    }
}
