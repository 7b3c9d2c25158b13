//! Do `weir controller` and `weir azure-sim`, as processes, make a pool together?
//!
//! Kubernetes is a simulated world in this process, served over plain HTTP; Azure is the other
//! binary, reached over HTTPS with a token that it issued.

#![allow(clippy::unwrap_used, reason = "this is a test, its helpers included")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::wait::await_condition;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use support::{
    LIMIT, PASSWORD, Running, SUBSCRIPTION, Sim, TENANT, address, directory, get, kubeconfig,
    serve_world, weir,
};
use tokio::time::timeout;
use weir_api::AzureMachinePool;
use weir_world::cluster::Side;
use weir_world::cluster::draw::Latency;
use weir_world::serve::SharedWorld;
use weir_world::world::{Endpoint, World, WorldOptions};

/// What takes a minute in Azure takes a tenth of a second.
const QUICK: [&str; 4] = [
    "--time-scale=0.002",
    "--retry-after-seconds=1",
    "--join-seconds=0.1",
    "--leave-seconds=0.1",
];

const CLIENT: &str = "33333333-3333-3333-3333-333333333333";

#[tokio::test]
async fn a_pool_gets_its_scale_set_and_its_machines_become_nodes() {
    let directory = directory("pool");
    let served = serve(&directory).await;
    let workload = format!("--kubeconfig={}", served.workload.display());
    let flags = [&QUICK[..], &[&workload]].concat();
    let sim = Sim::start(&directory, &flags).await;
    let mut controller = start_controller(&directory, &served, &sim);
    let metrics = address(&controller.logged("--metrics-addr").await);

    let pools: Api<AzureMachinePool> = Api::default_namespaced(served.client(Endpoint::Management));
    let is_up = |pool: Option<&AzureMachinePool>| {
        let status = pool.and_then(|pool| pool.status.as_ref()?.v1beta2.as_ref());
        status.is_some_and(|status| {
            status.conditions.iter().any(|condition| {
                condition.type_ == "Available" && condition.message == "2 of 2 available"
            })
        })
    };
    let nodes: Api<Node> = Api::all(served.client(Endpoint::Workload));
    let kubelets = tokio::spawn(make_ready(nodes.clone()));
    let reached = timeout(LIMIT, await_condition(pools.clone(), "workers", is_up)).await;
    reached.expect("the pool did not come up").unwrap();

    let pool = pools.get("workers").await.unwrap();
    let mut provider_ids = pool.spec.provider_id_list.clone();
    provider_ids.sort();
    assert_eq!(provider_ids.len(), 2);
    let mut of_nodes = Vec::new();
    for node in nodes.list(&Default::default()).await.unwrap() {
        of_nodes.push(node.spec.unwrap().provider_id.unwrap());
        assert_eq!(
            node.status.unwrap().node_info.unwrap().kubelet_version,
            "v1.33.0"
        );
    }
    of_nodes.sort();
    assert_eq!(of_nodes, provider_ids);
    let (_, text) = get(&metrics, "/metrics").await;
    let put = "weir_azure_calls_total{verb=\"put_scale_set\",outcome=\"ok\"}";
    assert!(text.contains(put), "{text}");
    assert!(
        !controller.log.concat().contains(PASSWORD),
        "{:#?}",
        controller.log
    );
    kubelets.abort();
    assert_eq!(controller.terminate().await, Some(0));
}

#[tokio::test]
async fn wrong_azure_credentials_are_an_event_on_the_pool_that_says_what_to_do() {
    let directory = directory("wrong-credentials");
    let served = serve(&directory).await;
    let sim = Sim::start(&directory, &["--client-secret=another"]).await;
    let mut controller = start_controller(&directory, &served, &sim);

    let events: Api<Event> = Api::default_namespaced(served.client(Endpoint::Management));
    let watch = watcher(events, watcher::Config::default()).applied_objects();
    let mut watch = watch.boxed();
    let told = async {
        loop {
            let event = watch.next().await.unwrap().unwrap();
            let message = event.message.unwrap_or_default();
            if event.involved_object.name.as_deref() == Some("workers")
                && message.contains("AADSTS7000215")
            {
                return message;
            }
        }
    };
    let told = timeout(LIMIT, told)
        .await
        .expect("no event about the secret");
    assert!(told.contains("the client secret is wrong"), "{told}");
    assert!(!told.contains(PASSWORD), "{told}");
    controller.logged("AADSTS7000215").await;
    assert!(
        !controller.log.concat().contains(PASSWORD),
        "{:#?}",
        controller.log
    );
    assert_eq!(controller.terminate().await, Some(0));
}

/// A world whose time is the real one, and how to reach it.
struct Served {
    world: SharedWorld,
    /// Kubeconfigs of its two API servers.
    management: PathBuf,
    workload: PathBuf,
    ticking: tokio::task::JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.ticking.abort();
    }
}

impl Served {
    fn client(&self, side: Endpoint) -> Client {
        Client::new(self.world.kube(side), "default")
    }
}

/// Serves a world in which a cluster waits for a pool of two.
async fn serve(directory: &Path) -> Served {
    let mut options = WorldOptions::default();
    // Core reacts within a second or so; a test need not wait for that.
    options.capi.reaction = Latency::from_millis(50, 40);
    let world = SharedWorld::new(World::new(options, 1));
    let workload = directory.join("workload");
    fs::create_dir(&workload).unwrap();
    let url = serve_world(world.clone(), Endpoint::Workload).await;
    let workload = kubeconfig(&workload, &url);
    for object in objects(fs::read(&workload).unwrap()) {
        world.with(|world| world.create(Side::Management, object).unwrap());
    }
    let url = serve_world(world.clone(), Endpoint::Management).await;
    let management = kubeconfig(directory, &url);
    let ticking = tokio::spawn(tick(world.clone()));
    Served {
        world,
        management,
        workload,
        ticking,
    }
}

/// Lets the world's time go by as ours does.
async fn tick(world: SharedWorld) {
    let began = Instant::now();
    let start = world.with(|world| world.now());
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    loop {
        ticks.tick().await;
        world.advance(start + SignedDuration::try_from(began.elapsed()).unwrap());
    }
}

fn start_controller(directory: &Path, served: &Served, sim: &Sim) -> Running {
    let mut command = weir(directory);
    command
        .args([
            "controller",
            "--health-addr=127.0.0.1:0",
            "--metrics-addr=127.0.0.1:0",
        ])
        .args(["--azure-endpoint", &sim.url, "--azure-authority", &sim.url])
        .arg("--kubeconfig")
        .arg(&served.management)
        .env("SSL_CERT_FILE", &sim.ca);
    Running::start(command)
}

/// Stands for the kubelets: a node that joins is ready.
async fn make_ready(nodes: Api<Node>) {
    let watch = watcher(nodes.clone(), watcher::Config::default()).applied_objects();
    let mut watch = watch.boxed();
    while let Some(node) = watch.next().await {
        let node = node.unwrap();
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        if node
            .status
            .as_ref()
            .is_some_and(|status| status.conditions.is_none())
        {
            let patch = Patch::Merge(&ready);
            nodes
                .patch_status(&node.name_any(), &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    }
}

/// What a user and Cluster API core have made before a controller looks.
fn objects(kubeconfig: Vec<u8>) -> Vec<Value> {
    let infrastructure = "infrastructure.cluster.x-k8s.io";
    let meta = |name: &str| json!({"name": name, "namespace": "default"});
    let secret = |name: &str, data: Value| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": meta(name), "data": data})
    };
    let reference =
        |kind: &str, name: &str| json!({"apiGroup": infrastructure, "kind": kind, "name": name});
    vec![
        secret("c1-kubeconfig", json!({"value": ByteString(kubeconfig)})),
        secret(
            "bootstrap",
            json!({"value": ByteString(b"#cloud-config\n".to_vec())}),
        ),
        secret(
            "identity",
            json!({"clientSecret": ByteString(PASSWORD.into())}),
        ),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": meta("c1"),
            "spec": {"infrastructureRef": reference("AzureCluster", "c1")},
            "status": {"initialization":
                {"infrastructureProvisioned": true, "controlPlaneInitialized": true}}}),
        json!({"apiVersion": format!("{infrastructure}/v1beta1"), "kind": "AzureCluster",
            "metadata": meta("c1"),
            "spec": {"location": "westeurope", "subscriptionID": SUBSCRIPTION,
                "resourceGroup": "c1",
                "identityRef": {"kind": "AzureClusterIdentity", "name": "identity"},
                "networkSpec": {"vnet": {"name": "vnet", "resourceGroup": "c1"},
                    "subnets": [{"name": "node-subnet", "role": "node"}]}},
            "status": {"ready": true}}),
        json!({"apiVersion": format!("{infrastructure}/v1beta1"), "kind": "AzureClusterIdentity",
            "metadata": meta("identity"),
            "spec": {"type": "ServicePrincipal", "tenantID": TENANT, "clientID": CLIENT,
                "clientSecret": {"name": "identity", "namespace": "default"},
                "allowedNamespaces": {}}}),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
            "metadata": meta("workers"),
            "spec": {"clusterName": "c1", "replicas": 2, "template": {"spec": {
                "clusterName": "c1", "version": "v1.33.0",
                "bootstrap": {"dataSecretName": "bootstrap"},
                "infrastructureRef": reference("AzureMachinePool", "workers")}}}}),
        json!({"apiVersion": format!("{infrastructure}/v1beta1"), "kind": "AzureMachinePool",
            "metadata": meta("workers"),
            "spec": {"location": "westeurope", "template": {"vmSize": "Standard_D4s_v5",
                "sshPublicKey": "c3NoLWVkMjU1MTkgQUFBQSBzaW0=",
                "osDisk": {"osType": "Linux", "diskSizeGB": 64}}}}),
    ]
}
