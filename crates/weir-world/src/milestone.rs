//! How far has a machine come on its way from the write that makes it to its end?
//!
//! Told as it happens, so that whoever measures need not look at everything after each event.

use jiff::Timestamp;

use crate::azure::Vm;
use crate::cluster::fields;
use crate::cluster::kinds::resource;
use crate::cluster::kubelet::VmChange;
use crate::cluster::server::{Change, What};

/// A step that a machine has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Milestone {
    /// When.
    pub at: Timestamp,
    /// Which machine, in lower case.
    pub provider_id: String,
    /// Which step.
    pub what: Reached,
}

/// The steps in their usual order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// The write that makes it was accepted. Told once the machine runs, with the earlier time.
    Made,
    /// Its node became Ready.
    Ready,
    /// Its Machine was asked to go.
    Asked,
    /// Core has drained its node, and waits for the infrastructure.
    Drained,
    /// Azure accepted to delete it.
    DeleteAccepted,
    /// It is gone.
    Gone,
    /// Its node was taken out of the cluster.
    NodeRemoved,
}

impl Milestone {
    pub(crate) fn new(at: Timestamp, provider_id: &str, what: Reached) -> Milestone {
        Milestone {
            at,
            provider_id: provider_id.to_lowercase(),
            what,
        }
    }
}

pub(crate) fn of_creation(vm: &Vm) -> Milestone {
    Milestone::new(vm.created, &vm.provider_id, Reached::Made)
}

pub(crate) fn of_vm(now: Timestamp, change: &VmChange) -> Option<Milestone> {
    match change {
        VmChange::Gone { provider_id } => Some(Milestone::new(now, provider_id, Reached::Gone)),
        VmChange::Booted(_) | VmChange::Stopped { .. } => None,
    }
}

pub(crate) fn of_node(now: Timestamp, change: &Change) -> Option<Milestone> {
    if change.target.resource != resource::NODES {
        return None;
    }
    let was_ready = change.previous.as_deref().is_some_and(fields::is_ready);
    let what = match change.what {
        What::Deleted => Reached::NodeRemoved,
        What::Added | What::Modified if fields::is_ready(&change.object) && !was_ready => {
            Reached::Ready
        }
        What::Added | What::Modified => return None,
    };
    let provider_id = fields::text(&change.object, "/spec/providerID");
    Some(Milestone::new(now, provider_id, what))
}

pub(crate) fn of_machine(now: Timestamp, change: &Change) -> Option<Milestone> {
    if change.target.resource != resource::MACHINES {
        return None;
    }
    let before = change.previous.as_deref();
    let what = if is_drained(&change.object) && !before.is_some_and(is_drained) {
        Reached::Drained
    } else if fields::is_deleting(&change.object) && !before.is_some_and(fields::is_deleting) {
        Reached::Asked
    } else {
        return None;
    };
    let provider_id = fields::text(&change.object, "/spec/providerID");
    Some(Milestone::new(now, provider_id, what))
}

fn is_drained(machine: &serde_json::Value) -> bool {
    let conditions = fields::list(machine, "/status/conditions");
    let mut deleting = conditions
        .iter()
        .filter(|condition| fields::text(condition, "/type") == "Deleting");
    deleting
        .any(|condition| fields::text(condition, "/reason") == "WaitingForInfrastructureDeletion")
}
