//! What does a whole control plane consist of, and when is it ready?

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use kube::api::{DynamicObject, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::certificates::Certificates;
use crate::cluster_api::Webhooks;
use crate::http::{client, get};
use crate::objects::{apply, object_api};
use crate::ports::free_ports;
use crate::process::Process;
use crate::servers::{READY_IN, Site, write_kubeconfig};
use crate::testbed::Testbed;
use crate::wait::wait_until;

/// How long a definition may take to be served; it takes about a second.
const DEFINED_IN: Duration = Duration::from_secs(30);

/// Two clusters and everything that runs in them, for as long as this lives.
#[derive(Debug)]
pub struct ControlPlane {
    /// Where Cluster API's objects are: API server, garbage collection and Cluster API's core.
    pub management: KubernetesApi,
    /// Where nodes and pods are: API server, controllers, scheduler and fake kubelets.
    pub workload: KubernetesApi,
    directory: PathBuf,
    certificates: Certificates,
    /// In the order in which they are ended: what calls before what is called.
    processes: Vec<Process>,
}

/// Access to one API server.
#[derive(Clone)]
pub struct KubernetesApi {
    /// Client with all rights.
    pub client: Client,
    /// File with which other programs get the same.
    pub kubeconfig: PathBuf,
    /// Address, without a path.
    pub url: String,
}

impl std::fmt::Debug for KubernetesApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubernetesApi")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Starts everything and waits until all of it answers; some ten seconds on two cores.
    ///
    /// Data, logs and kubeconfig files go to `directory`, which has to be empty.
    ///
    /// # Errors
    /// A server does not come up; the error shows the end of its log.
    pub async fn start(directory: &Path) -> anyhow::Result<Self> {
        let testbed = tokio::task::spawn_blocking(Testbed::find)
            .await
            .context("the search for the testbed panicked")??;
        let certificates = Certificates::create(directory)?;
        let site = Site {
            directory,
            testbed: &testbed,
            certificates: &certificates,
        };

        let [etcd_port, peer_port, management_port, workload_port] = free_ports()?;
        let mut etcd = site.etcd(etcd_port, peer_port)?;
        let mut management_server =
            site.kube_apiserver("management", management_port, etcd_port)?;
        let mut workload_server = site.kube_apiserver("workload", workload_port, etcd_port)?;
        let health = format!("http://127.0.0.1:{etcd_port}/health");
        etcd.wait_until_ready(READY_IN, async || Ok(get(&health, None).await.is_ok()))
            .await?;
        let (management, workload) = tokio::try_join!(
            api(&site, &mut management_server, "management", management_port),
            api(&site, &mut workload_server, "workload", workload_port),
        )?;

        let (mut processes, workload_processes) = tokio::try_join!(
            start_management(&site, &management),
            start_workload(&site, &workload),
        )?;
        processes.extend(workload_processes);
        processes.extend([management_server, workload_server, etcd]);
        let directory = directory.to_owned();
        Ok(Self {
            management,
            workload,
            directory,
            certificates,
            processes,
        })
    }

    /// Returns where data and logs are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the certificate of the authority that all servers are trusted by.
    pub fn ca_file(&self) -> &Path {
        &self.certificates.ca
    }

    /// Starts another program, with its log beside the others; it ends when it is dropped.
    ///
    /// # Errors
    /// There is no such program.
    pub fn start_process(
        &self,
        name: &str,
        command: std::process::Command,
    ) -> anyhow::Result<Process> {
        Process::start(&self.directory, name, command)
    }

    /// Ends a server at once, as a crash would; says whether there was one of that log name.
    pub fn kill(&mut self, log_name: &str) -> bool {
        let count = self.processes.len();
        let log = self.directory.join(format!("{log_name}.log"));
        self.processes.retain(|process| process.log() != log);
        self.processes.len() < count
    }
}

/// Waits for an API server and returns access to it.
async fn api(
    site: &Site<'_>,
    server: &mut Process,
    cluster: &str,
    port: u16,
) -> anyhow::Result<KubernetesApi> {
    let kubeconfig = write_kubeconfig(site.directory, cluster, port, site.certificates)?;
    let parsed = Kubeconfig::read_from(&kubeconfig).context("failed to read a kubeconfig")?;
    let client = client(parsed).await?;
    let url = format!("https://127.0.0.1:{port}");
    server
        .wait_until_ready(READY_IN, async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            Ok(client.request_text(request).await? == "ok")
        })
        .await?;
    Ok(KubernetesApi {
        client,
        kubeconfig,
        url,
    })
}

async fn start_management(
    site: &Site<'_>,
    management: &KubernetesApi,
) -> anyhow::Result<Vec<Process>> {
    let [
        controllers_port,
        webhook_port,
        health_port,
        diagnostics_port,
    ] = free_ports()?;
    let kubeconfig = &management.kubeconfig;
    let webhooks = Webhooks {
        port: webhook_port,
        ca_bundle: site.certificates.ca_bundle()?,
    };
    let mut definitions = site.testbed.core_manifests("crds")?;
    for definition in &mut definitions {
        webhooks.convert_definition(definition);
    }
    define(&management.client, definitions).await?;

    let controllers = ["garbage-collector-controller", "namespace-controller"];
    let mut manager =
        site.kube_controller_manager("management", kubeconfig, controllers_port, &controllers)?;
    let mut core =
        site.cluster_api_core(kubeconfig, webhook_port, health_port, diagnostics_port)?;
    let health = format!("http://127.0.0.1:{health_port}/readyz");
    core.wait_until_ready(READY_IN, async || Ok(get(&health, None).await? == "ok"))
        .await?;
    for mut configuration in site.testbed.core_manifests("webhook")? {
        if configuration.get("webhooks").is_some() {
            webhooks.serve_configuration(&mut configuration);
            apply(&management.client, configuration).await?;
        }
    }
    webhooks_answer(&management.client).await?;
    component_is_ready(site, &mut manager, controllers_port).await?;
    Ok(vec![core, manager])
}

async fn start_workload(site: &Site<'_>, workload: &KubernetesApi) -> anyhow::Result<Vec<Process>> {
    let [controllers_port, scheduler_port, kwok_port] = free_ports()?;
    let kubeconfig = &workload.kubeconfig;
    let controllers = [
        "deployment-controller",
        "replicaset-controller",
        "disruption-controller",
        "garbage-collector-controller",
        "namespace-controller",
        "serviceaccount-controller",
    ];
    let mut manager =
        site.kube_controller_manager("workload", kubeconfig, controllers_port, &controllers)?;
    let mut scheduler = site.kube_scheduler("workload", kubeconfig, scheduler_port)?;
    let mut kwok = site.kwok("workload", kubeconfig, kwok_port)?;
    component_is_ready(site, &mut manager, controllers_port).await?;
    component_is_ready(site, &mut scheduler, scheduler_port).await?;
    let health = format!("http://127.0.0.1:{kwok_port}/healthz");
    kwok.wait_until_ready(READY_IN, async || Ok(get(&health, None).await.is_ok()))
        .await?;
    Ok(vec![kwok, scheduler, manager])
}

async fn component_is_ready(
    site: &Site<'_>,
    component: &mut Process,
    port: u16,
) -> anyhow::Result<()> {
    let health = format!("https://127.0.0.1:{port}/healthz");
    let ca = &site.certificates.ca;
    component
        .wait_until_ready(READY_IN, async || Ok(get(&health, Some(ca)).await? == "ok"))
        .await
}

/// Applies definitions and waits until their kinds are served.
///
/// # Errors
/// One is refused, or never served.
pub(crate) async fn define(client: &Client, definitions: Vec<Value>) -> anyhow::Result<()> {
    let mut names = Vec::new();
    for definition in definitions {
        let applied = apply(client, definition).await?;
        names.push(
            applied
                .metadata
                .name
                .context("the API server left out a name")?,
        );
    }
    let api = object_api(
        client,
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "",
    );
    for name in names {
        wait_until(&format!("established {name}"), DEFINED_IN, async || {
            let definition = api.get(&name).await?;
            Ok(is_true(&definition, "Established").then_some(()))
        })
        .await?;
    }
    Ok(())
}

/// Says whether an object has a condition with the status `True`.
pub(crate) fn is_true(object: &DynamicObject, condition: &str) -> bool {
    object.data["status"]["conditions"]
        .as_array()
        .is_some_and(|conditions| {
            conditions
                .iter()
                .any(|each| each["type"] == condition && each["status"] == "True")
        })
}

/// Waits until a pool that is only tried, not created, comes back with its defaults.
async fn webhooks_answer(client: &Client) -> anyhow::Result<()> {
    let pools = object_api(client, "cluster.x-k8s.io/v1beta2", "MachinePool", "default");
    let pool: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachinePool",
        "metadata": {"name": "tried"},
        "spec": {
            "clusterName": "none",
            "template": {"spec": {
                "clusterName": "none",
                "bootstrap": {"dataSecretName": "none"},
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io",
                    "kind": "AzureMachinePool",
                    "name": "tried",
                },
            }},
        },
    }))
    .context("not an object")?;
    let trial = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait_until(
        "default from the webhooks of Cluster API",
        READY_IN,
        async || {
            let tried = pools.create(&trial, &pool).await?;
            Ok((tried.data["spec"]["replicas"] == 1).then_some(()))
        },
    )
    .await
}
