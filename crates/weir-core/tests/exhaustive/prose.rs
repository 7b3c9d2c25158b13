//! A counterexample as a person reads it: what happens, and what the pool is like then.

use std::fmt;

use crate::state::{End, Exit, Health, Object, Refused, State, Vm, Work};

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Health::Creating => "being made",
            Health::CreatingLate => "still being made after the join limit",
            Health::Joining => "joining",
            Health::Late => "never joined",
            Health::LateAncient => "never joined, long ago",
            Health::Failed => "failed",
            Health::FailedAncient => "failed, long ago",
            Health::Settling => "Ready a moment",
            Health::Serving => "serving",
            Health::UnreadyYoung => "young and not Ready",
            Health::Unready => "not Ready",
            Health::Dead => "not Ready past the limit",
            Health::DeadAncient => "not Ready, long ago",
            Health::Stopped => "stopped",
            Health::StoppedAncient => "stopped, long ago",
        })
    }
}

impl fmt::Display for Vm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vm::Here {
                revision,
                health,
                object,
            } => {
                write!(f, "v{revision} {health}")?;
                f.write_str(match object {
                    Object::None => ", no machine",
                    Object::Machine => "",
                    Object::Marked => ", marked",
                })
            }
            Vm::Going(exit) => f.write_str(match exit {
                Exit::Draining => "draining",
                Exit::Blocked => "drain blocked",
                Exit::JustDrained => "just drained",
                Exit::Drained => "drained",
                Exit::Deleting => "being deleted",
                Exit::DeletingBare => "being deleted, no machine",
            }),
        }
    }
}

/// The pool in one line, with the instances in this order and under the ids that a turn sees.
pub fn picture(state: &State, order: &[u8]) -> String {
    let mut words = vec![format!("{} of v{} wanted", state.replicas, state.wanted)];
    match state.end {
        End::Stays => {}
        End::Asked => words.push("pool being deleted".to_owned()),
        End::Released => words.push("pool released".to_owned()),
    }
    match state.set {
        None => words.push("no scale set".to_owned()),
        Some(set) => {
            let work = match set.work {
                Work::Creating => ", being made",
                Work::Updating => ", being changed",
                Work::Done => "",
                Work::Failed => ", failed",
                Work::Deleting => ", being deleted",
            };
            let (revision, capacity) = (set.revision, set.capacity);
            words.push(format!("set of v{revision}, capacity {capacity}{work}"));
        }
    }
    match state.refused {
        Refused::No => {}
        Refused::Stands(fits) => words.push(format!("refused beyond {fits}")),
        Refused::Due(fits) => words.push(format!("refused beyond {fits}, time to ask again")),
    }
    if state.collided {
        words.push("deletes collide".to_owned());
    }
    if state.orphans > 0 {
        words.push(format!("{} machines without instance", state.orphans));
    }
    let instances: Vec<String> = order
        .iter()
        .enumerate()
        .map(|(id, byte)| format!("{id} {}", Vm::of(*byte)))
        .collect();
    format!("{} | {}", words.join("; "), instances.join(" / "))
}
