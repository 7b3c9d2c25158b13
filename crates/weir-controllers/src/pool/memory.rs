//! What is kept of a pool between turns, and may be lost at any moment.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use weir_azure::{Failure, Instance, Operation, ProvisioningState, Retry, ScaleSet};
use weir_core::observed::Revision;
use weir_core::plan::LOOK_AFTER_DELETE;

use super::refusal::Refusals;

/// The first pause after a refusal that names no time.
const BACKOFF_FIRST: SignedDuration = SignedDuration::from_secs(5);

/// The longest pause: a person who repaired something waits no longer than this.
const BACKOFF_LAST: SignedDuration = SignedDuration::from_mins(5);

/// How long deletes are not sent beside each other once Azure refused that.
const COLLISIONS_REMEMBERED: SignedDuration = SignedDuration::from_hours(1);

/// What is kept of a pool between turns.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// What Azure showed last, unless it was written to since.
    look: Option<Look>,
    /// The uid of each pool machine that we sent away, until the caches show it.
    pub(crate) sent_away: BTreeMap<String, String>,
    /// The operation that our last write started, to ask for the words of a failure.
    pub(crate) operation: Option<Operation>,
    /// Why Azure's last operation failed, until the scale set is well again.
    pub(crate) failure: Option<Failure>,
    /// What Azure refuses to make.
    pub(crate) refusals: Refusals,
    /// The last trouble that an event told of, so that it is told once.
    pub(crate) told: Option<String>,
    /// Until when the last look may serve, as the plan that was made from it said.
    pub(crate) look_serves_until: Timestamp,
    /// When each deletion under way was accepted, by instance id.
    deletes: BTreeMap<String, Timestamp>,
    /// How long deletions of this pool took of late.
    deletion_took: Option<SignedDuration>,
    /// When a delete was last refused because another one was running.
    collided_at: Option<Timestamp>,
    /// Since when Azure owes instances and made none.
    owed_since: Option<Timestamp>,
    tries: u32,
}

/// What Azure showed, with what our own writes have changed since.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// When the instances were listed.
    pub(crate) at: Timestamp,
    /// When the scale set itself was read.
    pub(crate) set_read_at: Timestamp,
    /// The scale set, if there is one.
    pub(crate) scale_set: Option<ScaleSet>,
    /// Its instances.
    pub(crate) instances: Vec<Instance>,
    /// Whether a delete of ours has changed the scale set's etag since it was read.
    pub(crate) etag_is_old: bool,
}

impl Look {
    /// Puts a look together from reads made now.
    pub(crate) fn new(
        at: Timestamp,
        scale_set: Option<ScaleSet>,
        instances: Vec<Instance>,
    ) -> Look {
        Look {
            at,
            set_read_at: at,
            scale_set,
            instances,
            etag_is_old: false,
        }
    }

    /// Returns how many instances Azure was asked for and does not list.
    fn owed(&self) -> u32 {
        let capacity = self.scale_set.as_ref().map_or(0, ScaleSet::capacity);
        let going = ProvisioningState::Deleting;
        let live = self
            .instances
            .iter()
            .filter(|i| i.provisioning_state() != going);
        capacity.saturating_sub(live.count() as u32)
    }

    /// Returns whether a newer listing shows nothing but what was under way: instances being
    /// deleted have gone, and as many have come as were asked for.
    pub(crate) fn expects(&self, listed: &[Instance]) -> bool {
        let states = |instances: &[Instance]| -> BTreeMap<Identity, ProvisioningState> {
            instances.iter().map(identity_and_state).collect()
        };
        let (before, now) = (states(&self.instances), states(listed));
        let goes = |state: &ProvisioningState| *state == ProvisioningState::Deleting;
        let live = before.values().filter(|state| !goes(state)).count() as u32;
        let capacity = self.scale_set.as_ref().map_or(0, ScaleSet::capacity);
        let came = now.keys().filter(|one| !before.contains_key(*one)).count() as u32;
        let as_expected = before.iter().all(|(one, was)| match now.get(one) {
            None => goes(was),
            Some(is) => is == was || !(goes(is) || *is == ProvisioningState::Failed),
        });
        as_expected && came <= capacity.saturating_sub(live)
    }
}

/// Azure reuses instance ids: the machine behind it tells one from the next.
type Identity = (String, Option<String>);

fn identity_and_state(instance: &Instance) -> (Identity, ProvisioningState) {
    let identity = (
        instance.instance_id.clone(),
        instance.properties.vm_id.clone(),
    );
    (identity, instance.provisioning_state())
}

impl Memory {
    /// Returns the last look if it may still be used. Every write to Azure ends it.
    pub(crate) fn fresh_look(&self, now: Timestamp) -> Option<Look> {
        self.look.clone().filter(|_| now < self.look_serves_until)
    }

    /// Returns the last look even if it is too old to be used as it is.
    pub(crate) fn last_look(&self) -> Option<Look> {
        self.look.clone()
    }

    /// Keeps a look.
    pub(crate) fn keep_look(&mut self, look: Look) {
        let ended = |id: &String| {
            !look
                .instances
                .iter()
                .any(|listed| listed.instance_id == *id)
        };
        for (_, accepted) in self.deletes.extract_if(.., |id, _| ended(id)) {
            let took = look.at.duration_since(accepted);
            // Half of what was known before: Azure's pace changes within a rollout.
            let known = self.deletion_took.unwrap_or(took);
            self.deletion_took = Some((known + took) / 2);
        }
        let made = look
            .instances
            .iter()
            .filter_map(|i| i.properties.time_created);
        let since = self
            .owed_since
            .unwrap_or(look.at)
            .max(made.max().unwrap_or(Timestamp::MIN));
        self.owed_since = (look.owed() > 0).then_some(since);
        self.look = Some(look);
    }

    /// Returns since when Azure owes instances and made none.
    pub(crate) fn owed_since(&self) -> Option<Timestamp> {
        self.owed_since
    }

    /// Returns when the first deletion under way may end, if earlier ones tell how long it takes.
    ///
    /// Three quarters of what was seen: an end is seen only by looking, so that what was seen is
    /// too long by the time between two looks, and would never become shorter.
    pub(crate) fn deletion_due(&self) -> Option<Timestamp> {
        Some(*self.deletes.values().min()? + self.deletion_took? * 3 / 4)
    }

    /// Takes over the scale set as it was read for a write of ours, or answered to one.
    pub(crate) fn take_over(&mut self, scale_set: ScaleSet, now: Timestamp) {
        if let Some(look) = &mut self.look {
            look.scale_set = Some(scale_set);
            look.set_read_at = now;
            look.etag_is_old = false;
        }
    }

    /// Records that Azure accepted to delete instances, which lowers the capacity at once.
    pub(crate) fn deletes_accepted(&mut self, ids: &[String], now: Timestamp) {
        self.deletes.extend(ids.iter().map(|id| (id.clone(), now)));
        let Some(look) = &mut self.look else { return };
        for instance in &mut look.instances {
            if ids.contains(&instance.instance_id) {
                instance.properties.provisioning_state = Some("Deleting".to_owned());
            }
        }
        let sku = look
            .scale_set
            .as_mut()
            .and_then(|scale_set| scale_set.sku.as_mut());
        if let Some(capacity) = sku.and_then(|sku| sku.capacity.as_mut()) {
            *capacity = capacity.saturating_sub(ids.len() as u32);
        }
        look.etag_is_old = true;
        self.look_serves_until = self.deletion_due().unwrap_or(now + LOOK_AFTER_DELETE);
    }

    /// Learns from a look what Azure refuses to make.
    pub(crate) fn learn(&mut self, look: &Look, revision: &Revision) {
        self.refusals.look(look, self.failure.as_ref(), revision);
    }

    /// Records that a delete was refused because another one was running.
    pub(crate) fn deletes_collided(&mut self, now: Timestamp) {
        self.collided_at = Some(now);
    }

    /// Returns whether deletes collided of late.
    pub(crate) fn deletes_collide(&self, now: Timestamp) -> bool {
        self.collided_at
            .is_some_and(|at| now < at + COLLISIONS_REMEMBERED)
    }

    /// Records that Azure was written to, or may have been.
    pub(crate) fn end_look(&mut self) {
        self.look = None;
    }

    /// Returns when to look again after a refusal.
    pub(crate) fn back_off(&mut self, retry: Retry, now: Timestamp) -> Timestamp {
        self.look = None;
        self.tries = self.tries.saturating_add(1);
        let doubled = BACKOFF_FIRST * 2_i32.pow(self.tries.saturating_sub(1).min(10));
        now + match retry {
            Retry::After(pause) => SignedDuration::try_from(pause)
                .unwrap_or(BACKOFF_LAST)
                .max(BACKOFF_FIRST),
            Retry::Backoff => doubled.min(BACKOFF_LAST),
            Retry::Never => BACKOFF_LAST,
        }
    }

    /// Records a turn in which nothing was refused.
    pub(crate) fn all_went_well(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_begin_anew_after_a_good_turn() {
        let now = Timestamp::UNIX_EPOCH;
        let mut memory = Memory::default();
        let pauses: Vec<_> = (0..8)
            .map(|_| {
                memory
                    .back_off(Retry::Backoff, now)
                    .duration_since(now)
                    .as_secs()
            })
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
        memory.all_went_well();
        assert_eq!(memory.back_off(Retry::Backoff, now), now + BACKOFF_FIRST);
        let named = memory.back_off(Retry::After(Duration::from_secs(47)), now);
        assert_eq!(named, now + SignedDuration::from_secs(47));
    }
}
