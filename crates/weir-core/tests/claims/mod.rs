//! The claims. They state the rules again with arithmetic of their own, not the planner's.

pub mod progress;
pub mod safety;

use jiff::Timestamp;
use weir_core::Plan;
use weir_core::observed::{
    Departure, Instance, Limit, Machine, Observed, Power, Provisioning, Reading, ScaleSet,
};
use weir_core::plan::{Action, Reason};

pub type Verdict = Result<(), String>;

fn claim(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

/// The pool's limits in instances, in numbers that cannot overflow.
fn limits(observed: &Observed) -> (i128, i128) {
    let pool = &observed.pool;
    let n = i128::from(pool.replicas);
    let surge = match pool.max_surge {
        Limit::Count(count) => i128::from(count),
        Limit::Percent(percent) => (i128::from(percent) * n + 99) / 100,
    };
    let unavailable = match pool.max_unavailable {
        Limit::Count(count) => i128::from(count),
        Limit::Percent(percent) => i128::from(percent) * n / 100,
    };
    match (pool.autoscaled, surge, unavailable) {
        (true, _, unavailable) => (0, unavailable.min(n)),
        (false, 0, 0) => (0, n.min(1)),
        (false, surge, unavailable) => (surge, unavailable.min(n)),
    }
}

/// The scale set and its instances, where both are known.
fn known(observed: &Observed) -> Option<(&ScaleSet, &[Instance])> {
    match (&observed.scale_set, &observed.instances) {
        (Reading::Known(Some(set)), Reading::Known(instances)) => Some((set, instances)),
        _ => None,
    }
}

fn serves(observed: &Observed, instance: &Instance) -> bool {
    let ready_since = |i: &Instance| {
        let node = i.node.as_ref().filter(|n| n.ready && !n.cordoned_by_us)?;
        Some(node.since)
    };
    let long_enough = |since: Timestamp| since + observed.pool.min_ready <= observed.at;
    let leaves = |machine: &Machine| machine.departure != Departure::Staying;
    ready_since(instance).is_some_and(long_enough)
        && instance.power != Power::Stopped
        && instance.provisioning != Provisioning::Deleting
        && !instance.machine.as_ref().is_some_and(leaves)
}

fn removed(plan: &Plan) -> Vec<(&str, &Reason)> {
    let removed = plan.steps.iter().filter_map(|step| match &step.action {
        Action::RemoveMachine { instance } => Some((instance.as_str(), &step.because)),
        _ => None,
    });
    removed.collect()
}

/// The capacity that a plan asks for, other than to put it back.
fn asked(plan: &Plan) -> Option<u32> {
    plan.steps.iter().find_map(|step| match step.action {
        Action::UpdateModel { capacity } | Action::RaiseCapacity { to: capacity } => Some(capacity),
        _ => None,
    })
}
