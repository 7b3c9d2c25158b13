//! The project's own build tasks: how is the repository checked, and what is generated in it?
//!
//! `test` is the whole of CI. Each other task is one step of it that is useful alone.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod crds;
mod paths;
mod test;
mod testbed;
mod tidy;

#[derive(Parser)]
#[command(name = "xtask", about = "Weir's own build tasks", version)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check that CI runs, in CI's order
    Test {
        /// Leave out the end-to-end suite and the control plane that it needs
        #[arg(long)]
        no_e2e: bool,
    },
    /// Check the edges between crates, the module trees and the style of the sources
    Tidy,
    /// Write the CustomResourceDefinitions to deploy/crds
    Crds {
        /// Write nothing; fail if a file differs from what would be written
        #[arg(long)]
        check: bool,
    },
    /// Search every state of small pools: the long search, of which `test` runs a part
    Exhaustive,
    /// Build the real control plane of the end-to-end suite and print where it lies
    Testbed,
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Test { no_e2e } => test::run(if no_e2e {
            test::Extent::WithoutEndToEnd
        } else {
            test::Extent::Everything
        }),
        Task::Tidy => tidy::run(),
        Task::Crds { check } => crds::run(if check {
            crds::Mode::Check
        } else {
            crds::Mode::Write
        }),
        Task::Exhaustive => test::exhaustive(),
        Task::Testbed => {
            println!("{}", testbed::build()?.display());
            Ok(())
        }
    }
}
