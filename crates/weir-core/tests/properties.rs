//! What holds for the plan of every world, thought of or not.
//!
//! Worlds are drawn from seeds. One that disproves a claim is made smaller, instance by instance,
//! before it is shown.

// Test code: a panic is how it says no.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod claims;
mod worlds;

use std::panic::{AssertUnwindSafe, catch_unwind};

use claims::{Verdict, progress, safety};
use weir_core::Observed;

/// A claim about the plan of a world: an error says what is wrong with it.
type Claim = fn(&Observed) -> Verdict;

const SMALL: u64 = 8000;
const LARGE: u64 = 40;

fn holds(claim: Claim, draw: fn(u64, u32) -> Observed) {
    let small = (0..SMALL).map(|seed| (seed, 12));
    let large = (0..LARGE).map(|seed| (seed, 1000));
    for (seed, instances_max) in small.chain(large) {
        let observed = draw(seed, instances_max);
        if let Err(why) = judge(claim, &observed) {
            let (smallest, why) = shrink(claim, observed, why);
            panic!("seed {seed} of up to {instances_max}: {why}\n{smallest:#?}");
        }
    }
}

fn judge(claim: Claim, observed: &Observed) -> Verdict {
    let judged = catch_unwind(AssertUnwindSafe(|| claim(observed)));
    judged.unwrap_or_else(|_| Err("panicked".to_owned()))
}

/// Leaves instances out, half of them at first, as long as the claim is false without them.
fn shrink(claim: Claim, mut observed: Observed, mut why: String) -> (Observed, String) {
    let mut chunk = observed.instances_known().len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at + chunk <= observed.instances_known().len() {
            let mut fewer = observed.clone();
            worlds::instances_mut(&mut fewer).drain(at..at + chunk);
            match judge(claim, &fewer) {
                Err(still) => (observed, why) = (fewer, still),
                Ok(()) => at += chunk,
            }
        }
        chunk /= 2;
    }
    (observed, why)
}

#[test]
fn every_world_has_one_plan() {
    holds(progress::has_one_plan, worlds::any);
}

#[test]
fn absurd_limits_overflow_nothing() {
    holds(progress::has_one_plan, worlds::absurd);
    holds(safety::adds_within_the_ceiling, worlds::absurd);
    holds(safety::breaks_no_promise, worlds::absurd);
}

#[test]
fn no_plan_breaks_a_promise() {
    holds(safety::breaks_no_promise, worlds::any);
}

#[test]
fn no_plan_adds_beyond_the_ceiling_or_lowers_the_capacity() {
    holds(safety::adds_within_the_ceiling, worlds::any);
}

#[test]
fn no_plan_takes_from_below_the_floor() {
    holds(safety::leaves_the_floor, worlds::any);
}

#[test]
fn only_what_is_drained_and_listed_is_deleted() {
    holds(safety::deletes_what_is_drained, worlds::any);
}

#[test]
fn no_more_are_made_than_are_needed() {
    holds(progress::makes_what_is_needed, worlds::any);
}

#[test]
fn each_instance_is_dealt_with_once() {
    holds(safety::deals_with_each_once, worlds::any);
}

#[test]
fn an_unknown_allows_no_write_to_azure() {
    holds(safety::waits_to_know, worlds::any);
}

#[test]
fn what_is_not_settled_is_worked_on_or_waited_for() {
    holds(progress::says_why_it_is_not_settled, worlds::any);
}

#[test]
fn every_step_and_wait_has_words_and_no_look_is_due_in_the_past() {
    holds(progress::is_told_and_timed, worlds::any);
}

#[test]
fn an_autoscaled_pool_is_left_its_count() {
    holds(safety::leaves_the_count_to_the_autoscaler, worlds::any);
}

#[test]
fn more_surge_never_raises_less_and_more_unavailable_never_removes_less() {
    holds(progress::grows_with_its_limits, worlds::any);
}

#[test]
fn ids_decide_who_goes_and_not_how_many() {
    holds(progress::counts_without_ids, worlds::any);
}

#[test]
fn what_a_plan_left_alone_the_next_one_leaves_alone() {
    holds(progress::uses_its_budget_at_once, worlds::any);
}

#[test]
fn a_settled_world_is_left_in_peace() {
    holds(safety::is_silent, worlds::settled);
}
