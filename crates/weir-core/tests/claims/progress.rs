//! What every plan does: one for each world, with reasons, with all that is allowed and no more.

use std::collections::BTreeMap;

use weir_core::observed::{Departure, Limit, Machine, Observed};
use weir_core::plan::{Action, Census, Model, Reason, Wait, WaitingOn};
use weir_core::{Plan, plan};

use super::{Verdict, asked, claim, known, limits, removed, serves};
use crate::worlds::{self, deal_ids};

/// The planner is total and depends on nothing but its input.
pub fn has_one_plan(observed: &Observed) -> Verdict {
    let (one, other) = (plan(observed), plan(&observed.clone()));
    claim(one == other, || "two plans for one world".to_owned())
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
    // A capacity that somebody else has lowered is for Azure to follow.
    let following = pool.autoscaled && count > set.capacity as usize;
    claim(count == replicas || following, || {
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
        claim(!over, || format!("{told}, until a moment that is past"))?;
    }
    let late = plan.look_again.is_some_and(|look| look < observed.at);
    claim(!late, || "a look was due in the past".to_owned())?;
    claim(plan.look_serves_until >= observed.looked_at, || {
        "a look served to a moment before it".to_owned()
    })?;
    let writes = plan.steps.iter().any(|step| step.action.is_azure_write());
    claim(!writes || plan.look_again.is_some(), || {
        "a write that nobody looks after".to_owned()
    })
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
                unhealthy: None,
                departure: Departure::Draining {
                    since,
                    blocked_by: None,
                },
            });
        }
    }
    let second = plan(&after);
    let mut also = removed(&second);
    // While a revision is held (R11), what is protected has only the count to go for.
    let is_hold = |wait: &Wait| matches!(wait.on, WaitingOn::NeverServed { .. });
    if first.waits.iter().any(is_hold) {
        let instances = worlds::instances_mut(&mut after).iter();
        let protected: Vec<_> = instances.filter(|i| i.protected).map(|i| &*i.id).collect();
        also.retain(|(id, _)| !protected.contains(id));
    }
    // The brake (R10) may be let off when one of those that it held back is on its way out.
    also.retain(|(_, because)| !matches!(because, Reason::Broken { .. }));
    claim(also.is_empty(), || {
        format!("then {also:?} as well, after {gone:?}")
    })
}
