//! Whom does a watch event concern, and is it news to them?
//!
//! Both the runtime and the simulation wake reconcilers by these rules. An event that says nothing
//! new to a reconciler (a heartbeat, a status that we wrote) wakes nobody.

use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};
use weir_api::capi::{Cluster, Machine, MachinePool};
use weir_api::{AzureMachinePool, AzureMachinePoolMachine, contract};

use crate::caches::{Caches, pool_of};
use crate::context::Key;

/// Something that a reconciler may have to take a turn for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A pool.
    Pool(Key),
    /// A pool machine.
    Machine(Key),
}

/// A kind that is watched in the management cluster.
pub trait Followed: Resource<DynamicType = ()> {
    /// Returns everything about the object that concerns reconcilers, as text to compare.
    fn news(&self) -> String {
        meta_news(self)
    }

    /// Returns whom a change of the object concerns.
    fn wakes(&self, caches: &Caches) -> Vec<Work>;
}

impl Followed for AzureMachinePool {
    fn wakes(&self, _: &Caches) -> Vec<Work> {
        vec![Work::Pool(Key::of(self))]
    }
}

impl Followed for AzureMachinePoolMachine {
    fn wakes(&self, _: &Caches) -> Vec<Work> {
        let mut woken = vec![Work::Machine(Key::of(self))];
        woken.extend(pool_of(self).map(Work::Pool));
        woken
    }
}

impl Followed for MachinePool {
    fn wakes(&self, _: &Caches) -> Vec<Work> {
        let name = self.spec.template.spec.infrastructure_ref.name.clone();
        vec![Work::Pool(Key {
            namespace: Key::of(self).namespace,
            name,
        })]
    }
}

impl Followed for Machine {
    /// The course of its deletion counts as well, which tells when a drain is over, and what a
    /// health check found.
    fn news(&self) -> String {
        let told = [
            contract::condition::DELETING,
            contract::condition::HEALTH_CHECK_SUCCEEDED,
            contract::condition::OWNER_REMEDIATED,
        ];
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        let told = conditions.filter(|c| told.contains(&c.type_.as_str()));
        let told: Vec<_> = told
            .map(|c| (&c.type_, &c.status, &c.reason, &c.message))
            .collect();
        format!("{} {told:?}", meta_news(self))
    }

    fn wakes(&self, caches: &Caches) -> Vec<Work> {
        let name = self.spec.infrastructure_ref.name.clone();
        let key = Key {
            namespace: Key::of(self).namespace,
            name,
        };
        let Some(pool_machine) = caches.pool_machine(&key) else {
            return Vec::new();
        };
        pool_machine.wakes(caches)
    }
}

impl Followed for Cluster {
    fn news(&self) -> String {
        let initialization = self.status.as_ref().and_then(|s| s.initialization.as_ref());
        format!("{} {initialization:?}", meta_news(self))
    }

    fn wakes(&self, caches: &Caches) -> Vec<Work> {
        pools_of_cluster(&Key::of(self), caches)
            .into_iter()
            .map(Work::Pool)
            .collect()
    }
}

/// Everything but the status, which for most kinds is our own.
fn meta_news<K: Resource + ?Sized>(object: &K) -> String {
    let meta = object.meta();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        meta.generation,
        meta.deletion_timestamp,
        meta.labels,
        meta.annotations,
        meta.finalizers,
        meta.owner_references,
    )
}

/// Returns everything about a node that concerns pools; a heartbeat does not.
#[must_use]
pub fn node_news(node: &Node) -> String {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    let spec = node.spec.as_ref();
    format!(
        "{:?} {:?} {:?}",
        ready.map(|ready| (&ready.status, &ready.last_transition_time)),
        spec.and_then(|spec| spec.unschedulable),
        spec.and_then(|spec| spec.provider_id.as_ref()),
    )
}

/// Returns the pools of a cluster that a node may belong to, sorted.
#[must_use]
pub fn pools_of_node(node: &Node, cluster: &Key, caches: &Caches) -> Vec<Key> {
    let id = node
        .spec
        .as_ref()
        .and_then(|spec| spec.provider_id.clone())
        .unwrap_or_default();
    let id = id.to_lowercase();
    let mut pools = pools_of_cluster(cluster, caches);
    pools.retain(|key| {
        let pool = caches.pool(key);
        let own = pool
            .as_ref()
            .and_then(|pool| pool.spec.provider_id.as_ref());
        // A pool that has no id yet may be the one.
        own.is_none_or(|own| id.starts_with(&format!("{}/", own.to_lowercase())))
    });
    pools
}

/// Returns the pools of a cluster, sorted.
#[must_use]
pub fn pools_of_cluster(cluster: &Key, caches: &Caches) -> Vec<Key> {
    let mut found: Vec<_> = caches
        .pools
        .state()
        .iter()
        .filter(|pool| {
            ResourceExt::namespace(&***pool).as_ref() == Some(&cluster.namespace)
                && pool.labels().get(contract::label::CLUSTER_NAME) == Some(&cluster.name)
        })
        .map(|pool| Key::of(&**pool))
        .collect();
    found.sort();
    found
}

/// Returns the pools whose bootstrap data is in this secret.
#[must_use]
pub fn pools_of_secret(secret: &Key, caches: &Caches) -> Vec<Work> {
    let mut woken = Vec::new();
    for machine_pool in caches.machine_pools.state() {
        let bootstrap = &machine_pool.spec.template.spec.bootstrap;
        if ResourceExt::namespace(&*machine_pool).as_ref() == Some(&secret.namespace)
            && bootstrap.data_secret_name.as_ref() == Some(&secret.name)
        {
            woken.extend(machine_pool.wakes(caches));
        }
    }
    woken.sort();
    woken
}
