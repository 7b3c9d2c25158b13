//! Shows a state to the planner: every time is chosen to lie on the side that the state says.

use jiff::{SignedDuration, Timestamp};
use weir_core::observed::{
    DeletePolicy, Departure, Instance, Limit, Machine, Node, Observed, Pool, Power, Provisioning,
    Reading, Refusal, Revision, ScaleSet,
};

use crate::config::Config;
use crate::state::{End, Exit, Health, Object, Refused, State, Vm, Work};

const JOIN_LIMIT: SignedDuration = SignedDuration::from_mins(20);
const UNREADY_LIMIT: SignedDuration = SignedDuration::from_mins(10);
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);
const MIN_READY: SignedDuration = SignedDuration::from_secs(30);

/// Names of virtual machines whose hashes rise, so that the policy "by hash" gives the order of
/// the list: every other policy is one of the orders that `orders` tries.
const VM_IDS: [&str; 8] = [
    "vm-3", "vm-2", "vm-1", "vm-0", "vm-7", "vm-6", "vm-5", "vm-4",
];

/// What a turn cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    Nothing,
    ScaleSet,
    Instances,
    Nodes,
}

/// The state as the planner sees it, with the instances in this order.
pub fn observe(config: &Config, state: &State, order: &[u8], unread: Unread) -> Observed {
    let at = now();
    let instances = order.iter().enumerate();
    let instances = instances.map(|(index, byte)| instance(index, Vm::of(*byte)));
    Observed {
        at,
        looked_at: at,
        pool: pool(config, state),
        scale_set: match unread {
            Unread::ScaleSet => Reading::Unknown("the scale set was not read".to_owned()),
            _ => Reading::Known(scale_set(state)),
        },
        instances: match unread {
            Unread::Instances => Reading::Unknown("the instances were not read".to_owned()),
            _ => Reading::Known(instances.collect()),
        },
        orphans: (0..state.orphans)
            .map(|index| machine(format!("gone-{index}"), Departure::Staying))
            .collect(),
        nodes: match unread {
            Unread::Nodes => Reading::Unknown("the nodes were not read".to_owned()),
            _ => Reading::Known(()),
        },
        deletion_due: None,
        refused: refused(state, at),
        owed_since: None,
        deletes_collide: state.collided,
    }
}

/// Every order of the instances that could make the planner choose otherwise.
///
/// The planner sorts by mark and standing first and by age, name and the like last, so only
/// instances of equal mark and standing that differ in something else are put into every order.
/// The instances of one order are the same as the state's.
pub fn orders(state: &State) -> Vec<Vec<u8>> {
    let mut groups: Vec<(u8, Vec<u8>)> = Vec::new();
    for byte in state.bytes() {
        let rank = rank(state, Vm::of(*byte));
        match groups.iter_mut().find(|(known, _)| *known == rank) {
            Some((_, group)) => group.push(*byte),
            None => groups.push((rank, vec![*byte])),
        }
    }
    let mut orders = vec![Vec::new()];
    for (rank, group) in groups {
        let ways = if rank == 0 {
            vec![group]
        } else {
            arrangements(&group)
        };
        orders = orders
            .iter()
            .flat_map(|order: &Vec<u8>| ways.iter().map(|way| [&order[..], &way[..]].concat()))
            .collect();
    }
    orders
}

/// What the planner sorts by first. Whoever is leaving is not sorted.
fn rank(state: &State, vm: Vm) -> u8 {
    let Vm::Here {
        revision,
        health,
        object,
    } = vm
    else {
        return 0;
    };
    let current = revision == state.wanted;
    let standing = match health {
        Health::Serving if current => 1,
        Health::Serving => 2,
        Health::Unready => 3,
        health if health.is_starting() => 4,
        _ if current => 5,
        _ => 6,
    };
    standing << 1 | u8::from(object == Object::Marked)
}

/// Every distinct arrangement of a sorted list.
fn arrangements(sorted: &[u8]) -> Vec<Vec<u8>> {
    if sorted.is_empty() {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    for index in 0..sorted.len() {
        if index > 0 && sorted[index] == sorted[index - 1] {
            continue;
        }
        let mut rest = sorted.to_vec();
        let first = rest.remove(index);
        for mut arrangement in arrangements(&rest) {
            arrangement.insert(0, first);
            found.push(arrangement);
        }
    }
    found
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1000)
}

fn ago(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

fn revision(number: u8) -> Revision {
    Revision(format!("v{number}"))
}

fn pool(config: &Config, state: &State) -> Pool {
    Pool {
        name: "pool".to_owned(),
        replicas: u32::from(state.replicas),
        max_surge: Limit::Count(u32::from(config.surge)),
        max_unavailable: Limit::Count(u32::from(config.unavailable)),
        delete_policy: DeletePolicy::Random,
        revision: revision(state.wanted),
        min_ready: if config.min_ready {
            MIN_READY
        } else {
            SignedDuration::ZERO
        },
        join_limit: JOIN_LIMIT,
        unready_limit: UNREADY_LIMIT,
        patience: if config.patience {
            PATIENCE
        } else {
            SignedDuration::ZERO
        },
        autoscaled: config.autoscaled,
        deleting: state.end != End::Stays,
    }
}

fn scale_set(state: &State) -> Option<ScaleSet> {
    let set = state.set?;
    Some(ScaleSet {
        capacity: u32::from(set.capacity),
        revision: Some(revision(set.revision)),
        provisioning: match set.work {
            Work::Creating => Provisioning::Creating,
            Work::Updating => Provisioning::Updating,
            Work::Done => Provisioning::Succeeded,
            Work::Failed => Provisioning::Failed("OperationFailed".to_owned()),
            Work::Deleting => Provisioning::Deleting,
        },
    })
}

fn refused(state: &State, at: Timestamp) -> Option<Refusal> {
    let (fits, retry_at) = match state.refused {
        Refused::No => return None,
        Refused::Stands(fits) => (fits, at + SignedDuration::from_mins(10)),
        Refused::Due(fits) => (fits, ago(1)),
    };
    Some(Refusal {
        code: "QuotaExceeded".to_owned(),
        message: "the quota is used up".to_owned(),
        since: ago(30),
        retry_at,
        fits: u32::from(fits),
    })
}

fn machine(name: String, departure: Departure) -> Machine {
    Machine {
        name,
        delete_marked: false,
        unhealthy: None,
        departure,
    }
}

fn node(index: usize, ready: bool, since: Timestamp) -> Option<Node> {
    Some(Node {
        name: format!("node-{index}"),
        ready,
        since,
        cordoned_by_us: false,
    })
}

fn instance(index: usize, vm: Vm) -> Instance {
    let mut instance = Instance {
        id: index.to_string(),
        vm_id: VM_IDS[index].to_owned(),
        created: ago(600),
        provisioning: Provisioning::Succeeded,
        power: Power::Running,
        zone: None,
        protected: false,
        revision: None,
        machine: None,
        node: None,
    };
    match vm {
        Vm::Here {
            revision: number,
            health,
            object,
        } => {
            instance.revision = Some(revision(number));
            set_health(&mut instance, index, health);
            if object != Object::None {
                let mut machine = machine(format!("pool-{index}"), Departure::Staying);
                machine.delete_marked = object == Object::Marked;
                instance.machine = Some(machine);
            }
        }
        Vm::Going(exit) => set_exit(&mut instance, index, exit),
    }
    instance
}

fn set_health(instance: &mut Instance, index: usize, health: Health) {
    let failed = || Provisioning::Failed("OSProvisioningTimedOut".to_owned());
    match health {
        Health::Creating | Health::CreatingLate => {
            instance.provisioning = Provisioning::Creating;
            instance.power = Power::Unknown;
            instance.created = ago(if health == Health::Creating { 1 } else { 21 });
        }
        Health::Joining => instance.created = ago(1),
        Health::Late => instance.created = ago(21),
        Health::LateAncient => instance.created = ago(61),
        Health::Failed => (instance.provisioning, instance.created) = (failed(), ago(1)),
        Health::FailedAncient => (instance.provisioning, instance.created) = (failed(), ago(61)),
        Health::Settling => {
            let since = now() - SignedDuration::from_secs(1);
            instance.node = node(index, true, since);
        }
        Health::Serving => instance.node = node(index, true, ago(540)),
        Health::UnreadyYoung => {
            instance.created = ago(2);
            instance.node = node(index, false, ago(1));
        }
        Health::Unready => instance.node = node(index, false, ago(1)),
        Health::Dead => instance.node = node(index, false, ago(11)),
        Health::DeadAncient => instance.node = node(index, false, ago(120)),
        Health::Stopped | Health::StoppedAncient => {
            instance.power = Power::Stopped;
            instance.created = ago(if health == Health::Stopped { 2 } else { 600 });
            instance.node = node(index, false, ago(1));
        }
    }
}

fn set_exit(instance: &mut Instance, index: usize, exit: Exit) {
    instance.node = node(index, true, ago(540));
    let departure = match exit {
        Exit::Draining => Departure::Draining {
            since: ago(1),
            blocked_by: None,
        },
        Exit::Blocked => Departure::Draining {
            since: ago(1),
            blocked_by: Some("budget web/api".to_owned()),
        },
        Exit::JustDrained => Departure::Drained { since: now() },
        Exit::Drained | Exit::Deleting => Departure::Drained { since: ago(10) },
        Exit::DeletingBare => Departure::Staying,
    };
    if matches!(exit, Exit::Deleting | Exit::DeletingBare) {
        instance.provisioning = Provisioning::Deleting;
    }
    if exit != Exit::DeletingBare {
        instance.machine = Some(machine(format!("pool-{index}"), departure));
    }
}
