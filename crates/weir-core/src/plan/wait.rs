//! What keeps a plan from doing more, in words that status, events and the terminal share.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::{Census, Member, Model, Plan, Standing};
use crate::observed::{Departure, Observed, Provisioning, Refusal};

/// One thing that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What, and on whom.
    pub on: WaitingOn,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
    /// When the wait is over at the latest, where there is such a moment.
    pub until: Option<Timestamp>,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitingOn {
    /// A read that failed has to work before anything is decided.
    Unread {
        /// What was tried and why it failed.
        why: String,
    },
    /// Azure is to make instances that were asked for.
    Creation {
        /// How many.
        count: u32,
    },
    /// Azure owes instances for so long that it is not likely to make them.
    NotMade {
        /// How many.
        count: u32,
    },
    /// An instance is to serve.
    Joining {
        /// Its id.
        instance: String,
    },
    /// A node that stopped being Ready may recover.
    Recovery {
        /// The instance's id.
        instance: String,
    },
    /// A node is being drained.
    Drain {
        /// The instance's id.
        instance: String,
        /// What holds the drain up.
        blocked_by: Option<String>,
    },
    /// Drained instances wait for others, to share one delete request.
    Batch {
        /// How many are drained.
        count: u32,
    },
    /// Drained instances wait for Azure to end a delete that runs.
    DeleteUnderWay {
        /// How many are drained.
        count: u32,
    },
    /// Azure is deleting instances.
    Deletion {
        /// How many.
        count: u32,
    },
    /// Old instances serve and none may be spared.
    Floor {
        /// How many are available.
        available: u32,
        /// How many must stay so.
        floor: u32,
        /// How many old ones are left.
        old: u32,
    },
    /// More instances are needed and none may be added.
    Ceiling {
        /// How many exist.
        total: u32,
        /// How many may.
        ceiling: u32,
    },
    /// Azure refused to make more than exist.
    Refused {
        /// Azure's code.
        code: String,
        /// Azure's words.
        message: String,
    },
    /// Old instances serve in an autoscaled pool that allows none to be unavailable.
    NoBudget {
        /// How many old ones are left.
        old: u32,
    },
    /// No instance of the wanted revision ever served: it is not spread further.
    NeverServed {
        /// How many broke.
        broken: u32,
    },
    /// A broken instance of a revision that never served is kept before the next try.
    Retry {
        /// Its id.
        instance: String,
    },
    /// Too many instances broke at once: they are replaced one at a time.
    Brake {
        /// How many are broken.
        broken: u32,
    },
    /// More instances exist than are asked for, and these may not be taken for it.
    Protected {
        /// How many too many.
        count: u32,
        /// How many are asked for.
        replicas: u32,
    },
    /// Azure is changing the scale set.
    ScaleSetBusy,
    /// Azure is deleting the scale set.
    ScaleSetGone,
}

impl Wait {
    pub(super) fn new(on: WaitingOn) -> Wait {
        Wait {
            on,
            since: None,
            until: None,
        }
    }

    fn refused(refusal: &Refusal, at: Timestamp) -> Wait {
        Wait {
            on: WaitingOn::Refused {
                code: refusal.code.clone(),
                message: refusal.message.clone(),
            },
            since: Some(refusal.since),
            until: Some(refusal.retry_at).filter(|retry_at| *retry_at > at),
        }
    }

    pub(super) fn unread(why: &str) -> Wait {
        Wait::new(WaitingOn::Unread {
            why: why.to_owned(),
        })
    }
}

impl WaitingOn {
    /// Returns whether it may last until somebody does something about it.
    #[must_use]
    pub fn needs_somebody(&self) -> bool {
        match self {
            WaitingOn::NotMade { .. }
            | WaitingOn::Refused { .. }
            | WaitingOn::NoBudget { .. }
            | WaitingOn::NeverServed { .. }
            | WaitingOn::Protected { .. } => true,
            WaitingOn::Drain { blocked_by, .. } => blocked_by.is_some(),
            WaitingOn::Unread { .. }
            | WaitingOn::Creation { .. }
            | WaitingOn::Joining { .. }
            | WaitingOn::Recovery { .. }
            | WaitingOn::Batch { .. }
            | WaitingOn::DeleteUnderWay { .. }
            | WaitingOn::Deletion { .. }
            | WaitingOn::Floor { .. }
            | WaitingOn::Ceiling { .. }
            | WaitingOn::Retry { .. }
            | WaitingOn::Brake { .. }
            | WaitingOn::ScaleSetBusy
            | WaitingOn::ScaleSetGone => false,
        }
    }

    /// Returns how old a look at Azure may grow while this is waited for; `None` if Azure has no
    /// part in it.
    ///
    /// Azure announces nothing, so ends are found by looking. A look costs one of 12 reads and one
    /// of 10 listings a minute per scale set (docs/azure.md, "Throttling").
    #[must_use]
    pub fn look_age_max(&self) -> Option<SignedDuration> {
        match self {
            // A machine object has to be made before the node joins, about two minutes later.
            WaitingOn::Creation { .. } => Some(SignedDuration::from_secs(20)),
            WaitingOn::NotMade { .. } => Some(SignedDuration::from_secs(60)),
            // A slot stands idle from the end of a deletion until it is seen.
            WaitingOn::Deletion { .. } | WaitingOn::DeleteUnderWay { .. } => {
                Some(SignedDuration::from_secs(15))
            }
            WaitingOn::Unread { .. } | WaitingOn::ScaleSetGone => {
                Some(SignedDuration::from_secs(15))
            }
            WaitingOn::ScaleSetBusy => Some(SignedDuration::from_secs(15)),
            // A node that joins is heard of; an instance that fails is not.
            WaitingOn::Joining { .. } => Some(SignedDuration::from_secs(120)),
            WaitingOn::Recovery { .. }
            | WaitingOn::Drain { .. }
            | WaitingOn::Batch { .. }
            | WaitingOn::Floor { .. }
            | WaitingOn::Ceiling { .. }
            | WaitingOn::Refused { .. }
            | WaitingOn::NoBudget { .. }
            | WaitingOn::NeverServed { .. }
            | WaitingOn::Retry { .. }
            | WaitingOn::Brake { .. }
            | WaitingOn::Protected { .. } => None,
        }
    }
}

/// Adds to the plan what it waits for, most telling first.
pub(super) fn explain(census: &Census<'_>, hold: Option<u32>, plan: &mut Plan) {
    let old = census.count(|m| m.is(Model::Old) && m.is_available());
    if let Some(broken) = hold {
        plan.waits
            .push(Wait::new(WaitingOn::NeverServed { broken }));
    } else if old > 0 && census.model_is_current() && census.allowed_to_lose() == 0 {
        plan.waits.push(Wait::new(floor(census, old)));
    }
    plan.waits.extend(protected(census, hold));
    let held_back = hold.is_none() && census.needed() > 0 && census.headroom() == 0;
    let standing = census.refusal().filter(|_| held_back);
    if held_back && standing.is_none() {
        let (total, ceiling) = (census.total(), census.bounds.ceiling());
        plan.waits
            .push(Wait::new(WaitingOn::Ceiling { total, ceiling }));
    }
    let pending = census.pending();
    let failed = matches!(census.scale_set.provisioning, Provisioning::Failed(_));
    let refused = census.observed.refused.as_ref();
    let unmade = refused.filter(|_| failed && pending > 0);
    if let Some(refusal) = standing.or(unmade) {
        plan.waits.push(Wait::refused(refusal, census.observed.at));
    }
    if pending > 0 && unmade.is_none() {
        plan.waits.push(creation(census.observed, pending));
    }
    let deleting = census.count(|m| m.instance.is_being_deleted());
    if deleting > 0 {
        plan.waits
            .push(Wait::new(WaitingOn::Deletion { count: deleting }));
    }
    let busy = matches!(
        census.scale_set.provisioning,
        Provisioning::Creating | Provisioning::Updating
    );
    let starting = census.count(Member::is_starting);
    if busy && pending == 0 && deleting == 0 && starting == 0 {
        plan.waits.push(Wait::new(WaitingOn::ScaleSetBusy));
    }
    for member in &census.members {
        plan.waits.extend(wait_for(member));
    }
}

/// C16: what is owed for as long as an instance may take to join is not on its way.
fn creation(observed: &Observed, count: u32) -> Wait {
    let since = observed.owed_since;
    let until = since.map(|since| since + observed.pool.join_limit);
    let is_late = until.is_some_and(|until| until <= observed.at);
    let on = if is_late {
        WaitingOn::NotMade { count }
    } else {
        WaitingOn::Creation { count }
    };
    let until = until.filter(|_| !is_late);
    Wait { on, since, until }
}

fn floor(census: &Census<'_>, old: u32) -> WaitingOn {
    if census.observed.pool.autoscaled && census.bounds.unavailable == 0 {
        return WaitingOn::NoBudget { old };
    }
    WaitingOn::Floor {
        available: census.available(),
        floor: census.bounds.floor(),
        old,
    }
}

/// R16: what is protected stays, however few are asked for.
fn protected(census: &Census<'_>, hold: Option<u32>) -> Option<Wait> {
    let replicas = census.bounds.replicas;
    let rolled = |m: &Member<'_>| m.is(Model::Old) && census.model_is_current() && hold.is_none();
    let protected = census.count(|m| m.instance.protected && !m.is_leaving() && !rolled(m));
    let count = protected.saturating_sub(replicas);
    let is_told = count > 0 && !census.observed.pool.autoscaled;
    is_told.then(|| Wait::new(WaitingOn::Protected { count, replicas }))
}

fn wait_for(member: &Member<'_>) -> Option<Wait> {
    let instance = member.instance.id.clone();
    match &member.standing {
        Standing::Serving | Standing::Broken { .. } => None,
        Standing::Starting { due } => {
            let since = Some(member.instance.created);
            Some(Wait {
                on: WaitingOn::Joining { instance },
                since,
                until: Some(*due),
            })
        }
        Standing::Unready { due } => {
            let since = member.instance.node.as_ref().map(|node| node.since);
            Some(Wait {
                on: WaitingOn::Recovery { instance },
                since,
                until: Some(*due),
            })
        }
        Standing::Leaving => match &member.instance.machine.as_ref()?.departure {
            Departure::Draining { since, blocked_by } if !member.instance.is_being_deleted() => {
                let on = WaitingOn::Drain {
                    instance,
                    blocked_by: blocked_by.clone(),
                };
                Some(Wait {
                    on,
                    since: Some(*since),
                    until: None,
                })
            }
            _ => None,
        },
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.on.fmt(f)?;
        match self.since.filter(|_| self.on.needs_somebody()) {
            Some(since) => write!(f, " (since {since:.0})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitingOn::Unread { why } => write!(f, "waiting to know: {why}"),
            WaitingOn::Creation { count } => write!(f, "Azure is making {count}"),
            WaitingOn::NotMade { count } => {
                write!(
                    f,
                    "Azure has neither made nor refused {count} that it was asked for"
                )
            }
            WaitingOn::Joining { instance } => write!(f, "{instance} is starting"),
            WaitingOn::Recovery { instance } => write!(f, "{instance} may recover"),
            WaitingOn::Drain {
                instance,
                blocked_by: None,
            } => write!(f, "{instance} is draining"),
            WaitingOn::Drain {
                instance,
                blocked_by: Some(who),
            } => {
                write!(f, "the drain of {instance} is held up by {who}")
            }
            WaitingOn::Batch { count } => write!(f, "{count} drained, more to share the request"),
            WaitingOn::DeleteUnderWay { count } => {
                write!(
                    f,
                    "{count} drained, to go when the running delete has ended"
                )
            }
            WaitingOn::Deletion { count } => write!(f, "Azure is deleting {count}"),
            WaitingOn::Floor {
                available,
                floor,
                old,
            } => write!(
                f,
                "{old} old to replace, but {available} available and {floor} must stay so"
            ),
            WaitingOn::Ceiling { total, ceiling } => {
                write!(f, "more are needed, but {total} exist and {ceiling} may")
            }
            WaitingOn::Refused { code, message } => {
                write!(f, "Azure refuses to make more: {code}: {message}")
            }
            WaitingOn::NoBudget { old } => write!(
                f,
                "{old} old to replace, but an autoscaled pool makes no surge and none may be \
                 unavailable: set maxUnavailable to 1 or more"
            ),
            WaitingOn::NeverServed { broken } => write!(
                f,
                "{broken} of the new model failed and none ever served: correct the model"
            ),
            WaitingOn::Retry { instance } => write!(f, "{instance} is kept until the next try"),
            WaitingOn::Brake { broken } => {
                write!(
                    f,
                    "{broken} broke together: they are replaced one at a time"
                )
            }
            WaitingOn::Protected { count, replicas } => write!(
                f,
                "{count} more than {replicas} exist and are protected from scale-in"
            ),
            WaitingOn::ScaleSetBusy => f.write_str("Azure is changing the scale set"),
            WaitingOn::ScaleSetGone => f.write_str("Azure is deleting the scale set"),
        }
    }
}
