//! What does core's `MachinePool` controller do?

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    CLUSTER_NAME, Capi, Next, POOL_FINALIZER, POOL_NAME, Servers, cluster_of, is_paused,
    label_value, set_controller,
};
use crate::cluster::apply::Force;
use crate::cluster::collect::DeleteOptions;
use crate::cluster::fields;
use crate::cluster::kinds::resource;
use crate::cluster::kubelet::remove_taint;
use crate::cluster::refusal::Refusal;
use crate::cluster::server::{ApiServer, DryRun, ObjectName, Reach, Target, WriteOptions};

/// How soon core looks again while nodes are missing.
const NODES_MISSING: SignedDuration = SignedDuration::from_secs(30);

type Nodes = BTreeMap<String, Arc<Value>>;

/// Returns the name in the pool's infrastructure reference.
pub(super) fn infrastructure_name(pool: &Value) -> &str {
    fields::text(pool, "/spec/template/spec/infrastructureRef/name")
}

impl Capi {
    pub(super) fn pool(
        &mut self,
        servers: &mut Servers<'_>,
        id: &ObjectName,
    ) -> Result<Next, Refusal> {
        let target = Target {
            resource: resource::MACHINE_POOLS.into(),
            id: id.clone(),
        };
        let Some(pool) = servers.management.get(&target) else {
            return Ok(Next::Nothing);
        };
        let Some(cluster) = cluster_of(servers.management, &pool) else {
            return Ok(Next::Nothing);
        };
        if is_paused(&cluster, &pool) {
            return Ok(Next::Nothing);
        }
        if fields::is_deleting(&pool) {
            return self.delete_pool(servers, &target, &pool);
        }
        let mut pool = (*servers.management.edit(self.now, &target, "capi", |pool| {
            fields::add_finalizer(pool, POOL_FINALIZER);
            fields::set_label(pool, CLUSTER_NAME, fields::name(&cluster));
            adopt_by_cluster(pool, &cluster);
            if fields::at(pool, "/spec/template/spec/bootstrap/dataSecretName").is_some() {
                let created = "/status/initialization/bootstrapDataSecretCreated";
                fields::set(pool, created, json!(true));
            }
        })?)
        .clone();
        let mut nodes: Nodes = Nodes::new();
        for node in servers.workload.list(resource::NODES) {
            nodes.insert(
                fields::text(node, "/spec/providerID").to_owned(),
                node.clone(),
            );
        }
        let outcome = self.pool_infrastructure(servers, &mut pool, &nodes);
        let next = match &outcome {
            Ok(()) => self.pool_nodes(servers, &mut pool, &nodes)?,
            Err(_) => Next::Nothing,
        };
        count_machines(servers.management, &mut pool);
        set_phase(&mut pool);
        servers
            .management
            .edit(self.now, &target, "capi", |live| *live = pool)?;
        self.set_machines_up_to_date(servers, id)?;
        outcome.map(|()| next)
    }

    fn pool_infrastructure(
        &mut self,
        servers: &mut Servers<'_>,
        pool: &mut Value,
        nodes: &Nodes,
    ) -> Result<(), Refusal> {
        let namespace = fields::namespace(pool);
        let infra = Target::new(resource::AZURE_POOLS, namespace, infrastructure_name(pool));
        let Some(azure_pool) = servers.management.get(&infra) else {
            return Err(Refusal::not_found(&infra.resource, &infra.id.name));
        };
        let mut owned = (*azure_pool).clone();
        set_controller(&mut owned, pool)?;
        fields::set_label(
            &mut owned,
            CLUSTER_NAME,
            fields::text(pool, "/spec/clusterName"),
        );
        let azure_pool = servers
            .management
            .edit(self.now, &infra, "capi", |live| *live = owned)?;
        check_failure_fields(&azure_pool)?;
        if fields::is_deleting(&azure_pool) {
            return Ok(());
        }
        // Core reads the v1beta1 field here, and it may go back to false.
        let is_ready = fields::flag(&azure_pool, "/status/ready");
        let provisioned = "/status/initialization/infrastructureProvisioned";
        fields::set(pool, provisioned, json!(is_ready));
        self.pool_machines(servers, pool, &azure_pool, nodes)?;
        if !is_ready {
            return Ok(());
        }
        if let Some(replicas) = fields::at(&azure_pool, "/status/replicas") {
            fields::set(pool, "/status/replicas", replicas.clone());
        }
        let ids = fields::list(&azure_pool, "/spec/providerIDList");
        let replicas = fields::number(pool, "/status/replicas").unwrap_or(0);
        if ids.is_empty() && replicas != 0 {
            return Ok(());
        }
        if ids != fields::list(pool, "/spec/providerIDList") {
            fields::set(pool, "/spec/providerIDList", json!(ids));
            set_legacy_counts(pool, 0, 0);
        }
        Ok(())
    }

    /// Makes a machine for each pool machine of the provider.
    fn pool_machines(
        &mut self,
        servers: &mut Servers<'_>,
        pool: &Value,
        azure_pool: &Value,
        nodes: &Nodes,
    ) -> Result<(), Refusal> {
        if fields::text(azure_pool, "/status/infrastructureMachineKind").is_empty() {
            return Ok(());
        }
        let is_its = |object: &&Arc<Value>| is_of_pool(object, pool);
        let namespace = fields::namespace(pool);
        let found: Vec<Arc<Value>> = servers
            .management
            .list_in(resource::AZURE_POOL_MACHINES, namespace)
            .filter(is_its)
            .cloned()
            .collect();
        for infra in found {
            let node = nodes.get(fields::text(&infra, "/spec/providerID"));
            let machine = desired_machine(pool, &infra, node.map(|node| &**node));
            let target = Target::new(resource::MACHINES, namespace, fields::name(&infra));
            let options = WriteOptions {
                manager: "capi-machinepool".into(),
                reach: Reach::Main,
                dry_run: DryRun::No,
            };
            servers
                .management
                .apply(self.now, &target, &options, machine, Force::Yes)?;
        }
        Ok(())
    }

    /// Finds the pool's nodes, and deletes the nodes of instances that left its list.
    fn pool_nodes(
        &mut self,
        servers: &mut Servers<'_>,
        pool: &mut Value,
        nodes: &Nodes,
    ) -> Result<Next, Refusal> {
        let replicas = fields::number(pool, "/status/replicas").unwrap_or(0);
        let ready = fields::number(pool, "/status/deprecated/v1beta1/readyReplicas").unwrap_or(0);
        let refs = fields::list(pool, "/status/nodeRefs");
        let is_alive = |reference: &Value| {
            let uid = fields::text(reference, "/uid");
            nodes.values().any(|node| fields::uid(node) == uid)
        };
        if replicas == ready && refs.len() as i64 == ready && refs.iter().all(is_alive) {
            return Ok(Next::Nothing);
        }
        let ids: Vec<String> = fields::list(pool, "/spec/providerIDList")
            .iter()
            .filter_map(|id| id.as_str().map(str::to_owned))
            .collect();
        if ids.is_empty() && fields::number(pool, "/spec/replicas") != Some(0) {
            return Ok(Next::Nothing);
        }
        self.delete_retired_nodes(servers, pool, &ids)?;
        let found: Vec<&Arc<Value>> = ids.iter().filter_map(|id| nodes.get(id)).collect();
        if found.is_empty() && !ids.is_empty() {
            return Ok(Next::Nothing);
        }
        let ready = found.iter().filter(|node| fields::is_ready(node)).count() as i64;
        set_legacy_counts(pool, ready, ready);
        let reference = |node: &&Arc<Value>| {
            json!({"apiVersion": "v1", "kind": "Node", "name": fields::name(node),
                "uid": fields::uid(node)})
        };
        let refs: Vec<Value> = found.iter().map(reference).collect();
        fields::set(pool, "/status/nodeRefs", json!(refs));
        for node in &found {
            self.mark_node(servers.workload, node, pool)?;
        }
        let is_short = replicas != ready || found.len() as i64 != ready;
        Ok(if is_short {
            Next::After(NODES_MISSING)
        } else {
            Next::Nothing
        })
    }

    fn mark_node(
        &mut self,
        workload: &mut ApiServer,
        node: &Value,
        pool: &Value,
    ) -> Result<(), Refusal> {
        let target = Target::of(resource::NODES, node);
        if workload.get(&target).is_none() {
            return Ok(());
        }
        let marks = [
            (CLUSTER_NAME, fields::text(pool, "/spec/clusterName")),
            (
                "cluster.x-k8s.io/cluster-namespace",
                fields::namespace(pool),
            ),
            ("cluster.x-k8s.io/owner-kind", "MachinePool"),
            ("cluster.x-k8s.io/owner-name", fields::name(pool)),
        ];
        let edited = workload.edit(self.now, &target, "capi", |node| {
            for (key, value) in marks {
                fields::set_annotation(node, key, value);
            }
            remove_taint(node, "node.cluster.x-k8s.io/uninitialized");
        });
        edited.map(drop)
    }

    /// Deletes nodes whose ID has left the list. Nothing is drained.
    fn delete_retired_nodes(
        &mut self,
        servers: &mut Servers<'_>,
        pool: &Value,
        ids: &[String],
    ) -> Result<(), Refusal> {
        for reference in fields::list(pool, "/status/nodeRefs") {
            let target = Target::new(resource::NODES, "", fields::text(reference, "/name"));
            let Some(node) = servers.workload.get(&target) else {
                continue;
            };
            let id = fields::text(&node, "/spec/providerID");
            if !id.is_empty() && !ids.iter().any(|one| one == id) {
                let options = DeleteOptions::by("capi (left providerIDList)");
                servers.workload.delete(self.now, &target, &options)?;
            }
        }
        Ok(())
    }

    fn delete_pool(
        &mut self,
        servers: &mut Servers<'_>,
        target: &Target,
        pool: &Value,
    ) -> Result<Next, Refusal> {
        let namespace = fields::namespace(pool);
        let infra = Target::new(resource::AZURE_POOLS, namespace, infrastructure_name(pool));
        if let Some(azure_pool) = servers.management.get(&infra) {
            if !fields::is_deleting(&azure_pool) {
                servers
                    .management
                    .delete(self.now, &infra, &DeleteOptions::by("capi"))?;
            }
            servers.management.edit(self.now, target, "capi", |pool| {
                fields::set(pool, "/status/phase", json!("Deleting"));
            })?;
            return Ok(Next::Nothing);
        }
        let ids = fields::list(pool, "/spec/providerIDList");
        let ids: Vec<String> = ids
            .iter()
            .filter_map(|id| id.as_str().map(Into::into))
            .collect();
        self.delete_retired_nodes(servers, pool, &ids)?;
        servers.management.edit(self.now, target, "capi", |pool| {
            fields::remove_finalizer(pool, POOL_FINALIZER);
        })?;
        Ok(Next::Nothing)
    }

    /// Machines of pools always count as up to date, unless they leave.
    fn set_machines_up_to_date(
        &mut self,
        servers: &mut Servers<'_>,
        id: &ObjectName,
    ) -> Result<(), Refusal> {
        let target = Target {
            resource: resource::MACHINE_POOLS.into(),
            id: id.clone(),
        };
        let Some(pool) = servers.management.get(&target) else {
            return Ok(());
        };
        let machines: Vec<Arc<Value>> = servers
            .management
            .list_in(resource::MACHINES, &id.namespace)
            .filter(|machine| is_of_pool(machine, &pool) && !fields::is_deleting(machine))
            .cloned()
            .collect();
        for machine in machines {
            let target = Target::of(resource::MACHINES, &machine);
            servers
                .management
                .edit(self.now, &target, "capi", |machine| {
                    let fresh = fields::Condition {
                        condition_type: "UpToDate",
                        status: "True",
                        reason: "UpToDate",
                        message: "",
                    };
                    fields::set_condition(machine, fresh, self.now);
                })?;
        }
        Ok(())
    }
}

/// Core dereferences a nil pointer when the provider's pool reports a terminal failure, and does so
/// again at each retry (`reconcileExternal` in `machinepool_controller_phases.go`).
fn check_failure_fields(azure_pool: &Value) -> Result<(), Refusal> {
    let is_set = |field: &str| !fields::text(azure_pool, field).is_empty();
    if is_set("/status/failureReason") || is_set("/status/failureMessage") {
        return Err(Refusal::internal(
            "panic: nil pointer dereference over failure fields",
        ));
    }
    Ok(())
}

fn is_of_pool(object: &Value, pool: &Value) -> bool {
    fields::label(object, CLUSTER_NAME) == fields::text(pool, "/spec/clusterName")
        && fields::label(object, POOL_NAME) == label_value(fields::name(pool))
}

fn adopt_by_cluster(pool: &mut Value, cluster: &Value) {
    let uid = fields::uid(cluster);
    let mut owners = fields::list(pool, "/metadata/ownerReferences").to_vec();
    if !owners
        .iter()
        .any(|owner| fields::text(owner, "/uid") == uid)
    {
        owners.push(
            json!({"apiVersion": cluster["apiVersion"], "kind": cluster["kind"],
            "name": fields::name(cluster), "uid": uid}),
        );
        fields::set(pool, "/metadata/ownerReferences", json!(owners));
    }
}

fn desired_machine(pool: &Value, infra: &Value, node: Option<&Value>) -> Value {
    let group = fields::text(infra, "/apiVersion")
        .split('/')
        .next()
        .unwrap_or("");
    let mut machine = json!({"apiVersion": pool["apiVersion"], "kind": "Machine",
        "metadata": {"name": fields::name(infra), "namespace": fields::namespace(pool),
            "labels": pool["spec"]["template"]["metadata"]["labels"],
            "annotations": pool["spec"]["template"]["metadata"]["annotations"],
            "ownerReferences": [crate::cluster::workload::controlled_by(pool)]},
        "spec": {"clusterName": pool["spec"]["clusterName"],
            "bootstrap": {"dataSecretName": ""},
            "infrastructureRef": {"apiGroup": group, "kind": infra["kind"],
                "name": fields::name(infra)}}});
    fields::set_label(&mut machine, POOL_NAME, &label_value(fields::name(pool)));
    fields::set_label(
        &mut machine,
        CLUSTER_NAME,
        fields::text(pool, "/spec/clusterName"),
    );
    let version = node.map_or("", |node| {
        fields::text(node, "/status/nodeInfo/kubeletVersion")
    });
    if !version.is_empty() {
        fields::set(&mut machine, "/spec/version", json!(version));
    }
    machine
}

fn set_legacy_counts(pool: &mut Value, ready: i64, available: i64) {
    let replicas = fields::number(pool, "/status/replicas").unwrap_or(0);
    fields::set(
        pool,
        "/status/deprecated/v1beta1/readyReplicas",
        json!(ready),
    );
    fields::set(
        pool,
        "/status/deprecated/v1beta1/availableReplicas",
        json!(available),
    );
    let unavailable = json!(replicas - available);
    fields::set(
        pool,
        "/status/deprecated/v1beta1/unavailableReplicas",
        unavailable,
    );
}

fn count_machines(management: &ApiServer, pool: &mut Value) {
    let machines: Vec<&Arc<Value>> = management
        .list_in(resource::MACHINES, fields::namespace(pool))
        .filter(|machine| is_of_pool(machine, pool))
        .collect();
    let count = |condition: &str| {
        machines
            .iter()
            .filter(|machine| fields::condition(machine, condition) == "True")
            .count()
    };
    let counts = match machines.is_empty() {
        false => [count("Ready"), count("Available"), count("UpToDate")].map(|count| count as i64),
        true => {
            let replicas = fields::number(pool, "/status/replicas").unwrap_or(0);
            [
                replicas,
                replicas,
                fields::number(pool, "/spec/replicas").unwrap_or(0),
            ]
        }
    };
    let names = ["readyReplicas", "availableReplicas", "upToDateReplicas"];
    for (name, count) in names.iter().zip(counts) {
        fields::set(pool, &format!("/status/{name}"), json!(count));
    }
}

fn set_phase(pool: &mut Value) {
    let wanted = fields::number(pool, "/spec/replicas").unwrap_or(1);
    let ready = fields::number(pool, "/status/deprecated/v1beta1/readyReplicas").unwrap_or(0);
    let is_provisioned = fields::flag(pool, "/status/initialization/infrastructureProvisioned");
    let has_secret = fields::flag(pool, "/status/initialization/bootstrapDataSecretCreated");
    let phase = match (has_secret, is_provisioned) {
        (false, _) => "Pending",
        (true, false) => "Provisioning",
        (true, true) if ready == wanted => "Running",
        (true, true) if ready < wanted => "ScalingUp",
        (true, true) => "ScalingDown",
    };
    fields::set(pool, "/status/phase", json!(phase));
}
