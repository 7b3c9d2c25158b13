//! How do log lines look, and which are shown?

use std::io::IsTerminal as _;

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// Shown unless `RUST_LOG` says otherwise: what Weir did, and trouble only of what it stands on.
///
/// kube's client reports each failed request in words that do not tell; whoever made the request
/// logs it with its causes.
const DEFAULT_FILTER: &str =
    "info,rustls=warn,hyper=warn,kube=warn,kube_client::client::builder=off";

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Starts to write log lines to stderr.
///
/// # Errors
/// `RUST_LOG` is no filter.
pub(crate) fn start(format: Option<LogFormat>) -> anyhow::Result<()> {
    let wanted = std::env::var("RUST_LOG").unwrap_or_default();
    let directives = if wanted.is_empty() {
        DEFAULT_FILTER
    } else {
        &wanted
    };
    let filter = EnvFilter::builder()
        .parse(directives)
        .context("RUST_LOG is no log filter such as info,kube=warn")?;
    let on_terminal = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(on_terminal);
    let format = format.unwrap_or(if on_terminal {
        LogFormat::Text
    } else {
        LogFormat::Json
    });
    let started = match format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => lines.with_target(false).try_init(),
    };
    started.map_err(|error| anyhow!("failed to start logging: {error}"))
}
