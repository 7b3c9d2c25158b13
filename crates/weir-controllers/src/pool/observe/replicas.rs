//! How many instances there are to be, and who says so.

use kube::ResourceExt;
use weir_api::AzureMachinePool;
use weir_api::capi::MachinePool;
use weir_api::contract::annotation;
use weir_core::observed::{Departure, Instance, Machine};

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
/// kept on the pool, and follows the capacity as far as our deletes do not explain it.
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
    let ours = |machine: &Machine| machine.departure != Departure::Staying;
    let going = instances.iter().filter(|i| i.is_being_deleted());
    let going = going.filter(|i| i.machine.as_ref().is_some_and(ours));
    let gone = orphans.iter().filter(|o| ours(o));
    let most = capacity + (going.count() + gone.count()) as u32;
    remembered.map_or(most, |remembered| remembered.clamp(capacity, most))
}

/// Returns the count that was last converged to in an autoscaled pool.
pub(in crate::pool) fn remembered(pool: &AzureMachinePool) -> Option<u32> {
    pool.annotations().get(marks::REPLICAS)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[test]
    fn a_pool_that_nobody_else_scales_has_what_its_user_asks() {
        let owner = machine_pool("false");
        assert_eq!(replicas(&pool(Some(9)), Some(&owner), Some(7), &[], &[]), 2);
    }
}
