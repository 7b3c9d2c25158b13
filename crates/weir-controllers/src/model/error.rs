//! What keeps a pool from having a model, and what is to be done about it?

/// Why no scale set can be made from a pool as it stands.
///
/// Each is a mistake in an object, so trying again helps only after the object was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Nobody said the subscription.
    #[error(
        "no subscription is known for AzureCluster {cluster}: set its spec.subscriptionID, or \
         AZURE_SUBSCRIPTION_ID for the controller"
    )]
    NoSubscription {
        /// The cluster.
        cluster: String,
    },
    /// Azure takes no scale set of that name.
    #[error(
        "{name} cannot name a scale set: use at most 64 letters, digits, dots and hyphens in the \
         name of the pool"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// There is neither an image nor a version to choose one by.
    #[error(
        "no image can be chosen: set spec.template.image, or spec.template.spec.version of the \
         MachinePool"
    )]
    NoVersion,
    /// The version cannot be read.
    #[error("{version} is not a Kubernetes version: write it as v1.33.1")]
    Version {
        /// The version.
        version: String,
    },
    /// The version is older than the gallery of published images.
    #[error("no image is published for Kubernetes {version}: set spec.template.image")]
    NoPublishedImage {
        /// The version.
        version: String,
    },
    /// The Windows edition in the annotation cannot be read.
    #[error("annotation windowsServerVersion is {value}: write it as windows-2022")]
    WindowsServerVersion {
        /// What the annotation says.
        value: String,
    },
    /// The annotation asks for a container runtime that no image has.
    #[error("annotation runtime is {value}: write containerd, or leave it out")]
    Runtime {
        /// What the annotation says.
        value: String,
    },
    /// The image is none or several.
    #[error(
        "spec.template.image has {count} of id, marketplace, computeGallery and sharedGallery: \
         give exactly one"
    )]
    Image {
        /// How many it has.
        count: usize,
    },
    /// A private gallery is named by half.
    #[error(
        "spec.template.image.computeGallery has one of subscriptionID and resourceGroup: give \
         both for a gallery of your own, none for a community gallery"
    )]
    Gallery,
    /// The SSH key cannot be read.
    #[error(
        "spec.template.sshPublicKey is not the base64 of a public key: encode the one line of the \
         .pub file, as base64 -w0 does"
    )]
    SshPublicKey,
    /// The highest price cannot be read.
    #[error("spec.template.spotVMOptions.maxPrice is {value}: write a number such as 0.05, or -1")]
    MaxPrice {
        /// What it says.
        value: String,
    },
    /// A number is out of its range.
    #[error("{field} is {value}: give a number from {min} to {max}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// What it says.
        value: i64,
        /// The lowest number that is allowed.
        min: u32,
        /// The highest number that is allowed.
        max: u32,
    },
    /// Two data disks have one number.
    #[error("two of spec.template.dataDisks have lun {lun}: give each its own, from 0 to 63")]
    Lun {
        /// The number.
        lun: u32,
    },
    /// Identities are asked for and none is named.
    #[error(
        "spec.identity is UserAssigned: name at least one identity in spec.userAssignedIdentities"
    )]
    NoIdentities,
    /// The cluster has no subnet for nodes.
    #[error(
        "AzureCluster {cluster} has no subnet with role node: add one to \
         spec.networkSpec.subnets, or name a subnet in spec.template.networkInterfaces"
    )]
    NoSubnet {
        /// The cluster.
        cluster: String,
    },
    /// The cluster has several subnets for nodes, and the pool names none.
    #[error(
        "AzureCluster {cluster} has several subnets for nodes ({}): name one in \
         spec.template.networkInterfaces", names.join(", ")
    )]
    WhichSubnet {
        /// The cluster.
        cluster: String,
        /// The subnets.
        names: Vec<String>,
    },
    /// The cluster doesn't say its network.
    #[error("AzureCluster {cluster} names no virtual network: set spec.networkSpec.vnet.name")]
    NoVnet {
        /// The cluster.
        cluster: String,
    },
    /// The policy for changes of the bootstrap data is none of those that exist.
    #[error(
        "annotation weir.infrastructure.cluster.x-k8s.io/roll-on-bootstrap is {value:?}: write \
         Reference, Content or Never"
    )]
    RollOnBootstrap {
        /// What it is.
        value: String,
    },
    /// The bootstrap data is empty.
    #[error("secret {secret} has an empty value: see what the bootstrap provider reports")]
    BootstrapEmpty {
        /// The Secret.
        secret: String,
    },
    /// The bootstrap data is longer than Azure takes.
    #[error(
        "the bootstrap data in secret {secret} has {bytes} bytes and Azure takes {bytes_max}: \
         move large files out of the bootstrap config, into the image or a download"
    )]
    BootstrapTooLarge {
        /// The Secret.
        secret: String,
        /// Its length.
        bytes: usize,
        /// The length that is allowed.
        bytes_max: usize,
    },
    /// The machine size lacks something that the pool asks for.
    #[error(
        "machine size {vm_size} has no {feature}: choose another spec.template.vmSize, or {or}"
    )]
    Size {
        /// The size.
        vm_size: String,
        /// What it lacks.
        feature: &'static str,
        /// The other way out.
        or: &'static str,
    },
}

/// Reads a number that has to be in a range.
pub(super) fn count(
    field: &'static str,
    value: i64,
    min: u32,
    max: u32,
) -> Result<u32, ModelError> {
    let in_range = u32::try_from(value)
        .ok()
        .filter(|count| (min..=max).contains(count));
    in_range.ok_or(ModelError::OutOfRange {
        field,
        value,
        min,
        max,
    })
}
