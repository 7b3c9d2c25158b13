//! What went wrong in Azure, is it worth trying again, and what should a person do?
//!
//! Answers are sorted into an [`ErrorKind`] once, here, from status, code and message; everyone
//! else matches on the kind or on [`ArmError::retry`]. Azure's own words are kept. Request bodies
//! and tokens never get in: known secrets are cut out of whatever Azure echoes.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde::Deserialize;

use crate::credential::CredentialError;
use crate::exchange::Verb;
use crate::secret::Secret;
use crate::wire::WireError;

/// What kind of refusal or failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// Too many requests; ARM or the compute provider asks us to wait.
    Throttled,
    /// Another write on the same resource is under way.
    Conflict,
    /// The resource is not at the version we named, or exists although it should not.
    PreconditionFailed,
    /// A newer operation on the same resource pushed this one aside.
    Preempted,
    /// The subscription's quota is used up.
    QuotaExceeded,
    /// Azure has no machines of this kind to give at the moment.
    AllocationFailed,
    /// The VM size is not offered in this location or zone.
    SkuNotAvailable,
    /// A write named an instance that does not exist, or no longer does.
    UnknownInstance,
    /// The resource is marked for deletion and takes no other writes.
    MarkedForDeletion,
    /// The property is fixed once the scale set exists.
    PropertyChangeNotAllowed,
    /// The resource does not exist.
    NotFound,
    /// The resource group does not exist.
    ResourceGroupNotFound,
    /// The resource group is on its way out.
    ResourceGroupBeingDeleted,
    /// A virtual machine was made but did not come up, or an extension failed on it.
    ProvisioningFailed,
    /// We are not who we claim to be, as far as Azure can tell.
    Unauthorized,
    /// We may not do this.
    Forbidden,
    /// Azure will not do this, however often it is asked.
    BadRequest,
    /// Azure's own trouble, likely to pass.
    Transient,
    /// No answer came.
    Unreachable,
    /// An answer came that is not ARM's, or not as documented.
    Malformed,
}

/// When the same request may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// After this time, which Azure named.
    After(Duration),
    /// Soon, and then ever more slowly.
    Backoff,
    /// Not until something has changed: the request, the world or the permissions. Look at the
    /// world again at the usual slow pace.
    Never,
}

impl ErrorKind {
    /// Returns the kind as a fixed lower-case word, for metrics and reasons.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Conflict => "conflict",
            Self::PreconditionFailed => "precondition_failed",
            Self::Preempted => "preempted",
            Self::QuotaExceeded => "quota_exceeded",
            Self::AllocationFailed => "allocation_failed",
            Self::SkuNotAvailable => "sku_not_available",
            Self::UnknownInstance => "unknown_instance",
            Self::MarkedForDeletion => "marked_for_deletion",
            Self::PropertyChangeNotAllowed => "property_change_not_allowed",
            Self::NotFound => "not_found",
            Self::ResourceGroupNotFound => "resource_group_not_found",
            Self::ResourceGroupBeingDeleted => "resource_group_being_deleted",
            Self::ProvisioningFailed => "provisioning_failed",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::BadRequest => "bad_request",
            Self::Transient => "transient",
            Self::Unreachable => "unreachable",
            Self::Malformed => "malformed",
        }
    }

    /// Returns one line that says what a person should do.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Throttled => "nothing to do: the request is repeated when Azure allows it",
            Self::Conflict => "nothing to do: it is tried again when the other write has ended",
            Self::PreconditionFailed => "nothing to do: the scale set is read and judged again",
            Self::Preempted => "find out what else writes to this scale set if it happens often",
            Self::QuotaExceeded => {
                "ask for more quota in this region, or use a VM size of another family"
            }
            Self::AllocationFailed => "wait for capacity, or use another VM size, zone or region",
            Self::SkuNotAvailable => "use a VM size that is offered in this location and zone",
            Self::UnknownInstance => "nothing to do: the instance is already gone",
            Self::MarkedForDeletion => "nothing to do: wait until the deletion has ended",
            Self::PropertyChangeNotAllowed => {
                "put the old value back, or make a pool under another name and move over"
            }
            Self::NotFound => "nothing to do unless it was deleted by mistake",
            Self::ResourceGroupNotFound => {
                "create the resource group, or correct its name on the cluster"
            }
            Self::ResourceGroupBeingDeleted => "wait until the resource group has gone",
            Self::ProvisioningFailed => {
                "read the boot diagnostics of the instance; check image, bootstrap data, extensions"
            }
            Self::Unauthorized => "check tenant, client and secret of the cluster's identity",
            Self::Forbidden => {
                "give the identity the Contributor role on the resource group, or lift the policy \
                 or lock that forbids this"
            }
            Self::BadRequest => "correct the field that Azure names in its message",
            Self::Transient => "nothing to do: Azure has trouble of its own, it is tried again",
            Self::Unreachable => "check DNS, proxy, firewall and CA certificates towards Azure",
            Self::Malformed => "check that nothing between here and Azure answers in its place",
        }
    }

    fn retry(self, retry_after: Option<Duration>) -> Retry {
        match self {
            Self::Throttled | Self::Transient => retry_after.map_or(Retry::Backoff, Retry::After),
            Self::Conflict
            | Self::PreconditionFailed
            | Self::Preempted
            | Self::AllocationFailed
            | Self::MarkedForDeletion
            | Self::ResourceGroupBeingDeleted
            | Self::Unreachable
            | Self::Malformed => Retry::Backoff,
            Self::QuotaExceeded
            | Self::SkuNotAvailable
            | Self::UnknownInstance
            | Self::PropertyChangeNotAllowed
            | Self::NotFound
            | Self::ResourceGroupNotFound
            | Self::ProvisioningFailed
            | Self::Unauthorized
            | Self::Forbidden
            | Self::BadRequest => Retry::Never,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Azure's own words about something that failed after it had been accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Azure's error code, such as `AllocationFailed`.
    pub code: String,
    /// Azure's message.
    pub message: String,
}

impl Failure {
    /// Sorts the failure.
    pub fn kind(&self) -> ErrorKind {
        // Without a status of its own a failure is judged as a refused request would be.
        classify(StatusCode::BAD_REQUEST, &self.code, None, &self.message)
    }

    /// Says when the same request may be tried again.
    pub fn retry(&self) -> Retry {
        self.kind().retry(None)
    }

    /// Returns one line that says what a person should do.
    pub fn hint(&self) -> &'static str {
        self.kind().hint()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// A request to ARM got no answer, or not the one that was asked for.
///
/// Displays what was tried and Azure's words; [`ArmError::line`] adds causes and advice.
#[derive(Debug)]
pub struct ArmError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    verb: Verb,
    subject: String,
    status: Option<StatusCode>,
    code: Option<String>,
    message: Option<String>,
    retry_after: Option<Duration>,
    request_id: Option<String>,
    source: Option<Source>,
}

#[derive(Debug)]
enum Source {
    Wire(WireError),
    Credential(CredentialError),
    Decode(serde_json::Error),
}

impl ArmError {
    /// Returns the kind, which is what to match on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns what was tried.
    pub fn verb(&self) -> Verb {
        self.0.verb
    }

    /// Returns the HTTP status, if an answer came.
    pub fn status(&self) -> Option<u16> {
        self.0.status.map(|status| status.as_u16())
    }

    /// Returns Azure's error code, if it gave one.
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// Returns Azure's message, if it gave one.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// Returns the id under which Azure's support finds this request, if it gave one.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// Says when the same request may be tried again.
    pub fn retry(&self) -> Retry {
        self.0.kind.retry(self.0.retry_after)
    }

    /// Returns one line that says what a person should do.
    pub fn hint(&self) -> &'static str {
        match &self.0.source {
            Some(Source::Credential(error)) => error.hint(),
            _ => self.0.kind.hint(),
        }
    }

    /// Returns everything a person needs in one line: what was tried, why it failed, what to do.
    pub fn line(&self) -> String {
        let mut line = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            line.push_str(": ");
            line.push_str(&error.to_string().replace(['\r', '\n'], " "));
            source = error.source();
        }
        line.push_str(" (");
        line.push_str(self.hint());
        line.push(')');
        line
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Maps an answer that is not a success.
    pub(crate) fn refused(
        verb: Verb,
        subject: &str,
        answer: &http::Response<bytes::Bytes>,
        secrets: &[Secret],
    ) -> Self {
        let told = told_by(answer);
        let status = answer.status();
        let clean = |text: &str| scrub(text, secrets);
        Self(Box::new(Inner {
            kind: classify(
                status,
                told.code.as_deref().unwrap_or_default(),
                told.target.as_deref(),
                told.message.as_deref().unwrap_or_default(),
            ),
            verb,
            subject: subject.to_owned(),
            status: Some(status),
            code: told.code.as_deref().map(clean),
            message: told.message.as_deref().map(clean),
            retry_after: retry_after(answer.headers()),
            request_id: header(answer.headers(), "x-ms-request-id").map(str::to_owned),
            source: None,
        }))
    }

    /// Says that a request is not fit to be sent, and was not.
    pub(crate) fn unsendable(verb: Verb, subject: &str, what: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            message: Some(what.into()),
            ..Inner::bare(ErrorKind::BadRequest, verb, subject)
        }))
    }

    /// Says that an answer is not as documented.
    pub(crate) fn malformed(verb: Verb, subject: &str, what: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            message: Some(what.into()),
            ..Inner::bare(ErrorKind::Malformed, verb, subject)
        }))
    }

    /// Says that a body could not be read as what it should be.
    pub(crate) fn undecodable(verb: Verb, subject: &str, source: serde_json::Error) -> Self {
        Self(Box::new(Inner {
            message: Some("the answer is not what ARM documents".to_owned()),
            source: Some(Source::Decode(source)),
            ..Inner::bare(ErrorKind::Malformed, verb, subject)
        }))
    }

    /// Says that no answer came.
    pub(crate) fn unreachable(verb: Verb, subject: &str, source: WireError) -> Self {
        Self(Box::new(Inner {
            source: Some(Source::Wire(source)),
            ..Inner::bare(ErrorKind::Unreachable, verb, subject)
        }))
    }

    /// Says that no token could be had, so nothing was asked.
    pub(crate) fn no_token(verb: Verb, subject: &str, source: CredentialError) -> Self {
        let kind = source.kind();
        Self(Box::new(Inner {
            source: Some(Source::Credential(source)),
            ..Inner::bare(kind, verb, subject)
        }))
    }
}

impl Inner {
    fn bare(kind: ErrorKind, verb: Verb, subject: &str) -> Self {
        Self {
            kind,
            verb,
            subject: subject.to_owned(),
            status: None,
            code: None,
            message: None,
            retry_after: None,
            request_id: None,
            source: None,
        }
    }
}

impl fmt::Display for ArmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            verb,
            subject,
            status,
            code,
            message,
            retry_after,
            ..
        } = &*self.0;
        write!(f, "failed to {} {subject}", verb.phrase())?;
        if let Some(status) = status {
            write!(f, ": Azure answered {}", status.as_u16())?;
            if let Some(code) = code {
                write!(f, " {code}")?;
            }
        }
        if let Some(message) = message {
            write!(f, ": {message}")?;
        }
        if let Some(wait) = retry_after {
            write!(f, " (asked to wait {} s)", wait.as_secs())?;
        }
        Ok(())
    }
}

impl std::error::Error for ArmError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.0.source.as_ref()? {
            Source::Wire(error) => Some(error),
            Source::Credential(error) => Some(error),
            Source::Decode(error) => Some(error),
        }
    }
}

/// What an error answer says, whichever of Azure's two shapes it has.
#[derive(Default)]
struct Told {
    code: Option<String>,
    target: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Envelope {
    error: Option<Detail>,
    #[serde(flatten)]
    bare: Detail,
}

#[derive(Default, Deserialize)]
struct Detail {
    code: Option<String>,
    message: Option<String>,
    target: Option<String>,
}

/// Reads code and message. The compute provider's 429 comes without the `error` wrapper, and the
/// header `x-ms-error-code` outranks the body.
fn told_by(answer: &http::Response<bytes::Bytes>) -> Told {
    let detail = match serde_json::from_slice::<Envelope>(answer.body()) {
        Ok(envelope) => envelope.error.unwrap_or(envelope.bare),
        Err(_) => Detail::default(),
    };
    let code = header(answer.headers(), "x-ms-error-code")
        .map(str::to_owned)
        .or(detail.code);
    Told {
        code: code.filter(|code| !code.is_empty()),
        target: detail.target,
        message: detail.message.filter(|message| !message.is_empty()),
    }
}

/// Sorts a refusal by Azure's code first and by status where the code says nothing.
///
/// # Source
/// cloud-provider-azure `pkg/consts`; issues kubernetes/autoscaler#9505 (preempted),
/// cloud-provider-azure#2356 and azure-cli#25476 (unknown instance), karpenter-provider-azure#192
/// (quota), bosh-azure-cpi-release#762 (concurrent write), azure-docs#108952 (fixed properties).
/// Those of allocation, extensions and platform trouble are general knowledge, not captured.
pub(crate) fn classify(
    status: StatusCode,
    code: &str,
    target: Option<&str>,
    message: &str,
) -> ErrorKind {
    // 429 and 412 mean the same whatever the code: the compute provider throttles under the code
    // it also uses for exhausted quota.
    match status {
        StatusCode::TOO_MANY_REQUESTS => return ErrorKind::Throttled,
        StatusCode::PRECONDITION_FAILED => return ErrorKind::PreconditionFailed,
        _ => {}
    }
    by_code(code, target, message).unwrap_or_else(|| by_status(status, code))
}

fn by_code(code: &str, target: Option<&str>, message: &str) -> Option<ErrorKind> {
    let says = |words: &str| message.to_ascii_lowercase().contains(words);
    Some(match code {
        "ResourceNotFound" | "NotFound" | "ParentResourceNotFound" => ErrorKind::NotFound,
        "ResourceGroupNotFound" => ErrorKind::ResourceGroupNotFound,
        "ResourceGroupBeingDeleted" => ErrorKind::ResourceGroupBeingDeleted,
        "InstanceIdsListInstanceIdNotActiveVM" => ErrorKind::UnknownInstance,
        "InvalidParameter"
            if target == Some("instanceIds") || says("not an active virtual machine") =>
        {
            ErrorKind::UnknownInstance
        }
        "PropertyChangeNotAllowed" => ErrorKind::PropertyChangeNotAllowed,
        "SkuNotAvailable" => ErrorKind::SkuNotAvailable,
        "QuotaExceeded" => ErrorKind::QuotaExceeded,
        "OperationNotAllowed" if says("quota") => ErrorKind::QuotaExceeded,
        "OperationNotAllowed" if says("marked for deletion") => ErrorKind::MarkedForDeletion,
        "OperationNotAllowed" => ErrorKind::BadRequest,
        "Conflict" | "ConflictingConcurrentWriteNotAllowed" | "AnotherOperationInProgress" => {
            ErrorKind::Conflict
        }
        "OperationPreempted" => ErrorKind::Preempted,
        "SubscriptionRequestsThrottled" | "TooManyRequests" => ErrorKind::Throttled,
        "RetryableError"
        | "InternalExecutionError"
        | "InternalServerError"
        | "InternalOperationError"
        | "NetworkingInternalOperationError"
        | "ServerTimeout" => ErrorKind::Transient,
        "AuthorizationFailed"
        | "LinkedAuthorizationFailed"
        | "RequestDisallowedByPolicy"
        | "ScopeLocked" => ErrorKind::Forbidden,
        _ if code.ends_with("AllocationFailed") || code.ends_with("AllocationRequest") => {
            ErrorKind::AllocationFailed
        }
        _ if code.starts_with("VMExtension") || code.starts_with("OSProvisioning") => {
            ErrorKind::ProvisioningFailed
        }
        _ => return None,
    })
}

fn by_status(status: StatusCode, code: &str) -> ErrorKind {
    match status {
        StatusCode::UNAUTHORIZED => ErrorKind::Unauthorized,
        StatusCode::FORBIDDEN => ErrorKind::Forbidden,
        StatusCode::CONFLICT => ErrorKind::Conflict,
        StatusCode::REQUEST_TIMEOUT => ErrorKind::Transient,
        _ if status.is_server_error() => ErrorKind::Transient,
        // ARM names the cause of every refusal. Whoever does not is not ARM, and its 404 must not
        // be taken for the absence of a scale set.
        _ if code.is_empty() || !status.is_client_error() => ErrorKind::Malformed,
        _ => ErrorKind::BadRequest,
    }
}

/// Reads `Retry-After`: seconds, or a date, which counts from the answer's own `Date`.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = header(headers, "retry-after")?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let moment = |text: &str| rfc2822::DateTimeParser::new().parse_timestamp(text).ok();
    let until: Timestamp = moment(text)?;
    let asked: Timestamp = moment(header(headers, "date")?)?;
    let wait = until.duration_since(asked);
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO))
}

pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The shortest secret that is looked for in texts from outside.
///
/// Azure's passwords have at least 12 characters and Entra's secrets 16. Shorter values, such as a
/// `true` among protected settings, would only turn messages into riddles.
const SECRET_CHARS_MIN: usize = 8;

/// Cuts known secrets out of a text that came from outside.
pub(crate) fn scrub(text: &str, secrets: &[Secret]) -> String {
    let mut clean = text.to_owned();
    for secret in secrets {
        // Exposed only to be looked for.
        if secret.expose().len() >= SECRET_CHARS_MIN {
            clean = clean.replace(secret.expose().as_str(), "[redacted]");
        }
    }
    clean
}
