//! Runs one rollout and works out its figures.

use std::collections::BTreeMap;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use weir_world::world::World;

use super::course::{Course, Spans};
use super::ideal::ideal;
use super::scenario::Scenario;
use crate::diary::{Diary, Did};
use crate::rig::{Pace, Rig};
use crate::scene::{self, PoolSpec};

/// The version that the pool is rolled to.
const NEXT_VERSION: &str = "v1.34.1";

/// How often it is looked whether a rollout is over; its end is told to the millisecond.
const STEP: SignedDuration = SignedDuration::from_secs(5);

/// The figures of one rollout.
#[derive(Clone, Debug, Serialize)]
pub struct RolloutFigures {
    /// The scenario.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// Whether every instance was replaced and serves.
    pub converged: bool,
    /// N.
    pub replicas: u32,
    /// S.
    pub surge: u32,
    /// U.
    pub unavailable: u32,
    /// Until the last new instance served and the last old one was gone.
    pub makespan_seconds: f64,
    /// Until the pool was seen to be whole: its last node object gone too.
    pub settled_seconds: f64,
    /// What the ideal scheduler takes with the same times; absent if the run was not whole.
    pub ideal_seconds: Option<f64>,
    /// The fluid bound.
    pub fluid_seconds: f64,
    /// Makespan to ideal.
    pub ratio_ideal: Option<f64>,
    /// Settled to ideal.
    pub ratio_ideal_settled: Option<f64>,
    /// Makespan to fluid bound.
    pub ratio_fluid: f64,
    /// The ideal to the fluid bound.
    pub ideal_to_fluid: Option<f64>,
    /// Requests to Azure per replaced instance.
    pub calls: f64,
    /// Of these, reads of the set and its instances.
    pub reads: f64,
    /// Of these, writes.
    pub writes: f64,
    /// Of these, polls of operations.
    pub polls: f64,
    /// Requests to Azure per replaced instance, by kind.
    pub calls_by_kind: BTreeMap<&'static str, f64>,
    /// Requests that Azure answered with 429, in all.
    pub throttled: u64,
    /// Other requests that Azure refused, in all.
    pub refused: u64,
    /// Writes of objects per replaced instance.
    pub object_writes: f64,
    /// The same by kind.
    pub object_writes_by_kind: BTreeMap<String, f64>,
    /// Instances made beyond N.
    pub made_beyond: i64,
    /// Instances deleted beyond N.
    pub deleted_beyond: i64,
    /// The fewest that were available, less the floor: negative is a broken promise.
    pub above_floor: i64,
    /// The ceiling less the most that existed: negative is a broken promise.
    pub below_ceiling: i64,
    /// Writes to Azure in the idle day after it.
    pub idle_day_writes: u64,
    /// Requests to Azure in the idle day after it.
    pub idle_day_calls: u64,
    /// Writes of objects in the idle day after it.
    pub idle_day_object_writes: u64,
    /// Mean seconds from the accepted write to a Ready node.
    pub create_mean_seconds: f64,
    /// Mean seconds from being asked to go to the end of the drain.
    pub drain_mean_seconds: f64,
    /// Mean seconds from the accepted delete to its end.
    pub delete_mean_seconds: f64,
    /// Simulated days per second of real time, from the first instance to the end of the idle day.
    pub days_per_second: f64,
    /// Real seconds of the rollout spent in the controllers, in all.
    pub controller_real_seconds: f64,
    /// Real seconds of the rollout spent in the world, in all.
    pub world_real_seconds: f64,
}

/// A rollout that was run.
pub struct Ran {
    /// Its figures.
    pub figures: RolloutFigures,
    /// What became of the machines.
    pub course: Course,
    /// What the controllers did meanwhile.
    pub diary: Diary,
}

/// Runs a scenario under a seed.
pub async fn run(scenario: &Scenario, seed: u64) -> Ran {
    let began = Instant::now();
    let mut pool = PoolSpec::new("pool", scenario.limits.replicas);
    pool.max_surge = scenario.limits.surge.to_string();
    pool.max_unavailable = scenario.limits.unavailable.to_string();
    let mut world = World::new(scenario.world(), seed);
    scene::add_cluster(&mut world, &pool.cluster);
    scene::add_pool(&mut world, &pool);
    let origin = world.now();
    let mut stage = Stage {
        rig: Rig::new(world, vec![pool.cluster_key()], Pace::Eager, seed),
        course: Course::new(origin),
        replicas: scenario.limits.replicas as usize,
        scale_set: pool.name.clone(),
    };
    let limit = stage.limit(scenario);
    stage.until_whole(&pool.version, limit).await;
    // A pool that was up for a while: old machines are not taken for starting ones.
    stage.advance(SignedDuration::from_mins(30)).await;
    stage.begin();
    let start = stage.now();
    scene::set_version(stage.rig.world_mut(), &pool.name, NEXT_VERSION);
    let settled = stage.until_whole(NEXT_VERSION, limit).await;
    let settled = settled.map(|at| at.duration_since(start).as_secs_f64());
    let diary = stage.rig.diary().cloned().unwrap_or_default();
    // What is left to be tidied up is no part of the idle day.
    stage.advance(SignedDuration::from_mins(15)).await;
    stage.rig.keep_diary();
    stage.advance(SignedDuration::from_hours(24)).await;
    let idle = stage.rig.diary().cloned().unwrap_or_default();
    let simulated = stage.now().duration_since(origin).as_secs_f64();
    let days = simulated / 86_400.0 / began.elapsed().as_secs_f64();
    let figures = figures(scenario, seed, &stage.course, &diary, settled);
    let figures = RolloutFigures {
        idle_day_writes: azure_calls(&idle, |ask| ask.is_write()),
        idle_day_calls: azure_calls(&idle, |_| true),
        idle_day_object_writes: object_writes(&idle).values().sum(),
        days_per_second: days,
        ..figures
    };
    Ran {
        figures,
        course: stage.course,
        diary,
    }
}

struct Stage {
    rig: Rig,
    course: Course,
    replicas: usize,
    scale_set: String,
}

impl Stage {
    fn now(&self) -> Timestamp {
        self.rig.world().now()
    }

    fn begin(&mut self) {
        self.rig.world_mut().take_milestones();
        self.course = Course::new(self.now());
        self.rig.keep_diary();
    }

    async fn advance(&mut self, span: SignedDuration) {
        let to = self.now() + span;
        self.rig.run_until(to, |_| {}).await;
        let reached = self.rig.world_mut().take_milestones();
        self.course.take(reached);
    }

    /// Twenty cycles more than the rollout should have.
    fn limit(&self, scenario: &Scenario) -> SignedDuration {
        let slots = scenario.limits.surge + scenario.limits.unavailable;
        let cycles = 20 + 2 * scenario.limits.replicas / slots.max(1);
        SignedDuration::from_mins(5) * i32::try_from(cycles).unwrap_or(i32::MAX)
    }

    /// Returns when the pool was whole; `None` if it was not in time.
    async fn until_whole(&mut self, version: &str, limit: SignedDuration) -> Option<Timestamp> {
        let limit = self.now() + limit;
        while self.now() < limit {
            self.advance(STEP).await;
            if self.is_whole(version) {
                return Some(self.now());
            }
        }
        None
    }

    fn is_whole(&self, version: &str) -> bool {
        let world = self.rig.world();
        if world.azure().instances(&self.scale_set).len() != self.replicas {
            return false;
        }
        let nodes = world.facts().nodes;
        let good = nodes
            .iter()
            .filter(|node| node.is_ready && !node.is_cordoned && node.kubelet_version == version);
        good.count() == self.replicas && nodes.len() == self.replicas
    }
}

fn figures(
    scenario: &Scenario,
    seed: u64,
    course: &Course,
    diary: &Diary,
    settled: Option<f64>,
) -> RolloutFigures {
    let limits = scenario.limits;
    let replaced = f64::from(limits.replicas.max(1));
    let spans = course.spans();
    let makespan = seconds(course.end());
    let best = ideal(limits, &spans.creates, &spans.leaves).filter(|_| settled.is_some());
    let best = best.map(seconds);
    let fluid = fluid(scenario, &spans);
    let each = |count: u64| count as f64 / replaced;
    let by_kind = by_kind(diary);
    let object_writes = object_writes(diary);
    let (fewest, most) = course.extremes(limits);
    let floor = i64::from(limits.replicas - limits.unavailable);
    let ceiling = i64::from(limits.replicas + limits.surge);
    let replicas = i64::from(limits.replicas);
    let writes = azure_calls(diary, |ask| ask.is_write());
    let polls = azure_calls(diary, |ask| ask == crate::diary::Ask::Poll);
    let all = azure_calls(diary, |_| true);
    RolloutFigures {
        name: scenario.name.clone(),
        seed,
        converged: settled.is_some(),
        replicas: limits.replicas,
        surge: limits.surge,
        unavailable: limits.unavailable,
        makespan_seconds: makespan,
        settled_seconds: settled.unwrap_or(f64::NAN),
        ideal_seconds: best,
        fluid_seconds: fluid,
        ratio_ideal: best.map(|best| makespan / best),
        ratio_ideal_settled: best.zip(settled).map(|(best, settled)| settled / best),
        ratio_fluid: makespan / fluid,
        ideal_to_fluid: best.map(|best| best / fluid),
        calls: each(all),
        reads: each(all - writes - polls),
        writes: each(writes),
        polls: each(polls),
        calls_by_kind: by_kind.into_iter().map(|(k, n)| (k, each(n))).collect(),
        throttled: refusals(diary, |status| status == 429),
        refused: refusals(diary, |status| status >= 400 && status != 429),
        object_writes: each(object_writes.values().sum()),
        object_writes_by_kind: object_writes
            .into_iter()
            .map(|(kind, count)| (kind, each(count)))
            .collect(),
        made_beyond: course.all(|steps| steps.made).len() as i64 - replicas,
        deleted_beyond: course.all(|steps| steps.accepted).len() as i64 - replicas,
        above_floor: fewest - floor,
        below_ceiling: ceiling - most,
        idle_day_writes: 0,
        idle_day_calls: 0,
        idle_day_object_writes: 0,
        create_mean_seconds: mean(spans.creates.iter().copied()),
        drain_mean_seconds: mean(spans.leaves.iter().map(|cycle| cycle.drain)),
        delete_mean_seconds: mean(spans.leaves.iter().map(|cycle| cycle.delete)),
        days_per_second: 0.0,
        controller_real_seconds: diary.in_controllers.as_secs_f64(),
        world_real_seconds: diary.in_world.as_secs_f64(),
    }
}

/// `max(c + d + x, N (c + d + x) / (S + U))` with the mean times of the run.
fn fluid(scenario: &Scenario, spans: &Spans) -> f64 {
    let cycle = mean(spans.creates.iter().copied())
        + mean(spans.leaves.iter().map(|cycle| cycle.drain))
        + mean(spans.leaves.iter().map(|cycle| cycle.delete));
    let slots = f64::from((scenario.limits.surge + scenario.limits.unavailable).max(1));
    cycle * (f64::from(scenario.limits.replicas) / slots).max(1.0)
}

fn seconds(millis: i64) -> f64 {
    millis as f64 / 1_000.0
}

fn mean(millis: impl ExactSizeIterator<Item = i64>) -> f64 {
    let count = millis.len().max(1);
    seconds(millis.sum::<i64>()) / count as f64
}

fn azure_calls(diary: &Diary, counts: impl Fn(crate::diary::Ask) -> bool) -> u64 {
    let entries = diary.entries.iter();
    let counted = entries.filter(|entry| match &entry.what {
        Did::Azure { what, .. } => counts(*what),
        Did::Turn { .. } | Did::Wrote { .. } => false,
    });
    counted.count() as u64
}

fn by_kind(diary: &Diary) -> BTreeMap<&'static str, u64> {
    let mut by_kind = BTreeMap::new();
    for entry in &diary.entries {
        if let Did::Azure { what, .. } = &entry.what {
            *by_kind.entry(what.name()).or_default() += 1;
        }
    }
    by_kind
}

fn refusals(diary: &Diary, is_one: impl Fn(u16) -> bool) -> u64 {
    let entries = diary.entries.iter();
    let refused = entries.filter(|entry| match &entry.what {
        Did::Azure { status, .. } => is_one(*status),
        Did::Turn { .. } | Did::Wrote { .. } => false,
    });
    refused.count() as u64
}

fn object_writes(diary: &Diary) -> BTreeMap<String, u64> {
    let mut by_kind = BTreeMap::new();
    for entry in &diary.entries {
        if let Did::Wrote { what } = &entry.what {
            *by_kind.entry(what.clone()).or_default() += 1;
        }
    }
    by_kind
}
