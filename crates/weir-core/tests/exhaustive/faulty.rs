//! Planners with one fault each: the search has to find every one of them.

use weir_core::plan::{Action, Reason, Step, Wait, WaitingOn};
use weir_core::{Observed, Plan, plan};

use weir_core::observed::{Departure, Instance, Reading};

/// A fault, and what the search has to say of it.
pub struct Planted {
    pub name: &'static str,
    pub planner: fn(&Observed) -> Plan,
    /// How the broken promise begins.
    pub finds: &'static str,
    /// The moves of the shortest way there.
    pub length: usize,
}

pub const PLANTED: &[Planted] = &[
    Planted {
        name: "one more goes than the floor allows",
        planner: below_the_floor,
        finds: "R2: ",
        length: 1,
    },
    Planted {
        name: "an instance is deleted in the midst of its drain",
        planner: before_the_drain,
        finds: "R3: ",
        length: 5,
    },
    Planted {
        name: "one more is asked for than may exist",
        planner: above_the_ceiling,
        finds: "R1: ",
        length: 0,
    },
    Planted {
        name: "the model is written with a lower capacity",
        planner: lower,
        finds: "R4: ",
        length: 0,
    },
    Planted {
        name: "the scale set is deleted while its pool stays",
        planner: the_whole_set,
        finds: "R5: ",
        length: 0,
    },
    Planted {
        name: "a settled pool is written to",
        planner: never_silent,
        finds: "R6: ",
        length: 0,
    },
    Planted {
        name: "an unknown count is taken for none",
        planner: unread_is_none,
        finds: "ScaleSet was not read: ",
        length: 0,
    },
    Planted {
        name: "drained instances are forgotten",
        planner: forgets_to_delete,
        finds: "stuck",
        length: 7,
    },
    Planted {
        name: "a revision that never serves is tried at once, again and again",
        planner: never_gives_up,
        finds: "9 moves that go round for ever",
        length: 1,
    },
];

fn instances(observed: &Observed) -> &[Instance] {
    match &observed.instances {
        Reading::Known(instances) => instances,
        Reading::Unknown(_) => &[],
    }
}

fn add(plan: &mut Plan, action: Action) {
    let because = Reason::OldModel;
    plan.steps.push(Step { action, because });
}

fn below_the_floor(observed: &Observed) -> Plan {
    let mut plan = plan(observed);
    let current = |i: &&Instance| i.revision.as_ref() != Some(&observed.pool.revision);
    let old = instances(observed)
        .iter()
        .filter(current)
        .find(|i| !i.is_leaving() && !plan.removes(&i.id));
    let busy = plan.steps.iter().any(|s| s.action.is_azure_write());
    if let Some(old) = old
        && !busy
        && let Reading::Known(Some(_)) = observed.scale_set
        && let Reading::Known(()) = observed.nodes
    {
        let instance = old.id.clone();
        add(&mut plan, Action::RemoveMachine { instance });
    }
    plan
}

fn before_the_drain(observed: &Observed) -> Plan {
    let mut plan = plan(observed);
    let draining = |i: &&Instance| {
        let departure = i.machine.as_ref().map(|machine| &machine.departure);
        matches!(departure, Some(Departure::Draining { .. }))
    };
    let draining = instances(observed).iter().find(draining);
    if let (Some(draining), Reading::Known(()), Reading::Known(_)) =
        (draining, &observed.nodes, &observed.scale_set)
    {
        let instances = vec![draining.id.clone()];
        add(&mut plan, Action::DeleteInstances { instances });
    }
    plan
}

/// The plan with every capacity that it asks for changed.
fn with_capacity(observed: &Observed, change: fn(u32) -> u32) -> Plan {
    let mut plan = plan(observed);
    for step in &mut plan.steps {
        if let Action::UpdateModel { capacity } | Action::RaiseCapacity { to: capacity } =
            &mut step.action
        {
            *capacity = change(*capacity);
        }
    }
    plan
}

fn above_the_ceiling(observed: &Observed) -> Plan {
    with_capacity(observed, |capacity| capacity + 1)
}

fn lower(observed: &Observed) -> Plan {
    with_capacity(observed, |capacity| capacity.saturating_sub(2))
}

fn the_whole_set(observed: &Observed) -> Plan {
    let mut plan = plan(observed);
    if plan.is_settled() {
        add(&mut plan, Action::DeleteScaleSet);
    }
    plan
}

fn never_silent(observed: &Observed) -> Plan {
    let mut plan = plan(observed);
    if plan.is_settled() {
        plan.waits.push(Wait {
            on: WaitingOn::ScaleSetBusy,
            since: None,
            until: None,
        });
    }
    plan
}

fn unread_is_none(observed: &Observed) -> Plan {
    let mut seen = observed.clone();
    if let Reading::Unknown(_) = seen.scale_set {
        seen.scale_set = Reading::Known(None);
    }
    plan(&seen)
}

fn forgets_to_delete(observed: &Observed) -> Plan {
    let mut plan = plan(observed);
    plan.steps
        .retain(|step| !matches!(step.action, Action::DeleteInstances { .. }));
    plan
}

fn never_gives_up(observed: &Observed) -> Plan {
    let mut plan = plan(observed);
    let kept = plan.waits.iter().filter_map(|wait| match &wait.on {
        WaitingOn::Retry { instance } => Some(instance.clone()),
        _ => None,
    });
    for instance in kept.collect::<Vec<_>>() {
        add(&mut plan, Action::RemoveMachine { instance });
    }
    plan
}
