//! Nodes follow their virtual machines, pods follow nodes, budgets hold.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, as it should"
)]

use jiff::SignedDuration;
use serde_json::{Value, json};
use weir_world::cluster::collect::DeleteOptions;
use weir_world::cluster::kinds::resource;
use weir_world::cluster::kubelet::{BootedVm, Joining, VmChange};
use weir_world::cluster::workload::WorkloadSpec;
use weir_world::cluster::{Side, Target, fields};
use weir_world::world::{World, WorldOptions};

#[test]
fn a_booted_vm_joins_with_the_version_of_its_image_and_becomes_ready() {
    let mut world = world_with(&[], 1);
    run(&mut world, 300);
    let node = node(&world, "vm0").expect("it joined");
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.33.1");
    assert_eq!(node["spec"]["providerID"], provider_id(0));
    assert_eq!(
        node["metadata"]["labels"]["topology.kubernetes.io/zone"],
        "westeurope-1"
    );
    assert!(fields::is_ready(&node));
}

#[test]
fn a_vm_whose_bootstrap_fails_never_joins() {
    let mut world = World::new(WorldOptions::default(), 1);
    world.vm_changed(VmChange::Booted(BootedVm {
        joining: Joining::Never,
        ..vm(0)
    }));
    run(&mut world, 3600);
    assert!(node(&world, "vm0").is_none());
}

#[test]
fn a_reboot_changes_the_boot_id_of_the_same_node() {
    let mut world = world_with(&[], 1);
    run(&mut world, 300);
    let before = node(&world, "vm0").unwrap();
    world.vm_changed(VmChange::Booted(vm(0)));
    run(&mut world, 300);
    let after = node(&world, "vm0").unwrap();
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_ne!(
        before["status"]["nodeInfo"]["bootID"],
        after["status"]["nodeInfo"]["bootID"]
    );
    assert!(fields::is_ready(&after));
}

#[test]
fn a_stopped_vm_is_unreachable_after_forty_seconds_and_its_node_stays() {
    let mut world = world_with(&[], 1);
    run(&mut world, 300);
    world.vm_changed(VmChange::Stopped {
        provider_id: provider_id(0),
    });
    run(&mut world, 39);
    assert!(fields::is_ready(&node(&world, "vm0").unwrap()));
    run(&mut world, 2);
    let silent = node(&world, "vm0").unwrap();
    assert_eq!(fields::condition(&silent, "Ready"), "Unknown");
    assert!(silent["spec"]["taints"].to_string().contains("unreachable"));
    run(&mut world, 3600);
    assert!(node(&world, "vm0").is_some());
}

#[test]
fn a_node_leaves_after_its_vm_is_gone_and_its_pods_come_back_elsewhere() {
    let mut world = world_with(&[WorkloadSpec::new("web", 4)], 2);
    run(&mut world, 600);
    assert_eq!(world.ready_pods("web"), 4);
    world.vm_changed(VmChange::Gone {
        provider_id: provider_id(0),
    });
    run(&mut world, 30);
    assert!(node(&world, "vm0").is_some(), "nobody has noticed yet");
    run(&mut world, 600);
    assert!(node(&world, "vm0").is_none());
    assert_eq!(world.ready_pods("web"), 4);
    assert_eq!(world.facts().nodes.len(), 1);
    assert_eq!(world.facts().nodes[0].pods.len(), 4);
}

#[test]
fn pods_are_spread_over_schedulable_nodes_only() {
    let mut world = world_with(&[], 3);
    run(&mut world, 300);
    let cordon = json!({"spec": {"unschedulable": true}});
    let target = Target::new(resource::NODES, "", "vm1");
    world
        .patch(Side::Workload, &target, reach(), &cordon)
        .unwrap();
    world.add_workload(&WorkloadSpec::new("web", 4)).unwrap();
    run(&mut world, 60);
    let counts: Vec<usize> = world
        .facts()
        .nodes
        .iter()
        .map(|node| node.pods.len())
        .collect();
    assert_eq!(counts, [2, 0, 2]);
}

#[test]
fn each_node_runs_its_daemon_pod_and_facts_do_not_count_it() {
    let options = WorldOptions {
        daemon_sets: vec!["proxy".into()],
        ..WorldOptions::default()
    };
    let mut world = World::new(options, 5);
    boot(&mut world, 2);
    run(&mut world, 300);
    assert_eq!(world.ready_pods("proxy"), 2);
    assert!(world.facts().nodes.iter().all(|node| node.pods.is_empty()));
}

#[test]
fn a_budget_lets_one_pod_go_and_the_next_only_after_its_replacement_is_ready() {
    let mut world = world_with(&[WorkloadSpec::new("web", 3).with_min_available("2")], 2);
    run(&mut world, 600);
    let pods = pods(&world);
    assert!(evict(&mut world, &pods[0]).is_ok());
    let refused = evict(&mut world, &pods[1]).unwrap_err();
    assert_eq!((refused.code, refused.reason), (429, "TooManyRequests"));
    assert!(
        refused.causes[0].1.contains("needs 2 healthy pods"),
        "{refused:?}"
    );
    run(&mut world, 60);
    assert_eq!(world.ready_pods("web"), 3);
    assert!(evict(&mut world, &pods[1]).is_ok());
}

#[test]
fn percentages_of_a_budget_round_up() {
    let mut world = world_with(&[WorkloadSpec::new("web", 3).with_min_available("50%")], 2);
    run(&mut world, 600);
    let target = Target::new(resource::BUDGETS, "default", "web");
    let budget = world.get(Side::Workload, &target).unwrap();
    assert_eq!(budget["status"]["desiredHealthy"], 2);
    assert_eq!(budget["status"]["disruptionsAllowed"], 1);
    assert_eq!(budget["status"]["expectedPods"], 3);
}

#[test]
fn an_evicted_pod_stops_within_its_grace_period() {
    let mut world = world_with(&[WorkloadSpec::new("web", 1)], 1);
    run(&mut world, 600);
    let pod = pods(&world).remove(0);
    evict(&mut world, &pod).unwrap();
    let target = Target::new(resource::PODS, "default", &pod);
    assert!(fields::is_deleting(
        &world.get(Side::Workload, &target).unwrap()
    ));
    run(&mut world, 31);
    assert!(world.get(Side::Workload, &target).is_none());
}

fn world_with(workloads: &[WorkloadSpec], vms: usize) -> World {
    let options = WorldOptions {
        workloads: workloads.to_vec(),
        ..WorldOptions::default()
    };
    let mut world = World::new(options, 5);
    boot(&mut world, vms);
    world
}

fn boot(world: &mut World, count: usize) {
    for index in 0..count {
        world.vm_changed(VmChange::Booted(vm(index)));
        let _ = index;
    }
    // No Cluster API objects exist here, so the taint that core takes off is taken off by hand.
    for _ in 0..200 {
        run(world, 1);
        for index in 0..count {
            let target = Target::new(resource::NODES, "", &format!("vm{index}"));
            let Some(node) = world.get(Side::Workload, &target) else {
                continue;
            };
            let mut taints = fields::list(&node, "/spec/taints").to_vec();
            taints.retain(|taint| !taint["key"].as_str().unwrap().contains("uninitialized"));
            let change = json!({"spec": {"taints": taints}});
            world
                .patch(Side::Workload, &target, reach(), &change)
                .unwrap();
        }
    }
}

fn vm(index: usize) -> BootedVm {
    BootedVm {
        provider_id: provider_id(index),
        computer_name: format!("VM{index}"),
        zone: Some("1".into()),
        image: "capi-1.33.1".into(),
        vm_id: format!("id-{index}"),
        joining: Joining::Joins,
    }
}

fn provider_id(index: usize) -> String {
    format!("azure:///subscriptions/s/virtualMachineScaleSets/p/virtualMachines/{index}")
}

fn run(world: &mut World, seconds: i64) {
    let to = world.now() + SignedDuration::from_secs(seconds);
    world.advance(to);
}

fn node(world: &World, name: &str) -> Option<Value> {
    let node = world.get(Side::Workload, &Target::new(resource::NODES, "", name));
    node.map(|node| (*node).clone())
}

fn pods(world: &World) -> Vec<String> {
    let pods = world.server(Side::Workload).list(resource::PODS);
    pods.map(|pod| fields::name(pod).to_owned()).collect()
}

fn evict(world: &mut World, pod: &str) -> Result<(), weir_world::cluster::refusal::Refusal> {
    let options = DeleteOptions::by("test");
    world.with_server(Side::Workload, |server, now| {
        server.evict(now, "default", pod, &options)
    })
}

fn reach() -> weir_world::cluster::server::Reach {
    weir_world::cluster::server::Reach::Main
}
