//! What makes a new revision, and what doesn't?

use super::*;

/// **If this fails, an upgrade of the controller would replace every machine of every pool** (C06,
/// C96): the revision in the tags of the scale sets out there was made by the code before.
///
/// So don't change the expected text to make the test pass. A revision must come out as it did for
/// a pool that doesn't use what you added: leave a field that isn't set without a line, and don't
/// change forms, paths or constants of the lines there are. If a roll of everything really is
/// meant, say so in the release notes.
#[test]
fn the_revision_of_a_plain_pool_is_the_same_for_ever() {
    assert_eq!(World::new().revision(), "980436543ed51664");
    let rich = World::new().with(json!({
        "identity": "UserAssigned",
        "userAssignedIdentities": [{ "providerID": "azure:///subscriptions/s/x" }],
        "template": {
            "dataDisks": [{ "nameSuffix": "d", "diskSizeGB": 8, "cachingType": "ReadOnly" }],
            "securityProfile": { "encryptionAtHost": true },
            "spotVMOptions": { "maxPrice": "0.05" },
            "disableVMBootstrapExtension": false,
            "vmExtensions": [{ "name": "e", "publisher": "p", "version": "1.0",
                "settings": { "a": "b" }, "protectedSettings": { "c": "d" } }],
        },
    }));
    assert_eq!(rich.revision(), "8354586c3b6fa258");
}

#[test]
fn a_new_token_makes_no_new_revision_and_a_new_secret_does() {
    let old = World::new();
    let mut rotated = World::new();
    rotated.bootstrap.data = b"#cloud-config\n# token zzzzzz.fedcba9876543210\n".to_vec();
    assert_eq!(old.revision(), rotated.revision());
    assert_ne!(
        old.wanted(),
        rotated.wanted(),
        "the new data must be in the body"
    );
    let mut renamed = World::new();
    renamed.bootstrap.secret_name = "pool-a-bootstrap-2".to_owned();
    assert_ne!(old.revision(), renamed.revision());
}

#[test]
fn whoever_asks_for_it_has_a_change_of_the_content_roll_and_no_new_token() {
    let with = |policy: &str, data: &str| {
        let mut world = World::new();
        let policy = (marks::ROLL_ON_BOOTSTRAP.to_owned(), policy.to_owned());
        world.annotations.extend([policy]);
        world.bootstrap.data = format!("#cloud-config\nruncmd: [{data}]\n").into_bytes();
        world.revision()
    };
    let (token, rotated) = ("abcdef.0123456789abcdef", "ghijkl.fedcba9876543210");
    assert_eq!(with("Content", token), with("Content", rotated));
    assert_ne!(with("Content", token), with("Content", "reboot"));
    assert_eq!(with("Reference", token), with("Reference", "reboot"));
    assert_eq!(with("Never", token), with("Never", "reboot"));
}

#[test]
fn a_new_version_makes_a_new_revision_even_with_an_image_of_ones_own() {
    let image = json!({ "template": { "image": { "id": "/subscriptions/s/images/i" } } });
    let version = |text: &str| json!({ "spec": { "template": { "spec": { "version": text } } } });
    let old = World::new().with(image.clone());
    let new = World::new().with(image).with_pool(version("v1.33.2"));
    assert_ne!(old.revision(), new.revision());
    assert_eq!(
        old.revision(),
        old.with_pool(version("1.33.1")).revision(),
        "the v is notation"
    );
}

#[test]
fn tags_of_cluster_and_pool_make_no_new_revision() {
    let plain = World::new();
    let pool = World::new().with(json!({ "additionalTags": { "a": "b" } }));
    let cluster = World::new().with_cluster(json!({ "spec": { "additionalTags": { "c": "d" } } }));
    assert_eq!(plain.revision(), pool.revision());
    assert_eq!(plain.revision(), cluster.revision());
}

#[test]
fn each_notation_of_an_image_is_the_same_image_and_no_other() {
    let id = "/subscriptions/S-1/resourceGroups/Rg/providers/Microsoft.Compute/galleries/Gal/images\
              /Node/versions/1.2.3";
    let private = |version: &str| {
        json!({ "computeGallery": { "subscriptionID": "s-1", "resourceGroup": "RG",
            "gallery": "gal", "name": "node", "version": version } })
    };
    let latest = "/subscriptions/s-1/resourceGroups/rg/providers/Microsoft.Compute/galleries/gal\
                  /images/node";
    let market = |sku: &str| {
        json!({ "marketplace": { "publisher": "Pub", "offer": "Offer", "sku": sku,
            "version": "1.0.0" } })
    };
    let groups: Vec<(&str, Vec<Value>)> = vec![
        (
            "own gallery",
            vec![
                json!({ "id": id }),
                json!({ "id": id.to_uppercase().replace("/SUBSCRIPTIONS", "/subscriptions") }),
                json!({ "id": format!("{id}/") }),
                private("1.2.3"),
                json!({ "sharedGallery": { "subscriptionID": "S-1", "resourceGroup": "rg",
                    "gallery": "Gal", "name": "Node", "version": "1.2.3" } }),
            ],
        ),
        (
            "own gallery, latest",
            vec![private("latest"), json!({ "id": latest })],
        ),
        ("own gallery, another version", vec![private("1.2.4")]),
        (
            "community",
            vec![
                json!({ "computeGallery": { "gallery": "Com", "name": "Node",
                    "version": "1.2.3" } }),
                json!({ "id": "/communityGalleries/com/images/node/versions/1.2.3" }),
            ],
        ),
        (
            "shared, by its unique name",
            vec![json!({ "id": "/sharedGalleries/u/images/n/versions/1" })],
        ),
        ("marketplace", vec![market("Sku"), market("SKU")]),
        ("marketplace, another sku", vec![market("sku2")]),
    ];
    let all: Vec<(&str, String)> = groups
        .iter()
        .flat_map(|(name, images)| images.iter().map(|image| (*name, image)))
        .map(|(name, image)| {
            let world = World::new().with(json!({ "template": { "image": image } }));
            (name, world.revision())
        })
        .collect();
    for (one, one_revision) in &all {
        for (other, other_revision) in &all {
            assert_eq!(
                one == other,
                one_revision == other_revision,
                "{one} against {other}"
            );
        }
    }
}

#[test]
fn a_marketplace_image_with_a_plan_is_the_same_in_any_case() {
    let image = |text: &str| {
        let image = json!({ "publisher": text, "offer": text, "sku": text, "version": "1",
            "thirdPartyImage": true });
        World::new()
            .with(json!({ "template": { "image": { "marketplace": image } } }))
            .revision()
    };
    assert_eq!(image("Node"), image("nODE"));
}

#[test]
fn letter_case_prefixes_and_order_make_no_new_revision() {
    let spec = |identity: &str, disks: &str, region: &str, size: &str| {
        json!({
            "location": region,
            "identity": "UserAssigned",
            "userAssignedIdentities": [{ "providerID": identity }],
            "template": {
                "vmSize": size,
                "osDisk": { "managedDisk": { "diskEncryptionSet": { "id": disks } } },
            },
        })
    };
    let one = World::new().with(spec(
        "/subscriptions/S/x",
        "/D/e",
        "West Europe",
        "Standard_D2",
    ));
    let other = World::new()
        .with(spec(
            "azure:///SUBSCRIPTIONS/s/X",
            "/d/E/",
            "westeurope",
            "standard_d2",
        ))
        .with_pool(json!({ "spec": { "failureDomains": ["1", "2"] } }))
        .with_cluster(json!({ "spec": { "resourceGroup": "LAB-rg",
            "networkSpec": { "vnet": { "resourceGroup": "NET-RG" } } } }));
    assert_eq!(one.revision(), other.revision());
}

#[test]
fn zones_are_part_of_the_revision() {
    let three = json!({ "spec": { "failureDomains": ["1", "2", "3"] } });
    assert_ne!(
        World::new().revision(),
        World::new().with_pool(three).revision()
    );
}

#[test]
fn what_capz_fills_in_means_the_same_as_leaving_it_out() {
    let filled_in = World::new().with(json!({
        "identity": "None",
        "orchestrationMode": "Uniform",
        "strategy": { "type": "RollingUpdate" },
        "template": {
            "osDisk": { "osType": "Linux", "cachingType": "None" },
            "diagnostics": { "boot": { "storageAccountType": "Managed" } },
            "networkInterfaces": [{ "subnetName": "nodes", "privateIPConfigs": 1 }],
        },
    }));
    assert_eq!(World::new().wanted(), filled_in.wanted());
}

#[test]
fn a_pool_that_names_no_key_has_one_revision() {
    let keyless = || World::new().with(json!({ "template": { "sshPublicKey": null } }));
    assert_eq!(keyless().revision(), keyless().revision());
    let profile = keyless().profile();
    let key = &profile["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"][0]["keyData"];
    let encoded = key.as_str().unwrap().split(' ').nth(1).unwrap();
    // Two lengths of 4 bytes, the name of the kind with 11, the key with 32.
    assert_eq!(BASE64.decode(encoded).unwrap().len(), 4 + 11 + 4 + 32);
}

#[test]
fn the_revision_is_sixteen_hexadecimal_digits_and_on_the_set_as_a_tag() {
    let wanted = World::new().wanted();
    assert_eq!(wanted.revision.0.len(), 16);
    assert!(
        wanted
            .revision
            .0
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit())
    );
    let tags = wanted.scale_set.tags.unwrap();
    assert_eq!(revision_of_tags(&tags), Some(wanted.revision));
    let shouted = BTreeMap::from([("WEIR_Revision".to_owned(), "abc".to_owned())]);
    assert_eq!(revision_of_tags(&shouted), Some(Revision("abc".to_owned())));
    assert_eq!(revision_of_tags(&BTreeMap::new()), None);
}
