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
