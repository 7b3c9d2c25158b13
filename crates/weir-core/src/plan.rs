//! Decides the next steps for one pool: the one place that decides.
//!
//! The rules are numbered as in `docs/rollouts.md`; each pass below names those it holds. The plan
//! says why for each step and what is waited for otherwise; carrying it out is somebody else's
//! work, and the next look is the only feedback. Read `census.rs` next: it classifies.

mod census;
mod order;
mod step;
mod wait;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

pub use census::{Bounds, Census, Member, Model, Standing};
pub use step::{Action, Reason, Step};
pub use wait::{Wait, WaitingOn};

use crate::observed::{Departure, Observed, Provisioning, Reading, ScaleSet};

/// How soon Azure is looked at after it was written to.
///
/// New instances are listed within seconds of a write, and an operation says itself that it is
/// polled every ten seconds (docs/azure.md, "Operations").
pub const LOOK_AFTER_WRITE: SignedDuration = SignedDuration::from_secs(10);

/// How soon Azure is looked at after instances were deleted, while it is not known how long that
/// takes here.
pub const LOOK_AFTER_DELETE: SignedDuration = SignedDuration::from_secs(15);

/// How old a look at Azure may grow when nothing that Azure does is waited for.
///
/// Events of the clusters come in bursts and tell nothing of Azure; every capacity write names the
/// version that was looked at, so that an old look is refused rather than obeyed.
pub const LOOK_AGE_MAX: SignedDuration = SignedDuration::from_secs(60);

/// What is to be done now, and why no more than that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In order. Each is worth doing whatever becomes of the one before.
    pub steps: Vec<Step>,
    /// Why no more than that: what is waited for.
    pub waits: Vec<Wait>,
    /// When to take the next turn if nothing is heard before; `None` if nothing is under way.
    pub look_again: Option<Timestamp>,
    /// Until when the look at Azure that this plan was made from may serve further turns.
    pub look_serves_until: Timestamp,
}

/// Decides the next steps for one pool. Total: every [`Observed`] has a plan.
#[must_use]
pub fn plan(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    decide(observed, &mut plan);
    schedule(observed, &mut plan);
    plan
}

fn decide(observed: &Observed, plan: &mut Plan) {
    let scale_set = match &observed.scale_set {
        Reading::Unknown(why) => return plan.waits.push(Wait::unread(why)),
        Reading::Known(scale_set) => scale_set.as_ref(),
    };
    let Some(scale_set) = scale_set else {
        return without_scale_set(observed, plan);
    };
    if observed.pool.deleting || scale_set.provisioning == Provisioning::Deleting {
        return tear_down(observed, scale_set, plan);
    }
    let instances = match &observed.instances {
        Reading::Unknown(why) => return plan.waits.push(Wait::unread(why)),
        Reading::Known(instances) => instances,
    };
    let census = Census::take(observed, scale_set, instances);
    record(&census, plan);
    if let Reading::Unknown(why) = &observed.nodes {
        return plan.waits.push(Wait::unread(why));
    }
    let hold = never_served(&census);
    let write = put_back(&census).or_else(|| capacity_write(&census, hold));
    plan.steps.extend(write);
    let delete = batched_delete(&census, plan);
    plan.steps.extend(delete);
    remove(&census, hold, plan);
    wait::explain(&census, hold, plan);
}

/// R19, R20: nothing is left in Azure, or nothing was made yet.
fn without_scale_set(observed: &Observed, plan: &mut Plan) {
    for machine in &observed.orphans {
        plan.steps
            .push(Step::release(&machine.name, Reason::InstanceGone));
    }
    if !observed.pool.deleting {
        let capacity = observed.pool.replicas;
        plan.steps.push(Step::new(
            Action::CreateScaleSet { capacity },
            Reason::NoScaleSet,
        ));
    } else if observed.orphans.is_empty() {
        plan.steps
            .push(Step::new(Action::ReleasePool, Reason::NothingLeft));
    }
}

/// R5, R20: the whole set goes only with its pool, and then nothing is drained one by one.
fn tear_down(observed: &Observed, scale_set: &ScaleSet, plan: &mut Plan) {
    if observed.pool.deleting && scale_set.provisioning != Provisioning::Deleting {
        plan.steps
            .push(Step::new(Action::DeleteScaleSet, Reason::PoolDeleted));
    }
    plan.waits.push(Wait::new(WaitingOn::ScaleSetGone));
}

/// The objects of the management cluster follow the instances: one machine each.
fn record(census: &Census<'_>, plan: &mut Plan) {
    for member in &census.members {
        if member.instance.machine.is_none() && !member.instance.is_being_deleted() {
            let instance = member.instance.id.clone();
            plan.steps.push(Step::new(
                Action::AddMachine { instance },
                Reason::NoMachine,
            ));
        }
    }
    // R9: until the place is filled again, these objects are what remembers it.
    let is_filled = census.scale_set.capacity >= census.bounds.replicas;
    if census.observed.pool.autoscaled && !is_filled {
        return;
    }
    for machine in &census.observed.orphans {
        plan.steps
            .push(Step::release(&machine.name, Reason::InstanceGone));
    }
}

/// R4, R18: what Azure refused to make is asked for no longer, or it would come at any time.
///
/// The one write that lowers: to exactly those that exist, while nothing runs, so that Azure has
/// nothing to choose.
fn put_back(census: &Census<'_>) -> Option<Step> {
    let refusal = census.observed.refused.as_ref()?;
    let failed = matches!(census.scale_set.provisioning, Provisioning::Failed(_));
    if !failed || census.pending() == 0 || census.azure_is_at_work() {
        return None;
    }
    Some(Step::new(
        Action::PutBackCapacity {
            to: census.members.len() as u32,
        },
        Reason::Refused {
            code: refusal.code.clone(),
        },
    ))
}

/// R11: a revision of which nothing ever served is not spread further.
///
/// Returns how many of its instances broke, once they fill the budget of one round.
fn never_served(census: &Census<'_>) -> Option<u32> {
    let broken = census.count(|m| m.is(Model::Current) && m.is_broken());
    let Bounds {
        surge, unavailable, ..
    } = census.bounds;
    let round = surge.saturating_add(unavailable).max(1);
    (!census.is_proven() && broken >= round.min(census.bounds.replicas.max(1))).then_some(broken)
}

/// R1, R12: one write carries the new model and as much new capacity as is needed and allowed.
fn capacity_write(census: &Census<'_>, hold: Option<u32>) -> Option<Step> {
    let raise = if hold.is_some() {
        0
    } else {
        census.needed().min(census.headroom())
    };
    let capacity = census.scale_set.capacity + raise;
    if !census.model_is_current() {
        return Some(Step::new(
            Action::UpdateModel { capacity },
            Reason::ModelChanged,
        ));
    }
    let because = if capacity > census.bounds.replicas {
        Reason::Surge {
            replicas: census.bounds.replicas,
            surge: census.bounds.surge,
        }
    } else {
        Reason::TooFew {
            replicas: census.bounds.replicas,
        }
    };
    (raise > 0).then(|| Step::new(Action::RaiseCapacity { to: capacity }, because))
}

/// R3, R4, R8: instances whose drain is over are deleted by id, together, one request at a time.
fn batched_delete(census: &Census<'_>, plan: &mut Plan) -> Option<Step> {
    let at = census.observed.at;
    let drained: Vec<_> = census
        .members
        .iter()
        .filter_map(|m| Some((m, m.drained_since()?)))
        .collect();
    let first = drained.iter().map(|(_, since)| *since).min()?;
    let running = census.members.iter().any(|m| m.instance.is_being_deleted());
    if running && census.observed.deletes_collide {
        plan.waits.push(Wait::new(WaitingOn::DeleteUnderWay {
            count: drained.len() as u32,
        }));
        return None;
    }
    let until = first + linger(census);
    if at < until {
        let count = drained.len() as u32;
        let on = WaitingOn::Batch { count };
        plan.waits.push(Wait {
            on,
            since: Some(first),
            until: Some(until),
        });
        return None;
    }
    let instances = drained.iter().map(|(m, _)| m.instance.id.clone()).collect();
    Some(Step::new(
        Action::DeleteInstances { instances },
        Reason::Drained,
    ))
}

/// How long drained instances wait for others to share their request: not at all if nobody is on
/// the way.
fn linger(census: &Census<'_>) -> SignedDuration {
    if census.members.iter().any(Member::drains_freely) {
        census.observed.pool.patience
    } else {
        SignedDuration::ZERO
    }
}

/// Who goes: those that cost nothing first, then as many available ones as the floor allows.
fn remove(census: &Census<'_>, hold: Option<u32>, plan: &mut Plan) {
    let Broken { mut going, staying } = broken_ones(census, plan);
    let settled: BTreeSet<_> = going.iter().map(|(m, _)| m.id()).chain(staying).collect();
    let (serving, idle): (Going<'_, '_>, Going<'_, '_>) = surplus(census, hold, &settled)
        .into_iter()
        .partition(|(member, _)| member.is_available());
    going.extend(idle);
    if census.model_is_current() {
        going.extend(abandoned(census));
        going.extend(marked(census));
        if hold.is_none() {
            going.extend(order::old_and_serving(census));
        }
    }
    going.extend(serving);
    let mut allowed = census.allowed_to_lose();
    let mut gone = BTreeSet::new();
    for (member, because) in going {
        let spends = u32::from(member.is_available());
        if spends > allowed || !gone.insert(member.id()) {
            continue;
        }
        allowed -= spends;
        let instance = member.instance.id.clone();
        plan.steps
            .push(Step::new(Action::RemoveMachine { instance }, because));
    }
}

type Going<'c, 'o> = Vec<(&'c Member<'o>, Reason)>;

/// What becomes of the broken instances.
struct Broken<'c, 'o> {
    /// Who goes.
    going: Going<'c, 'o>,
    /// The ids of those that stay for now, whatever else asks for fewer instances.
    staying: Vec<&'o str>,
}

/// R11 and R10: broken instances go at once, but for two kinds.
///
/// Those of a revision of which nothing ever served are kept for a while, so that they fill the
/// round and stop it, however far apart they break. Of the others, when many break together, one
/// goes at a time, and as many as are replaced by instances that serve.
fn broken_ones<'c, 'o>(census: &'c Census<'o>, plan: &mut Plan) -> Broken<'c, 'o> {
    let broken = order::fittest_to_go(census, |m| {
        m.is_broken() && (m.is(Model::Current) || census.model_is_current())
    });
    let unproven = !census.is_proven();
    let (suspects, others): (Vec<_>, Vec<_>) = broken
        .into_iter()
        .partition(|m| unproven && m.is(Model::Current));
    let (retried, kept) = keep(census, suspects, plan);
    let (replaced, braked) = brake(census, others, plan);
    let going = replaced.into_iter().chain(retried).map(|member| {
        let why = member.broken_because();
        (member, Reason::Broken { why })
    });
    let staying = kept.into_iter().chain(braked).map(Member::id);
    Broken {
        going: going.collect(),
        staying: staying.collect(),
    }
}

type Split<'c, 'o> = (Vec<&'c Member<'o>>, Vec<&'c Member<'o>>);

/// R11: those that go, and those that are kept until the next try, which are no more than the user
/// wants instances.
fn keep<'c, 'o>(
    census: &'c Census<'o>,
    suspects: Vec<&'c Member<'o>>,
    plan: &mut Plan,
) -> Split<'c, 'o> {
    let pool = &census.observed.pool;
    let (mut going, mut kept): Split<'_, '_> = suspects
        .into_iter()
        .partition(|m| m.retry_at(pool) <= census.observed.at);
    let too_many = kept.len().saturating_sub(pool.replicas as usize);
    going.extend(kept.drain(..too_many));
    for member in &kept {
        let instance = member.instance.id.clone();
        plan.waits.push(Wait {
            on: WaitingOn::Retry { instance },
            since: None,
            until: Some(member.retry_at(pool)),
        });
    }
    (going, kept)
}

/// R10: those that go, and those that wait for their turn.
fn brake<'c, 'o>(
    census: &'c Census<'o>,
    mut broken: Vec<&'c Member<'o>>,
    plan: &mut Plan,
) -> Split<'c, 'o> {
    if !census.brake_is_on() {
        return (broken, Vec::new());
    }
    // R13: a drain that is held up may never end, and must not hold up the others.
    let busy = census.count(|m| m.is_starting() || m.is_leaving() && !m.is_held_up()) > 0;
    let count = broken.len() as u32;
    let replaced = (census.available() + count).saturating_sub(census.bounds.replicas);
    let free = replaced.max(u32::from(!busy)).min(count);
    let staying = broken.split_off(free as usize);
    if !staying.is_empty() {
        plan.waits
            .push(Wait::new(WaitingOn::Brake { broken: count }));
    }
    (broken, staying)
}

/// R15, R16: how the pool gets down to what the user asks, when it has more than that.
///
/// Old instances are counted together with the others while nothing is rolled, by themselves while
/// a revision is held, and not at all while the rollout takes them away. R9: whoever scales an
/// autoscaled pool takes the instances away as well.
fn surplus<'c, 'o>(
    census: &'c Census<'o>,
    hold: Option<u32>,
    settled: &BTreeSet<&'o str>,
) -> Going<'c, 'o> {
    if census.observed.pool.autoscaled {
        return Going::new();
    }
    let open = |m: &Member<'o>| !m.is_leaving() && !settled.contains(m.id());
    let rolled = |m: &Member<'o>| m.is(Model::Old) && census.model_is_current();
    let stays = |m: &Member<'o>| open(m) && !rolled(m);
    let mut going = too_many(census, census.count(stays), stays);
    if hold.is_some() {
        let old = |m: &Member<'o>| open(m) && rolled(m);
        going.extend(too_many(census, census.count(old), old));
    }
    going
}

/// R16: whom the user or an autoscaler marked goes before any other, whatever its model, but no
/// more than there are too many.
fn marked<'c, 'o>(census: &'c Census<'o>) -> Going<'c, 'o> {
    let live = census.count(|m| !m.is_leaving());
    too_many(census, live, Member::is_marked)
}

/// The fittest to go of those that a claim is true of: as many as there are more than asked for.
fn too_many<'c, 'o>(
    census: &'c Census<'o>,
    count: u32,
    claim: impl Fn(&Member<'o>) -> bool,
) -> Going<'c, 'o> {
    let replicas = census.bounds.replicas;
    order::fittest_to_go(census, |m| claim(m) && !m.instance.protected)
        .into_iter()
        .take(count.saturating_sub(replicas) as usize)
        .map(|member| (member, Reason::Surplus { replicas }))
        .collect()
}

/// R14: instances of an abandoned revision that serve nobody yet are not waited for.
fn abandoned<'c, 'o>(census: &'c Census<'o>) -> Going<'c, 'o> {
    order::fittest_to_go(census, |m| m.is(Model::Old) && m.is_starting())
        .into_iter()
        .map(|member| match member.finding() {
            Some(_) => (member, order::why_old(member)),
            None => (member, Reason::Abandoned),
        })
        .collect()
}

impl Plan {
    /// Returns whether the plan sends this instance away.
    #[must_use]
    pub fn removes(&self, id: &str) -> bool {
        self.steps.iter().any(|step| match &step.action {
            Action::RemoveMachine { instance } => instance == id,
            _ => false,
        })
    }

    /// Returns whether there is nothing to do and nothing to wait for.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.steps.is_empty() && self.waits.is_empty()
    }
}

fn schedule(observed: &Observed, plan: &mut Plan) {
    let looks = plan
        .waits
        .iter()
        .filter_map(|wait| next_look(observed, &wait.on));
    let next = looks.min();
    plan.look_serves_until = next.unwrap_or(observed.looked_at + LOOK_AGE_MAX);
    let after_write = plan.steps.iter().filter_map(|step| match &step.action {
        Action::CreateScaleSet { .. }
        | Action::UpdateModel { .. }
        | Action::RaiseCapacity { .. }
        | Action::PutBackCapacity { .. }
        | Action::DeleteScaleSet => Some(observed.at + LOOK_AFTER_WRITE),
        Action::DeleteInstances { .. } => Some(observed.at + LOOK_AFTER_DELETE),
        Action::AddMachine { .. }
        | Action::RemoveMachine { .. }
        | Action::ReleaseMachine { .. }
        | Action::ReleasePool => None,
    });
    let due = next.map(|next| next.max(observed.at));
    let moments = plan.waits.iter().filter_map(|wait| wait.until);
    plan.look_again = moments.chain(due).chain(after_write).min();
}

/// When Azure has to be looked at for the sake of a wait: where it is likely to be over.
fn next_look(observed: &Observed, on: &WaitingOn) -> Option<Timestamp> {
    let deletes = matches!(
        on,
        WaitingOn::Deletion { .. } | WaitingOn::DeleteUnderWay { .. }
    );
    match observed.deletion_due.filter(|_| deletes) {
        Some(due) => Some(due.max(observed.looked_at + observed.pool.patience)),
        None => Some(observed.looked_at + on.look_age_max()?),
    }
}

/// Returns since when a machine's drain is over; `None` while it is not.
fn drained_since(departure: &Departure) -> Option<Timestamp> {
    match departure {
        Departure::Drained { since } => Some(*since),
        Departure::Staying | Departure::Draining { .. } => None,
    }
}
