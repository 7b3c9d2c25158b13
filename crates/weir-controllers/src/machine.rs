//! One turn of a pool machine: whoever deletes it, its node is drained first.
//!
//! The pool decides who goes and deletes instances in Azure. This reconciler looks after machines
//! that are on their way out: one deleted by hand takes its Machine with it, so that core drains
//! the node; one that has no Machine is drained by Weir itself.

mod drain;

use kube::{Api, ResourceExt};
use weir_api::AzureMachinePoolMachine;
use weir_api::capi::Machine;

use crate::caches::pool_of;
use crate::context::{Ctx, Key};
use crate::pool::Next;

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
            Ok(Next::OnEvent)
        }
        Some(_) => Ok(Next::OnEvent),
        None => drain::drain(&machine, ctx)
            .await
            .map_err(|error| Error::Drain(key.clone(), error)),
    }
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
