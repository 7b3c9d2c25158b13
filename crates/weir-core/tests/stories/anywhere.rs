//! No pool is stuck, wherever it starts from: once nobody interferes any more, it gets whole.

use jiff::SignedDuration;
use weir_core::observed::{Departure, Instance, Limit, Power, Provisioning, ScaleSet};

use super::nothing;
use crate::toy::{Dice, Toy, revision};

const POOLS: u64 = 2000;

#[test]
fn a_pool_in_any_state_gets_whole() {
    for seed in 0..POOLS {
        let played = drawn(seed).play_out(nothing);
        let count = played.instances.len() as u32;
        assert_eq!(count, played.replicas(), "seed {seed}");
    }
}

/// A pool that faults, users and a killed controller have left in some state.
fn drawn(seed: u64) -> Toy {
    let mut dice = Dice(seed);
    let (surge, unavailable) = (dice.below(3) as u32, dice.below(3) as u32);
    let (surge, unavailable) = (Limit::Count(surge), Limit::Count(unavailable));
    let mut toy = Toy::rolling(dice.below(7) as u32, surge, unavailable);
    let now = toy.now;
    for instance in &mut toy.instances {
        instance.revision =
            [None, Some("v1"), Some("v2"), Some("v2")][dice.below(4) as usize].map(revision);
        instance.created = now - SignedDuration::from_mins(dice.below(60) as i64);
        disturb(instance, &mut dice);
    }
    toy.pool.replicas = dice.below(6) as u32;
    let live = toy.instances.iter().filter(|i| !i.is_being_deleted());
    toy.scale_set = Some(ScaleSet {
        capacity: live.count() as u32,
        revision: [Some("v1"), Some("v2")][dice.below(2) as usize].map(revision),
        provisioning: [Provisioning::Succeeded, Provisioning::Updating][dice.below(2) as usize]
            .clone(),
    });
    if dice.below(4) == 0 {
        toy.pool.autoscaled = true;
        toy.pool.max_unavailable = Limit::Count(1 + dice.below(2) as u32);
    }
    toy
}

fn disturb(instance: &mut Instance, dice: &mut Dice) {
    let since = instance.created;
    match dice.below(10) {
        0 => instance.node = None,
        1 => {
            let node = instance.node.as_mut().unwrap();
            (node.ready, node.since) = (false, since);
        }
        2 => instance.power = Power::Stopped,
        3 => {
            instance.node = None;
            instance.provisioning = Provisioning::Failed("OSProvisioningTimedOut".to_owned());
        }
        4 => instance.provisioning = Provisioning::Deleting,
        5 => instance.machine = None,
        6 => depart(instance, Departure::Drained { since }),
        7 => depart(
            instance,
            Departure::Draining {
                since,
                blocked_by: None,
            },
        ),
        _ => {}
    }
}

fn depart(instance: &mut Instance, departure: Departure) {
    instance.machine.as_mut().unwrap().departure = departure;
}
