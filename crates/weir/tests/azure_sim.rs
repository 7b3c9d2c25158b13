//! Does `weir azure-sim` serve real clients, and do its machines become nodes?
//!
//! Trust is read from the environment when a wire is set up, so a test's client is the same test in
//! a process of its own: [`ASK`] tells it where the server is and which step to take.

#![allow(clippy::unwrap_used, reason = "this is a test, its helpers included")]

mod support;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use support::{
    LIMIT, SUBSCRIPTION, Sim, TENANT, directory, kubeconfig, only_error, run, serve_world, weir,
};
use tokio::process::Command;
use tokio::time::{sleep, timeout};
use weir_azure::{
    Arm, Credential, CredentialError, Deletion, Endpoint, Identity, Precondition, ScaleSetId,
};
use weir_world::serve::SharedWorld;
use weir_world::world::{Endpoint as Side, World, WorldOptions};

/// Names the server and the step to a client.
const ASK: &str = "WEIR_TEST_ASK";

/// How long a client leaves a scale set alone between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What takes a minute in Azure takes a tenth of a second.
const QUICK: [&str; 5] = [
    "--time-scale=0.002",
    "--retry-after-seconds=1",
    "--seed=7",
    "--join-seconds=0.1",
    "--leave-seconds=0.1",
];

#[tokio::test]
async fn a_client_creates_lists_and_deletes_over_https() {
    if let Some((url, _)) = asked() {
        let arm = arm(&url, "any").unwrap();
        create(&arm).await;
        assert_eq!(instances(&arm, 2).await.len(), 2);
        arm.delete_scale_set(&scale_set(), Deletion::Graceful)
            .await
            .unwrap();
        while arm.get_scale_set(&scale_set()).await.unwrap().is_some() {
            sleep(LOOK_AGAIN).await;
        }
        return;
    }
    let directory = directory("azure-sim-client");
    let sim = Sim::start(&directory, &QUICK).await;
    client(&sim, "a_client_creates_lists_and_deletes_over_https", "all").await;
    assert_eq!(sim.running.terminate().await, Some(0));
}

#[tokio::test]
async fn a_secret_that_is_not_the_given_one_gets_no_token() {
    if let Some((url, _)) = asked() {
        let group = |secret| {
            let arm = arm(&url, secret).unwrap();
            async move { arm.resource_group_exists(SUBSCRIPTION, "group").await }
        };
        let refused = group("another").await.unwrap_err();
        assert!(
            refused.line().contains("AADSTS7000215"),
            "{}",
            refused.line()
        );
        assert!(group("the-one").await.unwrap());
        return;
    }
    let directory = directory("azure-sim-secret");
    let sim = Sim::start(&directory, &["--client-secret=the-one"]).await;
    client(
        &sim,
        "a_secret_that_is_not_the_given_one_gets_no_token",
        "all",
    )
    .await;
}

#[tokio::test]
async fn machines_join_as_nodes_and_leave_with_their_instance() {
    if let Some((url, step)) = asked() {
        let arm = arm(&url, "any").unwrap();
        if step == "create" {
            create(&arm).await;
        } else {
            let victims = [step];
            arm.delete_instances(&scale_set(), &victims, Deletion::Graceful)
                .await
                .unwrap();
        }
        return;
    }
    let test = "machines_join_as_nodes_and_leave_with_their_instance";
    let directory = directory("azure-sim-nodes");
    let world = SharedWorld::new(World::new(WorldOptions::default(), 1));
    let nodes: Api<Node> = Api::all(Client::new(world.kube(Side::Workload), "default"));
    let kubeconfig = kubeconfig(&directory, &serve_world(world, Side::Workload).await);
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let flags = [&QUICK[..], &[&kubeconfig, "--kubelet-version=v1.30.0"]].concat();
    let sim = Sim::start(&directory, &flags).await;

    client(&sim, test, "create").await;
    let found = timeout(LIMIT, joined(&nodes, 2))
        .await
        .expect("two nodes did not join in time");
    for node in &found {
        let info = node.status.as_ref().unwrap().node_info.as_ref().unwrap();
        assert_eq!(info.kubelet_version, "v1.33.2");
        assert_eq!(node.labels()["kubernetes.io/hostname"], node.name_any());
        assert!(node.labels()["topology.kubernetes.io/zone"].starts_with("westeurope-"));
        assert_eq!(node.annotations()["kwok.x-k8s.io/node"], "fake");
    }
    let provider_id = found[0].spec.as_ref().unwrap().provider_id.clone().unwrap();
    let (set, instance) = provider_id.rsplit_once("/virtualMachines/").unwrap();
    assert_eq!(format!("azure://{}", scale_set()), set);

    client(&sim, test, instance).await;
    let uid = found[0].uid().unwrap();
    let name = found[0].name_any();
    until(&nodes, &name, conditions::is_deleted(&uid)).await;
    assert!(nodes.get_opt(&found[1].name_any()).await.unwrap().is_some());
}

#[tokio::test]
async fn what_cannot_be_used_is_one_line() {
    let directory = directory("azure-sim-errors");
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    let absent = directory
        .join("absent")
        .join("ca.pem")
        .display()
        .to_string();
    let ca = directory.join("ca.pem").display().to_string();
    let rows: [(&str, [&str; 4], &str); 3] = [
        (
            "address",
            ["--listen", &taken, "--ca-file", &ca],
            "choose another with --listen",
        ),
        (
            "CA file",
            ["--listen", "127.0.0.1:0", "--ca-file", &absent],
            "--ca-file",
        ),
        (
            "kubeconfig",
            ["--kubeconfig", &absent, "--ca-file", &ca],
            "--kubeconfig",
        ),
    ];
    for (case, flags, expected) in rows {
        let mut command = weir(&directory);
        command.arg("azure-sim").args(flags);
        let line = only_error(&run(command).await, case);
        assert!(line.contains(expected), "{case}: {line}");
    }
}

/// Runs a test again as a client that trusts this server.
async fn client(sim: &Sim, test: &str, step: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(ASK, format!("{} {step}", sim.url))
        .env("SSL_CERT_FILE", &sim.ca)
        .env_remove("SSL_CERT_DIR")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(LIMIT, command.output())
        .await
        .expect("a client hangs")
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "client of {step} failed:\n{said}\n{failed}"
    );
    assert!(
        said.contains("1 passed"),
        "no test is called {test}: {said}"
    );
}

/// Returns server and step if this process is a client.
fn asked() -> Option<(String, String)> {
    let asked = std::env::var(ASK).ok()?;
    let (url, step) = asked.split_once(' ').unwrap();
    Some((url.to_owned(), step.to_owned()))
}

fn arm(url: &str, secret: &str) -> Result<Arm, CredentialError> {
    let wire = weir_azure::http::connect().unwrap();
    let endpoint = Endpoint::custom(url, url, url).unwrap();
    let identity = Identity::ClientSecret {
        tenant: TENANT.to_owned(),
        client: "33333333-3333-3333-3333-333333333333".to_owned(),
        secret: secret.into(),
    };
    let credential = Credential::new(&wire, &endpoint, identity)?;
    Ok(Arm::new(wire, endpoint, credential))
}

fn scale_set() -> ScaleSetId {
    ScaleSetId::new(SUBSCRIPTION, "group", "pool-a")
}

async fn create(arm: &Arm) {
    let body = serde_json::from_value(json!({
        "location": "westeurope",
        "zones": ["1", "2"],
        "sku": {"name": "Standard_D2s_v5", "tier": "Standard", "capacity": 2},
        "properties": {
            "orchestrationMode": "Uniform",
            "overprovision": false,
            "upgradePolicy": {"mode": "Manual"},
            "virtualMachineProfile": {
                "osProfile": {"computerNamePrefix": "pool-a", "adminUsername": "capi",
                    "adminPassword": "not-a-real-one", "customData": "Ym9vdHN0cmFw"},
                "storageProfile": {
                    "imageReference": {"communityGalleryImageId":
                        "/CommunityGalleries/g/Images/capi-ubun2-2404/Versions/1.33.2"},
                    "osDisk": {"createOption": "FromImage",
                        "managedDisk": {"storageAccountType": "Premium_LRS"}},
                },
                "networkProfile": {"networkInterfaceConfigurations":
                    [{"name": "nic", "properties": {"primary": true}}]},
            },
        },
    }));
    let body = body.unwrap();
    arm.put_scale_set(&scale_set(), &body, Precondition::Absent)
        .await
        .unwrap();
}

/// Waits until so many instances have been made, and returns their ids.
async fn instances(arm: &Arm, count: usize) -> Vec<String> {
    loop {
        let instances = arm.list_instances(&scale_set()).await.unwrap();
        let done = instances.iter().filter(|instance| {
            instance.properties.provisioning_state.as_deref() == Some("Succeeded")
        });
        if done.clone().count() == count {
            return done.map(|instance| instance.instance_id.clone()).collect();
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Waits until so many nodes are there, and returns them.
async fn joined(nodes: &Api<Node>, count: usize) -> Vec<Node> {
    let watch = watcher(nodes.clone(), watcher::Config::default()).applied_objects();
    let mut watch = watch.boxed();
    let mut found = BTreeMap::new();
    while found.len() < count {
        let node = watch.next().await.unwrap().unwrap();
        found.insert(node.name_any(), node);
    }
    found.into_values().collect()
}

async fn until(nodes: &Api<Node>, name: &str, condition: impl Condition<Node>) {
    let reached = timeout(LIMIT, await_condition(nodes.clone(), name, condition)).await;
    reached.expect("the node did not change in time").unwrap();
}
