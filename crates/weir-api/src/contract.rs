//! By which words do Weir and Cluster API understand each other?
//!
//! Labels, annotations, finalizers, condition types and reasons. The strings are an interface: a
//! changed letter breaks the conversation without an error anywhere.
//!
//! # Source
//! Cluster API `ae7ff047`: api/core/v1beta2/{common_types,condition_consts,machine_types,
//! machinepool_types}.go, cmd/clusterctl/api/v1alpha3/{labels,annotations}.go,
//! util/labels/format/helpers.go. CAPZ `69ec3a40`: api/v1beta1/{consts,tags}.go, exp/api/v1beta1.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// API group of core Cluster API.
pub const CAPI_GROUP: &str = "cluster.x-k8s.io";

/// API group of infrastructure providers, and so of our kinds.
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// The version of our kinds.
pub const INFRASTRUCTURE_VERSION: &str = "v1beta1";

/// The name by which clusterctl knows the provider.
pub const PROVIDER_NAME: &str = "infrastructure-azure";

/// The kind in `status.infrastructureMachineKind`, which has core make a Machine per instance.
pub const INFRASTRUCTURE_MACHINE_KIND: &str = "AzureMachinePoolMachine";

/// Keys of labels.
pub mod label {
    /// Name of the cluster that an object belongs to.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// Name of the MachinePool that an object belongs to; the value is
    /// [`super::must_format_value`] of it.
    pub const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";
    /// Which controller instance is to look after an object.
    pub const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";
    /// Which provider a component belongs to.
    pub const PROVIDER: &str = "cluster.x-k8s.io/provider";
    /// On a CRD: its versions that meet the v1beta1 contract.
    pub const CONTRACT_V1BETA1: &str = "cluster.x-k8s.io/v1beta1";
    /// On a CRD: its versions that meet the v1beta2 contract.
    pub const CONTRACT_V1BETA2: &str = "cluster.x-k8s.io/v1beta2";
    /// On a Node: it runs on a machine that the cloud may take away.
    pub const INTERRUPTIBLE: &str = "cluster.x-k8s.io/interruptible";
    /// Moved by `clusterctl move` though no owner leads to the Cluster.
    pub const CLUSTERCTL_MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
    /// Moved by `clusterctl move` with all that it owns.
    pub const CLUSTERCTL_MOVE_HIERARCHY: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
    /// CAPZ's own label for the AzureMachinePool of an AzureMachinePoolMachine.
    pub const AZURE_MACHINE_POOL: &str =
        "azuremachinepool.infrastructure.cluster.x-k8s.io/machine-pool";
    /// On a pod: whether it is left out of a drain, with the value `skip`.
    pub const DRAIN: &str = "cluster.x-k8s.io/drain";
}

/// Keys of annotations.
pub mod annotation {
    /// Leave the object alone. Presence counts, whatever the value.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// Delete this Machine before others when some have to go. Presence counts.
    pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
    /// On a MachinePool: somebody else decides on the number of machines.
    pub const REPLICAS_MANAGED_BY: &str = "cluster.x-k8s.io/replicas-managed-by";
    /// Don't remediate this Machine. Presence counts.
    pub const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";
    /// Remediate this Machine, however it is. Presence counts.
    pub const REMEDIATE_MACHINE: &str = "cluster.x-k8s.io/remediate-machine";
    /// `clusterctl move` has to wait. Presence counts.
    pub const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";
    /// Delete this Machine without a drain. Presence counts.
    pub const EXCLUDE_NODE_DRAINING: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
    /// Delete this Machine without waiting for its volumes. Presence counts.
    pub const EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH: &str =
        "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";
    /// Start of the keys that hold up a drain.
    pub const PRE_DRAIN_HOOK_PREFIX: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
    /// Start of the keys that hold up the deletion of the infrastructure.
    pub const PRE_TERMINATE_HOOK_PREFIX: &str =
        "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
    /// Least number of machines that the autoscaler may ask for.
    pub const AUTOSCALER_MIN_SIZE: &str =
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    /// Greatest number of machines that the autoscaler may ask for.
    pub const AUTOSCALER_MAX_SIZE: &str =
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    /// On a Node: name of its cluster.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// On a Node: namespace of its cluster.
    pub const CLUSTER_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";
    /// On a Node: name of its Machine.
    pub const MACHINE: &str = "cluster.x-k8s.io/machine";
    /// On a Node: kind of what made its Machine.
    pub const OWNER_KIND: &str = "cluster.x-k8s.io/owner-kind";
    /// On a Node: name of what made its Machine.
    pub const OWNER_NAME: &str = "cluster.x-k8s.io/owner-name";
}

/// Finalizers.
pub mod finalizer {
    /// On a MachinePool, by core. CAPZ puts the same word on an AzureMachinePool, and so do we: an
    /// object must not be left with a finalizer that nobody takes off.
    pub const MACHINE_POOL: &str = "machinepool.cluster.x-k8s.io";
    /// On an AzureMachinePoolMachine, by us (and by CAPZ).
    pub const AZURE_MACHINE_POOL_MACHINE: &str =
        "azuremachinepoolmachine.infrastructure.cluster.x-k8s.io";
    /// On a Machine, by core.
    pub const MACHINE: &str = "machine.cluster.x-k8s.io";
}

/// Keys of taints.
pub mod taint {
    /// A Node whose labels core has not yet set.
    pub const UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";
    /// A Node that will be replaced.
    pub const OUTDATED_REVISION: &str = "node.cluster.x-k8s.io/outdated-revision";
}

/// Types of conditions.
pub mod condition {
    /// The object is as it should be. Copied to the owner's `InfrastructureReady`.
    pub const READY: &str = "Ready";
    /// The object can do its work.
    pub const AVAILABLE: &str = "Available";
    /// The object is left alone.
    pub const PAUSED: &str = "Paused";
    /// The object is going away; the reason says how far it is.
    pub const DELETING: &str = "Deleting";
    /// Machines are being replaced.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// Machines are being added.
    pub const SCALING_UP: &str = "ScalingUp";
    /// Machines are being taken away.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// Broken machines are being replaced.
    pub const REMEDIATING: &str = "Remediating";
    /// All machines are ready.
    pub const MACHINES_READY: &str = "MachinesReady";
    /// All machines are as wanted.
    pub const MACHINES_UP_TO_DATE: &str = "MachinesUpToDate";
    /// A Machine is as its owner wants it.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// Mirror of the bootstrap object's `Ready`.
    pub const BOOTSTRAP_CONFIG_READY: &str = "BootstrapConfigReady";
    /// Mirror of the infrastructure object's `Ready`.
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    /// The Machine's Node is ready, and under no pressure.
    pub const NODE_HEALTHY: &str = "NodeHealthy";
    /// The Machine's Node is ready.
    pub const NODE_READY: &str = "NodeReady";
    /// False when a MachineHealthCheck found fault with the Machine.
    pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
    /// False when the owner has still to replace the Machine.
    pub const OWNER_REMEDIATED: &str = "OwnerRemediated";
}

/// Types and reasons of the older conditions that CAPZ has on a pool and its machines.
pub mod v1beta1_condition {
    /// The scale set exists and nothing goes on with it.
    pub const SCALE_SET_RUNNING: &str = "ScaleSetRunning";
    /// There are as many machines as wanted.
    pub const SCALE_SET_DESIRED_REPLICAS: &str = "ScaleSetDesiredReplicas";
    /// All machines are as wanted.
    pub const SCALE_SET_MODEL_UPDATED: &str = "ScaleSetModelUpdated";
    /// The bootstrap on the machines went well.
    pub const BOOTSTRAP_SUCCEEDED: &str = "BootstrapSucceeded";
    /// Reason: the scale set is being made.
    pub const SCALE_SET_CREATING: &str = "ScaleSetCreating";
    /// Reason: the scale set is being changed.
    pub const SCALE_SET_UPDATING: &str = "ScaleSetUpdating";
    /// Reason: the scale set is being deleted.
    pub const SCALE_SET_DELETING: &str = "ScaleSetDeleting";
    /// Reason: Azure could not make or change the scale set.
    pub const SCALE_SET_PROVISION_FAILED: &str = "ScaleSetProvisionFailed";
    /// Reason: machines are being added.
    pub const SCALE_SET_SCALING_UP: &str = "ScaleSetScalingUp";
    /// Reason: machines are being taken away.
    pub const SCALE_SET_SCALING_DOWN: &str = "ScaleSetScalingDown";
    /// Reason: some machines are not as wanted.
    pub const SCALE_SET_MODEL_OUT_OF_DATE: &str = "ScaleSetModelOutOfDate";
    /// Reason: the cluster's network is not there yet.
    pub const WAITING_FOR_CLUSTER_INFRASTRUCTURE: &str = "WaitingForClusterInfrastructure";
    /// Reason: there is no bootstrap data yet.
    pub const WAITING_FOR_BOOTSTRAP_DATA: &str = "WaitingForBootstrapData";
    /// Severity: it will not get better by itself.
    pub const SEVERITY_ERROR: &str = "Error";
    /// Severity: something went wrong and is tried again.
    pub const SEVERITY_WARNING: &str = "Warning";
    /// Severity: it takes its time.
    pub const SEVERITY_INFO: &str = "Info";
}

/// Reasons of conditions.
pub mod reason {
    /// Of `Available`: true.
    pub const AVAILABLE: &str = "Available";
    /// Of `Available`: false.
    pub const NOT_AVAILABLE: &str = "NotAvailable";
    /// Of `Ready`: true.
    pub const READY: &str = "Ready";
    /// Of `Ready`: false.
    pub const NOT_READY: &str = "NotReady";
    /// Of `Ready`: unknown.
    pub const READY_UNKNOWN: &str = "ReadyUnknown";
    /// Of `UpToDate`: true.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// Of `UpToDate`: false.
    pub const NOT_UP_TO_DATE: &str = "NotUpToDate";
    /// Of `RollingOut`: true.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// Of `RollingOut`: false.
    pub const NOT_ROLLING_OUT: &str = "NotRollingOut";
    /// Of `ScalingUp`: true.
    pub const SCALING_UP: &str = "ScalingUp";
    /// Of `ScalingUp`: false.
    pub const NOT_SCALING_UP: &str = "NotScalingUp";
    /// Of `ScalingDown`: true.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// Of `ScalingDown`: false.
    pub const NOT_SCALING_DOWN: &str = "NotScalingDown";
    /// Of `Remediating`: true.
    pub const REMEDIATING: &str = "Remediating";
    /// Of `Remediating`: false.
    pub const NOT_REMEDIATING: &str = "NotRemediating";
    /// Of counts: there are no machines.
    pub const NO_REPLICAS: &str = "NoReplicas";
    /// Of `Paused`: true.
    pub const PAUSED: &str = "Paused";
    /// Of `Paused`: false.
    pub const NOT_PAUSED: &str = "NotPaused";
    /// Something failed that should not.
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// The workload cluster can't be reached.
    pub const CONNECTION_DOWN: &str = "ConnectionDown";
    /// What is described could not be read.
    pub const INSPECTION_FAILED: &str = "InspectionFailed";
    /// An object that is referred to is not there.
    pub const OBJECT_DOES_NOT_EXIST: &str = "ObjectDoesNotExist";
    /// An object that is referred to is there no more.
    pub const OBJECT_DELETED: &str = "ObjectDeleted";
    /// The cluster's network is not there yet.
    pub const WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY: &str =
        "WaitingForClusterInfrastructureReady";
    /// The control plane does not answer yet.
    pub const WAITING_FOR_CONTROL_PLANE_INITIALIZED: &str = "WaitingForControlPlaneInitialized";
    /// There is no bootstrap data yet.
    pub const WAITING_FOR_BOOTSTRAP_DATA: &str = "WaitingForBootstrapData";
    /// It exists.
    pub const PROVISIONED: &str = "Provisioned";
    /// It does not exist yet.
    pub const NOT_PROVISIONED: &str = "NotProvisioned";
    /// Of `OwnerRemediated`: nobody has begun.
    pub const WAITING_FOR_REMEDIATION: &str = "WaitingForRemediation";
    /// Of `OwnerRemediated`: the owner will replace the machine later.
    pub const REMEDIATION_DEFERRED: &str = "RemediationDeferred";
    /// Of `OwnerRemediated`: the owner has asked the machine to go.
    pub const REMEDIATION_MACHINE_DELETING: &str = "MachineDeleting";
}

/// Reasons of a Machine's `Deleting`, in the order in which a Machine goes through them.
pub mod deleting_reason {
    /// It is not being deleted.
    pub const NOT_DELETING: &str = "NotDeleting";
    /// It is being deleted, and none of the others fits.
    pub const DELETING: &str = "Deleting";
    /// An annotation holds up the drain.
    pub const WAITING_FOR_PRE_DRAIN_HOOK: &str = "WaitingForPreDrainHook";
    /// Pods are being evicted.
    pub const DRAINING_NODE: &str = "DrainingNode";
    /// Volumes are still attached.
    pub const WAITING_FOR_VOLUME_DETACH: &str = "WaitingForVolumeDetach";
    /// An annotation holds up the deletion of the infrastructure.
    pub const WAITING_FOR_PRE_TERMINATE_HOOK: &str = "WaitingForPreTerminateHook";
    /// The infrastructure object is still there: it is our turn.
    pub const WAITING_FOR_INFRASTRUCTURE_DELETION: &str = "WaitingForInfrastructureDeletion";
    /// The bootstrap object is still there.
    pub const WAITING_FOR_BOOTSTRAP_DELETION: &str = "WaitingForBootstrapDeletion";
    /// The Node object is being deleted.
    pub const DELETING_NODE: &str = "DeletingNode";
    /// All is gone.
    pub const DELETION_COMPLETED: &str = "DeletionCompleted";
    /// Something failed that should not.
    pub const INTERNAL_ERROR: &str = "InternalError";
}

/// Tags of Azure resources, by which CAPZ knows what belongs to a cluster.
pub mod tag {
    /// Start of the key that says which cluster a resource belongs to; the cluster's name follows.
    pub const CLUSTER_PREFIX: &str = "sigs.k8s.io_cluster-api-provider-azure_cluster_";
    /// Value of that key for a resource that goes when the cluster goes.
    pub const OWNED: &str = "owned";
    /// Key for what the resource is to the cluster, such as `node`.
    pub const ROLE: &str = "sigs.k8s.io_cluster-api-provider-azure_role";
}

/// Returns the label value that stands for a name.
///
/// It is the name itself if that can be a label value (up to 63 characters of the right kind), and
/// else a hash of it: FNV-1a of 32 bits, its four bytes most significant first, in URL-safe base64
/// without padding, between `hash_` and `_z`. Core lists the machines of a pool by this value, so
/// it has to be the same to the letter.
///
/// # Source
/// Cluster API util/labels/format/helpers.go, `MustFormatValue`.
pub fn must_format_value(name: &str) -> String {
    if is_label_value(name) {
        return name.to_owned();
    }
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("hash_{}_z", URL_SAFE_NO_PAD.encode(hash.to_be_bytes()))
}

/// Whether Kubernetes takes it as a label value: empty, or at most 63 letters, digits, `-`, `_`
/// and `.`, of which the first and the last are letters or digits.
fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return true;
    };
    bytes.len() <= 63
        && first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_value_is_the_name_or_the_hash_that_core_computes() {
        let long = "machineSetName".repeat(12);
        let rows = [
            ("short", "pool-1", "pool-1"),
            ("empty", "", ""),
            ("63 characters", &"a".repeat(63), &"a".repeat(63)),
            // The hash is the one in core's own test, util/labels/format/helpers_test.go.
            ("168 characters", &long, "hash_FR_ghQ_z"),
            // Hashes below: FNV-1a reference, computed with Python.
            ("64 characters", &"a".repeat(64), "hash_2W8PhQ_z"),
            ("ends in a dot", "pool.", "hash_TKaLVw_z"),
            ("not ASCII", "pöl", "hash_2MYUbg_z"),
        ];
        for (name, input, expected) in rows {
            assert_eq!(must_format_value(input), expected, "{name}");
        }
    }
}
