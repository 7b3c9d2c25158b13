//! Pools whose count somebody else sets in Azure.

use weir_core::observed::Limit::Count;

use super::{nothing, story};
use crate::toy::Toy;

#[test]
fn with_nothing_to_spare() {
    story(
        "an autoscaled pool with nothing to spare says how to allow it",
        "R9 C09",
        || Toy::autoscaled(2, Count(1), Count(0)),
        |toy, round| {
            if round == 10 {
                assert_eq!((toy.made, toy.deleted), (0, 0));
                toy.allow_unavailable(Count(1));
            }
        },
    );
}

#[test]
fn it_rolls_inside_unavailable() {
    story(
        "an autoscaled pool rolls inside maxUnavailable without surge",
        "R9 C09",
        || Toy::autoscaled(3, Count(2), Count(1)),
        nothing,
    );
}

#[test]
fn the_autoscaler_adds() {
    story(
        "the autoscaler adds machines in mid-roll",
        "R9",
        || Toy::autoscaled(3, Count(1), Count(1)),
        |toy, round| {
            if round == 4 {
                toy.autoscaler_adds(2);
            }
        },
    );
}

#[test]
fn the_autoscaler_takes() {
    story(
        "the autoscaler takes machines in mid-roll and they are not made again",
        "R9",
        || Toy::autoscaled(4, Count(1), Count(1)),
        |toy, round| {
            if round == 4 {
                toy.autoscaler_takes("3");
            }
        },
    );
}

#[test]
fn a_place_of_ours_is_filled_again() {
    story(
        "a place of ours is filled again though the autoscaler takes another machine",
        "R9",
        || Toy::autoscaled(4, Count(1), Count(1)),
        |toy, round| {
            if round == 3 {
                toy.autoscaler_takes("3");
            }
        },
    );
}

#[test]
fn one_taken_from_a_settled_pool() {
    story(
        "what the autoscaler takes from a settled pool stays away",
        "R6 R9",
        || {
            let mut toy = Toy::settled(3, Count(1), Count(1));
            toy.pool.autoscaled = true;
            toy
        },
        |toy, round| {
            if round == 1 {
                toy.autoscaler_takes("1");
            }
        },
    );
}

#[test]
fn a_machine_deleted_by_hand_comes_back() {
    story(
        "a machine deleted by hand in an autoscaled pool comes back",
        "R9",
        || {
            let mut toy = Toy::settled(3, Count(1), Count(1));
            toy.pool.autoscaled = true;
            toy.deletion_takes = 3;
            toy
        },
        |toy, round| {
            if round == 1 {
                toy.delete_machine("1");
            }
        },
    );
}

/// C09: whoever looks at the pool reads what to set.
#[test]
fn the_pool_says_how_to_allow_a_rollout() {
    Toy::autoscaled(2, Count(1), Count(0)).play_out(|toy, round| {
        if round == 2 {
            let (reason, message) = toy.up_to_date();
            assert_eq!(reason, "NoBudgetWithoutSurge");
            assert!(message.contains("set maxUnavailable to 1"), "{message}");
            toy.allow_unavailable(Count(1));
        }
    });
}
