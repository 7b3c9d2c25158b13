//! Machines that stop, vanish or lose their node, and reads that fail.

use jiff::SignedDuration;
use weir_core::observed::Limit::Count;

use super::story;
use crate::toy::Toy;

#[test]
fn a_stopped_machine_is_replaced_first() {
    story(
        "a stopped machine is replaced first",
        "R11",
        || Toy::rolling(3, Count(1), Count(0)),
        |toy, round| {
            if round == 0 {
                toy.stop("2");
            }
        },
    );
}

#[test]
fn a_node_that_recovers() {
    story(
        "a node that is not Ready for a while is left to recover",
        "R6 R11",
        || Toy::settled(3, Count(1), Count(0)),
        |toy, round| match round {
            1 => toy.node("1", false),
            12 => toy.node("1", true),
            _ => {}
        },
    );
}

#[test]
fn a_node_that_stays_away() {
    story(
        "a node that stays not Ready is replaced after ten minutes",
        "R11",
        || Toy::settled(3, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.node("1", false);
            }
        },
    );
}

#[test]
fn a_node_that_is_not_ready_counts_for_the_floor() {
    story(
        "while a node is not Ready no other is spared",
        "R2",
        || Toy::rolling(3, Count(1), Count(0)),
        |toy, round| match round {
            1 => toy.node("1", false),
            12 => toy.node("1", true),
            _ => {}
        },
    );
}

#[test]
fn many_stop_at_once() {
    story(
        "machines that stop together are replaced one at a time",
        "R10",
        || Toy::settled(6, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                for id in ["0", "1", "2"] {
                    toy.stop(id);
                }
            }
        },
    );
}

#[test]
fn an_incident_passes() {
    story(
        "nodes that come back during an incident are kept",
        "R10",
        || {
            let mut toy = Toy::settled(6, Count(1), Count(0));
            toy.boot = SignedDuration::from_mins(2);
            toy
        },
        |toy, round| match round {
            1 => ["0", "1", "2", "3"]
                .iter()
                .for_each(|id| toy.node(id, false)),
            36 => {
                for id in ["0", "1", "2", "3"] {
                    if toy.has(id) {
                        toy.node(id, true);
                    }
                }
            }
            _ => {}
        },
    );
}

#[test]
fn all_nodes_are_lost() {
    story(
        "when no node is Ready machines are replaced one at a time",
        "R10",
        || Toy::settled(3, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                ["0", "1", "2"].iter().for_each(|id| toy.node(id, false));
            }
        },
    );
}

#[test]
fn an_instance_vanishes() {
    story(
        "an instance vanishes",
        "R12",
        || Toy::rolling(3, Count(1), Count(0)),
        |toy, round| {
            if round == 1 {
                toy.vanish("2");
            }
        },
    );
}

#[test]
fn what_is_gone_is_not_deleted() {
    story(
        "a machine that vanishes while it drains is not deleted",
        "R3 R7",
        || {
            let mut toy = Toy::rolling(2, Count(1), Count(0));
            toy.blocked.push("0".to_owned());
            toy
        },
        |toy, round| {
            if round == 10 && toy.has("0") {
                toy.vanish("0");
            }
        },
    );
}

#[test]
fn somebody_else_deletes_in_azure() {
    story(
        "what somebody deletes in Azure is made again and not deleted twice",
        "R7 R12",
        || {
            let mut toy = Toy::settled(3, Count(1), Count(0));
            toy.deletion_takes = 3;
            toy
        },
        |toy, round| {
            if round == 1 {
                toy.delete_in_azure("1");
            }
        },
    );
}

#[test]
fn what_is_deleted_before_it_had_a_machine() {
    story(
        "an instance deleted before it had a machine gets none",
        "R7",
        || {
            let mut toy = Toy::settled(2, Count(1), Count(0));
            toy.deletion_takes = 2;
            toy
        },
        |toy, round| match round {
            1 => toy.scale(3),
            2 => toy.delete_in_azure("2"),
            _ => {}
        },
    );
}

#[test]
fn a_pool_made_whole_again() {
    story(
        "a pool that was made whole again writes nothing more",
        "R6",
        || {
            let mut toy = Toy::settled(2, Count(1), Count(0));
            toy.lasts = 50;
            toy
        },
        |toy, round| {
            if round == 1 {
                toy.vanish("0");
            }
        },
    );
}

#[test]
fn a_failed_read_only_waits() {
    story(
        "a failed read only waits",
        "R2",
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
fn azure_takes_its_time() {
    story(
        "what was asked for and is not listed yet is not asked for twice",
        "R1 R12",
        || Toy::rolling(2, Count(1), Count(0)),
        |toy, round| toy.azure_sleeps = round < 15,
    );
}

#[test]
fn azure_neither_makes_nor_refuses() {
    story(
        "what Azure neither makes nor refuses is told of after twenty minutes",
        "R18 C16",
        || Toy::rolling(2, Count(1), Count(0)),
        |toy, round| toy.azure_sleeps = round < 80,
    );
}
