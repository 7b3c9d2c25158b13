//! The rollout that the demo shows, with its figures.

use jiff::SignedDuration;
use weir_sim::rollout::{Fault, Plan, Rollout, Summary};
use weir_sim::scene::PoolSpec;

fn roll(replicas: u32, max_surge: &str, max_unavailable: &str, fault: Option<Fault>) -> Summary {
    let mut pool = PoolSpec::new("workers", replicas);
    pool.max_surge = max_surge.to_owned();
    pool.max_unavailable = max_unavailable.to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    runtime.block_on(async {
        let mut rollout = Rollout::begin(Plan {
            pool,
            seed: 1,
            fault,
        })
        .await;
        while !rollout.is_over() {
            rollout.advance(SignedDuration::from_secs(1)).await;
        }
        rollout.summary()
    })
}

#[test]
fn ten_replicas_with_surge_three_roll_close_to_the_bound() {
    let summary = roll(10, "3", "0", None);
    assert!(
        summary.converged && summary.broken_promises.is_empty(),
        "{summary:#?}"
    );
    assert_eq!((summary.min_available, summary.floor), (10, 10));
    assert_eq!((summary.max_total, summary.ceiling), (13, 13));
    assert_eq!(
        (summary.instances_created, summary.instances_deleted),
        (10, 10)
    );
    assert_eq!(summary.undrained_deletes, 0);
    // Simulated time and counted calls: the same on every machine.
    let ratio = summary.makespan_seconds as f64 / summary.bound_seconds as f64;
    assert!((1.0..=1.3).contains(&ratio), "{ratio}: {summary:#?}");
    assert!(summary.azure_calls <= 100, "{summary:#?}");
}

#[test]
fn every_fault_of_the_demo_is_survived_within_the_promises() {
    let faults = [
        Fault::PdbStuck,
        Fault::AzureThrottle,
        Fault::BadImage,
        Fault::InstanceVanishes,
    ];
    for fault in faults {
        let summary = roll(4, "1", "0", Some(fault));
        assert!(summary.converged, "{fault:?}: {summary:#?}");
        assert!(
            summary.broken_promises.is_empty(),
            "{fault:?}: {summary:#?}"
        );
        assert_eq!(summary.undrained_deletes, 0, "{fault:?}");
    }
}

#[test]
fn a_pool_rolls_without_surge_too() {
    let summary = roll(4, "0", "2", None);
    assert!(
        summary.converged && summary.broken_promises.is_empty(),
        "{summary:#?}"
    );
    assert_eq!((summary.instances_created, summary.max_total), (4, 4));
}
