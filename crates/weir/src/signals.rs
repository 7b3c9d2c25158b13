//! When does whoever started us want us to end?

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

/// Returns a future that waits for SIGTERM or SIGINT and tells which came.
///
/// Both are caught from this call on, not only once the future is waited for.
///
/// # Errors
/// The operating system lets us catch none.
pub(crate) fn end() -> anyhow::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate()).context("failed to await SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to await SIGINT")?;
    Ok(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}
