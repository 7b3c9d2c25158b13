//! How does a test ask a server that is not an API server, such as a health endpoint?

use std::path::Path;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

/// Returns the body of `GET url`, for example `https://127.0.0.1:6443/readyz`.
///
/// `ca` is the certificate to trust, in a PEM file; without it, the system's are trusted.
///
/// # Errors
/// The server does not answer, or answers with a status of 400 or more.
pub async fn get(url: &str, ca: Option<&Path>) -> anyhow::Result<String> {
    let uri: http::Uri = url.parse().with_context(|| format!("not a URL: {url}"))?;
    let client = server(url, ca).await?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = http::Request::get(path)
        .body(Vec::new())
        .context("failed to make a request")?;
    client
        .request_text(request)
        .await
        .with_context(|| format!("failed to get {url}"))
}

/// Returns a client for the server that a URL names; requests to it have a path only.
///
/// `ca` is as for [`get`].
///
/// # Errors
/// The URL names no server, or the file holds no certificate.
pub async fn server(url: &str, ca: Option<&Path>) -> anyhow::Result<Client> {
    let uri: http::Uri = url.parse().with_context(|| format!("not a URL: {url}"))?;
    let scheme = uri.scheme_str().context("a URL without a scheme")?;
    let authority = uri.authority().context("a URL without a server")?;
    let kubeconfig = json!({
        "clusters": [{
            "name": "server",
            "cluster": {"server": format!("{scheme}://{authority}"), "certificate-authority": ca},
        }],
        "contexts": [{"name": "server", "context": {"cluster": "server"}}],
        "current-context": "server",
    });
    // The client of kube speaks HTTP and TLS, which spares us another one.
    let kubeconfig = serde_json::from_value(kubeconfig).context("not a kubeconfig")?;
    client(kubeconfig).await
}

/// Returns a client for what the file calls its current context.
pub(crate) async fn client(kubeconfig: Kubeconfig) -> anyhow::Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("failed to configure a client")?;
    Client::try_from(config).context("failed to make a client")
}
