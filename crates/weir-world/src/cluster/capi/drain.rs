//! Which pods does one pass of a drain evict, and what is left?

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Servers;
use crate::cluster::collect::DeleteOptions;
use crate::cluster::fields;
use crate::cluster::kinds::resource;
use crate::cluster::kubelet::{has_taint, is_daemon, pods_on};
use crate::cluster::refusal::Refusal;
use crate::cluster::selector::Selector;
use crate::cluster::server::{ApiServer, Target};

/// What a pass of a drain came to.
pub(super) enum Drain {
    /// No pod is left that has to go.
    Complete,
    /// Something is left: one line per cause.
    Blocked(Vec<String>),
}

/// What is to be done with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behavior {
    Skip,
    WaitCompleted,
    Drain { order: i64 },
}

/// Cordons a machine's node and evicts what may be evicted now.
pub(super) fn drain(
    now: Timestamp,
    servers: &mut Servers<'_>,
    cluster: &Value,
    machine: &Value,
) -> Result<Drain, Refusal> {
    let target = Target::new(
        resource::NODES,
        "",
        fields::text(machine, "/status/nodeRef/name"),
    );
    let Some(node) = servers.workload.get(&target) else {
        return Ok(Drain::Complete);
    };
    servers
        .workload
        .edit(now, &target, "capi (cordon)", |node| {
            fields::set(node, "/spec/unschedulable", json!(true));
        })?;
    let is_unreachable = has_taint(&node, "node.kubernetes.io/unreachable");
    let rules = matching_rules(servers.management, cluster, machine);
    let pods: Vec<(Arc<Value>, Behavior)> = pods_on(servers.workload, &target.id.name)
        .into_iter()
        .filter(|pod| !(is_unreachable && is_long_gone(pod, now)))
        .map(|pod| {
            let behavior = behavior(&pod, &rules, servers.workload);
            (pod, behavior)
        })
        .filter(|(_, behavior)| *behavior != Behavior::Skip)
        .collect();
    if pods.is_empty() {
        return Ok(Drain::Complete);
    }
    let lines = evict(now, servers.workload, &pods, is_unreachable);
    Ok(if lines.is_empty() {
        Drain::Complete
    } else {
        Drain::Blocked(lines)
    })
}

fn evict(
    now: Timestamp,
    workload: &mut ApiServer,
    pods: &[(Arc<Value>, Behavior)],
    is_unreachable: bool,
) -> Vec<String> {
    let first = pods.iter().filter_map(|(_, behavior)| match behavior {
        Behavior::Drain { order } => Some(*order),
        Behavior::Skip | Behavior::WaitCompleted => None,
    });
    let first = first.min();
    let mut lines = Vec::new();
    for (pod, behavior) in pods {
        let name = format!("Pod {}/{}", fields::namespace(pod), fields::name(pod));
        match behavior {
            Behavior::Skip => {}
            Behavior::WaitCompleted => lines.push(format!("{name}: waiting for completion")),
            Behavior::Drain { .. } if fields::is_deleting(pod) => lines.push(format!(
                "{name}: deletionTimestamp set, but still not removed from the Node"
            )),
            Behavior::Drain { order } if Some(*order) != first => {
                lines.push(format!("{name}: eviction later"));
            }
            Behavior::Drain { .. } => {
                let mut options = DeleteOptions::by("capi (drain)");
                if is_unreachable {
                    options.grace_period_seconds = Some(1);
                }
                let (namespace, id) = (fields::namespace(pod), fields::name(pod));
                match workload.evict(now, namespace, id, &options) {
                    Ok(()) => lines.push(format!(
                        "{name}: deletionTimestamp set, but still not removed from the Node"
                    )),
                    Err(refusal) if refusal.code == 404 => {}
                    Err(refusal) => {
                        let cause = refusal.causes.first().map_or("", |(_, cause)| cause);
                        lines.push(format!("{name}: {} {cause}", refusal.message));
                    }
                }
            }
        }
    }
    lines
}

/// On an unreachable node, pods that were to be gone more than a second ago are ignored.
fn is_long_gone(pod: &Value, now: Timestamp) -> bool {
    fields::time(pod, "/metadata/deletionTimestamp")
        .is_some_and(|end| now.duration_since(end).as_secs() > 1)
}

fn behavior(pod: &Value, rules: &[Arc<Value>], workload: &ApiServer) -> Behavior {
    let phase = fields::text(pod, "/status/phase");
    let is_over = phase == "Succeeded" || phase == "Failed";
    if is_daemon(pod) && !is_over {
        let owner = fields::controller(pod).map_or("", |owner| fields::text(owner, "/name"));
        let set = Target::new(resource::DAEMON_SETS, fields::namespace(pod), owner);
        if workload.get(&set).is_some() {
            return Behavior::Skip;
        }
    }
    if fields::annotation(pod, "kubernetes.io/config.mirror").is_some() {
        return Behavior::Skip;
    }
    match fields::label(pod, "cluster.x-k8s.io/drain")
        .to_lowercase()
        .as_str()
    {
        "skip" => return Behavior::Skip,
        "wait-completed" | "waitcompleted" => return Behavior::WaitCompleted,
        _ => {}
    }
    let namespace = Target::new(resource::NAMESPACES, "", fields::namespace(pod));
    let namespace = workload.get(&namespace);
    let namespace = namespace.as_deref().unwrap_or(&Value::Null);
    let picks = |choice: &Value| {
        picks(choice, "selector", pod) && picks(choice, "namespaceSelector", namespace)
    };
    let rule = rules.iter().find(|rule| {
        let choices = fields::list(rule, "/spec/pods");
        choices.is_empty() || choices.iter().any(picks)
    });
    let Some(rule) = rule else {
        return Behavior::Drain { order: 0 };
    };
    match fields::text(rule, "/spec/drain/behavior") {
        "Skip" => Behavior::Skip,
        "WaitCompleted" => Behavior::WaitCompleted,
        _ => Behavior::Drain {
            order: fields::number(rule, "/spec/drain/order").unwrap_or(0),
        },
    }
}

/// Returns the drain rules for a machine, by name.
fn matching_rules(management: &ApiServer, cluster: &Value, machine: &Value) -> Vec<Arc<Value>> {
    let picks = |choice: &Value| {
        picks(choice, "selector", machine) && picks(choice, "clusterSelector", cluster)
    };
    management
        .list_in(resource::DRAIN_RULES, fields::namespace(machine))
        .filter(|rule| {
            let choices = fields::list(rule, "/spec/machines");
            choices.is_empty() || choices.iter().any(picks)
        })
        .cloned()
        .collect()
}

/// An absent or empty selector picks everything.
fn picks(choice: &Value, field: &str, object: &Value) -> bool {
    choice
        .get(field)
        .and_then(Selector::from_object)
        .is_none_or(|selector| selector.matches(object))
}
