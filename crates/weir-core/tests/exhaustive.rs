//! Every state that a small pool can reach, whatever happens to it, with every promise asked in
//! each: docs/simulation.md, "Exhaustive search".

// Test code: a panic is how it says no.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]
// Whoever runs it says how far, and is told how long each pool took; nothing else asks for either.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[path = "exhaustive/config.rs"]
mod config;
#[path = "exhaustive/faulty.rs"]
mod faulty;
#[path = "exhaustive/moves.rs"]
mod moves;
#[path = "exhaustive/observe.rs"]
mod observe;
#[path = "exhaustive/pools.rs"]
mod pools;
#[path = "exhaustive/promises.rs"]
mod promises;
#[path = "exhaustive/prose.rs"]
mod prose;
#[path = "exhaustive/search.rs"]
mod search;
#[path = "exhaustive/state.rs"]
mod state;
#[path = "exhaustive/turn.rs"]
mod turn;

use config::Config;
use search::{Found, search};
use weir_core::plan;

/// Set to `full` for the long search: `cargo xtask exhaustive`.
const EXTENT: &str = "WEIR_EXHAUSTIVE";

#[test]
fn every_promise_holds_in_every_state_that_can_be_reached() {
    let is_full = std::env::var(EXTENT).is_ok_and(|extent| extent == "full");
    let mut configs = pools::bounded();
    if is_full {
        let bounded = configs.clone();
        let further = pools::full().into_iter();
        configs.extend(further.filter(|config| !bounded.contains(config)));
    }
    let mut sum = (0, 0);
    let mut broken = Vec::new();
    for config in &configs {
        let started = std::time::Instant::now();
        let found = search(config, plan);
        println!("{}", row(config, &found, started.elapsed().as_secs_f64()));
        sum = (sum.0 + found.states, sum.1 + found.transitions);
        broken.extend(found.fault.map(|fault| fault.story));
    }
    let count = configs.len();
    println!("{count} pools: {} states, {} transitions", sum.0, sum.1);
    assert!(
        broken.is_empty(),
        "{} of {count} pools break a promise, the first one so:\n\n{}",
        broken.len(),
        broken[0]
    );
}

#[test]
fn every_planted_fault_is_found_by_the_shortest_way() {
    for planted in faulty::PLANTED {
        let found = search(&Config::of(2, 1, 0), planted.planner);
        let name = planted.name;
        let fault = found
            .fault
            .unwrap_or_else(|| panic!("{name}: it is not found"));
        let begins = fault.what.starts_with(planted.finds);
        assert!(begins, "{name}: {}", fault.story);
        assert_eq!(fault.length, planted.length, "{name}: {}", fault.story);
    }
}

#[test]
fn a_counterexample_can_be_read() {
    let planted = &faulty::PLANTED[1];
    let found = search(&Config::of(2, 1, 0), planted.planner);
    let story = found.fault.unwrap().story;
    expect_test::expect_file!["exhaustive/counterexample.txt"].assert_eq(&story);
}

#[test]
fn a_state_is_its_number() {
    for config in [Config::of(4, 2, 2).with(2, 1), Config::of(0, 0, 0)] {
        for state in config.beginnings() {
            assert_eq!(state::State::of(state.key()), state);
        }
    }
}

fn row(config: &Config, found: &Found, seconds: f64) -> String {
    let (states, transitions) = (found.states, found.transitions);
    let rests: Vec<String> = found
        .rests
        .iter()
        .map(|(rest, count)| format!("{rest:?} {count}"))
        .collect();
    let rests = rests.join(", ");
    format!("{states:>9} {transitions:>10} {seconds:>8.2} s  {config}  ({rests})")
}
