//! Whether a plan keeps its promises: the safety rules again, written apart from the planner.
//!
//! The planner does not call this module. Tests and simulations do, after every turn, on the
//! observation and the plan alone.

use crate::observed::{Departure, Instance, Observed, Pool, Power, Provisioning, Reading};
use crate::plan::{Action, Plan};

/// Lists the promises that a plan breaks; empty for a good plan.
#[must_use]
pub fn broken_promises(observed: &Observed, plan: &Plan) -> Vec<String> {
    let mut broken = Vec::new();
    let pool = &observed.pool;
    let (surge, unavailable) = limits(pool);
    let (Reading::Known(scale_set), Reading::Known(instances)) =
        (&observed.scale_set, &observed.instances)
    else {
        if plan.steps.iter().any(|step| step.action.is_azure_write()) {
            broken.push("a plan with an unknown in it writes to Azure".to_owned());
        }
        return broken;
    };
    let capacity = scale_set.as_ref().map_or(0, |scale_set| scale_set.capacity);
    for step in &plan.steps {
        match &step.action {
            Action::UpdateModel { capacity: to } | Action::RaiseCapacity { to } => {
                let deleting = instances.iter().filter(|i| i.is_being_deleted()).count() as u32;
                if *to < capacity {
                    broken.push(format!("R4: capacity is lowered from {capacity} to {to}"));
                }
                if *to > capacity && to + deleting > pool.replicas.saturating_add(surge) {
                    broken.push(format!(
                        "R1: capacity {to} and {deleting} being deleted exceed {} + {surge}",
                        pool.replicas
                    ));
                }
            }
            Action::PutBackCapacity { to } => {
                let at_rest = instances.iter().all(|i| is_at_rest(&i.provisioning))
                    && scale_set
                        .as_ref()
                        .is_some_and(|s| is_at_rest(&s.provisioning));
                if observed.refused.is_none() || !at_rest || *to as usize != instances.len() {
                    broken.push(format!(
                        "R4: capacity is put back to {to} of {}, at rest: {at_rest}",
                        instances.len()
                    ));
                }
            }
            Action::DeleteInstances { instances: ids } => {
                broken.extend(ids.iter().filter_map(|id| undrained(instances, id)));
            }
            Action::DeleteScaleSet if !pool.deleting => {
                broken.push("R5: the scale set goes while its pool stays".to_owned());
            }
            _ => {}
        }
    }
    let available = instances.iter().filter(|i| serves(observed, i)).count() as u32;
    let lost = instances
        .iter()
        .filter(|i| serves(observed, i) && plan.removes(&i.id))
        .count();
    let floor = pool.replicas - unavailable;
    if lost > 0 && available < floor + lost as u32 {
        broken.push(format!(
            "R2: {lost} of {available} available go, {floor} must stay"
        ));
    }
    broken
}

/// Surge and unavailable in instances; an autoscaled pool has what is allowed and no more (R9).
fn limits(pool: &Pool) -> (u32, u32) {
    let surge = pool.max_surge.round_up(pool.replicas);
    let unavailable = pool.max_unavailable.round_down(pool.replicas);
    let unavailable = unavailable.min(pool.replicas);
    match (pool.autoscaled, surge, unavailable) {
        (true, _, unavailable) => (0, unavailable),
        (false, 0, 0) => (0, 1.min(pool.replicas)),
        (false, surge, unavailable) => (surge, unavailable),
    }
}

fn is_at_rest(provisioning: &Provisioning) -> bool {
    matches!(
        provisioning,
        Provisioning::Succeeded | Provisioning::Failed(_)
    )
}

fn undrained(instances: &[Instance], id: &str) -> Option<String> {
    let Some(instance) = instances.iter().find(|instance| instance.id == id) else {
        return Some(format!("R7: {id} is not an instance of the pool"));
    };
    let departure = instance.machine.as_ref().map(|machine| &machine.departure);
    let drained = matches!(departure, Some(Departure::Drained { .. }));
    (!drained).then(|| format!("R3: {id} is deleted and its drain is not over"))
}

fn serves(observed: &Observed, instance: &Instance) -> bool {
    let node_serves = instance.node.as_ref().is_some_and(|node| {
        node.ready && !node.cordoned_by_us && node.since + observed.pool.min_ready <= observed.at
    });
    node_serves && instance.power != Power::Stopped && !instance.is_leaving()
}
