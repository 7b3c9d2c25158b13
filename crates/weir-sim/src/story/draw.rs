//! Draws stories. Each seed switches a random part of the features on, so that one fault does not
//! always come with all the others.

use weir_world::azure::{AzureFaults, CreateFailure, ParallelWrites};
use weir_world::cluster::draw::Latency;
use weir_world::cluster::server::Faults;
use weir_world::cluster::workload::WorkloadSpec;
use weir_world::rng::Rng;

use super::{AzureKnobs, Beat, Move, Story};
use crate::rig::Mischief;
use crate::scene::PoolSpec;

/// The last moment at which something happens: a rollout of a few machines takes as long.
const LAST_MOVE_SECONDS: u64 = 1_800;

/// How many kinds of moves [`one_move`] knows.
const KINDS: u64 = 25;

/// The dice, and whether anything goes wrong by chance at all.
struct Draw {
    dice: Rng,
    calm: bool,
}

pub(super) fn story(seed: u64) -> Story {
    let mut dice = Rng::from_seed_and_stream(seed, "story");
    let calm = dice.chance(0.2);
    let mut draw = Draw { dice, calm };
    let pools = draw.pools();
    let nodes = pools.iter().map(|pool| pool.replicas).sum();
    let mut story = Story {
        seed,
        workloads: draw.workloads(nodes),
        moves: draw.moves(&pools),
        pools,
        mischief: draw.mischief(),
        api_faults: draw.api_faults(),
        azure: draw.azure(),
    };
    if !story.can_end_well() {
        for pool in &mut story.pools {
            pool.drain_timeout_seconds.get_or_insert(600);
        }
    }
    story
}

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.dice.below(limit)
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.dice.below(list.len() as u64) as usize]
    }

    /// A rate of a fault: half of the faults are off in each seed.
    fn rate(&mut self, most: f64) -> f64 {
        if self.calm || self.dice.chance(0.5) {
            0.0
        } else {
            most * self.dice.below(100) as f64 / 100.0
        }
    }

    fn pools(&mut self) -> Vec<PoolSpec> {
        let count = match self.below(20) {
            0 => 3,
            1..=3 => 2,
            _ => 1,
        };
        let clusters = if count > 1 { 1 + self.below(2) } else { 1 };
        let names = ["pool", "pool-b", "pool-c"].into_iter().take(count);
        let mut pools: Vec<_> = names.map(|name| self.pool(name, count)).collect();
        for (at, pool) in pools.iter_mut().enumerate() {
            if clusters == 2 && at == count - 1 {
                pool.cluster = "cluster-b".to_owned();
            }
        }
        pools
    }

    fn pool(&mut self, name: &str, of: usize) -> PoolSpec {
        let most = if of > 1 { 3 } else { 6 };
        let mut pool = PoolSpec::new(name, 1 + self.below(most) as u32);
        let (surge, unavailable) = self.limits();
        pool.max_surge = surge.to_owned();
        pool.max_unavailable = unavailable.to_owned();
        pool.delete_policy = self.one_of(&["Oldest", "Newest", "Random"]).to_owned();
        if self.dice.chance(0.4) {
            pool.drain_timeout_seconds = Some(self.one_of(&[300, 600, 1200]));
        }
        if self.dice.chance(0.3) {
            pool.zones = ["1", "2", "3"].map(str::to_owned).to_vec();
        }
        if self.dice.chance(0.12) {
            pool.autoscaled = true;
            pool.max_unavailable = self.one_of(&["1", "1", "50%", "0"]).to_owned();
        }
        if self.dice.chance(0.25) {
            pool.min_ready_seconds = self.one_of(&[10, 60, 180]);
        }
        pool
    }

    fn limits(&mut self) -> (&'static str, &'static str) {
        self.one_of(&[
            ("1", "0"),
            ("1", "0"),
            ("2", "0"),
            ("0", "1"),
            ("1", "1"),
            ("50%", "0"),
            ("0", "50%"),
            ("100%", "0"),
        ])
    }

    fn workloads(&mut self, nodes: u32) -> Vec<WorkloadSpec> {
        let pods = i64::from(nodes) * 2;
        let mut workloads = Vec::new();
        if self.dice.chance(0.8) {
            // A budget that always leaves one pod to move, as a sane one does.
            let budget = (pods - 1 - self.below(2) as i64).max(1);
            let web = WorkloadSpec::new("web", pods);
            workloads.push(web.with_min_available(&budget.to_string()));
        }
        if self.dice.chance(0.3) {
            workloads.push(WorkloadSpec::new("batch", i64::from(nodes)));
        }
        workloads
    }

    fn moves(&mut self, pools: &[PoolSpec]) -> Vec<Beat> {
        let mut beats = Vec::new();
        if self.dice.chance(0.9) {
            beats.push(Beat {
                after: 5,
                pool: 0,
                what: Move::Version("v1.34.1".to_owned()),
            });
        }
        // Few kinds, each perhaps more than once, find more than one of everything.
        let kinds: Vec<u64> = (0..1 + self.below(5)).map(|_| self.below(KINDS)).collect();
        for _ in 0..self.below(7) {
            let at = self.below(pools.len() as u64) as usize;
            let after = 20 + self.below(LAST_MOVE_SECONDS) as u32;
            let kind = self.one_of(&kinds);
            let what = self.one_move(kind, &pools[at]);
            // A version that never joins is corrected at some time.
            if what == Move::BadVersion {
                beats.push(Beat {
                    after: after + 60 + self.below(5_400) as u32,
                    pool: at,
                    what: Move::Version("v1.34.2".to_owned()),
                });
            }
            beats.push(Beat {
                after,
                pool: at,
                what,
            });
        }
        if self.dice.chance(0.08) {
            let after = 60 + self.below(900) as u32;
            let pool = self.below(pools.len() as u64) as usize;
            let what = Move::DeletePool;
            beats.push(Beat { after, pool, what });
        }
        beats.sort_by_key(|beat| beat.after);
        beats
    }

    fn one_move(&mut self, kind: u64, pool: &PoolSpec) -> Move {
        let nth = self.below(6) as u32;
        let replicas = pool.replicas;
        match kind {
            0 => Move::Version("v1.34.2".to_owned()),
            1 => Move::BadVersion,
            2 => Move::Replicas(replicas + 1 + self.below(3) as u32),
            3 => Move::Replicas(replicas.saturating_sub(1 + self.below(2) as u32)),
            4 if self.dice.chance(0.5) => Move::Replicas(0),
            4 | 5 => Move::ScaleIn(nth),
            6 => Move::Size("Standard_D8s_v5".to_owned()),
            7 => Move::Tag(self.one_of(&["blue", "green"]).to_owned()),
            8 => {
                let (surge, unavailable) = self.limits();
                Move::Limits {
                    surge: surge.to_owned(),
                    unavailable: unavailable.to_owned(),
                }
            }
            9 => Move::DeleteMachine(nth),
            10 => Move::DeletePoolMachine(nth),
            11 => Move::Vanish(nth),
            12 => Move::Stop(nth),
            13 => Move::Fail(nth),
            14 => Move::Silence {
                nth,
                seconds: self.span(20, 1_200),
            },
            15 => Move::FailCreates(self.failures()),
            16 => Move::Quota {
                spare: self.below(2) as u32,
                seconds: self.span(120, 3_600),
            },
            17 => Move::AzureDown {
                seconds: self.span(30, 900),
            },
            18 => Move::ApiDown {
                workload: self.dice.chance(0.5),
                seconds: self.span(10, 300),
            },
            19 => Move::NodesUnread {
                seconds: self.span(30, 900),
            },
            20 => Move::BlockBudget {
                seconds: self.span(120, 3_600),
            },
            21 => Move::Pause {
                seconds: self.span(60, 900),
            },
            22 if self.dice.chance(0.5) => Move::Compact,
            22 => Move::Kill,
            23 => Move::Scale(1 + self.below(2) as u32),
            _ => Move::Takeover,
        }
    }

    fn span(&mut self, from: u64, to: u64) -> u32 {
        (from + self.below(to - from)) as u32
    }

    fn failures(&mut self) -> Vec<CreateFailure> {
        let kinds = [
            CreateFailure::Allocation,
            CreateFailure::OsTimeout,
            CreateFailure::Extension,
        ];
        (0..1 + self.below(3))
            .map(|_| self.one_of(&kinds))
            .collect()
    }

    fn mischief(&mut self) -> Mischief {
        Mischief {
            lost_answer: self.rate(0.03),
            lost_request: self.rate(0.03),
            kill: self.rate(0.001),
            takeover: self.rate(0.001),
            duplicate: self.rate(0.05),
        }
    }

    fn api_faults(&mut self) -> Faults {
        let late_watch = self.rate(0.2);
        let half = 1 + self.below(10) as i64;
        Faults {
            error_500: self.rate(0.03),
            conflict: self.rate(0.03),
            watch_drop: self.rate(0.02),
            late_watch,
            late_watch_by: (late_watch > 0.1).then(|| Latency::from_secs(half, half)),
        }
    }

    fn azure(&mut self) -> AzureKnobs {
        AzureKnobs {
            faults: AzureFaults {
                error_500: self.rate(0.03),
                lost_answer: self.rate(0.03),
                throttle: self.rate(0.03),
                conflict: self.rate(0.03),
                create_fails: self.rate(0.1),
                ..AzureFaults::default()
            },
            parallel_writes: Some(self.one_of(&[
                ParallelWrites::Accept,
                ParallelWrites::Conflict,
                ParallelWrites::Preempt,
            ])),
            throttling: self.dice.chance(0.5),
            page_size: 1 + self.below(5) as usize,
            real_times: self.dice.chance(0.8),
            capacity_lag_seconds: if self.dice.chance(0.2) {
                self.span(1, 20)
            } else {
                0
            },
            wild_ids: self.dice.chance(0.5),
            capitals: self.dice.chance(0.3),
        }
    }
}
