//! What each verb puts on the wire, and what it makes of the answer.
//!
//! The files in `wire/` hold request (`>`), answer (`<`) and, last, what the caller gets (`=`).
//! `UPDATE_EXPECT=1 cargo test -p weir-azure --test wire` writes them anew.

#![allow(clippy::unwrap_used, reason = "this is a test, its helpers included")]

mod support;

use std::fmt::Debug;

use expect_test::{ExpectFile, expect_file};
use serde_json::{Value, json};
use support::{Script, answer, pool};
use weir_azure::vmss::{
    Extension, ExtensionProfile, ExtensionProperties, ImageReference, OsProfile, OsProfilePatch,
    ReimageOsProfile, ScaleSetPatchProperties, ScaleSetProperties, Sku, StorageProfile,
    UpgradePolicy, VirtualMachineProfile, VirtualMachineProfilePatch,
};
use weir_azure::{
    Accepted, Deletion, ETag, Instance, Precondition, Reimage, ScaleSet, ScaleSetPatch, Secret,
};

const POLL: &str = "https://arm.test/subscriptions/s/providers/Microsoft.Compute/locations\
                    /westeurope/operations/7?p=1&api-version=2024-11-01&t=9&s=signed%2Fhere";
const MONITOR: &str = "https://arm.test/subscriptions/s/providers/Microsoft.Compute/locations\
                       /westeurope/operations/7?p=1&monitor=true&api-version=2024-11-01&t=9";

#[tokio::test]
async fn get_scale_set_reads_state_capacity_and_version() {
    let script = Script::new([answer(
        200,
        &[("etag", "\"3\"")],
        &scale_set("\"3\"", "Updating"),
    )]);
    let found = script.arm().get_scale_set(&pool()).await.unwrap().unwrap();
    check(
        &script,
        &summary(&found),
        expect_file!["wire/get_scale_set.txt"],
    );
}

#[tokio::test]
async fn get_scale_set_is_none_when_the_group_has_no_such_set() {
    let gone = json!({"error": {"code": "ResourceNotFound", "message": "No such set."}});
    let script = Script::new([answer(404, &[], &gone)]);
    let found = script.arm().get_scale_set(&pool()).await.unwrap();
    check(
        &script,
        &found,
        expect_file!["wire/get_scale_set_absent.txt"],
    );
}

#[tokio::test]
async fn put_creates_only_where_there_is_nothing() {
    let headers = [("azure-asyncoperation", POLL), ("retry-after", "10")];
    let script = Script::new([answer(201, &headers, &scale_set("\"1\"", "Creating"))]);
    let accepted = script
        .arm()
        .put_scale_set(&pool(), &whole_model(), Precondition::Absent)
        .await
        .unwrap();
    check(
        &script,
        &accepted_summary(&accepted),
        expect_file!["wire/put_scale_set_create.txt"],
    );
}

#[tokio::test]
async fn put_of_a_capacity_names_nothing_else_and_the_version_it_is_for() {
    let headers = [("azure-asyncoperation", POLL), ("etag", "\"4\"")];
    let script = Script::new([answer(200, &headers, &scale_set("\"4\"", "Updating"))]);
    let body = ScaleSet {
        location: Some("westeurope".to_owned()),
        sku: Some(Sku {
            capacity: Some(4),
            ..Sku::default()
        }),
        ..ScaleSet::default()
    };
    let on = Precondition::Matches(ETag::new("\"3\""));
    let accepted = script
        .arm()
        .put_scale_set(&pool(), &body, on)
        .await
        .unwrap();
    check(
        &script,
        &accepted_summary(&accepted),
        expect_file!["wire/put_scale_set_capacity.txt"],
    );
}

#[tokio::test]
async fn patch_sends_only_what_changes() {
    let headers = [("azure-asyncoperation", POLL)];
    let script = Script::new([answer(200, &headers, &scale_set("\"5\"", "Updating"))]);
    let patch = image_patch("1.34.0");
    let accepted = script
        .arm()
        .patch_scale_set(&pool(), &patch, &ETag::new("\"4\""))
        .await
        .unwrap();
    check(
        &script,
        &accepted_summary(&accepted),
        expect_file!["wire/patch_scale_set.txt"],
    );
}

#[tokio::test]
async fn a_write_answered_as_succeeded_has_nothing_left_to_follow() {
    let headers = [("azure-asyncoperation", POLL)];
    let script = Script::new([answer(200, &headers, &scale_set("\"5\"", "Succeeded"))]);
    let patch = image_patch("1.34.0");
    let accepted = script
        .arm()
        .patch_scale_set(&pool(), &patch, &ETag::new("\"4\""))
        .await
        .unwrap();
    assert_eq!(accepted.operation, None);
}

#[tokio::test]
async fn delete_scale_set_by_force_is_followed_and_twice_is_none() {
    let headers = [("azure-asyncoperation", POLL), ("location", MONITOR)];
    let script = Script::new([
        answer(202, &headers, &Value::Null),
        answer(204, &[], &Value::Null),
    ]);
    let arm = script.arm();
    let first = arm
        .delete_scale_set(&pool(), Deletion::Forced)
        .await
        .unwrap();
    let second = arm
        .delete_scale_set(&pool(), Deletion::Graceful)
        .await
        .unwrap();
    check(
        &script,
        &(first, second),
        expect_file!["wire/delete_scale_set.txt"],
    );
}

#[tokio::test]
async fn list_follows_the_next_link_verbatim_and_sorts_by_number() {
    let next = "https://arm.test/elsewhere?$expand=instanceView&api-version=2024-11-01\
                &$skiptoken=MTA%3D";
    let page_one = json!({"value": [instance("10", "Succeeded"), instance("2", "Creating")],
                          "nextLink": next});
    // Instance 10 moved on to the second page while we read.
    let page_two = json!({"value": [instance("10", "Deleting"), instance("0", "Succeeded")],
                          "nextLink": ""});
    let script = Script::new([answer(200, &[], &page_one), answer(200, &[], &page_two)]);
    let instances = script.arm().list_instances(&pool()).await.unwrap();
    let lines: Vec<String> = instances.iter().map(instance_summary).collect();
    check(&script, &lines, expect_file!["wire/list_instances.txt"]);
}

#[tokio::test]
async fn get_instance_reads_the_view() {
    let script = Script::new([answer(200, &[], &instance("38", "Succeeded"))]);
    let found = script
        .arm()
        .get_instance(&pool(), "38")
        .await
        .unwrap()
        .unwrap();
    check(
        &script,
        &instance_summary(&found),
        expect_file!["wire/get_instance.txt"],
    );
}

#[tokio::test]
async fn delete_instance_is_followed() {
    let headers = [("azure-asyncoperation", POLL), ("location", MONITOR)];
    let script = Script::new([answer(202, &headers, &Value::Null)]);
    let done = script
        .arm()
        .delete_instance(&pool(), "3", Deletion::Graceful)
        .await
        .unwrap();
    check(&script, &done, expect_file!["wire/delete_instance.txt"]);
}

#[tokio::test]
async fn delete_instances_names_them() {
    let headers = [("azure-asyncoperation", POLL), ("location", MONITOR)];
    let script = Script::new([answer(202, &headers, &Value::Null)]);
    let ids = ["0".to_owned(), "38".to_owned()];
    let done = script
        .arm()
        .delete_instances(&pool(), &ids, Deletion::Graceful)
        .await
        .unwrap();
    check(&script, &done, expect_file!["wire/delete_instances.txt"]);
}

#[tokio::test]
async fn update_instances_names_them() {
    let headers = [("location", MONITOR)];
    let script = Script::new([answer(202, &headers, &Value::Null)]);
    let done = script
        .arm()
        .update_instances(&pool(), &["4".to_owned()])
        .await
        .unwrap();
    check(&script, &done, expect_file!["wire/update_instances.txt"]);
}

#[tokio::test]
async fn reimage_sends_bootstrap_data() {
    let headers = [("azure-asyncoperation", POLL)];
    let script = Script::new([answer(202, &headers, &Value::Null)]);
    let reimage = Reimage {
        instance_ids: vec!["4".to_owned()],
        force_update_os_disk_for_ephemeral: Some(true),
        os_profile: Some(ReimageOsProfile {
            custom_data: Some("Ym9vdHN0cmFw".into()),
            ..ReimageOsProfile::default()
        }),
        ..Reimage::default()
    };
    let done = script
        .arm()
        .reimage_instances(&pool(), &reimage)
        .await
        .unwrap();
    check(&script, &done, expect_file!["wire/reimage_instances.txt"]);
}

#[tokio::test]
async fn instances_are_never_addressed_all_at_once() {
    let script = Script::new([]);
    let arm = script.arm();
    let everyone = ["*".to_owned()];
    assert!(
        arm.delete_instances(&pool(), &[], Deletion::Graceful)
            .await
            .is_err()
    );
    assert!(
        arm.delete_instances(&pool(), &everyone, Deletion::Graceful)
            .await
            .is_err()
    );
    assert!(arm.update_instances(&pool(), &[]).await.is_err());
    assert!(
        arm.reimage_instances(&pool(), &Reimage::default())
            .await
            .is_err()
    );
    assert_eq!(script.count(), 0);
}

#[tokio::test]
async fn resource_group_is_looked_for_by_name() {
    let group = json!({"name": "Group-A", "location": "westeurope",
                       "properties": {"provisioningState": "Succeeded"}});
    let gone = json!({"error": {"code": "ResourceGroupNotFound", "message": "No such group."}});
    let script = Script::new([answer(200, &[], &group), answer(404, &[], &gone)]);
    let arm = script.arm();
    let first = arm.resource_group_exists("s", "Group-A").await.unwrap();
    let second = arm.resource_group_exists("s", "Group B").await.unwrap();
    check(
        &script,
        &(first, second),
        expect_file!["wire/resource_group_exists.txt"],
    );
}

#[tokio::test]
async fn vm_sizes_leave_out_disks_and_barred_zones() {
    let skus = json!({"value": [
        {"resourceType": "disks", "name": "Premium_LRS"},
        {"resourceType": "virtualMachines", "name": "Standard_D4s_v5",
         "family": "standardDSv5Family",
         "locationInfo": [{"location": "westeurope", "zones": ["1", "2", "3"]}],
         "capabilities": [{"name": "vCPUs", "value": "4"},
                          {"name": "EphemeralOSDiskSupported", "value": "False"}],
         "restrictions": [{"type": "Zone", "values": ["westeurope"],
                           "restrictionInfo": {"zones": ["3"]},
                           "reasonCode": "NotAvailableForSubscription"}]},
        {"resourceType": "virtualMachines", "name": "Standard_B2s",
         "restrictions": [{"type": "Location", "reasonCode": "QuotaId"}]}
    ]});
    let script = Script::new([answer(200, &[], &skus)]);
    let sizes = script.arm().list_vm_sizes("s", "westeurope").await.unwrap();
    check(&script, &sizes, expect_file!["wire/list_vm_sizes.txt"]);
}

#[tokio::test]
async fn a_name_stays_inside_its_path_segment() {
    let script = Script::new([answer(204, &[], &Value::Null)]);
    let done = script
        .arm()
        .delete_instance(&pool(), "../x?y", Deletion::Graceful)
        .await;
    assert_eq!(done.unwrap(), None);
    let path = script.request(0, |request| request.uri().path().to_owned());
    assert!(
        path.ends_with("/pool-a/virtualMachines/..%2Fx%3Fy"),
        "{path}"
    );
}

#[tokio::test]
async fn a_list_that_leads_elsewhere_or_in_a_circle_is_given_up() {
    let to = |link: &str| answer(200, &[], &json!({"value": [], "nextLink": link}));
    let elsewhere = Script::new([to("https://other.test/page")]);
    let error = elsewhere.arm().list_instances(&pool()).await.unwrap_err();
    assert!(error.to_string().contains("other.test"), "{error}");
    assert_eq!(elsewhere.count(), 1, "the token went to another host");

    let circle = Script::new((0..200).map(|_| to("https://arm.test/again")));
    let error = circle.arm().list_instances(&pool()).await.unwrap_err();
    assert!(error.to_string().contains("no end"), "{error}");
}

fn check(script: &Script, result: &impl Debug, golden: ExpectFile) {
    assert!(script.is_used_up(), "an answer was not asked for");
    golden.assert_eq(&format!("{}= {result:#?}\n", script.transcript()));
}

fn whole_model() -> ScaleSet {
    let protected = json!({"key": "protected-setting"});
    ScaleSet {
        location: Some("westeurope".to_owned()),
        tags: Some([("owner".to_owned(), "cluster-a".to_owned())].into()),
        zones: Some(vec!["1".to_owned(), "2".to_owned()]),
        sku: Some(Sku {
            name: Some("Standard_D4s_v5".to_owned()),
            tier: Some("Standard".to_owned()),
            capacity: Some(3),
        }),
        properties: Some(ScaleSetProperties {
            orchestration_mode: Some("Uniform".to_owned()),
            overprovision: Some(false),
            do_not_run_extensions_on_overprovisioned_vms: Some(false),
            upgrade_policy: Some(UpgradePolicy {
                mode: Some("Manual".to_owned()),
            }),
            virtual_machine_profile: Some(VirtualMachineProfile {
                os_profile: Some(OsProfile {
                    computer_name_prefix: Some("pool-a".to_owned()),
                    admin_username: Some("capi".to_owned()),
                    custom_data: Some("Ym9vdHN0cmFw".into()),
                    ..OsProfile::default()
                }),
                storage_profile: Some(image("1.33.2")),
                extension_profile: Some(ExtensionProfile {
                    extensions: Some(vec![Extension {
                        name: Some("bootstrapped".to_owned()),
                        properties: Some(ExtensionProperties {
                            kind: Some("Linux".to_owned()),
                            settings: Some(json!({"timeout": 900})),
                            protected_settings: Some(Secret::new(protected)),
                            ..ExtensionProperties::default()
                        }),
                    }]),
                    ..ExtensionProfile::default()
                }),
                ..VirtualMachineProfile::default()
            }),
            ..ScaleSetProperties::default()
        }),
        ..ScaleSet::default()
    }
}

fn image_patch(version: &str) -> ScaleSetPatch {
    ScaleSetPatch {
        properties: Some(ScaleSetPatchProperties {
            virtual_machine_profile: Some(VirtualMachineProfilePatch {
                os_profile: Some(OsProfilePatch {
                    custom_data: Some("bmV3IGJvb3RzdHJhcA==".into()),
                    ..OsProfilePatch::default()
                }),
                storage_profile: Some(image(version)),
                ..VirtualMachineProfilePatch::default()
            }),
            ..ScaleSetPatchProperties::default()
        }),
        ..ScaleSetPatch::default()
    }
}

fn image(version: &str) -> StorageProfile {
    StorageProfile {
        image_reference: Some(ImageReference {
            community_gallery_image_id: Some(format!(
                "/CommunityGalleries/capi/Images/ubuntu/Versions/{version}"
            )),
            ..ImageReference::default()
        }),
        ..StorageProfile::default()
    }
}

fn scale_set(etag: &str, state: &str) -> Value {
    json!({
        "name": "pool-a", "location": "westeurope", "etag": etag,
        "sku": {"name": "Standard_D4s_v5", "tier": "Standard", "capacity": 4},
        "aFieldWeDoNotKnow": {"deep": [1]},
        "properties": {"provisioningState": state, "uniqueId": "u-1",
                       "timeCreated": "2026-11-30T10:00:00.1234567+00:00"},
    })
}

fn instance(id: &str, state: &str) -> Value {
    json!({
        "name": format!("pool-a_{id}"), "instanceId": id, "zones": ["1"], "etag": "\"3\"",
        "properties": {
            "latestModelApplied": id != "0", "provisioningState": state, "vmId": format!("vm-{id}"),
            "osProfile": {"computerName": format!("pool-a{id:0>6}")},
            "timeCreated": "2026-11-30T10:00:01.0000000+00:00",
            "instanceView": {"statuses": [
                {"code": "ProvisioningState/updating", "time": "2026-11-30T10:01:30+00:00"},
                {"code": "PowerState/running", "displayStatus": "VM running"}]},
        },
    })
}

fn summary(set: &ScaleSet) -> String {
    let etag = set.etag.as_ref().map(ETag::as_str).unwrap_or_default();
    let state = set.provisioning_state();
    format!("{state:?}, capacity {}, etag {etag}", set.capacity())
}

fn accepted_summary(accepted: &Accepted<ScaleSet>) -> (String, String) {
    (
        summary(&accepted.resource),
        format!("{:?}", accepted.operation),
    )
}

fn instance_summary(instance: &Instance) -> String {
    format!(
        "{} {:?} {:?} latest model {} zone {} host {}",
        instance.instance_id,
        instance.provisioning_state(),
        instance.power_state(),
        instance.has_latest_model(),
        instance.zone().unwrap_or_default(),
        instance.computer_name().unwrap_or_default(),
    )
}
