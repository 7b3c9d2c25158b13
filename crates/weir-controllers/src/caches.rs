//! What the management cluster looked like when its watches last spoke.
//!
//! A store iterates in hash order, so everything that leaves this module is sorted by name.

use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::reflector::{self, ObjectRef, Store};
use weir_api::capi::{Cluster, Machine, MachinePool};
use weir_api::{AzureMachinePool, AzureMachinePoolMachine, contract};

use crate::context::Key;

/// The kinds that reconcilers look up, each fed by one watch.
#[derive(Clone)]
pub struct Caches {
    /// The pools.
    pub pools: Store<AzureMachinePool>,
    /// The pools' machines.
    pub pool_machines: Store<AzureMachinePoolMachine>,
    /// Core's pools, which own ours.
    pub machine_pools: Store<MachinePool>,
    /// Core's machines, which own the pools' machines.
    pub machines: Store<Machine>,
    /// The clusters.
    pub clusters: Store<Cluster>,
}

impl Caches {
    /// Returns a pool.
    #[must_use]
    pub fn pool(&self, key: &Key) -> Option<Arc<AzureMachinePool>> {
        get(&self.pools, &key.namespace, &key.name)
    }

    /// Returns a pool machine.
    #[must_use]
    pub fn pool_machine(&self, key: &Key) -> Option<Arc<AzureMachinePoolMachine>> {
        get(&self.pool_machines, &key.namespace, &key.name)
    }

    /// Returns the core pool that owns a pool.
    #[must_use]
    pub fn owner_of(&self, pool: &AzureMachinePool) -> Option<Arc<MachinePool>> {
        let owner = pool.owner_references().iter().find(|owner| {
            owner.kind == "MachinePool" && owner.api_version.starts_with(contract::CAPI_GROUP)
        })?;
        get(&self.machine_pools, &pool.namespace()?, &owner.name)
    }

    /// Returns a cluster.
    #[must_use]
    pub fn cluster(&self, namespace: &str, name: &str) -> Option<Arc<Cluster>> {
        get(&self.clusters, namespace, name)
    }

    /// Returns the machines of a pool, sorted by name.
    #[must_use]
    pub fn machines_of(&self, pool: &Key) -> Vec<Arc<AzureMachinePoolMachine>> {
        let mut found: Vec<_> = self
            .pool_machines
            .state()
            .into_iter()
            .filter(|machine| pool_of(machine).as_ref() == Some(pool))
            .collect();
        found.sort_by_key(|machine| machine.name_any());
        found
    }

    /// Returns the Machine that core made for a pool machine.
    ///
    /// Core names it after the pool machine; the reference is what tells for certain.
    #[must_use]
    pub fn machine_for(&self, pool_machine: &AzureMachinePoolMachine) -> Option<Arc<Machine>> {
        let namespace = pool_machine.namespace()?;
        let controller = pool_machine
            .owner_references()
            .iter()
            .find(|owner| owner.kind == "Machine");
        let name = controller.map_or_else(|| pool_machine.name_any(), |owner| owner.name.clone());
        get(&self.machines, &namespace, &name)
            .filter(|machine| machine.spec.infrastructure_ref.name == pool_machine.name_any())
    }
}

/// Returns which pool a pool machine belongs to.
#[must_use]
pub fn pool_of(machine: &AzureMachinePoolMachine) -> Option<Key> {
    let owner = machine
        .owner_references()
        .iter()
        .find(|owner| owner.kind == "AzureMachinePool")?;
    Some(Key {
        namespace: machine.namespace()?,
        name: owner.name.clone(),
    })
}

fn get<K>(store: &Store<K>, namespace: &str, name: &str) -> Option<Arc<K>>
where
    K: reflector::Lookup<DynamicType = ()> + Clone + 'static,
{
    store.get(&ObjectRef::new(name).within(namespace))
}
