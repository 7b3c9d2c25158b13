//! Which rollouts are measured?

use jiff::SignedDuration;
use weir_world::azure::{
    AzureOptions, Delay, InstancesMax, Latency, ParallelWrites, Throttling, TokenCheck,
};
use weir_world::cluster::draw;
use weir_world::cluster::kubelet::{KubeletOptions, SlowStop};
use weir_world::cluster::workload::WorkloadSpec;
use weir_world::world::WorldOptions;

use super::Limits;

/// Whether machines take the same time or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimesAre {
    /// Each machine takes as long as the next.
    Fixed,
    /// Log-normal, with a few pods that are slow to stop.
    Spread,
}

/// One rollout to measure.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name, such as `n100-s10`.
    pub name: String,
    /// N, S and U.
    pub limits: Limits,
    /// How the times are.
    pub times: TimesAre,
    /// Whether Azure counts requests.
    pub throttling: Throttling,
    /// What Azure does with a write that meets an unfinished one.
    pub parallel_writes: ParallelWrites,
}

/// Returns all scenarios, the named targets first.
///
/// A name says `nN-sS`, then what differs from the targets: `uU`, `fixed` times, `free` of
/// Azure's allowances, or what becomes of parallel writes.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let mut all: Vec<Scenario> = [(10, 3), (100, 10), (1_000, 100)]
        .map(|(replicas, surge)| Scenario::new(replicas, surge, 0))
        .to_vec();
    for writes in [ParallelWrites::Conflict, ParallelWrites::Preempt] {
        let scenario = Scenario {
            parallel_writes: writes,
            ..Scenario::new(100, 10, 0)
        };
        all.push(scenario.named());
    }
    for (replicas, surge) in [(3, 1), (10, 1), (10, 4), (100, 1), (100, 10), (100, 33)] {
        for unavailable in [0, surge] {
            for times in [TimesAre::Spread, TimesAre::Fixed] {
                for throttling in [Throttling::On, Throttling::Off] {
                    let scenario = Scenario {
                        times,
                        throttling,
                        ..Scenario::new(replicas, surge, unavailable)
                    };
                    all.push(scenario.named());
                }
            }
        }
    }
    // One at a time a thousand take three days: nobody rolls so, and it shows nothing new.
    for (surge, unavailable) in [(100, 100), (330, 0)] {
        all.push(Scenario::new(1_000, surge, unavailable));
    }
    let mut names = std::collections::BTreeSet::new();
    all.retain(|scenario| names.insert(scenario.name.clone()));
    all
}

impl Scenario {
    /// Returns a scenario with spread-out times and Azure's allowances, under its name.
    #[must_use]
    pub fn new(replicas: u32, surge: u32, unavailable: u32) -> Scenario {
        let scenario = Scenario {
            name: String::new(),
            limits: Limits {
                replicas,
                surge,
                unavailable,
            },
            times: TimesAre::Spread,
            throttling: Throttling::On,
            parallel_writes: ParallelWrites::Accept,
        };
        scenario.named()
    }

    fn named(mut self) -> Scenario {
        let Limits {
            replicas,
            surge,
            unavailable,
        } = self.limits;
        let mut name = format!("n{replicas}-s{surge}");
        if unavailable > 0 {
            name.push_str(&format!("-u{unavailable}"));
        }
        if self.times == TimesAre::Fixed {
            name.push_str("-fixed");
        }
        if self.throttling == Throttling::Off {
            name.push_str("-free");
        }
        name.push_str(match self.parallel_writes {
            ParallelWrites::Accept => "",
            ParallelWrites::Conflict => "-conflict",
            ParallelWrites::Preempt => "-preempt",
        });
        self.name = name;
        self
    }

    /// Returns the world that it plays in.
    pub(super) fn world(&self) -> WorldOptions {
        let replicas = i64::from(self.limits.replicas);
        // A budget that is seldom in the way: what is measured is Weir, not the budget.
        let workloads = vec![
            WorkloadSpec {
                grace_period_seconds: 180,
                ..WorkloadSpec::new("web", replicas * 2).with_min_available("60%")
            },
            WorkloadSpec::new("batch", replicas),
        ];
        WorldOptions {
            azure: AzureOptions {
                latency: self.latency(),
                parallel_writes: self.parallel_writes,
                throttling: self.throttling,
                token_check: TokenCheck::Off,
                // A set has a thousand at most; the largest scenarios need room for their surge.
                instances_max: InstancesMax {
                    one_group: 100,
                    several_groups: 2_000,
                },
                ..AzureOptions::default()
            },
            kubelets: self.kubelets(),
            workloads,
            daemon_sets: vec!["proxy".to_owned()],
            ..WorldOptions::default()
        }
    }

    /// Creation takes 95 s of the 150 s to a Ready node, deletion 60 s.
    fn latency(&self) -> Latency {
        let spread = |spread: f64| match self.times {
            TimesAre::Fixed => 0.0,
            TimesAre::Spread => spread,
        };
        Latency {
            appear: Delay::about(3, spread(0.5)),
            create: Delay::about(95, spread(0.3)),
            boot: Delay::about(20, spread(0.4)),
            delete: Delay::about(60, spread(0.4)),
            update: Delay::about(20, spread(0.4)),
            capacity_lag: Delay::fixed(SignedDuration::ZERO),
            ..Latency::azure()
        }
    }

    fn kubelets(&self) -> KubeletOptions {
        let second = |median, spread| match self.times {
            TimesAre::Fixed => draw::Latency::from_secs(median, 0),
            TimesAre::Spread => draw::Latency::from_secs(median, spread),
        };
        let slow = SlowStop {
            share: 0.05,
            stop: draw::Latency::from_secs(90, 60),
        };
        KubeletOptions {
            node_join: second(45, 25),
            node_ready: second(10, 5),
            pod_stop: second(8, 6),
            slow_stop: Some(slow).filter(|_| self.times == TimesAre::Spread),
            ..KubeletOptions::default()
        }
    }
}
