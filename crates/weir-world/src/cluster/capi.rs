//! What does Cluster API core do with a machine pool, its machines and their nodes?
//!
//! A model of core's controllers, written from their behaviour: which fields they read and write,
//! in which order, and what they wait for. Each reconcile happens at one instant, some time after
//! the change that caused it. Bootstrap providers, volumes, health checks and topology are left
//! out.
//!
//! # Source
//! kubernetes-sigs/cluster-api v1.14.2, `core/reconcilers/{machine,machinepool}`.

mod drain;
mod machine;
mod pool;

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::agenda::Agenda;
use super::collect::DeleteOptions;
use super::draw::{Draws, Latency};
use super::fields;
use super::kinds::resource;
use super::refusal::Refusal;
use super::server::{ApiServer, Change, ObjectName, Side, Target};

/// The label that names an object's cluster.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// The label that names a machine's pool.
pub const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";

const CLUSTER_FINALIZER: &str = "cluster.cluster.x-k8s.io";
const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";
const POOL_FINALIZER: &str = "machinepool.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Whether the workload cluster has a control plane that core knows of.
///
/// Core neither drains nor deletes the last nodes of a cluster: without control plane machines
/// and without an externally managed control plane it skips both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlPlane {
    /// There is one, even when no object says so.
    #[default]
    Present,
    /// Only what the objects say counts: machines with the control plane label, or a
    /// `controlPlaneRef`.
    AsObjectsSay,
}

/// How Cluster API core behaves.
#[derive(Clone, Debug)]
pub struct CapiOptions {
    /// From a change to the reconcile it causes.
    pub reaction: Latency,
    /// Whether drains are to be expected.
    pub control_plane: ControlPlane,
}

impl Default for CapiOptions {
    fn default() -> CapiOptions {
        CapiOptions {
            reaction: Latency::from_millis(1000, 900),
            control_plane: ControlPlane::default(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Cluster(ObjectName),
    Pool(ObjectName),
    Machine(ObjectName),
}

/// The two API servers that core works on.
pub struct Servers<'a> {
    /// Holds clusters, pools and machines.
    pub management: &'a mut ApiServer,
    /// Holds nodes and pods.
    pub workload: &'a mut ApiServer,
}

/// Cluster API core's controllers.
#[derive(Debug)]
pub struct Capi {
    options: CapiOptions,
    agenda: Agenda<Task>,
    /// Machines that are not to be looked at before a time, because a drain is under way.
    deferred: BTreeMap<ObjectName, Timestamp>,
    draws: Draws,
    now: Timestamp,
}

/// How long core waits after an error; controller-runtime backs off from 5 ms up to 1000 s, and
/// what fails here is a race that is soon over.
const AFTER_ERROR: SignedDuration = SignedDuration::from_secs(1);

/// What a reconcile wants next.
enum Next {
    Nothing,
    After(SignedDuration),
}

impl Capi {
    /// Starts with nothing to do.
    pub fn new(options: CapiOptions, seed: u64) -> Capi {
        Capi {
            options,
            agenda: Agenda::default(),
            deferred: BTreeMap::new(),
            draws: Draws::new(seed, "capi"),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    /// Takes note of a change on one of the servers.
    pub fn observe(&mut self, now: Timestamp, side: Side, change: &Change, seen: &ApiServer) {
        match (side, change.target.resource.as_str()) {
            (Side::Management, key) => self.observe_management(now, key, change, seen),
            (Side::Workload, resource::NODES) => self.observe_node(now, &change.object, seen),
            (Side::Workload, _) => {}
        }
    }

    fn observe_management(
        &mut self,
        now: Timestamp,
        key: &str,
        change: &Change,
        management: &ApiServer,
    ) {
        let id = change.target.id.clone();
        let namespace = id.namespace.clone();
        match key {
            resource::CLUSTERS => {
                self.soon(now, Task::Cluster(id));
                for pool in management.list_in(resource::MACHINE_POOLS, &namespace) {
                    self.soon(now, Task::Pool(name_of(pool)));
                }
                for machine in management.list_in(resource::MACHINES, &namespace) {
                    self.soon(now, Task::Machine(name_of(machine)));
                }
            }
            resource::MACHINE_POOLS => {
                self.soon(now, Task::Pool(id));
                self.cluster_soon(now, &change.object);
            }
            resource::MACHINES => {
                self.soon(now, Task::Machine(id));
                self.pool_soon(now, &change.object, management);
                self.cluster_soon(now, &change.object);
            }
            resource::AZURE_POOLS => {
                for pool in management.list_in(resource::MACHINE_POOLS, &namespace) {
                    if pool::infrastructure_name(pool) == id.name {
                        self.soon(now, Task::Pool(name_of(pool)));
                    }
                }
            }
            resource::AZURE_POOL_MACHINES => {
                self.soon(now, Task::Machine(id));
                self.pool_soon(now, &change.object, management);
            }
            _ => {}
        }
    }

    /// Nodes lead to the machine and to the pool whose instance they are.
    pub fn observe_node(&mut self, now: Timestamp, node: &Value, management: &ApiServer) {
        let provider_id = fields::text(node, "/spec/providerID");
        for machine in management.list(resource::MACHINES) {
            let is_its = fields::text(machine, "/spec/providerID") == provider_id
                || fields::text(machine, "/status/nodeRef/name") == fields::name(node);
            if is_its {
                self.soon(now, Task::Machine(name_of(machine)));
            }
        }
        for pool in management.list(resource::MACHINE_POOLS) {
            let ids = fields::list(pool, "/spec/providerIDList");
            if ids.iter().any(|id| id.as_str() == Some(provider_id)) {
                self.soon(now, Task::Pool(name_of(pool)));
            }
        }
    }

    fn pool_soon(&mut self, now: Timestamp, object: &Value, management: &ApiServer) {
        let label = fields::label(object, POOL_NAME);
        if label.is_empty() {
            return;
        }
        for pool in management.list_in(resource::MACHINE_POOLS, fields::namespace(object)) {
            if label_value(fields::name(pool)) == label {
                self.soon(now, Task::Pool(name_of(pool)));
            }
        }
    }

    fn cluster_soon(&mut self, now: Timestamp, object: &Value) {
        let name = fields::text(object, "/spec/clusterName").to_owned();
        let namespace = fields::namespace(object).to_owned();
        self.soon(now, Task::Cluster(ObjectName { namespace, name }));
    }

    fn soon(&mut self, now: Timestamp, task: Task) {
        let latest = now + self.options.reaction.median + self.options.reaction.spread;
        if self
            .agenda
            .planned(&task)
            .is_some_and(|planned| planned <= latest)
        {
            return;
        }
        let mut at = self.draws.due(now, self.options.reaction);
        if let Task::Machine(id) = &task {
            at = self
                .deferred
                .get(id)
                .map_or(at, |not_before| at.max(*not_before));
        }
        self.agenda.add(at, task);
    }

    /// Returns when something is to be done.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.agenda.next_due()
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Timestamp, servers: &mut Servers<'_>) {
        self.now = now;
        while let Some(task) = self.agenda.pop(now) {
            let next = match &task {
                Task::Cluster(id) => self.cluster(servers, id),
                Task::Pool(id) => self.pool(servers, id),
                Task::Machine(id) => self.machine(servers, id),
            };
            match next {
                Ok(Next::Nothing) => {}
                Ok(Next::After(span)) => self.agenda.add(now + span, task),
                Err(refusal) => {
                    servers
                        .management
                        .say(now, format!("capi failed at {task:?}: {refusal}"));
                    self.agenda.add(now + AFTER_ERROR, task);
                }
            }
        }
    }

    /// Keeps a cluster until everything that belongs to it has left.
    fn cluster(&mut self, servers: &mut Servers<'_>, id: &ObjectName) -> Result<Next, Refusal> {
        let target = Target {
            resource: resource::CLUSTERS.into(),
            id: id.clone(),
        };
        let Some(cluster) = servers.management.get(&target) else {
            return Ok(Next::Nothing);
        };
        if is_paused(&cluster, &Value::Null) {
            return Ok(Next::Nothing);
        }
        if !fields::is_deleting(&cluster) {
            servers
                .management
                .edit(self.now, &target, "capi", |cluster| {
                    fields::add_finalizer(cluster, CLUSTER_FINALIZER);
                })?;
            return Ok(Next::Nothing);
        }
        let belongs = |object: &&Arc<Value>| {
            fields::text(object, "/spec/clusterName") == fields::name(&cluster)
        };
        let mut left = Vec::new();
        for key in [resource::MACHINE_POOLS, resource::MACHINES] {
            let found = servers
                .management
                .list_in(key, &id.namespace)
                .filter(belongs);
            left.extend(found.map(|object| (Target::of(key, object), object.clone())));
        }
        let infra = fields::at(&cluster, "/spec/infrastructureRef/name").and_then(Value::as_str);
        if left.is_empty()
            && let Some(infra) = infra
        {
            let infra = Target::new(resource::AZURE_CLUSTERS, &id.namespace, infra);
            left.extend(servers.management.get(&infra).map(|object| (infra, object)));
        }
        for (target, object) in left
            .iter()
            .filter(|(_, object)| !fields::is_deleting(object))
        {
            // Machines of a pool leave with their pool.
            let has_pool = !fields::label(object, POOL_NAME).is_empty();
            if target.resource != resource::MACHINES || !has_pool {
                servers
                    .management
                    .delete(self.now, target, &DeleteOptions::by("capi"))?;
            }
        }
        if left.is_empty() {
            servers
                .management
                .edit(self.now, &target, "capi", |cluster| {
                    fields::remove_finalizer(cluster, CLUSTER_FINALIZER);
                })?;
            return Ok(Next::Nothing);
        }
        Ok(Next::After(SignedDuration::from_secs(5)))
    }
}

/// Returns the cluster of a pool or machine.
fn cluster_of(management: &ApiServer, object: &Value) -> Option<Arc<Value>> {
    let name = fields::text(object, "/spec/clusterName");
    management.get(&Target::new(
        resource::CLUSTERS,
        fields::namespace(object),
        name,
    ))
}

fn is_paused(cluster: &Value, object: &Value) -> bool {
    let is_marked = |object: &Value| fields::annotation(object, PAUSED).is_some();
    fields::flag(cluster, "/spec/paused") || is_marked(object)
}

fn name_of(object: &Value) -> ObjectName {
    let (namespace, name) = (fields::namespace(object), fields::name(object));
    ObjectName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// Returns the value that core writes in a label for a name: itself, or a hash if it does not fit.
///
/// # Source
/// cluster-api `util/labels/format/helpers.go`.
pub fn label_value(name: &str) -> String {
    /// The longest label value Kubernetes takes.
    const LABEL_LENGTH_MAX: usize = 63;
    let is_edge = |letter: Option<char>| letter.is_none_or(|letter| letter.is_ascii_alphanumeric());
    let is_inner = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let fits = name.len() <= LABEL_LENGTH_MAX
        && name.chars().all(is_inner)
        && is_edge(name.chars().next())
        && is_edge(name.chars().last());
    if fits {
        return name.to_owned();
    }
    // FNV-1a, 32 bits.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(hash.to_be_bytes());
    format!("hash_{text}_z")
}

/// Makes `owner` the controller of an object, unless another one is.
///
/// # Errors
/// Another object is its controller.
fn set_controller(object: &mut Value, owner: &Value) -> Result<(), Refusal> {
    let wanted = super::workload::controlled_by(owner);
    let mut owners = fields::list(object, "/metadata/ownerReferences").to_vec();
    let uid = fields::uid(owner);
    let is_other =
        |one: &Value| fields::flag(one, "/controller") && fields::text(one, "/uid") != uid;
    if owners.iter().any(is_other) {
        let why = "already owned by another controller";
        return Err(Refusal::conflict("objects", fields::name(object), why));
    }
    match owners
        .iter_mut()
        .find(|one| fields::text(one, "/uid") == uid)
    {
        Some(mine) => *mine = wanted,
        None => owners.push(wanted),
    }
    fields::set(object, "/metadata/ownerReferences", json!(owners));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_label_value_is_hashed() {
        assert_eq!(label_value("pool-0"), "pool-0");
        let long = "p".repeat(64);
        let hashed = label_value(&long);
        assert!(
            hashed.starts_with("hash_") && hashed.ends_with("_z"),
            "{hashed}"
        );
        assert_ne!(hashed, label_value(&"q".repeat(64)));
    }
}
