//! What is a scale set, what is an instance, and how do they look when read?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::answer::stamp;
use super::model::{CustomData, image_version, strings, text};
use super::options::{AzureOptions, GroupCase, StaleOn};

/// Finds a scale set: subscription, group and name, all in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SetKey {
    pub(crate) subscription: String,
    pub(crate) group: String,
    pub(crate) name: String,
}

/// How the last finished work on something ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// What an instance is made from; `latestModelApplied` compares these.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct VmModel {
    pub(crate) size: String,
    /// The machine profile without its OS profile, which bypasses the upgrade policy.
    pub(crate) profile: Value,
    /// What else counts, by the options.
    also: (Option<Value>, Option<CustomData>),
}

impl VmModel {
    pub(crate) fn image(&self) -> &Value {
        self.profile
            .pointer("/storageProfile/imageReference")
            .unwrap_or(&Value::Null)
    }

    /// Says whether going from one model to the other takes a new OS disk.
    pub(crate) fn needs_new_disk(&self, target: &VmModel) -> bool {
        let os_disk = |model: &VmModel| model.profile.pointer("/storageProfile/osDisk").cloned();
        self.image() != target.image()
            || self.size != target.size
            || os_disk(self) != os_disk(target)
    }
}

/// A scale set.
#[derive(Clone, Debug)]
pub(crate) struct ScaleSet {
    pub(crate) subscription: String,
    pub(crate) group: String,
    pub(crate) name: String,
    /// The model as it is read, without what is write-only.
    pub(crate) model: Value,
    pub(crate) custom_data: Option<CustomData>,
    pub(crate) vm_model: Arc<VmModel>,
    /// A capacity that is still read, until when, although it is lower already.
    pub(crate) stale_capacity: Option<(u32, Timestamp)>,
    pub(crate) unique_id: String,
    pub(crate) created: Timestamp,
    pub(crate) etag: u64,
    /// Operations under way that show in the set's state, by GUID.
    pub(crate) running: BTreeMap<String, Phase>,
    pub(crate) outcome: Result<(), Failure>,
    pub(crate) is_leaving: bool,
    pub(crate) instances: BTreeMap<u32, Instance>,
    pub(crate) next_id: u32,
    pub(crate) freed_ids: BTreeSet<u32>,
}

/// What a running operation makes the state of a scale set say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Creating,
    Updating,
    Deleting,
}

/// How an instance stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Creating,
    Updating,
    Succeeded,
    Failed(Failure),
    Deleting,
}

/// Whether an instance's machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    /// There is none, as while it is being created.
    None,
    Starting,
    Running,
    Stopping,
    Stopped,
    Deallocating,
    Deallocated,
}

/// An instance of a scale set.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) id: u32,
    pub(crate) vm_id: String,
    pub(crate) disk: String,
    pub(crate) computer_name: String,
    pub(crate) admin_username: Value,
    pub(crate) zone: Option<String>,
    pub(crate) fault_domain: u32,
    pub(crate) tags: Value,
    pub(crate) created: Timestamp,
    pub(crate) listed_from: Timestamp,
    pub(crate) model: Arc<VmModel>,
    pub(crate) custom_data: Option<CustomData>,
    pub(crate) protection: Option<Value>,
    pub(crate) state: State,
    pub(crate) state_since: Timestamp,
    pub(crate) power: Power,
    /// Counts the works on this instance; a step of an earlier work does nothing.
    pub(crate) work: u64,
    pub(crate) never_joins: bool,
}

impl State {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            State::Creating => "Creating",
            State::Updating => "Updating",
            State::Succeeded => "Succeeded",
            State::Failed(_) => "Failed",
            State::Deleting => "Deleting",
        }
    }
}

impl Power {
    fn word(self) -> Option<&'static str> {
        match self {
            Power::None => None,
            Power::Starting => Some("starting"),
            Power::Running => Some("running"),
            Power::Stopping => Some("stopping"),
            Power::Stopped => Some("stopped"),
            Power::Deallocating => Some("deallocating"),
            Power::Deallocated => Some("deallocated"),
        }
    }
}

impl Instance {
    pub(crate) fn is_leaving(&self) -> bool {
        self.state == State::Deleting
    }

    pub(crate) fn is_protected(&self, from: &str) -> bool {
        let policy = self.protection.as_ref();
        policy.is_some_and(|policy| policy.get(from) == Some(&json!(true)))
    }

    /// Says whether it is kept when capacity is lowered; the wider protection implies this one.
    pub(crate) fn is_kept_on_scale_in(&self) -> bool {
        self.is_protected("protectFromScaleIn") || self.is_protected("protectFromScaleSetActions")
    }
}

impl ScaleSet {
    pub(crate) fn key(&self) -> SetKey {
        SetKey {
            subscription: self.subscription.to_ascii_lowercase(),
            group: self.group.to_ascii_lowercase(),
            name: self.name.to_ascii_lowercase(),
        }
    }

    pub(crate) fn id(&self) -> String {
        id_in_group(&self.subscription, &self.group, &self.name)
    }

    pub(crate) fn instance_arm_id(&self, id: u32, options: &AzureOptions) -> String {
        let group = match options.group_case {
            GroupCase::AsGiven => self.group.clone(),
            GroupCase::Upper => self.group.to_ascii_uppercase(),
        };
        let set = id_in_group(&self.subscription, &group, &self.name);
        format!("{set}/virtualMachines/{id}")
    }

    /// Returns what the node of an instance has as `spec.providerID`.
    ///
    /// # Source
    /// cloud-provider-azure lower-cases the name of the resource group and nothing else.
    pub(crate) fn provider_id(&self, id: u32) -> String {
        let group = self.group.to_ascii_lowercase();
        let set = id_in_group(&self.subscription, &group, &self.name);
        format!("azure://{set}/virtualMachines/{id}")
    }

    pub(crate) fn location(&self) -> &str {
        text(&self.model, "/location")
    }

    pub(crate) fn size(&self) -> &str {
        text(&self.model, "/sku/name")
    }

    pub(crate) fn capacity(&self) -> u32 {
        let capacity = self.model.pointer("/sku/capacity").and_then(Value::as_u64);
        capacity.unwrap_or(0).try_into().unwrap_or(u32::MAX)
    }

    pub(crate) fn set_capacity(&mut self, capacity: u32) {
        if let Some(sku) = self.model.get_mut("sku").and_then(Value::as_object_mut) {
            sku.insert("capacity".to_owned(), json!(capacity));
        }
    }

    pub(crate) fn zones(&self) -> Vec<String> {
        strings(self.model.get("zones"))
    }

    pub(crate) fn tags(&self) -> Value {
        self.model.get("tags").cloned().unwrap_or_else(|| json!({}))
    }

    pub(crate) fn etag(&self) -> String {
        format!("\"{}\"", self.etag)
    }

    /// Returns the instances that are not on their way out.
    pub(crate) fn staying(&self) -> impl Iterator<Item = &Instance> {
        self.instances
            .values()
            .filter(|instance| !instance.is_leaving())
    }

    /// Returns an instance by the id in a path or body, if it is listed.
    pub(crate) fn listed(&self, id: &str, now: Timestamp) -> Option<&Instance> {
        let instance = self.instances.get(&id.parse().ok()?)?;
        (instance.listed_from <= now).then_some(instance)
    }

    /// Returns what new instances are made from.
    pub(crate) fn current_vm_model(&self, stale_on: &BTreeSet<StaleOn>) -> VmModel {
        let profile = self.model.pointer("/properties/virtualMachineProfile");
        let mut profile = profile.cloned().unwrap_or_else(|| json!({}));
        if let Some(profile) = profile.as_object_mut() {
            for outside_the_model in ["osProfile", "userData", "timeCreated"] {
                profile.remove(outside_the_model);
            }
        }
        let counts = |what| stale_on.contains(&what);
        VmModel {
            size: self.size().to_owned(),
            profile,
            also: (
                counts(StaleOn::Tags).then(|| self.tags()),
                self.custom_data
                    .clone()
                    .filter(|_| counts(StaleOn::CustomData)),
            ),
        }
    }

    /// Returns how long a delete waits after its notice, if the model has notices.
    pub(crate) fn terminate_notice(&self) -> Option<SignedDuration> {
        let at = "/properties/virtualMachineProfile/scheduledEventsProfile/\
                  terminateNotificationProfile";
        let profile = self.model.pointer(at)?;
        (profile.get("enable") == Some(&json!(true))).then(|| {
            let given = text(profile, "/notBeforeTimeout").parse();
            given.unwrap_or(SignedDuration::from_mins(5))
        })
    }

    pub(crate) fn is_rolling_by_itself(&self) -> bool {
        text(&self.model, "/properties/upgradePolicy/mode").eq_ignore_ascii_case("automatic")
    }

    fn provisioning_state(&self) -> &'static str {
        match (self.running.values().max(), &self.outcome) {
            (Some(Phase::Deleting), _) => "Deleting",
            (Some(Phase::Updating), _) => "Updating",
            (Some(Phase::Creating), _) => "Creating",
            (None, Ok(())) => "Succeeded",
            (None, Err(_)) => "Failed",
        }
    }

    /// Returns the scale set as a GET shows it.
    pub(crate) fn view(&self, with_user_data: bool, now: Timestamp) -> Value {
        let mut view = self.model.clone();
        if let Some((capacity, until)) = self.stale_capacity
            && now < until
        {
            view["sku"]["capacity"] = json!(capacity);
        }
        view["name"] = json!(self.name);
        view["id"] = json!(self.id());
        view["type"] = json!("Microsoft.Compute/virtualMachineScaleSets");
        view["etag"] = json!(self.etag());
        let properties = &mut view["properties"];
        properties["provisioningState"] = json!(self.provisioning_state());
        properties["uniqueId"] = json!(self.unique_id);
        properties["timeCreated"] = json!(stamp(self.created));
        if let Some(profile) = properties
            .get_mut("virtualMachineProfile")
            .and_then(Value::as_object_mut)
        {
            profile.insert("timeCreated".to_owned(), json!(stamp(self.created)));
            if !with_user_data {
                profile.remove("userData");
            }
        }
        view
    }

    /// Returns the set's instance view: counts of provisioning states.
    pub(crate) fn instance_view(&self, now: Timestamp) -> Value {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for instance in self.instances.values().filter(|i| i.listed_from <= now) {
            let code = format!(
                "ProvisioningState/{}",
                instance.state.word().to_ascii_lowercase()
            );
            *counts.entry(code).or_default() += 1;
        }
        let summary: Vec<Value> = counts
            .iter()
            .map(|(code, count)| json!({"code": code, "count": count}))
            .collect();
        let state = self.provisioning_state();
        json!({
            "virtualMachine": {"statusesSummary": summary},
            "statuses": [{
                "code": format!("ProvisioningState/{}", state.to_ascii_lowercase()),
                "level": "Info",
                "displayStatus": state,
                "time": stamp(now),
            }],
            "orchestrationServices": [
                {"serviceName": "AutomaticRepairs", "serviceState": "NotRunning"},
            ],
        })
    }

    /// Returns an instance as a GET shows it.
    pub(crate) fn vm_view(
        &self,
        instance: &Instance,
        options: &AzureOptions,
        with_instance_view: bool,
    ) -> Value {
        let id = self.instance_arm_id(instance.id, options);
        let nics = self.nic_ids(&id);
        let mut properties = json!({
            "latestModelApplied": instance.model == self.vm_model,
            "modelDefinitionApplied": "VirtualMachineScaleSet",
            "provisioningState": instance.state.word(),
            "vmId": instance.vm_id,
            "timeCreated": stamp(instance.created),
            "hardwareProfile": {"vmSize": instance.model.size},
            "storageProfile": self.storage_view(instance),
            "osProfile": {
                "computerName": instance.computer_name,
                "adminUsername": instance.admin_username,
                "secrets": [],
                "allowExtensionOperations": true,
                "requireGuestProvisionSignal": true,
            },
            "networkProfile": {"networkInterfaces": nics},
        });
        if let Some(policy) = &instance.protection {
            properties["protectionPolicy"] = policy.clone();
        }
        if with_instance_view {
            properties["instanceView"] = vm_instance_view(instance);
        }
        let mut view = json!({
            "name": format!("{}_{}", self.name, instance.id),
            "id": id,
            "type": "Microsoft.Compute/virtualMachineScaleSets/virtualMachines",
            "location": self.location(),
            "tags": instance.tags,
            "instanceId": instance.id.to_string(),
            "sku": {"name": instance.model.size, "tier": "Standard"},
            "etag": self.etag(),
            "resources": extension_views(instance),
            "properties": properties,
        });
        if let Some(zone) = &instance.zone {
            view["zones"] = json!([zone]);
        }
        view
    }

    fn storage_view(&self, instance: &Instance) -> Value {
        let mut image = instance.model.image().clone();
        if let Some(version) = image_version(&image).map(str::to_owned) {
            image["exactVersion"] = json!(version);
        }
        let disk = instance.model.profile.pointer("/storageProfile/osDisk");
        let mut disk = disk.cloned().unwrap_or_else(|| json!({}));
        let name = &self.name;
        disk["name"] = json!(format!(
            "{name}_{name}_{}_OsDisk_1_{}",
            instance.id, instance.disk
        ));
        json!({"imageReference": image, "osDisk": disk, "dataDisks": []})
    }

    fn nic_ids(&self, instance_arm_id: &str) -> Vec<Value> {
        let nics = self.model.pointer(
            "/properties/virtualMachineProfile/networkProfile/networkInterfaceConfigurations",
        );
        let nics = nics.and_then(Value::as_array).into_iter().flatten();
        nics.map(|nic| {
            let name = text(nic, "/name");
            json!({"id": format!("{instance_arm_id}/networkInterfaces/{name}")})
        })
        .collect()
    }
}

fn id_in_group(subscription: &str, group: &str, name: &str) -> String {
    format!(
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute/\
         virtualMachineScaleSets/{name}"
    )
}

/// Extensions as they stand on one instance.
fn extension_views(instance: &Instance) -> Vec<Value> {
    let extensions = instance
        .model
        .profile
        .pointer("/extensionProfile/extensions");
    let state = match &instance.state {
        State::Creating => "Creating",
        State::Failed(failure) if failure.code == "VMExtensionProvisioningError" => "Failed",
        _ => "Succeeded",
    };
    let extensions = extensions.and_then(Value::as_array).into_iter().flatten();
    extensions
        .map(|extension| {
            let mut properties = extension.get("properties").cloned().unwrap_or(json!({}));
            properties["provisioningState"] = json!(state);
            json!({"name": extension.get("name"), "properties": properties})
        })
        .collect()
}

/// Returns the instance view of one instance: provisioning first, then power.
pub(crate) fn vm_instance_view(instance: &Instance) -> Value {
    let word = instance.state.word().to_ascii_lowercase();
    let since = stamp(instance.state_since);
    let mut provisioning = json!({
        "code": format!("ProvisioningState/{word}"),
        "level": "Info",
        "displayStatus": format!("Provisioning {word}"),
        "time": since,
    });
    if let State::Failed(failure) = &instance.state {
        provisioning["code"] = json!(format!("ProvisioningState/failed/{}", failure.code));
        provisioning["level"] = json!("Error");
        provisioning["displayStatus"] = json!("Provisioning failed");
        provisioning["message"] = json!(failure.message);
    }
    let mut view = Map::new();
    let mut statuses = vec![provisioning];
    if let Some(power) = instance.power.word() {
        statuses.push(json!({
            "code": format!("PowerState/{power}"),
            "level": "Info",
            "displayStatus": format!("VM {power}"),
        }));
    }
    view.insert("statuses".to_owned(), json!(statuses));
    view.insert("computerName".to_owned(), json!(instance.computer_name));
    view.insert(
        "platformFaultDomain".to_owned(),
        json!(instance.fault_domain),
    );
    view.insert(
        "platformUpdateDomain".to_owned(),
        json!(instance.fault_domain),
    );
    if instance.power == Power::Running && instance.state == State::Succeeded {
        view.insert(
            "vmAgent".to_owned(),
            json!({"vmAgentVersion": "2.11.1.12", "statuses": [{
                "code": "ProvisioningState/succeeded", "level": "Info",
                "displayStatus": "Ready", "message": "Guest Agent is running", "time": since}]}),
        );
    }
    Value::Object(view)
}

/// Which instances go when capacity is lowered by this many.
///
/// One after the other: from the zone with the most instances, then by the rule. `Default` takes
/// the fullest fault domain and there the highest id; `NewestVM` and `OldestVM` go by creation
/// and then by id.
///
/// # Source
/// MicrosoftDocs/azure-compute-docs, virtual-machine-scale-sets-scale-in-policy.md.
pub(crate) fn scale_in_victims(set: &ScaleSet, count: usize) -> Vec<u32> {
    let mut left: Vec<&Instance> = set.staying().collect();
    let rules = strings(set.model.pointer("/properties/scaleInPolicy/rules"));
    let rule = rules.first().map_or("Default", String::as_str);
    let mut victims = Vec::new();
    while victims.len() < count {
        let in_zone = |zone: &Option<String>| left.iter().filter(|i| i.zone == *zone).count();
        let in_domain = |one: &Instance| {
            let same = |i: &&&Instance| i.zone == one.zone && i.fault_domain == one.fault_domain;
            left.iter().filter(same).count()
        };
        let candidates = left.iter().filter(|one| !one.is_kept_on_scale_in());
        let age = |one: &Instance| (one.created, one.id);
        let victim = match rule {
            "OldestVM" => {
                candidates.max_by_key(|one| (in_zone(&one.zone), std::cmp::Reverse(age(one))))
            }
            "NewestVM" => candidates.max_by_key(|one| (in_zone(&one.zone), age(one))),
            _ => candidates.max_by_key(|one| (in_zone(&one.zone), in_domain(one), one.id)),
        };
        let Some(id) = victim.map(|one| one.id) else {
            break;
        };
        left.retain(|one| one.id != id);
        victims.push(id);
    }
    victims
}
