//! `weir`: which command is meant, and what does the shell learn of its end?
//!
//! Each command lies in a file of its own below `cmd`. Whatever goes wrong is one line on stderr:
//! what was tried, why it failed, and what to do. Status 1 is a failure, 2 a mistake in the call.

mod cmd;
mod http;
mod log;
mod signals;
mod tui;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use cmd::azure_sim::AzureSimArgs;
use cmd::bench::BenchArgs;
use cmd::controller::ControllerArgs;
use cmd::demo::DemoArgs;
use cmd::sim::SimArgs;
use log::LogFormat;

/// A Cluster API infrastructure provider for Azure machine pools.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// How log lines look; text on a terminal and JSON elsewhere unless given. RUST_LOG filters
    /// them.
    #[arg(long, global = true, value_enum)]
    log_format: Option<LogFormat>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Look after the machine pools of a management cluster.
    Controller(Box<ControllerArgs>),
    /// Serve a simulated Azure over HTTPS.
    AzureSim(Box<AzureSimArgs>),
    /// Roll a pool before your eyes, in memory.
    Demo(Box<DemoArgs>),
    /// Play stories drawn from seeds in a simulated world, and judge them.
    Sim(Box<SimArgs>),
    /// Measure rollouts against the least that is possible.
    Bench(Box<BenchArgs>),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to be told when stderr is closed.
            let _ = writeln!(std::io::stderr(), "error: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    // Named because rustls has no default of its own when it is built with several. It is refused
    // only if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match &cli.command {
        Command::Controller(args) => {
            log::start(cli.log_format)?;
            cmd::controller::run(args)
        }
        Command::AzureSim(args) => {
            log::start(cli.log_format)?;
            cmd::azure_sim::run(args)
        }
        // Their screen is what they print: reconcilers' log lines would spoil it.
        Command::Demo(args) => cmd::demo::run(args),
        Command::Sim(args) => cmd::sim::run(args),
        Command::Bench(args) => cmd::bench::run_bench(args),
    }
}

/// Joins an error and its causes, without those that the words before them repeat already.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.ends_with(&cause) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&cause);
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_error_is_one_line_that_says_nothing_twice() {
        let repeated: anyhow::Result<()> = Err(anyhow!("refused\n(os error 111)"))
            .context("failed to connect: refused\n(os error 111)")
            .context("failed to start");
        assert_eq!(
            one_line(&repeated.unwrap_err()),
            "failed to start: failed to connect: refused (os error 111)"
        );
    }
}
