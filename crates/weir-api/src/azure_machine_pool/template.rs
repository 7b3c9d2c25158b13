//! What can a user say about a single machine of a pool?
//!
//! Rules that a schema can't express are CEL rules here. Each repeats a rule of CAPZ's validating
//! webhook, and takes into account what its mutating webhook would have filled in, so that no
//! object which CAPZ takes is turned away.
//!
//! # Source
//! CAPZ `69ec3a40`: internal/exp/webhooks/azuremachinepool_webhook.go, internal/webhooks/
//! azureimage_validation.go and azuremachine_validation.go.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

use crate::schema;

fn rule(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}

pub(super) fn pool_rules() -> Value {
    json!([
        rule(
            "!has(self.userAssignedIdentities) || size(self.userAssignedIdentities) == 0 \
             || (has(self.identity) && self.identity == 'UserAssigned')",
            "userAssignedIdentities can only be given when identity is UserAssigned",
        ),
        rule(
            "!has(self.identity) || self.identity != 'UserAssigned' \
             || (has(self.userAssignedIdentities) && size(self.userAssignedIdentities) > 0)",
            "identity UserAssigned needs at least one entry in userAssignedIdentities",
        ),
        rule(
            "!has(self.systemAssignedIdentityRole) \
             || (has(self.identity) && self.identity == 'SystemAssigned')",
            "systemAssignedIdentityRole can only be given when identity is SystemAssigned",
        ),
        rule(
            "!has(self.roleAssignmentName) || self.roleAssignmentName == '' \
             || !has(self.systemAssignedIdentityRole) \
             || !has(self.systemAssignedIdentityRole.name) \
             || self.systemAssignedIdentityRole.name == ''",
            "give systemAssignedIdentityRole.name or roleAssignmentName (deprecated), not both",
        ),
    ])
}

pub(super) fn rolling_update_rules() -> Value {
    json!([rule(
        "!(has(self.maxSurge) && type(self.maxSurge) == int && self.maxSurge == 0 \
         && has(self.maxUnavailable) && type(self.maxUnavailable) == int \
         && self.maxUnavailable == 0)",
        "maxSurge and maxUnavailable can't both be 0: no machine could ever be replaced",
    )])
}

fn template_rules() -> Value {
    json!([rule(
        "!has(self.subnetName) || self.subnetName == '' \
         || !has(self.networkInterfaces) || size(self.networkInterfaces) == 0",
        "give the subnet in networkInterfaces or as subnetName (deprecated), not both",
    )])
}

fn image_rules() -> Value {
    json!([
        rule(
            "(has(self.id) ? 1 : 0) + (has(self.marketplace) ? 1 : 0) \
             + (has(self.sharedGallery) ? 1 : 0) + (has(self.computeGallery) ? 1 : 0) == 1",
            "an image is exactly one of id, marketplace, computeGallery and sharedGallery",
        ),
        rule(
            "!has(self.computeGallery) || has(self.computeGallery.subscriptionID) \
             == has(self.computeGallery.resourceGroup)",
            "computeGallery has both subscriptionID and resourceGroup, or neither",
        ),
    ])
}

fn terminate_notification_rules() -> Value {
    json!([rule(
        "self >= 5 && self <= 15",
        "terminateNotificationTimeout is in minutes, from 5 to 15",
    )])
}

fn os_disk_rules() -> Value {
    json!([
        rule(
            "!has(self.diskSizeGB) || (self.diskSizeGB >= 1 && self.diskSizeGB <= 2048)",
            "diskSizeGB of the OS disk is from 1 to 2048",
        ),
        rule(
            "!has(self.diffDiskSettings) || !has(self.managedDisk) \
             || !has(self.managedDisk.diskEncryptionSet)",
            "an ephemeral OS disk (diffDiskSettings) can't have a diskEncryptionSet",
        ),
    ])
}

fn boot_diagnostics_rules() -> Value {
    json!([
        rule(
            "self.storageAccountType != 'UserManaged' || has(self.userManaged)",
            "storageAccountType UserManaged needs userManaged.storageAccountURI",
        ),
        rule(
            "self.storageAccountType == 'UserManaged' || !has(self.userManaged)",
            "userManaged can only be given when storageAccountType is UserManaged",
        ),
    ])
}

/// What each machine of the pool is like.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = template_rules()))]
pub struct AzureMachinePoolMachineTemplate {
    /// Size of the virtual machines, such as Standard_D2s_v5.
    pub vm_size: String,
    /// Image to make the machines from. If absent, a published image for the wanted Kubernetes
    /// version is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = image_rules()))]
    pub image: Option<Image>,
    /// The disk with the operating system.
    pub os_disk: OsDisk,
    /// Further disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_disks: Vec<DataDisk>,
    /// Public SSH key for the machines' administrator, base64-encoded. If absent, a key is made
    /// up whose private half nobody has.
    #[serde(
        rename = "sshPublicKey",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub ssh_public_key: Option<String>,
    /// Deprecated: use networkInterfaces. Whether accelerated networking is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerated_networking: Option<bool>,
    /// Features that have to be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_capabilities: Option<AdditionalCapabilities>,
    /// What Azure keeps for looking into trouble. If absent, boot diagnostics are on, in storage
    /// that Azure manages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<Diagnostics>,
    /// How long before it is removed a machine is told so, in minutes from 5 to 15. If absent,
    /// it is not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        schema_with = "schema::integer",
        extend("x-kubernetes-validations" = terminate_notification_rules())
    )]
    pub terminate_notification_timeout: Option<i64>,
    /// Encryption and trusted start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_profile: Option<SecurityProfile>,
    /// If given, even when empty, the machines are Spot machines: cheaper, and Azure may take
    /// them away.
    #[serde(
        rename = "spotVMOptions",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub spot_vm_options: Option<SpotVmOptions>,
    /// Deprecated: use networkInterfaces. Name of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_name: Option<String>,
    /// Extensions to run on each machine.
    #[serde(
        rename = "vmExtensions",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub vm_extensions: Vec<VmExtension>,
    /// Whether the extension that reports on the bootstrap is left out. Absent means true.
    #[serde(
        rename = "disableVMBootstrapExtension",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub disable_vm_bootstrap_extension: Option<bool>,
    /// Network interfaces of each machine; the first is the primary one. If empty, there is one,
    /// in the cluster's node subnet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<NetworkInterface>,
}

/// Where a machine image comes from: exactly one of the fields.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// ARM ID of an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Deprecated: use computeGallery. An image of a shared gallery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_gallery: Option<SharedGalleryImage>,
    /// An image of the Azure Marketplace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marketplace: Option<MarketplaceImage>,
    /// An image of an Azure Compute Gallery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_gallery: Option<ComputeGalleryImage>,
}

/// An image of the Azure Marketplace.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MarketplaceImage {
    /// Who publishes the image.
    #[schemars(length(min = 1))]
    pub publisher: String,
    /// Name of the group of images.
    #[schemars(length(min = 1))]
    pub offer: String,
    /// Name of the image within the offer.
    #[schemars(length(min = 1))]
    pub sku: String,
    /// Version of the image, or latest.
    #[schemars(length(min = 1))]
    pub version: String,
    /// Whether the image has terms that must be accepted first.
    #[serde(default)]
    pub third_party_image: bool,
}

/// An image of a shared gallery.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedGalleryImage {
    /// Subscription of the gallery.
    #[serde(rename = "subscriptionID")]
    #[schemars(length(min = 1))]
    pub subscription_id: String,
    /// Resource group of the gallery.
    #[schemars(length(min = 1))]
    pub resource_group: String,
    /// Name of the gallery.
    #[schemars(length(min = 1))]
    pub gallery: String,
    /// Name of the image.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Version of the image, or latest.
    #[schemars(length(min = 1))]
    pub version: String,
    /// Publisher of the Marketplace image that this one was made from, if it has a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Offer of the Marketplace image that this one was made from, if it has a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<String>,
    /// SKU of the Marketplace image that this one was made from, if it has a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
}

/// An image of an Azure Compute Gallery.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeGalleryImage {
    /// Name of the gallery.
    #[schemars(length(min = 1))]
    pub gallery: String,
    /// Name of the image.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Version of the image, or latest.
    #[schemars(length(min = 1))]
    pub version: String,
    /// Subscription of the gallery. Together with resourceGroup it means a private gallery; a
    /// community gallery has neither.
    #[serde(
        rename = "subscriptionID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub subscription_id: Option<String>,
    /// Resource group of the gallery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<String>,
    /// Purchase plan of the image, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<ImagePlan>,
}

/// Purchase plan of an image.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePlan {
    /// Who publishes the image.
    #[schemars(length(min = 1))]
    pub publisher: String,
    /// Name of the group of images.
    #[schemars(length(min = 1))]
    pub offer: String,
    /// Name of the image within the offer.
    #[schemars(length(min = 1))]
    pub sku: String,
}

/// The disk with the operating system.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["osType"], "x-kubernetes-validations" = os_disk_rules()))]
pub struct OsDisk {
    /// Operating system: Linux or Windows.
    #[serde(default = "OsDisk::os_type_default")]
    pub os_type: String,
    /// Size in GB, from 1 to 2048. If absent, the size of the image.
    #[serde(
        rename = "diskSizeGB",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub disk_size_gb: Option<i32>,
    /// What kind of disk it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_disk: Option<ManagedDisk>,
    /// If given, the disk is ephemeral: on the host, and empty again after a reimage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_disk_settings: Option<DiffDiskSettings>,
    /// What the host may cache.
    #[serde(default = "OsDisk::caching_type_default")]
    pub caching_type: CachingType,
}

impl OsDisk {
    fn os_type_default() -> String {
        "Linux".to_owned()
    }

    fn caching_type_default() -> CachingType {
        CachingType::None
    }
}

impl Default for OsDisk {
    fn default() -> Self {
        Self {
            os_type: Self::os_type_default(),
            disk_size_gb: None,
            managed_disk: None,
            diff_disk_settings: None,
            caching_type: Self::caching_type_default(),
        }
    }
}

/// What the host may cache of a disk.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum CachingType {
    /// Nothing.
    None,
    /// Reads.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// What kind of disk it is.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedDisk {
    /// Storage class of Azure, such as Premium_LRS. If absent, Azure picks by machine size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_account_type: Option<String>,
    /// Key to encrypt the disk with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_encryption_set: Option<DiskEncryptionSet>,
    /// How the disk of a confidential machine is protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_profile: Option<DiskSecurityProfile>,
}

/// Refers to a disk encryption set.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DiskEncryptionSet {
    /// ARM ID of the disk encryption set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// How the disk of a confidential machine is protected.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskSecurityProfile {
    /// Key to encrypt disk and guest state with; only with DiskWithVMGuestState.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_encryption_set: Option<DiskEncryptionSet>,
    /// What is encrypted. VMGuestStateOnly: the guest state; DiskWithVMGuestState: the disk too,
    /// which needs secure boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_encryption_type: Option<SecurityEncryptionType>,
}

/// What of a confidential machine is encrypted.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum SecurityEncryptionType {
    /// The guest state.
    #[serde(rename = "VMGuestStateOnly")]
    VmGuestStateOnly,
    /// The guest state and the disk.
    #[serde(rename = "DiskWithVMGuestState")]
    DiskWithVmGuestState,
}

/// How a disk on the host is set up.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffDiskSettings {
    /// The kind of ephemeral disk; there is one only.
    pub option: DiffDiskOption,
    /// Where on the host the disk is. If absent, Azure picks by machine size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<DiffDiskPlacement>,
}

/// The kind of ephemeral disk.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DiffDiskOption {
    /// On the host.
    Local,
}

/// Where on the host an ephemeral disk is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DiffDiskPlacement {
    /// The cache.
    CacheDisk,
    /// An NVMe disk.
    NvmeDisk,
    /// The temporary disk.
    ResourceDisk,
}

/// A further disk.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DataDisk {
    /// End of the disk's name, which begins with the machine's.
    pub name_suffix: String,
    /// Size in GB.
    #[serde(rename = "diskSizeGB")]
    pub disk_size_gb: i32,
    /// What kind of disk it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_disk: Option<ManagedDisk>,
    /// Number by which the machine sees the disk, from 0 to 63 and used once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lun: Option<i32>,
    /// What the host may cache. If absent, ReadWrite, or None for an ultra disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caching_type: Option<CachingType>,
}

/// Features that have to be asked for.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AdditionalCapabilities {
    /// Whether ultra disks can be attached. If absent, they can if a data disk is one.
    #[serde(
        rename = "ultraSSDEnabled",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub ultra_ssd_enabled: Option<bool>,
}

/// What Azure keeps for looking into trouble.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Diagnostics {
    /// Console output and screenshots of the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootDiagnostics>,
}

/// Console output and screenshots of the start of a machine.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = boot_diagnostics_rules()))]
pub struct BootDiagnostics {
    /// Where they are kept: in storage that Azure manages, in a storage account of yours, or
    /// nowhere.
    pub storage_account_type: BootDiagnosticsStorage,
    /// Your storage account; only, and always, with UserManaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_managed: Option<UserManagedBootDiagnostics>,
}

/// Where boot diagnostics are kept.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum BootDiagnosticsStorage {
    /// In storage that Azure manages.
    Managed,
    /// In the user's storage account.
    UserManaged,
    /// Nowhere.
    Disabled,
}

/// A storage account for boot diagnostics.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct UserManagedBootDiagnostics {
    /// Blob endpoint of the storage account, such as https://mydiagnostics.blob.core.windows.net/.
    #[serde(rename = "storageAccountURI")]
    #[schemars(length(max = 1024), regex(pattern = "^https://"))]
    pub storage_account_uri: String,
}

/// Encryption and trusted start.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityProfile {
    /// Whether the host encrypts disks and caches. If absent, it doesn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_at_host: Option<bool>,
    /// The kind of trust. Needed for uefiSettings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_type: Option<SecurityType>,
    /// Firmware settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uefi_settings: Option<UefiSettings>,
}

/// The kind of trust of a machine.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum SecurityType {
    /// A confidential machine.
    #[serde(rename = "ConfidentialVM")]
    ConfidentialVm,
    /// A trusted start.
    TrustedLaunch,
}

/// Firmware settings of a machine.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UefiSettings {
    /// Whether only signed code may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_boot_enabled: Option<bool>,
    /// Whether the machine has a virtual TPM.
    #[serde(
        rename = "vTpmEnabled",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub v_tpm_enabled: Option<bool>,
}

/// How Spot machines are paid for and taken away.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpotVmOptions {
    /// Most that a machine may cost per hour, in US dollars; -1 means up to the normal price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub max_price: Option<IntOrString>,
    /// What becomes of a machine that is taken away. If absent, Delete with an ephemeral OS
    /// disk, and otherwise what Azure does by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_policy: Option<SpotEvictionPolicy>,
}

/// What becomes of a Spot machine that is taken away.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum SpotEvictionPolicy {
    /// It is stopped, and its disks stay.
    Deallocate,
    /// It is deleted.
    Delete,
}

/// An extension to run on each machine.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VmExtension {
    /// Name of the extension.
    pub name: String,
    /// Who publishes the extension.
    pub publisher: String,
    /// Version of the extension.
    pub version: String,
    /// Settings that anybody may see.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Settings that Azure encrypts and never shows again. They are plain text in this object.
    #[serde(default, skip_serializing_if = "SecretSettings::is_empty")]
    pub protected_settings: SecretSettings,
}

/// Settings whose values must not be printed.
#[derive(Clone, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(transparent)]
pub struct SecretSettings(pub BTreeMap<String, String>);

impl SecretSettings {
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.0.keys().map(|key| (key, "<hidden>")))
            .finish()
    }
}

/// A network interface of each machine.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Name of a subnet of the cluster. If absent, the first one for nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_name: Option<String>,
    /// Number of private addresses. If absent, 1.
    #[serde(
        rename = "privateIPConfigs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::integer")]
    pub private_ip_configs: Option<i64>,
    /// Whether accelerated networking is on. If absent, it is where the machine size allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerated_networking: Option<bool>,
}
