//! How does a long-running operation in ARM stand?
//!
//! A write is answered at once and carried out later. The answer names a URL to ask; nothing here
//! loops or waits, because Weir observes progress in `provisioningState` and asks the operation
//! only for the error text. Losing an [`Operation`] therefore loses detail and nothing else.
//!
//! # Source
//! <https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations>, and
//! the traffic that the Azure CLI's tests record (`test_vmss_create_and_modify.yaml`).

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::error::{ArmError, ErrorKind, Failure, header, retry_after};
use crate::exchange::{Ask, Verb};

/// How long to wait before asking again when ARM sends no `Retry-After`.
///
/// Azure's own SDKs wait 30 s; recorded answers ask for 10 s, which is 6 of the 15 polls a minute
/// that one operation is allowed.
const POLL_DEFAULT: Duration = Duration::from_secs(10);

/// A write that ARM accepted and is carrying out.
///
/// Can be stored and asked again later, by another process too. The URL is signed, so `Debug` and
/// `Display` leave its query out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    verb: Verb,
    subject: String,
    url: String,
    form: Form,
}

/// Which of ARM's two protocols the URL speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Form {
    /// Always 200, with the status in the body.
    AsyncOperation,
    /// 202 while running, anything else at the end.
    Location,
}

/// How an operation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationStatus {
    /// Under way.
    InProgress {
        /// How long to wait before asking again.
        retry_after: Duration,
    },
    /// Ended as wished. The resource as it came out is had by reading it again.
    Succeeded,
    /// Ended badly.
    Failed(Failure),
    /// Stopped on the way, as a rule because a newer operation took its place.
    Canceled(Failure),
    /// Unknown to ARM, which drops the record of an operation some time after its end.
    Forgotten,
}

impl Operation {
    /// Returns what was asked of ARM.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// Returns the URL to ask, verbatim. It is signed: do not print it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Finds the URL to ask in the headers of an accepted write.
    ///
    /// `Azure-AsyncOperation` comes before `Location`: both are sent for POST and DELETE, and only
    /// the first one says why an operation failed.
    pub(crate) fn from_headers(ask: &Ask, headers: &HeaderMap) -> Option<Self> {
        let found = |name, form| {
            header(headers, name).map(|url| Self {
                verb: ask.verb,
                subject: ask.subject.clone(),
                url: url.to_owned(),
                form,
            })
        };
        found("azure-asyncoperation", Form::AsyncOperation)
            .or_else(|| found("location", Form::Location))
    }

    fn path(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("verb", &self.verb)
            .field("subject", &self.subject)
            .field("path", &self.path())
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.phrase(), self.subject)
    }
}

impl Arm {
    /// Asks once how an operation stands.
    ///
    /// # Errors
    /// When the question was not answered. That an operation failed is an `Ok`.
    pub async fn get_operation(&self, operation: &Operation) -> Result<OperationStatus, ArmError> {
        let subject = operation.subject.clone();
        let ask = Ask::new(
            Verb::GetOperation,
            subject,
            Method::GET,
            operation.url.clone(),
        );
        match (self.exchange(&ask).await, operation.form) {
            (Ok(answer), Form::AsyncOperation) => status_in_body(&ask, &answer),
            (Ok(answer), Form::Location) => Ok(status_by_code(&answer)),
            (Err(error), _) if error.status() == Some(404) && is_from_arm(&error) => {
                Ok(OperationStatus::Forgotten)
            }
            (Err(error), Form::Location) if is_verdict(&error) => {
                Ok(OperationStatus::Failed(Failure {
                    code: error.code().unwrap_or("Unknown").to_owned(),
                    message: error.message().unwrap_or_default().to_owned(),
                }))
            }
            (Err(error), _) => Err(error),
        }
    }
}

/// Says whether an error answer is ARM's, not that of a proxy on the way.
fn is_from_arm(error: &ArmError) -> bool {
    error.kind() != ErrorKind::Malformed
}

/// Says whether an error from a `Location` URL is about the operation rather than the question.
fn is_verdict(error: &ArmError) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::Throttled
            | ErrorKind::Transient
            | ErrorKind::Unreachable
            | ErrorKind::Malformed
            | ErrorKind::Unauthorized
            | ErrorKind::Forbidden
    )
}

#[derive(Deserialize)]
struct Body {
    status: String,
    error: Option<BodyError>,
}

#[derive(Deserialize)]
struct BodyError {
    code: Option<String>,
    message: Option<String>,
}

fn status_in_body(ask: &Ask, answer: &Response<Bytes>) -> Result<OperationStatus, ArmError> {
    let body: Body = ask.decode(answer.body())?;
    let failure = || {
        let (code, message) = body
            .error
            .as_ref()
            .map_or((None, None), |e| (e.code.clone(), e.message.clone()));
        Failure {
            code: code.unwrap_or_else(|| "Unknown".to_owned()),
            message: message.unwrap_or_else(|| "Azure gave no reason".to_owned()),
        }
    };
    Ok(match body.status.to_ascii_lowercase().as_str() {
        "succeeded" => OperationStatus::Succeeded,
        "failed" => OperationStatus::Failed(failure()),
        // Rolling upgrades spell it the British way; accept both.
        "canceled" | "cancelled" => OperationStatus::Canceled(failure()),
        // ARM lets providers invent names for states on the way; only the end states are fixed.
        _ => in_progress(answer.headers()),
    })
}

fn status_by_code(answer: &Response<Bytes>) -> OperationStatus {
    if answer.status() == StatusCode::ACCEPTED {
        in_progress(answer.headers())
    } else {
        OperationStatus::Succeeded
    }
}

fn in_progress(headers: &HeaderMap) -> OperationStatus {
    OperationStatus::InProgress {
        retry_after: retry_after(headers).unwrap_or(POLL_DEFAULT),
    }
}
