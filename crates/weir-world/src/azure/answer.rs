//! What does Azure answer, and with which words does it refuse?
//!
//! The wording follows what clients have seen; docs/azure.md ("Refusals") has the sources.

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

/// An answer on its way to becoming a response. Refusals are answers too.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<Value>,
}

/// What a step of answering ends with: `Err` is a refusal, ready to send.
pub(crate) type Answered<T = Answer> = Result<T, Answer>;

impl Answer {
    pub(crate) fn bare(status: StatusCode) -> Answer {
        Answer {
            status,
            headers: Vec::new(),
            body: None,
        }
    }

    pub(crate) fn json(status: StatusCode, body: Value) -> Answer {
        Answer {
            body: Some(body),
            ..Answer::bare(status)
        }
    }

    pub(crate) fn ok(body: Value) -> Answer {
        Answer::json(StatusCode::OK, body)
    }

    pub(crate) fn error(status: StatusCode, code: &str, message: &str) -> Answer {
        let body = json!({"error": {"code": code, "message": message}});
        Answer::json(status, body).with("x-ms-error-code", code)
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds the `target` member of an error.
    pub(crate) fn about(mut self, target: &str) -> Answer {
        if let Some(error) = self.body.as_mut().and_then(|body| body.get_mut("error")) {
            error["target"] = json!(target);
        }
        self
    }

    pub(crate) fn into_response(self) -> Response<Bytes> {
        let body = self
            .body
            .map(|body| Bytes::from(body.to_string()))
            .unwrap_or_default();
        let mut response = Response::builder().status(self.status);
        for (name, value) in &self.headers {
            response = response.header(*name, value);
        }
        if !body.is_empty() {
            response = response.header("content-type", "application/json; charset=utf-8");
        }
        // Bodiless 202 must say so, or clients wait for more; 204 must not.
        if self.status != StatusCode::NO_CONTENT {
            response = response.header("content-length", body.len());
        }
        response
            .body(body)
            .expect("header values are made here, of visible ASCII")
    }
}

/// Writes a time as Compute does: seven digits of the second and a numeric offset.
pub(crate) fn stamp(at: Timestamp) -> String {
    let text = at.strftime("%Y-%m-%dT%H:%M:%S");
    format!("{text}.{:07}+00:00", at.subsec_nanosecond() / 100)
}

pub(crate) fn set_not_found(name: &str, group: &str) -> Answer {
    not_found(
        &format!("Microsoft.Compute/virtualMachineScaleSets/{name}"),
        group,
    )
}

pub(crate) fn not_found(resource: &str, group: &str) -> Answer {
    let message = format!(
        "The Resource '{resource}' under resource group '{group}' was not found. For more details \
         please go to https://aka.ms/ARMResourceNotFoundFix"
    );
    Answer::error(StatusCode::NOT_FOUND, "ResourceNotFound", &message)
        .with("x-ms-failure-cause", "gateway")
}

pub(crate) fn group_not_found(group: &str) -> Answer {
    let message = format!("Resource group '{group}' could not be found.");
    Answer::error(StatusCode::NOT_FOUND, "ResourceGroupNotFound", &message)
        .with("x-ms-failure-cause", "gateway")
}

pub(crate) fn no_such_path() -> Answer {
    let message = "The request path does not match any resource type that is simulated.";
    Answer::error(StatusCode::NOT_FOUND, "InvalidResourceType", message)
}

pub(crate) fn method_not_allowed() -> Answer {
    let message = "The requested resource does not support this http method.";
    Answer::error(
        StatusCode::METHOD_NOT_ALLOWED,
        "UnsupportedHttpVerb",
        message,
    )
}

pub(crate) fn invalid(target: &str, message: &str) -> Answer {
    Answer::error(StatusCode::BAD_REQUEST, "InvalidParameter", message).about(target)
}

pub(crate) fn bad_request(message: &str) -> Answer {
    Answer::error(StatusCode::BAD_REQUEST, "BadRequest", message)
}

pub(crate) fn missing_parameter(name: &str) -> Answer {
    let message = format!("Required parameter '{name}' is missing (null).");
    invalid(name, &message)
}

pub(crate) fn instance_not_active(id: &str) -> Answer {
    let message = format!(
        "The provided instanceId {id} is not an active Virtual Machine Scale Set VM instanceId."
    );
    invalid("instanceIds", &message)
}

pub(crate) fn marked_for_deletion(action: &str, name: &str) -> Answer {
    let message = format!(
        "'{action}' is not allowed on Virtual Machine Scale Set '{name}' since it is marked for \
         deletion."
    );
    Answer::error(StatusCode::CONFLICT, "OperationNotAllowed", &message)
}

pub(crate) fn change_not_allowed(property: &str) -> Answer {
    let message = format!("Changing property '{property}' is not allowed.");
    Answer::error(StatusCode::CONFLICT, "PropertyChangeNotAllowed", &message).about(property)
}

pub(crate) fn concurrent() -> Answer {
    let message = "The request failed due to conflict with a concurrent request. To resolve it, \
                   please refer to https://aka.ms/activitylog to get more details on the \
                   conflicting requests.";
    Answer::error(StatusCode::CONFLICT, "Conflict", message)
}

pub(crate) fn etag_differs(given: &str, actual: &str) -> Answer {
    let message = format!(
        "Etag provided in if-match header {given} does not match etag {actual} of resource."
    );
    Answer::error(
        StatusCode::PRECONDITION_FAILED,
        "PreconditionFailed",
        &message,
    )
}

pub(crate) fn exists_already() -> Answer {
    let message = "The resource exists already, which if-none-match header * forbids.";
    Answer::error(
        StatusCode::PRECONDITION_FAILED,
        "PreconditionFailed",
        message,
    )
}
