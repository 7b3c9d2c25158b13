//! Classifies every instance once, and counts.

use jiff::Timestamp;

use super::drained_since;
use crate::observed::{
    Departure, Instance, Node, Observed, Pool, Power, Provisioning, Refusal, ScaleSet, Unhealthy,
};

/// What the pool's numbers allow at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many instances there are to be.
    pub replicas: u32,
    /// How many more may exist.
    pub surge: u32,
    /// How many fewer may be available because of us.
    pub unavailable: u32,
}

impl Bounds {
    /// Resolves the pool's limits against its replicas.
    ///
    /// Surge rounds up and unavailable rounds down; if both come out 0, one may be unavailable,
    /// as in a Deployment, since otherwise nothing could ever be replaced. An autoscaled pool has
    /// no surge, which its autoscaler would take for its own, and only the loss that was allowed.
    #[must_use]
    pub fn of(pool: &Pool) -> Bounds {
        let replicas = pool.replicas;
        let surge = pool.max_surge.round_up(replicas);
        let unavailable = pool.max_unavailable.round_down(replicas);
        let (surge, unavailable) = match (pool.autoscaled, surge) {
            (true, _) => (0, unavailable),
            (false, 0) => (0, unavailable.max(1)),
            (false, _) => (surge, unavailable),
        };
        Bounds {
            replicas,
            surge,
            unavailable: unavailable.min(replicas),
        }
    }

    /// Returns how many instances must stay available (R2).
    #[must_use]
    pub fn floor(self) -> u32 {
        self.replicas - self.unavailable
    }

    /// Returns how many instances may exist at once (R1).
    #[must_use]
    pub fn ceiling(self) -> u32 {
        self.replicas.saturating_add(self.surge)
    }
}

/// What an instance is worth at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its node has been Ready for long enough: the only standing that counts as available.
    Serving,
    /// Made, and not yet serving.
    Starting {
        /// When it will have taken too long, or will have been Ready long enough.
        due: Timestamp,
    },
    /// Was serving; its node is not Ready for less than its limit.
    Unready {
        /// When it counts as broken.
        due: Timestamp,
    },
    /// Will not serve again by itself.
    Broken {
        /// Since when, as far as can be told.
        since: Timestamp,
        /// Why, in words for people.
        why: String,
    },
    /// On its way out.
    Leaving,
}

/// Whether an instance is as it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// It has the wanted revision.
    Current,
    /// It has another one, or none that is known, or serves and is to be replaced for its health.
    Old,
}

/// One instance, classified.
#[derive(Clone, Debug)]
pub struct Member<'o> {
    /// The instance.
    pub instance: &'o Instance,
    /// What it is worth.
    pub standing: Standing,
    /// Whether it is as it is wanted.
    pub model: Model,
}

/// All instances of the pool, classified, with the numbers that decisions need.
#[derive(Clone, Debug)]
pub struct Census<'o> {
    /// Where it was taken from.
    pub observed: &'o Observed,
    /// The scale set.
    pub scale_set: &'o ScaleSet,
    /// In the order of the ids.
    pub members: Vec<Member<'o>>,
    /// The pool's numbers.
    pub bounds: Bounds,
}

impl<'o> Census<'o> {
    /// Classifies the instances.
    #[must_use]
    pub fn take(
        observed: &'o Observed,
        scale_set: &'o ScaleSet,
        instances: &'o [Instance],
    ) -> Census<'o> {
        let members = instances
            .iter()
            .map(|instance| Member {
                instance,
                standing: standing(instance, &observed.pool, observed.at),
                model: model(instance, &observed.pool),
            })
            .collect();
        Census {
            observed,
            scale_set,
            members,
            bounds: Bounds::of(&observed.pool),
        }
    }

    /// Counts the members that a claim is true of.
    #[must_use]
    pub fn count(&self, claim: impl Fn(&Member<'o>) -> bool) -> u32 {
        self.members.iter().filter(|member| claim(member)).count() as u32
    }

    /// Returns whether the scale set makes instances of the wanted revision.
    #[must_use]
    pub fn model_is_current(&self) -> bool {
        self.scale_set.revision.as_ref() == Some(&self.observed.pool.revision)
    }

    /// Returns how many instances are available.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.count(Member::is_available)
    }

    /// Returns how many instances have been asked of Azure and are not listed yet.
    #[must_use]
    pub fn pending(&self) -> u32 {
        self.scale_set
            .capacity
            .saturating_sub(self.count(|m| !m.instance.is_being_deleted()))
    }

    /// Returns how many instances exist or will, those being deleted included (R1).
    #[must_use]
    pub fn total(&self) -> u32 {
        self.members.len() as u32 + self.pending()
    }

    /// Returns how many more instances may be asked for (R1), and are likely to be had (R18).
    ///
    /// Once it is time to ask again after a refusal, one more than there are: what is refused is
    /// the whole request.
    #[must_use]
    pub fn headroom(&self) -> u32 {
        let total = self.total();
        let fits = match (&self.observed.refused, self.refusal()) {
            (None, _) => u32::MAX,
            (Some(_), Some(refusal)) => refusal.fits,
            (Some(refusal), None) => refusal.fits.max(total + 1),
        };
        self.bounds.ceiling().min(fits).saturating_sub(total)
    }

    /// Returns why no more instances can be had, until it is time to ask again.
    #[must_use]
    pub fn refusal(&self) -> Option<&'o Refusal> {
        let refused = self.observed.refused.as_ref();
        refused.filter(|refusal| self.observed.at < refusal.retry_at)
    }

    /// Returns whether Azure is at work on the scale set or on any instance.
    #[must_use]
    pub fn azure_is_at_work(&self) -> bool {
        is_work(&self.scale_set.provisioning)
            || self
                .members
                .iter()
                .any(|member| is_work(&member.instance.provisioning))
    }

    /// Returns how many instances of the wanted revision are still to be made (R12).
    ///
    /// Those on their way may come of the model before; the next look tells.
    #[must_use]
    pub fn needed(&self) -> u32 {
        let good = self.count(|m| m.is(Model::Current) && !m.is_broken() && !m.is_leaving());
        self.bounds.replicas.saturating_sub(good + self.pending())
    }

    /// Returns whether failures of the wanted revision need not be its own fault: an instance of it
    /// served, or Azure refuses to make any (R11).
    #[must_use]
    pub fn is_proven(&self) -> bool {
        let wanted = Some(&self.observed.pool.revision);
        let served =
            |m: &Member<'_>| m.instance.revision.as_ref() == wanted && m.has_served(self.observed);
        self.observed.refused.is_some() || self.members.iter().any(served)
    }

    /// Returns how many available instances may go (R2).
    #[must_use]
    pub fn allowed_to_lose(&self) -> u32 {
        self.available().saturating_sub(self.bounds.floor())
    }

    /// Returns whether so many instances are missing for want of health that the cause is likely
    /// outside them (R10): broken ones, and below the floor also those that are being replaced.
    #[must_use]
    pub fn brake_is_on(&self) -> bool {
        let broken = self.count(Member::is_broken);
        let missing = self.bounds.floor().saturating_sub(self.available());
        broken > 0 && 3 * broken.max(missing) > self.bounds.replicas
    }
}

impl<'o> Member<'o> {
    /// Returns the instance's id.
    #[must_use]
    pub fn id(&self) -> &'o str {
        &self.instance.id
    }

    /// Returns whether it counts for the floor.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.standing == Standing::Serving
    }

    /// Returns whether it will not serve again by itself.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        matches!(self.standing, Standing::Broken { .. })
    }

    /// Returns whether it has not served yet and still may.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        matches!(self.standing, Standing::Starting { .. })
    }

    /// Returns whether it is on its way out.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.standing == Standing::Leaving
    }

    /// Returns whether somebody asked that it goes first.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        let machine = self.instance.machine.as_ref();
        machine.is_some_and(|machine| machine.delete_marked)
    }

    /// Returns what a health check found, if it is to be replaced for that.
    #[must_use]
    pub fn finding(&self) -> Option<&'o Unhealthy> {
        finding(self.instance)
    }

    /// Returns whether it has this model.
    #[must_use]
    pub fn is(&self, model: Model) -> bool {
        self.model == model
    }

    /// Returns since when it could be deleted in Azure; `None` if it may not be, or is already.
    #[must_use]
    pub fn drained_since(&self) -> Option<Timestamp> {
        if self.instance.is_being_deleted() {
            return None;
        }
        drained_since(&self.instance.machine.as_ref()?.departure)
    }

    /// Returns whether its drain is under way and nothing is known to hold it up.
    #[must_use]
    pub fn drains_freely(&self) -> bool {
        matches!(self.blocker(), Some(None))
    }

    /// Returns whether its drain is under way and is known to be held up.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        matches!(self.blocker(), Some(Some(_)))
    }

    /// What holds up the drain that is under way.
    fn blocker(&self) -> Option<Option<&str>> {
        match &self.instance.machine.as_ref()?.departure {
            Departure::Draining { blocked_by, .. } if !self.instance.is_being_deleted() => {
                Some(blocked_by.as_deref())
            }
            _ => None,
        }
    }

    /// Returns whether it served at some time.
    ///
    /// What a node was before it last changed is not known: one that stopped being Ready before its
    /// instance had to serve counts as one that never did.
    fn has_served(&self, observed: &Observed) -> bool {
        let pool = &observed.pool;
        self.instance.node.as_ref().is_some_and(|node| {
            if node.ready {
                node.since + pool.min_ready <= observed.at
            } else {
                node.since >= self.instance.created + pool.join_limit
            }
        })
    }

    pub(super) fn broken_because(&self) -> String {
        match &self.standing {
            Standing::Broken { why, .. } => why.clone(),
            _ => String::new(),
        }
    }

    /// Returns when a broken instance of a revision that never served may be tried anew.
    ///
    /// After twice the join limit, so that a bad image costs a few machines an hour and a passing
    /// fault of the platform still heals without a person.
    pub(super) fn retry_at(&self, pool: &Pool) -> Timestamp {
        match &self.standing {
            Standing::Broken { since, .. } => *since + pool.join_limit * 2,
            _ => Timestamp::MIN,
        }
    }
}

fn is_work(provisioning: &Provisioning) -> bool {
    match provisioning {
        Provisioning::Creating | Provisioning::Updating | Provisioning::Deleting => true,
        Provisioning::Succeeded | Provisioning::Failed(_) => false,
    }
}

fn finding(instance: &Instance) -> Option<&Unhealthy> {
    instance.machine.as_ref()?.unhealthy.as_ref()
}

/// One that serves though it is unhealthy is replaced like an old one: not before another serves.
fn model(instance: &Instance, pool: &Pool) -> Model {
    let is_ready = instance.node.as_ref().is_some_and(|node| node.ready);
    let is_wanted = finding(instance).is_none() || !is_ready;
    if is_wanted && instance.revision.as_ref() == Some(&pool.revision) {
        Model::Current
    } else {
        Model::Old
    }
}

fn standing(instance: &Instance, pool: &Pool, at: Timestamp) -> Standing {
    if instance.is_leaving() {
        return Standing::Leaving;
    }
    if instance.power == Power::Stopped {
        let why = "the virtual machine is stopped".to_owned();
        return Standing::Broken {
            since: instance.created,
            why,
        };
    }
    match &instance.node {
        Some(node) if node.ready => return ready_standing(node, pool, at),
        _ => {}
    }
    if let Some(Unhealthy { since, why }) = finding(instance) {
        let (since, why) = (*since, why.clone());
        return Standing::Broken { since, why };
    }
    match &instance.node {
        Some(node) => unready_standing(instance, node, pool, at),
        None => nodeless_standing(instance, pool, at),
    }
}

fn ready_standing(node: &Node, pool: &Pool, at: Timestamp) -> Standing {
    let settled = node.since + pool.min_ready;
    if settled > at {
        return Standing::Starting { due: settled };
    }
    // A cordon of ours on an instance that stays is about to be undone; it takes no new pods now.
    if node.cordoned_by_us {
        Standing::Unready {
            due: at + pool.unready_limit,
        }
    } else {
        Standing::Serving
    }
}

fn unready_standing(instance: &Instance, node: &Node, pool: &Pool, at: Timestamp) -> Standing {
    let join_due = instance.created + pool.join_limit;
    if at < join_due {
        return Standing::Starting { due: join_due };
    }
    let due = node.since + pool.unready_limit;
    if at < due {
        return Standing::Unready { due };
    }
    let why = format!("node {} has not been Ready since {}", node.name, node.since);
    Standing::Broken { since: due, why }
}

fn nodeless_standing(instance: &Instance, pool: &Pool, at: Timestamp) -> Standing {
    if let Provisioning::Failed(code) = &instance.provisioning {
        let why = format!("Azure reports {code}");
        return Standing::Broken {
            since: instance.created,
            why,
        };
    }
    let due = instance.created + pool.join_limit;
    if at < due {
        return Standing::Starting { due };
    }
    let why = "no node of it is in the cluster".to_owned();
    Standing::Broken { since: due, why }
}
