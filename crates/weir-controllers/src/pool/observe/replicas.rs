//! How many instances there are to be, and who says so.

use jiff::SignedDuration;
use kube::ResourceExt;
use weir_api::AzureMachinePool;
use weir_api::capi::MachinePool;
use weir_api::contract::annotation;
use weir_core::observed::{Departure, Instance, Machine};

use crate::marks;

/// How long deletes are not sent beside each other once Azure refused that.
pub(super) const COLLISIONS_REMEMBERED: SignedDuration = SignedDuration::from_hours(1);

/// Returns whether somebody else sets the count in Azure, as Cluster API's convention tells.
pub(super) fn is_autoscaled(machine_pool: &MachinePool) -> bool {
    let annotations = machine_pool.annotations();
    let manager = annotations.get(annotation::REPLICAS_MANAGED_BY);
    manager.is_some_and(|manager| manager != "false")
}

/// Returns how many instances there are to be.
///
/// R9: in an autoscaled pool that is the capacity in Azure, except while instances leave because of
/// us: then it is what it was before, as each of our deletes lowers the capacity by one. The count
/// is kept on the pool, since the capacity does not tell it after a restart.
pub(super) fn replicas(
    pool: &AzureMachinePool,
    machine_pool: Option<&MachinePool>,
    capacity: Option<u32>,
    instances: &[Instance],
    orphans: &[Machine],
) -> u32 {
    let spec = machine_pool.and_then(|machine_pool| machine_pool.spec.replicas);
    let spec = u32::try_from(spec.unwrap_or(1)).unwrap_or(0);
    if !machine_pool.is_some_and(is_autoscaled) {
        return spec;
    }
    let remembered = remembered(pool);
    let ours_leave = instances.iter().any(Instance::is_leaving)
        || orphans.iter().any(|o| o.departure != Departure::Staying);
    match capacity {
        Some(capacity) if !ours_leave => capacity,
        _ => remembered.or(capacity).unwrap_or(spec),
    }
}

/// Returns the count that was last converged to in an autoscaled pool.
pub(in crate::pool) fn remembered(pool: &AzureMachinePool) -> Option<u32> {
    pool.annotations().get(marks::REPLICAS)?.parse().ok()
}
