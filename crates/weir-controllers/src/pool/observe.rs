//! Looks at everything that a turn decides on. Reads only; nothing here writes.

mod azure;
mod replicas;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{Api, ResourceExt};
use weir_api::azure::AzureCluster;
use weir_api::capi::{Cluster, Machine, MachinePool};
use weir_api::{AzureMachinePool, AzureMachinePoolMachine, IntOrString, contract, provider_id};
use weir_azure::{Arm, ArmError, Instance, PowerState, ProvisioningState, ScaleSet, ScaleSetId};
use weir_core::Observed;
use weir_core::observed::{
    self as core, DeletePolicy, Departure, Limit, Power, Provisioning, Reading, Revision,
    instance_order,
};

pub(super) use self::replicas::new_note;
use super::memory::Look;
use super::remediation;
use crate::access::AccessError;
use crate::context::{Ctx, Key};
use crate::machine::{core_has_drained, is_past_drain};
use crate::marks;
use crate::model::{self, BootstrapData, Ingredients, ModelError, Wanted};
use crate::workload::Workload;

/// How long an instance may take to its first availability.
///
/// Core gives a node ten minutes in a MachineHealthCheck; images that install at first boot were
/// seen to take more, and replacing a machine that is nearly there costs a whole cycle.
const JOIN_LIMIT: SignedDuration = SignedDuration::from_mins(20);

/// How long a node may be not Ready before its machine is replaced.
///
/// Twice what Kubernetes waits until it moves the pods away (five minutes by default).
const UNREADY_LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// How long an end in Azure may go unnoticed, and a drained instance may wait for company.
const PATIENCE: SignedDuration = SignedDuration::from_secs(6);

/// Everything that a turn works with: what was seen, and the means to act on it.
pub(crate) struct Scene {
    pub(crate) key: Key,
    pub(crate) observed: Observed,
    pub(crate) arm: Arm,
    pub(crate) scale_set_id: ScaleSetId,
    /// What the scale set should be; `None` while the pool is being deleted.
    pub(crate) wanted: Option<Wanted>,
    /// What Azure showed; `None` if it could not be read.
    pub(crate) look: Option<Look>,
    /// Why Azure could not be read.
    pub(crate) unread: Option<ArmError>,
    pub(crate) machine_pool: Option<Arc<MachinePool>>,
    pub(crate) cluster_name: String,
    /// The objects of each instance, by instance id.
    pub(crate) objects: BTreeMap<String, Objects>,
    /// Nodes by provider ID in lower case.
    pub(crate) nodes: BTreeMap<String, Arc<Node>>,
}

/// The management cluster's objects for one instance.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) pool_machine: Arc<AzureMachinePoolMachine>,
    pub(crate) machine: Option<Arc<Machine>>,
}

/// Why a pool cannot begin. Each says what somebody has to do.
#[derive(Debug, thiserror::Error)]
pub enum Blocked {
    /// No MachinePool owns it yet.
    #[error("no MachinePool refers to this pool yet")]
    NoOwner,
    /// The pool or its cluster is paused.
    #[error("the pool or its cluster is paused")]
    Paused,
    /// Its cluster does not exist.
    #[error("cluster {0} does not exist")]
    NoCluster(String),
    /// The AzureCluster does not exist.
    #[error("AzureCluster {0} does not exist, which cluster refers to it in infrastructureRef")]
    NoAzureCluster(String),
    /// The network is not ready.
    #[error("the infrastructure of cluster {0} is not provisioned yet")]
    ClusterNotReady(String),
    /// There is no bootstrap data yet.
    #[error("the MachinePool has no bootstrap data yet (spec.template.spec.bootstrap)")]
    NoBootstrapData,
    /// The bootstrap secret is not there.
    #[error("bootstrap secret {0} does not exist or has no key \"value\": create it")]
    BootstrapSecret(String),
    /// Azure cannot be asked.
    #[error("{}", line(.0))]
    Access(AccessError),
    /// The spec cannot be turned into a scale set.
    #[error("{}", line(.0))]
    Model(ModelError),
}

impl Blocked {
    /// Returns one word in camel case.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Blocked::NoOwner => "WaitingForMachinePool",
            Blocked::Paused => "Paused",
            Blocked::NoCluster(_) | Blocked::NoAzureCluster(_) => "ClusterMissing",
            Blocked::ClusterNotReady(_) => "WaitingForClusterInfrastructure",
            Blocked::NoBootstrapData => "WaitingForBootstrapData",
            Blocked::BootstrapSecret(_) => "BootstrapSecretMissing",
            Blocked::Access(_) => "AzureIdentityNotUsable",
            Blocked::Model(_) => "InvalidSpec",
        }
    }

    /// Returns whether a person has to do something.
    #[must_use]
    pub fn needs_a_person(&self) -> bool {
        match self {
            Blocked::NoOwner
            | Blocked::Paused
            | Blocked::ClusterNotReady(_)
            | Blocked::NoBootstrapData => false,
            Blocked::NoCluster(_)
            | Blocked::NoAzureCluster(_)
            | Blocked::BootstrapSecret(_)
            | Blocked::Access(_)
            | Blocked::Model(_) => true,
        }
    }
}

/// An error and its causes in one line, without those that the words before repeat already.
pub(crate) fn line(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !line.ends_with(&words) {
            line.push_str(": ");
            line.push_str(&words);
        }
        source = cause.source();
    }
    line
}

/// The management cluster could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// An AzureCluster could not be read.
    #[error("failed to read AzureCluster {name}")]
    AzureCluster {
        /// Its name.
        name: String,
        /// Why.
        source: kube::Error,
    },
    /// A bootstrap secret could not be read.
    #[error("failed to read bootstrap secret {name}")]
    Bootstrap {
        /// Its name.
        name: String,
        /// Why.
        source: kube::Error,
    },
}

/// Looks at everything that a turn for this pool decides on.
pub(crate) async fn observe(
    pool: &Arc<AzureMachinePool>,
    key: &Key,
    ctx: &Ctx,
) -> Result<Result<Scene, Blocked>, ObserveError> {
    match look_around(pool, key, ctx).await {
        Ok(scene) => Ok(Ok(scene)),
        Err(Stop::Blocked(blocked)) => Ok(Err(blocked)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

enum Stop {
    Blocked(Blocked),
    Failed(ObserveError),
}

impl From<Blocked> for Stop {
    fn from(blocked: Blocked) -> Stop {
        Stop::Blocked(blocked)
    }
}

async fn look_around(pool: &Arc<AzureMachinePool>, key: &Key, ctx: &Ctx) -> Result<Scene, Stop> {
    let deleting = pool.metadata.deletion_timestamp.is_some();
    let machine_pool = ctx.caches.owner_of(pool);
    let cluster_name = cluster_name(pool, machine_pool.as_deref()).ok_or(Blocked::NoOwner)?;
    let cluster = ctx
        .caches
        .cluster(&key.namespace, &cluster_name)
        .ok_or_else(|| Blocked::NoCluster(cluster_name.clone()))?;
    if is_paused(pool, &cluster) {
        return Err(Blocked::Paused.into());
    }
    let mut azure_cluster = azure_cluster(&cluster, key, ctx).await?;
    let subscription = ctx.azure.default_subscription().map(str::to_owned);
    azure_cluster.spec.subscription_id = azure_cluster.spec.subscription_id.or(subscription);
    let wanted = match (&machine_pool, deleting) {
        (_, true) => None,
        (None, false) => return Err(Blocked::NoOwner.into()),
        (Some(machine_pool), false) => {
            Some(wanted(pool, machine_pool, &cluster, &azure_cluster, ctx).await?)
        }
    };
    let arm = ctx
        .azure
        .arm(&ctx.kube, &azure_cluster)
        .await
        .map_err(Blocked::Access)?;
    let scale_set_id = model::scale_set_id(pool, &azure_cluster, None).map_err(Blocked::Model)?;
    let cluster_key = Key {
        namespace: key.namespace.clone(),
        name: cluster_name.clone(),
    };
    let workload = ctx.workloads.get(&cluster_key);
    let azure = azure::look_at_azure(&arm, &scale_set_id, &workload, key, ctx).await;
    let target = Target {
        key,
        arm,
        scale_set_id,
        wanted,
        machine_pool,
        cluster_name,
    };
    Ok(join(pool, target, azure, workload, ctx))
}

struct Target<'k> {
    key: &'k Key,
    arm: Arm,
    scale_set_id: ScaleSetId,
    wanted: Option<Wanted>,
    machine_pool: Option<Arc<MachinePool>>,
    cluster_name: String,
}

fn cluster_name(pool: &AzureMachinePool, owner: Option<&MachinePool>) -> Option<String> {
    let labelled = || pool.labels().get(contract::label::CLUSTER_NAME).cloned();
    owner
        .map(|owner| owner.spec.cluster_name.clone())
        .or_else(labelled)
}

fn is_paused(pool: &AzureMachinePool, cluster: &Cluster) -> bool {
    cluster.spec.paused.unwrap_or(false)
        || pool
            .annotations()
            .contains_key(contract::annotation::PAUSED)
}

async fn azure_cluster(cluster: &Cluster, key: &Key, ctx: &Ctx) -> Result<AzureCluster, Stop> {
    let reference = cluster.spec.infrastructure_ref.as_ref();
    let name = reference
        .map(|reference| reference.name.clone())
        .unwrap_or_default();
    let api: Api<AzureCluster> = Api::namespaced(ctx.kube.clone(), &key.namespace);
    match api.get_opt(&name).await {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(Blocked::NoAzureCluster(name).into()),
        Err(source) => Err(Stop::Failed(ObserveError::AzureCluster { name, source })),
    }
}

async fn wanted(
    pool: &AzureMachinePool,
    machine_pool: &MachinePool,
    cluster: &Cluster,
    azure_cluster: &AzureCluster,
    ctx: &Ctx,
) -> Result<Wanted, Stop> {
    let initialization = cluster
        .status
        .as_ref()
        .and_then(|status| status.initialization.as_ref());
    let provisioned = initialization
        .and_then(|i| i.infrastructure_provisioned)
        .unwrap_or(false);
    if !provisioned {
        return Err(Blocked::ClusterNotReady(cluster.name_any()).into());
    }
    let name = machine_pool
        .spec
        .template
        .spec
        .bootstrap
        .data_secret_name
        .clone();
    let name = name
        .filter(|name| !name.is_empty())
        .ok_or(Blocked::NoBootstrapData)?;
    let namespace = pool.namespace().unwrap_or_default();
    let api: Api<Secret> = Api::namespaced(ctx.kube.clone(), &namespace);
    let secret = match api.get_opt(&name).await {
        Ok(secret) => secret,
        Err(source) => return Err(Stop::Failed(ObserveError::Bootstrap { name, source })),
    };
    let mut data = secret.and_then(|secret| secret.data).unwrap_or_default();
    let Some(value) = data.remove("value") else {
        return Err(Blocked::BootstrapSecret(name).into());
    };
    let format = data
        .remove("format")
        .and_then(|bytes| String::from_utf8(bytes.0).ok());
    let bootstrap = BootstrapData {
        secret_name: name,
        data: value.0,
        format,
    };
    let cluster_name = cluster.name_any();
    let ingredients = Ingredients {
        pool,
        machine_pool,
        cluster_name: &cluster_name,
        azure_cluster,
        bootstrap: &bootstrap,
    };
    Ok(model::wanted(&ingredients).map_err(Blocked::Model)?)
}

fn join(
    pool: &AzureMachinePool,
    target: Target<'_>,
    azure: Result<Look, ArmError>,
    workload: Result<Workload, String>,
    ctx: &Ctx,
) -> Scene {
    let (nodes, nodes_read) = match &workload {
        Ok(workload) => (nodes_by_provider_id(workload), Reading::Known(())),
        Err(why) => (BTreeMap::new(), Reading::Unknown(why.clone())),
    };
    let mut left = machines(target.key, ctx);
    let mut joined = Joined::default();
    if let Ok(look) = &azure {
        joined = join_instances(look, &mut left, &nodes, target.key, ctx);
    }
    // Without a look nobody can tell whose instance is gone.
    let orphans = if azure.is_ok() { left.as_slice() } else { &[] };
    let orphans: Vec<_> = orphans
        .iter()
        .map(|o| core_machine(o, target.key, ctx))
        .collect();
    let now = ctx.clock.now();
    let scale_set = reading(&azure, |look| look.scale_set.as_ref().map(scale_set));
    let capacity = match &scale_set {
        Reading::Known(Some(scale_set)) => Some(scale_set.capacity),
        _ => None,
    };
    let owner = target.machine_pool.as_deref();
    let replicas = replicas::replicas(pool, owner, capacity, &joined.instances, &orphans);
    let pool = core_pool(pool, replicas, &target);
    let learnt = learnt(azure.as_ref().ok(), &pool.revision, target.key, ctx);
    let observed = Observed {
        at: now,
        looked_at: azure.as_ref().map_or(now, |look| look.at),
        pool,
        scale_set,
        instances: reading(&azure, |_| std::mem::take(&mut joined.instances)),
        orphans,
        nodes: nodes_read,
        deletion_due: learnt.deletion_due,
        refused: learnt.refused,
        owed_since: learnt.owed_since,
        deletes_collide: learnt.deletes_collide,
    };
    joined.keep_orphans(left);
    let (look, unread) = match azure {
        Ok(look) => (Some(look), None),
        Err(error) => (None, Some(error)),
    };
    Scene {
        key: target.key.clone(),
        observed,
        arm: target.arm,
        scale_set_id: target.scale_set_id,
        wanted: target.wanted,
        look,
        unread,
        machine_pool: target.machine_pool,
        cluster_name: target.cluster_name,
        objects: joined.objects,
        nodes,
    }
}

fn reading<T>(azure: &Result<Look, ArmError>, known: impl FnOnce(&Look) -> T) -> Reading<T> {
    match azure {
        Ok(look) => Reading::Known(known(look)),
        Err(error) => Reading::Unknown(error.line()),
    }
}

/// Learns from a look, and returns what is known of Azure beside it.
fn learnt(look: Option<&Look>, revision: &Revision, key: &Key, ctx: &Ctx) -> Learnt {
    let now = ctx.clock.now();
    ctx.remember(key, |memory| {
        if let Some(look) = look {
            memory.learn(look, revision);
        }
        Learnt {
            deletion_due: memory.deletion_due(),
            refused: memory.refusals.standing(revision),
            owed_since: memory.owed_since(),
            deletes_collide: memory.deletes_collide(now),
        }
    })
}

/// What earlier turns have learnt of Azure.
struct Learnt {
    deletion_due: Option<Timestamp>,
    refused: Option<core::Refusal>,
    owed_since: Option<Timestamp>,
    deletes_collide: bool,
}

#[derive(Default)]
struct Joined {
    instances: Vec<core::Instance>,
    objects: BTreeMap<String, Objects>,
}

impl Joined {
    /// Keeps the objects of machines without an instance, by the name of the pool machine.
    fn keep_orphans(&mut self, orphans: Vec<Objects>) {
        for orphan in orphans {
            let name = format!("orphan/{}", orphan.pool_machine.name_any());
            self.objects.insert(name, orphan);
        }
    }
}

fn join_instances(
    look: &Look,
    orphans: &mut Vec<Objects>,
    nodes: &BTreeMap<String, Arc<Node>>,
    key: &Key,
    ctx: &Ctx,
) -> Joined {
    let mut joined = Joined::default();
    let mut own_by_id = index(orphans);
    for instance in &look.instances {
        let provider_id = instance_provider_id(instance);
        let own = own_by_id.get_mut(&instance.instance_id).and_then(|own| {
            let at = own
                .iter()
                .position(|o| stands_for(&o.pool_machine, instance))?;
            Some(own.remove(at))
        });
        let node = provider_id.and_then(|id| nodes.get(&id.to_lowercase()));
        joined.instances.push(core::Instance {
            id: instance.instance_id.clone(),
            vm_id: instance.properties.vm_id.clone().unwrap_or_default(),
            created: instance.properties.time_created.unwrap_or(look.at),
            provisioning: provisioning(instance.provisioning_state(), || {
                instance
                    .failure()
                    .map_or_else(|| "Failed".to_owned(), |f| f.to_string())
            }),
            power: power(instance.power_state()),
            zone: instance.zone().map(str::to_owned),
            protected: instance
                .properties
                .protection_policy
                .as_ref()
                .and_then(|policy| policy.protect_from_scale_in)
                .unwrap_or(false),
            revision: revision(instance, own.as_ref(), look.scale_set.as_ref()),
            machine: own.as_ref().map(|objects| core_machine(objects, key, ctx)),
            node: node.map(|node| core_node(node, own.as_ref())),
        });
        if let Some(own) = own {
            joined.objects.insert(instance.instance_id.clone(), own);
        }
    }
    joined
        .instances
        .sort_by_cached_key(|instance| instance_order(&instance.id));
    orphans.extend(own_by_id.into_values().flatten());
    orphans.sort_by_cached_key(|own| own.pool_machine.name_any());
    joined
}

/// Sorts pool machines by the instance that they say they stand for.
fn index(machines: &mut Vec<Objects>) -> BTreeMap<String, Vec<Objects>> {
    let mut by_id: BTreeMap<String, Vec<Objects>> = BTreeMap::new();
    for own in machines.drain(..) {
        let spec = &own.pool_machine.spec;
        let last_of_path = spec.provider_id.rsplit('/').next().unwrap_or_default();
        let id = spec.instance_id.as_deref().unwrap_or(last_of_path);
        by_id.entry(id.to_owned()).or_default().push(own);
    }
    by_id
}

/// Whether a pool machine is that of this instance. Azure reuses ids: the id alone is not enough.
fn stands_for(machine: &AzureMachinePoolMachine, instance: &Instance) -> bool {
    let same_id = machine.spec.instance_id.as_deref() == Some(&instance.instance_id)
        || instance_provider_id(instance)
            .is_some_and(|id| provider_id::is_same(&id, &machine.spec.provider_id));
    let recorded = machine.annotations().get(marks::VM_ID);
    let same_vm = match (recorded, &instance.properties.vm_id) {
        (Some(recorded), Some(vm_id)) => recorded.eq_ignore_ascii_case(vm_id),
        _ => true,
    };
    same_id && same_vm
}

/// Returns the provider ID of an instance as its node has it; `None` if Azure's id is no ARM path.
pub(crate) fn instance_provider_id(instance: &Instance) -> Option<String> {
    provider_id::from_arm_id(instance.id.as_deref()?).ok()
}

fn machines(key: &Key, ctx: &Ctx) -> Vec<Objects> {
    ctx.caches
        .machines_of(key)
        .into_iter()
        .map(|pool_machine| {
            let machine = ctx.caches.machine_for(&pool_machine);
            Objects {
                pool_machine,
                machine,
            }
        })
        .collect()
}

/// What an instance was made for: what its machine recorded, else what its tags say, else what the
/// scale set says if Azure holds the instance for up to date.
fn revision(
    instance: &Instance,
    own: Option<&Objects>,
    scale_set: Option<&ScaleSet>,
) -> Option<Revision> {
    let recorded = own.and_then(|objects| {
        objects
            .pool_machine
            .annotations()
            .get(marks::REVISION)
            .cloned()
    });
    if let Some(recorded) = recorded {
        return Some(Revision(recorded));
    }
    let tags = instance.tags.as_ref();
    tags.and_then(model::revision_of_tags).or_else(|| {
        let of_set = scale_set
            .and_then(|s| s.tags.as_ref())
            .and_then(model::revision_of_tags);
        of_set.filter(|_| instance.has_latest_model())
    })
}

fn core_machine(objects: &Objects, key: &Key, ctx: &Ctx) -> core::Machine {
    let name = objects.pool_machine.name_any();
    let marked = |annotations: &BTreeMap<String, String>| {
        annotations.contains_key(contract::annotation::DELETE_MACHINE)
    };
    let delete_marked = marked(objects.pool_machine.annotations())
        || objects
            .machine
            .as_ref()
            .is_some_and(|machine| marked(machine.annotations()));
    let mut departure = departure(objects);
    let uid = objects.pool_machine.uid().unwrap_or_default();
    let sent = ctx.remember(key, |memory| {
        if departure != Departure::Staying {
            memory.sent_away.remove(&name);
        }
        memory.sent_away.get(&name) == Some(&uid)
    });
    if sent {
        departure = Departure::Draining {
            since: ctx.clock.now(),
            blocked_by: None,
        };
    }
    core::Machine {
        name,
        delete_marked,
        unhealthy: objects.machine.as_deref().and_then(remediation::finding),
        departure,
    }
}

/// How far a machine is on its way out.
///
/// With a Machine, core drains, and says in the Machine's Deleting condition when only the
/// infrastructure is left. Where core does not drain, our own drain leaves an annotation when it
/// is over.
fn departure(objects: &Objects) -> Departure {
    let own = objects
        .pool_machine
        .metadata
        .deletion_timestamp
        .as_ref()
        .map(|time| time.0);
    let Some(machine) = &objects.machine else {
        let Some(since) = own else {
            return Departure::Staying;
        };
        let drained = objects.pool_machine.annotations().get(marks::DRAINED);
        return match drained.and_then(|text| text.parse().ok()) {
            Some(since) => Departure::Drained { since },
            None => Departure::Draining {
                since,
                blocked_by: None,
            },
        };
    };
    let asked = machine
        .metadata
        .deletion_timestamp
        .as_ref()
        .map(|time| time.0);
    let Some(since) = asked.or(own) else {
        return Departure::Staying;
    };
    let conditions = machine
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice());
    let deleting = conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.type_ == contract::condition::DELETING);
    let Some(deleting) = deleting.filter(|_| asked.is_some()) else {
        return Departure::Draining {
            since,
            blocked_by: None,
        };
    };
    // Core drains no node whose pool machine was being deleted before, and then we do.
    let drained = core_has_drained(machine)
        || objects
            .pool_machine
            .annotations()
            .contains_key(marks::DRAINED);
    if own.is_some() && drained && is_past_drain(machine) {
        return Departure::Drained {
            since: deleting.last_transition_time.0,
        };
    }
    Departure::Draining {
        since,
        blocked_by: blocker(&deleting.message),
    }
}

/// The first line of core's message that names a pod which cannot go; `None` if none does.
fn blocker(message: &str) -> Option<String> {
    let line = message
        .lines()
        .find(|line| line.contains("disruption budget"))?;
    Some(line.trim_start_matches(['*', ' ']).to_owned())
}

fn core_node(node: &Node, own: Option<&Objects>) -> core::Node {
    let ready = node_condition(node, "Ready");
    let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let since = ready
        .and_then(|ready| ready.last_transition_time.as_ref())
        .map(|time| time.0);
    let cordoned = node
        .spec
        .as_ref()
        .and_then(|spec| spec.unschedulable)
        .unwrap_or(false);
    let leaving = own.is_some_and(|objects| departure(objects) != Departure::Staying);
    core::Node {
        name: node.name_any(),
        ready: ready.is_some_and(|ready| ready.status == "True"),
        since: since.or(created).unwrap_or(Timestamp::MIN),
        cordoned_by_us: cordoned && leaving,
    }
}

fn node_condition<'n>(
    node: &'n Node,
    kind: &str,
) -> Option<&'n k8s_openapi::api::core::v1::NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn nodes_by_provider_id(workload: &Workload) -> BTreeMap<String, Arc<Node>> {
    let mut nodes = BTreeMap::new();
    for node in workload.nodes.state() {
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
        if let Some(id) = id {
            nodes.insert(id.to_lowercase(), node);
        }
    }
    nodes
}

fn core_pool(pool: &AzureMachinePool, replicas: u32, target: &Target<'_>) -> core::Pool {
    let limits = pool.spec.strategy.limits();
    let spec = target
        .machine_pool
        .as_ref()
        .map(|machine_pool| &machine_pool.spec);
    let min_ready = spec
        .and_then(|spec| spec.template.spec.min_ready_seconds)
        .unwrap_or(0);
    core::Pool {
        name: pool.name_any(),
        replicas,
        max_surge: limit(&limits.max_surge),
        max_unavailable: limit(&limits.max_unavailable),
        delete_policy: match limits.delete_policy {
            weir_api::DeletePolicy::Random => DeletePolicy::Random,
            weir_api::DeletePolicy::Newest => DeletePolicy::Newest,
            weir_api::DeletePolicy::Oldest => DeletePolicy::Oldest,
        },
        revision: target
            .wanted
            .as_ref()
            .map_or_else(|| Revision(String::new()), |wanted| wanted.revision.clone()),
        min_ready: SignedDuration::from_secs(i64::from(min_ready)),
        join_limit: JOIN_LIMIT,
        unready_limit: UNREADY_LIMIT,
        patience: PATIENCE,
        autoscaled: target
            .machine_pool
            .as_deref()
            .is_some_and(replicas::is_autoscaled),
        deleting: pool.metadata.deletion_timestamp.is_some(),
    }
}

/// Reads a limit; text that is no percentage counts as 0, which the schema does not let through.
fn limit(value: &IntOrString) -> Limit {
    match value {
        IntOrString::Int(count) => Limit::Count(u32::try_from(*count).unwrap_or(0)),
        IntOrString::String(text) => {
            let text = text.trim();
            match text.strip_suffix('%') {
                Some(percent) => Limit::Percent(percent.parse().unwrap_or(0)),
                None => Limit::Count(text.parse().unwrap_or(0)),
            }
        }
    }
}

fn scale_set(found: &ScaleSet) -> core::ScaleSet {
    core::ScaleSet {
        capacity: found.capacity(),
        revision: found.tags.as_ref().and_then(model::revision_of_tags),
        provisioning: provisioning(found.provisioning_state(), || "Failed".to_owned()),
    }
}

fn provisioning(state: ProvisioningState, failure: impl FnOnce() -> String) -> Provisioning {
    match state {
        ProvisioningState::Creating => Provisioning::Creating,
        ProvisioningState::Updating | ProvisioningState::Migrating => Provisioning::Updating,
        ProvisioningState::Succeeded | ProvisioningState::Unknown => Provisioning::Succeeded,
        ProvisioningState::Failed => Provisioning::Failed(failure()),
        ProvisioningState::Canceled => Provisioning::Failed("Canceled".to_owned()),
        ProvisioningState::Deleting => Provisioning::Deleting,
    }
}

fn power(state: PowerState) -> Power {
    match state {
        PowerState::Starting | PowerState::Running => Power::Running,
        PowerState::Stopping
        | PowerState::Stopped
        | PowerState::Deallocating
        | PowerState::Deallocated => Power::Stopped,
        PowerState::Unknown => Power::Unknown,
    }
}
