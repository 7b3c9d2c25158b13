//! Tells a story turn by turn, in a fixed order or in one drawn from a seed, and checks each turn.
//!
//! Seeded orders leave turns out and repeat them, since that is where bugs are.

use std::fmt::Write;

use jiff::SignedDuration;
use weir_core::observed::Instance;
use weir_core::plan::{Action, Bounds, WaitingOn};
use weir_core::{Observed, Plan, check, plan};

use super::Toy;

/// How long one round of moves takes.
pub const ROUND: SignedDuration = SignedDuration::from_secs(20);

/// How many rounds a story may take; more means that it is stuck.
const ROUNDS_MAX: u32 = 250;

/// How many lines of a kind are told one by one.
const ALIKE_MAX: usize = 6;

/// What others do, round by round.
pub type Script = fn(&mut Toy, u32);

#[derive(Clone, Copy)]
enum Move {
    Plan,
    Azure,
    Nodes,
    Drains,
}

const MOVES: [Move; 4] = [Move::Plan, Move::Azure, Move::Nodes, Move::Drains];

impl Toy {
    /// Plays a story in a fixed order and returns it as text.
    pub fn tell(mut self, title: &str, shows: &str, script: Script) -> String {
        let pool = &self.pool;
        let kind = if pool.autoscaled { "autoscaled, " } else { "" };
        let mut told = format!(
            "{title}\nshows: {shows}\npool: {kind}{} replicas, surge {}, unavailable {}\n\n",
            self.replicas(),
            pool.max_surge,
            pool.max_unavailable
        );
        self.play(script, |_| MOVES.to_vec());
        told.push_str(&self.log);
        let (made, deleted) = (self.made, self.deleted);
        writeln!(told, "\nend    {made} made, {deleted} deleted").unwrap();
        told
    }

    /// Plays a story in an order drawn from a seed.
    pub fn shuffle(mut self, script: Script, seed: u64) -> String {
        let mut dice = Dice(seed);
        self.play(script, |_| {
            let mut moves = MOVES.to_vec();
            for i in (1..moves.len()).rev() {
                moves.swap(i, dice.below(i as u64 + 1) as usize);
            }
            let mut drawn = Vec::new();
            for next in moves {
                match dice.below(10) {
                    0..3 => {}
                    3..6 => drawn.extend([next, next]),
                    _ => drawn.push(next),
                }
            }
            drawn
        });
        self.log
    }

    /// Plays in a fixed order and returns the pool as it is then.
    pub fn play_out(mut self, script: Script) -> Toy {
        self.play(script, |_| MOVES.to_vec());
        self
    }

    fn play(&mut self, script: Script, mut moves: impl FnMut(u32) -> Vec<Move>) {
        self.start = self.now;
        self.existed = self.asked_for();
        for round in 0..ROUNDS_MAX {
            script(self, round);
            for next in moves(round) {
                match next {
                    Move::Plan => self.turn(),
                    Move::Azure => self.azure_told(),
                    Move::Nodes => self.nodes(),
                    Move::Drains => self.drains(),
                }
                self.check_ceiling();
            }
            self.now += ROUND;
            if round >= self.lasts && self.is_done() {
                return;
            }
        }
        let plan = plan(&self.observe());
        panic!("the story does not end:\n{}\n{plan:#?}", self.log);
    }

    fn is_done(&self) -> bool {
        if self.pool.deleting {
            return self.released;
        }
        let plan = plan(&self.observe());
        let all_current = self.instances.iter().all(|instance| {
            instance.revision.as_ref() == Some(&self.pool.revision)
                && instance.node.as_ref().is_some_and(|node| node.ready)
        });
        plan.is_settled() && all_current && self.instances.len() as u32 == self.replicas()
    }

    fn turn(&mut self) {
        self.note_what_is_owed();
        let observed = self.observe();
        let plan = plan(&observed);
        let broken = check::broken_promises(&observed, &plan);
        assert!(broken.is_empty(), "{broken:#?}\n{}", self.log);
        self.say_plan(&observed, &plan);
        // The controllers note the count of an autoscaled pool before they change it.
        let noted = observed.pool.replicas + self.others();
        self.noted = self.pool.autoscaled.then_some(noted);
        for step in &plan.steps {
            self.apply(&step.action);
        }
    }

    fn say_plan(&mut self, observed: &Observed, plan: &Plan) {
        let bounds = Bounds::of(&observed.pool);
        let serving: Vec<_> = self.serving().collect();
        let wanted = Some(&self.pool.revision);
        let updated = serving.iter().filter(|i| i.revision.as_ref() == wanted);
        let steps = plan.steps.iter().map(|step| {
            let kind = match &step.action {
                Action::AddMachine { .. } | Action::ReleaseMachine { .. } => 1,
                Action::RemoveMachine { .. } => 2,
                _ => 0,
            };
            (kind, step.to_string())
        });
        let waits = plan.waits.iter().map(|wait| {
            let kind = match &wait.on {
                WaitingOn::Joining { .. } => 3,
                WaitingOn::Drain { .. } => 4,
                _ => 0,
            };
            (kind, format!("wait: {wait}"))
        });
        let mut said = String::new();
        say_lines(&mut said, &steps.chain(waits).collect::<Vec<_>>());
        if said == self.said {
            return;
        }
        let summary = format!(
            "{}/{} ready (floor {}), {} updated, {} exist (ceiling {})",
            serving.len(),
            bounds.replicas,
            bounds.floor(),
            updated.count(),
            self.instances.len(),
            bounds.ceiling(),
        );
        self.event("plan", &summary);
        self.log.push_str(if said.is_empty() {
            "         nothing to do\n"
        } else {
            &said
        });
        self.said = said;
    }

    /// Writes down what somebody did.
    pub fn event(&mut self, who: &str, what: &str) {
        let seconds = self.now.duration_since(self.start).as_secs();
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        writeln!(self.log, "{minutes:02}:{seconds:02}  {who:<6} {what}").unwrap();
    }

    pub fn serving(&self) -> impl Iterator<Item = &Instance> {
        self.instances
            .iter()
            .filter(|i| !i.is_leaving() && i.node.as_ref().is_some_and(|node| node.ready))
    }

    fn azure_told(&mut self) {
        let before: Vec<_> = self.instances.iter().map(|i| i.id.clone()).collect();
        self.azure();
        let mut news = Vec::new();
        for instance in self.instances.iter().filter(|i| !before.contains(&i.id)) {
            let revision = instance.revision.clone().unwrap();
            let zone = instance.zone.as_ref();
            let zone = zone
                .map(|zone| format!(", zone {zone}"))
                .unwrap_or_default();
            news.push(format!("+{} ({revision}{zone})", instance.id));
        }
        let gone = before.iter().filter(|id| !self.has(id));
        news.extend(gone.map(|id| format!("-{id}")));
        if !news.is_empty() {
            self.event("azure", &news.join(" "));
        }
    }

    /// R1: never more than the ceiling, unless the ceiling came down; then nothing is added.
    fn check_ceiling(&mut self) {
        let mut pool = self.pool.clone();
        pool.replicas = self.replicas();
        let ceiling = Bounds::of(&pool).ceiling();
        let total = self.asked_for();
        let log = &self.log;
        assert!(
            total <= ceiling.max(self.existed),
            "{total} exist or will, {ceiling} may\n{log}"
        );
        self.existed = total;
    }

    /// How many instances exist or were asked for, those being deleted included.
    pub(super) fn asked_for(&self) -> u32 {
        let live = self.instances.iter().filter(|i| !i.is_being_deleted());
        let capacity = self.scale_set.as_ref().map_or(0, |set| set.capacity);
        let pending = capacity.saturating_sub(live.count() as u32);
        self.instances.len() as u32 + pending
    }
}

/// Writes lines, of many that are alike only the first and the last.
fn say_lines(said: &mut String, lines: &[(u8, String)]) {
    for alike in lines.chunk_by(|one, other| one.0 == other.0 && one.0 != 0) {
        let last = alike.len() - 1;
        for (at, (_, line)) in alike.iter().enumerate() {
            if alike.len() <= ALIKE_MAX || at == 0 || at == last {
                writeln!(said, "         {line}").unwrap();
            } else if at == 1 {
                writeln!(said, "         … and {} more of the kind", last - 1).unwrap();
            }
        }
    }
}

/// Small, seeded, and the same everywhere.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}
