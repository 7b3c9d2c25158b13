//! What happens in a run: drawn from the seed, played, judged, and told as prose.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use weir_world::azure::{
    Azure, AzureFaults, AzureOptions, AzureReport, ParallelWrites, Throttling, TokenCheck,
};
use weir_world::cluster::kinds::resource;
use weir_world::cluster::server::Faults;
use weir_world::cluster::workload::WorkloadSpec;
use weir_world::cluster::{Side, Target};
use weir_world::rng::Rng;
use weir_world::world::{World, WorldOptions};

use crate::checkers::{Checkers, POOL_MACHINES, Promise};
use crate::rig::{Mischief, Pace, Rig};
use crate::scene::{self, NAMESPACE, PoolSpec};

/// How long the last act may take, in which nothing goes wrong any more: ten cycles of the slowest
/// machine and its join limit, one after the other.
const CONVERGENCE_LIMIT: SignedDuration = SignedDuration::from_hours(6);

/// How long a settled pool is watched for silence.
const SILENCE: SignedDuration = SignedDuration::from_mins(45);

/// One thing that a user, an autoscaler or fate does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// The Kubernetes version is changed.
    Version(String),
    /// The count is changed.
    Replicas(u32),
    /// A Machine is deleted: the nth by name.
    DeleteMachine(u32),
    /// A pool machine is deleted: the nth by name.
    DeletePoolMachine(u32),
    /// An instance is taken away by Azure: the nth by id.
    Vanish(u32),
    /// An instance stops: the nth by id.
    Stop(u32),
    /// The controller is killed.
    Kill,
    /// The pool is deleted.
    DeletePool,
}

/// A run, before it is played.
#[derive(Clone, Debug)]
pub struct Story {
    /// Where everything was drawn from.
    pub seed: u64,
    /// The pool at the beginning.
    pub pool: PoolSpec,
    /// What runs on it.
    pub workloads: Vec<WorkloadSpec>,
    /// What happens, each so long after the pool was first whole.
    pub moves: Vec<(SignedDuration, Move)>,
    /// How the process misbehaves.
    pub mischief: Mischief,
    /// How the API servers misbehave.
    pub api_faults: Faults,
    /// How Azure misbehaves.
    pub azure: AzureOptions,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The seed.
    pub seed: u64,
    /// What was broken; empty for a good run.
    pub broken: Vec<String>,
    /// How long it took, in the world.
    pub virtual_seconds: i64,
    /// Calls to Azure.
    pub azure_calls: u64,
    /// How often the controller was killed.
    pub kills: u32,
    /// A hash of everything that happened.
    pub fingerprint: u64,
}

impl Story {
    /// Draws a story.
    #[must_use]
    pub fn draw(seed: u64) -> Story {
        let mut dice = Rng::from_seed_and_stream(seed, "story");
        let pool = draw_pool(&mut dice);
        let workloads = draw_workloads(&mut dice, pool.replicas);
        let moves = draw_moves(&mut dice, pool.replicas);
        let calm = dice.chance(0.25);
        let rate = |dice: &mut Rng, most: f64| {
            if calm || dice.chance(0.4) {
                0.0
            } else {
                most * dice.below(100) as f64 / 100.0
            }
        };
        let mischief = Mischief {
            lost_answer: rate(&mut dice, 0.03),
            lost_request: rate(&mut dice, 0.03),
            kill: rate(&mut dice, 0.001),
        };
        let api_faults = Faults {
            error_500: rate(&mut dice, 0.03),
            conflict: rate(&mut dice, 0.03),
            watch_drop: rate(&mut dice, 0.02),
            late_watch: rate(&mut dice, 0.2),
            late_watch_by: None,
        };
        let azure = draw_azure(&mut dice, rate);
        Story {
            seed,
            pool,
            workloads,
            moves,
            mischief,
            api_faults,
            azure,
        }
    }

    /// Plays the story and judges it.
    ///
    /// Runs on a fresh thread with a clock of its own, so that nothing of this process leaks in.
    #[must_use]
    pub fn play(&self) -> Verdict {
        self.play_with(|_| {})
    }

    /// Plays the story, and hands the world over at the end.
    #[must_use]
    pub fn play_with(&self, end: impl FnOnce(&World) + Send) -> Verdict {
        std::thread::scope(|scope| {
            let played = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .start_paused(true)
                    .build()
                    .expect("a runtime without I/O needs nothing of the system");
                runtime.block_on(async {
                    let mut stage = Stage::set(self);
                    stage.run().await;
                    end(stage.rig.world());
                    stage.verdict()
                })
            });
            played.join().unwrap_or_else(|_| Verdict {
                seed: self.seed,
                broken: vec!["the run panicked".to_owned()],
                virtual_seconds: 0,
                azure_calls: 0,
                kills: 0,
                fingerprint: 0,
            })
        })
    }
}

fn draw_pool(dice: &mut Rng) -> PoolSpec {
    let replicas = 1 + dice.below(6) as u32;
    let mut pool = PoolSpec::new("pool", replicas);
    let (surge, unavailable) = match dice.below(7) {
        0 | 1 => ("1", "0"),
        2 => ("2", "0"),
        3 => ("0", "1"),
        4 => ("1", "1"),
        5 => ("50%", "0"),
        _ => ("0", "50%"),
    };
    pool.max_surge = surge.to_owned();
    pool.max_unavailable = unavailable.to_owned();
    pool.delete_policy = ["Oldest", "Newest", "Random"][dice.below(3) as usize].to_owned();
    // Where every node may be away at once, a budget can wait for ever for a pod's next place.
    if dice.chance(0.5) || replicas <= 2 || promise(&pool).unavailable == replicas {
        pool.drain_timeout_seconds = Some(600);
    }
    if dice.chance(0.3) {
        pool.zones = ["1", "2", "3"].map(str::to_owned).to_vec();
    }
    pool
}

fn draw_workloads(dice: &mut Rng, replicas: u32) -> Vec<WorkloadSpec> {
    let pods = i64::from(replicas) * 2;
    let web = WorkloadSpec::new("web", pods);
    let mut workloads = Vec::new();
    if dice.chance(0.8) {
        // A budget that always leaves one pod to move, as a sane one does.
        let budget = (pods - 1 - dice.below(2) as i64).max(1);
        workloads.push(web.with_min_available(&budget.to_string()));
    }
    workloads
}

fn draw_moves(dice: &mut Rng, replicas: u32) -> Vec<(SignedDuration, Move)> {
    let mut moves = vec![(
        SignedDuration::from_secs(5),
        Move::Version("v1.34.1".to_owned()),
    )];
    for _ in 0..dice.below(4) {
        let at = SignedDuration::from_secs(30 + dice.below(1500) as i64);
        let nth = dice.below(6) as u32;
        moves.push((
            at,
            match dice.below(9) {
                0 => Move::Version("v1.34.2".to_owned()),
                1 => Move::Replicas(replicas + 1 + dice.below(2) as u32),
                2 => Move::Replicas(replicas.saturating_sub(1)),
                3 | 4 => Move::DeleteMachine(nth),
                5 => Move::DeletePoolMachine(nth),
                6 => Move::Vanish(nth),
                7 => Move::Stop(nth),
                _ => Move::Kill,
            },
        ));
    }
    if dice.chance(0.08) {
        moves.push((
            SignedDuration::from_secs(60 + dice.below(900) as i64),
            Move::DeletePool,
        ));
    }
    moves.sort_by_key(|(at, _)| *at);
    moves
}

fn draw_azure(dice: &mut Rng, rate: impl Fn(&mut Rng, f64) -> f64) -> AzureOptions {
    AzureOptions {
        parallel_writes: match dice.below(3) {
            0 => ParallelWrites::Accept,
            1 => ParallelWrites::Conflict,
            _ => ParallelWrites::Preempt,
        },
        throttling: if dice.chance(0.5) {
            Throttling::On
        } else {
            Throttling::Off
        },
        token_check: TokenCheck::Off,
        page_size: 1 + dice.below(5) as usize,
        faults: AzureFaults {
            error_500: rate(dice, 0.03),
            throttle: rate(dice, 0.03),
            conflict: rate(dice, 0.03),
            create_fails: rate(dice, 0.1),
            ..AzureFaults::default()
        },
        ..AzureOptions::default()
    }
}

/// A run under way.
struct Stage<'s> {
    story: &'s Story,
    rig: Rig,
    checkers: Checkers,
    promise: Promise,
    version: String,
    began: Timestamp,
    trouble: Vec<String>,
}

impl<'s> Stage<'s> {
    fn set(story: &'s Story) -> Stage<'s> {
        let options = WorldOptions {
            management_faults: story.api_faults,
            workload_faults: story.api_faults,
            workloads: story.workloads.clone(),
            daemon_sets: vec!["proxy".to_owned()],
            azure: story.azure.clone(),
            ..WorldOptions::default()
        };
        let mut world = World::new(options, story.seed);
        scene::add_cluster(&mut world, &story.pool.cluster);
        scene::add_pool(&mut world, &story.pool);
        let began = world.now();
        let clusters = vec![story.pool.cluster_key()];
        let pace = Pace::Seeded(story.mischief.clone());
        Stage {
            story,
            rig: Rig::new(world, clusters, pace, story.seed),
            checkers: Checkers::default(),
            promise: promise(&story.pool),
            version: story.pool.version.clone(),
            began,
            trouble: Vec::new(),
        }
    }

    async fn run(&mut self) {
        if !self.until_whole("the first instances").await {
            return;
        }
        let start = self.rig.world().now();
        for (at, next) in &self.story.moves {
            self.run_until(start + *at).await;
            self.make(next);
        }
        // A machine that has just stopped is not missed before its node is.
        let now = self.rig.world().now();
        self.run_until(now + SignedDuration::from_mins(3)).await;
        self.rig.behave();
        calm(self.rig.world_mut());
        if self.until_whole("the last act").await {
            self.silence().await;
        }
    }

    async fn run_until(&mut self, to: Timestamp) {
        let (checkers, promise) = (&mut self.checkers, &mut self.promise);
        let watch = |rig: &Rig| {
            checkers.check(rig.world(), promise, rig.azure_writes_under_way());
            promise.look(checkers, rig.world());
        };
        self.rig.run_until(to, watch).await;
    }

    async fn until_whole(&mut self, what: &str) -> bool {
        let limit = self.rig.world().now() + CONVERGENCE_LIMIT;
        loop {
            let now = self.rig.world().now();
            let open = self.open_ends();
            if open.is_empty() {
                return true;
            }
            if now >= limit {
                self.trouble
                    .push(format!("{what}: not whole in time: {}", open.join(", ")));
                return false;
            }
            self.run_until(now + SignedDuration::from_secs(20)).await;
        }
    }

    /// What is not yet as the user wants it.
    fn open_ends(&self) -> Vec<String> {
        let world = self.rig.world();
        let server = world.server(Side::Management);
        let instances = world.azure().instances(&self.promise.scale_set);
        let machines = server.list_in(POOL_MACHINES, NAMESPACE).count();
        let mut open = Vec::new();
        if self.promise.deleted {
            let pools = server.list_in(
                "azuremachinepools.infrastructure.cluster.x-k8s.io",
                NAMESPACE,
            );
            if !instances.is_empty() || machines > 0 || pools.count() > 0 {
                open.push(format!(
                    "{} instances and {machines} machines",
                    instances.len()
                ));
            }
            return open;
        }
        let wanted = self.promise.replicas as usize;
        if instances.len() != wanted || machines != wanted {
            open.push(format!(
                "{} instances, {machines} machines of {wanted}",
                instances.len()
            ));
        }
        let nodes = world.facts().nodes;
        let good = nodes.iter().filter(|node| {
            node.is_ready && !node.is_cordoned && node.kubelet_version == self.version
        });
        let good = good.count();
        if good != wanted || nodes.len() != wanted {
            open.push(format!("{good} good of {} nodes", nodes.len()));
        }
        let leaving = server
            .list_in(MACHINES, NAMESPACE)
            .filter(|machine| !machine["metadata"]["deletionTimestamp"].is_null());
        let leaving = leaving.count();
        if leaving > 0 {
            open.push(format!("{leaving} machines leaving"));
        }
        open
    }

    /// R6: a settled pool is silent.
    async fn silence(&mut self) {
        // One more look of each pool and whatever was on its way.
        let now = self.rig.world().now();
        self.run_until(now + SignedDuration::from_mins(15)).await;
        let before = self.rig.writes();
        let now = self.rig.world().now();
        self.run_until(now + SILENCE).await;
        let written = self.rig.writes() - before;
        if written > 0 {
            self.trouble
                .push(format!("R6: {written} writes of a settled pool"));
        }
    }

    fn make(&mut self, next: &Move) {
        if self.promise.deleted && *next != Move::Kill {
            // Nobody has anything left to ask of a pool that is on its way out.
            return;
        }
        let world = self.rig.world_mut();
        match next {
            Move::Version(version) => {
                self.version.clone_from(version);
                scene::set_version(world, &self.story.pool.name, version);
            }
            Move::Replicas(replicas) => {
                scene::set_replicas(world, &self.story.pool.name, *replicas);
                if *replicas > self.promise.replicas {
                    self.checkers.grew();
                }
                let spec = PoolSpec {
                    replicas: *replicas,
                    ..self.story.pool.clone()
                };
                let lately = self.promise.replicas_lately.max(*replicas);
                let now = promise(&spec);
                self.promise.surge = self.promise.surge.max(now.surge);
                self.promise.replicas = now.replicas;
                self.promise.unavailable = now.unavailable.max(self.promise.unavailable);
                self.promise.replicas_lately = lately;
            }
            Move::DeleteMachine(nth) => self.delete(MACHINES, *nth),
            Move::DeletePoolMachine(nth) => self.delete(POOL_MACHINES, *nth),
            Move::Vanish(nth) => self.hit(*nth, Azure::vanish),
            Move::Stop(nth) => self.hit(*nth, Azure::stop),
            Move::Kill => self.rig.kill(),
            Move::DeletePool => {
                self.promise.deleted = true;
                let target = Target::new(
                    "machinepools.cluster.x-k8s.io",
                    NAMESPACE,
                    &self.story.pool.name,
                );
                let _gone = world.delete(Side::Management, &target);
            }
        }
    }

    fn delete(&mut self, resource: &str, nth: u32) {
        let now = self.rig.world().now();
        let world = self.rig.world_mut();
        let named: Vec<_> = world
            .server(Side::Management)
            .list_in(resource, NAMESPACE)
            .map(|object| Target::of(resource, object))
            .collect();
        if let Some(target) = named.get(nth as usize % named.len().max(1)) {
            let _gone = world.delete(Side::Management, target);
            self.promise.excuse(now);
        }
    }

    fn hit(&mut self, nth: u32, fate: fn(&mut Azure, &str, &str) -> bool) {
        let now = self.rig.world().now();
        let world = self.rig.world_mut();
        let scale_set = self.promise.scale_set.clone();
        let instances = world.azure().instances(&scale_set);
        if let Some(instance) = instances.get(nth as usize % instances.len().max(1)) {
            let id = instance.vm.instance_id.clone();
            if world.with_azure(|azure| fate(azure, &scale_set, &id)) {
                self.promise.excuse(now);
            }
        }
    }

    fn verdict(self) -> Verdict {
        let world = self.rig.world();
        let mut broken = self.checkers.broken().to_vec();
        broken.extend(self.trouble);
        Verdict {
            seed: self.story.seed,
            broken,
            virtual_seconds: world.now().duration_since(self.began).as_secs(),
            azure_calls: calls(world.azure().report()),
            kills: self.rig.kills(),
            fingerprint: world.fingerprint(),
        }
    }
}

const MACHINES: &str = resource::MACHINES;

/// Ends what the world does to the controller on purpose.
fn calm(world: &mut World) {
    for side in [Side::Management, Side::Workload] {
        world.with_server(side, |server, _| server.set_faults(Faults::default()));
    }
    world.with_azure(|azure| azure.set_faults(AzureFaults::default()));
}

/// Returns how many requests Azure answered.
pub(crate) fn calls(report: &AzureReport) -> u64 {
    report.reads + report.writes + report.polls
}

/// What is promised for a pool, worked out from its spec by the rules of a Deployment.
#[must_use]
pub fn promise(spec: &PoolSpec) -> Promise {
    let share = |text: &str, up: bool| -> u32 {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().unwrap_or(0);
        };
        let hundredths = percent.parse::<u32>().unwrap_or(0) * spec.replicas;
        if up {
            hundredths.div_ceil(100)
        } else {
            hundredths / 100
        }
    };
    let surge = share(&spec.max_surge, true);
    let unavailable = share(&spec.max_unavailable, false);
    let unavailable = if surge == 0 {
        unavailable.max(1)
    } else {
        unavailable
    };
    Promise {
        scale_set: spec.name.clone(),
        replicas: spec.replicas,
        replicas_lately: spec.replicas,
        surge,
        unavailable: unavailable.min(spec.replicas),
        excused: 0,
        last_loss: Timestamp::MIN,
        deleted: false,
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pool = &self.pool;
        writeln!(
            f,
            "seed {}: {} replicas, surge {}, unavailable {}, {} first{}",
            self.seed,
            pool.replicas,
            pool.max_surge,
            pool.max_unavailable,
            pool.delete_policy,
            if pool.zones.is_empty() {
                ""
            } else {
                ", in three zones"
            },
        )?;
        for workload in &self.workloads {
            let budget = workload.min_available.as_deref().unwrap_or("none");
            writeln!(
                f,
                "  {} pods of {}, of which {budget} must stay",
                workload.replicas, workload.name
            )?;
        }
        writeln!(
            f,
            "  parallel writes: {:?}, {:?}",
            self.azure.parallel_writes, self.mischief
        )?;
        for (at, next) in &self.moves {
            writeln!(f, "  after {} s: {next:?}", at.as_secs())?;
        }
        Ok(())
    }
}
