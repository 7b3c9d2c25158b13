//! What is each machine like, apart from its disks and its network?

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use weir_api::azure::AzureCluster;
use weir_api::{
    AzureMachinePool, BootDiagnosticsStorage, IntOrString, SecurityType, SpotEvictionPolicy,
    VmExtension,
};
use weir_azure::Secret;
use weir_azure::vmss::{
    BillingProfile, BootDiagnostics, DiagnosticsProfile, Extension, ExtensionProfile,
    ExtensionProperties, LinuxConfiguration, OsProfile, ScheduledEventsProfile, SecurityProfile,
    SshConfiguration, SshPublicKey, TerminateNotificationProfile, UefiSettings,
    VirtualMachineProfile, WindowsConfiguration,
};

use super::name::{computer_name_prefix, is_windows};
use super::{BootstrapData, ModelError, error};

/// Name of the administrator.
const ADMINISTRATOR: &str = "capi";

/// The only cloud that has the extension which reports on the bootstrap.
const PUBLIC_CLOUD: &str = "AzurePublicCloud";

/// Publisher of the extension which reports on the bootstrap.
const BOOTSTRAP_EXTENSION_PUBLISHER: &str = "Microsoft.Azure.ContainerUpstream";

/// Names, which are also the types, of the extension which reports on the bootstrap.
const BOOTSTRAP_EXTENSION_LINUX: &str = "CAPZ.Linux.Bootstrapping";
const BOOTSTRAP_EXTENSION_WINDOWS: &str = "CAPZ.Windows.Bootstrapping";

/// What the extension runs: it waits five minutes for the file by which, in Cluster API, a machine
/// says that its bootstrap is done.
///
/// The text is part of every revision of a pool that uses the extension: changing it replaces all
/// machines of those pools.
const BOOTSTRAP_CHECK_LINUX: &str = "timeout 300 sh -c \
    'until test -f /run/cluster-api/bootstrap-success.complete; do sleep 5; done' || \
    { echo 'no node within 5 minutes: see /var/log/cloud-init-output.log'; exit 1; }";
const BOOTSTRAP_CHECK_WINDOWS: &str = "powershell.exe -Command \"$end = (Get-Date).AddMinutes(5); \
    while ((Get-Date) -lt $end) { \
    if (Test-Path '/run/cluster-api/bootstrap-success.complete') { exit 0 }; Start-Sleep 5 }; \
    exit 1\"";

/// Returns names, bootstrap data and access.
pub(super) fn os_profile(
    pool: &AzureMachinePool,
    custom_data: Secret,
    bootstrap: &BootstrapData,
) -> Result<OsProfile, ModelError> {
    let common = OsProfile {
        computer_name_prefix: Some(computer_name_prefix(pool)?),
        admin_username: Some(ADMINISTRATOR.to_owned()),
        custom_data: Some(custom_data),
        ..OsProfile::default()
    };
    let key_data = ssh_key(pool)?;
    if is_windows(pool) {
        return Ok(OsProfile {
            admin_password: Some(first_password(pool, bootstrap)),
            windows_configuration: Some(WindowsConfiguration {
                enable_automatic_updates: Some(false),
                ..WindowsConfiguration::default()
            }),
            ..common
        });
    }
    let key = SshPublicKey {
        path: Some(format!("/home/{ADMINISTRATOR}/.ssh/authorized_keys")),
        key_data: Some(key_data),
    };
    Ok(OsProfile {
        linux_configuration: Some(LinuxConfiguration {
            disable_password_authentication: Some(true),
            ssh: Some(SshConfiguration {
                public_keys: Some(vec![key]),
            }),
            ..LinuxConfiguration::default()
        }),
        ..common
    })
}

fn ssh_key(pool: &AzureMachinePool) -> Result<String, ModelError> {
    let encoded = pool
        .spec
        .template
        .ssh_public_key
        .as_deref()
        .unwrap_or_default();
    if encoded.trim().is_empty() {
        return Ok(nobodys_key());
    }
    // Line breaks are what `base64` without -w0 leaves in a manifest.
    let compact: String = encoded.split_whitespace().collect();
    let decoded = BASE64
        .decode(compact)
        .map_err(|_| ModelError::SshPublicKey)?;
    let text = String::from_utf8(decoded).map_err(|_| ModelError::SshPublicKey)?;
    // Kind, key, and perhaps a comment. More lines would be more keys than anybody meant.
    let looks_like_a_key = text.split_whitespace().count() >= 2 && text.trim().lines().count() == 1;
    if looks_like_a_key {
        Ok(text)
    } else {
        Err(ModelError::SshPublicKey)
    }
}

/// Returns a public key to which nobody has the private one.
///
/// Azure wants a key for Linux. This one is an ed25519 key whose 32 bytes are the digest of a text:
/// to find a private key for it is as hard as to break ed25519. Being the same each time, it makes
/// no new revision.
fn nobodys_key() -> String {
    let kind = b"ssh-ed25519";
    let point = Sha256::digest(b"weir: no private key belongs to this public key");
    let mut wire = Vec::new();
    for part in [kind.as_slice(), point.as_slice()] {
        let length = u32::try_from(part.len()).expect("both parts are shorter than 33 bytes");
        wire.extend(length.to_be_bytes());
        wire.extend(part);
    }
    format!("ssh-ed25519 {} nobody", BASE64.encode(wire))
}

/// Returns the password that Windows starts with; Cloudbase-Init sets another at the first boot.
///
/// It is made from the bootstrap data, which is as secret, so that no source of randomness is
/// needed. The first characters see to the kinds of characters that Azure asks for.
fn first_password(pool: &AzureMachinePool, bootstrap: &BootstrapData) -> Secret {
    let mut digest = Sha256::new();
    digest.update(b"weir: first password of the administrator\0");
    digest.update(pool.metadata.uid.as_deref().unwrap_or_default());
    digest.update(b"\0");
    digest.update(&bootstrap.data);
    Secret::new(format!("Wr0-{:x}", digest.finalize()))
}

/// Returns encryption and trusted start.
pub(super) fn security_profile(pool: &AzureMachinePool) -> Option<SecurityProfile> {
    let profile = pool.spec.template.security_profile.as_ref()?;
    let weir_api::SecurityProfile {
        encryption_at_host,
        security_type,
        uefi_settings,
    } = profile;
    let security_type = security_type.map(|kind| match kind {
        SecurityType::ConfidentialVm => "ConfidentialVM",
        SecurityType::TrustedLaunch => "TrustedLaunch",
    });
    Some(SecurityProfile {
        encryption_at_host: *encryption_at_host,
        security_type: security_type.map(str::to_owned),
        uefi_settings: uefi_settings.as_ref().map(|settings| UefiSettings {
            secure_boot_enabled: settings.secure_boot_enabled,
            v_tpm_enabled: settings.v_tpm_enabled,
        }),
    })
}

/// Returns boot diagnostics; they are on, in storage of Azure's, unless the user says otherwise.
pub(super) fn diagnostics_profile(pool: &AzureMachinePool) -> DiagnosticsProfile {
    let boot = pool
        .spec
        .template
        .diagnostics
        .as_ref()
        .and_then(|given| given.boot.as_ref());
    let kind = boot.map_or(BootDiagnosticsStorage::Managed, |boot| {
        boot.storage_account_type
    });
    let storage_uri = match kind {
        BootDiagnosticsStorage::UserManaged => boot
            .and_then(|boot| boot.user_managed.as_ref())
            .map(|account| account.storage_account_uri.clone()),
        BootDiagnosticsStorage::Managed | BootDiagnosticsStorage::Disabled => None,
    };
    let enabled = match kind {
        BootDiagnosticsStorage::Managed | BootDiagnosticsStorage::UserManaged => true,
        BootDiagnosticsStorage::Disabled => false,
    };
    let boot_diagnostics = Some(BootDiagnostics {
        enabled: Some(enabled),
        storage_uri,
    });
    DiagnosticsProfile { boot_diagnostics }
}

/// Returns the notice that machines get before they are removed (C91).
pub(super) fn scheduled_events_profile(
    pool: &AzureMachinePool,
) -> Result<Option<ScheduledEventsProfile>, ModelError> {
    let Some(minutes) = pool.spec.template.terminate_notification_timeout else {
        return Ok(None);
    };
    let field = "spec.template.terminateNotificationTimeout";
    let minutes = error::count(field, minutes, 5, 15)?;
    Ok(Some(ScheduledEventsProfile {
        terminate_notification_profile: Some(TerminateNotificationProfile {
            enable: Some(true),
            not_before_timeout: Some(format!("PT{minutes}M")),
        }),
    }))
}

/// Returns a profile that holds what makes machines Spot machines, or nothing.
pub(super) fn spot(pool: &AzureMachinePool) -> Result<VirtualMachineProfile, ModelError> {
    let template = &pool.spec.template;
    let Some(options) = &template.spot_vm_options else {
        return Ok(VirtualMachineProfile::default());
    };
    // A machine with its disk on the host can't be stopped and kept, as Azure would do (C88).
    let implied = template
        .os_disk
        .diff_disk_settings
        .as_ref()
        .map(|_| SpotEvictionPolicy::Delete);
    let eviction_policy = options
        .eviction_policy
        .or(implied)
        .map(|policy| match policy {
            SpotEvictionPolicy::Deallocate => "Deallocate".to_owned(),
            SpotEvictionPolicy::Delete => "Delete".to_owned(),
        });
    let billing_profile = match &options.max_price {
        Some(price) => Some(BillingProfile {
            max_price: Some(dollars(price)?),
        }),
        None => None,
    };
    Ok(VirtualMachineProfile {
        priority: Some("Spot".to_owned()),
        eviction_policy,
        billing_profile,
        ..VirtualMachineProfile::default()
    })
}

/// Reads a Kubernetes quantity as a price (C93).
fn dollars(quantity: &IntOrString) -> Result<f64, ModelError> {
    let text = match quantity {
        IntOrString::Int(whole) => return Ok(f64::from(*whole)),
        IntOrString::String(text) => text.trim(),
    };
    let unreadable = || ModelError::MaxPrice {
        value: text.to_owned(),
    };
    // Suffixes above one are legal in a quantity and absurd in a price by the hour.
    let (number, divisor) = match text.char_indices().last() {
        Some((at, 'm')) => (&text[..at], 1e3),
        Some((at, 'u')) => (&text[..at], 1e6),
        Some((at, 'n')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let is_plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | 'e' | 'E');
    if !number.chars().all(is_plain) {
        return Err(unreadable());
    }
    let price = number.parse::<f64>().map_err(|_| unreadable())? / divisor;
    if price.is_finite() {
        Ok(price)
    } else {
        Err(unreadable())
    }
}

/// Returns the extensions. None is an empty list, which takes away those that there were.
pub(super) fn extension_profile(
    pool: &AzureMachinePool,
    azure_cluster: &AzureCluster,
) -> Option<ExtensionProfile> {
    let mut extensions: Vec<Extension> = pool
        .spec
        .template
        .vm_extensions
        .iter()
        .map(extension)
        .collect();
    let is_disabled = pool
        .spec
        .template
        .disable_vm_bootstrap_extension
        .unwrap_or(true);
    let cloud = azure_cluster
        .spec
        .azure_environment
        .as_deref()
        .unwrap_or(PUBLIC_CLOUD);
    if !is_disabled && cloud.eq_ignore_ascii_case(PUBLIC_CLOUD) {
        extensions.push(bootstrap_extension(pool));
    }
    let extensions = Some(extensions);
    Some(ExtensionProfile {
        extensions,
        ..ExtensionProfile::default()
    })
}

fn extension(given: &VmExtension) -> Extension {
    let VmExtension {
        name,
        publisher,
        version,
        settings,
        protected_settings,
    } = given;
    let object = |settings: &std::collections::BTreeMap<String, String>| {
        let pairs = settings
            .iter()
            .map(|(key, text)| (key.clone(), Value::from(text.as_str())));
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    Extension {
        name: Some(name.clone()),
        properties: Some(ExtensionProperties {
            publisher: Some(publisher.clone()),
            kind: Some(name.clone()),
            type_handler_version: Some(version.clone()),
            settings: (!settings.is_empty()).then(|| object(settings)),
            protected_settings: (!protected_settings.is_empty())
                .then(|| Secret::new(object(&protected_settings.0))),
            ..ExtensionProperties::default()
        }),
    }
}

/// `fit_to_size` picks the version for another processor.
fn bootstrap_extension(pool: &AzureMachinePool) -> Extension {
    let (name, command) = if is_windows(pool) {
        (BOOTSTRAP_EXTENSION_WINDOWS, BOOTSTRAP_CHECK_WINDOWS)
    } else {
        (BOOTSTRAP_EXTENSION_LINUX, BOOTSTRAP_CHECK_LINUX)
    };
    Extension {
        name: Some(name.to_owned()),
        properties: Some(ExtensionProperties {
            publisher: Some(BOOTSTRAP_EXTENSION_PUBLISHER.to_owned()),
            kind: Some(name.to_owned()),
            type_handler_version: Some("1.0".to_owned()),
            protected_settings: Some(Secret::new(
                serde_json::json!({ "commandToExecute": command }),
            )),
            ..ExtensionProperties::default()
        }),
    }
}

/// Sets the version of the bootstrap extension for Arm64, where Azure refuses others (C97).
pub(super) fn use_arm64_extension(profile: &mut VirtualMachineProfile) {
    let extensions = profile
        .extension_profile
        .as_mut()
        .and_then(|p| p.extensions.as_mut());
    for extension in extensions.into_iter().flatten() {
        if extension.name.as_deref() == Some(BOOTSTRAP_EXTENSION_LINUX)
            && let Some(properties) = &mut extension.properties
            && properties.publisher.as_deref() == Some(BOOTSTRAP_EXTENSION_PUBLISHER)
        {
            properties.type_handler_version = Some("1.1".to_owned());
        }
    }
}
