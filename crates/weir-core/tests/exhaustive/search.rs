//! Visits every state that can be reached, breadth first, so that what breaks first is shortest.
//!
//! Safety is asked of every plan on the way. Progress is asked of the *fair* part of the graph:
//! the moves that happen sooner or later once faults, edits and crashes have stopped. If that part
//! has no cycle, every run of it ends, whatever the order; if each end is settled or waits for a
//! person by name, then from every reachable state the pool comes to rest. This is stronger than
//! asking for fairness between moves, and needs no measure that has to be believed: the order of
//! the graph is the measure. A turn that changes nothing is no move, so waiting is no cycle.

use std::collections::{BTreeMap, VecDeque};

use weir_core::Plan;

use crate::config::Config;
use crate::moves::{Class, Move, Nexts, environment};
use crate::observe::{Unread, observe, orders};
use crate::promises::{Planner, Rest, broken, broken_unread, rest};
use crate::prose::picture;
use crate::state::{End, State};
use crate::turn::{Extent, carry_out};

/// What a search found.
pub struct Found {
    pub states: usize,
    pub transitions: usize,
    pub rests: BTreeMap<Rest, usize>,
    pub fault: Option<Fault>,
}

/// A promise that is broken, and the shortest way there.
pub struct Fault {
    pub what: String,
    /// Moves from a beginning to where it shows.
    pub length: usize,
    pub story: String,
}

/// Searches one configuration.
pub fn search(config: &Config, planner: Planner) -> Found {
    let mut search = Search::new(config, planner);
    let fault = search.run().or_else(|| search.cycle());
    Found {
        states: search.keys.len(),
        transitions: search.transitions,
        rests: search.rests,
        fault,
    }
}

struct Search<'s> {
    config: &'s Config,
    planner: Planner,
    /// Keys in the order of discovery; the index of a state is its place here.
    keys: Vec<u128>,
    parents: Vec<u32>,
    index: Index,
    /// Where the fair moves of each state begin in `fair`; as long as what was visited, plus one.
    fair_from: Vec<u32>,
    fair: Vec<u32>,
    transitions: usize,
    rests: BTreeMap<Rest, usize>,
}

const NO_PARENT: u32 = u32::MAX;

impl<'s> Search<'s> {
    fn new(config: &'s Config, planner: Planner) -> Search<'s> {
        let mut search = Search {
            config,
            planner,
            keys: Vec::new(),
            parents: Vec::new(),
            index: Index::default(),
            fair_from: vec![0],
            fair: Vec::new(),
            transitions: 0,
            rests: BTreeMap::new(),
        };
        for state in config.beginnings() {
            search.discover(&state, NO_PARENT);
        }
        search
    }

    fn discover(&mut self, state: &State, parent: u32) -> u32 {
        let key = state.key();
        let index = self.index.find_or_add(key, &self.keys);
        if index as usize == self.keys.len() {
            self.keys.push(key);
            self.parents.push(parent);
        }
        index
    }

    fn run(&mut self) -> Option<Fault> {
        let mut nexts = Nexts::new();
        let mut at = 0;
        while at < self.keys.len() {
            let state = State::of(self.keys[at]);
            nexts.clear();
            if let Err((order, what)) = self.nexts(&state, &mut nexts) {
                return Some(self.tell(at as u32, &order, what));
            }
            let mut can_go_on = false;
            for (_, class, next) in &nexts {
                let index = self.discover(next, at as u32);
                self.transitions += 1;
                can_go_on |= *class == Class::Fair;
                if matches!(class, Class::Fair | Class::Luck) {
                    self.fair.push(index);
                }
            }
            self.fair_from.push(self.fair.len() as u32);
            if !can_go_on && let Err((order, what)) = self.comes_to_rest(&state) {
                return Some(self.tell(at as u32, &order, what));
            }
            at += 1;
        }
        None
    }

    /// Adds everything that can come next; fails with a promise that the planner breaks.
    fn nexts(&self, state: &State, nexts: &mut Nexts) -> Result<(), (Vec<u8>, String)> {
        environment(self.config, state, nexts);
        if state.end == End::Released {
            return Ok(());
        }
        let unread = broken_unread(self.config, state, self.planner);
        if !unread.is_empty() {
            return Err((state.bytes().to_vec(), unread.join("; ")));
        }
        for (number, order) in orders(state).into_iter().enumerate() {
            let observed = observe(self.config, state, &order, Unread::Nothing);
            let plan = (self.planner)(&observed);
            let broken = broken(self.config, state, &order, &observed, &plan);
            if !broken.is_empty() {
                return Err((order, broken.join("; ")));
            }
            for (extent, class) in extents(&plan) {
                let next = carry_out(self.config, state, &order, &plan, extent);
                if next != *state {
                    let turn = Move::Turn {
                        order: number,
                        extent,
                    };
                    nexts.push((turn, class, next));
                }
            }
        }
        Ok(())
    }

    fn comes_to_rest(&mut self, state: &State) -> Result<(), (Vec<u8>, String)> {
        for order in orders(state) {
            let plan = (self.planner)(&observe(self.config, state, &order, Unread::Nothing));
            match rest(self.config, state, &plan) {
                Ok(rest) => *self.rests.entry(rest).or_default() += 1,
                Err(what) => return Err((order, what)),
            }
        }
        Ok(())
    }

    /// Tells how the beginning leads to this state, and what the plan there is.
    fn tell(&self, to: u32, order: &[u8], what: String) -> Fault {
        let path = self.path(to);
        let mut story = format!("{what}\n{}\n\n", self.config);
        for (number, pair) in path.windows(2).enumerate() {
            story.push_str(&self.tell_move(number + 1, pair[0], pair[1]));
        }
        let state = State::of(self.keys[to as usize]);
        let plan = (self.planner)(&observe(self.config, &state, order, Unread::Nothing));
        story.push_str(&format!("then  {}\n", picture(&state, order)));
        story.push_str(&tell_plan(&plan, plan.steps.len()));
        Fault {
            what,
            length: path.len() - 1,
            story,
        }
    }

    fn path(&self, to: u32) -> Vec<u32> {
        let mut path = vec![to];
        while let parent = self.parents[path[path.len() - 1] as usize]
            && parent != NO_PARENT
        {
            path.push(parent);
        }
        path.reverse();
        path
    }

    fn tell_move(&self, number: usize, from: u32, to: u32) -> String {
        let state = State::of(self.keys[from as usize]);
        let mut nexts = Nexts::new();
        let known = self.nexts(&state, &mut nexts);
        assert!(known.is_ok(), "a state on the way was visited already");
        let found = nexts
            .iter()
            .find(|(_, _, next)| next.key() == self.keys[to as usize]);
        let (what, _, _) = found.expect("the move was made before");
        let mut order = state.bytes().to_vec();
        if let Move::Turn { order: number, .. } = what {
            order.clone_from(&orders(&state)[*number]);
        }
        let mut told = format!("{number:4}  {}\n      {what}\n", picture(&state, &order));
        if let Move::Turn { extent, .. } = what {
            let plan = (self.planner)(&observe(self.config, &state, &order, Unread::Nothing));
            let done = match extent {
                Extent::All | Extent::WithoutAzure => plan.steps.len(),
                Extent::First(count) => *count,
            };
            told.push_str(&tell_plan(&plan, done));
        }
        told
    }

    /// Finds a cycle of fair moves: a run that never comes to rest.
    fn cycle(&self) -> Option<Fault> {
        let on_cycle = self.on_a_cycle()?;
        let way = self.way_back(on_cycle);
        let order = State::of(self.keys[on_cycle as usize]).bytes().to_vec();
        let what = format!("{} moves that go round for ever", way.len() - 1);
        let mut fault = self.tell(on_cycle, &order, what);
        fault.story.push_str("\nround and round:\n");
        for (number, pair) in way.windows(2).enumerate() {
            let told = self.tell_move(number + 1, pair[0], pair[1]);
            fault.story.push_str(&told);
        }
        Some(fault)
    }

    fn fair_nexts(&self, of: u32) -> &[u32] {
        let of = of as usize;
        &self.fair[self.fair_from[of] as usize..self.fair_from[of + 1] as usize]
    }

    /// Returns a state that fair moves lead back to, by depth-first search.
    fn on_a_cycle(&self) -> Option<u32> {
        const FRESH: u8 = 0;
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        let mut marks = vec![FRESH; self.keys.len()];
        for root in 0..self.keys.len() as u32 {
            let mut stack = vec![(root, 0)];
            while let Some((at, tried)) = stack.pop() {
                match marks[at as usize] {
                    DONE => continue,
                    _ => marks[at as usize] = OPEN,
                }
                let Some(next) = self.fair_nexts(at).get(tried) else {
                    marks[at as usize] = DONE;
                    continue;
                };
                stack.push((at, tried + 1));
                match marks[*next as usize] {
                    OPEN => return Some(*next),
                    DONE => {}
                    _ => stack.push((*next, 0)),
                }
            }
        }
        None
    }

    /// The shortest way along fair moves from a state back to it.
    fn way_back(&self, home: u32) -> Vec<u32> {
        let mut came_from = BTreeMap::new();
        let mut queue = VecDeque::from([home]);
        while let Some(at) = queue.pop_front() {
            for next in self.fair_nexts(at) {
                if *next == home {
                    let mut way = vec![home, at];
                    while let Some(before) = came_from.get(&way[way.len() - 1]) {
                        way.push(*before);
                    }
                    way.reverse();
                    return way;
                }
                if !came_from.contains_key(next) {
                    came_from.insert(*next, at);
                    queue.push_back(*next);
                }
            }
        }
        vec![home]
    }
}

/// How far a turn may get. Each step is worth doing whatever becomes of the one before.
fn extents(plan: &Plan) -> Vec<(Extent, Class)> {
    let count = plan.steps.len();
    let mut extents = Vec::new();
    if count == 0 {
        return extents;
    }
    extents.push((Extent::All, Class::Fair));
    extents.extend((1..count).map(|done| (Extent::First(done), Class::Crash)));
    let writes = plan.steps.iter().filter(|s| s.action.is_azure_write());
    if (1..count).contains(&writes.count()) {
        extents.push((Extent::WithoutAzure, Class::Crash));
    }
    extents
}

fn tell_plan(plan: &Plan, done: usize) -> String {
    let mut told = String::new();
    for (index, step) in plan.steps.iter().enumerate() {
        let not = if index < done { "" } else { "not done: " };
        told.push_str(&format!("         {not}{step}\n"));
    }
    for wait in &plan.waits {
        told.push_str(&format!("         wait: {}\n", wait.on));
    }
    if plan.steps.is_empty() && plan.waits.is_empty() {
        told.push_str("         nothing to do\n");
    }
    told
}

/// Finds the place of a key in a list of keys; half of it at least is empty.
#[derive(Default)]
struct Index {
    places: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

impl Index {
    /// Returns where the key is in the list; if it is not, the end, where it has to be put.
    fn find_or_add(&mut self, key: u128, keys: &[u128]) -> u32 {
        if self.places.len() <= 2 * keys.len() {
            self.places = vec![EMPTY; (4 * keys.len()).next_power_of_two().max(64)];
            for (place, key) in keys.iter().enumerate() {
                let slot = self.slot(*key, keys);
                self.places[slot] = place as u32;
            }
        }
        let slot = self.slot(key, keys);
        if self.places[slot] == EMPTY {
            self.places[slot] = keys.len() as u32;
        }
        self.places[slot]
    }

    /// Where the key is, or the empty slot where it would be.
    fn slot(&self, key: u128, keys: &[u128]) -> usize {
        let last = self.places.len() - 1;
        let mut slot = mixed(key) as usize & last;
        while self.places[slot] != EMPTY && keys[self.places[slot] as usize] != key {
            slot = (slot + 1) & last;
        }
        slot
    }
}

/// Spreads keys that differ in a few bits over the whole table.
fn mixed(key: u128) -> u64 {
    let halves = [key as u64, (key >> 64) as u64];
    halves.iter().fold(0, |sum: u64, half| {
        let sum = (sum ^ half).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        sum ^ (sum >> 32)
    })
}
