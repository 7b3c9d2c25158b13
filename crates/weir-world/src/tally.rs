//! Which faults happened in the world, and how often?

use std::collections::BTreeMap;

/// Something that goes wrong in the world, on purpose or because of what was asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Azure answered 500.
    AzureError,
    /// Azure answered 429 by chance.
    AzureThrottled,
    /// Azure answered 429 because an allowance was used up.
    AzureAllowance,
    /// Azure answered 409 by chance.
    AzureConflict,
    /// Azure answered 409 because of a write that was under way.
    AzureBusy,
    /// Azure answered 412: the version that a write named was not the live one.
    AzureStale,
    /// Azure carried a write out and answered 504.
    AzureLostAnswer,
    /// A newer write ended an older one in Azure.
    AzurePreempted,
    /// Azure refused a write for lack of quota.
    AzureQuota,
    /// There was no hardware for an instance.
    CreateAllocation,
    /// An instance never signalled.
    CreateOsTimeout,
    /// An extension of an instance failed.
    CreateExtension,
    /// An instance was made from an image whose machines never join.
    BadImage,
    /// An instance was deleted by somebody else.
    Vanished,
    /// A machine stopped.
    Stopped,
    /// An API server answered 500 and did nothing.
    ApiError,
    /// An API server did what was asked and answered 500.
    ApiLostAnswer,
    /// An API server answered 409 although nothing else wrote.
    ApiConflict,
    /// A watch broke.
    WatchBroke,
    /// A watch saw a change late.
    WatchLate,
    /// A watch asked for a version that is no longer kept.
    WatchExpired,
    /// A disruption budget refused an eviction.
    EvictionRefused,
    /// A node was not heard of and became unreachable.
    NodeSilent,
    /// A node that was not heard of came back.
    NodeBack,
}

/// How often each fault happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<Fault, u64>);

impl Tally {
    /// Counts a fault once more.
    pub(crate) fn count(&mut self, fault: Fault) {
        self.add(fault, 1);
    }

    pub(crate) fn add(&mut self, fault: Fault, times: u64) {
        *self.0.entry(fault).or_default() += times;
    }

    /// Adds what another tally counted.
    pub(crate) fn merge(&mut self, other: &Tally) {
        for (fault, times) in &other.0 {
            self.add(*fault, *times);
        }
    }

    /// Returns the faults that happened, each with how often.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, u64)> {
        self.0.iter().map(|(fault, times)| (*fault, *times))
    }
}
