//! How long does the planner think?
//!
//! Real time, and so no two runs agree: it is reported and never judged.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use weir_core::Observed;
use weir_core::observed::{
    DeletePolicy, Departure, Instance, Limit, Machine, Node, Pool, Power, Provisioning, Reading,
    Revision, ScaleSet,
};

/// How often a plan is made to find the middle of the times.
const TIMES: usize = 201;

/// How long one plan takes.
#[derive(Clone, Debug, Serialize)]
pub struct PlannerFigures {
    /// How many instances the pool has.
    pub replicas: u32,
    /// The middle of many, in microseconds.
    pub median_micros: f64,
    /// The same for each instance, in nanoseconds: constant if it grows with the pool alone.
    pub nanos_per_instance: f64,
    /// How many steps the plan has.
    pub steps: usize,
}

/// Measures one plan in the midst of a rollout.
#[must_use]
pub fn planner_time(replicas: u32) -> PlannerFigures {
    let observed = mid_roll(replicas);
    let mut spans: Vec<f64> = (0..TIMES)
        .map(|_| {
            let began = Instant::now();
            let plan = std::hint::black_box(weir_core::plan(std::hint::black_box(&observed)));
            let took = began.elapsed();
            drop(plan);
            took.as_secs_f64() * 1e6
        })
        .collect();
    spans.sort_by(f64::total_cmp);
    let median = spans[TIMES / 2];
    PlannerFigures {
        replicas,
        median_micros: median,
        nanos_per_instance: median * 1e3 / f64::from(replicas.max(1)),
        steps: weir_core::plan(&observed).steps.len(),
    }
}

/// Returns a pool in the midst of a rollout with a surge of a tenth: half of it is old, and of
/// ten slots three start, three drain, one is drained, two are being deleted and one is free.
#[must_use]
pub fn mid_roll(replicas: u32) -> Observed {
    let at = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24);
    let surge = replicas.div_ceil(10);
    let slot = |tenths: u32| surge * tenths / 10;
    let (starting, draining, drained, deleting) = (slot(3), slot(3), slot(1), slot(2));
    let old = replicas / 2;
    let mut instances = Vec::new();
    let mut add = |count: u32, make: &dyn Fn(&mut Instance)| {
        for _ in 0..count {
            let mut instance = serving(instances.len(), at);
            make(&mut instance);
            instances.push(instance);
        }
    };
    let is_old = |instance: &mut Instance| {
        instance.revision = Some(Revision("old".to_owned()));
    };
    let departs = |instance: &mut Instance, departure: Departure| {
        is_old(instance);
        if let Some(machine) = &mut instance.machine {
            machine.departure = departure;
        }
    };
    let since = at - SignedDuration::from_secs(5);
    let blocked_by = None;
    add(old, &is_old);
    add(draining, &|instance| {
        let blocked_by = blocked_by.clone();
        departs(instance, Departure::Draining { since, blocked_by });
    });
    add(drained, &|instance| {
        departs(instance, Departure::Drained { since })
    });
    add(deleting, &|instance| {
        departs(instance, Departure::Drained { since });
        instance.provisioning = Provisioning::Deleting;
    });
    add(replicas - old, &|_| {});
    add(starting, &|instance| {
        instance.provisioning = Provisioning::Creating;
        instance.created = at - SignedDuration::from_secs(60);
        instance.node = None;
    });
    let capacity = instances.len() as u32 - deleting;
    Observed {
        at,
        looked_at: at,
        pool: pool(replicas),
        scale_set: Reading::Known(Some(ScaleSet {
            capacity,
            revision: Some(Revision("new".to_owned())),
            provisioning: Provisioning::Updating,
        })),
        instances: Reading::Known(instances),
        orphans: Vec::new(),
        nodes: Reading::Known(()),
        deletion_due: None,
        refused: None,
        deletes_collide: false,
    }
}

fn serving(nth: usize, at: Timestamp) -> Instance {
    let name = format!("pool-{nth}");
    Instance {
        id: nth.to_string(),
        vm_id: format!("vm-{nth}"),
        created: at - SignedDuration::from_hours(2),
        provisioning: Provisioning::Succeeded,
        power: Power::Running,
        zone: None,
        protected: false,
        revision: Some(Revision("new".to_owned())),
        machine: Some(Machine {
            name: name.clone(),
            delete_marked: false,
            departure: Departure::Staying,
        }),
        node: Some(Node {
            name,
            ready: true,
            since: at - SignedDuration::from_hours(1),
            cordoned_by_us: false,
        }),
    }
}

fn pool(replicas: u32) -> Pool {
    Pool {
        name: "pool".to_owned(),
        replicas,
        max_surge: Limit::Percent(10),
        max_unavailable: Limit::Count(0),
        delete_policy: DeletePolicy::Oldest,
        revision: Revision("new".to_owned()),
        min_ready: SignedDuration::ZERO,
        join_limit: SignedDuration::from_mins(20),
        unready_limit: SignedDuration::from_mins(10),
        patience: SignedDuration::from_secs(15),
        autoscaled: false,
        deleting: false,
    }
}

#[cfg(test)]
mod tests {
    use weir_core::plan::Action;

    use super::*;

    #[test]
    fn a_pool_in_mid_roll_gives_the_planner_something_to_do() {
        for replicas in [10, 100, 1_000] {
            let plan = weir_core::plan(&mid_roll(replicas));
            let raises = plan
                .steps
                .iter()
                .any(|step| matches!(step.action, Action::RaiseCapacity { .. }));
            assert!(raises, "{replicas}: {plan:#?}");
            assert!(!plan.waits.is_empty(), "{replicas}");
        }
    }
}
