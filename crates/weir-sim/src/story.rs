//! What happens in a run: drawn from the seed, played, judged, and told as prose.
//!
//! `draw.rs` draws, `stage.rs` plays, `text.rs` writes a story as one line that can be pasted.

mod draw;
mod prose;
mod stage;
mod text;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use weir_world::azure::{
    AzureFaults, AzureOptions, AzureReport, CreateFailure, Delay, GroupCase, InstanceIds, Latency,
    ParallelWrites, Throttling, TokenCheck,
};
use weir_world::cluster::server::Faults;
use weir_world::cluster::workload::WorkloadSpec;
use weir_world::world::World;

use crate::checkers::Promise;
use crate::coverage::Coverage;
use crate::rig::Mischief;
use crate::scene::PoolSpec;
use stage::Stage;

/// The version whose machines boot and never join.
pub(crate) const BAD_VERSION: &str = "v1.34.9";

/// One thing that a user, an autoscaler or fate does to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Move {
    /// The Kubernetes version is changed.
    Version(String),
    /// The Kubernetes version is changed to one whose machines never join.
    BadVersion,
    /// The count is changed.
    Replicas(u32),
    /// An autoscaler marks the nth Machine by name and asks for one less.
    ScaleIn(u32),
    /// The VM size is changed.
    Size(String),
    /// The value of a tag is changed.
    Tag(String),
    /// How many may be missing and too many is changed.
    Limits {
        /// `maxSurge`.
        surge: String,
        /// `maxUnavailable`.
        unavailable: String,
    },
    /// A Machine is deleted: the nth by name.
    DeleteMachine(u32),
    /// A pool machine is deleted: the nth by name.
    DeletePoolMachine(u32),
    /// An instance is taken away by Azure: the nth by id.
    Vanish(u32),
    /// An instance stops: the nth by id.
    Stop(u32),
    /// Azure calls an instance failed, and its machine goes on: the nth by id.
    Fail(u32),
    /// The kubelet of an instance is not heard of for a while.
    Silence {
        /// The nth by id.
        nth: u32,
        /// For so many seconds.
        seconds: u32,
    },
    /// The next creations of instances come to nothing.
    FailCreates(Vec<CreateFailure>),
    /// Azure allows so many instances more than were asked for, for a while.
    Quota {
        /// How many more.
        spare: u32,
        /// For so many seconds.
        seconds: u32,
    },
    /// Azure answers every request with 500 for so many seconds.
    AzureDown {
        /// For so many seconds.
        seconds: u32,
    },
    /// One of the API servers answers every request with 500 for a while.
    ApiDown {
        /// Whether it is that of the workload cluster.
        workload: bool,
        /// For so many seconds.
        seconds: u32,
    },
    /// The controller cannot read the nodes of the pool's cluster for a while.
    NodesUnread {
        /// For so many seconds.
        seconds: u32,
    },
    /// Every budget allows no eviction for a while.
    BlockBudget {
        /// For so many seconds.
        seconds: u32,
    },
    /// The pool is paused for a while.
    Pause {
        /// For so many seconds.
        seconds: u32,
    },
    /// Both API servers forget all versions but the last.
    Compact,
    /// The controller is killed.
    Kill,
    /// Another copy of the controller takes over.
    Takeover,
    /// Somebody asks Azure itself for so many instances more, in an autoscaled pool.
    Scale(u32),
    /// The pool is deleted.
    DeletePool,
}

/// A move and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// How many seconds after all pools were first whole.
    pub after: u32,
    /// Which pool, by its place in the story.
    #[serde(default)]
    pub pool: usize,
    /// What happens.
    pub what: Move,
}

/// How Azure behaves in a story. Without any of these it is calm: every work takes a minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AzureKnobs {
    /// What goes wrong by chance.
    pub faults: AzureFaults,
    /// What a write does that meets an unfinished one; pre-empts it when absent.
    pub parallel_writes: Option<ParallelWrites>,
    /// Whether requests are counted against the allowances.
    pub throttling: bool,
    /// How many instances one page has; all when 0.
    pub page_size: usize,
    /// Whether works take as long as Azure's do, and never twice the same.
    pub real_times: bool,
    /// How many seconds pass until a lower capacity is read.
    pub capacity_lag_seconds: u32,
    /// Whether ids have gaps and are used again.
    pub wild_ids: bool,
    /// Whether ids spell resource groups in capitals.
    pub capitals: bool,
}

/// A run, before it is played. The default is one calm pool to which nothing happens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Story {
    /// Where every choice of the run is drawn from.
    pub seed: u64,
    /// The pools at the beginning.
    pub pools: Vec<PoolSpec>,
    /// What runs on them.
    pub workloads: Vec<WorkloadSpec>,
    /// What happens, in the order of time.
    pub moves: Vec<Beat>,
    /// How the process misbehaves.
    pub mischief: Mischief,
    /// How the API servers misbehave.
    pub api_faults: Faults,
    /// How Azure behaves.
    pub azure: AzureKnobs,
}

/// What came of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    /// The seed.
    pub seed: u64,
    /// What was broken; empty for a good run.
    pub broken: Vec<String>,
    /// How long it took, in the world.
    pub virtual_seconds: i64,
    /// Calls to Azure.
    pub azure_calls: u64,
    /// How often the controller was killed.
    pub kills: u32,
    /// A hash of everything that happened.
    pub fingerprint: u64,
    /// What the run exercised.
    #[serde(skip)]
    pub coverage: Coverage,
}

impl Story {
    /// Draws a story.
    #[must_use]
    pub fn draw(seed: u64) -> Story {
        draw::story(seed)
    }

    /// Plays the story and judges it.
    ///
    /// Runs on a fresh thread with a clock of its own, so that nothing of this process leaks in.
    #[must_use]
    pub fn play(&self) -> Verdict {
        self.play_with(|_| {})
    }

    /// Plays the story, and hands the world over at the end.
    #[must_use]
    pub fn play_with(&self, end: impl FnOnce(&World) + Send) -> Verdict {
        std::thread::scope(|scope| {
            let played = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .start_paused(true)
                    .build()
                    .expect("a runtime without I/O needs nothing of the system");
                runtime.block_on(async {
                    let mut stage = Stage::set(self);
                    stage.run().await;
                    end(stage.world());
                    stage.verdict()
                })
            });
            played.join().unwrap_or_else(|_| Verdict {
                seed: self.seed,
                broken: vec!["panic: the run panicked".to_owned()],
                ..Verdict::default()
            })
        })
    }

    /// Returns whether the story can end well at all.
    ///
    /// Where every node may be away at once, a budget waits for ever for a pod's next place, and
    /// only a drain timeout ends that.
    #[must_use]
    pub fn can_end_well(&self) -> bool {
        let is_tight = |pool: &PoolSpec| {
            let promise = promise(pool);
            promise.surge == 0 || promise.unavailable == promise.replicas || promise.replicas <= 2
        };
        let lowers = |at: usize| {
            self.moves.iter().any(|beat| {
                beat.pool == at
                    && matches!(
                        beat.what,
                        Move::Replicas(_) | Move::ScaleIn(_) | Move::Limits { .. }
                    )
            })
        };
        let has_budget = self.workloads.iter().any(|w| w.min_available.is_some());
        !self.pools.is_empty()
            && self.pools.iter().enumerate().all(|(at, pool)| {
                let needs_limit = has_budget && (is_tight(pool) || lowers(at));
                !needs_limit || pool.drain_timeout_seconds.is_some()
            })
    }
}

impl AzureKnobs {
    /// Returns the options of an Azure that behaves so.
    #[must_use]
    pub fn options(&self) -> AzureOptions {
        let calm = AzureOptions::calm();
        let mut latency = calm.latency;
        if self.real_times {
            latency = Latency::azure();
        }
        latency.capacity_lag = Delay::about(i64::from(self.capacity_lag_seconds), 0.0);
        AzureOptions {
            latency,
            faults: self.faults,
            parallel_writes: self.parallel_writes.unwrap_or(calm.parallel_writes),
            throttling: if self.throttling {
                Throttling::On
            } else {
                Throttling::Off
            },
            page_size: match self.page_size {
                0 => calm.page_size,
                size => size,
            },
            ids: if self.wild_ids {
                InstanceIds {
                    gap: 0.3,
                    reuse: 0.3,
                }
            } else {
                calm.ids
            },
            group_case: if self.capitals {
                GroupCase::Upper
            } else {
                GroupCase::AsGiven
            },
            bad_images: [BAD_VERSION.trim_start_matches('v').to_owned()].into(),
            token_check: TokenCheck::Off,
            ..calm
        }
    }
}

/// Returns how many requests Azure answered.
pub(crate) fn calls(report: &AzureReport) -> u64 {
    report.reads + report.writes + report.polls
}

/// What is promised for a pool, worked out from its spec by the rules of a Deployment.
#[must_use]
pub fn promise(spec: &PoolSpec) -> Promise {
    let share = |text: &str, up: bool| -> u32 {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().unwrap_or(0);
        };
        let hundredths = percent.parse::<u32>().unwrap_or(0) * spec.replicas;
        if up {
            hundredths.div_ceil(100)
        } else {
            hundredths / 100
        }
    };
    let surge = share(&spec.max_surge, true);
    let unavailable = share(&spec.max_unavailable, false);
    let (surge, unavailable) = match (spec.autoscaled, surge) {
        (true, _) => (0, unavailable),
        (false, 0) => (0, unavailable.max(1)),
        (false, surge) => (surge, unavailable),
    };
    Promise {
        scale_set: spec.name.clone(),
        replicas: spec.replicas,
        replicas_lately: spec.replicas,
        surge,
        unavailable: unavailable.min(spec.replicas),
        excused: 0,
        last_loss: Timestamp::MIN,
        limits_next: None,
        deleted: false,
    }
}

fn seconds(count: u32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(count))
}
