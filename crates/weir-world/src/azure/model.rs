//! How does a write change the model of a scale set?
//!
//! PUT and PATCH merge: what is absent stays. Some changes are refused, and Azure fills in
//! defaults. Nothing here knows about instances or time.

use std::fmt;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::answer::{
    Answer, Answered, bad_request, change_not_allowed, invalid, missing_parameter,
};

/// Bootstrap data: never returned, never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomData(Vec<u8>);

impl CustomData {
    /// Returns the decoded bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CustomData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomData(redacted)")
    }
}

/// The largest custom data Azure takes, decoded.
const CUSTOM_DATA_BYTES_MAX: usize = 65_535;

const PROFILE: &str = "/properties/virtualMachineProfile";

/// What can be written and never read, taken out of a request's body.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOnly {
    pub(crate) custom_data: Option<CustomData>,
}

/// Takes everything that is never returned out of a body.
pub(crate) fn take_write_only(body: &mut Value) -> Answered<WriteOnly> {
    let mut taken = WriteOnly::default();
    if let Some(os_profile) = object_at(body, &format!("{PROFILE}/osProfile")) {
        os_profile.remove("adminPassword");
        taken.custom_data = custom_data(os_profile.remove("customData"))?;
    }
    let extensions = body.pointer_mut(&format!("{PROFILE}/extensionProfile/extensions"));
    for extension in extensions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(properties) = object_at(extension, "/properties") {
            properties.remove("protectedSettings");
        }
    }
    Ok(taken)
}

/// Reads custom data as a request gives it.
pub(crate) fn custom_data(given: Option<Value>) -> Answered<Option<CustomData>> {
    let text = match given {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text,
        Some(_) => return Err(invalid("customData", "Custom data must be a string.")),
    };
    let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(text) else {
        let message = "Custom data in OSProfile must be in Base64 encoding and with a maximum \
                       length of 87380 characters.";
        return Err(invalid("customData", message));
    };
    if bytes.len() > CUSTOM_DATA_BYTES_MAX {
        let message = "Custom data in OSProfile must not exceed 65535 bytes when decoded.";
        return Err(invalid("customData", message));
    }
    Ok(Some(CustomData(bytes)))
}

/// Members that only Azure writes. They come back in bodies that were read before; ignored.
const READ_ONLY: [&str; 5] = ["id", "name", "type", "etag", "systemData"];
const READ_ONLY_PROPERTIES: [&str; 3] = ["provisioningState", "uniqueId", "timeCreated"];

pub(crate) fn drop_read_only(body: &mut Value) {
    if let Some(top) = body.as_object_mut() {
        READ_ONLY.iter().for_each(|name| {
            top.remove(*name);
        });
    }
    if let Some(properties) = object_at(body, "/properties") {
        READ_ONLY_PROPERTIES.iter().for_each(|name| {
            properties.remove(*name);
        });
    }
    if let Some(profile) = object_at(body, PROFILE) {
        profile.remove("timeCreated");
    }
}

/// Puts a partial body over a model. Absent and null mean unchanged, as does an empty object.
pub(crate) fn merge(model: &Value, change: &Value) -> Value {
    let mut merged = model.clone();
    merge_into(&mut merged, change, "");
    merged
}

fn merge_into(model: &mut Value, change: &Value, key: &str) {
    match (model, change) {
        (_, Value::Null) => {}
        (Value::Object(model), Value::Object(change)) if key == "imageReference" => {
            merge_image(model, change);
        }
        // Tags are one value: a map that is sent replaces the one there.
        (Value::Object(model), Value::Object(change)) if key != "tags" => {
            for (key, value) in change {
                match model.get_mut(key) {
                    Some(old) => merge_into(old, value, key),
                    None if value.is_null() => {}
                    None => {
                        model.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (model, change) => *model = change.clone(),
    }
}

/// The four shapes of an image reference exclude each other; another shape replaces the old one.
fn merge_image(model: &mut Map<String, Value>, change: &Map<String, Value>) {
    const MARKETPLACE: [&str; 4] = ["publisher", "offer", "sku", "version"];
    let is_plain = |image: &Map<String, Value>| {
        image
            .keys()
            .all(|key| MARKETPLACE.contains(&key.as_str()) || key == "exactVersion")
    };
    if change.is_empty() {
        return;
    }
    if !(is_plain(model) && is_plain(change)) {
        model.clear();
    }
    for (key, value) in change.iter().filter(|(_, value)| !value.is_null()) {
        model.insert(key.clone(), value.clone());
    }
    model.remove("exactVersion");
}

/// Refuses members that a PATCH does not have.
pub(crate) fn check_patch(body: &Value) -> Answered<()> {
    let absent = [
        ("/properties", "zoneBalance"),
        ("/properties", "orchestrationMode"),
        ("/properties", "platformFaultDomainCount"),
        (PROFILE, "priority"),
        (PROFILE, "evictionPolicy"),
        (PROFILE, "capacityReservation"),
    ];
    for (object, member) in absent {
        if body.pointer(object).and_then(|o| o.get(member)).is_some() {
            let kind = object.rsplit('/').next().unwrap_or_default();
            let message = format!("Could not find member '{member}' on object of type '{kind}'");
            return Err(bad_request(&message));
        }
    }
    Ok(())
}

/// Refuses changes that Azure does not allow.
pub(crate) fn check_change(old: &Value, new: &Value) -> Answered<()> {
    let fixed = [
        ("/location", "location"),
        ("/properties/orchestrationMode", "orchestrationMode"),
        (
            "/properties/platformFaultDomainCount",
            "platformFaultDomainCount",
        ),
        (
            "/properties/virtualMachineProfile/priority",
            "virtualMachineProfile.priority",
        ),
        (
            "/properties/virtualMachineProfile/storageProfile/osDisk/managedDisk/\
             storageAccountType",
            "osDisk.managedDisk.storageAccountType",
        ),
    ];
    for (pointer, name) in fixed {
        if !same(old.pointer(pointer), new.pointer(pointer)) {
            return Err(change_not_allowed(name));
        }
    }
    check_image_change(old, new)?;
    let zones = |model: &Value| strings(model.get("zones"));
    if !zones(old).iter().all(|zone| zones(new).contains(zone)) {
        return Err(change_not_allowed("zones"));
    }
    let grouped = |model: &Value| model.pointer("/properties/singlePlacementGroup").cloned();
    if grouped(old) == Some(json!(false)) && grouped(new) == Some(json!(true)) {
        return Err(change_not_allowed("singlePlacementGroup"));
    }
    Ok(())
}

/// Within the marketplace shape publisher and offer are fixed; other shapes may come and go.
fn check_image_change(old: &Value, new: &Value) -> Answered<()> {
    for member in ["publisher", "offer"] {
        let pointer = format!("{PROFILE}/storageProfile/imageReference/{member}");
        let (old, new) = (old.pointer(&pointer), new.pointer(&pointer));
        if old.is_some() && new.is_some() && !same(old, new) {
            return Err(change_not_allowed(&format!("imageReference.{member}")));
        }
    }
    Ok(())
}

/// Refuses an explicit empty list of zones, which counts as a change even on a regional set.
pub(crate) fn check_zones_in_body(body: &Value) -> Answered<()> {
    match body.get("zones").and_then(Value::as_array) {
        Some(zones) if zones.is_empty() => Err(change_not_allowed("zones")),
        Some(_) | None => Ok(()),
    }
}

/// Compares as Azure does: words without regard to case, and a value that was left out at
/// creation as unknown, so that a later write may state it.
fn same(old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old, new) {
        (None, _) => true,
        (Some(Value::String(old)), Some(Value::String(new))) => old.eq_ignore_ascii_case(new),
        (old, new) => old == new,
    }
}

/// Refuses a model that a scale set cannot be made from.
pub(crate) fn check_new(model: &Value) -> Answered<()> {
    if text(model, "/location").is_empty() {
        let message = "The location property is required for this definition.";
        return Err(Answer::error(
            http::StatusCode::BAD_REQUEST,
            "LocationRequired",
            message,
        ));
    }
    if text(model, "/properties/orchestrationMode").eq_ignore_ascii_case("flexible") {
        return Err(invalid(
            "orchestrationMode",
            "Flexible orchestration is not simulated.",
        ));
    }
    let required = [
        ("/sku/name", "sku.name"),
        (PROFILE, "virtualMachineProfile"),
        (
            "/properties/virtualMachineProfile/storageProfile/imageReference",
            "imageReference",
        ),
        (
            "/properties/virtualMachineProfile/osProfile",
            "virtualMachineProfile.osProfile",
        ),
        (
            "/properties/virtualMachineProfile/networkProfile",
            "virtualMachineProfile.networkProfile",
        ),
    ];
    for (pointer, name) in required {
        if model.pointer(pointer).is_none_or(Value::is_null) {
            return Err(missing_parameter(name));
        }
    }
    Ok(())
}

/// Fills in what Azure fills in.
///
/// # Source
/// The captured answers listed in docs/azure.md ("Defaults").
pub(crate) fn fill_defaults(model: &mut Value, name: &str) {
    default(model, "/sku", "tier", json!("Standard"));
    default(model, "/sku", "capacity", json!(0));
    let zone_count = strings(model.get("zones")).len();
    let fault_domains = if zone_count > 0 { 1 } else { 5 };
    let properties = [
        ("orchestrationMode", json!("Uniform")),
        ("singlePlacementGroup", json!(true)),
        ("overprovision", json!(false)),
        ("doNotRunExtensionsOnOverprovisionedVMs", json!(false)),
        ("platformFaultDomainCount", json!(fault_domains)),
        ("upgradePolicy", json!({"mode": "Manual"})),
    ];
    for (member, value) in properties {
        default(model, "/properties", member, value);
    }
    let prefix: String = name.chars().take(15).collect();
    let os_profile = [
        ("computerNamePrefix", json!(prefix)),
        ("secrets", json!([])),
        ("allowExtensionOperations", json!(true)),
        ("requireGuestProvisionSignal", json!(true)),
    ];
    for (member, value) in os_profile {
        default(model, &format!("{PROFILE}/osProfile"), member, value);
    }
    let storage = format!("{PROFILE}/storageProfile");
    default(model, &storage, "diskControllerType", json!("SCSI"));
    default(model, &storage, "osDisk", json!({}));
    let os_disk = [
        ("createOption", json!("FromImage")),
        ("osType", json!("Linux")),
        ("diskSizeGB", json!(30)),
        ("caching", json!("None")),
    ];
    for (member, value) in os_disk {
        default(model, &format!("{storage}/osDisk"), member, value);
    }
    let nics = format!("{PROFILE}/networkProfile/networkInterfaceConfigurations");
    let nics = model.pointer_mut(&nics).and_then(Value::as_array_mut);
    for nic in nics.into_iter().flatten() {
        let defaults = [
            ("dnsSettings", json!({"dnsServers": []})),
            ("enableAcceleratedNetworking", json!(false)),
            ("enableIPForwarding", json!(false)),
            ("disableTcpStateTracking", json!(false)),
        ];
        for (member, value) in defaults {
            default(nic, "/properties", member, value);
        }
    }
}

fn default(model: &mut Value, object: &str, member: &str, value: Value) {
    if let Some(object) = object_at(model, object) {
        object.entry(member).or_insert(value);
    }
}

/// Returns the text at a pointer; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the texts of a list.
pub(crate) fn strings(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|entry| entry.as_str().map(str::to_owned))
        .collect()
}

/// Returns the version that an image reference names, if it names one.
pub(crate) fn image_version(image: &Value) -> Option<&str> {
    let ids = ["id", "communityGalleryImageId", "sharedGalleryImageId"];
    let from_id = ids
        .iter()
        .filter_map(|key| image.get(*key)?.as_str())
        .find_map(|id| {
            let mut parts = id.rsplit('/');
            let version = parts.next()?;
            parts
                .next()?
                .eq_ignore_ascii_case("versions")
                .then_some(version)
        });
    from_id.or_else(|| image.get("version")?.as_str())
}

fn object_at<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    value.pointer_mut(pointer)?.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_keeps_what_is_absent_null_or_empty() {
        let model = json!({"sku": {"name": "a", "capacity": 3}, "tags": {"x": "1"},
            "properties": {"virtualMachineProfile": {"storageProfile": {
                "imageReference": {"id": "one"}}}}});
        let change = json!({"sku": {"capacity": 4}, "tags": {"y": "2"}, "plan": null,
            "properties": {"virtualMachineProfile": {"storageProfile": {"imageReference": {}}}}});
        let mut expected = model.clone();
        expected["sku"]["capacity"] = json!(4);
        expected["tags"] = json!({"y": "2"});
        assert_eq!(merge(&model, &change), expected);
    }

    #[test]
    fn another_shape_of_image_replaces_the_old_one() {
        let rows = [
            (
                json!({"publisher": "p", "offer": "o", "sku": "s", "version": "1"}),
                json!({"version": "2"}),
                json!({"publisher": "p", "offer": "o", "sku": "s", "version": "2"}),
            ),
            (
                json!({"publisher": "p", "offer": "o", "sku": "s", "version": "1"}),
                json!({"communityGalleryImageId": "/c/1"}),
                json!({"communityGalleryImageId": "/c/1"}),
            ),
            (
                json!({"communityGalleryImageId": "/c/1"}),
                json!({"id": "/g/2"}),
                json!({"id": "/g/2"}),
            ),
        ];
        for (old, change, expected) in rows {
            let wrap = |image: &Value| json!({"imageReference": image});
            assert_eq!(merge(&wrap(&old), &wrap(&change)), wrap(&expected));
        }
    }

    #[test]
    fn versions_are_read_from_every_shape_of_image() {
        let rows = [
            (json!({"version": "1.2.3"}), Some("1.2.3")),
            (
                json!({"communityGalleryImageId": "/CommunityGalleries/g/Images/i/Versions/4.5"}),
                Some("4.5"),
            ),
            (json!({"id": "/x/images/plain"}), None),
        ];
        for (image, version) in rows {
            assert_eq!(image_version(&image), version, "{image}");
        }
    }
}
