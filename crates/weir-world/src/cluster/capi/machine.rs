//! What does core's `Machine` controller do, and in which order does a machine leave?

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::drain::{Drain, drain};
use super::{
    CLUSTER_NAME, CONTROL_PLANE, Capi, ControlPlane, MACHINE_FINALIZER, Next, Servers, cluster_of,
    is_paused, set_controller,
};
use crate::cluster::collect::DeleteOptions;
use crate::cluster::fields::{self, Condition};
use crate::cluster::kinds::resource;
use crate::cluster::kubelet::remove_taint;
use crate::cluster::refusal::Refusal;
use crate::cluster::server::{ApiServer, ObjectName, Target};

/// How long core leaves a draining machine alone between two passes.
const DRAIN_RETRY: SignedDuration = SignedDuration::from_secs(20);

const EXCLUDE_DRAIN: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
const PRE_DRAIN_HOOK: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
const PRE_TERMINATE_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";

/// How far a machine's deletion has come: the reason of its `Deleting` condition.
struct Deleting {
    reason: &'static str,
    message: String,
    next: Next,
}

impl Deleting {
    fn waits(reason: &'static str, message: impl Into<String>) -> Deleting {
        Deleting {
            reason,
            message: message.into(),
            next: Next::Nothing,
        }
    }
}

impl Capi {
    pub(super) fn machine(
        &mut self,
        servers: &mut Servers<'_>,
        id: &ObjectName,
    ) -> Result<Next, Refusal> {
        let target = Target {
            resource: resource::MACHINES.into(),
            id: id.clone(),
        };
        let Some(live) = servers.management.get(&target) else {
            self.deferred.remove(id);
            return Ok(Next::Nothing);
        };
        if let Some(not_before) = self.deferred.get(id)
            && *not_before > self.now
        {
            return Ok(Next::After(not_before.duration_since(self.now)));
        }
        let Some(cluster) = cluster_of(servers.management, &live) else {
            return Ok(Next::Nothing);
        };
        if is_paused(&cluster, &live) {
            return Ok(Next::Nothing);
        }
        let mut machine = (*live).clone();
        if !fields::is_deleting(&machine) && !fields::has_finalizer(&machine, MACHINE_FINALIZER) {
            fields::add_finalizer(&mut machine, MACHINE_FINALIZER);
        }
        fields::set_label(&mut machine, CLUSTER_NAME, fields::name(&cluster));
        let infra = self.machine_infrastructure(servers, &mut machine)?;
        self.machine_node(servers, &mut machine)?;
        let mut next = Next::Nothing;
        if fields::is_deleting(&machine) {
            let step = self.machine_leaves(servers, &cluster, &mut machine, infra.as_deref())?;
            let fresh = Condition {
                condition_type: "Deleting",
                status: "True",
                reason: step.reason,
                message: &step.message,
            };
            fields::set_condition(&mut machine, fresh, self.now);
            next = step.next;
        } else {
            let fresh = Condition {
                condition_type: "Deleting",
                status: "False",
                reason: "NotDeleting",
                message: "",
            };
            fields::set_condition(&mut machine, fresh, self.now);
        }
        summarize(&mut machine, self.now);
        if let Next::After(span) = next {
            self.deferred.insert(id.clone(), self.now + span);
        }
        servers
            .management
            .edit(self.now, &target, "capi", |live| *live = machine)?;
        Ok(next)
    }

    /// Takes over the infrastructure object and copies what it says.
    fn machine_infrastructure(
        &mut self,
        servers: &mut Servers<'_>,
        machine: &mut Value,
    ) -> Result<Option<Arc<Value>>, Refusal> {
        let name = fields::text(machine, "/spec/infrastructureRef/name");
        let target = Target::new(
            resource::AZURE_POOL_MACHINES,
            fields::namespace(machine),
            name,
        );
        let Some(infra) = servers.management.get(&target) else {
            return Ok(None);
        };
        let mut owned = (*infra).clone();
        set_controller(&mut owned, machine)?;
        fields::set_label(
            &mut owned,
            CLUSTER_NAME,
            fields::text(machine, "/spec/clusterName"),
        );
        let infra = servers
            .management
            .edit(self.now, &target, "capi", |live| *live = owned)?;
        if fields::is_deleting(&infra) {
            return Ok(Some(infra));
        }
        fields::set(
            machine,
            "/status/initialization/bootstrapDataSecretCreated",
            json!(true),
        );
        let is_provisioned = fields::flag(&infra, "/status/ready")
            || fields::flag(&infra, "/status/initialization/provisioned");
        if is_provisioned && !fields::text(&infra, "/spec/providerID").is_empty() {
            let provisioned = "/status/initialization/infrastructureProvisioned";
            fields::set(machine, provisioned, json!(true));
            for (from, to) in [
                ("/spec/providerID", "/spec/providerID"),
                ("/status/addresses", "/status/addresses"),
                ("/status/failureDomain", "/status/failureDomain"),
            ] {
                if let Some(value) = fields::at(&infra, from) {
                    fields::set(machine, to, value.clone());
                }
            }
        }
        Ok(Some(infra))
    }

    /// Finds the machine's node by its provider ID.
    fn machine_node(
        &mut self,
        servers: &mut Servers<'_>,
        machine: &mut Value,
    ) -> Result<(), Refusal> {
        let id = fields::text(machine, "/spec/providerID").to_owned();
        if id.is_empty() {
            return Ok(());
        }
        let had_node = fields::at(machine, "/status/nodeRef/name").is_some();
        let is_its = |node: &&Arc<Value>| fields::text(node, "/spec/providerID") == id;
        let node = servers.workload.list(resource::NODES).find(is_its).cloned();
        let Some(node) = node else {
            let reason = if had_node {
                "NodeDeleted"
            } else {
                "NodeDoesNotExist"
            };
            set_node_conditions(machine, "False", reason, self.now);
            return Ok(());
        };
        fields::set(
            machine,
            "/status/nodeRef",
            json!({"name": fields::name(&node)}),
        );
        fields::set(
            machine,
            "/status/nodeInfo",
            node["status"]["nodeInfo"].clone(),
        );
        let owner = fields::controller(machine).cloned().unwrap_or(Value::Null);
        let target = Target::of(resource::NODES, &node);
        servers.workload.edit(self.now, &target, "capi", |node| {
            for (key, value) in [
                (CLUSTER_NAME, fields::text(machine, "/spec/clusterName")),
                (
                    "cluster.x-k8s.io/cluster-namespace",
                    fields::namespace(machine),
                ),
                ("cluster.x-k8s.io/machine", fields::name(machine)),
                ("cluster.x-k8s.io/owner-kind", fields::text(&owner, "/kind")),
                ("cluster.x-k8s.io/owner-name", fields::text(&owner, "/name")),
            ] {
                fields::set_annotation(node, key, value);
            }
            remove_taint(node, "node.cluster.x-k8s.io/uninitialized");
        })?;
        match fields::condition(&node, "Ready") {
            "True" => set_node_conditions(machine, "True", "NodeReady", self.now),
            "Unknown" => set_node_conditions(machine, "Unknown", "NodeReadyUnknown", self.now),
            _ => set_node_conditions(machine, "False", "NodeNotReady", self.now),
        }
        Ok(())
    }

    /// Takes the next step of a deletion: hooks, drain, hooks, infrastructure, node, finalizer.
    fn machine_leaves(
        &mut self,
        servers: &mut Servers<'_>,
        cluster: &Value,
        machine: &mut Value,
        infra: Option<&Value>,
    ) -> Result<Deleting, Refusal> {
        let minds_node = self.minds_node(servers.management, cluster, machine);
        if minds_node {
            if let Some(hooks) = hooks(machine, PRE_DRAIN_HOOK) {
                self.mark_start(machine, "waitForPreDrainHookStartTime");
                let message = format!("Waiting for pre-drain hooks to succeed (hooks: {hooks})");
                return Ok(Deleting::waits("WaitingForPreDrainHook", message));
            }
            if self.may_drain(machine, infra)
                && let Some(step) = self.drain_step(servers, cluster, machine)?
            {
                return Ok(step);
            }
            // No volumes are modelled, so that the wait for them ends where it begins.
            if infra.is_some_and(|infra| !fields::is_deleting(infra)) {
                self.mark_start(machine, "waitForNodeVolumeDetachStartTime");
            }
        }
        if let Some(hooks) = hooks(machine, PRE_TERMINATE_HOOK) {
            self.mark_start(machine, "waitForPreTerminateHookStartTime");
            let message = format!("Waiting for pre-terminate hooks to succeed (hooks: {hooks})");
            return Ok(Deleting::waits("WaitingForPreTerminateHook", message));
        }
        if let Some(infra) = infra {
            if !fields::is_deleting(infra) {
                let target = Target::of(resource::AZURE_POOL_MACHINES, infra);
                servers
                    .management
                    .delete(self.now, &target, &DeleteOptions::by("capi"))?;
            }
            let kind = fields::text(machine, "/spec/infrastructureRef/kind");
            let message = format!("Waiting for {kind} to be deleted");
            return Ok(Deleting::waits("WaitingForInfrastructureDeletion", message));
        }
        let node = Target::new(
            resource::NODES,
            "",
            fields::text(machine, "/status/nodeRef/name"),
        );
        if minds_node && servers.workload.get(&node).is_some() {
            servers
                .workload
                .delete(self.now, &node, &DeleteOptions::by("capi"))?;
        }
        fields::remove_finalizer(machine, MACHINE_FINALIZER);
        Ok(Deleting::waits("DeletionCompleted", "Deletion completed"))
    }

    /// Runs one pass of the drain; `None` when it is complete.
    fn drain_step(
        &mut self,
        servers: &mut Servers<'_>,
        cluster: &Value,
        machine: &mut Value,
    ) -> Result<Option<Deleting>, Refusal> {
        self.mark_start(machine, "nodeDrainStartTime");
        let started = fields::text(machine, "/status/deletion/nodeDrainStartTime").to_owned();
        match drain(self.now, servers, cluster, machine)? {
            Drain::Complete => Ok(None),
            Drain::Blocked(lines) => {
                let mut message = format!("Drain not completed yet (started at {started}):");
                for line in lines {
                    message.push_str("\n* ");
                    message.push_str(&line);
                }
                let next = Next::After(DRAIN_RETRY);
                Ok(Some(Deleting {
                    reason: "DrainingNode",
                    message,
                    next,
                }))
            }
        }
    }

    /// Returns whether core drains and deletes the node at all.
    fn minds_node(&self, management: &ApiServer, cluster: &Value, machine: &Value) -> bool {
        if fields::is_deleting(cluster) || fields::text(machine, "/status/nodeRef/name").is_empty()
        {
            return false;
        }
        let is_control_plane = |machine: &Arc<Value>| {
            let labels = fields::at(machine, "/metadata/labels");
            labels.is_some_and(|labels| labels.get(CONTROL_PLANE).is_some())
        };
        match self.options.control_plane {
            ControlPlane::Present => true,
            ControlPlane::AsObjectsSay => {
                fields::at(cluster, "/spec/controlPlaneRef").is_some()
                    || management
                        .list_in(resource::MACHINES, fields::namespace(machine))
                        .any(is_control_plane)
            }
        }
    }

    fn may_drain(&self, machine: &Value, infra: Option<&Value>) -> bool {
        let terminates =
            fields::at(machine, "/status/deletion/waitForPreTerminateHookStartTime").is_some();
        let infra_stays = infra.is_some_and(|infra| !fields::is_deleting(infra));
        fields::annotation(machine, EXCLUDE_DRAIN).is_none()
            && !terminates
            && infra_stays
            && !self.drain_timed_out(machine)
    }

    fn drain_timed_out(&self, machine: &Value) -> bool {
        let limit = fields::number(machine, "/spec/deletion/nodeDrainTimeoutSeconds");
        let started = fields::time(machine, "/status/deletion/nodeDrainStartTime");
        match (limit, started) {
            (Some(limit), Some(started)) if limit > 0 => {
                self.now.duration_since(started).as_secs() >= limit
            }
            _ => false,
        }
    }

    fn mark_start(&self, machine: &mut Value, field: &str) {
        let pointer = format!("/status/deletion/{field}");
        if fields::at(machine, &pointer).is_none() {
            fields::set(machine, &pointer, json!(fields::stamp(self.now)));
        }
    }
}

fn hooks(machine: &Value, prefix: &str) -> Option<String> {
    let annotations = fields::at(machine, "/metadata/annotations")?.as_object()?;
    let mut found: Vec<&str> = annotations
        .keys()
        .map(String::as_str)
        .filter(|key| key.starts_with(prefix))
        .collect();
    found.sort_unstable();
    (!found.is_empty()).then(|| found.join(","))
}

fn set_node_conditions(machine: &mut Value, status: &str, reason: &str, now: jiff::Timestamp) {
    for condition_type in ["NodeReady", "NodeHealthy"] {
        let reason = match (condition_type, reason) {
            ("NodeHealthy", "NodeReady") => "NodeHealthy",
            ("NodeHealthy", "NodeNotReady") => "NodeNotHealthy",
            ("NodeHealthy", "NodeReadyUnknown") => "NodeHealthyUnknown",
            (_, reason) => reason,
        };
        fields::set_condition(
            machine,
            Condition {
                condition_type,
                status,
                reason,
                message: "",
            },
            now,
        );
    }
}

/// Sets the conditions and the phase that follow from all others.
fn summarize(machine: &mut Value, now: jiff::Timestamp) {
    let is_provisioned = fields::flag(machine, "/status/initialization/infrastructureProvisioned");
    let is_deleting = fields::is_deleting(machine);
    let is_healthy = fields::condition(machine, "NodeHealthy") == "True";
    let is_ready = is_provisioned && is_healthy && !is_deleting;
    let word = |holds: bool| if holds { "True" } else { "False" };
    let pick = |holds: bool, yes: &'static str, no: &'static str| if holds { yes } else { no };
    let fresh = [
        (
            "InfrastructureReady",
            is_provisioned,
            pick(is_provisioned, "Provisioned", "NotProvisioned"),
        ),
        ("Ready", is_ready, pick(is_ready, "Ready", "NotReady")),
        (
            "Available",
            is_ready,
            pick(is_ready, "Available", "NotAvailable"),
        ),
    ];
    for (condition_type, holds, reason) in fresh {
        let status = word(holds);
        fields::set_condition(
            machine,
            Condition {
                condition_type,
                status,
                reason,
                message: "",
            },
            now,
        );
    }
    let has_node = fields::at(machine, "/status/nodeRef/name").is_some();
    let has_id = !fields::text(machine, "/spec/providerID").is_empty();
    let phase = match (is_deleting, has_id, has_node) {
        (true, _, _) => "Deleting",
        (false, true, true) => "Running",
        (false, true, false) => "Provisioned",
        (false, false, _) => "Provisioning",
    };
    fields::set(machine, "/status/phase", json!(phase));
}
