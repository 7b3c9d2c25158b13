//! What do probes and Prometheus get to see of a controller?

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;
use weir_controllers::metrics::Metrics;

/// The text form that Prometheus asks for and `prometheus-client` writes.
///
/// # Source
/// <https://prometheus.io/docs/specs/om/open_metrics_spec/>, "Protocol Negotiation"
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Reads an address such as `0.0.0.0:8080`; `:8080` is short for it.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let whole = if text.starts_with(':') {
        format!("0.0.0.0{text}")
    } else {
        text.to_owned()
    };
    whole
        .parse()
        .map_err(|_| "give an IP address and a port, such as 0.0.0.0:8080".to_owned())
}

/// Takes an address, so that a clash is found before any work begins.
///
/// # Errors
/// The address is in use or not ours.
pub(crate) async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let taken = TcpListener::bind(address).await;
    let listener = taken
        .with_context(|| format!("failed to listen on {address}; choose another with {flag}"))?;
    let address = listener.local_addr().context("a listener has no address")?;
    tracing::info!(flag, %address, "listening");
    Ok(listener)
}

/// Answers `/healthz` and `/readyz` for ever.
pub(crate) async fn serve_health(listener: TcpListener, ready: Arc<AtomicBool>) {
    let readyz = async move || match ready.load(Ordering::Relaxed) {
        true => (StatusCode::OK, "ok"),
        false => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the caches are not filled yet",
        ),
    };
    let routes = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(readyz));
    serve(listener, routes).await;
}

/// Answers `/metrics` for ever.
pub(crate) async fn serve_metrics(listener: TcpListener, metrics: Metrics) {
    let show = async move || ([(CONTENT_TYPE, OPEN_METRICS)], metrics.encode());
    serve(listener, Router::new().route("/metrics", get(show))).await;
}

async fn serve(listener: TcpListener, routes: Router) {
    if let Err(error) = axum::serve(listener, routes).await {
        tracing::error!(%error, "a listener ended");
    }
    // A controller whose probes fail is restarted from outside; it does not end by itself.
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    #[test]
    fn an_address_may_leave_out_its_host() {
        assert_eq!(
            parse_address(":8080"),
            Ok(SocketAddr::from(([0, 0, 0, 0], 8080)))
        );
        assert_eq!(
            parse_address("[::1]:1").map(|address| address.port()),
            Ok(1)
        );
        for refused in ["", "8080", "localhost:8080", ":", "1.2.3.4:65536"] {
            assert!(parse_address(refused).is_err(), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_controller_is_healthy_before_it_is_ready() {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0)), "--health-addr").await;
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap();
        let ready = Arc::new(AtomicBool::new(false));
        tokio::spawn(serve_health(listener, ready.clone()));
        assert_eq!(status(address, "/healthz").await, "200");
        assert_eq!(status(address, "/readyz").await, "503");
        ready.store(true, Ordering::Relaxed);
        assert_eq!(status(address, "/readyz").await, "200");
        assert_eq!(status(address, "/metrics").await, "404");
    }

    async fn status(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    }
}
