//! What others do: Azure, nodes, drains, users, autoscalers, and time.

use std::fmt;

use crate::config::Config;
use crate::state::{End, Exit, Health, Object, ROOM, Refused, Set, State, Vm, Work};
use crate::turn::Extent;

/// What sort of move it is, which decides what it may be relied on for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It happens sooner or later unless it stops being possible: work that ends, time that
    /// passes, a turn of the controller that changes something.
    Fair,
    /// It may happen or not, as often as it can: luck, and people who help.
    Luck,
    /// It may happen as often as it can, but not for ever: the controller dies, Azure is out.
    Crash,
    /// It costs one of the faults.
    Fault,
    /// It costs one of the edits.
    Edit,
}

/// One move, in enough detail to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// A turn of the controller, with the instances in the order of this number.
    Turn {
        order: usize,
        extent: Extent,
    },
    /// An instance becomes another.
    Instance {
        from: Vm,
        to: Vm,
    },
    Listed,
    OperationEnds,
    OperationFails,
    Refuses,
    RetryComes,
    Gone(Vm),
    Vanishes(Vm),
    DeleteFails,
    SetGoes,
    SetGone,
    RaisedByHand,
    Count(u8),
    Revision {
        to: u8,
        bad: bool,
    },
    PoolDeleted,
    AutoscalerAdds,
    AutoscalerTakes(Vm),
}

/// What can come next, with the state it leads to.
pub type Nexts = Vec<(Move, Class, State)>;

/// Adds every move that is not the planner's.
pub fn environment(config: &Config, state: &State, nexts: &mut Nexts) {
    if state.end == End::Released {
        return;
    }
    let mut env = Environment {
        config,
        state,
        nexts,
    };
    if let Some(set) = state.set {
        if set.work == Work::Deleting {
            env.add(Class::Fair, Move::SetGone, without_set(state));
            return;
        }
        env.scale_set(set);
        for (index, byte) in state.bytes().iter().enumerate() {
            // Equal instances lead to equal states.
            if index == 0 || state.vms[index - 1] != *byte {
                env.instance(index, Vm::of(*byte));
            }
        }
    }
    if let Refused::Stands(fits) = state.refused {
        let mut next = *state;
        next.refused = Refused::Due(fits);
        env.add(Class::Fair, Move::RetryComes, next);
    }
    if state.end == End::Stays {
        env.user();
    }
}

struct Environment<'e> {
    config: &'e Config,
    state: &'e State,
    nexts: &'e mut Nexts,
}

impl Environment<'_> {
    fn add(&mut self, class: Class, what: Move, mut next: State) {
        match class {
            Class::Fair | Class::Luck | Class::Crash => {}
            Class::Fault if next.faults == 0 => return,
            Class::Fault => next.faults -= 1,
            Class::Edit if next.edits == 0 => return,
            Class::Edit => next.edits -= 1,
        }
        self.nexts.push((what, class, next));
    }

    fn become_other(&mut self, class: Class, index: usize, to: Vm) {
        let from = Vm::of(self.state.vms[index]);
        let what = Move::Instance { from, to };
        self.add(class, what, self.state.replaced(index, to));
    }

    fn scale_set(&mut self, set: Set) {
        let state = *self.state;
        let room = state.bytes().len() < ROOM;
        if set.is_busy() && state.pending() > 0 && room {
            let newborn = Vm::Here {
                revision: set.revision,
                health: Health::Creating,
                object: Object::None,
            };
            let vms = [state.bytes(), &[newborn.byte()]].concat();
            self.add(Class::Fair, Move::Listed, state.with(&vms));
            let mut next = with_work(&state, Work::Failed);
            next.refused = Refused::Stands(state.bytes().len() as u8);
            self.add(Class::Fault, Move::Refuses, next);
        }
        if set.is_busy() && state.pending() == 0 {
            let mut next = with_work(&state, Work::Done);
            // What was asked for again was made: the refusal no longer stands.
            if let Refused::Due(_) = next.refused {
                next.refused = Refused::No;
            }
            self.add(Class::Fair, Move::OperationEnds, next);
            let failed = with_work(&state, Work::Failed);
            self.add(Class::Fault, Move::OperationFails, failed);
        }
        let deleting = with_work(&state, Work::Deleting);
        self.add(Class::Fault, Move::SetGoes, deleting);
        let ceiling = state.replicas + self.config.allowance(state.replicas).0;
        if !self.config.autoscaled && state.total() <= ceiling && room {
            let next = with_capacity(&with_work(&state, Work::Updating), 1);
            self.add(Class::Fault, Move::RaisedByHand, next);
        }
    }

    fn instance(&mut self, index: usize, vm: Vm) {
        match vm {
            Vm::Here {
                revision,
                health,
                object,
            } => {
                self.health(index, revision, health);
                self.gone_without_us(index, vm);
                self.edited(index, vm, object);
            }
            Vm::Going(exit) => self.exit(index, exit),
        }
    }

    fn health(&mut self, index: usize, revision: u8, health: Health) {
        use Health as H;
        let is_bad = self.state.is_bad(revision);
        let is_early = self.state.set.is_some_and(Set::is_busy)
            || matches!(self.state.refused, Refused::Stands(_));
        let ready = if self.config.min_ready {
            H::Settling
        } else {
            H::Serving
        };
        let mut add = |class: Class, to: &[Health]| {
            for health in to {
                let to = Vm::of(self.state.vms[index]).with(*health);
                self.become_other(class, index, to);
            }
        };
        match health {
            H::Creating => {
                add(Class::Fair, &[H::Joining]);
                add(Class::Fault, &[H::CreatingLate, H::Failed]);
            }
            H::CreatingLate => add(Class::Fair, &[H::Late]),
            // Azure ends its work and may be asked again within minutes, the join limit is longer.
            H::Joining if is_bad && is_early => {}
            H::Joining if is_bad => add(Class::Fair, &[H::Late]),
            H::Joining => {
                add(Class::Fair, &[ready]);
                add(Class::Fault, &[H::Late, H::Failed]);
            }
            H::Settling => {
                add(Class::Fair, &[H::Serving]);
                add(Class::Fault, &[H::UnreadyYoung]);
            }
            H::Serving => {
                let worse = [H::UnreadyYoung, H::Unready, H::Stopped, H::StoppedAncient];
                add(Class::Fault, &worse);
            }
            H::UnreadyYoung => {
                add(Class::Fair, &[H::Unready]);
                add(Class::Luck, &[ready]);
            }
            H::Unready => {
                add(Class::Fair, &[H::Dead]);
                add(Class::Luck, &[ready]);
            }
            H::Dead => add(Class::Luck, &[ready]),
            H::Late
            | H::LateAncient
            | H::Failed
            | H::FailedAncient
            | H::DeadAncient
            | H::Stopped
            | H::StoppedAncient => {}
        }
        // The next try matters to the wanted revision only. Of a bad one it could go on for ever,
        // which is right, so that each try is counted as a fault.
        if let Some(aged) = health.aged()
            && revision == self.state.wanted
        {
            let class = if is_bad { Class::Fault } else { Class::Fair };
            let to = Vm::of(self.state.vms[index]).with(aged);
            self.become_other(class, index, to);
        }
    }

    fn exit(&mut self, index: usize, exit: Exit) {
        let vm = Vm::Going(exit);
        match exit {
            Exit::Draining => {
                let over = if self.config.patience {
                    Exit::JustDrained
                } else {
                    Exit::Drained
                };
                self.become_other(Class::Fair, index, Vm::Going(over));
                if self.config.blocks {
                    self.become_other(Class::Fault, index, Vm::Going(Exit::Blocked));
                }
                self.gone_without_us(index, vm);
            }
            Exit::Blocked => {
                self.become_other(Class::Luck, index, Vm::Going(Exit::Draining));
                self.gone_without_us(index, vm);
            }
            Exit::JustDrained => {
                self.become_other(Class::Fair, index, Vm::Going(Exit::Drained));
                self.gone_without_us(index, vm);
            }
            Exit::Drained => self.gone_without_us(index, vm),
            Exit::Deleting | Exit::DeletingBare => {
                let next = gone(self.state, index);
                self.add(Class::Fair, Move::Gone(vm), next);
                if exit == Exit::Deleting {
                    let next = with_capacity(self.state, 1);
                    let next = next.replaced(index, Vm::Going(Exit::Drained));
                    self.add(Class::Fault, Move::DeleteFails, next);
                }
            }
        }
    }

    /// A fault of the platform, or somebody who knows better.
    fn gone_without_us(&mut self, index: usize, vm: Vm) {
        let next = gone(&with_capacity(self.state, -1), index);
        self.add(Class::Fault, Move::Vanishes(vm), next);
    }

    fn edited(&mut self, index: usize, vm: Vm, object: Object) {
        let state = *self.state;
        if self.config.autoscaled && state.replicas > 0 {
            let mut next = with_capacity(&state, -1).replaced(index, vm.deleting());
            next.replicas -= 1;
            self.add(Class::Edit, Move::AutoscalerTakes(vm), next);
        }
        if object != Object::None {
            self.become_other(Class::Edit, index, Vm::Going(Exit::Draining));
        }
        if let (
            Object::Machine,
            Vm::Here {
                revision, health, ..
            },
        ) = (object, vm)
        {
            let marked = Vm::Here {
                revision,
                health,
                object: Object::Marked,
            };
            self.become_other(Class::Edit, index, marked);
        }
    }

    fn user(&mut self) {
        let state = *self.state;
        if self.config.autoscaled {
            if state.set.is_some() && state.replicas < 4 && state.bytes().len() < ROOM {
                let mut next = with_capacity(&with_work(&state, Work::Updating), 1);
                next.replicas += 1;
                self.add(Class::Edit, Move::AutoscalerAdds, next);
            }
        } else {
            for replicas in (0..=4).filter(|count| *count != state.replicas) {
                let next = State { replicas, ..state };
                self.add(Class::Edit, Move::Count(replicas), next);
            }
        }
        let newest = newest_revision(&state);
        for to in (1..=newest + 1).filter(|to| *to <= 3 && *to != state.wanted) {
            let mut next = State {
                wanted: to,
                ..state
            };
            self.add(Class::Edit, Move::Revision { to, bad: false }, next);
            if to > newest && self.config.bad {
                next.bad |= 1 << to;
                self.add(Class::Edit, Move::Revision { to, bad: true }, next);
            }
        }
        let end = End::Asked;
        self.add(Class::Edit, Move::PoolDeleted, State { end, ..state });
    }
}

fn newest_revision(state: &State) -> u8 {
    let made = state.vms().map(|vm| match vm {
        Vm::Here { revision, .. } => revision,
        Vm::Going(_) => 0,
    });
    let bad = (1..=3).filter(|revision| state.is_bad(*revision));
    let model = state.set.map_or(0, |set| set.revision);
    let known = made.chain(bad).chain([model, state.wanted]);
    known.max().unwrap_or(0)
}

fn with_work(state: &State, work: Work) -> State {
    let set = state.set.map(|set| Set { work, ..set });
    State { set, ..*state }
}

fn with_capacity(state: &State, more: i8) -> State {
    let set = state.set.map(|set| Set {
        capacity: set.capacity.saturating_add_signed(more),
        ..set
    });
    State { set, ..*state }
}

/// The instance is listed no longer; its object stays behind.
fn gone(state: &State, index: usize) -> State {
    let orphan = Vm::of(state.vms[index]).has_object();
    let mut next = state.removed(index);
    next.orphans += u8::from(orphan);
    next
}

fn without_set(state: &State) -> State {
    let mut next = state.with(&[]);
    next.orphans += state.count(Vm::has_object);
    next.set = None;
    next.refused = Refused::No;
    next.collided = false;
    next
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Move::Turn { extent, .. } => match extent {
                Extent::All => f.write_str("a turn"),
                Extent::First(count) => write!(f, "a turn that dies after {count} steps"),
                Extent::WithoutAzure => f.write_str("a turn to which Azure answers nothing"),
            },
            Move::Instance { from, to } => write!(f, "[{from}] becomes [{to}]"),
            Move::Listed => f.write_str("Azure lists another instance"),
            Move::OperationEnds => f.write_str("Azure has ended its work on the scale set"),
            Move::OperationFails => f.write_str("Azure's work on the scale set fails"),
            Move::Refuses => f.write_str("Azure refuses to make the rest"),
            Move::RetryComes => f.write_str("the time to ask again comes"),
            Move::Gone(vm) => write!(f, "[{vm}] is gone"),
            Move::Vanishes(vm) => write!(f, "[{vm}] vanishes without us"),
            Move::DeleteFails => f.write_str("Azure fails to delete an instance"),
            Move::SetGoes => f.write_str("somebody deletes the scale set"),
            Move::SetGone => f.write_str("Azure has deleted the scale set"),
            Move::RaisedByHand => f.write_str("somebody raises the capacity by one"),
            Move::Count(count) => write!(f, "the user asks for {count}"),
            Move::Revision { to, bad: false } => write!(f, "the user asks for v{to}"),
            Move::Revision { to, bad: true } => {
                write!(f, "the user asks for v{to}, which never serves")
            }
            Move::PoolDeleted => f.write_str("the user deletes the pool"),
            Move::AutoscalerAdds => f.write_str("the autoscaler adds one"),
            Move::AutoscalerTakes(vm) => write!(f, "the autoscaler takes [{vm}]"),
        }
    }
}
