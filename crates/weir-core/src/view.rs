//! What people see of a pool: the same lines in the terminal, in goldens and over HTTP.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::observed::{Departure, Observed, Reading};
use crate::plan::{Bounds, Census, Member, Model, Plan, Standing};

/// A pool at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolView {
    /// Its name.
    pub name: String,
    /// When it looked so.
    pub at: Timestamp,
    /// How many instances there are to be.
    pub replicas: u32,
    /// How many must stay available.
    pub floor: u32,
    /// How many may exist.
    pub ceiling: u32,
    /// How many are available.
    pub available: u32,
    /// How many exist, those included that Azure was asked for or is deleting.
    pub total: u32,
    /// How many of the wanted revision are available.
    pub updated: u32,
    /// One row for each instance, in the order of the ids.
    pub instances: Vec<InstanceView>,
    /// What is done at this moment, in words.
    pub steps: Vec<String>,
    /// What is waited for, in words.
    pub waits: Vec<String>,
}

/// One instance at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstanceView {
    /// Its id.
    pub id: String,
    /// Its node, where one has joined.
    pub node: Option<String>,
    /// Whether it has the wanted revision.
    pub current: bool,
    /// Where it is on its way from creation to deletion.
    pub phase: Phase,
    /// More about that, in words; may be empty.
    pub note: String,
}

/// Where an instance is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Azure makes it, or its node is about to join.
    Starting,
    /// It serves.
    Serving,
    /// Its node is not Ready.
    Unready,
    /// It will not serve by itself.
    Broken,
    /// Its node is being drained.
    Draining,
    /// Its drain is over.
    Drained,
    /// Azure deletes it.
    Deleting,
}

impl PoolView {
    /// Tells what a pool looks like, from what was seen and what was decided.
    #[must_use]
    pub fn of(observed: &Observed, plan: &Plan) -> PoolView {
        let bounds = Bounds::of(&observed.pool);
        let mut view = PoolView {
            name: observed.pool.name.clone(),
            at: observed.at,
            replicas: bounds.replicas,
            floor: bounds.floor(),
            ceiling: bounds.ceiling(),
            available: 0,
            total: 0,
            updated: 0,
            instances: Vec::new(),
            steps: plan.steps.iter().map(ToString::to_string).collect(),
            waits: plan.waits.iter().map(ToString::to_string).collect(),
        };
        if let (Reading::Known(Some(scale_set)), Reading::Known(instances)) =
            (&observed.scale_set, &observed.instances)
        {
            let census = Census::take(observed, scale_set, instances);
            view.available = census.available();
            view.total = census.total();
            view.updated = census.count(|m| m.is(Model::Current) && m.is_available());
            view.instances = census.members.iter().map(instance_view).collect();
        }
        view
    }
}

fn instance_view(member: &Member<'_>) -> InstanceView {
    let (phase, note) = phase(member);
    InstanceView {
        id: member.instance.id.clone(),
        node: member.instance.node.as_ref().map(|node| node.name.clone()),
        current: member.is(Model::Current),
        phase,
        note,
    }
}

fn phase(member: &Member<'_>) -> (Phase, String) {
    match &member.standing {
        Standing::Serving => (Phase::Serving, String::new()),
        Standing::Starting { .. } => (Phase::Starting, String::new()),
        Standing::Unready { .. } => (Phase::Unready, String::new()),
        Standing::Broken { why, .. } => (Phase::Broken, why.clone()),
        Standing::Leaving if member.instance.is_being_deleted() => (Phase::Deleting, String::new()),
        Standing::Leaving => match member.instance.machine.as_ref().map(|m| &m.departure) {
            Some(Departure::Draining { blocked_by, .. }) => {
                (Phase::Draining, blocked_by.clone().unwrap_or_default())
            }
            _ => (Phase::Drained, String::new()),
        },
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Phase::Starting => "starting",
            Phase::Serving => "serving",
            Phase::Unready => "not ready",
            Phase::Broken => "broken",
            Phase::Draining => "draining",
            Phase::Drained => "drained",
            Phase::Deleting => "deleting",
        })
    }
}
