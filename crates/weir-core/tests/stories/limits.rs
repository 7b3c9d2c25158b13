//! How surge and unavailable shape a rollout in which nothing goes wrong.

use jiff::SignedDuration;
use weir_core::observed::Limit::{Count, Percent};

use super::{nothing, story};
use crate::toy::Toy;

#[test]
fn surge_only() {
    story(
        "surge only",
        "R1 R2 R3 R4 R12 C01 C02",
        || Toy::rolling(3, Count(1), Count(0)),
        nothing,
    );
}

#[test]
fn surge_three_of_ten() {
    story(
        "surge three of ten",
        "R1 R12 C129",
        || Toy::rolling(10, Count(3), Count(0)),
        nothing,
    );
}

#[test]
fn unavailable_only() {
    story(
        "unavailable only",
        "R2",
        || Toy::rolling(3, Count(0), Count(1)),
        nothing,
    );
}

#[test]
fn surge_and_unavailable() {
    story(
        "surge and unavailable",
        "R2 R12",
        || Toy::rolling(4, Count(1), Count(1)),
        nothing,
    );
}

#[test]
fn percentages_round_surge_up_and_unavailable_down() {
    story(
        "percentages",
        "R1 R2",
        || Toy::rolling(3, Percent(34), Percent(34)),
        nothing,
    );
}

#[test]
fn both_limits_round_to_zero() {
    story(
        "both limits round to zero",
        "R2",
        || Toy::rolling(3, Count(0), Percent(10)),
        nothing,
    );
}

#[test]
fn one_replica_with_surge() {
    story(
        "one replica with surge",
        "R1 R2",
        || Toy::rolling(1, Count(1), Count(0)),
        nothing,
    );
}

#[test]
fn one_replica_without_surge() {
    story(
        "one replica without surge",
        "R2",
        || Toy::rolling(1, Count(0), Count(1)),
        nothing,
    );
}

#[test]
fn deleting_ones_count_for_the_ceiling() {
    story(
        "a machine being deleted counts until it is gone",
        "R1 R8 C04",
        || {
            let mut toy = Toy::rolling(3, Percent(25), Count(0));
            toy.deletion_takes = 3;
            toy
        },
        nothing,
    );
}

#[test]
fn draining_ones_count_for_the_ceiling() {
    story(
        "machines that drain for long count as existing",
        "R1 R3 C10",
        || {
            let mut toy = Toy::rolling(4, Percent(50), Count(0));
            let three_minutes = SignedDuration::from_mins(3);
            let all = toy.instances.iter();
            toy.slow_drains = all.map(|i| (i.id.clone(), three_minutes)).collect();
            toy
        },
        nothing,
    );
}

#[test]
fn a_percentage_of_a_large_pool() {
    story(
        "a fifth of a hundred and six is twenty-two at a time",
        "R1 R12 C11",
        || Toy::rolling(106, Percent(20), Count(0)),
        nothing,
    );
}

#[test]
fn only_the_budget_leaves() {
    story(
        "all are outdated at once and only the budget leaves",
        "R2 C14",
        || Toy::rolling(8, Count(0), Count(2)),
        nothing,
    );
}

#[test]
fn the_last_wave_is_no_larger_than_needed() {
    story(
        "the last wave makes no more than are needed",
        "R12 C129",
        || Toy::rolling(4, Count(3), Count(0)),
        nothing,
    );
}

#[test]
fn a_surge_larger_than_the_pool() {
    story(
        "a surge larger than the pool makes one for each",
        "R12",
        || Toy::rolling(2, Count(5), Count(0)),
        nothing,
    );
}

#[test]
fn nodes_have_to_be_ready_for_a_while() {
    story(
        "a node counts once it was Ready for minReadySeconds",
        "R2",
        || {
            let mut toy = Toy::rolling(2, Count(1), Count(0));
            toy.pool.min_ready = SignedDuration::from_mins(2);
            toy
        },
        nothing,
    );
}

#[test]
fn zones_take_turns() {
    story(
        "zones take turns",
        "R17",
        || {
            let mut toy = Toy::zonal(3, 6, Count(1), Count(0));
            toy.pool.revision = crate::toy::revision("v2");
            toy
        },
        nothing,
    );
}

#[test]
fn unequal_zones_are_levelled_first() {
    story(
        "the zone with most old machines goes first",
        "R17",
        || {
            let mut toy = Toy::zonal(2, 5, Count(1), Count(0));
            toy.pool.revision = crate::toy::revision("v2");
            for instance in &mut toy.instances {
                let zone = if instance.id == "0" { "2" } else { "1" };
                instance.zone = Some(zone.to_owned());
            }
            toy
        },
        nothing,
    );
}

#[test]
fn as_many_are_made_as_are_replaced() {
    for replicas in 1..=20 {
        for surge in 1..=5 {
            let toy = Toy::rolling(replicas, Count(surge), Count(0)).play_out(nothing);
            let counts = (toy.made, toy.deleted);
            assert_eq!(
                counts,
                (replicas, replicas),
                "{replicas} replicas, surge {surge}"
            );
        }
    }
}
