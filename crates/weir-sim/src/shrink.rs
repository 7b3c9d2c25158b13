//! Looks for the smallest story that still breaks the same promise.
//!
//! Every change of a story moves all later choices of the rig, so that what fails by a hair may
//! pass by chance. A smaller story is therefore tried under a few seeds before it is given up.

use weir_world::azure::AzureFaults;
use weir_world::cluster::server::Faults;

use crate::rig::Mischief;
use crate::scene::PoolSpec;
use crate::story::{AzureKnobs, Story};

/// How many plays a search may take: a few minutes on one core.
const PLAYS_MAX: u32 = 200;

/// Under how many seeds a smaller story is tried.
const SEEDS_EACH: u64 = 3;

/// What a search found.
#[derive(Clone, Debug)]
pub struct Smallest {
    /// The story.
    pub story: Story,
    /// What it breaks.
    pub broken: Vec<String>,
    /// How many stories were played to find it.
    pub plays: u32,
}

/// Looks for the smallest story that breaks the promise which this one broke first.
///
/// `play` returns what a story breaks, as in a verdict.
pub fn smallest(
    failing: &Story,
    broken: &[String],
    mut play: impl FnMut(&Story) -> Vec<String>,
) -> Smallest {
    let mut best = Smallest {
        story: failing.clone(),
        broken: broken.to_vec(),
        plays: 0,
    };
    let Some(promise) = broken.first().map(|line| promise(line).to_owned()) else {
        return best;
    };
    // What a smaller story makes possible may make another one possible: until nothing helps.
    let mut helped = true;
    while helped {
        helped = false;
        let mut at = 0;
        while let Some(smaller) = candidates(&best.story).into_iter().nth(at) {
            at += 1;
            for offset in 0..SEEDS_EACH {
                if best.plays >= PLAYS_MAX {
                    return best;
                }
                let seed = smaller.seed + offset;
                let tried = Story {
                    seed,
                    ..smaller.clone()
                };
                best.plays += 1;
                let broken = play(&tried);
                if broken.iter().any(|line| self::promise(line) == promise) {
                    best.story = tried;
                    best.broken = broken;
                    helped = true;
                    // The list is of the smaller story from here on; what failed before is past.
                    at -= 1;
                    break;
                }
            }
        }
    }
    best
}

/// Returns which promise a line of a verdict is about: the words up to the colon, without a time.
fn promise(line: &str) -> &str {
    let words = match line.split_once("  ") {
        Some((_, words)) => words,
        None => line,
    };
    words.split(':').next().unwrap_or(words)
}

/// Stories that are a little smaller, boldest first, all of which can end well.
fn candidates(story: &Story) -> Vec<Story> {
    let mut all = Vec::new();
    let mut offer = |change: &dyn Fn(&mut Story)| {
        let mut smaller = story.clone();
        change(&mut smaller);
        if smaller != *story && smaller.can_end_well() {
            all.push(smaller);
        }
    };
    let half = story.moves.len() / 2;
    offer(&|s| s.moves.clear());
    offer(&|s| s.moves.truncate(half));
    offer(&|s| drop(s.moves.drain(..half)));
    for at in (0..story.pools.len()).rev() {
        offer(&|s| drop_pool(s, at));
    }
    offer(&|s| s.mischief = Mischief::default());
    offer(&|s| s.api_faults = Faults::default());
    offer(&|s| s.azure = AzureKnobs::default());
    offer(&|s| s.azure.faults = AzureFaults::default());
    for at in (0..story.moves.len()).rev() {
        offer(&|s| drop(s.moves.remove(at)));
    }
    offer(&|s| s.workloads.clear());
    each_fault(&mut offer);
    each_option(story, &mut offer);
    all
}

fn drop_pool(story: &mut Story, at: usize) {
    story.pools.remove(at);
    story.moves.retain(|beat| beat.pool != at);
    for beat in &mut story.moves {
        beat.pool -= usize::from(beat.pool > at);
    }
}

/// Switches one fault off.
fn each_fault(offer: &mut impl FnMut(&dyn Fn(&mut Story))) {
    let switches: [fn(&mut Story) -> &mut f64; 14] = [
        |s| &mut s.mischief.lost_answer,
        |s| &mut s.mischief.lost_request,
        |s| &mut s.mischief.kill,
        |s| &mut s.mischief.takeover,
        |s| &mut s.mischief.duplicate,
        |s| &mut s.api_faults.error_500,
        |s| &mut s.api_faults.conflict,
        |s| &mut s.api_faults.watch_drop,
        |s| &mut s.api_faults.late_watch,
        |s| &mut s.azure.faults.error_500,
        |s| &mut s.azure.faults.lost_answer,
        |s| &mut s.azure.faults.throttle,
        |s| &mut s.azure.faults.conflict,
        |s| &mut s.azure.faults.create_fails,
    ];
    for switch in switches {
        offer(&|s| *switch(s) = 0.0);
    }
    offer(&|s| s.api_faults.late_watch_by = None);
}

/// Makes one option or number plainer.
fn each_option(story: &Story, offer: &mut impl FnMut(&dyn Fn(&mut Story))) {
    let calm = AzureKnobs::default();
    offer(&|s| s.azure.parallel_writes = calm.parallel_writes);
    offer(&|s| s.azure.throttling = false);
    offer(&|s| s.azure.page_size = 0);
    offer(&|s| s.azure.real_times = false);
    offer(&|s| s.azure.capacity_lag_seconds = 0);
    offer(&|s| s.azure.wild_ids = false);
    offer(&|s| s.azure.capitals = false);
    for at in 0..story.pools.len() {
        let plain = PoolSpec::default();
        offer(&|s| s.pools[at].zones.clear());
        offer(&|s| s.pools[at].min_ready_seconds = 0);
        offer(&|s| s.pools[at].cluster.clone_from(&plain.cluster));
        offer(&|s| s.pools[at].delete_policy.clone_from(&plain.delete_policy));
        offer(&|s| s.pools[at].drain_timeout_seconds = None);
        offer(&|s| s.pools[at].replicas = (s.pools[at].replicas - 1).max(1));
    }
    for at in 0..story.workloads.len() {
        offer(&|s| s.workloads[at].min_available = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::{Beat, Move};

    /// A failing play that is planted: two deleted Machines while answers are lost.
    fn planted(story: &Story) -> Vec<String> {
        let is_it = |beat: &&Beat| matches!(beat.what, Move::DeleteMachine(_));
        let deletes = story.moves.iter().filter(is_it).count();
        if deletes >= 2 && story.mischief.lost_answer > 0.0 {
            return vec!["2026-01-01T00:00:00Z  R2: 1 serve, 2 must, 0 excused".to_owned()];
        }
        Vec::new()
    }

    fn big_story() -> Story {
        let mut story = Story::draw(1);
        story.mischief.lost_answer = 0.02;
        story.pools.push(PoolSpec::new("pool-z", 3));
        for after in [10, 700, 900, 1_100] {
            story.moves.push(Beat {
                after,
                pool: 0,
                what: Move::DeleteMachine(1),
            });
        }
        story
    }

    #[test]
    fn a_planted_fault_shrinks_to_what_it_needs() {
        let big = big_story();
        let found = smallest(&big, &planted(&big), planted);
        let story = &found.story;
        assert_eq!(story.moves.len(), 2, "{story}");
        assert_eq!(planted(story), found.broken);
        assert!(story.mischief.lost_answer > 0.0);
        let without = Mischief {
            lost_answer: 0.0,
            ..story.mischief.clone()
        };
        assert_eq!(without, Mischief::default(), "{story}");
        assert_eq!(story.azure, AzureKnobs::default(), "{story}");
        assert_eq!(story.pools.len(), 1, "{story}");
        assert_eq!(story.pools[0].replicas, 1, "{story}");
        assert!(found.plays <= PLAYS_MAX);
        let read = Story::from_line(&story.to_line()).expect("the replay line is a story");
        assert_eq!(planted(&read), found.broken);
    }

    #[test]
    fn a_search_ends_even_if_nothing_can_be_left_out() {
        let big = big_story();
        let only = big.clone();
        let play = |story: &Story| {
            let same = story.moves == only.moves && story.pools == only.pools;
            Vec::from_iter(same.then(|| "the last act: not whole in time".to_owned()))
        };
        let found = smallest(&big, &play(&big), play);
        assert_eq!(found.story.moves, big.moves);
        assert_eq!(found.broken, ["the last act: not whole in time"]);
    }
}
