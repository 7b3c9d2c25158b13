//! `weir azure-sim`: a simulated Azure that real clients can talk to.

use clap::Args;

/// Serves a simulated Azure over HTTPS.
#[derive(Args, Debug)]
pub(crate) struct AzureSimArgs {}

/// Serves until asked to end.
///
/// # Errors
/// It cannot listen.
pub(crate) fn run(_args: &AzureSimArgs) -> anyhow::Result<()> {
    anyhow::bail!("not there yet")
}
