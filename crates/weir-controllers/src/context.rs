//! What a reconciler works with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::access::AzureAccess;
use crate::caches::Caches;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::pool::Memory;
use crate::workload::Workloads;

/// The name of an object in its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// Returns the key of an object.
    #[must_use]
    pub fn of<K: kube::Resource + ?Sized>(object: &K) -> Key {
        let meta = object.meta();
        Key {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a reconciler works with: clients, caches, the clock, and what may be forgotten.
pub struct Ctx {
    /// The management cluster.
    pub kube: kube::Client,
    /// What its watches showed.
    pub caches: Caches,
    /// The workload clusters.
    pub workloads: Workloads,
    /// The way to Azure.
    pub azure: AzureAccess,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Counters for operators.
    pub metrics: Metrics,
    /// Only objects with this value of the watch-filter label are ours; `None` is all.
    pub watch_filter: Option<String>,
    memories: Mutex<BTreeMap<Key, Memory>>,
}

impl Ctx {
    /// Puts a context together, with nothing remembered.
    #[must_use]
    pub fn new(
        kube: kube::Client,
        caches: Caches,
        workloads: Workloads,
        azure: AzureAccess,
        clock: Arc<dyn Clock>,
    ) -> Ctx {
        Ctx {
            kube,
            caches,
            workloads,
            azure,
            clock,
            metrics: Metrics::default(),
            watch_filter: None,
            memories: Mutex::default(),
        }
    }

    /// Lets a closure read and change what is remembered of a pool.
    ///
    /// Nothing in it is needed for safety after a restart; losing it costs reads and detail.
    pub(crate) fn remember<T>(&self, pool: &Key, with: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memories = lock(&self.memories);
        with(memories.entry(pool.clone()).or_default())
    }

    /// Forgets a pool that is gone.
    pub(crate) fn forget(&self, pool: &Key) {
        lock(&self.memories).remove(pool);
    }
}

/// Locks a mutex whose holders never leave it half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
