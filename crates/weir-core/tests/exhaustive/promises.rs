//! What every plan in every state has to hold, written on states and apart from the planner.

use weir_core::plan::{Action, Reason, Wait, WaitingOn};
use weir_core::{Observed, Plan, check};

use crate::config::Config;
use crate::observe::{Unread, observe};
use crate::state::{End, Exit, Health, Object, Refused, State, Vm, Work};
use crate::turn::index_of;

/// The planner, or one that was tampered with.
pub type Planner = fn(&Observed) -> Plan;

/// Returns the promises that a plan breaks.
pub fn broken(
    config: &Config,
    state: &State,
    order: &[u8],
    observed: &Observed,
    plan: &Plan,
) -> Vec<String> {
    let mut judge = Judge::new(config, state, order);
    for step in &plan.steps {
        judge.step(&step.action, &step.because);
    }
    judge.whole(plan);
    judge.broken.extend(check::broken_promises(observed, plan));
    judge.broken
}

/// Returns what is wrong with the plans of turns that could not read everything.
pub fn broken_unread(config: &Config, state: &State, planner: Planner) -> Vec<String> {
    let order = state.bytes();
    let mut broken = Vec::new();
    for unread in [Unread::ScaleSet, Unread::Instances, Unread::Nodes] {
        let plan = planner(&observe(config, state, order, unread));
        for step in &plan.steps {
            let removes = matches!(step.action, Action::RemoveMachine { .. });
            let deletes_pool = matches!(step.action, Action::DeleteScaleSet);
            // A pool that is being deleted needs to know nothing of its instances.
            let allowed = deletes_pool && state.end != End::Stays && unread != Unread::ScaleSet;
            if removes || step.action.is_azure_write() && !allowed && state.set.is_some() {
                broken.push(format!("{unread:?} was not read: {step}"));
            }
        }
    }
    broken
}

struct Judge<'j> {
    config: &'j Config,
    state: &'j State,
    vms: Vec<Vm>,
    surge: u8,
    unavailable: u8,
    removed: Vec<usize>,
    /// How many of them go because they are broken, though their revision is not to blame.
    hurried: u8,
    broken: Vec<String>,
}

impl<'j> Judge<'j> {
    fn new(config: &'j Config, state: &'j State, order: &[u8]) -> Judge<'j> {
        let (surge, unavailable) = config.allowance(state.replicas);
        Judge {
            config,
            state,
            vms: order.iter().map(|byte| Vm::of(*byte)).collect(),
            surge,
            unavailable,
            removed: Vec::new(),
            hurried: 0,
            broken: Vec::new(),
        }
    }

    fn claim(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(what());
        }
    }

    fn step(&mut self, action: &Action, because: &Reason) {
        let state = self.state;
        match action {
            Action::CreateScaleSet { capacity } => {
                let may = state.set.is_none() && state.end == End::Stays;
                self.claim(may && *capacity as u8 <= state.replicas, || {
                    format!("R1: a scale set of {capacity} is made")
                });
            }
            Action::UpdateModel { capacity } | Action::RaiseCapacity { to: capacity } => {
                self.capacity(*capacity as u8);
            }
            Action::PutBackCapacity { to } => self.put_back(*to as u8),
            Action::DeleteInstances { instances } => {
                for id in instances {
                    let vm = self.vms.get(index_of(id)).copied();
                    self.claim(vm.is_some(), || format!("R7: {id} is not ours"));
                    let drained = matches!(vm, Some(Vm::Going(Exit::JustDrained | Exit::Drained)));
                    self.claim(drained, || format!("R3: {id} is deleted before its drain"));
                }
                let collides = state.collided && state.vms().any(Vm::is_deleting);
                self.claim(!collides, || "R8: a second delete is sent".to_owned());
            }
            Action::DeleteScaleSet => {
                self.claim(state.end != End::Stays, || "R5: the set goes".to_owned());
            }
            Action::AddMachine { instance } => {
                let vm = self.vms.get(index_of(instance)).copied();
                let lacks = vm.is_some_and(|vm| !vm.has_object() && !vm.is_deleting());
                self.claim(lacks, || format!("R7: {instance} gets another machine"));
            }
            Action::RemoveMachine { instance } => self.remove(index_of(instance), because),
            Action::ReleaseMachine { .. } => {
                let orphans = state.orphans;
                self.claim(orphans > 0, || {
                    "R7: a machine in use is released".to_owned()
                });
            }
            Action::ReleasePool => {
                let is_over = state.set.is_none() && state.orphans == 0;
                self.claim(is_over && state.end == End::Asked, || {
                    "R20: the pool is released while something is left".to_owned()
                });
            }
        }
    }

    /// R1, R4, R9, R11, R12.
    fn capacity(&mut self, to: u8) {
        let state = self.state;
        let Some(set) = state.set else {
            return self.broken.push("R7: nothing there to write to".to_owned());
        };
        let from = set.capacity;
        self.claim(to >= from, || {
            format!("R4: capacity is lowered from {from} to {to}")
        });
        let deleting = state.count(Vm::is_deleting);
        let total = (to + deleting).max(state.bytes().len() as u8);
        let ceiling = state.replicas + self.surge;
        self.claim(total <= ceiling.max(state.total()), || {
            format!("R1: {total} exist or are asked for, {ceiling} may")
        });
        let raise = to.saturating_sub(from);
        let coming = if set.revision == state.wanted {
            state.pending()
        } else {
            0
        };
        let wanted = state.count(|vm| vm.is_here(state.wanted) && !is_broken(vm));
        let made = wanted + coming + raise;
        self.claim(raise == 0 || made <= state.replicas, || {
            format!("R12: {made} current ones are made for {}", state.replicas)
        });
        let held = self.is_held();
        self.claim(raise == 0 || !held, || {
            "R11: more of a revision that never served".to_owned()
        });
    }

    /// R18: to exactly what is there, while nothing moves.
    fn put_back(&mut self, to: u8) {
        let state = self.state;
        let moves = state.set.is_none_or(|set| set.is_busy())
            || state.vms().any(|vm| vm.is_deleting() || is_creating(vm));
        let exact = usize::from(to) == state.bytes().len();
        let refused = state.refused != Refused::No;
        self.claim(!moves && exact && refused, || {
            format!("R4: capacity is put back to {to}")
        });
    }

    fn remove(&mut self, index: usize, because: &Reason) {
        let here = matches!(self.vms.get(index), Some(Vm::Here { .. }));
        let twice = self.removed.contains(&index);
        self.claim(here && !twice, || {
            format!("R7: {index} cannot be asked to go")
        });
        let counted = matches!(because, Reason::Surplus { .. });
        self.claim(!(counted && self.config.autoscaled), || {
            format!("R9: {index} goes for the count of an autoscaled pool")
        });
        self.removed.push(index);
        let is_suspect = self.vms.get(index).is_some_and(|vm| self.is_suspect(*vm));
        let is_broken = matches!(because, Reason::Broken { .. });
        self.hurried += u8::from(is_broken && !is_suspect);
    }

    fn whole(&mut self, plan: &Plan) {
        let state = self.state;
        let removed = |vms: &[Vm], removed: &[usize], claim: &dyn Fn(Vm) -> bool| {
            let going = vms.iter().enumerate();
            let going = going.filter(|(index, vm)| removed.contains(index) && claim(**vm));
            going.count() as u8
        };
        let lost = removed(&self.vms, &self.removed, &Vm::is_serving);
        let left = state.count(Vm::is_serving) - lost;
        let floor = state.replicas - self.unavailable;
        self.claim(lost == 0 || left >= floor, || {
            format!("R2: {lost} serving ones go, {left} are left, the floor is {floor}")
        });

        let is_good = |vm: Vm| {
            let marked = matches!(
                vm,
                Vm::Here {
                    object: Object::Marked,
                    ..
                }
            );
            vm.is_here(state.wanted) && !is_broken(vm) && !marked
        };
        let lost = removed(&self.vms, &self.removed, &is_good);
        let left = state.count(|vm| vm.is_here(state.wanted) && !is_broken(vm)) - lost;
        let replicas = state.replicas;
        let model_is_current = state.set.is_some_and(|set| set.revision == state.wanted);
        self.claim(lost == 0 || left >= replicas || !model_is_current, || {
            format!("R15: {lost} current ones go, {left} are left of {replicas}")
        });

        let lost = self.hurried;
        let broken = state.count(is_broken);
        let others = state.count(|vm| is_broken(vm) && !self.is_suspect(vm));
        let moving = |vm: Vm| matches!(vm, Vm::Going(exit) if exit != Exit::Blocked);
        let leaving = state.count(moving);
        let replaced = (state.count(Vm::is_serving) + others).saturating_sub(replicas);
        let brake = 3 * broken > replicas;
        self.claim(
            !brake || lost <= replaced.max(u8::from(leaving == 0)),
            || format!("R10: {lost} of {broken} broken ones go at once, {leaving} are leaving"),
        );

        let writes = plan.steps.iter().filter(|s| s.action.is_azure_write());
        let deletes = writes
            .clone()
            .filter(|s| matches!(s.action, Action::DeleteInstances { .. }));
        let (writes, deletes) = (writes.count(), deletes.count());
        self.claim(deletes <= 1 && writes - deletes <= 1, || {
            "R8: two writes of one kind".to_owned()
        });
        let silent = plan.steps.is_empty() && plan.waits.is_empty();
        self.claim(silent || !is_settled(state), || {
            "R6: a settled pool is not left alone".to_owned()
        });
    }

    /// R11, by its words: nothing of the revision ever served, and one round of it is broken.
    fn is_held(&self) -> bool {
        let round = (self.surge + self.unavailable).clamp(1, self.state.replicas.max(1));
        self.state.count(|vm| self.is_suspect(vm)) >= round
    }

    /// Whether an instance is broken and its revision may be why: what is seen of it never served.
    /// What Azure refuses to make says nothing of the revision.
    fn is_suspect(&self, vm: Vm) -> bool {
        let state = self.state;
        let current = |vm: Vm| vm.is_here(state.wanted);
        let served = |vm: Vm| current(vm) && vm.has_served();
        current(vm) && is_broken(vm) && state.refused == Refused::No && state.count(served) == 0
    }
}

fn is_broken(vm: Vm) -> bool {
    matches!(vm, Vm::Here { health, .. } if health.is_broken())
}

fn is_creating(vm: Vm) -> bool {
    matches!(
        vm,
        Vm::Here {
            health: Health::Creating | Health::CreatingLate,
            ..
        }
    )
}

/// Whether all is as it is wanted: so many, current, serving, and nothing under way.
pub fn is_settled(state: &State) -> bool {
    let Some(set) = state.set else { return false };
    let at_rest = matches!(set.work, Work::Done | Work::Failed);
    let all_serve = state
        .vms()
        .all(|vm| vm.is_here(state.wanted) && vm.is_serving() && vm.has_object());
    at_rest
        && all_serve
        && set.revision == state.wanted
        && set.capacity == state.replicas
        && state.bytes().len() == usize::from(state.replicas)
        && state.orphans == 0
        && state.end == End::Stays
}

/// Where a pool may rest for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rest {
    Settled,
    /// The pool object is gone with everything.
    Released,
    /// The wanted revision never serves: a person has to correct it.
    NeverServed,
    /// Autoscaled, and none may be unavailable: a person has to allow it.
    NoBudget,
    /// Drains that are blocked for ever take every slot: a person has to unblock one.
    Blocked,
}

/// Judges a state in which nothing can be relied on to happen any more.
///
/// # Errors
/// It is neither settled nor one in which a person is needed, or it does not say so.
pub fn rest(config: &Config, state: &State, plan: &Plan) -> Result<Rest, String> {
    if state.end == End::Released {
        let empty = state.set.is_none() && state.orphans == 0;
        return if empty {
            Ok(Rest::Released)
        } else {
            Err("the pool is released and something is left".to_owned())
        };
    }
    if is_settled(state) {
        return Ok(Rest::Settled);
    }
    if !plan.steps.is_empty() {
        return Err("stuck with steps that change nothing".to_owned());
    }
    let waits = |claim: fn(&WaitingOn) -> bool| plan.waits.iter().any(|wait| claim(&wait.on));
    let blocked = state.count(|vm| vm == Vm::Going(Exit::Blocked));
    let named = plan.waits.iter().filter(|wait| is_blocked(wait)).count();
    if usize::from(blocked) != named {
        return Err(format!("{blocked} drains are blocked and {named} named"));
    }
    let held = waits(|on| matches!(on, WaitingOn::NeverServed { .. }));
    // A blocked drain may hold the slot that the last failure of the round would need.
    let kept = blocked > 0 && waits(|on| matches!(on, WaitingOn::Retry { .. }));
    if state.is_bad(state.wanted) && (held || kept) {
        return Ok(Rest::NeverServed);
    }
    if config.autoscaled
        && config.unavailable == 0
        && waits(|on| matches!(on, WaitingOn::NoBudget { .. }))
    {
        return Ok(Rest::NoBudget);
    }
    if blocked > 0 && is_done_but_for(config, state, blocked) {
        return Ok(Rest::Blocked);
    }
    Err("stuck: neither settled nor waiting for a person".to_owned())
}

fn is_blocked(wait: &Wait) -> bool {
    let WaitingOn::Drain { blocked_by, .. } = &wait.on else {
        return false;
    };
    blocked_by.is_some()
}

/// R13: as many drains as there are slots may hold a rollout up; fewer cost their slots only.
fn is_done_but_for(config: &Config, state: &State, blocked: u8) -> bool {
    let (surge, unavailable) = config.allowance(state.replicas);
    if blocked >= surge + unavailable {
        return true;
    }
    let room = (state.replicas + surge).saturating_sub(blocked);
    let here = state.count(|vm| matches!(vm, Vm::Here { .. }));
    let serving = state.count(|vm| vm.is_here(state.wanted) && vm.is_serving());
    here == serving && (state.replicas.min(room)..=state.replicas).contains(&serving)
}
