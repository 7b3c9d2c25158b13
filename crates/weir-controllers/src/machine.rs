//! One turn of a pool machine: whoever deletes it, its node is drained first.
//!
//! The pool decides who goes and deletes instances in Azure. This reconciler looks after machines
//! that are on their way out. One deleted by hand takes its Machine with it. Core drains no node
//! whose pool machine is being deleted already, so what core has not drained, Weir drains itself.

mod drain;

use jiff::SignedDuration;
use kube::{Api, ResourceExt};
use weir_api::capi::Machine;
use weir_api::{AzureMachinePoolMachine, contract};

use crate::caches::pool_of;
use crate::context::{Ctx, Key};
use crate::pool::Next;

/// How soon to look again while core is at a Machine, if nothing is heard of it before.
const CORE_LOOK: SignedDuration = SignedDuration::from_secs(5);

/// Reasons of a Machine's Deleting condition that come after its drain and its volumes.
const AFTER_DRAIN: [&str; 4] = [
    contract::deleting_reason::WAITING_FOR_INFRASTRUCTURE_DELETION,
    contract::deleting_reason::WAITING_FOR_BOOTSTRAP_DELETION,
    contract::deleting_reason::DELETING_NODE,
    contract::deleting_reason::DELETION_COMPLETED,
];

/// A turn could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Machine could not be read.
    #[error("failed to read the Machine of pool machine {0}")]
    ReadMachine(Key, #[source] kube::Error),
    /// The Machine could not be deleted.
    #[error("failed to delete the Machine of pool machine {0}")]
    DeleteMachine(Key, #[source] kube::Error),
    /// The node could not be drained.
    #[error("failed to drain the node of pool machine {0}")]
    Drain(Key, #[source] drain::DrainError),
}

/// Takes one turn for a pool machine.
///
/// # Errors
/// When the management cluster or the workload cluster could not be read or written.
pub async fn reconcile(key: &Key, ctx: &Ctx) -> Result<Next, Error> {
    let Some(machine) = ctx.caches.pool_machine(key) else {
        return Ok(Next::OnEvent);
    };
    if machine.metadata.deletion_timestamp.is_none() || is_left_alone(&machine, ctx) {
        return Ok(Next::OnEvent);
    }
    let api: Api<Machine> = Api::namespaced(ctx.kube.clone(), &key.namespace);
    // Read live: a Machine that the cache has not seen yet must not be passed by.
    let owner = api
        .get_opt(&owner_name(&machine))
        .await
        .map_err(|error| Error::ReadMachine(key.clone(), error))?
        .filter(|owner| owner.spec.infrastructure_ref.name == machine.name_any());
    match owner {
        Some(owner) if owner.metadata.deletion_timestamp.is_none() => {
            crate::pool::delete(&api, &owner)
                .await
                .map_err(|error| Error::DeleteMachine(key.clone(), error))?;
            Ok(Next::At(ctx.clock.now() + CORE_LOOK))
        }
        Some(owner) if core_has_drained(&owner) => Ok(Next::OnEvent),
        // Hooks of others come first, and core waits for them.
        Some(owner) if !is_past_drain(&owner) => Ok(Next::At(ctx.clock.now() + CORE_LOOK)),
        Some(_) | None => drain::drain(&machine, ctx)
            .await
            .map_err(|error| Error::Drain(key.clone(), error)),
    }
}

/// Whether core is at what comes after a Machine's drain, be it that there was one or not.
pub(crate) fn is_past_drain(machine: &Machine) -> bool {
    let conditions = machine.status.iter().flat_map(|status| &status.conditions);
    let mut deleting = conditions.filter(|each| each.type_ == contract::condition::DELETING);
    machine.metadata.deletion_timestamp.is_some()
        && deleting.any(|each| AFTER_DRAIN.contains(&each.reason.as_str()))
}

/// Whether core has seen to the node of a Machine: drained it, or left it alone on purpose.
///
/// The reason of its Deleting condition does not tell: core drains no node whose infrastructure is
/// being deleted already, and stops a drain in its middle then. It notes the time at which it
/// begins to wait for volumes only after that, and only if the infrastructure was not yet on its
/// way out.
///
/// # Source
/// Cluster API v1.14.2, core/reconcilers/machine/machine_controller.go, `isNodeDrainAllowed` and
/// `isNodeVolumeDetachingAllowed`.
pub(crate) fn core_has_drained(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    let deletion = status.and_then(|status| status.deletion.as_ref());
    let left_alone = machine
        .annotations()
        .contains_key(contract::annotation::EXCLUDE_NODE_DRAINING);
    left_alone
        || deletion.is_some_and(|times| times.wait_for_node_volume_detach_start_time.is_some())
}

/// Machines of a paused pool, or of one that goes as a whole, are not ours to drain.
fn is_left_alone(machine: &AzureMachinePoolMachine, ctx: &Ctx) -> bool {
    let Some(pool) = pool_of(machine).and_then(|key| ctx.caches.pool(&key)) else {
        return false;
    };
    let paused = weir_api::contract::annotation::PAUSED;
    pool.metadata.deletion_timestamp.is_some() || pool.annotations().contains_key(paused)
}

fn owner_name(machine: &AzureMachinePoolMachine) -> String {
    let owner = machine
        .owner_references()
        .iter()
        .find(|owner| owner.kind == "Machine");
    owner.map_or_else(|| machine.name_any(), |owner| owner.name.clone())
}
