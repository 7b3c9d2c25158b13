//! Do changes of a scale set that exists change what is ours, and nothing else?

use weir_azure::ScaleSetPatch;

use super::*;

/// What Azure shows of a set: no secrets, its own defaults filled in, ids in another case.
fn shown(wanted: &Wanted) -> ScaleSet {
    let mut json = serde_json::to_value(body(wanted, None, 3)).unwrap();
    overlay(
        &mut json,
        json!({
            "etag": "\"7\"",
            "location": "West Europe",
            "properties": {
                "provisioningState": "Succeeded",
                "virtualMachineProfile": {
                    "osProfile": { "customData": null, "adminPassword": null,
                        "linuxConfiguration": { "provisionVMAgent": true } },
                    "storageProfile": { "osDisk": { "managedDisk": {
                        "storageAccountType": "Premium_LRS" } } },
                    "networkProfile": { "networkInterfaceConfigurations": [{ "properties": {
                        "enableAcceleratedNetworking": false } }] },
                },
            },
        }),
    );
    let image = "/properties/virtualMachineProfile/storageProfile/imageReference";
    if let Some(Value::Object(image)) = json.pointer_mut(image) {
        for id in image.values_mut() {
            *id = json!(id.as_str().unwrap().to_lowercase());
        }
        image.insert("exactVersion".to_owned(), json!("1.33.1"));
    }
    serde_json::from_value(json).unwrap()
}

#[test]
fn a_set_as_azure_shows_it_is_no_different_and_needs_no_write() {
    let wanted = World::new().wanted();
    let actual = shown(&wanted);
    assert_eq!(differences(&wanted, &actual), Vec::<String>::new());
    assert_eq!(settings_patch(&wanted, &actual, Mark::Keep), None);
    assert_eq!(settings_patch(&wanted, &actual, Mark::Set), None);
}

#[test]
fn an_entry_taken_out_of_a_list_of_ours_is_a_difference() {
    let disk = json!({ "template": { "dataDisks": [{ "nameSuffix": "d", "diskSizeGB": 8 }] } });
    let with_disk = World::new().with(disk).wanted();
    let without = World::new().wanted();
    assert!(!differences(&without, &shown(&with_disk)).is_empty());
    let third_zone = json!({ "spec": { "failureDomains": ["1", "2", "3"] } });
    let three_zones = World::new().with_pool(third_zone).wanted();
    assert_eq!(differences(&without, &shown(&three_zones)), ["zones[3]"]);
}

#[test]
fn capacity_goes_up_with_the_newest_bootstrap_data_and_nothing_else() {
    let mut world = World::new();
    world.bootstrap.data = b"#cloud-config\n# newest\n".to_vec();
    let patch = serde_json::to_value(capacity_patch(&world.wanted(), 7)).unwrap();
    let data = BASE64.encode(b"#cloud-config\n# newest\n");
    let expected = json!({
        "sku": { "name": "Standard_D2s_v5", "tier": "Standard", "capacity": 7 },
        "properties": { "virtualMachineProfile": { "osProfile": { "customData": data } } },
    });
    assert_eq!(patch, expected);
}

#[test]
fn a_new_tag_is_one_patch_of_tags_that_keeps_those_of_others() {
    let mut actual = shown(&World::new().wanted());
    let tags = actual.tags.as_mut().unwrap();
    tags.insert("billing".to_owned(), "42".to_owned());
    tags.insert("TEAM".to_owned(), "old".to_owned());
    let wanted = World::new()
        .with(json!({ "additionalTags": { "team": "new" }, "template": { "vmSize": "other" } }))
        .wanted();
    let patch = settings_patch(&wanted, &actual, Mark::Keep).unwrap();
    let json = serde_json::to_value(&patch).unwrap();
    assert_eq!(
        json.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["tags"]
    );
    let tags = patch.tags.unwrap();
    assert_eq!(tags["billing"], "42");
    assert_eq!(
        tags["TEAM"], "new",
        "Azure takes no two names that differ in case only"
    );
    assert_eq!(tags.get("team"), None);
    assert_eq!(
        revision_of_tags(&tags),
        revision_of_tags(actual.tags.as_ref().unwrap()),
        "a model that was not written must not be said to be there"
    );
}

#[test]
fn a_set_made_by_another_controller_is_marked_only_when_asked_for() {
    let wanted = World::new().wanted();
    let mut actual = shown(&wanted);
    actual.tags.as_mut().unwrap().remove(REVISION_TAG);
    assert_eq!(settings_patch(&wanted, &actual, Mark::Keep), None);
    let patch = settings_patch(&wanted, &actual, Mark::Set).unwrap();
    assert_eq!(
        revision_of_tags(&patch.tags.unwrap()),
        Some(wanted.revision)
    );
    assert_eq!(patch.properties, None);
}

#[test]
fn a_notice_is_changed_and_ended_without_a_new_revision() {
    let notice = |minutes: Value| {
        World::new().with(json!({ "template": { "terminateNotificationTimeout": minutes } }))
    };
    let sent = |patch: ScaleSetPatch| {
        let patch = serde_json::to_value(patch).unwrap();
        patch["properties"]["virtualMachineProfile"]["scheduledEventsProfile"]
            ["terminateNotificationProfile"]
            .clone()
    };
    let (five, seven, none) = (
        notice(json!(5)).wanted(),
        notice(json!(7)).wanted(),
        notice(json!(null)).wanted(),
    );
    assert_eq!(five.revision, none.revision);
    let changed = settings_patch(&seven, &shown(&five), Mark::Keep).unwrap();
    assert_eq!(
        sent(changed),
        json!({ "enable": true, "notBeforeTimeout": "PT7M" })
    );
    let ended = settings_patch(&none, &shown(&five), Mark::Keep).unwrap();
    assert_eq!(
        sent(ended),
        json!({ "enable": false, "notBeforeTimeout": "PT5M" })
    );
    assert_eq!(settings_patch(&five, &shown(&five), Mark::Keep), None);
    let whole = serde_json::to_value(body(&none, Some(&shown(&five)), 3)).unwrap();
    let enable = "/properties/virtualMachineProfile/scheduledEventsProfile\
                  /terminateNotificationProfile/enable";
    assert_eq!(whole.pointer(enable), Some(&json!(false)));
}

#[test]
fn a_set_that_azure_would_restart_by_itself_is_put_right() {
    let wanted = World::new().wanted();
    let mut actual = shown(&wanted);
    let properties = actual.properties.as_mut().unwrap();
    properties.upgrade_policy = Some(UpgradePolicy {
        mode: Some("Automatic".to_owned()),
    });
    properties.overprovision = Some(true);
    let patch = settings_patch(&wanted, &actual, Mark::Keep).unwrap();
    let expected = json!({ "upgradePolicy": { "mode": "Manual" }, "overprovision": false });
    assert_eq!(serde_json::to_value(patch.properties).unwrap(), expected);
    assert_eq!(patch.tags, None);
}

#[test]
fn a_new_model_keeps_what_others_have_attached() {
    let old = World::new().wanted();
    let mut json = serde_json::to_value(shown(&old)).unwrap();
    overlay(
        &mut json,
        json!({
            "tags": { "billing": "42" },
            "properties": { "virtualMachineProfile": {
                "osProfile": { "computerNamePrefix": "pool-old" },
                "networkProfile": { "networkInterfaceConfigurations": [{ "properties": {
                    "networkSecurityGroup": { "id": "/nsg" },
                    "ipConfigurations": [{ "properties": {
                        "loadBalancerBackendAddressPools": [{ "id": "/lb/pool" }],
                        "applicationSecurityGroups": [{ "id": "/asg" }],
                    } }],
                } }] },
            } },
        }),
    );
    let actual: ScaleSet = serde_json::from_value(json).unwrap();
    let new = World::new()
        .with(json!({ "template": { "vmSize": "Standard_D8s_v5" } }))
        .wanted();
    let sent = serde_json::to_value(body(&new, Some(&actual), 4)).unwrap();
    assert_eq!(
        sent["sku"],
        json!({ "name": "Standard_D8s_v5", "tier": "Standard", "capacity": 4 })
    );
    assert_eq!(sent["tags"]["billing"], "42");
    assert_eq!(sent["tags"][REVISION_TAG], json!(new.revision.0));
    let profile = &sent["properties"]["virtualMachineProfile"];
    assert_eq!(profile["osProfile"]["computerNamePrefix"], "pool-old");
    let nic = &profile["networkProfile"]["networkInterfaceConfigurations"][0]["properties"];
    assert_eq!(nic["networkSecurityGroup"]["id"], "/nsg");
    let address = &nic["ipConfigurations"][0]["properties"];
    assert_eq!(
        address["loadBalancerBackendAddressPools"],
        json!([{ "id": "/lb/pool" }])
    );
    assert_eq!(
        address["applicationSecurityGroups"],
        json!([{ "id": "/asg" }])
    );
}
