//! Was every bound held at every moment, as far as one can look?
//!
//! A task looks at nodes, pods, the workload and Azure's own counts a few times a second, and what
//! it saw is judged afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::stack::{Azure, DELETE, Stack};

/// Time between two looks: short beside everything that can happen to a node.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What may be there at any moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Pods that the budget keeps.
    pub(crate) ready_pods: i32,
    /// Nodes that can take pods.
    pub(crate) available_nodes: usize,
    /// Instances that Azure has.
    pub(crate) instances: u64,
}

/// What was seen at the worst moment, and how nodes went.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) looks: usize,
    pub(crate) ready_pods_min: i32,
    pub(crate) available_nodes_min: usize,
    pub(crate) instances_max: u64,
    /// Names of nodes that were there and are not.
    pub(crate) gone: BTreeSet<String>,
    /// Longest time from a node's cordon to the end of its instance being asked for.
    pub(crate) drain_max: Duration,
}

/// A task that looks until it is asked what it saw.
#[derive(Debug)]
pub(crate) struct Sampler {
    task: JoinHandle<()>,
    looks: Arc<Mutex<Vec<anyhow::Result<Look>>>>,
}

#[derive(Clone, Debug)]
struct Look {
    began: Instant,
    ended: Instant,
    /// Whether each node can take pods.
    nodes: BTreeMap<String, bool>,
    /// Number of pods by node.
    pods: BTreeMap<String, usize>,
    ready_pods: i32,
    instances: u64,
}

impl Sampler {
    /// Begins to look at a Deployment and at the scale set of a pool.
    pub(crate) fn start(stack: &Stack, deployment: &str, scale_set: &str) -> Self {
        let client = stack.control_plane.workload.client.clone();
        let azure = stack.azure.clone();
        let (deployment, scale_set) = (deployment.to_owned(), scale_set.to_owned());
        let looks = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&looks);
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(LOOK_EVERY);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let look = look(&client, &azure, &deployment, &scale_set).await;
                seen.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(look);
            }
        });
        Self { task, looks }
    }

    /// Ends and judges what was seen.
    ///
    /// # Errors
    /// A bound was broken, a node was not drained, or a look failed.
    pub(crate) fn finish(self, bounds: Bounds) -> anyhow::Result<Seen> {
        self.task.abort();
        let looks = std::mem::take(&mut *self.looks.lock().unwrap_or_else(PoisonError::into_inner));
        let looks: Vec<Look> = looks.into_iter().collect::<anyhow::Result<_>>()?;
        let seen = sum_up(&looks)?;
        let Bounds {
            ready_pods,
            available_nodes,
            instances,
        } = bounds;
        ensure!(
            seen.ready_pods_min >= ready_pods,
            "the budget of {ready_pods} was broken: {seen:?}"
        );
        ensure!(
            seen.available_nodes_min >= available_nodes,
            "the floor of {available_nodes} was broken: {seen:?}"
        );
        ensure!(
            seen.instances_max <= instances,
            "the ceiling of {instances} was broken: {seen:?}"
        );
        Ok(seen)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn sum_up(looks: &[Look]) -> anyhow::Result<Seen> {
    let available = |look: &Look| look.nodes.values().filter(|each| **each).count();
    let mut seen = Seen {
        looks: looks.len(),
        ready_pods_min: looks.iter().map(|look| look.ready_pods).min().unwrap_or(0),
        available_nodes_min: looks.iter().map(available).min().unwrap_or(0),
        instances_max: looks.iter().map(|look| look.instances).max().unwrap_or(0),
        gone: BTreeSet::new(),
        drain_max: Duration::ZERO,
    };
    for (index, pair) in looks.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        for name in before.nodes.keys() {
            if !after.nodes.contains_key(name) {
                let asked = was_drained(&looks[..=index], name, after.ended)?;
                seen.drain_max = seen.drain_max.max(asked);
                seen.gone.insert(name.clone());
            }
        }
    }
    Ok(seen)
}

/// Checks that no pod was on a node once Azure was asked to delete its instance; returns how long
/// the node had been cordoned by then.
///
/// Azure takes [`DELETE`] for that, and the Node leaves no sooner. So all that was seen of a node
/// within that time before its end was seen after Azure had been asked.
fn was_drained(looks: &[Look], node: &str, gone: Instant) -> anyhow::Result<Duration> {
    let asked = gone - DELETE;
    for look in looks.iter().filter(|look| look.began >= asked) {
        let count = look.pods.get(node).copied().unwrap_or(0);
        ensure!(
            count == 0,
            "node {node} was not drained: {count} pods were on it {:?} before it was gone",
            gone - look.began
        );
    }
    let last_available = looks
        .iter()
        .rfind(|look| look.nodes.get(node) == Some(&true));
    Ok(last_available.map_or(Duration::ZERO, |look| {
        asked.saturating_duration_since(look.began)
    }))
}

async fn look(
    client: &Client,
    azure: &Azure,
    deployment: &str,
    scale_set: &str,
) -> anyhow::Result<Look> {
    let began = Instant::now();
    let all = ListParams::default();
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let (nodes, pods, workload, report) = tokio::join!(
        nodes.list(&all),
        pods.list(&all),
        deployments.get(deployment),
        azure.report()
    );
    let mut counts = BTreeMap::new();
    for pod in pods.context("failed to look at pods")? {
        if let Some(node) = pod.spec.and_then(|spec| spec.node_name) {
            *counts.entry(node).or_default() += 1;
        }
    }
    let nodes = nodes.context("failed to look at nodes")?.into_iter();
    let workload = workload.context("failed to look at the workload")?.status;
    Ok(Look {
        began,
        ended: Instant::now(),
        nodes: nodes
            .map(|node| {
                let is_available = is_available(&node);
                (node.metadata.name.unwrap_or_default(), is_available)
            })
            .collect(),
        pods: counts,
        ready_pods: workload
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0),
        instances: report?.scale_set(scale_set).existing(),
    })
}

/// Whether a node can take pods.
fn is_available(node: &Node) -> bool {
    let is_cordoned = node
        .spec
        .as_ref()
        .is_some_and(|spec| spec.unschedulable == Some(true));
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let is_ready = conditions.any(|each| each.type_ == "Ready" && each.status == "True");
    is_ready && !is_cordoned
}
