//! What do the machines of the simulated Azure do in a workload cluster?
//!
//! A machine that boots joins as a Node, one that stops is not heard of, and the Node of one that
//! is gone is removed, as Azure's cloud controller does. Everything else about nodes is left to
//! whatever plays their kubelets, such as kwok.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anyhow::bail;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use weir_world::azure::{Vm, VmEvent};

/// How long a turn that failed is left alone. The simulated world is small and near.
const RETRY: Duration = Duration::from_secs(1);

/// The oldest minor of Kubernetes 1 that a version in an image's name is taken for; image versions
/// such as 1.1.0 are below it.
const KUBERNETES_MINOR_MIN: u32 = 20;

/// How machines behave in the cluster.
#[derive(Clone, Debug)]
pub(super) struct NodeOptions {
    /// From boot to the Node.
    pub(super) join_after: Duration,
    /// From the machine's end to that of its Node.
    pub(super) leave_after: Duration,
    /// The kubelet's version where the image names none.
    pub(super) kubelet_version: String,
    /// The location, for labels.
    pub(super) location: String,
}

/// All machines that have something to do with the cluster.
pub(super) struct Nodes {
    api: Api<Node>,
    options: NodeOptions,
    machines: BTreeMap<String, Machine>,
}

/// A machine, under its provider id; another one may have the same id after it.
struct Machine {
    /// Its node; turns name theirs, because an earlier machine may have had another one.
    node: String,
    turns: VecDeque<(Instant, Turn)>,
}

/// What a machine does next, in the order in which it happened to it.
#[derive(Clone, Debug)]
enum Turn {
    Join(Box<Vm>),
    FallSilent { node: String },
    Leave { node: String },
}

impl Nodes {
    pub(super) fn new(client: Client, options: NodeOptions) -> Nodes {
        Nodes {
            api: Api::all(client),
            options,
            machines: BTreeMap::new(),
        }
    }

    /// Does in the cluster what happens to machines, until nothing can happen any more.
    pub(super) async fn follow(mut self, mut events: mpsc::Receiver<VmEvent>) {
        loop {
            let due = self.next_due();
            let reached = async {
                match due {
                    Some((at, _)) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(event) => self.plan(event, Instant::now()),
                    None => return,
                },
                () = reached => if let Some((_, provider_id)) = due {
                    self.act(&provider_id).await;
                },
            }
        }
    }

    fn next_due(&self) -> Option<(Instant, String)> {
        let fronts = self.machines.iter().filter_map(|(provider_id, machine)| {
            machine
                .turns
                .front()
                .map(|(at, _)| (*at, provider_id.clone()))
        });
        fronts.min()
    }

    fn plan(&mut self, event: VmEvent, now: Instant) {
        match event {
            VmEvent::Booted(vm) | VmEvent::Reimaged(vm) => {
                let machine = self
                    .machines
                    .entry(vm.provider_id.clone())
                    .or_insert_with(|| Machine {
                        node: String::new(),
                        turns: VecDeque::new(),
                    });
                machine
                    .turns
                    .retain(|(_, turn)| !matches!(turn, Turn::Join(_)));
                machine.node = vm.computer_name.to_lowercase();
                if !vm.never_joins {
                    let at = now + self.options.join_after;
                    machine.turns.push_back((at, Turn::Join(Box::new(vm))));
                }
            }
            VmEvent::Stopped { provider_id } => {
                self.stop(&provider_id, now, |node| Turn::FallSilent { node });
            }
            VmEvent::Gone { provider_id } => {
                let at = now + self.options.leave_after;
                self.stop(&provider_id, at, |node| Turn::Leave { node });
            }
            // Its node goes on until the machine does.
            VmEvent::Deleting { provider_id: _ } => {}
        }
    }

    fn stop(&mut self, provider_id: &str, at: Instant, turn: impl FnOnce(String) -> Turn) {
        if let Some(machine) = self.machines.get_mut(provider_id) {
            machine
                .turns
                .retain(|(_, turn)| !matches!(turn, Turn::Join(_)));
            machine.turns.push_back((at, turn(machine.node.clone())));
        }
    }

    /// Takes a machine's next turn; one that fails is tried again a little later.
    async fn act(&mut self, provider_id: &str) {
        let Some(machine) = self.machines.get(provider_id) else {
            return;
        };
        let Some((_, turn)) = machine.turns.front().cloned() else {
            return;
        };
        let done = match &turn {
            Turn::Join(vm) => self.join(vm).await,
            Turn::FallSilent { node } => self.fall_silent(node, provider_id).await,
            Turn::Leave { node } => self.leave(node, provider_id).await,
        };
        let Some(machine) = self.machines.get_mut(provider_id) else {
            return;
        };
        match done {
            Ok(()) => {
                machine.turns.pop_front();
                if matches!(turn, Turn::Leave { .. }) && machine.turns.is_empty() {
                    self.machines.remove(provider_id);
                }
            }
            Err(error) => {
                let error = crate::one_line(&error);
                tracing::warn!(node = machine.node, provider_id, error, "trying again");
                if let Some((at, _)) = machine.turns.front_mut() {
                    *at = Instant::now() + RETRY;
                }
            }
        }
    }

    async fn join(&self, vm: &Vm) -> anyhow::Result<()> {
        let node = node(vm, &self.options);
        let name = node.name_any();
        match self.api.get_opt(&name).await? {
            None => {
                self.api.create(&PostParams::default(), &node).await?;
            }
            Some(live) if provider_id_of(&live) == vm.provider_id => {
                let info = node.status.and_then(|status| status.node_info);
                let status = json!({"status": {"nodeInfo": info,
                    "conditions": conditions(&live, "True", "KubeletReady")}});
                self.patch_status(&name, &status).await?;
            }
            Some(live) => bail!("the name still stands for {}", provider_id_of(&live)),
        }
        tracing::info!(node = name, provider_id = vm.provider_id, "joined");
        Ok(())
    }

    async fn fall_silent(&self, name: &str, provider_id: &str) -> anyhow::Result<()> {
        let Some(live) = self.live(name, provider_id).await? else {
            return Ok(());
        };
        let conditions = conditions(&live, "Unknown", "NodeStatusUnknown");
        let status = json!({"status": {"conditions": conditions}});
        self.patch_status(name, &status).await?;
        tracing::info!(node = name, provider_id, "fell silent");
        Ok(())
    }

    async fn leave(&self, name: &str, provider_id: &str) -> anyhow::Result<()> {
        let Some(live) = self.live(name, provider_id).await? else {
            return Ok(());
        };
        let preconditions = Some(Preconditions {
            uid: live.uid(),
            resource_version: None,
        });
        let params = DeleteParams {
            preconditions,
            ..DeleteParams::default()
        };
        match self.api.delete(name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        tracing::info!(node = name, provider_id, "left");
        Ok(())
    }

    /// Returns the node if it is this machine's.
    async fn live(&self, name: &str, provider_id: &str) -> Result<Option<Node>, kube::Error> {
        let live = self.api.get_opt(name).await?;
        Ok(live.filter(|live| provider_id_of(live) == provider_id))
    }

    async fn patch_status(&self, name: &str, status: &Value) -> Result<(), kube::Error> {
        let params = PatchParams::default();
        match self
            .api
            .patch_status(name, &params, &Patch::Merge(status))
            .await
        {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(drop),
        }
    }
}

fn provider_id_of(node: &Node) -> &str {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.provider_id.as_deref())
        .unwrap_or_default()
}

/// Returns the node's conditions with another `Ready`.
fn conditions(node: &Node, status: &str, reason: &str) -> Vec<NodeCondition> {
    let of_node = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone());
    let mut conditions = of_node.unwrap_or_default();
    conditions.retain(|condition| condition.type_ != "Ready");
    conditions.push(NodeCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        last_transition_time: Some(Time(Timestamp::now())),
        ..NodeCondition::default()
    });
    conditions
}

/// Returns a machine's node as its kubelet and Azure's cloud controller would register it.
///
/// # Source
/// Labels: <https://cloud-provider-azure.sigs.k8s.io/topics/availability-zones/>, "Node labels".
fn node(vm: &Vm, options: &NodeOptions) -> Node {
    let name = vm.computer_name.to_lowercase();
    let location = &options.location;
    let zone = match &vm.zone {
        Some(zone) => format!("{location}-{zone}"),
        None => "0".to_owned(),
    };
    let labels = [
        ("kubernetes.io/hostname", name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("node.kubernetes.io/instance-type", &vm.size),
        ("topology.kubernetes.io/region", location),
        ("topology.kubernetes.io/zone", &zone),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let fake = ("kwok.x-k8s.io/node".to_owned(), "fake".to_owned());
    let version = kubelet_version(&vm.image).unwrap_or_else(|| options.kubelet_version.clone());
    Node {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels.into()),
            annotations: Some([fake].into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(vm.provider_id.clone()),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            node_info: Some(NodeSystemInfo {
                architecture: "amd64".to_owned(),
                // A machine that starts again has another one; the time tells starts apart.
                boot_id: Timestamp::now().to_string(),
                container_runtime_version: "containerd://2.1.0".to_owned(),
                kernel_version: "6.8.0".to_owned(),
                kubelet_version: version,
                machine_id: vm.vm_id.clone(),
                operating_system: "linux".to_owned(),
                os_image: "Linux".to_owned(),
                system_uuid: vm.vm_id.clone(),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        }),
    }
}

/// Returns the version of Kubernetes that an image reference names, if it names one.
fn kubelet_version(image: &Value) -> Option<String> {
    let texts = image.as_object()?.values().filter_map(Value::as_str);
    let words = texts.flat_map(|text| text.split(['/', ':']));
    let is_version = |word: &&str| {
        let bare = word.split(['-', '+']).next().unwrap_or_default();
        let parts: Vec<Option<u32>> = bare.split('.').map(|part| part.parse().ok()).collect();
        matches!(parts[..], [Some(1), Some(minor), Some(_)] if minor >= KUBERNETES_MINOR_MIN)
    };
    words
        .map(|word| word.trim_start_matches('v'))
        .find(is_version)
        .map(|word| format!("v{word}"))
}

#[cfg(test)]
mod tests {
    use kube::api::ListParams;
    use weir_world::serve::SharedWorld;
    use weir_world::world::{Endpoint, World, WorldOptions};

    use super::*;

    #[test]
    fn the_kubelet_version_is_read_from_the_image() {
        let rows = [
            (
                "community gallery",
                json!({"communityGalleryImageId":
                    "/CommunityGalleries/g-1/Images/capi-ubun2-2404/Versions/1.34.2"}),
                Some("v1.34.2"),
            ),
            (
                "marketplace",
                json!({"publisher": "p", "offer": "o", "sku": "s", "version": "1.33.0-rc.1"}),
                Some("v1.33.0-rc.1"),
            ),
            (
                "a version of the image itself",
                json!({"version": "1.1.0"}),
                None,
            ),
            ("a date", json!({"version": "2026.12.1"}), None),
            ("latest", json!({"version": "latest"}), None),
            ("nothing", Value::Null, None),
        ];
        for (name, image, version) in rows {
            assert_eq!(kubelet_version(&image).as_deref(), version, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_is_gone_before_it_joins_never_joins() {
        let cluster = Cluster::new().await;
        cluster
            .tell(VmEvent::Booted(vm("pool-a000001", "1", "a")))
            .await;
        cluster
            .tell(VmEvent::Gone {
                provider_id: id("1"),
            })
            .await;
        cluster.after(60).await;
        assert!(cluster.nodes().await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_never_joins_has_no_node() {
        let cluster = Cluster::new().await;
        let vm = Vm {
            never_joins: true,
            ..vm("pool-a000001", "1", "a")
        };
        cluster.tell(VmEvent::Booted(vm)).await;
        cluster.after(60).await;
        assert!(cluster.nodes().await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopped_machine_falls_silent_until_it_starts_again() {
        let cluster = Cluster::new().await;
        cluster
            .tell(VmEvent::Booted(vm("pool-a000001", "1", "a")))
            .await;
        cluster.after(3).await;
        assert_eq!(cluster.nodes().await, ["pool-a000001 1 no condition"]);
        cluster
            .tell(VmEvent::Stopped {
                provider_id: id("1"),
            })
            .await;
        cluster.after(3).await;
        assert_eq!(cluster.nodes().await, ["pool-a000001 1 Unknown"]);
        cluster
            .tell(VmEvent::Reimaged(vm("pool-a000001", "1", "a")))
            .await;
        cluster.after(3).await;
        assert_eq!(cluster.nodes().await, ["pool-a000001 1 True"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_waited_for_until_its_older_machine_has_left() {
        let cluster = Cluster::new().await;
        cluster
            .tell(VmEvent::Booted(vm("pool-a000001", "1", "a")))
            .await;
        cluster.after(3).await;
        cluster
            .tell(VmEvent::Booted(vm("pool-a000001", "2", "b")))
            .await;
        cluster.after(10).await;
        assert_eq!(cluster.nodes().await, ["pool-a000001 1 no condition"]);
        cluster
            .tell(VmEvent::Gone {
                provider_id: id("1"),
            })
            .await;
        cluster.after(10).await;
        assert_eq!(cluster.nodes().await, ["pool-a000001 2 no condition"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_id_that_is_used_again_gets_a_node_of_its_own() {
        let cluster = Cluster::new().await;
        cluster
            .tell(VmEvent::Booted(vm("pool-a000001", "1", "a")))
            .await;
        cluster.after(3).await;
        cluster
            .tell(VmEvent::Gone {
                provider_id: id("1"),
            })
            .await;
        cluster
            .tell(VmEvent::Booted(vm("pool-a00000b", "1", "b")))
            .await;
        cluster.after(10).await;
        assert_eq!(cluster.nodes().await, ["pool-a00000b 1 no condition"]);
    }

    /// A simulated API server, and machines that are followed into it.
    struct Cluster {
        api: Api<Node>,
        events: mpsc::Sender<VmEvent>,
    }

    impl Cluster {
        async fn new() -> Cluster {
            let world = SharedWorld::new(World::new(WorldOptions::default(), 1));
            let client = Client::new(world.kube(Endpoint::Workload), "default");
            let (events, receiver) = mpsc::channel(8);
            let options = NodeOptions {
                join_after: Duration::from_secs(2),
                leave_after: Duration::from_secs(1),
                kubelet_version: "v1.34.0".to_owned(),
                location: "westeurope".to_owned(),
            };
            tokio::spawn(Nodes::new(client.clone(), options).follow(receiver));
            Cluster {
                api: Api::all(client),
                events,
            }
        }

        async fn tell(&self, event: VmEvent) {
            self.events.send(event).await.unwrap();
        }

        /// Lets so many seconds of the paused clock go by.
        async fn after(&self, seconds: u64) {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }

        /// Returns each node's name, instance and readiness.
        async fn nodes(&self) -> Vec<String> {
            let nodes = self.api.list(&ListParams::default()).await.unwrap();
            let lines = nodes.items.iter().map(|node| {
                let (_, instance) = provider_id_of(node).rsplit_once('/').unwrap();
                let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
                let ready = conditions
                    .into_iter()
                    .flatten()
                    .find(|c| c.type_ == "Ready");
                let ready = ready.map_or("no condition", |ready| &ready.status);
                format!("{} {instance} {ready}", node.name_any())
            });
            lines.collect()
        }
    }

    fn id(instance: &str) -> String {
        format!("azure:///subscriptions/s/virtualMachines/{instance}")
    }

    fn vm(computer_name: &str, instance: &str, vm_id: &str) -> Vm {
        Vm {
            provider_id: id(instance),
            instance_id: instance.to_owned(),
            vm_id: vm_id.to_owned(),
            computer_name: computer_name.to_owned(),
            zone: None,
            size: "Standard_D2s_v5".to_owned(),
            image: Value::Null,
            custom_data: None,
            tags: BTreeMap::new(),
            scale_set: "pool-a".to_owned(),
            created: Timestamp::UNIX_EPOCH,
            never_joins: false,
        }
    }
}
