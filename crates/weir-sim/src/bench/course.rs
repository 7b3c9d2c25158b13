//! What became of each machine in a rollout, from what the world told as it happened?

use std::collections::BTreeMap;

use jiff::Timestamp;
use weir_world::milestone::{Milestone, Reached};

use super::{Cycle, Limits};

/// What became of the machines since the version was changed.
#[derive(Clone, Debug)]
pub struct Course {
    /// When the version was changed.
    pub start: Timestamp,
    /// The steps of each machine, in milliseconds since then; negative for what was before.
    pub machines: BTreeMap<String, Steps>,
}

/// The steps of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The write that makes it was accepted.
    pub made: Option<i64>,
    /// Its node was Ready for the first time.
    pub ready: Option<i64>,
    /// It was asked to go.
    pub asked: Option<i64>,
    /// Core had drained its node.
    pub drained: Option<i64>,
    /// Azure accepted to delete it.
    pub accepted: Option<i64>,
    /// It was gone.
    pub gone: Option<i64>,
    /// Its node was gone as well.
    pub node_removed: Option<i64>,
}

/// The times of a rollout in milliseconds, in order of occurrence.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// Of each machine made: from the accepted write to its node being Ready.
    pub creates: Vec<i64>,
    /// Of each machine that left.
    pub leaves: Vec<Cycle>,
}

impl Course {
    pub(super) fn new(start: Timestamp) -> Course {
        Course {
            start,
            machines: BTreeMap::new(),
        }
    }

    pub(super) fn take(&mut self, milestones: Vec<Milestone>) {
        for Milestone {
            at,
            provider_id,
            what,
        } in milestones
        {
            let at = at.duration_since(self.start).as_millis() as i64;
            let steps = self.machines.entry(provider_id).or_default();
            let step = match what {
                Reached::Made => &mut steps.made,
                Reached::Ready => &mut steps.ready,
                Reached::Asked => &mut steps.asked,
                Reached::Drained => &mut steps.drained,
                Reached::DeleteAccepted => &mut steps.accepted,
                Reached::Gone => &mut steps.gone,
                Reached::NodeRemoved => &mut steps.node_removed,
            };
            // A node that comes and goes counts from the first time.
            step.get_or_insert(at);
        }
    }

    /// Returns a step of all machines that took it since the start, sorted.
    #[must_use]
    pub fn all(&self, step: impl Fn(&Steps) -> Option<i64>) -> Vec<i64> {
        let taken = self.machines.values().filter_map(step);
        let mut taken: Vec<i64> = taken.filter(|at| *at >= 0).collect();
        taken.sort_unstable();
        taken
    }

    /// Returns the times, in the order in which machines were made, and were asked to go.
    #[must_use]
    pub fn spans(&self) -> Spans {
        let since_start = |at: Option<i64>| at.filter(|at| *at >= 0);
        let mut creates: Vec<(i64, i64)> = Vec::new();
        let mut leaves: Vec<(i64, Cycle)> = Vec::new();
        for steps in self.machines.values() {
            if let (Some(made), Some(ready)) = (since_start(steps.made), steps.ready) {
                creates.push((made, ready - made));
            }
            if let (Some(accepted), Some(gone)) = (since_start(steps.accepted), steps.gone) {
                let drained = steps.drained.unwrap_or(accepted);
                let asked = steps.asked.unwrap_or(drained);
                let cycle = Cycle {
                    drain: drained - asked,
                    delete: gone - accepted,
                };
                leaves.push((asked, cycle));
            }
        }
        creates.sort_by_key(|(made, _)| *made);
        leaves.sort_by_key(|(asked, _)| *asked);
        Spans {
            creates: creates.into_iter().map(|(_, span)| span).collect(),
            leaves: leaves.into_iter().map(|(_, cycle)| cycle).collect(),
        }
    }

    /// Returns when the last new machine served and the last old one was gone.
    #[must_use]
    pub fn end(&self) -> i64 {
        let ready = self.all(|steps| steps.made.filter(|at| *at >= 0).and(steps.ready));
        let gone = self.all(|steps| steps.gone);
        ready.last().max(gone.last()).copied().unwrap_or(0)
    }

    /// Returns the fewest that were available and the most that existed.
    #[must_use]
    pub fn extremes(&self, limits: Limits) -> (i64, i64) {
        let mut changes: Vec<(i64, i64, i64)> = Vec::new();
        for steps in self.machines.values() {
            let is_new = steps.made.is_some_and(|at| at >= 0);
            if let (true, Some(made)) = (is_new, steps.made) {
                changes.push((made, 0, 1));
            }
            if let (true, Some(ready)) = (is_new, steps.ready) {
                changes.push((ready, 1, 0));
            }
            if let Some(asked) = steps.asked.filter(|at| *at >= 0) {
                changes.push((asked, -1, 0));
            }
            if let Some(gone) = steps.gone.filter(|at| *at >= 0) {
                changes.push((gone, 0, -1));
            }
        }
        // What comes at the same instant is given the benefit of the doubt.
        changes.sort_by_key(|(at, available, total)| (*at, -available, *total));
        let replicas = i64::from(limits.replicas);
        let (mut available, mut total) = (replicas, replicas);
        let (mut fewest, mut most) = (replicas, replicas);
        for (_, more_available, more) in changes {
            available += more_available;
            total += more;
            fewest = fewest.min(available);
            most = most.max(total);
        }
        (fewest, most)
    }
}
