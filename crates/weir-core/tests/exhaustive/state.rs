//! A pool as small as the planner can tell pools apart, and its name as one number.
//!
//! Instances have no names here: a state holds a sorted list of what each one is, so that pools
//! which differ by names only are one state. Who goes first among equals does depend on names and
//! ages; `observe::orders` brings that back by trying every order the planner could be given.

/// How well an instance is that nobody asked to go.
///
/// Ages are on one side or the other of the limit that matters; "ancient" is past the moment at
/// which a broken instance of a revision that never served is tried anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Creating,
    CreatingLate,
    Joining,
    Late,
    LateAncient,
    Failed,
    FailedAncient,
    /// Its node is Ready, but for less than `min_ready`.
    Settling,
    Serving,
    /// Its node is not Ready and it is younger than the join limit.
    UnreadyYoung,
    Unready,
    Dead,
    DeadAncient,
    Stopped,
    StoppedAncient,
}

const HEALTHS: [Health; 15] = [
    Health::Creating,
    Health::CreatingLate,
    Health::Joining,
    Health::Late,
    Health::LateAncient,
    Health::Failed,
    Health::FailedAncient,
    Health::Settling,
    Health::Serving,
    Health::UnreadyYoung,
    Health::Unready,
    Health::Dead,
    Health::DeadAncient,
    Health::Stopped,
    Health::StoppedAncient,
];

impl Health {
    pub fn is_broken(self) -> bool {
        match self {
            Health::CreatingLate
            | Health::Late
            | Health::LateAncient
            | Health::Failed
            | Health::FailedAncient
            | Health::Dead
            | Health::DeadAncient
            | Health::Stopped
            | Health::StoppedAncient => true,
            Health::Creating
            | Health::Joining
            | Health::Settling
            | Health::Serving
            | Health::UnreadyYoung
            | Health::Unready => false,
        }
    }

    pub fn is_starting(self) -> bool {
        matches!(
            self,
            Health::Creating | Health::Joining | Health::Settling | Health::UnreadyYoung
        )
    }

    /// Whether its node tells that it served at some time.
    pub fn has_served(self) -> bool {
        matches!(
            self,
            Health::Serving
                | Health::Unready
                | Health::Dead
                | Health::DeadAncient
                | Health::StoppedAncient
        )
    }

    /// The same, once the time of another try has come.
    pub fn aged(self) -> Option<Health> {
        match self {
            Health::Late => Some(Health::LateAncient),
            Health::Failed => Some(Health::FailedAncient),
            Health::Dead => Some(Health::DeadAncient),
            Health::Stopped => Some(Health::StoppedAncient),
            _ => None,
        }
    }
}

/// How far an instance is on its way out. How well it was matters to nobody any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Draining,
    Blocked,
    /// Drained for less than the pool's patience.
    JustDrained,
    Drained,
    Deleting,
    /// Being deleted by somebody else before a machine was made for it.
    DeletingBare,
}

const EXITS: [Exit; 6] = [
    Exit::Draining,
    Exit::Blocked,
    Exit::JustDrained,
    Exit::Drained,
    Exit::Deleting,
    Exit::DeletingBare,
];

/// The management cluster's object for an instance that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    None,
    Machine,
    Marked,
}

const OBJECTS: [Object; 3] = [Object::None, Object::Machine, Object::Marked];

/// One instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vm {
    Here {
        revision: u8,
        health: Health,
        object: Object,
    },
    Going(Exit),
}

impl Vm {
    /// The instance as one byte; 0 stands for none.
    pub fn byte(self) -> u8 {
        match self {
            Vm::Here {
                revision,
                health,
                object,
            } => revision << 6 | (object as u8) << 4 | health as u8,
            Vm::Going(exit) => exit as u8 + 1,
        }
    }

    pub fn of(byte: u8) -> Vm {
        let low = usize::from(byte & 15);
        match byte >> 6 {
            0 => Vm::Going(EXITS[low - 1]),
            revision => Vm::Here {
                revision,
                health: HEALTHS[low],
                object: OBJECTS[usize::from(byte >> 4 & 3)],
            },
        }
    }

    pub fn has_served(self) -> bool {
        matches!(self, Vm::Here { health, .. } if health.has_served())
    }

    pub fn is_serving(self) -> bool {
        matches!(
            self,
            Vm::Here {
                health: Health::Serving,
                ..
            }
        )
    }

    pub fn is_deleting(self) -> bool {
        matches!(self, Vm::Going(Exit::Deleting | Exit::DeletingBare))
    }

    pub fn is_here(self, revision: u8) -> bool {
        matches!(self, Vm::Here { revision: r, .. } if r == revision)
    }

    pub fn has_object(self) -> bool {
        match self {
            Vm::Here { object, .. } => object != Object::None,
            Vm::Going(exit) => exit != Exit::DeletingBare,
        }
    }

    /// The same instance in another health.
    pub fn with(self, health: Health) -> Vm {
        match self {
            Vm::Here {
                revision, object, ..
            } => Vm::Here {
                revision,
                health,
                object,
            },
            Vm::Going(_) => self,
        }
    }

    /// The instance once Azure has accepted its deletion, whoever asked.
    pub fn deleting(self) -> Vm {
        if self.has_object() {
            Vm::Going(Exit::Deleting)
        } else {
            Vm::Going(Exit::DeletingBare)
        }
    }
}

/// What Azure is doing with the scale set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Creating,
    Updating,
    Done,
    Failed,
    Deleting,
}

const WORKS: [Work; 5] = [
    Work::Creating,
    Work::Updating,
    Work::Done,
    Work::Failed,
    Work::Deleting,
];

/// The scale set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    pub capacity: u8,
    pub revision: u8,
    pub work: Work,
}

impl Set {
    pub fn is_busy(self) -> bool {
        matches!(self.work, Work::Creating | Work::Updating)
    }
}

/// Azure's refusal to make instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    No,
    /// It stands, and so many instances existed then.
    Stands(u8),
    /// The time to ask again has come.
    Due(u8),
}

/// How far the deletion of the pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Stays,
    Asked,
    Released,
}

/// How many instances a state holds at most: 4 wanted, 2 surge, and 2 that somebody else added.
pub const ROOM: usize = 8;

/// A pool and all that the environment needs to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Sorted downwards, so that the empty places come last.
    pub vms: [u8; ROOM],
    pub replicas: u8,
    pub wanted: u8,
    /// The revisions whose instances never join, as bits.
    pub bad: u8,
    pub set: Option<Set>,
    pub orphans: u8,
    pub refused: Refused,
    /// Whether Azure refused a delete because another one ran.
    pub collided: bool,
    pub end: End,
    /// How much may still go wrong.
    pub faults: u8,
    /// How much users may still change.
    pub edits: u8,
}

impl State {
    pub fn vms(&self) -> impl Iterator<Item = Vm> {
        self.bytes().iter().map(|byte| Vm::of(*byte))
    }

    pub fn bytes(&self) -> &[u8] {
        let count = self.vms.iter().take_while(|byte| **byte != 0).count();
        &self.vms[..count]
    }

    pub fn count(&self, claim: impl Fn(Vm) -> bool) -> u8 {
        self.vms().filter(|vm| claim(*vm)).count() as u8
    }

    /// How many instances were asked of Azure and are not listed.
    pub fn pending(&self) -> u8 {
        let staying = self.count(|vm| !vm.is_deleting());
        self.set
            .map_or(0, |set| set.capacity.saturating_sub(staying))
    }

    /// How many instances exist or are asked for.
    pub fn total(&self) -> u8 {
        self.bytes().len() as u8 + self.pending()
    }

    pub fn is_bad(&self, revision: u8) -> bool {
        self.bad >> revision & 1 == 1
    }

    /// The same pool with these instances.
    pub fn with(mut self, vms: &[u8]) -> State {
        self.vms = [0; ROOM];
        self.vms[..vms.len()].copy_from_slice(vms);
        self.vms.sort_unstable_by(|a, b| b.cmp(a));
        self
    }

    pub fn replaced(self, index: usize, vm: Vm) -> State {
        let mut next = self;
        next.vms[index] = vm.byte();
        next.vms.sort_unstable_by(|a, b| b.cmp(a));
        next
    }

    pub fn removed(self, index: usize) -> State {
        let mut next = self;
        next.vms[index] = 0;
        next.vms.sort_unstable_by(|a, b| b.cmp(a));
        next
    }

    /// The state as a number; equal states and no others have equal numbers.
    pub fn key(&self) -> u128 {
        let mut bits = Bits(u128::from(u64::from_be_bytes(self.vms)));
        bits.push(3, self.replicas);
        bits.push(2, self.wanted);
        bits.push(4, self.bad);
        let set = self.set.unwrap_or(Set {
            capacity: 0,
            revision: 0,
            work: Work::Done,
        });
        bits.push(1, u8::from(self.set.is_some()));
        bits.push(4, set.capacity);
        bits.push(2, set.revision);
        bits.push(3, set.work as u8);
        bits.push(4, self.orphans);
        let (kind, fits) = match self.refused {
            Refused::No => (0, 0),
            Refused::Stands(fits) => (1, fits),
            Refused::Due(fits) => (2, fits),
        };
        bits.push(2, kind);
        bits.push(4, fits);
        bits.push(1, u8::from(self.collided));
        bits.push(2, self.end as u8);
        bits.push(3, self.faults);
        bits.push(3, self.edits);
        bits.0
    }

    pub fn of(key: u128) -> State {
        let mut bits = Bits(key);
        let edits = bits.pop(3);
        let faults = bits.pop(3);
        let end = [End::Stays, End::Asked, End::Released][usize::from(bits.pop(2))];
        let collided = bits.pop(1) == 1;
        let fits = bits.pop(4);
        let refused = [Refused::No, Refused::Stands(fits), Refused::Due(fits)];
        let refused = refused[usize::from(bits.pop(2))];
        let orphans = bits.pop(4);
        let work = WORKS[usize::from(bits.pop(3))];
        let revision = bits.pop(2);
        let capacity = bits.pop(4);
        let set = (bits.pop(1) == 1).then_some(Set {
            capacity,
            revision,
            work,
        });
        let bad = bits.pop(4);
        let wanted = bits.pop(2);
        let replicas = bits.pop(3);
        State {
            vms: (bits.0 as u64).to_be_bytes(),
            replicas,
            wanted,
            bad,
            set,
            orphans,
            refused,
            collided,
            end,
            faults,
            edits,
        }
    }
}

struct Bits(u128);

impl Bits {
    fn push(&mut self, width: u32, value: u8) {
        assert!(
            u32::from(value) < 1 << width,
            "{value} fits in {width} bits"
        );
        self.0 = self.0 << width | u128::from(value);
    }

    fn pop(&mut self, width: u32) -> u8 {
        let value = self.0 & ((1 << width) - 1);
        self.0 >>= width;
        value as u8
    }
}
