//! What a pool says of itself, derived from what was seen and what was decided.

use crate::observed::{Observed, Provisioning, Reading};
use crate::plan::{Bounds, Census, Member, Model, Plan, WaitingOn};

/// One claim about the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What is claimed.
    pub kind: Kind,
    /// Whether it is so.
    pub truth: Truth,
    /// One word in camel case.
    pub reason: &'static str,
    /// A sentence for people; may be empty.
    pub message: String,
}

/// What can be claimed of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// At least the floor is available.
    Available,
    /// Every instance has the wanted revision.
    UpToDate,
    /// As many instances exist as are wanted.
    DesiredReplicas,
    /// The scale set exists and Azure reports no failure.
    ScaleSetRunning,
    /// All of the above.
    Ready,
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It cannot be told.
    Unknown,
}

/// Tells what a pool says of itself.
#[must_use]
pub fn conditions(observed: &Observed, plan: &Plan) -> Vec<Condition> {
    let (Reading::Known(Some(scale_set)), Reading::Known(instances)) =
        (&observed.scale_set, &observed.instances)
    else {
        return without_scale_set(observed, plan);
    };
    let census = Census::take(observed, scale_set, instances);
    let mut all = vec![available(&census, plan), up_to_date(&census, plan)];
    all.push(desired_replicas(&census, plan));
    all.push(running(&scale_set.provisioning));
    let bad = all
        .iter()
        .find(|condition| condition.truth != Truth::True)
        .cloned();
    all.push(match bad {
        None => new(Kind::Ready, Truth::True, "Ready", String::new()),
        Some(bad) => Condition {
            kind: Kind::Ready,
            ..bad
        },
    });
    all
}

fn new(kind: Kind, truth: Truth, reason: &'static str, message: String) -> Condition {
    Condition {
        kind,
        truth,
        reason,
        message,
    }
}

fn without_scale_set(observed: &Observed, plan: &Plan) -> Vec<Condition> {
    let (truth, reason) = match (&observed.scale_set, observed.pool.deleting) {
        (Reading::Unknown(_), _) => (Truth::Unknown, "NotReadable"),
        (Reading::Known(_), true) => (Truth::False, "Deleting"),
        (Reading::Known(_), false) => (Truth::False, "NotCreated"),
    };
    let message = waits(plan);
    [
        Kind::Available,
        Kind::UpToDate,
        Kind::DesiredReplicas,
        Kind::ScaleSetRunning,
        Kind::Ready,
    ]
    .map(|kind| new(kind, truth, reason, message.clone()))
    .to_vec()
}

fn available(census: &Census<'_>, plan: &Plan) -> Condition {
    let Bounds { replicas, .. } = census.bounds;
    let (available, floor) = (census.available(), census.bounds.floor());
    if matches!(census.observed.nodes, Reading::Unknown(_)) {
        return new(
            Kind::Available,
            Truth::Unknown,
            "NodesNotReadable",
            waits(plan),
        );
    }
    if available >= floor {
        let message = format!("{available} of {replicas} available");
        return new(Kind::Available, Truth::True, "Available", message);
    }
    let message = format!("{available} available, {floor} needed; {}", waits(plan));
    new(Kind::Available, Truth::False, "TooFewAvailable", message)
}

fn up_to_date(census: &Census<'_>, plan: &Plan) -> Condition {
    let old = census.count(|m| m.is(Model::Old));
    if old == 0 && census.model_is_current() {
        return new(Kind::UpToDate, Truth::True, "UpToDate", String::new());
    }
    let reason = plan.waits.iter().find_map(|wait| match &wait.on {
        WaitingOn::NeverServed { .. } => Some("NewModelNeverServed"),
        WaitingOn::Refused { .. } => Some("AzureRefusesToMakeMore"),
        WaitingOn::NotMade { .. } => Some("AzureMakesNoMore"),
        WaitingOn::NoBudget { .. } => Some("NoBudgetWithoutSurge"),
        WaitingOn::Drain {
            blocked_by: Some(_),
            ..
        } => Some("DrainBlocked"),
        WaitingOn::Unread { .. } => Some("NotReadable"),
        _ => None,
    });
    let message = format!(
        "{old} of {} to be replaced; {}",
        census.members.len(),
        waits(plan)
    );
    new(
        Kind::UpToDate,
        Truth::False,
        reason.unwrap_or("RollingOut"),
        message,
    )
}

fn desired_replicas(census: &Census<'_>, plan: &Plan) -> Condition {
    let live = census.count(|m| !m.is_leaving()) + census.pending();
    let wanted = census.bounds.replicas;
    let reason = match live.cmp(&wanted) {
        std::cmp::Ordering::Equal if census.count(Member::is_leaving) == 0 => {
            return new(
                Kind::DesiredReplicas,
                Truth::True,
                "DesiredReplicas",
                String::new(),
            );
        }
        std::cmp::Ordering::Less => "ScalingUp",
        std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => "ScalingDown",
    };
    let message = format!("{live} exist and stay, {wanted} wanted; {}", waits(plan));
    new(Kind::DesiredReplicas, Truth::False, reason, message)
}

fn running(provisioning: &Provisioning) -> Condition {
    let (truth, reason, message) = match provisioning {
        Provisioning::Creating => (Truth::False, "Creating", String::new()),
        Provisioning::Updating => (Truth::True, "Updating", String::new()),
        Provisioning::Succeeded => (Truth::True, "Succeeded", String::new()),
        Provisioning::Deleting => (Truth::False, "Deleting", String::new()),
        Provisioning::Failed(code) => (Truth::False, "Failed", format!("Azure reports {code}")),
    };
    new(Kind::ScaleSetRunning, truth, reason, message)
}

/// The first few waits as one line: a condition is read on a terminal.
fn waits(plan: &Plan) -> String {
    const SHOWN: usize = 3;
    let mut lines: Vec<_> = plan
        .waits
        .iter()
        .take(SHOWN)
        .map(ToString::to_string)
        .collect();
    if plan.waits.len() > SHOWN {
        lines.push(format!("and {} more", plan.waits.len() - SHOWN));
    }
    lines.join("; ")
}
