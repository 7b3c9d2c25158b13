//! Which pools are searched, and how much may happen to each.

use std::fmt;

use crate::state::{End, Health, Object, Refused, Set, State, Vm, Work};

/// What Azure does with a write while another one is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Azure {
    /// It accepts.
    Accepts,
    /// It refuses a second delete, and accepts the rest.
    RefusesDeletes,
    /// It refuses every write.
    RefusesAll,
}

/// One search: a pool's numbers, its surroundings, and how much may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub replicas: u8,
    pub surge: u8,
    pub unavailable: u8,
    pub autoscaled: bool,
    /// Whether drained instances wait for company.
    pub patience: bool,
    /// Whether a node has to be Ready for a while before it counts.
    pub min_ready: bool,
    pub azure: Azure,
    /// Whether there are revisions that never serve.
    pub bad: bool,
    /// Whether drains may be blocked, for ever if nobody helps.
    pub blocks: bool,
    /// How many faults there may be.
    pub faults: u8,
    /// How many changes by users, besides the first rollout.
    pub edits: u8,
}

impl Config {
    /// A pool in plain surroundings to which nothing happens.
    pub fn of(replicas: u8, surge: u8, unavailable: u8) -> Config {
        Config {
            replicas,
            surge,
            unavailable,
            autoscaled: false,
            patience: false,
            min_ready: false,
            azure: Azure::Accepts,
            bad: true,
            blocks: true,
            faults: 0,
            edits: 0,
        }
    }

    pub fn with(mut self, faults: u8, edits: u8) -> Config {
        (self.faults, self.edits) = (faults, edits);
        self
    }

    /// Surge and unavailable for so many replicas, worked out apart from the planner.
    pub fn allowance(&self, replicas: u8) -> (u8, u8) {
        let unavailable = self.unavailable.min(replicas);
        if self.autoscaled {
            (0, unavailable)
        } else if self.surge == 0 && self.unavailable == 0 {
            (0, replicas.min(1))
        } else {
            (self.surge, unavailable)
        }
    }

    /// Where the search begins: no pool yet, a pool at rest, and one that has to roll, to a good
    /// revision or to one that never serves.
    pub fn beginnings(&self) -> Vec<State> {
        let empty = State {
            vms: [0; 8],
            replicas: self.replicas,
            wanted: 1,
            bad: 0,
            set: None,
            orphans: 0,
            refused: Refused::No,
            collided: false,
            end: End::Stays,
            faults: self.faults,
            edits: self.edits,
        };
        let serving = Vm::Here {
            revision: 1,
            health: Health::Serving,
            object: Object::Machine,
        };
        let mut settled = empty.with(&vec![serving.byte(); usize::from(self.replicas)]);
        settled.set = Some(Set {
            capacity: self.replicas,
            revision: 1,
            work: Work::Done,
        });
        let rolling = State {
            wanted: 2,
            ..settled
        };
        let doomed = State {
            bad: 1 << 2,
            ..rolling
        };
        let mut beginnings = vec![empty, settled, rolling, doomed];
        beginnings.truncate(if self.bad { 4 } else { 3 });
        beginnings
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config {
            replicas,
            surge,
            unavailable,
            ..
        } = self;
        write!(f, "N {replicas} S {surge} U {unavailable}")?;
        write!(f, ", {} faults, {} edits", self.faults, self.edits)?;
        let words = [
            (self.autoscaled, "autoscaled"),
            (self.patience, "patient"),
            (self.min_ready, "min ready"),
            (!self.bad, "good revisions only"),
            (!self.blocks, "drains end"),
            (self.azure == Azure::RefusesDeletes, "deletes collide"),
            (self.azure == Azure::RefusesAll, "writes collide"),
        ];
        for (_, word) in words.iter().filter(|(is, _)| *is) {
            write!(f, ", {word}")?;
        }
        Ok(())
    }
}
