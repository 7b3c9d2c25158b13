//! With which flags does each server run on loopback, as a plain process?

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::certificates::Certificates;
use crate::process::Process;
use crate::testbed::Testbed;

/// Token of an administrator in both clusters; they listen on loopback and live as long as a test.
pub(crate) const TOKEN: &str = "administrator";

/// How long a server may take to answer; each needs a few seconds on two busy cores.
pub(crate) const READY_IN: Duration = Duration::from_secs(60);

/// What fake kubelets do with nodes and pods.
const STAGES: &str = include_str!("stages.yaml");

/// What all servers have in common.
pub(crate) struct Site<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) testbed: &'a Testbed,
    pub(crate) certificates: &'a Certificates,
}

impl Site<'_> {
    /// Starts the store of both API servers.
    pub(crate) fn etcd(&self, client_port: u16, peer_port: u16) -> anyhow::Result<Process> {
        let client = format!("http://127.0.0.1:{client_port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let mut etcd = self.testbed.program("etcd");
        etcd.arg("--data-dir")
            .arg(self.directory.join("etcd"))
            .args([
                // What it holds need not survive a power failure.
                "--unsafe-no-fsync",
                "--log-level=warn",
                &format!("--listen-client-urls={client}"),
                &format!("--advertise-client-urls={client}"),
                &format!("--listen-peer-urls={peer}"),
                &format!("--initial-advertise-peer-urls={peer}"),
                &format!("--initial-cluster=default={peer}"),
            ]);
        Process::start(self.directory, "etcd", etcd)
    }

    /// Starts an API server that keeps its objects below `/<cluster>` in etcd.
    pub(crate) fn kube_apiserver(
        &self,
        cluster: &str,
        port: u16,
        etcd_port: u16,
    ) -> anyhow::Result<Process> {
        let tokens = self.directory.join("tokens.csv");
        let line = format!("{TOKEN},administrator,administrator,system:masters\n");
        fs::write(&tokens, line).context("failed to write the list of tokens")?;
        let certificates = self.certificates;
        let mut server = self.testbed.program("kube-apiserver");
        server
            .arg(format!("--etcd-servers=http://127.0.0.1:{etcd_port}"))
            .arg(format!("--etcd-prefix=/{cluster}"))
            .arg(format!("--secure-port={port}"))
            .args([
                "--bind-address=127.0.0.1",
                "--service-cluster-ip-range=10.0.0.0/24",
            ])
            .args([
                "--authorization-mode=RBAC",
                "--endpoint-reconciler-type=none",
            ])
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            // Without the controllers behind them, the first would refuse every pod for want of an
            // account and the second would keep every node tainted.
            .arg("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
            .args(flag("--token-auth-file", &tokens))
            .args(flag(
                "--service-account-key-file",
                &certificates.account_public_key,
            ))
            .args(flag(
                "--service-account-signing-key-file",
                &certificates.account_key,
            ))
            .args(flag("--tls-cert-file", &certificates.certificate()))
            .args(flag("--tls-private-key-file", &certificates.key()))
            .args(flag("--cert-dir", &self.directory.join("apiserver")));
        Process::start(self.directory, &format!("{cluster}-kube-apiserver"), server)
    }

    /// Starts the named controllers of Kubernetes.
    pub(crate) fn kube_controller_manager(
        &self,
        cluster: &str,
        kubeconfig: &Path,
        port: u16,
        controllers: &[&str],
    ) -> anyhow::Result<Process> {
        let mut server = self.testbed.program("kube-controller-manager");
        server
            .arg(format!("--controllers={}", controllers.join(",")))
            .args(flag("--kubeconfig", kubeconfig))
            .args(self.component_flags(port));
        Process::start(
            self.directory,
            &format!("{cluster}-kube-controller-manager"),
            server,
        )
    }

    /// Starts what gives pods their nodes.
    pub(crate) fn kube_scheduler(
        &self,
        cluster: &str,
        kubeconfig: &Path,
        port: u16,
    ) -> anyhow::Result<Process> {
        let mut server = self.testbed.program("kube-scheduler");
        server
            .args(flag("--kubeconfig", kubeconfig))
            .args(self.component_flags(port));
        Process::start(self.directory, &format!("{cluster}-kube-scheduler"), server)
    }

    /// Starts what stands for the kubelets of all nodes that there ever are.
    pub(crate) fn kwok(
        &self,
        cluster: &str,
        kubeconfig: &Path,
        port: u16,
    ) -> anyhow::Result<Process> {
        let stages = self.directory.join("stages.yaml");
        fs::write(&stages, STAGES).context("failed to write the stages of kwok")?;
        let mut server = self.testbed.program("kwok");
        server
            .args(["--manage-all-nodes=true", "--node-lease-duration-seconds=0"])
            .args(["--node-ip=127.0.0.1", "--cidr=10.1.0.1/16"])
            .arg(format!("--server-address=127.0.0.1:{port}"))
            .args(flag("--kubeconfig", kubeconfig))
            .args(flag("--config", &stages))
            // It looks for more configuration there, which is a user's own.
            .env("KWOK_WORKDIR", self.directory.join("kwok"));
        Process::start(self.directory, &format!("{cluster}-kwok"), server)
    }

    /// Starts the core of Cluster API.
    pub(crate) fn cluster_api_core(
        &self,
        kubeconfig: &Path,
        webhook_port: u16,
        health_port: u16,
        diagnostics_port: u16,
    ) -> anyhow::Result<Process> {
        let mut server = self.testbed.program("cluster-api-core");
        server
            .args(flag("--kubeconfig", kubeconfig))
            .args(["--leader-elect=false", "--feature-gates=MachinePool=true"])
            .arg(format!("--webhook-port={webhook_port}"))
            .args(flag("--webhook-cert-dir", &self.certificates.serving))
            .arg(format!("--health-addr=127.0.0.1:{health_port}"))
            .arg(format!(
                "--diagnostics-address=127.0.0.1:{diagnostics_port}"
            ))
            .arg("--insecure-diagnostics=true")
            // It takes itself for a pod.
            .env("POD_NAMESPACE", "default")
            .env("POD_NAME", "cluster-api-core")
            .env("POD_UID", "0d3b9a36-3c3c-4f5e-9a53-6d6f3b1d8a55");
        Process::start(self.directory, "cluster-api-core", server)
    }

    /// Returns the flags that Kubernetes' own components share.
    fn component_flags(&self, port: u16) -> Vec<String> {
        let mut flags = vec![
            "--leader-elect=false".to_owned(),
            "--authentication-skip-lookup=true".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
        ];
        flags.extend(flag("--tls-cert-file", &self.certificates.certificate()));
        flags.extend(flag("--tls-private-key-file", &self.certificates.key()));
        flags
    }
}

/// Returns a flag whose value is a path.
fn flag(name: &str, path: &Path) -> [String; 1] {
    [format!("{name}={}", path.display())]
}

/// Writes the file with which clients reach an API server, and returns where it is.
pub(crate) fn write_kubeconfig(
    directory: &Path,
    cluster: &str,
    port: u16,
    certificates: &Certificates,
) -> anyhow::Result<PathBuf> {
    let path = directory.join(format!("{cluster}.kubeconfig"));
    let content = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": cluster,
            "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": certificates.ca_bundle()?,
            },
        }],
        "users": [{"name": "administrator", "user": {"token": TOKEN}}],
        "contexts": [{
            "name": cluster,
            "context": {"cluster": cluster, "user": "administrator"},
        }],
        "current-context": cluster,
    });
    let yaml = serde_yaml::to_string(&content).context("failed to write a kubeconfig")?;
    fs::write(&path, yaml).with_context(|| format!("failed to write {}", path.display()))?;
    Ok(path)
}
