//! Is each part of the body as Azure and CAPZ have it?

use weir_azure::VmSize;

use super::*;

#[test]
fn the_body_of_a_plain_pool_is_complete() {
    let world = World::new();
    let mut body = world.json();
    body["tags"][REVISION_TAG] = json!("x");
    let subnet = format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/net-rg/providers/Microsoft.Network\
         /virtualNetworks/lab-vnet/subnets/nodes"
    );
    let image = "/CommunityGalleries/ClusterAPI-f72ceb4f-5159-4c26-a0fe-2ea738f0d019\
                 /Images/capi-ubun2-2404/Versions/1.33.1";
    let ip = json!({ "name": "ipConfig0", "properties": { "primary": true,
        "privateIPAddressVersion": "IPv4", "subnet": { "id": subnet } } });
    let key = json!({ "path": "/home/capi/.ssh/authorized_keys",
        "keyData": "ssh-rsa AAAAB3Nza someone\n" });
    let profile = json!({
        "osProfile": {
            "computerNamePrefix": "pool-a",
            "adminUsername": "capi",
            "customData": BASE64.encode(&world.bootstrap.data),
            "linuxConfiguration": { "disablePasswordAuthentication": true,
                "ssh": { "publicKeys": [key] } },
        },
        "storageProfile": {
            "imageReference": { "communityGalleryImageId": image },
            "osDisk": { "createOption": "FromImage", "osType": "Linux", "diskSizeGB": 30,
                "caching": "None" },
            "dataDisks": [],
        },
        "networkProfile": { "networkInterfaceConfigurations": [{ "name": "pool-a-nic-0",
            "properties": { "primary": true, "enableIPForwarding": true,
                "ipConfigurations": [ip] } }] },
        "diagnosticsProfile": { "bootDiagnostics": { "enabled": true } },
        "extensionProfile": { "extensions": [] },
    });
    let expected = json!({
        "location": "westeurope",
        "tags": {
            "Name": "pool-a",
            "kubernetes.io_cluster_lab": "owned",
            "sigs.k8s.io_cluster-api-provider-azure_cluster_lab": "owned",
            "sigs.k8s.io_cluster-api-provider-azure_role": "node",
            "owner": "platform",
            "stage": "test",
            "weir_revision": "x",
        },
        "sku": { "name": "Standard_D2s_v5", "tier": "Standard" },
        "zones": ["1", "2"],
        "properties": {
            "orchestrationMode": "Uniform",
            "singlePlacementGroup": false,
            "overprovision": false,
            "upgradePolicy": { "mode": "Manual" },
            "virtualMachineProfile": profile,
        },
    });
    assert_eq!(body, expected);
}

#[test]
fn a_pools_tags_win_over_the_clusters_and_ours_over_both() {
    let tags = json!({ "additionalTags": { "stage": "prod", "Name": "mine" } });
    let body = World::new().with(tags).json();
    assert_eq!(body["tags"]["stage"], "prod");
    assert_eq!(body["tags"]["owner"], "platform");
    assert_eq!(body["tags"]["Name"], "pool-a");
}

#[test]
fn names_are_short_enough_for_their_system_and_still_tell_pools_apart() {
    let windows = json!({ "template": { "osDisk": { "osType": "Windows" } } });
    let (long_a, long_b) = (
        format!("{}-a", "x".repeat(60)),
        format!("{}-b", "x".repeat(60)),
    );
    let rows = [
        (
            "a short Linux name is kept",
            json!({}),
            "pool-a",
            "pool-a",
            "pool-a",
        ),
        (
            "a Linux name of 20",
            json!({}),
            "production-pool-blue",
            "production-pool-blue",
            "production-pool-blue",
        ),
        (
            "a Windows name of 9",
            windows.clone(),
            "pool-wins",
            "pool-wins",
            "pool-wins",
        ),
        (
            "a Windows name of 10",
            windows,
            "pool-win-1",
            "win-win-1",
            "win-win-1",
        ),
    ];
    for (name, spec, pool, set, prefix) in rows {
        let world = World::new().with(spec).named(pool);
        let id = scale_set_id(&world.pool(), &world.azure_cluster(), None).unwrap();
        assert_eq!(id.name, set, "{name}");
        assert_eq!(
            world.profile()["osProfile"]["computerNamePrefix"],
            prefix,
            "{name}"
        );
    }
    let prefix = |name: &str| {
        let world = World::new().named(name);
        world.profile()["osProfile"]["computerNamePrefix"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(prefix(&long_a).len(), 58);
    assert_ne!(prefix(&long_a), prefix(&long_b));
}

#[test]
fn a_scale_set_is_found_by_cluster_and_pool() {
    let world = World::new();
    let id = scale_set_id(&world.pool(), &world.azure_cluster(), Some("other")).unwrap();
    assert_eq!(id, ScaleSetId::new(SUBSCRIPTION, "Lab-RG", "pool-a"));
    let bare = World::new()
        .with_cluster(json!({ "spec": { "subscriptionID": null, "resourceGroup": null } }));
    let id = scale_set_id(&bare.pool(), &bare.azure_cluster(), Some("default")).unwrap();
    assert_eq!(id, ScaleSetId::new("default", "lab-azure", "pool-a"));
    let error = scale_set_id(&bare.pool(), &bare.azure_cluster(), None).unwrap_err();
    assert_eq!(
        error,
        ModelError::NoSubscription {
            cluster: "lab-azure".to_owned()
        }
    );
}

#[test]
fn the_image_follows_the_version_unless_it_is_named() {
    let windows =
        || World::new().with(json!({ "template": { "osDisk": { "osType": "Windows" } } }));
    let rows = [
        (
            "Linux",
            World::new(),
            "v1.33.1",
            "capi-ubun2-2404",
            "1.33.1",
        ),
        (
            "no patch",
            World::new(),
            "v1.33",
            "capi-ubun2-2404",
            "1.33.0",
        ),
        (
            "first of its minor",
            World::new(),
            "v1.30.4",
            "capi-ubun2-2404",
            "1.30.4",
        ),
        (
            "Windows",
            windows(),
            "1.33.1",
            "capi-win-2022-containerd",
            "1.33.1",
        ),
        (
            "another Windows",
            windows().annotated("windowsServerVersion", "windows-2025"),
            "v1.33.1",
            "capi-win-2025-containerd",
            "1.33.1",
        ),
    ];
    for (name, world, version, image_name, image_version) in rows {
        let world =
            world.with_pool(json!({ "spec": { "template": { "spec": { "version": version } } } }));
        let found = image(&world.pool(), &world.machine_pool())
            .unwrap()
            .compute_gallery
            .unwrap();
        assert_eq!(
            (found.name.as_str(), found.version.as_str()),
            (image_name, image_version),
            "{name}"
        );
    }
}

#[test]
fn an_image_id_goes_where_azure_has_its_kind() {
    let rows = [
        ("/subscriptions/s/x", "id"),
        (
            "/communityGalleries/g/images/i/versions/1",
            "communityGalleryImageId",
        ),
        (
            "/SharedGalleries/g/images/i/versions/1",
            "sharedGalleryImageId",
        ),
    ];
    for (id, field) in rows {
        let world = World::new().with(json!({ "template": { "image": { "id": id } } }));
        let expected = json!({ field: id });
        assert_eq!(
            world.profile()["storageProfile"]["imageReference"],
            expected,
            "{id}"
        );
    }
}

#[test]
fn prices_are_sent_as_numbers() {
    let rows = [
        (json!(-1), Some(-1.0)),
        (json!("-1"), Some(-1.0)),
        (json!("0.01"), Some(0.01)),
        (json!("10m"), Some(0.01)),
        (json!("1e-2"), Some(0.01)),
        (json!(2), Some(2.0)),
        (json!("cheap"), None),
        (json!("inf"), None),
        (json!("1Ki"), None),
        (json!(""), None),
    ];
    for (price, expected) in rows {
        let spot = json!({ "template": { "spotVMOptions": { "maxPrice": price } } });
        let found = World::new().with(spot).try_wanted();
        let sent = found.ok().map(|wanted| {
            let profile = wanted.scale_set.virtual_machine_profile().unwrap().clone();
            profile.billing_profile.unwrap().max_price.unwrap()
        });
        assert_eq!(sent, expected, "{price}");
    }
}

#[test]
fn spot_machines_with_a_local_disk_are_deleted_when_evicted() {
    let spot = World::new().with(json!({ "template": { "spotVMOptions": {} } }));
    assert_eq!(spot.profile()["priority"], "Spot");
    assert_eq!(
        spot.profile()["evictionPolicy"],
        Value::Null,
        "Azure's own choice"
    );
    let local = spot
        .with(json!({ "template": { "osDisk": { "diffDiskSettings": { "option": "Local" } } } }));
    assert_eq!(local.profile()["evictionPolicy"], "Delete");
    assert_eq!(World::new().profile()["priority"], Value::Null);
}

#[test]
fn a_termination_notice_is_sent_as_a_span() {
    let world = World::new().with(json!({ "template": { "terminateNotificationTimeout": 7 } }));
    let expected =
        json!({ "terminateNotificationProfile": { "enable": true, "notBeforeTimeout": "PT7M" } });
    assert_eq!(world.profile()["scheduledEventsProfile"], expected);
}

#[test]
fn flexible_sets_say_their_fault_domains_and_leave_out_what_they_lack() {
    let flexible = || World::new().with(json!({ "orchestrationMode": "Flexible" }));
    let properties = flexible().json()["properties"].clone();
    assert_eq!(properties["platformFaultDomainCount"], 1);
    assert_eq!(properties["overprovision"], Value::Null);
    let network = &properties["virtualMachineProfile"]["networkProfile"];
    assert_eq!(network["networkApiVersion"], "2020-11-01");
    let chosen = flexible().with(json!({ "platformFaultDomainCount": 3 }));
    assert_eq!(chosen.json()["properties"]["platformFaultDomainCount"], 3);
}

#[test]
fn zone_balance_is_left_out_where_azure_refuses_it() {
    let balanced = || World::new().with(json!({ "zoneBalance": true }));
    assert_eq!(balanced().json()["properties"]["zoneBalance"], true);
    let mut regional = balanced();
    regional.machine_pool["spec"]["failureDomains"] = json!([]);
    assert_eq!(regional.json()["properties"]["zoneBalance"], Value::Null);
    assert_eq!(
        regional.json()["zones"],
        Value::Null,
        "an empty list would be a change"
    );
}

#[test]
fn several_identities_have_one_type_and_bare_keys() {
    let world = World::new().with(json!({
        "identity": "UserAssigned",
        "userAssignedIdentities": [
            { "providerID": "azure:///subscriptions/s/one" },
            { "providerID": "/subscriptions/s/two" },
        ],
    }));
    let expected = json!({
        "type": "UserAssigned",
        "userAssignedIdentities": { "/subscriptions/s/one": {}, "/subscriptions/s/two": {} },
    });
    assert_eq!(world.json()["identity"], expected);
}

#[test]
fn an_ultra_disk_brings_the_capability_unless_it_is_refused() {
    let disks = json!({ "template": { "dataDisks": [{ "nameSuffix": "u", "diskSizeGB": 8,
        "managedDisk": { "storageAccountType": "UltraSSD_LRS" } }] } });
    let path = "/properties/additionalCapabilities/ultraSSDEnabled";
    let world = World::new().with(disks.clone());
    assert_eq!(world.json().pointer(path), Some(&json!(true)));
    let off = json!({ "template": { "additionalCapabilities": { "ultraSSDEnabled": false } } });
    assert_eq!(
        World::new().with(disks).with(off).json().pointer(path),
        Some(&json!(false))
    );
}

#[test]
fn disks_without_a_number_get_the_lowest_free_one() {
    let disk = |lun: Value| json!({ "nameSuffix": "d", "diskSizeGB": 8, "lun": lun });
    let disks = json!([disk(json!(null)), disk(json!(0)), disk(json!(null))]);
    let world = World::new().with(json!({ "template": { "dataDisks": disks } }));
    let profile = world.profile();
    let sent = profile["storageProfile"]["dataDisks"].as_array().unwrap();
    let luns: Vec<_> = sent
        .iter()
        .map(|disk| disk["lun"].as_u64().unwrap())
        .collect();
    assert_eq!(luns, [1, 0, 2]);
}

#[test]
fn windows_has_a_password_and_no_key() {
    let world = World::new().with(json!({ "template": { "osDisk": { "osType": "Windows" } } }));
    let os = &world.profile()["osProfile"];
    assert_eq!(os["windowsConfiguration"]["enableAutomaticUpdates"], false);
    assert_eq!(os["linuxConfiguration"], Value::Null);
    let password = os["adminPassword"].as_str().unwrap();
    assert!(
        (12..=123).contains(&password.len()),
        "Azure's limits: {}",
        password.len()
    );
    let mut other = World::new().with(json!({ "template": { "osDisk": { "osType": "Windows" } } }));
    other.bootstrap.data = b"another".to_vec();
    assert_ne!(other.profile()["osProfile"]["adminPassword"], password);
    assert_eq!(
        other.revision(),
        world.revision(),
        "a password makes no machine old"
    );
}

#[test]
fn the_size_decides_what_the_spec_leaves_open() {
    let size = |pairs: &[(&str, &str)]| {
        let mut size = VmSize {
            name: "Standard_D2s_v5".to_owned(),
            family: None,
            zones: Default::default(),
            restriction: None,
            capabilities: BTreeMap::new(),
        };
        for (name, value) in pairs {
            size.capabilities
                .insert((*name).to_owned(), (*value).to_owned());
        }
        size
    };
    let accelerated = "/properties/virtualMachineProfile/networkProfile\
                       /networkInterfaceConfigurations/0/properties/enableAcceleratedNetworking";
    let fitted = |world: &World, size: &VmSize| {
        let wanted = fit_to_size(world.wanted(), size).unwrap();
        assert_eq!(wanted.revision, world.wanted().revision);
        serde_json::to_value(wanted.scale_set).unwrap()
    };
    let fast = size(&[
        ("AcceleratedNetworkingEnabled", "True"),
        ("CpuArchitectureType", "Arm64"),
    ]);
    let slow = size(&[
        ("EphemeralOSDiskSupported", "False"),
        ("EncryptionAtHostSupported", "False"),
    ]);
    assert_eq!(
        fitted(&World::new(), &fast).pointer(accelerated),
        Some(&json!(true))
    );
    assert_eq!(
        fitted(&World::new(), &slow).pointer(accelerated),
        Some(&json!(false))
    );
    let off = World::new().with(json!({ "template": { "acceleratedNetworking": false } }));
    assert_eq!(
        fitted(&off, &fast).pointer(accelerated),
        Some(&json!(false))
    );
    let reporting =
        World::new().with(json!({ "template": { "disableVMBootstrapExtension": false } }));
    let version = "/properties/virtualMachineProfile/extensionProfile/extensions/0/properties\
                   /typeHandlerVersion";
    assert_eq!(
        fitted(&reporting, &fast).pointer(version),
        Some(&json!("1.1"))
    );
    assert_eq!(
        fitted(&reporting, &slow).pointer(version),
        Some(&json!("1.0"))
    );
    let local = json!({ "template": { "osDisk": { "diffDiskSettings": { "option": "Local" } } } });
    let encrypted = json!({ "template": { "securityProfile": { "encryptionAtHost": true } } });
    for spec in [local, encrypted] {
        let wanted = World::new().with(spec.clone()).wanted();
        assert!(
            matches!(fit_to_size(wanted, &slow), Err(ModelError::Size { .. })),
            "{spec}"
        );
    }
}

#[test]
fn interfaces_take_the_only_node_subnet_unless_they_name_one() {
    let subnet = |world: &World, nic: usize| {
        let profile = world.profile();
        let nics = &profile["networkProfile"]["networkInterfaceConfigurations"];
        let id = &nics[nic]["properties"]["ipConfigurations"][0]["properties"]["subnet"]["id"];
        id.as_str().unwrap().rsplit('/').next().unwrap().to_owned()
    };
    let two = World::new().with(json!({ "template": { "networkInterfaces": [
        { "subnetName": "special", "acceleratedNetworking": true }, {},
    ] } }));
    assert_eq!(
        (subnet(&two, 0), subnet(&two, 1)),
        ("special".to_owned(), "nodes".to_owned())
    );
    let profile = two.profile();
    let nics = &profile["networkProfile"]["networkInterfaceConfigurations"];
    assert_eq!(nics[1]["properties"]["enableAcceleratedNetworking"], true);
    assert_eq!(nics[1]["properties"]["primary"], Value::Null);
    let cluster = json!([{ "name": "all", "role": "cluster" }]);
    let mut one = World::new();
    one.azure_cluster["spec"]["networkSpec"]["subnets"] = cluster;
    assert_eq!(subnet(&one, 0), "all");
}

/// Checks that each world is refused with a hint.
fn assert_refused(rows: Vec<(&str, World, &str)>) {
    for (name, world, hint) in rows {
        let error = world.try_wanted().map(|_| ()).expect_err(name).to_string();
        assert!(error.contains(hint), "{name}: {error}");
    }
}

#[test]
fn what_is_wrong_with_a_template_is_told_with_a_way_out() {
    let half = json!({ "gallery": "g", "name": "n", "version": "1", "resourceGroup": "r" });
    let disk = json!({ "nameSuffix": "d", "diskSizeGB": 8, "lun": 1 });
    let key = |text: &str| json!({ "sshPublicKey": BASE64.encode(text) });
    let no_base64 = json!({ "sshPublicKey": "ssh-rsa A a" });
    let half = json!({ "image": { "computeGallery": half } });
    let twice = json!({ "dataDisks": [disk.clone(), disk] });
    let rows = [
        ("no image", json!({ "image": {} }), "exactly one"),
        ("half a gallery", half, "give both"),
        ("no base64", no_base64, ".pub"),
        ("no key", key("hello"), ".pub"),
        ("two keys", key("a b\nc d\n"), ".pub"),
        (
            "long",
            json!({ "terminateNotificationTimeout": 16 }),
            "5 to 15",
        ),
        ("one lun twice", twice, "its own"),
    ];
    let world = |template| World::new().with(json!({ "template": template }));
    let rows = rows.into_iter();
    assert_refused(
        rows.map(|(name, template, hint)| (name, world(template), hint))
            .collect(),
    );
}

#[test]
fn what_is_wrong_with_a_pool_is_told_with_a_way_out() {
    let version = |version: &str| {
        let spec = json!({ "template": { "spec": { "version": version } } });
        World::new().with_pool(json!({ "spec": spec }))
    };
    let spec = |spec| World::new().with(spec);
    let windows =
        || World::new().with(json!({ "template": { "osDisk": { "osType": "Windows" } } }));
    let edition = windows().annotated("windowsServerVersion", "2025");
    let mut empty = World::new();
    empty.bootstrap.data.clear();
    let no_domain = json!({ "platformFaultDomainCount": 0 });
    let no_identity = json!({ "identity": "UserAssigned" });
    assert_refused(vec![
        ("no version", version(""), "MachinePool"),
        ("a word", version("stable"), "write it as"),
        (
            "an old version",
            version("v1.30.3"),
            "set spec.template.image",
        ),
        ("no identity", spec(no_identity), "at least one"),
        ("no fault domain", spec(no_domain), "from 1"),
        ("a long name", World::new().named(&"x".repeat(65)), "64"),
        ("odd Windows", edition, "windows-2022"),
        (
            "odd runtime",
            windows().annotated("runtime", "docker"),
            "containerd",
        ),
        ("no bootstrap data", empty, "bootstrap provider"),
    ]);
}

#[test]
fn what_is_wrong_with_a_cluster_is_told_with_a_way_out() {
    let cluster = |spec: Value| World::new().with_cluster(json!({ "spec": spec }));
    let network = |network: Value| cluster(json!({ "networkSpec": network }));
    let two = json!({ "subnets": [{ "role": "node" }] });
    let mut none = World::new();
    none.azure_cluster["spec"]["networkSpec"]["subnets"] = json!([]);
    assert_refused(vec![
        ("no subnet", none, "role node"),
        ("two subnets", network(two), "(cp, nodes): name one in"),
        (
            "no network",
            network(json!({ "vnet": { "name": "" } })),
            "vnet.name",
        ),
        (
            "no subscription",
            cluster(json!({ "subscriptionID": null })),
            "subscriptionID",
        ),
    ]);
}

#[test]
fn bootstrap_data_may_be_as_long_as_azure_takes_and_no_longer() {
    let mut world = World::new();
    world.bootstrap.data = vec![b'x'; 65_535];
    assert!(world.try_wanted().is_ok());
    world.bootstrap.data.push(b'x');
    let error = world.try_wanted().unwrap_err().to_string();
    assert!(
        error.contains("65536") && error.contains("pool-a-bootstrap-1"),
        "{error}"
    );
}

#[test]
fn secrets_are_in_the_body_and_never_in_debug() {
    let world = World::new().with(json!({ "template": {
        "osDisk": { "osType": "Windows" },
        "vmExtensions": [{ "name": "e", "publisher": "p", "version": "1.0",
            "protectedSettings": { "key": "open-sesame" } }],
    } }));
    let sent = world.json().to_string();
    let wanted = world.wanted();
    let printed = format!(
        "{wanted:?} {:?} {:?}",
        world.bootstrap,
        capacity_patch(&wanted, 1)
    );
    let os = wanted
        .scale_set
        .virtual_machine_profile()
        .unwrap()
        .os_profile
        .clone()
        .unwrap();
    // Exposed to see that they are not shown elsewhere.
    let password = os.admin_password.unwrap().expose().clone();
    let encoded = os.custom_data.unwrap().expose().clone();
    for secret in ["open-sesame", password.as_str(), encoded.as_str()] {
        assert!(sent.contains(secret), "{secret} must be sent");
        assert!(!printed.contains(secret), "{secret} must not be printed");
    }
    assert!(!printed.contains("abcdef.0123456789abcdef"));
    assert!(!printed.contains(&format!("{:?}", world.bootstrap.data)));
}
