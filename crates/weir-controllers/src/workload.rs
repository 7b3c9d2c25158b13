//! The workload clusters: a client and a node cache for each, connected on demand.
//!
//! Reconcilers ask for a cluster by key. The first question records that it is wanted; whoever
//! runs the watches (`runtime.rs`, or the simulation) connects it and says how it fares. Until
//! then, and whenever its node watch fails, its nodes are unknown rather than absent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector::Store;
use tokio::sync::Notify;

use crate::context::{Key, lock};

/// A workload cluster that is connected.
#[derive(Clone)]
pub struct Workload {
    /// The client.
    pub client: kube::Client,
    /// Its nodes, as its watch last showed them.
    pub nodes: Store<Node>,
}

/// All workload clusters that were ever asked for.
#[derive(Clone, Default)]
pub struct Workloads {
    clusters: Arc<Mutex<BTreeMap<Key, Link>>>,
    wanted: Arc<Notify>,
}

enum Link {
    Wanted,
    Up(Workload),
    Down { why: String },
}

impl Workloads {
    /// Returns a cluster, or why there is no telling what its nodes are.
    ///
    /// # Errors
    /// The text says what was tried, and is shown to users.
    pub fn get(&self, cluster: &Key) -> Result<Workload, String> {
        let mut clusters = lock(&self.clusters);
        let link = clusters.entry(cluster.clone()).or_insert_with(|| {
            self.wanted.notify_one();
            Link::Wanted
        });
        match link {
            Link::Up(workload) => Ok(workload.clone()),
            Link::Wanted => Err(format!(
                "the nodes of cluster {cluster} are not yet watched"
            )),
            Link::Down { why } => Err(format!("the nodes of cluster {cluster}: {why}")),
        }
    }

    /// Records that a cluster is connected and its nodes are up to date.
    pub fn up(&self, cluster: &Key, workload: Workload) {
        lock(&self.clusters).insert(cluster.clone(), Link::Up(workload));
    }

    /// Records that the nodes of a cluster cannot be watched, and why.
    pub fn down(&self, cluster: &Key, why: impl Into<String>) {
        lock(&self.clusters).insert(cluster.clone(), Link::Down { why: why.into() });
    }

    /// Forgets a cluster.
    pub fn drop(&self, cluster: &Key) {
        lock(&self.clusters).remove(cluster);
    }

    /// Returns the clusters that somebody waits for, in order.
    #[must_use]
    pub fn wanted(&self) -> Vec<Key> {
        let clusters = lock(&self.clusters);
        let wanted = clusters
            .iter()
            .filter(|(_, link)| matches!(link, Link::Wanted));
        wanted.map(|(key, _)| key.clone()).collect()
    }

    /// Waits until a cluster is asked for that was not known.
    pub async fn any_wanted(&self) {
        self.wanted.notified().await;
    }
}
