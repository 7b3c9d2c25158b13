//! Can a client that insists on TLS work with the simulated Azure?

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, as it should"
)]

mod azure_support;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use azure_support::{START, pool, url};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use jiff::SignedDuration;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use weir_world::azure::{Azure, AzureOptions, VmEvent};
use weir_world::serve_azure::{Serving, SharedAzure, serve};

/// How long a real machine may take for what takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

struct Site {
    serving: Serving,
    azure: SharedAzure,
    seconds: Arc<AtomicI64>,
    events: mpsc::Receiver<VmEvent>,
    ca_file: PathBuf,
}

#[tokio::test]
async fn a_tls_client_creates_a_set_and_its_machines_boot_as_the_clock_moves() {
    let mut site = start("boots").await;
    let made = site.ask(Method::PUT, &url(""), Some(&pool(2))).await;
    assert_eq!(made.0, StatusCode::CREATED);
    let poll = made.1["azure-asyncoperation"].to_str().unwrap().to_owned();
    let local = format!("https://{}/", site.serving.address());
    assert!(poll.starts_with(&local), "{poll}");
    assert_eq!(
        site.ask(Method::GET, &poll, None).await.2["status"],
        "InProgress"
    );
    site.seconds.store(61, Ordering::SeqCst);
    for _ in 0..2 {
        let event = tokio::time::timeout(PATIENCE, site.events.recv()).await;
        let event = event.unwrap().unwrap();
        assert!(matches!(event, VmEvent::Booted(_)), "{event:?}");
    }
    assert_eq!(
        site.ask(Method::GET, &poll, None).await.2["status"],
        "Succeeded"
    );
    site.stop().await;
}

#[tokio::test]
async fn faults_and_counts_can_be_reached_from_outside() {
    let site = start("faults").await;
    let faults = json!({"error500": 1.0});
    let set = site.ask(Method::POST, "/sim/faults", Some(&faults)).await;
    assert_eq!(set.0, StatusCode::NO_CONTENT);
    let failed = site.ask(Method::GET, &url(""), None).await;
    assert_eq!(failed.0, StatusCode::INTERNAL_SERVER_ERROR);
    let typo = json!({"eror500": 1.0});
    let refused = site.ask(Method::POST, "/sim/faults", Some(&typo)).await;
    assert_eq!(refused.0, StatusCode::BAD_REQUEST);
    let report = site.ask(Method::GET, "/sim/report", None).await;
    assert_eq!(
        report.2["calls"]["VirtualMachineScaleSets_Get"]["refused"],
        1
    );
    assert_eq!(site.azure.lock().unwrap().report().reads, 1);
    site.stop().await;
}

#[tokio::test]
async fn nobody_answers_after_the_stop() {
    let site = start("stop").await;
    let address = site.serving.address();
    site.stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

async fn start(name: &str) -> Site {
    let azure = Arc::new(Mutex::new(Azure::new(AzureOptions::calm(), 1, START)));
    let seconds = Arc::new(AtomicI64::new(0));
    let read = Arc::clone(&seconds);
    let clock = Arc::new(move || START + SignedDuration::from_secs(read.load(Ordering::SeqCst)));
    let (sender, events) = mpsc::channel(16);
    let ca_file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("azure-{name}-ca.pem"));
    let any = "127.0.0.1:0".parse().unwrap();
    let serving = serve(any, &ca_file, Arc::clone(&azure), clock, sender)
        .await
        .unwrap();
    Site {
        serving,
        azure,
        seconds,
        events,
        ca_file,
    }
}

impl Site {
    /// Asks for a path or for the path of a URL, with the authority of `ca_file` and no other.
    async fn ask(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
    ) -> (StatusCode, http::HeaderMap, Value) {
        let path = url.split_once("://").map_or(url, |(_, rest)| {
            rest.find('/').map_or("/", |slash| &rest[slash..])
        });
        let mut roots = rustls::RootCertStore::empty();
        let pem = std::fs::read(&self.ca_file).unwrap();
        roots
            .add(CertificateDer::from_pem_slice(&pem).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .enable_http1()
            .build();
        let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(https);
        let body = body.map(|body| Bytes::from(body.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.serving.address()))
            .body(Full::new(body.unwrap_or_default()))
            .unwrap();
        let answer = tokio::time::timeout(PATIENCE, client.request(request)).await;
        let (parts, body) = answer.unwrap().unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        (parts.status, parts.headers, body)
    }

    async fn stop(self) {
        self.serving.stop().await;
    }
}
