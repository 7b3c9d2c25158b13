//! What do scale sets and their instances look like on the wire?
//!
//! These types are ARM's JSON and nothing more. Fields that are `None` are not sent, which ARM
//! reads as "unchanged"; fields we do not know are ignored. Values that ARM keeps as open text
//! (modes, tiers, storage types) are text here too. `vmss/profile.rs` has the machine's half.
//!
//! # Source
//! `Microsoft.Compute/virtualMachineScaleSets`, api-version 2024-11-01:
//! <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets>

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Failure;
use crate::id::ETag;
use crate::secret::Secret;

/// Declares a wire type of which every field is optional and is left out when it is not set.
///
/// ARM's model is some hundred such fields; the two attributes that each would need hide the
/// names, which are what a reader comes for.
macro_rules! model {
    (
        $(#[$meta:meta])*
        $name:ident { $( $(#[$field_meta:meta])* $field:ident: $type:ty, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }
    };
}

mod profile;

pub use profile::*;

model! {
    /// A scale set.
    ScaleSet {
        /// Read-only: ARM path.
        id: String,
        /// Read-only: name.
        name: String,
        /// Region. Required when creating.
        location: String,
        /// Tags.
        tags: BTreeMap<String, String>,
        /// VM size and number of instances.
        sku: Sku,
        /// Marketplace plan of the image.
        plan: Plan,
        /// Managed identities of the instances.
        identity: ManagedIdentity,
        /// Availability zones. An explicit empty list counts as a change; leave it out instead.
        zones: Vec<String>,
        /// Read-only: version, quotes included.
        etag: ETag,
        /// Everything else.
        properties: ScaleSetProperties,
    }
}

model! {
    /// VM size and number of instances.
    Sku {
        /// VM size.
        name: String,
        /// Tier, `Standard` in practice.
        tier: String,
        /// Number of instances the set should have.
        capacity: u32,
    }
}

model! {
    /// Marketplace plan of an image.
    Plan {
        /// Plan.
        name: String,
        /// Publisher.
        publisher: String,
        /// Offer.
        product: String,
    }
}

model! {
    /// Managed identities of the instances.
    ManagedIdentity {
        /// `SystemAssigned`, `UserAssigned` or both with a comma.
        #[serde(rename = "type")]
        kind: String,
        /// User-assigned identities by ARM path; the values are empty objects when sent.
        user_assigned_identities: BTreeMap<String, serde_json::Value>,
    }
}

model! {
    /// Properties of a scale set.
    ScaleSetProperties {
        /// `Uniform` or `Flexible`; fixed at creation.
        orchestration_mode: String,
        /// Whether the set is kept to one placement group of at most 100 instances.
        single_placement_group: bool,
        /// Whether Azure makes more instances than asked for and drops the slowest.
        overprovision: bool,
        /// Whether extensions wait until overprovisioning has ended.
        #[serde(rename = "doNotRunExtensionsOnOverprovisionedVMs")]
        do_not_run_extensions_on_overprovisioned_vms: bool,
        /// Fault domains per placement group; fixed at creation.
        platform_fault_domain_count: u32,
        /// Whether an uneven spread over zones is refused.
        zone_balance: bool,
        /// What Azure does to existing instances when the model changes.
        upgrade_policy: UpgradePolicy,
        /// Which instances go when capacity is lowered.
        scale_in_policy: ScaleInPolicy,
        /// Whether Azure replaces unhealthy instances by itself.
        automatic_repairs_policy: AutomaticRepairsPolicy,
        /// Whether Azure tries to bring evicted spot instances back.
        spot_restore_policy: SpotRestorePolicy,
        /// Optional hardware features.
        additional_capabilities: AdditionalCapabilities,
        /// Proximity placement group.
        proximity_placement_group: SubResource,
        /// Dedicated host group.
        host_group: SubResource,
        /// What each instance is made from.
        virtual_machine_profile: VirtualMachineProfile,
        /// Read-only: state of the set, which says nothing about the state of its instances.
        provisioning_state: String,
        /// Read-only: GUID that is never used again, unlike the name.
        unique_id: String,
        /// Read-only: when the set was created.
        #[serde(deserialize_with = "lenient_time")]
        time_created: Timestamp,
    }
}

model! {
    /// A reference by ARM path.
    SubResource {
        /// ARM path.
        id: String,
    }
}

model! {
    /// What Azure does to existing instances when the model changes.
    UpgradePolicy {
        /// `Manual`, `Automatic` or `Rolling`. A pool that is drained first must be `Manual`.
        mode: String,
    }
}

model! {
    /// Which instances go when capacity is lowered.
    ScaleInPolicy {
        /// `Default`, `NewestVM` or `OldestVM`.
        rules: Vec<String>,
        /// Whether instances are deleted without a shutdown.
        force_deletion: bool,
    }
}

model! {
    /// Whether Azure replaces unhealthy instances by itself.
    AutomaticRepairsPolicy {
        /// Whether it does.
        enabled: bool,
        /// ISO 8601 span after a state change during which it does not.
        grace_period: String,
        /// `Replace`, `Reimage` or `Restart`.
        repair_action: String,
    }
}

model! {
    /// Whether Azure tries to bring evicted spot instances back.
    SpotRestorePolicy {
        /// Whether it does.
        enabled: bool,
        /// ISO 8601 span after which it gives up.
        restore_timeout: String,
    }
}

model! {
    /// Optional hardware features.
    AdditionalCapabilities {
        /// Whether ultra disks may be attached.
        #[serde(rename = "ultraSSDEnabled")]
        ultra_ssd_enabled: bool,
        /// Whether instances can hibernate.
        hibernation_enabled: bool,
    }
}

model! {
    /// A change to part of a scale set.
    ///
    /// ARM's model for PATCH is smaller than for PUT: location, zone balance, orchestration mode,
    /// fault domains, priority, eviction policy and capacity reservation are not in it.
    ///
    /// # Source
    /// `VirtualMachineScaleSetUpdate`:
    /// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets/update>
    ScaleSetPatch {
        /// All tags there should be: the map replaces the one in place.
        tags: BTreeMap<String, String>,
        /// VM size and number of instances.
        sku: Sku,
        /// Marketplace plan.
        plan: Plan,
        /// Managed identities.
        identity: ManagedIdentity,
        /// Everything else.
        properties: ScaleSetPatchProperties,
    }
}

model! {
    /// Properties of a scale set that a PATCH can change.
    ScaleSetPatchProperties {
        /// What Azure does to existing instances when the model changes.
        upgrade_policy: UpgradePolicy,
        /// Which instances go when capacity is lowered.
        scale_in_policy: ScaleInPolicy,
        /// Whether Azure replaces unhealthy instances by itself.
        automatic_repairs_policy: AutomaticRepairsPolicy,
        /// Whether Azure makes more instances than asked for and drops the slowest.
        overprovision: bool,
        /// Only `true` to `false` is allowed.
        single_placement_group: bool,
        /// Optional hardware features.
        additional_capabilities: AdditionalCapabilities,
        /// What each instance is made from.
        virtual_machine_profile: VirtualMachineProfilePatch,
    }
}

/// Which instances to reimage, and how.
///
/// # Source
/// `VirtualMachineScaleSetReimageParameters`:
/// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets/reimage>
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reimage {
    /// The instances, one by one. May not be empty: ARM takes that for "all".
    pub instance_ids: Vec<String>,
    /// Whether the temporary disk is reset too; counts for ephemeral OS disks only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temp_disk: Option<bool>,
    /// Whether an ephemeral OS disk takes the model's image even if it has that version already.
    #[serde(
        rename = "forceUpdateOSDiskForEphemeral",
        skip_serializing_if = "Option::is_none"
    )]
    pub force_update_os_disk_for_ephemeral: Option<bool>,
    /// Bootstrap data for the reimaged instances, if it differs from what they were made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_profile: Option<ReimageOsProfile>,
}

model! {
    /// The part of the OS profile that a reimage can change.
    ReimageOsProfile {
        /// Base64; never returned.
        custom_data: Secret,
        /// Never returned.
        admin_password: Secret,
    }
}

/// An instance of a scale set.
///
/// # Source
/// `VirtualMachineScaleSetVM`, api-version 2024-11-01:
/// <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-set-vms>
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Decimal number in a Uniform set. Has gaps, and may be used again after a deletion.
    pub instance_id: String,
    /// Name, `<set>_<id>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// ARM path, in whatever case ARM likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The zone it is in, as a list of at most one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<Vec<String>>,
    /// Tags, by key; those that the set had when the instance was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    /// VM size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<Sku>,
    /// Version; that of the set at the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<ETag>,
    /// Extensions, with their state on this instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<InstanceExtension>>,
    /// Everything else.
    #[serde(default)]
    pub properties: InstanceProperties,
}

model! {
    /// An extension as it stands on one instance.
    InstanceExtension {
        /// Name.
        name: String,
        /// Its state.
        properties: InstanceExtensionProperties,
    }
}

model! {
    /// State of an extension on one instance.
    InstanceExtensionProperties {
        /// State.
        provisioning_state: String,
    }
}

model! {
    /// Properties of an instance.
    InstanceProperties {
        /// Whether the instance was made from, or updated to, the set's model as it is now.
        latest_model_applied: bool,
        /// `VirtualMachineScaleSet`, or `VirtualMachine` if changed by itself.
        model_definition_applied: String,
        /// GUID that is never used again, unlike the instance id.
        vm_id: String,
        /// State.
        provisioning_state: String,
        /// VM size.
        hardware_profile: HardwareProfile,
        /// Image and disks.
        storage_profile: StorageProfile,
        /// Names.
        os_profile: InstanceOsProfile,
        /// What the set may not do to it.
        protection_policy: ProtectionPolicy,
        /// State in detail; absent unless asked for, and while there is none.
        instance_view: InstanceView,
        /// When it was created.
        #[serde(deserialize_with = "lenient_time")]
        time_created: Timestamp,
    }
}

model! {
    /// VM size of an instance.
    HardwareProfile {
        /// VM size.
        vm_size: String,
    }
}

model! {
    /// Names of an instance.
    InstanceOsProfile {
        /// Host name; in lower case it is the node's name.
        computer_name: String,
        /// Name of the administrator.
        admin_username: String,
    }
}

model! {
    /// What a scale set may not do to an instance.
    ProtectionPolicy {
        /// Whether it may not be chosen when capacity is lowered.
        protect_from_scale_in: bool,
        /// Whether upgrades, reimages and the like pass it by.
        protect_from_scale_set_actions: bool,
    }
}

model! {
    /// State of an instance in detail.
    InstanceView {
        /// Provisioning state with its time, then power state.
        statuses: Vec<Status>,
        /// Host name as the guest reports it.
        computer_name: String,
        /// Guest agent.
        vm_agent: VmAgent,
        /// Health as reported by probe or extension.
        vm_health: VmHealth,
    }
}

model! {
    /// One status.
    Status {
        /// Such as `ProvisioningState/succeeded` or `PowerState/running`.
        code: String,
        /// `Info`, `Warning` or `Error`.
        level: String,
        /// For people.
        display_status: String,
        /// For people, in detail.
        message: String,
        /// Since when.
        #[serde(deserialize_with = "lenient_time")]
        time: Timestamp,
    }
}

model! {
    /// Guest agent.
    VmAgent {
        /// Its statuses.
        statuses: Vec<Status>,
    }
}

model! {
    /// Health as reported by probe or extension.
    VmHealth {
        /// Such as `HealthState/healthy`.
        status: Status,
    }
}

/// The state of a scale set or an instance, read without regard to case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProvisioningState {
    /// Being made.
    Creating,
    /// Being changed.
    Updating,
    /// As it should be.
    Succeeded,
    /// The last change went wrong.
    Failed,
    /// On its way out, though still listed.
    Deleting,
    /// The last change was stopped on the way.
    Canceled,
    /// Being moved by Azure.
    Migrating,
    /// Not stated, or a word we do not know.
    Unknown,
}

impl ProvisioningState {
    fn read(text: Option<&str>) -> Self {
        match text.unwrap_or_default().to_ascii_lowercase().as_str() {
            "creating" => Self::Creating,
            "updating" => Self::Updating,
            "succeeded" => Self::Succeeded,
            "failed" => Self::Failed,
            "deleting" => Self::Deleting,
            "canceled" | "cancelled" => Self::Canceled,
            "migrating" => Self::Migrating,
            _ => Self::Unknown,
        }
    }

    /// Says whether Azure is at work on it.
    pub fn is_busy(self) -> bool {
        match self {
            Self::Creating | Self::Updating | Self::Deleting | Self::Migrating => true,
            Self::Succeeded | Self::Failed | Self::Canceled | Self::Unknown => false,
        }
    }
}

/// Whether an instance runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PowerState {
    /// Coming up.
    Starting,
    /// Running.
    Running,
    /// Shutting down.
    Stopping,
    /// Shut down, but still holding its hardware.
    Stopped,
    /// Giving its hardware back.
    Deallocating,
    /// Without hardware.
    Deallocated,
    /// Not stated, as while an instance is being made, or a word we do not know.
    Unknown,
}

impl ScaleSet {
    /// Returns the state of the set. It says nothing about the state of its instances.
    pub fn provisioning_state(&self) -> ProvisioningState {
        let properties = self.properties.as_ref();
        ProvisioningState::read(properties.and_then(|p| p.provisioning_state.as_deref()))
    }

    /// Returns the number of instances the set should have; zero if not stated.
    ///
    /// Deletes lower it, and while the set is `Updating` it is not final.
    pub fn capacity(&self) -> u32 {
        self.sku.as_ref().and_then(|sku| sku.capacity).unwrap_or(0)
    }

    /// Returns what instances are made from.
    pub fn virtual_machine_profile(&self) -> Option<&VirtualMachineProfile> {
        self.properties.as_ref()?.virtual_machine_profile.as_ref()
    }

    pub(crate) fn secrets(&self) -> Vec<Secret> {
        self.virtual_machine_profile()
            .map(VirtualMachineProfile::secrets)
            .unwrap_or_default()
    }
}

impl ScaleSetPatch {
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let profile = self
            .properties
            .as_ref()
            .and_then(|p| p.virtual_machine_profile.as_ref());
        profile
            .map(VirtualMachineProfilePatch::secrets)
            .unwrap_or_default()
    }
}

impl Reimage {
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let Some(ReimageOsProfile {
            custom_data,
            admin_password,
        }) = &self.os_profile
        else {
            return Vec::new();
        };
        custom_data.iter().chain(admin_password).cloned().collect()
    }
}

impl Instance {
    /// Returns the state of the instance.
    pub fn provisioning_state(&self) -> ProvisioningState {
        ProvisioningState::read(self.properties.provisioning_state.as_deref())
    }

    /// Returns whether the instance runs, as far as its instance view says.
    pub fn power_state(&self) -> PowerState {
        let state = self
            .statuses()
            .find_map(|status| suffix(status, "powerstate/"));
        match state.as_deref() {
            Some("starting") => PowerState::Starting,
            Some("running") => PowerState::Running,
            Some("stopping") => PowerState::Stopping,
            Some("stopped") => PowerState::Stopped,
            Some("deallocating") => PowerState::Deallocating,
            Some("deallocated") => PowerState::Deallocated,
            Some(_) | None => PowerState::Unknown,
        }
    }

    /// Returns why the instance failed; `None` unless its state is `Failed`.
    ///
    /// Some failures, such as an allocation that came to nothing, are told here and nowhere else.
    pub fn failure(&self) -> Option<Failure> {
        if self.provisioning_state() != ProvisioningState::Failed {
            return None;
        }
        let prefix = "provisioningstate/failed";
        let status = self
            .statuses()
            .find(|status| suffix(status, prefix).is_some());
        let code = status.and_then(|status| status.code.as_deref()?.splitn(3, '/').nth(2));
        let message = status.and_then(|s| s.message.clone().or_else(|| s.display_status.clone()));
        Some(Failure {
            code: code
                .filter(|code| !code.is_empty())
                .unwrap_or("Failed")
                .to_owned(),
            message: message.unwrap_or_else(|| "Azure gave no reason".to_owned()),
        })
    }

    /// Says whether the instance has the set's model as it is now; not stated counts as no.
    pub fn has_latest_model(&self) -> bool {
        self.properties.latest_model_applied.unwrap_or(false)
    }

    /// Returns the zone, if it is in one.
    pub fn zone(&self) -> Option<&str> {
        self.zones.as_ref()?.first().map(String::as_str)
    }

    /// Returns the host name, which in lower case is the node's name.
    pub fn computer_name(&self) -> Option<&str> {
        self.properties
            .os_profile
            .as_ref()?
            .computer_name
            .as_deref()
    }

    /// Sorts decimal ids by number and leaves other ids in a fixed order.
    pub(crate) fn order_key(&self) -> (usize, String) {
        (self.instance_id.len(), self.instance_id.clone())
    }

    fn statuses(&self) -> impl Iterator<Item = &Status> {
        self.properties
            .instance_view
            .iter()
            .flat_map(|view| view.statuses.iter().flatten())
    }
}

/// Returns the rest of a status code after a prefix, in lower case.
fn suffix(status: &Status, lower_case_prefix: &str) -> Option<String> {
    let code = status.code.as_deref()?.to_ascii_lowercase();
    code.strip_prefix(lower_case_prefix).map(str::to_owned)
}

/// Reads a time, or nothing where there is none to read: no instance is worth losing over it.
fn lenient_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(json: &str) -> Instance {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn states_are_read_in_any_case_and_unknown_ones_are_no_error() {
        let rows = [
            ("Succeeded", ProvisioningState::Succeeded),
            ("DELETING", ProvisioningState::Deleting),
            ("cancelled", ProvisioningState::Canceled),
            ("Rebalancing", ProvisioningState::Unknown),
        ];
        for (text, state) in rows {
            let json =
                format!(r#"{{"instanceId":"0","properties":{{"provisioningState":"{text}"}}}}"#);
            assert_eq!(instance(&json).provisioning_state(), state, "{text}");
        }
        let bare = instance(r#"{"instanceId":"0"}"#);
        assert_eq!(bare.provisioning_state(), ProvisioningState::Unknown);
        assert_eq!(bare.power_state(), PowerState::Unknown);
    }

    #[test]
    fn a_failed_instance_tells_its_code() {
        let failed = instance(
            r#"{"instanceId":"4","properties":{"provisioningState":"Failed","instanceView":{
                "statuses":[{"code":"ProvisioningState/failed/AllocationFailed",
                             "message":"No capacity.","time":"2026-11-30T10:00:00.1234567+00:00"},
                            {"code":"PowerState/stopped"}]}}}"#,
        );
        let failure = failed.failure().unwrap();
        assert_eq!(
            (failure.code.as_str(), failure.message.as_str()),
            ("AllocationFailed", "No capacity.")
        );
        assert_eq!(failed.power_state(), PowerState::Stopped);
        let silent = instance(r#"{"instanceId":"4","properties":{"provisioningState":"failed"}}"#);
        assert_eq!(silent.failure().unwrap().code, "Failed");
        let well = instance(r#"{"instanceId":"4","properties":{"provisioningState":"Updating"}}"#);
        assert_eq!(well.failure(), None);
    }

    #[test]
    fn an_odd_time_costs_the_time_and_not_the_instance() {
        let odd = instance(r#"{"instanceId":"1","properties":{"timeCreated":"yesterday"}}"#);
        assert_eq!(odd.properties.time_created, None);
        let good = instance(
            r#"{"instanceId":"1","properties":{"timeCreated":"2026-11-30T10:00:01.000+00:00"}}"#,
        );
        assert_eq!(
            good.properties.time_created,
            Some("2026-11-30T10:00:01Z".parse().unwrap())
        );
    }

    #[test]
    fn what_is_not_set_is_not_sent() {
        let capacity_only = ScaleSet {
            location: Some("westeurope".to_owned()),
            sku: Some(Sku {
                capacity: Some(4),
                ..Sku::default()
            }),
            ..ScaleSet::default()
        };
        assert_eq!(
            serde_json::to_string(&capacity_only).unwrap(),
            r#"{"location":"westeurope","sku":{"capacity":4}}"#
        );
    }
}
