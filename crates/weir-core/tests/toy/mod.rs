//! A toy pool: just enough of Azure, nodes and drains for the planner to act on.
//!
//! Each move plays somebody else (Azure, the nodes, the drains, a user) in a few lines. The order
//! of moves is drawn from a seed, with turns left out and repeated, since that is where bugs are.

use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};
use weir_core::observed::{
    DeletePolicy, Departure, Instance, Limit, Machine, Node, Observed, Pool, Power, Provisioning,
    Reading, Refusal, Revision, ScaleSet, instance_order,
};
use weir_core::plan::{Action, Bounds};
use weir_core::{Plan, check, plan};

/// How long one round of moves takes.
const ROUND: SignedDuration = SignedDuration::from_secs(20);

/// How many rounds a story may take; more means that it is stuck.
const ROUNDS_MAX: u32 = 250;

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
    /// What of the world cannot be read at the moment.
    pub unread: Option<&'static str>,
    pub zones: u32,
    /// What Azure last refused.
    pub refused: Option<Refusal>,
    /// Whether Azure takes no delete while another one runs.
    pub deletes_collide: bool,
    pub released: bool,
    next_id: u32,
    made: u32,
    deleted: u32,
    log: String,
    said: String,
    lost_to_others: bool,
}

pub type Script = fn(&mut Toy, u32);

pub fn revision(name: &str) -> Revision {
    Revision(name.to_owned())
}

impl Toy {
    /// A settled pool of revision v1 whose wanted revision is v2.
    pub fn rolling(replicas: u32, surge: Limit, unavailable: Limit) -> Toy {
        let mut toy = Toy::empty(replicas, surge, unavailable);
        toy.scale_set = Some(ScaleSet {
            capacity: replicas,
            revision: Some(revision("v1")),
            provisioning: Provisioning::Succeeded,
        });
        toy.settle();
        toy.now += SignedDuration::from_hours(2);
        toy.pool.revision = revision("v2");
        toy
    }

    /// A settled pool with nothing to roll.
    pub fn settled(replicas: u32, surge: Limit, unavailable: Limit) -> Toy {
        let mut toy = Toy::rolling(replicas, surge, unavailable);
        toy.pool.revision = revision("v1");
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
            unread: None,
            zones: 0,
            refused: None,
            deletes_collide: false,
            released: false,
            next_id: 0,
            made: 0,
            deleted: 0,
            log: String::new(),
            said: String::new(),
            lost_to_others: false,
        }
    }

    /// Lets Azure make all instances and gives each a machine and a Ready node.
    pub fn settle(&mut self) {
        self.azure();
        self.azure();
        for instance in &mut self.instances {
            instance.machine = Some(staying(&instance.id));
        }
        self.nodes();
        self.log.clear();
        self.made = 0;
    }

    pub fn observe(&self) -> Observed {
        let unread = |what: &str| self.unread.filter(|unread| *unread == what);
        Observed {
            at: self.now,
            looked_at: self.now,
            pool: self.pool.clone(),
            scale_set: match unread("azure") {
                Some(what) => Reading::Unknown(format!("reading {what} failed")),
                None => Reading::Known(self.scale_set.clone()),
            },
            instances: Reading::Known(self.instances.clone()),
            orphans: self.orphans.clone(),
            deletion_due: None,
            refused: self.refused.clone(),
            deletes_collide: self.deletes_collide,
            nodes: match unread("nodes") {
                Some(what) => Reading::Unknown(format!("reading {what} failed")),
                None => Reading::Known(()),
            },
        }
    }

    /// Plays a story in a fixed order and returns it as text.
    pub fn tell(mut self, title: &str, script: Script) -> String {
        let pool = &self.pool;
        let mut head = format!(
            "{title}\npool: {} replicas, surge {}, unavailable {}    order: fixed\n\n",
            pool.replicas, pool.max_surge, pool.max_unavailable
        );
        self.play(script, |_| {
            vec![Move::Plan, Move::Azure, Move::Nodes, Move::Drains]
        });
        head.push_str(&self.log);
        writeln!(
            head,
            "\nend    {} made, {} deleted",
            self.made, self.deleted
        )
        .unwrap();
        head
    }

    /// Plays a story in an order drawn from a seed.
    pub fn shuffle(mut self, script: Script, seed: u64) -> String {
        let mut dice = Dice(seed);
        self.play(script, |_| {
            let mut moves = vec![Move::Plan, Move::Azure, Move::Nodes, Move::Drains];
            for i in (1..moves.len()).rev() {
                moves.swap(i, dice.below(i as u64 + 1) as usize);
            }
            let mut drawn = Vec::new();
            for next in moves {
                match dice.below(10) {
                    0..3 => {}
                    3..6 => drawn.extend([next, next]),
                    _ => drawn.push(next),
                }
            }
            drawn
        });
        self.log
    }

    fn play(&mut self, script: Script, mut moves: impl FnMut(u32) -> Vec<Move>) {
        let start = self.now;
        for round in 0..ROUNDS_MAX {
            script(self, round);
            for next in moves(round) {
                match next {
                    Move::Plan => self.turn(start),
                    Move::Azure => self.azure_told(start),
                    Move::Nodes => self.nodes(),
                    Move::Drains => self.drains(),
                }
                self.check_ceiling();
            }
            self.now += ROUND;
            if round >= 10 && self.is_done() {
                return;
            }
        }
        panic!(
            "the story does not end:\n{}\n{:#?}",
            self.log,
            plan(&self.observe())
        );
    }

    fn is_done(&self) -> bool {
        if self.pool.deleting {
            return self.released;
        }
        let observed = self.observe();
        let plan = plan(&observed);
        let all_current = self.instances.iter().all(|instance| {
            instance.revision.as_ref() == Some(&self.pool.revision)
                && instance.node.as_ref().is_some_and(|node| node.ready)
        });
        plan.is_settled() && all_current && self.instances.len() as u32 == self.pool.replicas
    }

    fn turn(&mut self, start: Timestamp) {
        let observed = self.observe();
        let plan = plan(&observed);
        let broken = check::broken_promises(&observed, &plan);
        assert!(broken.is_empty(), "{broken:#?}\n{}", self.log);
        self.say_plan(start, &plan);
        for step in &plan.steps {
            self.apply(&step.action);
        }
    }

    fn say_plan(&mut self, start: Timestamp, plan: &Plan) {
        let bounds = Bounds::of(&self.pool);
        let ready = self.serving().count();
        let updated = self
            .serving()
            .filter(|instance| instance.revision.as_ref() == Some(&self.pool.revision))
            .count();
        let mut said = String::new();
        for step in &plan.steps {
            writeln!(said, "         {step}").unwrap();
        }
        for wait in &plan.waits {
            writeln!(said, "         wait: {}", wait.on).unwrap();
        }
        if said == self.said {
            return;
        }
        writeln!(
            self.log,
            "{}  plan   {ready}/{} ready (floor {}), {updated} updated, {} exist (ceiling {})",
            clock(self.now.duration_since(start)),
            self.pool.replicas,
            bounds.floor(),
            self.instances.len(),
            bounds.ceiling(),
        )
        .unwrap();
        self.log.push_str(if said.is_empty() {
            "         nothing to do\n"
        } else {
            &said
        });
        self.said = said;
    }

    fn serving(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(|instance| {
            !instance.is_leaving() && instance.node.as_ref().is_some_and(|node| node.ready)
        })
    }

    fn apply(&mut self, action: &Action) {
        match action {
            Action::CreateScaleSet { capacity } | Action::UpdateModel { capacity } => {
                self.scale_set = Some(ScaleSet {
                    capacity: *capacity,
                    revision: Some(self.pool.revision.clone()),
                    provisioning: Provisioning::Updating,
                });
            }
            Action::RaiseCapacity { to } | Action::PutBackCapacity { to } => {
                self.scale_set.as_mut().unwrap().capacity = *to;
            }
            Action::DeleteInstances { instances } => {
                for id in instances {
                    self.instance(id).provisioning = Provisioning::Deleting;
                }
                self.scale_set.as_mut().unwrap().capacity -= instances.len() as u32;
            }
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

    /// Asks the machine of an instance to go, as the planner or a user does.
    pub fn leave(&mut self, id: &str) {
        let since = self.now;
        let blocked = self.blocked.iter().any(|blocked| blocked == id);
        let blocked_by = blocked.then(|| "budget web/api".to_owned());
        let machine = self.instance(id).machine.as_mut().unwrap();
        machine.departure = Departure::Draining { since, blocked_by };
    }

    pub fn instance(&mut self, id: &str) -> &mut Instance {
        self.instances
            .iter_mut()
            .find(|instance| instance.id == id)
            .unwrap()
    }

    /// Takes an instance away as a platform fault does.
    pub fn vanish(&mut self, id: &str) {
        self.lost_to_others = true;
        let at = self
            .instances
            .iter()
            .position(|instance| instance.id == id)
            .unwrap();
        let instance = self.instances.remove(at);
        self.orphans.extend(instance.machine);
        self.scale_set.as_mut().unwrap().capacity -= 1;
    }

    fn azure_told(&mut self, start: Timestamp) {
        let (before, had): (Vec<_>, _) = (
            self.instances.iter().map(|i| i.id.clone()).collect(),
            self.instances.len(),
        );
        self.azure();
        let mut news = Vec::new();
        for instance in &self.instances {
            if !before.contains(&instance.id) {
                let revision = instance.revision.clone().unwrap();
                news.push(format!("+{} ({revision})", instance.id));
            }
        }
        for id in before
            .iter()
            .filter(|id| !self.instances.iter().any(|i| &i.id == *id))
        {
            news.push(format!("-{id}"));
        }
        if had != self.instances.len() || !news.is_empty() {
            let clock = clock(self.now.duration_since(start));
            writeln!(self.log, "{clock}  azure  {}", news.join(" ")).unwrap();
        }
    }

    fn azure(&mut self) {
        let Some(scale_set) = &mut self.scale_set else {
            return;
        };
        if scale_set.provisioning == Provisioning::Deleting {
            self.scale_set = None;
            self.orphans
                .extend(self.instances.drain(..).filter_map(|i| i.machine));
            return;
        }
        let (gone, mut kept): (Vec<_>, Vec<_>) = self
            .instances
            .drain(..)
            .partition(Instance::is_being_deleted);
        self.deleted += gone.len() as u32;
        self.orphans
            .extend(gone.into_iter().filter_map(|instance| instance.machine));
        for instance in kept
            .iter_mut()
            .filter(|i| i.provisioning == Provisioning::Creating)
        {
            instance.provisioning = Provisioning::Succeeded;
            instance.power = Power::Running;
        }
        while (kept.len() as u32) < scale_set.capacity {
            let id = self.next_id.to_string();
            self.next_id += 1;
            self.made += 1;
            let zone = (self.zones > 0).then(|| (self.next_id % self.zones + 1).to_string());
            kept.push(newborn(id, self.now, zone, scale_set.revision.clone()));
        }
        scale_set.provisioning = Provisioning::Succeeded;
        kept.sort_by_key(|instance| instance_order(&instance.id));
        self.instances = kept;
    }

    fn nodes(&mut self) {
        let now = self.now;
        for instance in &mut self.instances {
            let bad = self
                .bad
                .iter()
                .any(|bad| Some(revision(bad)) == instance.revision);
            if instance.provisioning == Provisioning::Succeeded && instance.node.is_none() && !bad {
                let name = format!("node-{}", instance.id);
                instance.node = Some(Node {
                    name,
                    ready: true,
                    since: now,
                    cordoned_by_us: false,
                });
            }
        }
    }

    fn drains(&mut self) {
        let now = self.now;
        for instance in &mut self.instances {
            let Some(machine) = &mut instance.machine else {
                continue;
            };
            if let Departure::Draining {
                blocked_by: None, ..
            } = machine.departure
            {
                machine.departure = Departure::Drained { since: now };
            }
        }
    }

    /// Lets a blocked drain go on.
    pub fn unblock(&mut self, id: &str) {
        self.blocked.clear();
        let machine = self.instance(id).machine.as_mut().unwrap();
        if let Departure::Draining { blocked_by, .. } = &mut machine.departure {
            *blocked_by = None;
        }
    }

    fn check_ceiling(&self) {
        let ceiling = Bounds::of(&self.pool).ceiling();
        let lowered = self.pool.name == "lowered";
        let total = self.instances.len() as u32;
        assert!(
            lowered || total <= ceiling,
            "{total} exist, {ceiling} may\n{}",
            self.log
        );
    }
}

fn newborn(
    id: String,
    created: Timestamp,
    zone: Option<String>,
    revision: Option<Revision>,
) -> Instance {
    Instance {
        vm_id: format!("vm-{id}"),
        id,
        created,
        provisioning: Provisioning::Creating,
        power: Power::Unknown,
        zone,
        protected: false,
        revision,
        machine: None,
        node: None,
    }
}

fn staying(id: &str) -> Machine {
    Machine {
        name: format!("pool-{id}"),
        delete_marked: false,
        departure: Departure::Staying,
    }
}

fn clock(elapsed: SignedDuration) -> String {
    let seconds = elapsed.as_secs();
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

#[derive(Clone, Copy)]
enum Move {
    Plan,
    Azure,
    Nodes,
    Drains,
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}
