//! The end of a pool, and of a scale set.

use weir_core::observed::Limit::Count;

use super::story;
use crate::toy::Toy;

#[test]
fn a_pool_is_deleted() {
    story(
        "a pool is deleted",
        "R5 R20",
        || Toy::settled(3, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.delete_pool();
            }
        },
    );
}

#[test]
fn a_pool_is_deleted_in_mid_roll() {
    story(
        "a pool is deleted in mid-roll though a drain is blocked",
        "R5 R20",
        || {
            let mut toy = Toy::rolling(2, Count(1), Count(0));
            toy.blocked.push("0".to_owned());
            toy
        },
        |toy, round| {
            if round == 6 {
                toy.delete_pool();
            }
        },
    );
}

#[test]
fn a_pool_is_deleted_without_its_cluster() {
    story(
        "a pool is deleted though its nodes cannot be read",
        "R20",
        || {
            let mut toy = Toy::settled(2, Count(1), Count(0));
            toy.unread = Some("nodes");
            toy
        },
        |toy, round| {
            if round == 3 {
                toy.delete_pool();
            }
        },
    );
}

#[test]
fn a_scale_set_deleted_by_somebody_is_made_again() {
    story(
        "a scale set deleted by somebody is made again",
        "R5",
        || Toy::settled(2, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.delete_scale_set();
            }
        },
    );
}
