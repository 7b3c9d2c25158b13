//! What is a pool called in Azure, and what are its machines?

use sha2::{Digest, Sha256};
use weir_api::AzureMachinePool;

use super::ModelError;

/// The longest name of a scale set.
const NAME_MAX: usize = 64;

/// The longest name of a Windows pool that is kept as it is: a host name of Windows has at most 15
/// characters, and Azure puts 6 behind the prefix.
const WINDOWS_PREFIX_MAX: usize = 9;

/// The longest prefix of Linux host names: 64 characters, less the 6 that Azure puts behind it.
///
/// The REST reference says 15 for both systems. Azure takes 58 for Linux, CAPZ relies on it, and
/// the prefix of a set that exists cannot be changed, so a shorter limit would strand pools.
///
/// # Source
/// The azurerm provider's documentation of `computer_name_prefix`.
const LINUX_PREFIX_MAX: usize = 58;

/// Says whether the machines run Windows.
pub(super) fn is_windows(pool: &AzureMachinePool) -> bool {
    pool.spec
        .template
        .os_disk
        .os_type
        .eq_ignore_ascii_case("Windows")
}

/// Returns the name of the scale set: the pool's, or for Windows a short one that ends alike.
///
/// # Source
/// CAPZ `69ec3a40`, azure/scope/machinepool.go, `MachinePoolScope.Name`.
pub(super) fn scale_set_name(pool: &AzureMachinePool) -> Result<String, ModelError> {
    let name = pool.metadata.name.clone().unwrap_or_default();
    if is_windows(pool) && name.len() > WINDOWS_PREFIX_MAX && name.is_ascii() {
        return Ok(format!("win-{}", &name[name.len() - 5..]));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_allowed) {
        return Err(ModelError::Name { name });
    }
    Ok(name)
}

/// Returns what the host names of the machines begin with: the name of the scale set.
///
/// One that is too long is cut and ends with a digest of the whole, so that two pools that begin
/// alike don't make two machines of one name.
pub(super) fn computer_name_prefix(pool: &AzureMachinePool) -> Result<String, ModelError> {
    let name = scale_set_name(pool)?;
    let max = if is_windows(pool) {
        WINDOWS_PREFIX_MAX
    } else {
        LINUX_PREFIX_MAX
    };
    if name.len() <= max {
        return Ok(name);
    }
    let digest = Sha256::digest(name.as_bytes());
    let tail = format!("-{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2]);
    Ok(format!("{}{tail}", &name[..max - tail.len()]))
}
