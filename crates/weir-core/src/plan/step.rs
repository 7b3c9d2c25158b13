//! What can be done, and the words for why.

use std::fmt;

/// One thing to do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What to do.
    pub action: Action,
    /// Why.
    pub because: Reason,
}

/// One effect; doing it twice is as good as once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Make the scale set with this capacity.
    CreateScaleSet {
        /// How many instances to ask for.
        capacity: u32,
    },
    /// Write the wanted model and this capacity in one request.
    UpdateModel {
        /// How many instances to ask for.
        capacity: u32,
    },
    /// Ask for more instances.
    RaiseCapacity {
        /// How many to ask for in all.
        to: u32,
    },
    /// Take back what Azure did not make: ask for exactly the instances that exist.
    PutBackCapacity {
        /// How many exist.
        to: u32,
    },
    /// Delete these instances, and no others, in one request.
    DeleteInstances {
        /// Their ids, in order.
        instances: Vec<String>,
    },
    /// Delete the scale set with everything in it.
    DeleteScaleSet,
    /// Make the pool machine of this instance.
    AddMachine {
        /// The instance's id.
        instance: String,
    },
    /// Ask the machine of this instance to go: its node is drained first.
    RemoveMachine {
        /// The instance's id.
        instance: String,
    },
    /// Let the objects of a machine go, as its instance has gone.
    ReleaseMachine {
        /// The name of the pool machine.
        machine: String,
    },
    /// Let the pool object go, as nothing of it is left.
    ReleasePool,
}

/// Why a step is taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// There is no scale set yet.
    NoScaleSet,
    /// The wanted model differs from the scale set's.
    ModelChanged,
    /// Old instances are to be replaced and the ceiling leaves room.
    Surge {
        /// N.
        replicas: u32,
        /// S.
        surge: u32,
    },
    /// There are fewer instances than asked for.
    TooFew {
        /// N.
        replicas: u32,
    },
    /// Azure refused to make more than exist.
    Refused {
        /// Azure's code.
        code: String,
    },
    /// There are more instances than asked for.
    Surplus {
        /// N.
        replicas: u32,
    },
    /// The instance will not serve by itself.
    Broken {
        /// What is wrong with it.
        why: String,
    },
    /// The instance was being made for a revision that nobody wants any more.
    Abandoned,
    /// The instance serves, a health check wants it replaced, and the floor allows it to go.
    Unhealthy {
        /// What was found.
        why: String,
    },
    /// The instance serves with an old model and the floor allows it to go.
    OldModel,
    /// The drain is over.
    Drained,
    /// The instance has no object yet.
    NoMachine,
    /// Azure no longer lists the instance.
    InstanceGone,
    /// The pool object is being deleted.
    PoolDeleted,
    /// Nothing is left of the pool.
    NothingLeft,
}

impl Step {
    pub(super) fn new(action: Action, because: Reason) -> Step {
        Step { action, because }
    }

    pub(super) fn release(machine: &str, because: Reason) -> Step {
        Step::new(
            Action::ReleaseMachine {
                machine: machine.to_owned(),
            },
            because,
        )
    }
}

impl Action {
    /// Returns whether it writes to Azure.
    #[must_use]
    pub fn is_azure_write(&self) -> bool {
        match self {
            Action::CreateScaleSet { .. }
            | Action::UpdateModel { .. }
            | Action::RaiseCapacity { .. }
            | Action::PutBackCapacity { .. }
            | Action::DeleteInstances { .. }
            | Action::DeleteScaleSet => true,
            Action::AddMachine { .. }
            | Action::RemoveMachine { .. }
            | Action::ReleaseMachine { .. }
            | Action::ReleasePool => false,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} because {}", self.action, self.because)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::CreateScaleSet { capacity } => write!(f, "create scale set of {capacity}"),
            Action::UpdateModel { capacity } => write!(f, "update model, capacity {capacity}"),
            Action::RaiseCapacity { to } => write!(f, "raise capacity to {to}"),
            Action::PutBackCapacity { to } => write!(f, "put capacity back to {to}"),
            Action::DeleteInstances { instances } => write!(f, "delete {}", instances.join(", ")),
            Action::DeleteScaleSet => f.write_str("delete scale set"),
            Action::AddMachine { instance } => write!(f, "add machine for {instance}"),
            Action::RemoveMachine { instance } => write!(f, "remove {instance}"),
            Action::ReleaseMachine { machine } => write!(f, "release machine {machine}"),
            Action::ReleasePool => f.write_str("release pool"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoScaleSet => f.write_str("there is no scale set yet"),
            Reason::ModelChanged => f.write_str("the model changed"),
            Reason::Surge { replicas, surge } => {
                write!(f, "{replicas} + surge {surge} leaves room")
            }
            Reason::TooFew { replicas } => write!(f, "fewer than {replicas} exist"),
            Reason::Refused { code } => write!(f, "Azure refused to make more: {code}"),
            Reason::Surplus { replicas } => write!(f, "more than {replicas} exist"),
            Reason::Broken { why } => f.write_str(why),
            Reason::Abandoned => f.write_str("its model is abandoned and it never served"),
            Reason::Unhealthy { why } => write!(f, "it is unhealthy and can be spared: {why}"),
            Reason::OldModel => f.write_str("it has an old model and can be spared"),
            Reason::Drained => f.write_str("the drain is over"),
            Reason::NoMachine => f.write_str("it has no object yet"),
            Reason::InstanceGone => f.write_str("its instance is gone"),
            Reason::PoolDeleted => f.write_str("the pool is being deleted"),
            Reason::NothingLeft => f.write_str("nothing of it is left"),
        }
    }
}
