//! Plays a story: the world, the controllers, and what is promised for each pool.

use jiff::{SignedDuration, Timestamp};
use weir_world::azure::{Azure, AzureFaults, Quota};
use weir_world::cluster::kinds::resource;
use weir_world::cluster::server::Faults;
use weir_world::cluster::{Side, Target};
use weir_world::world::{World, WorldOptions};

use super::{BAD_VERSION, Beat, Move, Story, Verdict, calls, promise, seconds};
use crate::checkers::{Checkers, Nodes, POOL_MACHINES, Promise};
use crate::rig::{Pace, Rig};
use crate::scene::{self, NAMESPACE, PoolSpec};

/// How long the last act may take, in which nothing goes wrong any more: ten cycles of the slowest
/// machine and its join limit, one after the other.
const CONVERGENCE_LIMIT: SignedDuration = SignedDuration::from_hours(6);

/// How long a settled pool is watched for silence.
const SILENCE: SignedDuration = SignedDuration::from_mins(45);

/// The version that a pool ends with whose last one was bad.
const GOOD_VERSION: &str = "v1.34.2";

/// A run under way.
pub(super) struct Stage<'s> {
    story: &'s Story,
    rig: Rig,
    pools: Vec<Cast>,
    /// What ends by itself, and when.
    ends: Vec<(Timestamp, End)>,
    /// What the checkers looked at last.
    seen: u64,
    began: Timestamp,
    trouble: Vec<String>,
}

/// One pool, as the story has it at the moment.
struct Cast {
    spec: PoolSpec,
    checkers: Checkers,
    promise: Promise,
}

/// The end of something that a move began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Quota,
    AzureDown,
    ApiDown(Side),
    NodesUnread(usize),
    BlockBudget,
    Pause(usize),
}

impl<'s> Stage<'s> {
    pub(super) fn set(story: &'s Story) -> Stage<'s> {
        let options = WorldOptions {
            management_faults: story.api_faults,
            workload_faults: story.api_faults,
            workloads: story.workloads.clone(),
            daemon_sets: vec!["proxy".to_owned()],
            azure: story.azure.options(),
            ..WorldOptions::default()
        };
        let mut world = World::new(options, story.seed);
        let mut clusters: Vec<_> = story.pools.iter().map(PoolSpec::cluster_key).collect();
        clusters.sort();
        clusters.dedup();
        for cluster in &clusters {
            scene::add_cluster(&mut world, &cluster.name);
        }
        for pool in &story.pools {
            scene::add_pool(&mut world, pool);
        }
        let pools = story.pools.iter().map(|spec| Cast {
            spec: spec.clone(),
            checkers: Checkers::default(),
            promise: promise(spec),
        });
        let began = world.now();
        let pace = Pace::Seeded(story.mischief.clone());
        Stage {
            story,
            pools: pools.collect(),
            rig: Rig::new(world, clusters, pace, story.seed),
            ends: Vec::new(),
            seen: 0,
            began,
            trouble: Vec::new(),
        }
    }

    pub(super) fn world(&self) -> &World {
        self.rig.world()
    }

    pub(super) async fn run(&mut self) {
        if !self.until_whole("the first instances").await {
            return;
        }
        let start = self.world().now();
        for beat in &self.story.moves {
            self.run_until(start + seconds(beat.after)).await;
            self.make(beat);
        }
        while let Some(last) = self.ends.iter().map(|(at, _)| *at).max() {
            self.run_until(last).await;
        }
        // A machine that has just stopped is not missed before its node is.
        let now = self.world().now();
        self.run_until(now + SignedDuration::from_mins(3)).await;
        self.calm();
        if self.until_whole("the last act").await {
            self.silence().await;
        }
    }

    /// Runs to a moment, and ends on the way what ends by itself.
    async fn run_until(&mut self, to: Timestamp) {
        loop {
            self.ends.sort_by_key(|(at, _)| *at);
            let next = self.ends.first().copied().filter(|(at, _)| *at <= to);
            let Some((at, end)) = next else { break };
            self.ends.remove(0);
            self.watched_until(at).await;
            self.end(end);
        }
        self.watched_until(to).await;
    }

    async fn watched_until(&mut self, to: Timestamp) {
        let (pools, seen) = (&mut self.pools, &mut self.seen);
        let watch = |rig: &Rig| {
            let writes = rig.azure_writes_under_way();
            let changes = rig.world().changes();
            if writes <= 1 && changes == *seen {
                return;
            }
            *seen = changes;
            let nodes = Nodes::of(rig.world());
            for pool in &mut *pools {
                pool.checkers.writes(rig.world(), writes);
                pool.checkers.look(rig.world(), &pool.promise, &nodes);
                pool.promise.look(&pool.checkers, rig.world());
            }
        };
        self.rig.run_until(to, watch).await;
        // An excuse ends with time alone, too.
        for pool in &mut self.pools {
            pool.promise.look(&pool.checkers, self.rig.world());
        }
    }

    async fn until_whole(&mut self, what: &str) -> bool {
        let limit = self.world().now() + CONVERGENCE_LIMIT;
        loop {
            let now = self.world().now();
            let open: Vec<_> = self.pools.iter().flat_map(|p| self.open_ends(p)).collect();
            if open.is_empty() {
                return true;
            }
            if now >= limit {
                let what = format!("{what}: not whole in time: {}", open.join(", "));
                self.trouble.push(what);
                return false;
            }
            self.run_until(now + SignedDuration::from_secs(20)).await;
        }
    }

    /// What is not yet as the user wants it.
    fn open_ends(&self, pool: &Cast) -> Vec<String> {
        let world = self.world();
        let server = world.server(Side::Management);
        let name = &pool.spec.name;
        let instances = world.azure().instances(name);
        let machines = self.machines_of(POOL_MACHINES, name).len();
        let mut open = Vec::new();
        if pool.promise.deleted {
            let left = server.get(&Target::new(resource::AZURE_POOLS, NAMESPACE, name));
            let set = world.azure().capacity(name);
            if set.is_some() || machines > 0 || left.is_some() {
                open.push(format!("{name}: {machines} machines and perhaps more left"));
            }
            return open;
        }
        let wanted = pool.promise.replicas as usize;
        if instances.len() != wanted || machines != wanted {
            let count = instances.len();
            open.push(format!(
                "{name}: {count} instances, {machines} machines of {wanted}"
            ));
        }
        let nodes = world.nodes_of(name);
        let good = nodes.iter().filter(|node| {
            let sized = instances.iter().any(|instance| {
                let vm = &instance.vm;
                vm.provider_id.eq_ignore_ascii_case(&node.provider_id) && vm.size == pool.spec.size
            });
            // R9: without a budget, an autoscaled pool keeps the old model.
            let is_held = pool.spec.autoscaled && pool.promise.unavailable == 0;
            let is_new = node.kubelet_version == pool.spec.version && sized;
            node.is_ready && !node.is_cordoned && (is_new || is_held)
        });
        let good = good.count();
        if good != wanted || nodes.len() != wanted {
            open.push(format!("{name}: {good} good of {} nodes", nodes.len()));
        }
        let leaving = self.machines_of(resource::MACHINES, name);
        let leaving = leaving.iter().filter(|(_, leaves)| *leaves).count();
        if leaving > 0 {
            open.push(format!("{name}: {leaving} machines leaving"));
        }
        open
    }

    /// The objects of a kind that belong to a pool, by name, with whether they leave.
    fn machines_of(&self, kind: &str, pool: &str) -> Vec<(String, bool)> {
        let all = self
            .world()
            .server(Side::Management)
            .list_in(kind, NAMESPACE);
        all.filter(|object| object["metadata"]["labels"][POOL_NAME] == pool)
            .map(|object| {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let leaves = !object["metadata"]["deletionTimestamp"].is_null();
                (name.to_owned(), leaves)
            })
            .collect()
    }

    /// R6: a settled pool is silent.
    async fn silence(&mut self) {
        // One more look of each pool and whatever was on its way.
        let now = self.world().now();
        self.run_until(now + SignedDuration::from_mins(15)).await;
        let before = self.rig.writes();
        let now = self.world().now();
        self.run_until(now + SILENCE).await;
        let written = self.rig.writes() - before;
        if written > 0 {
            self.trouble
                .push(format!("R6: {written} writes of a settled pool"));
        }
    }

    fn make(&mut self, beat: &Beat) {
        let at = beat.pool;
        let Some(pool) = self.pools.get(at) else {
            return;
        };
        let of_process = matches!(beat.what, Move::Kill | Move::Takeover | Move::Compact);
        if pool.promise.deleted && !of_process {
            // Nobody has anything left to ask of a pool that is on its way out.
            return;
        }
        let is_count = matches!(
            beat.what,
            Move::Replicas(_) | Move::ScaleIn(_) | Move::Vanish(_) | Move::Limits { .. }
        );
        let is_scale = matches!(beat.what, Move::Scale(_));
        if pool.spec.autoscaled && is_count || is_scale && !pool.spec.autoscaled {
            // An autoscaled pool follows what is in Azure, and other pools what their user asks.
            return;
        }
        let name = pool.spec.name.clone();
        self.rig.coverage_mut().act(&beat.what);
        let world = self.rig.world_mut();
        match &beat.what {
            Move::Version(version) => self.version(at, version),
            Move::BadVersion => self.version(at, BAD_VERSION),
            Move::Replicas(replicas) => self.replicas(at, *replicas),
            Move::ScaleIn(nth) => self.scale_in(at, *nth),
            Move::Size(size) => {
                scene::set_size(world, &name, size);
                self.pools[at].spec.size.clone_from(size);
            }
            Move::Tag(value) => scene::set_tag(world, &name, value),
            Move::Limits { surge, unavailable } => self.limits(at, surge, unavailable),
            Move::Scale(more) => self.scale(at, *more),
            Move::DeleteMachine(nth) => self.delete(at, resource::MACHINES, *nth),
            Move::DeletePoolMachine(nth) => self.delete(at, POOL_MACHINES, *nth),
            Move::Vanish(nth) => self.hit(at, *nth, Azure::vanish),
            Move::Stop(nth) => self.hit(at, *nth, Azure::stop),
            Move::Fail(nth) => self.hit(at, *nth, |azure, set, id| azure.fail(set, id, "Broken")),
            Move::Silence { nth, seconds: span } => self.silence_node(at, *nth, *span),
            Move::FailCreates(failures) => {
                world.with_azure(|azure| azure.fail_next_creates(failures.iter().copied()));
            }
            Move::Compact => {
                for side in [Side::Management, Side::Workload] {
                    world.with_server(side, |server, _| server.compact());
                }
            }
            Move::Kill => self.rig.kill(),
            Move::Takeover => self.rig.take_over(),
            Move::DeletePool => {
                self.pools[at].promise.deleted = true;
                let target = Target::new(resource::MACHINE_POOLS, NAMESPACE, &name);
                let _gone = world.delete(Side::Management, &target);
            }
            Move::Quota { .. }
            | Move::AzureDown { .. }
            | Move::ApiDown { .. }
            | Move::NodesUnread { .. }
            | Move::BlockBudget { .. }
            | Move::Pause { .. } => self.begin(at, &beat.what),
        }
    }

    /// Begins something that ends by itself.
    fn begin(&mut self, at: usize, what: &Move) {
        let world = self.rig.world_mut();
        let (span, end) = match what {
            Move::Quota { spare, seconds } => {
                let azure = world.azure();
                let sets = azure.scale_sets();
                let used: u32 = sets.iter().filter_map(|set| azure.capacity(set)).sum();
                let quota = Quota {
                    instances: Some(used + spare),
                    ..Quota::default()
                };
                world.with_azure(|azure| azure.set_quota(quota));
                (seconds, End::Quota)
            }
            Move::AzureDown { seconds } => {
                let down = AzureFaults {
                    error_500: 1.0,
                    ..self.story.azure.faults
                };
                world.with_azure(|azure| azure.set_faults(down));
                (seconds, End::AzureDown)
            }
            Move::ApiDown { workload, seconds } => {
                let side = if *workload {
                    Side::Workload
                } else {
                    Side::Management
                };
                let down = Faults {
                    error_500: 1.0,
                    ..self.story.api_faults
                };
                world.with_server(side, |server, _| server.set_faults(down));
                (seconds, End::ApiDown(side))
            }
            Move::NodesUnread { seconds } => {
                let cluster = self.pools[at].spec.cluster_key();
                self.rig.set_nodes_unread(&cluster, true);
                (seconds, End::NodesUnread(at))
            }
            Move::BlockBudget { seconds } => {
                for workload in &self.story.workloads {
                    if workload.min_available.is_some() {
                        scene::set_budget(world, &workload.name, "100%");
                    }
                }
                (seconds, End::BlockBudget)
            }
            Move::Pause { seconds } => {
                scene::set_paused(world, &self.pools[at].spec.name, true);
                (seconds, End::Pause(at))
            }
            _ => return,
        };
        let until = self.world().now() + seconds(*span);
        // What lasts longer than its like is what counts.
        let others = self.ends.iter().filter(|(_, other)| *other == end);
        let until = others
            .map(|(at, _)| *at)
            .chain([until])
            .max()
            .unwrap_or(until);
        self.ends.retain(|(_, other)| *other != end);
        self.ends.push((until, end));
    }

    fn end(&mut self, end: End) {
        let world = self.rig.world_mut();
        match end {
            End::Quota => world.with_azure(|azure| azure.set_quota(Quota::default())),
            End::AzureDown => {
                let faults = self.story.azure.faults;
                world.with_azure(|azure| azure.set_faults(faults));
            }
            End::ApiDown(side) => {
                let faults = self.story.api_faults;
                world.with_server(side, |server, _| server.set_faults(faults));
            }
            End::NodesUnread(at) => {
                let cluster = self.pools[at].spec.cluster_key();
                self.rig.set_nodes_unread(&cluster, false);
            }
            End::BlockBudget => {
                for workload in &self.story.workloads {
                    if let Some(least) = &workload.min_available {
                        scene::set_budget(world, &workload.name, least);
                    }
                }
            }
            End::Pause(at) => scene::set_paused(world, &self.pools[at].spec.name, false),
        }
    }

    fn version(&mut self, at: usize, version: &str) {
        let spec = &mut self.pools[at].spec;
        version.clone_into(&mut spec.version);
        scene::set_version(self.rig.world_mut(), &spec.name, version);
    }

    fn replicas(&mut self, at: usize, replicas: u32) {
        let now = self.world().now();
        let Cast {
            spec,
            checkers,
            promise: promised,
        } = &mut self.pools[at];
        spec.replicas = replicas;
        scene::set_replicas(self.rig.world_mut(), &spec.name, replicas);
        if replicas > promised.replicas {
            checkers.grew();
        }
        promised.change(&promise(spec), now);
    }

    /// Marks a Machine and asks for one less, as the cluster autoscaler does.
    fn scale_in(&mut self, at: usize, nth: u32) {
        let replicas = self.pools[at].promise.replicas;
        let mut machines = self.machines_of(resource::MACHINES, &self.pools[at].spec.name);
        machines.retain(|(_, leaves)| !leaves);
        if replicas == 0 || machines.is_empty() {
            return;
        }
        let (machine, _) = &machines[nth as usize % machines.len()];
        scene::mark_machine(self.rig.world_mut(), machine);
        self.replicas(at, replicas - 1);
    }

    fn scale(&mut self, at: usize, more: u32) {
        let Cast { spec, .. } = &self.pools[at];
        let (name, cluster) = (spec.name.clone(), spec.cluster.clone());
        let replicas = self.pools[at].promise.replicas + more;
        let Some(capacity) = self.world().azure().capacity(&name) else {
            return;
        };
        if scene::set_capacity(self.rig.world_mut(), &cluster, &name, capacity + more) {
            let now = self.world().now();
            let Cast {
                spec,
                checkers,
                promise: promised,
            } = &mut self.pools[at];
            spec.replicas = replicas;
            checkers.grew();
            promised.change(&promise(spec), now);
        }
    }

    fn limits(&mut self, at: usize, surge: &str, unavailable: &str) {
        let now = self.world().now();
        let Cast {
            spec,
            promise: promised,
            ..
        } = &mut self.pools[at];
        surge.clone_into(&mut spec.max_surge);
        unavailable.clone_into(&mut spec.max_unavailable);
        scene::set_limits(self.rig.world_mut(), &spec.name, surge, unavailable);
        promised.change(&promise(spec), now);
    }

    fn delete(&mut self, at: usize, kind: &str, nth: u32) {
        let now = self.world().now();
        let named = self.machines_of(kind, &self.pools[at].spec.name);
        if let Some((name, _)) = named.get(nth as usize % named.len().max(1)) {
            let target = Target::new(kind, NAMESPACE, name);
            let _gone = self.rig.world_mut().delete(Side::Management, &target);
            self.pools[at].promise.excuse(now);
        }
    }

    fn hit(&mut self, at: usize, nth: u32, fate: fn(&mut Azure, &str, &str) -> bool) {
        let now = self.world().now();
        let pool = &mut self.pools[at];
        let instances = self.rig.world().azure().instances(&pool.spec.name);
        if let Some(instance) = instances.get(nth as usize % instances.len().max(1)) {
            let id = &instance.vm.instance_id;
            let world = self.rig.world_mut();
            if world.with_azure(|azure| fate(azure, &pool.spec.name, id)) {
                pool.promise.excuse(now);
            }
        }
    }

    fn silence_node(&mut self, at: usize, nth: u32, span: u32) {
        let now = self.world().now();
        let pool = &mut self.pools[at];
        let ids = self.rig.world().azure().provider_ids(&pool.spec.name);
        if let Some((id, _)) = ids.get(nth as usize % ids.len().max(1))
            && self.rig.world_mut().mute_node(id, seconds(span))
        {
            pool.promise.excuse(now);
        }
    }

    /// Ends what the world and the process do to the controller on purpose.
    fn calm(&mut self) {
        self.rig.behave();
        let world = self.rig.world_mut();
        for side in [Side::Management, Side::Workload] {
            world.with_server(side, |server, _| server.set_faults(Faults::default()));
        }
        world.with_azure(|azure| {
            azure.set_faults(AzureFaults::default());
            azure.clear_planned_failures();
        });
        for at in 0..self.pools.len() {
            if self.pools[at].spec.version == BAD_VERSION && !self.pools[at].promise.deleted {
                self.version(at, GOOD_VERSION);
            }
        }
    }

    pub(super) fn verdict(self) -> Verdict {
        let mut coverage = self.rig.coverage().clone();
        let world = self.rig.world();
        coverage.faults(&world.tally());
        if self.trouble.is_empty() {
            coverage.rule("R6");
            if self.pools.len() > 1 {
                coverage.rule("R7");
            }
        }
        let mut broken: Vec<String> = self.rig.bad_plans().to_vec();
        for pool in &self.pools {
            broken.extend(pool.checkers.broken().iter().cloned());
        }
        broken.sort();
        broken.extend(self.trouble);
        Verdict {
            seed: self.story.seed,
            broken,
            virtual_seconds: world.now().duration_since(self.began).as_secs(),
            azure_calls: calls(world.azure().report()),
            kills: self.rig.kills(),
            fingerprint: world.fingerprint(),
            coverage,
        }
    }
}

/// The label that names an object's pool.
const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";
