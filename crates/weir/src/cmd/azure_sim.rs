//! `weir azure-sim`: how does a simulated Azure come to serve real clients, and nodes to follow its
//! machines?
//!
//! Azure itself is `weir_world`'s. Here are the command line, the real clock, and in `nodes.rs`
//! what its machines do in a workload cluster.

mod nodes;
mod options;

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use weir_world::azure::Azure;
use weir_world::serve_azure::{self, SharedAzure, SimClock};

use super::cluster;
use crate::{http, signals};
use nodes::{NodeOptions, Nodes};
use options::{OptionArgs, seconds};

/// How many events about machines may wait for the cluster. Beyond it, simulated time waits too.
const EVENTS_WAITING_MAX: usize = 1024;

/// Serves a simulated Azure over HTTPS, for controllers, az and SDKs. With a kubeconfig, its
/// machines join that cluster as nodes. GET /sim/report tells what it was asked.
#[derive(Args, Debug)]
pub(crate) struct AzureSimArgs {
    /// Address to listen on; its certificate is for localhost, 127.0.0.1 and ::1.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18443",
          value_parser = http::parse_address)]
    listen: SocketAddr,
    /// File for the certificate authority that clients have to trust; it is written anew.
    #[arg(long, value_name = "PATH", default_value = "azure-sim-ca.pem")]
    ca_file: PathBuf,
    /// Access to the workload cluster that machines join; without it they join none.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Time from a machine's boot to its Node.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    join_seconds: f64,
    /// Time from a machine's end to that of its Node.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    leave_seconds: f64,
    /// Version of the kubelet where the image names none.
    #[arg(long, value_name = "VERSION", default_value = "v1.34.0")]
    kubelet_version: String,
    #[command(flatten)]
    options: OptionArgs,
}

/// Serves until asked to end.
///
/// # Errors
/// It cannot listen, write its file or use the kubeconfig.
pub(crate) fn run(args: &AzureSimArgs) -> anyhow::Result<()> {
    super::block_on(simulate(args))
}

async fn simulate(args: &AzureSimArgs) -> anyhow::Result<()> {
    let end = signals::end()?;
    let client = match &args.kubeconfig {
        Some(path) => Some(cluster::connect(Some(path)).await?),
        None => None,
    };
    let ca_file = args.ca_file.display();
    // Tried first, so that what fails after it is known to be the address.
    File::options()
        .create(true)
        .append(true)
        .open(&args.ca_file)
        .with_context(|| format!("failed to write {ca_file}; choose another with --ca-file"))?;
    let clock = clock();
    let azure = Azure::new(args.options.azure(), args.options.seed, clock());
    let azure: SharedAzure = Arc::new(Mutex::new(azure));
    let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
    let serving =
        serve_azure::serve(args.listen, &args.ca_file, azure.clone(), clock, sender).await;
    let serving = serving.with_context(|| {
        format!(
            "failed to listen on {}; choose another with --listen",
            args.listen
        )
    })?;
    super::say(&format!(
        "listening on https://{}, CA in {ca_file}",
        serving.address()
    ))?;
    let following = async {
        match client {
            Some(client) => Nodes::new(client, node_options(args)).follow(events).await,
            None => drop(events),
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        signal = end => tracing::info!(signal, "ending"),
        () = following => {}
    }
    serving.stop().await;
    let azure = azure.lock().unwrap_or_else(PoisonError::into_inner);
    let report = serde_json::to_string(azure.report()).context("failed to write the report")?;
    tracing::info!(report, "what was asked");
    Ok(())
}

fn node_options(args: &AzureSimArgs) -> NodeOptions {
    NodeOptions {
        join_after: Duration::from_secs_f64(args.join_seconds),
        leave_after: Duration::from_secs_f64(args.leave_seconds),
        kubelet_version: args.kubelet_version.clone(),
        location: args.options.location.clone(),
    }
}

/// Tells the time of day, and never runs backwards when somebody sets the machine's clock.
fn clock() -> SimClock {
    let (start, began) = (Timestamp::now(), Instant::now());
    Arc::new(move || {
        let passed = SignedDuration::try_from(began.elapsed()).unwrap_or(SignedDuration::MAX);
        start.checked_add(passed).unwrap_or(Timestamp::MAX)
    })
}
