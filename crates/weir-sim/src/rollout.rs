//! One rollout in a world where nothing is drawn but the times: for the demo and for measuring.
//!
//! A pool is brought up, its Kubernetes version is changed, and from there everything is watched
//! and timed. The bound beside the makespan is worked out from the times that this very run drew.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use weir_core::view::PoolView;
use weir_world::azure::{AzureFaults, AzureOptions, Delay, Latency, TokenCheck};
use weir_world::cluster;
use weir_world::cluster::kubelet::KubeletOptions;
use weir_world::cluster::workload::WorkloadSpec;
use weir_world::world::{World, WorldOptions};

use crate::checkers::{Checkers, Promise};
use crate::rig::{Pace, Rig};
use crate::scene::{self, PoolSpec};
use crate::story::{calls, promise};

/// The version that the pool is rolled to.
const NEXT_VERSION: &str = "v1.34.1";

/// How long a rollout may take in the world before it counts as stuck.
const LIMIT: SignedDuration = SignedDuration::from_hours(4);

/// What goes wrong in a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A budget allows no eviction for ten minutes.
    PdbStuck,
    /// Azure answers "too many requests" now and then.
    AzureThrottle,
    /// Machines of the new version never join; the version is corrected after a while.
    BadImage,
    /// Azure takes an instance away in mid-roll.
    InstanceVanishes,
}

/// What is to be rolled.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pool.
    pub pool: PoolSpec,
    /// Where the times are drawn from.
    pub seed: u64,
    /// What goes wrong, if anything.
    pub fault: Option<Fault>,
}

/// What came of a rollout. The last line of `weir demo --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Whether every instance has the new version and serves.
    pub converged: bool,
    /// From the change of the version to the end, in the world.
    pub makespan_seconds: i64,
    /// What no scheduler could beat with the times that were drawn.
    pub bound_seconds: i64,
    /// The fewest instances that were available.
    pub min_available: u32,
    /// How many had to be.
    pub floor: u32,
    /// The most instances that existed.
    pub max_total: u32,
    /// How many might.
    pub ceiling: u32,
    /// Instances deleted before their node was drained.
    pub undrained_deletes: u32,
    /// Instances made since the version was changed.
    pub instances_created: u64,
    /// Instances deleted since then.
    pub instances_deleted: u64,
    /// Requests to Azure since then.
    pub azure_calls: u64,
    /// Of these, requests that change something.
    pub azure_writes: u64,
    /// The seed.
    pub seed: u64,
    /// Promises that were broken; empty for a good rollout.
    pub broken_promises: Vec<String>,
}

/// A rollout under way.
pub struct Rollout {
    plan: Plan,
    rig: Rig,
    checkers: Checkers,
    promise: Promise,
    times: Times,
    start: Timestamp,
    before: Counts,
    fault_over: bool,
    version: String,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    created: u64,
    deleted: u64,
    calls: u64,
    writes: u64,
}

/// How long each part of a replacement took, by instance.
#[derive(Debug, Default)]
struct Times {
    since: Timestamp,
    parts: BTreeMap<String, Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    made: Option<Timestamp>,
    serving: Option<Timestamp>,
    cordoned: Option<Timestamp>,
    empty: Option<Timestamp>,
    deleting: Option<Timestamp>,
    gone: Option<Timestamp>,
}

impl Rollout {
    /// Brings the pool up and changes its version.
    pub async fn begin(plan: Plan) -> Rollout {
        let mut world = World::new(world_options(&plan), plan.seed);
        scene::add_cluster(&mut world, &plan.pool.cluster);
        scene::add_pool(&mut world, &plan.pool);
        let clusters = vec![plan.pool.cluster_key()];
        let rig = Rig::new(world, clusters, Pace::Eager, plan.seed);
        let mut rollout = Rollout {
            start: rig.world().now(),
            promise: promise(&plan.pool),
            version: plan.pool.version.clone(),
            plan,
            rig,
            checkers: Checkers::default(),
            times: Times::default(),
            before: Counts::default(),
            fault_over: false,
        };
        let limit = rollout.start + LIMIT;
        while !rollout.is_whole() && rollout.rig.world().now() < limit {
            rollout.advance(SignedDuration::from_secs(5)).await;
        }
        // A pool that was up for a while: old machines are not taken for starting ones.
        rollout.advance(SignedDuration::from_mins(30)).await;
        rollout.checkers = Checkers::default();
        rollout.before = rollout.counts();
        rollout.start = rollout.rig.world().now();
        rollout.times = Times {
            since: rollout.start,
            ..Times::default()
        };
        rollout.version = NEXT_VERSION.to_owned();
        let asked = match rollout.plan.fault {
            Some(Fault::BadImage) => BAD_VERSION,
            _ => NEXT_VERSION,
        };
        let name = rollout.plan.pool.name.clone();
        scene::set_version(rollout.rig.world_mut(), &name, asked);
        rollout
    }

    /// Lets time pass in the world.
    pub async fn advance(&mut self, span: SignedDuration) {
        self.strike();
        let to = self.rig.world().now() + span;
        let (checkers, times, promise) = (&mut self.checkers, &mut self.times, &mut self.promise);
        let watch = |rig: &Rig| {
            checkers.check(rig.world(), promise, rig.azure_writes_under_way());
            promise.look(checkers, rig.world());
            times.look(rig.world(), &promise.scale_set);
        };
        self.rig.run_until(to, watch).await;
    }

    /// Lets the fault happen when its time has come.
    fn strike(&mut self) {
        let elapsed = self.elapsed();
        let due = match self.plan.fault {
            Some(Fault::BadImage) => SignedDuration::from_mins(25),
            Some(Fault::InstanceVanishes) => SignedDuration::from_mins(3),
            Some(Fault::PdbStuck) => SignedDuration::from_mins(10),
            Some(Fault::AzureThrottle) | None => return,
        };
        if self.fault_over || self.version != NEXT_VERSION || elapsed < due {
            return;
        }
        self.fault_over = true;
        let name = self.plan.pool.name.clone();
        match self.plan.fault {
            Some(Fault::BadImage) => scene::set_version(self.rig.world_mut(), &name, NEXT_VERSION),
            Some(Fault::InstanceVanishes) => {
                let instances = self.rig.world().azure().instances(&name);
                if let Some(last) = instances.last() {
                    let id = last.vm.instance_id.clone();
                    self.rig
                        .world_mut()
                        .with_azure(|azure| azure.vanish(&name, &id));
                    self.promise.excuse(self.rig.world().now());
                }
            }
            Some(Fault::PdbStuck) => scene::relax_budget(self.rig.world_mut(), STUCK),
            Some(Fault::AzureThrottle) | None => {}
        }
    }

    /// Returns how long ago the version was changed.
    #[must_use]
    pub fn elapsed(&self) -> SignedDuration {
        self.rig.world().now().duration_since(self.start)
    }

    /// Returns the pool as the controller last saw it.
    #[must_use]
    pub fn view(&self) -> Option<&PoolView> {
        self.rig.views().get(&self.plan.pool.key())
    }

    /// Returns whether every instance has the version that is wanted last, and serves.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let world = self.rig.world();
        let instances = world.azure().instances(&self.promise.scale_set);
        let nodes = world.facts().nodes;
        let good = nodes.iter().filter(|node| {
            node.is_ready && !node.is_cordoned && node.kubelet_version == self.version
        });
        let good = good.count();
        let wanted = self.promise.replicas as usize;
        instances.len() == wanted && good == wanted && nodes.len() == wanted
    }

    /// Returns whether the rollout is over, or took so long that it counts as stuck.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_whole() || self.elapsed() >= LIMIT
    }

    fn counts(&self) -> Counts {
        let report = self.rig.world().azure().report();
        let own = report.scale_sets.values();
        Counts {
            created: own.clone().map(|set| set.created).sum(),
            deleted: own.map(|set| set.deleted).sum(),
            calls: calls(report),
            writes: report.writes,
        }
    }

    /// Sums up.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let (now, before) = (self.counts(), self.before);
        let worst = self.checkers.worst();
        let Promise {
            replicas,
            surge,
            unavailable,
            ..
        } = self.promise;
        Summary {
            converged: self.is_whole(),
            makespan_seconds: self.elapsed().as_secs(),
            bound_seconds: self.times.bound(replicas, surge + unavailable),
            min_available: worst.available_min.unwrap_or(0),
            floor: replicas - unavailable,
            max_total: worst.total_max,
            ceiling: replicas + surge,
            undrained_deletes: worst.undrained,
            instances_created: now.created - before.created,
            instances_deleted: now.deleted - before.deleted,
            azure_calls: now.calls - before.calls,
            azure_writes: now.writes - before.writes,
            seed: self.plan.seed,
            broken_promises: self.checkers.broken().to_vec(),
        }
    }
}

/// The version whose machines never join.
const BAD_VERSION: &str = "v1.34.0";

/// The workload whose budget allows nothing until it is relaxed.
const STUCK: &str = "stuck";

fn world_options(plan: &Plan) -> WorldOptions {
    let pods = i64::from(plan.pool.replicas) * 3;
    let mut workloads = vec![
        WorkloadSpec::new("web", pods).with_min_available("80%"),
        WorkloadSpec::new("batch", i64::from(plan.pool.replicas)),
    ];
    // Azure's medians, and a twentieth of difference between one machine and the next.
    let latency = Latency {
        create: Delay::about(90, 0.05),
        boot: Delay::about(20, 0.05),
        delete: Delay::about(60, 0.05),
        ..Latency::azure()
    };
    let mut azure = AzureOptions {
        latency,
        token_check: TokenCheck::Off,
        ..AzureOptions::default()
    };
    match plan.fault {
        Some(Fault::PdbStuck) => {
            workloads.push(WorkloadSpec::new(STUCK, 1).with_min_available("1"));
        }
        Some(Fault::AzureThrottle) => {
            azure.faults = AzureFaults {
                throttle: 0.3,
                ..AzureFaults::default()
            };
        }
        Some(Fault::BadImage) => {
            azure
                .bad_images
                .insert(BAD_VERSION.trim_start_matches('v').to_owned());
        }
        Some(Fault::InstanceVanishes) | None => {}
    }
    let kubelets = KubeletOptions {
        node_join: cluster::draw::Latency::from_secs(30, 5),
        ..KubeletOptions::default()
    };
    WorldOptions {
        kubelets,
        workloads,
        daemon_sets: vec!["proxy".to_owned()],
        azure,
        ..WorldOptions::default()
    }
}

impl Times {
    fn look(&mut self, world: &World, scale_set: &str) {
        let now = world.now();
        let instances = world.azure().instances(scale_set);
        for parts in self.parts.values_mut() {
            if parts.deleting.is_some() {
                parts.gone.get_or_insert(now);
            }
        }
        let nodes = world.facts().nodes;
        for instance in &instances {
            let parts = self.parts.entry(instance.vm.vm_id.clone()).or_default();
            // Of the machines that were there before, only the departure belongs to the rollout.
            parts.made = Some(instance.vm.created).filter(|made| *made >= self.since);
            parts.gone = None;
            if instance.provisioning_state == "Deleting" {
                parts.deleting.get_or_insert(now);
            }
            let node = nodes.iter().find(|node| {
                node.provider_id
                    .eq_ignore_ascii_case(&instance.vm.provider_id)
            });
            let Some(node) = node else { continue };
            if node.is_ready {
                parts.serving.get_or_insert(now);
            }
            if node.is_cordoned {
                parts.cordoned.get_or_insert(now);
                if node.pods.is_empty() {
                    parts.empty.get_or_insert(now);
                }
            }
        }
    }

    /// `max(c + d + x, N (c + d + x) / slots)` with the mean times of this run.
    fn bound(&self, replicas: u32, slots: u32) -> i64 {
        let cycle = mean(self.spans(|parts| (parts.made, parts.serving)))
            + mean(self.spans(|parts| (parts.cordoned, parts.empty)))
            + mean(self.spans(|parts| (parts.deleting, parts.gone)));
        let rounds = f64::from(replicas) / f64::from(slots.max(1));
        (cycle * rounds.max(1.0)).round() as i64
    }

    fn spans(&self, ends: impl Fn(&Parts) -> (Option<Timestamp>, Option<Timestamp>)) -> Vec<f64> {
        let span = |parts: &Parts| {
            let (from, to) = ends(parts);
            Some(to?.duration_since(from?).as_secs_f64())
        };
        self.parts.values().filter_map(span).collect()
    }
}

fn mean(spans: Vec<f64>) -> f64 {
    if spans.is_empty() {
        0.0
    } else {
        spans.iter().sum::<f64>() / spans.len() as f64
    }
}
