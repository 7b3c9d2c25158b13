//! The configurations of each suite.

use crate::config::{Azure, Config};

/// What every `cargo test` searches.
pub fn bounded() -> Vec<Config> {
    let good = |config: Config| Config {
        bad: false,
        ..config
    };
    let mut configs: Vec<Config> = pools(4).collect();
    configs.extend(pools(2).map(|pool| good(pool.with(1, 0))));
    configs.extend(pools(1).map(|pool| good(pool.with(0, 1))));
    configs.extend(surroundings(2).map(|pool| good(pool.with(1, 0))));
    configs
}

/// What `cargo xtask exhaustive` searches besides.
pub fn full() -> Vec<Config> {
    let good = |config: Config| Config {
        bad: false,
        ..config
    };
    let drains_end = |config: Config| Config {
        blocks: false,
        ..config
    };
    let mut configs: Vec<Config> = Vec::new();
    configs.extend(pools(4).map(|pool| good(pool.with(1, 0))));
    configs.extend(pools(4).map(|pool| good(pool.with(0, 1))));
    configs.extend(pools(2).map(|pool| good(pool.with(1, 1))));
    configs.extend(pools(1).map(|pool| good(pool.with(0, 2))));
    configs.extend(pools(2).map(|pool| good(drains_end(pool.with(2, 0)))));
    configs.extend(surroundings(3).map(|pool| good(pool.with(1, 0))));
    configs.extend(surroundings(2).map(|pool| good(pool.with(0, 1))));
    // A revision that never serves, and a fault besides.
    let narrow = pools(4).filter(|pool| pool.surge + pool.unavailable < 2);
    configs.extend(narrow.map(|pool| pool.with(1, 0)));
    configs
}

/// Every N up to this, with every S and U up to 2.
fn pools(most: u8) -> impl Iterator<Item = Config> {
    (0..=most).flat_map(|n| (0..=2).flat_map(move |s| (0..=2).map(move |u| Config::of(n, s, u))))
}

/// The same pools, each with one thing about it that is not plain.
fn surroundings(most: u8) -> impl Iterator<Item = Config> {
    let wide = pools(most).filter(|pool| pool.replicas > 0);
    wide.flat_map(|pool| {
        [
            Config {
                autoscaled: true,
                ..pool
            },
            Config {
                patience: true,
                ..pool
            },
            Config {
                min_ready: true,
                ..pool
            },
            Config {
                azure: Azure::RefusesDeletes,
                ..pool
            },
            Config {
                azure: Azure::RefusesAll,
                ..pool
            },
        ]
    })
}
