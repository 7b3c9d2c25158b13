//! How do requests reach the real Azure?
//!
//! HTTP/1.1 over TLS by rustls. Trusted are the system's certificates, or those in the files and
//! directories that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, which then replace the system's.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use tower::service_fn;

use crate::wire::{Wire, WireError};

/// How long a TCP connection may take.
///
/// A SYN is repeated after 1, 3 and 7 s; who has not answered by then is not there. It also
/// bounds how long a machine outside Azure waits for a metadata service that does not exist.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a whole exchange may take.
///
/// ARM gives the resource provider behind it 60 s to answer, so a later answer is ARM's own error.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(70);

/// How long an idle connection is kept.
///
/// Less than the four minutes after which Azure's load balancers drop a silent one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The largest answer that is read. A page of 120 instances with instance view is about 1 MB.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The wire could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No certificate authority is trusted, so no connection could be either.
    #[error(
        "found no usable CA certificate ({problems}); install the ca-certificates package or set \
         SSL_CERT_FILE to a PEM file"
    )]
    NoRoots {
        /// What was said while looking.
        problems: String,
    },
    /// TLS could not be set up.
    #[error("failed to set up TLS")]
    Tls(#[from] rustls::Error),
}

/// Sets up a wire to the real world. Connects when first used.
///
/// # Errors
/// When no CA certificate can be found.
pub fn connect() -> Result<Wire, ConnectError> {
    let client = client(tls()?);
    Ok(Wire::new(service_fn(move |request| {
        exchange(client.clone(), request)
    })))
}

type Connector = HttpsConnector<HttpConnector>;

fn client(tls: ClientConfig) -> Client<Connector, Full<Bytes>> {
    let mut tcp = HttpConnector::new();
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    // Plain http stays possible for the metadata service, which knows nothing else.
    let connector: Connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_timer(TokioTimer::new())
        .build(connector)
}

fn tls() -> Result<ClientConfig, ConnectError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, _unusable) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        let problems: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        let problems = if problems.is_empty() {
            "there is none".to_owned()
        } else {
            problems.join("; ")
        };
        return Err(ConnectError::NoRoots { problems });
    }
    // The provider is named because a process with two of them in it has no default.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

async fn exchange(
    client: Client<Connector, Full<Bytes>>,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, WireError> {
    let host = request
        .uri()
        .authority()
        .map(ToString::to_string)
        .unwrap_or_default();
    let outgoing = request.map(Full::new);
    let whole = async {
        let answer = client.request(outgoing).await.map_err(|error| {
            let is_connect = error.is_connect();
            let (host, source) = (host.clone(), Box::from(innermost(&error)));
            if is_connect {
                WireError::Connect { host, source }
            } else {
                WireError::Broken { host, source }
            }
        })?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX)
            .collect()
            .await
            .map_err(|source| WireError::Broken {
                host: host.clone(),
                source,
            })?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    };
    match tokio::time::timeout(EXCHANGE_TIMEOUT, whole).await {
        Ok(result) => result,
        Err(_elapsed) => Err(WireError::Timeout {
            host,
            after: EXCHANGE_TIMEOUT,
        }),
    }
}

/// Returns the words of the last cause, which is the one that tells: above it, each layer of the
/// HTTP stack only says that its layer failed.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
