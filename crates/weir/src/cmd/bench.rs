//! `weir bench`: how fast does a pool roll, and at what price?

use std::io::Write;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use weir_sim::bench::{
    Explanation, PlannerFigures, Ran, RolloutFigures, Scenario, explain, planner_time, run,
    scenarios,
};

/// The sizes at which the planner's own time is measured.
const PLANNER_SIZES: [u32; 3] = [10, 100, 1_000];

/// Rolls pools in a simulated world and compares what it took with the least that is possible.
///
/// Times of rollouts are virtual and the same on every machine; the planner's are real.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// Only what has a name that begins so: nN-sS..., or planner.
    #[arg(long)]
    only: Option<String>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, one after the other.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Say where the time of the slots went, and what caused the calls.
    #[arg(long)]
    explain: bool,
    /// Print one line of JSON for each measurement.
    #[arg(long)]
    json: bool,
}

/// One line of output.
#[derive(Serialize)]
#[serde(tag = "bench", rename_all = "kebab-case")]
enum Line<'l> {
    Rollout(&'l RolloutFigures),
    Explanation(&'l Explanation),
    Planner(&'l PlannerFigures),
}

/// Runs the measurements.
pub(crate) fn run_bench(args: &BenchArgs) -> Result<()> {
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.starts_with(only));
    let chosen: Vec<Scenario> = scenarios()
        .into_iter()
        .filter(|scenario| wanted(&scenario.name))
        .collect();
    let planner = wanted("planner");
    ensure!(
        planner || !chosen.is_empty(),
        "nothing has a name that begins so: try --only n10"
    );
    let mut out = std::io::stdout().lock();
    if !args.json && !chosen.is_empty() {
        writeln!(out, "{HEAD}")?;
    }
    let mut failed = Vec::new();
    for scenario in &chosen {
        for seed in args.seed..args.seed.saturating_add(args.seeds) {
            let ran = roll(scenario, seed)?;
            report(&mut out, &ran, args)?;
            let figures = &ran.figures;
            if !figures.converged || figures.above_floor < 0 || figures.below_ceiling < 0 {
                failed.push(format!("{} under seed {seed}", figures.name));
            }
        }
    }
    if planner {
        tell_planner(&mut out, args.json)?;
    }
    ensure!(
        failed.is_empty(),
        "not finished, or beyond floor or ceiling: {}",
        failed.join(", ")
    );
    Ok(())
}

/// Rolls under a clock of its own.
fn roll(scenario: &Scenario, seed: u64) -> Result<Ran> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("failed to start the simulation's clock")?;
    Ok(runtime.block_on(run(scenario, seed)))
}

fn report(out: &mut impl Write, ran: &Ran, args: &BenchArgs) -> Result<()> {
    let explanation = args.explain.then(|| explain(ran));
    if args.json {
        json(out, &Line::Rollout(&ran.figures))?;
        return match &explanation {
            Some(explanation) => json(out, &Line::Explanation(explanation)),
            None => Ok(()),
        };
    }
    row(out, &ran.figures)?;
    match &explanation {
        Some(explanation) => tell_explanation(out, explanation, &ran.figures),
        None => Ok(()),
    }
}

fn json(out: &mut impl Write, line: &Line<'_>) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    out.flush()?;
    Ok(())
}

/// The heads of the columns of [`row`].
const HEAD: &str = "scenario              seed   took s  ideal s  /ideal  /fluid   calls   reads  \
                    writes   polls  objects  idle day  days/s";

fn row(out: &mut impl Write, figures: &RolloutFigures) -> Result<()> {
    let optional = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    writeln!(
        out,
        "{:<20} {:>5} {:>8.0} {:>8} {:>7} {:>7.3} {:>7.2} {:>7.2} {:>7.2} {:>7.2} {:>8.2} {:>9} \
         {:>7.2}",
        figures.name,
        figures.seed,
        figures.makespan_seconds,
        optional(figures.ideal_seconds, 0),
        optional(figures.ratio_ideal, 3),
        figures.ratio_fluid,
        figures.calls,
        figures.reads,
        figures.writes,
        figures.polls,
        figures.object_writes,
        figures.idle_day_writes,
        figures.days_per_second,
    )?;
    if figures.made_beyond != 0 || figures.deleted_beyond != 0 {
        writeln!(
            out,
            "  beyond N: {} made, {} deleted",
            figures.made_beyond, figures.deleted_beyond
        )?;
    }
    if figures.throttled + figures.refused > 0 {
        writeln!(
            out,
            "  refused by Azure: {} for their number, {} otherwise",
            figures.throttled, figures.refused
        )?;
    }
    out.flush()?;
    Ok(())
}

fn tell_explanation(
    out: &mut impl Write,
    explanation: &Explanation,
    figures: &RolloutFigures,
) -> Result<()> {
    writeln!(
        out,
        "  times: create {:.1} s, drain {:.1} s, delete {:.1} s; settled {:.0} s, {} of ideal",
        figures.create_mean_seconds,
        figures.drain_mean_seconds,
        figures.delete_mean_seconds,
        figures.settled_seconds,
        figures
            .ratio_ideal_settled
            .map_or(0.0, |ratio| (ratio * 1e3).round() / 1e3),
    )?;
    let rows = [
        ("slot time", explanation.slot_seconds, ""),
        ("busy", explanation.busy, ""),
        (
            "before first use",
            explanation.before_first_use,
            "before_first_use",
        ),
        (
            "gone, not listed yet",
            explanation.gone_unseen,
            "gone_unseen",
        ),
        (
            "listed, not written yet",
            explanation.gone_seen,
            "gone_seen",
        ),
        (
            "serving to asked",
            explanation.serving_to_asked,
            "serving_to_asked",
        ),
        (
            "drained to accepted",
            explanation.drained_to_accepted,
            "drained_to_accepted",
        ),
        ("at the end", explanation.at_the_end, ""),
        ("at the end, ideal", explanation.ideal_at_the_end, ""),
    ];
    writeln!(
        out,
        "  seconds of slots per replaced instance (median, p90, most of a gap):"
    )?;
    for (name, seconds, gap) in rows {
        write!(out, "    {name:<24} {seconds:>8.2}")?;
        if let Some(gap) = explanation.gaps.get(gap) {
            write!(
                out,
                "   ({:.1}, {:.1}, {:.1})",
                gap.median, gap.p90, gap.most
            )?;
        }
        writeln!(out)?;
    }
    writeln!(
        out,
        "  calls per replaced instance: {:.2?}",
        figures.calls_by_kind
    )?;
    writeln!(
        out,
        "  object writes per replaced instance: {:.2?}",
        figures.object_writes_by_kind
    )?;
    writeln!(
        out,
        "  turns with calls ({} without):",
        explanation.silent_turns
    )?;
    for turns in &explanation.turns {
        writeln!(
            out,
            "    {:>5} calls in {:>4} turns  {:<40} {}",
            turns.calls, turns.count, turns.because, turns.asked
        )?;
    }
    writeln!(out)?;
    Ok(())
}

fn tell_planner(out: &mut impl Write, as_json: bool) -> Result<()> {
    for replicas in PLANNER_SIZES {
        let figures = planner_time(replicas);
        if as_json {
            json(out, &Line::Planner(&figures))?;
        } else {
            writeln!(
                out,
                "planner of {:>4}: {:>9.1} us a plan of {} steps, {:.0} ns an instance",
                figures.replicas, figures.median_micros, figures.steps, figures.nanos_per_instance
            )?;
        }
    }
    Ok(())
}
