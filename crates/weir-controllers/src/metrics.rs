//! What operators can count.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Labels of an Azure call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    /// The verb, such as `list_instances`.
    pub verb: String,
    /// How it ended: `ok`, or a kind of error.
    pub outcome: String,
}

/// Labels of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolLabels {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub pool: String,
}

/// Labels of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StepLabels {
    /// What was done.
    pub action: String,
    /// `done` or `failed`.
    pub outcome: String,
}

/// All counters and gauges.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Calls to Azure.
    pub azure_calls: Family<CallLabels, Counter>,
    /// Steps carried out.
    pub steps: Family<StepLabels, Counter>,
    /// Turns taken.
    pub turns: Counter,
    /// Instances that a pool should have.
    pub replicas: Family<PoolLabels, Gauge>,
    /// Instances of a pool that are available.
    pub available: Family<PoolLabels, Gauge>,
    /// Instances of a pool that still have an old model.
    pub outdated: Family<PoolLabels, Gauge>,
    /// Things that a pool waits for.
    pub waits: Family<PoolLabels, Gauge>,
    /// Those of them that may last until somebody does something.
    pub stuck: Family<PoolLabels, Gauge>,
}

impl Metrics {
    /// Returns everything in the text form that Prometheus reads.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut registry = Registry::with_prefix("weir");
        registry.register("azure_calls", "Calls to Azure", self.azure_calls.clone());
        registry.register("steps", "Steps carried out", self.steps.clone());
        registry.register("turns", "Turns taken for pools", self.turns.clone());
        registry.register("pool_replicas", "Wanted instances", self.replicas.clone());
        registry.register(
            "pool_available",
            "Available instances",
            self.available.clone(),
        );
        registry.register(
            "pool_outdated",
            "Instances of an old model",
            self.outdated.clone(),
        );
        registry.register("pool_waits", "Things waited for", self.waits.clone());
        registry.register(
            "pool_stuck",
            "Things waited for that may last until somebody does something",
            self.stuck.clone(),
        );
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)
            .expect("writing to a string does not fail");
        text
    }
}
