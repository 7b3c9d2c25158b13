//! Where did the time of the slots go, and what caused the calls?

use std::collections::BTreeMap;

use serde::Serialize;

use super::run::Ran;
use crate::diary::{Ask, Diary, Did};

/// Where the time of the slots of a rollout went, in seconds per replaced instance, and its calls.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The scenario.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// All of it: (S + U) × makespan / N.
    pub slot_seconds: f64,
    /// Machines being made, drained and deleted.
    pub busy: f64,
    /// From the change of the version to the first use of a slot.
    pub before_first_use: f64,
    /// From an instance being gone to the first listing that could show it.
    pub gone_unseen: f64,
    /// From that listing to the write that fills the slot.
    pub gone_seen: f64,
    /// From a new instance serving to an old one being asked to go.
    pub serving_to_asked: f64,
    /// From the end of a drain to the delete being accepted.
    pub drained_to_accepted: f64,
    /// Slots with nothing left to do at the end.
    pub at_the_end: f64,
    /// What the ideal scheduler loses at the end with the same times.
    pub ideal_at_the_end: f64,
    /// The largest and the middle gap of each kind, in seconds.
    pub gaps: BTreeMap<&'static str, Gap>,
    /// Turns of the pool with calls to Azure: what began them, what they asked, and how often.
    pub turns: Vec<Turns>,
    /// Turns of the pool without calls to Azure.
    pub silent_turns: u64,
}

/// Gaps of one kind, in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Gap {
    /// Half are shorter.
    pub median: f64,
    /// Nine in ten are shorter.
    pub p90: f64,
    /// None is longer.
    pub most: f64,
}

/// Turns that began for the same reason and asked the same of Azure.
#[derive(Clone, Debug, Serialize)]
pub struct Turns {
    /// What began them.
    pub because: String,
    /// What they asked of Azure, in order.
    pub asked: String,
    /// How many there were.
    pub count: u64,
    /// How many requests that makes.
    pub calls: u64,
}

/// Explains a rollout that was run.
#[must_use]
pub fn explain(ran: &Ran) -> Explanation {
    let (figures, course) = (&ran.figures, &ran.course);
    let (surge, unavailable) = (figures.surge as usize, figures.unavailable as usize);
    let slots = (surge + unavailable) as f64;
    let replaced = f64::from(figures.replicas.max(1));
    let end = course.end();
    let made = course.all(|steps| steps.made);
    let ready = course.all(|steps| steps.made.filter(|at| *at >= 0).and(steps.ready));
    let asked = course.all(|steps| steps.asked);
    let gone = course.all(|steps| steps.gone);
    let lists = lists(&ran.diary, course.start);
    let mut before = Vec::new();
    let (mut unseen, mut seen, mut serving) = (Vec::new(), Vec::new(), Vec::new());
    for (nth, made) in made.iter().enumerate() {
        let Some(free) = nth.checked_sub(surge).and_then(|nth| gone.get(nth)) else {
            before.push(*made);
            continue;
        };
        let shown = lists.iter().find(|at| *at >= free).unwrap_or(made);
        let shown = (*shown).min(*made).max(*free);
        unseen.push(shown - free);
        seen.push(made - shown);
    }
    for (nth, asked) in asked.iter().enumerate() {
        match nth.checked_sub(unavailable).and_then(|nth| ready.get(nth)) {
            Some(ready) => serving.push(asked - ready),
            None => before.push(*asked),
        }
    }
    let waited = |steps: &super::course::Steps| Some(steps.accepted? - steps.drained?);
    let accepted: Vec<i64> = course.machines.values().filter_map(waited).collect();
    let mut idle: Vec<i64> = Vec::new();
    idle.extend(gone.iter().rev().take(surge).map(|at| end - at));
    idle.extend(ready.iter().rev().take(unavailable).map(|at| end - at));
    let each = |gaps: &[i64]| gaps.iter().sum::<i64>() as f64 / 1_000.0 / replaced;
    let spans = course.spans();
    let leaving = spans.leaves.iter().map(|cycle| cycle.drain + cycle.delete);
    let busy: i64 = spans.creates.iter().sum::<i64>() + leaving.sum::<i64>();
    let busy = busy as f64 / 1_000.0 / replaced;
    let ideal = figures
        .ideal_seconds
        .map_or(0.0, |best| slots * best / replaced - busy);
    let gaps = [
        ("before_first_use", &before),
        ("gone_unseen", &unseen),
        ("gone_seen", &seen),
        ("serving_to_asked", &serving),
        ("drained_to_accepted", &accepted),
    ];
    let (turns, silent_turns) = turns(&ran.diary);
    Explanation {
        name: figures.name.clone(),
        seed: figures.seed,
        slot_seconds: slots * figures.makespan_seconds / replaced,
        busy,
        before_first_use: each(&before),
        gone_unseen: each(&unseen),
        gone_seen: each(&seen),
        serving_to_asked: each(&serving),
        drained_to_accepted: each(&accepted),
        at_the_end: each(&idle),
        ideal_at_the_end: ideal,
        gaps: gaps.map(|(name, gaps)| (name, gap(gaps))).into(),
        turns,
        silent_turns,
    }
}

/// Returns when instances were listed, in milliseconds since the start.
fn lists(diary: &Diary, start: jiff::Timestamp) -> Vec<i64> {
    let lists = diary.entries.iter().filter(|entry| match &entry.what {
        Did::Azure { what, status } => *what == Ask::ListPage && *status < 400,
        Did::Turn { .. } | Did::Wrote { .. } => false,
    });
    lists
        .map(|entry| entry.at.duration_since(start).as_millis() as i64)
        .collect()
}

fn gap(gaps: &[i64]) -> Gap {
    let mut gaps = gaps.to_vec();
    gaps.sort_unstable();
    let at = |share: f64| {
        let place = (gaps.len() as f64 * share) as usize;
        let place = place.min(gaps.len().saturating_sub(1));
        gaps.get(place).copied().unwrap_or(0) as f64 / 1_000.0
    };
    Gap {
        median: at(0.5),
        p90: at(0.9),
        most: at(1.0),
    }
}

/// Groups turns by what began them and what they asked, most calls first.
fn turns(diary: &Diary) -> (Vec<Turns>, u64) {
    let mut groups: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    let mut silent = 0;
    let mut turn: (String, Vec<Ask>) = ("before".to_owned(), Vec::new());
    let mut close = |(because, asked): (String, Vec<Ask>)| {
        if asked.is_empty() {
            silent += 1;
            return;
        }
        let group = groups.entry((because, joined(&asked))).or_default();
        *group = (group.0 + 1, group.1 + asked.len() as u64);
    };
    for entry in &diary.entries {
        match &entry.what {
            Did::Turn { because } => {
                close(std::mem::replace(
                    &mut turn,
                    (because.join("+"), Vec::new()),
                ));
            }
            Did::Azure { what, .. } => turn.1.push(*what),
            Did::Wrote { .. } => {}
        }
    }
    close(turn);
    let mut turns: Vec<Turns> = groups
        .into_iter()
        .map(|((because, asked), (count, calls))| Turns {
            because,
            asked,
            count,
            calls,
        })
        .collect();
    turns.sort_by_key(|turns| std::cmp::Reverse(turns.calls));
    (turns, silent)
}

/// Names requests in order; several of the same kind in a row are counted.
fn joined(asked: &[Ask]) -> String {
    let runs = asked.chunk_by(|one, next| one == next);
    let runs = runs.map(|run| match run {
        [one] => one.name().to_owned(),
        many => format!("{} x{}", many[0].name(), many.len()),
    });
    runs.collect::<Vec<_>>().join(", ")
}
