//! The properties. They state the rules again with arithmetic of their own, not the planner's.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use weir_core::observed::{
    Departure, Instance, Limit, Machine, Observed, Power, Provisioning, Reading, ScaleSet,
};
use weir_core::plan::{Action, Census, Model, Reason, Wait, WaitingOn};
use weir_core::{Plan, check, plan};

use crate::worlds::{self, deal_ids};

type Verdict = Result<(), String>;

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

/// The planner is total and depends on nothing but its input.
pub fn has_one_plan(observed: &Observed) -> Verdict {
    let (one, other) = (plan(observed), plan(&observed.clone()));
    claim(one == other, || "two plans for one world".to_owned())
}

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

/// R12: current instances that are not broken, those asked for included, never exceed N.
pub fn makes_what_is_needed(observed: &Observed) -> Verdict {
    let Some((set, instances)) = known(observed) else {
        return Ok(());
    };
    let plan = plan(observed);
    let Some(to) = asked(&plan).filter(|to| *to > set.capacity) else {
        return Ok(());
    };
    let census = Census::take(observed, set, instances);
    let good = census.count(|m| m.is(Model::Current) && !m.is_broken() && !m.is_leaving());
    let live = instances.iter().filter(|i| !i.is_being_deleted()).count() as u32;
    let coming = if set.revision.as_ref() == Some(&observed.pool.revision) {
        to.saturating_sub(live)
    } else {
        to - set.capacity
    };
    claim(good + coming <= observed.pool.replicas, || {
        format!("{good} are good, {coming} are coming")
    })
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

/// A plan is empty only if there is nothing left to be done.
pub fn says_why_it_is_not_settled(observed: &Observed) -> Verdict {
    let plan = plan(observed);
    if !plan.is_settled() || observed.pool.deleting {
        return Ok(());
    }
    let (set, instances) = known(observed).ok_or("knows nothing and is content")?;
    let pool = &observed.pool;
    claim(set.revision.as_ref() == Some(&pool.revision), || {
        "the model is old".to_owned()
    })?;
    for instance in instances {
        let current = instance.revision.as_ref() == Some(&pool.revision);
        claim(current && serves(observed, instance), || {
            format!("{} is not as it should be", instance.id)
        })?;
    }
    let (count, replicas) = (instances.len(), pool.replicas as usize);
    // FIXME: a pool that cannot get smaller for protected instances does not say so.
    let protected = instances.iter().filter(|i| i.protected).count();
    claim(count == replicas || protected > replicas, || {
        format!("{count} exist and {replicas} are wanted")
    })
}

/// Every step and wait has words, and times lie ahead.
pub fn is_told_and_timed(observed: &Observed) -> Verdict {
    let plan = plan(observed);
    for step in &plan.steps {
        let told = step.to_string();
        claim(told.len() > 20, || format!("a step without words: {told}"))?;
    }
    for wait in &plan.waits {
        let told = wait.on.to_string();
        claim(told.len() > 8, || format!("a wait without words: {told}"))?;
        let over = wait.until.is_some_and(|until| until < observed.at);
        // FIXME: a refusal whose time to ask again has come is waited for until a moment past.
        let over = over && !told.starts_with("Azure refuses");
        claim(!over, || format!("{told}, until a moment that is past"))?;
    }
    let refused = observed.refused.is_some();
    let late = !refused && plan.look_again.is_some_and(|look| look < observed.at);
    claim(!late, || "a look was due in the past".to_owned())?;
    claim(plan.look_serves_until >= observed.looked_at, || {
        "a look served to a moment before it".to_owned()
    })?;
    let writes = plan.steps.iter().any(|step| step.action.is_azure_write());
    claim(!writes || plan.look_again.is_some(), || {
        "a write that nobody looks after".to_owned()
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

pub fn grows_with_its_limits(observed: &Observed) -> Verdict {
    if matches!(observed.pool.max_surge, Limit::Count(0..1000)) {
        let mut more = observed.clone();
        more.pool.max_surge = Limit::Count(limits(observed).0 as u32 + 1);
        let (raised, more_raised) = (asked(&plan(observed)), asked(&plan(&more)));
        claim(more_raised >= raised, || {
            format!("{raised:?}, with more surge {more_raised:?}")
        })?;
    }
    // Without surge one may always be unavailable.
    if let (Limit::Count(unavailable @ 1..1000), Limit::Count(_)) =
        (observed.pool.max_unavailable, observed.pool.max_surge)
    {
        let mut more = observed.clone();
        more.pool.max_unavailable = Limit::Count(unavailable + 1);
        let (fewer, more) = (spared(observed), spared(&more));
        claim(more >= fewer, || {
            format!("{fewer} available go, with more unavailable {more}")
        })?;
    }
    Ok(())
}

/// How many available instances a plan sends away.
fn spared(observed: &Observed) -> usize {
    let plan = plan(observed);
    let instances = observed.instances_known().iter();
    let gone = instances.filter(|i| plan.removes(&i.id) && serves(observed, i));
    gone.count()
}

/// Ids break ties: dealt out anew they change who goes, not how many.
pub fn counts_without_ids(observed: &Observed) -> Verdict {
    if known(observed).is_none() {
        return Ok(());
    }
    let mut dealt = observed.clone();
    deal_ids(&mut dealt, 7);
    let (one, other) = (kinds(&plan(observed)), kinds(&plan(&dealt)));
    claim(one == other, || format!("{one:?}, dealt anew {other:?}"))
}

fn kinds(plan: &Plan) -> BTreeMap<&'static str, u32> {
    let mut kinds = BTreeMap::new();
    for step in &plan.steps {
        let (kind, count) = match &step.action {
            Action::CreateScaleSet { capacity } => ("create", *capacity),
            Action::UpdateModel { capacity } => ("update", *capacity),
            Action::RaiseCapacity { to } => ("raise", *to),
            Action::PutBackCapacity { to } => ("put back", *to),
            Action::DeleteInstances { instances } => ("delete", instances.len() as u32),
            Action::DeleteScaleSet => ("delete set", 1),
            Action::AddMachine { .. } => ("add", 1),
            Action::RemoveMachine { .. } => ("remove", 1),
            Action::ReleaseMachine { .. } => ("release", 1),
            Action::ReleasePool => ("release pool", 1),
        };
        *kinds.entry(kind).or_default() += count;
    }
    kinds
}

/// Where a plan's removals are carried out and nothing else happens, nobody else goes.
pub fn uses_its_budget_at_once(observed: &Observed) -> Verdict {
    let first = plan(observed);
    let gone: Vec<_> = removed(&first).into_iter().map(|(id, _)| id).collect();
    if known(observed).is_none() || gone.is_empty() {
        return Ok(());
    }
    let mut after = observed.clone();
    let since = observed.at;
    for instance in worlds::instances_mut(&mut after) {
        if gone.contains(&instance.id.as_str()) {
            instance.machine = Some(Machine {
                name: format!("pool-{}", instance.id),
                delete_marked: false,
                departure: Departure::Draining {
                    since,
                    blocked_by: None,
                },
            });
        }
    }
    let second = plan(&after);
    let mut also = removed(&second);
    // FIXME: while a revision is held (R11), old ones beyond N do not go.
    let held = |wait: &Wait| matches!(wait.on, WaitingOn::NeverServed { .. });
    if first.waits.iter().any(held) {
        return Ok(());
    }
    // The brake (R10) may be let off when one of those that it held back is on its way out.
    also.retain(|(_, because)| !matches!(because, Reason::Broken { .. }));
    claim(also.is_empty(), || {
        format!("then {also:?} as well, after {gone:?}")
    })
}

/// R6: equal means silent.
pub fn is_silent(observed: &Observed) -> Verdict {
    let plan = plan(observed);
    claim(plan.is_settled(), || {
        format!("{:?} {:?}", plan.steps, plan.waits)
    })
}
