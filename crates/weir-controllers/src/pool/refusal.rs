//! What Azure refuses to make: since when, how often it was asked, and when to ask again.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use weir_azure::{ErrorKind, Failure, Instance, ProvisioningState};
use weir_core::observed::{Refusal, Revision};

use super::memory::Look;

/// How soon is asked again first. Capacity comes and goes within minutes.
const PAUSE_FIRST: SignedDuration = SignedDuration::from_mins(1);

/// How long is waited at most: whoever was given more quota sees it used soon.
const PAUSE_LAST: SignedDuration = SignedDuration::from_mins(15);

/// What Azure refuses to make. Lost with the process, which then asks once more.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    standing: Option<Standing>,
    /// Instances that failed for want of hardware and were counted.
    counted: BTreeSet<String>,
    /// Whether the failure that the scale set shows was counted.
    set_counted: bool,
}

#[derive(Debug)]
struct Standing {
    refusal: Refusal,
    tries: u32,
    /// What was refused: another model may fit.
    revision: Revision,
}

/// Returns whether an error means that no more instances can be had for now.
pub(super) fn is_refusal(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::QuotaExceeded | ErrorKind::AllocationFailed | ErrorKind::SkuNotAvailable
    )
}

impl Refusals {
    /// Returns the refusal that stands for this revision.
    pub(super) fn standing(&self, revision: &Revision) -> Option<Refusal> {
        let standing = self.standing.as_ref()?;
        (standing.revision == *revision).then(|| standing.refusal.clone())
    }

    /// Records that Azure refused to make more than so many instances.
    pub(super) fn refused(
        &mut self,
        failure: &Failure,
        fits: u32,
        revision: &Revision,
        now: Timestamp,
    ) {
        let before = self.standing.take();
        let before = before.filter(|standing| standing.revision == *revision);
        let tries = before.as_ref().map_or(0, |standing| standing.tries);
        let pause = (PAUSE_FIRST * 2_i32.pow(tries.min(10))).min(PAUSE_LAST);
        self.standing = Some(Standing {
            refusal: Refusal {
                code: failure.code.clone(),
                message: failure.message.clone(),
                since: before.map_or(now, |standing| standing.refusal.since),
                retry_at: now + pause,
                fits,
            },
            tries: tries + 1,
            revision: revision.clone(),
        });
    }

    /// Learns from a look: creations that failed later, and those that worked again.
    pub(super) fn look(&mut self, look: &Look, failure: Option<&Failure>, revision: &Revision) {
        let failed: Vec<_> = look.instances.iter().filter_map(without_hardware).collect();
        let made = (look.instances.len() - failed.len()) as u32;
        if self
            .standing
            .as_ref()
            .is_some_and(|s| made > s.refusal.fits)
        {
            self.standing = None;
        }
        let fresh = failed.iter().find(|(id, _)| !self.counted.contains(id));
        let fresh = fresh.map(|(_, failure)| failure.clone());
        self.counted = failed.into_iter().map(|(id, _)| id).collect();
        if let Some(failure) = fresh {
            self.refused(&failure, made, revision, look.at);
        }
        let missing = missing_after_failure(look);
        if missing && !self.set_counted {
            let unknown = || Failure {
                code: "Failed".to_owned(),
                message: "Azure made fewer instances than were asked for".to_owned(),
            };
            let failure = failure.cloned().unwrap_or_else(unknown);
            self.refused(&failure, made, revision, look.at);
        }
        self.set_counted = missing;
    }
}

/// The identity of an instance that got no machine, and why.
fn without_hardware(instance: &Instance) -> Option<(String, Failure)> {
    let failure = instance.failure().filter(|f| is_refusal(f.kind()))?;
    let vm_id = instance.properties.vm_id.clone();
    Some((
        vm_id.unwrap_or_else(|| instance.instance_id.clone()),
        failure,
    ))
}

/// Whether the last change of the scale set failed and left instances unmade.
fn missing_after_failure(look: &Look) -> bool {
    let Some(scale_set) = &look.scale_set else {
        return false;
    };
    let deleting =
        |instance: &&Instance| instance.provisioning_state() == ProvisioningState::Deleting;
    let live = look.instances.len() - look.instances.iter().filter(deleting).count();
    scale_set.provisioning_state() == ProvisioningState::Failed
        && scale_set.capacity() as usize > live
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_the_same_model_is_refused_and_begin_anew_with_another() {
        let failure = Failure {
            code: "QuotaExceeded".to_owned(),
            message: "no cores left".to_owned(),
        };
        let (one, two) = (Revision("1".to_owned()), Revision("2".to_owned()));
        let now = Timestamp::UNIX_EPOCH;
        let mut refusals = Refusals::default();
        let mut minutes = Vec::new();
        for _ in 0..6 {
            refusals.refused(&failure, 3, &one, now);
            let standing = refusals.standing(&one).map(|refusal| refusal.retry_at);
            minutes.extend(standing.map(|at| at.duration_since(now).as_mins()));
        }
        assert_eq!(minutes, [1, 2, 4, 8, 15, 15]);
        assert_eq!(refusals.standing(&two), None);
        refusals.refused(&failure, 3, &two, now);
        let again = refusals.standing(&two).map(|refusal| refusal.retry_at);
        assert_eq!(again, Some(now + PAUSE_FIRST));
    }
}
