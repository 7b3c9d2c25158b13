//! When is an instance old?
//!
//! [`FIELDS`] is the one list that says it. A rollout starts and an instance is old for the same
//! reason, namely that a field of this list has changed; two lists that disagree leave pools half
//! replaced (C02).
//!
//! A body is brought into a normal form first: lines of path and value, sorted, with letter case
//! and notation taken out where Azure doesn't care for them (C18). A field that is not set has no
//! line, so a field that Weir learns to send changes no revision of a pool that doesn't use it.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};
use weir_azure::ScaleSet;
use weir_azure::vmss::ImageReference;
use weir_core::observed::Revision;

use super::{Wanted, image};

/// Spells a path below the machine profile.
macro_rules! vm {
    ($path:literal) => {
        concat!("properties.virtualMachineProfile.", $path)
    };
}

/// Spells a path below a network interface.
macro_rules! nic {
    ($path:literal) => {
        concat!(
            "properties.virtualMachineProfile.networkProfile.networkInterfaceConfigurations[].",
            $path
        )
    };
}

/// What a field of a scale set has to do with instances being old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// An instance has the value it was made with, so another value makes it old.
    Model(Form),
    /// A matter of the set, or one that may change without instances being replaced.
    Apart,
}

/// Which differences in writing a value are none in meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// None.
    Text,
    /// Letter case.
    Word,
    /// Letter case and spaces, as in "West Europe".
    Region,
    /// Letter case, the `azure://` prefix and a slash at the end.
    Id,
    /// Spaces and line breaks around it.
    Line,
    /// An image, in any of the shapes and notations of a reference to it.
    Image,
    /// A map of which only the keys count, which are ids.
    Ids,
    /// A tree of which every leaf is text.
    Tree,
    /// A tree of which only a digest may be kept.
    Secret,
}

use Form::{Id, Ids, Image, Line, Region, Secret, Text, Tree, Word};
use Part::{Apart, Model};

/// Every field that we send, and whether another value in it makes instances old.
///
/// An entry stands for everything below it. **Adding a field that existing pools send, changing a
/// form, or taking an entry away replaces the machines of every pool when the controller is
/// upgraded** (C96); a test with a fixed revision tells.
const FIELDS: &[(&str, Part)] = &[
    ("location", Model(Region)),
    ("tags", Apart),
    ("sku.name", Model(Word)),
    ("sku.tier", Apart),
    ("sku.capacity", Apart),
    ("plan", Model(Word)),
    ("identity.type", Model(Word)),
    ("identity.userAssignedIdentities", Model(Ids)),
    ("zones[]", Model(Word)),
    ("properties.orchestrationMode", Model(Word)),
    ("properties.singlePlacementGroup", Apart),
    ("properties.overprovision", Apart),
    ("properties.platformFaultDomainCount", Model(Text)),
    ("properties.zoneBalance", Apart),
    ("properties.upgradePolicy", Apart),
    ("properties.additionalCapabilities", Model(Text)),
    (vm!("osProfile.computerNamePrefix"), Model(Word)),
    (vm!("osProfile.adminUsername"), Model(Text)),
    // Write-only and made from the bootstrap data, which is judged apart.
    (vm!("osProfile.adminPassword"), Apart),
    (vm!("osProfile.customData"), Apart),
    (vm!("osProfile.linuxConfiguration"), Model(Line)),
    (vm!("osProfile.windowsConfiguration"), Model(Text)),
    (vm!("storageProfile.imageReference"), Model(Image)),
    (
        vm!("storageProfile.osDisk.managedDisk.diskEncryptionSet"),
        Model(Id),
    ),
    (
        vm!("storageProfile.osDisk.managedDisk.securityProfile.diskEncryptionSet"),
        Model(Id),
    ),
    (vm!("storageProfile.osDisk"), Model(Word)),
    (
        vm!("storageProfile.dataDisks[].managedDisk.diskEncryptionSet"),
        Model(Id),
    ),
    (
        vm!("storageProfile.dataDisks[].managedDisk.securityProfile.diskEncryptionSet"),
        Model(Id),
    ),
    (vm!("storageProfile.dataDisks[]"), Model(Word)),
    (vm!("networkProfile.networkApiVersion"), Apart),
    (nic!("name"), Model(Word)),
    (nic!("properties.primary"), Model(Text)),
    (nic!("properties.enableAcceleratedNetworking"), Model(Text)),
    (nic!("properties.enableIPForwarding"), Model(Text)),
    // Others (the cloud provider, for one) put a set's addresses into pools and groups.
    (nic!("properties.networkSecurityGroup"), Apart),
    (
        nic!("properties.ipConfigurations[].properties.loadBalancerBackendAddressPools"),
        Apart,
    ),
    (
        nic!("properties.ipConfigurations[].properties.applicationSecurityGroups"),
        Apart,
    ),
    (
        nic!("properties.ipConfigurations[].properties.subnet"),
        Model(Id),
    ),
    (nic!("properties.ipConfigurations[]"), Model(Word)),
    (vm!("securityProfile"), Model(Word)),
    (vm!("diagnosticsProfile"), Model(Id)),
    (
        vm!("extensionProfile.extensions[].properties.settings"),
        Model(Tree),
    ),
    (
        vm!("extensionProfile.extensions[].properties.protectedSettings"),
        Model(Secret),
    ),
    (vm!("extensionProfile.extensions[]"), Model(Word)),
    (vm!("scheduledEventsProfile"), Apart),
    (vm!("priority"), Model(Word)),
    (vm!("evictionPolicy"), Model(Word)),
    (vm!("billingProfile"), Model(Text)),
];

/// Returns the revision of a body, a Kubernetes version and what stands for the bootstrap data.
///
/// By default that is the *name* of its Secret: core Cluster API's rule is that a change of the
/// reference rolls a pool and a change of the content, such as a new token, does not.
pub(super) fn revision(scale_set: &ScaleSet, version: Option<&str>, bootstrap: &str) -> Revision {
    let mut facts = facts(scale_set);
    let version = version.unwrap_or_default().trim_start_matches(['v', 'V']);
    facts.insert("kubernetesVersion".to_owned(), version.to_owned());
    facts.insert("bootstrapSecret".to_owned(), bootstrap.to_owned());
    let mut digest = Sha256::new();
    for (path, value) in &facts {
        // Quoted, so that no value can pass for two lines.
        digest.update(format!("{path}={}\n", Value::from(value.as_str())));
    }
    Revision(hex(&digest.finalize()[..8]))
}

/// Returns the paths of the model fields in which a scale set in Azure is not as wanted, sorted.
///
/// What Azure fills in by itself, what it never shows, and what others have added is no difference.
/// Empty means that instances with the latest model are as wanted, even if no tag says so: a pool
/// that another controller made can be taken over as it is.
pub fn differences(wanted: &Wanted, actual: &ScaleSet) -> Vec<String> {
    let (wanted, actual) = (facts(&wanted.scale_set), facts(actual));
    let is_hidden = |path: &str| path.contains(".protectedSettings");
    let missing = wanted
        .iter()
        .filter(|(path, value)| !is_hidden(path) && actual.get(*path) != Some(*value))
        .map(|(path, _)| path);
    // Lists that nobody else adds to: an entry too many was taken out of the spec.
    let is_ours = |path: &str| path.starts_with("zones[") || path.contains(".dataDisks[");
    let surplus = actual
        .keys()
        .filter(|path| is_ours(path) && !has_entry(&wanted, path));
    let mut paths: Vec<String> = missing.chain(surplus).cloned().collect();
    paths.sort();
    paths
}

/// Says whether there is anything about the list entry that a path leads into.
fn has_entry(facts: &BTreeMap<String, String>, path: &str) -> bool {
    let entry = path.split_inclusive(']').next().unwrap_or(path);
    facts
        .range(entry.to_owned()..)
        .next()
        .is_some_and(|(found, _)| found.starts_with(entry))
}

/// Returns the normal form of an ARM ID.
pub(super) fn id_form(id: &str) -> String {
    super::arm_id(id.trim())
        .trim_end_matches('/')
        .to_ascii_lowercase()
}

/// Returns the normal form of the model fields of a body, by path.
fn facts(scale_set: &ScaleSet) -> BTreeMap<String, String> {
    let mut walk = Walk::default();
    walk.visit(&to_json(scale_set), "", "");
    walk.facts
}

/// Returns the fields of a body that [`FIELDS`] forgets; a test sees to it that there are none.
#[cfg(test)]
pub(super) fn unlisted(scale_set: &ScaleSet) -> Vec<String> {
    let mut walk = Walk::default();
    walk.visit(&to_json(scale_set), "", "");
    walk.unlisted
}

fn to_json(scale_set: &ScaleSet) -> Value {
    serde_json::to_value(scale_set).expect("a scale set is JSON with text for keys")
}

#[derive(Default)]
struct Walk {
    facts: BTreeMap<String, String>,
    /// Leaves that no entry of the list stands for: what Azure has and we don't send.
    unlisted: Vec<String>,
}

impl Walk {
    /// Takes in a value. `pattern` is its path with `[]` for list entries, as in [`FIELDS`];
    /// `path` has the entry's key between the brackets.
    fn visit(&mut self, value: &Value, pattern: &str, path: &str) {
        match part(pattern) {
            Some(Apart) => return,
            Some(Model(form @ (Image | Ids | Secret))) => return self.note(form, value, path),
            Some(Model(_)) | None => {}
        }
        match value {
            Value::Null => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.visit(value, &join(pattern, name), &join(path, name));
                }
            }
            Value::Array(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    let path = format!("{path}[{}]", entry_key(entry, index));
                    self.visit(entry, &format!("{pattern}[]"), &path);
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => match part(pattern) {
                Some(Model(form)) => self.note(form, value, path),
                Some(Apart) => {}
                None => self.unlisted.push(path.to_owned()),
            },
        }
    }

    fn note(&mut self, form: Form, value: &Value, path: &str) {
        match form {
            Image => {
                let reference: ImageReference =
                    serde_json::from_value(value.clone()).unwrap_or_default();
                if let Some(form) = image::normal_form(&reference) {
                    self.facts.insert(path.to_owned(), form);
                }
            }
            Ids => {
                for id in value.as_object().into_iter().flatten().map(|(id, _)| id) {
                    self.facts
                        .insert(format!("{path}[{}]", id_form(id)), String::new());
                }
            }
            Secret => {
                let digest = Sha256::digest(value.to_string());
                self.facts.insert(path.to_owned(), hex(&digest));
            }
            Text | Tree | Word | Region | Id | Line => {
                let text = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                self.facts.insert(path.to_owned(), written(form, &text));
            }
        }
    }
}

/// Returns a text without the differences in writing that its form allows.
fn written(form: Form, text: &str) -> String {
    match form {
        Text | Tree | Image | Ids | Secret => text.to_owned(),
        Word => text.to_ascii_lowercase(),
        Region => text.to_ascii_lowercase().replace(' ', ""),
        Id => id_form(text),
        Line => text.trim().to_owned(),
    }
}

/// Returns what the list says of a path: the entry that is the path, or the longest one above it.
fn part(pattern: &str) -> Option<Part> {
    let stands_for = |listed: &str| {
        let rest = pattern.strip_prefix(listed);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let entries = FIELDS.iter().filter(|(listed, _)| stands_for(listed));
    entries
        .max_by_key(|(listed, _)| listed.len())
        .map(|(_, part)| *part)
}

/// Returns what tells a list entry from the others, wherever it stands in the list.
fn entry_key(entry: &Value, index: usize) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.to_ascii_lowercase()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let named = entry.get("lun").or_else(|| entry.get("name"));
    named
        .and_then(text)
        .or_else(|| text(entry))
        .unwrap_or_else(|| index.to_string())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
