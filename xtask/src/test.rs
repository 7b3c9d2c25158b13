//! Does everything hold, in the order in which CI asks?
//!
//! One profile, release, serves every step: dependencies compile once. The control plane's servers
//! compile beside the Rust steps, because each side leaves a core idle at times.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::{crds, paths, testbed, tidy};

/// How much to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Everything,
    /// All but what needs a real control plane, and so Go.
    WithoutEndToEnd,
}

/// Seeds that every run simulates; under a minute of the sum of all steps.
const SIMULATED_SEED_COUNT: &str = "300";

/// Seeds whose traces are compared between two processes; faults of this kind show at once.
const COMPARED_SEED_COUNT: &str = "4";

/// Runs every step, even after one failed, and prints how each went.
///
/// # Errors
/// A step failed.
pub(crate) fn run(extent: Extent) -> anyhow::Result<()> {
    let testbed = (extent == Extent::Everything).then(|| std::thread::spawn(testbed::build));
    let mut report = Report::default();

    report.step("fmt", || cargo(&["fmt", "--all", "--check"]));
    report.step("tidy", tidy::run);
    report.step("crds", || crds::run(crds::Mode::Check));
    report.step("clippy", || {
        let what = ["clippy", "--release", "--workspace", "--all-targets"];
        cargo(&[&what[..], &["--", "-D", "warnings"]].concat())
    });
    report.step("build", || cargo(&["build", "--release", "--bin", "weir"]));
    report.step("test", || {
        cargo(&["test", "--release", "--workspace", "--exclude", "weir-e2e"])
    });
    report.step("sim", || {
        let mut weir = Command::new(weir()?);
        weir.args(["sim", "--seed", "0", "--count", SIMULATED_SEED_COUNT]);
        run_command(&mut weir)
    });
    report.step("twice", || {
        let mut weir = Command::new(weir()?);
        weir.args([
            "sim",
            "--seed",
            "0",
            "--count",
            COMPARED_SEED_COUNT,
            "--twice",
        ]);
        run_command(&mut weir)
    });
    if let Some(testbed) = testbed {
        report.step("testbed", || match testbed.join() {
            Ok(built) => built.map(|_| ()),
            Err(_) => bail!("the build of the control plane panicked"),
        });
        report.step("e2e", end_to_end);
    }
    report.finish()
}

fn end_to_end() -> anyhow::Result<()> {
    let mut tests = Command::new("cargo");
    tests
        .args([
            "test",
            "--release",
            "-p",
            "weir-e2e",
            "--",
            "--test-threads=1",
        ])
        .env("WEIR_TESTBED", testbed::build()?)
        .env("WEIR_BINARY", weir()?);
    run_command(&mut tests)
}

/// Searches every state of small pools, and prints a line for each pool.
///
/// # Errors
/// A promise is broken, or the search cannot be run.
pub(crate) fn exhaustive() -> anyhow::Result<()> {
    let what = [
        "test",
        "--release",
        "-p",
        "weir-core",
        "--test",
        "exhaustive",
    ];
    let mut search = Command::new("cargo");
    search.args(what).args(["--", "--nocapture"]);
    run_command(search.env("WEIR_EXHAUSTIVE", "full"))
}

/// Returns where the built program lies.
fn weir() -> anyhow::Result<PathBuf> {
    Ok(tidy::metadata()?.target_directory.join("release/weir"))
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    run_command(Command::new("cargo").args(arguments))
}

fn run_command(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .current_dir(paths::repository())
        .status()
        .with_context(|| format!("failed to run {name}"))?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

/// How the steps went so far.
#[derive(Default)]
struct Report {
    steps: Vec<(&'static str, Duration, Result<(), String>)>,
}

impl Report {
    fn step(&mut self, name: &'static str, run: impl FnOnce() -> anyhow::Result<()>) {
        println!("=== {name}");
        let started = Instant::now();
        let outcome = run().map_err(|error| format!("{error:#}"));
        let took = started.elapsed();
        println!("{}", line(name, took, &outcome));
        self.steps.push((name, took, outcome));
    }

    fn finish(self) -> anyhow::Result<()> {
        println!("=== summary");
        for (name, took, outcome) in &self.steps {
            println!("{}", line(name, *took, outcome));
        }
        println!("{}", self.sum());
        let failed: Vec<&str> = self.failed().collect();
        ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
        Ok(())
    }

    fn failed(&self) -> impl Iterator<Item = &'static str> {
        self.steps
            .iter()
            .filter(|(_, _, outcome)| outcome.is_err())
            .map(|(name, _, _)| *name)
    }

    fn sum(&self) -> String {
        let failed_count = self.failed().count();
        format!(
            "{} passed, {failed_count} failed",
            self.steps.len() - failed_count
        )
    }
}

fn line(name: &str, took: Duration, outcome: &Result<(), String>) -> String {
    match outcome {
        Ok(()) => format!("ok     {name:8} {:7.1} s", took.as_secs_f64()),
        Err(error) => format!("FAILED {name:8} {:7.1} s  {error}", took.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_counted_and_does_not_stop_the_next() {
        let mut report = Report::default();
        report.step("one", || Ok(()));
        report.step("two", || bail!("broken"));
        report.step("three", || Ok(()));
        assert_eq!(report.sum(), "2 passed, 1 failed");
        assert_eq!(report.finish().unwrap_err().to_string(), "failed: two");
    }
}
