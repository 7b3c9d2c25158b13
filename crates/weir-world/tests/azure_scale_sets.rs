//! Do scale sets and instances behave as docs/azure.md says?

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, as it should"
)]

mod azure_support;

use azure_support::{Lab, START, capacity, image_id, new_image, pool};
use http::{Method, StatusCode};
use jiff::SignedDuration;
use serde_json::{Value, json};
use weir_world::azure::{
    AzureOptions, CreateFailure, Delay, GroupCase, InstanceIds, ParallelWrites, Quota, ReimageTo,
    StaleOn, VmEvent,
};

const IMAGE: &str =
    "/properties/virtualMachineProfile/storageProfile/imageReference/communityGalleryImageId";

#[test]
fn a_created_set_says_creating_and_succeeds_only_after_its_instances() {
    let mut lab = Lab::new(AzureOptions::calm());
    let made = lab.put("", &pool(3));
    assert_eq!(made.status, StatusCode::CREATED);
    assert_eq!(made.text("/properties/provisioningState"), "Creating");
    assert_eq!(made.text("/etag"), "\"1\"");
    assert_eq!(made.header("etag"), Some("\"1\""));
    assert!(made.header("location").is_none());
    lab.pass(59);
    assert_eq!(lab.state(), "Creating");
    lab.pass(1);
    assert_eq!(lab.state(), "Succeeded");
    assert!(lab.instances().iter().all(|fact| fact.is_running));
}

#[test]
fn a_put_of_capacity_alone_keeps_image_tags_and_profile() {
    let mut lab = Lab::with_pool(3);
    let before = lab.get("").body;
    let scaled = lab.put("", &capacity(4));
    assert_eq!(scaled.status, StatusCode::OK);
    assert_eq!(scaled.text("/properties/provisioningState"), "Updating");
    lab.settle();
    let after = lab.get("").body;
    assert_eq!(after.pointer(IMAGE), before.pointer(IMAGE));
    assert_eq!(after["tags"], before["tags"]);
    assert_eq!(after["sku"]["capacity"], 4);
    assert_eq!(lab.instances().len(), 4);
}

#[test]
fn an_empty_storage_profile_keeps_the_image_and_tags_are_replaced_whole() {
    let mut lab = Lab::with_pool(1);
    let body = json!({"location": "westeurope", "tags": {"a": "b"},
        "properties": {"virtualMachineProfile": {"storageProfile": {}}}});
    lab.put("", &body);
    let after = lab.get("");
    assert_eq!(after.text(IMAGE), image_id("1.33.2"));
    assert_eq!(after.body["tags"], json!({"a": "b"}));
}

#[test]
fn capacity_falls_by_the_number_deleted_at_once() {
    let mut lab = Lab::with_pool(4);
    let ids = lab.ids();
    let deleted = lab.post("/delete", &[&ids[0], &ids[2]]);
    assert_eq!(deleted.status, StatusCode::ACCEPTED);
    assert_eq!(lab.capacity(), 2);
    assert_eq!(lab.instances().len(), 4, "still listed while they leave");
    let leaving = lab.get(&format!("/virtualMachines/{}", ids[0]));
    assert_eq!(leaving.text("/properties/provisioningState"), "Deleting");
    lab.settle();
    assert_eq!(lab.ids(), [ids[1].clone(), ids[3].clone()]);
    assert_eq!(lab.capacity(), 2);
}

#[test]
fn the_lower_capacity_can_show_late_while_the_set_is_updating() {
    let mut options = AzureOptions::calm();
    options.latency.capacity_lag = Delay::fixed(SignedDuration::from_secs(20));
    let mut lab = Lab::new(options);
    lab.create_pool(4);
    let ids = lab.ids();
    lab.post("/delete", &[&ids[0], &ids[1]]);
    lab.pass(19);
    assert_eq!((lab.capacity(), lab.state().as_str()), (4, "Updating"));
    assert_eq!(lab.azure.capacity("pool-a"), Some(2));
    lab.pass(1);
    assert_eq!(lab.capacity(), 2);
}

#[test]
fn capacity_put_during_a_delete_replaces_what_leaves() {
    let mut lab = Lab::with_pool(3);
    let ids = lab.ids();
    lab.delete(&format!("/virtualMachines/{}", ids[0]));
    assert_eq!(lab.capacity(), 2);
    lab.put("", &capacity(3));
    assert_eq!(lab.instances().len(), 4);
    lab.settle();
    assert_eq!(lab.instances().len(), 3);
    assert!(!lab.ids().contains(&ids[0]));
}

#[test]
fn a_second_delete_of_the_same_instance_does_not_lower_capacity_again() {
    let mut lab = Lab::with_pool(3);
    let id = lab.ids()[0].clone();
    for _ in 0..2 {
        let deleted = lab.delete(&format!("/virtualMachines/{id}"));
        assert_eq!(deleted.status, StatusCode::ACCEPTED);
    }
    lab.settle();
    assert_eq!((lab.capacity(), lab.instances().len()), (2, 2));
    let absent = lab.delete(&format!("/virtualMachines/{id}"));
    assert_eq!(absent.status, StatusCode::NO_CONTENT);
}

#[test]
fn an_image_change_makes_old_instances_stale_and_nothing_else_does() {
    let mut lab = Lab::with_pool(2);
    let stale = |lab: &Lab| {
        lab.instances()
            .iter()
            .filter(|f| !f.has_latest_model)
            .count()
    };
    let harmless = [
        capacity(3),
        json!({"tags": {"x": "y"}}),
        json!({"properties": {"upgradePolicy": {"mode": "Manual"},
            "scaleInPolicy": {"rules": ["OldestVM"]}}}),
        json!({"properties": {"virtualMachineProfile": {"osProfile": {
            "customData": "bmV3"}}}}),
    ];
    for body in harmless {
        lab.put("", &body);
        lab.settle();
        assert_eq!(stale(&lab), 0, "{body}");
    }
    let patched = lab.patch(&new_image("1.33.3"));
    assert_eq!(patched.status, StatusCode::OK);
    lab.settle();
    assert_eq!(stale(&lab), 3);
    lab.put("", &capacity(4));
    lab.settle();
    assert_eq!(stale(&lab), 3, "the new instance has the new model");
    let listed = lab.get("/virtualMachines?$filter=properties/latestModelApplied%20eq%20true");
    assert_eq!(listed.status, StatusCode::OK);
    let listed = listed.body["value"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 1);
    let image = "/properties/storageProfile/imageReference/communityGalleryImageId";
    assert_eq!(listed[0].pointer(image), Some(&json!(image_id("1.33.3"))));
}

#[test]
fn tags_and_custom_data_count_as_model_when_the_options_say_so() {
    let options = AzureOptions {
        stale_on: [StaleOn::Tags, StaleOn::CustomData].into(),
        ..AzureOptions::calm()
    };
    let bodies = [
        json!({"tags": {"x": "y"}}),
        json!({"properties": {"virtualMachineProfile": {"osProfile": {"customData": "bmV3"}}}}),
    ];
    for body in bodies {
        let mut lab = Lab::new(options.clone());
        lab.create_pool(1);
        lab.put("", &body);
        assert!(!lab.instances()[0].has_latest_model, "{body}");
    }
}

#[test]
fn a_manual_upgrade_moves_only_the_named_instance_and_keeps_its_identity() {
    let mut lab = Lab::with_pool(2);
    lab.patch(&new_image("1.33.3"));
    lab.settle();
    lab.events.clear();
    let before = lab.instances();
    let id = before[0].vm.instance_id.clone();
    assert_eq!(
        lab.post("/manualupgrade", &[&id]).status,
        StatusCode::ACCEPTED
    );
    lab.settle();
    let after = lab.instances();
    assert!(after[0].has_latest_model && !after[1].has_latest_model);
    assert_eq!(after[0].vm.vm_id, before[0].vm.vm_id);
    assert_eq!(
        after[0].vm.image["communityGalleryImageId"],
        image_id("1.33.3")
    );
    assert!(matches!(
        lab.events.as_slice(),
        [VmEvent::Stopped { .. }, VmEvent::Reimaged(_)]
    ));
}

#[test]
fn custom_data_is_never_returned_and_reaches_old_instances_by_reimage_only() {
    let mut lab = Lab::with_pool(1);
    let change = json!({"properties": {"virtualMachineProfile": {"osProfile": {
        "customData": "bmV3"}}}});
    let secrets = ["bmV3", "I2Nsb3Vk", "hunter2", "customData", "adminPassword"];
    let answers = [
        lab.put("", &change).body,
        lab.get("").body,
        lab.get("/virtualMachines?$expand=instanceView").body,
    ];
    for (answer, secret) in answers.iter().flat_map(|a| secrets.map(|s| (a, s))) {
        assert!(!answer.to_string().contains(secret), "{secret}");
    }
    lab.settle();
    let data = |lab: &Lab| lab.instances()[0].vm.custom_data.clone().unwrap();
    let id = lab.ids()[0].clone();
    lab.post("/manualupgrade", &[&id]);
    lab.settle();
    assert_eq!(data(&lab).bytes(), b"#cloud-config\n");
    lab.post("/reimage", &[&id]);
    lab.settle();
    assert_eq!(data(&lab).bytes(), b"new");
    let printed = format!("{:?} {:?}", lab.azure, lab.instances());
    for secret in ["cloud-config", "hunter2"] {
        assert!(!printed.contains(secret), "{secret}");
    }
}

#[test]
fn a_reimage_keeps_the_instances_model_unless_the_options_say_otherwise() {
    let rows = [
        (ReimageTo::InstanceModel, "1.33.2"),
        (ReimageTo::LatestModel, "1.33.3"),
    ];
    for (reimage_to, version) in rows {
        let mut lab = Lab::new(AzureOptions {
            reimage_to,
            ..AzureOptions::calm()
        });
        lab.create_pool(1);
        lab.patch(&new_image("1.33.3"));
        lab.settle();
        let id = lab.ids()[0].clone();
        lab.ask(
            Method::POST,
            &format!("/virtualMachines/{id}/reimage"),
            None,
        );
        lab.settle();
        let image = lab.instances()[0].vm.image["communityGalleryImageId"].clone();
        assert_eq!(image, image_id(version), "{reimage_to:?}");
    }
}

#[test]
fn parallel_deletes_collide() {
    let rows = [
        (ParallelWrites::Accept, StatusCode::CONFLICT, "InProgress"),
        (ParallelWrites::Conflict, StatusCode::CONFLICT, "InProgress"),
        (ParallelWrites::Preempt, StatusCode::ACCEPTED, "Canceled"),
    ];
    for (parallel_writes, status, first_status) in rows {
        let mut lab = Lab::new(AzureOptions {
            parallel_writes,
            ..AzureOptions::calm()
        });
        lab.create_pool(3);
        let ids = lab.ids();
        let first = lab.post("/delete", &[&ids[0]]);
        let second = lab.post("/delete", &[&ids[1]]);
        assert_eq!(second.status, status, "{parallel_writes:?}");
        let poll = lab.get_url(&first.poll_url());
        assert_eq!(poll.status, StatusCode::OK);
        assert_eq!(poll.text("/status"), first_status, "{parallel_writes:?}");
        match status {
            StatusCode::CONFLICT => assert_eq!(second.code(), "Conflict"),
            _ => assert_eq!(poll.code(), "OperationPreempted"),
        }
    }
}

#[test]
fn a_delete_may_follow_another_one_that_was_accepted() {
    let mut lab = Lab::new(AzureOptions {
        parallel_writes: ParallelWrites::Accept,
        ..AzureOptions::calm()
    });
    lab.create_pool(3);
    let ids = lab.ids();
    let first = lab.post("/delete", &[&ids[0]]);
    lab.pass(3);
    let second = lab.post("/delete", &[&ids[1]]);
    assert_eq!(second.status, StatusCode::ACCEPTED);
    assert_eq!(lab.get_url(&first.poll_url()).text("/status"), "InProgress");
    lab.settle();
    assert_eq!(lab.instances().len(), 1);
}

#[test]
fn parallel_puts_follow_the_options() {
    let rows = [
        (ParallelWrites::Accept, StatusCode::OK, "InProgress"),
        (ParallelWrites::Conflict, StatusCode::CONFLICT, "InProgress"),
        (ParallelWrites::Preempt, StatusCode::OK, "Canceled"),
    ];
    for (parallel_writes, status, first_status) in rows {
        let mut lab = Lab::new(AzureOptions {
            parallel_writes,
            ..AzureOptions::calm()
        });
        lab.create_pool(1);
        let first = lab.put("", &capacity(2));
        let second = lab.put("", &capacity(3));
        assert_eq!(second.status, status, "{parallel_writes:?}");
        let poll = lab.get_url(&first.poll_url());
        assert_eq!(poll.text("/status"), first_status, "{parallel_writes:?}");
        lab.settle();
        assert_eq!(lab.state(), "Succeeded");
        let expected = if status == StatusCode::OK { 3 } else { 2 };
        assert_eq!(lab.instances().len(), expected, "{parallel_writes:?}");
    }
}

#[test]
fn ids_have_gaps_and_can_come_back_with_another_machine() {
    let mut lab = Lab::new(AzureOptions {
        ids: InstanceIds {
            gap: 0.5,
            reuse: 1.0,
        },
        ..AzureOptions::calm()
    });
    lab.create_pool(12);
    let ids: Vec<u32> = lab.ids().iter().map(|id| id.parse().unwrap()).collect();
    assert!(*ids.last().unwrap() > 11, "{ids:?}");
    let old = lab.instances()[3].vm.clone();
    lab.delete(&format!("/virtualMachines/{}", old.instance_id));
    lab.settle();
    lab.put("", &capacity(12));
    lab.settle();
    let facts = lab.instances();
    let new = facts.iter().find(|f| f.vm.instance_id == old.instance_id);
    let new = &new.unwrap().vm;
    assert_eq!(new.provider_id, old.provider_id);
    assert_ne!(new.vm_id, old.vm_id);
    assert!(new.created > old.created);
}

#[test]
fn names_follow_azure() {
    let mut lab = Lab::new(AzureOptions {
        group_case: GroupCase::Upper,
        ..AzureOptions::calm()
    });
    lab.create_pool(1);
    let vm = lab.instances()[0].vm.clone();
    assert_eq!(vm.computer_name, "pool-a000000");
    assert_eq!(
        vm.provider_id,
        "azure:///subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/cluster-a/\
         providers/Microsoft.Compute/virtualMachineScaleSets/pool-a/virtualMachines/0"
    );
    let shown = lab.get("/virtualMachines/0");
    assert!(shown.text("/id").contains("/resourceGroups/CLUSTER-A/"));
    assert_eq!(shown.text("/name"), "pool-a_0");
}

#[test]
fn a_put_with_an_old_etag_is_refused_in_azures_words() {
    let mut lab = Lab::with_pool(1);
    lab.put("", &capacity(2));
    lab.put("", &capacity(3));
    let url = azure_support::url("");
    let body = capacity(4);
    let old = lab.request(Method::PUT, &url, &[("if-match", "\"2\"")], Some(&body));
    assert_eq!(old.status, StatusCode::PRECONDITION_FAILED);
    assert_eq!(old.code(), "PreconditionFailed");
    assert_eq!(
        old.message(),
        "Etag provided in if-match header \"2\" does not match etag \"3\" of resource."
    );
    let good = lab.request(Method::PUT, &url, &[("if-match", "\"3\"")], Some(&body));
    assert_eq!(good.status, StatusCode::OK);
    assert_eq!(good.text("/etag"), "\"4\"");
    let only_new = lab.request(Method::PUT, &url, &[("if-none-match", "*")], Some(&body));
    assert_eq!(only_new.status, StatusCode::PRECONDITION_FAILED);
    let vm = lab.get("/virtualMachines/0");
    assert_eq!(
        vm.text("/etag"),
        "\"4\"",
        "instances carry the set's number"
    );
}

#[test]
fn unknown_instances_are_400_for_writes_and_404_for_reads() {
    let mut lab = Lab::with_pool(2);
    let id = lab.ids()[0].clone();
    let writes = [
        lab.post("/delete", &[&id, "77"]),
        lab.post("/manualupgrade", &["77"]),
        lab.post("/reimage", &["77"]),
        lab.put("/virtualMachines/77", &json!({"properties": {}})),
        lab.ask(Method::POST, "/virtualMachines/77/restart", None),
    ];
    for answer in &writes {
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert_eq!(answer.code(), "InvalidParameter");
        assert_eq!(answer.text("/error/target"), "instanceIds");
        assert_eq!(
            answer.message(),
            "The provided instanceId 77 is not an active Virtual Machine Scale Set VM instanceId."
        );
    }
    assert_eq!(lab.capacity(), 2, "one bad id spoils the whole list");
    let read = lab.get("/virtualMachines/77");
    assert_eq!(
        (read.status, read.code()),
        (StatusCode::NOT_FOUND, "ResourceNotFound")
    );
}

#[test]
fn fixed_properties_cannot_change() {
    let mut lab = Lab::with_pool(1);
    let rows = [
        (
            json!({"properties": {"platformFaultDomainCount": 2}}),
            "platformFaultDomainCount",
        ),
        (
            json!({"properties": {"singlePlacementGroup": true}}),
            "singlePlacementGroup",
        ),
        (json!({"zones": []}), "zones"),
        (
            json!({"properties": {"virtualMachineProfile": {"storageProfile": {"osDisk": {
                "managedDisk": {"storageAccountType": "Standard_LRS"}}}}}}),
            "osDisk.managedDisk.storageAccountType",
        ),
    ];
    for (body, property) in rows {
        let refused = lab.put("", &body);
        assert_eq!(refused.status, StatusCode::CONFLICT, "{property}");
        assert_eq!(refused.code(), "PropertyChangeNotAllowed");
        assert_eq!(refused.text("/error/target"), property);
        assert_eq!(
            refused.message(),
            format!("Changing property '{property}' is not allowed.")
        );
    }
    let unknown = lab.patch(&json!({"properties": {"zoneBalance": true}}));
    assert_eq!(
        (unknown.status, unknown.code()),
        (StatusCode::BAD_REQUEST, "BadRequest")
    );
}

#[test]
fn quota_is_refused_at_once_and_nothing_changes() {
    let quota = Quota {
        cores: Some(12),
        instances: None,
    };
    let mut lab = Lab::new(AzureOptions {
        quota,
        ..AzureOptions::calm()
    });
    lab.create_pool(3);
    let refused = lab.put("", &capacity(5));
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert_eq!(refused.code(), "OperationNotAllowed");
    assert_eq!(
        refused.message(),
        "Operation could not be completed as it results in exceeding approved \
         standardDSv5Family Cores quota. Additional details - Deployment Model: Resource Manager, \
         Location: westeurope, Current Limit: 12, Current Usage: 12, Additional Required: 8, \
         (Minimum) New Limit Required: 20."
    );
    assert_eq!((lab.capacity(), lab.state().as_str()), (3, "Succeeded"));
}

#[test]
fn sizes_are_checked_at_once() {
    let mut lab = Lab::new(AzureOptions {
        sizes_unavailable: ["Standard_B2s".to_owned()].into(),
        ..AzureOptions::calm()
    });
    let rows = [
        (
            "Standard_Nonsense",
            StatusCode::BAD_REQUEST,
            "InvalidParameter",
        ),
        ("Standard_B2s", StatusCode::CONFLICT, "SkuNotAvailable"),
    ];
    for (size, status, code) in rows {
        let mut body = pool(1);
        body["sku"]["name"] = json!(size);
        let refused = lab.put("", &body);
        assert_eq!((refused.status, refused.code()), (status, code), "{size}");
    }
    assert_eq!(lab.get("").status, StatusCode::NOT_FOUND);
}

#[test]
fn a_failed_creation_shows_in_the_poll_and_leaves_the_capacity_raised() {
    let rows = [
        (CreateFailure::Allocation, "AllocationFailed", 60, false),
        (
            CreateFailure::OsTimeout,
            "OSProvisioningTimedOut",
            60 + 20 * 60,
            true,
        ),
        (
            CreateFailure::Extension,
            "VMExtensionProvisioningError",
            60 + 10 * 60,
            true,
        ),
    ];
    for (failure, code, seconds, runs) in rows {
        let mut lab = Lab::with_pool(1);
        lab.azure.fail_next_creates([failure]);
        let asked = lab.put("", &capacity(3));
        assert_eq!(asked.status, StatusCode::OK, "refused later, not at once");
        lab.pass(seconds - 1);
        assert_eq!(lab.state(), "Updating", "{failure:?}");
        lab.pass(1);
        let poll = lab.get_url(&asked.poll_url());
        assert_eq!((poll.text("/status"), poll.code()), ("Failed", code));
        assert_eq!((lab.state().as_str(), lab.capacity()), ("Failed", 3));
        let facts = lab.instances();
        let failed: Vec<_> = facts.iter().filter(|f| f.failure_code.is_some()).collect();
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0].is_running, runs, "{failure:?}");
        assert_eq!(
            facts
                .iter()
                .filter(|f| f.provisioning_state == "Succeeded")
                .count(),
            2
        );
        let view = lab.get(&format!(
            "/virtualMachines/{}/instanceView",
            failed[0].vm.instance_id
        ));
        assert_eq!(
            view.text("/statuses/0/code"),
            format!("ProvisioningState/failed/{code}")
        );
        lab.put("", &capacity(3));
        lab.settle();
        assert_eq!(
            lab.state(),
            "Succeeded",
            "the next write repairs the set's state"
        );
    }
}

#[test]
fn a_terminate_notice_holds_a_delete_and_nothing_else() {
    let mut lab = Lab::new(AzureOptions::calm());
    let mut body = pool(2);
    body["properties"]["virtualMachineProfile"]["scheduledEventsProfile"] = json!({
        "terminateNotificationProfile": {"enable": true, "notBeforeTimeout": "PT7M"}});
    lab.put("", &body);
    lab.settle();
    lab.events.clear();
    let ids = lab.ids();
    let deleted = lab.delete(&format!("/virtualMachines/{}", ids[0]));
    lab.pass(7 * 60 - 1);
    assert!(
        lab.instances()[0].is_running,
        "it runs until its notice is over"
    );
    assert_eq!(lab.instances()[0].provisioning_state, "Deleting");
    lab.pass(60);
    assert_eq!(
        lab.get_url(&deleted.poll_url()).text("/status"),
        "InProgress"
    );
    lab.pass(1);
    assert_eq!(
        lab.get_url(&deleted.poll_url()).text("/status"),
        "Succeeded"
    );
    let kinds: Vec<&str> = lab.events.iter().map(kind).collect();
    assert_eq!(kinds, ["deleting", "stopped", "gone"]);
    lab.post("/restart", &[&ids[1]]);
    lab.pass(60);
    assert!(
        lab.instances()[0].is_running,
        "a restart waits for no notice"
    );
}

#[test]
fn an_eviction_follows_the_policy() {
    let rows = [("Delete", 1, 1), ("Deallocate", 2, 2)];
    for (policy, capacity_after, count_after) in rows {
        let mut lab = Lab::new(AzureOptions::calm());
        let mut body = pool(2);
        let profile = &mut body["properties"]["virtualMachineProfile"];
        profile["priority"] = json!("Spot");
        profile["evictionPolicy"] = json!(policy);
        lab.put("", &body);
        lab.settle();
        let path = format!("/virtualMachines/{}/simulateEviction", lab.ids()[0]);
        let answer = lab.ask(Method::POST, &path, None);
        assert_eq!(answer.status, StatusCode::NO_CONTENT);
        assert_eq!(lab.instances().len(), 2, "it follows later");
        lab.settle();
        assert_eq!(lab.capacity(), capacity_after, "{policy}");
        assert_eq!(lab.instances().len(), count_after, "{policy}");
        assert_eq!(lab.instances().iter().filter(|f| f.is_running).count(), 1);
    }
}

#[test]
fn scale_in_takes_from_the_largest_zone_by_the_rule_and_spares_the_protected() {
    // Zones fill in turn: 1 has ids 0, 3, 6; 2 has 1, 4; 3 has 2, 5.
    let rows = [("Default", "6"), ("NewestVM", "6"), ("OldestVM", "0")];
    for (rule, victim) in rows {
        let mut lab = Lab::new(AzureOptions::calm());
        let mut body = pool(7);
        body["zones"] = json!(["1", "2", "3"]);
        body["properties"]["scaleInPolicy"] = json!({"rules": [rule]});
        lab.put("", &body);
        lab.settle();
        lab.put("", &capacity(6));
        lab.settle();
        assert!(
            !lab.ids().contains(&victim.to_owned()),
            "{rule}: {:?}",
            lab.ids()
        );
    }
    let mut lab = Lab::with_pool(3);
    let protect = json!({"properties": {"protectionPolicy": {"protectFromScaleIn": true}}});
    let answer = lab.put("/virtualMachines/2", &protect);
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.text("/properties/provisioningState"), "Updating");
    assert_eq!(
        lab.state(),
        "Succeeded",
        "the set says nothing about its instances"
    );
    lab.settle();
    lab.put("", &capacity(1));
    lab.settle();
    assert_eq!(lab.ids(), ["2"]);
}

#[test]
fn the_oldest_goes_from_the_largest_zone_even_if_another_zone_has_an_older_one() {
    let mut lab = Lab::new(AzureOptions::calm());
    let mut body = pool(6);
    body["zones"] = json!(["1", "2", "3"]);
    body["properties"]["scaleInPolicy"] = json!({"rules": ["OldestVM"]});
    lab.put("", &body);
    lab.settle();
    // Zone 1 loses its oldest and gets two younger ones: 3, 6, 7 against 1, 4 and 2, 5.
    lab.delete("/virtualMachines/0");
    lab.settle();
    lab.put("", &capacity(7));
    lab.settle();
    lab.put("", &capacity(6));
    lab.settle();
    assert_eq!(lab.ids(), ["1", "2", "4", "5", "6", "7"]);
}

#[test]
fn protection_from_actions_spares_an_instance_but_not_from_a_direct_delete() {
    let mut lab = Lab::with_pool(2);
    let policy = |scale_in: bool| {
        json!({"properties": {"protectionPolicy": {
            "protectFromScaleSetActions": true, "protectFromScaleIn": scale_in}}})
    };
    let refused = lab.put("/virtualMachines/0", &policy(false));
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    lab.put("/virtualMachines/0", &policy(true));
    lab.patch(&new_image("1.33.3"));
    lab.settle();
    lab.post("/manualupgrade", &["*"]);
    lab.settle();
    let latest: Vec<bool> = lab.instances().iter().map(|f| f.has_latest_model).collect();
    assert_eq!(latest, [false, true]);
    assert_eq!(
        lab.delete("/virtualMachines/0").status,
        StatusCode::ACCEPTED
    );
    lab.settle();
    assert_eq!(lab.ids(), ["1"]);
}

#[test]
fn power_actions_stop_and_start_the_machine() {
    let mut lab = Lab::with_pool(1);
    lab.events.clear();
    let power = |lab: &mut Lab| {
        let view = lab.get("/virtualMachines/0/instanceView");
        view.text("/statuses/1/code").to_owned()
    };
    let rows = [
        ("poweroff", "PowerState/stopped"),
        ("start", "PowerState/running"),
        ("deallocate", "PowerState/deallocated"),
        ("start", "PowerState/running"),
        ("restart", "PowerState/running"),
    ];
    for (action, state) in rows {
        let path = format!("/virtualMachines/0/{action}");
        assert_eq!(
            lab.ask(Method::POST, &path, None).status,
            StatusCode::ACCEPTED
        );
        lab.settle();
        assert_eq!(power(&mut lab), state, "{action}");
    }
    let kinds: Vec<&str> = lab.events.iter().map(kind).collect();
    assert_eq!(
        kinds,
        [
            "stopped", "booted", "stopped", "booted", "stopped", "booted"
        ]
    );
}

#[test]
fn a_set_is_gone_only_after_its_instances() {
    let mut lab = Lab::with_pool(2);
    let deleted = lab.delete("?forceDeletion=true");
    assert_eq!(deleted.status, StatusCode::ACCEPTED);
    assert_eq!(deleted.header("content-length"), Some("0"));
    assert_eq!(lab.state(), "Deleting");
    assert_eq!(lab.put("", &capacity(3)).code(), "OperationNotAllowed");
    assert_eq!(lab.delete("").status, StatusCode::ACCEPTED);
    lab.settle();
    assert_eq!(lab.get("").status, StatusCode::NOT_FOUND);
    assert_eq!(lab.delete("").status, StatusCode::NO_CONTENT);
    let gone = lab.events.iter().filter(|e| kind(e) == "gone").count();
    assert_eq!(gone, 2);
    assert_eq!(lab.azure.report().scale_sets["pool-a"].deleted, 2);
}

#[test]
fn instances_take_the_tags_of_their_day_and_bad_images_never_join() {
    let mut lab = Lab::new(AzureOptions {
        bad_images: ["1.33.3".to_owned()].into(),
        ..AzureOptions::calm()
    });
    lab.create_pool(1);
    let mut change = new_image("1.33.3");
    change["tags"] = json!({"owner": "later"});
    change["sku"] = json!({"capacity": 2});
    lab.put("", &change);
    lab.settle();
    let facts = lab.instances();
    let rows: Vec<(&str, bool)> = facts
        .iter()
        .map(|f| (f.vm.tags["owner"].as_str(), f.vm.never_joins))
        .collect();
    assert_eq!(rows, [("tests", false), ("later", true)]);
    assert!(
        facts
            .iter()
            .all(|f| f.is_running && f.provisioning_state == "Succeeded")
    );
}

#[test]
fn what_others_do_shows_in_capacity_and_etag() {
    let mut lab = Lab::with_pool(3);
    let etag = lab.get("").text("/etag").to_owned();
    assert!(lab.azure.vanish("pool-a", "1"));
    assert!(!lab.azure.vanish("pool-a", "1"));
    assert!(lab.azure.fail("pool-a", "0", "Broken"));
    assert!(lab.azure.stop("pool-a", "2"));
    assert_eq!(lab.capacity(), 2);
    assert_ne!(lab.get("").text("/etag"), etag);
    let facts = lab.instances();
    assert_eq!(facts[0].failure_code.as_deref(), Some("Broken"));
    assert!(facts[0].is_running && !facts[1].is_running);
    assert_eq!(facts[1].provisioning_state, "Succeeded");
}

#[test]
fn new_instances_are_listed_after_a_moment_and_real_latencies_vary() {
    let mut lab = Lab::new(AzureOptions {
        token_check: weir_world::azure::TokenCheck::Off,
        ..AzureOptions::default()
    });
    lab.put("", &pool(5));
    let listed = lab.get("/virtualMachines").body["value"].clone();
    assert_eq!(listed, json!([]));
    lab.pass(30);
    let listed = lab.get("/virtualMachines").body["value"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(5));
    let mut booted = Vec::new();
    while let Some(due) = lab.azure.next_due() {
        lab.now = due;
        for event in lab.azure.advance(due) {
            if let VmEvent::Booted(_) = event {
                booted.push(due.duration_since(START));
            }
        }
    }
    assert_eq!(booted.len(), 5);
    assert!(
        booted.windows(2).all(|pair| pair[0] < pair[1]),
        "{booted:?}"
    );
    assert!(booted[0] > SignedDuration::from_secs(30));
    assert!(booted[4] < SignedDuration::from_mins(10));
}

fn kind(event: &VmEvent) -> &'static str {
    match event {
        VmEvent::Booted(_) => "booted",
        VmEvent::Stopped { .. } => "stopped",
        VmEvent::Deleting { .. } => "deleting",
        VmEvent::Gone { .. } => "gone",
        VmEvent::Reimaged(_) => "reimaged",
    }
}

#[test]
fn server_filled_defaults_come_back() {
    let mut lab = Lab::with_pool(1);
    let profile = lab.get("").body["properties"]["virtualMachineProfile"].clone();
    let rows = [
        ("/osProfile/secrets", json!([])),
        ("/osProfile/allowExtensionOperations", json!(true)),
        ("/storageProfile/osDisk/osType", json!("Linux")),
        ("/storageProfile/osDisk/diskSizeGB", json!(30)),
        (
            "/networkProfile/networkInterfaceConfigurations/0/properties/dnsSettings",
            json!({"dnsServers": []}),
        ),
    ];
    for (pointer, value) in rows {
        assert_eq!(
            profile.pointer(pointer),
            Some::<&Value>(&value),
            "{pointer}"
        );
    }
}
