//! Watches: each fills a cache and wakes the pools and machines that its news concern.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::controller::ReconcileRequest;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use weir_api::{AzureMachinePool, AzureMachinePoolMachine};

use crate::caches::Caches;
use crate::context::Key;
use crate::wake::{self, Followed, Work};

/// How many wake-ups may wait. A full queue holds up the watch that fills it, not the reconcilers.
const QUEUE: usize = 4096;

/// The two queues that watches fill.
#[derive(Clone)]
pub(super) struct Queues {
    pools: mpsc::Sender<ReconcileRequest<AzureMachinePool>>,
    machines: mpsc::Sender<ReconcileRequest<AzureMachinePoolMachine>>,
    /// Kubeconfig secrets that changed: their cluster has to be connected anew.
    pub(super) kubeconfigs: tokio::sync::broadcast::Sender<Key>,
}

/// The other end of a queue, in the form that kube's applier takes.
pub(super) type Requests<K> = BoxStream<'static, Result<ReconcileRequest<K>, Infallible>>;

fn queue<K>() -> (mpsc::Sender<ReconcileRequest<K>>, Requests<K>)
where
    K: Resource<DynamicType = ()> + Send + 'static,
{
    let (sender, mut receiver) = mpsc::channel(QUEUE);
    let requests = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
    (sender, requests.map(Ok).boxed())
}

impl Queues {
    pub(super) fn new() -> (
        Queues,
        Requests<AzureMachinePool>,
        Requests<AzureMachinePoolMachine>,
    ) {
        let (pools, pool_requests) = queue();
        let (machines, machine_requests) = queue();
        let (kubeconfigs, _) = tokio::sync::broadcast::channel(64);
        let queues = Queues {
            pools,
            machines,
            kubeconfigs,
        };
        (queues, pool_requests, machine_requests)
    }

    pub(super) async fn wake(&self, woken: impl IntoIterator<Item = Work>) {
        for work in woken {
            // A queue is closed only when the controller ends.
            let _closed = match work {
                Work::Pool(key) => self.pools.send(request(&key)).await.is_err(),
                Work::Machine(key) => self.machines.send(request(&key)).await.is_err(),
            };
        }
    }
}

/// What the watches fill.
pub(super) struct Fed {
    pub(super) caches: Caches,
}

impl Fed {
    pub(super) async fn wait_until_filled(&self) {
        let caches = &self.caches;
        // A writer is dropped only when the controller ends.
        let _ = tokio::join!(
            caches.pools.wait_until_ready(),
            caches.pool_machines.wait_until_ready(),
            caches.machine_pools.wait_until_ready(),
            caches.machines.wait_until_ready(),
            caches.clusters.wait_until_ready(),
        );
    }
}

/// Returns the objects of one namespace, or of all.
pub(super) fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Starts the watches of the management cluster.
pub(super) fn start(client: &Client, namespace: Option<&str>, queues: &Queues) -> Fed {
    let (pools, pool_writer) = reflector::store();
    let (pool_machines, pool_machine_writer) = reflector::store();
    let (machine_pools, machine_pool_writer) = reflector::store();
    let (machines, machine_writer) = reflector::store();
    let (clusters, cluster_writer) = reflector::store();
    let caches = Caches {
        pools,
        pool_machines,
        machine_pools,
        machines,
        clusters,
    };

    let known = (caches.clone(), queues.clone());
    tokio::spawn(follow::<AzureMachinePool>(
        scoped(client, namespace),
        pool_writer,
        known.clone(),
    ));
    tokio::spawn(follow(
        scoped(client, namespace),
        pool_machine_writer,
        known.clone(),
    ));
    tokio::spawn(follow(
        scoped(client, namespace),
        machine_pool_writer,
        known.clone(),
    ));
    tokio::spawn(follow(
        scoped(client, namespace),
        machine_writer,
        known.clone(),
    ));
    tokio::spawn(follow(
        scoped(client, namespace),
        cluster_writer,
        known.clone(),
    ));
    tokio::spawn(follow_secrets(scoped(client, namespace), known));
    Fed { caches }
}

/// Fills a cache and wakes those whom an object with news concerns, or one that is gone.
async fn follow<K>(api: Api<K>, writer: reflector::store::Writer<K>, (caches, queues): Known)
where
    K: Followed + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let stream = watcher::watcher(api, watcher::Config::default()).default_backoff();
    let mut stream = stream.reflect(writer).boxed();
    let mut known: BTreeMap<Key, String> = BTreeMap::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let latest = object.news();
                if known.insert(Key::of(&object), latest.clone()) != Some(latest) {
                    queues.wake(object.wakes(&caches)).await;
                }
            }
            Ok(Event::Delete(object)) => {
                known.remove(&Key::of(&object));
                queues.wake(object.wakes(&caches)).await;
            }
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => {
                let kind = K::kind(&());
                tracing::warn!(%kind, error = crate::pool::line(&error), "watch failed");
            }
        }
    }
}

/// Secrets are watched without their data: only that one came or changed is of interest.
async fn follow_secrets(api: Api<PartialObjectMeta<Secret>>, (caches, queues): Known) {
    let config = watcher::Config::default().fields("type=cluster.x-k8s.io/secret");
    let stream = watcher::watcher(api, config).default_backoff();
    let mut stream = stream.touched_objects().boxed();
    while let Some(event) = stream.next().await {
        match event {
            Ok(secret) => {
                let key = Key::of(&secret);
                if let Some(cluster) = key.name.strip_suffix("-kubeconfig") {
                    let cluster = Key {
                        name: cluster.to_owned(),
                        ..key.clone()
                    };
                    // Nobody listens before the first workload cluster is asked for.
                    let _nobody = queues.kubeconfigs.send(cluster).is_err();
                }
                queues.wake(wake::pools_of_secret(&key, &caches)).await;
            }
            Err(error) => {
                tracing::warn!(error = crate::pool::line(&error), "watch of secrets failed");
            }
        }
    }
}

type Known = (Caches, Queues);

fn request<K: Resource<DynamicType = ()>>(key: &Key) -> ReconcileRequest<K> {
    ReconcileRequest::from(ObjectRef::new(&key.name).within(&key.namespace))
}
