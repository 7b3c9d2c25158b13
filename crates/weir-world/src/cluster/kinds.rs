//! Which kinds of objects does an API server know?

use std::collections::BTreeMap;

/// Names of resources as used throughout the world: `<plural>` or `<plural>.<group>`.
pub mod resource {
    /// Nodes.
    pub const NODES: &str = "nodes";
    /// Pods.
    pub const PODS: &str = "pods";
    /// Secrets.
    pub const SECRETS: &str = "secrets";
    /// Namespaces.
    pub const NAMESPACES: &str = "namespaces";
    /// Deployments.
    pub const DEPLOYMENTS: &str = "deployments.apps";
    /// Replica sets.
    pub const REPLICA_SETS: &str = "replicasets.apps";
    /// Daemon sets.
    pub const DAEMON_SETS: &str = "daemonsets.apps";
    /// Disruption budgets.
    pub const BUDGETS: &str = "poddisruptionbudgets.policy";
    /// Cluster API clusters.
    pub const CLUSTERS: &str = "clusters.cluster.x-k8s.io";
    /// Cluster API machines.
    pub const MACHINES: &str = "machines.cluster.x-k8s.io";
    /// Cluster API machine pools.
    pub const MACHINE_POOLS: &str = "machinepools.cluster.x-k8s.io";
    /// Cluster API drain rules.
    pub const DRAIN_RULES: &str = "machinedrainrules.cluster.x-k8s.io";
    /// The provider's pools.
    pub const AZURE_POOLS: &str = "azuremachinepools.infrastructure.cluster.x-k8s.io";
    /// The provider's pool machines.
    pub const AZURE_POOL_MACHINES: &str =
        "azuremachinepoolmachines.infrastructure.cluster.x-k8s.io";
    /// The provider's clusters.
    pub const AZURE_CLUSTERS: &str = "azureclusters.infrastructure.cluster.x-k8s.io";
}

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// Directly in the cluster.
    Cluster,
}

/// What happens to `status` on a write to the object itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusPart {
    /// Only `/status` writes it, and `/status` writes nothing else.
    Subresource,
    /// There is no such subresource: it is a field like the others.
    Field,
}

/// Whether `metadata.generation` counts changes of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// It does: custom resources, workloads, budgets.
    Counted,
    /// The kind has no generation: nodes, secrets, events.
    None,
}

/// One kind of object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group, "" for the core group.
    pub group: String,
    /// The one version served.
    pub version: String,
    /// Kind in `CamelCase`.
    pub kind: String,
    /// Plural in lower case, as in paths.
    pub plural: String,
    /// Where objects of this kind live.
    pub scope: Scope,
    /// Who writes `status`.
    pub status: StatusPart,
    /// Whether the generation is counted.
    pub generation: Generation,
}

impl Kind {
    /// Returns a namespaced kind with a status subresource and a generation, like most are.
    pub fn namespaced(group: &str, version: &str, kind: &str, plural: &str) -> Kind {
        Kind {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            scope: Scope::Namespaced,
            status: StatusPart::Subresource,
            generation: Generation::Counted,
        }
    }

    /// Returns the same kind without generation and status subresource.
    #[must_use]
    pub fn plain(mut self) -> Kind {
        self.status = StatusPart::Field;
        self.generation = Generation::None;
        self
    }

    /// Returns the same kind with cluster scope.
    #[must_use]
    pub fn cluster_scoped(mut self) -> Kind {
        self.scope = Scope::Cluster;
        self
    }

    /// Returns the same kind without generation.
    #[must_use]
    pub fn without_generation(mut self) -> Kind {
        self.generation = Generation::None;
        self
    }

    /// Returns `<plural>` or `<plural>.<group>`.
    pub fn resource(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Returns `v1` or `<group>/<version>`.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// Returns the kinds that both of the world's API servers serve, by resource name.
pub fn built_in() -> BTreeMap<String, Kind> {
    const CAPI: (&str, &str) = ("cluster.x-k8s.io", "v1beta2");
    const INFRA: (&str, &str) = ("infrastructure.cluster.x-k8s.io", "v1beta1");
    let kind = Kind::namespaced;
    let all = [
        kind("", "v1", "Node", "nodes")
            .cluster_scoped()
            .without_generation(),
        kind("", "v1", "Namespace", "namespaces")
            .cluster_scoped()
            .without_generation(),
        kind("", "v1", "Pod", "pods").without_generation(),
        kind("", "v1", "Secret", "secrets").plain(),
        kind("", "v1", "ConfigMap", "configmaps").plain(),
        kind("", "v1", "Event", "events").plain(),
        kind("events.k8s.io", "v1", "Event", "events").plain(),
        kind("coordination.k8s.io", "v1", "Lease", "leases").plain(),
        kind("apps", "v1", "Deployment", "deployments"),
        kind("apps", "v1", "ReplicaSet", "replicasets"),
        kind("apps", "v1", "DaemonSet", "daemonsets"),
        kind(
            "policy",
            "v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
        ),
        kind(CAPI.0, CAPI.1, "Cluster", "clusters"),
        kind(CAPI.0, CAPI.1, "Machine", "machines"),
        kind(CAPI.0, CAPI.1, "MachinePool", "machinepools"),
        kind(CAPI.0, CAPI.1, "MachineDrainRule", "machinedrainrules"),
        kind(INFRA.0, INFRA.1, "AzureMachinePool", "azuremachinepools"),
        kind(
            INFRA.0,
            INFRA.1,
            "AzureMachinePoolMachine",
            "azuremachinepoolmachines",
        ),
        kind(INFRA.0, INFRA.1, "AzureCluster", "azureclusters"),
        kind(
            INFRA.0,
            INFRA.1,
            "AzureClusterIdentity",
            "azureclusteridentities",
        ),
    ];
    all.into_iter()
        .map(|kind| (kind.resource(), kind))
        .collect()
}
