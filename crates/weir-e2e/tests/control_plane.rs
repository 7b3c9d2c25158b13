//! Does the control plane do by itself what Weir counts on? No part of Weir runs here.

use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use weir_e2e::fixtures::{self, CORE, INFRASTRUCTURE, Place, Pool};
use weir_e2e::{ControlPlane, apply, apply_status, fresh_directory, object_api, wait_until};

/// Core looks after a drain every twenty seconds, and at most other things more often.
const SOON: Duration = Duration::from_secs(60);

/// Stands for what a provider takes care of, so that nothing is gone before the test has looked.
const FINALIZER: &str = "weir-e2e/instance";

#[tokio::test]
async fn core_makes_machines_for_instances_and_drains_them_within_the_budget() -> anyhow::Result<()>
{
    let directory = fresh_directory(env!("CARGO_TARGET_TMPDIR"), "control-plane")?;
    let control_plane = ControlPlane::start(&directory).await?;
    let (management, workload) = (&control_plane.management, &control_plane.workload);
    fixtures::define_kinds(management).await?;
    let place = Place::new("pools", "c1");
    fixtures::create_cluster(&control_plane, &place).await?;
    let pool = Pool {
        name: "workers".to_owned(),
        replicas: 2,
        version: "v1.36.3".to_owned(),
        azure_spec: fixtures::azure_pool_spec(),
    };
    fixtures::apply_pool(management, &place, &pool).await?;

    let provider_ids = [provider_id(&pool, 0), provider_id(&pool, 1)];
    for (index, provider_id) in provider_ids.iter().enumerate() {
        let name = format!("workers-{index}");
        fixtures::join_node(workload, &name, provider_id, &pool.version).await?;
        report_instance(&management.client, &place, &pool, &name, provider_id).await?;
    }
    report_pool(&management.client, &place, &pool, &provider_ids).await?;
    for name in ["workers-0", "workers-1"] {
        machine_has_node(&management.client, &place, name).await?;
    }

    fixtures::deploy_with_budget(workload, "web", 2, 2).await?;
    wait_until("two ready pods on different nodes", SOON, async || {
        let nodes = nodes_of_ready_pods(&workload.client).await?;
        Ok((nodes == ["workers-0", "workers-1"]).then_some(()))
    })
    .await?;

    let machines = object_api(&management.client, CORE, "Machine", &place.namespace);
    machines
        .delete("workers-0", &DeleteParams::default())
        .await?;
    wait_until("drain that the budget holds up", SOON, async || {
        Ok(draining_message(&machines, "workers-0")
            .await?
            .contains("disruption budget")
            .then_some(()))
    })
    .await?;
    let nodes = nodes_of_ready_pods(&workload.client).await?;
    ensure!(
        nodes == ["workers-0", "workers-1"],
        "a pod has left although none may: {nodes:?}"
    );

    fixtures::deploy_with_budget(workload, "web", 2, 1).await?;
    drained_within_budget(&control_plane, &place).await?;
    remove_finalizer(&management.client, &place, "workers-0").await?;
    let nodes: Api<Node> = Api::all(workload.client.clone());
    wait_until("Machine and Node that are gone", SOON, async || {
        let is_gone = machines.get_opt("workers-0").await?.is_none()
            && nodes.get_opt("workers-0").await?.is_none();
        Ok(is_gone.then_some(()))
    })
    .await
}

/// Returns what core says about a Machine that it deletes.
async fn draining_message(machines: &Api<DynamicObject>, name: &str) -> anyhow::Result<String> {
    let machine = machines.get(name).await?;
    let conditions = machine.data["status"]["conditions"].as_array();
    let deleting = conditions
        .into_iter()
        .flatten()
        .find(|each| each["type"] == "Deleting");
    let message = deleting.and_then(|condition| condition["message"].as_str());
    Ok(message.unwrap_or_default().to_owned())
}

/// Waits until core asks for the end of the instance, and checks the state of that moment.
async fn drained_within_budget(control_plane: &ControlPlane, place: &Place) -> anyhow::Result<()> {
    let management = &control_plane.management.client;
    let workload = &control_plane.workload.client;
    let instances = instances(management, place);
    wait_until("instance that core wants to be gone", SOON, async || {
        ensure!(
            !nodes_of_ready_pods(workload).await?.is_empty(),
            "the budget is broken"
        );
        let instance = instances.get("workers-0").await?;
        Ok(instance.metadata.deletion_timestamp.map(|_| ()))
    })
    .await?;

    let node = Api::<Node>::all(workload.clone()).get("workers-0").await?;
    let is_cordoned = node
        .spec
        .and_then(|spec| spec.unschedulable)
        .unwrap_or_default();
    ensure!(is_cordoned, "the node was drained but not cordoned");
    let left = ListParams::default().fields("spec.nodeName=workers-0");
    let pods = Api::<Pod>::default_namespaced(workload.clone())
        .list(&left)
        .await?;
    ensure!(
        pods.items.is_empty(),
        "{} pods are left on the node",
        pods.items.len()
    );
    Ok(())
}

/// Reports one instance as a provider does: as an AzureMachinePoolMachine that is ready.
async fn report_instance(
    client: &Client,
    place: &Place,
    pool: &Pool,
    name: &str,
    provider_id: &str,
) -> anyhow::Result<()> {
    let pools = object_api(client, INFRASTRUCTURE, "AzureMachinePool", &place.namespace);
    let uid = pools
        .get(&pool.name)
        .await?
        .metadata
        .uid
        .context("an object without a UID")?;
    let mut instance = place.object(INFRASTRUCTURE, "AzureMachinePoolMachine", name);
    instance["metadata"]["labels"]["cluster.x-k8s.io/pool-name"] = json!(pool.name);
    instance["metadata"]["finalizers"] = json!([FINALIZER]);
    instance["metadata"]["ownerReferences"] = json!([{
        "apiVersion": INFRASTRUCTURE,
        "kind": "AzureMachinePool",
        "name": pool.name,
        "uid": uid,
    }]);
    instance["spec"] = json!({"providerID": provider_id});
    apply(client, instance).await?;
    let mut status = place.object(INFRASTRUCTURE, "AzureMachinePoolMachine", name);
    status["status"] = json!({"ready": true, "initialization": {"provisioned": true}});
    apply_status(client, status).await?;
    Ok(())
}

/// Reports the pool as a provider does.
async fn report_pool(
    client: &Client,
    place: &Place,
    pool: &Pool,
    provider_ids: &[String],
) -> anyhow::Result<()> {
    let pools = object_api(client, INFRASTRUCTURE, "AzureMachinePool", &place.namespace);
    let list: Value = json!({"spec": {"providerIDList": provider_ids}});
    pools
        .patch(&pool.name, &PatchParams::default(), &Patch::Merge(&list))
        .await?;
    let mut status = place.object(INFRASTRUCTURE, "AzureMachinePool", &pool.name);
    status["status"] = json!({
        "ready": true,
        "initialization": {"provisioned": true},
        "replicas": provider_ids.len(),
        "infrastructureMachineKind": "AzureMachinePoolMachine",
    });
    apply_status(client, status).await?;
    Ok(())
}

async fn machine_has_node(client: &Client, place: &Place, name: &str) -> anyhow::Result<()> {
    let machines = object_api(client, CORE, "Machine", &place.namespace);
    wait_until(&format!("Machine {name} with its node"), SOON, async || {
        let machine = machines.get(name).await?;
        Ok((machine.data["status"]["nodeRef"]["name"] == name).then_some(()))
    })
    .await
}

/// Returns the nodes of all pods that are ready and not about to leave, sorted.
async fn nodes_of_ready_pods(client: &Client) -> anyhow::Result<Vec<String>> {
    let pods = Api::<Pod>::default_namespaced(client.clone())
        .list(&ListParams::default())
        .await?;
    let is_ready = |pod: &Pod| {
        let conditions = pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        pod.metadata.deletion_timestamp.is_none()
            && conditions
                .into_iter()
                .any(|each| each.type_ == "Ready" && each.status == "True")
    };
    let ready = pods.items.into_iter().filter(is_ready);
    let mut nodes: Vec<String> = ready
        .filter_map(|pod| pod.spec.and_then(|spec| spec.node_name))
        .collect();
    nodes.sort();
    Ok(nodes)
}

async fn remove_finalizer(client: &Client, place: &Place, name: &str) -> anyhow::Result<()> {
    let none = json!({"metadata": {"finalizers": null}});
    let instances = instances(client, place);
    instances
        .patch(name, &PatchParams::default(), &Patch::Merge(&none))
        .await?;
    Ok(())
}

fn instances(client: &Client, place: &Place) -> Api<DynamicObject> {
    object_api(
        client,
        INFRASTRUCTURE,
        "AzureMachinePoolMachine",
        &place.namespace,
    )
}

fn provider_id(pool: &Pool, index: usize) -> String {
    format!(
        "azure:///subscriptions/{}/resourceGroups/c1/providers/Microsoft.Compute\
         /virtualMachineScaleSets/{}/virtualMachines/{index}",
        fixtures::SUBSCRIPTION,
        pool.name
    )
}
