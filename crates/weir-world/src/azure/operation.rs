//! How does a client ask after work that goes on?
//!
//! Two URLs per operation: one answers 200 with the status in the body, the other 202 and then
//! 200. Both carry a long signed query that must come back as it was handed out.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::{Answer, Answered, bad_request, not_found, stamp};
use super::call::Call;
use super::scale_set::{Failure, Phase, SetKey};
use crate::rng::Rng;

/// What an operation does, as far as its end and its collisions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    CreateSet,
    UpdateSet,
    DeleteSet,
    DeleteInstances,
    Act,
    DeleteInstance,
    ActOnInstance,
}

impl Kind {
    /// Returns what the scale set's state says meanwhile; nothing while one instance is worked on.
    pub(crate) fn phase(self) -> Option<Phase> {
        match self {
            Kind::CreateSet => Some(Phase::Creating),
            Kind::UpdateSet | Kind::DeleteInstances | Kind::Act | Kind::DeleteInstance => {
                Some(Phase::Updating)
            }
            Kind::DeleteSet => Some(Phase::Deleting),
            Kind::ActOnInstance => None,
        }
    }

    /// Says whether it is a write on the scale set rather than on one instance.
    pub(crate) fn is_on_set(self) -> bool {
        match self {
            Kind::CreateSet
            | Kind::UpdateSet
            | Kind::DeleteSet
            | Kind::DeleteInstances
            | Kind::Act => true,
            Kind::DeleteInstance | Kind::ActOnInstance => false,
        }
    }
}

/// How an operation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    InProgress,
    Succeeded,
    Failed(Failure),
    Canceled(Failure),
}

/// An operation.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(crate) guid: String,
    pub(crate) set: SetKey,
    pub(crate) kind: Kind,
    pub(crate) started: Timestamp,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) status: Status,
    /// What comes of it when its time is up.
    pub(crate) verdict: Result<(), Failure>,
    subscription: String,
    location: String,
    api_version: String,
    /// Draws the signature, which is too long to keep for each.
    signature: Rng,
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation")
            .field("guid", &self.guid)
            .field("set", &self.set.name)
            .field("kind", &self.kind)
            .field("started", &self.started)
            .field("ended", &self.ended)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl Operation {
    pub(crate) fn new(
        names: &mut Rng,
        call: &Call<'_>,
        set: (SetKey, &str, &str),
        kind: Kind,
        started: Timestamp,
    ) -> Operation {
        let (set, subscription, location) = set;
        let guid = names.uuid();
        let signature = Rng::from_seed_and_stream(names.next_u64(), "signature");
        Operation {
            guid,
            set,
            kind,
            started,
            ended: None,
            status: Status::InProgress,
            verdict: Ok(()),
            subscription: subscription.to_owned(),
            location: location.to_owned(),
            api_version: call.parameter("api-version").unwrap_or_default().to_owned(),
            signature,
        }
    }

    /// Returns the query of one of the two URLs, about 3 kB as in recorded answers.
    fn query(&self, form: Form) -> String {
        let mut rng = self.signature.clone();
        let monitor = match form {
            Form::Status => "",
            Form::Location => "&monitor=true",
        };
        format!(
            "p={}{monitor}&api-version={}&t={}&c={}&s={}&h={}",
            self.guid,
            self.api_version,
            self.started.as_millisecond(),
            rng.token(2_400),
            rng.token(342),
            rng.token(43),
        )
    }

    fn url(&self, base: &str, form: Form) -> String {
        format!(
            "{base}/subscriptions/{}/providers/Microsoft.Compute/locations/{}/operations/{}?{}",
            self.subscription,
            self.location,
            self.guid,
            self.query(form)
        )
    }

    /// Adds the headers of an accepted write: both URLs to a 202, only the status one to a PUT.
    pub(crate) fn announce(&self, answer: Answer, call: &Call<'_>, retry_after: u32) -> Answer {
        let status_url = self.url(&call.base, Form::Status);
        let answer = answer
            .with("azure-asyncoperation", status_url)
            .with("azure-asyncnotification", "Enabled")
            .with("retry-after", retry_after.to_string());
        match answer.status {
            StatusCode::ACCEPTED => answer.with("location", self.url(&call.base, Form::Location)),
            _ => answer,
        }
    }

    /// Answers a poll.
    pub(crate) fn poll(&self, call: &Call<'_>, retry_after: u32) -> Answered {
        let form = match call.parameter("monitor") {
            Some(_) => Form::Location,
            None => Form::Status,
        };
        if call.raw_query != self.query(form) {
            return Err(bad_request(
                "The signature of the operation's URL is not valid. Use the URL as it was given.",
            ));
        }
        Ok(match form {
            Form::Status => self.status_answer(retry_after),
            Form::Location => self.location_answer(call, retry_after),
        })
    }

    fn status_answer(&self, retry_after: u32) -> Answer {
        let (word, failure) = match &self.status {
            Status::InProgress => ("InProgress", None),
            Status::Succeeded => ("Succeeded", None),
            Status::Failed(failure) => ("Failed", Some(failure)),
            Status::Canceled(failure) => ("Canceled", Some(failure)),
        };
        let mut body = json!({
            "startTime": stamp(self.started), "status": word, "name": self.guid});
        if let Some(ended) = self.ended {
            body["endTime"] = json!(stamp(ended));
        }
        if let Some(failure) = failure {
            body["error"] = error_body(failure);
        }
        match self.status {
            Status::InProgress => Answer::ok(body).with("retry-after", retry_after.to_string()),
            _ => Answer::ok(body),
        }
    }

    fn location_answer(&self, call: &Call<'_>, retry_after: u32) -> Answer {
        match &self.status {
            Status::InProgress => Answer::bare(StatusCode::ACCEPTED)
                .with("location", self.url(&call.base, Form::Location))
                .with("retry-after", retry_after.to_string()),
            Status::Succeeded => Answer::bare(StatusCode::OK),
            Status::Failed(failure) | Status::Canceled(failure) => {
                Answer::error(StatusCode::CONFLICT, &failure.code, &failure.message)
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Form {
    Status,
    Location,
}

fn error_body(failure: &Failure) -> Value {
    json!({"code": failure.code, "message": failure.message})
}

pub(crate) fn preempted() -> Failure {
    Failure {
        code: "OperationPreempted".to_owned(),
        message: "Operation execution has been preempted by a more recent operation.".to_owned(),
    }
}

/// What a poll of an operation gets that was never there or is forgotten.
pub(crate) fn unknown(guid: &str) -> Answer {
    not_found(
        &format!("Microsoft.Compute/locations/operations/{guid}"),
        "",
    )
}
