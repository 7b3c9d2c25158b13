//! What a changed model does: rolled out, overtaken, taken back, or never any good.

use jiff::SignedDuration;
use weir_core::observed::Limit::Count;

use super::{nothing, story};
use crate::toy::Toy;

#[test]
fn newer_revision_takes_over() {
    story(
        "newer revision takes over",
        "R14 C07",
        || Toy::rolling(4, Count(2), Count(0)),
        |toy, round| {
            if round == 4 {
                toy.want("v3");
            }
        },
    );
}

#[test]
fn three_edits_in_a_row() {
    story(
        "three edits in a row replace each old machine once",
        "R14 R12",
        || {
            let mut toy = Toy::rolling(3, Count(1), Count(0));
            toy.boot = SignedDuration::from_mins(2);
            toy
        },
        |toy, round| match round {
            2 => toy.want("v3"),
            5 => toy.want("v4"),
            _ => {}
        },
    );
}

#[test]
fn an_abandoned_machine_is_not_waited_for() {
    story(
        "what was started for a given-up model is not waited for",
        "R14",
        || {
            let mut toy = Toy::rolling(2, Count(0), Count(1));
            toy.boot = SignedDuration::from_mins(5);
            toy
        },
        |toy, round| {
            if round == 5 {
                toy.want("v3");
            }
        },
    );
}

#[test]
fn going_back_keeps_what_is_there() {
    story(
        "going back to the first model keeps the machines that have it",
        "R14",
        || Toy::rolling(4, Count(1), Count(0)),
        |toy, round| {
            if round == 5 {
                toy.want("v1");
            }
        },
    );
}

#[test]
fn an_attempt_begun_again_drains_as_the_first() {
    story(
        "an attempt that was given up and begun again drains first as well",
        "R3 R13 R14 C12",
        || {
            let mut toy = Toy::rolling(3, Count(1), Count(0));
            toy.blocked = vec!["0".to_owned(), "1".to_owned()];
            toy
        },
        |toy, round| match round {
            5 => toy.want("v1"),
            10 => toy.want("v2"),
            30 => toy.unblock("0"),
            40 => toy.unblock("1"),
            _ => {}
        },
    );
}

#[test]
fn machines_of_another_controller() {
    story(
        "machines that nobody knows the model of are replaced",
        "R2 R12",
        || {
            let mut toy = Toy::rolling(2, Count(1), Count(0));
            toy.scale_set.as_mut().unwrap().revision = None;
            for instance in &mut toy.instances {
                instance.revision = None;
                instance.machine = None;
            }
            toy
        },
        nothing,
    );
}

#[test]
fn a_settled_pool_of_one() {
    story(
        "a settled pool of one stays silent",
        "R6 C06",
        || {
            let mut toy = Toy::settled(1, Count(1), Count(0));
            toy.lasts = 50;
            toy
        },
        |toy, round| {
            if round == 49 {
                assert_eq!((toy.made, toy.deleted), (0, 0));
            }
        },
    );
}

#[test]
fn bad_version_is_fixed_forward() {
    story(
        "bad version is fixed forward",
        "R11 R14",
        || {
            let mut toy = Toy::rolling(3, Count(1), Count(0));
            toy.bad.push("v2".to_owned());
            toy
        },
        |toy, round| {
            if round == 80 {
                toy.want("v3");
            }
        },
    );
}

#[test]
fn bad_version_with_unavailable_stops_after_one_round() {
    story(
        "bad version stops after one round",
        "R2 R11",
        || {
            let mut toy = Toy::rolling(5, Count(1), Count(1));
            toy.bad.push("v2".to_owned());
            toy
        },
        |toy, round| {
            if round == 75 {
                let ready = toy.serving().count();
                assert!(ready >= 4, "{ready} are ready and the floor is 4");
                toy.want("v1");
            }
        },
    );
}

#[test]
fn a_replacement_that_never_gets_ready() {
    story(
        "a replacement that never gets Ready costs no old machine",
        "R2 R11 C03",
        || {
            let mut toy = Toy::rolling(2, Count(1), Count(0));
            toy.bad.push("v2".to_owned());
            toy
        },
        |toy, round| {
            if round == 100 {
                assert_eq!(toy.serving().count(), 2, "no old machine was asked to go");
                toy.want("v1");
            }
        },
    );
}

#[test]
fn a_failed_round_is_tried_again() {
    story(
        "a failed creation is tried again after forty minutes",
        "R11",
        || {
            let mut toy = Toy::rolling(2, Count(1), Count(0));
            toy.fail_next = 1;
            toy
        },
        nothing,
    );
}

#[test]
fn one_failed_creation_of_several() {
    story(
        "one failed creation of two is replaced and the rollout goes on",
        "R11 R12",
        || {
            let mut toy = Toy::rolling(3, Count(2), Count(0));
            toy.fail_next = 1;
            toy
        },
        nothing,
    );
}

/// C03: whoever looks at the pool reads which machine is waited for.
#[test]
fn the_pool_names_the_machine_that_never_gets_ready() {
    let mut toy = Toy::rolling(2, Count(1), Count(0));
    toy.bad.push("v2".to_owned());
    toy.play_out(|toy, round| {
        if round == 10 {
            let (reason, message) = toy.up_to_date();
            assert_eq!(reason, "RollingOut");
            assert!(message.contains("2 is starting"), "{message}");
        }
        if round == 100 {
            let (reason, message) = toy.up_to_date();
            assert_eq!(reason, "NewModelNeverServed");
            assert!(message.contains("correct the model"), "{message}");
            toy.want("v1");
        }
    });
}
