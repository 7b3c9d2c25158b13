//! Who goes first: marks, the delete policy and protection.

use jiff::SignedDuration;
use weir_core::observed::DeletePolicy;
use weir_core::observed::Limit::Count;

use super::{nothing, story};
use crate::toy::Toy;

fn marked_under(policy: DeletePolicy) -> Toy {
    let mut toy = Toy::settled(4, Count(1), Count(0));
    toy.pool.delete_policy = policy;
    toy
}

fn mark_two_of_which_one_goes(toy: &mut Toy, round: u32) {
    match round {
        1 => ["1", "2"].iter().for_each(|id| toy.mark(id)),
        3 => toy.scale(3),
        _ => {}
    }
}

#[test]
fn a_marked_machine_goes_before_the_newest() {
    story(
        "a marked machine goes before the newest",
        "R16 C75",
        || marked_under(DeletePolicy::Newest),
        mark_two_of_which_one_goes,
    );
}

#[test]
fn a_marked_machine_goes_before_the_oldest() {
    story(
        "a marked machine goes before the oldest",
        "R16 C75",
        || marked_under(DeletePolicy::Oldest),
        mark_two_of_which_one_goes,
    );
}

#[test]
fn a_marked_machine_goes_before_the_one_drawn() {
    story(
        "a marked machine goes before the one that would be drawn",
        "R16 C75",
        || marked_under(DeletePolicy::Random),
        mark_two_of_which_one_goes,
    );
}

#[test]
fn a_marked_machine_goes_alone() {
    story(
        "a marked machine goes alone though one more may be unavailable",
        "R16",
        || {
            let mut toy = marked_under(DeletePolicy::Oldest);
            toy.pool.max_unavailable = Count(1);
            toy
        },
        |toy, round| match round {
            1 => toy.mark("2"),
            3 => toy.scale(3),
            _ => {}
        },
    );
}

#[test]
fn a_mark_counts_before_the_model_is_written() {
    story(
        "a marked machine goes first in a scale-down that comes with a new model",
        "R16",
        || Toy::settled(3, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.mark("2");
                toy.scale(2);
                toy.want("v2");
            }
        },
    );
}

#[test]
fn a_marked_machine_goes_though_it_is_current() {
    story(
        "a marked machine goes first though it is current",
        "R16",
        || Toy::rolling(3, Count(1), Count(0)),
        |toy, round| {
            if round == 2 {
                for instance in &mut toy.instances {
                    if let Some(machine) = &mut instance.machine {
                        machine.delete_marked = instance.id == "3";
                    }
                }
                toy.event("user", "marks 3");
                toy.scale(2);
            }
        },
    );
}

#[test]
fn a_mark_alone_removes_nothing() {
    story(
        "a mark alone removes nothing",
        "R6 R16",
        || Toy::settled(3, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.mark("1");
            }
        },
    );
}

#[test]
fn the_oldest_goes() {
    story(
        "the oldest go where the policy says so",
        "R16",
        || aged_under(DeletePolicy::Oldest),
        scale_to_two,
    );
}

#[test]
fn the_newest_goes() {
    story(
        "the newest go where the policy says so",
        "R16",
        || aged_under(DeletePolicy::Newest),
        scale_to_two,
    );
}

#[test]
fn without_preference_the_same_go_each_time() {
    story(
        "without a preference the same go each time",
        "R16",
        || aged_under(DeletePolicy::Random),
        scale_to_two,
    );
}

/// Four machines, of which number 2 is the oldest and number 1 the newest.
fn aged_under(policy: DeletePolicy) -> Toy {
    let mut toy = marked_under(policy);
    for (id, minutes) in [("0", 2), ("1", 9), ("2", 1), ("3", 5)] {
        let born = &mut toy.instance(id).created;
        *born += SignedDuration::from_mins(minutes);
    }
    toy
}

fn scale_to_two(toy: &mut Toy, round: u32) {
    if round == 1 {
        toy.scale(2);
    }
}

#[test]
fn a_protected_machine_is_passed_over() {
    story(
        "a protected machine is passed over in a scale-down",
        "R16",
        || {
            let mut toy = Toy::settled(4, Count(1), Count(0));
            toy.instance("0").protected = true;
            toy
        },
        scale_to_two,
    );
}

#[test]
fn a_scale_down_stops_at_protected_machines() {
    story(
        "a scale-down stops at protected machines",
        "R16",
        || {
            let mut toy = Toy::settled(3, Count(1), Count(0));
            for id in ["0", "2"] {
                toy.instance(id).protected = true;
            }
            toy
        },
        |toy, round| match round {
            1 => toy.scale(1),
            15 => toy.unprotect("2"),
            _ => {}
        },
    );
}

#[test]
fn a_protected_machine_is_replaced_when_old() {
    story(
        "a protected machine is replaced like any other when it is old",
        "R16",
        || {
            let mut toy = Toy::rolling(2, Count(1), Count(0));
            toy.instance("0").protected = true;
            toy
        },
        nothing,
    );
}
