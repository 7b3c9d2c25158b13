//! Carries out a plan's steps on a state, as Azure and the management cluster would.

use weir_core::Plan;
use weir_core::plan::{Action, Step};

use crate::config::{Azure, Config};
use crate::state::{End, Exit, Object, Set, State, Vm, Work};

/// How much of a plan is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    All,
    /// The controller dies after so many steps.
    First(usize),
    /// Azure answers nothing, the management cluster does.
    WithoutAzure,
}

/// The state after the turn.
pub fn carry_out(
    config: &Config,
    state: &State,
    order: &[u8],
    plan: &Plan,
    extent: Extent,
) -> State {
    let mut turn = Turn {
        config,
        state: *state,
        vms: order.iter().map(|byte| Vm::of(*byte)).collect(),
    };
    for (index, step) in plan.steps.iter().enumerate() {
        let carried = match extent {
            Extent::All => true,
            Extent::First(count) => index < count,
            Extent::WithoutAzure => !step.action.is_azure_write(),
        };
        if carried {
            turn.carry_out(step);
        }
    }
    let bytes: Vec<u8> = turn.vms.iter().map(|vm| vm.byte()).collect();
    turn.state.with(&bytes)
}

/// Returns which instance a step means by this id.
pub fn index_of(id: &str) -> usize {
    id.parse()
        .expect("the model names instances by their index")
}

struct Turn<'c> {
    config: &'c Config,
    state: State,
    vms: Vec<Vm>,
}

impl Turn<'_> {
    fn carry_out(&mut self, step: &Step) {
        match &step.action {
            Action::CreateScaleSet { capacity } => {
                self.state.set.get_or_insert(Set {
                    capacity: *capacity as u8,
                    revision: self.state.wanted,
                    work: Work::Creating,
                });
            }
            Action::UpdateModel { capacity } => self.write(*capacity as u8, true),
            Action::RaiseCapacity { to } | Action::PutBackCapacity { to } => {
                self.write(*to as u8, false);
            }
            Action::DeleteInstances { instances } => self.delete(instances),
            Action::DeleteScaleSet => {
                if let Some(set) = &mut self.state.set {
                    set.work = Work::Deleting;
                }
            }
            Action::AddMachine { instance } => {
                if let Some(Vm::Here { object, .. }) = self.vms.get_mut(index_of(instance)) {
                    *object = Object::Machine;
                }
            }
            Action::RemoveMachine { instance } => {
                // Whoever has no object cannot be asked.
                if let Some(vm) = self.vms.get_mut(index_of(instance))
                    && matches!(vm, Vm::Here { .. })
                    && vm.has_object()
                {
                    *vm = Vm::Going(Exit::Draining);
                }
            }
            Action::ReleaseMachine { .. } => {
                self.state.orphans = self.state.orphans.saturating_sub(1);
            }
            Action::ReleasePool => self.state.end = End::Released,
        }
    }

    fn write(&mut self, capacity: u8, with_model: bool) {
        let refuses = self.config.azure == Azure::RefusesAll && self.is_busy();
        let Some(set) = self.state.set.as_mut().filter(|_| !refuses) else {
            return;
        };
        set.capacity = capacity;
        set.work = Work::Updating;
        if with_model {
            set.revision = self.state.wanted;
        }
        // Asked for fewer than there are, Azure takes some, and nobody has drained them.
        let staying = self.vms.iter().filter(|vm| !vm.is_deleting()).count();
        let excess = staying.saturating_sub(usize::from(capacity));
        let victims = self.vms.iter_mut().filter(|vm| !vm.is_deleting());
        for vm in victims.take(excess) {
            *vm = vm.deleting();
        }
    }

    fn delete(&mut self, ids: &[String]) {
        let running = self.vms.iter().any(|vm| vm.is_deleting());
        match self.config.azure {
            Azure::RefusesDeletes | Azure::RefusesAll if running => {
                self.state.collided = true;
                return;
            }
            Azure::RefusesAll if self.is_busy() => return,
            Azure::Accepts | Azure::RefusesDeletes | Azure::RefusesAll => {}
        }
        for id in ids {
            let Some(vm) = self.vms.get_mut(index_of(id)).filter(|v| !v.is_deleting()) else {
                continue;
            };
            *vm = vm.deleting();
            if let Some(set) = &mut self.state.set {
                set.capacity = set.capacity.saturating_sub(1);
            }
        }
    }

    /// Whether Azure has a write under way.
    fn is_busy(&self) -> bool {
        self.state.set.is_some_and(Set::is_busy) || self.vms.iter().any(|vm| vm.is_deleting())
    }
}
