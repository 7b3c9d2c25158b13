//! `weir sim`: stories drawn from seeds, played and judged.

use std::io::Write;
use std::ops::Range;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use weir_sim::story::{Story, Verdict};

/// Plays stories in a simulated world: users, faults, restarts and time, all drawn from a seed.
#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds, one after the other.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Play each seed in two processes and compare their traces.
    #[arg(long)]
    twice: bool,
    /// Print everything that happened.
    #[arg(long)]
    trace: bool,
    /// Print each verdict as one line of JSON.
    #[arg(long)]
    json: bool,
}

/// Plays the stories.
pub(crate) fn run(args: &SimArgs) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut failed = Vec::new();
    let seeds = args.seed..args.seed.saturating_add(args.count);
    for_each_played(seeds, args.trace, |played| {
        let Played {
            story,
            verdict,
            lines,
        } = played;
        let seed = verdict.seed;
        if args.count == 1 && !args.json {
            write!(out, "{story}")?;
        }
        for line in &lines {
            writeln!(out, "{line}")?;
        }
        report(&mut out, &story, &verdict, args)?;
        if args.twice {
            let other = fingerprint_elsewhere(seed)?;
            ensure!(
                other == verdict.fingerprint,
                "seed {seed} differs between two processes: {other:016x} and {:016x}",
                verdict.fingerprint
            );
        }
        if !verdict.broken.is_empty() {
            failed.push(seed);
        }
        Ok(())
    })?;
    if !args.json {
        let good = args.count - failed.len() as u64;
        writeln!(out, "{good} of {} seeds held every promise", args.count)?;
    }
    ensure!(
        failed.is_empty(),
        "promises were broken under seeds {failed:?}"
    );
    Ok(())
}

/// A story that was played.
struct Played {
    story: Story,
    verdict: Verdict,
    lines: Vec<String>,
}

fn play(seed: u64, traced: bool) -> Played {
    let story = Story::draw(seed);
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
        story,
        verdict,
        lines,
    }
}

/// Plays seeds on all cores and hands them over in their order.
fn for_each_played(
    seeds: Range<u64>,
    traced: bool,
    mut hand_over: impl FnMut(Played) -> Result<()>,
) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut left = seeds;
    loop {
        let batch: Vec<u64> = left.by_ref().take(cores).collect();
        if batch.is_empty() {
            return Ok(());
        }
        let played: Vec<Played> = std::thread::scope(|scope| {
            let players: Vec<_> = batch
                .iter()
                .map(|seed| scope.spawn(|| play(*seed, traced)))
                .collect();
            players
                .into_iter()
                .map(|p| p.join().expect("a run reports its panics"))
                .collect()
        });
        for one in played {
            hand_over(one)?;
        }
    }
}

fn report(out: &mut impl Write, story: &Story, verdict: &Verdict, args: &SimArgs) -> Result<()> {
    if args.json {
        writeln!(out, "{}", serde_json::to_string(verdict)?)?;
        return Ok(());
    }
    if verdict.broken.is_empty() {
        if args.count == 1 {
            writeln!(
                out,
                "held every promise: {} s simulated, {} calls to Azure, {} kills, trace {:016x}",
                verdict.virtual_seconds, verdict.azure_calls, verdict.kills, verdict.fingerprint
            )?;
        }
        return Ok(());
    }
    if args.count > 1 {
        write!(out, "{story}")?;
    }
    for broken in &verdict.broken {
        writeln!(out, "  BROKEN  {broken}")?;
    }
    writeln!(out, "  replay: weir sim --seed {} --trace", verdict.seed)?;
    Ok(())
}

/// Plays a seed in a process of its own and returns the hash of its trace.
fn fingerprint_elsewhere(seed: u64) -> Result<u64> {
    let program = std::env::current_exe().context("failed to find this program")?;
    let output = Command::new(program)
        .args(["sim", "--json", "--seed", &seed.to_string()])
        .output()
        .context("failed to start a second process")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .last()
        .context("the second process said nothing")?;
    let verdict: serde_json::Value =
        serde_json::from_str(line).context("the second process did not end with a verdict")?;
    verdict["fingerprint"]
        .as_u64()
        .context("the verdict has no fingerprint")
}
