//! `weir controller`: what does a controller need from its surroundings, and when does it end?

mod azure;

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{ArgAction, Args};
use weir_controllers::metrics::Metrics;
use weir_controllers::runtime::{self, ElectionOptions};

use super::cluster;
use crate::{http, signals};

/// Name of the Lease. CAPZ's differs, so that both may run side by side, each for its own pools.
const LEASE: &str = "weir-controller-leader";

/// How long the API server may take to answer the first question.
///
/// One that is up answers within a second; an API server that has just started may need ten.
const FIRST_ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// Where Kubernetes tells a pod its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Rolls AzureMachinePools: makes their scale sets in Azure and replaces instances within the
/// budget of each pool, drained first.
#[derive(Args, Debug)]
pub(crate) struct ControllerArgs {
    /// Access to the management cluster; without it the usual places: KUBECONFIG, the file in the
    /// home directory, the service account of the pod.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Only pools of this namespace; empty is all.
    #[arg(long, value_name = "NAMESPACE", default_value = "")]
    namespace: String,
    /// Only objects with this value of the label cluster.x-k8s.io/watch-filter.
    #[arg(long, value_name = "VALUE", default_value = "")]
    watch_filter: String,
    /// Work only while holding a Lease, so that several copies may run.
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true"
    )]
    leader_elect: bool,
    /// Namespace of the Lease; without it that of the pod, or else default.
    #[arg(long, value_name = "NAMESPACE")]
    leader_election_namespace: Option<String>,
    /// Address for /healthz and /readyz.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9440",
          value_parser = http::parse_address)]
    health_addr: SocketAddr,
    /// Address for /metrics.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080",
          value_parser = http::parse_address)]
    metrics_addr: SocketAddr,
    #[command(flatten)]
    azure: azure::AzureArgs,
}

/// Runs until asked to end.
///
/// # Errors
/// It cannot begin, or has lost its Lease.
pub(crate) fn run(args: &ControllerArgs) -> anyhow::Result<()> {
    super::block_on(control(args))
}

async fn control(args: &ControllerArgs) -> anyhow::Result<()> {
    let end = signals::end()?;
    let metrics = Metrics::default();
    let ready = Arc::new(AtomicBool::new(false));
    let azure = azure::access(&args.azure, &metrics)?;
    let client = cluster::connect(args.kubeconfig.as_deref()).await?;
    let health = http::listen(args.health_addr, "--health-addr").await?;
    let scrapes = http::listen(args.metrics_addr, "--metrics-addr").await?;
    let options = runtime::Options {
        client,
        azure,
        namespace: non_empty(&args.namespace),
        watch_filter: non_empty(&args.watch_filter),
        election: args.leader_elect.then(|| election(args)),
        metrics: metrics.clone(),
        ready: ready.clone(),
    };
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting");
    let work = async {
        cluster::first_answer(&options.client, FIRST_ANSWER_LIMIT).await?;
        runtime::run(options).await.map_err(anyhow::Error::from)
    };
    tokio::select! {
        biased;
        // What is under way in Azure goes on there, and the next copy looks at it afresh.
        signal = end => {
            tracing::info!(signal, "ending");
            Ok(())
        }
        ended = work => ended,
        () = http::serve_health(health, ready) => Ok(()),
        () = http::serve_metrics(scrapes, metrics) => Ok(()),
    }
}

fn election(args: &ControllerArgs) -> ElectionOptions {
    let of_pod = || {
        fs::read_to_string(NAMESPACE_FILE)
            .ok()
            .and_then(|text| non_empty(&text))
    };
    let given = args
        .leader_election_namespace
        .as_deref()
        .and_then(non_empty);
    ElectionOptions {
        namespace: given
            .or_else(of_pod)
            .unwrap_or_else(|| "default".to_owned()),
        name: LEASE.to_owned(),
        identity: identity(),
    }
}

/// A name that no other copy has, be it on the same machine or with the same process id.
fn identity() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = non_empty(&host).unwrap_or_else(|| "weir".to_owned());
    // The keys of the standard library's hashes come from the operating system's randomness.
    let random = std::hash::RandomState::new().build_hasher().finish();
    format!("{host}_{}_{random:016x}", std::process::id())
}

fn non_empty(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Call {
        #[command(flatten)]
        args: ControllerArgs,
    }

    #[test]
    fn leader_election_is_a_flag_that_may_have_a_value() {
        let rows: [(&[&str], bool); 4] = [
            (&[], false),
            (&["--leader-elect"], true),
            (&["--leader-elect=true"], true),
            (&["--leader-elect=false"], false),
        ];
        for (flags, expected) in rows {
            let call = Call::try_parse_from([&["weir"], flags].concat()).unwrap();
            assert_eq!(call.args.leader_elect, expected, "{flags:?}");
        }
    }

    #[test]
    fn two_copies_have_different_identities() {
        assert_ne!(identity(), identity());
    }
}
