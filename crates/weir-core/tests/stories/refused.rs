//! Azure has no room for more: a quota is used up, or there is no hardware.

use jiff::SignedDuration;
use weir_core::observed::Limit::Count;

use super::{nothing, story};
use crate::toy::{Refuses, Toy};

/// A pool that wants v2 and has room for so many instances.
fn crowded(replicas: u32, surge: u32, unavailable: u32, room: u32, refuses: Refuses) -> Toy {
    let mut toy = Toy::rolling(replicas, Count(surge), Count(unavailable));
    toy.room = Some(room);
    toy.refuses = refuses;
    toy
}

fn make_room(toy: &mut Toy, room: u32) {
    toy.event("azure", &format!("has room for {room}"));
    toy.room = Some(room);
}

#[test]
fn a_refused_surge_is_put_back() {
    story(
        "a refused surge is put back and asked for again later",
        "R4 R18 C17",
        || crowded(3, 1, 0, 3, Refuses::Later),
        |toy, round| {
            if round == 13 {
                assert_eq!(toy.serving().count(), 3, "old machines are left alone");
                make_room(toy, 4);
            }
        },
    );
}

#[test]
fn a_quota_refuses_at_once() {
    story(
        "a quota that refuses at once leaves the old machines alone",
        "R2 R18 C16",
        || crowded(2, 1, 0, 2, Refuses::AtOnce),
        |toy, round| {
            if round == 7 {
                assert_eq!(toy.serving().count(), 2, "old machines are left alone");
                make_room(toy, 3);
            }
        },
    );
}

#[test]
fn tries_grow_apart() {
    story(
        "a surge that is refused for long is asked for at growing intervals",
        "R18 C16",
        || crowded(1, 1, 0, 1, Refuses::AtOnce),
        |toy, round| {
            if round == 100 {
                make_room(toy, 2);
            }
        },
    );
}

#[test]
fn without_surge_it_goes_on_inside_unavailable() {
    story(
        "a refused surge goes on inside maxUnavailable",
        "R18 C17",
        || crowded(3, 1, 1, 3, Refuses::AtOnce),
        |toy, round| {
            if round == 120 {
                make_room(toy, 4);
            }
        },
    );
}

#[test]
fn a_failed_surge_goes_on_inside_unavailable() {
    story(
        "a surge that fails later goes on inside maxUnavailable",
        "R4 R18 C17",
        || crowded(3, 1, 1, 3, Refuses::Later),
        nothing,
    );
}

#[test]
fn capacity_is_put_back_at_rest() {
    story(
        "capacity is put back only when nothing runs",
        "R4 R18",
        || {
            let mut toy = crowded(3, 1, 1, 3, Refuses::Later);
            toy.deletion_takes = 4;
            toy
        },
        nothing,
    );
}

#[test]
fn hulks_are_taken_away() {
    story(
        "instances that got no hardware are taken away",
        "R11 R18",
        || crowded(3, 1, 0, 3, Refuses::LeavingHulks),
        |toy, round| {
            if round == 13 {
                make_room(toy, 4);
            }
        },
    );
}

#[test]
fn a_refused_scale_up() {
    story(
        "a scale-up that does not fit is made as far as it fits",
        "R18",
        || {
            let mut toy = Toy::settled(3, Count(1), Count(0));
            toy.room = Some(4);
            toy.refuses = Refuses::Later;
            toy
        },
        |toy, round| match round {
            1 => toy.scale(5),
            20 => make_room(toy, 6),
            _ => {}
        },
    );
}

#[test]
fn part_of_the_surge_fits() {
    story(
        "a surge of which a part fits goes on with that part",
        "R12 R18",
        || crowded(4, 2, 0, 5, Refuses::Later),
        nothing,
    );
}

#[test]
fn another_model_is_tried_at_once() {
    story(
        "another model is tried at once after a refusal",
        "R14 R18",
        || crowded(2, 1, 0, 2, Refuses::AtOnce),
        |toy, round| {
            if round == 14 {
                make_room(toy, 3);
                toy.want("v3");
            }
        },
    );
}

#[test]
fn a_lost_machine_is_not_replaced_beyond_the_room() {
    story(
        "a machine lost while there is no room is made again when there is",
        "R12 R18",
        || {
            let mut toy = Toy::settled(3, Count(1), Count(0));
            toy.room = Some(2);
            toy.boot = SignedDuration::from_mins(1);
            toy
        },
        |toy, round| match round {
            1 => toy.vanish("0"),
            9 => make_room(toy, 3),
            _ => {}
        },
    );
}

/// C16: whoever looks at the pool reads Azure's code.
#[test]
fn the_pool_says_that_azure_refuses() {
    crowded(2, 1, 0, 2, Refuses::AtOnce).play_out(|toy, round| {
        if round == 2 {
            let (reason, message) = toy.up_to_date();
            assert_eq!(reason, "AzureRefusesToMakeMore");
            assert!(message.contains("QuotaExceeded"), "{message}");
            make_room(toy, 3);
        }
    });
}
