//! Azure, the cluster and time are one world.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, as it should"
)]

use bytes::Bytes;
use http::{Method, Request};
use jiff::SignedDuration;
use serde_json::{Value, json};
use weir_world::azure::AzureOptions;
use weir_world::cluster::Reply;
use weir_world::cluster::workload::WorkloadSpec;
use weir_world::world::{DrainState, Endpoint, World, WorldOptions};

const SET: &str = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/g\
                   /providers/Microsoft.Compute/virtualMachineScaleSets/pool";

#[test]
fn instances_become_nodes_with_the_provider_ids_that_azure_gave_them() {
    let mut world = world(1);
    put_set(&mut world, 3);
    run(&mut world, 900);
    let facts = world.facts();
    assert_eq!(facts.scale_sets[0].capacity, 3);
    let mut expected: Vec<String> = facts.scale_sets[0]
        .instances
        .iter()
        .map(|one| one.vm.provider_id.clone())
        .collect();
    let mut found: Vec<String> = facts
        .nodes
        .iter()
        .map(|one| one.provider_id.clone())
        .collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    assert!(facts.nodes.iter().all(|node| node.is_ready));
    assert!(
        facts
            .nodes
            .iter()
            .all(|node| node.kubelet_version == "v1.33.5")
    );
}

#[test]
fn a_deletion_without_a_drain_is_put_on_record_and_the_node_leaves_later() {
    let mut world = world(2);
    put_set(&mut world, 1);
    run(&mut world, 900);
    let node = world.facts().nodes[0].name.clone();
    untaint(&mut world, &node);
    world.add_workload(&WorkloadSpec::new("web", 2)).unwrap();
    run(&mut world, 120);
    assert_eq!(world.ready_pods("web"), 2);
    let id = world.facts().scale_sets[0].instances[0]
        .vm
        .instance_id
        .clone();
    let body = json!({"instanceIds": [id]});
    let code = ask(&mut world, Method::POST, &format!("{SET}/delete"), &body);
    assert_eq!(code, 202);
    let deletes = world.facts().instance_deletes;
    assert_eq!(deletes.len(), 1);
    assert_eq!(deletes[0].drain, DrainState::PodsLeft { pods_left: 2 });
    assert_eq!(deletes[0].at, world.now());
    assert_eq!(world.facts().nodes.len(), 1, "the cluster has not noticed");
    run(&mut world, 900);
    assert!(world.facts().nodes.is_empty());
}

#[test]
fn the_world_jumps_from_one_due_time_to_the_next() {
    let mut world = world(3);
    put_set(&mut world, 2);
    let mut steps = 0;
    while world
        .facts()
        .nodes
        .iter()
        .filter(|node| node.is_ready)
        .count()
        < 2
    {
        let due = world.next_due().expect("something is under way");
        assert!(due >= world.now());
        world.advance(due);
        steps += 1;
        assert!(steps < 1000, "two instances take few steps");
    }
}

#[test]
fn equal_seeds_make_equal_worlds() {
    let story = |seed: u64| {
        let mut world = world_with(WorldOptions::default(), seed);
        put_set(&mut world, 3);
        run(&mut world, 3600);
        world.fingerprint()
    };
    assert_eq!(story(5), story(5));
    assert_ne!(story(5), story(6));
}

fn world(seed: u64) -> World {
    world_with(
        WorldOptions {
            azure: AzureOptions::calm(),
            ..WorldOptions::default()
        },
        seed,
    )
}

fn world_with(options: WorldOptions, seed: u64) -> World {
    let azure = AzureOptions {
        token_check: weir_world::azure::TokenCheck::Off,
        ..options.azure
    };
    World::new(WorldOptions { azure, ..options }, seed)
}

fn put_set(world: &mut World, capacity: u32) {
    let image = "/subscriptions/s/resourceGroups/images/providers/Microsoft.Compute/galleries/g\
                 /images/capi/versions/1.33.5";
    let body = json!({"location": "westeurope",
        "sku": {"name": "Standard_D2s_v5", "tier": "Standard", "capacity": capacity},
        "properties": {"orchestrationMode": "Uniform", "overprovision": false,
            "upgradePolicy": {"mode": "Manual"},
            "virtualMachineProfile": {
                "osProfile": {"computerNamePrefix": "pool", "adminUsername": "capi",
                    "customData": "aGVsbG8="},
                "storageProfile": {"imageReference": {"id": image},
                    "osDisk": {"createOption": "FromImage"}},
                "networkProfile": {"networkInterfaceConfigurations": [{"name": "nic",
                    "properties": {"primary": true, "ipConfigurations": [{"name": "ip",
                        "properties": {"subnet": {"id": "/subnet"}}}]}}]}}}});
    let code = ask(world, Method::PUT, SET, &body);
    assert_eq!(code, 201);
}

fn ask(world: &mut World, method: Method, path: &str, body: &Value) -> u16 {
    let uri = format!("https://management.azure.com{path}?api-version=2024-07-01");
    let request = Request::builder().method(method).uri(uri);
    let request = request.header("content-type", "application/json");
    let request = request.body(Bytes::from(body.to_string())).unwrap();
    match world.handle(Endpoint::Azure, &request) {
        Reply::Response(response) => {
            let code = response.status().as_u16();
            assert!(code < 300, "{code}: {:?}", response.body());
            code
        }
        Reply::Watch(_) => panic!("Azure has no watches"),
    }
}

/// Does what Cluster API core does once it knows the node; there is none in these tests.
fn untaint(world: &mut World, node: &str) {
    let target = weir_world::cluster::Target::new("nodes", "", node);
    let change = json!({"spec": {"taints": null}});
    let side = weir_world::cluster::Side::Workload;
    let reach = weir_world::cluster::server::Reach::Main;
    world.patch(side, &target, reach, &change).unwrap();
}

fn run(world: &mut World, seconds: i64) {
    let to = world.now() + SignedDuration::from_secs(seconds);
    world.advance(to);
}
