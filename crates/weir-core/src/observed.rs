//! What one turn looks at: the pool that is wanted, and what Azure and both clusters show of it.
//!
//! Observers build these values; the planner only reads them. Everything comes from reads made for
//! this turn: a read that failed is [`Reading::Unknown`], never zero and never absent.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Everything one turn knows about one pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// When the turn was taken.
    pub at: Timestamp,
    /// When Azure was looked at for it; a look may serve several turns.
    pub looked_at: Timestamp,
    /// What is wanted.
    pub pool: Pool,
    /// The scale set; known `None` means that Azure answered "not found".
    pub scale_set: Reading<Option<ScaleSet>>,
    /// The instances that Azure lists, sorted by id as [`instance_order`] does.
    pub instances: Reading<Vec<Instance>>,
    /// Pool machines whose instance Azure does not list, sorted by name.
    pub orphans: Vec<Machine>,
    /// Whether the nodes of the workload cluster could be read.
    pub nodes: Reading<()>,
    /// When the first of the deletions under way is likely to end, from how long earlier ones took.
    pub deletion_due: Option<Timestamp>,
    /// Since when Azure owes instances and has made none, where that is known.
    pub owed_since: Option<Timestamp>,
    /// Azure's refusal to make instances, as long as it stands.
    pub refused: Option<Refusal>,
    /// Whether Azure refused a delete of late because an earlier one was still running.
    pub deletes_collide: bool,
}

/// Azure's refusal to make instances: a quota is used up, or there is no hardware or address left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Azure's code.
    pub code: String,
    /// Azure's words.
    pub message: String,
    /// When it was refused first.
    pub since: Timestamp,
    /// When to ask again.
    pub retry_at: Timestamp,
    /// How many instances existed then: so many can be had.
    pub fits: u32,
}

/// A value that was read, or the reason why it could not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reading<T> {
    /// The value as read for this turn.
    Known(T),
    /// The read failed; the text says what was tried and why it failed.
    Unknown(String),
}

/// What the user asks of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The pool's name, for words only.
    pub name: String,
    /// How many instances there are to be (N).
    pub replicas: u32,
    /// How many more than `replicas` may exist while rolling.
    pub max_surge: Limit,
    /// How many fewer than `replicas` may be available because of us.
    pub max_unavailable: Limit,
    /// Who goes first among equals.
    pub delete_policy: DeletePolicy,
    /// The revision that instances should have.
    pub revision: Revision,
    /// How long a node must be Ready before its instance counts as available.
    pub min_ready: SignedDuration,
    /// How long an instance may take from its creation to its first availability.
    pub join_limit: SignedDuration,
    /// How long a node may be not Ready before its instance counts as broken.
    pub unready_limit: SignedDuration,
    /// How long something may go unnoticed or wait for company, to save requests to Azure.
    pub patience: SignedDuration,
    /// Whether somebody else sets the count in Azure itself (R9).
    pub autoscaled: bool,
    /// Whether the pool object is being deleted.
    pub deleting: bool,
}

/// A count or a percentage of the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// So many instances.
    Count(u32),
    /// So many hundredths of the replicas.
    Percent(u32),
}

/// Which instance goes first when several are equally fit to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeletePolicy {
    /// The one that was made first.
    Oldest,
    /// The one that was made last.
    Newest,
    /// By a hash of the name: no preference, and the same answer each time it is asked.
    Random,
}

/// A name for one state of everything that only a new instance can take on.
///
/// Two models with equal revisions need no roll between them. The text is opaque here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Revision(pub String);

/// The scale set as Azure shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleSet {
    /// The capacity asked of Azure; it falls at once when an instance delete is accepted.
    pub capacity: u32,
    /// The revision of its model; `None` when another controller wrote it.
    pub revision: Option<Revision>,
    /// What Azure is doing with it.
    pub provisioning: Provisioning,
}

/// One instance of the scale set, joined with its pool machine and its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Azure's instance id. Azure reuses ids: an instance is (`id`, `vm_id`).
    pub id: String,
    /// Azure's identity of the virtual machine behind the id.
    pub vm_id: String,
    /// When Azure made it.
    pub created: Timestamp,
    /// What Azure is doing with it.
    pub provisioning: Provisioning,
    /// Whether the machine runs.
    pub power: Power,
    /// The availability zone; `None` in a regional pool.
    pub zone: Option<String>,
    /// Whether Azure protects it from scale-in.
    pub protected: bool,
    /// The revision that it was made for; `None` when nothing tells.
    pub revision: Option<Revision>,
    /// Its object in the management cluster; `None` until one is made.
    pub machine: Option<Machine>,
    /// Its node; `None` while none has joined (meaningful only if nodes could be read).
    pub node: Option<Node>,
}

/// What Azure says it is doing with a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Provisioning {
    /// Being made.
    Creating,
    /// Being changed.
    Updating,
    /// At rest.
    Succeeded,
    /// The last operation failed; Azure's code where it gave one.
    Failed(String),
    /// Being deleted.
    Deleting,
}

/// Whether a virtual machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Power {
    /// It runs, or is about to.
    Running,
    /// It is stopped, deallocated, or on the way there.
    Stopped,
    /// Azure does not say (as while an instance is being created).
    Unknown,
}

/// The management cluster's objects for one instance: the pool machine and its owner Machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The name of the pool machine.
    pub name: String,
    /// Whether somebody asked that this one goes first in a scale-down.
    pub delete_marked: bool,
    /// What a health check found, if the machine is to be replaced for it.
    pub unhealthy: Option<Unhealthy>,
    /// Whether it stays, and if not, how far its departure is.
    pub departure: Departure,
}

/// A finding of a health check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unhealthy {
    /// When it was found.
    pub since: Timestamp,
    /// What was found, in words for people.
    pub why: String,
}

/// How far a machine is on its way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Departure {
    /// Nobody asked it to go.
    Staying,
    /// It was asked to go and its node is not yet drained.
    Draining {
        /// Since when.
        since: Timestamp,
        /// What holds the drain up, in words for people; `None` while it advances.
        blocked_by: Option<String>,
    },
    /// Its node is drained, or need not be: the instance may be deleted.
    Drained {
        /// Since when.
        since: Timestamp,
    },
}

/// A node of the workload cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether the Ready condition is true.
    pub ready: bool,
    /// Since when `ready` has had its value.
    pub since: Timestamp,
    /// Whether the node is cordoned for a departure of ours.
    pub cordoned_by_us: bool,
}

impl Observed {
    /// Returns the instances that Azure lists; none if that is not known.
    #[must_use]
    pub fn instances_known(&self) -> &[Instance] {
        match &self.instances {
            Reading::Known(instances) => instances,
            Reading::Unknown(_) => &[],
        }
    }
}

impl Limit {
    /// Returns the limit in instances, a fraction counting as a whole one.
    #[must_use]
    pub fn round_up(self, replicas: u32) -> u32 {
        match self {
            Limit::Count(count) => count,
            Limit::Percent(percent) => saturated(scaled(percent, replicas).div_ceil(100)),
        }
    }

    /// Returns the limit in instances, a fraction counting as none.
    #[must_use]
    pub fn round_down(self, replicas: u32) -> u32 {
        match self {
            Limit::Count(count) => count,
            Limit::Percent(percent) => saturated(scaled(percent, replicas) / 100),
        }
    }
}

fn scaled(percent: u32, replicas: u32) -> u64 {
    u64::from(percent) * u64::from(replicas)
}

fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Instance {
    /// Returns whether Azure has accepted its deletion.
    #[must_use]
    pub fn is_being_deleted(&self) -> bool {
        self.provisioning == Provisioning::Deleting
    }

    /// Returns whether it is on its way out, whoever sent it there.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.is_being_deleted() || self.machine.as_ref().is_some_and(Machine::is_leaving)
    }
}

impl Machine {
    /// Returns whether somebody asked it to go.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.departure != Departure::Staying
    }
}

/// The key that instances are sorted by: ids are numbers in a uniform scale set.
#[must_use]
pub fn instance_order(id: &str) -> (u64, String) {
    (id.parse().unwrap_or(u64::MAX), id.to_owned())
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Count(count) => write!(f, "{count}"),
            Limit::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surge_rounds_up_and_unavailable_rounds_down() {
        let rows = [
            ("10 % of 3", Limit::Percent(10), 3, 1, 0),
            ("34 % of 3", Limit::Percent(34), 3, 2, 1),
            ("20 % of 106", Limit::Percent(20), 106, 22, 21),
            ("0 % of 5", Limit::Percent(0), 5, 0, 0),
            ("100 % of 5", Limit::Percent(100), 5, 5, 5),
            ("2 of 5", Limit::Count(2), 5, 2, 2),
            ("33 % of 0", Limit::Percent(33), 0, 0, 0),
        ];
        for (name, limit, replicas, up, down) in rows {
            assert_eq!(limit.round_up(replicas), up, "{name}");
            assert_eq!(limit.round_down(replicas), down, "{name}");
        }
    }

    #[test]
    fn ids_are_ordered_as_numbers() {
        let mut ids = ["10", "9", "x", "0"];
        ids.sort_by_key(|id| instance_order(id));
        assert_eq!(ids, ["0", "9", "10", "x"]);
    }
}
