//! What must never happen, checked against what is true in the world, after every event.
//!
//! Written from the rules and from nothing that the planner computes. A loss that the story itself
//! brings about (a user's deletion, a vanished machine) is excused, by name and by number.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use weir_world::cluster::kinds::resource;
use weir_world::cluster::{Side, fields};
use weir_world::world::{DrainState, World};

/// The resource of pool machines.
pub(crate) const POOL_MACHINES: &str = "azuremachinepoolmachines.infrastructure.cluster.x-k8s.io";

/// What is promised for one pool, as the story has it at the moment.
#[derive(Clone, Debug)]
pub struct Promise {
    /// The scale set.
    pub scale_set: String,
    /// N, with the time since when.
    pub replicas: u32,
    /// The largest N of late: a write that was decided before a scale-down may still arrive.
    pub replicas_lately: u32,
    /// S, in instances.
    pub surge: u32,
    /// U, in instances.
    pub unavailable: u32,
    /// How many instances others took away that were not made good yet.
    pub excused: u32,
    /// When the last of them was taken away.
    pub last_loss: Timestamp,
    /// S and U, once everything that was decided under other limits has come to rest.
    pub limits_next: Option<(u32, u32)>,
    /// Whether the user deleted the pool.
    pub deleted: bool,
}

impl Promise {
    /// Excuses the loss of one more instance.
    pub fn excuse(&mut self, now: Timestamp) {
        self.excused += 1;
        self.last_loss = now;
    }

    /// Takes over what a user asks for. Until the pool is at rest again the wider limit holds: what
    /// was decided under the other one may still arrive.
    pub fn change(&mut self, next: &Promise, now: Timestamp) {
        self.replicas_lately = self.replicas_lately.max(next.replicas);
        self.replicas = next.replicas;
        self.surge = self.surge.max(next.surge);
        self.unavailable = self.unavailable.max(next.unavailable);
        self.limits_next = Some((next.surge, next.unavailable));
        self.last_loss = self.last_loss.max(now);
    }

    /// Ends the excuse once every loss has been made good.
    pub fn look(&mut self, checkers: &Checkers, world: &World) {
        // A node that has stopped is missed after 40 s, and its machine is asked to go after that.
        let felt = world.now() > self.last_loss + SignedDuration::from_mins(3);
        let is_news = self.excused > 0 || self.limits_next.is_some();
        if is_news && felt && checkers.is_whole() && nobody_leaves(world) {
            self.excused = 0;
            self.replicas_lately = self.replicas;
            if let Some((surge, unavailable)) = self.limits_next.take() {
                self.surge = surge;
                self.unavailable = unavailable;
            }
        }
    }
}

/// Whether no machine is on its way out.
fn nobody_leaves(world: &World) -> bool {
    let server = world.server(Side::Management);
    let kinds = [resource::MACHINES, POOL_MACHINES];
    let mut machines = kinds.iter().flat_map(|kind| server.list(kind));
    machines.all(|machine| machine["metadata"]["deletionTimestamp"].is_null())
}

/// The checkers and what they remember.
#[derive(Debug, Default)]
pub struct Checkers {
    broken: Vec<String>,
    seen_deletes: usize,
    was_whole: bool,
    serves_all: bool,
    worst: Worst,
    told: BTreeSet<String>,
    has_been: bool,
}

/// What checkers see of the nodes of the world.
#[derive(Debug, Default)]
pub struct Nodes(Vec<Seen>);

#[derive(Debug)]
struct Seen {
    provider_id: String,
    serves: bool,
}

impl Nodes {
    /// Looks at the world.
    #[must_use]
    pub fn of(world: &World) -> Nodes {
        let nodes = world.server(Side::Workload).list(resource::NODES);
        let seen = nodes.map(|node| Seen {
            provider_id: fields::text(node, "/spec/providerID").to_owned(),
            serves: fields::is_ready(node) && !fields::flag(node, "/spec/unschedulable"),
        });
        Nodes(seen.collect())
    }
}

/// The worst that was seen, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    /// The fewest available instances once the pool was whole.
    pub available_min: Option<u32>,
    /// The most instances that existed at once.
    pub total_max: u32,
    /// Instances deleted with pods on their nodes that a drain should have moved.
    pub undrained: u32,
}

impl Checkers {
    /// Returns what was broken, oldest first.
    #[must_use]
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// Returns the worst that was seen.
    #[must_use]
    pub fn worst(&self) -> Worst {
        self.worst
    }

    /// Looks at the world, and at how many writes to Azure are on their way to it.
    pub fn check(&mut self, world: &World, promise: &Promise, writes_under_way: usize) {
        self.writes(world, writes_under_way);
        self.look(world, promise, &Nodes::of(world));
    }

    /// R8.
    pub fn writes(&mut self, world: &World, under_way: usize) {
        if under_way > 1 {
            self.report(world, format!("R8: {under_way} writes to Azure at once"));
        }
    }

    /// Looks at the world, whose nodes were looked at already.
    pub fn look(&mut self, world: &World, promise: &Promise, nodes: &Nodes) {
        let azure = world.azure();
        let instances = azure.provider_ids(&promise.scale_set);
        let total = instances.len() as u32;
        self.worst.total_max = self.worst.total_max.max(total);
        self.ceiling(world, promise, total);
        let serving = nodes.0.iter().filter(|node| {
            let is_it = |(id, _): &(String, bool)| id.eq_ignore_ascii_case(&node.provider_id);
            node.serves && instances.iter().any(is_it)
        });
        self.floor(world, promise, serving.count() as u32);
        self.drains(world, promise);
        let is_there = azure.capacity(&promise.scale_set).is_some();
        if self.has_been && !is_there && !promise.deleted {
            self.report(
                world,
                "R5: the scale set is gone and its pool is not".to_owned(),
            );
        }
        self.has_been |= is_there;
    }

    /// R3.
    fn drains(&mut self, world: &World, promise: &Promise) {
        let deletes = world.instance_deletes();
        let own = format!("/virtualMachineScaleSets/{}/", promise.scale_set).to_lowercase();
        for delete in &deletes[self.seen_deletes..] {
            let is_own = delete.provider_id.to_lowercase().contains(&own);
            let undrained = matches!(delete.drain, DrainState::PodsLeft { .. });
            if is_own && undrained && !promise.deleted {
                self.worst.undrained += 1;
                let what = format!("R3: {} deleted, {:?}", delete.provider_id, delete.drain);
                self.report(world, what);
            }
        }
        self.seen_deletes = deletes.len();
    }

    /// R1.
    fn ceiling(&mut self, world: &World, promise: &Promise, total: u32) {
        let ceiling = promise.replicas_lately + promise.surge;
        if total > ceiling {
            self.report(world, format!("R1: {total} instances exist, {ceiling} may"));
        }
    }

    /// R2.
    fn floor(&mut self, world: &World, promise: &Promise, serving: u32) {
        let floor = promise.replicas.saturating_sub(promise.unavailable);
        self.serves_all = serving >= promise.replicas;
        self.was_whole |= self.serves_all;
        if !self.was_whole || promise.deleted {
            return;
        }
        let least = self
            .worst
            .available_min
            .map_or(serving, |min| min.min(serving));
        self.worst.available_min = Some(least);
        if serving + promise.excused < floor {
            let excused = promise.excused;
            let what = format!("R2: {serving} serve, {floor} must, {excused} excused");
            self.report(world, what);
        }
    }

    /// Returns whether as many serve as are wanted.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.serves_all
    }

    /// A pool that grows is not whole until the new instances serve.
    pub fn grew(&mut self) {
        self.was_whole = false;
    }

    fn report(&mut self, world: &World, what: String) {
        // A state that lasts is told once.
        if self.told.insert(what.clone()) {
            self.broken.push(format!("{}  {what}", world.now()));
        }
    }
}
