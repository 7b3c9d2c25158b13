//! What is each instance made from: disks, image, network, OS settings?
//!
//! # Source
//! `VirtualMachineScaleSetVMProfile`, api-version 2024-11-01:
//! <https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets/create-or-update>

use serde_json::Value;

use super::SubResource;
use crate::secret::Secret;

model! {
    /// What each instance is made from.
    VirtualMachineProfile {
        /// Names, bootstrap data, access.
        os_profile: OsProfile,
        /// Image and disks.
        storage_profile: StorageProfile,
        /// Network interfaces.
        network_profile: NetworkProfile,
        /// Security type, encryption at host.
        security_profile: SecurityProfile,
        /// Boot diagnostics.
        diagnostics_profile: DiagnosticsProfile,
        /// Extensions.
        extension_profile: ExtensionProfile,
        /// Terminate notification.
        scheduled_events_profile: ScheduledEventsProfile,
        /// Licence brought along.
        license_type: String,
        /// `Regular` or `Spot`; fixed at creation.
        priority: String,
        /// `Deallocate` or `Delete`, for spot; fixed at creation.
        eviction_policy: String,
        /// Highest price, for spot.
        billing_profile: BillingProfile,
        /// Capacity reservation group.
        capacity_reservation: CapacityReservationProfile,
        /// Base64. Returned only when asked for by name, and may hold secrets.
        user_data: Secret,
    }
}

model! {
    /// What a PATCH can change about the machines.
    VirtualMachineProfilePatch {
        /// Bootstrap data and access. Reaches new instances, and existing ones by reimage only.
        os_profile: OsProfilePatch,
        /// Image and disks.
        storage_profile: StorageProfile,
        /// Network interfaces.
        network_profile: NetworkProfile,
        /// Security type, encryption at host.
        security_profile: SecurityProfile,
        /// Boot diagnostics.
        diagnostics_profile: DiagnosticsProfile,
        /// Extensions.
        extension_profile: ExtensionProfile,
        /// Terminate notification.
        scheduled_events_profile: ScheduledEventsProfile,
        /// Licence brought along.
        license_type: String,
        /// Highest price, for spot.
        billing_profile: BillingProfile,
        /// Base64. May hold secrets.
        user_data: Secret,
    }
}

model! {
    /// Names, bootstrap data, access.
    OsProfile {
        /// Host names start with it: 1 to 15 characters, 9 for Windows.
        computer_name_prefix: String,
        /// Name of the administrator.
        admin_username: String,
        /// Never returned.
        admin_password: Secret,
        /// Base64 of at most 65,535 bytes; never returned.
        custom_data: Secret,
        /// Linux settings.
        linux_configuration: LinuxConfiguration,
        /// Windows settings.
        windows_configuration: WindowsConfiguration,
    }
}

model! {
    /// What a PATCH can change of the OS profile.
    OsProfilePatch {
        /// Base64 of at most 65,535 bytes; never returned.
        custom_data: Secret,
        /// Linux settings.
        linux_configuration: LinuxConfiguration,
        /// Windows settings.
        windows_configuration: WindowsConfiguration,
    }
}

model! {
    /// Linux settings.
    LinuxConfiguration {
        /// Whether SSH takes keys only.
        disable_password_authentication: bool,
        /// SSH keys.
        ssh: SshConfiguration,
        /// Whether the guest agent is installed.
        #[serde(rename = "provisionVMAgent")]
        provision_vm_agent: bool,
    }
}

model! {
    /// SSH keys.
    SshConfiguration {
        /// Public keys.
        public_keys: Vec<SshPublicKey>,
    }
}

model! {
    /// A public key.
    SshPublicKey {
        /// File it is written to.
        path: String,
        /// The key, in OpenSSH form.
        key_data: String,
    }
}

model! {
    /// Windows settings.
    WindowsConfiguration {
        /// Whether Windows updates itself.
        enable_automatic_updates: bool,
        /// Whether the guest agent is installed.
        #[serde(rename = "provisionVMAgent")]
        provision_vm_agent: bool,
    }
}

model! {
    /// Image and disks.
    StorageProfile {
        /// Image of the OS disk.
        image_reference: ImageReference,
        /// OS disk.
        os_disk: OsDisk,
        /// Data disks; the list replaces the one in place.
        data_disks: Vec<DataDisk>,
        /// `SCSI` or `NVMe`.
        disk_controller_type: String,
    }
}

model! {
    /// An image, in exactly one of four shapes.
    ImageReference {
        /// Marketplace: publisher.
        publisher: String,
        /// Marketplace: offer.
        offer: String,
        /// Marketplace: SKU.
        sku: String,
        /// Marketplace: version, or `latest`.
        version: String,
        /// Managed image or version in a gallery of one's own, by ARM path.
        id: String,
        /// Version in a community gallery.
        community_gallery_image_id: String,
        /// Version in a shared gallery.
        shared_gallery_image_id: String,
        /// Read-only: what `latest` came to.
        exact_version: String,
    }
}

model! {
    /// OS disk.
    OsDisk {
        /// `FromImage` in practice. Not part of a PATCH.
        create_option: String,
        /// `Linux` or `Windows`. Not part of a PATCH.
        os_type: String,
        /// Name, of an instance's disk only.
        name: String,
        /// Size in GiB.
        #[serde(rename = "diskSizeGB")]
        disk_size_gb: u32,
        /// `None`, `ReadOnly` or `ReadWrite`.
        caching: String,
        /// Whether and where the disk is ephemeral.
        diff_disk_settings: DiffDiskSettings,
        /// Storage type and encryption.
        managed_disk: ManagedDisk,
    }
}

model! {
    /// Whether and where a disk is ephemeral.
    DiffDiskSettings {
        /// `Local`.
        option: String,
        /// `CacheDisk`, `ResourceDisk` or `NvmeDisk`.
        placement: String,
    }
}

model! {
    /// Storage type and encryption of a disk.
    ManagedDisk {
        /// Such as `Premium_LRS`.
        storage_account_type: String,
        /// Customer's key.
        disk_encryption_set: SubResource,
        /// Encryption of confidential machines.
        security_profile: DiskSecurityProfile,
    }
}

model! {
    /// Encryption of a confidential machine's disk.
    DiskSecurityProfile {
        /// `DiskWithVMGuestState` or `VMGuestStateOnly`.
        security_encryption_type: String,
        /// Customer's key.
        disk_encryption_set: SubResource,
    }
}

model! {
    /// Data disk.
    DataDisk {
        /// Logical unit number, which tells disks apart.
        lun: u32,
        /// `Empty` or `FromImage`.
        create_option: String,
        /// Name.
        name: String,
        /// Size in GiB.
        #[serde(rename = "diskSizeGB")]
        disk_size_gb: u32,
        /// `None`, `ReadOnly` or `ReadWrite`.
        caching: String,
        /// Storage type and encryption.
        managed_disk: ManagedDisk,
    }
}

model! {
    /// Network interfaces.
    NetworkProfile {
        /// Required in Flexible sets.
        network_api_version: String,
        /// Interfaces; the list replaces the one in place.
        network_interface_configurations: Vec<NetworkInterfaceConfiguration>,
    }
}

model! {
    /// A network interface.
    NetworkInterfaceConfiguration {
        /// Name.
        name: String,
        /// Everything else.
        properties: NetworkInterfaceProperties,
    }
}

model! {
    /// Properties of a network interface.
    NetworkInterfaceProperties {
        /// Whether it is the primary one.
        primary: bool,
        /// Whether accelerated networking is on.
        enable_accelerated_networking: bool,
        /// Whether packets for others are let through.
        #[serde(rename = "enableIPForwarding")]
        enable_ip_forwarding: bool,
        /// Network security group.
        network_security_group: SubResource,
        /// Addresses.
        ip_configurations: Vec<IpConfiguration>,
    }
}

model! {
    /// An address of a network interface.
    IpConfiguration {
        /// Name.
        name: String,
        /// Everything else.
        properties: IpConfigurationProperties,
    }
}

model! {
    /// Properties of an address.
    IpConfigurationProperties {
        /// Whether it is the primary one.
        primary: bool,
        /// `IPv4` or `IPv6`.
        #[serde(rename = "privateIPAddressVersion")]
        private_ip_address_version: String,
        /// Subnet.
        subnet: SubResource,
        /// Back-end pools of load balancers.
        load_balancer_backend_address_pools: Vec<SubResource>,
        /// Application security groups.
        application_security_groups: Vec<SubResource>,
    }
}

model! {
    /// Security type, encryption at host.
    SecurityProfile {
        /// Whether disks and caches are encrypted on the host.
        encryption_at_host: bool,
        /// `TrustedLaunch` or `ConfidentialVM`.
        security_type: String,
        /// Secure boot, virtual TPM.
        uefi_settings: UefiSettings,
    }
}

model! {
    /// Secure boot, virtual TPM.
    UefiSettings {
        /// Secure boot.
        secure_boot_enabled: bool,
        /// Virtual TPM.
        v_tpm_enabled: bool,
    }
}

model! {
    /// Diagnostics.
    DiagnosticsProfile {
        /// Boot diagnostics.
        boot_diagnostics: BootDiagnostics,
    }
}

model! {
    /// Boot diagnostics.
    BootDiagnostics {
        /// Whether they are kept.
        enabled: bool,
        /// Storage account; Azure's own when left out.
        storage_uri: String,
    }
}

model! {
    /// Extensions.
    ExtensionProfile {
        /// Extensions; the list replaces the one in place.
        extensions: Vec<Extension>,
        /// ISO 8601 span in which all must be done.
        extensions_time_budget: String,
    }
}

model! {
    /// An extension.
    Extension {
        /// Name.
        name: String,
        /// Everything else.
        properties: ExtensionProperties,
    }
}

model! {
    /// Properties of an extension.
    ExtensionProperties {
        /// Publisher.
        publisher: String,
        /// Type.
        #[serde(rename = "type")]
        kind: String,
        /// Version.
        type_handler_version: String,
        /// Whether Azure may pick a newer minor version.
        auto_upgrade_minor_version: bool,
        /// Settings, an object.
        settings: Value,
        /// Settings that are never returned, an object.
        protected_settings: Secret<Value>,
        /// Names of extensions that come first.
        provision_after_extensions: Vec<String>,
    }
}

model! {
    /// Notices before things happen.
    ScheduledEventsProfile {
        /// Notice before deletion.
        terminate_notification_profile: TerminateNotificationProfile,
    }
}

model! {
    /// Notice before deletion.
    TerminateNotificationProfile {
        /// Whether there is one.
        enable: bool,
        /// ISO 8601 span, `PT5M` to `PT15M`.
        not_before_timeout: String,
    }
}

model! {
    /// Highest price, for spot.
    BillingProfile {
        /// US dollars an hour; -1 is the regular price.
        max_price: f64,
    }
}

model! {
    /// Capacity reservation.
    CapacityReservationProfile {
        /// Its group.
        capacity_reservation_group: SubResource,
    }
}

impl VirtualMachineProfile {
    /// Returns every secret in it, so that none comes back in an error message.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let os = self.os_profile.iter();
        let mut secrets: Vec<Secret> = os
            .flat_map(|os| os.custom_data.iter().chain(&os.admin_password))
            .chain(&self.user_data)
            .cloned()
            .collect();
        secrets.extend(protected(self.extension_profile.as_ref()));
        secrets
    }
}

impl VirtualMachineProfilePatch {
    /// Returns every secret in it, so that none comes back in an error message.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let os = self.os_profile.iter();
        let mut secrets: Vec<Secret> = os
            .flat_map(|os| &os.custom_data)
            .chain(&self.user_data)
            .cloned()
            .collect();
        secrets.extend(protected(self.extension_profile.as_ref()));
        secrets
    }
}

fn protected(profile: Option<&ExtensionProfile>) -> Vec<Secret> {
    let mut secrets = Vec::new();
    let extensions = profile.and_then(|profile| profile.extensions.as_ref());
    for extension in extensions.into_iter().flatten() {
        let settings = extension
            .properties
            .as_ref()
            .and_then(|p| p.protected_settings.as_ref());
        if let Some(settings) = settings {
            // Exposed only to collect what must not be shown.
            collect_texts(settings.expose(), &mut secrets);
        }
    }
    secrets
}

fn collect_texts(value: &Value, into: &mut Vec<Secret>) {
    match value {
        Value::String(text) => into.push(text.as_str().into()),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, into)),
        Value::Object(fields) => fields.values().for_each(|item| collect_texts(item, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
