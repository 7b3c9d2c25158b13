//! What does the machine size decide that the spec leaves open?

use weir_azure::VmSize;

use super::{ModelError, Wanted, machine};

/// Fills in what depends on the machine size, and refuses what the size cannot do.
///
/// The revision stays as it is: the size is part of it, and what follows from the size adds
/// nothing. So a turn in which the sizes could not be read sees the same revision.
///
/// # Errors
/// [`ModelError::Size`] if the size lacks an ephemeral OS disk or encryption at host and the pool
/// asks for it. A size that doesn't state a capability is taken at the pool's word.
pub fn fit_to_size(mut wanted: Wanted, size: &VmSize) -> Result<Wanted, ModelError> {
    let properties = wanted.scale_set.properties.as_mut();
    let Some(profile) = properties.and_then(|p| p.virtual_machine_profile.as_mut()) else {
        return Ok(wanted);
    };
    let is_denied = |capability: &str| {
        size.capabilities
            .get(capability)
            .is_some_and(|value| value.eq_ignore_ascii_case("false"))
    };
    let lacks = |feature, or| ModelError::Size {
        vm_size: size.name.clone(),
        feature,
        or,
    };
    let disk = profile
        .storage_profile
        .as_ref()
        .and_then(|storage| storage.os_disk.as_ref());
    let is_ephemeral = disk.is_some_and(|disk| disk.diff_disk_settings.is_some());
    if is_ephemeral && is_denied("EphemeralOSDiskSupported") {
        return Err(lacks(
            "ephemeral OS disk",
            "leave out spec.template.osDisk.diffDiskSettings",
        ));
    }
    let encrypts = profile
        .security_profile
        .as_ref()
        .and_then(|p| p.encryption_at_host);
    if encrypts == Some(true) && is_denied("EncryptionAtHostSupported") {
        let or = "leave out spec.template.securityProfile.encryptionAtHost";
        return Err(lacks("encryption at host", or));
    }
    if let Some(network) = &mut profile.network_profile {
        let accelerated = size.can("AcceleratedNetworkingEnabled");
        let interfaces = network
            .network_interface_configurations
            .iter_mut()
            .flatten();
        for properties in interfaces.filter_map(|interface| interface.properties.as_mut()) {
            properties
                .enable_accelerated_networking
                .get_or_insert(accelerated);
        }
    }
    let architecture = size.capabilities.get("CpuArchitectureType");
    if architecture.is_some_and(|kind| kind.eq_ignore_ascii_case("Arm64")) {
        machine::use_arm64_extension(profile);
    }
    Ok(wanted)
}
