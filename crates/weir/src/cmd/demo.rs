//! `weir demo`: a pool rolls before your eyes, in memory.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use jiff::SignedDuration;
use weir_sim::rollout::{Fault, Plan, Rollout, Summary};
use weir_sim::scene::PoolSpec;

use crate::tui::Screen;

/// How often the picture changes.
const FRAME: Duration = Duration::from_millis(50);

/// Real reconcilers and a simulated Azure and cluster in one process: the Kubernetes version of a
/// pool is changed, and its nodes are replaced within the budget you give.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// How many instances the pool has.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    replicas: u32,
    /// How many more may exist while it rolls: a number, or a percentage such as 30%.
    #[arg(long, default_value = "3", value_parser = limit)]
    max_surge: String,
    /// How many fewer may be available: a number, or a percentage.
    #[arg(long, default_value = "0", value_parser = limit)]
    max_unavailable: String,
    /// Where the times of the simulated world are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulated seconds in a real one.
    #[arg(long, default_value_t = 90.0, value_parser = speed)]
    speed: f64,
    /// What goes wrong on the way.
    #[arg(long, value_enum)]
    fault: Option<FaultName>,
    /// Print the summary as one line of JSON at the end, and nothing else.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FaultName {
    /// A disruption budget allows nothing for ten minutes.
    PdbStuck,
    /// Azure answers "too many requests" now and then.
    AzureThrottle,
    /// Machines of the new version never join, until the version is corrected.
    BadImage,
    /// Azure takes an instance away in mid-roll.
    InstanceVanishes,
}

fn limit(text: &str) -> Result<String, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.parse::<u32>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("give a number such as 3, or a percentage such as 30%".to_owned()),
    }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed > 0.0 && speed.is_finite() => Ok(speed),
        _ => Err("give a number above 0, such as 60".to_owned()),
    }
}

/// Runs the demo.
pub(crate) fn run(args: &DemoArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("failed to start the simulation's clock")?;
    let mut pool = PoolSpec::new("workers", args.replicas);
    pool.max_surge.clone_from(&args.max_surge);
    pool.max_unavailable.clone_from(&args.max_unavailable);
    let fault = args.fault.map(|fault| match fault {
        FaultName::PdbStuck => Fault::PdbStuck,
        FaultName::AzureThrottle => Fault::AzureThrottle,
        FaultName::BadImage => Fault::BadImage,
        FaultName::InstanceVanishes => Fault::InstanceVanishes,
    });
    let mut rollout = runtime.block_on(Rollout::begin(Plan {
        pool,
        seed: args.seed,
        fault,
    }));
    let mut out = std::io::stdout().lock();
    if args.json {
        while !rollout.is_over() {
            runtime.block_on(rollout.advance(SignedDuration::from_secs(1)));
        }
        let summary = rollout.summary();
        writeln!(out, "{}", serde_json::to_string(&summary)?)?;
        return verdict(&summary);
    }
    let mut screen = if out.is_terminal() {
        Screen::live()?
    } else {
        Screen::lines()
    };
    let mut shown = Instant::now();
    while !rollout.is_over() {
        let span = SignedDuration::from_secs_f64(FRAME.as_secs_f64() * args.speed);
        runtime.block_on(rollout.advance(span));
        if let Some(view) = rollout.view() {
            screen.show(&mut out, view, rollout.elapsed())?;
        }
        if screen.was_left()? {
            break;
        }
        std::thread::sleep(FRAME.saturating_sub(shown.elapsed()));
        shown = Instant::now();
    }
    if let Some(view) = rollout.view() {
        screen.show(&mut out, view, rollout.elapsed())?;
    }
    screen.leave()?;
    let summary = rollout.summary();
    tell(&mut out, &summary)?;
    verdict(&summary)
}

fn verdict(summary: &Summary) -> Result<()> {
    anyhow::ensure!(
        summary.broken_promises.is_empty(),
        "a promise was broken, please report seed {}: {}",
        summary.seed,
        summary.broken_promises.join("; ")
    );
    Ok(())
}

fn tell(out: &mut impl Write, summary: &Summary) -> Result<()> {
    let minutes = |seconds: i64| format!("{}:{:02}", seconds / 60, seconds % 60);
    let ratio = summary.makespan_seconds as f64 / summary.bound_seconds.max(1) as f64;
    let made = summary.instances_created.max(1);
    writeln!(out)?;
    if summary.converged {
        writeln!(
            out,
            "Rolled in {} (simulated).",
            minutes(summary.makespan_seconds)
        )?;
    } else {
        writeln!(
            out,
            "Not finished after {} (simulated).",
            minutes(summary.makespan_seconds)
        )?;
    }
    writeln!(
        out,
        "  least possible with these times  {} ({ratio:.2} of it)",
        minutes(summary.bound_seconds)
    )?;
    writeln!(
        out,
        "  available                        never below {}, floor {}",
        summary.min_available, summary.floor
    )?;
    writeln!(
        out,
        "  existing                         never above {}, ceiling {}",
        summary.max_total, summary.ceiling
    )?;
    writeln!(
        out,
        "  instances                        {} made, {} deleted, {} of them undrained",
        summary.instances_created, summary.instances_deleted, summary.undrained_deletes
    )?;
    writeln!(
        out,
        "  calls to Azure                   {}, {:.1} for each replaced instance",
        summary.azure_calls,
        summary.azure_calls as f64 / made as f64
    )?;
    Ok(())
}
