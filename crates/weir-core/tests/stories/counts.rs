//! Another count: up, down and to zero.

use jiff::SignedDuration;
use weir_core::observed::Limit::Count;

use super::{nothing, story};
use crate::toy::Toy;

#[test]
fn a_new_pool_is_made() {
    story(
        "a new pool is made",
        "R6 R12",
        || Toy::empty(3, Count(1), Count(0)),
        nothing,
    );
}

#[test]
fn scale_up_in_mid_roll() {
    story(
        "scale up in mid-roll",
        "R1 R12",
        || Toy::rolling(3, Count(1), Count(0)),
        |toy, round| {
            if round == 5 {
                toy.scale(5);
            }
        },
    );
}

#[test]
fn a_new_model_while_others_are_being_made() {
    story(
        "a new model while a scale-up is under way makes no more than are needed",
        "R12",
        || Toy::settled(2, Count(4), Count(0)),
        |toy, round| {
            toy.azure_sleeps = (1..6).contains(&round);
            match round {
                1 => toy.scale(4),
                3 => toy.want("v2"),
                _ => {}
            }
        },
    );
}

#[test]
fn scale_down_in_mid_roll() {
    story(
        "scale down in mid-roll",
        "R1 R15 R16",
        || Toy::rolling(5, Count(1), Count(0)),
        |toy, round| {
            if round == 5 {
                toy.scale(3);
            }
        },
    );
}

#[test]
fn scale_down_while_the_new_model_is_held() {
    story(
        "a scale-down is obeyed though the new model never served",
        "R11 R15 R16",
        || {
            let mut toy = Toy::rolling(4, Count(1), Count(0));
            toy.bad.push("v2".to_owned());
            toy
        },
        |toy, round| match round {
            70 => toy.scale(2),
            90 => toy.want("v1"),
            _ => {}
        },
    );
}

#[test]
fn scale_down_below_the_new_ones() {
    story(
        "a scale-down to fewer than the new ones ends with new ones only",
        "R15 R16",
        || Toy::rolling(5, Count(2), Count(0)),
        |toy, round| {
            if round == 7 {
                toy.scale(1);
            }
        },
    );
}

#[test]
fn a_starting_replacement_is_no_surplus() {
    story(
        "a starting replacement is no surplus while an old one serves",
        "R15",
        || {
            let mut toy = Toy::rolling(4, Count(2), Count(0));
            toy.boot = SignedDuration::from_mins(3);
            toy
        },
        |toy, round| {
            if round == 4 {
                toy.scale(3);
            }
        },
    );
}

#[test]
fn those_on_their_way_out_are_not_chosen_again() {
    story(
        "machines on their way out are not chosen again",
        "R16 C08",
        || {
            let mut toy = Toy::settled(5, Count(1), Count(0));
            toy.deletion_takes = 4;
            let minutes = SignedDuration::from_mins(1);
            toy.slow_drains = ["3", "4"].map(|id| (id.to_owned(), minutes)).into();
            toy
        },
        |toy, round| {
            if round == 1 {
                toy.delete_machine("3");
                toy.delete_machine("4");
                toy.scale(3);
            }
        },
    );
}

#[test]
fn the_one_that_is_not_ready_goes() {
    story(
        "an extra machine that is not Ready goes in a scale-down",
        "R16 C74",
        || Toy::settled(4, Count(1), Count(0)),
        |toy, round| match round {
            0 => toy.node("2", false),
            1 => toy.scale(3),
            _ => {}
        },
    );
}

#[test]
fn scale_to_zero_and_back() {
    story(
        "scale to zero and back",
        "R19",
        || Toy::settled(2, Count(1), Count(0)),
        |toy, round| match round {
            2 => toy.scale(0),
            9 => toy.scale(2),
            _ => {}
        },
    );
}

#[test]
fn a_pool_of_none_changes_its_model() {
    story(
        "a pool of none takes a new model and makes nothing",
        "R19",
        || Toy::rolling(0, Count(1), Count(0)),
        nothing,
    );
}

#[test]
fn a_pool_goes_to_zero_in_mid_roll() {
    story(
        "a pool goes to zero in mid-roll and comes back with the new model",
        "R19",
        || {
            let mut toy = Toy::rolling(2, Count(1), Count(0));
            toy.lasts = 20;
            toy
        },
        |toy, round| match round {
            2 => toy.scale(0),
            14 => toy.scale(2),
            _ => {}
        },
    );
}
