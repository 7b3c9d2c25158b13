//! Every state that a small pool can reach, whatever happens to it, with every promise asked in
//! each: docs/simulation.md, "Exhaustive search".

// Test code: a panic is how it says no.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "exhaustive/config.rs"]
mod config;
#[path = "exhaustive/moves.rs"]
mod moves;
#[path = "exhaustive/observe.rs"]
mod observe;
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

#[test]
fn probe() {
    let get = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u8>().ok()).unwrap_or(0);
    let mut config = Config::of(get("N"), get("S"), get("U")).with(get("F"), get("E"));
    config.autoscaled = get("A") > 0;
    config.bad = get("G") == 0;
    config.blocks = get("B") == 0;
    config.patience = get("P") > 0;
    config.min_ready = get("M") > 0;
    config.azure = [config::Azure::Accepts, config::Azure::RefusesDeletes, config::Azure::RefusesAll][get("Z") as usize];
    let found = search::search(&config, weir_core::plan);
    println!("{config}: {} states {} transitions {:?} {:?}", found.states, found.transitions, found.rests, found.took);
    if let Some(fault) = found.fault {
        panic!("{}", fault.story);
    }
}
