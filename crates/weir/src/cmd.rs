//! The commands, one file each, and what several of them need.

pub(crate) mod azure_sim;
pub(crate) mod bench;
mod cluster;
pub(crate) mod controller;
pub(crate) mod demo;
pub(crate) mod sim;

use std::io::Write as _;

use anyhow::Context as _;

/// Runs a command that talks to the network to its end.
fn block_on(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start threads")?;
    let ended = tokio.block_on(command);
    // A name lookup that hangs must not hold up the end.
    tokio.shutdown_background();
    ended
}

/// Prints one line for whoever started the command, at once.
fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("failed to write to stdout")
}
