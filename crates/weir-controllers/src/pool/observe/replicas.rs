//! How many instances there are to be, and who says so.

use kube::ResourceExt;
use weir_api::AzureMachinePool;
use weir_api::capi::MachinePool;
use weir_api::contract::annotation;
use weir_core::observed::{Departure, Instance, Machine, Observed, Reading};

use crate::marks;

/// Returns whether somebody else sets the count in Azure, as Cluster API's convention tells.
pub(super) fn is_autoscaled(machine_pool: &MachinePool) -> bool {
    let annotations = machine_pool.annotations();
    let manager = annotations.get(annotation::REPLICAS_MANAGED_BY);
    manager.is_some_and(|manager| manager != "false")
}

/// Returns how many instances there are to be.
///
/// R9: in an autoscaled pool that is the capacity in Azure, and what our own deletes have lowered
/// it by and is not filled again. The capacity alone does not tell how much that is: the count is
/// kept on the pool, and follows the capacity as far as our deletes do not explain it. What
/// somebody else is seen to delete has lowered the capacity already, and so lowers the count.
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
    let Some(capacity) = capacity else {
        return remembered.unwrap_or(spec);
    };
    let (ours, theirs) = being_deleted(instances);
    let gone = orphans.iter().filter(|orphan| is_ours(orphan)).count();
    let most = capacity + ours + gone as u32;
    let left = remembered.map(|count| count.saturating_sub(theirs));
    left.map_or(most, |count| count.clamp(capacity, most))
}

/// Counts the instances that are being deleted by us, and by others.
fn being_deleted(instances: &[Instance]) -> (u32, u32) {
    let going = instances.iter().filter(|i| i.is_being_deleted());
    let (ours, theirs): (Vec<_>, Vec<_>) =
        going.partition(|i| i.machine.as_ref().is_some_and(is_ours));
    (ours.len() as u32, theirs.len() as u32)
}

fn is_ours(machine: &Machine) -> bool {
    machine.departure != Departure::Staying
}

/// Returns the count that was last noted on an autoscaled pool.
fn remembered(pool: &AzureMachinePool) -> Option<u32> {
    pool.annotations().get(marks::REPLICAS)?.parse().ok()
}

/// Returns the note that has to stand on the pool now, if it stands there otherwise.
///
/// It counts what others are deleting as well, which is taken off as long as it is seen to go.
pub(in crate::pool) fn new_note(
    pool: &AzureMachinePool,
    observed: &Observed,
) -> Option<Option<u32>> {
    let wanted = &observed.pool;
    let theirs = match (&observed.scale_set, &observed.instances) {
        (Reading::Known(_), Reading::Known(instances)) => being_deleted(instances).1,
        _ => return None,
    };
    let counts = wanted.autoscaled && !wanted.deleting;
    let note = counts.then_some(wanted.replicas + theirs);
    (note != remembered(pool)).then_some(note)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_core::observed::{Power, Provisioning};

    use super::*;

    fn pool(remembered: Option<u32>) -> AzureMachinePool {
        let mut pool = AzureMachinePool::new("pool", Default::default());
        let text = remembered.map(|count| (marks::REPLICAS.to_owned(), count.to_string()));
        pool.metadata.annotations = text.map(|text| [text].into());
        pool
    }

    fn machine_pool(managed_by: &str) -> MachinePool {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
            "metadata": {"name": "pool", "annotations": {
                "cluster.x-k8s.io/replicas-managed-by": managed_by}},
            "spec": {"clusterName": "cluster", "replicas": 2, "template": {"spec": {
                "clusterName": "cluster", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}}},
        }))
        .expect("a MachinePool as the API server has it")
    }

    fn orphan(departure: Departure) -> Machine {
        Machine {
            name: "pool-0".to_owned(),
            delete_marked: false,
            unhealthy: None,
            departure,
        }
    }

    #[test]
    fn an_autoscaled_pool_follows_its_capacity_but_for_what_we_deleted() {
        let ours = || {
            orphan(Departure::Draining {
                since: jiff::Timestamp::UNIX_EPOCH,
                blocked_by: None,
            })
        };
        let theirs = || orphan(Departure::Staying);
        let rows = [
            ("never seen before", None, Some(5), vec![], 5),
            ("at rest", Some(5), Some(5), vec![], 5),
            ("scaled up from outside", Some(5), Some(7), vec![], 7),
            (
                "scaled down from outside",
                Some(5),
                Some(3),
                vec![theirs()],
                3,
            ),
            ("one of ours is gone", Some(5), Some(4), vec![ours()], 5),
            ("filled again", Some(5), Some(5), vec![ours()], 5),
            (
                "one of ours and one of theirs",
                Some(5),
                Some(3),
                vec![ours(), theirs()],
                4,
            ),
            (
                "ours, and scaled up meanwhile",
                Some(5),
                Some(6),
                vec![ours()],
                6,
            ),
            ("nothing in Azure", Some(5), None, vec![], 5),
            ("nothing anywhere", None, None, vec![], 2),
        ];
        for (name, remembered, capacity, orphans, expected) in rows {
            let owner = machine_pool("azure-autoscale");
            let found = replicas(&pool(remembered), Some(&owner), capacity, &[], &orphans);
            assert_eq!(found, expected, "{name}");
        }
    }

    fn being_deleted(departure: Departure) -> Instance {
        Instance {
            id: "0".to_owned(),
            vm_id: "vm".to_owned(),
            created: jiff::Timestamp::UNIX_EPOCH,
            provisioning: Provisioning::Deleting,
            power: Power::Running,
            zone: None,
            protected: false,
            revision: None,
            machine: Some(orphan(departure)),
            node: None,
        }
    }

    #[test]
    fn what_others_are_deleting_is_not_filled_again() {
        let ours = || {
            being_deleted(Departure::Drained {
                since: jiff::Timestamp::UNIX_EPOCH,
            })
        };
        let theirs = || being_deleted(Departure::Staying);
        // The note has those that others delete in it for as long as they are listed.
        let rows = [
            ("ours", 5, 4, vec![ours()], 5),
            ("theirs, before it is noted", 5, 4, vec![theirs()], 4),
            ("both, before it is noted", 5, 3, vec![ours(), theirs()], 4),
            ("both, noted", 5, 3, vec![ours(), theirs()], 4),
            ("theirs is gone", 5, 3, vec![ours()], 4),
        ];
        let owner = machine_pool("azure-autoscale");
        for (name, noted, capacity, instances, expected) in rows {
            let found = replicas(
                &pool(Some(noted)),
                Some(&owner),
                Some(capacity),
                &instances,
                &[],
            );
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn a_pool_that_nobody_else_scales_has_what_its_user_asks() {
        let owner = machine_pool("false");
        assert_eq!(replicas(&pool(Some(9)), Some(&owner), Some(7), &[], &[]), 2);
    }
}
