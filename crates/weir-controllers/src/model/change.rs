//! What is sent to change a scale set that exists?
//!
//! A PUT merges: what is left out stays as it is, and a list replaces the one in place. So whatever
//! others may have added to a list or to the tags is put in again (R7).

use std::collections::BTreeMap;

use weir_azure::vmss::{
    IpConfiguration, NetworkInterfaceConfiguration, NetworkProfile, OsProfilePatch,
    ScaleSetPatchProperties, ScheduledEventsProfile, Sku, SubResource,
    TerminateNotificationProfile, UpgradePolicy, VirtualMachineProfilePatch,
};
use weir_azure::{ScaleSet, ScaleSetPatch};

use super::{REVISION_TAG, Wanted};

/// Whether a change of settings also says that the scale set has the wanted revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The revision tag stays as it is.
    Keep,
    /// The revision tag becomes the wanted one. Right only if the model in Azure is as wanted, see
    /// [`super::differences`]: a pool that another controller made is taken over so.
    Set,
}

/// Returns the body that makes a scale set what is wanted, with a capacity.
///
/// `actual` is the set as read, or `None` if it is to be made. What others have added to it is
/// kept: tags, load balancers' pools, security groups. So is the prefix of host names, which Azure
/// lets nobody change.
pub fn body(wanted: &Wanted, actual: Option<&ScaleSet>, capacity: u32) -> ScaleSet {
    let mut body = wanted.scale_set.clone();
    body.sku.get_or_insert_default().capacity = Some(capacity);
    let Some(actual) = actual else { return body };
    body.tags = Some(merged(actual.tags.as_ref(), wanted.scale_set.tags.as_ref()));
    let profile = body
        .properties
        .as_mut()
        .and_then(|p| p.virtual_machine_profile.as_mut());
    let (Some(profile), Some(theirs)) = (profile, actual.virtual_machine_profile()) else {
        return body;
    };
    if let (Some(os), Some(their_os)) = (&mut profile.os_profile, &theirs.os_profile) {
        // Fixed at creation: a set made under another rule for names keeps its own.
        os.computer_name_prefix = their_os
            .computer_name_prefix
            .clone()
            .or_else(|| os.computer_name_prefix.take());
    }
    if let (Some(network), Some(their_network)) =
        (&mut profile.network_profile, &theirs.network_profile)
    {
        keep_attachments(network, their_network);
    }
    if profile.scheduled_events_profile.is_none() {
        profile.scheduled_events_profile = ended_notification(actual);
    }
    body
}

/// Returns the patch that raises capacity and carries the newest bootstrap data (C19).
///
/// It is for a scale set that has the wanted revision; with another one, send [`body`]. Azure
/// counts new bootstrap data as a new model, so afterwards all instances read as not having the
/// latest one. Their revision doesn't change.
pub fn capacity_patch(wanted: &Wanted, capacity: u32) -> ScaleSetPatch {
    let sku = wanted.scale_set.sku.clone().unwrap_or_default();
    let os = wanted
        .scale_set
        .virtual_machine_profile()
        .and_then(|p| p.os_profile.as_ref());
    let os_profile = os.map(|os| OsProfilePatch {
        custom_data: os.custom_data.clone(),
        ..OsProfilePatch::default()
    });
    ScaleSetPatch {
        sku: Some(Sku {
            capacity: Some(capacity),
            ..sku
        }),
        properties: Some(ScaleSetPatchProperties {
            virtual_machine_profile: Some(VirtualMachineProfilePatch {
                os_profile,
                ..VirtualMachineProfilePatch::default()
            }),
            ..ScaleSetPatchProperties::default()
        }),
        ..ScaleSetPatch::default()
    }
}

/// Returns the patch for what can be changed without any instance being replaced, or nothing if all
/// of it is as wanted: tags (C15), termination notice (C91), upgrade policy, overprovisioning.
///
/// Tags that others have set stay. So do those that were ours and are no longer asked for: nothing
/// tells the two apart.
pub fn settings_patch(wanted: &Wanted, actual: &ScaleSet, mark: Mark) -> Option<ScaleSetPatch> {
    let mut ours = wanted.scale_set.tags.clone().unwrap_or_default();
    if mark == Mark::Keep {
        ours.remove(REVISION_TAG);
    }
    let tags = merged(actual.tags.as_ref(), Some(&ours));
    let tags = (Some(&tags) != actual.tags.as_ref()).then_some(tags);
    let (to, from) = (
        wanted.scale_set.properties.as_ref(),
        actual.properties.as_ref(),
    );
    let mode = to.and_then(|p| p.upgrade_policy.as_ref()?.mode.as_deref());
    let actual_mode = from.and_then(|p| p.upgrade_policy.as_ref()?.mode.as_deref());
    let is_other = |mode: &str| !actual_mode.is_some_and(|it| it.eq_ignore_ascii_case(mode));
    let upgrade_policy = mode
        .filter(|mode| is_other(mode))
        .map(|mode| UpgradePolicy {
            mode: Some(mode.to_owned()),
        });
    let actual_overprovision = from.and_then(|p| p.overprovision);
    // A set that doesn't say it was made with Azure's default, which is to overprovision.
    let overprovision = to
        .and_then(|p| p.overprovision)
        .filter(|to| actual_overprovision != Some(*to));
    let profile = notification_change(wanted, actual).map(|events| VirtualMachineProfilePatch {
        scheduled_events_profile: Some(events),
        ..VirtualMachineProfilePatch::default()
    });
    let properties = ScaleSetPatchProperties {
        upgrade_policy,
        overprovision,
        virtual_machine_profile: profile,
        ..ScaleSetPatchProperties::default()
    };
    let properties = (properties != ScaleSetPatchProperties::default()).then_some(properties);
    if tags.is_none() && properties.is_none() {
        return None;
    }
    Some(ScaleSetPatch {
        tags,
        properties,
        ..ScaleSetPatch::default()
    })
}

/// Puts tags of ours into a set's tags. Azure takes no two names that differ in case only.
fn merged(
    theirs: Option<&BTreeMap<String, String>>,
    ours: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let mut tags = theirs.cloned().unwrap_or_default();
    for (name, value) in ours.into_iter().flatten() {
        let same = tags
            .keys()
            .find(|key| key.eq_ignore_ascii_case(name))
            .cloned();
        tags.insert(same.unwrap_or_else(|| name.clone()), value.clone());
    }
    tags
}

fn notification(scale_set: &ScaleSet) -> Option<(bool, Option<String>)> {
    let events = scale_set
        .virtual_machine_profile()?
        .scheduled_events_profile
        .as_ref()?;
    let notice = events.terminate_notification_profile.as_ref()?;
    let span = notice
        .not_before_timeout
        .as_ref()
        .map(|span| span.to_ascii_uppercase());
    Some((notice.enable.unwrap_or(false), span))
}

fn notification_change(wanted: &Wanted, actual: &ScaleSet) -> Option<ScheduledEventsProfile> {
    match (notification(&wanted.scale_set), notification(actual)) {
        (None, _) => ended_notification(actual),
        (to, from) if to == from => None,
        (Some(_), _) => {
            let profile = wanted.scale_set.virtual_machine_profile();
            profile.and_then(|profile| profile.scheduled_events_profile.clone())
        }
    }
}

/// Returns what ends a notice that a set has, since leaving it out would keep it.
fn ended_notification(actual: &ScaleSet) -> Option<ScheduledEventsProfile> {
    let (enabled, span) = notification(actual)?;
    enabled.then_some(ScheduledEventsProfile {
        terminate_notification_profile: Some(TerminateNotificationProfile {
            enable: Some(false),
            not_before_timeout: span,
        }),
    })
}

/// Keeps what others have attached to interfaces and addresses that go on existing.
fn keep_attachments(network: &mut NetworkProfile, theirs: &NetworkProfile) {
    for interface in network
        .network_interface_configurations
        .iter_mut()
        .flatten()
    {
        let mut all = theirs.network_interface_configurations.iter().flatten();
        let same = all.find(|it| is_same(it.name.as_deref(), interface.name.as_deref()));
        let Some(same) = same else { continue };
        keep_on_interface(interface, same);
    }
}

fn keep_on_interface(
    interface: &mut NetworkInterfaceConfiguration,
    theirs: &NetworkInterfaceConfiguration,
) {
    let (Some(ours), Some(theirs)) = (&mut interface.properties, &theirs.properties) else {
        return;
    };
    if ours.network_security_group.is_none() {
        ours.network_security_group = theirs.network_security_group.clone();
    }
    if ours.enable_accelerated_networking.is_none() {
        ours.enable_accelerated_networking = theirs.enable_accelerated_networking;
    }
    for address in ours.ip_configurations.iter_mut().flatten() {
        let mut all = theirs.ip_configurations.iter().flatten();
        let same = all.find(|it| is_same(it.name.as_deref(), address.name.as_deref()));
        if let Some(same) = same {
            keep_on_address(address, same);
        }
    }
}

fn keep_on_address(address: &mut IpConfiguration, theirs: &IpConfiguration) {
    let (Some(ours), Some(theirs)) = (&mut address.properties, &theirs.properties) else {
        return;
    };
    add(
        &mut ours.load_balancer_backend_address_pools,
        theirs.load_balancer_backend_address_pools.as_deref(),
    );
    add(
        &mut ours.application_security_groups,
        theirs.application_security_groups.as_deref(),
    );
}

/// Adds what is not there yet; ids are the same in any case.
fn add(ours: &mut Option<Vec<SubResource>>, theirs: Option<&[SubResource]>) {
    for resource in theirs.unwrap_or_default() {
        let list = ours.get_or_insert_default();
        if !list
            .iter()
            .any(|it| is_same(it.id.as_deref(), resource.id.as_deref()))
        {
            list.push(resource.clone());
        }
    }
}

fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.eq_ignore_ascii_case(other),
        (None, _) | (_, None) => false,
    }
}
