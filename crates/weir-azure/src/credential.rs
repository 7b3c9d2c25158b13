//! Who are we to Azure, and with which token do we prove it?
//!
//! The protocols are those of the `azure_identity` crate, which also caches a token until five
//! minutes before its end. It is given the same wire as ARM requests. What goes wrong is judged
//! here, at the transport, where the answer of the authority is still whole.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use azure_core::cloud::{CloudConfiguration, CustomConfiguration};
use azure_core::credentials::TokenCredential;
use azure_core::error::ErrorKind as CoreErrorKind;
use azure_core::http::headers::Headers;
use azure_core::http::{
    AsyncRawResponse, Body, ClientOptions, HttpClient, Request as CoreRequest, RetryOptions,
    StatusCode as CoreStatusCode, Transport,
};
use azure_identity::{
    ClientAssertionCredentialOptions, ClientSecretCredential, ClientSecretCredentialOptions,
    ManagedIdentityCredential, ManagedIdentityCredentialOptions, UserAssignedId,
    WorkloadIdentityCredential, WorkloadIdentityCredentialOptions,
};
use bytes::Bytes;
use serde::Deserialize;
use tower::ServiceExt as _;

use crate::endpoint::Endpoint;
use crate::error::{ErrorKind, scrub};
use crate::secret::Secret;
use crate::wire::{Wire, WireError};

/// Who we are to Azure.
#[derive(Clone, Debug)]
pub enum Identity {
    /// A service principal with a secret.
    ClientSecret {
        /// Tenant.
        tenant: String,
        /// Client (application) id.
        client: String,
        /// Its secret.
        secret: Secret,
    },
    /// A service account of this Kubernetes cluster, federated with an identity in Entra.
    WorkloadIdentity {
        /// Tenant.
        tenant: String,
        /// Client (application) id.
        client: String,
        /// File with the service account's token.
        token_file: PathBuf,
    },
    /// The identity of the virtual machine we run on.
    ManagedIdentity {
        /// Which one, if it is not the system-assigned one.
        user_assigned: Option<UserAssigned>,
    },
    /// A token from elsewhere, used as it is until Azure refuses it.
    Token(Secret),
    /// Nobody; for an in-process Azure that does not ask.
    Anonymous,
}

/// Names a user-assigned identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserAssigned {
    /// By client id.
    Client(String),
    /// By ARM path.
    Resource(String),
}

/// Gives out tokens for ARM. Clones share one cache.
#[derive(Clone)]
pub struct Credential {
    source: Source,
    scope: String,
    authority: String,
}

#[derive(Clone)]
enum Source {
    Identity(Arc<dyn TokenCredential>),
    Token(Secret),
    Anonymous,
}

/// No token could be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CredentialError {
    /// What was given cannot be an identity.
    #[error("the Azure identity is not usable as configured: {reason}")]
    Misconfigured {
        /// What is wrong with it.
        reason: String,
    },
    /// The service account's token could not be read.
    #[error("cannot read the service account token {}", file.display())]
    TokenFile {
        /// File.
        file: PathBuf,
        /// What the file system said.
        source: Arc<std::io::Error>,
    },
    /// The authority said no.
    #[error("{authority} refused a token: {status} {code}: {message}")]
    Refused {
        /// Host that was asked.
        authority: String,
        /// HTTP status.
        status: u16,
        /// `AADSTS` number where there is one, else OAuth's word.
        code: String,
        /// The authority's words.
        message: String,
    },
    /// The authority gave no answer.
    #[error("cannot ask {authority} for a token")]
    Unreachable {
        /// Host that was asked.
        authority: String,
        /// What the wire said.
        source: Arc<WireError>,
    },
    /// The authority's answer is not a token.
    #[error("the answer of {authority} is not a token: {reason}")]
    Malformed {
        /// Host that was asked.
        authority: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Credential {
    /// Prepares to ask for tokens; asks for none yet.
    ///
    /// # Errors
    /// [`CredentialError::Misconfigured`] and [`CredentialError::TokenFile`].
    pub fn new(
        wire: &Wire,
        endpoint: &Endpoint,
        identity: Identity,
    ) -> Result<Self, CredentialError> {
        let source = match identity {
            Identity::Token(token) => Source::Token(token),
            Identity::Anonymous => Source::Anonymous,
            Identity::ClientSecret {
                tenant,
                client,
                secret,
            } => client_secret(wire, endpoint, &tenant, client, &secret)?,
            Identity::WorkloadIdentity {
                tenant,
                client,
                token_file,
            } => workload_identity(wire, endpoint, tenant, client, token_file)?,
            Identity::ManagedIdentity { user_assigned } => {
                managed_identity(wire, endpoint, user_assigned)?
            }
        };
        let authority = endpoint.authority().to_owned();
        Ok(Self {
            source,
            scope: endpoint.scope(),
            authority,
        })
    }

    /// Returns a credential that sends no token; for an in-process Azure.
    pub fn anonymous() -> Self {
        Self {
            source: Source::Anonymous,
            scope: String::new(),
            authority: String::new(),
        }
    }

    /// Returns a token for ARM, from the cache while it lasts; `None` if none is to be sent.
    pub async fn token(&self) -> Result<Option<Secret>, CredentialError> {
        match &self.source {
            Source::Anonymous => Ok(None),
            Source::Token(token) => Ok(Some(token.clone())),
            Source::Identity(identity) => {
                let token = identity.get_token(&[self.scope.as_str()], None).await;
                match token {
                    Ok(token) => Ok(Some(token.token.secret().into())),
                    Err(error) => Err(judge(&error, &self.authority)),
                }
            }
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::Identity(_) => "identity",
            Source::Token(_) => "token",
            Source::Anonymous => "anonymous",
        };
        f.debug_struct("Credential")
            .field("source", &source)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl CredentialError {
    /// Returns one line that says what a person should do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Misconfigured { .. } => "correct tenant and client of the cluster's identity",
            Self::TokenFile { .. } => {
                "let the workload identity webhook inject the token: label the pod \
                 azure.workload.identity/use=true and annotate its service account"
            }
            Self::Refused {
                code, authority, ..
            } => hint_for(code, authority),
            Self::Unreachable { authority, .. } if authority.starts_with(IMDS_HOST) => {
                "a managed identity works on Azure machines only; use workload identity or a \
                 client secret elsewhere"
            }
            Self::Unreachable { .. } => {
                "check the authority host, DNS, proxy, firewall and CA certificates"
            }
            Self::Malformed { .. } => "check the authority host, and what answers in its place",
        }
    }

    /// Sorts the error as errors from ARM are sorted.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { status, .. } if *status == 429 || *status >= 500 => {
                ErrorKind::Transient
            }
            Self::Misconfigured { .. } | Self::TokenFile { .. } | Self::Refused { .. } => {
                ErrorKind::Unauthorized
            }
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::Malformed { .. } => ErrorKind::Malformed,
        }
    }
}

/// Address of the metadata service that every Azure machine has.
const IMDS_HOST: &str = "169.254.169.254";

/// # Source
/// <https://learn.microsoft.com/entra/identity-platform/reference-error-codes>
fn hint_for(code: &str, authority: &str) -> &'static str {
    match code {
        "AADSTS7000215" => {
            "the client secret is wrong: store the secret's value, not its id, in the Secret \
             that the cluster's identity names"
        }
        "AADSTS7000222" => "the client secret has expired: make another one and store it",
        "AADSTS90002" | "AADSTS900023" | "AADSTS900021" => {
            "the tenant does not exist in this cloud: correct the tenant of the cluster's identity"
        }
        "AADSTS700016" => {
            "the client does not exist in this tenant: correct client or tenant of the cluster's \
             identity"
        }
        "AADSTS70021" | "AADSTS700211" | "AADSTS700212" | "AADSTS700213" => {
            "no federated credential matches: check issuer, subject and audience on the identity"
        }
        "AADSTS500011" => "the audience is not known in this tenant: check the ARM audience",
        _ if authority.starts_with(IMDS_HOST) => {
            "assign the identity to the virtual machine, and check its client id"
        }
        _ => "check tenant, client and secret of the cluster's identity",
    }
}

fn client_secret(
    wire: &Wire,
    endpoint: &Endpoint,
    tenant: &str,
    client: String,
    secret: &Secret,
) -> Result<Source, CredentialError> {
    refuse_empty("tenant", tenant)?;
    refuse_empty("client id", &client)?;
    // Exposed to the one crate that sends it to the authority.
    refuse_empty("client secret", secret.expose())?;
    let options = ClientSecretCredentialOptions {
        client_options: client_options(wire, endpoint, vec![secret.clone()]),
    };
    let core_secret = azure_core::credentials::Secret::new(secret.expose().clone());
    let credential = ClientSecretCredential::new(tenant, client, core_secret, Some(options))
        .map_err(misconfigured)?;
    Ok(Source::Identity(credential))
}

fn workload_identity(
    wire: &Wire,
    endpoint: &Endpoint,
    tenant: String,
    client: String,
    token_file: PathBuf,
) -> Result<Source, CredentialError> {
    refuse_empty("tenant", &tenant)?;
    refuse_empty("client id", &client)?;
    // The SDK reads the file too, and reads it again later as the kubelet renews it; this look
    // comes first because its error says plainly what is wrong.
    let service_account_token =
        std::fs::read_to_string(&token_file).map_err(|error| CredentialError::TokenFile {
            file: token_file.clone(),
            source: Arc::new(error),
        })?;
    let options = WorkloadIdentityCredentialOptions {
        credential_options: ClientAssertionCredentialOptions {
            client_options: client_options(wire, endpoint, vec![service_account_token.into()]),
        },
        client_id: Some(client),
        tenant_id: Some(tenant),
        token_file_path: Some(token_file),
    };
    let credential = WorkloadIdentityCredential::new(Some(options)).map_err(misconfigured)?;
    Ok(Source::Identity(credential))
}

fn managed_identity(
    wire: &Wire,
    endpoint: &Endpoint,
    user_assigned: Option<UserAssigned>,
) -> Result<Source, CredentialError> {
    let user_assigned_id = user_assigned.map(|id| match id {
        UserAssigned::Client(client) => UserAssignedId::ClientId(client),
        UserAssigned::Resource(path) => UserAssignedId::ResourceId(path),
    });
    let client_options = client_options(wire, endpoint, Vec::new());
    let options = ManagedIdentityCredentialOptions {
        user_assigned_id,
        client_options,
    };
    let credential = ManagedIdentityCredential::new(Some(options)).map_err(misconfigured)?;
    Ok(Source::Identity(credential))
}

fn refuse_empty(what: &str, value: &str) -> Result<(), CredentialError> {
    if value.trim().is_empty() {
        return Err(CredentialError::Misconfigured {
            reason: format!("it has no {what}"),
        });
    }
    Ok(())
}

fn misconfigured(error: azure_core::Error) -> CredentialError {
    CredentialError::Misconfigured {
        reason: error.to_string(),
    }
}

fn client_options(wire: &Wire, endpoint: &Endpoint, secrets: Vec<Secret>) -> ClientOptions {
    let mut cloud = CustomConfiguration::default();
    cloud.authority_host = endpoint.authority().to_owned();
    ClientOptions {
        // Whoever needs the token repeats; the SDK's own pauses are drawn from the OS.
        retry: RetryOptions::none(),
        transport: Some(Transport::new(Arc::new(TokenWire {
            wire: wire.clone(),
            secrets,
        }))),
        cloud: Some(Arc::new(CloudConfiguration::Custom(cloud))),
        ..ClientOptions::default()
    }
}

/// Finds the error that [`TokenWire`] raised below the SDK's own wrappings.
fn judge(error: &azure_core::Error, authority: &str) -> CredentialError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(found) = inner.downcast_ref::<CredentialError>() {
            return found.clone();
        }
        cause = inner.source();
    }
    let host = authority.trim_start_matches("https://").to_owned();
    let reason = error.to_string().replace(['\r', '\n'], " ");
    CredentialError::Malformed {
        authority: host,
        reason,
    }
}

/// Carries the SDK's token requests over our wire and judges every answer that is no success.
///
/// The SDK would parse refusals itself, but it reads them into borrowed text, which fails on the
/// escaped line breaks that Entra puts into its messages.
struct TokenWire {
    wire: Wire,
    secrets: Vec<Secret>,
}

impl fmt::Debug for TokenWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenWire").finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl HttpClient for TokenWire {
    async fn execute_request(&self, request: &CoreRequest) -> azure_core::Result<AsyncRawResponse> {
        let authority = host_of(request);
        let outgoing = translate(request)?;
        let answer = self.wire.clone().oneshot(outgoing).await.map_err(|error| {
            let source = Arc::new(error);
            raise(CredentialError::Unreachable {
                authority: authority.clone(),
                source,
            })
        })?;
        let status = answer.status();
        if !status.is_success() {
            return Err(raise(self.refused(
                authority,
                status.as_u16(),
                answer.body(),
            )));
        }
        let mut headers = Headers::new();
        for (name, value) in answer.headers() {
            if let Ok(value) = value.to_str() {
                headers.insert(name.as_str().to_owned(), value.to_owned());
            }
        }
        let status = CoreStatusCode::from(status.as_u16());
        Ok(AsyncRawResponse::from_bytes(
            status,
            headers,
            answer.into_body(),
        ))
    }
}

impl TokenWire {
    fn refused(&self, authority: String, status: u16, body: &Bytes) -> CredentialError {
        let refusal: Refusal = serde_json::from_slice(body).unwrap_or_default();
        let description = refusal.error_description.unwrap_or_default();
        let code = aadsts(&description, &refusal.error_codes)
            .or(refusal.error)
            .unwrap_or_else(|| "without a code".to_owned());
        // The trace ids that follow on further lines help Microsoft only.
        let first_line = description.lines().next().unwrap_or_default();
        let message = first_line
            .split(" Trace ID:")
            .next()
            .unwrap_or_default()
            .trim();
        let message = scrub(message, &self.secrets);
        let message = if message.is_empty() {
            "no reason was given".to_owned()
        } else {
            message
        };
        CredentialError::Refused {
            authority,
            status,
            code,
            message,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    error: Option<String>,
    error_description: Option<String>,
    error_codes: Vec<u64>,
}

/// Returns Entra's error number in the form that its documentation uses.
fn aadsts(description: &str, codes: &[u64]) -> Option<String> {
    if let Some(code) = codes.first() {
        return Some(format!("AADSTS{code}"));
    }
    let word = description.split([':', ' ']).next()?;
    word.starts_with("AADSTS").then(|| word.to_owned())
}

fn raise(error: CredentialError) -> azure_core::Error {
    azure_core::Error::new(CoreErrorKind::Credential, error)
}

fn host_of(request: &CoreRequest) -> String {
    let url = request.url();
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn translate(request: &CoreRequest) -> azure_core::Result<http::Request<Bytes>> {
    let Body::Bytes(body) = request.body() else {
        let what = "token requests have a body of known size";
        return Err(azure_core::Error::with_message(
            CoreErrorKind::DataConversion,
            what,
        ));
    };
    let mut builder = http::Request::builder()
        .method(request.method().as_str())
        .uri(request.url().as_str());
    for (name, value) in request.headers().iter() {
        builder = builder.header(name.as_str(), value.as_str());
    }
    builder
        .body(body.clone())
        .map_err(|error| azure_core::Error::new(CoreErrorKind::DataConversion, error))
}
