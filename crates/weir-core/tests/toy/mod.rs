//! A toy pool: just enough of Azure, nodes and drains for the planner to act on.
//!
//! Each move plays somebody else in a few lines: `azure.rs` plays Azure, `others.rs` the nodes, the
//! drains, the users and the autoscaler. `play.rs` tells a story turn by turn and checks it.

mod azure;
mod others;
mod play;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use weir_core::conditions::{Kind, conditions};
use weir_core::observed::{
    DeletePolicy, Departure, Instance, Limit, Machine, Observed, Pool, Provisioning, Reading,
    Refusal, Revision, ScaleSet,
};
use weir_core::plan;
use weir_core::plan::Action;

pub use azure::Refuses;
pub use play::{Dice, Script};

pub struct Toy {
    pub now: Timestamp,
    pub pool: Pool,
    pub scale_set: Option<ScaleSet>,
    pub instances: Vec<Instance>,
    pub orphans: Vec<Machine>,
    /// Revisions whose nodes never become Ready.
    pub bad: Vec<String>,
    /// Instances whose drain does not end.
    pub blocked: Vec<String>,
    /// Instances whose drain takes time.
    pub slow_drains: BTreeMap<String, SignedDuration>,
    /// When a drain is over though something holds it up.
    pub drain_timeout: Option<SignedDuration>,
    /// How long it takes from the creation of an instance to its node.
    pub boot: SignedDuration,
    /// What of the world cannot be read at the moment.
    pub unread: Option<&'static str>,
    pub zones: u32,
    /// How many instances Azure has room for.
    pub room: Option<u32>,
    /// How it says that it has no more.
    pub refuses: Refuses,
    /// How many of the next instances fail while they are made.
    pub fail_next: u32,
    /// How many of Azure's moves a deletion takes.
    pub deletion_takes: u32,
    /// Whether Azure takes no delete while another one runs.
    pub one_delete_at_a_time: bool,
    /// Whether Azure does nothing at all for the time being.
    pub azure_sleeps: bool,
    /// How many rounds the story takes at least.
    pub lasts: u32,
    pub made: u32,
    pub deleted: u32,
    released: bool,
    next_id: u32,
    deleting: BTreeMap<String, u32>,
    counted: BTreeSet<String>,
    standing: Option<azure::Standing>,
    collided: bool,
    /// Since when Azure owes instances and made none.
    owed_since: Option<Timestamp>,
    noted: Option<u32>,
    start: Timestamp,
    log: String,
    said: String,
    existed: u32,
}

pub fn revision(name: &str) -> Revision {
    Revision(name.to_owned())
}

impl Toy {
    /// A settled pool of revision v1 whose wanted revision is v2.
    pub fn rolling(replicas: u32, surge: Limit, unavailable: Limit) -> Toy {
        let mut toy = Toy::settled(replicas, surge, unavailable);
        toy.pool.revision = revision("v2");
        toy
    }

    /// A settled pool with nothing to roll.
    pub fn settled(replicas: u32, surge: Limit, unavailable: Limit) -> Toy {
        Toy::zonal(0, replicas, surge, unavailable)
    }

    /// A settled pool in so many zones.
    pub fn zonal(zones: u32, replicas: u32, surge: Limit, unavailable: Limit) -> Toy {
        let mut toy = Toy::empty(replicas, surge, unavailable);
        toy.zones = zones;
        toy.scale_set = Some(ScaleSet {
            capacity: replicas,
            revision: Some(revision("v1")),
            provisioning: Provisioning::Updating,
        });
        toy.settle();
        toy.now += SignedDuration::from_hours(2);
        toy
    }

    /// A pool whose count somebody else sets in Azure, settled at v1, that wants v2.
    pub fn autoscaled(replicas: u32, surge: Limit, unavailable: Limit) -> Toy {
        let mut toy = Toy::rolling(replicas, surge, unavailable);
        toy.pool.autoscaled = true;
        toy
    }

    /// A pool of which Azure knows nothing yet.
    pub fn empty(replicas: u32, max_surge: Limit, max_unavailable: Limit) -> Toy {
        Toy {
            now: Timestamp::UNIX_EPOCH,
            pool: Pool {
                name: "pool".to_owned(),
                replicas,
                max_surge,
                max_unavailable,
                delete_policy: DeletePolicy::Oldest,
                revision: revision("v1"),
                min_ready: SignedDuration::ZERO,
                join_limit: SignedDuration::from_mins(20),
                unready_limit: SignedDuration::from_mins(10),
                patience: SignedDuration::ZERO,
                autoscaled: false,
                deleting: false,
            },
            scale_set: None,
            instances: Vec::new(),
            orphans: Vec::new(),
            bad: Vec::new(),
            blocked: Vec::new(),
            slow_drains: BTreeMap::new(),
            drain_timeout: None,
            boot: SignedDuration::ZERO,
            unread: None,
            zones: 0,
            room: None,
            refuses: Refuses::AtOnce,
            fail_next: 0,
            deletion_takes: 1,
            one_delete_at_a_time: false,
            azure_sleeps: false,
            lasts: 10,
            made: 0,
            deleted: 0,
            released: false,
            next_id: 0,
            deleting: BTreeMap::new(),
            counted: BTreeSet::new(),
            standing: None,
            collided: false,
            owed_since: None,
            noted: None,
            start: Timestamp::UNIX_EPOCH,
            log: String::new(),
            said: String::new(),
            existed: 0,
        }
    }

    /// Lets Azure make all instances and gives each a machine and a Ready node.
    fn settle(&mut self) {
        self.azure();
        self.azure();
        for instance in &mut self.instances {
            instance.machine = Some(staying(&instance.id));
        }
        self.nodes();
        self.made = 0;
    }

    /// What the observers would show of the toy.
    pub fn observe(&self) -> Observed {
        let unread = |what: &str| self.unread.filter(|unread| *unread == what);
        let mut pool = self.pool.clone();
        pool.replicas = self.replicas();
        Observed {
            at: self.now,
            looked_at: self.now,
            refused: self.refused(&pool.revision),
            pool,
            scale_set: match unread("azure") {
                Some(what) => Reading::Unknown(format!("reading {what} failed")),
                None => Reading::Known(self.scale_set.clone()),
            },
            instances: Reading::Known(self.instances.clone()),
            orphans: self.orphans.clone(),
            deletion_due: None,
            owed_since: self.owed_since,
            deletes_collide: self.collided,
            nodes: match unread("nodes") {
                Some(what) => Reading::Unknown(format!("reading {what} failed")),
                None => Reading::Known(()),
            },
        }
    }

    /// Notes since when Azure owes instances, as the controllers do at each look.
    fn note_what_is_owed(&mut self) {
        let live = self.instances.iter().filter(|i| !i.is_being_deleted());
        let capacity = self.scale_set.as_ref().map_or(0, |set| set.capacity);
        let made = self.instances.iter().map(|i| i.created).max();
        let since = self
            .owed_since
            .unwrap_or(self.now)
            .max(made.unwrap_or(Timestamp::MIN));
        self.owed_since = (capacity as usize > live.count()).then_some(since);
    }

    fn refused(&self, revision: &Revision) -> Option<Refusal> {
        let standing = self.standing.as_ref();
        let standing = standing.filter(|standing| standing.revision == *revision);
        standing.map(|standing| standing.refusal.clone())
    }

    /// What the pool says about being up to date: the reason and the message of the condition.
    pub fn up_to_date(&self) -> (&'static str, String) {
        let observed = self.observe();
        let all = conditions(&observed, &plan(&observed));
        let found = all.into_iter().find(|c| c.kind == Kind::UpToDate).unwrap();
        (found.reason, found.message)
    }

    /// How many instances there are to be.
    ///
    /// R9: in an autoscaled pool that is the capacity, and what deletes of ours took from it.
    pub fn replicas(&self) -> u32 {
        let Some(scale_set) = self.scale_set.as_ref().filter(|_| self.pool.autoscaled) else {
            return self.pool.replicas;
        };
        let ours = |machine: &Machine| machine.is_leaving();
        let listed = self.instances.iter().filter(|i| i.is_being_deleted());
        let listed = listed.filter(|i| i.machine.as_ref().is_some_and(ours));
        let gone = self.orphans.iter().filter(|machine| ours(machine));
        let most = scale_set.capacity + (listed.count() + gone.count()) as u32;
        let left = self.noted.map(|count| count.saturating_sub(self.others()));
        left.unwrap_or(most).clamp(scale_set.capacity, most)
    }

    /// How many somebody else is deleting.
    fn others(&self) -> u32 {
        let going = self.instances.iter().filter(|i| i.is_being_deleted());
        let ours = |i: &&Instance| i.machine.as_ref().is_some_and(Machine::is_leaving);
        going.filter(|i| !ours(i)).count() as u32
    }

    fn apply(&mut self, action: &Action) {
        match action {
            Action::CreateScaleSet { capacity } | Action::UpdateModel { capacity } => {
                self.ask(*capacity, true);
            }
            Action::RaiseCapacity { to } | Action::PutBackCapacity { to } => self.ask(*to, false),
            Action::DeleteInstances { instances } => self.delete(instances),
            Action::DeleteScaleSet => {
                self.scale_set.as_mut().unwrap().provisioning = Provisioning::Deleting;
            }
            Action::AddMachine { instance } => {
                self.instance(instance).machine = Some(staying(instance));
            }
            Action::RemoveMachine { instance } => self.leave(instance),
            Action::ReleaseMachine { machine } => self.orphans.retain(|m| m.name != *machine),
            Action::ReleasePool => self.released = true,
        }
    }

    /// Asks the machine of an instance to go.
    fn leave(&mut self, id: &str) {
        let since = self.now;
        let blocked = self.blocked.iter().any(|blocked| blocked == id);
        let blocked_by = blocked.then(|| "budget web/api".to_owned());
        let machine = self.instance(id).machine.as_mut().unwrap();
        machine.departure = Departure::Draining { since, blocked_by };
    }

    pub fn instance(&mut self, id: &str) -> &mut Instance {
        let found = self.instances.iter_mut().find(|i| i.id == id);
        found.unwrap_or_else(|| panic!("{id} exists"))
    }

    pub fn has(&self, id: &str) -> bool {
        self.instances.iter().any(|instance| instance.id == id)
    }
}

fn staying(id: &str) -> Machine {
    Machine {
        name: format!("pool-{id}"),
        delete_marked: false,
        unhealthy: None,
        departure: Departure::Staying,
    }
}
