//! What do virtual machines, nodes and the pods on them do?
//!
//! A VM that boots joins as a node; a node whose VM stops becomes unreachable; a node whose VM is
//! gone is removed, and then its pods. Pods start and stop, slowly. Who puts pods on nodes is in
//! `workload.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::agenda::Agenda;
use super::collect::DeleteOptions;
use super::draw::{Draws, Latency};
use super::fields::{self, Condition};
use super::kinds::resource;
use super::server::{ApiServer, Change, ObjectName, Target, What, WriteOptions};
use crate::tally::{Fault, Tally};

/// Whether a VM that boots becomes a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// It does.
    Joins,
    /// Its bootstrap fails for ever.
    Never,
}

/// A VM that has just started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootedVm {
    /// What the node's `spec.providerID` will say.
    pub provider_id: String,
    /// Host name, which becomes the node's name in lower case.
    pub computer_name: String,
    /// Zone within the location, if it has one.
    pub zone: Option<String>,
    /// The image it runs; a Kubernetes version in it becomes the kubelet's.
    pub image: String,
    /// The VM's own ID, new for each VM.
    pub vm_id: String,
    /// Whether it joins.
    pub joining: Joining,
}

/// Something that happened to a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VmChange {
    /// It started: for the first time, again, or with another disk.
    Booted(BootedVm),
    /// It does not run any more but is still there.
    Stopped {
        /// Which VM.
        provider_id: String,
    },
    /// It is gone for good.
    Gone {
        /// Which VM.
        provider_id: String,
    },
}

/// How nodes and pods behave.
#[derive(Clone, Debug)]
pub struct KubeletOptions {
    /// From a VM's boot to its node.
    pub node_join: Latency,
    /// From the node to its readiness.
    pub node_ready: Latency,
    /// From a VM's end to the removal of its node, after the node was noticed to be silent.
    pub node_gone: Latency,
    /// From a pod's binding to its readiness.
    pub pod_start: Latency,
    /// From a pod's deletion to its end, within its grace period.
    pub pod_stop: Latency,
    /// The kubelet's version when the image names none, with a `v`.
    pub kubelet_version: String,
    /// The location in zone labels.
    pub location: String,
}

impl Default for KubeletOptions {
    fn default() -> KubeletOptions {
        KubeletOptions {
            node_join: Latency::from_secs(60, 30),
            node_ready: Latency::from_secs(10, 8),
            node_gone: Latency::from_secs(10, 8),
            pod_start: Latency::from_secs(8, 6),
            pod_stop: Latency::from_secs(5, 4),
            kubelet_version: "v1.34.0".into(),
            location: "westeurope".into(),
        }
    }
}

/// How long a node may be silent before it counts as unreachable.
///
/// `--node-monitor-grace-period` of kube-controller-manager; the project's brief for the world
/// fixes the value of Kubernetes 1.31 and older, 1.32 made it 50 s.
const SILENCE_MAX: SignedDuration = SignedDuration::from_secs(40);

/// How long pods tolerate an unreachable node (admission plugin `DefaultTolerationSeconds`).
const UNREACHABLE_TOLERATED: SignedDuration = SignedDuration::from_secs(300);

/// When the pod garbage collector removes pods of a node that is gone: it looks every 20 s and
/// waits 40 s (`pkg/controller/podgc`).
const ORPHANED_PODS: Latency = Latency::from_secs(50, 10);

/// The taint that the kubeadm bootstrap provider puts on a node until Cluster API core knows it.
const UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Join(String),
    Ready(String),
    Silent(String),
    Heard(String),
    CloudGone(String),
    EvictByTaint(String),
    OrphanedPods(String),
    PodStart(ObjectName),
    PodStop(ObjectName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    /// It runs and its kubelet says nothing.
    Mute,
    Off,
    Gone,
}

#[derive(Clone, Debug)]
struct Vm {
    booted: BootedVm,
    power: Power,
    boot_id: String,
}

impl Vm {
    fn node(&self) -> String {
        self.booted.computer_name.to_lowercase()
    }
}

/// All nodes' kubelets, and the controllers that watch over nodes.
#[derive(Debug)]
pub struct Kubelets {
    options: KubeletOptions,
    /// By provider ID in lower case: Azure does not keep the case of resource IDs.
    vms: BTreeMap<String, Vm>,
    agenda: Agenda<Task>,
    draws: Draws,
    now: Timestamp,
    pub(crate) tally: Tally,
}

impl Kubelets {
    /// Starts without any VM.
    pub fn new(options: KubeletOptions, seed: u64) -> Kubelets {
        Kubelets {
            options,
            vms: BTreeMap::new(),
            agenda: Agenda::default(),
            draws: Draws::new(seed, "kubelets"),
            now: Timestamp::UNIX_EPOCH,
            tally: Tally::default(),
        }
    }

    /// Returns the name of the node that a VM is, or would be.
    pub fn node_of(&self, provider_id: &str) -> Option<String> {
        self.vms.get(&provider_id.to_lowercase()).map(Vm::node)
    }

    /// Takes note of what happened to a VM.
    pub fn vm_changed(&mut self, now: Timestamp, change: VmChange) {
        match change {
            VmChange::Booted(booted) => {
                let id = booted.provider_id.to_lowercase();
                let boot_id = self.draws.uuid();
                let joining = booted.joining;
                self.vms.insert(
                    id.clone(),
                    Vm {
                        booted,
                        power: Power::On,
                        boot_id,
                    },
                );
                self.agenda.cancel(&Task::Silent(id.clone()));
                self.agenda.cancel(&Task::CloudGone(id.clone()));
                if joining == Joining::Joins {
                    let at = self.draws.due(now, self.options.node_join);
                    self.agenda.add(at, Task::Join(id));
                }
            }
            VmChange::Stopped { provider_id } => self.lost(now, &provider_id, Power::Off),
            VmChange::Gone { provider_id } => {
                self.lost(now, &provider_id, Power::Gone);
                let at = self.draws.due(now + SILENCE_MAX, self.options.node_gone);
                self.agenda
                    .add(at, Task::CloudGone(provider_id.to_lowercase()));
            }
        }
    }

    /// Silences the kubelet of a machine for a while. Says whether it was running.
    ///
    /// Its pods go on as they are; none starts and none ends. A node has to be silent for 40 s
    /// before anybody notices.
    pub fn mute(&mut self, now: Timestamp, provider_id: &str, span: SignedDuration) -> bool {
        let id = provider_id.to_lowercase();
        let Some(vm) = self.vms.get_mut(&id).filter(|vm| vm.power == Power::On) else {
            return false;
        };
        vm.power = Power::Mute;
        self.agenda.cancel(&Task::Ready(id.clone()));
        self.agenda.add(now + SILENCE_MAX, Task::Silent(id.clone()));
        self.agenda.add(now + span, Task::Heard(id));
        true
    }

    fn heard(&mut self, id: &str) {
        let Some(vm) = self.vms.get_mut(id).filter(|vm| vm.power == Power::Mute) else {
            return;
        };
        vm.power = Power::On;
        self.tally.count(Fault::NodeBack);
        self.agenda.cancel(&Task::Silent(id.to_owned()));
        let at = self.draws.due(self.now, self.options.node_ready);
        self.agenda.add(at, Task::Ready(id.to_owned()));
    }

    fn lost(&mut self, now: Timestamp, provider_id: &str, power: Power) {
        let id = provider_id.to_lowercase();
        if let Some(vm) = self.vms.get_mut(&id) {
            vm.power = power;
        }
        self.agenda.cancel(&Task::Join(id.clone()));
        self.agenda.cancel(&Task::Ready(id.clone()));
        self.agenda.add(now + SILENCE_MAX, Task::Silent(id));
    }

    /// Takes note of a change in the workload cluster.
    pub fn observe(&mut self, now: Timestamp, change: &Change) {
        match (change.target.resource.as_str(), change.what) {
            (resource::NODES, What::Deleted) => {
                let at = self.draws.due(now, ORPHANED_PODS);
                self.agenda
                    .add(at, Task::OrphanedPods(change.target.id.name.clone()));
            }
            (resource::PODS, What::Added | What::Modified) => {
                self.plan_pod(now, &change.target.id, &change.object);
            }
            _ => {}
        }
    }

    fn plan_pod(&mut self, now: Timestamp, id: &ObjectName, pod: &Value) {
        let node = fields::text(pod, "/spec/nodeName");
        if node.is_empty() || !self.is_running(node) {
            return;
        }
        if fields::is_deleting(pod) {
            let task = Task::PodStop(id.clone());
            let end = fields::time(pod, "/metadata/deletionTimestamp").unwrap_or(now);
            let at = self.draws.due(now, self.options.pod_stop).min(end).max(now);
            self.agenda.add(at, task);
        } else if !fields::is_ready(pod) {
            let task = Task::PodStart(id.clone());
            if !self.agenda.contains(&task) {
                let at = self.draws.due(now, self.options.pod_start);
                self.agenda.add(at, task);
            }
        }
    }

    fn is_running(&self, node: &str) -> bool {
        // Nodes that no VM stands behind (made by a test) run their pods too.
        self.vms
            .values()
            .find(|vm| vm.node() == node)
            .is_none_or(|vm| vm.power == Power::On)
    }

    /// Returns when something is to be done.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.agenda.next_due()
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Timestamp, server: &mut ApiServer) {
        self.now = now;
        while let Some(task) = self.agenda.pop(now) {
            match task {
                Task::Join(id) => self.join(server, &id),
                Task::Ready(id) => self.become_ready(server, &id),
                Task::Silent(id) => self.become_silent(server, &id),
                Task::Heard(id) => self.heard(&id),
                Task::CloudGone(id) => self.remove_node(server, &id),
                Task::EvictByTaint(node) => self.evict_by_taint(server, &node),
                Task::OrphanedPods(node) => self.remove_orphans(server, &node),
                Task::PodStart(id) => self.start_pod(server, &id),
                Task::PodStop(id) => self.stop_pod(server, &id),
            }
        }
    }

    fn join(&mut self, server: &mut ApiServer, id: &str) {
        let Some(vm) = self.vms.get(id).filter(|vm| vm.power == Power::On) else {
            return;
        };
        let node = vm.node();
        let status = self.node_status(vm);
        let target = Target::new(resource::NODES, "", &node);
        let now = self.now;
        if server.get(&target).is_some() {
            let edited = server.edit(now, &target, "kubelet", |node| {
                fields::set(node, "/status/nodeInfo", status["nodeInfo"].clone());
                set_ready(node, "False", "KubeletNotReady", now);
            });
            edited.expect("the node was there a line above");
            self.make_pods_unready(server, &node);
        } else {
            let labels = self.node_labels(vm, &node);
            let object = json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": node, "labels": labels},
                "spec": {"providerID": vm.booted.provider_id, "taints": [
                    {"key": UNINITIALIZED, "effect": "NoSchedule"},
                    {"key": NOT_READY, "effect": "NoSchedule"}]},
                "status": status});
            let mut object = object;
            set_ready(&mut object, "False", "KubeletNotReady", now);
            let created = server.create(now, object, &WriteOptions::controller("kubelet"));
            created.expect("a well-formed node that is not there can be created");
        }
        let at = self.draws.due(now, self.options.node_ready);
        self.agenda.add(at, Task::Ready(id.to_owned()));
    }

    fn node_status(&self, vm: &Vm) -> Value {
        let version =
            version_in(&vm.booted.image).unwrap_or_else(|| self.options.kubelet_version.clone());
        json!({"nodeInfo": {"kubeletVersion": version, "bootID": vm.boot_id,
            "systemUUID": vm.booted.vm_id, "machineID": vm.booted.vm_id,
            "operatingSystem": "linux", "architecture": "amd64", "osImage": vm.booted.image},
            "addresses": [{"type": "Hostname", "address": vm.node()}],
            "capacity": {"pods": "110"}, "allocatable": {"pods": "110"}})
    }

    fn node_labels(&self, vm: &Vm, node: &str) -> Value {
        let location = &self.options.location;
        // Nodes without a zone carry the fault domain, as the Azure cloud provider does it.
        let zone = match &vm.booted.zone {
            Some(zone) if zone.contains('-') => zone.clone(),
            Some(zone) => format!("{location}-{zone}"),
            None => "0".to_owned(),
        };
        json!({"kubernetes.io/hostname": node, "kubernetes.io/os": "linux",
            "topology.kubernetes.io/region": location, "topology.kubernetes.io/zone": zone})
    }

    fn become_ready(&mut self, server: &mut ApiServer, id: &str) {
        let Some(vm) = self.vms.get(id).filter(|vm| vm.power == Power::On) else {
            return;
        };
        let node = vm.node();
        let now = self.now;
        self.agenda.cancel(&Task::EvictByTaint(node.clone()));
        // The node may have been deleted; a kubelet registers only when it starts.
        let _absent = server
            .edit(
                now,
                &Target::new(resource::NODES, "", &node),
                "kubelet",
                |node| {
                    set_ready(node, "True", "KubeletReady", now);
                    remove_taint(node, NOT_READY);
                    remove_taint(node, UNREACHABLE);
                },
            )
            .err();
        for pod in pods_on(server, &node) {
            let target = Target::of(resource::PODS, &pod);
            self.plan_pod(now, &target.id, &pod);
        }
    }

    fn become_silent(&mut self, server: &mut ApiServer, id: &str) {
        let Some(vm) = self.vms.get(id).filter(|vm| vm.power != Power::On) else {
            return;
        };
        let node = vm.node();
        let now = self.now;
        let target = Target::new(resource::NODES, "", &node);
        if server.get(&target).is_none() {
            return;
        }
        let edited = server.edit(now, &target, "node lifecycle", |node| {
            set_ready(node, "Unknown", "NodeStatusUnknown", now);
            for effect in ["NoSchedule", "NoExecute"] {
                add_taint(node, UNREACHABLE, effect);
            }
        });
        edited.expect("the node was there a line above");
        self.tally.count(Fault::NodeSilent);
        self.make_pods_unready(server, &node);
        self.agenda
            .add(now + UNREACHABLE_TOLERATED, Task::EvictByTaint(node));
    }

    fn make_pods_unready(&self, server: &mut ApiServer, node: &str) {
        for pod in pods_on(server, node) {
            let target = Target::of(resource::PODS, &pod);
            let edited = server.edit(self.now, &target, "node lifecycle", |pod| {
                set_ready(pod, "False", "NodeNotReady", self.now);
            });
            edited.expect("the pod was just listed");
        }
    }

    fn evict_by_taint(&self, server: &mut ApiServer, node: &str) {
        let is_tainted = server
            .get(&Target::new(resource::NODES, "", node))
            .is_some_and(|node| has_taint(&node, UNREACHABLE));
        if !is_tainted {
            return;
        }
        for pod in pods_on(server, node).iter().filter(|pod| !is_daemon(pod)) {
            let target = Target::of(resource::PODS, pod);
            let deleted = server.delete(self.now, &target, &DeleteOptions::by("taint eviction"));
            deleted.expect("the pod was just listed");
        }
    }

    fn remove_node(&mut self, server: &mut ApiServer, id: &str) {
        let Some(vm) = self.vms.remove(id) else {
            return;
        };
        let target = Target::new(resource::NODES, "", &vm.node());
        let is_its = server
            .get(&target)
            .is_some_and(|node| fields::text(&node, "/spec/providerID").eq_ignore_ascii_case(id));
        if is_its {
            let options = DeleteOptions::by("cloud node lifecycle");
            server
                .delete(self.now, &target, &options)
                .expect("the node was just read");
        }
    }

    fn remove_orphans(&self, server: &mut ApiServer, node: &str) {
        if server
            .get(&Target::new(resource::NODES, "", node))
            .is_some()
        {
            return;
        }
        for pod in pods_on(server, node) {
            let target = Target::of(resource::PODS, &pod);
            let deleted = server.delete(self.now, &target, &DeleteOptions::at_once("pod gc"));
            deleted.expect("the pod was just listed");
        }
    }

    fn start_pod(&self, server: &mut ApiServer, id: &ObjectName) {
        let target = Target {
            resource: resource::PODS.into(),
            id: id.clone(),
        };
        let Some(pod) = server.get(&target) else {
            return;
        };
        let node = fields::text(&pod, "/spec/nodeName");
        let is_there = server
            .get(&Target::new(resource::NODES, "", node))
            .is_some();
        if fields::is_deleting(&pod) || !self.is_running(node) || !is_there {
            return;
        }
        let edited = server.edit(self.now, &target, "kubelet", |pod| {
            fields::set(pod, "/status/phase", json!("Running"));
            if fields::at(pod, "/status/startTime").is_none() {
                fields::set(pod, "/status/startTime", json!(fields::stamp(self.now)));
            }
            set_ready(pod, "True", "", self.now);
        });
        edited.expect("the pod was just read");
    }

    fn stop_pod(&self, server: &mut ApiServer, id: &ObjectName) {
        let target = Target {
            resource: resource::PODS.into(),
            id: id.clone(),
        };
        let Some(pod) = server.get(&target) else {
            return;
        };
        if fields::is_deleting(&pod) && self.is_running(fields::text(&pod, "/spec/nodeName")) {
            let deleted = server.delete(self.now, &target, &DeleteOptions::at_once("kubelet"));
            deleted.expect("the pod was just read");
        }
    }
}

/// Returns the pods bound to a node, by namespace and name.
pub fn pods_on(server: &ApiServer, node: &str) -> Vec<Arc<Value>> {
    let is_bound = |pod: &&Arc<Value>| fields::text(pod, "/spec/nodeName") == node;
    server
        .list(resource::PODS)
        .filter(is_bound)
        .cloned()
        .collect()
}

/// Returns whether a pod belongs to a daemon set.
pub fn is_daemon(pod: &Value) -> bool {
    fields::controller(pod).is_some_and(|owner| fields::text(owner, "/kind") == "DaemonSet")
}

fn set_ready(object: &mut Value, status: &str, reason: &str, now: Timestamp) {
    let fresh = Condition {
        condition_type: "Ready",
        status,
        reason,
        message: "",
    };
    fields::set_condition(object, fresh, now);
}

/// Returns whether a node has a taint with this key.
pub fn has_taint(node: &Value, key: &str) -> bool {
    fields::list(node, "/spec/taints")
        .iter()
        .any(|taint| fields::text(taint, "/key") == key)
}

fn add_taint(node: &mut Value, key: &str, effect: &str) {
    let taint = json!({"key": key, "effect": effect});
    let mut taints = fields::list(node, "/spec/taints").to_vec();
    if !taints.contains(&taint) {
        taints.push(taint);
        fields::set(node, "/spec/taints", Value::Array(taints));
    }
}

/// Takes all taints with this key off a node.
pub fn remove_taint(node: &mut Value, key: &str) {
    let mut taints = fields::list(node, "/spec/taints").to_vec();
    taints.retain(|taint| fields::text(taint, "/key") != key);
    match taints.is_empty() {
        true => fields::remove(node, "/spec/taints"),
        false => fields::set(node, "/spec/taints", Value::Array(taints)),
    }
}

/// Returns the Kubernetes version in an image's name: its last `<major>.<minor>.<patch>`.
fn version_in(image: &str) -> Option<String> {
    let is_part = |letter: char| letter.is_ascii_digit() || letter == '.';
    let mut words = image.split(|letter: char| !is_part(letter));
    let is_version = |word: &&str| {
        word.split('.').count() == 3
            && word
                .split('.')
                .all(|part| !part.is_empty() && part.len() <= 3)
    };
    words.rfind(is_version).map(|version| format!("v{version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelet_version_is_read_from_the_image() {
        let rows = [
            (
                "/CommunityGalleries/x/Images/capi-ubun2-2404/Versions/1.34.2",
                Some("v1.34.2"),
            ),
            ("capi-1.30.4", Some("v1.30.4")),
            ("canonical:ubuntu:server:latest", None),
            ("ubuntu:22.04.202401010", None),
        ];
        for (image, version) in rows {
            assert_eq!(version_in(image).as_deref(), version, "{image}");
        }
    }
}
