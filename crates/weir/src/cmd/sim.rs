//! `weir sim`: stories drawn from seeds, played and judged.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use weir_sim::coverage::Table;
use weir_sim::shrink;
use weir_sim::story::{Story, Verdict};

/// From how many seeds on a run has to exercise everything.
const SWARM: u64 = 300;

/// How many failing seeds are shrunk: the first few faults are repaired before the rest is read.
const SHRUNK_MAX: usize = 3;

/// Plays stories in a simulated world: users, faults, restarts and time, all drawn from a seed.
#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds, one after the other.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Play this story instead, one line of JSON as a failed run prints it.
    #[arg(long, conflicts_with_all = ["seed", "count"])]
    story: Option<String>,
    /// Play each seed in two processes and compare their traces.
    #[arg(long)]
    twice: bool,
    /// Print everything that happened.
    #[arg(long)]
    trace: bool,
    /// Print each verdict as one line of JSON.
    #[arg(long)]
    json: bool,
    /// Print failed stories as they were drawn, without looking for smaller ones.
    #[arg(long)]
    no_shrink: bool,
}

/// Plays the stories.
pub(crate) fn run(args: &SimArgs) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let stories = stories(args)?;
    let count = stories.len();
    let mut failed = Vec::new();
    let mut table = Table::default();
    for_each_played(&stories, args.trace, |played| {
        report(&mut out, &played, count == 1, args)?;
        if args.twice {
            compare_with_second_process(&played)?;
        }
        table.add(&played.verdict.coverage);
        if !played.verdict.broken.is_empty() {
            failed.push(played);
        }
        Ok(())
    })?;
    if !args.json && count > 1 {
        writeln!(out, "{table}")?;
    }
    if !args.no_shrink && !args.json {
        for played in failed.iter().take(SHRUNK_MAX) {
            show_smallest(&mut out, played)?;
        }
    }
    if !args.json {
        let good = count - failed.len();
        writeln!(out, "{good} of {count} seeds held every promise")?;
    }
    let seeds: Vec<_> = failed.iter().map(|played| played.verdict.seed).collect();
    ensure!(
        seeds.is_empty(),
        "promises were broken under seeds {seeds:?}"
    );
    let missing = table.missing();
    if count as u64 >= SWARM && !missing.is_empty() {
        bail!("never exercised: {}", missing.join("; "));
    }
    Ok(())
}

fn stories(args: &SimArgs) -> Result<Vec<Story>> {
    if let Some(line) = &args.story {
        let story = Story::from_line(line).context("--story is not a story")?;
        return Ok(vec![story]);
    }
    let seeds = args.seed..args.seed.saturating_add(args.count);
    Ok(seeds.map(Story::draw).collect())
}

/// A story that was played.
struct Played {
    story: Story,
    verdict: Verdict,
    lines: Vec<String>,
}

fn play(story: &Story, traced: bool) -> Played {
    let mut lines = Vec::new();
    let verdict = story.play_with(|world| {
        if traced {
            let told = world
                .trace()
                .iter()
                .map(|entry| format!("{}  {}", entry.at, entry.line));
            lines.extend(told);
        }
    });
    Played {
        story: story.clone(),
        verdict,
        lines,
    }
}

/// Plays stories on all cores and hands them over in their order.
fn for_each_played(
    stories: &[Story],
    traced: bool,
    mut hand_over: impl FnMut(Played) -> Result<()>,
) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..cores.min(stories.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(story) = stories.get(at) else { return };
                    if sender.send((at, play(story, traced))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut early, mut due) = (BTreeMap::new(), 0);
        for (at, played) in receiver {
            early.insert(at, played);
            while let Some(played) = early.remove(&due) {
                due += 1;
                hand_over(played)?;
            }
        }
        Ok(())
    })
}

fn report(out: &mut impl Write, played: &Played, alone: bool, args: &SimArgs) -> Result<()> {
    let Played {
        story,
        verdict,
        lines,
    } = played;
    for line in lines {
        writeln!(out, "{line}")?;
    }
    if args.json {
        writeln!(out, "{}", serde_json::to_string(verdict)?)?;
        return Ok(());
    }
    if alone || !verdict.broken.is_empty() {
        write!(out, "{story}")?;
    }
    if verdict.broken.is_empty() {
        if alone {
            writeln!(
                out,
                "held every promise: {} s simulated, {} calls to Azure, {} kills, trace {:016x}",
                verdict.virtual_seconds, verdict.azure_calls, verdict.kills, verdict.fingerprint
            )?;
        }
        return Ok(());
    }
    for broken in &verdict.broken {
        writeln!(out, "  BROKEN  {broken}")?;
    }
    if args.story.is_none() {
        writeln!(out, "  replay: weir sim --seed {} --trace", verdict.seed)?;
    }
    Ok(())
}

/// Prints the smallest story found that breaks the same promise.
fn show_smallest(out: &mut impl Write, played: &Played) -> Result<()> {
    let seed = played.verdict.seed;
    let smallest = shrink::smallest(&played.story, &played.verdict.broken, |story| {
        play(story, false).verdict.broken
    });
    let plays = smallest.plays;
    writeln!(
        out,
        "smallest story found for seed {seed}, in {plays} plays:"
    )?;
    write!(out, "{}", smallest.story)?;
    for broken in &smallest.broken {
        writeln!(out, "  BROKEN  {broken}")?;
    }
    let line = smallest.story.to_line();
    writeln!(out, "  replay: weir sim --trace --story '{line}'")?;
    Ok(())
}

/// Plays a story in a process of its own and compares the two traces.
fn compare_with_second_process(played: &Played) -> Result<()> {
    let (seed, ours) = (played.verdict.seed, played.verdict.fingerprint);
    let program = std::env::current_exe().context("failed to find this program")?;
    let output = Command::new(program)
        .args(["sim", "--json", "--story", &played.story.to_line()])
        .output()
        .context("failed to start a second process")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .last()
        .context("the second process said nothing")?;
    let verdict: serde_json::Value =
        serde_json::from_str(line).context("the second process did not end with a verdict")?;
    let theirs = verdict["fingerprint"]
        .as_u64()
        .context("the verdict has no fingerprint")?;
    ensure!(
        theirs == ours,
        "seed {seed} differs between two processes: {theirs:016x} and {ours:016x}"
    );
    Ok(())
}
