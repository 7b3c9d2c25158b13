//! What no plan may do: the rules R1 to R9.

use std::collections::BTreeSet;

use weir_core::observed::{Departure, Instance, Observed, Reading};
use weir_core::plan::{Action, Reason};
use weir_core::{check, plan};

use super::{Verdict, asked, claim, known, limits, removed, serves};

pub fn breaks_no_promise(observed: &Observed) -> Verdict {
    let broken = check::broken_promises(observed, &plan(observed));
    claim(broken.is_empty(), || broken.join("; "))
}

/// R1, R4: nothing is added beyond N + S, and no write lowers the capacity.
pub fn adds_within_the_ceiling(observed: &Observed) -> Verdict {
    let Some((set, instances)) = known(observed) else {
        return Ok(());
    };
    let live = instances.iter().filter(|i| !i.is_being_deleted()).count();
    let deleting = (instances.len() - live) as i128;
    let (surge, _) = limits(observed);
    let ceiling = i128::from(observed.pool.replicas) + surge;
    if let Some(to) = asked(&plan(observed)) {
        claim(to >= set.capacity, || format!("{to} lowers the capacity"))?;
        let raised = to > set.capacity;
        claim(!raised || i128::from(to) + deleting <= ceiling, || {
            format!("{to} and {deleting} being deleted exceed {ceiling}")
        })?;
    }
    Ok(())
}

/// R2: available instances go only down to N - U.
pub fn leaves_the_floor(observed: &Observed) -> Verdict {
    let Some((_, instances)) = known(observed) else {
        return Ok(());
    };
    let plan = plan(observed);
    let gone: BTreeSet<_> = removed(&plan).into_iter().map(|(id, _)| id).collect();
    let available: Vec<_> = instances.iter().filter(|i| serves(observed, i)).collect();
    let lost = available
        .iter()
        .filter(|i| gone.contains(i.id.as_str()))
        .count();
    let (_, unavailable) = limits(observed);
    let floor = i128::from(observed.pool.replicas) - unavailable;
    let left = (available.len() - lost) as i128;
    claim(lost == 0 || left >= floor, || {
        format!("{lost} go, {left} are left and {floor} must stay")
    })
}

/// R3, R5, R7: the scale set goes with its pool only, an instance after its drain only.
pub fn deletes_what_is_drained(observed: &Observed) -> Verdict {
    let plan = plan(observed);
    for step in &plan.steps {
        match &step.action {
            Action::DeleteInstances { instances: ids } => {
                for id in ids {
                    let found = observed.instances_known().iter().find(|i| i.id == *id);
                    let departure = found.and_then(|i| Some(&i.machine.as_ref()?.departure));
                    let drained = matches!(departure, Some(Departure::Drained { .. }));
                    let again = found.is_some_and(Instance::is_being_deleted);
                    claim(drained && !again, || format!("{id} is not to be deleted"))?;
                }
            }
            Action::DeleteScaleSet => {
                claim(observed.pool.deleting, || "the set goes".to_owned())?;
            }
            Action::ReleaseMachine { machine } => {
                let is_orphan = observed.orphans.iter().any(|o| o.name == *machine);
                claim(is_orphan, || format!("{machine} still stands for one"))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// R8: one capacity write and one delete at most, and one step for each instance.
pub fn deals_with_each_once(observed: &Observed) -> Verdict {
    let plan = plan(observed);
    let mut seen = BTreeSet::new();
    for step in &plan.steps {
        let keys = match &step.action {
            Action::DeleteInstances { instances } => {
                let mut keys: Vec<_> = instances.iter().map(|id| format!("end {id}")).collect();
                keys.push("delete".to_owned());
                keys
            }
            Action::RemoveMachine { instance } => {
                let instances = observed.instances_known().iter();
                let found = instances.clone().find(|i| i.id == *instance);
                let stays = found.is_some_and(|i| !i.is_leaving());
                claim(stays, || format!("{instance} is leaving or not there"))?;
                vec![format!("end {instance}")]
            }
            Action::AddMachine { instance } => vec![format!("add {instance}")],
            Action::ReleaseMachine { machine } => vec![format!("release {machine}")],
            Action::ReleasePool => vec!["release".to_owned()],
            Action::CreateScaleSet { .. }
            | Action::UpdateModel { .. }
            | Action::RaiseCapacity { .. }
            | Action::PutBackCapacity { .. }
            | Action::DeleteScaleSet => vec!["write".to_owned()],
        };
        for key in keys {
            claim(seen.insert(key.clone()), || format!("twice: {key}"))?;
        }
    }
    Ok(())
}

pub fn waits_to_know(observed: &Observed) -> Verdict {
    let plan = plan(observed);
    let unknown = matches!(observed.scale_set, Reading::Unknown(_))
        || known(observed).is_some() && matches!(observed.nodes, Reading::Unknown(_))
        || matches!(&observed.scale_set, Reading::Known(Some(_)))
            && matches!(observed.instances, Reading::Unknown(_));
    if !unknown || observed.pool.deleting {
        return Ok(());
    }
    let writes = plan.steps.iter().any(|step| step.action.is_azure_write());
    claim(!writes && removed(&plan).is_empty(), || {
        "acts without knowing".to_owned()
    })?;
    claim(!plan.waits.is_empty(), || {
        "says not what it waits for".to_owned()
    })
}

/// R9: nobody goes for the count's sake, and nothing is added beyond N.
pub fn leaves_the_count_to_the_autoscaler(observed: &Observed) -> Verdict {
    let Some((set, _)) = known(observed).filter(|_| observed.pool.autoscaled) else {
        return Ok(());
    };
    let plan = plan(observed);
    if let Some(to) = asked(&plan) {
        claim(to <= observed.pool.replicas.max(set.capacity), || {
            format!("asks for {to}")
        })?;
    }
    let fits = |instance: &str| {
        // A mark is the autoscaler's own word.
        let found = observed.instances_known().iter().find(|i| i.id == instance);
        found.is_some_and(|i| i.machine.as_ref().is_some_and(|m| m.delete_marked))
    };
    for (instance, because) in removed(&plan) {
        let for_count = matches!(because, Reason::Surplus { .. });
        claim(!for_count || fits(instance), || {
            format!("{instance} is surplus")
        })?;
    }
    Ok(())
}

/// R6: equal means silent.
pub fn is_silent(observed: &Observed) -> Verdict {
    let plan = plan(observed);
    claim(plan.is_settled(), || {
        format!("{:?} {:?}", plan.steps, plan.waits)
    })
}
