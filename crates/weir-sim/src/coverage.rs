//! Shows what the simulation exercised: a swarm that never meets a fault proves nothing about it.
//!
//! Each table below is one exhaustive match, so that a variant which is added to the planner or to
//! the world does not compile until it has a name here, and a run of many seeds that never meets
//! that name fails.

use std::collections::BTreeMap;
use std::fmt;

use weir_core::Observed;
use weir_core::observed::Reading;
use weir_core::plan::{Action, Census, Member, Model, Plan, Reason, WaitingOn};
use weir_world::tally::{Fault, Tally};

use crate::rig::Mishap;
use crate::story::Move;

/// A list of names and the match that gives them.
macro_rules! names {
    ($list:ident, $of:ident: $type:ty { $($pattern:pat => $name:literal,)+ }) => {
        const $list: &[&str] = &[$($name),+];
        fn $of(one: &$type) -> &'static str {
            match one { $($pattern => $name),+ }
        }
    };
}

names!(STEPS, step: Action {
    Action::CreateScaleSet { .. } => "create scale set",
    Action::UpdateModel { .. } => "update model",
    Action::RaiseCapacity { .. } => "raise capacity",
    Action::PutBackCapacity { .. } => "put capacity back",
    Action::DeleteInstances { .. } => "delete instances",
    Action::DeleteScaleSet => "delete scale set",
    Action::AddMachine { .. } => "add machine",
    Action::RemoveMachine { .. } => "remove machine",
    Action::ReleaseMachine { .. } => "release machine",
    Action::ReleasePool => "release pool",
});

names!(REASONS, reason: Reason {
    Reason::NoScaleSet => "no scale set",
    Reason::ModelChanged => "model changed",
    Reason::Surge { .. } => "surge",
    Reason::TooFew { .. } => "too few",
    Reason::Refused { .. } => "refused",
    Reason::Surplus { .. } => "surplus",
    Reason::Broken { .. } => "broken",
    Reason::Abandoned => "abandoned",
    Reason::OldModel => "old model",
    Reason::Drained => "drained",
    Reason::NoMachine => "no machine",
    Reason::InstanceGone => "instance gone",
    Reason::PoolDeleted => "pool deleted",
    Reason::NothingLeft => "nothing left",
});

names!(WAITS, wait: WaitingOn {
    WaitingOn::Unread { .. } => "unread",
    WaitingOn::Creation { .. } => "creation",
    WaitingOn::Joining { .. } => "joining",
    WaitingOn::Recovery { .. } => "recovery",
    WaitingOn::Drain { blocked_by: None, .. } => "drain",
    WaitingOn::Drain { blocked_by: Some(_), .. } => "blocked drain",
    WaitingOn::Batch { .. } => "batch",
    WaitingOn::DeleteUnderWay { .. } => "delete under way",
    WaitingOn::Deletion { .. } => "deletion",
    WaitingOn::Floor { .. } => "floor",
    WaitingOn::Ceiling { .. } => "ceiling",
    WaitingOn::Refused { .. } => "refused",
    WaitingOn::NoBudget { .. } => "no budget",
    WaitingOn::NeverServed { .. } => "never served",
    WaitingOn::Retry { .. } => "retry",
    WaitingOn::Brake { .. } => "brake",
    WaitingOn::ScaleSetBusy => "scale set busy",
    WaitingOn::ScaleSetGone => "scale set gone",
});

names!(FAULTS, fault: Fault {
    Fault::AzureError => "Azure: 500",
    Fault::AzureThrottled => "Azure: 429 by chance",
    Fault::AzureAllowance => "Azure: 429, allowance used up",
    Fault::AzureConflict => "Azure: 409 by chance",
    Fault::AzureBusy => "Azure: 409, a write is under way",
    Fault::AzureStale => "Azure: 412",
    Fault::AzureLostAnswer => "Azure: 504 after taking effect",
    Fault::AzurePreempted => "Azure: a write pre-empted another",
    Fault::AzureQuota => "Azure: quota exceeded",
    Fault::CreateAllocation => "instance: no hardware",
    Fault::CreateOsTimeout => "instance: never signals",
    Fault::CreateExtension => "instance: extension fails",
    Fault::BadImage => "instance: image never joins",
    Fault::Vanished => "instance: vanishes",
    Fault::Stopped => "instance: stops",
    Fault::ApiError => "API server: 500",
    Fault::ApiLostAnswer => "API server: 500 after taking effect",
    Fault::ApiConflict => "API server: 409",
    Fault::WatchBroke => "API server: watch breaks",
    Fault::WatchLate => "API server: watch is late",
    Fault::WatchExpired => "API server: 410",
    Fault::EvictionRefused => "API server: 429 on an eviction",
    Fault::NodeSilent => "node: not Ready",
    Fault::NodeBack => "node: heard of again",
});

names!(MISHAPS, mishap: Mishap {
    Mishap::LostRequest => "request lost",
    Mishap::LostAnswer => "answer lost",
    Mishap::Kill => "controller killed",
    Mishap::Takeover => "another leader",
    Mishap::LateRequest => "request of a former leader arrives",
    Mishap::Duplicate => "watch event twice",
    Mishap::NodesUnread => "workload cluster out of reach",
});

names!(MOVES, act: Move {
    Move::Version(_) => "another version",
    Move::BadVersion => "a version that never joins",
    Move::Replicas(0) => "zero replicas",
    Move::Replicas(_) => "another count",
    Move::ScaleIn(_) => "autoscaler marks a Machine and takes one",
    Move::Size(_) => "another VM size",
    Move::Tag(_) => "another tag",
    Move::Limits { .. } => "other limits",
    Move::DeleteMachine(_) => "Machine deleted",
    Move::DeletePoolMachine(_) => "pool machine deleted",
    Move::Vanish(_) => "instance vanishes",
    Move::Stop(_) => "instance stops",
    Move::Fail(_) => "instance fails",
    Move::Silence { .. } => "node silent for a while",
    Move::FailCreates(_) => "next creations fail",
    Move::Quota { .. } => "quota runs out for a while",
    Move::AzureDown { .. } => "Azure down for a while",
    Move::ApiDown { .. } => "an API server down for a while",
    Move::NodesUnread { .. } => "nodes out of reach for a while",
    Move::BlockBudget { .. } => "budget blocks for a while",
    Move::Pause { .. } => "pool paused for a while",
    Move::Compact => "API servers forget old versions",
    Move::Kill => "controller killed",
    Move::Takeover => "another leader",
    Move::Scale(_) => "somebody scales in Azure",
    Move::DeletePool => "pool deleted",
});

/// Names that the swarm cannot reach, each with the reason.
const UNREACHED: &[(Group, &str, &str)] = &[];

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// A step of a plan.
    Step,
    /// The reason of a step.
    Reason,
    /// What a plan waits for.
    Wait,
    /// A rule of `docs/rollouts.md`, in a turn in which it mattered.
    Rule,
    /// A fault of the world.
    Fault,
    /// A fault between the controller and the world.
    Mishap,
    /// A move of the story.
    Move,
}

/// Whether a rule mattered in a turn.
type Mattered = fn(&Census<'_>, &Plan) -> bool;

/// The rules, each with the turns in which it decided something. `None` where the story tells.
const RULES: &[(&str, Option<Mattered>)] = &[
    (
        "R1",
        Some(|_, plan| waits(plan, |on| matches!(on, WaitingOn::Ceiling { .. }))),
    ),
    (
        "R2",
        Some(|_, plan| waits(plan, |on| matches!(on, WaitingOn::Floor { .. }))),
    ),
    (
        "R3",
        Some(|_, plan| because(plan, |why| *why == Reason::Drained)),
    ),
    (
        "R4",
        Some(|_, plan| because(plan, |why| matches!(why, Reason::Surplus { .. }))),
    ),
    ("R5", None),
    ("R6", None),
    ("R7", None),
    (
        "R8",
        Some(|_, plan| waits(plan, |on| matches!(on, WaitingOn::DeleteUnderWay { .. }))),
    ),
    (
        "R9",
        Some(|census, plan| {
            census.observed.pool.autoscaled && because(plan, |why| *why == Reason::OldModel)
        }),
    ),
    (
        "R10",
        Some(|_, plan| waits(plan, |on| matches!(on, WaitingOn::Brake { .. }))),
    ),
    (
        "R11",
        Some(|_, plan| because(plan, |why| matches!(why, Reason::Broken { .. }))),
    ),
    ("R12", Some(fills_the_pipe)),
    ("R13", Some(goes_on_beside_a_blocked_drain)),
    (
        "R14",
        Some(|_, plan| because(plan, |why| *why == Reason::Abandoned)),
    ),
    ("R15", Some(protects_replacements)),
    ("R16", Some(takes_a_marked_one)),
    ("R17", Some(chooses_a_zone)),
    (
        "R18",
        Some(|_, plan| waits(plan, |on| matches!(on, WaitingOn::Refused { .. }))),
    ),
    ("R19", Some(comes_back_from_zero)),
    ("R20", None),
];

fn waits(plan: &Plan, is_it: impl Fn(&WaitingOn) -> bool) -> bool {
    plan.waits.iter().any(|wait| is_it(&wait.on))
}

fn because(plan: &Plan, is_it: impl Fn(&Reason) -> bool) -> bool {
    plan.steps.iter().any(|step| is_it(&step.because))
}

fn fills_the_pipe(_: &Census<'_>, plan: &Plan) -> bool {
    let adds = |step: &Action| matches!(step, Action::RaiseCapacity { .. });
    plan.steps.iter().any(|step| adds(&step.action))
        && waits(plan, |on| {
            matches!(
                on,
                WaitingOn::Drain { .. } | WaitingOn::Joining { .. } | WaitingOn::Deletion { .. }
            )
        })
}

fn goes_on_beside_a_blocked_drain(_: &Census<'_>, plan: &Plan) -> bool {
    let is_blocked = |on: &WaitingOn| {
        matches!(
            on,
            WaitingOn::Drain {
                blocked_by: Some(_),
                ..
            }
        )
    };
    waits(plan, is_blocked)
        && because(plan, |why| {
            matches!(why, Reason::OldModel | Reason::Drained)
        })
}

fn protects_replacements(census: &Census<'_>, plan: &Plan) -> bool {
    let staying = census.count(|m| !m.is_leaving());
    census.count(|m| m.is(Model::Current) && m.is_starting()) > 0
        && census.count(|m| m.is(Model::Old) && m.is_available()) > 0
        && staying > census.bounds.replicas
        && !because(plan, |why| matches!(why, Reason::Surplus { .. }))
}

fn takes_a_marked_one(census: &Census<'_>, plan: &Plan) -> bool {
    let marked = |m: &Member<'_>| m.instance.machine.as_ref().is_some_and(|m| m.delete_marked);
    plan.steps.iter().any(|step| match &step.action {
        Action::RemoveMachine { instance } if matches!(step.because, Reason::Surplus { .. }) => {
            census
                .members
                .iter()
                .any(|m| m.instance.id == *instance && marked(m))
        }
        _ => false,
    })
}

fn chooses_a_zone(census: &Census<'_>, plan: &Plan) -> bool {
    let mut zones: Vec<_> = census.members.iter().map(|m| &m.instance.zone).collect();
    zones.sort();
    zones.dedup();
    zones.len() > 1 && because(plan, |why| *why == Reason::OldModel)
}

fn comes_back_from_zero(census: &Census<'_>, plan: &Plan) -> bool {
    census.members.is_empty()
        && census.scale_set.capacity == 0
        && because(plan, |why| matches!(why, Reason::TooFew { .. }))
}

/// What one run exercised, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<(Group, &'static str), u64>);

impl Coverage {
    /// Counts what a turn of a pool decided.
    pub(crate) fn turn(&mut self, observed: &Observed, plan: &Plan) {
        for taken in &plan.steps {
            self.count(Group::Step, step(&taken.action));
            self.count(Group::Reason, reason(&taken.because));
            match taken.action {
                Action::DeleteScaleSet => self.count(Group::Rule, "R5"),
                Action::ReleasePool => self.count(Group::Rule, "R20"),
                _ => {}
            }
        }
        for waited in &plan.waits {
            self.count(Group::Wait, wait(&waited.on));
        }
        let (Reading::Known(Some(scale_set)), Reading::Known(instances)) =
            (&observed.scale_set, &observed.instances)
        else {
            return;
        };
        let census = Census::take(observed, scale_set, instances);
        for (rule, mattered) in RULES {
            if mattered.is_some_and(|mattered| mattered(&census, plan)) {
                self.count(Group::Rule, rule);
            }
        }
    }

    /// Counts the faults that the world met.
    pub(crate) fn faults(&mut self, tally: &Tally) {
        for (one, times) in tally.iter() {
            *self.0.entry((Group::Fault, fault(&one))).or_default() += times;
        }
    }

    pub(crate) fn mishap(&mut self, one: Mishap) {
        self.count(Group::Mishap, mishap(&one));
    }

    pub(crate) fn act(&mut self, one: &Move) {
        self.count(Group::Move, act(one));
    }

    /// Counts a rule that the story itself exercised.
    pub(crate) fn rule(&mut self, rule: &'static str) {
        self.count(Group::Rule, rule);
    }

    fn count(&mut self, group: Group, name: &'static str) {
        *self.0.entry((group, name)).or_default() += 1;
    }
}

/// What many runs exercised.
#[derive(Clone, Debug, Default)]
pub struct Table {
    seeds: u64,
    rows: BTreeMap<(Group, &'static str), Row>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    times: u64,
    seeds: u64,
}

impl Table {
    /// Adds what one run exercised.
    pub fn add(&mut self, run: &Coverage) {
        self.seeds += 1;
        for (key, times) in &run.0 {
            let row = self.rows.entry(*key).or_default();
            row.times += times;
            row.seeds += 1;
        }
    }

    /// Returns what no run exercised although it should have been, as `group: name`.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let excused =
            |group, name: &str| UNREACHED.iter().any(|(g, n, _)| (*g, *n) == (group, name));
        every_name()
            .filter(|key| !self.rows.contains_key(key))
            .filter(|(group, name)| !excused(*group, name))
            .map(|(group, name)| format!("{group}: {name}"))
            .collect()
    }
}

fn every_name() -> impl Iterator<Item = (Group, &'static str)> {
    let rules = RULES.iter().map(|(name, _)| (Group::Rule, *name));
    let lists = [
        (Group::Step, STEPS),
        (Group::Reason, REASONS),
        (Group::Wait, WAITS),
        (Group::Fault, FAULTS),
        (Group::Mishap, MISHAPS),
        (Group::Move, MOVES),
    ];
    let lists = lists
        .into_iter()
        .flat_map(|(group, names)| names.iter().map(move |name| (group, *name)));
    rules.chain(lists)
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Group::Step => "step",
            Group::Reason => "because",
            Group::Wait => "wait",
            Group::Rule => "rule",
            Group::Fault => "fault",
            Group::Mishap => "mishap",
            Group::Move => "move",
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:8}  {:44}{:>9}{:>8}",
            "", "exercised", "times", "seeds"
        )?;
        for (group, name) in every_name() {
            let Row { times, seeds } = self.rows.get(&(group, name)).copied().unwrap_or_default();
            let group = group.to_string();
            writeln!(f, "{group:8}  {name:44}{times:>9}{seeds:>8}")?;
        }
        for (group, name, why) in UNREACHED {
            writeln!(f, "out of reach: {group} {name}: {why}")?;
        }
        write!(f, "{} seeds", self.seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_run_exercised_is_named() {
        let mut table = Table::default();
        let mut run = Coverage::default();
        run.act(&Move::Kill);
        table.add(&run);
        let missing = table.missing();
        assert!(
            missing.contains(&"move: pool deleted".to_owned()),
            "{missing:?}"
        );
        assert!(!missing.contains(&"move: controller killed".to_owned()));
    }

    #[test]
    fn names_are_not_used_twice_and_excuses_name_something() {
        let all: Vec<_> = every_name().collect();
        let mut once = all.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), all.len());
        for (group, name, _) in UNREACHED {
            assert!(all.contains(&(*group, *name)), "{group} {name}");
        }
    }
}
