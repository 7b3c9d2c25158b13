//! Runs the real reconcilers in a simulated world, one choice at a time.
//!
//! Reconcilers run on real clients whose every request is parked. When all of them are waiting,
//! the rig does one thing: let a parked request through, deliver one watch event to a cache, begin
//! a turn that is due, or let time pass. In a seeded run the seed chooses, and also loses answers
//! and kills the process; in an eager run everything happens at once, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use jiff::{SignedDuration, Timestamp};
use kube::runtime::reflector;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use weir_azure::{Arm, Credential, Endpoint as ArmEndpoint};
use weir_controllers::access::AzureAccess;
use weir_controllers::caches::Caches;
use weir_controllers::pool::Next;
use weir_controllers::wake::Work;
use weir_controllers::workload::{Workload, Workloads};
use weir_controllers::{Ctx, Key, machine, pool};
use weir_core::Observed;
use weir_core::plan::Plan;
use weir_core::view::PoolView;
use weir_world::cluster::Reply;
use weir_world::rng::Rng;
use weir_world::world::{Endpoint, World};

use crate::coverage::Coverage;
use crate::feed::{Feed, Nodes, Watch};
use crate::seams::{Lot, Parked, WorldClock, kube_client, wire};

/// How many turns may be under way at once.
const TURNS_MAX: usize = 4;

/// How long a failed turn is left alone, as in the runtime.
const ERROR_PAUSE: SignedDuration = SignedDuration::from_secs(5);

/// The longest that a seeded run lets time pass while somebody waits for an answer.
const STALL_MAX_MS: u64 = 3_000;

/// How a run misbehaves, apart from the world itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mischief {
    /// How likely an answer is lost after its request took effect.
    pub lost_answer: f64,
    /// How likely a request is lost before it takes effect.
    pub lost_request: f64,
    /// How likely the controller is killed, at each choice.
    pub kill: f64,
    /// How likely another leader takes over, at each choice.
    pub takeover: f64,
    /// How likely a watch event is delivered twice.
    pub duplicate: f64,
}

/// One thing that went wrong between the controller and the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// A request was lost before it took effect.
    LostRequest,
    /// An answer was lost.
    LostAnswer,
    /// The controller was killed.
    Kill,
    /// Another leader took over.
    Takeover,
    /// A request arrived whose sender no longer leads.
    LateRequest,
    /// A watch event was delivered twice.
    Duplicate,
    /// The nodes of a cluster could not be read for a while.
    NodesUnread,
}

/// Who chooses what happens next.
#[derive(Clone, Debug)]
pub enum Pace {
    /// Everything at once, in order.
    Eager,
    /// The seed.
    Seeded(Mischief),
}

/// The controllers, the world, and what lies between them.
pub struct Rig {
    world: World,
    clock: WorldClock,
    lot: Lot,
    pace: Pace,
    dice: Rng,
    controller: Controller,
    clusters: Vec<Key>,
    kills: u32,
    writes: u64,
    views: BTreeMap<Key, PoolView>,
    /// How often another run of the controller began.
    term: u32,
    /// Clusters whose nodes cannot be read.
    unread: BTreeSet<Key>,
    coverage: Coverage,
    bad_plans: Vec<String>,
}

/// One run of the controller process: everything that a kill takes away.
struct Controller {
    ctx: Arc<Ctx>,
    feeds: Vec<Box<dyn Feed>>,
    due: BTreeMap<Work, Timestamp>,
    again: BTreeSet<Work>,
    under_way: Vec<(Work, JoinHandle<Ended>)>,
    workloads: BTreeMap<Key, Workload>,
}

struct Ended {
    next: Option<Next>,
    view: Option<PoolView>,
    decided: Option<Box<(Observed, Plan)>>,
}

/// What a step of the rig did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// Something happened.
    Something,
    /// Nothing can happen before time passes.
    Nothing,
}

impl Rig {
    /// Puts controllers into a world whose pools belong to these clusters.
    #[must_use]
    pub fn new(world: World, clusters: Vec<Key>, pace: Pace, seed: u64) -> Rig {
        let clock = WorldClock(Arc::new(Mutex::new(world.now())));
        let lot = Lot::default();
        let controller = Controller::begin(&lot, &clock, &clusters);
        let dice = Rng::from_seed_and_stream(seed, "rig");
        let views = BTreeMap::new();
        Rig {
            world,
            clock,
            lot,
            pace,
            dice,
            controller,
            clusters,
            kills: 0,
            writes: 0,
            views,
            term: 0,
            unread: BTreeSet::new(),
            coverage: Coverage::default(),
            bad_plans: Vec::new(),
        }
    }

    /// Returns the world.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the world, to change it as a user or a fault does.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// Returns what the last turn of each pool showed.
    #[must_use]
    pub fn views(&self) -> &BTreeMap<Key, PoolView> {
        &self.views
    }

    /// Returns how often the controller was killed.
    #[must_use]
    pub fn kills(&self) -> u32 {
        self.kills
    }

    /// Returns how many requests of the controller asked for a change of anything.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Returns how many writes to Azure one controller has on their way to one scale set, at most.
    pub(crate) fn azure_writes_under_way(&self) -> usize {
        let mut per_set = BTreeMap::new();
        for write in self.lot.each(azure_write).into_iter().flatten() {
            *per_set.entry(write).or_insert(0) += 1;
        }
        per_set.into_values().max().unwrap_or(0)
    }

    /// Returns what the turns and the faults of this rig exercised so far.
    pub(crate) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Returns what was exercised, to count more.
    pub(crate) fn coverage_mut(&mut self) -> &mut Coverage {
        &mut self.coverage
    }

    /// Returns the promises that plans broke, oldest first.
    pub(crate) fn bad_plans(&self) -> &[String] {
        &self.bad_plans
    }

    /// Ends all mischief, for the part of a run in which everything must come right.
    pub fn behave(&mut self) {
        if let Pace::Seeded(mischief) = &mut self.pace {
            *mischief = Mischief::default();
        }
    }

    /// Kills the controller and starts another, which knows only what Kubernetes and Azure tell.
    pub fn kill(&mut self) {
        for (_, turn) in &self.controller.under_way {
            turn.abort();
        }
        while let Some(parked) = self.lot.take(0) {
            // What was on its way may still arrive; nobody is there to hear the answer.
            if self.dice.chance(0.5) {
                self.world.handle(parked.endpoint, &parked.request);
            }
        }
        self.kills += 1;
        self.coverage.mishap(Mishap::Kill);
        self.begin_again();
    }

    /// Lets another copy of the controller lead. What the first one sent is still on its way, and
    /// nobody will hear the answers.
    pub fn take_over(&mut self) {
        for (_, turn) in &self.controller.under_way {
            turn.abort();
        }
        self.coverage.mishap(Mishap::Takeover);
        self.begin_again();
    }

    fn begin_again(&mut self) {
        self.term += 1;
        let lot = self.lot.for_term(self.term);
        self.controller = Controller::begin(&lot, &self.clock, &self.clusters);
        for cluster in self.unread.clone() {
            self.set_nodes_unread(&cluster, true);
        }
    }

    /// Cuts the controller off from the nodes of a cluster, or lets it see them again.
    pub fn set_nodes_unread(&mut self, cluster: &Key, unread: bool) {
        let workloads = &self.controller.ctx.workloads;
        if unread {
            self.coverage.mishap(Mishap::NodesUnread);
            self.unread.insert(cluster.clone());
            workloads.down(cluster, "out of reach");
        } else if self.unread.remove(cluster)
            && let Some(workload) = self.controller.workloads.get(cluster)
        {
            workloads.up(cluster, workload.clone());
        }
    }

    /// Does one thing that can happen at this moment, if there is one.
    pub async fn step(&mut self) -> Did {
        quiesce().await;
        self.reap().await;
        for feed in &mut self.controller.feeds {
            feed.pull(&mut self.world);
        }
        let parked = self.lot.len();
        let news: Vec<_> = (0..self.controller.feeds.len())
            .filter(|at| self.controller.feeds[*at].has_news())
            .collect();
        let turns = self.controller.startable(self.world.now());
        let choices = parked + news.len() + turns.len();
        let Some(choice) = self.choose(choices).await else {
            return Did::Nothing;
        };
        if choice >= choices {
            return Did::Something;
        }
        if choice < parked {
            self.let_through(choice);
        } else if choice < parked + news.len() {
            let feed = news[choice - parked];
            let twice = match &self.pace {
                Pace::Eager => 0.0,
                Pace::Seeded(mischief) => mischief.duplicate,
            };
            if self.dice.chance(twice) {
                self.coverage.mishap(Mishap::Duplicate);
                self.controller.feeds[feed].repeat();
            }
            self.controller.deliver(feed, self.world.now());
        } else {
            let work = turns[choice - parked - news.len()].clone();
            self.controller.start(work);
        }
        Did::Something
    }

    /// Picks one of so many choices. A number that is no choice means that something else was done.
    async fn choose(&mut self, choices: usize) -> Option<usize> {
        if choices == 0 {
            return None;
        }
        let Pace::Seeded(mischief) = self.pace.clone() else {
            return Some(0);
        };
        if self.dice.chance(mischief.kill) {
            self.kill();
            return Some(choices);
        }
        if self.dice.chance(mischief.takeover) {
            self.take_over();
            return Some(choices);
        }
        // Answers take time, and while they do the world goes on.
        if self.lot.len() > 0 && self.dice.chance(0.2) {
            let pause = self.dice.below(STALL_MAX_MS);
            self.pass(SignedDuration::from_millis(pause as i64)).await;
            return Some(choices);
        }
        Some(self.dice.below(choices as u64) as usize)
    }

    fn let_through(&mut self, at: usize) {
        let Some(parked) = self.lot.take(at) else {
            return;
        };
        let mischief = match &self.pace {
            Pace::Eager => Mischief::default(),
            Pace::Seeded(mischief) => mischief.clone(),
        };
        if self.dice.chance(mischief.lost_request) {
            self.coverage.mishap(Mishap::LostRequest);
            return;
        }
        if parked.term != self.term {
            self.coverage.mishap(Mishap::LateRequest);
        }
        self.writes += u64::from(parked.request.method() != http::Method::GET);
        let answer = match self.world.handle(parked.endpoint, &parked.request) {
            Reply::Response(answer) => answer,
            Reply::Watch(_) => Response::new(Bytes::new()),
        };
        if self.dice.chance(mischief.lost_answer) {
            self.coverage.mishap(Mishap::LostAnswer);
        } else {
            // Nobody listens any more if the turn was given up meanwhile.
            let _unheard = parked.reply.send(answer).is_err();
        }
    }

    async fn reap(&mut self) {
        let now = self.world.now();
        let mut at = 0;
        while at < self.controller.under_way.len() {
            if !self.controller.under_way[at].1.is_finished() {
                at += 1;
                continue;
            }
            let (work, turn) = self.controller.under_way.remove(at);
            let ended = turn.await.expect("a turn does not panic");
            if let (Work::Pool(key), Some(view)) = (&work, ended.view) {
                self.views.insert(key.clone(), view);
            }
            if let Some((observed, plan)) = ended.decided.as_deref() {
                self.coverage.turn(observed, plan);
                let broken = crate::judge::broken_promises(observed, plan);
                self.bad_plans
                    .extend(broken.into_iter().map(|what| format!("{now}  {what}")));
            }
            self.controller.ended(work, ended.next, now);
        }
    }

    /// Returns when something happens by itself, in the world or in the controller.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let turns = self.controller.due.values().copied().min();
        self.world.next_due().into_iter().chain(turns).min()
    }

    /// Lets time pass.
    pub async fn pass(&mut self, span: SignedDuration) {
        let to = self.world.now() + span;
        self.world.advance(to);
        self.clock.set(to);
        // Pauses between the tries of one request are slept by tokio's clock.
        tokio::time::advance(Duration::try_from(span).unwrap_or_default()).await;
    }

    /// Runs everything that happens up to a moment, that moment included.
    pub async fn run_until(&mut self, to: Timestamp, mut watch: impl FnMut(&Rig)) {
        loop {
            while self.step().await == Did::Something {
                watch(self);
            }
            let now = self.world.now();
            if now >= to {
                return;
            }
            let next = self.next_due().unwrap_or(to).clamp(now, to);
            let asleep = !self.controller.under_way.is_empty();
            // A turn that sleeps between two tries wakes by tokio's clock, which nobody announces.
            let next = if asleep {
                next.min(now + SignedDuration::from_secs(1))
            } else {
                next
            };
            self.pass(next.duration_since(now).max(SignedDuration::from_millis(1)))
                .await;
            watch(self);
        }
    }
}

impl Controller {
    fn begin(lot: &Lot, clock: &WorldClock, clusters: &[Key]) -> Controller {
        let (pools, pool_writer) = reflector::store();
        let (pool_machines, pool_machine_writer) = reflector::store();
        let (machine_pools, machine_pool_writer) = reflector::store();
        let (machines, machine_writer) = reflector::store();
        let (cluster_store, cluster_writer) = reflector::store();
        let caches = Caches {
            pools,
            pool_machines,
            machine_pools,
            machines,
            clusters: cluster_store,
        };
        let mut feeds: Vec<Box<dyn Feed>> = vec![
            Box::new(Watch::new(pool_writer)),
            Box::new(Watch::new(pool_machine_writer)),
            Box::new(Watch::new(machine_pool_writer)),
            Box::new(Watch::new(machine_writer)),
            Box::new(Watch::new(cluster_writer)),
        ];
        let workloads = Workloads::default();
        let mut connected = BTreeMap::new();
        for cluster in clusters {
            let (nodes, writer) = reflector::store();
            let client = kube_client(Endpoint::Workload, lot);
            let workload = Workload { client, nodes };
            workloads.up(cluster, workload.clone());
            connected.insert(cluster.clone(), workload);
            feeds.push(Box::new(Nodes::new(cluster.clone(), writer)));
        }
        let endpoint = ArmEndpoint::custom(
            "https://management.azure.sim",
            "https://management.azure.sim",
            "https://login.azure.sim",
        )
        .expect("the addresses are URLs");
        let arm = Arm::new(wire(lot), endpoint, Credential::anonymous());
        let ctx = Ctx::new(
            kube_client(Endpoint::Management, lot),
            caches,
            workloads,
            AzureAccess::Shared(arm),
            Arc::new(clock.clone()),
        );
        Controller {
            ctx: Arc::new(ctx),
            feeds,
            due: BTreeMap::new(),
            again: BTreeSet::new(),
            under_way: Vec::new(),
            workloads: connected,
        }
    }

    /// Turns that may begin: not before every cache is filled, as in the runtime.
    fn startable(&self, now: Timestamp) -> Vec<Work> {
        let filled = self.feeds.iter().all(|feed| feed.is_filled());
        if !filled || self.under_way.len() >= TURNS_MAX {
            return Vec::new();
        }
        let idle = |work: &&Work| !self.under_way.iter().any(|(busy, _)| busy == *work);
        self.due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(work, _)| work)
            .filter(idle)
            .cloned()
            .collect()
    }

    fn deliver(&mut self, feed: usize, now: Timestamp) {
        let caches = self.ctx.caches.clone();
        for work in self.feeds[feed].deliver(&caches) {
            if self.under_way.iter().any(|(busy, _)| *busy == work) {
                self.again.insert(work.clone());
            }
            let due = self.due.entry(work).or_insert(now);
            *due = (*due).min(now);
        }
    }

    fn start(&mut self, work: Work) {
        self.due.remove(&work);
        let ctx = self.ctx.clone();
        let turn = tokio::spawn(take_turn(work.clone(), ctx));
        self.under_way.push((work, turn));
    }

    fn ended(&mut self, work: Work, next: Option<Next>, now: Timestamp) {
        let at = if self.again.remove(&work) {
            Some(now)
        } else {
            match next {
                None => Some(now + ERROR_PAUSE),
                Some(Next::At(at)) => Some(at.max(now)),
                Some(Next::OnEvent) => None,
            }
        };
        if let Some(at) = at {
            let due = self.due.entry(work).or_insert(at);
            *due = (*due).min(at);
        }
    }
}

/// Returns who writes to which scale set, if a request does that.
fn azure_write(parked: &Parked) -> Option<(u32, String)> {
    let is_write =
        parked.endpoint == Endpoint::Azure && parked.request.method() != http::Method::GET;
    let path = parked.request.uri().path();
    let mut parts = path.split('/');
    let set = parts
        .find(|part| part.eq_ignore_ascii_case("virtualMachineScaleSets"))
        .and_then(|_| parts.next());
    is_write.then(|| (parked.term, set.unwrap_or_default().to_lowercase()))
}

async fn take_turn(work: Work, ctx: Arc<Ctx>) -> Ended {
    match work {
        Work::Pool(key) => match pool::reconcile(&key, &ctx).await {
            Ok(turn) => Ended {
                next: Some(turn.next),
                view: turn.view,
                decided: turn.decided,
            },
            Err(_) => Ended {
                next: None,
                view: None,
                decided: None,
            },
        },
        Work::Machine(key) => match machine::reconcile(&key, &ctx).await {
            Ok(next) => Ended {
                next: Some(next),
                view: None,
                decided: None,
            },
            Err(_) => Ended {
                next: None,
                view: None,
                decided: None,
            },
        },
    }
}

/// Returns once every task waits for something that only the rig can give.
///
/// Under a paused clock a sleep ends only when the runtime has nothing else to do.
async fn quiesce() {
    tokio::time::sleep(Duration::from_nanos(1)).await;
}
