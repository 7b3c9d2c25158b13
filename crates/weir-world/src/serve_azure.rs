//! How does a real client reach the simulated Azure?
//!
//! Over HTTPS on a port of this machine, with a certificate authority made for the purpose: az,
//! the Python and Go SDKs and Weir's own client all insist on TLS. Besides Azure's paths,
//! `GET /sim/report` returns the counts and `POST /sim/faults` changes what goes wrong.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::azure::{Azure, AzureFaults, VmEvent};

/// An Azure that several threads ask.
pub type SharedAzure = Arc<Mutex<Azure>>;

/// Tells the simulated time. It must not run backwards.
pub type SimClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Answers one request.
pub type Answering = Arc<dyn Fn(Request<Bytes>) -> Response<Bytes> + Send + Sync>;

/// How often simulated time is moved on. At a hundredfold speed this is two simulated seconds.
const TICK: Duration = Duration::from_millis(20);

/// ARM takes requests of up to 4 MB.
const BODY_BYTES_MAX: usize = 4 << 20;

/// A running listener.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    handle: Handle<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
}

impl Serving {
    /// Returns where it listens; the port is known even if any was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening and returns once everything has ended. Open requests are cut off.
    pub async fn stop(self) {
        self.handle.shutdown();
        for task in self.tasks {
            task.abort();
            // The end is all that is waited for; how it ended makes no difference here.
            let _ended = task.await;
        }
    }
}

/// Serves an Azure over HTTPS and moves its time on.
///
/// Writes the certificate authority to `ca_file` before it returns. Events go to `events` in
/// order; if the receiver is slow, simulated time waits, and if it is gone, they are dropped.
///
/// # Errors
/// When the address cannot be had, the file cannot be written or no certificate can be made.
pub async fn serve(
    listen: SocketAddr,
    ca_file: &Path,
    azure: SharedAzure,
    clock: SimClock,
    events: mpsc::Sender<VmEvent>,
) -> io::Result<Serving> {
    let (shared, now) = (Arc::clone(&azure), Arc::clone(&clock));
    let answering: Answering = Arc::new(move |request| answer(&mut lock(&shared), &request, now()));
    let mut serving = serve_answers(listen, ca_file, answering).await?;
    serving.tasks.push(tokio::spawn(tick(azure, clock, events)));
    Ok(serving)
}

/// Serves any source of answers over HTTPS. For worlds that hold an Azure and more.
///
/// # Errors
/// As [`serve`].
pub async fn serve_answers(
    listen: SocketAddr,
    ca_file: &Path,
    answering: Answering,
) -> io::Result<Serving> {
    let (ca_pem, config) = certify().map_err(io::Error::other)?;
    let listener = std::net::TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    tokio::fs::write(ca_file, ca_pem).await?;
    let handle = Handle::new();
    let router = Router::new().fallback(move |request: Request<Body>| {
        let answering = Arc::clone(&answering);
        async move { respond(request, &answering).await }
    });
    let server = axum_server::from_tcp_rustls(listener, RustlsConfig::from_config(config))?
        .handle(handle.clone())
        .serve(router.into_make_service());
    let task = tokio::spawn(async move {
        // Only a broken listener ends the server, and then every client sees that.
        let _ended = server.await;
    });
    Ok(Serving {
        address,
        handle,
        tasks: vec![task],
    })
}

/// Answers one request to Azure or to the simulator itself.
pub fn answer(azure: &mut Azure, request: &Request<Bytes>, now: Timestamp) -> Response<Bytes> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/sim/report") => {
            let report = serde_json::to_vec(azure.report());
            let body = report.expect("a report is plain numbers under text keys");
            plain(StatusCode::OK, Bytes::from(body))
        }
        (&Method::POST, "/sim/faults") => {
            match serde_json::from_slice::<AzureFaults>(request.body()) {
                Ok(faults) => {
                    azure.set_faults(faults);
                    plain(StatusCode::NO_CONTENT, Bytes::new())
                }
                Err(error) => plain(StatusCode::BAD_REQUEST, Bytes::from(error.to_string())),
            }
        }
        _ => azure.handle(request, now),
    }
}

async fn respond(request: Request<Body>, answering: &Answering) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let response = match axum::body::to_bytes(body, BODY_BYTES_MAX).await {
        Ok(bytes) => answering(Request::from_parts(parts, bytes)),
        Err(_) => plain(StatusCode::PAYLOAD_TOO_LARGE, Bytes::new()),
    };
    response.map(Body::from)
}

async fn tick(azure: SharedAzure, clock: SimClock, events: mpsc::Sender<VmEvent>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let happened = lock(&azure).advance(clock());
        for event in happened {
            if events.send(event).await.is_err() {
                break;
            }
        }
    }
}

fn lock(azure: &SharedAzure) -> MutexGuard<'_, Azure> {
    // A panic elsewhere says nothing about the simulation itself.
    azure.lock().unwrap_or_else(PoisonError::into_inner)
}

fn plain(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
enum CertifyError {
    #[error("failed to make a certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("failed to set up TLS")]
    Tls(#[from] rustls::Error),
}

/// Makes an authority and a certificate for this machine, signed by it.
fn certify() -> Result<(String, Arc<rustls::ServerConfig>), CertifyError> {
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::default();
    ca.distinguished_name
        .push(DnType::CommonName, "simulated Azure CA");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_certificate = ca.self_signed(&ca_key)?;
    let issuer = Issuer::new(ca, ca_key);

    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(vec!["localhost".to_owned()])?;
    leaf.subject_alt_names.extend([
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ]);
    leaf.distinguished_name
        .push(DnType::CommonName, "localhost");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Python's strict verification asks for it.
    leaf.use_authority_key_identifier_extension = true;
    let certificate = leaf.signed_by(&key, &issuer)?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((ca_certificate.pem(), Arc::new(config)))
}
