//! One turn of a pool: observe, plan, apply, report.
//!
//! A turn begins with reads and ends with a status; nothing flows back from a write into the plan
//! of the same turn. Whatever a turn leaves undone, the next one sees.

mod apply;
mod memory;
mod observe;
mod refusal;
mod remediation;
mod report;
mod timeouts;

use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use weir_api::{AzureMachinePool, contract};
use weir_core::plan::Plan;
use weir_core::view::PoolView;

pub(crate) use apply::delete;
pub use apply::{Outcomes, StepError};
pub(crate) use memory::Memory;
pub(crate) use observe::line;
pub use observe::{Blocked, ObserveError};
pub use report::ReportError;

use crate::context::{Ctx, Key};
use crate::marks;

/// How long a settled pool is left alone when nothing is heard of it.
///
/// Azure changes instances without telling anybody. A look costs two reads; at ten minutes a
/// thousand pools cost 200 reads a minute of the 1,500 a subscription has (docs/azure.md).
const SETTLED_LOOK: SignedDuration = SignedDuration::from_mins(10);

/// How long a pool that cannot begin is left alone when nothing is heard of it.
///
/// Most of what it can wait for is watched and wakes it at once; the rest (AzureCluster, identity)
/// is read once per turn.
const BLOCKED_LOOK: SignedDuration = SignedDuration::from_secs(30);

/// When to take the next turn, unless something is heard before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At this time.
    At(Timestamp),
    /// When something is heard.
    OnEvent,
}

/// A turn could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The look failed.
    #[error("failed to observe the pool")]
    Observe(#[source] Box<ObserveError>),
    /// The finalizer could not be set before the first write.
    #[error("failed to set the finalizer of the pool")]
    Finalizer(#[source] kube::Error),
    /// The count of an autoscaled pool could not be noted before it is changed.
    #[error("failed to note how many instances the pool has")]
    Replicas(#[source] kube::Error),
    /// The timeouts of the template could not be carried to a Machine.
    #[error("failed to carry the deletion timeouts of the MachinePool to its Machines")]
    Timeouts(#[source] kube::Error),
    /// A Machine could not be told what becomes of it after its health check failed.
    #[error("failed to tell a Machine whether it is remediated")]
    Remediation(#[source] kube::Error),
    /// The outcome could not be written down.
    #[error("failed to report on the pool")]
    Report(#[source] Box<ReportError>),
}

/// What a turn showed, for those who want to watch.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The pool, if the turn got as far as looking at it.
    pub view: Option<PoolView>,
    /// When to take the next turn.
    pub next: Next,
}

/// Takes one turn for a pool.
///
/// # Errors
/// When the management cluster could not be read or written. What Azure or the workload cluster
/// refuses is no error of the turn: it is reported on the pool, and decides when to look again.
pub async fn reconcile(key: &Key, ctx: &Ctx) -> Result<Turn, Error> {
    let Some(pool) = ctx.caches.pool(key) else {
        ctx.forget(key);
        return Ok(Turn {
            view: None,
            next: Next::OnEvent,
        });
    };
    if !is_ours(&pool, ctx) {
        return Ok(Turn {
            view: None,
            next: Next::OnEvent,
        });
    }
    ctx.metrics.turns.inc();
    let scene = match observe::observe(&pool, key, ctx).await {
        Ok(Ok(scene)) => scene,
        Ok(Err(blocked)) => return blocked_turn(&pool, &blocked, ctx).await,
        Err(error) => return Err(Error::Observe(Box::new(error))),
    };
    let plan = weir_core::plan(&scene.observed);
    ctx.remember(key, |memory| {
        memory.look_serves_until = plan.look_serves_until
    });
    hold(&pool, &plan, ctx).await.map_err(Error::Finalizer)?;
    remember_replicas(&pool, &scene, ctx)
        .await
        .map_err(Error::Replicas)?;
    // Before a Machine is asked to go, and no reason to stop if it is refused.
    let carried = timeouts::carry(&scene, ctx).await;
    let outcomes = apply::apply(&pool, &scene, &plan, ctx).await;
    report::report(&pool, &scene, &plan, &outcomes, ctx)
        .await
        .map_err(|error| Error::Report(Box::new(error)))?;
    carried.map_err(Error::Timeouts)?;
    let answered = remediation::answer(&scene, &plan, ctx).await;
    answered.map_err(Error::Remediation)?;
    let next = next_turn(ctx.clock.now(), &plan, &outcomes, &scene, ctx);
    Ok(Turn {
        view: Some(PoolView::of(&scene.observed, &plan)),
        next,
    })
}

fn is_ours(pool: &AzureMachinePool, ctx: &Ctx) -> bool {
    let Some(filter) = &ctx.watch_filter else {
        return true;
    };
    pool.labels().get(contract::label::WATCH_FILTER) == Some(filter)
}

async fn blocked_turn(
    pool: &AzureMachinePool,
    blocked: &Blocked,
    ctx: &Ctx,
) -> Result<Turn, Error> {
    report::report_blocked(pool, blocked, ctx)
        .await
        .map_err(|error| Error::Report(Box::new(error)))?;
    let next = match blocked {
        Blocked::Paused | Blocked::NoOwner => Next::OnEvent,
        _ => Next::At(ctx.clock.now() + BLOCKED_LOOK),
    };
    Ok(Turn { view: None, next })
}

/// Puts the finalizer on the pool before anything is made that it has to outlive.
async fn hold(pool: &AzureMachinePool, plan: &Plan, ctx: &Ctx) -> Result<(), kube::Error> {
    let held = pool
        .finalizers()
        .iter()
        .any(|name| name == contract::finalizer::MACHINE_POOL);
    let writes = plan.steps.iter().any(|step| step.action.is_azure_write());
    if held || !writes || pool.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let mut finalizers = pool.finalizers().to_vec();
    finalizers.push(contract::finalizer::MACHINE_POOL.to_owned());
    // The version makes it safe: a finalizer that somebody adds meanwhile is not overwritten.
    let patch = json!({"metadata": {
        "finalizers": finalizers,
        "resourceVersion": pool.resource_version(),
    }});
    patch_pool(pool, &patch, ctx).await
}

/// Notes the count of an autoscaled pool before a step of ours changes it in Azure (R9).
async fn remember_replicas(
    pool: &AzureMachinePool,
    scene: &observe::Scene,
    ctx: &Ctx,
) -> Result<(), kube::Error> {
    let Some(note) = observe::new_note(pool, &scene.observed) else {
        return Ok(());
    };
    let text = note.map(|count| count.to_string());
    let patch = json!({"metadata": {"annotations": {marks::REPLICAS: text}}});
    patch_pool(pool, &patch, ctx).await
}

async fn patch_pool(pool: &AzureMachinePool, patch: &Value, ctx: &Ctx) -> Result<(), kube::Error> {
    let api: Api<AzureMachinePool> =
        Api::namespaced(ctx.kube.clone(), &pool.namespace().unwrap_or_default());
    let (name, params) = (pool.name_any(), PatchParams::default());
    api.patch(&name, &params, &Patch::Merge(patch)).await?;
    Ok(())
}

fn next_turn(
    now: Timestamp,
    plan: &Plan,
    outcomes: &Outcomes,
    scene: &observe::Scene,
    ctx: &Ctx,
) -> Next {
    if plan
        .steps
        .iter()
        .any(|s| s.action == weir_core::plan::Action::ReleasePool)
    {
        return Next::OnEvent;
    }
    let planned = plan.look_again.unwrap_or(now + SETTLED_LOOK);
    let unread = scene.unread.as_ref().map(weir_azure::ArmError::retry);
    let refused = outcomes.retry().into_iter().chain(unread);
    let retry = refused.map(|retry| ctx.remember(&scene.key, |memory| memory.back_off(retry, now)));
    match retry.max() {
        None if outcomes.call_for_a_plan() => Next::At(now + SignedDuration::from_secs(1)),
        None => {
            ctx.remember(&scene.key, Memory::all_went_well);
            Next::At(planned.max(now + SignedDuration::from_millis(1)))
        }
        Some(at) => Next::At(at),
    }
}
