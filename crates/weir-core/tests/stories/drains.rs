//! Drains that end at different times or not at all, and the deletes that follow them.

use jiff::SignedDuration;
use weir_core::observed::Limit::Count;

use super::{nothing, story};
use crate::toy::Toy;

#[test]
fn one_machine_is_deleted_by_hand() {
    story(
        "one machine is deleted by hand",
        "R3 R12",
        || Toy::settled(3, Count(1), Count(0)),
        |toy, round| {
            if round == 2 {
                toy.delete_machine("1");
            }
        },
    );
}

#[test]
fn one_blocked_drain_costs_one_slot() {
    story(
        "one blocked drain costs one slot",
        "R13",
        || {
            let mut toy = Toy::rolling(4, Count(2), Count(0));
            toy.blocked.push("0".to_owned());
            toy
        },
        |toy, round| {
            if round == 40 {
                toy.unblock("0");
            }
        },
    );
}

#[test]
fn two_blocked_drains_leave_one_slot() {
    story(
        "two blocked drains of three slots leave one that goes on",
        "R13",
        || {
            let mut toy = Toy::rolling(5, Count(3), Count(0));
            toy.blocked = ["0", "1"].map(ToOwned::to_owned).into();
            toy
        },
        |toy, round| match round {
            30 => toy.unblock("0"),
            35 => toy.unblock("1"),
            _ => {}
        },
    );
}

#[test]
fn a_drain_ends_at_its_timeout() {
    story(
        "a blocked drain is over at its timeout",
        "R3 R13",
        || {
            let mut toy = Toy::rolling(2, Count(1), Count(0));
            toy.blocked.push("0".to_owned());
            toy.drain_timeout = Some(SignedDuration::from_mins(5));
            toy
        },
        nothing,
    );
}

/// A pool that rolls by three, whose drains end one after the other.
fn one_after_the_other() -> Toy {
    let mut toy = Toy::rolling(3, Count(3), Count(0));
    let seconds = |s| SignedDuration::from_secs(s);
    for (id, takes) in [("0", 0), ("1", 40), ("2", 80)] {
        toy.slow_drains.insert(id.to_owned(), seconds(takes));
    }
    toy
}

#[test]
fn deletes_share_a_request() {
    story(
        "drained machines wait a little to share one delete",
        "R8",
        || {
            let mut toy = one_after_the_other();
            toy.pool.patience = SignedDuration::from_secs(90);
            toy
        },
        nothing,
    );
}

#[test]
fn patience_ends() {
    story(
        "a drained machine does not wait longer than its patience",
        "R8 R13",
        || {
            let mut toy = one_after_the_other();
            toy.pool.patience = SignedDuration::from_secs(30);
            toy.blocked.push("2".to_owned());
            toy
        },
        |toy, round| {
            if round == 25 {
                toy.unblock("2");
            }
        },
    );
}

#[test]
fn deletes_overlap() {
    story(
        "deletes overlap where Azure takes that",
        "R8",
        || {
            let mut toy = one_after_the_other();
            toy.deletion_takes = 4;
            toy
        },
        nothing,
    );
}

#[test]
fn deletes_wait_for_each_other() {
    story(
        "a delete waits for the one that runs where Azure takes no two",
        "R8",
        || {
            let mut toy = one_after_the_other();
            toy.deletion_takes = 4;
            toy.one_delete_at_a_time = true;
            toy
        },
        nothing,
    );
}
