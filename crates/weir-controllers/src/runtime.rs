//! Runs the reconcilers against a real cluster: watches feed caches and queues.
//!
//! The only file that names kube's controller machinery. A watch event that says nothing new to a
//! reconciler (a heartbeat, a status that we wrote) wakes nobody.

mod feed;
mod start;
mod workloads;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube::runtime::controller::{Action, Config, applier};
use kube::runtime::reflector::Store;
use weir_api::{AzureMachinePool, AzureMachinePoolMachine};

pub use start::StartError;

use crate::access::AzureAccess;
use crate::clock::{Clock, SystemClock};
use crate::context::{Ctx, Key};
use crate::leader::Election;
use crate::pool::{Next, line};
use feed::Queues;

/// How many pools, and how many pool machines, are worked on at once.
///
/// A turn is mostly waiting for answers; sixteen keep a controller of a hundred rolling pools below
/// one core and the API server below a hundred requests in flight.
const CONCURRENCY: u16 = 16;

/// How long a failed turn is left alone.
const ERROR_PAUSE: std::time::Duration = std::time::Duration::from_secs(5);

/// How a controller is to run.
pub struct Options {
    /// The management cluster.
    pub client: kube::Client,
    /// The way to Azure.
    pub azure: AzureAccess,
    /// Only this namespace; `None` is all.
    pub namespace: Option<String>,
    /// Only objects with this value of the watch-filter label; `None` is all.
    pub watch_filter: Option<String>,
    /// Take part in an election; `None` works at once and alone.
    pub election: Option<ElectionOptions>,
    /// The counters.
    pub metrics: crate::metrics::Metrics,
    /// Becomes true when the caches are filled, or while another copy does the work.
    pub ready: Arc<AtomicBool>,
}

/// Where the copies elect the one that works.
pub struct ElectionOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// This copy's name.
    pub identity: String,
}

/// Why a controller ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Another copy does the work.
    #[error("lost the lease {0}: another copy does the work now")]
    LeaseLost(String),
    /// A task that runs for ever ended.
    #[error("the {0} task ended: report this as a bug")]
    TaskEnded(&'static str),
}

/// Runs until the lease is lost.
///
/// # Errors
/// Always: a controller does not end by itself.
pub async fn run(options: Options) -> Result<(), RunError> {
    start::check(&options.client, options.namespace.as_deref()).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let Some(part) = &options.election else {
        return work(options, clock).await;
    };
    let mut election = Election::new(
        options.client.clone(),
        &part.namespace,
        &part.name,
        part.identity.clone(),
        clock.clone(),
    );
    let name = part.name.clone();
    options.ready.store(true, Ordering::Relaxed);
    election.win().await;
    tracing::info!(lease = name, "holding the lease");
    // The caches are filled after the lease is won, so that they hold all that the last holder did.
    tokio::select! {
        biased;
        () = election.hold() => Err(RunError::LeaseLost(name)),
        ended = work(options, clock) => ended,
    }
}

async fn work(options: Options, clock: Arc<dyn Clock>) -> Result<(), RunError> {
    let (queues, pool_requests, machine_requests) = Queues::new();
    let fed = feed::start(&options.client, options.namespace.as_deref(), &queues);
    let workloads = crate::workload::Workloads::default();
    let mut ctx = Ctx::new(
        options.client.clone(),
        fed.caches.clone(),
        workloads.clone(),
        options.azure,
        clock.clone(),
    );
    ctx.metrics = options.metrics;
    ctx.watch_filter = options.watch_filter;
    let ctx = Arc::new(ctx);
    let pools = drive_pools(fed.caches.pools.clone(), pool_requests, ctx.clone());
    let machines = drive_machines(
        fed.caches.pool_machines.clone(),
        machine_requests,
        ctx.clone(),
    );
    let connections = workloads::keep_connected(ctx, queues);
    let ready = options.ready;
    let filled = async {
        fed.wait_until_filled().await;
        ready.store(true, Ordering::Relaxed);
        tracing::info!("caches are filled");
        tokio::join!(pools, machines)
    };
    tokio::select! {
        biased;
        _ = filled => Err(RunError::TaskEnded("reconcile")),
        () = connections => Err(RunError::TaskEnded("workload")),
    }
}

async fn drive_pools(
    store: Store<AzureMachinePool>,
    requests: feed::Requests<AzureMachinePool>,
    ctx: Arc<Ctx>,
) {
    let reconcile = |pool: Arc<AzureMachinePool>, ctx: Arc<Ctx>| {
        let turn = async move {
            let turn = crate::pool::reconcile(&Key::of(&*pool), &ctx).await?;
            Ok::<_, crate::pool::Error>(action(turn.next, ctx.clock.now()))
        };
        turn.boxed()
    };
    let on_error = |pool: Arc<AzureMachinePool>, error: &crate::pool::Error, _: Arc<Ctx>| {
        tracing::warn!(pool = %Key::of(&*pool), error = line(error), "turn failed");
        Action::requeue(ERROR_PAUSE)
    };
    let config = Config::default().concurrency(CONCURRENCY);
    let turns = applier(reconcile, on_error, ctx, store, requests, config);
    std::pin::pin!(turns)
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn drive_machines(
    store: Store<AzureMachinePoolMachine>,
    requests: feed::Requests<AzureMachinePoolMachine>,
    ctx: Arc<Ctx>,
) {
    let reconcile = |machine: Arc<AzureMachinePoolMachine>, ctx: Arc<Ctx>| {
        let turn = async move {
            let next = crate::machine::reconcile(&Key::of(&*machine), &ctx).await?;
            Ok::<_, crate::machine::Error>(action(next, ctx.clock.now()))
        };
        turn.boxed()
    };
    let on_error =
        |machine: Arc<AzureMachinePoolMachine>, error: &crate::machine::Error, _: Arc<Ctx>| {
            tracing::warn!(machine = %Key::of(&*machine), error = line(error), "turn failed");
            Action::requeue(ERROR_PAUSE)
        };
    let config = Config::default().concurrency(CONCURRENCY);
    let turns = applier(reconcile, on_error, ctx, store, requests, config);
    std::pin::pin!(turns)
        .for_each(|_| std::future::ready(()))
        .await;
}

fn action(next: Next, now: Timestamp) -> Action {
    match next {
        Next::OnEvent => Action::await_change(),
        Next::At(at) => {
            let pause = at.duration_since(now);
            Action::requeue(std::time::Duration::try_from(pause).unwrap_or_default())
        }
    }
}
