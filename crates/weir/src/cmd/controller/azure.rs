//! Which Azure is meant, and who counts the calls to it?

use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use weir_azure::{Call, Endpoint, Meter, Outcome};
use weir_controllers::access::AzureAccess;
use weir_controllers::metrics::{CallLabels, Metrics};

/// The clouds whose token authority is known.
const CLOUDS: [&str; 3] = [
    "AzurePublicCloud",
    "AzureUSGovernmentCloud",
    "AzureChinaCloud",
];

#[derive(Args, Debug)]
pub(super) struct AzureArgs {
    /// Base URL of Azure Resource Manager; without it the cloud that each AzureCluster names.
    #[arg(long, value_name = "URL", env = "AZURE_RESOURCE_MANAGER_ENDPOINT")]
    azure_endpoint: Option<String>,
    /// Base URL of the token authority that belongs to --azure-endpoint. Alone it decides nothing:
    /// the webhook of workload identity sets the variable in every pod.
    #[arg(long, value_name = "URL", env = "AZURE_AUTHORITY_HOST")]
    azure_authority: Option<String>,
    /// Subscription of AzureClusters that name none.
    #[arg(long, value_name = "ID", env = "AZURE_SUBSCRIPTION_ID")]
    subscription: Option<String>,
}

/// Returns the way to Azure; nothing is asked of it yet.
///
/// # Errors
/// An address cannot be used, or no certificate authority is trusted.
pub(super) fn access(args: &AzureArgs, metrics: &Metrics) -> anyhow::Result<AzureAccess> {
    let endpoint = endpoint(args)?;
    let wire = weir_azure::http::connect().context("failed to prepare for Azure")?;
    let subscription = given(args.subscription.as_deref()).map(str::to_owned);
    Ok(AzureAccess::by_identity(
        wire,
        endpoint,
        subscription,
        Some(meter(metrics)),
    ))
}

fn endpoint(args: &AzureArgs) -> anyhow::Result<Option<Endpoint>> {
    let wanted = given(args.azure_endpoint.as_deref());
    let authority = given(args.azure_authority.as_deref());
    let public = Endpoint::public();
    let resource_manager = wanted.unwrap_or(public.resource_manager());
    let with = |authority: &str| {
        Endpoint::custom(resource_manager, resource_manager, authority)
            .context("failed to use --azure-endpoint and --azure-authority")
    };
    let custom = with(authority.unwrap_or(public.authority()))?;
    let known = CLOUDS
        .into_iter()
        .filter_map(|cloud| Endpoint::named(cloud).ok())
        .find(|cloud| cloud.resource_manager() == custom.resource_manager());
    match (wanted, authority, known) {
        (None, _, _) => Ok(None),
        (Some(_), Some(_), _) => Ok(Some(custom)),
        (Some(_), None, Some(cloud)) => with(cloud.authority()).map(Some),
        (Some(_), None, None) => bail!(
            "--azure-endpoint {resource_manager} is none of the known clouds: name its token \
             authority with --azure-authority"
        ),
    }
}

fn given(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

fn meter(metrics: &Metrics) -> Meter {
    let calls = metrics.azure_calls.clone();
    Arc::new(move |call: &Call| {
        let outcome = match call.outcome {
            Outcome::Done => "ok",
            Outcome::Failed(kind) => kind.as_str(),
        };
        let labels = CallLabels {
            verb: call.verb.name().to_owned(),
            outcome: outcome.to_owned(),
        };
        calls.get_or_create(&labels).inc();
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_azure::{ErrorKind, Verb};

    use super::*;

    fn args(endpoint: &str, authority: &str) -> AzureArgs {
        AzureArgs {
            azure_endpoint: Some(endpoint.to_owned()),
            azure_authority: Some(authority.to_owned()),
            subscription: None,
        }
    }

    #[test]
    fn an_authority_alone_leaves_the_cloud_to_each_cluster() {
        let alone = args("", "https://login.microsoftonline.com/");
        assert_eq!(endpoint(&alone).unwrap(), None);
    }

    #[test]
    fn a_known_cloud_brings_its_authority() {
        let government = endpoint(&args("https://management.usgovcloudapi.net/", ""));
        let expected = Endpoint::named("AzureUSGovernmentCloud").unwrap();
        let found = government.unwrap().unwrap();
        assert_eq!(found.authority(), expected.authority());
        assert_eq!(found.resource_manager(), expected.resource_manager());
    }

    #[test]
    fn an_unknown_cloud_needs_an_authority() {
        let unknown = endpoint(&args("https://127.0.0.1:1", "")).unwrap_err();
        assert!(
            unknown.to_string().contains("--azure-authority"),
            "{unknown}"
        );
        assert!(endpoint(&args("https://127.0.0.1:1", "https://127.0.0.1:1")).is_ok());
    }

    #[test]
    fn every_attempt_is_counted_by_verb_and_outcome() {
        let metrics = Metrics::default();
        let meter = meter(&metrics);
        for outcome in [
            Outcome::Done,
            Outcome::Failed(ErrorKind::Throttled),
            Outcome::Done,
        ] {
            let (verb, attempt, status) = (Verb::ListInstances, 1, None);
            meter(&Call {
                verb,
                attempt,
                outcome,
                status,
                elapsed: Duration::ZERO,
            });
        }
        let text = metrics.encode();
        for line in [
            "weir_azure_calls_total{verb=\"list_instances\",outcome=\"ok\"} 2",
            "weir_azure_calls_total{verb=\"list_instances\",outcome=\"throttled\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
