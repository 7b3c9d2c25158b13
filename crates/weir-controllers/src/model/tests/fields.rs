//! Does every field of the spec reach what it is for (C05)?

use std::collections::BTreeSet;

use super::*;
use Effect::{Elsewhere, Rolls, Sets};

/// What another value in a field of the spec has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Another body and another revision: machines are replaced.
    Rolls,
    /// Another body and the same revision.
    Sets,
    /// Nothing in the model: the field is for something else.
    Elsewhere,
}

/// A field, and two values of it. `with` is what the field needs around it.
struct Row {
    path: &'static str,
    effect: Effect,
    with: Value,
    from: Value,
    to: Value,
}

impl Row {
    fn world(&self, value: &Value) -> World {
        let world = World::new().with(self.with.clone());
        // Null is a field that isn't there, nor anything around it.
        if value.is_null() {
            return world;
        }
        world.with(nest(self.path, value.clone()))
    }
}

/// Puts a value at a path; `[]` is a list of one.
fn nest(path: &str, value: Value) -> Value {
    path.rsplit('.')
        .fold(value, |inner, part| match part.strip_suffix("[]") {
            Some(name) => json!({ name: [inner] }),
            None => json!({ part: inner }),
        })
}

/// Every field of the spec: its path; then its effect, what it needs around it, two values.
const TABLE: &str = r#"
additionalTags
    sets none {"team":"a"} {"team":"b"}
identity
    rolls none "None" "SystemAssigned"
location
    rolls none "westeurope" "northeurope"
orchestrationMode
    rolls none "Uniform" "Flexible"
platformFaultDomainCount
    rolls none 1 5
providerID
    elsewhere none null "azure:///subscriptions/s"
providerIDList[]
    elsewhere none "a" "b"
roleAssignmentName
    elsewhere none "a" "b"
strategy.rollingUpdate.deletePolicy
    elsewhere none "Oldest" "Newest"
strategy.rollingUpdate.maxSurge
    elsewhere none 1 "50%"
strategy.rollingUpdate.maxUnavailable
    elsewhere none 0 2
strategy.type
    elsewhere none null "RollingUpdate"
systemAssignedIdentityRole.definitionID
    elsewhere system "a" "b"
systemAssignedIdentityRole.name
    elsewhere system "a" "b"
systemAssignedIdentityRole.scope
    elsewhere system "a" "b"
userAssignedIdentities[].providerID
    rolls user "/a" "/b"
zoneBalance
    sets none false true
template.vmSize
    rolls none "Standard_D2s_v5" "Standard_D4s_v5"
template.acceleratedNetworking
    rolls none false true
template.subnetName
    rolls none "a" "b"
template.networkInterfaces[].acceleratedNetworking
    rolls none false true
template.networkInterfaces[].privateIPConfigs
    rolls none 1 3
template.networkInterfaces[].subnetName
    rolls none "a" "b"
template.image.computeGallery.gallery
    rolls gallery "a" "b"
template.image.computeGallery.name
    rolls gallery "a" "b"
template.image.computeGallery.plan.offer
    rolls gallery "a" "b"
template.image.computeGallery.plan.publisher
    rolls gallery "a" "b"
template.image.computeGallery.plan.sku
    rolls gallery "a" "b"
template.image.computeGallery.resourceGroup
    rolls gallery "a" "b"
template.image.computeGallery.subscriptionID
    rolls gallery "a" "b"
template.image.computeGallery.version
    rolls gallery "a" "b"
template.image.sharedGallery.gallery
    rolls shared "a" "b"
template.image.sharedGallery.name
    rolls shared "a" "b"
template.image.sharedGallery.offer
    rolls shared "a" "b"
template.image.sharedGallery.publisher
    rolls shared "a" "b"
template.image.sharedGallery.resourceGroup
    rolls shared "a" "b"
template.image.sharedGallery.sku
    rolls shared "a" "b"
template.image.sharedGallery.subscriptionID
    rolls shared "a" "b"
template.image.sharedGallery.version
    rolls shared "a" "b"
template.image.marketplace.offer
    rolls marketplace "a" "b"
template.image.marketplace.publisher
    rolls marketplace "a" "b"
template.image.marketplace.sku
    rolls marketplace "a" "b"
template.image.marketplace.version
    rolls marketplace "a" "b"
template.image.marketplace.thirdPartyImage
    rolls marketplace false true
template.image.id
    rolls none "a" "b"
template.dataDisks[].managedDisk.diskEncryptionSet.id
    rolls disk "a" "b"
template.dataDisks[].managedDisk.securityProfile.diskEncryptionSet.id
    rolls disk "a" "b"
template.dataDisks[].managedDisk.storageAccountType
    rolls disk "a" "b"
template.dataDisks[].nameSuffix
    rolls disk "a" "b"
template.osDisk.managedDisk.diskEncryptionSet.id
    rolls none "a" "b"
template.osDisk.managedDisk.securityProfile.diskEncryptionSet.id
    rolls none "a" "b"
template.osDisk.managedDisk.storageAccountType
    rolls none "a" "b"
template.dataDisks[].cachingType
    rolls disk "None" "ReadOnly"
template.dataDisks[].diskSizeGB
    rolls disk 8 16
template.dataDisks[].lun
    rolls disk 0 4
template.dataDisks[].managedDisk.securityProfile.securityEncryptionType
    rolls disk "VMGuestStateOnly" "DiskWithVMGuestState"
template.osDisk.cachingType
    rolls none "None" "ReadWrite"
template.osDisk.diffDiskSettings.option
    rolls none null "Local"
template.osDisk.diffDiskSettings.placement
    rolls local "CacheDisk" "NvmeDisk"
template.osDisk.diskSizeGB
    rolls none 30 60
template.osDisk.managedDisk.securityProfile.securityEncryptionType
    rolls none "VMGuestStateOnly" "DiskWithVMGuestState"
template.osDisk.osType
    rolls none "Linux" "Windows"
template.vmExtensions[].name
    rolls extension "a" "b"
template.vmExtensions[].publisher
    rolls extension "a" "b"
template.vmExtensions[].version
    rolls extension "a" "b"
template.vmExtensions[].settings
    rolls extension {"k":"v"} {"k":"w"}
template.vmExtensions[].protectedSettings
    rolls extension {"k":"v"} {"k":"w"}
template.additionalCapabilities.ultraSSDEnabled
    rolls none false true
template.diagnostics.boot.storageAccountType
    rolls none "Managed" "Disabled"
template.diagnostics.boot.userManaged.storageAccountURI
    rolls storage "https://a/" "https://b/"
template.disableVMBootstrapExtension
    rolls none true false
template.securityProfile.encryptionAtHost
    rolls none false true
template.securityProfile.securityType
    rolls none "TrustedLaunch" "ConfidentialVM"
template.securityProfile.uefiSettings.secureBootEnabled
    rolls none false true
template.securityProfile.uefiSettings.vTpmEnabled
    rolls none false true
template.spotVMOptions.evictionPolicy
    rolls spot "Deallocate" "Delete"
template.spotVMOptions.maxPrice
    rolls spot "0.01" "0.02"
template.sshPublicKey
    rolls none "c3NoLXJzYSBBIGE=" "c3NoLXJzYSBCIGI="
template.terminateNotificationTimeout
    sets none 5 7
"#;

fn rows() -> Vec<Row> {
    let lines: Vec<&'static str> = TABLE.trim().lines().collect();
    let pairs = lines.chunks(2);
    pairs
        .map(|pair| row(pair[0].trim(), pair[1].trim()))
        .collect()
}

fn row(path: &'static str, rest: &'static str) -> Row {
    let words: Vec<&str> = rest.split(' ').collect();
    let [effect, with, from, to] = words.as_slice() else {
        panic!("{path}: four words, not {rest}");
    };
    let effect = match *effect {
        "rolls" => Rolls,
        "sets" => Sets,
        "elsewhere" => Elsewhere,
        other => panic!("{path}: no effect {other}"),
    };
    let value = |text: &str| serde_json::from_str(text).unwrap();
    Row {
        path,
        effect,
        with: surroundings(with),
        from: value(from),
        to: value(to),
    }
}

fn surroundings(name: &str) -> Value {
    let template = match name {
        "none" => json!({}),
        "system" => return json!({ "identity": "SystemAssigned" }),
        "user" => return json!({ "identity": "UserAssigned" }),
        "gallery" => json!({ "image": { "computeGallery": {
            "gallery": "g", "name": "n", "version": "1.0.0", "subscriptionID": "s",
            "resourceGroup": "r", "plan": { "publisher": "p", "offer": "o", "sku": "k" },
        } } }),
        "shared" => json!({ "image": { "sharedGallery": {
            "gallery": "g", "name": "n", "version": "1.0.0", "subscriptionID": "s",
            "resourceGroup": "r", "publisher": "p", "offer": "o", "sku": "k",
        } } }),
        "marketplace" => json!({ "image": { "marketplace": {
            "publisher": "p", "offer": "o", "sku": "k", "version": "1.0.0",
        } } }),
        "disk" => json!({ "dataDisks": [{ "nameSuffix": "d", "diskSizeGB": 8 }] }),
        "local" => json!({ "osDisk": { "diffDiskSettings": { "option": "Local" } } }),
        "extension" => json!({ "vmExtensions": [
            { "name": "e", "publisher": "p", "version": "1.0" },
        ] }),
        "storage" => json!({ "diagnostics": { "boot": { "storageAccountType": "UserManaged" } } }),
        "spot" => json!({ "spotVMOptions": {} }),
        other => panic!("no surroundings {other}"),
    };
    json!({ "template": template })
}

#[test]
fn every_field_of_the_schema_is_in_the_table_and_no_other() {
    let crds = serde_json::to_value(weir_api::crds()).unwrap();
    let pools = crds.as_array().unwrap().iter();
    let pools = pools.filter(|crd| crd["spec"]["names"]["kind"] == "AzureMachinePool");
    let mut schema = BTreeSet::new();
    for crd in pools {
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        leaves(&root["properties"]["spec"], "", &mut schema);
    }
    let table: BTreeSet<String> = rows().iter().map(|row| row.path.to_owned()).collect();
    assert!(
        schema.len() > 70,
        "the walk must find the schema's fields: {}",
        schema.len()
    );
    assert_eq!(table, schema);
}

fn leaves(schema: &Value, path: &str, into: &mut BTreeSet<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (name, schema) in properties {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            leaves(schema, &path, into);
        }
    } else if schema["items"].is_object() {
        leaves(&schema["items"], &format!("{path}[]"), into);
    } else {
        into.insert(path.to_owned());
    }
}

#[test]
fn every_field_of_the_spec_reaches_the_body_and_rolls_if_it_must() {
    for row in rows() {
        let (from, to) = (row.world(&row.from), row.world(&row.to));
        // The tag tells of the revision, which is looked at by itself.
        let body = |world: &World| {
            let mut body = world.json();
            body["tags"][REVISION_TAG] = Value::Null;
            body
        };
        let has_other_body = body(&from) != body(&to);
        let has_other_revision = from.revision() != to.revision();
        let effect = match (has_other_body, has_other_revision) {
            (true, true) => Rolls,
            (true, false) => Sets,
            (false, false) => Elsewhere,
            (false, true) => panic!("{}: a revision without a body to it", row.path),
        };
        assert_eq!(effect, row.effect, "{}", row.path);
    }
}

#[test]
fn every_field_that_makes_machines_old_is_named_as_the_difference() {
    // Azure never shows protected settings, so nobody can tell.
    let rows = rows()
        .into_iter()
        .filter(|row| !row.path.ends_with("protectedSettings"));
    for row in rows {
        let actual = body(&row.world(&row.from).wanted(), None, 3);
        let found = differences(&row.world(&row.to).wanted(), &actual);
        assert_eq!(
            !found.is_empty(),
            row.effect == Rolls,
            "{}: {found:?}",
            row.path
        );
        let own = differences(&row.world(&row.from).wanted(), &actual);
        assert_eq!(own, Vec::<String>::new(), "{}", row.path);
    }
}

#[test]
fn every_field_that_is_sent_is_judged() {
    for row in rows() {
        let unlisted = super::super::revision::unlisted(&row.world(&row.to).wanted().scale_set);
        assert_eq!(unlisted, Vec::<String>::new(), "{}", row.path);
    }
}
