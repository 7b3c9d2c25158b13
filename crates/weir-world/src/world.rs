//! What is the state of the whole world, and what happens next in it?
//!
//! Sans-IO: requests go in and answers come out, time moves only when told to. The same world
//! serves tests that step it, simulations that jump to [`World::next_due`], and the demo.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::azure::{Azure, AzureOptions, InstanceFact, Vm, VmEvent};
use crate::cluster::capi::{Capi, CapiOptions, Servers};
use crate::cluster::collect::DeleteOptions;
use crate::cluster::kinds::resource;
use crate::cluster::kubelet::{
    BootedVm, Joining, KubeletOptions, Kubelets, VmChange, is_daemon, pods_on,
};
use crate::cluster::refusal::Refusal;
use crate::cluster::server::{Faults, Reach, WriteOptions};
use crate::cluster::workload::{WorkloadSpec, Workloads};
use crate::cluster::{ApiServer, Reply, Side, Target, WatchId, fields, patch};
use crate::tally::Tally;
use crate::trace::{Trace, TraceEntry};

/// Whom a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// The API server with the Cluster API objects.
    Management,
    /// The API server with nodes and pods.
    Workload,
    /// Azure Resource Manager.
    Azure,
}

/// How the world behaves.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// The time at which it starts.
    pub start: Timestamp,
    /// How Azure behaves.
    pub azure: AzureOptions,
    /// How the management API server misbehaves.
    pub management_faults: Faults,
    /// How the workload API server misbehaves.
    pub workload_faults: Faults,
    /// How nodes and pods behave.
    pub kubelets: KubeletOptions,
    /// How Cluster API core behaves.
    pub capi: CapiOptions,
    /// Deployments, with their budgets, that are there from the start.
    pub workloads: Vec<WorkloadSpec>,
    /// Names of daemon sets, in namespace `kube-system`, that are there from the start.
    pub daemon_sets: Vec<String>,
}

impl Default for WorldOptions {
    fn default() -> WorldOptions {
        WorldOptions {
            start: Timestamp::constant(1_767_225_600, 0),
            azure: AzureOptions::default(),
            management_faults: Faults::default(),
            workload_faults: Faults::default(),
            kubelets: KubeletOptions::default(),
            capi: CapiOptions::default(),
            workloads: Vec::new(),
            daemon_sets: Vec::new(),
        }
    }
}

/// What was left on the node of an instance at the moment its deletion was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrainState {
    /// There was no node.
    NoNode,
    /// The node had no pod left that a drain evicts.
    Drained,
    /// Pods were left, and the machine's drain timeout had passed.
    TimedOut {
        /// How many pods were left.
        pods_left: usize,
    },
    /// Pods were left on a node that is not heard of: nobody can end them there.
    Unreachable {
        /// How many pods were left.
        pods_left: usize,
    },
    /// Pods were left, and the user had excluded the machine from draining.
    Excluded {
        /// How many pods were left.
        pods_left: usize,
    },
    /// Pods were left, and nothing excuses it.
    PodsLeft {
        /// How many pods were left.
        pods_left: usize,
    },
}

/// One deletion of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceDelete {
    /// When it was accepted.
    pub at: Timestamp,
    /// Which instance.
    pub provider_id: String,
    /// What was left on its node.
    pub drain: DrainState,
}

/// One node, as a checker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Name.
    pub name: String,
    /// `spec.providerID`.
    pub provider_id: String,
    /// Whether its `Ready` condition is true.
    pub is_ready: bool,
    /// Whether it is cordoned.
    pub is_cordoned: bool,
    /// The kubelet's version.
    pub kubelet_version: String,
    /// Pods on it that belong to no daemon set, as `namespace/name`, those that leave included.
    pub pods: Vec<String>,
}

/// One scale set, as a checker sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleSetFacts {
    /// Name.
    pub name: String,
    /// How many instances were asked for.
    pub capacity: u32,
    /// The instances that exist, those on their way out included, by id.
    pub instances: Vec<InstanceFact>,
}

/// What is true in the world, for checkers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// All scale sets, by name.
    pub scale_sets: Vec<ScaleSetFacts>,
    /// All nodes, by name.
    pub nodes: Vec<NodeFacts>,
    /// All deletions of instances so far, oldest first.
    pub instance_deletes: Vec<InstanceDelete>,
}

/// The simulated world.
#[derive(Debug)]
pub struct World {
    now: Timestamp,
    azure: Azure,
    management: ApiServer,
    workload: ApiServer,
    kubelets: Kubelets,
    workloads: Workloads,
    capi: Capi,
    instance_deletes: Vec<InstanceDelete>,
    trace: Trace,
}

impl World {
    /// Makes a world. Two worlds with equal options, seed and requests are equal for ever.
    pub fn new(options: WorldOptions, seed: u64) -> World {
        let mut management = ApiServer::new(Side::Management, seed);
        let mut workload = ApiServer::new(Side::Workload, seed);
        management.set_faults(options.management_faults);
        workload.set_faults(options.workload_faults);
        let mut world = World {
            now: options.start,
            azure: Azure::new(options.azure, seed, options.start),
            management,
            workload,
            kubelets: Kubelets::new(options.kubelets, seed),
            workloads: Workloads::new(seed),
            capi: Capi::new(options.capi, seed),
            instance_deletes: Vec::new(),
            trace: Trace::default(),
        };
        for side in [Side::Management, Side::Workload] {
            for name in ["default", "kube-system"] {
                let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": name,
                        "labels": {"kubernetes.io/metadata.name": name}}});
                world
                    .create(side, namespace)
                    .expect("an empty server takes a namespace");
            }
        }
        for name in &options.daemon_sets {
            world
                .add_daemon_set(name)
                .expect("names of daemon sets differ");
        }
        for spec in &options.workloads {
            world.add_workload(spec).expect("names of workloads differ");
        }
        world
    }

    /// Returns the world's time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Answers a request at the present time.
    pub fn handle(&mut self, endpoint: Endpoint, request: &Request<Bytes>) -> Reply {
        let now = self.now;
        let reply = match endpoint {
            Endpoint::Management => self.management.handle(request, now),
            Endpoint::Workload => self.workload.handle(request, now),
            Endpoint::Azure => {
                let response = self.azure.handle(request, now);
                let (method, path) = (request.method(), request.uri().path());
                let code = response.status().as_u16();
                self.trace
                    .push(now, format!("azure: {method} {path} -> {code}"));
                self.pass_on_vm_events(now);
                Reply::Response(response)
            }
        };
        self.settle();
        reply
    }

    /// Returns a watch's frames that are due; `None` once it has ended.
    pub fn watch_poll(&mut self, id: WatchId) -> Option<Vec<Bytes>> {
        let now = self.now;
        let frames = self.server_mut(id.side).watch_poll(id, now);
        self.settle();
        frames
    }

    /// Forgets a watch whose client has left.
    pub fn watch_close(&mut self, id: WatchId) {
        self.server_mut(id.side).watch_close(id);
    }

    /// Returns when the world has something to do by itself, if ever.
    pub fn next_due(&self) -> Option<Timestamp> {
        let times = [
            self.azure.next_due(),
            self.management.next_due(self.now),
            self.workload.next_due(self.now),
            self.kubelets.next_due(),
            self.workloads.next_due(),
            self.capi.next_due(),
        ];
        times.into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// Moves time forward, doing on the way what is due, in order.
    pub fn advance(&mut self, to: Timestamp) {
        while let Some(at) = self.next_due().filter(|at| *at <= to) {
            self.now = at;
            self.step(at);
        }
        self.now = self.now.max(to);
    }

    /// Does what is due at this instant.
    fn step(&mut self, at: Timestamp) {
        self.pass_on_vm_events(at);
        self.management.advance(at);
        self.workload.advance(at);
        self.settle();
        self.kubelets.advance(at, &mut self.workload);
        self.settle();
        self.workloads.advance(at, &mut self.workload);
        self.settle();
        let mut servers = Servers {
            management: &mut self.management,
            workload: &mut self.workload,
        };
        self.capi.advance(at, &mut servers);
        self.settle();
    }

    /// Tells the cluster what happened to virtual machines up to now.
    fn pass_on_vm_events(&mut self, now: Timestamp) {
        for event in self.azure.advance(now) {
            match event {
                VmEvent::Booted(vm) | VmEvent::Reimaged(vm) => {
                    self.vm_changed(VmChange::Booted(booted(&vm)));
                }
                VmEvent::Stopped { provider_id } => {
                    self.vm_changed(VmChange::Stopped { provider_id });
                }
                VmEvent::Deleting { provider_id } => self.instance_delete_accepted(&provider_id),
                VmEvent::Gone { provider_id } => self.vm_changed(VmChange::Gone { provider_id }),
            }
        }
    }

    /// Passes on what the servers just changed, and collects their lines.
    fn settle(&mut self) {
        let now = self.now;
        self.trace.extend(self.management.take_lines());
        self.trace.extend(self.workload.take_lines());
        for change in self.management.take_changes() {
            self.capi
                .observe(now, Side::Management, &change, &self.management);
        }
        for change in self.workload.take_changes() {
            self.kubelets.observe(now, &change);
            self.workloads.observe(now, &change, &self.workload);
            self.capi
                .observe(now, Side::Workload, &change, &self.management);
        }
    }

    /// Tells the cluster what happened to a virtual machine.
    pub fn vm_changed(&mut self, change: VmChange) {
        let now = self.now;
        let line = match &change {
            VmChange::Booted(vm) => format!("vm {} booted", vm.computer_name),
            VmChange::Stopped { provider_id } => format!("vm {provider_id} stopped"),
            VmChange::Gone { provider_id } => format!("vm {provider_id} gone"),
        };
        self.trace.push(now, line);
        self.kubelets.vm_changed(now, change);
    }

    /// Records what is on an instance's node now that Azure has accepted to delete the instance.
    pub fn instance_delete_accepted(&mut self, provider_id: &str) {
        let drain = self.drain_state(provider_id);
        self.trace.push(
            self.now,
            format!("delete of {provider_id} accepted: {drain:?}"),
        );
        let provider_id = provider_id.to_owned();
        self.instance_deletes.push(InstanceDelete {
            at: self.now,
            provider_id,
            drain,
        });
    }

    fn drain_state(&self, provider_id: &str) -> DrainState {
        let is_its = |object: &&Arc<Value>| {
            fields::text(object, "/spec/providerID").eq_ignore_ascii_case(provider_id)
        };
        let Some(node) = self.workload.list(resource::NODES).find(is_its) else {
            return DrainState::NoNode;
        };
        let pods = pods_on(&self.workload, fields::name(node));
        let pods_left = pods.iter().filter(|pod| is_evictable(pod)).count();
        if pods_left == 0 {
            return DrainState::Drained;
        }
        if !fields::is_ready(node) {
            return DrainState::Unreachable { pods_left };
        }
        let machine = self.management.list(resource::MACHINES).find(is_its);
        let excluded = "machine.cluster.x-k8s.io/exclude-node-draining";
        match machine {
            Some(machine) if fields::annotation(machine, excluded).is_some() => {
                DrainState::Excluded { pods_left }
            }
            Some(machine) if self.drain_timed_out(machine) => DrainState::TimedOut { pods_left },
            _ => DrainState::PodsLeft { pods_left },
        }
    }

    fn drain_timed_out(&self, machine: &Value) -> bool {
        let limit = fields::number(machine, "/spec/deletion/nodeDrainTimeoutSeconds");
        // Where core does not drain, it notes no beginning: it cannot be before the deletion.
        let started = fields::time(machine, "/status/deletion/nodeDrainStartTime")
            .or_else(|| fields::time(machine, "/metadata/deletionTimestamp"));
        let (Some(limit), Some(started)) = (limit, started) else {
            return false;
        };
        limit > 0 && self.now.duration_since(started).as_secs() >= limit
    }

    /// Silences the kubelet of a machine for a while, as a hung one is. Says whether it ran.
    pub fn mute_node(&mut self, provider_id: &str, span: SignedDuration) -> bool {
        let now = self.now;
        self.trace
            .push(now, format!("kubelet of {provider_id} falls silent"));
        self.kubelets.mute(now, provider_id, span)
    }

    /// Returns which faults happened so far, and how often.
    pub fn tally(&self) -> Tally {
        let mut all = self.azure.tally.clone();
        for other in [
            &self.management.tally,
            &self.workload.tally,
            &self.kubelets.tally,
        ] {
            all.merge(other);
        }
        all
    }

    /// Returns a number that grows with every change of what [`World::facts`] tells.
    pub fn changes(&self) -> u64 {
        self.azure.changes() + self.management.revision() + self.workload.revision()
    }

    /// Returns all deletions of instances so far, oldest first.
    pub fn instance_deletes(&self) -> &[InstanceDelete] {
        &self.instance_deletes
    }

    /// Returns what is true now, for checkers.
    pub fn facts(&self) -> Facts {
        let nodes = self.workload.list(resource::NODES);
        let nodes = nodes.map(|node| self.node_facts(node));
        let scale_sets = self
            .azure
            .scale_sets()
            .into_iter()
            .map(|name| ScaleSetFacts {
                capacity: self.azure.capacity(&name).unwrap_or(0),
                instances: self.azure.instances(&name),
                name,
            });
        Facts {
            scale_sets: scale_sets.collect(),
            nodes: nodes.collect(),
            instance_deletes: self.instance_deletes.clone(),
        }
    }

    /// Returns what is true of the nodes of one scale set's machines, those that are gone included.
    pub fn nodes_of(&self, scale_set: &str) -> Vec<NodeFacts> {
        let part = format!("/virtualmachinescalesets/{}/", scale_set.to_lowercase());
        let is_its = |node: &&Arc<Value>| {
            let id = fields::text(node, "/spec/providerID");
            id.to_lowercase().contains(&part)
        };
        let nodes = self.workload.list(resource::NODES).filter(is_its);
        nodes.map(|node| self.node_facts(node)).collect()
    }

    fn node_facts(&self, node: &Value) -> NodeFacts {
        let pods = pods_on(&self.workload, fields::name(node));
        let pods = pods.iter().filter(|pod| !is_daemon(pod));
        NodeFacts {
            name: fields::name(node).to_owned(),
            provider_id: fields::text(node, "/spec/providerID").to_owned(),
            is_ready: fields::is_ready(node),
            is_cordoned: fields::flag(node, "/spec/unschedulable"),
            kubelet_version: fields::text(node, "/status/nodeInfo/kubeletVersion").to_owned(),
            pods: pods
                .map(|pod| format!("{}/{}", fields::namespace(pod), fields::name(pod)))
                .collect(),
        }
    }

    /// Creates a deployment, and its budget if it has one.
    ///
    /// # Errors
    /// One of them is there already.
    pub fn add_workload(&mut self, spec: &WorkloadSpec) -> Result<(), Refusal> {
        for object in spec.objects() {
            self.create(Side::Workload, object)?;
        }
        Ok(())
    }

    /// Creates a daemon set in namespace `kube-system`.
    ///
    /// # Errors
    /// It is there already.
    pub fn add_daemon_set(&mut self, name: &str) -> Result<(), Refusal> {
        let labels = json!({"app": name});
        let object = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"namespace": "kube-system", "name": name, "labels": labels},
            "spec": {"selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": name}]}}}});
        self.create(Side::Workload, object).map(drop)
    }

    /// Returns how many pods with the label `app` of this value are ready and not leaving.
    pub fn ready_pods(&self, app: &str) -> usize {
        let is_counted = |pod: &&Arc<Value>| {
            fields::label(pod, "app") == app && fields::is_ready(pod) && !fields::is_deleting(pod)
        };
        self.workload
            .list(resource::PODS)
            .filter(is_counted)
            .count()
    }

    /// Returns everything that happened, oldest first.
    pub fn trace(&self) -> &[TraceEntry] {
        self.trace.entries()
    }

    /// Returns a hash of everything that happened.
    pub fn fingerprint(&self) -> u64 {
        self.trace.fingerprint()
    }

    /// Returns Azure.
    pub fn azure(&self) -> &Azure {
        &self.azure
    }

    /// Does something with Azure at the present time, such as a move in the portal.
    pub fn with_azure<T>(&mut self, act: impl FnOnce(&mut Azure) -> T) -> T {
        let result = act(&mut self.azure);
        self.pass_on_vm_events(self.now);
        self.settle();
        result
    }

    /// Returns one of the API servers.
    pub fn server(&self, side: Side) -> &ApiServer {
        match side {
            Side::Management => &self.management,
            Side::Workload => &self.workload,
        }
    }

    /// Does something with one of the API servers at the present time.
    pub fn with_server<T>(
        &mut self,
        side: Side,
        act: impl FnOnce(&mut ApiServer, Timestamp) -> T,
    ) -> T {
        let now = self.now;
        let result = act(self.server_mut(side), now);
        self.settle();
        result
    }

    fn server_mut(&mut self, side: Side) -> &mut ApiServer {
        match side {
            Side::Management => &mut self.management,
            Side::Workload => &mut self.workload,
        }
    }

    /// Returns an object.
    pub fn get(&self, side: Side, target: &Target) -> Option<Arc<Value>> {
        self.server(side).get(target)
    }

    /// Creates an object as a user would, but with its `status`.
    ///
    /// # Errors
    /// As the API server's.
    pub fn create(&mut self, side: Side, object: Value) -> Result<Arc<Value>, Refusal> {
        let now = self.now;
        let options = WriteOptions::controller("user");
        let created = self.server_mut(side).create(now, object, &options);
        self.settle();
        created
    }

    /// Changes an object with a merge patch, as a user would. `reach` says which part.
    ///
    /// # Errors
    /// As the API server's.
    pub fn patch(
        &mut self,
        side: Side,
        target: &Target,
        reach: Reach,
        change: &Value,
    ) -> Result<Arc<Value>, Refusal> {
        let now = self.now;
        let options = WriteOptions {
            reach,
            ..WriteOptions::controller("user")
        };
        let server = self.server_mut(side);
        let live = server.get(target);
        let proposed = patch::merge(live.as_deref().unwrap_or(&Value::Null), change);
        let written = server.rewrite(now, target, &options, proposed);
        self.settle();
        written
    }

    /// Deletes an object as a user would.
    ///
    /// # Errors
    /// As the API server's.
    pub fn delete(&mut self, side: Side, target: &Target) -> Result<Arc<Value>, Refusal> {
        let now = self.now;
        let options = DeleteOptions::by("user");
        let last = self.server_mut(side).delete(now, target, &options);
        self.settle();
        last
    }
}

/// Daemon set pods, mirror pods and finished pods do not count as something a drain has to evict.
fn is_evictable(pod: &Value) -> bool {
    let is_mirror = fields::annotation(pod, "kubernetes.io/config.mirror").is_some();
    let is_over = matches!(fields::text(pod, "/status/phase"), "Succeeded" | "Failed");
    !is_daemon(pod) && !is_mirror && !is_over
}

fn booted(vm: &Vm) -> BootedVm {
    let parts = vm.image.as_object().into_iter().flatten();
    let parts = parts.filter_map(|(_, part)| part.as_str());
    BootedVm {
        provider_id: vm.provider_id.clone(),
        computer_name: vm.computer_name.clone(),
        zone: vm.zone.clone(),
        image: parts.collect::<Vec<_>>().join(":"),
        vm_id: vm.vm_id.clone(),
        joining: if vm.never_joins {
            Joining::Never
        } else {
            Joining::Joins
        },
    }
}
