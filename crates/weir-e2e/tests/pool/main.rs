//! Does a pool live through all that users do to it, on a real control plane?
//!
//! One control plane, one pool, one story: it comes up, rolls, loses machines to users, rolls again
//! while its controller is killed, and goes. `samples.rs` watches the bounds all the while. What
//! is measured is printed.

mod bad_input;
mod samples;
mod stack;

use std::time::Duration;

use anyhow::{Context, ensure};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;
use weir_e2e::fixtures::{self, CORE, Place, Pool};
use weir_e2e::wait_until;

use crate::samples::{Bounds, Sampler, Seen};
use crate::stack::{CREATE, DELETE, JOIN, Report, SOON, Stack};

/// How often core looks after a drain that has begun: a node whose pods are gone waits for that.
const DRAIN: Duration = Duration::from_secs(20);

/// How long a pool may take to be told to be up: Weir looks a minute after it last saw Azure busy.
const UP_IN: Duration = Duration::from_secs(120);

/// How long three instances may take to be replaced, one at a time.
const ROLLED_IN: Duration = Duration::from_secs(240);

/// The pool's size.
const REPLICAS: u32 = 3;

/// What the pool's workload runs, and what its budget keeps.
const WORKLOAD: &str = "web";
const PODS: u32 = 3;
const BUDGET: u32 = 2;

/// Requests to Azure that one replaced instance may cost.
const CALLS_MAX: f64 = 10.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_comes_up_rolls_heals_survives_a_crash_and_goes() -> anyhow::Result<()> {
    let mut stack = Stack::start("pool").await?;
    let place = Place::new("pools", "c1");
    fixtures::create_cluster(&stack.control_plane, &place).await?;
    stack.start_controller()?;
    let told = story(&mut stack, &place).await;
    if told.is_err() {
        stack.dump(&place).await?;
    }
    told
}

async fn story(stack: &mut Stack, place: &Place) -> anyhow::Result<()> {
    let mut pool = pool("v1.36.3");
    comes_up(stack, place, &pool).await?;
    pool.version = "v1.36.4".to_owned();
    rolls(stack, place, &pool).await?;
    replaces_a_deleted_machine(stack, place, &pool).await?;
    replaces_a_deleted_instance(stack, place, &pool).await?;
    replaces_an_unhealthy_machine(stack, place, &pool).await?;
    pool.version = "v1.36.5".to_owned();
    pool.azure_spec["strategy"]["rollingUpdate"]["maxSurge"] = json!(2);
    rolls_although_its_controller_is_killed(stack, place, &pool).await?;
    bad_input::is_told_to_the_user(stack, place).await?;
    goes(stack, place, &pool).await?;
    stack.controller_is_well()
}

fn pool(version: &str) -> Pool {
    let mut azure_spec = fixtures::azure_pool_spec();
    azure_spec["template"]["vmSize"] = json!("Standard_D2s_v5");
    Pool {
        name: "workers".to_owned(),
        replicas: REPLICAS,
        version: version.to_owned(),
        azure_spec,
    }
}

/// Returns how many instances there may be at once.
fn ceiling(pool: &Pool) -> u64 {
    let limits = &pool.azure_spec["strategy"]["rollingUpdate"];
    u64::from(REPLICAS) + limits["maxSurge"].as_u64().unwrap_or(0)
}

/// Bounds while nothing but Weir takes nodes away.
fn bounds(pool: &Pool) -> Bounds {
    Bounds {
        ready_pods: BUDGET as i32,
        available_nodes: REPLICAS as usize,
        instances: ceiling(pool),
    }
}

async fn comes_up(stack: &Stack, place: &Place, pool: &Pool) -> anyhow::Result<()> {
    let began = Instant::now();
    fixtures::apply_pool(&stack.control_plane.management, place, pool).await?;
    stack.settled(place, pool, UP_IN).await?;
    println!("came up in {:.1} s", began.elapsed().as_secs_f64());
    machines_have_the_timeout(stack, place).await?;
    fixtures::deploy_with_budget(&stack.control_plane.workload, WORKLOAD, PODS, BUDGET).await?;
    workload_is_ready(stack).await
}

async fn machines_have_the_timeout(stack: &Stack, place: &Place) -> anyhow::Result<()> {
    for machine in stack.machines(place).list(&ListParams::default()).await? {
        let timeout = &machine.data["spec"]["deletion"]["nodeDrainTimeoutSeconds"];
        ensure!(
            *timeout == fixtures::DRAIN_TIMEOUT,
            "Machine {} has {timeout} for its drain",
            machine.name_any()
        );
    }
    Ok(())
}

async fn workload_is_ready(stack: &Stack) -> anyhow::Result<()> {
    let client = stack.control_plane.workload.client.clone();
    let deployments = weir_e2e::object_api(&client, "apps/v1", "Deployment", "default");
    wait_until("workload that is ready", SOON, async || {
        let found = deployments.get(WORKLOAD).await?;
        Ok((found.data["status"]["readyReplicas"] == PODS).then_some(()))
    })
    .await
}

async fn rolls(stack: &Stack, place: &Place, pool: &Pool) -> anyhow::Result<()> {
    let before = stack.azure.report().await?;
    let sampler = Sampler::start(stack, WORKLOAD, &pool.name);
    let began = Instant::now();
    fixtures::apply_pool(&stack.control_plane.management, place, pool).await?;
    stack.settled(place, pool, ROLLED_IN).await?;
    let makespan = began.elapsed();
    let seen = sampler.finish(bounds(pool))?;
    let after = stack.azure.report().await?;
    print_rollout(pool, makespan, &seen, &before, &after);
    replaced(pool, REPLICAS, &seen, &before, &after)?;
    let calls = (after.all_calls() - before.all_calls()) as f64 / f64::from(REPLICAS);
    ensure!(
        calls <= CALLS_MAX,
        "{calls:.1} requests to Azure per replaced instance: {:?}",
        after.calls
    );
    workload_is_ready(stack).await
}

/// Checks that exactly so many instances were made, and as many drained and deleted.
fn replaced(
    pool: &Pool,
    count: u32,
    seen: &Seen,
    before: &Report,
    after: &Report,
) -> anyhow::Result<()> {
    let (before, after) = (before.scale_set(&pool.name), after.scale_set(&pool.name));
    let made = after.created - before.created;
    let deleted = after.deleted - before.deleted;
    ensure!(
        (made, deleted) == (u64::from(count), u64::from(count)),
        "{made} instances were made and {deleted} deleted instead of {count}"
    );
    ensure!(
        seen.gone.len() == count as usize,
        "nodes that went are {:?} instead of {count}",
        seen.gone
    );
    let ceiling = ceiling(pool);
    ensure!(
        after.instances_max <= ceiling,
        "Azure once had {} instances and the ceiling is {ceiling}",
        after.instances_max
    );
    Ok(())
}

fn print_rollout(pool: &Pool, makespan: Duration, seen: &Seen, before: &Report, after: &Report) {
    let each = CREATE + JOIN + DRAIN + DELETE;
    let slots = ceiling(pool) as u32 - REPLICAS;
    let bound = each.max(each * REPLICAS / slots);
    let per = |after: u64, before: u64| (after - before) as f64 / f64::from(REPLICAS);
    println!(
        "rolled to {}: makespan {:.1} s, fluid bound {:.1} s (with {} s for a drain), \
         longest drain {:.1} s",
        pool.version,
        makespan.as_secs_f64(),
        bound.as_secs_f64(),
        DRAIN.as_secs(),
        seen.drain_max.as_secs_f64(),
    );
    println!(
        "  {} looks: ready pods at least {} of {PODS}, available nodes at least {} (floor \
         {REPLICAS}), instances at most {} (ceiling {})",
        seen.looks,
        seen.ready_pods_min,
        seen.available_nodes_min,
        after.scale_set(&pool.name).instances_max,
        ceiling(pool),
    );
    println!(
        "  per replaced instance: {:.1} requests to Azure, of them {:.1} writes, {:.1} reads, \
         {:.1} polls; {} throttled in all",
        per(after.all_calls(), before.all_calls()),
        per(after.writes, before.writes),
        per(after.reads, before.reads),
        per(after.polls, before.polls),
        after.throttled - before.throttled,
    );
}

async fn replaces_a_deleted_machine(
    stack: &Stack,
    place: &Place,
    pool: &Pool,
) -> anyhow::Result<()> {
    let machines = stack.machines(place).list(&ListParams::default()).await?;
    let name = machines.items.first().context("no Machine")?.name_any();
    let began = Began::by_a_user(stack, pool).await?;
    stack
        .machines(place)
        .delete(&name, &DeleteParams::default())
        .await?;
    replaces(stack, place, pool, &name, began).await
}

async fn replaces_a_deleted_instance(
    stack: &Stack,
    place: &Place,
    pool: &Pool,
) -> anyhow::Result<()> {
    let instances = stack.instances(place).list(&ListParams::default()).await?;
    let name = instances.items.last().context("no instance")?.name_any();
    let began = Began::by_a_user(stack, pool).await?;
    stack
        .instances(place)
        .delete(&name, &DeleteParams::default())
        .await?;
    replaces(stack, place, pool, &name, began).await
}

/// Its node is Ready, so that it goes only when another one is.
async fn replaces_an_unhealthy_machine(
    stack: &Stack,
    place: &Place,
    pool: &Pool,
) -> anyhow::Result<()> {
    let machines = stack.machines(place);
    let found = machines.list(&ListParams::default()).await?;
    let name = found.items.first().context("no Machine")?.name_any();
    let began = Began {
        what: "its health check failed",
        bounds: bounds(pool),
        ..Began::by_a_user(stack, pool).await?
    };
    fixtures::check_health(&stack.control_plane.management, place, pool).await?;
    // Core's check takes this as a finding.
    let marked = json!({"metadata": {"annotations": {"cluster.x-k8s.io/remediate-machine": ""}}});
    machines
        .patch(&name, &PatchParams::default(), &Patch::Merge(&marked))
        .await?;
    wait_until("word of the remediation", SOON, async || {
        let Some(machine) = machines.get_opt(&name).await? else {
            return Ok(Some(()));
        };
        let conditions = machine.data["status"]["conditions"].as_array();
        let ours = ["RemediationDeferred", "MachineDeleting"];
        let told = conditions.into_iter().flatten().any(|condition| {
            condition["type"] == "OwnerRemediated"
                && ours.iter().any(|reason| condition["reason"] == *reason)
        });
        Ok(told.then_some(()))
    })
    .await?;
    replaces(stack, place, pool, &name, began).await
}

/// What was there before one machine was to be replaced.
struct Began {
    what: &'static str,
    at: Instant,
    before: Report,
    sampler: Sampler,
    bounds: Bounds,
}

impl Began {
    /// A user takes one away; Weir may not take another.
    async fn by_a_user(stack: &Stack, pool: &Pool) -> anyhow::Result<Began> {
        Ok(Began {
            what: "it was deleted",
            at: Instant::now(),
            before: stack.azure.report().await?,
            sampler: Sampler::start(stack, WORKLOAD, &pool.name),
            bounds: Bounds {
                available_nodes: REPLICAS as usize - 1,
                ..bounds(pool)
            },
        })
    }
}

/// Sees one instance replaced and no other.
async fn replaces(
    stack: &Stack,
    place: &Place,
    pool: &Pool,
    name: &str,
    began: Began,
) -> anyhow::Result<()> {
    let both = [stack.machines(place), stack.instances(place)];
    wait_until(&format!("end of {name}"), 2 * SOON, async || {
        for api in &both {
            ensure!(api.get_opt(name).await?.is_none(), "{name} is still there");
        }
        Ok(Some(()))
    })
    .await?;
    stack.settled(place, pool, UP_IN).await?;
    let seen = began.sampler.finish(began.bounds)?;
    let after = stack.azure.report().await?;
    replaced(pool, 1, &seen, &began.before, &after)?;
    println!(
        "replaced after {}: {:.1} s",
        began.what,
        began.at.elapsed().as_secs_f64()
    );
    workload_is_ready(stack).await
}

async fn rolls_although_its_controller_is_killed(
    stack: &mut Stack,
    place: &Place,
    pool: &Pool,
) -> anyhow::Result<()> {
    let before = stack.azure.report().await?;
    let sampler = Sampler::start(stack, WORKLOAD, &pool.name);
    let began = Instant::now();
    fixtures::apply_pool(&stack.control_plane.management, place, pool).await?;
    let machines = stack.machines(place);
    wait_until("Machine that is drained", SOON, async || {
        let machines = machines.list(&ListParams::default()).await?;
        let is_leaving =
            |machine: &kube::api::DynamicObject| machine.metadata.deletion_timestamp.is_some();
        Ok(machines.iter().any(is_leaving).then_some(()))
    })
    .await?;
    stack.kill_controller();
    println!(
        "killed the controller {:.1} s into the rollout",
        began.elapsed().as_secs_f64()
    );
    stack.start_controller()?;
    stack.settled(place, pool, ROLLED_IN).await?;
    let makespan = began.elapsed();
    let seen = sampler.finish(bounds(pool))?;
    let after = stack.azure.report().await?;
    print_rollout(pool, makespan, &seen, &before, &after);
    replaced(pool, REPLICAS, &seen, &before, &after)?;
    workload_is_ready(stack).await
}

async fn goes(stack: &Stack, place: &Place, pool: &Pool) -> anyhow::Result<()> {
    let began = Instant::now();
    let machine_pools = stack.management(CORE, "MachinePool", place);
    machine_pools
        .delete(&pool.name, &DeleteParams::default())
        .await?;
    let kinds = [
        ("MachinePool", machine_pools),
        ("Machine", stack.machines(place)),
        ("AzureMachinePool", stack.pools(place)),
        ("AzureMachinePoolMachine", stack.instances(place)),
    ];
    wait_until("end of all objects", 2 * SOON, async || {
        for (kind, api) in &kinds {
            for left in api.list(&ListParams::default()).await? {
                let finalizers = left.finalizers();
                let name = left.name_any();
                ensure!(
                    !name.starts_with(&pool.name),
                    "{kind} {name} is left with finalizers {finalizers:?}"
                );
            }
        }
        Ok(Some(()))
    })
    .await?;
    let left = stack.azure.report().await?.scale_set(&pool.name).existing();
    ensure!(left == 0, "{left} instances are left in Azure");
    stack
        .azure
        .has_no_scale_set(&place.cluster, &pool.name)
        .await?;
    println!("went in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}
