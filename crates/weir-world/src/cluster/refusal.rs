//! What does the API server answer when it refuses a request?
//!
//! Bodies are `Status` objects with the reasons and codes of `k8s.io/apimachinery`.

use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};

/// A request that the API server refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// Reason, such as `Conflict`.
    pub reason: &'static str,
    /// The sentence shown to users.
    pub message: String,
    /// `details.causes` as (reason, message).
    pub causes: Vec<(&'static str, String)>,
    /// `details.retryAfterSeconds`, also sent as `Retry-After`.
    pub retry_after_seconds: Option<u32>,
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: String) -> Refusal {
        Refusal {
            code,
            reason,
            message,
            causes: Vec::new(),
            retry_after_seconds: None,
        }
    }

    /// No such object.
    pub fn not_found(resource: &str, name: &str) -> Refusal {
        Refusal::new(404, "NotFound", format!("{resource} \"{name}\" not found"))
    }

    /// No such path.
    pub fn no_such_path() -> Refusal {
        let message = "the server could not find the requested resource";
        Refusal::new(404, "NotFound", message.into())
    }

    /// The object is there already.
    pub fn already_exists(resource: &str, name: &str) -> Refusal {
        Refusal::new(
            409,
            "AlreadyExists",
            format!("{resource} \"{name}\" already exists"),
        )
    }

    /// The write was based on an older version, or a precondition does not hold.
    pub fn conflict(resource: &str, name: &str, why: &str) -> Refusal {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Refusal::new(409, "Conflict", message)
    }

    /// The write was based on an older version.
    pub fn stale(resource: &str, name: &str) -> Refusal {
        let why = "the object has been modified; please apply your changes to the latest \
                   version and try again";
        Refusal::conflict(resource, name, why)
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal::new(400, "BadRequest", message.into())
    }

    /// The object breaks a rule of its kind.
    pub fn invalid(resource: &str, name: &str, why: &str) -> Refusal {
        Refusal::new(
            422,
            "Invalid",
            format!("{resource} \"{name}\" is invalid: {why}"),
        )
    }

    /// The verb does not exist here.
    pub fn method_not_allowed() -> Refusal {
        let message = "the server does not allow this method on the requested resource";
        Refusal::new(405, "MethodNotAllowed", message.into())
    }

    /// The patch's content type is not known.
    pub fn unsupported_media(content_type: &str) -> Refusal {
        let message = format!("the body of the request was in an unknown format: {content_type}");
        Refusal::new(415, "UnsupportedMediaType", message)
    }

    /// The version asked for is no longer in the log.
    pub fn expired(asked: u64, oldest: u64) -> Refusal {
        let message = format!("too old resource version: {asked} ({oldest})");
        Refusal::new(410, "Expired", message)
    }

    /// Something broke.
    pub fn internal(message: impl Into<String>) -> Refusal {
        Refusal::new(500, "InternalError", message.into())
    }

    /// An eviction would break a disruption budget, or the budget is not computed yet.
    pub fn disruption(cause: String, retry_after_seconds: Option<u32>) -> Refusal {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        Refusal {
            causes: vec![("DisruptionBudget", cause)],
            retry_after_seconds,
            ..Refusal::new(429, "TooManyRequests", message.into())
        }
    }

    /// Returns the `Status` object.
    pub fn to_status(&self) -> Value {
        let mut details = json!({});
        if !self.causes.is_empty() {
            let cause =
                |(reason, message): &(&str, String)| json!({"reason": reason, "message": message});
            details["causes"] = self.causes.iter().map(cause).collect();
        }
        if let Some(seconds) = self.retry_after_seconds {
            details["retryAfterSeconds"] = json!(seconds);
        }
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "details": details,
            "code": self.code})
    }

    /// Returns the whole HTTP answer.
    pub fn to_response(&self) -> Response<Bytes> {
        let mut response = json_response(self.code, &self.to_status());
        if let Some(seconds) = self.retry_after_seconds {
            response
                .headers_mut()
                .insert(http::header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Returns an HTTP answer with a JSON body.
pub fn json_response(code: u16, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() =
        http::StatusCode::from_u16(code).expect("every code used in this crate is a real one");
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    response
}
