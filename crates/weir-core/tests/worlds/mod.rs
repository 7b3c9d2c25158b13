//! Worlds drawn from a seed, up to a thousand instances, odd values and all.

use jiff::{SignedDuration, Timestamp};
use weir_core::observed::{
    DeletePolicy, Departure, Instance, Limit, Machine, Node, Observed, Pool, Power, Provisioning,
    Reading, Refusal, Revision, ScaleSet, Unhealthy, instance_order,
};

pub const WANTED: &str = "v2";

/// When every turn is taken.
pub fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50)
}

pub fn revision(name: &str) -> Revision {
    Revision(name.to_owned())
}

/// Draws a world in which anything may be the case.
pub fn any(seed: u64, instances_max: u32) -> Observed {
    let mut dice = Dice(seed);
    let count = dice.below(u64::from(instances_max) + 1) as u32;
    // Each world has its own mix, or all large worlds would be alike.
    let mix = Mix::draw(&mut dice);
    let instances: Vec<_> = (0..count).map(|n| instance(&mut dice, &mix, n)).collect();
    let mut observed = Observed {
        at: now(),
        looked_at: now() - SignedDuration::from_secs(dice.below(60) as i64),
        pool: pool(&mut dice, count),
        scale_set: Reading::Known(None),
        instances: Reading::Known(Vec::new()),
        orphans: orphans(&mut dice),
        nodes: Reading::Known(()),
        deletion_due: dice.one_in(2).then(|| dice.moment()),
        refused: dice.one_in(3).then(|| refusal(&mut dice, count)),
        owed_since: None,
        deletes_collide: dice.one_in(3),
    };
    match dice.below(30) {
        // One look is taken at Azure, and works or fails as a whole.
        0 => {
            observed.scale_set = Reading::Unknown("reading the scale set failed".to_owned());
            observed.instances = Reading::Unknown("listing the instances failed".to_owned());
        }
        1 => {}
        _ => {
            let set = scale_set(&mut dice, &instances);
            if observed.pool.autoscaled {
                let leaving = instances.iter().filter(|i| i.is_leaving()).count() as u64;
                observed.pool.replicas = set.capacity + dice.below(leaving + 1) as u32;
            }
            observed.scale_set = Reading::Known(Some(set));
            observed.instances = Reading::Known(instances);
        }
    }
    if dice.one_in(20) {
        observed.nodes = Reading::Unknown("reading the nodes failed".to_owned());
    }
    observed
}

/// Draws a world with limits that no webhook lets through: a plan is total all the same.
pub fn absurd(seed: u64, instances_max: u32) -> Observed {
    let mut observed = any(seed, instances_max);
    let absurd = [Limit::Count(u32::MAX), Limit::Percent(u32::MAX)];
    observed.pool.max_surge = absurd[(seed % 2) as usize];
    observed.pool.max_unavailable = absurd[(seed / 2 % 2) as usize];
    observed
}

/// Draws a world in which all is as it should be: every plan for it is empty.
pub fn settled(seed: u64, instances_max: u32) -> Observed {
    let mut dice = Dice(seed);
    let mut observed = any(dice.next(), 0);
    let count = dice.below(u64::from(instances_max) + 1) as u32;
    let calm = Mix::calm();
    let instances = (0..count).map(|n| instance(&mut dice, &calm, n)).collect();
    observed.pool = pool(&mut dice, count);
    observed.pool.replicas = count;
    observed.pool.deleting = false;
    observed.scale_set = Reading::Known(Some(ScaleSet {
        capacity: count,
        revision: Some(revision(WANTED)),
        provisioning: Provisioning::Succeeded,
    }));
    observed.instances = Reading::Known(instances);
    observed.nodes = Reading::Known(());
    observed.orphans.clear();
    observed
}

/// How often, in a hundred, an instance is not as it should be, by what is wrong with it.
struct Mix {
    old: u64,
    leaving: u64,
    nodeless: u64,
    unready: u64,
    odd: u64,
    protected: u64,
    unhealthy: u64,
}

impl Mix {
    fn draw(dice: &mut Dice) -> Mix {
        let mut share = || [0, 5, 30, 60, 100][dice.below(5) as usize];
        Mix {
            old: share(),
            leaving: share().min(60),
            nodeless: share().min(60),
            unready: share().min(60),
            odd: share().min(30),
            protected: share(),
            unhealthy: share().min(60),
        }
    }

    fn calm() -> Mix {
        Mix {
            old: 0,
            leaving: 0,
            nodeless: 0,
            unready: 0,
            odd: 0,
            protected: 10,
            unhealthy: 0,
        }
    }
}

fn instance(dice: &mut Dice, mix: &Mix, n: u32) -> Instance {
    let id = (2 * n + 3).to_string();
    let odd = dice.percent(mix.odd);
    let old = dice.percent(mix.old);
    let leaving = dice.percent(mix.leaving);
    Instance {
        vm_id: format!("vm-{id}-{}", dice.below(1000)),
        created: if odd { dice.moment() } else { dice.past() },
        provisioning: if odd || leaving && dice.one_in(3) {
            provisioning(dice)
        } else {
            Provisioning::Succeeded
        },
        power: match dice.below(5) {
            0 if odd => Power::Stopped,
            1 if odd => Power::Unknown,
            _ => Power::Running,
        },
        zone: [None, Some("1"), Some("2"), Some("3")][dice.below(4) as usize].map(str::to_owned),
        protected: dice.percent(mix.protected),
        revision: match dice.below(4) {
            0 if old => None,
            _ if old => Some(revision("v1")),
            _ => Some(revision(WANTED)),
        },
        machine: (!odd || dice.one_in(2)).then(|| Machine {
            name: format!("pool-{id}"),
            delete_marked: dice.one_in(10),
            unhealthy: dice.percent(mix.unhealthy).then(|| Unhealthy {
                since: dice.past(),
                why: "DiskPressure is True".to_owned(),
            }),
            departure: if leaving {
                departure(dice)
            } else {
                Departure::Staying
            },
        }),
        node: (!dice.percent(mix.nodeless)).then(|| Node {
            name: format!("node-{id}"),
            ready: !dice.percent(mix.unready),
            since: if odd { dice.moment() } else { dice.past() },
            cordoned_by_us: odd && dice.one_in(3),
        }),
        id,
    }
}

fn departure(dice: &mut Dice) -> Departure {
    let since = dice.past();
    match dice.below(3) {
        0 => Departure::Draining {
            since,
            blocked_by: None,
        },
        1 => Departure::Draining {
            since,
            blocked_by: Some("budget web/api".to_owned()),
        },
        _ => Departure::Drained { since },
    }
}

fn provisioning(dice: &mut Dice) -> Provisioning {
    match dice.below(5) {
        0 => Provisioning::Creating,
        1 => Provisioning::Updating,
        2 => Provisioning::Failed("OSProvisioningTimedOut".to_owned()),
        3 => Provisioning::Deleting,
        _ => Provisioning::Succeeded,
    }
}

fn pool(dice: &mut Dice, count: u32) -> Pool {
    Pool {
        name: "pool".to_owned(),
        replicas: match dice.below(4) {
            0 => count,
            1 => dice.below(u64::from(count) * 2 + 2) as u32,
            _ => (count + dice.below(5) as u32).saturating_sub(dice.below(5) as u32),
        },
        max_surge: limit(dice),
        max_unavailable: limit(dice),
        delete_policy: match dice.below(3) {
            0 => DeletePolicy::Oldest,
            1 => DeletePolicy::Newest,
            _ => DeletePolicy::Random,
        },
        revision: revision(WANTED),
        min_ready: SignedDuration::from_secs([0, 30, 600][dice.below(3) as usize]),
        join_limit: SignedDuration::from_mins(20),
        unready_limit: SignedDuration::from_mins(10),
        patience: SignedDuration::from_secs([0, 30][dice.below(2) as usize]),
        autoscaled: dice.one_in(5),
        deleting: dice.one_in(20),
    }
}

fn limit(dice: &mut Dice) -> Limit {
    match dice.below(11) {
        0..4 => Limit::Count(dice.below(4) as u32),
        4 => Limit::Count(dice.below(2000) as u32),
        5..10 => Limit::Percent(dice.below(101) as u32),
        _ => Limit::Percent(dice.below(100_000) as u32),
    }
}

fn scale_set(dice: &mut Dice, instances: &[Instance]) -> ScaleSet {
    let live = instances.iter().filter(|i| !i.is_being_deleted()).count() as u32;
    ScaleSet {
        // Behind or ahead of the listing, as when a delete or a creation is under way.
        capacity: match dice.below(5) {
            0 => live.saturating_sub(dice.below(4) as u32),
            1 => live + dice.below(5) as u32,
            _ => live,
        },
        revision: match dice.below(5) {
            0 => None,
            1 => Some(revision("v1")),
            _ => Some(revision(WANTED)),
        },
        provisioning: match dice.below(3) {
            0 => provisioning(dice),
            _ => Provisioning::Succeeded,
        },
    }
}

fn orphans(dice: &mut Dice) -> Vec<Machine> {
    let count = dice.below(3);
    let orphan = |dice: &mut Dice, n| Machine {
        name: format!("pool-{}", 2 * n),
        delete_marked: false,
        unhealthy: None,
        departure: if dice.one_in(2) {
            Departure::Staying
        } else {
            departure(dice)
        },
    };
    (0..count).map(|n| orphan(dice, n)).collect()
}

fn refusal(dice: &mut Dice, count: u32) -> Refusal {
    let since = dice.past();
    Refusal {
        code: "QuotaExceeded".to_owned(),
        message: "no cores left".to_owned(),
        since,
        retry_at: dice.moment(),
        fits: (count + dice.below(5) as u32).saturating_sub(dice.below(5) as u32),
    }
}

/// The instances, the one that is changed first.
pub fn instances_mut(observed: &mut Observed) -> &mut Vec<Instance> {
    match &mut observed.instances {
        Reading::Known(instances) => instances,
        Reading::Unknown(_) => panic!("only asked for where they are known"),
    }
}

/// Deals the ids out anew among the instances.
pub fn deal_ids(observed: &mut Observed, seed: u64) {
    let mut dice = Dice(seed);
    let instances = instances_mut(observed);
    let mut ids: Vec<_> = instances.iter().map(|i| i.id.clone()).collect();
    for at in (1..ids.len()).rev() {
        ids.swap(at, dice.below(at as u64 + 1) as usize);
    }
    for (instance, id) in instances.iter_mut().zip(ids) {
        instance.id = id;
    }
    instances.sort_by_key(|i| instance_order(&i.id));
}

/// Small, seeded, and the same everywhere.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// A moment more than a quarter of an hour and less than three hours ago.
    fn past(&mut self) -> Timestamp {
        now() - SignedDuration::from_secs(900 + self.below(9900) as i64)
    }

    /// A moment from an hour ago to an hour ahead: clocks differ.
    fn moment(&mut self) -> Timestamp {
        now() + SignedDuration::from_secs(self.below(7200) as i64 - 3600)
    }
}
