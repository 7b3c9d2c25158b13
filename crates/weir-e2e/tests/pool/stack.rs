//! What do the scenarios of a pool run on?
//!
//! A control plane, `weir azure-sim` and `weir controller`, the last two as programs of their own.
//! The controller has the rights of `deploy/rbac.yaml` and no others, so that a missing one shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{Api, DynamicObject, ListParams};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_e2e::fixtures::{self, CORE, INFRASTRUCTURE, Place};
use weir_e2e::{
    ControlPlane, Process, apply, free_ports, fresh_directory, get, object_api, server, wait_until,
    weir_binary,
};

/// How long any single thing may take on two busy cores.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Time until an instance runs, and from then to its Node.
pub(crate) const CREATE: Duration = Duration::from_secs(4);
pub(crate) const JOIN: Duration = Duration::from_secs(2);

/// Time until a deleted instance is gone.
pub(crate) const DELETE: Duration = Duration::from_secs(4);

/// What Weir may do in the management cluster.
const RBAC: &str = include_str!("../../../../deploy/rbac.yaml");

/// Where `deploy/rbac.yaml` has Weir's account.
const NAMESPACE: &str = "weir-system";

/// Everything that runs, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) control_plane: ControlPlane,
    pub(crate) azure: Azure,
    kubeconfig: PathBuf,
    controller: Option<Process>,
}

/// The simulated Azure, as its users reach it.
#[derive(Clone, Debug)]
pub(crate) struct Azure {
    pub(crate) url: String,
    pub(crate) ca: PathBuf,
    /// Kept, because the process ends with it.
    _process: std::sync::Arc<Process>,
}

impl Stack {
    /// Starts everything but the controller, and installs what it needs.
    pub(crate) async fn start(name: &str) -> anyhow::Result<Self> {
        let directory = fresh_directory(env!("CARGO_TARGET_TMPDIR"), name)?;
        let control_plane = ControlPlane::start(&directory).await?;
        fixtures::define_kinds(&control_plane.management).await?;
        let azure = start_azure(&control_plane).await?;
        let kubeconfig = act_as_weir(&control_plane).await?;
        Ok(Self {
            control_plane,
            azure,
            kubeconfig,
            controller: None,
        })
    }

    /// Starts the controller; one that was killed leaves its Lease, which has to run out first.
    pub(crate) fn start_controller(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(weir_binary()?);
        command
            .args(["controller", "--leader-elect"])
            .arg(format!("--leader-election-namespace={NAMESPACE}"))
            .args(["--health-addr=127.0.0.1:0", "--metrics-addr=127.0.0.1:0"])
            .args(["--azure-endpoint", &self.azure.url])
            .args(["--azure-authority", &self.azure.url])
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .env("SSL_CERT_FILE", &self.azure.ca)
            .env_remove("SSL_CERT_DIR");
        self.controller = Some(self.control_plane.start_process("controller", command)?);
        Ok(())
    }

    /// Kills the controller with SIGKILL, at whatever it is.
    pub(crate) fn kill_controller(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.kill();
        }
    }

    /// Checks that the controller still runs, was never refused a right, and told no secret.
    pub(crate) fn controller_is_well(&mut self) -> anyhow::Result<()> {
        let controller = self.controller.as_mut().context("no controller runs")?;
        let ended = controller.exit_status()?;
        ensure!(
            ended.is_none(),
            "the controller has ended: {}",
            controller.last_lines()
        );
        let log = fs::read_to_string(controller.log()).context("the controller has no log")?;
        for line in log.lines() {
            let lower = line.to_lowercase();
            ensure!(!lower.contains("forbidden"), "a right is missing: {line}");
            ensure!(!lower.contains("panicked"), "the controller panics: {line}");
            ensure!(
                !line.contains(fixtures::PASSWORD),
                "the log shows the client secret"
            );
        }
        Ok(())
    }

    /// Writes all objects of a place beside the logs, for whoever looks why a test failed.
    pub(crate) async fn dump(&self, place: &Place) -> anyhow::Result<()> {
        let all = ListParams::default();
        let mut objects = Vec::new();
        for api in [
            self.management(CORE, "MachinePool", place),
            self.pools(place),
            self.machines(place),
            self.instances(place),
            self.management("v1", "Event", place),
        ] {
            for mut object in api.list(&all).await? {
                object.metadata.managed_fields = None;
                objects.push(serde_json::to_value(object)?);
            }
        }
        for mut node in self.nodes().list(&all).await? {
            node.metadata.managed_fields = None;
            objects.push(serde_json::to_value(node)?);
        }
        let path = self.control_plane.directory().join("objects.yaml");
        fs::write(&path, serde_yaml::to_string(&objects)?)?;
        println!(
            "objects and logs are in {}",
            self.control_plane.directory().display()
        );
        Ok(())
    }

    /// Returns the objects of one kind in a place.
    pub(crate) fn management(
        &self,
        api_version: &str,
        kind: &str,
        place: &Place,
    ) -> Api<DynamicObject> {
        let client = &self.control_plane.management.client;
        object_api(client, api_version, kind, &place.namespace)
    }

    pub(crate) fn machines(&self, place: &Place) -> Api<DynamicObject> {
        self.management(CORE, "Machine", place)
    }

    pub(crate) fn instances(&self, place: &Place) -> Api<DynamicObject> {
        self.management(INFRASTRUCTURE, "AzureMachinePoolMachine", place)
    }

    pub(crate) fn pools(&self, place: &Place) -> Api<DynamicObject> {
        self.management(INFRASTRUCTURE, "AzureMachinePool", place)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.control_plane.workload.client.clone())
    }

    /// Waits until the pool is as it was asked for, in every object that tells about it.
    pub(crate) async fn settled(
        &self,
        place: &Place,
        pool: &fixtures::Pool,
        limit: Duration,
    ) -> anyhow::Result<()> {
        let what = format!(
            "pool {} of {} at {}",
            pool.name, pool.replicas, pool.version
        );
        wait_until(&what, limit, async || {
            self.is_settled(place, pool).await.map(Some)
        })
        .await
    }

    /// Says what is missing until the pool is as asked for.
    async fn is_settled(&self, place: &Place, pool: &fixtures::Pool) -> anyhow::Result<()> {
        let wanted = pool.replicas as usize;
        let mut ids = Vec::new();
        let mut names = Vec::new();
        for node in self.nodes().list(&ListParams::default()).await? {
            let name = node.metadata.name.unwrap_or_default();
            let info = node.status.and_then(|status| status.node_info);
            let version = info.map(|info| info.kubelet_version).unwrap_or_default();
            ensure!(
                version == pool.version,
                "node {name} is at version {version}"
            );
            ids.extend(node.spec.and_then(|spec| spec.provider_id));
            names.push(name);
        }
        ids.sort();
        names.sort();
        ensure!(names.len() == wanted, "nodes are {names:?}");

        let mut machine_nodes = Vec::new();
        for machine in self.machines(place).list(&ListParams::default()).await? {
            ensure!(
                machine.metadata.deletion_timestamp.is_none(),
                "a Machine is on its way out"
            );
            machine_nodes.extend(text(&machine.data["status"]["nodeRef"]["name"]));
        }
        machine_nodes.sort();
        ensure!(
            machine_nodes == names,
            "nodes of Machines are {machine_nodes:?}"
        );

        let azure = self.pools(place).get(&pool.name).await?;
        let listed: Vec<String> =
            serde_json::from_value(azure.data["spec"]["providerIDList"].clone())?;
        let mut listed = listed;
        listed.sort();
        ensure!(listed == ids, "providerIDList is {listed:?}");
        for kind in ["Ready", "UpToDate", "Available"] {
            let condition = condition(&azure, kind)?;
            ensure!(condition.status == "True", "{kind} is {condition:?}");
        }
        ensure!(azure.data["status"]["ready"] == true, "it is not ready");

        let machine_pool = self
            .management(CORE, "MachinePool", place)
            .get(&pool.name)
            .await?;
        let status = &machine_pool.data["status"];
        let count = status["nodeRefs"].as_array().map_or(0, Vec::len);
        ensure!(count == wanted, "MachinePool has {count} nodeRefs");
        ensure!(
            status["replicas"] == pool.replicas,
            "MachinePool has {} replicas",
            status["replicas"]
        );
        let existing = self.azure.report().await?.scale_set(&pool.name).existing();
        ensure!(existing == wanted as u64, "Azure has {existing} instances");
        Ok(())
    }

    /// Waits until there is a condition and an event with these words, and returns the messages.
    pub(crate) async fn complaint(
        &self,
        place: &Place,
        pool: &str,
        words: &[&str],
    ) -> anyhow::Result<()> {
        let client = self.control_plane.management.client.clone();
        let events: Api<Event> = Api::namespaced(client, &place.namespace);
        let pools = self.pools(place);
        let tells = |message: &str| words.iter().all(|word| message.contains(word));
        wait_until(&format!("complaint of pool {pool}"), SOON, async || {
            let ready = condition(&pools.get(pool).await?, "Ready")?;
            ensure!(ready.status == "False", "Ready is {ready:?}");
            ensure!(tells(&ready.message), "Ready is {ready:?}");
            let mut told = Vec::new();
            for event in events.list(&ListParams::default()).await? {
                let is_warning = event.type_.as_deref() == Some("Warning");
                if is_warning && event.involved_object.name.as_deref() == Some(pool) {
                    told.push(event.message.unwrap_or_default());
                }
            }
            ensure!(
                told.iter().any(|message| tells(message)),
                "events are {told:?}"
            );
            println!("{pool}: {}: {}", ready.reason, ready.message);
            Ok(Some(()))
        })
        .await
    }
}

impl Azure {
    /// Returns what it was asked so far. Asking for it is not counted.
    pub(crate) async fn report(&self) -> anyhow::Result<Report> {
        let text = get(&format!("{}/sim/report", self.url), Some(&self.ca)).await?;
        serde_json::from_str(&text).context("the report cannot be read")
    }

    /// Checks, as a user with an account in Azure, that there is no such scale set.
    pub(crate) async fn has_no_scale_set(&self, group: &str, name: &str) -> anyhow::Result<()> {
        let client = server(&self.url, Some(&self.ca)).await?;
        let login = format!(
            "grant_type=client_credentials&client_id={}&client_secret={}&scope={}/.default",
            fixtures::CLIENT,
            fixtures::PASSWORD,
            self.url
        );
        let request = http::Request::post(format!("/{}/oauth2/v2.0/token", fixtures::TENANT))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(login.into_bytes())?;
        let answer: Value = client.request(request).await.context("no token")?;
        let token = text(&answer["access_token"]).context("a token without its text")?;
        let path = format!(
            "/subscriptions/{}/resourceGroups/{group}/providers/Microsoft.Compute\
             /virtualMachineScaleSets?api-version=2024-11-01",
            fixtures::SUBSCRIPTION
        );
        let request = http::Request::get(path)
            .header("authorization", format!("Bearer {token}"))
            .body(Vec::new())?;
        let answer: Value = client.request(request).await.context("no list")?;
        let sets = answer["value"].as_array().context("a list without value")?;
        ensure!(
            sets.iter().all(|set| set["name"] != name),
            "scale set {name} is left in Azure"
        );
        Ok(())
    }
}

/// What the simulated Azure counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) calls: std::collections::BTreeMap<String, Value>,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) polls: u64,
    pub(crate) throttled: u64,
    scale_sets: std::collections::BTreeMap<String, ScaleSet>,
}

/// What became of a scale set's instances.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScaleSet {
    pub(crate) created: u64,
    pub(crate) deleted: u64,
    pub(crate) instances_max: u64,
}

impl Report {
    pub(crate) fn scale_set(&self, name: &str) -> ScaleSet {
        self.scale_sets.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn all_calls(&self) -> u64 {
        self.reads + self.writes + self.polls
    }
}

impl ScaleSet {
    pub(crate) fn existing(self) -> u64 {
        self.created - self.deleted
    }
}

/// A condition of an AzureMachinePool, as the current contract has it.
#[derive(Debug, Deserialize)]
pub(crate) struct Condition {
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

fn condition(pool: &DynamicObject, kind: &str) -> anyhow::Result<Condition> {
    let conditions = pool.data["status"]["v1beta2"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|each| each["type"] == kind);
    let found = found.with_context(|| format!("there is no condition {kind}"))?;
    serde_json::from_value(found.clone()).context("not a condition")
}

pub(crate) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

async fn start_azure(control_plane: &ControlPlane) -> anyhow::Result<Azure> {
    let [port] = free_ports()?;
    let ca = control_plane.directory().join("azure-ca.pem");
    let seconds = |flag: &str, span: Duration| format!("--{flag}-seconds={}", span.as_secs_f64());
    let mut command = Command::new(weir_binary()?);
    command
        .arg("azure-sim")
        .arg(format!("--listen=127.0.0.1:{port}"))
        .arg("--ca-file")
        .arg(&ca)
        .arg("--kubeconfig")
        .arg(&control_plane.workload.kubeconfig)
        .args(["--subscription", fixtures::SUBSCRIPTION])
        .args(["--tenant", fixtures::TENANT])
        .args(["--client-secret", fixtures::PASSWORD])
        .args([seconds("create", CREATE), seconds("join", JOIN)])
        .args([seconds("delete", DELETE), "--leave-seconds=1".to_owned()])
        // A fast Azure with the allowances of the real one: what is too many calls there is here.
        .args(["--update-seconds=1", "--retry-after-seconds=1"])
        .args(["--throttle=on", "--seed=7"]);
    let mut process = control_plane.start_process("azure-sim", command)?;
    let url = format!("https://127.0.0.1:{port}");
    let report = format!("{url}/sim/report");
    process
        .wait_until_ready(SOON, async || Ok(get(&report, Some(&ca)).await.is_ok()))
        .await?;
    Ok(Azure {
        url,
        ca,
        _process: std::sync::Arc::new(process),
    })
}

/// Installs Weir's account and returns a kubeconfig that acts as it.
async fn act_as_weir(control_plane: &ControlPlane) -> anyhow::Result<PathBuf> {
    let client = &control_plane.management.client;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(client, namespace).await?;
    for document in serde_yaml::Deserializer::from_str(RBAC) {
        apply(client, Value::deserialize(document)?).await?;
    }
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/weir-controller/token");
    let wanted = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600}});
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&wanted)?)?;
    let answer: Value = client
        .request(request)
        .await
        .context("Weir's account gets no token")?;
    let mut kubeconfig: Value = read_yaml(&control_plane.management.kubeconfig)?;
    kubeconfig["users"][0]["user"] = json!({"token": answer["status"]["token"]});
    let path = control_plane.directory().join("controller.kubeconfig");
    fs::write(&path, serde_yaml::to_string(&kubeconfig)?)?;
    Ok(path)
}

fn read_yaml(path: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(path)?;
    serde_yaml::from_str(&text).with_context(|| format!("bad YAML in {}", path.display()))
}
