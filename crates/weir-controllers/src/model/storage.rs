//! Which disks does each machine have?

use std::collections::BTreeSet;

use weir_api::{
    AzureMachinePool, CachingType, DataDisk, DiffDiskOption, DiffDiskPlacement, DiffDiskSettings,
    DiskEncryptionSet, Image, ManagedDisk, SecurityEncryptionType,
};
use weir_azure::vmss::{self, StorageProfile, SubResource};

use super::name::{is_windows, scale_set_name};
use super::{ModelError, error, image};

/// The highest number that a data disk can have.
const LUN_MAX: u32 = 63;

/// The largest disk that Azure has, in GB.
const DISK_GB_MAX: u32 = 65_536;

/// Says whether a data disk is an ultra disk.
pub(super) fn is_ultra(disk: &DataDisk) -> bool {
    let kind = disk
        .managed_disk
        .as_ref()
        .and_then(|disk| disk.storage_account_type.as_deref());
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("UltraSSD_LRS"))
}

/// Returns image and disks. No data disk is an empty list, which takes away those that there were.
pub(super) fn storage_profile(
    pool: &AzureMachinePool,
    image: &Image,
) -> Result<StorageProfile, ModelError> {
    Ok(StorageProfile {
        image_reference: Some(image::reference(image)),
        os_disk: Some(os_disk(pool)?),
        data_disks: Some(data_disks(pool)?),
        ..StorageProfile::default()
    })
}

fn os_disk(pool: &AzureMachinePool) -> Result<vmss::OsDisk, ModelError> {
    let disk = &pool.spec.template.os_disk;
    let disk_size_gb = match disk.disk_size_gb {
        Some(size) => {
            let field = "spec.template.osDisk.diskSizeGB";
            Some(error::count(field, size.into(), 1, DISK_GB_MAX)?)
        }
        None => None,
    };
    Ok(vmss::OsDisk {
        create_option: Some("FromImage".to_owned()),
        os_type: Some(if is_windows(pool) { "Windows" } else { "Linux" }.to_owned()),
        name: None,
        disk_size_gb,
        caching: Some(caching(disk.caching_type)),
        diff_disk_settings: disk.diff_disk_settings.as_ref().map(diff_disk_settings),
        managed_disk: disk.managed_disk.as_ref().map(managed_disk),
    })
}

fn caching(kind: CachingType) -> String {
    match kind {
        CachingType::None => "None",
        CachingType::ReadOnly => "ReadOnly",
        CachingType::ReadWrite => "ReadWrite",
    }
    .to_owned()
}

fn diff_disk_settings(settings: &DiffDiskSettings) -> vmss::DiffDiskSettings {
    let DiffDiskSettings { option, placement } = settings;
    let option = match option {
        DiffDiskOption::Local => "Local",
    };
    let placement = placement.map(|place| match place {
        DiffDiskPlacement::CacheDisk => "CacheDisk",
        DiffDiskPlacement::NvmeDisk => "NvmeDisk",
        DiffDiskPlacement::ResourceDisk => "ResourceDisk",
    });
    vmss::DiffDiskSettings {
        option: Some(option.to_owned()),
        placement: placement.map(str::to_owned),
    }
}

fn managed_disk(disk: &ManagedDisk) -> vmss::ManagedDisk {
    let ManagedDisk {
        storage_account_type,
        disk_encryption_set,
        security_profile,
    } = disk;
    vmss::ManagedDisk {
        storage_account_type: storage_account_type.clone().filter(|kind| !kind.is_empty()),
        disk_encryption_set: disk_encryption_set.as_ref().and_then(encryption_set),
        security_profile: security_profile.as_ref().map(|profile| {
            let kind = profile.security_encryption_type.map(|kind| match kind {
                SecurityEncryptionType::VmGuestStateOnly => "VMGuestStateOnly",
                SecurityEncryptionType::DiskWithVmGuestState => "DiskWithVMGuestState",
            });
            vmss::DiskSecurityProfile {
                security_encryption_type: kind.map(str::to_owned),
                disk_encryption_set: profile
                    .disk_encryption_set
                    .as_ref()
                    .and_then(encryption_set),
            }
        }),
    }
}

fn encryption_set(set: &DiskEncryptionSet) -> Option<SubResource> {
    let id = set.id.as_deref().filter(|id| !id.is_empty())?;
    Some(SubResource {
        id: Some(super::arm_id(id)),
    })
}

fn data_disks(pool: &AzureMachinePool) -> Result<Vec<vmss::DataDisk>, ModelError> {
    let disks = &pool.spec.template.data_disks;
    let name = scale_set_name(pool)?;
    let luns = luns(disks)?;
    let mut found = Vec::new();
    for (disk, lun) in disks.iter().zip(luns) {
        let DataDisk {
            name_suffix,
            disk_size_gb,
            managed_disk: kind,
            lun: _,
            caching_type,
        } = disk;
        let field = "spec.template.dataDisks.diskSizeGB";
        found.push(vmss::DataDisk {
            lun: Some(lun),
            create_option: Some("Empty".to_owned()),
            name: Some(format!("{name}_{name_suffix}")),
            disk_size_gb: Some(error::count(field, (*disk_size_gb).into(), 1, DISK_GB_MAX)?),
            // CAPZ drops it. Left open it stays so, which Azure reads as None.
            caching: caching_type.map(caching),
            managed_disk: kind.as_ref().map(managed_disk),
        });
    }
    Ok(found)
}

/// Returns the number of each disk: its own, or the lowest that no disk has taken.
fn luns(disks: &[DataDisk]) -> Result<Vec<u32>, ModelError> {
    let field = "spec.template.dataDisks.lun";
    let mut taken = BTreeSet::new();
    for given in disks.iter().filter_map(|disk| disk.lun) {
        let lun = error::count(field, given.into(), 0, LUN_MAX)?;
        if !taken.insert(lun) {
            return Err(ModelError::Lun { lun });
        }
    }
    let mut luns = Vec::new();
    for disk in disks {
        let lun = match disk.lun {
            Some(given) => error::count(field, given.into(), 0, LUN_MAX)?,
            None => {
                let free = (0..)
                    .find(|lun| !taken.contains(lun))
                    .unwrap_or(LUN_MAX + 1);
                taken.insert(free);
                error::count(field, free.into(), 0, LUN_MAX)?
            }
        };
        luns.push(lun);
    }
    Ok(luns)
}
