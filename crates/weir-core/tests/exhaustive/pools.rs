//! The configurations of each suite, and the faults that are known.

use crate::config::{Azure, Config};

/// A configuration in which the planner is known to break a promise.
pub struct Known {
    pub config: Config,
    /// Part of what the search has to find there as long as the fault is there.
    pub finds: &'static str,
    pub why: &'static str,
}

/// Faults of the planner that stand. Whoever mends one takes its lines out: `known_faults_stand`
/// fails until then, and `holds` searches the configuration from then on.
pub fn known() -> Vec<Known> {
    let round = "go round for ever";
    let surplus = "R11: `surplus` takes the broken one that is kept to stop the rollout";
    let spare = "R11: all of a revision that never served go at once, being more than N";
    let brake = "R10 against R13: a drain that is blocked for ever holds the brake on";
    let blocked = |n, s, u| Config {
        bad: false,
        ..Config::of(n, s, u).with(2, 0)
    };
    let rows = [
        (Config::of(2, 2, 1), round, surplus),
        (Config::of(2, 1, 2), round, spare),
        (Config::of(2, 2, 2), round, spare),
        (Config::of(3, 2, 2), round, spare),
        (blocked(2, 0, 2), "stuck", brake),
        (blocked(2, 1, 1), "stuck", brake),
    ];
    let row = |(config, finds, why)| Known { config, finds, why };
    rows.into_iter().map(row).collect()
}

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
    without_known(configs)
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
    // A revision that never serves, where every slot is seen to fail: see `known` for the rest.
    let narrow = pools(4).filter(|pool| pool.surge + pool.unavailable < 2);
    configs.extend(narrow.map(|pool| pool.with(1, 0)));
    without_known(configs)
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

fn without_known(mut configs: Vec<Config>) -> Vec<Config> {
    let known = known();
    configs.retain(|config| !known.iter().any(|known| known.config == *config));
    configs
}
