//! Machines that a health check wants replaced.

use weir_core::observed::Limit::Count;

use super::story;
use crate::toy::Toy;

#[test]
fn one_that_serves() {
    story(
        "an unhealthy machine that serves is replaced before it goes",
        "R2 R11",
        || Toy::settled(3, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.find_unhealthy("1", "ReadonlyFilesystem is True");
            }
        },
    );
}

#[test]
fn one_in_a_rollout() {
    story(
        "an unhealthy machine goes before other old ones",
        "R11",
        || Toy::rolling(3, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.find_unhealthy("2", "ReadonlyFilesystem is True");
            }
        },
    );
}

#[test]
fn one_that_does_not_serve() {
    story(
        "an unhealthy machine that does not serve goes at once",
        "R11",
        || Toy::settled(3, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.node("1", false);
            }
            if round == 8 {
                toy.find_unhealthy("1", "Ready is Unknown for two minutes");
            }
        },
    );
}

#[test]
fn many_that_do_not_serve() {
    story(
        "many machines found unhealthy together go one at a time",
        "R10",
        || Toy::settled(6, Count(1), Count(0)),
        |toy, round| {
            for id in ["0", "1", "2"] {
                if round == 1 {
                    toy.node(id, false);
                }
                if round == 4 {
                    toy.find_unhealthy(id, "Ready is False for a minute");
                }
            }
        },
    );
}

#[test]
fn one_that_never_joined() {
    story(
        "a new machine found unhealthy before it served stops the rollout",
        "R11",
        || {
            let mut toy = Toy::rolling(3, Count(1), Count(0));
            toy.bad.push("v2".to_owned());
            toy
        },
        |toy, round| {
            if round == 30 {
                toy.find_unhealthy("3", "no node has joined for ten minutes");
            }
            if round == 60 {
                toy.want("v3");
            }
        },
    );
}
