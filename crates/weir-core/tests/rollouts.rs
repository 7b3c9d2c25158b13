//! Golden rollouts: each story is a file that a person reviews, one line per turn.
//!
//! Each is played in a fixed order (golden), in one seeded order (golden) and in a hundred fresh
//! orders with the checks only. `UPDATE_EXPECT=1 cargo test` rewrites the files.

// Test code: a panic is how it says no.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod toy;

use std::path::PathBuf;

use expect_test::expect_file;
use jiff::SignedDuration;
use toy::{Script, Toy, revision};
use weir_core::observed::Limit::{Count, Percent};
use weir_core::observed::{DeletePolicy, Power};

const FRESH_ORDERS: u64 = 100;

fn story(title: &str, toy: impl Fn() -> Toy, script: Script) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/rollouts");
    let told = toy().tell(title, script);
    expect_file![folder.join(format!("{title}.rollout"))].assert_eq(&told);
    let shuffled = toy().shuffle(script, 0);
    expect_file![folder.join(format!("{title}.seed-0.rollout"))].assert_eq(&shuffled);
    for seed in 1..=FRESH_ORDERS {
        toy().shuffle(script, seed);
    }
}

fn nothing(_: &mut Toy, _: u32) {}

#[test]
fn surge_only() {
    story(
        "surge only",
        || Toy::rolling(3, Count(1), Count(0)),
        nothing,
    );
}

#[test]
fn surge_three_of_ten() {
    story(
        "surge three of ten",
        || Toy::rolling(10, Count(3), Count(0)),
        nothing,
    );
}

#[test]
fn unavailable_only() {
    story(
        "unavailable only",
        || Toy::rolling(3, Count(0), Count(1)),
        nothing,
    );
}

#[test]
fn surge_and_unavailable() {
    story(
        "surge and unavailable",
        || Toy::rolling(4, Count(1), Count(1)),
        nothing,
    );
}

#[test]
fn percentages_round_surge_up_and_unavailable_down() {
    story(
        "percentages",
        || Toy::rolling(3, Percent(34), Percent(34)),
        nothing,
    );
}

#[test]
fn both_limits_round_to_zero() {
    story(
        "both limits round to zero",
        || Toy::rolling(3, Count(0), Percent(10)),
        nothing,
    );
}

#[test]
fn one_replica_with_surge() {
    story(
        "one replica with surge",
        || Toy::rolling(1, Count(1), Count(0)),
        nothing,
    );
}

#[test]
fn one_replica_without_surge() {
    story(
        "one replica without surge",
        || Toy::rolling(1, Count(0), Count(1)),
        nothing,
    );
}

#[test]
fn a_new_pool_is_made() {
    story(
        "a new pool is made",
        || Toy::empty(3, Count(1), Count(0)),
        nothing,
    );
}

#[test]
fn bad_version_is_fixed_forward() {
    story(
        "bad version is fixed forward",
        || {
            let mut toy = Toy::rolling(3, Count(1), Count(0));
            toy.bad.push("v2".to_owned());
            toy
        },
        |toy, round| {
            if round == 80 {
                toy.pool.revision = revision("v3");
            }
        },
    );
}

#[test]
fn bad_version_with_unavailable_stops_after_one_round() {
    story(
        "bad version stops after one round",
        || {
            let mut toy = Toy::rolling(5, Count(1), Count(1));
            toy.bad.push("v2".to_owned());
            toy
        },
        |toy, round| {
            if round == 75 {
                let ready = toy.instances.iter().filter(|i| i.node.is_some()).count();
                assert!(
                    ready >= 4,
                    "the floor of 4 holds under a bad version, {ready} are ready"
                );
                toy.pool.revision = revision("v1");
            }
        },
    );
}

#[test]
fn newer_revision_takes_over() {
    story(
        "newer revision takes over",
        || Toy::rolling(4, Count(2), Count(0)),
        |toy, round| {
            if round == 4 {
                toy.pool.revision = revision("v3");
            }
        },
    );
}

#[test]
fn scale_up_in_mid_roll() {
    story(
        "scale up in mid-roll",
        || Toy::rolling(3, Count(1), Count(0)),
        |toy, round| {
            if round == 5 {
                toy.pool.replicas = 5;
            }
        },
    );
}

#[test]
fn scale_down_in_mid_roll() {
    story(
        "scale down in mid-roll",
        || Toy::rolling(5, Count(1), Count(0)),
        |toy, round| {
            if round == 5 {
                toy.pool.name = "lowered".to_owned();
                toy.pool.replicas = 3;
            }
        },
    );
}

#[test]
fn one_machine_is_deleted_by_hand() {
    story(
        "one machine is deleted by hand",
        || Toy::settled(3, Count(1), Count(0)),
        |toy, round| {
            if round == 2 {
                toy.leave("1");
            }
        },
    );
}

#[test]
fn an_instance_vanishes() {
    story(
        "an instance vanishes",
        || Toy::rolling(3, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.vanish("2");
            }
        },
    );
}

#[test]
fn a_failed_read_only_waits() {
    story(
        "a failed read only waits",
        || Toy::rolling(3, Count(1), Count(0)),
        |toy, round| {
            toy.unread = match round {
                3 => Some("azure"),
                5 | 6 => Some("nodes"),
                _ => None,
            };
        },
    );
}

#[test]
fn scale_to_zero_and_back() {
    story(
        "scale to zero and back",
        || Toy::settled(2, Count(1), Count(0)),
        |toy, round| {
            toy.pool.name = "lowered".to_owned();
            toy.pool.replicas = if (2..9).contains(&round) { 0 } else { 2 };
        },
    );
}

#[test]
fn marked_machine_goes_first_in_a_scale_down() {
    story(
        "marked machine goes first",
        || {
            let mut toy = Toy::settled(4, Count(1), Count(0));
            toy.pool.delete_policy = DeletePolicy::Newest;
            toy.pool.name = "lowered".to_owned();
            for id in ["0", "1"] {
                toy.instance(id).machine.as_mut().unwrap().delete_marked = true;
            }
            toy
        },
        |toy, round| {
            if round == 1 {
                toy.pool.replicas = 3;
            }
        },
    );
}

#[test]
fn one_blocked_drain_costs_one_slot() {
    story(
        "one blocked drain costs one slot",
        || {
            let mut toy = Toy::rolling(4, Count(2), Count(0));
            toy.blocked.push("0".to_owned());
            toy
        },
        |toy, round| {
            if round == 40 && toy.instances.iter().any(|instance| instance.id == "0") {
                toy.unblock("0");
            }
        },
    );
}

#[test]
fn zones_take_turns() {
    story(
        "zones take turns",
        || {
            let mut toy = Toy::empty(6, Count(1), Count(0));
            toy.zones = 3;
            toy.scale_set = Toy::rolling(6, Count(1), Count(0)).scale_set;
            toy.settle();
            toy.now += SignedDuration::from_hours(2);
            toy.pool.revision = revision("v2");
            toy
        },
        nothing,
    );
}

#[test]
fn a_stopped_machine_is_replaced_first() {
    story(
        "a stopped machine is replaced first",
        || {
            let mut toy = Toy::rolling(3, Count(1), Count(0));
            toy.instance("2").power = Power::Stopped;
            toy.instance("2").node.as_mut().unwrap().ready = false;
            toy
        },
        nothing,
    );
}

#[test]
fn a_pool_is_deleted() {
    story(
        "a pool is deleted",
        || Toy::settled(3, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.pool.deleting = true;
            }
        },
    );
}

#[test]
fn a_scale_set_deleted_by_somebody_is_made_again() {
    story(
        "a scale set deleted by somebody is made again",
        || Toy::settled(2, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.scale_set.as_mut().unwrap().provisioning =
                    weir_core::observed::Provisioning::Deleting;
            }
        },
    );
}
