//! Carries out the drains that core does not do. What to do next is decided in `weir_core::drain`.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{EvictParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use weir_api::{AzureMachinePoolMachine, contract};
use weir_core::drain::{DrainStep, EVICTION_RETRY, NodePods, NodeState, PodKind, next_step};

use crate::caches::pool_of;
use crate::context::{Ctx, Key};
use crate::marks;
use crate::pool::Next;
use crate::workload::Workload;

/// How soon to look again while pods are on their way out: nobody watches pods.
const POD_LOOK: SignedDuration = SignedDuration::from_secs(5);

/// How soon to look again while the workload cluster cannot be reached.
const UNREACHABLE_LOOK: SignedDuration = SignedDuration::from_secs(20);

/// A drain could not go on.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// The nodes could not be listed.
    #[error("failed to list the nodes")]
    ListNodes(#[source] kube::Error),
    /// The node could not be cordoned.
    #[error("failed to cordon node {0}")]
    Cordon(String, #[source] kube::Error),
    /// The pods of the node could not be listed.
    #[error("failed to list the pods of node {0}")]
    ListPods(String, #[source] kube::Error),
    /// A pod could not be evicted, and not because of a budget.
    #[error("failed to evict pod {0}")]
    Evict(String, #[source] kube::Error),
    /// The drain's times could not be written down.
    #[error("failed to annotate the pool machine")]
    Annotate(#[source] kube::Error),
}

/// Takes the next step of the drain of a pool machine that is being deleted.
pub(super) async fn drain(
    machine: &AzureMachinePoolMachine,
    ctx: &Ctx,
) -> Result<Next, DrainError> {
    if machine.annotations().contains_key(marks::DRAINED) {
        return Ok(Next::OnEvent);
    }
    let now = ctx.clock.now();
    let Some(began) = recorded_beginning(machine) else {
        annotate(machine, marks::DRAIN_BEGAN, ctx).await?;
        return Ok(Next::At(now));
    };
    let Some(workload) = workload(machine, ctx) else {
        return Ok(Next::At(now + UNREACHABLE_LOOK));
    };
    let node = node_of(machine, &workload).await?;
    let pods = match &node {
        Some(node) => pods_on(node, &workload).await?,
        None => Vec::new(),
    };
    let look = NodePods {
        at: now,
        began,
        limit: limit(machine, ctx),
        node: node.as_ref().map(node_state),
        pods: pods.iter().map(core_pod).collect(),
    };
    match (next_step(&look), node) {
        (DrainStep::Over(_), _) | (_, None) => {
            annotate(machine, marks::DRAINED, ctx).await?;
            Ok(Next::OnEvent)
        }
        (DrainStep::Cordon, Some(node)) => {
            cordon(&node, &workload).await?;
            Ok(Next::At(now))
        }
        (DrainStep::Evict(names), Some(_)) => {
            evict(&names, &workload).await?;
            Ok(Next::At(now + EVICTION_RETRY))
        }
        (DrainStep::Await(_), Some(_)) => Ok(Next::At(now + POD_LOOK)),
    }
}

fn recorded_beginning(machine: &AzureMachinePoolMachine) -> Option<jiff::Timestamp> {
    machine.annotations().get(marks::DRAIN_BEGAN)?.parse().ok()
}

async fn annotate(
    machine: &AzureMachinePoolMachine,
    mark: &str,
    ctx: &Ctx,
) -> Result<(), DrainError> {
    let at = ctx.clock.now().to_string();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {mark: at}}}));
    let namespace = machine.namespace().unwrap_or_default();
    let api: Api<AzureMachinePoolMachine> = Api::namespaced(ctx.kube.clone(), &namespace);
    match api
        .patch(&machine.name_any(), &PatchParams::default(), &patch)
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(|_| ()).map_err(DrainError::Annotate),
    }
}

fn workload(machine: &AzureMachinePoolMachine, ctx: &Ctx) -> Option<Workload> {
    let name = machine.labels().get(contract::label::CLUSTER_NAME)?.clone();
    let key = Key {
        namespace: machine.namespace()?,
        name,
    };
    ctx.workloads.get(&key).ok()
}

/// Finds the node of a machine; read live, since a node that the cache has not seen yet would be
/// taken for one that is gone.
async fn node_of(
    machine: &AzureMachinePoolMachine,
    workload: &Workload,
) -> Result<Option<Node>, DrainError> {
    let api: Api<Node> = Api::all(workload.client.clone());
    let nodes = api
        .list(&ListParams::default())
        .await
        .map_err(DrainError::ListNodes)?;
    Ok(nodes.items.into_iter().find(|node| {
        let id = node
            .spec
            .as_ref()
            .and_then(|spec| spec.provider_id.as_ref());
        id.is_some_and(|id| id.eq_ignore_ascii_case(&machine.spec.provider_id))
    }))
}

fn node_state(node: &Node) -> NodeState {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    NodeState {
        cordoned: node
            .spec
            .as_ref()
            .and_then(|spec| spec.unschedulable)
            .unwrap_or(false),
        reachable: ready.is_none_or(|ready| ready.status != "Unknown"),
    }
}

async fn pods_on(node: &Node, workload: &Workload) -> Result<Vec<Pod>, DrainError> {
    let name = node.name_any();
    let api: Api<Pod> = Api::all(workload.client.clone());
    let params = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let pods = api
        .list(&params)
        .await
        .map_err(|error| DrainError::ListPods(name, error))?;
    let mut pods = pods.items;
    pods.sort_by_key(|pod| (pod.namespace(), pod.name_any()));
    Ok(pods)
}

fn core_pod(pod: &Pod) -> weir_core::drain::Pod {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    weir_core::drain::Pod {
        name: format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()),
        kind: pod_kind(pod),
        finished: matches!(phase, Some("Succeeded" | "Failed")),
        terminating_since: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
    }
}

fn pod_kind(pod: &Pod) -> PodKind {
    let owned_by_daemon_set = pod
        .owner_references()
        .iter()
        .any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet");
    if pod
        .annotations()
        .contains_key("kubernetes.io/config.mirror")
    {
        PodKind::Mirror
    } else if owned_by_daemon_set {
        PodKind::Daemon
    } else if pod
        .labels()
        .get(contract::label::DRAIN)
        .is_some_and(|value| value == "skip")
    {
        PodKind::Skipped
    } else {
        PodKind::Ordinary
    }
}

/// The time that the pool's MachinePool gives a drain; zero means for ever, as in core.
fn limit(machine: &AzureMachinePoolMachine, ctx: &Ctx) -> Option<SignedDuration> {
    let pool = ctx.caches.pool(&pool_of(machine)?)?;
    let owner = ctx.caches.owner_of(&pool)?;
    let seconds = owner
        .spec
        .template
        .spec
        .deletion
        .as_ref()?
        .node_drain_timeout_seconds?;
    (seconds > 0).then(|| SignedDuration::from_secs(i64::from(seconds)))
}

async fn cordon(node: &Node, workload: &Workload) -> Result<(), DrainError> {
    let name = node.name_any();
    let api: Api<Node> = Api::all(workload.client.clone());
    match api.cordon(&name).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other
            .map(|_| ())
            .map_err(|error| DrainError::Cordon(name, error)),
    }
}

/// Asks for the eviction of each pod. A budget that refuses is no error: it is asked again later.
async fn evict(names: &[String], workload: &Workload) -> Result<(), DrainError> {
    for full_name in names {
        let (namespace, name) = full_name.split_once('/').unwrap_or(("default", full_name));
        let api: Api<Pod> = Api::namespaced(workload.client.clone(), namespace);
        match api.evict(name, &EvictParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 429) => {}
            Err(error) => return Err(DrainError::Evict(full_name.clone(), error)),
        }
    }
    Ok(())
}
