//! Faults that were found, each as the story that showed it.

use weir_sim::scene::PoolSpec;
use weir_sim::story::{Beat, Move, Story, Verdict};
use weir_world::cluster::workload::WorkloadSpec;

fn play(pool: PoolSpec, moves: &[(u32, Move)]) -> Verdict {
    let pods = i64::from(pool.replicas) * 2;
    let story = Story {
        seed: 1,
        workloads: vec![WorkloadSpec::new("web", pods).with_min_available("1")],
        moves: moves
            .iter()
            .map(|(after, what)| Beat {
                after: *after,
                pool: 0,
                what: what.clone(),
            })
            .collect(),
        pools: vec![pool],
        ..Story::default()
    };
    story.play()
}

/// Core drains no node whose pool machine is being deleted already: it went on to wait for the
/// infrastructure at once, and the instance was deleted with its pods.
#[test]
fn a_pool_machine_deleted_by_hand_is_drained_before_its_instance_goes() {
    let verdict = play(
        PoolSpec::new("pool", 3),
        &[(30, Move::DeletePoolMachine(1))],
    );
    assert_eq!(verdict.broken, [""; 0]);
}

/// Core does not pass the pool's drain timeout on to its Machines: with one node, a budget waits
/// for ever for a place that only the replacement can give, and a user's deletion hung.
#[test]
fn the_drain_timeout_holds_for_a_machine_that_a_user_deletes() {
    let mut pool = PoolSpec::new("pool", 1);
    pool.max_surge = "0".to_owned();
    pool.max_unavailable = "1".to_owned();
    pool.drain_timeout_seconds = Some(600);
    let verdict = play(pool, &[(30, Move::DeleteMachine(0))]);
    assert_eq!(verdict.broken, [""; 0]);
}

/// An instance that stops takes its pods with it: they cannot be evicted, and it has to go.
#[test]
fn a_stopped_instance_is_replaced() {
    let verdict = play(PoolSpec::new("pool", 3), &[(30, Move::Stop(0))]);
    assert_eq!(verdict.broken, [""; 0]);
}

#[test]
fn a_pool_deleted_in_mid_roll_leaves_nothing() {
    let moves = [
        (5, Move::Version("v1.34.1".to_owned())),
        (200, Move::DeletePool),
    ];
    let verdict = play(PoolSpec::new("pool", 3), &moves);
    assert_eq!(verdict.broken, [""; 0]);
}

/// Weir's own drain has the same limit as core's: a budget that allows nothing ends with it.
#[test]
fn the_drain_timeout_holds_for_a_pool_machine_deleted_by_hand() {
    let mut pool = PoolSpec::new("pool", 1);
    pool.max_surge = "0".to_owned();
    pool.max_unavailable = "1".to_owned();
    pool.drain_timeout_seconds = Some(600);
    let verdict = play(pool, &[(30, Move::DeletePoolMachine(0))]);
    assert_eq!(verdict.broken, [""; 0]);
}
