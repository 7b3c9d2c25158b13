//! How is a cluster reached, and what can be said when a kubeconfig is broken?
//!
//! A kubeconfig holds tokens and keys. Parsers quote what they stumble over, so what they say is
//! never passed on; only the place is.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use kube::client::AuthError;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tokio::time::timeout;

/// How long a TCP connection to the API server may take.
///
/// A SYN is repeated after 1, 3 and 7 s; who has not answered by then is not there, and a person
/// who waits for the first line should not wait longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns a client for a kubeconfig's current context, or for the usual places.
///
/// # Errors
/// There is no kubeconfig, or it cannot be used. Whether the server answers is not asked.
pub(super) async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let mut config = match kubeconfig {
        Some(path) => from_file(path).await?,
        None => inferred().await?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let server = config.cluster_url.to_string();
    Client::try_from(config)
        .map_err(|error| client_problem(&error))
        .with_context(|| format!("failed to prepare for the API server {server}"))
}

/// Waits for the first answer of an API server, whatever it is.
///
/// # Errors
/// There is none in time. That nobody listens is left to whoever asks next, who has words for it.
pub(super) async fn first_answer(client: &Client, limit: Duration) -> anyhow::Result<()> {
    match timeout(limit, client.apiserver_version()).await {
        Ok(_) => Ok(()),
        Err(_) => bail!(
            "cannot reach the management cluster: connected, but got no answer within {limit:?}; \
             check the server in the kubeconfig, and what stands between it and here"
        ),
    }
}

async fn from_file(path: &Path) -> anyhow::Result<Config> {
    let read = async {
        let kubeconfig = Kubeconfig::read_from(path)?;
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
    };
    read.await.map_err(|error| {
        anyhow!(
            "failed to use --kubeconfig {}: {}; give a file with which kubectl works",
            path.display(),
            kubeconfig_problem(&error)
        )
    })
}

async fn inferred() -> anyhow::Result<Config> {
    Config::infer().await.map_err(|error| {
        let problem = error
            .source()
            .and_then(|source| source.downcast_ref::<KubeconfigError>())
            .map_or_else(|| "there is none".to_owned(), kubeconfig_problem);
        anyhow!(
            "failed to find a cluster: this is no pod with a service account, and the default \
             kubeconfig cannot be used: {problem}; give --kubeconfig or set KUBECONFIG"
        )
    })
}

/// Says what is wrong with a kubeconfig without quoting what may be secret.
fn kubeconfig_problem(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(source, path) => {
            format!("cannot read {}: {source}", path.display())
        }
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) => format!("it is no kubeconfig, see line {}", at.line()),
            None => "it is no kubeconfig".to_owned(),
        },
        KubeconfigError::CurrentContextNotSet => "it names no current context".to_owned(),
        KubeconfigError::LoadCertificateAuthority(_) => {
            "the certificate authority of its cluster cannot be loaded".to_owned()
        }
        KubeconfigError::LoadClientCertificate(_) => {
            "the client certificate of its user cannot be loaded".to_owned()
        }
        KubeconfigError::LoadClientKey(_) => {
            "the client key of its user cannot be loaded".to_owned()
        }
        KubeconfigError::ParseCertificates(_) => {
            "the certificate authority of its cluster is no PEM".to_owned()
        }
        // The rest name a context or a cluster, or nothing of the file.
        other => other.to_string(),
    }
}

/// Says why no client can be made without quoting what a credential plugin printed.
fn client_problem(error: &kube::Error) -> anyhow::Error {
    match error {
        // The command is not named either: it comes with its arguments and environment.
        kube::Error::Auth(AuthError::AuthExecRun { cmd: _, out }) => {
            anyhow!(
                "the credential plugin failed with {}; run it by hand",
                out.status
            )
        }
        kube::Error::Auth(AuthError::AuthExecStart(error)) => {
            anyhow!("the credential plugin cannot be started: {error}; install it, or use a token")
        }
        kube::Error::Auth(AuthError::AuthExecParse(_)) => {
            anyhow!("the credential plugin printed no ExecCredential; run it by hand")
        }
        kube::Error::Auth(AuthError::ReadTokenFile(error, path)) => {
            anyhow!("failed to read the token file {}: {error}", path.display())
        }
        kube::Error::Auth(_) => anyhow!("the user of the kubeconfig cannot be used"),
        // TLS errors name a kind of encoding, not what was encoded.
        other => anyhow!("{other}; check the certificates of the kubeconfig"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_api_server_that_never_answers_is_not_waited_for_for_ever() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
        let error = first_answer(&client, Duration::from_millis(100))
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("no answer within 100ms"),
            "{error}"
        );
    }
}
