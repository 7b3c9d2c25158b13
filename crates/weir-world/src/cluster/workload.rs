//! Which pods should exist, on which node, and how many of them may be disturbed?
//!
//! Deployments, replica sets, daemon sets, the scheduler and the disruption controller, each as
//! simple as a node rollout can tell.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::agenda::Agenda;
use super::collect::DeleteOptions;
use super::draw::{Draws, Latency};
use super::eviction::covers;
use super::fields;
use super::kinds::resource;
use super::kubelet::pods_on;
use super::server::{ApiServer, Change, ObjectName, Target, WriteOptions};

/// A deployment with its disruption budget, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Namespace of both.
    pub namespace: String,
    /// Name of both, and the value of the label `app` of the pods.
    pub name: String,
    /// How many pods.
    pub replicas: i64,
    /// The budget's `minAvailable`, an integer or a percentage; `None` makes no budget.
    pub min_available: Option<String>,
    /// The pods' grace period.
    pub grace_period_seconds: i64,
}

impl WorkloadSpec {
    /// A deployment in namespace `default` without a budget.
    pub fn new(name: &str, replicas: i64) -> WorkloadSpec {
        WorkloadSpec {
            namespace: "default".into(),
            name: name.into(),
            replicas,
            min_available: None,
            grace_period_seconds: 30,
        }
    }

    /// The same with a budget of this `minAvailable`, such as `2` or `50%`.
    #[must_use]
    pub fn with_min_available(mut self, min_available: &str) -> WorkloadSpec {
        self.min_available = Some(min_available.into());
        self
    }

    /// Returns the objects to create.
    pub fn objects(&self) -> Vec<Value> {
        let labels = json!({"app": self.name});
        let metadata = json!({"namespace": self.namespace, "name": self.name, "labels": labels});
        let mut objects = vec![json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": metadata, "spec": {"replicas": self.replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "terminationGracePeriodSeconds": self.grace_period_seconds,
                    "containers": [{"name": "main", "image": "app"}]}}}})];
        if let Some(min_available) = &self.min_available {
            let limit = min_available
                .parse::<i64>()
                .map_or(json!(min_available), |n| json!(n));
            objects.push(
                json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": metadata, "spec": {"minAvailable": limit,
                    "selector": {"matchLabels": labels}}}),
            );
        }
        objects
    }
}

/// How long controllers take to react.
const REACTION: Latency = Latency::from_millis(150, 100);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Deployment(ObjectName),
    ReplicaSet(ObjectName),
    DaemonSet(ObjectName),
    Budget(ObjectName),
    Schedule,
}

/// The controllers of pods, and the scheduler.
#[derive(Debug)]
pub struct Workloads {
    agenda: Agenda<Task>,
    draws: Draws,
    now: Timestamp,
}

impl Workloads {
    /// Starts with nothing to do.
    pub fn new(seed: u64) -> Workloads {
        let draws = Draws::new(seed, "workloads");
        Workloads {
            agenda: Agenda::default(),
            draws,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    /// Takes note of a change in the workload cluster.
    pub fn observe(&mut self, now: Timestamp, change: &Change, server: &ApiServer) {
        let id = change.target.id.clone();
        match change.target.resource.as_str() {
            resource::DEPLOYMENTS => self.soon(now, Task::Deployment(id)),
            resource::REPLICA_SETS => {
                self.soon(now, Task::ReplicaSet(id));
                self.owner_soon(now, &change.object);
            }
            resource::DAEMON_SETS => self.soon(now, Task::DaemonSet(id)),
            resource::BUDGETS => self.soon(now, Task::Budget(id)),
            resource::NODES => {
                self.soon(now, Task::Schedule);
                for set in server.list(resource::DAEMON_SETS) {
                    let target = Target::of(resource::DAEMON_SETS, set);
                    self.soon(now, Task::DaemonSet(target.id));
                }
            }
            resource::PODS => {
                self.owner_soon(now, &change.object);
                if fields::text(&change.object, "/spec/nodeName").is_empty() {
                    self.soon(now, Task::Schedule);
                }
                for budget in server.list_in(resource::BUDGETS, &id.namespace) {
                    if covers(budget, &change.object) {
                        let target = Target::of(resource::BUDGETS, budget);
                        self.soon(now, Task::Budget(target.id));
                    }
                }
            }
            _ => {}
        }
    }

    fn owner_soon(&mut self, now: Timestamp, object: &Value) {
        let Some(owner) = fields::controller(object) else {
            return;
        };
        let id = ObjectName {
            namespace: fields::namespace(object).to_owned(),
            name: fields::text(owner, "/name").to_owned(),
        };
        match fields::text(owner, "/kind") {
            "ReplicaSet" => self.soon(now, Task::ReplicaSet(id)),
            "Deployment" => self.soon(now, Task::Deployment(id)),
            "DaemonSet" => self.soon(now, Task::DaemonSet(id)),
            _ => {}
        }
    }

    fn soon(&mut self, now: Timestamp, task: Task) {
        if !self.agenda.contains(&task) {
            let at = self.draws.due(now, REACTION);
            self.agenda.add(at, task);
        }
    }

    /// Returns when something is to be done.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.agenda.next_due()
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Timestamp, server: &mut ApiServer) {
        self.now = now;
        while let Some(task) = self.agenda.pop(now) {
            match task {
                Task::Deployment(id) => self.deployment(server, id),
                Task::ReplicaSet(id) => self.replica_set(server, id),
                Task::DaemonSet(id) => self.daemon_set(server, id),
                Task::Budget(id) => self.budget(server, id),
                Task::Schedule => self.schedule(server),
            }
        }
    }

    /// Keeps one replica set per deployment; a new template changes it in place.
    fn deployment(&self, server: &mut ApiServer, id: ObjectName) {
        let target = Target {
            resource: resource::DEPLOYMENTS.into(),
            id,
        };
        let Some(deployment) = server.get(&target) else {
            return;
        };
        if fields::is_deleting(&deployment) {
            return;
        }
        let set = Target::new(
            resource::REPLICA_SETS,
            &target.id.namespace,
            &format!("{}-main", target.id.name),
        );
        let spec = deployment["spec"].clone();
        match server.get(&set) {
            Some(live) => {
                let edited = server.edit(self.now, &set, "deployment", |set| {
                    for field in ["replicas", "template"] {
                        set["spec"][field] = spec[field].clone();
                    }
                });
                edited.expect("the replica set was just read");
                let edited = server.edit(self.now, &target, "deployment", |deployment| {
                    let generation = deployment["metadata"]["generation"].clone();
                    fields::set(deployment, "/status/observedGeneration", generation);
                    for field in ["replicas", "readyReplicas", "availableReplicas"] {
                        let count = fields::at(&live, &format!("/status/{field}")).cloned();
                        let count = count.unwrap_or(json!(0));
                        fields::set(deployment, &format!("/status/{field}"), count);
                    }
                });
                edited.expect("the deployment was just read");
            }
            None => {
                let object = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "metadata": {"namespace": set.id.namespace, "name": set.id.name,
                        "labels": spec["template"]["metadata"]["labels"],
                        "ownerReferences": [controlled_by(&deployment)]},
                    "spec": {"replicas": spec["replicas"], "selector": spec["selector"],
                        "template": spec["template"]}});
                self.create(server, object, "deployment");
            }
        }
    }

    fn replica_set(&self, server: &mut ApiServer, id: ObjectName) {
        let target = Target {
            resource: resource::REPLICA_SETS.into(),
            id,
        };
        let Some(set) = server.get(&target) else {
            return;
        };
        if fields::is_deleting(&set) {
            return;
        }
        let wanted = fields::number(&set, "/spec/replicas").unwrap_or(1).max(0) as usize;
        let mut active = owned_pods(server, &set);
        active.retain(|pod| is_active(pod));
        for _ in active.len()..wanted {
            self.create(server, pod_of(&set), "replicaset");
        }
        // Pods that are not ready leave first, then the youngest, as kube-controller-manager does.
        active.sort_by_key(|pod| {
            (
                fields::is_ready(pod),
                std::cmp::Reverse(creation(pod)),
                fields::name(pod).to_owned(),
            )
        });
        for pod in active.iter().take(active.len().saturating_sub(wanted)) {
            let pod = Target::of(resource::PODS, pod);
            let deleted = server.delete(self.now, &pod, &DeleteOptions::by("replicaset"));
            deleted.expect("the pod was just listed");
        }
        let ready = active.iter().filter(|pod| fields::is_ready(pod)).count();
        let edited = server.edit(self.now, &target, "replicaset", |set| {
            fields::set(set, "/status/replicas", json!(active.len()));
            fields::set(set, "/status/readyReplicas", json!(ready));
            fields::set(set, "/status/availableReplicas", json!(ready));
        });
        edited.expect("the replica set was just read");
    }

    fn daemon_set(&self, server: &mut ApiServer, id: ObjectName) {
        let target = Target {
            resource: resource::DAEMON_SETS.into(),
            id,
        };
        let Some(set) = server.get(&target) else {
            return;
        };
        if fields::is_deleting(&set) {
            return;
        }
        let pods = owned_pods(server, &set);
        let nodes: Vec<String> = server
            .list(resource::NODES)
            .map(|node| fields::name(node).to_owned())
            .collect();
        for node in nodes {
            let has_one = pods
                .iter()
                .any(|pod| fields::text(pod, "/spec/nodeName") == node);
            if !has_one {
                let mut pod = pod_of(&set);
                fields::set(&mut pod, "/spec/nodeName", json!(node));
                self.create(server, pod, "daemonset");
            }
        }
    }

    fn create(&self, server: &mut ApiServer, object: Value, by: &str) {
        let created = server.create(self.now, object, &WriteOptions::controller(by));
        created.expect("what the world's own controllers create is well formed and new");
    }

    /// Binds pods that wait to the schedulable node with the fewest pods of the same owner, then
    /// the fewest pods.
    fn schedule(&self, server: &mut ApiServer) {
        let waiting: Vec<Arc<Value>> = server
            .list(resource::PODS)
            .filter(|pod| fields::text(pod, "/spec/nodeName").is_empty() && is_active(pod))
            .cloned()
            .collect();
        for pod in waiting {
            let owner = fields::controller(&pod).map_or("", |owner| fields::text(owner, "/uid"));
            let crowding = |node: &Value| {
                let pods = pods_on(server, fields::name(node));
                let pods = pods.iter().filter(|pod| is_active(pod));
                let same = pods.clone().filter(|pod| {
                    fields::controller(pod)
                        .is_some_and(|other| fields::text(other, "/uid") == owner)
                });
                (same.count(), pods.count(), fields::name(node).to_owned())
            };
            let nodes = server
                .list(resource::NODES)
                .filter(|node| takes(node, &pod));
            let Some(node) = nodes.map(|node| crowding(node)).min() else {
                continue;
            };
            let target = Target::of(resource::PODS, &pod);
            let bound = server.edit(self.now, &target, "scheduler", |pod| {
                fields::set(pod, "/spec/nodeName", json!(node.2));
            });
            bound.expect("the pod was just listed");
        }
    }

    /// Recomputes the status of a disruption budget.
    fn budget(&self, server: &mut ApiServer, id: ObjectName) {
        let target = Target {
            resource: resource::BUDGETS.into(),
            id,
        };
        let Some(budget) = server.get(&target) else {
            return;
        };
        let pods: Vec<Arc<Value>> = server
            .list_in(resource::PODS, &target.id.namespace)
            .filter(|pod| covers(&budget, pod) && !is_over(pod))
            .cloned()
            .collect();
        let expected = expected_pods(server, &budget, &pods);
        let healthy = pods
            .iter()
            .filter(|pod| fields::is_ready(pod) && !fields::is_deleting(pod))
            .count() as i64;
        let desired = desired_healthy(&budget, expected, pods.len() as i64);
        let allowed = if expected == 0 {
            0
        } else {
            (healthy - desired).max(0)
        };
        let edited = server.edit(self.now, &target, "disruption", |budget| {
            let generation = budget["metadata"]["generation"].clone();
            budget["status"] = json!({"observedGeneration": generation,
                "disruptionsAllowed": allowed, "currentHealthy": healthy,
                "desiredHealthy": desired, "expectedPods": expected});
        });
        edited.expect("the budget was just read");
    }
}

/// With a plain `minAvailable` the pods are counted; otherwise their owners say how many.
fn expected_pods(server: &ApiServer, budget: &Value, pods: &[Arc<Value>]) -> i64 {
    if fields::at(budget, "/spec/minAvailable").is_some_and(Value::is_number) {
        return pods.len() as i64;
    }
    let mut owners = BTreeMap::new();
    for pod in pods {
        let Some(owner) = fields::controller(pod) else {
            continue;
        };
        let key = match fields::text(owner, "/kind") {
            "ReplicaSet" => resource::REPLICA_SETS,
            _ => continue,
        };
        let name = fields::text(owner, "/name");
        let target = Target::new(key, fields::namespace(pod), name);
        let replicas = server
            .get(&target)
            .and_then(|set| fields::number(&set, "/spec/replicas"));
        owners.insert(target, replicas.unwrap_or(0));
    }
    owners.values().sum()
}

fn desired_healthy(budget: &Value, expected: i64, matching: i64) -> i64 {
    // Percentages round up in both fields (`pkg/controller/disruption`).
    let scaled = |limit: &Value, of: i64| match limit {
        Value::String(text) => {
            let percent = text.trim_end_matches('%').parse::<i64>().unwrap_or(0);
            (percent * of + 99) / 100
        }
        limit => limit.as_i64().unwrap_or(0),
    };
    match (
        fields::at(budget, "/spec/maxUnavailable"),
        fields::at(budget, "/spec/minAvailable"),
    ) {
        (Some(limit), _) => (expected - scaled(limit, expected)).max(0),
        (None, Some(limit)) => scaled(limit, expected),
        (None, None) => matching,
    }
}

fn takes(node: &Value, pod: &Value) -> bool {
    let blocks = |taint: &Value| fields::text(taint, "/effect") != "PreferNoSchedule";
    let wanted = fields::at(pod, "/spec/nodeSelector").and_then(Value::as_object);
    let has_labels = wanted.into_iter().flatten().all(|(key, value)| {
        value
            .as_str()
            .is_some_and(|value| fields::label(node, key) == value)
    });
    fields::is_ready(node)
        && !fields::flag(node, "/spec/unschedulable")
        && !fields::list(node, "/spec/taints").iter().any(blocks)
        && has_labels
}

fn pod_of(set: &Value) -> Value {
    let template = &set["spec"]["template"];
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": fields::namespace(set),
            "generateName": format!("{}-", fields::name(set)),
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": [controlled_by(set)]},
        "spec": template["spec"], "status": {"phase": "Pending"}})
}

/// Returns the owner reference of a controller.
pub(super) fn controlled_by(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": fields::name(owner),
        "uid": fields::uid(owner), "controller": true, "blockOwnerDeletion": true})
}

fn owned_pods(server: &ApiServer, owner: &Value) -> Vec<Arc<Value>> {
    let uid = fields::uid(owner);
    server
        .list_in(resource::PODS, fields::namespace(owner))
        .filter(|pod| {
            fields::controller(pod).is_some_and(|owner| fields::text(owner, "/uid") == uid)
        })
        .cloned()
        .collect()
}

fn is_over(pod: &Value) -> bool {
    matches!(fields::text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn is_active(pod: &Value) -> bool {
    !is_over(pod) && !fields::is_deleting(pod)
}

fn creation(pod: &Value) -> String {
    fields::text(pod, "/metadata/creationTimestamp").to_owned()
}
