//! Cluster API core does with pools and machines what a provider has to reckon with.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, as it should"
)]

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use weir_world::cluster::kinds::resource;
use weir_world::cluster::kubelet::{BootedVm, Joining, VmChange};
use weir_world::cluster::server::Reach;
use weir_world::cluster::workload::WorkloadSpec;
use weir_world::cluster::{Side, Target, fields};
use weir_world::world::{DrainState, World, WorldOptions};

const GROUP: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const CORE: &str = "cluster.x-k8s.io/v1beta2";

#[test]
fn each_pool_machine_gets_a_machine_with_a_node_and_the_machine_controls_it() {
    let mut rig = Rig::new(1, 2, &[]);
    rig.run(300);
    for index in 0..2 {
        let machine = rig.machine(index);
        assert_eq!(machine["spec"]["providerID"], provider_id(index));
        assert_eq!(machine["status"]["nodeRef"]["name"], format!("vm{index}"));
        assert_eq!(machine["spec"]["version"], "v1.33.1");
        assert_eq!(machine["spec"]["bootstrap"]["dataSecretName"], "");
        assert_eq!(fields::condition(&machine, "Ready"), "True");
        assert_eq!(
            fields::text(fields::controller(&machine).unwrap(), "/kind"),
            "MachinePool"
        );
        let infra = rig
            .get(resource::AZURE_POOL_MACHINES, &name(index))
            .unwrap();
        assert_eq!(
            fields::text(fields::controller(&infra).unwrap(), "/kind"),
            "Machine"
        );
    }
    let pool = rig.get(resource::MACHINE_POOLS, "pool").unwrap();
    assert_eq!(pool["status"]["replicas"], 2);
    assert_eq!(pool["status"]["readyReplicas"], 2);
    assert_eq!(pool["status"]["phase"], "Running");
    let azure_pool = rig.get(resource::AZURE_POOLS, "pool").unwrap();
    assert_eq!(
        fields::text(fields::controller(&azure_pool).unwrap(), "/name"),
        "pool"
    );
    assert_eq!(
        fields::label(&azure_pool, "cluster.x-k8s.io/cluster-name"),
        "c"
    );
}

#[test]
fn a_machine_is_drained_before_its_pool_machine_is_deleted() {
    let mut rig = Rig::new(2, 2, &[WorkloadSpec::new("web", 4).with_min_available("3")]);
    rig.run(600);
    assert_eq!(rig.world.ready_pods("web"), 4);
    rig.delete_machine(0);
    rig.run_until("the pool machine is to go", |rig| rig.is_deleting_infra(0));
    let node = &rig.world.facts().nodes[0];
    assert!(node.is_cordoned && node.pods.is_empty(), "{node:?}");
    let machine = rig.machine(0);
    assert!(machine["status"]["deletion"]["nodeDrainStartTime"].is_string());
    assert_eq!(rig.deleting_reason(0), "WaitingForInfrastructureDeletion");
    rig.world.instance_delete_accepted(&provider_id(0));
    assert_eq!(
        rig.world.facts().instance_deletes[0].drain,
        DrainState::Drained
    );
    rig.remove_infra(0);
    rig.run_until("the machine is gone", |rig| {
        rig.get(resource::MACHINES, &name(0)).is_none()
    });
    assert_eq!(rig.world.facts().nodes.len(), 1, "core deleted the node");
}

#[test]
fn a_budget_of_zero_blocks_the_drain_until_its_timeout() {
    let mut rig = Rig::new(3, 2, &[WorkloadSpec::new("web", 2).with_min_available("2")]);
    rig.run(600);
    let limit = json!({"spec": {"deletion": {"nodeDrainTimeoutSeconds": 300}}});
    rig.patch(resource::MACHINES, &name(0), Reach::Main, &limit);
    rig.delete_machine(0);
    rig.run(200);
    assert_eq!(rig.deleting_reason(0), "DrainingNode");
    let message = rig.deleting("message", 0);
    assert!(
        message.contains("The disruption budget web needs 2 healthy pods"),
        "{message}"
    );
    assert!(!rig.is_deleting_infra(0));
    rig.run(200);
    assert!(rig.is_deleting_infra(0));
    rig.world.instance_delete_accepted(&provider_id(0));
    let drain = rig.world.facts().instance_deletes[0].drain.clone();
    assert!(
        matches!(drain, DrainState::TimedOut { pods_left: 1 }),
        "{drain:?}"
    );
}

#[test]
fn without_a_timeout_a_blocked_drain_lasts_for_ever() {
    let mut rig = Rig::new(4, 1, &[WorkloadSpec::new("web", 1).with_min_available("1")]);
    rig.run(600);
    rig.delete_machine(0);
    rig.run(6 * 3600);
    assert_eq!(rig.deleting_reason(0), "DrainingNode");
}

#[test]
fn hooks_and_the_exclusion_from_draining_are_obeyed() {
    let mut rig = Rig::new(5, 1, &[WorkloadSpec::new("web", 1).with_min_available("1")]);
    rig.run(600);
    let hook = |prefix: &str| format!("{prefix}.delete.hook.machine.cluster.x-k8s.io/test");
    let marks = json!({"metadata": {"annotations": {
        hook("pre-drain"): "", hook("pre-terminate"): "",
        "machine.cluster.x-k8s.io/exclude-node-draining": ""}}});
    rig.patch(resource::MACHINES, &name(0), Reach::Main, &marks);
    rig.delete_machine(0);
    rig.run(60);
    assert_eq!(rig.deleting_reason(0), "WaitingForPreDrainHook");
    let change = json!({"metadata": {"annotations": {hook("pre-drain"): null}}});
    rig.patch(resource::MACHINES, &name(0), Reach::Main, &change);
    rig.run(60);
    assert_eq!(rig.deleting_reason(0), "WaitingForPreTerminateHook");
    assert!(!rig.world.facts().nodes[0].is_cordoned);
    let change = json!({"metadata": {"annotations": {hook("pre-terminate"): null}}});
    rig.patch(resource::MACHINES, &name(0), Reach::Main, &change);
    rig.run(60);
    assert_eq!(rig.deleting_reason(0), "WaitingForInfrastructureDeletion");
}

#[test]
fn an_id_that_leaves_the_list_costs_the_node_without_a_drain() {
    let mut rig = Rig::new(6, 2, &[WorkloadSpec::new("web", 2).with_min_available("2")]);
    rig.run(600);
    let pods_there = rig.world.facts().nodes[0].pods.len();
    assert!(pods_there > 0);
    let list = json!({"spec": {"providerIDList": [provider_id(1)]}});
    rig.patch(resource::AZURE_POOLS, "pool", Reach::Main, &list);
    let status = json!({"status": {"replicas": 1}});
    rig.patch(resource::AZURE_POOLS, "pool", Reach::Status, &status);
    rig.run(30);
    let names: Vec<String> = rig
        .world
        .facts()
        .nodes
        .into_iter()
        .map(|node| node.name)
        .collect();
    assert_eq!(names, ["vm1"]);
}

#[test]
fn a_pool_whose_provider_is_not_ready_any_more_is_not_copied() {
    let mut rig = Rig::new(7, 1, &[]);
    rig.run(300);
    let status = json!({"status": {"ready": false, "replicas": 9}});
    rig.patch(resource::AZURE_POOLS, "pool", Reach::Status, &status);
    rig.run(60);
    let pool = rig.get(resource::MACHINE_POOLS, "pool").unwrap();
    assert_eq!(pool["status"]["replicas"], 1);
    assert_eq!(
        pool["status"]["initialization"]["infrastructureProvisioned"],
        false
    );
}

#[test]
fn a_terminal_failure_on_the_providers_pool_stops_core() {
    let mut rig = Rig::new(13, 1, &[]);
    let status = json!({"status": {"failureMessage": "quota", "replicas": 9}});
    rig.patch(resource::AZURE_POOLS, "pool", Reach::Status, &status);
    rig.run(60);
    let pool = rig.get(resource::MACHINE_POOLS, "pool").unwrap();
    assert_eq!(pool["status"]["replicas"], 1);
    assert!(
        rig.world
            .trace()
            .iter()
            .any(|entry| entry.line.contains("nil pointer"))
    );
}

#[test]
fn a_deleted_pool_waits_for_the_providers_pool_and_its_machines_follow() {
    let mut rig = Rig::new(8, 1, &[]);
    rig.run(300);
    let pool = Target::new(resource::MACHINE_POOLS, "default", "pool");
    rig.world.delete(Side::Management, &pool).unwrap();
    rig.run(60);
    let azure_pool = rig.get(resource::AZURE_POOLS, "pool").unwrap();
    assert!(fields::is_deleting(&azure_pool));
    assert!(rig.get(resource::MACHINE_POOLS, "pool").is_some());
    let change = json!({"metadata": {"finalizers": null}});
    rig.patch(resource::AZURE_POOLS, "pool", Reach::Main, &change);
    rig.run_until("the machine leaves", |rig| rig.is_deleting_infra(0));
    assert!(rig.get(resource::MACHINE_POOLS, "pool").is_none());
}

#[test]
fn a_deleting_cluster_is_not_drained() {
    let mut rig = Rig::new(9, 1, &[WorkloadSpec::new("web", 1).with_min_available("1")]);
    rig.run(600);
    let cluster = Target::new(resource::CLUSTERS, "default", "c");
    rig.world.delete(Side::Management, &cluster).unwrap();
    let change = json!({"metadata": {"finalizers": null}});
    rig.run(60);
    rig.patch(resource::AZURE_POOLS, "pool", Reach::Main, &change);
    rig.run_until("the machine leaves", |rig| rig.is_deleting_infra(0));
    assert!(!rig.world.facts().nodes[0].is_cordoned);
    rig.remove_infra(0);
    rig.run_until("all is gone", |rig| {
        rig.get(resource::CLUSTERS, "c").is_none()
    });
}

#[test]
fn a_paused_cluster_is_left_alone() {
    let mut rig = Rig::new(10, 1, &[]);
    rig.run(300);
    let pause = json!({"spec": {"paused": true}});
    rig.patch(resource::CLUSTERS, "c", Reach::Main, &pause);
    rig.delete_machine(0);
    rig.run(300);
    assert!(!rig.is_deleting_infra(0));
    rig.patch(
        resource::CLUSTERS,
        "c",
        Reach::Main,
        &json!({"spec": {"paused": null}}),
    );
    rig.run(60);
    assert!(rig.is_deleting_infra(0));
}

#[test]
fn equal_seeds_make_equal_traces_and_other_seeds_other_ones() {
    let story = |seed: u64| {
        let mut rig = Rig::new(
            seed,
            3,
            &[WorkloadSpec::new("web", 6).with_min_available("4")],
        );
        rig.run(600);
        rig.delete_machine(1);
        rig.run(600);
        rig.world.fingerprint()
    };
    assert_eq!(story(11), story(11));
    assert_ne!(story(11), story(12));
}

/// A world with one pool, and the test in the provider's place.
struct Rig {
    world: World,
}

impl Rig {
    fn new(seed: u64, count: usize, workloads: &[WorkloadSpec]) -> Rig {
        let mut rig = Rig {
            world: World::new(WorldOptions::default(), seed),
        };
        rig.create(
            &json!({"apiVersion": CORE, "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {}}),
        );
        rig.create(&json!({"apiVersion": CORE, "kind": "MachinePool",
            "metadata": {"name": "pool"}, "spec": {"clusterName": "c", "replicas": count,
                "template": {"spec": {"clusterName": "c",
                    "bootstrap": {"dataSecretName": "secret"},
                    "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
                        "kind": "AzureMachinePool", "name": "pool"}}}}}));
        let ids: Vec<String> = (0..count).map(provider_id).collect();
        rig.create(&json!({"apiVersion": GROUP, "kind": "AzureMachinePool",
            "metadata": {"name": "pool", "finalizers": ["test/pool"]},
            "spec": {"providerIDList": ids},
            "status": {"ready": true, "replicas": count,
                "infrastructureMachineKind": "AzureMachinePoolMachine"}}));
        for index in 0..count {
            rig.create(
                &json!({"apiVersion": GROUP, "kind": "AzureMachinePoolMachine",
                "metadata": {"name": name(index), "finalizers": ["test/machine"],
                    "labels": {"cluster.x-k8s.io/cluster-name": "c",
                        "cluster.x-k8s.io/pool-name": "pool"}},
                "spec": {"providerID": provider_id(index)}, "status": {"ready": true}}),
            );
            rig.world.vm_changed(VmChange::Booted(BootedVm {
                provider_id: provider_id(index),
                computer_name: format!("vm{index}"),
                zone: None,
                image: "capi-1.33.1".into(),
                vm_id: format!("id-{index}"),
                joining: Joining::Joins,
            }));
        }
        // All nodes are there before the first pod is, so that the pods spread.
        rig.run(300);
        for workload in workloads {
            rig.world.add_workload(workload).unwrap();
        }
        rig
    }

    fn create(&mut self, object: &Value) {
        let mut object = object.clone();
        object["metadata"]["namespace"] = json!("default");
        self.world.create(Side::Management, object).unwrap();
    }

    fn get(&self, key: &str, name: &str) -> Option<Arc<Value>> {
        self.world
            .get(Side::Management, &Target::new(key, "default", name))
    }

    fn machine(&self, index: usize) -> Arc<Value> {
        self.get(resource::MACHINES, &name(index))
            .expect("the machine is there")
    }

    fn patch(&mut self, key: &str, name: &str, reach: Reach, change: &Value) {
        let target = Target::new(key, "default", name);
        self.world
            .patch(Side::Management, &target, reach, change)
            .unwrap();
    }

    fn delete_machine(&mut self, index: usize) {
        let target = Target::new(resource::MACHINES, "default", &name(index));
        self.world.delete(Side::Management, &target).unwrap();
    }

    fn is_deleting_infra(&self, index: usize) -> bool {
        let infra = self.get(resource::AZURE_POOL_MACHINES, &name(index));
        infra.is_some_and(|infra| fields::is_deleting(&infra))
    }

    fn remove_infra(&mut self, index: usize) {
        let change = json!({"metadata": {"finalizers": null}});
        self.patch(
            resource::AZURE_POOL_MACHINES,
            &name(index),
            Reach::Main,
            &change,
        );
        self.world.vm_changed(VmChange::Gone {
            provider_id: provider_id(index),
        });
    }

    fn deleting_reason(&self, index: usize) -> String {
        self.deleting("reason", index)
    }

    fn deleting(&self, field: &str, index: usize) -> String {
        let machine = self.machine(index);
        let conditions = machine["status"]["conditions"].as_array().unwrap();
        let found = conditions
            .iter()
            .find(|one| one["type"] == "Deleting")
            .unwrap();
        found[field].as_str().unwrap().to_owned()
    }

    fn run(&mut self, seconds: i64) {
        let to = self.world.now() + SignedDuration::from_secs(seconds);
        self.world.advance(to);
    }

    fn run_until(&mut self, what: &str, is_so: impl Fn(&Rig) -> bool) {
        for _ in 0..3600 {
            if is_so(self) {
                return;
            }
            self.run(1);
        }
        panic!("not within an hour: {what}");
    }
}

fn name(index: usize) -> String {
    format!("pool-{index}")
}

fn provider_id(index: usize) -> String {
    format!("azure:///subscriptions/s/virtualMachineScaleSets/p/virtualMachines/{index}")
}
