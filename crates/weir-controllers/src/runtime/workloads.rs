//! Connects workload clusters when they are asked for, and watches their nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;

use super::feed::Queues;
use crate::context::{Ctx, Key};
use crate::pool::line;
use crate::wake::{self, Work, node_news};
use crate::workload::Workload;

/// How long between two tries to reach a workload cluster.
const RETRY: Duration = Duration::from_secs(10);

/// Keeps a connection to each workload cluster that was ever asked for.
pub(super) async fn keep_connected(ctx: Arc<Ctx>, queues: Queues) {
    let mut links = JoinSet::new();
    loop {
        for cluster in ctx.workloads.wanted() {
            ctx.workloads.down(&cluster, "not connected yet");
            links.spawn(link(cluster, ctx.clone(), queues.clone()));
        }
        tokio::select! {
            biased;
            () = ctx.workloads.any_wanted() => {}
            Some(_) = links.join_next() => {}
        }
    }
}

/// Connects one cluster again and again.
async fn link(cluster: Key, ctx: Arc<Ctx>, queues: Queues) {
    let mut kubeconfigs = queues.kubeconfigs.subscribe();
    loop {
        let why = match connect(&cluster, &ctx).await {
            Ok(client) => {
                let renewed = async {
                    // A receiver that lagged missed some: connecting anew is harmless.
                    while let Ok(key) = kubeconfigs.recv().await {
                        if key == cluster {
                            break;
                        }
                    }
                };
                tokio::select! {
                    biased;
                    () = renewed => "the kubeconfig changed".to_owned(),
                    why = watch_nodes(&cluster, client, &ctx, &queues) => why,
                }
            }
            Err(why) => {
                tokio::time::sleep(RETRY).await;
                why
            }
        };
        ctx.workloads.down(&cluster, why);
    }
}

async fn connect(cluster: &Key, ctx: &Ctx) -> Result<Client, String> {
    let name = format!("{}-kubeconfig", cluster.name);
    let secrets: Api<Secret> = Api::namespaced(ctx.kube.clone(), &cluster.namespace);
    let secret = secrets.get_opt(&name).await;
    let secret = secret.map_err(|error| format!("cannot read secret {name}: {}", line(&error)))?;
    let data = secret.and_then(|secret| secret.data?.remove("value"));
    let data = data.ok_or_else(|| format!("there is no secret {name} with a key \"value\""))?;
    let text = String::from_utf8(data.0).map_err(|_| format!("secret {name} is no text"))?;
    // The text may hold a token: what the parser says of it is not passed on.
    let parsed = Kubeconfig::from_yaml(&text)
        .map_err(|_| format!("secret {name} holds no kubeconfig that can be read"))?;
    let config = kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await;
    let config =
        config.map_err(|error| format!("secret {name} is not usable: {}", line(&error)))?;
    Client::try_from(config).map_err(|error| format!("secret {name}: {}", line(&error)))
}

/// Watches the nodes of a cluster; returns why that came to an end.
async fn watch_nodes(cluster: &Key, client: Client, ctx: &Ctx, queues: &Queues) -> String {
    let (nodes, writer) = reflector::store();
    let api: Api<Node> = Api::all(client.clone());
    let stream = watcher::watcher(api.clone(), watcher::Config::default()).default_backoff();
    let mut stream = stream.reflect(writer).boxed();
    let mut news = BTreeMap::new();
    loop {
        let Some(event) = stream.next().await else {
            return "the watch ended".to_owned();
        };
        match event {
            Ok(Event::InitDone) => {
                let workload = Workload {
                    client: client.clone(),
                    nodes: nodes.clone(),
                };
                ctx.workloads.up(cluster, workload);
                wake_all(cluster, ctx, queues).await;
            }
            Ok(Event::Init) => {}
            Ok(Event::InitApply(node)) => {
                news.insert(node.name_any(), node_news(&node));
            }
            Ok(Event::Apply(node)) => {
                let latest = node_news(&node);
                if news.insert(node.name_any(), latest.clone()) != Some(latest) {
                    wake_pool_of(&node, cluster, ctx, queues).await;
                }
            }
            Ok(Event::Delete(node)) => {
                news.remove(&node.name_any());
                wake_pool_of(&node, cluster, ctx, queues).await;
            }
            Err(error) => {
                let why = line(&error);
                if !answers(&api).await {
                    ctx.workloads.down(cluster, &why);
                    wake_all(cluster, ctx, queues).await;
                    return wait_for_answer(&api, why).await;
                }
                tracing::warn!(%cluster, error = why, "watch of nodes failed");
            }
        }
    }
}

/// A watch that fails now and then is no outage: the cluster is down when a read fails too.
async fn answers(api: &Api<Node>) -> bool {
    api.list(&ListParams::default().limit(1)).await.is_ok()
}

async fn wait_for_answer(api: &Api<Node>, why: String) -> String {
    while !answers(api).await {
        tokio::time::sleep(RETRY).await;
    }
    format!("connecting again after: {why}")
}

async fn wake_all(cluster: &Key, ctx: &Ctx, queues: &Queues) {
    let pools = wake::pools_of_cluster(cluster, &ctx.caches);
    queues.wake(pools.into_iter().map(Work::Pool)).await;
}

async fn wake_pool_of(node: &Node, cluster: &Key, ctx: &Ctx, queues: &Queues) {
    let pools = wake::pools_of_node(node, cluster, &ctx.caches);
    queues.wake(pools.into_iter().map(Work::Pool)).await;
}
