//! How does one request get to ARM and back, and when is it sent again?
//!
//! Reads are repeated a few times when that is likely to help. Writes are repeated only when ARM
//! refused them unheard (429) and named a short wait: after any other failure nobody knows whether
//! the write was carried out, and whoever asked for it must look first. There is no jitter; every
//! pause follows from the answer or from the number of the attempt.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tower::ServiceExt as _;

use crate::arm::Arm;
use crate::error::{ArmError, ErrorKind};
use crate::secret::Secret;

/// How often one request is sent at most.
///
/// Three attempts ride out a dropped connection or a failing front end. More would only hide an
/// outage from the caller, who has the better back-off: it can do something else meanwhile.
const ATTEMPTS_MAX: u32 = 3;

/// The longest `Retry-After` that is waited out inside a call.
///
/// ARM's front door refills a subscription's bucket at 10 to 25 tokens a second, so its waits are
/// a few seconds. Longer ones come from the compute provider's per-minute buckets, and a caller
/// told of them can serve other pools in the meantime.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause before the first repetition of a read when Azure names none; it doubles after that.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);

const PRODUCT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

/// What was asked of ARM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Read a scale set.
    GetScaleSet,
    /// Create a scale set or change its model.
    PutScaleSet,
    /// Change part of a scale set's model.
    PatchScaleSet,
    /// Delete a scale set.
    DeleteScaleSet,
    /// List the instances of a scale set.
    ListInstances,
    /// Read one instance.
    GetInstance,
    /// Delete one instance.
    DeleteInstance,
    /// Delete several instances.
    DeleteInstances,
    /// Move instances to the current model.
    UpdateInstances,
    /// Give instances a new OS disk.
    ReimageInstances,
    /// Ask how a long-running operation stands.
    GetOperation,
    /// Look for a resource group.
    GetResourceGroup,
    /// List VM sizes.
    ListVmSizes,
}

impl Verb {
    /// Returns a fixed snake-case name, for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::GetScaleSet => "get_scale_set",
            Self::PutScaleSet => "put_scale_set",
            Self::PatchScaleSet => "patch_scale_set",
            Self::DeleteScaleSet => "delete_scale_set",
            Self::ListInstances => "list_instances",
            Self::GetInstance => "get_instance",
            Self::DeleteInstance => "delete_instance",
            Self::DeleteInstances => "delete_instances",
            Self::UpdateInstances => "update_instances",
            Self::ReimageInstances => "reimage_instances",
            Self::GetOperation => "get_operation",
            Self::GetResourceGroup => "get_resource_group",
            Self::ListVmSizes => "list_vm_sizes",
        }
    }

    /// Says whether the verb changes anything.
    pub fn is_write(self) -> bool {
        match self {
            Self::PutScaleSet
            | Self::PatchScaleSet
            | Self::DeleteScaleSet
            | Self::DeleteInstance
            | Self::DeleteInstances
            | Self::UpdateInstances
            | Self::ReimageInstances => true,
            Self::GetScaleSet
            | Self::ListInstances
            | Self::GetInstance
            | Self::GetOperation
            | Self::GetResourceGroup
            | Self::ListVmSizes => false,
        }
    }

    /// Returns the words that stand between "failed to" and the subject.
    pub(crate) fn phrase(self) -> &'static str {
        match self {
            Self::GetScaleSet => "read scale set",
            Self::PutScaleSet => "create or update scale set",
            Self::PatchScaleSet => "update scale set",
            Self::DeleteScaleSet => "delete scale set",
            Self::ListInstances => "list instances of scale set",
            Self::GetInstance => "read instance",
            Self::DeleteInstance => "delete instance",
            Self::DeleteInstances => "delete instances of scale set",
            Self::UpdateInstances => "update instances of scale set",
            Self::ReimageInstances => "reimage instances of scale set",
            Self::GetOperation => "follow the operation on",
            Self::GetResourceGroup => "look for resource group",
            Self::ListVmSizes => "list VM sizes in",
        }
    }
}

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// ARM did it, accepted it or answered the question.
    Done,
    /// It failed in this way.
    Failed(ErrorKind),
}

/// One attempt at one request, for whoever keeps count.
#[derive(Clone, Debug)]
pub struct Call {
    /// What was asked.
    pub verb: Verb,
    /// Which attempt it was, counting from 1.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The HTTP status, if an answer came.
    pub status: Option<u16>,
    /// How long it took, by tokio's clock.
    pub elapsed: Duration,
}

/// Is told of every attempt.
pub type Meter = Arc<dyn Fn(&Call) + Send + Sync>;

/// A request in the making.
pub(crate) struct Ask {
    pub(crate) verb: Verb,
    /// What the request is about, for error messages.
    pub(crate) subject: String,
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Option<Bytes>,
    /// What must not come back in an error message.
    pub(crate) secrets: Vec<Secret>,
}

impl Ask {
    pub(crate) fn new(verb: Verb, subject: String, method: Method, url: String) -> Self {
        let (headers, body, secrets) = (Vec::new(), None, Vec::new());
        Self {
            verb,
            subject,
            method,
            url,
            headers,
            body,
            secrets,
        }
    }

    pub(crate) fn with_body<T: Serialize>(mut self, body: &T) -> Result<Self, ArmError> {
        let encoded = serde_json::to_vec(body)
            .map_err(|error| ArmError::undecodable(self.verb, &self.subject, error))?;
        self.body = Some(encoded.into());
        Ok(self)
    }

    pub(crate) fn unsendable(&self, what: impl Into<String>) -> ArmError {
        ArmError::unsendable(self.verb, &self.subject, what)
    }

    pub(crate) fn malformed(&self, what: impl Into<String>) -> ArmError {
        ArmError::malformed(self.verb, &self.subject, what)
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self, body: &Bytes) -> Result<T, ArmError> {
        serde_json::from_slice(body)
            .map_err(|error| ArmError::undecodable(self.verb, &self.subject, error))
    }
}

impl Arm {
    /// Sends a request until it is answered or not worth sending again; `Ok` is a 2xx answer.
    pub(crate) async fn exchange(&self, ask: &Ask) -> Result<Response<Bytes>, ArmError> {
        let mut attempt = 1;
        loop {
            let started = tokio::time::Instant::now();
            let result = self.attempt(ask).await;
            self.count(ask.verb, attempt, &result, started.elapsed());
            let error = match result {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let Some(pause) = pause_before_repeating(ask.verb, attempt, &error) else {
                return Err(error);
            };
            tracing::debug!(
                verb = ask.verb.name(),
                attempt,
                pause_seconds = pause.as_secs(),
                outcome = error.kind().as_str(),
                "repeating a request to ARM"
            );
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, ask: &Ask) -> Result<Response<Bytes>, ArmError> {
        let uri: Uri = ask
            .url
            .parse()
            .map_err(|_| ask.malformed("the address to ask is not a URL"))?;
        if !self.endpoint.covers(&uri) {
            let host = uri.host().unwrap_or("nowhere").to_owned();
            return Err(ask.malformed(format!("the address to ask is at {host}, not at ARM")));
        }
        let token = self
            .credential
            .token()
            .await
            .map_err(|error| ArmError::no_token(ask.verb, &ask.subject, error))?;
        let request = encode(ask, uri, token.as_ref())?;
        let answer = self
            .wire
            .clone()
            .oneshot(request)
            .await
            .map_err(|error| ArmError::unreachable(ask.verb, &ask.subject, error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let mut secrets = ask.secrets.clone();
        secrets.extend(token);
        Err(ArmError::refused(ask.verb, &ask.subject, &answer, &secrets))
    }

    fn count(
        &self,
        verb: Verb,
        attempt: u32,
        result: &Result<Response<Bytes>, ArmError>,
        elapsed: Duration,
    ) {
        let Some(meter) = &self.meter else { return };
        let (outcome, status) = match result {
            Ok(answer) => (Outcome::Done, Some(answer.status().as_u16())),
            Err(error) => (Outcome::Failed(error.kind()), error.status()),
        };
        meter(&Call {
            verb,
            attempt,
            outcome,
            status,
            elapsed,
        });
    }
}

fn encode(ask: &Ask, uri: Uri, token: Option<&Secret>) -> Result<Request<Bytes>, ArmError> {
    let mut request = Request::new(ask.body.clone().unwrap_or_default());
    *request.method_mut() = ask.method.clone();
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, HeaderValue::from_static(PRODUCT));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if ask.body.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in &ask.headers {
        headers.insert(name, value.clone());
    }
    if let Some(token) = token {
        // Exposed to be sent; marked so that no layer below prints it.
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(|_| ask.unsendable("the access token has characters no header may have"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(request)
}

/// Decides whether and when a failed request is sent again.
fn pause_before_repeating(verb: Verb, attempt: u32, error: &ArmError) -> Option<Duration> {
    if attempt >= ATTEMPTS_MAX {
        return None;
    }
    let is_refused_unheard = error.kind() == ErrorKind::Throttled;
    let is_passing = matches!(error.kind(), ErrorKind::Transient | ErrorKind::Unreachable);
    let own_pause = (!verb.is_write()).then(|| BACKOFF_FIRST * 2_u32.pow(attempt - 1));
    if is_refused_unheard || (is_passing && !verb.is_write()) {
        error
            .retry_after()
            .or(own_pause)
            .filter(|pause| *pause <= PATIENCE)
    } else {
        None
    }
}
