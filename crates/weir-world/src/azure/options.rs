//! How does the simulated Azure behave?
//!
//! What is documented is fixed in the code; what is a guess, what differs from case to case and
//! what a test wants to vary is an option here. docs/azure.md says which is which.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// How long something takes: log-normal about a median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// Half of the draws are shorter.
    pub median: SignedDuration,
    /// Deviation of the logarithm; zero for "always the median".
    pub spread: f64,
}

impl Delay {
    /// Returns a delay that is always the same.
    pub const fn fixed(span: SignedDuration) -> Delay {
        Delay {
            median: span,
            spread: 0.0,
        }
    }

    /// Returns a delay with this median in seconds.
    pub const fn about(seconds: i64, spread: f64) -> Delay {
        Delay {
            median: SignedDuration::from_secs(seconds),
            spread,
        }
    }

    /// Draws a span, in whole milliseconds.
    pub(crate) fn draw(self, rng: &mut Rng, scale: f64) -> SignedDuration {
        let seconds = rng.log_normal(self.median.as_secs_f64(), self.spread) * scale;
        SignedDuration::from_millis((seconds * 1000.0).round() as i64)
    }
}

/// How long the works of Azure take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// From the accepted write to the instance being listed.
    pub appear: Delay,
    /// From the accepted write to the virtual machine running.
    pub create: Delay,
    /// From the machine running to its guest having signalled that it is provisioned.
    pub boot: Delay,
    /// From the end of the terminate notice, if any, to the instance being gone.
    pub delete: Delay,
    /// A change of the model, or of an instance in place.
    pub update: Delay,
    /// A new OS disk.
    pub reimage: Delay,
    /// Start, restart, power off, deallocate.
    pub power: Delay,
    /// From an accepted delete to the lower capacity being read. Zero unless set.
    pub capacity_lag: Delay,
    /// Factor on everything, such as 0.01 for tests against the real clock.
    pub scale: f64,
}

impl Latency {
    /// Returns latencies like those of Azure: minutes, and never twice the same.
    pub const fn azure() -> Latency {
        Latency {
            appear: Delay::about(3, 0.5),
            create: Delay::about(90, 0.3),
            boot: Delay::about(20, 0.4),
            delete: Delay::about(60, 0.4),
            update: Delay::about(20, 0.4),
            reimage: Delay::about(100, 0.3),
            power: Delay::about(40, 0.3),
            capacity_lag: Delay::fixed(SignedDuration::ZERO),
            scale: 1.0,
        }
    }

    /// Returns latencies that are all the same, but that instances are listed at once and that
    /// the guest signals as soon as its machine runs.
    pub const fn fixed(span: SignedDuration) -> Latency {
        Latency {
            appear: Delay::fixed(SignedDuration::ZERO),
            create: Delay::fixed(span),
            boot: Delay::fixed(SignedDuration::ZERO),
            delete: Delay::fixed(span),
            update: Delay::fixed(span),
            reimage: Delay::fixed(span),
            power: Delay::fixed(span),
            capacity_lag: Delay::fixed(SignedDuration::ZERO),
            scale: 1.0,
        }
    }

    /// Returns the same with another factor on everything.
    pub const fn scaled(self, scale: f64) -> Latency {
        Latency { scale, ..self }
    }
}

/// What a write does that meets an unfinished one on the same scale set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ParallelWrites {
    /// Both are carried out, but two deletes of instances collide if the later one comes while the
    /// earlier one is being accepted: it gets 409.
    Accept,
    /// The later one gets 409.
    Conflict,
    /// The later one ends the earlier one, which its poll URL tells; work begun goes on.
    Preempt,
}

/// Whether requests are counted against Azure's allowances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttling {
    /// They are not.
    Off,
    /// They are; beyond the allowance the answer is 429.
    On,
}

/// What a refusal by Compute's own allowance looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleBody {
    /// `{"error": {"code", …}}`, as all other errors.
    Wrapped,
    /// `{"code", …}`, as in the documentation's example.
    Bare,
    /// One and the other by turns.
    Alternate,
}

/// How much may be used per location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Virtual CPUs of all instances together.
    pub cores: Option<u32>,
    /// Instances of all scale sets together.
    pub instances: Option<u32>,
}

/// Which resource groups exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Any that is asked for.
    Any,
    /// These, without regard to case.
    Only(BTreeSet<String>),
}

/// Which requests to ARM are let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenCheck {
    /// All.
    Off,
    /// Those with a bearer token that was issued here and has not run out.
    On,
}

/// How ids of instances are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstanceIds {
    /// Probability that some ids are left out before the next one.
    pub gap: f64,
    /// Probability that an id which an earlier instance had is taken again, if there is one.
    pub reuse: f64,
}

/// What makes `latestModelApplied` false besides size and machine profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StaleOn {
    /// A change of the tags.
    Tags,
    /// A change of the custom data.
    CustomData,
}

/// Which model a reimage brings an instance to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReimageTo {
    /// The one that it has.
    InstanceModel,
    /// The scale set's.
    LatestModel,
}

/// In which case the name of the resource group comes in the ids of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupCase {
    /// As the scale set was created with.
    AsGiven,
    /// In capitals.
    Upper,
}

/// A VM size that can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmSize {
    /// Name such as `Standard_D4s_v5`.
    pub name: String,
    /// Quota family such as `standardDSv5Family`.
    pub family: String,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory in GiB.
    pub memory_gib: u32,
    /// Size of the cache disk in GiB; zero if there is none, and then no ephemeral OS disk.
    pub cache_gib: u32,
    /// `x64` or `Arm64`.
    pub architecture: String,
}

impl VmSize {
    fn new(name: &str, family: &str, vcpus: u32, memory_gib: u32, cache_gib: u32) -> VmSize {
        let is_arm = family.contains("DPS");
        VmSize {
            name: name.to_owned(),
            family: family.to_owned(),
            vcpus,
            memory_gib,
            cache_gib,
            architecture: if is_arm { "Arm64" } else { "x64" }.to_owned(),
        }
    }

    /// Returns a few sizes in common use.
    pub fn common() -> Vec<VmSize> {
        vec![
            VmSize::new("Standard_B2s", "standardBSFamily", 2, 4, 30),
            VmSize::new("Standard_D2s_v3", "standardDSv3Family", 2, 8, 50),
            VmSize::new("Standard_D4s_v3", "standardDSv3Family", 4, 16, 100),
            VmSize::new("Standard_D2s_v5", "standardDSv5Family", 2, 8, 0),
            VmSize::new("Standard_D4s_v5", "standardDSv5Family", 4, 16, 0),
            VmSize::new("Standard_D8s_v5", "standardDSv5Family", 8, 32, 0),
            VmSize::new("Standard_D4ds_v5", "standardDDSv5Family", 4, 16, 100),
            VmSize::new("Standard_D4as_v5", "standardDASv5Family", 4, 16, 0),
            VmSize::new("Standard_D4ps_v5", "standardDPSv5Family", 4, 16, 0),
            VmSize::new("Standard_E4s_v5", "standardESv5Family", 4, 32, 0),
        ]
    }
}

/// What goes wrong by chance. Probabilities are per request unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AzureFaults {
    /// A request is answered with 500 and not carried out.
    pub error_500: f64,
    /// A write is carried out and the answer is lost: the client sees 504.
    pub lost_answer: f64,
    /// A request is answered with 429.
    pub throttle: f64,
    /// A write is answered with 409 as if another one were under way.
    pub conflict: f64,
    /// Per instance: its creation comes to nothing, in one of several ways.
    pub create_fails: f64,
    /// Per instance and hour: someone else deletes it.
    pub vanish_per_hour: f64,
}

/// How the creation of an instance comes to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CreateFailure {
    /// There is no hardware: no machine ever runs.
    Allocation,
    /// The guest does not signal: the machine runs, and fails after some twenty minutes.
    OsTimeout,
    /// An extension fails: the machine runs, and fails after some minutes.
    Extension,
}

/// All options of the simulated Azure.
#[derive(Clone, Debug, PartialEq)]
pub struct AzureOptions {
    /// The subscriptions that are listed. Requests may name others.
    pub subscriptions: Vec<String>,
    /// The tenant.
    pub tenant: String,
    /// The location of resource groups.
    pub location: String,
    /// Which resource groups exist.
    pub groups: Groups,
    /// The sizes that exist.
    pub vm_sizes: Vec<VmSize>,
    /// Names of sizes that exist but cannot be had.
    pub sizes_unavailable: BTreeSet<String>,
    /// Versions that every image has, oldest first.
    pub image_versions: Vec<String>,
    /// How long things take.
    pub latency: Latency,
    /// What `Retry-After` says while an operation runs, in seconds.
    pub retry_after_seconds: u32,
    /// How long an operation can be asked about after its end.
    pub operations_kept_for: SignedDuration,
    /// What a write does that meets an unfinished one.
    pub parallel_writes: ParallelWrites,
    /// How long a delete of instances is being accepted: until then another one collides.
    pub delete_acceptance: SignedDuration,
    /// Whether requests are counted.
    pub throttling: Throttling,
    /// What a refusal by Compute looks like.
    pub throttle_body: ThrottleBody,
    /// How much may be used.
    pub quota: Quota,
    /// What goes wrong by chance.
    pub faults: AzureFaults,
    /// Versions of images, or whole image ids, whose machines boot and never join a cluster.
    pub bad_images: BTreeSet<String>,
    /// How ids are chosen.
    pub ids: InstanceIds,
    /// How many instances one page of a list has.
    pub page_size: usize,
    /// Which requests are let in.
    pub token_check: TokenCheck,
    /// The secret that clients must show for a token; `None` if any will do.
    pub client_secret: Option<String>,
    /// What makes `latestModelApplied` false besides size and machine profile.
    pub stale_on: BTreeSet<StaleOn>,
    /// Which model a reimage brings an instance to.
    pub reimage_to: ReimageTo,
    /// How resource groups are spelt in ids of instances.
    pub group_case: GroupCase,
}

impl Default for AzureOptions {
    /// Azure as we know it, on a good day.
    fn default() -> AzureOptions {
        AzureOptions {
            subscriptions: vec!["22222222-2222-2222-2222-222222222222".to_owned()],
            tenant: "11111111-1111-1111-1111-111111111111".to_owned(),
            location: "westeurope".to_owned(),
            groups: Groups::Any,
            vm_sizes: VmSize::common(),
            sizes_unavailable: BTreeSet::new(),
            image_versions: ["1.0.0", "1.1.0"].map(str::to_owned).to_vec(),
            latency: Latency::azure(),
            retry_after_seconds: 10,
            operations_kept_for: SignedDuration::from_hours(1),
            parallel_writes: ParallelWrites::Preempt,
            delete_acceptance: SignedDuration::from_secs(2),
            throttling: Throttling::On,
            throttle_body: ThrottleBody::Alternate,
            quota: Quota::default(),
            faults: AzureFaults::default(),
            bad_images: BTreeSet::new(),
            ids: InstanceIds {
                gap: 0.3,
                reuse: 0.0,
            },
            page_size: 120,
            token_check: TokenCheck::On,
            client_secret: None,
            stale_on: BTreeSet::new(),
            reimage_to: ReimageTo::InstanceModel,
            group_case: GroupCase::AsGiven,
        }
    }
}

impl AzureOptions {
    /// An Azure without surprises, for tests of something else: every work takes a minute, ids
    /// have no gaps, nobody is throttled and no token is asked for.
    pub fn calm() -> AzureOptions {
        AzureOptions {
            latency: Latency::fixed(SignedDuration::from_secs(60)),
            throttling: Throttling::Off,
            token_check: TokenCheck::Off,
            ids: InstanceIds {
                gap: 0.0,
                reuse: 0.0,
            },
            ..AzureOptions::default()
        }
    }
}
